/* Merging layers: Add, Subtract, Multiply, Average, Maximum, Minimum, Concatenate, Dot.
 *
 * Rows of several inputs broadcast against each other, aligned at their last axes; terms are combined from left to right. */
#include "layer/layer.h"
#include "op/gradient.h"

#define KIND(title, T, A, class_, fields, ...)                                                                                     \
    static void         *make_##title(const void *args);                                                                           \
    const lki_layer_kind lki_##title##_kind = {                                                                                    \
        .name = #title,                                                                                                            \
        .class = {.name = class_, .module = "keras.layers", LKI_ARGS(A, fields), .make = make_##title},                            \
        .bytes = sizeof(T),                                                                                                        \
        .set = offsetof(T, set),                                                                                                   \
        .fewest = 2,                                                                                                               \
        __VA_ARGS__}

/* ---- element by element ---- */

typedef struct merge {
    lk_layer            layer;
    lk_plain_layer_args set;
} merge;

typedef struct merging {
    const lki_layer_kind *kind;
    lk_tensor *(*combine)(lk_tensor *a, lk_tensor *b);
} merging;

static const merging MERGINGS[] = {
    {&lki_add_kind, lk_add},     {&lki_subtract_kind, lk_sub},    {&lki_multiply_kind, lk_mul},
    {&lki_average_kind, lk_add}, {&lki_maximum_kind, lk_maximum}, {&lki_minimum_kind, lk_minimum},
};

static const merging *merging_of(const lk_layer *l)
{
    const merging *m = MERGINGS;
    while (m->kind != l->kind)
        m++;
    return m;
}

/* -1 matches any size; the result is known if one of the two is, and is not 1. */
static bool sizes_meet(int64_t a, int64_t b, int64_t *out)
{
    if (a < 0 || b < 0) *out = a > 1 ? a : b > 1 ? b : -1;
    else if (a != b && a != 1 && b != 1) return false;
    else *out = a == 1 ? b : a;
    return true;
}

static bool rows_meet(const lk_shape *a, const lk_shape *b, lk_shape *out)
{
    const lk_shape *more = a->rank >= b->rank ? a : b, *fewer = more == a ? b : a;
    lk_shape        met = *more;
    const int       ahead = more->rank - fewer->rank;
    for (int i = 0; i < fewer->rank; i++)
        if (!sizes_meet(more->dim[ahead + i], fewer->dim[i], &met.dim[ahead + i])) return false;
    *out = met;
    return true;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    char text[LKI_SHAPE_TEXT];
    *out = *in;
    for (int i = 1; in[i].rank >= 0; i++)
        if (!rows_meet(out, &in[i], out))
            return lki_layer_refuse(l, in, "those of input %d, %s, do not broadcast with them", i, lki_shape_text(&in[i], text));
    return LK_OK;
}

/* Axes of size 1 after the batch, so that ranks are equal. */
static lk_tensor *with_rank(lk_tensor *x, int rank)
{
    if (lki_bad(x) || x->shape.rank == rank) return x;
    lk_shape shape = {.rank = rank, .dim = {x->shape.dim[0]}};
    for (int i = 1; i < rank; i++) {
        int from = i - (rank - x->shape.rank);
        shape.dim[i] = from < 1 ? 1 : x->shape.dim[from];
    }
    return lk_reshape(x, shape);
}

static int rank_of(lk_tuple in)
{
    int rank = 0;
    for (int i = 0; i < in.count; i++)
        rank = (int)lki_max(rank, lk_rank(in.item[i]));
    return rank;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const merging *m = merging_of(l);
    const int      rank = rank_of(pass->in);
    x = with_rank(x, rank);
    for (int i = 1; i < pass->in.count; i++)
        x = m->combine(x, with_rank(pass->in.item[i], rank));
    return l->kind == &lki_average_kind && !lki_bad(x) ? lk_div(x, lki_like(x, pass->in.count)) : x;
}

