/* Those who wait until an object is built: restored values whose variables do not exist yet (model/restore.c).
 *
 *     an object that builds itself later    has an lki_waiters, tells them once all its parts are there, and lets them go
 *     whoever waits                         is an object that begins with an lki_waiting
 *
 * Invariants
 * 1. The object holds a reference to each of them until it is built or gone; they hold none to it.
 * 2. They are told in the order they came, before anybody else sees what was built. The first error is the error of the build. */
#ifndef LKI_CORE_WAITING_H
#define LKI_CORE_WAITING_H

#include "core/object.h"

typedef struct lki_waiting lki_waiting;
struct lki_waiting {
    lki_object object;
    lk_status (*built)(lki_waiting *self, void *object);
};

typedef struct lki_waiters {
    int           count, room;
    lki_waiting **item;
} lki_waiters;

lk_status lki_waiters_add(lki_waiters *w, lki_waiting *one); /* takes over the reference when it succeeds */
lk_status lki_waiters_tell(lki_waiters *w, void *object);    /* on success they are let go, else all stay */
void      lki_waiters_remove_last(lki_waiters *w);           /* the one that was added last has changed its mind */
void      lki_waiters_free(lki_waiters *w);

#endif
