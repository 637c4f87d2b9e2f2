/* The arguments of lk_model_compile(): kept in the model, so that files can store them and fit can use them. */
#ifndef LKI_MODEL_COMPILED_H
#define LKI_MODEL_COMPILED_H

#include "model/model.h"

/* A part of the compile arguments in a file that lockstep cannot create: kept, so that a file written later contains it again. */
typedef struct lki_lost {
    lki_kind kind;     /* of an optimiser, a loss or a metric */
    int      output;   /* of losses and metrics; -1: for all outputs */
    bool     weighted; /* of metrics */
    char    *json;     /* as in the file; from lki_alloc */
    char    *why;      /* why it could not be created; from lki_alloc */
} lki_lost;

typedef struct lki_compiled {
    lk_optimizer  *optimizer; /* references, all of them */
    int            outputs;
    lk_loss      **loss;        /* one per output; NULL: that output has none */
    double        *loss_weight; /* one per output */
    bool           weights_given;
    int            metrics;
    lk_metric    **metric;
    bool          *weighted; /* metric i takes sample weights into account */
    int            steps_per_execution;
    bool           run_eagerly;
    lk_denominator denominator;
    lk_split_rule  split;
    int            lost_count;
    lki_lost      *lost;

    void *engine; /* what fit keeps between calls; NULL: nothing yet */
    void (*engine_free)(void *engine);
} lki_compiled;

/* The arguments to compile with; arrays are copied, objects retained. */
typedef struct lki_compile_request {
    lk_optimizer     *optimizer;
    lk_loss *const   *loss;        /* one per output */
    const double     *loss_weight; /* one per output; NULL: all 1 */
    int               metrics;
    lk_metric *const *metric;
    const bool       *weighted;
    int               steps_per_execution;
    bool              run_eagerly;
    lk_denominator    denominator;
    lk_split_rule     split;
    int               lost_count; /* lost parts are taken over on success */
    lki_lost         *lost;
} lki_compile_request;

/* Replaces earlier arguments. */
lk_status lki_model_compile(lk_model *m, const lki_compile_request *r);

/* The first lost part of this kind, of any output if `output` is -1; NULL: there is none. */
const lki_lost *lki_lost_part(const lk_model *m, lki_kind kind, int output);
void            lki_lost_free(int count, lki_lost *lost);

#endif
