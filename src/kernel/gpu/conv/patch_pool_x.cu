/* The data gradient of conv2d through a 2x2 max pool by patches (patch.h): a sweep over the dense gradient of the outputs, most of
 * it zeros, with the taps reversed, padded so that every cell of x is combined with all outputs that read it. If the pool leaves
 * outputs out, cells that only they read are 0 and not computed.
 *
 * The dense gradient exists in shared memory only, a chunk of channels at a time. Entries of the windows that a patch touches (d, y
 * with relu, the bytes of cells) are copied asynchronously as they are and expanded from there: each is read once, and is written
 * to one of its window's four outputs, zeros to the others. When all entries of a chunk are expanded, copies of the next chunk's
 * start (at the end of a tile: of the next tile's), and arrive while this chunk is multiplied. A step is one tap of one chunk. The
 * weights of all steps stay in shared memory if there is room; else those of AHEAD steps are being copied.
 *
 *     shared memory   patch, or results before they are written | entries: d, y, cells | where results are written | this tile, the
 *                     next | weights
 *
 * Order of sums: patch.h. */
#include "kernel/gpu/conv/conv_pool.h"
#include "kernel/gpu/conv/patch.h"

namespace
{

using namespace lki_gpu;

/* Copies of a step's weights start when no thread reads those of the previous step any more. */
enum { AHEAD = 2, RING = AHEAD + 1 };

/* Results RH x RW of an image are the first of its IH x IW cells; the cells after them are 0. */
struct to_cells {
    float  *data;
    int     C, IH, IW, RH, RW;
    bool    wide; /* data is aligned */
    divisor by_RW;

    /* For a result of an image, relative to the image's first cell: its cell, and whether it is at an edge that has zeros after it,
     * on the right and below. */
    __device__ int place(int nth, int at) const
    {
        const int h = by_RW(at), w = at - h * RW;
        return ((nth * IH + h) * IW + w) * 4 + (w == RW - 1 && IW > RW) + 2 * (h == RH - 1 && IH > RH);
    }
    __device__ void put_cell(int64_t cell, int n, const float *v) const
    {
        float *to = data + cell * C + n;
        if (wide) *(float4 *)to = make_float4(v[0], v[1], v[2], v[3]);
        else
            for (int j = 0; j < 4; j++)
                to[j] = v[j];
    }
    __device__ void put_zeros(int64_t cell, int n, int edges) const
    {
        const float zeros[4] = {0, 0, 0, 0};
        for (int y = 0; y <= (edges & 2 ? IH - RH : 0); y++)
            for (int x = 0; x <= (edges & 1 ? IW - RW : 0); x++)
                if (y || x) put_cell(cell + y * IW + x, n, zeros);
    }
};

struct pool_x_call {
    sweep_plan     p;
    pool_gradient  d;
    weights_turned weights;
    to_cells       to;
    int            PH, PW;
    int            windows;                                       /* the most that a patch touches */
    int            at_y, at_cell, at_place, at_tiles, at_weights; /* in shared memory */
    divisor        by_PH, by_PW;

    __host__ __device__ int chunks() const { return (p.K + p.chunk - 1) / p.chunk; }
    __host__ __device__ int steps() const { return chunks() * p.taps(); }
    __device__ bool         held() const { return p.stages == steps(); } /* weights stay from tile to tile */

    /* Lines of a patch in an image, as lines of its outputs: from the first one of its results to the one after the last. */
    __host__ __device__ int begin(int first) const { return first - p.pad[0]; }
    __host__ __device__ int end(int last) const { return last + p.KH - p.pad[0]; }
    /* Rows of windows they touch in the image. */
    __host__ __device__ int begin_inside(int first) const { return inside(begin(first) >> 1); }
    __host__ __device__ int end_inside(int last) const { return inside((end(last) + 1) >> 1); }
    __host__ __device__ int inside(int row) const { return row < 0 ? 0 : row < PH ? row : PH; }
};

/* A tile of results, and the windows that its patch touches; in memory those inside images are consecutive. It is in shared memory,
 * so that it takes no registers while sums are computed. */
struct pool_x_tile {
    sweep_place here;
    unsigned    which;
    int         n, count; /* first channel; results */

