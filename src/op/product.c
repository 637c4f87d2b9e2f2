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
static int64_t reach_of(const lki_slide *s, int i) { return lki_size_add(lki_size_mul(s->size[i] - 1, s->dilation[i]), 1); }

/* Cells before the image, and how many outputs there are, along one axis. */
static void place_window(lki_slide *s, int i, int64_t in, lk_padding padding, int64_t *out)
{
    int64_t reach = reach_of(s, i);
    if (padding == LK_VALID) {
        s->pad[i] = 0;
        *out = in >= reach ? (in - reach) / s->stride[i] + 1 : 0;
        return;
    }
    *out = lki_ceil_div(in, s->stride[i]);
    int64_t all = padding == LK_CAUSAL ? reach - 1 : lki_max(0, lki_size_add(lki_size_mul(*out - 1, s->stride[i]), reach) - in);
    s->pad[i] = padding == LK_CAUSAL ? all : all / 2;
}

bool lki_per_axis(const char *call, const char *name, int axes, lk_axes list, const int64_t *otherwise, int64_t least, int64_t *out)
{
    static const char *const COUNTS[] = {"", "one value", "one or two values", "one or three values"};
    const lki_axes           given = lki_axes_of(list);
    if (axes == 1 && given.count > 1)
        return lki_fail(LK_EINVAL, "%s: %s has %d values; in one dimension it is one", call, name, given.count), false;
    bool good = given.count == 0 || given.count == 1 || given.count == axes;
    for (int i = 0; i < axes && good; i++) {
        out[i] = given.count == 0 ? otherwise[i] : given.value[given.count == 1 ? 0 : i];
        good = out[i] >= least && out[i] <= INT32_MAX;
    }
    if (!good)
        lki_fail(LK_EINVAL, "%s: %s must be %s of %lld or more, at most %d", call, name, COUNTS[axes], (long long)least, INT32_MAX);
    return good;
}

bool lki_padding_fits(const char *call, lk_padding padding, bool causal_allowed)
{
    if (padding == LK_VALID || padding == LK_SAME || (padding == LK_CAUSAL && causal_allowed)) return true;
    if (padding == LK_CAUSAL)
        lki_fail(LK_EINVAL, "%s: LK_CAUSAL padding is for convolutions in one dimension; use LK_SAME or LK_VALID", call);
    else lki_fail(LK_EINVAL, "%s: there is no padding %d; use LK_SAME or LK_VALID", call, (int)padding);
    return false;
}

bool lki_slide_of(const char *call, lki_slide *s, int axes, const int64_t *size, lk_axes strides, lk_axes dilation)
{
    static const int64_t ones[LKI_SLIDE_AXES] = {1, 1, 1};
    *s = (lki_slide){.axes = axes};
    for (int i = 0; i < axes; i++)
        s->size[i] = size[i];
    return lki_per_axis(call, "strides", axes, strides, ones, 1, s->stride) &&
           lki_per_axis(call, "dilation", axes, dilation, ones, 1, s->dilation);
}

bool lki_pool_slide(const char *call, lki_slide *s, int axes, lk_axes size, lk_axes strides)
{
    static const int64_t twos[LKI_SLIDE_AXES] = {2, 2, 2};
    *s = (lki_slide){.axes = axes, .dilation = {1, 1, 1}};
    return lki_per_axis(call, "size", axes, size, twos, 1, s->size) &&
           lki_per_axis(call, "strides", axes, strides, s->size, 1, s->stride);
}

lki_window lki_slide_window(const lki_slide *s)
{
    lki_window w = {{1, 1}, {1, 1}, {1, 1}, {0, 0}};
    for (int i = s->axes > 1 ? 0 : 1; i < 2; i++) {
        const int axis = s->axes - 2 + i;
        w.size[i] = s->size[axis], w.stride[i] = s->stride[axis], w.dilation[i] = s->dilation[axis], w.pad[i] = s->pad[axis];
    }
    return w;
}

lk_shape lki_slide_output(lki_slide *s, const lk_shape *x, lk_padding padding, int64_t channels)
{
    lk_shape y = {.rank = s->axes + 2, .dim = {x->dim[0]}};
    for (int i = 0; i < s->axes; i++)
        place_window(s, i, x->dim[1 + i], padding, &y.dim[1 + i]);
    y.dim[s->axes + 1] = channels;
    return y;
}

lk_shape lki_slide_input(lki_slide *s, const lk_shape *x, lk_padding padding, const int64_t *more, int64_t channels)
{
    lk_shape y = {.rank = s->axes + 2, .dim = {x->dim[0]}};
    for (int i = 0; i < s->axes; i++) {
        const int64_t in = x->dim[1 + i], stride = s->stride[i], reach = reach_of(s, i);
        const int64_t whole = padding == LK_SAME ? (more ? reach % 2 + more[i] : stride)
                                                 : (more ? lki_size_add(reach, more[i]) : lki_max(reach, stride));
        int64_t       out;
        y.dim[1 + i] = lki_size_add(lki_size_mul(in - 1, stride), whole);
        place_window(s, i, y.dim[1 + i], padding, &out);
        if (out != in) y.dim[1 + i] = 0;
    }
    y.dim[s->axes + 1] = channels;
    return y;
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
