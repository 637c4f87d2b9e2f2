/* What input costs: the pipeline alone, and fit on rows that are shuffled, gathered, cast and scaled, beside the bare step.
 *
 *     input [--quick] [pipeline | basic | custom]
 *
 * The pipeline: 60,000 rows of 28 x 28 bytes, shuffled, divided by 255, put into batches, with nobody using them. Columns: batches
 * of how many rows, microseconds per batch (best and median epoch), rows per second, and GB/s of the floats that were made.
 *
 * Fit: one training on two replicas and all cores. Every few steps of it a callback runs as many steps of the very function that
 * fit compiled, on batches made before, so both see the same machine at nearly the same moment. Columns: rows per second of both
 * (best and median piece), how much longer fit takes in per cent (median over the pieces; of the best pieces), what an epoch costs
 * before its first batch, in milliseconds.
 *
 * The rows are MNIST's where LOCKSTEP_DATA or the cache folder has them, else made up. */
#include "fit/engine.h"
#include "timing.h"
#include <lockstep.h>

enum { ROWS = 60000, SIDE = 28, BATCHES = 8, PIECE_ROWS = 2048, PIECES = 28 };

/* ---- rows ---- */

/* Mostly background, as pictures of digits are. */
static lk_dataset *made_up_rows(void)
{
    const size_t size = (size_t)ROWS * SIDE * SIDE;
    uint8_t     *x = pages(size);
    int64_t     *y = pages(ROWS * sizeof *y);
    uint32_t     state = 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = state >> 30 ? 0 : (uint8_t)(state >> 16);
    }
    for (int i = 0; i < ROWS; i++)
        y[i] = i % 10;
    lk_dataset *d = lk_dataset_from_tensor_slices(
        LK_TUPLE(lk_tensor_from(LK_SHAPE(ROWS, SIDE, SIDE, 1), LK_U8, x), lk_tensor_from(LK_SHAPE(ROWS), LK_I64, y)));
    free(x);
    free(y);
    return d;
}

static lk_dataset *some_rows(void)
{
    char       folder[4096];
    const bool there = lk_mnist_find("mnist", folder, sizeof folder) == LK_OK;
    lk_clear_error();
    printf("rows: %s\n", there ? "MNIST" : "made up");
    return there ? lk_mnist(.split = LK_TRAIN, .download = LK_OFF) : made_up_rows();
}

static lk_tuple scale(lk_tuple row, void *user)
{
    (void)user;
    return LK_TUPLE(lk_div(lk_cast(row.item[0], LK_F32), lk_scalar(255)), row.item[1]);
}

static lk_dataset *batches_of(lk_dataset *rows, int64_t batch)
{
    return lk_dataset_batch(lk_dataset_shuffle(lk_dataset_map(rows, scale), ROWS), batch);
}

/* ---- the pipeline alone ---- */

static void measure_pipeline(lk_dataset *rows, int64_t batch, int epochs)
{
    lk_dataset  *d = batches_of(rows, batch);
    series       rate = {0};
    const double row_bytes = SIDE * SIDE * sizeof(float);
    for (int e = 0; e < epochs; e++) {
        int64_t      count = 0;
        const double start = now();
        LK_FOR_EACH(b, d)
            count += lk_dim(b.item[0], 0);
        series_add(&rate, (double)count / (now() - start));
    }
    const double best = series_largest(&rate), median = series_median(rate);
    printf("%8lld %10.1f %8.1f %12.0f %8.2f\n", (long long)batch, 1e6 * (double)batch / best, 1e6 * (double)batch / median, best,
           best * row_bytes * 1e-9);
}

/* ---- fit beside its step ---- */

typedef struct duel {
    lk_dataset *data;
    lk_tensor  *x[BATCHES], *y[BATCHES];
    int64_t     rows;  /* of a batch */
    int         piece; /* steps */
    double      since, epoch, first;
    series      fit, bare, ratio;
} duel;

static lk_function *step_of(lk_model *m) { return ((lki_engine *)m->compiled->engine)->step[LKI_FIT_TRAIN].function; }

static double bare_piece(duel *d, lk_function *step)
{
    const double start = now();
    for (int i = 0; i < d->piece; i++)
        LK_STEP
            lk_item(lk_call(step, LK_TUPLE(d->x[i % BATCHES], d->y[i % BATCHES])).item[0]);
    return now() - start;
}

static void epoch_begins(const lk_event *event, void *user)
{
    (void)event;
    ((duel *)user)->epoch = now();
}

