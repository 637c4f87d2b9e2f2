/* Values of fields as JSON and back: one pair of functions per type of field, in one table (config.h). */
#include "core/log.h"
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

/* 3, 3.0 and [3] are equivalent; false: another value. */
static bool whole_of(const lki_json *v, int64_t *out)
{
    if (v->type == LKI_JSON_ARRAY && v->count == 1) v = v->item;
    const bool whole = v->whole || (v->type == LKI_JSON_NUMBER && v->number == floor(v->number) && fabs(v->number) < 0x1p53);
    if (whole) *out = v->whole ? v->integer : (int64_t)v->number;
    return whole;
}

READ(INT)
{
    int64_t n;
    if (!whole_of(v, &n)) return wrong(r, f, v, "an integer");
    *(int64_t *)to = n;
    return LK_OK;
}

WRITE(INT)
{
    (void)f;
    lki_json_int(o, *(const int64_t *)from);
    return LK_OK;
}

READ(INTEGER)
{
    if (f->none && v->type == LKI_JSON_NULL) return LK_OK;
    int64_t n;
    if (!whole_of(v, &n)) return wrong(r, f, v, "an integer");
    *(lk_integer *)to = LK_INTEGER(n);
    return LK_OK;
}

WRITE(INTEGER)
{
    const lk_integer n = *(const lk_integer *)from;
    if (f->none && !lki_integer_given(n)) lki_json_null(o);
    else lki_json_int(o, lki_integer_or(n, (int64_t)f->standard));
    return LK_OK;
}

READ(COUNT)
{
    if (f->none && v->type == LKI_JSON_NULL) return LK_OK;
    int64_t n;
    if (!whole_of(v, &n) || n < INT32_MIN || n > INT32_MAX) return wrong(r, f, v, "an integer of 32 bits");
    *(int *)to = (int)n;
    return LK_OK;
}

WRITE(COUNT)
{
    const int n = *(const int *)from;
    if (f->none && !n) lki_json_null(o);
    else lki_json_int(o, n);
    return LK_OK;
}

READ(REAL)
{
    if (f->none && v->type == LKI_JSON_NULL) return LK_OK;
    if (v->type != LKI_JSON_NUMBER) return wrong(r, f, v, "a number");
    *(double *)to = v->number;
    return LK_OK;
}

WRITE(REAL)
{
    const double x = *(const double *)from;
    if (f->none && x == 0) lki_json_null(o);
    else lki_json_real(o, x);
    return LK_OK;
}

/* Whole numbers are written as integers: some of Keras' layers need them. */
static void write_number(lki_json_out *o, double x)
{
    if (x == floor(x) && fabs(x) < 0x1p53) lki_json_int(o, (int64_t)x);
    else lki_json_real(o, x);
}

READ(NUMBER)
{
    if (f->none && v->type == LKI_JSON_NULL) return LK_OK;
    if (f->null_is_zero && v->type == LKI_JSON_NULL) return *(lk_number *)to = LK_NUMBER(0), LK_OK;
    if (v->type == LKI_JSON_ARRAY && v->count == 1) v = v->item;
    if (v->type == LKI_JSON_ARRAY) return unsupported(r, f, v, "only one number is supported");
    if (v->type != LKI_JSON_NUMBER) return wrong(r, f, v, "a number");
    *(lk_number *)to = LK_NUMBER(v->number);
    return LK_OK;
}

/* Seeds, classes and the like are whole numbers, and Keras requires them to be. */
WRITE(NUMBER)
{
    const lk_number n = *(const lk_number *)from;
    const double    x = lki_number_or(n, f->standard);
    if ((f->none && !lki_number_given(n)) || (f->null_is_zero && x == 0)) lki_json_null(o);
    else if (f->none && !f->real) write_number(o, x);
    else lki_json_real(o, x);
    return LK_OK;
}

