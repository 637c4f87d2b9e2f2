/* Finding, keeping and expanding echoes. */
#include "graph/echo.h"
#include "core/memory.h"
#include "op/run.h"
#include <string.h>

/* True if a node of replica 0 makes the value. */
static bool made_by_first(const lki_graph *g, int value)
{
    const lki_value *v = &g->values[value];
    return v->kind == LKI_VALUE_MADE && v->maker >= 0 && v->replica == 0;
}

/* Returns replica r's op at the place that the node has among the ops of replica 0. */
static const lki_replica_op *op_of(const lki_graph *g, int node, int r) { return &g->ops_of[r].place[g->nodes[node].place]; }

/* ---- operands, results, attributes and rows of an echo ---- */

int lki_echo_dst(const lki_graph *g, int node, int r, int d)
{
    const lki_node *n = &g->nodes[node];
    return lki_is_echo(n, r) ? op_of(g, node, r)->dst + d : n->dst[d];
}

int lki_graph_result(const lki_graph *g, int value)
{
    const lki_value *v = &g->values[value];
    const lki_node  *n = &g->nodes[v->maker];
    int              d = 0;
    if (v->replica > 0 && lki_is_echo(n, v->replica)) return value - op_of(g, v->maker, v->replica)->dst;
    while (n->dst[d] != value)
        d++;
    return d;
}

int lki_echo_src(const lki_graph *g, int node, int r, int j)
{
    const lki_node *n = &g->nodes[node];
    int             other = 0;
    if (!lki_is_echo(n, r)) return n->src[j];
    if (made_by_first(g, n->src[j])) return lki_echo_dst(g, g->values[n->src[j]].maker, r, lki_graph_result(g, n->src[j]));
    for (int i = 0; i < j; i++)
        other += !made_by_first(g, n->src[i]);
    return g->ops_of[r].others[op_of(g, node, r)->others + other];
}

/* True if an op on rows has the shape of its result as an attribute. This shape depends on the number of rows. */
static bool shape_is_of_rows(lki_mode mode, const lki_attr *attr, const lk_shape *shape)
{
    return mode == LKI_EACH && shape->rank && lki_shape_equal(&attr->shape, shape);
}

const lki_attr *lki_echo_attr(const lki_graph *g, int node, int r, lki_attr *room)
{
    const lki_node *n = &g->nodes[node];
    if (!lki_is_echo(n, r) || !shape_is_of_rows(n->mode, &n->attr, &g->values[n->dst[0]].shape)) return &n->attr;
    *room = n->attr;
    room->shape.dim[0] = g->values[lki_echo_dst(g, node, r, 0)].shape.dim[0];
    return room;
}

lki_rows lki_echo_rows(const lki_graph *g, int node, int r)
{
    const lki_node *n = &g->nodes[node];
    return lki_is_echo(n, r) ? g->values[lki_echo_dst(g, node, r, 0)].rows : n->rows;
}

/* ---- is an op an echo? ---- */

static bool same_attributes(const lki_graph *g, const lki_node *n, const lki_infer *f)
{
    const bool rows = shape_is_of_rows(n->mode, &n->attr, &g->values[n->dst[0]].shape);
    lk_shape   shape = f->attr->shape;
    if (rows != shape_is_of_rows(f->mode, f->attr, &f->shape[0])) return false;
    if (rows) shape.dim[0] = n->attr.shape.dim[0];
    return lki_shape_equal(&shape, &n->attr.shape) && f->attr->dtype == n->attr.dtype &&
           !memcmp((const char *)f->attr + offsetof(lki_attr, num), (const char *)&n->attr + offsetof(lki_attr, num),
                   sizeof n->attr - offsetof(lki_attr, num));
}

static bool same_operands(const lki_graph *g, const lki_node *n, const int *src, int r)
{
    for (int j = 0; j < n->nsrc; j++) {
        if (!made_by_first(g, n->src[j])) continue;
        const int maker = g->values[n->src[j]].maker;
        if (src[j] != lki_echo_dst(g, maker, r, lki_graph_result(g, n->src[j]))) return false;
    }
    return true;
}

