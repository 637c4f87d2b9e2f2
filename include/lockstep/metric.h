/* Metrics: values accumulated over the rows of an epoch, and a result computed from them.
 *
 *     lk_metric *auc = lk_auc(.curve = "PR");
 *     lk_metric_update(auc, labels, predictions);      for each batch, inside run too
 *     printf("%g\n", lk_metric_result(auc));           over all batches and replicas
 *
 * Every metric sums a few numbers over rows and computes its result from the sums. The sums are kept per lane, in double, and added
 * along one tree, so results do not depend on how batches are split. */
#ifndef LOCKSTEP_METRIC_H
#define LOCKSTEP_METRIC_H

#include "nn.h"
#include "strategy.h"

LK_BEGIN

typedef struct lk_metric lk_metric;

typedef struct lk_metric_args { /* an option that the metric does not have is an error */
    const char *kw_;
    const char *name;           /* default as in Keras: "mean", "sparse_categorical_accuracy", ... */
    int         output;         /* with lk_model_compile(): the model's output; default 0 */
    lk_number   threshold;      /* for predicted values (accuracy, precision, true_positives, ...): default 0.5; f1: the largest */
    lk_integer  k;              /* top_k: default 5 */
    lk_number   class_id;       /* precision, recall: count this class only; default: all */
    lk_integer  num_thresholds; /* auc: default 200 */
    lk_switch   from_logits;    /* auc, cross-entropies: default LK_OFF */
    const char *curve;          /* auc: default "ROC"; "PR", "PRGAIN" */
    lk_integer  num_classes;    /* confusion_matrix, f1: default: the classes of the first predictions; iou: required */
    const char *average;        /* f1, fbeta: default none: one value per class; "micro", "macro", "weighted" */
    lk_tensor  *thresholds;     /* instead of threshold, a list: one value for each. auc: instead of num_thresholds */
    lk_integer  top_k;          /* precision, recall: only the k largest predictions count as positive; default: all */
    lk_switch   multi_label;    /* auc: default LK_OFF; the mean over the labels of the last axis */
    lk_integer  num_labels;     /* auc with multi_label: default: those of the first predictions */
    lk_tensor  *label_weights;  /* auc: a weight for each label; default: equal ones */
    const char *summation_method;             /* auc: default "interpolation"; "minoring", "majoring" */
    double      label_smoothing;              /* categorical and binary cross-entropy: default 0 */
    lk_number   ignore_class;                 /* iou, sparse cross-entropy: a label that does not count; default none */
    lk_axis     axis;                         /* cross-entropies, correlations, iou: that of the classes or values, default -1 */
    lk_tensor  *target_class_ids;             /* iou, one_hot_iou: required; binary_iou: default 0 and 1; others: all classes */
    lk_switch   sparse_y_true, sparse_y_pred; /* iou: default LK_ON: classes, not a number for each; one_hot: LK_OFF */
    lk_number   beta;                         /* fbeta: default 1 */
    const char *class_aggregation; /* r2: default "uniform_average"; "variance_weighted_average"; "none": one per output */
    int         num_regressors;    /* r2: default 0; above 0: the adjusted score */
    lk_number   recall, precision, sensitivity, specificity; /* required by the metric that is named after it */
} lk_metric_args;

