/* Rows by index: gather, its gradient, both also with separate ids per row, one-hot.
 *
 * x is [outer, entries, inner] around attr scan.axis, ids has any shape, and gather makes [outer, ids, inner]. The gradient sums
 * the rows of dy that were read from one entry: positions are sorted by id first (counting sort, stable), so every entry is written
 * once. Entries without ids are +0. */
#include "kernel/axes.h"
#include "kernel/index.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#include <string.h>

static void any_gather(const lki_args *a)
{
    int         axis = a->attr->scan.axis;
    lki_extent  e = lki_extent_of(a->src[0].shape, axis, axis);
    int64_t     ids = lki_shape_size(a->src[1].shape), bytes = (int64_t)lk_dtype_bytes(a->dst[0].dtype);
    const char *src = (const char *)a->src[0].data;
    char       *dst = (char *)a->dst[0].data;
    for (int64_t i = a->lo, n; i < a->hi; i += n) {
        int64_t row = i / e.inner, id = lki_index(&a->src[1], row % ids);
        n = lki_min(a->hi, (row + 1) * e.inner) - i;
        if (id >= 0 && id < e.mid) {
            memcpy(dst + i * bytes, src + ((row / ids * e.mid + id) * e.inner + i % e.inner) * bytes, (size_t)(n * bytes));
        } else {
            lki_set_fault(a);
            memset(dst + i * bytes, 0, (size_t)(n * bytes));
        }
    }
}

/* ---- gradient ---------------------------------------------------------------------------------------------------------------- */

/* Scratch: begin[entries + 1], then order[ids]. The positions with id e are order[begin[e]] .. order[begin[e + 1] - 1],
 * ascending. */
size_t lki_gather_grad_scratch(const lki_args *a)
{
    int64_t entries = a->dst[0].shape->dim[a->attr->scan.axis], ids = lki_shape_size(a->src[1].shape);
    return (size_t)(entries + 1 + ids) * sizeof(int64_t);
}

void lki_sort_positions(const lki_args *a, int64_t entries, int64_t ids, int64_t *begin, int64_t *order)
{
    bool    by_lane = a->lanes && a->attr->scan.axis == 0 && a->src[1].shape->rank > 0;
    int64_t each = by_lane ? lki_shape_size_from(a->src[1].shape, 1) : 1;
    int64_t from = by_lane ? a->lanes->bound[0] * each : 0, to = by_lane ? a->lanes->bound[a->lanes->count] * each : ids;
    memset(begin, 0, (size_t)(entries + 1) * sizeof *begin);
    for (int64_t p = from; p < to; p++) {
        int64_t id = lki_index(&a->src[1], p);
        if (id >= 0 && id < entries) begin[id + 1]++;
        else lki_set_fault(a);
    }
    for (int64_t e = 0; e < entries; e++)
        begin[e + 1] += begin[e];
    for (int64_t p = from; p < to; p++) { /* begin[e] is moved to begin[e + 1] ... */
        int64_t id = lki_index(&a->src[1], p);
        if (id >= 0 && id < entries) order[begin[id]++] = p;
    }
    for (int64_t e = entries; e > 0; e--)
        begin[e] = begin[e - 1]; /* ... and is restored */
    begin[0] = 0;
}

enum { CHUNK = 64 }; /* columns summed side by side */

#define LOOPS "kernel/ref/gather_grad.inc"
#include "kernel/ref/both.inc"

/* ---- separate ids per row ---------------------------------------------------------------------------------------------------- */

typedef struct picks {
    int64_t entries, ids, inner; /* x is [n, entries, inner], ids [n, ids] */
} picks;

static picks picks_of(const lki_view *x, const lki_view *ids)
{
    return (picks){x->shape->dim[1], lki_shape_size_from(ids->shape, 1), lki_shape_size_from(x->shape, 2)};
}

