/* Moves: the same elements in another shape, order or place. */
#include "core/memory.h"
#include "core/random.h"
#include "op/gradient.h"
#include "op/infer.h"
#include <lockstep/ops.h>

static bool usable(const char *call, const lk_tensor *x) { return lki_usable(call, "x", x); }

lk_tensor *lk_reshape(lk_tensor *x, lk_shape shape)
{
    if (!usable("lk_reshape", x)) return &lki_poison;
    int     open = -1;
    int64_t known = 1;
    char    a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    for (int i = 0; i < shape.rank && i < LK_MAX_RANK; i++) {
        if (shape.dim[i] == -1 && open >= 0)
            return lki_refuse(LK_ESHAPE, "lk_reshape: %s to %s: only one size may be -1", lki_shape_text(&x->shape, a),
                              lki_shape_text(&shape, b));
        if (shape.dim[i] == -1) open = i;
        else if (!lki_size_try_mul(known, shape.dim[i], &known)) known = -1; /* more elements than are possible */
    }
    int64_t size = lki_shape_size(&x->shape);
    if (open >= 0 && known == 0)
        return lki_refuse(LK_ESHAPE,
                          "lk_reshape: %s to %s: beside a size of 0, -1 could be anything; say the size, or use lk_flatten_rows()",
                          lki_shape_text(&x->shape, a), lki_shape_text(&shape, b));
    if (open >= 0) shape.dim[open] = known > 0 && size % known == 0 ? size / known : -1;
    return lki_apply1(LKI_OP_reshape, &(lki_attr){.shape = shape}, x);
}

lk_tensor *lk_flatten_rows(lk_tensor *x)
{
    if (!usable("lk_flatten_rows", x)) return &lki_poison;
    if (x->shape.rank < 1) return lki_refuse(LK_ESHAPE, "lk_flatten_rows: a scalar has no rows");
    return lk_reshape(x, LK_SHAPE(x->shape.dim[0], lki_shape_size_from(&x->shape, 1)));
}

lk_tensor *lk_expand_dims(lk_tensor *x, int axis)
{
    if (!usable("lk_expand_dims", x)) return &lki_poison;
    lk_shape s = {.rank = x->shape.rank + 1};
    int      at = lki_axis_normal(axis, s.rank);
    if (s.rank > LK_MAX_RANK) return lki_refuse(LK_ESHAPE, "lk_expand_dims: the result would have more than 8 axes");
    if (at < 0) return lki_refuse(LK_EINVAL, "lk_expand_dims: axis %d is outside rank %d of the result", axis, s.rank);
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = i == at ? 1 : x->shape.dim[i - (i > at)];
    return lk_reshape(x, s);
}

lk_tensor *(lk_squeeze)(lk_tensor *x, lk_axes list)
{
    const lki_axes axes = lki_axes_of(list);
    if (!usable("lk_squeeze", x) || axes.count < 0) return &lki_poison;
    unsigned drop = 0;
    char     text[LKI_SHAPE_TEXT];
    for (int i = 0; i < x->shape.rank && !axes.count; i++)
        if (x->shape.dim[i] == 1) drop |= 1u << i;
    for (int i = 0; i < axes.count; i++) {
        int axis = lki_axis_normal(axes.value[i], x->shape.rank);
        if (axis < 0 || x->shape.dim[axis] != 1)
            return lki_refuse(LK_ESHAPE, "lk_squeeze: axis %lld of %s does not exist or is not of size 1", (long long)axes.value[i],
                              lki_shape_text(&x->shape, text));
        drop |= 1u << axis;
    }
    lk_shape s = {0};
    for (int i = 0; i < x->shape.rank; i++)
        if (!(drop >> i & 1)) s.dim[s.rank++] = x->shape.dim[i];
    return lk_reshape(x, s);
}

