/* Reference kernels of the optimisers, of gradient clipping and of learning-rate schedules.
 *
 * The loops are in ref/update.inc, included here once per type; schedules and the counter have one type only. */
#include "kernel/update.h"
#include "kernel/register.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* clang-format off */
#define UPDATE_SLOTS(X)                                                                                                         \
    X(update_sgd) X(update_adam) X(update_rmsprop) X(update_adagrad) X(update_adadelta) X(update_adamax) X(nadam_product)       \
    X(update_nadam) X(update_ftrl) X(update_lion) X(update_decay) X(update_moments) X(lamb_direction) X(update_lamb)            \
    X(update_ema) X(update_overwrite) X(update_accumulate) X(clip_by_norm)
/* clang-format on */

/* The square root is rounded correctly; other powers need not be, and the only one in use is mostly a square root. */
static inline double power_of(double x, double y) { return y == 0.5 ? sqrt(x) : pow(x, y); }

#define T float
#define NAME(x) f32_##x
#define SQRT(x) sqrtf(x)
#define POWER(x, y) (float)power_of(x, y)
#include "kernel/ref/update.inc"
#undef T
#undef NAME
#undef SQRT
#undef POWER

#define T double
#define NAME(x) f64_##x
#define SQRT(x) sqrt(x)
#define POWER(x, y) power_of(x, y)
#include "kernel/ref/update.inc"
#undef T
#undef NAME
#undef SQRT
#undef POWER

/* ---- schedules --------------------------------------------------------------------------------------------------------------- */

static double decay_fraction(const double *p, double t)
{
    const double x = t / p[1];
    return p[3] != 0 ? floor(x) : x;
}

static double exponential(const double *p, int count, double t)
{
    (void)count;
    return p[0] * pow(p[2], decay_fraction(p, t));
}

static double inverse_time(const double *p, int count, double t)
{
    (void)count;
    return p[0] / (1 + p[2] * decay_fraction(p, t));
}

static double polynomial(const double *p, int count, double t)
{
    (void)count;
    double steps = p[1];
    if (p[4] != 0) steps *= t == 0 ? 1 : ceil(t / steps);
    else if (t > steps) t = steps;
    return (p[0] - p[2]) * pow(1 - t / steps, p[3]) + p[2];
}

static double half_wave(double fraction) { return 0.5 * (1 + cos(3.14159265358979323846 * fraction)); }

static double cosine(const double *p, int count, double t)
{
    (void)count;
    const double steps = p[1], alpha = p[2], warm_steps = p[3] != 0 ? p[5] : 0;
    double       from = p[0];
    if (p[3] != 0) {
        if (t < warm_steps) return (p[4] - p[0]) * (t / warm_steps) + p[0];
        from = p[4];
    }
    const double passed = t - warm_steps < steps ? t - warm_steps : steps;
    return from * ((1 - alpha) * half_wave(passed / steps) + alpha);
}

/* Where period i begins, counted in first periods: 1 + t_mul + ... + t_mul^(i-1). */
static double restart_begin(double t_mul, double i) { return t_mul == 1 ? i : (1 - pow(t_mul, i)) / (1 - t_mul); }

static double cosine_restarts(const double *p, int count, double t)
{
    (void)count;
    const double alpha = p[2], t_mul = p[3], m_mul = p[4], passed = t / p[1];
    double       i = floor(t_mul == 1 ? passed : log(1 - passed * (1 - t_mul)) / log(t_mul));
    if (restart_begin(t_mul, i + 1) <= passed) i += 1; /* the logarithm may be slightly less than a whole number */
    else if (i > 0 && restart_begin(t_mul, i) > passed) i -= 1;
    const double fraction = (passed - restart_begin(t_mul, i)) / pow(t_mul, i);
    return p[0] * ((1 - alpha) * pow(m_mul, i) * half_wave(fraction) + alpha);
}

static double piecewise(const double *p, int count, double t)
{
    int i = 0;
    while (i < count && t > p[i])
        i++;
    return p[count + i];
}

double lki_schedule_rate(const lki_attr *attr, int64_t iteration)
{
    typedef double     form(const double *p, int count, double t);
    static form *const forms[LKI_SCHEDULE_COUNT] = {
        [LKI_SCHEDULE_EXPONENTIAL] = exponential,         [LKI_SCHEDULE_INVERSE_TIME] = inverse_time,
        [LKI_SCHEDULE_POLYNOMIAL] = polynomial,           [LKI_SCHEDULE_COSINE] = cosine,
        [LKI_SCHEDULE_COSINE_RESTARTS] = cosine_restarts, [LKI_SCHEDULE_PIECEWISE] = piecewise,
    };
    return forms[attr->schedule.form](attr->schedule.p, attr->schedule.count, (double)iteration);
}

static void schedule(const lki_args *a)
{
    if (a->lo < a->hi) *(float *)a->dst[0].data = (float)lki_schedule_rate(a->attr, lki_counter_of(&a->src[0]));
}

static void increment(const lki_args *a)
{
    if (a->lo < a->hi) ++*(int64_t *)a->dst[0].data;
}

void lki_register_update_ref(lki_kernels *k)
{
    f32_register(k, LK_F32);
    f64_register(k, LK_F64);
    lki_kernel_set(k, LKI_K_schedule, LK_I64, schedule, NULL, "ref");
    lki_kernel_set(k, LKI_K_increment, LK_I64, increment, NULL, "ref");
}
