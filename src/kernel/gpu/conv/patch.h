/* Convolutions that keep a patch of the image in shared memory and read it for all taps of the window: stride 1, no dilation. A
 * cell is loaded once, while tiles of a matrix that is not materialised (conv.h) load it once per tap, and the inner loop computes
 * no addresses.
 *
 *     sweep     results [image, row, column] x [channel], for conv2d, and for its data gradient, which is the convolution of the
 *               gradient with the taps reversed. A block has some consecutive results, and the lines of source images that they
 *               read; all taps, one after the other, are multiplied from there (conv.cu, patch_grad.cu; the data gradient through
 *               a pool patch_pool_x.cu)
 *     weights   for 3x3 windows: the gradient of all nine taps from one patch of x and of dy (patch_weights.cu; through a pool
 *               patch_pool_w.cu)
 *
 * With a 2x2 max pool results are ordered window by window (conv.h), and gradients are expanded to the cells that won while they
 * are copied into shared memory.
 *
 * In shared memory channels are in groups of 16 (k_group.h), one plane each: cell after cell, 16 floats. Neighbouring cells are in
 * different banks, so that a warp reads its rows four channels at a time without conflicts. Weights are laid out like operands in
 * loop.h: groups of 16 k, along k or along rows.
 *
 * A block has one tile of results. If the weights of all taps fit beside the patch they stay there, and the block goes from tile to
 * tile.
 *
 * Order of sums: chunks of channels (32, or 16 if the channels are not a multiple of 32), taps, groups of 16 channels ascending,
 * each group added to the sum so far (k_group.h). Channels after the last of a group count as 0 * 0. */
#ifndef LKI_KERNEL_GPU_CONV_PATCH_H
#define LKI_KERNEL_GPU_CONV_PATCH_H

#include "kernel/gpu/conv/conv.h"

namespace lki_gpu
{

/* ---- images ---- */

/* Four floats to shared memory, or zeros. */
__device__ inline void bring_four(float *to, const float *from, bool wide, bool in)
{
    if (wide) return copy_four(to, from, in ? 16 : 0);
    for (int j = 0; j < 4; j++)
        copy_one(to + j, from + (in ? j : 0), in ? 4 : 0);
}

/* Cells outside the image are 0. */
struct whole_image {
    const float *data;
    int          H, W, C;
    bool         wide; /* data is aligned */

    /* Four channels of a cell to shared memory. */
    __device__ void fetch(float *to, int64_t image, int h, int w, int c) const
    {
        const bool in = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W && c < C;
        bring_four(to, in ? data + ((image * H + h) * W + w) * C + c : data, wide, in);
    }
};

/* The gradient of a 2x2 max pool's results, expanded to its H x W inputs: the gradient of a window is at the cell of its largest
 * value. */
struct pooled_image {
    const float *data;
    int          H, W, C;
    pool_entries entries;
    bool         wide; /* all of it is aligned */

    /* Four channels of the window that contains output (h, w): gradients, 0 if dead, and the cells that won, in four bytes. */
    __device__ unsigned window(int64_t image, int h, int w, int c, float *d) const
    {
        const int64_t e = ((image * (H / 2) + h / 2) * (W / 2) + w / 2) * C + c;
        float         y[4] = {1, 1, 1, 1};
        unsigned      cells = 0;
        if ((unsigned)h >= (unsigned)H || (unsigned)w >= (unsigned)W || c >= C) {
            fill_quad(0, d);
            return 0;
        }
        if (wide) {
            cells = *(const unsigned *)(entries.cell + e);
            load_quad(data + e, d);
            if (entries.y) load_quad(entries.y + e, y);
        } else
            for (int j = 0; j < 4; j++) {
                cells |= (unsigned)entries.cell[e + j] << 8 * j;
                d[j] = data[e + j];
                if (entries.y) y[j] = entries.y[e + j];
            }
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            d[j] = y[j] > 0 ? d[j] : 0;
        return cells;
    }
    /* The part of those for one cell of the window. */
    __device__ static void put(float *to, const float *d, unsigned cells, int cell)
    {
        float q[4];
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            q[j] = (int)(cells >> 8 * j & 255) == cell ? d[j] : 0;
        *(float4 *)to = make_float4(q[0], q[1], q[2], q[3]);
    }
    __device__ void fetch(float *to, int64_t image, int h, int w, int c) const
    {
        float          d[4];
        const unsigned cells = window(image, h, w, c, d);
        put(to, d, cells, h % 2 * 2 + w % 2);
    }
};

static inline whole_image whole_image_of(const void *data, int H, int W, int C)
{
    return whole_image{(const float *)data, H, W, C, aligned(data)};
}

static inline pooled_image pooled_image_of(const void *data, int H, int W, int C, const pool_entries &e)
{
    return pooled_image{(const float *)data, H, W, C, e, aligned(data) && aligned(e.cell) && aligned(e.y)};
}

/* ---- plan ---- */

struct sweep_plan {
    int      RH, RW; /* results of an image */
    int      group;  /* lines of results that stay together: 2 with a pool, else 1 */
    int      KH, KW, pad[2];
    int      K, chunk;       /* channels of the source, and of those in shared memory at a time: one or two groups */
    int      stages;         /* taps whose weights are in shared memory */
    int      lines;          /* the most lines of a patch */
    int      room;           /* floats of the patch, or of results before they are written to memory */
    int64_t  rows;           /* number of results */
    unsigned columns, tiles; /* side by side; in all */
    divisor  by_height, by_results, by_line; /* of an image: lines of its patch, results; results of lines that stay together */

