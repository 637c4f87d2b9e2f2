/* What the other benches run on, as one line: processor, cores, instruction set, and what one core can do at best: fused
 * multiply-adds per second in registers, and bytes per second of a copy that fits into no cache. The load tells whether it was
 * alone. */
#include "core/cpu.h"
#include "timing.h"
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { STEPS = 100000, CHAINS = 12, COPIED = 128 << 20 };

/* ---- multiply-adds ---------------------------------------------------------------------------------------------------------- */

/* Independent chains, so that only the number of units counts; the start is not a fixed point, nor does it die away. */
#define FMA_CHAINS(vector, set, fma, first)                                                                                        \
    vector acc[CHAINS];                                                                                                            \
    for (int i = 0; i < CHAINS; i++)                                                                                               \
        acc[i] = set((float)i + 0.25f);                                                                                            \
    const vector x = set(0.999f), y = set(0.001f);                                                                                 \
    for (int s = 0; s < STEPS; s++)                                                                                                \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) acc[i] = fma(acc[i], x, y);                                      \
    for (int i = 0; i < CHAINS; i++)                                                                                               \
    *(volatile float *)arg = first(acc[i])

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void fma_avx2(void *arg)
{
    FMA_CHAINS(__m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32);
}

__attribute__((target("avx512f"))) static void fma_avx512(void *arg)
{
    FMA_CHAINS(__m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32);
}
#endif

/* 0 where it is not known how to measure it. */
static double gflops(lki_isa isa)
{
    float sink = 0;
    (void)sink;
#if defined(__x86_64__)
    if (isa == LKI_ISA_AVX2) return 2.0 * 8 * STEPS * CHAINS / seconds_of(fma_avx2, &sink, 0.1) / 1e9;
    if (isa == LKI_ISA_AVX512) return 2.0 * 16 * STEPS * CHAINS / seconds_of(fma_avx512, &sink, 0.1) / 1e9;
#endif
    (void)isa;
    return 0;
}

/* ---- copying ---------------------------------------------------------------------------------------------------------------- */

static volatile size_t copied = COPIED; /* unknown to the compiler, which would not call the library's copy otherwise */

static void copy(void *arg)
{
    char **ends = arg;
    memcpy(ends[0], ends[1], copied);
    __asm__ volatile("" : : "r"(ends[0]) : "memory"); /* someone may read it */
}

/* Bytes read and written, as in bench/ops.c. */
static double copied_gigabytes(void)
{
    char *ends[2] = {pages(COPIED), pages(COPIED)};
    memset(ends[0], 1, COPIED);
    memset(ends[1], 2, COPIED);
    const double rate = 2.0 * COPIED / seconds_of(copy, ends, 0.3) / 1e9;
    free(ends[0]);
    free(ends[1]);
    return rate;
}

/* ---- the line --------------------------------------------------------------------------------------------------------------- */

static void processor(char *text, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char  line[512];
    snprintf(text, size, "unknown processor");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(text, size, "%s", colon + 2);
        break;
    }
    if (f) fclose(f);
}

int main(void)
{
    char          name[256];
    double        load = -1;
    const lki_isa isa = lki_cpu_isa();
    processor(name, sizeof name);
    getloadavg(&load, 1);
    printf("%s, %ld cores, %s", name, sysconf(_SC_NPROCESSORS_ONLN), lki_isa_name(isa));
    printf("; one core: ");
    const double peak = gflops(isa);
    if (peak > 0) printf("%.1f GFLOP/s of fused multiply-adds, ", peak);
    printf("a copy in memory %.1f GB/s read and written; load %.2f\n", copied_gigabytes(), load);
    return 0;
}
