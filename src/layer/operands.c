/* Arguments and options of operations by name (operands.h). */
#include "layer/operands.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "core/names.h"
#include "op/replica.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lk_tensor *lki_arg_refuse(const lki_operands *c, const char *format, ...)
{
    char    why[256];
    va_list list;
    va_start(list, format);
    lki_text_vprint(why, sizeof why, 0, format, list);
    va_end(list);
    return lki_refuse(LK_EUNSUPPORTED, "%s: %s", c->line->class, why);
}

/* ---- finding them ---- */

/* The position of a word among words with spaces between them; -1: it is not there. */
static int position(const char *words, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; *words; i++) {
        const size_t length = strcspn(words, " ");
        if (length == n && !strncmp(words, name, n)) return i;
        words += length + (words[length] == ' ');
    }
    return -1;
}

const lki_json *lki_arg(const lki_operands *c, const char *name)
{
    const int       at = position(c->line->arguments, name);
    const lki_json *v = at >= 0 && at < c->form->args->count ? &c->form->args->item[at] : NULL;
    if (*c->line->arguments == '*' && at == 0) return c->form->args;
    if (!v && at >= 0) v = lki_json_get(c->form->kwargs, name);
    if (!v && at < 0) v = lki_json_get(c->config, name);
    return v && v->type != LKI_JSON_NULL ? v : NULL;
}

/* ---- tensors ---- */

/* A number as a scalar; bool, i32 or f32. */
static lk_tensor *scalar(const lki_json *v)
{
    if (v->type == LKI_JSON_BOOL) return lk_fill((lk_shape){0}, LK_BOOL, v->boolean);
    return lk_fill((lk_shape){0}, v->whole && fabs(v->number) < 0x1p31 ? LK_I32 : LK_F32, v->number);
}

static lk_tensor *tensor_of(const lki_operands *c, const char *name, const lki_json *v)
{
    const int at = lki_call_form_tensor(v);
    if (at >= 0) return at < c->in.count && c->in.item[at] ? c->in.item[at] : lki_arg_refuse(c, "argument %s is missing", name);
    if (v->type == LKI_JSON_NUMBER || v->type == LKI_JSON_BOOL) return scalar(v);
    lk_tensor *t = v->type == LKI_JSON_NULL || v->type == LKI_JSON_STRING ? NULL : c->constant(c->layer, v);
    return t || lk_failed() ? t ? t : &lki_poison : lki_arg_refuse(c, "argument %s is not a tensor", name);
}

lk_tensor *lki_arg_tensor(const lki_operands *c, const char *name)
{
    const lki_json *v = lki_arg(c, name);
    return v ? tensor_of(c, name, v) : lki_arg_refuse(c, "argument %s is missing", name);
}

lk_tensor *lki_to_float(lk_tensor *x) { return lki_bad(x) || lki_is_float(x->dtype) ? x : lk_cast(x, LK_F32); }

lk_tensor *lki_to_truth(lk_tensor *x) { return lki_bad(x) || x->dtype == LK_BOOL ? x : lk_not_equal(x, lki_like(x, 0)); }

lk_tensor *lki_arg_float(const lki_operands *c, const char *name) { return lki_to_float(lki_arg_tensor(c, name)); }
lk_tensor *lki_arg_truth(const lki_operands *c, const char *name) { return lki_to_truth(lki_arg_tensor(c, name)); }

lk_tensor *lki_arg_ids(const lki_operands *c, const char *name)
{
    lk_tensor *x = lki_arg_tensor(c, name);
    return lki_bad(x) || x->dtype == LK_I32 || x->dtype == LK_I64 ? x : lk_cast(x, LK_I32);
}

/* ---- types ---- */

/* As Keras promotes types: the later one of this list; of the two 16-bit floats, f32. */
lk_dtype lki_common_dtype(lk_dtype a, lk_dtype b)
{
    static const int RANK[LK_DTYPE_COUNT] = {
        [LK_BOOL] = 0, [LK_U8] = 1, [LK_I32] = 2, [LK_I64] = 3, [LK_F16] = 4, [LK_BF16] = 5, [LK_F32] = 6, [LK_F64] = 7};
    if (a != b && lki_is_half(a) && lki_is_half(b)) return LK_F32;
    return RANK[a] >= RANK[b] ? a : b;
}

