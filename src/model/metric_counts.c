/* Kinds of metrics that count verdicts: precision, recall, AUC, F1 and their parts, and the confusion matrix.
 *
 * Formulas and names of sums are Keras'; sums are exact if weights are, so only the epsilons of the formulas and the division
 * round. */
#include "model/metric.h"
#include "op/gradient.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-7    /* as in Keras */
#define NOTHING (-1e10) /* a prediction that is never positive */

static double threshold_of(const lk_metric *m) { return lki_number_or(m->set.threshold, 0.5); }

static double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

/* ---- verdicts: positive above a threshold ---- */

const double *lki_metric_list(const lk_tensor *list, int64_t *count)
{
    *count = list ? lki_shape_size(&list->shape) : 0;
    return list ? lk_data(list) : NULL;
}

int64_t lki_metric_thresholds(const lk_metric *m)
{
    int64_t count;
    lki_metric_list(m->set.thresholds, &count);
    if (count) return m->kind->takes & LKI_TAKES_CURVE ? count + 2 : count;
    return m->set.num_thresholds ? lki_integer(m->set.num_thresholds) : 1;
}

static bool per_label(const lk_metric *m) { return m->set.multi_label == LK_ON; }

lk_shape lki_threshold_entries(const lk_metric *m)
{
    return per_label(m) ? (lk_shape){2, {lki_metric_thresholds(m), m->classes}} : (lk_shape){1, {lki_metric_thresholds(m)}};
}

/* One result, or one per threshold. */
lk_shape lki_threshold_shape(const lk_metric *m)
{
    return lki_metric_thresholds(m) == 1 ? (lk_shape){0} : (lk_shape){1, {lki_metric_thresholds(m)}};
}

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

/* ---- thresholds ---- */

enum { MOST_GIVEN = 1000 };

static int in_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The list of thresholds; 0: there is none. That of auc is sorted, and has ends that are below and above all predictions. */
static int64_t list_of(const lk_metric *m, double *out)
{
    int64_t       count;
    const double *given = lki_metric_list(m->set.thresholds, &count);
    const bool    ends = (m->kind->takes & LKI_TAKES_CURVE) != 0;
    if (!count) return 0;
    memcpy(out + ends, given, (size_t)count * sizeof *out);
    if (!ends) return count;
    qsort(out + 1, (size_t)count, sizeof *out, in_order);
    out[0] = -EPSILON;
    out[count + 1] = 1 + EPSILON;
    return count + 2;
}

/* Whether they divide 0 to 1 evenly; then they are compared in Keras' arithmetic, so that predictions equal to one are on the same
 * side. */
static bool are_even(int64_t count, const double *at)
{
    for (int64_t i = 0; i < count; i++)
        if (fabs(at[i] - (double)i / (double)(count - 1)) > 2 * EPSILON) return false;
    return count > 2;
}

/* One number per threshold, for comparisons with predictions [..., 1], or [rows, 1, labels]. */
static lk_tensor *along(const lk_metric *m, lk_tensor *list) { return per_label(m) ? lk_expand_dims(list, 1) : list; }

/* Above the i-th of `count` thresholds from 0 to 1. `ends`: the first is below 0. */
static lk_tensor *above_even(const lk_metric *m, lk_tensor *p, int64_t count, bool ends)
{
    lk_tensor *one = lki_like(p, 1), *place = lk_mul(lk_clip(p, 0, 1), lki_like(p, (double)count - 1));
    lk_tensor *passed = lk_sub(lk_ceil(place), one); /* the last threshold it is above */
    if (ends) passed = lk_relu(passed);
    return lki_bad(passed) ? passed : lk_greater_equal(passed, along(m, lk_range(count, passed->dtype)));
}

/* True where a prediction is above a threshold; with several thresholds, a new axis has one for each. */
static lk_tensor *positives(const lk_metric *m, lk_tensor *p)
{
    double        at[MOST_GIVEN + 2];
    const int64_t given = list_of(m, at), count = lki_integer(m->set.num_thresholds);
    const bool    ends = (m->kind->takes & LKI_TAKES_CURVE) != 0;
    if (m->set.from_logits == LK_ON) p = lk_sigmoid(p);
    if (!given && count > 1) return above_even(m, p, count, ends);
    if (!given && lki_integer_given(m->set.top_k) && !lki_number_given(m->set.threshold))
        return lk_greater(p, lki_like(p, NOTHING));
    if (!given) return lk_greater(p, lki_like(p, threshold_of(m)));
    if (are_even(given, at)) return above_even(m, p, given, ends);
    lk_tensor *list = lk_tensor_from(LK_SHAPE(given), LK_F64, at);
    return lki_bad(p) ? p : lk_greater(p, along(m, lk_cast(list, p->dtype)));
}

