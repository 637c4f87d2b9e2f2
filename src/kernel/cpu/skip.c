/* Matrix products that skip the zeros of a.
 *
 * After a relu half of all values or more are zero; after a pool on pictures with a blank background two in three are, and so are
 * gradients that came back through a relu. fma(0, b, s) is s for every finite b, so these terms are left out. This changes no bit:
 * chains and trees are those of gemm.c; if b has an infinity or NaN no terms are left out; and a result of -0, an underflow that a
 * term of +0 might have turned into +0, is summed again with all terms.
 *
 * Bits say which terms are live. A row of results, 64 columns wide, stays in registers while the set bits of its word are walked: a
 * factor, one row of b from L1, a multiply-add per vector. Nothing is shared between rows as in a tile, so this takes more loads
 * per term, and is faster if fewer than about three in four terms are live. The kernel samples a to decide this, and decides again
 * block by block.
 *
 *     rows    a[m] is a row of memory: blocks of DEPTH steps, which continue the chain through c
 *     lanes   a[m] is a column of memory and the steps are divided into lanes: STEPS at a time, the columns sorted by how many of
 *             them are live, so that the processor can predict the length of every loop */
#include "kernel/cpu/finite.h"
#include "kernel/cpu/products.h"
#include "kernel/cpu/simd.h"
#include "kernel/cpu/transpose.h"
#include <math.h>

#define ALWAYS static inline __attribute__((always_inline))
#define EACH_LANE _Pragma("GCC unroll 4") for (int l = 0; l < TOGETHER; l++)
#define EACH_VECTOR _Pragma("GCC unroll 8") for (int j = 0; j < VECTORS; j++)

enum {
    PANEL = 64, /* columns of b that are processed at a time */
    VECTORS = PANEL / WIDTH,
    DEPTH = 64,                                 /* steps of a block: bits of a word, and a panel of 16 KB */
    WORDS = 8,                                  /* rows: words of a row that are found at a time */
    MOST_ROWS = 256,                            /* rows: this many at a time, their part of c in L2 */
    MOST_COLUMNS = 8 * PANEL,                   /* and this many columns */
    STEPS = 8,                                  /* lanes: steps that are sorted together, */
    TOGETHER = HAS_MANY_REGISTERS ? 4 : 2,      /* of this many lanes */
    FEATURES = 64,                              /* and rows of c: bits of a word */
    LEAST_ROWS = 8,                             /* fewer: looking for zeros is not worth it */
    LANES_SHARE = HAS_MANY_REGISTERS ? 12 : 11, /* sixteenths of the steps; if more are live, all are summed */
    PACKED_FLOATS = 128 * 1024,                 /* of b, for lanes */
};

typedef lki_product product;

/* ---- deciding whether to skip ------------------------------------------------------------------------------------------------ */

enum { SAMPLES = 128 };

/* Approximately how many of 1024 elements are live, of `rows` rows of `length` floats. */
static int64_t live_share(const float *a, int64_t row, int64_t rows, int64_t length)
{
    const int64_t words = length / DEPTH, all = rows * words, step = lki_max(1, all / SAMPLES) | 1;
    int64_t       live = 0, looked = 0;
    for (int64_t i = 0; i < all; i += step, looked++)
        live += __builtin_popcountll(live_word(a + i / words * row + i % words * DEPTH, DEPTH));
    return looked ? live * 1024 / (looked * DEPTH) : 1024;
}

/* ---- results of -0 ----------------------------------------------------------------------------------------------------------- */

static float chain(const product *g, int64_t m, int64_t n, int64_t from, int64_t to)
{
    float s = 0;
    for (int64_t k = from; k < to; k++)
        s = fmaf(g->a[m * g->a_row + k * g->a_k], g->b[k * g->b_k + n * g->b_col], s);
    return s;
}

/* c[m][n] before its end, with all terms. */
static float sum_of_all(const product *g, int64_t m, int64_t n)
{
    float open[LKI_LANE_DEPTH], s = 0;
    int   depth = 0;
    if (!g->lanes) return chain(g, m, n, 0, g->K);
    for (int lane = 0; lane < g->lanes->count; lane++) {
        s = chain(g, m, n, g->lanes->bound[lane], g->lanes->bound[lane + 1]);
        for (int below = lane; below & 1; below >>= 1)
            s = open[--depth] + s;
        open[depth++] = s;
    }
    return s;
}

