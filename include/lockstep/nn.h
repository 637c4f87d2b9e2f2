/* The building blocks of neural networks as functions of tensors: layers without variables, and losses per example. Images are
 * NHWC, kernels [height, width, in, out]. */
#ifndef LOCKSTEP_NN_H
#define LOCKSTEP_NN_H

#include "ops.h"

LK_BEGIN

typedef enum lk_activation {
    LK_ACTIVATION_DEFAULT = 0, /* the default of the layer, usually LK_LINEAR */
    LK_LINEAR,
    LK_RELU,
    LK_RELU6,
    LK_GELU,
    LK_GELU_TANH,
    LK_SIGMOID,
    LK_TANH,
    LK_SOFTPLUS,
    LK_SOFTSIGN,
    LK_ELU,
    LK_SELU,
    LK_LEAKY_RELU,
    LK_SWISH,
    LK_HARD_SIGMOID,
    LK_MISH,
    LK_EXPONENTIAL,
    LK_SOFTMAX,
    LK_LOG_SOFTMAX,
    LK_CELU,
    LK_GLU, /* halves the last axis: only for lk_activate() and lk_activation_layer() */
    LK_HARD_SHRINK,
    LK_HARD_SILU,
    LK_HARD_TANH,
    LK_LOG_SIGMOID,
    LK_SOFT_SHRINK,
    LK_SPARSE_PLUS,
    LK_SPARSE_SIGMOID,
    LK_SPARSEMAX,
    LK_SQUAREPLUS,
    LK_TANH_SHRINK,
    LK_ACTIVATION_COUNT
} lk_activation;
typedef enum lk_padding { LK_VALID, LK_SAME, LK_CAUSAL } lk_padding;

LK_API lk_tensor *lk_activate(lk_tensor *x, lk_activation activation); /* by Keras' defaults: LK_LEAKY_RELU with 0.2 */

/* activation(x . kernel + bias) along the last axis of x, of any rank; bias may be NULL. */
LK_API lk_tensor *lk_nn_dense(lk_tensor *x, lk_tensor *kernel, lk_tensor *bias, lk_activation activation);

typedef struct lk_conv_args {
    const char   *kw_;
    lk_tensor    *x, *kernel; /* required */
    lk_tensor    *bias;       /* default none */
    lk_axes       strides;    /* default 1; one value is used for all directions */
    lk_padding    padding;    /* default LK_VALID; LK_CAUSAL in one dimension only */
    lk_axes       dilation;   /* default 1 */
    lk_activation activation; /* default LK_LINEAR */
    lk_tensor    *pointwise;  /* separable only, required there: [1, 1, in*multiplier, out] */
    lk_integer    groups; /* plain convolutions: default 1. Result channel q sees only group q / (out / groups) of the channels */
    lk_axes       output_padding; /* transposed: default: as many cells as fit; else cells at the end (layer_convolution.h) */
} lk_conv_args;
#define lk_nn_conv1d(...) lk_nn_conv1d_kw(LKI_KW(lk_conv_args, __VA_ARGS__))
#define lk_nn_conv2d(...) lk_nn_conv2d_kw(LKI_KW(lk_conv_args, __VA_ARGS__))
#define lk_nn_conv3d(...) lk_nn_conv3d_kw(LKI_KW(lk_conv_args, __VA_ARGS__))
#define lk_nn_depthwise_conv1d(...) lk_nn_depthwise_conv1d_kw(LKI_KW(lk_conv_args, __VA_ARGS__))
#define lk_nn_depthwise_conv2d(...) lk_nn_depthwise_conv2d_kw(LKI_KW(lk_conv_args, __VA_ARGS__))
#define lk_nn_separable_conv1d(...) lk_nn_separable_conv1d_kw(LKI_KW(lk_conv_args, __VA_ARGS__))
#define lk_nn_separable_conv2d(...) lk_nn_separable_conv2d_kw(LKI_KW(lk_conv_args, __VA_ARGS__))
#define lk_nn_conv1d_transpose(...) lk_nn_conv1d_transpose_kw(LKI_KW(lk_conv_args, __VA_ARGS__))
#define lk_nn_conv2d_transpose(...) lk_nn_conv2d_transpose_kw(LKI_KW(lk_conv_args, __VA_ARGS__))
#define lk_nn_conv3d_transpose(...) lk_nn_conv3d_transpose_kw(LKI_KW(lk_conv_args, __VA_ARGS__))
LK_API lk_tensor *lk_nn_conv1d_kw(lk_conv_args args); /* x [n, steps, in], kernel [size, in, out] */
LK_API lk_tensor *lk_nn_conv2d_kw(lk_conv_args args);
LK_API lk_tensor *lk_nn_conv3d_kw(lk_conv_args args);           /* kernel [depth, height, width, in, out] */
LK_API lk_tensor *lk_nn_depthwise_conv1d_kw(lk_conv_args args); /* kernel [size, in, multiplier] */
LK_API lk_tensor *lk_nn_depthwise_conv2d_kw(lk_conv_args args); /* kernel [height, width, in, multiplier] */
LK_API lk_tensor *lk_nn_separable_conv1d_kw(lk_conv_args args); /* pointwise [1, in*multiplier, out] */
LK_API lk_tensor *lk_nn_separable_conv2d_kw(lk_conv_args args);
LK_API lk_tensor *lk_nn_conv1d_transpose_kw(lk_conv_args args); /* kernel [size, out, in] */
LK_API lk_tensor *lk_nn_conv2d_transpose_kw(lk_conv_args args); /* kernel [height, width, out, in] */
LK_API lk_tensor *lk_nn_conv3d_transpose_kw(lk_conv_args args); /* kernel [depth, height, width, out, in] */

