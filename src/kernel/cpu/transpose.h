/* Transposing blocks of floats, 8 x 8 at a time in AVX registers. Moves only. */
#ifndef LKI_KERNEL_CPU_TRANSPOSE_H
#define LKI_KERNEL_CPU_TRANSPOSE_H

#include <immintrin.h>
#include <stdint.h>

static inline void lki_transpose_8x8(const float *src, int64_t src_row, float *dst, int64_t dst_row)
{
    __m256 r[8], u[8];
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(src + i * src_row);
    for (int i = 0; i < 8; i += 2) {
        u[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        u[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_shuffle_ps(u[i + j], u[i + 2 + j], 0x44);
            r[i + 2 * j + 1] = _mm256_shuffle_ps(u[i + j], u[i + 2 + j], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(dst + i * dst_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(dst + (i + 4) * dst_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
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
