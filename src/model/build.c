/* Making a model's variables: when, on which thread, under which strategy. */
#include "core/memory.h"
#include "model/model.h"
#include "op/record.h"
#include <stdio.h>

/* ---- layer by layer ---- */

static void forget(lk_model *m)
{
    for (int i = 0; i < m->count; i++)
        lki_layer_forget(m->layer[i]);
    lki_drop(m->calls);
    m->calls = NULL;
}

lk_status lki_model_count_calls(lk_model *m)
{
    bool draws = false;
    char name[300];
    for (int i = 0; i < m->count; i++)
        draws = draws || lki_layer_draws(m->layer[i]);
    if (!draws) return LK_OK;
    snprintf(name, sizeof name, "%s/seed_generator_state", m->name);
    m->calls = lki_retain(lki_variable_new(name, &(lk_shape){0}, LK_I64, 0, false));
    return m->calls ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

/* A custom model creates the weights of its layers when it calls them. */
static lk_status build_layers(lk_model *m, const lk_shape *row)
{
    if (m->form == LKI_OWN_MODEL) return LK_OK;
    lk_shape *shape LKI_RELEASED = lki_alloc_array(m->values, sizeof *shape);
    return shape ? lki_flow_shapes(m, row, shape, true) : LK_ENOMEM;
}

static lk_status build_all(lk_model *m, const lk_shape *row)
{
    lk_status status = LK_OK;
    lki_recording_pause(); /* initial values are not part of any gradient */
    LK_STEP {
        status = build_layers(m, row);
        if (status == LK_OK) status = lki_model_count_calls(m);
    }
    lki_recording_resume();
    if (status == LK_OK) status = lki_waiters_tell(&m->waiting, m);
    if (status != LK_OK) {
        forget(m);
        return status;
    }
    for (int i = 0; i < m->inputs && m->form == LKI_SEQUENTIAL; i++)
        m->input[i].row = row[i];
    m->shaped = true;
    __atomic_store_n(&m->built, true, __ATOMIC_RELEASE); /* if there are replicas, all wait in the meeting */
    return LK_OK;
}

/* ---- wherever this thread is ---- */

typedef struct request {
    lk_model       *model;
    const lk_shape *row;
} request;

static lk_status build_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    const request *r = first;
    (void)s, (void)count, (void)everyones;
    return build_all(r->model, r->row);
}

/* The default strategy counts as none. */
static lk_strategy *strategy_here(void)
{
    lk_strategy *s = lki_context_now().strategy;
    return s && s->kind != LKI_STRATEGY_DEFAULT ? s : NULL;
}

lk_status lki_model_make(lk_model *m, const lk_shape *row)
{
    lk_strategy *here = strategy_here();
    char         text[LKI_SHAPE_TEXT], detail[LKI_SHAPE_TEXT + 16];
    if (here && m->strategy && here != m->strategy)
        return lki_fail(LK_ESTATE, "lk_model_build: the model was made under %s and is used under %s: strategies are mixed",
                        m->strategy->text, here->text);
    if (here && lki_replica_current()) {
        request mine = {m, row};
        snprintf(detail, sizeof detail, "rows of %s", lki_shape_text(row, text));
        return lki_meet("lk_model_build", detail, build_together, &mine);
    }
    if (here || !m->strategy) return build_all(m, row);
    lki_context before = lki_context_cross(m->strategy);
    lk_status   status = build_all(m, row);
    lki_context_restore(&before);
    return status;
}

static bool is_row(const lk_shape *row)
{
    bool good = row->rank >= 0 && row->rank < LK_MAX_RANK;
    for (int i = 0; good && i < row->rank; i++)
        good = row->dim[i] >= -1;
    return good;
}

lk_status lk_model_build(lk_model *m, lk_shape row)
{
    LKI_SCOPE_ERRORS;
    char given[LKI_SHAPE_TEXT], had[LKI_SHAPE_TEXT];
    if (!lki_is_model("lk_model_build", m)) return LK_EINVAL;
    if (!is_row(&row)) return lki_fail(LK_ESHAPE, "lk_model_build: %s is not the shape of a row", lki_shape_text(&row, given));
    if (!lki_model_built(m) && m->form == LKI_OWN_MODEL)
        return lki_fail(LK_EUNSUPPORTED, "lk_model_build: model \"%s\" is a custom model: its first call makes the weights",
                        m->name);
    if (!lki_model_built(m) && m->inputs > 1)
        return lki_fail(LK_EINVAL, "lk_model_build: model \"%s\" has %d inputs; it was built from their shapes", m->name,
                        m->inputs);
    if (!lki_model_built(m)) return lki_model_make(m, &row);
    if (lki_shape_equal(&row, &m->input[0].row)) return LK_OK;
    return lki_fail(LK_ESTATE, "lk_model_build: for rows of %s: the model was built for rows of %s before",
                    lki_shape_text(&row, given), lki_shape_text(&m->input[0].row, had));
}
