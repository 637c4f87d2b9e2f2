/* Are two values of a graph the same: made by the same ops, with the same attributes, from the same values and equal constants?
 * Each replica computes uniform values itself; this finds out whether all computed the same. A yes is always right; the answer is
 * no if the chain of ops is too long to compare. */
#include "graph/graph.h"
#include <string.h>

enum { MOST_STEPS = 4096 };

typedef struct walk {
    const lki_graph *graph;
    int              steps;
} walk;

static bool same(walk *w, int a, int b);

static bool same_nodes(walk *w, const lki_node *m, const lki_node *n)
{
    if (m->op != n->op || m->nsrc != n->nsrc || m->writes || n->writes || memcmp(&m->attr, &n->attr, sizeof m->attr)) return false;
    for (int i = 0; i < m->nsrc; i++) {
        bool shape_only = m->op == LKI_OP_broadcast_like && i == 1; /* equal results have equal shapes */
        bool unread = m->slot == LKI_K_none && i > 0;               /* an alias: the elements of the first operand */
        if (!shape_only && !unread && !same(w, m->src[i], n->src[i])) return false;
    }
    return true;
}

static int which_result(const lki_node *n, int value)
{
    int i = 0;
    while (i < n->ndst && n->dst[i] != value)
        i++;

    return i;
}

static bool same(walk *w, int a, int b)
{
    const lki_graph *g = w->graph;
    const lki_value *x = &g->values[a], *y = &g->values[b];
    if (a == b) return true;
    if (++w->steps > MOST_STEPS || x->kind != y->kind || x->dtype != y->dtype || !lki_shape_equal(&x->shape, &y->shape))
        return false;
    if (x->kind == LKI_VALUE_CONSTANT) return lki_same_bits(x->constant, y->constant);
    if (x->kind != LKI_VALUE_MADE || x->maker < 0 || y->maker < 0) return false;
    const lki_node *m = &g->nodes[x->maker], *n = &g->nodes[y->maker];
    return which_result(m, a) == which_result(n, b) && same_nodes(w, m, n);
}

bool lki_graph_same(lki_tracer *tracer, lk_tensor *a, lk_tensor *b)
{
    const lki_graph *g = (const lki_graph *)((const char *)tracer - offsetof(lki_graph, tracer));
    if (!a->graph && !b->graph) return lki_same_bits(a, b);
    if (a->graph != g->token || b->graph != g->token) return false;
    return same(&(walk){.graph = g}, a->value, b->value);
}
