/* Weights kept aside; see weights.h. */
#include "fit/weights.h"
#include "core/memory.h"
#include "core/object.h"
#include "op/tensor.h"

void lki_weights_free(lki_weights *w)
{
    for (int i = 0; i < w->count; i++)
        lki_drop(w->item[i]);
    lki_release(w->item);
    *w = (lki_weights){0};
}

lk_status lki_weights_take(lki_weights *w, lk_model *m)
{
    lk_status status = LK_OK;
    lki_weights_free(w);
    LK_POOL {
        const lk_variables v = lk_model_weights(m);
        w->item = lki_zalloc_array(v.count + 1, sizeof *w->item);
        if (!w->item) status = LK_ENOMEM;
        for (int i = 0; i < v.count && status == LK_OK; i++)
            LK_STEP {
                lk_tensor *value = lk_read(v.item[i]);
                if (lk_poisoned(value)) status = lk_error_code();
                else w->item[w->count++] = lki_retain(value);
            }
    }
    if (status != LK_OK) lki_weights_free(w);
    return status;
}

lk_status lki_weights_give(const lki_weights *w, lk_model *m)
{
    lk_status status = LK_OK;
    LK_POOL {
        LK_STEP {
            status = lk_model_set_weights(m, (lk_tuple){w->count, w->item});
        }
    }
    return status;
}

void lki_weights_save(const lki_weights *w, lki_sink *s)
{
    lki_state_put(s, w->count);
    for (int i = 0; i < w->count; i++)
        lki_state_put_values(s, w->item[i]->dtype, &w->item[i]->shape, lk_data(w->item[i]));
}

/* A tensor has at least 24 bytes, so a wrong count cannot ask for more memory than the bytes justify. */
lk_status lki_weights_load(lki_weights *w, lki_wire *from)
{
    const int64_t count = lki_state_get_within(from, 0, (int64_t)(lki_wire_left(from) / 24));
    lki_weights_free(w);
    if (from->bad || !count) return LK_OK;
    if (!(w->item = lki_zalloc_array(count, sizeof *w->item))) return LK_ENOMEM;
    LK_STEP
        while (w->count < count && !from->bad && !lk_failed()) {
            lk_tensor *t = lki_state_get_tensor(from);
            if (t) w->item[w->count++] = lki_retain(t);
        }
    return lk_failed() ? lk_error_code() : LK_OK;
}
