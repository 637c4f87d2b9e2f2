/* Optimisers and learning-rate schedules, with Keras' names and defaults.
 *
 *     lk_optimizer *o = lk_adam(.learning_rate = 0.01, .clipnorm = 1);
 *     lk_grads *g = lk_tape_gradient(tape, loss, variables);
 *     lk_optimizer_apply(o, g);
 *
 * Slots are variables, created at the first apply. Gradients are clipped after they were summed over all rows. Weight decay, the
 * update, the moving average, and iterations += 1 follow, in this order. Learning rates are stored as float. */
#ifndef LOCKSTEP_OPTIMIZER_H
#define LOCKSTEP_OPTIMIZER_H

#include "grad.h"
#include "tensor.h"

LK_BEGIN

typedef struct lk_optimizer lk_optimizer;
typedef struct lk_schedule  lk_schedule;

/* Options of every optimiser. At most one of clipnorm, global_clipnorm and clipvalue. */
#define LKI_OPTIMIZER_COMMON                                                                                                       \
    const char  *kw_;                                                                                                              \
    lk_number    learning_rate;           /* default: the optimiser's own, below */                                                \
    lk_schedule *schedule;                /* instead of learning_rate: a rate that depends on the iterations */                    \
    lk_number    weight_decay;            /* default none: w -= w * rate * weight_decay before the update */                       \
    double       clipnorm;                /* default 0, none: limit the norm of each gradient */                                   \
    double       global_clipnorm;         /* default 0, none: limit the norm of all gradients together */                          \
    double       clipvalue;               /* default 0, none: limit each element */                                                \
    lk_switch    use_ema;                 /* default LK_OFF: keep a moving average of the variables */                             \
    lk_number    ema_momentum;            /* default 0.99 */                                                                       \
    int          ema_overwrite_frequency; /* steps after which the average replaces the variables; default 0: never */             \
    double       loss_scale_factor;       /* default 0, none: gradients are those of a loss times this, and are divided by it */   \
    lk_integer   gradient_accumulation_steps; /* default 1; n: apply at every n-th call, with the mean gradient of n calls */      \
    const char  *name                         /* default "sgd", "adam", ... */

typedef struct lk_sgd_args {
    LKI_OPTIMIZER_COMMON; /* learning_rate 0.01 */
    double    momentum;   /* default 0 */
    lk_switch nesterov;   /* default LK_OFF */
} lk_sgd_args;

typedef struct lk_adam_args {
    LKI_OPTIMIZER_COMMON; /* learning_rate 0.001; adamw: weight_decay 0.004 */
    lk_number beta_1;     /* default 0.9 */
    lk_number beta_2;     /* default 0.999; lion 0.99 */
    lk_number epsilon;    /* default 1e-7 */
    lk_switch amsgrad;    /* default LK_OFF; adam and adamw only */
} lk_adam_args;

typedef struct lk_rmsprop_args {
    LKI_OPTIMIZER_COMMON; /* learning_rate 0.001 */
    lk_number rho;        /* default 0.9 */
    double    momentum;   /* default 0 */
    lk_number epsilon;    /* default 1e-7 */
    lk_switch centered;   /* default LK_OFF */
} lk_rmsprop_args;

typedef struct lk_adagrad_args {
    LKI_OPTIMIZER_COMMON;                /* learning_rate 0.001 */
    lk_number initial_accumulator_value; /* default 0.1 */
    lk_number epsilon;                   /* default 1e-7 */
} lk_adagrad_args;

typedef struct lk_adadelta_args {
    LKI_OPTIMIZER_COMMON; /* learning_rate 0.001 */
    lk_number rho;        /* default 0.95 */
    lk_number epsilon;    /* default 1e-7 */
} lk_adadelta_args;

typedef struct lk_ftrl_args {
    LKI_OPTIMIZER_COMMON;                /* learning_rate 0.001 */
    lk_number learning_rate_power;       /* default -0.5 */
    lk_number initial_accumulator_value; /* default 0.1 */
    double    l1_regularization_strength;
    double    l2_regularization_strength;
    double    l2_shrinkage_regularization_strength;
    double    beta;
} lk_ftrl_args;

