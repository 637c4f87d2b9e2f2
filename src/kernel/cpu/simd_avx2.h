/* The vector operations that the products are written in, with AVX2: vectors of 8 floats, tiles of 6 x 16. See simd_avx512.h for
 * the same operations. */
#ifndef LKI_KERNEL_CPU_SIMD_AVX2_H
#define LKI_KERNEL_CPU_SIMD_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define HAS_MANY_REGISTERS 0 /* 16 */

/* No result is too narrow for vectors of 8. */
#define IS_NARROW(columns) ((void)(columns), 0)

enum { WIDTH = 8, ROWS = 6, COLS = 16 };

/* The most rows of a tile with this many columns. */
static inline int64_t rows_for(int64_t cols) { return cols > WIDTH ? ROWS : 8; }

typedef __m256  vf; /* floats */
typedef __m256i vi; /* 32-bit integers */
typedef __m256i vm; /* which elements: all bits of each, or none */

static inline vf   vf_zero(void) { return _mm256_setzero_ps(); }
static inline vf   vf_all(float x) { return _mm256_set1_ps(x); }
static inline vf   vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline vf   vf_load_some(const float *p, vm m) { return _mm256_maskload_ps(p, m); }
static inline void vf_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
static inline void vf_store_some(float *p, vm m, vf x) { _mm256_maskstore_ps(p, m, x); }
static inline vf   vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf   vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf   vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf   vf_relu(vf x) { return _mm256_max_ps(_mm256_setzero_ps(), x); } /* the second operand for NaN and -0 */
static inline vf   vf_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(m)); }
static inline vf   vf_permute(vf x, vi index) { return _mm256_permutevar8x32_ps(x, index); }
static inline vf   vf_gather(const float *p, vi index, vm m)
{
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, index, _mm256_castsi256_ps(m), 4);
}

static inline vi vi_all(int32_t x) { return _mm256_set1_epi32(x); }
static inline vi vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline vi vi_select(vm m, vi yes, vi no) { return _mm256_blendv_epi8(no, yes, m); }
static inline vm vi_equal(vi a, vi b) { return _mm256_cmpeq_epi32(a, b); }

/* Elements below n (n of 8 and more: all). */
static inline vm vm_first(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n > 8 ? 8 : n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* x is larger than best, in the order in which NaN is the largest and the first of equal ones is kept. */
static inline vm vm_wins(vf x, vf best)
{
    return _mm256_castps_si256(_mm256_and_ps(_mm256_cmp_ps(x, best, _CMP_NLE_UQ), _mm256_cmp_ps(best, best, _CMP_ORD_Q)));
}

/* x > best, false for NaN; the larger; of equal ones, and with NaN, the second. */
static inline vm vm_above(vf x, vf best) { return _mm256_castps_si256(_mm256_cmp_ps(x, best, _CMP_GT_OQ)); }
static inline vf vf_max(vf x, vf best) { return _mm256_max_ps(x, best); }

static inline int vf_is_any_minus_zero(vf x)
{
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(INT32_MIN))) != 0;
}
static inline int vf_is_any_nan(vf x) { return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0; }
static inline vf  vf_add_where(vm m, vf a, vf b) { return vf_select(m, _mm256_add_ps(a, b), a); } /* a + b or a */
static inline vm  vm_of_bytes_equal(const uint8_t *p, int32_t k)
{
    return _mm256_cvtepi8_epi32(_mm_cmpeq_epi8(_mm_loadl_epi64((const __m128i *)p), _mm_set1_epi8((char)k)));
}

/* n <= 8 bytes to integers and back. */
static inline vi vi_of_bytes(const uint8_t *p, int64_t n)
{
    int64_t word = 0;
    if (n == 8) memcpy(&word, p, 8);
    else memcpy(&word, p, (size_t)n);
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(word));
}

