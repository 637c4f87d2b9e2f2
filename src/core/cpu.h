/* Which instruction set this machine has. Ordered, so that code asks "at least". LOCKSTEP_ISA=reference|avx2|avx512 caps it. */
#ifndef LKI_CORE_CPU_H
#define LKI_CORE_CPU_H

#include "core/base.h"

typedef enum lki_isa {
    LKI_ISA_REFERENCE = 0,
    LKI_ISA_AVX2,   /* AVX2, FMA, F16C, BMI2 */
    LKI_ISA_AVX512, /* F, BW, DQ, VL */
    LKI_ISA_COUNT,
} lki_isa;

lki_isa     lki_cpu_isa(void);         /* detected once, capped by LOCKSTEP_ISA (a wrong name is reported once and ignored) */
lki_isa     lki_cpu_isa_machine(void); /* without the cap */
const char *lki_isa_name(lki_isa isa);

#endif
