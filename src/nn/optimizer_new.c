/* The constructors of optimisers: their options, and the table of algorithms. */
#include "core/error.h"
#include "core/memory.h"
#include "nn/optimizer.h"
#include "op/op.h"
#include <math.h>
#include <string.h>

/* clang-format off */
static const lki_algorithm SGD = {"sgd", 0.01, LKI_OP_update_sgd, lki_plain_step, LKI_NO_SQUARES,
    .slot = {{"momentum", 0, "momentums"}}};
static const lki_algorithm ADAM = {"adam", 0.001, LKI_OP_update_adam, lki_plain_step, LKI_SQUARES,
    .slot = {{"momentum", 0, "_momentums"}, {"velocity", 0, "_velocities"}, {"velocity_hat", 1, "_velocity_hats"}}};
static const lki_algorithm ADAMW = {"adam_w", 0.001, LKI_OP_update_adam, lki_plain_step, LKI_SQUARES,
    .slot = {{"momentum", 0, "_momentums"}, {"velocity", 0, "_velocities"}, {"velocity_hat", 1, "_velocity_hats"}}};
static const lki_algorithm ADAMAX = {"adamax", 0.001, LKI_OP_update_adamax, lki_plain_step, LKI_SIZES,
    .slot = {{"momentum", 0, "_m"}, {"norm", 0, "_u"}}};
static const lki_algorithm NADAM = {"nadam", 0.001, LKI_OP_update_nadam, lki_nadam_step, LKI_SQUARES,
    .slot = {{"momentum", 0, "_momentums"}, {"velocity", 0, "_velocities"}}};
static const lki_algorithm LION = {"lion", 0.001, LKI_OP_update_lion, lki_plain_step, LKI_NO_SQUARES,
    .slot = {{"momentum", 0, "_momentums"}}};
static const lki_algorithm LAMB = {"lamb", 0.001, LKI_OP_update_lamb, lki_lamb_step, LKI_SQUARES,
    .slot = {{"momentum", 0, "_momentums"}, {"velocity", 0, "_velocities"}}};
static const lki_algorithm RMSPROP = {"rm_sprop", 0.001, LKI_OP_update_rmsprop, lki_plain_step, LKI_SQUARES,
    .slot = {{"velocity", 0, "_velocities"}, {"momentum", 1, "_momentums"}, {"average_gradient", 2, "_average_gradients"}}};
static const lki_algorithm ADAGRAD = {"adagrad", 0.001, LKI_OP_update_adagrad, lki_plain_step, LKI_SQUARES,
    .slot = {{"accumulator", 0, "_accumulators"}}};
static const lki_algorithm ADADELTA = {"adadelta", 0.001, LKI_OP_update_adadelta, lki_plain_step, LKI_SQUARES,
    .slot = {{"accumulated_grad", 0, "_accumulated_grads"}, {"accumulated_delta_var", 0, "_accumulated_delta_vars"}}};
static const lki_algorithm FTRL = {"ftrl", 0.001, LKI_OP_update_ftrl, lki_plain_step, LKI_SQUARES,
    .slot = {{"accumulator", 0, "_accumulators"}, {"linear", 0, "_linears"}}};
static const lki_algorithm ADAFACTOR = {"adafactor", 0.001, LKI_OP_COUNT, lki_adafactor_step, LKI_SQUARES,
    .slot = {{"", 0, "_r"}, {"", 0, "_c"}, {"velocity", 0, "_v"}}, .slots_of = lki_adafactor_slots};
static const lki_algorithm MUON = {"muon", 0.001, LKI_OP_COUNT, lki_muon_step, LKI_SQUARES,
    .slot = {{"momentum", 0, "momentums"}, {"velocity", 0, "adam_velocities"}}, .slots_of = lki_muon_slots};
static const lki_algorithm SCHEDULE_FREE = {"schedule_free_adam_w", 0.0025, LKI_OP_COUNT, lki_schedule_free_step, LKI_SQUARES,
    .slot = {{"momentum", 0, "_momentums"}, {"velocity", 0, "_velocities"}}, .slots_of = lki_schedule_free_slots};
/* clang-format on */

/* ---- options ----------------------------------------------------------------------------------------------------------------- */

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
    if (!(c->loss_scale_factor >= 0)) return refuse(who, "loss_scale_factor", c->loss_scale_factor, "at least 0");
    if (!is_count(who, "gradient_accumulation_steps", c->gradient_accumulation_steps)) return false;
    if (c->schedule && !lki_is_kind(c->schedule, LKI_KIND_SCHEDULE))
        return lki_fail(LK_EINVAL, "%s: schedule is not a schedule", who), false;
    if (c->schedule && lki_number_given(c->learning_rate))
        return refuse(who, "learning_rate", rate, "left out when a schedule is given");
    return true;
}

