/* Metrics from the inside: an object, a table per kind, the arguments it was made with, and its sums.
 *
 * Every metric is a sum over rows of a few numbers, and a function of the sum. A kind defines what is summed, under which names,
 * and the result; metric.c does the rest: weights, lanes, replicas, resets.
 *
 * Invariants
 * 1. A sum is an f64 variable [lanes, entry...]. Rows go to their lanes; what is not rows, or is a batch of a replica's own, to the
 *    first lane of the replica that counts it. So every replica writes its own lanes: no replica waits, and nothing depends on the
 *    number of replicas.
 * 2. A result adds the lanes up the tree, (0,1) (2,3) ..., then pairs of those. Inside run it adds the lanes of this replica only.
 * 3. Updates are ops on variables: they run at once or are recorded while a function is traced.
 * 4. A metric has all of its sums or none: kinds with numbers per class get them with the first predictions if num_classes was not
 *    given; the replicas of a run meet for that. */
#ifndef LKI_MODEL_METRIC_H
#define LKI_MODEL_METRIC_H

#include "core/field.h"
#include "dist/strategy.h"
#include "nn/loss.h"
#include <lockstep/metric.h>

enum { LKI_MOST_SUMS = 4 };

#define LKI_METRIC_ID(name, class) LKI_METRIC_##name,
typedef enum lki_metric_id { LK_METRIC_LIST(LKI_METRIC_ID) LKI_METRIC_COUNT } lki_metric_id;
#undef LKI_METRIC_ID

/* What the predictions made of an element, against its label. */
typedef enum lki_verdict { LKI_TRUE_POSITIVE, LKI_FALSE_POSITIVE, LKI_TRUE_NEGATIVE, LKI_FALSE_NEGATIVE } lki_verdict;

/* Options a kind may take: bits of `takes`. */
enum {
    LKI_TAKES_THRESHOLD = 1,
    LKI_TAKES_K = 2,
    LKI_TAKES_CLASS_ID = 4,
    LKI_TAKES_NUM_THRESHOLDS = 8,
    LKI_TAKES_FROM_LOGITS = 16,
    LKI_TAKES_CURVE = 32,
    LKI_TAKES_NUM_CLASSES = 64,
    LKI_TAKES_AVERAGE = 128
};

typedef lk_shape lki_metric_shape_fn(const lk_metric *m);
typedef void     lki_metric_values_fn(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x);
typedef void     lki_metric_results_fn(const lk_metric *m, double *const *sum, double *out);
typedef double   lki_metric_result_fn(const lk_metric *m, double *const *sum);

typedef struct lki_metric_kind {
    const char *name; /* of metrics without one of their own */
    unsigned    takes;
    const char *operand[2];             /* what messages call them; NULL: none */
    const char *sum[LKI_MOST_SUMS];     /* as Keras calls its variables; ends with NULL where there are fewer */
    lki_loss_id loss;                   /* of kinds that are the mean of a loss */
    lki_verdict verdict[LKI_MOST_SUMS]; /* of kinds that count verdicts: which, per sum */

    bool pairs; /* of kinds with numbers per class: a single prediction decides between two classes */

    lki_metric_shape_fn *entry; /* the shape of one entry of each sum; NULL: a number */

    /* What is counted in: for each sum a tensor [elements..., entry...], to be weighted. NULL, of a sum of numbers: 1 for each
     * element of the first sum's. A poisoned one and an error where the operands do not fit. */
    lki_metric_values_fn *values;
    bool                  weighs; /* it takes the weights into account by itself */

    lki_metric_results_fn *results; /* what comes out of the sums */
    lki_metric_shape_fn   *shape;   /* of the results; NULL: one number */
    lki_metric_result_fn  *result;  /* all in one number; NULL: their mean */
} lki_metric_kind;

struct lk_metric {
    lki_object             object;
    const lki_metric_kind *kind;
    const lki_class *class;                /* what a Keras file says about it; its name is NULL where Keras has no such class */
    lk_metric_args     set;                /* held; the name is always there */
    lk_own_metric_args own;                /* of custom functions; its name is not held */
    lk_strategy       *strategy;           /* a reference: the strategy in whose scope it was made; NULL: none */
    bool               built;              /* atomic: it has its sums */
    int64_t            classes;            /* of kinds that have numbers per class; 0: not known yet */
    lk_variable       *sum[LKI_MOST_SUMS]; /* references */
};

extern const lki_metric_kind lki_metric_kinds[LKI_METRIC_COUNT];   /* by lki_metric_id */
extern const lki_class       lki_metric_classes[LKI_METRIC_COUNT]; /* likewise; name NULL: not a class of Keras */

/* ---- for fit and files ---- */

int lki_metric_output(const lk_metric *m);

/* Make it the strategy's, as if it had been made in its scope; what it counted before is forgotten. Nothing happens where it is
 * already, or s is NULL. LK_ESTATE where it is another one's. */
bool lki_metric_takes_labels(const lk_metric *m); /* and predictions; not those of values */

lk_status lki_metric_adopt(lk_metric *m, lk_strategy *s);

/* Make the sums, if they are not there, for predictions of this shape: what the first update would do. */
lk_status lki_metric_build(lk_metric *m, const lk_shape *predictions);

/* The word a Keras file has for it in place of a class: "accuracy"; NULL: none. */
const char *lki_metric_word(const lk_metric *m);

/* ---- for kinds ---- */

/* A metric that keeps `set`, whose name is given, as fields of class `c`; then, when it is complete, its sums where their size is
 * known. NULL and an error naming `call`. */
lk_metric *lki_metric_new(const char *call, const lki_metric_kind *kind, const lki_class *c, const lk_metric_args *set);
lk_metric *lki_metric_ready(lk_metric *m);

/* 'lk_metric_update: metric "acc": <what is wrong>'; gives the poisoned tensor. */
lk_tensor *lki_metric_refuse(const lk_metric *m, lk_status code, const char *format, ...) LKI_PRINTF(3, 4);

/* Labels and predictions with as many axes; false and an error where their shapes are not equal then. */
bool lki_metric_together(const lk_metric *m, lk_tensor **labels, lk_tensor **predictions);

/* Numbers to calculate with: f32, or f64 where it is. */
lk_tensor *lki_metric_numbers(lk_tensor *t);

/* Labels without a last axis of size 1 that the predictions do not have. */
lk_tensor *lki_metric_class_labels(lk_tensor *labels, const lk_tensor *predictions);

/* One number for each element of t, which are rows as t's are: 1. */
lk_tensor *lki_metric_ones(lk_tensor *t);

/* ---- parts of kinds ---- */

lki_metric_results_fn lki_mean_results;  /* the first sum over the second; 0 where that is 0 */
lki_metric_results_fn lki_total_results; /* the first sum as it is */

/* Kinds that count verdicts, f1_score, confusion_matrix (metric_counts.c). */
lki_metric_values_fn  lki_verdict_values, lki_f1_values, lki_matrix_values;
lki_metric_shape_fn   lki_one_entry, lki_threshold_entries, lki_f1_entry, lki_f1_shape, lki_matrix_entry, lki_matrix_shape;
lki_metric_results_fn lki_share_results, lki_auc_results, lki_f1_results;
lki_metric_result_fn  lki_matrix_result;

#endif
