/* Elements of all eight types on the card: how each is stored, its value, and conversion of values to it, as core/dtype.c does on
 * the host: 16-bit floats with integers alone, rounded to nearest even; NaNs stay quiet NaNs with the leading bits of their
 * payload. */
#ifndef LKI_KERNEL_GPU_BASE_ELEMENT_H
#define LKI_KERNEL_GPU_BASE_ELEMENT_H

#include "kernel/gpu/base/gpu.h"

namespace lki_gpu
{

/* ---- 16-bit floats ---- */

/* Drop the last `count` bits (1 to 31), rounding to nearest, ties to even. */
static __device__ inline uint32_t round_off(uint32_t bits, int count)
{
    const uint32_t half = (uint32_t)1 << (count - 1), odd = bits >> count & 1;
    return (bits + half - 1 + odd) >> count;
}

static __device__ inline uint16_t f16_of_bits(uint32_t bits)
{
    const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x1ff));        /* NaN */
    if (size >= 0x47800000) return (uint16_t)(sign | 0x7c00);                              /* 65536 and more */
    if (size >= 0x38800000) return (uint16_t)(sign | (round_off(size, 13) - (112 << 10))); /* 2^-14 and more: normal */
    const int exponent = (int)(size >> 23);
    if (exponent < 102) return (uint16_t)sign; /* less than half of the smallest subnormal */
    return (uint16_t)(sign | round_off((size & 0x7fffff) | 0x800000, 126 - exponent));
}

static __device__ inline uint16_t bf16_of_bits(uint32_t bits)
{
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); /* NaN */
    return (uint16_t)round_off(bits, 16);
}

static __device__ inline float f16_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000 | (fraction ? 0x400000 : 0) | fraction << 13);
    if (exponent) return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
    if (!fraction) return __uint_as_float(sign);
    const int shift = __clz((int)fraction) - 21; /* moves the leading bit to bit 10 */
    return __uint_as_float(sign | (uint32_t)(113 - shift) << 23 | (fraction << shift & 0x3ff) << 13);
}

static __device__ inline float bf16_to_float(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }

/* A float as a double; subnormal ones count as zeros. Written out, because a compiler may remove a conversion to double and
 * back. */
static __device__ inline double wide(float x) { return fabsf(x) < 0x1p-126f ? copysign(0.0, (double)x) : (double)x; }
static __device__ inline double wide(double x) { return x; }
static __device__ inline double wide(int64_t x) { return (double)x; }

/* Bits of a float from which a shorter float can be rounded as if from the double itself: if inexact, the last bit is odd. */
static __device__ inline uint32_t bits_to_odd(double x)
{
    const float f = (float)x;
    uint32_t    bits = __float_as_uint(f);
    if (x != x || (double)f == x) return bits;
    if (fabs((double)f) > fabs(x)) bits--;
    return bits | 1;
}

/* ---- all types ---- */

/* type: how it is stored; value(): exact, as a float (of 16 bits), double or int64_t; of(): one of these, rounded or saturated to
 * the type; NaN is 0. From integers to integers values wrap. */
template <lk_dtype> struct element;

template <> struct element<LK_F32> {
    typedef float type;

    static __device__ double                     value(type x) { return wide(x); }
    template <typename V> static __device__ type of(V v) { return (float)v; }
};
template <> struct element<LK_F64> {
    typedef double type;

    static __device__ double                     value(type x) { return x; }
    template <typename V> static __device__ type of(V v) { return wide(v); }
};
template <> struct element<LK_F16> {
    typedef uint16_t type;

    static __device__ float                      value(type x) { return f16_to_float(x); }
    template <typename V> static __device__ type of(V v) { return f16_of_bits(bits_to_odd(wide(v))); }
};
template <> struct element<LK_BF16> {
    typedef uint16_t type;

    static __device__ float                      value(type x) { return bf16_to_float(x); }
    template <typename V> static __device__ type of(V v) { return bf16_of_bits(bits_to_odd(wide(v))); }
};
template <> struct element<LK_I32> {
    typedef int32_t type;

    static __device__ int64_t value(type x) { return x; }
    static __device__ type    of(int64_t v) { return (int32_t)(uint32_t)(uint64_t)v; }
    static __device__ type    of(double v) { return v != v ? 0 : v >= 0x1p31 ? INT32_MAX : v <= -0x1p31 ? INT32_MIN : (int32_t)v; }
    static __device__ type    of(float v) { return of((double)v); }
};
template <> struct element<LK_I64> {
    typedef int64_t type;

    static __device__ int64_t value(type x) { return x; }
    static __device__ type    of(int64_t v) { return v; }
    static __device__ type    of(double v) { return v != v ? 0 : v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v; }
    static __device__ type    of(float v) { return of((double)v); }
};
template <> struct element<LK_U8> {
    typedef uint8_t type;

    static __device__ int64_t value(type x) { return x; }
    static __device__ type    of(int64_t v) { return (uint8_t)(uint64_t)v; }
    static __device__ type    of(double v) { return v >= 255 ? 255 : v >= 1 ? (uint8_t)v : 0; }
    static __device__ type    of(float v) { return of((double)v); }
};
template <> struct element<LK_BOOL> {
    typedef uint8_t type;

    static __device__ int64_t value(type x) { return x != 0; }
    static __device__ type    of(float v) { return wide(v) != 0; }
    static __device__ type    of(double v) { return v != 0; }
    static __device__ type    of(int64_t v) { return v != 0; }
};

} // namespace lki_gpu

#endif
