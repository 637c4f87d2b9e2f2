/* Reference kernels of batch normalisation, and their table entries. The loops are in batch.inc. */
#include "kernel/batch.h"
#include "kernel/fold.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#include <math.h>

#define T float
#define FMA fmaf
#define NAME(x) f32_##x
#include "kernel/ref/batch.inc"
#undef T
#undef FMA
#undef NAME

#define T double
#define FMA fma
#define NAME(x) f64_##x
#include "kernel/ref/batch.inc"
#undef T
#undef FMA
#undef NAME

void lki_register_batch_ref(lki_kernels *k)
{
    LKI_SET_F(k, batch_sums);
    LKI_SET_F(k, batch_apply);
    LKI_SET_F(k, batch_grad_sums);
    LKI_SET_F(k, batch_grad_x);
}
