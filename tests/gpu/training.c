/* Training on a card divided into 1, 2, 4 and 8 logical GPUs: the same weights, losses and accuracies to the last bit, op by op and
 * compiled, with fit and in a custom loop. A model saved on a GPU resumes on the CPU and the reverse; runs that were stopped
 * resume; a bad label and a full card are reported, and training can continue after them. */
#include "folder.h"
#include "small.h"

/* ---- the same bits on any number of logical GPUs ---- */

typedef enum way { FIT, FIT_EAGERLY, LOOP, LOOP_EAGERLY, WAYS } way;
static const char *const WAY[] = {"fit", "fit, op by op", "a loop", "a loop, op by op"};

static void train(way w, lk_strategy *s, outcome *out)
{
    NEED(s != NULL);
    if (w == FIT || w == FIT_EAGERLY) small_fit(s, w == FIT_EAGERLY ? LK_ON : LK_OFF, out);
    else small_loop(s, w == LOOP_EAGERLY, out);
}

static void one_device(const void *arg, outcome *out) { train(*(const way *)arg, lk_one_device_strategy("GPU:0"), out); }
static void mirrored(const void *arg, outcome *out) { train(*(const way *)arg, lk_mirrored_strategy(), out); }

/* A strategy cuts the card itself. */
static void cut_into_four(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy(.logical_gpus = 4);
    NEED(lk_num_replicas_in_sync(s) == 4);
    train(*(const way *)arg, s, out);
}

static void same_on_any_number(way w)
{
    static const int counts[] = {2, 4, 8};
    outcome          one, other;
    CHILD(one_device, &w, &one, .cards = 1);
    assert_true(one.count > 0);
    CHILD(one_device, &w, &other, .cards = 1);
    same_outcome(&one, &other, "a second run");
    CHILD(mirrored, &w, &other, .cards = 1);
    same_outcome(&one, &other, "one mirrored");
    for (int i = 0; i < LKI_COUNT(counts); i++) {
        char what[64];
        snprintf(what, sizeof what, "%s: one and %d logical GPUs", WAY[w], counts[i]);
        CHILD(mirrored, &w, &other, .logical = counts[i]);
        same_outcome(&one, &other, what);
    }
    CHILD(cut_into_four, &w, &other, .cards = 1);
    same_outcome(&one, &other, "cut by the strategy");
}

TEST(fit_is_the_same) { same_on_any_number(FIT); }
TEST(a_loop_is_the_same) { same_on_any_number(LOOP); }
TEST(a_loop_op_by_op_is_the_same) { same_on_any_number(LOOP_EAGERLY); }

/* compare: the first of each pair is compiled. */
TEST(op_by_op_equals_compiled)
{
    static const way pairs[][2] = {{FIT, FIT_EAGERLY}, {LOOP, LOOP_EAGERLY}};
    for (int i = 0; i < LKI_COUNT(pairs); i++)
        for (int n = 1; n <= 4; n *= 4) {
            outcome compiled, eager;
            CHILD(mirrored, &pairs[i][0], &compiled, .logical = n);
            CHILD(mirrored, &pairs[i][1], &eager, .logical = n);
            same_outcome(&compiled, &eager, WAY[pairs[i][1]]);
        }
}

/* ---- an optimiser made outside of the scope, in a custom loop ---- */

/* Its first step brings it to the card; from then on no step carries anything to and fro. */
static void made_outside(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy();
    loop         l = loop_on(s);
    lk_function *step = lk_function_of(loop_all, &l);
    const bool   eagerly = ((const bool *)arg)[1];
    if (((const bool *)arg)[0]) {
        l.optimizer = lk_adam(.learning_rate = 0.5);
        NEED(lk_optimizer_set_learning_rate(l.optimizer, 0.01) == LK_OK);
    }
    LK_FOR_EACH(batch, lk_distribute_dataset(s, small_data()))
        LK_POOL
            child_put(out, lk_item((eagerly ? loop_all(batch, &l) : lk_call(step, batch)).item[0]));
    SOUND();
    const lk_variables v = lk_optimizer_variables(l.optimizer);
    for (int i = 0; i < v.count; i++)
        NEED(!lki_on_host(v.item[i]->buffer->device));
    NEED(lk_optimizer_iterations(l.optimizer) == 3 && lk_optimizer_learning_rate(l.optimizer) == (double)0.01f);
    out->digest = lk_variables_digest(v);
}

