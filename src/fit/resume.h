/* Where a fit is, as bytes beside its checkpoint, and going on from there: in the middle of an epoch, with the losses and metrics
 * counted so far, on the batch that is due, with callbacks as they were. Weights, slots, counters of iterations and of random
 * numbers are in the checkpoint.
 *
 *     offset  size  meaning of the text under LKI_RESUME_KEY
 *          0     8  "LKRESUM1"
 *          8     4  masked CRC-32C of all that follows
 *         12     n  fields of a message, as of protocol buffers (resume.c)
 *
 * Invariants
 * 1. What is saved is saved at rest: no step runs, every callback has been told of the last event, and none of the next.
 * 2. Nothing in it depends on the number of replicas or threads.
 * 3. A loader trusts no number of it; what fails leaves the run as it was before, or ends it with an error. */
#ifndef LKI_FIT_RESUME_H
#define LKI_FIT_RESUME_H

#include "fit/engine.h"
#include "format/file.h"
#include "format/wire.h"

#define LKI_RESUME_KEY "_LOCKSTEP_RESUME"

typedef struct lki_fit_place {
    int     epoch;  /* from 0 */
    int64_t batch;  /* steps of it that are done */
    bool    within; /* it has begun: its counts and its iterator go on. Else it is the next one to begin */
} lki_fit_place;

/* What was saved, read but not used yet. Zeroed: nothing. */
typedef struct lki_resume {
    lki_bytes     bytes; /* the wires point into it; data NULL: there is none */
    char         *from;  /* the checkpoint, for messages */
    lki_wire      message;
    lki_fit_place place;
    int64_t       steps;    /* done in all */
    int64_t       replicas; /* it was saved with */
    uint64_t      seed;
    bool          over; /* training had come to its end */
} lki_resume;

/* A fit as it runs. */
struct lki_fit_run {
    lki_engine       *engine;
    lki_fit_data      train, validation; /* validation.dataset NULL: none */
    lki_callback_list callbacks;
    lki_happening     now;
    lk_history       *history;
    lk_iterator      *iterator; /* a reference; NULL: the next epoch begins a new one */
    lki_fit_place     place;    /* at rest: where it would go on */
    int64_t           before;   /* steps of the runs it goes on from */
    bool              over;     /* there is no more to gain: a callback said so */
    bool              told_nan; /* once is enough */
    lki_resume        resume;   /* what a callback found to go on from */
};

/* Its state, framed and checksummed, behind what is in `out`. */
lk_status lki_resume_save(const lki_fit_run *r, lki_sink *out);

/* Read the frame and the place. Takes the bytes over when it succeeds; `from` is copied. */
lk_status lki_resume_open(const char *from, lki_bytes *bytes, lki_resume *out);
void      lki_resume_free(lki_resume *r);

/* The run goes on at r->resume: callbacks, history, counts, iterator. After train_begin was told. */
lk_status lki_resume_apply(lki_fit_run *r);

#endif
