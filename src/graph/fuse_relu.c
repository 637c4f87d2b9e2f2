/* Relu's gradient inside the kernels that read it, and the sum for a bias as a second result of the kernel that reads the same
 * gradient.
 *
 *   relu_grad(dy, y) that only conv2d_pool_grad_x, conv2d_pool_grad_w and sums over all but the channels read: they read y
 *   themselves, and the gradient after the relu is not stored. That is how gradients come back through conv2d, bias, relu and
 *   a max pool.
 *
 *   conv2d_pool_grad_w(x, d, cell) and a sum of d over all but its channels, the gradients of a convolution's weights and bias: the
 *   first makes both.
 *
 * Every kernel counts as zero what relu_grad would have made zero, so no bit changes. */
#include "graph/rewrite.h"

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

/* Does the node read what `relu` makes in a way that its kernel can do the relu for? Rows of dy and of y are cut alike. */
static bool can_mask(const lki_graph *g, const lki_node *n, const lki_node *relu)
{
    if (!n->nsrc || n->type != relu->type || n->mode == LKI_WHOLE || n->attr.epilogue.relu) return false;
    int at = gradient_of(g, n);
    return at >= 0 && n->src[at] == relu->dst[0] && lki_is_cut(n->cut, at) && lki_graph_may_wait(g, relu, n);
}

bool lki_is_plain_relu_grad(const lki_graph *g, const lki_node *n)
{
    if (n->dead || n->op != LKI_OP_relu_grad || n->mode != LKI_EACH || (n->type != LK_F32 && n->type != LK_F64)) return false;
    for (int i = 0; i < 2; i++)
        if (!lki_is_cut(n->cut, i) || !lki_graph_same_shape(g, n->src[i], n->dst[0])) return false;
    return true;
}

bool lki_graph_fuse_relu(lki_graph *g, lki_node *relu) { return lki_graph_mask_readers(g, relu, relu->src[1], true, can_mask); }

void lki_graph_fuse_relus(lki_graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        if (lki_is_plain_relu_grad(g, &g->nodes[i])) lki_graph_fuse_relu(g, &g->nodes[i]);
}

/* ---- bias ---- */

/* Is `sum` that of the gradient `weights` reads, over the same rows? */
static bool sums_gradient(const lki_graph *g, const lki_node *sum, const lki_node *weights)
{
    if (sum->dead || sum->op != LKI_OP_reduce_sum || sum->mode != LKI_SUM || sum->type != LK_F32 || gradient_of(g, sum))
        return false;
    const int relu = sum->attr.epilogue.relu;
    return relu == weights->attr.epilogue.relu && lki_rows_equal(&sum->rows, &weights->rows) && lki_is_cut(sum->cut, 0) &&
           lki_graph_same_elements(g, sum->src[0], weights->src[1]) &&
           (!relu || lki_graph_same_elements(g, sum->src[1], weights->src[3]));
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
    const int dst[] = {weights->dst[0], sum->dst[0]};
    if (!lki_node_rewire(g, weights, weights->nsrc, weights->src, LKI_COUNT(dst), dst)) return;
    if (weights->order < sum->order) weights->order = sum->order;
    weights->attr.epilogue.bias = 1;
    lki_node_remove(g, sum);
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

void lki_graph_fuse_biases(lki_graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        fuse_bias(g, &g->nodes[i]);
}
