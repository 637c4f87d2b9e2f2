/* Products by tiles: the one loop behind matmul and the convolutions of f32. A block computes a tile of the result; it brings pieces of both operands, STEP of k at a
 * time, into shared memory, the next piece on its way while it multiplies the last.
 *
 *     source     where element (row, k) of an operand comes from: a matrix, an image seen through a window (conv.h), ...
 *     cuts       where the sum over k is cut: into lanes, and lanes into parts
 *     epilogue   what becomes of a sum: bias, relu, pool, and where it is stored
 *
 * Invariants
 * 1. One chain per element of the result and part, fmaf in ascending k from +0. Tiles, and who computes which part, never show in the bits.
 * 2. Parts of a lane are added from left to right, lanes up the tree; a lane without entries is +0.
 * 3. k beyond the end of a part counts as 0 * -0, which changes no chain, not even one that is -0. A cell outside an image counts as 0 * weight: that differs from leaving
 *    it out, as the reference does, in the sign of a zero that underflowed, and where the weight is not finite.
 *
 * A source has: ALONG_K, is memory contiguous along k (else along rows); `data`, where entry 0 begins; a type `row`; at(row); and load(row, k, end, outside, v), which
 * gives four elements: k ... k+3 of a row, or rows r ... r+3 at k. What lies at or beyond `end` is `outside`. */
#ifndef LKI_KERNEL_GPU_TILE_H
#define LKI_KERNEL_GPU_TILE_H

#include "kernel/gpu/gpu.h"

#ifdef LKI_SIM
#define LKI_UNROLL
#define LKI_FIXED const
#else
#define LKI_UNROLL _Pragma("unroll")
#define LKI_FIXED const __grid_constant__ /* an argument that is read where it lies, not copied by each thread */
#endif

namespace lki_gpu {

enum { PROCESSORS = 132, SPLIT_BYTES = 64 << 20 }; /* what shapes are weighed with: constants, so that all cards choose alike */

/* Division of 0 <= n < 2^31 by a number that is known at launch. */
struct divisor {
    unsigned       by, factor, shift;
    __device__ int operator()(int n) const { return (int)((__umulhi(factor, (unsigned)n) + (unsigned)n) >> shift); }
};

static inline divisor divisor_of(int64_t by)
{
    divisor d = {(unsigned)lki_max(by, 1), 1, 0};
    while ((1ull << d.shift) < d.by)
        d.shift++;
    d.factor = (unsigned)((1ull << 32) * ((1ull << d.shift) - d.by) / d.by + 1);
    return d;
}

static inline bool aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

/* Elements from the start of an operand to its matrix of entry i of the leading axes. */
struct places {
    int     rank;
    int64_t dim[LK_MAX_RANK], step[LK_MAX_RANK];

    __device__ int64_t operator()(int64_t i) const
    {
        int64_t at = 0;
        for (int d = rank - 1; d >= 0; d--) {
            at += (d ? i % dim[d] : i) * step[d];
            i = d ? i / dim[d] : 0;
        }
        return at;
    }
};

/* ---- sources: matrices ---------------------------------------------------------------------------------------------------------- */

__device__ inline void load_quad(const float *p, float *v)
{
    const float4 q = *(const float4 *)p;
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
}

__device__ inline void fill_quad(float x, float *v)
{
    for (int j = 0; j < 4; j++)
        v[j] = x;
}

/* (r, k) at data[r * step + k] */
struct by_rows {
    enum { ALONG_K = 1 };
    const float *data;
    int64_t      step, rows;
    bool         wide; /* four along k lie in one piece: aligned, and K is a multiple of 4 */

    typedef const float *row; /* NULL: outside */
    __device__ row       at(int64_t r) const { return r < rows ? data + r * step : nullptr; }
    __device__ void      load(row p, int k, int end, float outside, float *v) const
    {
        if (wide && p && k + 3 < end && k % 4 == 0) return load_quad(p + k, v);
        for (int j = 0; j < 4; j++)
            v[j] = p && k + j < end ? p[k + j] : outside;
    }
};

/* (r, k) at data[k * step + r] */
struct by_columns {
    enum { ALONG_K = 0 };
    const float *data;
    int64_t      step, rows;
    bool         wide; /* four rows lie in one piece */

