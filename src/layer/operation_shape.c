/* Operations that move elements: shapes, axes, parts, and entries picked by numbers (operands.h). */
#include "core/dtype.h"
#include "layer/operands.h"
#include <lockstep/strategy.h>
#include <string.h>

/* The sizes of axes from..to-1 multiplied. */
static int64_t product(const lk_shape *s, int from, int to) { return lki_size_product(s->dim + from, to - from); }

static lk_tensor *permuted(lk_tensor *x, const lki_axes *order) { return (lk_transpose)(x, lki_axes_list(order)); }

/* Entries from `from` to `to` of an axis, each `step`-th. */
static lk_tensor *part(lk_tensor *x, int axis, int64_t from, int64_t to, int64_t step)
{
    lki_axes begin = {.count = x->shape.rank}, end = begin, strides = begin;
    for (int i = 0; i < x->shape.rank; i++) {
        begin.value[i] = i == axis ? from : 0;
        end.value[i] = i == axis ? to : x->shape.dim[i];
        strides.value[i] = i == axis ? step : 1;
    }
    return lk_strided_slice(x, .begin = lki_axes_list(&begin), .end = lki_axes_list(&end), .strides = lki_axes_list(&strides));
}

/* ---- shapes ---- */

/* The rows of a new shape: -1, null or their number; the rest is of one row, and one more size may be -1. */
static lk_tensor *shaped(const lki_operands *c, lk_tensor *x, const lki_axes *to)
{
    lk_shape      s = {.rank = to->count};
    const int64_t row = lki_bad(x) ? 0 : product(&x->shape, 1, x->shape.rank);
    int           open = 0;
    int64_t       rest = 1;
    if (lki_bad(x) || !to->count) return lki_bad(x) ? x : lki_arg_refuse(c, "the new shape has no rows");
    for (int i = 1; i < to->count; i++) {
        if (to->value[i] < 0) open = open ? -1 : i;
        else rest = lki_size_mul(rest, to->value[i]);
        s.dim[i] = to->value[i];
    }
    s.dim[0] = x->shape.dim[0];
    if (open > 0 && rest) s.dim[open] = row / rest;
    const bool fits = open < 0 ? false : open ? rest && row % rest == 0 : rest == row;
    if (!fits || (to->value[0] >= 0 && to->value[0] != s.dim[0]))
        return lki_arg_refuse(c,
                              "rows of %lld elements do not keep their number in the new shape; it should begin with -1 and go on "
                              "with the shape of a row",
                              (long long)row);
    return lk_reshape(x, s);
}

OPERATION(reshape)
{
    lki_axes to;
    return lki_arg_list(c, "newshape", &to) ? shaped(c, lki_arg_tensor(c, "x"), &to) : &lki_poison;
}

OPERATION(expand_dims)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    lki_axes   axes;
    if (lki_bad(x) || !lki_arg_list(c, "axis", &axes)) return &lki_poison;
    for (int i = 0; i < axes.count; i++)
        axes.value[i] = lki_axis_normal(axes.value[i], x->shape.rank + axes.count);
    for (int axis = 0; axis < x->shape.rank + axes.count && !lki_bad(x); axis++)
        for (int i = 0; i < axes.count; i++) {
            if (axes.value[i] != axis) continue;
            if (axis < 1) return lki_arg_refuse(c, "axis 0 is the rows; a new axis comes after it");
            x = lk_expand_dims(x, axis);
            axes.value[i] = -1;
            axes.count -= i == axes.count - 1;
            break;
        }
    return x;
}

OPERATION(squeeze)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    lki_axes   axes = {0};
    if (lki_bad(x)) return x;
    for (int i = 1; i < x->shape.rank; i++)
        if (!lki_arg(c, "axis") && x->shape.dim[i] == 1) axes.value[axes.count++] = i;
    if (lki_arg(c, "axis") && !lki_arg_axes(c, "axis", x, &axes)) return &lki_poison;
    return axes.count ? (lk_squeeze)(x, lki_axes_list(&axes)) : x;
}

