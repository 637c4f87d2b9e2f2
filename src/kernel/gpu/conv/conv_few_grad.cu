/* The gradient for the weights of a convolution with few of them per out channel (conv_few.h), plain and through a 2x2 max pool;
 * through a pool also for the bias, which is summed like a weight whose cells are all 1.
 *
 * Order of the sum, only on GPUs. Its units are the windows of a pool; without one, pieces of UNIT neighbouring outputs of a row,
 * the last piece shorter.
 *
 *     strand   every STRANDS-th unit of a band of rows, row by row: one CHAIN over the images of a part, their units, the outputs
 *              of a unit
 *     part     a band of rows of consecutive images of a lane: its strands up the tree, (0,1) (2,3) ..., an empty one is +0
 *     lane     its parts, image by image, band by band, up the tree as well (lane_parts.h); then lanes
 *
 * Bands and strands depend on the shapes of one image and of the weights only. A block computes a part, [kh, kw, in; bias][out] in
 * scratch. The gradient is loaded into registers DEPTH turns ahead; the patches of successive images alternate between two buffers.
 * Offsets of units and cells, which are the same for every image, are stored once, after the patches.
 *
 * Cells outside the image count as zeros, and so do outputs that did not win their window or were not above zero: if the other
 * factor is not finite the result is NaN, while the reference leaves such products out. The same holds for the outputs missing in
 * the last piece of a row. */
#include "kernel/gpu/base/lane_parts.h"
#include "kernel/gpu/conv/conv_few.h"

