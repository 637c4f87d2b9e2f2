/* train/: whole training runs as a compiled step, against the runs of TensorFlow on one or several devices.
 *
 * Every run is made on one device. For a run on N replicas each row's loss is weighted as its replica weighted it, by 1 /
 * denominator, or 1 / (N * rows of that replica); the sum over rows is then the sum over replicas. Batch normalisation uses the
 * rows of each replica separately. A run on several replicas is made again under a strategy of as many: as NAME/strategy split by
 * lanes (or evenly, if the split matters because of the denominator or batch normalisation) and as NAME/fill against
 * losses_fill.txt. A run that fit made is made by fit too, from the model's JSON: as NAME/fit, and as NAME/fit2 on two replicas. */
#ifndef LK_TESTS_GOLDEN_TRAIN_H
#define LK_TESTS_GOLDEN_TRAIN_H

#include "format/idx.h"
#include "golden.h"
#include "layers.h"
#include "ops.h"
#include "optim.h"
#include <dirent.h>
#include <lockstep/dataset.h>
#include <lockstep/keras.h>

typedef struct train_run {
    test_case    *c;
    json_t       *spec;
    bool          custom; /* a custom loop made it, not fit */
    int           replicas, epochs, steps;
    int64_t       batch;
    net           net;
    lk_variables  trained;
    lk_optimizer *optimizer;
    double        scale; /* what the optimiser divides gradients by, since it expects a loss that fit has multiplied */
    lk_loss      *loss;
    lki_array     x, labels;           /* all rows of the data */
    int64_t       first, stride, rows; /* of them: where those of the run begin, each how far from the one before, and how many */
    bool          pairs;               /* what is counted as correct is not rows but pairs of them, on each replica */
    lk_strategy  *strategy;            /* NULL: one device */
    lk_split_rule split;
} train_run;

/* ---- the step ---------------------------------------------------------------------------------------------------------------- */

/* fit counts as its accuracy metric does: of two classes it takes 1 to be what is above 0.5, also where the output is a logit. The
 * custom loop compares labels as they are: [n] with an output [n, 1], or [n, 1] with classes [n], is to count pairs of rows. */
static lk_tensor *correct_rows(train_run *r, lk_tensor *labels, lk_tensor *y)
{
    const bool binary = lk_dim(y, -1) == 1, custom = r->custom;
    lk_tensor *given = lk_cast(labels, LK_F32), *ours;
    if (binary) ours = lk_cast(lk_greater(y, lk_scalar(custom ? 0 : 0.5)), LK_F32);
    else ours = lk_cast(lk_argmax(y, .axis = LK_AXIS(-1)), LK_F32);
    if (binary && custom) given = lk_cast(lk_greater(given, lk_scalar(0)), LK_F32);
    r->pairs = custom && lk_rank(given) != lk_rank(ours);
    if (!r->pairs) given = lk_reshape(given, lk_tensor_shape(ours));
    return lk_reduce_sum(lk_cast(lk_equal(ours, given), LK_F32));
}

/* The loss of the rows here. One device: each row counts what in.item[2] says. A replica: as the documents have it. */
static lk_tensor *loss_of(train_run *r, lk_tuple in, lk_tensor *y)
{
    lk_tensor    *loss = lk_loss_call(.loss = r->loss, .labels = in.item[1], .predictions = y), *penalty = r->net.penalty;
    const int64_t fixed = json_integer_value(json_object_get(r->spec, "denominator"));
    if (r->custom && !r->strategy) loss = lk_reduce_sum(lk_mul(loss, in.item[2]));
    else if (r->custom) loss = fixed ? lk_compute_average_loss(loss, .global_batch_size = fixed) : lk_compute_average_loss(loss);
    if (penalty && r->strategy) penalty = lk_scale_regularization_loss(penalty);
    return penalty ? lk_add(loss, penalty) : loss;
}

