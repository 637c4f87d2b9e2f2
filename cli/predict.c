/* lockstep predict: predictions of a trained model, as lines, CSV or arrays. */
#include "commands.h"
#include "failure.h"
#include "files.h"
#include "models.h"
#include "paths.h"
#include "session.h"
#include "settings.h"
#include "sources.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_OUTPUTS = 64 };

static int open_all(const cli_args *a, cli_model *m, cli_source *data)
{
    const char *out = a->text[OPT_OUT];
    if (out && !cli_ends_in(out, ".npy") && !cli_ends_in(out, ".npz") && !cli_ends_in(out, ".csv"))
        return cli_fail(CLI_USAGE, "predict: --out %s: it should end in .npy, .npz or .csv", out);
    if (out && cli_why_not_written(out)) return cli_fail(CLI_DATA, "%s: %s", out, strerror(cli_why_not_written(out)));
    lk_strategy *strategy;
    int          code = cli_session(a, &strategy);
    if (!code) code = cli_model_find(a->word[0], strategy, m);
    if (!code && !m->model)
        code = cli_fail(CLI_USAGE, "predict: %s has no trained weights; give a .keras file or a folder of --save", m->text);
    if (!code) cli_model_warn(m);
    const lk_shape *row = m->has_row ? &m->row : NULL;
    if (!code) code = cli_settings_data_known(a, row);
    const cli_wants wants = {.row = row, .unlabelled = true};
    const char     *text = a->given[OPT_DATA] ? a->text[OPT_DATA] : "digits";
    if (!code) code = cli_sources_use(a, text, NULL);
    if (!code) code = cli_source_open(a, text, wants, data);
    if (!code && a->given[OPT_VALIDATION_SPLIT]) code = cli_source_split(data, a->number[OPT_VALIDATION_SPLIT]);
    if (!code) code = cli_source_fit(data, a, row, m->rescales);
    if (!code) cli_settings_tell_data(a);
    return code;
}

/* ---- lines ---- */

typedef struct column {
    const float *value; /* [rows, width] */
    int64_t      width;
} column;

static int64_t largest(const float *value, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (value[i] > value[best]) best = i;
    return best;
}

static void put_names(FILE *to, int outputs, const column *c, bool classes)
{
    const char *between = "";
    if (classes) fputs("class", to), between = ",";
    for (int i = 0; i < outputs; i++)
        for (int64_t k = 0; k < c[i].width; k++, between = ",") {
            if (outputs == 1) fprintf(to, "%soutput_%" PRId64, between, k);
            else fprintf(to, "%soutput_%d_%" PRId64, between, i, k);
        }
    fputc('\n', to);
}

static void put_row(FILE *to, int outputs, const column *c, bool classes, int64_t row)
{
    const char *between = "";
    if (classes) fprintf(to, "%" PRId64, largest(c[0].value + row * c[0].width, c[0].width)), between = ",";
    for (int i = 0; i < outputs; i++)
        for (int64_t k = 0; k < c[i].width; k++, between = ",")
            fprintf(to, "%s%.9g", between, (double)c[i].value[row * c[i].width + k]);
    fputc('\n', to);
}

static int write_lines(const char *path, lk_tuple outputs)
{
    column  c[MOST_OUTPUTS];
    int     count = outputs.count;
    int64_t rows = lk_dim(outputs.item[0], 0);
    for (int i = 0; i < count; i++) {
        lk_tensor *t = lk_cast(outputs.item[i], LK_F32);
        c[i] = (column){lk_data(t), rows ? lk_size(t) / rows : 0};
    }
    if (lk_failed()) return cli_fail_library(CLI_FAILED);
    const bool classes = count == 1 && lk_rank(outputs.item[0]) == 2 && c[0].width > 1;
    FILE      *to = path ? cli_open_to_write(path) : stdout;
    if (!to) return cli_fail(CLI_DATA, "%s: %s", path, strerror(errno));
    put_names(to, count, c, classes);
    for (int64_t row = 0; row < rows && !ferror(to); row++)
        put_row(to, count, c, classes, row);
    bool failed = fflush(to) != 0 || ferror(to);
    if (path) failed = fclose(to) != 0 || failed;
    return failed ? cli_fail(CLI_DATA, "%s: %s", path ? path : "standard output", strerror(errno)) : CLI_FINE;
}

/* ---- arrays ---- */

static int write_arrays(const char *path, lk_tuple outputs)
{
    const char *name[MOST_OUTPUTS + 1] = {NULL};
    char        text[MOST_OUTPUTS][24];
    if (outputs.count > 1 && !cli_ends_in(path, ".npz"))
        return cli_fail(CLI_USAGE, "predict: the model has %d outputs; --out FILE.npz saves all of them", outputs.count);
    for (int i = 0; i < outputs.count; i++) {
        snprintf(text[i], sizeof text[i], "output_%d", i);
        name[i + 1] = text[i];
    }
    const lk_status status = cli_ends_in(path, ".npz") ? lk_npz_write(path, lk_names_of(outputs.count, name), outputs)
                                                       : lk_npy_write(path, outputs.item[0]);
    return status == LK_OK ? CLI_FINE : cli_fail_library(CLI_DATA);
}

static int run_predict(const cli_args *typed)
{
    static cli_model  m;
    static cli_source data;
    cli_args          with = *typed, *a = &with;
    int               code = cli_settings_take_data(a, true);
    if (!code) code = open_all(a, &m, &data);
    if (code) return code;
    lk_dataset *rows = cli_source_measured(&data);
    lk_tensor  *y = lk_model_predict(m.model, lk_dataset_batch(rows, (int64_t)a->number[OPT_BATCH]), .verbose = LK_SILENT);
    if (lk_failed()) return cli_explain_failure(&m, &data, 0, NULL);
    const lk_tuple outputs = m.outputs == 1 ? LK_TUPLE(y) : lk_nested(y);
    const char    *out = a->text[OPT_OUT];
    if (outputs.count > MOST_OUTPUTS)
        return cli_fail(CLI_FAILED, "%s: %d outputs; at most %d are supported", m.text, outputs.count, MOST_OUTPUTS);
    return out && !cli_ends_in(out, ".csv") ? write_arrays(out, outputs) : write_lines(out, outputs);
}

const cli_command cli_predict = {
    .name = "predict",
    .words = "MODEL",
    .least = 1,
    .most = 1,
    .help = "predictions of a trained model",
    .more = "MODEL is a .keras file or a folder of --save, whose run.json names the data to use without --data.\n"
            "If the data has a test part, that part is used, else all rows.\n",
    .options = CLI_OPTIONS(OPT_DATA, OPT_OUT, OPT_BATCH, OPT_ROWS, CLI_DEVICE_OPTIONS, CLI_DATA_OPTIONS),
    .run = run_predict,
};
