/* Optimisers: the state of each and the recipe of a step. All arithmetic is in update ops, which run at once or are recorded while
 * a function is traced; so this file is the same for eager and compiled steps.
 *
 *     gradients -> mean of several calls -> clip -> per variable: decay, update -> moving averages -> constraints -> iteration += 1
 *
 * Invariants
 *  1. State is variables, named and ordered as in Keras: iteration, learning rate (unless there is a schedule), averages,
 *     accumulators, then the groups of slots of the algorithm, variable by variable within a group.
 *  2. The first apply fixes the variables; it makes all state, or none of it if something fails.
 *  3. In a gradient made of rows (of an embedding) each row counts with its own square, as in Keras: rows with the same entry are
 *     added in the gradient, and their squares are added in what replaces its square. Clipping and accumulation turn it into a
 *     plain gradient. */
#include "nn/optimizer.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "dist/strategy.h"
#include "op/gradient.h"
#include "op/op.h"
#include "op/record.h"
#include <lockstep/ops.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SRC = 5 };

static lki_optimizer_step plain_step, nadam_step, lamb_step;

/* clang-format off */
static const lki_algorithm SGD = {"sgd", 0.01, LKI_OP_update_sgd, plain_step, LKI_NO_SQUARES,
    {{"momentum", 0, "momentums"}}};
static const lki_algorithm ADAM = {"adam", 0.001, LKI_OP_update_adam, plain_step, LKI_SQUARES,
    {{"momentum", 0, "_momentums"}, {"velocity", 0, "_velocities"}, {"velocity_hat", 1, "_velocity_hats"}}};
static const lki_algorithm ADAMW = {"adam_w", 0.001, LKI_OP_update_adam, plain_step, LKI_SQUARES,
    {{"momentum", 0, "_momentums"}, {"velocity", 0, "_velocities"}, {"velocity_hat", 1, "_velocity_hats"}}};
static const lki_algorithm ADAMAX = {"adamax", 0.001, LKI_OP_update_adamax, plain_step, LKI_SIZES,
    {{"momentum", 0, "_m"}, {"norm", 0, "_u"}}};
static const lki_algorithm NADAM = {"nadam", 0.001, LKI_OP_update_nadam, nadam_step, LKI_SQUARES,
    {{"momentum", 0, "_momentums"}, {"velocity", 0, "_velocities"}}};
static const lki_algorithm LION = {"lion", 0.001, LKI_OP_update_lion, plain_step, LKI_NO_SQUARES,
    {{"momentum", 0, "_momentums"}}};
static const lki_algorithm LAMB = {"lamb", 0.001, LKI_OP_update_lamb, lamb_step, LKI_SQUARES,
    {{"momentum", 0, "_momentums"}, {"velocity", 0, "_velocities"}}};
static const lki_algorithm RMSPROP = {"rm_sprop", 0.001, LKI_OP_update_rmsprop, plain_step, LKI_SQUARES,
    {{"velocity", 0, "_velocities"}, {"momentum", 1, "_momentums"}, {"average_gradient", 2, "_average_gradients"}}};
static const lki_algorithm ADAGRAD = {"adagrad", 0.001, LKI_OP_update_adagrad, plain_step, LKI_SQUARES,
    {{"accumulator", 0, "_accumulators"}}};
static const lki_algorithm ADADELTA = {"adadelta", 0.001, LKI_OP_update_adadelta, plain_step, LKI_SQUARES,
    {{"accumulated_grad", 0, "_accumulated_grads"}, {"accumulated_delta_var", 0, "_accumulated_delta_vars"}}};
static const lki_algorithm FTRL = {"ftrl", 0.001, LKI_OP_update_ftrl, plain_step, LKI_SQUARES,
    {{"accumulator", 0, "_accumulators"}, {"linear", 0, "_linears"}}};
/* clang-format on */

/* ---- making one -------------------------------------------------------------------------------------------------------------- */

static void drop_all(lk_variable ***list, int count)
{
    for (int i = 0; *list && i < count; i++)
        lki_drop((*list)[i]);
    lki_release(*list);
    *list = NULL;
}

static void forget_variables(lk_optimizer *o)
{
    drop_all(&o->variable, o->count);
    drop_all(&o->average, o->count);
    drop_all(&o->accumulator, o->count);
    for (int s = 0; s < LKI_OPTIMIZER_SLOTS; s++)
        drop_all(&o->slot[s], o->count);
    lki_drop(o->product);
    o->product = NULL;
    o->states = o->rate ? 2 : 1;
    o->count = 0;
}

