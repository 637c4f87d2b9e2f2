/* A bunch: a few neighbouring elements that one thread reads or writes at once, 16 bytes if addresses and sizes allow it, else
 * single elements. The choice never changes a result. */
#ifndef LKI_KERNEL_GPU_BASE_BUNCH_H
#define LKI_KERNEL_GPU_BASE_BUNCH_H

#include "kernel/gpu/base/gpu.h"

#ifndef LKI_FIXED
#ifdef LKI_SIM
#define LKI_FIXED const
#else
#define LKI_FIXED const __grid_constant__ /* an argument that is read in place, not copied by each thread */
#endif
#endif

namespace lki_gpu
{

template <typename T, int N> struct alignas(N * sizeof(T)) bunch {
    static_assert(N * sizeof(T) <= 16, "more than a thread can read at once");
    T v[N];
};

/* Elements of a full bunch. */
template <typename T> constexpr int bunch_of() { return (int)(16 / sizeof(T)); }

template <int N, typename T> __device__ inline bunch<T, N> bunch_at(const T *p) { return *(const bunch<T, N> *)(const void *)p; }
template <int N, typename T> __device__ inline void        bunch_to(T *p, const bunch<T, N> &b) { *(bunch<T, N> *)(void *)p = b; }

/* True if all of [..., columns] can be read in bunches. `addresses`: of the operands, or-ed. */
static inline bool bunches(int64_t columns, int n, uintptr_t addresses, size_t bytes)
{
    return columns % n == 0 && addresses % ((size_t)n * bytes) == 0;
}

} // namespace lki_gpu

#endif
