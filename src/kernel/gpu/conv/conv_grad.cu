/* Gradients of conv2d of f32, plain and through a 2x2 max pool: in the way that suits the shapes best, each with its own order of
 * sums (conv_few.h, conv_pool.h, patch.h, fragment_x.cu, fragment_w.cu), else by tiles (conv.h, tile.h).
 *
 * Order of sums by tiles, for x: as in kernel.h, one CHAIN per cell and channel: output row, output column, out channel ascending.
 * For w: the images of a lane, from its first, are divided into parts; each has as many images as give it at least max(SHORT,
 * weights / SPREAD) outputs. One CHAIN per part: image, output row, output column; through a pool image, window row, window column.
 * Parts are added from left to right, lanes up the tree. In this way many blocks can share a sum with a small result, and their
 * scratch is never much larger than dy. The rule depends on the shapes of one image and of the weights only. The CPU's WINOGRAD is
 * not used here. Cells outside the image, and outputs that did not win their window, count as zeros: if the other factor is not
 * finite the result is NaN, while the reference leaves such products out.
 *
 * conv2d_pool_grad_w with `bias` in its attr epilogue has a second result, the gradient of the bias: d, which has more than one
 * channel, summed over everything except channels. If the kernel for the weights does not compute it as a by-product, its order is
 * that of reduce_sum (sums.h). */
#include "kernel/gpu/conv/conv_few.h"
#include "kernel/gpu/conv/conv_pool.h"
#include "kernel/gpu/conv/fragment.h"
#include "kernel/gpu/conv/patch.h"

namespace
{

using namespace lki_gpu;

enum { SHORT = 256, SPREAD = 64 };

pool_entries entries_of(const lki_args *g, const conv &v, int cell)
{
    const bool by_y = g->attr->epilogue.relu && !g->attr->epilogue.marks;
    return pool_entries{(const uint8_t *)g->src[cell].data, by_y ? (const float *)g->src[3].data : nullptr, v.O};
}

/* Through a pool: true if all products are computed on tensor cores, although three quarters of them are with 0; false if only
 * those of live entries are, as f32 products. True if a product takes one multiplication of rounded factors. */
bool is_dense(const lki_args *g) { return g->gpu->precision != LKI_PRECISION_F32; }

/* ---- for x ---- */

template <bool POOLED> void run_grad_x(const lki_args *g, const lki_view *d, const lki_view *w)
{
    const conv                 v = conv_of(g, g->dst[0].shape, w->shape, d->shape, POOLED);
    const int64_t              M = v.images * v.IH * v.IW, N = v.C;
    const pool_entries         e = POOLED ? entries_of(g, v, 1) : pool_entries{};
    const bool                 four = v.O % 4 == 0 && aligned(d->data) && aligned(e.cell) && aligned(e.y);
    const outputs_over<POOLED> a = {(const float *)d->data, v, four, e};
    const turned_weights       b = {(const float *)w->data, v, v.O % 4 == 0 && aligned(w->data)};
    const lanes                one = {1, {0, (int64_t)v.taps() * v.O}};
    const frame                f = {cuts_of(one, 0, 1), {}, {}, {}, 0, 0, 1, 1};
    float                     *dx = (float *)g->dst[0].data;
    if (!M || !N || (POOLED && fragment_pool_x(g, v, d, w, e)) || (is_dense(g) && patch_grad_x(g, v, d, w, e)) ||
        winner_grad_x(g, v, d, w, e) || patch_grad_x(g, v, d, w, e))
        return;
    launch_chains(g, tile_for(M, N, 1), a, b, to_matrix{dx, N, M, N, nullptr, 0, N % 4 == 0 && aligned(dx)}, f);
}

void f32_grad_x(const lki_args *g) { run_grad_x<false>(g, &g->src[0], &g->src[1]); }
void f32_pool_grad_x(const lki_args *g) { run_grad_x<true>(g, &g->src[0], &g->src[2]); }

/* ---- for w ---- */

struct weight_sums {
    int64_t M, N, each; /* images of a part */
    bool    tree;       /* one block has all lanes of a tile: sums need no scratch */
};

weight_sums weight_sums_of(const conv &v, int lanes)
{
    const int64_t M = (int64_t)v.taps() * v.C, N = v.O, outputs = lki_max(v.outputs(), 1);
    weight_sums   s = {M, N, lki_ceil_div(lki_max(SHORT, M * N / SPREAD), outputs), false};
    if (s.each >= v.images) /* whole lanes */
        s.tree = lanes * M * N * 4 > SPLIT_BYTES || (lanes > 1 && lanes <= 16 && tiles_in(TILE_MEDIUM, M, N) >= PROCESSORS);
    return s;
}

/* ---- for the bias ---- */

/* The sum of a gradient d over everything except its channels, computed by reduce_sum; its scratch comes after that of the
 * weights. */
struct bias_call {
    lki_attr attr;
    lki_view src[2];
    lki_args args;