/* rows, labels and, on one device, the weight of each row to the loss and the number of correct rows. */
static lk_tuple train_step(lk_tuple in, void *user)
{
    train_run *r = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = run_net(&r->net, in.item[0]);
    if (!y) return LK_TUPLE(in.item[0], in.item[0]);
    lk_tensor *loss = loss_of(r, in, y);
    lk_tensor *taken = r->custom && r->scale != 1 ? lk_div(loss, lk_scalar(r->scale)) : loss;
    lk_grads  *g = lk_tape_gradient(tape, taken, r->trained);
    lk_optimizer_apply(r->optimizer, g);
    return LK_TUPLE(loss, correct_rows(r, in.item[1], y));
}

/* ---- data -------------------------------------------------------------------------------------------------------------------- */

static const char *run_path(const train_run *r, const char *file)
{
    static _Thread_local char path[MAX_PATH];
    snprintf(path, sizeof path, "%s/train/%s/%s", golden.folder, r->c->name, file);
    return path;
}

/* A bound of a slice, as Python has them: null is the standard one, -1 the last row, and what is outside of least..most is the
 * nearer of them. */
static int64_t bound_of(json_t *bound, int64_t standard, int64_t least, int64_t most, int64_t rows)
{
    const int64_t i = json_integer_value(bound);
    return json_is_integer(bound) ? lki_min(lki_max(i < 0 ? i + rows : i, least), most) : standard;
}

/* [end], [first, end] or [first, end, stride] */
static void choose_rows(train_run *r, json_t *list)
{
    const size_t at_end = json_array_size(list) > 1;
    json_t *first = at_end ? json_array_get(list, 0) : NULL, *end = json_array_get(list, at_end), *by = json_array_get(list, 2);
    const int64_t stride = json_is_integer(by) ? json_integer_value(by) : 1, all = r->x.shape.dim[0], least = stride < 0 ? -1 : 0,
                  most = stride < 0 ? all - 1 : all;
    if (stride == 0) GIVE_UP(r->c, "rows with a stride of 0");
    r->stride = stride;
    r->first = bound_of(first, stride < 0 ? most : least, least, most, all);
    const int64_t behind = bound_of(end, stride < 0 ? least : most, least, most, all);
    r->rows = lki_max(0, (behind - r->first + stride - (stride < 0 ? -1 : 1)) / stride);
}

static bool load_set(train_run *r, const char *folder)
{
    char        path[MAX_PATH];
    const char *data = json_string_value(json_object_get(r->spec, "data"));
    snprintf(path, sizeof path, "%s/%s/train-images-idx3-ubyte.gz", folder, data);
    if (lki_idx_read(path, &r->x) != LK_OK) return false;
    snprintf(path, sizeof path, "%s/%s/train-labels-idx1-ubyte.gz", folder, data);
    if (lki_idx_read(path, &r->labels) != LK_OK) return false;
    choose_rows(r, json_object_get(r->spec, "rows"));
    return true;
}

static bool load_inputs(train_run *r, const char *file)
{
    lki_zip z;
    if (lki_zip_open(run_path(r, file), &z) != LK_OK) return false;
    const bool good = lki_npz_read(&z, "ids", &r->x) == LK_OK && lki_npz_read(&z, "labels", &r->labels) == LK_OK;
    lki_zip_close(&z);
    r->rows = good ? r->x.shape.dim[0] : 0;
    r->stride = 1;
    return good;
}

/* Rows from..from+n of an array, in the type the model takes: pixels divided by 255, labels and tokens i32. */
static lk_tensor *rows_of(const train_run *r, const lki_array *a, int64_t from, int64_t n, int64_t batch)
{
    const int64_t each = lki_shape_size_from(&a->shape, 1);
    const bool    pixels = a == &r->x && a->dtype == LK_U8;
    json_t       *sizes = json_object_get(r->spec, "input_shape");
    lk_shape      shape = a->shape;
    shape.dim[0] = n;
    for (size_t i = 0; pixels && i < json_array_size(sizes); i++) {
        shape.rank = (int)i + 2;
        shape.dim[i + 1] = json_integer_value(json_array_get(sizes, i));
    }
    float   *f = malloc((size_t)(n * each) * sizeof *f + 1);
    int32_t *w = malloc((size_t)(n * each) * sizeof *w + 1);
    for (int64_t i = 0; i < n * each; i++) {
        const int64_t row = r->first + (from + i / each) * r->stride;
        w[i] = (int32_t)lki_element_get(a->dtype, a->data, row * each + i % each);
        f[i] = (float)w[i] / 255.0f;
    }
    lk_tensor *t = pixels ? lk_tensor_from(shape, LK_F32, f) : lk_tensor_from(shape, LK_I32, w);
    free(f);
    free(w);
    return lk_rows(t, batch);
}

