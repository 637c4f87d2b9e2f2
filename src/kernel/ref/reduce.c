/* Reference reductions along axes, and their table entries. The operand is [outer, mid, inner] (axes.h). The loops are in sum.inc
 * and reduce.inc. */
#include "kernel/axes.h"
#include "kernel/fold.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#include <math.h>

/* ---- sums of floats: in an order --------------------------------------------------------------------------------------------- */

#define LOOPS "kernel/ref/sum.inc"
#include "kernel/ref/both.inc"

/* ---- sums of integers: they wrap, so every order gives the same -------------------------------------------------------------- */

#define INTEGER_SUM(T)                                                                                                             \
    static void T##_reduce_sum(const lki_args *a)                                                                                  \
    {                                                                                                                              \
        lki_extent e = lki_reduced(a);                                                                                             \
        for (int64_t o = a->lo; o < a->hi; o++) {                                                                                  \
            const T *x = (const T *)a->src[0].data + lki_column(e, o);                                                             \
            T##_wrap acc = 0;                                                                                                      \
            for (int64_t k = 0; k < e.mid; k++)                                                                                    \
                acc += (T##_wrap)x[k * e.inner];                                                                                   \
            ((T *)a->dst[0].data)[o] = (T)acc;                                                                                     \
        }                                                                                                                          \
    }

INTEGER_SUM(i32)
INTEGER_SUM(i64)

/* ---- the rest, for all numbers ----------------------------------------------------------------------------------------------- */

#define T float
#define W float
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define IS_NAN(x) isnan(x)
#define NAME(x) f32_##x
#include "kernel/ref/reduce.inc"
#undef T
#undef W
#undef NAME

#define T double
#define W double
#define NAME(x) f64_##x
#include "kernel/ref/reduce.inc"
#undef T
#undef W
#undef LOWEST
#undef HIGHEST
#undef IS_NAN
#undef NAME

#define IS_NAN(x) false
#define T int32_t
#define W uint32_t
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#define NAME(x) i32_##x
#include "kernel/ref/reduce.inc"
#undef T
#undef W
#undef LOWEST
#undef HIGHEST
#undef NAME

#define T int64_t
#define W uint64_t
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#define NAME(x) i64_##x
#include "kernel/ref/reduce.inc"

/* ---- truth ------------------------------------------------------------------------------------------------------------------- */

static void u8_reduce_any(const lki_args *a)
{
    lki_extent e = lki_reduced(a);
    for (int64_t o = a->lo; o < a->hi; o++) {
        const u8 *x = (const u8 *)a->src[0].data + lki_column(e, o);
        u8        any = 0;
        for (int64_t k = 0; k < e.mid; k++)
            any |= x[k * e.inner] != 0;
        ((u8 *)a->dst[0].data)[o] = any;
    }
}

static void u8_reduce_all(const lki_args *a)
{
    lki_extent e = lki_reduced(a);
    for (int64_t o = a->lo; o < a->hi; o++) {
        const u8 *x = (const u8 *)a->src[0].data + lki_column(e, o);
        u8        all = 1;
        for (int64_t k = 0; k < e.mid; k++)
            all &= x[k * e.inner] != 0;
        ((u8 *)a->dst[0].data)[o] = all;
    }
}

void lki_register_reduce_ref(lki_kernels *k)
{
    LKI_SET_N(k, reduce_sum);
    LKI_SET_N(k, reduce_max);
    LKI_SET_N(k, reduce_min);
    LKI_SET_N(k, reduce_prod);
    LKI_SET_N(k, argmax);
    LKI_SET_N(k, argmin);
    LKI_SET_F(k, sum_squares);
    LKI_SET_N(k, cumsum);
    LKI_SET_N(k, top_k);
    LKI_SET(k, reduce_any, u8, LK_BOOL, NULL);
    LKI_SET(k, reduce_all, u8, LK_BOOL, NULL);
}
