/* Learning-rate schedules: a formula and its numbers. The arithmetic is the kernel's (kernel/update.h), so a query of the rate, an
 * eager step and a compiled step all compute the same one. */
#include "core/error.h"
#include "core/rounding.h"
#include "nn/optimizer.h"
#include "op/op.h"
#include <lockstep/ops.h>
#include <math.h>
#include <string.h>

static void destroy(void *object)
{
    lk_schedule *s = object;
    lki_args_drop(s->class, &s->args);
}

static lk_schedule *schedule_new(lki_schedule_form form, const void *args, int count, int numbers, const double *p)
{
    lk_schedule *s = lki_object_new(sizeof *s, LKI_KIND_SCHEDULE, LKI_LIVES_IN_POOL, destroy);
    if (!s) return NULL;
    s->class = &lki_schedule_classes[form];
    memcpy(&s->args, args, s->class->bytes);
    if (lki_args_hold(s->class->name, s->class, &s->args) != LK_OK) {
        s->args = (lki_schedule_args){0};
        lk_free(s);
        return NULL;
    }
    s->attr.schedule.form = form;
    s->attr.schedule.count = count;
    for (int i = 0; i < numbers; i++)
        s->attr.schedule.p[i] = p[i];
    return s;
}

enum { MOST_BOUNDARIES = 9 };

#define NEW(form, ...) schedule_new(form, &a, 0, (int)LKI_N(double, __VA_ARGS__), (const double[]){__VA_ARGS__})

enum { RATE = 1, STAIRS = 2, POLYNOMIAL = 4, ALPHA = 8, WARMUP = 16, RESTARTS = 32 }; /* the options of a schedule */

static bool options_fit(const char *who, const lk_decay_args *a, unsigned takes)
{
    const char *odd = a->decay_rate != 0 && !(takes & RATE)                 ? "decay_rate"
                      : lki_switch_given(a->staircase) && !(takes & STAIRS) ? "staircase"
                      : (lki_number_given(a->end_learning_rate) || lki_number_given(a->power) || lki_switch_given(a->cycle)) &&
                              !(takes & POLYNOMIAL)
                          ? "end_learning_rate, power or cycle"
                      : a->alpha != 0 && !(takes & ALPHA)                                                 ? "alpha"
                      : (lki_number_given(a->warmup_target) || a->warmup_steps != 0) && !(takes & WARMUP) ? "a warm-up"
                      : (lki_number_given(a->t_mul) || lki_number_given(a->m_mul)) && !(takes & RESTARTS) ? "t_mul or m_mul"
                                                                                                          : NULL;
    if (odd) lki_fail(LK_EINVAL, "%s: does not take %s", who, odd);
    return !odd;
}

static bool check(const char *who, const lk_decay_args *a, unsigned takes)
{
    if (!options_fit(who, a, takes)) return false;
    if (!(a->decay_steps > 0)) return lki_fail(LK_EINVAL, "%s: decay_steps is %g: must be above 0", who, a->decay_steps) == LK_OK;
    if ((takes & RATE) && a->decay_rate == 0)
        return lki_fail(LK_EINVAL, "%s: decay_rate is missing: give .decay_rate = 0.5 or so", who) == LK_OK;
    return true;
}

lk_schedule *lk_exponential_decay_kw(lk_decay_args a)
{
    if (!check("exponential_decay", &a, RATE | STAIRS)) return NULL;
    return NEW(LKI_SCHEDULE_EXPONENTIAL, a.initial_learning_rate, a.decay_steps, a.decay_rate, a.staircase == LK_ON);
}

lk_schedule *lk_inverse_time_decay_kw(lk_decay_args a)
{
    if (!check("inverse_time_decay", &a, RATE | STAIRS)) return NULL;
    return NEW(LKI_SCHEDULE_INVERSE_TIME, a.initial_learning_rate, a.decay_steps, a.decay_rate, a.staircase == LK_ON);
}

lk_schedule *lk_polynomial_decay_kw(lk_decay_args a)
{
    if (!check("polynomial_decay", &a, POLYNOMIAL)) return NULL;
    return NEW(LKI_SCHEDULE_POLYNOMIAL, a.initial_learning_rate, a.decay_steps, lki_number_or(a.end_learning_rate, 1e-4),
               lki_number_or(a.power, 1), a.cycle == LK_ON);
}

