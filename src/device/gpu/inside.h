/* A card as gpu.c and work.c know it. */
#ifndef LKI_DEVICE_GPU_INSIDE_H
#define LKI_DEVICE_GPU_INSIDE_H

#include "core/lock.h"
#include "device/gpu/gpu.h"
#include "device/gpu/links.h"

enum { LKI_GPU_CLASSES = 256, LKI_GPU_SMALLEST = 256, LKI_GPU_UNSETTLED = 1024 };

typedef struct lki_gpu_kept { /* freed blocks of one size class */
    void **block;
    int    count, capacity;
} lki_gpu_kept;

typedef struct lki_gpu_state {
    lki_gpu_line  line;
    lki_gpu_card  what;
    lki_mutex     lock; /* of opening, of memory and of work */
    bool          open;
    lki_gpu_kept *free; /* LKI_GPU_CLASSES of them, made when the card is opened */
    size_t        used, kept;

    /* Work (work.c). */
    int         *stop;        /* in the card's memory; made at first need */
    int         *slot;        /* LKI_GPU_UNSETTLED of them, where the host and the card can reach them; likewise */
    lki_gpu_job *job;         /* whose work it is, by number, as slots are; made likewise */
    int64_t      given, done; /* atomic: the last number, and the last that is known to be done */
    int64_t      bad;         /* the first work that met an error which was not told yet; 0: none */
    int          code;        /* that error */
    lki_gpu_job  bad_job;

    const lki_bond *bond;                     /* atomic; a thread that waits for the card waits for it first; or NULL */
    unsigned char   peer[LKI_GPU_MOST_CARDS]; /* atomic, by card: do copies from it arrive? */
    bool            lost;                     /* atomic; what follows is written once, before it */
    int             lost_code;
    char            lost_at[96];
} lki_gpu_state;

static inline lki_gpu_state *lki_gpu_state_of(const lki_device *d) { return d->card; }
lki_gpu_state               *lki_gpu_state_at(int i); /* NULL: there are fewer cards */

lk_status lki_gpu_open(lki_device *d);

/* A thread that waits for a card that others send to waits here first: the wait ends when one of them fails. */
lk_status lki_gpu_wait_for_bond(lki_device *d);

int64_t   lki_gpu_given(lki_device *d);
bool      lki_gpu_pending(lki_device *d, int64_t work);
lk_status lki_gpu_settle(lki_device *d, int64_t work);
void      lki_gpu_done(lki_device *d, int64_t work); /* the card was waited for since this number was given */

#endif
