/* Rows by index: gather, its gradient, one-hot.
 *
 * x is [outer, entries, inner] around attr scan.axis, ids has any shape, and gather makes [outer, ids, inner]. The gradient sums the rows
 * of dy that came from one entry: positions are sorted by id first (counting sort, stable), so every entry is written once and only
 * those some id names are summed; the others are +0. */
#include "kernel/axes.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#include <string.h>

#define GATHER(T)                                                                                                               \
    static void T##_gather(const lki_args *a)                                                                                   \
    {                                                                                                                           \
        int        axis = a->attr->scan.axis;                                                                                   \
        lki_extent e = lki_extent_of(a->src[0].shape, axis, axis);                                                              \
        int64_t    ids = lki_shape_size(a->src[1].shape);                                                                       \
        const T   *src = (const T *)a->src[0].data;                                                                             \
        T         *dst = (T *)a->dst[0].data;                                                                                   \
        for (int64_t i = a->lo, n; i < a->hi; i += n) {                                                                         \
            int64_t row = i / e.inner, id = lki_index(&a->src[1], row % ids);                                                   \
            n = lki_min(a->hi, (row + 1) * e.inner) - i;                                                                        \
            if (id >= 0 && id < e.mid) {                                                                                        \
                const T *from = src + (row / ids * e.mid + id) * e.inner + i % e.inner;                                         \
                if (n == 1)                                                                                                     \
                    dst[i] = *from;                                                                                             \
                else                                                                                                            \
                    memcpy(dst + i, from, (size_t)n * sizeof(T));                                                               \
            } else {                                                                                                            \
                lki_set_fault(a);                                                                                               \
                memset(dst + i, 0, (size_t)n * sizeof(T));                                                                      \
            }                                                                                                                   \
        }                                                                                                                       \
    }

GATHER(u8)
GATHER(u16)
GATHER(u32)
GATHER(u64)

/* ---- gradient ----------------------------------------------------------------------------------------------------------------- */

/* Scratch: begin[entries + 1], then order[ids]. The positions with id e are order[begin[e]] .. order[begin[e + 1] - 1], ascending. */
static size_t gather_grad_scratch(const lki_args *a)
{
    int64_t entries = a->dst[0].shape->dim[a->attr->scan.axis], ids = lki_shape_size(a->src[1].shape);
    return (size_t)(entries + 1 + ids) * sizeof(int64_t);
}

static void sort_positions(const lki_args *a, int64_t entries, int64_t ids, int64_t *begin, int64_t *order)
{
    memset(begin, 0, (size_t)(entries + 1) * sizeof *begin);
    for (int64_t p = 0; p < ids; p++) {
        int64_t id = lki_index(&a->src[1], p);
        if (id >= 0 && id < entries)
            begin[id + 1]++;
        else
            lki_set_fault(a);
    }
    for (int64_t e = 0; e < entries; e++) begin[e + 1] += begin[e];
    for (int64_t p = 0; p < ids; p++) { /* begin[e] runs ahead to begin[e + 1] ... */
        int64_t id = lki_index(&a->src[1], p);
        if (id >= 0 && id < entries) order[begin[id]++] = p;
    }
    for (int64_t e = entries; e > 0; e--) begin[e] = begin[e - 1]; /* ... and is put back */
    begin[0] = 0;
}

enum { CHUNK = 64 }; /* columns summed side by side */

/* sum = the rows order[0..count-1] of dy, columns `column` to `column + width`, over the lanes s..t: LANES. A half of the tree without
 * rows counts as +0, and since no sum is ever -0, adding that would change nothing. */
