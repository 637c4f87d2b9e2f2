/* A graph as it is recorded: ops become nodes, tensors values. */
#include "core/memory.h"
#include "graph/echo.h"
#include "op/replica.h"
#include "op/run.h"
#include <stdio.h>
#include <string.h>

/* ---- building ---- */

int lki_graph_add_value(lki_graph *g, const lki_value *v)
{
    if (!lki_grow((void **)&g->values, &g->value_capacity, g->value_count + 1, sizeof *v)) return -1;
    g->values[g->value_count] = *v;
    return g->value_count++;
}

int lki_graph_add_node(lki_graph *g, lki_op op, const lki_attr *attr, int nsrc, const int *src, int ndst)
{
    if (!lki_grow((void **)&g->nodes, &g->node_capacity, g->node_count + 1, sizeof(lki_node))) return -1;
    lki_node n = {.op = op,
                  .slot = lki_op_line(op)->slot,
                  .attr = *attr,
                  .nsrc = nsrc,
                  .ndst = ndst,
                  .order = 2 * g->node_count,
                  .replica = -1};
    n.src = lki_alloc_array(nsrc + ndst + 1, sizeof *n.src);
    if (!n.src) return -1;
    n.dst = n.src + nsrc;
    memcpy(n.src, src, (size_t)nsrc * sizeof *src);
    g->nodes[g->node_count] = n;
    return g->node_count++;
}

int lki_graph_root(const lki_graph *g, int v)
{
    while (g->values[v].alias_of >= 0)
        v = g->values[v].alias_of;
    return v;
}

int64_t lki_graph_offset(const lki_graph *g, int v)
{
    int64_t offset = 0;
    for (; g->values[v].alias_of >= 0; v = g->values[v].alias_of)
        offset += g->values[v].offset;
    return offset;
}

bool lki_shape_only(const lki_node *n, int operand)
{
    bool draws = n->op == LKI_OP_random_uniform || n->op == LKI_OP_random_normal;
    return operand == 1 && (draws || n->op == LKI_OP_broadcast_like);
}

const char *lki_node_text(const lki_node *n, char text[LKI_NODE_TEXT])
{
    const lki_epilogue *e = &n->attr.epilogue;
    snprintf(text, LKI_NODE_TEXT, "%.40s%s%s%s", lki_op_name(n->op), e->bias ? " +bias" : "", e->relu ? " +relu" : "",
             e->pool ? " +pool" : "");
    return text;
}

bool lki_may_fault(const lki_node *n) { return lki_slot_may_fault(n->slot, n->type); }

/* ---- tracing ---- */

static lki_graph *graph_of(lki_tracer *t) { return (lki_graph *)((char *)t - offsetof(lki_graph, tracer)); }

int lki_graph_value_of(lki_graph *g, lk_tensor *t)
{
    if (t->graph == g->token) return t->value;
    if (t->graph) {
        lki_fail(LK_ESTATE, "a tensor of another traced function is used here; pass it as an argument instead");
        return -1;
    }
    if (lki_tensor_detach(t) != LK_OK) return -1; /* the plan will point at its data */
    lki_value v = {.kind = LKI_VALUE_CONSTANT,
                   .dtype = t->dtype,
                   .shape = t->shape,
                   .rows = t->rows,
                   .maker = -1,
                   .alias_of = -1,
                   .replica = -1,
                   .constant = t};
    int       at = lki_graph_add_value(g, &v);
    if (at >= 0) lki_retain(t);
    return at;
}

static bool operand_values(lki_graph *g, int count, lk_tensor *const *src, int *out)
{
    for (int i = 0; i < count; i++)
        if ((out[i] = lki_graph_value_of(g, src[i])) < 0) return false;
    return true;
}

static lki_graph_variable *find_variable(lki_graph *g, lk_variable *v)
{
    const int *entry = lki_map_find(&g->entry_of, (uintptr_t)v);
    return entry ? &g->variables[*entry] : NULL;
}

static lki_value variable_value(lk_variable *v, int version, int entry, int maker)
{
    return (lki_value){.kind = LKI_VALUE_VARIABLE,
                       .dtype = v->dtype,
                       .shape = v->shape,
                       .maker = maker,
                       .alias_of = -1,
                       .replica = -1,
                       .version = version,
                       .entry = entry,
                       .next = -1,
                       .variable = v};
}