/* As in Python, 1 and 0 count as true and false, and null as false. */
READ(SWITCH)
{
    const bool number = v->whole && (v->integer == 0 || v->integer == 1), on = number ? v->integer == 1 : v->boolean;
    if (v->type != LKI_JSON_BOOL && v->type != LKI_JSON_NULL && !number) return wrong(r, f, v, "true or false");
    *(lk_switch *)to = on ? LK_ON : f->none ? (lk_switch)0 : LK_OFF;
    return LK_OK;
}

WRITE(SWITCH)
{
    const lk_switch s = *(const lk_switch *)from;
    lki_json_bool(o, s == LK_ON || (!lki_switch_given(s) && !f->none && f->standard != 0));
    return LK_OK;
}

/* ---- axes and shapes ---- */

READ(AXIS)
{
    int64_t n;
    if (!whole_of(v, &n) || n < INT32_MIN || n > INT32_MAX) return wrong(r, f, v, "an integer");
    *(lk_axis *)to = LK_AXIS((int)n);
    return LK_OK;
}

WRITE(AXIS)
{
    lki_json_int(o, lki_axis_or(*(const lk_axis *)from, (int)f->standard));
    return LK_OK;
}

/* Whole numbers of nested lists, one after the other; false: other values, or too many. */
static bool flatten(const lki_json *v, lki_axes *to)
{
    bool good = v->type == LKI_JSON_ARRAY || (v->whole && to->count < LK_MAX_RANK);
    if (good && v->whole) to->value[to->count++] = v->integer;
    for (int i = 0; good && v->type == LKI_JSON_ARRAY && i < v->count; i++)
        good = flatten(&v->item[i], to);
    return good;
}

READ(AXES)
{
    lki_axes   a = {0};
    char       right[64];
    const bool empty = v->type == LKI_JSON_NULL || (v->type == LKI_JSON_ARRAY && !v->count);
    if (empty && f->none) return *(lk_axes *)to = lk_axes_from(0, NULL), LK_OK;
    if (v->type == LKI_JSON_NULL && !f->required) return LK_OK;
    snprintf(right, sizeof right, f->width ? "an integer or a list of %d" : "an integer or a list of up to %d",
             f->width ? f->width : LK_MAX_RANK);
    if (!flatten(v, &a) || !a.count || (f->width && a.count != 1 && a.count != f->width)) return wrong(r, f, v, right);
    for (; a.count < f->width; a.count++)
        a.value[a.count] = a.value[0];
    *(lk_axes *)to = lki_axes_list(&a);
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
    lki_axes a = lki_axes_of(*(const lk_axes *)from);
    if (f->none && *(const lk_axes *)from && !a.count) return write_list(o, 0, NULL), LK_OK;
    if (f->alone && a.count == 1) return lki_json_int(o, a.value[0]), LK_OK;
    if (!a.count && f->standard == 0) return lki_json_null(o), LK_OK;
    if (!a.count) a.value[a.count++] = (int64_t)f->standard;
    for (; a.count < f->width; a.count++)
        a.value[a.count] = a.value[0];
    write_list(o, a.count, a.value);
    return LK_OK;
}

/* Along one axis, two values are the pair itself: before and after. */
READ(PAIRS)
{
    static const char *const RIGHT[] = {"", "an integer or [before, after]",
                                        "an integer, [height, width] or [[top, bottom], [left, right]]",
                                        "an integer, a list of 3 or of 3 pairs"};
    lki_axes                 a = {0};
    if (!flatten(v, &a) || (a.count != 1 && a.count != f->width && a.count != 2 * f->width)) return wrong(r, f, v, RIGHT[f->width]);
    *(lk_axes *)to = lki_axes_list(&a);
    return LK_OK;
}

WRITE(PAIRS)
{
    const lki_axes a = lki_axes_of(*(const lk_axes *)from);
    if (f->width > 1) lki_json_open(o, '[');
    for (int i = 0; i < f->width; i++) {
        const int     at = a.count == 2 * f->width ? 2 * i : a.count == f->width ? i : 0;
        const int64_t before = a.count ? a.value[at] : (int64_t)f->standard;
        write_list(o, 2, (int64_t[]){before, a.count == 2 * f->width ? a.value[at + 1] : before});
    }
    if (f->width > 1) lki_json_close(o, ']');
    return LK_OK;
}

