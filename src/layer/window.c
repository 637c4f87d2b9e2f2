/* What layers that slide a window over their rows share (window.h). */
#include "layer/window.h"

bool lki_kernel_size(const char *call, int axes, int64_t *kernel_size, lk_axes *kernel_shape)
{
    static const char *const NAMES[] = {"", "one, its length", "two, height and width", "three, depth, height and width"};
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

int lki_kernel_axes(lk_axes kernel_shape) { return lki_axes_of(kernel_shape).count; }

lki_slide lki_kernel_slide(lk_axes kernel_shape, lk_axes strides, lk_axes dilation)
{
    const lki_axes size = lki_axes_of(kernel_shape);
    lki_slide      s;
    lki_slide_of("a layer", &s, size.count, size.value, strides, dilation); /* checked when it was made */
    return s;
}

static bool groups_fit(const char *call, const lk_conv_layer_args *a)
{
    const int64_t groups = lki_integer_or(a->groups, 1);
    if (groups < 1) return lki_fail(LK_EINVAL, "%s: groups is %lld; it must be at least 1", call, (long long)groups), false;
    if (a->filters % groups)
        return lki_fail(LK_EINVAL, "%s: %lld filters cannot be divided into %lld groups", call, (long long)a->filters,
                        (long long)groups),
               false;
    return true;
}

bool lki_conv_fits(const char *call, int axes, lk_conv_layer_args *a)
{
    lki_slide s;
    if (a->filters < 1)
        return lki_fail(LK_EINVAL, "%s: filters is %lld; it must be at least 1", call, (long long)a->filters), false;
    return lki_kernel_size(call, axes, &a->kernel_size, &a->kernel_shape) &&
           lki_slide_of(call, &s, axes, lki_axes_of(a->kernel_shape).value, a->strides, a->dilation) &&
           lki_padding_fits(call, a->padding, axes == 1) && groups_fit(call, a) && lki_data_format_fits(call, a->data_format) &&
           lki_activation_fits(call, a->activation);
}

lk_shape lki_kernel_of(lk_axes kernel_shape, int64_t in, int64_t out)
{
    const lki_axes size = lki_axes_of(kernel_shape);
    lk_shape       kernel = {.rank = size.count + 2};
    for (int i = 0; i < size.count; i++)
        kernel.dim[i] = size.value[i];
    kernel.dim[size.count] = in;
    kernel.dim[size.count + 1] = out;
    return kernel;
}

lk_status lki_conv_build(lk_layer *l, const lk_conv_layer_args *a, int64_t in, int64_t out)
{
    LKI_TRY(lki_layer_weight(l, LKI_WEIGHT(a, kernel, lki_first_glorot_uniform), lki_kernel_of(a->kernel_shape, in, out)));
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

lk_activation lki_activation_before(lk_data_format format, lk_activation activation, lk_activation *after)
{
    const bool moves = format == LK_CHANNELS_FIRST && activation != LK_RELU;
    *after = moves ? activation : LK_LINEAR;
    return moves ? LK_LINEAR : activation;
}

lk_status lki_layer_channels(const lk_layer *l, const lk_shape *in, const lk_shape *row, int64_t made_for)
{
    const int64_t channels = row->dim[row->rank - 1];
    if (channels < 0) return lki_layer_refuse(l, in, "the channels need a fixed number");
    if (made_for >= 0 && channels != made_for)
        return lki_layer_refuse(l, in, "there should be %lld channels, as when its kernel was made", (long long)made_for);
    return LK_OK;
}

static lk_status refuse_window(const lk_layer *l, const lk_shape *in, const lki_slide *s)
{
    if (s->axes == 3)
        return lki_layer_refuse(l, in, "a window of %lld x %lld x %lld does not fit; use LK_SAME or a smaller one",
                                (long long)s->size[0], (long long)s->size[1], (long long)s->size[2]);
    return lki_layer_refuse(l, in, "a window of %lld x %lld does not fit; use LK_SAME or a smaller one",
                            s->axes == 1 ? 1 : (long long)s->size[0], (long long)s->size[s->axes - 1]);
}

lk_status lki_layer_window(const lk_layer *l, lki_slide *s, const lk_shape *in, const lk_shape *row, lk_padding padding,
                           int64_t channels, lk_data_format format, lk_shape *out)
{
    const int64_t large = 1 << 20; /* large enough for any window, for an unknown size */
    lk_shape      x = {.rank = s->axes + 2, .dim = {1}}, y = *row;
    for (int i = 0; i < s->axes; i++)
        x.dim[1 + i] = row->dim[i] < 0 ? large : row->dim[i];
    const lk_shape result = lki_slide_output(s, &x, padding, channels);
    for (int i = 0; i < s->axes; i++) {
        if (result.dim[1 + i] < 1) return refuse_window(l, in, s);
        y.dim[i] = row->dim[i] < 0 ? -1 : result.dim[1 + i];
    }
    y.dim[s->axes] = channels;
    *out = lki_row_back(format, &y);
    return LK_OK;
}
