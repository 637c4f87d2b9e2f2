/* Losses as objects: a function of labels and predictions, its options, and the reduction of its values to one number. */
#ifndef LOCKSTEP_LOSS_H
#define LOCKSTEP_LOSS_H

#include "nn.h"
#include "strategy.h"

LK_BEGIN

typedef struct lk_loss lk_loss;

typedef struct lk_loss_object_args {
    const char  *kw_;
    lk_reduction reduction;   /* default AUTO: the mean. AUTO and SUM_OVER_BATCH_SIZE are errors in a custom loop under a
                               * strategy */
    lk_switch    from_logits; /* from here on as in lk_nn_<name>; an error for a loss without that option */
    double       label_smoothing;
    lk_number    ignore_class;
    lk_number    delta;
    lk_axes      axis;
    lk_number    alpha, beta, gamma;
    lk_switch    apply_class_balancing;
    lk_number    q, margin;
    lk_switch    remove_diagonal;
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
#define lk_mean_absolute_percentage_error(...) lk_mean_absolute_percentage_error_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_mean_squared_logarithmic_error(...) lk_mean_squared_logarithmic_error_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_cosine_similarity(...) lk_cosine_similarity_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_poisson(...) lk_poisson_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_squared_hinge(...) lk_squared_hinge_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_categorical_hinge(...) lk_categorical_hinge_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_binary_focal_crossentropy(...) lk_binary_focal_crossentropy_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_categorical_focal_crossentropy(...) lk_categorical_focal_crossentropy_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_categorical_generalized_cross_entropy(...)                                                                              \
    lk_categorical_generalized_cross_entropy_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_dice(...) lk_dice_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_tversky(...) lk_tversky_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_circle(...) lk_circle_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))
#define lk_ctc(...) lk_ctc_kw(LKI_KW(lk_loss_object_args, __VA_ARGS__))

typedef struct lk_loss_call_args {
    const char *kw_;
    lk_loss    *loss;                 /* required */
    lk_tensor  *labels, *predictions; /* required; [n] and [n, 1] are the same rows */
    lk_tensor  *sample_weight;        /* default none; missing trailing axes are added */
    lk_tensor  *mask;                 /* bool, default that of the predictions: where it is false values count as 0, not in means */
} lk_loss_call_args;
#define lk_loss_call(...) lk_loss_call_kw(LKI_KW(lk_loss_call_args, __VA_ARGS__))
LK_API lk_tensor *lk_loss_call_kw(lk_loss_call_args args);

/* A loss from a custom function, which returns one value (or several) per row. */
typedef lk_tensor *(*lk_loss_fn)(lk_tensor *labels, lk_tensor *predictions, void *user);
typedef struct lk_own_loss_args {
    const char  *kw_;
    lk_loss_fn   fn; /* required */
    void        *user;
    lk_reduction reduction; /* default AUTO: the mean */
    const char  *name;      /* default "own_loss" */
} lk_own_loss_args;
#define lk_loss_of(...) lk_loss_of_kw(LKI_KW(lk_own_loss_args, __VA_ARGS__))
LK_API lk_loss *lk_loss_of_kw(lk_own_loss_args args);

/* A loss by its Keras name, such as "mse", "sparse_categorical_crossentropy" or "SparseCategoricalCrossentropy", with default
 * options. For an unknown name, NULL and an error that lists the names. */
LK_API lk_loss    *lk_loss_named(const char *name);
LK_API const char *lk_loss_name(const lk_loss *l);

LK_END

#endif
