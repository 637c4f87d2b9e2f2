/* Devices: memory and copies. The CPU is always there; `null` has memory but no arithmetic, for testing everything above it.
 *
 * Invariants
 * 1. A device is one of a fixed set made at start-up of its backend and lives as long as the process.
 * 2. A buffer is a block of one device's memory with a reference count; the block goes with the last reference. */
#ifndef LKI_DEVICE_H
#define LKI_DEVICE_H

#include "core/error.h"

typedef enum lki_device_kind { LKI_DEVICE_CPU, LKI_DEVICE_NULL } lki_device_kind;

typedef struct lki_device     lki_device;
typedef struct lki_device_ops lki_device_ops;

struct lki_device {
    lki_device_kind       kind;
    const char           *name; /* "CPU:0" */
    const lki_device_ops *ops;
};

struct lki_device_ops {
    void *(*alloc)(lki_device *, size_t bytes); /* NULL and an error when there is none */
    void (*release)(lki_device *, void *mem);
    void (*copy)(lki_device *, void *dst, const void *src, size_t bytes); /* within the device */
};

lki_device *lki_device_cpu(void); /* CPU:0 */

/* Logical CPU devices: they share the memory, and divide the cores, of the one CPU. LOCKSTEP_CPU_DEVICES, 1 by default. */
enum { LKI_MOST_CPU_DEVICES = 1024 };
int         lki_cpu_devices(void);
lki_device *lki_device_cpu_at(int index);     /* NULL: there is no such one */
void        lki_cpu_devices_raise(int count); /* have at least so many */
void        lki_cpu_devices_fix(void);        /* so many and no more: the user said so */
bool        lki_cpu_devices_fixed(void);

lki_device *lki_device_null(void);

/* Where this thread's new tensors go; the CPU at first. */
lki_device *lki_device_current(void);
void        lki_device_set_current(lki_device *device);

typedef struct lki_buffer {
    int         refs; /* atomic */
    size_t      bytes;
    lki_device *device;
    void       *data;
} lki_buffer;

lki_buffer *lki_buffer_new(lki_device *device, size_t bytes); /* one reference; NULL and an error when there is no memory */
lki_buffer *lki_buffer_retain(lki_buffer *b);
void        lki_buffer_drop(lki_buffer *b); /* NULL is ignored */

#endif
