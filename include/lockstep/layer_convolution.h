/* Dense layers, convolutions and pooling (layer.h). */
#ifndef LOCKSTEP_LAYER_CONVOLUTION_H
#define LOCKSTEP_LAYER_CONVOLUTION_H

#include "layer.h"

LK_BEGIN

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

/* activation(einsum(equation, x, kernel) + bias): "abc,cd->abd", "...x,xy->...y", "ab...,bc->ac...". The first label is the
 * batch. */
typedef struct lk_einsum_dense_args {
    const char     *kw_;
    const char     *equation;     /* required */
    lk_shape        output_shape; /* required: of a result row, without what the ellipsis stands for; -1: as the input */
    lk_activation   activation;   /* default LK_LINEAR */
    const char     *bias_axes;    /* default: no bias; "d", "bd": labels of the result */
    lk_initializer *kernel_initializer, *bias_initializer;                        /* default Glorot uniform, zeros */
    lk_regularizer *kernel_regularizer, *bias_regularizer, *activity_regularizer; /* default none */
    lk_constraint  *kernel_constraint, *bias_constraint;                          /* default none */
    LKI_LAYER_COMMON;
} lk_einsum_dense_args;
#define lk_einsum_dense(...) lk_einsum_dense_kw(LKI_KW(lk_einsum_dense_args, __VA_ARGS__))
LK_API lk_layer *lk_einsum_dense_kw(lk_einsum_dense_args args);

typedef struct lk_conv_layer_args {
    const char   *kw_;
    int64_t       filters;      /* required */
    int64_t       kernel_size;  /* required (or kernel_shape): the same in all directions */
    lk_axes       kernel_shape; /* instead: LK_AXES(3, 5) */
    lk_axes       strides;      /* default 1 */
    lk_padding    padding;      /* default LK_VALID; conv1d also LK_CAUSAL */
    lk_axes       dilation;     /* default 1 */
    lk_activation activation;   /* default LK_LINEAR */
    lk_integer    groups; /* default 1: each part of the filters sees only its part of the channels. Not for transposed ones */

    /* Transposed convolutions only: cells at the end, fewer than the stride. With reach = (size - 1) * dilation + 1, a size n
     * becomes (n - 1) * stride + reach % 2 + output_padding with LK_SAME, else (n - 1) * stride + reach + output_padding. By
     * default it becomes n * stride with LK_SAME, else (n - 1) * stride + max(reach, stride). */
    lk_axes        output_padding;
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_KERNEL_AND_BIAS;
    LKI_LAYER_COMMON;
} lk_conv_layer_args;
#define lk_conv1d(...) lk_conv1d_kw(LKI_KW(lk_conv_layer_args, __VA_ARGS__))
#define lk_conv2d(...) lk_conv2d_kw(LKI_KW(lk_conv_layer_args, __VA_ARGS__))
#define lk_conv3d(...) lk_conv3d_kw(LKI_KW(lk_conv_layer_args, __VA_ARGS__))
#define lk_conv1d_transpose(...) lk_conv1d_transpose_kw(LKI_KW(lk_conv_layer_args, __VA_ARGS__))
#define lk_conv2d_transpose(...) lk_conv2d_transpose_kw(LKI_KW(lk_conv_layer_args, __VA_ARGS__))
#define lk_conv3d_transpose(...) lk_conv3d_transpose_kw(LKI_KW(lk_conv_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_conv1d_kw(lk_conv_layer_args args);
LK_API lk_layer *lk_conv2d_kw(lk_conv_layer_args args);
LK_API lk_layer *lk_conv3d_kw(lk_conv_layer_args args);
LK_API lk_layer *lk_conv1d_transpose_kw(lk_conv_layer_args args);
LK_API lk_layer *lk_conv2d_transpose_kw(lk_conv_layer_args args);
LK_API lk_layer *lk_conv3d_transpose_kw(lk_conv_layer_args args);

