/* Matrix product with tiles (products.h).
 *
 * Order of summation: each element is one chain over ascending k. Blocks of k continue the chain through c, they are never summed
 * separately. With lanes, one chain per lane and the tree over lanes, per tile in L1 or, if lanes are long, per block of c in L2.
 *
 * If many elements of a are zero, skip.c leaves them out. Otherwise there are several ways to compute the same sums, chosen by
 * shapes alone:
 *
 *     blocked   blocks of BLOCK_K x BLOCK_N of b, packed into panels of COLS columns if that is faster, times blocks of BLOCK_M
 *               rows of a
 *     lanes     a tile at a time over all of k: panels of b, and a packed so that one pointer walks its rows
 *     lanes, blocked   more than LANE_STEPS steps: each lane is a blocked product into a stack of blocks
 *     swapped   b transposed and few rows: the rows of b become the rows of the tile and a, transposed, its columns, so that the
 *               small matrix is transposed instead of the large one; results are transposed back while they are stored */
#include "kernel/cpu/products.h"
#include "kernel/cpu/simd.h"
#include "kernel/cpu/transpose.h"
#include "kernel/matrix.h"
#include <assert.h>

enum {
    BLOCK_K = 512,
    LINE = 16, /* floats of a line of memory */
    BLOCK_N = 1024,
    BLOCK_M = 8 * ROWS,
    PACKED_ROW = BLOCK_K + 16, /* a row of packed a; the gap keeps rows out of each other's cache sets */
    LANE_ROWS = 32,            /* lanes: rows of c that use the same packed block of a */
    LANE_FLOATS = 128 * 1024,  /* and floats of b packed at a time */
    LANE_STEPS = 2048,         /* with larger k, blocks of c instead of tiles */
    LANE_BLOCK_M = 16 * ROWS,
    LANE_BLOCK_N = 256,
    LANE_BLOCK = LANE_BLOCK_M * LANE_BLOCK_N,
    BLOCKED_FLOATS = (BLOCK_M + 1) * PACKED_ROW + BLOCK_K * BLOCK_N, /* the most scratch of `blocked` */
    SWAP_ROWS = 64,                                                  /* swapped: at most this many rows of a, */
    SWAP_FLOATS = 32 * 1024,                                         /* and this many floats of it after transposing */
    SKIP_PART = 256,                                                 /* rows of c for which skipping zeros is decided together */
    SWAP_COLS = 16,                                                  /* columns of c finished together: one cache line */
};

typedef lki_product product;

/* ---- packing ----------------------------------------------------------------------------------------------------------------- */

/* b[k0 .. k0+kn][n0 .. n0+cols] as rows of COLS floats; columns after `cols` are undefined. */
static void pack_panel(const product *g, int64_t k0, int64_t kn, int64_t n0, int64_t cols, float *panel)
{
    const float *b = g->b + k0 * g->b_k + n0 * g->b_col;
    if (g->b_col != 1) {
        lki_transpose(b, g->b_col, cols, kn, panel, COLS);
        return;
    }
    const vm first = vm_first(cols), second = vm_first(cols > WIDTH ? cols - WIDTH : 0);
    for (int64_t k = 0; k < kn; k++) {
        vf_store(panel + k * COLS, vf_load_some(b + k * g->b_k, first));
        vf_store(panel + k * COLS + WIDTH, vf_load_some(b + k * g->b_k + WIDTH, second));
    }
}

/* A block of c, the steps of k that are added to it now, and how many tiles its rows are divided into. */
typedef struct block {
    int64_t m, mn, n, nn, k, kn, pieces;
} block;

/* Where the factors of a block are, packed or in place. */
typedef struct rows_of_a {
    const float *at;
    int64_t      row, piece, k; /* distance of rows of a piece, of pieces (0: a piece is its rows), of k */
} rows_of_a;

typedef struct panels_of_b {
    const float *at;
    int64_t      row, panel; /* distance of k, of panels */
} panels_of_b;

