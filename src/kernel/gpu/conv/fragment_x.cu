/* The data gradient of conv2d with 3x3 windows through a 2x2 max pool, by fragments (fragment.h).
 *
 * Rows are squares of 2x2 cells of x that contribute to the outputs of the same four windows of the pool: square (i, j) has cells
 * 2i - pad, 2i + 1 - pad and belongs to windows i - 1 and i, in both directions; there is one more square than windows. So an entry
 * is loaded to registers once for the 36 products of a square with the taps, and is expanded there to the four outputs of its
 * window, three of them 0; no dense gradient is materialised. Cells that are in no square are 0. If there are few rows, the outputs
 * of a group are passed through shared memory, and a warp has a row of cells of sixteen squares, and sixteen channels.
 *
 * Order of sums: groups of 16 out channels ascending; windows (i-1, j-1), (i-1, j), (i, j-1), (i, j); for each the taps ascending.
 * Outputs that did not win, and channels after the last of a group, count as 0 * weight; the outputs of a window whose gradient is
 * infinite are NaN. */
#include "kernel/gpu/conv/conv_pool.h"
#include "kernel/gpu/conv/fragment.h"

namespace
{

using namespace lki_gpu;

enum { WIDE = FRAGMENT_WIDE, FEW = 2 /* FEW: mma of columns if there are few rows */, WARPS = 12, FEW_WARPS = 4 };
/* LKI_ASK_SHARED: the same as for the gradient of the weights, which runs at the same time (patch_pool_w.cu). */
enum { BESIDE_WEIGHTS = 50 };

struct square_call {
    fragment_plan    p;
    pool_gradient    d;
    fragment_weights w;
    float           *dx;
    int              C, O, IH, IW, PH, PW, pad[2];
    bool             wide; /* dx is aligned */
    divisor          by_squares, by_line;

    __device__ int squares() const { return (PH + 1) * (PW + 1); } /* of an image */
};

struct square {
    int image, i, j;

