/* The data gradient of conv2d with 3x3 windows through a 2x2 max pool, by fragments (fragment.h).
 *
 * Rows are squares of 2x2 cells of x that see the outputs of the same four windows of the pool: square (i, j) has cells 2i - pad, 2i + 1 - pad and sees windows i - 1 and i, in either
 * direction; there is one more of them than windows. So an entry comes to registers once for the 36 products of a square with the taps, becomes the four outputs of its window there, three of
 * them 0, and no dense gradient is laid down anywhere. Cells no square has are 0. Where there are few rows a warp has sixteen channels, and sends for all it needs first before it waits.
 *
 * Order of sums: groups of 16 out channels ascending; windows (i-1, j-1), (i-1, j), (i, j-1), (i, j); of each the taps ascending. Outputs that did not win, and channels behind the last of a
 * group, count as 0 * weight; those of a window whose gradient is infinite are NaN. */
#include "kernel/gpu/conv_pool.h"
#include "kernel/gpu/fragment.h"

namespace
{

using namespace lki_gpu;

enum { WIDE = FRAGMENT_WIDE, FEW = 2 /* mma of columns where there are few rows */, WARPS = 12, FEW_WARPS = 4 };
enum { BESIDE_WEIGHTS = 50 }; /* LKI_ASK_SHARED: as the gradient for the weights, which runs at that time (patch_pool_w.cu) */

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
    /* Its first window's first entry; that lies before the image where i or j is 0. */
    __device__ int64_t entry(const square_call &f) const { return ((int64_t)(image * (int64_t)f.PH + i - 1) * f.PW + j - 1) * f.O; }
    /* Bit 2 * (window row) + window column: is the window there? */
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

/* Entries of a thread's two rows as left factors, by the output of the window that won. */
template <int P, bool BY_Y> __device__ inline void spread(const window_entry<BY_Y> *e, left_fragment<P> *out)
{
    float v[4][2][4];
    LKI_UNROLL
    for (int i = 0; i < 8; i++) {
        const int   h = i / 4, j = i % 4;
        const bool  dead = BY_Y ? !(e[h].y[BY_Y ? j : 0] > 0) : (e[h].cells & LKI_CELL_DEAD << 8 * j) != 0;
        const float d = dead ? 0 : as_factor<P>(e[h].d[j]);
        const bool  lower = e[h].cells & 2u << 8 * j, right = e[h].cells & 1u << 8 * j;
        const float above = lower ? 0 : d, below = d - above; /* differences, because selections take twice as long */
        v[1][h][j] = right ? above : 0, v[0][h][j] = above - v[1][h][j];
        v[3][h][j] = right ? below : 0, v[2][h][j] = below - v[3][h][j];
    }
    LKI_UNROLL
    for (int i = 0; i < 4; i++)
        out[i] = left_fragment<P>(v[i]);
}

/* In one direction: does window `window` (0, 1) of a square have outputs whose tap is on one of its cells, and which output (0, 1) is it for cell `cell` (0, 1)? */
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
        if (!LKI_WARPGROUPS(P, WIDE))
            __syncwarp(); /* so that weights come tap by tap, and once more for the next window: they are many, and registers few */
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
            for (int h = 0; h < 2; h++) /* the next are on their way while these are multiplied */
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

/* Of a cell's products with a window, in one direction: how many there are, and the first tap. */
__host__ __device__ constexpr int products_with(int window, int cell) { return window == cell ? 2 : 1; }
__host__ __device__ constexpr int first_tap(int window, int cell) { return window ? 0 : cell + 1; }

/* The products of a row of windows (0, 1), one of each cell after the other: those of a cell wait for each other. */
template <int P>
__device__ inline void multiply_windows(int row, const left_fragment<P> (*out)[4], const float *weights, float (*acc)[FEW][4])
{
    const int                     begin = row ? 0 : 3; /* the first of the six taps they have */
    const auto                    tap = [&](int n) { return rounded_fragments<P, FEW>(weights + (begin + n) * (FEW * FRAGMENT)); };
    const right_fragments<P, FEW> b[6] = {tap(0), tap(1), tap(2), tap(3), tap(4), tap(5)};
    LKI_UNROLL
    for (int i = 0; i < 6 * 4; i++) {
        const int y = i % 4 / 2, x = i % 2, rows = products_with(row, y), with_left = rows * products_with(0, x);
        const int right_one = i / 4 >= with_left, nth = right_one ? i / 4 - with_left : i / 4,
                  columns = products_with(right_one, x);
        const int kh = first_tap(row, y) + nth / columns, kw = first_tap(right_one, x) + nth % columns;
        if (i / 4 < rows * 3)
            multiply_fragments<P, FEW>(out[right_one][2 * output_of(row, y, kh) + output_of(right_one, x, kw)],
                                       b[3 * kh + kw - begin], acc[2 * y + x]);
    }
}

/* Entries of the four windows of a thread's two squares: those of a group are on their way while the ones before are multiplied. */
template <int P, bool BY_Y, bool ALIGNED> struct entries_ahead {
    const square_call &f;
    int64_t            from[2];
    unsigned           there[2];
    window_entry<BY_Y> entry[2][2][2]; /* row, column, square */

    __device__ entries_ahead(const square_call &f_, const fragment_unit<FEW> &unit) : f(f_)
    {
        LKI_UNROLL
        for (int h = 0; h < 2; h++) {
            const square s(f, unit.row(h));
            from[h] = s.entry(f) + (int)threadIdx.x % 4 * 4;
            there[h] = unit.row(h) < f.p.rows ? s.windows(f) : 0;
        }
    }
    __device__ void fetch(int row, int group)
    {
        LKI_UNROLL
        for (int i = 0; i < 4; i++) {
            const int  column = i / 2, h = i % 2, o = group * GROUP;
            const bool in = (there[h] >> (2 * row + column) & 1) && (int)threadIdx.x % 4 * 4 + o < f.O;
            entry[row][column][h].template fetch<ALIGNED>(f.d, from[h] + ((row * f.PW + column) * f.O + o), in);
        }
    }
    /* A row of windows as left factors; the row of the next group is sent for. */
    __device__ void take(int row, int group, left_fragment<P> (*out)[4])
    {
        spread<P>(entry[row][0], out[0]);
        spread<P>(entry[row][1], out[1]);
        fetch(row, group + 1);
    }
};

/* While one row of windows is multiplied the next becomes factors, if registers do for both. */
template <int P, bool BY_Y, bool ALIGNED>
__device__ inline void sum_few_squares(const square_call &f, entries_ahead<P, BY_Y, ALIGNED> &entries, const float *weights,
                                       float (*acc)[FEW][4])
{
    const bool       ahead = !BY_Y && ALIGNED;
    left_fragment<P> upper[2][4], lower[2][4];
    if (ahead) entries.take(0, 0, upper);
    LKI_ROLLED
    for (int group = 0; group < f.p.groups; group++, weights += FRAGMENT_TAPS * FEW * FRAGMENT) {
        if (ahead) entries.take(1, group, lower);
        else entries.take(0, group, upper);
        multiply_windows<P>(0, upper, weights, acc);
        if (ahead) entries.take(0, group + 1, upper);
        else entries.take(1, group, lower);
        multiply_windows<P>(1, lower, weights, acc);
    }
}

/* ---- results ---- */

/* The channels of a cell that a lane has. */
template <int NT, bool ALIGNED>
__device__ inline void put_cell(const square_call &f, const fragment_unit<NT> &unit, const square &s, int h, int w, const float *v)
{
    float *to = f.dx + (((int64_t)s.image * f.IH + h) * f.IW + w) * f.C;
    LKI_UNROLL
    for (int j = 0; j < 2 * NT; j += 4) {
        const int n = unit.channel(f.p, j);
        if (n >= f.C) continue; /* C is a multiple of 4 */
        if (ALIGNED) *(float4 *)(to + n) = make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]);
        else
            for (int i = 0; i < 4; i++)
                to[n + i] = v[j + i];
    }
}

