/* The data gradient of conv2d with 3x3 windows through a 2x2 max pool, by fragments (fragment.h).
 *
 * Rows are squares of 2x2 cells of x that see the outputs of the same four windows of the pool: square (i, j) has cells 2i - pad, 2i + 1 - pad and sees windows i - 1 and i, in either
 * direction; there is one more of them than windows. So an entry comes to registers once for the 36 products of a square with the taps, becomes the four outputs of its window there, three of
 * them 0, and no dense gradient is laid down anywhere. Cells no square has are 0.
 *
 * Order of sums: groups of 16 out channels ascending; windows (i-1, j-1), (i-1, j), (i, j-1), (i, j); of each the taps ascending. Outputs that did not win, and channels behind the last of a
 * group, count as 0 * weight; those of a window whose gradient is infinite are NaN. */
#include "kernel/gpu/conv_pool.h"
#include "kernel/gpu/fragment.h"

namespace
{

using namespace lki_gpu;

enum { WARPS = 12, THIN_WARPS = 4 };

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

    template <bool WIDE> __device__ void fetch(const pool_gradient &g, int64_t e, bool in)
    {
        if (!in) fill_quad(0, d);
        else if (WIDE || g.wide) {
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
template <int P, int NT>
__device__ inline void multiply_window(int window, const left_fragment<P> *out, const float *weights, float (*acc)[NT][4])
{
    LKI_UNROLL
    for (int tap = 0; tap < FRAGMENT_TAPS; tap++) {
        if (!has_tap(window / 2, tap / 3) || !has_tap(window % 2, tap % 3)) continue;
        const right_fragments<P, NT> b(weights + tap * (NT * FRAGMENT));
        LKI_UNROLL
        for (int cell = 0; cell < 4; cell++) {
            const int row = output_of(window / 2, cell / 2, tap / 3), column = output_of(window % 2, cell % 2, tap % 3);
            if (row >= 0 && row < 2 && column >= 0 && column < 2) multiply_fragments<P, NT>(out[2 * row + column], b, acc[cell]);
        }
        if (!LKI_WARPGROUPS(P))
            __syncwarp(); /* so that weights come tap by tap, and once more for the next window: they are many, and registers few */
    }
}

/* The sums of a tile: acc[cell of a square]. weights: this lane's. */
template <int P, int NT, bool BY_Y>
__device__ inline void sum_squares(const square_call &f, const fragment_unit<NT> &unit, const float *weights, float (*acc)[NT][4])
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
        entry[h].template fetch<(NT > 1)>(f.d, from[h], (there[h] & 1) && channel < f.O);
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
                entry[h].template fetch<(NT > 1)>(f.d, from[h] + ((after / 2 * f.PW + after % 2) * f.O + o),
                                                  (there[h] >> after & 1) && channel + o < f.O);
            products_begin<P>();
            multiply_window<P, NT>(window, out, weights + group * (FRAGMENT_TAPS * NT * FRAGMENT), acc);
            products_end<P>();
        }
    }
    products_wait<P, 0>();
    products_read<P>(out, 4);
}

/* ---- results ---- */

/* The channels of a cell that a lane has. */
template <int NT>
__device__ inline void put_cell(const square_call &f, const fragment_unit<NT> &unit, const square &s, int h, int w, const float *v)
{
    float *to = f.dx + (((int64_t)s.image * f.IH + h) * f.IW + w) * f.C;
    LKI_UNROLL
    for (int j = 0; j<2 * NT; j += NT> 1 ? 4 : 2) {
        const int n = unit.channel(f.p, j);
        if (n >= f.C) continue; /* C is a multiple of 4 */
        if (NT > 1) *(float4 *)(to + n) = make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]);
        else to[n] = v[j], to[n + 1] = v[j + 1];
    }
}

template <int NT> __device__ inline void put_squares(const square_call &f, const fragment_unit<NT> &unit, const float (*acc)[NT][4])
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
                put_cell<NT>(f, unit, s, y + cell / 2, x + cell % 2, v);
        }
        const int down = s.i == f.PH ? f.IH : y + 2,
                  right = s.j == f.PW ? f.IW : x + 2; /* what lies behind the last squares is theirs */
        for (int r = y > 0 ? y : 0; r < down && r < f.IH; r++)
            for (int c = r < y + 2 ? x + 2 : x > 0 ? x : 0; c < right && c < f.IW; c++) {
                const float zeros[2 * NT] = {};
                put_cell<NT>(f, unit, s, r, c, zeros);
            }
    }
}

template <int P, int NT, bool BY_Y>
__global__ void __launch_bounds__((NT > 1 ? WARPS : THIN_WARPS) * 32, 1) x_by_squares(LKI_FIXED square_call f)
{
    typedef fragment_unit<NT> unit;
    LKI_DYNAMIC_SHARED(float, weights);
    lay_weights<P, NT, true>(f.p, f.w, weights);
    for (unsigned n = unit::begin(f.p); n < unit::end(f.p); n += unit::step(f.p)) {
        const unit u(f.p, n);
        float      acc[4][NT][4] = {};
        sum_squares<P, NT, BY_Y>(f, u, u.template weights<P>(f.p, weights), acc);
        put_squares<NT>(f, unit(f.p, (unsigned)kept((int)n)), acc); /* found once more, instead of kept all the time */
    }
}

template <int P, int NT, bool BY_Y> void launch(const lki_args *g, const square_call &f)
{
    const int warps = NT > 1 ? WARPS : THIN_WARPS;
    LKI_GIVE_SHARED((x_by_squares<P, NT, BY_Y>), f.p.bytes<NT>());
    LKI_LAUNCH((x_by_squares<P, NT, BY_Y>), dim3(fragment_blocks<NT>(f.p, warps)), dim3((unsigned)warps * 32), f.p.bytes<NT>(), g,
               f);
}

template <int P> void launch_for(const lki_args *g, square_call f, int64_t rows)
{
    const bool wide = is_for_wide_units(f.p) && f.wide && f.d.wide;
    if (!wide) fragment_plan_of<1>(&f.p, rows, f.O, f.C);
    if (f.d.y && wide) launch<P, FRAGMENT_WIDE, true>(g, f);
    else if (f.d.y) launch<P, 1, true>(g, f);
    else if (wide) launch<P, FRAGMENT_WIDE, false>(g, f);
    else launch<P, 1, false>(g, f);
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
    if (g->gpu->precision == LKI_PRECISION_TF32) launch_for<LKI_PRECISION_TF32>(g, f, rows);
    else launch_for<LKI_PRECISION_BF16>(g, f, rows);
    return true;
}
