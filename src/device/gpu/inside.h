/* A card as gpu.c and work.c know it.
 *
 * Invariants
 *  1. `lock` guards the lists of blocks and the numbers of works. No function of the backend is called while it is held: most of
 *     them may wait for the card.
 *  2. What waits for the card, and is done once or by one thread at a time, has the card's turn: opening it, trying copies from
 *     another card, making the words of works, and returning blocks to it. Other threads may allocate from the lists meanwhile.
 *  3. Blocks that are being returned are in no list. A thread that finds no room on the card takes the turn and asks again. */
#ifndef LKI_DEVICE_GPU_INSIDE_H
#define LKI_DEVICE_GPU_INSIDE_H

#include "core/freelist.h"
#include "core/lock.h"
#include "device/gpu/gpu.h"
#include "device/gpu/links.h"

enum { LKI_GPU_UNSETTLED = 1024 };

typedef struct lki_gpu_state {
    lki_gpu_line line;
    lki_gpu_card what;
    lki_turn     turn;
    bool         open; /* atomic */

    lki_mutex       lock; /* for what follows, as far as it is not atomic */
    lki_free_lists  kept;
    lki_free_block *spare; /* as many as there are blocks in use (gpu.c) */
    size_t          used;

    /* Work (work.c). */
    int         *stop;        /* atomic; in the card's memory; made at first use */
    int         *slot;        /* LKI_GPU_UNSETTLED words that the host and the card can both access; made at first use */
    lki_gpu_job *job;         /* the owner of each work, indexed like the slots; made when the card is opened */
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
lk_status lki_gpu_wait_for_bond(lki_gpu_state *c);

int64_t   lki_gpu_given(lki_device *d);
bool      lki_gpu_pending(lki_device *d, int64_t work);
lk_status lki_gpu_settle(lki_device *d, int64_t work);
void      lki_gpu_done(lki_device *d, int64_t work); /* the caller has waited for the card since it got this number */

#endif
