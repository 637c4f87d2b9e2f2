/* The gradient for x of conv2d through a max pool, entry by entry (conv_pool.h). A block has 32 in channels and all their weights,
 * and goes from image to image. A warp has a unit, four windows of the pool, and one of STRANDS parts of the out channels: it keeps
 * the 4x4 cells that each window's outputs read in registers, and adds an entry times nine weights to nine of them. At the end
 * cells that belong to several windows are added up in shared memory, one colour of windows at a time, so that no two threads add
 * to the same cell:
 *
 *     0 1 0 1     colour: row % 2 * 2 + column % 2
 *     2 3 2 3
 *
 * Order of the sum, only on GPUs: one CHAIN per window, cell and strand over the strand's out channels. Then, for each strand, the
 * windows that read the cell, in the order of turns and within a turn in the order of colours; then the strands. A turn is as many
 * units as there are workers; an image with more than WORKERS units has several turns. */
#include "kernel/gpu/conv/conv_pool.h"

namespace
{

using namespace lki_gpu;

enum { UNIT = 4, STRANDS = 2, WORKERS = 8, PITCH = POOL_LANES + 1, COLOURS = 4, SHARED_MOST = 160 << 10 };

struct pool_x_call {
    const float  *w;
    pool_gradient d;
    float        *dx;
    int           IH, IW, C, O, PH, PW, pad[2];
    int           images, sets; /* in all; images at a time, and blocks that share them */
    int           at_once, workers;
    bool          wide; /* dx is aligned */
    divisor       by_O, by_PW, by_IW, by_units, by_groups;

    __host__ __device__ int width() const { return 2 * PW + 2; }
    __host__ __device__ int cells() const { return width() * (2 * PH + 2); }
    __host__ __device__ int windows() const { return PH * PW; }
    __host__ __device__ int units() const { return (windows() + UNIT - 1) / UNIT; }
    __host__ __device__ int threads() const { return workers * STRANDS * 32; }
    __host__ __device__ int strand() const { return (O / 8 + STRANDS - 1) / STRANDS * 8; } /* out channels of a strand */

