/* The CPU as a device, or as several logical ones: their memory is the process's. */
#include "core/lock.h"
#include "core/log.h"
#include "core/memory.h"
#include "device/device.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *cpu_alloc(lki_device *device, size_t bytes)
{
    (void)device;
    return lki_alloc(bytes);
}

static void cpu_release(lki_device *device, void *mem, size_t bytes)
{
    (void)device, (void)bytes;
    lki_release(mem);
}

static lk_status cpu_copy(lki_device *device, void *dst, const void *src, size_t bytes)
{
    (void)device;
    if (bytes) memcpy(dst, src, bytes);
    return LK_OK;
}

static const lki_device_ops ops = {
    .alloc = cpu_alloc, .release = cpu_release, .copy = cpu_copy, .write = cpu_copy, .read = cpu_copy};

static lki_device cpus[LKI_MOST_CPU_DEVICES];
static char       names[LKI_MOST_CPU_DEVICES][16];
static int        count; /* atomic; entries before it are initialised */
static bool       fixed; /* the user set the number */
LKI_MUTEX(lock);

void lki_cpu_devices_raise(int wanted)
{
    LKI_HOLD(&lock);
    for (int i = count; i < wanted && i < LKI_MOST_CPU_DEVICES; i++) {
        snprintf(names[i], sizeof names[i], "CPU:%d", i);
        cpus[i] = (lki_device){.kind = LKI_DEVICE_CPU, .name = names[i], .ops = &ops, .memory = cpus};
        __atomic_store_n(&count, i + 1, __ATOMIC_RELEASE);
    }
}

void lki_cpu_devices_fix(void) { __atomic_store_n(&fixed, true, __ATOMIC_RELAXED); }

bool lki_cpu_devices_fixed(void) { return __atomic_load_n(&fixed, __ATOMIC_RELAXED); }

static void make_devices(void)
{
    const char *text = getenv("LOCKSTEP_CPU_DEVICES");
    char       *end = NULL;
    long        asked = text && *text ? strtol(text, &end, 10) : 1;
    bool        good = asked >= 1 && asked <= LKI_MOST_CPU_DEVICES && (!end || !*end);
    lki_cpu_devices_raise(good ? (int)asked : 1);
    if (good && text && *text) lki_cpu_devices_fix();
    if (!good) lki_warn("LOCKSTEP_CPU_DEVICES=%s is not a number from 1 to %d and is ignored", text, LKI_MOST_CPU_DEVICES);
}

static void ready(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_devices);
}

lki_device *lki_device_cpu(void)
{
    ready();
    return &cpus[0];
}

int lki_cpu_devices(void)
{
    ready();
    return __atomic_load_n(&count, __ATOMIC_ACQUIRE);
}

lki_device *lki_device_cpu_at(int index) { return index >= 0 && index < lki_cpu_devices() ? &cpus[index] : NULL; }