    __device__ static pool_x_tile of(const pool_x_call &f, unsigned tile, int BM, int BN)
    {
        const int64_t m = (int64_t)(tile / f.p.columns) * BM;
        const int     count = (int)(m + BM < f.p.rows ? (int64_t)BM : f.p.rows - m);
        return pool_x_tile{sweep_place(f.p, m, count), tile, (int)(tile % f.p.columns) * BN, count};
    }
    __device__ int     first(int nth) const { return nth ? 0 : here.first; } /* line of results in an image, and the last */
    __device__ int     last(const pool_x_call &f, int nth) const { return nth + 1 < here.images ? f.p.RH - 1 : here.last; }
    __device__ int64_t first_window(const pool_x_call &f) const { return (here.image * f.PH + f.begin_inside(here.first)) * f.PW; }
    __device__ int     windows(const pool_x_call &f) const
    {
        return ((here.images - 1) * f.PH + f.end_inside(here.last) - f.begin_inside(here.first)) * f.PW;
    }
};

/* ---- entries ---- */

__device__ inline void send_entries(const pool_x_call &f, const pool_x_tile &t, int channel, float *room)
{
    const int     shift = f.p.quad_bits() - 1, count = t.windows(f) << shift; /* eight channels at a time */
    const int64_t from = t.first_window(f) * f.p.K + channel;
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        const int window = i >> shift, q = (i - (window << shift)) * 8, at = window * f.p.chunk + q;
        if (channel + q < f.p.K)
            f.d.send(from + ((int64_t)window * f.p.K + q), room + f.p.room + at, room + f.at_y + at, room + f.at_cell + at / 4);
    }
}

/* Cells outside of images: the same for all chunks. */
__device__ inline void clear_outside(const pool_x_call &f, const pool_x_tile &t, float *room)
{
    const int shift = f.p.quad_bits(), width = f.p.width(), lines = t.here.lines(f.p);
    for (int line = (int)threadIdx.x / 32; line < lines; line += (int)blockDim.x / 32) {
        int        nth, h = t.here.line(f.p, line, &nth) - f.p.pad[0];
        const bool outside = (unsigned)h >= 2 * (unsigned)f.PH;
        for (int i = (int)threadIdx.x % 32; i < width << shift; i += 32) {
            const int w = i >> shift, quad = i - (w << shift);
            if (outside || (unsigned)(w - f.p.pad[1]) >= 2 * (unsigned)f.PW)
                *(float4 *)f.p.place(room, line * width + w, quad) = make_float4(0, 0, 0, 0);
        }
    }
}

/* Four channels of an entry; zeros after the last channel. */
__device__ inline unsigned load_entry(const pool_x_call &f, const float *room, int at, bool in, float *d)
{
    if (!in) {
        fill_quad(0, d);
        return 0;
    }
    load_quad(room + f.p.room + at, d);
    if (f.d.y) {
        float y[4];
        load_quad(room + f.at_y + at, y);
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            d[j] = y[j] > 0 ? d[j] : 0;
    }
    return __float_as_uint(room[f.at_cell + at / 4]);
}

