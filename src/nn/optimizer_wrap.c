/* Optimisers around others: loss_scale_optimizer and multi_optimizer.
 *
 * Their state is a list of their own variables, then of those of the optimisers inside, as in Keras. */
#include "core/error.h"
#include "core/memory.h"
#include "nn/optimizer.h"
#include "op/gradient.h"
#include <lockstep/ops.h>
#include <math.h>
#include <string.h>

/* ---- what they share --------------------------------------------------------------------------------------------------------- */

/* The same optimiser may be there for several patterns: the first place counts. */
static int place_of(const lk_optimizer *o, int to)
{
    for (int i = 0; i < to; i++)
        if (o->inner[i] == o->inner[to]) return i;
    return to;
}

static bool list_one(lk_optimizer *o, lk_variable *v)
{
    if (!lki_grow((void **)&o->state, &o->room, o->states + 1, sizeof *o->state)) return false;
    o->state[o->states++] = v;
    return true;
}

lk_status lki_optimizer_list_state(lk_optimizer *o)
{
    o->states = 2; /* iteration and rate */
    o->state[0] = o->iteration;
    o->state[1] = o->rate;
    if (o->scale && o->count && !(list_one(o, o->streak) && list_one(o, o->scale))) return LK_ENOMEM;
    for (int i = 0; i < o->inners; i++) {
        if (place_of(o, i) != i) continue;
        const lk_variables inner = lk_optimizer_variables(o->inner[i]);
        for (int k = 0; k < inner.count; k++)
            if (!list_one(o, inner.item[k])) return LK_ENOMEM;
    }
    return LK_OK;
}

static bool can_be_inside(const char *call, const lk_optimizer *o)
{
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER))
        return lki_fail(LK_EINVAL, "%s: %s", call, o ? "what it wraps is not an optimiser" : "the optimiser to wrap is missing"),
               false;
    if (o->kind->wraps)
        return lki_fail(LK_EINVAL, "%s: \"%s\" wraps optimisers itself, and cannot be wrapped", call, o->name), false;
    return true;
}

static bool add_inner(lk_optimizer *o, lk_optimizer *inner, const char *pattern)
{
    const int n = o->inners;
    o->inner[n] = lki_retain(inner);
    o->pattern[n] = pattern ? lki_strdup(pattern) : NULL;
    o->inners++;
    return !pattern || o->pattern[n];
}

static lk_optimizer *wrapper_new(const lki_algorithm *kind, const char *name, int inners)
{
    const lki_optimizer_common set = {.name = name, .learning_rate = LK_NUMBER(0)};
    lk_optimizer              *o = lki_optimizer_new(kind, &set, 0);
    if (!o) return NULL;
    o->inner = lki_zalloc_array(inners, sizeof *o->inner);
    o->pattern = lki_zalloc_array(inners, sizeof *o->pattern);
    if (o->inner && o->pattern) return o;
    lk_free(o);
    return NULL;
}

/* ---- the scale of a loss ----------------------------------------------------------------------------------------------------- */

static lk_status build_inner(lk_optimizer *o) { return lk_optimizer_build(o->inner[0], (lk_variables){o->count, o->variable}); }

static lk_tensor *all_finite(int n, const lki_gradient *g)
{
    lk_tensor *all = NULL;
    for (int i = 0; i < n; i++) {
        lk_tensor *finite = lk_reduce_all(lk_is_finite(g[i].value));
        all = all ? lk_logical_and(all, finite) : finite;
    }
    return all;
}

/* After enough steps the scale doubles and the count begins again; after a step that was left out it is halved. */
static lk_status move_scale(lk_optimizer *o, lk_tensor *finite)
{
    const int64_t growth = lki_integer_or(o->args.loss_scale.dynamic_growth_steps, 2000);
    lk_tensor    *streak = lk_read(o->streak), *scale = lk_read(o->scale), *one = lki_like(streak, 1);
    lk_tensor    *grows = lk_equal(streak, lki_like(streak, (double)growth - 1));
    lk_tensor    *next = lk_where(grows, lk_mul(scale, lki_like(scale, 2)), scale),
              *count = lk_where(grows, lki_like(streak, 0), lk_add(streak, one));
    next = lk_where(finite, next, lk_mul(scale, lki_like(scale, 0.5)));
    count = lk_where(finite, count, lki_like(streak, 0));
    LKI_TRY(lki_update(LKI_OP_assign, NULL, 1, &count, 1, &o->streak));
    return lki_update(LKI_OP_assign, NULL, 1, &next, 1, &o->scale);
}

