/* The gradient for the weights of a convolution with 3x3 windows of one channel, and for its bias, through a 2x2 max pool that a
 * dense layer follows. The gradient of the pool's results, d = g * w^T, is not materialised. On tensor cores, for precisions that
 * round factors; dense_pool.h says for which shapes.
 *
 * A block has some images of a lane, a band of windows and 32 channels; a warp 8*NT of its images and every WG-th window. Window by
 * window it computes
 *
 *     d[channel][image] = w[channel][unit] * g[image][unit]              g stays in registers for all windows; w is copied through
 *                                                                        a ring in shared memory, with the cells and lines of x
 *     e[cell][channel][pixel] += d[channel][image] * x[image][pixel]     d if this cell won, else 0; pixels of the 4x4 that the
 *                                                                        window's outputs read
 *
 * The sums of the first product are left factors of the second without any rearrangement (octet.h). A thread has four neighbouring
 * channels, so that their cells are one word. Of the pixels it has those of a line, so a weight is a sum of its own values and of
 * its neighbour's: weight[kh][kw] = the sum over cells (r, c) of e[r, c][r + kh][c + kw].
 *
 * Order of the sum, only on GPUs
 *     d        units in groups of 16: 4k and 4k+1 of all k, then 4k+2 and 4k+3 (k_group.h), inside the tensor core
 *     e        windows of a warp ascending, its images eight by eight, inside the tensor core; a block's next images come after all
 *              windows of the previous ones
 *     weight   columns of cells, then rows of them; the bias: image by image, then images of a warp; warps of a block from the
 *              first; parts and lanes as in lane_parts.h
 *
 * Entries that did not win, cells outside the image and images after the last count as zeros: if the other factor is not finite the
 * result is NaN. */
#include "kernel/dense_pool.h"
#include "kernel/gpu/base/lane_parts.h"
#include "kernel/gpu/base/octet.h"
#include "kernel/gpu/conv/conv.h"
#include <assert.h>

namespace
{

using namespace lki_gpu;

enum { CHANNELS = LKI_DENSE_POOL_CHANNELS, TAPS = 9, PARTS = 16 /* of a lane */, IMAGES = 128 /* of a block at a time */ };

/* KG: groups of 16 units. A warp has 8*NT images of a window; a block RG times as many, and WG windows at a time. */
template <int P_, int KG_, int NT_, int RG_, int WG_> struct way {
    enum { P = P_, KG = KG_, NT = NT_, RG = RG_, WG = WG_, STAGES = 2 };
    enum { WARPS = RG * WG, THREADS = 32 * WARPS };
    enum {
        W_PITCH = 16 * KG + 4,
        W_WINDOW = CHANNELS * W_PITCH,
        W_STAGE = WG * W_WINDOW
    }; /* floats: so that quads that are read together are in different banks */
    enum { CELL_PITCH = WG * CHANNELS / 4 + 4, CELL_STAGE = IMAGES * CELL_PITCH, STAGE = W_STAGE + CELL_STAGE };
    enum { SUMS = (TAPS + 1) * CHANNELS }; /* of a warp */
    static_assert(8 * NT * RG == IMAGES, "all ways have as many");
};

struct dense_call {
    const float   *x, *g, *w;
    const uint8_t *cell;
    float         *parts;
    int            IH, IW, PW, pad[2], O, K, windows;
    int            sums;              /* per channel that are wanted */
    int            once, pieces;      /* cells of x that are copied at once, four or one; copies of a line */
    int            held, line, image; /* lines of x in shared memory at a time; floats from line to line, and from image to image */
    int            stages;
    divisor        by_PW, by_pieces, by_held;

