/* Learning-rate schedules: a rate from the iteration, in double. The formulas are those of ref/update.c.
 *
 * Powers with whole exponents, which decide where a cosine restarts, are computed by repeated squaring: exact if a double can
 * represent the result. Cosines, logarithms and other powers are the card's, so a rate may differ from the CPU's in the last bit of
 * its float. */
#ifndef LKI_KERNEL_GPU_UPDATE_SCHEDULE_H
#define LKI_KERNEL_GPU_UPDATE_SCHEDULE_H

#include "kernel/gpu/update/rules.h"

namespace lki_gpu
{

enum { SCHEDULE_NUMBERS = 20 };

__device__ inline double decay_fraction(const double *p, double t)
{
    const double x = t / p[1];
    return p[3] != 0 ? floor(x) : x;
}

__device__ inline double polynomial(const double *p, double t)
{
    double steps = p[1];
    if (p[4] != 0) steps *= t == 0 ? 1 : ceil(t / steps);
    else if (t > steps) t = steps;
    return (p[0] - p[2]) * pow(1 - t / steps, p[3]) + p[2];
}

__device__ inline double half_wave(double fraction) { return 0.5 * (1 + cos(3.14159265358979323846 * fraction)); }

__device__ inline double cosine(const double *p, double t)
{
    const double steps = p[1], alpha = p[2], warm_steps = p[3] != 0 ? p[5] : 0;
    double       from = p[0];
    if (p[3] != 0) {
        if (t < warm_steps) return (p[4] - p[0]) * (t / warm_steps) + p[0];
        from = p[4];
    }
    const double passed = t - warm_steps < steps ? t - warm_steps : steps;
    return from * ((1 - alpha) * half_wave(passed / steps) + alpha);
}

/* x^i for a whole i by repeated squaring; for others pow(). */
__device__ inline double whole_power(double x, double i) { return i >= 0 && i < 0x1p31 ? lki_power(x, (int64_t)i) : pow(x, i); }

/* Where period i begins, counted in first periods: 1 + t_mul + ... + t_mul^(i-1). */
__device__ inline double restart_begin(double t_mul, double i)
{
    return t_mul == 1 ? i : (1 - whole_power(t_mul, i)) / (1 - t_mul);
}

__device__ inline double cosine_restarts(const double *p, double t)
{
    const double alpha = p[2], t_mul = p[3], m_mul = p[4], passed = t / p[1];
    double       i = floor(t_mul == 1 ? passed : log(1 - passed * (1 - t_mul)) / log(t_mul));
    if (restart_begin(t_mul, i + 1) <= passed) i += 1; /* the logarithm may be slightly less than a whole number */
    else if (i > 0 && restart_begin(t_mul, i) > passed) i -= 1;
    const double fraction = (passed - restart_begin(t_mul, i)) / whole_power(t_mul, i);
    return p[0] * ((1 - alpha) * whole_power(m_mul, i) * half_wave(fraction) + alpha);
}

__device__ inline double piecewise(const double *p, int count, double t)
{
    int i = 0;
    while (i < count && t > p[i])
        i++;
    return p[count + i];
}

/* form, count, p: attr schedule. */
__device__ inline double schedule_rate(int form, int count, const double *p, double t)
{
    switch (form) {
    case LKI_SCHEDULE_EXPONENTIAL: return p[0] * pow(p[2], decay_fraction(p, t));
    case LKI_SCHEDULE_INVERSE_TIME: return p[0] / (1 + p[2] * decay_fraction(p, t));
    case LKI_SCHEDULE_POLYNOMIAL: return polynomial(p, t);
    case LKI_SCHEDULE_COSINE: return cosine(p, t);
    case LKI_SCHEDULE_COSINE_RESTARTS: return cosine_restarts(p, t);
    default: return piecewise(p, count, t);
    }
}

} // namespace lki_gpu

#endif
