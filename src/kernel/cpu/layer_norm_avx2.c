/* layer_norm.inc for AVX2. The build gives this file its instruction set by its name. */
#include "kernel/cpu/vec_avx2.h"

#include "kernel/cpu/layer_norm.inc"
