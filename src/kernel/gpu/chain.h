/* CHAIN and LANES on a card (kernel.h): sums over rows, one chain per lane and result, then the tree over lanes.
 *
 * The operand is [outer, mid, inner], the sum runs over mid; lanes bound mid. A chain is one thread's work, so there are as many
 * busy threads as chains. Two ways:
 *
 *     direct     a thread reads what it adds. Good where chains are many or short.
 *     staged     for few, long chains: a block owns 8 columns of a lane (32 bytes of f32; up to 32 of shorter chains); its 256
 *                threads bring pieces of them into shared memory, the next piece being on its way while one thread per column
 *                adds up the last.
 *
 * With more than one lane the lane sums go to scratch, [lanes][outer * inner], and a second kernel walks the tree. An operation is
 * a struct:
 *
 *     value, sum                        what is read of an element; what accumulates
 *     sum   zero() const                where a chain begins
 *     value load(at, row, column) const at: flat index of the element; row, column: of mid and inner
 *     void  add(sum &, value) const
 *     sum   join(sum, sum) const        of two lanes
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
    CHAIN_MOST_COLUMNS_LOG = 5
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

} // namespace lki_gpu

#endif
