/* Matrix products: c[m, n] = sum over k of a[m, k] * b[k, n], then bias and relu. Leading axes broadcast; operands may be transposed, or by heads (matrix.h).
 *
 * Order of sums
 *   f64, and f32 with K < LONG: as kernel.h says, one CHAIN per element, or with lanes one per lane, then the tree.
 *   f32 without lanes, K >= LONG: parts of PART products each, the last one shorter: one CHAIN per part, parts added from left to right. The rule looks at K alone: how many
 *   rows a product has depends on how many replicas share a batch, and must not show.
 *
 * f32 goes by tiles (tile.h). Where the tiles of a result are too few for a card, parts or lanes are spread over blocks and joined by a second kernel; else one block
 * walks through all of them. f64 is for checks, not for speed: a thread per element. */
#include "kernel/gpu/tile.h"
#include "kernel/matrix.h"

namespace {

using namespace lki_gpu;

enum { LONG = 1024, PART = 256, MOST_BRANCHES = 16 };

typedef tile<64, 64, 8, 4, 4, 1> tree_medium; /* lanes are often a few rows: short steps */
typedef tile<32, 32, 8, 4, 4, 4> tree_small;

/* ---- shapes ---- */

/* Where the matrices of a shape in memory lie, by entry of the leading axes of `out` (as multiplied). The same rule as lki_matrix_at(). */
places places_of(const lk_shape *s, int heads, const lk_shape *out)
{
    const lk_shape t = lki_by_heads(s, heads);
    places         p = {};
    int64_t        size = heads ? t.dim[3] : t.dim[t.rank - 1] * t.dim[t.rank - 2];
    p.rank = out->rank - 2;
    for (int d = 0; d < p.rank; d++)
        p.dim[d] = out->dim[d];
    for (int d = out->rank - 3, e = t.rank - 3; e >= 0; d--, e--) {
        p.step[d] = t.dim[e] != 1 ? size : 0;
        size *= heads && e == 1 ? t.dim[1] * t.dim[2] : t.dim[e];
    }
    return p;
}

struct product {
    int64_t M, N, K, entries; /* of the leading axes */
    int64_t a_step, b_step, c_step;
    places  a, b, c;
    int     ta, tb;
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
    p.a = places_of(sa, heads & 1, &c);
    p.b = places_of(sb, heads & 2, &c);
    p.c = places_of(sc, heads & 4, &c);
    if (!p.ta && !heads && is_one_matrix(sb) && lki_gpu::size_of(sa) == p.entries * p.M * p.K) { /* many rows times one matrix */
        p.M *= p.entries;
        p.entries = 1;
        p.a.rank = p.b.rank = p.c.rank = 0;
    }
    return p;
}

/* ---- who sums what: from shapes alone ---- */

enum how { ONE_BLOCK, SPLIT, TREE }; /* a block has all parts of a tile; one part each; all lanes of a tile */

struct plan {
    how  form;
    int  tile;
    cuts c;
};

plan plan_of(const lki_args *g, const product &p)
{
    const lanes   l = lanes_of(g, p.K);
    plan          s = {ONE_BLOCK, 0, cuts_of(l, !g->lanes && p.K >= LONG ? PART : 0, 1)};
    const int64_t parts = s.c.count(), blocks = tiles_in(TILE_SMALL, p.M, p.N) * p.entries;
    const bool    room = parts * p.M * p.N * p.entries * 4 <= SPLIT_BYTES;
    if (l.count > 1) s.form = p.ta && !p.tb && (!room || blocks >= PROCESSORS || p.K < 32 * l.count) ? TREE : SPLIT;
    else if (parts > 1 && room && blocks < 2 * PROCESSORS) s.form = SPLIT;
    s.tile = tile_for(p.M, p.N, p.entries * (s.form == SPLIT ? parts : 1));
    return s;
}

size_t f32_scratch(const lki_args *g)
{
    const product p = product_of(g);
    const plan    s = plan_of(g, p);
    return s.form == SPLIT ? (size_t)(s.c.count() * p.M * p.N * p.entries) * sizeof(float) : 0;
}

/* ---- f32 ---- */

bool steps_by_four(const places &p)
{
    for (int d = 0; d < p.rank; d++)
        if (p.step[d] % 4) return false;
    return true;
}

bool is_wide(const void *data, int64_t columns, int64_t step, const places &p)
{
    return aligned(data) && columns % 4 == 0 && step % 4 == 0 && steps_by_four(p);
}

template <class S> S source_of(const lki_view *v, int64_t rows, int64_t K, int64_t step, const places &p)
{
    return S{(const float *)v->data, step, rows, is_wide(v->data, S::ALONG_K ? K : rows, step, p)};
}

template <int LEVELS, class Tile>
void launch_tree(const lki_args *g, const by_columns &a, const by_columns &b, const to_matrix &e, frame f)
{
    const int64_t blocks = blocks_of<Tile>(&f, e);
    LKI_LAUNCH((branches<LEVELS, by_columns, by_columns, to_matrix, Tile>), dim3((unsigned)blocks), dim3(Tile::THREADS), 0, g, a, b,
               e, f);
}

void run_tree(const lki_args *g, const product &p, const to_matrix &e, const frame &f)
{
    const by_columns a = source_of<by_columns>(&g->src[0], p.M, p.K, p.a_step, p.a),
                     b = source_of<by_columns>(&g->src[1], p.N, p.K, p.b_step, p.b);
    const bool few = f.c.lanes <= MOST_BRANCHES, medium = tiles_in(TILE_MEDIUM, e.M, e.N) * p.entries >= 2 * PROCESSORS;
    if (few && medium) launch_tree<4, tree_medium>(g, a, b, e, f);
    else if (few) launch_tree<4, tree_small>(g, a, b, e, f);
    else launch_tree<6, tree_small>(g, a, b, e, f);
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
    const to_matrix e = {
        (float *)g->dst[0].data, p.c_step, p.M, p.N, bias, g->attr->epilogue.relu, is_wide(g->dst[0].data, p.N, p.c_step, p.c)};
    const frame f = {s.c, p.a, p.b, p.c, 0, 0, (unsigned)p.entries, 1};
    if (!p.M || !p.N || !p.entries) return;
    if (s.form == TREE) run_tree(g, p, e, f);
    else run[p.ta != 0][p.tb != 0](g, p, s, e, f);
}

/* ---- f64 ---- */

struct f64_element {
    const double *a, *b, *bias;
    double       *c;
    product       p;
    lanes         l;
    int           relu;