    typedef int64_t row;
    __device__ row  at(int64_t r) const { return r; }
    __device__ void load(row r, int k, int end, float outside, float *v) const
    {
        const float *p = data + k * step + r;
        if (k >= end) return fill_quad(outside, v);
        if (wide && r + 3 < rows) return load_quad(p, v);
        for (int j = 0; j < 4; j++)
            v[j] = r + j < rows ? p[j] : outside;
    }
};

/* ---- cuts ------------------------------------------------------------------------------------------------------------------------- */

/* Lane l holds the entries bound[l] <= i < bound[l+1], `unit` of k each, in parts of `each` entries: the parts first[l] <= p < first[l+1]. */
struct cuts {
    int lanes, each, unit;
    int bound[MOST_LANES + 1], first[MOST_LANES + 1];

    __host__ __device__ int count() const { return first[lanes]; }
    __device__ void         range(int part, int *k, int *end) const
    {
        int l = 0;
        while (part >= first[l + 1])
            l++;
        const int from = bound[l] + (part - first[l]) * each, left = bound[l + 1] - from;
        *k = from * unit;
        *end = (from + (left < each ? left : each)) * unit;
    }
};

/* each = 0: one part per lane, empty or not; else an empty lane has no part. */
static inline cuts cuts_of(const lanes &l, int64_t each, int64_t unit)
{
    cuts c = {};
    c.lanes = l.count;
    c.each = (int)(each ? each : INT32_MAX);
    c.unit = (int)unit;
    for (int s = 0; s <= l.count; s++) {
        c.bound[s] = (int)l.bound[s];
        if (s) c.first[s] = c.first[s - 1] + (each ? (int)lki_ceil_div(l.bound[s] - l.bound[s - 1], each) : 1);
    }
    return c;
}

/* Lanes that end one after the other, up the tree: after lane s the sums of finished pairs, pairs of pairs, ... are open. When lane 2^n - 1 ends, `sum` is that of all. */
template <int LEVELS, typename T> __device__ inline void climb(T *open, T &sum, int s)
{
    bool up = true;
    LKI_UNROLL
    for (int l = 0; l < LEVELS; l++) {
        if (!up) continue;
        if (s >> l & 1) sum = open[l] + sum;
        else open[l] = sum, up = false;
    }
}

/* ---- epilogue: a matrix, with bias and relu ------------------------------------------------------------------------------------------ */

struct to_matrix {
    float       *data;
    int64_t      step, M, N;
    const float *bias; /* or NULL */
    int          relu;
    bool         wide;

