/* Indices for kernels that move and gather: division by numbers known at the launch, sizes of element types, one element as bits,
 * and the tree of lane sums as a counter. Index arithmetic is done in I: uint32_t if all indices are below 2^31 (fits32), else
 * uint64_t. */
#ifndef LKI_KERNEL_GPU_BASE_INDEX_H
#define LKI_KERNEL_GPU_BASE_INDEX_H

#include "kernel/gpu/base/gpu.h"
#include <float.h>
#include <string.h>

#ifdef LKI_SIM
#define LKI_UNROLLED
#define LKI_UNROLLED_BY(n)
#else
#define LKI_UNROLLED_TEXT(text) _Pragma(#text)
#define LKI_UNROLLED LKI_UNROLLED_TEXT(unroll)
#define LKI_UNROLLED_BY(n) LKI_UNROLLED_TEXT(unroll n)
#endif

namespace lki_gpu
{

template <typename N> static __host__ __device__ inline N least(N a, N b) { return a < b ? a : b; }

#ifndef LKI_INDEX_LIMIT
#define LKI_INDEX_LIMIT ((int64_t)1 << 31) /* smaller in a test of the wide indices */
#endif
static inline bool fits32(int64_t n) { return n < LKI_INDEX_LIMIT; }

/* ---- division ---- */

/* n / d by a plain division: for indices of 64 bits. d > 0. */
template <typename I> struct division {
    I d;

    division() = default;
    explicit division(int64_t by) : d((I)by) {}
    __device__ I operator()(I n) const { return n / d; }
};

/* By a multiplication: exact for 0 <= n < 2^31, 0 < d < 2^31. A divisor 0 can be stored, for arrays without elements, but not
 * used. */
template <> struct division<uint32_t> {
    uint32_t d, factor;
    int      shift;

    division() = default;
    explicit division(int64_t by) : d((uint32_t)by), factor(0), shift(0)
    {
        if (!d) return;
        while (((uint64_t)1 << shift) < d)
            shift++;
        factor = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - d)) / d + 1);
    }
    __device__ uint32_t operator()(uint32_t n) const { return (__umulhi(n, factor) + n) >> shift; }
};

/* i = quotient * by.d + remainder: the quotient stays in i. */
template <typename I> static __device__ inline I split(I &i, const division<I> &by)
{
    const I whole = by(i), rest = i - whole * by.d;
    i = whole;
    return rest;
}

/* ---- one thread per element ---- */

template <typename F> __global__ void cover_kernel(int64_t n, F f)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        f(i);
}

/* f(i) for 0 <= i < n, in no order. Unlike map(), also after a fault: results are complete even if an id was out of range. */
template <typename F> static void cover(const lki_args *a, int64_t n, F f)
{
    (void)a;
    if (n <= 0) return;
    const int64_t blocks = lki_min(lki_ceil_div(n, MAP_BLOCK), MAP_BLOCKS);
    LKI_LAUNCH_FLAT((cover_kernel<F>), dim3((unsigned)blocks), dim3(MAP_BLOCK), a, n, f);
}

/* ---- elements ---- */

static inline int bytes_of(lk_dtype t)
{
#define LKI_BYTES(dtype, type, bytes, text) bytes,
    static const int bytes[] = {LK_DTYPE_LIST(LKI_BYTES)};
#undef LKI_BYTES
    return bytes[t];
}

/* 0, 1, 2, 3, 4 for 1, 2, 4, 8, 16: the row of a table by size. */
static inline int size_row(int bytes)
{
    int row = 0;
    while (1 << row < bytes)
        row++;
    return row;
}

/* How many elements of `bytes` can be moved as one unit of up to 16 bytes, given `count` and the addresses. */
static inline int together(int bytes, int64_t count, const void *p, const void *q)
{
    int n = 1;
    while (n * bytes < 16 && count % (2 * n) == 0 && ((uintptr_t)p | (uintptr_t)q) % (2 * (unsigned)(n * bytes)) == 0)
        n *= 2;
    return n;
}

static inline uint64_t integer_bits(lk_dtype t, double x)
{
    const double  low = t == LK_U8 ? 0 : t == LK_I32 ? (double)INT32_MIN : (double)INT64_MIN;
    const int64_t lowest = t == LK_U8    ? 0
                           : t == LK_I32 ? INT32_MIN
                                         : INT64_MIN,
                  highest = t == LK_U8    ? UINT8_MAX
                            : t == LK_I32 ? INT32_MAX
                                          : INT64_MAX;
    return (uint64_t)(isnan(x) ? 0 : x <= low ? lowest : x >= (double)highest ? highest : (int64_t)x);
}

static inline uint32_t single_bits(double x)
{
    const float f = fabs(x) < (double)FLT_MIN ? (float)copysign(0.0, x) : (float)x;
    uint32_t    bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Drops the last `count` bits, rounding to nearest even; `lost`: there were more bits after them. */
static inline uint32_t rounded(uint32_t bits, int count, bool lost)
{
    bits = bits | (lost ? 1 : 0);
    return (bits + ((1u << (count - 1)) - 1) + (bits >> count & 1)) >> count;
}

static inline uint64_t half_bits(lk_dtype t, double x)
{
    uint32_t bits = single_bits(x);
    float    f;
    memcpy(&f, &bits, sizeof f);
    const bool lost = !isnan(x) && (double)f != x;
    if (lost && fabs((double)f) > fabs(x)) bits--; /* truncated, not rounded: rounding is done once, below */
    const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (t == LK_BF16) return size > 0x7f800000 ? bits >> 16 | 0x40 : rounded(bits, 16, lost);
    if (size > 0x7f800000) return sign | 0x7e00 | (size >> 13 & 0x1ff);
    if (size >= 0x47800000) return sign | 0x7c00;
    if (size >= 0x38800000) return sign | (rounded(size, 13, lost) - (112 << 10));
    const int exponent = (int)(size >> 23);
    return exponent < 102 ? sign : sign | rounded((size & 0x7fffff) | 0x800000, 126 - exponent, lost);
}

/* A number as an element of type t: rounded to nearest even, subnormal f32 to 0 as kernels do, integers saturated. The low bytes
 * are the element. */
static inline uint64_t element_bits(lk_dtype t, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (t == LK_F64) return bits;
    if (t == LK_F32) return single_bits(x);
    if (t == LK_F16 || t == LK_BF16) return half_bits(t, x);
    return t == LK_BOOL ? x != 0 : integer_bits(t, x);
}

/* ---- sums ---- */

static __device__ inline float  fused(float a, float b, float c) { return fmaf(a, b, c); }
static __device__ inline double fused(double a, double b, double c) { return fma(a, b, c); }

/* The tree over lanes, fed lane after lane. It keeps at most one open sum per level, so that a thread only needs registers. */
template <typename T> struct lane_tree {
    enum { LEVELS = 7 }; /* 64 lanes */
    T waits[LEVELS];

    /* Called for lane s = 0, 1, 2, ...; the result for the last of a power of two is the sum of all. */
    __device__ T push(int s, T sum)
    {
        bool rises = true;
        LKI_UNROLLED
        for (int level = 0; level < LEVELS; level++) {
            const bool second = s >> level & 1;
            if (rises && second) sum = waits[level] + sum;
            if (rises && !second) waits[level] = sum;
            rises = rises && second;
        }
        return sum;
    }
};

} // namespace lki_gpu

#endif