static bool is_number(const lki_json *v) { return v && (v->type == LKI_JSON_NUMBER || v->type == LKI_JSON_BOOL); }

/* The type of a plain number next to a tensor of type t. */
static lk_dtype beside(const lki_json *v, lk_dtype t)
{
    if (v->type == LKI_JSON_BOOL || lki_is_float(t)) return t;
    return !v->whole ? LK_F32 : t == LK_BOOL ? LK_I32 : t;
}

static lk_tensor *number_as(const lki_json *v, lk_dtype t)
{
    return lk_fill((lk_shape){0}, t, v->type == LKI_JSON_BOOL ? v->boolean : v->number);
}

static lk_tensor *as(lk_tensor *x, lk_dtype t) { return lki_bad(x) || x->dtype == t ? x : lk_cast(x, t); }

/* Tensors of different rank with rows each: every row of one is combined with all rows of the other, which a replica that has only
 * some of them cannot do. */
static bool rows_meet(const lki_operands *c, const lki_json *a, const lki_json *b, lk_tensor *const pair[2])
{
    char text[2][LKI_SHAPE_TEXT];
    if (!a || !b || lki_call_form_tensor(a) < 0 || lki_call_form_tensor(b) < 0 || pair[0]->shape.rank == pair[1]->shape.rank)
        return true;
    if (lki_replica_count() == 1) return true;
    lki_fail(LK_EUNSUPPORTED,
             "layer \"%s\": an operation on %s and %s, whose ranks differ, makes rows depend on each other; it needs a strategy of "
             "one replica",
             lki_layer_title(c->layer), lki_shape_text(&pair[0]->shape, text[0]), lki_shape_text(&pair[1]->shape, text[1]));
    return false;
}

bool lki_arg_pair(const lki_operands *c, const char *a, const char *b, bool floats, lk_tensor *pair[2])
{
    const lki_json *v[2] = {lki_arg(c, a), lki_arg(c, b)};
    pair[0] = lki_arg_tensor(c, a);
    pair[1] = lki_arg_tensor(c, b);
    if (lki_bad(pair[0]) || lki_bad(pair[1]) || !rows_meet(c, v[0], v[1], pair)) return false;
    lk_dtype t = is_number(v[0])   ? beside(v[0], pair[1]->dtype)
                 : is_number(v[1]) ? beside(v[1], pair[0]->dtype)
                                   : lki_common_dtype(pair[0]->dtype, pair[1]->dtype);
    if (floats && !lki_is_float(t)) t = LK_F32;
    for (int i = 0; i < 2; i++)
        pair[i] = is_number(v[i]) ? number_as(v[i], t) : as(pair[i], t);
    return !lki_bad(pair[0]) && !lki_bad(pair[1]);
}

lk_tuple lki_arg_tensors(const lki_operands *c, const char *name)
{
    const lki_json *list = lki_arg(c, name);
    lk_tensor      *item[LKI_MOST_INPUTS];
    lk_dtype        t = LK_BOOL;
    if (!list || list->type != LKI_JSON_ARRAY || !list->count || list->count > LKI_MOST_INPUTS)
        return lki_arg_refuse(c, "argument %s should be a list of 1 to %d tensors", name, LKI_MOST_INPUTS), (lk_tuple){0};
    for (int i = 0; i < list->count; i++) {
        item[i] = tensor_of(c, name, &list->item[i]);
        if (lki_bad(item[i])) return (lk_tuple){0};
        t = lki_common_dtype(t, item[i]->dtype);
    }
    for (int i = 0; i < list->count; i++)
        if (lki_bad(item[i] = as(item[i], t))) return (lk_tuple){0};
    return lk_tuple_from(list->count, item);
}

/* ---- values ---- */

