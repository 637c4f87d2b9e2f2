/* Sixteen floats at a time, for the instruction set this file is compiled for. */
#include "kernel/cpu/isa.h"
#ifdef LKI_AVX512
#include "kernel/cpu/vec_avx512.h"
#else
#include "kernel/cpu/vec_avx2.h"
#endif
