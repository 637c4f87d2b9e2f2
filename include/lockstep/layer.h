/* Layers, with Keras' names, options and defaults.
 *
 *     lk_layer *l = lk_dense(64, .activation = LK_RELU, .kernel_regularizer = lk_l2(1e-5));
 *
 * A new layer has no weights. The model it is put into creates them, once it knows the shape of a row. Images are [height, width,
 * channels], sequences [steps, features]. Where an op has the plain name (lk_add, lk_softmax), the layer is called lk_add_layer,
 * lk_softmax_layer. */
#ifndef LOCKSTEP_LAYER_H
#define LOCKSTEP_LAYER_H

#include "nn.h"

LK_BEGIN

/* ---- initialisers ------------------------------------------------------------------------------------------------------------ */

typedef struct lk_initializer lk_initializer;

typedef enum lk_fan_mode { LK_FAN_IN = 0, LK_FAN_OUT, LK_FAN_AVG } lk_fan_mode;
typedef enum lk_distribution { LK_TRUNCATED_NORMAL = 0, LK_UNTRUNCATED_NORMAL, LK_UNIFORM } lk_distribution;

/* The options of initialisers; one that the initialiser does not have is an error. */
typedef struct lk_initializer_args {
    const char     *kw_;
    double          value;          /* constant: default 0 */
    double          mean;           /* random_normal, truncated_normal: default 0 */
    lk_number       stddev;         /* likewise: default 0.05 */
    lk_number       minval, maxval; /* random_uniform: default -0.05 and 0.05 */
    lk_number       scale;          /* variance_scaling: default 1 */
    lk_fan_mode     mode;           /* likewise: default LK_FAN_IN */
    lk_distribution distribution;   /* likewise */
    lk_number       gain;           /* orthogonal, identity: default 1 */
    lk_number       seed;           /* random ones: default: from the process's seed and the name of the weight */
} lk_initializer_args;

/* name, Keras' class */
#define LK_INITIALIZER_LIST(X)                                                                                                     \
    X(zeros, "Zeros")                                                                                                              \
    X(ones, "Ones")                                                                                                                \
    X(constant, "Constant")                                                                                                        \
    X(identity, "Identity")                                                                                                        \
    X(random_normal, "RandomNormal")                                                                                               \
    X(random_uniform, "RandomUniform")                                                                                             \
    X(truncated_normal, "TruncatedNormal")                                                                                         \
    X(variance_scaling, "VarianceScaling")                                                                                         \
    X(glorot_uniform, "GlorotUniform")                                                                                             \
    X(glorot_normal, "GlorotNormal")                                                                                               \
    X(he_uniform, "HeUniform")                                                                                                     \
    X(he_normal, "HeNormal")                                                                                                       \
    X(lecun_uniform, "LecunUniform")                                                                                               \
    X(lecun_normal, "LecunNormal")                                                                                                 \
    X(orthogonal, "Orthogonal")
#define LKI_INITIALIZER_DECLARE(name, class) LK_API lk_initializer *lk_init_##name##_kw(lk_initializer_args args);
LK_INITIALIZER_LIST(LKI_INITIALIZER_DECLARE)
#undef LKI_INITIALIZER_DECLARE
#define lk_init_zeros() lk_init_zeros_kw(LKI_KW(lk_initializer_args, 0))
#define lk_init_ones() lk_init_ones_kw(LKI_KW(lk_initializer_args, 0))
#define lk_init_constant(...) lk_init_constant_kw(LKI_KW(lk_initializer_args, __VA_ARGS__)) /* lk_init_constant(0.5) */
#define lk_init_identity(...) lk_init_identity_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_random_normal(...) lk_init_random_normal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_random_uniform(...) lk_init_random_uniform_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_truncated_normal(...) lk_init_truncated_normal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_variance_scaling(...) lk_init_variance_scaling_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_glorot_uniform(...) lk_init_glorot_uniform_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_glorot_normal(...) lk_init_glorot_normal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_he_uniform(...) lk_init_he_uniform_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_he_normal(...) lk_init_he_normal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_lecun_uniform(...) lk_init_lecun_uniform_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_lecun_normal(...) lk_init_lecun_normal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))
#define lk_init_orthogonal(...) lk_init_orthogonal_kw(LKI_KW(lk_initializer_args, __VA_ARGS__))