    __device__ square(const square_call &f, int row)
    {
        image = f.by_squares(row);
        const int at = row - image * f.squares();
        i = f.by_line(at);
        j = at - i * (f.PW + 1);
    }
    /* The first entry of its first window; before the image if i or j is 0. */
    __device__ int64_t entry(const square_call &f) const { return ((int64_t)(image * (int64_t)f.PH + i - 1) * f.PW + j - 1) * f.O; }
    /* Bit 2 * (window row) + window column: the window exists. */
    __device__ unsigned windows(const square_call &f) const
    {
        const unsigned columns = (j > 0 ? 1 : 0) | (j < f.PW ? 2 : 0);
        return (i > 0 ? columns : 0) | (i < f.PH ? columns << 2 : 0);
    }
};

/* Four out channels of a window. BY_Y: y tells what relu cut off, else cells do. */
template <bool BY_Y> struct window_entry {
    float    d[4], y[BY_Y ? 4 : 1];
    unsigned cells;

    template <bool ALIGNED> __device__ void fetch(const pool_gradient &g, int64_t e, bool in)
    {
        if (!in) fill_quad(0, d);
        else if (ALIGNED) {
            load_quad(g.d + e, d);
            if constexpr (BY_Y) load_quad(g.y + e, y);
            cells = *(const unsigned *)(g.cell + e);
        } else {
            cells = 0;
            for (int j = 0; j < 4; j++) {
                d[j] = g.d[e + j];
                if constexpr (BY_Y) y[j] = g.y[e + j];
                cells |= (unsigned)g.cell[e + j] << 8 * j;
            }
        }
    }
};

/* An entry expanded to the outputs of its window, of which one won: v[output][channel]. */
template <int P, bool BY_Y> __device__ inline void spread_entry(const window_entry<BY_Y> &e, float (*v)[4])
{
    LKI_UNROLL
    for (int j = 0; j < 4; j++) {
        const bool  dead = BY_Y ? !(e.y[BY_Y ? j : 0] > 0) : (e.cells & LKI_CELL_DEAD << 8 * j) != 0;
        const float d = dead ? 0 : as_factor<P>(e.d[j]);
        const bool  lower = e.cells & 2u << 8 * j, right = e.cells & 1u << 8 * j;
        const float above = lower ? 0 : d, below = d - above; /* differences, because selections take twice as long */
        v[1][j] = right ? above : 0, v[0][j] = above - v[1][j];
        v[3][j] = right ? below : 0, v[2][j] = below - v[3][j];
    }
}

/* The entries of a thread's two rows as left factors. */
template <int P, bool BY_Y> __device__ inline void spread(const window_entry<BY_Y> *e, left_fragment<P> *out)
{
    float of[2][4][4];
    LKI_UNROLL
    for (int h = 0; h < 2; h++)
        spread_entry<P>(e[h], of[h]);
    LKI_UNROLL
    for (int i = 0; i < 4; i++) {
        const float v[2][4] = {{of[0][i][0], of[0][i][1], of[0][i][2], of[0][i][3]},
                               {of[1][i][0], of[1][i][1], of[1][i][2], of[1][i][3]}};
        out[i] = left_fragment<P>(v);
    }
}

/* In one direction: has_tap: window `window` (0, 1) of a square has an output whose tap is on one of the square's cells; output_of:
 * which output (0, 1) that is for cell `cell` (0, 1). */
__host__ __device__ constexpr bool has_tap(int window, int tap) { return window ? tap < 2 : tap > 0; }
__host__ __device__ constexpr int  output_of(int window, int cell, int tap) { return cell + 2 - 2 * window - tap; }

/* The products of one window. */
template <int P>
__device__ inline void multiply_window(int window, const left_fragment<P> *out, const float *weights, float (*acc)[WIDE][4])
{
    LKI_UNROLL
    for (int tap = 0; tap < FRAGMENT_TAPS; tap++) {
        if (!has_tap(window / 2, tap / 3) || !has_tap(window % 2, tap % 3)) continue;
        const right_fragments<P, WIDE> b(weights + tap * (WIDE * FRAGMENT));
        LKI_UNROLL
        for (int cell = 0; cell < 4; cell++) {
            const int row = output_of(window / 2, cell / 2, tap / 3), column = output_of(window % 2, cell % 2, tap % 3);
            if (row >= 0 && row < 2 && column >= 0 && column < 2) multiply_fragments<P, WIDE>(out[2 * row + column], b, acc[cell]);
        }
        if (!LKI_WARPGROUPS(P, WIDE)) __syncwarp(); /* so that weights are read tap by tap: there are few registers */
    }
}

/* The sums of a tile: acc[cell of a square]. weights: this lane's. */
template <int P, bool BY_Y>
__device__ inline void sum_squares(const square_call &f, const fragment_unit<WIDE> &unit, const float *weights,
                                   float (*acc)[WIDE][4])
{
    const int          channel = (int)threadIdx.x % 4 * 4;
    int64_t            from[2];
    unsigned           there[2];
    window_entry<BY_Y> entry[2];
    LKI_UNROLL
    for (int h = 0; h < 2; h++) {
        const square s(f, unit.row(h));
        from[h] = s.entry(f) + channel;
        there[h] = unit.row(h) < f.p.rows ? s.windows(f) : 0;
        entry[h].template fetch<true>(f.d, from[h], (there[h] & 1) && channel < f.O);
    }
    left_fragment<P> out[4];
    for (int group = 0; group < f.p.groups; group++) {
        LKI_UNROLL
        for (int window = 0; window < 4; window++) {
            const int after = (window + 1) % 4, o = (window == 3 ? group + 1 : group) * GROUP;
            products_wait<P, 0>();
            products_read<P>(out, 4);
            spread<P>(entry, out);
            LKI_UNROLL
            for (int h = 0; h < 2; h++) /* the next ones are loaded while these are multiplied */
                entry[h].template fetch<true>(f.d, from[h] + ((after / 2 * f.PW + after % 2) * f.O + o),
                                              (there[h] >> after & 1) && channel + o < f.O);
            products_begin<P>();
            multiply_window<P>(window, out, weights + group * (FRAGMENT_TAPS * WIDE * FRAGMENT), acc);
            products_end<P>();
        }
    }
    products_wait<P, 0>();
    products_read<P>(out, 4);
}

/* ---- sums of few rows ---- */

/* A block's shared memory for a group: the 4x4 outputs that its squares belong to, [output][mma of rows][octet][lane][factors of a
 * lane], and the weights of sixteen channels, twice: the next ones are being copied. A warp has sixteen squares, and of these a row
 * of cells (0, 1). */
enum { FEW_ROWS = 32, OUTPUT = FEW_ROWS * GROUP, OUTPUTS = 16 * OUTPUT };
enum { FEW_WEIGHTS = FRAGMENT_TAPS * FEW * FRAGMENT, FEW_SHARED = OUTPUTS + 2 * FEW_WEIGHTS };

/* A thread's part of them: four channels of a row of its squares' windows, and 16 bytes of some weights. */
template <int P, bool BY_Y, bool ALIGNED> struct few_factors {
    const square_call &f;
    int64_t            from[2];
    unsigned           there[2];
    int                row, channel; /* of windows; of x */
    window_entry<BY_Y> entry[2][2];  /* column, square */

    __device__ few_factors(const square_call &f_, const square *s, const bool *in, int row_) : f(f_), row(row_)
    {
        LKI_UNROLL
        for (int h = 0; h < 2; h++) {
            from[h] = s[h].entry(f) + (row * f.PW * f.O + (int)threadIdx.x % 4 * 4);
            there[h] = in[h] ? s[h].windows(f) >> 2 * row : 0;
        }
        channel =
            (int)(blockIdx.x % f.p.columns) * (8 * FEW) + channel_of<FEW>((int)threadIdx.x / 32 % FEW, (int)threadIdx.x % 32 / 4);
    }
    __device__ int  first(int group) const { return group * GROUP + (int)threadIdx.x % 4 * 4; }
    __device__ void fetch_entries(int group)
    {
        LKI_UNROLL
        for (int i = 0; i < 4; i++) {
            const int column = i / 2, h = i % 2;
            entry[column][h].template fetch<ALIGNED>(f.d, from[h] + (column * f.O + group * GROUP),
                                                     (there[h] >> column & 1) && first(group) < f.O);
        }
    }
    /* to: this lane's. */
    __device__ void put_outputs(float *to) const
    {
        LKI_UNROLL
        for (int column = 0; column < 2; column++) {
            float v[2][4][4];
            spread_entry<P>(entry[column][0], v[0]);
            spread_entry<P>(entry[column][1], v[1]);
            LKI_UNROLL
            for (int i = 0; i < 8; i++) {
                const int o = i / 2, k = i % 2 * 2;
                *(float4 *)(to + (((2 * row + o / 2) * 4 + 2 * column + o % 2) * OUTPUT + i % 2 * FRAGMENT)) =
                    make_float4(v[0][o][k], v[1][o][k], v[0][o][k + 1], v[1][o][k + 1]);
            }
        }
    }
    __device__ void send_weights(int group, float *to) const
    {
        const bool   in = channel < f.w.A && first(group) < f.w.B;
        const int    tap = (int)threadIdx.x / (32 * FEW), step = FEW_WARPS / FEW;
        const float *p = f.w.data + (in ? (int64_t)(tap * f.w.A + channel) * f.w.B + first(group) : 0);
        const int    each = in ? step * f.w.A * f.w.B : 0;
        to += (int)threadIdx.x * 4;
        LKI_UNROLL
        for (int i = 0; i * step < FRAGMENT_TAPS; i++, p += each, to += step * FEW * FRAGMENT) {
            if (tap + i * step >= FRAGMENT_TAPS) break;
            if (ALIGNED) copy_four(to, p, in ? 16 : 0);
            else
                for (int j = 0; j < 4; j++)
                    copy_one(to + j, p + (in ? j : 0), in ? 4 : 0);
        }
    }
};

/* The order of the products of a row of cells (0, 1): octal digits, of which the lowest is the first; digit: 4 * column of windows
 * + row of taps. */
enum { UPPER_ORDER = 0406521, LOWER_ORDER = 0541062, ORDER_LENGTH = 6 };

/* The products of a row of cells with a group. outputs, weights: this lane's. */
template <int P, int ROW> __device__ inline void sum_group(const float *outputs, const float *weights, float (*acc)[FEW][4])
{
    const auto left = [&](const float *p) {
        float octet[2][4];
        load_quad(p, octet[0]);
        load_quad(p + FRAGMENT, octet[1]);
        const float v[2][4] = {{octet[0][0], octet[0][2], octet[1][0], octet[1][2]},
                               {octet[0][1], octet[0][3], octet[1][1], octet[1][3]}};
        return left_fragment<P>(v);
    };
    LKI_UNROLL
    for (int n = 0; n < ORDER_LENGTH; n++) {
        const int    digit = (ROW ? LOWER_ORDER : UPPER_ORDER) >> 3 * n & 7, kh = digit & 3, right = digit >> 2;
        const int    kw = 1 - right; /* the first of two taps */
        const float *out = outputs + ((ROW + 2 - kh) * 4 + right * 2) * OUTPUT, *w = weights + (3 * kh + kw) * (FEW * FRAGMENT);
        const left_fragment<P>        a[2] = {left(out), left(out + OUTPUT)};
        const right_fragments<P, FEW> b[2] = {rounded_fragments<P, FEW>(w), rounded_fragments<P, FEW>(w + FEW * FRAGMENT)};
        if (right) {
            multiply_fragments<P, FEW>(a[0], b[0], acc[0]);
            multiply_fragments<P, FEW>(a[1], b[0], acc[1]);
            multiply_fragments<P, FEW>(a[0], b[1], acc[1]);
        } else {
            multiply_fragments<P, FEW>(a[1], b[0], acc[0]);
            multiply_fragments<P, FEW>(a[1], b[1], acc[1]);
            multiply_fragments<P, FEW>(a[0], b[1], acc[0]);
        }
    }
}

/* ---- results ---- */

__device__ inline float *cell_place(const square_call &f, const square &s, int h, int w)
{
    return f.dx + (((int64_t)s.image * f.IH + h) * f.IW + w) * f.C;
}

/* The channels of a cell that a lane has. */
__device__ inline void put_cell(const square_call &f, const fragment_unit<WIDE> &unit, const square &s, int h, int w,
                                const float *v)
{
    float *to = cell_place(f, s, h, w);
    LKI_UNROLL
    for (int j = 0; j < 2 * WIDE; j += 4) {
        const int n = unit.channel(f.p, j);
        if (n < f.C) *(float4 *)(to + n) = make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]); /* C is a multiple of 4 */
    }
}

