/* Reference kernels of the optimisers, of gradient clipping and of learning-rate schedules.
 *
 * The loops are in ref/update.inc, included here once per type; schedules and the counter have one type only. */
#include "kernel/update.h"
#include "kernel/register.h"
#include <math.h>
#include <stddef.h>

/* clang-format off */
#define UPDATE_SLOTS(X)                                                                                                         \
    X(update_sgd) X(update_adam) X(update_rmsprop) X(update_adagrad) X(update_adadelta) X(update_adamax) X(nadam_product)       \
    X(update_nadam) X(update_ftrl) X(update_lion) X(update_decay) X(update_moments) X(lamb_direction) X(update_lamb)            \
    X(update_ema) X(update_overwrite) X(update_accumulate) X(clip_by_norm)
/* clang-format on */

/* The square root is rounded correctly; other powers need not be, and the only one in use is mostly a square root. */
static inline double power_of(double x, double y) { return y == 0.5 ? sqrt(x) : pow(x, y); }

#define LOOPS "kernel/ref/update.inc"
#include "kernel/ref/both.inc"

/* ---- schedules --------------------------------------------------------------------------------------------------------------- */

#define LKI_ANYWHERE static inline
#define LKI_WHOLE_POWER pow
#include "kernel/schedule.inc"

double lki_schedule_rate(const lki_attr *attr, int64_t iteration)
{
    return lki_rate_of(attr->schedule.form, attr->schedule.count, attr->schedule.p, (double)iteration);
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