/* An initialiser by its Keras name, such as "he_normal", with default options. For an unknown name, NULL and an error that lists
 * the names. */
LK_API lk_initializer *lk_initializer_named(const char *name);

/* A custom initialiser: returns the initial value of a weight of this shape. `stream` names the weight; if the value depends only
 * on it and the process's seed, runs are repeatable. A model with a custom initialiser cannot be written to a Keras file. */
typedef lk_tensor *(*lk_initializer_fn)(lk_shape shape, const char *stream, void *user);
LK_API lk_initializer *lk_initializer_of(lk_initializer_fn fn, void *user);

LK_API lk_tensor *lk_initializer_call(const lk_initializer *i, lk_shape shape, const char *stream);

/* ---- regularisers and constraints -------------------------------------------------------------------------------------------- */

typedef struct lk_regularizer lk_regularizer;
LK_API lk_regularizer        *lk_l1(double c); /* c * sum |x| */
LK_API lk_regularizer        *lk_l2(double c); /* c * sum x^2 */
LK_API lk_regularizer        *lk_l1_l2(double l1, double l2);
LK_API lk_tensor             *lk_regularizer_call(const lk_regularizer *r, lk_tensor *x);

/* A constraint changes a weight after each update. */
typedef struct lk_constraint lk_constraint;
typedef struct lk_constraint_args {
    const char *kw_;
    lk_number   max_value; /* max_norm: default 2; min_max_norm: default 1 */
    double      min_value; /* min_max_norm: default 0 */
    lk_number   rate;      /* min_max_norm: default 1 */
    lk_axes     axis;      /* the norms': default 0 */
} lk_constraint_args;
#define lk_max_norm(...) lk_max_norm_kw(LKI_KW(lk_constraint_args, __VA_ARGS__))
#define lk_min_max_norm(...) lk_min_max_norm_kw(LKI_KW(lk_constraint_args, __VA_ARGS__))
#define lk_unit_norm(...) lk_unit_norm_kw(LKI_KW(lk_constraint_args, __VA_ARGS__))
LK_API lk_constraint *lk_max_norm_kw(lk_constraint_args args);
LK_API lk_constraint *lk_min_max_norm_kw(lk_constraint_args args);
LK_API lk_constraint *lk_unit_norm_kw(lk_constraint_args args);
LK_API lk_constraint *lk_non_neg(void);
LK_API lk_tensor     *lk_constraint_call(const lk_constraint *c, lk_tensor *w);

/* ---- layers ------------------------------------------------------------------------------------------------------------------ */

/* A layer belongs to one model, as long as the model lives. Constructors return NULL and an error for invalid arguments. */
typedef struct lk_layer lk_layer;

/* Options of every layer. */
#define LKI_LAYER_COMMON                                                                                                           \
    const char *name;        /* default: "dense", "dense_1", ... by position */                                                    \
    lk_shape    input_shape; /* of one row, without the batch; -1: any size; default: from the first call */                       \
    lk_switch   trainable    /* default LK_ON; LK_OFF: training does not change its weights */

#define LKI_KERNEL_AND_BIAS                                                                                                        \
    lk_switch       use_bias;                                                     /* default LK_ON */                              \
    lk_initializer *kernel_initializer, *bias_initializer;                        /* default Glorot uniform, zeros */              \
    lk_regularizer *kernel_regularizer, *bias_regularizer, *activity_regularizer; /* default none */                               \
    lk_constraint  *kernel_constraint, *bias_constraint                           /* default none */

