/* FOLD on a card (kernel.h, fold.h): the 16 accumulators of a block of 4096 elements are the 16 threads of half a warp, and the
 * tree over blocks is walked pairwise.
 *
 * Kernels along rows are written once, for a team that owns a row:
 *
 *     half_warp      16 threads, rows of up to 4096 elements: one block of FOLD. Eight teams make a thread block.
 *     held_row       the same, f32 rows of up to 256 elements, which it keeps in registers (held.h).
 *     whole_block    256 threads, longer rows: each of its 16 half warps takes a block of FOLD at a time.
 *
 * An operation is a struct with a template operator()(const TEAM &), which all threads of the team run; the members of a team let
 * it fold, find the largest, and walk the elements. Invariants
 *  1. All threads of a warp call every fold() and largest(): a team after the last row takes part with no elements, live = false.
 *  2. Results of fold() and largest() are the same in all threads of a team.
 *  3. for_each() runs after all reads of an earlier fold(), so a result may overwrite an operand. */
#ifndef LKI_KERNEL_GPU_BASE_FOLD_H
#define LKI_KERNEL_GPU_BASE_FOLD_H

#include "kernel/fold.h"
#include "kernel/gpu/base/gpu.h"

/* LKI_UNROLL(8) for (...): loads of several rounds are in flight at once. */
#ifdef LKI_SIM
#define LKI_UNROLL(n)
#else
#define LKI_UNROLL_TEXT(text) _Pragma(#text)
#define LKI_UNROLL(n) LKI_UNROLL_TEXT(unroll n)
#endif

namespace lki_gpu
{

enum { FULL_WARP = -1, FOLD_HALVES = 16, HALF_WARP_ROWS = 8 };

__host__ __device__ inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The tree over n sums in memory, walked by one thread; any n: a sum without a neighbour moves up as it is. */
template <typename T> __device__ inline T pairwise(T *sum, int n)
{
    for (int step = 1; step < n; step *= 2)
        for (int s = 0; s + step < n; s += 2 * step)
            sum[s] = sum[s] + sum[s + step];
    return sum[0];
}

/* One block of FOLD by the 16 threads of half a warp; t is this thread: acc = step(acc, j) for from <= j < to. The sum is valid in
 * thread 0 of the half. AHEAD: how many steps to unroll. */
template <typename T, int AHEAD = 16, typename F> __device__ inline T fold_block(int t, int64_t from, int64_t to, const F &step)
{
    T acc = 0;
    LKI_UNROLL(AHEAD)
    for (int64_t j = from + t; j < to; j += LKI_FOLD_WIDTH)
        acc = step(acc, j);
    for (int half = LKI_FOLD_WIDTH / 2; half; half /= 2)
        acc = acc + __shfl_down_sync((unsigned)FULL_WARP, acc, half, LKI_FOLD_WIDTH);
    return acc;
}

/* The result of m = x > m ? x : m over a row, from the values of the threads of a part of a warp; NaN is left out. */
template <typename T> __device__ inline T largest_of(T m, int threads)
{
    for (int by = threads / 2; by; by /= 2) {
        const T other = __shfl_xor_sync((unsigned)FULL_WARP, m, by);
        m = other > m ? other : m;
    }
    return m;
}

/* The elements of one row. The index type is as wide as the team's rows need. */
struct half_warp {
    enum { THREADS = HALF_WARP_ROWS * LKI_FOLD_WIDTH, ROWS = HALF_WARP_ROWS };
    int64_t row;
    int     n, t; /* elements (0 without a row), number of this thread in the team */
    bool    live;

    __device__ half_warp(int64_t rows, int64_t width)
        : row(blockIdx.x * (int64_t)ROWS + threadIdx.x / LKI_FOLD_WIDTH), t((int)(threadIdx.x % LKI_FOLD_WIDTH)), live(row < rows)
    {
        n = live ? (int)width : 0;
    }
    __device__ bool leads() const { return live && t == 0; }

    template <typename T> __device__ const T *read(const T *x) const { return x; }

    template <typename T, int AHEAD = 16, typename F> __device__ T fold(const F &step) const
    {
        return __shfl_sync((unsigned)FULL_WARP, fold_block<T, AHEAD>(t, 0, n, step), 0, LKI_FOLD_WIDTH);
    }
    template <typename T> __device__ T largest(const T *x) const
    {
        T m = -(T)INFINITY;
        LKI_UNROLL(8)
        for (int j = t; j < n; j += LKI_FOLD_WIDTH)
            m = x[j] > m ? x[j] : m;
        return largest_of(m, LKI_FOLD_WIDTH);
    }
    template <typename F> __device__ void for_each(const F &f) const
    {
        LKI_UNROLL(4)
        for (int j = t; j < n; j += LKI_FOLD_WIDTH)
            f(j);
    }
};

/* Like half_warp, for any threads of the block and for short rows: nothing is unrolled, so that the code is short. */
struct small_team {
    int64_t row;
    int     n, t;
    bool    live;