static bool same_results(const lki_graph *g, const lki_node *n, const lki_infer *f)
{
    for (int d = 0; d < n->ndst; d++)
        if (g->values[n->dst[d]].dtype != f->dtype[d > 0]) return false;
    return n->rows.kind == f->rows.kind;
}

/* Called before the first echo is added: makes room for the results of all echoes. */
static bool reserve(lki_graph *g)
{
    const int64_t results = (int64_t)g->ops_of[0].count * (g->replicas - 1);
    return lki_grow((void **)&g->values, &g->value_capacity, (int)lki_min(g->value_count + results + 1, INT32_MAX),
                    sizeof *g->values);
}

lk_status lki_echo_find(lki_graph *g, const lki_infer *f, const int *src, int r, int *node)
{
    const lki_replica_ops *first = g->ops_of;
    *node = -1;
    if (!first) return LK_OK;
    const int       k = g->ops_of[r].count, at = k < first->count ? first->place[k].node : -1;
    const lki_node *n = at < 0 ? NULL : &g->nodes[at];
    const bool      alike = n && n->op == f->op && n->type == lki_kernel_type(f) && n->writes == (f->nvar > 0);
    if (alike && n->writes) return LK_OK;
    if (!alike || !f->ndst || n->nsrc != f->nsrc || n->ndst != f->ndst || n->mode != f->mode || n->cut != f->cut ||
        !same_results(g, n, f) || !same_attributes(g, n, f) || !same_operands(g, n, src, r))
        return lki_echo_expand(g);
    *node = at;
    return k || r > 1 || reserve(g) ? LK_OK : LK_ENOMEM;
}

/* ---- storing an echo ---- */

bool lki_echo_note(lki_graph *g, int r, int node, int dst, const int *src)
{
    const lki_node  *n = &g->nodes[node];
    lki_replica_ops *s = g->ops_of ? &g->ops_of[r] : NULL;
    if (!s) return true;
    if (!lki_grow((void **)&s->place, &s->capacity, s->count + 1, sizeof *s->place)) return false;
    if (!lki_grow((void **)&s->others, &s->other_capacity, s->other_count + n->nsrc + 1, sizeof *s->others)) return false;
    s->place[s->count] = (lki_replica_op){node, g->node_count, dst, s->other_count};
    if (n->replica == r) g->nodes[node].place = s->count;
    for (int j = 0; j < n->nsrc && lki_is_echo(n, r); j++)
        if (!made_by_first(g, n->src[j])) s->others[s->other_count++] = src[j];
    s->count++;
    return true;
}

void lki_echo_clear(lki_graph *g)
{
    for (int r = 0; r < g->replicas && g->ops_of; r++) {
        lki_release(g->ops_of[r].place);
        lki_release(g->ops_of[r].others);
    }
    lki_release(g->ops_of);
    g->ops_of = NULL;
}

/* ---- listing all ops ---- */

/* Finds the echo that comes next in the list. at[r] is the place of the next op of replica r; it is moved past ops that are nodes.
 * Among the next echoes of all replicas, the one that was recorded first comes next, which is the one with the smallest number of
 * its first result: every echo has a result, and values are numbered in the order in which they are made. Echoes that were recorded
 * when there were more than `nodes` nodes do not count. Returns the replica of this echo; 0: there is none. */
static int next_echo(const lki_graph *g, int replicas, int nodes, int *at)
{
    const lki_replica_op *first = NULL;
    int                   next = 0;
    for (int r = 1; r < replicas; r++) {
        const lki_replica_ops *s = &g->ops_of[r];
        while (at[r] < s->count && !lki_is_echo(&g->nodes[s->place[at[r]].node], r))
            at[r]++;
        const lki_replica_op *op = at[r] < s->count ? &s->place[at[r]] : NULL;
        if (!op || op->after > nodes || (first && op->dst > first->dst)) continue;
        first = op;
        next = r;
    }
    return next;
}

