/* Are two values of a graph the same: made by the same ops, with the same attributes, from the same values and equal constants?
 * Each replica computes uniform values itself; this finds out whether all computed the same. A yes is always right; the answer is
 * no if the chain of ops is too long to compare. */
#include "graph/echo.h"
#include <string.h>

enum { MOST_STEPS = 4096 };

typedef struct walk {
    const lki_graph *graph;
    int              steps;
} walk;

static bool same(walk *w, int a, int b);

/* What made values x and y: node i of replica p, node k of replica q. */
static bool same_nodes(walk *w, int i, int p, int k, int q)
{
    const lki_graph *g = w->graph;
    const lki_node  *m = &g->nodes[i], *n = &g->nodes[k];
    lki_attr         room[2];
    if (m->op != n->op || m->nsrc != n->nsrc || m->writes || n->writes ||
        memcmp(lki_echo_attr(g, i, p, &room[0]), lki_echo_attr(g, k, q, &room[1]), sizeof *room))
        return false;
    for (int j = 0; j < m->nsrc; j++) {
        bool shape_only = m->op == LKI_OP_broadcast_like && j == 1; /* equal results have equal shapes */
        bool unread = m->slot == LKI_K_none && j > 0;               /* an alias: the elements of the first operand */
        if (!shape_only && !unread && !same(w, lki_echo_src(g, i, p, j), lki_echo_src(g, k, q, j))) return false;
    }
    return true;
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
    return lki_graph_result(g, a) == lki_graph_result(g, b) && same_nodes(w, x->maker, x->replica, y->maker, y->replica);
}

bool lki_graph_same(lki_tracer *tracer, lk_tensor *a, lk_tensor *b)
{
    const lki_graph *g = (const lki_graph *)((const char *)tracer - offsetof(lki_graph, tracer));
    if (!a->graph && !b->graph) return lki_same_bits(a, b);
    if (a->graph != g->token || b->graph != g->token) return false;
    return same(&(walk){.graph = g}, a->value, b->value);
}