/* Name, and the Keras class (Keras has no ConfusionMatrix). All except mean and sum compare labels with predictions. */
#define LK_METRIC_LIST(X)                                                                                                          \
    X(mean, "Mean")                                                                                                                \
    X(sum_metric, "Sum")                                                                                                           \
    X(accuracy, "Accuracy") /* binary, categorical or sparse, chosen by the shapes, like the string "accuracy" in Keras */         \
    X(binary_accuracy, "BinaryAccuracy")                                                                                           \
    X(categorical_accuracy, "CategoricalAccuracy")                                                                                 \
    X(sparse_categorical_accuracy, "SparseCategoricalAccuracy")                                                                    \
    X(top_k_categorical_accuracy, "TopKCategoricalAccuracy")                                                                       \
    X(sparse_top_k_categorical_accuracy, "SparseTopKCategoricalAccuracy")                                                          \
    X(precision, "Precision")                                                                                                      \
    X(recall, "Recall")                                                                                                            \
    X(auc, "AUC")                                                                                                                  \
    X(f1_score, "F1Score")                                                                                                         \
    X(true_positives, "TruePositives")                                                                                             \
    X(true_negatives, "TrueNegatives")                                                                                             \
    X(false_positives, "FalsePositives")                                                                                           \
    X(false_negatives, "FalseNegatives")                                                                                           \
    X(mean_squared_error_metric, "MeanSquaredError")                                                                               \
    X(root_mean_squared_error_metric, "RootMeanSquaredError")                                                                      \
    X(mean_absolute_error_metric, "MeanAbsoluteError")                                                                             \
    X(cosine_similarity_metric, "CosineSimilarity")                                                                                \
    X(categorical_crossentropy_metric, "CategoricalCrossentropy")                                                                  \
    X(sparse_categorical_crossentropy_metric, "SparseCategoricalCrossentropy")                                                     \
    X(binary_crossentropy_metric, "BinaryCrossentropy")                                                                            \
    X(kl_divergence_metric, "KLDivergence")                                                                                        \
    X(mean_absolute_percentage_error_metric, "MeanAbsolutePercentageError")                                                        \
    X(mean_squared_logarithmic_error_metric, "MeanSquaredLogarithmicError")                                                        \
    X(log_cosh_error_metric, "LogCoshError")                                                                                       \
    X(poisson_metric, "Poisson")                                                                                                   \
    X(hinge_metric, "Hinge")                                                                                                       \
    X(squared_hinge_metric, "SquaredHinge")                                                                                        \
    X(categorical_hinge_metric, "CategoricalHinge")                                                                                \
    X(exact_accuracy, "Accuracy") /* how often predictions equal labels */                                                         \
    X(fbeta_score, "FBetaScore")                                                                                                   \
    X(r2_score, "R2Score")                                                                                                         \
    X(pearson_correlation, "PearsonCorrelation")                                                                                   \
    X(concordance_correlation, "ConcordanceCorrelation")                                                                           \
    X(iou, "IoU")                                                                                                                  \
    X(binary_iou, "BinaryIoU")                                                                                                     \
    X(mean_iou, "MeanIoU")                                                                                                         \
    X(one_hot_iou, "OneHotIoU")                                                                                                    \
    X(one_hot_mean_iou, "OneHotMeanIoU")                                                                                           \
    X(precision_at_recall, "PrecisionAtRecall")                                                                                    \
    X(recall_at_precision, "RecallAtPrecision")                                                                                    \
    X(sensitivity_at_specificity, "SensitivityAtSpecificity")                                                                      \
    X(specificity_at_sensitivity, "SpecificityAtSensitivity")                                                                      \
    X(confusion_matrix, "ConfusionMatrix") /* lk_metric_results(): [classes, classes], rows are labels; lk_metric_result(): the
                                            * accuracy */
#define LKI_METRIC_DECLARE(name, class) LK_API lk_metric *lk_##name##_kw(lk_metric_args args);
LK_METRIC_LIST(LKI_METRIC_DECLARE)
#undef LKI_METRIC_DECLARE
#define lk_mean(...) lk_mean_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_sum_metric(...) lk_sum_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_accuracy(...) lk_accuracy_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_binary_accuracy(...) lk_binary_accuracy_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_categorical_accuracy(...) lk_categorical_accuracy_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_sparse_categorical_accuracy(...) lk_sparse_categorical_accuracy_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_top_k_categorical_accuracy(...) lk_top_k_categorical_accuracy_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_sparse_top_k_categorical_accuracy(...) lk_sparse_top_k_categorical_accuracy_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_precision(...) lk_precision_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_recall(...) lk_recall_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_auc(...) lk_auc_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_f1_score(...) lk_f1_score_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_true_positives(...) lk_true_positives_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_true_negatives(...) lk_true_negatives_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_false_positives(...) lk_false_positives_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_false_negatives(...) lk_false_negatives_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_mean_squared_error_metric(...) lk_mean_squared_error_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_root_mean_squared_error_metric(...) lk_root_mean_squared_error_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_mean_absolute_error_metric(...) lk_mean_absolute_error_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_cosine_similarity_metric(...) lk_cosine_similarity_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_categorical_crossentropy_metric(...) lk_categorical_crossentropy_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_sparse_categorical_crossentropy_metric(...)                                                                             \
    lk_sparse_categorical_crossentropy_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_binary_crossentropy_metric(...) lk_binary_crossentropy_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_kl_divergence_metric(...) lk_kl_divergence_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_mean_absolute_percentage_error_metric(...)                                                                              \
    lk_mean_absolute_percentage_error_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_mean_squared_logarithmic_error_metric(...)                                                                              \
    lk_mean_squared_logarithmic_error_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_log_cosh_error_metric(...) lk_log_cosh_error_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_poisson_metric(...) lk_poisson_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_hinge_metric(...) lk_hinge_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_squared_hinge_metric(...) lk_squared_hinge_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_categorical_hinge_metric(...) lk_categorical_hinge_metric_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_exact_accuracy(...) lk_exact_accuracy_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_fbeta_score(...) lk_fbeta_score_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_r2_score(...) lk_r2_score_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_pearson_correlation(...) lk_pearson_correlation_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_concordance_correlation(...) lk_concordance_correlation_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_iou(...) lk_iou_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_binary_iou(...) lk_binary_iou_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_mean_iou(...) lk_mean_iou_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_one_hot_iou(...) lk_one_hot_iou_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_one_hot_mean_iou(...) lk_one_hot_mean_iou_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_precision_at_recall(...) lk_precision_at_recall_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_recall_at_precision(...) lk_recall_at_precision_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_sensitivity_at_specificity(...) lk_sensitivity_at_specificity_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_specificity_at_sensitivity(...) lk_specificity_at_sensitivity_kw(LKI_KW(lk_metric_args, __VA_ARGS__))
