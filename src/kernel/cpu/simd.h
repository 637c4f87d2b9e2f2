/* The vector operations that the products are written in, for the instruction set this file is compiled for. */
#include "kernel/cpu/isa.h"
#ifdef LKI_AVX512
#include "kernel/cpu/simd_avx512.h"
#else
#include "kernel/cpu/simd_avx2.h"
#endif
