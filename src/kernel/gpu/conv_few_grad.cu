/* The gradient for the weights of a convolution with few of them per out channel (conv_few.h), plain and through a 2x2 max pool; through a pool, for the bias as well: it is summed like a
 * weight whose cells are all 1.
 *
 * Order of the sum, the GPU's own. Its units are the windows of a pool; without one, pieces of UNIT neighbouring outputs of a row, the last piece shorter.
 *
 *     strand   of the units of a band of rows, row by row, each STRANDS-th: one CHAIN over the images of a part, their units, the outputs of a unit
 *     part     a band of rows of neighbouring images of a lane: its strands up the tree, (0,1) (2,3) ..., an empty one is +0
 *     lane     its parts, image by image, band by band, up the tree as well (lane_parts.h); and lanes
 *
 * Bands and strands follow from the shapes of one image and the weights. A part is what a block does, [kh, kw, in; bias][out] in scratch. The gradient comes through shared memory, DEPTH
 * turns ahead: each thread sends for what it will use itself, so that nobody waits for anybody. Patches go from image to image in two buffers.
 *
 * Cells outside the image, and outputs that did not win their window or were not above zero, count as zeros: a factor that meets them and is not
 * finite gives NaN, where the reference leaves it out. So does what is behind the last output of a row, in the last piece. */
#include "kernel/gpu/conv_few.h"
#include "kernel/gpu/lane_parts.h"

