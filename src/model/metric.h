/* The internals of metrics: an object, a table per kind, its arguments, and its sums.
 *
 * Every metric is a sum over rows of a few numbers, and a function of the sum. A kind defines what is summed, under which names,
 * and the result; metric.c does the rest: weights, lanes, replicas, resets.
 *
 * Invariants
 *  1. A sum is an f64 variable [lanes, entry...]. Rows are added to their lanes. Values that are not rows, or are from a batch that
 *     only one replica has, are added to the first lane of that replica. So every replica writes its own lanes: no replica waits,
 *     and nothing depends on the number of replicas.
 *  2. A result adds the lanes up the tree, (0,1) (2,3) ..., then pairs of those. Inside run it adds the lanes of this replica only.
 *  3. Updates are ops on variables: they run at once or are recorded while a function is traced.
 *  4. A metric has all of its sums or none. Kinds with numbers per class get them with the first predictions if num_classes was not
 *     given; the replicas of a run meet for that. */
#ifndef LKI_MODEL_METRIC_H
#define LKI_MODEL_METRIC_H

#include "core/field.h"
#include "dist/strategy.h"
#include "nn/loss.h"
#include <lockstep/metric.h>

enum { LKI_MOST_SUMS = 5 };

#define LKI_METRIC_ID(name, class) LKI_METRIC_##name,
typedef enum lki_metric_id { LK_METRIC_LIST(LKI_METRIC_ID) LKI_METRIC_COUNT } lki_metric_id;
#undef LKI_METRIC_ID

/* How the prediction for an element compares with its label. */
typedef enum lki_verdict { LKI_TRUE_POSITIVE, LKI_FALSE_POSITIVE, LKI_TRUE_NEGATIVE, LKI_FALSE_NEGATIVE } lki_verdict;

/* Options that a kind may have: bits of `takes`. */
enum {
    LKI_TAKES_THRESHOLD = 1,
    LKI_TAKES_K = 2,
    LKI_TAKES_CLASS_ID = 4,
    LKI_TAKES_NUM_THRESHOLDS = 8,
    LKI_TAKES_FROM_LOGITS = 16,
    LKI_TAKES_CURVE = 32,
    LKI_TAKES_NUM_CLASSES = 64,
    LKI_TAKES_AVERAGE = 128,
    LKI_TAKES_TOP_K = 256,
    LKI_TAKES_THRESHOLDS = 512,
    LKI_TAKES_LABELS = 1024, /* multi_label, num_labels, label_weights and summation_method of auc */
    LKI_TAKES_SMOOTHING = 2048,
    LKI_TAKES_IGNORE_CLASS = 4096,
    LKI_TAKES_AXIS = 8192,
    LKI_TAKES_TARGETS = 16384,
    LKI_TAKES_SPARSE_LABELS = 32768,
    LKI_TAKES_SPARSE_PREDICTIONS = 65536,
    LKI_TAKES_BETA = 131072,
    LKI_TAKES_AGGREGATION = 262144, /* and num_regressors */
    LKI_TAKES_RECALL = 524288,
    LKI_TAKES_PRECISION = 1048576,
    LKI_TAKES_SENSITIVITY = 2097152,
    LKI_TAKES_SPECIFICITY = 4194304
};

typedef lk_shape   lki_metric_shape_fn(const lk_metric *m);
typedef void       lki_metric_values_fn(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x);
typedef void       lki_metric_results_fn(const lk_metric *m, double *const *sum, double *out);
typedef lk_tensor *lki_metric_counts_fn(const lk_metric *m, const lk_metric_update_args *a);
typedef double     lki_metric_result_fn(const lk_metric *m, double *const *sum);

typedef struct lki_metric_kind {
    const char *name; /* the name of metrics made without one */
    unsigned    takes;
    const char *operand[2];             /* names of operands in messages; NULL: it has none */
    const char *sum[LKI_MOST_SUMS];     /* Keras' names of its variables; ends with NULL if there are fewer */
    lki_loss_id loss;                   /* of kinds that are the mean of a loss */
    lki_verdict verdict[LKI_MOST_SUMS]; /* of kinds that count verdicts: which, per sum */

    bool per_class; /* its sums have numbers per class */
    bool pairs;     /* of kinds with numbers per class: a single prediction decides between two classes */

    lki_metric_shape_fn *entry; /* the shape of one entry of each sum; NULL: a number */

    /* The values to add: for each sum a tensor [elements..., entry...], to be weighted. NULL, for a sum of numbers: 1 for each
     * element of the first sum's. A poisoned one and an error if the operands do not fit. */
    lki_metric_values_fn *values;
    bool                  weighs; /* it uses the weights itself */
    lki_metric_counts_fn
        *counts; /* true for the values whose weights count; NULL: all. Without weights it is not asked, as in Keras */

    lki_metric_results_fn *results; /* computes the results from the sums */
    lki_metric_shape_fn   *shape;   /* of the results; NULL: one number */
    lki_metric_result_fn  *result;  /* one number for all; NULL: their mean */
} lki_metric_kind;

