/* Element-wise slots: each one is one expression.
 *
 * MAP writes dst[i] = f(x) with x = src[i]; ZIP writes dst[i] = f(x, y) with both operands broadcast to dst. T is the element type,
 * W the type in which its arithmetic wraps (types.h). Kernels run with FTZ and DAZ. So a slot that computes uses zero in place of a
 * subnormal operand, but a slot that only selects an operand (maximum, where, ...) may return the subnormal number. */
#include "kernel/broadcast.h"
#include "kernel/index.h"
#include "kernel/ref/math.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

/* ---- one operand ------------------------------------------------------------------------------------------------------------ */

#define MAP(name, T, D, expression)                                                                                                \
    static void T##_##name(const lki_args *a)                                                                                      \
    {                                                                                                                              \
        const T *src = (const T *)a->src[0].data;                                                                                  \
        D       *dst = (D *)a->dst[0].data;                                                                                        \
        for (int64_t i = a->lo; i < a->hi; i++) {                                                                                  \
            T x = src[i];                                                                                                          \
            dst[i] = (D)(expression);                                                                                              \
        }                                                                                                                          \
    }

#define MAP_F(name, single_expression, double_expression)                                                                          \
    MAP(name, f32, f32, single_expression)                                                                                         \
    MAP(name, f64, f64, double_expression)

#define MAP_N(name, single_expression, double_expression, integer_expression)                                                      \
    MAP_F(name, single_expression, double_expression)                                                                              \
    MAP(name, i32, i32, integer_expression)                                                                                        \
    MAP(name, i64, i64, integer_expression)

static double sigmoid_f64(double x)
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* clang-format off */

MAP(is_finite, f32, u8, isfinite(x) != 0)
MAP(is_finite, f64, u8, isfinite(x) != 0)
MAP(logical_not, u8, u8, !x)
/* clang-format on */

/* Computes max(low, min(x, high)). If x is NaN both comparisons are false, so the result is NaN. */
#define CLIP(T)                                                                                                                    \
    static void T##_clip(const lki_args *a)                                                                                        \
    {                                                                                                                              \
        const T *src = (const T *)a->src[0].data;                                                                                  \
        T       *dst = (T *)a->dst[0].data, low, high;                                                                             \
        lki_element_set(a->src[0].dtype, &low, 0, a->attr->num.a);                                                                 \
        lki_element_set(a->src[0].dtype, &high, 0, a->attr->num.b);                                                                \
        for (int64_t i = a->lo; i < a->hi; i++) {                                                                                  \
            T x = high < src[i] ? high : src[i];                                                                                   \
            dst[i] = low > x ? low : x;                                                                                            \
        }                                                                                                                          \
    }

CLIP(f32)
CLIP(f64)
CLIP(i32)
CLIP(i64)

/* ---- two operands ----------------------------------------------------------------------------------------------------------- */

#define ZIP(name, T, D, expression)                                                                                                \
    static void T##_##name##_run(const lki_args *a, int64_t n, char *dense, const char *const *src, const int64_t *step)           \
    {                                                                                                                              \
        typedef T##_wrap W;                                                                                                        \
        const T         *xs = (const T *)(const void *)src[0], *ys = (const T *)(const void *)src[1];                              \
        D               *dst = (D *)(void *)dense;                                                                                 \
        (void)a, (void)sizeof(W);                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                                          \
            T x = xs[i * step[0]], y = ys[i * step[1]];                                                                            \
            dst[i] = (D)(expression);                                                                                              \
        }                                                                                                                          \
    }                                                                                                                              \
    static void T##_##name(const lki_args *a) { lki_broadcast(a, 2, T##_##name##_run); }

#define ZIP_F(name, single_expression, double_expression)                                                                          \
    ZIP(name, f32, f32, single_expression)                                                                                         \
    ZIP(name, f64, f64, double_expression)

#define ZIP_N(name, expression)                                                                                                    \
    ZIP(name, f32, f32, expression)                                                                                                \
    ZIP(name, f64, f64, expression)                                                                                                \
    ZIP(name, i32, i32, expression)                                                                                                \
    ZIP(name, i64, i64, expression)

/* The result has the sign of y. fmod() is exact; r + y, which changes the sign, is rounded. The quotient x / y is not used, because
 * rounding may turn it into the next integer. fmod() may return a subnormal number in spite of FTZ, so that becomes zero here. */
#define FLOAT_MOD(T, fmod, smallest)                                                                                               \
    static T T##_floor_mod(T x, T y)                                                                                               \
    {                                                                                                                              \
        T r = fmod(x, y);                                                                                                          \
        if (r < smallest && r > -smallest) return 0;                                                                               \
        return (r < 0) != (y < 0) ? r + y : r;                                                                                     \
    }

