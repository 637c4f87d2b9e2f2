/* Operations as layers (operation.h): the table of all of them, and making and calling one. */
#include "layer/operation.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "core/names.h"
#include "layer/operands.h"
#include <stdio.h>
#include <string.h>

#define LKI_OPERATION(module, class, arguments, options, fn) {#module, #class, arguments, options, false, lki_operation_##fn},
#define LKI_OPERATION_OF_TWO(module, class, fn) {#module, #class, "x1 x2", "", true, lki_operation_##fn},
static const lki_operation_line LINES[] = {
#include "layer/operations.inc"
};

static const char PREFIX[] = "keras.src.ops.";

bool lki_is_operation_module(const char *module) { return module && !strncmp(module, PREFIX, strlen(PREFIX)); }

const lki_operation_line *lki_operation_line_of(const char *module, const char *class_name)
{
    const char *family = lki_is_operation_module(module) ? module + strlen(PREFIX) : "";
    for (int i = 0; i < LKI_COUNT(LINES); i++)
        if (!strcmp(LINES[i].class, class_name) && !strcmp(LINES[i].module, family)) return &LINES[i];
    return NULL;
}

const char *lki_operation_class_at(const void *unused, int i)
{
    (void)unused;
    return i < LKI_COUNT(LINES) ? LINES[i].class : NULL;
}

/* ---- one of them ---- */

typedef struct constant {
    const lki_json *at;
    lk_tensor      *tensor; /* a reference */
} constant;

typedef struct operation {
    lk_layer                  layer;
    lk_plain_layer_args       set;
    lki_layer_kind            kind;
    char                      module[48];
    const lki_operation_line *line;
    const lki_json           *config;
    lki_call_form            *form; /* a reference */
    int                       results, count, room;
    constant                 *constant;
} operation;

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass);

bool lki_is_operation_layer(const lk_layer *l) { return l->kind->call == call; }

const lki_operation_line *lki_operation_line_in(const lk_layer *l) { return ((const operation *)l)->line; }
const lki_json           *lki_operation_config(const lk_layer *l) { return ((const operation *)l)->config; }

static int outputs(const lk_layer *l) { return ((const operation *)l)->results; }

static void destroy(lk_layer *l)
{
    operation *o = (operation *)l;
    for (int i = 0; i < o->count; i++)
        lki_drop(o->constant[i].tensor);
    lki_release(o->constant);
    lki_json_free(o->config);
    lki_drop(o->form);
}

/* ---- constants ---- */

static bool shape_of(const lki_json *v, lk_shape *s)
{
    for (; v->type == LKI_JSON_ARRAY; v = v->item) {
        if (s->rank == LK_MAX_RANK) return false;
        s->dim[s->rank++] = v->count;
        if (!v->count) return true;
    }
    return true;
}

/* The elements in order; false: one is missing, or is not a number. `real`: some number is not whole. */
static bool elements_of(const lki_json *v, const lk_shape *s, int axis, double **to, bool *real)
{
    if (axis == s->rank) {
        *real = *real || !v->whole;
        *(*to)++ = v->type == LKI_JSON_BOOL ? v->boolean : v->number;
        return v->type == LKI_JSON_NUMBER || v->type == LKI_JSON_BOOL;
    }
    bool good = v->type == LKI_JSON_ARRAY && v->count == s->dim[axis];
    for (int i = 0; good && i < v->count; i++)
        good = elements_of(&v->item[i], s, axis + 1, to, real);
    return good;
}

/* A number or nested lists of numbers; NULL, mostly without an error: it is something else. dtype -1: by the numbers. */
static lk_tensor *tensor_of(const lki_json *v, int dtype)
{
    lk_shape s = {0};
    bool     real = false;
    if (!shape_of(v, &s)) return NULL;
    double *data LKI_RELEASED = lki_alloc_array(lki_shape_size(&s), sizeof *data), *next = data;
    if (!data || !elements_of(v, &s, 0, &next, &real)) return NULL;
    lk_tensor *t = lk_tensor_from(s, LK_F64, data);
    return lki_bad(t) ? NULL : lk_cast(t, dtype >= 0 ? (lk_dtype)dtype : real ? LK_F32 : LK_I32);
}

/* {"class_name": "__tensor__", "config": {"value": [[1, 2]], "dtype": "float32"}} */
static bool is_array(const lki_json *v)
{
    const lki_json *class_name = lki_json_get(v, "class_name");
    return class_name && class_name->type == LKI_JSON_STRING &&
           (!strcmp(class_name->text, "__tensor__") || !strcmp(class_name->text, "__numpy__"));
}

static lk_tensor *array_of(const lki_json *v)
{
    const lki_json *config = lki_json_get(v, "config"), *value = lki_json_get(config, "value"),
                   *name = lki_json_get(config, "dtype");
    const int  dtype = name && name->type == LKI_JSON_STRING ? lki_dtype_of_keras(name->text) : -1;
    lk_tensor *t = value && dtype >= 0 ? tensor_of(value, dtype) : NULL;
    if (!t && !lk_failed()) lki_fail(LK_EUNSUPPORTED, "a constant is not an array of numbers of a known type");
    return t;
}

