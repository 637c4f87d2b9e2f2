/* TerminateOnNaN: end training as soon as the loss is not finite. */
#include "fit/callback.h"
#include <math.h>
#include <string.h>

static lk_status look(lk_callback *c, const lki_happening *h)
{
    (void)c;
    const lk_logs *logs = &h->event.logs;
    for (int i = 0; i < logs->count; i++) {
        if (isfinite(logs->value[i]) || strcmp(logs->name[i], "loss") != 0) continue;
        lki_say("Batch %lld: Invalid loss, terminating training\n", (long long)h->event.batch);
        lk_model_stop_training(h->event.model);
    }
    return LK_OK;
}

static const lki_callback_kind TERMINATE_ON_NAN = {
    .name = "TerminateOnNaN", .bytes = sizeof(lk_callback), .on = {[LKI_HOOK_train_batch_end] = look}};

lk_callback *lk_terminate_on_nan(void) { return lki_callback_new(&TERMINATE_ON_NAN); }
