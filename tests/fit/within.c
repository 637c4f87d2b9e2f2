/* What happens around and inside a fit: callbacks that use the model, objects they make, options that belong to one fit only, data
 * that ends or never does. */
#include "model/model.h"
#include "refusal.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static lk_tensor *noise(lk_shape shape, const char *name) { return lk_random_normal(shape, .stream = name); }

static lk_model *classifier(void)
{
    lk_model *m = lk_sequential(lk_dense(3, .input_shape = LK_SHAPE(2)));
    lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_sgd(.learning_rate = 0.1),
                     .metrics = LK_METRICS(lk_accuracy()));
    return m;
}

static lk_tensor *rows(int64_t n) { return noise(LK_SHAPE(n, 2), "rows"); }
static lk_tensor *classes(int64_t n)
{
    return lk_cast(lk_greater(lk_reduce_sum(rows(n), .axis = LK_AXES(1)), lk_scalar(0)), LK_I64);
}
static lk_dataset *batches(int64_t n, int64_t size)
{
    return lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(rows(n), classes(n))), size);
}

/* ---- rows without elements ---- */

static void use_empty_rows(lk_model *m, lk_shape x, lk_shape y, const char *loss)
{
    lk_tensor *in = lk_zeros(x, LK_F32), *labels = lk_zeros(y, y.rank == 1 ? LK_I32 : LK_F32);
    lk_model_compile(m, .loss = lk_loss_named(loss), .optimizer = lk_adam(0.01),
                     .metrics = LK_METRICS(lk_metric_named("accuracy")));
    lk_model_fit(m, .x = in, .y = labels, .batch_size = 3, .verbose = LK_SILENT);
    lk_model_evaluate(m, .x = in, .y = labels, .verbose = LK_SILENT);
    lk_model_predict(m, .x = in, .verbose = LK_SILENT);
    lk_model_summary(m);
    lk_clear_error(); /* of a width of zero one thing or the other may be refused; nothing divides by it */
}

static void no_output(const char *text, void *user) { (void)text, (void)user; }

TEST(rows_may_be_empty)
{
    const char *const losses[] = {"mean_squared_error", "binary_crossentropy", "categorical_crossentropy", "cosine_similarity"};
    lk_set_output(no_output, NULL);
    for (int replicas = 1; replicas < 3; replicas++)
        LK_POOL
            LK_SCOPE(lk_mirrored_strategy(.cpu_devices = replicas)) {
                for (int i = 0; i < LKI_COUNT(losses); i++)
                    use_empty_rows(lk_sequential(lk_activation_layer(LK_SOFTMAX, .input_shape = LK_SHAPE(0))), LK_SHAPE(7, 0),
                                   LK_SHAPE(7, 0), losses[i]);
                use_empty_rows(lk_sequential(lk_activation_layer(LK_RELU, .input_shape = LK_SHAPE(0))), LK_SHAPE(7, 0), LK_SHAPE(7),
                               "sparse_categorical_crossentropy");
                use_empty_rows(lk_sequential(lk_dense(2, .input_shape = LK_SHAPE(0)), lk_batch_normalization()), LK_SHAPE(7, 0),
                               LK_SHAPE(7, 2), losses[0]);
                use_empty_rows(lk_sequential(lk_flatten(.input_shape = LK_SHAPE(3, 0, 2)), lk_layer_normalization()),
                               LK_SHAPE(7, 3, 0, 2), LK_SHAPE(7, 0), losses[0]);
                use_empty_rows(lk_sequential(lk_global_average_pooling2d(.input_shape = LK_SHAPE(0, 4, 2)), lk_dense(1)),
                               LK_SHAPE(7, 0, 4, 2), LK_SHAPE(7, 1), losses[0]);
                use_empty_rows(lk_sequential(lk_reshape_layer(LK_SHAPE(0, 5), .input_shape = LK_SHAPE(5, 0)), lk_lstm(2)),
                               LK_SHAPE(7, 5, 0), LK_SHAPE(7, 2), losses[0]);
            }
    lk_set_output(NULL, NULL);
}

