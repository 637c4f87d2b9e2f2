/* Devices: memory and copies. The CPU is always there; GPUs are found at run time (gpu/gpu.c); `null` has memory but no arithmetic,
 * for testing everything above it.
 *
 * Invariants
 * 1. A device is one of a fixed set made at start-up of its backend and lives as long as the process.
 * 2. Devices of one `memory` reach each other's buffers: the logical CPU devices of the machine, the logical GPUs of a card.
 * 3. A buffer is a block of one device's memory, its home, with a reference count; the block goes with the last reference. Copies
 *    of it in other memories, its twins, are made when somebody there asks (lki_buffer_at), are as new as the home, and go with it.
 *    Whoever changes the home says so (lki_buffer_changed), and they are forgotten.
 * 4. A twin that somebody holds (lki_buffer_hold) is not forgotten but out of date, and brought up to date in place when somebody
 *    asks: its address stays.
 * 5. A device may do its work after the call that gave it. Such work has a number, and a buffer knows the number of the work that
 *    writes it: until that is done the buffer is pending. Copying it to another memory settles it (lki_buffer_settle): waits for
 *    the work, and fails with the error the work met. */
#ifndef LKI_DEVICE_H
#define LKI_DEVICE_H

#include "core/error.h"

typedef enum lki_device_kind { LKI_DEVICE_CPU, LKI_DEVICE_NULL, LKI_DEVICE_GPU } lki_device_kind;

typedef struct lki_device     lki_device;
typedef struct lki_device_ops lki_device_ops;
struct lki_kernels;
struct lki_pick;

/* Devices whose work waits for each other, as those that carry bytes between them see it (comm/comm.h). Compared by address. */
typedef struct lki_bond {
    void *of;
    bool (*hold)(void *of);      /* one more reference; false: the last one is gone */
    lk_status (*wait)(void *of); /* until what they wait for has come; an error if it does not come */
    void (*drop)(void *of);
} lki_bond;

struct lki_device {
    lki_device_kind       kind;
    const char           *name; /* "CPU:0" */
    const lki_device_ops *ops;
    const void           *memory; /* to compare */
    void                 *card;   /* of a GPU (gpu/gpu.h) */
};

struct lki_device_ops {
    void *(*alloc)(lki_device *, size_t bytes); /* NULL and an error when there is none */
    void (*release)(lki_device *, void *mem, size_t bytes);
    lk_status (*copy)(lki_device *, void *dst, const void *src, size_t bytes); /* within its memory */
    lk_status (*write)(lki_device *, void *dst, const void *host,
                       size_t bytes); /* from the host's memory; it is read when this returns */
    lk_status (*read)(lki_device *, void *host, const void *src,
                      size_t bytes); /* to it, when all work given to the device is done */
    lk_status (*peer)(lki_device *, void *dst, lki_device *from, const void *src,
                      size_t bytes); /* from another memory of this kind; NULL: through the host */

    /* What some devices can do beside that; NULL: this one cannot. */
    size_t (*room)(lki_device *);                               /* bytes it could give now */
    lk_status (*limit)(lki_device *, size_t bytes);             /* never have more than these */
    lk_status (*gather)(lki_device *, const struct lki_pick *); /* batches of rows that lie in its memory (pick.h) */
    void (*words)(lki_device *, char *text, size_t size);       /* what it is */

    /* Of a device whose work has numbers, all three; without them its work is done when the call that gave it returns. */
    int64_t (*given)(lki_device *); /* the last number */
    bool (*pending)(lki_device *, int64_t work);
    lk_status (*settle)(lki_device *, int64_t work); /* wait for this work and what was given before it; an error they met */

    /* Of a device whose work may wait for other devices: from now on a thread that waits for this one waits for the bond first, or
     * no longer does. The bond stays valid until then. */
    void (*watch)(lki_device *, const lki_bond *, bool watch);
};

#define LKI_ALL_WORK INT64_MAX /* in place of a number: whatever was given so far */

lki_device *lki_device_cpu(void); /* CPU:0 */

/* Logical CPU devices: they share the memory, and divide the cores, of the one CPU. LOCKSTEP_CPU_DEVICES, 1 by default. */
enum { LKI_MOST_CPU_DEVICES = 1024 };
int         lki_cpu_devices(void);
lki_device *lki_device_cpu_at(int index);     /* NULL: there is no such one */
void        lki_cpu_devices_raise(int count); /* have at least so many */
void        lki_cpu_devices_fix(void);        /* so many and no more: the user said so */
bool        lki_cpu_devices_fixed(void);

