/* Products by tiles: the one loop behind matmul and the convolutions of f32. A block computes a tile of the result; it brings pieces of both operands, STEP of k at a
 * time, into shared memory, further pieces on their way while its warps multiply the last on tensor cores (mma.h).
 *
 *     source     where element (row, k) of an operand comes from: a matrix, an image seen through a window (conv.h), ...
 *     cuts       where the sum over k is cut: into lanes, lanes into pieces, pieces into parts
 *     epilogue   what becomes of a sum: bias, relu, pool, and where it is stored
 *
 * Invariants
 * 1. One sum per element of the result and part, from +0: octets of k in ascending order, counted from the part's first k (mma.h says what the sum of an octet is). Tiles, and
 *    who computes which part, never show in the bits.
 * 2. Parts of a piece are added from left to right, so are pieces of a run, runs of a lane; lanes up the tree; a lane without entries is +0.
 * 3. k beyond the end of a part counts as 0 * 0, which changes no sum. A cell outside an image counts as 0 * weight: that differs from leaving it out, as the reference
 *    does, where the weight is not finite.
 *
 * A source has: ALONG_K, is memory contiguous along k (else along rows); `data`, where entry 0 begins; a type `row`; at(row); and load(row, k, end, outside, v), which
 * gives four elements: k ... k+3 of a row, or rows r ... r+3 at k. What lies at or beyond `end` is `outside`. A source that only moves numbers
 * can have COPIES instead, and go straight to shared memory: place(row, k), where the four lie, of which valid(row, k, end) count (more than 4 is 4) and the others are
 * zeros; by_four(k): the fours of this step are 16 bytes aligned. */
#ifndef LKI_KERNEL_GPU_TILE_H
#define LKI_KERNEL_GPU_TILE_H

#include "kernel/gpu/mma.h"

namespace lki_gpu
{

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

/* Elements from the start of an operand to its matrix of entry i < 2^31 of the leading axes. */
struct places {
    int     rank;
    int64_t step[LK_MAX_RANK];
    divisor by[LK_MAX_RANK]; /* sizes of the axes */

    __device__ int64_t operator()(unsigned i) const
    {
        int64_t at = 0;
        for (int d = rank - 1; d > 0; d--) {
            const unsigned left = (unsigned)by[d]((int)i);
            at += (i - left * by[d].by) * step[d];
            i = left;
        }
        return rank ? at + i * step[0] : 0;
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
    enum { ALONG_K = 1, COPIES = 1 };
    const float *data;
    int64_t      step, rows;
    bool         wide; /* four along k lie in one piece: aligned, and K is a multiple of 4 */

    typedef const float *row; /* NULL: outside */
    __device__ row       at(int64_t r) const { return r < rows ? data + r * step : nullptr; }
    __device__ bool      by_four(int k) const { return wide && k % 4 == 0; }
    __device__ int valid(row p, int k, int end) const { return p && k < end ? end - k : 0; } /* of the four from k on, or more */
    __device__ const float *place(row p, int k) const { return p + k; }
};

/* (r, k) at data[k * step + r] */
struct by_columns {
    enum { ALONG_K = 0, COPIES = 1 };
    const float *data;
    int64_t      step, rows;
    bool         wide; /* four rows lie in one piece */

    typedef int64_t row;
    __device__ row  at(int64_t r) const { return r; }
    __device__ bool by_four(int) const { return wide; }
    __device__ int  valid(row r, int k, int end) const { return k < end && r < rows ? (rows - r < 4 ? (int)(rows - r) : 4) : 0; }
    __device__ const float *place(row r, int k) const { return data + (k * step + r); }
};

/* ---- cuts ------------------------------------------------------------------------------------------------------------------------- */

/* Lane l holds the entries bound[l] <= i < bound[l+1], `unit` of k each, in pieces of `each` entries: the pieces first[l] <= p < first[l+1]. A piece falls into parts of
 * `part` k, and `run` pieces, counted from the lane's first, are added before runs are. */
struct cuts {
    int lanes, each, unit, part, run;
    int bound[MOST_LANES + 1], first[MOST_LANES + 1];

