/* Training as Keras does it: losses, metrics and their names, against numbers of Keras 3.15.1 on TensorFlow 2.21 (train_on_batch of
 * the same models on the same rows). */
#include "check.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void fine(void)
{
    static char text[1024];
    snprintf(text, sizeof text, "%s", lk_error());
    lk_clear_error(); /* so that the next test does not fail for it */
    if (*text) fail_msg("%s", text);
}

static void near_to(double got, double want)
{
    if (!(fabs(got - want) <= 2e-5 * fmax(1, fabs(want)))) fail_msg("%.9g instead of %.9g", got, want);
}

static double value_of(lk_logs logs, const char *name)
{
    const double value = lk_logs_get(&logs, name);
    if (isnan(value)) fail_msg("there is no \"%s\"; %s", name, lk_error());
    return value;
}

/* ---- predictions that are said to be logits and are not ---- */

static char warning[2048];
static int  warnings;

static void note_warning(const char *text, void *user)
{
    (void)user;
    warnings++;
    snprintf(warning, sizeof warning, "%s", text);
}

typedef struct logits_case {
    lk_loss *(*loss)(lk_loss_object_args args);
    lk_metric *(*metric)(lk_metric_args args);
    bool   one_hot;
    double want[2];
} logits_case;

static const logits_case LOGITS[] = {
    {lk_sparse_categorical_crossentropy_kw,
     lk_sparse_categorical_crossentropy_metric_kw,
     false,
     {4.396999359130859, 3.640594482421875}},
    {lk_categorical_crossentropy_kw, lk_categorical_crossentropy_metric_kw, true, {4.396999359130859, 3.640594482421875}},
    {lk_binary_crossentropy_kw, lk_binary_crossentropy_metric_kw, true, {2.377812385559082, 2.2794179916381836}},
};

static lk_tensor *kernel(void) { return lk_tensor_of(LK_SHAPE(3, 3), 1, 0.5, -1, 0, 2, 1, -0.5, 1, 1); }

static void trains_on_logits(const logits_case *c, lk_activation activation)
{
    lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 3), 1, 2, 3, 0.5, -1, 2), *y = lk_tensor_from(LK_SHAPE(2), LK_I32, (int32_t[]){0, 2});
    lk_model  *m = lk_sequential(lk_dense(3, .use_bias = LK_OFF, .activation = activation, .input_shape = LK_SHAPE(3)));
    lk_model_set_weights(m, LK_TUPLE(kernel()));
    lk_model_compile(m, .optimizer = lk_sgd(.learning_rate = 0.1), .loss = c->loss((lk_loss_object_args){.from_logits = LK_ON}),
                     .metrics = LK_METRICS(c->metric((lk_metric_args){.from_logits = LK_ON, .name = "again"})));
    for (int i = 0; i < 2; i++) {
        lk_logs logs = lk_model_train_on_batch(m, LK_TUPLE(x, c->one_hot ? lk_one_hot(y, 3) : y));
        fine();
        near_to(value_of(logs, "loss"), c->want[i]);
        near_to(value_of(logs, "again"), c->want[i]);
    }
}

/* In Keras the same for both activations: what went into either is taken as the logits. */
TEST(from_logits_looks_through_softmax_and_sigmoid)
{
    lk_set_log(note_warning, NULL);
    for (int i = 0; i < 3; i++)
        LK_POOL {
            warnings = 0;
            trains_on_logits(&LOGITS[i], LK_SOFTMAX);
            assert_int_equal(warnings, 1); /* once, for the loss and for the metric */
            assert_non_null(strstr(warning, "from_logits"));
            assert_non_null(strstr(warning, "softmax"));
            trains_on_logits(&LOGITS[i], LK_SIGMOID);
            trains_on_logits(&LOGITS[i], LK_LINEAR);
            assert_int_equal(warnings, 1);
        }
    lk_set_log(NULL, NULL);
}

/* ---- metrics ---- */

TEST(f1_of_a_single_output)
{
    LK_POOL {
        lk_tensor *y = lk_tensor_of(LK_SHAPE(4, 1), 1, 0, 1, 1), *p = lk_tensor_of(LK_SHAPE(4, 1), 0.9, 0.8, 0.2, 0.6);
        lk_metric *cut = lk_f1_score(.threshold = LK_NUMBER(0.5)), *all = lk_f1_score();
        lk_metric_update(cut, y, p);
        lk_metric_update(all, y, p);
        fine();
        near_to(lk_metric_result(cut), 0.6666666);
        near_to(lk_metric_result(all), 0.8571428);
        lk_model *m = lk_sequential(lk_dense(1, .activation = LK_SIGMOID, .input_shape = LK_SHAPE(1)));
        lk_model_compile(m, .loss = lk_binary_crossentropy(), .metrics = LK_METRICS(lk_f1_score(.threshold = LK_NUMBER(0.5))));
        lk_model_train_on_batch(m, LK_TUPLE(p, y));
        fine();
    }
}

/* ---- names ---- */

static void names_are(lk_logs logs, int count, const char *const *want)
{
    fine();
    assert_int_equal(logs.count, count);
    for (int i = 0; i < count; i++)
        assert_string_equal(logs.name[i], want[i]);
}

TEST(weighted_metrics_of_taken_names)
{
    static const char *const WANT[] = {"loss", "mae", "mae_1", "weighted_mae", "weighted_mae_1", "mse"};
    LK_POOL {
        lk_model *m = lk_sequential(lk_dense(1, .input_shape = LK_SHAPE(3)));
        lk_model_compile(m, .loss = lk_mean_squared_error(), .metrics = LK_METRICS(lk_metric_named("mae"), lk_metric_named("mae")),
                         .weighted_metrics = LK_METRICS(lk_metric_named("mae"), lk_metric_named("mae"), lk_metric_named("mse")));
        names_are(lk_model_train_on_batch(m, LK_TUPLE(lk_ones(LK_SHAPE(4, 3), LK_F32), lk_ones(LK_SHAPE(4, 1), LK_F32))), 6, WANT);
    }
}

