/* Reference layer normalisation, and its table entries. The loops are in layer_norm.inc. */
#include "kernel/fold.h"
#include "kernel/index.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"
#include <math.h>

#define LOOPS "kernel/ref/layer_norm.inc"
#include "kernel/ref/both.inc"

void lki_register_layer_norm_ref(lki_kernels *k)
{
    LKI_SET_F(k, layer_norm);
    LKI_SET_F(k, layer_norm_grad_x);
    LKI_SET_F(k, layer_norm_grad_gamma);
}