    __host__ __device__ int count() const { return first[lanes]; }
    __device__ void         range(int piece, int *k, int *end) const
    {
        int l = 0;
        while (piece >= first[l + 1])
            l++;
        const int from = bound[l] + (piece - first[l]) * each, left = bound[l + 1] - from;
        *k = from * unit;
        *end = (from + (left < each ? left : each)) * unit;
    }
};

/* each = 0: one piece per lane, empty or not; else an empty lane has no piece. part = 0: a piece is one part; else a multiple of every STEP. */
static inline cuts cuts_of(const lanes &l, int64_t each, int64_t unit, int64_t part = 0, int64_t run = 1)
{
    cuts c = {};
    c.lanes = l.count;
    c.each = (int)(each ? each : INT32_MAX);
    c.unit = (int)unit;
    c.part = (int)(part ? part : INT32_MAX);
    c.run = (int)run;
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
    bool         wide; /* four columns lie in one piece, in the mask too */

    const float *mask = nullptr; /* laid out like data, or NULL */

    /* The sum of column n, at data[at]. */
    __device__ float end(float sum, int64_t n, int64_t at) const
    {
        if (bias) sum = sum + bias[n];
        if (mask) sum = mask[at] > 0 ? sum : 0;
        return relu && sum < 0 ? 0 : sum;
    }
    /* From here on row and column 0 are those of a tile: small numbers do. */
    __device__ void begin(int64_t m, int64_t n)
    {
        data += m * step + n;
        if (mask) mask += m * step + n;
        if (bias) bias += n;
        M -= m;
        N -= n;
    }
    /* Sums of row m and columns n ... n+3: added to what is there unless they are the first, ended if they are the last. */
    __device__ void put_four(int m, int n, float *v, bool first, bool last) const
    {
        const int64_t at = m * step + n;
        float         other[4];
        if (m >= M || n >= N) return;
        if (!wide) return put_singly(n, at, v, first, last);
        if (!first) {
            load_quad(data + at, other);
            LKI_UNROLL
            for (int j = 0; j < 4; j++)
                v[j] = other[j] + v[j];
        }
        if (last && bias) {
            LKI_UNROLL
            for (int j = 0; j < 4; j++)
                v[j] = v[j] + bias[n + j];
        }
        if (last && mask) {
            load_quad(mask + at, other);
            LKI_UNROLL
            for (int j = 0; j < 4; j++)
                v[j] = other[j] > 0 ? v[j] : 0;
        }
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            v[j] = last && relu && v[j] < 0 ? 0 : v[j];
        *(float4 *)(data + at) = make_float4(v[0], v[1], v[2], v[3]);
    }
    __device__ void put_singly(int n, int64_t at, const float *v, bool first, bool last) const
    {
        LKI_UNROLL
        for (int j = 0; j < 4; j++) {
            if (n + j >= N) continue;
            const float sum = first ? v[j] : data[at + j] + v[j];
            data[at + j] = last ? end(sum, n + j, at + j) : sum;
        }
    }
};

/* To the matrix that begins `at` elements behind the first. */
template <class E> __device__ inline void enter(E &e, int64_t at) { e.data += at; }
__device__ inline void                    enter(to_matrix &e, int64_t at)
{
    e.data += at;
    if (e.mask) e.mask += at;
}

/* ---- the loop ------------------------------------------------------------------------------------------------------------------------- */

/* BM x BN results by warps that have WM x WN each; STAGES steps of k lie in shared memory; RESIDENT blocks shall fit a multiprocessor. */
template <int BM_, int BN_, int STEP_, int WM_, int WN_, int STAGES_, int RESIDENT_> struct tile {
    enum { BM = BM_, BN = BN_, STEP = STEP_, WM = WM_, WN = WN_, STAGES = STAGES_, RESIDENT = RESIDENT_ };
    enum { MT = WM / 16, NT = WN / 8, THREADS = BM / WM * (BN / WN) * 32, PITCH = BN + 8 /* of results in shared memory */ };
    typedef float sums[MT][NT][4]; /* of a thread: where they lie in a warp's tile, mma.h says */
};

template <int N> struct __align__(16) shared_floats { float at[N]; };

template <class S, class = void> struct copies {
    enum { value = 0 };
};
template <class S> struct copies<S, decltype((void)S::COPIES)> {
    enum { value = 1 };
};

/* One operand on its way to shared memory, where it lies as it does in its source: row after row of k, or k after k of rows. Lines are so far apart that the loads of a warp,
 * 8 rows by 4 k, fall on different banks. */
template <class Source, class Tile, int ROWS> struct stage {
    enum {
        QUADS = ROWS * Tile::STEP / 4,
        EACH = (QUADS + Tile::THREADS - 1) / Tile::THREADS,
        LINE = Source::ALONG_K ? Tile::STEP / 4 : ROWS / 4, /* quads that follow each other in memory */
        PITCH = Source::ALONG_K ? Tile::STEP + 4 : ROWS + 8,
        FLOATS = Source::ALONG_K ? ROWS * PITCH : Tile::STEP * PITCH,
        KEPT = Source::ALONG_K ? EACH : 1
    };
    static_assert(Tile::THREADS % LINE == 0, "a thread's quads lie in one column of the tile");
    typename Source::row row[KEPT];
    float                held[EACH][4]; /* of sources that do not copy, from fetch() to land() */

    __device__ stage(const Source &s, int64_t first)
    {
        LKI_UNROLL
        for (int i = 0; i < KEPT; i++)
            row[i] = s.at(first + (Source::ALONG_K ? (threadIdx.x + i * Tile::THREADS) / LINE : threadIdx.x % LINE * 4));
    }
    __device__ static float *place(float *to, int q) { return to + q / LINE * PITCH + q % LINE * 4; }
    __device__ static int    first_k(int q) { return Source::ALONG_K ? q % LINE * 4 : q / LINE; }
    __device__ void          fetch(const Source &s, int k, int end, float *to)
    {
        if constexpr (copies<Source>::value)
            if (!s.by_four(k)) return fetch_singly(s, k, end, to);
        LKI_UNROLL
        for (int i = 0; i < EACH; i++) {
            const int q = (int)threadIdx.x + i * Tile::THREADS, at = k + first_k(q);
            if (QUADS % Tile::THREADS && q >= QUADS) break;
            const typename Source::row &r = row[Source::ALONG_K ? i : 0];
            if constexpr (copies<Source>::value) {
                const int some = s.valid(r, at, end);
                copy_four(place(to, q), s.place(r, at), some < 4 ? 4 * some : 16);
            } else s.load(r, at, end, 0.0f, held[i]);
        }
    }
    __device__ void fetch_singly(const Source &s, int k, int end, float *to)
    {
        LKI_UNROLL
        for (int i = 0; i < EACH; i++) {
            const int q = (int)threadIdx.x + i * Tile::THREADS, at = k + first_k(q);
            if (QUADS % Tile::THREADS && q >= QUADS) break;
            if constexpr (copies<Source>::value) {
                const int some = s.valid(row[Source::ALONG_K ? i : 0], at, end);
                for (int j = 0; j < 4; j++)
                    copy_one(place(to, q) + j, s.place(row[Source::ALONG_K ? i : 0], at) + j, j < some ? 4 : 0);
            }
        }
    }
    __device__ void land(float *to) const
    {
        LKI_UNROLL
        for (int i = 0; i < (copies<Source>::value ? 0 : EACH); i++) {
            const int q = (int)threadIdx.x + i * Tile::THREADS;
            if (QUADS % Tile::THREADS && q >= QUADS) break;
            *(float4 *)place(to, q) = make_float4(held[i][0], held[i][1], held[i][2], held[i][3]);
        }
    }
};

/* An operand in shared memory, from a warp's first row and an octet's first k on. */
template <bool ALONG_K, int PITCH> struct factors {
    const float     *p;
    __device__ float operator()(int row, int k) const { return ALONG_K ? p[row * PITCH + k] : p[k * PITCH + row]; }
};

/* Both operands of a tile, and the ring of stages they come through: put() brings the next step, take() multiplies the oldest. Every thread of the block takes part. */
template <class Tile, class A, class B> struct pipeline {
    typedef stage<A, Tile, Tile::BM> lefts;
    typedef stage<B, Tile, Tile::BN> rights;
    enum { EACH = (int)lefts::FLOATS + (int)rights::FLOATS, AHEAD = Tile::STAGES - 1 };
    enum { LOOP = EACH * Tile::STAGES, OUT = Tile::BM * Tile::PITCH, FLOATS = (int)LOOP > (int)OUT ? (int)LOOP : (int)OUT };

    const A &a;
    const B &b;
    lefts    as;
    rights   bs;
    float   *room, *in, *out; /* where put() and take() are */

    __device__ pipeline(const A &a_, const B &b_, int64_t m, int64_t n, float *room_)
        : a(a_), b(b_), as(a_, m), bs(b_, n), room(room_), in(room_), out(room_)
    {
    }

    __device__ float *after(float *p) const { return p == room + AHEAD * EACH ? room : p + EACH; }
    /* Step k of a part that ends at `end`; empty where k >= end. What cannot copy by itself lands with land(). */
    __device__ void put(int k, int end)
    {
        if (k < end) {
            as.fetch(a, k, end, in);
            bs.fetch(b, k, end, in + lefts::FLOATS);
        }
        copies_end();
    }
    __device__ void land(bool some)
    {
        if (some) {
            as.land(in);
            bs.land(in + lefts::FLOATS);
        }
        in = after(in);
    }
    __device__ void wait() const
    {
        copies_wait<AHEAD - 1>();
        __syncthreads();
    }
    template <int P> __device__ void multiply(typename Tile::sums &acc) const
    {
        const int warp = threadIdx.x / 32, m = warp / (Tile::BN / Tile::WN) * Tile::WM, n = warp % (Tile::BN / Tile::WN) * Tile::WN;
        const float *left = out + (A::ALONG_K ? m * lefts::PITCH : m);
        const float *right = out + lefts::FLOATS + (B::ALONG_K ? n * rights::PITCH : n);
#ifndef LKI_SIM
#pragma unroll P == PRECISION_CAREFUL ? 1 : Tile::STEP / OCTET
#endif
        for (int k = 0; k < Tile::STEP; k += OCTET)
            multiply_octet<P, Tile::MT, Tile::NT>(factors<A::ALONG_K, lefts::PITCH>{left + (A::ALONG_K ? k : k * lefts::PITCH)},
                                                  factors<B::ALONG_K, rights::PITCH>{right + (B::ALONG_K ? k : k * rights::PITCH)},
                                                  acc);
    }
    template <int P> __device__ void take(typename Tile::sums &acc, bool careful)
    {
        if (P == LKI_PRECISION_F32 && careful) multiply<PRECISION_CAREFUL>(acc);
        else multiply<P>(acc);
        out = after(out);
    }
    __device__ void rewind() { in = out = room; }
};

template <class Tile, class F> __device__ inline void each_sum(F f)
{
    LKI_UNROLL
    for (int i = 0; i < Tile::MT; i++) {
        LKI_UNROLL
        for (int j = 0; j < Tile::NT; j++) {
            LKI_UNROLL
            for (int h = 0; h < 4; h++)
                f(i, j, h);
        }
    }
}

template <class Tile> __device__ inline void clear(typename Tile::sums &s)
{
    each_sum<Tile>([&](int i, int j, int h) { s[i][j][h] = 0; });
}

template <class Tile> __device__ inline bool has_nan(const typename Tile::sums &s)
{
    bool found = false;
    each_sum<Tile>([&](int i, int j, int h) { found = found || isnan(s[i][j][h]); });
    return found;
}

/* One piece, k <= i < end, part after part. */
template <int P, class Tile, class L>
__device__ inline void piece(L &line, int k, int end, int part, bool careful, typename Tile::sums &sum)
{
    typename Tile::sums acc;
    int                 ahead = k, left = part;
    clear<Tile>(acc);
    clear<Tile>(sum);
    line.rewind();
    for (int s = 0; s < L::AHEAD; s++, ahead += Tile::STEP) {
        line.put(ahead, end);
        line.land(ahead < end);
    }
    while (k < end) {
        line.wait();
        line.put(ahead, end);
        line.template take<P>(acc, careful);
        line.land(ahead < end);
        k += Tile::STEP;
        ahead += Tile::STEP;
        if ((left -= Tile::STEP) > 0 && k < end) continue;
        each_sum<Tile>([&](int i, int j, int h) { sum[i][j][h] = sum[i][j][h] + acc[i][j][h]; });
        clear<Tile>(acc);
        left = part;
    }
    copies_wait<0>();
    __syncthreads(); /* shared memory is free */
}

/* Shall the block compute this once more with care? Where a sum came out as NaN an infinity may be the reason (mma.h). */
template <int P, class Tile> __device__ inline bool needs_care(const typename Tile::sums &sum)
{
    return P == LKI_PRECISION_F32 && __syncthreads_or(has_nan<Tile>(sum));
}

/* Sums from shared memory to where e wants them, 4x4 at a time; to a matrix row by row. */
template <class Tile, class E> __device__ inline void store_tile(const E &e, const float *room, bool first, bool last)
{
    for (int q = (int)threadIdx.x; q < Tile::BM / 4 * (Tile::BN / 4); q += Tile::THREADS) {
        const int row = q / (Tile::BN / 4) * 4, column = q % (Tile::BN / 4) * 4;
        float     v[4][4];
        LKI_UNROLL
        for (int i = 0; i < 4; i++)
            load_quad(room + (row + i) * Tile::PITCH + column, v[i]);
        e.put(row, column, v, first, last);
    }
}

template <class Tile> __device__ inline void store_tile(const to_matrix &e, const float *room, bool first, bool last)
{
    for (int q = (int)threadIdx.x; q < Tile::BM * (Tile::BN / 4); q += Tile::THREADS) {
        const int row = q / (Tile::BN / 4), column = q % (Tile::BN / 4) * 4;
        float     v[4];
        load_quad(room + row * Tile::PITCH + column, v);
        e.put_four(row, column, v, first, last);
    }
}

/* By way of shared memory, because a thread's own sums lie scattered. */
template <class Tile, class E>
__device__ inline void put_tile(const E &e, const typename Tile::sums &sum, float *room, bool first, bool last)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int m = warp / (Tile::BN / Tile::WN) * Tile::WM + lane / 4, n = warp % (Tile::BN / Tile::WN) * Tile::WN + lane % 4 * 2;
    LKI_UNROLL
    for (int i = 0; i < Tile::MT; i++) {
        LKI_UNROLL
        for (int j = 0; j < Tile::NT; j++) {
            float *p = room + (m + i * 16) * Tile::PITCH + n + j * 8;
            *(float2 *)p = make_float2(sum[i][j][0], sum[i][j][1]);
            *(float2 *)(p + 8 * Tile::PITCH) = make_float2(sum[i][j][2], sum[i][j][3]);
        }
    }
    __syncthreads();
    store_tile<Tile>(e, room, first, last);
    __syncthreads();
}

/* What a launch is: the tiles of an entry follow each other, columns first, and the entries. */
struct frame {
    cuts     c;
    places   a, b, e; /* of the operands and the result */
    unsigned rows, columns, entries;
    unsigned split; /* blocks that share the pieces of one tile: 1, or as many as there are pieces */

