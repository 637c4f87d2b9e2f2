/* Softmax and cross-entropy along the last axis. A row x of n classes has m, its largest element, and
 *
 *     e[j] = exp(x[j] - m)      sum = FOLD(e)
 *
 * A NaN anywhere in the row makes sum NaN and with it every result of the row. */
#include "kernel/fold.h"
#include "kernel/ref/math.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#define f32_exp_of lki_exp_f32
#define f32_log_of lki_log_f32
#define f64_exp_of exp
#define f64_log_of log

/* Label of a row: a class, or one of these. */
enum { IGNORED = -1, OUT_OF_RANGE = -2 };

static int64_t label_of(const lki_args *a, int64_t row, int64_t classes)
{
    int64_t label = lki_index(&a->src[1], row);
    if (a->attr->xent.ignore && label == a->attr->xent.ignore_class) return IGNORED;
    if (label >= 0 && label < classes) return label;
    lki_set_fault(a);
    return OUT_OF_RANGE;
}

static int64_t last_axis(const lki_view *v) { return v->shape->rank ? v->shape->dim[v->shape->rank - 1] : 1; }

#define ROWS(T)                                                                                                                 \
    static T T##_largest(const T *x, int64_t n)                                                                                 \
    {                                                                                                                           \
        T m = -(T)INFINITY;                                                                                                     \
        for (int64_t j = 0; j < n; j++) m = x[j] > m ? x[j] : m;                                                                \
        return m;                                                                                                               \
    }                                                                                                                           \
                                                                                                                                \
    static T T##_sum_exp(const T *x, int64_t n, T m)                                                                            \
    {                                                                                                                           \
        lki_fold_##T tree = {0};                                                                                                \
        for (int64_t from = 0; from < n; from += LKI_FOLD_BLOCK) {                                                              \
            T acc[LKI_FOLD_WIDTH] = {0};                                                                                        \
            for (int64_t j = from; j < lki_min(n, from + LKI_FOLD_BLOCK); j++)                                                  \
                acc[j % LKI_FOLD_WIDTH] += T##_exp_of(x[j] - m);                                                                \
            lki_fold_##T##_push(&tree, lki_fold_##T##_16(acc));                                                                 \
        }                                                                                                                       \
        return lki_fold_##T##_end(&tree);                                                                                       \
    }                                                                                                                           \
                                                                                                                                \
    static void T##_softmax(const lki_args *a)                                                                                  \
    {                                                                                                                           \
        int64_t n = last_axis(&a->src[0]);                                                                                      \
        for (int64_t i = a->lo; i < a->hi; i += n) {                                                                            \
            const T *x = (const T *)a->src[0].data + i;                                                                         \
            T       *y = (T *)a->dst[0].data + i, m = T##_largest(x, n), sum = T##_sum_exp(x, n, m);                            \
            for (int64_t j = 0; j < n; j++) y[j] = T##_exp_of(x[j] - m) / sum;                                                  \
        }                                                                                                                       \
    }                                                                                                                           \
                                                                                                                                \
    static void T##_log_softmax(const lki_args *a)                                                                              \
    {                                                                                                                           \
        int64_t n = last_axis(&a->src[0]);                                                                                      \
        for (int64_t i = a->lo; i < a->hi; i += n) {                                                                            \
            const T *x = (const T *)a->src[0].data + i;                                                                         \
            T       *y = (T *)a->dst[0].data + i, m = T##_largest(x, n), log_sum = T##_log_of(T##_sum_exp(x, n, m));            \
            for (int64_t j = 0; j < n; j++) y[j] = (x[j] - m) - log_sum;                                                        \
        }                                                                                                                       \
    }                                                                                                                           \
                                                                                                                                \
    static void T##_sparse_xent(const lki_args *a)                                                                              \
    {                                                                                                                           \
        int64_t n = last_axis(&a->src[0]);                                                                                      \
        T      *loss = (T *)a->dst[0].data;                                                                                     \
        for (int64_t row = a->lo; row < a->hi; row++) {                                                                         \
            const T *x = (const T *)a->src[0].data + row * n;                                                                   \
            int64_t  label = label_of(a, row, n);                                                                               \
            T        m = T##_largest(x, n);                                                                                     \
            if (label >= 0)                                                                                                     \
                loss[row] = T##_log_of(T##_sum_exp(x, n, m)) - (x[label] - m);                                                  \
            else                                                                                                                \
                loss[row] = label == IGNORED ? 0 : (T)NAN;                                                                      \
        }                                                                                                                       \
    }                                                                                                                           \
                                                                                                                                \
    static void T##_sparse_xent_grad(const lki_args *a)                                                                         \
    {                                                                                                                           \
        int64_t  n = last_axis(&a->src[0]);                                                                                     \
        const T *dy = (const T *)a->src[2].data;                                                                                \
        for (int64_t i = a->lo; i < a->hi; i += n) {                                                                            \
            const T *x = (const T *)a->src[0].data + i;                                                                         \
            T       *dx = (T *)a->dst[0].data + i, m = T##_largest(x, n), sum = T##_sum_exp(x, n, m);                           \
            int64_t  label = label_of(a, i / n, n);                                                                             \
            for (int64_t j = 0; j < n; j++)                                                                                     \
                if (label >= 0)                                                                                                 \
                    dx[j] = dy[i / n] * (T##_exp_of(x[j] - m) / sum - (T)(j == label));                                         \
                else                                                                                                            \
                    dx[j] = label == IGNORED ? 0 : (T)NAN;                                                                      \
        }                                                                                                                       \
    }

ROWS(f32)
ROWS(f64)

void lki_register_rows_ref(lki_kernels *k)
{
    LKI_SET_F(k, softmax);
    LKI_SET_F(k, log_softmax);
    LKI_SET_F(k, sparse_xent);
    LKI_SET_F(k, sparse_xent_grad);
}
