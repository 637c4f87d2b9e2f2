/* Layers that normalise, and layers that drop or disturb values while training (layer.h). */
#ifndef LOCKSTEP_LAYER_NORMALIZATION_H
#define LOCKSTEP_LAYER_NORMALIZATION_H

#include "layer.h"

LK_BEGIN

/* ---- normalisation ---- */

#define LKI_GAMMA_AND_BETA                                                                                                         \
    lk_number       epsilon;                              /* default 0.001 */                                                      \
    lk_switch       center, scale;                        /* default LK_ON */                                                      \
    lk_initializer *beta_initializer, *gamma_initializer; /* default zeros, ones */                                                \
    lk_regularizer *beta_regularizer, *gamma_regularizer; /* default none */                                                       \
    lk_constraint  *beta_constraint, *gamma_constraint    /* default none */

typedef struct lk_batch_normalization_args {
    const char *kw_;
    lk_number   momentum;     /* default 0.99 */
    lk_axis     axis;         /* default LK_AXIS(-1); no other is supported */
    lk_switch   synchronized; /* default LK_ON: statistics of the whole batch; LK_OFF: of each replica, moving ones sync-on-read */
    lk_initializer *moving_mean_initializer, *moving_variance_initializer; /* default zeros, ones */
    LKI_GAMMA_AND_BETA;
    LKI_LAYER_COMMON;
} lk_batch_normalization_args;
#define lk_batch_normalization(...) lk_batch_normalization_kw(LKI_KW(lk_batch_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_batch_normalization_kw(lk_batch_normalization_args args);

typedef struct lk_layer_normalization_args {
    const char *kw_;
    lk_axes     axis; /* default -1; several: consecutive ones up to the last */
    LKI_GAMMA_AND_BETA;
    LKI_LAYER_COMMON;
} lk_layer_normalization_args;
#define lk_layer_normalization(...) lk_layer_normalization_kw(LKI_KW(lk_layer_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_layer_normalization_kw(lk_layer_normalization_args args);

typedef struct lk_group_normalization_args {
    const char *kw_;
    lk_integer  groups; /* default 32; -1: one per channel */
    LKI_GAMMA_AND_BETA;
    LKI_LAYER_COMMON;
} lk_group_normalization_args;
#define lk_group_normalization(...) lk_group_normalization_kw(LKI_KW(lk_group_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_group_normalization_kw(lk_group_normalization_args args);

/* Normalise by a mean and variance that are not trained: given here, or computed from data by lk_normalization_adapt(). */
typedef struct lk_normalization_args {
    const char *kw_;
    lk_tensor  *mean, *variance; /* copied; they broadcast to the last axis. Default: from adapt */
    lk_switch   invert;          /* default LK_OFF */
    LKI_LAYER_COMMON;
} lk_normalization_args;
#define lk_normalization(...) lk_normalization_kw(LKI_KW(lk_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_normalization_kw(lk_normalization_args args);

/* ---- dropout: drawn from the seed, the layer's position, the model's training call and the global row ---- */

typedef struct lk_dropout_layer_args {
    const char *kw_;
    double      rate; /* required */
    lk_number   seed; /* default: from the layer's position */
    LKI_LAYER_COMMON;
} lk_dropout_layer_args;
#define lk_dropout(...) lk_dropout_kw(LKI_KW(lk_dropout_layer_args, __VA_ARGS__))
#define lk_spatial_dropout2d(...) lk_spatial_dropout2d_kw(LKI_KW(lk_dropout_layer_args, __VA_ARGS__)) /* whole channels */
LK_API lk_layer *lk_dropout_kw(lk_dropout_layer_args args);
LK_API lk_layer *lk_spatial_dropout2d_kw(lk_dropout_layer_args args);

LK_END

#endif
