/* Axes that options of layers name (axes.h). */
#include "layer/axes.h"

int lki_row_axis(const lk_layer *l, const lk_shape *in, const char *name, int64_t axis)
{
    const int at = lki_axis_normal(axis, in->rank + 1);
    if (at > 0) return at;
    if (at == 0) lki_layer_refuse(l, in, "%s %lld is the batch, whose rows are independent", name, (long long)axis);
    else
        lki_layer_refuse(l, in, "%s %lld; it should be 1 to %d, or count from the end; 0 is the batch", name, (long long)axis,
                         in->rank);
    return -1;
}

lk_status lki_row_axes(const lk_layer *l, const lk_shape *in, const char *name, const lki_axes *axes, lki_axes *out)
{
    unsigned seen = 0;
    *out = (lki_axes){0};
    for (int i = 0; i < axes->count; i++) {
        const int at = lki_row_axis(l, in, name, axes->value[i]);
        if (at < 0) return LK_ESHAPE;
        if (seen >> at & 1) return lki_layer_refuse(l, in, "%s %d is named twice", name, at);
        seen |= 1u << at;
        out->value[out->count++] = at;
    }
    return LK_OK;
}

void lki_axes_sort(lki_axes *axes)
{
    for (int i = 1; i < axes->count; i++)
        for (int k = i; k > 0 && axes->value[k] < axes->value[k - 1]; k--) {
            const int64_t before = axes->value[k - 1];
            axes->value[k - 1] = axes->value[k];
            axes->value[k] = before;
        }
}

lk_tensor *lki_axis_move(lk_tensor *x, int from, int to)
{
    if (lki_bad(x) || from == to) return x;
    lki_axes order = {.count = x->shape.rank};
    for (int i = 0, next = 0; i < order.count; i++) {
        next += next == from; /* the axes that stay, in their order */
        order.value[i] = i == to ? from : next;
        next += i != to;
    }
    return lk_transpose(x, lki_axes_list(&order));
}

lk_shape lki_axes_broadcast(const lk_shape *whole, const lki_axes *axes)
{
    lk_shape s = {.rank = whole->rank};
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = 1;
    for (int i = 0; i < axes->count; i++)
        s.dim[axes->value[i]] = whole->dim[axes->value[i]];
    return s;
}

lk_shape lki_row_of(const lk_tensor *x)
{
    lk_shape row = {.rank = x->shape.rank - 1};
    for (int i = 0; i < row.rank; i++)
        row.dim[i] = x->shape.dim[i + 1];
    return row;
}
