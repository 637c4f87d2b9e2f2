/* Running a slot at once on a GPU: the card does the work later, in order. If the call checks indices, this waits for it. */
#include "kernel/gpu/run.h"
#include "core/log.h"
#include "core/runtime.h"
#include "device/gpu/gpu.h"

enum { MOST_LANES = 64 }; /* of base/gpu.h */

bool lki_gpu_can(lki_device *d, lki_slot slot, lk_dtype type, int lanes)
{
    const lki_gpu_line *l = lki_gpu_line_of(d);
    return l && l->kernels->fn[slot][type] && lanes <= MOST_LANES;
}

static lk_status launch(lki_device *d, const lki_gpu_line *l, const lki_slot_call *c)
{
    LKI_TRY(lki_gpu_check(d, c->op, l->backend->flush(l->card)));
    lki_tell(LKI_TOPIC_DISPATCH, "%s %s: %s, %s", c->op, lk_dtype_name(c->type), l->kernels->variant[c->slot][c->type], d->name);
    l->kernels->fn[c->slot][c->type](c->args);
    return lki_gpu_check(d, c->op, l->backend->failure(l->card));
}

/* With a separate word for the code of a fault. */
static lk_status launch_checked(lki_device *d, const lki_gpu_line *l, lki_slot_call *c, lki_launch *how)
{
    int fault = 0;
    how->fault = 1;
    if (!(how->stop = d->ops->alloc(d, sizeof fault))) return LK_ENOMEM;
    lk_status status = d->ops->write(d, how->stop, &fault, sizeof fault);
    if (status == LK_OK) status = launch(d, l, c);
    if (status == LK_OK) status = d->ops->read(d, &fault, how->stop, sizeof fault);
    d->ops->release(d, how->stop, sizeof fault);
    c->fault = fault != 0;
    return status;
}

lk_status lki_gpu_run(lki_device *d, lki_slot_call *c)
{
    const lki_gpu_line *l = lki_gpu_line_of(d);
    if (!l) return lk_error_code();
    lki_scratch_fn *needs = l->kernels->scratch[c->slot][c->type];
    lki_launch      how = {.stream = l->stream, .precision = lki_precision_now()};
    c->args->gpu = &how;
    const size_t scratch = needs ? needs(c->args) : 0;
    if (scratch && !(c->args->scratch = d->ops->alloc(d, scratch))) return LK_ENOMEM;
    const lk_status status = lki_slot_may_fault(c->slot, c->type) ? launch_checked(d, l, c, &how) : launch(d, l, c);
    if (scratch) d->ops->release(d, c->args->scratch, scratch);
    return status;
}