/* The case y = -1 is separate: the negative of the smallest integer is out of range, so it wraps. */
#define INTEGER_DIV(T)                                                                                                             \
    static T T##_floor_div(const lki_args *a, T x, T y)                                                                            \
    {                                                                                                                              \
        if (y == 0) return lki_set_fault(a), 0;                                                                                    \
        if (y == -1) return (T)(0 - (T##_wrap)x);                                                                                  \
        T q = x / y;                                                                                                               \
        return q - (x % y != 0 && (x < 0) != (y < 0));                                                                             \
    }                                                                                                                              \
    static T T##_floor_mod(const lki_args *a, T x, T y)                                                                            \
    {                                                                                                                              \
        if (y == 0) return lki_set_fault(a), 0;                                                                                    \
        if (y == -1) return 0;                                                                                                     \
        T r = x % y;                                                                                                               \
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;                                                                           \
    }

FLOAT_MOD(f32, fmodf, 0x1p-126f)
FLOAT_MOD(f64, fmod, 0x1p-1022)
INTEGER_DIV(i32)
INTEGER_DIV(i64)

/* clang-format off */
#define NUMBER a->attr->num.a
#include "kernel/expressions.inc"
ZIP_F(mod, f32_floor_mod(x, y), f64_floor_mod(x, y))
ZIP(floordiv, i32, i32, i32_floor_div(a, x, y))
ZIP(floordiv, i64, i64, i64_floor_div(a, x, y))
ZIP(mod, i32, i32, i32_floor_mod(a, x, y))
ZIP(mod, i64, i64, i64_floor_mod(a, x, y))

/* clang-format on */

/* ---- comparisons: dst is bool ---------------------------------------------------------------------------------------------- */

#define SAME(x) (x)

#define COMPARE(name, tag, S, value_of, operation)                                                                                 \
    static void tag##_##name##_run(const lki_args *a, int64_t n, char *dense, const char *const *src, const int64_t *step)         \
    {                                                                                                                              \
        const S *xs = (const S *)(const void *)src[0], *ys = (const S *)(const void *)src[1];                                      \
        u8      *dst = (u8 *)dense;                                                                                                \
        (void)a;                                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                            \
            dst[i] = value_of(xs[i * step[0]]) operation value_of(ys[i * step[1]]);                                                \
    }                                                                                                                              \
    static void tag##_##name(const lki_args *a) { lki_broadcast(a, 2, tag##_##name##_run); }

#define F16 lki_f16_to_float
#define BF16 lki_bf16_to_float
#include "kernel/truth.inc"

/* ---- where ------------------------------------------------------------------------------------------------------------------- */

#define WHERE(T)                                                                                                                   \
    static void T##_where_run(const lki_args *a, int64_t n, char *dense, const char *const *src, const int64_t *step)              \
    {                                                                                                                              \
        const T  *xs = (const T *)(const void *)src[0], *ys = (const T *)(const void *)src[1];                                     \
        const u8 *condition = (const u8 *)src[2];                                                                                  \
        T        *dst = (T *)(void *)dense;                                                                                        \
        (void)a;                                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                            \
            dst[i] = condition[i * step[2]] ? xs[i * step[0]] : ys[i * step[1]];                                                   \
    }                                                                                                                              \
    static void T##_where(const lki_args *a) { lki_broadcast(a, 3, T##_where_run); }

WHERE(u8)
WHERE(u16)
WHERE(u32)
WHERE(u64)

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

#define SET_COMPARE(k, slot)                                                                                                       \
    (LKI_SET_N(k, slot), LKI_SET(k, slot, f16, LK_F16, NULL), LKI_SET(k, slot, bf16, LK_BF16, NULL),                               \
     LKI_SET(k, slot, u8, LK_U8, NULL), LKI_SET(k, slot, u8, LK_BOOL, NULL))

static void register_maps(lki_kernels *k)
{
    LKI_SET_N(k, neg);
    LKI_SET_N(k, abs);
    LKI_SET_N(k, sign);
    LKI_SET_N(k, square);
    LKI_SET_N(k, clip);
    LKI_SET_F(k, exp);
    LKI_SET_F(k, expm1);
    LKI_SET_F(k, log);
    LKI_SET_F(k, log1p);
    LKI_SET_F(k, sqrt);
    LKI_SET_F(k, rsqrt);
    LKI_SET_F(k, reciprocal);
    LKI_SET_F(k, sin);
    LKI_SET_F(k, cos);
    LKI_SET_F(k, tanh);
    LKI_SET_F(k, sigmoid);
    LKI_SET_F(k, erf);
    LKI_SET_F(k, softplus);
    LKI_SET_F(k, relu);
    LKI_SET_F(k, leaky_relu);
    LKI_SET_F(k, floor);
    LKI_SET_F(k, ceil);
    LKI_SET_F(k, round);
    LKI_SET_F(k, is_finite);
    LKI_SET(k, logical_not, u8, LK_BOOL, NULL);
}

void lki_register_elementwise_ref(lki_kernels *k)
{
    register_maps(k);
    LKI_SET_N(k, add);
    LKI_SET_N(k, sub);
    LKI_SET_N(k, mul);
    LKI_SET_N(k, floordiv);
    LKI_SET_N(k, mod);
    LKI_SET_N(k, maximum);
    LKI_SET_N(k, minimum);
    LKI_SET_F(k, div);
    LKI_SET_F(k, pow);
    LKI_SET_F(k, relu_grad);
    LKI_SET_F(k, leaky_relu_grad);
    LKI_SET_F(k, sigmoid_grad);
    LKI_SET_F(k, tanh_grad);
    SET_COMPARE(k, equal);
    SET_COMPARE(k, not_equal);
    SET_COMPARE(k, less);
    SET_COMPARE(k, less_equal);
    SET_COMPARE(k, greater);
    SET_COMPARE(k, greater_equal);
    LKI_SET(k, logical_and, u8, LK_BOOL, NULL);
    LKI_SET(k, logical_or, u8, LK_BOOL, NULL);
    LKI_SET_M(k, where);
}