/* An input of a functional model; lk_input() in model.h makes it. */
typedef struct lk_input_args {
    const char *kw_;
    lk_shape    shape;     /* required: of a row; -1: any size */
    lk_dtype    dtype;     /* default LK_F32; rows are cast to it */
    const char *name;      /* default "input_layer", ... */
    lk_switch   trainable; /* ignored */
} lk_input_args;

/* ---- dense and convolutions ---- */

typedef struct lk_dense_args {
    const char   *kw_;
    int64_t       units;      /* required */
    lk_activation activation; /* default LK_LINEAR */
    LKI_KERNEL_AND_BIAS;
    LKI_LAYER_COMMON;
} lk_dense_args;
#define lk_dense(...) lk_dense_kw(LKI_KW(lk_dense_args, __VA_ARGS__))
LK_API lk_layer *lk_dense_kw(lk_dense_args args);

typedef struct lk_conv_layer_args {
    const char   *kw_;
    int64_t       filters;      /* required */
    int64_t       kernel_size;  /* required (or kernel_shape): the same in both directions */
    lk_axes       kernel_shape; /* instead: LK_AXES(3, 5) */
    lk_axes       strides;      /* default 1 */
    lk_padding    padding;      /* default LK_VALID; conv1d also LK_CAUSAL */
    lk_axes       dilation;     /* default 1; not for transposed convolutions */
    lk_activation activation;   /* default LK_LINEAR */
    LKI_KERNEL_AND_BIAS;
    LKI_LAYER_COMMON;
} lk_conv_layer_args;
#define lk_conv1d(...) lk_conv1d_kw(LKI_KW(lk_conv_layer_args, __VA_ARGS__))
#define lk_conv2d(...) lk_conv2d_kw(LKI_KW(lk_conv_layer_args, __VA_ARGS__))
#define lk_conv2d_transpose(...) lk_conv2d_transpose_kw(LKI_KW(lk_conv_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_conv1d_kw(lk_conv_layer_args args);
LK_API lk_layer *lk_conv2d_kw(lk_conv_layer_args args);
LK_API lk_layer *lk_conv2d_transpose_kw(lk_conv_layer_args args);

typedef struct lk_depthwise_args {
    const char     *kw_;
    int64_t         kernel_size;                              /* required; or kernel_shape */
    lk_axes         kernel_shape;                             /* instead: LK_AXES(3, 5) */
    lk_integer      depth_multiplier;                         /* default 1 */
    lk_axes         strides;                                  /* default 1 */
    lk_padding      padding;                                  /* default LK_VALID */
    lk_axes         dilation;                                 /* default 1 */
    lk_activation   activation;                               /* default LK_LINEAR */
    lk_switch       use_bias;                                 /* default LK_ON */
    lk_initializer *depthwise_initializer, *bias_initializer; /* default Glorot uniform, zeros */
    lk_regularizer *depthwise_regularizer, *bias_regularizer, *activity_regularizer;
    lk_constraint  *depthwise_constraint, *bias_constraint;
    LKI_LAYER_COMMON;
} lk_depthwise_args;
#define lk_depthwise_conv2d(...) lk_depthwise_conv2d_kw(LKI_KW(lk_depthwise_args, __VA_ARGS__))
LK_API lk_layer *lk_depthwise_conv2d_kw(lk_depthwise_args args);