namespace
{

using namespace lki_gpu;

/* PARTS: per lane. Fewer are faster on a card that has all lanes; more give a card that has a single lane enough blocks. */
enum { THREADS = 128, WARPS = THREADS / 32, UNIT = 4, PARTS = 128, IMAGES = 32, SHARED_MOST = 48 << 10 };

template <class W_, bool POOLED_, bool RELU_ = false, bool FOUR_ = true> struct way {
    typedef W_            W;
    static constexpr bool POOLED = POOLED_, RELU = RELU_, FOUR = FOUR_; /* FOUR: channels are read four at a time */
    enum { RESIDENT = W::WEIGHTS <= 9 ? 4 : 2, TURNS = POOLED ? 8 : 4, DEPTH = POOLED ? 3 : 2 };
    enum { EACH = POOLED ? 2 : 1 }; /* rows of outputs in a row of units */
    enum { WIDE = POOLED ? 1 : (int)UNIT, LINE = (WIDE + W::KW - 1) * W::C };
    enum { SUMS = W::WEIGHTS + POOLED }; /* per channel: the last is the bias's */
};

struct few_grad_call {
    const float *x, *d;
    pool_entries entries;
    patch        p;
    quads        q;
    int          H, W;         /* windows of the pool, or outputs */
    int          across, rows; /* units in a row, rows of a band */
    int          strands, groups;
    int          sums; /* per channel that are wanted */
    int          pitch_bytes;
    uint2        behind;  /* find_winners() */
    int          once;    /* cells that are copied at once: four or one */
    int          columns; /* copies of a line */
    bool         whole;   /* no patch has cells outside the image */
    divisor      by_across, by_columns, by_groups, by_bands;
    float       *parts;
};

/* ---- patches ---- */

template <class V> __device__ inline V *at_byte(float *shared, int bytes) { return (V *)((char *)shared + bytes); }

/* Store where units begin in a patch, in bytes. By the whole block. */
template <class T> __device__ inline void list_units(const few_grad_call &f, int count, int *at)
{
    constexpr int CELLS = T::EACH * T::WIDE * T::W::C; /* from a unit to the next */
    for (int u = (int)threadIdx.x; u < count; u += THREADS) {
        const int row = f.by_across(u);
        at[u] = 4 * (T::EACH * row * f.p.pitch + (u - row * f.across) * CELLS);
    }
}

struct alignas(8) cell_move {
    int from, to; /* in an image; in a patch, in bytes */
};

/* Store source and destination of the cells of a patch that are inside the image; returns how many copies that takes. Each thread
 * stores the moves it makes itself. */
template <class T> __device__ inline int list_moves(const few_grad_call &f, int first, int rows, cell_move *moves)
{
    const int line = f.p.IW * T::W::C, before = f.p.pad[1] * T::W::C;
    const int top = first < f.p.pad[0] ? f.p.pad[0] - first : 0, end = f.p.IH + f.p.pad[0] - first,
              bottom = rows < end ? rows : end;
    const int count = bottom > top ? (bottom - top) * f.columns : 0;
    for (int i = (int)threadIdx.x; i < count; i += THREADS) {
        const int down = f.by_columns(i), row = top + down, column = (i - down * f.columns) * f.once;
        moves[i] = cell_move{(first + row - f.p.pad[0]) * line + column, 4 * (row * f.p.pitch + before + column)};
    }
    return count;
}

template <class T>
__device__ inline void bring(const few_grad_call &f, const cell_move *moves, int count, const float *image, char *to)
{
    LKI_ROLLED
    for (int i = (int)threadIdx.x; i < count; i += THREADS) {
        const cell_move m = moves[i];
        if (f.once == 4) copy_four((float *)(to + m.to), image + m.from, 16);
        else copy_one((float *)(to + m.to), image + m.from, 4);
    }
}

/* Cells outside the image stay zeros. By the whole block, before moves. */
__device__ inline void clear_patches(const few_grad_call &f, float *shared)
{
    for (int i = (int)threadIdx.x; i < f.p.size() / 2; i += THREADS)
        ((float4 *)shared)[i] = make_float4(0, 0, 0, 0);
    __syncthreads();
}

/* ---- loading the gradient ---- */

/* A thread's data of a unit: of a window, or of UNIT outputs. */
template <class T> struct held_unit {
    float    d[T::WIDE][4], y[4];
    unsigned places;
};

/* Where a thread reads from: the band's first unit, and the offset from it, in entries with a pool, else in units. `there` of the
 * thread's channels exist. */
struct fetch_place {
    const float   *d, *y;
    const uint8_t *cell;
    int            at, there;
};

template <class T> __device__ inline void load_unit(const few_grad_call &f, const fetch_place &p, held_unit<T> &to)
{
    if constexpr (T::POOLED) {
        load_channels<T::FOUR>(p.d + p.at, p.there, to.d[0]);
        if constexpr (T::RELU) load_channels<T::FOUR>(p.y + p.at, p.there, to.y);
        to.places = load_channels<T::FOUR>(p.cell + p.at, p.there);
    } else {
        const int    row = f.by_across(p.at), column = (p.at - row * f.across) * UNIT;
        const float *d = p.d + (row * f.W + column) * f.q.channels;
        LKI_UNROLL
        for (int i = 0; i < UNIT; i++) {
            if (column + i < f.W) load_channels<T::FOUR>(d + i * f.q.channels, p.there, to.d[i]);
            else fill_quad(0, to.d[i]);
        }
    }
}

/* ---- chains ---- */

/* The winners of a window in four channels: their gradients, 0 for dead ones, and the offsets of their first cells, in bytes. */
struct winners {
    float value[4];
    int   at[4];
};

/* behind: offsets of the four outputs' first cells from the window's first, the low bytes, and the high ones. */
__device__ inline void find_winners(uint2 behind, unsigned places, int cells, int *at)
{
#ifdef LKI_SIM
    for (int j = 0; j < 4; j++) {
        const unsigned place = places >> 8 * j & 3;
        at[j] = cells + (int)((behind.x >> 8 * place & 255) | (behind.y >> 8 * place & 255) << 8);
    }
#else
    const unsigned which = (places << 4 | places) | 0x40404040; /* bytes of `behind`: two for each */
    unsigned       low, high;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(low) : "r"(behind.x), "r"(behind.y), "r"(which));
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(high) : "r"(behind.x), "r"(behind.y), "r"(which >> 16));
    at[0] = (int)__dp2a_lo(low, 0x0001u, (unsigned)cells), at[1] = (int)__dp2a_lo(low, 0x0100u, (unsigned)cells);
    at[2] = (int)__dp2a_lo(high, 0x0001u, (unsigned)cells), at[3] = (int)__dp2a_lo(high, 0x0100u, (unsigned)cells);
