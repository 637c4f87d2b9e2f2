/* Making a recorded graph smaller without changing a bit of its results.
 *
 *   keep      a variable's old value that is still read after the variable was written gets memory of its own
 *   drop      nodes whose results nobody reads
 *   fuse      conv2d or matmul, then + bias, then relu, then a 2x2 max pool: one kernel with an epilogue. The sum is complete
 *             before the epilogue, so the bits are those of the separate ops. */
#include "core/memory.h"
#include "graph/graph.h"
#include <string.h>

typedef struct uses {
    int *count; /* by root value: reading operands of live nodes, and outputs */
    int *only;  /* the last such node */
} uses;

static lk_status count_uses(const lki_graph *g, uses *u)
{
    lki_release(u->count);
    u->count = lki_zalloc_array(lki_size_mul(2, g->value_count) + 1, sizeof *u->count);
    if (!u->count) return LK_ENOMEM;
    u->only = u->count + g->value_count;
    for (int i = 0; i < g->node_count; i++)
        for (int j = 0; j < g->nodes[i].nsrc && !g->nodes[i].dead; j++) {
            if (lki_shape_only(&g->nodes[i], j)) continue;
            int v = lki_graph_root(g, g->nodes[i].src[j]);
            u->count[v]++;
            u->only[v] = i;
        }
    for (int i = 0; i < g->output_count; i++) {
        int v = lki_graph_root(g, g->outputs[i]);
        u->count[v] += 2; /* never the only use */
    }
    return LK_OK;
}

/* ---- keep ---- */

/* Where version k of a variable is overwritten: the node that makes version k + 1. */
static int overwritten_at(const lki_graph *g, int value)
{
    const lki_value *old = &g->values[value];
    for (int i = 0; i < g->value_count; i++) {
        const lki_value *v = &g->values[i];
        if (v->kind == LKI_VALUE_VARIABLE && v->variable == old->variable && v->version == old->version + 1) return v->maker;
    }
    return -1;
}

static int copy_before(lki_graph *g, int value, int writer)
{
    static const lki_attr none;
    int                   node = lki_graph_add_node(g, LKI_OP_copy, &none, 1, &value, 1);
    if (node < 0) return -1;
    lki_value copy = g->values[value];
    copy.kind = LKI_VALUE_MADE;
    copy.maker = node;
    copy.variable = NULL;
    g->nodes[node].type = copy.dtype;
    g->nodes[node].order = g->nodes[writer].order - 1;
    return g->nodes[node].dst[0] = lki_graph_add_value(g, &copy);
}

static bool reads_after(const lki_graph *g, const lki_node *n, int writer) { return !n->dead && n->order > g->nodes[writer].order; }

static bool read_after(const lki_graph *g, int value, int writer)
{
    for (int i = 0; i < g->output_count; i++)
        if (lki_graph_root(g, g->outputs[i]) == value) return true;
    for (int i = 0; i < g->node_count; i++)
        for (int j = 0; j < g->nodes[i].nsrc; j++)
            if (reads_after(g, &g->nodes[i], writer) && lki_graph_root(g, g->nodes[i].src[j]) == value) return true;
    return false;
}

/* An operand that reads `value`, directly or through an alias, reads `copy` instead. */
static lk_status redirect(lki_graph *g, int *operand, int value, int copy)
{
    if (lki_graph_root(g, *operand) != value) return LK_OK;
    lki_value alias = g->values[*operand];
    alias.kind = LKI_VALUE_MADE;
    alias.alias_of = copy;
    alias.offset = lki_graph_offset(g, *operand);
    *operand = lki_graph_add_value(g, &alias);
    return *operand < 0 ? LK_ENOMEM : LK_OK;
}

static lk_status keep_old_versions(lki_graph *g)
{
    for (int value = 0, count = g->value_count; value < count; value++) {
        int writer = g->values[value].kind == LKI_VALUE_VARIABLE ? overwritten_at(g, value) : -1;
        if (writer < 0 || !read_after(g, value, writer)) continue;
        int copy = copy_before(g, value, writer);
        if (copy < 0) return LK_ENOMEM;
        for (int i = 0; i < g->node_count; i++)
            for (int j = 0; j < g->nodes[i].nsrc; j++)
                if (reads_after(g, &g->nodes[i], writer)) LKI_TRY(redirect(g, &g->nodes[i].src[j], value, copy));
        for (int i = 0; i < g->output_count; i++)
            LKI_TRY(redirect(g, &g->outputs[i], value, copy));
    }
    return LK_OK;
}

/* ---- drop ---- */

static lk_status drop_unused(lki_graph *g)
{
    bool *needed = lki_zalloc((size_t)g->value_count + 1);
    if (!needed) return LK_ENOMEM;
    for (int i = 0; i < g->output_count; i++)
        needed[lki_graph_root(g, g->outputs[i])] = true;
    for (bool again = true; again;) { /* copies are appended, so one sweep from the back may not be enough */
        again = false;
        for (int i = g->node_count - 1; i >= 0; i--) {
            lki_node *n = &g->nodes[i];
            bool      live = n->writes;
            for (int j = 0; j < n->ndst && !live; j++)
                live = needed[n->dst[j]];
            for (int j = 0; j < n->nsrc && live && !n->dead; j++) {
                int v = lki_graph_root(g, n->src[j]);
                if (lki_shape_only(n, j) || needed[v]) continue;
                needed[v] = true;
                again = true;
            }
        }
    }
    for (int i = 0; i < g->node_count; i++) {
        lki_node *n = &g->nodes[i];
        bool      live = n->writes;
        for (int j = 0; j < n->ndst && !live; j++)
            live = needed[n->dst[j]];
        if (!live) n->dead = true;
    }
    lki_release(needed);
    return LK_OK;
}

