/* Elementary functions in single precision, as plain scalar code that vector code can repeat operation by operation.
 *
 * Invariants
 *  1. Only additions, multiplications, divisions, fmaf, comparisons and integer operations on the bits: each is rounded the same
 *     way everywhere, so cpu/vec_math.h, which does the same steps sixteen at a time, gives the same bits.
 *  2. Subnormal operands count as zeros and subnormal results as zeros (kernels run with FTZ and DAZ).
 *  3. The largest error in units of the last place, over every fifth float, against double precision:
 *
 *        exp 0.89    expm1 1.45    log 0.96    log1p 1.48    tanh 1.35    sigmoid 1.60    erf 1.02    softplus 1.82
 *
 * (tests/op/kernels.c checks these limits). sin, cos and pow are computed in double precision and rounded once. */
#ifndef LKI_KERNEL_REF_MATH_H
#define LKI_KERNEL_REF_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int32_t lki_bits_of(float x)
{
    int32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

static inline float lki_float_of(int32_t i)
{
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}

/* Adding this rounds to the nearest integer (ties to even) and leaves it in the low bits of the sum. */
#define LKI_ROUNDER 0x1.8p23f
#define LKI_LOG2E 0x1.715476p0f
#define LKI_LN2 0x1.62e43p-1f
#define LKI_LN2_HIGH 0x1.62e4p-1f /* 15 bits: times any exponent it is exact */
#define LKI_LN2_LOW 0x1.7f7d1cp-20f

/* e^r = 1 + r + r^2 (C2 + ...) on |r| <= ln(2)/2, relative error 2^-28.2 */
#define LKI_EXP_C2 0x1.fffffcp-2f
#define LKI_EXP_C3 0x1.555492p-3f
#define LKI_EXP_C4 0x1.5558b4p-5f
#define LKI_EXP_C5 0x1.123978p-7f
#define LKI_EXP_C6 0x1.6a4988p-10f
#define LKI_EXP_LOW -0x1.5d589ep6f /* below: 0 (the result would be subnormal) */
#define LKI_EXP_HIGH 0x1.62e42ep6f /* above: inf */

static inline float lki_exp_f32(float x)
{
    float t = fmaf(x, LKI_LOG2E, LKI_ROUNDER);
    float n = t - LKI_ROUNDER;
    float r = fmaf(n, -LKI_LN2_LOW, fmaf(n, -LKI_LN2_HIGH, x));
    float p = fmaf(LKI_EXP_C6, r, LKI_EXP_C5);
    p = fmaf(p, r, LKI_EXP_C4);
    p = fmaf(p, r, LKI_EXP_C3);
    p = fmaf(p, r, LKI_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    float e = lki_float_of((int32_t)((uint32_t)lki_bits_of(p) + ((uint32_t)lki_bits_of(t) << 23))); /* p * 2^n */
    if (!(x <= LKI_EXP_HIGH)) e = x + INFINITY;                                                     /* NaN stays */
    if (x < LKI_EXP_LOW) e = 0;
    return e;
}

/* e^r - 1 = r + r^2 (C2 + ...), relative error 2^-31 */
#define LKI_EXPM1_C2 0x1p-1f
#define LKI_EXPM1_C3 0x1.555554p-3f
#define LKI_EXPM1_C4 0x1.5554f8p-5f
#define LKI_EXPM1_C5 0x1.1112dap-7f
#define LKI_EXPM1_C6 0x1.6d3a3p-10f
#define LKI_EXPM1_C7 0x1.9e6bd4p-13f
#define LKI_EXPM1_LOW -0x1.154246p4f /* below: -1 */
#define LKI_EXPM1_TINY 0x1p-25f      /* below: x, whose half might be subnormal */

static inline float lki_expm1_f32(float x)
{
    float t = fmaf(x, LKI_LOG2E, LKI_ROUNDER);
    float n = t - LKI_ROUNDER;
    float r = fmaf(n, -LKI_LN2_LOW, fmaf(n, -LKI_LN2_HIGH, x));
    float p = fmaf(LKI_EXPM1_C7, r, LKI_EXPM1_C6);
    p = fmaf(p, r, LKI_EXPM1_C5);
    p = fmaf(p, r, LKI_EXPM1_C4);
    p = fmaf(p, r, LKI_EXPM1_C3);
    p = fmaf(p, r, LKI_EXPM1_C2);
    p = fmaf(p * r, r, r);
    float half = lki_float_of((int32_t)(((uint32_t)lki_bits_of(t) << 23) + 0x3f000000u)); /* 2^(n-1): 2^128 is not a float */
    float e = fmaf(half, p, half - 0.5f);
    e = e + e;
    if (!(x <= LKI_EXP_HIGH)) e = x + INFINITY;
    if (x < LKI_EXPM1_LOW) e = -1;
    if (fabsf(x) < LKI_EXPM1_TINY) e = x;
    return e;
}

/* log(1 + f) = f - f^2/2 + f^3 (C3 + ...) for sqrt(1/2) <= 1 + f < sqrt(2), relative error 2^-27 */
#define LKI_LOG_C3 0x1.555554p-2f
#define LKI_LOG_C4 -0x1.00022ap-2f
#define LKI_LOG_C5 0x1.99a03p-3f
#define LKI_LOG_C6 -0x1.54717cp-3f
#define LKI_LOG_C7 0x1.22d636p-3f
#define LKI_LOG_C8 -0x1.0d892ep-3f
#define LKI_LOG_C9 0x1.0573d4p-3f
#define LKI_LOG_C10 -0x1.38d116p-4f
#define LKI_SQRT_HALF_BITS 0x3f3504f3
#define LKI_SMALLEST 0x1p-126f

/* log(2^k (1 + f)) */
static inline float lki_log_sum(float k, float f)
{
    float p = fmaf(LKI_LOG_C10, f, LKI_LOG_C9);
    p = fmaf(p, f, LKI_LOG_C8);
    p = fmaf(p, f, LKI_LOG_C7);
    p = fmaf(p, f, LKI_LOG_C6);
    p = fmaf(p, f, LKI_LOG_C5);
    p = fmaf(p, f, LKI_LOG_C4);
    p = fmaf(p, f, LKI_LOG_C3);
    p = fmaf(p, f, -0.5f);
    return fmaf(k, LKI_LN2, fmaf(p * f, f, f));
}

static inline float lki_log_f32(float x)
{
    int32_t i = (int32_t)((uint32_t)lki_bits_of(x) - LKI_SQRT_HALF_BITS);
    int32_t k = i >> 23;
    float   m = lki_float_of((i & 0x7fffff) + LKI_SQRT_HALF_BITS);
    float   r = lki_log_sum((float)k, m - 1.0f);
    if (!(x < INFINITY)) r = x; /* inf and NaN stay */
    if (x < LKI_SMALLEST) r = x < 0 ? NAN : -INFINITY;
    return r;
}

static inline float lki_log1p_f32(float x)
{
    float   u = 1.0f + x;
    float   c = x - (u - 1.0f); /* what the sum lost */
    int32_t i = (int32_t)((uint32_t)lki_bits_of(u) - LKI_SQRT_HALF_BITS);
    int32_t k = i >> 23;
    float   m = lki_float_of((i & 0x7fffff) + LKI_SQRT_HALF_BITS);
    int32_t scale = 127 - k; /* 2^-k; 0 where c is too small to matter */
    if (scale < 0) scale = 0;
    float r = lki_log_sum((float)k, fmaf(c, lki_float_of((int32_t)((uint32_t)scale << 23)), m - 1.0f));
    if (!(x < INFINITY)) r = x;
    if (u < LKI_SMALLEST) r = u < 0 ? NAN : -INFINITY;
    return r;
}

/* |x| < SPLIT: x + x^3 (C0 + C1 x^2 + ...), relative error 2^-27.7; above: 1 - 2 / (e^2|x| + 1) */
#define LKI_TANH_SPLIT 0.625f
#define LKI_TANH_C0 -0x1.555532p-2f
#define LKI_TANH_C1 0x1.1106fap-3f
#define LKI_TANH_C2 -0x1.b8367ep-5f
#define LKI_TANH_C3 0x1.51fffcp-6f
#define LKI_TANH_C4 -0x1.7532cep-8f

static inline float lki_tanh_f32(float x)
{
    float a = fabsf(x), s = x * x;
    if (a < LKI_TANH_SPLIT) {
        float p = fmaf(LKI_TANH_C4, s, LKI_TANH_C3);
        p = fmaf(p, s, LKI_TANH_C2);
        p = fmaf(p, s, LKI_TANH_C1);
        p = fmaf(p, s, LKI_TANH_C0);
        return fmaf(p * s, x, x);
    }
    return copysignf(1.0f - 2.0f / (lki_exp_f32(a + a) + 1.0f), x);
}

static inline float lki_sigmoid_f32(float x)
{
    float e = lki_exp_f32(-fabsf(x));
    float z = e / (1.0f + e); /* of -|x|, rounded twice; in this correction that has no effect */
    float a = x < 0 ? e : 1.0f;
    return fmaf(-a, z, a);
}

static inline float lki_softplus_f32(float x) { return (x > 0 ? x : 0) + lki_log1p_f32(lki_exp_f32(-fabsf(x))); }

/* |x| <= SPLIT: x + x (C0 + C1 x^2 + ...), relative error 2^-30; above: 1 - e^-(|x| + |x| (D0 + D1 |x| + ...)), 2^-30 */
#define LKI_ERF_SPLIT 0x1.dp-1f
#define LKI_ERF_HIGH 4.0f /* from here on the result rounds to 1 */
#define LKI_ERF_C0 0x1.06eba8p-3f
#define LKI_ERF_C1 -0x1.81274p-2f
#define LKI_ERF_C2 0x1.ce2d64p-4f
#define LKI_ERF_C3 -0x1.b8011cp-6f
#define LKI_ERF_C4 0x1.544a3cp-8f
#define LKI_ERF_C5 -0x1.a60bap-11f
#define LKI_ERF_C6 0x1.4f6c58p-14f
#define LKI_ERF_D0 0x1.07793ep-3f
#define LKI_ERF_D1 0x1.453226p-1f
#define LKI_ERF_D2 0x1.b32b0ep-4f
#define LKI_ERF_D3 -0x1.8565bcp-6f
#define LKI_ERF_D4 0x1.ddbefp-9f
#define LKI_ERF_D5 -0x1.532a9cp-12f
#define LKI_ERF_D6 0x1.7b3f0ap-17f

static inline float lki_erf_f32(float x)
{
    float a = fabsf(x), s = x * x;
    if (a <= LKI_ERF_SPLIT) {
        float p = fmaf(LKI_ERF_C6, s, LKI_ERF_C5);
        p = fmaf(p, s, LKI_ERF_C4);
        p = fmaf(p, s, LKI_ERF_C3);
        p = fmaf(p, s, LKI_ERF_C2);
        p = fmaf(p, s, LKI_ERF_C1);
        p = fmaf(p, s, LKI_ERF_C0);
        return fmaf(p, x, x);
    }
    if (LKI_ERF_HIGH < a) a = LKI_ERF_HIGH;
    float p = fmaf(LKI_ERF_D6, a, LKI_ERF_D5);
    p = fmaf(p, a, LKI_ERF_D4);
    p = fmaf(p, a, LKI_ERF_D3);
    p = fmaf(p, a, LKI_ERF_D2);
    p = fmaf(p, a, LKI_ERF_D1);
    p = fmaf(p, a, LKI_ERF_D0);
    return copysignf(1.0f - lki_exp_f32(-fmaf(p, a, a)), x);
}

static inline float lki_sin_f32(float x) { return (float)sin((double)x); }
static inline float lki_cos_f32(float x) { return (float)cos((double)x); }
static inline float lki_pow_f32(float x, float y) { return (float)pow((double)x, (double)y); }

#endif
