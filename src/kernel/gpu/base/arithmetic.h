/* The functions that expressions of element-wise slots (expressions.inc) call, in addition to those of ref/math.h: the same as in
 * ref/elementwise.c. */
#ifndef LKI_KERNEL_GPU_BASE_ARITHMETIC_H
#define LKI_KERNEL_GPU_BASE_ARITHMETIC_H

#include "kernel/gpu/base/gpu.h"
#include "kernel/ref/types.h"

namespace lki_gpu
{

__device__ inline f64 sigmoid_f64(f64 x)
{
    const f64 e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* A limit as a number of the clipped type: saturated; NaN is 0 for integers. */
__device__ inline f32 limit_of(double x, f32) { return (f32)x; }
__device__ inline f64 limit_of(double x, f64) { return x; }
__device__ inline i32 limit_of(double x, i32) { return x != x ? 0 : x >= 0x1p31 ? INT32_MAX : x <= -0x1p31 ? INT32_MIN : (i32)x; }
__device__ inline i64 limit_of(double x, i64) { return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (i64)x; }

/* max(low, min(x, high)); written so that NaN, which is neither less nor greater, is kept. */
template <typename T> __device__ inline T clipped(T x, T low, T high)
{
    const T y = high < x ? high : x;
    return low > y ? low : y;
}

/* The remainder is exact and takes the sign of y; a quotient may round up to the next integer, so it is not used. */
template <typename T> __device__ inline T with_sign_of(T r, T y, T smallest)
{
    if (r < smallest && r > -smallest) return 0;
    return (r < 0) != (y < 0) ? r + y : r;
}

/* y = -1 is a separate case: the smallest integer has no negative, so it wraps. */
template <typename T, typename W> __device__ inline T floor_div(T x, T y, const fault &fail)
{
    if (y == 0) return fail(), 0;
    if (y == -1) return (T)(0 - (W)x);
    const T q = x / y;
    return q - (x % y != 0 && (x < 0) != (y < 0));
}

template <typename T> __device__ inline T floor_mod(T x, T y, const fault &fail)
{
    if (y == 0) return fail(), 0;
    if (y == -1) return 0;
    const T r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

} // namespace lki_gpu

#endif