TEST(an_optimiser_made_outside_moves_in)
{
    outcome inside, outside;
    for (int replicas = 1; replicas <= 2; replicas++)
        for (int eagerly = 0; eagerly < 2; eagerly++) {
            CHILD(made_outside, ((const bool[]){false, eagerly}), &inside, .logical = replicas);
            CHILD(made_outside, ((const bool[]){true, eagerly}), &outside, .logical = replicas);
            same_outcome(&inside, &outside, "an optimiser made inside and outside");
        }
}

/* The CPU's order of sums is another one in places: close, not equal. */
static void on_cpu(const void *arg, outcome *out) { train(*(const way *)arg, lk_one_device_strategy("CPU:0"), out); }

TEST(a_gpu_learns_what_a_cpu_learns)
{
    outcome gpu, cpu;
    way     w = LOOP;
    CHILD(one_device, &w, &gpu, .cards = 1);
    CHILD(on_cpu, &w, &cpu, .cards = 1);
    close_outcome(&gpu, &cpu, 1e-5, "GPU and CPU");
}

/* ---- what follows a product is part of it ---- */

enum { M = 64, N = 32, K = 40 };

typedef struct weights {
    lk_strategy *strategy;
    lk_tensor   *b, *bias;
} weights;

/* Factors and addends on either side, a bias, another shape, two products of which the later adds the earlier; and one that is read
 * twice. */
static lk_tuple products(lk_tuple in, void *user)
{
    const weights *w = user;
    lk_tensor     *a = in.item[0], *x = in.item[1];
    lk_tensor     *one = lk_add(x, lk_mul(lk_add(lk_matmul(a, w->b), w->bias), lk_scalar(0.3)));
    lk_tensor *two = lk_add(lk_reshape(lk_matmul(lk_neg(a), w->b), LK_SHAPE(M, 4, N / 4)), lk_reshape(one, LK_SHAPE(M, 4, N / 4)));
    lk_tensor *twice = lk_matmul(lk_relu(a), w->b);
    return LK_TUPLE(two, lk_add(lk_matmul(lk_exp(a), w->b), lk_matmul(lk_mul(a, a), w->b)), lk_add(twice, x),
                    lk_mul(lk_scalar(2), twice));
}

static lk_tuple on_replica(lk_tuple in, void *user) { return lk_run(((const weights *)user)->strategy, products, in, user); }

static void compiled_and_not(const void *arg, outcome *out)
{
    weights     w = {lk_one_device_strategy("GPU:0"), lk_random_normal(LK_SHAPE(K, N)), lk_random_normal(LK_SHAPE(N))};
    lk_dataset *rows =
        lk_dataset_from_tensor_slices(LK_TUPLE(lk_random_normal(LK_SHAPE(3 * M, K)), lk_random_normal(LK_SHAPE(3 * M, N))));
    (void)arg, (void)out;
    lk_function *f = lk_function_of(on_replica, &w);
    LK_FOR_EACH(in, lk_distribute_dataset(w.strategy, lk_dataset_batch(rows, M))) {
        lk_tuple plain = on_replica(in, &w), fused = lk_call(f, in);
        SOUND();
        for (int i = 0; i < plain.count; i++)
            NEED(!memcmp(lk_data(lk_local_results(w.strategy, plain.item[i]).item[0]),
                         lk_data(lk_local_results(w.strategy, fused.item[i]).item[0]), M * N * sizeof(float)));
    }
    NEED(lk_function_inspect(f).fused == 5); /* bias, factor and addend; an addend; one product */
}

TEST(products_take_what_follows) { CHILD(compiled_and_not, NULL, NULL, .cards = 1); }

/* ---- convolutions of every way ---- */