    template <class Tile> __device__ void here(int64_t *m, int64_t *n, unsigned *z) const
    {
        const unsigned t = blockIdx.x / columns;
        *n = (int64_t)(blockIdx.x % columns) * Tile::BN;
        *m = (int64_t)(t % rows) * Tile::BM;
        *z = t / rows;
    }
};

/* Pieces from left to right: all of them by one block, which keeps the sum so far where the result will be, or each by a block of its own, stored apart. One lane only. */
template <int P, class A, class B, class E, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT) chains(A a, B b, E e, LKI_FIXED frame f)
{
    typedef pipeline<Tile, A, B> line_of;
    __shared__ shared_floats<line_of::FLOATS> room;
    typename Tile::sums                       sum;
    int64_t                                   m, n;
    unsigned                                  z;
    f.here<Tile>(&m, &n, &z);
    a.data += f.a(z / f.split);
    b.data += f.b(z / f.split);
    enter(e, f.e(z));
    e.begin(m, n);
    line_of   line(a, b, m, n, room.at);
    const int from = f.split > 1 ? (int)(z % f.split) : 0, to = f.split > 1 ? from + 1 : f.c.count();
    for (int p = from; p < to; p++) {
        int k, end;
        f.c.range(p, &k, &end);
        for (int careful = 0; careful < 2; careful++) {
            piece<P, Tile>(line, k, end, f.c.part, careful, sum);
            if (!needs_care<P, Tile>(sum)) break;
        }
        put_tile<Tile>(e, sum, room.at, p == from, p == to - 1);
    }
}