    __device__ int row_of(int window) const { return by_PW(window); }
    __device__ int place_of(int l) const { return (l - by_held(l) * held) * line; }
};

/* A block's current piece of work. */
struct share {
    int from, to;   /* images */
    int first, end; /* windows */
    int channel;
};

template <class T> struct rooms {
    float *x, *stages;

    __device__        rooms(const dense_call &f, float *shared) : x(shared), stages(shared + IMAGES * f.image) {}
    __device__ float *w(int stage) const { return stages + stage * T::STAGE; }
    __device__ float *cells(int stage) const { return w(stage) + T::W_STAGE; }
};

/* ---- loading ---- */

/* Each warp copies a part of its window of this step. */
template <class T> __device__ inline void fetch_weights(const dense_call &f, const share &s, int window, float *to)
{
    enum { QUADS = 4 * T::KG, LINES = 32 / QUADS }; /* of a window's channel; channels at once */
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, w = window + warp % T::WG;
    const int channel = warp / T::WG * (CHANNELS / T::RG) + lane / QUADS, q = lane % QUADS * 4, bytes = q < f.K ? 16 : 0;
    if (w >= s.end) return;
    const float *from = f.w + ((w * f.O + s.channel + channel) * f.K + (bytes ? q : 0));
    float       *place = to + warp % T::WG * T::W_WINDOW + channel * T::W_PITCH + q;
    LKI_UNROLL
    for (int i = 0; i < QUADS / T::RG; i++)
        copy_four(place + i * LINES * T::W_PITCH, from + i * LINES * f.K, bytes);
}

template <class T> __device__ inline void fetch_cells(const dense_call &f, const share &s, int window, float *to)
{
    LKI_UNROLL
    for (int i = (int)threadIdx.x; i < IMAGES * T::WG * 2; i += T::THREADS) {
        const int n = i / (2 * T::WG), w = i / 2 % T::WG, q = i % 2 * 4;
        if (s.from + n < s.to && window + w < s.end)
            copy_four(to + n * T::CELL_PITCH + w * (CHANNELS / 4) + q,
                      (const float *)(f.cell + ((int64_t)(s.from + n) * f.windows + window + w) * f.O + s.channel + 4 * q), 16);
    }
}

/* Lines from <= i < to of the padded images. */
template <class T> __device__ inline void fetch_lines(const dense_call &f, const share &s, int from, int to, float *x)
{
    enum { EACH = T::THREADS / IMAGES };
    const int    n = (int)threadIdx.x / EACH;
    const bool   there = s.from + n < s.to;
    const float *image = f.x + (there ? (int64_t)(s.from + n) * (f.IH * f.IW) : 0);
    LKI_ROLLED
    for (int i = (int)threadIdx.x % EACH; i < (to - from) * f.pieces; i += EACH) {
        const int line = from + f.by_pieces(i), at = (i - f.by_pieces(i) * f.pieces) * f.once, h = line - f.pad[0],
                  w = at - f.pad[1];
        const bool   in = there && (unsigned)h < (unsigned)f.IH && (unsigned)w < (unsigned)f.IW;
        float       *place = x + n * f.image + f.place_of(line) + at;
        const float *cells = in ? image + (h * f.IW + w) : f.x;
        if (f.once == 4) copy_four(place, cells, in ? 16 : 0);
        else copy_one(place, cells, in ? 4 : 0);
    }
}

/* Lines of windows before this one. */
__device__ inline int lines_before(const dense_call &f, int window) { return 2 * f.row_of(window - 1) + 4; }

/* What the step that begins with this window needs and earlier steps did not. */
template <class T> __device__ inline void fetch_step(const dense_call &f, const share &s, int window, int stage, const rooms<T> &r)
{
    if (window >= s.end) return;
    const int last = window + T::WG < s.end ? window + T::WG : s.end;
    fetch_weights<T>(f, s, window, r.w(stage));
    fetch_cells<T>(f, s, window, r.cells(stage));
    fetch_lines<T>(f, s, window > s.first ? lines_before(f, window) : 2 * f.row_of(window), lines_before(f, last), r.x);
}

/* ---- products ---- */

/* g of the warp's images: start the copy; and as factors. */
template <class T> __device__ inline void load_gradient(const dense_call &f, const share &s, int first, float (*v)[4])
{
    const int lane = (int)threadIdx.x % 32;
    LKI_UNROLL
    for (int i = 0; i < T::NT * T::KG; i++) {
        const int n = s.from + first + i / T::KG * 8 + lane / 4, k = i % T::KG * 16 + lane % 4 * 4;
        fill_quad(0, v[i]);
        if (n < s.to && k < f.K) load_quad(f.g + ((int64_t)n * f.K + k), v[i]);
    }
}
template <class T> __device__ inline void hold(const float (*v)[4], octet_right<T::P> (*g)[2 * T::KG])
{
    LKI_UNROLL
    for (int i = 0; i < 2 * T::NT * T::KG; i++) {
        const float two[2] = {as_factor<T::P>(v[i / 2][i % 2 * 2]), as_factor<T::P>(v[i / 2][i % 2 * 2 + 1])};
        g[i / (2 * T::KG)][i % (2 * T::KG)] = octet_right<T::P>(two);
    }
}

/* d of a window: a thread has channels 4*(lane/4) + 2*i and the next, images 2*(lane%4) and the next. */
template <class T>
__device__ inline void multiply_weights(const float *w, const octet_right<T::P> (*g)[2 * T::KG], float (*d)[2][4])
{
    const float *mine = w + (int)threadIdx.x % 32 / 4 * 4 * T::W_PITCH + (int)threadIdx.x % 4 * 4;
    LKI_UNROLL
    for (int k = 0; k < T::KG; k++) {
        float v[4][4];
        LKI_UNROLL
        for (int j = 0; j < 4; j++) {
            load_quad(mine + j * T::W_PITCH + 16 * k, v[j]);
            LKI_UNROLL
            for (int i = 0; i < 4; i++)
                v[j][i] = as_factor<T::P>(v[j][i]);
        }
        LKI_UNROLL
        for (int i = 0; i < 4; i++) { /* octet, pair of channels */
            const int              o = i / 2 * 2, m = i % 2 * 2;
            const float            two[2][2] = {{v[m][o], v[m][o + 1]}, {v[m + 1][o], v[m + 1][o + 1]}};
            const octet_left<T::P> a(two);
            LKI_UNROLL
            for (int t = 0; t < T::NT; t++)
                add_octet<T::P>(a, g[t][2 * k + i / 2], d[t][i % 2]);
        }
    }
}

/* Which of four channels won in which cell: bytes are the first byte of TWICE, or 0. So a mask takes one instruction, and applying
 * it is a product; sums are twice the result. */
struct winners {
    unsigned live, at[4]; /* live in any cell; in each cell */

