/* Tiles with AVX-512: cpu/tile.inc on vectors of 16 floats. */
#include "kernel/cpu/simd_avx512.h"

#include "kernel/cpu/tile.inc"