OPERATION(broadcast_to)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    lki_axes   to;
    if (lki_bad(x) || !lki_arg_list(c, "shape", &to)) return &lki_poison;
    if (to.count != x->shape.rank) return lki_arg_refuse(c, "the shape has %d axes and x %d", to.count, x->shape.rank);
    lk_shape s = {.rank = to.count};
    for (int i = 0; i < to.count; i++)
        s.dim[i] = to.value[i] < 0 ? x->shape.dim[i] : to.value[i];
    return s.dim[0] == x->shape.dim[0] ? lk_broadcast_to(x, s) : lki_arg_refuse(c, "the shape changes the number of rows");
}

/* ---- axes in another order ---- */

static lk_tensor *reordered(const lki_operands *c, lk_tensor *x, const lki_axes *order)
{
    if (order->value[0] != 0) return lki_arg_refuse(c, "it moves axis 0, the rows");
    return permuted(x, order);
}

OPERATION(transpose)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    lki_axes   order;
    if (lki_bad(x) || !lki_arg_list(c, "axes", &order)) return &lki_poison;
    if (!order.count)
        for (; order.count < x->shape.rank; order.count++)
            order.value[order.count] = x->shape.rank - 1 - order.count;
    for (int i = 0; i < order.count; i++)
        order.value[i] = lki_axis_normal(order.value[i], x->shape.rank);
    return reordered(c, x, &order);
}

OPERATION(swapaxes)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    const int  a = lki_arg_axis(c, "axis1", x, 0), b = a < 0 ? -1 : lki_arg_axis(c, "axis2", x, 0);
    if (b < 0) return &lki_poison;
    lki_axes order = {.count = x->shape.rank};
    for (int i = 0; i < order.count; i++)
        order.value[i] = i == a ? b : i == b ? a : i;
    return permuted(x, &order);
}

OPERATION(moveaxis)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    lki_axes   from, to, order = {.count = lki_bad(x) ? 0 : x->shape.rank};
    if (lki_bad(x) || !lki_arg_list(c, "source", &from) || !lki_arg_list(c, "destination", &to)) return &lki_poison;
    bool taken[LK_MAX_RANK] = {false};
    for (int i = 0; i < order.count; i++)
        order.value[i] = -1;
    for (int i = 0; i < from.count; i++) {
        const int a = lki_axis_normal(from.value[i], order.count),
                  b = i < to.count ? lki_axis_normal(to.value[i], order.count) : -1;
        if (a < 0 || b < 0) return lki_arg_refuse(c, "source and destination should be as many axes of x");
        order.value[b] = a;
        taken[a] = true;
    }
    for (int i = 0, next = 0; i < order.count; i++) {
        if (order.value[i] >= 0) continue;
        while (taken[next])
            next++;
        order.value[i] = next++;
    }
    return reordered(c, x, &order);
}

static lk_tensor *reversed(const lki_operands *c, lk_tensor *x, int64_t axis)
{
    const int at = lki_bad(x) ? -1 : lki_operand_axis(c, x, axis);
    return at < 0 ? &lki_poison : (lk_reverse)(x, LK_AXES(at));
}

OPERATION(flip)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    lki_axes   axes;
    return lki_arg_axes(c, "axis", x, &axes) ? (lk_reverse)(x, lki_axes_list(&axes)) : &lki_poison;
}
OPERATION(fliplr) { return reversed(c, lki_arg_tensor(c, "x"), 1); }
OPERATION(flipud) { return reversed(c, lki_arg_tensor(c, "x"), 0); }

/* A quarter turn from the first axis to the second: the entries of the second in reverse, then the axes swapped. */
OPERATION(rot90)
{
    lk_tensor    *x = lki_arg_tensor(c, "array");
    lki_axes      axes;
    const int64_t turns = ((lki_arg_whole(c, "k", 1) % 4) + 4) % 4;
    if (lki_bad(x) || !lki_arg_list(c, "axes", &axes)) return &lki_poison;
    if (axes.count != 2) return lki_arg_refuse(c, "axes should be two");
    const int a = lki_operand_axis(c, x, axes.value[0]), b = a < 0 ? -1 : lki_operand_axis(c, x, axes.value[1]);
    if (b < 0) return &lki_poison;
    lki_axes order = {.count = x->shape.rank};
    for (int i = 0; i < order.count; i++)
        order.value[i] = i == a ? b : i == b ? a : i;
    for (int64_t i = 0; i < turns; i++)
        x = permuted((lk_reverse)(x, LK_AXES(b)), &order);
    return x;
}

