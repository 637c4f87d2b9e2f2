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
        const float above = lower ? 0 : d, below = lower ? d : 0;
        v[0][h][j] = right ? 0 : above, v[1][h][j] = right ? above : 0;
        v[2][h][j] = right ? 0 : below, v[3][h][j] = right ? below : 0;
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

/* What a block of four warps has of a group: weights of sixteen channels, and the entries of four windows of its squares. */
enum { FEW_ROWS = 32, FEW_STAGES = 2, QUADS = GROUP / 4 };
enum { FEW_WEIGHTS = FRAGMENT_TAPS * FEW * FRAGMENT, FEW_ENTRIES = 4 * FEW_ROWS * GROUP, FEW_CELLS = 4 * FEW_ROWS * QUADS };
enum { STAGE = FEW_WEIGHTS + FEW_ENTRIES + FEW_CELLS };

/* A thread's part of it on the way to shared memory: 16 bytes of some weights, and four channels of a square's windows. */
template <bool BY_Y, bool ALIGNED> struct stage_sender {
    const square_call &f;
    int64_t            entry;
    unsigned           there;
    int                channel; /* of x */

    __device__ stage_sender(const square_call &f_, const square &s) : f(f_)
    {
        entry = s.entry(f) + (int)threadIdx.x % QUADS * 4;
        there = s.image < 0 ? 0 : s.windows(f);
        channel =
            (int)(blockIdx.x % f.p.columns) * (8 * FEW) + channel_of<FEW>((int)threadIdx.x / 32 % FEW, (int)threadIdx.x % 32 / 4);
    }
    __device__ void send_weights(int o, float *to) const
    {
        const bool   in = channel < f.w.A && o < f.w.B;
        const int    first = (int)threadIdx.x / (32 * FEW), step = FEW_WARPS / FEW;
        const float *from = f.w.data + (in ? (int64_t)(first * f.w.A + channel) * f.w.B + o : 0);
        to += (int)threadIdx.x * 4;
        LKI_UNROLL
        for (int i = 0; i < (FRAGMENT_TAPS + step - 1) / step; i++) {
            const float *p = from + (in ? (int64_t)(i * step) * f.w.A * f.w.B : 0);
            if (first + i * step >= FRAGMENT_TAPS) break;
            if (ALIGNED) copy_four(to + i * (step * FEW * FRAGMENT), p, in ? 16 : 0);
            else
                for (int j = 0; j < 4; j++)
                    copy_one(to + i * (step * FEW * FRAGMENT) + j, p + (in ? j : 0), in ? 4 : 0);
        }
    }
    __device__ void send_entries(int group, bool in_group, float *to) const
    {
        float *cells = to + FEW_ENTRIES + (int)threadIdx.x;
        to += (int)threadIdx.x * 4;
        LKI_UNROLL
        for (int window = 0; window < 4; window++) {
            const bool    in = in_group && (there >> window & 1);
            const int64_t e = in ? entry + ((window / 2 * f.PW + window % 2) * f.O + group * GROUP) : 0;
            if (ALIGNED && !BY_Y) {
                copy_four(to + window * (FEW_ROWS * GROUP), f.d.d + e, in ? 16 : 0);
                copy_one(cells + window * (FEW_ROWS * QUADS), (const float *)(f.d.cell + e), in ? 4 : 0);
                continue;
            }
            window_entry<BY_Y> x;
            x.template fetch<ALIGNED>(f.d, e, in);
            unsigned marked = in ? x.cells : 0;
            for (int j = 0; j < 4 && BY_Y && in; j++)
                if (!(x.y[BY_Y ? j : 0] > 0)) marked |= LKI_CELL_DEAD << 8 * j;
            for (int j = 0; j < 4; j++)
                to[window * (FEW_ROWS * GROUP) + j] = x.d[j];
            cells[window * (FEW_ROWS * QUADS)] = __uint_as_float(marked);
        }
    }
    __device__ void send(int group, float *stage) const
    {
        const int o = group * GROUP + (int)threadIdx.x % QUADS * 4;
        send_entries(group, o < f.O, stage + FEW_WEIGHTS);
        send_weights(o, stage);
    }
};

