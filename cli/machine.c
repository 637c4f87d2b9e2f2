/* Facts about this machine (machine.h). */
#include "machine.h"
#include "files.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int machine_isa(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    const int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return avx2 ? avx512 ? 2 : 1 : 0;
#else
    return 0;
#endif
}

const char *cli_isa(void)
{
    static const char *const names[] = {"reference", "avx2", "avx512"};
    const char              *cap = getenv("LOCKSTEP_ISA");
    int                      isa = machine_isa();
    for (int i = 0; cap && i < isa; i++)
        if (!strcmp(cap, names[i])) isa = i;
    return names[isa];
}

/* The first entry is enough: on a machine with many cores reading the whole file takes long. */
const char *cli_processor(char *text, size_t room)
{
    char  head[1024];
    FILE *file = cli_open_to_read("/proc/cpuinfo");
    text[0] = 0;
    if (!file) return text;
    setvbuf(file, NULL, _IOFBF, sizeof head);
    const size_t got = fread(head, 1, sizeof head - 1, file);
    fclose(file);
    head[got] = 0;
    const char *name = strstr(head, "model name"), *colon = name ? strchr(name, ':') : NULL;
    if (colon) snprintf(text, room, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    return text;
}

double cli_memory_gib(void) { return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE) / (1 << 30); }
