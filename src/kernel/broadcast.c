/* The walk over strided operands; see broadcast.h for the invariants. */
#include "kernel/broadcast.h"

#include <string.h>

enum { REPEAT_BYTES = 4096 }; /* a short row operand is repeated up to this size, so that runs are long and its copy stays in L1 */

void lki_dense_strides(const lk_shape *shape, int64_t stride[LK_MAX_RANK])
{
    int64_t step = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= shape->dim[i];
    }
}

/* Axis i can be merged into its outer neighbour j if every operand steps over both as over one. */
static bool mergeable(const lki_walk *w, int j, int i)
{
    for (int k = 0; k < w->nsrc; k++)
        if (w->stride[k][j] != w->stride[k][i] * w->dim[i]) return false;
    return true;
}

static void take_axis(lki_walk *w, int to, int from)
{
    w->dim[to] = w->dim[from];
    for (int k = 0; k < w->nsrc; k++)
        w->stride[k][to] = w->stride[k][from];
}

static void collapse(lki_walk *w)
{
    int rank = 0;
    for (int i = 0; i < w->rank; i++) {
        if (w->dim[i] == 1) continue;
        if (rank && mergeable(w, rank - 1, i)) {
            int64_t outer = w->dim[rank - 1];
            take_axis(w, rank - 1, i);
            w->dim[rank - 1] *= outer;
        } else {
            take_axis(w, rank++, i);
        }
    }
    if (rank == 0) {
        w->dim[0] = 1;
        for (int k = 0; k < w->nsrc; k++)
            w->stride[k][0] = 0;
        rank = 1;
    }
    w->rank = rank;
}

/* The general case: lo..hi is divided at the ends of the innermost axis. */
static void run_rows(const lki_walk *w, const lki_args *a, int64_t lo, int64_t hi, lki_walk_fn *run)
{
    int     last = w->rank - 1;
    int64_t at[LK_MAX_RANK], offset[LKI_WALK_OPERANDS] = {0}, step[LKI_WALK_OPERANDS] = {0};
    int64_t rest = lo;
    for (int i = last; i >= 0; i--) {
        at[i] = rest % w->dim[i];
        rest /= w->dim[i];
        for (int k = 0; k < w->nsrc; k++)
            offset[k] += at[i] * w->stride[k][i];
    }
    for (int k = 0; k < w->nsrc; k++)
        step[k] = w->stride[k][last];

    for (int64_t i = lo; i < hi;) {
        int64_t     n = lki_min(hi - i, w->dim[last] - at[last]);
        const char *src[LKI_WALK_OPERANDS];
        for (int k = 0; k < w->nsrc; k++)
            src[k] = w->src[k] + offset[k] * (int64_t)w->src_bytes[k];
        run(a, n, w->dense + i * (int64_t)w->dense_bytes, src, step);
        i += n;
        at[last] += n;
        for (int k = 0; k < w->nsrc; k++)
            offset[k] += n * step[k];
        for (int axis = last; axis > 0 && at[axis] == w->dim[axis]; axis--) {
            at[axis] = 0;
            at[axis - 1]++;
            for (int k = 0; k < w->nsrc; k++)
                offset[k] += w->stride[k][axis - 1] - w->dim[axis] * w->stride[k][axis];
        }
    }
}

/* [R, C] with one operand [C] of short rows, the others dense or scalar: which operand, or -1. */
static int short_row_operand(const lki_walk *w)
{
    int found = -1;
    if (w->rank != 2) return -1;
    for (int k = 0; k < w->nsrc; k++) {
        const int64_t *s = w->stride[k];
        if (s[0] == 0 && s[1] == 1 && found < 0 && w->dim[1] * (int64_t)w->src_bytes[k] * 4 <= REPEAT_BYTES) found = k;
        else if (s[0] != s[1] * w->dim[1]) return -1;
    }
    return found;
}

