/* Sixteen floats at a time with AVX2 and FMA: two registers of eight. vec_avx512.h has the same names with one register of sixteen;
 * its invariants hold here too. */
#ifndef LKI_KERNEL_CPU_VEC_AVX2_H
#define LKI_KERNEL_CPU_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { VEC = 16 };

typedef struct vec {
    __m256 lo, hi;
} vec;
typedef struct vint {
    __m256i lo, hi;
} vint;
typedef vec vmask; /* all bits of an element set or none */

/* Applies an operation to both halves: of vec, vec and vec; mask comparisons; integers. */
#define VEC_1(call, a) ((vec){call((a).lo), call((a).hi)})
#define VEC_2(call, a, b) ((vec){call((a).lo, (b).lo), call((a).hi, (b).hi)})
#define VEC_3(call, a, b, c) ((vec){call((a).lo, (b).lo, (c).lo), call((a).hi, (b).hi, (c).hi)})
#define VEC_IMM(call, a, imm) ((vec){call((a).lo, imm), call((a).hi, imm)})
#define VEC_CMP(a, b, how) ((vmask){_mm256_cmp_ps((a).lo, (b).lo, how), _mm256_cmp_ps((a).hi, (b).hi, how)})
#define VINT_2(call, a, b) ((vint){call((a).lo, (b).lo), call((a).hi, (b).hi)})
#define VINT_IMM(call, a, imm) ((vint){call((a).lo, imm), call((a).hi, imm)})

static inline __m256i vec_first_half(int64_t n)
{
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    n = n < 0 ? 0 : n > 8 ? 8 : n;
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - n));
}

/* The first n elements, 0 <= n <= 16. */
static inline vmask vec_first(int64_t n)
{
    return (vmask){_mm256_castsi256_ps(vec_first_half(n)), _mm256_castsi256_ps(vec_first_half(n - 8))};
}

