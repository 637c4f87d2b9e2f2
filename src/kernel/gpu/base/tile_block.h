/* Products by tiles: what a block does, the one loop for matmul and the convolutions of f32. It computes a tile of the result. It
 * loads pieces of both operands, STEP of k at a time, into shared memory; later pieces are copied while its warps multiply the
 * current one on tensor cores (mma.h).
 *
 *     source     where element (row, k) of an operand is: a matrix, an image read through a window (conv.h), ...
 *     cuts       where the sum over k is divided: into lanes, lanes into pieces, pieces into parts
 *     epilogue   what is done with a sum: bias, relu, pool, and where it is stored
 *
 * Invariants
 *  1. One sum per element of the result and part, from +0: groups of 16 k in ascending order, counted from the part's first k
 *     (k_group.h says what the sum of a group is). Tiles, and which block computes which part, never change bits.
 *  2. Parts of a piece are added from left to right, so are pieces of a run, runs of a lane; lanes up the tree; a lane without
 *     entries is +0.
 *  3. k beyond the end of a part counts as 0 * 0, which changes no sum. A cell outside an image counts as 0 * weight: if the weight
 *     is not finite, that differs from the reference, which leaves it out.
 *
 * A source has: ALONG_K, true if memory is contiguous along k (else along rows); `data`, where entry 0 begins; a type `row`;
 * at(row); and load(row, k, end, outside, v), which returns four elements: k ... k+3 of a row, or rows r ... r+3 at k. Elements at
 * or beyond `end` are `outside`. A source that only moves numbers can have COPIES instead, and copy directly to shared memory:
 * start(row, k), where the four are; by_four(k): the fours of this step are 16 bytes aligned; and along rows there(row), how many
 * of the four rows exist, and offset(k), where k is, from 0 on. For a row after the last, any other may be loaded: its results are
 * not stored. */
#ifndef LKI_KERNEL_GPU_BASE_TILE_BLOCK_H
#define LKI_KERNEL_GPU_BASE_TILE_BLOCK_H

#include "kernel/gpu/base/loop.h"
#include <type_traits>

namespace lki_gpu
{

/* Division of 0 <= n < 2^31 by a number that is known at the launch. */
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
struct entry_places {
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

/* ---- sources: matrices ------------------------------------------------------------------------------------------------------- */

__device__ inline void load_quad(const float *p, float *v)
{
    const float4 q = *(const float4 *)p;
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
}

/* In one instruction: the compiler makes four of a plain assignment. */
__device__ inline void store_quad(float *p, const float *v)
{
#ifdef LKI_SIM
    *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
#else
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)), "f"(v[0]), "f"(v[1]), "f"(v[2]),
                 "f"(v[3])
                 : "memory");
#endif
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
    bool         wide; /* four along k are one aligned piece, and K is a multiple of 4 */

    __device__ bool         by_four(int k) const { return wide && k % 4 == 0; }
    __device__ const float *start(int64_t r, int k) const { return data + ((r < rows ? r : rows - 1) * step + k); }
};

/* (r, k) at data[k * step + r] */
struct by_columns {
    enum { ALONG_K = 0, COPIES = 1 };
    const float *data;
    int64_t      step, rows;
    bool         wide; /* four rows are one aligned piece */

    __device__ bool         by_four(int) const { return wide; }
    __device__ int          there(int64_t r) const { return r + 4 <= rows ? 4 : r < rows ? (int)(rows - r) : 1; }
    __device__ const float *start(int64_t r, int k) const { return data + ((r < rows ? r : rows - (wide ? 4 : 1)) + k * step); }
    __device__ int64_t      offset(int k) const { return (int64_t)((uint64_t)(unsigned)k * (unsigned)step); }
};

/* ---- cuts -------------------------------------------------------------------------------------------------------------------- */

/* Lane l holds the entries bound[l] <= i < bound[l+1], `unit` of k each, in pieces of `each` entries: the pieces first[l] <= p <
 * first[l+1]. A piece is divided into parts of `part` k. `run` pieces, counted from the lane's first, are added before runs are. */
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

/* each = 0: one piece per lane, empty or not; else an empty lane has no piece. part = 0: a piece is one part; else a multiple of
 * every STEP. */
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

/* Lanes that end one after the other, added up the tree: after lane s the sums of complete pairs, pairs of pairs, ... are open.
 * When lane 2^n - 1 ends, `sum` is that of all. */
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

/* ---- epilogue: a matrix, with bias and relu ---------------------------------------------------------------------------------- */

struct to_matrix {
    float       *data;
    int64_t      step, M, N;
    const float *bias; /* or NULL */
    int          relu;
    bool         wide; /* four columns are one aligned piece, also in mask and plus */

