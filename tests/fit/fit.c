/* compile, fit, evaluate and predict: the reference numbers of the specification (15.3), the same for every split, and errors. */
#include "core/log.h"
#include "folder.h"
#include "refusal.h"
#include "source_folder.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NO_STRATEGY = 0 };

/* ---- Dense(1) without bias, weight 1; rows x = 1..n, target 0; SGD 0.001; mse ---- */

typedef struct line {
    int64_t        batch, rows;
    double         l2;
    lk_denominator denominator;
    int            replicas; /* -1: any */
    double         loss, mae, weight;
} line;

static const line TABLE[] = {
    {4, 7, 0, LK_EXACT, -1, 19.532106, 3.961428, 0.9127667},        {4, 7, 0, LK_PER_REPLICA, 1, 19.532106, 3.961428, 0.9127667},
    {4, 7, 0, LK_PER_REPLICA, 2, 19.532106, 3.961428, 0.9066925},   {6, 7, 0.5, LK_EXACT, -1, 20.063799, 3.968667, 0.8727686},
    {6, 7, 0.5, LK_PER_REPLICA, 1, 20.063799, 3.968667, 0.8727686}, {6, 7, 0.5, LK_PER_REPLICA, 2, 20.063799, 3.968667, 0.9202333},
    {6, 6, 0.5, LK_EXACT, -1, 15.666667, 3.5, 0.9686667},           {6, 6, 0.5, LK_PER_REPLICA, 2, 15.666667, 3.5, 0.9686667},
};

static lk_model *one_weight(int replicas, double l2, lk_denominator denominator)
{
    lk_model    *m = NULL;
    lk_strategy *s = replicas ? lk_mirrored_strategy(.cpu_devices = replicas) : NULL;
    if (s) lk_scope_begin(s);
    m = lk_sequential(lk_dense(1, .use_bias = LK_OFF, .kernel_regularizer = l2 > 0 ? lk_l2(l2) : NULL, .input_shape = LK_SHAPE(1)));
    if (s) lk_scope_end(s);
    lk_model_set_weights(m, LK_TUPLE(lk_ones(LK_SHAPE(1, 1), LK_F32)));
    lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_sgd(.learning_rate = 0.001),
                     .metrics = LK_METRICS(lk_mean_absolute_error_metric(.name = "mae")), .denominator = denominator,
                     .split = denominator == LK_PER_REPLICA ? LK_SPLIT_EVEN : LK_SPLIT_LANES);
    return m;
}

static lk_tensor *counted(int64_t rows) { return lk_reshape(lk_add(lk_range(rows, LK_F32), lk_scalar(1)), LK_SHAPE(-1, 1)); }
static lk_tensor *targets(int64_t rows) { return lk_zeros(LK_SHAPE(rows, 1), LK_F32); }

static double weight_of(lk_model *m) { return lk_item(lk_read(lk_model_weights(m).item[0])); }

static void near(double value, double want)
{
    if (fabs(value - want) > 1e-5 * fmax(1, fabs(want))) fail_msg("%.8g, not %.8g", value, want);
}

