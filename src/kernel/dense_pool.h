/* Which weight gradients can be computed without materialising the gradient they read: that of a convolution through a 2x2 max
 * pool, if a dense layer after the pool makes the pool's gradient, d = g * w^T. The planner of a step and the kernel
 * (gpu/conv/dense_pool_w.cu) use the same rule, because it decides bits.
 *
 * Invariant: the rule depends on the window and on the shapes of one image and of the weights only, never on the number of
 * images. */
#ifndef LKI_KERNEL_DENSE_POOL_H
#define LKI_KERNEL_DENSE_POOL_H

#include "kernel/kernel.h"

enum {
    LKI_DENSE_POOL_CHANNELS = 32, /* of the convolution: a multiple of this */
    LKI_DENSE_POOL_UNITS = 128,   /* of the dense layer: at most this many, and a multiple of 4 */
    LKI_DENSE_POOL_NARROWEST = 6, /* windows of the pool in a row */
    LKI_DENSE_POOL_WIDEST = 13,
    LKI_DENSE_POOL_SHARED = 163 << 10, /* bytes of shared memory of a block, at most: cards with less are excluded */
    LKI_DENSE_POOL_IMAGES = 64,        /* of the longest lane: from this number on it is faster; kernels do not check it */
};

/* x is [n, height, width, 1], cell [n, window rows, windows in a row, channels], g [n, units], w [entries of an image, units]; conv
 * is [3, 3, 1, channels]. */
static inline bool lki_is_dense_pool(const lki_window *window, const lk_shape *x, const lk_shape *cell, const lk_shape *conv,
                                     const lk_shape *g, const lk_shape *w)
{
    if (x->rank != 4 || cell->rank != 4 || conv->rank != 4 || g->rank != 2 || w->rank != 2) return false;
    for (int i = 0; i < 2; i++)
        if (window->size[i] != 3 || window->stride[i] != 1 || window->dilation[i] != 1) return false;
    const int64_t across = cell->dim[2], channels = cell->dim[3], units = g->dim[1], entries = cell->dim[1] * across * channels;
    return x->dim[3] == 1 && x->dim[0] == g->dim[0] && x->dim[0] == cell->dim[0] && w->dim[0] == entries && w->dim[1] == units &&
           channels > 0 && channels % LKI_DENSE_POOL_CHANNELS == 0 && conv->dim[3] == channels && units > 0 && units % 4 == 0 &&
           units <= LKI_DENSE_POOL_UNITS && cell->dim[1] > 0 && across >= LKI_DENSE_POOL_NARROWEST &&
           across <= LKI_DENSE_POOL_WIDEST && x->dim[1] * x->dim[2] < INT32_MAX / 64 && entries * units < INT32_MAX;
}

#endif
