/* Metrics by their constructors and by name, and their names in Keras files. */
#include "core/dtype.h"
#include "core/names.h"
#include "core/rounding.h"
#include "model/metric.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- what Keras' files call them ---- */

#define ARGS lk_metric_args
#define EVERY_METRIC LKI_FIELD(NAME, ARGS, name), LKI_FIXED("dtype", "\"float32\"")
#define ARRAY(member) LKI_FIELD(ARRAY, ARGS, member, .dtype = LK_F64)
#define THRESHOLDS ARRAY(thresholds), LKI_FIELD_AS("thresholds", NUMBER, ARGS, threshold, .none = true, .standard = 0.5)
#define CLASS_ID LKI_FIELD(NUMBER, ARGS, class_id, .none = true)
#define FROM_LOGITS LKI_FIELD(SWITCH, ARGS, from_logits)
#define SMOOTHING LKI_FIELD(REAL, ARGS, label_smoothing)
#define AXIS LKI_FIELD(AXIS, ARGS, axis, .standard = -1)
#define AT(value)                                                                                                                  \
    EVERY_METRIC, CLASS_ID, LKI_FIELD(INTEGER, ARGS, num_thresholds, .standard = 200),                                             \
        LKI_FIELD(NUMBER, ARGS, value, .required = true)
/* Keras sums whole numbers unless another dtype is given; the sums here are the same for any. */
#define EVERY_IOU                                                                                                                  \
    LKI_FIELD(NAME, ARGS, name), { .name = "dtype", .type = LKI_FIELD_FIXED, .literal = "\"int64\"", .none = true }
#define CLASSES LKI_FIELD(INTEGER, ARGS, num_classes, .required = true)
#define TARGETS LKI_FIELD(ARRAY, ARGS, target_class_ids, .dtype = LK_I64)
#define IGNORED LKI_FIELD(NUMBER, ARGS, ignore_class, .none = true)
#define SPARSE_LABELS LKI_FIELD(SWITCH, ARGS, sparse_y_true, .standard = 1)
#define SPARSE_PREDICTIONS(standard_) LKI_FIELD(SWITCH, ARGS, sparse_y_pred, .standard = standard_)

static const lki_field PLAIN[] = {EVERY_METRIC};
static const lki_field THRESHOLD[] = {EVERY_METRIC, LKI_FIELD(NUMBER, ARGS, threshold, .standard = 0.5)};
static const lki_field TOP_K[] = {EVERY_METRIC, LKI_FIELD(INTEGER, ARGS, k, .standard = 5)};
static const lki_field COUNT[] = {EVERY_METRIC, THRESHOLDS};
static const lki_field SHARE[] = {EVERY_METRIC, THRESHOLDS, LKI_FIELD(INTEGER, ARGS, top_k, .none = true), CLASS_ID};
static const lki_field CURVE[] = {EVERY_METRIC,
                                  LKI_FIELD(INTEGER, ARGS, num_thresholds, .standard = 200),
                                  LKI_FIELD(NAME, ARGS, curve),
                                  LKI_FIELD(NAME, ARGS, summation_method),
                                  LKI_FIELD(SWITCH, ARGS, multi_label),
                                  LKI_FIELD(INTEGER, ARGS, num_labels, .none = true),
                                  ARRAY(label_weights),
                                  FROM_LOGITS,
                                  ARRAY(thresholds)};
static const lki_field F1[] = {EVERY_METRIC, LKI_FIELD(NAME, ARGS, average), LKI_FIELD(NUMBER, ARGS, threshold, .none = true)};
static const lki_field FBETA[] = {EVERY_METRIC, LKI_FIELD(NAME, ARGS, average), LKI_FIELD(NUMBER, ARGS, beta, .standard = 1),
                                  LKI_FIELD(NUMBER, ARGS, threshold, .none = true)};
static const lki_field R2[] = {EVERY_METRIC, LKI_FIELD(NAME, ARGS, class_aggregation, .standard_word = "none"),
                               LKI_FIELD(COUNT, ARGS, num_regressors)};
