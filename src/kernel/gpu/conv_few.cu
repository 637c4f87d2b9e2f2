/* conv2d with few weights per out channel (conv_few.h): one CHAIN per output over kh, kw, in channel, cells outside the image as zeros, as conv.cu has it.
 *
 * A block has consecutive tiles of outputs of one image; a thread has TH x TW outputs of four channels at a time. Few enough weights stay in registers, others are read
 * from shared memory, four channels at a time. With a pool a tile is a window, or neighbouring ones. */
#include "kernel/gpu/conv_few.h"

namespace
{

using namespace lki_gpu;

enum { THREADS = 128, SHARED_MOST = 40 << 10, BLOCKS_WANTED = PROCESSORS * 12 };

template <class W_> struct shape_of_tile { /* two rows of outputs */
    typedef W_            W;
    static constexpr bool HELD = W::WEIGHTS <= 9;
    static constexpr int  TH = 2, TW = HELD ? 2 : 4, LINE = (TW + W::KW - 1) * W::C;
};

struct few_call {
    const float *x, *w, *bias; /* bias may be NULL */
    float       *y;
    uint8_t     *cell;
    patch        p;
    quads        q;
    int          OH, OW;                       /* outputs, before a pool */
    int          across, tiles, chunk, chunks; /* tiles in a row, of an image, of a block; blocks of an image */
    int          groups;                       /* blocks that share the channels */
    divisor      by_across;
    float        floor; /* 0 with relu, else -infinity */
};

/* The outputs of one tile. cells: its first row in the patch; weights: of this thread's channels. */
template <class T>
__device__ inline void sums_of(const float *cells, int pitch, const float (*held)[4], const float *weights, float (*acc)[4])
{
    typedef typename T::W W;
    float                 line[T::TH][T::LINE];
    LKI_UNROLL
    for (int i = 0; i < T::TH - 1; i++)
        load_line<T::LINE, T::TW * W::C>(cells + i * pitch, line[i]);
    LKI_UNROLL
    for (int kh = 0; kh < W::KH; kh++) {
        load_line<T::LINE, T::TW * W::C>(cells + (kh + T::TH - 1) * pitch, line[(kh + T::TH - 1) % T::TH]);
        LKI_UNROLL
        for (int k = 0; k < W::ROW; k++) {
            float w[4];
            if (!T::HELD) load_quad(weights + (kh * W::ROW + k) * FEW_CHANNELS, w);
            LKI_UNROLL
            for (int i = 0; i < T::TH * T::TW; i++) {
                LKI_UNROLL
                for (int j = 0; j < 4; j++)
                    acc[i][j] = fmaf(line[(kh + i / T::TW) % T::TH][i % T::TW * W::C + k],
                                     T::HELD ? held[kh * W::ROW + k][j] : w[j], acc[i][j]);
            }
        }
    }
}

/* The first largest of four outputs, and its cell: NaN is larger than all, if there can be any. relu comes after, with a floor of 0: where nothing is
 * above it the first of them wins. Without relu the floor is -infinity. */
template <bool NANS> __device__ inline float best_of(const float *y, float floor, unsigned *place)
{
    float    best = y[0];
    unsigned at = 0;
    LKI_UNROLL
    for (int i = 1; i < 4; i++) {
        const bool larger = NANS ? !(y[i] <= best) && best == best : y[i] > best;
        best = larger ? y[i] : best;
        at = larger ? i : at;
    }
    const bool  low = best <= floor;
    const float first = y[0] < floor ? 0 : y[0];
    *place = low ? 0 : at;
    return low ? first : best;
}

__device__ inline bool has_nan(float a, float b) { return !(a <= b) && !(a > b); }

template <class T>
__device__ inline void put_pooled(const few_call &f, float *to, uint8_t *cell, int row, int column, int o, const float *bias,
                                  const float (*acc)[4])
{
    const int wide = f.OW / 2;
    LKI_UNROLL
    for (int n = 0; n < T::TW / 2; n++) {
        const int at = (row * wide + column * (T::TW / 2) + n) * f.q.channels;
        float     y[4][4], best[4]; /* channels, cells */
        unsigned  place, four = 0;
        bool      nans = false;
        if (column * (T::TW / 2) + n >= wide) continue;
        LKI_UNROLL
        for (int j = 0; j < 4; j++) {
            LKI_UNROLL
            for (int i = 0; i < 4; i++) {
                y[j][i] = acc[i / 2 * T::TW + 2 * n + i % 2][j];
                if (f.bias) y[j][i] = y[j][i] + bias[j];
            }
            nans = nans || has_nan(y[j][0], y[j][1]) || has_nan(y[j][2], y[j][3]);
        }
        LKI_UNROLL
        for (int j = 0; j < 4; j++) {
            best[j] = best_of<false>(y[j], f.floor, &place);
            four |= place << 8 * j;
        }
        if (nans) {
            four = 0;
            for (int j = 0; j < 4; j++) {
                best[j] = best_of<true>(y[j], f.floor, &place);
                four |= place << 8 * j;
            }
        }
        f.q.store(to + at, o, best);
        f.q.store(cell + at, o, four);
    }
}

template <class T>
__device__ inline void put_plain(const few_call &f, float *to, int row, int column, int o, const float *bias, float (*acc)[4])
{
    LKI_UNROLL
    for (int i = 0; i < T::TH * T::TW; i++) {
        const int oh = row * T::TH + i / T::TW, ow = column * T::TW + i % T::TW;
        LKI_UNROLL
        for (int j = 0; j < 4; j++) {
            if (f.bias) acc[i][j] = acc[i][j] + bias[j];
            if (acc[i][j] < f.floor) acc[i][j] = 0;
        }
        if (oh < f.OH && ow < f.OW) f.q.store(to + (oh * f.OW + ow) * f.q.channels, o, acc[i]);
    }
}

template <class T, bool POOLED> __global__ void __launch_bounds__(THREADS, 5) few(LKI_FIXED few_call f)
{
    typedef typename T::W W;
    LKI_DYNAMIC_SHARED(float, shared);
    const int     group = (int)(blockIdx.x % f.groups), chunk = (int)(blockIdx.x / f.groups % f.chunks);
    const int64_t image = blockIdx.x / f.groups / f.chunks;
    const int64_t first = image * ((POOLED ? f.OH / 2 * (f.OW / 2) : f.OH * f.OW) * (int64_t)f.q.channels);
    const int     from = chunk * f.chunk, to = from + f.chunk < f.tiles ? from + f.chunk : f.tiles;
    const int     top = f.by_across(from), bottom = f.by_across(to - 1) + 1;
    const int     q = (int)threadIdx.x & ((1 << f.q.bits) - 1), o = group * f.q.width() + 4 * q;
    float        *weights = shared + f.p.size(), *y = f.y + first + o, held[T::HELD ? W::WEIGHTS : 1][4], bias[4] = {0, 0, 0, 0};
    uint8_t      *cell = POOLED ? f.cell + first + o : nullptr;
    f.p.bring(shared, f.x + image * ((int64_t)f.p.IH * f.p.IW * W::C), top * T::TH, (bottom - top) * T::TH + W::KH - 1);
    for (int i = (int)threadIdx.x; i < W::WEIGHTS * FEW_CHANNELS; i += THREADS) {
        const int  channel = group * f.q.width() + i % FEW_CHANNELS;
        const bool there = channel < f.q.channels;
        copy_one(weights + i, f.w + (there ? i / FEW_CHANNELS * f.q.channels + channel : 0), there ? 4 : 0);
    }
    copies_end();
    if (f.bias) load_channels<false>(f.bias + o, f.q.channels - o, bias);
    copies_wait<0>();
    __syncthreads();
    if (T::HELD) {
        LKI_UNROLL
        for (int k = 0; k < W::WEIGHTS; k++)
            load_quad(weights + k * FEW_CHANNELS + 4 * q, held[T::HELD ? k : 0]);
    }
    for (int t = from + ((int)threadIdx.x >> f.q.bits); t < to; t += THREADS >> f.q.bits) {
        const int row = f.by_across(t), column = t - row * f.across;
        float     acc[T::TH * T::TW][4] = {};
        sums_of<T>(shared + (row - top) * T::TH * f.p.pitch + column * (T::TW * W::C), f.p.pitch, held, weights + hidden(4 * q),
                   acc);
        if (POOLED) put_pooled<T>(f, y, cell, row, column, o, bias, acc);
        else put_plain<T>(f, y, row, column, o, bias, acc);
    }
}

template <class T> bool run_few(const lki_args *g, const conv &v)
{
    typedef typename T::W W;
    const bool            bias = g->attr->epilogue.bias;
    const void *pointers[] = {g->src[1].data, g->dst[0].data, bias ? g->src[2].data : nullptr, v.pooled ? g->dst[1].data : nullptr};
    bool        all = true;
    for (int i = 0; i < 4; i++)
        all = all && aligned(pointers[i]);
    few_call f = {};
    f.x = (const float *)g->src[0].data, f.w = (const float *)g->src[1].data, f.bias = (const float *)pointers[2];
    f.y = (float *)g->dst[0].data, f.cell = (uint8_t *)pointers[3];
    f.q = quads_of(v.O, all);
    f.OH = v.OH, f.OW = v.OW, f.floor = g->attr->epilogue.relu ? 0 : -INFINITY;
    f.across = (int)lki_ceil_div(v.OW, T::TW);
    f.tiles = f.across * (int)lki_ceil_div(v.OH, T::TH);
    f.by_across = divisor_of(f.across);
    f.groups = (int)lki_ceil_div(v.O, f.q.width());
    /* Blocks of whole turns, so many that all multiprocessors have work. */
    const int     at_once = THREADS >> f.q.bits, turns = (int)lki_ceil_div(f.tiles, at_once);
    const int64_t others = v.images * f.groups;
    if (!others || !f.tiles) return true;
    f.chunk = (int)lki_ceil_div(turns, lki_min(turns, lki_ceil_div(BLOCKS_WANTED, others))) * at_once;
    f.p = patch{v.IH, v.IW, v.C, {v.pad[0], v.pad[1]}, 0, (f.across * T::TW + W::KW - 1) * W::C, 0};
    f.p.pitch = (int)lki_ceil_div(f.p.width, 4) * 4;
    for (;; f.chunk -= at_once) { /* ... whose patch fits */
        const int rows = (f.chunk - 2 + f.across) / f.across + 1, most = (int)lki_ceil_div(v.OH, T::TH);
        f.p.rows = (int)lki_min(rows, most) * T::TH + W::KH - 1;
        if (!f.chunk) return false;
        if (4 * ((int64_t)f.p.rows * f.p.pitch + W::WEIGHTS * FEW_CHANNELS) <= SHARED_MOST) break;
    }
    f.chunks = (int)lki_ceil_div(f.tiles, f.chunk);
    const int64_t blocks = others * f.chunks;
    const size_t  bytes = 4 * (size_t)(f.p.size() + W::WEIGHTS * FEW_CHANNELS);
    if (blocks > INT32_MAX) return false;
    if (v.pooled) LKI_LAUNCH((few<T, true>), dim3((unsigned)blocks), dim3(THREADS), bytes, g, f);
    else LKI_LAUNCH((few<T, false>), dim3((unsigned)blocks), dim3(THREADS), bytes, g, f);
    return true;
}

} // namespace

bool lki_gpu::few_conv2d(const lki_args *g, const conv &v)
{
#define LKI_FEW_RUN(kh, kw, c) run_few<shape_of_tile<window<kh, kw, c>>>,
    static bool (*const run[])(const lki_args *, const conv &) = {LKI_FEW_WINDOWS(LKI_FEW_RUN)};
#undef LKI_FEW_RUN
    const int which = few_window_of(v);
    return which >= 0 && run[which](g, v);
}
