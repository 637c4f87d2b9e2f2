/* Optimisers and schedules by their names in Keras files: their classes and arguments. */
#ifndef LKI_NN_OPTIMIZER_CLASSES_H
#define LKI_NN_OPTIMIZER_CLASSES_H

#include "core/field.h"
#include <lockstep/optimizer.h>

typedef enum lki_optimizer_id {
    LKI_SGD,
    LKI_ADAM,
    LKI_ADAMW,
    LKI_ADAMAX,
    LKI_NADAM,
    LKI_LION,
    LKI_LAMB,
    LKI_RMSPROP,
    LKI_ADAGRAD,
    LKI_ADADELTA,
    LKI_FTRL,
    LKI_ADAFACTOR,
    LKI_SCHEDULE_FREE_ADAMW,
    LKI_MUON,
    LKI_LOSS_SCALE,
    LKI_OPTIMIZER_IDS
} lki_optimizer_id;

typedef union lki_optimizer_args {
    lk_sgd_args                  sgd;
    lk_adam_args                 adam;
    lk_rmsprop_args              rmsprop;
    lk_adagrad_args              adagrad;
    lk_adadelta_args             adadelta;
    lk_ftrl_args                 ftrl;
    lk_adafactor_args            adafactor;
    lk_schedule_free_adamw_args  schedule_free;
    lk_muon_args                 muon;
    lk_loss_scale_optimizer_args loss_scale;
    lk_multi_optimizer_args      multi;
} lki_optimizer_args;

/* The arguments for schedule.c, in the order of lki_schedule_form. */
typedef struct lki_piecewise_args {
    lk_tensor *boundaries, *values; /* f64 */
} lki_piecewise_args;

typedef union lki_schedule_args {
    lk_decay_args      decay;
    lki_piecewise_args piecewise;
} lki_schedule_args;

extern const lki_class lki_optimizer_classes[LKI_OPTIMIZER_IDS + 1]; /* both end with an empty one */
extern const lki_class lki_schedule_classes[];

#endif
