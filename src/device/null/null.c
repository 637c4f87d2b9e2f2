/* A device without arithmetic: memory is real and zeroed, ops check their operands and compute nothing. Everything above the
 * kernels can be tested on it, and can be timed without kernels. */
#include "core/memory.h"
#include "device/device.h"
#include <string.h>

static void *null_alloc(lki_device *device, size_t bytes)
{
    (void)device;
    return lki_zalloc(bytes);
}

static void null_release(lki_device *device, void *mem, size_t bytes)
{
    (void)device, (void)bytes;
    lki_release(mem);
}

static lk_status null_copy(lki_device *device, void *dst, const void *src, size_t bytes)
{
    (void)device;
    if (bytes) memcpy(dst, src, bytes);
    return LK_OK;
}

lki_device *lki_device_null(void)
{
    static const lki_device_ops ops = {
        .alloc = null_alloc, .release = null_release, .copy = null_copy, .write = null_copy, .read = null_copy};
    static lki_device null = {.kind = LKI_DEVICE_NULL, .name = "NULL:0", .ops = &ops}; /* its memory is the host's */
    null.memory = lki_device_cpu()->memory;
    return &null;
}
