/* Moves: copy, fill, broadcast, transpose, slice, pad, concat. Bits are moved unchanged, by element size; only pad_grad, which sums
 * what pad has repeated, does arithmetic. */
#include "kernel/axes.h"
#include "kernel/broadcast.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#include <string.h>

/* ---- copy, concat: stretches of bytes ---------------------------------------------------------------------------------------- */

static void any_copy(const lki_args *a)
{
    int64_t bytes = (int64_t)lk_dtype_bytes(a->dst[0].dtype);
    if (a->lo >= a->hi) return;
    memmove((char *)a->dst[0].data + a->lo * bytes, (const char *)a->src[0].data + a->lo * bytes,
            (size_t)((a->hi - a->lo) * bytes));
}

/* dst is [outer, sum of mids, inner]: one stretch of every operand after the other, outer times. */
static void any_concat(const lki_args *a)
{
    int        axis = a->attr->scan.axis;
    int64_t    bytes = (int64_t)lk_dtype_bytes(a->dst[0].dtype);
    lki_extent e = lki_extent_of(a->dst[0].shape, axis, axis);
    if (a->lo >= a->hi) return;
    for (int64_t outer = a->lo / (e.mid * e.inner); outer * e.mid * e.inner < a->hi; outer++) {
        int64_t begin = outer * e.mid * e.inner;
        for (int s = 0; s < a->nsrc; s++) {
            int64_t n = a->src[s].shape->dim[axis] * e.inner;
            int64_t from = lki_max(begin, a->lo), to = lki_min(begin + n, a->hi);
            if (from < to)
                memcpy((char *)a->dst[0].data + from * bytes, (const char *)a->src[s].data + (outer * n + from - begin) * bytes,
                       (size_t)((to - from) * bytes));
            begin += n;
        }
    }
}

/* src is [outer, n, inner]: stretch i of every outer goes to dst[i]. */
static void any_unstack(const lki_args *a)
{
    int        axis = a->attr->scan.axis;
    lki_extent e = lki_extent_of(a->src[0].shape, axis, axis);
    size_t     stretch = (size_t)e.inner * lk_dtype_bytes(a->src[0].dtype);
    for (int64_t outer = 0; outer < e.outer && stretch; outer++)
        for (int64_t i = 0; i < e.mid; i++)
            memcpy((char *)a->dst[i].data + (size_t)outer * stretch,
                   (const char *)a->src[0].data + (size_t)(outer * e.mid + i) * stretch, stretch);
}

/* ---- moves through strides --------------------------------------------------------------------------------------------------- */

#define STRIDED_RUNS(T)                                                                                                            \
    static void T##_take_run(const lki_args *a, int64_t n, char *dense, const char *const *src, const int64_t *step)               \
    {                                                                                                                              \
        const T *from = (const T *)(const void *)src[0];                                                                           \
        T       *to = (T *)(void *)dense;                                                                                          \
        (void)a;                                                                                                                   \
        if (*step == 1) memcpy(to, from, (size_t)n * sizeof(T));                                                                   \
        else                                                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                                        \
                to[i] = from[i * *step];                                                                                           \
    }                                                                                                                              \
                                                                                                                                   \
    static void T##_put_run(const lki_args *a, int64_t n, char *dense, const char *const *strided, const int64_t *step)            \
    {                                                                                                                              \
        const T *from = (const T *)(const void *)dense;                                                                            \
        T       *to = (T *)(uintptr_t)strided[0];                                                                                  \
        (void)a;                                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                            \
            to[i * *step] = from[i];                                                                                               \
    }

STRIDED_RUNS(u8)
STRIDED_RUNS(u16)
STRIDED_RUNS(u32)
STRIDED_RUNS(u64)

static lki_walk_fn *take_run(size_t bytes)
{
    return bytes == 1 ? u8_take_run : bytes == 2 ? u16_take_run : bytes == 4 ? u32_take_run : u64_take_run;
}

static lki_walk_fn *put_run(size_t bytes)
{
    return bytes == 1 ? u8_put_run : bytes == 2 ? u16_put_run : bytes == 4 ? u32_put_run : u64_put_run;
}

static void any_broadcast(const lki_args *a) { lki_broadcast(a, 1, take_run(lk_dtype_bytes(a->dst[0].dtype))); }

