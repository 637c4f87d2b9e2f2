/* Updates of optimisers with AVX2: cpu/update.inc on vectors of 32 bytes. */
#include "kernel/register.h"
#include "kernel/update.h"
#include <immintrin.h>
#include <math.h>
#include <string.h>

#define VARIANT "avx2"

#define T float
#define V __m256
#define SQRT(x) _mm256_sqrt_ps(x)
#define MAX(a, b) _mm256_max_ps(a, b) /* b when either is NaN: a > b ? a : b */
#define PAST(x, v) _mm256_stream_ps(x, v)
#define NAME(x) f32_##x
#include "kernel/cpu/update.inc"
#undef T
#undef V
#undef SQRT
#undef MAX
#undef PAST
#undef NAME

#define T double
#define V __m256d
#define SQRT(x) _mm256_sqrt_pd(x)
#define MAX(a, b) _mm256_max_pd(a, b)
#define PAST(x, v) _mm256_stream_pd(x, v)
#define NAME(x) f64_##x
#include "kernel/cpu/update.inc"

void lki_register_update_avx2(lki_kernels *k)
{
    f32_register(k, LK_F32);
    f64_register(k, LK_F64);
}
