/* Moves between two arrays that are walked side by side, each with its own strides (strided.cu): broadcast, transpose, slice,
 * concat and similar.
 *
 * For all indices below dim: dst[sum of index * to] = src[sum of index * from], steps in elements of `bytes`, of any sign; 0
 * repeats. */
#ifndef LKI_KERNEL_GPU_MOVE_STRIDED_H
#define LKI_KERNEL_GPU_MOVE_STRIDED_H

#include "kernel/kernel.h"

namespace lki_gpu
{

struct strided {
    const char *src; /* on the card; at index 0 of all axes */
    char       *dst;
    int         bytes; /* of one element: 1, 2, 4, 8 */
    int         rank;  /* may be 0: one element */
    int64_t     dim[LK_MAX_RANK], from[LK_MAX_RANK], to[LK_MAX_RANK];
};

void move_strided(const lki_args *a, strided s);

/* pad.cu: a part of register_move. */
void register_pad(lki_kernels *k);

/* concat, if it has several operands and is small (concat_small.cu): in one launch. */
bool concat_small(const lki_args *a);

} // namespace lki_gpu

#endif