static void any_transpose(const lki_args *a)
{
    const lk_shape *to = a->dst[0].shape;
    size_t          bytes = lk_dtype_bytes(a->dst[0].dtype);
    lki_walk        w = {.rank = to->rank, .nsrc = 1, .dense = (char *)a->dst[0].data, .dense_bytes = bytes};
    int64_t         stride[LK_MAX_RANK];
    lki_dense_strides(a->src[0].shape, stride);
    for (int i = 0; i < to->rank; i++) {
        w.dim[i] = to->dim[i];
        w.stride[0][i] = stride[a->attr->perm.axis[i]];
    }
    w.src[0] = (const char *)a->src[0].data;
    w.src_bytes[0] = bytes;
    lki_walk_run(&w, a, a->lo, a->hi, take_run(bytes));
}

/* A walk over `part` (dense) beside the cells of `whole` that a slice selects. */
static lki_walk slice_walk(const lki_attr *attr, const lki_view *part, const lki_view *whole)
{
    size_t   bytes = lk_dtype_bytes(part->dtype);
    lki_walk w = {.rank = part->shape->rank, .nsrc = 1, .dense = (char *)part->data, .dense_bytes = bytes};
    int64_t  stride[LK_MAX_RANK], offset = 0;
    lki_dense_strides(whole->shape, stride);
    for (int i = 0; i < w.rank; i++) {
        w.dim[i] = part->shape->dim[i];
        w.stride[0][i] = stride[i] * attr->slice.stride[i];
        offset += stride[i] * attr->slice.begin[i];
    }
    w.src[0] = (const char *)whole->data + offset * (int64_t)bytes;
    w.src_bytes[0] = bytes;
    return w;
}

static void any_slice(const lki_args *a)
{
    if (a->lo >= a->hi) return;
    lki_walk w = slice_walk(a->attr, &a->dst[0], &a->src[0]);
    lki_walk_run(&w, a, a->lo, a->hi, take_run(w.dense_bytes));
}

static void any_unslice(const lki_args *a)
{
    int64_t n = lki_shape_size(a->src[0].shape), size = lki_shape_size(a->dst[0].shape);
    if (size == 0) return;
    memset(a->dst[0].data, 0, (size_t)size * lk_dtype_bytes(a->dst[0].dtype));
    if (n == 0) return;
    lki_walk w = slice_walk(a->attr, &a->src[0], &a->dst[0]);
    lki_walk_run(&w, a, 0, n, put_run(w.dense_bytes));
}

/* ---- fill, range ------------------------------------------------------------------------------------------------------------- */

#define FILL(T)                                                                                                                    \
    static void T##_fill(const lki_args *a)                                                                                        \
    {                                                                                                                              \
        T *dst = (T *)a->dst[0].data, value;                                                                                       \
        lki_element_set(a->dst[0].dtype, &value, 0, a->attr->num.a);                                                               \
        for (int64_t i = a->lo; i < a->hi; i++)                                                                                    \
            dst[i] = value;                                                                                                        \
    }

#define RANGE(T)                                                                                                                   \
    static void T##_range(const lki_args *a)                                                                                       \
    {                                                                                                                              \
        T *dst = (T *)a->dst[0].data;                                                                                              \
        for (int64_t i = a->lo; i < a->hi; i++)                                                                                    \
            dst[i] = (T)i;                                                                                                         \
    }

FILL(u8)
FILL(u16)
FILL(u32)
FILL(u64)
RANGE(f32)
RANGE(f64)
RANGE(i32)
RANGE(i64)

/* ---- pad --------------------------------------------------------------------------------------------------------------------- */

/* Which of n cells fills cell c of a padded axis; -1: none of them. */
static int64_t padded_from(const lki_attr *attr, int axis, int64_t c, int64_t n)
{
    int64_t i = c - attr->pad.before[axis];
    if (i >= 0 && i < n) return i;
    switch (attr->pad.mode) {
    case LKI_PAD_REFLECT: return i < 0 ? -i : 2 * (n - 1) - i;
    case LKI_PAD_SYMMETRIC: return i < 0 ? -i - 1 : 2 * n - 1 - i;
    default: return -1;
    }
}

/* The last axis that is padded, and how many elements follow it; they stay together. -1: no axis is padded. */
static int padded_axis(const lk_shape *padded, const lk_shape *plain, int64_t *inner)
{
    int axis = plain->rank - 1;
    for (*inner = 1; axis >= 0 && padded->dim[axis] == plain->dim[axis]; axis--)
        *inner *= plain->dim[axis];
    return axis;
}

