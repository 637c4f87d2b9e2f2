/* Truth values: is_finite, logical_not, logical_and, logical_or, reduce_any, reduce_all.
 *
 * A bool is a byte, true if it is not 0; results are 0 and 1. Bytes are processed 32 at a time, with either instruction set. dst
 * may be an operand of its own size. */
#include "kernel/axes.h"
#include "kernel/broadcast.h"
#include "kernel/cpu/vec.h"
#include "kernel/register.h"

#include <math.h>

enum { BYTES = 32 };

static inline __m256i load_bytes(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
static inline void    store_bytes(uint8_t *p, __m256i x) { _mm256_storeu_si256((__m256i *)(void *)p, x); }

static inline __m256i falses(__m256i x) { return _mm256_cmpeq_epi8(x, _mm256_setzero_si256()); }

/* ---- element-wise ------------------------------------------------------------------------------------------------------------ */

static void f32_is_finite(const lki_args *a)
{
    const float *src = (const float *)a->src[0].data;
    uint8_t     *dst = (uint8_t *)a->dst[0].data;
    int64_t      i = a->lo, hi = a->hi;
    for (; i + VEC <= hi; i += VEC)
        vec_store_bool(dst + i, vec_lt(vec_abs(vec_load(src + i)), vec_set(INFINITY)));
    if (i < hi) vec_store_bool_part(dst + i, vec_lt(vec_abs(vec_load_part(src + i, hi - i)), vec_set(INFINITY)), hi - i);
}

static void bool_logical_not(const lki_args *a)
{
    const uint8_t *src = (const uint8_t *)a->src[0].data;
    uint8_t       *dst = (uint8_t *)a->dst[0].data;
    int64_t        i = a->lo, hi = a->hi;
    for (; i + BYTES <= hi; i += BYTES)
        store_bytes(dst + i, _mm256_and_si256(falses(load_bytes(src + i)), _mm256_set1_epi8(1)));
    for (; i < hi; i++)
        dst[i] = !src[i];
}

/* `neither` has all bits of a byte set if the result is false. */
#define LOGICAL(name, operation, neither)                                                                                          \
    static void name##_run(const lki_args *a, int64_t n, char *dense, const char *const *src, const int64_t *step)                 \
    {                                                                                                                              \
        const uint8_t *xs = (const uint8_t *)src[0], *ys = (const uint8_t *)src[1];                                                \
        uint8_t       *dst = (uint8_t *)dense, x0 = xs[0], y0 = ys[0];                                                             \
        __m256i        x = _mm256_set1_epi8((char)x0), y = _mm256_set1_epi8((char)y0), one = _mm256_set1_epi8(1);                  \
        int64_t        i = 0, x_step = step[0], y_step = step[1];                                                                  \
        (void)a;                                                                                                                   \
        for (; i + BYTES <= n; i += BYTES) {                                                                                       \
            if (x_step) x = load_bytes(xs + i);                                                                                    \
            if (y_step) y = load_bytes(ys + i);                                                                                    \
            store_bytes(dst + i, _mm256_andnot_si256(neither, one));                                                               \
        }                                                                                                                          \
        for (; i < n; i++) {                                                                                                       \
            if (x_step) x0 = xs[i];                                                                                                \
            if (y_step) y0 = ys[i];                                                                                                \
            dst[i] = x0 operation y0;                                                                                              \
        }                                                                                                                          \
    }                                                                                                                              \
    static void bool_##name(const lki_args *a) { lki_broadcast(a, 2, name##_run); }

LOGICAL(logical_and, &&, _mm256_or_si256(falses(x), falses(y)))
LOGICAL(logical_or, ||, falses(_mm256_or_si256(x, y)))

/* ---- reductions -------------------------------------------------------------------------------------------------------------- */

/* True if one of n bytes satisfies `is`. Stops at the first one. */
#define FOUND(name, is_vector, is_byte)                                                                                            \
    static uint8_t name(const uint8_t *p, int64_t n)                                                                               \
    {                                                                                                                              \
        int64_t i = 0;                                                                                                             \
        for (; i + 2 * BYTES <= n; i += 2 * BYTES) {                                                                               \
            __m256i x = load_bytes(p + i), y = load_bytes(p + i + BYTES);                                                          \
            if (is_vector) return 1;                                                                                               \
        }                                                                                                                          \
        for (; i < n; i++)                                                                                                         \
            if (p[i] is_byte) return 1;                                                                                            \
        return 0;                                                                                                                  \
    }

FOUND(found_true, !_mm256_testz_si256(_mm256_or_si256(x, y), _mm256_or_si256(x, y)), != 0)
FOUND(found_false, _mm256_movemask_epi8(falses(_mm256_min_epu8(x, y))) != 0, == 0)

/* Columns of [mid, inner]: each row is folded into dst, which begins as 0 or 1. */
#define COLUMNS(name, start, operation, vector_operation)                                                                          \
    static void name(uint8_t *dst, const uint8_t *x, int64_t mid, int64_t inner, int64_t columns)                                  \
    {                                                                                                                              \
        memset(dst, start, (size_t)columns);                                                                                       \
        for (int64_t k = 0; k < mid; k++, x += inner) {                                                                            \
            int64_t j = 0;                                                                                                         \
            for (; j + BYTES <= columns; j += BYTES) {                                                                             \
                __m256i truth = _mm256_andnot_si256(falses(load_bytes(x + j)), _mm256_set1_epi8(1));                               \
                store_bytes(dst + j, vector_operation(load_bytes(dst + j), truth));                                                \
            }                                                                                                                      \
            for (; j < columns; j++)                                                                                               \
                dst[j] = dst[j] operation x[j];                                                                                    \
        }                                                                                                                          \
    }

COLUMNS(any_columns, 0, ||, _mm256_or_si256)
COLUMNS(all_columns, 1, &&, _mm256_and_si256)

#define REDUCE(name, of_row, of_columns)                                                                                           \
    static void bool_##name(const lki_args *a)                                                                                     \
    {                                                                                                                              \
        lki_extent     e = lki_reduced(a);                                                                                         \
        const uint8_t *src = (const uint8_t *)a->src[0].data;                                                                      \
        uint8_t       *dst = (uint8_t *)a->dst[0].data;                                                                            \
        for (int64_t o = a->lo, hi = a->hi, columns; o < hi; o += columns) {                                                       \
            columns = lki_min(hi - o, e.inner - o % e.inner);                                                                      \
            if (e.inner == 1) dst[o] = of_row(src + o * e.mid, e.mid);                                                             \
            else of_columns(dst + o, src + lki_column(e, o), e.mid, e.inner, columns);                                             \
        }                                                                                                                          \
    }

REDUCE(reduce_any, found_true, any_columns)
REDUCE(reduce_all, !found_false, all_columns)

#define SET(name) lki_kernel_set(k, LKI_K_##name, LK_BOOL, bool_##name, NULL, VARIANT)

void ISA(lki_register_truth)(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_is_finite, LK_F32, f32_is_finite, NULL, VARIANT);
    SET(logical_not);
    SET(logical_and);
    SET(logical_or);
    SET(reduce_any);
    SET(reduce_all);
}