/* ---- where masks change values, as in Keras ---- */

static bool any_mask(lk_tuple in)
{
    for (int i = 0; i < in.count; i++)
        if (!lki_bad(in.item[i]) && in.item[i]->mask) return true;
    return false;
}

/* Which elements of x count; NULL: all. */
static lk_tensor *mask_of(lk_tensor *x, int rank)
{
    return lki_bad(x) || !x->mask ? NULL : with_rank(lki_mask_spread(x->mask, x->shape.rank), rank);
}

/* Masked elements are 1; if all inputs have masks, elements that no mask counts are 0. */
static lk_tensor *call_multiply(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const int  rank = rank_of(pass->in);
    lk_tensor *y = NULL, *counts = mask_of(x, rank);
    if (!any_mask(pass->in)) return call(l, x, pass);
    for (int i = 0; i < pass->in.count; i++) {
        lk_tensor *t = with_rank(pass->in.item[i], rank), *mask = mask_of(pass->in.item[i], rank);
        if (lki_bad(t)) return t;
        if (mask) t = lk_where(mask, t, lki_like(t, 1));
        if (i) counts = mask && counts ? lk_logical_or(counts, mask) : NULL;
        y = y ? lk_mul(y, t) : t;
    }
    return counts && !lki_bad(y) ? lk_where(counts, y, lki_like(y, 0)) : y;
}

/* A masked element takes the value of the other side. */
static lk_tensor *call_extreme(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const int  rank = rank_of(pass->in);
    lk_tensor *y = with_rank(x, rank), *counts = mask_of(x, rank);
    if (!any_mask(pass->in)) return call(l, x, pass);
    for (int i = 1; i < pass->in.count; i++) {
        lk_tensor *t = with_rank(pass->in.item[i], rank), *mask = mask_of(pass->in.item[i], rank);
        if (mask) t = lk_where(mask, t, y);
        if (counts) y = lk_where(counts, y, t);
        counts = mask && counts ? lk_logical_or(counts, mask) : NULL;
        y = merging_of(l)->combine(y, t);
    }
    return y;
}

static const lki_field FIELDS[] = {LKI_LAYER_FIELDS(lk_plain_layer_args)};

#define MERGE(title, class_, most_, call_)                                                                                         \
    KIND(title, merge, lk_plain_layer_args, class_, FIELDS, .most = most_, .output = output, .mask = lki_mask_of_any,              \
         .call = call_);                                                                                                           \
    static void *make_##title(const void *args) { return lk_##title##_layer_kw(*(const lk_plain_layer_args *)args); }              \
    lk_layer *lk_##title##_layer_kw(lk_plain_layer_args a) { return lki_layer_new("lk_" #title "_layer", &lki_##title##_kind, &a); }
MERGE(add, "Add", -1, call)
MERGE(subtract, "Subtract", 2, call)
MERGE(multiply, "Multiply", -1, call_multiply)
MERGE(average, "Average", -1, call)
MERGE(maximum, "Maximum", -1, call_extreme)
MERGE(minimum, "Minimum", -1, call_extreme)

/* ---- Concatenate ---- */

typedef struct concatenate {
    lk_layer            layer;
    lk_concatenate_args set;
} concatenate;

static int concatenate_axis(const lk_layer *l) { return lki_axis_or(((const concatenate *)l)->set.axis, -1); }

static lk_status output_concatenate(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    char      text[LKI_SHAPE_TEXT];
    const int at = lki_axis_normal(concatenate_axis(l), in->rank + 1) - 1;
    if (at < 0)
        return lki_layer_refuse(l, in, "axis %d; it should be 1 to %d, or count from the end; 0 is the batch", concatenate_axis(l),
                                in->rank);
    *out = *in;
    for (int i = 1; in[i].rank >= 0; i++) {
        bool fits = in[i].rank == in->rank;
        for (int d = 0; fits && d < in->rank; d++) {
            const int64_t size = in[i].dim[d];
            if (d == at) out->dim[d] = lki_size_add_known(out->dim[d], size);
            else if (out->dim[d] < 0) out->dim[d] = size;
            else fits = size < 0 || size == out->dim[d];
        }
        if (!fits)
            return lki_layer_refuse(l, in, "those of input %d, %s, differ in more than axis %d", i, lki_shape_text(&in[i], text),
                                    at + 1);
    }
    return LK_OK;
}