    __host__ __device__ int taps() const { return KH * KW; }
    __host__ __device__ int results() const { return RH * RW; }
    __host__ __device__ int width() const { return RW + KW - 1; }
    __host__ __device__ int height() const { return RH + KH - 1; }
    __host__ __device__ int quad_bits() const { return chunk == GROUP ? 2 : 3; } /* four channels of a cell are a quad */
    __host__ __device__ int plane() const
    {
        return (lines * width() | 1) * GROUP;
    } /* floats; odd: planes begin on different banks */
    __host__ __device__ int  patch_floats() const { return chunk / GROUP * plane(); }
    __host__ __device__ bool held() const { return stages == taps() && K <= chunk; } /* weights stay from tile to tile */

    __device__ float *place(float *patch, int cell, int quad) const
    {
        return patch + quad / 4 * plane() + cell * GROUP + quad % 4 * 4;
    }
};

enum { SWEEP_STAGES = 4, SWEEP_AHEAD = 2 }; /* if not all taps are loaded at once */

/* Where the results of a block are: from line `first` of image `image` to line `last` of the last of `images`. The patch has, for
 * each image, its lines and KH - 1 more. */
struct sweep_place {
    int64_t image;
    int     begin, first, last, images; /* begin: the first result, in its image */

    __device__ sweep_place(const sweep_plan &p, int64_t m, int count)
    {
        image = m / p.results();
        begin = (int)(m - image * p.results());
        const int end = begin + count - 1, nth = p.by_results(end);
        first = p.by_line(begin) * p.group;
        last = (p.by_line(end - nth * p.results()) + 1) * p.group - 1;
        images = nth + 1;
    }
    __device__ int lines_of_first(const sweep_plan &p) const { return (images > 1 ? p.RH - 1 : last) - first + p.KH; }
    __device__ int lines(const sweep_plan &p) const
    {
        return images == 1 ? lines_of_first(p) : lines_of_first(p) + (images - 2) * p.height() + last + p.KH;
    }
    /* Line n of the patch: its image, and its place there, relative to the image's results. */
    __device__ int line(const sweep_plan &p, int n, int *nth) const
    {
        const int behind = n - lines_of_first(p);
        *nth = behind < 0 ? 0 : 1 + p.by_height(behind);
        return behind < 0 ? first + n : behind - (*nth - 1) * p.height();
    }
    /* The cell of the patch at which the window of result i of the block begins. */
    __device__ int window(const sweep_plan &p, int i) const
    {
        const int nth = p.by_results(begin + i), at = begin + i - nth * p.results(), line = p.by_line(at),
                  q = at - line * (p.RW * p.group);
        const int h = p.group == 2 ? 2 * line + q % 4 / 2 : line, w = p.group == 2 ? q / 4 * 2 + q % 2 : q;
        return (nth == 0 ? h - first : lines_of_first(p) + (nth - 1) * p.height() + h) * p.width() + w;
    }
};

/* ---- to shared memory ---- */

/* Each warp copies lines of the patch. */
template <bool WIDE>
__device__ inline void bring_lines(const whole_image &source, const sweep_plan &p, const sweep_place &here, int channel, float *to)
{
    const int shift = p.quad_bits(), lines = here.lines(p), width = p.width();
    for (int line = (int)threadIdx.x / 32; line < lines; line += (int)blockDim.x / 32) {
        int          nth, h = here.line(p, line, &nth) - p.pad[0];
        const bool   there = (unsigned)h < (unsigned)source.H;
        const float *from =
            source.data + (((here.image + nth) * source.H + (there ? h : 0)) * source.W - p.pad[1]) * source.C + channel;
        for (int i = (int)threadIdx.x % 32; i < width << shift; i += 32) {
            const int  w = i >> shift, quad = i - (w << shift);
            const bool in = there && (unsigned)(w - p.pad[1]) < (unsigned)source.W && channel + quad * 4 < source.C;
            bring_four(p.place(to, line * width + w, quad), in ? from + (w * source.C + quad * 4) : source.data, WIDE, in);
        }
    }
}

__device__ inline void bring_patch(const whole_image &source, const sweep_plan &p, const sweep_place &here, int channel, float *to)
{
    if (source.wide) bring_lines<true>(source, p, here, channel, to);
    else bring_lines<false>(source, p, here, channel, to);
}

/* Weights of one tap, chunk x BN, laid out like operands in loop.h: as they are, [in][out], or transposed for the data gradient,
 * with out summed over. */
struct weights_as_they_are {
    enum { ALONG_K = 0 };
    const float *data;
    int          C, O, taps;
    bool         wide; /* data is aligned */

