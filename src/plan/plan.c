/* A plan's life: made from a graph, replayed many times, freed. Replay allocates nothing. */
#include "plan/plan.h"
#include "core/log.h"
#include "format/trace.h"
#include "op/run.h"
#include "plan/card/card.h"
#include "plan/shard/cards.h"
#include <string.h>

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
    for (int i = 0; i < g->variable_count && lki_on_host(d); i++)
        if (!lki_on_host(g->variables[i].variable->buffer->device)) d = g->variables[i].variable->buffer->device;
    return d;
}

/* Replicas on several cards. LK_EUNSUPPORTED, and no error: op by op then. */
static lk_status prepare_cards(lki_plan *p)
{
    char       why[LKI_PARTS_WHY] = "its replicas do not do what one device would";
    const bool apart = p->graph->apart;
    if (!apart) LKI_TRY(lki_graph_simplify(p->graph));
    p->lanes = lanes_of(p->graph);
    p->device = p->graph->device;
    p->threads = 1;
    const lk_status status = apart ? LK_EUNSUPPORTED : lki_cards_new(p, &p->cards, why);
    if (status == LK_EUNSUPPORTED) lki_tell(LKI_TOPIC_LANES, "%s: it runs op by op on its cards: %s", p->graph->name, why);
    return status;
}

static lk_status prepare(lki_plan *p)
{
    const bool scattered = p->graph->scattered;
    LKI_TRY(lki_graph_collapse(&p->graph));
    if (scattered) return prepare_cards(p);
    LKI_TRY(lki_graph_simplify(p->graph));
    p->lanes = lanes_of(p->graph);
    p->device = device_of(p->graph);
    if (!lki_on_host(p->device)) p->threads = 1;
    LKI_TRY(lki_plan_schedule(p));
    if (!lki_on_host(p->device)) return (p->card = lki_card_new(p, p->device, NULL)) ? LK_OK : lk_error_code();
    for (int v = 0; v < p->graph->value_count; v++) /* constants may lie on a card */
        if (p->graph->values[v].kind == LKI_VALUE_CONSTANT && !lki_host_data(p->graph->values[v].constant)) return lk_error_code();
    LKI_TRY(lki_plan_memory(p));
    return lki_plan_emit(p);
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
    lki_barrier_init(&p->barrier, threads);
    if (prepare(p) == LK_OK) return p;
    lki_plan_free(p);
    return NULL;
}

void lki_plan_free(lki_plan *p)
{
    if (!p) return;
    lki_card_free(p->card);
    lki_cards_free(p->cards);
    for (int t = 0; t < p->threads && p->calls; t++)
        lki_release(p->calls[t]);
    lki_release(p->calls);
    lki_release(p->call_count);
    lki_release(p->patches);
    lki_release(p->faults);
    lki_release(p->suspects);
    lki_release(p->tasks);
    lki_release(p->maker);
    lki_release(p->storage);
    lki_release(p->shared);
    lki_release(p->scratch);
    lki_release(p->thread_block);
    lki_arena_clear(&p->arena);
    lki_graph_free(p->graph);
    lki_release(p);
}

/* ---- replay ---- */

/* Did anything that ran up to the end of this phase meet an index out of range? Faults of phases that are over do not change any
 * more, so all threads get the same answer. */
static bool faulted(const lki_plan *p, int phase)
{
    for (int i = 0; i < p->suspect_count; i++)
        if (p->suspects[i].phase <= phase && __atomic_load_n(&p->faults[p->suspects[i].node], __ATOMIC_RELAXED)) return true;
    return false;
}

/* The same as below, noting what takes how long. */
static void replay_traced(void *plan, int thread)
{
    lki_plan *p = plan;
    int       phase = 0;
    unsigned  before = lki_fp_enter();
    for (int i = 0; i < p->call_count[thread]; i++) {
        const lki_call *call = &p->calls[thread][i];
        int64_t         began = lki_span_begin();
        if (call->fn) call->fn(&call->args);
        else lki_barrier_wait(&p->barrier);
        lki_span_end(began, call->fn && !call->shared ? LKI_SPAN_COMPUTE : LKI_SPAN_COMMUNICATION, call->fn ? call->name : "wait",
                     call->lane);
        if (!call->fn && faulted(p, phase++)) break;
    }
    lki_fp_leave(before);
}

