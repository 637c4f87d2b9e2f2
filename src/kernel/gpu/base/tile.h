/* Products by tiles: which tiles there are, and launches. tile_block.h says what a block does, and in which order it sums; nothing
 * in this file changes bits. */
#ifndef LKI_KERNEL_GPU_BASE_TILE_H
#define LKI_KERNEL_GPU_BASE_TILE_H

#include "kernel/gpu/base/straight.h"

namespace lki_gpu
{

enum { PROCESSORS = 132, SPLIT_BYTES = 64 << 20 }; /* for estimates from shapes: constants, so that all cards choose alike */

/* Adds up pieces that are in scratch, [entry][piece][M][N], to results. Many are read at once, so that the latency of memory counts
 * once. */
template <int LEVELS, int AT_ONCE>
__global__ void join_pieces(const float *pieces, to_matrix e, LKI_FIXED cuts c, LKI_FIXED entry_places place, int64_t entries)
{
    const int64_t each = e.M * e.N, all = entries * each;
    const int     count = c.count();
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < all; i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t         z = i / each, at = i % each, m = at / e.N, n = at % e.N;
        const float          *p = pieces + z * count * each + at;
        piece_sums<LEVELS, 1> s(c);
        for (int from = 0; from < count; from += AT_ONCE) {
            float v[AT_ONCE];
            LKI_UNROLL
            for (int j = 0; j < AT_ONCE; j++)
                v[j] = from + j < count ? p[(from + j) * each] : 0;
            LKI_UNROLL
            for (int j = 0; j < AT_ONCE; j++)
                if (from + j < count) s.add(c, from + j, &v[j]);
        }
        s.finish(c);
        const int64_t to = place((unsigned)z) + m * e.step + n;
        e.data[to] = e.end(s.sum[0], n, to);
    }
}

/* ---- launches ---------------------------------------------------------------------------------------------------------------- */

/* Warps of large tiles use a split factor for 16 or 32 products, and two such blocks keep the tensor cores busy; the other tiles
 * are for small results. Steps are long where a product takes little time, and short where registers are scarce: registers hold
 * split factors, and quads of sources that do not copy. */
template <int P, bool COPIES> struct tiles {
    enum {
        SPLITS = P == LKI_PRECISION_F32,
        STEP = SPLITS || !COPIES ? 16 : 32,
        STAGES = STEP == 32 ? 3 : 4,
        RESIDENT = COPIES ? 3 : 2
    };
    typedef tile<128, 64, STEP, COPIES ? 64 : 32, 32, STAGES, COPIES ? 2 : 1> large;
    typedef tile<64, 64, STEP, 32, 32, STAGES, RESIDENT>                      medium;
    typedef tile<128, 32, 16, 32, 32, 3, RESIDENT>                            narrow;
    typedef tile<32, 32, 32, 16, 16, 3, RESIDENT + 1>                         small;
    typedef tile<32, 32, 32, 16, 16, 8, 2> deep; /* small, for few blocks: a part is loaded at once */
};

enum { TILE_LARGE, TILE_MEDIUM, TILE_NARROW, TILE_SMALL, TILES };

struct tile_size {
    int    m, n;
    double speed[4];      /* speed of a multiprocessor with one to four such blocks: a block waits for its own products, copies and
                           * barriers */
    int    beside, bytes; /* how many fit on a multiprocessor; shared memory of each, without waiting sums */
};
static const tile_size tile_sizes[TILES] = {{128, 64, {0.55, 1, 1, 1}, 2, 48 << 10},
                                            {64, 64, {0.4, 0.75, 0.9, 0.9}, 3, 32 << 10},
                                            {128, 32, {0.4, 0.7, 0.85, 0.85}, 3, 30 << 10},
                                            {32, 32, {0.15, 0.28, 0.36, 0.4}, 4, 24 << 10}};

