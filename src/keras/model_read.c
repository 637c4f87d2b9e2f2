/* Models from Keras' JSON (model_config.h): layers, inputs, and sequential models. */
#include "keras/model_read.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "keras/keras2.h"
#include "keras/registered.h"
#include "layer/operation.h"
#include <stdio.h>
#include <string.h>

bool lki_is_model_class(const char *name)
{
    return !strcmp(name, "Sequential") || !strcmp(name, "Functional") || !strcmp(name, "Model");
}

/* ---- parts ---- */

const char *lki_text_in(const lki_json *v, const char *key)
{
    const lki_json *t = lki_json_get(v, key);
    return t && t->type == LKI_JSON_STRING ? t->text : NULL;
}

lk_status lki_name_check(const lki_reading *r, const lki_json *v)
{
    const char *name = lki_text_in(v, "name");
    char        text[120];
    bool        good = true;
    for (const unsigned char *p = (const unsigned char *)name; p && *p && good; p++)
        good = *p >= ' ' && *p != 0x7f && !(*p == 0xc2 && p[1] < 0xa0); /* U+0080 to U+009F are two bytes of UTF-8 */
    if (good) return LK_OK;
    return lki_read_fail(r, LK_EFORMAT, "the name %s has a control character in it",
                         lki_json_show(lki_json_get(v, "name"), text, sizeof text));
}

lki_reading lki_place_of(const char *file, const char *name, const char *class_name)
{
    lki_reading r = {.file = file};
    if (name && class_name) snprintf(r.place, sizeof r.place, "layer \"%.120s\" (%.80s)", name, class_name);
    else if (name) snprintf(r.place, sizeof r.place, "layer \"%.120s\"", name);
    return r;
}

lk_status lki_list_in(const lki_reading *r, const lki_json *config, const char *key, int most, const lki_json **out)
{
    const lki_json *v = lki_json_get(config, key);
    *out = v;
    if (!v || v->type != LKI_JSON_ARRAY)
        return lki_read_fail(r, LK_EFORMAT, "\"%s\" is %s; it should be a list", key, v ? lki_json_kind(v) : "missing");
    if (v->count <= most) return LK_OK;
    return lki_read_fail(r, LK_EUNSUPPORTED, "\"%s\" has %d entries; there may be %d", key, v->count, most);
}

/* [null, 28, 28, 1]: the shape of a row with the batch in front. */
static lk_status read_row(const lki_reading *r, const char *key, const lki_json *v, lk_shape *row)
{
    char text[80];
    bool good = v->type == LKI_JSON_ARRAY && v->count >= 1 && v->count <= LK_MAX_RANK;
    *row = (lk_shape){.rank = good ? v->count - 1 : 0};
    for (int i = 0; good && i < row->rank; i++) {
        const lki_json *size = &v->item[i + 1];
        good = size->type == LKI_JSON_NULL || (size->whole && size->integer >= 0);
        row->dim[i] = size->type == LKI_JSON_NULL ? -1 : size->integer;
    }
    if (good) return LK_OK;
    return lki_read_fail(r, LK_EFORMAT,
                         "\"%s\" is %s; it should be a list of sizes, that of the batch in front, and at most %d of them", key,
                         lki_json_show(v, text, sizeof text), LK_MAX_RANK);
}

/* ---- layers ---- */

static lk_layer *made_by(const lki_reading *r, const lki_class *c, const lki_json *object, const lki_json *call)
{
    void     *args LKI_RELEASED = lki_alloc(c->bytes);
    lk_layer *l = NULL;
    bool      before = lk_failed();
    if (args && lki_config_read(r, c, object, call, args) == LK_OK) {
        l = c->make(args);
        if (!l) lki_read_blame(r, before);
        else lki_policy_note(r, l, object);
        lki_config_free(c, args);
    }
    return l;
}

static lk_layer *nested(const lki_reading *r, const lki_json *v)
{
    lk_model *m = lki_model_read(r->file, v);
    bool      before = lk_failed();
    lk_layer *l = m ? lk_model_layer(m) : NULL;
    if (m && !l) lki_read_blame(r, before);
    lk_free(m);
    return l;
}

