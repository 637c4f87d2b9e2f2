/* conv2d of f32, with bias, relu and a 2x2 max pool, by tiles (conv.h, tile.h).
 *
 * Order of sums. By tiles: one CHAIN per output over kh, kw, in channel. By patches: see patch.h. For few channels: conv_few.h. By
 * fragments: fragment_conv.cu. The CPU's WINOGRAD is not used here. Cells outside the image count as zeros. */
#include "kernel/gpu/conv/conv_few.h"
#include "kernel/gpu/conv/fragment.h"
#include "kernel/gpu/conv/patch.h"

namespace
{

using namespace lki_gpu;

/* The first largest of a 2x2 window of results, where NaN is larger than all numbers, and its cell: rows 4*i ... 4*i+3 are window
 * i. */
struct to_pool {
    float       *data;
    uint8_t     *cell;
    int64_t      M, N;
    const float *bias;
    int          relu;
    unsigned     dead; /* added to cells whose value is not above 0 */

    int64_t step; /* channels */
    bool    wide; /* four channels are one aligned piece */

    __device__ void begin(int64_t m, int64_t n)
    {
        data += m / 4 * step + n;
        cell += m / 4 * step + n;
        if (bias) bias += n;
        M -= m;
        N -= n;
    }
    __device__ float largest(float (*v)[4], int n, int j, unsigned *place) const
    {
        const float add = bias ? bias[n + j] : 0;
        float       best = 0;
        LKI_UNROLL
        for (int i = 0; i < 4; i++) {
            float y = v[i][j];
            if (bias) y = y + add;
            if (relu && y < 0) y = 0;
            if (i && !(y > best || (isnan(y) && !isnan(best)))) continue;
            best = y;
            *place = (unsigned)i;
        }
        *place += best > 0 ? 0 : dead;
        return best;
    }
    __device__ void put(int m, int n, float (*v)[4], bool, bool) const
    {
        const int64_t at = m / 4 * step + n;
        float         best[4];
        unsigned      place[4];
        if (m >= M || n >= N) return;
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            if (n + j < N) best[j] = largest(v, n, j, &place[j]);
        if (wide) {
            *(float4 *)(data + at) = make_float4(best[0], best[1], best[2], best[3]);
            *(unsigned *)(cell + at) = place[0] | place[1] << 8 | place[2] << 16 | place[3] << 24;
            return;
        }
        LKI_UNROLL
        for (int j = 0; j < 4; j++) {
            if (n + j >= N) continue;
            data[at + j] = best[j];
            cell[at + j] = (uint8_t)place[j];
        }
    }
};

to_pool to_pool_of(const lki_args *g, const conv &v)
{
    const float *bias = g->attr->epilogue.bias ? (const float *)g->src[2].data : nullptr;
    float       *y = (float *)g->dst[0].data;
    uint8_t     *cell = (uint8_t *)g->dst[1].data;
    return to_pool{y,
                   cell,
                   v.images * v.outputs(),
                   v.O,
                   bias,
                   g->attr->epilogue.relu,
                   g->attr->epilogue.marks ? (unsigned)LKI_CELL_DEAD : 0,
                   v.O,
                   v.O % 4 == 0 && aligned(y) && aligned(cell)};
}

/* By patches, for shapes that allow it. */
bool patch_conv2d(const lki_args *g, const conv &v)
{
    sweep_plan                p;
    const float              *bias = g->attr->epilogue.bias ? (const float *)g->src[2].data : nullptr;
    const weights_as_they_are w = {(const float *)g->src[1].data, v.C, v.O, v.taps(), aligned(g->src[1].data)};
    const int64_t             M = v.images * v.outputs();
    float                    *y = (float *)g->dst[0].data;
    if (!sweep_plan_of(&p, v, v.OH, v.OW, v.C, v.pad[0], v.pad[1], v.pooled)) return false;
    const whole_image source = whole_image_of(g->src[0].data, v.IH, v.IW, v.C);
    if (v.pooled) return launch_sweep(g, source, w, to_pool_of(g, v), p);
    return launch_sweep(g, source, w, to_matrix{y, v.O, M, v.O, bias, g->attr->epilogue.relu, aligned(y)}, p);
}

void f32_conv2d(const lki_args *g)
{
    const bool       pool = g->attr->epilogue.pool;
    const conv       v = conv_of(g, g->src[0].shape, g->src[1].shape, g->dst[0].shape, pool);
    const int64_t    M = v.images * v.outputs(), N = v.O, K = (int64_t)v.taps() * v.C;
    const float     *w = (const float *)g->src[1].data, *bias = g->attr->epilogue.bias ? (const float *)g->src[2].data : nullptr;
    const windows    a = {(const float *)g->src[0].data, v, v.C % 4 == 0 && aligned(g->src[0].data)};
    const by_columns b = {w, N, N, N % 4 == 0 && aligned(w)};
    const lanes      one = {1, {0, K}};
    const frame      f = {cuts_of(one, 0, 1), {}, {}, {}, 0, 0, 1, 1};
    const int        tile = tile_for(M, N, 1);
    float           *y = (float *)g->dst[0].data;
    if (!M || !N || few_conv2d(g, v) || fragment_conv2d(g, v) || patch_conv2d(g, v)) return;
    if (pool) launch_chains(g, tile, a, b, to_pool_of(g, v), f);
    else launch_chains(g, tile, a, b, to_matrix{y, N, M, N, bias, g->attr->epilogue.relu, N % 4 == 0 && aligned(y)}, f);
}

} // namespace

void lki_gpu::register_conv(lki_kernels *k)
{
    set(k, LKI_K_conv2d, LK_F32, f32_conv2d);
    register_conv_grad(k);
    register_conv_f64(k);
}
