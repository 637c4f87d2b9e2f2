/* The vector operations that the products are written in, with AVX-512: vectors of 16 floats, tiles of 8 x 32. See simd_avx2.h for
 * the same operations. */
#ifndef LKI_KERNEL_CPU_SIMD_AVX512_H
#define LKI_KERNEL_CPU_SIMD_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define HAS_MANY_REGISTERS 1 /* 32 */

/* Half of each vector would be unused: the AVX2 kernel, which gives the same bits, is faster. */
#define IS_NARROW(columns) ((columns) <= 8)

enum { WIDTH = 16, ROWS = 8, COLS = 32 };

/* The most rows of a tile with this many columns. */
static inline int64_t rows_for(int64_t cols) { return cols > WIDTH ? ROWS : 8; }

typedef __m512    vf; /* floats */
typedef __m512i   vi; /* 32-bit integers */
typedef __mmask16 vm; /* which elements: one bit each */

static inline vf   vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf   vf_all(float x) { return _mm512_set1_ps(x); }
static inline vf   vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline vf   vf_load_some(const float *p, vm m) { return _mm512_maskz_loadu_ps(m, p); }
static inline void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
static inline void vf_store_some(float *p, vm m, vf x) { _mm512_mask_storeu_ps(p, m, x); }
static inline vf   vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf   vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf   vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf   vf_relu(vf x) { return _mm512_max_ps(_mm512_setzero_ps(), x); } /* the second operand for NaN and -0 */
static inline vf   vf_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
static inline vf   vf_permute(vf x, vi index) { return _mm512_permutexvar_ps(index, x); }
static inline vf vf_gather(const float *p, vi index, vm m) { return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), m, index, p, 4); }

static inline vi vi_all(int32_t x) { return _mm512_set1_epi32(x); }
static inline vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline vi vi_select(vm m, vi yes, vi no) { return _mm512_mask_blend_epi32(m, no, yes); }
static inline vm vi_equal(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }

/* Elements below n (n of 16 and more: all). */
static inline vm vm_first(int64_t n) { return (vm)(n >= 16 ? 0xffff : (1u << n) - 1); }

/* x is larger than best, in the order in which NaN is the largest and the first of equal ones is kept. */
static inline vm vm_wins(vf x, vf best)
{
    return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(best, best, _CMP_ORD_Q), x, best, _CMP_NLE_UQ);
}

/* x > best, false for NaN; the larger; of equal ones, and with NaN, the second. */
static inline vm vm_above(vf x, vf best) { return _mm512_cmp_ps_mask(x, best, _CMP_GT_OQ); }
static inline vf vf_max(vf x, vf best) { return _mm512_max_ps(x, best); }

static inline int vf_is_any_minus_zero(vf x)
{
    return _mm512_cmpeq_epi32_mask(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)) != 0;
}
static inline int vf_is_any_nan(vf x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0; }

/* An integer below 256 for each element. */
typedef __m128i vb;

static inline vb   vb_all(int x) { return _mm_set1_epi8((char)x); }
static inline vb   vb_select(vm m, int yes, vb no) { return _mm_mask_blend_epi8(m, no, _mm_set1_epi8((char)yes)); }
static inline void vb_store(uint8_t *p, vb x, int64_t n)
{
    if (n == 16) _mm_storeu_si128((__m128i *)p, x);
    else _mm_mask_storeu_epi8(p, vm_first(n), x);
}

static inline vf vf_add_where(vm m, vf a, vf b) { return _mm512_mask_add_ps(a, m, a, b); } /* a + b or a */
static inline vm vm_of_bytes_equal(const uint8_t *p, int32_t k)
{
    return _mm_cmpeq_epi8_mask(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8((char)k));
}

/* n <= 16 bytes to integers and back. */
static inline vi   vi_of_bytes(const uint8_t *p, int64_t n) { return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(vm_first(n), p)); }
static inline void vi_to_bytes(uint8_t *p, vi x, int64_t n)
{
    if (n == 16) _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(x));
    else _mm_mask_storeu_epi8(p, vm_first(n), _mm512_cvtepi32_epi8(x));
}

static inline void vi_store_some(int32_t *p, vm m, vi x) { _mm512_mask_storeu_epi32(p, m, x); }
static inline vi   vi_load_some(const int32_t *p, vm m) { return _mm512_maskz_loadu_epi32(m, p); }

/* Bit i: d[i] is live, that is, not zero, i < n <= 64. */
static inline vm       vm_live(const float *d) { return _mm512_cmp_ps_mask(vf_load(d), vf_zero(), _CMP_NEQ_UQ); }
static inline uint64_t live_word(const float *d, int64_t n)
{
    uint64_t word = 0;
    if (n == 64)
        return _mm512_kunpackd(_mm512_kunpackw(vm_live(d + 48), vm_live(d + 32)), _mm512_kunpackw(vm_live(d + 16), vm_live(d)));
    for (int64_t i = 0; i < n; i += 16) {
        const vm some = vm_first(n - i);
        word |= (uint64_t)_mm512_mask_cmp_ps_mask(some, vf_load_some(d + i, some), vf_zero(), _CMP_NEQ_UQ) << i;
    }
    return word;
}

/* *d for every element, through an integer register: in these loops loads of vectors are the bottleneck. */
static inline vf factor_of(const float *d)
{
    int32_t bits;
    memcpy(&bits, d, sizeof bits);
    __asm__("" : "+r"(bits));
    return _mm512_castsi512_ps(_mm512_set1_epi32(bits));
}

/* 64 bytes; a mask has bit i of a word for byte i. */
typedef __m512i v64;

static inline v64  v64_zero(void) { return _mm512_setzero_si512(); }
static inline v64  v64_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
static inline v64  v64_max(v64 x, v64 y) { return _mm512_max_epu8(x, y); }
static inline void v64_store(uint8_t *p, v64 x) { _mm512_storeu_si512(p, x); }
static inline v64  v64_add_where(v64 x, uint64_t where, int add)
{
    return _mm512_mask_add_epi8(x, where, x, _mm512_set1_epi8((char)add));
}
/* How many bits of each byte are set. */
static inline v64 v64_count(v64 x)
{
    const v64 half = _mm512_set1_epi8(15),
              counts = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    return _mm512_add_epi8(_mm512_shuffle_epi8(counts, _mm512_and_si512(x, half)),
                           _mm512_shuffle_epi8(counts, _mm512_and_si512(_mm512_srli_epi16(x, 4), half)));
}
static inline int64_t  v64_sum(v64 x) { return _mm512_reduce_add_epi64(_mm512_sad_epu8(x, v64_zero())); } /* of all bytes */
static inline uint64_t v64_equal(v64 x, int n) { return _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8((char)n)); }

#endif