    __device__ bool leads() const { return live && t == 0; }

    template <typename T, int AHEAD = 1, typename F> __device__ T fold(const F &step) const
    {
        return __shfl_sync((unsigned)FULL_WARP, fold_block<T, 1>(t, 0, n, step), 0, LKI_FOLD_WIDTH);
    }
    template <typename T> __device__ T largest(const T *x) const
    {
        T m = -(T)INFINITY;
        LKI_UNROLL(1)
        for (int j = t; j < n; j += LKI_FOLD_WIDTH)
            m = x[j] > m ? x[j] : m;
        return largest_of(m, LKI_FOLD_WIDTH);
    }
    template <typename F> __device__ void for_each(const F &f) const
    {
        LKI_UNROLL(1)
        for (int j = t; j < n; j += LKI_FOLD_WIDTH)
            f(j);
    }
};

struct whole_block {
    enum { THREADS = FOLD_HALVES * LKI_FOLD_WIDTH, ROWS = 1 };
    int64_t row, n;
    bool    live;

    __device__      whole_block(int64_t, int64_t width) : row(blockIdx.x), n(width), live(true) {}
    __device__ bool leads() const { return threadIdx.x == 0; }

    template <typename T> __device__ const T *read(const T *x) const { return x; }

    /* Sums of 16 blocks of FOLD are complete subtrees, except the last, so groups of 16 are added by the same tree: the counter of
     * fold.h, kept by thread 0. */
    template <typename T, int AHEAD = 16, typename F> __device__ T fold(const F &step) const
    {
        __shared__ T  sum[FOLD_HALVES], open[LKI_FOLD_DEPTH];
        const int     half = (int)threadIdx.x / LKI_FOLD_WIDTH, t = (int)threadIdx.x % LKI_FOLD_WIDTH;
        const int64_t blocks = (n + LKI_FOLD_BLOCK - 1) / LKI_FOLD_BLOCK;
        int           count = 0;
        for (int64_t first = 0; first < blocks; first += FOLD_HALVES) {
            const int64_t from = (first + half) * LKI_FOLD_BLOCK;
            const T       mine = fold_block<T, AHEAD>(t, from, least(n, from + LKI_FOLD_BLOCK), step);
            if (t == 0) sum[half] = mine;
            __syncthreads();
            if (threadIdx.x == 0) {
                T s = pairwise(sum, (int)least(FOLD_HALVES, blocks - first));
                for (int64_t c = first / FOLD_HALVES; c & 1; c >>= 1)
                    s = open[--count] + s;
                open[count++] = s;
            }
            __syncthreads();
        }
        if (threadIdx.x == 0)
            for (; count > 1; count--)
                open[count - 2] = open[count - 2] + open[count - 1];
        __syncthreads();
        const T total = open[0];
        __syncthreads();
        return total;
    }
    template <typename T> __device__ T largest(const T *x) const
    {
        __shared__ T part[THREADS / 32];
        T            m = -(T)INFINITY;
        LKI_UNROLL(8)
        for (int64_t j = threadIdx.x; j < n; j += THREADS)
            m = x[j] > m ? x[j] : m;
        m = largest_of(m, 32);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
        __syncthreads();
        for (int i = 0; i < THREADS / 32; i++)
            m = part[i] > m ? part[i] : m;
        __syncthreads();
        return m;
    }
    template <typename F> __device__ void for_each(const F &f) const
    {
        LKI_UNROLL(4)
        for (int64_t j = threadIdx.x; j < n; j += THREADS)
            f(j);
    }
};

template <typename TEAM, typename OP> __global__ void __launch_bounds__(TEAM::THREADS) rows_kernel(int64_t rows, int64_t n, OP op)
{
    const TEAM team(rows, n);
    op(team);
}

/* op for each of `rows` rows of n elements. */
template <typename OP> static void over_rows(const lki_args *a, int64_t rows, int64_t n, const OP &op)
{
    (void)a;
    if (rows <= 0) return;
    if (n <= LKI_FOLD_BLOCK)
        LKI_LAUNCH((rows_kernel<half_warp, OP>), dim3((unsigned)lki_ceil_div(rows, HALF_WARP_ROWS)), dim3(half_warp::THREADS), 0, a,
                   rows, n, op);
    else LKI_LAUNCH((rows_kernel<whole_block, OP>), dim3((unsigned)rows), dim3(whole_block::THREADS), 0, a, rows, n, op);
}

} // namespace lki_gpu

#endif
