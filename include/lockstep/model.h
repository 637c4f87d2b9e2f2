/* Layers with their variables, models made of them, losses and metrics as objects; Keras' names and defaults.
 *
 *     lk_model  *model = lk_sequential(lk_flatten(), lk_dense(64, .activation = LK_RELU), lk_dense(10));
 *     lk_tensor *logits = lk_model_call(model, images, .training = LK_ON);
 *
 * A model makes its variables when it is made, if its first layer has an input_shape, else at the first call, also inside run and
 * while a function is traced; under the strategy that was current when the model was made. Names and first values follow from the
 * position in the model, never from the order in which layers were made: two models of the same layers begin with the same
 * weights. */
#ifndef LOCKSTEP_MODEL_H
#define LOCKSTEP_MODEL_H

#include "nn.h"
#include "optimizer.h"
#include "strategy.h"

LK_BEGIN

/* ---- regularisers -------------------------------------------------------------------------------------------------------- */

typedef struct lk_regularizer lk_regularizer;
LK_API lk_regularizer        *lk_l1(double c); /* c * sum |x| */
LK_API lk_regularizer        *lk_l2(double c); /* c * sum x^2 */
LK_API lk_regularizer        *lk_l1_l2(double l1, double l2);
LK_API lk_tensor             *lk_regularizer_call(const lk_regularizer *r, lk_tensor *x);

/* ---- layers -------------------------------------------------------------------------------------------------------------- */

/* A layer belongs to one model, as long as that lives. NULL and an error for arguments it cannot have. */
typedef struct lk_layer lk_layer;

/* What every layer takes. */
#define LKI_LAYER_COMMON                                                                                                           \
    const char *name;       /* default: "dense", "dense_1", ... by position */                                                     \
    lk_shape    input_shape /* of one row, without the batch; default: seen at the first call */

typedef struct lk_dense_args {
    char            kw_;
    int64_t         units;                                                        /* required */
    lk_activation   activation;                                                   /* default LK_LINEAR */
    lk_switch       use_bias;                                                     /* default LK_ON */
    lk_regularizer *kernel_regularizer, *bias_regularizer, *activity_regularizer; /* default none */
    LKI_LAYER_COMMON;
} lk_dense_args;
#define lk_dense(...) lk_dense_kw(LKI_KW(lk_dense_args, __VA_ARGS__))
LK_API lk_layer *lk_dense_kw(lk_dense_args args);

typedef struct lk_conv2d_args {
    char            kw_;
    int64_t         filters;                                                      /* required */
    int64_t         kernel_size;                                                  /* required: square; or kernel_shape */
    lk_axes         kernel_shape;                                                 /* instead: LK_AXES(3, 5) */
    lk_axes         strides;                                                      /* default 1 */
    lk_padding      padding;                                                      /* default LK_VALID */
    lk_axes         dilation;                                                     /* default 1 */
    lk_activation   activation;                                                   /* default LK_LINEAR */
    lk_switch       use_bias;                                                     /* default LK_ON */
    lk_regularizer *kernel_regularizer, *bias_regularizer, *activity_regularizer; /* default none */
    LKI_LAYER_COMMON;
} lk_conv2d_args;
#define lk_conv2d(...) lk_conv2d_kw(LKI_KW(lk_conv2d_args, __VA_ARGS__))
LK_API lk_layer *lk_conv2d_kw(lk_conv2d_args args);

typedef struct lk_pooling2d_args {
    char       kw_;
    lk_axes    pool_size; /* default 2 */
    lk_axes    strides;   /* default: pool_size */
    lk_padding padding;   /* default LK_VALID */
    LKI_LAYER_COMMON;
} lk_pooling2d_args;
#define lk_max_pooling2d(...) lk_max_pooling2d_kw(LKI_KW(lk_pooling2d_args, __VA_ARGS__))
LK_API lk_layer *lk_max_pooling2d_kw(lk_pooling2d_args args);

typedef struct lk_flatten_args {
    char kw_;
    LKI_LAYER_COMMON;
} lk_flatten_args;
#define lk_flatten(...) lk_flatten_kw(LKI_KW(lk_flatten_args, __VA_ARGS__))
LK_API lk_layer *lk_flatten_kw(lk_flatten_args args);

/* Draws by the seed, the layer's place, the number of the model's training calls and the global row. */
typedef struct lk_dropout_layer_args {
    char   kw_;
    double rate; /* required */
    LKI_LAYER_COMMON;
} lk_dropout_layer_args;
#define lk_dropout(...) lk_dropout_kw(LKI_KW(lk_dropout_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_dropout_kw(lk_dropout_layer_args args);

typedef struct lk_batch_normalization_args {
    char      kw_;
    lk_number momentum;      /* default 0.99 */
    lk_number epsilon;       /* default 0.001 */
    lk_switch center, scale; /* default LK_ON */
    lk_switch synchronized;  /* default LK_ON: statistics of the whole batch; LK_OFF: each replica's, moving ones sync-on-read */
    LKI_LAYER_COMMON;
} lk_batch_normalization_args;
#define lk_batch_normalization(...) lk_batch_normalization_kw(LKI_KW(lk_batch_normalization_args, __VA_ARGS__))
LK_API lk_layer *lk_batch_normalization_kw(lk_batch_normalization_args args);

/* ---- models -------------------------------------------------------------------------------------------------------------- */

typedef struct lk_model lk_model;

#define lk_sequential(...) lk_sequential_of((int)LKI_N(lk_layer *, 0, __VA_ARGS__) - 1, (lk_layer *const[]){0, __VA_ARGS__})
LK_API lk_model *lk_sequential_of(int count, lk_layer *const *one_based);