/* What each row's loss counts in this step. */
static lk_tensor *weights_of(const train_run *r, int step, int64_t n, int64_t batch)
{
    json_t      *sizes = json_array_get(json_object_get(r->spec, "sizes"), (size_t)step);
    const double fixed = json_number_value(json_object_get(r->spec, "denominator"));
    float       *w = malloc((size_t)n * sizeof *w + 1);
    int64_t      row = 0;
    for (size_t k = 0; k < json_array_size(sizes); k++) {
        const int64_t own = json_integer_value(json_array_get(sizes, k));
        const double  divisor = !r->custom ? (double)n : fixed != 0 ? fixed : (double)json_array_size(sizes) * (double)own;
        for (int64_t i = 0; i < own && row < n; i++)
            w[row++] = (float)(1 / divisor);
    }
    if (row != n) miss(r->c, "step %d: sizes of replicas add up to %lld: should be %lld", step, (long long)row, (long long)n);
    lk_tensor *t = lk_rows(lk_tensor_from(LK_SHAPE(n), LK_F32, w), batch);
    free(w);
    return t;
}

/* Room for the weights, and what is in the file of the first ones; the caller's to free. */
static lk_tensor **first_weights(train_run *r)
{
    json_t *list = json_object_get(r->spec, "weights"), *entry;
    lki_zip z;
    size_t  i;
    if (lki_zip_open(run_path(r, json_string_value(json_object_get(r->spec, "initial"))), &z) != LK_OK) return NULL;
    r->net.weights = (int)json_array_size(list);
    r->net.weight = calloc((size_t)r->net.weights + 1, sizeof(lk_variable *));
    r->net.taken = calloc((size_t)r->net.weights + 1, sizeof(bool));
    lk_tensor **value = calloc((size_t)r->net.weights + 1, sizeof(lk_tensor *));
    json_array_foreach(list, i, entry) value[i] = tensor_of(r->c, &z, json_string_value(json_object_get(entry, "key")));
    lki_zip_close(&z);
    return value;
}

static bool load_weights(train_run *r)
{
    json_t       *list = json_object_get(r->spec, "weights"), *entry;
    lk_tensor   **value = first_weights(r);
    lk_variable **trained = calloc(json_array_size(list) + 1, sizeof(lk_variable *));
    int           count = 0;
    size_t        i;
    json_array_foreach(list, i, entry)
    {
        if (!value) break;
        const bool trainable = json_is_true(json_object_get(entry, "trainable"));
        r->net.weight[i] = lk_variable_of(value[i], .name = json_string_value(json_object_get(entry, "name")),
                                          .trainable = trainable ? LK_ON : LK_OFF,
                                          .synchronization = trainable ? LK_SYNC_ON_WRITE : LK_SYNC_ON_READ,
                                          .aggregation = trainable ? LK_AGGREGATION_NONE : LK_AGGREGATION_MEAN);
        if (trainable) trained[count++] = r->net.weight[i];
    }
    r->trained = lk_variables_from(count, trained);
    const bool good = value && !lk_failed();
    free(trained);
    free(value);
    return good;
}

