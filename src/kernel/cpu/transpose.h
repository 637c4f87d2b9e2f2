/* Transposing blocks of floats, 8 x 8 at a time in AVX registers. Moves only. */
#ifndef LKI_KERNEL_CPU_TRANSPOSE_H
#define LKI_KERNEL_CPU_TRANSPOSE_H

#include <immintrin.h>
#include <stdint.h>

/* Four registers as a 4 x 4 matrix in each half, transposed. */
static inline void lki_turn_halves(__m256 *a, __m256 *b, __m256 *c, __m256 *d)
{
    __m256 ab = _mm256_unpacklo_ps(*a, *b), AB = _mm256_unpackhi_ps(*a, *b);
    __m256 cd = _mm256_unpacklo_ps(*c, *d), CD = _mm256_unpackhi_ps(*c, *d);
    *a = _mm256_shuffle_ps(ab, cd, 0x44), *b = _mm256_shuffle_ps(ab, cd, 0xee);
    *c = _mm256_shuffle_ps(AB, CD, 0x44), *d = _mm256_shuffle_ps(AB, CD, 0xee);
}

static inline void lki_store_halves(float *dst, int64_t dst_row, __m256 a, __m256 b)
{
    _mm256_storeu_ps(dst, _mm256_permute2f128_ps(a, b, 0x20));
    _mm256_storeu_ps(dst + 4 * dst_row, _mm256_permute2f128_ps(a, b, 0x31));
}

/* Without a loop: at -O2 the compiler would keep the registers in memory. */
static inline void lki_transpose_8x8(const float *src, int64_t src_row, float *dst, int64_t dst_row)
{
    const float *low = src + 4 * src_row;
    __m256       a = _mm256_loadu_ps(src), b = _mm256_loadu_ps(src + src_row);
    __m256       c = _mm256_loadu_ps(src + 2 * src_row), d = _mm256_loadu_ps(src + 3 * src_row);
    __m256       e = _mm256_loadu_ps(low), f = _mm256_loadu_ps(low + src_row);
    __m256       g = _mm256_loadu_ps(low + 2 * src_row), h = _mm256_loadu_ps(low + 3 * src_row);
    lki_turn_halves(&a, &b, &c, &d);
    lki_turn_halves(&e, &f, &g, &h);
    lki_store_halves(dst, dst_row, a, e);
    lki_store_halves(dst + dst_row, dst_row, b, f);
    lki_store_halves(dst + 2 * dst_row, dst_row, c, g);
    lki_store_halves(dst + 3 * dst_row, dst_row, d, h);
}

/* dst[j][i] = src[i][j] for i < rows, j < cols. */
static inline void lki_transpose(const float *src, int64_t src_row, int64_t rows, int64_t cols, float *dst, int64_t dst_row)
{
    for (int64_t i = 0; i < rows; i += 8)
        for (int64_t j = 0; j < cols; j += 8) {
            if (i + 8 <= rows && j + 8 <= cols) {
                lki_transpose_8x8(src + i * src_row + j, src_row, dst + j * dst_row + i, dst_row);
                continue;
            }
            for (int64_t y = i; y < rows && y < i + 8; y++)
                for (int64_t x = j; x < cols && x < j + 8; x++)
                    dst[x * dst_row + y] = src[y * src_row + x];
        }
}

#endif
