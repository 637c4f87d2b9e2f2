/* The executor of one GPU: a plan whose body is an lki_card. */
#include "plan/executor.h"
#include "core/memory.h"
#include "plan/card/card.h"
#include "plan/cpu/cpu.h"
#include <stdlib.h>

static bool suits(const lki_graph *g, const lki_device *device) { return !g->scattered && !lki_on_host(device); }

/* ---- in the order of the schedule ---- */

typedef struct place {
    int phase, turn, task, node;
} place;

static int earlier(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->phase != y->phase) return x->phase < y->phase ? -1 : 1;
    if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
    return x->task < y->task ? -1 : x->task > y->task;
}

/* Sums that lanes of a CPU take in two tasks are one call here, where the first of them is. Returns how many nodes there are; -1
 * and an error. */
static int order_of(const lki_plan *p, int *order)
{
    lki_cpu_plan *s = lki_cpu_scheduled(p);
    place        *at = s ? lki_alloc_array(s->task_count + 1, sizeof *at) : NULL;
    int           count = 0;
    for (int t = 0; at && t < s->task_count; t++)
        if (s->tasks[t].kind != LKI_TASK_COMBINE) at[count++] = (place){s->tasks[t].phase, s->tasks[t].turn, t, s->tasks[t].node};
    if (at) qsort(at, (size_t)count, sizeof *at, earlier);
    for (int i = 0; at && i < count; i++)
        order[i] = at[i].node;
    lki_cpu_free(s);
    lki_release(at);
    return at ? count : -1;
}

static lk_status prepare(lki_plan *p)
{
    int *order = lki_alloc_array(p->graph->node_count + 1, sizeof *order), count = order ? order_of(p, order) : -1;
    if (count >= 0)
        p->body = lki_card_new(&(lki_card_args){.graph = p->graph, .device = p->device, .order = order, .order_count = count});
    lki_release(order);
    return p->body ? LK_OK : lk_error_code();
}

static lk_status replay(lki_plan *p, const lki_value_list *in, lk_tensor *const *out)
{
    LKI_TRY(lki_plan_free_variables(p));
    return lki_card_replay(p->body, p->call, in, out);
}

static void free_card(lki_plan *p) { lki_card_free(p->body); }

static void info_of(const lki_plan *p, lk_function_info *info)
{
    info->calls = lki_card_calls(p->body);
    info->memory = lki_card_bytes(p->body);
}

const lki_executor lki_card_executor = {
    .name = "card", .suits = suits, .prepare = prepare, .replay = replay, .free = free_card, .info = info_of};
