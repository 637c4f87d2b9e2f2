/* Models as Keras' JSON (model_config.h). Keys are in Keras' order; options that only Keras has are written with their defaults. */
#include "core/dtype.h"
#include "core/memory.h"
#include "keras/model_config.h"
#include "layer/call_form.h"
#include "layer/operation.h"
#include <stdio.h>
#include <string.h>

/* State while a model is written. */
typedef struct writing {
    lki_reading   at; /* for messages */
    lki_json_out *out;
    lk_model     *model;
    lk_shape     *shape; /* of its values; NULL: it is not built */
} writing;

static lk_status write_model(const lki_reading *at, lki_json_out *o, lk_model *m, bool outermost);

/* ---- pieces ---- */

static void key_text(lki_json_out *o, const char *key, const char *text)
{
    lki_json_key(o, key);
    lki_json_text(o, text);
}

static void key_literal(lki_json_out *o, const char *key, const char *json)
{
    lki_json_key(o, key);
    lki_json_literal(o, json);
}

/* The shape including the batch. */
static void write_row(lki_json_out *o, const lk_shape *row)
{
    lki_json_open(o, '[');
    lki_json_null(o);
    for (int i = 0; i < row->rank; i++) {
        if (row->dim[i] < 0) lki_json_null(o);
        else lki_json_int(o, row->dim[i]);
    }
    lki_json_close(o, ']');
}

static void write_input(lki_json_out *o, const char *name, const lk_shape *row, lk_dtype dtype)
{
    lki_json_open(o, '{');
    key_text(o, "module", "keras.layers");
    key_text(o, "class_name", "InputLayer");
    lki_json_key(o, "config");
    lki_json_open(o, '{');
    lki_json_key(o, "batch_shape");
    write_row(o, row);
    key_text(o, "dtype", lki_keras_dtype(dtype));
    key_literal(o, "sparse", "false");
    key_literal(o, "ragged", "false");
    key_text(o, "name", name);
    key_literal(o, "optional", "false");
    lki_json_close(o, '}');
    key_literal(o, "registered_name", "null");
}

/* ---- layers ---- */

/* The first use of a layer; NULL: there is none. */
static const lki_use *first_use(const lk_model *m, const lk_layer *l)
{
    for (int i = 0; i < m->uses; i++)
        if (m->use[i].layer == l) return &m->use[i];
    return NULL;
}

/* Its input shape, if it has one input. */
static void write_build(const writing *w, const lk_layer *l)
{
    const lki_use *u = first_use(w->model, l);
    if (!w->shape || !u || u->count != 1 || !l->kind->build || l->inner_count) return;
    lki_json_key(w->out, "build_config");
    lki_json_open(w->out, '{');
    lki_json_key(w->out, "input_shape");
    write_row(w->out, &w->shape[u->in[0]]);
    lki_json_close(w->out, '}');
}

static void write_operation(lki_json_out *o, const lk_layer *l)
{
    const lki_class *c = &l->kind->class;
    lki_json_open(o, '{');
    key_text(o, "module", c->module);
    key_text(o, "class_name", c->name);
    lki_json_key(o, "config");
    lki_json_copy(o, lki_operation_config(l));
    key_text(o, "registered_name", c->name);
}

/* The entry that a registered layer was made for. */
static lk_status write_entry(lki_json_out *o, const char *entry)
{
    const lki_json *v;
    LKI_TRY(lki_json_parse("entry", entry, strlen(entry), &v));
    lki_json_open(o, '{');
    for (int i = 0; i < v->count; i++) {
        lki_json_key(o, v->item[i].key);
        lki_json_copy(o, &v->item[i]);
    }
    lki_json_free(v);
    return LK_OK;
}

