/* How calls of layers are read from Keras files (call_read.h), in two steps: number the tensors by the inputs that they are, then
 * write the call down with these numbers, as it came (layer/call_form.h).
 *
 * A kind of layer with `arguments` gets tensors by position or by these names; its last argument may be a list. Other kinds get all
 * tensors one after the other, entries of objects in the order of their keys; a model gets those of an object by the names of its
 * inputs. An operation gets tensors and constants as they are. */
#include "keras/call_read.h"
#include "core/memory.h"
#include <string.h>

typedef struct reading {
    const lki_reading *at;
    const lk_layer    *layer; /* NULL: an operation */
    lki_call_read     *call;
    int                next; /* the input that the next tensor is */
} reading;

bool lki_is_keras_tensor(const lki_json *v)
{
    const char *class_name = lki_text_in(v, "class_name");
    return class_name && !strcmp(class_name, "__keras_tensor__");
}

/* ---- numbering ---- */

static lk_status number_tensor(reading *r, const lki_json *v)
{
    if (r->next >= LKI_MOST_INPUTS) return lki_read_fail(r->at, LK_EUNSUPPORTED, "it has more than %d inputs", LKI_MOST_INPUTS);
    if (r->call->tensor[r->next]) return lki_read_fail(r->at, LK_EFORMAT, "one argument of its call is given twice");
    r->call->tensor[r->next++] = v;
    if (r->call->count < r->next) r->call->count = r->next;
    return LK_OK;
}

static lk_status refuse_constant(const reading *r, const lki_json *v)
{
    char text[120];
    if (v->type == LKI_JSON_NULL || !r->layer) return LK_OK;
    return lki_read_fail(r->at, LK_EUNSUPPORTED, "it is called with %s; only outputs of layers are supported",
                         lki_json_show(v, text, sizeof text));
}

/* Tensors, lists and objects of them. */
static lk_status number(reading *r, const lki_json *v)
{
    const bool list = v->type == LKI_JSON_ARRAY, object = v->type == LKI_JSON_OBJECT && !lki_text_in(v, "class_name");
    if (lki_is_keras_tensor(v)) return number_tensor(r, v);
    if (lki_json_get(v, "tensor")) return lki_read_fail(r->at, LK_EFORMAT, "it is called with an object that has a key \"tensor\"");
    if (!list && !object) return refuse_constant(r, v);
    if (object && v->count > LKI_MOST_INPUTS)
        return lki_read_fail(r->at, LK_EUNSUPPORTED, "it is called with an object of %d entries; there may be %d", v->count,
                             LKI_MOST_INPUTS);
    for (int i = 0; i < v->count; i++)
        LKI_TRY(number(r, list ? &v->item[i] : lki_json_by_key(v, i)));
    return LK_OK;
}

/* The entries of an object for a model with a list of inputs. */
static lk_status number_by_names(reading *r, const lk_model *m, const lki_json *v)
{
    for (int i = 0; i < m->inputs; i++) {
        const lki_json *entry = lki_json_get(v, m->input[i].layer->name);
        if (!entry) return lki_read_fail(r->at, LK_EFORMAT, "it is called without its input \"%s\"", m->input[i].layer->name);
        LKI_TRY(number(r, entry));
    }
    return LK_OK;
}

static bool has_names(const reading *r, const lki_json *v)
{
    const lk_model *m = r->layer ? lki_model_inside(r->layer) : NULL;
    return m && m->form == LKI_FUNCTIONAL && v->type == LKI_JSON_OBJECT && !lki_is_keras_tensor(v) &&
           !(m->structure[0] && *m->structure[0] == '{');
}

/* ---- by position ---- */

/* The state of a recurrent layer, a list, is the last argument; Keras' calls have it before the mask, or after the sequences in
 * one list. */
static bool has_state(const lk_layer *l, int arguments) { return !strcmp(l->kind->arguments[arguments - 1], "initial_state"); }

/* Argument `at` of a kind with names. */
static lk_status number_argument(reading *r, int at, const lki_json *v)
{
    int count = 0;
    while (r->layer->kind->arguments[count])
        count++;
    const bool state = has_state(r->layer, count);
    if (v->type == LKI_JSON_NULL) return LK_OK;
    if (at >= count) return refuse_constant(r, v);
    r->next = !state || !at ? at : at == 1 ? count - 1 : at - 1;
    if (at || !state || v->type != LKI_JSON_ARRAY || !v->count) return number(r, v);
    LKI_TRY(number(r, v->item));
    r->next = count - 1;
    for (int i = 1; i < v->count; i++)
        LKI_TRY(number(r, &v->item[i]));
    return LK_OK;
}

static lk_status number_positional(reading *r, const lki_json *args)
{
    for (int i = 0; i < args->count; i++) {
        const lki_json *v = &args->item[i];
        if (r->layer && r->layer->kind->arguments) LKI_TRY(number_argument(r, i, v));
        else LKI_TRY(has_names(r, v) ? number_by_names(r, lki_model_inside(r->layer), v) : number(r, v));
    }
    r->call->positional = r->call->count;
    return LK_OK;
}

/* ---- by name ---- */

static int argument_named(const lk_layer *l, const char *name)
{
    static const char *const FIRST[] = {"inputs", "sequences", "sequence", "x"}; /* what Keras' calls name their first argument */
    const char *const       *list = l->kind->arguments;
    const lk_model          *inside = lki_model_inside(l);
    if (inside && !strcmp(name, "mask")) return inside->inputs; /* masks come after the inputs (model_layer.c) */
    for (int i = 0; list && list[i]; i++)
        if (!strcmp(list[i], name)) return i;
    for (int i = 0; i < LKI_COUNT(FIRST); i++)
        if (!strcmp(FIRST[i], name)) return 0;
    return -1;
}