typedef struct lk_depthwise_args {
    const char     *kw_;
    int64_t         kernel_size;                              /* required; or kernel_shape */
    lk_axes         kernel_shape;                             /* instead: LK_AXES(3, 5) */
    lk_integer      depth_multiplier;                         /* default 1 */
    lk_axes         strides;                                  /* default 1 */
    lk_padding      padding;                                  /* default LK_VALID */
    lk_axes         dilation;                                 /* default 1 */
    lk_activation   activation;                               /* default LK_LINEAR */
    lk_data_format  data_format;                              /* default LK_CHANNELS_LAST */
    lk_switch       use_bias;                                 /* default LK_ON */
    lk_initializer *depthwise_initializer, *bias_initializer; /* default Glorot uniform, zeros */
    lk_regularizer *depthwise_regularizer, *bias_regularizer, *activity_regularizer;
    lk_constraint  *depthwise_constraint, *bias_constraint;
    LKI_LAYER_COMMON;
} lk_depthwise_args;
#define lk_depthwise_conv1d(...) lk_depthwise_conv1d_kw(LKI_KW(lk_depthwise_args, __VA_ARGS__))
#define lk_depthwise_conv2d(...) lk_depthwise_conv2d_kw(LKI_KW(lk_depthwise_args, __VA_ARGS__))
LK_API lk_layer *lk_depthwise_conv1d_kw(lk_depthwise_args args);
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
    lk_data_format  data_format;      /* default LK_CHANNELS_LAST */
    lk_switch       use_bias;         /* default LK_ON */
    lk_initializer *depthwise_initializer, *pointwise_initializer, *bias_initializer;
    lk_regularizer *depthwise_regularizer, *pointwise_regularizer, *bias_regularizer, *activity_regularizer;
    lk_constraint  *depthwise_constraint, *pointwise_constraint, *bias_constraint;
    LKI_LAYER_COMMON;
} lk_separable_args;
#define lk_separable_conv1d(...) lk_separable_conv1d_kw(LKI_KW(lk_separable_args, __VA_ARGS__))
#define lk_separable_conv2d(...) lk_separable_conv2d_kw(LKI_KW(lk_separable_args, __VA_ARGS__))
LK_API lk_layer *lk_separable_conv1d_kw(lk_separable_args args);
LK_API lk_layer *lk_separable_conv2d_kw(lk_separable_args args);

/* ---- pooling ---- */