READ(RANGE)
{
    lk_number *end = to; /* the upper one, the lower one */
    const bool pair = v->type == LKI_JSON_ARRAY && v->count == 2;
    if (f->none && v->type == LKI_JSON_NULL) return LK_OK;
    if (pair ? v->item[0].type != LKI_JSON_NUMBER || v->item[1].type != LKI_JSON_NUMBER : v->type != LKI_JSON_NUMBER)
        return wrong(r, f, v, "a number or a list of two numbers");
    end[0] = LK_NUMBER(pair ? v->item[1].number : v->number);
    if (pair) end[1] = LK_NUMBER(v->item[0].number);
    return LK_OK;
}

WRITE(RANGE)
{
    const lk_number *end = from;
    if (f->none && !lki_number_given(end[0])) return lki_json_null(o), LK_OK;
    if (!lki_number_given(end[1])) return write_number(o, lki_number(end[0])), LK_OK;
    lki_json_open(o, '[');
    write_number(o, lki_number(end[1]));
    write_number(o, lki_number(end[0]));
    lki_json_close(o, ']');
    return LK_OK;
}

READ(SHAPE)
{
    lk_shape *s = to;
    if (f->none && v->type == LKI_JSON_NULL) return LK_OK;
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
    if (f->none && !s->rank) return lki_json_null(o), LK_OK;
    lki_json_open(o, '[');
    for (int i = 0; i < s->rank; i++)
        if (f->none && s->dim[i] < 0) lki_json_null(o);
        else lki_json_int(o, s->dim[i]);
    lki_json_close(o, ']');
    return LK_OK;
}

/* ---- words and objects ---- */

READ(NAME)
{
    if (v->type == LKI_JSON_NULL && !f->required) return *(const char **)to = f->standard_word, LK_OK;
    if (f->listed && v->type == LKI_JSON_ARRAY && v->count > 1)
        return unsupported(r, f, v, "only one is supported: join them by |");
    if (f->listed && v->type == LKI_JSON_ARRAY) v = v->item;
    if (!v) return LK_OK; /* an empty list */
    if (v->type != LKI_JSON_STRING) return wrong(r, f, v, "a string");
    *(const char **)to = v->text;
    return LK_OK;
}

WRITE(NAME)
{
    const char *text = *(const char *const *)from;
    if (f->listed) lki_json_open(o, '[');
    if (text && f->standard_word && !strcmp(text, f->standard_word)) text = NULL;
    if (text || !f->listed) lki_json_text(o, text);
    if (f->listed) lki_json_close(o, ']');
    return LK_OK;
}

/* True if the config of a layer has only its name and type, and default values. */
static bool is_plain(const lki_json *config)
{
    bool plain = config && config->type == LKI_JSON_OBJECT;
    for (int i = 0; plain && i < config->count; i++) {
        const lki_json *v = &config->item[i];
        const bool      common = !strcmp(v->key, "name") || !strcmp(v->key, "trainable") || !strcmp(v->key, "dtype");
        const bool      last = !strcmp(v->key, "axis") && v->whole && v->integer == -1;
        plain = common || last || v->type == LKI_JSON_NULL || (v->type == LKI_JSON_NUMBER && v->number == 0);
    }
    return plain;
}

/* A layer that is only an activation can be given as one. */
static const char *layer_word(const lki_json *v, const char *class_name)
{
    const bool one = !strcmp(class_name, "ReLU") || !strcmp(class_name, "Softmax");
    return !one || !is_plain(lki_json_get(v, "config")) ? NULL : *class_name == 'R' ? "relu" : "softmax";
}

/* A function of Keras may be an object whose config is its name. */
static const char *word_in(const lki_json *v)
{
    const lki_json *type = lki_json_get(v, "class_name"), *name = lki_json_get(v, "config");
    const bool      function = type && type->type == LKI_JSON_STRING && !strcmp(type->text, "function");
    if (v->type == LKI_JSON_STRING) return v->text;
    if (type && type->type == LKI_JSON_STRING && !function) return layer_word(v, type->text);
    return function && name && name->type == LKI_JSON_STRING ? name->text : NULL;
}

