/* conv2d with 3x3 windows that stay inside the image, bias, relu and a 2x2 max pool, by fragments (fragment.h); in channels are
 * whole groups.
 *
 * Rows are windows of the pool. Its four outputs read 4x4 cells of x. A cell is loaded to registers once for all its products: line
 * of cells by line, so that two lines are multiplied while the next three are loaded; if there are few rows, and warps have eight
 * channels, all four lines at once. A lane has all outputs of its windows, so the pool needs no other lane; it chooses before the
 * bias is added, which does not change the largest.
 *
 * Order of sums: groups of 16 in channels ascending, for each the taps ascending. */
#include "kernel/gpu/conv/conv_pool.h"
#include "kernel/gpu/conv/fragment.h"

namespace
{

using namespace lki_gpu;

enum { WIDE = FRAGMENT_WIDE, WARPS = 8, THIN_WARPS = 4, SEEN = 4 /* cells of a window, in a direction */ };

struct window_call {
    fragment_plan    p;
    fragment_weights w;
    const float     *x, *bias; /* bias may be NULL */
    float           *y;
    uint8_t         *cell;
    int              C, O, IH, IW, PW;
    float            floor; /* 0 with relu, else -infinity */
    unsigned         dead;  /* added to cells whose value is not above `floor` */
    bool             wide;  /* all are aligned */
    divisor          by_windows, by_line;
};

/* Where the cells of a window begin, at the thread's channels; after the last window those of the last. */
__device__ inline const float *cells_of(const window_call &f, int row)
{
    row = row < f.p.rows ? row : f.p.rows - 1;
    const int image = f.by_windows(row), at = row - image * (int)f.by_windows.by, i = f.by_line(at), w = 2 * (at - i * f.PW);
    return f.x + (((image * (int64_t)f.IH + 2 * i) * f.IW + w) * f.C + (int)threadIdx.x % 4 * 4);
}

/* A line of cells of a thread's two windows: four channels of each cell. */
struct cell_line {
    float v[SEEN][2][4];

