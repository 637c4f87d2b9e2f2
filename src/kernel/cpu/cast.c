/* cast to and from f32: the pairs with which training moves much data. All other pairs are in ref/cast.c.
 *
 * Eight at a time; the last few are copied to a buffer first. Every conversion is one rounded operation, as in the reference. In
 * conversions to integers the processor returns the lowest integer if a number does not fit; that is corrected. Kernels run with
 * FTZ and DAZ: in conversions to bf16 a subnormal is zero. dst may be src if the sizes are equal. */
#include "kernel/cpu/vec.h"
#include "kernel/register.h"

#define EIGHTS(name, S, D)                                                                                                         \
    static void name(const void *src, void *dst, int64_t lo, int64_t hi)                                                           \
    {                                                                                                                              \
        const S *from = (const S *)src;                                                                                            \
        D       *to = (D *)dst, results[8];                                                                                        \
        S        last[8] = {0};                                                                                                    \
        int64_t  i = lo;                                                                                                           \
        for (; i + 8 <= hi; i += 8)                                                                                                \
            name##_eight(from + i, to + i);                                                                                        \
        if (i == hi) return;                                                                                                       \
        memcpy(last, from + i, (size_t)(hi - i) * sizeof(S));                                                                      \
        name##_eight(last, results);                                                                                               \
        memcpy(to + i, results, (size_t)(hi - i) * sizeof(D));                                                                     \
    }

static inline __m128i load_bytes(const uint8_t *p) { return _mm_loadl_epi64((const __m128i *)(const void *)p); } /* eight of them */
static inline __m128i load_16(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline __m256i load_32(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void    store_16(void *p, __m128i x) { _mm_storeu_si128((__m128i *)p, x); }
static inline void    store_32(void *p, __m256i x) { _mm256_storeu_si256((__m256i *)p, x); }

/* Eight 32-bit integers, each below 65536, as 16-bit ones. */
static inline __m128i narrow(__m256i x) { return _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)); }

/* ---- to f32 ------------------------------------------------------------------------------------------------------------------ */

static inline void u8_to_f32_eight(const uint8_t *from, float *to)
{
    _mm256_storeu_ps(to, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_bytes(from))));
}

static inline void bool_to_f32_eight(const uint8_t *from, float *to)
{
    __m128i truth = _mm_min_epu8(load_bytes(from), _mm_set1_epi8(1));
    _mm256_storeu_ps(to, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(truth)));
}

static inline void i32_to_f32_eight(const int32_t *from, float *to) { _mm256_storeu_ps(to, _mm256_cvtepi32_ps(load_32(from))); }

static inline void f64_to_f32_eight(const double *from, float *to)
{
    __m128 low = _mm256_cvtpd_ps(_mm256_loadu_pd(from)), high = _mm256_cvtpd_ps(_mm256_loadu_pd(from + 4));
    _mm256_storeu_ps(to, _mm256_set_m128(high, low));
}

static inline void f16_to_f32_eight(const uint16_t *from, float *to) { _mm256_storeu_ps(to, _mm256_cvtph_ps(load_16(from))); }

static inline void bf16_to_f32_eight(const uint16_t *from, float *to)
{
    _mm256_storeu_ps(to, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16(from)), 16)));
}

EIGHTS(u8_to_f32, uint8_t, float)
EIGHTS(bool_to_f32, uint8_t, float)
EIGHTS(i32_to_f32, int32_t, float)
EIGHTS(f64_to_f32, double, float)
EIGHTS(f16_to_f32, uint16_t, float)
EIGHTS(bf16_to_f32, uint16_t, float)

/* ---- from f32 ---------------------------------------------------------------------------------------------------------------- */

