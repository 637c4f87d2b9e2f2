/* Listeners to ops on this thread: recorders (tapes, any number) and one tracer (a function being traced). op/ calls them only
 * through these tables of functions. */
#ifndef LKI_OP_RECORD_H
#define LKI_OP_RECORD_H

#include "op/infer.h"

typedef struct lki_recorder lki_recorder;
struct lki_recorder {
    void (*op)(lki_recorder *self, const lki_infer *f, lk_tensor *const *dst); /* after an op was applied */
    void (*read)(lki_recorder *self, lk_variable *v, lk_tensor *value);        /* after a variable was read */
    lki_recorder *outer;
};

typedef struct lki_tracer lki_tracer;
struct lki_tracer {
    lk_status (*op)(lki_tracer *self, const lki_infer *f, lk_tensor **dst); /* instead of running: fill in traced tensors */
    lk_status (*update)(lki_tracer *self, const lki_infer *f);
    lk_tensor *(*read)(lki_tracer *self, lk_variable *v);
    bool (*same)(lki_tracer *self, lk_tensor *a, lk_tensor *b); /* whether they have the same elements for all inputs */
    bool roots; /* replicas stay apart: sums over lanes that are not one subtree are also made per subtree (origin.c) */
};

void          lki_recorder_push(lki_recorder *r);
void          lki_recorder_remove(lki_recorder *r);
lki_recorder *lki_recorders(void); /* innermost first */

void        lki_tracer_set(lki_tracer *t); /* NULL ends tracing */
lki_tracer *lki_tracer_current(void);

/* While paused, nothing is recorded on this thread (initial values, numerical checks). Nests. */
void lki_recording_pause(void);
void lki_recording_resume(void);

/* Start without recorders on this thread, and restore the previous ones; recorders added in between that still exist are
 * removed. */
typedef struct lki_listeners {
    lki_recorder *recorders;
    int           paused;
} lki_listeners;
lki_listeners lki_listeners_leave(void);
void          lki_listeners_return(const lki_listeners *before);

#endif
