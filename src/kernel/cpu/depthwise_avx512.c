/* Depthwise convolutions with AVX-512: cpu/depthwise.inc. */
#include "kernel/cpu/simd_avx512.h"

#include "kernel/cpu/depthwise.inc"