typedef struct lk_pool_args {
    const char *kw_;
    lk_tensor  *x;       /* required */
    lk_axes     size;    /* default 2; one value is used for all directions */
    lk_axes     strides; /* default: the size */
    lk_padding  padding; /* default LK_VALID */
} lk_pool_args;
#define lk_nn_max_pool2d(...) lk_nn_max_pool2d_kw(LKI_KW(lk_pool_args, __VA_ARGS__))
#define lk_nn_avg_pool2d(...) lk_nn_avg_pool2d_kw(LKI_KW(lk_pool_args, __VA_ARGS__))
#define lk_nn_max_pool3d(...) lk_nn_max_pool3d_kw(LKI_KW(lk_pool_args, __VA_ARGS__))
#define lk_nn_avg_pool3d(...) lk_nn_avg_pool3d_kw(LKI_KW(lk_pool_args, __VA_ARGS__))
#define lk_nn_max_pool1d(...) lk_nn_max_pool1d_kw(LKI_KW(lk_pool_args, __VA_ARGS__))
#define lk_nn_avg_pool1d(...) lk_nn_avg_pool1d_kw(LKI_KW(lk_pool_args, __VA_ARGS__))
LK_API lk_tensor *lk_nn_max_pool2d_kw(lk_pool_args args); /* the gradient goes to the first of equal values */
LK_API lk_tensor *lk_nn_avg_pool2d_kw(lk_pool_args args); /* divides by the cells inside the image */
LK_API lk_tensor *lk_nn_max_pool1d_kw(lk_pool_args args);
LK_API lk_tensor *lk_nn_avg_pool1d_kw(lk_pool_args args);
LK_API lk_tensor *lk_nn_max_pool3d_kw(lk_pool_args args);
LK_API lk_tensor *lk_nn_avg_pool3d_kw(lk_pool_args args);

/* [n, ..., c] to as many cells along each of the 1 to 3 middle axes as output_size says: windows that differ by at most one cell
 * in size and place. One value is used for all axes. */
LK_API lk_tensor *lk_nn_adaptive_max_pool(lk_tensor *x, lk_axes output_size);
LK_API lk_tensor *lk_nn_adaptive_avg_pool(lk_tensor *x, lk_axes output_size);
LK_API lk_tensor *lk_nn_global_max_pool(lk_tensor *x); /* [n, ..., c] to [n, c] */
LK_API lk_tensor *lk_nn_global_avg_pool(lk_tensor *x);