static rows_of_a pack_rows(const product *g, const block *at, float *room)
{
    const float *a = g->a + at->m * g->a_row + at->k * g->a_k;
    if (g->a_k == 1) {
        for (int64_t m = 0; m < at->mn; m++)
            memcpy(room + m * PACKED_ROW, a + m * g->a_row, (size_t)at->kn * sizeof(float));
        return (rows_of_a){room, PACKED_ROW, 0, 1};
    }
    for (int64_t p = 0; p < at->pieces; p++) {
        const int64_t begin = lki_even_begin(at->mn, at->pieces, p), rows = lki_even_begin(at->mn, at->pieces, p + 1) - begin;
        const __m256i some = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)rows), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        float        *to = room + p * PACKED_ROW * ROWS;
        for (int64_t k = 0; k < at->kn; k++) /* eight floats each time; the next row overwrites the excess */
            _mm256_storeu_ps(to + k * ROWS, _mm256_maskload_ps(a + begin + k * g->a_k, some));
    }
    return (rows_of_a){room, 1, PACKED_ROW * ROWS, ROWS};
}

static panels_of_b pack_panels(const product *g, const block *at, float *room)
{
    for (int64_t n = 0; n < at->nn; n += COLS)
        pack_panel(g, at->k, at->kn, at->n + n, lki_min(COLS, at->nn - n), room + n * at->kn);
    return (panels_of_b){room, COLS, COLS * at->kn};
}

/* ---- blocked ----------------------------------------------------------------------------------------------------------------- */

/* True if b is narrow with adjacent rows. Then tiles prefetch the whole next block; otherwise the first tile of a block would wait
 * for all of it. */
static int asks_for_block(const product *g, const block *at, panels_of_b b)
{
    return b.row == g->N && g->N <= 4 * COLS && at->k + at->kn < g->K && at->m + at->mn == g->M;
}

/* What tile p from column n on prefetches, a little with every step. Rows of b that is neither packed nor narrow are far apart,
 * which no hardware prefetcher follows: each of the first tiles of a panel prefetches a line of all rows of the next one. */
static void ask_ahead(lki_tile *t, const product *g, const block *at, panels_of_b b, int64_t n, int64_t p)
{
    t->ahead = NULL;
    if (b.panel != COLS) return; /* packed */
    if (asks_for_block(g, at, b)) {
        t->ahead_step = lki_max(1, b.row / (at->pieces * lki_ceil_div(at->nn, COLS)));
        t->ahead = b.at + at->kn * (b.row + (n / COLS * at->pieces + p) * t->ahead_step);
    } else if (n + COLS < at->nn && p < COLS / LINE) {
        t->ahead_step = b.row;
        t->ahead = b.at + n + COLS + p * LINE;
    }
}

static void block_of_tiles(const product *g, const block *at, rows_of_a a, panels_of_b b)
{
    _Alignas(64) float panel[BLOCK_K / 2 * COLS];
    const int          last = at->k + at->kn == g->K;
    lki_tile           t = {.count = {at->kn, 1, 1}, .astep = {a.k}, .bstep = {b.row}, .more = at->k > 0, .relu = last && g->relu};
    for (int64_t n = 0; n < at->nn; n += COLS) {
        t.b = b.at + n / COLS * b.panel;
        t.cols = (int)lki_min(COLS, at->nn - n);
        if (b.row != COLS && at->pieces > 3 && at->nn > 4 * COLS) {
            pack_panel(g, at->k, at->kn, at->n + n, t.cols, panel);
            t.b = panel;
            t.bstep[0] = COLS;
        }
        t.bias = last && g->bias ? g->bias + at->n + n : NULL;
        for (int64_t p = 0; p < at->pieces; p++) {
            const int64_t begin = lki_even_begin(at->mn, at->pieces, p), rows = lki_even_begin(at->mn, at->pieces, p + 1) - begin;
            const float  *row = a.at + (a.piece ? p * a.piece : begin * a.row);
            for (int64_t r = 0; r < rows; r++) {
                t.a[r] = row + r * a.row;
                t.c[r] = g->c + (at->m + begin + r) * g->c_row + at->n + n;
            }
            if (p + 1 < at->pieces) /* the next tile cannot begin before its c is loaded */
                for (int64_t r = 0; r < rows; r++) {
                    __builtin_prefetch(t.c[r] + rows * g->c_row, 1);
                    __builtin_prefetch(t.c[r] + rows * g->c_row + t.cols - 1, 1);
                }
            ask_ahead(&t, g, at, b, n, p);
            ISA(lki_tile)((int)rows, &t);
        }
    }
}

