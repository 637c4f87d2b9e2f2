/* Reductions along axes: sums in the orders kernel.h defines, extremes, positions, scans.
 *
 * The operand is [outer, mid, inner]; output element o = (outer, inner) is made of x[0], x[inner], x[2 inner], ... A zero that is
 * a largest or smallest element is always +0, so that extremes need no order. */
#include "kernel/axes.h"
#include "kernel/fold.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#include <math.h>

/* For each output element: x points at the first of its operands. */
#define EACH_OUTPUT(T, D, ...)                                                                                                  \
    lki_extent e = lki_reduced(a);                                                                                              \
    D         *dst = (D *)a->dst[0].data;                                                                                       \
    for (int64_t o = a->lo; o < a->hi; o++) {                                                                                   \
        const T *x = (const T *)a->src[0].data + o / e.inner * e.mid * e.inner + o % e.inner;                                   \
        __VA_ARGS__                                                                                                             \
    }

/* ---- sums -------------------------------------------------------------------------------------------------------------------- */

#define FLOAT_SUMS(T)                                                                                                           \
    /* CHAIN over x[from * step], ..., x[(to - 1) * step] */                                                                    \
    static T T##_chain(const T *x, int64_t step, int64_t from, int64_t to)                                                      \
    {                                                                                                                           \
        T acc = 0;                                                                                                              \
        for (int64_t k = from; k < to; k++) acc = acc + x[k * step];                                                            \
        return acc;                                                                                                             \
    }                                                                                                                           \
                                                                                                                                \
    /* LANES: a chain per lane, then the tree over lanes, which is the tree over blocks of a FOLD */                            \
    static T T##_lanes(const T *x, int64_t step, const lki_lanes *lanes, int64_t entry)                                         \
    {                                                                                                                           \
        lki_fold_##T tree = {0};                                                                                                \
        for (int s = 0; s < lanes->count; s++)                                                                                  \
            lki_fold_##T##_push(&tree, T##_chain(x, step, lanes->bound[s] * entry, lanes->bound[s + 1] * entry));               \
        return lki_fold_##T##_end(&tree);                                                                                       \
    }                                                                                                                           \
                                                                                                                                \
    /* FOLD over n neighbours */                                                                                                \
    static T T##_fold(const T *x, int64_t n)                                                                                    \
    {                                                                                                                           \
        lki_fold_##T tree = {0};                                                                                                \
        for (int64_t from = 0; from < n; from += LKI_FOLD_BLOCK) {                                                              \
            int64_t to = lki_min(n, from + LKI_FOLD_BLOCK);                                                                     \
            T       acc[LKI_FOLD_WIDTH] = {0};                                                                                  \
            for (int64_t j = from; j < to; j++) acc[j % LKI_FOLD_WIDTH] += x[j];                                                \
            lki_fold_##T##_push(&tree, lki_fold_##T##_16(acc));                                                                 \
        }                                                                                                                       \
        return lki_fold_##T##_end(&tree);                                                                                       \
    }                                                                                                                           \
                                                                                                                                \
    static void T##_reduce_sum(const lki_args *a)                                                                               \
    {                                                                                                                           \
        int64_t          entry = 1;                                                                                             \
        const lki_lanes *lanes = lki_reduced_lanes(a, &entry);                                                                  \
        EACH_OUTPUT(T, T, {                                                                                                     \
            if (lanes)                                                                                                          \
                dst[o] = T##_lanes(x, e.inner, lanes, entry);                                                                   \
            else if (e.inner == 1)                                                                                              \
                dst[o] = T##_fold(x, e.mid);                                                                                    \
            else                                                                                                                \
                dst[o] = T##_chain(x, e.inner, 0, e.mid);                                                                       \
        })                                                                                                                      \
    }                                                                                                                           \
                                                                                                                                \
    static void T##_sum_squares(const lki_args *a)                                                                              \
    {                                                                                                                           \
        const T     *x = (const T *)a->src[0].data;                                                                             \
        int64_t      n = lki_shape_size(a->src[0].shape);                                                                       \
        lki_fold_##T tree = {0};                                                                                                \
        if (a->lo >= a->hi) return;                                                                                             \
        for (int64_t from = 0; from < n; from += LKI_FOLD_BLOCK) {                                                              \
            int64_t to = lki_min(n, from + LKI_FOLD_BLOCK);                                                                     \
            T       acc[LKI_FOLD_WIDTH] = {0};                                                                                  \
            for (int64_t j = from; j < to; j++) acc[j % LKI_FOLD_WIDTH] = T##_fma(x[j], x[j], acc[j % LKI_FOLD_WIDTH]);         \
            lki_fold_##T##_push(&tree, lki_fold_##T##_16(acc));                                                                 \
        }                                                                                                                       \
        ((T *)a->dst[0].data)[0] = lki_fold_##T##_end(&tree);                                                                   \
    }