#endif
}

template <class T> __device__ inline winners winners_of(const held_unit<T> &unit, uint2 behind, int cells)
{
    winners w;
    LKI_UNROLL
    for (int j = 0; j < 4; j++)
        w.value[j] = kept((T::RELU ? unit.y[j] > 0 : !(unit.places & LKI_CELL_DEAD << 8 * j)) ? unit.d[0][j] : 0);
    find_winners(behind, unit.places & 0x03030303, cells, w.at);
    return w;
}

template <class T> __device__ inline void add_winners(const few_grad_call &f, float *shared, const winners &w, float (*acc)[4])
{
    typedef typename T::W W;
    LKI_UNROLL
    for (int j = 0; j < 4; j++) {
        LKI_UNROLL
        for (int kh = 0; kh < W::KH; kh++) {
            const float *line = at_byte<const float>(shared, kh ? hidden(w.at[j] + kh * f.pitch_bytes) : w.at[j]);
            LKI_UNROLL
            for (int k = 0; k < W::ROW; k++)
                acc[kh * W::ROW + k][j] = fmaf(line[k], w.value[j], acc[kh * W::ROW + k][j]);
        }
        acc[W::WEIGHTS][j] = acc[W::WEIGHTS][j] + w.value[j];
    }
}

template <class T>
__device__ inline void add_piece(const few_grad_call &f, const float *cells, const held_unit<T> &unit, float (*acc)[4])
{
    typedef typename T::W W;
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
                    acc[kh * W::ROW + k][j] = fmaf(line[i * W::C + k], unit.d[i][j], acc[kh * W::ROW + k][j]);
            }
        }
    }
}

/* ---- a part ---- */

/* Units of a band, in whole turns. */
__device__ inline int most_units(const few_grad_call &f) { return (f.rows * f.across + f.strands - 1) / f.strands * f.strands; }