    template <int BN, bool WIDE> __device__ void bring_quads(float *to, int tap, int channel, int chunk, int n) const
    {
        const float *from = data + ((int64_t)(tap * C + channel) * O + n);
        for (int i = (int)threadIdx.x; i < chunk * (BN / 4); i += (int)blockDim.x) {
            const int  k = i / (BN / 4), quad = i % (BN / 4);
            const bool in = n + quad * 4 < O && channel + k < C;
            bring_four(to + k * BN + (quad ^ k / 4 % 4 * 2) * 4, in ? from + (k * O + quad * 4) : data, WIDE, in);
        }
    }
    template <int BN> __device__ void bring(float *to, int tap, int channel, int chunk, int n) const
    {
        if (wide) bring_quads<BN, true>(to, tap, channel, chunk, n);
        else bring_quads<BN, false>(to, tap, channel, chunk, n);
    }
};

struct weights_turned {
    enum { ALONG_K = 1 };
    const float *data;
    int          C, O, taps;
    bool         wide; /* data is aligned */

    template <int BN, bool WIDE> __device__ void bring_quads(float *to, int tap, int channel, int chunk, int n) const
    {
        const float *from = data + ((int64_t)((taps - 1 - tap) * C + n) * O + channel);
        const int    quads = chunk / 4;
        for (int i = (int)threadIdx.x; i < BN * quads; i += (int)blockDim.x) {
            const int  row = quads == 8 ? i >> 3 : i >> 2, quad = i & (quads - 1), group = quad / 4;
            const bool in = n + row < C && channel + quad * 4 < O;
            bring_four(to + group * (BN * GROUP) + (row ^ group) * GROUP + quad % 4 * 4, in ? from + (row * O + quad * 4) : data,
                       WIDE, in);
        }
    }
    template <int BN> __device__ void bring(float *to, int tap, int channel, int chunk, int n) const
    {
        if (wide) bring_quads<BN, true>(to, tap, channel, chunk, n);
        else bring_quads<BN, false>(to, tap, channel, chunk, n);
    }
};

/* ---- sweep ---- */

/* Left factors (k_group.h): the rows of a thread, each beginning at its window, and the thread's four channels. */
struct patch_rows {
    enum { AT_ONCE = 2 };
    const float *group; /* plane of the patch, at a tap */
    const int   *window;