lk_tensor *(lk_transpose)(lk_tensor *x, lk_axes list)
{
    const lki_axes perm = lki_axes_of(list);
    if (!usable("lk_transpose", x) || perm.count < 0) return &lki_poison;
    lki_attr attr = {0};
    if (perm.count && perm.count != x->shape.rank)
        return lki_refuse(LK_EINVAL, "lk_transpose: %d axes in the permutation of a tensor of rank %d", perm.count, x->shape.rank);
    for (int i = 0; i < x->shape.rank; i++)
        attr.perm.axis[i] = perm.count ? lki_axis_normal(perm.value[i], x->shape.rank) : x->shape.rank - 1 - i;
    return lki_apply1(LKI_OP_transpose, &attr, x);
}

lk_tensor *lk_broadcast_to(lk_tensor *x, lk_shape shape) { return lki_apply1(LKI_OP_broadcast, &(lki_attr){.shape = shape}, x); }

/* ---- parts ---- */

static bool per_axis(const char *call, const lk_tensor *x, const lki_axes *list, const char *name)
{
    if (list->count == x->shape.rank) return true;
    return lki_fail(LK_EINVAL, "%s: %s has %d value%s for a tensor of rank %d", call, name, list->count,
                    list->count == 1 ? "" : "s", x->shape.rank),
           false;
}

lk_tensor *(lk_slice)(lk_tensor *x, lk_axes begin, lk_axes size)
{
    const lki_axes from = lki_axes_of(begin), many = lki_axes_of(size);
    return lki_slice(x, &from, &many);
}

lk_tensor *lki_slice(lk_tensor *x, const lki_axes *begin, const lki_axes *size)
{
    if (!usable("lk_slice", x) || !per_axis("lk_slice", x, begin, "begin") || !per_axis("lk_slice", x, size, "size"))
        return &lki_poison;
    lki_attr attr = {.shape = {.rank = x->shape.rank}};
    for (int i = 0; i < x->shape.rank; i++) {
        const int64_t from = attr.slice.begin[i] = begin->value[i];
        attr.slice.stride[i] = 1;
        attr.shape.dim[i] = size->value[i];
        if (size->value[i] == -1) attr.shape.dim[i] = from >= 0 && from <= x->shape.dim[i] ? x->shape.dim[i] - from : 1;
    }
    return lki_apply1(LKI_OP_slice, &attr, x);
}

/* One axis of a strided slice: its begin and its number of entries, by NumPy's rules. */
static int64_t slice_axis(int64_t n, int64_t begin, int64_t end, int64_t stride, bool all_begin, bool all_end, int64_t *first)
{
    int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? n : n - 1;
    if (begin < 0) begin += n;
    if (end < 0) end += n;
    begin = all_begin ? (stride > 0 ? low : high) : lki_max(low, lki_min(begin, high));
    end = all_end ? (stride > 0 ? high : low) : lki_max(low, lki_min(end, high));
    int64_t span = stride > 0 ? end - begin : begin - end;
    *first = begin;
    return span > 0 ? (span - 1) / (stride > 0 ? stride : -lki_max(stride, -INT64_MAX)) + 1 : 0;
}

lk_tensor *lk_strided_slice_kw(lk_strided_slice_args a)
{
    const char    *call = "lk_strided_slice";
    const lki_axes begin = lki_axes_of(a.begin), end = lki_axes_of(a.end), strides = lki_axes_of(a.strides);
    if (!a.x) lki_fail(LK_EINVAL, "lk_strided_slice: x is missing");
    if (lki_bad(a.x) || !per_axis(call, a.x, &begin, "begin") || !per_axis(call, a.x, &end, "end") ||
        !per_axis(call, a.x, &strides, "strides"))
        return &lki_poison;
    lki_attr attr = {.shape = {.rank = a.x->shape.rank}};
    for (int i = 0; i < a.x->shape.rank; i++) {
        if (strides.value[i] == 0) return lki_refuse(LK_EINVAL, "lk_strided_slice: axis %d: the stride is 0", i);
        attr.slice.stride[i] = strides.value[i];
        attr.shape.dim[i] = slice_axis(a.x->shape.dim[i], begin.value[i], end.value[i], strides.value[i], a.begin_mask >> i & 1,
                                       a.end_mask >> i & 1, &attr.slice.begin[i]);
    }
    return lki_apply1(LKI_OP_slice, &attr, a.x);
}