static void line_holds(const line *l, int replicas)
{
    LK_POOL
        LK_STEP {
            lk_model   *m = one_weight(replicas, l->l2, l->denominator);
            lk_history *h = lk_model_fit(m, .x = counted(l->rows), .y = targets(l->rows), .batch_size = l->batch, .shuffle = LK_OFF,
                                         .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            near(lk_history_value(h, "loss", 0), l->loss);
            near(lk_history_value(h, "mae", 0), l->mae);
            near(weight_of(m), l->weight);
        }
}

TEST(reference_numbers)
{
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        for (int n = 0; n <= 4; n++)
            if (TABLE[i].replicas < 0 || TABLE[i].replicas == n) line_holds(&TABLE[i], n);
}

TEST(evaluate_is_exact_for_any_split)
{
    for (int n = 0; n <= 8; n++)
        LK_POOL
            LK_STEP {
                lk_model *m = one_weight(n, 0, LK_EXACT);
                lk_logs   logs = lk_model_evaluate(m, .x = counted(7), .y = targets(7), .batch_size = 4, .verbose = LK_SILENT);
                assert_int_equal(logs.count, 2);
                assert_string_equal(logs.name[0], "loss");
                near(lk_logs_get(&logs, "loss"), 20);
                near(lk_logs_get(&logs, "mae"), 4);
                assert_true(isnan(lk_logs_get(&logs, "accuracy")));
                near(weight_of(m), 1);
            }
}

TEST(predict_keeps_the_order)
{
    for (int n = 0; n <= 8; n++)
        for (int64_t batch = 1; batch <= 8; batch++)
            LK_POOL
                LK_STEP {
                    lk_model  *m = one_weight(n, 0, LK_EXACT);
                    lk_tensor *y = lk_model_predict(m, .x = counted(7), .batch_size = batch, .verbose = LK_SILENT);
                    assert_string_equal(lk_error(), "");
                    assert_int_equal(lk_dim(y, 0), 7);
                    assert_int_equal(lk_dim(y, 1), 1);
                    for (int i = 0; i < 7; i++)
                        assert_true(((const float *)lk_data(y))[i] == (float)(i + 1));
                }
}

/* ---- a model that draws and normalises: the same bits for any number of replicas ---- */

static lk_tensor *noise(lk_shape shape, const char *name) { return lk_random_normal(shape, .stream = name); }

static lk_model *lively(void)
{
    return lk_sequential(lk_dense(16, .activation = LK_RELU, .input_shape = LK_SHAPE(6), .activity_regularizer = lk_l2(1e-3)),
                         lk_batch_normalization(.momentum = LK_NUMBER(0.9)), lk_dropout(0.3),
                         lk_dense(4, .kernel_regularizer = lk_l2(1e-3)));
}

typedef struct outcome {
    lk_digest weights;
    double    loss, accuracy, val_loss;
} outcome;

static lk_tensor *classes_of(lk_tensor *x) { return lk_argmax(lk_slice(x, LK_AXES(0, 0), LK_AXES(-1, 4)), .axis = LK_AXIS(1)); }

static outcome train_lively(int replicas, lk_switch eagerly, int per_execution)
{
    outcome o = {0};
    LK_POOL
        LK_STEP {
            lk_model    *m = NULL;
            lk_strategy *s = replicas ? lk_mirrored_strategy(.cpu_devices = replicas) : NULL;
            lk_tensor   *x = noise(LK_SHAPE(100, 6), "x");
            if (s)
                LK_SCOPE(s)
                    m = lively();
            else m = lively();
            lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON),
                             .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()),
                             .run_eagerly = eagerly, .steps_per_execution = per_execution);
            lk_history *h = lk_model_fit(m, .x = x, .y = classes_of(x), .batch_size = 24, .epochs = 3, .validation_split = 0.2,
                                         .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            assert_int_equal(lk_history_epochs(h), 3);
            o.weights = lk_variables_digest(lk_model_variables(m));
            o.loss = lk_history_value(h, "loss", 2);
            o.accuracy = lk_history_value(h, "accuracy", 2);
            o.val_loss = lk_history_value(h, "val_loss", 2);
        }
    return o;
}

static void same(outcome a, outcome b)
{
    assert_true(lk_digest_equal(a.weights, b.weights));
    assert_true(a.loss == b.loss);
    assert_true(a.accuracy == b.accuracy);
    assert_true(a.val_loss == b.val_loss);
}

TEST(every_number_of_replicas_gives_the_same_bits)
{
    outcome alone = train_lively(NO_STRATEGY, LK_OFF, 1);
    for (int n = 1; n <= 8; n = n < 4 ? n + 1 : 2 * n)
        same(train_lively(n, LK_OFF, 1), alone);
    same(train_lively(2, LK_ON, 1), alone);
    same(train_lively(2, LK_OFF, 3), alone);
}

/* ---- data ---- */

static lk_model *classifier(void)
{
    lk_model *m = lk_sequential(lk_dense(3, .input_shape = LK_SHAPE(2)));
    lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_sgd(.learning_rate = 0.1),
                     .metrics = LK_METRICS(lk_accuracy()));
    return m;
}