    template <bool ALIGNED> __device__ void fetch(const window_call &f, const float *const *from, int line, int group)
    {
        LKI_UNROLL
        for (int i = 0; i < 2 * SEEN; i++) {
            const int    j = i % SEEN, h = i / SEEN;
            const float *p = from[h] + ((line * f.IW + j) * f.C + group * GROUP);
            if (ALIGNED) load_quad(p, v[j][h]);
            else
                for (int k = 0; k < 4; k++)
                    v[j][h][k] = p[k];
        }
    }
};

template <int P> __device__ inline void as_factors(const cell_line &line, left_fragment<P> *cell)
{
    LKI_UNROLL
    for (int j = 0; j < SEEN; j++) {
        float v[2][4];
        LKI_UNROLL
        for (int i = 0; i < 8; i++)
            v[i / 4][i % 4] = as_factor<P>(line.v[j][i / 4][i % 4]);
        cell[j] = left_fragment<P>(v);
    }
}

/* ---- results ---- */

/* The first largest of four outputs, then bias and relu; and its cell. */
__device__ inline float largest_of(const window_call &f, const float *out, float bias, unsigned *place)
{
    const float best = larger_of(larger_of(out[0], out[1]), larger_of(out[2], out[3])), y = larger_of(best + bias, f.floor);
    unsigned    at = out[2] == best ? 2 : 3;
    at = out[1] == best ? 1 : at;
    at = out[0] == best ? 0 : at;
    *place = y > f.floor ? at : f.dead;
    if (isnan(y))
        for (int i = 3; i >= 0; i--)
            if (isnan(out[i])) *place = (unsigned)i + f.dead;
    return y;
}

template <int NT> __device__ inline void fetch_bias(const window_call &f, const fragment_unit<NT> &unit, float *bias)
{
    LKI_UNROLL
    for (int j = 0; j < 2 * NT; j++) {
        const int n = unit.channel(f.p, j);
        bias[j] = f.bias && n < f.O ? f.bias[n] : -0.0f; /* adding -0 changes nothing */
    }
}

/* Results j and after, as many as a lane has side by side. */
template <int NT, bool ALIGNED>
__device__ inline void put_channels(const window_call &f, int64_t at, const float *best, const unsigned *place)
{
    if (NT > 1) {
        *(float4 *)(f.y + at) = make_float4(best[0], best[1], best[2], best[3]);
        *(unsigned *)(f.cell + at) = place[0] | place[1] << 8 | place[2] << 16 | place[3] << 24;
    } else if (ALIGNED) {
        *(float2 *)(f.y + at) = make_float2(best[0], best[1]);
        *(uint16_t *)(f.cell + at) = (uint16_t)(place[0] | place[1] << 8);
    } else
        for (int j = 0; j < 2; j++)
            f.y[at + j] = best[j], f.cell[at + j] = (uint8_t)place[j];
}

template <int NT, bool ALIGNED>
__device__ inline void put_windows(const window_call &f, const fragment_unit<NT> &unit, const float *bias,
                                   const float (*acc)[NT][4])
{
    enum { EACH = NT > 1 ? 4 : 2 };
    LKI_UNROLL
    for (int i = 0; i < 2 * NT; i += EACH) {
        const int n = unit.channel(f.p, i);
        if (n >= f.O) continue; /* O is a multiple of 4 */
        LKI_UNROLL
        for (int h = 0; h < 2; h++) {
            float    best[EACH];
            unsigned place[EACH];
            LKI_UNROLL
            for (int j = 0; j < EACH; j++) {
                const int   m = (i + j) / 2, q = 2 * h + j % 2;
                const float out[4] = {acc[0][m][q], acc[1][m][q], acc[2][m][q], acc[3][m][q]};
                best[j] = largest_of(f, out, bias[i + j], &place[j]);
            }
            if (unit.row(h) < f.p.rows) put_channels<NT, ALIGNED>(f, (int64_t)unit.row(h) * f.O + n, best, place);
        }
    }
}

/* ---- sums ---- */

/* The products of a row of taps: lines of cells kh and the next; the parity of their number selects the buffer. */
template <int P, int NT>
__device__ inline void multiply_taps(int kh, const left_fragment<P> (*cell)[SEEN], const float *weights, float (*acc)[NT][4])
{
    LKI_UNROLL
    for (int kw = 0; kw < 3; kw++) {
        const right_fragments<P, NT> b(weights + (kh * 3 + kw) * (NT * FRAGMENT));
        LKI_UNROLL
        for (int i = 0; i < 4; i++)
            multiply_fragments<P, NT>(cell[(kh + i / 2) % 2][kw + i % 2], b, acc[i]);
    }
}

template <int P> __global__ void __launch_bounds__(WARPS * 32, 1) conv_by_windows(LKI_FIXED window_call f)
{
    typedef fragment_unit<WIDE> unit;
    LKI_DYNAMIC_SHARED(float, weights);
    const unsigned last = unit::end(f.p);
    const float   *from[2];
    cell_line      line[3]; /* being loaded */
    float          acc[4][WIDE][4] = {};
    int            group = 0;
    lay_weights<P, WIDE, false>(f.p, f.w, weights);
    unsigned n = unit::begin(f.p);
    if (n >= last) return;
    LKI_UNROLL
    for (int h = 0; h < 2; h++)
        from[h] = cells_of(f, unit(f.p, n).row(h));
    LKI_UNROLL
    for (int i = 0; i < 3; i++)
        line[i].template fetch<true>(f, from, i, 0);
    for (;;) { /* a group of a unit; line has the first three of its four */
        const unit       u(f.p, n);
        const float     *mine = u.template weights<P>(f.p, weights) + group * (FRAGMENT_TAPS * WIDE * FRAGMENT);
        const bool       ends = group + 1 == f.p.groups;
        const int        next = ends ? 0 : group + 1;
        left_fragment<P> cell[2][SEEN];
        as_factors<P>(line[0], cell[0]);
        as_factors<P>(line[1], cell[1]);
        line[0].template fetch<true>(f, from, 3, group);
        if (ends && n + unit::step(f.p) < last) {
            LKI_UNROLL
            for (int h = 0; h < 2; h++)
                from[h] = cells_of(f, unit(f.p, n + unit::step(f.p)).row(h));
        }
        line[1].template fetch<true>(f, from, 0, next);
        LKI_UNROLL
        for (int kh = 0; kh < 3; kh++) {
            products_begin<P>();
            multiply_taps<P, WIDE>(kh, cell, mine, acc);
            products_end<P>();
            products_wait<P, 0>();
            products_read<P>(cell[0], SEEN);
            products_read<P>(cell[1], SEEN);
            if (kh == 2) break;
            as_factors<P>(line[kh ? 0 : 2], cell[kh]);
            line[kh ? 0 : 2].template fetch<true>(f, from, kh ? 2 : 1, next);
        }
        const cell_line third = line[0];
        line[0] = line[1], line[1] = line[2], line[2] = third;
        group = next;
        if (!ends) continue;
        float bias[2 * WIDE];
        fetch_bias(f, u, bias);
        put_windows<WIDE, true>(f, u, bias, acc);
        LKI_UNROLL
        for (int i = 0; i < 4 * WIDE * 4; i++)
            acc[i / (4 * WIDE)][i / 4 % WIDE][i % 4] = 0;
        n += unit::step(f.p);
        if (n >= last) return;
    }
}

/* Few rows: a warp loads all cells of a group at once; each line of the next group is loaded after this group's line was turned
 * into factors. */
template <int P, bool ALIGNED> __global__ void __launch_bounds__(THIN_WARPS * 32, 1) conv_by_few_windows(LKI_FIXED window_call f)
{
    typedef fragment_unit<1> unit;
    LKI_DYNAMIC_SHARED(float, weights);
    bool laid = false;
    for (unsigned n = unit::begin(f.p); n < unit::end(f.p); n += unit::step(f.p)) { /* the same for all warps */
        const unit   u(f.p, n);
        const float *from[2] = {cells_of(f, u.row(0)), cells_of(f, u.row(1))}, *mine = u.template weights<P>(f.p, weights);
        cell_line    line[SEEN];
        float        bias[2], acc[4][1][4] = {};
        LKI_UNROLL
        for (int i = 0; i < SEEN; i++)
            line[i].template fetch<ALIGNED>(f, from, i, 0);
        fetch_bias(f, u, bias);
        if (!laid) lay_weights<P, 1, false>(f.p, f.w, weights);
        laid = true;
        LKI_ROLLED
        for (int group = 0; group < f.p.groups; group++, mine += FRAGMENT_TAPS * FRAGMENT) {
            const bool       more = group + 1 < f.p.groups;
            left_fragment<P> cell[2][SEEN];
            LKI_UNROLL
            for (int i = 0; i < SEEN; i++) {
                as_factors<P>(line[i], cell[i % 2]);
                if (more) line[i].template fetch<ALIGNED>(f, from, i, group + 1);
                if (i) multiply_taps<P, 1>(i - 1, cell, mine, acc);
            }
        }
        put_windows<1, ALIGNED>(f, u, bias, acc);
    }
}

template <int P> void launch(const lki_args *g, const window_call &f)
{
    LKI_GIVE_SHARED(conv_by_windows<P>, f.p.bytes<WIDE>());
    LKI_LAUNCH(conv_by_windows<P>, dim3(fragment_blocks<WIDE>(f.p, WARPS)), dim3(WARPS * 32), f.p.bytes<WIDE>(), g, f);
}

template <int P, bool ALIGNED> void launch_few(const lki_args *g, window_call f, int64_t rows)
{
    fragment_plan_of<1>(&f.p, rows, f.C, f.O);
    LKI_GIVE_SHARED((conv_by_few_windows<P, ALIGNED>), f.p.bytes<1>());
    LKI_LAUNCH((conv_by_few_windows<P, ALIGNED>), dim3(fragment_blocks<1>(f.p, THIN_WARPS)), dim3(THIN_WARPS * 32), f.p.bytes<1>(),
               g, f);
}

template <int P> void launch_for(const lki_args *g, const window_call &f, int64_t rows)
{
    if (!f.wide) launch_few<P, false>(g, f, rows);
    else if (is_for_wide_units(f.p)) launch<P>(g, f);
    else launch_few<P, true>(g, f, rows);
}

} // namespace