lk_tensor *(lk_reverse)(lk_tensor *x, lk_axes list)
{
    const lki_axes axes = lki_axes_of(list);
    if (!usable("lk_reverse", x) || axes.count < 0) return &lki_poison;
    lki_attr attr = {.shape = x->shape};
    for (int i = 0; i < x->shape.rank; i++)
        attr.slice.stride[i] = 1;
    for (int i = 0; i < axes.count; i++) {
        int axis = lki_axis_normal(axes.value[i], x->shape.rank);
        if (axis < 0)
            return lki_refuse(LK_EINVAL, "lk_reverse: axis %lld is outside rank %d", (long long)axes.value[i], x->shape.rank);
        attr.slice.begin[axis] = x->shape.dim[axis] - 1;
        attr.slice.stride[axis] = -1;
    }
    return lki_apply1(LKI_OP_slice, &attr, x);
}

lk_tensor *lk_pad_kw(lk_pad_args a)
{
    const lki_axes before = lki_axes_of(a.before), after = lki_axes_of(a.after);
    if (!a.x) lki_fail(LK_EINVAL, "lk_pad: x is missing");
    if (lki_bad(a.x) || !per_axis("lk_pad", a.x, &before, "before") || !per_axis("lk_pad", a.x, &after, "after"))
        return &lki_poison;
    if ((unsigned)a.mode > LK_PAD_SYMMETRIC)
        return lki_refuse(LK_EINVAL, "lk_pad: mode %d is none of LK_PAD_CONSTANT, LK_PAD_REFLECT, LK_PAD_SYMMETRIC", (int)a.mode);
    lki_attr attr = {.shape = a.x->shape, .pad = {.mode = (int32_t)a.mode, .value = a.value}};
    for (int i = 0; i < a.x->shape.rank; i++) {
        int64_t n = a.x->shape.dim[i], most = a.mode == LK_PAD_REFLECT     ? lki_max(n - 1, 0)
                                              : a.mode == LK_PAD_SYMMETRIC ? n
                                                                           : INT32_MAX;
        if (before.value[i] < 0 || after.value[i] < 0 || before.value[i] > most || after.value[i] > most)
            return lki_refuse(LK_EINVAL,
                              "lk_pad: axis %d of size %lld takes 0 to %lld cells on a side in this mode, not %lld and %lld", i,
                              (long long)n, (long long)most, (long long)before.value[i], (long long)after.value[i]);
        attr.pad.before[i] = before.value[i];
        attr.shape.dim[i] += before.value[i] + after.value[i];
    }
    return lki_apply1(LKI_OP_pad, &attr, a.x);
}

/* Sizes of 0 or more that add up to the axis. */
static bool splits(const lk_tensor *x, const lki_axes *sizes, int axis, int at)
{
    int64_t left = at < 0 ? 0 : x->shape.dim[at], given = 0;
    char    text[LKI_SHAPE_TEXT], list[LKI_SHAPE_TEXT];
    if (at < 0) lki_fail(LK_EINVAL, "lk_split: axis %d is outside rank %d", axis, x->shape.rank);
    for (int i = 0; i < sizes->count && given >= 0; i++)
        given = sizes->value[i] < 0 || sizes->value[i] > left - given ? -1 : given + sizes->value[i];
    if (at >= 0 && given == left) return true;
    const lk_shape parts = {.rank = sizes->count > 0 ? sizes->count : 0,
                            .dim = {sizes->value[0], sizes->value[1], sizes->value[2], sizes->value[3], sizes->value[4],
                                    sizes->value[5], sizes->value[6], sizes->value[7]}};
    return lki_fail(LK_EINVAL, "lk_split: axis %d of %s in parts of %s: they must be 0 or more and add up to its size", axis,
                    lki_shape_text(&x->shape, text), lki_shape_text(&parts, list)),
           false;
}

