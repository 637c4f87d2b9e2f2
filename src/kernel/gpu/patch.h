/* Convolutions that keep a patch of the image in shared memory and see it through all taps of the window: stride 1, no dilation. A cell is brought once, where tiles of a matrix
 * that is never laid down (conv.h) bring it once per tap, and no address is reckoned in the inner loop.
 *
 *     sweep     results [image, row, column] x [channel], for conv2d, and for its data gradient, which is the convolution of the gradient with the taps turned around. A block has
 *               some results that follow each other, and the lines of source images they see; all taps, one after the other, are multiplied from there (patch.cu, patch_grad.cu)
 *     weights   for 3x3 windows: the gradient of all nine taps from one patch of x and of dy (patch_weights.cu)
 *
 * An image is read by a `fetch(to, image, row, column, channel)` of four channels into shared memory; what lies outside is 0. Behind a 2x2 max pool results go window by window
 * (conv.h), and gradients are spread to the cells that won on their way into shared memory.
 *
 * Order of sums: groups of channels (chunk), taps, octets of channels ascending, each octet added to the sum so far (mma.h). */
#ifndef LKI_KERNEL_GPU_PATCH_H
#define LKI_KERNEL_GPU_PATCH_H

#include "kernel/gpu/conv.h"

namespace lki_gpu {

/* ---- images ---- */

/* Four floats to shared memory, or zeros. */
__device__ inline void bring_four(float *to, const float *from, bool wide, bool in)
{
    if (wide) return copy_four(to, from, in ? 16 : 0);
    for (int j = 0; j < 4; j++)
        copy_one(to + j, from + (in ? j : 0), in ? 4 : 0);
}

struct whole_image {
    const float *data;
    int          H, W, C;
    bool         wide; /* data is aligned */

    __device__ void fetch(float *to, int64_t image, int h, int w, int c) const
    {
        const bool in = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
        bring_four(to, in ? data + ((image * H + h) * W + w) * C + c : data, wide, in);
    }
};

/* The gradient behind a 2x2 max pool of H x W outputs: that of a window lies where its largest was. */
struct pooled_image {
    const float  *data;
    int           H, W, C;
    pool_entries  entries;
    bool          wide; /* all of it is aligned */

    __device__ void fetch(float *to, int64_t image, int h, int w, int c) const
    {
        float q[4] = {0, 0, 0, 0};
        if ((unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W) {
            const int64_t e = ((image * (H / 2) + h / 2) * (W / 2) + w / 2) * C + c;
            const int     at = h % 2 * 2 + w % 2;
            if (wide) quad(e, at, q);
            else
                for (int j = 0; j < 4; j++)
                    q[j] = entries(data, e + j, at);
        }
        *(float4 *)to = make_float4(q[0], q[1], q[2], q[3]);
    }
    __device__ void quad(int64_t e, int at, float *q) const
    {
        const unsigned four = *(const unsigned *)(entries.cell + e);
        float          y[4] = {1, 1, 1, 1};
        load_quad(data + e, q);
        if (entries.y) load_quad(entries.y + e, y);
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            if ((int)(four >> 8 * j & 255) != at || !(y[j] > 0)) q[j] = 0;
    }
};

static inline whole_image whole_image_of(const void *data, int H, int W, int C) { return whole_image{(const float *)data, H, W, C, aligned(data)}; }

static inline pooled_image pooled_image_of(const void *data, int H, int W, int C, const pool_entries &e)
{
    return pooled_image{(const float *)data, H, W, C, e, aligned(data) && aligned(e.cell) && aligned(e.y)};
}

/* ---- sweep ---- */

struct sweep_plan {
    int      RH, RW;  /* results of an image */
    int      group;   /* lines of results that go together: 2 with a pool, else 1 */
    int      KH, KW, pad[2];
    int      K, chunk; /* channels of the source, and of those that lie in shared memory at a time */
    int      stages;   /* taps whose weights lie there */
    int      lines;    /* most of a patch */
    int64_t  rows;     /* results in all */
    unsigned columns;  /* blocks side by side */
    divisor  by_quads, by_width, by_height; /* of a cell; of a line, in cells; of an image's patch, in lines */

