/* Where the matrices of a product are: the last two axes of an operand, one matrix per entry of the leading axes.
 *
 * An operand "by heads" is [n, rows, heads, columns] in memory and is multiplied as [n, heads, rows, columns]: so the output of a
 * dense layer with several heads needs no transpose before it is multiplied head by head. Its rows are heads * columns apart. */
#ifndef LKI_KERNEL_MATRIX_H
#define LKI_KERNEL_MATRIX_H

#include "core/shape.h"

/* The shape as it is multiplied, from the shape in memory, and the reverse. */
static inline lk_shape lki_by_heads(const lk_shape *s, int heads)
{
    lk_shape t = *s;
    if (!heads) return t;
    t.dim[1] = s->dim[2];
    t.dim[2] = s->dim[1];
    return t;
}

/* Elements from one row of a matrix to the next. */
static inline int64_t lki_matrix_row(const lk_shape *s, int heads)
{
    return s->dim[s->rank - 1] * (heads ? s->dim[s->rank - 2] : 1);
}

/* Elements from the start of `s` (in memory) to the matrix of entry `batch` of the leading axes of `out` (as multiplied); axes of
 * size 1 repeat. */
static inline int64_t lki_matrix_at(const lk_shape *s, int heads, const lk_shape *out, int64_t batch)
{
    const lk_shape t = lki_by_heads(s, heads);
    int64_t        at = 0, size = heads ? t.dim[3] : t.dim[t.rank - 1] * t.dim[t.rank - 2];
    for (int d = out->rank - 3, e = t.rank - 3; e >= 0; d--, e--) {
        if (t.dim[e] != 1) at += batch % out->dim[d] * size;
        size *= heads && e == 1 ? t.dim[1] * t.dim[2] : t.dim[e];
        batch /= out->dim[d];
    }
    return at;
}

/* Some rows of one matrix of a result. */
typedef struct lki_matrix_rows {
    int64_t batch, m, count,
        at; /* entry of the leading axes, first row, rows, elements from the start of the result to the first */
} lki_matrix_rows;

/* The next piece of the rows lo <= r < hi of a result, counted as rows of its last axis in memory; `out` is its shape as
 * multiplied. Start with *batch = 0, which the function increments; false if there are no more rows. */
static inline bool lki_matrix_next(const lk_shape *out, int heads, int64_t lo, int64_t hi, int64_t *batch, lki_matrix_rows *p)
{
    const int64_t M = out->dim[out->rank - 2], N = out->dim[out->rank - 1], H = heads ? out->dim[1] : 1, all = H * M;
    if (*batch < lo / all * H) *batch = lo / all * H;
    for (; *batch / H * all < hi; (*batch)++) {
        const int64_t first = *batch / H * all, h = heads ? *batch % H : 0; /* row m of this matrix is row first + m * H + h */
        const int64_t from = lki_max(0, lki_ceil_div(lo - first - h, H)), to = lki_min(M, lki_ceil_div(hi - first - h, H));
        if (from >= to) continue;
        *p = (lki_matrix_rows){*batch, from, to - from, (first + from * H + h) * N};
        (*batch)++;
        return true;
    }
    return false;
}

#endif
