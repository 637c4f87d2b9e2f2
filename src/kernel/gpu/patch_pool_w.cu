/* The gradient for the weights of conv2d with 3x3 windows through a 2x2 max pool, and for its bias, on tensor cores: for precisions that round factors, where the dense product takes less
 * time than going entry by entry (conv_pool_w.cu), and images are not so many that fragment_w.cu is faster.
 *
 * A block has some images, 32 in channels and 32 or 64 out channels. A warp has one row of taps, all 32 in channels and 32 out channels. k are outputs, window by window: a group of 16 is
 * four windows, of which a thread has one (k_group.h). So it reads the 2x4 cells its window's outputs saw once for three taps, and an entry once for the four outputs, three of which
 * are 0: the dense gradient is never laid down.
 *
 * In shared memory a cell of x has CELL floats and a line so many cells that windows which follow each other, across the ends of lines too, lie on different banks.
 *
 * Order of the sum, the GPU's own: image after image, groups of four windows ascending (k_group.h says what the sum of a group is), from 0; parts and lanes as lane_parts.h says. The bias:
 * one CHAIN for each window % 4 over the images of a part; these up the tree; then parts and lanes. Outputs that did not win count as zeros: a cell that meets them and is not finite
 * gives NaN. */
#include "kernel/gpu/conv_pool_w.h"
#include "kernel/gpu/patch.h"

namespace
{

using namespace lki_gpu;

enum { WIDE = 32, CELL = WIDE + 4, TAPS = 3, MT = TAPS * WIDE / 16, NT = WIDE / 8, AT_A_TIME = 4 /* windows of a group */ };

struct pool_w_call : pool_weights {
    int     width; /* cells of a line in shared memory */
    divisor by_seen;