lki_graph_variable *lki_graph_enter(lki_graph *g, lk_variable *v)
{
    lki_graph_variable *entry = find_variable(g, v);
    if (entry) return entry;
    if (!lki_grow((void **)&g->variables, &g->variable_capacity, g->variable_count + 1, sizeof *entry)) return NULL;
    lki_value value = variable_value(v, 0, g->variable_count, -1);
    int       at = lki_graph_add_value(g, &value);
    if (at < 0 || !lki_map_put(&g->entry_of, (uintptr_t)v, g->variable_count)) return NULL;
    entry = &g->variables[g->variable_count++];
    *entry = (lki_graph_variable){lki_retain(v), 0, at, at};
    return entry;
}

int lki_graph_write(lki_graph *g, lk_variable *v, int node)
{
    lki_graph_variable *entry = find_variable(g, v);
    lki_value           next = variable_value(v, entry->version + 1, (int)(entry - g->variables), node);
    int                 at = lki_graph_add_value(g, &next);
    if (at < 0) return -1;
    entry->version++;
    g->values[entry->value].next = at;
    return entry->value = at;
}

static lk_tensor *trace_read(lki_tracer *tracer, lk_variable *v)
{
    lki_graph          *g = graph_of(tracer);
    lki_graph_variable *entry = lki_graph_enter(g, v);
    if (!entry) return &lki_poison;
    const lki_value *value = &g->values[entry->value];
    return lki_tensor_traced(value->dtype, &value->shape, &value->rows, g->token, entry->value);
}

/* The id of this thread's replica; -1 if there is only one replica, or outside replica context. */
static int replica_here(void)
{
    const lki_replica *r = lki_replica_current();
    return r && r->count > 1 ? r->id : -1;
}

/* Before a replica records anything. */
static lk_status begin_replica(lki_graph *g)
{
    const int count = lki_replica_current()->count;
    if (g->replicas == count) return LK_OK;
    if (g->replicas) {
        LKI_TRY(lki_echo_expand(g));
        g->several_numbers = true;
    } else if (!g->tracer.roots && !(g->ops_of = lki_zalloc_array(count, sizeof *g->ops_of))) return LK_ENOMEM;
    g->replicas = count;
    return LK_OK;
}

static void note_where(lki_graph_where *w, const lki_replica *r)
{
    if (!w->device) {
        w->device = lki_zalloc_array(r->count, sizeof *w->device);
        if (!w->device) return;
        w->count = r->count;
        w->strategy = r->strategy;
        w->sending = r->sending;
    }
    if (r->id < w->count) w->device[r->id] = lki_device_current();
}

/* The graph's device is that of the first op of a replica; if no replica records, that of the first op. */
static void note_device(lki_graph *g)
{
    lki_device *here = lki_device_current();
    bool        inside = lki_replica_current() != NULL;
    if (inside) note_where(&g->where, lki_replica_current());
    if (g->device && g->of_replica && inside && !lki_same_memory(g->device, here)) g->scattered = true;
    if (g->device && (g->of_replica || !inside)) return;
    g->device = here;
    g->of_replica = inside;
}

static void note_precision(lki_graph *g)
{
    const lki_precision own = lki_precision_own();
    if (own == LKI_PRECISIONS) return;
    if (g->own_precision && g->precision != own) g->two_precisions = true;
    g->precision = own;
    g->own_precision = true;
}

/* Finds the node of an op on operands src: a new one or, if the op is an echo (echo.h), the node of replica 0 that it repeats. */
static lk_status enter_node(lki_graph *g, const lki_infer *f, int nsrc, const int *src, int ndst, int *node)
{
    const int r = replica_here();
    *node = -1;
    if (r >= 0) LKI_TRY(begin_replica(g));
    if (r > 0) LKI_TRY(lki_echo_find(g, f, src, r, node));
    note_device(g);
    note_precision(g);
    if (*node >= 0) return LK_OK;
    if ((*node = lki_graph_add_node(g, f->op, f->attr, nsrc, src, ndst)) < 0) return LK_ENOMEM;
    lki_node *n = &g->nodes[*node];
    n->type = lki_kernel_type(f);
    n->mode = f->mode;
    n->cut = f->cut;
    n->rows = f->rows;
    n->replica = r;
    n->writes = f->nvar > 0;
    return LK_OK;
}