/* The number of rows of a from which on packing b is faster: with narrow tiles b is read more often, and a row of it fills fewer
 * lines of a page. */
enum { PACK_ROWS = HAS_MANY_REGISTERS ? 8 * ROWS : 2 * ROWS };

static int packs_b(int64_t M, int64_t N, int64_t b_col) { return b_col != 1 || (N > 2 * COLS && M > PACK_ROWS); }

static void product_blocked(const product *g)
{
    const int     pack_b = packs_b(g->M, g->N, g->b_col), pack_a = g->N > 4 * COLS;
    const int64_t block_k = pack_b || g->N <= 4 * COLS ? BLOCK_K : BLOCK_K / 2; /* in place, few enough rows of b for the TLB */
    float        *room_b = g->scratch + (BLOCK_M + 1) * PACKED_ROW;
    block         at;

    for (at.n = 0; at.n < g->N; at.n += BLOCK_N)
        for (at.k = 0; at.k == 0 || at.k < g->K; at.k += block_k) {
            at.nn = lki_min(BLOCK_N, g->N - at.n);
            at.kn = lki_min(block_k, g->K - at.k);
            const panels_of_b b = pack_b ? pack_panels(g, &at, room_b) : (panels_of_b){g->b + at.k * g->b_k + at.n, g->b_k, COLS};
            for (at.m = 0; at.m < g->M; at.m += BLOCK_M) {
                at.mn = lki_min(BLOCK_M, g->M - at.m);
                at.pieces = lki_even_pieces(at.mn, rows_for(g->N));
                const rows_of_a in_place = {g->a + at.m * g->a_row + at.k * g->a_k, g->a_row, 0, g->a_k};
                block_of_tiles(g, &at, pack_a ? pack_rows(g, &at, g->scratch) : in_place, b);
            }
        }
}

/* ---- lanes ------------------------------------------------------------------------------------------------------------------- */

static int packs_lanes_b(int64_t M, int64_t N, int64_t b_col) { return b_col != 1 || (N > 4 * COLS && M > 2 * ROWS); }

/* Panels of b packed at a time: as many as fit in the second-level cache, so that a is packed once for all of them. */
static int64_t lanes_panels(int64_t N, int64_t K)
{
    return lki_max(1, lki_min(lki_ceil_div(N, COLS), LANE_FLOATS / (COLS * lki_max(1, K))));
}

/* Rows m0 .. m0+mn of a, k after k, LANE_ROWS floats each. */
static void pack_columns(const product *g, int64_t m0, int64_t mn, float *room)
{
    if (g->a_k == 1) {
        lki_transpose(g->a + m0 * g->a_row, g->a_row, mn, g->K, room, LANE_ROWS);
        return;
    }
    for (int64_t k = 0; k < g->K; k++)
        for (int64_t m = 0; m < mn; m += WIDTH)
            vf_store(room + k * LANE_ROWS + m, vf_load_some(g->a + k * g->a_k + m0 + m, vm_first(mn - m)));
}

static void lanes_tiles(const product *g, lki_tile *t, const float *a, int64_t m0, int64_t mn, int64_t n)
{
    const int64_t pieces = lki_even_pieces(mn, rows_for(t->cols));
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t begin = lki_even_begin(mn, pieces, p), rows = lki_even_begin(mn, pieces, p + 1) - begin;
        t->a[0] = a + begin;
        for (int64_t r = 0; r < rows; r++)
            t->c[r] = g->c + (m0 + begin + r) * g->c_row + n;
        ISA(lki_tile_lanes)((int)rows, t);
    }
}

/* A column of a is read once per panel of b. It is read in place for two panels, if neighbours in a column are adjacent in
 * memory. */
