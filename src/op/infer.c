/* Shape rules: types and shapes of an op's results, and the error if its operands do not fit. Each rule is one function, named in
 * ops.inc; every message names the op, its operands with shapes and types, and what would have been right. */
#include "op/infer.h"
#include "core/names.h"
#include "kernel/matrix.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lk_status lki_fail_op(const lki_infer *f, lk_status code, const char *format, ...)
{
    char text[LKI_ERROR_TEXT], shape[LKI_SHAPE_TEXT];
    int  used = 0;
    for (int i = 0; i < f->nsrc && i < 6 && used < (int)sizeof text; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s %s", i ? ", " : "",
                         lki_shape_text(&f->src[i]->shape, shape), lk_dtype_name(f->src[i]->dtype));
    if (f->nsrc > 6 && used < (int)sizeof text) used += snprintf(text + used, sizeof text - (size_t)used, ", ...");
    if (used < (int)sizeof text) {
        used += snprintf(text + used, sizeof text - (size_t)used, ": ");
        if (used < (int)sizeof text) {
            va_list list;
            va_start(list, format);
            lki_text_vprint(text, sizeof text, (size_t)used, format, list);
            va_end(list);
        }
    }
    return lki_fail(code, "%s of %s", lki_op_name(f->op), text);
}

static lk_status result(lki_infer *f, int i, lk_shape shape, lk_dtype dtype)
{
    f->shape[i] = shape;
    f->dtype[i] = dtype;
    char text[LKI_SHAPE_TEXT];
    if (!lki_shape_valid(&shape))
        return lki_fail_op(f, LK_ESHAPE, "the result, %s, is not a shape or has more elements than can be counted",
                           lki_shape_text(&shape, text));
    return LK_OK;
}

static lk_shape axes_of(const lk_tensor *t, int from, int to) /* dims from <= i < to */
{
    lk_shape s = {0};
    for (int i = from; i < to; i++)
        s.dim[s.rank++] = t->shape.dim[i];
    return s;
}

/* ---- element-wise ---- */

static lk_status shape_same(lki_infer *f) { return result(f, 0, f->src[0]->shape, f->src[0]->dtype); }

static lk_status shape_test(lki_infer *f) { return result(f, 0, f->src[0]->shape, LK_BOOL); }

static lk_status shape_cast(lki_infer *f) { return result(f, 0, f->src[0]->shape, f->attr->dtype); }

static lk_status broadcast_pair(lki_infer *f, lk_dtype dtype)
{
    const lk_tensor *a = f->src[0], *b = f->src[1];
    lk_shape         out;
    if (a->dtype != b->dtype)
        return lki_fail_op(f, LK_EDTYPE, "types differ; lk_cast one operand to %s or to %s", lk_dtype_name(a->dtype),
                           lk_dtype_name(b->dtype));
    if (!lki_shape_broadcast(&a->shape, &b->shape, &out))
        return lki_fail_op(f, LK_ESHAPE, "shapes do not broadcast; counted from the last axis, sizes must be equal or 1");
    return result(f, 0, out, dtype);
}

static lk_status shape_broadcast(lki_infer *f) { return broadcast_pair(f, f->src[0]->dtype); }

static lk_status shape_compare(lki_infer *f) { return broadcast_pair(f, LK_BOOL); }

static lk_status shape_where(lki_infer *f)
{
    LKI_TRY(broadcast_pair(f, f->src[0]->dtype));
    lk_shape pair = f->shape[0], out;
    if (f->src[2]->dtype != LK_BOOL)
        return lki_fail_op(f, LK_EDTYPE, "the condition (third here) must be bool, not %s", lk_dtype_name(f->src[2]->dtype));
    if (!lki_shape_broadcast(&pair, &f->src[2]->shape, &out))
        return lki_fail_op(f, LK_ESHAPE, "the condition (third here) does not broadcast with the values");
    return result(f, 0, out, f->src[0]->dtype);
}

/* ---- reductions ---- */

static lk_status reduced(lki_infer *f, lk_dtype dtype)
{
    const lk_tensor *x = f->src[0];
    int              first = f->attr->reduce.first, last = f->attr->reduce.last;
    if (first < 0 || last >= x->shape.rank || first > last)
        return lki_fail_op(f, LK_EINVAL, "axes %d..%d are outside rank %d", first, last, x->shape.rank);
    lk_shape out = axes_of(x, 0, first);
    for (int i = last + 1; i < x->shape.rank; i++)
        out.dim[out.rank++] = x->shape.dim[i];
    return result(f, 0, out, dtype);
}