/* One number per step; the caller's to free. */
static double *read_numbers(train_run *r, const char *file)
{
    FILE   *f = fopen(run_path(r, file), "r");
    double *out = calloc((size_t)r->steps + 1, sizeof *out);
    int     n = 0;
    while (f && n <= r->steps && fscanf(f, "%lf", &out[n]) == 1)
        n++;
    if (f) fclose(f);
    if (n != r->steps) miss(r->c, "%s: there should be as many numbers as steps, %d", file, r->steps);
    return out;
}

/* ---- the run ----------------------------------------------------------------------------------------------------------------- */

typedef struct expected {
    double *loss, *spread, *correct; /* of each step */
} expected;

/* Replicas of a run under a strategy are on the CPU. */
static bool is_rounded(const train_run *r) { return golden.rounded && !r->strategy; }

/* Rows near the border between two classes: one; where factors are rounded, of a hundred 5 in TF32 and 10 in BF16. */
static double rows_allowed(const train_run *r)
{
    const double share = golden.coarser > 0x1p13 ? 0.1 : 0.05;
    return is_rounded(r) ? fmax(1, share * (double)r->batch) : 1;
}

static void check_step(train_run *r, const expected *e, int step, double spread, lk_tuple result)
{
    char         what[64];
    const double loss = lk_item(result.item[0]), correct = lk_item(result.item[1]);
    const double bound = is_rounded(r) ? fmax(ROUNDED, 4 * spread) : spread < 2e-6 ? 2e-5 : fmax(2e-4, 4 * spread);
    snprintf(what, sizeof what, "the loss of step %d", step);
    if (!sound(r->c, what)) return;
    if (is_lost(r->c, what, loss, e->loss[step])) return; /* nor is there a right class then */
    measure(r->c, what, fabs(loss / e->loss[step] - 1), bound);
    if (r->split == LK_SPLIT_FILL) return;   /* correct.txt is of the other split */
    if (r->pairs && r->replicas > 1) return; /* pairs of another split, or of none */
    if (fabs(correct - e->correct[step]) > rows_allowed(r) && spread <= 1e-3)
        miss(r->c, "step %d: %g rows correct: should be %g", step, correct, e->correct[step]);
}

static void check_weights(train_run *r)
{
    json_t *list = json_object_get(r->spec, "weights");
    lki_zip z;
    if (is_rounded(r) || lki_zip_open(run_path(r, "final.npz"), &z) != LK_OK) return;
    for (int i = 0; i < r->net.weights; i++) {
        json_t      *entry = json_array_get(list, (size_t)i);
        const double bound = 1e-5 + 4 * json_number_value(json_object_get(entry, "noise"));
        lk_tensor *right = tensor_of(r->c, &z, json_string_value(json_object_get(entry, "key"))), *ours = lk_read(r->net.weight[i]);
        const char *name = lk_variable_name(r->net.weight[i]);
        if (lk_size(right) != lk_size(ours))
            miss(r->c, "%s: %lld elements: should be %lld", name, (long long)lk_size(ours), (long long)lk_size(right));
        for (int64_t k = 0; k < lk_size(right) && !r->c->why[0]; k++) {
            if (is_lost(r->c, name, at(ours, k), at(right, k))) continue;
            measure(r->c, name, fabs(at(ours, k) - at(right, k)), bound);
        }
    }
    lki_zip_close(&z);
}

/* After this many steps; final.npz is not of the split that fills. */
static void check_end(train_run *r, int step)
{
    if (!r->c->why[0] && step != r->steps) miss(r->c, "%d steps: should be %d", step, r->steps);
    if (!r->c->why[0] && r->split != LK_SPLIT_FILL) check_weights(r);
}

static void train(train_run *r, const expected *e)
{
    const int64_t batch = r->batch;
    lk_function  *f = lk_function_of(train_step, .user = r, .name = r->c->name);
    double        spread = 0;
    int           step = 0;
    for (int epoch = 0; epoch < r->epochs; epoch++)
        for (int64_t from = 0; from < r->rows && step < r->steps && !r->c->why[0]; from += batch, step++)
            LK_STEP {
                const int64_t n = lki_min(batch, r->rows - from);
                spread = fmax(spread, e->spread[step]);
                r->net.parts = r->replicas > 1 ? json_array_get(json_object_get(r->spec, "sizes"), (size_t)step) : NULL;
                lk_tensor *w = weights_of(r, step, n, batch);
                check_step(r, e, step, spread,
                           lk_call(f, LK_TUPLE(rows_of(r, &r->x, from, n, batch), rows_of(r, &r->labels, from, n, batch), w)));
            }
    check_end(r, step);
}

