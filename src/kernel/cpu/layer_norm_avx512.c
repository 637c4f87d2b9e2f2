/* layer_norm.inc for AVX-512. The build gives this file its instruction set by its name. */
#include "kernel/cpu/vec_avx512.h"

#include "kernel/cpu/layer_norm.inc"
