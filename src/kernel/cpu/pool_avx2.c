/* Pooling with AVX2: cpu/pool.inc. */
#include "kernel/cpu/simd_avx2.h"

#include "kernel/cpu/pool.inc"
