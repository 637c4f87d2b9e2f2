/* The CPU as a device: its memory is the process's. */
#include "core/memory.h"
#include "device/device.h"
#include <string.h>

static void *cpu_alloc(lki_device *device, size_t bytes)
{
    (void)device;
    return lki_alloc(bytes);
}

static void cpu_release(lki_device *device, void *mem)
{
    (void)device;
    lki_release(mem);
}

static void cpu_copy(lki_device *device, void *dst, const void *src, size_t bytes)
{
    (void)device;
    memcpy(dst, src, bytes);
}

lki_device *lki_device_cpu(void)
{
    static const lki_device_ops ops = {cpu_alloc, cpu_release, cpu_copy};
    static lki_device           cpu = {LKI_DEVICE_CPU, "CPU:0", &ops};
    return &cpu;
}