    __host__ __device__ int width() const { return RW + KW - 1; }
    __host__ __device__ int height() const { return RH + KH - 1; }
    __host__ __device__ int pitch() const { return chunk + 4; }
    __host__ __device__ int patch_floats() const { return lines * width() * pitch(); }
};

enum { SWEEP_STAGES = 4, SWEEP_AHEAD = 2 }; /* of large tiles; small ones bring all taps at once */

/* Where the results of a block lie: from line `first` of image `image` to line `last` of image `last_image`. The patch has, for each image, its lines and KH - 1 more. */
struct sweep_place {
    int64_t image;
    int     first, last, images;

    __device__ sweep_place(const sweep_plan &p, int64_t m, int64_t end)
    {
        const int     each = p.RH * p.RW, wide = p.RW * p.group;
        const int64_t last_image = (end - 1) / each;
        image = m / each;
        first = (int)(m - image * each) / wide * p.group;
        last = ((int)(end - 1 - last_image * each) / wide + 1) * p.group - 1;
        images = (int)(last_image - image) + 1;
    }
    __device__ int lines_of_first(const sweep_plan &p) const { return (images > 1 ? p.RH - 1 : last) - first + p.KH; }
    __device__ int lines(const sweep_plan &p) const
    {
        return images == 1 ? lines_of_first(p) : lines_of_first(p) + (images - 2) * p.height() + last + p.KH;
    }
    /* Where in the patch the window of result r begins. */
    __device__ int window(const sweep_plan &p, int64_t r) const
    {
        const int     each = p.RH * p.RW, wide = p.RW * p.group;
        const int64_t of = r / each;
        const int     at = (int)(r - of * each), group = at / wide, q = at - group * wide, nth = (int)(of - image);
        const int     h = p.group == 2 ? 2 * group + q % 4 / 2 : group, w = p.group == 2 ? q / 4 * 2 + q % 2 : q;
        const int     line = nth == 0 ? h - first : lines_of_first(p) + (nth - 1) * p.height() + h;
        return (line * p.width() + w) * p.pitch();
    }
};

template <class S> __device__ inline void bring_patch(const S &source, const sweep_plan &p, const sweep_place &here, int channel, float *to)
{
    const int quads = p.chunk / 4, width = p.width(), of_first = here.lines_of_first(p), count = here.lines(p) * width * quads;
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        const int cell = p.by_quads(i), line = p.by_width(cell), w = cell - line * width, behind = line - of_first;
        const int nth = behind < 0 ? 0 : 1 + p.by_height(behind), h = behind < 0 ? here.first + line : behind - (nth - 1) * p.height();
        source.fetch(to + cell * p.pitch() + (i - cell * quads) * 4, here.image + nth, h - p.pad[0], w - p.pad[1],
                     channel + (i - cell * quads) * 4);
    }
}

/* Weights of one tap, chunk x BN, in shared memory: as they lie, [in][out], or turned around for the data gradient, [in][out] with out summed over. */
struct weights_as_they_are {
    enum { ALONG_K = 0 };
    const float *data;
    int          C, O, taps;
    bool         wide; /* data is aligned */

    template <int BN> static __host__ __device__ int pitch(int) { return BN + 8; }
    template <int BN> __device__ void                bring(float *to, int tap, int channel, int chunk, int n) const
    {
        for (int i = (int)threadIdx.x; i < chunk * (BN / 4); i += (int)blockDim.x) {
            const int k = i / (BN / 4), q = i % (BN / 4) * 4;
            bring_four(to + k * (BN + 8) + q, data + (int64_t)(tap * C + channel + k) * O + (n + q < O ? n + q : 0), wide, n + q < O);
        }
    }
};

struct weights_turned {
    enum { ALONG_K = 1 };
    const float *data;
    int          C, O, taps;
    bool         wide; /* data is aligned */