/* Null, false, or lists and objects of these. */
static bool is_off(const lki_json *v)
{
    bool off = v->type == LKI_JSON_NULL || (v->type == LKI_JSON_BOOL && !v->boolean) || v->type == LKI_JSON_ARRAY ||
               (v->type == LKI_JSON_OBJECT && !lki_text_in(v, "class_name"));
    for (int i = 0; off && i < v->count; i++)
        off = is_off(&v->item[i]);
    return off;
}

/* "training" has no effect: as in Keras, the call of the outer model decides it for all layers. */
static lk_status check_argument(const reading *r, const lki_json *v)
{
    char             text[120];
    const lki_field *f = lki_field_find(&r->layer->kind->class, v->key);
    if (is_off(v) || (f && f->in_call) || !strcmp(v->key, "training")) return LK_OK;
    return lki_read_fail(r->at, LK_EUNSUPPORTED, "argument \"%s\" of its call is %s; it is not supported", v->key,
                         lki_json_show(v, text, sizeof text));
}

static lk_status number_named(reading *r, const lki_json *kwargs)
{
    if (!r->layer) return number(r, kwargs);
    for (int i = 0; i < kwargs->count; i++) {
        const lki_json *v = &kwargs->item[i];
        const int       at = argument_named(r->layer, v->key);
        if (at < 0 || v->type == LKI_JSON_BOOL) {
            LKI_TRY(check_argument(r, v));
            continue;
        }
        r->next = at;
        LKI_TRY(has_names(r, v) ? number_by_names(r, lki_model_inside(r->layer), v) : number(r, v));
    }
    return LK_OK;
}

/* ---- writing it down ---- */

static void write_tensor(const lki_call_read *c, lki_json_out *o, const lki_json *v, bool shape)
{
    const lki_json *config = lki_json_get(v, "config"), *row = lki_json_get(config, "shape");
    const char     *dtype = lki_text_in(config, "dtype");
    int             at = 0;
    while (at < c->count && c->tensor[at] != v)
        at++;
    lki_json_open(o, '{');
    lki_json_key(o, "tensor");
    lki_json_int(o, at);
    lki_json_key(o, "dtype");
    lki_json_text(o, dtype ? dtype : "float32");
    if (shape && row) {
        lki_json_key(o, "shape");
        lki_json_copy(o, row);
    }
    lki_json_close(o, '}');
}

static void write_value(const lki_call_read *c, lki_json_out *o, const lki_json *v, bool shape)
{
    const bool list = v->type == LKI_JSON_ARRAY;
    if (lki_is_keras_tensor(v)) {
        write_tensor(c, o, v, shape);
        return;
    }
    if (!list && (v->type != LKI_JSON_OBJECT || lki_text_in(v, "class_name"))) {
        lki_json_copy(o, v);
        return;
    }
    lki_json_open(o, list ? '[' : '{');
    for (int i = 0; i < v->count; i++) {
        if (!list) lki_json_key(o, v->item[i].key);
        write_value(c, o, &v->item[i], shape);
    }
    lki_json_close(o, list ? ']' : '}');
}

/* One tensor by position needs no words. */
static bool is_plain(const lki_json *args, const lki_json *kwargs)
{
    const lki_json *v = args->count == 1 ? args->item : NULL;
    const char     *dtype = v && lki_is_keras_tensor(v) ? lki_text_in(lki_json_get(v, "config"), "dtype") : NULL;
    return dtype && !strcmp(dtype, "float32") && !kwargs->count;
}

static lk_status write_form(lki_call_read *c, const lki_json *args, const lki_json *kwargs, bool operation)
{
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    if (is_plain(args, kwargs) && !operation) return LK_OK;
    lki_json_open(&o, '{');
    lki_json_key(&o, "args");
    write_value(c, &o, args, operation);
    lki_json_key(&o, "kwargs");
    write_value(c, &o, kwargs, operation);
    lki_json_close(&o, '}');
    if (o.failed) return LK_ENOMEM;
    c->form = lki_call_form_new(o.text, o.size);
    return c->form ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

/* ---- a node ---- */

lk_status lki_call_read_node(const lki_reading *r, lk_layer *l, const lki_json *inbound, lki_call_read *out)
{
    static const lki_json NOTHING = {.type = LKI_JSON_OBJECT};
    reading               all = {.at = r, .layer = l, .call = out};
    const lki_json       *args = lki_json_get(inbound, "args"), *kwargs = lki_json_get(inbound, "kwargs");
    *out = (lki_call_read){0};
    if (!args || args->type != LKI_JSON_ARRAY)
        return lki_read_fail(r, LK_EFORMAT, "an inbound node is %s; it should be {\"args\": [...], \"kwargs\": {...}}",
                             lki_json_kind(inbound));
    if (!kwargs || kwargs->type != LKI_JSON_OBJECT) kwargs = &NOTHING;
    LKI_TRY(number_positional(&all, args));
    LKI_TRY(number_named(&all, kwargs));
    if (!out->count) return lki_read_fail(r, LK_EFORMAT, "an inbound node has no inputs");
    if (!out->tensor[0])
        return lki_read_fail(r, LK_EFORMAT, "its call leaves out its first argument%s%s", l && l->kind->arguments ? ", " : "",
                             l && l->kind->arguments ? l->kind->arguments[0] : "");
    return write_form(out, args, kwargs, !l);
}