#define COMMON(a)                                                                                                                  \
    &(lki_optimizer_common)                                                                                                        \
    {                                                                                                                              \
        .learning_rate = (a).learning_rate, .schedule = (a).schedule, .weight_decay = (a).weight_decay, .clipnorm = (a).clipnorm,  \
        .global_clipnorm = (a).global_clipnorm, .clipvalue = (a).clipvalue, .use_ema = (a).use_ema,                                \
        .ema_momentum = (a).ema_momentum, .ema_overwrite_frequency = (a).ema_overwrite_frequency,                                  \
        .loss_scale_factor = (a).loss_scale_factor, .gradient_accumulation_steps = (a).gradient_accumulation_steps,                \
        .name = (a).name                                                                                                           \
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

/* With valid options. */
static lk_optimizer *made(const lki_algorithm *kind, const lki_optimizer_common *set, unsigned slots)
{
    return common_is_valid(kind->name, set) ? lki_optimizer_new(kind, set, slots) : NULL;
}

lk_optimizer *lk_sgd_kw(lk_sgd_args a)
{
    if (!(a.momentum >= 0 && a.momentum <= 1)) return refuse("sgd", "momentum", a.momentum, "from 0 to 1"), NULL;
    return lki_optimizer_described(
        WITH(made(&SGD, COMMON(a), a.momentum != 0), a.nesterov == LK_ON ? LKI_SGD_NESTEROV : 0, a.momentum), LKI_SGD, &a);
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
    return lki_optimizer_described(WITH(made(kind, COMMON(*a), slots), amsgrad ? LKI_ADAM_AMSGRAD : 0,
                                        lki_number_or(a->beta_1, 0.9), lki_number_or(a->beta_2, beta_2),
                                        lki_number_or(a->epsilon, 1e-7)),
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
    return lki_optimizer_described(WITH(made(&RMSPROP, COMMON(a), 1u | (moving ? 2u : 0) | (centered ? 4u : 0)),
                                        (centered ? LKI_RMSPROP_CENTERED : 0) | (moving ? LKI_RMSPROP_MOMENTUM : 0),
                                        lki_number_or(a.rho, 0.9), a.momentum, lki_number_or(a.epsilon, 1e-7)),
                                   LKI_RMSPROP, &a);
}

lk_optimizer *lk_adagrad_kw(lk_adagrad_args a)
{
    if (!is_small("adagrad", "initial_accumulator_value", a.initial_accumulator_value) ||
        !is_small("adagrad", "epsilon", a.epsilon))
        return NULL;
    lk_optimizer *o = WITH(made(&ADAGRAD, COMMON(a), 1), 0, lki_number_or(a.epsilon, 1e-7));
    if (o) o->initial = lki_number_or(a.initial_accumulator_value, 0.1);
    return lki_optimizer_described(o, LKI_ADAGRAD, &a);
}

lk_optimizer *lk_adadelta_kw(lk_adadelta_args a)
{
    if (!is_share("adadelta", "rho", a.rho) || !is_small("adadelta", "epsilon", a.epsilon)) return NULL;
    return lki_optimizer_described(
        WITH(made(&ADADELTA, COMMON(a), 3), 0, lki_number_or(a.rho, 0.95), lki_number_or(a.epsilon, 1e-7)), LKI_ADADELTA, &a);
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
    lk_optimizer *o = WITH(made(&FTRL, COMMON(a), 3), 0, power, a.l1_regularization_strength, a.l2_regularization_strength,
                           a.l2_shrinkage_regularization_strength, a.beta);
    if (o) o->initial = initial;
    return lki_optimizer_described(o, LKI_FTRL, &a);
}

lk_optimizer *lk_adafactor_kw(lk_adafactor_args a)
{
    const double threshold = lki_number_or(a.clip_threshold, 1);
    if (!(threshold > 0)) return refuse("adafactor", "clip_threshold", threshold, "above 0"), NULL;
    return lki_optimizer_described(WITH(made(&ADAFACTOR, COMMON(a), 7), 0, lki_number_or(a.beta_2_decay, -0.8),
                                        lki_number_or(a.epsilon_1, 1e-30), lki_number_or(a.epsilon_2, 1e-3), threshold),
                                   LKI_ADAFACTOR, &a);
}

lk_optimizer *lk_schedule_free_adamw_kw(lk_schedule_free_adamw_args a)
{
    const double beta_1 = lki_number_or(a.beta_1, 0.9), warmup = (double)lki_integer(a.warmup_steps);
    if (!(beta_1 > 0 && beta_1 < 1)) return refuse("schedule_free_adamw", "beta_1", beta_1, "above 0 and below 1"), NULL;
    if (!(warmup >= 0)) return refuse("schedule_free_adamw", "warmup_steps", warmup, "at least 0"), NULL;
    if (!is_share("schedule_free_adamw", "beta_2", a.beta_2) || !is_small("schedule_free_adamw", "epsilon", a.epsilon)) return NULL;
    return lki_optimizer_described(
        WITH(made(&SCHEDULE_FREE, COMMON(a), 3), 0, beta_1, lki_number_or(a.beta_2, 0.999), lki_number_or(a.epsilon, 1e-8), warmup),
        LKI_SCHEDULE_FREE_ADAMW, &a);
}

lk_optimizer *lk_muon_kw(lk_muon_args a)
{
    const int64_t steps = lki_integer_or(a.ns_steps, 5);
    bool          ignored;
    if (steps < 0 || steps > 100) return refuse("muon", "ns_steps", (double)steps, "from 0 to 100"), NULL;
    if (!is_share("muon", "adam_beta_1", a.adam_beta_1) || !is_share("muon", "adam_beta_2", a.adam_beta_2) ||
        !is_small("muon", "epsilon", a.epsilon) || !is_small("muon", "adam_weight_decay", a.adam_weight_decay) ||
        !is_share("muon", "momentum", a.momentum))
        return NULL;
    if (a.exclude_layers && lki_pattern_matches("muon", a.exclude_layers, "", false, &ignored) != LK_OK) return NULL;
    if (!lki_number_given(a.weight_decay)) a.weight_decay = 0.004;
    return lki_optimizer_described(made(&MUON, COMMON(a), 3), LKI_MUON, &a);
}