static int packs_lanes_a(const product *g) { return g->a_row != 1 || g->N <= COLS || g->N > 2 * COLS; }

static void product_lanes(const product *g)
{
    const int     pack_b = packs_lanes_b(g->M, g->N, g->b_col), pack_a = packs_lanes_a(g);
    const int64_t group = pack_b ? lanes_panels(g->N, g->K) * COLS : g->N;
    float        *room_b = g->scratch + LANE_ROWS * g->K;
    lki_tile      t = {.count = {g->K, 1, 1},
                       .astep = {pack_a ? LANE_ROWS : g->a_k},
                       .bstep = {pack_b ? COLS : g->b_k},
                       .relu = g->relu,
                       .lanes = g->lanes->count,
                       .bound = g->lanes->bound};
    for (int64_t n0 = 0; n0 < g->N; n0 += group) {
        const int64_t end = lki_min(g->N, n0 + group);
        for (int64_t n = n0; pack_b && n < end; n += COLS)
            pack_panel(g, 0, g->K, n, lki_min(COLS, end - n), room_b + (n - n0) * g->K);
        for (int64_t m = 0; m < g->M; m += LANE_ROWS) {
            const int64_t mn = lki_min(LANE_ROWS, g->M - m);
            if (pack_a) pack_columns(g, m, mn, g->scratch);
            for (int64_t n = n0; n < end; n += COLS) {
                t.cols = (int)lki_min(COLS, end - n);
                t.b = pack_b ? room_b + (n - n0) * g->K : g->b + n;
                t.bias = g->bias ? g->bias + n : NULL;
                lanes_tiles(g, &t, pack_a ? g->scratch : g->a + m, m, mn, n);
            }
        }
    }
}

/* Many steps per lane: blocks of c; each lane is a separate product, written to a stack of blocks that the tree adds up. */
static void add_block(float *to, const float *from, int64_t floats) /* including what fills the last vector */
{
    for (int64_t i = 0; i < floats; i += WIDTH)
        vf_store(to + i, vf_add(vf_load(to + i), vf_load(from + i)));
}

static void store_block(const product *g, const float *sum, int64_t m0, int64_t mn, int64_t n0, int64_t nn)
{
    for (int64_t m = 0; m < mn; m++)
        for (int64_t n = 0; n < nn; n++) {
            float x = sum[m * nn + n];
            if (g->bias) x = x + g->bias[n0 + n];
            if (g->relu) x = x < 0 ? 0 : x;
            g->c[(m0 + m) * g->c_row + n0 + n] = x;
        }
}

static void lanes_block(const product *g, int64_t m0, int64_t mn, int64_t n0, int64_t nn)
{
    float *top = g->scratch + BLOCKED_FLOATS;
    for (int lane = 0; lane < g->lanes->count; lane++, top += LANE_BLOCK) {
        const int64_t from = g->lanes->bound[lane];
        product       one = *g;
        one.M = mn;
        one.N = nn;
        one.K = g->lanes->bound[lane + 1] - from;
        one.a += m0 * g->a_row + from * g->a_k;
        one.b += n0 * g->b_col + from * g->b_k;
        one.c = top;
        one.c_row = nn;
        one.bias = NULL;
        one.relu = 0;
        product_blocked(&one);
        for (int below = lane; below & 1; below >>= 1, top -= LANE_BLOCK)
            add_block(top - LANE_BLOCK, top, mn * nn);
    }
    store_block(g, g->scratch + BLOCKED_FLOATS, m0, mn, n0, nn);
}

static void product_lanes_blocked(const product *g)
{
    for (int64_t n = 0; n < g->N; n += LANE_BLOCK_N)
        for (int64_t m = 0; m < g->M; m += LANE_BLOCK_M)
            lanes_block(g, m, lki_min(LANE_BLOCK_M, g->M - m), n, lki_min(LANE_BLOCK_N, g->N - n));
}

/* ---- swapped ----------------------------------------------------------------------------------------------------------------- */

static int swaps(int64_t M, int64_t N, int64_t K, int64_t b_col)
{
    return b_col != 1 && M <= SWAP_ROWS && N >= 2 * SWAP_COLS && K * lki_round_up(M, COLS) <= SWAP_FLOATS &&
           M * (K + N) <= 2 * N * K;
}

