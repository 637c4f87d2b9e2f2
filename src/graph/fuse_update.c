/* The gradient of an L2 term inside the update that reads it, on a GPU. Part of simplify.c.
 *
 *   update(g + w * c, rate, t) of a variable w, where nobody else reads the sum or the product and c is one number: the update is
 *   given g and c, and adds w * c itself. It would be two launches, one of them between the last gradient and the end of the step.
 *
 * The update rounds the product, then the sum, as the ops do: no bit changes. */
#include "core/memory.h"
#include "device/device.h"
#include "graph/graph.h"
#include "kernel/update.h"
#include <string.h>

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

/* The node that makes this value, as it is, for `last` alone: an op of two operands; else NULL. */
static lki_node *maker_of(const lki_graph *g, int value, lki_op op, const lki_node *last)
{
    const lki_value *v = &g->values[value];
    lki_node        *n = v->maker >= 0 && v->alias_of < 0 ? &g->nodes[v->maker] : NULL;
    return n && !n->dead && n->op == op && n->type == last->type && lki_graph_uses(g, value) == 1 && lki_graph_may_wait(g, n, last)
               ? n
               : NULL;
}

static bool is_variable(const lki_graph *g, int value, const lki_value *variable)
{
    const lki_value *v = &g->values[lki_graph_root(g, value)];
    return v->kind == LKI_VALUE_VARIABLE && v->variable == variable->variable && v->version == variable->version - 1 &&
           !lki_graph_is_range(g, value);
}

static bool has_shape_of(const lki_graph *g, int value, int other)
{
    return lki_shape_equal(&g->values[value].shape, &g->values[other].shape);
}

static void give_both(lki_node *update, int gradient, int factor)
{
    int *list = lki_alloc_array(update->ndst + 4, sizeof *list);
    if (!list) return; /* fusing is optional */
    memcpy(list, (int[]){gradient, update->src[1], update->src[2], factor}, 4 * sizeof *list);
    memcpy(list + 4, update->dst, (size_t)update->ndst * sizeof *list);
    lki_release(update->src);
    update->src = list;
    update->dst = list + 4;
    update->nsrc = 4;
    update->attr.update.flags |= LKI_UPDATE_PLUS;
}

/* sum = g + product, in this order or the other; likewise product = w * c. */
static bool fuse(lki_graph *g, lki_node *update, lki_node *sum, int which)
{
    lki_node        *product = maker_of(g, sum->src[which], LKI_OP_mul, update);
    const lki_value *to = &g->values[update->dst[0]];
    if (!product || !has_shape_of(g, sum->src[1 - which], sum->dst[0]) || !has_shape_of(g, product->dst[0], sum->dst[0]))
        return false;
    for (int w = 0; w < 2; w++) {
        const int factor = product->src[1 - w];
        if (!is_variable(g, product->src[w], to) || lki_shape_size(&g->values[factor].shape) != 1) continue;
        if (g->values[lki_graph_root(g, factor)].variable == to->variable) continue; /* which the update writes */
        give_both(update, sum->src[1 - which], factor);
        if (update->nsrc != 4) return false;
        sum->dead = product->dead = true;
        g->fused += 2;
        return true;
    }
    return false;
}

void lki_graph_fuse_updates(lki_graph *g)
{
    const bool on_gpu = g->device && g->device->kind == LKI_DEVICE_GPU;
    for (int i = 0; i < g->node_count && on_gpu; i++) {
        lki_node *update = &g->nodes[i], *sum = is_plain(update) ? maker_of(g, update->src[0], LKI_OP_add, update) : NULL;
        if (sum && !fuse(g, update, sum, 1)) fuse(g, update, sum, 0);
    }
}