typedef struct lk_separable_args {
    const char     *kw_;
    int64_t         filters;          /* required */
    int64_t         kernel_size;      /* required; or kernel_shape */
    lk_axes         kernel_shape;     /* instead: LK_AXES(3, 5) */
    lk_integer      depth_multiplier; /* default 1 */
    lk_axes         strides;          /* default 1 */
    lk_padding      padding;          /* default LK_VALID */
    lk_axes         dilation;         /* default 1 */
    lk_activation   activation;       /* default LK_LINEAR */
    lk_switch       use_bias;         /* default LK_ON */
    lk_initializer *depthwise_initializer, *pointwise_initializer, *bias_initializer;
    lk_regularizer *depthwise_regularizer, *pointwise_regularizer, *bias_regularizer, *activity_regularizer;
    lk_constraint  *depthwise_constraint, *pointwise_constraint, *bias_constraint;
    LKI_LAYER_COMMON;
} lk_separable_args;
#define lk_separable_conv2d(...) lk_separable_conv2d_kw(LKI_KW(lk_separable_args, __VA_ARGS__))
LK_API lk_layer *lk_separable_conv2d_kw(lk_separable_args args);

/* ---- pooling ---- */

typedef struct lk_pooling_args {
    const char *kw_;
    lk_axes     pool_size; /* default 2 */
    lk_axes     strides;   /* default: pool_size */
    lk_padding  padding;   /* default LK_VALID */
    LKI_LAYER_COMMON;
} lk_pooling_args;
#define lk_max_pooling1d(...) lk_max_pooling1d_kw(LKI_KW(lk_pooling_args, __VA_ARGS__))
#define lk_max_pooling2d(...) lk_max_pooling2d_kw(LKI_KW(lk_pooling_args, __VA_ARGS__))
#define lk_average_pooling1d(...) lk_average_pooling1d_kw(LKI_KW(lk_pooling_args, __VA_ARGS__))
#define lk_average_pooling2d(...) lk_average_pooling2d_kw(LKI_KW(lk_pooling_args, __VA_ARGS__))
LK_API lk_layer *lk_max_pooling1d_kw(lk_pooling_args args);
LK_API lk_layer *lk_max_pooling2d_kw(lk_pooling_args args);
LK_API lk_layer *lk_average_pooling1d_kw(lk_pooling_args args);
LK_API lk_layer *lk_average_pooling2d_kw(lk_pooling_args args);

typedef struct lk_global_pooling_args {
    const char *kw_;
    lk_switch   keepdims; /* default LK_OFF */
    LKI_LAYER_COMMON;
} lk_global_pooling_args;
#define lk_global_max_pooling1d(...) lk_global_max_pooling1d_kw(LKI_KW(lk_global_pooling_args, __VA_ARGS__))
#define lk_global_max_pooling2d(...) lk_global_max_pooling2d_kw(LKI_KW(lk_global_pooling_args, __VA_ARGS__))
#define lk_global_average_pooling1d(...) lk_global_average_pooling1d_kw(LKI_KW(lk_global_pooling_args, __VA_ARGS__))
#define lk_global_average_pooling2d(...) lk_global_average_pooling2d_kw(LKI_KW(lk_global_pooling_args, __VA_ARGS__))
LK_API lk_layer *lk_global_max_pooling1d_kw(lk_global_pooling_args args);
LK_API lk_layer *lk_global_max_pooling2d_kw(lk_global_pooling_args args);
LK_API lk_layer *lk_global_average_pooling1d_kw(lk_global_pooling_args args);
LK_API lk_layer *lk_global_average_pooling2d_kw(lk_global_pooling_args args);

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

/* ---- shapes ---- */

typedef struct lk_plain_layer_args {
    const char *kw_;
    LKI_LAYER_COMMON;
} lk_plain_layer_args;
#define lk_flatten(...) lk_flatten_kw(LKI_KW(lk_plain_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_flatten_kw(lk_plain_layer_args args);

typedef struct lk_reshape_layer_args {
    const char *kw_;
    lk_shape    target_shape; /* required: of a row; one size may be -1 */
    LKI_LAYER_COMMON;
} lk_reshape_layer_args;
#define lk_reshape_layer(...) lk_reshape_layer_kw(LKI_KW(lk_reshape_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_reshape_layer_kw(lk_reshape_layer_args args);

