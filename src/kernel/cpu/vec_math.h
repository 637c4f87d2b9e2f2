/* The elementary functions of ref/math.h, sixteen at a time: the same steps in the same order, so the same bits.
 * A branch of the scalar code is a select here; both sides are computed. */
#ifndef LKI_KERNEL_CPU_VEC_MATH_H
#define LKI_KERNEL_CPU_VEC_MATH_H

#include "kernel/cpu/vec.h"
#include "kernel/ref/math.h"

/* p * x + c with a constant c: one step of a polynomial. */
static inline vec vec_step(vec p, vec x, float c) { return vec_fma(p, x, vec_set(c)); }

static inline vec vec_exp(vec x)
{
    vec t = vec_fma(x, vec_set(LKI_LOG2E), vec_set(LKI_ROUNDER));
    vec n = vec_sub(t, vec_set(LKI_ROUNDER));
    vec r = vec_fma(n, vec_set(-LKI_LN2_LOW), vec_fma(n, vec_set(-LKI_LN2_HIGH), x));
    vec p = vec_step(vec_set(LKI_EXP_C6), r, LKI_EXP_C5);
    p = vec_step(p, r, LKI_EXP_C4);
    p = vec_step(p, r, LKI_EXP_C3);
    p = vec_step(p, r, LKI_EXP_C2);
    p = vec_step(p, r, 1.0f);
    p = vec_step(p, r, 1.0f);
    vec e = vint_float_bits(vint_add(vec_bits(p), vint_left(vec_bits(t), 23)));
    e = vec_select(vec_not_le(x, vec_set(LKI_EXP_HIGH)), vec_add(x, vec_set(INFINITY)), e);
    return vec_keep(vec_not_lt(x, vec_set(LKI_EXP_LOW)), e);
}

static inline vec vec_expm1(vec x)
{
    vec t = vec_fma(x, vec_set(LKI_LOG2E), vec_set(LKI_ROUNDER));
    vec n = vec_sub(t, vec_set(LKI_ROUNDER));
    vec r = vec_fma(n, vec_set(-LKI_LN2_LOW), vec_fma(n, vec_set(-LKI_LN2_HIGH), x));
    vec p = vec_step(vec_set(LKI_EXPM1_C7), r, LKI_EXPM1_C6);
    p = vec_step(p, r, LKI_EXPM1_C5);
    p = vec_step(p, r, LKI_EXPM1_C4);
    p = vec_step(p, r, LKI_EXPM1_C3);
    p = vec_step(p, r, LKI_EXPM1_C2);
    p = vec_fma(vec_mul(p, r), r, r);
    vec half = vint_float_bits(vint_add(vint_left(vec_bits(t), 23), vint_set(0x3f000000)));
    vec e = vec_fma(half, p, vec_sub(half, vec_set(0.5f)));
    e = vec_add(e, e);
    e = vec_select(vec_not_le(x, vec_set(LKI_EXP_HIGH)), vec_add(x, vec_set(INFINITY)), e);
    e = vec_select(vec_lt(x, vec_set(LKI_EXPM1_LOW)), vec_set(-1.0f), e);
    return vec_select(vec_lt(vec_abs(x), vec_set(LKI_EXPM1_TINY)), x, e);
}

static inline vec vec_log_sum(vec k, vec f)
{
    vec p = vec_step(vec_set(LKI_LOG_C10), f, LKI_LOG_C9);
    p = vec_step(p, f, LKI_LOG_C8);
    p = vec_step(p, f, LKI_LOG_C7);
    p = vec_step(p, f, LKI_LOG_C6);
    p = vec_step(p, f, LKI_LOG_C5);
    p = vec_step(p, f, LKI_LOG_C4);
    p = vec_step(p, f, LKI_LOG_C3);
    p = vec_step(p, f, -0.5f);
    return vec_fma(k, vec_set(LKI_LN2), vec_fma(vec_mul(p, f), f, f));
}

