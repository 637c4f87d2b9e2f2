/* Memory does not grow: 50,000 compiled steps on two replicas over a distributed dataset, shuffled and repeated for ever, with
 * metrics; and steps run op by op. Resident memory after the first few thousand steps is that at the end, within 1 MiB. */
#include "check.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { STEPS = 2000, EAGER_STEPS = 500, WARM = 500, ALLOWED = 64 << 20 }; /* sanitizers keep what was freed */
#else
enum { STEPS = 50000, EAGER_STEPS = 5000, WARM = 5000, ALLOWED = 1 << 20 };
#endif

typedef struct loop {
    lk_strategy  *strategy;
    lk_variable  *w;
    lk_optimizer *optimizer;
    lk_metric    *mean;
} loop;

static long resident(void)
{
    long  pages = 0, total = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &total, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static lk_tuple step(lk_tuple batch, void *user)
{
    loop      *l = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *each = lk_reduce_sum(lk_square(lk_sub(lk_matmul(batch.item[0], lk_read(l->w)), batch.item[1])), .axis = LK_AXES(1));
    lk_tensor *loss =
        lk_add(lk_compute_average_loss(each, .global_batch_size = 16), lk_scale_regularization_loss(lk_nn_l2(lk_read(l->w), 0.01)));
    lk_optimizer_apply(l->optimizer, lk_tape_gradient(tape, loss, LK_VARIABLES(l->w)));
    lk_metric_update(l->mean, each);
    return LK_TUPLE(loss);
}

static lk_tuple distributed(lk_tuple batch, void *user)
{
    loop *l = user;
    return LK_TUPLE(lk_reduce(l->strategy, LK_SUM, lk_run(l->strategy, step, batch, l).item[0]));
}

static void quiet(const char *text, void *user) { (void)text, (void)user; }

static void run_steps(int steps, int warm, bool compiled)
{
    long before = 0;
    int  made = 0;
    lk_set_log(quiet, NULL);
    LK_POOL {
        loop l = {.strategy = lk_mirrored_strategy(.cpu_devices = 2)};
        LK_SCOPE(l.strategy) {
            l.w = lk_variable_of(lk_glorot_uniform(LK_SHAPE(8, 2), "w"));
            l.optimizer = lk_adam();
            l.mean = lk_mean();
        }
        lk_dataset *rows =
            lk_dataset_from_tensor_slices(LK_TUPLE(lk_random_normal(LK_SHAPE(100, 8)), lk_random_normal(LK_SHAPE(100, 2))));
        lk_dataset *data = lk_distribute_dataset(l.strategy, lk_dataset_repeat(lk_dataset_batch(lk_dataset_shuffle(rows, 50), 16)));
        lk_function *f = lk_function_of(distributed, &l);
        LK_FOR_EACH(batch, data) {
            if (compiled) lk_call(f, batch);
            else distributed(batch, &l);
            if (++made == warm) before = resident();
            if (made == steps || lk_failed()) break;
        }
        if (lk_failed()) fail_msg("%s", lk_error());
        long grown = resident() - before;
        if (grown > ALLOWED) fail_msg("%ld bytes more after %d steps than after %d", grown, steps, warm);
        print_message("%d %s steps: %+ld bytes resident\n", steps, compiled ? "compiled" : "eager", grown);
    }
    assert_int_equal(made, steps);
}

TEST(compiled_steps) { run_steps(STEPS, WARM, true); }

TEST(eager_steps) { run_steps(EAGER_STEPS, WARM / 5, false); }

TESTS(cmocka_unit_test(compiled_steps), cmocka_unit_test(eager_steps))