#define lk_confusion_matrix(...) lk_confusion_matrix_kw(LKI_KW(lk_metric_args, __VA_ARGS__))

/* A metric by its Keras name, such as "accuracy", "mae", "auc" or "SparseCategoricalAccuracy", with default options; `name` becomes
 * the metric's name. For an unknown name, NULL and an error that lists the names. */
LK_API lk_metric *lk_metric_named(const char *name);

/* A metric from custom functions. `values` returns `size` numbers for each row, [rows, size] (or [rows] for one), weighted by the
 * sample weights, which may be NULL. They are summed over all rows, and `result` computes the metric from the sums. */
typedef lk_tensor *(*lk_metric_values_fn)(lk_tensor *labels, lk_tensor *predictions, lk_tensor *sample_weight, void *user);
typedef double (*lk_metric_result_fn)(int size, const double *sums, void *user);
typedef struct lk_own_metric_args {
    const char         *kw_;
    lk_metric_values_fn values; /* required */
    lk_metric_result_fn result; /* default, with size 1: the mean over the rows */
    lk_integer          size;   /* default 1 */
    void               *user;
    const char         *name; /* default "own_metric" */
    int                 output;
} lk_own_metric_args;
#define lk_metric_of(...) lk_metric_of_kw(LKI_KW(lk_own_metric_args, __VA_ARGS__))
LK_API lk_metric *lk_metric_of_kw(lk_own_metric_args args);

typedef struct lk_metric_update_args {
    const char *kw_;
    lk_metric  *metric;        /* required */
    lk_tensor  *a, *b;         /* mean and sum: a, the values; others: labels, predictions */
    lk_tensor  *sample_weight; /* default none; missing trailing axes are added */
} lk_metric_update_args;

/* Add values to a metric. Inside lk_run() each replica adds its own and does not wait for others. Also in compiled functions. */
#define lk_metric_update(...) lk_metric_update_kw(LKI_KW(lk_metric_update_args, __VA_ARGS__))
LK_API lk_status lk_metric_update_kw(lk_metric_update_args args);

/* The result over all replicas, with the same bits for any number of them; inside lk_run(), of this replica only. 0 before the
 * first update. For a metric with several results (f1_score without average), their mean.
 * Errors  NaN while a function is traced. */
LK_API double lk_metric_result(const lk_metric *m);

/* All results, f64: f1_score [classes], confusion_matrix [classes, classes] (labels out of range are not counted); other metrics: a
 * scalar. */
LK_API lk_tensor *lk_metric_results(const lk_metric *m);

LK_API lk_status    lk_metric_reset(lk_metric *m); /* inside lk_run() all replicas call this together */
LK_API const char  *lk_metric_name(const lk_metric *m);
LK_API lk_variables lk_metric_variables(lk_metric *m); /* f64, one entry per lane: total and count of means; of others as in
                                                        * Keras */
#define lk_metric_reset_state lk_metric_reset
#define lk_metric_reset_states lk_metric_reset

LK_END

#endif