/* Expand entries to those of the four outputs of their windows that are in the patch. */
__device__ inline void spread_entries(const pool_x_call &f, const pool_x_tile &t, int channel, float *room)
{
    const int shift = f.p.quad_bits(), width = f.p.width(), count = t.windows(f) << shift, first = f.begin_inside(t.here.first);
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        const int      window = i >> shift, quad = i - (window << shift), nth_row = f.by_PW(window), w = window - nth_row * f.PW;
        const int      nth = f.by_PH(first + nth_row), row = first + nth_row - nth * f.PH;
        const int      begin = f.begin(t.first(nth)), lines = f.end(t.last(f, nth)) - begin, line = 2 * row - begin;
        const int      before = nth ? t.here.lines_of_first(f.p) + (nth - 1) * f.p.height() : 0, column = 2 * w + f.p.pad[1];
        float          d[4], *to = f.p.place(room, (before + line) * width + column, quad);
        const unsigned cells = load_entry(f, room, window * f.p.chunk + quad * 4, channel + quad * 4 < f.p.K, d);
        LKI_UNROLL
        for (int cell = 0; cell < 4; cell++)
            if ((unsigned)(line + cell / 2) < (unsigned)lines && column + cell % 2 < width)
                pooled_image::put(to + (cell / 2 * width + cell % 2) * GROUP, d, cells, cell);
    }
}

/* ---- weights ---- */

/* Asynchronous copies of one step's weights after the other's: laid out as by weights_turned, but what is the same for all steps is
 * computed once, since a tap takes little time. */
template <class Tile, int GROUPS> struct weights_ahead {
    enum { QUADS = GROUPS * GROUP / 4, PASS = Tile::THREADS / QUADS, STAGE = GROUPS * GROUP * Tile::BN };
    const pool_x_call &f;
    int                from; /* this thread's first quad */
    int                rows; /* from its row on, in x */
    int                tap, channel;

    __device__ static int quad() { return (int)threadIdx.x % QUADS; }
    __device__ static int own()
    {
        const int row = (int)threadIdx.x / QUADS, group = quad() / 4;
        return group * (Tile::BN * GROUP) + (row ^ group) * GROUP + quad() % 4 * 4;
    }
    __device__      weights_ahead(const pool_x_call &f_, int n) : f(f_) { begin(n); }
    __device__ void begin(int n)
    {
        const weights_turned &w = f.weights;
        const int             row = n + (int)threadIdx.x / QUADS;
        from = ((w.taps - 1) * w.C + row) * w.O + quad() * 4;
        rows = w.C - row;
        tap = channel = 0;
    }
    __device__ bool ended() const { return channel >= f.p.K; }
    __device__ void next()
    {
        const int each = f.weights.C * f.weights.O;
        from -= each;
        if (++tap < f.weights.taps) return;
        from += f.weights.taps * each + GROUPS * GROUP;
        tap = 0, channel += GROUPS * GROUP;
    }
    __device__ void send(float *room, int slot)
    {
        float *to = room + f.at_weights + slot * STAGE + own();
        LKI_UNROLL
        for (int i = 0; i < Tile::BN / PASS; i++) {
            const bool in = i * PASS < rows && channel + quad() * 4 < f.p.K;
            bring_four(to + i * (PASS * GROUP), f.weights.data + (in ? from + i * PASS * f.weights.O : 0), f.weights.wide, in);
        }
        next();
    }
};

/* The current tile, and the distance to the next one (after the last: none); which of two places in shared memory it has; whether
 * copies of its first entries and weights have started, and where its first weights are. */
struct pool_x_turn {
    unsigned which, step;
    int      nth, slot;
    bool     ready;

    __device__ pool_x_tile *here(const pool_x_call &f, float *room) const { return (pool_x_tile *)(room + f.at_tiles) + nth; }
    __device__ pool_x_tile *there(const pool_x_call &f, float *room) const
    {
        return (pool_x_tile *)(room + f.at_tiles) + (1 - nth);
    }
    __device__ unsigned next(const pool_x_call &f, float *room) const { return here(f, room)->which + step; }
};

/* Start the first copies for a tile: its entries and the weights of some steps. Weights that will stay, but are not needed soon,
 * are a second group of copies. */