    const float *mask = nullptr;  /* laid out like data, or NULL */
    const float *scale = nullptr; /* one number, or NULL */
    const float *plus = nullptr;  /* laid out like data, or NULL */

    /* The sum of column n, at data[at]. */
    __device__ float end(float sum, int64_t n, int64_t at) const
    {
        if (bias) sum = sum + bias[n];
        if (mask) sum = mask[at] > 0 ? sum : 0;
        if (scale) sum = sum * *scale;
        if (plus) sum = sum + plus[at];
        return relu && sum < 0 ? 0 : sum;
    }
    /* From here on row and column 0 are those of a tile: small numbers suffice. */
    __device__ void begin(int64_t m, int64_t n)
    {
        data += m * step + n;
        if (mask) mask += m * step + n;
        if (plus) plus += m * step + n;
        if (bias) bias += n;
        M -= m;
        N -= n;
    }
    /* The mask at row m and columns n ... n+3; any value if it is not used. */
    __device__ void fetch_mask(int m, int n, float *four) const
    {
        if (mask && wide && m < M && n < N) load_quad(mask + (m * step + n), four);
    }
    /* Sums of row m and columns n ... n+3: added to what is stored unless they are the first, completed by the epilogue if they are
     * the last. */
    __device__ void put_four(int m, int n, float *v, const float *masked, bool first, bool last) const
    {
        const int64_t at = m * step + n;
        if (m >= M || n >= N) return;
        if (wide) put_quad(n, at, v, masked, first, last);
        else put_singly(n, at, v, first, last);
    }
    __device__ void put_quad(int n, int64_t at, float *v, const float *masked, bool first, bool last) const
    {
        float other[4];
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
            LKI_UNROLL
            for (int j = 0; j < 4; j++)
                v[j] = masked[j] > 0 ? v[j] : 0;
        }
        if (last && scale) {
            const float by = *scale;
            LKI_UNROLL
            for (int j = 0; j < 4; j++)
                v[j] = v[j] * by;
        }
        if (last && plus) {
            load_quad(plus + at, other);
            LKI_UNROLL
            for (int j = 0; j < 4; j++)
                v[j] = v[j] + other[j];
        }
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            v[j] = last && relu && v[j] < 0 ? 0 : v[j];
        store_quad(data + at, v);
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

/* Moves e to the matrix that begins `at` elements after the first. */
template <class E> __device__ inline void enter(E &e, int64_t at) { e.data += at; }
__device__ inline void                    enter(to_matrix &e, int64_t at)
{
    e.data += at;
    if (e.mask) e.mask += at;
    if (e.plus) e.plus += at;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------------------- */

template <int N> struct __align__(16) shared_floats { float at[N]; };

/* True if the block must compute this again with care: if a sum is NaN, an infinity may be the reason (mma.h). */
template <int P, class Tile> __device__ inline bool needs_care(const typename Tile::sums &sum)
{
    return P == LKI_PRECISION_F32 && __syncthreads_or(has_nan<Tile>(sum));
}

/* Sums from shared memory to the result, 4x4 at a time; to a matrix row by row. */
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
    enum { QUADS = Tile::BN / 4, EACH = Tile::BM * QUADS / Tile::THREADS, AT_ONCE = EACH < 8 ? EACH : 8 };
    const int line = (int)threadIdx.x / QUADS, column = (int)threadIdx.x % QUADS * 4;
    static_assert(Tile::THREADS % QUADS == 0 && EACH % AT_ONCE == 0, "a thread stays in its columns");
    for (int from = 0; from < EACH; from += AT_ONCE) { /* all of these masks are loaded before the first is used */
        float mask[AT_ONCE][4];
        LKI_UNROLL
        for (int i = 0; i < AT_ONCE; i++)
            e.fetch_mask(line + (from + i) * (Tile::THREADS / QUADS), column, mask[i]);
        LKI_UNROLL
        for (int i = 0; i < AT_ONCE; i++) {
            const int row = line + (from + i) * (Tile::THREADS / QUADS);
            float     v[4];
            load_quad(room + row * Tile::PITCH + column, v);
            e.put_four(row, column, v, mask[i], first, last);
        }
    }
}

/* Through shared memory, because a thread's sums are scattered. */
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

/* The number of sums of each result that wait until their neighbours are ready: of the parts of a piece so far, of the pieces of a
 * lane so far, and of complete lanes up the tree. */
struct levels {
    int pieces, lanes, count; /* where the latter two begin; the total */
};

/* If a block has one piece of them, or all. */
static inline levels levels_of(const cuts &c, bool split)
{
    levels v = {};
    bool   parts = false, pieces = false;
    for (int l = 0; l < c.lanes; l++) {
        const int64_t entries = c.bound[l + 1] - c.bound[l];
        parts = parts || lki_min(entries, c.each) * c.unit > c.part;
        pieces = pieces || (!split && entries > c.each);
    }
    v.pieces = parts;
    v.lanes = v.count = parts + pieces;
    while (!split && c.lanes >> (v.count - v.lanes) > 1)
        v.count++;
    return v;
}

/* The layout of a launch: the tiles of an entry are consecutive, columns first, then entries. */
struct frame {
    cuts         c;
    entry_places a, b, e; /* of the operands and the result */
    unsigned     rows, columns, entries;
    unsigned     split; /* blocks that divide the pieces of one tile: 1, or as many as there are pieces */

