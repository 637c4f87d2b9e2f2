/* transpose for all types, by the size of an element.
 *
 * After axes of size one are dropped and neighbours that stay together are merged, dst is
 *
 *     [outer..., rows, middle..., columns]      src steps by 1 along rows, by `apart` along columns
 *
 * and consists of planes [rows, columns] that are transposed block by block: a block is a cache line wide on both sides, so that no
 * line is read or written for a single element. Four-byte elements are transposed in registers, 8 x 8. If a range begins or ends
 * within a row, those ends are copied one by one. So are orders in which the last axis stays, which have no rows. */
#include "kernel/broadcast.h"
#include "kernel/cpu/transpose.h"
#include "kernel/cpu/vec.h"
#include "kernel/register.h"

/* ---- elements of each size --------------------------------------------------------------------------------------------------- */

enum {
    BLOCK = 64,      /* elements; a block of both sides stays in L1 */
    AHEAD = 64,      /* elements; lines that will be written are prefetched this much earlier ... */
    LARGE = 1 << 17, /* ... in planes of this many */
};

typedef void turn_fn(char *to, int64_t to_row, const char *from, int64_t apart, int64_t rows, int64_t columns);

/* to[r][c] = from[c][r]; rows of `to` are to_row elements apart, those of `from` are `apart`. */
#define TURN(T)                                                                                                                    \
    static void T##_turn_small(T *to, int64_t to_row, const T *from, int64_t apart, int64_t rows, int64_t columns)                 \
    {                                                                                                                              \
        if (columns < rows) {                                                                                                      \
            for (int64_t c = 0; c < columns; c++)                                                                                  \
                for (int64_t r = 0; r < rows; r++)                                                                                 \
                    to[r * to_row + c] = from[c * apart + r];                                                                      \
        } else {                                                                                                                   \
            for (int64_t r = 0; r < rows; r++)                                                                                     \
                for (int64_t c = 0; c < columns; c++)                                                                              \
                    to[r * to_row + c] = from[c * apart + r];                                                                      \
        }                                                                                                                          \
    }                                                                                                                              \
                                                                                                                                   \
    static void T##_take_run(const lki_args *a, int64_t n, char *dense, const char *const *src, const int64_t *step)               \
    {                                                                                                                              \
        const T *from = (const T *)(const void *)src[0];                                                                           \
        T       *to = (T *)(void *)dense;                                                                                          \
        (void)a;                                                                                                                   \
        if (*step == 1) memcpy(to, from, (size_t)n * sizeof(T));                                                                   \
        else                                                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                                        \
                to[i] = from[i * *step];                                                                                           \
    }

/* A plane in blocks of lines: `side` elements are 64 bytes. */
#define TURN_PLANE(T, side)                                                                                                        \
    static void T##_turn(char *to_bytes, int64_t to_row, const char *from_bytes, int64_t apart, int64_t rows, int64_t columns)     \
    {                                                                                                                              \
        const T *from = (const T *)(const void *)from_bytes;                                                                       \
        T       *to = (T *)(void *)to_bytes;                                                                                       \
        for (int64_t r = 0; r < rows; r += side)                                                                                   \
            for (int64_t c = 0; c < columns; c += side)                                                                            \
                T##_turn_small(to + r * to_row + c, to_row, from + c * apart + r, apart, lki_min(side, rows - r),                  \
                               lki_min(side, columns - c));                                                                        \
    }

TURN(uint8_t)
TURN(uint16_t)
TURN(uint32_t)
TURN(uint64_t)
TURN_PLANE(uint8_t, 64)
TURN_PLANE(uint16_t, 32)
TURN_PLANE(uint64_t, 8)

/* Eight rows of a block: sixteen columns, a line, are written together. */
static void turn_eight(uint32_t *to, int64_t to_row, const uint32_t *from, int64_t apart, int64_t columns, bool large)
{
    int64_t c = 0;
    for (int64_t r = 0; r < 8 && large; r++)
        __builtin_prefetch(to + r * to_row + AHEAD, 1);
    for (; c + 8 <= columns; c += 8)
        lki_transpose_8x8((const float *)(const void *)(from + c * apart), apart, (float *)(void *)(to + c), to_row);
    if (c < columns) uint32_t_turn_small(to + c, to_row, from + c * apart, apart, 8, columns - c);
}

static void uint32_t_turn(char *to_bytes, int64_t to_row, const char *from_bytes, int64_t apart, int64_t rows, int64_t columns)
{
    const uint32_t *from = (const uint32_t *)(const void *)from_bytes;
    uint32_t       *to = (uint32_t *)(void *)to_bytes;
    bool            large = rows * columns >= LARGE;
    for (int64_t row = 0; row < rows; row += BLOCK)
        for (int64_t c = 0; c < columns; c += VEC) {
            int64_t r = row, end = lki_min(rows, row + BLOCK), width = lki_min(VEC, columns - c);
            for (; r + 8 <= end; r += 8)
                turn_eight(to + r * to_row + c, to_row, from + c * apart + r, apart, width, large);
            if (r < end) uint32_t_turn_small(to + r * to_row + c, to_row, from + c * apart + r, apart, end - r, width);
        }
}