typedef struct lk_norm_args {
    const char *kw_;
    lk_tensor  *x;                             /* required */
    lk_tensor  *gamma, *beta;                  /* default none */
    lk_number   epsilon;                       /* default 0.001 */
    int         groups;                        /* group norm: required */
    lk_tensor  *moving_mean, *moving_variance; /* batch norm: required */
    lk_number   momentum;                      /* batch norm: default 0.99 */
    lk_switch   training;                      /* batch norm: default LK_OFF */
    lk_switch   synchronized; /* batch norm: default LK_ON: statistics of all replicas, which all call it; LK_OFF: of this one */
    lk_tensor  *mask;         /* batch norm, training: default none: bool [n, steps]; statistics are of the elements that count */
} lk_norm_args;
#define lk_nn_batch_norm(...) lk_nn_batch_norm_kw(LKI_KW(lk_norm_args, __VA_ARGS__))
#define lk_nn_layer_norm(...) lk_nn_layer_norm_kw(LKI_KW(lk_norm_args, __VA_ARGS__))
#define lk_nn_group_norm(...) lk_nn_group_norm_kw(LKI_KW(lk_norm_args, __VA_ARGS__))
/* The result is y; in training, three items: y and the updated moving mean and variance. Statistics are over all axes except the
 * last. */
LK_API lk_tuple   lk_nn_batch_norm_kw(lk_norm_args args);
LK_API lk_tensor *lk_nn_layer_norm_kw(lk_norm_args args); /* over the last axis */
LK_API lk_tensor *lk_nn_group_norm_kw(lk_norm_args args);

LK_API lk_tensor *lk_nn_embedding(lk_tensor *ids, lk_tensor *table);

typedef struct lk_dropout_args {
    const char *kw_;
    lk_tensor  *x;         /* required */
    double      rate;      /* required: 0 <= rate < 1 */
    const char *stream;    /* as lk_random_uniform */
    lk_tensor  *iteration; /* as lk_random_uniform */
    int64_t     call;
} lk_dropout_args;
#define lk_nn_dropout(...) lk_nn_dropout_kw(LKI_KW(lk_dropout_args, __VA_ARGS__))
LK_API lk_tensor *lk_nn_dropout_kw(lk_dropout_args args);

typedef struct lk_rnn_args {
    const char   *kw_;
    lk_tensor    *x;                     /* required: [n, steps, in] */
    lk_tensor    *kernel;                /* required: [in, gates*units]; LSTM i f c o, GRU z r h */
    lk_tensor    *recurrent;             /* required: [units, gates*units] */
    lk_tensor    *bias;                  /* default none: [gates*units]; GRU with reset_after [2, 3*units] */
    lk_tensor    *mask;                  /* default none: [n, steps] bool; false keeps the state and repeats the last output */
    lk_switch     return_sequences;      /* default LK_OFF: the last output */
    lk_switch     return_state;          /* default LK_OFF; LK_ON: a nest of the output, the last h and, for an LSTM, the last c */
    lk_switch     zero_output_for_mask;  /* default LK_OFF; LK_ON: the output of a masked step is 0 */
    lk_switch     reset_after;           /* GRU: default LK_ON */
    lk_tensor    *initial_h, *initial_c; /* default zeros */
    lk_switch     go_backwards;          /* default LK_OFF; LK_ON: from the last step to the first, and outputs in that order */
    lk_activation activation;            /* default LK_TANH */
    lk_activation recurrent_activation;  /* of the gates; LSTM, GRU: default LK_SIGMOID */
    double        dropout;               /* of the inputs: default 0; a row drops the same inputs at all steps */
    double        recurrent_dropout;     /* of the previous state, likewise; each gate draws its own */
    const char   *stream;                /* of dropout, as lk_random_uniform */
    lk_tensor    *iteration;             /* likewise */
} lk_rnn_args;
#define lk_nn_lstm(...) lk_nn_lstm_kw(LKI_KW(lk_rnn_args, __VA_ARGS__))
#define lk_nn_gru(...) lk_nn_gru_kw(LKI_KW(lk_rnn_args, __VA_ARGS__))
#define lk_nn_simple_rnn(...) lk_nn_simple_rnn_kw(LKI_KW(lk_rnn_args, __VA_ARGS__))
LK_API lk_tensor *lk_nn_lstm_kw(lk_rnn_args args);
LK_API lk_tensor *lk_nn_gru_kw(lk_rnn_args args);
LK_API lk_tensor *lk_nn_simple_rnn_kw(lk_rnn_args args);

/* softmax(query . key^T / sqrt(d) + mask) . value; [..., steps, d] each; mask (bool, NULL: none) broadcasts to [..., query,
 * key]. */
