/* conv2d with few weights per out channel (conv_few.h).
 *
 * Order of the sum: kh, kw, in channel ascending. In f32, up to PLAIN_MOST weights are one CHAIN, as in the reference: tensor cores
 * would not be faster for such a sum, and their rounding differs, so a pool might choose another cell than on a CPU. Longer sums
 * use tensor cores: octets of weights, each added to the sum so far (mma.h); then the remaining weights, fewer than eight, as a
 * CHAIN that starts from that sum, with factors that are not rounded. Cells outside the image count as zeros. If a sum is NaN, its
 * window is computed again as one CHAIN, as in the reference, so that infinities give the right result. The sign of a zero that
 * results from relu, from a pool or from a window that extends beyond the image may differ from the reference's.
 *
 * A block computes consecutive windows, 2x2 outputs each, of one image, and 32 out channels. A warp computes eight windows at a
 * time: each thread has the four outputs of one window, for eight channels. Rows of a warp's products are outputs: of 16x16, a
 * thread's two rows are the upper outputs of its window, or the lower ones. Columns are channels, ordered so that the eight of a
 * thread are two quads, and neighbouring threads have neighbouring quads: so whole sectors of memory are written. */
#include "kernel/gpu/conv/conv_few.h"
#include <type_traits>

namespace
{

using namespace lki_gpu;

enum { THREADS = 128, WINDOWS = THREADS / 4, EIGHT = 8, PLAIN_MOST = 9, SHARED_MOST = 40 << 10, BLOCKS_WANTED = PROCESSORS * 12 };

struct few_call {
    const float *x, *w, *bias; /* bias may be NULL */
    float       *y;
    uint8_t     *cell;
    patch        p;
    quads        q;
    int          OH, OW;                         /* outputs, before a pool */
    int          across, windows, chunk, chunks; /* windows in a row, of an image, of a block; blocks of an image */
    int          groups;                         /* blocks that share the channels */
    divisor      by_across;
    float        floor; /* 0 with relu, else -infinity */
    unsigned     dead;  /* added to cells whose value is not above `floor` */
};

/* The channel of the block for column `column` of a warp's products; and the jth of a thread's eight channels, relative to its
 * first. */
__device__ inline int channel_of(int column) { return column / 16 * 16 + column % 8 / 2 * 4 + column / 8 % 2 * 2 + column % 2; }
__device__ inline int behind_first(int j) { return j / 4 * 16 + j % 4; }

/* The offset in the patch of weight k of a window, from the window's first cell. */
template <class W> __device__ inline int cell_of(int k, int pitch) { return k / W::ROW * pitch + k % W::ROW; }

/* One output, as a CHAIN. */
template <class W> __device__ inline float chain_of(const float *cells, int pitch, const float *weights)
{
    float sum = 0;
    for (int k = 0; k < W::WEIGHTS; k++)
        sum = fmaf(cells[cell_of<W>(k, pitch)], weights[k * FEW_CHANNELS], sum);
    return sum;
}

/* The first largest of four outputs, after relu or with a floor of -infinity; its cell, shifted by `shift` bits. If one is NaN:
 * NaN, and any cell. */
__device__ inline float largest_of(const float *y, float floor, unsigned dead, int shift, unsigned *place)
{
    const float best = larger_of(larger_of(y[0], y[1]), larger_of(y[2], y[3]));
    unsigned    at = y[2] == best ? 2u << shift : 3u << shift;
    at = y[1] == best ? 1u << shift : at;
    at = y[0] == best ? 0 : at;
    *place = best > floor ? at : dead << shift;
    return larger_of(best, floor);
}

/* The same if some may be NaN: NaN is larger than all. */
__device__ inline float largest_or_nan(const float *y, float floor, unsigned *place)
{
    float best = y[0] < floor ? 0 : y[0];
    *place = 0;
    LKI_UNROLL
    for (int i = 1; i < 4; i++) {
        const float v = y[i] < floor ? 0 : y[i];
        if (!(v > best || (isnan(v) && !isnan(best)))) continue;
        best = v;
        *place = (unsigned)i;
    }
    return best;
}

/* A thread's place: its window, and its eight channels, the first of which is `o`; in the patch; where results are written. */
struct few_place {
    const float *cells;
    int          row, column, o;
    float       *y;
    uint8_t     *cell;
};

/* Output i of the window, channel j of the eight. */
__device__ inline float &output_of(float (*acc)[4][4], int i, int j) { return acc[i / 2][j / 2][i % 2 * 2 + j % 2]; }

/* Returns true if there was a NaN. */
__device__ inline bool put_pooled(const few_call &f, const few_place &h, const float *bias, float (*acc)[4][4])
{
    const int at = (h.row * f.across + h.column) * f.q.channels;
    float     best[EIGHT];
    unsigned  four[2] = {0, 0};
    bool      nans = false;
    LKI_UNROLL
    for (int j = 0; j < EIGHT; j++) {
        float    y[4];
        unsigned place;
        LKI_UNROLL
        for (int i = 0; i < 4; i++)
            y[i] = output_of(acc, i, j) + bias[j];
        best[j] = largest_of(y, f.floor, f.dead, 8 * (j % 4), &place);
        nans = nans || isnan(best[j]);
        four[j / 4] |= place;
    }
    LKI_UNROLL
    for (int j = 0; j < EIGHT; j += 4) {
        f.q.store(h.y + at + behind_first(j), h.o + behind_first(j), best + j);
        f.q.store(h.cell + at + behind_first(j), h.o + behind_first(j), four[j / 4]);
    }
    return nans;
}

__device__ inline bool put_plain(const few_call &f, const few_place &h, const float *bias, float (*acc)[4][4])
{
    bool nans = false;
    LKI_UNROLL
    for (int i = 0; i < 4; i++) {
        const int oh = 2 * h.row + i / 2, ow = 2 * h.column + i % 2;
        float     y[EIGHT];
        LKI_UNROLL
        for (int j = 0; j < EIGHT; j++) {
            y[j] = output_of(acc, i, j) + bias[j];
            nans = nans || isnan(y[j]);
            if (y[j] < f.floor) y[j] = 0;
        }
        LKI_UNROLL
        for (int j = 0; j < EIGHT; j += 4)
            if (oh < f.OH && ow < f.OW)
                f.q.store(h.y + (oh * f.OW + ow) * f.q.channels + behind_first(j), h.o + behind_first(j), y + j);
    }
    return nans;
}

/* Compute all of it again, output by output. weights: of the first of the eight channels. */
template <class W, bool POOLED> __device__ inline void put_again(const few_call &f, const few_place &h, const float *weights)
{
    const int pitch = f.p.pitch;
    for (int i = 0; i < EIGHT; i++) {
        const int j = behind_first(i);
        if (h.o + j >= f.q.channels) continue;
        const float bias = f.bias ? f.bias[h.o + j] : -0.0f;
        float       y[4];
        unsigned    place;
        LKI_UNROLL
        for (int k = 0; k < 4; k++)
            y[k] = chain_of<W>(h.cells + k / 2 * pitch + k % 2 * W::C, pitch, weights + j) + bias;
        if (POOLED) {
            const int at = (h.row * f.across + h.column) * f.q.channels + j;
            h.y[at] = largest_or_nan(y, f.floor, &place);
            h.cell[at] = (uint8_t)(place + (h.y[at] > 0 ? 0 : f.dead));
        }
        LKI_UNROLL
        for (int k = 0; k < (POOLED ? 0 : 4); k++) {
            const int oh = 2 * h.row + k / 2, ow = 2 * h.column + k % 2;
            if (oh < f.OH && ow < f.OW) h.y[(oh * f.OW + ow) * f.q.channels + j] = y[k] < f.floor ? 0 : y[k];
        }
    }
}

/* The sums of a thread, each one CHAIN. Its weights stay in registers: reading them from shared memory for each window would take
 * longer than the sums. */
template <class W> struct plain_sums {
    float           held[W::WEIGHTS][EIGHT];
    __device__ void hold(const float *weights, int mine)
    {
        LKI_UNROLL
        for (int k = 0; k < W::WEIGHTS * EIGHT; k += 4)
            load_quad(weights + k / EIGHT * FEW_CHANNELS + mine + behind_first(k % EIGHT), &held[k / EIGHT][k % EIGHT]);
    }
    __device__ void make(const float *cells, int pitch, float (*acc)[4][4]) const
    {
        LKI_UNROLL
        for (int i = 0; i < 4 * EIGHT; i++)
            output_of(acc, i / EIGHT, i % EIGHT) = 0;
        LKI_UNROLL
        for (int k = 0; k < W::WEIGHTS; k++)
            add_products(cells + cell_of<W>(k, pitch), pitch, held[k], acc);
    }

    /* For one weight and the four outputs. */
    static __device__ void add_products(const float *cells, int pitch, const float *factor, float (*acc)[4][4])
    {
        LKI_UNROLL
        for (int i = 0; i < 4; i++) {
            const float cell = cells[i / 2 * pitch + i % 2 * W::C];
            LKI_UNROLL
            for (int j = 0; j < EIGHT; j++)
                output_of(acc, i, j) = fmaf(cell, factor[j], output_of(acc, i, j));
        }
    }
};

/* The same by tensor cores; the remaining weights are CHAINs that start from these sums. */
template <int P, class W> struct octet_sums {
    enum { OCTETS = W::WEIGHTS / OCTET, LEFT = W::WEIGHTS % OCTET };
    held_factors<P, 4> held[OCTETS];
    float              left[LEFT][EIGHT];
    __device__ void    hold(const float *weights, int mine)
    {
        LKI_UNROLL
        for (int k = 0; k < OCTETS; k++)
            held[k].hold([&](int column, int n) { return weights[(k * OCTET + n) * FEW_CHANNELS + channel_of(column)]; });
        LKI_UNROLL
        for (int k = 0; k < LEFT * EIGHT; k += 4)
            load_quad(weights + (OCTETS * OCTET + k / EIGHT) * FEW_CHANNELS + mine + behind_first(k % EIGHT),
                      &left[k / EIGHT][k % EIGHT]);
    }
    __device__ void make(const float *cells, int pitch, float (*acc)[4][4]) const
    {
        multiply_held<P, true, 2, 4>([&](int i, int r, int k) { return cells[i * pitch + r * W::C + cell_of<W>(k, pitch)]; },
                                     held[0], acc);
        if constexpr (OCTETS > 1) {
            LKI_UNROLL
            for (int n = 1; n < OCTETS; n++)
                multiply_held<P, false, 2, 4>(
                    [&](int i, int r, int k) { return cells[i * pitch + r * W::C + cell_of<W>(n * OCTET + k, pitch)]; }, held[n],
                    acc);
        }
        LKI_UNROLL
        for (int k = 0; k < LEFT; k++)
            plain_sums<W>::add_products(cells + cell_of<W>(OCTETS * OCTET + k, pitch), pitch, left[k], acc);
    }
};

template <int P, class W>
using sums_of = std::conditional_t<P == LKI_PRECISION_F32 && W::WEIGHTS <= PLAIN_MOST, plain_sums<W>, octet_sums<P, W>>;

/* Blocks per multiprocessor: as many as their registers allow. */
template <int P, class W, bool POOLED> constexpr int residents()
{
    if (W::WEIGHTS > PLAIN_MOST) return P == LKI_PRECISION_F32 ? 2 : 3;
    return P == LKI_PRECISION_F32 ? 3 : POOLED ? 5 : 4;
}

template <int P, class W, bool POOLED>
__global__ void __launch_bounds__(THREADS, (residents<P, W, POOLED>())) few(LKI_FIXED few_call f)
{
    LKI_DYNAMIC_SHARED(float, shared);
    const int     lane = (int)threadIdx.x % 32, pitch = f.p.pitch;
    const int     group = (int)(blockIdx.x % f.groups), chunk = (int)(blockIdx.x / f.groups % f.chunks);
    const int64_t image = blockIdx.x / f.groups / f.chunks;
    const int64_t first = image * ((POOLED ? f.windows : f.OH * f.OW) * (int64_t)f.q.channels);
    const int     from = chunk * f.chunk, to = from + f.chunk < f.windows ? from + f.chunk : f.windows;
    const int     top = f.by_across(from), bottom = f.by_across(to - 1) + 1;
    const int     mine = lane % 4 * 4, o = group * FEW_CHANNELS + mine;
    float        *weights = shared + f.p.size();
    f.p.bring(shared, f.x + image * ((int64_t)f.p.IH * f.p.IW * W::C), 2 * top, (bottom - top) * 2 + W::KH - 1);
    for (int i = (int)threadIdx.x; i < W::WEIGHTS * FEW_CHANNELS; i += THREADS) {
        const int  channel = group * FEW_CHANNELS + i % FEW_CHANNELS;
        const bool there = channel < f.q.channels;
        copy_one(weights + i, f.w + (there ? i / FEW_CHANNELS * f.q.channels + channel : 0), there ? 4 : 0);
    }
    copies_end();
    float bias[EIGHT];
    LKI_UNROLL
    for (int j = 0; j < EIGHT; j++)
        /* adding -0 changes nothing */
        bias[j] = f.bias && o + behind_first(j) < f.q.channels ? f.bias[o + behind_first(j)] : -0.0f;
    copies_wait<0>();
    __syncthreads();
    sums_of<P, W> sums;
    sums.hold(weights, mine);
    for (int w = from + (int)threadIdx.x / 4; w < (to + 7) / 8 * 8; w += WINDOWS) { /* all lanes of a warp take part */
        const int at = w < to ? w : to - 1, row = f.by_across(at);
        few_place h = {nullptr, row, at - row * f.across, o, f.y + first + o, POOLED ? f.cell + first + o : nullptr};
        float     acc[2][4][4];
        h.cells = shared + 2 * ((row - top) * pitch + h.column * W::C);
        sums.make(h.cells, pitch, acc);
        if (w >= to) continue;
        if (POOLED ? put_pooled(f, h, bias, acc) : put_plain(f, h, bias, acc)) put_again<W, POOLED>(f, h, weights + mine);
    }
}

template <int P, class W, bool POOLED> void launch_few(const lki_args *g, const few_call &f, unsigned blocks, size_t bytes)
{
    LKI_LAUNCH((few<P, W, POOLED>), dim3(blocks), dim3(THREADS), bytes, g, f);
}

template <class W> bool run_few(const lki_args *g, const conv &v)
{
    const bool  bias = g->attr->epilogue.bias;
    const void *pointers[] = {g->dst[0].data, v.pooled ? g->dst[1].data : nullptr};
    few_call    f = {};
    f.x = (const float *)g->src[0].data, f.w = (const float *)g->src[1].data,
    f.bias = bias ? (const float *)g->src[2].data : nullptr;
    f.y = (float *)pointers[0], f.cell = (uint8_t *)pointers[1];
    f.q = quads_of(v.O, aligned(pointers[0]) && aligned(pointers[1]));
    f.OH = v.OH, f.OW = v.OW, f.floor = g->attr->epilogue.relu ? 0 : -INFINITY,
    f.dead = g->attr->epilogue.marks ? LKI_CELL_DEAD : 0;
    f.across = (int)lki_ceil_div(v.OW, 2);
    f.windows = f.across * (int)lki_ceil_div(v.OH, 2);
    f.by_across = divisor_of(f.across);
    f.groups = (int)lki_ceil_div(v.O, FEW_CHANNELS);
    /* Blocks of whole turns, as many as keep all multiprocessors busy. */
    const int     turns = (int)lki_ceil_div(f.windows, WINDOWS);
    const int64_t others = v.images * f.groups;
    if (!others || !f.windows) return true;
    f.chunk = (int)lki_ceil_div(turns, lki_min(turns, lki_ceil_div(BLOCKS_WANTED, others))) * WINDOWS;
    f.p = patch{v.IH, v.IW, v.C, {v.pad[0], v.pad[1]}, 0, (f.across * 2 + W::KW - 1) * W::C, 0};
    f.p.pitch = (int)lki_ceil_div(f.p.width, 4) * 4;
    for (;; f.chunk -= WINDOWS) { /* ... and whose patch fits */
        const int rows = (f.chunk - 2 + f.across) / f.across + 1, most = (int)lki_ceil_div(v.OH, 2);
        f.p.rows = (int)lki_min(rows, most) * 2 + W::KH - 1;
        if (!f.chunk) return false;
        if (4 * ((int64_t)f.p.rows * f.p.pitch + W::WEIGHTS * FEW_CHANNELS) <= SHARED_MOST) break;
    }
    f.chunks = (int)lki_ceil_div(f.windows, f.chunk);
    const int64_t blocks = others * f.chunks;
    const size_t  bytes = 4 * (size_t)(f.p.size() + W::WEIGHTS * FEW_CHANNELS);
    if (blocks > INT32_MAX) return false;
    static void (*const launch[LKI_PRECISIONS][2])(const lki_args *, const few_call &, unsigned, size_t) = {
        {launch_few<LKI_PRECISION_F32, W, false>, launch_few<LKI_PRECISION_F32, W, true>},
        {launch_few<LKI_PRECISION_TF32, W, false>, launch_few<LKI_PRECISION_TF32, W, true>},
        {launch_few<LKI_PRECISION_BF16, W, false>, launch_few<LKI_PRECISION_BF16, W, true>}};
    launch[g->gpu->precision][v.pooled](g, f, (unsigned)blocks, bytes);
    return true;
}

} // namespace

bool lki_gpu::few_conv2d(const lki_args *g, const conv &v)
{
#define LKI_FEW_RUN(kh, kw, c) run_few<window<kh, kw, c>>,
    static bool (*const run[])(const lki_args *, const conv &) = {LKI_FEW_WINDOWS(LKI_FEW_RUN)};
#undef LKI_FEW_RUN
    const int which = few_window_of(v);
    return which >= 0 && run[which](g, v);
}
