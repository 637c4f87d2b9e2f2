/* Reading and writing objects by the fields of their classes (config.h). One pair of functions per type of field, in one table. */
#include "keras/config.h"
#include "core/memory.h"
#include "core/shape.h"
#include "op/op.h"
#include <lockstep/ops.h>
#include <math.h>
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
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return lki_fail(code, "%s: %s%s%s", r->file, r->place, *r->place ? ": " : "", text);
}

const char *lki_json_show(const lki_json *v, char *text, size_t bytes)
{
    lki_json_out o = {0};
    lki_json_copy(&o, v);
    snprintf(text, bytes, "%s", o.text ? o.text : "?");
    if (o.size >= bytes) memcpy(text + bytes - 4, "...", 4);
    lki_json_out_free(&o);
    return text;
}

void lki_read_blame(const lki_reading *r, bool failed_before)
{
    lki_error_record e;
    if (failed_before || !lk_failed()) return;
    lki_error_take(&e);
    lki_read_fail(r, e.code == LK_EINVAL ? LK_EUNSUPPORTED : e.code, "%s", e.text);
}

static lk_status wrong(const lki_reading *r, const lki_field *f, const lki_json *v, const char *right)
{
    char text[SHOWN];
    return lki_read_fail(r, LK_EFORMAT, "option \"%s\" is %s; it should be %s", f->name, lki_json_show(v, text, sizeof text),
                         right);
}

static lk_status unsupported(const lki_reading *r, const lki_field *f, const lki_json *v, const char *right)
{
    char text[SHOWN];
    return lki_read_fail(r, LK_EUNSUPPORTED, "option \"%s\" is %s; %s", f->name, lki_json_show(v, text, sizeof text), right);
}

/* ---- numbers ---- */

#define READ(type) static lk_status read_##type(const lki_reading *r, const lki_field *f, const lki_json *v, void *to)
#define WRITE(type) static lk_status write_##type(lki_json_out *o, const lki_field *f, const void *from)

/* 0 means the default in a struct of arguments. */
static lk_status not_zero(const lki_reading *r, const lki_field *f, const lki_json *v)
{
    char right[96];
    if (v->number != 0 || f->standard == 0) return LK_OK;
    snprintf(right, sizeof right, "0 stands for the default here, %g", f->standard);
    return unsupported(r, f, v, right);
}

READ(INT)
{
    if (!v->whole) return wrong(r, f, v, "a whole number");
    LKI_TRY(not_zero(r, f, v));
    *(int64_t *)to = v->integer;
    return LK_OK;
}

WRITE(INT)
{
    const int64_t n = *(const int64_t *)from;
    lki_json_int(o, n ? n : (int64_t)f->standard);
    return LK_OK;
}

READ(COUNT)
{
    if (f->none && v->type == LKI_JSON_NULL) return LK_OK;
    if (!v->whole || v->integer < INT32_MIN || v->integer > INT32_MAX) return wrong(r, f, v, "a whole number of 32 bits");
    LKI_TRY(not_zero(r, f, v));
    *(int *)to = (int)v->integer;
    return LK_OK;
}

WRITE(COUNT)
{
    const int n = *(const int *)from;
    if (f->none && !n) lki_json_null(o);
    else lki_json_int(o, n ? n : (int64_t)f->standard);
    return LK_OK;
}

READ(REAL)
{
    if (f->none && v->type == LKI_JSON_NULL) return LK_OK;
    if (v->type != LKI_JSON_NUMBER) return wrong(r, f, v, "a number");
    LKI_TRY(not_zero(r, f, v));
    *(double *)to = v->number;
    return LK_OK;
}

WRITE(REAL)
{
    const double x = *(const double *)from;
    if (f->none && x == 0) lki_json_null(o);
    else lki_json_real(o, x != 0 ? x : f->standard);
    return LK_OK;
}

