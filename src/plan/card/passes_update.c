/* The gradient of an L2 term inside the update that reads it.
 *
 *   update(g + w * c, rate, t) of a variable w, where c is one number and no other node reads the sum or the product, becomes an
 *   update that reads g and c, and adds w * c itself. That saves two launches, one of them after the last gradient.
 *
 * The update rounds the product, then the sum, as the ops do: no bit changes. */
#include "kernel/update.h"
#include "plan/card/passes.h"

bool lki_takes_gradient(const lki_node *n)
{
    switch (n->op) {
    case LKI_OP_update_sgd:
    case LKI_OP_update_adam:
    case LKI_OP_update_rmsprop:
    case LKI_OP_update_adagrad:
    case LKI_OP_update_adadelta:
    case LKI_OP_update_adamax:
    case LKI_OP_update_ftrl:
    case LKI_OP_update_lion: return n->nsrc == 3 || n->attr.update.flags & LKI_UPDATE_PLUS;
    default: return false;
    }
}

static bool is_plain(const lki_node *n)
{
    return !n->dead && lki_takes_gradient(n) && n->nsrc == 3 && (n->type == LK_F32 || n->type == LK_F64);
}

/* The node that makes this operand of `last`, under its own shape, if only `last` reads it; else NULL. */
static lki_node *maker_of(const lki_graph *g, const lki_node *last, int operand, lki_op op, lk_dtype type)
{
    lki_node *n = lki_graph_maker_for(g, last, operand, op);
    return n && n->dst[0] == last->src[operand] && n->type == type ? n : NULL;
}

static bool is_variable(const lki_graph *g, int value, const lki_value *variable)
{
    const lki_value *v = &g->values[lki_graph_root(g, value)];
    return v->kind == LKI_VALUE_VARIABLE && v->variable == variable->variable && v->version == variable->version - 1 &&
           !lki_graph_is_range(g, value);
}

/* sum = g + product, in this order or the other; likewise product = w * c. */
static bool fuse(lki_graph *g, lki_node *update, lki_node *sum, int which)
{
    lki_node        *product = maker_of(g, sum, which, LKI_OP_mul, update->type);
    const lki_value *to = &g->values[update->dst[0]];
    if (!product || !lki_graph_may_wait(g, product, update) || !lki_graph_same_shape(g, sum->src[1 - which], sum->dst[0]) ||
        !lki_graph_same_shape(g, product->dst[0], sum->dst[0]))
        return false;
    for (int w = 0; w < 2; w++) {
        const int factor = product->src[1 - w];
        if (!is_variable(g, product->src[w], to) || lki_shape_size(&g->values[factor].shape) != 1) continue;
        if (g->values[lki_graph_root(g, factor)].variable == to->variable) continue; /* which the update writes */
        const int src[] = {sum->src[1 - which], update->src[1], update->src[2], factor};
        if (!lki_node_rewire(g, update, LKI_COUNT(src), src, update->ndst, update->dst)) return false;
        update->attr.update.flags |= LKI_UPDATE_PLUS;
        lki_node_remove(g, sum);
        lki_node_remove(g, product);
        return true;
    }
    return false;
}

void lki_card_fuse_updates(lki_graph *g)
{
    for (int i = 0; i < g->node_count; i++) {
        lki_node *update = &g->nodes[i], *sum = is_plain(update) ? maker_of(g, update, 0, LKI_OP_add, update->type) : NULL;
        if (sum && !fuse(g, update, sum, 1)) fuse(g, update, sum, 0);
    }
}
