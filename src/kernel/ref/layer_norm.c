/* Reference layer normalisation, and its table entries. The loops are in layer_norm.inc. */
#include "kernel/fold.h"
#include "kernel/index.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"
#include <math.h>

#define T float
#define FMA fmaf
#define SQRT sqrtf
#define FOLD(x) lki_fold_f32##x
#define NAME(x) f32_##x
#include "kernel/ref/layer_norm.inc"
#undef T
#undef FMA
#undef SQRT
#undef FOLD
#undef NAME

#define T double
#define FMA fma
#define SQRT sqrt
#define FOLD(x) lki_fold_f64##x
#define NAME(x) f64_##x
#include "kernel/ref/layer_norm.inc"

void lki_register_layer_norm_ref(lki_kernels *k)
{
    LKI_SET_F(k, layer_norm);
    LKI_SET_F(k, layer_norm_grad_x);
    LKI_SET_F(k, layer_norm_grad_gamma);
}
