/* Convolutions as functions of tensors: along 1 to 3 axes, in groups, channel by channel, transposed.
 *
 * The ops are those of images. A row of steps is an image of height 1. Along a depth, the images under a window are put side by
 * side in the channels, and all images of all depths are convolved at once:
 *
 *     x       [n, depth, h, w, c]        ->  [n * results, h, w, size * c]
 *     kernel  [size, kh, kw, c, out]     ->  [kh, kw, size * c, out]
 *
 * The transposed convolution takes the same steps backwards. So the order of a sum is that of conv2d, with the place along the
 * depth in front of the channel: kh, kw, kd, in. */
#include "core/memory.h"
#include "nn/finish.h"
#include "op/gradient.h"
#include "op/product.h"

/* By the number of axes. */
static const char *const ROWS[] = {"", "[n, steps, in]", "[n, height, width, channels]", "[n, depth, height, width, channels]"};
static const char *const KERNELS[] = {"", "[size, in, out]", "[height, width, in, out]", "[depth, height, width, in, out]"};

static bool operands(const char *call, int axes, const lk_conv_args *a, lki_slide *s, bool causal_allowed)
{
    char x[LKI_SHAPE_TEXT], k[LKI_SHAPE_TEXT];
    if (!a->x || !a->kernel) lki_fail(LK_EINVAL, "%s: %s is missing", call, a->x ? "kernel" : "x");
    if (lki_bad(a->x) || lki_bad(a->kernel)) return false;
    if (a->x->shape.rank != axes + 2 || a->kernel->shape.rank != axes + 2)
        return lki_fail(LK_ESHAPE, "%s: x %s and kernel %s must have rank %d: %s and %s", call, lki_shape_text(&a->x->shape, x),
                        lki_shape_text(&a->kernel->shape, k), axes + 2, ROWS[axes], KERNELS[axes]),
               false;
    return lki_slide_of(call, s, axes, a->kernel->shape.dim, a->strides, a->dilation) &&
           lki_padding_fits(call, a->padding, causal_allowed);
}

/* Options of other functions than this one. */
static bool no_others(const char *call, const lk_conv_args *a, bool grouped, bool transposed)
{
    if (a->pointwise) return lki_fail(LK_EINVAL, "%s: pointwise is for separable convolutions", call), false;
    if (!grouped && lki_integer_given(a->groups)) return lki_fail(LK_EINVAL, "%s: groups are for plain convolutions", call), false;
    if (!transposed && lki_axes_of(a->output_padding).count)
        return lki_fail(LK_EINVAL, "%s: output_padding is for transposed convolutions", call), false;
    return true;
}

/* ---- images ---- */

/* Result channel q of group g = q / (out / groups) is computed from the channels of group g of x: kernel [kh, kw, in, out] with
 * in = channels / groups. */
static lk_tensor *convolve_groups(const lki_window *w, lk_shape y, lk_tensor *x, lk_tensor *kernel, int64_t groups)
{
    if (groups == 1 || lki_bad(x) || lki_bad(kernel)) return lki_conv2d(LKI_OP_conv2d, w, y, x, kernel);
    const int64_t *k = kernel->shape.dim;
    if (k[2] == 1) return lki_conv2d(LKI_OP_depthwise, w, y, x, lk_reshape(kernel, LK_SHAPE(k[0], k[1], groups, k[3] / groups)));
    return lki_conv2d(LKI_OP_grouped, w, y, x, kernel);
}

/* Axis `axes - 2` and what follows it as images: rows of steps get a height of 1, volumes are a batch of images. */
static lk_shape images_of(const lk_shape *s)
{
    if (s->rank == 3) return LK_SHAPE(s->dim[0], 1, s->dim[1], s->dim[2]);
    if (s->rank == 5) return LK_SHAPE(lki_size_mul(s->dim[0], s->dim[1]), s->dim[2], s->dim[3], s->dim[4]);
    return *s;
}

static lk_tensor *as_images(lk_tensor *x) { return lki_bad(x) || x->shape.rank == 4 ? x : lk_reshape(x, images_of(&x->shape)); }

static lk_tensor *as_image_kernel(lk_tensor *w) { return lki_bad(w) || w->shape.rank == 4 ? w : lk_expand_dims(w, 0); }