static const lki_field CORRELATION[] = {EVERY_METRIC, AXIS};
static const lki_field SPARSE[] = {EVERY_METRIC, FROM_LOGITS, IGNORED, LKI_FIXED("axis", "-1")};
static const lki_field CATEGORICAL[] = {EVERY_METRIC, FROM_LOGITS, SMOOTHING, AXIS};
static const lki_field BINARY[] = {EVERY_METRIC, FROM_LOGITS, SMOOTHING};
static const lki_field AT_RECALL[] = {AT(recall)};
static const lki_field AT_PRECISION[] = {AT(precision)};
static const lki_field AT_SENSITIVITY[] = {AT(sensitivity)};
static const lki_field AT_SPECIFICITY[] = {AT(specificity)};
static const lki_field IOU[] = {EVERY_IOU, CLASSES, TARGETS, IGNORED, SPARSE_LABELS, SPARSE_PREDICTIONS(1), AXIS};
static const lki_field MEAN_IOU[] = {EVERY_IOU, CLASSES, IGNORED, SPARSE_LABELS, SPARSE_PREDICTIONS(1), AXIS};
static const lki_field BINARY_IOU[] = {EVERY_IOU, TARGETS, LKI_FIELD(NUMBER, ARGS, threshold, .standard = 0.5)};
static const lki_field ONE_HOT_IOU[] = {EVERY_IOU, CLASSES, TARGETS, IGNORED, SPARSE_PREDICTIONS(0), AXIS};
static const lki_field ONE_HOT_MEAN_IOU[] = {EVERY_IOU, CLASSES, IGNORED, SPARSE_PREDICTIONS(0), AXIS};

#define MAKE(metric, class)                                                                                                        \
    static void *make_##metric(const void *args) { return lk_##metric##_kw(*(const lk_metric_args *)args); }
LK_METRIC_LIST(MAKE)