double lki_arg_number(const lki_operands *c, const char *name, double standard)
{
    const lki_json *v = lki_arg(c, name);
    return !v || !is_number(v) ? standard : v->type == LKI_JSON_BOOL ? v->boolean : v->number;
}

int64_t lki_arg_whole(const lki_operands *c, const char *name, int64_t standard)
{
    const lki_json *v = lki_arg(c, name);
    if (!v) return standard;
    if (v->whole && v->integer >= -LKI_MOST_OPTION && v->integer <= LKI_MOST_OPTION) return v->integer;
    lki_arg_refuse(c, "%s should be an integer of 32 bits", name);
    return standard;
}

bool lki_arg_switch(const lki_operands *c, const char *name, bool standard)
{
    const lki_json *v = lki_arg(c, name);
    return !v ? standard : v->type == LKI_JSON_BOOL ? v->boolean : v->number != 0;
}

const char *lki_arg_word(const lki_operands *c, const char *name, const char *standard)
{
    const lki_json *v = lki_arg(c, name);
    return v && v->type == LKI_JSON_STRING ? v->text : standard;
}

int lki_arg_dtype(const lki_operands *c, const char *name, lk_dtype standard)
{
    const lki_json *v = lki_arg(c, name);
    const char     *word = v && v->type == LKI_JSON_STRING ? v->text : NULL;
    int             t = !v                       ? (int)standard
                        : !word                  ? -1
                        : !strcmp(word, "int")   ? LK_I32
                        : !strcmp(word, "float") ? LK_F32
                                                 : lki_dtype_of_keras(word);
    if (t < 0)
        lki_arg_refuse(c, "%s is %s; known are float32, float16, bfloat16, float64, int32, int64, uint8 and bool", name,
                       word ? word : "not a name");
    return t;
}

/* Lists in lists one after the other; false: other values, or too many. */
static bool flatten(const lki_json *v, lki_axes *out)
{
    const bool whole = v->whole && v->integer >= -LKI_MOST_OPTION && v->integer <= LKI_MOST_OPTION;
    bool       good = v->type == LKI_JSON_ARRAY || ((whole || v->type == LKI_JSON_NULL) && out->count < LK_MAX_RANK);
    if (good && v->type != LKI_JSON_ARRAY) out->value[out->count++] = whole ? v->integer : -1;
    for (int i = 0; good && v->type == LKI_JSON_ARRAY && i < v->count; i++)
        good = flatten(&v->item[i], out);
    return good;
}

bool lki_arg_list(const lki_operands *c, const char *name, lki_axes *out)
{
    const lki_json *v = lki_arg(c, name);
    *out = (lki_axes){0};
    if (!v || flatten(v, out)) return true;
    lki_arg_refuse(c, "%s should be an integer, or a list of at most %d", name, LK_MAX_RANK);
    return false;
}

/* ---- axes ---- */

int lki_operand_axis(const lki_operands *c, const lk_tensor *x, int64_t axis)
{
    const int at = lki_axis_normal(axis, x->shape.rank);
    if (at > 0) return at;
    lki_arg_refuse(c,
                   at ? "axis %lld; there are axes 1 to %d, or counted from the end"
                      : "axis %lld is the rows, which are kept apart; use 1 to %d",
                   (long long)axis, x->shape.rank - 1);
    return -1;
}

int lki_arg_axis(const lki_operands *c, const char *name, const lk_tensor *x, int standard)
{
    return lki_bad(x) ? -1 : lki_operand_axis(c, x, lki_arg_whole(c, name, standard));
}

bool lki_arg_axes(const lki_operands *c, const char *name, const lk_tensor *x, lki_axes *out)
{
    if (lki_bad(x) || !lki_arg_list(c, name, out)) return false;
    if (!lki_arg(c, name)) return lki_arg_refuse(c, "%s is null, which includes the rows; they are kept apart", name), false;
    for (int i = 0; i < out->count; i++)
        if ((out->value[i] = lki_operand_axis(c, x, out->value[i])) < 0) return false;
    return true;
}
