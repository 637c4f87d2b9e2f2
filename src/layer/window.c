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

lk_status lki_layer_window(const lk_layer *l, lki_window *w, const lk_shape *in, lk_padding padding, int64_t channels,
                           lk_shape *out)
{
    const int64_t large = 1 << 20; /* what fits always, for a size that is not known */
    lk_shape      image = LK_SHAPE(1, in->dim[0] < 0 ? large : in->dim[0], in->dim[1] < 0 ? large : in->dim[1], in->dim[2]);
    lk_shape      y = lki_window_output(w, &image, padding, channels);
    if (y.dim[1] < 1 || y.dim[2] < 1)
        return lki_layer_refuse(l, in, "a window of %lld x %lld does not fit; use LK_SAME or a smaller one", (long long)w->size[0],
                                (long long)w->size[1]);
    *out = (lk_shape){.rank = 3, .dim = {in->dim[0] < 0 ? -1 : y.dim[1], in->dim[1] < 0 ? -1 : y.dim[2], channels}};
    return LK_OK;
}