typedef struct lk_adafactor_args {
    LKI_OPTIMIZER_COMMON;     /* learning_rate 0.001 */
    lk_number beta_2_decay;   /* default -0.8: beta_2 of step t is 1 - t^beta_2_decay */
    lk_number epsilon_1;      /* default 1e-30, added to squares */
    lk_number epsilon_2;      /* default 0.001, the smallest size of a variable that counts */
    lk_number clip_threshold; /* default 1 */
    lk_switch relative_step;  /* default LK_ON; as in Keras without effect: the rate is at most 1 / sqrt(t) in any case */
} lk_adafactor_args;

typedef struct lk_schedule_free_adamw_args {
    LKI_OPTIMIZER_COMMON;    /* learning_rate 0.0025 */
    lk_number  beta_1;       /* default 0.9; above 0 */
    lk_number  beta_2;       /* default 0.999 */
    lk_number  epsilon;      /* default 1e-8 */
    lk_integer warmup_steps; /* default 0 */
} lk_schedule_free_adamw_args;

/* Matrices take the step of Muon; other variables, embeddings and excluded layers that of AdamW. */
typedef struct lk_muon_args {
    LKI_OPTIMIZER_COMMON;               /* learning_rate 0.001, weight_decay 0.004: that of matrices */
    lk_number   adam_beta_1;            /* default 0.9 */
    lk_number   adam_beta_2;            /* default 0.999 */
    lk_number   adam_weight_decay;      /* default 0.004 */
    lk_number   adam_lr_ratio;          /* default 1: times the rate for the step of AdamW, but not for its decay */
    lk_number   epsilon;                /* default 1e-7 */
    const char *exclude_layers;         /* default none: a regular expression that is searched in the paths of variables */
    lk_switch   exclude_embeddings;     /* default LK_ON */
    lk_number   muon_a, muon_b, muon_c; /* default 3.4445, -4.7750, 2.0315 */
    lk_number   momentum;               /* default 0.95 */
    lk_integer  ns_steps;               /* default 5 */
    lk_switch   nesterov;               /* default LK_ON */
    lk_number   rms_rate;               /* default 0.2: times sqrt(max(rows, columns)); 0: neither, None in Keras */
} lk_muon_args;

/* Around an optimiser, for gradients that may be too large for their type: the loss is multiplied by a scale, which is halved
 * when a gradient is not finite, and doubled after dynamic_growth_steps steps in a row where all were. A step with a gradient
 * that is not finite changes nothing else. */
typedef struct lk_loss_scale_optimizer_args {
    const char   *kw_;
    lk_optimizer *inner_optimizer;      /* required */
    lk_number     initial_scale;        /* default 32768 */
    lk_integer    dynamic_growth_steps; /* default 2000 */
    const char   *name;                 /* default "loss_scale_optimizer" */
} lk_loss_scale_optimizer_args;

/* Several optimisers, each for some variables. patterns[i] is the path of a variable, or a regular expression that matches all of
 * it; optimizers[i] updates these variables, and `optimizer` all others. The optimisers have schedules and rates of their own. */
typedef struct lk_multi_optimizer_args {
    const char          *kw_;
    lk_optimizer        *optimizer; /* required: the default */
    int                  count;
    const char *const   *patterns;
    lk_optimizer *const *optimizers;
    double               loss_scale_factor; /* replaces that of all of them; default 0, none */
    const char          *name;              /* default "multi_optimizer" */
} lk_multi_optimizer_args;

