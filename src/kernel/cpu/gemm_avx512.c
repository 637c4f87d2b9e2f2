/* Matrix products with AVX-512: cpu/gemm.inc on tiles of 8 x 32. */
#include "kernel/cpu/simd_avx512.h"

#include "kernel/cpu/gemm.inc"