LK_API lk_tensor *lk_nn_attention(lk_tensor *query, lk_tensor *key, lk_tensor *value, lk_tensor *mask);

typedef struct lk_attention_args {
    const char *kw_;
    lk_tensor  *query, *value; /* required: [n, steps, width] */
    lk_tensor  *key;           /* default: value */
    /* required: [width, heads, key_dim]; value: [width, heads, value_dim]. Key and value may have fewer heads, each for several
     * of the query's. */
    lk_tensor  *query_kernel, *key_kernel, *value_kernel;
    lk_tensor  *output_kernel;                      /* required: [heads, value_dim, out] */
    lk_tensor  *query_bias, *key_bias, *value_bias; /* default none: [heads, key_dim]; value: [heads, value_dim] */
    lk_tensor  *gate_kernel, *gate_bias;            /* default none: [width, heads, value_dim]: its sigmoid multiplies */
    lk_tensor  *output_bias;                        /* default none: [out] */
    lk_tensor  *mask;                               /* default none: [n, query, value] bool, true = attend */
    lk_switch   use_causal_mask; /* default LK_OFF; LK_ON: a step attends to itself and earlier steps, where the mask allows it */
    int64_t     sliding_window;  /* default 0, none: a step attends to steps less than this far away */
    lk_switch   zero_masked;     /* default LK_OFF: a step that may attend to none attends to all alike; LK_ON: to none */
    lk_switch   return_attention_scores; /* default LK_OFF; LK_ON: a nest of the result and the weights, [n, heads, query, value] */
    double      dropout;                 /* of attention weights: default 0 */
    const char *stream;                  /* of what is dropped, as lk_random_uniform */
    lk_tensor  *iteration;               /* likewise */
} lk_attention_args;
#define lk_nn_multi_head_attention(...) lk_nn_multi_head_attention_kw(LKI_KW(lk_attention_args, __VA_ARGS__))
LK_API lk_tensor *lk_nn_multi_head_attention_kw(lk_attention_args args);

/* ---- losses: one value per example ------------------------------------------------------------------------------------------- */

typedef struct lk_loss_args {
    const char *kw_;
    lk_tensor  *labels, *predictions; /* required */
    lk_switch   from_logits;          /* cross-entropies: default LK_OFF. For results of softmax or sigmoid, its operand is used */
    double      label_smoothing;      /* categorical and binary cross-entropy: default 0 */
    lk_number   ignore_class;         /* default none; sparse only */
    lk_number   delta;                /* Huber: default 1 */
    lk_axes     axis;  /* categorical, binary and focal cross-entropies: that of the classes, default -1. dice and tversky: those to
                        * sum over, default all: the rows of the whole batch together */
    lk_number   alpha; /* focal cross-entropies: default 0.25; tversky: 0.5, the weight of false positives */
    lk_number   beta;  /* tversky: default 0.5, the weight of false negatives */
    lk_number   gamma; /* focal cross-entropies: default 2; circle: 80 */
    lk_switch   apply_class_balancing; /* binary focal cross-entropy: default LK_OFF */
    lk_number   q;                     /* generalised cross-entropy: default 0.5, above 0 and below 1 */
    lk_number   margin;                /* circle: default 0.4 */
    lk_switch   remove_diagonal;       /* circle: default LK_ON, a row is not compared with itself */
} lk_loss_args;
#define LK_LOSS_LIST(X)                                                                                                            \
    X(sparse_categorical_crossentropy)                                                                                             \
    X(categorical_crossentropy)                                                                                                    \
    X(binary_crossentropy)                                                                                                         \
    X(mean_squared_error)                                                                                                          \
    X(mean_absolute_error)                                                                                                         \
    X(huber)                                                                                                                       \
    X(log_cosh)                                                                                                                    \
    X(hinge)                                                                                                                       \
    X(kl_divergence)                                                                                                               \
    X(mean_absolute_percentage_error)                                                                                              \
    X(mean_squared_logarithmic_error)                                                                                              \
    X(cosine_similarity)                                                                                                           \
    X(poisson)                                                                                                                     \
    X(squared_hinge)                                                                                                               \
    X(categorical_hinge)                                                                                                           \
    X(binary_focal_crossentropy)                                                                                                   \
    X(categorical_focal_crossentropy)                                                                                              \
    X(categorical_generalized_cross_entropy)                                                                                       \
    X(dice)                                                                                                                        \
    X(tversky)                                                                                                                     \
    X(circle)                                                                                                                      \
    X(ctc)
