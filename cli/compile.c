/* How a model is compiled (models.h): its optimiser, and for each output a loss and metrics.
 *
 * Missing options are derived from the kind of the output, by the graph of the model, and from the kind of the labels, by all of
 * their values; the choice is printed with its reason. If the two do not fit together nothing is guessed: the user has to give
 * --loss. */
#include "models.h"
#include "report.h"
#include "session.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- one output ---- */

typedef struct output {
    int           number;
    lk_shape      row, label;
    lk_dtype      dtype; /* of the label */
    lk_activation activation;
    lk_loss      *loss;
    const char   *name; /* of the loss; NULL: the model's own */
    bool          logits;
    char          why[256];
} output;

/* Each value separately is a probability. */
static bool is_sigmoid(const output *o) { return o->activation == LK_SIGMOID || o->activation == LK_HARD_SIGMOID; }
static bool is_softmax(const output *o) { return o->activation == LK_SOFTMAX; }
static bool is_whole(lk_dtype t) { return t == LK_I64 || t == LK_I32 || t == LK_U8 || t == LK_BOOL; }

/* ---- losses by name ---- */

typedef lk_loss *(*crossentropy)(lk_loss_object_args args);
static const struct {
    const char *name;
    bool (*takes)(const output *o); /* true: it takes such probabilities; of other outputs it takes logits */
    crossentropy make;
} crossentropies[] = {{"sparse_categorical_crossentropy", is_softmax, lk_sparse_categorical_crossentropy_kw},
                      {"categorical_crossentropy", is_softmax, lk_categorical_crossentropy_kw},
                      {"binary_crossentropy", is_sigmoid, lk_binary_crossentropy_kw}};

static int make_loss(output *o)
{
    for (size_t i = 0; i < sizeof crossentropies / sizeof *crossentropies; i++)
        if (!strcmp(o->name, crossentropies[i].name)) {
            o->logits = !crossentropies[i].takes(o);
            o->loss = crossentropies[i].make((lk_loss_object_args){.from_logits = o->logits ? LK_ON : LK_OFF});
        }
    if (!o->loss) o->loss = lk_loss_named(o->name);
    return o->loss ? CLI_FINE : cli_fail_library(CLI_USAGE);
}

/* ---- the usual loss ---- */

static int no_usual_loss(const cli_model *m, const cli_source *data, const output *o)
{
    char texts[2][CLI_SHAPE_TEXT];
    return cli_fail(CLI_DATA, "%s: labels are %s %s, and the output of %s is %s for a row; choose a loss with --loss", data->text,
                    lk_dtype_name(o->dtype), cli_shape_text(o->label, texts[0]), m->text, cli_shape_text(o->row, texts[1]));
}

/* "row 3 has 2", counted from 0; or, for data that counts its classes, "there are 10 classes". */
static const char *other_label(const cli_labels *l, char text[96])
{
    if (l->rows) snprintf(text, 96, "row %" PRId64 ", counted from 0, has %g", l->row, l->label);
    else snprintf(text, 96, "there are %.0f classes", l->label + 1);
    return text;
}

static int unfit_labels(const cli_model *m, const cli_source *data, const output *o, const cli_labels *l, const char *want)
{
    char text[96];
    return cli_fail(CLI_DATA, "%s: labels should be %s, because %s ends in a %s; %s. choose another loss with --loss", data->text,
                    want, m->text, is_softmax(o) ? "softmax" : "sigmoid", other_label(l, text));
}

