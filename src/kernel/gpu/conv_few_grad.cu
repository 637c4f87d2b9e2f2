/* The gradient for the weights of a convolution with few of them per out channel (conv_few.h), plain and through a 2x2 max pool.
 *
 * Order of the sum, the GPU's own. Its units are the windows of a pool; without one, pieces of UNIT neighbouring outputs of a row, the last piece shorter.
 *
 *     strand   of the units of a band of rows, row by row, each STRANDS-th: one CHAIN over the images of a part, their units, the outputs of a unit
 *     part     a band of rows of `each` neighbouring images of a lane: its strands up the tree, (0,1) (2,3) ..., an empty one is +0
 *     lane     its parts (image by image, band by band) up the tree as well; one without a neighbour moves up as it is
 *     result   lanes up the tree
 *
 * Bands and strands follow from the shapes of one image and the weights, `each` from the images of a lane as well. A part is what a block does; parts lie in scratch as
 * [part][kh, kw, in][out]. Cells outside the image, and outputs that did not win their window or were not above zero, count as zeros: a factor that meets them and is not
 * finite gives NaN, where the reference leaves it out. So does what is behind the last output of a row, in the last piece. */
#include "kernel/gpu/conv_few.h"

namespace
{

using namespace lki_gpu;

enum {
    THREADS = 128,
    UNIT = 4,
    TURNS = 4,
    EACH_MOST = 32,
    PARTS_OF_LANE = 128,
    SHARED_MOST = 48 << 10,
    JOIN_WARPS = 32,
    AT_ONCE = 8,
    LEVELS = 20
};

template <class W_, bool POOLED_, bool FOUR_ = true> struct way {
    typedef W_            W;
    static constexpr bool POOLED = POOLED_, FOUR = FOUR_; /* FOUR: channels go four at a time */
    enum { RESIDENT = W::WEIGHTS <= 9 ? 5 : 3, WIDE = POOLED ? 1 : (int)UNIT, LINE = (WIDE + W::KW - 1) * W::C };
    enum { AHEAD = W::WEIGHTS <= 9 ? 2 : 1 }; /* windows whose entries are on their way */
};

/* What becomes of lanes: lane l holds the images bound[l] <= n < bound[l+1] in groups of each[l], the groups first[l] <= i < first[l+1]; a group has a part per band. */
struct parts_of_lanes {
    int lanes, bands;
    int bound[MOST_LANES + 1], first[MOST_LANES + 1], each[MOST_LANES];

