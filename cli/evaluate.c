/* lockstep evaluate: loss and metrics of a trained model. */
#include "commands.h"
#include "failure.h"
#include "models.h"
#include "report.h"
#include "session.h"
#include "settings.h"
#include "sources.h"
#include <math.h>
#include <stdio.h>

static int open_all(const cli_args *a, lk_strategy **strategy, cli_model *m, cli_source *data)
{
    int code = cli_session(a, strategy);
    if (!code) code = cli_model_find(a->word[0], *strategy, m);
    if (!code && !m->model)
        code = cli_fail(CLI_USAGE, "evaluate: %s has no trained weights; give a .keras file or a folder of --save", m->text);
    if (!code) cli_model_warn(m);
    const lk_shape *row = m->has_row ? &m->row : NULL;
    if (!code) code = cli_settings_data_known(a, row);
    const char *text = a->given[OPT_DATA] ? a->text[OPT_DATA] : "digits";
    if (!code) code = cli_sources_use(a, text, NULL);
    if (!code) code = cli_source_open(a, text, (cli_wants){.row = row}, data);
    if (!code && a->given[OPT_VALIDATION_SPLIT]) code = cli_source_split(data, a->number[OPT_VALIDATION_SPLIT]);
    if (!code) code = cli_source_fit(data, a, row, m->rescales);
    if (!code) cli_settings_tell_data(a);
    if (!code) code = cli_model_compile(m, a, data);
    return code ? code : cli_model_labels_fit(m, data);
}

static void tell(const cli_args *a, const char *data, const lk_logs *logs, int64_t rows, double seconds)
{
    if (a->given[OPT_JSON]) {
        cli_json j;
        cli_json_begin(&j, stdout);
        cli_json_text(&j, "model", a->word[0]);
        cli_json_text(&j, "data", data);
        cli_json_whole(&j, "rows", rows);
        for (int i = 0; i < logs->count; i++)
            cli_json_number(&j, logs->name[i], logs->value[i]);
        cli_json_number(&j, "rows_per_s", seconds > 0 ? (double)rows / seconds : 0);
        cli_json_number(&j, "peak_rss_mib", cli_peak_rss_mib());
        cli_json_end(&j);
        return;
    }
    printf("%s rows:", cli_with_commas(rows));
    for (int i = 0; i < logs->count; i++)
        printf("%s %s %.4f", i ? "," : "", logs->name[i], logs->value[i]);
    printf("\n");
}

/* Rows that were used, for data that does not know how many it has. */
typedef struct seen {
    int64_t batches;
    double  began;
} seen;

static void count_batch(const lk_event *event, void *user) { ((seen *)user)->batches = event->batch + 1; }

static int run_evaluate(const cli_args *typed)
{
    static cli_model  m;
    static cli_source data;
    cli_args          with = *typed, *a = &with;
    lk_strategy      *strategy;
    if (a->given[OPT_JSON]) cli_output_to_stderr();
    int code = cli_settings_take_data(a, true);
    if (!code) code = open_all(a, &strategy, &m, &data);
    if (code) return code;
    lk_dataset   *rows = cli_source_measured(&data);
    const int64_t batch = (int64_t)a->number[OPT_BATCH], known = lk_dataset_cardinality(rows);
    const int     verbose = (int)a->number[OPT_VERBOSE];
    seen          s = {.began = cli_clock_ms()};
    const lk_logs logs = lk_model_evaluate(m.model, lk_dataset_batch(rows, batch), .verbose = verbose ? verbose : LK_SILENT,
                                           .callbacks = LK_CALLBACKS(lk_callback_of(&s, .on_test_batch_end = count_batch)));
    if (lk_failed()) return cli_explain_failure(&m, &data, 1, &(cli_used){rows, data.text});
    tell(a, data.text, &logs, known >= 0 ? known : s.batches * batch, (cli_clock_ms() - s.began) / 1e3);
    return CLI_FINE;
}

const cli_command cli_evaluate = {
    .name = "evaluate",
    .words = "MODEL",
    .least = 1,
    .most = 1,
    .help = "loss and metrics of a trained model",
    .more = "MODEL is a .keras file or a folder of --save, whose run.json names the data to use without --data.\n"
            "If the data has a test part, that part is used, else all rows.\n",
    .options = CLI_OPTIONS(OPT_DATA, OPT_BATCH, OPT_ROWS, CLI_DEVICE_OPTIONS, OPT_LOSS, OPT_METRICS, OPT_JSON, OPT_VERBOSE,
                           CLI_DATA_OPTIONS),
    .run = run_evaluate,
};
