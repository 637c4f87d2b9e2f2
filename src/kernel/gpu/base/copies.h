/* Asynchronous copies to shared memory: started one by one, ended as a group; waiting returns when at most n groups are pending.
 * Each function has a plain twin for the simulator. */
#ifndef LKI_KERNEL_GPU_BASE_COPIES_H
#define LKI_KERNEL_GPU_BASE_COPIES_H

#include "kernel/gpu/base/gpu.h"

namespace lki_gpu
{

#ifdef LKI_SIM

/* Four floats, of which the first `bytes` bytes are read and the others are 0; and one float. */
static inline void copy_four(float *to, const float *from, int bytes = 16)
{
    for (int j = 0; j < 4; j++)
        to[j] = 4 * j < bytes ? from[j] : 0;
}
static inline void                        copy_one(float *to, const float *from, int bytes) { *to = bytes ? *from : 0; }
static inline void                        copies_end() {}
template <int PENDING> static inline void copies_wait() {}

#else

__device__ inline void copy_four(float *to, const float *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
}
__device__ inline void copy_four(float *to, const float *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
                 "r"(bytes));
}
__device__ inline void copy_one(float *to, const float *from, int bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
                 "r"(bytes));
}
__device__ inline void                        copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ inline void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

#endif

} // namespace lki_gpu

#endif
