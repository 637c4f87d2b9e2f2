/* All kinds of metrics: the means, and the table of all. Kinds that count verdicts are in metric_counts.c, constructors and names
 * in metric_named.c. */
#include "core/dtype.h"
#include "model/loss.h"
#include "model/metric.h"
#include "op/gradient.h"
#include <math.h>

/* ---- means: of what is given, of hits, of losses ---- */

static void given(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x) { (void)m, x[0] = a->a; }

static lk_tensor *binary_hits(const lk_metric *m, lk_tensor *labels, lk_tensor *predictions)
{
    double threshold = lki_number_or(m->set.threshold, 0.5);
    if (!lki_metric_together(m, &labels, &predictions)) return &lki_poison;
    lk_tensor *p = lki_metric_numbers(predictions), *positive = lk_greater(p, lki_like(p, threshold));
    return lk_equal(labels, labels->dtype == LK_BOOL ? positive : lk_cast(positive, labels->dtype));
}

/* Equal numbers. */
static lk_tensor *equal_hits(const lk_metric *m, lk_tensor *labels, lk_tensor *predictions)
{
    if (!lki_metric_together(m, &labels, &predictions)) return &lki_poison;
    return lk_equal(lki_metric_numbers(labels), lk_cast(lki_metric_numbers(predictions), lki_metric_numbers(labels)->dtype));
}

static bool has_classes(const lk_metric *m, const lk_tensor *predictions)
{
    if (predictions->shape.rank) return true;
    lki_metric_refuse(m, LK_ESHAPE, "predictions are a scalar; they need a last axis of classes");
    return false;
}

/* One label for each of the predictions, which have a last axis of classes; a last axis of size 1 of the labels is removed. */
static bool labels_fit(const lk_metric *m, lk_tensor **labels, const lk_tensor *predictions)
{
    char     a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    lk_shape want = predictions->shape;
    if (!has_classes(m, predictions)) return false;
    want.rank--;
    *labels = lki_metric_class_labels(*labels, predictions);
    if (lki_bad(*labels) || lki_shape_equal(&(*labels)->shape, &want)) return !lki_bad(*labels);
    lki_metric_refuse(m, LK_ESHAPE, "labels %s do not fit predictions of %s and a last axis of classes",
                      lki_shape_text(&(*labels)->shape, a), lki_shape_text(&want, b));
    return false;
}

/* True where the largest prediction is the label's. */
static lk_tensor *sparse_hits(const lk_metric *m, lk_tensor *labels, lk_tensor *predictions)
{
    if (!labels_fit(m, &labels, predictions)) return &lki_poison;
    lk_tensor *best = lk_argmax(predictions, .axis = LK_AXIS(-1));
    lk_dtype   common = lki_is_float(labels->dtype) ? LK_F64 : LK_I64;
    return lk_equal(common == LK_I64 ? best : lk_cast(best, common), labels->dtype == common ? labels : lk_cast(labels, common));
}

static bool are_one_hot(const lk_metric *m, const lk_tensor *labels, const lk_tensor *predictions)
{
    char a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    if (!has_classes(m, predictions)) return false;
    if (lki_shape_equal(&labels->shape, &predictions->shape)) return true;
    lki_metric_refuse(m, LK_ESHAPE, "labels %s and predictions %s must have the same shape, the last axis being classes",
                      lki_shape_text(&labels->shape, a), lki_shape_text(&predictions->shape, b));
    return false;
}

static lk_tensor *class_of(lk_tensor *one_hot) { return lk_argmax(lki_metric_numbers(one_hot), .axis = LK_AXIS(-1)); }

static lk_tensor *categorical_hits(const lk_metric *m, lk_tensor *labels, lk_tensor *predictions)
{
    return are_one_hot(m, labels, predictions) ? lk_equal(class_of(labels), class_of(predictions)) : &lki_poison;
}