/* The squares after the last one write the cells that are in no square: 0. */
__device__ inline void put_zeros(const square_call &f, const fragment_unit<WIDE> &unit)
{
    const float zeros[2 * WIDE] = {};
    LKI_ROLLED
    for (int h = 0; h < 2; h++) {
        if (unit.row(h) >= f.p.rows) continue;
        const square s(f, unit.row(h));
        const int    y = 2 * s.i - f.pad[0], x = 2 * s.j - f.pad[1];
        const int    down = s.i == f.PH ? f.IH : y + 2, right = s.j == f.PW ? f.IW : x + 2;
        for (int r = y > 0 ? y : 0; r < down && r < f.IH; r++)
            for (int c = r < y + 2 ? x + 2 : x > 0 ? x : 0; c < right && c < f.IW; c++)
                put_cell(f, unit, s, r, c, zeros);
    }
}

__device__ inline void put_squares(const square_call &f, const fragment_unit<WIDE> &unit, const float (*acc)[WIDE][4])
{
    LKI_UNROLL
    for (int h = 0; h < 2; h++) {
        if (unit.row(h) >= f.p.rows) continue;
        const square s(f, unit.row(h));
        const int    y = 2 * s.i - f.pad[0], x = 2 * s.j - f.pad[1];
        LKI_UNROLL
        for (int cell = 0; cell < 4; cell++) {
            float v[2 * WIDE];
            LKI_UNROLL
            for (int j = 0; j < 2 * WIDE; j++)
                v[j] = acc[cell][j / 2][2 * h + j % 2];
            if ((unsigned)(y + cell / 2) < (unsigned)f.IH && (unsigned)(x + cell % 2) < (unsigned)f.IW)
                put_cell(f, unit, s, y + cell / 2, x + cell % 2, v);
        }
    }
}