#define lk_nn_sparse_categorical_crossentropy(...) lk_nn_sparse_categorical_crossentropy_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_categorical_crossentropy(...) lk_nn_categorical_crossentropy_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_binary_crossentropy(...) lk_nn_binary_crossentropy_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_mean_squared_error(...) lk_nn_mean_squared_error_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_mean_absolute_error(...) lk_nn_mean_absolute_error_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_huber(...) lk_nn_huber_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_log_cosh(...) lk_nn_log_cosh_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_hinge(...) lk_nn_hinge_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_kl_divergence(...) lk_nn_kl_divergence_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_mean_absolute_percentage_error(...) lk_nn_mean_absolute_percentage_error_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_mean_squared_logarithmic_error(...) lk_nn_mean_squared_logarithmic_error_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_cosine_similarity(...) lk_nn_cosine_similarity_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_poisson(...) lk_nn_poisson_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_squared_hinge(...) lk_nn_squared_hinge_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_categorical_hinge(...) lk_nn_categorical_hinge_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_binary_focal_crossentropy(...) lk_nn_binary_focal_crossentropy_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_categorical_focal_crossentropy(...) lk_nn_categorical_focal_crossentropy_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_categorical_generalized_cross_entropy(...)                                                                           \
    lk_nn_categorical_generalized_cross_entropy_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_dice(...) lk_nn_dice_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_tversky(...) lk_nn_tversky_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_circle(...) lk_nn_circle_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define lk_nn_ctc(...) lk_nn_ctc_kw(LKI_KW(lk_loss_args, __VA_ARGS__))
#define LKI_LOSS_DECLARE(name) LK_API lk_tensor *lk_nn_##name##_kw(lk_loss_args args);
LK_LOSS_LIST(LKI_LOSS_DECLARE)
#undef LKI_LOSS_DECLARE

typedef enum lk_reduction {
    LK_REDUCTION_AUTO = 0,
    LK_REDUCTION_NONE = 1,
    LK_REDUCTION_SUM,
    LK_REDUCTION_SUM_OVER_BATCH_SIZE,
    LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT,
    LK_REDUCTION_MEAN = LK_REDUCTION_SUM_OVER_BATCH_SIZE
} lk_reduction;

/* values * weights (NULL: 1), then the reduction. */
LK_API lk_tensor *lk_nn_reduce_loss(lk_tensor *values, lk_tensor *weights, lk_reduction reduction);

/* The divisor of an average over the rows of a batch, where replicas may have different numbers of rows. */
typedef enum lk_denominator {
    LK_DENOMINATOR_DEFAULT = 0,
    LK_PER_REPLICA, /* number of replicas * rows of this replica */
    LK_EXACT,       /* rows of the whole batch: the same result for any split */
} lk_denominator;

typedef struct lk_average_args {
    const char    *kw_;
    lk_tensor     *per_example_loss;  /* required: at least one axis */
    lk_tensor     *sample_weight;     /* default none */
    lk_integer     global_batch_size; /* default: as denominator says */
    lk_number      batch_size;        /* another name for global_batch_size */
    lk_denominator denominator;       /* default LK_PER_REPLICA */
} lk_average_args;

/* The sum of all elements, divided by the global batch size; each row is divided before it is summed. 0 when that size is 0. */
#define lk_compute_average_loss(...) lk_compute_average_loss_kw(LKI_KW(lk_average_args, __VA_ARGS__))
LK_API lk_tensor *lk_compute_average_loss_kw(lk_average_args args);

LK_API lk_tensor *lk_nn_l1(lk_tensor *w, double c); /* c * sum |w| */
LK_API lk_tensor *lk_nn_l2(lk_tensor *w, double c); /* c * sum w^2 */

/* ---- initial values: a pure function of the seed and the stream's name ------------------------------------------------------- */

LK_API lk_tensor *lk_glorot_uniform(lk_shape shape, const char *stream);
LK_API lk_tensor *lk_glorot_normal(lk_shape shape, const char *stream);
LK_API lk_tensor *lk_he_uniform(lk_shape shape, const char *stream);
LK_API lk_tensor *lk_he_normal(lk_shape shape, const char *stream);

LK_END

#endif
