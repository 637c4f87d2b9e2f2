/* Runtimes on cards, each with a seed, a number of lanes and a precision of its own. Two threads, each under its own runtime, train
 * at the same time, on one card, on a card each or on both; each gets the digest it has alone. And a compiled function has a plan
 * for each precision it is called under. tests/dist/runtimes.c tests the same on CPUs. */
#include "small.h"
#include <pthread.h>

/* ---- two threads ---- */

enum { JOBS = 2, ROUNDS = 2, CARDS = 2 };

typedef struct job {
    lk_runtime_args settings;
    const char     *device; /* NULL: all */
    bool            loop;
    outcome         out;
} job;

static void *run(void *arg)
{
    job *j = arg;
    j->out = (outcome){0};
    LK_POOL
        LK_WITH_RUNTIME(lk_runtime_kw(j->settings))
        {
            lk_strategy *s = j->device ? lk_one_device_strategy(j->device) : lk_mirrored_strategy();
            if (j->loop) small_loop(s, false, &j->out);
            else small_fit(s, LK_OFF, &j->out);
        }
    SOUND();
    return NULL;
}

static void run_together(job *jobs, int count)
{
    pthread_t t[JOBS];
    for (int i = 0; i < count; i++)
        NEED(!pthread_create(&t[i], NULL, run, &jobs[i]));
    for (int i = 0; i < count; i++)
        NEED(!pthread_join(t[i], NULL));
}

static bool same_results(const outcome *a, const outcome *b)
{
    return a->count > 0 && a->count == b->count && lk_digest_equal(a->digest, b->digest) &&
           !memcmp(a->value, b->value, (size_t)a->count * sizeof *a->value);
}

/* Each alone, then at the same time. With the precision of the other a job has other bits: its own had an effect. */
static void check_jobs(const void *arg, outcome *out)
{
    job alone[JOBS], together[JOBS];
    (void)out;
    memcpy(alone, arg, sizeof alone);
    for (int i = 0; i < JOBS; i++) {
        job other = alone[i];
        other.settings.precision = alone[1 - i].settings.precision;
        run_together(&alone[i], 1);
        run_together(&other, 1);
        NEED(!same_results(&other.out, &alone[i].out));
    }
    for (int round = 0; round < ROUNDS; round++) {
        memcpy(together, arg, sizeof together);
        run_together(together, JOBS);
        for (int i = 0; i < JOBS; i++)
            NEED(same_results(&together[i].out, &alone[i].out));
    }
}

/* Both by fit, both in a loop, and one by fit and the other in a loop. */
static void check(lk_runtime_args a, const char *device_a, lk_runtime_args b, const char *device_b)
{
    a.log = b.log = child_silent;
    for (int way = 0; way < 3; way++) {
        const job jobs[JOBS] = {{a, device_a, .loop = way == 1}, {b, device_b, .loop = way > 0}};
        CHILD(check_jobs, jobs, NULL, .cards = CARDS);
    }
}

static const lk_runtime_args F32 = {.seed = 1, .lanes = 8, .threads = 1, .precision = LK_PRECISION_F32},
                             TF32 = {.seed = 2, .lanes = 4, .threads = 2, .precision = LK_PRECISION_TF32};

TEST(on_one_card) { check(F32, "GPU:0", TF32, "GPU:0"); }
TEST(on_a_card_each)
{
    LONG_TEST();
    check(F32, "GPU:0", TF32, "GPU:1");
}
TEST(on_both_cards)
{
    LONG_TEST();
    check(F32, NULL, TF32, NULL);
}

/* If the precision alone differs, so do the digests: no thread multiplies as the other does. */
TEST(the_precision_alone_differs)
{
    lk_runtime_args tf32 = F32;
    LONG_TEST();
    tf32.precision = LK_PRECISION_TF32;
    check(F32, "GPU:0", tf32, "GPU:0");
}

/* ---- a plan for each precision ---- */

enum { SIZE = 48 };

static lk_tuple gradients(lk_tuple in, void *user)
{
    lk_variable *w = user;
    lk_tape     *tape = lk_tape_begin();
    lk_tensor   *now = lk_read(w), *y = lk_matmul(in.item[0], now);
    return LK_TUPLE(y, lk_tape_gradient_of(tape, lk_reduce_sum(lk_square(y)), LK_TUPLE(now), NULL).item[0]);
}