typedef struct convolutions {
    /* That the second one reads: kernels of few, some and many make its gradients, each with a way of its own for the bias. */
    int       channels;
    lk_switch eagerly;
} convolutions;

static void two_convolutions(const void *arg, outcome *out)
{
    const convolutions *c = arg;
    lk_strategy        *s = lk_mirrored_strategy();
    lk_model           *m = NULL;
    lk_tensor          *x = lk_random_normal(LK_SHAPE(64, 14, 14, 1), .stream = "x"),
              *y = lk_cast(lk_floor(lk_random_uniform(LK_SHAPE(64), .high = LK_NUMBER(3), .stream = "y")), LK_I64);
    LK_SCOPE(s)
        m = lk_sequential(lk_conv2d(c->channels, 3, .activation = LK_RELU, .input_shape = LK_SHAPE(14, 14, 1)), lk_max_pooling2d(),
                          lk_conv2d(16, 3, .activation = LK_RELU), lk_max_pooling2d(), lk_flatten(), lk_dense(3));
    lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_adam(),
                     .run_eagerly = c->eagerly);
    for (int step = 0; step < 4; step++) { /* op by op, captured, and again */
        const lk_logs logs = lk_model_train_on_batch(m, LK_TUPLE(x, y));
        child_put(out, lk_logs_get(&logs, "loss"));
    }
    SOUND();
}

TEST(convolutions_op_by_op_are_near_compiled)
{
    static const int channels[] = {1, 4, 8, 12, 16, 32};
    for (int i = 0; i < LKI_COUNT(channels); i++) {
        outcome compiled, plain;
        char    what[64];
        snprintf(what, sizeof what, "%d channels, compiled and not", channels[i]);
        CHILD(two_convolutions, (&(convolutions){channels[i], LK_OFF}), &compiled, .cards = 1);
        CHILD(two_convolutions, (&(convolutions){channels[i], LK_ON}), &plain, .cards = 1);
        assert_true(compiled.count == 4);
        close_outcome(&compiled, &plain, 1e-5, what); /* the bias is summed in another order (docs/bits.md) */
    }
}

/* ---- rows that change from epoch to epoch ---- */

static lk_tuple times(lk_tuple row, void *user) { return LK_TUPLE(lk_mul(row.item[0], lk_scalar(*(double *)user)), row.item[1]); }

static void halve(const lk_event *event, void *user)
{
    (void)event;
    *(double *)user *= 0.5;
}

/* A function of rows that a callback changes at the end of each epoch counts from the next on, although the first batch of that may
 * be made before: as in fits of one epoch each. */
static void changed_rows(const void *arg, outcome *out)
{
    const bool  together = *(const bool *)arg;
    double      by = 1;
    lk_model   *m = small_compiled(lk_one_device_strategy("GPU:0"), LK_OFF);
    lk_dataset *d = lk_dataset_batch(lk_dataset_shuffle(lk_dataset_map(small_elements(), times, &by), ROWS), BATCH);
    for (int i = 0; i < (together ? 1 : 3); i++)
        lk_model_fit(m, d, .epochs = together ? 3 : 1, .verbose = LK_SILENT,
                     .callbacks = LK_CALLBACKS(lk_callback_of(&by, .on_epoch_end = halve)));
    SOUND();
    out->digest = small_state(m);
}

TEST(rows_may_change_between_epochs)
{
    outcome together, apart;
    CHILD(changed_rows, &(bool){true}, &together, .cards = 1);
    CHILD(changed_rows, &(bool){false}, &apart, .cards = 1);
    same_outcome(&together, &apart, "three epochs and three fits");
}

/* ---- saved and restored, predicted ---- */

static bool near(lk_tensor *a, lk_tensor *b, double tolerance)
{
    const float *x = lk_data(a), *y = lk_data(b);
    bool         good = x && y && lk_size(a) == lk_size(b);
    for (int64_t i = 0; good && i < lk_size(a); i++)
        good = fabs((double)x[i] - (double)y[i]) <= tolerance;
    return good;
}

