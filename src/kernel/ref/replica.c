/* Reference kernels for several replicas: sums in the order of the lane tree, agreement, and updates selected by ids or by
 * lanes. */
#include "kernel/ref/types.h"
#include "kernel/register.h"
#include <string.h>

enum { BLOCK = 256, DEEP = 24 };

/* ---- sums over the replicas ---- */

static bool siblings(const i32 *left, const i32 *right)
{
    return left[0] >= 0 && left[1] == right[1] && left[1] > 0 && left[0] % (2 * left[1]) == 0 && right[0] == left[0] + left[1];
}

/* One block of elements at a time, so that the open sums stay in the first-level cache. */
#define REPLICA_SUM(T)                                                                                                             \
    static void T##_replica_sum(const lki_args *a)                                                                                 \
    {                                                                                                                              \
        const i32 *table = a->src[a->nsrc - 1].data;                                                                               \
        T         *dst = a->dst[0].data;                                                                                           \
        for (int64_t at = a->lo; at < a->hi; at += BLOCK) {                                                                        \
            T_BLOCK_SUM(T)                                                                                                         \
        }                                                                                                                          \
    }
#define T_BLOCK_SUM(T)                                                                                                             \
    T             sum[DEEP][BLOCK];                                                                                                \
    i32           open[DEEP][2];                                                                                                   \
    int           depth = 0;                                                                                                       \
    const int64_t n = lki_min(BLOCK, a->hi - at);                                                                                  \
    for (int i = 0; i + 1 < a->nsrc; i++) {                                                                                        \
        memcpy(sum[depth], (const T *)a->src[i].data + at, (size_t)n * sizeof(T));                                                 \
        memcpy(open[depth], table + 2 * i, sizeof open[0]);                                                                        \
        depth++;                                                                                                                   \
        while (depth > 1 && (siblings(open[depth - 2], open[depth - 1]) || depth == DEEP)) {                                       \
            for (int64_t k = 0; k < n; k++)                                                                                        \
                sum[depth - 2][k] = (T)((T##_wrap)sum[depth - 2][k] + (T##_wrap)sum[depth - 1][k]);                                \
            open[depth - 2][1] = siblings(open[depth - 2], open[depth - 1]) ? 2 * open[depth - 2][1] : 0;                          \
            depth--;                                                                                                               \
        }                                                                                                                          \
    }                                                                                                                              \
    for (; depth > 1; depth--)                                                                                                     \
        for (int64_t k = 0; k < n; k++)                                                                                            \
            sum[depth - 2][k] = (T)((T##_wrap)sum[depth - 2][k] + (T##_wrap)sum[depth - 1][k]);                                    \
    memcpy(dst + at, sum[0], (size_t)n * sizeof(T));

REPLICA_SUM(f32)
REPLICA_SUM(f64)
REPLICA_SUM(i32)
REPLICA_SUM(i64)

#define AGREE(T)                                                                                                                   \
    static void T##_agree(const lki_args *a)                                                                                       \
    {                                                                                                                              \
        T      *dst = a->dst[0].data;                                                                                              \
        const T equal = (T)a->attr->num.a, differ = (T)a->attr->num.b;                                                             \
        for (int64_t i = a->lo; i < a->hi; i++) {                                                                                  \
            const T *first = (const T *)a->src[0].data + i;                                                                        \
            T        sum = *first;                                                                                                 \
            bool     same = true;                                                                                                  \
            for (int r = 1; r < a->nsrc; r++) {                                                                                    \
                const T *x = (const T *)a->src[r].data + i;                                                                        \
                same = same && memcmp(x, first, sizeof *x) == 0;                                                                   \
                sum = sum + *x;                                                                                                    \
            }                                                                                                                      \
            dst[i] = same ? equal * *first : differ * sum;                                                                         \
        }                                                                                                                          \
    }

AGREE(f32)
AGREE(f64)

/* ---- entries selected by ids ---- */

enum { ADD, SUB, MUL, DIV, MIN, MAX, UPDATE };

static int64_t id_at(const lki_view *ids, int64_t i)
{
    return ids->dtype == LK_I32 ? ((const i32 *)ids->data)[i] : ((const i64 *)ids->data)[i];
}

static bool ids_fit(const lki_args *a, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (id_at(&a->src[1], i) < 0 || id_at(&a->src[1], i) >= a->dst[0].shape->dim[0]) return false;
    return true;
}

static bool divisors_fit(const lki_args *a, int64_t count)
{
    for (int64_t i = 0; i < count && (int)a->attr->num.a == DIV; i++)
        if (lki_element_get(a->src[0].dtype, a->src[0].data, i) == 0) return false;
    return true;
}

/* Integers are cut towards zero; the most negative one divided by -1 wraps. */
#define FITS_FLOAT(a, count) true
#define FITS_INT(a, count) divisors_fit(a, count)
#define DIVIDE_FLOAT(T, x, y) (x) / (y)
#define DIVIDE_INT(T, x, y) ((y) == -1 ? (T)(0 - (T##_wrap)(x)) : (x) / (y))
#define SCATTER(T, KIND)                                                                                                           \
    static void T##_scatter(const lki_args *a)                                                                                     \
    {                                                                                                                              \
        const int64_t count = lki_shape_size(a->src[1].shape), entry = lki_shape_size_from(a->dst[0].shape, 1);                    \
        T            *dst = a->dst[0].data;                                                                                        \
        const T      *rows = a->src[0].data;                                                                                       \
        if (!ids_fit(a, count) || !FITS_##KIND(a, count * entry)) {                                                                \
            if (a->fault) *a->fault = 1;                                                                                           \
            return;                                                                                                                \
        }                                                                                                                          \
        for (int64_t i = 0; i < count; i++)                                                                                        \
            for (int64_t k = 0; k < entry; k++) {                                                                                  \
                T *to = dst + id_at(&a->src[1], i) * entry + k, x = rows[i * entry + k];                                           \
                switch ((int)a->attr->num.a) {                                                                                     \
                case ADD: *to = (T)((T##_wrap) * to + (T##_wrap)x); break;                                                         \
                case SUB: *to = (T)((T##_wrap) * to - (T##_wrap)x); break;                                                         \
                case MUL: *to = (T)((T##_wrap) * to * (T##_wrap)x); break;                                                         \
                case DIV: *to = DIVIDE_##KIND(T, *to, x); break;                                                                   \
                case MIN: *to = x < *to || x != x ? x : *to; break; /* NaN wins, as in minimum and maximum */                      \
                case MAX: *to = x > *to || x != x ? x : *to; break;                                                                \
                default: *to = x;                                                                                                  \
                }                                                                                                                  \
            }                                                                                                                      \
    }

SCATTER(f32, FLOAT)
SCATTER(f64, FLOAT)
SCATTER(i32, INT)
SCATTER(i64, INT)

/* ---- sums that stay per lane ---- */

static void add_lane(const lki_args *a, int64_t lane, int64_t from, int64_t to)
{
    const int64_t entry = lki_shape_size_from(a->dst[0].shape, 1);
    f64          *dst = (f64 *)a->dst[0].data + lane * entry;
    for (int64_t k = 0; k < entry && from < to; k++) {
        f64 sum = 0;
        for (int64_t i = from; i < to; i++)
            sum += lki_element_get(a->src[0].dtype, a->src[0].data, i * entry + k);
        dst[k] += sum;
    }
}

static void lane_add(const lki_args *a)
{
    if (!a->lanes) add_lane(a, (int64_t)a->attr->num.a, 0, a->src[0].shape->dim[0]);
    for (int s = 0; a->lanes && s < a->lanes->count; s++)
        add_lane(a, s, a->lanes->bound[s], a->lanes->bound[s + 1]);
}

/* ---- custom functions ---- */

static void user(const lki_args *a) { a->attr->user.run(a, a->attr->user.op); }

void lki_register_replica_ref(lki_kernels *k)
{
    LKI_SET_N(k, replica_sum);
    LKI_SET_F(k, agree);
    LKI_SET_N(k, scatter);
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        lki_kernel_set(k, LKI_K_lane_add, (lk_dtype)t, lane_add, NULL, "ref"),
            lki_kernel_set(k, LKI_K_user, (lk_dtype)t, user, NULL, "ref");
}
