/* What layers that slide a window over their rows share. */
#ifndef LKI_LAYER_WINDOW_H
#define LKI_LAYER_WINDOW_H

#include "layer/channels.h"
#include "op/product.h"

/* Sets kernel_shape, with `axes` sizes, from kernel_size or kernel_shape, whichever was given; kernel_size becomes 0. */
bool lki_kernel_size(const char *call, int axes, int64_t *kernel_size, lk_axes *kernel_shape);

/* The number of axes of a layer that lki_kernel_size() checked, and the window. */
int       lki_kernel_axes(lk_axes kernel_shape);
lki_slide lki_kernel_slide(lk_axes kernel_shape, lk_axes strides, lk_axes dilation);

/* Checks the options of all convolutions with `filters`; `axes` is 1 to 3. Afterwards the size is in kernel_shape. */
bool lki_conv_fits(const char *call, int axes, lk_conv_layer_args *a);

/* Makes the kernel [sizes..., in, out], and unless use_bias is off a bias for each filter. */
lk_status lki_conv_build(lk_layer *l, const lk_conv_layer_args *a, int64_t in, int64_t out);

/* [sizes..., in, out] */
lk_shape lki_kernel_of(lk_axes kernel_shape, int64_t in, int64_t out);

/* Number of kernels per channel. */
bool lki_depth_fits(const char *call, lk_integer *depth_multiplier);

/* An activation after which the channels of a result may still be moved, because it works on each element alone. Others are applied
 * after the move: *after is set to them, and the result is LK_LINEAR. */
lk_activation lki_activation_before(lk_data_format format, lk_activation activation, lk_activation *after);

/* The row's number of channels, which are last, must be known and be that of the kernel (-1: not made). */
lk_status lki_layer_channels(const lk_layer *l, const lk_shape *in, const lk_shape *row, int64_t made_for);

/* The result row of a window over a row with its channels last, in the layer's format; -1 stays -1. An error if the window does not
 * fit. */
lk_status lki_layer_window(const lk_layer *l, lki_slide *s, const lk_shape *in, const lk_shape *row, lk_padding padding,
                           int64_t channels, lk_data_format format, lk_shape *out);

#endif