static inline vec vec_set(float x) { return (vec){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline vec vec_zero(void) { return (vec){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline vec vec_load(const float *p) { return (vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline vec vec_load_part(const float *p, int64_t n)
{
    vec a = {_mm256_maskload_ps(p, vec_first_half(n)), _mm256_setzero_ps()};
    if (n > 8) a.hi = _mm256_maskload_ps(p + 8, vec_first_half(n - 8));
    return a;
}
static inline void vec_store(float *p, vec a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
/* Piece by piece: a masked store takes tens of cycles on many processors. */
static inline void vec_store_part(float *p, vec a, int64_t n)
{
    if (n >= VEC) {
        vec_store(p, a);
        return;
    }
    if (n & 8) {
        _mm256_storeu_ps(p, a.lo);
        a.lo = a.hi;
        p += 8;
    }
    __m128 four = _mm256_castps256_ps128(a.lo);
    if (n & 4) {
        _mm_storeu_ps(p, four);
        four = _mm256_extractf128_ps(a.lo, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, four);
        four = _mm_movehl_ps(four, four);
        p += 2;
    }
    if (n & 1) _mm_store_ss(p, four);
}

static inline vec vec_add(vec a, vec b) { return VEC_2(_mm256_add_ps, a, b); }
static inline vec vec_sub(vec a, vec b) { return VEC_2(_mm256_sub_ps, a, b); }
static inline vec vec_mul(vec a, vec b) { return VEC_2(_mm256_mul_ps, a, b); }
static inline vec vec_div(vec a, vec b) { return VEC_2(_mm256_div_ps, a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return VEC_3(_mm256_fmadd_ps, a, b, c); }
static inline vec vec_nfma(vec a, vec b, vec c) { return VEC_3(_mm256_fnmadd_ps, a, b, c); }
static inline vec vec_sqrt(vec a) { return VEC_1(_mm256_sqrt_ps, a); }
static inline vec vec_max(vec a, vec b) { return VEC_2(_mm256_max_ps, a, b); }
static inline vec vec_min(vec a, vec b) { return VEC_2(_mm256_min_ps, a, b); }
static inline vec vec_floor(vec a) { return VEC_IMM(_mm256_round_ps, a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vec vec_ceil(vec a) { return VEC_IMM(_mm256_round_ps, a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline vec vec_round(vec a) { return VEC_IMM(_mm256_round_ps, a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

static inline vec vec_abs(vec a)
{
    vec sign = vec_set(-0.0f);
    return VEC_2(_mm256_andnot_ps, sign, a);
}
static inline vec vec_neg(vec a)
{
    vec sign = vec_set(-0.0f);
    return VEC_2(_mm256_xor_ps, sign, a);
}
static inline vec vec_copysign(vec magnitude, vec sign)
{
    vec bit = vec_set(-0.0f), a = vec_abs(magnitude), s = VEC_2(_mm256_and_ps, bit, sign);
    return VEC_2(_mm256_or_ps, a, s);
}

static inline vmask vec_lt(vec a, vec b) { return VEC_CMP(a, b, _CMP_LT_OQ); }
static inline vmask vec_le(vec a, vec b) { return VEC_CMP(a, b, _CMP_LE_OQ); }
static inline vmask vec_eq(vec a, vec b) { return VEC_CMP(a, b, _CMP_EQ_OQ); }
static inline vmask vec_ne(vec a, vec b) { return VEC_CMP(a, b, _CMP_NEQ_UQ); }
static inline vmask vec_not_lt(vec a, vec b) { return VEC_CMP(a, b, _CMP_NLT_UQ); }
static inline vmask vec_not_le(vec a, vec b) { return VEC_CMP(a, b, _CMP_NLE_UQ); }
static inline vmask vec_nan(vec a) { return VEC_CMP(a, a, _CMP_UNORD_Q); }

static inline vec vec_select(vmask m, vec yes, vec no) { return VEC_3(_mm256_blendv_ps, no, yes, m); }
static inline vec vec_keep(vmask m, vec a) { return VEC_2(_mm256_and_ps, m, a); }
static inline int vec_any(vmask m) { return (_mm256_movemask_ps(m.lo) | _mm256_movemask_ps(m.hi)) != 0; }

static inline __m128i vec_mask_bytes(vmask m)
{
    __m256i words = _mm256_packs_epi32(_mm256_castps_si256(m.lo), _mm256_castps_si256(m.hi)); /* quarters 0 2 1 3 */
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return _mm_and_si128(bytes, _mm_set1_epi8(1));
}
static inline void vec_store_bool(uint8_t *p, vmask m) { _mm_storeu_si128((__m128i *)(void *)p, vec_mask_bytes(m)); }
static inline void vec_store_bool_part(uint8_t *p, vmask m, int64_t n)
{
    uint8_t bytes[16];
    vec_store_bool(bytes, m);
    memcpy(p, bytes, (size_t)n);
}
static inline vmask vec_load_bool(const uint8_t *p)
{
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)p);
    vint    w = {_mm256_cvtepu8_epi32(c), _mm256_cvtepu8_epi32(_mm_srli_si128(c, 8))},
         zero = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    w = VINT_2(_mm256_cmpgt_epi32, w, zero);
    return (vmask){_mm256_castsi256_ps(w.lo), _mm256_castsi256_ps(w.hi)};
}
static inline vmask vec_load_bool_part(const uint8_t *p, int64_t n)
{
    uint8_t bytes[16] = {0};
    memcpy(bytes, p, (size_t)n);
    return vec_load_bool(bytes);
}

static inline vint vec_bits(vec a) { return (vint){_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
static inline vec  vint_float_bits(vint a) { return (vec){_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
static inline vec  vint_to_float(vint a) { return (vec){_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
static inline vint vint_set(int32_t x) { return (vint){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
static inline vint vint_add(vint a, vint b) { return VINT_2(_mm256_add_epi32, a, b); }
static inline vint vint_sub(vint a, vint b) { return VINT_2(_mm256_sub_epi32, a, b); }
static inline vint vint_and(vint a, vint b) { return VINT_2(_mm256_and_si256, a, b); }
static inline vint vint_xor(vint a, vint b) { return VINT_2(_mm256_xor_si256, a, b); }
static inline vint vint_max(vint a, vint b) { return VINT_2(_mm256_max_epi32, a, b); }
#define vint_left(a, bits) VINT_IMM(_mm256_slli_epi32, a, bits)
#define vint_right(a, bits) VINT_IMM(_mm256_srai_epi32, a, bits)
#define vint_right_unsigned(a, bits) VINT_IMM(_mm256_srli_epi32, a, bits)

static inline vint vint_load(const uint32_t *p)
{
    const __m256i *half = (const __m256i *)(const void *)p;
    return (vint){_mm256_loadu_si256(half), _mm256_loadu_si256(half + 1)};
}

static inline __m256i vint_multiply_half(__m256i a, __m256i m, __m256i *high)
{
    __m256i even = _mm256_mul_epu32(a, m), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), m);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
static inline vint vint_multiply(vint a, uint32_t m, vint *high)
{
    __m256i by = _mm256_set1_epi64x(m);
    return (vint){vint_multiply_half(a.lo, by, &high->lo), vint_multiply_half(a.hi, by, &high->hi)};
}

static inline void vint_turn(vint *a, vint *b, vint *c, vint *d)
{
    vint ab = VINT_2(_mm256_unpacklo_epi32, *a, *b), AB = VINT_2(_mm256_unpackhi_epi32, *a, *b);
    vint cd = VINT_2(_mm256_unpacklo_epi32, *c, *d), CD = VINT_2(_mm256_unpackhi_epi32, *c, *d);
    *a = VINT_2(_mm256_unpacklo_epi64, ab, cd), *b = VINT_2(_mm256_unpackhi_epi64, ab, cd);
    *c = VINT_2(_mm256_unpacklo_epi64, AB, CD), *d = VINT_2(_mm256_unpackhi_epi64, AB, CD);
}

/* Sixteen bytes as floats. */
static inline vec vec_load_bytes(const uint8_t *p)
{
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);
    return (vec){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(b, 8)))};
}

static inline __m256 vec_upper(vec a) { return a.hi; }
static inline __m256 vec_lower(vec a) { return a.lo; }
static inline vec    vec_join(__m256 lower, __m256 upper) { return (vec){lower, upper}; }

/* Sixteen doubles, for long sums of floats. */
typedef struct wide {
    __m256d q[4];
} wide;

#define WIDE_2(call, a, b) ((wide){{call(a.q[0], b.q[0]), call(a.q[1], b.q[1]), call(a.q[2], b.q[2]), call(a.q[3], b.q[3])}})

static inline wide wide_of(vec a)
{
    return (wide){{_mm256_cvtps_pd(_mm256_castps256_ps128(a.lo)), _mm256_cvtps_pd(_mm256_extractf128_ps(a.lo, 1)),
                   _mm256_cvtps_pd(_mm256_castps256_ps128(a.hi)), _mm256_cvtps_pd(_mm256_extractf128_ps(a.hi, 1))}};
}
static inline wide wide_load(const double *p)
{
    return (wide){{_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4), _mm256_loadu_pd(p + 8), _mm256_loadu_pd(p + 12)}};
}
static inline void wide_store(double *p, wide a)
{
    for (int i = 0; i < 4; i++)
        _mm256_storeu_pd(p + 4 * i, a.q[i]);
}
static inline wide wide_add(wide a, wide b) { return WIDE_2(_mm256_add_pd, a, b); }
static inline wide wide_fma(wide a, wide b, wide c)
{
    return (wide){{_mm256_fmadd_pd(a.q[0], b.q[0], c.q[0]), _mm256_fmadd_pd(a.q[1], b.q[1], c.q[1]),
                   _mm256_fmadd_pd(a.q[2], b.q[2], c.q[2]), _mm256_fmadd_pd(a.q[3], b.q[3], c.q[3])}};
}

#include "kernel/cpu/vec_fold.h"

#endif
