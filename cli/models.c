/* Models by name and from files (models.h).
 *
 * The input shape of a model from a file is read from the JSON that the library writes for it. */
#include "models.h"
#include "paths.h"
#include "session.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- built in ---- */

/* The model of the basic tutorial. */
static lk_model *make_basic(lk_shape row, int units)
{
    return lk_sequential_named("basic", lk_conv2d(32, 3, .activation = LK_RELU, .input_shape = row), lk_max_pooling2d(),
                               lk_flatten(), lk_dense(64, .activation = LK_RELU), lk_dense(units));
}

/* The model of the tutorial on custom training. */
static lk_model *make_fashion(lk_shape row, int units)
{
    lk_regularizer *l2 = lk_l2(1e-5);
    return lk_sequential_named("fashion", lk_conv2d(32, 3, .activation = LK_RELU, .kernel_regularizer = l2, .input_shape = row),
                               lk_max_pooling2d(), lk_conv2d(64, 3, .activation = LK_RELU, .kernel_regularizer = l2),
                               lk_max_pooling2d(), lk_flatten(), lk_dense(64, .activation = LK_RELU, .kernel_regularizer = l2),
                               lk_dense(units, .kernel_regularizer = l2));
}

static lk_model *make_mlp(lk_shape row, int units)
{
    return lk_sequential_named("mlp", lk_flatten(.input_shape = row), lk_dense(64, .activation = LK_RELU), lk_dense(units));
}

static const struct {
    const char *name;
    bool        pictures; /* takes only [height, width, channels] */
    lk_model *(*make)(lk_shape row, int units);
} built_in[] = {{"basic", true, make_basic}, {"fashion", true, make_fashion}, {"mlp", false, make_mlp}};
enum { BUILT_IN = sizeof built_in / sizeof *built_in };

int cli_model_make_for(cli_model *m, lk_strategy *strategy, lk_shape row, int64_t outputs)
{
    if (m->model) return CLI_FINE;
    char text[CLI_SHAPE_TEXT];
    if (row.rank == 2 && built_in[m->built_in].pictures) row.dim[row.rank++] = 1;
    if (row.rank != 3 && built_in[m->built_in].pictures)
        return cli_fail(CLI_DATA, "model %s takes pictures, [height, width, channels]; the rows are %s. mlp takes any", m->text,
                        cli_shape_text(row, text));
    LK_SCOPE(strategy)
        m->model = built_in[m->built_in].make(row, (int)outputs);
    m->row = row;
    m->has_row = true;
    return m->model ? CLI_FINE : cli_fail_library(CLI_DATA);
}

int cli_model_make(cli_model *m, lk_strategy *strategy, cli_source *data)
{
    if (m->model) return CLI_FINE;
    lk_element_spec spec;
    int64_t         outputs;
    int             code = cli_source_spec(data, &spec);
    if (!code) code = cli_source_outputs(data, &outputs);
    return code ? code : cli_model_make_for(m, strategy, spec.shape[0], outputs);
}

/* ---- from files ---- */

static const char *after_key(const char *at, const char *key)
{
    at += strlen(key);
    while (*at == ':' || isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *find_last(const char *text, const char *what)
{
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, what)); at++)
        last = at;
    return last;
}

/* [null, 28, 28, 1] without the first. */
static bool read_row(const char *at, lk_shape *row)
{
    int64_t size[LK_MAX_RANK + 1];
    int     count = 0;
    if (*at != '[') return false;
    while (*at && *at != ']' && count <= LK_MAX_RANK) {
        at += strspn(at, "[, \n\t\r");
        if (*at == 'n') size[count++] = -1;
        else if (isdigit((unsigned char)*at)) size[count++] = strtoll(at, NULL, 10);
        at += strcspn(at, ",]");
    }
    *row = (lk_shape){.rank = count - 1};
    for (int i = 1; i < count; i++)
        row->dim[i - 1] = size[i];
    return count > 0 && *at == ']';
}

/* The number of entries of the last list of this name: ["input", 0, 0] or [["a", 0, 0], ["b", 0, 0]]. The outermost model's is the
 * last. */
static int count_layers(const char *json, const char *key)
{
    const char *at = find_last(json, key);
    int         inner = 0;
    if (!at || *(at = after_key(at, key)) != '[') return 1;
    for (int depth = 1; depth > 0 && *++at;) {
        if (*at == '[') inner += ++depth == 2;
        if (*at == ']') depth--;
    }
    return inner ? inner : 1;
}

static void look_at(cli_model *m)
{
    const char *json = lk_model_to_json(m->model);
    if (!json) {
        lk_clear_error(); /* then nothing is known about it */
        return;
    }
    const char *shape = strstr(json, "\"batch_shape\"");
    m->has_row = shape && read_row(after_key(shape, "\"batch_shape\""), &m->row);
    m->inputs = count_layers(json, "\"input_layers\"");
    m->outputs = count_layers(json, "\"output_layers\"");
    m->rescales = strstr(json, "\"Rescaling\"") != NULL;
}