    __device__ explicit winners(unsigned cells)
    {
        const unsigned right = cells << 6, lower = cells << 5;
        live = ~(cells << 4) & 0x40404040;
        at[0] = live & ~right & ~lower, at[1] = live & right & ~lower;
        at[2] = live & ~right & lower, at[3] = live & right & lower;
        static_assert(LKI_CELL_DEAD == 4, "a mark is the bit behind those of cells");
    }
};
constexpr float TWICE = 2; /* 0x40000000 */

/* TWICE or 0, for channel j. */
__device__ inline float mask_of(unsigned word, int j)
{
#ifdef LKI_SIM
    return __uint_as_float((word >> 8 * j & 255) << 24);
#else
    return __uint_as_float(__byte_perm(word, 0, 0x444 | j << 12));
#endif
}

/* e and bias of eight images. cells: words of the thread's two images. */
template <int P>
__device__ inline void add_entries(const float (*d)[4], const unsigned *cells, const float2 *x, float (*e)[2][2][4], float *bias)
{
    const float columns[2][2] = {{as_factor<P>(x[0].x), as_factor<P>(x[1].x)}, {as_factor<P>(x[0].y), as_factor<P>(x[1].y)}};
    const octet_right<P> b[2] = {octet_right<P>(columns[0]), octet_right<P>(columns[1])};
    const winners        w[2] = {winners(cells[0]), winners(cells[1])};
    LKI_UNROLL
    for (int i = 0; i < 2; i++) {
        float v[2][2];
        LKI_UNROLL
        for (int j = 0; j < 4; j++) { /* channel, image */
            const int channel = 2 * i + j / 2;
            bias[channel] = fmaf(d[i][j], mask_of(w[j % 2].live, channel), bias[channel]);
            v[j / 2][j % 2] = as_factor<P>(d[i][j]);
        }
        LKI_UNROLL
        for (int c = 0; c < 4; c++) {
            float won[2][2];
            LKI_UNROLL
            for (int j = 0; j < 4; j++)
                won[j / 2][j % 2] = v[j / 2][j % 2] * mask_of(w[j % 2].at[c], 2 * i + j / 2);
            const octet_left<P> a(won);
            add_octet<P>(a, b[0], e[c][i][0]);
            add_octet<P>(a, b[1], e[c][i][1]);
        }
    }
}

/* A warp's window of a step. */
template <class T>
__device__ inline void add_window(const dense_call &f, int window, int stage, const rooms<T> &r,
                                  const octet_right<T::P> (*g)[2 * T::KG], float (*e)[2][2][4], float *bias)
{
    const int    lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, of_step = warp % T::WG, pixel = lane / 4;
    const int    n = warp / T::WG * (8 * T::NT) + lane % 4 * 2, row = f.row_of(window);
    const float *seen = r.x + n * f.image + f.place_of(2 * row + pixel / 2) + 2 * (window - row * f.PW) + pixel % 2 * 2;
    const float *word = r.cells(stage) + n * T::CELL_PITCH + of_step * (CHANNELS / 4) + pixel;
    float        d[T::NT][2][4] = {};
    multiply_weights<T>(r.w(stage) + of_step * T::W_WINDOW, g, d);
    LKI_UNROLL
    for (int t = 0; t < T::NT; t++) {
        const unsigned both[2] = {__float_as_uint(word[8 * t * T::CELL_PITCH]), __float_as_uint(word[(8 * t + 1) * T::CELL_PITCH])};
        const float2   two[2] = {*(const float2 *)(seen + 8 * t * f.image), *(const float2 *)(seen + (8 * t + 1) * f.image)};
        add_entries<T::P>(d[t], both, two, e, bias);
    }
}

/* The images of a block, window by window. */
template <class T>
__device__ inline void add_images(const dense_call &f, const share &s, const rooms<T> &r, float (*e)[2][2][4], float *bias)
{
    const int         warp = (int)threadIdx.x / 32, of_step = warp % T::WG, first = warp / T::WG * (8 * T::NT);
    const bool        has_images = s.from + first < s.to;
    octet_right<T::P> g[T::NT][2 * T::KG];
    float             raw[T::NT * T::KG][4];
    load_gradient<T>(f, s, first, raw);
    LKI_ROLLED
    for (int i = 0; i < T::STAGES - 1; i++) {
        fetch_step<T>(f, s, s.first + i * T::WG, i, r);
        copies_end();
    }
    hold<T>(raw, g);
    int stage = 0, next = T::STAGES - 1; /* of this step, and of the step that is being copied */
    LKI_ROLLED
    for (int window = s.first; window < s.end; window += T::WG) {
        copies_wait<T::STAGES - 2>();
        __syncthreads(); /* this step is loaded, and no thread reads the previous one */
        fetch_step<T>(f, s, window + (T::STAGES - 1) * T::WG, next, r);
        copies_end();
        if (has_images && window + of_step < s.end) add_window<T>(f, window + of_step, stage, r, g, e, bias);
        next = stage, stage = stage + 1 < T::STAGES ? stage + 1 : 0;
    }
    __syncthreads();
}

/* ---- sums ---- */

/* A warp's sums, [tap; bias][channel]. */
__device__ inline void put_warp(const float (*e)[2][2][4], const float *bias, float *to)
{
    const int lane = (int)threadIdx.x % 32, line = lane % 4;
    float    *mine = to + lane / 4 * 4;
    LKI_UNROLL
    for (int i = 0; i < 12; i++) { /* column of weights, channel */
        const int   kw = i / 4, m = i % 4 / 2, h = i % 2 * 2;
        const auto  at = [&](int cell, int column) { return e[cell][m][column % 2][h + column / 2]; };
        const float upper = at(0, kw) + at(1, kw + 1), lower = at(2, kw) + at(3, kw + 1);
        const float sum = (upper + __shfl_down_sync(~0u, lower, 1)) / TWICE;
        if (line < 3) mine[(line * 3 + kw) * CHANNELS + i % 4] = sum;
    }
    LKI_UNROLL
    for (int j = 0; j < 4; j++) {
        const float two = bias[j] + __shfl_xor_sync(~0u, bias[j], 1), sum = (two + __shfl_xor_sync(~0u, two, 2)) / TWICE;
        if (line == 3) mine[TAPS * CHANNELS + j] = sum;
    }
}

template <class T>
__global__ void __launch_bounds__(T::THREADS, 1) weights_behind_dense(LKI_FIXED dense_call f, LKI_FIXED lane_parts l)
{
    LKI_DYNAMIC_SHARED(float, shared);
    const int      chunks = f.O / CHANNELS, part = (int)(blockIdx.x / (unsigned)chunks), band = part % l.bands;
    const rooms<T> r(f, shared);
    float          e[4][2][2][4] = {}, bias[4] = {};
    int            from, to;
    l.range(part / l.bands, &from, &to);
    share s = {from, 0, band * f.windows / l.bands, (band + 1) * f.windows / l.bands,
               (int)(blockIdx.x % (unsigned)chunks) * CHANNELS};
    for (; s.from < to; s.from += IMAGES) {
        s.to = s.from + IMAGES < to ? s.from + IMAGES : to;
        add_images<T>(f, s, r, e, bias);
    }
    put_warp(e, bias, shared + (int)threadIdx.x / 32 * T::SUMS);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < f.sums * CHANNELS; i += T::THREADS) {
        float sum = shared[i];
        LKI_UNROLL
        for (int w = 1; w < T::WARPS; w++)
            sum = sum + shared[w * T::SUMS + i];
        f.parts[((int64_t)part * f.sums + i / CHANNELS) * f.O + s.channel + i % CHANNELS] = sum;
    }
}

