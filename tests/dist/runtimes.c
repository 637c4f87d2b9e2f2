/* Two runtimes in two threads: both train at the same time, each with the bits it has alone, whatever their seeds, lanes and
 * threads. Of the times only this is checked: neither waits for the other. LOCKSTEP_TEST_TIMES=1: longer runs, whose times are
 * printed. */
#define _GNU_SOURCE 1 /* affinity */
#include "check.h"
#include "core/runtime.h"
#include "step/models.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void quiet(const char *text, void *user) { (void)text, (void)user; }

typedef struct job {
    lk_runtime_args settings;
    int             convolutions, replicas, steps, core;
    bool            with_fit;
    lk_digest       digest; /* what came out */
    double          seconds;
    int             failed;
} job;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static lk_digest train_steps(const job *j)
{
    model        m = model_new(j->convolutions, 64);
    lk_function *f = lk_function_of(model_step, &m);
    for (int i = 0; i < j->steps; i++)
        LK_STEP
            lk_call(f, model_batch(&m, 64, i % 4));
    return lk_variables_digest(model_variables(&m));
}

static lk_digest train_by_fit(const job *j)
{
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = j->replicas);
    lk_model    *m = NULL;
    LK_SCOPE(s) {
        m = lk_sequential(lk_conv2d(8, 3, .activation = LK_RELU, .input_shape = LK_SHAPE(12, 12, 1)), lk_max_pooling2d(),
                          lk_batch_normalization(), lk_flatten(), lk_dropout(0.3), lk_dense(10));
        lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = true), .metrics = LK_METRICS(lk_accuracy()));
    }
    lk_tensor  *x = lk_random_uniform(LK_SHAPE(256, 12, 12, 1), .stream = "x");
    lk_tensor  *y = lk_cast(lk_mul(lk_random_uniform(LK_SHAPE(256), .stream = "y"), lk_scalar(9.99)), LK_I32);
    lk_dataset *d = lk_dataset_batch(lk_dataset_shuffle(lk_dataset_from_tensor_slices(LK_TUPLE(x, y)), 256), 32);
    lk_model_fit(m, d, .epochs = j->steps, .verbose = LK_SILENT);
    return lk_model_digest(m);
}

/* The calling thread stays on one core; the library never moves it. */
static void stay_on(int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    if (core >= 0) pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void *run(void *arg)
{
    job *j = arg;
    if (j->core >= 0) stay_on(j->core);
    const double began = now();
    LK_POOL {
        lk_runtime *r = lk_runtime_kw(j->settings);
        LK_WITH_RUNTIME(r) j->digest = j->with_fit ? train_by_fit(j) : train_steps(j);
    }
    j->seconds = now() - began;
    j->failed = lk_failed();
    if (j->failed) print_error("%s\n", lk_error());
    lk_clear_error();
    return NULL;
}

static void run_alone(job *j)
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, run, j), 0);
    pthread_join(t, NULL);
    assert_false(j->failed);
}

/* Alone, then at the same time, several rounds: the same digests. */
static void check(const job *given, int count, int rounds)
{
    job       alone[4], together[4];
    pthread_t t[4];
    for (int i = 0; i < count; i++) {
        alone[i] = given[i];
        run_alone(&alone[i]);
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++) {
            together[i] = given[i];
            assert_int_equal(pthread_create(&t[i], NULL, run, &together[i]), 0);
        }
        for (int i = 0; i < count; i++)
            pthread_join(t[i], NULL);
        for (int i = 0; i < count; i++) {
            assert_false(together[i].failed);
            assert_true(lk_digest_equal(together[i].digest, alone[i].digest));
            for (int k = 0; k < i; k++)
                assert_false(lk_digest_equal(together[i].digest, together[k].digest));
        }
    }
}

TEST(the_models_of_the_documents)
{
    LONG_TEST();
    const job jobs[] = {{{.seed = 1, .threads = 1, .lanes = 8}, .convolutions = 1, .steps = 6, .core = -1},
                        {{.seed = 2, .threads = 2, .lanes = 16}, .convolutions = 2, .steps = 4, .core = -1}};
    check(jobs, 2, 2);
}

TEST(fit_with_seeds_lanes_and_replicas_of_their_own)
{
    const job jobs[] = {
        {{.seed = 1, .lanes = 8, .threads = 2, .log = quiet}, .with_fit = true, .replicas = 1, .steps = 2, .core = -1},
        {{.seed = 2, .lanes = 8, .threads = 1, .log = quiet}, .with_fit = true, .replicas = 2, .steps = 2, .core = -1},
        {{.seed = 1, .lanes = 4, .threads = 3, .log = quiet}, .with_fit = true, .replicas = 3, .steps = 2, .core = -1}};
    check(jobs, 3, 2);
}

/* Replicas and threads change no bits, so the seed is all that does. */
TEST(the_seed_alone_decides)
{
    job a = {{.seed = 3, .threads = 1, .log = quiet}, .with_fit = true, .replicas = 1, .steps = 1, .core = -1}, b = a;
    b.settings.threads = 3;
    b.replicas = 2;
    run_alone(&a);
    run_alone(&b);
    assert_true(lk_digest_equal(a.digest, b.digest));
    lk_set_log(quiet, NULL);
    lk_set_random_seed(3);
    LK_POOL
        assert_true(lk_digest_equal(train_by_fit(&a), a.digest)); /* the default runtime */
    lk_set_random_seed(20240229);
    lk_set_log(NULL, NULL);
}

#ifdef __linux__
TEST(each_on_a_core_of_its_own)
{
    enum { MOST = 8 };
    const lki_core_set all = lki_process_cores();
    const char        *show = getenv("LOCKSTEP_TEST_TIMES");
    int                core[MOST];
    char               text[2][16];
    LONG_TEST();
    if (lki_physical_cores(&all, core, MOST) < 2) skip();
    job job_of[2], alone[2];
    for (int i = 0; i < 2; i++) {
        snprintf(text[i], sizeof text[i], "%d", core[i]);
        job_of[i] =
            (job){{.seed = i, .cores = text[i]}, .convolutions = 1 + i, .steps = show ? i ? 150 : 400 : 20, .core = core[i]};
        alone[i] = job_of[i];
        run_alone(&alone[i]);
    }
    pthread_t    t[2];
    const double began = now();
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, run, &job_of[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    const double both = now() - began, longer = alone[0].seconds > alone[1].seconds ? alone[0].seconds : alone[1].seconds;
    if (show)
        printf("alone %.3f s and %.3f s, at the same time %.3f s: %.3f of the longer one\n", alone[0].seconds, alone[1].seconds,
               both, both / longer);
    for (int i = 0; i < 2; i++)
        assert_true(lk_digest_equal(job_of[i].digest, alone[i].digest));
    assert_true(both < 20 * longer + 5); /* machines of tests are busy: this finds what stands still */
}
#else
TEST(each_on_a_core_of_its_own) { skip(); }
#endif

TESTS(cmocka_unit_test(the_models_of_the_documents), cmocka_unit_test(fit_with_seeds_lanes_and_replicas_of_their_own),
      cmocka_unit_test(the_seed_alone_decides), cmocka_unit_test(each_on_a_core_of_its_own))