typedef struct lk_model_call_args {
    char       kw_;
    lk_model  *model;    /* required */
    lk_tensor *x;        /* required: rows; floats of another type than the weights are cast */
    lk_switch  training; /* default LK_OFF */
} lk_model_call_args;
#define lk_model_call(...) lk_model_call_kw(LKI_KW(lk_model_call_args, __VA_ARGS__))
LK_API lk_tensor *lk_model_call_kw(lk_model_call_args args);

/* Make the variables now, for rows of this shape.
 * Order   inside run all replicas call this together, as they do a first lk_model_call(). */
LK_API lk_status lk_model_build(lk_model *m, lk_shape input_shape);

/* Empty before they are made. */
LK_API lk_variables lk_model_variables(lk_model *m); /* trainable ones first, then the others, then the state of dropout, if any */
LK_API lk_variables lk_model_trainable_variables(lk_model *m);
LK_API lk_variables lk_model_weights(lk_model *m); /* layer by layer, in Keras' order; without the state of dropout */
LK_API int64_t      lk_model_count_params(lk_model *m);
LK_API lk_digest    lk_model_digest(lk_model *m); /* of the weights */

/* Add a term to lk_model_losses(), until the next call of the model on this thread: a scalar, or one value (or several) per row,
 * summed and divided by the rows on this replica. */
LK_API lk_status lk_model_add_loss(lk_model *m, lk_tensor *loss);

/* One term per regularised weight, by its value now; then what activity regularisers and lk_model_add_loss() added since the last
 * call on this thread began. Empty when there are none. */
LK_API lk_tuple lk_model_losses(lk_model *m);

/* ---- losses -------------------------------------------------------------------------------------------------------------- */

typedef struct lk_loss lk_loss;

typedef struct lk_loss_object_args {
    char         kw_;
    lk_reduction reduction;   /* default AUTO: the mean; as SUM_OVER_BATCH_SIZE an error in a custom loop under a strategy */
    lk_switch    from_logits; /* these as in lk_nn_<name>; an error for a loss that has no such option */
    double       label_smoothing;
    lk_number    ignore_class;
    lk_number    delta;
    const char  *name; /* default: that of the function */
} lk_loss_object_args;
#define LKI_LOSS_OBJECT(name) LK_API lk_loss *lk_##name##_kw(lk_loss_object_args args);
LK_LOSS_LIST(LKI_LOSS_OBJECT)
#undef LKI_LOSS_OBJECT
#define lk_sparse_categorical_crossentropy(...) lk_sparse_categorical_crossentropy_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_categorical_crossentropy(...) lk_categorical_crossentropy_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_binary_crossentropy(...) lk_binary_crossentropy_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_mean_squared_error(...) lk_mean_squared_error_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_mean_absolute_error(...) lk_mean_absolute_error_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_huber(...) lk_huber_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_log_cosh(...) lk_log_cosh_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_hinge(...) lk_hinge_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_kl_divergence(...) lk_kl_divergence_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))

typedef struct lk_loss_call_args {
    char       kw_;
    lk_loss   *loss;                 /* required */
    lk_tensor *labels, *predictions; /* required; [n] and [n, 1] are the same rows */
    lk_tensor *sample_weight;        /* default none; missing axes are added behind */
    lk_tensor *mask;                 /* default none: bool; what is left out counts 0, and a mean is one of the others */
} lk_loss_call_args;
#define lk_loss_call(...) lk_loss_call_kw(LKI_KW(lk_loss_call_args, __VA_ARGS__))
LK_API lk_tensor *lk_loss_call_kw(lk_loss_call_args args);

/* ---- metrics ------------------------------------------------------------------------------------------------------------- */

typedef struct lk_metric lk_metric;

typedef struct lk_metric_args {
    char        kw_;
    const char *name; /* default "mean", "sparse_categorical_accuracy", ... */
} lk_metric_args;
#define lk_mean(...) lk_mean_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_sum_metric(...) lk_sum_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_sparse_categorical_accuracy(...) lk_sparse_categorical_accuracy_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
LK_API lk_metric *lk_mean_kw(lk_metric_args args);
LK_API lk_metric *lk_sum_metric_kw(lk_metric_args args);
LK_API lk_metric *lk_sparse_categorical_accuracy_kw(lk_metric_args args);

typedef struct lk_metric_update_args {
    char       kw_;
    lk_metric *metric;        /* required */
    lk_tensor *a, *b;         /* mean and sum: values; accuracies: labels, predictions */
    lk_tensor *sample_weight; /* default none; missing axes are added behind */
} lk_metric_update_args;

/* Count values in, every element. Inside run every replica counts its own, and nobody waits; also in compiled functions. */
#define lk_metric_update(...) lk_metric_update_kw(LKI_KW(lk_metric_update_args, __VA_ARGS__))
LK_API lk_status lk_metric_update_kw(lk_metric_update_args args);

/* Over all replicas, and the same bits for any number of them; inside run, of this replica only. 0 before anything was counted.
 * Errors  NaN while a function is traced. */
LK_API double lk_metric_result(const lk_metric *m);

LK_API lk_status    lk_metric_reset(lk_metric *m); /* inside run: all replicas together */
LK_API const char  *lk_metric_name(const lk_metric *m);
LK_API lk_variables lk_metric_variables(lk_metric *m); /* total and count, f64, one number per lane */
#define lk_metric_reset_state lk_metric_reset
#define lk_metric_reset_states lk_metric_reset

LK_END

#endif
