/* lockstep train: a model, data and devices; and saving the run.
 *
 *     devices -> model -> data -> rows that fit -> compiled -> fit, watched -> saved -> reported
 *
 * Every step returns an exit code. The first that is not CLI_FINE has printed its message, and becomes the exit status of the
 * process. */
#include "commands.h"
#include "failure.h"
#include "folder.h"
#include "models.h"
#include "paths.h"
#include "report.h"
#include "session.h"
#include "settings.h"
#include "sources.h"
#include "watch.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct run {
    const cli_args *args;
    lk_strategy    *strategy;
    cli_model       model;
    cli_source      data, other;            /* other: --validation */
    lk_dataset     *rows, *validation_rows; /* validation_rows NULL: none */
    lk_dataset     *train, *validation;     /* batches */
    cli_folder      folder;
    cli_watch       watch;
    lk_fit_args     fit;
    lk_history     *history;
    lk_history     *epochs;   /* with those before a resume; NULL: no epoch was finished */
    lk_logs         measured; /* after training, if it ended within an epoch */
} run;

#define DATA(r) ((const cli_source *const[2]){&(r)->data, &(r)->other})

static bool  quiet(const run *r) { return r->args->number[OPT_VERBOSE] == 0; }
static FILE *talk_to(const run *r) { return r->args->given[OPT_JSON] ? stderr : stdout; }

/* ---- data ---- */

static int open_validation(run *r, const lk_shape *row)
{
    const cli_args *a = r->args;
    int             code = CLI_FINE;
    if (a->given[OPT_VALIDATION_SPLIT] && a->given[OPT_VALIDATION])
        return cli_fail(CLI_USAGE, "%s: give --validation or --validation-split, not both", a->command->name);
    if (a->given[OPT_VALIDATION_SPLIT]) code = cli_source_split(&r->data, a->number[OPT_VALIDATION_SPLIT]);
    r->rows = r->data.train;
    r->validation_rows = r->data.test;
    if (code || !a->given[OPT_VALIDATION]) return code;
    code = cli_source_open(a, a->text[OPT_VALIDATION], (cli_wants){.row = row}, &r->other);
    if (!code) code = cli_source_fit(&r->other, a, row, r->model.rescales);
    r->validation_rows = cli_source_measured(&r->other);
    return code ? code : cli_model_labels_fit(&r->model, &r->other);
}

/* Shuffled again in every epoch. A shuffle holds numbers of rows, so its buffer can be as large as the data. */
static int make_batches(run *r)
{
    enum { UNKNOWN_BUFFER = 10000 };
    const int64_t rows = lk_dataset_cardinality(r->rows), batch = (int64_t)r->args->number[OPT_BATCH];
    if (rows == 0) return cli_fail(CLI_DATA, "%s: has no rows", r->data.text);
    r->train = lk_dataset_batch(lk_dataset_shuffle(r->rows, rows > 0 ? rows : UNKNOWN_BUFFER), batch);
    if (r->validation_rows) r->validation = lk_dataset_batch(r->validation_rows, batch);
    return lk_failed() ? cli_fail_library(CLI_DATA) : CLI_FINE;
}

/* ---- getting ready ---- */

static int open_all(run *r)
{
    const cli_args *a = r->args;
    const char     *data = a->given[OPT_DATA] ? a->text[OPT_DATA] : "digits";
    int             code = cli_model_find(a->word[0], r->strategy, &r->model);
    if (!code) code = cli_sources_use(a, data, a->given[OPT_VALIDATION] ? a->text[OPT_VALIDATION] : NULL);
    if (!code) code = cli_source_open(a, data, (cli_wants){.row = r->model.has_row ? &r->model.row : NULL}, &r->data);
    if (!code) code = cli_model_make(&r->model, r->strategy, &r->data);
    const lk_shape *row = r->model.has_row ? &r->model.row : NULL;
    if (!code) code = cli_source_fit(&r->data, a, row, r->model.rescales);
    if (!code) code = cli_model_compile(&r->model, a, &r->data);
    if (!code) code = open_validation(r, row);
    if (!code && !a->given[OPT_RESUME] && cli_run_of(a->word[0])) cli_settings_tell_data(a);
    return code ? code : make_batches(r);
}

/* The length of training. If the requested steps are whole epochs, nothing else has to stop it. A few steps within the first epoch
 * are one short epoch, unless a later run should resume in the middle. */
static void plan_length(run *r)
{
    const cli_args *a = r->args;
    const int64_t   each = lk_dataset_cardinality(r->train), steps = (int64_t)a->number[OPT_STEPS];
    int64_t         epochs = (int64_t)a->number[OPT_EPOCHS];
    if (a->given[OPT_STEPS]) {
        const int64_t needed = each > 0 ? (steps + each - 1) / each : INT32_MAX;
        epochs = a->given[OPT_EPOCHS] && epochs < needed ? epochs : needed;
        const bool ends_within = each <= 0 || (epochs == needed && steps % each);
        if (ends_within && each > 0 && epochs == 1 && !r->folder.asked) r->fit.steps_per_epoch = steps;
        else if (ends_within) r->watch.steps = steps;
        if (ends_within && epochs == 1 && !a->given[OPT_VALIDATION]) r->validation = NULL;
    }
    r->fit.epochs = (int)(epochs < INT32_MAX ? epochs : INT32_MAX);
}