static lk_dataset *batches(int64_t rows, int64_t size)
{
    lk_tensor *x = noise(LK_SHAPE(rows, 2), "batches");
    lk_tensor *y = lk_cast(lk_greater(lk_reduce_sum(x, .axis = LK_AXES(1)), lk_scalar(0)), LK_I64);
    return lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x, y)), size);
}

typedef struct told {
    int     train_begin, train_end, epoch_begin, epoch_end, batch_end, test_end;
    int64_t last_batch, batches, step;
    double  val_loss;
    int     stop_at; /* epoch; -1: never */
} told;

static void on_train_begin(const lk_event *e, void *user) { (void)e, ((told *)user)->train_begin++; }
static void on_train_end(const lk_event *e, void *user) { (void)e, ((told *)user)->train_end++; }
static void on_epoch_begin(const lk_event *e, void *user) { (void)e, ((told *)user)->epoch_begin++; }
static void on_test_end(const lk_event *e, void *user) { (void)e, ((told *)user)->test_end++; }
static void on_batch_end(const lk_event *e, void *user)
{
    told *t = user;
    t->batch_end++;
    t->last_batch = e->batch;
    t->step = e->step;
    assert_true(lk_in_cross_replica_context() || !lk_has_strategy());
}
static void on_epoch_end(const lk_event *e, void *user)
{
    told *t = user;
    t->epoch_end++;
    t->batches = e->batches;
    t->val_loss = lk_logs_get(&e->logs, "val_loss");
    if (e->epoch == t->stop_at) lk_model_stop_training(e->model);
}

static lk_callback *listener(told *t)
{
    return lk_callback_of(.user = t, .on_train_begin = on_train_begin, .on_train_end = on_train_end,
                          .on_epoch_begin = on_epoch_begin, .on_epoch_end = on_epoch_end, .on_train_batch_end = on_batch_end,
                          .on_test_end = on_test_end);
}

TEST(callbacks_hear_everything_once)
{
    LK_POOL
        LK_STEP {
            told        t = {.stop_at = -1};
            lk_history *h = lk_model_fit(classifier(), batches(20, 8), .epochs = 2, .validation_data = batches(10, 4),
                                         .callbacks = LK_CALLBACKS(listener(&t)), .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            assert_int_equal(t.train_begin, 1);
            assert_int_equal(t.train_end, 1);
            assert_int_equal(t.epoch_begin, 2);
            assert_int_equal(t.epoch_end, 2);
            assert_int_equal(t.batch_end, 6);
            assert_int_equal(t.last_batch, 2);
            assert_int_equal(t.batches, 3);
            assert_int_equal(t.step, 6);
            assert_int_equal(t.test_end, 2);
            assert_true(t.val_loss == lk_history_value(h, "val_loss", 1));
            lk_names                 names = lk_history_names(h);
            static const char *const WANT[] = {"loss", "accuracy", "val_loss", "val_accuracy"};
            assert_int_equal(names.count, 4);
            for (int i = 0; i < 4; i++)
                assert_string_equal(names.item[i], WANT[i]);
            assert_int_equal(lk_history_epoch(h, 1), 1);
            lk_fit_times times = lk_history_times(h);
            assert_int_equal(times.rows, 40);
            assert_int_equal(times.steps, 6);
            assert_true(times.total > 0 && times.step + times.input + times.compile <= times.total);
        }
}

TEST(stopping_and_beginning_later)
{
    LK_POOL
        LK_STEP {
            told      t = {.stop_at = 1};
            lk_model *m = classifier();
            assert_int_equal(lk_history_epochs(lk_model_fit(m, batches(20, 8), .epochs = 5, .callbacks = LK_CALLBACKS(listener(&t)),
                                                            .verbose = LK_SILENT)),
                             2);
            lk_history *h = lk_model_fit(m, batches(20, 8), .epochs = 5, .initial_epoch = 3, .verbose = LK_SILENT);
            assert_int_equal(lk_history_epochs(h), 2);
            assert_int_equal(lk_history_epoch(h, 0), 3);
            told some = {.stop_at = -1};
            lk_model_fit(m, batches(20, 8), .epochs = 5, .stop_after_steps = 4, .callbacks = LK_CALLBACKS(listener(&some)),
                         .verbose = LK_SILENT);
            assert_int_equal(some.batch_end, 4);
            assert_int_equal(some.train_end, 1);
            told every = {.stop_at = -1};
            lk_model_fit(m, batches(40, 8), .epochs = 4, .validation_data = batches(8, 8), .validation_freq = 2,
                         .callbacks = LK_CALLBACKS(listener(&every)), .verbose = LK_SILENT);
            assert_int_equal(every.test_end, 2);
            assert_string_equal(lk_error(), "");
        }
}

/* ---- the log ---- */

static char warned[1024];
static void keep_warning(const char *text, void *user)
{
    (void)user;
    size_t used = strlen(warned);
    snprintf(warned + used, sizeof warned - used, "%s\n", text);
}

/* Rows 0..5 one by one; which of them an epoch of steps sees. */
static lk_tuple note_rows(lk_model *m, lk_tuple in, int training, void *user)
{
    (void)m, (void)training, (void)user;
    return LK_TUPLE(lk_identity(in.item[0]));
}

TEST(steps_per_epoch_goes_on_where_it_stopped)
{
    LK_POOL
        LK_STEP {
            lk_model *m = lk_model_of(note_rows);
            lk_model_compile(m, .loss = lk_mean_absolute_error(), .metrics = LK_METRICS(lk_mean_absolute_error_metric()));
            lk_tensor  *x = lk_reshape(lk_range(6, LK_F32), LK_SHAPE(6, 1));
            lk_dataset *d = lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x, targets(6))), 1);
            lk_history *h = lk_model_fit(m, d, .epochs = 3, .steps_per_epoch = 2, .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            for (int i = 0; i < 3; i++) /* means of 0 1, 2 3, 4 5 */
                near(lk_history_value(h, "loss", i), 2 * i + 0.5);
            warned[0] = 0;
            lk_set_log(keep_warning, NULL);
            h = lk_model_fit(m, d, .epochs = 3, .steps_per_epoch = 4, .verbose = LK_SILENT);
            lk_set_log(NULL, NULL);
            assert_int_equal(lk_history_epochs(h), 2);
            near(lk_history_value(h, "loss", 1), 4.5);
            assert_non_null(strstr(warned, "the input ran out of data after 2 of 4 steps of epoch 2"));
            assert_false(lk_failed());
        }
}

