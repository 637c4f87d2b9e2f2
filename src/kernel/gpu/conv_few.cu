/* Parts of weight gradients where an out channel has few weights, as in a network's first layer: tiles would be mostly empty. A block has one part and a warp's width of
 * out channels; a thread has one channel and ROWS weights, and goes through the part's outputs (through a pool: windows) in order, leaving out what the reference leaves
 * out. The same chains as conv_grad.cu's tiles otherwise, laid into scratch as [part][kh, kw, in][out]. */
#include "kernel/gpu/conv.h"

namespace {

using namespace lki_gpu;

enum { WIDTH = 32, LOOK = 32, AHEAD = 8, MOST_LINES = 16, MOST_CELLS = 16384, NOWHERE = -32768 };

/* Outputs the block looks at next: entry of the gradient, and the first cell of its window. */
struct looked_at {
    float        value[LOOK][WIDTH];
    int          at[LOOK][WIDTH]; /* row * 65536 + column; row NOWHERE: left out */
    const float *image[LOOK];
};

__device__ inline int packed(int h, int w) { return h * 65536 + (w & 65535); }
__device__ inline int row_of(int at) { return at >> 16; }
__device__ inline int column_of(int at) { return (int)(short)(at & 65535); }

template <bool POOLED>
__device__ inline void look(looked_at *s, const float *x, const float *d, const conv &v, const pool_entries &e, int j, int item,
                            int end, int o)
{
    const int each = POOLED ? v.outputs() / 4 : v.outputs(), image = item < end ? item / each : 0, wide = POOLED ? v.OW / 2 : v.OW;
    const int64_t entry = (int64_t)item * v.O + o;
    int           at = packed(NOWHERE, 0);
    float         value = 0;
    if (item < end && o < v.O) {
        const int p = item - image * each, place = POOLED ? e.cell[entry] : 0;
        const int oh = POOLED ? p / wide * 2 + place / 2 : p / wide, ow = POOLED ? p % wide * 2 + place % 2 : p % wide;
        value = POOLED ? e(d, entry, place) : d[entry];
        if (!POOLED || value != 0) at = packed(oh * v.stride[0] - v.pad[0], ow * v.stride[1] - v.pad[1]);
    }
    s->value[j][threadIdx.x] = value;
    s->at[j][threadIdx.x] = at;
    if (threadIdx.x == 0) s->image[j] = x + image * ((int64_t)v.IH * v.IW * v.C);
}

/* AHEAD outputs from j on: all loads, then the chains. */
template <int ROWS>
__device__ inline void multiply_few(const looked_at &s, int j, const conv &v, const int *h, const int *w, const int *channel,
                                    float *acc)
{
    float x[AHEAD][ROWS];
    bool  in[AHEAD][ROWS];
    LKI_UNROLL
    for (int a = 0; a < AHEAD; a++) {
        LKI_UNROLL
        for (int i = 0; i < ROWS; i++) {
            const int at = s.at[j + a][threadIdx.x], y = row_of(at) + h[i], z = column_of(at) + w[i];
            in[a][i] = v.inside(y, z);
            x[a][i] = in[a][i] ? s.image[j + a][(y * v.IW + z) * v.C + channel[i]] : 0;
        }
    }
    LKI_UNROLL
    for (int a = 0; a < AHEAD; a++) {
        LKI_UNROLL
        for (int i = 0; i < ROWS; i++)
            acc[i] = in[a][i] ? fmaf(x[a][i], s.value[j + a][threadIdx.x], acc[i]) : acc[i];
    }
}

template <bool POOLED, int ROWS>
__global__ void few(const float *x, const float *d, LKI_FIXED conv v, pool_entries e, LKI_FIXED cuts c, unsigned groups,
                    float *parts)
{
    __shared__ looked_at s;
    const int part = (int)(blockIdx.x / groups), o = (int)(blockIdx.x % groups) * WIDTH + (int)threadIdx.x, rows = v.taps() * v.C;
    int       k, end, h[ROWS], w[ROWS], channel[ROWS];
    float     acc[ROWS];
    c.range(part, &k, &end);
    if (POOLED) k /= 4, end /= 4;
    LKI_UNROLL
    for (int i = 0; i < ROWS; i++) {
        const int r = (int)(threadIdx.y + i * blockDim.y), tap = v.by_C(r), kh = v.by_KW(tap);
        h[i] = r < rows ? kh * v.dilation[0] : 2 * NOWHERE;
        w[i] = (tap - kh * v.KW) * v.dilation[1];
        channel[i] = r - tap * v.C;
        acc[i] = 0;
    }
    for (; k < end; k += LOOK) {
        for (int j = (int)threadIdx.y; j < LOOK; j += (int)blockDim.y)
            look<POOLED>(&s, x, d, v, e, j, k + j, end, o);
        __syncthreads();
        for (int j = 0; j < LOOK; j += AHEAD)
            multiply_few<ROWS>(s, j, v, h, w, channel, acc);
        __syncthreads();
    }
    LKI_UNROLL
    for (int i = 0; i < ROWS; i++) {
        const int r = (int)(threadIdx.y + i * blockDim.y);
        if (r < rows && o < v.O) parts[((int64_t)part * rows + r) * v.O + o] = acc[i];
    }
}

template <bool POOLED, int ROWS>
void launch_few(const lki_args *g, const float *d, const conv &v, const pool_entries &e, const cuts &c)
{
    const unsigned groups = (unsigned)lki_ceil_div(v.O, WIDTH), lines = (unsigned)lki_ceil_div(v.taps() * v.C, ROWS);
    LKI_LAUNCH((few<POOLED, ROWS>), dim3(c.count() * groups), dim3(WIDTH, lines), 0, g, (const float *)g->src[0].data, d, v, e, c,
               groups, (float *)g->scratch);
}

} // namespace

bool lki_gpu::has_few_weights(const conv &v)
{
    return v.taps() * (int64_t)v.C <= 4 * MOST_LINES && lki_max(v.IH + v.pad[0], v.IW + v.pad[1]) < MOST_CELLS &&
           lki_max(v.KH * v.dilation[0], v.KW * v.dilation[1]) < MOST_CELLS &&
           lki_max(v.OH * v.stride[0], v.OW * v.stride[1]) < MOST_CELLS;
}

void lki_gpu::few_weights(const lki_args *g, const float *d, const conv &v, const pool_entries &e, const cuts &c)
{
    static void (*const run[2][3])(const lki_args *, const float *, const conv &, const pool_entries &,
                                   const cuts &) = {{launch_few<false, 1>, launch_few<false, 2>, launch_few<false, 4>},
                                                    {launch_few<true, 1>, launch_few<true, 2>, launch_few<true, 4>}};
    const int rows = v.taps() * v.C;
    if (c.count()) run[v.pooled][rows <= MOST_LINES ? 0 : rows <= 2 * MOST_LINES ? 1 : 2](g, d, v, e, c);
}
