/* What fit, evaluate and predict share: a model's compiled steps, the data they run on, and what is counted.
 *
 *     dataset --distribute--> per-replica batch --lk_call(step)--> loss (one value), metrics (per lane), weights
 *
 * One engine per compiled model; one call of fit, evaluate or predict at a time.
 *
 * Invariants
 * 1. A step is one compiled function: lk_run over the replicas, then the loss reduced. Its results do not depend on the number of
 *    replicas.
 * 2. Losses are averaged over rows here, in double, step by step in order; metrics keep their own state.
 * 3. Losses may be pending. fit waits for a step only when it counts the step's loss; an error of the step is reported then, with
 *    the step's number. */
#ifndef LKI_FIT_ENGINE_H
#define LKI_FIT_ENGINE_H

#include "fit/callback.h"
#include "model/compiled.h"
#include <lockstep/step.h>

typedef enum lki_fit_step { LKI_FIT_TRAIN, LKI_FIT_TEST, LKI_FIT_PREDICT, LKI_FIT_STEPS } lki_fit_step;

typedef struct lki_engine lki_engine;

typedef struct lki_step {
    lki_engine  *engine;
    lki_fit_step kind;
    lk_function *function; /* a reference; made when needed */
    int          weights;  /* tensors of sample weights in an element: 0, 1, or one per output */
} lki_step;

enum { LKI_MOST_PENDING = 64 };

struct lki_engine {
    lk_model     *model; /* owns this engine */
    lki_compiled *compiled;
    lk_strategy  *strategy; /* the model's, or the default one; not a reference */
    lki_step      step[LKI_FIT_STEPS];
    lk_variable  *class_weight; /* of the fit that runs: [classes], a reference; NULL: none */
    uint64_t      trained;      /* a mark of the weights that were trainable when the training step was traced */
    /* What is reported: loss, losses of outputs where there are several, metrics. */
    int     names;
    char  **name;
    int     losses; /* how many of the names are losses */
    double *sum;    /* of losses times rows */
    double  rows;
    int64_t nan_step; /* the first step whose loss was not finite, in the caller's count; 0: none */
    double  nan;      /* and that loss */
    /* Losses of steps that may still be running. They are counted when the steps are done, when the logs are read, or when the list
     * is full. */
    lk_tensor **pending; /* `losses` references for each step */
    int64_t     pending_rows[LKI_MOST_PENDING], pending_step[LKI_MOST_PENDING];
    int         pending_count;
    int64_t     failed_step; /* the step whose error counting reported; 0: none of the pending ones */
    double     *value;       /* of each name: the logs as last read, then those of evaluate */
    lk_logs     evaluated;   /* result of evaluate */
};

/* The engine of a compiled model, which the caller holds until lki_engine_done(). NULL and an error naming `call` if the model is
 * not compiled, or is in use. A call that needs no loss needs no compile. `inside`: allowed from a callback of a fit of this
 * thread. */
typedef struct lki_engine_request {
    const char *call;
    bool        needs_loss, trains, inside;
} lki_engine_request;
lki_engine *lki_engine_of(lk_model *m, lki_engine_request r);
void        lki_engine_done(lki_engine *e);

/* ---- data (data.c) ---- */

typedef struct lki_fit_data {
    lk_dataset *dataset; /* distributed */
    int64_t     steps;   /* LK_UNKNOWN, LK_INFINITE */
} lki_fit_data;

typedef struct lki_data_request {
    const char  *call;
    lk_dataset  *dataset;
    lk_tensor   *x, *y, *weight;
    int64_t      batch_size; /* of arrays */
    lki_fit_step step;       /* that runs on it */
    int64_t      limit;      /* steps asked for; 0: until the data ends */
    const char  *limit_name; /* of that option */
    bool         shuffle;
    double       first, last; /* the part of the arrays' rows to use, 0 to 1 */
} lki_data_request;

lk_status lki_fit_data_of(lki_engine *e, const lki_data_request *r, lki_fit_data *out);

/* How many rows of the global batch this element has, over all replicas. */
int64_t lki_batch_rows(lk_tuple batch);

/* ---- steps (step.c) ---- */

/* One step on one element; *out gets the losses of the engine, or for predict the outputs. If a label is out of range, the error
 * names its row: in the element, counted from the rows before it, or in `labels`, if all labels are known. */
lk_status lki_engine_step(lki_engine *e, lki_fit_step which, lk_tuple batch, lk_tuple *out);
int64_t   lki_model_classes(lk_model *m); /* number of classes of its output; 0: not known */
lk_status lki_explain_labels(lki_engine *e, lk_tuple batch, lk_tensor *labels);

/* ---- counting ---- */

lk_status lki_count_reset(lki_engine *e);
lk_status lki_count_losses(lki_engine *e, lk_tuple losses, int64_t rows, int64_t step);

/* Count all pending losses, so that e->sum is up to date. The functions below call this themselves. */
lk_status lki_count_settle(lki_engine *e);
lk_logs   lki_count_logs(lki_engine *e, bool evaluated); /* the current logs, valid until the next call; logs of evaluate are kept
                                                          * apart */

/* Puts the counts aside and restores them later, so that something else can be counted meanwhile. False without memory. */
typedef struct lki_count {
    double      rows, *sum;
    lk_tensor **state; /* of the metrics */
    int         states;
} lki_count;
bool lki_count_keep(lki_engine *e, lki_count *c);
void lki_count_put_back(lki_engine *e, lki_count *c);

/* ---- loops (loop.c) ---- */

typedef struct lki_callback_list {
    int           count;
    lk_callback **item;
} lki_callback_list;

lk_status lki_callbacks_tell(const lki_callback_list *list, lki_hook hook, const lki_happening *h);

/* Call the hooks of the end, with `failed` if `status` is an error. Returns `status`, or the error of a hook if `status` is
 * LK_OK. */
bool lki_callbacks_look(const lki_engine *e, const lki_callback_list *list, lki_hook hook, double *looked); /* whether to make logs
                                                                                                             * now */
lk_status lki_callbacks_end(const lki_callback_list *list, lki_hook hook, lki_happening *h, lk_status status);

/* Test over a dataset; logs in the engine's `evaluated`. */
lk_status lki_evaluate(lki_engine *e, const lki_fit_data *data, int64_t steps, const lki_callback_list *list, lki_happening *h);

double lki_seconds(void);

/* Rows of a batch of arrays if no batch_size is given, as in Keras. */
enum { LKI_BATCH_SIZE = 32 };

/* 0, 1 or 2 from the option of fit, evaluate and predict; 1 if it was not given. */
lk_status lki_verbose_of(lk_integer option, int *verbose);

#endif
