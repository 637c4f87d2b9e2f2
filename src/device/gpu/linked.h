/* Cards that are linked: the links of a backend (links.h), chosen, tried, watched, and given up together.
 *
 * Invariants
 * 1. Links belong to an owner, a strategy, and a list of cards: who asks again gets the same. They go when the owner is gone and
 *    nobody uses them.
 * 2. The ways are tried in the order of lki_gpu_way. One counts only when a self-test has shown that bytes arrive; why another
 *    was not taken is told in one line.
 * 3. Whoever waits for a card with an exchange before it watches the links meanwhile. After an error, or when the deadline has
 *    passed, all cards are released and nothing more is exchanged: everybody who asks is told the same cause. */
#ifndef LKI_DEVICE_GPU_LINKED_H
#define LKI_DEVICE_GPU_LINKED_H

#include "device/gpu/gpu.h"
#include "device/gpu/links.h"

typedef struct lki_linked lki_linked;

typedef struct lki_linked_args {
    const void        *owner; /* to compare with */
    int                count;
    lki_device *const *device;  /* on different cards */
    double             seconds; /* to wait for a card; 0: for ever */
    bool               no_nccl; /* somebody asked for another way */
} lki_linked_args;

/* A reference; NULL and an error. */
lki_linked *lki_linked_open(lki_linked_args args);
bool        lki_linked_hold(lki_linked *l); /* one more reference, unless the last one is gone already */
void        lki_linked_drop(lki_linked *l); /* NULL is ignored */
void        lki_linked_forget(const void *owner);

/* Several transfers as one; can sums be among them? begin: beside what the cards do next. It is done when the next exchange is, and
 * the transfers stay as they are until then. */
lk_status lki_linked_exchange(lki_linked *l, int count, const lki_gpu_transfer *transfers);
lk_status lki_linked_begin(lki_linked *l, int count, const lki_gpu_transfer *transfers);
bool      lki_linked_sums(const lki_linked *l);

/* Until all work of all its cards is done that came with an exchange, or that they gave together as this says. */
lk_status lki_linked_wait(lki_linked *l);
void      lki_linked_gave(lki_linked *l);

lki_gpu_way lki_linked_way(const lki_linked *l);

/* One line about NCCL for the first backend: which, or why there is none; "" where there are no cards. */
const char *lki_nccl_words(bool *found);

#endif
