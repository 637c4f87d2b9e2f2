/* Matrix products that skip zeros with AVX2: cpu/skip.inc. */
#include "kernel/cpu/simd_avx2.h"

#include "kernel/cpu/skip.inc"
