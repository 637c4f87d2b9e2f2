/* Devices: memory and copies. There is always a CPU. GPUs are found at run time (gpu/gpu.c). The device `null` has memory but no
 * arithmetic; it is for tests of the code that uses devices.
 *
 * Invariants
 *  1. The set of devices is fixed when their backend starts. A device lives as long as the process.
 *  2. Devices with the same `memory` can use each other's buffers: the logical CPU devices of the machine, the logical GPUs of a
 *     card.
 *  3. A buffer is a block of one device's memory, its home, with a reference count. The block is freed with the last reference.
 *     Copies in other memories, its twins, are made when a caller asks for the buffer there (lki_buffer_at). They have the same
 *     bytes as the home and are freed with it. Code that changes the home calls lki_buffer_changed, which drops the twins.
 *  4. A twin that a caller holds (lki_buffer_hold) is not dropped when the home changes. It is out of date, and the next request
 *     brings it up to date in place: its address does not change.
 *  5. A device may do its work after the call that submitted it. Such work has a number, and a buffer stores the number of the work
 *     that writes it: until that work is done the buffer is pending. Copying it to another memory settles it (lki_buffer_settle):
 *     this waits for the work, and returns the error that the work met. */
#ifndef LKI_DEVICE_H
#define LKI_DEVICE_H

#include "core/error.h"

typedef enum lki_device_kind { LKI_DEVICE_CPU, LKI_DEVICE_NULL, LKI_DEVICE_GPU } lki_device_kind;

typedef struct lki_device     lki_device;
typedef struct lki_device_ops lki_device_ops;
struct lki_kernels;
struct lki_pick;

/* A bond of devices whose work waits for each other. The code that carries bytes between them makes it (comm/comm.h). Bonds are
 * compared by address. */
typedef struct lki_bond {
    void *of;
    bool (*hold)(void *of);      /* takes a reference; false: the bond is being freed */
    lk_status (*wait)(void *of); /* waits until the devices have received what they wait for; an error if that fails */
    void (*drop)(void *of);
} lki_bond;

struct lki_device {
    lki_device_kind       kind;
    const char           *name; /* "CPU:0" */
    const lki_device_ops *ops;
    const void           *memory; /* compared for equality */
    void                 *card;   /* of a GPU (gpu/gpu.h) */
};

struct lki_device_ops {
    void *(*alloc)(lki_device *, size_t bytes); /* NULL and an error when there is none */
    void (*release)(lki_device *, void *mem, size_t bytes);
    lk_status (*copy)(lki_device *, void *dst, const void *src, size_t bytes); /* within its memory */
    lk_status (*write)(lki_device *, void *dst, const void *host,
                       size_t bytes); /* from the host's memory, which may be changed when this has returned */
    lk_status (*read)(lki_device *, void *host, const void *src,
                      size_t bytes); /* to the host's memory, after all work submitted to the device */
    lk_status (*peer)(lki_device *, void *dst, lki_device *from, const void *src,
                      size_t bytes); /* from another memory of this kind; NULL: through the host */

    /* Optional functions; NULL: the device does not have them. */
    size_t (*room)(lki_device *);                               /* bytes it could allocate now */
    lk_status (*limit)(lki_device *, size_t bytes);             /* never allocate more than these */
    lk_status (*gather)(lki_device *, const struct lki_pick *); /* batches of rows that lie in its memory (pick.h) */
    void (*words)(lki_device *, char *text, size_t size);       /* a description of the device */

    /* A device whose work has numbers has all three functions. On other devices work is done when the call that submitted it
     * returns. */
    int64_t (*given)(lki_device *); /* the last number */
    bool (*pending)(lki_device *, int64_t work);
    lk_status (*settle)(lki_device *, int64_t work); /* wait for this work and all before it; returns an error they met */

    /* For a device whose work may wait for other devices. `watch` true: from now on a thread that waits for this device first waits
     * for the bond, which must exist until this is called with false. */
    void (*watch)(lki_device *, const lki_bond *, bool watch);
};

#define LKI_ALL_WORK INT64_MAX /* in place of a number: all work submitted so far */

lki_device *lki_device_cpu(void); /* CPU:0 */

/* Logical CPU devices share the memory of the CPU and divide its cores. LOCKSTEP_CPU_DEVICES sets their number; the default is
 * 1. */
enum { LKI_MOST_CPU_DEVICES = 1024 };
int         lki_cpu_devices(void);
lki_device *lki_device_cpu_at(int index);     /* NULL: there is no such device */
void        lki_cpu_devices_raise(int count); /* raise the number of devices to at least count */
void        lki_cpu_devices_fix(void);        /* the user has set the number of devices: it does not change any more */
bool        lki_cpu_devices_fixed(void);

lki_device *lki_device_null(void);

/* The device on which this thread's ops run and its new variables are made. At first the CPU, or the device that LOCKSTEP_DEVICE
 * names, for example GPU:0. */