static lk_status scaled_step(lk_optimizer *o, int n, lki_gradient *g, lk_tensor *go_ahead)
{
    lk_tensor *finite = all_finite(n, g), *scale = lk_read(o->scale);
    (void)go_ahead; /* wrappers are not wrapped */
    for (int i = 0; i < n; i++)
        g[i].value = lki_unscaled(g[i].value, scale);
    LKI_TRY(lki_optimizer_run(o->inner[0], n, g, finite));
    return move_scale(o, finite);
}

static const lki_optimizer_wrapper SCALING = {build_inner, scaled_step};
static const lki_algorithm         LOSS_SCALE = {.name = "loss_scale_optimizer", .op = LKI_OP_COUNT, .wraps = &SCALING};

lk_optimizer *lk_loss_scale_optimizer_kw(lk_loss_scale_optimizer_args a)
{
    const double  scale = lki_number_or(a.initial_scale, 32768);
    const int64_t growth = lki_integer_or(a.dynamic_growth_steps, 2000);
    if (!can_be_inside("loss_scale_optimizer", a.inner_optimizer)) return NULL;
    if (!(scale > 0) || isinf(scale))
        return lki_fail(LK_EINVAL, "loss_scale_optimizer: initial_scale is %g: must be above 0", scale), NULL;
    if (growth < 1)
        return lki_fail(LK_EINVAL, "loss_scale_optimizer: dynamic_growth_steps is %lld: must be at least 1", (long long)growth),
               NULL;
    lk_optimizer *o = wrapper_new(&LOSS_SCALE, a.name, 1);
    if (!o) return NULL;
    o->streak = lki_retain(lki_optimizer_scalar(o, "step_counter", LK_I64, 0));
    o->scale = lki_retain(lki_optimizer_scalar(o, "dynamic_scale", LK_F32, scale));
    if (!o->streak || !o->scale || !add_inner(o, a.inner_optimizer, NULL)) return lk_free(o), NULL;
    a.inner_optimizer->set.loss_scale_factor = 0; /* as in Keras: gradients are not scaled twice */
    return lki_optimizer_described(o, LKI_LOSS_SCALE, &a);
}

lk_tensor *lk_optimizer_scale_loss(lk_optimizer *o, lk_tensor *loss)
{
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER)) return lki_refuse(LK_EINVAL, "lk_optimizer_scale_loss: not an optimiser");
    if (!lki_usable("lk_optimizer_scale_loss", "the loss", loss)) return &lki_poison;
    if (o->scale) return lk_mul(loss, lk_cast(lk_read(o->scale), loss->dtype));
    const double factor = o->set.loss_scale_factor;
    return factor == 0 ? loss : lk_mul(loss, lki_like(loss, factor));
}

/* ---- several optimisers ------------------------------------------------------------------------------------------------------ */

/* The optimiser inside for a variable: an equal path comes before a regular expression; the last is for all others. */
static lk_status route_of(const lk_optimizer *o, const lk_variable *v, int *to)
{
    bool found = false;
    *to = o->inners - 1;
    for (int i = 0; i < o->inners; i++)
        if (o->pattern[i] && !strcmp(o->pattern[i], v->name)) return *to = i, LK_OK;
    for (int i = 0; i < o->inners; i++) {
        bool matches = false;
        if (o->pattern[i]) LKI_TRY(lki_pattern_matches(o->name, o->pattern[i], v->name, true, &matches));
        if (matches && found)
            return lki_fail(LK_EINVAL, "%s: \"%s\" and \"%s\" both match variable %s: one may", o->name, o->pattern[*to],
                            o->pattern[i], v->name);
        if (matches) *to = i, found = true;
    }
    return LK_OK;
}

