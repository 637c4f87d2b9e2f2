/* The guarantee: the bits of a training run depend on the program, the data and the lanes, not on the number of threads, nor on
 * whether it was compiled, nor on the instruction set. */
#include "check.h"
#include "core/cpu.h"
#include "core/thread.h"
#include "step/models.h"
#include <stdio.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STEPS = 6, EAGER_STEPS = 3, REPETITIONS = 5, FEW_STEPS = 2 };
#else
enum { STEPS = 100, EAGER_STEPS = 100, REPETITIONS = 50, FEW_STEPS = 6 };
#endif
enum { GLOBAL = 64 };

static lk_digest run(int convolutions, int threads, bool compiled, int steps)
{
    lk_digest digest = {{0}};
    lk_set_threads(threads);
    LK_POOL {
        model        m = model_new(convolutions, GLOBAL);
        lk_function *f = lk_function_of(model_step, &m);
        lk_tuple     batch[4];
        for (int i = 0; i < 4; i++)
            batch[i] = model_batch(&m, i == 3 ? 23 : GLOBAL, i); /* the last one is short: other lanes are empty */
        for (int i = 0; i < steps; i++)
            LK_STEP {
                lk_tuple out = compiled ? lk_call(f, batch[i % 4]) : model_step(batch[i % 4], &m);
                if (lk_poisoned(out.item[0])) print_error("%s\n", lk_error());
            }
        digest = lk_variables_digest(lk_optimizer_variables(m.optimizer));
        lk_digest weights = lk_variables_digest(model_variables(&m));
        for (int i = 0; i < 32; i++)
            digest.byte[i] ^= weights.byte[i];
    }
    assert_false(lk_failed());
    lk_set_threads(0);
    return digest;
}

static void assert_same(lk_digest a, lk_digest b) { assert_memory_equal(a.byte, b.byte, sizeof a.byte); }

/* 100 steps on each number of threads, then shorter runs up to 50 repetitions; all of them long with LOCKSTEP_SOAK=1. */
static void any_thread_count(int convolutions)
{
    static const int counts[] = {1, 2, 3, 4, 8};
    const int        brief = getenv("LOCKSTEP_SOAK") || STEPS < 20 ? STEPS : 20;
    lk_digest        longer = run(convolutions, 1, true, STEPS), shorter = run(convolutions, 1, true, brief);
    for (int i = 1; i < 5; i++)
        assert_same(longer, run(convolutions, counts[i], true, STEPS));
    for (int i = 5; i < REPETITIONS; i++)
        assert_same(shorter, run(convolutions, counts[i % 5], true, brief));
}

TEST(basic_model_on_any_number_of_threads) { any_thread_count(1); }

TEST(custom_model_on_any_number_of_threads) { any_thread_count(2); }

TEST(more_threads_than_lanes) { assert_same(run(2, 1, true, 3), run(2, 13, true, 3)); }

/* Layers whose weights are far larger than what they are multiplied with: threads share out their columns. */
static lk_tuple wide_step(lk_tuple in, void *user)
{
    model     *m = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *x = in.item[0];
    for (int i = 0; i < m->count; i += 2)
        x = lk_nn_dense(x, lk_read(m->weight[i]), lk_read(m->weight[i + 1]), i + 2 < m->count ? LK_RELU : LK_LINEAR);
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(in.item[1], x, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = m->global_batch);
    lk_optimizer_apply(m->optimizer, lk_tape_gradient(tape, loss, model_variables(m)));
    return LK_TUPLE(loss);
}

static lk_digest run_wide(int threads, bool compiled)
{
    lk_digest digest = {{0}};
    lk_set_threads(threads);
    LK_POOL {
        model m = {.global_batch = 24, .optimizer = lk_adam()};
        model_layer(&m, LK_SHAPE(200, 641), "first");
        model_layer(&m, LK_SHAPE(641, 500), "second");
        model_layer(&m, LK_SHAPE(500, 10), "last");
        lk_function *f = lk_function_of(wide_step, &m);
        for (int i = 0; i < 6; i++)
            LK_STEP {
                int64_t    rows = i % 3 == 2 ? 7 : 24;
                lk_tensor *x = lk_random_uniform(LK_SHAPE(rows, 200), .stream = "images", .call = i),
                          *y = lk_zeros(LK_SHAPE(rows), LK_I32);
                lk_tuple out = compiled ? lk_call(f, LK_TUPLE(x, y)) : wide_step(LK_TUPLE(x, y), &m);
                if (lk_poisoned(out.item[0])) print_error("%s\n", lk_error());
            }
        digest = lk_variables_digest(model_variables(&m));
    }
    assert_false(lk_failed());
    lk_set_threads(0);
    return digest;
}

TEST(wide_layers_on_any_number_of_threads)
{
    lk_digest eager = run_wide(1, false);
    for (int threads = 1; threads <= 13; threads += threads < 5 ? 1 : 4)
        assert_same(eager, run_wide(threads, true));
}

TEST(eager_equals_compiled)
{
    for (int convolutions = 1; convolutions <= 2; convolutions++)
        assert_same(run(convolutions, 1, false, EAGER_STEPS), run(convolutions, 2, true, EAGER_STEPS));
}

TEST(lanes_are_part_of_the_bits)
{
    lk_digest eight = run(1, 2, true, 3);
    lk_set_lanes(16);
    lk_digest sixteen = run(1, 2, true, 3), again = run(1, 3, true, 3);
    lk_set_lanes(8);
    assert_same(sixteen, again);
    assert_memory_not_equal(eight.byte, sixteen.byte, sizeof eight.byte);
}

/* The instruction set is read once, so other ones are tried in other processes. */
static lk_digest run_capped(const char *isa, int convolutions, int threads, int steps)
{
    char      command[512], self[256];
    lk_digest digest = {{0}};
    ssize_t   n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    snprintf(command, sizeof command, "LOCKSTEP_ISA=%s LOCKSTEP_BITS='%d %d %d' '%s'", isa, convolutions, threads, steps, self);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    for (int i = 0; i < 32; i++) {
        unsigned byte = 0;
        assert_int_equal(fscanf(pipe, "%2x", &byte), 1);
        digest.byte[i] = (uint8_t)byte;
    }
    assert_int_equal(pclose(pipe), 0);
    return digest;
}

TEST(instruction_sets)
{
    for (int convolutions = 1; convolutions <= 2; convolutions++) {
        if (lki_cpu_isa_machine() >= LKI_ISA_AVX2) {
            lk_digest once = run_capped("avx2", convolutions, 2, STEPS);
            assert_same(once, run_capped("avx2", convolutions, 3, STEPS));
            assert_same(once, run(convolutions, 1, true, STEPS));
        }
        assert_same(run_capped("reference", convolutions, 2, FEW_STEPS), run(convolutions, 2, true, FEW_STEPS));
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const char *child = getenv("LOCKSTEP_BITS");
    int         convolutions, threads, steps;
    if (child && sscanf(child, "%d %d %d", &convolutions, &threads, &steps) == 3) {
        lk_digest d = run(convolutions, threads, true, steps);
        for (int i = 0; i < 32; i++)
            printf("%02x", d.byte[i]);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(basic_model_on_any_number_of_threads),
        cmocka_unit_test(custom_model_on_any_number_of_threads),
        cmocka_unit_test(more_threads_than_lanes),
        cmocka_unit_test(wide_layers_on_any_number_of_threads),
        cmocka_unit_test(eager_equals_compiled),
        cmocka_unit_test(lanes_are_part_of_the_bits),
        cmocka_unit_test(instruction_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
