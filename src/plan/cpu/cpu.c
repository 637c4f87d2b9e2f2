/* A plan of CPUs: made, replayed, freed. A replay allocates nothing. */
#include "plan/cpu/cpu.h"
#include "format/trace.h"
#include "graph/rewrite.h"
#include "op/run.h"
#include "plan/executor.h"
#include <string.h>

/* ---- its life ---- */

void lki_cpu_free(lki_cpu_plan *p)
{
    if (!p) return;
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
    lki_release(p->part_phase);
    lki_release(p->shared);
    lki_release(p->scratch);
    lki_release(p->thread_block);
    lki_arena_clear(&p->arena);
    lki_release(p);
}

/* Constants may lie in the memory of a card. */
static lk_status bring_constants(const lki_graph *g)
{
    for (int v = 0; v < g->value_count; v++)
        if (g->values[v].kind == LKI_VALUE_CONSTANT && !lki_host_data(g->values[v].constant)) return lk_error_code();
    return LK_OK;
}

static lk_status make(lki_cpu_plan *p)
{
    LKI_TRY(lki_cpu_schedule(p));
    LKI_TRY(bring_constants(p->graph));
    LKI_TRY(lki_cpu_memory(p));
    return lki_cpu_emit(p);
}

lki_cpu_plan *lki_cpu_new(const lki_cpu_args *a)
{
    lki_cpu_plan *p = lki_zalloc(sizeof *p);
    if (!p) return NULL;
    p->is = *a;
    p->graph = a->graph;
    p->threads = a->threads;
    p->lanes = a->lanes;
    lki_barrier_init(&p->barrier, a->threads);
    if (make(p) == LK_OK) return p;
    lki_cpu_free(p);
    return NULL;
}

void lki_cpu_info(const lki_cpu_plan *p, lk_function_info *info)
{
    for (int t = 0; t < p->threads; t++)
        for (int i = 0; i < p->call_count[t]; i++)
            info->calls += p->calls[t][i].fn != NULL;
    info->barriers += p->phases - 1;
    info->memory += p->shared_bytes + (size_t)p->threads * (p->thread_stride + p->scratch_bytes);
}

/* ---- replay ---- */

/* Did a call that ran up to the end of this phase meet an index out of range? Faults of earlier phases do not change any more, so
 * all threads get the same answer. */
static bool faulted(const lki_cpu_plan *p, int phase)
{
    for (int i = 0; i < p->suspect_count; i++)
        if (p->suspects[i].phase <= phase && __atomic_load_n(&p->faults[p->suspects[i].node], __ATOMIC_RELAXED)) return true;
    return false;
}

/* Calls of a thread in the part that runs. */
static int part_end(const lki_cpu_plan *p, int thread) { return p->part_end[p->running * p->threads + thread]; }
static int part_begin(const lki_cpu_plan *p, int thread)
{
    return p->running ? p->part_end[(p->running - 1) * p->threads + thread] : 0;
}

/* The same as below, with the time of each call recorded. */
static void replay_traced(void *plan, int thread)
{
    lki_cpu_plan *p = plan;
    int           phase = p->part_phase[p->running];
    unsigned      before = lki_fp_enter();
    for (int i = part_begin(p, thread); i < part_end(p, thread); i++) {
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
    lki_cpu_plan *p = plan;
    const int     end = part_end(p, thread);
    int           phase = p->part_phase[p->running];
    unsigned      before = lki_fp_enter();
    for (int i = part_begin(p, thread); i < end; i++) {
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

lki_op lki_cpu_fault(lki_cpu_plan *p)
{
    lki_op op = LKI_OP_COUNT;
    for (int i = p->suspect_count - 1; i >= 0; i--)
        if (p->faults[p->suspects[i].node]) {
            p->faults[p->suspects[i].node] = 0;
            op = p->graph->nodes[p->suspects[i].node].op;
        }
    return op;
}

char *lki_cpu_home(const lki_cpu_plan *p, int root, const lki_value_list *in)
{
    const lki_value *v = &p->graph->values[root];
    if (p->is.placed && p->is.placed[root]) return p->is.placed[root];
    switch (v->kind) {
    case LKI_VALUE_INPUT: return lki_data_on(in->item[v->input], p->is.device);
    case LKI_VALUE_CONSTANT: return (char *)(uintptr_t)lki_host_data(v->constant);
    case LKI_VALUE_VARIABLE: return v->variable->buffer->data;
    case LKI_VALUE_MADE: break;
    }
    return p->shared + p->storage[root].at;
}

lk_status lki_cpu_bind(lki_cpu_plan *p, const lki_value_list *in)
{
    for (int i = 0; i < p->patch_count; i++) {
        char *data = lki_data_on(in->item[p->patches[i].input], p->is.device);
        if (!data) return lk_error_code();
        p->patches[i].view->data = data + p->patches[i].offset;
    }
    return LK_OK;
}

lk_status lki_cpu_run(lki_cpu_plan *p, int part)
{
    if (lki_device_current()->kind == LKI_DEVICE_NULL) return LK_OK;
    p->running = part;
    lki_barrier_renew(&p->barrier);
    return lki_team_run(p->threads, __atomic_load_n(&lki_tracing, __ATOMIC_RELAXED) ? replay_traced : replay_thread, p);
}

/* ---- the executor ---- */

static bool suits(const lki_graph *g, const lki_device *device) { return !g->scattered && lki_on_host(device); }

lk_status lki_cpu_rewrite(lki_plan *p)
{
    lki_graph_fuse_all(p->graph);
    return LK_OK;
}

static lk_status prepare(lki_plan *p)
{
    p->body = lki_cpu_new(
        &(lki_cpu_args){.graph = p->graph, .device = p->device, .threads = p->threads, .lanes = p->lanes, .end = p->lanes});
    return p->body ? LK_OK : lk_error_code();
}

static lk_status copy_output(const lki_cpu_plan *p, int value, const lki_value_list *in, lk_tensor *out)
{
    const size_t bytes = lki_bytes_of(lki_shape_size(&out->shape), lk_dtype_bytes(out->dtype));
    const size_t before = (size_t)lki_graph_offset(p->graph, value) * lk_dtype_bytes(out->dtype);
    const char  *root = bytes ? lki_cpu_home(p, lki_graph_root(p->graph, value), in) : NULL;
    if (bytes && !root) return lk_error_code();
    if (bytes) memcpy(out->data, root + before, bytes);
    return LK_OK;
}

static lk_status replay(lki_plan *plan, const lki_value_list *in, lk_tensor *const *out)
{
    lki_cpu_plan *p = plan->body;
    LKI_TRY(lki_plan_free_variables(plan));
    LKI_TRY(lki_cpu_bind(p, in));
    LKI_TRY(lki_cpu_run(p, 0));
    const lki_op fault = lki_cpu_fault(p);
    if (fault != LKI_OP_COUNT) return lki_fail_fault(fault);
    for (int i = 0; i < p->graph->output_count; i++)
        LKI_TRY(copy_output(p, p->graph->outputs[i], in, out[i]));
    return LK_OK;
}

static void free_plan(lki_plan *p) { lki_cpu_free(p->body); }

static void info_of(const lki_plan *p, lk_function_info *info) { lki_cpu_info(p->body, info); }

const lki_executor lki_cpu_executor = {.name = "cpu",
                                       .suits = suits,
                                       .rewrite = lki_cpu_rewrite,
                                       .prepare = prepare,
                                       .replay = replay,
                                       .free = free_plan,
                                       .info = info_of};