lk_layer *lki_operation_read(const lki_reading *r, const lki_json *v, lki_call_form *form)
{
    char            known[LKI_KNOWN_TEXT];
    const char     *class_name, *name = lki_text_in(v, "name");
    const lki_json *config;
    bool            before = lk_failed();
    if (lki_object_parts(r, v, &class_name, &config) != LK_OK || lki_name_check(r, config) != LK_OK) return NULL;
    if (!name) name = lki_text_in(config, "name");
    const lki_operation_line *line = lki_operation_line_of(lki_text_in(v, "module"), class_name);
    lk_layer                 *l = line ? lki_operation_new(line, name, config, form) : NULL;
    if (line && !l) lki_read_blame(r, before);
    if (!line)
        lki_read_fail(r, LK_EUNSUPPORTED, "there is no operation \"%.64s\"%s", class_name,
                      lki_names_known(class_name, lki_operation_class_at, NULL, "docs/models.md", known));
    return l;
}

/* True for a class of Keras that lockstep has. */
static bool has_class(const lki_json *v)
{
    const char *class_name = lki_text_in(v, "class_name"), *registered_name = lki_text_in(v, "registered_name");
    if (!class_name || (registered_name && strchr(registered_name, '>'))) return false;
    const char      *module = lki_text_in(v, "module");
    const lki_class *c = lki_class_named(lki_family_of(LKI_KIND_LAYER), class_name);
    return (!module || !strncmp(module, "keras", 5)) && ((c && c->make) || lki_is_model_class(class_name));
}

/* True for Python code: a Lambda, or a class that is not of Keras. */
static bool is_code(const lki_json *v)
{
    const char *class_name = lki_text_in(v, "class_name"), *registered_name = lki_text_in(v, "registered_name"),
               *module = lki_text_in(v, "module");
    return class_name && (!strcmp(class_name, "Lambda") || (registered_name && strchr(registered_name, '>')) ||
                          (module && strncmp(module, "keras", 5)));
}

static void refuse_code(const lki_reading *r, const lki_json *v)
{
    char name[256];
    lki_registered_name(v, name, sizeof name);
    lki_read_fail(r, LK_EUNSUPPORTED,
                  "it is Python code, a custom class, not one of Keras; lk_register_layer(\"%s\", ...) says what computes it in C",
                  name);
}

/* One entry of the list of layers. `call` (or NULL) has the arguments of its call. NULL and an error. */
lk_layer *lki_layer_read_json(const char *file, const lki_json *v, const lki_json *call)
{
    char            known[LKI_KNOWN_TEXT];
    lk_layer       *registered;
    const char     *class_name, *name = lki_text_in(lki_json_get(v, "config"), "name");
    const lki_json *config;
    lki_reading     r = lki_place_of(file, name, lki_text_in(v, "class_name"));
    bool            found;
    r.rank = lki_built_rank(v);
    if (!has_class(v) && (registered = lki_registered_read(&r, v, &found), found)) return registered;
    if (is_code(v)) return refuse_code(&r, v), NULL;
    if (lki_object_parts(&r, v, &class_name, &config) != LK_OK || lki_name_check(&r, config) != LK_OK) return NULL;
    if (lki_is_model_class(class_name)) return nested(&r, v);
    const lki_family *f = lki_family_of(LKI_KIND_LAYER);
    const lki_class  *c = lki_class_named(f, class_name);
    if (c && c->make) return made_by(&r, c, v, call);
    r = lki_place_of(file, name ? name : "?", NULL);
    lki_read_fail(&r, LK_EUNSUPPORTED, "there is no class \"%.64s\"%s", class_name, lki_classes_known(f, class_name, known));
    return NULL;
}

/* ---- where rows enter ---- */

static lk_status only(const lki_reading *r, const lki_json *config, const char *key)
{
    const lki_json *v = lki_json_get(config, key);
    if (!v || v->type == LKI_JSON_NULL || (v->type == LKI_JSON_BOOL && !v->boolean)) return LK_OK;
    return lki_read_fail(r, LK_EUNSUPPORTED, "option \"%s\" is on; it is not supported", key);
}

static lk_status read_input(const lki_reading *r, const lki_json *config, lk_input_args *a)
{
    const lki_json *shape = lki_json_get(config, "batch_shape"), *dtype = lki_json_get(config, "dtype");
    if (!shape) shape = lki_json_get(config, "batch_input_shape");
    if (!shape) return lki_read_fail(r, LK_EFORMAT, "option \"batch_shape\" is missing");
    LKI_TRY(read_row(r, "batch_shape", shape, &a->shape));
    LKI_TRY(only(r, config, "sparse"));
    LKI_TRY(only(r, config, "ragged"));
    LKI_TRY(only(r, config, "optional"));
    a->name = lki_text_in(config, "name");
    if (!dtype || dtype->type == LKI_JSON_NULL) return LK_OK;
    if (dtype->type == LKI_JSON_OBJECT) return lki_dtype_check(r, dtype, NULL);
    int  type = dtype->type == LKI_JSON_STRING ? lki_dtype_of_keras(dtype->text) : -1;
    char text[80];
    if (type < 0)
        return lki_read_fail(r, LK_EUNSUPPORTED,
                             "option \"dtype\" is %s; known are \"float32\", \"int32\", \"int64\", \"uint8\", ...",
                             lki_json_show(dtype, text, sizeof text));
    a->dtype = (lk_dtype)type;
    return LK_OK;
}

