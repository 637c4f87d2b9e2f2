/* Objects that wait until another object is built: restored values whose variables do not exist yet (model/restore.c).
 *
 *     an object that builds itself later    has an lki_waiters. Once all its parts exist it calls them and drops them
 *     an object that waits                  begins with an lki_waiting
 *
 * Invariants
 *  1. The object holds a reference to each waiter until it is built or destroyed; waiters hold none to it.
 *  2. Waiters are called in the order in which they were added, before other code sees what was built. The first error is the error
 *     of the build. */
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

lk_status lki_waiters_add(lki_waiters *w, lki_waiting *one); /* takes over the reference if it succeeds */
lk_status lki_waiters_tell(lki_waiters *w, void *object);    /* on success they are dropped, else all stay */
void      lki_waiters_remove_last(lki_waiters *w);           /* undoes the last lki_waiters_add */
void      lki_waiters_free(lki_waiters *w);

#endif