/* The layer, open for more keys. */
static lk_status open_layer(const writing *w, lk_layer *l)
{
    lki_reading at = w->at;
    bool        before = lk_failed();
    lk_model   *inside = lki_model_inside(l);
    if (lki_is_operation_layer(l)) return write_operation(w->out, l), LK_OK;
    if (l->entry) return write_entry(w->out, l->entry);
    if (inside) return write_model(&w->at, w->out, inside, false);
    snprintf(at.place, sizeof at.place, "layer \"%.200s\"", l->name);
    lk_status status = lki_object_open(w->out, LKI_KIND_LAYER, l);
    if (status != LK_OK) lki_read_blame(&at, before);
    else write_build(w, l);
    return status;
}

/* ---- in a row ---- */

/* True if the first layer reads whole numbers (ids). */
static bool looks_up(const lk_layer *l)
{
    while (l->inner_count)
        l = l->inner[0];
    return l->kind == &lki_embedding_kind;
}

static lk_dtype row_type(const lk_model *m)
{
    return m->input[0].dtype == LK_F32 && looks_up(m->layer[0]) ? LK_I32 : m->input[0].dtype;
}

static lk_status write_sequential(writing *w)
{
    lki_json_out   *o = w->out;
    const lk_model *m = w->model;
    key_literal(o, "trainable", "true");
    lki_json_key(o, "dtype");
    lki_dtype_write(o, NULL);
    lki_json_key(o, "layers");
    lki_json_open(o, '[');
    if (w->shape) {
        write_input(o, "input_layer", &m->input[0].row, row_type(m));
        lki_json_close(o, '}');
    }
    for (int i = 0; i < m->count; i++) {
        LKI_TRY(open_layer(w, m->layer[i]));
        lki_json_close(o, '}');
    }
    lki_json_close(o, ']');
    if (!w->shape) return LK_OK;
    lki_json_key(o, "build_input_shape");
    write_row(o, &m->input[0].row);
    return LK_OK;
}

/* ---- as a graph ---- */

/* The index of a use among those of its layer. */
static int node_index(const lk_model *m, const lki_use *use)
{
    int before = 0;
    for (const lki_use *u = m->use; u < use; u++)
        before += u->layer == use->layer;
    return before;
}

/* ["dense", 0, 0]. As an input or output of a model, an inner functional model is counted with the node that Keras gives it by
 * itself. */
static void write_history(const writing *w, int value, bool end)
{
    const lk_model *m = w->model;
    const lki_use  *use = lki_use_of(m, value);
    const lk_model *inside = use ? lki_model_inside(use->layer) : NULL;
    const int       own = end && inside && inside->form == LKI_FUNCTIONAL;
    lki_json_open(w->out, '[');
    lki_json_text(w->out, use ? use->layer->name : m->input[value].layer->name);
    lki_json_int(w->out, use ? own + node_index(m, use) : 0);
    lki_json_int(w->out, use ? value - use->first : 0);
    lki_json_close(w->out, ']');
}

static void write_tensor(const writing *w, int value, const char *dtype)
{
    lki_json_out *o = w->out;
    lki_json_open(o, '{');
    key_text(o, "class_name", "__keras_tensor__");
    lki_json_key(o, "config");
    lki_json_open(o, '{');
    lki_json_key(o, "shape");
    write_row(o, &w->shape[value]);
    key_text(o, "dtype", value < w->model->inputs ? lki_keras_dtype(w->model->input[value].dtype) : dtype ? dtype : "float32");
    lki_json_key(o, "keras_history");
    write_history(w, value, false);
    lki_json_close(o, '}');
    lki_json_close(o, '}');
}

/* The name of argument i of a layer: all tensors of a list at the end have one name. */
static const char *argument_name(const lk_layer *l, int i)
{
    const char *const *name = l->kind->arguments;
    for (int k = 0; k < i && name[1]; k++)
        name++;
    return *name;
}

/* Several tensors of one name are a list. */
static void write_named(const writing *w, const lki_use *u, int first)
{
    for (int i = first, end; i < u->count; i = end) {
        for (end = i + 1; end < u->count && argument_name(u->layer, end) == argument_name(u->layer, i);)
            end++;
        if (u->in[i] == LKI_ABSENT) continue;
        lki_json_key(w->out, argument_name(u->layer, i));
        if (end > i + 1) lki_json_open(w->out, '[');
        for (int k = i; k < end; k++)
            write_tensor(w, u->in[k], NULL);
        if (end > i + 1) lki_json_close(w->out, ']');
    }
}