/* ---- axes -------------------------------------------------------------------------------------------------------------------- */

typedef struct turned {
    int     rank;
    int64_t dim[LK_MAX_RANK], stride[LK_MAX_RANK]; /* of dst, and where src steps along them, in elements */
} turned;

static turned turned_axes(const lki_args *a)
{
    const lk_shape *to = a->dst[0].shape;
    turned          t = {0};
    int64_t         stride[LK_MAX_RANK];
    lki_dense_strides(a->src[0].shape, stride);
    for (int i = 0; i < to->rank; i++) {
        int64_t step = stride[a->attr->perm.axis[i]];
        if (to->dim[i] == 1) continue;
        if (t.rank && t.stride[t.rank - 1] == step * to->dim[i]) {
            t.dim[t.rank - 1] *= to->dim[i];
        } else {
            t.dim[t.rank++] = to->dim[i];
        }
        t.stride[t.rank - 1] = step;
    }
    return t;
}

/* Offset in src of entry i of the axes first..last-1, taken as one. */
static int64_t source_of(const turned *t, int first, int last, int64_t i)
{
    int64_t at = 0;
    for (int axis = last - 1; axis >= first; axis--) {
        at += i % t->dim[axis] * t->stride[axis];
        i /= t->dim[axis];
    }
    return at;
}

/* Elements lo..hi one after the other. */
static void turn_each(const turned *t, const lki_args *a, int64_t lo, int64_t hi, lki_walk_fn *take)
{
    size_t   bytes = lk_dtype_bytes(a->dst[0].dtype);
    lki_walk w = {.rank = t->rank, .nsrc = 1, .dense = (char *)a->dst[0].data, .dense_bytes = bytes};
    memcpy(w.dim, t->dim, sizeof w.dim);
    memcpy(w.stride[0], t->stride, sizeof t->stride);
    w.src[0] = (const char *)a->src[0].data;
    w.src_bytes[0] = bytes;
    lki_walk_run(&w, a, lo, hi, take);
}

/* Whole rows first..end-1, counted through all of dst; `axis` is that of the rows, `size` the number of elements of one. */
static void turn_rows(const turned *t, const lki_args *a, int axis, int64_t size, int64_t first, int64_t end, turn_fn *turn)
{
    int64_t bytes = (int64_t)lk_dtype_bytes(a->dst[0].dtype), columns = t->dim[t->rank - 1], apart = t->stride[t->rank - 1];
    for (int64_t row = first, rows; row < end; row += rows) {
        int64_t     skipped = row % t->dim[axis];
        const char *from = (const char *)a->src[0].data + (source_of(t, 0, axis, row / t->dim[axis]) + skipped) * bytes;
        char       *to = (char *)a->dst[0].data + row * size * bytes;
        rows = lki_min(end - row, t->dim[axis] - skipped);
        for (int64_t m = 0; m < size / columns; m++)
            turn(to + m * columns * bytes, size, from + source_of(t, axis + 1, t->rank - 1, m) * bytes, apart, rows, columns);
    }
}

static void turn_range(const lki_args *a, lki_walk_fn *take, turn_fn *turn)
{
    turned  t = turned_axes(a);
    int     axis = 0;
    int64_t size = 1;
    while (axis < t.rank - 1 && t.stride[axis] != 1)
        axis++;
    for (int i = axis + 1; i < t.rank; i++)
        size *= t.dim[i];
    int64_t first = lki_ceil_div(a->lo, size), end = a->hi / size;
    if (size == 1 || first >= end) {
        turn_each(&t, a, a->lo, a->hi, take);
        return;
    }
    turn_each(&t, a, a->lo, first * size, take);
    turn_rows(&t, a, axis, size, first, end, turn);
    turn_each(&t, a, end * size, a->hi, take);
}

static void any_transpose(const lki_args *a)
{
    if (a->lo >= a->hi) return;
    switch (lk_dtype_bytes(a->dst[0].dtype)) {
    case 1: turn_range(a, uint8_t_take_run, uint8_t_turn); break;
    case 2: turn_range(a, uint16_t_take_run, uint16_t_turn); break;
    case 4: turn_range(a, uint32_t_take_run, uint32_t_turn); break;
    default: turn_range(a, uint64_t_take_run, uint64_t_turn); break;
    }
}

void ISA(lki_register_move)(lki_kernels *k)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        lki_kernel_set(k, LKI_K_transpose, (lk_dtype)t, any_transpose, NULL, VARIANT);
}