    __device__ static int            row(int n, int r) { return 8 * n + r; }
    template <int N> __device__ void load(int n, float (*v)[4]) const
    {
        LKI_UNROLL
        for (int i = 0; i < N; i++)
            load_quad(group + window[n + i], v[i]);
    }
    __device__ float at(int r, int k) const { return group[window[r / 8] - (int)threadIdx.x % 4 * 4 + k]; }
};

/* The rows of a thread: the begin of their windows in the patch, at its four channels. */
template <class Tile> struct thread_rows {
    int window[2 * Tile::MT];

    __device__ thread_rows(const sweep_plan &p, const sweep_place &here, int count)
    {
        LKI_UNROLL
        for (int i = 0; i < 2 * Tile::MT; i++) {
            const int r = Tile::warp_row() + patch_rows::row(i, (int)threadIdx.x % 32 / 4);
            window[i] = here.window(p, r < count ? r : 0) * GROUP + (int)threadIdx.x % 4 * 4;
        }
    }
};

/* The products of one tap. GROUPS is the number of groups of a chunk; it is a constant so that factors of the second group are read
 * while the first is multiplied. Not if factors are split, which takes registers. */
template <int P, class Tile, int GROUPS, class Right>
__device__ inline void multiply_tap(const float *patch, int plane, const thread_rows<Tile> &rows, const float *weights, int own,
                                    typename Tile::sums &sum)
{
#ifndef LKI_SIM
#pragma unroll P == LKI_PRECISION_TF32 || P == LKI_PRECISION_BF16 ? GROUPS : 1
#endif
    for (int i = 0; i < GROUPS; i++)
        multiply_group<P, Tile::MT, Tile::NT>(patch_rows{patch + i * plane, rows.window},
                                              Right(weights, i, own, Tile::warp_column()), sum);
}

template <int P, class Tile, int GROUPS, class S, class W>
__device__ inline void sweep_sums(const S &source, const W &weights, const sweep_plan &p, const sweep_place &here, int count, int n,
                                  bool first, float *room, typename Tile::sums &sum)
{
    typedef factors<W::ALONG_K, Tile::BN, Tile::NT> right_factors;
    const int               taps = p.taps(), stage = p.chunk * Tile::BN, own = kept(right_factors::own(Tile::warp_column()));
    const bool              all = p.stages == taps;
    float *const            ring = room + p.room;
    const thread_rows<Tile> rows(p, here, count);
    clear<Tile>(sum);
    for (int channel = 0; channel < p.K; channel += p.chunk) {
        __syncthreads(); /* no thread reads the previous content */
        bring_patch(source, p, here, channel, room);
        for (int tap = 0; tap < (all ? first || !p.held() ? taps : 0 : SWEEP_AHEAD); tap++) {
            if (tap < taps) weights.template bring<Tile::BN>(ring + tap * stage, tap, channel, p.chunk, n);
            copies_end(); /* one group per step ahead, even if there is no such step */
        }
        if (all) {
            copies_end();
            copies_wait<0>();
            __syncthreads();
        }
        for (int kh = 0, tap = 0; kh < p.KH; kh++)
            for (int kw = 0; kw < p.KW; kw++, tap++) {
                if (!all) { /* since the previous barrier no thread has read the stage that is written now */
                    if (tap + SWEEP_AHEAD < taps)
                        weights.template bring<Tile::BN>(ring + (tap + SWEEP_AHEAD) % SWEEP_STAGES * stage, tap + SWEEP_AHEAD,
                                                         channel, p.chunk, n);
                    copies_end();
                    copies_wait<SWEEP_AHEAD>();
                    __syncthreads();
                }
                multiply_tap<P, Tile, GROUPS, right_factors>(room + (kh * p.width() + kw) * GROUP, p.plane(), rows,
                                                             ring + (all ? tap : tap % SWEEP_STAGES) * stage, own, sum);
            }
    }
}

/* Write a thread's sums to their places in a tile of results, row by row. */
template <class Tile, class Right> __device__ inline void lay_down(const typename Tile::sums &sum, float *room)
{
    const int lane = threadIdx.x % 32;
    LKI_UNROLL
    for (int q = 0; q < Tile::MT * 4; q++) { /* row, and which of a pair of columns */
        const int i = q / 4, h = q / 2 % 2, e = q % 2, o = 2 * h + e;
        float    *p = room + (Tile::warp_row() + patch_rows::row(2 * i + h, lane / 4)) * Tile::PITCH + Tile::warp_column() +
                   Right::row(0, lane % 4 * 2 + e);
        LKI_UNROLL
        for (int j = 0; j < Tile::NT; j += Right::TOGETHER) {
            if constexpr ((int)Right::TOGETHER == 4)
                *(float4 *)(p + 8 * j) = make_float4(sum[i][j][o], sum[i][j + 1][o], sum[i][j + 2][o], sum[i][j + 3][o]);
            else if (!e) *(float2 *)(p + 8 * j) = make_float2(sum[i][j][o], sum[i][j][o + 1]);
        }
    }
}

/* The results of a tile, written to shared memory. False if a sum was not finite and has to be computed again; then nothing was
 * written. */
template <int P, class Tile, class S, class W>
__device__ inline bool lay_swept(const S &source, const W &weights, const sweep_plan &p, unsigned tile, bool first, float *room)
{
    const int64_t     m = (int64_t)(tile / p.columns) * Tile::BM;
    const int         n = (int)(tile % p.columns) * Tile::BN, count = (int)(m + Tile::BM < p.rows ? (int64_t)Tile::BM : p.rows - m);
    const sweep_place here(p, m, count);
    typename Tile::sums sum;
    if (p.chunk == GROUP) sweep_sums<P, Tile, 1>(source, weights, p, here, count, n, first, room, sum);
    else sweep_sums<P, Tile, 2>(source, weights, p, here, count, n, first, room, sum);
    if (needs_care<P, Tile>(sum)) return false;
    if (P != LKI_PRECISION_F32) __syncthreads(); /* the patch is no longer needed */
    lay_down<Tile, factors<W::ALONG_K, Tile::BN, Tile::NT>>(sum, room);
    return true;
}

/* A separate function, so that its registers are only used where it is called. */
template <class Tile, class S, class W>
__device__ __noinline__ void lay_swept_with_care(const S &source, const W &weights, const sweep_plan &p, unsigned tile, float *room)
{
    lay_swept<PRECISION_CAREFUL, Tile>(source, weights, p, tile, false, room);
}

template <int P, class Tile, class S, class W, class E>
__global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT)
    sweep(LKI_FIXED S source, LKI_FIXED W weights, LKI_FIXED E e, LKI_FIXED sweep_plan p)
{
    LKI_DYNAMIC_SHARED(float, room);
    for (unsigned tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        if (!lay_swept<P, Tile>(source, weights, p, tile, tile == blockIdx.x, room))
            lay_swept_with_care<Tile>(source, weights, p, tile, room);
        __syncthreads();
        E to = e;
        to.begin((int64_t)(tile / p.columns) * Tile::BM, (int)(tile % p.columns) * Tile::BN);
        store_tile<Tile>(to, room, true, true);
    }
}

