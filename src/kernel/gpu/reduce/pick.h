/* Which of two elements comes first, and its index: the order of argmax and the k largest (pick.cu, group_small.cu). */
#ifndef LKI_KERNEL_GPU_REDUCE_PICK_H
#define LKI_KERNEL_GPU_REDUCE_PICK_H

#include "kernel/gpu/base/fold.h"

namespace lki_gpu
{

template <typename T> __device__ inline bool is_nan(T x) { return x != x; }

/* An element and its index. NaN comes before all others, then the larger (smaller) one, then the one with the smaller index. place
 * < 0: no element. */
template <typename T> struct placed {
    T       value;
    int64_t place;
};

template <typename T, bool MAX> __device__ inline bool ahead(const placed<T> &a, const placed<T> &b)
{
    if (a.place < 0 || b.place < 0) return b.place < 0;
    if (is_nan(a.value) != is_nan(b.value)) return is_nan(a.value);
    if (!is_nan(a.value) && a.value != b.value) return MAX ? a.value > b.value : a.value < b.value;
    return a.place < b.place;
}

template <typename T> __device__ inline placed<T> swapped(const placed<T> &a, int by)
{
    return {__shfl_xor_sync((unsigned)FULL_WARP, a.value, by), __shfl_xor_sync((unsigned)FULL_WARP, a.place, by)};
}

} // namespace lki_gpu

#endif
