/* The internals of callbacks: an object and a table of what it does at each event.
 *
 * Order of the calls in fit: train_begin, then per epoch: epoch_begin, (train_batch_begin, train_batch_end) for each execution,
 * [test_begin, (test_batch_begin, test_batch_end)..., test_end], epoch_end; train_end. Within an event callbacks are called in the
 * order given to fit; the progress display comes first, the history last. train_end is also called when training fails, so that
 * files are closed. The same holds for test_end and predict_end outside of fit.
 *
 * A hook that returns an error ends training; the hook has reported it (lki_fail). */
#ifndef LKI_FIT_CALLBACK_H
#define LKI_FIT_CALLBACK_H

#include "core/error.h"
#include "core/object.h"
#include "fit/state.h"
#include <lockstep/fit.h>

#define LKI_HOOK_LIST(X)                                                                                                           \
    X(train_begin)                                                                                                                 \
    X(train_end)                                                                                                                   \
    X(epoch_begin)                                                                                                                 \
    X(epoch_end)                                                                                                                   \
    X(train_batch_begin)                                                                                                           \
    X(train_batch_end)                                                                                                             \
    X(test_begin)                                                                                                                  \
    X(test_end)                                                                                                                    \
    X(test_batch_begin)                                                                                                            \
    X(test_batch_end)                                                                                                              \
    X(predict_begin)                                                                                                               \
    X(predict_end)                                                                                                                 \
    X(predict_batch_begin)                                                                                                         \
    X(predict_batch_end)
#define LKI_HOOK_ENUM(name) LKI_HOOK_##name,
typedef enum lki_hook { LKI_HOOK_LIST(LKI_HOOK_ENUM) LKI_HOOKS } lki_hook;
#undef LKI_HOOK_ENUM

/* Logs that grow: names are copied. Zero it before use. Values that callbacks add to the logs of an epoch go into one. */
typedef struct lki_logs {
    lk_logs logs; /* what there is now; points into the two below */
    char  **name;
    double *value;
    int     room;
} lki_logs;

lk_status lki_logs_set(lki_logs *l, const char *name, double value); /* replaces the value of that name, else is added at the end */
void      lki_logs_clear(lki_logs *l);                               /* keeps the memory for the next epoch */
void      lki_logs_free(lki_logs *l);

/* What a hook gets in addition to the public event. */
typedef struct lki_happening {
    lk_event     event;
    lk_fit_times times;   /* so far */
    int64_t      rows;    /* of this epoch (or evaluation) so far */
    int          verbose; /* 0, 1, 2: lki_verbose_of() */
    bool         failed;  /* train_end: training ended by an error */
    bool         stopped; /* train_end, epoch_end: lk_model_stop_training() was called */
    bool         resumed; /* train_begin: a saved run resumes in event.epoch, after event.batch of its steps */
    bool         goes_on; /* epoch_begin: this epoch began before the run was saved, and callbacks got the event then */
    void        *pool;    /* of the caller: objects that callbacks make are put there */
    lki_logs
        *more; /* epoch_end: the logs of the epoch; callbacks may add values for callbacks after them (lki_log_add). Else NULL */
} lki_happening;

/* A running fit (resume.h). At rest no step runs and all callbacks have handled the last event, so a state saved then is
 * complete. */
typedef struct lki_fit_run lki_fit_run;
typedef enum lki_rest {
    LKI_REST_STEP,  /* after a step (an execution), */
    LKI_REST_EPOCH, /* after an epoch, */
    LKI_REST_STOP,  /* after a request to stop: before the epoch_end of the epoch that was cut short, and before train_end */
    LKI_REST_END    /* when training has finished, before train_end */
} lki_rest;

typedef struct lki_callback_kind {
    const char *name;                                   /* "EarlyStopping" */
    size_t      bytes;                                  /* of the struct that begins with the lk_callback */
    bool        stale_logs_ok;                          /* logs of a batch may be some steps old, or missing */
    bool (*looks)(const lk_callback *c, lki_hook hook); /* optional: does it read logs at this event, now? Without it: at every
                                                         * event it has a hook for */
    lk_status (*on[LKI_HOOKS])(lk_callback *c, const lki_happening *h); /* NULL: nothing */
    void (*destroy)(lk_callback *c);                                    /* optional */
    lk_status (*restore)(lk_callback *c, lki_fit_run *r);               /* optional: before train_begin; may find r->resume */
    void (*rest)(lk_callback *c, lki_fit_run *r, lki_rest why);         /* optional */

    /* Optional: the state that a resumed run needs (state.h). It is loaded after train_begin; the caller checks that all of it was
     * read and that it fits. */
    void (*save)(const lk_callback *c, lki_sink *s);
    lk_status (*load)(lk_callback *c, lki_wire *w);
} lki_callback_kind;

