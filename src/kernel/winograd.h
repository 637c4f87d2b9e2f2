/* Which convolutions are WINOGRAD (kernel.h): one rule for the reference and every vectorised kernel, because it decides bits.
 *
 * Invariant: the rule depends on the window and on the shapes of one image and of the weights only, not on the number of images or
 * the size of the result. So the answer is the same for a lane, for a whole batch, and for a convolution with or without a fused
 * pool. */
#ifndef LKI_KERNEL_WINOGRAD_H
#define LKI_KERNEL_WINOGRAD_H

#include "kernel/kernel.h"

enum {
    LKI_WINOGRAD_CHANNELS = 16, /* fewer, in or out: the transforms cost more than they save */
    LKI_WINOGRAD_CELLS = 6,     /* smaller images are mostly border, whose windows have few taps inside */
    LKI_WINOGRAD_POINTS = 16,   /* of a 4x4 tile */
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

#endif
