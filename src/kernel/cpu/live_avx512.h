/* Vector operations that only live.c needs, with AVX-512. See live_avx2.h for the same operations. */
#ifndef LKI_KERNEL_CPU_LIVE_AVX512_H
#define LKI_KERNEL_CPU_LIVE_AVX512_H

#include "kernel/cpu/simd_avx512.h"

/* Bit i: y[i] > 0, i < n <= 64. */
static inline uint64_t positive_word(const float *y, int64_t n)
{
    uint64_t word = 0;
    for (int64_t i = 0; i < n; i += 16) {
        const vm some = vm_first(n - i);
        word |= (uint64_t)_mm512_mask_cmp_ps_mask(some, vf_load_some(y + i, some), vf_zero(), _CMP_GT_OQ) << i;
    }
    return word;
}

/* d where y > 0, else 0. */
static inline vf where_positive(vf y, vf d) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, vf_zero(), _CMP_GT_OQ), d); }

/* Bit i: cell[i] is q, i < n <= 64. */
static inline void cell_words(const uint8_t *cell, int64_t n, uint64_t word[4])
{
    const __mmask64 some = n >= 64 ? ~0ull : (1ull << n) - 1;
    const __m512i   cells = _mm512_maskz_loadu_epi8(some, cell);
    for (int q = 0; q < 4; q++)
        word[q] = _mm512_mask_cmpeq_epi8_mask(some, cells, _mm512_set1_epi8((char)q));
}

/* Sets `bit` in those elements of bits where d is live. */
static inline vi bit_where_live(vi bits, vf d, int32_t bit)
{
    return _mm512_mask_or_epi32(bits, _mm512_cmp_ps_mask(d, vf_zero(), _CMP_NEQ_UQ), bits, _mm512_set1_epi32(bit));
}

/* For each element the one of four integers that `which` selects. */
static inline vi one_of_four(const int32_t *four, vi which)
{
    return _mm512_permutexvar_epi32(which, _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)four)));
}

/* Which of four candidates each element uses, and the factor: nothing is added where it is zero. */
typedef struct choice {
    vi cell;
    vf d;
    vm live;
} choice;

static inline choice choice_of(vf d, const uint8_t *cell, int64_t n)
{
    choice c = {.cell = vi_of_bytes(cell, n), .d = d};
    c.live = _mm512_cmp_ps_mask(c.d, vf_zero(), _CMP_NEQ_UQ);
    return c;
}

static inline vf chosen_fma(const float *four, const choice *c, vf sum)
{
    return _mm512_mask3_fmadd_ps(_mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(four)), c->cell), c->d, sum, c->live);
}

/* Adds x where the cell is q. */
static inline vf cell_fma(float x, int q, const choice *c, vf sum)
{
    return _mm512_mask3_fmadd_ps(vf_all(x), c->d, sum, _mm512_mask_cmpeq_epi32_mask(c->live, c->cell, vi_all(q)));
}

#endif