/* One number per row is binary, labels without classes are sparse: decided again for each batch, as Keras decides for
 * "accuracy". */
static lk_tensor *hits(const lk_metric *m, lk_tensor *labels, lk_tensor *predictions)
{
    const lk_shape *y = &labels->shape, *p = &predictions->shape;
    if (p->rank == 1 || (p->rank && p->dim[p->rank - 1] == 1)) return binary_hits(m, labels, predictions);
    if (y->rank < p->rank || y->dim[y->rank - 1] == 1) return sparse_hits(m, labels, predictions);
    return categorical_hits(m, labels, predictions);
}

/* True if fewer than k classes are above the label's; equal ones do not count. False if a prediction is not finite, as in
 * TensorFlow's in_top_k. */
static lk_tensor *in_top_k(const lk_metric *m, lk_tensor *ids, lk_tensor *predictions)
{
    lk_tensor *p = lki_metric_numbers(predictions);
    if (lki_bad(ids) || lki_bad(p)) return &lki_poison;
    lk_tensor *at_label = lk_one_hot(ids, p->shape.dim[p->shape.rank - 1], .dtype = LK_BOOL);
    lk_tensor *there = lk_where(at_label, p, lki_like(p, -INFINITY)); /* a label out of range: no class */
    lk_tensor *its = lk_reduce_max(there, .axis = LK_AXES(-1), .keepdims = LK_ON);
    lk_tensor *above = lk_reduce_sum(lk_cast(lk_greater(p, its), LK_F32), .axis = LK_AXES(-1));
    lk_tensor *finite = lk_reduce_all(lk_logical_and(lk_is_finite(p), lk_is_finite(its)), .axis = LK_AXES(-1));
    return lk_logical_and(lk_less(above, lki_like(above, (double)m->set.k)), finite);
}

static lk_tensor *sparse_top_k(const lk_metric *m, lk_tensor *labels, lk_tensor *predictions)
{
    if (!labels_fit(m, &labels, predictions)) return &lki_poison;
    return in_top_k(m, lk_cast(labels, LK_I64), predictions);
}

static lk_tensor *categorical_top_k(const lk_metric *m, lk_tensor *labels, lk_tensor *predictions)
{
    return are_one_hot(m, labels, predictions) ? in_top_k(m, class_of(labels), predictions) : &lki_poison;
}

#define VALUES(name)                                                                                                               \
    static void name##_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x) { x[0] = name(m, a->a, a->b); }
VALUES(hits)
VALUES(binary_hits)
VALUES(equal_hits)
VALUES(sparse_hits)
VALUES(categorical_hits)
VALUES(sparse_top_k)
VALUES(categorical_top_k)

/* Two numbers for each element: their difference squared. */
static void squares_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    lk_tensor *y = a->a, *p = a->b;
    bool       fit = lki_metric_together(m, &y, &p);
    p = fit ? lki_metric_numbers(p) : &lki_poison;
    x[0] = lki_bad(p) ? p : lk_square(lk_sub(p, y->dtype == p->dtype ? y : lk_cast(y, p->dtype)));
}

static void root_results(const lk_metric *m, double *const *sum, double *out)
{
    lki_mean_results(m, sum, out);
    out[0] = sqrt(out[0]);
}

static void loss_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    lk_tensor *y = a->a, *p = lki_metric_numbers(a->b);
    const bool sparse = m->kind->loss == LKI_LOSS_sparse_categorical_crossentropy;
    x[0] = &lki_poison;
    if (lki_bad(p) || !(sparse ? labels_fit(m, &y, p) : lki_metric_together(m, &y, &p))) return;
    x[0] = lki_losses[m->kind->loss].values((lk_loss_args){.labels = y,
                                                           .predictions = p,
                                                           .from_logits = m->set.from_logits,
                                                           .label_smoothing = m->set.label_smoothing,
                                                           .ignore_class = m->set.ignore_class,
                                                           .axis = m->set.axis});
}