/* Keras' calls have the state at another place than ours. */
static bool has_state(const lki_use *u)
{
    return u->layer->kind->arguments && !strcmp(argument_name(u->layer, LKI_MOST_INPUTS), "initial_state");
}

/* A call that was made in C: tensors of a kind with arguments one by one, of another kind as a list. */
static lk_status write_call(const writing *w, const lki_use *u)
{
    lki_json_out *o = w->out;
    const bool    list = u->count > 1 && !u->layer->kind->arguments;
    const int     positional = has_state(u) ? 1 : u->positional;
    lki_json_key(o, "args");
    lki_json_open(o, '[');
    if (list) lki_json_open(o, '[');
    for (int i = 0; i < positional; i++)
        if (u->in[i] == LKI_ABSENT) lki_json_null(o);
        else write_tensor(w, u->in[i], NULL);
    if (list) lki_json_close(o, ']');
    lki_json_close(o, ']');
    lki_json_key(o, "kwargs");
    lki_json_open(o, '{');
    write_named(w, u, positional);
    LKI_TRY(lki_call_write(o, &u->layer->kind->class, (const char *)u->layer + u->layer->kind->set));
    lki_json_close(o, '}');
    return LK_OK;
}

/* With tensors in the places of their numbers. */
static void write_form(const writing *w, const lki_use *u, const lki_json *v)
{
    const int  tensor = lki_call_form_tensor(v);
    const bool list = v->type == LKI_JSON_ARRAY;
    if (tensor >= 0) {
        write_tensor(w, u->in[tensor], lki_json_get(v, "dtype")->text);
        return;
    }
    if (!list && (v->type != LKI_JSON_OBJECT || lki_json_get(v, "class_name"))) {
        lki_json_copy(w->out, v);
        return;
    }
    lki_json_open(w->out, list ? '[' : '{');
    for (int i = 0; i < v->count; i++) {
        if (!list) lki_json_key(w->out, v->item[i].key);
        write_form(w, u, &v->item[i]);
    }
    lki_json_close(w->out, list ? ']' : '}');
}

static lk_status write_node(const writing *w, const lki_use *u)
{
    lki_json_open(w->out, '{');
    if (u->form) {
        lki_json_key(w->out, "args");
        write_form(w, u, u->form->args);
        lki_json_key(w->out, "kwargs");
        write_form(w, u, u->form->kwargs);
    } else LKI_TRY(write_call(w, u));
    lki_json_close(w->out, '}');
    return LK_OK;
}

static lk_status write_uses(const writing *w, const lk_layer *l)
{
    lki_json_key(w->out, "inbound_nodes");
    lki_json_open(w->out, '[');
    for (int i = 0; i < w->model->uses; i++)
        if (w->model->use[i].layer == l) LKI_TRY(write_node(w, &w->model->use[i]));
    lki_json_close(w->out, ']');
    return LK_OK;
}

static const lki_model_input *input_of(const lk_model *m, const lk_layer *l)
{
    for (int i = 0; i < m->inputs; i++)
        if (m->input[i].layer == l) return &m->input[i];
    return NULL;
}

static void write_structure(const writing *w, const lki_json *v, const int *value)
{
    const bool list = v->type == LKI_JSON_ARRAY;
    if (v->whole) {
        write_history(w, value ? value[v->integer] : (int)v->integer, true);
        return;
    }
    lki_json_open(w->out, list ? '[' : '{');
    for (int i = 0; i < v->count; i++) {
        if (!list) lki_json_key(w->out, v->item[i].key);
        write_structure(w, &v->item[i], value);
    }
    lki_json_close(w->out, list ? ']' : '}');
}