lki_device *lki_device_current(void);
void        lki_device_set_current(lki_device *device);

static inline bool lki_same_memory(const lki_device *a, const lki_device *b) { return a->memory == b->memory; }

/* True if the host can read and write the device's memory. */
static inline bool lki_on_host(const lki_device *d) { return d->memory == lki_device_cpu()->memory; }

/* Returns the device itself if the host can read and write its memory, else the CPU. */
static inline lki_device *lki_host_of(lki_device *d) { return lki_on_host(d) ? d : lki_device_cpu(); }

/* Returns the device on which a thread, whose current device is `now`, does work for `wanted`. If both are in the host's memory,
 * the thread stays on `now`; otherwise it uses `wanted`. */
static inline lki_device *lki_device_for(lki_device *wanted, lki_device *now)
{
    return lki_on_host(wanted) && lki_on_host(now) ? now : wanted;
}

/* ---- by name (names.c): "GPU:1" is index 1 of type "GPU" ---- */

const char *lki_device_type(const char *text);          /* the type with this name, in upper or lower case; or NULL */
int         lki_device_count(const char *type);         /* NULL: of all types */
lki_device *lki_device_at(const char *type, int index); /* NULL: there is none; type NULL: all types are numbered together */
lki_device *lki_device_named(const char *name);         /* "GPU:1"; NULL: there is none */
const char *lki_device_best_type(void);                 /* for a strategy that names no device */
const char *lki_device_why(const char *type);           /* one line: which devices were found, or how to get more */
lk_status   lki_devices_split(int parts, size_t limit); /* divide each device that can be divided into `parts` logical ones */
void        lki_devices_note(char *text, size_t size);  /* a line about devices that are found at run time */

typedef struct lki_buffer {
    int                refs; /* atomic */
    size_t             bytes;
    lki_device        *device;
    void              *data;
    int64_t            work;    /* the number of its device's work that writes it; 0: this work is done */
    struct lki_buffer *twins;   /* copies in other memories, a list; guarded by a lock of device.c */
    int                held;    /* of a twin: how many callers hold it; under the same lock */
    bool               old;     /* of a twin that is held: the home has changed since it was copied; under the same lock */
    unsigned carried, sleepers; /* of a twin: `carried` says that a thread is copying the home to it; others wait on this word */
} lki_buffer;

lki_buffer *lki_buffer_new(lki_device *device, size_t bytes); /* one reference; NULL and an error when there is no memory */
lki_buffer *lki_buffer_empty(lki_device *device,
                             size_t      bytes); /* makes a buffer without memory: its data is NULL until it gets a block */
lki_buffer *lki_buffer_retain(lki_buffer *b);
void        lki_buffer_drop(lki_buffer *b); /* NULL is ignored */

/* lki_buffer_pending() is true if the work that writes the buffer may still be running. lki_buffer_settle() waits for that work and
 * returns an error that it met. */
static inline bool      lki_buffer_pending(const lki_buffer *b) { return b->work && b->device->ops->pending(b->device, b->work); }
static inline lk_status lki_buffer_settle(const lki_buffer *b)
{
    return b->work ? b->device->ops->settle(b->device, b->work) : LK_OK;
}

/* Returns the address of the bytes for `device`: the home, or a twin, which is made or brought up to date. NULL and an error:
 * there is no memory for a twin. */
void *lki_buffer_at(lki_buffer *b, lki_device *device);

/* To be called when the home was written, or before it is written. No thread may be reading a twin. */
void lki_buffer_changed(lki_buffer *b);

/* lki_buffer_hold() is like lki_buffer_at(), but the address does not change until lki_buffer_let_go() was called for each hold. On
 * the home device these calls have no effect. */
void *lki_buffer_hold(lki_buffer *b, lki_device *device);
void  lki_buffer_let_go(lki_buffer *b, const lki_device *device);

/* Returns a number that grows whenever a held twin of any buffer becomes out of date. */
int64_t lki_buffer_aged(void);

/* Marks a held twin as up to date: work on its device wrote the same new bytes to it as were written to the home. */
void lki_buffer_renewed(lki_buffer *b, const lki_device *device);

/* Makes the twins of `from`, except those that are held, twins of `to`. Both buffers have the same bytes. */
void lki_buffer_hand_over(lki_buffer *to, lki_buffer *from);

/* lki_buffer_write() writes `bytes` bytes of the host to the home, at offset `at`. lki_buffer_read() copies the whole home to the
 * host. */
lk_status lki_buffer_write(lki_buffer *b, size_t at, const void *host, size_t bytes);
lk_status lki_buffer_read(const lki_buffer *b, void *host);

/* Returns the buffer's bytes in memory that the host can read: the home itself, or a copy in *block, which the caller releases.
 * NULL and an error. */
const void *lki_buffer_look(const lki_buffer *b, void **block);

#endif