template <bool ALIGNED> __device__ inline void put_quad(float *to, float4 v)
{
    if (ALIGNED) *(float4 *)to = v;
    else to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

/* The same for a row of cells, and for the cells after the last squares: at most a line of cells. */
template <bool ALIGNED>
__device__ inline void put_few(const square_call &f, const square &s, int row, int h, const float (*acc)[FEW][4])
{
    const int n = (int)(blockIdx.x % f.p.columns) * (8 * FEW) + (int)threadIdx.x % 4 * 4;
    const int y = 2 * s.i - f.pad[0] + row, x = 2 * s.j - f.pad[1];
    if (n >= f.C) return; /* C is a multiple of 4 */
    float     *to = cell_place(f, s, y, x) + n;
    const bool below = row && s.i == f.PH && y + 1 < f.IH, beside = s.j == f.PW && x + 2 < f.IW;
    LKI_UNROLL
    for (int i = 0; i < 3; i++) {
        if ((unsigned)(x + i) >= (unsigned)f.IW || (i == 2 && !beside)) continue;
        const float *v = acc[i % 2][0] + 2 * h, *w = acc[i % 2][1] + 2 * h;
        if ((unsigned)y < (unsigned)f.IH)
            put_quad<ALIGNED>(to + i * f.C, i < 2 ? make_float4(v[0], v[1], w[0], w[1]) : make_float4(0, 0, 0, 0));
        if (below) put_quad<ALIGNED>(to + (f.IW + i) * f.C, make_float4(0, 0, 0, 0));
    }
}

/* ---- kernels ---- */

template <int P, bool BY_Y> __global__ void __launch_bounds__(WARPS * 32, 1) x_by_squares(LKI_FIXED square_call f)
{
    typedef fragment_unit<WIDE> unit;
    LKI_DYNAMIC_SHARED(float, weights);
    lay_weights<P, WIDE, true>(f.p, f.w, weights);
    for (unsigned n = unit::begin(f.p); n < unit::end(f.p); n += unit::step(f.p)) {
        const unit u(f.p, n);
        float      acc[4][WIDE][4] = {};
        sum_squares<P, BY_Y>(f, u, u.template weights<P>(f.p, weights), acc);
        const unit same(f.p, (unsigned)kept((int)n)); /* computed again, instead of kept in a register */
        put_squares(f, same, acc);
        put_zeros(f, same);
    }
}

/* Few rows: instruction fetches are slow in this case, so the code is kept small with loops. */
template <int P, bool BY_Y, bool ALIGNED>
__global__ void __launch_bounds__(FEW_WARPS * 32, 3) x_by_few_squares(LKI_FIXED square_call f)
{
    LKI_DYNAMIC_SHARED(float, shared);
    const int                     warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), lane = (int)threadIdx.x % 32, row = warp % 2;
    const int                     first = (int)(blockIdx.x / f.p.columns) * FEW_ROWS + warp / 2 * 16 + lane / 4;
    const square                  s[2] = {square(f, first), square(f, first + 8)};
    const bool                    in[2] = {first < f.p.rows, first + 8 < f.p.rows};
    float                        *outputs = shared + warp / 2 * (2 * FRAGMENT) + lane * 4, *weights = shared + OUTPUTS;
    float                         acc[2][FEW][4] = {};
    few_factors<P, BY_Y, ALIGNED> factors(f, s, in, row);
    LKI_ROLLED
    for (int group = -1; group < f.p.groups; group++) {
        if (group >= 0) factors.put_outputs(outputs);
        copies_wait<0>();
        __syncthreads();
        factors.fetch_entries(group + 1); /* after the last group none exist */
        factors.send_weights(group + 1, weights + (group + 1) % 2 * FEW_WEIGHTS);
        copies_end();
        const float *mine = weights + (group % 2 * FEW_WEIGHTS + lane * 4);
        if (group >= 0 && row) sum_group<P, 1>(outputs, mine, acc);
        else if (group >= 0) sum_group<P, 0>(outputs, mine, acc);
        __syncthreads();
    }
    copies_wait<0>();
    LKI_UNROLL
    for (int h = 0; h < 2; h++)
        if (in[h]) put_few<ALIGNED>(f, s[h], row, h, acc);
}

