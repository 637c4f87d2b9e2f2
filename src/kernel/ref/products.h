/* The parts lki_register_products_ref() calls, and where the taps of a window lie. */
#ifndef LKI_KERNEL_REF_PRODUCTS_H
#define LKI_KERNEL_REF_PRODUCTS_H

#include "kernel/register.h"

void lki_register_conv_ref(lki_kernels *k);
void lki_register_pool_ref(lki_kernels *k);
void lki_register_live_ref(lki_kernels *k);

/* Where tap k of the window at output o lies. */
static inline int64_t lki_window_cell(const lki_window *w, int axis, int64_t o, int64_t k)
{
    return o * w->stride[axis] - w->pad[axis] + k * w->dilation[axis];
}

/* Which tap of the window at output o lies on cell i; -1 when none does. */
static inline int64_t lki_window_tap(const lki_window *w, int axis, int64_t o, int64_t i)
{
    const int64_t way = i - lki_window_cell(w, axis, o, 0), k = way / w->dilation[axis];
    return way < 0 || way % w->dilation[axis] || k >= w->size[axis] ? -1 : k;
}

#endif
