/* Products that would leave tiles nearly empty, in plain fused multiply-adds. Their time is the latency of memory, so each block
 * waits for memory once: it loads what it needs into shared memory and multiplies from there.
 *
 *     thin      few columns or few k: a thread has four columns of a row, and one CHAIN each
 *     short     a sum over rows in short lanes, with no epilogue: a thread has 4x4 results, one CHAIN per lane, and the open
 *               sums of the tree in registers
 *
 * The same order as kernel.h defines. */
#ifndef LKI_KERNEL_GPU_PRODUCT_THIN_H
#define LKI_KERNEL_GPU_PRODUCT_THIN_H

#include "kernel/gpu/base/tile.h"

namespace lki_gpu
{

enum { THIN_BLOCK = 128, THIN_WEIGHTS = 4096, THIN_ROWS = 4096, SHORT_STEP = 64, SHORT_M = 32, SHORT_N = 64, SHORT_ROWS = 4 };

struct thin_product { /* (m, k) at a[m * a_row + k * a_k], (k, n) at b[k * b_row + n * b_column] */
    const float *a, *b;
    int64_t      a_row, a_k, b_row, b_column;
    int          K, quads; /* of columns */
    int          rows;     /* of a block */
};

/* THIN_WEIGHTS floats hold all of b, four columns side by side, THIN_ROWS the block's rows of a. */
template <int BLOCK> __global__ void __launch_bounds__(BLOCK) thin(thin_product p, to_matrix e)
{
    __shared__ shared_floats<2 * THIN_WEIGHTS> right; /* columns beyond the last are stored too */
    __shared__ shared_floats<THIN_ROWS> left;
    const int64_t                       m = blockIdx.x * (int64_t)p.rows;
    const int                           rows = e.M - m < p.rows ? (int)(e.M - m) : p.rows, N = (int)e.N;
    for (int i = (int)threadIdx.x; i < p.K * p.quads * 4; i += BLOCK) {
        const int k = i / (p.quads * 4), n = i - k * (p.quads * 4);
        right.at[i] = n < N ? p.b[k * p.b_row + n * p.b_column] : 0;
    }
    for (int i = (int)threadIdx.x; i < rows * p.K; i += BLOCK) {
        const int r = i / p.K, k = i - r * p.K;
        left.at[i] = p.a[(m + r) * p.a_row + k * p.a_k];
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < rows * p.quads; i += BLOCK) {
        const int    r = i / p.quads, n = (i - r * p.quads) * 4;
        const float *x = left.at + r * p.K;
        float        sum[4] = {0, 0, 0, 0}, y[4];
        for (int k = 0; k < p.K; k++) {
            load_quad(right.at + k * (p.quads * 4) + n, y);
            LKI_UNROLL
            for (int c = 0; c < 4; c++)
                sum[c] = fmaf(x[k], y[c], sum[c]);
        }
        LKI_UNROLL
        for (int c = 0; c < 4; c++) {
            const int64_t at = (m + r) * e.step + n + c;
            if (n + c < N) e.data[at] = e.end(sum[c], n + c, at);
        }
    }
}

/* True if it fits, from N and K. */
static inline bool is_thin(int64_t N, int64_t K)
{
    return lki_min(N, K) <= 16 && N * K <= THIN_WEIGHTS && K <= THIN_ROWS / 4 && N * K > 0;
}

static inline void launch_thin(const lki_args *g, thin_product p, const to_matrix &e)
{
    p.quads = (int)lki_ceil_div(e.N, 4);
    p.rows = (int)lki_max(1, lki_min(lki_ceil_div(THIN_BLOCK, p.quads), THIN_ROWS / p.K));
    /* so that there are more blocks */
    if (e.M <= 32 * PROCESSORS) p.rows = (int)lki_max(1, lki_min(p.rows, lki_ceil_div(e.M, PROCESSORS)));
    LKI_LAUNCH((thin<THIN_BLOCK>), dim3((unsigned)lki_ceil_div(e.M, p.rows)), dim3(THIN_BLOCK), 0, g, p, e);
}

struct short_lanes {
    int      count, first, last; /* rows of all */
    int      each;               /* rows of every lane; 0: they differ */
    int      bound[MOST_LANES + 1];
    unsigned columns; /* blocks side by side */