template <int P, bool BY_Y> void launch(const lki_args *g, const square_call &f)
{
    LKI_GIVE_SHARED((x_by_squares<P, BY_Y>), f.p.bytes<WIDE>());
    LKI_LAUNCH((x_by_squares<P, BY_Y>), dim3(fragment_blocks<WIDE>(f.p, WARPS)), dim3(WARPS * 32), f.p.bytes<WIDE>(), g, f);
}

template <int P, bool BY_Y, bool ALIGNED> void launch_few(const lki_args *g, square_call f, int64_t rows)
{
    const size_t bytes = FEW_SHARED * sizeof(float);
    fragment_plan_of<FEW>(&f.p, rows, f.O, f.C);
    LKI_GIVE_SHARED((x_by_few_squares<P, BY_Y, ALIGNED>), bytes);
    LKI_ASK_SHARED((x_by_few_squares<P, BY_Y, ALIGNED>), BESIDE_WEIGHTS);
    LKI_LAUNCH((x_by_few_squares<P, BY_Y, ALIGNED>), dim3((unsigned)lki_ceil_div(rows, FEW_ROWS) * f.p.columns),
               dim3(FEW_WARPS * 32), bytes, g, f);
}

template <int P, bool BY_Y> void launch_for(const lki_args *g, const square_call &f, int64_t rows)
{
    if (!f.wide || !f.d.wide) launch_few<P, BY_Y, false>(g, f, rows);
    else if (is_for_wide_units(f.p)) launch<P, BY_Y>(g, f);
    else if (f.w.wide) launch_few<P, BY_Y, true>(g, f, rows);
    else launch_few<P, BY_Y, false>(g, f, rows);
}