    __device__ float end(float sum, int64_t n) const
    {
        if (bias) sum = sum + bias[n];
        return relu && sum < 0 ? 0 : sum;
    }
    /* From here on row and column 0 are those of a tile: small numbers do. */
    __device__ void begin(int64_t m, int64_t n)
    {
        data += m * step + n;
        if (bias) bias += n;
        M -= m;
        N -= n;
    }
    /* Sums of the rows m ... m+3 and columns n ... n+3: added to what is there unless they are the first, ended if they are the last. */
    __device__ void put(int m, int n, float (*v)[4], bool first, bool last) const
    {
        LKI_UNROLL
        for (int i = 0; i < 4; i++) {
            float *p = data + (m + i) * step + n;
            if (m + i >= M || n >= N) continue;
            LKI_UNROLL
            for (int j = 0; j < 4; j++) {
                if (n + j >= N) continue;
                if (!first) v[i][j] = p[j] + v[i][j];
                if (last) v[i][j] = end(v[i][j], n + j);
                if (!wide) p[j] = v[i][j];
            }
            if (wide) *(float4 *)p = make_float4(v[i][0], v[i][1], v[i][2], v[i][3]);
        }
    }
};

/* ---- the loop ------------------------------------------------------------------------------------------------------------------------- */

/* BM x BN results by threads that have TM x TN each; RESIDENT blocks shall fit a multiprocessor. */
template <int BM_, int BN_, int STEP_, int TM_, int TN_, int RESIDENT_> struct tile {
    enum { BM = BM_, BN = BN_, STEP = STEP_, TM = TM_, TN = TN_, RESIDENT = RESIDENT_, THREADS = BM / TM * (BN / TN) };
    enum { ROWS_APART = BM / (TM / 4), COLUMNS_APART = BN / (TN / 4) }; /* between the 4x4 blocks of a thread */
    typedef float lefts[STEP][BM + 4];
    typedef float rights[STEP][BN + 4]; /* 4 more: k and row of neighbouring threads fall on different banks */
    struct __align__(16) buffers {
        lefts  left[2];
        rights right[2];
    };
};

/* One operand on its way: registers, then shared memory. */
template <class Source, class Tile, int ROWS, int OUTSIDE> struct stage {
    enum {
        QUADS = ROWS * Tile::STEP / 4,
        EACH = (QUADS + Tile::THREADS - 1) / Tile::THREADS,
        LINE = Source::ALONG_K ? Tile::STEP / 4 : ROWS / 4, /* quads that follow each other in memory */
        KEPT = Source::ALONG_K ? EACH : 1
    };
    static_assert(Tile::THREADS % LINE == 0, "a thread's quads lie in one column of the tile");
    typename Source::row row[KEPT];
    float                held[EACH][4];

    __device__ stage(const Source &s, int64_t first)
    {
        for (int i = 0; i < KEPT; i++)
            row[i] = s.at(first + (Source::ALONG_K ? (threadIdx.x + i * Tile::THREADS) / LINE : threadIdx.x % LINE * 4));
    }
    __device__ void load(const Source &s, int k, int end)
    {
        LKI_UNROLL
        for (int i = 0; i < EACH; i++) {
            const int q = (int)threadIdx.x + i * Tile::THREADS;
            if (QUADS % Tile::THREADS && q >= QUADS) break;
            s.load(row[Source::ALONG_K ? i : 0], k + (Source::ALONG_K ? q % LINE * 4 : q / LINE), end, OUTSIDE ? -0.0f : 0.0f,
                   held[i]);
        }
    }
    __device__ void store(float (*to)[ROWS + 4]) const
    {
        LKI_UNROLL
        for (int i = 0; i < EACH; i++) {
            const int q = (int)threadIdx.x + i * Tile::THREADS, line = q / LINE, at = q % LINE * 4;
            if (QUADS % Tile::THREADS && q >= QUADS) break;
            if (Source::ALONG_K)
                for (int j = 0; j < 4; j++)
                    to[at + j][line] = held[i][j];
            else *(float4 *)&to[line][at] = make_float4(held[i][0], held[i][1], held[i][2], held[i][3]);
        }
    }
};

template <class Tile>
__device__ inline void multiply(const typename Tile::lefts &left, const typename Tile::rights &right, float (*acc)[Tile::TN])
{
    const int tx = threadIdx.x % (Tile::BN / Tile::TN) * 4, ty = threadIdx.x / (Tile::BN / Tile::TN) * 4;
    LKI_UNROLL
    for (int k = 0; k < Tile::STEP; k++) {
        float a[Tile::TM], b[Tile::TN];
        for (int i = 0; i < Tile::TM; i += 4)
            load_quad(&left[k][ty + i / 4 * Tile::ROWS_APART], a + i);
        for (int j = 0; j < Tile::TN; j += 4)
            load_quad(&right[k][tx + j / 4 * Tile::COLUMNS_APART], b + j);
        for (int i = 0; i < Tile::TM; i++)
            for (int j = 0; j < Tile::TN; j++)
                acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
}

template <class Tile> __device__ inline void clear(float (*acc)[Tile::TN])
{
    LKI_UNROLL
    for (int i = 0; i < Tile::TM; i++) {
        LKI_UNROLL
        for (int j = 0; j < Tile::TN; j++)
            acc[i][j] = 0;
    }
}

/* One chain, k <= i < end, of the tile whose first row and column are m and n. */
template <class Tile, class A, class B>
__device__ inline void chain(const A &a, const B &b, int64_t m, int64_t n, int k, int end, float (*acc)[Tile::TN])
{
    __shared__ typename Tile::buffers shared;
    stage<A, Tile, Tile::BM, 0>       as(a, m);
    stage<B, Tile, Tile::BN, 1>       bs(b, n);
    clear<Tile>(acc);
    as.load(a, k, end);
    bs.load(b, k, end);
    for (int buffer = 0; k < end; buffer ^= 1) {
        as.store(shared.left[buffer]);
        bs.store(shared.right[buffer]);
        __syncthreads();
        k += Tile::STEP;
        if (k < end) {
            as.load(a, k, end);
            bs.load(b, k, end);
        }
        multiply<Tile>(shared.left[buffer], shared.right[buffer], acc);
    }
    __syncthreads(); /* the next chain may begin */
}

/* The chains of all lanes of a tile, one after the other without a pause; fold(lane) takes each out of acc. */
template <class Tile, class A, class B, class F>
__device__ inline void all_lanes(const A &a, const B &b, const cuts &c, int64_t m, int64_t n, float (*acc)[Tile::TN], F fold)
{
    __shared__ typename Tile::buffers shared;
    stage<A, Tile, Tile::BM, 0>       as(a, m);
    stage<B, Tile, Tile::BN, 1>       bs(b, n);
    int                               lane = 0, k, end;
    c.range(0, &k, &end);
    clear<Tile>(acc);
    as.load(a, k, end);
    bs.load(b, k, end);
    for (int buffer = 0; lane < c.lanes; buffer ^= 1) {
        int next = lane;
        as.store(shared.left[buffer]);
        bs.store(shared.right[buffer]);
        __syncthreads();
        k += Tile::STEP;
        while (k >= end && ++next < c.lanes)
            c.range(next, &k, &end);
        if (next < c.lanes) {
            as.load(a, k, end);
            bs.load(b, k, end);
        }
        multiply<Tile>(shared.left[buffer], shared.right[buffer], acc);
        for (; lane < next; lane++) {
            fold(lane);
            clear<Tile>(acc);
        }
    }
}

template <class Tile, class E> __device__ inline void put_tile(const E &e, const float (*acc)[Tile::TN], bool first, bool last)
{
    const int tx = threadIdx.x % (Tile::BN / Tile::TN) * 4, ty = threadIdx.x / (Tile::BN / Tile::TN) * 4;
    LKI_UNROLL
    for (int i = 0; i < Tile::TM; i += 4) {
        LKI_UNROLL
        for (int j = 0; j < Tile::TN; j += 4) {
            float v[4][4];
            for (int p = 0; p < 4; p++)
                for (int q = 0; q < 4; q++)
                    v[p][q] = acc[i + p][j + q];
            e.put(ty + i / 4 * Tile::ROWS_APART, tx + j / 4 * Tile::COLUMNS_APART, v, first, last);
        }
    }
}

/* What a launch is: the tiles of an entry follow each other, columns first, and the entries. */
struct frame {
    cuts     c;
    places   a, b, e; /* of the operands and the result */
    unsigned rows, columns, entries;
    unsigned split; /* blocks that share the parts of one tile: 1, or as many as there are parts */

    template <class Tile> __device__ void here(int64_t *m, int64_t *n, unsigned *z) const
    {
        const unsigned t = blockIdx.x / columns;
        *n = (int64_t)(blockIdx.x % columns) * Tile::BN;
        *m = (int64_t)(t % rows) * Tile::BM;
        *z = t / rows;
    }
};

/* Parts from left to right: all of them by one block, which keeps the sum so far where the result will be, or each by a block of its own, stored apart. */
template <class A, class B, class E, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT) chains(A a, B b, E e, LKI_FIXED frame f)
{
    float    acc[Tile::TM][Tile::TN];
    int64_t  m, n;
    unsigned z;
    f.here<Tile>(&m, &n, &z);
    a.data += f.a(z / f.split);
    b.data += f.b(z / f.split);
    e.data += f.e(z);
    e.begin(m, n);
    const int from = f.split > 1 ? (int)(z % f.split) : 0, to = f.split > 1 ? from + 1 : f.c.count();
    for (int part = from; part < to; part++) {
        int k, end;
        f.c.range(part, &k, &end);
        chain<Tile>(a, b, m, n, k, end, acc);
        put_tile<Tile>(e, acc, part == from, part == to - 1);
    }
}

/* Lanes of one part each, all by one block, with the open sums of the tree in registers. */
template <int LEVELS, class A, class B, class E, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT) branches(A a, B b, E e, LKI_FIXED frame f)
{
    float    acc[Tile::TM][Tile::TN], open[Tile::TM][Tile::TN][LEVELS];
    int64_t  m, n;
    unsigned z;
    f.here<Tile>(&m, &n, &z);
    a.data += f.a(z);
    b.data += f.b(z);
    e.data += f.e(z);
    e.begin(m, n);
    all_lanes<Tile>(a, b, f.c, m, n, acc, [&](int lane) {
        for (int i = 0; i < Tile::TM; i++)
            for (int j = 0; j < Tile::TN; j++)
                climb<LEVELS>(open[i][j], acc[i][j], lane);
        if (lane == f.c.lanes - 1) put_tile<Tile>(e, acc, true, true);
    });
}