READ(NUMBER)
{
    if (f->none && v->type == LKI_JSON_NULL) return LK_OK;
    if (v->type != LKI_JSON_NUMBER) return wrong(r, f, v, "a number");
    *(lk_number *)to = LK_NUMBER(v->number);
    return LK_OK;
}

/* Seeds, classes and the like are whole numbers, and Keras wants them so. */
WRITE(NUMBER)
{
    const lk_number n = *(const lk_number *)from;
    const double    x = n.set ? n.value : f->standard;
    if (f->none && !n.set) lki_json_null(o);
    else if (f->none && x == floor(x) && fabs(x) < 0x1p53) lki_json_int(o, (int64_t)x);
    else lki_json_real(o, x);
    return LK_OK;
}

READ(SWITCH)
{
    if (v->type != LKI_JSON_BOOL) return wrong(r, f, v, "true or false");
    *(lk_switch *)to = v->boolean ? LK_ON : f->none ? LK_DEFAULT : LK_OFF;
    return LK_OK;
}

WRITE(SWITCH)
{
    const lk_switch s = *(const lk_switch *)from;
    lki_json_bool(o, s == LK_ON || (s == LK_DEFAULT && !f->none && f->standard != 0));
    return LK_OK;
}

/* ---- axes and shapes ---- */

READ(AXIS)
{
    const lki_json *one = v->type == LKI_JSON_ARRAY && v->count == 1 ? v->item : v;
    if (!one->whole || one->integer < INT32_MIN || one->integer > INT32_MAX) return wrong(r, f, v, "a whole number");
    *(lk_axis *)to = LK_AXIS((int)one->integer);
    return LK_OK;
}

WRITE(AXIS)
{
    const lk_axis *a = from;
    lki_json_int(o, a->set ? a->value : (int64_t)f->standard);
    return LK_OK;
}

/* Whole numbers of nested lists, one behind the other; false: something else, or too many. */
static bool flatten(const lki_json *v, lk_axes *to)
{
    bool good = v->type == LKI_JSON_ARRAY || (v->whole && to->count < LK_MAX_RANK);
    if (good && v->whole) to->value[to->count++] = v->integer;
    for (int i = 0; good && v->type == LKI_JSON_ARRAY && i < v->count; i++)
        good = flatten(&v->item[i], to);
    return good;
}

READ(AXES)
{
    lk_axes *a = to;
    char     right[64];
    if (v->type == LKI_JSON_NULL && !f->required) return LK_OK;
    snprintf(right, sizeof right, f->width ? "a whole number or a list of %d" : "a whole number or a list of up to %d",
             f->width ? f->width : LK_MAX_RANK);
    if (!flatten(v, a) || !a->count || (f->width && a->count != 1 && a->count != f->width)) return wrong(r, f, v, right);
    for (; a->count < f->width; a->count++)
        a->value[a->count] = a->value[0];
    return LK_OK;
}

static void write_list(lki_json_out *o, int count, const int64_t *value)
{
    lki_json_open(o, '[');
    for (int i = 0; i < count; i++)
        lki_json_int(o, value[i]);
    lki_json_close(o, ']');
}

WRITE(AXES)
{
    lk_axes a = *(const lk_axes *)from;
    if (!a.count && (!f->width || f->standard == 0)) return lki_json_null(o), LK_OK;
    if (!a.count) a.value[a.count++] = (int64_t)f->standard;
    for (; a.count < f->width; a.count++)
        a.value[a.count] = a.value[0];
    write_list(o, a.count, a.value);
    return LK_OK;
}

READ(PAIRS)
{
    lk_axes *a = to;
    if (!flatten(v, a) || (a->count != 1 && a->count != 2 && a->count != 4))
        return wrong(r, f, v, "a whole number, [height, width] or [[top, bottom], [left, right]]");
    return LK_OK;
}

WRITE(PAIRS)
{
    const lk_axes *a = from;
    const int      last = a->count - 1;
    lki_json_open(o, '[');
    for (int side = 0; side < 2; side++) {
        const int64_t first = a->count == 4 ? a->value[2 * side]
                              : last >= 0   ? a->value[last < side ? last : side]
                                            : (int64_t)f->standard;
        write_list(o, 2, (int64_t[]){first, a->count == 4 ? a->value[2 * side + 1] : first});
    }
    lki_json_close(o, ']');
    return LK_OK;
}

