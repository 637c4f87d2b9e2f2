/* Reference softmax and cross-entropy, and their table entries. The loops are in rows.inc. */
#include "kernel/fold.h"
#include "kernel/index.h"
#include "kernel/ref/math.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#define LOOPS "kernel/ref/rows.inc"
#include "kernel/ref/both.inc"

void lki_register_rows_ref(lki_kernels *k)
{
    LKI_SET_F(k, softmax);
    LKI_SET_F(k, softmax_grad);
    LKI_SET_F(k, log_softmax);
    LKI_SET_F(k, sparse_xent);
    LKI_SET_F(k, sparse_xent_grad);
}