static void destroy(void *object)
{
    lk_optimizer *o = object;
    forget_variables(o);
    lki_waiters_free(&o->waiting);
    lki_drop(o->iteration);
    lki_drop(o->rate);
    lki_drop(o->set.schedule);
    lki_release(o->state);
    lki_release(o->name);
    if (o->class) lki_args_drop(o->class, &o->args);
}

static bool refuse(const char *who, const char *what, double value, const char *right)
{
    return lki_fail(LK_EINVAL, "%s: %s is %g: must be %s", who, what, value, right), false;
}

/* A share is at least 0 and below 1; a small number at least 0. */
static bool is_share(const char *who, const char *what, lk_number n)
{
    return (lki_number(n) >= 0 && lki_number(n) < 1) || refuse(who, what, lki_number(n), "at least 0 and below 1");
}

static bool is_small(const char *who, const char *what, lk_number n)
{
    return lki_number(n) >= 0 || refuse(who, what, lki_number(n), "at least 0");
}

static bool is_count(const char *who, const char *what, lk_integer n)
{
    const int64_t count = lki_integer_or(n, 1);
    return (count >= 1 && count <= INT32_MAX) || refuse(who, what, (double)count, "an integer of at least 1");
}

static bool common_is_valid(const char *who, const lki_optimizer_common *c)
{
    const int    clips = (c->clipnorm != 0) + (c->global_clipnorm != 0) + (c->clipvalue != 0);
    const double rate = lki_number(c->learning_rate);
    if (clips > 1)
        return lki_fail(LK_EINVAL, "%s: clipnorm %g, global_clipnorm %g, clipvalue %g: at most one of them may be given", who,
                        c->clipnorm, c->global_clipnorm, c->clipvalue),
               false;
    if (!(rate >= 0) || isinf(rate)) return refuse(who, "learning_rate", rate, "a number of at least 0");
    if (!is_small(who, "weight_decay", c->weight_decay)) return false;
    if (!(c->clipnorm >= 0)) return refuse(who, "clipnorm", c->clipnorm, "at least 0");
    if (!(c->global_clipnorm >= 0)) return refuse(who, "global_clipnorm", c->global_clipnorm, "at least 0");
    if (!(c->clipvalue >= 0)) return refuse(who, "clipvalue", c->clipvalue, "at least 0");
    if (lki_number_given(c->ema_momentum) && !(lki_number(c->ema_momentum) >= 0 && lki_number(c->ema_momentum) <= 1))
        return refuse(who, "ema_momentum", lki_number(c->ema_momentum), "from 0 to 1");
    if (c->ema_overwrite_frequency < 0) return refuse(who, "ema_overwrite_frequency", c->ema_overwrite_frequency, "at least 1");
    if (!is_count(who, "gradient_accumulation_steps", c->gradient_accumulation_steps)) return false;
    if (c->schedule && !lki_is_kind(c->schedule, LKI_KIND_SCHEDULE))
        return lki_fail(LK_EINVAL, "%s: schedule is not a schedule", who), false;
    if (c->schedule && lki_number_given(c->learning_rate))
        return refuse(who, "learning_rate", rate, "left out when a schedule is given");
    return true;
}

/* Append a new variable to the state. */
static lk_variable *keep_state(lk_optimizer *o, lk_variable *v)
{
    if (!v || !lki_grow((void **)&o->state, &o->room, o->states + 1, sizeof *o->state)) return NULL;
    o->state[o->states++] = v;
    return lki_retain(v);
}

static lk_variable *scalar_state(lk_optimizer *o, const char *name, lk_dtype dtype, double value)
{
    char           text[512];
    const lk_shape scalar = {0};
    snprintf(text, sizeof text, "%s/%s", o->name, name);
    return keep_state(o, lki_variable_new(text, &scalar, dtype, value, false));
}

static lk_optimizer *optimizer_new(const lki_algorithm *kind, const lki_optimizer_common *set, unsigned slots)
{
    if (!common_is_valid(kind->name, set)) return NULL;
    lk_optimizer *o = lki_object_new(sizeof *o, LKI_KIND_OPTIMIZER, LKI_LIVES_IN_POOL, destroy);
    if (!o) return NULL;
    o->kind = kind;
    o->set = *set;
    o->slots = slots;
    o->nadam = kind == &NADAM;
    o->attr.update.every = (int)lki_integer(set->gradient_accumulation_steps);
    o->attr.update.p[LKI_UPDATE_DECAY] = lki_number(set->weight_decay);
    lki_retain(set->schedule);
    o->name = lki_strdup(set->name ? set->name : kind->name);
    if (!o->name) goto failed;
    o->iteration = scalar_state(o, "iteration", LK_I64, 0);
    if (!o->iteration) goto failed;
    if (!set->schedule) {
        o->rate = scalar_state(o, "learning_rate", LK_F32, lki_number_or(set->learning_rate, kind->rate));
        if (!o->rate) goto failed;
    }
    return o;
failed:
    lk_free(o);
    return NULL;
}