/* c[m][n0 ..] = end(turned[.. ][m]) for the rows m of one panel. */
static void store_turned(const product *g, const float *turned, int64_t m0, int64_t mn, int64_t n0, int64_t nn)
{
    _Alignas(64) float c[COLS * SWAP_COLS];
    if (!g->bias && !g->relu) {
        lki_transpose(turned, COLS, nn, mn, g->c + m0 * g->c_row + n0, g->c_row);
        return;
    }
    lki_transpose(turned, COLS, nn, mn, c, SWAP_COLS);
    for (int64_t m = 0; m < mn; m++)
        for (int64_t n = 0; n < nn; n += WIDTH) {
            const vm some = vm_first(nn - n);
            vf       x = vf_load(c + m * SWAP_COLS + n);
            if (g->bias) x = vf_add(x, vf_load_some(g->bias + n0 + n, some));
            if (g->relu) x = vf_relu(x);
            if (nn - n >= WIDTH) vf_store(g->c + (m0 + m) * g->c_row + n0 + n, x);
            else vf_store_some(g->c + (m0 + m) * g->c_row + n0 + n, some, x);
        }
}

static void product_swapped(const product *g)
{
    _Alignas(64) float turned[SWAP_COLS * COLS];
    lki_tile           t = {.count = {g->K, 1, 1}, .astep = {1}, .bstep = {COLS}};

    for (int64_t m = 0; m < g->M; m += COLS) {
        const product turn = {.b = g->a, .b_k = g->a_k, .b_col = g->a_row};
        pack_panel(&turn, 0, g->K, m, lki_min(COLS, g->M - m), g->scratch + m * g->K);
    }
    for (int64_t n = 0; n < g->N; n += SWAP_COLS) {
        const int64_t nn = lki_min(SWAP_COLS, g->N - n), pieces = lki_even_pieces(nn, rows_for(g->M));
        for (int64_t m = 0; m < g->M; m += COLS) {
            t.cols = (int)lki_min(COLS, g->M - m);
            t.b = g->scratch + m * g->K;
            for (int64_t p = 0; p < pieces; p++) {
                const int64_t begin = lki_even_begin(nn, pieces, p), rows = lki_even_begin(nn, pieces, p + 1) - begin;
                for (int64_t r = 0; r < rows; r++) {
                    t.a[r] = g->b + (n + begin + r) * g->b_col;
                    t.c[r] = turned + (begin + r) * COLS;
                }
                ISA(lki_tile)((int)rows, &t);
            }
            store_turned(g, turned, m, t.cols, n, nn);
        }
    }
}

/* ---- the slot ---------------------------------------------------------------------------------------------------------------- */

typedef struct sizes {
    lk_shape c; /* as it is multiplied */
    int64_t  M, N, K, a_row, a_k, b_k, b_col, c_row;
} sizes;

static sizes sizes_of(const lki_args *g)
{
    const lk_shape *a = g->src[0].shape, *b = g->src[1].shape, *c = g->dst[0].shape;
    const int       ta = g->attr->matmul.ta, tb = g->attr->matmul.tb, heads = g->attr->matmul.heads;
    const lk_shape  x = lki_by_heads(a, heads & 1);
    const int64_t   row_a = lki_matrix_row(a, heads & 1), row_b = lki_matrix_row(b, heads & 2);
    sizes           s = {.c = lki_by_heads(c, heads & 4), .c_row = lki_matrix_row(c, heads & 4)};
    s.M = s.c.dim[c->rank - 2];
    s.N = s.c.dim[c->rank - 1];
    s.K = x.dim[x.rank - (ta ? 2 : 1)];
    s.a_row = ta ? 1 : row_a;
    s.a_k = ta ? row_a : 1;
    s.b_k = tb ? 1 : row_b;
    s.b_col = tb ? row_b : 1;
    return s;
}