    template <int BN> static __host__ __device__ int pitch(int chunk) { return chunk + 4; }
    template <int BN> __device__ void                bring(float *to, int tap, int channel, int chunk, int n) const
    {
        const int quads = chunk / 4;
        for (int i = (int)threadIdx.x; i < BN * quads; i += (int)blockDim.x) {
            const int row = i / quads, q = (i - row * quads) * 4, in = n + row < C;
            bring_four(to + row * (chunk + 4) + q, data + (int64_t)((taps - 1 - tap) * C + (in ? n + row : 0)) * O + channel + q, wide, in);
        }
    }
};

/* Floats of a stage of weights; of all a block has in shared memory: patch and stages, or results on their way out. */
template <class W, int BN> __host__ __device__ inline int stage_floats(int chunk)
{
    return W::ALONG_K ? BN * W::template pitch<BN>(chunk) : chunk * W::template pitch<BN>(chunk);
}

template <class Tile, class W> static inline size_t sweep_bytes(const sweep_plan &p)
{
    const int loop = p.patch_floats() + p.stages * stage_floats<W, Tile::BN>(p.chunk), out = Tile::BM * Tile::PITCH;
    return (size_t)(loop > out ? loop : out) * sizeof(float);
}

template <int P, class Tile, class S, class W>
__device__ inline void sweep_sums(const S &source, const W &weights, const sweep_plan &p, const sweep_place &here, int64_t m, int n, float *room,
                                  typename Tile::sums &sum)
{
    const int    lane = threadIdx.x % 32, warp = threadIdx.x / 32, taps = p.KH * p.KW, stage = stage_floats<W, Tile::BN>(p.chunk);
    const int    wm = warp / (Tile::BN / Tile::WN) * Tile::WM, wn = warp % (Tile::BN / Tile::WN) * Tile::WN, pitch = W::template pitch<Tile::BN>(p.chunk);
    float *const ring = room + p.patch_floats();
    int          window[Tile::MT][2];
    LKI_UNROLL
    for (int i = 0; i < Tile::MT; i++) {
        LKI_UNROLL
        for (int h = 0; h < 2; h++) {
            const int64_t r = m + wm + i * 16 + h * 8 + lane / 4;
            window[i][h] = here.window(p, r < p.rows ? r : m);
        }
    }
    clear<Tile>(sum);
    for (int channel = 0; channel < p.K; channel += p.chunk) {
        __syncthreads(); /* nobody reads the chunk before */
        bring_patch(source, p, here, channel, room);
        for (int tap = 0; tap < (p.stages == taps ? taps : SWEEP_AHEAD); tap++) {
            if (tap < taps) weights.template bring<Tile::BN>(ring + tap * stage, tap, channel, p.chunk, n);
            copies_end(); /* one for each step ahead, also where there is none */
        }
        if (p.stages == taps) {
            copies_wait<0>();
            __syncthreads();
        }
        for (int tap = 0; tap < taps; tap++) {
            if (p.stages != taps) { /* the stage that is written now was read by nobody since the barrier before */
                if (tap + SWEEP_AHEAD < taps)
                    weights.template bring<Tile::BN>(ring + (tap + SWEEP_AHEAD) % SWEEP_STAGES * stage, tap + SWEEP_AHEAD, channel, p.chunk, n);
                copies_end();
                copies_wait<SWEEP_AHEAD>();
                __syncthreads();
            }
            const float *left = room + (tap / p.KW * p.width() + tap % p.KW) * p.pitch(), *right = ring + tap % p.stages * stage;
            for (int k = 0; k < p.chunk; k += OCTET)
                multiply_own<P, Tile::MT, Tile::NT>([&](int i, int h, int j) { return left[window[i][h] + k + j]; },
                                                    [&](int column, int j) {
                                                        return W::ALONG_K ? right[(wn + column) * pitch + k + j] : right[(k + j) * pitch + wn + column];
                                                    },
                                                    sum);
        }
    }
    __syncthreads(); /* shared memory is free */
}

template <int P, class Tile, class S, class W, class E>
__global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT) sweep(S source, W weights, E e, LKI_FIXED sweep_plan p)
{
    LKI_DYNAMIC_SHARED(float, room);
    const int64_t       m = (int64_t)(blockIdx.x / p.columns) * Tile::BM;
    const int           n = (int)(blockIdx.x % p.columns) * Tile::BN;
    const sweep_place   here(p, m, m + Tile::BM < p.rows ? m + Tile::BM : p.rows);
    typename Tile::sums sum;
    sweep_sums<P, Tile>(source, weights, p, here, m, n, room, sum);
    if (needs_care<P, Tile>(sum)) sweep_sums<PRECISION_CAREFUL, Tile>(source, weights, p, here, m, n, room, sum);
    e.begin(m, n);
    put_tile<Tile>(e, sum, room, true, true);
}

typedef tile<256, 32, 8, 32, 32, 2, 2> sweep_tall;  /* up to 32 channels of results */
typedef tile<128, 64, 8, 32, 32, 2, 2> sweep_wide;  /* more */
typedef tile<64, 32, 8, 16, 32, 2, 4>  sweep_small; /* few results: more blocks */

