/* Matrix products: c[m, n] = sum over k of a[m, k] * b[k, n], then bias and relu, or a mask, a factor and an addend. Leading axes
 * broadcast; operands may be transposed, or by heads (matrix.h).
 *
 * Order of sums
 *
 *     f64     as in kernel.h: one CHAIN per element, or with lanes one per lane, then the tree.
 *     thin    f32 with one thin right matrix (is_thin()), without lanes; and f32 with lanes of at most SHORT rows: as f64 (thin.h).
 *             The longest lane of the whole batch decides for all.
 *     tiles   other f32 (tile_block.h). Without lanes: parts of PART products, or of half as many (part_of()), and runs of RUN
 *             products; parts are added from left to right, so are runs. With lanes: each lane in parts of ROWS products, added
 *             from left to right; lanes up the tree. The rules depend on K, N and the lanes only: the number of rows of a product
 *             depends on how many replicas share a batch, and must not change the bits.
 *
 * If a result has too few tiles to keep a card busy, pieces of the sum are computed by several blocks and added up by a second
 * kernel; else one block computes all of them. f64 is for checks, not for speed: a thread per element. */
#include "kernel/gpu/group/group_rows.h"
#include "kernel/gpu/product/thin.h"
#include "kernel/matrix.h"

namespace
{

using namespace lki_gpu;

enum { PART = 256, RUN = 1024, ROWS = 512, SHORT = 32, NARROW = 64, LONG = 2048 };

/* ---- shapes ---- */

/* Offsets of the matrices of a shape in memory, by entry of the leading axes of `out` (as multiplied). The same rule as
 * lki_matrix_at(). */
entry_places entry_places_of(const lk_shape *s, int heads, const lk_shape *out)
{
    const lk_shape t = lki_by_heads(s, heads);
    entry_places   p = {};
    int64_t        size = heads ? t.dim[3] : t.dim[t.rank - 1] * t.dim[t.rank - 2];
    p.rank = out->rank - 2;
    for (int d = 0; d < p.rank; d++)
        p.by[d] = divisor_of(out->dim[d]);
    for (int d = out->rank - 3, e = t.rank - 3; e >= 0; d--, e--) {
        p.step[d] = t.dim[e] != 1 ? size : 0;
        size *= heads && e == 1 ? t.dim[1] * t.dim[2] : t.dim[e];
    }
    return p;
}

struct product {
    int64_t      M, N, K, entries; /* of the leading axes */
    int64_t      a_step, b_step, c_step;
    entry_places a, b, c;
    int          ta, tb;
};

bool is_one_matrix(const lk_shape *s)
{
    for (int d = 0; d < s->rank - 2; d++)
        if (s->dim[d] != 1) return false;
    return true;
}

product product_of(const lki_args *g)
{
    const lk_shape *sa = g->src[0].shape, *sb = g->src[1].shape, *sc = g->dst[0].shape;
    const int       heads = g->attr->matmul.heads;
    const lk_shape  a = lki_by_heads(sa, heads & 1), c = lki_by_heads(sc, heads & 4);
    product         p = {};
    p.ta = g->attr->matmul.ta;
    p.tb = g->attr->matmul.tb;
    p.M = c.dim[c.rank - 2];
    p.N = c.dim[c.rank - 1];
    p.K = a.dim[a.rank - (p.ta ? 2 : 1)];
    p.entries = 1;
    for (int d = 0; d < c.rank - 2; d++)
        p.entries *= c.dim[d];
    p.a_step = lki_matrix_row(sa, heads & 1);
    p.b_step = lki_matrix_row(sb, heads & 2);
    p.c_step = lki_matrix_row(sc, heads & 4);
    p.a = entry_places_of(sa, heads & 1, &c);
    p.b = entry_places_of(sb, heads & 2, &c);
    p.c = entry_places_of(sc, heads & 4, &c);
    if (!p.ta && !heads && is_one_matrix(sb) && lki_gpu::size_of(sa) == p.entries * p.M * p.K) { /* many rows times one matrix */
        p.M *= p.entries;
        p.entries = 1;
        p.a.rank = p.b.rank = p.c.rank = 0;
    }
    return p;
}

/* ---- how the sum is divided: from shapes and lanes alone ---- */

enum how {
    ONE_BLOCK,
    SPLIT,
    TREE,
    DIRECT
}; /* a block has all pieces of a tile; one piece each; all lanes of a tile; or no tiles */

struct plan {
    how    form;
    int    tile;
    cuts   c;
    double time; /* in ns, roughly */
};

enum {
    PER_NS = 250,
    BYTES_PER_NS = 3000,
    LAUNCH = 2500,
    SHORT_SUMS = 128
}; /* of a multiprocessor: products; of a card: bytes; ns of one more kernel; steps */

plan by_tiles(how form, const product &p, const cuts &c)
{
    const int64_t pieces = c.count(), apart = form == SPLIT ? pieces : 1;
    plan          s = {form, tile_for(p.M, p.N, p.entries * apart), c, 0};
    if (p.K <= SHORT_SUMS && s.tile == TILE_LARGE)
        s.tile = TILE_MEDIUM; /* most of the time is for writing results, and these are written directly */
    s.time = tile_time(s.tile, p.M, p.N, p.entries * apart) * (double)p.K / (double)lki_max(apart, 1) / PER_NS;
    if (form == SPLIT) s.time += LAUNCH + (double)(pieces * p.M * p.N * p.entries * 8) / BYTES_PER_NS;
    return s;
}

/* True if a is better than b, given the scratch that both need. */
bool is_better(const plan &a, const plan &b, const product &p)
{
    return a.time < b.time && (a.form != SPLIT || a.c.count() * p.M * p.N * p.entries * 4 <= SPLIT_BYTES);
}

plan plan_of_lanes(const product &p, const lanes &l)
{
    const plan    split = by_tiles(SPLIT, p, cuts_of(l, ROWS, 1));
    plan          tree = {TREE, 0, cuts_of(l, 0, 1, ROWS), 0};
    const int     waiting = levels_of(tree.c, false).count;
    const int64_t rows = lki_ceil_div(p.K, GROUP * l.count) * GROUP * l.count; /* lanes are whole groups */
    tree.tile = tile_for(p.M, p.N, p.entries, waiting);
    tree.time = tile_time(tree.tile, p.M, p.N, p.entries, waiting) * (double)rows / PER_NS;
    return is_better(split, tree, p) ? split : tree;
}

bool is_direct(const lki_args *g, const product &p)
{
    if (p.entries != 1) return false;
    if (g->lanes)
        return p.ta && !p.tb && longest_of(g, p.K) <= SHORT && !g->attr->epilogue.bias && !g->attr->epilogue.relu &&
               !g->attr->matmul.mask;
    return is_thin(p.N, p.K);
}

/* Narrow results have few tiles: more and shorter parts keep a card busy. Long sums have many parts anyway, and short ones are one
 * part. */
int64_t part_of(const product &p) { return p.N <= NARROW && p.K > PART && p.K <= LONG ? PART / 2 : PART; }

plan plan_of(const lki_args *g, const product &p)
{
    const lanes l = lanes_of(g, p.K);
    if (is_direct(g, p)) return plan{DIRECT, 0, cuts_of(l, 0, 1), 0};
    if (l.count > 1) return plan_of_lanes(p, l);
    const int64_t part = g->lanes ? (int64_t)ROWS : part_of(p), whole = g->lanes ? ROWS : RUN, run = whole / part;
    plan          best = by_tiles(ONE_BLOCK, p, cuts_of(l, p.K > whole ? whole : 0, 1, part));
    const plan by_run = by_tiles(SPLIT, p, cuts_of(l, whole, 1, part)), by_part = by_tiles(SPLIT, p, cuts_of(l, part, 1, 0, run));
    if (p.K > whole && is_better(by_run, best, p)) best = by_run;
    if (p.K > part && is_better(by_part, best, p)) best = by_part;
    return best;
}

size_t f32_scratch(const lki_args *g)
{
    const product p = product_of(g);
    const plan    s = plan_of(g, p);
    return s.form == SPLIT ? (size_t)(s.c.count() * p.M * p.N * p.entries) * sizeof(float) : 0;
}

/* ---- f32 ---- */

bool steps_by_four(const entry_places &p)
{
    for (int d = 0; d < p.rank; d++)
        if (p.step[d] % 4) return false;
    return true;
}

bool is_wide(const void *data, int64_t columns, int64_t step, const entry_places &p)
{
    return aligned(data) && columns % 4 == 0 && step % 4 == 0 && steps_by_four(p);
}

template <class S> S source_of(const lki_view *v, int64_t rows, int64_t K, int64_t step, const entry_places &p)
{
    return S{(const float *)v->data, step, rows, is_wide(v->data, S::ALONG_K ? K : rows, step, p)};
}

void run_direct(const lki_args *g, const product &p, const plan &s, const to_matrix &e)
{
    const float *a = (const float *)g->src[0].data, *b = (const float *)g->src[1].data;
    if (g->lanes)
        launch_short(g, source_of<by_columns>(&g->src[0], p.M, p.K, p.a_step, p.a),
                     source_of<by_columns>(&g->src[1], p.N, p.K, p.b_step, p.b), e, s.c);
    else
        launch_thin(
            g,
            thin_product{a, b, p.ta ? 1 : p.a_step, p.ta ? p.a_step : 1, p.tb ? 1 : p.b_step, p.tb ? p.b_step : 1, (int)p.K, 0, 0},
            e);
}

template <class A, class B> void run_chains(const lki_args *g, const product &p, const plan &s, const to_matrix &e, const frame &f)
{
    const A a = source_of<A>(&g->src[0], p.M, p.K, p.a_step, p.a);
    const B b = source_of<B>(&g->src[1], p.N, p.K, p.b_step, p.b);
    if (s.form == SPLIT) launch_split(g, s.tile, a, b, e, f);
    else launch_chains(g, s.tile, a, b, e, f);
}

void f32_matmul(const lki_args *g)
{
    static void (*const run[2][2])(const lki_args *, const product &, const plan &, const to_matrix &,
                                   const frame &) = {{run_chains<by_rows, by_columns>, run_chains<by_rows, by_rows>},
                                                     {run_chains<by_columns, by_columns>, run_chains<by_columns, by_rows>}};
    const product   p = product_of(g);
    const plan      s = plan_of(g, p);
    const float    *bias = g->attr->epilogue.bias ? (const float *)g->src[2].data : nullptr;
    const float    *mask = g->attr->matmul.mask ? (const float *)g->src[2].data : nullptr;
    const int       next = 2 + (bias || mask);
    const float    *scale = g->attr->matmul.scale ? (const float *)g->src[next].data : nullptr;
    const float    *plus = g->attr->matmul.plus ? (const float *)g->src[next + (scale != nullptr)].data : nullptr;
    const bool      wide = is_wide(g->dst[0].data, p.N, p.c_step, p.c) && aligned(mask) && aligned(plus);
    const to_matrix e = {(float *)g->dst[0].data, p.c_step, p.M, p.N, bias, g->attr->epilogue.relu, wide, mask, scale, plus};
    const frame     f = {s.c, p.a, p.b, p.c, 0, 0, (unsigned)p.entries, 1};
    if (!p.M || !p.N || !p.entries) return;
    if (s.form == DIRECT) run_direct(g, p, s, e);
    else run[p.ta != 0][p.tb != 0](g, p, s, e, f);
}

/* ---- by rows (group_rows.h) ---- */

template <class A, class B> void run_pieces(const lki_args *g, const product &p, const plan &s, const frame &f)
{
    launch_pieces(g, s.tile, source_of<A>(&g->src[0], p.M, p.K, p.a_step, p.a), source_of<B>(&g->src[1], p.N, p.K, p.b_step, p.b),
                  p.M, p.N, f);
}

/* ---- f64 ---- */

struct f64_element {
    const double *a, *b, *bias, *mask, *scale, *plus;
    double       *c;
    product       p;
    lanes         l;
    int           relu;