/* ---- fuse ---- */

static lki_node *only_reader(lki_graph *g, const uses *u, int value, lki_op op)
{
    if (u->count[value] != 1) return NULL;
    lki_node *n = &g->nodes[u->only[value]];
    return n->op == op && !n->dead && n->mode == LKI_EACH ? n : NULL;
}

/* Take over the results of `last`, a node that read only what `n` made. */
static void absorb(lki_graph *g, lki_node *n, lki_node *last)
{
    int *list = lki_alloc_array(n->nsrc + 1 + last->ndst, sizeof *list);
    if (!list) return; /* fusing is optional */
    memcpy(list, n->src, (size_t)n->nsrc * sizeof *list);
    if (last->op == LKI_OP_add) list[n->nsrc] = last->src[1];
    int nsrc = n->nsrc + (last->op == LKI_OP_add);
    memcpy(list + nsrc, last->dst, (size_t)last->ndst * sizeof *list);
    lki_release(n->src);
    n->src = list;
    n->dst = list + nsrc;
    n->nsrc = nsrc;
    n->ndst = last->ndst;
    n->order = last->order;
    for (int i = 0; i < n->ndst; i++)
        g->values[n->dst[i]].maker = (int)(n - g->nodes);
    n->attr.epilogue.bias |= last->op == LKI_OP_add;
    n->attr.epilogue.relu |= last->op == LKI_OP_relu;
    n->attr.epilogue.pool |= last->op == LKI_OP_max_pool;
    last->dead = true;
    g->fused++;
}

/* The joined node reads everything when `last` did; a variable n reads must not be written before that. */
bool lki_graph_may_wait(const lki_graph *g, const lki_node *n, const lki_node *last)
{
    for (int i = 0; i < n->nsrc; i++) {
        int root = lki_graph_root(g, n->src[i]), writer = g->values[root].kind == LKI_VALUE_VARIABLE ? overwritten_at(g, root) : -1;
        if (writer >= 0 && g->nodes[writer].order < last->order) return false;
    }
    return true;
}

static bool is_bias(const lki_graph *g, const lki_node *add, int of)
{
    const lki_value *bias = &g->values[add->src[1]], *y = &g->values[of];
    return add->src[0] == of && bias->shape.rank == 1 && y->shape.rank >= 2 &&
           bias->shape.dim[0] == y->shape.dim[y->shape.rank - 1] && bias->rows.kind != LKI_ROWS;
}

static bool is_two_by_two(const lki_node *pool, const lk_shape *image)
{
    const lki_window *w = &pool->attr.window;
    return w->size[0] == 2 && w->size[1] == 2 && w->stride[0] == 2 && w->stride[1] == 2 && w->pad[0] == 0 && w->pad[1] == 0 &&
           image->dim[1] >= 2 && image->dim[2] >= 2 && pool->attr.shape.dim[1] == image->dim[1] / 2 &&
           pool->attr.shape.dim[2] == image->dim[2] / 2;
}

static void fuse_epilogues(lki_graph *g, const uses *u)
{
    for (int i = 0; i < g->node_count; i++) {
        lki_node *n = &g->nodes[i];
        if (n->dead || n->mode != LKI_EACH || n->type != LK_F32 || (n->op != LKI_OP_conv2d && n->op != LKI_OP_matmul)) continue;
        if (n->op == LKI_OP_matmul && g->values[n->dst[0]].shape.rank != 2) continue;
        lki_node *next = only_reader(g, u, n->dst[0], LKI_OP_add);
        if (!next || !is_bias(g, next, n->dst[0]) || !lki_graph_may_wait(g, n, next)) continue;
        absorb(g, n, next);
        next = only_reader(g, u, n->dst[0], LKI_OP_relu);
        if (next && lki_graph_may_wait(g, n, next)) absorb(g, n, next);
        if (n->op != LKI_OP_conv2d) continue;
        next = only_reader(g, u, n->dst[0], LKI_OP_max_pool);
        if (next && is_two_by_two(next, &g->values[n->dst[0]].shape) && lki_graph_may_wait(g, n, next)) absorb(g, n, next);
    }
}

lk_status lki_graph_simplify(lki_graph *g)
{
    uses      u = {0};
    lk_status status = keep_old_versions(g);
    if (status == LK_OK) status = drop_unused(g);
    if (status == LK_OK) lki_graph_share(g);
    if (status == LK_OK) status = count_uses(g, &u);
    if (status == LK_OK) fuse_epilogues(g, &u);
    if (status == LK_OK) lki_graph_fuse_norms(g);
    if (status == LK_OK) lki_graph_fuse_relus(g);
    if (status == LK_OK) lki_graph_fuse_products(g);
    if (status == LK_OK) status = lki_graph_fuse_pools(g);
    if (status == LK_OK) lki_graph_fuse_updates(g);
    lki_release(u.count);
    return status;
}
