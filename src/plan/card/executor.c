/* The executor of one GPU: a plan whose body is an lki_card. */
#include "plan/executor.h"
#include "core/memory.h"
#include "plan/card/card.h"
#include "plan/card/passes.h"

static bool suits(const lki_graph *g, const lki_device *device) { return !g->scattered && !lki_on_host(device); }

static lk_status prepare(lki_plan *p)
{
    int *order = lki_alloc_array(p->graph->node_count + 1, sizeof *order), count = order ? lki_plan_sequence(p->graph, order) : -1;
    if (count >= 0)
        p->body = lki_card_new(&(lki_card_args){.graph = p->graph, .device = p->device, .order = order, .order_count = count});
    lki_release(order);
    return p->body ? LK_OK : lk_error_code();
}

static lk_status replay(lki_plan *p, const lki_value_list *in, lk_tensor *const *out)
{
    LKI_TRY(lki_plan_free_variables(p));
    return lki_card_replay(p->body, in, out);
}

static void free_card(lki_plan *p) { lki_card_free(p->body); }

static void info_of(const lki_plan *p, lk_function_info *info)
{
    info->calls = lki_card_calls(p->body);
    info->memory = lki_card_bytes(p->body);
}

const lki_executor lki_card_executor = {.name = "card",
                                        .suits = suits,
                                        .rewrite = lki_card_rewrite,
                                        .prepare = prepare,
                                        .replay = replay,
                                        .free = free_card,
                                        .info = info_of};
