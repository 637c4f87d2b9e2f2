/* cast: every element type to every other.
 *
 *   from                  to f32, f64, f16, bf16      to i32, i64, u8                          to bool
 *   a float               rounded to nearest even     cut towards zero, saturated; NaN is 0    x != 0
 *   an integer or bool    rounded to nearest even     wraps                                    x != 0
 *
 * An element is taken as a float or double (exact for every float) or as an int64_t (exact for every integer) and stored from
 * there, rounded once; between equal types the bytes are copied. */
#include "kernel/ref/types.h"
#include "kernel/register.h"

#include <string.h>

static int32_t i32_of_double(double x) { return x != x ? 0 : x >= 0x1p31 ? INT32_MAX : x <= -0x1p31 ? INT32_MIN : (int32_t)x; }
static int64_t i64_of_double(double x) { return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x; }
static uint8_t u8_of_double(double x) { return x >= 255 ? 255 : x >= 1 ? (uint8_t)x : 0; }

static uint16_t f16_of_double(double x)
{
    uint16_t h;
    lki_element_set(LK_F16, &h, 0, x);
    return h;
}

static uint16_t bf16_of_double(double x)
{
    uint16_t h;
    lki_element_set(LK_BF16, &h, 0, x);
    return h;
}

#define EACH(D, expression)                                                                                                        \
    {                                                                                                                              \
        D *dst = (D *)a->dst[0].data;                                                                                              \
        for (int64_t i = a->lo; i < a->hi; i++)                                                                                    \
            dst[i] = (D)(expression);                                                                                              \
    }                                                                                                                              \
    break

#define CAST(tag, S, V, value_of, to_i32, to_i64, to_u8)                                                                           \
    static void tag##_cast(const lki_args *a)                                                                                      \
    {                                                                                                                              \
        const S *src = (const S *)a->src[0].data;                                                                                  \
        if (a->src[0].dtype == a->dst[0].dtype) {                                                                                  \
            if (a->lo < a->hi) memmove((S *)a->dst[0].data + a->lo, src + a->lo, (size_t)(a->hi - a->lo) * sizeof(S));             \
            return;                                                                                                                \
        }                                                                                                                          \
        switch (a->dst[0].dtype) {                                                                                                 \
        case LK_F32: EACH(f32, (V)value_of(src[i]));                                                                               \
        case LK_F64: EACH(f64, (V)value_of(src[i]));                                                                               \
        case LK_F16: EACH(u16, f16_of_double((f64)(V)value_of(src[i])));                                                           \
        case LK_BF16: EACH(u16, bf16_of_double((f64)(V)value_of(src[i])));                                                         \
        case LK_I32: EACH(i32, to_i32((V)value_of(src[i])));                                                                       \
        case LK_I64: EACH(i64, to_i64((V)value_of(src[i])));                                                                       \
        case LK_U8: EACH(u8, to_u8((V)value_of(src[i])));                                                                          \
        case LK_BOOL: EACH(u8, (V)value_of(src[i]) != 0);                                                                          \
        default: break;                                                                                                            \
        }                                                                                                                          \
    }

#define SAME(x) (x)
#define TRUTH(x) ((x) != 0)
#define WRAP_I32(x) ((i32)(u32)(u64)(x))
#define WRAP_U8(x) ((u8)(u64)(x))

CAST(f32, f32, f64, SAME, i32_of_double, i64_of_double, u8_of_double)
CAST(f64, f64, f64, SAME, i32_of_double, i64_of_double, u8_of_double)
CAST(f16, u16, f32, lki_f16_to_float, i32_of_double, i64_of_double, u8_of_double)
CAST(bf16, u16, f32, lki_bf16_to_float, i32_of_double, i64_of_double, u8_of_double)
CAST(i32, i32, i64, SAME, WRAP_I32, SAME, WRAP_U8)
CAST(i64, i64, i64, SAME, WRAP_I32, SAME, WRAP_U8)
CAST(u8, u8, i64, SAME, WRAP_I32, SAME, WRAP_U8)
CAST(truth, u8, i64, TRUTH, WRAP_I32, SAME, WRAP_U8)

void lki_cast_ref(const lki_args *a)
{
    static lki_kernel *const by_type[LK_DTYPE_COUNT] = {
        [LK_F32] = f32_cast, [LK_F64] = f64_cast, [LK_F16] = f16_cast, [LK_BF16] = bf16_cast,
        [LK_I32] = i32_cast, [LK_I64] = i64_cast, [LK_U8] = u8_cast,   [LK_BOOL] = truth_cast,
    };
    by_type[a->src[0].dtype](a);
}

void lki_register_cast_ref(lki_kernels *k)
{
    LKI_SET_N(k, cast);
    LKI_SET(k, cast, f16, LK_F16, NULL);
    LKI_SET(k, cast, bf16, LK_BF16, NULL);
    LKI_SET(k, cast, u8, LK_U8, NULL);
    LKI_SET(k, cast, truth, LK_BOOL, NULL);
}
