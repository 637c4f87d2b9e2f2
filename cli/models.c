/* Models by name and from files, and what they are trained with (models.h).
 *
 * What a model of a file takes in and ends with is read from the JSON the library writes of it. */
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

enum { MOST_TENSORS = 8 }; /* of a row: inputs and labels */

/* ---- built in ---- */

/* The basic tutorial's. */
static lk_model *make_basic(lk_shape row, int units)
{
    return lk_sequential_named("basic", lk_conv2d(32, 3, .activation = LK_RELU, .input_shape = row), lk_max_pooling2d(),
                               lk_flatten(), lk_dense(64, .activation = LK_RELU), lk_dense(units));
}

/* That of the tutorial on custom training. */
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
    bool        pictures; /* takes [height, width, channels] only */
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

/* How many the last list of this name has: ["input", 0, 0] or [["a", 0, 0], ["b", 0, 0]]. The outermost model's is the last. */
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

static void read_last_activation(const char *json, char out[32])
{
    const char *key = find_last(json, "\"activation\""), *softmax = find_last(json, "\"Softmax\"");
    out[0] = 0;
    if (softmax && (!key || softmax > key)) snprintf(out, 32, "softmax");
    else if (key && *(key = after_key(key, "\"activation\"")) == '"')
        snprintf(out, 32, "%.*s", (int)strcspn(key + 1, "\""), key + 1);
}

static void look_at(cli_model *m)
{
    const char *json = lk_model_to_json(m->model);
    if (!json) {
        lk_clear_error(); /* nothing is known of it then */
        return;
    }
    const char *shape = strstr(json, "\"batch_shape\"");
    m->has_row = shape && read_row(after_key(shape, "\"batch_shape\""), &m->row);
    m->inputs = count_layers(json, "\"input_layers\"");
    m->outputs = count_layers(json, "\"output_layers\"");
    m->rescales = strstr(json, "\"Rescaling\"") != NULL;
    read_last_activation(json, m->last);
}

