/* Products that would leave tiles nearly empty, in plain fused multiply-adds: there the way to memory and back is all the time there is.
 *
 *     thin      few columns or few k: a thread has four columns of a row, and one CHAIN each
 *     short     a sum over rows in short lanes: a thread has 4x4 results, one CHAIN per lane, and the open sums of the tree in registers
 *
 * The same order as kernel.h defines. */
#ifndef LKI_KERNEL_GPU_THIN_H
#define LKI_KERNEL_GPU_THIN_H

#include "kernel/gpu/tile.h"

namespace lki_gpu {

enum { THIN_BLOCK = 128, THIN_AHEAD = 16, SHORT_AHEAD = 4 };

struct thin_product { /* (m, k) at a[m * a_row + k * a_k], (k, n) at b[k * b_row + n * b_column] */
    const float *a, *b;
    int64_t      a_row, a_k, b_row, b_column;
    int          K, quads; /* of columns */
};

template <int AHEAD> __global__ void __launch_bounds__(THIN_BLOCK) thin(thin_product p, to_matrix e)
{
    const int64_t i = blockIdx.x * (int64_t)THIN_BLOCK + threadIdx.x, m = i / p.quads;
    const int     n = (int)(i - m * p.quads) * 4;
    if (m >= e.M) return;
    const float *a = p.a + m * p.a_row, *b = p.b + n * p.b_column;
    float        sum[4] = {0, 0, 0, 0};
    for (int k = 0; k < p.K; k += AHEAD) {
        float x[AHEAD], y[AHEAD][4];
        LKI_UNROLL
        for (int j = 0; j < AHEAD; j++) {
            x[j] = k + j < p.K ? a[(k + j) * p.a_k] : 0;
            LKI_UNROLL
            for (int c = 0; c < 4; c++)
                y[j][c] = k + j < p.K && n + c < e.N ? b[(k + j) * p.b_row + c * p.b_column] : -0.0f; /* 0 * -0 changes no chain */
        }
        LKI_UNROLL
        for (int j = 0; j < AHEAD; j++) {
            LKI_UNROLL
            for (int c = 0; c < 4; c++)
                sum[c] = fmaf(x[j], y[j][c], sum[c]);
        }
    }
    LKI_UNROLL
    for (int c = 0; c < 4; c++)
        if (n + c < e.N) e.data[m * e.step + n + c] = e.end(sum[c], n + c, m * e.step + n + c);
}

static inline void launch_thin(const lki_args *g, thin_product p, const to_matrix &e)
{
    p.quads = (int)lki_ceil_div(e.N, 4);
    LKI_LAUNCH_FLAT((thin<THIN_AHEAD>), dim3((unsigned)lki_ceil_div(e.M * p.quads, THIN_BLOCK)), dim3(THIN_BLOCK), g, p, e);
}

struct short_lanes {
    int count, bound[MOST_LANES + 1];
};

/* Four of a row of `count`, from c on; what is beyond is 0. */
__device__ inline void four_of(const float *row, int64_t c, int64_t count, bool wide, float *v)
{
    if (wide && c + 3 < count) return load_quad(row + c, v);
    LKI_UNROLL
    for (int j = 0; j < 4; j++)
        v[j] = c + j < count ? row[c + j] : 0;
}

template <int LEVELS>
__global__ void __launch_bounds__(THIN_BLOCK) short_sums(by_columns a, by_columns b, to_matrix e, LKI_FIXED short_lanes l, int quads)
{
    const int64_t i = blockIdx.x * (int64_t)THIN_BLOCK + threadIdx.x, m = i / quads * 4, n = i % quads * 4;
    float         sum[4][4], open[4][4][LEVELS];
    if (m >= e.M) return;
    for (int lane = 0, k = l.bound[0]; lane < l.count; lane++) {
        const int end = l.bound[lane + 1];
        LKI_UNROLL
        for (int j = 0; j < 16; j++)
            sum[j / 4][j % 4] = 0;
        for (; k < end; k += SHORT_AHEAD) {
            float     x[SHORT_AHEAD][4], y[SHORT_AHEAD][4];
            const int left = end - k;
            LKI_UNROLL
            for (int j = 0; j < SHORT_AHEAD; j++) {
                if (j >= left) break;
                four_of(a.data + (k + j) * a.step, m, e.M, a.wide, x[j]);
                four_of(b.data + (k + j) * b.step, n, e.N, b.wide, y[j]);
            }
            LKI_UNROLL
            for (int j = 0; j < SHORT_AHEAD; j++) {
                if (j >= left) break;
                LKI_UNROLL
                for (int q = 0; q < 16; q++)
                    sum[q / 4][q % 4] = fmaf(x[j][q / 4], y[j][q % 4], sum[q / 4][q % 4]);
            }
        }
        k = end;
        LKI_UNROLL
        for (int q = 0; q < 16; q++)
            climb<LEVELS>(open[q / 4][q % 4], sum[q / 4][q % 4], lane);
    }
    e.begin(m, n);
    LKI_UNROLL
    for (int j = 0; j < 4; j++)
        e.put_four(j, 0, sum[j], true, true);
}

static inline void launch_short(const lki_args *g, const by_columns &a, const by_columns &b, const to_matrix &e, const cuts &c)
{
    const int      quads = (int)lki_ceil_div(e.N, 4);
    const unsigned blocks = (unsigned)lki_ceil_div(lki_ceil_div(e.M, 4) * quads, THIN_BLOCK);
    short_lanes    l = {};
    l.count = c.lanes;
    for (int s = 0; s <= c.lanes; s++)
        l.bound[s] = c.bound[s];
    if (l.count <= 8) LKI_LAUNCH_FLAT((short_sums<3>), dim3(blocks), dim3(THIN_BLOCK), g, a, b, e, l, quads);
    else LKI_LAUNCH_FLAT((short_sums<6>), dim3(blocks), dim3(THIN_BLOCK), g, a, b, e, l, quads);
}

} // namespace lki_gpu

#endif
