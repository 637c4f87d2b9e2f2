/* Losses and optimisers in fit: the same bits on 1, 2, 3 and 8 replicas, at once and compiled, with a last batch that is short of
 * rows. Circle compares all rows with each other, and its sums depend on the number of replicas: it is left out. */
#include "check.h"
#include "core/base.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ALL = 26 };

typedef struct task {
    const char *what;
    lk_loss *(*loss)(void);
    lk_optimizer *(*optimizer)(void);
    lk_tensor *(*labels)(void);
    lk_shape row; /* of the model's output */
} task;

static lk_tensor *drawn(lk_shape shape, int call) { return lk_random_uniform(shape, .stream = "rows", .call = call); }

static lk_model *model_for(const task *t)
{
    const int64_t width = t->row.rank == 2 ? t->row.dim[0] * t->row.dim[1] : t->row.dim[0];
    lk_layer     *last = t->row.rank == 2 ? lk_reshape_layer(t->row) : lk_activation_layer(LK_SOFTMAX);
    return lk_sequential(lk_dense(7, .activation = LK_TANH, .input_shape = LK_SHAPE(5)), lk_dense(width), last);
}

static lk_tensor *first_rows(lk_tensor *x)
{
    return lk_gather(x, lk_tensor_from(LK_SHAPE(7), LK_I32, (int32_t[]){0, 1, 2, 3, 4, 5, 6}), 0);
}

static lk_digest fitted(const task *t, int replicas, bool eager, double *reported)
{
    lk_digest digest = {{0}};
    LK_POOL {
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = replicas, .lanes = 8);
        lk_model    *m = NULL;
        LK_SCOPE(s) {
            m = model_for(t);
            lk_model_compile(m, .optimizer = t->optimizer ? t->optimizer() : lk_sgd(.learning_rate = 0.1), .loss = t->loss(),
                             .run_eagerly = eager ? LK_ON : LK_OFF);
        }
        lk_history *h = lk_model_fit(m, .x = drawn(LK_SHAPE(ALL, 5), 0), .y = t->labels(), .batch_size = 11, .epochs = 2,
                                     .shuffle = LK_OFF, .verbose = LK_SILENT);
        if (!h) fail_msg("%s on %d replicas: %s", t->what, replicas, lk_error());
        digest = lk_model_digest(m);
        const lk_logs logs =
            lk_model_evaluate(m, .x = drawn(LK_SHAPE(7, 5), 1), .y = first_rows(t->labels()), .verbose = LK_SILENT);
        *reported = lk_logs_get(&logs, "loss");
    }
    assert_string_equal(lk_error(), "");
    return digest;
}

static void alike(const task *t)
{
    static const int counts[] = {1, 2, 3, 8};
    double           loss, first;
    const lk_digest  one = fitted(t, 1, false, &first);
    if (!isfinite(first)) fail_msg("%s: the loss is %g", t->what, first);
    for (int i = 0; i < LKI_COUNT(counts); i++)
        for (int eager = 0; eager < 2; eager++) {
            const lk_digest other = fitted(t, counts[i], eager, &loss);
            if (!lk_digest_equal(one, other) || memcmp(&first, &loss, sizeof loss))
                fail_msg("%s: other bits on %d replicas%s", t->what, counts[i], eager ? ", eagerly" : "");
        }
}

/* ---- losses ---- */

static lk_tensor *classes(void) { return lk_cast(lk_mul(drawn(LK_SHAPE(ALL), 2), lk_scalar(4)), LK_I32); }
static lk_tensor *one_hot(void) { return lk_one_hot(classes(), 4); }
static lk_tensor *maps(void) { return lk_cast(lk_greater(drawn(LK_SHAPE(ALL, 4, 3), 3), lk_scalar(0.5)), LK_F32); }
static lk_tensor *words(void) { return lk_cast(lk_mul(drawn(LK_SHAPE(ALL, 2), 4), lk_scalar(3)), LK_I32); }

static lk_loss *mse(void) { return lk_mean_squared_error(); }
static lk_loss *binary_focal(void) { return lk_binary_focal_crossentropy(.apply_class_balancing = LK_ON); }
static lk_loss *focal(void) { return lk_categorical_focal_crossentropy(); }
static lk_loss *generalized(void) { return lk_categorical_generalized_cross_entropy(); }
static lk_loss *dice(void) { return lk_dice(); }
static lk_loss *dice_sum(void) { return lk_dice(.reduction = LK_REDUCTION_SUM); }
static lk_loss *dice_per_class(void) { return lk_dice(.axis = LK_AXES(0, 2)); }
static lk_loss *tversky(void) { return lk_tversky(.alpha = 0.25, .beta = 0.75); }
static lk_loss *ctc(void) { return lk_ctc(); }
static lk_loss *across(void) { return lk_categorical_crossentropy(.axis = 1, .from_logits = LK_ON); }

TEST(losses)
{
    const lk_shape row = LK_SHAPE(4), map = LK_SHAPE(4, 3);
    const task     tasks[] = {
            {"binary_focal_crossentropy", binary_focal, NULL, one_hot, row},
            {"categorical_focal_crossentropy", focal, NULL, one_hot, row},
            {"categorical_generalized_cross_entropy", generalized, NULL, classes, row},
            {"dice", dice, NULL, one_hot, row},
            {"dice, summed", dice_sum, NULL, one_hot, row},
            {"dice per class", dice_per_class, NULL, maps, map},
            {"tversky", tversky, NULL, maps, map},
            {"ctc", ctc, NULL, words, map},
            {"categorical_crossentropy over axis 1", across, NULL, maps, map},
    };
    for (int i = 0; i < LKI_COUNT(tasks); i++)
        alike(&tasks[i]);
}

/* ---- optimisers ---- */

static lk_optimizer *adafactor(void) { return lk_adafactor(.learning_rate = 0.1); }
static lk_optimizer *muon(void) { return lk_muon(.learning_rate = 0.1, .gradient_accumulation_steps = 2); }
static lk_optimizer *schedule_free(void) { return lk_schedule_free_adamw(.learning_rate = 0.1, .warmup_steps = 2); }
static lk_optimizer *loss_scale(void) { return lk_loss_scale_optimizer(lk_adam(.learning_rate = 0.1), 1e37, 1); }
static lk_optimizer *factor(void) { return lk_sgd(.learning_rate = 0.1, .loss_scale_factor = 3); }
static lk_optimizer *multi(void)
{
    return lk_multi_optimizer(lk_sgd(.learning_rate = 0.1), 1, (const char *[]){".*/kernel"}, (lk_optimizer *[]){lk_adam()});
}

TEST(optimisers)
{
    const lk_shape row = LK_SHAPE(4);
    const task     tasks[] = {
            {"adafactor", mse, adafactor, one_hot, row},
            {"muon", mse, muon, one_hot, row},
            {"schedule_free_adamw", mse, schedule_free, one_hot, row},
            {"loss_scale_optimizer", mse, loss_scale, one_hot, row},
            {"loss_scale_factor", mse, factor, one_hot, row},
            {"multi_optimizer", mse, multi, one_hot, row},
    };
    for (int i = 0; i < LKI_COUNT(tasks); i++)
        alike(&tasks[i]);
}

static int quiet(void **state)
{
    (void)state;
    lk_set_log(NULL, NULL);
    return 0;
}

TESTS(cmocka_unit_test_setup(losses, quiet), cmocka_unit_test(optimisers))