    /* Floats of shared memory: weights [out][tap][in], then, for each image in work, entries as loaded, entries as prepared by
     * tell(), and sums. */
    __host__ __device__ int weights() const { return (O * POOL_TAPS * PITCH + 3) / 4 * 4; }
    __host__ __device__ int raw() const { return (windows() * (2 * O + O / 4) + 3) / 4 * 4; }
    __host__ __device__ int told() const { return units() * O * (UNIT + 1); }
    __host__ __device__ int sums() const { return STRANDS * cells() * POOL_LANES; }
    __host__ __device__ int each() const { return (raw() + told() + sums() + 3) / 4 * 4; }
};

/* ---- loading ---- */

__device__ inline void bring_weights(const pool_x_call &f, int c, float *to)
{
    for (int i = (int)threadIdx.x; i < POOL_TAPS * POOL_LANES * f.O; i += f.threads()) {
        const int  row = f.by_O(i), o = i - row * f.O, tap = row / POOL_LANES, channel = row % POOL_LANES;
        const bool in = c + channel < f.C;
        copy_one(to + (o * POOL_TAPS + tap) * PITCH + channel, f.w + (in ? (int64_t)(tap * f.C + c + channel) * f.O + o : 0),
                 in ? 4 : 0);
    }
}

/* Entries of the images from n on. */
__device__ inline void bring_entries(const pool_x_call &f, int n, float *to)
{
    const int groups = f.O / 8, all = f.windows() * groups;
    for (int s = 0; s < f.at_once && n + s < f.images; s++) {
        float *d = to + s * f.each(), *y = d + f.windows() * f.O, *cell = y + f.windows() * f.O;
        for (int i = (int)threadIdx.x; i < all; i += f.threads())
            f.d.send(((int64_t)(n + s) * all + i) * 8, d + 8 * i, y + 8 * i, cell + 2 * i);
    }
}

/* Rearranges loaded entries: for each unit and out channel four gradients, and their codes in one word. Four out channels at a
 * time. Sums begin at 0. */
__device__ inline void tell(const pool_x_call &f, int n, float *rooms)
{
    const int quads = f.O / 4, units = f.units(), all = units * quads;
    for (int s = 0; s < f.at_once; s++) {
        float *d = rooms + s * f.each(), *y = d + f.windows() * f.O, *cell = y + f.windows() * f.O, *told = d + f.raw(),
              *words = told + UNIT * units * f.O;
        for (int i = (int)threadIdx.x; i < all; i += f.threads()) {
            const int u = f.by_groups(i), o = (i - u * quads) * 4;
            float     v[4][UNIT];
            unsigned  word[4] = {0, 0, 0, 0};
            LKI_UNROLL
            for (int k = 0; k < UNIT; k++) {
                const int      p = u * UNIT + k;
                const bool     in = p < f.windows() && n + s < f.images;
                float          a[4] = {0, 0, 0, 0}, b[4] = {1, 1, 1, 1};
                const unsigned four = in ? __float_as_uint(cell[(p * f.O + o) / 4]) : 0;
                if (in) load_quad(d + p * f.O + o, a);
                if (in && f.d.y) load_quad(y + p * f.O + o, b);
                LKI_UNROLL
                for (int j = 0; j < 4; j++) {
                    v[j][k] = a[j];
                    word[j] |= pool_code(a[j], b[j], four >> 8 * j) << 3 * k;
                }
            }
            LKI_UNROLL
            for (int j = 0; j < 4; j++) {
                *(float4 *)(told + ((o + j) * units + u) * UNIT) = make_float4(v[j][0], v[j][1], v[j][2], v[j][3]);
                words[(o + j) * units + u] = __uint_as_float(word[j]);
            }
        }
        float *sums = words + units * f.O;
        for (int i = (int)threadIdx.x; i < f.sums(); i += f.threads())
            sums[i] = 0;
    }
}

/* ---- sums ---- */

__device__ inline void add_entries(const pool_x_call &f, const float *weights, const float *told, int u, int from, int to,
                                   float (*acc)[16])
{
    const int    units = f.units();
    const float *words = told + UNIT * units * f.O, *w = weights + threadIdx.x % 32;
    float        next = words[from * units + u]; /* codes are read one turn ahead; after the last come sums */
    for (int o = from; o < to; o++) {
        const unsigned word = uniform(__float_as_uint(next));
        float          v[UNIT], tap[POOL_TAPS];
        next = words[(o + 1) * units + u];
        if (!word) continue;
        load_quad(told + (o * units + u) * UNIT, v);
        LKI_UNROLL
        for (int t = 0; t < POOL_TAPS; t++)
            tap[t] = w[(o * POOL_TAPS + t) * PITCH];
        LKI_UNROLL
        for (int k = 0; k < UNIT; k++)
            by_code(word >> 3 * k, [&](auto won) {
                typedef decltype(won) cell;
                LKI_UNROLL
                for (int t = 0; t < POOL_TAPS; t++) {
                    float *sum = &acc[k][(cell::row + t / 3) * 4 + cell::column + t % 3];
                    *sum = fmaf(tap[t], v[k], *sum);
                }
            });
    }
}

/* The windows of a unit with this colour. */
__device__ inline void add_cells(const pool_x_call &f, int u, int colour, const float (*acc)[16], float *sums)
{
    LKI_UNROLL
    for (int k = 0; k < UNIT; k++) {
        const int p = u * UNIT + k, row = f.by_PW(p), column = p - row * f.PW;
        if (p >= f.windows() || row % 2 * 2 + column % 2 != colour) continue;
        float *at = sums + 2 * (row * f.width() + column) * POOL_LANES + threadIdx.x % 32;
        LKI_UNROLL
        for (int i = 0; i < 16; i++) {
            float *cell = at + (i / 4 * f.width() + i % 4) * POOL_LANES;
            *cell = *cell + acc[k][i];
        }
    }
}

/* ---- storing ---- */

__device__ inline void put_image(const pool_x_call &f, int64_t n, int c, const float *sums)
{
    const int quads = POOL_LANES / 4, apart = f.cells() * POOL_LANES;
    for (int i = (int)threadIdx.x; i < f.IH * f.IW * quads; i += f.threads()) {
        const int  at = i / quads, channel = i % quads * 4, h = f.by_IW(at), row = h + f.pad[0], column = at - h * f.IW + f.pad[1];
        const bool seen = row < 2 * f.PH + 2 && column < f.width();
        float      a[4] = {0, 0, 0, 0}, b[4], *to = f.dx + (n * f.IH * f.IW + at) * f.C + c + channel;
        if (c + channel >= f.C) continue;
        if (seen) {
            load_quad(sums + (row * f.width() + column) * POOL_LANES + channel, a);
            load_quad(sums + apart + (row * f.width() + column) * POOL_LANES + channel, b);
            for (int j = 0; j < 4; j++)
                a[j] = a[j] + b[j];
        }
        if (f.wide) *(float4 *)to = make_float4(a[0], a[1], a[2], a[3]);
        else
            for (int j = 0; j < 4; j++)
                to[j] = a[j];
    }
}

__global__ void __launch_bounds__(WORKERS *STRANDS * 32) cells_of_winners(LKI_FIXED pool_x_call f)
{
    LKI_DYNAMIC_SHARED(float, shared);
    const int warp = (int)threadIdx.x / 32, strand = warp / f.workers, worker = warp % f.workers, all = f.at_once * f.units();
    const int c = (int)(blockIdx.x / (unsigned)f.sets) * POOL_LANES, step = f.sets * f.at_once,
              first = (int)(blockIdx.x % (unsigned)f.sets) * f.at_once;
    const int from = strand * f.strand(), to = from + f.strand() < f.O ? from + f.strand() : f.O;
    float    *rooms = shared + f.weights();
    bring_weights(f, c, shared);
    bring_entries(f, first, rooms);
    copies_end();
    for (int n = first; n < f.images; n += step) {
        copies_wait<0>();
        __syncthreads(); /* entries are loaded, and results of the previous images are written */
        tell(f, n, rooms);
        __syncthreads();
        if (n + step < f.images) bring_entries(f, n + step, rooms);
        copies_end();
        for (int begin = 0; begin < all; begin += f.workers) {
            const int  nth = begin + worker, s = f.by_units(nth), u = nth - s * f.units();
            const bool busy = nth < all;
            float     *told = rooms + s * f.each() + f.raw(), *sums = told + f.told() + strand * f.cells() * POOL_LANES;
            float      acc[UNIT][16] = {};
            if (busy) add_entries(f, shared, told, u, from, to, acc);
            for (int colour = 0; colour < COLOURS; colour++) {
                if (busy) add_cells(f, u, colour, acc, sums);
                __syncthreads();
            }
        }
        for (int s = 0; s < f.at_once && n + s < f.images; s++)
            put_image(f, n + s, c, rooms + s * f.each() + f.raw() + f.told());
    }
}

pool_x_call call_of(const conv &v)
{
    pool_x_call f = {};
    f.IH = v.IH, f.IW = v.IW, f.C = v.C, f.O = v.O, f.PH = v.OH / 2, f.PW = v.OW / 2;
    f.pad[0] = v.pad[0], f.pad[1] = v.pad[1];
    f.images = (int)v.images, f.at_once = 1;
    f.by_O = divisor_of(v.O), f.by_PW = divisor_of(f.PW), f.by_IW = divisor_of(v.IW);
    f.by_units = divisor_of(f.units()), f.by_groups = divisor_of(v.O / 4);
    return f;
}

int64_t shared_of(const pool_x_call &f) { return (int64_t)sizeof(float) * (f.weights() + (int64_t)f.at_once * f.each()); }

} // namespace