#define COMMON(a)                                                                                                                  \
    &(lki_optimizer_common)                                                                                                        \
    {                                                                                                                              \
        .learning_rate = (a).learning_rate, .schedule = (a).schedule, .weight_decay = (a).weight_decay, .clipnorm = (a).clipnorm,  \
        .global_clipnorm = (a).global_clipnorm, .clipvalue = (a).clipvalue, .use_ema = (a).use_ema,                                \
        .ema_momentum = (a).ema_momentum, .ema_overwrite_frequency = (a).ema_overwrite_frequency,                                  \
        .gradient_accumulation_steps = (a).gradient_accumulation_steps, .name = (a).name                                           \
    }

static lk_optimizer *with_numbers(lk_optimizer *o, int flags, int count, const double *p)
{
    if (!o) return NULL;
    o->attr.update.flags = flags;
    for (int i = 0; i < count; i++)
        o->attr.update.p[i] = p[i];
    return o;
}

#define WITH(o, flags, ...) with_numbers(o, flags, (int)LKI_N(double, __VA_ARGS__), (const double[]){__VA_ARGS__})

/* Keep its arguments, for files. */
static lk_optimizer *described(lk_optimizer *o, lki_optimizer_id id, const void *args)
{
    const lki_class *class = &lki_optimizer_classes[id];
    if (!o) return NULL;
    memcpy(&o->args, args, class->bytes);
    if (lki_args_hold(o->name, class, &o->args) == LK_OK) return o->class = class, o;
    lk_free(o);
    return NULL;
}

lk_optimizer *lk_sgd_kw(lk_sgd_args a)
{
    if (!(a.momentum >= 0 && a.momentum <= 1)) return refuse("sgd", "momentum", a.momentum, "from 0 to 1"), NULL;
    return described(WITH(optimizer_new(&SGD, COMMON(a), a.momentum != 0), a.nesterov == LK_ON ? LKI_SGD_NESTEROV : 0, a.momentum),
                     LKI_SGD, &a);
}

static lk_optimizer *adam_like(const lki_algorithm *kind, lki_optimizer_id id, const lk_adam_args *a, double beta_2)
{
    const bool amsgrad = a->amsgrad == LK_ON, has = kind == &ADAM || kind == &ADAMW;
    if (amsgrad && !has) return lki_fail(LK_EINVAL, "%s: amsgrad is on: only adam and adamw have it", kind->name), NULL;
    if (kind == &LION && lki_number_given(a->epsilon)) return lki_fail(LK_EINVAL, "lion: epsilon is given, but it has none"), NULL;
    if (!is_share(kind->name, "beta_1", a->beta_1) || !is_share(kind->name, "beta_2", a->beta_2) ||
        !is_small(kind->name, "epsilon", a->epsilon))
        return NULL;
    const unsigned slots = kind == &LION ? 1 : amsgrad ? 7 : 3;
    return described(WITH(optimizer_new(kind, COMMON(*a), slots), amsgrad ? LKI_ADAM_AMSGRAD : 0, lki_number_or(a->beta_1, 0.9),
                          lki_number_or(a->beta_2, beta_2), lki_number_or(a->epsilon, 1e-7)),
                     id, a);
}

lk_optimizer *lk_adam_kw(lk_adam_args a) { return adam_like(&ADAM, LKI_ADAM, &a, 0.999); }
lk_optimizer *lk_adamax_kw(lk_adam_args a) { return adam_like(&ADAMAX, LKI_ADAMAX, &a, 0.999); }
lk_optimizer *lk_nadam_kw(lk_adam_args a) { return adam_like(&NADAM, LKI_NADAM, &a, 0.999); }
lk_optimizer *lk_lion_kw(lk_adam_args a) { return adam_like(&LION, LKI_LION, &a, 0.99); }
lk_optimizer *lk_lamb_kw(lk_adam_args a) { return adam_like(&LAMB, LKI_LAMB, &a, 0.999); }

lk_optimizer *lk_adamw_kw(lk_adam_args a)
{
    if (!lki_number_given(a.weight_decay)) a.weight_decay = 0.004;
    return adam_like(&ADAMW, LKI_ADAMW, &a, 0.999);
}