READ(SHAPE)
{
    lk_shape *s = to;
    if (v->type != LKI_JSON_ARRAY || v->count > LK_MAX_RANK) return wrong(r, f, v, "a list of sizes");
    for (int i = 0; i < v->count; i++) {
        if (!v->item[i].whole && v->item[i].type != LKI_JSON_NULL) return wrong(r, f, v, "a list of sizes");
        s->dim[i] = v->item[i].whole ? v->item[i].integer : -1;
    }
    s->rank = v->count;
    return LK_OK;
}

WRITE(SHAPE)
{
    const lk_shape *s = from;
    (void)f;
    write_list(o, s->rank, s->dim);
    return LK_OK;
}

/* ---- words and objects ---- */

READ(NAME)
{
    if (v->type == LKI_JSON_NULL && !f->required) return LK_OK;
    if (v->type != LKI_JSON_STRING) return wrong(r, f, v, "a string");
    *(const char **)to = v->text;
    return LK_OK;
}

WRITE(NAME)
{
    (void)f;
    lki_json_text(o, *(const char *const *)from);
    return LK_OK;
}

/* A function of Keras may come as an object whose config is its name. */
static const char *word_in(const lki_json *v)
{
    const lki_json *type = lki_json_get(v, "class_name"), *name = lki_json_get(v, "config");
    const bool      function = type && type->type == LKI_JSON_STRING && !strcmp(type->text, "function");
    if (v->type == LKI_JSON_STRING) return v->text;
    return function && name && name->type == LKI_JSON_STRING ? name->text : NULL;
}

READ(WORD)
{
    char        text[400] = "known are";
    size_t      used = strlen(text);
    const char *word = word_in(v);
    const int   index = word ? lki_word_named(f, word) : -1;
    if (f->none && v->type == LKI_JSON_NULL) return LK_OK;
    if (!word && v->type != LKI_JSON_OBJECT) return wrong(r, f, v, "a word");
    if (index >= 0) return *(int *)to = index, LK_OK;
    for (int i = 0; i < f->word_count && used < sizeof text; i++)
        if (f->words[i]) used += (size_t)snprintf(text + used, sizeof text - used, "%s \"%s\"", used > 9 ? "," : "", f->words[i]);
    return unsupported(r, f, v, text);
}

WRITE(WORD)
{
    const int   value = *(const int *)from;
    const char *word = f->words[value] ? f->words[value] : f->words[(int)f->standard], *why;
    if (!value && f->none) return lki_json_null(o), LK_OK;
    if ((why = lki_not_in_keras(word))) return lki_fail(LK_EUNSUPPORTED, "%s \"%s\": %s", f->name, word, why);
    lki_json_text(o, word);
    return LK_OK;
}

