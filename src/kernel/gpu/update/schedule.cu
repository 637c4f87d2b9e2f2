/* Learning-rate schedules (schedule.h): the card reads the iteration; one thread computes the rate. */
#include "kernel/gpu/update/schedule.h"

namespace
{

struct schedule_call {
    int            form, count;
    double         p[lki_gpu::SCHEDULE_NUMBERS];
    const int64_t *t;
    float         *rate;
};

__global__ void schedule_kernel(schedule_call c) { *c.rate = (float)lki_gpu::lki_rate_of(c.form, c.count, c.p, (double)*c.t); }

void schedule(const lki_args *a)
{
    if (!a->hi) return;
    schedule_call c = {
        a->attr->schedule.form, a->attr->schedule.count, {}, (const int64_t *)a->src[0].data, (float *)a->dst[0].data};
    for (int i = 0; i < LKI_COUNT(c.p); i++)
        c.p[i] = a->attr->schedule.p[i];
    LKI_LAUNCH_FLAT(schedule_kernel, dim3(1), dim3(1), a, c);
}

} // namespace

void lki_gpu::register_schedule(lki_kernels *k) { set(k, LKI_K_schedule, LK_I64, schedule); }