lk_optimizer *lk_rmsprop_kw(lk_rmsprop_args a)
{
    if (!is_share("rmsprop", "rho", a.rho) || !is_small("rmsprop", "epsilon", a.epsilon)) return NULL;
    const bool centered = a.centered == LK_ON, moving = a.momentum > 0;
    return described(WITH(optimizer_new(&RMSPROP, COMMON(a), 1u | (moving ? 2u : 0) | (centered ? 4u : 0)),
                          (centered ? LKI_RMSPROP_CENTERED : 0) | (moving ? LKI_RMSPROP_MOMENTUM : 0), lki_number_or(a.rho, 0.9),
                          a.momentum, lki_number_or(a.epsilon, 1e-7)),
                     LKI_RMSPROP, &a);
}

lk_optimizer *lk_adagrad_kw(lk_adagrad_args a)
{
    if (!is_small("adagrad", "initial_accumulator_value", a.initial_accumulator_value) ||
        !is_small("adagrad", "epsilon", a.epsilon))
        return NULL;
    lk_optimizer *o = WITH(optimizer_new(&ADAGRAD, COMMON(a), 1), 0, lki_number_or(a.epsilon, 1e-7));
    if (o) o->initial = lki_number_or(a.initial_accumulator_value, 0.1);
    return described(o, LKI_ADAGRAD, &a);
}

lk_optimizer *lk_adadelta_kw(lk_adadelta_args a)
{
    if (!is_share("adadelta", "rho", a.rho) || !is_small("adadelta", "epsilon", a.epsilon)) return NULL;
    return described(WITH(optimizer_new(&ADADELTA, COMMON(a), 3), 0, lki_number_or(a.rho, 0.95), lki_number_or(a.epsilon, 1e-7)),
                     LKI_ADADELTA, &a);
}

lk_optimizer *lk_ftrl_kw(lk_ftrl_args a)
{
    const double power = lki_number_or(a.learning_rate_power, -0.5), initial = lki_number_or(a.initial_accumulator_value, 0.1);
    if (!(power <= 0)) return refuse("ftrl", "learning_rate_power", power, "at most 0"), NULL;
    if (!(initial >= 0)) return refuse("ftrl", "initial_accumulator_value", initial, "at least 0"), NULL;
    if (!(a.l1_regularization_strength >= 0 && a.l2_regularization_strength >= 0 && a.l2_shrinkage_regularization_strength >= 0))
        return lki_fail(LK_EINVAL, "ftrl: regularisation strengths %g, %g, %g: must be at least 0", a.l1_regularization_strength,
                        a.l2_regularization_strength, a.l2_shrinkage_regularization_strength),
               NULL;
    lk_optimizer *o = WITH(optimizer_new(&FTRL, COMMON(a), 3), 0, power, a.l1_regularization_strength, a.l2_regularization_strength,
                           a.l2_shrinkage_regularization_strength, a.beta);
    if (o) o->initial = initial;
    return described(o, LKI_FTRL, &a);
}

/* ---- the state of the variables ---------------------------------------------------------------------------------------------- */

/* "adam/dense_kernel_momentum" for the variable "dense/kernel". */
static lk_variable *slot_new(lk_optimizer *o, const lk_variable *v, const char *what, double fill)
{
    char *text LKI_RELEASED = lki_text_new("%s/%s_%s", o->name, v->name, what);
    if (!text) return NULL;
    for (char *c = text + strlen(o->name) + 1; *c; c++)
        if (*c == '/') *c = '_';
    return keep_state(o, lki_variable_new(text, &v->shape, v->dtype, fill, false));
}

static bool slots_new(lk_optimizer *o, lk_variable ***list, const char *what)
{
    *list = lki_zalloc_array(o->count, sizeof **list);
    for (int i = 0; *list && i < o->count; i++) {
        (*list)[i] = slot_new(o, o->variable[i], what, 0);
        if (!(*list)[i]) return false;
    }
    return *list != NULL;
}

static bool group_new(lk_optimizer *o, int group)
{
    for (int i = 0; i < o->count; i++)
        for (int s = 0; s < LKI_OPTIMIZER_SLOTS; s++) {
            if (!(o->slots >> s & 1) || o->kind->slot[s].group != group) continue;
            if (!o->slot[s]) o->slot[s] = lki_zalloc_array(o->count, sizeof *o->slot[s]);
            if (!o->slot[s]) return false;
            o->slot[s][i] = slot_new(o, o->variable[i], o->kind->slot[s].name, s == 0 ? o->initial : 0);
            if (!o->slot[s][i]) return false;
        }
    return true;
}