static lk_model *trained_on(const char *device)
{
    lk_model *m = small_compiled(lk_one_device_strategy(device), LK_OFF);
    lk_model_fit(m, small_data(), .epochs = 1, .verbose = LK_SILENT);
    SOUND();
    return m;
}

/* Through each kind of file from one device to another, in the same process. */
static void carried(const char *from, const char *to, const char *folder)
{
    static const char *const files[] = {"w.weights.h5", "w.safetensors", "w.npz", "w.ckpt"};
    lk_model                *m = trained_on(from);
    lk_tensor               *wanted = lk_model_predict(m, .x = small_rows(), .verbose = LK_SILENT);
    SOUND();
    for (int i = 0; i < LKI_COUNT(files); i++) {
        lk_model *other = small_compiled(lk_one_device_strategy(to), LK_OFF);
        NEED(!lk_digest_equal(lk_model_digest(m), lk_model_digest(other)));
        NEED(lk_model_save_weights(m, folder_file(folder, files[i])) == LK_OK);
        NEED(lk_model_load_weights(other, folder_file(folder, files[i])) == LK_OK);
        NEED(lk_digest_equal(lk_model_digest(m), lk_model_digest(other)));
        NEED(near(wanted, lk_model_predict(other, .x = small_rows(), .verbose = LK_SILENT), 1e-5));
        SOUND();
    }
    /* the whole model, and a checkpoint of it */
    lk_model *loaded = NULL, *other = trained_on(to);
    NEED(lk_model_save(m, folder_file(folder, "m.keras")) == LK_OK);
    LK_SCOPE(lk_one_device_strategy(to))
        loaded = lk_model_load(folder_file(folder, "m.keras"));
    NEED(loaded && lk_digest_equal(small_state(m), small_state(loaded)));
    NEED(near(wanted, lk_model_predict(loaded, .x = small_rows(), .verbose = LK_SILENT), 1e-5));
    const char *path = lk_checkpoint_save(lk_checkpoint_of({"model", m}), folder_file(folder, "ckpt"));
    NEED(path != NULL);
    NEED(lk_restore_assert_consumed(lk_checkpoint_restore(lk_checkpoint_of({"model", other}), path)) == LK_OK);
    NEED(lk_digest_equal(small_state(m), small_state(other)));
    /* both continue alike */
    lk_model_fit(m, small_data(), .epochs = 1, .verbose = LK_SILENT);
    lk_model_fit(other, small_data(), .epochs = 1, .verbose = LK_SILENT);
    NEED(near(lk_model_predict(m, .x = small_rows(), .verbose = LK_SILENT),
              lk_model_predict(other, .x = small_rows(), .verbose = LK_SILENT), 1e-4));
    SOUND();
}

static void saved_on_gpu(const void *arg, outcome *out)
{
    (void)out;
    carried("GPU:0", "CPU:0", arg);
}

static void saved_on_cpu(const void *arg, outcome *out)
{
    (void)out;
    carried("CPU:0", "GPU:0", arg);
}

TEST(files_go_between_gpu_and_cpu)
{
    char folder[64];
    snprintf(folder, sizeof folder, "%s", folder_new());
    CHILD(saved_on_gpu, folder, NULL, .cards = 1);
    CHILD(saved_on_cpu, folder, NULL, .cards = 1);
    CHILD(saved_on_gpu, folder, NULL, .logical = 2);
    folder_remove(folder);
}

/* ---- runs that were stopped ---- */

typedef struct stretch {
    const char *folder; /* NULL: no backup */
    int64_t     stop;   /* 0: to the end */
} stretch;

static void stretch_of(const void *arg, outcome *out)
{
    const stretch *p = arg;
    lk_model      *m = small_compiled(lk_mirrored_strategy(), LK_OFF);
    lk_callback   *backup = lk_backup_and_restore(p->folder, .save_freq = 2);
    lk_history    *h = lk_model_fit(m, small_data(), .epochs = 2, .validation_data = small_data(), .stop_after_steps = p->stop,
                                    .verbose = LK_SILENT, .callbacks = LK_CALLBACKS(backup));
    SOUND();
    small_history(h, out);
    out->digest = small_state(m);
}

