/* What the kernels of batch normalisation share: their operands, seen as rows of channels.
 *
 * x is [..., C]; center is [C]; a pair is [2, C]: a scale and a shift per channel, or two sums per channel. */
#ifndef LKI_KERNEL_BATCH_H
#define LKI_KERNEL_BATCH_H

#include "kernel/kernel.h"

static inline int64_t lki_channels(const lk_shape *s) { return s->dim[s->rank - 1]; }

/* Rows of channels per entry of the leading axis, and in all. */
static inline int64_t lki_channel_rows_per_entry(const lk_shape *s)
{
    int64_t n = 1;
    for (int i = 1; i < s->rank - 1; i++)
        n *= s->dim[i];
    return n;
}
static inline int64_t lki_channel_rows(const lk_shape *s) { return s->dim[0] * lki_channel_rows_per_entry(s); }

static inline bool lki_has_relu(const lki_args *a) { return a->attr && a->attr->epilogue.relu; }

#endif
