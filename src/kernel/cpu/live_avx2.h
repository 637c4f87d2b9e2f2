/* Vector operations that only live.c needs, with AVX2. See live_avx512.h for the same operations. */
#ifndef LKI_KERNEL_CPU_LIVE_AVX2_H
#define LKI_KERNEL_CPU_LIVE_AVX2_H

#include "kernel/cpu/simd_avx2.h"

/* Bit i: y[i] > 0, i < n <= 64. */
static inline uint64_t positive_word(const float *y, int64_t n)
{
    uint64_t word = 0;
    for (int64_t i = 0; i < n; i += 8) {
        const vf some = n - i >= 8 ? vf_load(y + i) : vf_load_some(y + i, vm_first(n - i));
        word |= (uint64_t)(unsigned)_mm256_movemask_ps(_mm256_cmp_ps(some, vf_zero(), _CMP_GT_OQ)) << i;
    }
    return word;
}

/* d where y > 0, else 0. */
static inline vf where_positive(vf y, vf d) { return _mm256_and_ps(_mm256_cmp_ps(y, vf_zero(), _CMP_GT_OQ), d); }

/* Bit i: cell[i] is q, i < n <= 64. */
static inline void cell_words(const uint8_t *cell, int64_t n, uint64_t word[4])
{
    uint8_t part[64];
    if (n < 64) {
        memset(part, 4, sizeof part);
        memcpy(part, cell, (size_t)n);
        cell = part;
    }
    const __m256i low = _mm256_loadu_si256((const __m256i *)cell), high = _mm256_loadu_si256((const __m256i *)(cell + 32));
    for (int q = 0; q < 4; q++) {
        const __m256i which = _mm256_set1_epi8((char)q);
        word[q] = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, which)) |
                  (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, which)) << 32;
    }
}

/* Sets `bit` in those elements of bits where d is live. */
static inline vi bit_where_live(vi bits, vf d, int32_t bit)
{
    return _mm256_or_si256(bits, _mm256_and_si256(_mm256_castps_si256(where_live(d)), _mm256_set1_epi32(bit)));
}

/* For each element the one of four integers that `which` selects. */
static inline vi one_of_four(const int32_t *four, vi which)
{
    return _mm256_permutevar8x32_epi32(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)four)), which);
}

/* Which of four candidates each element uses, and the factor. If the factor is zero nothing may be added, not even +0 to -0: then
 * it becomes -0, and the candidate, by a byte order with the high bit set, +0; their product -0 changes no sum. */
typedef struct choice {
    vi cell, live;
    vi order; /* of the bytes of four floats */
    vf d;
} choice;

static inline choice choice_of(vf value, const uint8_t *cell, int64_t n)
{
    const vi orders =
        _mm256_setr_epi32(0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c, 0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c);
    choice c = {.cell = vi_of_bytes(cell, n)};
    c.live = _mm256_castps_si256(where_live(value));
    c.order = _mm256_castps_si256(_mm256_permutevar_ps(_mm256_castsi256_ps(orders), c.cell));
    c.order = _mm256_or_si256(c.order, _mm256_andnot_si256(c.live, _mm256_set1_epi32((int)0x80808080)));
    c.d = vf_select(c.live, value, vf_all(-0.0f));
    return c;
}

static inline vf chosen_fma(const float *four, const choice *c, vf sum)
{
    const vi all = _mm256_castps_si256(_mm256_broadcast_ps((const __m128 *)four));
    return vf_fma(_mm256_castsi256_ps(_mm256_shuffle_epi8(all, c->order)), c->d, sum);
}

/* Adds x where the cell is q. */
static inline vf cell_fma(float x, int q, const choice *c, vf sum)
{
    return vf_select(_mm256_and_si256(c->live, vi_equal(c->cell, vi_all(q))), vf_fma(vf_all(x), c->d, sum), sum);
}

#endif