#define GATHER_GRAD(T)                                                                                                          \
    typedef struct T##_rows {                                                                                                   \
        const T       *dy;                                                                                                      \
        int64_t        inner, column, width;                                                                                    \
        const int64_t *bound; /* of lanes, in leading entries of ids; NULL: all rows are one lane */                            \
        int64_t        entry; /* ids per leading entry */                                                                       \
    } T##_rows;                                                                                                                 \
                                                                                                                                \
    static void T##_sum_rows(const T##_rows *r, const int64_t *order, int64_t count, int s, int t, T sum[CHUNK])                \
    {                                                                                                                           \
        if (t - s == 1) {                                                                                                       \
            for (int64_t j = 0; j < r->width; j++) sum[j] = 0;                                                                  \
            for (int64_t p = 0; p < count; p++)                                                                                 \
                for (int64_t j = 0; j < r->width; j++) sum[j] += r->dy[order[p] * r->inner + r->column + j];                    \
            return;                                                                                                             \
        }                                                                                                                       \
        int     middle = (s + t) / 2;                                                                                           \
        int64_t left = 0;                                                                                                       \
        while (left < count && order[left] < r->bound[middle] * r->entry) left++;                                               \
        if (left == count) {                                                                                                    \
            T##_sum_rows(r, order, count, s, middle, sum);                                                                      \
        } else if (left == 0) {                                                                                                 \
            T##_sum_rows(r, order, count, middle, t, sum);                                                                      \
        } else {                                                                                                                \
            T right[CHUNK];                                                                                                     \
            T##_sum_rows(r, order, left, s, middle, sum);                                                                       \
            T##_sum_rows(r, order + left, count - left, middle, t, right);                                                      \
            for (int64_t j = 0; j < r->width; j++) sum[j] += right[j];                                                          \
        }                                                                                                                       \
    }                                                                                                                           \
                                                                                                                                \
    static void T##_gather_grad(const lki_args *a)                                                                              \
    {                                                                                                                           \
        int             axis = a->attr->scan.axis;                                                                              \
        lki_extent      e = lki_extent_of(a->dst[0].shape, axis, axis);                                                         \
        int64_t         ids = lki_shape_size(a->src[1].shape);                                                                  \
        const lk_shape *id_shape = a->src[1].shape;                                                                             \
        int64_t        *begin = (int64_t *)a->scratch, *order = begin + e.mid + 1;                                              \
        int             lanes = a->lanes && axis == 0 && id_shape->rank > 0 ? a->lanes->count : 1;                              \
        T##_rows        r = {.inner = e.inner, .bound = a->lanes ? a->lanes->bound : NULL};                                     \
        r.entry = id_shape->rank > 0 && id_shape->dim[0] ? ids / id_shape->dim[0] : 1;                                          \
        memset(a->dst[0].data, 0, (size_t)(e.outer * e.mid * e.inner) * sizeof(T));                                             \
        sort_positions(a, e.mid, ids, begin, order);                                                                            \
        for (int64_t outer = 0; outer < e.outer; outer++)                                                                       \
            for (int64_t entry = 0; entry < e.mid; entry++) {                                                                   \
                int64_t count = begin[entry + 1] - begin[entry];                                                                \
                T      *dst = (T *)a->dst[0].data + (outer * e.mid + entry) * e.inner, sum[CHUNK];                              \
                r.dy = (const T *)a->src[0].data + outer * ids * e.inner;                                                       \
                for (r.column = 0; count && r.column < e.inner; r.column += CHUNK) {                                            \
                    r.width = lki_min(CHUNK, e.inner - r.column);                                                               \
                    T##_sum_rows(&r, order + begin[entry], count, 0, lanes, sum);                                               \
                    memcpy(dst + r.column, sum, (size_t)r.width * sizeof(T));                                                   \
                }                                                                                                               \
            }                                                                                                                   \
    }

GATHER_GRAD(f32)
GATHER_GRAD(f64)

/* ---- one-hot ------------------------------------------------------------------------------------------------------------------ */

#define ONE_HOT(T)                                                                                                              \
    static void T##_one_hot_rows(const lki_args *a, int64_t depth)                                                              \
    {                                                                                                                           \
        T *dst = (T *)a->dst[0].data, on, off;                                                                                  \
        lki_element_set(a->dst[0].dtype, &on, 0, a->attr->num.a);                                                               \
        lki_element_set(a->dst[0].dtype, &off, 0, a->attr->num.b);                                                              \
        for (int64_t i = a->lo; i < a->hi;) {                                                                                   \
            int64_t row = i / depth, id = lki_index(&a->src[0], row);                                                           \
            for (; i < lki_min(a->hi, (row + 1) * depth); i++) dst[i] = i - row * depth == id ? on : off;                       \
        }                                                                                                                       \
    }

ONE_HOT(u8)
ONE_HOT(u16)
ONE_HOT(u32)
ONE_HOT(u64)

/* An id out of range is a row of off. */
static void any_one_hot(const lki_args *a)
{
    const lk_shape *shape = a->dst[0].shape;
    int64_t         depth = shape->dim[shape->rank - 1];
    switch (lk_dtype_bytes(a->dst[0].dtype)) {
    case 1: u8_one_hot_rows(a, depth); break;
    case 2: u16_one_hot_rows(a, depth); break;
    case 4: u32_one_hot_rows(a, depth); break;
    default: u64_one_hot_rows(a, depth); break;
    }
}

void lki_register_gather_ref(lki_kernels *k)
{
    LKI_SET_M(k, gather);
    LKI_SET(k, gather_grad, f32, LK_F32, gather_grad_scratch);
    LKI_SET(k, gather_grad, f64, LK_F64, gather_grad_scratch);
    LKI_SET(k, one_hot, any, LK_I32, NULL);
    LKI_SET(k, one_hot, any, LK_I64, NULL);
    LKI_SET(k, one_hot, any, LK_U8, NULL);
}
