/* The instruction sets of the processor. A set counts only if the operating system saves its registers too (XGETBV). */
#include "core/cpu.h"
#include "core/error.h"
#include "core/log.h"
#include <lockstep/tensor.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[LKI_ISA_COUNT] = {"reference", "avx2", "avx512"};

const char *lki_isa_name(lki_isa isa) { return (unsigned)isa < LKI_ISA_COUNT ? names[isa] : "unknown"; }

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

enum {
    LEAF1_ECX = bit_FMA | bit_OSXSAVE | bit_AVX | bit_F16C,
    LEAF7_AVX2 = bit_AVX2 | bit_BMI2,
    STATE_AVX = 0x06,    /* XMM and YMM */
    STATE_AVX512 = 0xe6, /* and ZMM and mask registers */
};
static const unsigned leaf7_avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;

static bool has(unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; }

static unsigned saved_state(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static lki_isa detect(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, LEAF1_ECX)) return LKI_ISA_REFERENCE;
    unsigned state = saved_state();
    if (!has(state, STATE_AVX) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, LEAF7_AVX2)) return LKI_ISA_REFERENCE;
    return has(state, STATE_AVX512) && has(b, leaf7_avx512) ? LKI_ISA_AVX512 : LKI_ISA_AVX2;
}
#else
static lki_isa detect(void) { return LKI_ISA_REFERENCE; }
#endif

static lki_isa        machine, capped;
static pthread_once_t detected = PTHREAD_ONCE_INIT;

static bool chosen; /* the instruction set was asked for, so the cap is fixed */

static lki_isa isa_named(const char *name)
{
    int i = 0;
    while (i < LKI_ISA_COUNT && strcmp(name, names[i]) != 0)
        i++;
    return (lki_isa)i;
}

static void detect_once(void)
{
    const char *name = getenv("LOCKSTEP_ISA");
    machine = detect();
    lki_isa cap = name && *name ? isa_named(name) : machine;
    if (cap == LKI_ISA_COUNT) lki_warn("LOCKSTEP_ISA: no instruction set \"%s\"; there are reference, avx2, avx512", name);
    capped = cap < machine ? cap : machine;
}

lk_status lk_set_isa(const char *name)
{
    lki_isa cap = name ? isa_named(name) : LKI_ISA_COUNT;
    pthread_once(&detected, detect_once);
    if (cap == LKI_ISA_COUNT)
        return lki_fail(LK_EINVAL, "lk_set_isa: no instruction set \"%s\"; there are reference, avx2, avx512",
                        name ? name : "NULL");
    if (__atomic_load_n(&chosen, __ATOMIC_RELAXED))
        return lki_fail(LK_ESTATE, "lk_set_isa: kernels were chosen before; call it before the first op");
    capped = cap < machine ? cap : machine;
    return LK_OK;
}

lki_isa lki_cpu_isa(void)
{
    pthread_once(&detected, detect_once);
    __atomic_store_n(&chosen, true, __ATOMIC_RELAXED);
    return capped;
}

lki_isa lki_cpu_isa_machine(void)
{
    pthread_once(&detected, detect_once);
    return machine;
}