#define lk_sgd(...) lk_sgd_kw(LKI_KW(lk_sgd_args, __VA_ARGS__))
#define lk_adam(...) lk_adam_kw(LKI_KW(lk_adam_args, __VA_ARGS__))
#define lk_adamw(...) lk_adamw_kw(LKI_KW(lk_adam_args, __VA_ARGS__))
#define lk_adamax(...) lk_adamax_kw(LKI_KW(lk_adam_args, __VA_ARGS__))
#define lk_nadam(...) lk_nadam_kw(LKI_KW(lk_adam_args, __VA_ARGS__))
#define lk_lion(...) lk_lion_kw(LKI_KW(lk_adam_args, __VA_ARGS__))
#define lk_lamb(...) lk_lamb_kw(LKI_KW(lk_adam_args, __VA_ARGS__))
#define lk_rmsprop(...) lk_rmsprop_kw(LKI_KW(lk_rmsprop_args, __VA_ARGS__))
#define lk_adagrad(...) lk_adagrad_kw(LKI_KW(lk_adagrad_args, __VA_ARGS__))
#define lk_adadelta(...) lk_adadelta_kw(LKI_KW(lk_adadelta_args, __VA_ARGS__))
#define lk_ftrl(...) lk_ftrl_kw(LKI_KW(lk_ftrl_args, __VA_ARGS__))
#define lk_adafactor(...) lk_adafactor_kw(LKI_KW(lk_adafactor_args, __VA_ARGS__))
#define lk_schedule_free_adamw(...) lk_schedule_free_adamw_kw(LKI_KW(lk_schedule_free_adamw_args, __VA_ARGS__))
#define lk_muon(...) lk_muon_kw(LKI_KW(lk_muon_args, __VA_ARGS__))
#define lk_loss_scale_optimizer(...) lk_loss_scale_optimizer_kw(LKI_KW(lk_loss_scale_optimizer_args, __VA_ARGS__))
#define lk_multi_optimizer(...) lk_multi_optimizer_kw(LKI_KW(lk_multi_optimizer_args, __VA_ARGS__))

LK_API lk_optimizer *lk_sgd_kw(lk_sgd_args args);
LK_API lk_optimizer *lk_adam_kw(lk_adam_args args);
LK_API lk_optimizer *lk_adamw_kw(lk_adam_args args);
LK_API lk_optimizer *lk_adamax_kw(lk_adam_args args);
LK_API lk_optimizer *lk_nadam_kw(lk_adam_args args);
LK_API lk_optimizer *lk_lion_kw(lk_adam_args args);
LK_API lk_optimizer *lk_lamb_kw(lk_adam_args args);
LK_API lk_optimizer *lk_rmsprop_kw(lk_rmsprop_args args);
LK_API lk_optimizer *lk_adagrad_kw(lk_adagrad_args args);
LK_API lk_optimizer *lk_adadelta_kw(lk_adadelta_args args);
LK_API lk_optimizer *lk_ftrl_kw(lk_ftrl_args args);
LK_API lk_optimizer *lk_adafactor_kw(lk_adafactor_args args);
LK_API lk_optimizer *lk_schedule_free_adamw_kw(lk_schedule_free_adamw_args args);
LK_API lk_optimizer *lk_muon_kw(lk_muon_args args);
LK_API lk_optimizer *lk_loss_scale_optimizer_kw(lk_loss_scale_optimizer_args args);
LK_API lk_optimizer *lk_multi_optimizer_kw(lk_multi_optimizer_args args);

/* Leave out the weight decay of these variables, and of those in whose paths the regular expression `names` ("bias|layer_norm",
 * NULL: none) is found; muon searches the last name of a path only. Replaces what was left out before.
 * Order   before the first apply. */
LK_API lk_status lk_optimizer_exclude_from_weight_decay(lk_optimizer *o, lk_variables variables, const char *names);

/* The loss that the optimiser wants the gradients of: times its scale, if it has one. fit calls it; a custom loop does so inside
 * its tape if the optimiser has a loss_scale_factor or is a loss_scale_optimizer. */
LK_API lk_tensor *lk_optimizer_scale_loss(lk_optimizer *o, lk_tensor *loss);

/* Update the variables that `grads` has gradients for. Inside lk_run() the gradients of all replicas are summed, then clipped and
 * applied once; in cross-replica context they are taken as summed already. Variables without a gradient are skipped, with one
 * warning.
 * Order   inside lk_run() all replicas call this together.
 * Errors  no variable has a gradient, or a variable was not among those of the first apply. */
