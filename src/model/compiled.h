/* What a model is trained with, as lk_model_compile() was told: kept in the model, so that files can hold it and fit can use it. */
#ifndef LKI_MODEL_COMPILED_H
#define LKI_MODEL_COMPILED_H

#include "model/model.h"

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
} lki_compile_request;

/* In place of what it was compiled with before. */
lk_status lki_model_compile(lk_model *m, const lki_compile_request *r);

#endif