    __device__ void operator()(int64_t i) const
    {
        const int64_t z = i / (p.M * p.N), m = i / p.N % p.M, n = i % p.N;
        const double *x = a + p.a((unsigned)z) + m * (p.ta ? 1 : p.a_step), *y = b + p.b((unsigned)z) + n * (p.tb ? p.b_step : 1);
        const int64_t step_x = p.ta ? p.a_step : 1, step_y = p.tb ? 1 : p.b_step;
        double        open[7], sum = 0;
        for (int s = 0; s < l.count; s++) {
            sum = 0;
            for (int64_t k = l.bound[s]; k < l.bound[s + 1]; k++)
                sum = fma(x[k * step_x], y[k * step_y], sum);
            climb<7>(open, sum, s);
        }
        const int64_t to = p.c((unsigned)z) + m * p.c_step + n;
        if (bias) sum = sum + bias[n];
        if (mask) sum = mask[to] > 0 ? sum : 0;
        if (scale) sum = sum * *scale;
        if (plus) sum = sum + plus[to];
        c[to] = relu && sum < 0 ? 0 : sum;
    }
};

void f64_matmul(const lki_args *g)
{
    const product     p = product_of(g);
    const int         next = 2 + (g->attr->epilogue.bias || g->attr->matmul.mask), last = next + (g->attr->matmul.scale != 0);
    const f64_element f = {(const double *)g->src[0].data,
                           (const double *)g->src[1].data,
                           g->attr->epilogue.bias ? (const double *)g->src[2].data : nullptr,
                           g->attr->matmul.mask ? (const double *)g->src[2].data : nullptr,
                           g->attr->matmul.scale ? (const double *)g->src[next].data : nullptr,
                           g->attr->matmul.plus ? (const double *)g->src[last].data : nullptr,
                           (double *)g->dst[0].data,
                           p,
                           lanes_of(g, p.K),
                           g->attr->epilogue.relu};
    map(g, p.entries * p.M * p.N, f);
}

} // namespace