/* Keras calls both losses "d_loss" and reports the second alone; here both are reported, as it does with metrics. */
TEST(one_tensor_as_two_outputs)
{
    static const char *const WANT[] = {"loss", "d_loss", "d_loss_1", "d_mae", "d_mae_1", "d_weighted_mae", "d_weighted_mae_1"};
    LK_POOL {
        lk_node  *x = lk_input(LK_SHAPE(3)), *d = lk_apply(lk_dense(1, .name = "d"), x);
        lk_model *m = lk_functional(LK_NODES(x), LK_NODES(d, d));
        lk_model_compile(m, .loss = lk_mean_squared_error(),
                         .metrics = LK_METRICS(lk_mean_absolute_error_metric(.name = "mae"),
                                               lk_mean_absolute_error_metric(.name = "mae", .output = 1)),
                         .weighted_metrics = LK_METRICS(lk_mean_absolute_error_metric(.name = "mae"),
                                                        lk_mean_absolute_error_metric(.name = "mae", .output = 1)));
        lk_tensor *y = lk_ones(LK_SHAPE(4, 1), LK_F32);
        names_are(lk_model_train_on_batch(m, LK_TUPLE(lk_ones(LK_SHAPE(4, 3), LK_F32), y, y)), 7, WANT);
    }
}

/* ---- TimeDistributed ---- */

static lk_tensor *counted(int64_t around, double over)
{
    float value[24];
    for (int i = 0; i < 24; i++)
        value[i] = (float)((double)(i % around) / over);
    return lk_tensor_from(LK_SHAPE(4, 3, 2), LK_F32, value);
}

static void steps_train(lk_layer *l, double rate, int count, const double *want, lk_model **trained)
{
    lk_model *m = lk_sequential(lk_time_distributed(l, .input_shape = LK_SHAPE(3, 2)));
    lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_sgd(.learning_rate = rate));
    for (int i = 0; i < count; i++) {
        lk_logs logs = lk_model_train_on_batch(m, LK_TUPLE(counted(7, 3), counted(5, 2)));
        fine();
        near_to(value_of(logs, "loss"), want[i]);
    }
    if (trained) *trained = m;
}

/* Every step by itself, and the moving averages move with each. */
TEST(steps_are_normalised_apart)
{
    static const double LOSS[] = {2.293286085128784, 0.9229689240455627, 0.5789554715156555},
                        WEIGHT[] = {0.08352717757225037, 0.25596702098846436, 0.8020833134651184, 0.875,
                                    0.8673502802848816,  0.9505208134651184,  0.3277045488357544, 0.2237413078546524},
                        PREDICTED[] = {0.6757204532623291, 0.5417580604553223, 0.7728460431098938,
                                       0.9017156362533569, 0.8699716329574585, 1.2616732120513916};
    LK_POOL {
        lk_model *m;
        steps_train(lk_batch_normalization(.momentum = LK_NUMBER(0.5)), 0.5, 3, LOSS, &m);
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 2; k++)
                near_to(((const float *)lk_data(lk_read(lk_model_weights(m).item[i])))[k], WEIGHT[2 * i + k]);
        lk_tensor *y = lk_model_predict(m, .x = counted(7, 3), .verbose = LK_SILENT);
        for (int i = 0; i < 6; i++)
            near_to(((const float *)lk_data(y))[i], PREDICTED[i]);
        fine();
    }
}

/* Keras adds the regulariser of the kernel and not that of the activity. */
TEST(the_activity_of_steps_is_not_regularised)
{
    static const double PLAIN[] = {2.090277671813965, 1.7154432535171509}, KERNEL[] = {2.130277633666992, 1.7460906505584717};
    LK_POOL {
        steps_train(lk_dense(2, .kernel_initializer = lk_init_ones()), 0.05, 2, PLAIN, NULL);
        steps_train(lk_dense(2, .kernel_initializer = lk_init_ones(), .activity_regularizer = lk_l2(0.01)), 0.05, 2, PLAIN, NULL);
        steps_train(lk_dense(2, .kernel_initializer = lk_init_ones(), .kernel_regularizer = lk_l2(0.01)), 0.05, 2, KERNEL, NULL);
    }
}

/* A mask for each step also where steps are run one after the other. */
TEST(steps_of_a_model_are_dropped_apart)
{
    LK_POOL {
        lk_layer    *block = lk_model_layer(lk_sequential(lk_dropout(0.5, .input_shape = LK_SHAPE(16)), lk_batch_normalization()));
        lk_layer    *l = lk_time_distributed(block);
        lk_tensor   *y = lk_layer_call(l, lk_ones(LK_SHAPE(2, 3, 16), LK_F32), LK_ON);
        const float *v = lk_data(y);
        fine();
        assert_true(memcmp(v, v + 16, 64) && memcmp(v, v + 32, 64) && memcmp(v + 16, v + 32, 64));
    }
}

TESTS(cmocka_unit_test(from_logits_looks_through_softmax_and_sigmoid), cmocka_unit_test(f1_of_a_single_output),
      cmocka_unit_test(weighted_metrics_of_taken_names), cmocka_unit_test(one_tensor_as_two_outputs),
      cmocka_unit_test(steps_are_normalised_apart), cmocka_unit_test(the_activity_of_steps_is_not_regularised),
      cmocka_unit_test(steps_of_a_model_are_dropped_apart))
