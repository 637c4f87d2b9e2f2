/* Models from the inside: layers in a row, the strategy they were made under, and what their last call added to the losses.
 *
 *     MADE -- input_shape given, lk_model_build(), first call --> BUILT: every layer has its weights
 *
 * Invariants
 * 1. The model is built once, as a whole; inside run all replicas meet for it and the variables are made once.
 * 2. Variables belong to the strategy that was current when the model was made; those of a model made under none, to the one it is
 *    built under.
 * 3. What a call adds to the losses belongs to the thread that called, so replicas do not see each other's. */
#ifndef LKI_MODEL_MODEL_H
#define LKI_MODEL_MODEL_H

#include "core/waiting.h"
#include "dist/strategy.h"
#include "model/layer.h"

typedef struct lki_added { /* what the last call on one thread added; written by that thread only */
    const void       *thread;
    lk_tensor       **item; /* references */
    int               count, room;
    struct lki_added *next;
} lki_added;

struct lk_model {
    lki_object   object;
    const char  *name;
    lk_strategy *strategy; /* a reference; NULL: made under none */
    int          count;
    lk_layer   **layer;   /* references, placed */
    bool         built;   /* atomic */
    lk_shape     input;   /* of one row, once built */
    lk_variable *calls;   /* how many training calls there were: what dropout draws by; NULL where no layer draws. A reference */
    lki_added   *added;   /* atomic; grows only */
    lki_waiters  waiting; /* for the variables */
};

static inline bool lki_model_built(const lk_model *m) { return __atomic_load_n(&m->built, __ATOMIC_ACQUIRE); }

/* Make the variables now, wherever this thread is. */
lk_status lki_model_make(lk_model *m, const lk_shape *row);

/* ---- losses of a call (losses.c) ---- */

void lki_model_clear_added(lk_model *m); /* of this thread */
void lki_model_free_added(lk_model *m);  /* of all */

#endif