static inline vec vec_log_special(vec x, vec u, vec r) /* inf and NaN stay; -inf at 0, NaN below */
{
    vec low = vec_select(vec_lt(u, vec_zero()), vec_set(NAN), vec_set(-INFINITY));
    r = vec_select(vec_not_lt(x, vec_set(INFINITY)), x, r);
    return vec_select(vec_lt(u, vec_set(LKI_SMALLEST)), low, r);
}

static inline vec vec_log(vec x)
{
    vint i = vint_sub(vec_bits(x), vint_set(LKI_SQRT_HALF_BITS));
    vint k = vint_right(i, 23);
    vec  m = vint_float_bits(vint_add(vint_and(i, vint_set(0x7fffff)), vint_set(LKI_SQRT_HALF_BITS)));
    return vec_log_special(x, x, vec_log_sum(vint_to_float(k), vec_sub(m, vec_set(1.0f))));
}

static inline vec vec_log1p(vec x)
{
    vec  u = vec_add(vec_set(1.0f), x);
    vec  c = vec_sub(x, vec_sub(u, vec_set(1.0f)));
    vint i = vint_sub(vec_bits(u), vint_set(LKI_SQRT_HALF_BITS));
    vint k = vint_right(i, 23);
    vec  m = vint_float_bits(vint_add(vint_and(i, vint_set(0x7fffff)), vint_set(LKI_SQRT_HALF_BITS)));
    vint scale = vint_max(vint_sub(vint_set(127), k), vint_set(0));
    vec  f = vec_fma(c, vint_float_bits(vint_left(scale, 23)), vec_sub(m, vec_set(1.0f)));
    return vec_log_special(x, u, vec_log_sum(vint_to_float(k), f));
}

static inline vec vec_tanh(vec x)
{
    vec a = vec_abs(x), s = vec_mul(x, x);
    vec p = vec_step(vec_set(LKI_TANH_C4), s, LKI_TANH_C3);
    p = vec_step(p, s, LKI_TANH_C2);
    p = vec_step(p, s, LKI_TANH_C1);
    p = vec_step(p, s, LKI_TANH_C0);
    vec small = vec_fma(vec_mul(p, s), x, x);
    vec e = vec_add(vec_exp(vec_add(a, a)), vec_set(1.0f));
    vec large = vec_sub(vec_set(1.0f), vec_div(vec_set(2.0f), e));
    return vec_select(vec_lt(a, vec_set(LKI_TANH_SPLIT)), small, vec_copysign(large, x));
}

static inline vec vec_sigmoid(vec x)
{
    vec e = vec_exp(vec_neg(vec_abs(x)));
    vec z = vec_div(e, vec_add(vec_set(1.0f), e));
    vec a = vec_select(vec_lt(x, vec_zero()), e, vec_set(1.0f));
    return vec_nfma(a, z, a);
}

static inline vec vec_softplus(vec x) { return vec_add(vec_max(x, vec_zero()), vec_log1p(vec_exp(vec_neg(vec_abs(x))))); }

static inline vec vec_erf(vec x)
{
    vec a = vec_abs(x), s = vec_mul(x, x);
    vec p = vec_step(vec_set(LKI_ERF_C6), s, LKI_ERF_C5);
    p = vec_step(p, s, LKI_ERF_C4);
    p = vec_step(p, s, LKI_ERF_C3);
    p = vec_step(p, s, LKI_ERF_C2);
    p = vec_step(p, s, LKI_ERF_C1);
    p = vec_step(p, s, LKI_ERF_C0);
    vec small = vec_fma(p, x, x);

    vec b = vec_min(vec_set(LKI_ERF_HIGH), a); /* NaN stays */
    vec q = vec_step(vec_set(LKI_ERF_D6), b, LKI_ERF_D5);
    q = vec_step(q, b, LKI_ERF_D4);
    q = vec_step(q, b, LKI_ERF_D3);
    q = vec_step(q, b, LKI_ERF_D2);
    q = vec_step(q, b, LKI_ERF_D1);
    q = vec_step(q, b, LKI_ERF_D0);
    vec large = vec_sub(vec_set(1.0f), vec_exp(vec_neg(vec_fma(q, b, b))));
    return vec_select(vec_le(a, vec_set(LKI_ERF_SPLIT)), small, vec_copysign(large, x));
}

#endif
