/* The tile (products.h) in registers: ROWS x 2 accumulators, one chain of fused multiply-adds per element and no other addition.
 *
 * The body is written once and instantiated for every number of rows, one or two vectors of columns, and whole or partly used last
 * vector; p < P and the like are constants there. Accumulators are named c<row><vector>, because arrays do not reliably stay in
 * registers. */
#include "kernel/cpu/products.h"
#include "kernel/cpu/simd.h"

#define ALWAYS static inline __attribute__((always_inline))

/* clang-format off */
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
/* clang-format on */

#define POINT_ROW(p) const float *a##p = p < P ? t->a[p] : NULL;
#define DECLARE_ROW(p) vf c##p##0 = vf_zero(), c##p##1 = vf_zero();

#define ZERO_ROW(p) c##p##0 = c##p##1 = vf_zero();

#define CONTINUE_ROW(p)                                                                                                            \
    if (p < P) {                                                                                                                   \
        c##p##0 = NV == 1 && PART ? vf_load_some(t->c[p], last) : vf_load(t->c[p]);                                                \
        if (NV > 1) c##p##1 = PART ? vf_load_some(t->c[p] + WIDTH, last) : vf_load(t->c[p] + WIDTH);                               \
    }

/* One step of the chains: b0, b1 are loaded, i is the index in each row. */
#define LOAD(b)                                                                                                                    \
    const vf b0 = NV == 1 && PART ? vf_load_some(b, last) : vf_load(b);                                                            \
    const vf b1 = NV == 1 ? b0 : PART ? vf_load_some((b) + WIDTH, last) : vf_load((b) + WIDTH);