static lk_status add_constants(operation *o, const lki_json *v)
{
    const bool array = is_array(v);
    for (int i = 0; !array && (v->type == LKI_JSON_ARRAY || v->type == LKI_JSON_OBJECT) && i < v->count; i++)
        LKI_TRY(add_constants(o, &v->item[i]));
    if (!array) return LK_OK;
    if (!lki_grow((void **)&o->constant, &o->room, o->count + 1, sizeof *o->constant)) return LK_ENOMEM;
    lk_status status = LK_OK;
    LK_STEP {
        lk_tensor *t = array_of(v);
        if (t) o->constant[o->count++] = (constant){v, lki_retain(t)};
        else status = lk_error_code();
    }
    return status;
}

static lk_tensor *constant_at(const lk_layer *l, const lki_json *v)
{
    const operation *o = (const operation *)l;
    for (int i = 0; i < o->count; i++)
        if (o->constant[i].at == v) return o->constant[i].tensor;
    return tensor_of(v, -1);
}

/* ---- calling it ---- */

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const operation   *o = (const operation *)l;
    const lki_operands c = {l, o->line, o->config, o->form, pass->in, constant_at};
    (void)x;
    lk_tensor *y = o->line->fn(&c);
    return !y || lk_poisoned(y) ? &lki_poison : y;
}

/* The shape of a row with the batch in front. */
static lk_shape batch_of(const lk_shape *row)
{
    lk_shape s = {.rank = row->rank + 1, .dim = {-1}};
    for (int i = 0; i < row->rank; i++)
        s.dim[i + 1] = row->dim[i];
    return s;
}

/* -1 matches any size; the result is known if one of the two is, and is not 1. */
static bool sizes_meet(int64_t a, int64_t b, int64_t *out)
{
    if (a < 0 || b < 0) *out = a > 1 ? a : b > 1 ? b : -1;
    else if (a != b && a != 1 && b != 1) return false;
    else *out = a == 1 ? b : a;
    return true;
}

/* Of tensors of different ranks whole batches broadcast as in numpy, so the rows of one may meet another axis of the other. */
static lk_status output_of_two(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const bool      first = in[0].rank > in[1].rank;
    const lk_shape *fewer = first ? &in[1] : &in[0], *more = first ? &in[0] : &in[1];
    const lk_shape  a = batch_of(more), b = batch_of(fewer);
    const int       ahead = a.rank - b.rank;
    char            text[LKI_SHAPE_TEXT];
    *out = *more;
    for (int i = 0; i < b.rank; i++)
        if (!sizes_meet(a.dim[ahead + i], b.dim[i], &out->dim[ahead + i - 1]))
            return lki_layer_refuse(l, in, "those of the other, %s, do not broadcast with them as in numpy",
                                    lki_shape_text(&in[1], text));
    return LK_OK;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const bool two = ((const operation *)l)->line->pairs && in[1].rank != -1 && in[0].rank != in[1].rank;
    return two ? output_of_two(l, in, out) : lki_layer_infer(l, in, out);
}

/* ---- making it ---- */

static const lki_field FIELDS[] = {LKI_FIELD(NAME, lk_plain_layer_args, name),
                                   LKI_FIELD_AS("", SHAPE, lk_plain_layer_args, input_shape),
                                   LKI_FIELD_AS("", SWITCH, lk_plain_layer_args, trainable, .standard = 1)};

static const lki_layer_kind KIND = {.name = "operation",
                                    .class = {LKI_ARGS(lk_plain_layer_args, FIELDS)},
                                    .bytes = sizeof(operation),
                                    .set = offsetof(operation, set),
                                    .fewest = 1,
                                    .most = -1,
                                    .takes_ids = true,
                                    .output = output,
                                    .outputs = outputs,
                                    .call = call,
                                    .destroy = destroy};

static bool is_word(const char *words, const char *name)
{
    const size_t n = strlen(name);
    for (const char *w = words; (w = strstr(w, name)); w += n)
        if ((w == words || w[-1] == ' ') && (!w[n] || w[n] == ' ')) return true;
    return false;
}

static int word_count(const char *words)
{
    int count = *words != 0;
    for (; *words; words++)
        count += *words == ' ';
    return count;
}

/* Every option and argument is one of the line's; null means the default of one that came later. */
static lk_status names_fit(const operation *o)
{
    const lki_operation_line *line = o->line;
    for (int i = 0; i < o->config->count; i++) {
        const lki_json *v = &o->config->item[i];
        if (strcmp(v->key, "name") && v->type != LKI_JSON_NULL && !is_word(line->options, v->key))
            return lki_fail(LK_EUNSUPPORTED, "option \"%s\" is not known", v->key);
    }
    for (int i = 0; i < o->form->kwargs->count; i++) {
        const lki_json *v = &o->form->kwargs->item[i];
        if (v->type != LKI_JSON_NULL && !is_word(line->arguments, v->key))
            return lki_fail(LK_EUNSUPPORTED, "argument \"%s\" of its call is not known", v->key);
    }
    if (*line->arguments == '*' || o->form->args->count <= word_count(line->arguments)) return LK_OK;
    return lki_fail(LK_EUNSUPPORTED, "it is called with %d arguments; known are %s", o->form->args->count, line->arguments);
}

