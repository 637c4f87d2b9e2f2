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
    lki_mutex     lock; /* for opening, memory and work */
    bool          open;
    lki_gpu_kept *free; /* LKI_GPU_CLASSES lists, made when the card is opened */
    size_t        used, kept;

    /* Work (work.c). */
    int         *stop;        /* in the card's memory; made at first use */
    int         *slot;        /* LKI_GPU_UNSETTLED words that the host and the card can both access; made at first use */
    lki_gpu_job *job;         /* the owner of each work, indexed like the slots; made at first use */
    int64_t      given, done; /* atomic: the last number, and the last one that is known to be done */
    int64_t      bad;         /* the first work that met an error that has not been reported; 0: none */
    int          code;        /* that error */
    lki_gpu_job  bad_job;

    const lki_bond *bond;                     /* atomic; a thread that waits for the card waits for it first; or NULL */
    unsigned char   peer[LKI_GPU_MOST_CARDS]; /* atomic, by card: whether copies from it arrive */
    bool            lost;                     /* atomic; the members below are written once, before it is set */
    int             lost_code;
    char            lost_at[96];
} lki_gpu_state;

static inline lki_gpu_state *lki_gpu_state_of(const lki_device *d) { return d->card; }
lki_gpu_state               *lki_gpu_state_at(int i); /* NULL: there are fewer cards */

lk_status lki_gpu_open(lki_device *d);

/* Call this before waiting for a card that receives bytes from others: the wait ends if one of them fails. */
lk_status lki_gpu_wait_for_bond(lki_device *d);

int64_t   lki_gpu_given(lki_device *d);
bool      lki_gpu_pending(lki_device *d, int64_t work);
lk_status lki_gpu_settle(lki_device *d, int64_t work);
void      lki_gpu_done(lki_device *d, int64_t work); /* the caller has waited for the card since it got this number */

#endif