static inline void f32_to_f64_eight(const float *from, double *to)
{
    __m256 x = _mm256_loadu_ps(from);
    _mm256_storeu_pd(to, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    _mm256_storeu_pd(to + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
}

static inline void f32_to_f16_eight(const float *from, uint16_t *to)
{
    store_16(to, _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* Rounds the bits to nearest even: adds half of the dropped part minus one, and one more if the kept part is odd. */
static inline void f32_to_bf16_eight(const float *from, uint16_t *to)
{
    __m256i x = load_32(from), size = _mm256_and_si256(x, _mm256_set1_epi32(0x7fffffff)), top = _mm256_srli_epi32(x, 16);
    __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i nan = _mm256_or_si256(top, _mm256_set1_epi32(0x40)), sign = _mm256_and_si256(top, _mm256_set1_epi32(0x8000));
    rounded = _mm256_blendv_epi8(rounded, nan, _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0x7f800000)));
    rounded = _mm256_blendv_epi8(rounded, sign, _mm256_cmpgt_epi32(_mm256_set1_epi32(0x800000), size));
    store_16(to, narrow(rounded));
}

static inline void f32_to_bool_eight(const float *from, uint8_t *to)
{
    __m256i truth = _mm256_castps_si256(_mm256_cmp_ps(_mm256_loadu_ps(from), _mm256_setzero_ps(), _CMP_NEQ_UQ));
    __m128i words = narrow(_mm256_srli_epi32(truth, 31));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(words, words));
}

/* The lowest integer with all bits inverted is the highest. */
static inline void f32_to_i32_eight(const float *from, int32_t *to)
{
    __m256  x = _mm256_loadu_ps(from);
    __m256i high = _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ));
    __m256i number = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q));
    store_32(to, _mm256_and_si256(number, _mm256_xor_si256(_mm256_cvttps_epi32(x), high)));
}

EIGHTS(f32_to_f64, float, double)
EIGHTS(f32_to_f16, float, uint16_t)
EIGHTS(f32_to_bf16, float, uint16_t)
EIGHTS(f32_to_bool, float, uint8_t)
EIGHTS(f32_to_i32, float, int32_t)

/* ---- 64-bit integers, which AVX2 cannot convert ------------------------------------------------------------------------------ */

#if defined(__AVX512DQ__)

static inline void i64_to_f32_eight(const int64_t *from, float *to)
{
    _mm256_storeu_ps(to, _mm512_cvtepi64_ps(_mm512_loadu_si512(from)));
}

static inline void f32_to_i64_eight(const float *from, int64_t *to)
{
    __m256   x = _mm256_loadu_ps(from);
    __mmask8 high = _mm256_cmp_ps_mask(x, _mm256_set1_ps(0x1p63f), _CMP_GE_OQ), number = _mm256_cmp_ps_mask(x, x, _CMP_ORD_Q);
    __m512i  cut = _mm512_maskz_cvttps_epi64(number, x);
    _mm512_storeu_si512(to, _mm512_mask_blend_epi64(high, cut, _mm512_set1_epi64(INT64_MAX)));
}

EIGHTS(i64_to_f32, int64_t, float)
EIGHTS(f32_to_i64, float, int64_t)

#endif

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

typedef void cast_fn(const void *src, void *dst, int64_t lo, int64_t hi);

static cast_fn *const pairs[LK_DTYPE_COUNT][LK_DTYPE_COUNT] = {
    [LK_U8][LK_F32] = u8_to_f32,   [LK_BOOL][LK_F32] = bool_to_f32, [LK_I32][LK_F32] = i32_to_f32,   [LK_F64][LK_F32] = f64_to_f32,
    [LK_F16][LK_F32] = f16_to_f32, [LK_BF16][LK_F32] = bf16_to_f32, [LK_F32][LK_BOOL] = f32_to_bool, [LK_F32][LK_I32] = f32_to_i32,
    [LK_F32][LK_F64] = f32_to_f64, [LK_F32][LK_F16] = f32_to_f16,   [LK_F32][LK_BF16] = f32_to_bf16,
#if defined(__AVX512DQ__)
    [LK_I64][LK_F32] = i64_to_f32, [LK_F32][LK_I64] = f32_to_i64,
#endif
};

static void any_cast(const lki_args *a)
{
    cast_fn *fn = pairs[a->src[0].dtype][a->dst[0].dtype];
    if (fn) fn(a->src[0].data, a->dst[0].data, a->lo, a->hi);
    else lki_cast_ref(a);
}

void ISA(lki_register_cast)(lki_kernels *k)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        lki_kernel_set(k, LKI_K_cast, (lk_dtype)t, any_cast, NULL, VARIANT);
}