TEST(weights_of_rows_and_classes)
{
    LK_POOL
        LK_STEP {
            lk_tensor *x = noise(LK_SHAPE(12, 2), "x"),
                      *y = lk_cast(lk_greater(lk_reduce_sum(x, .axis = LK_AXES(1)), lk_scalar(0)), LK_I64);
            lk_tensor  *w = lk_add(lk_mul(lk_cast(y, LK_F32), lk_scalar(4)), lk_scalar(1)); /* 1 and 5 */
            lk_model   *by_row = classifier(), *by_class = classifier(), *by_data = classifier();
            lk_history *a =
                lk_model_fit(by_row, .x = x, .y = y, .sample_weight = w, .batch_size = 5, .shuffle = LK_OFF, .verbose = LK_SILENT);
            lk_history *b = lk_model_fit(by_class, .x = x, .y = y, .class_weight = LK_NUMBERS(1, 5, 1), .batch_size = 5,
                                         .shuffle = LK_OFF, .verbose = LK_SILENT);
            lk_history *c =
                lk_model_fit(by_data, lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x, y, w)), 5), .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            assert_true(lk_digest_equal(lk_model_digest(by_row), lk_model_digest(by_class)));
            assert_true(lk_digest_equal(lk_model_digest(by_row), lk_model_digest(by_data)));
            assert_true(lk_history_value(a, "loss", 0) == lk_history_value(b, "loss", 0));
            assert_true(lk_history_value(a, "loss", 0) == lk_history_value(c, "loss", 0));
            lk_model *plain = classifier(); /* and they do change something; without them again is as if they never were */
            lk_model_fit(plain, .x = x, .y = y, .batch_size = 5, .shuffle = LK_OFF, .verbose = LK_SILENT);
            assert_false(lk_digest_equal(lk_model_digest(by_row), lk_model_digest(plain)));
        }
}

