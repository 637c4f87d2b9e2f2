/* A device without arithmetic: memory is real and zeroed, ops check their operands and compute nothing. Everything above the kernels can
 * be tested on it, and timed without them. */
#include "core/memory.h"
#include "device/device.h"
#include <string.h>

static void *null_alloc(lki_device *device, size_t bytes)
{
    (void)device;
    return lki_zalloc(bytes);
}

static void null_release(lki_device *device, void *mem)
{
    (void)device;
    lki_release(mem);
}

static void null_copy(lki_device *device, void *dst, const void *src, size_t bytes)
{
    (void)device;
    memcpy(dst, src, bytes);
}

lki_device *lki_device_null(void)
{
    static const lki_device_ops ops = {null_alloc, null_release, null_copy};
    static lki_device           null = {LKI_DEVICE_NULL, "NULL:0", &ops};
    return &null;
}
