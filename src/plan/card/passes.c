/* Rewrites of a card: an op after a matrix product becomes part of the product, and gradients of relu and pool read marked cells.
 * Also the order of all rewrites for a card.
 *
 *   mul(product, s)         s has one element: the product is multiplied by it before it is stored
 *   add(product, x)         x has the product's size: it is added before the product is stored. Of two products the later adds the
 *                           earlier
 *   relu_grad(product, y)   the product stores zeros where relu does
 *   relu_grad(dy, y)        y and the cells are results of a conv2d with relu and pool, and only gradients through these read the
 *                           cells: the convolution marks cells whose winner relu made zero, and y is not read again
 *
 * The product may be read under another shape, but by one node only. The rewritten node does to the complete sum what the separate
 * op did, so no bit changes. */
#include "plan/card/passes.h"
#include <string.h>

/* ---- what follows a product ---- */

static bool is_alone(const lki_node *product)
{
    const lki_attr *a = &product->attr;
    return product->mode == LKI_EACH && product->type == LK_F32 && !a->epilogue.relu && !a->matmul.mask && !a->matmul.plus;
}

/* The result has the elements of this operand, in the same rows. */
static bool is_carried(const lki_graph *g, const lki_node *last, int operand)
{
    return last->type == LK_F32 && lki_is_cut(last->cut, operand) && lki_graph_same_shape(g, last->src[operand], last->dst[0]);
}

static bool is_scale(const lki_graph *g, const lki_node *product, const lki_node *mul, int operand)
{
    const int factor = 1 - operand;
    return is_alone(product) && !product->attr.matmul.scale && is_carried(g, mul, operand) && !lki_is_cut(mul->cut, factor) &&
           lki_shape_size(&g->values[mul->src[factor]].shape) == 1;
}

/* The other operand has the result's size, and is rows itself, because the product may have another number of rows. */
static bool can_add(const lki_graph *g, const lki_node *product, const lki_node *add, int operand)
{
    const int other = 1 - operand;
    return is_alone(product) && is_carried(g, add, operand) && is_carried(g, add, other) &&
           g->values[add->src[other]].rows.kind == LKI_ROWS;
}

static bool is_later(const lki_graph *g, const lki_node *product, const lki_node *add, int operand)
{
    const lki_node *other = lki_graph_maker_for(g, add, 1 - operand, LKI_OP_matmul);
    return can_add(g, product, add, operand) && !(other && other->order > product->order && can_add(g, other, add, 1 - operand));
}

/* The relu may see it under another shape with the same rows. */
static bool is_mask(const lki_graph *g, const lki_node *product, const lki_node *relu, int operand)
{
    static const lki_epilogue none;
    const lk_shape           *made = &g->values[product->dst[0]].shape;
    return operand == 0 && lki_is_plain_relu_grad(g, relu) && product->type == LK_F32 && product->nsrc == 2 &&
           !product->attr.matmul.heads && !memcmp(&product->attr.epilogue, &none, sizeof none) && made->rank == 2 &&
           g->values[relu->src[0]].shape.dim[0] == made->dim[0];
}

static void note_mask(lki_attr *a) { a->matmul.mask = 1; }
static void note_scale(lki_attr *a) { a->matmul.scale = 1; }
static void note_plus(lki_attr *a) { a->matmul.plus = 1; }

static void mask_products(lki_graph *g)
{
    static const lki_fusion mask = {LKI_OP_matmul, LKI_OP_relu_grad, true, true, is_mask, note_mask};
    lki_graph_fuse(g, 1, &mask);
}

static void fuse_products(lki_graph *g)
{
    static const lki_fusion table[] = {
        {LKI_OP_matmul, LKI_OP_mul, true, true, is_scale, note_scale},
        {LKI_OP_matmul, LKI_OP_add, true, true, is_later, note_plus},
    };
    lki_graph_fuse(g, LKI_COUNT(table), table);
}

/* ---- marked cells ---- */

/* The value from which a gradient through a pool reads its cells; -1: the node is another one. */
static int cells_of(const lki_node *n)
{
    if (n->dead) return -1;
    return n->op == LKI_OP_conv2d_pool_grad_x ? n->src[1] : n->op == LKI_OP_conv2d_pool_grad_w ? n->src[2] : -1;
}

static bool reads(const lki_node *n, int value)
{
    for (int i = 0; i < n->nsrc; i++)
        if (n->src[i] == value) return true;
    return false;
}

/* The conv2d whose cells are read only by nodes that also read the result of `relu`; NULL: there is none. */
static lki_node *pooled_before(const lki_graph *g, const lki_node *relu)
{
    const int y = lki_graph_root(g, relu->src[1]), maker = g->values[y].maker;
    lki_node *n = maker >= 0 ? &g->nodes[maker] : NULL;
    if (!n || n->dead || n->op != LKI_OP_conv2d || !n->attr.epilogue.relu || !n->attr.epilogue.pool || n->type != LK_F32)
        return NULL;
    if (n->dst[0] != y || lki_graph_is_range(g, relu->src[1]) || relu->type != LK_F32) return NULL;
    int readers = lki_graph_uses(g, n->dst[1]);
    for (int i = 0; i < g->node_count; i++) {
        const int cells = cells_of(&g->nodes[i]);
        if (cells < 0 || !reads(&g->nodes[i], relu->dst[0])) continue;
        if (cells != n->dst[1]) return NULL;
        readers--;
    }
    return readers ? NULL : n;
}

static void mark_cells(lki_graph *g)
{
    for (int r = 0; r < g->node_count; r++) {
        lki_node *relu = &g->nodes[r], *conv = lki_is_plain_relu_grad(g, relu) ? pooled_before(g, relu) : NULL;
        if (!conv || !lki_graph_fuse_relu(g, relu)) continue;
        conv->attr.epilogue.marks = 1;
        for (int i = 0; i < g->node_count; i++)
            if (cells_of(&g->nodes[i]) == conv->dst[1]) g->nodes[i].attr.epilogue.marks = 1;
    }
}

/* ---- all of them ---- */

lk_status lki_card_rewrite(lki_plan *p)
{
    lki_graph *g = p->graph;
    lki_graph_fuse_epilogues(g);
    lki_graph_fuse_norms(g);
    mark_cells(g);
    mask_products(g); /* before the readers of other gradients look at y themselves */
    lki_graph_fuse_relus(g);
    lki_graph_fuse_biases(g);
    fuse_products(g);
    LKI_TRY(lki_card_fuse_pools(g, p->device));
    lki_card_fuse_updates(g);
    return LK_OK;
}