static lk_status shape_reduce(lki_infer *f) { return reduced(f, f->src[0]->dtype); }

static lk_status shape_argument(lki_infer *f)
{
    LKI_TRY(reduced(f, LK_I64));
    if (f->src[0]->shape.dim[f->attr->reduce.first] == 0 && lki_shape_size(&f->shape[0]) > 0)
        return lki_fail_op(f, LK_ESHAPE, "axis %d is empty, so that no index exists", f->attr->reduce.first);
    return LK_OK;
}

static lk_status shape_total(lki_infer *f) { return result(f, 0, (lk_shape){0}, f->src[0]->dtype); }

static lk_status shape_last(lki_infer *f)
{
    if (f->src[0]->shape.rank < 1) return lki_fail_op(f, LK_ESHAPE, "needs at least one axis");
    return shape_same(f);
}

static lk_status shape_last_two(lki_infer *f)
{
    if (f->src[0]->dtype != f->src[1]->dtype || !lki_shape_equal(&f->src[0]->shape, &f->src[1]->shape))
        return lki_fail_op(f, LK_ESHAPE, "both operands must have the same shape and type");
    return shape_last(f);
}

/* ---- layer normalisation ---- */

/* Operand i has one value per element of the last axis (or, `per_row`, per row) of `x`. */
static bool fits_rows(const lki_infer *f, int i, const lk_tensor *x, bool per_row)
{
    lk_shape row = axes_of(x, 0, x->shape.rank - 1), last = axes_of(x, x->shape.rank - 1, x->shape.rank);
    return f->src[i]->dtype == x->dtype && lki_shape_equal(&f->src[i]->shape, per_row ? &row : &last);
}

static lk_status shape_norm(lki_infer *f)
{
    const lk_tensor *x = f->src[0];
    if (x->shape.rank < 1) return lki_fail_op(f, LK_ESHAPE, "needs at least one axis");
    if (!fits_rows(f, 1, x, false) || !fits_rows(f, 2, x, false))
        return lki_fail_op(f, LK_ESHAPE, "gamma and beta should be [%lld] %s, one value per element of the last axis",
                           (long long)x->shape.dim[x->shape.rank - 1], lk_dtype_name(x->dtype));
    LKI_TRY(result(f, 1, axes_of(x, 0, x->shape.rank - 1), x->dtype));
    return shape_same(f);
}

/* dy and x have the same type and shape, statistics are per row. */
static lk_status check_norm(lki_infer *f, int mean)
{
    LKI_TRY(shape_last_two(f));
    if (!fits_rows(f, mean, f->src[1], true) || !fits_rows(f, mean + 1, f->src[1], true))
        return lki_fail_op(f, LK_ESHAPE, "mean and deviation should be one value per row of x");
    return LK_OK;
}

static lk_status shape_norm_x(lki_infer *f)
{
    LKI_TRY(check_norm(f, 3));
    if (!fits_rows(f, 2, f->src[1], false))
        return lki_fail_op(f, LK_ESHAPE, "gamma should be one value per element of the last axis");
    return LK_OK;
}

static lk_status shape_norm_gamma(lki_infer *f)
{
    LKI_TRY(check_norm(f, 2));
    return result(f, 0, axes_of(f->src[1], f->src[1]->shape.rank - 1, f->src[1]->shape.rank), f->src[0]->dtype);
}

/* ---- batch normalisation ---- */

/* Operand i is [channels], or, `pair`, [2, channels], of x's type. */
static bool fits_channels(const lki_infer *f, int i, const lk_tensor *x, bool pair)
{
    lk_shape want = {.rank = 1 + pair, .dim = {2}};
    want.dim[pair] = x->shape.dim[x->shape.rank - 1];
    return f->src[i]->dtype == x->dtype && lki_shape_equal(&f->src[i]->shape, &want);
}

static lk_status channel_sums(lki_infer *f, int64_t sums)
{
    const lk_tensor *x = f->src[0];
    if (x->shape.rank < 2) return lki_fail_op(f, LK_ESHAPE, "needs rows and channels");
    return result(f, 0, (lk_shape){2, {sums, x->shape.dim[x->shape.rank - 1]}}, LK_F64);
}