/* What lies behind the last squares is theirs, and 0. */
template <int NT, bool ALIGNED> __device__ inline void put_zeros(const square_call &f, const fragment_unit<NT> &unit)
{
    const float zeros[2 * NT] = {};
    LKI_ROLLED
    for (int h = 0; h < 2; h++) {
        if (unit.row(h) >= f.p.rows) continue;
        const square s(f, unit.row(h));
        const int    y = 2 * s.i - f.pad[0], x = 2 * s.j - f.pad[1];
        const int    down = s.i == f.PH ? f.IH : y + 2, right = s.j == f.PW ? f.IW : x + 2;
        for (int r = y > 0 ? y : 0; r < down && r < f.IH; r++)
            for (int c = r < y + 2 ? x + 2 : x > 0 ? x : 0; c < right && c < f.IW; c++)
                put_cell<NT, ALIGNED>(f, unit, s, r, c, zeros);
    }
}

template <int NT, bool ALIGNED>
__device__ inline void put_squares(const square_call &f, const fragment_unit<NT> &unit, const float (*acc)[NT][4])
{
    LKI_UNROLL
    for (int h = 0; h < 2; h++) {
        if (unit.row(h) >= f.p.rows) continue;
        const square s(f, unit.row(h));
        const int    y = 2 * s.i - f.pad[0], x = 2 * s.j - f.pad[1];
        LKI_UNROLL
        for (int cell = 0; cell < 4; cell++) {
            float v[2 * NT];
            LKI_UNROLL
            for (int j = 0; j < 2 * NT; j++)
                v[j] = acc[cell][j / 2][2 * h + j % 2];
            if ((unsigned)(y + cell / 2) < (unsigned)f.IH && (unsigned)(x + cell % 2) < (unsigned)f.IW)
                put_cell<NT, ALIGNED>(f, unit, s, y + cell / 2, x + cell % 2, v);
        }
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
        const unit same(f.p, (unsigned)kept((int)n)); /* found once more, instead of kept all the time */
        put_squares<WIDE, true>(f, same, acc);
        put_zeros<WIDE, true>(f, same);
    }
}