typedef struct lk_permute_args {
    const char *kw_;
    lk_axes     dims; /* required: LK_AXES(2, 1): axes of a row, counted from 1 */
    LKI_LAYER_COMMON;
} lk_permute_args;
#define lk_permute(...) lk_permute_kw(LKI_KW(lk_permute_args, __VA_ARGS__))
LK_API lk_layer *lk_permute_kw(lk_permute_args args);

typedef struct lk_border_args {
    const char *kw_;
    lk_axes     border; /* all sides (default 1, cropping 0), LK_AXES(height, width), or LK_AXES(top, bottom, left, right) */
    LKI_LAYER_COMMON;
} lk_border_args;
#define lk_zero_padding2d(...) lk_zero_padding2d_kw(LKI_KW(lk_border_args, __VA_ARGS__))
#define lk_cropping2d(...) lk_cropping2d_kw(LKI_KW(lk_border_args, __VA_ARGS__))
LK_API lk_layer *lk_zero_padding2d_kw(lk_border_args args);
LK_API lk_layer *lk_cropping2d_kw(lk_border_args args);

typedef enum lk_interpolation { LK_INTERPOLATION_DEFAULT = 0, LK_NEAREST, LK_BILINEAR } lk_interpolation;
typedef struct lk_up_sampling2d_args {
    const char      *kw_;
    lk_axes          size;          /* default 2 */
    lk_interpolation interpolation; /* default LK_NEAREST */
    LKI_LAYER_COMMON;
} lk_up_sampling2d_args;
#define lk_up_sampling2d(...) lk_up_sampling2d_kw(LKI_KW(lk_up_sampling2d_args, __VA_ARGS__))
LK_API lk_layer *lk_up_sampling2d_kw(lk_up_sampling2d_args args);

/* ---- activations ---- */

typedef struct lk_activation_layer_args {
    const char   *kw_;
    lk_activation activation; /* required */
    LKI_LAYER_COMMON;
} lk_activation_layer_args;
#define lk_activation_layer(...) lk_activation_layer_kw(LKI_KW(lk_activation_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_activation_layer_kw(lk_activation_layer_args args);

typedef struct lk_relu_layer_args {
    const char *kw_;
    lk_number   max_value;      /* default none */
    double      negative_slope; /* default 0 */
    double      threshold;      /* default 0 */
    LKI_LAYER_COMMON;
} lk_relu_layer_args;
#define lk_relu_layer(...) lk_relu_layer_kw(LKI_KW(lk_relu_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_relu_layer_kw(lk_relu_layer_args args);

typedef struct lk_leaky_relu_layer_args {
    const char *kw_;
    lk_number   negative_slope; /* default 0.3 */
    LKI_LAYER_COMMON;
} lk_leaky_relu_layer_args;
#define lk_leaky_relu_layer(...) lk_leaky_relu_layer_kw(LKI_KW(lk_leaky_relu_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_leaky_relu_layer_kw(lk_leaky_relu_layer_args args);

typedef struct lk_softmax_layer_args {
    const char *kw_;
    lk_axis     axis; /* default LK_AXIS(-1) */
    LKI_LAYER_COMMON;
} lk_softmax_layer_args;
#define lk_softmax_layer(...) lk_softmax_layer_kw(LKI_KW(lk_softmax_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_softmax_layer_kw(lk_softmax_layer_args args);

/* ---- merging: two or more inputs ---- */

