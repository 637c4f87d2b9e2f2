/* Relu's gradient inside the kernels that read it, or the one that makes what it reads; and the sum for a bias as a second result
 * of the kernel that reads the same gradient. Part of simplify.c.
 *
 *   relu_grad(dy, y) that only conv2d_pool_grad_x, conv2d_pool_grad_w and sums over all but the channels read: they look at y
 *   themselves, and the gradient behind the relu need not be there. That is how gradients come back through conv2d, bias, relu and
 *   a max pool.
 *
 *   The same where y and the cells are those of a conv2d with relu and pool, and only such gradients read the cells: on a GPU the
 *   convolution marks cells of what relu cut off, and y is not read again.
 *
 *   relu_grad(dy, y) of a dy that a matmul makes for nobody else, under whatever shape: on a GPU the matmul leaves it out itself.
 *
 *   conv2d_pool_grad_w(x, d, cell) and a sum of d over all but its channels, the gradients of a convolution's weights and bias: the
 *   first makes both.
 *
 * Every kernel counts as zero what relu_grad would have made zero, so no bit changes. */
#include "core/memory.h"
#include "device/device.h"
#include "graph/graph.h"
#include <string.h>

/* Which operand a node has the gradient in, if its kernel can do the relu; else -1. */
static int gradient_of(const lki_graph *g, const lki_node *n)
{
    const lk_shape *x = &g->values[n->src[0]].shape;
    switch (n->op) {
    case LKI_OP_conv2d_pool_grad_x: return 0;
    case LKI_OP_conv2d_pool_grad_w: return 1;
    case LKI_OP_reduce_sum:
        return n->attr.reduce.first == 0 && n->attr.reduce.last == x->rank - 2 && x->dim[x->rank - 1] > 1 ? 0 : -1;
    default: return -1;
    }
}

/* Does the node read what `relu` makes in a way its kernel can do the relu for? Rows of dy and of y are cut alike. */
static bool can_do(const lki_graph *g, const lki_node *n, const lki_node *relu)
{
    if (n->dead || !n->nsrc || n->type != relu->type || n->mode == LKI_WHOLE || n->attr.epilogue.relu) return false;
    int at = gradient_of(g, n);
    return at >= 0 && n->src[at] == relu->dst[0] && lki_is_cut(n->cut, at) && lki_graph_may_wait(g, relu, n);
}

static bool is_plain(const lki_graph *g, const lki_node *n)
{
    if (n->dead || n->op != LKI_OP_relu_grad || n->mode != LKI_EACH || (n->type != LK_F32 && n->type != LK_F64)) return false;
    for (int i = 0; i < 2; i++)
        if (!lki_is_cut(n->cut, i) || !lki_shape_equal(&g->values[n->src[i]].shape, &g->values[n->dst[0]].shape)) return false;
    return true;
}

/* false without memory, and then nothing has changed */
static bool do_relu(const lki_graph *g, lki_node *n, const lki_node *relu)
{
    int *list = lki_alloc_array(n->nsrc + 1 + n->ndst, sizeof *list);
    if (!list) return false;
    memcpy(list, n->src, (size_t)n->nsrc * sizeof *list);
    list[gradient_of(g, n)] = relu->src[0];
    list[n->nsrc] = relu->src[1];
    memcpy(list + n->nsrc + 1, n->dst, (size_t)n->ndst * sizeof *list);
    lki_release(n->src);
    n->src = list;
    n->dst = list + n->nsrc + 1;
    n->cut |= 1ull << n->nsrc++;
    n->attr.epilogue.relu = 1;
    return true;
}

/* The value a gradient through a pool reads its cells from; -1: it is none. */
static int cells_of(const lki_node *n)
{
    return n->op == LKI_OP_conv2d_pool_grad_x ? n->src[1] : n->op == LKI_OP_conv2d_pool_grad_w ? n->src[2] : -1;
}

/* The conv2d that can mark its cells for all who read what `relu` makes, else NULL. */
static lki_node *marker_before(const lki_graph *g, const lki_node *relu)
{
    const int y = lki_graph_root(g, relu->src[1]), maker = g->values[y].maker;
    lki_node *n = maker >= 0 ? &g->nodes[maker] : NULL;
    if (!n || n->dead || n->op != LKI_OP_conv2d || !n->attr.epilogue.relu || !n->attr.epilogue.pool || n->type != LK_F32)
        return NULL;
    if (n->dst[0] != y || lki_graph_is_range(g, relu->src[1]) || relu->type != LK_F32) return NULL;
    int left = lki_graph_uses(g, relu->dst[0]), readers = lki_graph_uses(g, n->dst[1]);
    for (int i = 0; i < g->node_count; i++) {
        const lki_node *reader = &g->nodes[i];
        if (!can_do(g, reader, relu)) continue;
        left--;
        readers -= cells_of(reader) == n->dst[1];
        if (cells_of(reader) >= 0 && cells_of(reader) != n->dst[1]) return NULL;
    }
    return left || readers ? NULL : n;
}

/* The matmul whose result `relu` alone reads, if it can leave out what relu lets not through; else NULL. The relu may see it under
 * another shape with the same rows. */
static lki_node *product_before(const lki_graph *g, const lki_node *relu)
{
    static const lki_epilogue none;
    const int                 root = lki_graph_root(g, relu->src[0]);
    const lki_value          *dy = &g->values[root];
    lki_node                 *n = dy->maker >= 0 ? &g->nodes[dy->maker] : NULL;
    if (!n || n->dead || n->op != LKI_OP_matmul || n->mode != LKI_EACH || n->type != LK_F32 || n->nsrc != 2) return NULL;
    if (n->attr.matmul.heads || memcmp(&n->attr.epilogue, &none, sizeof none) || dy->shape.rank != 2) return NULL;
    if (lki_graph_is_range(g, relu->src[0]) || g->values[relu->src[0]].shape.dim[0] != dy->shape.dim[0]) return NULL;
    return n->dst[0] == root && lki_graph_uses(g, root) == 1 && lki_graph_may_wait(g, n, relu) ? n : NULL;
}