lki_device *lki_device_null(void);

/* Where this thread's ops run and its new variables go; at first the CPU, or what LOCKSTEP_DEVICE names, as GPU:0. */
lki_device *lki_device_current(void);
void        lki_device_set_current(lki_device *device);

static inline bool lki_same_memory(const lki_device *a, const lki_device *b) { return a->memory == b->memory; }

/* Can the host read and write its memory? */
static inline bool lki_on_host(const lki_device *d) { return d->memory == lki_device_cpu()->memory; }

/* The device itself, if the host can read and write its memory, else the CPU. */
static inline lki_device *lki_host_of(lki_device *d) { return lki_on_host(d) ? d : lki_device_cpu(); }

/* Where a thread at `now` works for `wanted`: there, but memory of the host is one place, which a thread need not leave. */
static inline lki_device *lki_device_for(lki_device *wanted, lki_device *now)
{
    return lki_on_host(wanted) && lki_on_host(now) ? now : wanted;
}

/* ---- by name (names.c): "GPU:1" is index 1 of type "GPU" ---- */

const char *lki_device_type(const char *text);          /* the type that is called so, in any case of letters; or NULL */
int         lki_device_count(const char *type);         /* NULL: of all types */
lki_device *lki_device_at(const char *type, int index); /* NULL: there is none; type NULL: those of all types in one row */
lki_device *lki_device_named(const char *name);         /* "GPU:1"; NULL: there is none */
const char *lki_device_best_type(void);                 /* what a strategy gets that names no device */
const char *lki_device_why(const char *type);           /* one line: what was found, or how to have more */
lk_status   lki_devices_split(int parts, size_t limit); /* every device that can be cut becomes so many logical ones */
void        lki_devices_note(char *text, size_t size);  /* a line about devices that were looked for at run time */

typedef struct lki_buffer {
    int                refs; /* atomic */
    size_t             bytes;
    lki_device        *device;
    void              *data;
    int64_t            work;              /* the number of the work of its device that writes it; 0: it is written */
    struct lki_buffer *twins;             /* copies in other memories, a list; guarded by a lock of device.c */
    int                held;              /* of a twin: by how many; likewise */
    bool               old;               /* of a twin that is held: the home has changed since; likewise */
    unsigned           carried, sleepers; /* of a twin: a thread is copying the home to it; others wait on this word */
} lki_buffer;

lki_buffer *lki_buffer_new(lki_device *device, size_t bytes);   /* one reference; NULL and an error when there is no memory */
lki_buffer *lki_buffer_empty(lki_device *device, size_t bytes); /* without memory: its data is NULL until it is given a block */
lki_buffer *lki_buffer_retain(lki_buffer *b);
void        lki_buffer_drop(lki_buffer *b); /* NULL is ignored */

/* Is the work that writes it not known to be done? Settling waits for it; an error the work met is this call's. */
static inline bool      lki_buffer_pending(const lki_buffer *b) { return b->work && b->device->ops->pending(b->device, b->work); }
static inline lk_status lki_buffer_settle(const lki_buffer *b)
{
    return b->work ? b->device->ops->settle(b->device, b->work) : LK_OK;
}

/* Where its bytes are for `device`: at home, or in a twin as new as the home. NULL and an error when there is no memory for one. */
void *lki_buffer_at(lki_buffer *b, lki_device *device);

/* The home was, or is about to be, written. Nobody may be reading a twin. */
void lki_buffer_changed(lki_buffer *b);

/* The same as lki_buffer_at, and it stays there until as many let it go as held it. At home nothing is to be held. */
void *lki_buffer_hold(lki_buffer *b, lki_device *device);
void  lki_buffer_let_go(lki_buffer *b, const lki_device *device);

/* A number that grows whenever a held twin of any buffer gets out of date. */
int64_t lki_buffer_aged(void);

/* A held twin was given the same new bytes as the home, by work on its own device. */
void lki_buffer_renewed(lki_buffer *b, const lki_device *device);

/* Twins of one buffer, but those that are held, become those of another with the same bytes. */
void lki_buffer_hand_over(lki_buffer *to, lki_buffer *from);

/* The home becomes `bytes` bytes of the host's, from byte `at` on; and all of it is copied to the host. */
lk_status lki_buffer_write(lki_buffer *b, size_t at, const void *host, size_t bytes);
lk_status lki_buffer_read(const lki_buffer *b, void *host);

/* All of it for the host, as it is now: at home, or in a block that the caller releases. NULL and an error. */
const void *lki_buffer_look(const lki_buffer *b, void **block);

#endif
