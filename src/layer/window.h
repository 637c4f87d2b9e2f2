/* What layers that slide a window over their rows share. */
#ifndef LKI_LAYER_WINDOW_H
#define LKI_LAYER_WINDOW_H

#include "layer/layer.h"
#include "op/product.h"

/* Sets kernel_shape, with `axes` sizes, from kernel_size or kernel_shape, whichever was given; kernel_size becomes 0. */
bool lki_kernel_size(const char *call, int axes, int64_t *kernel_size, lk_axes *kernel_shape);

/* Checks the options of all convolutions with `filters`; `axes` is 1 or 2. Afterwards the size is in kernel_shape. */
bool lki_conv_fits(const char *call, int axes, lk_conv_layer_args *a);

/* Makes the kernel, with this shape, and unless use_bias is off a bias for each filter. */
lk_status lki_conv_build(lk_layer *l, const lk_conv_layer_args *a, lk_shape kernel);

/* Number of kernels per channel. */
bool lki_depth_fits(const char *call, lk_integer *depth_multiplier);

/* Sizes, strides and dilation along `axes` axes; one axis is the width of images of height 1. */
bool lki_window_along(const char *call, int axes, lki_window *w, lk_axes size, lk_axes strides, lk_axes dilation);

/* Rows of [steps, channels] or [height, width, channels]; their number of channels must be known and be that of the kernel (-1: not
 * made). */
lk_status lki_layer_channels(const lk_layer *l, int axes, const lk_shape *in, int64_t made_for);

/* The result shape of a window over such rows; -1 stays -1. An error if the window does not fit. */
lk_status lki_layer_window(const lk_layer *l, lki_window *w, const lk_shape *in, lk_padding padding, int64_t channels,
                           lk_shape *out);

#endif
