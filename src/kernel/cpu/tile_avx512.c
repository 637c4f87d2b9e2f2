/* Tiles with AVX-512: cpu/tile.inc on vectors of 16 floats. */
#include "kernel/cpu/simd_avx512.h"

#define LKI_MORE_ROWS 1
#include "kernel/cpu/tile.inc"
