/* Sixteen floats at a time with AVX-512: one register. vec_avx2.h has the same names with two registers of eight.
 *
 * Invariants
 *  1. Every function is one rounded operation per element, or none; nothing here reorders or fuses unless its name says so.
 *  2. vec_max and vec_min return the second operand if either is NaN or both are zeros: a > b ? a : b and a < b ? a : b.
 *  3. Partial loads are padded with zeros; neither partial loads nor partial stores access memory after n elements. */
#ifndef LKI_KERNEL_CPU_VEC_AVX512_H
#define LKI_KERNEL_CPU_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { VEC = 16 };

typedef __m512    vec;
typedef __m512i   vint;
typedef __mmask16 vmask;

/* The first n elements, 0 <= n <= 16. */
static inline vmask vec_first(int64_t n) { return (vmask)((1u << n) - 1u); }

static inline vec  vec_set(float x) { return _mm512_set1_ps(x); }
static inline vec  vec_zero(void) { return _mm512_setzero_ps(); }
static inline vec  vec_load(const float *p) { return _mm512_loadu_ps(p); }
static inline vec  vec_load_part(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(vec_first(n), p); }
static inline void vec_store(float *p, vec a) { _mm512_storeu_ps(p, a); }
static inline void vec_store_part(float *p, vec a, int64_t n) { _mm512_mask_storeu_ps(p, vec_first(n), a); }

static inline vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }   /* a * b + c */
static inline vec vec_nfma(vec a, vec b, vec c) { return _mm512_fnmadd_ps(a, b, c); } /* -(a * b) + c */
static inline vec vec_sqrt(vec a) { return _mm512_sqrt_ps(a); }
static inline vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm512_min_ps(a, b); }
static inline vec vec_floor(vec a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vec vec_ceil(vec a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline vec vec_round(vec a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

static inline vec vec_abs(vec a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
static inline vec vec_neg(vec a) { return _mm512_xor_ps(_mm512_set1_ps(-0.0f), a); }
static inline vec vec_copysign(vec magnitude, vec sign)
{
    return _mm512_or_ps(vec_abs(magnitude), _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}

/* Comparisons are false if either is NaN, except vec_ne and vec_not_le. */
static inline vmask vec_lt(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vmask vec_le(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline vmask vec_eq(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline vmask vec_ne(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
static inline vmask vec_not_lt(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }
static inline vmask vec_not_le(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ); }
static inline vmask vec_nan(vec a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }

static inline vec vec_select(vmask m, vec yes, vec no) { return _mm512_mask_blend_ps(m, no, yes); }
static inline vec vec_keep(vmask m, vec a) { return _mm512_maskz_mov_ps(m, a); } /* a or 0 */
static inline int vec_any(vmask m) { return m != 0; }

/* A mask as bytes 0 and 1, and bytes (0 is false) as a mask. */
static inline void vec_store_bool(uint8_t *p, vmask m) { _mm_storeu_si128((__m128i *)(void *)p, _mm_maskz_set1_epi8(m, 1)); }
static inline void vec_store_bool_part(uint8_t *p, vmask m, int64_t n)
{
    _mm_mask_storeu_epi8(p, vec_first(n), _mm_maskz_set1_epi8(m, 1));
}
static inline vmask vec_load_bool(const uint8_t *p)
{
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm_test_epi8_mask(c, c);
}
static inline vmask vec_load_bool_part(const uint8_t *p, int64_t n)
{
    __m128i c = _mm_maskz_loadu_epi8(vec_first(n), p);
    return _mm_test_epi8_mask(c, c);
}

static inline vint vec_bits(vec a) { return _mm512_castps_si512(a); }
static inline vec  vint_float_bits(vint a) { return _mm512_castsi512_ps(a); }
static inline vec  vint_to_float(vint a) { return _mm512_cvtepi32_ps(a); }
static inline vint vint_set(int32_t x) { return _mm512_set1_epi32(x); }
static inline vint vint_add(vint a, vint b) { return _mm512_add_epi32(a, b); }
static inline vint vint_sub(vint a, vint b) { return _mm512_sub_epi32(a, b); }
static inline vint vint_and(vint a, vint b) { return _mm512_and_si512(a, b); }
static inline vint vint_xor(vint a, vint b) { return _mm512_xor_si512(a, b); }
static inline vint vint_max(vint a, vint b) { return _mm512_max_epi32(a, b); }
#define vint_left(a, bits) _mm512_slli_epi32(a, bits)
#define vint_right(a, bits) _mm512_srai_epi32(a, bits)          /* keeps the sign */
#define vint_right_unsigned(a, bits) _mm512_srli_epi32(a, bits) /* does not */

static inline vint vint_load(const uint32_t *p) { return _mm512_loadu_si512(p); }

/* The 64-bit product of unsigned elements with m, in two halves. */
static inline vint vint_multiply(vint a, uint32_t m, vint *high)
{
    vint by = _mm512_set1_epi64(m), even = _mm512_mul_epu32(a, by), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), by);
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    return _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}

/* Four vectors as a matrix of 4 rows, transposed so that quarter q of row j holds elements 4q + j of a, b, c, d. */
static inline void vint_turn(vint *a, vint *b, vint *c, vint *d)
{
    vint ab = _mm512_unpacklo_epi32(*a, *b), AB = _mm512_unpackhi_epi32(*a, *b);
    vint cd = _mm512_unpacklo_epi32(*c, *d), CD = _mm512_unpackhi_epi32(*c, *d);
    *a = _mm512_unpacklo_epi64(ab, cd), *b = _mm512_unpackhi_epi64(ab, cd);
    *c = _mm512_unpacklo_epi64(AB, CD), *d = _mm512_unpackhi_epi64(AB, CD);
}

/* Sixteen bytes as floats. */
static inline vec vec_load_bytes(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

/* 16 to 8 to 4 to 2 to 1 by acc[i] = acc[i] op acc[i + half]: the end of a FOLD block. */
static inline __m256 vec_upper(vec a) { return _mm512_extractf32x8_ps(a, 1); }
static inline __m256 vec_lower(vec a) { return _mm512_castps512_ps256(a); }
static inline vec    vec_join(__m256 lower, __m256 upper) { return _mm512_insertf32x8(_mm512_castps256_ps512(lower), upper, 1); }

/* Sixteen doubles, for long sums of floats. */
typedef struct wide {
    __m512d lo, hi;
} wide;

static inline wide wide_of(vec a) { return (wide){_mm512_cvtps_pd(vec_lower(a)), _mm512_cvtps_pd(vec_upper(a))}; }
static inline wide wide_load(const double *p) { return (wide){_mm512_loadu_pd(p), _mm512_loadu_pd(p + 8)}; }
static inline void wide_store(double *p, wide a) { _mm512_storeu_pd(p, a.lo), _mm512_storeu_pd(p + 8, a.hi); }
static inline wide wide_add(wide a, wide b) { return (wide){_mm512_add_pd(a.lo, b.lo), _mm512_add_pd(a.hi, b.hi)}; }
static inline wide wide_fma(wide a, wide b, wide c)
{
    return (wide){_mm512_fmadd_pd(a.lo, b.lo, c.lo), _mm512_fmadd_pd(a.hi, b.hi, c.hi)};
}

#include "kernel/cpu/vec_fold.h"

#endif
