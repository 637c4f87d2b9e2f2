/* Products: matrix product, convolutions and pooling as ops. Padding words are converted to numbers here. */
#include "op/product.h"
#include <lockstep/ops.h>

lk_tensor *lk_matmul_kw(lk_matmul_args args)
{
    lki_attr attr = {.matmul = {.ta = args.transpose_a == LK_ON, .tb = args.transpose_b == LK_ON}};
    return lki_apply2(LKI_OP_matmul, &attr, args.a, args.b);
}

lk_tensor *lki_matmul_heads(lk_tensor *a, bool transpose_a, lk_tensor *b, bool transpose_b, int heads)
{
    lki_attr attr = {.matmul = {.ta = transpose_a, .tb = transpose_b, .heads = heads}};
    return lki_apply2(LKI_OP_matmul, &attr, a, b);
}

/* Cells from the first to the last that a window reads. */
static int64_t reach_of(const lki_window *w, int i) { return lki_size_add(lki_size_mul(w->size[i] - 1, w->dilation[i]), 1); }

/* Cells before the image, and how many outputs there are, along one direction. */
static void place_window(lki_window *w, int i, int64_t in, lk_padding padding, int64_t *out)
{
    int64_t reach = reach_of(w, i);
    if (padding == LK_VALID) {
        w->pad[i] = 0;
        *out = in >= reach ? (in - reach) / w->stride[i] + 1 : 0;
        return;
    }
    *out = lki_ceil_div(in, w->stride[i]);
    int64_t all = padding == LK_CAUSAL ? reach - 1 : lki_max(0, lki_size_add(lki_size_mul(*out - 1, w->stride[i]), reach) - in);
    w->pad[i] = padding == LK_CAUSAL ? all : all / 2;
}

/* One value is used for both directions; an empty list means `otherwise`. */
static bool pair_of(const char *call, const char *name, lk_axes list, const int64_t *otherwise, int64_t *out)
{
    const lki_axes given = lki_axes_of(list);
    for (int i = 0; i < 2; i++) {
        out[i] = given.count == 0 ? otherwise[i] : given.value[given.count == 1 ? 0 : i];
        if (out[i] < 1 || out[i] > INT32_MAX || given.count > 2 || given.count < 0)
            return lki_fail(LK_EINVAL, "%s: %s must be one or two values of 1 or more, at most %d", call, name, INT32_MAX), false;
    }
    return true;
}

bool lki_padding_fits(const char *call, lk_padding padding, bool causal_allowed)
{
    if (padding == LK_VALID || padding == LK_SAME || (padding == LK_CAUSAL && causal_allowed)) return true;
    if (padding == LK_CAUSAL)
        lki_fail(LK_EINVAL, "%s: LK_CAUSAL padding is for convolutions in one dimension; use LK_SAME or LK_VALID", call);
    else lki_fail(LK_EINVAL, "%s: there is no padding %d; use LK_SAME or LK_VALID", call, (int)padding);
    return false;
}

bool lki_window_of(const char *call, lki_window *w, const int64_t *size, lk_axes strides, lk_axes dilation)
{
    static const int64_t ones[2] = {1, 1};
    w->size[0] = size[0];
    w->size[1] = size[1];
    return pair_of(call, "strides", strides, ones, w->stride) && pair_of(call, "dilation", dilation, ones, w->dilation);
}

bool lki_pool_window(const char *call, lki_window *w, lk_axes size, lk_axes strides)
{
    static const int64_t twos[2] = {2, 2};
    w->dilation[0] = w->dilation[1] = 1;
    return pair_of(call, "size", size, twos, w->size) && pair_of(call, "strides", strides, w->size, w->stride);
}

lk_shape lki_window_output(lki_window *w, const lk_shape *image, lk_padding padding, int64_t channels)
{
    lk_shape y = {4, {image->dim[0], 0, 0, channels}};
    for (int i = 0; i < 2; i++)
        place_window(w, i, image->dim[1 + i], padding, &y.dim[1 + i]);
    return y;
}

lk_shape lki_window_input(lki_window *w, const lk_shape *image, lk_padding padding, int64_t channels)
{
    lk_shape x = {4, {image->dim[0], 0, 0, channels}};
    for (int i = 0; i < 2; i++) {
        int64_t in = image->dim[1 + i], stride = w->stride[i], out;
        x.dim[1 + i] = padding == LK_SAME ? lki_size_mul(in, stride)
                                          : lki_size_add(lki_size_mul(in - 1, stride), lki_max(reach_of(w, i), stride));
        place_window(w, i, x.dim[1 + i], padding, &out);
    }
    return x;
}

static lk_tensor *windowed(lki_op op, const lki_window *w, lk_shape shape, lk_tensor *a, lk_tensor *b)
{
    lki_attr attr = {.shape = shape, .window = *w};
    return b ? lki_apply2(op, &attr, a, b) : lki_apply1(op, &attr, a);
}

lk_tensor *lki_conv2d(lki_op op, const lki_window *w, lk_shape shape, lk_tensor *a, lk_tensor *b)
{
    if (lki_bad(a) || lki_bad(b)) return &lki_poison;
    return windowed(op, w, shape, a, b);
}

lk_tensor *lki_pool(lki_op op, const lki_window *w, lk_shape shape, lk_tensor *x) { return windowed(op, w, shape, x, NULL); }
