/* Sums over rows on a card, in an order that is defined here: LANES (kernel.h) with divided chains, since one chain of many
 * thousand rows would only wait.
 *
 * The operand is [outer, mid, inner], the sum runs over mid; lanes bound mid. Definition: a lane (all of mid, if the call has no
 * lanes) of n rows, counted from its first,
 *
 *     n = 0       is +0
 *     n <= 64     is one CHAIN from +0, as in the reference
 *     else        is divided into parts of 256 rows, or of 512, 1024, ...: the smallest that gives at most 256 parts; the last one
 *                 is shorter. Row k of a part is added to accumulator k mod 32, a CHAIN from +0 each, and the 32 go up a binary
 *                 tree, neighbours first. Part p of the lane is then added to accumulator p mod 16, each beginning with its first
 *                 part, and these 16 go up a binary tree likewise; accumulators without a part are left out
 *
 * and the lanes' sums go up the tree over lanes as always. The order follows from the number of rows of the lane alone. It does not
 * depend on inner or on other lanes of the call, so replicas that divide the lanes between them get the same bits.
 *
 * Kernels; the choice between them never changes bits:
 *
 *     sum_short    lanes of up to 64 rows: a thread per lane and result, then the tree
 *     sum_whole    up to 4096 rows: a block owns a bunch of columns (16 bytes), its warps the parts; one launch computes the result
 *     sum_parts    else: a block owns a part of 8 bunches (128 bytes) of columns, with 32 threads each; if inner is smaller, of
 *                  several parts. Sums of parts are written to scratch, [outer][parts of all lanes][inner];
 *     sum_join     adds them up, and the lanes
 *
 * An operation is a struct:
 *
 *     element, sum                      type of what is read; type of accumulators
 *     OPERANDS                          how many elements are read for each that is summed
 *     values<V>, V elements' operands   load<V>(at, row) reads those from flat index `at` on, of row `row` of mid
 *     fixed<V>                          fix<V>(column): data of V columns, read once
 *     void add<V>(sum *, values<V>, fixed<V>) const
 *     sum  zero() const                 where a chain begins
 *     sum  nothing() const              changes no sum it is joined with: -0, as -0 + x is x
 *     sum  join(sum, sum) const         of two accumulators, parts or lanes: the same in either order
 *     void put(o, sum) const            result o of outer * inner
 *     addresses() const                 of the operands, or-ed (host) */
#ifndef LKI_KERNEL_GPU_BASE_SUMS_H
#define LKI_KERNEL_GPU_BASE_SUMS_H

#include "kernel/axes.h"
#include "kernel/gpu/base/bunch.h"
#include "kernel/gpu/base/fold.h"

namespace lki_gpu
{

enum {
    SUM_SHORT = 64, /* these five are part of the definition */
    SUM_WAYS = 32,
    SUM_PART_LOG = 8,
    SUM_MOST_PARTS = 256,
    SUM_JOINS = 16,