static lk_tensor *call_concatenate(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)x;
    return lk_concat(pass->in, concatenate_axis(l));
}

static lk_tensor *ones_like(lk_tensor *x) { return lki_apply2(LKI_OP_broadcast_like, NULL, lk_ones((lk_shape){0}, LK_BOOL), x); }

/* The masks of all elements, joined likewise; a step counts if one of its elements does. */
static lk_tensor *mask_concatenate(const lk_layer *l, lk_tuple in, lk_tensor *y, int k)
{
    lk_tensor *mask[LKI_MOST_INPUTS];
    (void)y, (void)k;
    if (!any_mask(in)) return NULL;
    for (int i = 0; i < in.count; i++) {
        lk_tensor *x = in.item[i], *all = ones_like(x);
        mask[i] = x->mask ? lk_logical_and(lki_mask_spread(x->mask, x->shape.rank), all) : all;
    }
    return lk_reduce_any(lk_concat((lk_tuple){in.count, mask}, concatenate_axis(l)), .axis = LK_AXES(-1));
}

static const lki_field CONCATENATE_FIELDS[] = {LKI_LAYER_FIELDS(lk_concatenate_args),
                                               LKI_FIELD(AXIS, lk_concatenate_args, axis, .standard = -1)};
KIND(concatenate, concatenate, lk_concatenate_args, "Concatenate", CONCATENATE_FIELDS, .most = -1, .output = output_concatenate,
     .mask = mask_concatenate, .call = call_concatenate);

static void *make_concatenate(const void *args) { return lk_concatenate_kw(*(const lk_concatenate_args *)args); }

lk_layer *lk_concatenate_kw(lk_concatenate_args a)
{
    if (lki_axis_or(a.axis, -1) == 0)
        return lki_fail(LK_EINVAL, "lk_concatenate: axis 0 is the batch, which cannot be joined"), NULL;
    return lki_layer_new("lk_concatenate", &lki_concatenate_kind, &a);
}

/* ---- Dot ---- */

typedef struct dot {
    lk_layer          layer;
    lk_dot_layer_args set; /* two axes */
} dot;

/* The axis of input i that is summed over, 1 or more, for rows with `rank` axes; 0 if there is none. */
static int dot_axis(const lk_layer *l, int i, int rank)
{
    int at = lki_axis_normal(lki_axes_of(((const dot *)l)->set.axes).value[i], rank + 1);
    return at < 1 ? 0 : at;
}

static lk_status output_dot(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    char text[LKI_SHAPE_TEXT];
    int  at[2];
    for (int i = 0; i < 2; i++)
        if (!(at[i] = dot_axis(l, i, in[i].rank)))
            return lki_layer_refuse(l, in, "axis %lld of input %d, %s; it should be 1 to %d, or count from the end; 0 is the batch",
                                    (long long)lki_axes_of(((const dot *)l)->set.axes).value[i], i, lki_shape_text(&in[i], text),
                                    in[i].rank);
    const int64_t a = in[0].dim[at[0] - 1], b = in[1].dim[at[1] - 1];
    if (a >= 0 && b >= 0 && a != b)
        return lki_layer_refuse(l, in,
                                "axis %d has %lld entries, axis %d of the second input, %s, has %lld; they should be as many",
                                at[0], (long long)a, at[1], lki_shape_text(&in[1], text), (long long)b);
    *out = (lk_shape){0};
    if (in[0].rank + in[1].rank - 2 >= LK_MAX_RANK) return lki_layer_refuse(l, in, "the result would have too many axes");
    for (int i = 0; i < 2; i++)
        for (int d = 0; d < in[i].rank; d++)
            if (d != at[i] - 1) out->dim[out->rank++] = in[i].dim[d];
    if (!out->rank) out->dim[out->rank++] = 1; /* a row of one number */
    return LK_OK;
}

