/* Sequential: layers one after the other. */
#include "model/model.h"

/* One input, through all of them. */
static lk_status chain(lk_model *m)
{
    LKI_TRY(lki_model_flow(m, 1, m->count, 1));
    for (int i = 0; i < m->count; i++) {
        const int results = lki_layer_outputs(m->layer[i]);
        if (results > 1)
            return lki_fail(LK_EINVAL, "lk_sequential: layer %d, \"%s\", has %d results; use it in lk_functional()", i,
                            lki_layer_title(m->layer[i]), results);
        LKI_TRY(lki_model_use(m, &(lki_use){.layer = m->layer[i], .count = 1, .in = &i, .positional = 1}));
    }
    m->input[0].as_is = m->layer[0]->kind->takes_ids;
    m->output[0] = m->count;
    return LK_OK;
}

lk_model *lk_sequential_of(const char *name, int count, lk_layer *const *one_based)
{
    LKI_SCOPE_ERRORS;
    if (count < 1 || !one_based) return lki_fail(LK_EINVAL, "lk_sequential: there are no layers"), NULL;
    lk_layer *const *layer = one_based + 1;
    lk_model        *m = lki_model_new(name ? name : "sequential", LKI_SEQUENTIAL);
    if (!m) return NULL;
    if (lki_model_take("lk_sequential", m, count, layer) == LK_OK && chain(m) == LK_OK &&
        (!layer[0]->input_shape.rank || lki_model_make(m, &layer[0]->input_shape) == LK_OK))
        return m;
    lk_free(m);
    return NULL;
}