static inline void vi_to_bytes(uint8_t *p, vi x, int64_t n)
{
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    const int64_t word = _mm_cvtsi128_si64(_mm_packus_epi16(words, words));
    if (n == 8) memcpy(p, &word, 8);
    else memcpy(p, &word, (size_t)n);
}

/* An integer below 256 for each element. */
typedef __m256i vb;

static inline vb   vb_all(int x) { return vi_all(x); }
static inline vb   vb_select(vm m, int yes, vb no) { return vi_select(m, vi_all(yes), no); }
static inline void vb_store(uint8_t *p, vb x, int64_t n) { vi_to_bytes(p, x, n); }

static inline void vi_store_some(int32_t *p, vm m, vi x) { _mm256_maskstore_epi32(p, m, x); }
static inline vi   vi_load_some(const int32_t *p, vm m) { return _mm256_maskload_epi32(p, m); }

static inline vf where_live(vf d) { return _mm256_cmp_ps(d, vf_zero(), _CMP_NEQ_UQ); }

/* Bit i: d[i] is live, that is, not zero, i < n <= 64. */
static inline uint64_t live_word(const float *d, int64_t n)
{
    uint64_t word = 0;
    for (int64_t i = 0; i < n; i += 8) {
        const vf some = n - i >= 8 ? vf_load(d + i) : vf_load_some(d + i, vm_first(n - i));
        word |= (uint64_t)(unsigned)_mm256_movemask_ps(where_live(some)) << i;
    }
    return word;
}

/* *d for every element. */
static inline vf factor_of(const float *d) { return vf_all(*d); }

/* 64 bytes; a mask has bit i of a word for byte i. */
typedef struct v64 {
    __m256i low, high;
} v64;

static inline v64 v64_zero(void) { return (v64){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
static inline v64 v64_load(const uint8_t *p)
{
    return (v64){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
static inline v64  v64_max(v64 x, v64 y) { return (v64){_mm256_max_epu8(x.low, y.low), _mm256_max_epu8(x.high, y.high)}; }
static inline void v64_store(uint8_t *p, v64 x)
{
    _mm256_storeu_si256((__m256i *)p, x.low);
    _mm256_storeu_si256((__m256i *)p + 1, x.high);
}

/* Byte i is 255 where bit i is set. */
static inline __m256i bytes_of_bits(uint32_t word)
{
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)word), which), bit), bit);
}

static inline v64 v64_add_where(v64 x, uint64_t where, int add)
{
    const __m256i all = _mm256_set1_epi8((char)add);
    return (v64){_mm256_add_epi8(x.low, _mm256_and_si256(bytes_of_bits((uint32_t)where), all)),
                 _mm256_add_epi8(x.high, _mm256_and_si256(bytes_of_bits((uint32_t)(where >> 32)), all))};
}

/* How many bits of each byte are set. */
static inline __m256i bits_of_bytes(__m256i x)
{
    const __m256i half = _mm256_set1_epi8(15),
                  counts = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    return _mm256_add_epi8(_mm256_shuffle_epi8(counts, _mm256_and_si256(x, half)),
                           _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16(x, 4), half)));
}
static inline v64     v64_count(v64 x) { return (v64){bits_of_bytes(x.low), bits_of_bytes(x.high)}; }
static inline int64_t v64_sum(v64 x) /* of all bytes */
{
    const __m256i zero = _mm256_setzero_si256(),
                  sums = _mm256_add_epi64(_mm256_sad_epu8(x.low, zero), _mm256_sad_epu8(x.high, zero));
    return _mm256_extract_epi64(sums, 0) + _mm256_extract_epi64(sums, 1) + _mm256_extract_epi64(sums, 2) +
           _mm256_extract_epi64(sums, 3);
}
static inline uint64_t v64_equal(v64 x, int n)
{
    const __m256i all = _mm256_set1_epi8((char)n);
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x.low, all)) |
           (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x.high, all)) << 32;
}

#endif