/* ---- along the depth ---- */

static lk_shape with_depth(const lk_shape *s, int64_t depth)
{
    lk_shape out = *s;
    out.dim[1] = depth;
    return out;
}

static lki_attr every_attr(lk_shape shape, int64_t first, int64_t step)
{
    lki_attr attr = {.shape = shape, .slice = {.begin = {0, first}, .stride = {1, step, 1, 1, 1}}};
    return attr;
}

/* `count` entries of axis 1: the first, and others `step` apart. */
static lk_tensor *every(lk_tensor *x, int64_t first, int64_t step, int64_t count)
{
    if (lki_bad(x)) return x;
    const lki_attr attr = every_attr(with_depth(&x->shape, count), first, step);
    return lki_apply1(LKI_OP_slice, &attr, x);
}

/* The other way: x among zeros. */
static lk_tensor *among_zeros(lk_tensor *x, int64_t first, int64_t step, int64_t count)
{
    if (lki_bad(x)) return x;
    const lki_attr attr = every_attr(with_depth(&x->shape, count), first, step);
    return lki_apply1(LKI_OP_unslice, &attr, x);
}

/* `count` entries of axis 1 from entry `first` on, which may be negative; zeros for those that x does not have. */
static lk_tensor *framed(lk_tensor *x, int64_t first, int64_t count)
{
    if (lki_bad(x)) return x;
    const int64_t before = lki_max(-first, 0), after = lki_max(lki_size_add(first, count) - x->shape.dim[1], 0);
    if (before || after) x = lk_pad(x, .before = LK_AXES(0, before, 0, 0, 0), .after = LK_AXES(0, after, 0, 0, 0));
    if (lki_bad(x) || x->shape.dim[1] == count) return x;
    return every(x, first + before, 1, count);
}

/* Cells along the depth that all windows together read. */
static int64_t span_of(const lki_slide *s, int64_t results)
{
    const int64_t reach = lki_size_add(lki_size_mul(s->size[0] - 1, s->dilation[0]), 1);
    return lki_size_add(lki_size_mul(results - 1, s->stride[0]), reach);
}

/* [n, depth, h, w, groups * c] to [n, results, h, w, groups * size * c]: under each window, its images side by side. */
static lk_tensor *side_by_side(lk_tensor *x, const lki_slide *s, int64_t results, int64_t groups)
{
    const int64_t size = s->size[0];
    lk_tensor   **part LKI_RELEASED = lki_alloc_array(size, sizeof *part);
    x = framed(x, -s->pad[0], span_of(s, results));
    if (!part || lki_bad(x)) return &lki_poison;
    const int64_t *n = x->shape.dim, c = n[4] / groups;
    lk_shape       parted = LK_SHAPE(n[0], results, n[2], n[3], groups, c);
    lk_shape       joined = LK_SHAPE(n[0], results, n[2], n[3], lki_size_mul(n[4], size));
    for (int64_t k = 0; k < size; k++) {
        part[k] = every(x, lki_size_mul(k, s->dilation[0]), s->stride[0], results);
        if (groups > 1) part[k] = lk_reshape(part[k], parted);
    }
    if (size == 1) return groups > 1 ? lk_reshape(part[0], joined) : part[0];
    return lk_reshape(lk_concat((lk_tuple){(int)size, part}, -1), joined);
}

/* The other way, without groups: images that lie in several windows are added up, in the order of their places. */
static lk_tensor *spread_out(lk_tensor *y, const lki_slide *s, int64_t depth)
{
    if (lki_bad(y)) return y;
    const int64_t *n = y->shape.dim, size = s->size[0], c = n[4] / size, span = span_of(s, n[1]);
    lk_tensor     *sum = NULL;
    for (int64_t k = 0; k < size; k++) {
        lk_tensor *part = lk_slice(y, LK_AXES(0, 0, 0, 0, k * c), LK_AXES(n[0], n[1], n[2], n[3], c));
        part = among_zeros(part, lki_size_mul(k, s->dilation[0]), s->stride[0], span);
        sum = sum ? lk_add(sum, part) : part;
    }
    return framed(sum, s->pad[0], depth);
}