TEST(validation_split_takes_the_last_rows)
{
    LK_POOL
        LK_STEP {
            lk_model *m = lk_model_of(note_rows);
            lk_model_compile(m, .loss = lk_mean_absolute_error());
            lk_history *h =
                lk_model_fit(m, .x = counted(10), .y = targets(10), .batch_size = 3, .validation_split = 0.3, .verbose = LK_SILENT);
            near(lk_history_value(h, "loss", 0), 4);     /* 1..7 */
            near(lk_history_value(h, "val_loss", 0), 9); /* 8, 9, 10 */
        }
}

TEST(distributed_datasets_are_taken_as_they_are)
{
    LK_POOL
        LK_STEP {
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
            lk_model    *m = NULL, *plain = classifier();
            LK_SCOPE(s)
                m = classifier();
            lk_model_fit(m, lk_distribute_dataset(s, batches(20, 8)), .verbose = LK_SILENT);
            lk_model_fit(plain, batches(20, 8), .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            assert_true(lk_digest_equal(lk_model_digest(m), lk_model_digest(plain)));
        }
}

TEST(single_batches)
{
    for (int n = 0; n <= 3; n++)
        LK_POOL
            LK_STEP {
                lk_model *fitted = one_weight(n, 0, LK_EXACT), *stepped = one_weight(n, 0, LK_EXACT);
                lk_model_fit(fitted, .x = counted(7), .y = targets(7), .batch_size = 7, .verbose = LK_SILENT, .shuffle = LK_OFF);
                lk_logs test = lk_model_test_on_batch(stepped, LK_TUPLE(counted(7), targets(7)));
                near(lk_logs_get(&test, "loss"), 20);
                lk_logs logs = lk_model_train_on_batch(stepped, LK_TUPLE(counted(7), targets(7)));
                assert_string_equal(lk_error(), "");
                near(lk_logs_get(&logs, "loss"), 20);
                assert_true(weight_of(fitted) == weight_of(stepped));
                assert_int_equal(lk_dim(lk_model_predict_on_batch(stepped, counted(3)), 0), 3);
            }
}

/* ---- several inputs and outputs ---- */

static lk_model *two_by_two(void)
{
    lk_node *a = lk_input(LK_SHAPE(2), .name = "a"), *b = lk_input(LK_SHAPE(3), .name = "b");
    lk_node *h = lk_apply(lk_concatenate(), lk_apply(lk_dense(4, .activation = LK_TANH), a),
                          lk_apply(lk_dense(4, .activation = LK_TANH), b));
    return lk_functional(LK_NODES(a, b),
                         LK_NODES(lk_apply(lk_dense(1, .name = "left"), h), lk_apply(lk_dense(3, .name = "right"), h)));
}

TEST(several_inputs_and_outputs)
{
    double loss = 0;
    for (int n = 0; n <= 3; n++)
        LK_POOL
            LK_STEP {
                lk_model    *m = NULL;
                lk_strategy *s = n ? lk_mirrored_strategy(.cpu_devices = n) : NULL;
                if (s)
                    LK_SCOPE(s)
                        m = two_by_two();
                else m = two_by_two();
                lk_model_compile(
                    m, .losses = LK_LOSSES(lk_mean_squared_error(), lk_sparse_categorical_crossentropy(.from_logits = LK_ON)),
                    .loss_weights = LK_NUMBERS(1, 0.5), .optimizer = lk_sgd(),
                    .metrics = LK_METRICS(lk_mean_absolute_error_metric(.name = "mae"), lk_accuracy(.output = 1)));
                lk_tensor *a = noise(LK_SHAPE(10, 2), "a"), *b = noise(LK_SHAPE(10, 3), "b");
                lk_tensor *x = lk_nest(LK_TUPLE(a, b)),
                          *y = lk_nest(LK_TUPLE(noise(LK_SHAPE(10, 1), "y"), lk_argmax(b, .axis = LK_AXIS(1))));
                lk_history *h = lk_model_fit(m, .x = x, .y = y, .batch_size = 4, .epochs = 2, .verbose = LK_SILENT);
                assert_string_equal(lk_error(), "");
                near(lk_history_value(h, "loss", 1),
                     lk_history_value(h, "left_loss", 1) + 0.5 * lk_history_value(h, "right_loss", 1));
                assert_false(isnan(lk_history_value(h, "left_mae", 1)));
                assert_false(isnan(lk_history_value(h, "right_accuracy", 1)));
                if (n == 0) loss = lk_history_value(h, "loss", 1);
                assert_true(lk_history_value(h, "loss", 1) == loss);
                lk_tuple out = lk_nested(lk_model_predict(m, .x = x, .batch_size = 3, .verbose = LK_SILENT));
                assert_int_equal(out.count, 2);
                assert_int_equal(lk_dim(out.item[1], 1), 3);
                assert_int_equal(lk_dim(out.item[0], 0), 10);
            }
}

/* ---- compile outside the scope, as the basic tutorial does ---- */

TEST(compiled_outside_the_scope)
{
    LK_POOL
        LK_STEP {
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
            lk_model    *m = NULL;
            LK_SCOPE(s)
                m = lk_sequential(lk_dense(3, .input_shape = LK_SHAPE(2)));
            assert_null(lk_model_loss(m, 0));
            lk_model_compile(m, .loss = lk_loss_named("mse"), .optimizer = lk_optimizer_named("adam", 0),
                             .metrics = LK_METRICS(lk_metric_named("mae")));
            lk_history *h = lk_model_fit(m, .x = noise(LK_SHAPE(9, 2), "x"), .y = noise(LK_SHAPE(9, 3), "y"), .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            assert_false(isnan(lk_history_value(h, "mae", 0)));
            assert_int_equal(lk_optimizer_iterations(lk_model_optimizer(m)), 1);
            assert_string_equal(lk_loss_name(lk_model_loss(m, 0)), lk_loss_name(lk_loss_named("mse")));
            assert_null(lk_model_loss(m, 1));
            assert_null(lk_model_loss(m, -1));
        }
}

/* ---- what is refused ---- */

TEST(refusals)
{
    LK_POOL
        LK_STEP {
            lk_model   *bare = lk_sequential(lk_dense(3, .input_shape = LK_SHAPE(2))), *m = classifier();
            lk_tensor  *x = noise(LK_SHAPE(4, 2), "x"), *y = lk_zeros(LK_SHAPE(4), LK_I64);
            lk_dataset *d = batches(8, 4);
            REFUSED(LK_ESTATE, lk_model_fit(bare, d), "not compiled", "lk_model_compile");
            REFUSED(LK_ESTATE, lk_model_evaluate(bare, d).count, "lk_model_evaluate", "not compiled");
            lk_model_compile(bare, .optimizer = lk_sgd());
            REFUSED(LK_EINVAL, lk_model_fit(bare, d), "without a loss");
            REFUSED(LK_EINVAL, lk_model_fit(m), "neither a dataset nor x");
            REFUSED(LK_EINVAL, lk_model_fit(m, d, .y = y), "a dataset brings its own labels");
            REFUSED(LK_EINVAL, lk_model_fit(m, .x = x), "x is given without y");
            REFUSED(LK_ESHAPE, lk_model_fit(m, .x = x, .y = lk_zeros(LK_SHAPE(5), LK_I64)), "y has 5 rows, x has 4");
            REFUSED(
                LK_EINVAL,
                lk_model_fit(m, .x = x, .y = y, .sample_weight = lk_ones(LK_SHAPE(4), LK_F32), .class_weight = LK_NUMBERS(1, 1, 1)),
                "class_weight and sample_weight together");
            REFUSED(LK_EINVAL, lk_model_fit(m, d, .class_weight = LK_NUMBERS(1, 2, 3)), "class_weight goes with arrays");
            REFUSED(LK_EINVAL, lk_model_fit(m, d, .validation_split = 0.5), "validation_split cuts arrays");
            REFUSED(LK_EINVAL, lk_model_fit(m, .x = x, .y = y, .validation_split = 1), "validation_split is 1");
            REFUSED(LK_EINVAL, lk_model_fit(m, d, .epochs = -1), "epochs is -1");
            REFUSED(LK_ESHAPE, lk_model_fit(m, lk_dataset_unbatch(d)), "single rows", "lk_dataset_batch");
            REFUSED(LK_EINVAL, lk_model_fit(m, lk_dataset_zip(d, d)), "have 4 tensors", "1 input");
            REFUSED(LK_EINVAL, lk_model_compile(m, .loss = lk_hinge(), .losses = LK_LOSSES(lk_hinge())), "not both");
            REFUSED(LK_EINVAL, lk_model_compile(m, .losses = LK_LOSSES(lk_hinge(), lk_hinge())), "2 losses", "1 output");
            REFUSED(LK_EINVAL, lk_model_compile(m, .loss = lk_hinge(), .metrics = LK_METRICS(lk_accuracy(.output = 2))),
                    "output 2");
            REFUSED(LK_EINVAL, lk_model_fit(m, lk_dataset_take(d, 0), .verbose = LK_SILENT), "the dataset is empty");
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
            REFUSED(LK_ESTATE, lk_model_fit(m, lk_distribute_dataset(s, d)), "distributed over");
        }
}

/* ---- mistakes in the middle of training ---- */

TEST(a_bad_label_is_named)
{
    for (int n = 0; n <= 2; n += 2)
        LK_POOL
            LK_STEP {
                int64_t      label[10] = {0, 1, 2, 0, 1, 2, 0, 7, 1, 2};
                lk_model    *m = NULL;
                lk_strategy *s = n ? lk_mirrored_strategy(.cpu_devices = n) : NULL;
                if (s)
                    LK_SCOPE(s)
                        m = classifier();
                else m = classifier();
                told t = {.stop_at = -1};
                lk_model_fit(m, .x = noise(LK_SHAPE(10, 2), "x"), .y = lk_tensor_from(LK_SHAPE(10), LK_I64, label), .batch_size = 4,
                             .shuffle = LK_OFF, .verbose = LK_SILENT, .callbacks = LK_CALLBACKS(listener(&t)));
                assert_true(lk_failed());
                REFUSED(lk_error_code(), 0, "lk_model_fit: epoch 1, step 2", "row 7", "7");
                assert_int_equal(t.train_end, 1);
                lk_model_fit(m, batches(8, 4), .verbose = LK_SILENT); /* and it continues from there */
                assert_string_equal(lk_error(), "");
            }
}

TEST(a_loss_that_is_not_a_number_is_told_once)
{
    LK_POOL
        LK_STEP {
            lk_model *m = one_weight(0, 0, LK_EXACT);
            lk_optimizer_set_learning_rate(lk_model_optimizer(m), 1e30);
            warned[0] = 0;
            lk_set_log(keep_warning, NULL);
            lk_model_fit(m, .x = counted(8), .y = targets(8), .batch_size = 2, .epochs = 3, .verbose = LK_SILENT);
            lk_set_log(NULL, NULL);
            assert_false(lk_failed());
            assert_non_null(strstr(warned, "from epoch 1, step"));
        }
}

static lk_tuple broken(lk_model *m, lk_tuple in, int training, void *user)
{
    (void)m, (void)training, (void)user;
    return LK_TUPLE(lk_matmul(in.item[0], in.item[0]));
}

static void fails(const lk_event *e, void *user)
{
    (void)e, (void)user;
    lk_add(lk_zeros(LK_SHAPE(2), LK_F32), lk_zeros(LK_SHAPE(3), LK_F32));
}

TEST(errors_say_where)
{
    LK_POOL
        LK_STEP {
            lk_model *m = lk_model_of(broken);
            lk_model_compile(m, .loss = lk_mean_squared_error());
            lk_model_fit(m, .x = noise(LK_SHAPE(8, 2), "x"), .y = targets(8), .verbose = LK_SILENT);
            REFUSED(LK_ESHAPE, 0, "epoch 1, step 1", "matmul");
            told t = {.stop_at = -1};
            lk_model_fit(classifier(), batches(8, 4), .verbose = LK_SILENT,
                         .callbacks = LK_CALLBACKS(lk_callback_of(.on_epoch_begin = fails), listener(&t)));
            REFUSED(LK_ESHAPE, 0, "broadcast");
            assert_int_equal(t.train_end, 1);
            assert_int_equal(t.batch_end, 0);
        }
}

/* ---- the softmax of the last layer is looked through ---- */

TEST(probabilities_of_a_softmax_are_safe)
{
    LK_POOL
        LK_STEP {
            lk_tensor *x = lk_tensor_of(LK_SHAPE(1, 2), 200, -200), *label = lk_ones(LK_SHAPE(1), LK_I64);
            near(lk_item(lk_nn_sparse_categorical_crossentropy(label, lk_activate(x, LK_SOFTMAX))), 400);
            near(lk_item(lk_nn_binary_crossentropy(lk_ones(LK_SHAPE(1, 1), LK_F32),
                                                   lk_activate(lk_tensor_of(LK_SHAPE(1, 1), -200), LK_SIGMOID))),
                 200);
            near(lk_item(lk_nn_sparse_categorical_crossentropy(label, lk_tensor_of(LK_SHAPE(1, 2), 1, 0))), 16.118095);
        }
}

/* ---- gradients of several steps ---- */

TEST(accumulated_gradients_do_not_depend_on_replicas)
{
    double weight = 0;
    for (int n = 0; n <= 3; n++)
        LK_POOL
            LK_STEP {
                lk_model *m = one_weight(n, 0.5, LK_EXACT);
                lk_model_compile(m, .loss = lk_mean_squared_error(),
                                 .optimizer = lk_sgd(.learning_rate = 0.001, .gradient_accumulation_steps = 2));
                lk_model_fit(m, .x = counted(7), .y = targets(7), .batch_size = 2, .shuffle = LK_OFF, .verbose = LK_SILENT);
                assert_string_equal(lk_error(), "");
                if (n == 0) weight = weight_of(m);
                assert_true(weight_of(m) == weight && weight != 1);
            }
}

/* ---- histories in files ---- */

TEST(histories_are_read_from_files)
{
    LK_POOL
        LK_STEP {
            char path[512];
            snprintf(path, sizeof path, "%s/history.csv", folder_new());
            lk_history *h = lk_model_fit(classifier(), batches(20, 8), .epochs = 3, .validation_data = batches(8, 8),
                                         .callbacks = LK_CALLBACKS(lk_csv_logger(path)), .verbose = LK_SILENT);
            lk_history *read = lk_history_read(path);
            assert_string_equal(lk_error(), "");
            assert_int_equal(lk_history_epochs(read), 3);
            assert_int_equal(lk_history_names(read).count, 4);
            for (int i = 0; i < 3; i++)
                assert_true(lk_history_value(read, "val_loss", i) == lk_history_value(h, "val_loss", i));
            REFUSED(LK_EFORMAT, lk_history_read(LK_SOURCE_FOLDER "/README.md"), "README.md", "line 1", "epoch");
            REFUSED(LK_ENOTFOUND, lk_history_read("/no/such/history.csv"), "/no/such/history.csv");
        }
}

TESTS(cmocka_unit_test(accumulated_gradients_do_not_depend_on_replicas), cmocka_unit_test(histories_are_read_from_files),
      cmocka_unit_test(reference_numbers), cmocka_unit_test(evaluate_is_exact_for_any_split),
      cmocka_unit_test(predict_keeps_the_order), cmocka_unit_test(every_number_of_replicas_gives_the_same_bits),
      cmocka_unit_test(callbacks_hear_everything_once), cmocka_unit_test(stopping_and_beginning_later),
      cmocka_unit_test(steps_per_epoch_goes_on_where_it_stopped), cmocka_unit_test(weights_of_rows_and_classes),
      cmocka_unit_test(validation_split_takes_the_last_rows), cmocka_unit_test(distributed_datasets_are_taken_as_they_are),
      cmocka_unit_test(single_batches), cmocka_unit_test(several_inputs_and_outputs), cmocka_unit_test(compiled_outside_the_scope),
      cmocka_unit_test(refusals), cmocka_unit_test(a_bad_label_is_named),
      cmocka_unit_test(a_loss_that_is_not_a_number_is_told_once), cmocka_unit_test(errors_say_where),
      cmocka_unit_test(probabilities_of_a_softmax_are_safe))