static bool state_new(lk_optimizer *o)
{
    if (o->set.use_ema == LK_ON && !slots_new(o, &o->average, "average")) return false;
    if (o->attr.update.every > 1 && !slots_new(o, &o->accumulator, "gradient_accumulator")) return false;
    for (int group = 0; group < LKI_OPTIMIZER_SLOTS; group++)
        if (!group_new(o, group)) return false;
    if (o->nadam) {
        const lk_shape scalar = {0};
        o->product = keep_state(o, lki_variable_new("variable", &scalar, o->variable[0]->dtype, 1, false));
        if (!o->product) return false;
    }
    return true;
}

static lk_status make_anew(lk_optimizer *o, int state, lk_variable **held)
{
    const lk_variable *v = *held;
    const void        *value = lki_variable_values(v);
    lk_variable       *anew =
        value ? lki_variable_new(v->name, &v->shape, v->dtype, lki_element_get(v->dtype, value, 0), v->trainable) : NULL;
    if (!anew) return lk_failed() ? lk_error_code() : LK_ENOMEM;
    lki_drop(*held);
    *held = o->state[state] = lki_retain(anew);
    return LK_OK;
}

/* Make its existing state again, iteration and rate, where variables are made now. */
static lk_status move_in(lk_optimizer *o)
{
    LKI_TRY(make_anew(o, 0, &o->iteration));
    return o->rate ? make_anew(o, 1, &o->rate) : LK_OK;
}

lk_status lk_optimizer_build(lk_optimizer *o, lk_variables variables)
{
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER)) return lki_fail(LK_EINVAL, "optimizer: not an optimiser");
    if (o->count) return LK_OK;
    if (variables.count <= 0) return lki_fail(LK_EINVAL, "%s: no variables to optimise", o->name);
    o->variable = lki_zalloc_array(variables.count, sizeof *o->variable);
    if (!o->variable) return LK_ENOMEM;
    for (int i = 0; i < variables.count; i++) {
        const lk_variable *v = variables.item[i];
        if (!lki_is_kind(v, LKI_KIND_VARIABLE) || (v->dtype != LK_F32 && v->dtype != LK_F64)) {
            forget_variables(o);
            return lki_fail(LK_EDTYPE, "%s: variable %d of %d is not an f32 or f64 variable", o->name, i, variables.count);
        }
        o->variable[i] = lki_retain(variables.item[i]);
        o->count = i + 1;
    }
    lki_context before = lki_context_of_variable(o->variable[0]); /* slots are made where the variables are */
    lk_status   status = !lki_same_memory(o->iteration->buffer->device, o->variable[0]->buffer->device) ? move_in(o) : LK_OK;
    if (status == LK_OK) status = state_new(o) ? lki_waiters_tell(&o->waiting, o) : LK_ENOMEM;
    lki_context_restore(&before);
    if (status != LK_OK) forget_variables(o);
    return status;
}

lk_status lki_optimizer_adopt(lk_optimizer *o, lk_strategy *s)
{
    if (o->count || !s || s->kind == LKI_STRATEGY_DEFAULT || lki_same_memory(o->iteration->buffer->device, s->device[0]))
        return LK_OK;
    lki_context before = lki_context_cross(s);
    lk_status   status = move_in(o);
    lki_context_restore(&before);
    return status;
}

/* ---- a step ------------------------------------------------------------------------------------------------------------------ */

/* The sum of the squares (sizes) of the rows that make up a gradient; NULL if it is not made of rows. */
static lk_tensor *squares_of(const lk_optimizer *o, lk_tensor *g)
{
    if (lki_bad(g) || !g->slice_rows || o->kind->squares == LKI_NO_SQUARES) return NULL;
    const lki_attr attr = {.shape = g->shape};
    return lki_apply2(LKI_OP_gather_grad, &attr, o->kind->squares == LKI_SIZES ? lk_abs(g->slice_rows) : lk_square(g->slice_rows),
                      g->slice_ids);
}

/* The variable, and the slots in use, in the algorithm's order. */
static int places_of(lk_optimizer *o, int index, lk_variable **place)
{
    int n = 0;
    place[n++] = o->variable[index];
    for (int s = 0; s < LKI_OPTIMIZER_SLOTS; s++)
        if (o->slots >> s & 1) place[n++] = o->slot[s][index];
    return n;
}

static lk_status plain_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    lk_variable *place[1 + LKI_OPTIMIZER_SLOTS];
    lk_tensor   *src[] = {g->value, rate, t, g->squares};
    return lki_update(o->kind->op, &o->attr, g->squares ? 4 : 3, src, places_of(o, g->index, place), place);
}