#define CLASS(metric, name_, FIELDS)                                                                                               \
    [LKI_METRIC_##metric] = {.name = name_, .module = "keras.metrics", LKI_ARGS(ARGS, FIELDS), .make = make_##metric}
const lki_class lki_metric_classes[LKI_METRIC_COUNT] = {
    CLASS(mean, "Mean", PLAIN),
    CLASS(sum_metric, "Sum", PLAIN),
    CLASS(accuracy, NULL, PLAIN), /* Keras' class of this name counts equal numbers; this kind exists only under the word */
    CLASS(binary_accuracy, "BinaryAccuracy", THRESHOLD),
    CLASS(categorical_accuracy, "CategoricalAccuracy", PLAIN),
    CLASS(sparse_categorical_accuracy, "SparseCategoricalAccuracy", PLAIN),
    CLASS(top_k_categorical_accuracy, "TopKCategoricalAccuracy", TOP_K),
    CLASS(sparse_top_k_categorical_accuracy, "SparseTopKCategoricalAccuracy", TOP_K),
    CLASS(precision, "Precision", SHARE),
    CLASS(recall, "Recall", SHARE),
    CLASS(auc, "AUC", CURVE),
    CLASS(f1_score, "F1Score", F1),
    CLASS(true_positives, "TruePositives", COUNT),
    CLASS(true_negatives, "TrueNegatives", COUNT),
    CLASS(false_positives, "FalsePositives", COUNT),
    CLASS(false_negatives, "FalseNegatives", COUNT),
    CLASS(mean_squared_error_metric, "MeanSquaredError", PLAIN),
    CLASS(root_mean_squared_error_metric, "RootMeanSquaredError", PLAIN),
    CLASS(mean_absolute_error_metric, "MeanAbsoluteError", PLAIN),
    CLASS(cosine_similarity_metric, "CosineSimilarity", PLAIN),
    CLASS(categorical_crossentropy_metric, "CategoricalCrossentropy", CATEGORICAL),
    CLASS(sparse_categorical_crossentropy_metric, "SparseCategoricalCrossentropy", SPARSE),
    CLASS(binary_crossentropy_metric, "BinaryCrossentropy", BINARY),
    CLASS(kl_divergence_metric, "KLDivergence", PLAIN),
    CLASS(mean_absolute_percentage_error_metric, "MeanAbsolutePercentageError", PLAIN),
    CLASS(mean_squared_logarithmic_error_metric, "MeanSquaredLogarithmicError", PLAIN),
    CLASS(log_cosh_error_metric, "LogCoshError", PLAIN),
    CLASS(poisson_metric, "Poisson", PLAIN),
    CLASS(hinge_metric, "Hinge", PLAIN),
    CLASS(squared_hinge_metric, "SquaredHinge", PLAIN),
    CLASS(categorical_hinge_metric, "CategoricalHinge", PLAIN),
    CLASS(exact_accuracy, "Accuracy", PLAIN),
    CLASS(fbeta_score, "FBetaScore", FBETA),
    CLASS(r2_score, "R2Score", R2),
    CLASS(pearson_correlation, "PearsonCorrelation", CORRELATION),
    CLASS(concordance_correlation, "ConcordanceCorrelation", CORRELATION),
    CLASS(iou, "IoU", IOU),
    CLASS(binary_iou, "BinaryIoU", BINARY_IOU),
    CLASS(mean_iou, "MeanIoU", MEAN_IOU),
    CLASS(one_hot_iou, "OneHotIoU", ONE_HOT_IOU),
    CLASS(one_hot_mean_iou, "OneHotMeanIoU", ONE_HOT_MEAN_IOU),
    CLASS(precision_at_recall, "PrecisionAtRecall", AT_RECALL),
    CLASS(recall_at_precision, "RecallAtPrecision", AT_PRECISION),
    CLASS(sensitivity_at_specificity, "SensitivityAtSpecificity", AT_SPECIFICITY),
    CLASS(specificity_at_sensitivity, "SpecificityAtSensitivity", AT_SENSITIVITY),
    CLASS(confusion_matrix, NULL, PLAIN),
};

const char *lki_metric_word(const lk_metric *m) { return m->kind == &lki_metric_kinds[LKI_METRIC_accuracy] ? "accuracy" : NULL; }

/* ---- constructors ---- */

static bool options_known(const char *call, unsigned takes, const lk_metric_args *a)
{
    const struct {
        unsigned    option;
        bool        given;
        const char *name;
    } options[] = {
        {LKI_TAKES_THRESHOLD, lki_number_given(a->threshold), "threshold"},
        {LKI_TAKES_K, a->k != 0, "k"},
        {LKI_TAKES_CLASS_ID, lki_number_given(a->class_id), "class_id"},
        {LKI_TAKES_NUM_THRESHOLDS, a->num_thresholds != 0, "num_thresholds"},
        {LKI_TAKES_FROM_LOGITS, lki_switch_given(a->from_logits), "from_logits"},
        {LKI_TAKES_CURVE, a->curve != NULL, "curve"},
        {LKI_TAKES_NUM_CLASSES, a->num_classes != 0, "num_classes"},
        {LKI_TAKES_AVERAGE, a->average != NULL, "average"},
        {LKI_TAKES_THRESHOLDS, a->thresholds != NULL, "thresholds"},
        {LKI_TAKES_TOP_K, a->top_k != 0, "top_k"},
        {LKI_TAKES_LABELS, lki_switch_given(a->multi_label), "multi_label"},
        {LKI_TAKES_LABELS, a->num_labels != 0, "num_labels"},
        {LKI_TAKES_LABELS, a->label_weights != NULL, "label_weights"},
        {LKI_TAKES_LABELS, a->summation_method != NULL, "summation_method"},
        {LKI_TAKES_SMOOTHING, a->label_smoothing != 0, "label_smoothing"},
        {LKI_TAKES_IGNORE_CLASS, lki_number_given(a->ignore_class), "ignore_class"},
        {LKI_TAKES_AXIS, lki_axis_given(a->axis), "axis"},
        {LKI_TAKES_TARGETS, a->target_class_ids != NULL, "target_class_ids"},
        {LKI_TAKES_SPARSE_LABELS, lki_switch_given(a->sparse_y_true), "sparse_y_true"},
        {LKI_TAKES_SPARSE_PREDICTIONS, lki_switch_given(a->sparse_y_pred), "sparse_y_pred"},
        {LKI_TAKES_BETA, lki_number_given(a->beta), "beta"},
        {LKI_TAKES_AGGREGATION, a->class_aggregation != NULL, "class_aggregation"},
        {LKI_TAKES_AGGREGATION, a->num_regressors != 0, "num_regressors"},
        {LKI_TAKES_RECALL, lki_number_given(a->recall), "recall"},
        {LKI_TAKES_PRECISION, lki_number_given(a->precision), "precision"},
        {LKI_TAKES_SENSITIVITY, lki_number_given(a->sensitivity), "sensitivity"},
        {LKI_TAKES_SPECIFICITY, lki_number_given(a->specificity), "specificity"},
    };
    for (int i = 0; i < LKI_COUNT(options); i++)
        if (options[i].given && !(takes & options[i].option))
            return lki_fail(LK_EINVAL, "%s: this metric does not take %s", call, options[i].name), false;
    return true;
}

static bool is_one_of(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(word, words[i])) return true;
    return false;
}