static lk_status shape_batch_sums(lki_infer *f) { return channel_sums(f, 3); }

static lk_status shape_batch_apply(lki_infer *f)
{
    const lk_tensor *x = f->src[0];
    if (x->shape.rank < 2) return lki_fail_op(f, LK_ESHAPE, "needs rows and channels");
    if (!fits_channels(f, 1, x, false) || !fits_channels(f, 2, x, true))
        return lki_fail_op(f, LK_ESHAPE, "there should be a center, and a pair of scale and shift, for each of %lld channels",
                           (long long)x->shape.dim[x->shape.rank - 1]);
    return shape_same(f);
}

static lk_status shape_batch_grad_sums(lki_infer *f)
{
    const lk_tensor *x = f->src[1];
    if (f->src[0]->dtype != x->dtype || !lki_shape_equal(&f->src[0]->shape, &x->shape))
        return lki_fail_op(f, LK_ESHAPE, "dy and x must have the same shape and type");
    LKI_TRY(channel_sums(f, 2));
    if (!fits_channels(f, 2, x, false)) return lki_fail_op(f, LK_ESHAPE, "there should be a center for each channel");
    return LK_OK;
}

static lk_status shape_top_k(lki_infer *f)
{
    const lk_tensor *x = f->src[0];
    int              last = x->shape.rank - 1;
    int64_t          k = f->attr->top.k;
    if (last < 0) return lki_fail_op(f, LK_ESHAPE, "needs at least one axis");
    if (k < 1 || k > x->shape.dim[last])
        return lki_fail_op(f, LK_EINVAL, "k is %lld; it must be 1 to %lld, the size of the last axis", (long long)k,
                           (long long)x->shape.dim[last]);
    lk_shape out = x->shape;
    out.dim[last] = k;
    LKI_TRY(result(f, 1, out, LK_I32));
    return result(f, 0, out, x->dtype);
}

/* ---- cross-entropy ---- */

static lk_status check_labels(lki_infer *f)
{
    const lk_tensor *logits = f->src[0], *labels = f->src[1];
    if (logits->shape.rank < 1) return lki_fail_op(f, LK_ESHAPE, "logits need a last axis of classes");
    if (!lki_is_int(labels->dtype)) return lki_fail_op(f, LK_EDTYPE, "labels must be i32, i64 or u8");
    lk_shape want = axes_of(logits, 0, logits->shape.rank - 1);
    char     text[LKI_SHAPE_TEXT];
    if (!lki_shape_equal(&labels->shape, &want))
        return lki_fail_op(f, LK_ESHAPE, "labels should be %s, one per row of logits", lki_shape_text(&want, text));
    return LK_OK;
}

static lk_status shape_xent(lki_infer *f)
{
    LKI_TRY(check_labels(f));
    return result(f, 0, f->src[1]->shape, f->src[0]->dtype);
}

static lk_status shape_xent_grad(lki_infer *f)
{
    LKI_TRY(check_labels(f));
    if (!lki_shape_equal(&f->src[2]->shape, &f->src[1]->shape))
        return lki_fail_op(f, LK_ESHAPE, "dy must have the shape of the labels");
    return shape_same(f);
}

/* ---- moves ---- */

static lk_status shape_reshape(lki_infer *f)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_shape_valid(&f->attr->shape) || lki_shape_size(&f->attr->shape) != lki_shape_size(&f->src[0]->shape))
        return lki_fail_op(f, LK_ESHAPE, "%lld elements do not fill %s", (long long)lki_shape_size(&f->src[0]->shape),
                           lki_shape_text(&f->attr->shape, text));
    return result(f, 0, f->attr->shape, f->src[0]->dtype);
}

static lk_status expand_to(lki_infer *f, const lk_shape *to)
{
    lk_shape out;
    char     text[LKI_SHAPE_TEXT];
    if (!lki_shape_valid(to) || !lki_shape_broadcast(&f->src[0]->shape, to, &out) || !lki_shape_equal(&out, to))
        return lki_fail_op(f, LK_ESHAPE, "does not broadcast to %s", lki_shape_text(to, text));
    return result(f, 0, *to, f->src[0]->dtype);
}

static lk_status shape_expand(lki_infer *f) { return expand_to(f, &f->attr->shape); }

