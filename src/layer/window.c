/* What layers that slide a window over their rows share (window.h). */
#include "layer/window.h"

bool lki_kernel_size(const char *call, int axes, int64_t *kernel_size, lk_axes *kernel_shape)
{
    static const char *const NAMES[] = {"", "one, its length", "two, height and width"};
    if ((*kernel_size != 0) == (kernel_shape->count != 0))
        return lki_fail(LK_EINVAL, "%s: give kernel_size or kernel_shape, %s", call, *kernel_size ? "not both" : "one of them"),
               false;
    if (kernel_shape->count && kernel_shape->count != axes)
        return lki_fail(LK_EINVAL, "%s: kernel_shape has %d sizes; it must have %s", call, kernel_shape->count, NAMES[axes]), false;
    for (int i = 0; *kernel_size && i < axes; i++)
        kernel_shape->value[kernel_shape->count++] = *kernel_size;
    *kernel_size = 0;
    for (int i = 0; i < axes; i++)
        if (kernel_shape->value[i] < 1)
            return lki_fail(LK_EINVAL, "%s: a kernel size of %lld; sizes must be at least 1", call,
                            (long long)kernel_shape->value[i]),
                   false;
    return true;
}

static bool one_value(const char *call, const char *name, const lk_axes *given)
{
    if (given->count == 0 || given->count == 1) return true;
    lki_fail(LK_EINVAL, "%s: %s has %d values; in one dimension it is one", call, name, given->count);
    return false;
}

static lk_axes of_width(const lk_axes *given) { return given->count ? LK_AXES(1, given->value[0]) : *given; }

bool lki_window_along(const char *call, int axes, lki_window *w, const lk_axes *size, const lk_axes *strides,
                      const lk_axes *dilation)
{
    if (axes == 2) return lki_window_of(call, w, size->value, strides, dilation);
    if (!one_value(call, "strides", strides) || !one_value(call, "dilation", dilation)) return false;
    lk_axes wide = of_width(strides), apart = of_width(dilation);
    return lki_window_of(call, w, (const int64_t[]){1, size->value[0]}, &wide, &apart);
}

bool lki_conv_fits(const char *call, int axes, lk_conv_layer_args *a)
{
    lki_window w;
    if (a->filters < 1)
        return lki_fail(LK_EINVAL, "%s: filters is %lld; it must be at least 1", call, (long long)a->filters), false;
    return lki_kernel_size(call, axes, &a->kernel_size, &a->kernel_shape) &&
           lki_window_along(call, axes, &w, &a->kernel_shape, &a->strides, &a->dilation) &&
           lki_padding_fits(call, a->padding, axes == 1) && lki_activation_fits(call, a->activation);
}

bool lki_depth_fits(const char *call, int64_t *depth_multiplier)
{
    if (!*depth_multiplier) *depth_multiplier = 1;
    if (*depth_multiplier >= 1 && *depth_multiplier <= INT32_MAX) return true;
    lki_fail(LK_EINVAL, "%s: depth_multiplier is %lld; it must be at least 1, at most %d", call, (long long)*depth_multiplier,
             INT32_MAX);
    return false;
}

lk_status lki_layer_channels(const lk_layer *l, int axes, const lk_shape *in, int64_t made_for)
{
    if (in->rank != axes + 1)
        return lki_layer_refuse(l, in, "a row should be %s", axes == 1 ? "[steps, channels]" : "[height, width, channels]");
    int64_t channels = in->dim[axes];
    if (channels < 0) return lki_layer_refuse(l, in, "the channels need a fixed number");
    if (made_for >= 0 && channels != made_for)
        return lki_layer_refuse(l, in, "there should be %lld channels, what its kernel was made for", (long long)made_for);
    return LK_OK;
}

lk_status lki_layer_window(const lk_layer *l, lki_window *w, const lk_shape *in, lk_padding padding, int64_t channels,
                           lk_shape *out)
{
    const int64_t large = 1 << 20; /* what fits always, for a size that is not known */
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