/* ---- under a strategy -------------------------------------------------------------------------------------------------------- */

static lk_tuple distributed_step(lk_tuple in, void *user)
{
    train_run *r = user;
    lk_tuple   out = lk_run(r->strategy, train_step, in, r);
    return LK_TUPLE(lk_reduce(r->strategy, LK_SUM, out.item[0]), lk_reduce(r->strategy, LK_SUM, out.item[1]));
}

static void train_on_replicas(train_run *r, const expected *e)
{
    const int64_t batch = r->batch;
    lk_tuple      all = LK_TUPLE(rows_of(r, &r->x, 0, r->rows, r->rows), rows_of(r, &r->labels, 0, r->rows, r->rows));
    lk_dataset   *data =
        lk_distribute_dataset(r->strategy, lk_dataset_batch(lk_dataset_from_tensor_slices(all), batch), .split = r->split);
    lk_function *f = lk_function_of(distributed_step, .user = r, .name = r->c->name);
    double       spread = 0;
    int          step = 0;
    for (int epoch = 0; epoch < r->epochs; epoch++)
        LK_FOR_EACH(rows, data) {
            if (step == r->steps || r->c->why[0]) break;
            spread = fmax(spread, e->spread[step]);
            check_step(r, e, step, spread, lk_call(f, rows));
            step++;
        }
    check_end(r, step);
}

/* ---- by fit ------------------------------------------------------------------------------------------------------------------ */

typedef struct watcher { /* of the losses of single steps, which fit shows as a mean so far */
    train_run      *run;
    const expected *want;
    int64_t         batch;
    int             step;
    double          spread, sum, hits;
} watcher;

static void epoch_begins(const lk_event *event, void *user)
{
    watcher *w = user;
    (void)event;
    w->sum = w->hits = 0;
}

static void step_ended(const lk_event *event, void *user)
{
    watcher      *w = user;
    const int64_t before = event->batch * w->batch, rows = lki_min(w->batch, w->run->rows - before);
    const double  sum = lk_logs_get(&event->logs, "loss") * (double)(before + rows),
                 hits = lk_logs_get(&event->logs, "accuracy") * (double)(before + rows);
    if (w->step == w->run->steps) return;
    w->spread = fmax(w->spread, w->want->spread[w->step]);
    check_step(w->run, w->want, w->step, w->spread,
               LK_TUPLE(lk_scalar((sum - w->sum) / (double)rows), lk_scalar(round(hits - w->hits))));
    w->sum = sum;
    w->hits = hits;
    w->step++;
}

static void check_history(train_run *r, const lk_history *h)
{
    json_t     *history = load_json(run_path(r, "history.json")), *list, *value;
    const char *name;
    size_t      i;
    json_object_foreach(history, name, list) json_array_foreach(list, i, value)
    {
        const double right = json_is_number(value) ? json_number_value(value) : NAN, ours = lk_history_value(h, name, (int)i);
        if (is_lost(r->c, name, ours, right)) continue;
        const double bound = is_rounded(r) ? ROUNDED : strcmp(name, "loss") ? 2.0 / (double)r->rows : 2e-4;
        measure(r->c, name, fabs(ours - right) / fmax(1, fabs(right)), bound);
    }
    json_decref(history);
}

/* Weights of the model in Keras' order, from the file of the run. */
static bool set_weights(train_run *r, lk_model *m)
{
    lk_tensor        **value = first_weights(r);
    const lk_variables w = lk_model_weights(m);
    for (int i = 0; value && i < w.count && i < r->net.weights; i++)
        r->net.weight[i] = w.item[i];
    const bool good = value && lk_model_set_weights(m, lk_tuple_from(r->net.weights, value)) == LK_OK;
    free(value);
    return good;
}

