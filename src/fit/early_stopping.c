/* EarlyStopping: end training when a value has not improved for some epochs, with the weights of the last or of the best epoch. */
#include "core/option.h"
#include "fit/callback.h"
#include "fit/weights.h"
#include <math.h>

typedef struct early_stopping {
    lk_callback            base;
    lk_early_stopping_args args; /* all but the monitor, which is in `monitor` */
    lki_monitor            monitor;
    int                    wait;
    int                    stopped; /* the epoch after which training ended; 0: it did not (it never ends after the first) */
    int                    best;    /* the epoch of the weights */
    lki_weights            weights;
} early_stopping;

static lk_status begin(lk_callback *c, const lki_happening *h)
{
    (void)h;
    early_stopping *e = (early_stopping *)c;
    e->wait = e->stopped = e->best = 0;
    lki_weights_free(&e->weights);
    lki_monitor_reset(&e->monitor, (lk_number){0});
    return LK_OK;
}

static lk_status keep(early_stopping *e, const lki_happening *h)
{
    e->best = h->event.epoch;
    return e->args.restore_best_weights == LK_ON ? lki_weights_take(&e->weights, h->event.model) : LK_OK;
}

/* Counts the epochs without improvement; with a baseline, the epochs that are not better than the baseline. */
static lk_status look(lk_callback *c, const lki_happening *h)
{
    early_stopping *e = (early_stopping *)c;
    const lk_logs   logs = lki_logs_of(h);
    double          value;
    if (!lki_monitor_value(&e->monitor, "Early stopping", &logs, &value) || h->event.epoch < e->args.start_from_epoch) return LK_OK;
    const bool better = lki_monitor_better(&e->monitor, value, e->monitor.best);
    e->wait++;
    if (better || (e->args.restore_best_weights == LK_ON && !e->weights.count)) LKI_TRY(keep(e, h));
    if (better) {
        e->monitor.best = value;
        if (!lki_number_given(e->args.baseline) || lki_monitor_better(&e->monitor, value, lki_number(e->args.baseline)))
            e->wait = 0;
    } else if (e->wait >= e->args.patience && h->event.epoch > 0) {
        e->stopped = h->event.epoch;
        lki_model_done_training(h->event.model);
    }
    return LK_OK;
}

static lk_status end(lk_callback *c, const lki_happening *h)
{
    early_stopping *e = (early_stopping *)c;
    if (e->stopped && e->args.verbose > 0) lki_say("Epoch %d: early stopping\n", e->stopped + 1);
    lk_status status = LK_OK;
    if (e->weights.count && !h->failed) {
        if (e->args.verbose > 0) lki_say("Restoring model weights from the end of the best epoch: %d.\n", e->best + 1);
        status = lki_weights_give(&e->weights, h->event.model);
    }
    lki_weights_free(&e->weights);
    return status;
}

static void destroy(lk_callback *c)
{
    early_stopping *e = (early_stopping *)c;
    lki_monitor_end(&e->monitor);
    lki_weights_free(&e->weights);
}

static void save(const lk_callback *c, lki_sink *s)
{
    const early_stopping *e = (const early_stopping *)c;
    lki_monitor_save(&e->monitor, s);
    lki_state_put(s, e->wait);
    lki_state_put(s, e->stopped);
    lki_state_put(s, e->best);
    lki_weights_save(&e->weights, s);
}

static lk_status load(lk_callback *c, lki_wire *w)
{
    early_stopping *e = (early_stopping *)c;
    lki_monitor_load(&e->monitor, w);
    e->wait = (int)lki_state_get_within(w, 0, INT32_MAX - 1);
    e->stopped = (int)lki_state_get_within(w, 0, INT32_MAX - 1);
    e->best = (int)lki_state_get_within(w, 0, INT32_MAX - 1);
    return lki_weights_load(&e->weights, w);
}

static const lki_callback_kind EARLY_STOPPING = {
    .name = "EarlyStopping",
    .bytes = sizeof(early_stopping),
    .on = {[LKI_HOOK_train_begin] = begin, [LKI_HOOK_epoch_end] = look, [LKI_HOOK_train_end] = end},
    .destroy = destroy,
    .save = save,
    .load = load,
};

lk_callback *lk_early_stopping_kw(lk_early_stopping_args args)
{
    if (args.patience < 0 || args.start_from_epoch < 0) {
        lki_fail(LK_EINVAL, "lk_early_stopping: %s %d; it should be at least 0",
                 args.patience < 0 ? "patience" : "start_from_epoch", args.patience < 0 ? args.patience : args.start_from_epoch);
        return NULL;
    }
    if (lki_number_given(args.baseline) && isnan(lki_number(args.baseline)))
        return lki_fail(LK_EINVAL, "lk_early_stopping: the baseline is not a number"), NULL;
    early_stopping *e = lki_callback_new(&EARLY_STOPPING);
    if (!e) return NULL;
    e->args = args;
    if (lki_monitor_begin("lk_early_stopping", &e->monitor, args.monitor, args.mode, args.min_delta) == LK_OK) return &e->base;
    lk_free(e);
    return NULL;
}