/* The first piece traces the step and fills the shuffle's buffer: it counts for neither. */
static void step_ends(const lk_event *event, void *user)
{
    duel *d = user;
    if (event->batch == 0) d->first = now() - d->epoch;
    if ((event->batch + 1) % d->piece) return;
    const double fit = now() - d->since, bare = bare_piece(d, step_of(event->model)), rows = (double)(d->piece * d->rows);
    if (event->batch >= d->piece) {
        series_add(&d->fit, rows / fit);
        series_add(&d->bare, rows / bare);
        series_add(&d->ratio, fit / bare);
    }
    d->since = now();
}

static void keep_batches(duel *d, lk_strategy *s)
{
    lk_iterator *it = lk_iterator_of(lk_distribute_dataset(s, d->data, .prefetch = LK_NUMBER(0)));
    for (int i = 0; i < BATCHES; i++) {
        lk_tuple b;
        if (!lk_next(it, &b)) exit(1);
        d->x[i] = lk_keep(b.item[0]);
        d->y[i] = lk_keep(b.item[1]);
    }
    lk_free(it);
}

static lk_model *model_of(int convolutions)
{
    lk_regularizer *l2 = convolutions > 1 ? lk_l2(1e-5) : NULL;
    const lk_shape  row = LK_SHAPE(SIDE, SIDE, 1);
    lk_layer       *first = lk_conv2d(32, 3, .activation = LK_RELU, .kernel_regularizer = l2, .input_shape = row);
    if (convolutions == 1)
        return lk_sequential(first, lk_max_pooling2d(), lk_flatten(), lk_dense(64, .activation = LK_RELU), lk_dense(10));
    return lk_sequential(first, lk_max_pooling2d(), lk_conv2d(64, 3, .activation = LK_RELU, .kernel_regularizer = l2),
                         lk_max_pooling2d(), lk_flatten(), lk_dense(64, .activation = LK_RELU, .kernel_regularizer = l2),
                         lk_dense(10, .kernel_regularizer = l2));
}

static void measure_fit(lk_dataset *rows, const char *name, int convolutions, int64_t batch, int pieces)
{
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
    lk_model    *m = NULL;
    duel         d = {.data = batches_of(rows, batch), .rows = batch, .piece = (int)(PIECE_ROWS / batch)};
    LK_SCOPE(s)
        m = model_of(convolutions);
    lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_adam(),
                     .metrics = LK_METRICS(lk_accuracy()));
    keep_batches(&d, s);
    lk_callback *watch = lk_callback_of(&d, .on_epoch_begin = epoch_begins, .on_train_batch_end = step_ends);
    lk_model_fit(m, d.data, .epochs = 1, .steps_per_epoch = d.piece, .verbose = LK_SILENT); /* traced, and everything warm */
    d.since = now();
    lk_model_fit(m, d.data, .epochs = 1, .steps_per_epoch = d.piece * (pieces + 1), .verbose = LK_SILENT,
                 .callbacks = LK_CALLBACKS(watch));
    const double fit = series_largest(&d.fit), bare = series_largest(&d.bare);
    printf("%-8s %6lld %10.0f %8.0f %10.0f %8.0f %9.2f %7.2f %9.2f\n", name, (long long)batch, bare, series_median(d.bare), fit,
           series_median(d.fit), 100 * (series_median(d.ratio) - 1), 100 * (bare / fit - 1),
           1e3 * d.first - 1e3 * (double)batch / series_median(d.fit));
    fflush(stdout);
}

/* Strategies tell which devices they use. */
static void log_nothing(const char *text, void *user)
{
    (void)text;
    (void)user;
}

int main(int argc, char **argv)
{
    int         quick = 0;
    const char *only = NULL;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--quick")) quick = 1;
        else only = argv[i];
    lk_set_log(log_nothing, NULL);
    lk_dataset *rows = some_rows();
    if (!only || !strcmp(only, "pipeline")) {
        printf("%8s %10s %8s %12s %8s\n", "batch", "us", "median", "rows/s", "GB/s");
        for (int64_t batch = 64; batch <= 1024; batch *= 4)
            measure_pipeline(rows, batch, quick ? 3 : 9);
    }
    if (!only || strcmp(only, "pipeline"))
        printf("%-8s %6s %10s %8s %10s %8s %9s %7s %9s\n", "model", "batch", "bare", "median", "fit", "median", "longer %",
               "best %", "epoch ms");
    for (int m = 1; m <= 2; m++) {
        static const char *const name[] = {"", "basic", "custom"};
        if (only && strcmp(only, name[m])) continue;
        for (int64_t batch = 64; batch <= 1024; batch *= 16)
            measure_fit(rows, name[m], m, batch, quick ? PIECES / 2 : PIECES);
    }
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed();
}
