/* Sums whose parts are made by several blocks, in one launch: every block lays its part down and takes a ticket, and the one that takes the last of its group adds all of them
 * up. Which block that is, no sum can tell: parts are added in an order of their own.
 *
 * Tickets are words of the call (lki_gpu_call), zeros when a kernel begins; the block with the last one makes it a zero again, for the next launch. A block that is left without
 * work takes none, and is not counted. */
#ifndef LKI_KERNEL_GPU_LAST_H
#define LKI_KERNEL_GPU_LAST_H

#include "device/gpu/backend.h"
#include "kernel/gpu/gpu.h"

namespace lki_gpu
{

/* Is this the last of `count` blocks that ask? By all threads of each. What the others wrote before is there to be read then; it must not be read through a
 * path that is not kept up to date within a launch (__ldg, __restrict__). */
__device__ inline bool comes_last(unsigned *ticket, unsigned count)
{
    int last = 0;
    __syncthreads();
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        __threadfence(); /* what the block wrote comes before its ticket, */
        last = atomicAdd(ticket, 1u) == count - 1;
        if (last) *ticket = 0;
        __threadfence(); /* ... and what it reads after it */
    }
    return __syncthreads_or(last);
}

} // namespace lki_gpu

#endif
