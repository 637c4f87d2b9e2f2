/* Pooling with AVX-512: cpu/pool.inc. */
#include "kernel/cpu/simd_avx512.h"

#include "kernel/cpu/pool.inc"