LK_API lk_status lk_optimizer_apply(lk_optimizer *o, lk_grads *grads);

/* The same without summing over the replicas: all replicas must pass equal gradients, for example results of lk_all_reduce(). */
LK_API lk_status lk_optimizer_apply_combined(lk_optimizer *o, lk_grads *grads);

/* The same from a list: gradients.item[i] (NULL: none) belongs to variables.item[i]. */
LK_API lk_status lk_optimizer_apply_gradients(lk_optimizer *o, lk_tuple gradients, lk_variables variables);
LK_API lk_status lk_optimizer_apply_combined_gradients(lk_optimizer *o, lk_tuple gradients, lk_variables variables);

/* Assign the moving averages to the variables; without use_ema it does nothing. */
LK_API lk_status lk_optimizer_finalize(lk_optimizer *o);

/* Create the slots now instead of at the first apply. */
LK_API lk_status lk_optimizer_build(lk_optimizer *o, lk_variables variables);

LK_API int64_t lk_optimizer_iterations(const lk_optimizer *o);

/* The same as an i64 scalar tensor, also inside a compiled function; an iteration for dropout. */
LK_API lk_tensor *lk_optimizer_iteration(lk_optimizer *o);
LK_API double     lk_optimizer_learning_rate(const lk_optimizer *o); /* the current rate: of the variable, or of the schedule */
LK_API lk_status  lk_optimizer_set_learning_rate(lk_optimizer *o, double rate); /* an error with a schedule */

/* Iterations, learning rate (without a schedule) and slots, in Keras' order.
 * Owner   the optimiser, until its next apply. */
LK_API lk_variables lk_optimizer_variables(lk_optimizer *o);

/* ---- schedules --------------------------------------------------------------------------------------------------------------- */

typedef struct lk_decay_args {
    const char *kw_;
    double      initial_learning_rate; /* required */
    double      decay_steps;           /* required */
    double      decay_rate;            /* exponential, inverse time: required */
    lk_switch   staircase;             /* default LK_OFF */
    lk_number   end_learning_rate;     /* polynomial: default 0.0001 */
    lk_number   power;                 /* polynomial: default 1 */
    lk_switch   cycle;                 /* polynomial: default LK_OFF */
    double      alpha;                 /* cosine: default 0 */
    lk_number   warmup_target;         /* cosine: default none */
    double      warmup_steps;          /* cosine: default 0 */
    lk_number   t_mul, m_mul;          /* cosine restarts: default 2 and 1; decay_steps is the first period */
} lk_decay_args;

#define lk_exponential_decay(...) lk_exponential_decay_kw(LKI_KW(lk_decay_args, __VA_ARGS__))
#define lk_inverse_time_decay(...) lk_inverse_time_decay_kw(LKI_KW(lk_decay_args, __VA_ARGS__))
#define lk_polynomial_decay(...) lk_polynomial_decay_kw(LKI_KW(lk_decay_args, __VA_ARGS__))
#define lk_cosine_decay(...) lk_cosine_decay_kw(LKI_KW(lk_decay_args, __VA_ARGS__))
#define lk_cosine_decay_restarts(...) lk_cosine_decay_restarts_kw(LKI_KW(lk_decay_args, __VA_ARGS__))

LK_API lk_schedule *lk_exponential_decay_kw(lk_decay_args args);
LK_API lk_schedule *lk_inverse_time_decay_kw(lk_decay_args args);
LK_API lk_schedule *lk_polynomial_decay_kw(lk_decay_args args);
LK_API lk_schedule *lk_cosine_decay_kw(lk_decay_args args);
LK_API lk_schedule *lk_cosine_decay_restarts_kw(lk_decay_args args);

/* values[i] up to and including iteration boundaries[i], then the last value: `values` has one entry more than `boundaries`. */
LK_API lk_schedule *lk_piecewise_constant_decay(int boundaries_count, const double *boundaries, const double *values);

LK_API double lk_schedule_at(const lk_schedule *s, int64_t iteration);

LK_END

#endif
