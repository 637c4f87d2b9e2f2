/* Reading and writing objects by the fields of their classes (config.h). */
#include "keras/config.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/option.h"
#include "keras/model_read.h"
#include "layer/layer.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

enum { SHOWN = 80 };

lk_status lki_read_fail(const lki_reading *r, lk_status code, const char *format, ...)
{
    char    text[LKI_ERROR_TEXT];
    va_list list;
    va_start(list, format);
    lki_text_vprint(text, sizeof text, 0, format, list);
    va_end(list);
    return lki_fail(code, "%s: %s%s%s", r->file, r->place, *r->place ? ": " : "", text);
}

const char *lki_json_show(const lki_json *v, char *text, size_t bytes)
{
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    lki_json_copy(&o, v);
    lki_text_print(text, bytes, "%s", o.text ? o.text : "?");
    return text;
}

int lki_built_rank(const lki_json *v)
{
    const lki_json *shape = lki_json_get(lki_json_get(v, "build_config"), "input_shape");
    bool            one = shape && shape->type == LKI_JSON_ARRAY && shape->count; /* and not a list of shapes */
    for (int i = 0; one && i < shape->count; i++)
        one = shape->item[i].type == LKI_JSON_NULL || shape->item[i].type == LKI_JSON_NUMBER;
    return one ? shape->count : 0;
}

void lki_read_blame(const lki_reading *r, bool failed_before)
{
    lki_error_record e;
    if (failed_before || !lk_failed()) return;
    lki_error_take(&e);
    lki_read_fail(r, e.code == LK_EINVAL ? LK_EUNSUPPORTED : e.code, "%s", e.text);
}

/* The field for a key: if there are two alternatives, the object's if an object is given, the list's if a list of several is. */
static const lki_field *field_for(const lki_class *c, const lki_json *v)
{
    const lki_field *f = lki_field_find(c, v->key);
    const bool       choice = f && f + 1 < c->field + c->fields && !strcmp(f[0].name, f[1].name);
    if (choice && f->type == LKI_FIELD_ARRAY) return v->type == LKI_JSON_ARRAY && v->count > 1 ? f : f + 1;
    return choice && v->type != LKI_JSON_OBJECT ? f + 1 : f;
}

/* ---- reading a config ---- */

static lk_status read_key(const lki_reading *r, const lki_class *c, const lki_json *v, bool in_call, void *args)
{
    const lki_field *f = *v->key ? field_for(c, v) : NULL;
    char             text[SHOWN];
    if (f && !f->ours && f->in_call == in_call) return lki_field_read(r, f, v, args);
    if (in_call) return LK_OK; /* the reader of the nodes handles the rest of a call */
    if (!strcmp(v->key, "dtype")) return lki_dtype_check(r, v, NULL);
    if (v->type == LKI_JSON_NULL) return LK_OK;
    return lki_read_fail(r, LK_EUNSUPPORTED, "option \"%s\", which is %s, is not known", v->key,
                         lki_json_show(v, text, sizeof text));
}

static lk_status read_keys(const lki_reading *r, const lki_class *c, const lki_json *config, bool in_call, void *args)
{
    for (int i = 0; i < config->count; i++)
        LKI_TRY(read_key(r, c, &config->item[i], in_call, args));
    return LK_OK;
}

static lk_status check_required(const lki_reading *r, const lki_class *c, const lki_json *config)
{
    for (int i = 0; i < c->fields; i++)
        if (c->field[i].required && !lki_json_get(config, c->field[i].name))
            return lki_read_fail(r, LK_EFORMAT, "option \"%s\" is missing", c->field[i].name);
    return LK_OK;
}

/* What lockstep writes beside an object's config. */
static lk_status read_ours(const lki_reading *r, const lki_class *c, const lki_json *object, void *args)
{
    const lki_json *ours = lki_json_get(object, LKI_BESIDE);
    for (int i = 0; i < c->fields; i++) {
        const lki_json *v = c->field[i].ours ? lki_json_get(ours, c->field[i].name) : NULL;
        if (v) LKI_TRY(lki_field_read(r, &c->field[i], v, args));
    }
    return LK_OK;
}