/* Results RH x RW of C-channel images by KH x KW windows; N channels of results. false: it cannot be done this way. */
static inline bool sweep_plan_of(sweep_plan *p, const conv &v, int64_t images, int RH, int RW, int channels, bool pooled)
{
    if (v.stride[0] != 1 || v.stride[1] != 1 || v.dilation[0] != 1 || v.dilation[1] != 1 || channels % 8 || v.C % 4 || v.O % 4) return false;
    *p = sweep_plan{};
    p->RH = RH, p->RW = RW;
    p->group = pooled ? 2 : 1;
    p->KH = v.KH, p->KW = v.KW;
    p->K = channels;
    p->chunk = channels % 32 == 0 ? 32 : channels % 16 == 0 ? 16 : 8;
    p->rows = images * RH * RW;
    p->by_quads = divisor_of(p->chunk / 4);
    p->by_width = divisor_of(p->width());
    p->by_height = divisor_of(p->height());
    return p->rows > 0;
}

enum { SWEEP_MOST_BYTES = 110 << 10 };

template <class Tile> static inline void sweep_lines(sweep_plan *p)
{
    const int groups = (Tile::BM - 1 + p->RW * p->group - 1) / (p->RW * p->group) + 1, of_image = p->RH / p->group;
    const int images = (groups - 1 + of_image - 1) / of_image + 1;
    p->lines = groups * p->group + images * (p->KH - 1);
    p->stages = Tile::BM <= 64 && p->KH * p->KW <= 9 ? p->KH * p->KW : SWEEP_STAGES;
}

template <class Tile, class W> static inline bool sweep_fits(sweep_plan p)
{
    sweep_lines<Tile>(&p);
    return sweep_bytes<Tile, W>(p) <= SWEEP_MOST_BYTES;
}

template <int P, class Tile, class S, class W, class E>
static void launch_sweep_of(const lki_args *g, const S &source, const W &weights, const E &e, sweep_plan p)
{
    sweep_lines<Tile>(&p);
    p.columns = (unsigned)lki_ceil_div(e.N, Tile::BN);
    const size_t bytes = sweep_bytes<Tile, W>(p);
    LKI_GIVE_SHARED((sweep<P, Tile, S, W, E>), bytes);
    LKI_LAUNCH((sweep<P, Tile, S, W, E>), dim3((unsigned)lki_ceil_div(p.rows, Tile::BM) * p.columns), dim3(Tile::THREADS), bytes, g, source, weights, e, p);
}

template <int P, class S, class W, class E>
static void launch_sweep_in(const lki_args *g, const S &source, const W &weights, const E &e, const sweep_plan &p)
{
    if (lki_ceil_div(p.rows, sweep_wide::BM) * lki_ceil_div(e.N, sweep_wide::BN) < PROCESSORS) launch_sweep_of<P, sweep_small>(g, source, weights, e, p);
    else if (e.N <= 32) launch_sweep_of<P, sweep_tall>(g, source, weights, e, p);
    else launch_sweep_of<P, sweep_wide>(g, source, weights, e, p);
}

/* false: it does not fit. All tiles must: which of them runs depends on how many rows there are, and whether this way is gone must not. */
template <class S, class W, class E> static bool launch_sweep(const lki_args *g, const S &source, const W &weights, const E &e, const sweep_plan &p)
{
    const lki_precision precision = g->gpu->precision;
    if (!sweep_fits<sweep_small, W>(p) || !sweep_fits<sweep_tall, W>(p) || !sweep_fits<sweep_wide, W>(p)) return false;
    if (precision == LKI_PRECISION_TF32) launch_sweep_in<LKI_PRECISION_TF32>(g, source, weights, e, p);
    else if (precision == LKI_PRECISION_BF16) launch_sweep_in<LKI_PRECISION_BF16>(g, source, weights, e, p);
    else launch_sweep_in<LKI_PRECISION_F32>(g, source, weights, e, p);
    return true;
}

/* Is there a way by patches, and it is gone: true. */
bool patch_grad_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w, const pool_entries &entries); /* patch_grad.cu */

/* patch_weights.cu */
bool   is_patch_grad_w(const conv &v);
size_t patch_grad_w_scratch(const conv &v, int lanes);
void   patch_grad_w(const lki_args *g, const conv &v, const pool_entries &entries);

} // namespace lki_gpu

#endif
