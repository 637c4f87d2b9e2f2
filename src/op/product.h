/* Windows of convolutions and pooling: conversion of padding words (LK_SAME, LK_VALID) to numbers, and the ops with windows. */
#ifndef LKI_OP_PRODUCT_H
#define LKI_OP_PRODUCT_H

#include "op/infer.h"
#include <lockstep/nn.h>

/* A window that slides along 1 to 3 axes: those of rows [..., channels] before the channels. */
enum { LKI_SLIDE_AXES = 3 };
typedef struct lki_slide {
    int     axes;
    int64_t size[LKI_SLIDE_AXES], stride[LKI_SLIDE_AXES], dilation[LKI_SLIDE_AXES];
    int64_t pad[LKI_SLIDE_AXES]; /* cells before the first one */
} lki_slide;

/* These functions return false, and an error that names `call`, if an argument is out of range. Lists have one value, or one for
 * each axis. lki_slide_of() and lki_pool_slide() set all but the pad, which is set below. */
bool lki_slide_of(const char *call, lki_slide *s, int axes, const int64_t *size, lk_axes strides, lk_axes dilation);
bool lki_pool_slide(const char *call, lki_slide *s, int axes, lk_axes size, lk_axes strides);
bool lki_padding_fits(const char *call, lk_padding padding, bool causal_allowed);

/* A list with one value for each axis; an empty one means `otherwise`. */
bool lki_per_axis(const char *call, const char *name, int axes, lk_axes list, const int64_t *otherwise, int64_t least,
                  int64_t *out);

/* The window along the last two axes; a single axis is the width of images of height 1. */
lki_window lki_slide_window(const lki_slide *s);

/* Applies a matrix product. Bits of `heads` say which tensors are by heads, [n, rows, heads, columns] (kernel/matrix.h): bit 0 a,
 * bit 1 b, bit 2 the result. */
lk_tensor *lki_matmul_heads(lk_tensor *a, bool transpose_a, lk_tensor *b, bool transpose_b, int heads);

/* Returns the shape of the output of a window over x [n, ..., c], and sets s->pad. Sizes are 0 where the window does not fit. */
lk_shape lki_slide_output(lki_slide *s, const lk_shape *x, lk_padding padding, int64_t channels);

/* Returns the shape of the result of a transposed convolution of x [n, ..., c], and sets s->pad. With reach = (size - 1) * dilation
 * + 1, a size n becomes n * stride with LK_SAME, else (n - 1) * stride + max(reach, stride); with `more` cells at the end,
 * (n - 1) * stride + reach % 2 + more, else (n - 1) * stride + reach + more. more: a value for each axis, or NULL. A size is 0
 * where a convolution of the result would not have n outputs again. */
lk_shape lki_slide_input(lki_slide *s, const lk_shape *x, lk_padding padding, const int64_t *more, int64_t channels);

/* Apply an op with a window; `shape` is the shape of its result. Operand a is an image or a gradient, b a kernel or a gradient.
 * Pooling has the operand x only. */
lk_tensor *lki_conv2d(lki_op op, const lki_window *w, lk_shape shape, lk_tensor *a, lk_tensor *b);
lk_tensor *lki_pool(lki_op op, const lki_window *w, lk_shape shape, lk_tensor *x);

#endif
