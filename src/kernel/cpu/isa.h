/* The instruction set that this file is compiled for. The build compiles every .c file of this folder twice (cmake/Library.cmake):
 * for AVX2 and, with LKI_AVX512, for AVX-512. Names that both define contain the set, by ISA(). */
#ifndef LKI_KERNEL_CPU_ISA_H
#define LKI_KERNEL_CPU_ISA_H

#ifdef LKI_AVX512
#define VARIANT "avx512"
#define ISA(name) name##_avx512
#else
#define VARIANT "avx2"
#define ISA(name) name##_avx2
#endif

#endif