namespace
{

using namespace lki_gpu;

enum { UNIT = 4, TURNS = 4, PARTS = 256, IMAGES = 32, SHARED_MOST = 48 << 10 };

template <class W_, bool POOLED_, bool FOUR_ = true> struct way {
    typedef W_            W;
    static constexpr bool POOLED = POOLED_, FOUR = FOUR_; /* FOUR: channels go four at a time */
    enum { FEW = W::WEIGHTS <= 9, THREADS = FEW && POOLED ? 256 : 128, RESIDENT = !FEW ? 2 : POOLED ? 2 : 4, DEPTH = POOLED ? 4 : 3 };
    enum { WIDE = POOLED ? 1 : (int)UNIT, LINE = (WIDE + W::KW - 1) * W::C };
    enum { SLOT = (POOLED ? 9 : 4 * UNIT) * THREADS }; /* floats of a turn: d, y and cells of a window; or d of a piece */
    enum { SUMS = W::WEIGHTS + POOLED };               /* of a channel: the last is the bias's */
};

struct few_grad_call {
    const float *x, *d;
    pool_entries entries;
    patch        p;
    quads        q;
    int          H, W;         /* windows of the pool, or outputs */
    int          across, rows; /* units in a row, rows of a band */
    int          strands, groups;
    int          sums; /* of a channel that are wanted */
    divisor      by_across;
    float       *parts;
    bool         relu;
};

/* ---- the gradient on its way ---- */

struct strand_of_band {
    int units, there; /* units of the band; channels of the thread's four that exist */
};

template <class T> __device__ inline void send_four(float *to, const float *from, int there)
{
    if constexpr (T::FOUR) copy_four(to, from, 16);
    else {
        for (int j = 0; j < 4; j++)
            to[j] = j < there ? from[j] : 0;
    }
}

/* Unit u of an image; its band's entries begin at `band`. */
template <class T> __device__ inline void send(const few_grad_call &f, const strand_of_band &s, int64_t band, int u, float *slot)
{
    float *four = slot + 4 * threadIdx.x;
    if (u >= s.units) return;
    if constexpr (T::POOLED) {
        const int64_t at = band + u * f.q.channels;
        float        *cells = slot + 8 * T::THREADS + threadIdx.x;
        send_four<T>(four, f.d + at, s.there);
        if (f.relu) send_four<T>(four + 4 * T::THREADS, f.entries.y + at, s.there);
        if constexpr (T::FOUR) copy_one(cells, (const float *)(f.entries.cell + at), 4);
        else {
            unsigned bytes = 0;
            for (int j = 0; j < s.there && j < 4; j++)
                bytes |= (unsigned)f.entries.cell[at + j] << 8 * j;
            *cells = __uint_as_float(bytes);
        }
    } else {
        const int     row = f.by_across(u), column = (u - row * f.across) * UNIT;
        const int64_t at = band + (row * f.W + column) * f.q.channels;
        LKI_UNROLL
        for (int i = 0; i < UNIT; i++)
            if (column + i < f.W) send_four<T>(four + 4 * i * T::THREADS, f.d + at + i * f.q.channels, s.there);
    }
}

/* ---- chains ---- */

/* A window's winners in four channels; cells: of its first output. */
template <class T> __device__ inline void add_window(const few_grad_call &f, const float *cells, const float *slot, float (*acc)[4])
{
    typedef typename T::W W;
    const unsigned        places = __float_as_uint(slot[8 * T::THREADS + threadIdx.x]);
    const int             pitch = f.p.pitch;
    float                 d[4], y[4];
    load_quad(slot + 4 * threadIdx.x, d);
    if (f.relu) load_quad(slot + 4 * (threadIdx.x + T::THREADS), y);
    else fill_quad(1, y);
    LKI_UNROLL
    for (int j = 0; j < 4; j++) {
        const unsigned place = places >> 8 * j;
        const float   *at = cells + (place >> 1 & 1) * pitch + (place & 1) * W::C, value = y[j] > 0 ? d[j] : 0;
        LKI_UNROLL
        for (int kh = 0; kh < W::KH; kh++) {
            LKI_UNROLL
            for (int k = 0; k < W::ROW; k++)
                acc[kh * W::ROW + k][j] = fmaf(at[kh * pitch + k], value, acc[kh * W::ROW + k][j]);
        }
        acc[W::WEIGHTS][j] = acc[W::WEIGHTS][j] + value;
    }
}

/* A piece, of which `outputs` exist. */
template <class T>
__device__ inline void add_piece(const few_grad_call &f, const float *cells, const float *slot, int outputs, float (*acc)[4])
{
    typedef typename T::W W;
    float                 d[UNIT][4];
    LKI_UNROLL
    for (int i = 0; i < UNIT; i++) {
        if (i < outputs) load_quad(slot + 4 * (threadIdx.x + i * T::THREADS), d[i]);
        else fill_quad(0, d[i]);
    }
    LKI_UNROLL
    for (int kh = 0; kh < W::KH; kh++) {
        float line[T::LINE];
        load_line<T::LINE, UNIT * W::C>(cells + kh * f.p.pitch, line);
        LKI_UNROLL
        for (int i = 0; i < UNIT; i++) {
            LKI_UNROLL
            for (int k = 0; k < W::ROW; k++) {
                LKI_UNROLL
                for (int j = 0; j < 4; j++)
                    acc[kh * W::ROW + k][j] = fmaf(line[i * W::C + k], d[i][j], acc[kh * W::ROW + k][j]);
            }
        }
    }
}

template <class T>
__device__ inline void add_unit(const few_grad_call &f, const float *patch, const float *slot, int u, float (*acc)[4])
{
    const int row = f.by_across(u), column = u - row * f.across;
    if constexpr (T::POOLED) add_window<T>(f, patch + 2 * (row * f.p.pitch + column * T::W::C), slot, acc);
    else add_piece<T>(f, patch + row * f.p.pitch + column * (UNIT * T::W::C), slot, f.W - column * UNIT, acc);
}

/* ---- a part ---- */

/* Strands up the tree: those of a warp, then warps, in shared memory. */
template <class T> __device__ inline void put_part(const few_grad_call &f, float *shared, int part, int group, float (*acc)[4])
{
    constexpr int K = T::SUMS, WARPS = T::THREADS / 32;
    const int     lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, quads = 1 << f.q.bits, width = f.q.width();
    for (int by = quads; by < 32; by *= 2) {
        LKI_UNROLL
        for (int i = 0; i < 4 * K; i++)
            acc[i / 4][i % 4] = acc[i / 4][i % 4] + __shfl_xor_sync(~0u, acc[i / 4][i % 4], by);
    }
    if (lane < quads) {
        LKI_UNROLL
        for (int k = 0; k < K; k++)
            *(float4 *)&shared[(warp * K + k) * FEW_CHANNELS + 4 * lane] = make_float4(acc[k][0], acc[k][1], acc[k][2], acc[k][3]);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < f.sums * width; i += T::THREADS) {
        const int k = i / width, o = i % width;
        float     sum[WARPS];
        LKI_UNROLL
        for (int w = 0; w < WARPS; w++)
            sum[w] = shared[(w * K + k) * FEW_CHANNELS + o];
        LKI_UNROLL
        for (int step = 1; step < WARPS; step *= 2) {
            LKI_UNROLL
            for (int w = 0; w < WARPS; w += 2 * step)
                sum[w] = sum[w] + sum[w + step];
        }
        if (group * width + o < f.q.channels) f.parts[((int64_t)part * f.sums + k) * f.q.channels + group * width + o] = sum[0];
    }
}

template <class T>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT) few_grad(LKI_FIXED few_grad_call f, LKI_FIXED lane_parts l)
{
    typedef typename T::W W;
    LKI_DYNAMIC_SHARED(float, shared);
    constexpr int EACH = T::POOLED ? 2 : 1, AHEAD = T::DEPTH - 1; /* rows of outputs in a row of units */
    const int     part = (int)(blockIdx.x / f.groups), group = (int)(blockIdx.x % f.groups), band = part % l.bands;
    const int     top = band * f.rows, rows = f.H - top < f.rows ? f.H - top : f.rows, cells = EACH * rows + W::KH - 1;
    const int     o = group * f.q.width() + 4 * ((int)threadIdx.x & ((1 << f.q.bits) - 1)), strand = (int)threadIdx.x >> f.q.bits;
    const int     turns = (rows * f.across + f.strands - 1) / f.strands;
    const int64_t image = (int64_t)f.p.IH * f.p.IW * W::C, entries = (int64_t)f.H * f.W * f.q.channels;
    const int     span = turns * f.strands;
    float *const  ring = shared + 2 * f.p.size(), *const end = ring + T::DEPTH * T::SLOT, *in = ring, *out = ring;
    float         acc[T::SUMS][4] = {};
    int           from, to;
    l.range(part / l.bands, &from, &to);
    const strand_of_band s = {o < f.q.channels ? rows * f.across : 0, f.q.channels - o};
    int                  next = from, ahead = strand; /* image and unit that are sent for next, */
    int64_t              band_at = from * entries + top * f.W * f.q.channels + o; /* and the first entry of its band, at the thread's channels */
    const auto           send_next = [&] {
        if (next < to) send<T>(f, s, band_at, ahead, in);
        copies_end();
        in = in + T::SLOT == end ? ring : in + T::SLOT;
        if ((ahead += f.strands) >= span) ahead -= span, next++, band_at += entries;
    };
    f.p.bring(shared, f.x + from * image, EACH * top, cells);
    for (int i = 0; i < AHEAD; i++)
        send_next();
    for (int n = from; n < to; n++) {
        float *const patch = shared + (n - from) % 2 * f.p.size(), *const other = shared + (n - from + 1) % 2 * f.p.size();
        for (int u = strand; u < span; u += f.strands) {
            if (u != strand || turns >= AHEAD) copies_wait<AHEAD - 1>();
            else copies_wait<0>(); /* this image's patch was sent less than AHEAD turns ago */
            if (u == strand) {
                __syncthreads(); /* the patch is here, and nobody needs the one before */
                if (n + 1 < to) f.p.bring(other, f.x + (n + 1) * image, EACH * top, cells);
            }
            send_next();
            if (u < s.units) add_unit<T>(f, patch, out, u, acc);
            out = out + T::SLOT == end ? ring : out + T::SLOT;
        }
    }
    copies_wait<0>();
    __syncthreads();
    put_part<T>(f, shared, part, group, acc);
}