static lk_status nadam_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    lk_variable *place[1 + LKI_OPTIMIZER_SLOTS];
    lk_tensor   *src[] = {g->value, rate, t, lk_read(o->product), g->squares};
    return lki_update(o->kind->op, &o->attr, g->squares ? 5 : 4, src, places_of(o, g->index, place), place);
}

static lk_status lamb_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    lk_variable *w = o->variable[g->index], *moment[] = {o->slot[0][g->index], o->slot[1][g->index]};
    lk_tensor   *src[MAX_SRC] = {g->value, rate, t, g->squares};
    if (lki_number(o->set.weight_decay) != 0) LKI_TRY(lki_update(LKI_OP_update_decay, &o->attr, 3, src, 1, &w));
    LKI_TRY(lki_update(LKI_OP_update_moments, &o->attr, g->squares ? 4 : 3, src, 2, moment));
    src[0] = lki_apply3(LKI_OP_lamb_direction, &o->attr, lk_read(moment[0]), lk_read(moment[1]), t);
    src[3] = lki_apply1(LKI_OP_sum_squares, NULL, lk_read(w));
    src[4] = lki_apply1(LKI_OP_sum_squares, NULL, src[0]);
    return lki_update(LKI_OP_update_lamb, &o->attr, 5, src, 1, &w);
}

/* Accumulation over several calls: the mean with the stored sum, which only the last call of each round uses. */
static lk_status accumulate(lk_optimizer *o, int n, lki_gradient *g, lk_tensor *rate, lk_tensor *t)
{
    for (int i = 0; i < n; i++) {
        lk_variable *kept = o->accumulator[g[i].index];
        lk_tensor   *src[] = {g[i].value, rate, t};
        g[i].value = lk_div(lk_add(g[i].value, lk_read(kept)), lki_like(g[i].value, o->attr.update.every));
        LKI_TRY(lki_update(LKI_OP_update_accumulate, &o->attr, 3, src, 1, &kept));
    }
    return LK_OK;
}

static void clip(const lk_optimizer *o, int n, lki_gradient *g)
{
    const double value = o->set.clipvalue;
    const bool   global = o->set.global_clipnorm != 0;
    lk_tensor   *all = NULL;
    lki_attr     by_norm = {0}, by_value = {0};
    by_norm.update.p[0] = global ? o->set.global_clipnorm : o->set.clipnorm;
    by_norm.update.flags = global ? LKI_CLIP_GLOBAL : 0;
    by_value.num.a = -value;
    by_value.num.b = value;
    if (by_norm.update.p[0] == 0 && value == 0) return;
    for (int i = 0; global && i < n; i++) {
        lk_tensor *sum = lki_apply1(LKI_OP_sum_squares, NULL, g[i].value);
        all = all ? lk_add(all, lk_cast(sum, lk_tensor_dtype(all))) : sum;
    }
    for (int i = 0; i < n; i++) {
        lk_tensor *x = g[i].value;
        if (value != 0) g[i].value = lki_apply1(LKI_OP_clip, &by_value, x);
        else g[i].value = lki_apply2(LKI_OP_clip_by_norm, &by_norm, x, global ? all : lki_apply1(LKI_OP_sum_squares, NULL, x));
    }
}

static lk_status average(lk_optimizer *o, lk_tensor *t)
{
    lki_attr attr = {0};
    attr.update.every = o->attr.update.every;
    for (int i = 0; o->average && i < o->count; i++) {
        lk_tensor *src[] = {lk_read(o->variable[i]), t};
        attr.update.p[0] = lki_number_or(o->set.ema_momentum, 0.99);
        LKI_TRY(lki_update(LKI_OP_update_ema, &attr, 2, src, 1, &o->average[i]));
        if (!o->set.ema_overwrite_frequency) continue;
        src[0] = lk_read(o->average[i]);
        attr.update.p[0] = o->set.ema_overwrite_frequency;
        LKI_TRY(lki_update(LKI_OP_update_overwrite, &attr, 2, src, 1, &o->variable[i]));
    }
    return LK_OK;
}

/* Apply a variable's constraint; as in Keras after everything else, and on every call. */
static lk_status constrain(const lk_optimizer *o, int n, const lki_gradient *g)
{
    for (int i = 0; i < n; i++) {
        lk_variable *v = o->variable[g[i].index];
        if (!v->constraint) continue;
        lk_tensor *value = v->constrain(v->constraint, lk_read(v));
        LKI_TRY(lki_update(LKI_OP_assign, NULL, 1, &value, 1, &v));
    }
    return LK_OK;
}