#define STEP_ROW(p)                                                                                                                \
    if (p < P) {                                                                                                                   \
        const vf x = vf_all(a##p[i]);                                                                                              \
        c##p##0 = vf_fma(x, b0, c##p##0);                                                                                          \
        if (NV > 1) c##p##1 = vf_fma(x, b1, c##p##1);                                                                              \
    }

/* The tree over lanes: a stack of tiles, [row][vector][WIDTH]. */
#define MERGE_ROW(p)                                                                                                               \
    if (p < P) {                                                                                                                   \
        c##p##0 = vf_add(vf_load(top + (p * NV) * WIDTH), c##p##0);                                                                \
        if (NV > 1) c##p##1 = vf_add(vf_load(top + (p * NV + 1) * WIDTH), c##p##1);                                                \
    }

#define PUSH_ROW(p)                                                                                                                \
    if (p < P) {                                                                                                                   \
        vf_store(top + (p * NV) * WIDTH, c##p##0);                                                                                 \
        if (NV > 1) vf_store(top + (p * NV + 1) * WIDTH, c##p##1);                                                                 \
    }

/* `lane` is complete: add it to the open sums of its size, then store it there unless it is the last. */
#define CLOSE_LANE                                                                                                                 \
    if (lanes > 1) {                                                                                                               \
        for (int below = lane; below & 1; below >>= 1) {                                                                           \
            top -= P * NV * WIDTH;                                                                                                 \
            EACH_ROW(MERGE_ROW)                                                                                                    \
        }                                                                                                                          \
        if (lane + 1 < lanes) {                                                                                                    \
            EACH_ROW(PUSH_ROW)                                                                                                     \
            top += P * NV * WIDTH;                                                                                                 \
        }                                                                                                                          \
    }

#define BIAS_ROW(p) c##p##0 = vf_add(c##p##0, b0), c##p##1 = vf_add(c##p##1, b1);
#define RELU_ROW(p) c##p##0 = vf_relu(c##p##0), c##p##1 = vf_relu(c##p##1);

#define STORE_ROW(p)                                                                                                               \
    if (p < P) {                                                                                                                   \
        if (NV == 1 && PART) vf_store_some(t->c[p], last, c##p##0);                                                                \
        else vf_store(t->c[p], c##p##0);                                                                                           \
        if (NV > 1 && PART) vf_store_some(t->c[p] + WIDTH, last, c##p##1);                                                         \
        if (NV > 1 && !PART) vf_store(t->c[p] + WIDTH, c##p##1);                                                                   \
    }

#define FINISH                                                                                                                     \
    if (t->bias) {                                                                                                                 \
        LOAD(t->bias)                                                                                                              \
        EACH_ROW(BIAS_ROW)                                                                                                         \
    }                                                                                                                              \
    if (t->relu) {                                                                                                                 \
        EACH_ROW(RELU_ROW)                                                                                                         \
    }                                                                                                                              \
    EACH_ROW(STORE_ROW)

ALWAYS void tile_body(const lki_tile *t, const int P, const int NV, const int PART)
{
    _Alignas(64) float open[LKI_LANE_DEPTH][ROWS * COLS];
    float             *top = open[0];
    const vm           last = vm_first(t->cols - (NV - 1) * WIDTH);
    const int          lanes = t->lanes ? t->lanes : 1;
    EACH_ROW(POINT_ROW)
    EACH_ROW(DECLARE_ROW)
    if (t->more) {
        EACH_ROW(CONTINUE_ROW)
    }

    for (int lane = 0; lane < lanes; lane++) {
        const int64_t start = t->lanes ? t->bound[lane] : 0, s0 = t->astep[0], r0 = t->bstep[0];
        int64_t       n2 = t->lanes ? t->bound[lane + 1] - start : t->count[2], at2 = start * t->astep[2];
        const float  *b2 = t->b + start * t->bstep[2];
        if (lane) {
            EACH_ROW(ZERO_ROW)
        }
        for (; n2 > 0; n2--, at2 += t->astep[2], b2 += t->bstep[2]) {
            int64_t      at1 = at2;
            const float *b1st = b2;
            for (int64_t n1 = t->count[1]; n1 > 0; n1--, at1 += t->astep[1], b1st += t->bstep[1]) {
                const float *b = b1st;
                for (int64_t i = at1, n = t->count[0]; n > 0; n--, i += s0, b += r0) {
                    LOAD(b)
                    EACH_ROW(STEP_ROW)
                }
            }
        }
        CLOSE_LANE
    }
    FINISH
}

/* The same with one level and no lanes, as in matrix products: only the loop between loads and stores of c. AHEAD: t->ahead is not
 * NULL. */
ALWAYS void flat_body(const lki_tile *t, const int P, const int NV, const int PART, const int AHEAD)
{
    const vm      last = vm_first(t->cols - (NV - 1) * WIDTH);
    const int64_t s0 = t->astep[0], r0 = t->bstep[0], by = t->ahead_step;
    const float  *b = t->b, *ahead = t->ahead;
    EACH_ROW(POINT_ROW)
    EACH_ROW(DECLARE_ROW)
    if (t->more) {
        EACH_ROW(CONTINUE_ROW)
    }
    for (int64_t i = 0, n = t->count[0]; n > 0; n--, i += s0, b += r0) {
        if (AHEAD) {
            __builtin_prefetch(ahead, 0, 2);
            ahead += by;
        }
        LOAD(b)
        EACH_ROW(STEP_ROW)
    }
    FINISH
}

/* The same for lanes of few steps each: the rows are adjacent (a[0][p] is row p), lanes are consecutive, and one pointer walks all
 * of it. */
#define NEXT_ROW(p)                                                                                                                \
    if (p < P) {                                                                                                                   \
        const vf x = vf_all(a[p]);                                                                                                 \
        c##p##0 = vf_fma(x, b0, c##p##0);                                                                                          \
        if (NV > 1) c##p##1 = vf_fma(x, b1, c##p##1);                                                                              \
    }

#define NEXT                                                                                                                       \
    {                                                                                                                              \
        LOAD(b)                                                                                                                    \
        EACH_ROW(NEXT_ROW)                                                                                                         \
        a += s0, b += r0;                                                                                                          \
    }

ALWAYS void lanes_body(const lki_tile *t, const int P, const int NV, const int PART)
{
    _Alignas(64) float open[LKI_LANE_DEPTH][ROWS * COLS];
    float             *top = open[0];
    const vm           last = vm_first(t->cols - (NV - 1) * WIDTH);
    const int          lanes = t->lanes;
    const int64_t     *bound = t->bound, s0 = t->astep[0], r0 = t->bstep[0];
    const float       *a = t->a[0] + bound[0] * s0, *b = t->b + bound[0] * r0;
    EACH_ROW(DECLARE_ROW)

    for (int lane = 0; lane < lanes; lane++) {
        EACH_ROW(ZERO_ROW)
        int64_t n = bound[lane + 1] - bound[lane];
        for (; n >= 4; n -= 4) {
            NEXT NEXT NEXT NEXT
        }
        for (; n > 0; n--) {
            NEXT
        }
        CLOSE_LANE
    }
    FINISH
}

/* The same with rows that leave out steps: columns in which all rows take part run at full speed, the others row by row. */
#define SOME_ROW(p)                                                                                                                \
    if (p < P && (take >> p & 1)) {                                                                                                \
        const vf x = vf_all(a##p[i]);                                                                                              \
        c##p##0 = vf_fma(x, b0, c##p##0);                                                                                          \
        if (NV > 1) c##p##1 = vf_fma(x, b1, c##p##1);                                                                              \
    }

/* Bit p: row p takes part at step i of a level. */
static unsigned rows_at(const lki_ragged *r, int rows, int level, int64_t i)
{
    unsigned bits = 0;
    for (int p = 0; p < rows; p++)
        bits |= (unsigned)(r->first[p][level] <= i && i < r->last[p][level]) << p;
    return bits;
}

ALWAYS void ragged_body(const lki_tile *t, const lki_ragged *r, const int P, const int NV, const int PART)
{
    _Alignas(64) float open[LKI_LANE_DEPTH][ROWS * COLS];
    float             *top = open[0];
    const vm           last = vm_first(t->cols - (NV - 1) * WIDTH);
    const int          lanes = t->lanes ? t->lanes : 1;
    const unsigned     all = (1u << P) - 1;
    EACH_ROW(POINT_ROW)
    EACH_ROW(DECLARE_ROW)

    int64_t from = 0, to = t->count[0]; /* the columns that all rows have */
    for (int p = 0; p < P; p++) {
        from = lki_max(from, r->first[p][0]);
        to = lki_min(to, r->last[p][0]);
    }
    for (int lane = 0; lane < lanes; lane++) {
        EACH_ROW(ZERO_ROW)
        const int64_t end2 = t->lanes ? t->bound[lane + 1] : t->count[2];
        for (int64_t i2 = t->lanes ? t->bound[lane] : 0; i2 < end2; i2++)
            for (int64_t i1 = 0; i1 < t->count[1]; i1++) {
                const unsigned rows = rows_at(r, P, 1, i1);
                for (int64_t i0 = 0; i0 < t->count[0]; i0++) {
                    int64_t      i = i2 * t->astep[2] + i1 * t->astep[1] + i0 * t->astep[0];
                    const float *b = t->b + i2 * t->bstep[2] + i1 * t->bstep[1] + i0 * t->bstep[0];
                    if (rows == all && i0 == from && from < to) {
                        for (; i0 < to; i0++, i += t->astep[0], b += t->bstep[0]) {
                            LOAD(b)
                            EACH_ROW(STEP_ROW)
                        }
                        i0--;
                        continue;
                    }
                    const unsigned take = rows & rows_at(r, P, 0, i0);
                    if (!take) continue;
                    LOAD(b)
                    EACH_ROW(SOME_ROW)
                }
            }
        CLOSE_LANE
    }
    FINISH
}

/* ---- instances --------------------------------------------------------------------------------------------------------------- */

#define TILE(p, nv, part)                                                                                                          \
    static void tile_##p##_##nv##_##part(const lki_tile *t) { tile_body(t, p, nv, part); }                                         \
    static void flat_##p##_##nv##_##part(const lki_tile *t) { flat_body(t, p, nv, part, 0); }                                      \
    static void ahead_##p##_##nv##_##part(const lki_tile *t) { flat_body(t, p, nv, part, 1); }                                     \
    static void lanes_##p##_##nv##_##part(const lki_tile *t) { lanes_body(t, p, nv, part); }                                       \
    static void ragged_##p##_##nv##_##part(const lki_tile *t, const lki_ragged *r) { ragged_body(t, r, p, nv, part); }
/* clang-format off */
#define TILES(p) TILE(p, 1, 0) TILE(p, 1, 1) TILE(p, 2, 0) TILE(p, 2, 1)
#define ENTRY(kind, p) {{kind##_##p##_1_0, kind##_##p##_1_1}, {kind##_##p##_2_0, kind##_##p##_2_1}},
#if HAS_MANY_REGISTERS
#define TILES_MORE(p) TILES(p)
#define ENTRY_MORE(kind, p) ENTRY(kind, p)
#else /* one vector of columns only */
#define TILES_MORE(p) TILE(p, 1, 0) TILE(p, 1, 1)
#define ENTRY_MORE(kind, p) {{kind##_##p##_1_0, kind##_##p##_1_1}},
#endif

TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)
TILES_MORE(7)
TILES_MORE(8)

#define ENTRIES(kind)                                                                                                              \
    ENTRY(kind, 1) ENTRY(kind, 2) ENTRY(kind, 3) ENTRY(kind, 4) ENTRY(kind, 5) ENTRY(kind, 6)                                      \
    ENTRY_MORE(kind, 7) ENTRY_MORE(kind, 8)
/* clang-format on */

typedef void tile_fn(const lki_tile *t);
typedef void ragged_fn(const lki_tile *t, const lki_ragged *r);

void ISA(lki_tile)(int rows, const lki_tile *t)
{
    static tile_fn *const table[LKI_TILE_ROWS][2][2] = {ENTRIES(tile)};
    static tile_fn *const flat[2][LKI_TILE_ROWS][2][2] = {{ENTRIES(flat)}, {ENTRIES(ahead)}};
    const int             columns = t->cols > WIDTH, part = t->cols % WIDTH != 0;
    if (!t->lanes && t->count[1] == 1 && t->count[2] == 1) flat[t->ahead != NULL][rows - 1][columns][part](t);
    else table[rows - 1][columns][part](t);
}

#if HAS_MANY_REGISTERS
#include "kernel/cpu/tile_pairs.inc"
#endif

void ISA(lki_tile_lanes)(int rows, const lki_tile *t)
{
    static tile_fn *const table[LKI_TILE_ROWS][2][2] = {ENTRIES(lanes)};
#if HAS_MANY_REGISTERS
    if (rows % PAIR_ROWS == 0 && goes_by_pairs(t)) {
        for (int row = 0; row < rows; row += PAIR_ROWS)
            tile_pairs(t, row);
        return;
    }
#endif
    table[rows - 1][t->cols > WIDTH][t->cols % WIDTH != 0](t);
}

void ISA(lki_tile_ragged)(int rows, const lki_tile *t, const lki_ragged *r)
{
    static ragged_fn *const table[LKI_TILE_ROWS][2][2] = {ENTRIES(ragged)};
    table[rows - 1][t->cols > WIDTH][t->cols % WIDTH != 0](t, r);
}
