/* Products that would leave tiles nearly empty, in plain fused multiply-adds: there the way to memory and back is all the time there is, so each block goes it once: it brings what it
 * needs into shared memory and multiplies from there.
 *
 *     thin      few columns or few k: a thread has four columns of a row, and one CHAIN each
 *     short     a sum over rows in short lanes: a thread has 4x4 results, one CHAIN per lane, and the open sums of the tree in registers
 *
 * The same order as kernel.h defines. */
#ifndef LKI_KERNEL_GPU_THIN_H
#define LKI_KERNEL_GPU_THIN_H

#include "kernel/gpu/tile.h"

namespace lki_gpu {

enum { THIN_BLOCK = 128, THIN_WEIGHTS = 4096, THIN_ROWS = 4096, SHORT_STEP = 64, SHORT_M = 32, SHORT_N = 64 };

struct thin_product { /* (m, k) at a[m * a_row + k * a_k], (k, n) at b[k * b_row + n * b_column] */
    const float *a, *b;
    int64_t      a_row, a_k, b_row, b_column;
    int          K, quads; /* of columns */
    int          rows;     /* of a block */
};

/* THIN_WEIGHTS floats hold all of b, four columns side by side, THIN_ROWS the block's rows of a. */
template <int BLOCK> __global__ void __launch_bounds__(BLOCK) thin(thin_product p, to_matrix e)
{
    __shared__ shared_floats<2 * THIN_WEIGHTS> right; /* columns beyond the last are there too */
    __shared__ shared_floats<THIN_ROWS>        left;
    const int64_t m = blockIdx.x * (int64_t)p.rows;
    const int     rows = e.M - m < p.rows ? (int)(e.M - m) : p.rows, N = (int)e.N;
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

/* Does it fit? N and K tell. */
static inline bool is_thin(int64_t N, int64_t K) { return lki_min(N, K) <= 16 && N * K <= THIN_WEIGHTS && K <= THIN_ROWS / 4 && N * K > 0; }

static inline void launch_thin(const lki_args *g, thin_product p, const to_matrix &e)
{
    p.quads = (int)lki_ceil_div(e.N, 4);
    p.rows = (int)lki_max(1, lki_min(lki_ceil_div(THIN_BLOCK, p.quads), THIN_ROWS / p.K));
    if (e.M <= 32 * PROCESSORS) p.rows = (int)lki_max(1, lki_min(p.rows, lki_ceil_div(e.M, PROCESSORS))); /* more blocks */
    LKI_LAUNCH((thin<THIN_BLOCK>), dim3((unsigned)lki_ceil_div(e.M, p.rows)), dim3(THIN_BLOCK), 0, g, p, e);
}

struct short_lanes {
    int      count, bound[MOST_LANES + 1];
    unsigned columns; /* blocks side by side */
};

/* SHORT_STEP rows at a time of 4 * WIDTH columns, from c on; what is beyond is 0. */
template <int WIDTH> __device__ inline void bring_rows(const by_columns &s, int k, int end, int64_t c, float *to)
{
    for (int i = (int)threadIdx.x; i < SHORT_STEP * WIDTH; i += THIN_BLOCK) {
        const int    r = k + i / WIDTH, q = i % WIDTH * 4, some = r < end && c + q < s.rows ? s.there(c + q) : 0;
        float       *at = to + i / WIDTH * (4 * WIDTH) + q;
        const float *from = some ? s.start(c + q, r) : s.data;
        if (s.wide) copy_four(at, from, some ? 16 : 0);
        else
            for (int j = 0; j < 4; j++)
                copy_one(at + j, j < some ? from + j : s.data, j < some ? 4 : 0);
    }
}

template <int LEVELS> __global__ void __launch_bounds__(THIN_BLOCK) short_sums(by_columns a, by_columns b, to_matrix e, LKI_FIXED short_lanes l)
{
    __shared__ shared_floats<SHORT_STEP * SHORT_M> left;
    __shared__ shared_floats<SHORT_STEP * SHORT_N> right;
    const int64_t m = blockIdx.x / l.columns * (int64_t)SHORT_M, n = blockIdx.x % l.columns * (int64_t)SHORT_N;
    const int     tm = (int)threadIdx.x / (SHORT_N / 4) * 4, tn = (int)threadIdx.x % (SHORT_N / 4) * 4, all = l.bound[l.count];
    float         sum[4][4], open[4][4][LEVELS];
    int           lane = 0, end = l.bound[1];
    LKI_UNROLL
    for (int q = 0; q < 16; q++)
        sum[q / 4][q % 4] = 0;
    for (int from = l.bound[0]; lane < l.count; from += SHORT_STEP) {
        const int to = from + SHORT_STEP < all ? from + SHORT_STEP : all;
        __syncthreads();
        bring_rows<SHORT_M / 4>(a, from, all, m, left.at);
        bring_rows<SHORT_N / 4>(b, from, all, n, right.at);
        copies_end();
        copies_wait<0>();
        __syncthreads();
        for (int k = from; k < to || (lane < l.count && end <= to && to == all);) {
            const int stop = end < to ? end : to;
            for (; k < stop; k++) {
                float x[4], y[4];
                load_quad(left.at + (k - from) * SHORT_M + tm, x);
                load_quad(right.at + (k - from) * SHORT_N + tn, y);
                LKI_UNROLL
                for (int q = 0; q < 16; q++)
                    sum[q / 4][q % 4] = fmaf(x[q / 4], y[q % 4], sum[q / 4][q % 4]);
            }
            if (stop < end) break; /* the lane goes on in the next step */
            const bool last = lane == l.count - 1;
            LKI_UNROLL
            for (int q = 0; q < 16; q++) {
                climb<LEVELS>(open[q / 4][q % 4], sum[q / 4][q % 4], lane);
                if (!last) sum[q / 4][q % 4] = 0;
            }
            if (++lane == l.count) break;
            end = l.bound[lane + 1];
        }
        if (to == all) break;
    }
    e.begin(m, n);
    LKI_UNROLL
    for (int j = 0; j < 4; j++)
        e.put_four(tm + j, tn, sum[j], true, true);
}

static inline void launch_short(const lki_args *g, const by_columns &a, const by_columns &b, const to_matrix &e, const cuts &c)
{
    short_lanes l = {};
    l.count = c.lanes;
    l.columns = (unsigned)lki_ceil_div(e.N, SHORT_N);
    for (int s = 0; s <= c.lanes; s++)
        l.bound[s] = c.bound[s];
    const unsigned blocks = (unsigned)lki_ceil_div(e.M, SHORT_M) * l.columns;
    if (l.count <= 8) LKI_LAUNCH((short_sums<3>), dim3(blocks), dim3(THIN_BLOCK), 0, g, a, b, e, l);
    else LKI_LAUNCH((short_sums<6>), dim3(blocks), dim3(THIN_BLOCK), 0, g, a, b, e, l);
}

} // namespace lki_gpu

#endif