/* ---- joining ---- */

static lk_tensor *joined(const lki_operands *c, const char *name, int axis)
{
    lk_tuple  all = lki_arg_tensors(c, name);
    const int at = all.count ? lki_operand_axis(c, all.item[0], axis) : -1;
    return at < 0 ? &lki_poison : lk_concat(all, at);
}
OPERATION(concatenate) { return joined(c, "xs", (int)lki_arg_whole(c, "axis", 0)); }
OPERATION(hstack) { return joined(c, "xs", 1); }
OPERATION(dstack) { return joined(c, "xs", 2); }

OPERATION(append)
{
    lk_tensor *two[2];
    if (!lki_arg_pair(c, "x1", "x2", false, two)) return &lki_poison;
    if (!lki_arg(c, "axis")) return lki_arg_refuse(c, "axis is null, which joins the rows; they are kept apart");
    const int at = lki_arg_axis(c, "axis", two[0], -1);
    return at < 0 ? &lki_poison : lk_concat(LK_TUPLE(two[0], two[1]), at);
}

OPERATION(stack)
{
    lk_tuple  all = lki_arg_tensors(c, "x");
    const int at = all.count ? lki_axis_normal(lki_arg_whole(c, "axis", 0), all.item[0]->shape.rank + 1) : -1;
    if (!all.count) return &lki_poison;
    return at > 0 ? lk_stack(all, at) : lki_arg_refuse(c, "the new axis comes after the rows: it should be 1 or more");
}

/* ---- taking apart ---- */

static lk_tensor *nested(lk_tuple t) { return !t.count ? &lki_poison : t.count == 1 ? t.item[0] : lk_nest(t); }

/* In equal parts, or at these places. `uneven`: the first ones may have an entry more. */
static lk_tensor *cut(const lki_operands *c, lk_tensor *x, int axis, bool uneven)
{
    const lki_json *v = lki_arg(c, "indices_or_sections");
    lk_tensor      *piece[LKI_MOST_OUTPUTS];
    int64_t         at = 0;
    if (lki_bad(x) || axis < 0) return &lki_poison;
    const int64_t n = x->shape.dim[axis];
    const int     count = !v ? 0 : v->whole ? (int)lki_min(v->integer, INT32_MAX) : v->count + 1;
    if (count < 1 || count > LKI_MOST_OUTPUTS || (v->whole && !uneven && n % count))
        return lki_arg_refuse(c, "axis %d of %lld entries cannot be cut like that", axis, (long long)n);
    for (int i = 0; i < count; i++) {
        int64_t to = v->whole ? at + n / count + (i < n % count) : i < v->count ? v->item[i].integer : n;
        if (to < 0) to += n;
        to = lki_max(at, lki_min(to, n));
        piece[i] = part(x, axis, at, to, 1);
        at = to;
    }
    return nested(lk_tuple_from(count, piece));
}

OPERATION(split)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    return cut(c, x, lki_arg_axis(c, "axis", x, 0), false);
}
OPERATION(array_split)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    return cut(c, x, lki_arg_axis(c, "axis", x, 0), true);
}
OPERATION(hsplit)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    return cut(c, x, lki_bad(x) ? -1 : lki_operand_axis(c, x, 1), false);
}
OPERATION(dsplit)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    return cut(c, x, lki_bad(x) ? -1 : lki_operand_axis(c, x, 2), false);
}

OPERATION(unstack)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    const int  at = lki_arg_axis(c, "axis", x, 0);
    if (at < 0) return &lki_poison;
    if (x->shape.dim[at] > LKI_MOST_OUTPUTS) return lki_arg_refuse(c, "axis %d has more than %d entries", at, LKI_MOST_OUTPUTS);
    return nested(lk_unstack(x, at));
}

/* ---- repeating ---- */

OPERATION(tile)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    lki_axes   times, all = {.count = lki_bad(x) ? 0 : x->shape.rank};
    if (lki_bad(x) || !lki_arg_list(c, "repeats", &times)) return &lki_poison;
    const int ahead = all.count - times.count;
    for (int i = 0; i < all.count; i++)
        all.value[i] = i < ahead ? 1 : times.value[i - ahead];
    if (ahead < 0 || all.value[0] != 1) return lki_arg_refuse(c, "it repeats axis 0, the rows");
    return (lk_tile)(x, lki_axes_list(&all));
}