struct lk_metric {
    lki_object             object;
    const lki_metric_kind *kind;
    const lki_class *class;                /* for Keras files; its name is NULL if Keras has no such class */
    lk_metric_args     set;                /* held; the name is always set */
    lk_own_metric_args own;                /* custom functions; its name is not held */
    lk_strategy       *strategy;           /* a reference: the strategy whose scope it was made in; NULL: none */
    bool               built;              /* atomic: it has its sums */
    int64_t            classes;            /* of kinds that have numbers per class; 0: not known yet */
    lk_variable       *sum[LKI_MOST_SUMS]; /* references */
};

extern const lki_metric_kind lki_metric_kinds[LKI_METRIC_COUNT];   /* by lki_metric_id */
extern const lki_class       lki_metric_classes[LKI_METRIC_COUNT]; /* by lki_metric_id; name NULL: not a class of Keras */

/* ---- for fit and files ---- */

int lki_metric_output(const lk_metric *m);

/* Move it to the strategy, as if it had been made in its scope; its sums start again. No effect if it belongs to the strategy
 * already, or s is NULL. LK_ESTATE if it belongs to another one. */
bool lki_metric_takes_labels(const lk_metric *m); /* and predictions; false for metrics of values */

lk_status lki_metric_adopt(lk_metric *m, lk_strategy *s);

/* Make the sums, if they do not exist, for predictions of this shape, as the first update would. */
lk_status lki_metric_build(lk_metric *m, const lk_shape *predictions);

/* Its word in a Keras file, instead of a class: "accuracy"; NULL: none. */
const char *lki_metric_word(const lk_metric *m);

/* ---- for kinds ---- */

/* A metric that keeps `set`, whose name is set, as fields of class `c`; then, once it is complete, its sums if their size is known.
 * NULL and an error naming `call`. */
lk_metric *lki_metric_new(const char *call, const lki_metric_kind *kind, const lki_class *c, const lk_metric_args *set);
lk_metric *lki_metric_ready(lk_metric *m);

/* 'lk_metric_update: metric "acc": <what is wrong>'; returns the poisoned tensor. */
lk_tensor *lki_metric_refuse(const lk_metric *m, lk_status code, const char *format, ...) LKI_PRINTF(3, 4);

/* Gives labels and predictions the same number of axes; false and an error if their shapes are then not equal. */
bool lki_metric_together(const lk_metric *m, lk_tensor **labels, lk_tensor **predictions);

/* Converted to f32 for calculations; f64 is kept. */
lk_tensor *lki_metric_numbers(lk_tensor *t);

/* Labels without a last axis of size 1 that the predictions do not have. */
lk_tensor *lki_metric_class_labels(lk_tensor *labels, const lk_tensor *predictions);

/* The number 1 for each element of t, with t's rows. */
lk_tensor *lki_metric_ones(lk_tensor *t);

/* ---- parts of kinds ---- */

lki_metric_results_fn lki_mean_results;  /* the first sum over the second; 0 where that is 0 */
lki_metric_results_fn lki_total_results; /* the first sum */

/* The numbers of a list of the arguments; *count is 0 if it was not given. */
const double *lki_metric_list(const lk_tensor *list, int64_t *count);

/* How many thresholds there are: those of `thresholds`, or num_thresholds, or 1. auc adds one below 0 and one above 1 to a list. */
int64_t lki_metric_thresholds(const lk_metric *m);

/* Rows of other kinds (metric_scores.c): intersection over union, r2, correlations. */
lki_metric_values_fn  lki_iou_values, lki_r2_values, lki_pearson_values, lki_concordance_values;
lki_metric_shape_fn   lki_class_entry, lki_r2_shape;
lki_metric_results_fn lki_iou_results, lki_r2_results;

/* Kinds that count verdicts, f1_score, confusion_matrix (metric_counts.c). */
lki_metric_values_fn  lki_verdict_values, lki_f1_values, lki_matrix_values;
lki_metric_shape_fn   lki_threshold_entries, lki_threshold_shape, lki_f1_entry, lki_f1_shape, lki_matrix_entry, lki_matrix_shape;
lki_metric_results_fn lki_share_results, lki_auc_results, lki_f1_results, lki_constrained_results;
lki_metric_result_fn  lki_matrix_result;

#endif