template <class W> __device__ inline void send_first(const pool_x_call &f, const pool_x_turn &turn, W *weights, float *room)
{
    send_entries(f, *turn.here(f, room), 0, room);
    for (int step = 0, slot = turn.slot; step < (f.held() ? f.p.taps() : (int)AHEAD); step++) {
        weights->send(room, slot);
        slot = slot + 1 == f.p.stages ? 0 : slot + 1;
    }
    copies_end();
    for (int slot = f.p.taps(); f.held() && !weights->ended(); slot++)
        weights->send(room, slot);
    copies_end();
}

/* The entries of the next chunk; after the last chunk, those of the next tile's first. */
template <class Tile>
__device__ inline void send_next_entries(const pool_x_call &f, const pool_x_turn &turn, int channel, float *room)
{
    if (channel + f.p.chunk < f.p.K) send_entries(f, *turn.here(f, room), channel + f.p.chunk, room);
    else if (turn.next(f, room) < f.p.tiles) {
        const pool_x_tile next = pool_x_tile::of(f, turn.next(f, room), Tile::BM, Tile::BN);
        send_entries(f, next, 0, room);
        if (threadIdx.x == 0) *turn.there(f, room) = next;
    }
}

/* ---- sums ---- */

template <int P, class Tile, int GROUPS>
__device__ inline void sum_tile(const pool_x_call &f, pool_x_turn *turn, float *room, typename Tile::sums &sum)
{
    typedef factors<weights_turned::ALONG_K, Tile::BN, Tile::NT> right_factors;
    const sweep_plan                                            &p = f.p;
    const int                                                    own = kept(right_factors::own(Tile::warp_column()));
    const pool_x_tile                                           &t = *turn->here(f, room);
    if (!turn->ready) {
        if (threadIdx.x == 0) *turn->here(f, room) = pool_x_tile::of(f, turn->which, Tile::BM, Tile::BN);
        copies_wait<0>();
        __syncthreads(); /* no copy to this place is pending, and no thread reads the previous content */
    }
    weights_ahead<Tile, GROUPS> weights(f, t.n);
    if (!turn->ready) send_first(f, *turn, &weights, room);
    else
        for (int i = 0; i < AHEAD; i++)
            weights.next();
    const thread_rows<Tile> rows(p, t.here, t.count);
    clear<Tile>(sum);
    for (int channel = 0; channel < p.K; channel += p.chunk) {
        if (channel || turn->ready) copies_wait<0>();
        else copies_wait<1>();
        __syncthreads(); /* entries are loaded, and no thread reads the previous patch */
        if (!channel) clear_outside(f, t, room);
        spread_entries(f, t, channel, room);
        const float *left = room;
        for (int tap = 0, kw = 0; tap < p.taps(); tap++, left += kw ? GROUP : (p.width() - p.KW + 1) * GROUP) {
            if (!tap || !f.held()) {
                if (tap) copies_wait<AHEAD - 1>();
                __syncthreads(); /* patch and weights are ready, and no thread reads entries, or weights of the previous tap */
                if (!tap) send_next_entries<Tile>(f, *turn, channel, room);
                if (!f.held()) {
                    if (weights.ended() && turn->next(f, room) < p.tiles)
                        weights.begin((int)(turn->next(f, room) % p.columns) * Tile::BN);
                    if (!weights.ended()) weights.send(room, turn->slot ? turn->slot - 1 : RING - 1);
                }
                copies_end();
            }
            multiply_tap<P, Tile, GROUPS, right_factors>(left, p.plane(), rows,
                                                         room + f.at_weights + turn->slot * (GROUPS * GROUP * Tile::BN), own, sum);
            turn->slot = turn->slot + 1 == p.stages ? 0 : turn->slot + 1;
            kw = kw + 1 == p.KW ? 0 : kw + 1;
        }
    }
}

/* The results of a tile, written to shared memory, and where they go in memory. False if a sum was not finite and has to be
 * computed again; then nothing was written. */
