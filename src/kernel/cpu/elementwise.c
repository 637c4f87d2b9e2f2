/* Element-wise slots for f32, sixteen at a time: the expressions of ref/elementwise.c over vec.h.
 *
 * Assumes nothing about alignment. dst may be an operand of its own size. The last, partial group is loaded and stored under a
 * mask. */
#include "kernel/broadcast.h"
#include "kernel/cpu/vec.h"
#include "kernel/cpu/vec_math.h"
#include "kernel/register.h"

/* Four groups per iteration for what takes one or two instructions; one for polynomials, where the processor overlaps iterations
 * itself. */
enum { CHEAP = 4 * VEC, COSTLY = VEC };

static inline vec parameter_a(const lki_args *a) { return vec_set(a->attr ? (float)a->attr->num.a : 0.0f); }
static inline vec parameter_b(const lki_args *a) { return vec_set(a->attr ? (float)a->attr->num.b : 0.0f); }

/* ---- one operand ------------------------------------------------------------------------------------------------------------ */

#define MAP(name, turn, expression)                                                                                                \
    static inline vec name##_of(vec x, vec p, vec q)                                                                               \
    {                                                                                                                              \
        (void)p, (void)q;                                                                                                          \
        return expression;                                                                                                         \
    }                                                                                                                              \
    static void f32_##name(const lki_args *a)                                                                                      \
    {                                                                                                                              \
        const float *src = (const float *)a->src[0].data;                                                                          \
        float       *dst = (float *)a->dst[0].data;                                                                                \
        int64_t      i = a->lo;                                                                                                    \
        vec          p = parameter_a(a), q = parameter_b(a);                                                                       \
        for (; turn == CHEAP && i + turn <= a->hi; i += turn) {                                                                    \
            vec y0 = name##_of(vec_load(src + i), p, q), y1 = name##_of(vec_load(src + i + VEC), p, q);                            \
            vec y2 = name##_of(vec_load(src + i + 2 * VEC), p, q), y3 = name##_of(vec_load(src + i + 3 * VEC), p, q);              \
            vec_store(dst + i, y0), vec_store(dst + i + VEC, y1);                                                                  \
            vec_store(dst + i + 2 * VEC, y2), vec_store(dst + i + 3 * VEC, y3);                                                    \
        }                                                                                                                          \
        for (; i + VEC <= a->hi; i += VEC)                                                                                         \
            vec_store(dst + i, name##_of(vec_load(src + i), p, q));                                                                \
        if (i < a->hi) vec_store_part(dst + i, name##_of(vec_load_part(src + i, a->hi - i), p, q), a->hi - i);                     \
    }

static inline vec sign_of_number(vec x)
{
    vec up = vec_keep(vec_lt(vec_zero(), x), vec_set(1.0f)), down = vec_keep(vec_lt(x, vec_zero()), vec_set(1.0f));
    return vec_select(vec_nan(x), x, vec_sub(up, down));
}

MAP(neg, CHEAP, vec_neg(x))
MAP(abs, CHEAP, vec_abs(x))
MAP(sign, CHEAP, sign_of_number(x))
MAP(square, CHEAP, vec_mul(x, x))
MAP(sqrt, CHEAP, vec_sqrt(x))
MAP(rsqrt, CHEAP, vec_div(vec_set(1.0f), vec_sqrt(x)))
MAP(reciprocal, CHEAP, vec_div(vec_set(1.0f), x))
MAP(relu, CHEAP, vec_max(vec_zero(), x))
MAP(leaky_relu, CHEAP, vec_select(vec_lt(vec_zero(), x), x, vec_mul(p, x)))
MAP(clip, CHEAP, vec_max(p, vec_min(q, x)))
MAP(floor, CHEAP, vec_floor(x))
MAP(ceil, CHEAP, vec_ceil(x))
MAP(round, CHEAP, vec_round(x))
MAP(exp, COSTLY, vec_exp(x))
MAP(expm1, COSTLY, vec_expm1(x))
MAP(log, COSTLY, vec_log(x))
MAP(log1p, COSTLY, vec_log1p(x))
MAP(tanh, COSTLY, vec_tanh(x))
MAP(sigmoid, COSTLY, vec_sigmoid(x))
MAP(erf, COSTLY, vec_erf(x))
MAP(softplus, COSTLY, vec_softplus(x))

/* ---- two operands ----------------------------------------------------------------------------------------------------------- */

/* One run of a broadcast: X(at) and Y(at) return sixteen elements from `at`, either from memory or always the same value. */
#define ZIP_LOOP(f, X, Y)                                                                                                          \
    for (; i + CHEAP <= n; i += CHEAP) {                                                                                           \
        vec z0 = f(X(i), Y(i), p), z1 = f(X(i + VEC), Y(i + VEC), p);                                                              \
        vec z2 = f(X(i + 2 * VEC), Y(i + 2 * VEC), p), z3 = f(X(i + 3 * VEC), Y(i + 3 * VEC), p);                                  \
        vec_store(dst + i, z0), vec_store(dst + i + VEC, z1);                                                                      \
        vec_store(dst + i + 2 * VEC, z2), vec_store(dst + i + 3 * VEC, z3);                                                        \
    }                                                                                                                              \
    for (; i + VEC <= n; i += VEC)                                                                                                 \
        vec_store(dst + i, f(X(i), Y(i), p));

#define X_LOAD(at) vec_load(xs + (at))
#define Y_LOAD(at) vec_load(ys + (at))
#define X_SAME(at) x
#define Y_SAME(at) y

#define ZIP(name, expression)                                                                                                      \
    static inline vec name##_of(vec x, vec y, vec p)                                                                               \
    {                                                                                                                              \
        (void)p;                                                                                                                   \
        return expression;                                                                                                         \
    }                                                                                                                              \
    static void name##_run(const lki_args *a, int64_t n, char *dense, const char *const *src, const int64_t *step)                 \
    {                                                                                                                              \
        const float *xs = (const float *)(const void *)src[0], *ys = (const float *)(const void *)src[1];                          \
        float       *dst = (float *)(void *)dense;                                                                                 \
        vec          x = vec_set(xs[0]), y = vec_set(ys[0]), p = parameter_a(a);                                                   \
        int64_t      i = 0;                                                                                                        \
        if (step[0] && step[1]) {                                                                                                  \
            ZIP_LOOP(name##_of, X_LOAD, Y_LOAD)                                                                                    \
        } else if (step[0]) {                                                                                                      \
            ZIP_LOOP(name##_of, X_LOAD, Y_SAME)                                                                                    \
        } else if (step[1]) {                                                                                                      \
            ZIP_LOOP(name##_of, X_SAME, Y_LOAD)                                                                                    \
        } else {                                                                                                                   \
            ZIP_LOOP(name##_of, X_SAME, Y_SAME)                                                                                    \
        }                                                                                                                          \
        if (i == n) return;                                                                                                        \
        if (step[0]) x = vec_load_part(xs + i, n - i);                                                                             \
        if (step[1]) y = vec_load_part(ys + i, n - i);                                                                             \
        vec_store_part(dst + i, name##_of(x, y, p), n - i);                                                                        \
    }                                                                                                                              \
    static void f32_##name(const lki_args *a) { lki_broadcast(a, 2, name##_run); }

ZIP(add, vec_add(x, y))
ZIP(sub, vec_sub(x, y))
ZIP(mul, vec_mul(x, y))
ZIP(div, vec_div(x, y))
ZIP(floordiv, vec_floor(vec_div(x, y)))
ZIP(maximum, vec_select(vec_nan(x), x, vec_max(x, y)))
ZIP(minimum, vec_select(vec_nan(x), x, vec_min(x, y)))
ZIP(relu_grad, vec_keep(vec_lt(vec_zero(), y), x))
ZIP(leaky_relu_grad, vec_select(vec_lt(vec_zero(), y), x, vec_mul(p, x)))
ZIP(sigmoid_grad, vec_mul(x, vec_mul(y, vec_sub(vec_set(1.0f), y))))
ZIP(tanh_grad, vec_mul(x, vec_sub(vec_set(1.0f), vec_mul(y, y))))

/* ---- comparisons and where --------------------------------------------------------------------------------------------------- */

#define COMPARE(name, expression)                                                                                                  \
    static void name##_run(const lki_args *a, int64_t n, char *dense, const char *const *src, const int64_t *step)                 \
    {                                                                                                                              \
        const float *xs = (const float *)(const void *)src[0], *ys = (const float *)(const void *)src[1];                          \
        uint8_t     *dst = (uint8_t *)dense;                                                                                       \
        vec          x = vec_set(xs[0]), y = vec_set(ys[0]);                                                                       \
        int64_t      i = 0;                                                                                                        \
        (void)a;                                                                                                                   \
        for (; i + VEC <= n; i += VEC) {                                                                                           \
            if (step[0]) x = vec_load(xs + i);                                                                                     \
            if (step[1]) y = vec_load(ys + i);                                                                                     \
            vec_store_bool(dst + i, expression);                                                                                   \
        }                                                                                                                          \
        if (i == n) return;                                                                                                        \
        if (step[0]) x = vec_load_part(xs + i, n - i);                                                                             \
        if (step[1]) y = vec_load_part(ys + i, n - i);                                                                             \
        vec_store_bool_part(dst + i, expression, n - i);                                                                           \
    }                                                                                                                              \
    static void f32_##name(const lki_args *a) { lki_broadcast(a, 2, name##_run); }

COMPARE(equal, vec_eq(x, y))
COMPARE(not_equal, vec_ne(x, y))
COMPARE(less, vec_lt(x, y))
COMPARE(less_equal, vec_le(x, y))
COMPARE(greater, vec_lt(y, x))
COMPARE(greater_equal, vec_le(y, x))

static void where_run(const lki_args *a, int64_t n, char *dense, const char *const *src, const int64_t *step)
{
    const float   *xs = (const float *)(const void *)src[0], *ys = (const float *)(const void *)src[1];
    const uint8_t *cs = (const uint8_t *)src[2];
    float         *dst = (float *)(void *)dense;
    vec            x = vec_set(xs[0]), y = vec_set(ys[0]);
    vmask          c = vec_first(*cs ? VEC : 0);
    int64_t        i = 0;
    (void)a;
    for (; i + VEC <= n; i += VEC) {
        if (step[0]) x = vec_load(xs + i);
        if (step[1]) y = vec_load(ys + i);
        if (step[2]) c = vec_load_bool(cs + i);
        vec_store(dst + i, vec_select(c, x, y));
    }
    if (i == n) return;
    if (step[0]) x = vec_load_part(xs + i, n - i);
    if (step[1]) y = vec_load_part(ys + i, n - i);
    if (step[2]) c = vec_load_bool_part(cs + i, n - i);
    vec_store_part(dst + i, vec_select(c, x, y), n - i);
}

static void word_where(const lki_args *a) { lki_broadcast(a, 3, where_run); }

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

#define SET(name) lki_kernel_set(k, LKI_K_##name, LK_F32, f32_##name, NULL, VARIANT)

static void register_maps(lki_kernels *k)
{
    SET(neg);
    SET(abs);
    SET(sign);
    SET(square);
    SET(sqrt);
    SET(rsqrt);
    SET(reciprocal);
    SET(relu);
    SET(leaky_relu);
    SET(clip);
    SET(floor);
    SET(ceil);
    SET(round);
    SET(exp);
    SET(expm1);
    SET(log);
    SET(log1p);
    SET(tanh);
    SET(sigmoid);
    SET(erf);
    SET(softplus);
}

void ISA(lki_register_elementwise)(lki_kernels *k)
{
    register_maps(k);
    SET(add);
    SET(sub);
    SET(mul);
    SET(div);
    SET(floordiv);
    SET(maximum);
    SET(minimum);
    SET(relu_grad);
    SET(leaky_relu_grad);
    SET(sigmoid_grad);
    SET(tanh_grad);
    SET(equal);
    SET(not_equal);
    SET(less);
    SET(less_equal);
    SET(greater);
    SET(greater_equal);
    lki_kernel_set(k, LKI_K_where, LK_F32, word_where, NULL, VARIANT);
    lki_kernel_set(k, LKI_K_where, LK_I32, word_where, NULL, VARIANT);
}