TEST(stopped_runs_go_on)
{
    char    folder[64];
    outcome straight, ended;
    CHILD(stretch_of, (&(stretch){0}), &straight, .cards = 1);
    for (int64_t stop = 1; stop < 6; stop += 2) {
        snprintf(folder, sizeof folder, "%s", folder_new());
        CHILD(stretch_of, (&(stretch){folder, stop}), NULL, .logical = stop == 3 ? 4 : 1);
        CHILD(stretch_of, (&(stretch){folder, 0}), &ended, .logical = stop == 5 ? 2 : 1);
        same_outcome(&straight, &ended, "stopped and gone on");
        folder_remove(folder);
    }
}

/* ---- bad labels ---- */

/* Labels of which one, in this row, is not a class. */
static lk_tensor *labels_with_a_bad_one(int64_t row)
{
    int64_t        y[ROWS];
    const int64_t *good = lk_data(small_labels());
    NEED(good != NULL);
    memcpy(y, good, sizeof y);
    y[row] = CLASSES + 4;
    return lk_tensor_from(LK_SHAPE(ROWS), LK_I64, y);
}

static lk_dataset *in_order(lk_tensor *labels)
{
    return lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(small_rows(), labels)), 8);
}
static lk_dataset *first_batch(lk_strategy *s, lk_tensor *labels)
{
    return lk_distribute_dataset(s, lk_dataset_take(in_order(labels), 1));
}

/* What a step that failed must not have changed. Op by op, what it did before it failed is done: moving statistics. */
static lk_digest written(lk_model *m, lk_switch eagerly)
{
    return eagerly == LK_ON ? lk_variables_digest(lk_model_trainable_variables(m)) : lk_model_digest(m);
}

/* Of the first batches of eight, this many. */
static lk_digest after(int64_t batches, lk_switch eagerly)
{
    lk_model *m = small_compiled(lk_mirrored_strategy(), LK_OFF);
    if (batches) lk_model_fit(m, lk_dataset_take(in_order(small_labels()), batches), .epochs = 1, .verbose = LK_SILENT);
    SOUND();
    return written(m, eagerly);
}

static void bad_label(const void *arg, outcome *out)
{
    const lk_switch eagerly = *(const lk_switch *)arg;
    (void)out;
    for (int64_t batch = 0; batch < 7; batch += 3) { /* the first, one in the middle, the last one */
        lk_model *m = small_compiled(lk_mirrored_strategy(), eagerly);
        lk_model_fit(m, in_order(labels_with_a_bad_one(8 * batch + 5)), .epochs = 1, .verbose = LK_SILENT);
        TOLD(LK_EINVAL, "label");
        /* that step wrote nothing. A real card may have done steps after it before anybody looked. */
        if (simulated()) NEED(lk_digest_equal(written(m, eagerly), after(batch, eagerly)));
        lk_model_fit(m, small_data(), .epochs = 1, .verbose = LK_SILENT);
        SOUND();
        lk_logs logs = lk_model_evaluate(m, small_data(), .verbose = LK_SILENT);
        SOUND();
        NEED(isfinite(lk_logs_get(&logs, "loss")));
        lk_model_evaluate(m, in_order(labels_with_a_bad_one(30)), .verbose = LK_SILENT);
        TOLD(LK_EINVAL, "label");
        lk_model_train_on_batch(m, LK_TUPLE(small_rows(), labels_with_a_bad_one(3)));
        TOLD(LK_EINVAL, "label");
        lk_model_train_on_batch(m, LK_TUPLE(small_rows(), small_labels()));
        SOUND();
    }
}

TEST(bad_labels_in_fit)
{
    for (int eagerly = 0; eagerly < 2; eagerly++)
        for (int n = 1; n <= 2; n++)
            CHILD(bad_label, (&(lk_switch){eagerly ? LK_ON : LK_OFF}), NULL, .logical = n);
}

