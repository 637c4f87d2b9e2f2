/* Convolutions with AVX2: cpu/conv.inc, thin.inc and conv_grad_w.inc. */
#include "kernel/cpu/simd_avx2.h"

#include "kernel/cpu/conv.inc"