lk_status lki_config_read(const lki_reading *r, const lki_class *c, const lki_json *object, const lki_json *call, void *args)
{
    static const lki_json NOTHING = {.type = LKI_JSON_OBJECT};
    const lki_json       *config = lki_json_get(object, "config");
    if (!config) config = &NOTHING;
    memset(args, 0, c->bytes);
    lk_status status = read_keys(r, c, config, false, args);
    if (status == LK_OK) status = read_ours(r, c, object, args);
    if (status == LK_OK && call) status = read_keys(r, c, call, true, args);
    if (status == LK_OK) status = check_required(r, c, config);
    if (status != LK_OK) lki_config_free(c, args);
    return status;
}

void lki_config_free(const lki_class *c, void *args)
{
    for (int i = 0; i < c->fields; i++) {
        const lki_field *f = &c->field[i];
        void           **p = (void **)((char *)args + f->offset);
        lki_objects     *list = (lki_objects *)p;
        for (int k = 0; f->type == LKI_FIELD_OBJECTS && k < list->count; k++)
            lk_free(list->item[k]);
        if (f->type == LKI_FIELD_OBJECTS) lki_release(list->item);
        if (f->type != LKI_FIELD_OBJECT && f->type != LKI_FIELD_ARRAY) continue;
        lk_free(*p);
        *p = NULL;
    }
}

/* ---- reading an object ---- */

static lk_status text_of(const lki_reading *r, const lki_json *v, const char *key, bool required, const char **out)
{
    const lki_json *t = lki_json_get(v, key);
    *out = NULL;
    if (t && t->type == LKI_JSON_STRING) *out = t->text;
    if (*out || (!required && (!t || t->type == LKI_JSON_NULL))) return LK_OK;
    return lki_read_fail(r, LK_EFORMAT, "\"%s\" is %s; it should be a string", key, t ? lki_json_kind(t) : "missing");
}

lk_status lki_object_parts(const lki_reading *r, const lki_json *v, const char **class_name, const lki_json **config)
{
    const char *module, *registered;
    if (v->type != LKI_JSON_OBJECT) return lki_read_fail(r, LK_EFORMAT, "there is %s; it should be an object", lki_json_kind(v));
    LKI_TRY(text_of(r, v, "class_name", true, class_name));
    LKI_TRY(text_of(r, v, "module", false, &module));
    LKI_TRY(text_of(r, v, "registered_name", false, &registered));
    if ((module && strncmp(module, "keras", 5)) || (registered && strchr(registered, '>')))
        return lki_read_fail(r, LK_EUNSUPPORTED, "class \"%s\" of %s is a custom class, not one of Keras", *class_name,
                             module && strncmp(module, "keras", 5) ? module : registered);
    *config = lki_json_get(v, "config");
    if (*config && (*config)->type == LKI_JSON_OBJECT) return LK_OK;
    return lki_read_fail(r, LK_EFORMAT, "the config of class \"%s\" is %s; it should be an object", *class_name,
                         *config ? lki_json_kind(*config) : "missing");
}

static void *make(const lki_reading *r, const lki_class *c, const lki_json *v)
{
    void *args LKI_RELEASED = lki_alloc(c->bytes), *object = NULL;
    bool  before = lk_failed();
    if (args && lki_config_read(r, c, v, NULL, args) == LK_OK) {
        object = c->make(args);
        if (!object) lki_read_blame(r, before);
        else if (lki_is_kind(object, LKI_KIND_LAYER)) lki_policy_note(r, object, v);
        lki_config_free(c, args);
    }
    return object;
}

