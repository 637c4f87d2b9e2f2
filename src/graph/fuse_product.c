/* What follows a product inside it; part of simplify.c, for GPUs, where a pass over a result is a launch of its own that everybody
 * behind it waits for.
 *
 *   mul(product, s)    s has one element: the product is multiplied by it before it is stored
 *   add(product, x)    x is of its size: it is added before the product is stored. Of two products the later adds the earlier.
 *
 * The product may be seen under another shape; nobody else may read it. Each does what the separate op did to the whole sum, so no
 * bit changes. */
#include "core/memory.h"
#include "device/device.h"
#include "graph/graph.h"
#include <string.h>

/* The product operand `side` of `last` is, if nobody else reads it and it can do what `last` does; else NULL. */
static lki_node *product_of(const lki_graph *g, const lki_node *last, int side)
{
    const int root = lki_graph_root(g, last->src[side]);
    lki_node *n = g->values[root].maker >= 0 ? &g->nodes[g->values[root].maker] : NULL;
    if (!n || n->dead || n->op != LKI_OP_matmul || n->mode != LKI_EACH || n->type != LK_F32 || n->dst[0] != root) return NULL;
    if (n->attr.epilogue.relu || n->attr.matmul.mask || n->attr.matmul.plus) return NULL;
    if (lki_graph_is_range(g, last->src[side]) ||
        !lki_shape_equal(&g->values[last->src[side]].shape, &g->values[last->dst[0]].shape))
        return NULL;
    return lki_is_cut(last->cut, side) && lki_graph_uses(g, root) == 1 && lki_graph_may_wait(g, n, last) ? n : NULL;
}

static bool is_one_number(const lki_graph *g, const lki_node *mul, int side)
{
    return lki_shape_size(&g->values[mul->src[side]].shape) == 1 && !lki_is_cut(mul->cut, side);
}

/* Of the result's size, and its rows are known by themselves: the product may have them under another number. */
static bool is_alike(const lki_graph *g, const lki_node *add, int side)
{
    const lki_value *x = &g->values[add->src[side]];
    return lki_shape_equal(&x->shape, &g->values[add->dst[0]].shape) && lki_is_cut(add->cut, side) && x->rows.kind == LKI_ROWS;
}

/* n does what `last` did with its other operand; false without memory, and then nothing has changed. */
static bool take_over(lki_graph *g, lki_node *n, lki_node *last, int other)
{
    int *list = lki_alloc_array(n->nsrc + 2, sizeof *list);
    if (!list) return false;
    memcpy(list, n->src, (size_t)n->nsrc * sizeof *list);
    list[n->nsrc] = last->src[other];
    list[n->nsrc + 1] = n->dst[0];
    lki_release(n->src);
    n->src = list;
    n->dst = list + n->nsrc + 1;
    if (lki_is_cut(last->cut, other)) n->cut |= 1ull << n->nsrc;
    n->nsrc++;
    n->order = last->order;
    g->values[last->dst[0]].alias_of = n->dst[0];
    g->values[last->dst[0]].offset = 0;
    last->dead = true;
    g->fused++;
    return true;
}

static void fuse_mul(lki_graph *g, lki_node *mul)
{
    for (int side = 0; side < 2 && !mul->dead; side++) {
        lki_node *n = is_one_number(g, mul, 1 - side) ? product_of(g, mul, side) : NULL;
        if (n && !n->attr.matmul.scale && take_over(g, n, mul, 1 - side)) n->attr.matmul.scale = 1;
    }
}

static void fuse_add(lki_graph *g, lki_node *add)
{
    lki_node *n[2];
    for (int side = 0; side < 2; side++)
        n[side] = is_alike(g, add, 1 - side) ? product_of(g, add, side) : NULL;
    if (n[0] == n[1]) return;
    const int side = !n[0] || (n[1] && n[1]->order > n[0]->order);
    if (take_over(g, n[side], add, 1 - side)) n[side]->attr.matmul.plus = 1;
}

void lki_graph_fuse_products(lki_graph *g)
{
    if (!g->device || g->device->kind != LKI_DEVICE_GPU) return;
    for (int i = 0; i < g->node_count; i++) {
        lki_node *n = &g->nodes[i];
        if (n->dead || n->mode != LKI_EACH || n->type != LK_F32 || n->nsrc != 2) continue;
        if (n->op == LKI_OP_mul) fuse_mul(g, n);
        if (n->op == LKI_OP_add) fuse_add(g, n);
    }
}