lk_schedule *lk_cosine_decay_kw(lk_decay_args a)
{
    if (!check("cosine_decay", &a, ALPHA | WARMUP)) return NULL;
    return NEW(LKI_SCHEDULE_COSINE, a.initial_learning_rate, a.decay_steps, a.alpha, lki_number_given(a.warmup_target),
               lki_number(a.warmup_target), a.warmup_steps);
}

lk_schedule *lk_cosine_decay_restarts_kw(lk_decay_args a)
{
    const double t_mul = lki_number_or(a.t_mul, 2), m_mul = lki_number_or(a.m_mul, 1);
    if (!check("cosine_decay_restarts", &a, ALPHA | RESTARTS)) return NULL;
    if (!(t_mul > 0)) return lki_fail(LK_EINVAL, "cosine_decay_restarts: t_mul is %g: must be above 0", t_mul), NULL;
    return NEW(LKI_SCHEDULE_COSINE_RESTARTS, a.initial_learning_rate, a.decay_steps, a.alpha, t_mul, m_mul);
}

/* As many as fit into the attributes of the op are computed by it, more of them by several ops. */
static bool is_long(const lk_schedule *s)
{
    return s->attr.schedule.form == LKI_SCHEDULE_PIECEWISE && s->attr.schedule.count > MOST_BOUNDARIES;
}

static lk_schedule *piecewise_new(int count, const double *at, const double *rates)
{
    const int  fits = count <= MOST_BOUNDARIES ? count : 0;
    double     p[2 * MOST_BOUNDARIES + 1] = {0};
    lk_tensor *boundaries = lk_keep(lk_tensor_from(LK_SHAPE(count), LK_F64, at)),
              *values = lk_keep(lk_tensor_from(LK_SHAPE((int64_t)count + 1), LK_F64, rates));
    lk_schedule *s = NULL;
    for (int i = 0; i < fits; i++)
        p[i] = at[i];
    for (int i = 0; fits && i <= fits; i++)
        p[fits + i] = rates[i];
    if (!lki_bad(boundaries) && !lki_bad(values))
        s = schedule_new(LKI_SCHEDULE_PIECEWISE, &(lki_piecewise_args){boundaries, values}, count, 2 * fits + 1, p);
    if (!lki_bad(boundaries)) lk_free(boundaries);
    if (!lki_bad(values)) lk_free(values);
    return s;
}

lk_schedule *lk_piecewise_constant_decay(int count, const double *boundaries, const double *values)
{
    if (!boundaries || !values)
        return lki_fail(LK_EINVAL, "piecewise_constant_decay: %s is NULL", boundaries ? "values" : "boundaries"), NULL;
    if (count < 1) return lki_fail(LK_EINVAL, "piecewise_constant_decay: %d boundaries: must be at least 1", count), NULL;
    for (int i = 0; i < count; i++) {
        if (i && boundaries[i] <= boundaries[i - 1])
            return lki_fail(LK_EINVAL, "piecewise_constant_decay: boundary %d is %g after %g: must ascend", i, boundaries[i],
                            boundaries[i - 1]),
                   NULL;
    }
    return piecewise_new(count, boundaries, values);
}

double lk_schedule_at(const lk_schedule *s, int64_t iteration)
{
    LKI_NEAREST;
    if (!lki_is_kind(s, LKI_KIND_SCHEDULE)) return lki_fail(LK_EINVAL, "schedule_at: not a schedule"), NAN;
    if (!is_long(s)) return (float)lki_schedule_rate(&s->attr, iteration);
    const double *at = lk_data(s->args.piecewise.boundaries), *rates = lk_data(s->args.piecewise.values);
    int           i = 0;
    while (i < s->attr.schedule.count && (double)iteration > at[i])
        i++;
    return (float)rates[i];
}

lk_tensor *lki_schedule_read(const lk_schedule *s, lk_tensor *iteration)
{
    if (!is_long(s)) return lki_apply1(LKI_OP_schedule, &s->attr, iteration);
    lk_tensor *passed = lk_cast(lk_greater(lk_cast(iteration, LK_F64), s->args.piecewise.boundaries), LK_I64);
    return lk_gather(lk_cast(s->args.piecewise.values, LK_F32), lk_reduce_sum(passed), 0);
}
