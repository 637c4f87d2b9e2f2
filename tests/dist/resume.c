/* Saved on N, restored on M, for N and M in none, 1, 2, 3 and 4 replicas: the values are the same, and training resumes. Since the
 * bits do not depend on the number of replicas, it ends with the bits of the run that was never stopped. Sync-on-read variables are
 * saved as one value and divided again. */
#include "check.h"
#include "folder.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 20, BATCH = 8, FEATURES = 6, CLASSES = 3 };

typedef struct loop {
    int           replicas; /* 0: no strategy */
    lk_strategy  *strategy;
    lk_model     *model;
    lk_optimizer *optimizer;
    lk_loss      *loss;
    lk_dataset   *data;
} loop;

static lk_tuple step(lk_tuple batch, void *user)
{
    loop      *l = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_model_call(l->model, batch.item[0], .training = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(lk_loss_call(l->loss, batch.item[1], y), .global_batch_size = BATCH);
    loss = lk_add(loss, lk_scale_regularization_loss(lk_add_n(lk_model_losses(l->model))));
    lk_optimizer_apply(l->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(l->model)));
    return LK_TUPLE(loss);
}

static lk_tuple distributed(lk_tuple batch, void *user)
{
    loop *l = user;
    return LK_TUPLE(lk_reduce(l->strategy, LK_SUM, lk_run(l->strategy, step, batch, l).item[0]));
}

static void make(loop *l)
{
    l->loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON, .reduction = LK_REDUCTION_NONE);
    l->model = lk_sequential(lk_dense(7, .activation = LK_TANH, .kernel_regularizer = lk_l2(0.01)), lk_dense(CLASSES));
    l->optimizer = lk_adam(.learning_rate = 0.02);
}

static loop start(int replicas)
{
    loop    l = {.replicas = replicas};
    int32_t labels[ROWS];
    lk_set_random_seed(11);
    for (int i = 0; i < ROWS; i++)
        labels[i] = i * 7 % CLASSES;
    lk_tensor *x = lk_random_normal(LK_SHAPE(ROWS, FEATURES), .stream = "x");
    l.data = lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x, lk_tensor_from(LK_SHAPE(ROWS), LK_I32, labels))), BATCH);
    if (replicas) {
        l.strategy = lk_mirrored_strategy(.cpu_devices = replicas);
        l.data = lk_distribute_dataset(l.strategy, l.data);
        LK_SCOPE(l.strategy)
            make(&l);
    } else make(&l);
    return l;
}

static void epoch(loop *l)
{
    lk_function *f = l->replicas ? lk_function_of(distributed, l) : lk_function_of(step, l);
    LK_FOR_EACH(batch, l->data)
        lk_call(f, batch);
    if (lk_failed()) fail_msg("%d replicas: %s", l->replicas, lk_error());
}

static lk_checkpoint *checkpoint_of(loop *l) { return lk_checkpoint_of({"optimizer", l->optimizer}, {"model", l->model}); }

static void quiet(const char *text, void *user) { (void)text, (void)user; }

static lk_digest never_stopped(void)
{
    lk_digest d = {{0}};
    LK_POOL {
        loop l = start(1);
        epoch(&l);
        epoch(&l);
        d = lk_model_digest(l.model);
    }
    return d;
}

TEST(from_any_number_to_any_other)
{
    char        prefix[600];
    const char *folder = folder_new();
    lk_set_log(quiet, NULL);
    lk_digest whole = never_stopped();
    for (int n = 0; n <= 4; n++)
        for (int m = 0; m <= 4; m++)
            LK_POOL {
                snprintf(prefix, sizeof prefix, "%s/%d_%d", folder, n, m);
                loop before = start(n);
                epoch(&before);
                const char *path = lk_checkpoint_save(checkpoint_of(&before), prefix);
                assert_non_null(path);
                loop           after = start(m); /* nothing is built yet: values arrive when it is */
                lk_checkpoint *c = checkpoint_of(&after);
                assert_non_null(lk_checkpoint_restore(c, path));
                epoch(&after);
                if (!lk_digest_equal(lk_model_digest(after.model), whole))
                    fail_msg("saved on %d, restored on %d: other bits", n, m);
                assert_false(lk_failed());
            }
    folder_remove(folder);
}

TEST(on_read_variables_are_shared_out)
{
    static const double each[] = {0, 11, 5.5, 11.0 / 3};
    const char         *folder = folder_new();
    lk_set_log(quiet, NULL);
    for (int m = 0; m <= 3; m++)
        LK_POOL {
            char         prefix[600];
            lk_variable *v = NULL, *w = NULL;
            snprintf(prefix, sizeof prefix, "%s/sum", folder);
            lk_strategy *two = lk_mirrored_strategy(.cpu_devices = 2), *other = m ? lk_mirrored_strategy(.cpu_devices = m) : NULL;
            LK_SCOPE(two)
                v = lk_variable_of(lk_scalar(0), .synchronization = LK_SYNC_ON_READ, .aggregation = LK_AGGREGATION_SUM);
            lk_assign(v, lk_scalar(11));
            const char *path = lk_checkpoint_save(lk_checkpoint_of({"v", v}), prefix);
            if (other)
                LK_SCOPE(other)
                    w = lk_variable_of(lk_scalar(0), .synchronization = LK_SYNC_ON_READ, .aggregation = LK_AGGREGATION_SUM);
            else w = lk_variable_of(lk_scalar(0));
            assert_non_null(lk_checkpoint_restore(lk_checkpoint_of({"v", w}), path));
            assert_float_equal(lk_item(lk_read(w)), 11, 1e-5);
            if (other) assert_float_equal(lk_item(lk_local_variables(other, w).item[0]), each[m], 1e-5);
            if (lk_failed()) fail_msg("%s", lk_error());
        }
    folder_remove(folder);
}

TESTS(cmocka_unit_test(from_any_number_to_any_other), cmocka_unit_test(on_read_variables_are_shared_out))