/* ---- launches ---- */

typedef tile<256, 32, GROUP, 64, 32, 2, 2> sweep_tall;  /* up to 32 channels of results */
typedef tile<128, 64, GROUP, 64, 32, 2, 2> sweep_wide;  /* more */
typedef tile<64, 32, GROUP, 16, 32, 2, 4>  sweep_small; /* few results: more blocks */

/* Results RH x RW of images, whose `channels` are summed over, by KH x KW windows. false: the shape is not supported. */
static inline bool sweep_plan_of(sweep_plan *p, const conv &v, int RH, int RW, int channels, int pad_h, int pad_w, bool pooled)
{
    if (v.stride[0] != 1 || v.stride[1] != 1 || v.dilation[0] != 1 || v.dilation[1] != 1 || channels % 8 || v.C % 4 || v.O % 4)
        return false;
    *p = sweep_plan{};
    p->RH = RH, p->RW = RW;
    p->group = pooled ? 2 : 1;
    p->KH = v.KH, p->KW = v.KW;
    p->pad[0] = pad_h, p->pad[1] = pad_w;
    p->K = channels;
    p->chunk = channels % (2 * GROUP) ? (int)GROUP : 2 * GROUP;
    p->rows = v.images * RH * RW;
    p->by_height = divisor_of(p->height());
    p->by_results = divisor_of(p->results());
    p->by_line = divisor_of(RW * p->group);
    return p->rows > 0;
}

enum { SWEEP_MOST_BYTES = 110 << 10 }; /* so that two blocks fit on a multiprocessor */

template <class Tile> static inline size_t sweep_bytes(const sweep_plan &p)
{
    return (size_t)(p.room + p.stages * p.chunk * Tile::BN) * sizeof(float);
}

/* The most lines of results in a tile, a multiple of the lines that stay together. */
template <class Tile> static inline int result_lines(const sweep_plan &p)
{
    return ((Tile::BM - 1 + p.RW * p.group - 1) / (p.RW * p.group) + 1) * p.group;
}