/* ---- launches ---- */

conv conv_here(const lki_args *g) { return conv_of(g, g->src[0].shape, g->dst[0].shape, g->src[2].shape, true); }

/* Bands of windows: a power of two, as many as give the longest lane PARTS parts. */
int64_t bands_of(const lki_args *g, const conv &v)
{
    const int64_t sets = lki_max(1, lki_ceil_div(longest_of(g, v.images), IMAGES));
    int64_t       bands = 1;
    while (2 * bands * sets <= PARTS && 2 * bands <= v.OH / 2 * (v.OW / 2))
        bands *= 2;
    return bands;
}

template <class T> dense_call call_of(const lki_args *g, const conv &v, int64_t bands)
{
    dense_call f = {};
    f.x = (const float *)g->src[0].data, f.g = (const float *)g->src[1].data, f.cell = (const uint8_t *)g->src[2].data;
    f.w = (const float *)g->src[3].data, f.parts = (float *)g->scratch;
    f.IH = v.IH, f.IW = v.IW, f.PW = v.OW / 2, f.O = v.O, f.K = (int)g->src[1].shape->dim[1];
    f.pad[0] = v.pad[0], f.pad[1] = v.pad[1];
    f.windows = v.OH / 2 * f.PW;
    f.sums = TAPS + (g->attr->epilogue.bias != 0);
    f.once = aligned(f.x) && v.IW % 4 == 0 && v.pad[1] % 4 == 0 ? 4 : 1;
    f.pieces = (int)lki_ceil_div(2 * f.PW + 2, f.once);
    f.by_PW = divisor_of(f.PW), f.by_pieces = divisor_of(f.pieces);
    f.stages = (int)lki_min(T::STAGES, lki_ceil_div(lki_ceil_div(f.windows, bands), T::WG));
    f.held = (int)(2 * lki_ceil_div(T::STAGES * T::WG - 1, f.PW) + 4); /* of the steps in shared memory at a time */
    f.by_held = divisor_of(f.held);
    f.line = (int)lki_ceil_div(2 * f.PW + 2 + 4, 8) * 8 - 4; /* an odd number of quads, */
    f.image = f.held * f.line + 4;                           /* so lines and images that are read together are in different banks */
    return f;
}

