/* Pooling as functions of tensors: along 1 to 3 axes, with windows of one size or as many as fit (adaptive).
 *
 * The ops pool images. A row of steps is an image of height 1. Volumes are pooled along height and width first, then along the
 * depth: the largest, and which cell it is, are those of the whole window, and a mean is a mean of means of equally many cells. */
#include "core/memory.h"
#include "nn/finish.h"
#include "op/product.h"
#include <stdio.h>

static const char *const ROWS[] = {"", "[n, steps, channels]", "[n, height, width, channels]",
                                   "[n, depth, height, width, channels]"};

static bool operand(const char *call, int axes, const lk_tensor *x)
{
    char text[LKI_SHAPE_TEXT];
    if (!x) lki_fail(LK_EINVAL, "%s: x is missing", call);
    if (lki_bad(x)) return false;
    if (x->shape.rank != axes + 2)
        lki_fail(LK_ESHAPE, "%s: x is %s; it should be %s", call, lki_shape_text(&x->shape, text), ROWS[axes]);
    return x->shape.rank == axes + 2;
}

/* Along one axis alone: all others are rows or channels of images of width 1. */
static lk_tensor *pool_along(lki_op op, lk_tensor *x, int axis, int64_t size, int64_t stride, int64_t pad, int64_t results)
{
    if (lki_bad(x)) return x;
    lk_shape       y = x->shape;
    const int64_t  before = lki_size_product(y.dim, axis), after = lki_shape_size_from(&y, axis + 1);
    const lk_shape image = LK_SHAPE(before, y.dim[axis], 1, after);
    lki_window     w = {{size, 1}, {stride, 1}, {1, 1}, {pad, 0}};
    y.dim[axis] = results;
    return lk_reshape(lki_pool(op, &w, LK_SHAPE(before, results, 1, after), lk_reshape(x, image)), y);
}

static bool window_fits(const char *call, const lki_slide *s, const lk_shape *x, const lk_shape *y)
{
    char window[LKI_SHAPE_TEXT], text[LKI_SHAPE_TEXT];
    int  used = 0;
    for (int i = 0; i < s->axes; i++)
        if (y->dim[1 + i] < 1) {
            for (int k = s->axes == 1 ? -1 : 0; k < s->axes; k++)
                used += snprintf(window + used, sizeof window - (size_t)used, "%s%lld", used ? " x " : "",
                                 k < 0 ? 1ll : (long long)s->size[k]);
            return lki_fail(LK_ESHAPE, "%s: a window of %s does not fit into x %s; use LK_SAME or a smaller one", call, window,
                            lki_shape_text(x, text)),
                   false;
        }
    return true;
}

static lk_tensor *pool(const char *call, int axes, lki_op op, const lk_pool_args *a)
{
    lki_slide s;
    if (!operand(call, axes, a->x) || !lki_pool_slide(call, &s, axes, a->size, a->strides) ||
        !lki_padding_fits(call, a->padding, false))
        return &lki_poison;
    const int64_t *n = a->x->shape.dim, channels = n[axes + 1];
    const lk_shape y = lki_slide_output(&s, &a->x->shape, a->padding, channels);
    if (!window_fits(call, &s, &a->x->shape, &y)) return &lki_poison;
    if (axes == 1) return pool_along(op, a->x, 1, s.size[0], s.stride[0], s.pad[0], y.dim[1]);
    const lki_window w = lki_slide_window(&s);
    if (axes == 2) return lki_pool(op, &w, y, a->x);
    const int64_t images = lki_size_mul(n[0], n[1]);
    lk_tensor    *flat = lk_reshape(a->x, LK_SHAPE(images, n[2], n[3], channels));
    flat = lki_pool(op, &w, LK_SHAPE(images, y.dim[2], y.dim[3], channels), flat);
    return pool_along(op, lk_reshape(flat, LK_SHAPE(n[0], n[1], y.dim[2], y.dim[3], channels)), 1, s.size[0], s.stride[0], s.pad[0],
                      y.dim[1]);
}