static lk_status shape_like(lki_infer *f) { return expand_to(f, &f->src[1]->shape); }

static lk_status shape_given(lki_infer *f) { return result(f, 0, f->attr->shape, f->src[0]->dtype); }

static lk_status shape_drawn(lki_infer *f)
{
    if (f->src[0]->dtype != LK_I64 || f->src[0]->shape.rank)
        return lki_fail_op(f, LK_EDTYPE, "the iteration must be an i64 scalar");
    return result(f, 0, f->attr->shape, f->attr->dtype);
}

static lk_status shape_transpose(lki_infer *f)
{
    const lk_tensor *x = f->src[0];
    lk_shape         out = x->shape;
    unsigned         seen = 0;
    for (int i = 0; i < out.rank; i++) {
        int from = f->attr->perm.axis[i];
        if (from < 0 || from >= out.rank || seen >> from & 1)
            return lki_fail_op(f, LK_EINVAL, "the permutation must name each of the %d axes once", out.rank);
        seen |= 1u << from;
        out.dim[i] = x->shape.dim[from];
    }
    return result(f, 0, out, x->dtype);
}

static lk_status check_slice(lki_infer *f, const lk_shape *whole, const lk_shape *part)
{
    if (whole->rank != part->rank) return lki_fail_op(f, LK_ESHAPE, "a slice keeps the rank");
    for (int i = 0; i < part->rank; i++) {
        int64_t begin = f->attr->slice.begin[i], stride = f->attr->slice.stride[i], n = part->dim[i], end = begin;
        if (stride == 0) return lki_fail_op(f, LK_EINVAL, "the stride of axis %d is 0", i);
        if (n < 0)
            return lki_fail_op(f, LK_EINVAL, "axis %d: the size is %lld; it must be 0 or more, or -1 for all that is left", i,
                               (long long)n);
        bool far = n > 0 && (!lki_size_try_mul(n - 1, stride, &end) || !lki_size_try_add(begin, end, &end));
        if (n > 0 && (far || begin < 0 || begin >= whole->dim[i] || end < 0 || end >= whole->dim[i]))
            return lki_fail_op(f, LK_EINVAL, "axis %d: entries %lld to %lld lie outside 0 to %lld", i, (long long)begin,
                               (long long)end, (long long)whole->dim[i] - 1);
    }
    return LK_OK;
}

static lk_status shape_slice(lki_infer *f)
{
    LKI_TRY(check_slice(f, &f->src[0]->shape, &f->attr->shape));
    return shape_given(f);
}

static lk_status shape_unslice(lki_infer *f)
{
    LKI_TRY(check_slice(f, &f->attr->shape, &f->src[0]->shape));
    return shape_given(f);
}

static lk_status shape_concat(lki_infer *f)
{
    lk_shape out = f->src[0]->shape;
    int      axis = f->attr->scan.axis;
    if (axis < 0 || axis >= out.rank) return lki_fail_op(f, LK_EINVAL, "axis %d is outside rank %d", axis, out.rank);
    for (int i = 1; i < f->nsrc; i++) {
        const lk_tensor *t = f->src[i];
        if (t->dtype != f->src[0]->dtype)
            return lki_fail_op(f, LK_EDTYPE, "part %d is %s, the first is %s", i, lk_dtype_name(t->dtype),
                               lk_dtype_name(f->src[0]->dtype));
        if (t->shape.rank != out.rank)
            return lki_fail_op(f, LK_ESHAPE, "part %d has rank %d, the first has %d", i, t->shape.rank, out.rank);
        for (int d = 0; d < out.rank; d++)
            if (d != axis && t->shape.dim[d] != out.dim[d])
                return lki_fail_op(f, LK_ESHAPE, "part %d differs from the first in axis %d; only axis %d may differ", i, d, axis);
        out.dim[axis] = lki_size_add(out.dim[axis], t->shape.dim[axis]);
    }
    return result(f, 0, out, f->src[0]->dtype);
}