/* Strands up the tree: first those of a warp, then warps, in shared memory. */
template <class T> __device__ inline void put_part(const few_grad_call &f, float *shared, int part, int group, float (*acc)[4])
{
    constexpr int K = T::SUMS;
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
    for (int i = (int)threadIdx.x; i < f.sums * width; i += THREADS) {
        const int k = i >> (f.q.bits + 2), o = i & (width - 1);
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

/* A block's work: a band of `rows` rows from row `top` on, of the images of a set, for a group of channels of which a thread has
 * four from o on; and in each image its strand of the band's units, in turns. */
template <class T> struct few_share {
    int part, group, set, top, rows, o, strand, turns, units;

    __device__ few_share(const few_grad_call &f, const lane_parts &l)
    {
        part = f.by_groups((int)blockIdx.x), group = (int)blockIdx.x - part * f.groups, set = f.by_bands(part);
        top = (part - set * l.bands) * f.rows, rows = f.H - top < f.rows ? f.H - top : f.rows;
        o = group * f.q.width() + 4 * ((int)threadIdx.x & ((1 << f.q.bits) - 1)), strand = (int)threadIdx.x >> f.q.bits;
        turns = (rows * f.across + f.strands - 1) / f.strands, units = o < f.q.channels ? rows * f.across : 0;
    }
};

/* Loads units to registers, some turns before they are used, image after image. */
template <class T> struct few_ahead {
    const few_grad_call &f;
    const int64_t        entries; /* of an image */
    const int            start, step, turns;
    fetch_place          place;
    int                  end, turns_left, images_left;

    __device__ few_ahead(const few_grad_call &call, const few_share<T> &s, int from, int to)
        : f(call), entries((int64_t)call.H * call.W * call.q.channels), start(s.strand * scale()), step(call.strands * scale()),
          turns(s.turns), end(s.units * scale()), turns_left(s.turns), images_left(to - from)
    {
        const int64_t begin = from * entries + s.top * f.W * f.q.channels + s.o;
        place = {f.d + begin, T::RELU ? f.entries.y + begin : nullptr, T::POOLED ? f.entries.cell + begin : nullptr, start,
                 f.q.channels - s.o};
    }
    __device__ int  scale() const { return T::POOLED ? f.q.channels : 1; }
    __device__ void begin(held_unit<T> *unit)
    {
        LKI_UNROLL
        for (int i = 0; i < T::DEPTH; i++)
            fetch(unit[i]);
    }
    __device__ void fetch(held_unit<T> &unit)
    {
        if (place.at < end) load_unit<T>(f, place, unit);
        place.at += step;
        if (--turns_left) return;
        turns_left = turns;
        place.at = start, place.d += entries;
        if constexpr (T::RELU) place.y += entries;
        if constexpr (T::POOLED) place.cell += entries;
        if (!--images_left) end = 0;
    }
};

template <class T>
__global__ void __launch_bounds__(THREADS, T::RESIDENT) few_grad(LKI_FIXED few_grad_call f, LKI_FIXED lane_parts l)
{
    typedef typename T::W W;
    LKI_DYNAMIC_SHARED(float, shared);
    const few_share<T> s(f, l);
    const int64_t      image = (int64_t)f.p.IH * f.p.IW * W::C;
    const int          buffer = f.p.size() * 4, unit_at = 2 * buffer; /* bytes; where offsets of units' first cells are stored */
    cell_move *const   moves = at_byte<cell_move>(shared, unit_at + 4 * most_units(f));
    int                from, to;
    l.range(s.set, &from, &to);
    few_ahead<T> ahead(f, s, from, to);
    held_unit<T> unit[T::DEPTH];
    ahead.begin(unit);

    if (!f.whole) clear_patches(f, shared);
    list_units<T>(f, s.turns * f.strands, at_byte<int>(shared, unit_at));
    const int    copies = list_moves<T>(f, T::EACH * s.top, T::EACH * s.rows + W::KH - 1, moves);
    const float *x = f.x + from * image;
    bring<T>(f, moves, copies, x, at_byte<char>(shared, 0));
    copies_end();

    float      acc[T::SUMS][4] = {};
    int        left = to - from, turn = 0, u = 0, patch_at = buffer; /* of the previous image */
    const int  first = unit_at + 4 * s.strand, last = unit_at + 4 * s.units;
    const auto next_image = [&] {
        if (!left) return false;
        copies_wait<0>();
        __syncthreads(); /* the patch is loaded, and no thread needs the previous one */
        x += image;
        if (--left) bring<T>(f, moves, copies, x, at_byte<char>(shared, patch_at));
        copies_end();
        patch_at = buffer - patch_at;
        turn = s.turns, u = first;
        return true;
    };
    const auto do_turn = [&](held_unit<T> &now) {
        const int cells = patch_at + *at_byte<const int>(shared, u);
        if constexpr (T::POOLED) {
            const winners w = winners_of<T>(now, f.behind, cells);
            ahead.fetch(now);
            if (u < last) add_winners<T>(f, shared, w, acc);
        } else {
            if (u < last) add_piece<T>(f, at_byte<const float>(shared, cells), now, acc);
            ahead.fetch(now);
        }
        u += 4 * f.strands, turn--;
    };
    static_assert(T::DEPTH == 2 || T::DEPTH == 3, "written out, so that what is ahead stays in registers");
    for (;;) {
        if (!turn && !next_image()) break;
        do_turn(unit[0]);
        if (!turn && !next_image()) break;
        do_turn(unit[1]);
        if constexpr (T::DEPTH == 2) continue;
        if (!turn && !next_image()) break;
        do_turn(unit[T::DEPTH - 1]);
    }
    __syncthreads();
    put_part<T>(f, shared, s.part, s.group, acc);
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
              16; /* 16 banks further: so the two rows of a window, as the lanes of a warp read them, have no bank conflicts */
    return p;
}

/* Two patches, offsets of units, moves of cells; later the warps' sums. */
template <class T> size_t shared_of(const patch &p, const few_sizes &s)
{
    const int64_t units = (int64_t)s.rows * s.across + THREADS;
    return 4 *
           (size_t)lki_max(2 * (int64_t)p.rows * p.pitch + units + 2 * (int64_t)p.rows * p.width, WARPS * T::SUMS * FEW_CHANNELS);
}

/* Bands of about TURNS turns whose patches fit. */
template <class T> few_sizes sizes_of(const conv &v, const quads &q)
{
    const int H = v.pooled ? v.OH / 2 : v.OH, W = v.pooled ? v.OW / 2 : v.OW, strands = THREADS >> q.bits;
    few_sizes s = {(int)lki_ceil_div(W, T::WIDE), 1, 1};
    s.rows = (int)lki_max(1, lki_ceil_div(H, lki_max(1, lki_ceil_div((int64_t)s.across * H, T::TURNS * strands))));
    while (s.rows > 1 && shared_of<T>(patch_of<T>(v, s), s) > SHARED_MOST)
        s.rows = (s.rows + 1) / 2;
    s.bands = s.across ? (int)lki_ceil_div(H, s.rows) : 0;
    return s;
}

template <class T> bool fits(const conv &v)
{
    const few_sizes s = sizes_of<T>(v, quads_of(v.O, false));
    return v.images < INT32_MAX / 64 && shared_of<T>(patch_of<T>(v, s), s) <= SHARED_MOST;
}

template <class T> size_t scratch_of(const conv &v, int lanes)
{
    const int bands = sizes_of<T>(v, quads_of(v.O, false)).bands;
    return (size_t)(most_lane_parts(v.images, lanes, bands, PARTS, IMAGES) * T::SUMS * v.O) * sizeof(float);
}

template <class W, bool POOLED> void launch_few(const lki_args *g, const few_grad_call &f, const lane_parts &p, size_t bytes)
{
    const dim3 blocks((unsigned)(p.count() * f.groups));
    const bool relu = POOLED && f.entries.y;
    if (f.q.wide && relu) LKI_LAUNCH((few_grad<way<W, POOLED, POOLED>>), blocks, dim3(THREADS), bytes, g, f, p);
    else if (f.q.wide) LKI_LAUNCH((few_grad<way<W, POOLED>>), blocks, dim3(THREADS), bytes, g, f, p);
    else if (relu) LKI_LAUNCH((few_grad<way<W, POOLED, POOLED, false>>), blocks, dim3(THREADS), bytes, g, f, p);
    else LKI_LAUNCH((few_grad<way<W, POOLED, false, false>>), blocks, dim3(THREADS), bytes, g, f, p);
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
    f.strands = THREADS >> q.bits;
    f.groups = (int)lki_ceil_div(v.O, q.width());
    f.parts = (float *)g->scratch;
    f.pitch_bytes = 4 * f.p.pitch;
    for (int place = 0; place < 4; place++) {
        const unsigned bytes = 4 * (unsigned)(place / 2 * f.p.pitch + place % 2 * v.C);
        f.behind.x |= (bytes & 255) << 8 * place, f.behind.y |= bytes >> 8 << 8 * place;
    }
    const int line = v.IW * v.C, before = v.pad[1] * v.C;
    f.once = aligned(f.x) && line % 4 == 0 && before % 4 == 0 && f.p.width % 4 == 0 ? 4 : 1;
    f.columns = (int)lki_max(0, lki_min(line, f.p.width - before) / f.once), f.by_columns = divisor_of(f.columns);
    f.by_groups = divisor_of(f.groups), f.by_bands = divisor_of(p.bands);
    f.whole = !v.pad[0] && !v.pad[1] && T::EACH * f.H + T::W::KH - 1 <= v.IH && f.p.width <= line;
    f.sums = T::W::WEIGHTS + (T::POOLED && g->attr->epilogue.bias);
    const joined to = {(float *)g->dst[0].data, (float *)(f.sums > T::W::WEIGHTS ? g->dst[1].data : nullptr), T::W::WEIGHTS * v.O};
    if (p.count() && f.groups) launch_few<typename T::W, T::POOLED>(g, f, p, shared_of<T>(f.p, s));
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