static void train_by_fit(train_run *r, const expected *e)
{
    lk_model *m = NULL;
    watcher   w = {.run = r, .want = e, .batch = r->batch};
    if (r->strategy)
        LK_SCOPE(r->strategy)
            m = lk_model_from_json_file(run_path(r, "model.json"));
    else m = lk_model_from_json_file(run_path(r, "model.json"));
    if (!m || !set_weights(r, m)) return;
    lk_tuple    all = LK_TUPLE(rows_of(r, &r->x, 0, r->rows, r->rows), rows_of(r, &r->labels, 0, r->rows, r->rows));
    lk_dataset *data = lk_dataset_batch(lk_dataset_from_tensor_slices(all), r->batch);
    lk_model_compile(m, .loss = r->loss, .optimizer = r->optimizer, .metrics = LK_METRICS(lk_accuracy()));
    lk_history *h = lk_model_fit(
        m, data, .epochs = r->epochs, .verbose = LK_SILENT,
        .callbacks = LK_CALLBACKS(lk_callback_of(.user = &w, .on_epoch_begin = epoch_begins, .on_train_batch_end = step_ended)));
    if (!sound(r->c, "fit") || r->c->why[0]) return;
    check_history(r, h);
    check_end(r, w.step);
}

typedef struct form { /* a way to make a run */
    const char   *suffix, *losses;
    int           replicas;
    lk_split_rule split;
    bool          fit;
} form;

/* As in fit, or for a custom loop: one value per row. */
static lk_loss *loss_in(train_run *r, bool fit)
{
    const scope               outer = scope_begin(r->c, json_object_get(r->spec, "loss"));
    const char               *name = json_string_value(attribute(r->c, "name"));
    const int                 id = name ? find_loss(name) : -1, axis = has(r->c, "axis") ? whole(r->c, "axis") : -1;
    const lk_loss_args        a = loss_args(r->c, NULL, NULL);
    const lk_loss_object_args set = {.reduction = fit ? LK_REDUCTION_AUTO : LK_REDUCTION_NONE,
                                     .from_logits = a.from_logits,
                                     .label_smoothing = a.label_smoothing,
                                     .ignore_class = a.ignore_class,
                                     .delta = a.delta};
    if (id < 0) miss(r->c, "loss %s is not known here", name ? name : "(none)");
    if (axis != -1 && axis != 1) miss(r->c, "loss %s: axis %d of [rows, outputs] is not known here", name, axis);
    scope_end(r->c, outer, "loss");
    return id < 0 ? NULL : lki_loss_classes[id].make(&set);
}

static bool start_run(train_run *r, const char *data, bool fit)
{
    const char *inputs = json_string_value(json_object_get(r->spec, "inputs"));
    const scope outer = scope_begin(r->c, json_object_get(r->spec, "optimizer"));
    r->optimizer = make_optimizer(r->c, json_string_value(attribute(r->c, "name")), NULL);
    r->scale = has(r->c, "loss_scale_factor") ? real(r->c, "loss_scale_factor") : 1;
    scope_end(r->c, outer, "optimizer");
    r->loss = loss_in(r, !r->custom);
    if (!fit) read_net(&r->net, json_object_get(r->spec, "model"));
    return (fit || load_weights(r)) && (inputs ? load_inputs(r, inputs) : load_set(r, data)) && !r->c->why[0];
}

/* A custom loop uses the data once, whatever the spec says; fit is on one device. */
static train_run run_of(test_case *c, json_t *spec)
{
    const char *mode = json_string_value(json_object_get(spec, "mode"));
    const bool  custom = !mode || strcmp(mode, "fit") != 0;
    return (train_run){.c = c,
                       .spec = spec,
                       .custom = custom,
                       .replicas = custom ? (int)json_integer_value(json_object_get(spec, "replicas")) : 1,
                       .epochs = custom ? 1 : (int)json_integer_value(json_object_get(spec, "epochs")),
                       .steps = (int)json_integer_value(json_object_get(spec, "steps")),
                       .batch = json_integer_value(json_object_get(spec, "batch")),
                       .net = {.c = c}};
}