/* Writes `row` of `bytes` repeatedly until `total` bytes are filled. */
static void repeat(char *to, const char *row, size_t bytes, size_t total)
{
    memcpy(to, row, bytes);
    for (size_t done = bytes, more; done < total; done += more) {
        more = done < total - done ? done : total - done;
        memcpy(to + done, to, more);
    }
}

/* The row is repeated in a buffer, so that a run covers many rows. */
static void run_repeated(const lki_walk *w, const lki_args *a, int row, int64_t lo, int64_t hi, lki_walk_fn *run)
{
    _Alignas(64) char repeated[REPEAT_BYTES];
    int64_t           columns = w->dim[1], bytes = columns * (int64_t)w->src_bytes[row], step[LKI_WALK_OPERANDS];
    int64_t           rows = lki_min(REPEAT_BYTES / bytes, (hi - lo) / columns + 2);
    repeat(repeated, w->src[row], (size_t)bytes, (size_t)(rows * bytes));
    for (int k = 0; k < w->nsrc; k++)
        step[k] = w->stride[k][1];

    for (int64_t i = lo, n; i < hi; i += n) {
        int64_t     phase = i % columns;
        const char *src[LKI_WALK_OPERANDS];
        n = lki_min(hi - i, rows * columns - phase);
        for (int k = 0; k < w->nsrc; k++)
            src[k] = k == row ? repeated + phase * (int64_t)w->src_bytes[k] : w->src[k] + i * step[k] * (int64_t)w->src_bytes[k];
        run(a, n, w->dense + i * (int64_t)w->dense_bytes, src, step);
    }
}

void lki_walk_run(lki_walk *w, const lki_args *a, int64_t lo, int64_t hi, lki_walk_fn *run)
{
    if (lo >= hi) return;
    collapse(w);
    int row = short_row_operand(w);
    if (row >= 0 && hi - lo >= 4 * w->dim[1]) run_repeated(w, a, row, lo, hi, run);
    else run_rows(w, a, lo, hi, run);
}

/* Operands of dst's size or of one element need no walk. */
static bool run_plain(const lki_args *a, int nsrc, lki_walk_fn *run)
{
    const char *src[LKI_WALK_OPERANDS];
    int64_t     step[LKI_WALK_OPERANDS], size = lki_shape_size(a->dst[0].shape);
    for (int k = 0; k < nsrc; k++) {
        int64_t n = lki_shape_size(a->src[k].shape);
        if (n != size && n != 1) return false;
        step[k] = n == size;
        src[k] = (const char *)a->src[k].data + a->lo * step[k] * (int64_t)lk_dtype_bytes(a->src[k].dtype);
    }
    run(a, a->hi - a->lo, (char *)a->dst[0].data + a->lo * (int64_t)lk_dtype_bytes(a->dst[0].dtype), src, step);
    return true;
}

void lki_broadcast(const lki_args *a, int nsrc, lki_walk_fn *run)
{
    if (a->lo >= a->hi || run_plain(a, nsrc, run)) return;
    const lk_shape *to = a->dst[0].shape;
    lki_walk w = {.rank = to->rank, .nsrc = nsrc, .dense = (char *)a->dst[0].data, .dense_bytes = lk_dtype_bytes(a->dst[0].dtype)};
    for (int i = 0; i < to->rank; i++)
        w.dim[i] = to->dim[i];
    for (int k = 0; k < nsrc; k++) {
        const lk_shape *from = a->src[k].shape;
        int64_t         dense[LK_MAX_RANK];
        lki_dense_strides(from, dense);
        for (int i = 0; i < to->rank; i++) {
            int axis = i - (to->rank - from->rank);
            w.stride[k][i] = axis >= 0 && from->dim[axis] != 1 ? dense[axis] : 0;
        }
        w.src[k] = (const char *)a->src[k].data;
        w.src_bytes[k] = lk_dtype_bytes(a->src[k].dtype);
    }
    lki_walk_run(&w, a, a->lo, a->hi, run);
}