    levels  wait = {};
    divisor by_columns = {}, by_rows = {}, by_split = {}; /* of these numbers */

    template <class Tile> __device__ void here(int64_t *m, int64_t *n, unsigned *z) const
    {
        const int t = by_columns((int)blockIdx.x), r = by_rows(t);
        *n = (int64_t)((int)blockIdx.x - t * (int)columns) * Tile::BN;
        *m = (int64_t)(t - r * (int)rows) * Tile::BM;
        *z = (unsigned)r;
    }
    __device__ unsigned entry_of(unsigned z) const { return (unsigned)by_split((int)z); }
};

/* The sums of V neighbouring elements over pieces that are added one after the other, and over lanes. */
template <int LEVELS, int V> struct piece_sums {
    float open[V][LEVELS], run[V], sum[V];
    int   lane, end, nth; /* lane, the piece after it, index in the run */

    __device__ explicit piece_sums(const cuts &c) : lane(0), end(c.first[1]), nth(0)
    {
        LKI_UNROLL
        for (int i = 0; i < V; i++)
            sum[i] = run[i] = 0;
    }
    __device__ void end_lane(const cuts &c)
    {
        LKI_UNROLL
        for (int i = 0; i < V; i++) {
            climb<LEVELS>(open[i], sum[i], lane);
            if (lane + 1 < c.lanes) sum[i] = 0;
        }
        if (++lane < c.lanes) end = c.first[lane + 1];
    }
    __device__ void add(const cuts &c, int piece, const float *v)
    {
        while (piece == end)
            end_lane(c);
        const bool ends = nth == c.run - 1 || piece + 1 == end;
        LKI_UNROLL
        for (int i = 0; i < V; i++) {
            run[i] = nth ? run[i] + v[i] : v[i];
            if (ends) sum[i] = sum[i] + run[i];
        }
        nth = ends ? 0 : nth + 1;
    }
    /* After the last piece: `sum` is that of all. */
    __device__ void finish(const cuts &c)
    {
        while (lane < c.lanes)
            end_lane(c);
    }
};

/* A block's position in its pieces, step by step; an empty piece has one step too. */
struct piece_walk {
    const cuts &c;
    int         piece, to, lane, k, end;