/* Where a block is that has all lanes of a tile: lane, and what is left of its part. Lanes are one piece each. */
struct lane_walk {
    const cuts &c;
    int         lane, k, end;

    __device__ explicit lane_walk(const cuts &c_) : c(c_), lane(0) { c.range(0, &k, &end); }
    __device__ bool more() const { return lane < c.lanes; }
    __device__ void next(int step) /* ends at lane c.lanes, where k == end */
    {
        k += step;
        if (k < end || ++lane >= c.lanes) return;
        k = end; /* lanes follow each other */
        end = c.bound[lane + 1] * c.unit;
    }
    __device__ bool lane_ends(int step) const { return k + step >= end; }
};

/* The sum of all lanes, with the open sums of the tree in registers. */
template <int P, int LEVELS, class Tile, class L>
__device__ inline void all_lanes(L &line, const cuts &c, bool careful, typename Tile::sums &sum)
{
    typename Tile::sums acc;
    float               open[Tile::MT][Tile::NT][4][LEVELS];
    lane_walk           ahead(c), now(c);
    int                 left = c.part;
    clear<Tile>(acc);
    clear<Tile>(sum);
    line.rewind();
    for (int s = 0; s < L::AHEAD; s++) {
        line.put(ahead.k, ahead.more() ? ahead.end : ahead.k);
        line.land(ahead.more() && ahead.k < ahead.end);
        if (ahead.more()) ahead.next(Tile::STEP);
    }
    while (now.more()) {
        const bool some = ahead.more() && ahead.k < ahead.end;
        line.wait();
        line.put(ahead.k, some ? ahead.end : ahead.k);
        if (now.k < now.end) line.template take<P>(acc, careful);
        else line.out = line.after(line.out);
        line.land(some);
        if (ahead.more()) ahead.next(Tile::STEP);
        left -= Tile::STEP;
        if (left <= 0 || now.lane_ends(Tile::STEP)) {
            each_sum<Tile>([&](int i, int j, int h) { sum[i][j][h] = sum[i][j][h] + acc[i][j][h]; });
            clear<Tile>(acc);
            left = c.part;
        }
        if (now.lane_ends(Tile::STEP)) {
            const bool last = now.lane == c.lanes - 1;
            each_sum<Tile>([&](int i, int j, int h) {
                climb<LEVELS>(open[i][j][h], sum[i][j][h], now.lane);
                if (!last) sum[i][j][h] = 0;
            });
        }
        now.next(Tile::STEP);
    }
    copies_wait<0>();
    __syncthreads();
}

