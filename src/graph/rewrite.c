/* Nodes that become part of others (rewrite.h). */
#include "graph/rewrite.h"
#include "core/memory.h"
#include <string.h>

enum { MOST = 8, OUTPUT = 1 << 16 }; /* operands of a node that does more than its own work; readings that a result counts as */

/* ---- one node ---- */

static void count_operands(lki_graph *g, const lki_node *n, int by)
{
    for (int i = 0; i < n->nsrc && !n->dead; i++)
        if (!lki_shape_only(n, i)) g->values[lki_graph_root(g, n->src[i])].uses += by;
}

void lki_graph_count_uses(lki_graph *g)
{
    for (int v = 0; v < g->value_count; v++)
        g->values[v].uses = 0;
    for (int i = 0; i < g->node_count; i++)
        count_operands(g, &g->nodes[i], 1);
    for (int i = 0; i < g->output_count; i++)
        g->values[lki_graph_root(g, g->outputs[i])].uses += OUTPUT;
}

bool lki_node_rewire(lki_graph *g, lki_node *n, int nsrc, const int *src, int ndst, const int *dst)
{
    int *list = lki_alloc_array(nsrc + ndst + 1, sizeof *list);
    if (!list) return false;
    memcpy(list, src, (size_t)nsrc * sizeof *list);
    memcpy(list + nsrc, dst, (size_t)ndst * sizeof *list);
    count_operands(g, n, -1);
    lki_release(n->src);
    n->src = list;
    n->dst = list + nsrc;
    n->nsrc = nsrc;
    n->ndst = ndst;
    count_operands(g, n, 1);
    for (int i = 0; i < ndst; i++)
        g->values[n->dst[i]].maker = (int)(n - g->nodes);
    return true;
}

void lki_node_remove(lki_graph *g, lki_node *n)
{
    count_operands(g, n, -1);
    n->dead = true;
    g->fused++;
}

void lki_graph_alias(lki_graph *g, int value, int of)
{
    lki_value *v = &g->values[value];
    g->values[lki_graph_root(g, of)].uses += v->uses;
    v->uses = 0;
    v->alias_of = of;
    v->offset = 0;
}

/* ---- questions ---- */

bool lki_graph_may_wait(const lki_graph *g, const lki_node *n, const lki_node *last)
{
    for (int i = 0; i < n->nsrc; i++) {
        const int writer = lki_graph_writer_after(g, lki_graph_root(g, n->src[i]));
        if (writer >= 0 && g->nodes[writer].order < last->order) return false;
    }
    return true;
}

lki_node *lki_graph_maker_for(const lki_graph *g, const lki_node *reader, int operand, lki_op op)
{
    const int        value = reader->src[operand], root = lki_graph_root(g, value);
    const lki_value *v = &g->values[root];
    lki_node        *n = v->kind == LKI_VALUE_MADE && v->maker >= 0 ? &g->nodes[v->maker] : NULL;
    return n && !n->dead && n->op == op && n->dst[0] == root && v->uses == 1 && !lki_graph_is_range(g, value) &&
                   lki_graph_may_wait(g, n, reader)
               ? n
               : NULL;
}

bool lki_graph_same_elements(const lki_graph *g, int a, int b)
{
    return lki_graph_root(g, a) == lki_graph_root(g, b) && lki_graph_offset(g, a) == lki_graph_offset(g, b) &&
           lki_graph_same_shape(g, a, b);
}

/* ---- a node does what its only reader does ---- */

static bool join(lki_graph *g, const lki_fusion *f, lki_node *first, lki_node *last, int operand)
{
    const bool same = last->src[operand] == first->dst[0];
    const int  other = 1 - operand, nsrc = first->nsrc;
    int        src[MOST];
    if ((!same && !f->reshaped) || nsrc == MOST || !f->fits(g, first, last, operand)) return false;
    memcpy(src, first->src, (size_t)nsrc * sizeof *src);
    if (f->other) src[nsrc] = last->src[other];
    if (!lki_node_rewire(g, first, nsrc + f->other, src, same ? last->ndst : first->ndst, same ? last->dst : first->dst))
        return false;
    if (f->other && lki_is_cut(last->cut, other)) first->cut |= 1ull << nsrc;
    first->order = last->order;
    f->note(&first->attr);
    lki_node_remove(g, last);
    if (!same) lki_graph_alias(g, last->dst[0], first->dst[0]);
    return true;
}

static void fuse(lki_graph *g, const lki_fusion *f)
{
    for (int i = 0; i < g->node_count; i++) {
        lki_node *last = &g->nodes[i];
        if (last->dead || last->op != f->last || last->mode != LKI_EACH || last->nsrc > 2) continue;
        for (int operand = 0; operand < last->nsrc; operand++) {
            lki_node *first = lki_graph_maker_for(g, last, operand, f->first);
            if (first && first->mode == LKI_EACH && join(g, f, first, last, operand)) break;
        }
    }
}

void lki_graph_fuse(lki_graph *g, int count, const lki_fusion *table)
{
    for (int i = 0; i < count; i++)
        fuse(g, &table[i]);
}

/* ---- readers leave out what a gradient's op leaves out ---- */

static bool mask_reader(lki_graph *g, lki_node *n, const lki_node *last, int mask, bool cut)
{
    int src[MOST];
    if (n->nsrc >= MOST) return false;
    for (int i = 0; i < n->nsrc; i++)
        src[i] = n->src[i] == last->dst[0] ? last->src[0] : n->src[i];
    src[n->nsrc] = mask;
    if (!lki_node_rewire(g, n, n->nsrc + 1, src, n->ndst, n->dst)) return false;
    if (cut) n->cut |= 1ull << (n->nsrc - 1);
    n->attr.epilogue.relu = 1;
    return true;
}

bool lki_graph_mask_readers(lki_graph *g, lki_node *last, int mask, bool cut, lki_can_mask *can)
{
    int left = lki_graph_uses(g, last->dst[0]);
    for (int i = 0; i < g->node_count && left > 0; i++)
        left -= !g->nodes[i].dead && can(g, &g->nodes[i], last);
    if (left) return false;
    for (int i = 0; i < g->node_count; i++)
        if (!g->nodes[i].dead && can(g, &g->nodes[i], last)) mask_reader(g, &g->nodes[i], last, mask, cut);
    if (lki_graph_uses(g, last->dst[0])) return false; /* no memory for one of them: it reads what `last` makes, as before */
    lki_node_remove(g, last);
    return true;
}
