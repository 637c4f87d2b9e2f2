/* Rows of f32 short enough to stay in the registers of a half warp: a team like those of fold.h, for rows of up to 16 * K elements.
 * Operands are read once, all at the same time; sums are FOLD, as for other teams.
 *
 *     const auto v = team.read(x);                                               the row's elements; in other teams their address
 *     team.template fold<T>([&](T acc, auto at) { return acc + v[at]; });        `at`: an index, of memory in other teams
 *
 * An operation that is written like this runs in all teams. */
#ifndef LKI_KERNEL_GPU_BASE_HELD_H
#define LKI_KERNEL_GPU_BASE_HELD_H

#include "kernel/gpu/base/fold.h"

namespace lki_gpu
{

enum { HELD_MOST = 16 * LKI_FOLD_WIDTH };

/* Element `j` of a row, the i-th of its thread. */
struct held_place {
    int        i, j;
    __device__ operator int64_t() const { return j; }
};

template <typename T, int K> struct held_values {
    T            v[K];
    __device__ T operator[](held_place at) const { return v[at.i]; }
};

/* FULL: all rows have exactly 16 * K elements; a team after the last row works on the last row, and writes nothing. */
template <int K, bool FULL> struct held_row {
    enum { THREADS = HALF_WARP_ROWS * LKI_FOLD_WIDTH, ROWS = HALF_WARP_ROWS };
    int64_t row;
    int     n, t; /* elements (0 without a row), number of this thread in the team */
    bool    live;

    __device__ held_row(int64_t rows, int64_t width)
        : row(blockIdx.x * (int64_t)ROWS + threadIdx.x / LKI_FOLD_WIDTH), t((int)(threadIdx.x % LKI_FOLD_WIDTH)), live(row < rows)
    {
        n = live ? (int)width : 0;
        if (FULL && !live) row = rows - 1;
    }
    __device__ bool       leads() const { return live && t == 0; }
    __device__ held_place place(int i) const { return {i, t + i * LKI_FOLD_WIDTH}; }
    __device__ bool       has(int i) const { return FULL || place(i).j < n; }

    /* f of each place; 0 after the row's end. */
    template <typename T, typename F> __device__ held_values<T, K> map(const F &f) const
    {
        held_values<T, K> r;
        LKI_UNROLL(16)
        for (int i = 0; i < K; i++)
            r.v[i] = has(i) ? f(place(i)) : (T)0;
        return r;
    }
    template <typename T> __device__ held_values<T, K> read(const T *x) const
    {
        return map<T>([=](held_place at) { return x[at.j]; });
    }
    template <typename T, int AHEAD = 16, typename F> __device__ T fold(const F &step) const
    {
        T acc = 0;
        LKI_UNROLL(16)
        for (int i = 0; i < K; i++)
            if (has(i)) acc = step(acc, place(i));
        for (int half = LKI_FOLD_WIDTH / 2; half; half /= 2)
            acc = acc + __shfl_down_sync((unsigned)FULL_WARP, acc, half, LKI_FOLD_WIDTH);
        return __shfl_sync((unsigned)FULL_WARP, acc, 0, LKI_FOLD_WIDTH);
    }
    template <typename T> __device__ T largest(const held_values<T, K> &x) const
    {
        T m = -(T)INFINITY;
        LKI_UNROLL(16)
        for (int i = 0; i < K; i++)
            if (has(i)) m = x.v[i] > m ? x.v[i] : m;
        return largest_of(m, LKI_FOLD_WIDTH);
    }
    template <typename F> __device__ void for_each(const F &f) const
    {
        if (FULL && !live) return;
        LKI_UNROLL(16)
        for (int i = 0; i < K; i++)
            if (has(i)) f(place(i));
    }
};

template <int K, typename OP> static void held_rows(const lki_args *a, int64_t rows, int64_t n, const OP &op)
{
    const dim3 grid((unsigned)lki_ceil_div(rows, HALF_WARP_ROWS)), block(HALF_WARP_ROWS * LKI_FOLD_WIDTH);
    (void)a;
    if (n == K * LKI_FOLD_WIDTH) LKI_LAUNCH((rows_kernel<held_row<K, true>, OP>), grid, block, 0, a, rows, n, op);
    else LKI_LAUNCH((rows_kernel<held_row<K, false>, OP>), grid, block, 0, a, rows, n, op);
}

/* Runs `held` for rows that fit, else `other`. T: type of their elements. */
template <typename T, typename HELD, typename OTHER>
static void over_held_rows(const lki_args *a, int64_t rows, int64_t n, const HELD &held, const OTHER &other)
{
    if (rows <= 0) return;
    if constexpr (sizeof(T) == 4)
        if (n <= HELD_MOST) {
            if (n <= 4 * LKI_FOLD_WIDTH) held_rows<4>(a, rows, n, held);
            else if (n <= 8 * LKI_FOLD_WIDTH) held_rows<8>(a, rows, n, held);
            else held_rows<16>(a, rows, n, held);
            return;
        }
    over_rows(a, rows, n, other);
}

} // namespace lki_gpu

#endif