static bool lacks_loss(const cli_model *m)
{
    bool lacks = false;
    for (int i = 0; i < m->outputs; i++)
        lacks = lacks || !lk_model_loss(m->model, i);
    return lacks;
}

/* Warnings about the compile arguments in the file are kept back: for training they become an error, if the model has no loss or
 * optimiser because of them. */
static void keep_warning(cli_model *m, const char *warning)
{
    if (!warning) return;
    m->uncompiled = cli_keep_text(warning);
    if (lk_model_optimizer(m->model) && !lacks_loss(m)) cli_model_warn(m);
}

void cli_model_warn(cli_model *m)
{
    if (m->uncompiled) cli_fail(0, "warning: %s", m->uncompiled);
    m->uncompiled = NULL;
}

static int load(const char *path, lk_strategy *strategy, cli_model *out)
{
    if (access(path, R_OK) != 0) return cli_fail(CLI_DATA, "%s: %s", path, strerror(errno));
    cli_hold_warnings("compile_config");
    LK_SCOPE(strategy)
        out->model = cli_ends_in(path, ".json") ? lk_model_from_json_file(path) : lk_model_load(path);
    const char *warning = cli_held_warnings();
    if (!out->model) return cli_fail_library(CLI_DATA);
    look_at(out);
    keep_warning(out, warning);
    return CLI_FINE;
}

static int unknown_model(const char *text)
{
    const char *known[BUILT_IN];
    for (int i = 0; i < BUILT_IN; i++)
        known[i] = built_in[i].name;
    if (strpbrk(text, "/.")) return cli_fail(CLI_DATA, "%s: %s", text, strerror(ENOENT));
    const char *near = cli_nearest(text, BUILT_IN, known);
    if (near) return cli_fail(CLI_USAGE, "there is no model %s; is %s meant?", text, near);
    return cli_fail(CLI_USAGE, "there is no model %s; it should be basic, fashion, mlp, a .keras file or a Keras JSON file", text);
}

int cli_model_find(const char *text, lk_strategy *strategy, cli_model *out)
{
    struct stat s;
    *out = (cli_model){.text = text, .inputs = 1, .outputs = 1};
    for (int i = 0; i < BUILT_IN; i++)
        if (!strcmp(text, built_in[i].name)) {
            out->built_in = i;
            return CLI_FINE;
        }
    if (stat(text, &s) != 0) return unknown_model(text);
    if (!S_ISDIR(s.st_mode)) return load(text, strategy, out);
    char path[4096];
    snprintf(path, sizeof path, "%s/model.keras", text);
    return load(path, strategy, out);
}

/* ---- its outputs ---- */

int cli_model_probe(cli_model *m, cli_source *data, lk_shape out[CLI_MOST_TENSORS])
{
    lk_element_spec spec;
    int             code = cli_source_spec(data, &spec);
    if (code) return code;
    if (m->inputs > spec.count || m->inputs + m->outputs > CLI_MOST_TENSORS)
        return cli_fail(CLI_DATA, "%s: has %d tensors per row; %s needs %d inputs and has %d outputs", data->text, spec.count,
                        m->text, m->inputs, m->outputs);
    LK_STEP {
        lk_tensor *in[CLI_MOST_TENSORS];
        for (int i = 0; i < m->inputs; i++) {
            lk_shape one = {.rank = spec.shape[i].rank + 1, .dim = {1}};
            for (int k = 0; k < spec.shape[i].rank; k++)
                one.dim[k + 1] = spec.shape[i].dim[k] < 0 ? 1 : spec.shape[i].dim[k];
            in[i] = lk_zeros(one, spec.dtype[i]);
        }
        lk_tensor *y = lk_model_call(m->model, m->inputs == 1 ? in[0] : lk_nest(lk_tuple_from(m->inputs, in)));
        lk_tuple   all = m->outputs == 1 || lk_failed() ? LK_TUPLE(y) : lk_nested(y);
        for (int i = 0; i < m->outputs && !lk_failed(); i++) {
            out[i] = lk_tensor_shape(all.item[i]);
            for (int k = 1; k < out[i].rank; k++)
                out[i].dim[k - 1] = out[i].dim[k];
            out[i].rank--;
        }
        if (lk_failed()) code = cli_fail_library(CLI_DATA);
    }
    return code;
}

int64_t cli_model_outputs(cli_model *m, cli_source *data)
{
    lk_shape out[CLI_MOST_TENSORS];
    if (cli_model_probe(m, data, out) != CLI_FINE || out[0].rank < 1) return 0;
    return out[0].dim[out[0].rank - 1];
}