/* Lanes, all by one block. */
template <int P, int LEVELS, class A, class B, class E, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT) branches(A a, B b, E e, LKI_FIXED frame f)
{
    typedef pipeline<Tile, A, B> line_of;
    __shared__ shared_floats<line_of::FLOATS> room;
    typename Tile::sums                       sum;
    int64_t                                   m, n;
    unsigned                                  z;
    f.here<Tile>(&m, &n, &z);
    a.data += f.a(z);
    b.data += f.b(z);
    enter(e, f.e(z));
    e.begin(m, n);
    line_of line(a, b, m, n, room.at);
    for (int careful = 0; careful < 2; careful++) {
        all_lanes<P, LEVELS, Tile>(line, f.c, careful, sum);
        if (!needs_care<P, Tile>(sum)) break;
    }
    put_tile<Tile>(e, sum, room.at, true, true);
}

/* Pieces that lie apart, [entry][piece][M][N], to results. So many of them are read at once that their way from memory is gone once. */
template <int LEVELS, int AT_ONCE>
__global__ void join_pieces(const float *pieces, to_matrix e, LKI_FIXED cuts c, LKI_FIXED places place, int64_t entries)
{
    const int64_t each = e.M * e.N, all = entries * each;
    const int     count = c.count();
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < all; i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t z = i / each, at = i % each, m = at / e.N, n = at % e.N;
        const float  *p = pieces + z * count * each + at;
        float         open[LEVELS], sum = 0, run = 0;
        int           lane = 0;
        for (int from = 0; from < count; from += AT_ONCE) {
            float v[AT_ONCE];
            LKI_UNROLL
            for (int j = 0; j < AT_ONCE; j++)
                v[j] = from + j < count ? p[(from + j) * each] : 0;
            LKI_UNROLL
            for (int j = 0; j < AT_ONCE; j++) {
                if (from + j >= count) break;
                for (; from + j == c.first[lane + 1]; lane++, sum = 0)
                    climb<LEVELS>(open, sum, lane);
                const int nth = from + j - c.first[lane];
                run = nth % c.run ? run + v[j] : v[j];
                if (nth % c.run == c.run - 1 || from + j + 1 == c.first[lane + 1]) sum = sum + run;
            }
        }
        for (; lane < c.lanes; lane++) {
            climb<LEVELS>(open, sum, lane);
            if (lane + 1 < c.lanes) sum = 0;
        }
        const int64_t to = place((unsigned)z) + m * e.step + n;
        e.data[to] = e.end(sum, n, to);
    }
}