lk_tuple(lk_split)(lk_tensor *x, lk_axes list, int axis)
{
    const lki_axes sizes = lki_axes_of(list);
    lk_tensor     *part[LK_MAX_RANK];
    int            at = usable("lk_split", x) ? lki_axis_normal(axis, x->shape.rank) : -1;
    int64_t        from = 0;
    if (lki_bad(x) || !splits(x, &sizes, axis, at)) return lki_tuple_new(0, NULL);
    for (int i = 0; i < sizes.count; i++) {
        lki_axes begin = {.count = x->shape.rank}, size = {.count = x->shape.rank};
        for (int d = 0; d < x->shape.rank; d++)
            size.value[d] = d == at ? sizes.value[i] : x->shape.dim[d];
        begin.value[at] = from;
        part[i] = lki_slice(x, &begin, &size);
        from += sizes.value[i];
    }
    return lki_tuple_new(sizes.count, part);
}

/* ---- joining ---- */

lk_tensor *lk_concat(lk_tuple parts, int axis)
{
    if (parts.count < 1) return lki_refuse(LK_EINVAL, "lk_concat: there is nothing to join");
    if (!lki_usable("lk_concat", "the first part", parts.item[0])) return &lki_poison;
    int at = lki_axis_normal(axis, parts.item[0]->shape.rank);
    if (at < 0) return lki_refuse(LK_EINVAL, "lk_concat: axis %d is outside rank %d", axis, parts.item[0]->shape.rank);
    return lki_apply(LKI_OP_concat, &(lki_attr){.scan = {.axis = at}}, parts.count, parts.item, NULL);
}

lk_tensor *lk_stack(lk_tuple parts, int axis)
{
    if (parts.count < 1) return lki_refuse(LK_EINVAL, "lk_stack: there is nothing to join");
    lk_tensor **wide LKI_RELEASED = lki_alloc_array(parts.count, sizeof *wide);
    if (!wide) return &lki_poison;
    for (int i = 0; i < parts.count; i++)
        wide[i] = lk_expand_dims(parts.item[i], axis);
    return lk_concat((lk_tuple){parts.count, wide}, axis);
}

static lk_tensor *part_of(lk_tensor *x, int axis, int64_t from, int64_t count)
{
    lki_axes begin = {.count = x->shape.rank}, size = {.count = x->shape.rank};
    for (int i = 0; i < x->shape.rank; i++)
        size.value[i] = i == axis ? count : x->shape.dim[i];
    begin.value[axis] = from;
    return lki_slice(x, &begin, &size);
}

/* An axis with more entries than an op can have results is first divided into stretches. */
lk_tuple lk_unstack(lk_tensor *x, int axis)
{
    if (!usable("lk_unstack", x)) return lki_tuple_new(0, NULL);
    int at = lki_axis_normal(axis, x->shape.rank);
    if (at < 0) {
        lki_fail(LK_EINVAL, "lk_unstack: axis %d is outside rank %d", axis, x->shape.rank);
        return lki_tuple_new(0, NULL);
    }
    int64_t     n = x->shape.dim[at];
    lk_tensor **entry LKI_RELEASED = lki_alloc_array(n + 1, sizeof *entry);
    if (!entry) return lki_tuple_new(0, NULL);
    for (int64_t i = 0; i < n; i += LKI_MAX_DST) {
        int64_t    count = lki_min(LKI_MAX_DST, n - i);
        lk_tensor *part = count == n ? x : part_of(x, at, i, count);
        for (int64_t j = 0; j < count; j++)
            entry[i + j] = &lki_poison;
        lki_apply(LKI_OP_unstack, &(lki_attr){.scan = {.axis = at}}, 1, &part, entry + i);
    }
    return lki_tuple_new((int)n, entry);
}

