/* Callbacks that set the learning rate: LearningRateScheduler before each epoch, ReduceLROnPlateau when a value stops improving.
 *
 * Both add `learning_rate`, the rate the epoch was trained with, to its logs. An optimiser with a schedule is an error when
 * training begins, because its rate cannot be set. */
#include "fit/callback.h"
#include "nn/optimizer.h"
#include <math.h>
#include <string.h>

static lk_status rate_can_be_set(const char *call, lk_model *m)
{
    const lk_optimizer *o = lk_model_optimizer(m);
    lki_optimizer_group group[LKI_OPTIMIZER_GROUPS];
    if (!o) return lki_fail(LK_ESTATE, "%s: the model is not compiled: it has no optimiser whose rate could be set", call);
    for (int i = 0, count = lki_optimizer_groups(o, group); i < count; i++)
        if (strcmp(group[i].name, "_learning_rate") == 0) return LK_OK;
    return lki_fail(LK_EINVAL,
                    "%s: the learning rate of the optimiser follows a schedule and cannot be set; give it a plain .learning_rate",
                    call);
}

static lk_status log_rate(const lki_happening *h)
{
    return lki_log_add(h, "learning_rate", lk_optimizer_learning_rate(lk_model_optimizer(h->event.model)));
}

/* ---- LearningRateScheduler --------------------------------------------------------------------------------------------------- */

typedef struct scheduler {
    lk_callback            base;
    lk_rate_scheduler_args args;
} scheduler;

static lk_status scheduler_begin(lk_callback *c, const lki_happening *h)
{
    (void)c;
    return rate_can_be_set("lk_learning_rate_scheduler", h->event.model);
}

static lk_status scheduler_epoch_begin(lk_callback *c, const lki_happening *h)
{
    const scheduler *s = (scheduler *)c;
    lk_optimizer    *o = lk_model_optimizer(h->event.model);
    char             text[LKI_NUMBER_TEXT];
    if (h->goes_on) return LK_OK; /* the rate was set when the epoch began */
    const double rate = s->args.schedule(h->event.epoch, lk_optimizer_learning_rate(o), s->args.user);
    if (!isfinite(rate))
        return lki_fail(LK_EINVAL, "lk_learning_rate_scheduler: epoch %d: the schedule gave %s; it should be a finite number",
                        h->event.epoch, lki_number_text(rate, text));
    LKI_TRY(lk_optimizer_set_learning_rate(o, rate));
    if (s->args.verbose > 0)
        lki_say("\nEpoch %d: LearningRateScheduler setting learning rate to %s.\n", h->event.epoch + 1, lki_rate_text(rate, text));
    return LK_OK;
}

static lk_status scheduler_epoch_end(lk_callback *c, const lki_happening *h)
{
    (void)c;
    return log_rate(h);
}

static const lki_callback_kind SCHEDULER = {
    .name = "LearningRateScheduler",
    .bytes = sizeof(scheduler),
    .on = {[LKI_HOOK_train_begin] = scheduler_begin,
           [LKI_HOOK_epoch_begin] = scheduler_epoch_begin,
           [LKI_HOOK_epoch_end] = scheduler_epoch_end},
};

lk_callback *lk_learning_rate_scheduler_kw(lk_rate_scheduler_args args)
{
    if (!args.schedule) {
        lki_fail(LK_EINVAL, "lk_learning_rate_scheduler: schedule is NULL; it should be a function of the epoch and the rate");
        return NULL;
    }
    scheduler *s = lki_callback_new(&SCHEDULER);
    if (!s) return NULL;
    s->args = args;
    return &s->base;
}

/* ---- ReduceLROnPlateau ------------------------------------------------------------------------------------------------------- */

typedef struct plateau {
    lk_callback base;
    lki_monitor monitor;
    double      factor, min_lr;
    int         patience, cooldown, verbose;
    int         wait;    /* epochs since the last improvement */
    int         cooling; /* epochs left during which `wait` does not count */
} plateau;

static lk_status plateau_begin(lk_callback *c, const lki_happening *h)
{
    plateau *p = (plateau *)c;
    p->wait = p->cooling = 0;
    lki_monitor_reset(&p->monitor, (lk_number){0});
    return rate_can_be_set("lk_reduce_lr_on_plateau", h->event.model);
}

