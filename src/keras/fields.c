/* Values of fields as JSON and back: one pair of functions per type of field, in one table (config.h). */
#include "core/memory.h"
#include "core/shape.h"
#include "keras/config.h"
#include "op/op.h"
#include <lockstep/ops.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 80 };

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
    double *data = lki_alloc_array(lki_shape_size(&s), sizeof *data), *next = data;
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

lk_status lki_field_read(const lki_reading *r, const lki_field *f, const lki_json *v, void *args)
{
    return CODECS[f->type].read(r, f, v, (char *)args + f->offset);
}

lk_status lki_field_write(lki_json_out *o, const lki_field *f, const void *args)
{
    return CODECS[f->type].write(o, f, (const char *)args + f->offset);
}
