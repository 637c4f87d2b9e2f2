/* Which convolutions are WINOGRAD (kernel.h): one rule for the reference and every vectorised kernel, because it decides bits.
 *
 * Invariant: the rule looks at the window and at the shapes of one image and of the weights alone. It knows neither the number of images
 * nor the size of the result, so a lane, a whole batch, and a convolution with or without a fused pool are all answered alike. */
#ifndef LKI_KERNEL_WINOGRAD_H
#define LKI_KERNEL_WINOGRAD_H

#include "kernel/kernel.h"

enum {
    LKI_WINOGRAD_PAIRS = 64 * 64, /* pairs of channels, in and out; with more, tiles of 4 have too many weights to transform */
    LKI_WINOGRAD_CHANNELS = 16,   /* fewer, in or out: the transforms cost more than they save */
    LKI_WINOGRAD_CELLS = 6,       /* smaller images are mostly border, whose windows have few taps anyway */
    LKI_WINOGRAD_POINTS = 16,     /* of a tile of 2x2 results */
};

/* x is [..., height, width, in], w is [height, width, in, out]; both f32. */
static inline bool lki_is_winograd(const lki_window *window, const lk_shape *x, const lk_shape *w)
{
    for (int i = 0; i < 2; i++) {
        if (window->size[i] != 3 || window->stride[i] != 1 || window->dilation[i] != 1) return false;
        if (x->dim[x->rank - 3 + i] < LKI_WINOGRAD_CELLS || w->dim[2 + i] < LKI_WINOGRAD_CHANNELS) return false;
    }
    return true;
}

/* conv2d and its data gradient: how many tiles of 4 results there are along an axis of so many results; tiles of 2 follow. Whether a last, odd
 * result is there does not show in the others, so a fused pool may leave it out. */
static inline int64_t lki_winograd_fours(int64_t in, int64_t out, int64_t results)
{
    return in * out <= LKI_WINOGRAD_PAIRS ? results / 4 : 0;
}

/* The square root of 2, by which tiles of 4 are transformed. */
#define LKI_WINOGRAD_ROOT 0x1.6a09e6p+0f

#endif