static lk_status add_row(void *arg, const lki_json *tensor)
{
    lk_shape       *row = arg;
    const lki_json *shape = lki_json_get(tensor, "shape");
    lk_shape       *to = &row[lki_call_form_tensor(tensor)];
    *to = (lk_shape){.rank = 0};
    for (int i = 1; shape && i < shape->count && i < LK_MAX_RANK; i++)
        to->dim[to->rank++] = shape->item[i].whole ? lki_max(-1, shape->item[i].integer) : -1;
    return LK_OK;
}

static lk_status has_shape(void *arg, const lki_json *tensor)
{
    bool *has = arg;
    *has = *has && lki_json_get(tensor, "shape");
    return LK_OK;
}

/* Of a file that has no shapes, as those of Keras 2: as the options say. */
static int results_by_options(const operation *o)
{
    const lki_json *cuts = lki_json_get(o->config, "indices_or_sections"), *num = lki_json_get(o->config, "num");
    const bool      two = !strcmp(o->line->class, "TopK") || !strcmp(o->line->class, "Moments");
    const int64_t   n = cuts && cuts->whole ? cuts->integer : cuts ? cuts->count + 1 : num && num->whole ? num->integer : 1 + two;
    return (int)lki_max(1, lki_min(n, LKI_MOST_OUTPUTS));
}

/* The number of results for the shapes that the file has. */
static lk_status count_results(operation *o)
{
    bool     known = true;
    lk_shape row[LKI_MOST_INPUTS + 1];
    for (int i = 0; i <= LKI_MOST_INPUTS; i++)
        row[i] = (lk_shape){.rank = -1};
    LKI_TRY(lki_call_form_all(o->form, has_shape, &known));
    if (!known) return o->results = results_by_options(o), LK_OK;
    LKI_TRY(lki_call_form_all(o->form, add_row, row));
    for (int i = 0; i < LKI_MOST_INPUTS && row[i].rank >= 0; i++)
        if (!lki_row_valid(&row[i])) return lki_fail(LK_EFORMAT, "a tensor that it is called with has no valid shape");
    o->results = 1;
    if (o->line->pairs) return LK_OK;
    const int count = lki_layer_count_results(&o->layer, row);
    if (!count) return lk_error_code();
    if (count > LKI_MOST_OUTPUTS) return lki_fail(LK_EUNSUPPORTED, "it has %d results; there may be %d", count, LKI_MOST_OUTPUTS);
    o->results = count;
    return LK_OK;
}

static lk_status copy_config(operation *o, const lki_json *config)
{
    lki_json_out text LKI_FREED_BY(lki_json_out_free) = {0};
    lki_json_copy(&text, config);
    if (text.failed) return LK_ENOMEM;
    return lki_json_parse("config", text.text, text.size, &o->config);
}

static lk_status describe(operation *o, const lki_json *config, lki_call_form *form)
{
    o->form = lki_retain(form);
    LKI_TRY(copy_config(o, config));
    LKI_TRY(names_fit(o));
    LKI_TRY(add_constants(o, form->args));
    LKI_TRY(add_constants(o, form->kwargs));
    return count_results(o);
}

lk_layer *lki_operation_new(const lki_operation_line *line, const char *name, const lki_json *config, lki_call_form *form)
{
    operation *o = lki_layer_new("an operation", &KIND, &(lk_plain_layer_args){.name = name});
    if (!o) return NULL;
    o->line = line;
    o->kind = KIND;
    snprintf(o->module, sizeof o->module, "%s%s", PREFIX, line->module);
    o->kind.class.name = line->class;
    o->kind.class.module = o->module;
    o->layer.kind = &o->kind;
    if (describe(o, config, form) == LK_OK) return &o->layer;
    lk_free(o);
    return NULL;
}

/* ---- what it does to probabilities ---- */

lk_activation lki_operation_activation(const lk_layer *l, int rank)
{
    static const struct {
        const char *class;
        lk_activation activation;
    } ACTIVATIONS[] = {
        {"Softmax", LK_SOFTMAX}, {"Sigmoid", LK_SIGMOID}, {"Relu", LK_RELU}, {"Tanh", LK_TANH}, {"LogSoftmax", LK_LOG_SOFTMAX}};
    const operation *o = (const operation *)l;
    const lki_json  *axis = lki_json_get(o->config, "axis");
    for (int i = 0; i < LKI_COUNT(ACTIVATIONS); i++) {
        if (strcmp(o->line->class, ACTIVATIONS[i].class)) continue;
        const bool last = !axis || !axis->whole || lki_axis_normal(axis->integer, rank + 1) == rank;
        return last ? ACTIVATIONS[i].activation : LK_LINEAR;
    }
    return LK_ACTIVATION_DEFAULT;
}