static lk_status reduce(plateau *p, const lki_happening *h)
{
    lk_optimizer *o = lk_model_optimizer(h->event.model);
    char          text[LKI_NUMBER_TEXT];
    const double  before = lk_optimizer_learning_rate(o), rate = fmax(before * p->factor, p->min_lr);
    if (!(before > (double)(float)p->min_lr)) return LK_OK;
    LKI_TRY(lk_optimizer_set_learning_rate(o, rate));
    p->cooling = p->cooldown;
    p->wait = 0;
    if (p->verbose > 0)
        lki_say("\nEpoch %d: ReduceLROnPlateau reducing learning rate to %s.\n", h->event.epoch + 1, lki_rate_text(rate, text));
    return LK_OK;
}

static lk_status plateau_epoch_end(lk_callback *c, const lki_happening *h)
{
    plateau *p = (plateau *)c;
    double   value;
    LKI_TRY(log_rate(h));
    const lk_logs logs = lki_logs_of(h);
    if (!lki_monitor_value(&p->monitor, "Learning rate reduction is", &logs, &value)) return LK_OK;
    if (p->cooling > 0) {
        p->cooling--;
        p->wait = 0;
    }
    if (lki_monitor_better(&p->monitor, value, p->monitor.best)) {
        p->monitor.best = value;
        p->wait = 0;
    } else if (p->cooling == 0 && ++p->wait >= p->patience) return reduce(p, h);
    return LK_OK;
}

static void plateau_save(const lk_callback *c, lki_sink *s)
{
    const plateau *p = (const plateau *)c;
    lki_monitor_save(&p->monitor, s);
    lki_state_put(s, p->wait);
    lki_state_put(s, p->cooling);
}

static lk_status plateau_load(lk_callback *c, lki_wire *w)
{
    plateau *p = (plateau *)c;
    lki_monitor_load(&p->monitor, w);
    p->wait = (int)lki_state_get_within(w, 0, INT32_MAX - 1);
    p->cooling = (int)lki_state_get_within(w, 0, INT32_MAX - 1);
    return LK_OK;
}

static void plateau_destroy(lk_callback *c) { lki_monitor_end(&((plateau *)c)->monitor); }

static const lki_callback_kind PLATEAU = {
    .name = "ReduceLROnPlateau",
    .bytes = sizeof(plateau),
    .on = {[LKI_HOOK_train_begin] = plateau_begin, [LKI_HOOK_epoch_end] = plateau_epoch_end},
    .destroy = plateau_destroy,
    .save = plateau_save,
    .load = plateau_load,
};

static bool plateau_fits(const lk_reduce_lr_args *a, double factor, double patience)
{
    const char *const call = "lk_reduce_lr_on_plateau";
    if (!(factor > 0 && factor < 1)) lki_fail(LK_EINVAL, "%s: factor %g; it should be between 0 and 1", call, factor);
    else if (!(patience >= 0 && patience <= 1e9)) lki_fail(LK_EINVAL, "%s: patience %g; it should be at least 0", call, patience);
    else if (a->cooldown < 0) lki_fail(LK_EINVAL, "%s: cooldown %d; it should be at least 0", call, a->cooldown);
    else if (!(a->min_lr >= 0)) lki_fail(LK_EINVAL, "%s: min_lr %g; it should be at least 0", call, a->min_lr);
    else return true;
    return false;
}

lk_callback *lk_reduce_lr_on_plateau_kw(lk_reduce_lr_args args)
{
    const double factor = lki_number_or(args.factor, 0.1), patience = lki_number_or(args.patience, 10);
    const double min_delta = lki_number_or(args.min_delta, 1e-4);
    if (!plateau_fits(&args, factor, patience)) return NULL;
    plateau *p = lki_callback_new(&PLATEAU);
    if (!p) return NULL;
    p->factor = factor;
    p->patience = (int)patience;
    p->cooldown = args.cooldown;
    p->min_lr = args.min_lr;
    p->verbose = args.verbose;
    if (lki_monitor_begin("lk_reduce_lr_on_plateau", &p->monitor, args.monitor, args.mode, min_delta) == LK_OK) return &p->base;
    lk_free(p);
    return NULL;
}