static int make_callbacks(run *r)
{
    lk_callback *item[6] = {NULL};
    int          count = 0;
    r->watch.model = r->model.model;
    r->watch.rate = r->args->number[OPT_LEARNING_RATE];
    r->watch.learnt = r->folder.learnt;
    if (r->folder.resumes && !quiet(r)) r->watch.folder = r->folder.path;
    item[++count] = cli_folder_backup(&r->folder); /* first: later callbacks see what it restored */
    item[++count] = cli_watch_callback(&r->watch);
    if (r->folder.asked) item[++count] = lk_csv_logger(r->folder.history, .append = r->folder.resumes ? LK_ON : LK_OFF);
    if (r->args->given[OPT_TENSORBOARD]) item[++count] = lk_tensorboard(r->args->text[OPT_TENSORBOARD]);
    r->fit.callbacks = lk_callbacks_of(count, item);
    return lk_failed() ? cli_fail_library(CLI_FAILED) : CLI_FINE;
}

/* Check now, so that an error does not cost a training. */
static int check_plot(const cli_args *a)
{
    const char *path = a->text[OPT_PLOT];
    if (!path) return CLI_FINE;
    if (!cli_ends_in(path, ".svg") && !cli_ends_in(path, ".png"))
        return cli_fail(CLI_USAGE, "%s: --plot %s: it should end in .svg or .png", a->command->name, path);
    const int why = cli_why_not_written(path);
    return why ? cli_fail(CLI_DATA, "--plot %s: %s", path, strerror(why)) : CLI_FINE;
}

/* Slots are made here, so that a run that turns out to be finished still has them. */
static int begin_folder(run *r)
{
    lk_optimizer *o = lk_model_optimizer(r->model.model);
    const int     code = cli_folder_begin(&r->folder, r->args, DATA(r), lk_optimizer_iterations(o));
    if (code || !r->folder.resumes) return code;
    LK_SCOPE(r->strategy)
        lk_optimizer_build(o, lk_model_trainable_variables(r->model.model));
    return lk_failed() ? cli_fail_library(CLI_FAILED) : CLI_FINE;
}

static int prepare(run *r)
{
    int code = check_plot(r->args);
    if (!code) code = cli_session(r->args, &r->strategy);
    if (!code) code = cli_folder_open(r->args, &r->folder);
    if (!code) code = open_all(r);
    if (!code) code = begin_folder(r);
    if (code) return code;
    plan_length(r);
    return make_callbacks(r);
}

/* ---- training ---- */

static int explain_failure(run *r)
{
    const bool     own = !r->args->given[OPT_VALIDATION]; /* validation is part of the data */
    const cli_used used[] = {{r->rows, r->data.text}, {r->validation_rows, own ? "the validation rows" : r->other.text}};
    if (!r->folder.asked) cli_folder_forget(&r->folder);
    return cli_explain_failure(&r->model, &r->data, 2, used);
}

static int train(run *r)
{
    const int verbose = (int)r->args->number[OPT_VERBOSE];
    r->fit.model = r->model.model;
    r->fit.data = r->train;
    r->fit.validation_data = r->validation;
    r->fit.verbose = verbose ? verbose : LK_SILENT;
    if (!quiet(r)) lk_model_summary(r->model.model);
    cli_watch_begin(&r->watch);
    r->history = lk_model_fit_kw(r->fit);
    cli_watch_end();
    if (lk_failed() || !r->history) return explain_failure(r);
    if (!r->watch.lost) return CLI_FINE;
    if (!r->folder.asked) cli_folder_forget(&r->folder);
    return cli_fail(CLI_FAILED, "the loss is %s at epoch %d, step %" PRId64 "; try a smaller --learning-rate",
                    isnan(r->watch.loss) ? "NaN" : "infinite", r->watch.epoch, r->watch.step);
}

/* Evaluates after training was stopped within an epoch; fit does not do that. */
static int measure(run *r)
{
    const int64_t steps = r->watch.steps;
    if (!steps || !r->args->given[OPT_VALIDATION] || cli_watch_interrupted()) return CLI_FINE;
    r->measured = lk_model_evaluate(r->model.model, r->validation, .verbose = LK_SILENT);
    return lk_failed() ? explain_failure(r) : CLI_FINE;
}

/* ---- saving and reporting ---- */

static int keep(run *r)
{
    const bool stopped = cli_watch_interrupted();
    if (r->folder.asked || stopped) return cli_folder_save(&r->folder, r->args, DATA(r), r->model.model, r->history);
    cli_folder_forget(&r->folder);
    return CLI_FINE;
}

static int draw(const run *r)
{
    if (!r->args->given[OPT_PLOT] || !lk_history_epochs(r->history)) return CLI_FINE;
    if (lk_history_plot(r->history, r->args->text[OPT_PLOT]) == LK_OK) return CLI_FINE;
    if (!r->folder.asked) return cli_fail_library(CLI_FAILED);
    cli_fail(0, "--plot %s could not be drawn: %s", r->args->text[OPT_PLOT], lk_error()); /* the model is saved */
    lk_clear_error();
    return CLI_FINE;
}