enum { SHARED_BYTES = 228 << 10, SHARED_EACH = 1 << 10 }; /* of a multiprocessor, and what a block needs in addition */

/* Blocks that fit on a multiprocessor, with `waiting` sums of each result kept. */
static inline int64_t tiles_beside(int t, int64_t waiting)
{
    const tile_size *s = &tile_sizes[t];
    return lki_min(s->beside, SHARED_BYTES / (s->bytes + SHARED_EACH + waiting * s->m * s->n * 4));
}

/* Time on PROCESSORS multiprocessors, in products per k that the first tile could have done in that time. */
static inline double tile_time(int t, int64_t M, int64_t N, int64_t entries, int64_t waiting = 0)
{
    const tile_size *s = &tile_sizes[t];
    const int64_t    each = lki_ceil_div(lki_ceil_div(M, s->m) * lki_ceil_div(N, s->n) * entries, PROCESSORS);
    const int64_t    fit = tiles_beside(t, waiting), rest = fit ? each % fit : 0;
    if (!fit) return INFINITY;
    return s->m * s->n * ((double)(each - rest) / s->speed[fit - 1] + (rest ? (double)rest / s->speed[rest - 1] : 0));
}

/* The fastest tile. */
static inline int tile_for(int64_t M, int64_t N, int64_t entries, int64_t waiting = 0)
{
    int best = TILE_SMALL;
    for (int t = TILES - 1; t >= 0; t--)
        if (tile_time(t, M, N, entries, waiting) < tile_time(best, M, N, entries, waiting)) best = t;
    return best;
}

static inline int64_t tiles_in(int t, int64_t M, int64_t N)
{
    return lki_ceil_div(M, tile_sizes[t].m) * lki_ceil_div(N, tile_sizes[t].n);
}

/* M and N of one entry come from e. */
template <class Tile, class E> static int64_t blocks_of(frame *f, const E &e)
{
    f->rows = (unsigned)lki_ceil_div(e.M, Tile::BM);
    f->columns = (unsigned)lki_ceil_div(e.N, Tile::BN);
    f->by_rows = divisor_of(f->rows);
    f->by_columns = divisor_of(f->columns);
    f->by_split = divisor_of(f->split);
    return (int64_t)f->rows * f->columns * f->split * f->entries;
}

/* For small tiles the time of a block's checks matters. */
template <class Tile, class A, class B, class E> struct goes_straight {
    enum { value = copies<A>::value && copies<B>::value && std::is_same<E, to_matrix>::value && Tile::BM <= 64 };
};

template <int P, class A, class B, class E, class Tile>
static void launch_chains_of(const lki_args *g, const A &a, const B &b, const E &e, frame f)
{
    const int64_t blocks = blocks_of<Tile>(&f, e);
    f.wait = levels_of(f.c, f.split > 1 || f.c.count() == 1);
    if constexpr (goes_straight<Tile, A, B, E>::value) {
        const int64_t length = is_straight<Tile>(a, b, e, f);
        const size_t  bytes = (size_t)ring<Tile, A::ALONG_K, B::ALONG_K>::FLOATS * sizeof(float);
        if (bytes > 48 << 10) LKI_GIVE_SHARED((straight<P, A, B, Tile>), bytes);
        if (length) {
            LKI_LAUNCH((straight<P, A, B, Tile>), dim3((unsigned)blocks), dim3(Tile::THREADS), bytes, g, a, b, e, f, (int)length);
            return;
        }
    }
    const size_t bytes = ((size_t)pipeline<Tile, A, B>::FLOATS + (size_t)f.wait.count * waiting<Tile>::FLOATS) * sizeof(float);
    if (bytes > 48 << 10) LKI_GIVE_SHARED((chains<P, A, B, E, Tile>), bytes);
    if (blocks) LKI_LAUNCH((chains<P, A, B, E, Tile>), dim3((unsigned)blocks), dim3(Tile::THREADS), bytes, g, a, b, e, f);
}