static int load(const char *path, lk_strategy *strategy, cli_model *out)
{
    if (access(path, R_OK) != 0) return cli_fail(CLI_DATA, "%s: %s", path, strerror(errno));
    LK_SCOPE(strategy)
        out->model = cli_ends_in(path, ".json") ? lk_model_from_json_file(path) : lk_model_load(path);
    if (!out->model) return cli_fail_library(CLI_DATA);
    look_at(out);
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

/* ---- what it puts out ---- */

/* Of one row of zeros, of which only the shape is looked at. */
static int probe(cli_model *m, cli_source *data, lk_shape out[MOST_TENSORS])
{
    lk_element_spec spec;
    int             code = cli_source_spec(data, &spec);
    if (code) return code;
    if (m->inputs > spec.count || m->inputs + m->outputs > MOST_TENSORS)
        return cli_fail(CLI_DATA, "%s: has %d tensors per row; %s takes %d and puts out %d", data->text, spec.count, m->text,
                        m->inputs, m->outputs);
    LK_STEP {
        lk_tensor *in[MOST_TENSORS];
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
    lk_shape out[MOST_TENSORS];
    if (probe(m, data, out) != CLI_FINE || out[0].rank < 1) return 0;
    return out[0].dim[out[0].rank - 1];
}

/* ---- losses ---- */

typedef lk_loss *(*crossentropy)(lk_loss_object_args args);
static const struct {
    const char  *name, *activation; /* that gives probabilities; with another one the loss takes logits */
    crossentropy make;
} crossentropies[] = {{"sparse_categorical_crossentropy", "softmax", lk_sparse_categorical_crossentropy_kw},
                      {"categorical_crossentropy", "softmax", lk_categorical_crossentropy_kw},
                      {"binary_crossentropy", "sigmoid", lk_binary_crossentropy_kw}};

static lk_loss *loss_named(const cli_model *m, const char *name)
{
    for (size_t i = 0; i < sizeof crossentropies / sizeof *crossentropies; i++) {
        const bool probabilities = !strcmp(m->last, crossentropies[i].activation);
        if (!strcmp(name, crossentropies[i].name))
            return crossentropies[i].make((lk_loss_object_args){.from_logits = probabilities ? LK_OFF : LK_ON});
    }
    return lk_loss_named(name);
}

static bool is_whole(lk_dtype t) { return t == LK_I64 || t == LK_I32 || t == LK_U8 || t == LK_BOOL; }

/* By what the model puts out for a row and what the label of a row is; NULL: they do not go together. */
static const char *usual_loss(const cli_model *m, lk_shape out, lk_shape label, lk_dtype dtype)
{
    const bool whole = is_whole(dtype);
    if (cli_shape_size(out) == 1 && cli_shape_size(label) == 1) return whole ? "binary_crossentropy" : "mean_squared_error";
    if (cli_shape_size(out) == cli_shape_size(label))
        return whole || !strcmp(m->last, "softmax") ? "categorical_crossentropy" : "mean_squared_error";
    const bool one_each = out.rank && cli_shape_size(label) == cli_shape_size(out) / out.dim[out.rank - 1];
    return one_each && whole ? "sparse_categorical_crossentropy" : NULL;
}

static int choose_loss(const cli_model *m, const cli_args *a, const cli_source *data, lk_shape out, lk_shape label, lk_dtype dtype,
                       lk_loss **loss, const char **metric)
{
    char        texts[2][CLI_SHAPE_TEXT];
    const char *name = a->given[OPT_LOSS] ? a->text[OPT_LOSS] : usual_loss(m, out, label, dtype);
    if (!name)
        return cli_fail(CLI_DATA, "%s: labels are %s %s, and %s puts out %s for a row; --loss would say what to make of that",
                        data->text, lk_dtype_name(dtype), cli_shape_text(label, texts[0]), m->text, cli_shape_text(out, texts[1]));
    *loss = loss_named(m, name);
    *metric = strstr(name, "crossentropy") || strstr(name, "hinge") ? "accuracy" : "mean_absolute_error";
    return *loss ? CLI_FINE : cli_fail_library(CLI_USAGE);
}

/* ---- compiling ---- */

static int choose_metrics(const cli_args *a, const char *usual, lk_metrics *out)
{
    const char *name[CLI_MOST_NAMES + 1];
    lk_metric  *metric[CLI_MOST_NAMES + 1];
    const int   count = cli_split(a->given[OPT_METRICS] ? a->text[OPT_METRICS] : usual, name);
    if (!count) return cli_fail(CLI_USAGE, "%s: --metrics %s: names no metric", a->command->name, a->text[OPT_METRICS]);
    for (int i = 1; i <= count; i++)
        if (!(metric[i] = lk_metric_named(name[i]))) return cli_fail_library(CLI_USAGE);
    *out = lk_metrics_of(count, metric);
    return CLI_FINE;
}

static int compile_anew(cli_model *m, const cli_args *a, cli_source *data)
{
    lk_element_spec spec;
    lk_shape        out[MOST_TENSORS];
    lk_loss        *loss[MOST_TENSORS + 1] = {NULL};
    lk_metrics      metrics;
    const char     *metric = "accuracy";
    int             code = cli_source_spec(data, &spec);
    if (!code) code = probe(m, data, out);
    if (!code && spec.count < m->inputs + m->outputs) code = cli_fail(CLI_DATA, "%s: has no labels to train with", data->text);
    for (int i = 0; i < m->outputs && !code; i++) {
        const int at = m->inputs + i;
        code = choose_loss(m, a, data, out[i], spec.shape[at], spec.dtype[at], &loss[i + 1], &metric);
    }
    if (!code) code = choose_metrics(a, metric, &metrics);
    if (code) return code;
    const char   *name = a->given[OPT_OPTIMIZER] ? a->text[OPT_OPTIMIZER] : "adam";
    lk_optimizer *o = lk_optimizer_named(name, a->number[OPT_LEARNING_RATE]);
    if (!o) return cli_fail_library(CLI_USAGE);
    if (lk_model_compile(m->model, .optimizer = o, .losses = lk_losses_of(m->outputs, loss), .metrics = metrics) != LK_OK)
        return cli_fail_library(CLI_USAGE);
    return CLI_FINE;
}

int cli_model_compile(cli_model *m, const cli_args *a, cli_source *data)
{
    lk_optimizer *own = lk_model_optimizer(m->model);
    if (!own || a->given[OPT_OPTIMIZER] || a->given[OPT_LOSS] || a->given[OPT_METRICS]) return compile_anew(m, a, data);
    if (a->given[OPT_LEARNING_RATE] && lk_optimizer_set_learning_rate(own, a->number[OPT_LEARNING_RATE]) != LK_OK)
        return cli_fail_library(CLI_USAGE);
    return CLI_FINE;
}