READ(OBJECT)
{
    char what[160];
    if (v->type == LKI_JSON_NULL && f->standard_word && strcmp(f->standard_word, "GlorotUniform"))
        return unsupported(r, f, v, "Keras makes Glorot uniform of it; name the class that is meant");
    if (v->type == LKI_JSON_NULL && !f->required) return LK_OK;
    snprintf(what, sizeof what, "option \"%s\"", f->name);
    *(void **)to = lki_object_read(r, f->kind, what, v);
    return *(void **)to ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

static lk_status write_standard(lki_json_out *o, const lki_field *f)
{
    const lki_class *c = lki_class_named(lki_family_of(f->kind), f->standard_word);
    void            *args = lki_zalloc(c->bytes);
    if (!args) return LK_ENOMEM;
    lk_status status = lki_object_begin(o, c, args);
    lki_json_close(o, '}');
    lki_release(args);
    return status;
}

WRITE(OBJECT)
{
    const void *object = *(void *const *)from;
    if (object) return lki_object_write(o, f->kind, object);
    if (f->standard_word) return write_standard(o, f);
    lki_json_null(o);
    return LK_OK;
}

/* ---- arrays ---- */

static bool shape_of(const lki_json *v, lk_shape *s)
{
    for (; v->type == LKI_JSON_ARRAY; v = v->item) {
        if (s->rank == LK_MAX_RANK) return false;
        s->dim[s->rank++] = v->count;
        if (!v->count) return true;
    }
    return true;
}

/* The numbers in order; false: one is missing, or is not a number. */
static bool numbers_of(const lki_json *v, const lk_shape *s, int axis, double **to)
{
    if (axis == s->rank) {
        *(*to)++ = v->number;
        return v->type == LKI_JSON_NUMBER;
    }
    bool good = v->type == LKI_JSON_ARRAY && v->count == s->dim[axis];
    for (int i = 0; good && i < v->count; i++)
        good = numbers_of(&v->item[i], s, axis + 1, to);
    return good;
}

READ(ARRAY)
{
    lk_shape s = {0};
    if (v->type == LKI_JSON_NULL && !f->required) return LK_OK;
    if (!shape_of(v, &s)) return wrong(r, f, v, "a number or nested lists of numbers");
    double *data = lki_alloc((size_t)lki_shape_size(&s) * sizeof *data), *next = data;
    if (!data) return LK_ENOMEM;
    lk_status status =
        numbers_of(v, &s, 0, &next) ? LK_OK : wrong(r, f, v, "a number or nested lists of numbers, all of one shape");
    if (status == LK_OK) {
        lk_tensor *doubles = lk_tensor_from(s, LK_F64, data);
        lk_tensor *t = f->dtype == LK_F64 ? doubles : lk_cast(doubles, f->dtype);
        if (t != doubles && !lki_bad(doubles)) lk_free(doubles);
        if (lki_bad(t)) status = LK_ENOMEM;
        else *(lk_tensor **)to = lk_keep(t);
    }
    lki_release(data);
    return status;
}

static const void *write_axis(lki_json_out *o, const lk_shape *s, int axis, const double *from)
{
    if (axis == s->rank) return lki_json_real(o, *from), from + 1;
    lki_json_open(o, '[');
    for (int64_t i = 0; i < s->dim[axis]; i++)
        from = write_axis(o, s, axis + 1, from);
    lki_json_close(o, ']');
    return from;
}

WRITE(ARRAY)
{
    lk_tensor *t = *(lk_tensor *const *)from;
    lk_status  status = LK_OK;
    (void)f;
    if (!t) return lki_json_null(o), LK_OK;
    LK_STEP {
        lk_tensor *doubles = lk_cast(t, LK_F64);
        if (lki_bad(doubles)) status = LK_ENOMEM;
        else write_axis(o, &doubles->shape, 0, lk_data(doubles));
    }
    return status;
}

/* ---- what there is only one of ---- */

static bool same(const lki_json *a, const lki_json *b)
{
    bool equal = a->type == b->type && a->count == b->count && a->number == b->number && a->boolean == b->boolean &&
                 (a->type != LKI_JSON_STRING || !strcmp(a->text, b->text)) && (!a->key || !b->key || !strcmp(a->key, b->key));
    for (int i = 0; equal && i < a->count; i++)
        equal = same(&a->item[i], &b->item[i]);
    return equal;
}

READ(FIXED)
{
    const lki_json *only;
    char            right[160];
    (void)to;
    if (f->none) return LK_OK;
    LKI_TRY(lki_json_parse(f->name, f->literal, strlen(f->literal), &only));
    bool equal = same(v, only);
    lki_json_free(only);
    snprintf(right, sizeof right, "only %s is supported", f->literal);
    return equal ? LK_OK : unsupported(r, f, v, right);
}

WRITE(FIXED)
{
    (void)from;
    lki_json_literal(o, f->literal);
    return LK_OK;
}

/* ---- the table ---- */

#define CODEC(type) [LKI_FIELD_##type] = {read_##type, write_##type}
static const struct {
    lk_status (*read)(const lki_reading *r, const lki_field *f, const lki_json *v, void *to);
    lk_status (*write)(lki_json_out *o, const lki_field *f, const void *from);
} CODECS[] = {CODEC(INT),   CODEC(COUNT), CODEC(REAL), CODEC(NUMBER), CODEC(SWITCH), CODEC(AXIS),  CODEC(AXES),
              CODEC(PAIRS), CODEC(SHAPE), CODEC(NAME), CODEC(WORD),   CODEC(OBJECT), CODEC(ARRAY), CODEC(FIXED)};

/* The field a key is for: of a choice between two, the object's where an object is given. */
static const lki_field *field_for(const lki_class *c, const lki_json *v)
{
    const lki_field *f = lki_field_find(c, v->key);
    const bool       choice = f && f + 1 < c->field + c->fields && !strcmp(f[0].name, f[1].name);
    return choice && v->type != LKI_JSON_OBJECT ? f + 1 : f;
}

/* ---- reading a config ---- */

static lk_status read_key(const lki_reading *r, const lki_class *c, const lki_json *v, bool in_call, void *args)
{
    const lki_field *f = *v->key ? field_for(c, v) : NULL;
    char             text[SHOWN];
    if (f && f->in_call == in_call) return CODECS[f->type].read(r, f, v, (char *)args + f->offset);
    if (in_call) return LK_OK; /* the rest of a call is for whoever reads the nodes */
    if (!strcmp(v->key, "dtype")) return lki_dtype_check(r, v);
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

lk_status lki_config_read(const lki_reading *r, const lki_class *c, const lki_json *config, const lki_json *call, void *args)
{
    memset(args, 0, c->bytes);
    lk_status status = read_keys(r, c, config, false, args);
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
        return lki_read_fail(r, LK_EUNSUPPORTED, "class \"%s\" of %s is code of somebody's own, not Keras'", *class_name,
                             module && strncmp(module, "keras", 5) ? module : registered);
    *config = lki_json_get(v, "config");
    if (*config && (*config)->type == LKI_JSON_OBJECT) return LK_OK;
    return lki_read_fail(r, LK_EFORMAT, "the config of class \"%s\" is %s; it should be an object", *class_name,
                         *config ? lki_json_kind(*config) : "missing");
}

static void *make(const lki_reading *r, const lki_class *c, const lki_json *config)
{
    void *args = lki_alloc(c->bytes), *object = NULL;
    bool  before = lk_failed();
    if (args && lki_config_read(r, c, config, NULL, args) == LK_OK) {
        object = c->make(args);
        if (!object) lki_read_blame(r, before);
        lki_config_free(c, args);
    }
    lki_release(args);
    return object;
}

void *lki_object_read(const lki_reading *r, lki_kind kind, const char *what, const lki_json *v)
{
    static const lki_json NOTHING = {.type = LKI_JSON_OBJECT};
    const lki_family     *f = lki_family_of(kind);
    lki_reading           here = *r;
    const lki_json       *config = &NOTHING;
    const char           *name = v->type == LKI_JSON_STRING ? v->text : NULL;
    char                  text[480];
    const size_t          used = strlen(here.place);
    snprintf(here.place + used, sizeof here.place - used, "%s%s", used ? ": " : "", what);
    if (v->type != LKI_JSON_STRING && v->type != LKI_JSON_OBJECT) {
        lki_read_fail(&here, LK_EFORMAT, "it is %s; it should be the name of a class or an object", lki_json_kind(v));
        return NULL;
    }
    if (v->type == LKI_JSON_OBJECT && lki_object_parts(&here, v, &name, &config) != LK_OK) return NULL;
    if (v->type == LKI_JSON_STRING && f->named) {
        bool  before = lk_failed();
        void *object = f->named(name);
        if (!object) lki_read_blame(&here, before);
        return object;
    }
    const lki_class *c = lki_class_named(f, name);
    if (c && c->make) return make(&here, c, config);
    lki_read_fail(&here, LK_EUNSUPPORTED, "there is no %s \"%s\"; known are %s", f->what, name,
                  lki_class_list(f, text, sizeof text));
    return NULL;
}

lk_status lki_dtype_check(const lki_reading *r, const lki_json *v)
{
    const lki_json *name = v->type == LKI_JSON_OBJECT ? lki_json_get(lki_json_get(v, "config"), "name") : v;
    char            text[SHOWN];
    if (v->type == LKI_JSON_NULL || (name && name->type == LKI_JSON_STRING && !strcmp(name->text, "float32"))) return LK_OK;
    return lki_read_fail(r, LK_EUNSUPPORTED, "option \"dtype\" is %s; only \"float32\" is supported",
                         lki_json_show(name ? name : v, text, sizeof text));
}

/* ---- writing ---- */

lk_status lki_config_write(lki_json_out *o, const lki_class *c, const void *args)
{
    for (int i = 0; i < c->fields; i++) {
        const lki_field *f = &c->field[i];
        const bool       choice = i + 1 < c->fields && *f->name && !strcmp(f[0].name, f[1].name);
        if (!*f->name || f->in_call) continue;
        if (choice && !*(void *const *)((const char *)args + f->offset)) continue; /* the second of the two says it */
        lki_json_key(o, f->name);
        LKI_TRY(CODECS[f->type].write(o, f, (const char *)args + f->offset));
        i += choice;
        if (strcmp(f->name, "trainable")) continue; /* of layers, whose type comes next */
        lki_json_key(o, "dtype");
        lki_dtype_write(o);
    }
    return LK_OK;
}

lk_status lki_call_write(lki_json_out *o, const lki_class *c, const void *args)
{
    for (int i = 0; i < c->fields; i++) {
        const lki_field *f = &c->field[i];
        const void      *member = (const char *)args + f->offset;
        if (!f->in_call || f->type != LKI_FIELD_SWITCH || *(const lk_switch *)member == LK_DEFAULT) continue;
        lki_json_key(o, f->name);
        LKI_TRY(CODECS[f->type].write(o, f, member));
    }
    return LK_OK;
}

lk_status lki_object_begin(lki_json_out *o, const lki_class *c, const void *args)
{
    lki_json_open(o, '{');
    lki_json_key(o, "module");
    lki_json_text(o, c->module);
    lki_json_key(o, "class_name");
    lki_json_text(o, c->name);
    lki_json_key(o, "config");
    lki_json_open(o, '{');
    LKI_TRY(lki_config_write(o, c, args));
    lki_json_close(o, '}');
    lki_json_key(o, "registered_name");
    lki_json_null(o);
    return LK_OK;
}

lk_status lki_object_open(lki_json_out *o, lki_kind kind, const void *object)
{
    const lki_family *f = lki_family_of(kind);
    const lki_class  *c = f->of(object, NULL);
    const char       *why = c && c->name ? lki_not_in_keras(c->name) : NULL;
    if (!c || !c->name) return lki_fail(LK_EUNSUPPORTED, "the %s is code of one's own, which a Keras file cannot hold", f->what);
    if (why) return lki_fail(LK_EUNSUPPORTED, "the %s \"%s\": %s", f->what, c->name, why);
    void *args = lki_alloc(c->bytes);
    if (!args) return LK_ENOMEM;
    f->of(object, args);
    lk_status status = lki_object_begin(o, c, args);
    lki_release(args);
    return status;
}

lk_status lki_object_write(lki_json_out *o, lki_kind kind, const void *object)
{
    LKI_TRY(lki_object_open(o, kind, object));
    lki_json_close(o, '}');
    return LK_OK;
}

void lki_dtype_write(lki_json_out *o)
{
    lki_json_literal(o, "{\"module\": \"keras\", \"class_name\": \"DTypePolicy\", \"config\": {\"name\": \"float32\"}, "
                        "\"registered_name\": null}");
}
