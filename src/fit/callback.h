/* Callbacks from the inside: an object and a table of what it does at each event.
 *
 * Order of the calls in fit: train_begin, then per epoch: epoch_begin, (train_batch_begin, train_batch_end) for each execution,
 * [test_begin, (test_batch_begin, test_batch_end)..., test_end], epoch_end; train_end. Within an event callbacks are called in the order given to fit;
 * the progress display comes first, the history last. train_end is called also when training fails, so that files are closed.
 *
 * A hook that returns an error ends training; it has told it (lki_fail). */
#ifndef LKI_FIT_CALLBACK_H
#define LKI_FIT_CALLBACK_H

#include "core/error.h"
#include "core/object.h"
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

/* What is told besides the public event. */
typedef struct lki_happening {
    lk_event event;
    lk_fit_times times;       /* so far */
    int64_t      rows;        /* of this epoch (or evaluation) so far */
    int          verbose;     /* 0, 1, 2 */
    int          initial_epoch;
    bool         failed;      /* train_end: training ended by an error */
    bool         stopped;     /* train_end, epoch_end: lk_model_stop_training() was called */
    int         *epoch;       /* train_begin: where to begin; a callback that restores may raise it */
    int64_t     *skip;        /* train_begin: steps of that epoch that are done already; likewise */
    lk_logs     *more;        /* epoch_end: callbacks may put their own values here (learning_rate), for those behind them; see lki_log_add */
} lki_happening;

typedef struct lki_callback_kind {
    const char *name;   /* "EarlyStopping" */
    size_t      bytes;  /* of the struct that begins with the lk_callback */
    lk_status (*on[LKI_HOOKS])(lk_callback *c, const lki_happening *h); /* NULL: nothing */
    void (*destroy)(lk_callback *c);                                    /* optional */
} lki_callback_kind;

struct lk_callback {
    lki_object               object;
    const lki_callback_kind *kind;
};

/* Zeroed. NULL without memory. */
void *lki_callback_new(const lki_callback_kind *kind);

/* Add a value to the logs of the epoch that ends (learning_rate); those that are there are replaced. */
lk_status lki_log_add(const lki_happening *h, const char *name, double value);

/* ---- what is monitored (monitor.c) ---- */

typedef struct lki_monitor {
    char  *name;
    int    sign; /* 1: more is better, -1: less; 0: auto, decided at train_begin */
    double best; /* starts at the worst */
    double min_delta;
    bool   warned;
} lki_monitor;

/* `call` for messages. */
lk_status lki_monitor_begin(const char *call, lki_monitor *m, const char *name, lk_monitor_mode mode, double min_delta);
void      lki_monitor_end(lki_monitor *m);
void      lki_monitor_reset(lki_monitor *m, const lk_number *baseline);

/* The value in these logs; NaN and, the first time, a warning that lists what there is. */
double lki_monitor_value(lki_monitor *m, const char *call, const lk_logs *logs);
bool   lki_monitor_better(const lki_monitor *m, double value, double than); /* by more than min_delta */

/* ---- the display (progress.c) ---- */

extern const lki_callback_kind lki_progress_kind;

#endif