static lk_status build_inners(lk_optimizer *o)
{
    lk_variable **some LKI_RELEASED = lki_zalloc_array(o->count, sizeof *some);
    o->route = lki_zalloc_array(o->count, sizeof *o->route);
    if (!some || !o->route) return LK_ENOMEM;
    for (int i = 0; i < o->count; i++) {
        LKI_TRY(route_of(o, o->variable[i], &o->route[i]));
        o->route[i] = place_of(o, o->route[i]);
    }
    for (int k = 0; k < o->inners; k++) {
        int n = 0;
        for (int i = 0; i < o->count; i++)
            if (o->route[i] == k) some[n++] = o->variable[i];
        if (n) LKI_TRY(lk_optimizer_build(o->inner[k], (lk_variables){n, some}));
    }
    return LK_OK;
}

static lk_status divided_step(lk_optimizer *o, int n, lki_gradient *g, lk_tensor *go_ahead)
{
    lki_gradient *some LKI_RELEASED = lki_zalloc_array(n, sizeof *some);
    if (!some) return LK_ENOMEM;
    for (int k = 0; k < o->inners; k++) {
        int count = 0;
        for (int i = 0; i < n; i++) {
            if (o->route[g[i].index] != k) continue;
            some[count] = g[i];
            some[count].index = lki_optimizer_index(o->inner[k], o->variable[g[i].index], count);
            count++;
        }
        if (count) LKI_TRY(lki_optimizer_run(o->inner[k], count, some, go_ahead));
    }
    return lki_update(LKI_OP_increment, NULL, 0, NULL, 1, &o->iteration);
}

static const lki_optimizer_wrapper DIVIDING = {build_inners, divided_step};
static const lki_algorithm         MULTI = {.name = "multi_optimizer", .op = LKI_OP_COUNT, .wraps = &DIVIDING};

static const lki_field MULTI_FIELDS[] = {LKI_FIELD(NAME, lk_multi_optimizer_args, name)};
static const lki_class MULTI_CLASS = {LKI_ARGS(lk_multi_optimizer_args, MULTI_FIELDS)}; /* no name: not in files */

static bool multi_fits(const lk_multi_optimizer_args *a)
{
    bool ignored;
    if (!can_be_inside("multi_optimizer", a->optimizer)) return false;
    if (a->count < 0 || (a->count && (!a->patterns || !a->optimizers)))
        return lki_fail(LK_EINVAL, "multi_optimizer: %d patterns: patterns and optimizers must be lists of as many", a->count),
               false;
    if (!(a->loss_scale_factor >= 0))
        return lki_fail(LK_EINVAL, "multi_optimizer: loss_scale_factor is %g: must be at least 0", a->loss_scale_factor), false;
    for (int i = 0; i < a->count; i++) {
        if (!a->patterns[i]) return lki_fail(LK_EINVAL, "multi_optimizer: pattern %d is NULL", i), false;
        if (!can_be_inside("multi_optimizer", a->optimizers[i])) return false;
        if (lki_pattern_matches("multi_optimizer", a->patterns[i], "", true, &ignored) != LK_OK) return false;
    }
    return true;
}

lk_optimizer *lk_multi_optimizer_kw(lk_multi_optimizer_args a)
{
    if (!multi_fits(&a)) return NULL;
    lk_optimizer *o = wrapper_new(&MULTI, a.name, a.count + 1);
    bool          good = o != NULL;
    for (int i = 0; good && i <= a.count; i++) {
        lk_optimizer *inner = i < a.count ? a.optimizers[i] : a.optimizer;
        inner->set.loss_scale_factor = a.loss_scale_factor;
        good = add_inner(o, inner, i < a.count ? a.patterns[i] : NULL);
    }
    if (!good) return o ? lk_free(o) : (void)0, NULL;
    o->set.loss_scale_factor = a.loss_scale_factor;
    o->class = &MULTI_CLASS;
    o->args.multi.name = NULL;
    return o;
}