OPERATION(repeat)
{
    lk_tensor      *x = lki_arg_tensor(c, "x");
    const lki_json *n = lki_arg(c, "repeats");
    if (lki_bad(x)) return x;
    if (!lki_arg(c, "axis")) return lki_arg_refuse(c, "axis is null, which joins the rows; they are kept apart");
    if (n && n->type == LKI_JSON_ARRAY && n->count == 1) n = n->item;
    const int at = lki_arg_axis(c, "axis", x, -1);
    if (at < 0 || !n || !n->whole || n->integer < 1 || n->integer > LKI_MOST_OPTION)
        return at < 0 ? &lki_poison : lki_arg_refuse(c, "repeats should be one integer of at least 1");
    lk_shape wide = {.rank = x->shape.rank + 1}, out = x->shape;
    if (wide.rank > LK_MAX_RANK) return lki_arg_refuse(c, "x has %d axes; there may be %d", x->shape.rank, LK_MAX_RANK - 1);
    for (int i = 0; i < wide.rank; i++)
        wide.dim[i] = i <= at ? x->shape.dim[i] : i == at + 1 ? n->integer : x->shape.dim[i - 1];
    out.dim[at] = lki_size_mul(out.dim[at], n->integer);
    x = lk_expand_dims(x, at + 1);
    return lk_reshape(lk_broadcast_to(x, wide), out);
}

/* Entries that leave an axis at its end come in at its beginning. */
static lk_tensor *rolled(lk_tensor *x, int axis, int64_t shift)
{
    const int64_t n = lki_bad(x) ? 0 : x->shape.dim[axis], by = n ? (shift % n + n) % n : 0;
    return by ? lk_concat(LK_TUPLE(part(x, axis, n - by, n, 1), part(x, axis, 0, n - by, 1)), axis) : x;
}

OPERATION(roll)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    lki_axes   axes, shift;
    if (!lki_arg_axes(c, "axis", x, &axes) || !lki_arg_list(c, "shift", &shift)) return &lki_poison;
    if (shift.count != 1 && shift.count != axes.count)
        return lki_arg_refuse(c, "there are %d shifts for %d axes", shift.count, axes.count);
    for (int i = 0; i < axes.count; i++)
        x = rolled(x, (int)axes.value[i], shift.value[shift.count == 1 ? 0 : i]);
    return x;
}

OPERATION(pad)
{
    static const char *const MODES[] = {"constant", "reflect", "symmetric"};
    lk_tensor               *x = lki_arg_tensor(c, "x");
    const lki_json          *width = lki_arg(c, "pad_width");
    const char              *word = lki_arg_word(c, "mode", "constant");
    lki_axes                 before = {.count = lki_bad(x) ? 0 : x->shape.rank}, after = before;
    int                      mode = 0;
    while (mode < LKI_COUNT(MODES) && strcmp(MODES[mode], word))
        mode++;
    if (lki_bad(x)) return x;
    if (mode == LKI_COUNT(MODES)) return lki_arg_refuse(c, "mode is \"%s\"; known are constant, reflect and symmetric", word);
    for (int i = 0; i < before.count; i++) {
        const lki_json *pair = width && width->type == LKI_JSON_ARRAY && i < width->count ? &width->item[i] : width;
        const bool      two = pair && pair->type == LKI_JSON_ARRAY && pair->count == 2;
        const bool      good = two ? pair->item[0].whole && pair->item[1].whole : pair && pair->whole;
        if (!good) return lki_arg_refuse(c, "pad_width should be two integers for each axis");
        before.value[i] = two ? pair->item[0].integer : pair->integer;
        after.value[i] = two ? pair->item[1].integer : pair->integer;
    }
    if (before.value[0] || after.value[0]) return lki_arg_refuse(c, "it pads axis 0, the rows");
    return lk_pad(x, .before = lki_axes_list(&before), .after = lki_axes_list(&after), .mode = (lk_pad_mode)mode,
                  .value = lki_arg_number(c, "constant_values", 0));
}

/* ---- parts ---- */