/* x / |x| along an axis, as in Keras. */
static lk_tensor *normalized(lk_tensor *x, int axis)
{
    lk_tensor *square = lk_reduce_sum(lk_square(x), .axis = LK_AXES(axis), .keepdims = LK_ON);
    return lk_mul(x, lk_minimum(lk_rsqrt(square), lki_like(x, 1e7)));
}

/* [n, others, entries], where the last axis is the one that is summed over. */
static lk_tensor *laid_out(lk_tensor *x, int axis)
{
    const lk_shape *s = &x->shape;
    lki_axes        order = {.count = 1}; /* the batch stays the first axis */
    int64_t         others = 1;
    for (int i = 1; i < s->rank; i++)
        if (i != axis) {
            order.value[order.count++] = i;
            others = lki_size_mul(others, s->dim[i]);
        }
    order.value[order.count++] = axis;
    return lk_reshape(axis == s->rank - 1 ? x : lk_transpose(x, lki_axes_list(&order)), LK_SHAPE(s->dim[0], others, s->dim[axis]));
}

static lk_shape row_of(const lk_tensor *x)
{
    lk_shape row = {.rank = x->shape.rank - 1};
    for (int i = 0; i < row.rank; i++)
        row.dim[i] = x->shape.dim[i + 1];
    return row;
}

static lk_tensor *call_dot(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    lk_tensor *side[2] = {x, pass->in.item[1]};
    if (lki_bad(side[0]) || lki_bad(side[1])) return &lki_poison;
    lk_shape row[3] = {row_of(side[0]), row_of(side[1]), {.rank = -1}}, out;
    if (output_dot(l, row, &out) != LK_OK) return &lki_poison;
    for (int i = 0; i < 2; i++) {
        const int at = dot_axis(l, i, row[i].rank);
        if (((const dot *)l)->set.normalize == LK_ON) side[i] = normalized(side[i], at);
        if (lki_bad(side[i])) return side[i];
        side[i] = laid_out(side[i], at);
    }
    lk_shape whole = {.rank = out.rank + 1, .dim = {x->shape.dim[0]}};
    for (int i = 0; i < out.rank; i++)
        whole.dim[i + 1] = out.dim[i];
    return lk_reshape(lk_matmul(side[0], side[1], .transpose_b = LK_ON), whole);
}

static const lki_field DOT_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_dot_layer_args),
    LKI_FIELD(AXES, lk_dot_layer_args, axes, .width = 2, .required = true),
    LKI_FIELD(SWITCH, lk_dot_layer_args, normalize),
};
KIND(dot, dot, lk_dot_layer_args, "Dot", DOT_FIELDS, .most = 2, .output = output_dot, .call = call_dot);

static void *make_dot(const void *args) { return lk_dot_layer_kw(*(const lk_dot_layer_args *)args); }

lk_layer *lk_dot_layer_kw(lk_dot_layer_args a)
{
    lki_axes axes = lki_axes_of(a.axes);
    if (axes.count != 1 && axes.count != 2)
        return lki_fail(LK_EINVAL, "lk_dot_layer: %d axes; give one for both inputs, or one each", axes.count), NULL;
    if (axes.count == 1) axes = (lki_axes){2, {axes.value[0], axes.value[0]}};
    a.axes = lki_axes_list(&axes);
    if (axes.value[0] == 0 || axes.value[1] == 0)
        return lki_fail(LK_EINVAL, "lk_dot_layer: axis 0 is the batch, which cannot be summed over"), NULL;
    return lki_layer_new("lk_dot_layer", &lki_dot_kind, &a);
}