/* For a matrix with few blocks, which have more steps than small tiles load at once. */
template <class Tile, class E> static bool wants_depth(const E &e, frame f)
{
    const int64_t k = lki_min(f.c.each, f.c.bound[f.c.lanes] - f.c.bound[0]) * (int64_t)f.c.unit;
    return blocks_of<Tile>(&f, e) <= 2 * PROCESSORS && k > Tile::STAGES * Tile::STEP;
}

template <int P, class A, class B, class E>
static void launch_chains_of(const lki_args *g, int which, const A &a, const B &b, const E &e, const frame &f)
{
    typedef tiles<P, copies<A>::value && copies<B>::value> of;
    if constexpr (std::is_same<E, to_matrix>::value && copies<A>::value && copies<B>::value)
        if (which == TILE_SMALL && wants_depth<typename of::small>(e, f))
            return launch_chains_of<P, A, B, E, typename of::deep>(g, a, b, e, f);
    if (which == TILE_LARGE) launch_chains_of<P, A, B, E, typename of::large>(g, a, b, e, f);
    else if (which == TILE_SMALL) launch_chains_of<P, A, B, E, typename of::small>(g, a, b, e, f);
    else if (P == LKI_PRECISION_F32 && which == TILE_NARROW)
        launch_chains_of<LKI_PRECISION_F32, A, B, E, typename of::narrow>(g, a, b, e, f);
    else launch_chains_of<P, A, B, E, typename of::medium>(g, a, b, e, f);
}

/* f.c has at least one piece, also for a lane without entries. Split: entry z of e is piece z % f.split of entry z / f.split, of
 * any lane. */
template <class A, class B, class E>
static void launch_chains(const lki_args *g, int which, const A &a, const B &b, const E &e, const frame &f)
{
    const lki_precision p = g->gpu->precision;
    if (p == LKI_PRECISION_TF32) launch_chains_of<LKI_PRECISION_TF32>(g, which, a, b, e, f);
    else if (p == LKI_PRECISION_BF16) launch_chains_of<LKI_PRECISION_BF16>(g, which, a, b, e, f);
    else launch_chains_of<LKI_PRECISION_F32>(g, which, a, b, e, f);
}

/* One block computes all lanes of a tile, each of one piece. */
template <class A, class B, class E> static void launch_tree(const lki_args *g, const A &a, const B &b, const E &e, const frame &f)
{
    launch_chains(g, tile_for(e.M, e.N, f.entries, levels_of(f.c, false).count), a, b, e, f);
}

/* Adds pieces in scratch up to the result of e. */
static inline void launch_join(const lki_args *g, const to_matrix &e, const frame &f)
{
    const int64_t n = f.entries * e.M * e.N;
    if (n)
        LKI_LAUNCH_FLAT((join_pieces<7, 16>), dim3((unsigned)lki_min(lki_ceil_div(n, 128), MAP_BLOCKS)), dim3(128), g,
                        (const float *)g->scratch, e, f.c, f.e, (int64_t)f.entries);
}

/* Like launch_chains(), but each piece is computed by other blocks and stored in scratch; */
template <class A, class B>
static void launch_pieces(const lki_args *g, int which, const A &a, const B &b, int64_t M, int64_t N, const frame &f)
{
    frame           apart = f;
    const to_matrix pieces = {(float *)g->scratch, N, M, N, nullptr, 0, N % 4 == 0};
    apart.split = (unsigned)f.c.count();
    apart.e = entry_places{1, {M * N}, {}};
    if (apart.split) launch_chains(g, which, a, b, pieces, apart);
}

/* ... and then joined. */
template <class A, class B>
static void launch_split(const lki_args *g, int which, const A &a, const B &b, const to_matrix &e, const frame &f)
{
    launch_pieces(g, which, a, b, e.M, e.N, f);
    launch_join(g, e, f);
}

} // namespace lki_gpu

#endif
