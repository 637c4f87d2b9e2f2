/* The gradient for the weights of conv2d with 3x3 windows through a 2x2 max pool, and for its bias, on tensor cores: for precisions
 * that round factors, where the dense product is faster than entry by entry (conv_pool_w.cu), and for fewer images than make
 * fragment_w.cu faster.
 *
 * A block has some images, 32 in channels and 32 or 64 out channels. A warp has one row of taps, all 32 in channels and 32 out
 * channels. k are outputs, window by window: a group of 16 is four windows, of which a thread has one (k_group.h). So it reads the
 * 2x4 cells of its window once for three taps, and an entry once for the four outputs, three of which are 0: the dense gradient is
 * not materialised.
 *
 * In shared memory a cell of x has CELL floats, and a line as many cells as put consecutive windows, also across the ends of lines,
 * in different banks.
 *
 * Order of the sum, only on GPUs: image after image, groups of four windows ascending (k_group.h says what the sum of a group is),
 * from 0; parts and lanes as in lane_parts.h. The bias: one CHAIN for each window % 4 over the images of a part; these up the tree;
 * then parts and lanes. Outputs that did not win count as zeros: if the cell they are multiplied with is not finite the result is
 * NaN. */
#include "kernel/gpu/conv/conv_pool_w.h"
#include "kernel/gpu/conv/patch.h"

namespace
{

using namespace lki_gpu;

enum { WIDE = 32, QUADS = WIDE / 4, CELL = WIDE + 4, TAPS = 3, MT = TAPS * WIDE / 16, NT = WIDE / 8 };
enum { AT_A_TIME = 4 }; /* windows of a group */
/* LKI_ASK_SHARED: the same as for the data gradient of few rows, which runs at the same time (fragment_x.cu). */
enum { BESIDE_DATA = 50, AS_IT_IS = -1 };

struct pool_w_call : pool_weights {
    int     width;   /* cells of a line in shared memory */
    int     abreast; /* lines that a block copies at a time */
    divisor by_seen;

    __host__ __device__ int seen() const { return 2 * PW + 2; } /* cells of a line that are used */
    __host__ __device__ int lines() const { return 2 * PH + 2; }
    __host__ __device__ int groups() const { return (windows() + AT_A_TIME - 1) / AT_A_TIME; }
    __device__ int          cell_of(int window) const /* the first that its outputs read; any cell after the last window */
    {
        const int row = by_PW(window);
        return window < windows() ? 2 * (row * width + (window - row * PW)) : 0;
    }
};

/* An image in shared memory: floats of x, and of a window's entries: d, y with relu, and the bytes of cells. Lines of entries are
 * padded so that four windows are in different banks. */
template <int OUTS> struct pool_w_room {
    enum { D = OUTS + 8, CELLS = OUTS == 64 ? 24 : 8 };
    float *x, *d, *y, *cell;

    __device__ pool_w_room(const pool_w_call &f, float *buffer)
        : x(buffer), d(x + f.lines() * f.width * CELL), y(d + f.groups() * AT_A_TIME * D),
          cell(f.d.y ? y + f.groups() * AT_A_TIME * D : y)
    {
    }
    __host__ __device__ static int floats(const pool_w_call &f, bool with_y)
    {
        return f.lines() * f.width * CELL + f.groups() * AT_A_TIME * (D * (with_y ? 2 : 1) + CELLS);
    }
};

/* ---- loading ---- */

/* Copy image n, its channels from c and o on. A thread copies four channels of a cell, the same four of all its cells: as many
 * lines as there are threads for at a time. */
template <int OUTS> __device__ inline void bring(const pool_w_call &f, int64_t n, int c, int o, const pool_w_room<OUTS> &to)
{
    enum { EIGHTS = OUTS / 8, COLUMNS = TAPS * OUTS / QUADS };
    const int    column = (int)threadIdx.x / QUADS, q = (int)threadIdx.x % QUADS * 4, first = f.by_seen(column);
    const int    seen = f.seen(), step = seen < (int)COLUMNS ? seen : (int)COLUMNS; /* of a line */
    const float *image = f.x + (n * f.IH * f.IW * f.C + c + q);
    LKI_ROLLED
    for (int h = first < f.abreast ? first : f.lines(); h < f.lines(); h += f.abreast) {
        LKI_ROLLED
        for (int w = column - first * seen; w < seen; w += step) {
            const int  y = h - f.pad[0], z = w - f.pad[1];
            const bool in = (unsigned)y < (unsigned)f.IH && (unsigned)z < (unsigned)f.IW && c + q < f.C;
            bring_four(to.x + (h * f.width + w) * CELL + q, in ? image + (y * f.IW + z) * f.C : f.x, f.wide, in);
        }
    }
    LKI_ROLLED
    for (int i = (int)threadIdx.x; i < f.groups() * AT_A_TIME * EIGHTS; i += TAPS * OUTS) {
        const int window = i / EIGHTS, e = i % EIGHTS * 8; /* after the last window entries are 0 */
        if (o + e < f.O)
            f.d.send((n * f.windows() + window) * f.O + o + e, to.d + window * to.D + e, to.y + window * to.D + e,
                     to.cell + window * to.CELLS + e / 4, window < f.windows());
    }
}

/* ---- factors (k_group.h) ---- */

/* Cells of x: row [tap of the row of taps][channel]; a thread has four neighbouring channels at each tap; k is [window of the
 * group][cell of it]. */
struct seen_cells {
    enum { AT_ONCE = 4 };
    const pool_w_call &f;
    const float       *x; /* line of the taps */
    int                group;
    float              seen[2][4][4]; /* by the thread's window: line, column, channel */

