/* Matrix products with AVX2: cpu/gemm.inc on tiles of 6 x 16. */
#include "kernel/cpu/simd_avx2.h"

#include "kernel/cpu/gemm.inc"