static bool word_known(const char *call, const char *what, const char *word, const char *const *words, int count)
{
    char text[160] = "";
    if (!word || is_one_of(word, words, count)) return true;
    for (int i = 0; i < count; i++)
        lki_text_more(text, sizeof text, "%s\"%s\"", !i ? "" : i + 1 == count ? " or " : ", ", words[i]);
    return lki_fail(LK_EINVAL, "%s: there is no %s \"%.64s\"; it must be %s", call, what, word, text), false;
}

static bool words_known(const char *call, const lk_metric_args *a)
{
    static const char *const CURVES[] = {"ROC", "PR", "PRGAIN"}, *const AVERAGES[] = {"micro", "macro", "weighted"},
                             *const SUMS[] = {"interpolation", "minoring", "majoring"},
                             *const AGGREGATIONS[] = {"uniform_average", "variance_weighted_average", "none"};
    return word_known(call, "curve", a->curve, CURVES, 3) && word_known(call, "average", a->average, AVERAGES, 3) &&
           word_known(call, "summation_method", a->summation_method, SUMS, 3) &&
           word_known(call, "class_aggregation", a->class_aggregation, AGGREGATIONS, 3);
}

/* Predictions of accuracies and matrices may be logits, those of the others are 0 to 1. */
static bool threshold_fits(const char *call, lki_metric_id id, double t)
{
    const bool any = id == LKI_METRIC_accuracy || id == LKI_METRIC_binary_accuracy || id == LKI_METRIC_confusion_matrix ||
                     id == LKI_METRIC_binary_iou;
    const bool above = id == LKI_METRIC_f1_score || id == LKI_METRIC_fbeta_score;
    if (any ? isfinite(t) : t >= 0 && t <= 1 && (t > 0 || !above)) return true;
    lki_fail(LK_EINVAL, "%s: threshold is %g; it must be %s", call, t, any ? "finite" : above ? "above 0 and at most 1" : "0 to 1");
    return false;
}

static bool count_fits(const char *call, const char *what, lk_integer n, int64_t least)
{
    if (!n || (lki_integer(n) >= least && lki_integer(n) <= 1000000)) return true;
    return lki_fail(LK_EINVAL, "%s: %s is %lld; it must be at least %lld", call, what, (long long)lki_integer(n), (long long)least),
           false;
}

static bool share_fits(const char *call, const char *what, lk_number share)
{
    if (lki_number(share) >= 0 && lki_number(share) <= 1) return true;
    return lki_fail(LK_EINVAL, "%s: %s is %g; it must be 0 to 1", call, what, lki_number(share)), false;
}

static bool numbers_fit(const char *call, lki_metric_id id, const lk_metric_args *a)
{
    const bool bounded = lki_metric_kinds[id].takes & LKI_TAKES_CLASS_ID;
    if (lki_number_given(a->threshold) && !threshold_fits(call, id, lki_number(a->threshold))) return false;
    if (a->k < 0) return lki_fail(LK_EINVAL, "%s: k is %lld; it must be at least 1", call, (long long)lki_integer(a->k)), false;
    if (lki_number_given(a->class_id) &&
        !(lki_number(a->class_id) >= 0 && lki_number(a->class_id) == floor(lki_number(a->class_id)) &&
          lki_number(a->class_id) < 1e9))
        return lki_fail(LK_EINVAL, "%s: class_id is %g; it must be the number of a class", call, lki_number(a->class_id)), false;
    if (!count_fits(call, "num_thresholds", a->num_thresholds, bounded ? 1 : 2) ||
        !count_fits(call, "num_classes", a->num_classes, 1) || !count_fits(call, "top_k", a->top_k, 1) ||
        !count_fits(call, "num_labels", a->num_labels, 1))
        return false;
    if (a->output < 0) return lki_fail(LK_EINVAL, "%s: output is %d; it must be 0 or more", call, a->output), false;
    if (lki_number_given(a->beta) && !(lki_number(a->beta) > 0))
        return lki_fail(LK_EINVAL, "%s: beta is %g; it must be above 0", call, lki_number(a->beta)), false;
    if (!(a->label_smoothing >= 0 && a->label_smoothing <= 1))
        return lki_fail(LK_EINVAL, "%s: label_smoothing is %g; it must be 0 to 1", call, a->label_smoothing), false;
    if (a->num_regressors < 0)
        return lki_fail(LK_EINVAL, "%s: num_regressors is %d; it must be 0 or more", call, a->num_regressors), false;
    return share_fits(call, "recall", a->recall) && share_fits(call, "precision", a->precision) &&
           share_fits(call, "sensitivity", a->sensitivity) && share_fits(call, "specificity", a->specificity);
}