void *lki_object_read(const lki_reading *r, lki_kind kind, const char *what, const lki_json *v)
{
    const lki_family *f = lki_family_of(kind);
    lki_reading       here = *r;
    const lki_json   *config;
    const char       *name = v->type == LKI_JSON_STRING ? v->text : NULL;
    char              text[LKI_KNOWN_TEXT];
    lki_text_more(here.place, sizeof here.place, "%s%s", *here.place ? ": " : "", what);
    if (v->type != LKI_JSON_STRING && v->type != LKI_JSON_OBJECT) {
        lki_read_fail(&here, LK_EFORMAT, "it is %s; it should be the name of a class or an object", lki_json_kind(v));
        return NULL;
    }
    if (v->type == LKI_JSON_OBJECT && lki_object_parts(&here, v, &name, &config) != LK_OK) return NULL;
    if (kind == LKI_KIND_LAYER) here.rank = lki_built_rank(v);
    if (v->type == LKI_JSON_STRING && f->named) {
        bool  before = lk_failed();
        void *object = f->named(name);
        if (!object) lki_read_blame(&here, before);
        return object;
    }
    if (kind == LKI_KIND_LAYER && name && v->type == LKI_JSON_OBJECT && lki_is_model_class(name))
        return lki_layer_read_json(r->file, v, NULL);
    const lki_class *c = lki_class_named(f, name);
    if (c && c->make) return make(&here, c, v);
    lki_read_fail(&here, LK_EUNSUPPORTED, "there is no %s \"%.64s\"%s", f->what, name, lki_classes_known(f, name, text));
    return NULL;
}

/* In a map of policies without one for inner layers, its own policy, or the standard one. */
static const lki_json *plain_policy(const lki_json *v)
{
    static const lki_json STANDARD = {.type = LKI_JSON_NULL};
    const lki_json       *config = lki_json_get(v, "config"), *map = lki_json_get(config, "policy_map"),
                   *own = lki_json_get(config, "default_policy");
    return !map || map->count ? v : own ? own : &STANDARD;
}

static const char *const POLICIES[] = {"float32", "mixed_float16", "mixed_bfloat16", "float16", "bfloat16", "float64"};

/* The index of a policy's name; 0 for none, -1: it is unknown. */
static int policy_named(const lki_json *name)
{
    if (!name || name->type == LKI_JSON_NULL) return 0;
    for (int i = 0; i < LKI_COUNT(POLICIES) && name->type == LKI_JSON_STRING; i++)
        if (!strcmp(name->text, POLICIES[i])) return i;
    return -1;
}

lk_status lki_dtype_check(const lki_reading *r, const lki_json *v, const char **policy)
{
    v = plain_policy(v);
    const lki_json *name = v->type == LKI_JSON_OBJECT ? lki_json_get(lki_json_get(v, "config"), "name") : v;
    const int       which = v->type == LKI_JSON_OBJECT && !name ? -1 : policy_named(name);
    char            text[SHOWN], known[LKI_KNOWN_TEXT] = "";
    if (which >= 0 && policy) *policy = which ? POLICIES[which] : NULL;
    for (int i = 0; which < 0 && i < LKI_COUNT(POLICIES); i++)
        lki_names_add(known, sizeof known, POLICIES[i]);
    if (which >= 0) return LK_OK;
    return lki_read_fail(r, LK_EUNSUPPORTED, "option \"dtype\" is %s; supported are %s",
                         lki_json_show(name ? name : v, text, sizeof text), known);
}

void lki_policy_note(const lki_reading *r, lk_layer *l, const lki_json *object)
{
    const lki_json *dtype = lki_json_get(lki_json_get(object, "config"), "dtype");
    if (dtype) lki_dtype_check(r, dtype, &l->policy); /* it was checked before */
}

/* The first policy other than float32 in this tree; NULL: there is none. Types of tensors are words, policies objects. */
static const char *policy_in(const lki_json *v)
{
    const bool      policy = v->key && !strcmp(v->key, "dtype") && v->type == LKI_JSON_OBJECT;
    const lki_json *name = policy ? lki_json_get(lki_json_get(plain_policy(v), "config"), "name") : NULL;
    const int       which = name ? policy_named(name) : 0;
    const char     *found = which > 0 ? POLICIES[which] : NULL;
    for (int i = 0; !found && !policy && i < v->count; i++)
        found = policy_in(&v->item[i]);
    return found;
}

void lki_policies_tell(const char *file, const lki_json *config)
{
    const char *policy = policy_in(config);
    if (policy)
        lki_warn("%s: its layers have the dtype policy \"%s\"; here they compute in float32, and keep the name for files", file,
                 policy);
}

/* ---- writing ---- */