/* Parts that lie apart, [entry][part][M][N], to results. */
template <int LEVELS>
__global__ void join_parts(const float *parts, to_matrix e, LKI_FIXED cuts c, LKI_FIXED places place, int64_t entries)
{
    const int64_t each = e.M * e.N, all = entries * each;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < all; i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t z = i / each, at = i % each, m = at / e.N, n = at % e.N;
        const float  *p = parts + z * c.count() * each + at;
        float         open[LEVELS], sum = 0;
        for (int l = 0; l < c.lanes; l++) {
            sum = 0;
            for (int k = c.first[l]; k < c.first[l + 1]; k++)
                sum = k > c.first[l] ? sum + p[k * each] : p[k * each];
            climb<LEVELS>(open, sum, l);
        }
        e.data[place(z) + m * e.step + n] = e.end(sum, n);
    }
}

/* ---- launches ----------------------------------------------------------------------------------------------------------------------------- */

typedef tile<128, 128, 16, 8, 4, 1> tile_large;
typedef tile<64, 64, 16, 4, 4, 2>   tile_medium;
typedef tile<128, 32, 16, 4, 4, 2>  tile_narrow;
typedef tile<32, 32, 32, 4, 4, 6>   tile_small;

enum { TILE_LARGE, TILE_MEDIUM, TILE_NARROW, TILE_SMALL, TILES };

