/* Batch normalisation in as few passes as there can be; part of simplify.c.
 *
 *   forward    relu(batch_apply(x)): one kernel
 *   data       dy * scale + batch_apply(x): batch_grad_x, one kernel
 *   relu back  relu_grad(dy, y) that only those kernels and batch_grad_sums read, where y is the relu of a batch_apply of the same
 *              x: they work out themselves where y > 0, so neither y nor the gradient behind the relu need be there
 *
 * Every kernel does what the separate ops did, in the same order, so no bit changes. */
#include "core/memory.h"
#include "graph/graph.h"
#include <string.h>

static bool is_each(const lki_node *n, lki_op op) { return n->op == op && !n->dead && n->mode == LKI_EACH; }

static lki_node *made_by(lki_graph *g, int value, lki_op op)
{
    const lki_value *v = &g->values[value];
    return v->alias_of < 0 && v->kind == LKI_VALUE_MADE && v->maker >= 0 && is_each(&g->nodes[v->maker], op) ? &g->nodes[v->maker]
                                                                                                             : NULL;
}

/* The same elements: one value, or the same entry taken out of one. */
static bool same_elements(const lki_graph *g, int a, int b)
{
    int p = lki_graph_root(g, a), q = lki_graph_root(g, b);
    if (!lki_shape_equal(&g->values[a].shape, &g->values[b].shape)) return false;
    if (p == q) return lki_graph_offset(g, a) == lki_graph_offset(g, b);
    int n = g->values[p].maker, m = g->values[q].maker;
    if (n < 0 || m < 0 || g->nodes[n].op != LKI_OP_unstack || g->nodes[m].op != LKI_OP_unstack) return false;
    if (g->nodes[n].ndst != g->nodes[m].ndst || g->nodes[n].attr.scan.axis || g->nodes[m].attr.scan.axis) return false;
    for (int d = 0; d < g->nodes[n].ndst; d++)
        if ((g->nodes[n].dst[d] == p) != (g->nodes[m].dst[d] == q)) return false;
    return same_elements(g, g->nodes[n].src[0], g->nodes[m].src[0]);
}

/* Give a node other operands; false without memory, and then nothing has changed. */
static bool give_operands(lki_node *n, int nsrc, const int *src)
{
    int *list = lki_alloc_array(nsrc + n->ndst + 1, sizeof *list);
    if (!list) return false;
    memcpy(list, src, (size_t)nsrc * sizeof *list);
    memcpy(list + nsrc, n->dst, (size_t)n->ndst * sizeof *list);
    lki_release(n->src);
    n->src = list;
    n->dst = list + nsrc;
    n->nsrc = nsrc;
    return true;
}

/* ---- forward ---- */

static void fuse_relu(lki_graph *g, int relu)
{
    lki_node *r = &g->nodes[relu], *apply = is_each(r, LKI_OP_relu) ? made_by(g, r->src[0], LKI_OP_batch_apply) : NULL;
    if (!apply || apply->attr.epilogue.relu || lki_graph_uses(g, r->src[0]) != 1 || !lki_graph_may_wait(g, apply, r)) return;
    apply->attr.epilogue.relu = 1;
    apply->dst[0] = r->dst[0];
    apply->order = r->order;
    g->values[r->dst[0]].maker = (int)(apply - g->nodes);
    r->dead = true;
    g->fused++;
}

/* ---- data gradient ---- */

static bool is_channels(const lki_graph *g, int value, int of)
{
    const lki_value *v = &g->values[value], *x = &g->values[of];
    return v->shape.rank == 1 && v->shape.dim[0] == x->shape.dim[x->shape.rank - 1] && v->rows.kind != LKI_ROWS;
}

static void fuse_data_gradient(lki_graph *g, lki_node *add, int direct, int other)
{
    if (!is_each(add, LKI_OP_add)) return;
    lki_node *mul = made_by(g, add->src[direct], LKI_OP_mul), *apply = made_by(g, add->src[other], LKI_OP_batch_apply);
    if (!mul || !apply || apply->attr.epilogue.relu || !is_channels(g, mul->src[1], add->dst[0])) return;
    if (!lki_shape_equal(&g->values[mul->src[0]].shape, &g->values[add->dst[0]].shape) ||
        !lki_shape_equal(&g->values[apply->src[0]].shape, &g->values[add->dst[0]].shape) ||
        lki_graph_uses(g, add->src[direct]) != 1 || lki_graph_uses(g, add->src[other]) != 1 || !lki_graph_may_wait(g, mul, add) ||
        !lki_graph_may_wait(g, apply, add))
        return;
    if (!give_operands(add, 5, (int[]){mul->src[0], mul->src[1], apply->src[0], apply->src[1], apply->src[2]})) return;
    add->op = LKI_OP_batch_grad_x;
    add->slot = lki_op_line(add->op)->slot;
    add->cut = 1 | 4;
    mul->dead = apply->dead = true;
    g->fused += 2;
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

/* The node reads `dy`, what came back through the relu behind `apply`, and can do the relu itself. */
static bool reads_for(const lki_graph *g, const lki_node *n, int dy, const lki_node *apply)
{
    int x, center;
    return !n->dead && can_do_relu(n, dy, &x, &center) && lki_graph_may_wait(g, apply, n) &&
           same_elements(g, n->src[x], apply->src[0]) && same_elements(g, n->src[center], apply->src[1]);
}

static void do_relu(lki_node *n, int dy, int pair)
{
    int src[6];
    memcpy(src, n->src, (size_t)n->nsrc * sizeof *src);
    src[0] = dy;
    src[n->nsrc] = pair;
    if (give_operands(n, n->nsrc + 1, src)) n->attr.epilogue.relu = 1;
}

static void fuse_relu_gradient(lki_graph *g, lki_node *relu)
{
    lki_node *apply = is_each(relu, LKI_OP_relu_grad) ? made_by(g, relu->src[1], LKI_OP_batch_apply) : NULL;
    if (!apply || !apply->attr.epilogue.relu || !lki_shape_equal(&g->values[relu->src[0]].shape, &g->values[relu->dst[0]].shape))
        return;
    int dy = relu->dst[0], left = lki_graph_uses(g, dy);
    for (int i = 0; i < g->node_count; i++)
        left -= reads_for(g, &g->nodes[i], dy, apply);
    if (left) return;
    for (int i = 0; i < g->node_count; i++)
        if (reads_for(g, &g->nodes[i], dy, apply)) do_relu(&g->nodes[i], relu->src[0], apply->src[2]);
    relu->dead = lki_graph_uses(g, dy) == 0;
    g->fused += relu->dead;
}

void lki_graph_fuse_norms(lki_graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        fuse_relu(g, i);
    for (int i = 0; i < g->node_count; i++) {
        fuse_data_gradient(g, &g->nodes[i], 0, 1);
        fuse_data_gradient(g, &g->nodes[i], 1, 0);
    }
    for (int i = 0; i < g->node_count; i++)
        fuse_relu_gradient(g, &g->nodes[i]);
}
