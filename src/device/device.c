/* Buffers, and which device a thread's new tensors go to. */
#include "device/device.h"
#include "core/memory.h"

static _Thread_local lki_device *current;

lki_device *lki_device_current(void) { return current ? current : lki_device_cpu(); }

void lki_device_set_current(lki_device *device) { current = device; }

lki_buffer *lki_buffer_new(lki_device *device, size_t bytes)
{
    lki_buffer *b = lki_zalloc(sizeof *b);
    if (!b) return NULL;
    b->refs = 1;
    b->bytes = bytes;
    b->device = device;
    b->data = device->ops->alloc(device, bytes);
    if (!b->data) {
        lki_release(b);
        return NULL;
    }
    return b;
}

lki_buffer *lki_buffer_retain(lki_buffer *b)
{
    if (b) __atomic_add_fetch(&b->refs, 1, __ATOMIC_RELAXED);
    return b;
}

void lki_buffer_drop(lki_buffer *b)
{
    if (!b || __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    b->device->ops->release(b->device, b->data);
    lki_release(b);
}