static lk_status step(lk_optimizer *o, int n, lki_gradient *g)
{
    lk_tensor *t = lk_read(o->iteration);
    lk_tensor *rate = o->set.schedule ? lki_apply1(LKI_OP_schedule, &o->set.schedule->attr, t) : lk_read(o->rate);
    if (o->accumulator) LKI_TRY(accumulate(o, n, g, rate, t));
    clip(o, n, g);
    if (o->nadam)
        LKI_TRY(lki_update(LKI_OP_nadam_product, &o->attr, 3, (lk_tensor *[]){lk_read(o->product), rate, t}, 1, &o->product));
    for (int i = 0; i < n; i++) {
        g[i].squares = squares_of(o, g[i].value);
        LKI_TRY(o->kind->step(o, &g[i], rate, t));
    }
    LKI_TRY(average(o, t));
    LKI_TRY(constrain(o, n, g));
    return lki_update(LKI_OP_increment, NULL, 0, NULL, 1, &o->iteration);
}

/* ---- applying gradients ------------------------------------------------------------------------------------------------------ */

static int index_of(const lk_optimizer *o, const lk_variable *v, int guess)
{
    if (guess < o->count && o->variable[guess] == v) return guess;
    for (int i = 0; i < o->count; i++)
        if (o->variable[i] == v) return i;
    return -1;
}

static void warn_missing(lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    char text[400] = "";
    for (int i = 0; i < variables.count && !o->warned; i++)
        if (!gradients.item[i]) lki_names_add(text, sizeof text, variables.item[i]->name);
    if (*text) lki_warn("%s: no gradient for %s: not updated", o->name, text);
    o->warned = o->warned || *text;
}

static lk_status apply_here(lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    LKI_TRY(lk_optimizer_build(o, variables));
    lki_gradient *g LKI_RELEASED = lki_zalloc_array(variables.count + 1, sizeof *g);
    if (!g) return LK_ENOMEM;
    int n = 0;
    for (int i = 0; i < variables.count; i++) {
        if (!gradients.item[i]) continue;
        g[n] = (lki_gradient){.value = lki_plain(gradients.item[i]), .index = index_of(o, variables.item[i], i)};
        if (g[n++].index < 0)
            return lki_fail(LK_EINVAL, "%s: variable %s did not exist at the first apply: make another optimiser for it", o->name,
                            variables.item[i]->name);
    }
    if (!n) return lki_fail(LK_EINVAL, "%s: no gradients for any variable", o->name);
    warn_missing(o, gradients, variables);
    return step(o, n, g);
}

/* ---- together with the other replicas ---- */

typedef struct applying { /* the argument of one replica */
    lk_optimizer *optimizer;
    lk_tuple      gradients;
    lk_variables  variables;
    bool          combined;
} applying;

static lk_status check_alike(int count, void *const *everyones)
{
    const applying *first = everyones[0];
    for (int r = 1; r < count; r++) {
        const applying *a = everyones[r];
        bool            same =
            a->optimizer == first->optimizer && a->variables.count == first->variables.count && a->combined == first->combined;
        for (int i = 0; i < first->variables.count && same; i++)
            same = a->variables.item[i] == first->variables.item[i] && !a->gradients.item[i] == !first->gradients.item[i];
        if (!same)
            return lki_fail(
                LK_ESTATE,
                "lk_optimizer_apply: replica %d does not pass gradients for the same variables as replica 0 to the same optimiser",
                r);
    }
    return LK_OK;
}

/* Gradients that are declared as combined must be equal; if they are only traced and differ, the step gives NaN. */
static lk_tensor *agreed(const lk_variable *v, int count, lk_tensor *const *item)
{
    lki_attr attr = {.num = {.a = 1, .b = NAN}};
    bool     same = true;
    for (int r = 1; r < count; r++) {
        same = same && lki_same_elements(item[r], item[0]);
        if (!item[r]->graph && !item[0]->graph && !lki_same_bits(item[r], item[0]))
            return lki_refuse(LK_EINVAL,
                              "lk_optimizer_apply_combined: replica %d passes another gradient for \"%s\" than replica 0; combined "
                              "gradients must be equal: make them with "
                              "lk_all_reduce(), or call lk_optimizer_apply()",
                              r, v->name);
    }
    return same ? item[0] : lki_apply(LKI_OP_agree, &attr, count, item, NULL);
}