/* The offset of the unpadded row that fills row `row` of the padded array (all axes before `last`); -1: none. */
static int64_t padded_row(const lki_attr *attr, const lk_shape *padded, const lk_shape *plain, int last, int64_t inner, int64_t row)
{
    int64_t at = 0, stride = plain->dim[last] * inner;
    for (int axis = last - 1; axis >= 0; axis--) {
        int64_t from = padded_from(attr, axis, row % padded->dim[axis], plain->dim[axis]);
        if (from < 0) return -1;
        at += from * stride;
        stride *= plain->dim[axis];
        row /= padded->dim[axis];
    }
    return at;
}

/* Calls each(args, i, n, from) for stretches of the padded array's elements lo..hi: the n elements from i on are those of the
 * unpadded array from `from` on; -1: they are padding. */
typedef void pad_stretch(const lki_args *a, int64_t i, int64_t n, int64_t from);

static void each_padded(const lki_args *a, const lk_shape *padded, const lk_shape *plain, int64_t lo, int64_t hi, pad_stretch *each)
{
    int64_t inner;
    int     last = padded_axis(padded, plain, &inner);
    if (last < 0) {
        if (lo < hi) each(a, lo, hi - lo, lo);
        return;
    }
    int64_t cells = plain->dim[last], before = a->attr->pad.before[last], columns = padded->dim[last] * inner;
    for (int64_t i = lo, end; i < hi;) {
        int64_t row = i / columns, begin = row * columns, at = padded_row(a->attr, padded, plain, last, inner, row);
        for (int64_t row_end = lki_min(hi, begin + columns); i < row_end; i = end) {
            int64_t cell = (i - begin) / inner, from = at < 0 ? -1 : padded_from(a->attr, last, cell, cells);
            if (at < 0) end = row_end;
            else if (cell >= before && cell < before + cells) end = lki_min(row_end, begin + (before + cells) * inner);
            else end = lki_min(row_end, begin + (cell + 1) * inner);
            each(a, i, end - i, from < 0 ? -1 : at + from * inner + (i - begin) % inner);
        }
    }
}

#define PAD(T)                                                                                                                     \
    static void T##_pad_stretch(const lki_args *a, int64_t i, int64_t n, int64_t from)                                             \
    {                                                                                                                              \
        T *dst = (T *)a->dst[0].data + i, value;                                                                                   \
        if (from >= 0) {                                                                                                           \
            memcpy(dst, (const T *)a->src[0].data + from, (size_t)n * sizeof(T));                                                  \
            return;                                                                                                                \
        }                                                                                                                          \
        lki_element_set(a->dst[0].dtype, &value, 0, a->attr->pad.value);                                                           \
        for (int64_t j = 0; j < n; j++)                                                                                            \
            dst[j] = value;                                                                                                        \
    }                                                                                                                              \
    static void T##_pad(const lki_args *a) { each_padded(a, a->dst[0].shape, a->src[0].shape, a->lo, a->hi, T##_pad_stretch); }

PAD(u8)
PAD(u16)
PAD(u32)
PAD(u64)

#define PAD_GRAD(T)                                                                                                                \
    static void T##_pad_grad_stretch(const lki_args *a, int64_t i, int64_t n, int64_t from)                                        \
    {                                                                                                                              \
        const T *dy = (const T *)a->src[0].data + i;                                                                               \
        T       *dst = (T *)a->dst[0].data + from;                                                                                 \
        for (int64_t j = 0; j < n && from >= 0; j++)                                                                               \
            dst[j] += dy[j];                                                                                                       \
    }                                                                                                                              \
    static void T##_pad_grad(const lki_args *a)                                                                                    \
    {                                                                                                                              \
        int64_t size = lki_shape_size(a->dst[0].shape);                                                                            \
        if (size == 0) return;                                                                                                     \
        memset(a->dst[0].data, 0, (size_t)size * sizeof(T));                                                                       \
        each_padded(a, a->src[0].shape, a->dst[0].shape, 0, lki_shape_size(a->src[0].shape), T##_pad_grad_stretch);                \
    }

PAD_GRAD(f32)
PAD_GRAD(f64)

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

void lki_register_move_ref(lki_kernels *k)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++) {
        lk_dtype type = (lk_dtype)t;
        LKI_SET(k, copy, any, type, NULL);
        LKI_SET(k, concat, any, type, NULL);
        LKI_SET(k, unstack, any, type, NULL);
        LKI_SET(k, broadcast, any, type, NULL);
        LKI_SET(k, transpose, any, type, NULL);
        LKI_SET(k, slice, any, type, NULL);
        LKI_SET(k, unslice, any, type, NULL);
    }
    LKI_SET_M(k, fill);
    LKI_SET_M(k, pad);
    LKI_SET_N(k, range);
    LKI_SET_F(k, pad_grad);
}