static __attribute__((noinline)) void settle(const product *g, int64_t m, int64_t n, float *s)
{
    for (int64_t i = 0; i < PANEL; i++)
        if (s[i] == 0 && signbit(s[i])) s[i] = sum_of_all(g, m, n + i);
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

/* How a row of a block ends. */
typedef struct ending {
    int          more; /* the chain continues from c */
    int          relu;
    const float *bias;
    int          last; /* the chain ends */
} ending;

ALWAYS int has_minus_zero(const vf *s)
{
    int         any = 0;
    EACH_VECTOR any |= vf_is_any_minus_zero(s[j]);
    return any;
}

/* PANEL results of row m from column n on. Returns, if asked, whether all sums are finite; if not, c is unchanged. */
ALWAYS int walk(const product *g, int64_t m, int64_t n, int64_t k0, uint64_t live, const float *b, const ending *end, const int ask)
{
    const float *a = g->a + m * g->a_row + k0;
    float       *c = g->c + m * g->c_row + n;
    vf           s[VECTORS], test = vf_zero();
    EACH_VECTOR  s[j] = end->more ? vf_load(c + j * WIDTH) : vf_zero();
    for (; live; live &= live - 1) {
        const int64_t k = __builtin_ctzll(live);
        const vf      x = factor_of(a + k);
        const float  *row = b + k * PANEL;
        EACH_VECTOR   s[j] = vf_fma(x, vf_load(row + j * WIDTH), s[j]);
    }
    if (ask) {
        EACH_VECTOR test = vf_fma(s[j], vf_zero(), test);
        if (vf_is_any_nan(test)) return 0;
    }
    if (end->last && has_minus_zero(s)) {
        _Alignas(64) float sums[PANEL];
        EACH_VECTOR        vf_store(sums + j * WIDTH, s[j]);
        settle(g, m, n, sums);
        EACH_VECTOR s[j] = vf_load(sums + j * WIDTH);
    }
    if (end->bias) {
        EACH_VECTOR s[j] = vf_add(s[j], vf_load(end->bias + j * WIDTH));
    }
    if (end->relu) {
        EACH_VECTOR s[j] = vf_relu(s[j]);
    }
    EACH_VECTOR vf_store(c + j * WIDTH, s[j]);
    return 1;
}

/* With all terms. */
static void dense_block(const product *g, int64_t m0, int64_t rows, int64_t k0, int64_t depth, int64_t n, const float *panel,
                        const ending *end)
{
    lki_tile      t = {.count = {depth, 1, 1}, .astep = {1}, .bstep = {PANEL}, .cols = COLS, .more = end->more, .relu = end->relu};
    const int64_t pieces = lki_even_pieces(rows, ROWS);
    for (int64_t col = 0; col < PANEL; col += COLS)
        for (int64_t p = 0; p < pieces; p++) {
            const int64_t begin = lki_even_begin(rows, pieces, p), count = lki_even_begin(rows, pieces, p + 1) - begin;
            t.b = panel + col;
            t.bias = end->bias ? end->bias + col : NULL;
            for (int64_t r = 0; r < count; r++) {
                t.a[r] = g->a + (m0 + begin + r) * g->a_row + k0;
                t.c[r] = g->c + (m0 + begin + r) * g->c_row + n + col;
            }
            ISA(lki_tile)((int)count, &t);
        }
}

/* The first row uses all terms: an infinity or NaN of b makes its sums NaN or infinite. */
static void live_block(const product *g, int64_t m, int64_t rows, const uint64_t *live, int64_t k, int64_t depth, int64_t n,
                       const float *panel, const float *next, const ending *end)
{
    const uint64_t all = depth == DEPTH ? ~0ull : (1ull << depth) - 1;
    const int64_t  lines = next ? lki_ceil_div(DEPTH * PANEL / 16, rows) : 0;
    if (!walk(g, m, n, k, all, panel, end, 1)) {
        dense_block(g, m, rows, k, depth, n, panel, end);
        return;
    }
    for (int64_t r = 1; r < rows; r++) {
        for (int64_t i = 0; i < lines; i++, next += 16)
            __builtin_prefetch(next, 0, 2);
        walk(g, m + r, n, k, live[r], panel, end, 0);
    }
}

/* The memory of b for the panel after the one at k0, n, if it is one run; else NULL. */
static const float *panel_behind(const product *g, int64_t k0, int64_t depth, int64_t n, int64_t end)
{
    if (g->b_col == 1 && g->b_k == PANEL) return k0 + depth < g->K ? g->b + (k0 + depth) * PANEL + n : NULL;
    return g->b_k == 1 && g->b_col == depth && n + PANEL < end ? g->b + (n + PANEL) * depth : NULL;
}

/* b[k0 .. k0+depth][n .. n+PANEL] with rows of PANEL floats, in place or in `room`. */
static const float *panel_of(const product *g, int64_t k0, int64_t depth, int64_t n, float *room)
{
    const float *b = g->b + k0 * g->b_k + n * g->b_col;
    if (g->b_col == 1 && g->b_k == PANEL) return b;
    if (g->b_col != 1) {
        lki_transpose(b, g->b_col, PANEL, depth, room, PANEL);
        return room;
    }
    for (int64_t k = 0; k < depth; k++)
        EACH_VECTOR vf_store(room + k * PANEL + j * WIDTH, vf_load(b + k * g->b_k + j * WIDTH));
    return room;
}

/* Words of a row are computed several at a time, so that memory is read in long runs. */
static void find_live(const product *g, int64_t m, int64_t rows, int64_t k, int64_t depth, uint64_t (*live)[MOST_ROWS])
{
    for (int64_t r = 0; r < rows; r++) {
        const float *a = g->a + (m + r) * g->a_row + k;
        for (int64_t i = 0; i < depth; i += DEPTH)
            live[i / DEPTH][r] = live_word(a + i, lki_min(DEPTH, depth - i));
    }
}

static int64_t count_live(const uint64_t *live, int64_t rows)
{
    int64_t count = 0;
    for (int64_t r = 0; r < rows; r++)
        count += __builtin_popcountll(live[r]);
    return count;
}

/* Rows from m on of columns n0 .. `to`, the steps k .. k + depth. */
static void skip_block(const product *g, int64_t m, int64_t rows, int64_t n0, int64_t to, int64_t k, int64_t depth,
                       const uint64_t *live)
{
    _Alignas(64) float room[DEPTH * PANEL];
    const int          last = k + depth == g->K;
    const int          dense = count_live(live, rows) * 4 > rows * depth * 3;
    for (int64_t n = n0; n < to; n += PANEL) {
        const float *panel = panel_of(g, k, depth, n, room), *next = panel_behind(g, k, depth, n, to);
        const ending end = {k > 0, last && g->relu, last && g->bias ? g->bias + n : NULL, last};
        if (dense) dense_block(g, m, rows, k, depth, n, panel, &end);
        else live_block(g, m, rows, live, k, depth, n, panel, next, &end);
    }
}

static void skip_rows(const product *g, int64_t columns)
{
    uint64_t live[WORDS][MOST_ROWS];
    for (int64_t m = 0; m < g->M; m += MOST_ROWS)
        for (int64_t n = 0; n < columns; n += MOST_COLUMNS)
            for (int64_t k0 = 0; k0 < g->K; k0 += WORDS * DEPTH) {
                const int64_t rows = lki_min(MOST_ROWS, g->M - m), end = lki_min(g->K, k0 + WORDS * DEPTH);
                find_live(g, m, rows, k0, end - k0, live);
                for (int64_t k = k0; k < end; k += DEPTH)
                    skip_block(g, m, rows, n, lki_min(columns, n + MOST_COLUMNS), k, lki_min(DEPTH, end - k),
                               live[(k - k0) / DEPTH]);
            }
}

/* ---- short lanes ------------------------------------------------------------------------------------------------------------- */

/* For FEATURES rows of c, lane by lane: bit i: step i of the lane is live. */
typedef struct steps_of {
    uint8_t feature[FEATURES];
} steps_of;

/* The numbers of the bits of a byte, a byte each: first those that are not set, the highest first, then those that are set, the
 * lowest first. */
#define BITS(x)                                                                                                                    \
    (((x)&1) + ((x) >> 1 & 1) + ((x) >> 2 & 1) + ((x) >> 3 & 1) + ((x) >> 4 & 1) + ((x) >> 5 & 1) + ((x) >> 6 & 1) + ((x) >> 7 & 1))
#define BELOW(x, bit) BITS((x) & ((1 << (bit)) - 1))
#define PLACE(x, bit) ((uint64_t)(bit) << 8 * ((x) >> (bit)&1 ? 8 - BITS(x) + BELOW(x, bit) : 7 - BITS(x) - ((bit)-BELOW(x, bit))))
#define PLACES(x) PLACE(x, 1) + PLACE(x, 2) + PLACE(x, 3) + PLACE(x, 4) + PLACE(x, 5) + PLACE(x, 6) + PLACE(x, 7),
#define FOUR(x) PLACES((x)) PLACES((x + 1)) PLACES((x + 2)) PLACES((x + 3))
#define SIXTEEN(x) FOUR(x) FOUR(x + 4) FOUR(x + 8) FOUR(x + 12)
#define SIXTY_FOUR(x) SIXTEEN(x) SIXTEEN(x + 16) SIXTEEN(x + 32) SIXTEEN(x + 48)

static const uint64_t places[256] = {SIXTY_FOUR(0) SIXTY_FOUR(64) SIXTY_FOUR(128) SIXTY_FOUR(192)};

/* Some lanes of one block of c, all of `steps` steps. */
typedef struct short_lanes {
    const float    *a, *b; /* a[step * a_k + feature], b[step * PANEL + column] */
    int64_t         a_k, steps;
    const steps_of *s;
    const float    *top;    /* the end of a stack of open sums, each [feature][PANEL]: */
    int             merges; /* this many from there are added to this one, */
    const float    *below;  /* then this one, if there is one; */
    float          *to;     /* the sum is stored here, */
    int64_t         to_row; /* in rows of this many floats: */
    int             last;   /* in c, when it is complete */
    const product  *g;      /* of which c is a part from */
    int64_t         m, n;   /* this row and column on */
} short_lanes;

/* Returns how many steps are live. */
ALWAYS v64 find_steps(const float *a, int64_t a_k, int64_t steps, const int64_t features, steps_of *s)
{
    v64 live = v64_zero();
    for (int64_t i = 0; i < steps; i++) {
        const uint64_t here = live_word(a + i * a_k, features);
        for (int line = 0; line < FEATURES; line += 16) /* of the next block: no hardware prefetcher finds it */
            __builtin_prefetch(a + i * a_k + FEATURES + line);
        live = v64_add_where(live, here, 1 << i);
    }
    v64_store(s->feature, live);
    return v64_count(live);
}

/* The steps of TOGETHER lanes. Returns the largest number of live steps in one of them. */
static v64 find_most(const float *a, int64_t a_k, int64_t steps, int64_t features, steps_of *s)
{
    v64 most = v64_zero();
    for (int l = 0; l < TOGETHER; l++, a += steps * a_k)
        most = v64_max(most, features == FEATURES ? find_steps(a, a_k, steps, FEATURES, &s[l])
                                                  : find_steps(a, a_k, steps, features, &s[l]));
    return most;
}

/* PANEL results of rows of c for which none of TOGETHER lanes has more than n live steps. Each executes n steps, so that the
 * processor can predict the length of every loop: first some with factor zero, which do not change +0, then the live ones. */
ALWAYS void sum_together(const short_lanes *lanes, uint64_t which, const int n)
{
    const short_lanes g = *lanes; /* in registers */
    for (; which; which &= which - 1) {
        const int64_t f = __builtin_ctzll(which);
        const float  *top = g.top + f * PANEL;
        float        *to = g.to + f * g.to_row;
        vf            x[TOGETHER][VECTORS];
        uint64_t      place[TOGETHER];
        EACH_LANE
        {
            place[l] = n ? places[g.s[l].feature[f]] >> 8 * (8 - n) : 0;
            EACH_VECTOR x[l][j] = vf_zero();
        }
        _Pragma("GCC unroll 8") for (int i = 0; i < n; i++) EACH_LANE
        {
            const int64_t step = (int64_t)(place[l] & 0xff) + l * g.steps;
            const vf      factor = factor_of(&g.a[step * g.a_k + f]);
            EACH_VECTOR   x[l][j] = vf_fma(factor, vf_load(g.b + step * PANEL + j * WIDTH), x[l][j]);
            place[l] >>= 8;
        }
        _Pragma("GCC unroll 8") for (int apart = 1; apart < TOGETHER; apart *= 2)
        {
            _Pragma("GCC unroll 8") for (int l = 0; l < TOGETHER; l += 2 * apart)
            {
                EACH_VECTOR x[l][j] = vf_add(x[l][j], x[l + apart][j]);
            }
        }
        for (int i = 0; i < g.merges; i++) {
            top -= FEATURES * PANEL;
            EACH_VECTOR x[0][j] = vf_add(vf_load(top + j * WIDTH), x[0][j]);
        }
        if (g.below) {
            EACH_VECTOR x[0][j] = vf_add(vf_load(g.below + f * PANEL + j * WIDTH), x[0][j]);
        }
        EACH_VECTOR vf_store(to + j * WIDTH, x[0][j]);
        if (g.last && has_minus_zero(x[0])) settle(g.g, g.m + f, g.n, to);
    }
}

/* Rows of c in the order of their number of steps. */
static void sum_sorted(const short_lanes *g, int64_t features, v64 most)
{
    const uint64_t all = features == 64 ? ~0ull : (1ull << features) - 1;
    sum_together(g, v64_equal(most, 0) & all, 0);
    sum_together(g, v64_equal(most, 1), 1);
    sum_together(g, v64_equal(most, 2), 2);
    sum_together(g, v64_equal(most, 3), 3);
    sum_together(g, v64_equal(most, 4), 4);
    sum_together(g, v64_equal(most, 5), 5);
    sum_together(g, v64_equal(most, 6), 6);
    sum_together(g, v64_equal(most, 7), 7);
    sum_together(g, v64_equal(most, 8), 8);
}

/* The same block with all terms. */
static void sum_all(const product *g, int64_t m, int64_t features, int64_t n, const float *b)
{
    const int64_t pieces = lki_even_pieces(features, rows_for(COLS));
    lki_tile      t = {.count = {g->K, 1, 1},
                       .astep = {g->a_k},
                       .bstep = {PANEL},
                       .cols = COLS,
                       .lanes = g->lanes->count,
                       .bound = g->lanes->bound};
    for (int64_t col = 0; col < PANEL; col += COLS)
        for (int64_t p = 0; p < pieces; p++) {
            const int64_t begin = lki_even_begin(features, pieces, p), rows = lki_even_begin(features, pieces, p + 1) - begin;
            t.a[0] = g->a + m + begin;
            t.b = b + col;
            for (int64_t r = 0; r < rows; r++)
                t.c[r] = g->c + (m + begin + r) * g->c_row + n + col;
            ISA(lki_tile_lanes)((int)rows, &t);
        }
}

/* All lanes of a block of c, with all terms if many are live in the first of them. If rows of c are close together, the lowest
 * level of the stack is c itself, which needs less of L1. */
static void sum_block(const product *g, int64_t m, int64_t features, int64_t n, const float *b, int64_t steps, float *stack)
{
    enum { BLOCK = FEATURES * PANEL };
    float      *c = g->c + m * g->c_row + n, *lowest = g->c_row == PANEL ? c : stack;
    short_lanes l = {.a_k = g->a_k, .steps = steps, .g = g, .m = m, .n = n};
    for (int lane = 0; lane < g->lanes->count; lane += TOGETHER) {
        const unsigned group = (unsigned)(lane / TOGETHER);
        const int      open = __builtin_popcount(group), ends = __builtin_ctz(~group), place = open - ends;
        float         *at = place ? stack + place * BLOCK : lowest;
        steps_of       s[TOGETHER];
        v64            most;
        l.a = g->a + (g->lanes->bound[0] + lane * steps) * g->a_k + m;
        l.b = b + (g->lanes->bound[0] + lane * steps) * PANEL;
        l.s = s;
        l.top = stack + open * BLOCK;
        l.below = ends ? at : NULL;
        l.merges = ends ? ends - 1 : 0;
        l.last = lane + TOGETHER == g->lanes->count;
        l.to = l.last ? c : at;
        l.to_row = l.last ? g->c_row : PANEL;
        most = find_most(l.a, l.a_k, steps, features, s);
        if (!lane && v64_sum(most) * 16 > LANES_SHARE * steps * features) {
            sum_all(g, m, features, n, b);
            return;
        }
        sum_sorted(&l, features, most);
    }
}

/* The number of steps of every lane; 0: lanes differ, or it does not fit in a byte. */
static int64_t short_steps(const lki_lanes *lanes)
{
    const int64_t steps = lanes->bound[1] - lanes->bound[0];
    for (int lane = 1; lane < lanes->count; lane++)
        if (lanes->bound[lane + 1] - lanes->bound[lane] != steps) return 0;
    return steps <= STEPS && lanes->count % TOGETHER == 0 ? steps : 0;
}

static int is_finite(const product *g, int64_t columns)
{
    if (g->b_k == columns) return all_finite(g->b, g->K * columns);
    for (int64_t k = 0; k < g->K; k++)
        if (!all_finite(g->b + k * g->b_k, columns)) return 0;
    return 1;
}

enum { LOOKED_AT = 4 }; /* one block in this many */

/* How many steps of a lane are summed, on average over some of the blocks, in sixteenths. */
static int64_t steps_taken(const product *g, int64_t steps)
{
    int64_t taken = 0, looked = 0;
    for (int64_t m = 0; m + FEATURES <= g->M; m += LOOKED_AT * FEATURES)
        for (int lane = 0; lane < g->lanes->count; lane += TOGETHER, looked += FEATURES) {
            const float *a = g->a + (g->lanes->bound[0] + lane * steps) * g->a_k + m;
            steps_of     s[TOGETHER];
            taken += v64_sum(find_most(a, g->a_k, steps, FEATURES, s));
        }
    return looked ? taken * 16 / looked : 16 * STEPS;
}

static int64_t panels_at_once(int64_t N, int64_t K)
{
    return lki_max(1, lki_min(N / PANEL, PACKED_FLOATS / (PANEL * lki_max(1, K))));
}

static void skip_lanes(const product *g, int64_t columns)
{
    const int64_t group = panels_at_once(columns, g->K) * PANEL, in_place = g->b_k == PANEL, steps = short_steps(g->lanes);
    float        *stack = g->scratch, *room = stack + LKI_LANE_DEPTH * FEATURES * PANEL;
    for (int64_t n0 = 0; n0 < columns; n0 += group) {
        const int64_t end = lki_min(columns, n0 + group);
        for (int64_t n = n0; n < end && !in_place; n += PANEL)
            panel_of(g, 0, g->K, n, room + (n - n0) * g->K);
        for (int64_t m = 0; m < g->M; m += FEATURES)
            for (int64_t n = n0; n < end; n += PANEL)
                sum_block(g, m, lki_min(FEATURES, g->M - m), n, in_place ? g->b : room + (n - n0) * g->K, steps, stack);
    }
}

/* ---- both -------------------------------------------------------------------------------------------------------------------- */

enum {
    ROWS_SHARE = 700 /* of 1024 */,
    WIDE_SHARE = 7 /* sixteenths of the steps: above, tiles that share packed rows of a between panels are faster */,
    LANES_STEPS = 2048 /* there is no space for more */
};

int64_t ISA(lki_skip)(const lki_product *g)
{
    const int64_t columns = g->N / PANEL * PANEL, steps = g->lanes ? short_steps(g->lanes) : 0;
    if (!columns || g->M < LEAST_ROWS) return 0;
    if (!g->lanes) {
        if (g->a_k != 1 || live_share(g->a, g->a_row, g->M, g->K) > ROWS_SHARE) return 0;
        skip_rows(g, columns);
        return columns;
    }
    if (!steps || g->K > LANES_STEPS || g->a_row != 1 || g->b_col != 1 || g->bias || g->relu) return 0;
    if ((columns > PANEL && steps_taken(g, steps) > WIDE_SHARE * steps) || !is_finite(g, columns)) return 0;
    skip_lanes(g, columns);
    return columns;
}

int64_t ISA(lki_skip_scratch)(int64_t N, int64_t K)
{
    if (N < PANEL || K > LANES_STEPS) return 0;
    return LKI_LANE_DEPTH * FEATURES * PANEL + panels_at_once(N, K) * PANEL * K;
}
