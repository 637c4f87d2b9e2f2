/* The state of a fit, as bytes beside its checkpoint, and how to resume from it: in the middle of an epoch, on the next batch, with
 * the losses, metrics and callbacks as they were. Weights, slots, counters of iterations and of random numbers are in the
 * checkpoint.
 *
 *     offset  size  meaning of the text under LKI_RESUME_KEY
 *          0     8  "LKRESUM1"
 *          8     4  masked CRC-32C of all that follows
 *         12     n  fields of a message, as of protocol buffers (resume.c)
 *
 * Invariants
 * 1. A state is saved only at rest: no step runs, and every callback has handled the last event and none the next.
 * 2. Nothing in it depends on the number of replicas or threads.
 * 3. A loader trusts no number in it. A failure leaves the run unchanged or ends it with an error. */
#ifndef LKI_FIT_RESUME_H
#define LKI_FIT_RESUME_H

#include "fit/engine.h"
#include "format/file.h"
#include "format/wire.h"

#define LKI_RESUME_KEY "_LOCKSTEP_RESUME"

typedef struct lki_fit_place {
    int     epoch;  /* from 0 */
    int64_t batch;  /* steps of it that were done */
    bool    within; /* the epoch has begun, and its counts and iterator continue. Else it is the next to begin */
} lki_fit_place;

/* A saved state that was read but not applied yet. Zeroed: none. */
typedef struct lki_resume {
    lki_bytes     bytes; /* the wires point into it; data NULL: there is none */
    char         *from;  /* the checkpoint, for messages */
    lki_wire      message;
    lki_fit_place place;
    int64_t       steps;    /* done in all */
    int64_t       replicas; /* when it was saved */
    uint64_t      seed;
    bool          over; /* training had finished */
} lki_resume;

/* A running fit. */
struct lki_fit_run {
    lki_engine       *engine;
    lki_fit_data      train, validation; /* validation.dataset NULL: none */
    lki_callback_list callbacks;
    lki_happening     now;
    lk_history       *history;
    lk_iterator      *iterator; /* a reference; NULL: the next epoch begins a new one */
    lki_fit_place     place;    /* at rest: where a resumed run would continue */
    int64_t           before;   /* steps of the runs that it resumes */
    bool              over;     /* a callback ended training because there is nothing more to gain */
    bool              told_nan; /* the warning of a loss that is not finite was given */
    lki_resume        resume;   /* the state that a callback found to resume from */
};

/* Append the state of the fit to `out`, framed and with a checksum. */
lk_status lki_resume_save(const lki_fit_run *r, lki_sink *out);

/* Read the frame and the place. Takes ownership of the bytes on success; `from` is copied. */
lk_status lki_resume_open(const char *from, lki_bytes *bytes, lki_resume *out);
void      lki_resume_free(lki_resume *r);

/* Load callbacks, history, counts and iterator from r->resume. Call it after train_begin. */
lk_status lki_resume_apply(lki_fit_run *r);

#endif