/* Of a cell's products with a window, in one direction: how many there are, and the first tap. */
__host__ __device__ constexpr int products_with(int window, int cell) { return window == cell ? 2 : 1; }
__host__ __device__ constexpr int first_tap(int window, int cell) { return window ? 0 : cell + 1; }

/* The nth of the nine products of cell (y, x) with a group, in their order: which tap, which output of its window, and is it the window's first? */
struct cell_product {
    unsigned bits;

    __device__ explicit cell_product(unsigned bits_) : bits(bits_) {}
    __device__ cell_product(int y, int x, int n)
    {
        const int upper = 3 * products_with(0, y), r = n >= upper, rows = products_with(r, y);
        const int in_row = n - r * upper, left = rows * products_with(0, x), c = in_row >= left;
        const int in_window = in_row - c * left, two = c == x;
        const int kh = first_tap(r, y) + (in_window >> two), kw = first_tap(c, x) + (in_window & two);
        bits =
            (unsigned)(3 * kh + kw) | (unsigned)(2 * output_of(r, y, kh) + output_of(c, x, kw)) << 4 | (in_window ? 0u : 1u << 6);
    }
    __device__ int      tap() const { return (int)(bits & 15); }
    __device__ unsigned output() const { return bits >> 4 & 3; }
    __device__ bool     opens() const { return bits >> 6 & 1; }
};

/* A lane's entries of a window: four channels of four squares. */
struct few_entries {
    float    d[2][2][4]; /* mma of rows, row of it */
    unsigned cells[2][2];

    __device__ void load(const float *entries, int window)
    {
        LKI_UNROLL
        for (int i = 0; i < 4; i++) {
            const int at = window * (FEW_ROWS * QUADS) + i * (8 * QUADS) + (int)threadIdx.x % 32;
            load_quad(entries + at * 4, d[i / 2][i % 2]);
            cells[i / 2][i % 2] = __float_as_uint(entries[FEW_ENTRIES + at]);
        }
    }
    template <int P> __device__ void become_factors()
    {
        LKI_UNROLL
        for (int i = 0; i < 16; i++)
            d[i / 8][i / 4 % 2][i % 4] = as_factor<P>(d[i / 8][i / 4 % 2][i % 4]);
    }
    /* Those that won as output `output` of their window, the others 0. */
    template <int P> __device__ left_fragment<P> winners(int m, unsigned output) const
    {
        float v[2][4];
        LKI_UNROLL
        for (int i = 0; i < 8; i++)
            v[i / 4][i % 4] = (cells[m][i / 4] ^ output * 0x01010101u) & 0xffu << i % 4 * 8 ? 0 : d[m][i / 4][i % 4];
        return left_fragment<P>(v);
    }
};