    __host__ __device__ int count() const { return first[lanes] * bands; }
};

struct few_grad_call {
    const float *x, *d;
    pool_entries entries;
    patch        p;
    quads        q;
    int          H, W;         /* windows of the pool, or outputs */
    int          across, rows; /* units in a row, rows of a band */
    int          strands, groups;
    divisor      by_across;
    float       *parts;
    bool         relu;
};

/* ---- chains ---- */

/* Where the gradient of a band begins, at a thread's channels. */
struct gradient {
    const float   *d, *y;
    const uint8_t *cell;
    int            there; /* channels of the thread's four that exist */
    bool           relu;  /* y counts */
};

/* A window's entries of four channels. */
struct entries_of_window {
    float    d[4], y[4];
    unsigned cells;
};

template <class T> __device__ inline void look(const gradient &g, int at, entries_of_window *e)
{
    load_channels<T::FOUR>(g.d + at, g.there, e->d);
    e->cells = load_channels<T::FOUR>(g.cell + at, g.there);
    if (g.relu) load_channels<T::FOUR>(g.y + at, g.there, e->y);
    else fill_quad(1, e->y);
}

/* cells: of the first output of the window */
template <class W> __device__ inline void add_window(const float *cells, int pitch, const entries_of_window &e, float (*acc)[4])
{
    LKI_UNROLL
    for (int j = 0; j < 4; j++) {
        const unsigned place = e.cells >> 8 * j;
        const float   *at = cells + (place >> 1 & 1) * pitch + (place & 1) * W::C, d = e.y[j] > 0 ? e.d[j] : 0;
        LKI_UNROLL
        for (int kh = 0; kh < W::KH; kh++) {
            LKI_UNROLL
            for (int k = 0; k < W::ROW; k++)
                acc[kh * W::ROW + k][j] = fmaf(at[kh * pitch + k], d, acc[kh * W::ROW + k][j]);
        }
    }
}

/* This strand's windows of a band. */
template <class T>
__device__ inline void add_windows(const few_grad_call &f, const float *cells, const gradient &g, int units, int strand,
                                   float (*acc)[4])
{
    typedef typename T::W W;
    for (int u = strand; u < units; u += T::AHEAD * f.strands) {
        entries_of_window e[T::AHEAD];
        LKI_UNROLL
        for (int i = 0; i < T::AHEAD; i++)
            if (u + i * f.strands < units) look<T>(g, (u + i * f.strands) * f.q.channels, &e[i]);
        LKI_UNROLL
        for (int i = 0; i < T::AHEAD; i++) {
            const int n = u + i * f.strands, row = f.by_across(n), column = n - row * f.across;
            if (n < units) add_window<W>(cells + 2 * row * f.p.pitch + 2 * column * W::C, f.p.pitch, e[i], acc);
        }
    }
}

/* This strand's pieces of a band. */
template <class T>
__device__ inline void add_pieces(const few_grad_call &f, const float *cells, const gradient &g, int units, int strand,
                                  float (*acc)[4])
{
    typedef typename T::W W;
    for (int u = strand; u < units; u += f.strands) {
        const int row = f.by_across(u), column = (u - row * f.across) * UNIT;
        float     d[UNIT][4];
        LKI_UNROLL
        for (int i = 0; i < UNIT; i++) {
            if (column + i < f.W) load_channels<T::FOUR>(g.d + (row * f.W + column + i) * f.q.channels, g.there, d[i]);
            else fill_quad(0, d[i]);
        }
        LKI_UNROLL
        for (int kh = 0; kh < W::KH; kh++) {
            float line[T::LINE];
            load_line<T::LINE, UNIT * W::C>(cells + (row + kh) * f.p.pitch + column * W::C, line);
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
}

/* ---- a part ---- */

/* Strands up the tree: those of a warp, then warps, in shared memory. */
template <class T> __device__ inline void put_part(const few_grad_call &f, float *shared, int part, int group, float (*acc)[4])
{
    constexpr int K = T::W::WEIGHTS, WARPS = THREADS / 32;
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
    for (int i = (int)threadIdx.x; i < K * width; i += THREADS) {
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
        if (group * width + o < f.q.channels) f.parts[((int64_t)part * K + k) * f.q.channels + group * width + o] = sum[0];
    }
}

template <class T>
__global__ void __launch_bounds__(THREADS, T::RESIDENT) few_grad(LKI_FIXED few_grad_call f, LKI_FIXED parts_of_lanes l)
{
    typedef typename T::W W;
    LKI_DYNAMIC_SHARED(float, shared);
    constexpr int each = T::POOLED ? 2 : 1; /* rows of outputs in a row of units */
    const int     part = (int)(blockIdx.x / f.groups), group = (int)(blockIdx.x % f.groups), set = part / l.bands,
              band = part % l.bands;
    int lane = 0, end = l.lanes;
    while (end - lane > 1) { /* the last lane that begins at or before this set: it is not empty */
        const int middle = (lane + end) / 2;
        if (l.first[middle] <= set) lane = middle;
        else end = middle;
    }
    const int from = l.bound[lane] + (set - l.first[lane]) * l.each[lane], left = l.bound[lane + 1] - from,
              to = from + (left < l.each[lane] ? left : l.each[lane]);
    const int     top = band * f.rows, rows = f.H - top < f.rows ? f.H - top : f.rows;
    const int     o = group * f.q.width() + 4 * ((int)threadIdx.x & ((1 << f.q.bits) - 1)), strand = (int)threadIdx.x >> f.q.bits;
    const int     units = o < f.q.channels ? rows * f.across : 0;
    const int64_t image = (int64_t)f.p.IH * f.p.IW * W::C, entries = (int64_t)f.H * f.W * f.q.channels;
    float         acc[W::WEIGHTS][4] = {};
    f.p.bring(shared, f.x + from * image, each * top, each * rows + W::KH - 1);
    copies_end();
    for (int n = from; n < to; n++) {
        const int buffer = (n - from) % 2;
        if (n + 1 < to) f.p.bring(shared + (1 - buffer) * f.p.size(), f.x + (n + 1) * image, each * top, each * rows + W::KH - 1);
        copies_end();
        copies_wait<1>();
        __syncthreads();
        const float  *cells = shared + buffer * f.p.size();
        const int64_t at = hidden(n * entries + (int64_t)(top * f.W) * f.q.channels + o);
        if constexpr (T::POOLED)
            add_windows<T>(f, cells, {f.d + at, (f.relu ? f.entries.y : f.d) + at, f.entries.cell + at, f.q.channels - o, f.relu},
                           units, strand, acc);
        else add_pieces<T>(f, cells, {f.d + at, nullptr, nullptr, f.q.channels - o, false}, units, strand, acc);
        __syncthreads();
    }
    put_part<T>(f, shared, part, group, acc);
}

/* ---- parts to results ---- */

/* The tree over n numbers, `step` apart in memory, n > 0: AT_ONCE loads on their way. */
__device__ inline float tree_of(const float *p, int64_t step, int n)
{
    float open[LEVELS], sum = 0;
    int   whole = 0; /* groups of AT_ONCE so far */
    for (; (whole + 1) * AT_ONCE <= n; whole++) {
        float v[AT_ONCE];
        LKI_UNROLL
        for (int i = 0; i < AT_ONCE; i++)
            v[i] = p[(whole * AT_ONCE + i) * step];
        sum = tree(v, AT_ONCE);
        climb<LEVELS>(open, sum, whole);
    }
    const int left = n - whole * AT_ONCE;
    bool      have = left > 0;
    if (have) {
        float v[AT_ONCE];
        LKI_UNROLL
        for (int i = 0; i < AT_ONCE; i++)
            v[i] = i < left ? p[(whole * AT_ONCE + i) * step] : 0;
        LKI_UNROLL
        for (int by = 1; by < AT_ONCE; by *= 2) {
            LKI_UNROLL
            for (int i = 0; i < AT_ONCE; i += 2 * by)
                if (i + by < left) v[i] = v[i] + v[i + by];
        }
        sum = v[0];
    }
    LKI_UNROLL
    for (int l = 0; l < LEVELS; l++) {
        if (!(whole >> l & 1)) continue;
        sum = have ? open[l] + sum : open[l];
        have = true;
    }
    return sum;
}

/* A block has 32 results; its warps share lanes and, where there are fewer lanes than warps, pieces of `piece` parts of a lane: a power of two. */
__global__ void join_few(const float *parts, float *to, int results, LKI_FIXED parts_of_lanes l, int pieces, int piece)
{
    __shared__ float sum[MOST_LANES][32];
    const int        x = (int)threadIdx.x, at = (int)blockIdx.x * 32 + x, all = l.lanes * pieces;
    for (int i = (int)threadIdx.y; i < all; i += (int)blockDim.y) {
        const int lane = i / pieces, first = i % pieces * piece, count = (l.first[lane + 1] - l.first[lane]) * l.bands,
                  left = count - first;
        float s = 0;
        if (at < results && left > 0)
            s = tree_of(parts + ((int64_t)l.first[lane] * l.bands + first) * results + at, results, left < piece ? left : piece);
        sum[i][x] = s;
    }
    for (int step = 1; step < all; step *= 2) {
        __syncthreads();
        for (int i = 2 * step * (int)threadIdx.y; i < all; i += 2 * step * (int)blockDim.y) {
            const int  other = i + step, lane = other / pieces;
            const bool there = step >= pieces || other % pieces * piece < (l.first[lane + 1] - l.first[lane]) * l.bands;
            if (there) sum[i][x] = sum[i][x] + sum[other][x];
        }
    }
    if (threadIdx.y == 0 && at < results) to[at] = sum[0][x];
}

/* ---- launches ---- */

struct few_sizes {
    int across, bands, rows;
};

template <class T> few_sizes sizes_of(const conv &v, const quads &q)
{
    const int H = v.pooled ? v.OH / 2 : v.OH, W = v.pooled ? v.OW / 2 : v.OW, strands = THREADS >> q.bits;
    few_sizes s = {(int)lki_ceil_div(W, T::WIDE), 1, 1};
    s.rows = (int)lki_max(1, lki_ceil_div(H, lki_max(1, lki_ceil_div((int64_t)s.across * H, TURNS * strands))));
    s.bands = (int)lki_ceil_div(H, s.rows);
    return s;
}

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
    return 4 * (size_t)lki_max(2 * p.size(), THREADS / 32 * T::W::WEIGHTS * FEW_CHANNELS);
}

template <class T> bool fits(const conv &v)
{
    const patch p = patch_of<T>(v, sizes_of<T>(v, quads_of(v.O, false)));
    return v.images < INT32_MAX / 64 && (int64_t)p.rows * p.pitch < SHARED_MOST && shared_of<T>(p) <= SHARED_MOST;
}

int each_of(int64_t images, int bands) { return (int)lki_max(1, lki_min(EACH_MOST, lki_ceil_div(images * bands, PARTS_OF_LANE))); }

/* No more than there can be, however the images lie in lanes. */
template <class T> size_t scratch_of(const conv &v, int lanes)
{
    const int     bands = sizes_of<T>(v, quads_of(v.O, false)).bands;
    const int64_t sets = lki_min(v.images, lanes * lki_ceil_div(PARTS_OF_LANE, lki_max(bands, 1)) + v.images / EACH_MOST + lanes);
    return (size_t)(sets * bands * T::W::WEIGHTS * v.O) * sizeof(float);
}

template <class T> void run_few(const lki_args *g, const conv &v, const pool_entries &entries)
{
    const lanes     l = lanes_of(g, v.images);
    const quads     q = quads_of(v.O, aligned(g->src[1].data) && aligned(entries.cell) && aligned(entries.y));
    const few_sizes s = sizes_of<T>(v, q);
    const int       results = T::W::WEIGHTS * v.O;
    parts_of_lanes  p = {l.count, s.bands, {}, {}, {}};
    int             most = 1;
    for (int i = 0; i < l.count; i++) {
        const int64_t images = l.bound[i + 1] - l.bound[i];
        p.each[i] = each_of(images, s.bands);
        p.bound[i + 1] = (int)l.bound[i + 1];
        p.first[i + 1] = p.first[i] + (int)lki_ceil_div(images, p.each[i]);
        most = (int)lki_max(most, (p.first[i + 1] - p.first[i]) * s.bands);
    }
    p.bound[0] = (int)l.bound[0];
    few_grad_call f = {};
    f.x = (const float *)g->src[0].data, f.d = (const float *)g->src[1].data, f.entries = entries;
    f.p = patch_of<T>(v, s), f.q = q;
    f.H = v.pooled ? v.OH / 2 : v.OH, f.W = v.pooled ? v.OW / 2 : v.OW;
    f.across = s.across, f.rows = s.rows, f.by_across = divisor_of(s.across);
    f.strands = THREADS >> q.bits;
    f.groups = (int)lki_ceil_div(v.O, q.width());
    f.parts = (float *)g->scratch, f.relu = entries.y;
    if (!v.O) return;
    const int64_t blocks = (int64_t)p.count() * f.groups;
    if (blocks && q.wide) LKI_LAUNCH((few_grad<T>), dim3((unsigned)blocks), dim3(THREADS), shared_of<T>(f.p), g, f, p);
    else if (blocks)
        LKI_LAUNCH((few_grad<way<typename T::W, T::POOLED, false>>), dim3((unsigned)blocks), dim3(THREADS), shared_of<T>(f.p), g, f,
                   p);
    const int pieces = (int)lki_max(1, JOIN_WARPS / l.count);
    int       piece = 1;
    while (piece * pieces < most)
        piece *= 2;
    LKI_LAUNCH(join_few, dim3((unsigned)lki_ceil_div(results, 32)), dim3(32, lki_min(JOIN_WARPS, pieces * l.count)), 0, g,
               (const float *)g->scratch, (float *)g->dst[0].data, results, p, pieces, piece);
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
