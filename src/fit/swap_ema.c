/* SwapEMAWeights: while a model is evaluated or predicts, its variables hold their moving averages; the trained values are kept
 * where the averages were.
 *
 *     training --test_begin, predict_begin [epoch_end]--> averages --test_end, predict_end [epoch_begin]--> training
 *
 * The events in brackets apply with swap_on_epoch: then callbacks after this one see averages at the end of an epoch too. When
 * training ends, for whatever reason, the averages stay in the variables. */
#include "fit/callback.h"
#include "nn/optimizer.h"
#include <string.h>

typedef struct swap_ema {
    lk_callback base;
    bool        on_epoch;
    bool        swapped;
} swap_ema;

static lk_status find_averages(lk_model *m, lki_optimizer_group *variable, lki_optimizer_group *average)
{
    const lk_optimizer *o = lk_model_optimizer(m);
    lki_optimizer_group group[LKI_OPTIMIZER_GROUPS];
    if (!o)
        return lki_fail(LK_ESTATE, "lk_swap_ema_weights: the model is not compiled: there is no optimiser with moving averages");
    for (int i = 0, count = lki_optimizer_groups(o, group); i < count; i++) {
        if (strcmp(group[i].name, "_trainable_variables") == 0) *variable = group[i];
        if (strcmp(group[i].name, "_model_variables_moving_average") == 0) *average = group[i];
    }
    if (average->count) return LK_OK;
    return lki_fail(LK_EINVAL, "lk_swap_ema_weights: the optimiser has no moving averages; make it with .use_ema = LK_ON%s",
                    variable->count ? "" : ", and train before evaluating");
}

static lk_status exchange(lk_variable *a, lk_variable *b)
{
    lk_status status = LK_OK;
    LK_STEP {
        lk_tensor *before = lk_read(a);
        status = lk_assign(a, lk_read(b));
        if (status == LK_OK) status = lk_assign(b, before);
    }
    return status;
}

static lk_status swap_to(swap_ema *s, lk_model *m, bool averages)
{
    lki_optimizer_group variable = {0}, average = {0};
    if (s->swapped == averages) return LK_OK;
    LKI_TRY(find_averages(m, &variable, &average));
    for (int i = 0; i < average.count; i++)
        LKI_TRY(exchange(variable.item[i], average.item[i]));
    s->swapped = averages;
    return LK_OK;
}

static lk_status show(lk_callback *c, const lki_happening *h) { return swap_to((swap_ema *)c, h->event.model, true); }
static lk_status hide(lk_callback *c, const lki_happening *h) { return swap_to((swap_ema *)c, h->event.model, false); }

static lk_status epoch_begin(lk_callback *c, const lki_happening *h) { return ((swap_ema *)c)->on_epoch ? hide(c, h) : LK_OK; }

/* Without swap_on_epoch this may be the first hook that does anything; a missing use_ema is reported even so. */
static lk_status epoch_end(lk_callback *c, const lki_happening *h)
{
    lki_optimizer_group variable = {0}, average = {0};
    return ((swap_ema *)c)->on_epoch ? show(c, h) : find_averages(h->event.model, &variable, &average);
}

static lk_status train_end(lk_callback *c, const lki_happening *h)
{
    lk_optimizer *o = lk_model_optimizer(h->event.model);
    LKI_TRY(hide(c, h));
    return o ? lk_optimizer_finalize(o) : LK_OK;
}

static void save(const lk_callback *c, lki_sink *s) { lki_state_put(s, ((const swap_ema *)c)->swapped); }

static lk_status load(lk_callback *c, lki_wire *w)
{
    ((swap_ema *)c)->swapped = lki_state_get(w) != 0;
    return LK_OK;
}

static const lki_callback_kind SWAP_EMA = {
    .name = "SwapEMAWeights",
    .bytes = sizeof(swap_ema),
    .on = {[LKI_HOOK_epoch_begin] = epoch_begin,
           [LKI_HOOK_epoch_end] = epoch_end,
           [LKI_HOOK_test_begin] = show,
           [LKI_HOOK_test_end] = hide,
           [LKI_HOOK_predict_begin] = show,
           [LKI_HOOK_predict_end] = hide,
           [LKI_HOOK_train_end] = train_end},
    .save = save,
    .load = load,
};

lk_callback *lk_swap_ema_weights_kw(lk_swap_ema_args args)
{
    swap_ema *s = lki_callback_new(&SWAP_EMA);
    if (!s) return NULL;
    s->on_epoch = args.swap_on_epoch == LK_ON;
    return &s->base;
}