/* ---- launches ----------------------------------------------------------------------------------------------------------------------------- */

typedef tile<128, 64, 16, 64, 32, 3, 2> tile_large;
typedef tile<64, 64, 16, 32, 32, 4, 3>  tile_medium;
typedef tile<128, 32, 16, 32, 32, 3, 3> tile_narrow;
typedef tile<32, 32, 32, 16, 16, 4, 4>  tile_small;
typedef tile<64, 64, 8, 32, 16, 4, 1>   tree_medium; /* lanes are often a few rows: short steps */
typedef tile<32, 32, 8, 16, 16, 4, 3>   tree_small;

enum { TILE_LARGE, TILE_MEDIUM, TILE_NARROW, TILE_SMALL, TILES };

struct tile_size {
    int    m, n;
    double speed; /* of a multiprocessor that is full of them */
    double alone; /* and how much of that one block reaches */
};
static const tile_size tile_sizes[TILES] = {{128, 64, 1, 0.6}, {64, 64, 0.85, 0.4}, {128, 32, 0.7, 0.4}, {32, 32, 0.35, 0.6}};

/* Of PROCESSORS multiprocessors, in products per k that the first could have done in that time. */
static inline double tile_time(int t, int64_t M, int64_t N, int64_t entries)
{
    const tile_size *s = &tile_sizes[t];
    const double     each = (double)lki_ceil_div(lki_ceil_div(M, s->m) * lki_ceil_div(N, s->n) * entries, PROCESSORS);
    return (each * s->alone < 1 ? 1 / s->alone : each) * s->m * s->n / s->speed;
}