#define lk_add_layer(...) lk_add_layer_kw(LKI_KW(lk_plain_layer_args, __VA_ARGS__))
#define lk_subtract_layer(...) lk_subtract_layer_kw(LKI_KW(lk_plain_layer_args, __VA_ARGS__)) /* exactly two */
#define lk_multiply_layer(...) lk_multiply_layer_kw(LKI_KW(lk_plain_layer_args, __VA_ARGS__))
#define lk_average_layer(...) lk_average_layer_kw(LKI_KW(lk_plain_layer_args, __VA_ARGS__))
#define lk_maximum_layer(...) lk_maximum_layer_kw(LKI_KW(lk_plain_layer_args, __VA_ARGS__))
#define lk_minimum_layer(...) lk_minimum_layer_kw(LKI_KW(lk_plain_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_add_layer_kw(lk_plain_layer_args args);
LK_API lk_layer *lk_subtract_layer_kw(lk_plain_layer_args args);
LK_API lk_layer *lk_multiply_layer_kw(lk_plain_layer_args args);
LK_API lk_layer *lk_average_layer_kw(lk_plain_layer_args args);
LK_API lk_layer *lk_maximum_layer_kw(lk_plain_layer_args args);
LK_API lk_layer *lk_minimum_layer_kw(lk_plain_layer_args args);

typedef struct lk_concatenate_args {
    const char *kw_;
    lk_axis     axis; /* default LK_AXIS(-1); axis 0 is the batch and is not allowed */
    LKI_LAYER_COMMON;
} lk_concatenate_args;
#define lk_concatenate(...) lk_concatenate_kw(LKI_KW(lk_concatenate_args, __VA_ARGS__))
LK_API lk_layer *lk_concatenate_kw(lk_concatenate_args args);

typedef struct lk_dot_layer_args {
    const char *kw_;
    lk_axes     axes;      /* required: one for both inputs, or one for each; axis 0 is the batch */
    lk_switch   normalize; /* default LK_OFF; LK_ON: the cosine */
    LKI_LAYER_COMMON;
} lk_dot_layer_args;
#define lk_dot_layer(...) lk_dot_layer_kw(LKI_KW(lk_dot_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_dot_layer_kw(lk_dot_layer_args args);

/* ---- sequences ---- */

typedef struct lk_embedding_args {
    const char     *kw_;
    int64_t         input_dim, output_dim;  /* required: ids are 0 .. input_dim-1 */
    lk_initializer *embeddings_initializer; /* default uniform in -0.05 .. 0.05 */
    lk_regularizer *embeddings_regularizer, *activity_regularizer;
    lk_constraint  *embeddings_constraint;
    LKI_LAYER_COMMON;
} lk_embedding_args;
#define lk_embedding(...) lk_embedding_kw(LKI_KW(lk_embedding_args, __VA_ARGS__))
LK_API lk_layer *lk_embedding_kw(lk_embedding_args args);

typedef struct lk_recurrent_args {
    const char     *kw_;
    int64_t         units;                      /* required */
    lk_activation   activation;                 /* default LK_TANH */
    lk_activation   recurrent_activation;       /* lstm, gru: default LK_SIGMOID */
    lk_switch       use_bias;                   /* default LK_ON */
    lk_switch       return_sequences;           /* default LK_OFF: return the last step only */
    lk_switch       go_backwards;               /* default LK_OFF */
    lk_switch       unit_forget_bias;           /* lstm: default LK_ON */
    lk_switch       reset_after;                /* gru: default LK_ON */
    double          dropout, recurrent_dropout; /* default 0 */
    lk_number       seed;
    lk_initializer *kernel_initializer, *recurrent_initializer, *bias_initializer; /* default Glorot uniform, orthogonal, zeros */
    lk_regularizer *kernel_regularizer, *recurrent_regularizer, *bias_regularizer, *activity_regularizer;
    lk_constraint  *kernel_constraint, *recurrent_constraint, *bias_constraint;
    LKI_LAYER_COMMON;
} lk_recurrent_args;
#define lk_lstm(...) lk_lstm_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
#define lk_gru(...) lk_gru_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
#define lk_simple_rnn(...) lk_simple_rnn_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
LK_API lk_layer *lk_lstm_kw(lk_recurrent_args args);
LK_API lk_layer *lk_gru_kw(lk_recurrent_args args);
LK_API lk_layer *lk_simple_rnn_kw(lk_recurrent_args args);

