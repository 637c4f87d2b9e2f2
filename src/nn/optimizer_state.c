/* The description of an optimiser: for programs, Keras' files, and checkpoints. */
#include "core/dtype.h"
#include "core/error.h"
#include "nn/optimizer.h"
#include "op/record.h"
#include <math.h>
#include <string.h>

/* ---- asking ------------------------------------------------------------------------------------------------------------------ */

static bool can_ask(const lk_optimizer *o, const char *what)
{
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER)) lki_fail(LK_EINVAL, "%s: not an optimiser", what);
    else if (!lki_tracer_current()) return true;
    else lki_fail(LK_ESTATE, "%s: has no value yet inside a function that is being traced", what);
    return false;
}

static double value_of(const lk_variable *v)
{
    const void *value = lki_variable_values(v);
    return value ? lki_element_get(v->dtype, value, 0) : 0;
}

/* The one whose rate and iterations are meant: that inside a loss_scale_optimizer. */
static const lk_optimizer *counting(const lk_optimizer *o) { return o->scale ? o->inner[0] : o; }

static bool has_rate(const lk_optimizer *o, const char *what)
{
    if (!o->kind->wraps) return true;
    return lki_fail(LK_EINVAL, "%s: \"%s\" has no rate: ask the optimisers inside", what, o->name), false;
}

lk_tensor *lk_optimizer_iteration(lk_optimizer *o)
{
    if (lki_is_kind(o, LKI_KIND_OPTIMIZER)) return lk_read(counting(o)->iteration);
    return lki_fail(LK_EINVAL, "lk_optimizer_iteration: not an optimiser"), &lki_poison;
}

int64_t lk_optimizer_iterations(const lk_optimizer *o)
{
    if (!can_ask(o, "optimizer_iterations")) return -1;
    o = counting(o);
    const int64_t every = lki_max(1, o->set.gradient_accumulation_steps);
    return (int64_t)value_of(o->iteration) / every;
}

double lk_optimizer_learning_rate(const lk_optimizer *o)
{
    if (!can_ask(o, "optimizer_learning_rate")) return NAN;
    o = counting(o);
    if (!has_rate(o, "optimizer_learning_rate")) return NAN;
    return o->rate ? value_of(o->rate) : lk_schedule_at(o->set.schedule, (int64_t)value_of(o->iteration));
}

lk_status lk_optimizer_set_learning_rate(lk_optimizer *o, double rate)
{
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER)) return lki_fail(LK_EINVAL, "optimizer_set_learning_rate: not an optimiser");
    if (o->scale) return lk_optimizer_set_learning_rate(o->inner[0], rate);
    if (!has_rate(o, "optimizer_set_learning_rate")) return LK_EINVAL;
    if (!o->rate) return lki_fail(LK_EINVAL, "%s: the learning rate follows a schedule and cannot be set", o->name);
    lk_tensor      *value = lk_fill((lk_shape){0}, LK_F32, rate);
    const lk_status status = lk_assign(o->rate, value);
    if (!lki_bad(value)) lk_free(value);
    return status;
}

lk_variables lk_optimizer_variables(lk_optimizer *o)
{
    if (lki_is_kind(o, LKI_KIND_OPTIMIZER)) {
        if (o->kind->wraps && lki_optimizer_list_state(o) != LK_OK) return (lk_variables){0};
        return (lk_variables){o->states, o->state};
    }
    lki_fail(LK_EINVAL, "optimizer_variables: not an optimiser");
    return (lk_variables){0};
}

/* ---- for files --------------------------------------------------------------------------------------------------------------- */

const lki_class *lki_optimizer_class(const lk_optimizer *o, void *args)
{
    lki_optimizer_common *now = args; /* the arguments of those that are not wrappers begin with these */
    if (!now) return o->class;
    memcpy(args, &o->args, o->class->bytes);
    *(const char **)((char *)args + lki_field_find(o->class, "name")->offset) = o->name;
    if (!o->kind->wraps && o->set.loss_scale_factor != now->loss_scale_factor) now->loss_scale_factor = o->set.loss_scale_factor;
    if (o->rate && !o->kind->wraps) now->learning_rate = LK_NUMBER(value_of(o->rate));
    return o->class;
}

/* ---- for checkpoints --------------------------------------------------------------------------------------------------------- */

lki_waiters *lki_optimizer_waiters(lk_optimizer *o) { return o->count ? NULL : &o->waiting; }

int lki_optimizer_groups(const lk_optimizer *o, lki_optimizer_group out[LKI_OPTIMIZER_GROUPS])
{
    int n = 0;
    if (o->kind->wraps) (void)lki_optimizer_list_state((lk_optimizer *)(uintptr_t)o);
    out[n++] = (lki_optimizer_group){"_variables", false, o->states, o->state};
    out[n++] = (lki_optimizer_group){"_trainable_variables", false, o->count, o->variable};
    out[n++] = (lki_optimizer_group){"_iterations", true, 1, &o->iteration};
    if (o->rate) out[n++] = (lki_optimizer_group){"_learning_rate", true, 1, &o->rate};
    if (o->average) out[n++] = (lki_optimizer_group){"_model_variables_moving_average", false, o->count, o->average};
    if (o->accumulator) out[n++] = (lki_optimizer_group){"_accumulated_gradients", false, o->count, o->accumulator};
    for (int s = 0; s < LKI_OPTIMIZER_SLOTS; s++)
        if (o->slot[s]) out[n++] = (lki_optimizer_group){o->kind->slot[s].list, false, o->count, o->slot[s]};
    if (o->scale) out[n++] = (lki_optimizer_group){"step_counter", true, 1, &o->streak};
    if (o->scale) out[n++] = (lki_optimizer_group){"dynamic_scale", true, 1, &o->scale};
    if (o->product) out[n++] = (lki_optimizer_group){"_u_product", true, 1, &o->product};
    return n;
}