bool lki_gpu::winner_grad_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w, const pool_entries &entries)
{
    if (!is_pool_conv(v)) return false;
    pool_x_call f = call_of(v);
    if (f.windows() > 4096 || f.O > 4096 || shared_of(f) > SHARED_MOST) return false;
    const int ins = (int)lki_ceil_div(v.C, POOL_LANES);
    while (2 * f.at_once * f.units() <= WORKERS &&
           v.images * ins > 2 * f.at_once * PROCESSORS) /* small images: several at a time */
        f.at_once *= 2;
    while (shared_of(f) > SHARED_MOST)
        f.at_once /= 2;
    const int all = f.at_once * f.units();
    f.workers = (int)lki_ceil_div(all, lki_ceil_div(all, WORKERS));
    f.sets = (int)lki_max(1, lki_min(lki_ceil_div(v.images, f.at_once), PROCESSORS / lki_min(ins, PROCESSORS)));
    f.w = (const float *)w->data, f.dx = (float *)g->dst[0].data, f.wide = aligned(f.dx);
    f.d = pool_gradient_of(d->data, entries);
    LKI_GIVE_SHARED(cells_of_winners, shared_of(f));
    LKI_LAUNCH(cells_of_winners, dim3((unsigned)(f.sets * ins)), dim3((unsigned)f.threads()), (size_t)shared_of(f), g, f);
    return true;
}