struct lk_callback {
    lki_object               object;
    const lki_callback_kind *kind;
};

/* Training ends after this event because there is nothing more to gain. Unlike after lk_model_stop_training(), no state is kept for
 * resuming. */
void lki_model_done_training(lk_model *m);

/* Zeroed. NULL without memory. */
void *lki_callback_new(const lki_callback_kind *kind);

/* Add a value to the logs of the epoch that ends (learning_rate); a value of that name is replaced. Does nothing if h->more is
 * NULL. */
lk_status lki_log_add(const lki_happening *h, const char *name, double value);

/* The logs of the event, with the values that callbacks added. */
static inline lk_logs lki_logs_of(const lki_happening *h) { return h->more ? h->more->logs : h->event.logs; }

/* ---- words (words.c) ---- */

/* A message, exactly as given, but never on the line of a progress bar: that line is ended first. */
void lki_say(const char *format, ...) LKI_PRINTF(1, 2);

/* Numbers as in Python: the shortest text that reads back the same; rates to six digits. Returns text. */
enum { LKI_NUMBER_TEXT = 32 };
const char *lki_number_text(double value, char text[LKI_NUMBER_TEXT]);
const char *lki_rate_text(double value, char text[LKI_NUMBER_TEXT]);

/* Names of logs as a list: "loss, accuracy". Returns text; a long list is cut. */
const char *lki_logs_text(const lk_logs *logs, char *text, size_t bytes);

/* ---- paths with values in them (template.c) ---- */

/* A path with {epoch}, {epoch:02d}, {batch}, {val_loss:.2f} in it, as in Python's str.format(); {{ is a brace. */
lk_status lki_template_check(const char *call, const char *path);
lk_status lki_template_fill(const char *call, const char *path, int epoch, int64_t batch, const lk_logs *logs, char **out);

/* ---- what is monitored (monitor.c) ---- */

typedef struct lki_monitor {
    char  *name;
    int    sign; /* 1: more is better, -1: less */
    double best; /* starts at the worst */
    double min_delta;
    bool   warned; /* a warning that there is no such value was given */
} lki_monitor;

/* `call` for messages; name NULL: "val_loss". */
lk_status lki_monitor_begin(const char *call, lki_monitor *m, const char *name, lk_monitor_mode mode, double min_delta);
void      lki_monitor_end(lki_monitor *m);
void      lki_monitor_reset(lki_monitor *m, lk_number best); /* an option that is not given: the worst value */

/* The value in these logs. False if there is none. The first time this is a warning, "<what> conditioned on metric ...", that lists
 * the names there are. */
bool lki_monitor_value(lki_monitor *m, const char *what, const lk_logs *logs, double *value);
bool lki_monitor_better(const lki_monitor *m, double value, double than); /* by more than min_delta */
void lki_monitor_save(const lki_monitor *m, lki_sink *s);
void lki_monitor_load(lki_monitor *m, lki_wire *w);

/* ---- when steps are counted (callback.c) ---- */

/* When to save, every n steps, also if one execution has several steps. */
typedef struct lki_every {
    int64_t steps; /* 0: never */
    int64_t since, last;
} lki_every;

void lki_every_begin(lki_every *e);
bool lki_every_due(lki_every *e, int64_t batch); /* `batch` has just ended; it counts from 0 in each epoch */
void lki_every_save(const lki_every *e, lki_sink *s);
void lki_every_load(lki_every *e, lki_wire *w);

/* ---- the display (progress.c) ---- */

extern const lki_callback_kind lki_progress_kind;

/* A monotonic clock in seconds; tests replace it. */
extern double (*lki_progress_clock)(void);

/* End the line that is being drawn on the terminal, if there is one. */
void lki_progress_end_line(void);

#endif