    __device__ seen_cells(const pool_w_call &f_, const float *x_, int group_) : f(f_), x(x_), group(group_)
    {
        const float *mine = x + f.cell_of(group * AT_A_TIME + (int)threadIdx.x % 4) * CELL + (int)threadIdx.x % 32 / 4 * 4;
        LKI_UNROLL
        for (int i = 0; i < 8; i++)
            load_quad(mine + (i / 4 * f.width + i % 4) * CELL, seen[i / 4][i % 4]);
    }
    __device__ static int            row(int n, int r) { return n / 4 * WIDE + 4 * r + n % 4; }
    template <int N> __device__ void load(int n, float (*v)[4]) const
    {
        LKI_UNROLL
        for (int i = 0; i < N * 4; i++)
            v[i / 4][i % 4] = seen[i % 4 / 2][n / 4 + i % 2][n % 4 + i / 4];
    }
#ifdef LKI_SIM
    __device__ float at(int r, int k) const
    {
        return x[(f.cell_of(group * AT_A_TIME + k / 4) + k % 4 / 2 * f.width + r / WIDE + k % 2) * CELL + r % WIDE];
    }
#endif
};

/* Entries, expanded to the outputs of their windows: a thread has four neighbouring channels. */
template <int OUTS> struct spread_entries {
    const pool_w_room<OUTS> &room;
    int                      group, first; /* channel of the warp */
    float                    d[4];
    unsigned                 cells;

    __device__ spread_entries(const pool_w_call &f, const pool_w_room<OUTS> &room_, int group_, int first_)
        : room(room_), group(group_), first(first_)
    {
        const int window = group * AT_A_TIME + (int)threadIdx.x % 4, channel = first + (int)threadIdx.x % 32 / 4 * 4;
        load_quad(room.d + window * room.D + channel, d);
        cells = __float_as_uint(room.cell[window * room.CELLS + channel / 4]);
        if (f.d.y) {
            float y[4];
            load_quad(room.y + window * room.D + channel, y);
            LKI_UNROLL
            for (int j = 0; j < 4; j++)
                d[j] = y[j] > 0 ? d[j] : 0;
        }
    }
    __device__ static int            row(int n, int r) { return 4 * r + n; }
    template <int N> __device__ void load(int, float (*v)[4]) const
    {
        LKI_UNROLL
        for (int i = 0; i < N * 4; i++)
            v[i / 4][i % 4] = (int)(cells >> 8 * (i / 4) & 255) == i % 4 ? d[i / 4] : 0;
    }
    __device__ float at(int column, int k) const
    {
        const int      at = (group * AT_A_TIME + k / 4) * room.D + first + column;
        const unsigned cell =
            __float_as_uint(room.cell[(group * AT_A_TIME + k / 4) * room.CELLS + (first + column) / 4]) >> 8 * (column % 4) & 255;
        return (int)cell == k % 4 && (room.y == room.cell || room.y[at] > 0) ? room.d[at] : 0;
    }
};

/* ---- sums ---- */

template <int P, int OUTS>
__device__ inline void add_image(const pool_w_call &f, const pool_w_room<OUTS> &room, int taps, int first, float (*sum)[NT][4],
                                 float *bias)
{
    for (int group = 0; group < f.groups(); group++) {
        const spread_entries<OUTS> entries(f, room, group, first);
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            bias[j] = bias[j] + (entries.cells & LKI_CELL_DEAD << 8 * j ? 0 : entries.d[j]);
        multiply_group<P, MT, NT>(seen_cells(f, room.x + taps * f.width * CELL, group), entries, sum);
    }
}

/* To scratch: for each part [tap][in][out], then the bias. In channels are multiples of four, out channels of eight: a thread's
 * part of a tap exists as a whole or not at all. */
__device__ inline void put_part(const pool_w_call &f, int part, int taps, int c, int o, const float (*sum)[NT][4], float *bias)
{
    const int lane = (int)threadIdx.x % 32, weights = 3 * TAPS * f.C * f.O, in = c + seen_cells::row(0, lane / 4),
              out = o + lane % 4 * 8;
    float *to = f.parts + (int64_t)part * f.each;
    if (in < f.C && out < f.O) {
        float *first = to + (taps * TAPS * f.C + in) * f.O + out;
        LKI_UNROLL
        for (int i = 0; i < MT * 2; i++) { /* row of the thread */
            float    *at = first + (i / 4 * f.C + i % 4) * f.O;
            const int m = i / 2, q = i % 2 * 2;
            *(float4 *)at = make_float4(sum[m][0][q], sum[m][1][q], sum[m][2][q], sum[m][3][q]);
            *(float4 *)(at + 4) = make_float4(sum[m][0][q + 1], sum[m][1][q + 1], sum[m][2][q + 1], sum[m][3][q + 1]);
        }
    }
    LKI_UNROLL
    for (int j = 0; j < 4; j++) {
        bias[j] = bias[j] + __shfl_xor_sync(~0u, bias[j], 1);
        bias[j] = bias[j] + __shfl_xor_sync(~0u, bias[j], 2);
    }
    if (!taps && !c && lane % 4 == 0 && o + lane < f.O && f.each > weights)
        *(float4 *)(to + weights + o + lane) = make_float4(bias[0], bias[1], bias[2], bias[3]);
}

/* One image is copied while the previous one is multiplied. */
template <int P, int OUTS>
__global__ void __launch_bounds__(TAPS *OUTS, 2) weights_through_pool(LKI_FIXED pool_w_call f, LKI_FIXED lane_parts l)
{
    LKI_DYNAMIC_SHARED(float, shared);
    const int warp = (int)threadIdx.x / 32, taps = warp % TAPS, first = warp / TAPS * WIDE;
    const int part = (int)blockIdx.x, c = (int)blockIdx.y * WIDE, o = (int)blockIdx.z * OUTS;
    const int each = pool_w_room<OUTS>::floats(f, f.d.y);
    float     sum[MT][NT][4] = {}, bias[4] = {0, 0, 0, 0};
    int       from, to;
    l.range(part, &from, &to);
    for (int n = from;; n++) {
        if (n < to) bring(f, n, c, o, pool_w_room<OUTS>(f, shared + (n - from) % 2 * each));
        copies_end();
        if (n > from) add_image<P>(f, pool_w_room<OUTS>(f, shared + (n - 1 - from) % 2 * each), taps, first, sum, bias);
        if (n == to) break;
        copies_wait<0>();
        __syncthreads(); /* this image is loaded, and no thread reads the previous one */
    }
    put_part(f, part, taps, c, o + first, sum, bias);
}

/* ---- launches ---- */

pool_w_call call_of(const conv &v, int outs)
{
    pool_w_call f = {};
    f.shape(v, WIDE, outs);
    f.width = f.seen() + (f.PW - f.seen() % 4 + 8) % 4;
    f.by_seen = divisor_of(f.seen());
    f.abreast = (int)lki_max(1, TAPS * outs / QUADS / f.seen());
    return f;
}

template <int P, int OUTS> void launch(const lki_args *g, const conv &v, const pool_entries &entries)
{
    const lane_parts l = pool_lane_parts(g, v);
    pool_w_call      f = call_of(v, OUTS);
    f.take(g, entries);
    const size_t bytes = (l.regular == 1 ? 1 : 2) * sizeof(float) * (size_t)pool_w_room<OUTS>::floats(f, f.d.y);
    LKI_GIVE_SHARED((weights_through_pool<P, OUTS>), bytes);
    LKI_ASK_SHARED((weights_through_pool<P, OUTS>), l.regular == 1 ? BESIDE_DATA : AS_IT_IS);
    if (l.count())
        LKI_LAUNCH((weights_through_pool<P, OUTS>), dim3((unsigned)l.count(), (unsigned)f.ins, (unsigned)f.outs), dim3(TAPS * OUTS),
                   bytes, g, f, l);
    join_pool_weights(g, l, f);
}

template <int P> void launch_for(const lki_args *g, const conv &v, const pool_entries &entries)
{
    if (v.O <= WIDE) launch<P, WIDE>(g, v, entries);
    else launch<P, 2 * WIDE>(g, v, entries);
}

} // namespace

bool lki_gpu::is_patch_pool_w(const conv &v)
{
    return is_winner_grad_w(v) &&
           2 * sizeof(float) * (size_t)pool_w_room<2 * WIDE>::floats(call_of(v, 2 * WIDE), true) <= pool_weights::SHARED_MOST;
}

void lki_gpu::patch_pool_w(const lki_args *g, const conv &v, const pool_entries &entries)
{
    if (g->gpu->precision == LKI_PRECISION_TF32) launch_for<LKI_PRECISION_TF32>(g, v, entries);
    else launch_for<LKI_PRECISION_BF16>(g, v, entries);
}