static void run_all(const product *g)
{
    assert(!g->lanes || g->lanes->count <= LKI_MAX_LANES);
    if (g->lanes && g->K > LANE_STEPS) product_lanes_blocked(g);
    else if (g->lanes) product_lanes(g);
    else if (swaps(g->M, g->N, g->K, g->b_col)) product_swapped(g);
    else product_blocked(g);
}

/* Without the zeros of a, if that is faster. With lanes, rows of c are columns of a, some of them mostly zero: then in parts. */
static void run(const product *g)
{
    const int64_t part = g->lanes && !packs_lanes_b(g->M, g->N, g->b_col) ? SKIP_PART : g->M;
    for (int64_t m = 0; m < g->M; m += part) {
        product rest = *g;
        rest.M = lki_min(part, g->M - m);
        rest.a += m * rest.a_row;
        rest.c += m * rest.c_row;
        const int64_t done = ISA(lki_skip)(&rest);
        rest.N -= done;
        rest.b += done * rest.b_col;
        rest.c += done;
        if (rest.bias) rest.bias += done;
        if (rest.N) run_all(&rest);
    }
}

/* Columns of the tiles: of c, or of the transposed c. */
static int64_t used_columns(const sizes *s, int64_t N, int64_t rows, const lki_lanes *lanes)
{
    return !lanes && swaps(rows, N, s->K, s->b_col) ? rows : N;
}

/* Enough for any range of rows of the result. */
size_t ISA(lki_f32_matmul_scratch)(const lki_args *g)
{
    const sizes   s = sizes_of(g);
    const int64_t kn = lki_min(s.K, BLOCK_K), nn = lki_min(lki_round_up(s.N, COLS), BLOCK_N);
    int64_t       floats = (BLOCK_M + 1) * PACKED_ROW;
    if (packs_b(s.M, s.N, s.b_col)) floats += kn * nn;
    if (s.K > LANE_STEPS) floats = lki_max(floats, BLOCKED_FLOATS + LKI_LANE_DEPTH * LANE_BLOCK);
    else floats = lki_max(floats, s.K * (LANE_ROWS + (packs_lanes_b(s.M, s.N, s.b_col) ? lanes_panels(s.N, s.K) * COLS : 0)));
    if (s.b_col != 1) floats = lki_max(floats, SWAP_FLOATS);
    floats = lki_max(floats, ISA(lki_skip_scratch)(s.N, s.K));
    return (size_t)floats * sizeof(float);
}

void ISA(lki_f32_matmul)(const lki_args *g)
{
    const sizes     s = sizes_of(g);
    const int       heads = g->attr->matmul.heads;
    int64_t         batch = 0;
    lki_matrix_rows rows;
    if (g->lo >= g->hi) return;
    const int64_t from = g->columns[0], N = (g->columns[1] ? g->columns[1] : s.N) - from;
    if (IS_NARROW(used_columns(&s, N, (g->hi - g->lo) / s.N, g->lanes))) {
        lki_f32_matmul_avx2(g);
        return;
    }
    while (lki_matrix_next(&s.c, heads & 4, g->lo / s.N, g->hi / s.N, &batch, &rows)) {
        const product p = {
            .M = rows.count,
            .N = N,
            .K = s.K,
            .a = (const float *)g->src[0].data + lki_matrix_at(g->src[0].shape, heads & 1, &s.c, rows.batch) + rows.m * s.a_row,
            .b = (const float *)g->src[1].data + lki_matrix_at(g->src[1].shape, heads & 2, &s.c, rows.batch) + from * s.b_col,
            .a_row = s.a_row,
            .a_k = s.a_k,
            .b_k = s.b_k,
            .b_col = s.b_col,
            .c = (float *)g->dst[0].data + rows.at + from,
            .c_row = s.c_row,
            .bias = g->attr->epilogue.bias ? (const float *)g->src[2].data + from : NULL,
            .relu = g->attr->epilogue.relu,
            .lanes = g->lanes,
            .scratch = g->scratch,
        };
        run(&p);
    }
}

void ISA(lki_register_matmul)(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_matmul, LK_F32, ISA(lki_f32_matmul), ISA(lki_f32_matmul_scratch), VARIANT);
}
