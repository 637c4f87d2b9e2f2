/* The engine of a compiled model: made when it is first needed, kept between calls. */
#include "fit/engine.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "model/metric.h"
#include <math.h>
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

static bool is_taken(const lki_engine *e, const char *name)
{
    for (int i = 0; i < e->names; i++)
        if (!strcmp(e->name[i], name)) return true;
    return false;
}

/* If two metrics have the same name, the second is "name_1", or "weighted_name" if it takes weights. */
static bool add_name(lki_engine *e, const char *prefix, const char *join, const char *name, bool weighted)
{
    char        text[512];
    const char *how = "";
    snprintf(text, sizeof text, "%s%s%s", prefix, join, name);
    if (weighted && is_taken(e, text)) snprintf(text, sizeof text, "%s%s%s%s", prefix, join, how = "weighted_", name);
    for (int n = 1; is_taken(e, text); n++)
        snprintf(text, sizeof text, "%s%s%s%s_%d", prefix, join, how, name, n);
    e->name[e->names] = lki_strdup(text);
    return e->name[e->names] && ++e->names;
}

static int losses_of(const lki_compiled *c)
{
    int count = 0;
    for (int i = 0; i < c->outputs; i++)
        count += c->loss[i] != NULL;
    return count;
}

/* "loss"; with several losses also "a_loss", "b_loss"; then the metrics, as "a_accuracy" if there are several outputs. */
static bool name_all(lki_engine *e)
{
    const lki_compiled *c = e->compiled;
    const bool          several = e->model->outputs > 1;
    if (!add_name(e, "", "", "loss", false)) return false;
    for (int i = 0; losses_of(c) > 1 && i < c->outputs; i++)
        if (c->loss[i] && !add_name(e, lki_model_output_name(e->model, i), "_", "loss", false)) return false;
    e->losses = e->names;
    for (int i = 0; i < c->metrics; i++) {
        const char *output = several ? lki_model_output_name(e->model, lki_metric_output(c->metric[i])) : "";
        if (!add_name(e, output, several ? "_" : "", lk_metric_name(c->metric[i]), c->weighted[i])) return false;
    }
    return true;
}

/* ---- life ---- */

static void forget_pending(lki_engine *e)
{
    for (int i = 0; i < e->pending_count * e->losses; i++)
        lki_drop(e->pending[i]);
    e->pending_count = 0;
}

static void engine_free(void *engine)
{
    lki_engine *e = engine;
    for (int i = 0; i < LKI_FIT_STEPS; i++)
        lki_drop(e->step[i].function);
    for (int i = 0; i < e->names; i++)
        lki_release(e->name[i]);
    forget_pending(e);
    lki_release(e->pending);
    lki_drop(e->class_weight);
    lki_release(e->name);
    lki_release(e->sum);
    lki_release(e->value);
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
    for (int i = 0; i < LKI_FIT_STEPS; i++)
        e->step[i] = (lki_step){.engine = e, .kind = (lki_fit_step)i};
    e->name = lki_zalloc_array(room, sizeof *e->name);
    e->sum = lki_zalloc_array(room, sizeof *e->sum);
    e->value = lki_zalloc_array(room, 2 * sizeof *e->value);
    e->pending = lki_zalloc_array(room, LKI_MOST_PENDING * sizeof(lk_tensor *));
    if (e->name && e->sum && e->value && e->pending && name_all(e)) return e;
    engine_free(e);
    return NULL;
}

/* predict also works on a model that was not compiled: compile it with nothing. */
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