/* Predictions that are not among the k largest of the last axis become negative. */
static lk_tensor *largest(const lk_metric *m, lk_tensor *p)
{
    const int64_t k = lki_integer(m->set.top_k), last = p->shape.rank ? p->shape.dim[p->shape.rank - 1] : 0;
    if (!lki_integer_given(m->set.top_k)) return p;
    if (k > last) return lki_metric_refuse(m, LK_ESHAPE, "top_k is %lld of %lld predictions", (long long)k, (long long)last);
    lk_tensor *on = lk_one_hot(lk_top_k(p, k).item[1], last, .dtype = p->dtype);
    return lk_where(lk_greater(lk_reduce_sum(on, .axis = LK_AXES(-2)), lki_like(p, 0)), p, lki_like(p, NOTHING));
}

/* Each label has its weight; without multi_label, where it is that of the result. */
static lk_tensor *label_weighted(const lk_metric *m, lk_tensor *x)
{
    if (!m->set.label_weights || per_label(m) || lki_bad(x)) return x;
    lk_tensor *w = lk_expand_dims(lk_cast(m->set.label_weights, LK_F32), -1);
    return lk_mul(lk_cast(x, LK_F32), w);
}

static bool labels_fit(const lk_metric *m, const lk_tensor *p)
{
    char text[LKI_SHAPE_TEXT];
    if (!per_label(m) || (p->shape.rank == 2 && p->shape.dim[1] == m->classes)) return true;
    lki_metric_refuse(m, LK_ESHAPE, "predictions are %s; with multi_label they must be rows of %lld labels",
                      lki_shape_text(&p->shape, text), (long long)m->classes);
    return false;
}

void lki_verdict_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    lk_tensor *labels = a->a, *predictions = a->b;
    const int  extra = per_label(m) ? 1 : -1; /* where the axis of thresholds is */
    x[0] = &lki_poison;
    if (!lki_metric_together(m, &labels, &predictions) || !labels_fit(m, predictions)) return;
    lk_tensor *p = lki_metric_numbers(predictions);
    p = lki_bad(p) ? p : largest(m, p);
    p = lki_bad(p) ? p : column(m, p);
    lk_tensor *y = column(m, labels);
    if (lki_bad(p) || lki_bad(y)) return;
    lk_tensor *is = lk_expand_dims(lk_not_equal(y, lki_like(y, 0)), extra), *said = positives(m, lk_expand_dims(p, extra));
    for (int q = 0; q < LKI_MOST_SUMS && m->kind->sum[q]; q++) {
        const lki_verdict v = m->kind->verdict[q];
        const bool        of_true = v == LKI_TRUE_POSITIVE || v == LKI_FALSE_NEGATIVE;
        const bool        of_positive = v == LKI_TRUE_POSITIVE || v == LKI_FALSE_POSITIVE;
        x[q] = lk_logical_and(of_true ? is : lk_logical_not(is), of_positive ? said : lk_logical_not(said));
        x[q] = label_weighted(m, x[q]);
    }
}

/* Precision: of what was predicted positive; recall: of what is positive. */
void lki_share_results(const lk_metric *m, double *const *sum, double *out)
{
    for (int64_t i = 0; i < lki_metric_thresholds(m); i++)
        out[i] = ratio(sum[0][i], sum[0][i] + sum[1][i]);
}

/* ---- areas under curves ---- */

enum { TP, FP, TN, FN };

typedef struct counts { /* of one label, at one threshold */
    double tp, fp, tn, fn;
} counts;

static counts at_threshold(const lk_metric *m, double *const *sum, int64_t i, int64_t label)
{
    const int64_t k = per_label(m) ? i * m->classes + label : i;
    return (counts){sum[TP][k], sum[FP][k], sum[TN][k], sum[FN][k]};
}

typedef struct point {
    double x, y;
} point;

/* Gains are as in Flach & Kull, 2015; where they are not defined, 0 and 1. */
static point point_of(const lk_metric *m, const counts *c)
{
    const double recall = ratio(c->tp, c->tp + c->fn), scale = ratio(c->tp + c->fn, c->tn + c->fp);
    if (!strcmp(m->set.curve, "ROC")) return (point){ratio(c->fp, c->fp + c->tn), recall};
    if (!strcmp(m->set.curve, "PR")) return (point){recall, ratio(c->tp, c->tp + c->fp)};
    if (c->tp == 0) return (point){0, 1};
    return (point){fmax(1 - scale * ratio(c->fn, c->tp), 0), 1 - scale * ratio(c->fp, c->tp)};
}

