/* Which kernels a device runs. */
#include "kernel/run.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/thread.h"
#include "kernel/gpu/run.h"

static bool can_all(lki_device *d, lki_slot slot, lk_dtype type, int lanes)
{
    (void)d, (void)slot, (void)type, (void)lanes;
    return true;
}

static lk_status run_here(lki_device *d, lki_slot_call *c)
{
    const lki_kernels *k = lki_kernels_here();
    lki_args          *a = c->args;
    int                fault = 0;
    (void)d;
    a->fault = &fault;
    const size_t scratch = k->scratch[c->slot][c->type] ? k->scratch[c->slot][c->type](a) : 0;
    if (scratch && !(a->scratch = lki_alloc(scratch))) return LK_ENOMEM;
    lki_tell(LKI_TOPIC_DISPATCH, "%s %s: %s", c->op, lk_dtype_name(c->type), k->variant[c->slot][c->type]);
    const unsigned before = lki_fp_enter();
    k->fn[c->slot][c->type](a);
    lki_fp_leave(before);
    lki_release(a->scratch);
    c->fault = fault != 0;
    return LK_OK;
}

static lk_status run_nothing(lki_device *d, lki_slot_call *c)
{
    (void)d, (void)c;
    return LK_OK;
}

static const struct {
    bool (*can)(lki_device *, lki_slot, lk_dtype, int lanes);
    lk_status (*run)(lki_device *, lki_slot_call *);
} of[] = {[LKI_DEVICE_CPU] = {can_all, run_here},
          [LKI_DEVICE_NULL] = {can_all, run_nothing},
          [LKI_DEVICE_GPU] = {lki_gpu_can, lki_gpu_run}};

bool lki_slot_can(lki_device *d, lki_slot slot, lk_dtype type, int lanes) { return of[d->kind].can(d, slot, type, lanes); }

lk_status lki_slot_run(lki_device *d, lki_slot_call *c) { return of[d->kind].run(d, c); }