/* All numbers of a list are within these bounds. */
static bool list_fits(const char *call, const char *what, const lk_tensor *list, double least, double most, bool whole)
{
    if (!list) return true;
    if (lki_bad(list) || !lk_data(list)) return false;
    const int64_t count = lki_shape_size(&list->shape);
    if (count < 1 || count > 1000)
        return lki_fail(LK_EINVAL, "%s: %s has %lld numbers; it must have 1 to 1000", call, what, (long long)count), false;
    for (int64_t i = 0; i < count; i++) {
        const double x = lki_element_get(list->dtype, lk_data(list), i);
        if (!(x >= least && x <= most) || (whole && x != floor(x)))
            return lki_fail(LK_EINVAL, "%s: %s has %g; it must be %g to %g", call, what, x, least, most), false;
    }
    return true;
}

static bool lists_fit(const char *call, lki_metric_id id, const lk_metric_args *a)
{
    const unsigned takes = lki_metric_kinds[id].takes;
    const double   classes = id == LKI_METRIC_binary_iou ? 2 : (double)lki_integer(a->num_classes);
    const int64_t  labels = lki_integer(a->num_labels);
    if (a->thresholds && lki_number_given(a->threshold))
        return lki_fail(LK_EINVAL, "%s: threshold and thresholds are given; give one of them", call), false;
    if (!list_fits(call, "thresholds", a->thresholds, 0, 1, false) ||
        !list_fits(call, "target_class_ids", a->target_class_ids, 0, classes - 1, true) ||
        !list_fits(call, "label_weights", a->label_weights, 0, INFINITY, false))
        return false;
    if ((takes & LKI_TAKES_TARGETS) && (takes & LKI_TAKES_NUM_CLASSES) && !a->target_class_ids)
        return lki_fail(LK_EINVAL, "%s: target_class_ids are missing", call), false;
    if ((takes & LKI_TAKES_IGNORE_CLASS) && (takes & LKI_TAKES_NUM_CLASSES) && !a->num_classes)
        return lki_fail(LK_EINVAL, "%s: num_classes is missing", call), false;
    if (labels && a->multi_label != LK_ON) return lki_fail(LK_EINVAL, "%s: num_labels is for multi_label only", call), false;
    if (labels && a->label_weights && lki_shape_size(&a->label_weights->shape) != labels)
        return lki_fail(LK_EINVAL, "%s: there must be a weight for each of %lld labels", call, (long long)labels), false;
    return true;
}

static bool value_given(const char *call, unsigned takes, const lk_metric_args *a)
{
    const char *missing = (takes & LKI_TAKES_RECALL) && !lki_number_given(a->recall)             ? "recall"
                          : (takes & LKI_TAKES_PRECISION) && !lki_number_given(a->precision)     ? "precision"
                          : (takes & LKI_TAKES_SENSITIVITY) && !lki_number_given(a->sensitivity) ? "sensitivity"
                          : (takes & LKI_TAKES_SPECIFICITY) && !lki_number_given(a->specificity) ? "specificity"
                                                                                                 : NULL;
    if (missing) lki_fail(LK_EINVAL, "%s: %s is missing", call, missing);
    return !missing;
}

/* In other types than files have them. */
static lk_tensor *list_as(lk_tensor *list, lk_dtype dtype)
{
    return list && list->dtype != dtype ? lk_keep(lk_cast(list, dtype)) : list;
}

