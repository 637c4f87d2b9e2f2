/* Vector operations that only live.c needs, for the instruction set this file is compiled for. */
#include "kernel/cpu/isa.h"
#ifdef LKI_AVX512
#include "kernel/cpu/live_avx512.h"
#else
#include "kernel/cpu/live_avx2.h"
#endif