static lk_status shape_unstack(lki_infer *f)
{
    const lk_shape *x = &f->src[0]->shape;
    int             axis = f->attr->scan.axis;
    if (axis < 0 || axis >= x->rank) return lki_fail_op(f, LK_EINVAL, "axis %d is outside rank %d", axis, x->rank);
    if (x->dim[axis] < 1 || x->dim[axis] > LKI_MAX_DST)
        return lki_fail_op(f, LK_ESHAPE, "axis %d must have 1 to %d entries", axis, LKI_MAX_DST);
    lk_shape out = axes_of(f->src[0], 0, axis);
    for (int i = axis + 1; i < x->rank; i++)
        out.dim[out.rank++] = x->dim[i];
    f->ndst = (int)x->dim[axis];
    LKI_TRY(result(f, 1, out, f->src[0]->dtype));
    return result(f, 0, out, f->src[0]->dtype);
}

static lk_status shape_gather(lki_infer *f)
{
    const lk_tensor *x = f->src[0], *ids = f->src[1];
    int              axis = f->attr->scan.axis;
    if (ids->dtype != LK_I32 && ids->dtype != LK_I64) return lki_fail_op(f, LK_EDTYPE, "ids must be i32 or i64");
    if (axis < 0 || axis >= x->shape.rank) return lki_fail_op(f, LK_EINVAL, "axis %d is outside rank %d", axis, x->shape.rank);
    if (x->shape.rank - 1 + ids->shape.rank > LK_MAX_RANK)
        return lki_fail_op(f, LK_ESHAPE, "the result would have more than %d axes", LK_MAX_RANK);
    lk_shape out = axes_of(x, 0, axis);
    for (int i = 0; i < ids->shape.rank; i++)
        out.dim[out.rank++] = ids->shape.dim[i];
    for (int i = axis + 1; i < x->shape.rank; i++)
        out.dim[out.rank++] = x->shape.dim[i];
    return result(f, 0, out, x->dtype);
}

static lk_status shape_row_gather(lki_infer *f)
{
    const lk_tensor *x = f->src[0], *ids = f->src[1];
    if (ids->dtype != LK_I32 && ids->dtype != LK_I64) return lki_fail_op(f, LK_EDTYPE, "ids must be i32 or i64");
    if (x->shape.rank < 2 || ids->shape.rank < 1 || x->shape.dim[0] != ids->shape.dim[0])
        return lki_fail_op(f, LK_ESHAPE, "they should be [n, entries, ...] and [n, ...], with as many rows");
    if (x->shape.rank - 2 + ids->shape.rank > LK_MAX_RANK)
        return lki_fail_op(f, LK_ESHAPE, "the result would have more than %d axes", LK_MAX_RANK);
    lk_shape out = ids->shape;
    for (int i = 2; i < x->shape.rank; i++)
        out.dim[out.rank++] = x->shape.dim[i];
    return result(f, 0, out, x->dtype);
}

static lk_status shape_one_hot(lki_infer *f)
{
    lk_shape out = f->src[0]->shape;
    int64_t  depth = f->attr->shape.dim[0];
    if (depth < 1) return lki_fail_op(f, LK_EINVAL, "depth is %lld; it must be at least 1", (long long)depth);
    if (out.rank == LK_MAX_RANK) return lki_fail_op(f, LK_ESHAPE, "the result would have more than %d axes", LK_MAX_RANK);
    out.dim[out.rank++] = depth;
    return result(f, 0, out, f->attr->dtype);
}

/* ---- products ---- */

static lk_status shape_matmul(lki_infer *f)
{
    const lk_tensor *a = f->src[0], *b = f->src[1];
    if (a->dtype != b->dtype) return lki_fail_op(f, LK_EDTYPE, "types differ; lk_cast one operand");
    if (a->shape.rank < 2 || b->shape.rank < 2) return lki_fail_op(f, LK_ESHAPE, "both operands need at least two axes");
    const int heads = f->attr->matmul.heads;
    if ((heads & 1 && a->shape.rank != 4) || (heads & 2 && b->shape.rank != 4))
        return lki_fail_op(f, LK_ESHAPE, "an operand by heads has four axes");
    const lk_shape sa = lki_by_heads(&a->shape, heads & 1), sb = lki_by_heads(&b->shape, heads & 2);
    int64_t        ma = sa.dim[sa.rank - 2], ka = sa.dim[sa.rank - 1];
    int64_t        kb = sb.dim[sb.rank - 2], nb = sb.dim[sb.rank - 1];
    int64_t        m = f->attr->matmul.ta ? ka : ma, k = f->attr->matmul.ta ? ma : ka;
    int64_t        k2 = f->attr->matmul.tb ? nb : kb, n = f->attr->matmul.tb ? kb : nb;
    if (k != k2)
        return lki_fail_op(f, LK_ESHAPE, "inner sizes %lld and %lld differ; b should be [.., %s]%s", (long long)k, (long long)k2,
                           f->attr->matmul.tb ? "n, k" : "k, n",
                           f->attr->matmul.ta || f->attr->matmul.tb ? " after the transposes asked for" : "");
    lk_shape la = {.rank = sa.rank - 2}, lb = {.rank = sb.rank - 2}, out;
    memcpy(la.dim, sa.dim, sizeof la.dim);
    memcpy(lb.dim, sb.dim, sizeof lb.dim);
    if (!lki_shape_broadcast(&la, &lb, &out)) return lki_fail_op(f, LK_ESHAPE, "the leading axes do not broadcast");
    out.dim[out.rank++] = m;
    out.dim[out.rank++] = n;
    if (heads & 4 && out.rank != 4) return lki_fail_op(f, LK_ESHAPE, "a result by heads has four axes");
    return result(f, 0, lki_by_heads(&out, heads & 4), a->dtype);
}