    bias_call(const lki_args *g, size_t behind) : attr{}, src{g->src[1], g->attr->epilogue.relu ? g->src[3] : g->src[1]}, args(*g)
    {
        attr.epilogue.relu = g->attr->epilogue.relu;
        attr.reduce.last = g->src[1].shape->rank - 2;
        args.src = src, args.nsrc = 1 + attr.epilogue.relu;
        args.dst = g->dst + 1, args.ndst = 1;
        args.attr = &attr;
        args.lo = 0, args.hi = g->dst[1].shape ? size_of(&g->dst[1]) : 0;
        args.scratch = g->scratch ? (char *)g->scratch + behind : nullptr;
    }
    bias_call(const bias_call &) = delete;
    size_t scratch() const { return kernels()->scratch[LKI_K_reduce_sum][LK_F32](&args); }
    void   run() const { kernels()->fn[LKI_K_reduce_sum][LK_F32](&args); }
};

/* The same for all precisions: the caller may not know the precision yet. */
size_t weight_scratch(const conv &v, int lanes)
{
    const weight_sums s = weight_sums_of(v, lanes);
    if (is_few_grad_w(v)) return few_grad_w_scratch(v, lanes);
    if (is_winner_grad_w(v)) return winner_grad_w_scratch(v, lanes);
    if (is_patch_grad_w(v)) return patch_grad_w_scratch(v, lanes);
    return s.tree ? 0 : (size_t)((v.images / s.each + lanes) * s.M * s.N) * sizeof(float);
}

template <class B> void run_grad_w(const lki_args *g, const conv &v, const B &b, const pool_entries &entries)
{
    if (is_few_grad_w(v)) return few_grad_w(g, v, entries);
    if (fragment_pool_w(g, v, entries)) return;
    if (is_dense(g) && is_patch_pool_w(v)) return patch_pool_w(g, v, entries);
    if (is_winner_grad_w(v)) return winner_grad_w(g, v, entries);
    if (is_patch_grad_w(v)) return patch_grad_w(g, v, entries);
    const lanes       l = lanes_of(g, v.images);
    const weight_sums s = weight_sums_of(v, l.count);
    const float      *x = (const float *)g->src[0].data;
    float            *dw = (float *)g->dst[0].data;
    const cells       a = {x, v, v.C % 4 == 0 && aligned(x)};
    const to_matrix   e = {dw, s.N, s.M, s.N, nullptr, 0, s.N % 4 == 0 && aligned(dw)};
    frame             f = {cuts_of(l, s.tree ? 0 : s.each, v.outputs()), {}, {}, {}, 0, 0, 1, 1};
    if (!s.M || !s.N) return;
    if (!s.tree) return launch_split(g, tile_for(s.M, s.N, f.c.count()), a, b, e, f);
    launch_tree(g, a, b, e, f);
}

conv conv_of_grad_w(const lki_args *g, bool pooled)
{
    return conv_of(g, g->src[0].shape, g->dst[0].shape, g->src[1].shape, pooled);
}

size_t grad_w_scratch(const lki_args *g) { return weight_scratch(conv_of_grad_w(g, false), g->lanes ? g->lanes->count : 1); }

/* With the scratch for the bias, if it is wanted and not a by-product. */
size_t before_bias(const lki_args *g, const conv &v)
{
    return lki_ceil_div(weight_scratch(v, g->lanes ? g->lanes->count : 1), 64) * 64;
}
bool sums_bias_apart(const lki_args *g, const conv &v)
{
    return g->attr->epilogue.bias && !is_few_grad_w(v) && !is_winner_grad_w(v);
}
size_t pool_grad_w_scratch(const lki_args *g)
{
    const conv v = conv_of_grad_w(g, true);
    return before_bias(g, v) + (sums_bias_apart(g, v) ? bias_call(g, 0).scratch() : 0);
}

void f32_grad_w(const lki_args *g)
{
    const conv   v = conv_of_grad_w(g, false);
    const float *dy = (const float *)g->src[1].data;
    run_grad_w(g, v, by_columns{dy, v.O, v.O, v.O % 4 == 0 && aligned(dy)}, pool_entries{});
}

void f32_pool_grad_w(const lki_args *g)
{
    const conv v = conv_of_grad_w(g, true);
    run_grad_w(g, v, winners{(const float *)g->src[1].data, entries_of(g, v, 2)}, entries_of(g, v, 2));
    if (sums_bias_apart(g, v)) bias_call(g, before_bias(g, v)).run();
}

} // namespace

void lki_gpu::register_conv_grad(lki_kernels *k)
{
    set(k, LKI_K_conv2d_grad_x, LK_F32, f32_grad_x);
    set(k, LKI_K_conv2d_grad_w, LK_F32, f32_grad_w, grad_w_scratch);
    set(k, LKI_K_conv2d_pool_grad_x, LK_F32, f32_pool_grad_x);
    set(k, LKI_K_conv2d_pool_grad_w, LK_F32, f32_pool_grad_w, pool_grad_w_scratch);
}
