/* Sums over rows as src/kernel/gpu/base/sums.h defines them, in plain loops. */
#ifndef LK_TESTS_GPU_PARTS_H
#define LK_TESTS_GPU_PARTS_H

#include "slots.h"

enum { PARTS_SHORT = 64, PARTS_WAYS = 32, PARTS_OF = 256, PARTS_MOST = 256, PARTS_JOINS = 16 };

static inline int64_t parts_of(int64_t n)
{
    int64_t part = PARTS_OF;
    while ((n + part - 1) / part > PARTS_MOST)
        part *= 2;
    return part;
}

/* The sum of a lane: n products a * b, `step` apart in memory; b may be NULL: ones. */
#define PARTS_LANE(name, T, FMA)                                                                                                   \
    static inline T name##_tree(T *sum, int64_t n)                                                                                 \
    {                                                                                                                              \
        for (int64_t by = 1; by < n; by *= 2)                                                                                      \
            for (int64_t i = 0; i + by < n; i += 2 * by)                                                                           \
                sum[i] = sum[i] + sum[i + by];                                                                                     \
        return sum[0];                                                                                                             \
    }                                                                                                                              \
    static inline T name(const T *a, const T *b, int64_t n, int64_t step)                                                          \
    {                                                                                                                              \
        const int64_t part = parts_of(n), parts = (n + part - 1) / part;                                                           \
        T             join[PARTS_JOINS];                                                                                           \
        if (n == 0) return 0;                                                                                                      \
        for (int64_t p = 0; p < parts; p++) {                                                                                      \
            T             way[PARTS_WAYS] = {0};                                                                                   \
            const int64_t ways = n <= PARTS_SHORT ? 1 : PARTS_WAYS, from = p * part;                                               \
            for (int64_t k = from; k < lki_min(n, from + part); k++)                                                               \
                way[(k - from) % ways] = FMA(a[k * step], b ? b[k * step] : 1, way[(k - from) % ways]);                            \
            const T sum = name##_tree(way, ways);                                                                                  \
            join[p % PARTS_JOINS] = p < PARTS_JOINS ? sum : join[p % PARTS_JOINS] + sum;                                           \
        }                                                                                                                          \
        return name##_tree(join, lki_min(parts, PARTS_JOINS));                                                                     \
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
        return lane##_tree(sum, c->lanes);                                                                                         \
    }
PARTS_COLUMN(parts_column_f32, float, parts_lane_f32)
PARTS_COLUMN(parts_column_f64, double, parts_lane_f64)

/* Rows of the longest lane; with more than PARTS_SHORT the card has its own order, and results are near the reference's. */
static inline int64_t parts_longest(const slot_case *c, int64_t rows, int64_t entry)
{
    int64_t most = c->lanes ? 0 : rows;
    for (int s = 0; s < c->lanes; s++)
        most = lki_max(most, (c->bound[s + 1] - c->bound[s]) * entry);
    return most;
}

static inline double parts_tolerance(const slot_case *c, lk_dtype t, int64_t rows, int64_t entry)
{
    return parts_longest(c, rows, entry) <= PARTS_SHORT || lki_is_int(t) ? 0 : t == LK_F32 ? 1e-5 : 1e-13;
}

#endif
