/* The arguments of lk_model_compile(): kept in the model, so that files can store them and fit can use them. */
#ifndef LKI_MODEL_COMPILED_H
#define LKI_MODEL_COMPILED_H

#include "model/model.h"

/* A part of what a file's model was compiled with that there is nothing for here: kept, so that a file written later has it
 * still. */
typedef struct lki_lost {
    lki_kind kind;     /* of an optimiser, a loss or a metric */
    int      output;   /* of losses and metrics; -1: of all outputs */
    bool     weighted; /* of metrics */
    char    *json;     /* as the file had it; from lki_alloc */
    char    *why;      /* it could not be read; likewise */
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

/* What to compile with; arrays are copied, objects retained. */
typedef struct lki_compile_request {
    lk_optimizer     *optimizer;
    lk_loss *const   *loss;        /* as many as outputs */
    const double     *loss_weight; /* likewise; NULL: 1 each */
    int               metrics;
    lk_metric *const *metric;
    const bool       *weighted;
    int               steps_per_execution;
    bool              run_eagerly;
    lk_denominator    denominator;
    lk_split_rule     split;
    int               lost_count; /* taken over, when it succeeds */
    lki_lost         *lost;
} lki_compile_request;

/* In place of what it was compiled with before. */
lk_status lki_model_compile(lk_model *m, const lki_compile_request *r);

/* The first lost part of this kind, of any output where `output` is -1; NULL: none is. */
const lki_lost *lki_lost_part(const lk_model *m, lki_kind kind, int output);
void            lki_lost_free(int count, lki_lost *lost);

#endif