static double height(const lk_metric *m, double a, double b)
{
    const char *how = m->set.summation_method;
    return how && !strcmp(how, "minoring") ? fmin(a, b) : how && !strcmp(how, "majoring") ? fmax(a, b) : (a + b) / 2;
}

static double area(const lk_metric *m, double *const *sum, int64_t label)
{
    double area = 0;
    point  before = {0};
    for (int64_t i = 0; i < lki_metric_thresholds(m); i++) {
        const counts c = at_threshold(m, sum, i, label);
        const point  now = point_of(m, &c);
        if (i) area += (before.x - now.x) * height(m, before.y, now.y);
        before = now;
    }
    return area;
}

/* Between two thresholds true positives are assumed to grow in proportion to all positives (Davis & Goadrich, 2006): precision is
 * not linear in recall. */
static double area_under_pr(const lk_metric *m, double *const *sum, int64_t label)
{
    double area = 0;
    for (int64_t i = 0; i + 1 < lki_metric_thresholds(m); i++) {
        const counts c = at_threshold(m, sum, i, label), next = at_threshold(m, sum, i + 1, label);
        double       p = c.tp + c.fp, next_p = next.tp + next.fp, tp = next.tp;
        double       grown = c.tp - tp, slope = ratio(grown, fmax(p - next_p, 0)), intercept = tp - slope * next_p;
        double       scale = p > 0 && next_p > 0 ? p / next_p : 1;
        area += ratio(slope * (grown + intercept * log(scale)), fmax(tp + next.fn, 0));
    }
    return area;
}

/* With multi_label the mean over the labels, weighted. */
void lki_auc_results(const lk_metric *m, double *const *sum, double *out)
{
    int64_t       count;
    const double *weights = lki_metric_list(m->set.label_weights, &count);
    const char   *how = m->set.summation_method;
    const bool    special = !strcmp(m->set.curve, "PR") && (!how || !strcmp(how, "interpolation"));
    double        total = 0, all = 0;
    for (int64_t label = 0; label < (per_label(m) ? m->classes : 1); label++) {
        const double weight = per_label(m) && count ? weights[label] : 1;
        total += weight * (special ? area_under_pr(m, sum, label) : area(m, sum, label));
        all += weight;
    }
    out[0] = ratio(total, all);
}

/* ---- the best of one share where another is large enough ---- */

void lki_constrained_results(const lk_metric *m, double *const *sum, double *out)
{
    const unsigned takes = m->kind->takes;
    const double   least = takes & LKI_TAKES_RECALL        ? lki_number(m->set.recall)
                           : takes & LKI_TAKES_PRECISION   ? lki_number(m->set.precision)
                           : takes & LKI_TAKES_SENSITIVITY ? lki_number(m->set.sensitivity)
                                                           : lki_number(m->set.specificity);
    out[0] = 0;
    for (int64_t i = 0; i < lki_metric_thresholds(m); i++) {
        const counts c = at_threshold(m, sum, i, 0);
        const double precision = ratio(c.tp, c.tp + c.fp), recall = ratio(c.tp, c.tp + c.fn),
                     specificity = ratio(c.tn, c.tn + c.fp);
        const double limited = takes & LKI_TAKES_PRECISION ? precision : takes & LKI_TAKES_SPECIFICITY ? specificity : recall;
        const double wanted = takes & LKI_TAKES_RECALL ? precision : takes & LKI_TAKES_SENSITIVITY ? specificity : recall;
        if (limited >= least) out[0] = fmax(out[0], wanted);
    }
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

static double f1_of(const lk_metric *m, double tp, double fp, double fn)
{
    const double beta = lki_number_or(m->set.beta, 1), square = beta * beta;
    double       precision = tp / (tp + fp + EPSILON), recall = tp / (tp + fn + EPSILON);
    return (1 + square) * (precision * recall / (square * precision + recall + EPSILON));
}

void lki_f1_results(const lk_metric *m, double *const *sum, double *out)
{
    const int64_t classes = averages(m, "micro") ? 1 : m->classes;
    const bool    weighted = averages(m, "weighted");
    double        all = 0, mean = 0;
    for (int64_t i = 0; i < classes; i++)
        all += sum[F1_WEIGHT][i];
    for (int64_t i = 0; i < classes; i++) {
        double f1 = f1_of(m, sum[F1_TP][i], sum[F1_FP][i], sum[F1_FN][i]);
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