template <int P, class Tile> __device__ inline bool lay_tile(const pool_x_call &f, pool_x_turn *turn, float *room)
{
    typename Tile::sums sum;
    if (f.p.chunk == GROUP) sum_tile<P, Tile, 1>(f, turn, room, sum);
    else sum_tile<P, Tile, 2>(f, turn, room, sum);
    if (needs_care<P, Tile>(sum)) return false;
    if (P != LKI_PRECISION_F32) __syncthreads(); /* the patch is no longer needed */
    lay_down<Tile, factors<weights_turned::ALONG_K, Tile::BN, Tile::NT>>(sum, room);
    const pool_x_tile &t = *turn->here(f, room);
    for (int row = (int)threadIdx.x; row < t.count; row += Tile::THREADS) {
        const int nth = f.p.by_results(t.here.begin + row);
        ((int *)room)[f.at_place + row] = f.to.place(nth, t.here.begin + row - nth * f.p.results());
    }
    return true;
}

/* A separate function, so that its registers are only used where it is called. */
template <class Tile> __device__ __noinline__ void lay_tile_with_care(const pool_x_call &f, unsigned tile, int nth, float *room)
{
    pool_x_turn turn = {tile, f.p.tiles, nth, 0, false};
    lay_tile<PRECISION_CAREFUL, Tile>(f, &turn, room);
}

template <class Tile> __device__ inline void store_cells(const pool_x_call &f, const pool_x_tile &t, const float *room)
{
    const int64_t first = t.here.image * (f.to.IH * f.to.IW);
    for (int q = (int)threadIdx.x; q < t.count * (Tile::BN / 4); q += Tile::THREADS) {
        const int row = q / (Tile::BN / 4), column = q % (Tile::BN / 4) * 4, place = ((const int *)room)[f.at_place + row];
        float     v[4];
        if (t.n + column >= f.to.C) continue;
        load_quad(room + row * Tile::PITCH + column, v);
        f.to.put_cell(first + (place >> 2), t.n + column, v);
        if (place & 3) f.to.put_zeros(first + (place >> 2), t.n + column, place & 3);
    }
}

/* Blocks that should fit on a multiprocessor: three if sums of rounded factors leave enough registers. */
template <int P, class Tile> struct pool_x_resident {
    enum { value = P == LKI_PRECISION_F32 || Tile::BN > 32 || Tile::RESIDENT > 3 ? (int)Tile::RESIDENT : 3 };
};

template <int P, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, pool_x_resident<P, Tile>::value) x_through_pool(LKI_FIXED pool_x_call f)
{
    LKI_DYNAMIC_SHARED(float, room);
    pool_x_turn turn = {blockIdx.x, gridDim.x, 0, 0, false};
    for (; turn.which < f.p.tiles; turn.nth = 1 - turn.nth) {
        turn.ready = lay_tile<P, Tile>(f, &turn, room);
        if (!turn.ready) lay_tile_with_care<Tile>(f, turn.here(f, room)->which, turn.nth, room);
        __syncthreads();
        store_cells<Tile>(f, *turn.here(f, room), room);
        turn.which = turn.next(f, room);
    }
}

/* ---- launches ---- */

template <class Tile> size_t bytes_of(const pool_x_call &f)
{
    return (size_t)(f.at_weights + f.p.stages * f.p.chunk * Tile::BN) * sizeof(float);
}

enum { BLOCK_MOST_BYTES = 227 << 10 }; /* of shared memory */

