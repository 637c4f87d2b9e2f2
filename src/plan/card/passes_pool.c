/* A dense layer's gradient inside the weight gradient that reads it, for precisions that round factors.
 *
 *   conv2d_pool_grad_w(x, d, cell), where d = matmul(g, w^T) and no other node reads d, becomes
 *   dense_pool_grad_w(x, g, cell, w)
 *
 * d, which has the size of the pool's output, is then neither written nor read. The bits differ from those of the two ops, which an
 * eager step runs, because this kernel rounds sums differently. dense_pool.h says for which shapes it can run. It is used only if
 * lanes are long: for few rows the two ops are as fast, and the update of w, which waits for all nodes that read w, begins
 * earlier. */
#include "device/gpu/gpu.h"
#include "kernel/dense_pool.h"
#include "lane/lanes.h"
#include "plan/card/passes.h"
#include <string.h>

/* The product of rows by a transposed matrix that makes d, if only `weights` reads d; else NULL. */
static lki_node *product_of(const lki_graph *g, const lki_node *weights)
{
    static const lki_epilogue none;
    lki_node                 *n = lki_graph_maker_for(g, weights, 1, LKI_OP_matmul);
    if (!n || n->mode != LKI_EACH || n->type != LK_F32 || n->nsrc != 2 || n->cut != 1) return NULL;
    if (n->attr.matmul.ta || !n->attr.matmul.tb || n->attr.matmul.heads) return NULL;
    return memcmp(&n->attr.epilogue, &none, sizeof none) ? NULL : n;
}

/* The rows of the whole batch decide, so that all cards make the same choice. */
static bool has_long_lanes(const lki_node *weights)
{
    return lki_lane_longest(weights->rows.global, weights->rows.lanes) * weights->rows.per_row >= LKI_DENSE_POOL_IMAGES;
}

/* Do the cells alone say which entries count? */
static bool goes_by_cells(const lki_node *weights) { return !weights->attr.epilogue.relu || weights->attr.epilogue.marks; }

/* Values that the plan places are aligned as the kernel requires; inputs and constants may begin anywhere. */
static bool is_aligned(const lki_graph *g, int value)
{
    const lki_value_kind kind = g->values[lki_graph_root(g, value)].kind;
    return !lki_graph_is_range(g, value) && (kind == LKI_VALUE_MADE || kind == LKI_VALUE_VARIABLE);
}

static bool fits(const lki_graph *g, const lki_node *weights, const lki_node *product)
{
    const lk_shape *x = &g->values[weights->src[0]].shape, *cell = &g->values[weights->src[2]].shape,
                   *conv = &g->values[weights->dst[0]].shape, *dy = &g->values[product->src[0]].shape,
                   *w = &g->values[product->src[1]].shape;
    return is_aligned(g, product->src[0]) && is_aligned(g, product->src[1]) && is_aligned(g, weights->src[2]) &&
           lki_is_dense_pool(&weights->attr.window, x, cell, conv, dy, w);
}

static lk_status fuse(lki_graph *g, lki_node *weights, lki_node *product)
{
    const int src[] = {weights->src[0], product->src[0], weights->src[2], product->src[1]};
    /* Lack of memory is an error here: without the rewrite the bits would differ. */
    if (!lki_node_rewire(g, weights, LKI_COUNT(src), src, weights->ndst, weights->dst)) return LK_ENOMEM;
    weights->cut = 7;
    weights->op = LKI_OP_dense_pool_grad_w;
    weights->slot = lki_op_line(weights->op)->slot;
    lki_node_remove(g, product);
    return LK_OK;
}

lk_status lki_card_fuse_pools(lki_graph *g, lki_device *card)
{
    if (g->precision == LKI_PRECISION_F32 || lki_gpu_card_of(card)->shared < LKI_DENSE_POOL_SHARED) return LK_OK;
    for (int i = 0; i < g->node_count; i++) {
        lki_node *n = &g->nodes[i];
        if (n->dead || n->op != LKI_OP_conv2d_pool_grad_w || n->mode != LKI_SUM || n->type != LK_F32) continue;
        lki_node *product = (n->cut & 7) == 7 && goes_by_cells(n) && has_long_lanes(n) ? product_of(g, n) : NULL;
        if (product && fits(g, n, product)) LKI_TRY(fuse(g, n, product));
    }
    return LK_OK;
}