bool lki_gpu::row_product_of(const lki_args *g, row_product *out)
{
    if (g->lanes || g->attr->matmul.heads || g->attr->matmul.scale || g->attr->matmul.plus) return false;
    const product p = product_of(g);
    if (p.entries != 1 || p.ta || !p.M || !p.N || !p.K || p.M > INT32_MAX) return false;
    const plan s = plan_of(g, p);
    if (s.form != SPLIT && s.form != DIRECT) return false;
    const float *third = g->nsrc > 2 ? (const float *)g->src[2].data : nullptr;
    *out = row_product{p.M,
                       (int)p.N,
                       (int)p.K,
                       s.form == SPLIT,
                       s.form == SPLIT ? s.c.count() : 0,
                       s.c.run,
                       p.tb ? 1 : (int)p.N,
                       p.tb ? (int)p.K : 1,
                       (const float *)g->src[0].data,
                       (const float *)g->src[1].data,
                       g->attr->epilogue.bias ? third : nullptr,
                       g->attr->matmul.mask ? third : nullptr,
                       (const float *)g->scratch,
                       (float *)g->dst[0].data,
                       g->attr->epilogue.relu != 0};
    return true;
}

void lki_gpu::start_pieces(const lki_args *g)
{
    static void (*const run[2])(const lki_args *, const product &, const plan &, const frame &) = {run_pieces<by_rows, by_columns>,
                                                                                                   run_pieces<by_rows, by_rows>};
    const product p = product_of(g);
    const plan    s = plan_of(g, p);
    run[p.tb != 0](g, p, s, frame{s.c, p.a, p.b, p.c, 0, 0, (unsigned)p.entries, 1});
}

void lki_gpu::register_matmul(lki_kernels *k)
{
    set(k, LKI_K_matmul, LK_F32, f32_matmul, f32_scratch);
    set(k, LKI_K_matmul, LK_F64, f64_matmul);
}