/* Few rows: a warp goes to memory once, for all it needs first. Instructions are read from far away then, so what can be a loop is one. */
template <int P, bool BY_Y, bool ALIGNED>
__global__ void __launch_bounds__(FEW_WARPS * 32, 1) x_by_few_squares(LKI_FIXED square_call f)
{
    typedef fragment_unit<FEW> unit;
    LKI_DYNAMIC_SHARED(float, weights);
    send_weights<FEW>(f.p, f.w, weights);
    LKI_ROLLED
    for (unsigned n = unit::begin(f.p); n < unit::end(f.p); n += unit::step(f.p)) {
        const unit                      u(f.p, n);
        float                           acc[4][FEW][4] = {};
        entries_ahead<P, BY_Y, ALIGNED> entries(f, u);
        entries.fetch(0, 0);
        entries.fetch(1, 0);
        put_zeros<FEW, ALIGNED>(f, u);
        copies_wait<0>();
        __syncthreads(); /* as often as any other warp: all have the same n */
        sum_few_squares<P, BY_Y, ALIGNED>(f, entries, u.template weights<P>(f.p, weights), acc);
        put_squares<FEW, ALIGNED>(f, unit(f.p, (unsigned)kept((int)n)), acc);
    }
}

template <int P, bool BY_Y> void launch(const lki_args *g, const square_call &f)
{
    LKI_GIVE_SHARED((x_by_squares<P, BY_Y>), f.p.bytes<WIDE>());
    LKI_LAUNCH((x_by_squares<P, BY_Y>), dim3(fragment_blocks<WIDE>(f.p, WARPS)), dim3(WARPS * 32), f.p.bytes<WIDE>(), g, f);
}

template <int P, bool BY_Y, bool ALIGNED> void launch_few(const lki_args *g, square_call f, int64_t rows)
{
    fragment_plan_of<FEW>(&f.p, rows, f.O, f.C);
    LKI_GIVE_SHARED((x_by_few_squares<P, BY_Y, ALIGNED>), f.p.bytes<FEW>());
    LKI_ASK_SHARED((x_by_few_squares<P, BY_Y, ALIGNED>), BESIDE_WEIGHTS);
    LKI_LAUNCH((x_by_few_squares<P, BY_Y, ALIGNED>), dim3(fragment_blocks<FEW>(f.p, FEW_WARPS)), dim3(FEW_WARPS * 32),
               f.p.bytes<FEW>(), g, f);
}

template <int P, bool BY_Y> void launch_for(const lki_args *g, const square_call &f, int64_t rows)
{
    if (!f.wide || !f.d.wide) launch_few<P, BY_Y, false>(g, f, rows);
    else if (is_for_wide_units(f.p)) launch<P, BY_Y>(g, f);
    else launch_few<P, BY_Y, true>(g, f, rows);
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
