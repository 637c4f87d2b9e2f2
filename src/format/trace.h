/* Traces: spans of time per thread, recorded while a trace is on, and written in Chrome's trace format.
 *
 *     int64_t began = lki_span_begin();                       0 if tracing is off: then the end is only a comparison
 *     ...
 *     lki_span_end(began, LKI_SPAN_INPUT, "next", -1);
 *
 * Invariants
 *  1. Each thread writes to a separate list; lists are only read after tracing has ended. A full list drops further spans, which
 *     the file reports.
 *  2. Names must exist as long as the process. */
#ifndef LKI_FORMAT_TRACE_H
#define LKI_FORMAT_TRACE_H

#include "core/base.h"
#include <lockstep/error.h>

typedef enum lki_span_kind {
    LKI_SPAN_COMPUTE,
    LKI_SPAN_COMMUNICATION,
    LKI_SPAN_INPUT,
    LKI_SPAN_STEP,
    LKI_SPAN_PREPARE,
    LKI_SPAN_KINDS
} lki_span_kind;

extern int lki_tracing; /* atomic: 1 while a trace is recorded */

int64_t lki_span_begin(void);

/* `lane`: the lane of the batch, which determines the replica; -1: none. */
void lki_span_end(int64_t began, lki_span_kind kind, const char *name, int lane);

/* Set how many replicas share how many lanes from now on: this determines the replica that a lane is shown under. */
void lki_trace_replicas(int replicas, int lanes);

/* Name of this thread in the picture; it is copied. */
void lki_trace_thread(const char *name);

/* ---- when it is over ---- */

typedef struct lki_span {
    int64_t     began, ended;
    const char *name;
    int16_t     lane, replica; /* -1: none */
    uint8_t     kind;
} lki_span;

lk_status lki_trace_stop(void);
void      lki_trace_go_on(void); /* continue as if it had not been stopped */

/* All spans of the last trace, thread by thread; returns how many were dropped. */
typedef void lki_span_fn(const lki_span *s, int thread, const char *thread_name, void *user);
int64_t      lki_trace_each(lki_span_fn *fn, void *user);
int          lki_trace_replica_count(void);
int64_t      lki_trace_zero(void); /* when it began */

#endif
