/* Windows of convolutions and pooling: conversion of padding words (LK_SAME, LK_VALID) to numbers, and the ops with windows. */
#ifndef LKI_OP_PRODUCT_H
#define LKI_OP_PRODUCT_H

#include "op/infer.h"
#include <lockstep/nn.h>

/* These functions return false, and an error that names `call`, if an argument is out of range. lki_window_of() and
 * lki_pool_window() set the sizes, strides and dilation of a window; the pad is set below. */
bool lki_window_of(const char *call, lki_window *w, const int64_t *size, lk_axes strides, lk_axes dilation);
bool lki_padding_fits(const char *call, lk_padding padding, bool causal_allowed);
bool lki_pool_window(const char *call, lki_window *w, lk_axes size, lk_axes strides);

/* Applies a matrix product. Bits of `heads` say which tensors are by heads, [n, rows, heads, columns] (kernel/matrix.h): bit 0 a,
 * bit 1 b, bit 2 the result. */
lk_tensor *lki_matmul_heads(lk_tensor *a, bool transpose_a, lk_tensor *b, bool transpose_b, int heads);

/* Returns the shape of the output of a window over images [n, h, w, c], and sets w->pad. Its height or width is 0 if the window
 * does not fit. */
lk_shape lki_window_output(lki_window *w, const lk_shape *image, lk_padding padding, int64_t channels);

/* Returns the shape of the result of a transposed convolution of `image`, and sets w->pad. A height or width n becomes n * stride
 * with LK_SAME, else (n - 1) * stride + max(reach, stride), where reach is (size - 1) * dilation + 1. */
lk_shape lki_window_input(lki_window *w, const lk_shape *image, lk_padding padding, int64_t channels);

/* Apply an op with a window; `shape` is the shape of its result. Operand a is an image or a gradient, b a kernel or a gradient.
 * Pooling has the operand x only. */
lk_tensor *lki_conv2d(lki_op op, const lki_window *w, lk_shape shape, lk_tensor *a, lk_tensor *b);
lk_tensor *lki_pool(lki_op op, const lki_window *w, lk_shape shape, lk_tensor *x);

#endif