/* ---- launches ---- */

struct few_sizes {
    int across, bands, rows;
};

template <class T> patch patch_of(const conv &v, const few_sizes &s)
{
    typedef typename T::W W;
    const int             cells = v.pooled ? 2 : 1;
    patch p = {v.IH, v.IW, v.C, {v.pad[0], v.pad[1]}, cells * s.rows + W::KH - 1, (cells * s.across * T::WIDE + W::KW - 1) * W::C,
               0};
    p.pitch = (int)lki_ceil_div(p.width + 16, 32) * 32 -
              16; /* 16 banks on: the two rows of a window, as the lanes of a warp read them, do not meet */
    return p;
}

template <class T> size_t shared_of(const patch &p)
{
    return 4 * (size_t)lki_max(2 * (int64_t)p.rows * p.pitch + T::DEPTH * T::SLOT, T::THREADS / 32 * T::SUMS * FEW_CHANNELS);
}

/* Bands of about TURNS turns, whose patches fit. */
template <class T> few_sizes sizes_of(const conv &v, const quads &q)
{
    const int H = v.pooled ? v.OH / 2 : v.OH, W = v.pooled ? v.OW / 2 : v.OW, strands = T::THREADS >> q.bits;
    few_sizes s = {(int)lki_ceil_div(W, T::WIDE), 1, 1};
    s.rows = (int)lki_max(1, lki_ceil_div(H, lki_max(1, lki_ceil_div((int64_t)s.across * H, TURNS * strands))));
    while (s.rows > 1 && shared_of<T>(patch_of<T>(v, s)) > SHARED_MOST)
        s.rows = (s.rows + 1) / 2;
    s.bands = s.across ? (int)lki_ceil_div(H, s.rows) : 0;
    return s;
}