/* x[:, 1:3, ..., None, 0]: one item of a key after the other, from axis `at` on. */
typedef struct getting {
    const lki_operands *c;
    lk_tensor          *x;
    int                 at;
} getting;

static bool is_class(const lki_json *v, const char *name)
{
    const lki_json *class_name = lki_json_get(v, "class_name");
    return class_name && class_name->type == LKI_JSON_STRING && !strcmp(class_name->text, name);
}

static int64_t bound(const lki_json *config, const char *name, int64_t n, int64_t standard, int64_t least, int64_t most)
{
    const lki_json *v = lki_json_get(config, name);
    if (!v || !v->whole) return standard;
    const int64_t at = v->integer < 0 ? lki_max(v->integer, -LKI_MOST_OPTION) + n : lki_min(v->integer, LKI_MOST_OPTION);
    return lki_max(least, lki_min(at, most));
}

static lk_tensor *get_slice(getting *g, const lki_json *config)
{
    const lki_json *step = lki_json_get(config, "step");
    const int64_t   by = step && step->whole ? step->integer : 1, n = g->x->shape.dim[g->at];
    const bool      back = by < 0;
    const int64_t   from = bound(config, "start", n, back ? n - 1 : 0, back ? -1 : 0, back ? n - 1 : n),
                  to = bound(config, "stop", n, back ? -1 : n, back ? -1 : 0, back ? n - 1 : n);
    const int axis = g->at++;
    if (!axis && (by != 1 || from || to != n)) return lki_arg_refuse(g->c, "it takes some of the rows; they are kept together");
    if (!by || by > LKI_MOST_OPTION || by < -LKI_MOST_OPTION) return lki_arg_refuse(g->c, "a step is 0 or too large");
    if (!axis || (by == 1 && !from && to == n)) return g->x;
    if (!back) return part(g->x, axis, from, lki_max(from, to), by);
    return part((lk_reverse)(g->x, LK_AXES(axis)), axis, n - 1 - from, lki_max(n - 1 - from, n - 1 - to), -by);
}

static lk_tensor *get_entry(getting *g, int64_t i)
{
    if (!g->at) return lki_arg_refuse(g->c, "it takes one of the rows; they are kept together");
    const int64_t n = g->x->shape.dim[g->at], at = i < 0 ? i + n : i;
    if (at < 0 || at >= n) return lki_arg_refuse(g->c, "there is no entry %lld of %lld", (long long)i, (long long)n);
    return (lk_squeeze)(part(g->x, g->at, at, at + 1, 1), LK_AXES(g->at));
}

static lk_tensor *get_item(getting *g, const lki_json *v, int items_left)
{
    if (v->type == LKI_JSON_NULL)
        return g->at ? lk_expand_dims(g->x, g->at++) : lki_arg_refuse(g->c, "a new axis comes after the rows");
    if (is_class(v, "__ellipsis__")) {
        g->at = g->x->shape.rank - items_left;
        return g->at < 0 ? lki_arg_refuse(g->c, "the key has too many items") : g->x;
    }
    if (g->at >= g->x->shape.rank) return lki_arg_refuse(g->c, "the key has more items than x axes");
    if (is_class(v, "__slice__")) return get_slice(g, lki_json_get(v, "config"));
    if (v->whole) return get_entry(g, v->integer);
    return lki_arg_refuse(g->c, "the key has an item that is not a number, a slice, an ellipsis or None");
}

OPERATION(get_item)
{
    const lki_json *key = lki_arg(c, "key");
    getting         g = {c, lki_arg_tensor(c, "x"), 0};
    const bool      list = key && key->type == LKI_JSON_ARRAY;
    if (lki_bad(g.x)) return g.x;
    if (!key) return lki_arg_refuse(c, "the key is None; a new axis comes after the rows");
    for (int i = 0, count = list ? key->count : 1; i < count && !lki_bad(g.x); i++) {
        int left = 0;
        for (int k = i + 1; k < count; k++)
            left += key->item[k].type != LKI_JSON_NULL;
        g.x = get_item(&g, list ? &key->item[i] : key, left);
    }
    return g.x;
}

