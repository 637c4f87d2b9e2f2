/* Convolution and pooling windows: from words (LK_SAME, LK_VALID) to numbers, and the ops that slide them. */
#ifndef LKI_OP_PRODUCT_H
#define LKI_OP_PRODUCT_H

#include "op/infer.h"
#include <lockstep/nn.h>

/* Sizes, strides and dilation; false and an error naming `call` when they are out of range. */
bool lki_window_of(const char *call, lki_window *w, const int64_t *size, lk_axes strides, lk_axes dilation);
bool lki_padding_fits(const char *call, lk_padding padding, bool causal_allowed);
bool lki_pool_window(const char *call, lki_window *w, lk_axes size, lk_axes strides);

/* A matrix product of operands by heads, [n, rows, heads, columns] (kernel/matrix.h): bits 0 a, 1 b, 2 the result. */
lk_tensor *lki_matmul_heads(lk_tensor *a, bool transpose_a, lk_tensor *b, bool transpose_b, int heads);

/* The output of a window over [n, h, w, c] images; fills in w->pad. Sizes are 0 if the window does not fit. */
lk_shape lki_window_output(lki_window *w, const lk_shape *image, lk_padding padding, int64_t channels);

/* The smallest image a window turns into `image`, the result of a transposed convolution; fills in w->pad. */
lk_shape lki_window_input(lki_window *w, const lk_shape *image, lk_padding padding, int64_t channels);

/* Any op of two operands (image or gradient, kernel or gradient) with a window; `shape` is that of its result. And pooling. */
lk_tensor *lki_conv2d(lki_op op, const lki_window *w, lk_shape shape, lk_tensor *a, lk_tensor *b);
lk_tensor *lki_pool(lki_op op, const lki_window *w, lk_shape shape, lk_tensor *x);

#endif