#define f32_fma fmaf
#define f64_fma fma
FLOAT_SUMS(f32)
FLOAT_SUMS(f64)

/* Integers wrap, so every order gives the same. */
#define INTEGER_SUM(T)                                                                                                          \
    static void T##_reduce_sum(const lki_args *a)                                                                               \
    {                                                                                                                           \
        EACH_OUTPUT(T, T, {                                                                                                     \
            T##_wrap acc = 0;                                                                                                   \
            for (int64_t k = 0; k < e.mid; k++) acc += (T##_wrap)x[k * e.inner];                                                \
            dst[o] = (T)acc;                                                                                                    \
        })                                                                                                                      \
    }

INTEGER_SUM(i32)
INTEGER_SUM(i64)

#define PROD(T)                                                                                                                 \
    static void T##_reduce_prod(const lki_args *a)                                                                              \
    {                                                                                                                           \
        EACH_OUTPUT(T, T, {                                                                                                     \
            T##_wrap acc = 1;                                                                                                   \
            for (int64_t k = 0; k < e.mid; k++) acc = acc * (T##_wrap)x[k * e.inner];                                           \
            dst[o] = (T)acc;                                                                                                    \
        })                                                                                                                      \
    }

PROD(f32)
PROD(f64)
PROD(i32)
PROD(i64)

/* ---- extremes ---------------------------------------------------------------------------------------------------------------- */

/* Once the best is NaN, nothing beats it. Adding 0 makes a zero +0. */
#define EXTREME(slot, T, start, beats)                                                                                          \
    static void T##_##slot(const lki_args *a)                                                                                   \
    {                                                                                                                           \
        EACH_OUTPUT(T, T, {                                                                                                     \
            T best = start;                                                                                                     \
            for (int64_t k = 0; k < e.mid; k++) {                                                                               \
                T v = x[k * e.inner];                                                                                           \
                if (v beats best || v != v) best = v;                                                                           \
            }                                                                                                                   \
            dst[o] = best + 0;                                                                                                  \
        })                                                                                                                      \
    }

#define POSITION(slot, T, beats)                                                                                                \
    static void T##_##slot(const lki_args *a)                                                                                   \
    {                                                                                                                           \
        EACH_OUTPUT(T, int64_t, {                                                                                               \
            int64_t best = 0;                                                                                                   \
            for (int64_t k = 1; k < e.mid && x[best * e.inner] == x[best * e.inner]; k++) {                                     \
                T v = x[k * e.inner];                                                                                           \
                if (v beats x[best * e.inner] || v != v) best = k;                                                              \
            }                                                                                                                   \
            dst[o] = best;                                                                                                      \
        })                                                                                                                      \
    }

#define EXTREMES(T, lowest, highest)                                                                                            \
    EXTREME(reduce_max, T, lowest, >)                                                                                           \
    EXTREME(reduce_min, T, highest, <)                                                                                          \
    POSITION(argmax, T, >)                                                                                                      \
    POSITION(argmin, T, <)

EXTREMES(f32, -INFINITY, INFINITY)
EXTREMES(f64, -(f64)INFINITY, (f64)INFINITY)
EXTREMES(i32, INT32_MIN, INT32_MAX)
EXTREMES(i64, INT64_MIN, INT64_MAX)

static void u8_reduce_any(const lki_args *a)
{
    EACH_OUTPUT(u8, u8, {
        u8 any = 0;
        for (int64_t k = 0; k < e.mid; k++) any |= x[k * e.inner] != 0;
        dst[o] = any;
    })
}

static void u8_reduce_all(const lki_args *a)
{
    EACH_OUTPUT(u8, u8, {
        u8 all = 1;
        for (int64_t k = 0; k < e.mid; k++) all &= x[k * e.inner] != 0;
        dst[o] = all;
    })
}

/* ---- scans and sorting ------------------------------------------------------------------------------------------------------- */

/* Every column is summed from its beginning, whatever part of it lies in lo..hi, so a split range changes nothing. */
#define CUMSUM(T)                                                                                                               \
    static void T##_cumsum(const lki_args *a)                                                                                   \
    {                                                                                                                           \
        const T   *src = (const T *)a->src[0].data;                                                                             \
        T         *dst = (T *)a->dst[0].data;                                                                                   \
        lki_extent e = lki_extent_of(a->src[0].shape, a->attr->scan.axis, a->attr->scan.axis);                                  \
        if (a->lo >= a->hi) return;                                                                                             \
        for (int64_t outer = a->lo / (e.mid * e.inner); outer * e.mid * e.inner < a->hi; outer++)                               \
            for (int64_t inner = 0; inner < e.inner; inner++) {                                                                 \
                T##_wrap acc = 0;                                                                                               \
                for (int64_t k = 0; k < e.mid; k++) {                                                                           \
                    int64_t  i = (outer * e.mid + (a->attr->scan.reverse ? e.mid - 1 - k : k)) * e.inner + inner;               \
                    T##_wrap before = acc;                                                                                      \
                    acc = acc + (T##_wrap)src[i];                                                                               \
                    if (i >= a->lo && i < a->hi) dst[i] = (T)(a->attr->scan.exclusive ? before : acc);                          \
                }                                                                                                               \
            }                                                                                                                   \
    }

CUMSUM(f32)
CUMSUM(f64)
CUMSUM(i32)
CUMSUM(i64)

/* Descending, NaN first, the lower index first among equals. Each pass finds the first element behind the one found before. */
#define TOP_K(T)                                                                                                                \
    static bool T##_ahead(T x, int64_t i, T y, int64_t j)                                                                       \
    {                                                                                                                           \
        bool x_nan = x != x, y_nan = y != y;                                                                                    \
        if (x_nan != y_nan) return x_nan;                                                                                       \
        if (!x_nan && x != y) return x > y;                                                                                     \
        return i < j;                                                                                                           \
    }                                                                                                                           \
                                                                                                                                \
    static int64_t T##_next(const T *x, int64_t n, int64_t previous)                                                            \
    {                                                                                                                           \
        int64_t best = -1;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                                       \
            bool behind = previous < 0 || T##_ahead(x[previous], previous, x[i], i);                                            \
            if (behind && (best < 0 || T##_ahead(x[i], i, x[best], best))) best = i;                                            \
        }                                                                                                                       \
        return best;                                                                                                            \
    }                                                                                                                           \
                                                                                                                                \
    static void T##_top_k(const lki_args *a)                                                                                    \
    {                                                                                                                           \
        const lk_shape *shape = a->src[0].shape;                                                                                \
        int64_t         n = shape->dim[shape->rank - 1], k = a->attr->top.k;                                                    \
        T              *values = (T *)a->dst[0].data;                                                                           \
        i32            *indices = (i32 *)a->dst[1].data;                                                                        \
        if (a->lo >= a->hi) return;                                                                                             \
        for (int64_t row = a->lo / k; row * k < a->hi; row++) {                                                                 \
            const T *x = (const T *)a->src[0].data + row * n;                                                                   \
            int64_t  found = -1;                                                                                                \
            for (int64_t i = row * k; i < lki_min(a->hi, (row + 1) * k); i++) {                                                 \
                found = T##_next(x, n, found);                                                                                  \
                if (i < a->lo) continue;                                                                                        \
                values[i] = x[found];                                                                                           \
                indices[i] = (i32)found;                                                                                        \
            }                                                                                                                   \
        }                                                                                                                       \
    }

TOP_K(f32)
TOP_K(f64)
TOP_K(i32)
TOP_K(i64)

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