template <class T> void launch(const lki_args *g, const conv &v)
{
    const int64_t    bands = bands_of(g, v);
    const lane_parts l = lane_parts_of(lanes_of(g, v.images), bands, PARTS, INT32_MAX);
    const dense_call f = call_of<T>(g, v, bands);
    const size_t     bytes = sizeof(float) * (size_t)lki_max(IMAGES * f.image + f.stages * T::STAGE, (int)(T::WARPS * T::SUMS));
    assert(aligned(f.g) && aligned(f.w) && aligned(f.cell));
    assert(bytes <= LKI_DENSE_POOL_SHARED);
    LKI_GIVE_SHARED((weights_behind_dense<T>), bytes);
    if (l.count())
        LKI_LAUNCH((weights_behind_dense<T>), dim3((unsigned)(l.count() * (f.O / CHANNELS))), dim3(T::THREADS), bytes, g, f, l);
    launch_join(g, l, f.sums * f.O,
                joined{(float *)g->dst[0].data, (float *)(f.sums > TAPS ? g->dst[1].data : nullptr), TAPS * f.O});
}

template <int P> void run(const lki_args *g)
{
    const conv v = conv_here(g);
    if (g->src[1].shape->dim[1] <= 64) launch<way<P, 4, 4, 4, 2>>(g, v);
    else launch<way<P, 8, 2, 8, 1>>(g, v);
}

void f32_dense_pool_grad_w(const lki_args *g)
{
    assert(
        lki_is_dense_pool(&g->attr->window, g->src[0].shape, g->src[2].shape, g->dst[0].shape, g->src[1].shape, g->src[3].shape));
    if (g->gpu->precision == LKI_PRECISION_BF16) run<LKI_PRECISION_BF16>(g);
    else run<LKI_PRECISION_TF32>(g);
}

size_t scratch_of(const lki_args *g)
{
    const conv v = conv_here(g);
    return (size_t)(most_lane_parts(v.images, g->lanes ? g->lanes->count : 1, bands_of(g, v), PARTS, INT32_MAX) * (TAPS + 1) *
                    v.O) *
           sizeof(float);
}

} // namespace

void lki_gpu::register_dense_pool(lki_kernels *k) { set(k, LKI_K_dense_pool_grad_w, LK_F32, f32_dense_pool_grad_w, scratch_of); }
