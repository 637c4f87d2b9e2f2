/* Long sums over rows as src/kernel/gpu/chain.h defines them, in plain loops. */
#ifndef LK_TESTS_GPU_PARTS_H
#define LK_TESTS_GPU_PARTS_H

#include "slots.h"

enum { PARTS_OF = 256 };

/* The sum of a lane: n products a * b, `step` apart in memory; b may be NULL: ones. */
#define PARTS_LANE(name, T, FMA)                                                                                                   \
    static inline T name(const T *a, const T *b, int64_t n, int64_t step)                                                          \
    {                                                                                                                              \
        int64_t parts = (n + PARTS_OF - 1) / PARTS_OF;                                                                             \
        T      *sum = calloc((size_t)parts + 1, sizeof *sum);                                                                      \
        for (int64_t k = 0; k < n; k++)                                                                                            \
            sum[k / PARTS_OF] = FMA(a[k * step], b ? b[k * step] : 1, sum[k / PARTS_OF]);                                          \
        for (; parts > 1; parts = (parts + PARTS_OF - 1) / PARTS_OF)                                                               \
            for (int64_t k = 0; k < parts; k++)                                                                                    \
                sum[k / PARTS_OF] = k % PARTS_OF ? sum[k / PARTS_OF] + sum[k] : sum[k];                                            \
        const T total = sum[0];                                                                                                    \
        free(sum);                                                                                                                 \
        return total;                                                                                                              \
    }
PARTS_LANE(parts_lane_f32, float, fmaf)
PARTS_LANE(parts_lane_f64, double, fma)

/* Of rows of `columns` numbers, one column: lanes, then the tree over them. lanes 0: one, of all rows. */
#define PARTS_COLUMN(name, T, lane)                                                                                                \
    static inline T name(const slot_case *c, const T *a, const T *b, int64_t rows, int64_t entry, int64_t columns, int64_t column) \
    {                                                                                                                              \
        T sum[SLOT_LANES];                                                                                                         \
        if (!c->lanes) return lane(a + column, b ? b + column : NULL, rows, columns);                                              \
        for (int s = 0; s < c->lanes; s++) {                                                                                       \
            const int64_t from = c->bound[s] * entry, at = from * columns + column;                                                \
            sum[s] = lane(a + at, b ? b + at : NULL, c->bound[s + 1] * entry - from, columns);                                     \
        }                                                                                                                          \
        for (int step = 1; step < c->lanes; step *= 2)                                                                             \
            for (int s = 0; s < c->lanes; s += 2 * step)                                                                           \
                sum[s] = sum[s] + sum[s + step];                                                                                   \
        return sum[0];                                                                                                             \
    }
PARTS_COLUMN(parts_column_f32, float, parts_lane_f32)
PARTS_COLUMN(parts_column_f64, double, parts_lane_f64)

/* Rows of the longest lane; with more than PARTS_OF the card has its own order, and results are near the reference's. */
static inline int64_t parts_longest(const slot_case *c, int64_t rows, int64_t entry)
{
    int64_t most = c->lanes ? 0 : rows;
    for (int s = 0; s < c->lanes; s++)
        most = lki_max(most, (c->bound[s + 1] - c->bound[s]) * entry);
    return most;
}

static inline double parts_tolerance(const slot_case *c, lk_dtype t, int64_t rows, int64_t entry)
{
    return parts_longest(c, rows, entry) <= PARTS_OF || lki_is_int(t) ? 0 : t == LK_F32 ? 1e-5 : 1e-13;
}

#endif
