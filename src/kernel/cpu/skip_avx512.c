/* Matrix products that skip zeros with AVX-512: cpu/skip.inc. */
#include "kernel/cpu/simd_avx512.h"

#include "kernel/cpu/skip.inc"
