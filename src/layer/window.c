/* What layers that slide a window over their rows share (window.h). */
#include "layer/window.h"

bool lki_kernel_size(const char *call, int axes, int64_t *kernel_size, lk_axes *kernel_shape)
{
    static const char *const NAMES[] = {"", "one, its length", "two, height and width"};
    lki_axes                 shape = lki_axes_of(*kernel_shape);
    if (shape.count < 0) return false; /* LK_AXES reported it */
    if ((*kernel_size != 0) == (shape.count != 0))
        return lki_fail(LK_EINVAL, "%s: give kernel_size or kernel_shape, %s", call, *kernel_size ? "not both" : "one of them"),
               false;
    if (shape.count && shape.count != axes)
        return lki_fail(LK_EINVAL, "%s: kernel_shape has %d sizes; it must have %s", call, shape.count, NAMES[axes]), false;
    for (int i = 0; *kernel_size && i < axes; i++)
        shape.value[shape.count++] = *kernel_size;
    for (int i = 0; i < axes; i++)
        if (shape.value[i] < 1)
            return lki_fail(LK_EINVAL, "%s: a kernel size of %lld; sizes must be at least 1", call, (long long)shape.value[i]),
                   false;
    *kernel_size = 0;
    *kernel_shape = lki_axes_list(&shape);
    return true;
}

static bool one_value(const char *call, const char *name, const lki_axes *given)
{
    if (given->count == 0 || given->count == 1) return true;
    lki_fail(LK_EINVAL, "%s: %s has %d values; in one dimension it is one", call, name, given->count);
    return false;
}

/* An option for one axis as the option for images of height 1. */
static bool of_width(const char *call, const char *name, lk_axes *option)
{
    const lki_axes given = lki_axes_of(*option);
    if (!one_value(call, name, &given)) return false;
    if (given.count) *option = LK_AXES(1, given.value[0]);
    return true;
}

bool lki_window_along(const char *call, int axes, lki_window *w, lk_axes size, lk_axes strides, lk_axes dilation)
{
    const lki_axes sizes = lki_axes_of(size);
    if (axes == 2) return lki_window_of(call, w, sizes.value, strides, dilation);
    if (!of_width(call, "strides", &strides) || !of_width(call, "dilation", &dilation)) return false;
    return lki_window_of(call, w, (const int64_t[]){1, sizes.value[0]}, strides, dilation);
}

bool lki_conv_fits(const char *call, int axes, lk_conv_layer_args *a)
{
    lki_window w;
    if (a->filters < 1)
        return lki_fail(LK_EINVAL, "%s: filters is %lld; it must be at least 1", call, (long long)a->filters), false;
    return lki_kernel_size(call, axes, &a->kernel_size, &a->kernel_shape) &&
           lki_window_along(call, axes, &w, a->kernel_shape, a->strides, a->dilation) &&
           lki_padding_fits(call, a->padding, axes == 1) && lki_activation_fits(call, a->activation);
}

lk_status lki_conv_build(lk_layer *l, const lk_conv_layer_args *a, lk_shape kernel)
{
    LKI_TRY(lki_layer_weight(l, LKI_WEIGHT(a, kernel, lki_first_glorot_uniform), kernel));
    if (a->use_bias == LK_OFF) return LK_OK;
    return lki_layer_weight(l, LKI_WEIGHT(a, bias, lki_first_zeros), LK_SHAPE(a->filters));
}

bool lki_depth_fits(const char *call, lk_integer *depth_multiplier)
{
    const int64_t depth = lki_integer_or(*depth_multiplier, 1);
    *depth_multiplier = depth;
    if (depth >= 1 && depth <= INT32_MAX) return true;
    lki_fail(LK_EINVAL, "%s: depth_multiplier is %lld; it must be at least 1, at most %d", call, (long long)depth, INT32_MAX);
    return false;
}

lk_status lki_layer_channels(const lk_layer *l, int axes, const lk_shape *in, int64_t made_for)
{
    if (in->rank != axes + 1)
        return lki_layer_refuse(l, in, "a row should be %s", axes == 1 ? "[steps, channels]" : "[height, width, channels]");
    int64_t channels = in->dim[axes];
    if (channels < 0) return lki_layer_refuse(l, in, "the channels need a fixed number");
    if (made_for >= 0 && channels != made_for)
        return lki_layer_refuse(l, in, "there should be %lld channels, as when its kernel was made", (long long)made_for);
    return LK_OK;
}

lk_status lki_layer_window(const lk_layer *l, lki_window *w, const lk_shape *in, lk_padding padding, int64_t channels,
                           lk_shape *out)
{
    const int64_t large = 1 << 20; /* large enough for any window, for an unknown size */
    const int     axes = in->rank - 1;
    const int64_t height = axes == 1 ? 1 : in->dim[0], width = in->dim[axes - 1];
    lk_shape      image = LK_SHAPE(1, height < 0 ? large : height, width < 0 ? large : width, in->dim[axes]);
    lk_shape      y = lki_window_output(w, &image, padding, channels);
    if (y.dim[1] < 1 || y.dim[2] < 1)
        return lki_layer_refuse(l, in, "a window of %lld x %lld does not fit; use LK_SAME or a smaller one", (long long)w->size[0],
                                (long long)w->size[1]);
    *out = (lk_shape){.rank = in->rank, .dim = {height < 0 ? -1 : y.dim[1]}};
    out->dim[axes - 1] = width < 0 ? -1 : y.dim[2];
    out->dim[axes] = channels;
    return LK_OK;
}