/* [size, kh, kw, in, out] to [kh, kw, size * in, out]. */
static lk_tensor *flat_kernel(lk_tensor *w)
{
    if (lki_bad(w)) return w;
    const int64_t *k = w->shape.dim;
    return lk_reshape(lk_transpose(w, LK_AXES(1, 2, 0, 3, 4)), LK_SHAPE(k[1], k[2], lki_size_mul(k[0], k[3]), k[4]));
}

/* ---- convolutions ---- */

static bool groups_fit(const char *call, int axes, const lk_conv_args *a, int64_t *groups)
{
    const int64_t channels = a->x->shape.dim[axes + 1], in = a->kernel->shape.dim[axes], out = a->kernel->shape.dim[axes + 1];
    *groups = lki_integer_or(a->groups, 1);
    if (*groups == 1) return true; /* the op checks the rest */
    if (*groups >= 1 && out % *groups == 0 && lki_size_mul(in, *groups) == channels) return true;
    return lki_fail(LK_ESHAPE,
                    "%s: %lld channels in %lld groups and a kernel of %lld channels and %lld results: "
                    "each group needs as many channels as the kernel has, and the same number of results",
                    call, (long long)channels, (long long)lki_integer_or(a->groups, 1), (long long)in, (long long)out),
           false;
}

/* A window that does not fit along the depth; the ops check the other axes. */
static bool depth_fits(const char *call, const lki_slide *s, const lk_shape *x, const lk_shape *y)
{
    if (s->axes < 3 || (y->dim[1] >= 1 && s->size[0] >= 1)) return true;
    return lki_fail(LK_ESHAPE,
                    "%s: a kernel of depth %lld (with its dilation) does not fit into depth %lld; pad the rows or use LK_SAME",
                    call, (long long)s->size[0], (long long)x->dim[1]),
           false;
}

static lk_tensor *plain(const char *call, int axes, const lk_conv_args *a)
{
    lki_slide s;
    int64_t   groups;
    if (!no_others(call, a, true, false) || !operands(call, axes, a, &s, axes == 1) || !groups_fit(call, axes, a, &groups))
        return &lki_poison;
    const lk_shape   y = lki_slide_output(&s, &a->x->shape, a->padding, a->kernel->shape.dim[axes + 1]);
    const lki_window w = lki_slide_window(&s);
    if (!depth_fits(call, &s, &a->x->shape, &y)) return &lki_poison;
    lk_tensor *x = axes == 3 ? side_by_side(a->x, &s, y.dim[1], groups) : a->x;
    lk_tensor *kernel = axes == 3 ? flat_kernel(a->kernel) : as_image_kernel(a->kernel);
    return lki_finish(convolve_groups(&w, images_of(&y), as_images(x), kernel, groups), &y, a->bias, a->activation);
}

lk_tensor *lk_nn_conv1d_kw(lk_conv_args a) { return plain("lk_nn_conv1d", 1, &a); }
lk_tensor *lk_nn_conv2d_kw(lk_conv_args a) { return plain("lk_nn_conv2d", 2, &a); }
lk_tensor *lk_nn_conv3d_kw(lk_conv_args a) { return plain("lk_nn_conv3d", 3, &a); }

/* ---- channel by channel ---- */

/* x as images, each channel convolved with its kernels; *y is the shape with the axes of x. */
static lk_tensor *each_channel(const char *call, int axes, const lk_conv_args *a, lk_shape *y)
{
    lki_slide s;
    if (!operands(call, axes, a, &s, false)) return &lki_poison;
    const lk_shape *k = &a->kernel->shape;
    *y = lki_slide_output(&s, &a->x->shape, a->padding, lki_size_mul(k->dim[axes], k->dim[axes + 1]));
    const lki_window w = lki_slide_window(&s);
    return lki_conv2d(LKI_OP_depthwise, &w, images_of(y), as_images(a->x), as_image_kernel(a->kernel));
}

static lk_tensor *depthwise(const char *call, int axes, const lk_conv_args *a)
{
    lk_shape y = {0};
    if (!no_others(call, a, false, false)) return &lki_poison;
    return lki_finish(each_channel(call, axes, a, &y), &y, a->bias, a->activation);
}

