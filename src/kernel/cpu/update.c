/* Updates of optimisers: update.inc on the widest vectors there are, of floats and of doubles. */
#include "kernel/update.h"
#include "kernel/cpu/simd.h"
#include "kernel/register.h"
#include <math.h>

#ifdef LKI_AVX512
typedef __m512  floats;
typedef __m512d doubles;
#define OF(word) _mm512_##word
#else
typedef __m256  floats;
typedef __m256d doubles;
#define OF(word) _mm256_##word
#endif

#define T float
#define V floats
#define SQRT(x) OF(sqrt_ps)(x)
#define MAX(a, b) OF(max_ps)(a, b) /* b when either is NaN: a > b ? a : b */
#define PAST(x, v) OF(stream_ps)(x, v)
#define NAME(x) f32_##x
#include "kernel/cpu/update.inc"
#undef T
#undef V
#undef SQRT
#undef MAX
#undef PAST
#undef NAME

#define T double
#define V doubles
#define SQRT(x) OF(sqrt_pd)(x)
#define MAX(a, b) OF(max_pd)(a, b)
#define PAST(x, v) OF(stream_pd)(x, v)
#define NAME(x) f64_##x
#include "kernel/cpu/update.inc"

void ISA(lki_register_update)(lki_kernels *k)
{
    f32_register(k, LK_F32);
    f64_register(k, LK_F64);
}
