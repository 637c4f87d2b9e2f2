/* Sums over rows on a card: CHAIN and LANES (kernel.h), and the card's own order for long ones.
 *
 * The operand is [outer, mid, inner], the sum runs over mid; lanes bound mid. One chain of many thousand rows is waiting and nothing
 * else, so a card adds up long lanes in parts.
 *
 * Definition. A lane (all of mid, where the call has no lanes) of n rows:
 *
 *     n <= 256    one CHAIN, from +0; nothing at all is +0
 *     else        rows, counted from the lane's first, are cut into parts of 256, the last one shorter. Each part is one CHAIN from
 *                 +0. Then, until one is left: the sums of parts, in order, are cut into groups of 256, and those of a group are
 *                 added up one by one, beginning with the first
 *
 * and the lanes' sums go up the tree over lanes as ever. The order follows from the number of rows of the lane alone: it is the same
 * whatever inner is, and whatever other lanes the call has, so replicas that share the lanes out get the same bits. Short lanes have
 * the reference's. Products (chain_sums) are never cut.
 *
 * Chains are added up in one of three ways:
 *
 *     direct     a thread reads what it adds. Good where chains are many or short.
 *     staged     for few chains: a block owns 8 columns of a lane (32 bytes of f32; up to 32 of shorter chains); its 256 threads
 *                bring pieces of them into shared memory, the next piece being on its way while one thread per column adds up the
 *                last.
 *     parts      of long lanes: likewise, a block owns 32 chains: of as many columns as there are, then of parts that follow each
 *                other.
 *
 * Lane sums go to scratch, [lanes][outer * inner], and a second kernel walks the tree; sums of parts too, [outer][parts of all
 * lanes][inner], so they are an operand of the same form again. An operation is a struct:
 *
 *     value, sum                        what is read of an element; what accumulates
 *     sum   zero() const                where a chain begins
 *     sum   nothing() const             what changes no sum it is joined with: -0, as -0 + x is x (not of products)
 *     value load(at, row, column) const at: flat index of the element; row, column: of mid and inner
 *     void  add(sum &, value) const
 *     sum   join(sum, sum) const        of two lanes or parts
 *     void  put(o, sum) const           result o of outer * inner */
#ifndef LKI_KERNEL_GPU_CHAIN_H
#define LKI_KERNEL_GPU_CHAIN_H

#include "kernel/axes.h"
#include "kernel/gpu/fold.h"