static void mask_product(lki_graph *g, lki_node *n, lki_node *relu)
{
    int *list = lki_alloc_array(4, sizeof *list);
    if (!list) return; /* fusing is optional */
    memcpy(list, (int[]){n->src[0], n->src[1], relu->src[1], n->dst[0]}, 4 * sizeof *list);
    lki_release(n->src);
    n->src = list;
    n->dst = list + 3;
    n->nsrc = 3;
    n->cut |= 1ull << 2;
    n->order = relu->order;
    n->attr.matmul.mask = 1;
    g->values[relu->dst[0]].alias_of = n->dst[0];
    g->values[relu->dst[0]].offset = 0;
    relu->dead = true;
    g->fused++;
}

/* ---- bias ---- */

static bool same_elements(const lki_graph *g, int a, int b)
{
    return lki_graph_root(g, a) == lki_graph_root(g, b) && lki_graph_offset(g, a) == lki_graph_offset(g, b) &&
           lki_shape_equal(&g->values[a].shape, &g->values[b].shape);
}

static bool same_rows(const lki_rows *a, const lki_rows *b)
{
    return a->kind == b->kind && a->own == b->own && a->lanes == b->lanes && a->per_row == b->per_row && a->global == b->global &&
           a->first == b->first && a->rows == b->rows && a->total == b->total;
}

/* Is `sum` that of the gradient `weights` reads, over the same rows? */
static bool sums_gradient(const lki_graph *g, const lki_node *sum, const lki_node *weights)
{
    if (sum->dead || sum->op != LKI_OP_reduce_sum || sum->mode != LKI_SUM || sum->type != LK_F32 || gradient_of(g, sum))
        return false;
    const int relu = sum->attr.epilogue.relu;
    return relu == weights->attr.epilogue.relu && same_rows(&sum->rows, &weights->rows) && lki_is_cut(sum->cut, 0) &&
           same_elements(g, sum->src[0], weights->src[1]) && (!relu || same_elements(g, sum->src[1], weights->src[3]));
}

/* Can `first` run when `last` does? */
static bool can_wait(const lki_graph *g, const lki_node *first, const lki_node *last)
{
    const int root = lki_graph_root(g, first->dst[0]);
    for (int i = 0; i < g->node_count; i++)
        for (int j = 0; j < g->nodes[i].nsrc && !g->nodes[i].dead && g->nodes[i].order <= last->order; j++)
            if (lki_graph_root(g, g->nodes[i].src[j]) == root) return false;
    return lki_graph_may_wait(g, first, last);
}

static void make_both(lki_graph *g, lki_node *weights, lki_node *sum)
{
    int *list = lki_alloc_array(weights->nsrc + 2, sizeof *list);
    if (!list) return; /* fusing is optional */
    memcpy(list, weights->src, (size_t)weights->nsrc * sizeof *list);
    list[weights->nsrc] = weights->dst[0];
    list[weights->nsrc + 1] = sum->dst[0];
    lki_release(weights->src);
    weights->src = list;
    weights->dst = list + weights->nsrc;
    weights->ndst = 2;
    if (weights->order < sum->order) weights->order = sum->order;
    weights->attr.epilogue.bias = 1;
    g->values[sum->dst[0]].maker = (int)(weights - g->nodes);
    sum->dead = true;
    g->fused++;
}

/* Without weights, those of no channel, nothing would run. */
static void fuse_bias(lki_graph *g, lki_node *weights)
{
    if (weights->dead || weights->op != LKI_OP_conv2d_pool_grad_w || weights->mode != LKI_SUM || weights->type != LK_F32) return;
    if (!lki_shape_size(&g->values[weights->dst[0]].shape)) return;
    for (int i = 0; i < g->node_count && !weights->attr.epilogue.bias; i++) {
        lki_node  *sum = &g->nodes[i];
        const bool before = sum->order < weights->order;
        if (sums_gradient(g, sum, weights) && (before ? can_wait(g, sum, weights) : can_wait(g, weights, sum)))
            make_both(g, weights, sum);
    }
}

void lki_graph_fuse_relus(lki_graph *g)
{
    const bool on_gpu = g->device && g->device->kind == LKI_DEVICE_GPU;
    for (int r = 0; r < g->node_count; r++) {
        lki_node *relu = &g->nodes[r];
        if (!is_plain(g, relu)) continue;
        lki_node *marker = on_gpu ? marker_before(g, relu) : NULL, *product = on_gpu && !marker ? product_before(g, relu) : NULL;
        if (product) {
            mask_product(g, product, relu);
            continue;
        }
        int left = lki_graph_uses(g, relu->dst[0]);
        for (int i = 0; i < g->node_count; i++)
            left -= can_do(g, &g->nodes[i], relu);
        if (left) continue;
        for (int i = 0; i < g->node_count; i++)
            if (can_do(g, &g->nodes[i], relu) && do_relu(g, &g->nodes[i], relu) && marker && cells_of(&g->nodes[i]) >= 0)
                g->nodes[i].attr.epilogue.marks = marker->attr.epilogue.marks = 1;
        relu->dead = lki_graph_uses(g, relu->dst[0]) == 0;
        g->fused += relu->dead;
    }
    for (int i = 0; i < g->node_count; i++)
        fuse_bias(g, &g->nodes[i]);
}
