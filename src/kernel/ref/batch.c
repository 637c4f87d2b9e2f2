/* Reference kernels of batch normalisation, and their table entries. The loops are in batch.inc. */
#include "kernel/batch.h"
#include "kernel/fold.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#include <math.h>

#define LOOPS "kernel/ref/batch.inc"
#include "kernel/ref/both.inc"

void lki_register_batch_ref(lki_kernels *k)
{
    LKI_SET_F(k, batch_sums);
    LKI_SET_F(k, batch_apply);
    LKI_SET_F(k, batch_grad_sums);
    LKI_SET_F(k, batch_grad_x);
}
