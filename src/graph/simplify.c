/* Making a recorded graph smaller, on every device and without changing a bit of its results.
 *
 *   turn      axes that are put into another order and back again stay
 *   keep      a variable's old value that is still read after the variable was written gets memory of its own
 *   drop      nodes whose results are not read
 *   share     what is computed twice is computed once (share.c)
 *   fuse      conv2d or matmul, then + bias, then relu, then a 2x2 max pool: one kernel with an epilogue. The sum is complete
 *             before the epilogue, so the bits are those of the separate ops. */
#include "core/memory.h"
#include "graph/rewrite.h"
#include <limits.h>

/* ---- turn ---- */

/* The node that makes all elements of a value, in its shape; NULL: an input, a variable or a constant. */
static lki_node *maker_of(const lki_graph *g, int value)
{
    const int        root = lki_graph_root(g, value);
    const lki_value *v = &g->values[root];
    const bool       whole = !lki_graph_is_range(g, value) && lki_graph_same_shape(g, value, root);
    return whole && v->kind == LKI_VALUE_MADE && v->maker >= 0 ? &g->nodes[v->maker] : NULL;
}

/* True if the second transpose puts the axes back where they were before the first, and rows stay rows in between. */
static bool turns_back(const lki_node *first, const lki_node *second, int rank)
{
    if (first->mode != second->mode || first->attr.perm.axis[0] != 0) return false;
    for (int i = 0; i < rank; i++)
        if (first->attr.perm.axis[second->attr.perm.axis[i]] != i) return false;
    return true;
}

/* Layers with channels first move them at both of their ends. */
static void drop_turns(lki_graph *g)
{
    for (int i = 0; i < g->node_count; i++) {
        lki_node       *second = &g->nodes[i];
        const lki_node *first = second->op == LKI_OP_transpose && !second->dead ? maker_of(g, second->src[0]) : NULL;
        if (!first || first->dead || first->op != LKI_OP_transpose || !maker_of(g, first->src[0]) ||
            !turns_back(first, second, g->values[second->dst[0]].shape.rank))
            continue;
        lki_graph_alias(g, second->dst[0], first->src[0]);
        lki_node_remove(g, second);
    }
}

/* ---- keep ---- */

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

/* By root value: the order of the last node that reads it; INT_MAX: an output does. NULL without memory. */
static int *last_readers(const lki_graph *g)
{
    int *last = lki_alloc_array(g->value_count + 1, sizeof *last);
    for (int v = 0; last && v < g->value_count; v++)
        last[v] = -1;
    for (int i = 0; last && i < g->node_count; i++)
        for (int j = 0; j < g->nodes[i].nsrc && !g->nodes[i].dead; j++) {
            const int root = lki_graph_root(g, g->nodes[i].src[j]);
            if (g->nodes[i].order > last[root]) last[root] = g->nodes[i].order;
        }
    for (int i = 0; last && i < g->output_count; i++)
        last[lki_graph_root(g, g->outputs[i])] = INT_MAX;
    return last;
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

static lk_status keep_old_version(lki_graph *g, int value, int writer)
{
    const int copy = copy_before(g, value, writer);
    if (copy < 0) return LK_ENOMEM;
    for (int i = 0; i < g->node_count; i++)
        for (int j = 0; j < g->nodes[i].nsrc; j++)
            if (reads_after(g, &g->nodes[i], writer)) LKI_TRY(redirect(g, &g->nodes[i].src[j], value, copy));
    for (int i = 0; i < g->output_count; i++)
        LKI_TRY(redirect(g, &g->outputs[i], value, copy));
    return LK_OK;
}

static lk_status keep_old_versions(lki_graph *g)
{
    int      *last = last_readers(g);
    lk_status status = last ? LK_OK : LK_ENOMEM;
    for (int value = 0, count = g->value_count; value < count && status == LK_OK; value++) {
        const int writer = lki_graph_writer_after(g, value);
        if (writer >= 0 && last[value] > g->nodes[writer].order) status = keep_old_version(g, value, writer);
    }
    lki_release(last);
    return status;
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

static bool is_bias(const lki_graph *g, const lki_node *first, const lki_node *add, int operand)
{
    const lki_value *bias = &g->values[add->src[1]], *y = &g->values[first->dst[0]];
    return first->type == LK_F32 && operand == 0 && !first->attr.epilogue.bias && bias->shape.rank == 1 && y->shape.rank >= 2 &&
           bias->shape.dim[0] == y->shape.dim[y->shape.rank - 1] && bias->rows.kind != LKI_ROWS;
}

static bool is_matrix_bias(const lki_graph *g, const lki_node *first, const lki_node *add, int operand)
{
    return g->values[first->dst[0]].shape.rank == 2 && is_bias(g, first, add, operand);
}

static bool has_bias_alone(const lki_graph *g, const lki_node *first, const lki_node *relu, int operand)
{
    const lki_epilogue *e = &first->attr.epilogue;
    (void)g, (void)relu, (void)operand;
    return e->bias && !e->relu && !e->pool;
}

static bool is_two_by_two(const lki_graph *g, const lki_node *conv, const lki_node *pool, int operand)
{
    const lki_window *w = &pool->attr.window;
    const lk_shape   *image = &g->values[conv->dst[0]].shape;
    (void)operand;
    return conv->attr.epilogue.bias && !conv->attr.epilogue.pool && w->size[0] == 2 && w->size[1] == 2 && w->stride[0] == 2 &&
           w->stride[1] == 2 && w->pad[0] == 0 && w->pad[1] == 0 && image->dim[1] >= 2 && image->dim[2] >= 2 &&
           pool->attr.shape.dim[1] == image->dim[1] / 2 && pool->attr.shape.dim[2] == image->dim[2] / 2;
}

static void note_bias(lki_attr *a) { a->epilogue.bias = 1; }
static void note_relu(lki_attr *a) { a->epilogue.relu = 1; }
static void note_pool(lki_attr *a) { a->epilogue.pool = 1; }

void lki_graph_fuse_epilogues(lki_graph *g)
{
    static const lki_fusion table[] = {
        {LKI_OP_conv2d, LKI_OP_add, true, false, is_bias, note_bias},
        {LKI_OP_matmul, LKI_OP_add, true, false, is_matrix_bias, note_bias},
        {LKI_OP_conv2d, LKI_OP_relu, false, true, has_bias_alone, note_relu},
        {LKI_OP_matmul, LKI_OP_relu, false, true, has_bias_alone, note_relu},
        {LKI_OP_conv2d, LKI_OP_max_pool, false, false, is_two_by_two, note_pool},
    };
    lki_graph_fuse(g, LKI_COUNT(table), table);
}

/* ---- all of it ---- */

lk_status lki_graph_simplify(lki_graph *g)
{
    drop_turns(g);
    LKI_TRY(keep_old_versions(g));
    LKI_TRY(drop_unused(g));
    lki_graph_count_uses(g);
    return lki_graph_share(g);
}

void lki_graph_fuse_all(lki_graph *g)
{
    lki_graph_fuse_epilogues(g);
    lki_graph_fuse_norms(g);
    lki_graph_fuse_relus(g);
    lki_graph_fuse_biases(g);
}