enum { PLAIN, DEPTHWISE, GROUPED };

/* The channels of image, kernel and output. */
static lk_status check_channels(lki_infer *f, const lk_shape *x, const lk_shape *w, const lk_shape *y, int kind)
{
    const int64_t in = w->dim[2], out = kind == DEPTHWISE ? lki_size_mul(in, w->dim[3]) : w->dim[3], channels = x->dim[3];
    const int64_t groups = kind == GROUPED && in ? channels / in : 1;
    if (kind == GROUPED && (!in || channels % in || !groups || out % groups))
        return lki_fail_op(f, LK_ESHAPE, "the channels are not groups of %lld with as many of the %lld results each", (long long)in,
                           (long long)out);
    if (kind != GROUPED && in != channels)
        return lki_fail_op(f, LK_ESHAPE, "the kernel takes %lld channels, the image has %lld", (long long)in, (long long)channels);
    if (y->dim[3] != out) return lki_fail_op(f, LK_ESHAPE, "the output must have %lld channels", (long long)out);
    return LK_OK;
}

/* x [n, h, w, in], kernel [kh, kw, in, out] or, depthwise, [kh, kw, in, multiplier] or, grouped, [kh, kw, in / groups, out], y [n,
 * oh, ow, out]; for any of the three directions. */
static lk_status check_conv(lki_infer *f, const lk_shape *x, const lk_shape *w, const lk_shape *y, int kind)
{
    if (x->rank != 4 || w->rank != 4 || y->rank != 4)
        return lki_fail_op(f, LK_ESHAPE, "images are [n, height, width, channels], kernels [height, width, in, out]: rank 4");
    if (w->dim[0] < 1 || w->dim[1] < 1) return lki_fail_op(f, LK_ESHAPE, "a kernel has at least 1 x 1 cells");
    LKI_TRY(check_channels(f, x, w, y, kind));
    if (y->dim[1] < 1 || y->dim[2] < 1)
        return lki_fail_op(
            f, LK_ESHAPE, "a kernel of %lld x %lld (with its dilation) does not fit into %lld x %lld; pad the image or use LK_SAME",
            (long long)w->dim[0], (long long)w->dim[1], (long long)x->dim[1], (long long)x->dim[2]);
    if (x->dim[0] != y->dim[0])
        return lki_fail_op(f, LK_ESHAPE, "%lld and %lld images", (long long)x->dim[0], (long long)y->dim[0]);
    return LK_OK;
}

#define SHAPE_CONV(rule, x, w, y, kind)                                                                                            \
    static lk_status shape_##rule(lki_infer *f)                                                                                    \
    {                                                                                                                              \
        if (f->src[0]->dtype != f->src[1]->dtype) return lki_fail_op(f, LK_EDTYPE, "types differ; lk_cast one operand");           \
        LKI_TRY(check_conv(f, x, w, y, kind));                                                                                     \
        return shape_given(f);                                                                                                     \
    }
