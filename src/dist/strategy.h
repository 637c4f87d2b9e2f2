/* The internals of strategies, and the context of a thread.
 *
 *     DEFAULT  -- LK_SCOPE / set_strategy -->  CROSS  -- lk_run -->  REPLICA (one thread per replica)
 *                                                ^                      |
 *                                                +---- lk_merge_call ---+        UPDATE: inside lk_extended_update
 *
 * Invariants
 * 1. Exactly one of "in cross-replica context" and "has a replica context" is true on a thread at any moment.
 * 2. The stack of scopes is thread-local; a new thread starts with none. run, reduce and the others enter the scope themselves.
 * 3. Each replica has a device; the order of replicas is that of the devices that the user named. Replicas on CPU devices share
 *    memory, so a mirrored variable has one storage for all of them. */
#ifndef LKI_DIST_STRATEGY_H
#define LKI_DIST_STRATEGY_H

#include "device/device.h"
#include "op/replica.h"
#include <lockstep/strategy.h>

typedef enum lki_strategy_kind { LKI_STRATEGY_DEFAULT, LKI_STRATEGY_ONE_DEVICE, LKI_STRATEGY_MIRRORED } lki_strategy_kind;

/* The context of a replica, for the thread that runs it. The N contexts exist as long as their strategy. */
struct lk_replica_context {
    lki_replica  ops; /* first: the part that op/ uses */
    lk_strategy *strategy;
    lki_device  *device;
    const char  *name;      /* of the device */
    char         words[96]; /* before each error message: "replica 1 of 2 on CPU:1: " */
};

struct lk_strategy {
    lki_object               object;
    lki_strategy_kind        kind;
    int                      replicas; /* N */
    int                      lanes;    /* V */
    lk_order                 order;
    lki_precision            precision; /* the precision of this strategy; LKI_PRECISIONS: that of the runtime is used */
    lki_device             **device;    /* by replica; devices exist as long as the process */
    lk_names                 names;     /* canonical */
    lk_replica_context      *context;   /* by replica */
    lk_cross_device_ops     *cross;     /* a reference */
    lk_communication_options communication;
    char                     text[32]; /* "MirroredStrategy" and a number, for messages */
};

bool lki_is_strategy(const void *s);

/* ---- contexts ---- */

typedef enum lki_context_kind { LKI_CONTEXT_DEFAULT, LKI_CONTEXT_CROSS, LKI_CONTEXT_REPLICA, LKI_CONTEXT_UPDATE } lki_context_kind;

typedef struct lki_replica_run lki_replica_run;

typedef struct lki_context { /* what a thread saves and restores around a change */
    lki_context_kind    kind;
    lk_strategy        *strategy;  /* NULL: none */
    lk_replica_context *replica;   /* REPLICA */
    lki_replica_run    *run;       /* REPLICA, if there are several: the run in which they meet */
    int                 component; /* UPDATE: the index of the component that is updated */
    lki_device         *device;    /* the thread's current device, which is restored with the context */
} lki_context;

lki_context lki_context_now(void);
lki_context lki_context_enter(lki_context to); /* returns the context before */
void        lki_context_restore(const lki_context *before);

static inline lki_context lki_context_cross(lk_strategy *s)
{
    return lki_context_enter(
        (lki_context){.kind = s->kind == LKI_STRATEGY_DEFAULT ? LKI_CONTEXT_DEFAULT : LKI_CONTEXT_CROSS, .strategy = s});
}

/* LK_OK if `call` is allowed here for strategy s: it needs cross-replica or default context, and no scope of another strategy. Else
 * LK_ESTATE and an error that says what to do instead. */
lk_status lki_need_cross(const char *call, const lk_strategy *s);

/* Enters the context in which variables are made as the strategy that owns `v` makes them (for slots of an optimiser). If no
 * strategy owns it, or in replica context, the context does not change. Returns the context before. */
lki_context lki_context_of_variable(const lk_variable *v);

/* For a thread that acts for all replicas: sets the replica whose values ops compute now. End with lki_replica_set(NULL). */
static inline void lki_on_replica(lk_strategy *s, int r) { lki_replica_set(&s->context[r].ops); }

/* ---- variables (variable.c) ---- */

lki_variable_hook lki_mirror_variable;
lk_status  lki_replica_update(lki_replica *self, lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_variable *v);
lk_tensor *lki_replica_read(lki_replica *self, lk_variable *v);
lk_variable *lki_replica_create(lki_replica *self, const lk_variable_args *args);

/* ---- meeting (run.c) ---- */

/* Every replica of this thread's run calls this, and passes its value `mine`. When all have arrived, fn runs once, on replica 0's
 * thread, in cross-replica context, with all values in the order of replicas. Then all replicas continue with its status. `call`
 * and `detail` (may be NULL) must be the same on all replicas: if a replica arrives for a different call, or returns, all fail
 * with an error that names both. */
typedef lk_status lki_meeting_fn(lk_strategy *s, int count, void *const *everyones, void *first);
lk_status         lki_meet(const char *call, const char *detail, lki_meeting_fn *fn, void *mine);

/* The same with a deadline; 0: that of the strategy. LK_EDEADLINE and an error that names the call if not all replicas have arrived
 * by then. */
lk_status lki_meet_within(const char *call, const char *detail, double seconds, lki_meeting_fn *fn, void *mine);

/* Returns a new tensor of this thread, with the value of a tensor that another replica's thread made. */
lk_tensor *lki_own(lk_tensor *t);

/* ---- sums over replicas (combine.c) ---- */

/* Computes, from one value per replica, the sum that one device would compute (total.c). The values must be linear in sums over
 * rows; NULL: they are not. */
lk_tensor *lki_total(int count, lk_tensor *const *items);

/* If the values of all replicas have the same bits, returns `equal` times the value, else `differ` times their sum. */
lk_tensor *lki_agreed(int count, lk_tensor *const *items, double equal, double differ);

/* Returns the sum (or mean) of one value per replica. It has the bits of one device if the values are linear in sums over rows.
 * `cross` (NULL: the strategy's) determines the order in which other values are added. Errors name `call`. */
lk_tensor *lki_combine(const char *call, lk_strategy *s, lk_cross_device_ops *cross, bool mean, int count, lk_tensor *const *items);

lk_tensor *lki_replica_all_reduce(lki_replica *self, bool mean, lk_tensor *x);
lk_tensor *lki_replica_all_gather(lki_replica *self, int axis, lk_tensor *x);

/* Returns replica r's element of a per-replica value, and any other value unchanged. It does this inside nests too. */
lk_tensor *lki_select(lk_tensor *t, int r);

/* LK_OK if all per-replica values in t have as many replicas as s. Else LK_EINVAL and an error that begins with `call` and `what`
 * (of number `i`). */
lk_status lki_check_replicas(const char *call, const char *what, int i, const lk_strategy *s, const lk_tensor *t);

/* The same as lk_gather_values(), but errors name `call`. */
lk_tensor *lki_gather_values(const char *call, lk_strategy *s, lk_tensor *value, int axis);

/* Joins the values of all replicas along an axis. Errors name `call` and the replica. */
lk_tensor *lki_join(const char *call, int count, lk_tensor *const *items, int axis);

/* Makes a per-replica value of one value per replica. If all are the same tensor object, returns this tensor. */
lk_tensor *lki_regroup(lk_strategy *s, int count, lk_tensor *const *items, const char *call);

#endif