OPERATION(slice)
{
    lk_tensor *x = lki_arg_tensor(c, "inputs");
    lki_axes   start, size;
    if (lki_bad(x) || !lki_arg_list(c, "start_indices", &start) || !lki_arg_list(c, "shape", &size)) return &lki_poison;
    if (start.count != x->shape.rank || size.count != x->shape.rank)
        return lki_arg_refuse(c, "it needs an index and a size for each axis");
    if (start.value[0] || size.value[0] >= 0) return lki_arg_refuse(c, "it takes some of the rows; the first size should be -1");
    for (int i = 0; i < x->shape.rank; i++)
        if (size.value[i] < 0) size.value[i] = x->shape.dim[i] - start.value[i];
    return lki_slice(x, &start, &size);
}

/* ---- picked by numbers ---- */

/* Numbers from the end become numbers from the beginning. */
static lk_tensor *from_beginning(lk_tensor *ids, int64_t n)
{
    return lki_bad(ids) ? ids : lk_where(lk_less(ids, lki_like(ids, 0)), lk_add(ids, lki_like(ids, (double)n)), ids);
}

static bool has_rows(const lki_operands *c, const char *name)
{
    const lki_json *v = lki_arg(c, name);
    return v && lki_call_form_tensor(v) >= 0;
}

OPERATION(take)
{
    lk_tensor *x = lki_arg_tensor(c, "x"), *ids = lki_arg_ids(c, "indices");
    const bool of_rows = has_rows(c, "x");
    if (lki_bad(x) || lki_bad(ids)) return &lki_poison;
    if (!lki_arg(c, "axis")) return lki_arg_refuse(c, "axis is null, which joins the rows; they are kept apart");
    int at = of_rows ? lki_arg_axis(c, "axis", x, -1) : lki_axis_normal(lki_arg_whole(c, "axis", 0), x->shape.rank);
    if (at < 0) return &lki_poison;
    if (of_rows && has_rows(c, "indices"))
        return lki_arg_refuse(c, "x and indices have rows, and each row would take from all of them; use take_along_axis");
    if (!of_rows && at) return lki_arg_refuse(c, "axis %d of a constant; only 0 is supported", at);
    return lk_gather(x, from_beginning(ids, x->shape.dim[at]), at);
}

/* Each row becomes a list of its entries along the axis, for all other axes one after the other. */
OPERATION(take_along_axis)
{
    lk_tensor *x = lki_arg_tensor(c, "x"), *ids = lki_arg_ids(c, "indices");
    if (lki_bad(x) || lki_bad(ids)) return &lki_poison;
    const int at = lki_arg(c, "axis") ? lki_arg_axis(c, "axis", x, -1) : -1;
    if (at < 0) return lk_failed() ? &lki_poison : lki_arg_refuse(c, "axis is null, which joins the rows; they are kept apart");
    if (!has_rows(c, "x") || !has_rows(c, "indices") || ids->shape.rank != x->shape.rank)
        return lki_arg_refuse(c, "x and indices should be tensors with rows and as many axes");
    lki_axes swap = {.count = x->shape.rank};
    for (int i = 0; i < swap.count; i++)
        swap.value[i] = i == at ? swap.count - 1 : i == swap.count - 1 ? at : i;
    x = permuted(x, &swap);
    ids = permuted(ids, &swap);
    if (lki_bad(x) || lki_bad(ids)) return &lki_poison;
    const int last = swap.count - 1;
    lk_shape  all = x->shape, kept;
    all.dim[last] = ids->shape.dim[last];
    ids = lk_broadcast_to(from_beginning(ids, x->shape.dim[last]), all);
    const int64_t n = all.dim[0], lists = product(&all, 1, last);
    kept = all;
    lk_tensor *first = lk_mul(lk_range(lists, LK_I32), lk_fill((lk_shape){0}, LK_I32, (double)x->shape.dim[last]));
    ids = lk_add(lk_reshape(lk_cast(ids, LK_I32), LK_SHAPE(n, lists, all.dim[last])), lk_reshape(first, LK_SHAPE(lists, 1)));
    x = lk_reshape(x, LK_SHAPE(n, lki_size_mul(lists, x->shape.dim[last])));
    ids = lk_reshape(ids, LK_SHAPE(n, lki_size_mul(lists, all.dim[last])));
    return permuted(lk_reshape(lki_apply2(LKI_OP_row_gather, NULL, x, ids), kept), &swap);
}