/* One thread at a time uses an engine. A callback may evaluate and predict inside the fit of its own thread. */
static lk_status begin_use(lk_model *m, const lki_engine_request *r)
{
    const void *free_one = NULL;
    const bool  first =
        __atomic_compare_exchange_n(&m->user_thread, &free_one, lki_this_thread(), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (!first && (free_one != lki_this_thread() || !r->inside))
        return lki_fail(LK_ESTATE, "%s: model \"%s\" is being trained or evaluated already", r->call, m->name);
    lki_retain(m);
    m->uses_open++;
    return LK_OK;
}

static void end_use(lk_model *m)
{
    if (--m->uses_open == 0) __atomic_store_n(&m->user_thread, NULL, __ATOMIC_RELEASE);
    lki_drop(m);
}

/* A model from a file may lack parts of what it was compiled with. A call that needs such a part is an error that names it. */
static lk_status nothing_lost(const lk_model *m, const lki_engine_request *r)
{
    const lki_lost *loss = r->needs_loss ? lki_lost_part(m, LKI_KIND_LOSS, -1) : NULL;
    const lki_lost *lost = !loss && r->trains ? lki_lost_part(m, LKI_KIND_OPTIMIZER, -1) : loss;
    if (!lost) return LK_OK;
    return lki_fail(LK_ESTATE, "%s: model \"%s\" comes without its %s: %s; call lk_model_compile() with one", r->call, m->name,
                    loss ? "loss" : "optimiser", lost->why);
}

static bool is_compiled(const lk_model *m) { return m->compiled && (m->compiled->optimizer || m->compiled->lost_count); }

static lki_engine *engine_in_use(lk_model *m, const lki_engine_request *r)
{
    if (nothing_lost(m, r) != LK_OK) return NULL;
    if (!m->compiled || (r->needs_loss && !is_compiled(m))) {
        if (r->needs_loss)
            return lki_fail(LK_ESTATE, "%s: model \"%s\" is not compiled; call lk_model_compile() first", r->call, m->name), NULL;
        if (compile_for_predict(m) != LK_OK) return NULL;
    }
    if (r->needs_loss && !has_loss(m))
        return lki_fail(LK_EINVAL, "%s: model \"%s\" was compiled without a loss; give lk_model_compile() one", r->call, m->name),
               NULL;
    if (m->compiled->engine) return m->compiled->engine;
    m->compiled->engine_free = engine_free;
    return m->compiled->engine = engine_new(m);
}

lki_engine *lki_engine_of(lk_model *m, lki_engine_request r)
{
    if (!lki_is_model(r.call, m)) return NULL;
    if (lki_replica_current())
        return lki_fail(LK_ESTATE, "%s: called inside lk_run(); it runs the replicas itself: call it outside", r.call), NULL;
    if (begin_use(m, &r) != LK_OK) return NULL;
    lki_engine *e = engine_in_use(m, &r);
    if (!e) end_use(m);
    return e;
}

void lki_engine_done(lki_engine *e) { end_use(e->model); }

/* ---- counting ---- */

lk_status lki_count_reset(lki_engine *e)
{
    LKI_TRY(lki_count_settle(e)); /* errors of the pending steps are reported here */
    e->nan_step = 0;
    e->rows = 0;
    for (int i = 0; i < e->losses; i++)
        e->sum[i] = 0;
    for (int i = 0; i < e->compiled->metrics; i++)
        LKI_TRY(lk_metric_reset(e->compiled->metric[i]));
    return LK_OK;
}

static void count_one(lki_engine *e, int i, double loss, int64_t rows, int64_t step)
{
    e->sum[i] += loss * (double)rows;
    if (i || isfinite(loss) || e->nan_step) return;
    e->nan_step = step;
    e->nan = loss;
}

/* Copies all pending values of loss i into one tensor, so that the device is asked once. */
static lk_status settle_one(lki_engine *e, int i)
{
    lk_tensor *item[LKI_MOST_PENDING];
    for (int k = 0; k < e->pending_count; k++)
        item[k] = e->pending[k * e->losses + i];
    lk_tensor  *all = e->pending_count > 1 ? lk_stack((lk_tuple){e->pending_count, item}, 0) : item[0];
    const void *value = lki_bad(all) ? NULL : lk_data(all);
    for (int k = 0; value && k < e->pending_count; k++)
        count_one(e, i, lki_element_get(all->dtype, value, k), e->pending_rows[k], e->pending_step[k]);
    return value ? LK_OK : lk_error_code();
}

/* Settle the steps one by one, to find the one that failed. A lost card reports its error for any of them. */
static lk_status settle_steps(lki_engine *e)
{
    for (int k = 0; k < e->pending_count; k++) {
        const lk_status status = lki_settle(e->pending[k * e->losses]);
        if (status == LK_EINVAL) e->failed_step = e->pending_step[k];
        LKI_TRY(status);
    }
    return LK_OK;
}

lk_status lki_count_settle(lki_engine *e)
{
    if (!e->pending_count) return LK_OK;
    lk_status   status = settle_steps(e);
    lki_device *before = lki_device_current();
    if (e->pending_count > 1) lki_device_set_current(e->pending[0]->buffer->device);
    LK_STEP
        for (int i = 0; i < e->losses && status == LK_OK; i++)
            status = settle_one(e, i);
    lki_device_set_current(before);
    forget_pending(e);
    return status;
}

lk_status lki_count_losses(lki_engine *e, lk_tuple losses, int64_t rows, int64_t step)
{
    const int at = e->pending_count++;
    e->rows += (double)rows;
    e->failed_step = 0;
    e->pending_rows[at] = rows;
    e->pending_step[at] = step;
    for (int i = 0; i < e->losses; i++)
        e->pending[at * e->losses + i] = lki_retain(lki_plain(losses.item[i]));
    return lki_is_pending(e->pending[at * e->losses]) && e->pending_count < LKI_MOST_PENDING ? LK_OK : lki_count_settle(e);
}

lk_logs lki_count_logs(lki_engine *e, bool evaluated)
{
    double *value = e->value + (evaluated ? e->names : 0);
    lki_count_settle(e); /* an error stays in the thread's record */
    for (int i = 0; i < e->losses; i++)
        value[i] = e->rows > 0 ? e->sum[i] / e->rows : 0;
    for (int i = 0; i < e->compiled->metrics; i++)
        value[e->losses + i] = lk_metric_result(e->compiled->metric[i]);
    return (lk_logs){e->names, (const char *const *)e->name, value};
}

/* ---- counting something else for a while ---- */

static int state_count(const lki_engine *e)
{
    int count = 0;
    for (int i = 0; i < e->compiled->metrics; i++)
        count += lk_metric_variables(e->compiled->metric[i]).count;
    return count;
}

bool lki_count_keep(lki_engine *e, lki_count *c)
{
    *c = (lki_count){.rows = e->rows};
    if (lki_count_settle(e) != LK_OK) return false;
    LK_STEP {
        c->sum = lki_alloc_array(e->losses + 1, sizeof *c->sum);
        c->state = lki_zalloc_array(state_count(e) + 1, sizeof(lk_tensor *));
        for (int i = 0; c->sum && i < e->losses; i++)
            c->sum[i] = e->sum[i];
        for (int i = 0; c->state && i < e->compiled->metrics; i++) {
            lk_variables v = lk_metric_variables(e->compiled->metric[i]);
            for (int k = 0; k < v.count; k++)
                c->state[c->states++] = lki_retain(lk_read(v.item[k]));
        }
    }
    return c->sum && c->state;
}

void lki_count_put_back(lki_engine *e, lki_count *c)
{
    int next = 0;
    lki_count_settle(e);
    LK_STEP
        for (int i = 0; c->state && i < e->compiled->metrics; i++) {
            lk_variables v = lk_metric_variables(e->compiled->metric[i]);
            if (next == c->states) lk_metric_reset(e->compiled->metric[i]); /* a metric that was made meanwhile */
            for (int k = 0; k < v.count && next < c->states; k++)
                lk_assign(v.item[k], c->state[next++]);
        }
    for (int i = 0; c->sum && i < e->losses; i++)
        e->sum[i] = c->sum[i];
    e->rows = c->rows;
    for (int i = 0; i < c->states; i++)
        lki_drop(c->state[i]);
    lki_release(c->state);
    lki_release(c->sum);
}