    __device__ void operator()(int64_t i) const
    {
        const int64_t z = i / (p.M * p.N), m = i / p.N % p.M, n = i % p.N;
        const double *x = a + p.a(z) + m * (p.ta ? 1 : p.a_step), *y = b + p.b(z) + n * (p.tb ? p.b_step : 1);
        const int64_t step_x = p.ta ? p.a_step : 1, step_y = p.tb ? 1 : p.b_step;
        double        open[7], sum = 0;
        for (int s = 0; s < l.count; s++) {
            sum = 0;
            for (int64_t k = l.bound[s]; k < l.bound[s + 1]; k++)
                sum = fma(x[k * step_x], y[k * step_y], sum);
            climb<7>(open, sum, s);
        }
        if (bias) sum = sum + bias[n];
        c[p.c(z) + m * p.c_step + n] = relu && sum < 0 ? 0 : sum;
    }
};

void f64_matmul(const lki_args *g)
{
    const product     p = product_of(g);
    const f64_element f = {(const double *)g->src[0].data,
                           (const double *)g->src[1].data,
                           g->attr->epilogue.bias ? (const double *)g->src[2].data : nullptr,
                           (double *)g->dst[0].data,
                           p,
                           lanes_of(g, p.K),
                           g->attr->epilogue.relu};
    map(g, p.entries * p.M * p.N, f);
}

} // namespace

void lki_gpu::register_matmul(lki_kernels *k)
{
    set(k, LKI_K_matmul, LK_F32, f32_matmul, f32_scratch);
    set(k, LKI_K_matmul, LK_F64, f64_matmul);
}