static void because(output *o, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void because(output *o, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(o->why, sizeof o->why, format, args);
    va_end(args);
    o->name = name;
}

/* For labels with the shape of the output. */
static int usual_for_values(const cli_model *m, cli_source *data, output *o)
{
    cli_labels l;
    char       text[96];
    const bool one = cli_shape_size(o->row) == 1, sigmoid = is_sigmoid(o), softmax = is_softmax(o) && !one;
    if (!one && !sigmoid && !softmax && !is_whole(o->dtype))
        return because(o, "mean_squared_error", "the labels are numbers, as many as the output has"), CLI_FINE;
    const int code = cli_source_labels(data, m->inputs + o->number, &l);
    if (code) return code;
    if (softmax && !l.shares) return unfit_labels(m, data, o, &l, "from 0 to 1");
    if (sigmoid && !l.binary) return unfit_labels(m, data, o, &l, "0 and 1");
    if (softmax) because(o, "categorical_crossentropy", "the output is a softmax, and the labels are as many numbers from 0 to 1");
    else if (sigmoid || (one && l.binary && o->activation == LK_LINEAR)) {
        if (l.rows) because(o, "binary_crossentropy", "the labels of all %s rows are 0 or 1", cli_with_commas(l.rows));
        else because(o, "binary_crossentropy", "there are no more than two classes");
    } else if (!one && l.one_hot) because(o, "categorical_crossentropy", "one label of each row is 1, and the others are 0");
    else if (!l.binary) because(o, "mean_squared_error", "the labels are not all 0 or 1: %s", other_label(&l, text));
    else because(o, "mean_squared_error", "the output is neither a sigmoid nor a logit");
    return CLI_FINE;
}

/* Depends on the model's output for a row and on the label of a row. */
static int usual_loss(const cli_model *m, cli_source *data, output *o)
{
    const int64_t size = cli_shape_size(o->row), width = cli_shape_width(o->row), labels = cli_shape_size(o->label);
    if (size < 1 || labels < 1) return no_usual_loss(m, data, o);
    if (size == labels) return usual_for_values(m, data, o);
    if (labels != size / width || !is_whole(o->dtype)) return no_usual_loss(m, data, o);
    because(o, "sparse_categorical_crossentropy", "the labels are integers, one for several outputs");
    return CLI_FINE;
}

/* ---- metrics ---- */

static lk_metric *usual_metric(const output *o)
{
    const char *name = lk_loss_name(o->loss);
    if (o->name && !strcmp(o->name, "binary_crossentropy") && o->logits) /* a logit of 0 is a probability of one half */
        return lk_binary_accuracy(.name = "accuracy", .threshold = LK_NUMBER(0), .output = o->number);
    if (strstr(name, "crossentropy") || strstr(name, "hinge")) return lk_accuracy(.output = o->number);
    return lk_mean_absolute_error_metric(.name = "mean_absolute_error", .output = o->number);
}

static int choose_metrics(const cli_args *a, int outputs, const output *o, lk_metrics *out)
{
    const char *name[CLI_MOST_NAMES + 1];
    lk_metric  *metric[CLI_MOST_NAMES + 1];
    int         count = a->given[OPT_METRICS] ? cli_split(a->text[OPT_METRICS], name) : outputs;
    if (!count) return cli_fail(CLI_USAGE, "%s: --metrics %s: names no metric", a->command->name, a->text[OPT_METRICS]);
    for (int i = 1; i <= count; i++) {
        metric[i] = a->given[OPT_METRICS] ? lk_metric_named(name[i]) : usual_metric(&o[i - 1]);
        if (!metric[i]) return cli_fail_library(CLI_USAGE);
    }
    *out = lk_metrics_of(count, metric);
    return CLI_FINE;
}

/* ---- all outputs ---- */

static void tell_loss(const cli_args *a, const cli_model *m, const output *o)
{
    FILE *to = a->given[OPT_JSON] ? stderr : stdout;
    if (!o->name || !a->number[OPT_VERBOSE]) return;
    fprintf(to, "loss");
    if (m->outputs > 1) fprintf(to, " of output %d", o->number);
    fprintf(to, ": %s%s", o->name, !strstr(o->name, "crossentropy") ? "" : o->logits ? " of logits" : " of probabilities");
    if (*o->why) fprintf(to, ", because %s", o->why);
    fprintf(to, "\n");
}

/* The loss of --loss, the model's own, or the usual one. */
static int choose_loss(const cli_model *m, const cli_args *a, cli_source *data, bool anew, output *o)
{
    int code = CLI_FINE;
    o->activation = lk_model_output_activation(m->model, o->number);
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    if (!anew && !a->given[OPT_LOSS]) o->loss = lk_model_loss(m->model, o->number);
    if (o->loss) return CLI_FINE;
    if (a->given[OPT_LOSS]) o->name = a->text[OPT_LOSS];
    else code = usual_loss(m, data, o);
    if (!code) code = make_loss(o);
    if (!code) tell_loss(a, m, o);
    return code;
}

static int choose_losses(cli_model *m, const cli_args *a, cli_source *data, bool anew, output o[CLI_MOST_TENSORS])
{
    lk_element_spec spec;
    lk_shape        row[CLI_MOST_TENSORS];
    int             code = cli_source_spec(data, &spec);
    if (!code) code = cli_model_probe(m, data, row);
    if (!code && spec.count < m->inputs + m->outputs) code = cli_fail(CLI_DATA, "%s: has no labels to train with", data->text);
    for (int i = 0; i < m->outputs && !code; i++) {
        const int at = m->inputs + i;
        o[i] = (output){.number = i, .row = row[i], .label = spec.shape[at], .dtype = spec.dtype[at]};
        code = choose_loss(m, a, data, anew, &o[i]);
    }
    return code;
}

/* ---- compiling ---- */

static lk_optimizer *choose_optimizer(const cli_model *m, const cli_args *a, bool anew)
{
    lk_optimizer *own = anew || a->given[OPT_OPTIMIZER] ? NULL : lk_model_optimizer(m->model);
    if (own && a->given[OPT_LEARNING_RATE]) lk_optimizer_set_learning_rate(own, a->number[OPT_LEARNING_RATE]);
    return own ? own : lk_optimizer_named(a->given[OPT_OPTIMIZER] ? a->text[OPT_OPTIMIZER] : "adam", a->number[OPT_LEARNING_RATE]);
}

static int compile(cli_model *m, const cli_args *a, cli_source *data, bool anew)
{
    output     o[CLI_MOST_TENSORS];
    lk_loss   *loss[CLI_MOST_TENSORS + 1] = {NULL};
    lk_metrics metrics;
    int        code = choose_losses(m, a, data, anew, o);
    if (!code) code = choose_metrics(a, m->outputs, o, &metrics);
    if (code) return code;
    for (int i = 0; i < m->outputs; i++)
        loss[i + 1] = o[i].loss;
    lk_optimizer *by = choose_optimizer(m, a, anew);
    if (!by || lk_failed()) return cli_fail_library(CLI_USAGE);
    if (lk_model_compile(m->model, .optimizer = by, .losses = lk_losses_of(m->outputs, loss), .metrics = metrics) != LK_OK)
        return cli_fail_library(CLI_USAGE);
    return CLI_FINE;
}

int cli_model_compile_anew(cli_model *m, const cli_args *a, cli_source *data) { return compile(m, a, data, true); }

static bool has_a_loss(const cli_model *m)
{
    for (int i = 0; i < m->outputs; i++)
        if (lk_model_loss(m->model, i)) return true;
    return false;
}

/* For a binary cross-entropy: labels must be from 0 to 1, in the rows for evaluation as in those for training. */
int cli_model_labels_fit(const cli_model *m, cli_source *data)
{
    lk_element_spec spec;
    int             code = cli_source_spec(data, &spec);
    for (int i = 0; i < m->outputs && !code && m->inputs + i < spec.count; i++) {
        lk_loss   *loss = lk_model_loss(m->model, i);
        cli_labels l;
        char       text[96];
        if (!loss || strcmp(lk_loss_name(loss), "binary_crossentropy")) continue;
        code = cli_source_labels(data, m->inputs + i, &l);
        if (!code && !l.shares)
            code = cli_fail(CLI_DATA, "%s: labels should be from 0 to 1, because the loss is a binary cross-entropy; %s",
                            data->text, other_label(&l, text));
    }
    return code;
}

/* Another loss or optimiser than the file's is an error unless an option names it. */
static int not_as_the_file_says(const cli_model *m, const cli_args *a)
{
    const bool loss = a->given[OPT_LOSS] || has_a_loss(m), optimizer = a->given[OPT_OPTIMIZER] || lk_model_optimizer(m->model);
    if (!m->uncompiled || (loss && optimizer)) return CLI_FINE;
    return cli_fail(CLI_DATA, "%s; give %s%s%s to train it", m->uncompiled, loss ? "" : "--loss", loss || optimizer ? "" : " and ",
                    optimizer ? "" : "--optimizer");
}

int cli_model_compile(cli_model *m, const cli_args *a, cli_source *data)
{
    lk_optimizer *own = lk_model_optimizer(m->model);
    const bool    asked = a->given[OPT_OPTIMIZER] || a->given[OPT_LOSS] || a->given[OPT_METRICS];
    const int     code = not_as_the_file_says(m, a);
    if (code) return code;
    if (!own || asked || m->uncompiled || !has_a_loss(m)) return compile(m, a, data, false);
    if (a->given[OPT_LEARNING_RATE] && lk_optimizer_set_learning_rate(own, a->number[OPT_LEARNING_RATE]) != LK_OK)
        return cli_fail_library(CLI_USAGE);
    return CLI_FINE;
}