OPERATION(one_hot)
{
    lk_tensor *ids = lki_arg_ids(c, "x");
    const int  dtype = lki_arg_dtype(c, "dtype", LK_F32);
    if (lki_bad(ids) || dtype < 0) return &lki_poison;
    const int at = lki_axis_normal(lki_arg_whole(c, "axis", -1), ids->shape.rank + 1), last = ids->shape.rank;
    if (at < 1) return lki_arg_refuse(c, "the new axis comes after the rows: it should be 1 or more, or -1");
    lk_tensor *y = lk_one_hot(ids, lki_arg_whole(c, "num_classes", 1), .dtype = (lk_dtype)dtype);
    lki_axes   order = {.count = last + 1};
    for (int i = 0; i <= last; i++)
        order.value[i] = i < at ? i : i == at ? last : i - 1;
    return at == last ? y : permuted(y, &order);
}

OPERATION(multi_hot)
{
    lk_tensor *ids = lki_arg_ids(c, "inputs");
    const int  dtype = lki_arg_dtype(c, "dtype", LK_F32);
    if (lki_bad(ids) || dtype < 0) return &lki_poison;
    if (lki_arg_whole(c, "axis", -1) != -1 || ids->shape.rank < 2)
        return lki_arg_refuse(c, "only lists of numbers and axis -1 are supported");
    lk_tensor *y = lk_one_hot(ids, lki_arg_whole(c, "num_classes", 1));
    return lk_cast(lk_reduce_max(y, .axis = LK_AXES(1)), (lk_dtype)dtype);
}

/* ---- triangles and diagonals of the last two axes ---- */

/* 1 where the condition holds for column - row, else 0: [rows, columns]. */
static lk_tensor *band(lk_tensor *x, int64_t k, bool upper)
{
    const int64_t rows = x->shape.dim[x->shape.rank - 2], columns = x->shape.dim[x->shape.rank - 1];
    lk_tensor    *r = lk_reshape(lk_range(rows, LK_I32), LK_SHAPE(rows, 1)), *offset = lk_sub(lk_range(columns, LK_I32), r);
    lk_tensor    *at = lk_fill((lk_shape){0}, LK_I32, (double)k);
    return upper ? lk_greater_equal(offset, at) : lk_less_equal(offset, at);
}

static lk_tensor *triangle(const lki_operands *c, bool upper)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    if (lki_bad(x)) return x;
    if (x->shape.rank < 3) return lki_arg_refuse(c, "rows should be matrices");
    return lk_where(band(x, lki_arg_whole(c, "k", 0), upper), x, lki_like(x, 0));
}
OPERATION(tril) { return triangle(c, false); }
OPERATION(triu) { return triangle(c, true); }

/* The diagonal of two axes, as the last axis of the result; each entry by its number in the flattened matrix. */
static lk_tensor *diagonal(const lki_operands *c)
{
    lk_tensor    *x = lki_arg_tensor(c, "x");
    const int     a = lki_arg_axis(c, "axis1", x, 0), b = a < 0 ? -1 : lki_arg_axis(c, "axis2", x, 1);
    const int64_t k = lki_arg_whole(c, "offset", 0);
    lki_axes      order = {0};
    if (b < 0) return &lki_poison;
    if (a == b) return lki_arg_refuse(c, "axis1 and axis2 are the same");
    for (int i = 0; i < x->shape.rank; i++)
        if (i != a && i != b) order.value[order.count++] = i;
    order.value[order.count++] = a;
    order.value[order.count++] = b;
    x = permuted(x, &order);
    if (lki_bad(x)) return x;
    const int     rank = x->shape.rank;
    const int64_t rows = x->shape.dim[rank - 2], columns = x->shape.dim[rank - 1], top = k < 0 ? -k : 0, left = k > 0 ? k : 0;
    const int64_t n = lki_max(0, lki_min(rows - top, columns - left));
    lk_shape      flat = {.rank = rank - 1};
    for (int i = 0; i < rank - 2; i++)
        flat.dim[i] = x->shape.dim[i];
    flat.dim[rank - 2] = lki_size_mul(rows, columns);
    lk_tensor *at = lk_mul(lk_range(n, LK_I32), lk_fill((lk_shape){0}, LK_I32, (double)(columns + 1)));
    at = lk_add(at, lk_fill((lk_shape){0}, LK_I32, (double)(lki_size_mul(top, columns) + left)));
    return lk_gather(lk_reshape(x, flat), at, rank - 2);
}