struct tile_size {
    int    m, n;
    double speed; /* of a multiprocessor that is full of them */
};
static const tile_size tile_sizes[TILES] = {{128, 128, 1}, {64, 64, 0.7}, {128, 32, 0.6}, {32, 32, 0.4}};

/* The tile that ends first on PROCESSORS multiprocessors. */
static inline int tile_for(int64_t M, int64_t N, int64_t entries)
{
    int    best = 0;
    double least = 0;
    for (int t = 0; t < TILES; t++) {
        const tile_size *s = &tile_sizes[t];
        const int64_t    blocks = lki_ceil_div(M, s->m) * lki_ceil_div(N, s->n) * entries;
        const double     time = (double)lki_ceil_div(blocks, PROCESSORS) * s->m * s->n / s->speed;
        if (t == 0 || time < least) best = t, least = time;
    }
    return best;
}

static inline int64_t tiles_in(int t, int64_t M, int64_t N)
{
    return lki_ceil_div(M, tile_sizes[t].m) * lki_ceil_div(N, tile_sizes[t].n);
}

/* M, N of one entry come with e. */
template <class Tile, class E> static int64_t blocks_of(frame *f, const E &e)
{
    f->rows = (unsigned)lki_ceil_div(e.M, Tile::BM);
    f->columns = (unsigned)lki_ceil_div(e.N, Tile::BN);
    return (int64_t)f->rows * f->columns * f->split * f->entries;
}

template <class A, class B, class E, class Tile>
static void launch_chains_of(const lki_args *g, const A &a, const B &b, const E &e, frame f)
{
    const int64_t blocks = blocks_of<Tile>(&f, e);
    if (blocks) LKI_LAUNCH((chains<A, B, E, Tile>), dim3((unsigned)blocks), dim3(Tile::THREADS), 0, g, a, b, e, f);
}

/* f.c has at least one part. Split: entry z of e is part z % f.split of entry z / f.split. */
template <class A, class B, class E>
static void launch_chains(const lki_args *g, int which, const A &a, const B &b, const E &e, const frame &f)
{
    static void (*const run[TILES])(const lki_args *, const A &, const B &, const E &,
                                    frame) = {launch_chains_of<A, B, E, tile_large>, launch_chains_of<A, B, E, tile_medium>,
                                              launch_chains_of<A, B, E, tile_narrow>, launch_chains_of<A, B, E, tile_small>};
    run[which](g, a, b, e, f);
}

/* Parts that lie in scratch to the result of e. */
static inline void launch_join(const lki_args *g, const to_matrix &e, const frame &f)
{
    const int64_t n = f.entries * e.M * e.N;
    if (n)
        LKI_LAUNCH_FLAT((join_parts<7>), dim3((unsigned)lki_min(lki_ceil_div(n, 128), MAP_BLOCKS)), dim3(128), g,
                        (const float *)g->scratch, e, f.c, f.e, (int64_t)f.entries);
}

/* Like launch_chains(), but each part by blocks of its own, laid in scratch, and then joined. */
template <class A, class B>
static void launch_split(const lki_args *g, int which, const A &a, const B &b, const to_matrix &e, const frame &f)
{
    frame           apart = f;
    const to_matrix parts = {(float *)g->scratch, e.N, e.M, e.N, nullptr, 0, e.N % 4 == 0};
    apart.split = (unsigned)f.c.count();
    apart.e = places{1, {1}, {e.M * e.N}};
    if (apart.split) launch_chains(g, which, a, b, parts, apart);
    launch_join(g, e, f);
}

} // namespace lki_gpu

#endif