/* ---- weights of one fit ---- */

TEST(class_weights_are_of_training_only)
{
    LK_POOL
        LK_STEP {
            lk_model   *m = classifier(), *plain = classifier();
            lk_history *h = lk_model_fit(m, .x = rows(8), .y = classes(8), .class_weight = LK_NUMBERS(0, 0, 0),
                                         .validation_x = rows(8), .validation_y = classes(8), .verbose = LK_SILENT);
            lk_logs     untrained = lk_model_evaluate(plain, .x = rows(8), .y = classes(8), .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            assert_true(lk_history_value(h, "loss", 0) == 0);
            assert_true(lk_history_value(h, "val_loss", 0) == lk_logs_get(&untrained, "loss"));
            lk_logs after = lk_model_evaluate(m, .x = rows(8), .y = classes(8), .verbose = LK_SILENT);
            assert_true(lk_logs_get(&after, "loss") == lk_logs_get(&untrained, "loss"));
            lk_logs step = lk_model_train_on_batch(m, LK_TUPLE(rows(8), classes(8)));
            assert_true(lk_logs_get(&step, "loss") > 0);
            REFUSED(LK_EINVAL, lk_model_fit(m, .x = rows(8), .y = classes(8), .class_weight = LK_NUMBERS(1, 2)),
                    "class_weight has 2 numbers", "3 classes");
            REFUSED(LK_EINVAL, lk_model_fit(m, .x = rows(8), .y = classes(8), .class_weight = LK_NUMBERS(1, -2, 3)),
                    "class 1 is -2");
        }
}

TEST(sample_weights_here_and_not_there)
{
    LK_POOL
        LK_STEP {
            lk_model   *m = classifier();
            lk_tensor  *w = lk_fill(LK_SHAPE(8), LK_F32, 2);
            lk_history *h = lk_model_fit(m, .x = rows(8), .y = classes(8), .sample_weight = w, .validation_x = rows(8),
                                         .validation_y = classes(8), .verbose = LK_SILENT);
            lk_history *g = lk_model_fit(m, .x = rows(8), .y = classes(8), .validation_x = rows(8), .validation_y = classes(8),
                                         .validation_sample_weight = w, .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            double loss = lk_history_value(g, "loss", 0);
            assert_true(fabs(lk_history_value(h, "val_loss", 0) - loss) < 1e-6); /* of the same weights, before the update */
            REFUSED(LK_ESHAPE,
                    lk_model_fit(m, .x = rows(8), .y = classes(8), .sample_weight = lk_ones(LK_SHAPE(8, 3), LK_F32),
                                 .verbose = LK_SILENT),
                    "sample weights of [8, 3]", "losses of [8]");
            REFUSED(LK_EINVAL, lk_model_fit(m, .x = rows(8), .y = classes(8), .validation_y = classes(8)),
                    "validation_y is given without validation_x");
        }
}

/* ---- callbacks that use the model ---- */

typedef struct seen {
    double     loss;
    lk_tensor *kept, *predicted;
    int        epochs;
} seen;

static void look(const lk_event *e, void *user)
{
    seen   *s = user;
    lk_logs logs = lk_model_evaluate(e->model, .x = rows(8), .y = classes(8), .verbose = LK_SILENT);
    s->loss = lk_logs_get(&logs, "loss");
    s->predicted = lk_keep(lk_model_predict(e->model, .x = rows(8), .verbose = LK_SILENT));
    s->kept = lk_keep(lk_scalar(s->epochs++));
}

TEST(a_callback_may_evaluate_and_predict)
{
    LK_POOL
        LK_STEP {
            seen         s = {0};
            lk_model    *m = classifier(), *alone = classifier();
            lk_callback *looking = lk_callback_of(.user = &s, .on_train_batch_end = look);
            lk_history  *h = lk_model_fit(m, batches(24, 8), .epochs = 2, .callbacks = LK_CALLBACKS(looking), .verbose = LK_SILENT);
            lk_history  *g = lk_model_fit(alone, batches(24, 8), .epochs = 2, .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            for (int i = 0; i < 2; i++) { /* what training counts is not disturbed */
                assert_true(lk_history_value(h, "loss", i) == lk_history_value(g, "loss", i));
                assert_true(lk_history_value(h, "accuracy", i) == lk_history_value(g, "accuracy", i));
            }
            lk_logs now = lk_model_evaluate(m, .x = rows(8), .y = classes(8), .verbose = LK_SILENT);
            assert_true(s.loss == lk_logs_get(&now, "loss"));
            assert_true(lk_item(s.kept) == 5); /* and what a callback made is still there */
            assert_int_equal(lk_dim(s.predicted, 0), 8);
        }
}

static void compile_again(const lk_event *e, void *user)
{
    (void)user;
    lk_model_compile(e->model, .loss = lk_mean_squared_error());
}

static void let_go(const lk_event *e, void *user)
{
    (void)user;
    if (e->epoch == 0) lk_free(e->model);
}

static void fit_again(const lk_event *e, void *user)
{
    (void)user;
    lk_model_fit(e->model, batches(8, 8), .verbose = LK_SILENT);
}

TEST(callbacks_that_go_too_far)
{
    LK_POOL
        LK_STEP {
            lk_model *m = classifier();
            lk_model_fit(m, batches(8, 8), .callbacks = LK_CALLBACKS(lk_callback_of(.on_epoch_end = compile_again)),
                         .verbose = LK_SILENT);
            REFUSED(LK_ESTATE, 0, "lk_model_compile", "is being trained");
            lk_model_fit(m, batches(8, 8), .callbacks = LK_CALLBACKS(lk_callback_of(.on_epoch_end = fit_again)),
                         .verbose = LK_SILENT);
            REFUSED(LK_ESTATE, 0, "lk_model_fit", "already");
            lk_model_fit(m, batches(8, 8), .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            lk_history *h = lk_model_fit(classifier(), batches(8, 8), .epochs = 2,
                                         .callbacks = LK_CALLBACKS(lk_callback_of(.on_epoch_end = let_go)), .verbose = LK_SILENT);
            assert_int_equal(lk_history_epochs(h), 2);
        }
}

/* ---- data ---- */

TEST(data_that_ends_with_the_epoch_begins_anew)
{
    LK_POOL
        LK_STEP {
            lk_model *m = classifier(), *plain = classifier();
            assert_int_equal(
                lk_history_epochs(lk_model_fit(m, batches(24, 8), .epochs = 3, .steps_per_epoch = 3, .verbose = LK_SILENT)), 3);
            lk_model_fit(plain, batches(24, 8), .epochs = 3, .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            assert_true(lk_digest_equal(lk_model_digest(m), lk_model_digest(plain)));
        }
}

TEST(data_that_never_ends)
{
    LK_POOL
        LK_STEP {
            lk_model   *m = classifier();
            lk_dataset *ever = lk_dataset_repeat(batches(8, 4));
            REFUSED(LK_EINVAL, lk_model_fit(m, ever), "never ends", ".steps_per_epoch");
            REFUSED(LK_EINVAL, lk_model_fit(m, batches(8, 4), .validation_data = ever), "never ends", ".validation_steps");
            REFUSED(LK_EINVAL, lk_model_evaluate(m, ever).count, "never ends", ".steps");
            REFUSED(LK_EINVAL, lk_model_predict(m, ever), "never ends", ".steps");
            lk_model_fit(m, ever, .steps_per_epoch = 3, .validation_data = ever, .validation_steps = 2, .verbose = LK_SILENT);
            assert_int_equal(lk_dim(lk_model_predict(m, ever, .steps = 3, .verbose = LK_SILENT), 0), 12);
            assert_string_equal(lk_error(), "");
        }
}

static int64_t in_use[2];
static void    note_memory(const lk_event *e, void *user)
{
    (void)user;
    if (e->epoch == 10) in_use[0] = lki_memory_in_use();
    if (e->epoch == 39) in_use[1] = lki_memory_in_use();
}

TEST(epochs_leave_nothing_behind)
{
    LK_POOL
        LK_STEP {
            lk_model_fit(classifier(), .x = rows(2000), .y = classes(2000), .batch_size = 500, .epochs = 40, .verbose = LK_SILENT,
                         .callbacks = LK_CALLBACKS(lk_callback_of(.on_epoch_begin = note_memory)));
            assert_string_equal(lk_error(), "");
            if (in_use[1] > in_use[0] + 40000) fail_msg("%lld bytes more after 29 epochs", (long long)(in_use[1] - in_use[0]));
        }
}

/* ---- labels ---- */

TEST(bad_labels_are_named_wherever_they_are)
{
    LK_POOL
        LK_STEP {
            int64_t    label[20] = {[13] = 9};
            lk_model  *m = classifier();
            lk_tensor *y = lk_tensor_from(LK_SHAPE(20), LK_I64, label), *odd = lk_cast(y, LK_F32);
            REFUSED(lk_error_code(), lk_model_fit(m, .x = rows(20), .y = y, .batch_size = 4, .verbose = LK_SILENT), "epoch 1, step",
                    "row 13", "9"); /* of the array, shuffled or not */
            REFUSED(lk_error_code(), lk_model_evaluate(m, .x = rows(20), .y = y, .batch_size = 4, .verbose = LK_SILENT).count,
                    "step 4", "row 13");
            REFUSED(lk_error_code(), lk_model_train_on_batch(m, LK_TUPLE(rows(20), y)).count, "row 13");
            lk_tensor *nan = lk_where(lk_equal(odd, lk_scalar(9)), lk_scalar(NAN), odd);
            lk_model_fit(m, .x = rows(20), .y = nan, .batch_size = 4, .verbose = LK_SILENT);
            assert_true(lk_failed());
            lk_clear_error();
        }
}

/* ---- which weights are trained ---- */

TEST(freezing_takes_effect_with_the_next_fit)
{
    LK_POOL
        LK_STEP {
            lk_layer *first = lk_dense(4, .input_shape = LK_SHAPE(2));
            lk_model *m = lk_sequential(first, lk_dense(3));
            lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_sgd());
            lk_model_fit(m, batches(8, 4), .verbose = LK_SILENT);
            assert_true(lk_layer_trainable(first));
            lk_layer_set_trainable(first, 0);
            assert_false(lk_layer_trainable(first));
            lk_digest before = lk_variables_digest(lk_layer_variables(first));
            lk_model_fit(m, batches(8, 4), .verbose = LK_SILENT); /* batches of the same size */
            assert_string_equal(lk_error(), "");
            assert_true(lk_digest_equal(before, lk_variables_digest(lk_layer_variables(first))));
        }
}

/* ---- names ---- */

TEST(names_of_metrics_stay_their_own)
{
    LK_POOL
        LK_STEP {
            lk_model *m = lk_sequential(lk_dense(1, .activation = LK_SIGMOID, .input_shape = LK_SHAPE(2)));
            lk_model_compile(m, .loss = lk_binary_crossentropy(),
                             .metrics = LK_METRICS(lk_auc(.name = "auc_pr"), lk_auc(), lk_auc()));
            lk_history *h = lk_model_fit(m, .x = rows(8), .y = classes(8), .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            static const char *const WANT[] = {"loss", "auc_pr", "auc", "auc_1"};
            for (int i = 0; i < 4; i++)
                assert_string_equal(lk_history_names(h).item[i], WANT[i]);
        }
}

static char printed[4096];
static void keep_output(const char *text, void *user)
{
    (void)user;
    strncat(printed, text, sizeof printed - strlen(printed) - 1);
}

TEST(histories_print_themselves)
{
    LK_POOL
        LK_STEP {
            lk_history *h = lk_model_fit(classifier(), batches(8, 4), .epochs = 2, .verbose = LK_SILENT);
            printed[0] = 0;
            lk_set_output(keep_output, NULL);
            lk_history_print(h);
            lk_set_output(NULL, NULL);
            assert_non_null(strstr(printed, "loss: "));
            assert_non_null(strstr(printed, "\naccuracy: "));
        }
}

/* ---- what compile refuses ---- */

TEST(values_that_mean_nothing)
{
    LK_POOL
        LK_STEP {
            lk_model *m = classifier();
            REFUSED(LK_EINVAL, lk_model_compile(m, .denominator = (lk_denominator)77), "no denominator 77");
            REFUSED(LK_EINVAL, lk_model_compile(m, .split = (lk_split_rule)77), "no split 77");
            REFUSED(LK_EINVAL, lk_model_compile(m, .loss = lk_hinge(), .loss_weights = LK_NUMBERS(NAN)), "loss weight 0");
            REFUSED(LK_EINVAL, lk_model_compile(m, .loss = lk_hinge(), .metrics = LK_METRICS(lk_mean())), "\"mean\"", "values");
            REFUSED(LK_EINVAL, lk_model_evaluate(m, batches(8, 4), .verbose = 9).count, "verbose is 9");
            REFUSED(LK_EINVAL, lk_model_evaluate(m, batches(8, 4), .steps = -9).count, "steps is -9");
            REFUSED(LK_EINVAL, lk_early_stopping(.baseline = LK_NUMBER(NAN)), "baseline");
            REFUSED(LK_EINVAL, lk_model_train_on_batch(m, LK_TUPLE()).count, "lk_model_train_on_batch", "empty");
            REFUSED(LK_ESHAPE, lk_model_predict_on_batch(m, lk_scalar(1)), "lk_model_predict_on_batch", "scalar");
        }
}

/* ---- models inside models ---- */

TEST(an_inner_model_draws_anew_by_itself)
{
    LK_POOL
        LK_STEP {
            lk_model *inner = lk_sequential(lk_dense(8), lk_dropout(0.5));
            lk_node  *x = lk_input(LK_SHAPE(2));
            assert_int_equal(lk_node_shape(x).rank, 1);
            lk_model *outer = lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_model_layer(inner), x)));
            assert_non_null(outer);
            lk_tensor *a = lk_model_call(inner, rows(8), .training = LK_ON), *b = lk_model_call(inner, rows(8), .training = LK_ON);
            assert_string_equal(lk_error(), "");
            assert_int_not_equal(memcmp(lk_data(a), lk_data(b), 64 * sizeof(float)), 0);
        }
}

TESTS(cmocka_unit_test(rows_may_be_empty), cmocka_unit_test(class_weights_are_of_training_only),
      cmocka_unit_test(sample_weights_here_and_not_there), cmocka_unit_test(a_callback_may_evaluate_and_predict),
      cmocka_unit_test(callbacks_that_go_too_far), cmocka_unit_test(data_that_ends_with_the_epoch_begins_anew),
      cmocka_unit_test(data_that_never_ends), cmocka_unit_test(epochs_leave_nothing_behind),
      cmocka_unit_test(bad_labels_are_named_wherever_they_are), cmocka_unit_test(freezing_takes_effect_with_the_next_fit),
      cmocka_unit_test(names_of_metrics_stay_their_own), cmocka_unit_test(histories_print_themselves),
      cmocka_unit_test(values_that_mean_nothing), cmocka_unit_test(an_inner_model_draws_anew_by_itself))