    /* Where a lane ends. A loop that reads arguments by a running index would wait for each. */
    __device__ int end(int lane) const { return each ? first + (lane + 1) * each : bound[lane + 1]; }
};

/* SHORT_STEP rows at a time of 4 * WIDTH columns, from c on; what is beyond is 0. */
template <int WIDTH> __device__ inline void bring_rows(const by_columns &s, int k, int end, int64_t c, float *to)
{
    enum { ROWS = THIN_BLOCK / WIDTH }; /* copied at once */
    const int     first = (int)threadIdx.x / WIDTH, q = (int)threadIdx.x % WIDTH * 4, some = c + q < s.rows ? s.there(c + q) : 0;
    const int64_t step = ROWS * s.step;
    const float  *from = some ? s.start(c + q, k + first) : s.data;
    float        *at = to + first * (4 * WIDTH) + q;
    int           left = end - k - first; /* rows, from this one on */
    if (s.wide) {
        LKI_UNROLL
        for (int i = 0; i < SHORT_STEP / ROWS; i++, from += step, at += 4 * WIDTH * ROWS, left -= ROWS)
            copy_four(at, some && left > 0 ? from : s.data, some && left > 0 ? 16 : 0);
        return;
    }
    LKI_ROLLED
    for (int i = 0; i < SHORT_STEP / ROWS; i++, from += step, at += 4 * WIDTH * ROWS, left -= ROWS) {
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            copy_one(at + j, j < some && left > 0 ? from + j : s.data, j < some && left > 0 ? 4 : 0);
    }
}

/* ROWS of k, whose factors are read from shared memory all at once. */
template <int ROWS> __device__ inline void add_short(const float *left, const float *right, float (*sum)[4])
{
    float x[ROWS][4], y[ROWS][4];
    LKI_UNROLL
    for (int k = 0; k < ROWS; k++) {
        load_quad(left + k * SHORT_M, x[k]);
        load_quad(right + k * SHORT_N, y[k]);
    }
    LKI_UNROLL
    for (int k = 0; k < ROWS; k++) {
        LKI_UNROLL
        for (int q = 0; q < 16; q++)
            sum[q / 4][q % 4] = fmaf(x[k][q / 4], y[k][q % 4], sum[q / 4][q % 4]);
    }
}

/* climb() for sixteen sums of the same lane, from level L on: all branch alike. */
template <int LEVELS, int L = 0> __device__ inline void climb_all(float (*open)[16], float (*sum)[4], int lane)
{
    if constexpr (L < LEVELS) {
        if (lane >> L & 1) {
            LKI_UNROLL
            for (int q = 0; q < 16; q++)
                sum[q / 4][q % 4] = open[L][q] + sum[q / 4][q % 4];
            climb_all<LEVELS, L + 1>(open, sum, lane);
        } else {
            LKI_UNROLL
            for (int q = 0; q < 16; q++)
                open[L][q] = sum[q / 4][q % 4];
        }
    }
}

/* Results whose number of columns is not a multiple of four. */
__device__ inline void put_slowly(const to_matrix &e, int m, int n, const float *sum)
{
    LKI_UNROLL
    for (int j = 0; j < 4; j++)
        if (m < e.M && n + j < e.N) e.data[m * e.step + n + j] = sum[j];
}

/* Short code: at its first run on a multiprocessor each piece of code is waited for like memory. */
template <int LEVELS>
__global__ void __launch_bounds__(THIN_BLOCK, LEVELS > 3 ? 2 : 3)
    short_sums(by_columns a, by_columns b, to_matrix e, LKI_FIXED short_lanes l)
{
    __shared__ shared_floats<SHORT_STEP * SHORT_M> left;
    __shared__ shared_floats<SHORT_STEP * SHORT_N> right;
    const int64_t m = blockIdx.x / l.columns * (int64_t)SHORT_M, n = blockIdx.x % l.columns * (int64_t)SHORT_N;
    const int     tm = (int)threadIdx.x / (SHORT_N / 4) * 4, tn = (int)threadIdx.x % (SHORT_N / 4) * 4;
    float         sum[4][4], open[LEVELS][16];
    int           lane = 0, k = l.first, end = l.end(0), to = k; /* rows before `to` are loaded */
    LKI_ROLLED
    for (;;) {
        LKI_UNROLL
        for (int q = 0; q < 16; q++)
            sum[q / 4][q % 4] = 0;
        LKI_ROLLED
        for (; k < end;) { /* a lane, in as many pieces as it takes to load it */
            if (k == to) {
                __syncthreads();
                bring_rows<SHORT_M / 4>(a, k, l.last, m, left.at);
                bring_rows<SHORT_N / 4>(b, k, l.last, n, right.at);
                copies_end();
                copies_wait<0>();
                __syncthreads();
                to = k + SHORT_STEP;
            }
            const int    stop = end < to ? end : to;
            const float *x = left.at + (k - to + SHORT_STEP) * SHORT_M + tm, *y = right.at + (k - to + SHORT_STEP) * SHORT_N + tn;
            LKI_ROLLED
            for (; k + SHORT_ROWS <= stop; k += SHORT_ROWS, x += SHORT_ROWS * SHORT_M, y += SHORT_ROWS * SHORT_N)
                add_short<SHORT_ROWS>(x, y, sum);
            LKI_ROLLED
            for (; k < stop; k++, x += SHORT_M, y += SHORT_N)
                add_short<1>(x, y, sum);
        }
        climb_all<LEVELS>(open, sum, lane);
        if (++lane == l.count) break;
        end = l.end(lane);
    }
    e.begin(m, n);
    LKI_UNROLL
    for (int j = 0; j < 4; j++) {
        if (!e.wide) put_slowly(e, tm + j, tn, sum[j]);
        else if (tm + j < e.M && tn < e.N)
            *(float4 *)(e.data + (tm + j) * e.step + tn) = make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]);
    }
}

static inline void launch_short(const lki_args *g, const by_columns &a, const by_columns &b, const to_matrix &e, const cuts &c)
{
    short_lanes l = {};
    l.count = c.lanes;
    l.columns = (unsigned)lki_ceil_div(e.N, SHORT_N);
    for (int s = 0; s <= c.lanes; s++)
        l.bound[s] = c.bound[s];
    l.first = l.bound[0];
    l.last = l.bound[l.count];
    l.each = l.bound[1] - l.bound[0];
    for (int s = 0; s < c.lanes; s++)
        if (l.bound[s + 1] - l.bound[s] != l.each) l.each = 0;
    const unsigned blocks = (unsigned)lki_ceil_div(e.M, SHORT_M) * l.columns;
    if (l.count <= 8) LKI_LAUNCH((short_sums<3>), dim3(blocks), dim3(THIN_BLOCK), 0, g, a, b, e, l);
    else LKI_LAUNCH((short_sums<6>), dim3(blocks), dim3(THIN_BLOCK), 0, g, a, b, e, l);
}

} // namespace lki_gpu

#endif
