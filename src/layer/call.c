/* Calling a layer by hand: alone, or in the function of a model or a custom layer.
 *
 * The first call gives it a name, if no model did, and makes its weights; inside run all replicas meet for that. In training, its
 * random numbers depend on the count of training calls of the enclosing model, or else on its own count. */
#include "dist/strategy.h"
#include "layer/layer.h"
#include "op/record.h"
#include <stdio.h>

/* ---- getting ready ---- */

typedef struct request {
    lk_layer       *layer;
    const lk_shape *in;
    bool            counts; /* it needs its own count */
} request;

static bool is_ready(const request *r) { return r->layer->built && (!r->counts || r->layer->calls); }

static lk_status place_and_build(lk_layer *l, const lk_shape *in)
{
    const bool alone = !l->path;
    lk_shape   out[LKI_MOST_OUTPUTS];
    if (alone) LKI_TRY(lki_layer_place(l, lki_layer_title(l), lki_layer_title(l)));
    lk_status status = lki_layer_output(l, in, out);
    if (status == LK_OK) status = lki_layer_build(l, in);
    if (status != LK_OK && alone) lki_layer_leave(l);
    return status;
}

static lk_status start_count(lk_layer *l)
{
    char name[300];
    snprintf(name, sizeof name, "%s/seed_generator_state", l->name);
    l->calls = lki_retain(lki_variable_new(name, &(lk_shape){0}, LK_I64, 0, false));
    return l->calls ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

static lk_status make_ready(const request *r)
{
    lk_status status = LK_OK;
    lki_recording_pause(); /* initial values are not part of any gradient */
    LK_STEP {
        if (!r->layer->built) status = place_and_build(r->layer, r->in);
        if (status == LK_OK && r->counts && !r->layer->calls) status = start_count(r->layer);
    }
    lki_recording_resume();
    return status;
}

static lk_status make_ready_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    (void)s, (void)count, (void)everyones;
    return make_ready(first);
}

/* In the current context: with the other replicas, or under the strategy of the enclosing model. */
static lk_status get_ready(request *r)
{
    lk_strategy *here = lki_context_now().strategy, *models = lki_pass_current() ? lki_pass_current()->strategy : NULL;
    char         text[LKI_SHAPE_TEXT], detail[LKI_SHAPE_TEXT + 256];
    if (is_ready(r)) return LK_OK;
    if (here && here->kind != LKI_STRATEGY_DEFAULT && lki_replica_current()) {
        snprintf(detail, sizeof detail, "layer \"%.200s\", rows of %s", lki_layer_title(r->layer), lki_shape_text(r->in, text));
        return lki_meet("lk_layer_call", detail, make_ready_together, r);
    }
    if (!models || (here && here->kind != LKI_STRATEGY_DEFAULT)) return make_ready(r);
    lki_context before = lki_context_cross(models);
    lk_status   status = make_ready(r);
    lki_context_restore(&before);
    return status;
}

/* ---- the call ---- */

void lki_input_rows(lk_tuple in, lk_shape *row)
{
    for (int i = 0; i < in.count; i++) {
        row[i] = (lk_shape){.rank = in.item[i] ? in.item[i]->shape.rank - 1 : LKI_ABSENT};
        for (int k = 0; k < row[i].rank; k++)
            row[i].dim[k] = in.item[i]->shape.dim[k + 1];
    }
    row[in.count] = (lk_shape){.rank = -1};
}

static lk_status inputs_fit(const lk_layer *l, lk_tuple in)
{
    if (in.count < 1 || in.count > LKI_MOST_INPUTS)
        return lki_fail(LK_EINVAL, "lk_layer_call: %d inputs for layer \"%s\"; there may be 1 to %d", in.count, lki_layer_title(l),
                        LKI_MOST_INPUTS);
    for (int i = 0; i < in.count; i++) {
        if (!lki_usable("lk_layer_call", "x", in.item[i])) return lki_poisoned_status("lk_layer_call");
        if (lki_stands_for(in.item[i])) return lki_fail(LK_EINVAL, "lk_layer_call: x is %s", lki_why_not_plain(in.item[i]));
        if (lk_rank(in.item[i]) < 1) return lki_fail(LK_ESHAPE, "lk_layer_call: x is a scalar; it should be rows");
    }
    return LK_OK;
}

static lk_tensor *run(lk_layer *l, lk_tuple in, lki_pass *pass, bool counts)
{
    if (counts) pass->iteration = lk_read(l->calls);
    lk_tensor *y = lki_layer_run(l, in, pass);
    if (lki_bad(y) || !counts) return y;
    return lk_assign_add(l->calls, lk_fill((lk_shape){0}, LK_I64, 1)) == LK_OK ? y : &lki_poison;
}

lk_tensor *lk_layer_call_kw(lk_layer_call_args a)
{
    lk_layer *l = a.layer;
    lk_shape  row[LKI_MOST_INPUTS + 1], out[LKI_MOST_OUTPUTS];
    if (!lki_is_kind(l, LKI_KIND_LAYER)) return lki_refuse(LK_EINVAL, "lk_layer_call: %s", l ? "not a layer" : "the layer is NULL");
    if (!lki_usable("lk_layer_call", "x", a.x)) return &lki_poison;
    lk_tuple in = a.x->nest ? lk_nested(a.x) : (lk_tuple){1, &a.x};
    if (inputs_fit(l, in) != LK_OK) return &lki_poison;
    lki_input_rows(in, row);
    lki_pass pass = lki_pass_current() ? *lki_pass_current() : (lki_pass){0};
    if (lki_switch_given(a.training)) pass.training = a.training == LK_ON;
    const bool counts = pass.training && !pass.iteration && lki_layer_draws(l);
    if (get_ready(&(request){l, row, counts}) != LK_OK || lki_layer_output(l, row, out) != LK_OK) return &lki_poison;
    return run(l, in, &pass, counts);
}