/* Labels that are not ignored. */
static lk_tensor *not_ignored(const lk_metric *m, const lk_metric_update_args *a)
{
    lk_tensor *y = lki_metric_class_labels(a->a, a->b);
    if (lki_bad(y) || !lki_number_given(m->set.ignore_class)) return lki_bad(y) ? y : NULL;
    return lk_not_equal(y, lki_like(y, lki_number(m->set.ignore_class)));
}

/* The loss is the negated similarity. */
static void similarity_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    loss_values(m, a, x);
    x[0] = lk_neg(x[0]);
}

/* ---- the table ---- */

#define OF_VALUES .operand = {"values"}
#define OF_LABELS .operand = {"labels", "predictions"}
#define A_MEAN .sum = {"total", "count"}, .results = lki_mean_results
#define HITS(fn) OF_LABELS, A_MEAN, .values = fn##_values
#define LOSS(id) OF_LABELS, A_MEAN, .values = loss_values, .loss = LKI_LOSS_##id
#define ACCUMULATOR(which)                                                                                                         \
    OF_LABELS, .takes = LKI_TAKES_THRESHOLD | LKI_TAKES_THRESHOLDS, .sum = {"accumulator"}, .verdict = {LKI_##which},              \
               .entry = lki_threshold_entries, .values = lki_verdict_values, .results = lki_total_results,                         \
               .shape = lki_threshold_shape
#define SHARE(sum_, which)                                                                                                         \
    OF_LABELS, .takes = LKI_TAKES_THRESHOLD | LKI_TAKES_THRESHOLDS | LKI_TAKES_CLASS_ID | LKI_TAKES_TOP_K,                         \
               .sum = {"true_positives", sum_}, .verdict = {LKI_TRUE_POSITIVE, LKI_##which}, .entry = lki_threshold_entries,       \
               .values = lki_verdict_values, .results = lki_share_results, .shape = lki_threshold_shape
#define FOUR_VERDICTS                                                                                                              \
    .sum = {"true_positives", "false_positives", "true_negatives", "false_negatives"},                                             \
    .verdict = {LKI_TRUE_POSITIVE, LKI_FALSE_POSITIVE, LKI_TRUE_NEGATIVE, LKI_FALSE_NEGATIVE}, .entry = lki_threshold_entries,     \
    .values = lki_verdict_values
#define CONSTRAINED(value)                                                                                                         \
    LKI_TAKES_NUM_THRESHOLDS | LKI_TAKES_CLASS_ID | LKI_TAKES_##value, OF_LABELS, FOUR_VERDICTS, .results = lki_constrained_results
#define F_SCORE                                                                                                                    \
    OF_LABELS, .per_class = true, .sum = {"true_positives", "false_positives", "false_negatives", "intermediate_weights"},         \
               .entry = lki_f1_entry, .values = lki_f1_values, .results = lki_f1_results, .shape = lki_f1_shape
#define IOU                                                                                                                        \
    OF_LABELS, .per_class = true, .sum = {"total_confusion_matrix"}, .entry = lki_matrix_entry, .values = lki_iou_values,          \
               .results = lki_iou_results

const lki_metric_kind lki_metric_kinds[LKI_METRIC_COUNT] = {
    [LKI_METRIC_mean] = {"mean", OF_VALUES, A_MEAN, .values = given},
    [LKI_METRIC_sum_metric] = {"sum", OF_VALUES, .sum = {"total"}, .values = given, .results = lki_total_results},

    [LKI_METRIC_accuracy] = {"accuracy", LKI_TAKES_THRESHOLD, HITS(hits)},
    [LKI_METRIC_binary_accuracy] = {"binary_accuracy", LKI_TAKES_THRESHOLD, HITS(binary_hits)},
    [LKI_METRIC_categorical_accuracy] = {"categorical_accuracy", HITS(categorical_hits)},
    [LKI_METRIC_sparse_categorical_accuracy] = {"sparse_categorical_accuracy", HITS(sparse_hits)},
    [LKI_METRIC_top_k_categorical_accuracy] = {"top_k_categorical_accuracy", LKI_TAKES_K, HITS(categorical_top_k)},
    [LKI_METRIC_sparse_top_k_categorical_accuracy] = {"sparse_top_k_categorical_accuracy", LKI_TAKES_K, HITS(sparse_top_k)},

    [LKI_METRIC_precision] = {"precision", SHARE("false_positives", FALSE_POSITIVE)},
    [LKI_METRIC_recall] = {"recall", SHARE("false_negatives", FALSE_NEGATIVE)},
    [LKI_METRIC_true_positives] = {"true_positives", ACCUMULATOR(TRUE_POSITIVE)},
    [LKI_METRIC_true_negatives] = {"true_negatives", ACCUMULATOR(TRUE_NEGATIVE)},
    [LKI_METRIC_false_positives] = {"false_positives", ACCUMULATOR(FALSE_POSITIVE)},
    [LKI_METRIC_false_negatives] = {"false_negatives", ACCUMULATOR(FALSE_NEGATIVE)},
    [LKI_METRIC_auc] = {"auc",
                        LKI_TAKES_NUM_THRESHOLDS | LKI_TAKES_THRESHOLDS | LKI_TAKES_CURVE | LKI_TAKES_FROM_LOGITS |
                            LKI_TAKES_LABELS,
                        OF_LABELS, FOUR_VERDICTS, .per_class = true, .results = lki_auc_results},
    [LKI_METRIC_precision_at_recall] = {"precision_at_recall", CONSTRAINED(RECALL)},
    [LKI_METRIC_recall_at_precision] = {"recall_at_precision", CONSTRAINED(PRECISION)},
    [LKI_METRIC_sensitivity_at_specificity] = {"sensitivity_at_specificity", CONSTRAINED(SPECIFICITY)},
    [LKI_METRIC_specificity_at_sensitivity] = {"specificity_at_sensitivity", CONSTRAINED(SENSITIVITY)},
    [LKI_METRIC_f1_score] = {"f1_score", LKI_TAKES_THRESHOLD | LKI_TAKES_AVERAGE | LKI_TAKES_NUM_CLASSES, F_SCORE},
    [LKI_METRIC_fbeta_score] = {"fbeta_score", LKI_TAKES_THRESHOLD | LKI_TAKES_AVERAGE | LKI_TAKES_BETA, F_SCORE},
    [LKI_METRIC_iou] = {"io_u",
                        LKI_TAKES_NUM_CLASSES | LKI_TAKES_TARGETS | LKI_TAKES_IGNORE_CLASS | LKI_TAKES_SPARSE_LABELS |
                            LKI_TAKES_SPARSE_PREDICTIONS | LKI_TAKES_AXIS,
                        IOU},
    [LKI_METRIC_mean_iou] = {"mean_io_u",
                             LKI_TAKES_NUM_CLASSES | LKI_TAKES_IGNORE_CLASS | LKI_TAKES_SPARSE_LABELS |
                                 LKI_TAKES_SPARSE_PREDICTIONS | LKI_TAKES_AXIS,
                             IOU},
    [LKI_METRIC_binary_iou] = {"binary_io_u", LKI_TAKES_TARGETS | LKI_TAKES_THRESHOLD, IOU},
    [LKI_METRIC_one_hot_iou] = {"one_hot_io_u",
                                LKI_TAKES_NUM_CLASSES | LKI_TAKES_TARGETS | LKI_TAKES_IGNORE_CLASS | LKI_TAKES_SPARSE_PREDICTIONS |
                                    LKI_TAKES_AXIS,
                                IOU},
    [LKI_METRIC_one_hot_mean_iou] = {"one_hot_mean_io_u",
                                     LKI_TAKES_NUM_CLASSES | LKI_TAKES_IGNORE_CLASS | LKI_TAKES_SPARSE_PREDICTIONS | LKI_TAKES_AXIS,
                                     IOU},
    [LKI_METRIC_r2_score] = {"r2_score", LKI_TAKES_AGGREGATION, OF_LABELS, .per_class = true, .weighs = true,
                             .sum = {"num_samples", "squared_sum", "sum", "residual", "count"}, .entry = lki_class_entry,
                             .values = lki_r2_values, .results = lki_r2_results, .shape = lki_r2_shape},
    [LKI_METRIC_pearson_correlation] = {"pearson_correlation", LKI_TAKES_AXIS, OF_LABELS, A_MEAN, .values = lki_pearson_values},
    [LKI_METRIC_concordance_correlation] = {"concordance_correlation", LKI_TAKES_AXIS, OF_LABELS, A_MEAN,
                                            .values = lki_concordance_values},
    [LKI_METRIC_exact_accuracy] = {"accuracy", HITS(equal_hits)},
    [LKI_METRIC_confusion_matrix] = {"confusion_matrix", LKI_TAKES_THRESHOLD | LKI_TAKES_NUM_CLASSES, OF_LABELS, .pairs = true,
                                     .per_class = true, .sum = {"confusion_matrix"}, .entry = lki_matrix_entry,
                                     .values = lki_matrix_values, .results = lki_total_results, .shape = lki_matrix_shape,
                                     .result = lki_matrix_result},

    [LKI_METRIC_mean_squared_error_metric] = {"mean_squared_error", LOSS(mean_squared_error)},
    [LKI_METRIC_root_mean_squared_error_metric] = {"root_mean_squared_error", OF_LABELS, .sum = {"total", "count"},
                                                   .values = squares_values, .results = root_results},
    [LKI_METRIC_mean_absolute_error_metric] = {"mean_absolute_error", LOSS(mean_absolute_error)},
    [LKI_METRIC_cosine_similarity_metric] = {"cosine_similarity", OF_LABELS, A_MEAN, .values = similarity_values,
                                             .loss = LKI_LOSS_cosine_similarity},
    [LKI_METRIC_categorical_crossentropy_metric] = {"categorical_crossentropy",
                                                    LKI_TAKES_FROM_LOGITS | LKI_TAKES_SMOOTHING | LKI_TAKES_AXIS,
                                                    LOSS(categorical_crossentropy)},
    [LKI_METRIC_sparse_categorical_crossentropy_metric] = {"sparse_categorical_crossentropy",
                                                           LKI_TAKES_FROM_LOGITS | LKI_TAKES_IGNORE_CLASS,
                                                           LOSS(sparse_categorical_crossentropy), .counts = not_ignored},
    [LKI_METRIC_binary_crossentropy_metric] = {"binary_crossentropy", LKI_TAKES_FROM_LOGITS | LKI_TAKES_SMOOTHING,
                                               LOSS(binary_crossentropy)},
    [LKI_METRIC_kl_divergence_metric] = {"kl_divergence", LOSS(kl_divergence)},
    [LKI_METRIC_mean_absolute_percentage_error_metric] = {"mean_absolute_percentage_error", LOSS(mean_absolute_percentage_error)},
    [LKI_METRIC_mean_squared_logarithmic_error_metric] = {"mean_squared_logarithmic_error", LOSS(mean_squared_logarithmic_error)},
    [LKI_METRIC_log_cosh_error_metric] = {"logcosh", LOSS(log_cosh)},
    [LKI_METRIC_poisson_metric] = {"poisson", LOSS(poisson)},
    [LKI_METRIC_hinge_metric] = {"hinge", LOSS(hinge)},
    [LKI_METRIC_squared_hinge_metric] = {"squared_hinge", LOSS(squared_hinge)},
    [LKI_METRIC_categorical_hinge_metric] = {"categorical_hinge", LOSS(categorical_hinge)},
};