static void bad_label_in_a_loop(const void *arg, outcome *out)
{
    loop         l = loop_on(lk_mirrored_strategy());
    lk_function *step = lk_function_of(loop_all, &l);
    lk_dataset  *good = first_batch(l.strategy, small_labels()), *bad = first_batch(l.strategy, labels_with_a_bad_one(5));
    (void)arg, (void)out;
    for (int turn = 0; turn < 3; turn++) { /* launched one by one, captured, and replayed */
        LK_FOR_EACH(batch, good)
            NEED(isfinite(lk_item(lk_call(step, batch).item[0])));
        lk_digest before = lk_model_digest(l.model);
        LK_FOR_EACH(batch, bad) {
            NEED(isnan(lk_item(lk_call(step, batch).item[0])));
            TOLD(LK_EINVAL, "label");
            NEED(lk_digest_equal(before, lk_model_digest(l.model)));
            lk_digest trained = written(l.model, LK_ON);
            loop_all(batch, &l);
            TOLD(LK_EINVAL, "label");
            NEED(lk_digest_equal(trained, written(l.model, LK_ON)));
        }
        SOUND();
    }
}

TEST(bad_labels_in_a_loop)
{
    CHILD(bad_label_in_a_loop, NULL, NULL, .cards = 1);
    CHILD(bad_label_in_a_loop, NULL, NULL, .logical = 4);
}

/* ---- memory ---- */

static lk_model *wide_model(lk_strategy *s)
{
    lk_model *m = NULL;
    LK_SCOPE(s)
        m = lk_sequential(lk_dense(256, .activation = LK_RELU, .input_shape = LK_SHAPE(16)), lk_dense(256, .activation = LK_RELU),
                          lk_dense(1));
    lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_sgd(.learning_rate = 0.01));
    return m;
}

static void fit_wide(lk_model *m, int64_t batch)
{
    lk_tensor *x = lk_random_normal(LK_SHAPE(batch, 16), .stream = "x");
    lk_model_fit(m, .x = x, .y = lk_zeros(LK_SHAPE(batch, 1), LK_F32), .batch_size = batch, .epochs = 2, .verbose = LK_SILENT);
}

/* "... a batch of about 123 rows instead of 4096 would fit" */
static int64_t told_batch(void)
{
    const char *at = strstr(lk_error(), "a batch of about ");
    return at ? strtoll(at + strlen("a batch of about "), NULL, 10) : 0;
}

static void too_large(lk_strategy *s)
{
    enum { LARGE = 4096 };
    lk_model *m = wide_model(s);
    lk_digest before = lk_model_digest(m);
    fit_wide(m, LARGE);
    const int64_t fits = told_batch();
    TOLD(LK_ENOMEM, "GPU:0", "out of memory", "no room for a step", "the largest are", "[4096, 256]", "a batch of about",
         "instead of 4096 would fit");
    NEED(fits >= 1 && fits < LARGE);
    NEED(lk_digest_equal(before, lk_model_digest(m)));
    fit_wide(m, fits);
    SOUND();
    NEED(!lk_digest_equal(before, lk_model_digest(m)));
    fit_wide(m, LARGE);
    TOLD(LK_ENOMEM, "GPU:0");
    fit_wide(m, 32);
    SOUND();
}

static void small_card(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    too_large(lk_mirrored_strategy());
}

static void small_limit(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    too_large(lk_mirrored_strategy(.gpu_memory_limit = (size_t)4 << 20));
}

TEST(a_step_that_is_too_large_says_what_fits)
{
    CHILD(small_limit, NULL, NULL, .cards = 1);
    if (simulated()) CHILD(small_card, NULL, NULL, .memory = (size_t)4 << 20);
    else print_message("left out: only a simulated card can be made small\n");
}