/* The products of a warp's cell with a group; lane n has the nth of products. */
template <int P> __device__ inline void sum_group(const float *stage, const cell_product &products, float (*acc)[FEW][4])
{
    const float *weights = stage + threadIdx.x % 32 * 4, *entries = stage + FEW_WEIGHTS;
    const auto   nth = [&](int n) { return cell_product(__shfl_sync(~0u, products.bits, n)); };
    const auto   right = [&](const cell_product &p) { return rounded_fragments<P, FEW>(weights + p.tap() * (FEW * FRAGMENT)); };
    int          window = 0;
    few_entries  now, next;
    cell_product product = nth(0);
    auto         b = right(product);
    next.load(entries, 0);
    LKI_ROLLED
    for (int n = 0; n < FRAGMENT_TAPS; n++) {
        const cell_product after = nth(n + 1); /* behind the last any */
        const auto         b_after = right(after);
        if (product.opens()) {
            now = next;
            now.template become_factors<P>();
            if (++window < 4) next.load(entries, window);
        }
        LKI_UNROLL
        for (int m = 0; m < 2; m++)
            multiply_fragments<P, FEW>(now.template winners<P>(m, product.output()), b, acc[m]);
        product = after, b = b_after;
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

/* What lies behind the last squares is theirs, and 0. */
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

/* The same by way of shared memory: a warp has a cell of all squares of a block there, and a thread puts four channels of a square, and of what lies behind it where it is a last one. */
template <bool ALIGNED>
__device__ inline void put_few(const square_call &f, const square &s, int cell, const float (*acc)[FEW][4], float *results)
{
    const int n = (int)(blockIdx.x % f.p.columns) * (8 * FEW) + (int)threadIdx.x % QUADS * 4, y = 2 * s.i - f.pad[0],
              x = 2 * s.j - f.pad[1];
    LKI_UNROLL
    for (int i = 0; i < 4; i++) {
        const float *left = acc[i / 2][0] + i % 2 * 2, *right = acc[i / 2][1] + i % 2 * 2;
        float       *place = results + ((cell * FEW_ROWS + i * 8) * GROUP + (int)threadIdx.x % 32 * 4);
        *(float4 *)place = make_float4(left[0], left[1], right[0], right[1]);
    }
    __syncthreads();
    if (s.image < 0 || n >= f.C) return; /* C is a multiple of 4 */
    LKI_ROLLED
    for (int h = 0; h < (s.i == f.PH ? 3 : 2); h++) {
        LKI_ROLLED
        for (int w = 0; w < (s.j == f.PW ? 3 : 2); w++) {
            float  v[4] = {};
            float *place = cell_place(f, s, y + h, x + w) + n;
            if ((unsigned)(y + h) >= (unsigned)f.IH || (unsigned)(x + w) >= (unsigned)f.IW) continue;
            if (h < 2 && w < 2) load_quad(results + ((2 * h + w) * (FEW_ROWS * GROUP) + (int)threadIdx.x * 4), v);
            if (ALIGNED) *(float4 *)place = make_float4(v[0], v[1], v[2], v[3]);
            else
                for (int j = 0; j < 4; j++)
                    place[j] = v[j];
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
        put_squares(f, same, acc);
        put_zeros(f, same);
    }
}

/* Few rows: a warp has one cell of them, so that all run through the same short loop: instructions are read from far away then. */
template <int P, bool BY_Y, bool ALIGNED>
__global__ void __launch_bounds__(FEW_WARPS * 32, 2) x_by_few_squares(LKI_FIXED square_call f)
{
    LKI_DYNAMIC_SHARED(float, stages);
    const int row = (int)(blockIdx.x / f.p.columns) * FEW_ROWS + (int)threadIdx.x / QUADS;
    const int cell = __shfl_sync(~0u, (int)threadIdx.x / 32, 0); /* the same in all lanes, and the compiler knows */
    square    s(f, row);                                         /* of which this thread brings entries, and puts results */
    if (row >= f.p.rows) s.image = -1;
    const stage_sender<BY_Y, ALIGNED> sender(f, s);
    const cell_product                products(cell / 2, cell % 2, (int)threadIdx.x % 32 % FRAGMENT_TAPS);
    float                             acc[2][FEW][4] = {};
    LKI_ROLLED
    for (int group = -FEW_STAGES; group < f.p.groups; group++) {
        float *stage = stages + (unsigned)(group + FEW_STAGES) % FEW_STAGES * STAGE;
        if (group >= 0) {
            copies_wait<FEW_STAGES - 1>();
            __syncthreads();
            sum_group<P>(stage, products, acc);
            __syncthreads();
        }
        if (group + FEW_STAGES < f.p.groups) sender.send(group + FEW_STAGES, stage);
        copies_end();
    }
    put_few<ALIGNED>(f, s, cell, acc, stages);
}

template <int P, bool BY_Y> void launch(const lki_args *g, const square_call &f)
{
    LKI_GIVE_SHARED((x_by_squares<P, BY_Y>), f.p.bytes<WIDE>());
    LKI_LAUNCH((x_by_squares<P, BY_Y>), dim3(fragment_blocks<WIDE>(f.p, WARPS)), dim3(WARPS * 32), f.p.bytes<WIDE>(), g, f);
}

template <int P, bool BY_Y, bool ALIGNED> void launch_few(const lki_args *g, square_call f, int64_t rows)
{
    const size_t bytes = FEW_STAGES * STAGE * sizeof(float);
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
