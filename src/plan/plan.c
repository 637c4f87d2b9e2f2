/* A plan's life: made from a graph by an executor, replayed many times, freed. */
#include "plan/plan.h"
#include "core/log.h"
#include "core/memory.h"
#include "plan/executor.h"

/* In this order they are asked. */
static const lki_executor *const executors[] = {&lki_shard_executor, &lki_card_executor, &lki_cpu_executor};
static const lki_executor       *first;

const lki_executor *lki_executor_first(const lki_executor *e) { return __atomic_exchange_n(&first, e, __ATOMIC_ACQ_REL); }

static const lki_executor *executor_of(const lki_graph *g, const lki_device *device)
{
    const lki_executor *e = __atomic_load_n(&first, __ATOMIC_ACQUIRE);
    if (e && e->suits(g, device)) return e;
    for (int i = 0; i < LKI_COUNT(executors); i++)
        if (executors[i]->suits(g, device)) return executors[i];
    return &lki_cpu_executor;
}

/* Of the rows its nodes work on: a strategy may have a number of its own. */
static int lanes_of(const lki_graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        if (!g->nodes[i].dead && g->nodes[i].mode != LKI_WHOLE && g->nodes[i].rows.lanes > 0) return g->nodes[i].rows.lanes;
    return lk_lanes();
}

/* Where ops were recorded; a GPU, if a variable is on one. */
static lki_device *device_of(const lki_graph *g)
{
    lki_device *d = g->device ? g->device : lki_device_current();
    if (g->scattered) return d;
    for (int i = 0; i < g->variable_count && lki_on_host(d); i++)
        if (!lki_on_host(g->variables[i].variable->buffer->device)) d = g->variables[i].variable->buffer->device;
    return d;
}

static lk_status prepare(lki_plan *p)
{
    char why[LKI_WHY] = "";
    LKI_TRY(lki_graph_collapse(&p->graph));
    p->device = device_of(p->graph);
    p->executor = executor_of(p->graph, p->device);
    if (!p->graph->apart || !p->graph->scattered) {
        LKI_TRY(lki_graph_simplify(p->graph));
        if (p->executor->rewrite) LKI_TRY(p->executor->rewrite(p));
    }
    p->lanes = lanes_of(p->graph);
    const lk_status status = p->executor->accepts ? p->executor->accepts(p, why) : LK_OK;
    if (status == LK_EUNSUPPORTED) lki_tell(LKI_TOPIC_LANES, "%s: it runs op by op on its cards: %s", p->graph->name, why);
    return status == LK_OK ? p->executor->prepare(p) : status;
}

lki_plan *lki_plan_new(lki_graph *g, int threads)
{
    lki_plan *p = lki_zalloc(sizeof *p);
    if (!p) {
        lki_graph_free(g);
        return NULL;
    }
    p->graph = g;
    p->threads = threads;
    if (prepare(p) == LK_OK) return p;
    lki_plan_free(p);
    return NULL;
}

void lki_plan_free(lki_plan *p)
{
    if (!p) return;
    if (p->executor) p->executor->free(p);
    lki_graph_free(p->graph);
    lki_release(p);
}

lk_status lki_plan_replay(lki_plan *p, const lki_value_list *in, lk_tensor *const *out) { return p->executor->replay(p, in, out); }

lk_function_info lki_plan_info(const lki_plan *p)
{
    lk_function_info info = {.ops = p->graph->recorded, .fused = p->graph->fused};
    p->executor->info(p, &info);
    return info;
}

lk_status lki_plan_free_variables(const lki_plan *p)
{
    for (int i = 0; i < p->graph->variable_count; i++) {
        const lki_graph_variable *v = &p->graph->variables[i];
        bool                      held = v->variable->readers || v->variable->buffer->twins;
        if (v->version > 0 && held && !lki_variable_storage(v->variable)) return lk_error_code();
    }
    return LK_OK;
}
