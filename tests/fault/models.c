/* Every allocation fails in turn while models, losses and metrics are made, built, called and trained: reported as LK_ENOMEM,
 * nothing is leaked; and the same objects work again when there is memory. */
#include "check.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>

typedef struct trainer {
    lk_model     *model;
    lk_loss      *loss;
    lk_metric    *accuracy, *mean;
    lk_optimizer *optimizer;
} trainer;

static lk_model *model_new(void)
{
    return lk_sequential(
        lk_conv2d(2, 2, .activation = LK_RELU, .kernel_regularizer = lk_l1_l2(0.1, 0.2), .activity_regularizer = lk_l2(0.1)),
        lk_batch_normalization(.name = "norm"), lk_max_pooling2d(), lk_flatten(), lk_dropout(0.5),
        lk_dense(3, .bias_regularizer = lk_l1(0.1)));
}

static trainer trainer_new(void)
{
    return (trainer){.model = model_new(),
                     .loss =
                         lk_sparse_categorical_crossentropy(.from_logits = LK_ON, .reduction = LK_REDUCTION_NONE, .name = "loss"),
                     .accuracy = lk_sparse_categorical_accuracy(),
                     .mean = lk_mean(.name = "mean"),
                     .optimizer = lk_sgd(.momentum = 0.9)};
}

static lk_tuple batch(void)
{
    return LK_TUPLE(lk_rows(lk_random_uniform(LK_SHAPE(4, 3, 3, 1)), 0),
                    lk_rows(lk_tensor_from(LK_SHAPE(4), LK_I32, (int32_t[]){0, 1, 2, 0}), 0),
                    lk_rows(lk_tensor_from(LK_SHAPE(4), LK_BOOL, (uint8_t[]){1, 1, 0, 1}), 0));
}

static lk_tuple train(lk_tuple in, void *user)
{
    trainer   *t = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_model_call(t->model, in.item[0], .training = LK_ON);
    lk_tensor *each = lk_loss_call(t->loss, in.item[1], y, .mask = in.item[2]);
    lk_tensor *loss = lk_compute_average_loss(each, lk_ones(LK_SHAPE(4), LK_F32), .denominator = LK_EXACT);
    lk_model_add_loss(t->model, lk_reduce_mean(lk_square(y), .axis = LK_AXES(1)));
    loss = lk_add(loss, lk_scale_regularization_loss(lk_add_n(lk_model_losses(t->model))));
    lk_optimizer_apply(t->optimizer, tape ? lk_tape_gradient(tape, loss, lk_model_trainable_variables(t->model)) : NULL);
    lk_metric_update(t->accuracy, in.item[1], y);
    lk_metric_update(t->mean, each, .sample_weight = lk_cast(in.item[2], LK_F32));
    return LK_TUPLE(loss);
}

static int whole(const trainer *t) { return t->model && t->loss && t->accuracy && t->mean && t->optimizer; }

static int life(bool compiled)
{
    int good = 0;
    LK_POOL {
        trainer      t = trainer_new();
        lk_function *f = lk_function_of(train, &t);
        if (whole(&t) && f) {
            lk_tuple in = batch();
            good = 1;
            for (int i = 0; i < 2 && good; i++)
                good = !lk_poisoned((compiled ? lk_call(f, in) : train(in, &t)).item[0]) && !lk_failed();
            good = good && lk_metric_reset(t.mean) == LK_OK && lk_model_weights(t.model).count == 8;
        }
    }
    return good && !lk_failed();
}

static int at_once(void) { return life(false); }
static int compiled(void) { return life(true); }

TEST(training_at_once)
{
    assert_true(at_once());
    assert_true(check_every_allocation(at_once) > 200);
}

TEST(training_compiled)
{
    lk_set_threads(2);
    assert_true(compiled());
    assert_true(check_every_allocation(compiled) > 200);
    lk_set_threads(0);
}

/* A model that could not be built has no weights, and is built at the next call as if nothing had been. */
TEST(a_model_survives)
{
    for (int n = 1, done = 0; !done; n++)
        LK_POOL {
            trainer  t = trainer_new();
            lk_tuple in = batch();
            lki_memory_fail_after(n);
            lk_tensor *y = lk_model_call(t.model, in.item[0]);
            lki_memory_fail_after(0);
            done = !lk_poisoned(y);
            if (!done) assert_int_equal(lk_error_code(), LK_ENOMEM);
            lk_clear_error();
            int made = lk_model_weights(t.model).count;
            assert_true(made == 0 || made == 8);
            for (int i = 0; i < 2; i++)
                assert_true(isfinite(lk_item(train(in, &t).item[0])));
            assert_int_equal(lk_model_weights(t.model).count, 8);
            assert_false(lk_failed());
        }
}

/* Layers of a model that could not be made are free for another. */
TEST(layers_survive)
{
    for (int n = 1, done = 0; !done; n++)
        LK_POOL {
            lk_layer *a = lk_dense(2, .input_shape = LK_SHAPE(3)), *b = lk_dense(2, .name = "last");
            lki_memory_fail_after(n);
            lk_model *m = lk_sequential(a, b);
            lki_memory_fail_after(0);
            done = m != NULL;
            lk_clear_error();
            if (!m) m = lk_sequential(a, b);
            assert_string_equal(lk_variable_name(lk_model_weights(m).item[0]), "dense/kernel");
            assert_string_equal(lk_variable_name(lk_model_weights(m).item[2]), "last/kernel");
            assert_false(lk_failed());
        }
}

/* An update is counted whole or not at all. */
TEST(a_metric_survives)
{
    for (int n = 1, done = 0; !done; n++)
        LK_POOL {
            lk_metric *m = lk_mean();
            lk_tensor *x = lk_rows(lk_fill(LK_SHAPE(5, 2), LK_F32, 3), 0), *w = lk_ones(LK_SHAPE(5), LK_F32);
            lki_memory_fail_after(n);
            lk_status status = lk_metric_update(m, x, .sample_weight = w);
            lki_memory_fail_after(0);
            done = status == LK_OK;
            if (!done) assert_int_equal(status, LK_ENOMEM);
            lk_clear_error();
            assert_true(lk_metric_result(m) == (done ? 3 : 0));
            lk_metric_update(m, lk_scalar(3));
            assert_true(lk_metric_result(m) == 3);
            assert_false(lk_failed());
        }
}

TESTS(cmocka_unit_test(training_at_once), cmocka_unit_test(training_compiled), cmocka_unit_test(a_model_survives),
      cmocka_unit_test(layers_survive), cmocka_unit_test(a_metric_survives))
