/* What layers that slide a window over their rows share. */
#ifndef LKI_LAYER_WINDOW_H
#define LKI_LAYER_WINDOW_H

#include "layer/layer.h"
#include "op/product.h"

/* The one of kernel_size and kernel_shape that was given becomes kernel_shape, `axes` sizes; kernel_size becomes 0. */
bool lki_kernel_size(const char *call, int axes, int64_t *kernel_size, lk_axes *kernel_shape);

/* Rows of [height, width, channels] seen through a window; -1 stays -1. Refuses a window that does not fit. */
lk_status lki_layer_window(const lk_layer *l, lki_window *w, const lk_shape *in, lk_padding padding, int64_t channels,
                           lk_shape *out);

#endif