int lki_echo_events(const lki_graph *g, lki_recorded_op **out)
{
    const int replicas = g->ops_of ? g->replicas : 1;
    int       count = 0, *at = lki_zalloc_array(replicas, sizeof *at);
    *out = lki_alloc_array(lki_size_mul(g->node_count + 1, replicas), sizeof **out);
    for (int i = 0; i <= g->node_count && at && *out; i++) {
        for (int r; (r = next_echo(g, replicas, i, at));)
            (*out)[count++] = (lki_recorded_op){g->ops_of[r].place[at[r]++].node, r};
        if (i < g->node_count) (*out)[count++] = (lki_recorded_op){i, g->nodes[i].replica};
    }
    if (!at || !*out) {
        lki_release(*out);
        *out = NULL;
        count = -1;
    }
    lki_release(at);
    return count;
}

/* ---- making nodes of echoes ---- */

/* Adds a node for replica r's echo of a node of replica 0, with the echo's operands and results. */
static bool own_node(lki_graph *to, const lki_graph *g, int node, int r)
{
    const lki_node *n = &g->nodes[node];
    lki_attr        room;
    const int       at = lki_graph_add_node(to, n->op, lki_echo_attr(g, node, r, &room), n->nsrc, n->src, n->ndst);
    if (at < 0) return false;
    lki_node *own = &to->nodes[at];
    own->slot = n->slot;
    own->type = n->type;
    own->mode = n->mode;
    own->cut = n->cut;
    own->rows = lki_echo_rows(g, node, r);
    own->replica = r;
    own->dead = n->dead;
    for (int j = 0; j < n->nsrc; j++)
        own->src[j] = lki_echo_src(g, node, r, j);
    for (int d = 0; d < n->ndst; d++)
        own->dst[d] = lki_echo_dst(g, node, r, d);
    return true;
}

/* Adds a copy of a node, with lists of operands and results of its own. */
static bool copy_node(lki_graph *to, const lki_node *n)
{
    const int at = lki_graph_add_node(to, n->op, &n->attr, n->nsrc, n->src, n->ndst);
    if (at < 0) return false;
    lki_node *copy = &to->nodes[at];
    int      *src = copy->src, order = copy->order;
    memcpy(src + n->nsrc, n->dst, (size_t)n->ndst * sizeof *n->dst);
    *copy = *n;
    copy->src = src;
    copy->dst = src + n->nsrc;
    copy->order = order;
    return true;
}

static bool add_all(lki_graph *to, const lki_graph *g)
{
    lki_recorded_op *events;
    const int        count = lki_echo_events(g, &events);
    bool             good = count >= 0;
    for (int i = 0; i < count && good; i++) {
        const lki_node *n = &g->nodes[events[i].node];
        good = lki_is_echo(n, events[i].replica) ? own_node(to, g, events[i].node, events[i].replica) : copy_node(to, n);
    }
    lki_release(events);
    return good;
}

lk_status lki_echo_expand(lki_graph *g)
{
    lki_graph *to = g->ops_of ? lki_graph_new() : NULL;
    if (!g->ops_of) return LK_OK;
    if (!to || !add_all(to, g)) return lki_graph_free(to), LK_ENOMEM;
    for (int i = 0; i < to->node_count; i++)
        for (int d = 0; d < to->nodes[i].ndst; d++)
            g->values[to->nodes[i].dst[d]].maker = i;
    const lki_graph old = *g;
    g->nodes = to->nodes;
    g->node_count = to->node_count;
    g->node_capacity = to->node_capacity;
    to->nodes = old.nodes;
    to->node_count = old.node_count;
    lki_echo_clear(g);
    lki_graph_free(to);
    return LK_OK;
}

lk_status lki_echo_check(lki_graph *g)
{
    for (int r = 1; r < g->replicas && g->ops_of; r++)
        if (g->ops_of[r].count != g->ops_of[0].count) return lki_echo_expand(g);
    return LK_OK;
}