/* A block's shared memory. Large tiles load weights tap by tap, unless all can stay. */
template <class Tile> static inline void sweep_room(sweep_plan *p)
{
    const int groups = result_lines<Tile>(*p) / p->group, of_image = p->RH / p->group;
    const int images = (groups - 1 + of_image - 1) / of_image + 1;
    p->lines = groups * p->group + images * (p->KH - 1);
    p->room = (int)lki_max(p->patch_floats(), Tile::BM * Tile::PITCH);
    p->stages = p->taps();
    if (Tile::BM <= 64 ? p->taps() > 9 : !p->held() || sweep_bytes<Tile>(*p) > SWEEP_MOST_BYTES) p->stages = SWEEP_STAGES;
}

template <class Tile> static inline bool sweep_fits(sweep_plan p)
{
    sweep_room<Tile>(&p);
    return sweep_bytes<Tile>(p) <= SWEEP_MOST_BYTES;
}

template <int P, class Tile, class S, class W, class E>
static void launch_sweep_of(const lki_args *g, const S &source, const W &weights, const E &e, sweep_plan p)
{
    sweep_room<Tile>(&p);
    p.columns = (unsigned)lki_ceil_div(e.N, Tile::BN);
    p.tiles = (unsigned)lki_ceil_div(p.rows, Tile::BM) * p.columns;
    const size_t   bytes = sweep_bytes<Tile>(p);
    const unsigned most =
        (unsigned)lki_max(1, Tile::RESIDENT * PROCESSORS / p.columns) * p.columns; /* a block's tiles have the same weights */
    LKI_GIVE_SHARED((sweep<P, Tile, S, W, E>), bytes);
    LKI_LAUNCH((sweep<P, Tile, S, W, E>), dim3(p.held() && p.tiles > most ? most : p.tiles), dim3(Tile::THREADS), bytes, g, source,
               weights, e, p);
}

static inline bool is_for_small_tiles(const sweep_plan &p, int64_t channels)
{
    return lki_ceil_div(p.rows, sweep_wide::BM) * lki_ceil_div(channels, sweep_wide::BN) < PROCESSORS;
}

template <int P, class S, class W, class E>
static void launch_sweep_in(const lki_args *g, const S &source, const W &weights, const E &e, const sweep_plan &p)
{
    if (is_for_small_tiles(p, e.N)) launch_sweep_of<P, sweep_small>(g, source, weights, e, p);
    else if (e.N <= 32) launch_sweep_of<P, sweep_tall>(g, source, weights, e, p);
    else launch_sweep_of<P, sweep_wide>(g, source, weights, e, p);
}

/* false: it does not fit. It must fit for all tiles: the tile depends on the number of rows, and the choice of this way must
 * not. */
template <class S, class W, class E>
static bool launch_sweep(const lki_args *g, const S &source, const W &weights, const E &e, const sweep_plan &p)
{
    const lki_precision precision = g->gpu->precision;
    if (!sweep_fits<sweep_small>(p) || !sweep_fits<sweep_tall>(p) || !sweep_fits<sweep_wide>(p)) return false;
    if (precision == LKI_PRECISION_TF32) launch_sweep_in<LKI_PRECISION_TF32>(g, source, weights, e, p);
    else if (precision == LKI_PRECISION_BF16) launch_sweep_in<LKI_PRECISION_BF16>(g, source, weights, e, p);
    else launch_sweep_in<LKI_PRECISION_F32>(g, source, weights, e, p);
    return true;
}

/* If there is a way by patches, take it and return true. */
bool patch_grad_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w,
                  const pool_entries &entries); /* patch_grad.cu */
bool patch_pool_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w,
                  const pool_entries &entries); /* patch_pool_x.cu: through a pool */

/* patch_pool_w.cu: through a pool, factors rounded, with the bias as a by-product; only if is_winner_grad_w(), and with the same
 * scratch (conv_pool.h) */
bool is_patch_pool_w(const conv &v);
void patch_pool_w(const lki_args *g, const conv &v, const pool_entries &entries);

/* patch_weights.cu */
bool   is_patch_grad_w(const conv &v);
size_t patch_grad_w_scratch(const conv &v, int lanes);
void   patch_grad_w(const lki_args *g, const conv &v, const pool_entries &entries);

} // namespace lki_gpu

#endif