lk_status lki_config_write(lki_json_out *o, const lki_class *c, const void *args, const char *policy)
{
    for (int i = 0; i < c->fields; i++) {
        const lki_field *f = &c->field[i];
        const bool       choice = i + 1 < c->fields && *f->name && !strcmp(f[0].name, f[1].name);
        if (!*f->name || f->in_call || f->ours) continue;
        if (choice && !*(void *const *)((const char *)args + f->offset)) continue; /* the second of the two fields has the value */
        lki_json_key(o, f->name);
        LKI_TRY(lki_field_write(o, f, args));
        i += choice;
        if (strcmp(f->name, "trainable")) continue; /* for layers the dtype comes next */
        lki_json_key(o, "dtype");
        lki_dtype_write(o, policy);
    }
    return LK_OK;
}

lk_status lki_call_write(lki_json_out *o, const lki_class *c, const void *args)
{
    for (int i = 0; i < c->fields; i++) {
        const lki_field *f = &c->field[i];
        const void      *member = (const char *)args + f->offset;
        if (!f->in_call || f->type != LKI_FIELD_SWITCH || !lki_switch_given(*(const lk_switch *)member)) continue;
        lki_json_key(o, f->name);
        LKI_TRY(lki_field_write(o, f, args));
    }
    return LK_OK;
}

static bool is_on(const lki_field *f, const void *args)
{
    return f->ours && *(const lk_switch *)((const char *)args + f->offset) == LK_ON;
}

static lk_status write_ours(lki_json_out *o, const lki_class *c, const void *args)
{
    bool any = false;
    for (int i = 0; i < c->fields; i++) {
        if (!is_on(&c->field[i], args)) continue;
        if (!any) lki_json_key(o, LKI_BESIDE), lki_json_open(o, '{');
        any = true;
        lki_json_key(o, c->field[i].name);
        LKI_TRY(lki_field_write(o, &c->field[i], args));
    }
    if (any) lki_json_close(o, '}');
    return LK_OK;
}

lk_status lki_object_begin(lki_json_out *o, const lki_class *c, const void *args, const char *policy)
{
    lki_json_open(o, '{');
    lki_json_key(o, "module");
    lki_json_text(o, c->module);
    lki_json_key(o, "class_name");
    lki_json_text(o, c->name);
    lki_json_key(o, "config");
    lki_json_open(o, '{');
    LKI_TRY(lki_config_write(o, c, args, policy));
    lki_json_close(o, '}');
    lki_json_key(o, "registered_name");
    lki_json_null(o);
    return write_ours(o, c, args);
}

lk_status lki_object_open(lki_json_out *o, lki_kind kind, const void *object)
{
    lk_model *inside = kind == LKI_KIND_LAYER ? lki_model_inside(object) : NULL;
    if (inside) return lki_model_write_inside(o, inside);
    const lki_family *f = lki_family_of(kind);
    const lki_class  *c = f->of(object, NULL);
    const char       *why = c && c->name ? lki_not_in_keras(c->name) : NULL;
    if (!c || !c->name) return lki_fail(LK_EUNSUPPORTED, "the %s is a custom function, which a Keras file cannot store", f->what);
    if (why) return lki_fail(LK_EUNSUPPORTED, "the %s \"%s\": %s", f->what, c->name, why);
    void *args LKI_RELEASED = lki_alloc(c->bytes);
    if (!args) return LK_ENOMEM;
    f->of(object, args);
    return lki_object_begin(o, c, args, kind == LKI_KIND_LAYER ? ((const lk_layer *)object)->policy : NULL);
}

lk_status lki_object_write(lki_json_out *o, lki_kind kind, const void *object)
{
    LKI_TRY(lki_object_open(o, kind, object));
    lki_json_close(o, '}');
    return LK_OK;
}

void lki_dtype_write(lki_json_out *o, const char *policy)
{
    lki_json_open(o, '{');
    lki_json_key(o, "module");
    lki_json_text(o, "keras");
    lki_json_key(o, "class_name");
    lki_json_text(o, "DTypePolicy");
    lki_json_key(o, "config");
    lki_json_open(o, '{');
    lki_json_key(o, "name");
    lki_json_text(o, policy ? policy : "float32");
    lki_json_close(o, '}');
    lki_json_key(o, "registered_name");
    lki_json_null(o);
    lki_json_close(o, '}');
}