typedef struct lk_pooling_args {
    const char    *kw_;
    lk_axes        pool_size;   /* default 2 */
    lk_axes        strides;     /* default: pool_size */
    lk_padding     padding;     /* default LK_VALID */
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_pooling_args;
#define lk_max_pooling1d(...) lk_max_pooling1d_kw(LKI_KW(lk_pooling_args, __VA_ARGS__))
#define lk_max_pooling2d(...) lk_max_pooling2d_kw(LKI_KW(lk_pooling_args, __VA_ARGS__))
#define lk_max_pooling3d(...) lk_max_pooling3d_kw(LKI_KW(lk_pooling_args, __VA_ARGS__))
#define lk_average_pooling1d(...) lk_average_pooling1d_kw(LKI_KW(lk_pooling_args, __VA_ARGS__))
#define lk_average_pooling2d(...) lk_average_pooling2d_kw(LKI_KW(lk_pooling_args, __VA_ARGS__))
#define lk_average_pooling3d(...) lk_average_pooling3d_kw(LKI_KW(lk_pooling_args, __VA_ARGS__))
LK_API lk_layer *lk_max_pooling1d_kw(lk_pooling_args args);
LK_API lk_layer *lk_max_pooling2d_kw(lk_pooling_args args);
LK_API lk_layer *lk_max_pooling3d_kw(lk_pooling_args args);
LK_API lk_layer *lk_average_pooling1d_kw(lk_pooling_args args);
LK_API lk_layer *lk_average_pooling2d_kw(lk_pooling_args args);
LK_API lk_layer *lk_average_pooling3d_kw(lk_pooling_args args);

typedef struct lk_global_pooling_args {
    const char    *kw_;
    lk_switch      keepdims;    /* default LK_OFF */
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_global_pooling_args;
#define lk_global_max_pooling1d(...) lk_global_max_pooling1d_kw(LKI_KW(lk_global_pooling_args, __VA_ARGS__))
#define lk_global_max_pooling2d(...) lk_global_max_pooling2d_kw(LKI_KW(lk_global_pooling_args, __VA_ARGS__))
#define lk_global_max_pooling3d(...) lk_global_max_pooling3d_kw(LKI_KW(lk_global_pooling_args, __VA_ARGS__))
#define lk_global_average_pooling1d(...) lk_global_average_pooling1d_kw(LKI_KW(lk_global_pooling_args, __VA_ARGS__))
#define lk_global_average_pooling2d(...) lk_global_average_pooling2d_kw(LKI_KW(lk_global_pooling_args, __VA_ARGS__))
#define lk_global_average_pooling3d(...) lk_global_average_pooling3d_kw(LKI_KW(lk_global_pooling_args, __VA_ARGS__))
LK_API lk_layer *lk_global_max_pooling1d_kw(lk_global_pooling_args args);
LK_API lk_layer *lk_global_max_pooling2d_kw(lk_global_pooling_args args);
LK_API lk_layer *lk_global_max_pooling3d_kw(lk_global_pooling_args args);
LK_API lk_layer *lk_global_average_pooling1d_kw(lk_global_pooling_args args);
LK_API lk_layer *lk_global_average_pooling2d_kw(lk_global_pooling_args args);
LK_API lk_layer *lk_global_average_pooling3d_kw(lk_global_pooling_args args);

/* As many results as output_size says along each axis, whatever the size of a row: windows that differ by at most one cell. */
typedef struct lk_adaptive_pooling_args {
    const char    *kw_;
    lk_axes        output_size; /* required: one value for all axes, or one for each */
    lk_data_format data_format; /* default LK_CHANNELS_LAST */
    LKI_LAYER_COMMON;
} lk_adaptive_pooling_args;
#define lk_adaptive_max_pooling1d(...) lk_adaptive_max_pooling1d_kw(LKI_KW(lk_adaptive_pooling_args, __VA_ARGS__))
#define lk_adaptive_max_pooling2d(...) lk_adaptive_max_pooling2d_kw(LKI_KW(lk_adaptive_pooling_args, __VA_ARGS__))
#define lk_adaptive_max_pooling3d(...) lk_adaptive_max_pooling3d_kw(LKI_KW(lk_adaptive_pooling_args, __VA_ARGS__))
#define lk_adaptive_average_pooling1d(...) lk_adaptive_average_pooling1d_kw(LKI_KW(lk_adaptive_pooling_args, __VA_ARGS__))
#define lk_adaptive_average_pooling2d(...) lk_adaptive_average_pooling2d_kw(LKI_KW(lk_adaptive_pooling_args, __VA_ARGS__))
#define lk_adaptive_average_pooling3d(...) lk_adaptive_average_pooling3d_kw(LKI_KW(lk_adaptive_pooling_args, __VA_ARGS__))
LK_API lk_layer *lk_adaptive_max_pooling1d_kw(lk_adaptive_pooling_args args);
LK_API lk_layer *lk_adaptive_max_pooling2d_kw(lk_adaptive_pooling_args args);
LK_API lk_layer *lk_adaptive_max_pooling3d_kw(lk_adaptive_pooling_args args);
LK_API lk_layer *lk_adaptive_average_pooling1d_kw(lk_adaptive_pooling_args args);
LK_API lk_layer *lk_adaptive_average_pooling2d_kw(lk_adaptive_pooling_args args);
LK_API lk_layer *lk_adaptive_average_pooling3d_kw(lk_adaptive_pooling_args args);

LK_END

#endif
