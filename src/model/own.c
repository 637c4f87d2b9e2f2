/* Custom models: a function over layers. */
#include "model/model.h"

static lk_status flow(lk_model *m, const lk_own_model_args *a)
{
    LKI_TRY(lki_model_flow(m, (int)lki_integer_or(a->inputs, 1), 0, (int)lki_integer_or(a->outputs, 1)));
    for (int i = 0; i < m->inputs; i++)
        m->input[i].as_is = true;
    return LK_OK;
}

lk_model *lk_model_of_kw(lk_own_model_args a)
{
    LKI_SCOPE_ERRORS;
    if (!a.fn) return lki_fail(LK_EINVAL, "lk_model_of: fn is NULL; it is the function that calls the layers"), NULL;
    const int64_t in = lki_integer_or(a.inputs, 1), out = lki_integer_or(a.outputs, 1);
    if (in < 1 || in > LKI_MOST_INPUTS || out < 1 || out > LKI_MOST_INPUTS)
        return lki_fail(LK_EINVAL, "lk_model_of: %lld inputs and %lld outputs; there must be 1 to %d", (long long)in,
                        (long long)out, LKI_MOST_INPUTS),
               NULL;
    lk_model *m = lki_model_new(a.name ? a.name : "own_model", LKI_OWN_MODEL);
    if (!m) return NULL;
    m->fn = a.fn;
    m->user = a.user;
    if (lki_model_take("lk_model_of", m, a.layers.count, a.layers.item) == LK_OK && flow(m, &a) == LK_OK) return m;
    lk_free(m);
    return NULL;
}
