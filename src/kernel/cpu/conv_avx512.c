/* Convolutions with AVX-512: cpu/conv.inc, thin.inc and conv_grad_w.inc. */
#include "kernel/cpu/simd_avx512.h"

#include "kernel/cpu/conv.inc"