static const char *word_at(const void *field, int i)
{
    const lki_field *f = field;
    return i >= f->word_count ? NULL : f->words[i] ? f->words[i] : "";
}

READ(WORD)
{
    char        known[LKI_KNOWN_TEXT];
    const char *word = v->type == LKI_JSON_NULL ? "null" : word_in(v);
    const int   index = word ? lki_word_named(f, word) : -1;
    if ((f->none || f->null_too) && v->type == LKI_JSON_NULL) return LK_OK;
    if (index < 0 && v->type != LKI_JSON_STRING && v->type != LKI_JSON_OBJECT) return wrong(r, f, v, "a word");
    if (index >= 0) return *(int *)to = index, LK_OK;
    return unsupported(r, f, v, lki_names_known(word ? word : "", word_at, f, NULL, known) + 2);
}

WRITE(WORD)
{
    const int   value = *(const int *)from;
    const char *word = f->words[value] ? f->words[value] : f->words[(int)f->standard], *why;
    if ((!value && f->none) || !strcmp(word, "null")) return lki_json_null(o), LK_OK;
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
    void            *args LKI_RELEASED = lki_zalloc(c->bytes);
    if (!args) return LK_ENOMEM;
    lk_status status = lki_object_begin(o, c, args, NULL);
    lki_json_close(o, '}');
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

/* The list is the caller's to free (lki_config_free). */
READ(OBJECTS)
{
    lki_objects *list = to;
    char         what[160];
    if (v->type != LKI_JSON_ARRAY) return wrong(r, f, v, "a list of objects");
    snprintf(what, sizeof what, "an entry of option \"%s\"", f->name);
    list->item = lki_zalloc_array(v->count + 1, sizeof *list->item);
    if (!list->item) return LK_ENOMEM;
    for (; list->count < v->count; list->count++)
        if (!(list->item[list->count] = lki_object_read(r, f->kind, what, &v->item[list->count])))
            return lk_failed() ? lk_error_code() : LK_ENOMEM;
    return LK_OK;
}

WRITE(OBJECTS)
{
    const lki_objects *list = from;
    lki_json_open(o, '[');
    for (int i = 0; i < list->count; i++)
        LKI_TRY(lki_object_write(o, f->kind, list->item[i]));
    lki_json_close(o, ']');
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

/* The numbers in order; false: a number is missing, or another value is found. */
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

/* The list in what Keras writes for a tuple, {"class_name": "__tuple__", "items": [...]}, and for an array, {"class_name":
 * "__numpy__", "config": {"value": [...], "dtype": ...}}; else the value itself. */
static const lki_json *bare(const lki_json *v)
{
    const lki_json *type = lki_json_get(v, "class_name"), *items = lki_json_get(v, "items");
    const lki_json *value = lki_json_get(lki_json_get(v, "config"), "value");
    if (v->type != LKI_JSON_OBJECT || !type || type->type != LKI_JSON_STRING || strncmp(type->text, "__", 2) != 0) return v;
    return items ? items : value ? value : v;
}

READ(ARRAY)
{
    lk_shape s = {0};
    v = bare(v);
    if (v->type == LKI_JSON_NULL && !f->required) return LK_OK;
    if (!shape_of(v, &s)) return wrong(r, f, v, "a number or nested lists of numbers");
    double *data LKI_RELEASED = lki_alloc_array(lki_shape_size(&s), sizeof *data), *next = data;
    if (!data) return LK_ENOMEM;
    if (!numbers_of(v, &s, 0, &next)) return wrong(r, f, v, "a number or nested lists of numbers, all of one shape");
    lk_tensor *doubles = lk_tensor_from(s, LK_F64, data);
    lk_tensor *t = f->dtype == LK_F64 ? doubles : lk_cast(doubles, f->dtype);
    if (t != doubles && !lki_bad(doubles)) lk_free(doubles);
    if (lki_bad(t)) return LK_ENOMEM;
    *(lk_tensor **)to = lk_keep(t);
    return LK_OK;
}

static const void *write_axis(lki_json_out *o, bool whole, const lk_shape *s, int axis, const double *from)
{
    if (axis == s->rank && whole) return lki_json_int(o, (int64_t)*from), from + 1;
    if (axis == s->rank) return lki_json_real(o, *from), from + 1;
    lki_json_open(o, '[');
    for (int64_t i = 0; i < s->dim[axis]; i++)
        from = write_axis(o, whole, s, axis + 1, from);
    lki_json_close(o, ']');
    return from;
}

WRITE(ARRAY)
{
    lk_tensor *t = *(lk_tensor *const *)from;
    lk_status  status = LK_OK;
    if (!t) return lki_json_null(o), LK_OK;
    LK_STEP {
        lk_tensor *doubles = lk_cast(t, LK_F64);
        if (lki_bad(doubles)) status = LK_ENOMEM;
        else write_axis(o, !lki_is_float(f->dtype), &doubles->shape, 0, lk_data(doubles));
    }
    return status;
}

/* ---- fields with only one supported value ---- */

static bool same(const lki_json *a, const lki_json *b)
{
    bool equal = a->type == b->type && a->count == b->count && a->number == b->number && a->boolean == b->boolean &&
                 (a->type != LKI_JSON_STRING || !strcmp(a->text, b->text)) && (!a->key || !b->key || !strcmp(a->key, b->key));
    for (int i = 0; equal && i < a->count; i++)
        equal = same(&a->item[i], &b->item[i]);
    return equal;
}

static void tell_left_out(const lki_reading *r, const lki_field *f, const lki_json *v)
{
    char text[SHOWN];
    lki_warn("%s: %s: option \"%s\" is %s; it is left out: here it is %s", r->file, r->place, f->name,
             lki_json_show(v, text, sizeof text), f->literal);
}

/* True if it has numbers and every one is n: 1 and [1, 1], -1 and [-1]. An axis may be counted from the front. */
static bool all_are(const lki_reading *r, const lki_field *f, const lki_json *v, int64_t n)
{
    int64_t one;
    bool    good = v->type == LKI_JSON_ARRAY && v->count;
    for (int i = 0; good && i < v->count; i++)
        good = all_are(r, f, &v->item[i], n);
    if (good || !whole_of(v, &one)) return good;
    return one == n || (n < 0 && r->rank && one == r->rank + n && !strcmp(f->name, "axis"));
}

/* True if the file's value equals the only supported one. Null is Keras' default, which is that value; but null as an axis means no
 * axis. */
static bool means(const lki_reading *r, const lki_field *f, const lki_json *v, const lki_json *only)
{
    const lki_json *one = only->type == LKI_JSON_ARRAY && only->count ? only->item : only;
    return same(v, only) || (v->type == LKI_JSON_NULL && strcmp(f->name, "axis")) || (one->whole && all_are(r, f, v, one->integer));
}

READ(FIXED)
{
    const lki_json *only;
    char            right[160];
    (void)to;
    if (f->none) return LK_OK;
    LKI_TRY(lki_json_parse(f->name, f->literal, strlen(f->literal), &only));
    bool equal = means(r, f, v, only);
    lki_json_free(only);
    if (!equal && f->left_out) return tell_left_out(r, f, v), LK_OK;
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
} CODECS[] = {CODEC(INT),  CODEC(COUNT),  CODEC(INTEGER), CODEC(REAL),  CODEC(NUMBER), CODEC(SWITCH),
              CODEC(AXIS), CODEC(AXES),   CODEC(PAIRS),   CODEC(RANGE), CODEC(SHAPE),  CODEC(NAME),
              CODEC(WORD), CODEC(OBJECT), CODEC(OBJECTS), CODEC(ARRAY), CODEC(FIXED)};

lk_status lki_field_read(const lki_reading *r, const lki_field *f, const lki_json *v, void *args)
{
    return CODECS[f->type].read(r, f, v, (char *)args + f->offset);
}

lk_status lki_field_write(lki_json_out *o, const lki_field *f, const void *args)
{
    return CODECS[f->type].write(o, f, (const char *)args + f->offset);
}