    __device__      piece_walk(const cuts &c_, int from, int to_) : c(c_), piece(from), to(to_), lane(0) { enter_piece(); }
    __device__ void enter_piece()
    {
        while (piece >= c.first[lane + 1])
            lane++;
        const int from = c.bound[lane] + (piece - c.first[lane]) * c.each, left = c.bound[lane + 1] - from;
        k = from * c.unit;
        end = (from + (left < c.each ? left : c.each)) * c.unit;
    }
    __device__ bool more() const { return piece < to; }
    __device__ bool some() const { return more() && k < end; } /* true if this step is not empty */
    __device__ bool piece_ends(int step) const { return k + step >= end; }
    __device__ void next(int step)
    {
        k += step;
        if (k >= end && ++piece < to) enter_piece();
    }
};

/* Waiting sums are in shared memory, separate for each thread. */
template <class Tile> struct waiting {
    enum { QUADS = Tile::MT * Tile::NT, FLOATS = QUADS * Tile::THREADS * 4 };
    float4       *mine;
    const levels &at;

    __device__ waiting(float *room, const levels &at_) : mine((float4 *)room + threadIdx.x), at(at_) {}

    /* Add the sum that waits there before v, and let the result wait. */
    __device__ void meet(int level, bool add, bool keep, typename Tile::sums &v) const
    {
        LKI_UNROLL
        for (int q = 0; q < QUADS; q++) {
            float  *s = v[q / Tile::NT][q % Tile::NT];
            float4 *p = mine + (level * QUADS + q) * Tile::THREADS;
            if (add) {
                const float4 o = *p;
                s[0] = o.x + s[0], s[1] = o.y + s[1], s[2] = o.z + s[2], s[3] = o.w + s[3];
            }
            if (keep) *p = make_float4(s[0], s[1], s[2], s[3]);
        }
    }
    /* v is the sum of a part. Adds it as far up as possible: false if it waits somewhere, else v is the sum of all. */
    __device__ bool rise(const piece_walk &w, int from, bool first, bool last, typename Tile::sums &v) const
    {
        for (int level = 0; level < at.count; level++) {
            if (level == at.pieces)
                first = w.piece == from || w.piece == w.c.first[w.lane],
                last = w.piece + 1 == w.to || w.piece + 1 == w.c.first[w.lane + 1];
            if (level >= at.lanes) first = !(w.lane >> (level - at.lanes) & 1), last = !first;
            if (first && last) continue;
            meet(level, !first, !last, v);
            if (!last) return false;
        }
        return true;
    }
};

/* The sum of a block's pieces. Returns true if a sum on the way was not finite. */
template <int P, class Tile, class L>
__device__ inline bool sum_of_pieces(L &line, const cuts &c, int from, int to, const waiting<Tile> &wait, typename Tile::sums &acc)
{
    piece_walk ahead(c, from, to), now(c, from, to);
    int        left = c.part;
    bool       first = true;
    float      mark = 0; /* NaN from the first sum on that is not finite */
    line.rewind();
    /* many are not unrolled: short code is loaded sooner */
    for (int s = 0; s < (L::AHEAD > 3 ? kept((int)L::AHEAD) : (int)L::AHEAD); s++) {
        const bool some = ahead.some();
        line.put(ahead.k, some ? ahead.end : ahead.k);
        line.land(some);
        if (ahead.more()) ahead.next(Tile::STEP);
    }
    clear<Tile>(acc);
    for (;;) {
        const bool some = ahead.some();
        line.wait();
        line.put(ahead.k, some ? ahead.end : ahead.k);
        line.template take<P>(acc, now.some());
        line.land(some);
        if (ahead.more()) ahead.next(Tile::STEP);
        const bool last = now.piece_ends(Tile::STEP);
        if ((left -= Tile::STEP) <= 0 || last) {
            if (P == LKI_PRECISION_F32) each_sum<Tile>([&](int i, int j, int h) { mark = fmaf(acc[i][j][h], 0, mark); });
            if (wait.rise(now, from, first, last, acc)) break;
            clear<Tile>(acc);
            left = c.part;
            first = last;
        }
        now.next(Tile::STEP);
    }
    copies_wait<0>();
    return isnan(mark);
}

/* The sums of this block's tile, written to shared memory: of all pieces, or with f.split of one. False if a sum was not finite and
 * has to be computed again; then nothing was written. */
template <int P, class Tile, class A, class B> __device__ inline bool lay_sums(A a, B b, const frame &f, float *room)
{
    typedef pipeline<Tile, A, B> line_of;
    typename Tile::sums          sum;
    int64_t                      m, n;
    unsigned                     z;
    f.here<Tile>(&m, &n, &z);
    const unsigned entry = f.entry_of(z);
    a.data += f.a(entry);
    b.data += f.b(entry);
    line_of             line(a, b, m, n, room);
    const waiting<Tile> wait(room + line_of::FLOATS, f.wait);
    const int           from = (int)(z - entry * f.split), to = f.split > 1 ? from + 1 : f.c.count();
    const bool          found = sum_of_pieces<P, Tile>(line, f.c, from, to, wait, sum);
    if (P != LKI_PRECISION_F32) __syncthreads();
    else if (__syncthreads_or(found)) return false;
    line.lay_down(sum);
    return true;
}

/* A separate function, so that its registers are only used where it is called. */
template <class Tile, class A, class B>
__device__ __noinline__ void lay_sums_with_care(const A &a, const B &b, const frame &f, float *room)
{
    lay_sums<PRECISION_CAREFUL, Tile>(a, b, f, room);
}

/* One block computes a tile. */
template <int P, class A, class B, class E, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT) chains(LKI_FIXED A a, LKI_FIXED B b, E e, LKI_FIXED frame f)
{
    LKI_DYNAMIC_SHARED(float, room);
    int64_t  m, n;
    unsigned z;
    if (!lay_sums<P, Tile>(a, b, f, room)) lay_sums_with_care<Tile>(a, b, f, room); /* an infinity may be the reason (mma.h) */
    __syncthreads();
    f.here<Tile>(&m, &n, &z); /* again, instead of keeping it in registers */
    enter(e, f.e(z));
    e.begin(m, n);
    store_tile<Tile>(e, room, true, true);
}

} // namespace lki_gpu

#endif
