/* Metrics by their constructors and by name, and their names in Keras files. */
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
#define THRESHOLDS LKI_FIELD_AS("thresholds", NUMBER, ARGS, threshold, .none = true, .standard = 0.5)
#define NO_SMOOTHING LKI_FIXED("label_smoothing", "0")

static const lki_field PLAIN[] = {EVERY_METRIC};
static const lki_field THRESHOLD[] = {EVERY_METRIC, LKI_FIELD(NUMBER, ARGS, threshold, .standard = 0.5)};
static const lki_field TOP_K[] = {EVERY_METRIC, LKI_FIELD(INTEGER, ARGS, k, .standard = 5)};
static const lki_field COUNT[] = {EVERY_METRIC, THRESHOLDS};
static const lki_field SHARE[] = {EVERY_METRIC, THRESHOLDS, LKI_FIXED("top_k", "null"),
                                  LKI_FIELD(NUMBER, ARGS, class_id, .none = true)};
static const lki_field CURVE[] = {EVERY_METRIC,
                                  LKI_FIELD(INTEGER, ARGS, num_thresholds, .standard = 200),
                                  LKI_FIELD(NAME, ARGS, curve),
                                  LKI_FIXED("summation_method", "\"interpolation\""),
                                  LKI_FIXED("multi_label", "false"),
                                  LKI_FIXED("num_labels", "null"),
                                  LKI_FIXED("label_weights", "null"),
                                  LKI_FIELD(SWITCH, ARGS, from_logits)};
static const lki_field F1[] = {EVERY_METRIC, LKI_FIELD(NAME, ARGS, average), LKI_FIELD(NUMBER, ARGS, threshold, .none = true)};
static const lki_field SPARSE[] = {EVERY_METRIC, LKI_FIELD(SWITCH, ARGS, from_logits), LKI_FIXED("ignore_class", "null"),
                                   LKI_FIXED("axis", "-1")};
static const lki_field CATEGORICAL[] = {EVERY_METRIC, LKI_FIELD(SWITCH, ARGS, from_logits), NO_SMOOTHING, LKI_FIXED("axis", "-1")};
static const lki_field BINARY[] = {EVERY_METRIC, LKI_FIELD(SWITCH, ARGS, from_logits), NO_SMOOTHING};

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

static bool words_known(const char *call, const lk_metric_args *a)
{
    static const char *const CURVES[] = {"ROC", "PR"}, *const AVERAGES[] = {"micro", "macro", "weighted"};
    if (a->curve && !is_one_of(a->curve, CURVES, 2))
        return lki_fail(LK_EINVAL, "%s: there is no curve \"%.64s\"; it must be \"ROC\" or \"PR\"", call, a->curve), false;
    if (a->average && !is_one_of(a->average, AVERAGES, 3))
        return lki_fail(LK_EINVAL, "%s: there is no average \"%.64s\"; it must be \"micro\", \"macro\" or \"weighted\"", call,
                        a->average),
               false;
    return true;
}

/* Predictions of accuracies and matrices may be logits, those of the others are 0 to 1. */
static bool threshold_fits(const char *call, lki_metric_id id, double t)
{
    const bool any = id == LKI_METRIC_accuracy || id == LKI_METRIC_binary_accuracy || id == LKI_METRIC_confusion_matrix;
    if (any ? isfinite(t) : t >= 0 && t <= 1 && (t > 0 || id != LKI_METRIC_f1_score)) return true;
    lki_fail(LK_EINVAL, "%s: threshold is %g; it must be %s", call, t,
             any                         ? "finite"
             : id == LKI_METRIC_f1_score ? "above 0 and at most 1"
                                         : "0 to 1");
    return false;
}

static bool numbers_fit(const char *call, lki_metric_id id, const lk_metric_args *a)
{
    if (lki_number_given(a->threshold) && !threshold_fits(call, id, lki_number(a->threshold))) return false;
    if (a->k < 0) return lki_fail(LK_EINVAL, "%s: k is %lld; it must be at least 1", call, (long long)lki_integer(a->k)), false;
    if (lki_number_given(a->class_id) &&
        !(lki_number(a->class_id) >= 0 && lki_number(a->class_id) == floor(lki_number(a->class_id)) &&
          lki_number(a->class_id) < 1e9))
        return lki_fail(LK_EINVAL, "%s: class_id is %g; it must be the number of a class", call, lki_number(a->class_id)), false;
    if (a->num_thresholds && (a->num_thresholds < 2 || a->num_thresholds > 1000000))
        return lki_fail(LK_EINVAL, "%s: num_thresholds is %lld; it must be at least 2", call,
                        (long long)lki_integer(a->num_thresholds)),
               false;
    if (a->num_classes && (a->num_classes < 1 || a->num_classes > 1000000))
        return lki_fail(LK_EINVAL, "%s: num_classes is %lld; it must be at least 1", call, (long long)lki_integer(a->num_classes)),
               false;
    if (a->output < 0) return lki_fail(LK_EINVAL, "%s: output is %d; it must be 0 or more", call, a->output), false;
    return true;
}

static lk_metric *metric_new(const char *call, lki_metric_id id, lk_metric_args a)
{
    LKI_NEAREST;
    const lki_metric_kind *kind = &lki_metric_kinds[id];
    if (!options_known(call, kind->takes, &a) || !words_known(call, &a) || !numbers_fit(call, id, &a)) return NULL;
    if (!a.name) a.name = kind->name;
    if (!a.k && (kind->takes & LKI_TAKES_K)) a.k = 5;
    if (!a.curve && (kind->takes & LKI_TAKES_CURVE)) a.curve = "ROC";
    if (!a.num_thresholds && (kind->takes & LKI_TAKES_NUM_THRESHOLDS)) a.num_thresholds = 200;
    return lki_metric_ready(lki_metric_new(call, kind, &lki_metric_classes[id], &a));
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
    for (int i = 0; i < LKI_METRIC_COUNT; i++) {
        const char *class = lki_metric_classes[i].name;
        if (!strcmp(name, lki_metric_kinds[i].name) || (class && !strcmp(name, class))) return i;
    }
    for (int i = 0; i < LKI_COUNT(SHORT); i++)
        if (!strcmp(name, SHORT[i].lower) || !strcmp(name, SHORT[i].upper)) return (int)SHORT[i].metric;
    return !strcasecmp(name, "accuracy") || !strcasecmp(name, "acc") ? LKI_METRIC_accuracy : -1; /* Keras ignores the case */
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
