/* Depthwise convolutions with AVX2: cpu/depthwise.inc. */
#include "kernel/cpu/simd_avx2.h"

#include "kernel/cpu/depthwise.inc"
