/* CHAIN along mid of [outer, mid, inner] on a card (kernel.h), not divided: one chain per result, summed in one of two ways:
 *
 *     direct     a thread reads the elements it adds. Good for many or short chains.
 *     staged     for few chains: a block owns 8 columns (32 bytes of f32; up to 32 of shorter chains); its 256 threads copy pieces
 *                of them into shared memory, the next piece while one thread per column sums the last one.
 *
 * Sums over rows are computed differently (sums.h). An operation is a struct:
 *
 *     value, sum                type of an element as it is read; type of the accumulator
 *     sum   zero() const        where a chain begins
 *     value load(at) const      at: flat index of the element
 *     void  add(sum &, value) const
 *     void  put(o, sum) const   result o of outer * inner */
#ifndef LKI_KERNEL_GPU_REDUCE_CHAIN_H
#define LKI_KERNEL_GPU_REDUCE_CHAIN_H

#include "kernel/axes.h"
#include "kernel/gpu/base/fold.h"

namespace lki_gpu
{

enum {
    CHAIN_BLOCK = 256,
    CHAIN_STAGE = 64,
    CHAIN_MANY = 132 * 1024,
    CHAIN_SHORT = 64,
    CHAIN_COLUMNS_LOG = 3,
    CHAIN_MOST_COLUMNS_LOG = 5
};

template <typename OP> __global__ void chain_direct(OP op, lki_extent e)
{
    const int64_t o = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (o >= e.outer * e.inner) return;
    int64_t          at = o / e.inner * e.mid * e.inner + o % e.inner;
    typename OP::sum acc = op.zero();
    LKI_UNROLL(8)
    for (int64_t row = 0; row < e.mid; row++, at += e.inner)
        op.add(acc, op.load(at));
    op.put(o, acc);
}

/* Grid: groups of 1 << log columns times outer. */
template <typename OP> __global__ void __launch_bounds__(CHAIN_BLOCK) chain_staged(OP op, lki_extent e, int log, int64_t groups)
{
    typedef typename OP::value value;
    enum { EACH = CHAIN_STAGE / sizeof(value) };
    __shared__ value piece[CHAIN_BLOCK * EACH];
    /* rows of a piece; from one of a thread's elements to its next it is `apart` rows */
    const int        columns = 1 << log, apart = CHAIN_BLOCK >> log, rows = apart * EACH;
    const int64_t    outer = blockIdx.x / groups, column = blockIdx.x % groups * columns + (threadIdx.x & (unsigned)(columns - 1));
    const int64_t    mine = threadIdx.x >> log;
    const bool       inside = column < e.inner, adds = inside && (int)threadIdx.x < columns;
    typename OP::sum acc = op.zero();
    value            next[EACH] = {};
    for (int64_t begin = -rows; begin < e.mid; begin += rows) { /* the first round only reads */
        if (begin >= 0) {
            LKI_UNROLL(16)
            for (int i = 0; i < EACH; i++)
                piece[i * CHAIN_BLOCK + (int)threadIdx.x] = next[i];
            __syncthreads();
        }
        LKI_UNROLL(16)
        for (int i = 0; i < EACH; i++) {
            const int64_t row = begin + rows + mine + i * apart;
            if (inside && row < e.mid) next[i] = op.load((outer * e.mid + row) * e.inner + column);
        }
        if (begin < 0) continue;
        if (adds) {
            const int count = (int)least(rows, e.mid - begin);
            LKI_UNROLL(8)
            for (int i = 0; i < count; i++)
                op.add(acc, piece[(i << log) + (int)threadIdx.x]);
        }
        __syncthreads();
    }
    if (adds) op.put(outer * e.inner + column, acc);
}

/* Columns of a block of chain_staged: more if chains are shorter than its pieces. */
template <typename OP> static int staged_columns_log(lki_extent e)
{
    const int64_t piece = CHAIN_BLOCK * (CHAIN_STAGE / sizeof(typename OP::value));
    int           log = 0;
    while (e.inner > 1 << log && (log < CHAIN_COLUMNS_LOG || (log < CHAIN_MOST_COLUMNS_LOG && piece >> log > e.mid)))
        log++;
    return log;
}

template <typename OP> static void chains(const lki_args *a, const OP &op, lki_extent e)
{
    const int64_t results = e.outer * e.inner;
    (void)a;
    if (results <= 0) return;
    if (results >= CHAIN_MANY || e.mid <= CHAIN_SHORT) {
        LKI_LAUNCH_FLAT((chain_direct<OP>), dim3((unsigned)lki_ceil_div(results, 128)), dim3(128), a, op, e);
        return;
    }
    const int     log = staged_columns_log<OP>(e);
    const int64_t groups = lki_ceil_div(e.inner, 1 << log);
    LKI_LAUNCH((chain_staged<OP>), dim3((unsigned)(groups * e.outer)), dim3(CHAIN_BLOCK), 0, a, op, e, log, groups);
}

} // namespace lki_gpu

#endif
