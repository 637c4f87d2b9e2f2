/* Tiles with AVX2: cpu/tile.inc on vectors of 8 floats. */
#include "kernel/cpu/simd_avx2.h"

#include "kernel/cpu/tile.inc"
