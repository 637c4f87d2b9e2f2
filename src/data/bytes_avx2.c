/* bytes.inc for AVX2. The build gives this file its instruction set by its name. */
#include "kernel/cpu/vec_avx2.h"

#define LKI_BYTES lki_bytes_avx2

static inline __m256 bytes_load_half(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

static inline vec bytes_load(const uint8_t *p) { return (vec){bytes_load_half(p), bytes_load_half(p + 8)}; }

#include "data/bytes.inc"