template <class T> bool fits(const conv &v)
{
    const patch p = patch_of<T>(v, sizes_of<T>(v, quads_of(v.O, false)));
    return v.images < INT32_MAX / 64 && shared_of<T>(p) <= SHARED_MOST;
}

template <class T> size_t scratch_of(const conv &v, int lanes)
{
    const int bands = sizes_of<T>(v, quads_of(v.O, false)).bands;
    return (size_t)(most_lane_parts(v.images, lanes, bands, PARTS, IMAGES) * T::SUMS * v.O) * sizeof(float);
}

template <class T> void run_few(const lki_args *g, const conv &v, const pool_entries &entries)
{
    const quads      q = quads_of(v.O, aligned(g->src[1].data) && aligned(entries.cell) && aligned(entries.y));
    const few_sizes  s = sizes_of<T>(v, q);
    const lane_parts p = lane_parts_of(lanes_of(g, v.images), s.bands, PARTS, IMAGES);
    few_grad_call    f = {};
    f.x = (const float *)g->src[0].data, f.d = (const float *)g->src[1].data, f.entries = entries;
    f.p = patch_of<T>(v, s), f.q = q;
    f.H = v.pooled ? v.OH / 2 : v.OH, f.W = v.pooled ? v.OW / 2 : v.OW;
    f.across = s.across, f.rows = s.rows, f.by_across = divisor_of(s.across);
    f.strands = T::THREADS >> q.bits;
    f.groups = (int)lki_ceil_div(v.O, q.width());
    f.parts = (float *)g->scratch, f.relu = entries.y;
    f.sums = T::W::WEIGHTS + (T::POOLED && g->attr->epilogue.bias);
    const joined to = {(float *)g->dst[0].data, (float *)(f.sums > T::W::WEIGHTS ? g->dst[1].data : nullptr), T::W::WEIGHTS * v.O};
    const dim3   blocks((unsigned)(p.count() * f.groups));
    const size_t bytes = shared_of<T>(f.p);
    if (blocks.x && q.wide) LKI_LAUNCH((few_grad<T>), blocks, dim3(T::THREADS), bytes, g, f, p);
    else if (blocks.x) LKI_LAUNCH((few_grad<way<typename T::W, T::POOLED, false>>), blocks, dim3(T::THREADS), bytes, g, f, p);
    launch_join(g, p, f.sums * v.O, to);
}

struct few_ways {
    bool (*fits)(const conv &);
    size_t (*scratch)(const conv &, int);
    void (*run)(const lki_args *, const conv &, const pool_entries &);
};

#define LKI_FEW_WAY(kh, kw, c)                                                                                                     \
    {{fits<way<window<kh, kw, c>, false>>, scratch_of<way<window<kh, kw, c>, false>>, run_few<way<window<kh, kw, c>, false>>},     \
     {fits<way<window<kh, kw, c>, true>>, scratch_of<way<window<kh, kw, c>, true>>, run_few<way<window<kh, kw, c>, true>>}},
const few_ways ways[][2] = {LKI_FEW_WINDOWS(LKI_FEW_WAY)};
#undef LKI_FEW_WAY

} // namespace

bool lki_gpu::is_few_grad_w(const conv &v)
{
    const int which = few_window_of(v);
    return which >= 0 && ways[which][v.pooled].fits(v);
}

size_t lki_gpu::few_grad_w_scratch(const conv &v, int lanes) { return ways[few_window_of(v)][v.pooled].scratch(v, lanes); }

void lki_gpu::few_grad_w(const lki_args *g, const conv &v, const pool_entries &entries)
{
    ways[few_window_of(v)][v.pooled].run(g, v, entries);
}