lk_tensor *lk_nn_max_pool1d_kw(lk_pool_args a) { return pool("lk_nn_max_pool1d", 1, LKI_OP_max_pool, &a); }
lk_tensor *lk_nn_max_pool2d_kw(lk_pool_args a) { return pool("lk_nn_max_pool2d", 2, LKI_OP_max_pool, &a); }
lk_tensor *lk_nn_max_pool3d_kw(lk_pool_args a) { return pool("lk_nn_max_pool3d", 3, LKI_OP_max_pool, &a); }
lk_tensor *lk_nn_avg_pool1d_kw(lk_pool_args a) { return pool("lk_nn_avg_pool1d", 1, LKI_OP_avg_pool, &a); }
lk_tensor *lk_nn_avg_pool2d_kw(lk_pool_args a) { return pool("lk_nn_avg_pool2d", 2, LKI_OP_avg_pool, &a); }
lk_tensor *lk_nn_avg_pool3d_kw(lk_pool_args a) { return pool("lk_nn_avg_pool3d", 3, LKI_OP_avg_pool, &a); }

/* ---- adaptive ---- */

/* Of n cells, result i sees those from i * n / results, rounded down, up to (i + 1) * n / results, rounded up. So there are windows
 * of two sizes, and as in Keras each size is pooled at all places, from which the results are picked. */
static lk_tensor *adapt_along(lki_op op, lk_tensor *x, int axis, int64_t results)
{
    if (lki_bad(x)) return x;
    const int64_t n = x->shape.dim[axis], small = lki_ceil_div(n, results), large = small + 1;
    if (n % results == 0) return small == 1 ? x : pool_along(op, x, axis, small, small, 0, results);
    int64_t *place LKI_RELEASED = lki_alloc_array(results, sizeof *place);
    if (!place) return &lki_poison;
    bool both = false;
    for (int64_t i = 0; i < results; i++) {
        const int64_t from = lki_size_mul(i, n) / results, to = lki_ceil_div(lki_size_mul(i + 1, n), results);
        place[i] = to - from > small ? n - small + 1 + from : from;
        both = both || to - from > small;
    }
    lk_tensor *all = small == 1 ? x : pool_along(op, x, axis, small, 1, 0, n - small + 1);
    if (both) all = lk_concat(LK_TUPLE(all, pool_along(op, x, axis, large, 1, 0, n - large + 1)), axis);
    return lk_gather(all, lk_tensor_from(LK_SHAPE(results), LK_I64, place), axis);
}

static lk_tensor *adapt(const char *call, lki_op op, lk_tensor *x, lk_axes output_size)
{
    int64_t size[LKI_SLIDE_AXES];
    char    text[LKI_SHAPE_TEXT];
    if (!lki_usable(call, "x", x)) return &lki_poison;
    const int axes = x->shape.rank - 2;
    if (axes < 1 || axes > LKI_SLIDE_AXES)
        return lki_refuse(LK_ESHAPE, "%s: x is %s; it should be [n, 1 to 3 axes, channels]", call, lki_shape_text(&x->shape, text));
    if (!lki_axes_of(output_size).count) return lki_refuse(LK_EINVAL, "%s: output_size is missing", call);
    if (!lki_per_axis(call, "output_size", axes, output_size, NULL, 1, size)) return &lki_poison;
    for (int i = 0; i < axes; i++)
        if (x->shape.dim[1 + i] < 1)
            return lki_refuse(LK_ESHAPE, "%s: x is %s; there is nothing to pool", call, lki_shape_text(&x->shape, text));
    for (int i = 0; i < axes; i++)
        x = adapt_along(op, x, 1 + i, size[i]);
    return x;
}

lk_tensor *lk_nn_adaptive_max_pool(lk_tensor *x, lk_axes output_size)
{
    return adapt("lk_nn_adaptive_max_pool", LKI_OP_max_pool, x, output_size);
}

lk_tensor *lk_nn_adaptive_avg_pool(lk_tensor *x, lk_axes output_size)
{
    return adapt("lk_nn_adaptive_avg_pool", LKI_OP_avg_pool, x, output_size);
}
