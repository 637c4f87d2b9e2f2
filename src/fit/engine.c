/* The engine of a compiled model: made when it is first needed, kept between calls. */
#include "fit/engine.h"
#include "core/memory.h"
#include "model/metric.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

double lki_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- names of what is reported ---- */

static char *text_of(const char *a, const char *b, const char *c)
{
    size_t bytes = strlen(a) + strlen(b) + strlen(c) + 1;
    char  *text = lki_alloc(bytes);
    if (text) snprintf(text, bytes, "%s%s%s", a, b, c);
    return text;
}

static bool add_name(lki_engine *e, const char *prefix, const char *join, const char *name)
{
    char text[512];
    int  same = 0;
    snprintf(text, sizeof text, "%s%s%s", prefix, join, name);
    for (int i = 0; i < e->names; i++) { /* two metrics of one name: the second is "name_1" */
        size_t length = strlen(prefix) + strlen(join) + strlen(name);
        same += !strncmp(e->name[i], text, length) && (!e->name[i][length] || e->name[i][length] == '_');
    }
    if (same) snprintf(text, sizeof text, "%s%s%s_%d", prefix, join, name, same);
    e->name[e->names] = text_of(text, "", "");
    e->val_name[e->names] = text_of("val_", text, "");
    return e->name[e->names] && e->val_name[e->names++];
}

/* "loss"; with several outputs "a_loss", "b_loss"; then metrics, "a_accuracy" where there are several outputs. */
static bool name_all(lki_engine *e)
{
    const lki_compiled *c = e->compiled;
    const bool          several = e->model->outputs > 1;
    if (!add_name(e, "", "", "loss")) return false;
    for (int i = 0; several && i < c->outputs; i++)
        if (c->loss[i] && !add_name(e, lki_model_output_name(e->model, i), "_", "loss")) return false;
    e->losses = e->names;
    for (int i = 0; i < c->metrics; i++) {
        const char *output = several ? lki_model_output_name(e->model, lki_metric_output(c->metric[i])) : "";
        if (!add_name(e, output, several ? "_" : "", lk_metric_name(c->metric[i]))) return false;
    }
    return true;
}

/* ---- life ---- */

static void engine_free(void *engine)
{
    lki_engine *e = engine;
    for (int i = 0; i < LKI_FIT_STEPS; i++)
        lki_drop(e->step[i]);
    for (int i = 0; i < e->names; i++) {
        lki_release(e->name[i]);
        lki_release(e->val_name[i]);
    }
    lki_drop(e->class_weight);
    lki_release(e->name);
    lki_release(e->val_name);
    lki_release(e->sum);
    lki_release(e->value);
    lki_release(e->shown);
    lki_release(e->shown_name);
    lki_release(e);
}

static lki_engine *engine_new(lk_model *m)
{
    lki_engine *e = lki_zalloc(sizeof *e);
    size_t      room = (size_t)(m->compiled->outputs + m->compiled->metrics + 2);
    if (!e) return NULL;
    e->model = m;
    e->compiled = m->compiled;
    e->strategy = m->strategy ? m->strategy : lk_default_strategy();
    e->name = lki_zalloc(room * sizeof *e->name);
    e->val_name = lki_zalloc(room * sizeof *e->val_name);
    e->sum = lki_zalloc(room * sizeof *e->sum);
    e->value = lki_zalloc(room * sizeof *e->value);
    e->shown = lki_zalloc(2 * room * sizeof *e->shown);
    e->shown_name = lki_zalloc(2 * room * sizeof *e->shown_name);
    if (e->name && e->val_name && e->sum && e->value && e->shown && e->shown_name && name_all(e)) return e;
    engine_free(e);
    return NULL;
}

/* predict works without compile: then there is nothing to compile with. */
static lk_status compile_for_predict(lk_model *m)
{
    lk_loss *none[LKI_MOST_INPUTS] = {0};
    return lki_model_compile(m, &(lki_compile_request){.loss = none});
}

static bool has_loss(const lk_model *m)
{
    bool any = false;
    for (int i = 0; i < m->compiled->outputs; i++)
        any = any || m->compiled->loss[i];
    return any;
}

lki_engine *lki_engine_of(const char *call, lk_model *m, bool needs_loss)
{
    if (!lki_is_model(call, m)) return NULL;
    if (lki_replica_current())
        return lki_fail(LK_ESTATE, "%s: called inside lk_run(); it runs the replicas itself: call it outside", call), NULL;
    if (!m->compiled || (needs_loss && !m->compiled->optimizer)) {
        if (needs_loss)
            return lki_fail(LK_ESTATE, "%s: model \"%s\" is not compiled; call lk_model_compile() first", call, m->name), NULL;
        if (compile_for_predict(m) != LK_OK) return NULL;
    }
    if (needs_loss && !has_loss(m))
        return lki_fail(LK_EINVAL, "%s: model \"%s\" was compiled without a loss; give lk_model_compile() one", call, m->name),
               NULL;
    lki_engine *e = m->compiled->engine;
    if (!e) {
        m->compiled->engine = e = engine_new(m);
        m->compiled->engine_free = engine_free;
    }
    if (e && __atomic_exchange_n(&e->used, 1, __ATOMIC_ACQUIRE))
        return lki_fail(LK_ESTATE, "%s: model \"%s\" is being trained or evaluated already", call, m->name), NULL;
    return e;
}

void lki_engine_done(lki_engine *e) { __atomic_store_n(&e->used, 0, __ATOMIC_RELEASE); }

/* ---- counting ---- */

lk_status lki_count_reset(lki_engine *e)
{
    e->rows = 0;
    for (int i = 0; i < e->losses; i++)
        e->sum[i] = 0;
    for (int i = 0; i < e->compiled->metrics; i++)
        LKI_TRY(lk_metric_reset(e->compiled->metric[i]));
    return LK_OK;
}

void lki_count_losses(lki_engine *e, const double *loss, int64_t rows)
{
    for (int i = 0; i < e->losses; i++)
        e->sum[i] += loss[i] * (double)rows;
    e->rows += (double)rows;
}

lk_logs lki_count_logs(lki_engine *e)
{
    for (int i = 0; i < e->losses; i++)
        e->value[i] = e->rows > 0 ? e->sum[i] / e->rows : 0;
    for (int i = 0; i < e->compiled->metrics; i++)
        e->value[e->losses + i] = lk_metric_result(e->compiled->metric[i]);
    return (lk_logs){e->names, (const char *const *)e->name, e->value};
}