/* A block's layout of shared memory. */
template <class Tile> void give_room(pool_x_call *f)
{
    static_assert(sizeof(pool_x_tile) % 8 == 0, "weights behind two of them are aligned");
    const int lines = result_lines<Tile>(f->p);
    sweep_room<Tile>(&f->p);
    f->windows = 0;
    for (int first = 0; first < f->p.RH; first++) {
        const int last = first + lines - 1, images = last / f->p.RH + 1;
        f->windows = (int)lki_max(
            f->windows, ((images - 1) * f->PH + f->end_inside(last - (images - 1) * f->p.RH) - f->begin_inside(first)) * f->PW);
    }
    f->at_y = f->p.room + f->windows * f->p.chunk;
    f->at_cell = f->d.y ? f->at_y + f->windows * f->p.chunk : f->at_y;
    f->at_place = f->at_cell + f->windows * f->p.chunk / 4;
    f->at_tiles = f->at_place + Tile::BM;
    f->at_weights = f->at_tiles + 2 * (int)(sizeof(pool_x_tile) / sizeof(float));
    f->p.stages = f->steps();
    if (bytes_of<Tile>(*f) > SWEEP_MOST_BYTES) f->p.stages = RING;
}

/* True if a patch fits, together with the entries it touches. */
template <class Tile> bool fits(pool_x_call f)
{
    give_room<Tile>(&f);
    return sweep_fits<Tile>(f.p) && bytes_of<Tile>(f) <= BLOCK_MOST_BYTES;
}

template <int P, class Tile> void launch_of(const lki_args *g, pool_x_call f)
{
    give_room<Tile>(&f);
    const size_t bytes = bytes_of<Tile>(f);
    f.p.columns = (unsigned)lki_ceil_div(f.to.C, Tile::BN);
    f.p.tiles = (unsigned)lki_ceil_div(f.p.rows, Tile::BM) * f.p.columns;
    const int64_t  resident = lki_min(pool_x_resident<P, Tile>::value, SHARED_BYTES / (bytes + SHARED_EACH));
    const unsigned most =
        (unsigned)lki_max(1, resident * PROCESSORS / f.p.columns) * f.p.columns; /* a block's tiles have the same weights */
    LKI_GIVE_SHARED((x_through_pool<P, Tile>), bytes);
    LKI_LAUNCH((x_through_pool<P, Tile>), dim3(f.p.tiles > most ? most : f.p.tiles), dim3(Tile::THREADS), bytes, g, f);
}

template <int P> void launch(const lki_args *g, const pool_x_call &f)
{
    if (is_for_small_tiles(f.p, f.to.C)) launch_of<P, sweep_small>(g, f);
    else if (f.to.C <= 32) launch_of<P, sweep_tall>(g, f);
    else launch_of<P, sweep_wide>(g, f);
}

} // namespace

bool lki_gpu::patch_pool_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w, const pool_entries &entries)
{
    const int   pad_h = v.KH - 1 - v.pad[0], pad_w = v.KW - 1 - v.pad[1];
    const int   RH = (int)lki_min(v.IH, v.OH + pad_h), RW = (int)lki_min(v.IW, v.OW + pad_w);
    float      *dx = (float *)g->dst[0].data;
    pool_x_call f = {};
    if (pad_h < 0 || pad_w < 0 || (int64_t)v.taps() * v.C * v.O > INT32_MAX ||
        !sweep_plan_of(&f.p, v, RH, RW, v.O, pad_h, pad_w, false))
        return false;
    f.d = pool_gradient_of(d->data, entries);
    f.weights = weights_turned{(const float *)w->data, v.C, v.O, v.taps(), aligned(w->data)};
    f.to = to_cells{dx, v.C, v.IH, v.IW, RH, RW, aligned(dx), divisor_of(RW)};
    f.PH = v.OH / 2, f.PW = v.OW / 2;
    f.by_PH = divisor_of(f.PH), f.by_PW = divisor_of(f.PW);
    if (!fits<sweep_small>(f) || !fits<sweep_tall>(f) || !fits<sweep_wide>(f)) return false;
    if (g->gpu->precision == LKI_PRECISION_TF32) launch<LKI_PRECISION_TF32>(g, f);
    else if (g->gpu->precision == LKI_PRECISION_BF16) launch<LKI_PRECISION_BF16>(g, f);
    else launch<LKI_PRECISION_F32>(g, f);
    return true;
}