/* After a fault every thread stops at the end of the phase; variables are written in later ones. */
static void replay_thread(void *plan, int thread)
{
    lki_plan *p = plan;
    int       phase = 0;
    unsigned  before = lki_fp_enter();
    for (int i = 0; i < p->call_count[thread]; i++) {
        const lki_call *call = &p->calls[thread][i];
        if (call->fn) {
            call->fn(&call->args);
            continue;
        }
        lki_barrier_wait(&p->barrier);
        if (faulted(p, phase++)) break;
    }
    lki_fp_leave(before);
}

/* Tensors still reading a variable that will be written move away first. */
static lk_status free_variables(const lki_plan *p)
{
    for (int i = 0; i < p->graph->variable_count; i++) {
        const lki_graph_variable *v = &p->graph->variables[i];
        bool                      held = v->variable->readers || v->variable->buffer->twins;
        if (v->version > 0 && held && !lki_variable_storage(v->variable)) return lk_error_code();
    }
    return LK_OK;
}

static lk_status check_faults(lki_plan *p)
{
    lk_status status = LK_OK;
    for (int i = 0; i < p->suspect_count; i++)
        if (p->faults[p->suspects[i].node]) {
            p->faults[p->suspects[i].node] = 0;
            status = lki_fail_fault(p->graph->nodes[p->suspects[i].node].op);
        }
    return status;
}

static const char *root_data(const lki_plan *p, int root, const lki_value_list *in)
{
    const lki_value *v = &p->graph->values[root];
    switch (v->kind) {
    case LKI_VALUE_INPUT: return lki_host_data(in->item[v->input]);
    case LKI_VALUE_CONSTANT: return lki_host_data(v->constant);
    case LKI_VALUE_VARIABLE: return v->variable->buffer->data;
    case LKI_VALUE_MADE: break;
    }
    return p->shared + p->storage[root].at;
}

static lk_status copy_output(const lki_plan *p, int value, const lki_value_list *in, lk_tensor *out)
{
    size_t      bytes = lki_bytes_of(lki_shape_size(&out->shape), lk_dtype_bytes(out->dtype));
    size_t      before = (size_t)lki_graph_offset(p->graph, value) * lk_dtype_bytes(out->dtype);
    const char *root = bytes ? root_data(p, lki_graph_root(p->graph, value), in) : NULL;
    if (bytes && !root) return lk_error_code();
    if (bytes) memcpy(out->data, root + before, bytes);
    return LK_OK;
}

lk_status lki_plan_replay(lki_plan *p, const lki_value_list *in, lk_tensor *const *out)
{
    if (p->cards) return lki_cards_replay(p->cards, in, out);
    LKI_TRY(free_variables(p));
    if (p->card) return lki_card_replay(p->card, in, out);
    for (int i = 0; i < p->patch_count; i++) {
        char *data = lki_data_on(in->item[p->patches[i].input], p->device);
        if (!data) return lk_error_code();
        p->patches[i].view->data = data + p->patches[i].offset;
    }
    if (lki_device_current()->kind != LKI_DEVICE_NULL) {
        void (*replay)(void *, int) = __atomic_load_n(&lki_tracing, __ATOMIC_RELAXED) ? replay_traced : replay_thread;
        lki_barrier_renew(&p->barrier);
        LKI_TRY(lki_team_run(p->threads, replay, p));
    }
    LKI_TRY(check_faults(p));
    for (int i = 0; i < p->graph->output_count; i++)
        LKI_TRY(copy_output(p, p->graph->outputs[i], in, out[i]));
    return LK_OK;
}
