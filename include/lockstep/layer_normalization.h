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
    lk_axis     axis;         /* default LK_AXIS(-1): the channels */
    lk_switch   synchronized; /* default LK_ON: statistics of the whole batch; LK_OFF: of each replica, moving ones sync-on-read */
    lk_initializer *moving_mean_initializer, *moving_variance_initializer; /* default zeros, ones */
    LKI_GAMMA_AND_BETA;
    LKI_LAYER_COMMON;
} lk_batch_normalization_args;
#define lk_batch_normalization(...) lk_batch_normalization_kw(LKI_KW(lk_batch_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_batch_normalization_kw(lk_batch_normalization_args args);

typedef struct lk_layer_normalization_args {
    const char *kw_;
    lk_axes     axis;        /* default -1 */
    lk_switch   rms_scaling; /* default LK_OFF; LK_ON: only divided by its deviation, without beta */
    LKI_GAMMA_AND_BETA;
    LKI_LAYER_COMMON;
} lk_layer_normalization_args;
#define lk_layer_normalization(...) lk_layer_normalization_kw(LKI_KW(lk_layer_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_layer_normalization_kw(lk_layer_normalization_args args);

typedef struct lk_group_normalization_args {
    const char *kw_;
    lk_integer  groups; /* default 32; -1: one per channel */
    lk_axis     axis;   /* default LK_AXIS(-1): the channels */
    LKI_GAMMA_AND_BETA;
    LKI_LAYER_COMMON;
} lk_group_normalization_args;
#define lk_group_normalization(...) lk_group_normalization_kw(LKI_KW(lk_group_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_group_normalization_kw(lk_group_normalization_args args);

/* x / sqrt(mean(x * x) + epsilon) * scale */
typedef struct lk_rms_normalization_args {
    const char *kw_;
    lk_axes     axis;    /* default -1 */
    lk_number   epsilon; /* default 1e-6 */
    LKI_LAYER_COMMON;
} lk_rms_normalization_args;
#define lk_rms_normalization(...) lk_rms_normalization_kw(LKI_KW(lk_rms_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_rms_normalization_kw(lk_rms_normalization_args args);

/* Each row, or each part of it along these axes, gets the length 1. */
typedef struct lk_unit_normalization_args {
    const char *kw_;
    lk_axes     axis; /* default -1 */
    LKI_LAYER_COMMON;
} lk_unit_normalization_args;
#define lk_unit_normalization(...) lk_unit_normalization_kw(LKI_KW(lk_unit_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_unit_normalization_kw(lk_unit_normalization_args args);

/* A layer whose kernel (or embeddings) is divided by its largest singular value in each training call, found by power iteration. */
typedef struct lk_spectral_normalization_args {
    const char *kw_;
    lk_layer   *layer;            /* required: it gets a place in this one */
    lk_integer  power_iterations; /* default 1 */
    LKI_LAYER_COMMON;
} lk_spectral_normalization_args;
#define lk_spectral_normalization(...) lk_spectral_normalization_kw(LKI_KW(lk_spectral_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_spectral_normalization_kw(lk_spectral_normalization_args args);

/* Normalise by a mean and variance that are not trained: given here, or computed from data by lk_normalization_adapt(). */
typedef struct lk_normalization_args {
    const char *kw_;
    lk_tensor  *mean, *variance; /* copied; they broadcast to the axes. Default: from adapt */
    lk_switch   invert;          /* default LK_OFF */
    lk_axes     axis;            /* default -1: each entry of these axes has a mean and variance; LK_AXES(): one for all */
    LKI_LAYER_COMMON;
} lk_normalization_args;
#define lk_normalization(...) lk_normalization_kw(LKI_KW(lk_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_normalization_kw(lk_normalization_args args);

/* x * gamma along the last axis, as in ConvNeXt of keras.applications. */
typedef struct lk_layer_scale_args {
    const char *kw_;
    double      init_values;    /* required: of gamma */
    int64_t     projection_dim; /* required: the size of the last axis */
    LKI_LAYER_COMMON;
} lk_layer_scale_args;
#define lk_layer_scale(...) lk_layer_scale_kw(LKI_KW(lk_layer_scale_args, __VA_ARGS__))
LK_API lk_layer *lk_layer_scale_kw(lk_layer_scale_args args);

/* ---- dropout and noise: drawn from the seed, the layer's position, the model's training call and the global row ---- */

typedef struct lk_dropout_layer_args {
    const char *kw_;
    double      rate;     /* required */
    lk_number   seed;     /* default: from the layer's position */
    lk_shape noise_shape; /* lk_dropout, lk_alpha_dropout: default that of the input. With the batch: LK_SHAPE(-1, 1, 1, 1); 1: one
                              * draw for the whole axis; -1: as the input */
    LKI_LAYER_COMMON;
} lk_dropout_layer_args;
#define lk_dropout(...) lk_dropout_kw(LKI_KW(lk_dropout_layer_args, __VA_ARGS__))
#define lk_alpha_dropout(...) lk_alpha_dropout_kw(LKI_KW(lk_dropout_layer_args, __VA_ARGS__))         /* keeps mean and variance */
#define lk_gaussian_dropout(...) lk_gaussian_dropout_kw(LKI_KW(lk_dropout_layer_args, __VA_ARGS__))   /* times normal numbers */
#define lk_spatial_dropout1d(...) lk_spatial_dropout1d_kw(LKI_KW(lk_dropout_layer_args, __VA_ARGS__)) /* whole channels */
#define lk_spatial_dropout2d(...) lk_spatial_dropout2d_kw(LKI_KW(lk_dropout_layer_args, __VA_ARGS__))
#define lk_spatial_dropout3d(...) lk_spatial_dropout3d_kw(LKI_KW(lk_dropout_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_dropout_kw(lk_dropout_layer_args args);
LK_API lk_layer *lk_alpha_dropout_kw(lk_dropout_layer_args args);
LK_API lk_layer *lk_gaussian_dropout_kw(lk_dropout_layer_args args);
LK_API lk_layer *lk_spatial_dropout1d_kw(lk_dropout_layer_args args);
LK_API lk_layer *lk_spatial_dropout2d_kw(lk_dropout_layer_args args);
LK_API lk_layer *lk_spatial_dropout3d_kw(lk_dropout_layer_args args);

typedef struct lk_gaussian_noise_args {
    const char *kw_;
    double      stddev; /* required */
    lk_number   seed;   /* default: from the layer's position */
    LKI_LAYER_COMMON;
} lk_gaussian_noise_args;
#define lk_gaussian_noise(...) lk_gaussian_noise_kw(LKI_KW(lk_gaussian_noise_args, __VA_ARGS__))
LK_API lk_layer *lk_gaussian_noise_kw(lk_gaussian_noise_args args);

/* Its input, with a penalty for it: l1 * sum |x| + l2 * sum x^2. */
typedef struct lk_activity_regularization_args {
    const char *kw_;
    double      l1, l2; /* default 0 */
    LKI_LAYER_COMMON;
} lk_activity_regularization_args;
#define lk_activity_regularization(...) lk_activity_regularization_kw(LKI_KW(lk_activity_regularization_args, __VA_ARGS__))
LK_API lk_layer *lk_activity_regularization_kw(lk_activity_regularization_args args);

LK_END

#endif
