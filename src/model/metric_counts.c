/* Kinds of metrics that count verdicts: precision, recall, AUC, F1 and their parts, and the confusion matrix.
 *
 * Formulas and names of sums are Keras'; sums are exact if weights are, so only the epsilons of the formulas and the division
 * round. */
#include "model/metric.h"
#include "op/gradient.h"
#include <math.h>
#include <string.h>

#define EPSILON 1e-7 /* as in Keras */

static double threshold_of(const lk_metric *m) { return lki_number_or(m->set.threshold, 0.5); }

static double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

/* ---- verdicts: positive above a threshold ---- */

lk_shape lki_one_entry(const lk_metric *m) { return (void)m, (lk_shape){1, {1}}; }
lk_shape lki_threshold_entries(const lk_metric *m) { return (lk_shape){1, {m->set.num_thresholds}}; }

/* The column of class_id, kept as an axis. */
static lk_tensor *column(const lk_metric *m, lk_tensor *t)
{
    const int     last = t->shape.rank - 1;
    const int64_t id = (int64_t)lki_number(m->set.class_id);
    char          text[LKI_SHAPE_TEXT];
    if (!lki_number_given(m->set.class_id)) return t;
    if (last < 1 || id >= t->shape.dim[last])
        return lki_metric_refuse(m, LK_ESHAPE, "class_id is %lld; predictions %s have no such class", (long long)id,
                                 lki_shape_text(&t->shape, text));
    lki_axes begin = {t->shape.rank, {0}}, size = {t->shape.rank, {0}};
    for (int i = 0; i < last; i++)
        size.value[i] = -1;
    begin.value[last] = id;
    size.value[last] = 1;
    return lki_slice(t, &begin, &size);
}

/* True where a prediction [..., 1] is above the threshold; with several thresholds, evenly spaced over 0 to 1, [..., thresholds]:
 * the first is below 0 and the last above 1. In Keras' arithmetic, so that predictions equal to a threshold are on the same
 * side. */
static lk_tensor *positives(const lk_metric *m, lk_tensor *p)
{
    if (!lki_integer_given(m->set.num_thresholds)) return lk_greater(p, lki_like(p, threshold_of(m)));
    if (m->set.from_logits == LK_ON) p = lk_sigmoid(p);
    const int64_t count = lki_integer(m->set.num_thresholds);
    lk_tensor    *one = lki_like(p, 1), *place = lk_mul(lk_clip(p, 0, 1), lki_like(p, (double)count - 1));
    lk_tensor    *passed = lk_relu(lk_sub(lk_ceil(place), one)); /* the last threshold it is above */
    return lki_bad(passed) ? passed : lk_greater_equal(passed, lk_range(count, passed->dtype));
}

void lki_verdict_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    lk_tensor *labels = a->a, *predictions = a->b;
    x[0] = &lki_poison;
    if (!lki_metric_together(m, &labels, &predictions)) return;
    lk_tensor *p = lki_metric_numbers(column(m, predictions)), *y = column(m, labels);
    if (lki_bad(p) || lki_bad(y)) return;
    lk_tensor *is = lk_expand_dims(lk_not_equal(y, lki_like(y, 0)), -1), *said = positives(m, lk_expand_dims(p, -1));
    for (int q = 0; q < LKI_MOST_SUMS && m->kind->sum[q]; q++) {
        const lki_verdict v = m->kind->verdict[q];
        const bool        of_true = v == LKI_TRUE_POSITIVE || v == LKI_FALSE_NEGATIVE;
        const bool        of_positive = v == LKI_TRUE_POSITIVE || v == LKI_FALSE_POSITIVE;
        x[q] = lk_logical_and(of_true ? is : lk_logical_not(is), of_positive ? said : lk_logical_not(said));
    }
}

/* Precision: of what was predicted positive; recall: of what is positive. */
void lki_share_results(const lk_metric *m, double *const *sum, double *out)
{
    (void)m;
    out[0] = ratio(sum[0][0], sum[0][0] + sum[1][0]);
}

/* ---- areas under curves, by trapezoids ---- */

enum { TP, FP, TN, FN };

static double area_under_roc(double *const *sum, int64_t count)
{
    double area = 0, x = 0, y = 0;
    for (int64_t i = 0; i < count; i++) {
        double next_x = ratio(sum[FP][i], sum[FP][i] + sum[TN][i]), next_y = ratio(sum[TP][i], sum[TP][i] + sum[FN][i]);
        if (i) area += (x - next_x) * (y + next_y) / 2;
        x = next_x;
        y = next_y;
    }
    return area;
}

/* Between two thresholds true positives are assumed to grow in proportion to all positives (Davis & Goadrich, 2006): precision is
 * not linear in recall. */
static double area_under_pr(double *const *sum, int64_t count)
{
    double area = 0;
    for (int64_t i = 0; i + 1 < count; i++) {
        double p = sum[TP][i] + sum[FP][i], next_p = sum[TP][i + 1] + sum[FP][i + 1], tp = sum[TP][i + 1];
        double grown = sum[TP][i] - tp, slope = ratio(grown, fmax(p - next_p, 0)), intercept = tp - slope * next_p;
        double scale = p > 0 && next_p > 0 ? p / next_p : 1;
        area += ratio(slope * (grown + intercept * log(scale)), fmax(tp + sum[FN][i + 1], 0));
    }
    return area;
}

void lki_auc_results(const lk_metric *m, double *const *sum, double *out)
{
    out[0] = strcmp(m->set.curve, "PR") ? area_under_roc(sum, m->set.num_thresholds) : area_under_pr(sum, m->set.num_thresholds);
}