typedef enum lk_merge_mode { LK_MERGE_CONCAT = 0, LK_MERGE_SUM, LK_MERGE_MUL, LK_MERGE_AVE } lk_merge_mode;
typedef struct lk_bidirectional_args {
    const char   *kw_;
    lk_layer     *layer; /* required: lk_lstm, lk_gru or lk_simple_rnn; a copy of it runs in the other direction */
    lk_merge_mode merge_mode;
    LKI_LAYER_COMMON;
} lk_bidirectional_args;
#define lk_bidirectional(...) lk_bidirectional_kw(LKI_KW(lk_bidirectional_args, __VA_ARGS__))
LK_API lk_layer *lk_bidirectional_kw(lk_bidirectional_args args);

typedef struct lk_time_distributed_args {
    const char *kw_;
    lk_layer   *layer; /* required: applied to each step; its activity_regularizer is ignored, as in Keras */
    LKI_LAYER_COMMON;
} lk_time_distributed_args;
#define lk_time_distributed(...) lk_time_distributed_kw(LKI_KW(lk_time_distributed_args, __VA_ARGS__))
LK_API lk_layer *lk_time_distributed_kw(lk_time_distributed_args args);

/* The inputs are (query, value) or (query, value, key). */
typedef struct lk_multi_head_attention_layer_args {
    const char *kw_;
    int64_t     num_heads, key_dim; /* required */
    lk_integer  value_dim;          /* default: key_dim */
    double      dropout;            /* default 0 */
    lk_number   seed;
    lk_switch   use_causal_mask; /* default LK_OFF: a step attends to all steps; LK_ON: to itself and earlier ones */
    LKI_KERNEL_AND_BIAS;
    LKI_LAYER_COMMON;
} lk_multi_head_attention_layer_args;
#define lk_multi_head_attention(...) lk_multi_head_attention_kw(LKI_KW(lk_multi_head_attention_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_multi_head_attention_kw(lk_multi_head_attention_layer_args args);

/* ---- preparing rows ---- */

typedef struct lk_rescaling_args {
    const char *kw_;
    double      scale;  /* required */
    double      offset; /* default 0 */
    LKI_LAYER_COMMON;
} lk_rescaling_args;
#define lk_rescaling(...) lk_rescaling_kw(LKI_KW(lk_rescaling_args, __VA_ARGS__))
LK_API lk_layer *lk_rescaling_kw(lk_rescaling_args args);

typedef enum lk_flip { LK_FLIP_BOTH = 0, LK_FLIP_HORIZONTAL, LK_FLIP_VERTICAL } lk_flip;
typedef enum lk_fill_mode { LK_FILL_REFLECT = 0, LK_FILL_CONSTANT, LK_FILL_WRAP, LK_FILL_NEAREST } lk_fill_mode;

/* The random layers below act in training only, and draw separately for each row. */
typedef struct lk_random_flip_args {
    const char *kw_;
    lk_flip     mode;
    lk_number   seed;
    LKI_LAYER_COMMON;
} lk_random_flip_args;
#define lk_random_flip(...) lk_random_flip_kw(LKI_KW(lk_random_flip_args, __VA_ARGS__))
LK_API lk_layer *lk_random_flip_kw(lk_random_flip_args args);

typedef struct lk_random_rotation_args {
    const char      *kw_;
    double           factor; /* required: largest rotation in either direction, as a fraction of a full turn */
    lk_number        low;    /* instead of -factor */
    lk_fill_mode     fill_mode;
    lk_interpolation interpolation; /* default LK_BILINEAR */
    double           fill_value;    /* LK_FILL_CONSTANT: default 0 */
    lk_number        seed;
    LKI_LAYER_COMMON;
} lk_random_rotation_args;
#define lk_random_rotation(...) lk_random_rotation_kw(LKI_KW(lk_random_rotation_args, __VA_ARGS__))
LK_API lk_layer *lk_random_rotation_kw(lk_random_rotation_args args);

