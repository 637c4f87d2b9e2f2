/* What the update kernels, plain and vectorised, and the optimisers above them share: which call updates, the powers for bias
 * corrections, and the schedules.
 *
 * Invariants
 *  1. A power of a decay rate is computed by repeated squaring in double: its bits depend on no math library.
 *  2. Constants are rounded to the type of the variable where Keras rounds them, so that both compute the same values. */
#ifndef LKI_KERNEL_UPDATE_H
#define LKI_KERNEL_UPDATE_H

#include "kernel/kernel.h"

enum { LKI_UPDATE_DECAY = 11 }; /* attr.update.p[11]: decoupled weight decay, in every slot */

/* On a GPU only: the operand after the counter is one number c, and the gradient is src[0] + dst[0] * c. */
enum { LKI_UPDATE_PLUS = 1 << 8 };

enum { LKI_SGD_NESTEROV = 1, LKI_ADAM_AMSGRAD = 1, LKI_RMSPROP_CENTERED = 1, LKI_RMSPROP_MOMENTUM = 2, LKI_CLIP_GLOBAL = 1 };

/* A learning rate as a function of the iteration. p, in order: */
typedef enum lki_schedule_form {
    LKI_SCHEDULE_EXPONENTIAL,     /* rate, steps, decay rate, staircase */
    LKI_SCHEDULE_INVERSE_TIME,    /* rate, steps, decay rate, staircase */
    LKI_SCHEDULE_POLYNOMIAL,      /* rate, steps, end rate, power, cycle */
    LKI_SCHEDULE_COSINE,          /* rate, steps, alpha, warm-up (0, 1), its target, its steps */
    LKI_SCHEDULE_COSINE_RESTARTS, /* rate, first steps, alpha, t_mul, m_mul */
    LKI_SCHEDULE_PIECEWISE,       /* count boundaries, then count + 1 values */
    LKI_SCHEDULE_COUNT
} lki_schedule_form;

/* The rate at an iteration, in double. */
double lki_schedule_rate(const lki_attr *attr, int64_t iteration);

static inline double lki_scalar_of(const lki_view *v)
{
    return v->dtype == LK_F64 ? *(const double *)v->data : *(const float *)v->data;
}

static inline int64_t lki_counter_of(const lki_view *v) { return *(const int64_t *)v->data; }

/* The number of the update that this call makes, from 1; 0 if it makes none: an iteration below 0 is that of a step which is left
 * out. `src` is the operand with the iteration. */
static inline int64_t lki_update_step(const lki_args *a, int src)
{
    const int64_t t = lki_counter_of(&a->src[src]);
    const int64_t every = a->attr->update.every > 1 ? a->attr->update.every : 1;
    return t < 0 || (t + 1) % every ? 0 : t / every + 1;
}

static inline double lki_power(double x, int64_t n)
{
    double y = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1) y *= x;
    return y;
}

#endif