/* A single value by itself, several as a list, or as the file had it. */
static lk_status write_ends(const writing *w, const char *key, const char *structure, int count, const int *value)
{
    const lki_json *v;
    lki_json_key(w->out, key);
    if (structure) {
        LKI_TRY(lki_json_parse(key, structure, strlen(structure), &v));
        write_structure(w, v, value);
        lki_json_free(v);
        return LK_OK;
    }
    if (count > 1) lki_json_open(w->out, '[');
    for (int i = 0; i < count; i++)
        write_history(w, value ? value[i] : i, true);
    if (count > 1) lki_json_close(w->out, ']');
    return LK_OK;
}

static lk_status write_functional(writing *w)
{
    lki_json_out   *o = w->out;
    const lk_model *m = w->model;
    key_literal(o, "trainable", "true");
    lki_json_key(o, "layers");
    lki_json_open(o, '[');
    for (int i = 0; i < m->count; i++) {
        const lki_model_input *in = input_of(m, m->layer[i]);
        if (in) write_input(o, m->layer[i]->name, &in->row, in->dtype);
        else LKI_TRY(open_layer(w, m->layer[i]));
        key_text(o, "name", m->layer[i]->name);
        LKI_TRY(write_uses(w, m->layer[i]));
        lki_json_close(o, '}');
    }
    lki_json_close(o, ']');
    LKI_TRY(write_ends(w, "input_layers", m->structure[0], m->inputs, NULL));
    return write_ends(w, "output_layers", m->structure[1], m->outputs, m->output);
}

/* ---- either ---- */

/* The shapes of all values; a model that is not built has none. */
static lk_status know_shapes(writing *w)
{
    lk_model *m = w->model;
    lk_shape  row[LKI_MOST_INPUTS];
    if (!lki_model_built(m)) return LK_OK;
    w->shape = lki_alloc_array(m->values, sizeof *w->shape);
    if (!w->shape) return LK_ENOMEM;
    for (int i = 0; i < m->inputs; i++)
        row[i] = m->input[i].row;
    return lki_flow_shapes(m, row, w->shape, false);
}

static void write_build_of_model(const writing *w)
{
    lki_json_key(w->out, "build_config");
    lki_json_open(w->out, '{');
    lki_json_key(w->out, "input_shape");
    if (w->model->form == LKI_SEQUENTIAL && w->shape) write_row(w->out, &w->model->input[0].row);
    else lki_json_null(w->out);
    lki_json_close(w->out, '}');
}

/* Open for more keys; the outermost one has its compile_config. */
static lk_status write_model(const lki_reading *at, lki_json_out *o, lk_model *m, bool outermost)
{
    const bool functional = m->form == LKI_FUNCTIONAL;
    writing    w = {.at = *at, .out = o, .model = m};
    if (m->form == LKI_OWN_MODEL)
        return lki_read_fail(at, LK_EUNSUPPORTED, "model \"%s\" is a custom model, which a Keras file cannot store", m->name);
    lk_status status = know_shapes(&w);
    lki_json_open(o, '{');
    key_text(o, "module", functional ? "keras.src.models.functional" : "keras");
    key_text(o, "class_name", functional ? "Functional" : "Sequential");
    lki_json_key(o, "config");
    lki_json_open(o, '{');
    key_text(o, "name", m->name);
    if (status == LK_OK) status = functional ? write_functional(&w) : write_sequential(&w);
    lki_json_close(o, '}');
    key_literal(o, "registered_name", functional ? "\"Functional\"" : "null");
    write_build_of_model(&w);
    lki_release(w.shape);
    if (status != LK_OK || !outermost) return status;
    lki_json_key(o, "compile_config");
    return lki_compile_write(at, o, m);
}

lk_status lki_model_write(const char *file, lki_json_out *o, lk_model *m)
{
    const lki_reading at = {.file = file};
    LKI_TRY(write_model(&at, o, m, true));
    lki_json_close(o, '}');
    return o->failed ? LK_ENOMEM : LK_OK;
}

lk_status lki_model_write_inside(lki_json_out *o, lk_model *m) { return write_model(&(lki_reading){.file = m->name}, o, m, false); }