static void any_row_gather(const lki_args *a)
{
    picks       p = picks_of(&a->src[0], &a->src[1]);
    int64_t     bytes = (int64_t)lk_dtype_bytes(a->dst[0].dtype);
    const char *src = (const char *)a->src[0].data;
    char       *dst = (char *)a->dst[0].data;
    for (int64_t i = a->lo, n; i < a->hi; i += n) {
        int64_t pick = i / p.inner, id = lki_index(&a->src[1], pick);
        n = lki_min(a->hi, (pick + 1) * p.inner) - i;
        if (id >= 0 && id < p.entries) {
            memcpy(dst + i * bytes, src + ((pick / p.ids * p.entries + id) * p.inner + i % p.inner) * bytes, (size_t)(n * bytes));
        } else {
            lki_set_fault(a);
            memset(dst + i * bytes, 0, (size_t)(n * bytes));
        }
    }
}

#define ROW_GATHER_GRAD(T)                                                                                                         \
    static void T##_row_gather_grad(const lki_args *a)                                                                             \
    {                                                                                                                              \
        picks    p = picks_of(&a->dst[0], &a->src[1]);                                                                             \
        int64_t  row = lki_max(1, p.entries * p.inner), end = lki_ceil_div(a->hi, row);                                            \
        const T *dy = (const T *)a->src[0].data;                                                                                   \
        T       *dst = (T *)a->dst[0].data;                                                                                        \
        for (int64_t i = a->lo; i < a->hi; i++)                                                                                    \
            dst[i] = 0;                                                                                                            \
        for (int64_t pick = a->lo / row * p.ids; pick < end * p.ids; pick++) {                                                     \
            int64_t id = lki_index(&a->src[1], pick);                                                                              \
            if (id < 0 || id >= p.entries) {                                                                                       \
                lki_set_fault(a);                                                                                                  \
                continue;                                                                                                          \
            }                                                                                                                      \
            int64_t to = (pick / p.ids * p.entries + id) * p.inner;                                                                \
            for (int64_t j = lki_max(0, a->lo - to); j < lki_min(p.inner, a->hi - to); j++)                                        \
                dst[to + j] += dy[pick * p.inner + j];                                                                             \
        }                                                                                                                          \
    }

ROW_GATHER_GRAD(f32)
ROW_GATHER_GRAD(f64)

/* ---- one-hot ----------------------------------------------------------------------------------------------------------------- */

#define ONE_HOT(T)                                                                                                                 \
    static void T##_one_hot_rows(const lki_args *a, int64_t depth)                                                                 \
    {                                                                                                                              \
        T *dst = (T *)a->dst[0].data, on, off;                                                                                     \
        lki_element_set(a->dst[0].dtype, &on, 0, a->attr->num.a);                                                                  \
        lki_element_set(a->dst[0].dtype, &off, 0, a->attr->num.b);                                                                 \
        for (int64_t i = a->lo; i < a->hi;) {                                                                                      \
            int64_t row = i / depth, id = lki_index(&a->src[0], row), lo = i, hi = lki_min(a->hi, (row + 1) * depth);              \
            if (off == 0) memset(dst + i, 0, (size_t)(hi - i) * sizeof(T)), i = hi;                                                \
            for (; i < hi; i++)                                                                                                    \
                dst[i] = off;                                                                                                      \
            if (id >= lo - row * depth && id < hi - row * depth) dst[row * depth + id] = on;                                       \
        }                                                                                                                          \
    }

ONE_HOT(u8)
ONE_HOT(u16)
ONE_HOT(u32)
ONE_HOT(u64)

/* For an id out of range the row has the `off` value. */
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
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        LKI_SET(k, gather, any, (lk_dtype)t, NULL);
    LKI_SET(k, gather_grad, f32, LK_F32, lki_gather_grad_scratch);
    LKI_SET(k, gather_grad, f64, LK_F64, lki_gather_grad_scratch);
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        LKI_SET(k, row_gather, any, (lk_dtype)t, NULL);
    LKI_SET_F(k, row_gather_grad);
    LKI_SET(k, one_hot, any, LK_I32, NULL);
    LKI_SET(k, one_hot, any, LK_I64, NULL);
    LKI_SET(k, one_hot, any, LK_U8, NULL);
}