bool lki_is_input(const lki_json *v)
{
    const char *class_name = lki_text_in(v, "class_name");
    return class_name && !strcmp(class_name, "InputLayer");
}

/* The arguments of an InputLayer. */
lk_status lki_input_read(const char *file, const lki_json *v, lk_input_args *a)
{
    const char     *class_name;
    const lki_json *config;
    lki_reading     r = lki_place_of(file, lki_text_in(lki_json_get(v, "config"), "name"), "InputLayer");
    LKI_TRY(lki_object_parts(&r, v, &class_name, &config));
    LKI_TRY(lki_name_check(&r, config));
    return read_input(&r, config, a);
}

/* ---- in a row ---- */

/* The shape and type of its rows, if the file has them; else *known is false. */
static lk_status sequential_input(const char *file, const lki_json *v, const lki_json *layers, lk_input_args *a, bool *known)
{
    const lki_reading r = {.file = file};
    const lki_json   *shape = lki_json_get(lki_json_get(v, "config"), "build_input_shape");
    *known = true;
    if (layers->count && lki_is_input(layers->item)) return lki_input_read(file, layers->item, a);
    if (!shape || shape->type == LKI_JSON_NULL) shape = lki_json_get(lki_json_get(v, "build_config"), "input_shape");
    *known = shape && shape->type != LKI_JSON_NULL;
    return *known ? read_row(&r, "build_input_shape", shape, &a->shape) : LK_OK;
}

static lk_model *sequential_of(const char *file, const char *name, int count, lk_layer **one_based, const lk_input_args *in,
                               bool known)
{
    const lki_reading r = {.file = file};
    bool              before = lk_failed();
    lk_model         *m = lk_sequential_of(name, count, one_based);
    if (m) m->input[0].dtype = in->dtype;
    if (m && known && lki_model_make(m, &in->shape) != LK_OK) {
        lk_free(m);
        m = NULL;
    }
    if (!m) lki_read_blame(&r, before);
    return m;
}

static lk_model *read_sequential(const char *file, const lki_json *v, const lki_json *config)
{
    const lki_reading r = {.file = file};
    const lki_json   *layers;
    lk_input_args     in = {0};
    bool              known;
    if (lki_list_in(&r, config, "layers", LKI_MOST_LAYERS, &layers) != LK_OK ||
        sequential_input(file, v, layers, &in, &known) != LK_OK)
        return NULL;
    int        count = 0, first = layers->count && lki_is_input(layers->item);
    lk_model  *m = NULL;
    lk_layer **layer LKI_RELEASED = lki_zalloc_array(layers->count + 1, sizeof *layer);
    if (!layer) return NULL;
    for (int i = first; i < layers->count; i++, count++)
        if (!(layer[count + 1] = lki_layer_read_json(file, &layers->item[i], NULL))) goto done;
    if (count) m = sequential_of(file, lki_text_in(config, "name"), count, layer, &in, known);
    else lki_read_fail(&r, LK_EUNSUPPORTED, "the model has no layers");
done:
    for (int i = 1; i <= count; i++)
        lk_free(layer[i]);
    return m;
}

/* ---- either ---- */

static lk_model *read_model(const char *file, const lki_json *v)
{
    const lki_reading r = {.file = file};
    const char       *class_name;
    const lki_json   *config;
    if (lki_object_parts(&r, v, &class_name, &config) != LK_OK || lki_name_check(&r, config) != LK_OK) return NULL;
    if (!lki_is_model_class(class_name)) {
        lki_read_fail(&r, LK_EUNSUPPORTED, "there is no class of models \"%s\"; known are Sequential and Functional", class_name);
        return NULL;
    }
    return !strcmp(class_name, "Sequential") ? read_sequential(file, v, config) : lki_functional_read(file, config);
}

lk_model *lki_model_read(const char *file, const lki_json *v)
{
    const char     *class_name = lki_text_in(v, "class_name");
    const lki_json *now = NULL;
    lk_model       *m = NULL;
    if (!class_name || !lki_is_model_class(class_name) || !lki_is_keras2(v)) return read_model(file, v);
    if (lki_keras2_convert(file, v, &now) == LK_OK) m = read_model(file, now);
    lki_json_free(now);
    return m;
}