namespace lki_gpu {

enum {
    CHAIN_BLOCK = 256,
    CHAIN_STAGE = 64,
    CHAIN_MANY = 132 * 1024,
    CHAIN_SHORT = 64,
    CHAIN_COLUMNS_LOG = 3,
    CHAIN_MOST_COLUMNS_LOG = 5,
    PART = 256,        /* rows: part of the definition */
    PART_TILE_LOG = 5, /* chains of a block of chain_parts */
    PART_TILE = 1 << PART_TILE_LOG,
    PART_FEW = 32, /* sums of parts that one thread adds up */
    PART_LANES = 8 /* lanes of a block of part_join at a time */
};

/* A call by value: entry elements of mid belong to one entry that lanes count. */
struct chains {
    lki_extent                  e;
    int64_t                     entry;
    lanes                       l;
    __host__ __device__ int64_t results() const { return e.outer * e.inner; }
    __device__ int64_t          from(int lane) const { return l.bound[lane] * entry; }
    __device__ int64_t          to(int lane) const { return l.bound[lane + 1] * entry; }
};

static inline chains chains_of(const lki_args *a, lki_extent e, int64_t entry, bool by_lanes)
{
    chains c = {};
    c.e = e;
    c.entry = by_lanes ? entry : 1;
    c.l.count = 1;
    c.l.bound[1] = e.mid;
    if (by_lanes) c.l = lanes_of(a, e.mid);
    return c;
}

template <typename OP>
__device__ inline void keep(const OP &op, typename OP::sum *lane_sums, const chains &c, int lane, int64_t o,
                            const typename OP::sum &acc)
{
    if (c.l.count == 1) op.put(o, acc);
    else lane_sums[lane * c.results() + o] = acc;
}

/* Grid: blocks of results, lanes. */
template <typename OP> __global__ void chain_direct(OP op, chains c, typename OP::sum *lane_sums)
{
    const int64_t o = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    const int     lane = (int)blockIdx.y;
    if (o >= c.results()) return;
    const int64_t    column = o % c.e.inner, from = c.from(lane), to = c.to(lane);
    int64_t          at = (o / c.e.inner * c.e.mid + from) * c.e.inner + column;
    typename OP::sum acc = op.zero();
    LKI_UNROLL(8)
    for (int64_t row = from; row < to; row++, at += c.e.inner)
        op.add(acc, op.load(at, row, column));
    keep(op, lane_sums, c, lane, o, acc);
}

/* Grid: groups of 1 << log columns times outer, lanes. */
template <typename OP>
__global__ void __launch_bounds__(CHAIN_BLOCK) chain_staged(OP op, chains c, int log, int64_t groups, typename OP::sum *lane_sums)
{
    typedef typename OP::value value;
    enum { EACH = CHAIN_STAGE / sizeof(value) };
    __shared__ value piece[CHAIN_BLOCK * EACH];
    /* rows of a piece; from one of a thread's elements to its next it is `apart` rows */
    const int        columns = 1 << log, apart = CHAIN_BLOCK >> log, rows = apart * EACH;
    const int        lane = (int)blockIdx.y;
    const int64_t    outer = blockIdx.x / groups, column = blockIdx.x % groups * columns + (threadIdx.x & (unsigned)(columns - 1));
    const int64_t    from = c.from(lane), to = c.to(lane), mine = threadIdx.x >> log;
    const bool       inside = column < c.e.inner, adds = inside && (int)threadIdx.x < columns;
    typename OP::sum acc = op.zero();
    value            next[EACH] = {};
    for (int64_t begin = from - rows; begin < to; begin += rows) { /* the first round only reads */
        if (begin >= from) {
            LKI_UNROLL(16)
            for (int i = 0; i < EACH; i++)
                piece[i * CHAIN_BLOCK + (int)threadIdx.x] = next[i];
            __syncthreads();
        }
        LKI_UNROLL(16)
        for (int i = 0; i < EACH; i++) {
            const int64_t row = begin + rows + mine + i * apart;
            if (inside && row < to) next[i] = op.load((outer * c.e.mid + row) * c.e.inner + column, row, column);
        }
        if (begin < from) continue;
        if (adds) {
            const int count = (int)least(rows, to - begin);
            LKI_UNROLL(8)
            for (int i = 0; i < count; i++)
                op.add(acc, piece[(i << log) + (int)threadIdx.x]);
        }
        __syncthreads();
    }
    if (adds) keep(op, lane_sums, c, lane, outer * c.e.inner + column, acc);
}

/* The tree over n sums, 1, 2, 4 or 8 of them, in registers. */
template <typename OP> __device__ inline typename OP::sum join_eight(const OP &op, typename OP::sum *sum, int n)
{
    LKI_UNROLL(3)
    for (int step = 1; step < 8; step *= 2)
        if (step < n) {
            LKI_UNROLL(4)
            for (int s = 0; s + step < 8; s += 2 * step)
                sum[s] = op.join(sum[s], sum[s + step]);
        }
    return sum[0];
}

/* Up the tree over lanes: neighbours first; eights of lanes are read at once. */
template <typename OP> __global__ void chain_join(OP op, chains c, const typename OP::sum *lane_sums)
{
    const int64_t o = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, results = c.results();
    if (o >= results) return;
    typename OP::sum eights[MOST_LANES / 8];
    LKI_UNROLL(8)
    for (int i = 0; i < MOST_LANES / 8; i++) {
        typename OP::sum sum[8];
        eights[i] = op.zero();
        if (8 * i >= c.l.count) continue;
        LKI_UNROLL(8)
        for (int s = 0; s < 8; s++)
            sum[s] = 8 * i + s < c.l.count ? lane_sums[(8 * i + s) * results + o] : op.zero();
        eights[i] = join_eight(op, sum, c.l.count < 8 ? c.l.count : 8);
    }
    op.put(o, join_eight(op, eights, c.l.count / 8));
}

template <typename SUM> static size_t chain_scratch(const chains &c)
{
    return c.l.count > 1 ? (size_t)(c.l.count * c.results()) * sizeof(SUM) : 0;
}

/* Columns of a block of chain_staged: more when chains are shorter than its pieces. */
template <typename OP> static int staged_columns_log(const chains &c)
{
    const int64_t piece = CHAIN_BLOCK * (CHAIN_STAGE / sizeof(typename OP::value));
    int           log = 0;
    while (c.e.inner > 1 << log &&
           (log < CHAIN_COLUMNS_LOG || (log < CHAIN_MOST_COLUMNS_LOG && piece >> log > c.e.mid / c.l.count)))
        log++;
    return log;
}

template <typename OP> static void chain_sums(const lki_args *a, const OP &op, const chains &c)
{
    typedef typename OP::sum sum;
    const int64_t            results = c.results();
    sum                     *lane_sums = (sum *)a->scratch;
    if (results <= 0) return;
    const dim3 flat((unsigned)lki_ceil_div(results, 128));
    if (c.l.count * results >= CHAIN_MANY || c.e.mid / c.l.count <= CHAIN_SHORT)
        LKI_LAUNCH_FLAT((chain_direct<OP>), dim3(flat.x, (unsigned)c.l.count), dim3(128), a, op, c, lane_sums);
    else {
        const int     log = staged_columns_log<OP>(c);
        const int64_t groups = lki_ceil_div(c.e.inner, 1 << log);
        LKI_LAUNCH((chain_staged<OP>), dim3((unsigned)(groups * c.e.outer), (unsigned)c.l.count), dim3(CHAIN_BLOCK), 0, a, op, c,
                   log, groups, lane_sums);
    }
    if (c.l.count > 1) LKI_LAUNCH_FLAT((chain_join<OP>), flat, dim3(128), a, op, c, (const sum *)lane_sums);
}

/* ---- long lanes, in parts ---- */

static inline int64_t longest_lane(const chains &c)
{
    int64_t most = 0;
    for (int s = 0; s < c.l.count; s++)
        most = lki_max(most, (c.l.bound[s + 1] - c.l.bound[s]) * c.entry);
    return most;
}

/* The sums of the parts of c, as an operand. */
static inline chains parts_of(const chains &c)
{
    chains n = {};
    n.entry = 1;
    n.l.count = c.l.count;
    for (int s = 0; s < c.l.count; s++)
        n.l.bound[s + 1] = n.l.bound[s] + lki_ceil_div((c.l.bound[s + 1] - c.l.bound[s]) * c.entry, PART);
    n.e = lki_extent{c.e.outer, n.l.bound[n.l.count], c.e.inner};
    return n;
}

/* Sums of parts as values. */
template <typename OP> struct part_chain {
    typedef typename OP::sum value;
    typedef typename OP::sum sum;
    OP                       op;
    const sum               *sums;
    __device__ sum           zero() const { return op.nothing(); }
    __device__ sum           load(int64_t at, int64_t, int64_t) const { return sums[at]; }
    __device__ void          add(sum &acc, sum v) const { acc = op.join(acc, v); }
};

/* A block: the chains of 1 << log columns times PART_TILE >> log parts of a lane. Grid: tiles of columns, groups of parts (of the
 * longest lane), outer; lanes. */
template <typename OP>
__global__ void __launch_bounds__(CHAIN_BLOCK)
    chain_parts(OP op, chains c, chains n, int log, unsigned tiles, unsigned groups, typename OP::sum *out)
{
    typedef typename OP::value value;
    enum { EACH = CHAIN_STAGE / sizeof(value), ROWS = EACH * CHAIN_BLOCK / PART_TILE, STEP = PART_TILE + 1 };
    static_assert((int)ROWS <= (int)PART && (int)PART % (int)ROWS == 0, "a part is whole pieces");
    __shared__ value piece[ROWS * STEP]; /* a row: one element of each chain, and one more against bank conflicts */
    const int        t = (int)threadIdx.x, columns = 1 << log, mine = t & (columns - 1), lane = (int)blockIdx.y;
    const int64_t    part = (int64_t)(blockIdx.x / tiles % groups) << (PART_TILE_LOG - log), outer = blockIdx.x / tiles / groups;
    const int64_t    column = (int64_t)(blockIdx.x % tiles) * columns + mine;
    const int64_t    from = c.from(lane) + part * PART, to = c.to(lane);
    if (from >= to) return;
    const int  part_mine = t >> log; /* which chain this thread adds up, if any */
    const int  length = (int)least(PART, to - from - part_mine * PART), longest = (int)least(PART, to - from);
    const bool inside = column < c.e.inner, adds = inside && t < PART_TILE && length > 0;
    value      next[EACH] = {};
    auto       acc = op.zero();
    for (int begin = -ROWS; begin < longest; begin += ROWS) { /* the first round only reads */
        if (begin >= 0) {
            LKI_UNROLL(16)
            for (int i = 0; i < EACH; i++) {
                const int line = (i * CHAIN_BLOCK + t) >> log;
                piece[line % ROWS * STEP + (line / ROWS << log) + mine] = next[i];
            }
            __syncthreads();
        }
        LKI_UNROLL(16)
        for (int i = 0; i < EACH; i++) {
            const int     line = (i * CHAIN_BLOCK + t) >> log, k = begin + ROWS + line % ROWS;
            const int64_t row = from + line / ROWS * PART + k;
            if (inside && k < longest && row < to) next[i] = op.load((outer * c.e.mid + row) * c.e.inner + column, row, column);
        }
        if (begin < 0) continue;
        if (adds) {
            const int count = (int)least(ROWS, length - begin);
            LKI_UNROLL(8)
            for (int i = 0; i < count; i++)
                op.add(acc, piece[i * STEP + t]);
        }
        __syncthreads();
    }
    if (adds) out[(outer * n.e.mid + n.l.bound[lane] + part + part_mine) * c.e.inner + column] = acc;
}

/* The last few sums of parts of each lane, and the tree. A block: PART_TILE results, times PART_LANES. */
template <typename OP>
__global__ void __launch_bounds__(PART_TILE *PART_LANES) part_join(OP op, chains c, const typename OP::sum *sums)
{
    typedef typename OP::sum sum;
    struct raw { /* shared memory has no constructors */
        alignas(sizeof(sum)) unsigned char bytes[sizeof(sum)];
    };
    __shared__ raw room[MOST_LANES * PART_TILE];
    sum           *lane_sums = (sum *)(void *)room + threadIdx.x;
    const int64_t  o = (int64_t)blockIdx.x * PART_TILE + threadIdx.x;
    if (o < c.results())
        for (int lane = (int)threadIdx.y; lane < c.l.count; lane += PART_LANES) {
            const int64_t from = c.from(lane), to = c.to(lane);
            const sum    *at = sums + (o / c.e.inner * c.e.mid + from) * c.e.inner + o % c.e.inner;
            sum           acc = from < to ? op.nothing() : op.zero();
            LKI_UNROLL(8)
            for (int64_t k = from; k < to; k++, at += c.e.inner)
                acc = op.join(acc, *at);
            lane_sums[lane * PART_TILE] = acc;
        }
    __syncthreads();
    if (threadIdx.y || o >= c.results()) return;
    for (int step = 1; step < c.l.count; step *= 2)
        for (int s = 0; s < c.l.count; s += 2 * step)
            lane_sums[s * PART_TILE] = op.join(lane_sums[s * PART_TILE], lane_sums[(s + step) * PART_TILE]);
    op.put(o, lane_sums[0]);
}

template <typename OP>
static void part_level(const lki_args *a, const OP &op, const chains &c, const chains &n, typename OP::sum *out)
{
    int log = 0;
    (void)a;
    while (log < PART_TILE_LOG && c.e.inner > 1 << log)
        log++;
    const unsigned tiles = (unsigned)lki_ceil_div(c.e.inner, 1 << log);
    const unsigned groups = (unsigned)lki_ceil_div(longest_lane(c), PART << (PART_TILE_LOG - log));
    LKI_LAUNCH((chain_parts<OP>), dim3((unsigned)(tiles * c.e.outer * groups), (unsigned)c.l.count), dim3(CHAIN_BLOCK), 0, a, op, c,
               n, log, tiles, groups, out);
}

/* Sums of parts, and of sums of parts, of `rows` rows in `lanes` lanes: at most so many. */
static inline int64_t most_parts(int64_t rows, int lanes) { return rows / PART + lanes; }

template <typename SUM> static size_t sums_scratch(const chains &c)
{
    const int64_t parts = most_parts(c.e.mid, c.l.count);
    if (c.e.mid <= PART) return chain_scratch<SUM>(c);
    return (size_t)((parts + most_parts(parts, c.l.count)) * c.results()) * sizeof(SUM);
}

/* Sums by the definition above; levels take turns with two stretches of scratch. */
template <typename OP> static void sums(const lki_args *a, const OP &op, const chains &c)
{
    typedef typename OP::sum sum;
    if (c.results() <= 0) return;
    if (longest_lane(c) <= PART) {
        chain_sums(a, op, c);
        return;
    }
    sum   *from = (sum *)a->scratch, *to = from + most_parts(c.e.mid, c.l.count) * c.results();
    chains n = parts_of(c);
    part_level(a, op, c, n, from);
    while (longest_lane(n) > PART_FEW) {
        const chains shorter = parts_of(n);
        part_level(a, part_chain<OP>{op, from}, n, shorter, to);
        sum *const written = to;
        to = from;
        from = written;
        n = shorter;
    }
    LKI_LAUNCH((part_join<OP>), dim3((unsigned)lki_ceil_div(c.results(), PART_TILE)), dim3(PART_TILE, PART_LANES), 0, a, op, n,
               (const sum *)from);
}

} // namespace lki_gpu

#endif
