/* Batch normalisation in as few passes as there can be.
 *
 *   forward    relu(batch_apply(x)): one kernel
 *   data       dy * scale + batch_apply(x): batch_grad_x, one kernel
 *   relu back  relu_grad(dy, y) that only those kernels and batch_grad_sums read, where y is the relu of a batch_apply of the same
 *              x: they work out themselves where y > 0, so neither y nor the gradient after the relu is stored
 *
 * Every kernel does what the separate ops did, in the same order, so no bit changes. */
#include "graph/rewrite.h"

static bool is_each(const lki_node *n, lki_op op) { return n->op == op && !n->dead && n->mode == LKI_EACH; }

static const lki_node *made_by(const lki_graph *g, int value, lki_op op)
{
    const lki_value *v = &g->values[value];
    return v->alias_of < 0 && v->kind == LKI_VALUE_MADE && v->maker >= 0 && is_each(&g->nodes[v->maker], op) ? &g->nodes[v->maker]
                                                                                                             : NULL;
}

/* The same elements, or the same entry taken out of them. */
static bool same_elements(const lki_graph *g, int a, int b)
{
    const int p = lki_graph_root(g, a), q = lki_graph_root(g, b), n = g->values[p].maker, m = g->values[q].maker;
    if (p == q || !lki_graph_same_shape(g, a, b)) return lki_graph_same_elements(g, a, b);
    if (n < 0 || m < 0 || g->nodes[n].op != LKI_OP_unstack || g->nodes[m].op != LKI_OP_unstack) return false;
    if (g->nodes[n].ndst != g->nodes[m].ndst || g->nodes[n].attr.scan.axis || g->nodes[m].attr.scan.axis) return false;
    for (int d = 0; d < g->nodes[n].ndst; d++)
        if ((g->nodes[n].dst[d] == p) != (g->nodes[m].dst[d] == q)) return false;
    return same_elements(g, g->nodes[n].src[0], g->nodes[m].src[0]);
}

/* ---- forward ---- */

static bool has_no_relu(const lki_graph *g, const lki_node *apply, const lki_node *relu, int operand)
{
    (void)g, (void)relu, (void)operand;
    return !apply->attr.epilogue.relu;
}

static void note_relu(lki_attr *a) { a->epilogue.relu = 1; }

/* ---- data gradient ---- */

static bool is_channels(const lki_graph *g, int value, int of)
{
    const lki_value *v = &g->values[value], *x = &g->values[of];
    return v->shape.rank == 1 && v->shape.dim[0] == x->shape.dim[x->shape.rank - 1] && v->rows.kind != LKI_ROWS;
}

static void fuse_data_gradient(lki_graph *g, lki_node *add, int direct)
{
    lki_node *mul = lki_graph_maker_for(g, add, direct, LKI_OP_mul),
             *apply = lki_graph_maker_for(g, add, 1 - direct, LKI_OP_batch_apply);
    const int dx = add->dst[0];
    if (!mul || !apply || mul->mode != LKI_EACH || apply->mode != LKI_EACH || apply->attr.epilogue.relu ||
        mul->dst[0] != add->src[direct] || apply->dst[0] != add->src[1 - direct] || !is_channels(g, mul->src[1], dx) ||
        !lki_graph_same_shape(g, mul->src[0], dx) || !lki_graph_same_shape(g, apply->src[0], dx))
        return;
    const int src[] = {mul->src[0], mul->src[1], apply->src[0], apply->src[1], apply->src[2]};
    if (!lki_node_rewire(g, add, LKI_COUNT(src), src, add->ndst, add->dst)) return;
    add->op = LKI_OP_batch_grad_x;
    add->slot = lki_op_line(add->op)->slot;
    add->cut = 1 | 4;
    lki_node_remove(g, mul);
    lki_node_remove(g, apply);
}

/* ---- relu on the way back ---- */

/* Where in a node's operands dy, x and the center are; false: it is none of those that can do the relu. */
static bool can_do_relu(const lki_node *n, int dy, int *x, int *center)
{
    bool data = n->op == LKI_OP_batch_grad_x;
    *x = data ? 2 : 1;
    *center = data ? 3 : 2;
    return (data || n->op == LKI_OP_batch_grad_sums) && n->src[0] == dy && !n->attr.epilogue.relu && n->mode != LKI_WHOLE;
}

/* The batch_apply whose relu `relu` goes back through; NULL: it is another. */
static const lki_node *apply_before(const lki_graph *g, const lki_node *relu)
{
    const lki_node *apply = is_each(relu, LKI_OP_relu_grad) ? made_by(g, relu->src[1], LKI_OP_batch_apply) : NULL;
    return apply && apply->attr.epilogue.relu && lki_graph_same_shape(g, relu->src[0], relu->dst[0]) ? apply : NULL;
}

/* The node reads what `relu` makes, and can do the relu itself. */
static bool can_mask(const lki_graph *g, const lki_node *n, const lki_node *relu)
{
    int x, center;
    if (!can_do_relu(n, relu->dst[0], &x, &center)) return false;
    const lki_node *apply = apply_before(g, relu);
    return lki_graph_may_wait(g, apply, n) && same_elements(g, n->src[x], apply->src[0]) &&
           same_elements(g, n->src[center], apply->src[1]);
}

void lki_graph_fuse_norms(lki_graph *g)
{
    static const lki_fusion forward = {LKI_OP_batch_apply, LKI_OP_relu, false, false, has_no_relu, note_relu};
    lki_graph_fuse(g, 1, &forward);
    for (int i = 0; i < g->node_count; i++)
        for (int direct = 0; direct < 2 && is_each(&g->nodes[i], LKI_OP_add); direct++)
            fuse_data_gradient(g, &g->nodes[i], direct);
    for (int i = 0; i < g->node_count; i++) {
        lki_node       *relu = &g->nodes[i];
        const lki_node *apply = apply_before(g, relu);
        if (apply) lki_graph_mask_readers(g, relu, apply->src[2], false, can_mask);
    }
}