/* Results that are tensors: values of this replica. An alias has nothing to run. */
static lk_status make_results(lki_graph *g, const lki_infer *f, const int *src, int node, lk_tensor **dst)
{
    const bool alias = g->nodes[node].slot == LKI_K_none;
    const int  r = replica_here();
    for (int i = 0; i < f->ndst; i++) {
        lki_value v = {.kind = LKI_VALUE_MADE,
                       .dtype = f->dtype[i > 0],
                       .shape = f->shape[i > 0],
                       .rows = f->rows,
                       .maker = node,
                       .alias_of = alias ? src[0] : -1,
                       .replica = r};
        int       at = lki_graph_add_value(g, &v);
        if (at < 0) return LK_ENOMEM;
        if (g->nodes[node].replica == r) g->nodes[node].dst[i] = at;
        dst[i] = lki_tensor_traced(v.dtype, &v.shape, &v.rows, g->token, at);
        if (lki_bad(dst[i])) return LK_ENOMEM;
    }
    g->nodes[node].dead = alias;
    return LK_OK;
}

enum { FEW_OPERANDS = 20 };

static lk_status trace_op(lki_tracer *tracer, const lki_infer *f, lk_tensor **dst)
{
    lki_graph *g = graph_of(tracer);
    int        few[FEW_OPERANDS], *src = f->nsrc <= FEW_OPERANDS ? few : lki_alloc_array(f->nsrc, sizeof *src), node;
    lk_status  status = src && operand_values(g, f->nsrc, f->src, src) ? LK_OK : LK_ENOMEM;
    if (status == LK_OK) status = enter_node(g, f, f->nsrc, src, f->ndst, &node);
    const int first = g->value_count;
    if (status == LK_OK) status = make_results(g, f, src, node, dst);
    if (status == LK_OK && replica_here() >= 0 && !lki_echo_note(g, replica_here(), node, first, src)) status = LK_ENOMEM;
    if (src != few) lki_release(src);
    return status;
}

/* Operands, and before them the variable itself if the op reads it. */
static lk_status enter_update(lki_graph *g, const lki_infer *f, int *node)
{
    const int own = lki_reads_own_variable(f->op), count = f->nsrc + own;
    int       few[FEW_OPERANDS], *src = count <= FEW_OPERANDS ? few : lki_alloc_array(count, sizeof *src);
    lk_status status = src && operand_values(g, f->nsrc, f->src, src + own) ? LK_OK : LK_ENOMEM;
    if (status == LK_OK && own) src[0] = find_variable(g, f->var[0])->value;
    if (status == LK_OK) status = enter_node(g, f, count, src, f->nvar, node);
    if (status == LK_OK && replica_here() >= 0 && !lki_echo_note(g, replica_here(), *node, -1, src)) status = LK_ENOMEM;
    if (src != few) lki_release(src);
    return status;
}

static lk_status trace_update(lki_tracer *tracer, const lki_infer *f)
{
    lki_graph *g = graph_of(tracer);
    int        node;
    for (int i = 0; i < f->nvar; i++)
        if (!lki_graph_enter(g, f->var[i])) return LK_ENOMEM;
    LKI_TRY(enter_update(g, f, &node));
    for (int i = 0; i < f->nvar; i++)
        if ((g->nodes[node].dst[i] = lki_graph_write(g, f->var[i], node)) < 0) return LK_ENOMEM;
    return LK_OK;
}

lki_graph *lki_graph_new(void)
{
    static uintptr_t last;
    lki_graph       *g = lki_zalloc(sizeof *g);
    if (!g) return NULL;
    g->tracer = (lki_tracer){.op = trace_op, .update = trace_update, .read = trace_read, .same = lki_graph_same};
    g->precision = lki_precision_now();
    g->token = (void *)__atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    return g;
}

void lki_graph_free(lki_graph *g)
{
    if (!g) return;
    lki_echo_clear(g);
    for (int i = 0; i < g->node_count; i++)
        lki_release(g->nodes[i].src);
    for (int i = 0; i < g->value_count; i++)
        lki_drop(g->values[i].constant);
    for (int i = 0; i < g->variable_count; i++)
        lki_drop(g->variables[i].variable);
    lki_release(g->nodes);
    lki_release(g->values);
    lki_release(g->variables);
    lki_map_clear(&g->entry_of);
    lki_release(g->outputs);
    lki_release(g->results);
    lki_release(g->where.device);
    lki_release(g);
}
