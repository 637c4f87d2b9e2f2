/* The parts that lki_register_products_ref() calls, and the positions of a window's taps. */
#ifndef LKI_KERNEL_REF_PRODUCTS_H
#define LKI_KERNEL_REF_PRODUCTS_H

#include "kernel/register.h"

void lki_register_conv_ref(lki_kernels *k);
void lki_register_pool_ref(lki_kernels *k);
void lki_register_live_ref(lki_kernels *k);

/* The cell of tap k of the window at output o. */
static inline int64_t lki_window_cell(const lki_window *w, int axis, int64_t o, int64_t k)
{
    return o * w->stride[axis] - w->pad[axis] + k * w->dilation[axis];
}

/* The tap of the window at output o that is on cell i; -1: none. */
static inline int64_t lki_window_tap(const lki_window *w, int axis, int64_t o, int64_t i)
{
    const int64_t way = i - lki_window_cell(w, axis, o, 0), k = way / w->dilation[axis];
    return way < 0 || way % w->dilation[axis] || k >= w->size[axis] ? -1 : k;
}

#endif