template <int P> void launch_in(const lki_args *g, const square_call &f, int64_t rows)
{
    if (f.d.y) launch_for<P, true>(g, f, rows);
    else launch_for<P, false>(g, f, rows);
}

} // namespace

bool lki_gpu::fragment_pool_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w, const pool_entries &entries)
{
    const int64_t rows = v.images * (v.OH / 2 + 1) * (v.OW / 2 + 1);
    float        *dx = (float *)g->dst[0].data;
    square_call   f = {};
    if (!is_pool_conv(v) || g->gpu->precision == LKI_PRECISION_F32 || v.pad[0] > 2 || v.pad[1] > 2 ||
        !fragment_plan_of<FRAGMENT_WIDE>(&f.p, rows, v.O, v.C))
        return false;
    f.d = pool_gradient_of(d->data, entries);
    f.w = fragment_weights{(const float *)w->data, v.C, v.O, aligned(w->data)}, f.dx = dx, f.wide = aligned(dx);
    f.C = v.C, f.O = v.O, f.IH = v.IH, f.IW = v.IW, f.PH = v.OH / 2, f.PW = v.OW / 2;
    f.pad[0] = v.pad[0], f.pad[1] = v.pad[1];
    f.by_squares = divisor_of((f.PH + 1) * (f.PW + 1)), f.by_line = divisor_of(f.PW + 1);
    if (!rows) return true;
    if (g->gpu->precision == LKI_PRECISION_TF32) launch_in<LKI_PRECISION_TF32>(g, f, rows);
    else launch_in<LKI_PRECISION_BF16>(g, f, rows);
    return true;
}
