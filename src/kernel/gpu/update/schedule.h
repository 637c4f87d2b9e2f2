/* Learning-rate schedules on a card. Powers with whole exponents, which decide where a cosine restarts, are computed by repeated
 * squaring: exact if a double can represent the result. */
#ifndef LKI_KERNEL_GPU_UPDATE_SCHEDULE_H
#define LKI_KERNEL_GPU_UPDATE_SCHEDULE_H

#include "kernel/gpu/update/rules.h"

namespace lki_gpu
{

enum { SCHEDULE_NUMBERS = 20 };

/* x^i for a whole i by repeated squaring; for others pow(). */
__device__ inline double whole_power(double x, double i) { return i >= 0 && i < 0x1p31 ? lki_power(x, (int64_t)i) : pow(x, i); }

#define LKI_ANYWHERE __device__ inline
#define LKI_WHOLE_POWER whole_power
#include "kernel/schedule.inc"

} // namespace lki_gpu

#endif
