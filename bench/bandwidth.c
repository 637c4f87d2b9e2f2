/* How fast one core reads and copies what lies in each level of its memory, the sloped lines of a roofline
 * (tools/roofline-picture).
 *
 *     bandwidth                GB/s, one line per level; a copy counts bytes read and written
 *
 * A level is measured with a working set that fits it with room to spare and does not fit the one before. Vectors are as wide as
 * the kernels' own; loads go to several sums, so that only bandwidth counts. */
#include "core/cpu.h"
#include "timing.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct level {
    const char *name;
    size_t      bytes; /* of the working set: what is read, or source and result of the copy together */
} level;

static const level LEVELS[] = {{"L1", 16 << 10}, {"L2", 512 << 10}, {"L3", 8 << 20}, {"memory", 256 << 20}};

typedef struct work {
    float *from, *to;
    size_t bytes;
    float  sink;
} work;

/* ---- both, for vectors of one width; a working set is a whole number of eight of them ------------------------------------ */

enum { SUMS = 8 };

#define READ(vector, load, add, first)                                                                                             \
    work        *w = arg;                                                                                                          \
    vector       sum[SUMS];                                                                                                        \
    const size_t wide = sizeof(vector) / sizeof(float);                                                                            \
    for (size_t j = 0; j < SUMS; j++)                                                                                              \
        sum[j] = load(w->from);                                                                                                    \
    for (const float *at = w->from, *end = at + w->bytes / sizeof(float); at < end; at += SUMS * wide)                             \
        _Pragma("GCC unroll 8") for (size_t j = 0; j < SUMS; j++) sum[j] = add(sum[j], load(at + j * wide));                       \
    for (size_t j = 1; j < SUMS; j++)                                                                                              \
        sum[0] = add(sum[0], sum[j]);                                                                                              \
    w->sink = first(sum[0])

#define COPY(vector, load, store)                                                                                                  \
    work        *w = arg;                                                                                                          \
    const size_t wide = sizeof(vector) / sizeof(float);                                                                            \
    for (size_t i = 0; i < w->bytes / 2 / sizeof(float); i += SUMS * wide)                                                         \
        _Pragma("GCC unroll 8") for (size_t j = 0; j < SUMS; j++) store(w->to + i + j * wide, load(w->from + i + j * wide));       \
    __asm__ volatile("" : : "r"(w->to) : "memory") /* someone may read it */

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void read_avx2(void *arg) { READ(__m256, _mm256_load_ps, _mm256_add_ps, _mm256_cvtss_f32); }
__attribute__((target("avx2"))) static void copy_avx2(void *arg) { COPY(__m256, _mm256_load_ps, _mm256_store_ps); }
__attribute__((target("avx512f"))) static void read_avx512(void *arg)
{
    READ(__m512, _mm512_load_ps, _mm512_add_ps, _mm512_cvtss_f32);
}
__attribute__((target("avx512f"))) static void copy_avx512(void *arg) { COPY(__m512, _mm512_load_ps, _mm512_store_ps); }
#endif

int main(void)
{
    timed        *read = NULL, *copy = NULL;
    const lki_isa isa = lki_cpu_isa();
#if defined(__x86_64__)
    if (isa >= LKI_ISA_AVX2) read = read_avx2, copy = copy_avx2;
    if (isa >= LKI_ISA_AVX512) read = read_avx512, copy = copy_avx512;
#endif
    if (!read) return printf("%s: it is not known how to measure it\n", lki_isa_name(isa)), 0;
    printf("%-10s %10s %10s %10s\n", "GB/s", "working set", "read", "copy");
    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++) {
        const size_t bytes = LEVELS[i].bytes;
        work         w = {.from = pages(bytes), .to = pages(bytes), .bytes = bytes};
        memset(w.from, 0, bytes);
        memset(w.to, 0, bytes);
        const double r = (double)bytes / seconds_of(read, &w, 0.5) / 1e9, c = (double)bytes / seconds_of(copy, &w, 0.5) / 1e9;
        printf("%-10s %8zu KB %10.1f %10.1f\n", LEVELS[i].name, bytes >> 10, r, c);
        free(w.from);
        free(w.to);
    }
    return 0;
}