#define SRC(i) &f->src[i]->shape
SHAPE_CONV(conv, SRC(0), SRC(1), &f->attr->shape, PLAIN)
SHAPE_CONV(conv_x, &f->attr->shape, SRC(1), SRC(0), PLAIN)
SHAPE_CONV(conv_w, SRC(0), &f->attr->shape, SRC(1), PLAIN)
SHAPE_CONV(depth, SRC(0), SRC(1), &f->attr->shape, DEPTHWISE)
SHAPE_CONV(depth_x, &f->attr->shape, SRC(1), SRC(0), DEPTHWISE)
SHAPE_CONV(depth_w, SRC(0), &f->attr->shape, SRC(1), DEPTHWISE)
SHAPE_CONV(group, SRC(0), SRC(1), &f->attr->shape, GROUPED)
SHAPE_CONV(group_x, &f->attr->shape, SRC(1), SRC(0), GROUPED)
SHAPE_CONV(group_w, SRC(0), &f->attr->shape, SRC(1), GROUPED)

/* Two directions of a convolution followed by a 2x2 max pool: d is y pooled, cell says which cell of its window each entry came
 * from. */
static lk_status check_pooled(lki_infer *f, const lk_tensor *d, const lk_tensor *cell, const lk_tensor *other)
{
    if (d->dtype != other->dtype || cell->dtype != LK_U8) return lki_fail_op(f, LK_EDTYPE, "one float type, and u8 for the cells");
    if (!lki_shape_equal(&d->shape, &cell->shape)) return lki_fail_op(f, LK_ESHAPE, "there must be one cell for each entry of d");
    return LK_OK;
}

static lk_status shape_pool_x(lki_infer *f)
{
    LKI_TRY(check_pooled(f, f->src[0], f->src[1], f->src[2]));
    LKI_TRY(check_conv(f, &f->attr->shape, SRC(2), SRC(0), PLAIN));
    return shape_given(f);
}

static lk_status shape_pool_w(lki_infer *f)
{
    LKI_TRY(check_pooled(f, f->src[1], f->src[2], f->src[0]));
    LKI_TRY(check_conv(f, SRC(0), &f->attr->shape, SRC(1), PLAIN));
    return shape_given(f);
}

static lk_status shape_pool_cell(lki_infer *f)
{
    const lki_window *w = &f->attr->window;
    LKI_TRY(result(f, 1, f->attr->shape, lki_size_mul(w->size[0], w->size[1]) > 256 ? LK_I32 : LK_U8));
    return shape_given(f);
}

static lk_status shape_pick(lki_infer *f) { return result(f, 0, f->src[1]->shape, f->src[0]->dtype); }

/* ---- updates ---- */

static lk_status shape_update(lki_infer *f)
{
    char text[LKI_SHAPE_TEXT];
    for (int i = 0; i < f->nvar; i++)
        if (!lki_shape_equal(&f->var[i]->shape, &f->src[0]->shape))
            return lki_fail_op(f, LK_ESHAPE, "variable \"%s\" is %s", f->var[i]->name, lki_shape_text(&f->var[i]->shape, text));
    if (f->var[0]->dtype != f->src[0]->dtype)
        return lki_fail_op(f, LK_EDTYPE, "variable \"%s\" is %s; lk_cast the value", f->var[0]->name,
                           lk_dtype_name(f->var[0]->dtype));
    return LK_OK;
}

static lk_status shape_scalars(lki_infer *f)
{
    (void)f;
    return LK_OK;
}

static lk_status shape_by_norm(lki_infer *f)
{
    if (f->src[1]->shape.rank) return lki_fail_op(f, LK_ESHAPE, "the sum of squares must be a scalar");
    return shape_same(f);
}

static lk_status shape_schedule(lki_infer *f) { return result(f, 0, (lk_shape){0}, LK_F32); }

/* ---- over the replicas ---- */

static lk_status equal_operands(lki_infer *f, int count)
{
    for (int i = 1; i < count; i++) {
        if (!lki_shape_equal(&f->src[i]->shape, &f->src[0]->shape))
            return lki_fail_op(f, LK_ESHAPE, "replica %d's shape differs from replica 0's; they must agree", i);
        if (f->src[i]->dtype != f->src[0]->dtype)
            return lki_fail_op(f, LK_EDTYPE, "replica %d's type differs from replica 0's; they must agree", i);
    }
    return shape_same(f);
}

static lk_status shape_replicas(lki_infer *f) { return equal_operands(f, f->nsrc - 1); }

static lk_status shape_agree(lki_infer *f) { return equal_operands(f, f->nsrc); }

