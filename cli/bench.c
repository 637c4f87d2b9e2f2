/* lockstep bench: how many rows per second a training step processes on this machine, with one core and more, on one replica and
 * two.
 *
 * Every line is a separate training that runs for about a second; tracing and planning are not counted. */
#include "commands.h"
#include "machine.h"
#include "models.h"
#include "report.h"
#include "session.h"
#include "sources.h"
#include <stdio.h>
#include <stdlib.h>

static const double SECONDS = 1;

/* ---- rows ---- */

/* Numbers between 0 and 1, and classes. */
static lk_dataset *random_rows(const lk_shape *row, int64_t rows, int64_t classes)
{
    lk_shape shape = {.rank = row->rank + 1, .dim = {rows}};
    for (int i = 0; i < row->rank; i++)
        shape.dim[i + 1] = row->dim[i] < 0 ? 16 : row->dim[i];
    const int64_t size = cli_shape_size(shape);
    /* malloc may promise more memory than there is */
    const bool fits = (double)size * sizeof(float) < cli_memory_gib() * 0x1p30;
    float     *x = fits ? malloc((size_t)size * sizeof *x) : NULL;
    int64_t   *y = malloc((size_t)rows * sizeof *y);
    uint32_t   state = 1;
    for (int64_t i = 0; x && i < size; i++)
        x[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f;
    for (int64_t i = 0; y && i < rows; i++)
        y[i] = i % (classes > 1 ? classes : 2);
    lk_dataset *d =
        x && y
            ? lk_dataset_from_tensor_slices(LK_TUPLE(lk_tensor_from(shape, LK_F32, x), lk_tensor_from(LK_SHAPE(rows), LK_I64, y)))
            : NULL;
    free(x);
    free(y);
    return d;
}

/* ---- one line ---- */

typedef struct setting {
    int replicas, threads;
} setting;

typedef struct bench {
    const cli_args *args;
    double          until; /* by the clock of report.h */
} bench;

static void look_at_clock(const lk_event *event, void *user)
{
    const bench *b = user;
    if (cli_clock_ms() > b->until && event->batch > 1) lk_model_stop_training(event->model);
}

static int fit_for_a_while(bench *b, cli_model *m, lk_dataset *rows, lk_fit_times *times)
{
    lk_dataset *batches = lk_dataset_repeat(lk_dataset_batch(rows, (int64_t)b->args->number[OPT_BATCH]));
    b->until = cli_clock_ms() + SECONDS * 1e3;
    lk_history *h =
        lk_model_fit(m->model, batches, .steps_per_epoch = INT32_MAX, .verbose = LK_SILENT,
                     .callbacks = LK_CALLBACKS(lk_callback_of(b, .on_train_batch_end = look_at_clock, .stale_logs_ok = LK_ON)));
    if (lk_failed() || !h) return cli_fail_library(CLI_FAILED);
    *times = lk_history_times(h);
    return CLI_FINE;
}

/* As if these options had been typed. */
static cli_args args_for(const cli_args *a, setting s)
{
    cli_args with = *a;
    with.given[OPT_REPLICAS] = with.given[OPT_THREADS] = true;
    with.number[OPT_REPLICAS] = s.replicas;
    with.number[OPT_THREADS] = s.threads;
    return with;
}

static int make_rows(cli_model *m, cli_source *data)
{
    enum { ROWS = 512 };
    char text[CLI_SHAPE_TEXT];
    if (cli_shape_size(m->row) == 0)
        return cli_fail(CLI_DATA, "bench: %s takes rows of %s, which have no values", m->text, cli_shape_text(m->row, text));
    *data = (cli_source){.text = "random rows", .train = random_rows(&m->row, ROWS, 2)};
    const int64_t outputs = data->train ? cli_model_outputs(m, data) : 0;
    if (outputs > 2) data->train = random_rows(&m->row, ROWS, outputs);
    if (data->train && !lk_failed()) return CLI_FINE;
    if (lk_failed()) return cli_fail_library(CLI_FAILED);
    return cli_fail(CLI_FAILED, "bench: there is not enough memory for %d rows of %s, which %s takes", ROWS,
                    cli_shape_text(m->row, text), m->text);
}

static int measure(const cli_args *a, setting s)
{
    const cli_args   with = args_for(a, s);
    static bench     b;
    static cli_model m;
    lk_strategy     *strategy;
    lk_fit_times     times;
    int              code = cli_session(&with, &strategy);
    b.args = &with;
    if (!code) code = cli_model_find(a->words ? a->word[0] : "basic", strategy, &m);
    if (!code) code = cli_model_make_for(&m, strategy, LK_SHAPE(28, 28, 1), 10);
    if (!code && !m.has_row) code = cli_fail(CLI_DATA, "bench: %s does not define the shape of its rows", m.text);
    if (code) return code;
    static cli_source data;
    code = make_rows(&m, &data);
    if (code) return code;
    code = cli_model_compile_anew(&m, &with, &data); /* a model with its own loss may need other labels */
    if (!code) code = fit_for_a_while(&b, &m, data.train, &times);
    if (code) return code;
    const double steps = (double)times.steps - 1, batch = (double)times.rows / (double)times.steps; /* the first step was planned */
    printf("%8d %8d %12s %10.3f\n", s.replicas, s.threads, cli_with_commas((int64_t)(steps * batch / times.step)),
           1e3 * times.step / steps);
    fflush(stdout);
    return CLI_FINE;
}

static int run_bench(const cli_args *a)
{
    const int all = lk_threads();
    int       code = CLI_FINE;
    printf("%s, %.0f rows a step, %d cores, %s\n\n%8s %8s %12s %10s\n", a->words ? a->word[0] : "basic", a->number[OPT_BATCH], all,
           cli_isa(), "replicas", "threads", "rows/s", "ms/step");
    for (int threads = 1; threads < all && !code; threads *= 2)
        LK_POOL
            code = measure(a, (setting){1, threads});
    for (int replicas = 1; replicas <= 2 && !code; replicas++)
        LK_POOL
            code = measure(a, (setting){replicas, all});
    return code;
}

const cli_command cli_bench = {
    .name = "bench",
    .words = "[MODEL]",
    .most = 1,
    .help = "measure training steps on this machine",
    .more = "MODEL is as for train; default basic. Takes a second or two per line.\n",
    .options = CLI_OPTIONS(OPT_BATCH, OPT_LANES),
    .run = run_bench,
};
