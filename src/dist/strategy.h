/* Strategies from the inside, and what a thread is to one.
 *
 *     DEFAULT  -- LK_SCOPE / set_strategy -->  CROSS  -- lk_run -->  REPLICA (one thread per replica)
 *                                                ^                      |
 *                                                +---- lk_merge_call ---+        UPDATE: inside lk_extended_update
 *
 * Invariants
 * 1. Exactly one of "in cross-replica context" and "has a replica context" is true on a thread at any moment.
 * 2. The stack of scopes is thread-local; a new thread starts with none. run, reduce and the others enter the scope themselves.
 * 3. Replicas are devices in the order given. CPU replicas share memory, so a mirrored variable has one storage for all of them. */
#ifndef LKI_DIST_STRATEGY_H
#define LKI_DIST_STRATEGY_H

#include "device/device.h"
#include "op/replica.h"
#include <lockstep/strategy.h>

typedef enum lki_strategy_kind { LKI_STRATEGY_DEFAULT, LKI_STRATEGY_ONE_DEVICE, LKI_STRATEGY_MIRRORED } lki_strategy_kind;

struct lk_strategy {
    lki_object               object;
    lki_strategy_kind        kind;
    int                      replicas; /* N */
    int                      lanes;    /* V */
    lk_order                 order;
    lki_device             **device; /* by replica; they live as long as the process */
    lk_names                 names;  /* canonical, likewise */
    lk_cross_device_ops     *cross;  /* a reference */
    lk_communication_options communication;
    char                     text[32]; /* "MirroredStrategy" and a number, for messages */
};

bool lki_is_strategy(const void *s);

/* ---- contexts ---- */

typedef enum lki_context_kind { LKI_CONTEXT_DEFAULT, LKI_CONTEXT_CROSS, LKI_CONTEXT_REPLICA, LKI_CONTEXT_UPDATE } lki_context_kind;

typedef struct lki_context { /* what a thread saves and puts back around a change */
    lki_context_kind    kind;
    lk_strategy        *strategy;
    lk_replica_context *replica;
    int                 update; /* which component */
    lki_replica        *ops;
    lki_variable_hook  *hook;
} lki_context;

lki_context lki_context_now(void);
lki_context lki_context_enter(lki_context_kind kind, lk_strategy *s, lk_replica_context *replica); /* returns the one before */
void        lki_context_restore(const lki_context *before);

/* May `call` be made here, for strategy s? It needs cross-replica or default context, and no other strategy's scope. LK_ESTATE and an error that says what
 * to do instead. */
lk_status lki_need_cross(const char *call, const lk_strategy *s);

/* Make variables as the strategy that owns `v` would (slots of an optimiser), or as here when none does. */
lki_context lki_context_of_variable(const lk_variable *v);

/* ---- variables (variable.c) ---- */

lki_variable_hook lki_mirror_variable;
lk_status         lki_replica_update(lki_replica *self, lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_variable *v);
lk_tensor        *lki_replica_read(lki_replica *self, lk_variable *v);
lk_variable      *lki_replica_create(lki_replica *self, const lk_variable_args *args);

/* ---- meeting (run.c) ---- */

/* All replicas of this thread's run deposit `mine`; when all are here fn runs once, on replica 0's thread, in cross-replica context, with what each brought, in replica order; then
 * all go on with its status. `call` and `detail` (may be NULL) must be the same everywhere: a replica that came for something else, or went home, makes all fail with an error
 * that names both. */
typedef lk_status lki_meeting_fn(lk_strategy *s, int count, void *const *everyones, void *first);
lk_status lki_meet(const char *call, const char *detail, lki_meeting_fn *fn, void *mine);

/* ---- sums over replicas (combine.c) ---- */

/* The sum (or mean) over the replicas of one value each has; exact where parts are known. `cross` says in which order the others are added. */
lk_tensor *lki_combine(lk_strategy *s, lk_cross_device_ops *cross, bool mean, int count, lk_tensor *const *items);

/* One element of a per-replica value for replica r; anything else as it is. Nests are gone through. */
lk_tensor *lki_select(lk_tensor *t, int r);

/* The other way: one value out of one per replica. The very same tensor everywhere stays itself. */
lk_tensor *lki_regroup(lk_strategy *s, int count, lk_tensor *const *items, const char *call);

#endif