    SUM_BLOCK = 256,
    SUM_ACROSS_LOG = 3,    /* neighbouring threads of a block of sum_parts */
    SUM_WHOLE_ROWS = 4096, /* the most rows of sum_whole: 16 parts of a lane, one for each of its accumulators */
    SUM_WHOLE_WARPS = 16,
    SUM_WHOLE_BLOCKS = 264,
    SUM_AHEAD_BYTES = 128, /* per thread, in flight at once */
    SUM_JOIN_LANES = 8
};
static_assert((int)SUM_WHOLE_ROWS <= (int)SUM_JOINS << (int)SUM_PART_LOG, "sum_whole joins one part per accumulator");

/* Two sums at once, in f64. */
struct two_sums {
    double first, second;
};

template <typename T> __device__ inline T other_thread(T v, int by) { return __shfl_xor_sync((unsigned)FULL_WARP, v, by); }
__device__ inline two_sums                other_thread(two_sums v, int by)
{
    return {__shfl_xor_sync((unsigned)FULL_WARP, v.first, by), __shfl_xor_sync((unsigned)FULL_WARP, v.second, by)};
}

/* Memory for a T in shared memory, which allows no constructors. */
template <typename T> struct alignas(sizeof(T)) raw {
    unsigned char bytes[sizeof(T)];
};

__host__ __device__ inline int part_log(int64_t n)
{
    int log = SUM_PART_LOG;
    while (n > (int64_t)SUM_MOST_PARTS << log)
        log++;
    return log;
}

__host__ __device__ inline int part_count(int64_t n) { return (int)((n + ((int64_t)1 << part_log(n)) - 1) >> part_log(n)); }

/* The arguments of a call. */
struct row_sums {
    lki_extent                  e;
    int                         lanes;
    int                         first[MOST_LANES + 1]; /* parts of a lane: first[lane] <= p < first[lane + 1] */
    int64_t                     bound[MOST_LANES + 1]; /* rows */
    __host__ __device__ int64_t results() const { return e.outer * e.inner; }
    __host__ __device__ int64_t rows(int lane) const { return bound[lane + 1] - bound[lane]; }
    __host__ __device__ int     parts(int lane) const { return first[lane + 1] - first[lane]; }
    __host__ __device__ int     all_parts() const { return first[lanes]; }
};

/* entry: rows of mid per entry that lanes count. */
static inline row_sums row_sums_of(const lki_args *a, lki_extent e, int64_t entry, bool by_lanes)
{
    row_sums c = {};
    c.e = e;
    c.lanes = by_lanes && a->lanes ? a->lanes->count : 1;
    c.bound[1] = e.mid;
    for (int s = 0; by_lanes && a->lanes && s <= c.lanes; s++)
        c.bound[s] = a->lanes->bound[s] * entry;
    for (int s = 0; s < c.lanes; s++)
        c.first[s + 1] = c.first[s] + part_count(c.rows(s));
    return c;
}

/* ---- what the kernels share ---- */

/* The tree over COUNT sums, a power of two, in registers. */
template <int COUNT, typename OP> __device__ inline typename OP::sum join_tree(const OP &op, typename OP::sum *sum)
{
    LKI_UNROLL(8)
    for (int step = 1; step < COUNT; step *= 2) {
        LKI_UNROLL(32)
        for (int s = 0; s + step < COUNT; s += 2 * step)
            sum[s] = op.join(sum[s], sum[s + step]);
    }
    return sum[0];
}

/* The tree over the sums of all lanes, `apart` apart in memory. */
template <typename OP> __device__ inline typename OP::sum join_lanes(const OP &op, typename OP::sum *sum, int lanes, int apart)
{
    for (int step = 1; step < lanes; step *= 2)
        for (int s = 0; s < lanes; s += 2 * step)
            sum[s * apart] = op.join(sum[s * apart], sum[(s + step) * apart]);
    return sum[0];
}

/* Sums of V columns over `count` rows, `apart` rows from one to the next; (at, row): the first. */
template <int V, typename OP>
__device__ inline void add_rows(const OP &op, typename OP::sum *acc, int64_t at, int64_t row, int64_t column, int64_t inner,
                                int apart, int64_t count)
{
    typedef typename OP::template values<V> values;
    enum {
        BYTES = OP::OPERANDS * V * (int)sizeof(typename OP::element),
        FIT = SUM_AHEAD_BYTES / BYTES,
        AHEAD = FIT < 1   ? 1
                : FIT > 8 ? 8
                          : FIT
    };
    const auto    fixed = op.template fix<V>(column);
    const int64_t step = apart * inner;
    values        v[AHEAD] = {};
    for (; count >= AHEAD; count -= AHEAD) {
        LKI_UNROLL(8)
        for (int i = 0; i < AHEAD; i++, at += step, row += apart)
            v[i] = op.template load<V>(at, row);
        LKI_UNROLL(8)
        for (int i = 0; i < AHEAD; i++)
            op.template add<V>(acc, v[i], fixed);
    }
    LKI_UNROLL(8)
    for (int i = 0; i < AHEAD - 1; i++, at += step, row += apart)
        if (i < count) v[i] = op.template load<V>(at, row);
    LKI_UNROLL(8)
    for (int i = 0; i < AHEAD - 1; i++)
        if (i < count) op.template add<V>(acc, v[i], fixed);
}

/* Accumulator `way` of a part of a lane, for V columns. inside: these columns and this part exist. */
template <int V, typename OP>
__device__ inline void add_part(const OP &op, const row_sums &c, typename OP::sum *acc, int64_t outer, int lane, int64_t part,
                                int way, int64_t column, bool inside)
{
    const int64_t n = c.rows(lane), from = part << part_log(n), rows = least(n - from, (int64_t)1 << part_log(n));
    const bool    is_short = n <= SUM_SHORT; /* one chain: other threads are left out */
    const bool    works = inside && way < rows && !(is_short && way);
    LKI_UNROLL(4)
    for (int j = 0; j < V; j++)
        acc[j] = is_short && way ? op.nothing() : op.zero();
    if (!works) return;
    const int64_t row = c.bound[lane] + from + way;
    add_rows<V>(op, acc, (outer * c.e.mid + row) * c.e.inner + column, row, column, c.e.inner, is_short ? 1 : SUM_WAYS,
                is_short ? rows : (rows - way + SUM_WAYS - 1) / SUM_WAYS);
}

/* ---- kernels ---- */

/* Grid: blocks of 1 << log results; a block's threads: results, then lanes. */
template <typename OP> __global__ void __launch_bounds__(SUM_BLOCK) sum_short(LKI_FIXED OP op, LKI_FIXED row_sums c, int log)
{
    typedef typename OP::sum sum;
    __shared__ raw<sum> room[SUM_BLOCK * MOST_LANES / SUM_JOIN_LANES];
    const int           at_once = SUM_BLOCK >> log, mine = (int)threadIdx.x & ((1 << log) - 1);
    const int64_t       o = ((int64_t)blockIdx.x << log) + mine;
    const bool          inside = o < c.results();
    const int64_t       outer = inside ? o / c.e.inner : 0, column = o - outer * c.e.inner;
    sum *const          lane_sums = (sum *)(void *)room + mine;
    for (int lane = (int)threadIdx.x >> log; lane < c.lanes; lane += at_once) {
        const int64_t row = c.bound[lane];
        sum           acc[1] = {op.zero()};
        if (inside) add_rows<1>(op, acc, (outer * c.e.mid + row) * c.e.inner + column, row, column, c.e.inner, 1, c.rows(lane));
        lane_sums[lane << log] = acc[0];
    }
    if (c.lanes > 1) __syncthreads();
    if (inside && (int)threadIdx.x < 1 << log) op.put(o, join_lanes(op, lane_sums, c.lanes, 1 << log));
}

/* Grid: bunches of columns, times outer. A warp takes a part at a time. */
template <typename OP, int V>
__global__ void __launch_bounds__(32 * SUM_WHOLE_WARPS) sum_whole(LKI_FIXED OP op, LKI_FIXED row_sums c, unsigned tiles)
{
    typedef typename OP::sum sum;
    enum { MOST_PARTS = (SUM_WHOLE_ROWS >> SUM_PART_LOG) + MOST_LANES };
    __shared__ raw<sum> part_room[MOST_PARTS * V], lane_room[MOST_LANES * V];
    sum *const part_sums = (sum *)(void *)part_room, *const lane_sums = (sum *)(void *)lane_room;
    const int     t = (int)threadIdx.x, threads = (int)blockDim.x;
    const int64_t outer = blockIdx.x / tiles, column = (int64_t)(blockIdx.x % tiles) * V;
    int           lane = 0;
    for (int p = t / 32; p < c.all_parts(); p += threads / 32) {
        sum acc[V];
        while (c.first[lane + 1] <= p)
            lane++;
        add_part<V>(op, c, acc, outer, lane, p - c.first[lane], t % 32, column, true);
        LKI_UNROLL(5)
        for (int by = 1; by < 32; by *= 2)
            for (int j = 0; j < V; j++)
                acc[j] = op.join(acc[j], other_thread(acc[j], by));
        for (int j = 0; j < V; j++)
            if (t % 32 == 0) part_sums[p * V + j] = acc[j];
    }
    __syncthreads();
    for (int k = t; k < c.lanes * V; k += threads) {
        const int  parts = c.parts(k / V);
        const sum *from = part_sums + c.first[k / V] * V + k % V;
        sum        s[SUM_JOINS];
        LKI_UNROLL(16)
        for (int i = 0; i < SUM_JOINS; i++)
            s[i] = i < parts ? from[i * V] : op.nothing();
        lane_sums[k] = parts ? join_tree<SUM_JOINS>(op, s) : op.zero();
    }
    __syncthreads();
    if (t < V) op.put(outer * c.e.inner + column + t, join_lanes(op, lane_sums + t, c.lanes, V));
}

/* A block: 1 << log bunches side by side, SUM_WAYS threads for each, and as many parts as fill the block. Grid: tiles of columns,
 * groups of parts (of the longest lane), outer; lanes. out NULL: there is one part and one lane, whose sums are the result. */
template <typename OP, int V>
__global__ void __launch_bounds__(SUM_BLOCK)
    sum_parts(LKI_FIXED OP op, LKI_FIXED row_sums c, int log, unsigned tiles, unsigned groups, typename OP::sum *out)
{
    typedef typename OP::sum sum;
    enum { ACROSS = 1 << SUM_ACROSS_LOG };
    __shared__ raw<sum> room[ACROSS * ACROSS * V];
    sum *const          rows = (sum *)(void *)room; /* [parts][warps of a part][columns] */
    const int           t = (int)threadIdx.x, lane = (int)blockIdx.y, across = 1 << log, columns = V << log;
    const int64_t       group = blockIdx.x / tiles % groups << (SUM_ACROSS_LOG - log), outer = blockIdx.x / tiles / groups;
    const int64_t       left = (int64_t)(blockIdx.x % tiles) * columns;
    const int           parts = c.parts(lane), mine = t >> (log + 5);
    if (group >= parts) return;
    const int64_t column = left + (t & (across - 1)) * V;
    sum           acc[V];
    add_part<V>(op, c, acc, outer, lane, group + mine, t >> log & (SUM_WAYS - 1), column,
                column < c.e.inner && group + mine < parts);
    for (int by = across; by < 32; by *= 2)
        for (int j = 0; j < V; j++)
            acc[j] = op.join(acc[j], other_thread(acc[j], by));
    for (int j = 0; j < V; j++)
        if (t % 32 < across) rows[(t / 32) * columns + (t & (across - 1)) * V + j] = acc[j];
    __syncthreads();
    if (t >= ACROSS * V) return;
    const int part = t / columns, k = t % columns; /* ACROSS / across parts, of `across` warps each */
    sum       s[ACROSS];
    LKI_UNROLL(8)
    for (int i = 0; i < ACROSS; i++)
        s[i] = i < across ? rows[(part * across + i) * columns + k] : op.nothing();
    const sum total = join_tree<ACROSS>(op, s);
    if (left + k >= c.e.inner || group + part >= parts) return;
    if (!out) op.put(outer * c.e.inner + left + k, total);
    else out[(outer * c.all_parts() + c.first[lane] + group + part) * c.e.inner + left + k] = total;
}

/* A block's threads: 32 bytes of sums side by side, SUM_JOINS accumulators, up to SUM_JOIN_LANES lanes. */
template <typename OP>
__global__ void __launch_bounds__(1024) sum_join(LKI_FIXED OP op, LKI_FIXED row_sums c, const typename OP::sum *parts)
{
    typedef typename OP::sum sum;
    enum { COLUMNS = 32 / sizeof(sum), AHEAD = 8 };
    __shared__ raw<sum> room[SUM_JOIN_LANES * SUM_JOINS * COLUMNS], lane_room[MOST_LANES * COLUMNS];
    sum *const          ways = (sum *)(void *)room + threadIdx.z * (SUM_JOINS * COLUMNS) + threadIdx.x;
    sum *const          lane_sums = (sum *)(void *)lane_room + threadIdx.x;
    const int64_t       o = (int64_t)blockIdx.x * COLUMNS + threadIdx.x;
    const bool          inside = o < c.results();
    const int64_t       outer = inside ? o / c.e.inner : 0, column = o - outer * c.e.inner;
    for (int lane = (int)threadIdx.z; lane < c.lanes;
         lane += (int)blockDim.z) { /* the number of lanes is a power of two: all threads take part */
        const int  count = inside ? c.parts(lane) : 0;
        const sum *from = parts + (outer * c.all_parts() + c.first[lane]) * c.e.inner + column;
        sum        acc = op.nothing(), v[AHEAD];
        for (int p = (int)threadIdx.y; p < count; p += AHEAD * SUM_JOINS) {
            LKI_UNROLL(8)
            for (int i = 0; i < AHEAD; i++)
                v[i] = p + i * SUM_JOINS < count ? from[(p + i * SUM_JOINS) * c.e.inner] : op.nothing();
            LKI_UNROLL(8)
            for (int i = 0; i < AHEAD; i++)
                acc = op.join(acc, v[i]);
        }
        ways[threadIdx.y * COLUMNS] = acc;
        __syncthreads();
        if (threadIdx.y == 0) {
            sum s[SUM_JOINS];
            LKI_UNROLL(16)
            for (int i = 0; i < SUM_JOINS; i++)
                s[i] = ways[i * COLUMNS];
            lane_sums[lane * COLUMNS] = count ? join_tree<SUM_JOINS>(op, s) : op.zero();
        }
        __syncthreads();
    }
    if (inside && threadIdx.y == 0 && threadIdx.z == 0) op.put(o, join_lanes(op, lane_sums, c.lanes, COLUMNS));
}

/* ---- launches ---- */

static inline int64_t longest_lane(const row_sums &c)
{
    int64_t most = 0;
    for (int s = 0; s < c.lanes; s++)
        most = lki_max(most, c.rows(s));
    return most;
}

/* For any bounds: parts have 256 rows or more, except the last of each lane. */
template <typename SUM> static size_t sums_scratch(const row_sums &c)
{
    const int64_t parts = (c.e.mid >> SUM_PART_LOG) + c.lanes;
    return parts > 1 && c.e.mid > SUM_SHORT ? (size_t)(parts * c.results()) * sizeof(SUM) : 0;
}

template <int V, typename OP> static void long_sums(const lki_args *a, const OP &op, const row_sums &c)
{
    typedef typename OP::sum sum;
    enum { COLUMNS = 32 / sizeof(sum) };
    const int64_t all = c.bound[c.lanes] - c.bound[0], side = c.e.inner / V;
    const int     most = part_count(longest_lane(c));
    const bool    one = c.lanes == 1 && most == 1;
    if (!one && all <= SUM_WHOLE_ROWS && side * c.e.outer <= SUM_WHOLE_BLOCKS) {
        const int warps = (int)lki_min(c.all_parts(), SUM_WHOLE_WARPS);
        LKI_LAUNCH((sum_whole<OP, V>), dim3((unsigned)(side * c.e.outer)), dim3(32 * (unsigned)warps), 0, a, op, c, (unsigned)side);
        return;
    }
    int log = 0;
    while (log < SUM_ACROSS_LOG && side > 1 << log)
        log++;
    const unsigned tiles = (unsigned)lki_ceil_div(side, 1 << log),
                   groups = (unsigned)lki_ceil_div(most, 1 << (SUM_ACROSS_LOG - log));
    sum *const out = one ? (sum *)NULL : (sum *)a->scratch;
    LKI_LAUNCH((sum_parts<OP, V>), dim3((unsigned)(tiles * groups * c.e.outer), (unsigned)c.lanes), dim3(SUM_BLOCK), 0, a, op, c,
               log, tiles, groups, out);
    if (one) return;
    const unsigned lanes = (unsigned)lki_min(c.lanes, SUM_JOIN_LANES);
    LKI_LAUNCH((sum_join<OP>), dim3((unsigned)lki_ceil_div(c.results(), COLUMNS)), dim3(COLUMNS, SUM_JOINS, lanes), 0, a, op, c,
               (const sum *)out);
}

/* Sums by the definition above. */
template <typename OP> static void sums(const lki_args *a, const OP &op, const row_sums &c)
{
    typedef typename OP::element element;
    enum { WIDE = 16 / sizeof(element) };
    if (c.results() <= 0) return;
    if (longest_lane(c) <= SUM_SHORT) {
        int log = 8;
        for (int lanes = 1; lanes < c.lanes && lanes < SUM_JOIN_LANES; lanes *= 2)
            log--;
        LKI_LAUNCH((sum_short<OP>), dim3((unsigned)lki_ceil_div(c.results(), 1 << log)), dim3(SUM_BLOCK), 0, a, op, c, log);
    } else if (bunches(c.e.inner, WIDE, op.addresses(), sizeof(element))) long_sums<WIDE>(a, op, c);
    else long_sums<1>(a, op, c);
}

} // namespace lki_gpu

#endif