lk_tensor *lk_nn_depthwise_conv1d_kw(lk_conv_args a) { return depthwise("lk_nn_depthwise_conv1d", 1, &a); }
lk_tensor *lk_nn_depthwise_conv2d_kw(lk_conv_args a) { return depthwise("lk_nn_depthwise_conv2d", 2, &a); }

static lk_tensor *separable(const char *call, int axes, lk_conv_args a)
{
    lk_shape   y = {0};
    lk_tensor *pointwise = a.pointwise;
    if (!pointwise) return lki_refuse(LK_EINVAL, "%s: the pointwise kernel is missing", call);
    a.pointwise = NULL;
    if (!no_others(call, &a, false, false)) return &lki_poison;
    lk_conv_args point = {.x = each_channel(call, axes, &a, &y), .kernel = as_image_kernel(pointwise)};
    lki_slide    s;
    if (!operands(call, 2, &point, &s, false)) return &lki_poison;
    const lk_shape   flat = lki_slide_output(&s, &point.x->shape, LK_VALID, point.kernel->shape.dim[3]);
    const lki_window w = lki_slide_window(&s);
    y.dim[axes + 1] = flat.dim[3];
    return lki_finish(lki_conv2d(LKI_OP_conv2d, &w, flat, point.x, point.kernel), &y, a.bias, a.activation);
}

lk_tensor *lk_nn_separable_conv1d_kw(lk_conv_args a) { return separable("lk_nn_separable_conv1d", 1, a); }
lk_tensor *lk_nn_separable_conv2d_kw(lk_conv_args a) { return separable("lk_nn_separable_conv2d", 2, a); }

/* ---- transposed ---- */

/* The gradient of a convolution for its input: kernel [..., out, in]. */
static lk_tensor *transposed(const char *call, int axes, const lk_conv_args *a)
{
    static const int64_t zeros[LKI_SLIDE_AXES] = {0};
    int64_t              more[LKI_SLIDE_AXES];
    lki_slide            s;
    if (!no_others(call, a, false, true) || !operands(call, axes, a, &s, false) ||
        !lki_per_axis(call, "output_padding", axes, a->output_padding, zeros, 0, more))
        return &lki_poison;
    const bool     given = lki_axes_of(a->output_padding).count > 0;
    const lk_shape y = lki_slide_input(&s, &a->x->shape, a->padding, given ? more : NULL, a->kernel->shape.dim[axes]);
    for (int i = 0; i < axes && given; i++)
        if (y.dim[1 + i] < 1)
            return lki_refuse(LK_EINVAL, "%s: no convolution of the result has %lld results again with an output_padding of %lld",
                              call, (long long)a->x->shape.dim[1 + i], (long long)more[i]);
    const lki_window w = lki_slide_window(&s);
    if (axes < 3)
        return lki_finish(lki_conv2d(LKI_OP_conv2d_grad_x, &w, images_of(&y), as_images(a->x), as_image_kernel(a->kernel)), &y,
                          a->bias, a->activation);
    if (s.size[0] < 1) return lki_refuse(LK_ESHAPE, "%s: a kernel has at least 1 x 1 x 1 cells", call);
    const lk_shape wide = LK_SHAPE(y.dim[0], a->x->shape.dim[1], y.dim[2], y.dim[3], lki_size_mul(y.dim[4], s.size[0]));
    lk_tensor     *sums = lki_conv2d(LKI_OP_conv2d_grad_x, &w, images_of(&wide), as_images(a->x), flat_kernel(a->kernel));
    return lki_finish(spread_out(lk_reshape(sums, wide), &s, y.dim[1]), &y, a->bias, a->activation);
}

lk_tensor *lk_nn_conv1d_transpose_kw(lk_conv_args a) { return transposed("lk_nn_conv1d_transpose", 1, &a); }
lk_tensor *lk_nn_conv2d_transpose_kw(lk_conv_args a) { return transposed("lk_nn_conv2d_transpose", 2, &a); }
lk_tensor *lk_nn_conv3d_transpose_kw(lk_conv_args a) { return transposed("lk_nn_conv3d_transpose", 3, &a); }