static lk_status apply_together(lk_strategy *s, int count, void *const *everyones, void *first)
{
    const applying *mine = first;
    const int       n = mine->variables.count;
    LKI_TRY(check_alike(count, everyones));
    lk_tensor **total LKI_RELEASED = lki_zalloc_array(n + count + 1, sizeof *total), **item = total + n;
    if (!total) return LK_ENOMEM;
    lk_status status = LK_OK;
    for (int i = n - 1; i >= 0 && status == LK_OK; i--) { /* last layers first: their gradients were ready first */
        for (int r = 0; r < count; r++)
            item[r] = lki_plain(((const applying *)everyones[r])->gradients.item[i]);
        if (!item[0]) continue;
        total[i] = mine->combined ? agreed(mine->variables.item[i], count, item)
                                  : lki_combine("lk_optimizer_apply", s, NULL, false, count, item);
        if (lki_bad(total[i])) status = lki_poisoned_status("lk_optimizer_apply");
    }
    if (status == LK_OK) status = apply_here(mine->optimizer, (lk_tuple){n, total}, mine->variables);
    return status;
}

static lk_status check_apply(const lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER)) return lki_fail(LK_EINVAL, "optimizer_apply: not an optimiser");
    if (gradients.count != variables.count)
        return lki_fail(LK_EINVAL, "%s: %d gradients for %d variables: must be as many", o->name, gradients.count, variables.count);
    for (int i = 0; i < gradients.count; i++) {
        const lk_tensor *g = lki_plain(gradients.item[i]);
        if (g && lki_bad(g)) return lki_poisoned_status("optimizer_apply");
        if (g && lki_stands_for(g)) return lki_fail(LK_EINVAL, "%s: gradient %d is %s", o->name, i, lki_why_not_plain(g));
        if (g && !variables.item[i]) return lki_fail(LK_EINVAL, "%s: variable %d is NULL", o->name, i);
        if (g && !lki_belongs_here(o->name, variables.item[i])) return LK_ESTATE;
    }
    return LK_OK;
}

/* If replicas trained a variable outside the strategy, each of them would change it. */
static lk_status check_owner(const lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    const lk_strategy *s = lki_strategy_current();
    for (int i = 0; i < variables.count && s && s->kind == LKI_STRATEGY_MIRRORED; i++)
        if (gradients.item[i] && !variables.item[i]->spread)
            return lki_fail(LK_ESTATE,
                            "%s: variable \"%s\" was made outside the scope of %s and cannot be trained by its replicas; make it "
                            "inside LK_SCOPE()",
                            o->name, variables.item[i]->name, s->text);
    return LK_OK;
}

static lk_status apply(lk_optimizer *o, lk_tuple gradients, lk_variables variables, bool combined)
{
    LKI_TRY(check_apply(o, gradients, variables));
    if (lki_replica_current()) LKI_TRY(check_owner(o, gradients, variables));
    if (lki_replica_count() == 1) return apply_here(o, gradients, variables);
    applying mine = {o, gradients, variables, combined};
    return lki_meet("lk_optimizer_apply", o->name, apply_together, &mine);
}

lk_status lk_optimizer_apply_gradients(lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    return apply(o, gradients, variables, false);
}

lk_status lk_optimizer_apply_combined_gradients(lk_optimizer *o, lk_tuple gradients, lk_variables variables)
{
    return apply(o, gradients, variables, true);
}

static lk_status apply_grads(lk_optimizer *o, lk_grads *grads, bool combined)
{
    const int     n = grads ? lk_grads_count(grads) : 0;
    lk_tensor   **g LKI_RELEASED = lki_zalloc_array(n + 1, sizeof *g);
    lk_variable **v LKI_RELEASED = lki_zalloc_array(n + 1, sizeof *v);
    if (!g || !v) return LK_ENOMEM;
    for (int i = 0; i < n; i++) {
        g[i] = lk_grads_item(grads, i);
        v[i] = lk_grads_variable(grads, i);
    }
    return grads ? apply(o, (lk_tuple){n, g}, (lk_variables){n, v}, combined)
                 : lki_fail(LK_EINVAL, "optimizer_apply: no gradients: lk_tape_gradient() failed");
}

lk_status lk_optimizer_apply(lk_optimizer *o, lk_grads *grads) { return apply_grads(o, grads, false); }

lk_status lk_optimizer_apply_combined(lk_optimizer *o, lk_grads *grads) { return apply_grads(o, grads, true); }

lk_status lk_optimizer_finalize(lk_optimizer *o)
{
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER)) return lki_fail(LK_EINVAL, "optimizer_finalize: not an optimiser");
    for (int i = 0; o->average && i < o->count; i++)
        LKI_TRY(lk_assign(o->variable[i], lk_read(o->average[i])));
    return LK_OK;
}