lk_tensor *(lk_tile)(lk_tensor *x, lk_axes list)
{
    const lki_axes multiples = lki_axes_of(list);
    if (!usable("lk_tile", x) || !per_axis("lk_tile", x, &multiples, "multiples")) return &lki_poison;
    for (int axis = 0; axis < multiples.count; axis++) {
        int64_t times = multiples.value[axis];
        if (times == 1) continue;
        if (times < 0 || times > 65536)
            return lki_refuse(LK_EINVAL, "lk_tile: axis %d: %lld times, outside 0 to 65536", axis, (long long)times);
        if (times == 0) {
            lk_shape s = x->shape;
            s.dim[axis] = 0;
            x = lk_zeros(s, x->dtype);
            continue;
        }
        lk_tensor **copies LKI_RELEASED = lki_alloc_array(times, sizeof *copies);
        if (!copies) return &lki_poison;
        for (int64_t i = 0; i < times; i++)
            copies[i] = x;
        x = lk_concat((lk_tuple){(int)times, copies}, axis);
        if (lki_bad(x)) return x;
    }
    return x;
}

/* ---- picking ---- */

lk_tensor *lk_gather(lk_tensor *x, lk_tensor *ids, int axis)
{
    if (!usable("lk_gather", x)) return &lki_poison;
    int at = lki_axis_normal(axis, x->shape.rank);
    if (at < 0) return lki_refuse(LK_EINVAL, "lk_gather: axis %d is outside rank %d", axis, x->shape.rank);
    return lki_apply2(LKI_OP_gather, &(lki_attr){.scan = {.axis = at}}, x, ids);
}

lk_tensor *lk_one_hot_kw(lk_one_hot_args a)
{
    if ((unsigned)a.dtype >= LK_DTYPE_COUNT) return lki_refuse(LK_EDTYPE, "lk_one_hot: %d is not an element type", (int)a.dtype);
    lki_attr attr = {.shape = {1, {a.depth}}, .dtype = a.dtype, .num = {lki_number_or(a.on, 1), a.off}};
    return lki_apply1(LKI_OP_one_hot, &attr, a.ids);
}

/* ---- random ---- */

static lk_tensor *draw(lki_op op, lk_random_args a)
{
    lk_tensor *src[2] = {a.iteration ? a.iteration : lk_zeros((lk_shape){0}, LK_I64), a.rows_of};
    lki_attr   attr = {.shape = a.shape, .dtype = LK_F32};
    if (a.call < 0 || a.call > 65535) return lki_refuse(LK_EINVAL, "lk_random: call must be 0 to 65535");
    if (a.rows_of) {
        if (lki_bad(a.rows_of)) return &lki_poison;
        if (a.rows_of->shape.rank < 1 || a.shape.rank >= LK_MAX_RANK)
            return lki_refuse(LK_ESHAPE, "lk_random: rows_of needs a leading axis, and the result at most 8 axes");
        attr.shape.rank = a.shape.rank + 1;
        attr.shape.dim[0] = a.rows_of->shape.dim[0];
        for (int i = 0; i < a.shape.rank; i++)
            attr.shape.dim[i + 1] = a.shape.dim[i];
        if (lki_is_float(a.rows_of->dtype)) attr.dtype = a.rows_of->dtype == LK_F64 ? LK_F64 : LK_F32;
    }
    attr.random.key = lki_stream_key(lk_random_seed(), a.stream ? a.stream : "");
    attr.random.call = (uint64_t)a.call;
    attr.random.low = a.low;
    attr.random.high = lki_number_or(a.high, 1);
    if (op == LKI_OP_random_uniform && !(attr.random.low <= attr.random.high))
        return lki_refuse(LK_EINVAL, "lk_random_uniform: low %g is above high %g", attr.random.low, attr.random.high);
    return lki_apply(op, &attr, a.rows_of ? 2 : 1, src, NULL);
}

lk_tensor *lk_random_uniform_kw(lk_random_args args) { return draw(LKI_OP_random_uniform, args); }

lk_tensor *lk_random_normal_kw(lk_random_args args) { return draw(LKI_OP_random_normal, args); }
