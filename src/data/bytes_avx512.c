/* bytes.inc for AVX-512. The build gives this file its instruction set by its name. */
#include "kernel/cpu/vec_avx512.h"

#define LKI_BYTES lki_bytes_avx512

static inline vec bytes_load(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

#include "data/bytes.inc"