/* How many classes are known from the start; 0: those of the first predictions count. */
static int64_t classes_of(lki_metric_id id, const lk_metric_args *a)
{
    if (id == LKI_METRIC_auc) return a->multi_label == LK_ON ? lki_integer(a->num_labels) : 1;
    return id == LKI_METRIC_binary_iou ? 2 : lki_integer(a->num_classes);
}

static lk_metric *metric_new(const char *call, lki_metric_id id, lk_metric_args a)
{
    LKI_NEAREST;
    const lki_metric_kind *kind = &lki_metric_kinds[id];
    if (!options_known(call, kind->takes, &a) || !words_known(call, &a) || !numbers_fit(call, id, &a) || !lists_fit(call, id, &a) ||
        !value_given(call, kind->takes, &a))
        return NULL;
    if (!a.name) a.name = kind->name;
    if (!a.k && (kind->takes & LKI_TAKES_K)) a.k = 5;
    if (!a.curve && (kind->takes & LKI_TAKES_CURVE)) a.curve = "ROC";
    if (!a.summation_method && (kind->takes & LKI_TAKES_CURVE)) a.summation_method = "interpolation";
    if (!a.class_aggregation && (kind->takes & LKI_TAKES_AGGREGATION)) a.class_aggregation = "uniform_average";
    if (!a.num_thresholds && (kind->takes & LKI_TAKES_NUM_THRESHOLDS)) a.num_thresholds = 200;
    a.thresholds = list_as(a.thresholds, LK_F64);
    a.label_weights = list_as(a.label_weights, LK_F64);
    a.target_class_ids = list_as(a.target_class_ids, LK_F64);
    lk_metric *m = lki_metric_new(call, kind, &lki_metric_classes[id], &a);
    if (m) m->classes = classes_of(id, &a);
    return lki_metric_ready(m);
}

#define CONSTRUCTOR(metric, class)                                                                                                 \
    lk_metric *lk_##metric##_kw(lk_metric_args args) { return metric_new("lk_" #metric, LKI_METRIC_##metric, args); }
LK_METRIC_LIST(CONSTRUCTOR)

/* ---- by name ---- */

static const struct {
    const char   *lower, *upper;
    lki_metric_id metric;
} SHORT[] = {
    {"mse", "MSE", LKI_METRIC_mean_squared_error_metric},
    {"mae", "MAE", LKI_METRIC_mean_absolute_error_metric},
    {"mape", "MAPE", LKI_METRIC_mean_absolute_percentage_error_metric},
    {"msle", "MSLE", LKI_METRIC_mean_squared_logarithmic_error_metric},
    {"bce", "BCE", LKI_METRIC_binary_crossentropy_metric},
    {"log_cosh_error", "log_cosh_error", LKI_METRIC_log_cosh_error_metric},
};

static int find(const char *name)
{
    if (!strcasecmp(name, "accuracy") || !strcasecmp(name, "acc")) return LKI_METRIC_accuracy; /* Keras ignores the case */
    for (int i = 0; i < LKI_METRIC_COUNT; i++) {
        const char *class = lki_metric_classes[i].name;
        if (!strcmp(name, lki_metric_kinds[i].name) || (class && !strcmp(name, class))) return i;
    }
    for (int i = 0; i < LKI_COUNT(SHORT); i++)
        if (!strcmp(name, SHORT[i].lower) || !strcmp(name, SHORT[i].upper)) return (int)SHORT[i].metric;
    return -1;
}

static const char *name_at(const void *of, int i)
{
    (void)of;
    if (i < LKI_METRIC_COUNT) return lki_metric_kinds[i].name;
    return i < LKI_METRIC_COUNT + LKI_COUNT(SHORT) ? SHORT[i - LKI_METRIC_COUNT].lower : NULL;
}

lk_metric *lk_metric_named(const char *name)
{
    char      known[LKI_KNOWN_TEXT];
    const int id = name ? find(name) : -1;
    if (!name) return lki_fail(LK_EINVAL, "lk_metric_named: the name is NULL"), NULL;
    if (id < 0)
        return lki_fail(LK_EINVAL, "lk_metric_named: there is no metric \"%.64s\"%s", name,
                        lki_names_known(name, name_at, NULL, NULL, known)),
               NULL;
    return metric_new("lk_metric_named", (lki_metric_id)id, (lk_metric_args){.name = name});
}