/* Of the last epoch; NaN: not measured. */
static double last_value(const run *r, const char *name)
{
    const lk_history *h = lk_history_epochs(r->history) ? r->history : r->epochs;
    if (!h) return NAN;
    const lk_names names = lk_history_names(h);
    for (int i = 0; i < names.count; i++)
        if (!strcmp(names.item[i], name)) return lk_history_value(h, name, lk_history_epochs(h) - 1);
    return NAN;
}

static double validated(const run *r, const char *name)
{
    char with[64];
    snprintf(with, sizeof with, "val_%s", name);
    return r->measured.count ? lk_logs_get(&r->measured, name) : last_value(r, with);
}

static void print_json(const run *r)
{
    const lk_fit_times times = lk_history_times(r->history);
    char               digest[65];
    cli_json           j;
    cli_json_begin(&j, stdout);
    cli_json_text(&j, "model", r->model.text);
    cli_json_whole(&j, "replicas", lk_num_replicas_in_sync(r->strategy));
    cli_json_whole(&j, "lanes", lk_lanes());
    cli_json_whole(&j, "steps", r->watch.done);
    cli_json_number(&j, "loss", last_value(r, "loss"));
    cli_json_number(&j, "accuracy", last_value(r, "accuracy"));
    cli_json_number(&j, "val_loss", validated(r, "loss"));
    cli_json_number(&j, "val_accuracy", validated(r, "accuracy"));
    cli_json_number(&j, "rows_per_s", cli_rows_per_s(&times));
    cli_json_numbers(&j, "epoch_s", r->watch.epochs, r->watch.took);
    cli_json_number(&j, "start_ms", r->watch.first_ms);
    cli_json_number(&j, "peak_rss_mib", cli_peak_rss_mib());
    cli_json_text(&j, "digest", cli_state_digest(r->model.model, digest));
    cli_json_end(&j);
}

static void tell(const run *r)
{
    const lk_fit_times times = lk_history_times(r->history);
    if (!quiet(r) && times.steps) cli_print_times(talk_to(r), &times);
    if (!quiet(r) && !times.steps && r->folder.resumes)
        fprintf(talk_to(r), "%s: nothing left to do, %s steps are done\n", r->folder.path, cli_with_commas(r->watch.done));
    if (!quiet(r) && (r->folder.asked || cli_watch_interrupted())) cli_folder_tell_saved(&r->folder, talk_to(r));
    if (cli_watch_interrupted()) {
        fflush(stdout);
        fprintf(stderr, "lockstep: stopped at epoch %d, step %" PRId64 "; ", r->watch.epoch, r->watch.step);
        cli_folder_tell_resume(&r->folder, r->args);
    }
    if (r->args->given[OPT_JSON]) print_json(r);
    fflush(stdout);
}

static int run_train(const cli_args *args)
{
    static run      r; /* datasets refer to it */
    static cli_args with;
    with = *args;
    r.args = &with;
    if (args->given[OPT_JSON]) cli_output_to_stderr();
    int        code = cli_settings_take(&with);
    const bool goes_on = with.given[OPT_RESUME] && with.given[OPT_SAVE] && cli_run_of(with.text[OPT_SAVE]);
    if (!code && !goes_on) code = cli_settings_take_data(&with, false);
    if (!code) code = prepare(&r);
    if (!code) code = train(&r);
    if (!code) code = measure(&r);
    if (!code) code = keep(&r);
    if (code) return code;
    if (r.folder.resumes) r.epochs = cli_folder_history(&r.folder);
    tell(&r);
    return draw(&r);
}

const cli_command cli_train = {
    .name = "train",
    .words = "MODEL",
    .least = 0, /* cli_settings_take() checks whether a run has it */
    .most = 1,
    .help = "train a model on all devices",
    .more = "MODEL is basic, fashion or mlp, a .keras file, a folder of --save, or a JSON file of Keras.\n"
            "train --save DIR --resume, or train DIR --resume, resumes the run with the options in DIR/run.json.\n"
            "Ctrl-C ends training after the current step, saves, and says how to resume; a second one ends immediately.\n"
            "Exit status: 0 success, or interrupted and saved; 2 wrong usage; 3 missing or unsuitable data; 4 training failed.\n",
    .options = CLI_OPTIONS(OPT_DATA, OPT_VALIDATION, OPT_VALIDATION_SPLIT, OPT_EPOCHS, OPT_STEPS, OPT_BATCH, OPT_ROWS,
                           CLI_DEVICE_OPTIONS, OPT_OPTIMIZER, OPT_LEARNING_RATE, OPT_LOSS, OPT_METRICS, OPT_SEED, OPT_SAVE,
                           OPT_SAVE_EVERY, OPT_RESUME, OPT_TENSORBOARD, OPT_PLOT, OPT_JSON, OPT_VERBOSE, CLI_DATA_OPTIONS),
    .run = run_train,
};