OPERATION(diagonal) { return diagonal(c); }
OPERATION(trace)
{
    lk_tensor *d = diagonal(c);
    return lki_bad(d) ? d : lk_reduce_sum(d, .axis = LK_AXES(d->shape.rank - 1));
}

/* ---- blocks of pictures ---- */

static lk_tensor *blocks(const lki_operands *c, bool to_space)
{
    lk_tensor    *x = lki_arg_tensor(c, "x");
    const int64_t n = lki_arg_whole(c, "block_size", 1);
    if (lki_bad(x)) return x;
    if (strcmp(lki_arg_word(c, "data_format", "channels_last"), "channels_last"))
        return lki_arg_refuse(c, "only channels_last is supported");
    if (x->shape.rank != 4 || n < 1) return lki_arg_refuse(c, "x should be pictures, [rows, height, width, channels]");
    const int64_t *d = x->shape.dim;
    const int64_t  cells = lki_size_mul(n, n);
    if (to_space ? d[3] % cells : d[1] % n || d[2] % n) return lki_arg_refuse(c, "sizes are not multiples of block_size");
    if (to_space) {
        x = lk_reshape(x, LK_SHAPE(d[0], d[1], d[2], n, n, d[3] / cells));
        const lk_shape out = LK_SHAPE(d[0], lki_size_mul(d[1], n), lki_size_mul(d[2], n), d[3] / cells);
        return lk_reshape((lk_transpose)(x, LK_AXES(0, 1, 3, 2, 4, 5)), out);
    }
    const lk_shape out = LK_SHAPE(d[0], d[1] / n, d[2] / n, lki_size_mul(d[3], cells));
    x = lk_reshape(x, LK_SHAPE(d[0], d[1] / n, n, d[2] / n, n, d[3]));
    return lk_reshape((lk_transpose)(x, LK_AXES(0, 1, 3, 2, 4, 5)), out);
}
OPERATION(depth_to_space) { return blocks(c, true); }
OPERATION(space_to_depth) { return blocks(c, false); }

/* ---- edges of pictures ---- */

static lk_tensor *framed(const lki_operands *c, const char *const side[4], const char *const *target, bool crop)
{
    lk_tensor *x = lki_arg_tensor(c, "images");
    lki_axes   edge[2] = {{4, {0}}, {4, {0}}};
    if (lki_bad(x)) return x;
    if (x->shape.rank != 4 || strcmp(lki_arg_word(c, "data_format", "channels_last"), "channels_last"))
        return lki_arg_refuse(c, "images should be [rows, height, width, channels]");
    for (int axis = 1; axis <= 2; axis++) {
        const bool    first = lki_arg(c, side[2 * axis - 2]) != NULL, second = lki_arg(c, side[2 * axis - 1]) != NULL;
        const int64_t n = x->shape.dim[axis], want = lki_arg_whole(c, target[axis - 1], n), more = crop ? n - want : want - n;
        int64_t       a = lki_arg_whole(c, side[2 * axis - 2], 0), b = lki_arg_whole(c, side[2 * axis - 1], 0);
        if (!first) a = more - b;
        else if (!second) b = more - a;
        if (a < 0 || b < 0) return lki_arg_refuse(c, "the new size of axis %d does not fit", axis);
        edge[0].value[axis] = a;
        edge[1].value[axis] = b;
    }
    if (!crop) return lk_pad(x, .before = lki_axes_list(&edge[0]), .after = lki_axes_list(&edge[1]));
    for (int axis = 1; axis <= 2 && !lki_bad(x); axis++)
        x = part(x, axis, edge[0].value[axis], x->shape.dim[axis] - edge[1].value[axis], 1);
    return x;
}

static const char *const TARGET[] = {"target_height", "target_width"};
OPERATION(pad_images)
{
    return framed(c, (const char *const[]){"top_padding", "bottom_padding", "left_padding", "right_padding"}, TARGET, false);
}
OPERATION(crop_images)
{
    return framed(c, (const char *const[]){"top_cropping", "bottom_cropping", "left_cropping", "right_cropping"}, TARGET, true);
}
