/* Objects with a reference count, and the pools and steps that own them.
 *
 *     pool of the library            LK_POOL { }                     LK_STEP { }
 *     (one, any thread)              (a stack per thread)            (a stack per thread)
 *           \_____________ objects: models, variables, kept tensors        \____ tensors and tuples made in the step
 *
 * Invariants
 *  1. An object starts with one reference, held by its owner: the innermost open step for objects of a kind that lives in steps
 *     (LKI_LIVES_IN_STEP), else the innermost open pool of the thread, else the library's pool.
 *  2. Code that keeps a pointer to an object holds a reference (lki_retain, lki_drop). destroy() runs when the last one is dropped;
 *     it drops the references the object itself holds, then the memory returns to lki_release().
 *  3. lk_free() drops the owner's reference early. An object is never in the lists of two owners.
 *  4. A pool or step that ends drops its objects in reverse order of creation.
 *  5. Objects with static storage have a header of zeros and are never counted, owned or destroyed.
 *  6. Safe from any thread, but a pool or step ends on the thread that opened it. */
#ifndef LKI_CORE_OBJECT_H
#define LKI_CORE_OBJECT_H

#include "core/base.h"
#include <lockstep/tensor.h>

typedef struct lki_object lki_object;
typedef struct lki_owner  lki_owner;

typedef enum lki_kind {
    LKI_KIND_TENSOR,
    LKI_KIND_TUPLE,
    LKI_KIND_VARIABLE,
    LKI_KIND_TAPE,
    LKI_KIND_GRADS,
    LKI_KIND_FUNCTION,
    LKI_KIND_OPTIMIZER,
    LKI_KIND_SCHEDULE,
    LKI_KIND_STRATEGY,
    LKI_KIND_CROSS_DEVICE_OPS,
    LKI_KIND_INITIALIZER,
    LKI_KIND_REGULARIZER,
    LKI_KIND_CONSTRAINT,
    LKI_KIND_LAYER,
    LKI_KIND_NODE,
    LKI_KIND_MODEL,
    LKI_KIND_HISTORY,
    LKI_KIND_CALLBACK,
    LKI_KIND_OP,
    LKI_KIND_LOSS,
    LKI_KIND_METRIC,
    LKI_KIND_CHECKPOINT,
    LKI_KIND_RESTORE_STATUS,
    LKI_KIND_RUNTIME,
    LKI_KIND_CHECKPOINT_MANAGER,
    LKI_KIND_OTHER,
} lki_kind;

struct lki_object { /* the first member of every object */
    uint32_t magic; /* 0 for static objects */
    lki_kind kind;
    int      refs;                 /* atomic */
    void (*destroy)(void *object); /* optional */
    lki_owner  *owner;
    lki_object *previous, *next; /* on the owner's list */
};

typedef enum lki_life { LKI_LIVES_IN_STEP, LKI_LIVES_IN_POOL, LKI_LIVES_BY_REFERENCE } lki_life;

/* Zeroed memory with the header filled in. LKI_LIVES_BY_REFERENCE: no owner; the caller holds the one reference. */
void *lki_object_new(size_t bytes, lki_kind kind, lki_life life, void (*destroy)(void *));
void *lki_retain(void *object);      /* returns it; NULL is passed through */
void  lki_drop(void *object);        /* NULL is ignored */
void  lki_object_keep(void *object); /* from its step to the current pool */

/* The pool for new objects of this thread; a thread that works for another one can use that one's pool. NULL: the library's. */
void *lki_pool_current(void);
void  lki_pool_set(void *pool);
/* A step that may be another thread's is over: that thread closes it when it calls the second function, at the latest when it ends.
 * The step must still be open. */
void lki_step_leave_elsewhere(const lki_block *block);
void lki_step_close_left(void);

void lki_pool_close_inside(void *pool); /* those this thread opened since `pool` was its current one */

/* Drop all objects of the library's pool, in reverse order of creation. False: a pool or a step is open on this thread. */
bool lki_library_close(void);

bool lki_is_kind(const void *object, lki_kind kind);

#endif
