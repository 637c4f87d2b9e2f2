/* The loop of evaluation, and calling the callbacks. */
#include "core/log.h"
#include "fit/engine.h"

lk_status lki_callbacks_tell(const lki_callback_list *list, lki_hook hook, const lki_happening *h)
{
    void     *before = lki_pool_current();
    lk_status status = LK_OK;
    lki_pool_set(h->pool);
    for (int i = 0; i < list->count && status == LK_OK; i++) {
        lk_callback *c = list->item[i];
        if (!c->kind->on[hook]) continue;
        status = c->kind->on[hook](c, h);
        if (status == LK_OK && lk_failed() && !h->failed) status = lk_error_code();
    }
    lki_pool_set(before);
    return status;
}

/* Reading the logs waits for pending steps. So fit reads them at each step only if a callback wants the logs of each step; for
 * callbacks that show progress, it reads them now and then. */
bool lki_callbacks_look(const lki_engine *e, const lki_callback_list *list, lki_hook hook, double *looked)
{
    const double now_and_then = 0.05;
    if (!e->pending_count) return true;
    for (int i = 0; i < list->count; i++) {
        const lki_callback_kind *kind = list->item[i]->kind;
        if (kind->on[hook] && !kind->stale_logs_ok && (!kind->looks || kind->looks(list->item[i], hook))) return true;
    }
    if (lki_seconds() - *looked < now_and_then) return false;
    *looked = lki_seconds();
    return true;
}

/* The hooks of the end are called whatever happened; an earlier error stays the first cause. */
lk_status lki_callbacks_end(const lki_callback_list *list, lki_hook hook, lki_happening *h, lk_status status)
{
    lki_error_record cause;
    lki_error_take(&cause);
    h->failed = status != LK_OK;
    lk_status end = lki_callbacks_tell(list, hook, h);
    if (cause.code == LK_OK) return status != LK_OK ? status : end;
    lk_clear_error();
    lki_error_put(&cause);
    return status;
}

/* Adds the step to the error: this one or, if losses were pending, an earlier one. */
static lk_status where(lki_engine *e, int64_t step, lk_tuple batch)
{
    lki_error_record cause;
    if (e->failed_step && e->failed_step != step) step = e->failed_step;
    else lki_explain_labels(e, batch, NULL);
    lki_error_take(&cause);
    return lki_fail(cause.code, "evaluation, step %lld: %s", (long long)step, cause.text);
}

static lk_status test_batches(lki_engine *e, lk_iterator *it, int64_t steps, const lki_callback_list *list, lki_happening *h)
{
    double looked = 0;
    for (h->event.batch = 0; steps <= 0 || h->event.batch < steps; h->event.batch++) {
        lk_tuple batch;
        if (!lk_next(it, &batch)) break;
        LKI_TRY(lki_callbacks_tell(list, LKI_HOOK_test_batch_begin, h));
        lk_tuple      losses;
        const int64_t step = h->event.batch + 1;
        if (lki_engine_step(e, LKI_FIT_TEST, batch, &losses) != LK_OK) return where(e, step, batch);
        if (lki_count_losses(e, losses, lki_batch_rows(batch), step) != LK_OK) return where(e, step, batch);
        h->rows = (int64_t)e->rows;
        if (lki_callbacks_look(e, list, LKI_HOOK_test_batch_end, &looked)) h->event.logs = lki_count_logs(e, true);
        if (lk_failed()) return where(e, step, batch);
        LKI_TRY(lki_callbacks_tell(list, LKI_HOOK_test_batch_end, h));
    }
    if (lk_failed()) return lk_error_code();
    if (steps > 0 && h->event.batch < steps)
        lki_warn("the input ran out of data after %lld of %lld steps of the evaluation", (long long)h->event.batch,
                 (long long)steps);
    return LK_OK;
}

lk_status lki_evaluate(lki_engine *e, const lki_fit_data *data, int64_t steps, const lki_callback_list *list, lki_happening *h)
{
    lk_status status = LK_OK;
    LKI_TRY(lki_count_reset(e));
    h->event.batches = steps > 0 ? steps : data->steps;
    h->event.logs = (lk_logs){0};
    h->rows = 0;
    LKI_TRY(lki_callbacks_tell(list, LKI_HOOK_test_begin, h));
    LK_POOL {
        lk_iterator *it = lk_iterator_of(data->dataset);
        status = it ? test_batches(e, it, steps, list, h) : lk_error_code();
    }
    h->event.batches = h->event.batch;
    if (status == LK_OK && lki_count_settle(e) != LK_OK) status = where(e, h->event.batch, (lk_tuple){0});
    e->evaluated = h->event.logs = lki_count_logs(e, true);
    e->nan_step = 0;
    return lki_callbacks_end(list, LKI_HOOK_test_end, h, status);
}
