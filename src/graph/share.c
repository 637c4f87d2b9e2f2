/* What is computed twice is computed once; part of simplify.c.
 *
 * Gradient rules and sums over replicas each take apart and put together again the same small tensors. Of nodes that do the same to
 * the same values, the first stays, and the results of the others become aliases of its results. Only nodes that run once over
 * everything take part: rows are cheap to compute where they are needed and expensive to keep. */
#include "graph/rewrite.h"
#include <string.h>

static bool may_be_shared(const lki_node *n)
{
    return !n->dead && n->mode == LKI_WHOLE && !n->writes && n->ndst && n->slot != LKI_K_none && n->op != LKI_OP_user;
}

static bool same_nodes(const lki_graph *g, const lki_node *m, const lki_node *n)
{
    if (m->op != n->op || m->type != n->type || m->nsrc != n->nsrc || m->ndst != n->ndst ||
        memcmp(&m->attr, &n->attr, sizeof m->attr))
        return false;
    for (int i = 0; i < m->nsrc; i++)
        if (!lki_graph_same_elements(g, m->src[i], n->src[i])) return false;
    for (int i = 0; i < m->ndst; i++)
        if (!lki_shape_equal(&g->values[m->dst[i]].shape, &g->values[n->dst[i]].shape) ||
            g->values[m->dst[i]].dtype != g->values[n->dst[i]].dtype)
            return false;
    return true;
}

static void share(lki_graph *g, const lki_node *first, lki_node *again)
{
    for (int i = 0; i < again->ndst; i++)
        lki_graph_alias(g, again->dst[i], first->dst[i]);
    lki_node_remove(g, again);
}

/* Sharing makes operands of later nodes the same, so nodes are visited in their order. */
void lki_graph_share(lki_graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        for (int j = 0; j < i && may_be_shared(&g->nodes[i]); j++)
            if (may_be_shared(&g->nodes[j]) && g->nodes[j].order < g->nodes[i].order && same_nodes(g, &g->nodes[j], &g->nodes[i]))
                share(g, &g->nodes[j], &g->nodes[i]);
}