/* The tile that ends first. */
static inline int tile_for(int64_t M, int64_t N, int64_t entries)
{
    int best = 0;
    for (int t = 1; t < TILES; t++)
        if (tile_time(t, M, N, entries) < tile_time(best, M, N, entries)) best = t;
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

template <int P, class A, class B, class E, class Tile>
static void launch_chains_of(const lki_args *g, const A &a, const B &b, const E &e, frame f)
{
    const int64_t blocks = blocks_of<Tile>(&f, e);
    if (blocks) LKI_LAUNCH((chains<P, A, B, E, Tile>), dim3((unsigned)blocks), dim3(Tile::THREADS), 0, g, a, b, e, f);
}

template <int P, class A, class B, class E>
static void launch_chains_of(const lki_args *g, int which, const A &a, const B &b, const E &e, const frame &f)
{
    if (which == TILE_LARGE) launch_chains_of<P, A, B, E, tile_large>(g, a, b, e, f);
    else if (which == TILE_SMALL) launch_chains_of<P, A, B, E, tile_small>(g, a, b, e, f);
    else launch_chains_of<P, A, B, E, tile_medium>(g, a, b, e, f);
}

/* f.c has one lane, and at least one piece. Split: entry z of e is piece z % f.split of entry z / f.split, of any lane. */
template <class A, class B, class E>
static void launch_chains(const lki_args *g, int which, const A &a, const B &b, const E &e, const frame &f)
{
    const lki_precision p = g->gpu->precision;
    if (p == LKI_PRECISION_TF32) launch_chains_of<LKI_PRECISION_TF32>(g, which, a, b, e, f);
    else if (p == LKI_PRECISION_BF16) launch_chains_of<LKI_PRECISION_BF16>(g, which, a, b, e, f);
    else if (which == TILE_NARROW) launch_chains_of<LKI_PRECISION_F32, A, B, E, tile_narrow>(g, a, b, e, f);
    else launch_chains_of<LKI_PRECISION_F32>(g, which, a, b, e, f);
}

template <int P, int LEVELS, class Tile, class A, class B, class E>
static void launch_branches_of(const lki_args *g, const A &a, const B &b, const E &e, frame f)
{
    const int64_t blocks = blocks_of<Tile>(&f, e);
    if (blocks) LKI_LAUNCH((branches<P, LEVELS, A, B, E, Tile>), dim3((unsigned)blocks), dim3(Tile::THREADS), 0, g, a, b, e, f);
}

/* One block has all lanes of a tile: at most 2^LEVELS. */
template <int LEVELS, class Tile, class A, class B, class E>
static void launch_branches(const lki_args *g, const A &a, const B &b, const E &e, const frame &f)
{
    static void (*const run[LKI_PRECISIONS])(const lki_args *, const A &, const B &, const E &, frame) = {
        launch_branches_of<LKI_PRECISION_F32, LEVELS, Tile, A, B, E>, launch_branches_of<LKI_PRECISION_TF32, LEVELS, Tile, A, B, E>,
        launch_branches_of<LKI_PRECISION_BF16, LEVELS, Tile, A, B, E>};
    run[g->gpu->precision](g, a, b, e, f);
}

/* The same, of any number of lanes. */
template <class A, class B, class E> static void launch_tree(const lki_args *g, const A &a, const B &b, const E &e, const frame &f)
{
    if (f.c.lanes <= 16) launch_branches<4, tree_medium>(g, a, b, e, f);
    else launch_branches<6, tree_small>(g, a, b, e, f);
}

/* Pieces that lie in scratch to the result of e. */
static inline void launch_join(const lki_args *g, const to_matrix &e, const frame &f)
{
    const int64_t n = f.entries * e.M * e.N;
    if (n)
        LKI_LAUNCH_FLAT((join_pieces<7, 16>), dim3((unsigned)lki_min(lki_ceil_div(n, 128), MAP_BLOCKS)), dim3(128), g,
                        (const float *)g->scratch, e, f.c, f.e, (int64_t)f.entries);
}

/* Like launch_chains(), but each piece by blocks of its own, laid in scratch, and then joined. */
template <class A, class B>
static void launch_split(const lki_args *g, int which, const A &a, const B &b, const to_matrix &e, const frame &f)
{
    frame           apart = f;
    const to_matrix pieces = {(float *)g->scratch, e.N, e.M, e.N, nullptr, 0, e.N % 4 == 0};
    apart.split = (unsigned)f.c.count();
    apart.e = places{1, {e.M * e.N}, {}};
    if (apart.split) launch_chains(g, which, a, b, pieces, apart);
    launch_join(g, e, f);
}

} // namespace lki_gpu

#endif