/* Weight gradients of nine layers that updates would take in parts, 7 MiB each. */
static void many_parts(const void *arg, outcome *out)
{
    enum { IMAGES = 64 };
#define LAYER(...) lk_conv2d(56, 3, .padding = LK_SAME, .activation = LK_RELU, __VA_ARGS__)
#define THREE LAYER(), LAYER(), LAYER()
    lk_strategy *s = lk_mirrored_strategy(.gpu_memory_limit = (size_t)12 << 20);
    lk_model    *m = NULL;
    (void)arg, (void)out;
    LK_SCOPE(s)
        m = lk_sequential(LAYER(.input_shape = LK_SHAPE(8, 8, 4)), THREE, THREE, THREE, lk_flatten(), lk_dense(1));
    lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_sgd());
    lk_model_fit(m, .x = lk_zeros(LK_SHAPE(IMAGES, 8, 8, 4), LK_F32), .y = lk_zeros(LK_SHAPE(IMAGES, 1), LK_F32),
                 .batch_size = IMAGES, .verbose = LK_SILENT);
    const char *at = strstr(lk_error(), "it needs ");
    NEED(at && strtod(at + strlen("it needs "), NULL) < 56);
    NEED(!strstr(lk_error(), "are ,"));
    TOLD(LK_ENOMEM, "no room for a step");
}

TEST(parts_of_gradients_do_not_fill_a_card) { CHILD(many_parts, NULL, NULL, .cards = 1); }

/* What the card holds does not grow, nor what the host holds. */
static void flat_in_use(const void *arg, outcome *out)
{
    enum { STEPS = 200 };
    lk_strategy *s = lk_mirrored_strategy();
    lk_model    *m = NULL;
    lki_device  *gpu = lki_device_gpu_at(0);
    size_t       used = 0, kept = 0;
    int64_t      host = 0;
    (void)arg, (void)out;
    LK_SCOPE(s)
        m = lk_sequential(lk_dense(8, .activation = LK_RELU, .input_shape = LK_SHAPE(4)), lk_dropout(0.2), lk_dense(3));
    lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_adam(),
                     .metrics = LK_METRICS(lk_accuracy()));
    lk_tensor *x = lk_random_normal(LK_SHAPE(64, 4), .stream = "x"), *y = lk_zeros(LK_SHAPE(64), LK_I64);
    for (int step = 0; step < STEPS; step++) {
        LK_POOL
            LK_STEP {
                if (step % 50 == 0) lk_model_fit(m, .x = x, .y = y, .batch_size = 8, .epochs = 2, .verbose = LK_SILENT);
                lk_model_train_on_batch(m, LK_TUPLE(x, y));
                if (step % 20 == 0) lk_model_predict(m, .x = x, .verbose = LK_SILENT);
                if (step % 20 == 0) lk_model_evaluate(m, .x = x, .y = y, .verbose = LK_SILENT);
            }
        SOUND();
        const lki_gpu_memory now = lki_gpu_memory_of(gpu);
        if (step == 60) used = now.used, kept = now.kept, host = lki_memory_in_use();
        if (step > 60 && step % 20 == 0) {
            NEED(now.used == used);
            NEED(now.kept <= kept + 65536); /* losses are read when there is time, several at once */
            NEED(lki_memory_in_use() <= host + 4096);
        }
    }
}

TEST(memory_in_use_is_flat)
{
    CHILD(flat_in_use, NULL, NULL, .cards = 1);
    CHILD(flat_in_use, NULL, NULL, .logical = 2);
}

TESTS(cmocka_unit_test(fit_is_the_same), cmocka_unit_test(a_loop_is_the_same), cmocka_unit_test(a_loop_op_by_op_is_the_same),
      cmocka_unit_test(op_by_op_equals_compiled), cmocka_unit_test(an_optimiser_made_outside_moves_in),
      cmocka_unit_test(a_gpu_learns_what_a_cpu_learns), cmocka_unit_test(products_take_what_follows),
      cmocka_unit_test(convolutions_op_by_op_are_near_compiled), cmocka_unit_test(rows_may_change_between_epochs),
      cmocka_unit_test(files_go_between_gpu_and_cpu), cmocka_unit_test(stopped_runs_go_on), cmocka_unit_test(bad_labels_in_fit),
      cmocka_unit_test(bad_labels_in_a_loop), cmocka_unit_test(a_step_that_is_too_large_says_what_fits),
      cmocka_unit_test(parts_of_gradients_do_not_fill_a_card), cmocka_unit_test(memory_in_use_is_flat))
