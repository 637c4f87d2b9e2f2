/* The arguments a model was compiled with (compiled.h). */
#include "model/compiled.h"
#include "core/memory.h"
#include "nn/optimizer.h"

void lki_lost_free(int count, lki_lost *lost)
{
    for (int i = 0; i < count; i++) {
        lki_release(lost[i].json);
        lki_release(lost[i].why);
    }
    lki_release(lost);
}

const lki_lost *lki_lost_part(const lk_model *m, lki_kind kind, int output)
{
    for (int i = 0; m->compiled && i < m->compiled->lost_count; i++) {
        const lki_lost *l = &m->compiled->lost[i];
        if (l->kind == kind && (output < 0 || l->output < 0 || l->output == output)) return l;
    }
    return NULL;
}

static void drop(lki_compiled *c)
{
    if (c->engine) c->engine_free(c->engine);
    for (int i = 0; c->loss && i < c->outputs; i++)
        lki_drop(c->loss[i]);
    for (int i = 0; c->metric && i < c->metrics; i++)
        lki_drop(c->metric[i]);
    lki_drop(c->optimizer);
    lki_release(c->loss);
    lki_release(c->loss_weight);
    lki_release(c->metric);
    lki_release(c->weighted);
    lki_lost_free(c->lost_count, c->lost);
    lki_release(c);
}

static bool lists(lki_compiled *c, const lki_compile_request *r)
{
    c->loss = lki_zalloc_array(c->outputs + 1, sizeof(lk_loss *));
    c->loss_weight = lki_alloc_array(c->outputs + 1, sizeof *c->loss_weight);
    c->metric = lki_zalloc_array(r->metrics + 1, sizeof(lk_metric *));
    c->weighted = lki_alloc_array(r->metrics + 1, sizeof *c->weighted);
    if (!c->loss || !c->loss_weight || !c->metric || !c->weighted) return false;
    for (int i = 0; i < c->outputs; i++) {
        c->loss[i] = lki_retain(r->loss[i]);
        c->loss_weight[i] = r->loss_weight ? r->loss_weight[i] : 1;
    }
    for (; c->metrics < r->metrics; c->metrics++) {
        c->metric[c->metrics] = lki_retain(r->metric[c->metrics]);
        c->weighted[c->metrics] = r->weighted[c->metrics];
    }
    return true;
}

lk_status lki_model_compile(lk_model *m, const lki_compile_request *r)
{
    if (m->compiled && __atomic_load_n(&m->user_thread, __ATOMIC_ACQUIRE))
        return lki_fail(LK_ESTATE, "lk_model_compile: model \"%s\" is being trained or evaluated; compile it before or afterwards",
                        m->name);
    if (r->optimizer) LKI_TRY(lki_optimizer_adopt(r->optimizer, m->strategy));
    lki_compiled *c = lki_zalloc(sizeof *c);
    if (!c) return LK_ENOMEM;
    c->outputs = m->outputs;
    c->optimizer = lki_retain(r->optimizer);
    c->weights_given = r->loss_weight != NULL;
    c->steps_per_execution = r->steps_per_execution > 1 ? r->steps_per_execution : 1;
    c->run_eagerly = r->run_eagerly;
    c->denominator = r->denominator == LK_PER_REPLICA ? LK_PER_REPLICA : LK_EXACT;
    c->split = r->split;
    if (!lists(c, r)) {
        drop(c);
        return LK_ENOMEM;
    }
    c->lost_count = r->lost_count;
    c->lost = r->lost;
    if (m->compiled) drop(m->compiled);
    m->compiled = c;
    m->forget_compiled = drop;
    return LK_OK;
}
