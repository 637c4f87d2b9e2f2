/* Devices by their names: which types there are, and how many devices of each. */
#include "device/device.h"
#include "device/gpu/gpu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *more_cpus(void) { return "more logical CPU devices: .cpu_devices = n or LOCKSTEP_CPU_DEVICES=n"; }

/* Later types are preferred to earlier ones, if there are devices of them. */
static const struct {
    const char *name;
    int (*count)(void);
    lki_device *(*at)(int index);
    const char *(*why)(void);
} types[] = {{"CPU", lki_cpu_devices, lki_device_cpu_at, more_cpus}, {"GPU", lki_gpu_devices, lki_device_gpu_at, lki_gpu_why}};

static int type_of(const char *text)
{
    int found = -1;
    for (int i = 0; i < LKI_COUNT(types); i++)
        if (!strcasecmp(text, types[i].name)) found = i;
    return found;
}

const char *lki_device_type(const char *text)
{
    const int i = type_of(text);
    return i < 0 ? NULL : types[i].name;
}

int lki_device_count(const char *type)
{
    int count = 0;
    if (type) return types[type_of(type)].count();
    for (int i = 0; i < LKI_COUNT(types); i++)
        count += types[i].count();
    return count;
}

lki_device *lki_device_at(const char *type, int index)
{
    if (type) return types[type_of(type)].at(index);
    int i = 0;
    for (; i + 1 < LKI_COUNT(types) && index >= types[i].count(); i++)
        index -= types[i].count();
    return types[i].at(index);
}

lki_device *lki_device_named(const char *name)
{
    for (int i = 0; i < LKI_COUNT(types); i++) {
        const size_t n = strlen(types[i].name);
        char        *end;
        if (strncmp(name, types[i].name, n) || name[n] != ':') continue;
        const long index = strtol(name + n + 1, &end, 10);
        return *end || end == name + n + 1 || index > INT32_MAX ? NULL : types[i].at((int)index);
    }
    return NULL;
}

const char *lki_device_best_type(void)
{
    int best = 0;
    for (int i = 0; i < LKI_COUNT(types); i++)
        if (types[i].count()) best = i;
    return types[best].name;
}

const char *lki_device_why(const char *type) { return types[type_of(type)].why(); }

lk_status lki_devices_split(int parts, size_t limit) { return lki_gpu_split(parts, limit); }

void lki_devices_note(char *text, size_t size)
{
    bool        found = false;
    const char *nccl = lki_gpu_nccl(&found);
    snprintf(text, size, "%s%s%s", lki_gpu_why(), !*nccl ? "" : found ? "; " : "; no NCCL: ", nccl);
}
