/* Layers that change shapes, activations as layers, and layers that merge several inputs (layer.h). */
#ifndef LOCKSTEP_LAYER_SHAPE_H
#define LOCKSTEP_LAYER_SHAPE_H

#include "layer.h"

LK_BEGIN

/* ---- shapes ---- */

typedef struct lk_plain_layer_args {
    const char *kw_;
    LKI_LAYER_COMMON;
} lk_plain_layer_args;

typedef struct lk_flatten_args {
    const char    *kw_;
    lk_data_format data_format; /* default LK_CHANNELS_LAST; LK_CHANNELS_FIRST: the channels are moved to the end first */
    LKI_LAYER_COMMON;
} lk_flatten_args;
#define lk_flatten(...) lk_flatten_kw(LKI_KW(lk_flatten_args, __VA_ARGS__))
LK_API lk_layer *lk_flatten_kw(lk_flatten_args args);

#define lk_identity_layer(...) lk_identity_layer_kw(LKI_KW(lk_plain_layer_args, __VA_ARGS__)) /* its input, of any type */
LK_API lk_layer *lk_identity_layer_kw(lk_plain_layer_args args);

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

typedef struct lk_repeat_vector_args {
    const char *kw_;
    int64_t     n; /* required: rows of [width] become [n, width] */
    LKI_LAYER_COMMON;
} lk_repeat_vector_args;
#define lk_repeat_vector(...) lk_repeat_vector_kw(LKI_KW(lk_repeat_vector_args, __VA_ARGS__))
LK_API lk_layer *lk_repeat_vector_kw(lk_repeat_vector_args args);

typedef struct lk_border_args {
    const char *kw_;
    lk_axes border; /* all sides (default 1; cropping2d: 0), LK_AXES(height, width), or LK_AXES(top, bottom, left, right). Of steps:
                         * LK_AXES(before, after); of volumes three or six values */
    lk_data_format data_format; /* default LK_CHANNELS_LAST; cropping1d has none */
    LKI_LAYER_COMMON;
} lk_border_args;
#define lk_zero_padding1d(...) lk_zero_padding1d_kw(LKI_KW(lk_border_args, __VA_ARGS__))
#define lk_zero_padding2d(...) lk_zero_padding2d_kw(LKI_KW(lk_border_args, __VA_ARGS__))
#define lk_zero_padding3d(...) lk_zero_padding3d_kw(LKI_KW(lk_border_args, __VA_ARGS__))
#define lk_cropping1d(...) lk_cropping1d_kw(LKI_KW(lk_border_args, __VA_ARGS__))
#define lk_cropping2d(...) lk_cropping2d_kw(LKI_KW(lk_border_args, __VA_ARGS__))
#define lk_cropping3d(...) lk_cropping3d_kw(LKI_KW(lk_border_args, __VA_ARGS__))
LK_API lk_layer *lk_zero_padding1d_kw(lk_border_args args);
LK_API lk_layer *lk_zero_padding2d_kw(lk_border_args args);
LK_API lk_layer *lk_zero_padding3d_kw(lk_border_args args);
LK_API lk_layer *lk_cropping1d_kw(lk_border_args args);
LK_API lk_layer *lk_cropping2d_kw(lk_border_args args);
LK_API lk_layer *lk_cropping3d_kw(lk_border_args args);

typedef struct lk_up_sampling1d_args {
    const char *kw_;
    lk_integer  size; /* default 2: times as many steps */
    LKI_LAYER_COMMON;
} lk_up_sampling1d_args;
#define lk_up_sampling1d(...) lk_up_sampling1d_kw(LKI_KW(lk_up_sampling1d_args, __VA_ARGS__))
LK_API lk_layer *lk_up_sampling1d_kw(lk_up_sampling1d_args args);

typedef struct lk_up_sampling_args {
    const char      *kw_;
    lk_axes          size;          /* default 2: times as many cells along all axes, or a value for each */
    lk_interpolation interpolation; /* default LK_NEAREST; others for up_sampling2d only */
    lk_data_format   data_format;   /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_up_sampling_args;
#define lk_up_sampling2d(...) lk_up_sampling2d_kw(LKI_KW(lk_up_sampling_args, __VA_ARGS__))
#define lk_up_sampling3d(...) lk_up_sampling3d_kw(LKI_KW(lk_up_sampling_args, __VA_ARGS__))
LK_API lk_layer *lk_up_sampling2d_kw(lk_up_sampling_args args);
LK_API lk_layer *lk_up_sampling3d_kw(lk_up_sampling_args args);

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

typedef struct lk_elu_layer_args {
    const char *kw_;
    lk_number   alpha; /* default 1 */
    LKI_LAYER_COMMON;
} lk_elu_layer_args;
#define lk_elu_layer(...) lk_elu_layer_kw(LKI_KW(lk_elu_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_elu_layer_kw(lk_elu_layer_args args);

/* x where it is positive, alpha * x elsewhere; alpha is learnt. */
typedef struct lk_prelu_args {
    const char     *kw_;
    lk_axes         shared_axes;       /* default none: each element of a row has its alpha; counted from 1: LK_AXES(1, 2) */
    lk_initializer *alpha_initializer; /* default zeros */
    lk_regularizer *alpha_regularizer; /* default none */
    lk_constraint  *alpha_constraint;  /* default none */
    LKI_LAYER_COMMON;
} lk_prelu_args;
#define lk_prelu(...) lk_prelu_kw(LKI_KW(lk_prelu_args, __VA_ARGS__))
LK_API lk_layer *lk_prelu_kw(lk_prelu_args args);

typedef struct lk_softmax_layer_args {
    const char *kw_;
    lk_axes     axis; /* default -1; several: they add up to 1 together */
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

/* a + b * scale, as in InceptionResNetV2 of keras.applications. */
typedef struct lk_custom_scale_args {
    const char *kw_;
    double      scale; /* required */
    LKI_LAYER_COMMON;
} lk_custom_scale_args;
#define lk_custom_scale(...) lk_custom_scale_kw(LKI_KW(lk_custom_scale_args, __VA_ARGS__))
LK_API lk_layer *lk_custom_scale_kw(lk_custom_scale_args args);

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

LK_END

#endif