typedef struct results {
    float product[SIZE * SIZE], gradient[SIZE * SIZE];
} results;

static void call(lk_function *f, lk_tensor *x, results *out)
{
    LK_STEP {
        const lk_tuple y = lk_call(f, LK_TUPLE(x));
        SOUND();
        memcpy(out->product, lk_data(y.item[0]), sizeof out->product);
        memcpy(out->gradient, lk_data(y.item[1]), sizeof out->gradient);
    }
}

static void call_under(lk_precision p, lk_function *f, lk_tensor *x, results *out)
{
    LK_WITH_RUNTIME(lk_runtime_of(.precision = p, .log = child_silent))
    call(f, x, out);
}

/* The largest difference, in parts of the largest entry. */
static double difference(const float *ours, const float *right)
{
    double most = 0, largest = 0;
    for (int i = 0; i < SIZE * SIZE; i++) {
        most = fmax(most, fabs((double)ours[i] - (double)right[i]));
        largest = fmax(largest, fabs((double)right[i]));
    }
    return most / largest;
}

static bool is_within(const results *r, const results *right, double least, double most)
{
    const double product = difference(r->product, right->product), gradient = difference(r->gradient, right->gradient);
    return product >= least && product <= most && gradient >= least && gradient <= most;
}

static bool same_bits(const results *a, const results *b) { return !memcmp(a, b, sizeof *a); }

static void check_plans(const void *arg, outcome *out)
{
    static results cpu, f32, tf32, bf16, again;
    lk_tensor     *x = lk_random_normal(LK_SHAPE(SIZE, SIZE), .stream = "x");
    lk_variable   *w = lk_variable_of(lk_random_normal(LK_SHAPE(SIZE, SIZE), .stream = "w"));
    lk_function   *f = lk_function_of(gradients, w), *other = lk_function_of(gradients, w);
    lk_strategy   *gpu = lk_one_device_strategy("GPU:0"),
                *own = lk_mirrored_strategy(.devices = LK_DEVICES("GPU:0"), .precision = LK_PRECISION_BF16);
    (void)arg, (void)out;
    call(lk_function_of(gradients, w), x, &cpu);
    LK_SCOPE(gpu) {
        call_under(LK_PRECISION_F32, f, x, &f32);
        call_under(LK_PRECISION_TF32, f, x, &tf32);
        NEED(lk_function_inspect(f).plans == 2 && lk_function_inspect(f).traces == 2);
        NEED(is_within(&f32, &cpu, 0, 2e-6) && is_within(&tf32, &cpu, 2e-5, 1e-2));
        /* in the other order */
        call_under(LK_PRECISION_TF32, other, x, &again);
        NEED(same_bits(&again, &tf32));
        call_under(LK_PRECISION_F32, other, x, &again);
        NEED(same_bits(&again, &f32));
        /* once more, and with the precision set in another way */
        call_under(LK_PRECISION_F32, f, x, &again);
        NEED(same_bits(&again, &f32));
        NEED(lk_set_precision(LK_PRECISION_TF32) == LK_OK);
        call(f, x, &again);
        NEED(same_bits(&again, &tf32));
        NEED(lk_function_inspect(f).plans == 2 && lk_function_inspect(f).traces == 2);
    }
    LK_SCOPE(own) /* a strategy's own comes before that of the runtime */
        call(f, x, &bf16);
    NEED(lk_function_inspect(f).plans == 3 && is_within(&bf16, &cpu, 2e-4, 4e-2));
    LK_SCOPE(gpu)
        call(f, x, &again);
    NEED(same_bits(&again, &tf32) && lk_function_inspect(f).traces == 3);
}

TEST(a_function_has_a_plan_for_each_precision) { CHILD(check_plans, NULL, NULL, .cards = 1); }

TESTS(cmocka_unit_test(on_one_card), cmocka_unit_test(on_a_card_each), cmocka_unit_test(on_both_cards),
      cmocka_unit_test(the_precision_alone_differs), cmocka_unit_test(a_function_has_a_plan_for_each_precision))