typedef struct lk_random_crop_args {
    const char *kw_;
    int64_t     height, width; /* required; outside training the centre is taken. For Keras files see docs/models.md */
    lk_number   seed;
    LKI_LAYER_COMMON;
} lk_random_crop_args;
#define lk_random_crop(...) lk_random_crop_kw(LKI_KW(lk_random_crop_args, __VA_ARGS__))
LK_API lk_layer *lk_random_crop_kw(lk_random_crop_args args);

/* ---- custom layers ----------------------------------------------------------------------------------------------------------- */

/* What a custom layer's function learns about the call. */
typedef struct lk_layer_pass {
    int         training;
    lk_tensor  *iteration; /* number of the model's training call, i64, for random ops; NULL unless .draws */
    const char *stream;    /* names this layer's random numbers */
} lk_layer_pass;

typedef lk_tensor *(*lk_layer_call_fn)(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user);
typedef lk_status (*lk_layer_build_fn)(lk_layer *l, int inputs, const lk_shape *in, void *user);
typedef lk_status (*lk_layer_output_fn)(const lk_layer *l, int inputs, const lk_shape *in, lk_shape *out, void *user);

typedef struct lk_own_layer_args {
    const char        *kw_;
    lk_layer_call_fn   call;   /* required */
    lk_layer_build_fn  build;  /* creates weights by lk_layer_add_weight(); default: no weights */
    lk_layer_output_fn output; /* shape of a result row; default: that of the input row */
    void              *user;
    const char        *kind;   /* default "own_layer": the base of default names */
    lk_integer         inputs; /* default 1; -1: one or more */
    lk_switch          draws;  /* default LK_OFF; LK_ON: call uses random numbers */
    LKI_LAYER_COMMON;
} lk_own_layer_args;
#define lk_layer_of(...) lk_layer_of_kw(LKI_KW(lk_own_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_layer_of_kw(lk_own_layer_args args);

typedef struct lk_weight_args {
    const char     *kw_;
    lk_layer       *layer;       /* required */
    const char     *name;        /* required */
    lk_shape        shape;       /* required */
    lk_initializer *initializer; /* default Glorot uniform */
    lk_regularizer *regularizer;
    lk_constraint  *constraint;
    lk_switch       trainable; /* default LK_ON */
} lk_weight_args;

/* Create a weight. Only inside a build function. */
#define lk_layer_add_weight(...) lk_layer_add_weight_kw(LKI_KW(lk_weight_args, __VA_ARGS__))
LK_API lk_status lk_layer_add_weight_kw(lk_weight_args args);

LK_API lk_tensor *lk_layer_weight(lk_layer *l, const char *name); /* its current value */

/* ---- properties and calls ---------------------------------------------------------------------------------------------------- */

LK_API const char  *lk_layer_name(const lk_layer *l);
LK_API lk_variables lk_layer_variables(lk_layer *l); /* empty before they are created */
LK_API int          lk_layer_trainable(const lk_layer *l);

/* Takes effect at the next fit. If the optimiser has not seen the weights yet, compile the model again first. */
LK_API lk_status lk_layer_set_trainable(lk_layer *l, int trainable);

typedef struct lk_layer_call_args {
    const char *kw_;
    lk_layer   *layer;    /* required */
    lk_tensor  *x;        /* required; several inputs: lk_nest() */
    lk_switch   training; /* default: as in the enclosing call of a model, else LK_OFF */
} lk_layer_call_args;

/* Call a layer, in the function of a custom model or alone. The first call creates its weights. */
#define lk_layer_call(...) lk_layer_call_kw(LKI_KW(lk_layer_call_args, __VA_ARGS__))
LK_API lk_tensor *lk_layer_call_kw(lk_layer_call_args args);

LK_END

#endif