bool lki_gpu::fragment_conv2d(const lki_args *g, const conv &v)
{
    const int64_t rows = v.images * (v.OH / 2) * (v.OW / 2);
    window_call   f = {};
    if (!is_pool_conv(v) || v.pad[0] || v.pad[1] || v.C % GROUP || g->gpu->precision == LKI_PRECISION_F32 ||
        !fragment_plan_of<FRAGMENT_WIDE>(&f.p, rows, v.C, v.O))
        return false;
    f.x = (const float *)g->src[0].data, f.w = fragment_weights{(const float *)g->src[1].data, v.C, v.O, aligned(g->src[1].data)},
    f.bias = g->attr->epilogue.bias ? (const float *)g->src[2].data : nullptr;
    f.y = (float *)g->dst[0].data, f.cell = (uint8_t *)g->dst[1].data;
    f.wide = aligned(f.x) && aligned(f.y) && aligned(f.cell);
    f.C = v.C, f.O = v.O, f.IH = v.IH, f.IW = v.IW, f.PW = v.OW / 2, f.floor = g->attr->epilogue.relu ? 0 : -INFINITY,
    f.dead = g->attr->epilogue.marks ? LKI_CELL_DEAD : 0;
    f.by_windows = divisor_of((v.OH / 2) * (v.OW / 2)), f.by_line = divisor_of(f.PW);
    if (!rows) return true;
    if (g->gpu->precision == LKI_PRECISION_TF32) launch_for<LKI_PRECISION_TF32>(g, f, rows);
    else launch_for<LKI_PRECISION_BF16>(g, f, rows);
    return true;
}