    __host__ __device__ int seen() const { return 2 * PW + 2; } /* cells of a line that count */
    __host__ __device__ int lines() const { return 2 * PH + 2; }
    __host__ __device__ int groups() const { return (windows() + AT_A_TIME - 1) / AT_A_TIME; }
    __device__ int          cell_of(int window) const /* the first its outputs saw; behind the last window any */
    {
        const int row = by_PW(window);
        return window < windows() ? 2 * (row * width + (window - row * PW)) : 0;
    }
};

/* An image in shared memory: floats of x, and of a window's entries: d, y with relu, and the bytes of cells. Lines of these lie so that four windows are on different banks. */
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

/* ---- on the way in ---- */

/* Image n, its channels from c and o on. */
template <int OUTS> __device__ inline void bring(const pool_w_call &f, int64_t n, int c, int o, const pool_w_room<OUTS> &to)
{
    const whole_image image = {f.x, f.IH, f.IW, f.C, f.wide};
    const int         quads = WIDE / 4, eights = OUTS / 8;
    for (int i = (int)threadIdx.x; i < f.lines() * f.seen() * quads; i += (int)blockDim.x) {
        const int cell = i / quads, q = i % quads * 4, h = f.by_seen(cell), w = cell - h * f.seen();
        image.fetch(to.x + (h * f.width + w) * CELL + q, n, h - f.pad[0], w - f.pad[1], c + q);
    }
    for (int i = (int)threadIdx.x; i < f.windows() * eights; i += (int)blockDim.x) {
        const int window = i / eights, q = i % eights * 8;
        if (o + q < f.O)
            f.d.send((n * f.windows() + window) * f.O + o + q, to.d + window * to.D + q, to.y + window * to.D + q,
                     to.cell + window * to.CELLS + q / 4);
    }
}

/* Windows behind the last: entries of 0. */
template <int OUTS> __device__ inline void clear_rest(const pool_w_call &f, const pool_w_room<OUTS> &to)
{
    const int from = f.windows(), count = f.groups() * AT_A_TIME - from;
    for (int i = (int)threadIdx.x; i < count * to.D; i += (int)blockDim.x) {
        to.d[from * to.D + i] = 0;
        if (f.d.y) to.y[from * to.D + i] = 0;
    }
    for (int i = (int)threadIdx.x; i < count * to.CELLS; i += (int)blockDim.x)
        to.cell[from * to.CELLS + i] = 0;
}

/* ---- factors (k_group.h) ---- */

/* Cells of x: row [tap of the row of taps][channel], of a thread four neighbouring channels at each tap; k is [window of the group][cell of it]. */
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

/* Entries, spread to the outputs of their windows: of a thread four neighbouring channels. */
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

/* To scratch: of each part [tap][in][out], then the bias. */
__device__ inline void put_part(const pool_w_call &f, int part, int taps, int c, int o, const float (*sum)[NT][4], float *bias)
{
    const int lane = (int)threadIdx.x % 32, weights = 3 * TAPS * f.C * f.O;
    float    *to = f.parts + (int64_t)part * f.each;
    LKI_UNROLL
    for (int i = 0; i < MT * 4; i++) { /* row, and which of a pair of columns */
        const int row = seen_cells::row(i / 2, lane / 4), e = i % 2, q = i / 2 % 2 * 2 + e, m = i / 4;
        const int in = c + row % WIDE, out = o + 4 * (lane % 4 * 2 + e);
        if (in < f.C && out < f.O)
            *(float4 *)(to + ((taps * TAPS + row / WIDE) * f.C + in) * f.O + out) =
                make_float4(sum[m][0][q], sum[m][1][q], sum[m][2][q], sum[m][3][q]);
    }
    LKI_UNROLL
    for (int j = 0; j < 4; j++) {
        bias[j] = bias[j] + __shfl_xor_sync(~0u, bias[j], 1);
        bias[j] = bias[j] + __shfl_xor_sync(~0u, bias[j], 2);
    }
    if (!taps && !c && lane % 4 == 0 && o + lane < f.O && f.each > weights)
        *(float4 *)(to + weights + o + lane) = make_float4(bias[0], bias[1], bias[2], bias[3]);
}

template <int P, int OUTS>
__global__ void __launch_bounds__(TAPS *OUTS, 2) weights_through_pool(LKI_FIXED pool_w_call f, LKI_FIXED lane_parts l)
{
    LKI_DYNAMIC_SHARED(float, shared);
    const int warp = (int)threadIdx.x / 32, taps = warp % TAPS, first = warp / TAPS * WIDE;
    const int part = (int)(blockIdx.x / (unsigned)(f.ins * f.outs)), rest = (int)(blockIdx.x % (unsigned)(f.ins * f.outs));
    const int c = rest / f.outs * WIDE, o = rest % f.outs * OUTS;
    const int each = pool_w_room<OUTS>::floats(f, f.d.y);
    float     sum[MT][NT][4] = {}, bias[4] = {0, 0, 0, 0};
    int       from, to;
    l.range(part, &from, &to);
    for (int i = 0; i < 2; i++)
        clear_rest(f, pool_w_room<OUTS>(f, shared + i * each));
    bring(f, from, c, o, pool_w_room<OUTS>(f, shared));
    copies_end();
    for (int n = from; n < to; n++) {
        copies_wait<0>();
        __syncthreads(); /* this image is here, and nobody reads the one before */
        if (n + 1 < to) bring(f, n + 1, c, o, pool_w_room<OUTS>(f, shared + (n + 1 - from) % 2 * each));
        copies_end();
        add_image<P>(f, pool_w_room<OUTS>(f, shared + (n - from) % 2 * each), taps, first, sum, bias);
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
    return f;
}

template <int P, int OUTS> void launch(const lki_args *g, const conv &v, const pool_entries &entries)
{
    const lane_parts l = pool_lane_parts(g, v);
    pool_w_call      f = call_of(v, OUTS);
    f.take(g, entries);
    const size_t bytes = 2 * sizeof(float) * (size_t)pool_w_room<OUTS>::floats(f, f.d.y);
    LKI_GIVE_SHARED((weights_through_pool<P, OUTS>), bytes);
    if (l.count()) LKI_LAUNCH((weights_through_pool<P, OUTS>), dim3(f.blocks(l)), dim3(TAPS * OUTS), bytes, g, f, l);
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