static lk_status shape_scatter(lki_infer *f)
{
    const lk_tensor   *rows = f->src[0], *ids = f->src[1];
    const lk_variable *v = f->var[0];
    char               text[LKI_SHAPE_TEXT];
    lk_shape           entry = v->shape;
    if (v->shape.rank < 1) return lki_fail_op(f, LK_ESHAPE, "variable \"%s\" is a scalar and has no entries", v->name);
    if (ids->dtype != LK_I32 && ids->dtype != LK_I64) return lki_fail_op(f, LK_EDTYPE, "ids must be i32 or i64");
    if (rows->dtype != v->dtype)
        return lki_fail_op(f, LK_EDTYPE, "variable \"%s\" is %s; lk_cast the rows", v->name, lk_dtype_name(v->dtype));
    entry.dim[0] = ids->shape.rank ? ids->shape.dim[0] : 1;
    if (ids->shape.rank > 1 || lki_shape_size(&rows->shape) != lki_shape_size(&entry))
        return lki_fail_op(f, LK_ESHAPE, "variable \"%s\" takes one id and one entry of %s for each row", v->name,
                           lki_shape_text(&v->shape, text));
    return LK_OK;
}

static lk_status shape_lane_add(lki_infer *f)
{
    const lk_tensor   *x = f->src[0];
    const lk_variable *v = f->var[0];
    bool               fits = x->shape.rank >= 1 && x->shape.rank == v->shape.rank && v->dtype == LK_F64;
    for (int i = 1; i < x->shape.rank && fits; i++)
        fits = x->shape.dim[i] == v->shape.dim[i];
    if (!fits) return lki_fail_op(f, LK_ESHAPE, "variable \"%s\" must be f64, [lanes] and then the axes of one row", v->name);
    if (x->rows.kind == LKI_ROWS && !x->rows.own && x->rows.lanes != v->shape.dim[0])
        return lki_fail_op(f, LK_ESHAPE, "the batch has %d lanes, variable \"%s\" was made for %lld", x->rows.lanes, v->name,
                           (long long)v->shape.dim[0]);
    if (!(f->attr->num.a >= 0 && f->attr->num.a < (double)v->shape.dim[0]))
        return lki_fail_op(f, LK_EINVAL, "there is no lane %g in variable \"%s\"", f->attr->num.a, v->name);
    return LK_OK;
}

/* ---- the table ---- */

#define LKI_OP(name, nsrc, ndst, shape, lane, grad, slot, text) lki_lane_fn lki_lane_##lane;
#include "op/ops.inc"
#undef LKI_OP

static const lki_op_info lines[LKI_OP_COUNT] = {
#define LKI_OP(name, nsrc, ndst, shape, lane, grad, slot, text)                                                                    \
    {#name, nsrc, ndst, shape_##shape, lki_lane_##lane, LKI_K_##slot, text},
#include "op/ops.inc"
#undef LKI_OP
};

const lki_op_info *lki_op_line(lki_op op) { return &lines[op]; }

bool lki_is_elementwise(lki_op op)
{
    lki_lane_fn *lane = lines[op].lane;
    if (lane == lki_lane_update) return lines[op].shape == shape_update;
    return lines[op].slot != LKI_K_none && (lane == lki_lane_each || lane == lki_lane_linear || lane == lki_lane_scale);
}

const char *lki_op_name(lki_op op) { return lines[op].name; }

static lk_status check_types(lki_infer *f)
{
    lki_slot slot = lines[f->op].slot;
    lk_dtype dtype = f->nsrc && f->op != LKI_OP_random_uniform && f->op != LKI_OP_random_normal ? f->src[0]->dtype
                     : f->nvar                                                                  ? f->var[0]->dtype
                                                                                                : f->attr->dtype;
    if (slot == LKI_K_none || lki_kernels_here()->fn[slot][dtype]) return LK_OK;
    char takes[96] = "";
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        if (lki_kernels_here()->fn[slot][t])
            snprintf(takes + strlen(takes), sizeof takes - strlen(takes), " %s", lk_dtype_name((lk_dtype)t));
    return lki_fail_op(f, LK_EDTYPE, "does not take %s; it takes%s", lk_dtype_name(dtype), takes);
}

lk_status lki_infer_op(lki_infer *f)
{
    const lki_op_info *line = &lines[f->op];
    f->ndst = line->ndst;
    LKI_TRY(check_types(f));
    LKI_TRY(line->shape(f));
    line->lane(f);
    return LK_OK;
}