static void check_train(test_case *c, json_t *spec, const char *data, const form *f)
{
    train_run r = run_of(c, spec);
    bool      ready = false;
    r.split = f->split;
    const expected e = {read_numbers(&r, f->losses), read_numbers(&r, "spread.txt"), read_numbers(&r, "correct.txt")};
    if (f->replicas) {
        r.strategy = lk_mirrored_strategy(.cpu_devices = f->replicas);
        LK_SCOPE(r.strategy)
            ready = start_run(&r, data, f->fit);
    } else ready = start_run(&r, data, f->fit);
    if (ready && f->fit) train_by_fit(&r, &e);
    else if (ready && r.strategy) train_on_replicas(&r, &e);
    else if (ready) train(&r, &e);
    sound(c, "run");
    lki_array_free(&r.x);
    lki_array_free(&r.labels);
    free_net(&r.net);
    free(e.loss);
    free(e.spread);
    free(e.correct);
}

static void silent(const char *text, void *user) { (void)text, (void)user; }

static bool has_batch_norm(json_t *spec)
{
    json_t *layer;
    size_t  i;
    json_array_foreach(json_object_get(spec, "model"), i, layer)
    {
        const char *kind = json_string_value(json_object_get(layer, "layer"));
        if (kind && strcmp(kind, "batch_norm") == 0) return true;
    }
    return false;
}

static void run_forms(const char *name, json_t *spec, const char *data)
{
    const train_run     r = run_of(NULL, spec);
    const int           n = r.replicas;
    const bool          matters = n > 1 && (json_is_null(json_object_get(spec, "denominator")) || has_batch_norm(spec));
    const lk_split_rule split = matters ? LK_SPLIT_EVEN : LK_SPLIT_LANES;
    const bool          fit = !r.custom, fill = json_object_get(spec, "sizes_fill") != NULL;
    const form          forms[] = {{"", "losses.txt", 0, LK_SPLIT_LANES, false},
                                   {n > 1 ? "/strategy" : NULL, "losses.txt", n, split, false},
                                   {n > 1 && fill ? "/fill" : NULL, "losses_fill.txt", n, LK_SPLIT_FILL, false},
                                   {fit ? "/fit" : NULL, "losses.txt", 0, LK_SPLIT_LANES, true},
                                   {fit ? "/fit2" : NULL, "losses.txt", 2, LK_SPLIT_LANES, true}};
    for (int i = 0; i < LKI_COUNT(forms); i++) {
        test_case c;
        char      full[512];
        if (!forms[i].suffix) continue;
        snprintf(full, sizeof full, "%s%s", name, forms[i].suffix);
        if (!case_begin(&c, "train", full, NULL)) continue;
        c.name = name; /* files are found by it */
        LK_POOL
            check_train(&c, spec, data, &forms[i]);
        c.name = full;
        case_end(&c);
    }
}

static int not_hidden(const struct dirent *d) { return d->d_name[0] != '.'; }

static void run_train(void)
{
    const char     *data = getenv("LOCKSTEP_DATA");
    struct dirent **list = NULL;
    char            folder[MAX_PATH];
    snprintf(folder, sizeof folder, "%s/train", golden.folder);
    lk_set_log(silent, NULL);
    const int count = scandir(folder, &list, not_hidden, alphasort);
    if (count > 0 && !data) printf("train: not run: LOCKSTEP_DATA does not say where the data sets are\n");
    for (int i = 0; i < count; i++) {
        json_t *spec = data ? load_json(path_of("train", list[i]->d_name, "/spec.json")) : NULL;
        if (spec) run_forms(list[i]->d_name, spec, data);
        json_decref(spec);
        free(list[i]);
    }
    free(list);
}

#endif