/* ---- F1: per class, or all classes together ---- */

enum { F1_TP, F1_FP, F1_FN, F1_WEIGHT };

static bool averages(const lk_metric *m, const char *how) { return m->set.average && !strcmp(m->set.average, how); }

lk_shape lki_f1_entry(const lk_metric *m) { return averages(m, "micro") ? (lk_shape){0} : (lk_shape){1, {m->classes}}; }
lk_shape lki_f1_shape(const lk_metric *m) { return m->set.average ? (lk_shape){0} : (lk_shape){1, {m->classes}}; }

/* Without a threshold the largest element, and those equal to it; a row of zeros has none. */
static lk_tensor *chosen(const lk_metric *m, lk_tensor *p)
{
    if (lki_number_given(m->set.threshold)) return lk_greater(p, lki_like(p, lki_number(m->set.threshold)));
    lk_tensor *largest = lk_reduce_max(p, .axis = LK_AXES(-1), .keepdims = LK_ON);
    return lk_logical_and(lk_greater_equal(p, largest), lk_greater(lk_abs(p), lki_like(p, 1e-9)));
}

void lki_f1_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    lk_tensor *labels = a->a, *predictions = a->b;
    char       text[LKI_SHAPE_TEXT];
    x[0] = &lki_poison;
    if (!lki_metric_together(m, &labels, &predictions)) return;
    const int rank = predictions->shape.rank;
    if (rank < 2 || predictions->shape.dim[rank - 1] != m->classes) {
        lki_metric_refuse(m, LK_ESHAPE, "predictions are %s; they must be rows of %lld classes",
                          lki_shape_text(&predictions->shape, text), (long long)m->classes);
        return;
    }
    lk_tensor *y = lki_metric_numbers(labels), *p = lki_metric_numbers(predictions);
    if (lki_bad(y) || lki_bad(p)) return;
    lk_tensor *yes = lk_cast(chosen(m, p), y->dtype), *one = lki_like(y, 1);
    x[F1_TP] = lk_mul(yes, y);
    x[F1_FP] = lk_mul(yes, lk_sub(one, y));
    x[F1_FN] = lk_mul(lk_sub(one, yes), y);
    x[F1_WEIGHT] = y;
}

static double f1_of(double tp, double fp, double fn)
{
    double precision = tp / (tp + fp + EPSILON), recall = tp / (tp + fn + EPSILON);
    return 2 * (precision * recall / (precision + recall + EPSILON));
}

void lki_f1_results(const lk_metric *m, double *const *sum, double *out)
{
    const int64_t classes = averages(m, "micro") ? 1 : m->classes;
    const bool    weighted = averages(m, "weighted");
    double        all = 0, mean = 0;
    for (int64_t i = 0; i < classes; i++)
        all += sum[F1_WEIGHT][i];
    for (int64_t i = 0; i < classes; i++) {
        double f1 = f1_of(sum[F1_TP][i], sum[F1_FP][i], sum[F1_FN][i]);
        mean += weighted ? f1 * (sum[F1_WEIGHT][i] / (all + EPSILON)) : f1 / (double)classes;
        if (!m->set.average) out[i] = f1;
    }
    if (m->set.average) out[0] = mean;
}

/* ---- the confusion matrix: rows are labels, columns what was predicted ---- */

lk_shape lki_matrix_entry(const lk_metric *m) { return (lk_shape){1, {m->classes * m->classes}}; }
lk_shape lki_matrix_shape(const lk_metric *m) { return (lk_shape){2, {m->classes, m->classes}}; }

/* One number per element decides between class 0 and 1. */
static lk_tensor *predicted(const lk_metric *m, lk_tensor *p)
{
    const int64_t last = p->shape.rank ? p->shape.dim[p->shape.rank - 1] : 0;
    char          text[LKI_SHAPE_TEXT];
    if (last == 1 && m->classes == 2) return lk_cast(lk_squeeze(lk_greater(p, lki_like(p, threshold_of(m))), LK_AXES(-1)), LK_I64);
    if (last == m->classes) return lk_argmax(p, .axis = LK_AXIS(-1));
    return lki_metric_refuse(m, LK_ESHAPE, "predictions are %s; their last axis must be %lld classes",
                             lki_shape_text(&p->shape, text), (long long)m->classes);
}

void lki_matrix_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    lk_tensor *column = predicted(m, a->b), *labels = a->a;
    x[0] = &lki_poison;
    if (lki_bad(column)) return;
    bool       one_hot = lki_shape_equal(&labels->shape, &a->b->shape) && a->b->shape.dim[a->b->shape.rank - 1] != 1;
    lk_tensor *row = one_hot ? lk_argmax(labels, .axis = LK_AXIS(-1)) : lk_cast(lki_metric_class_labels(labels, a->b), LK_I64);
    if (lki_bad(row) || !lki_metric_together(m, &row, &column)) return;
    /* a label out of range is counted in no cell */
    lk_tensor *cell = lk_add(lk_mul(row, lki_like(row, (double)m->classes)), column);
    x[0] = lk_one_hot(cell, m->classes * m->classes, .dtype = LK_BOOL);
}

/* The share on the diagonal. */
double lki_matrix_result(const lk_metric *m, double *const *sum)
{
    double right = 0, all = 0;
    for (int64_t i = 0; i < m->classes * m->classes; i++) {
        all += sum[0][i];
        if (i % (m->classes + 1) == 0) right += sum[0][i];
    }
    return ratio(right, all);
}
