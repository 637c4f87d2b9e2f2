/* Kinds of metrics about regions and regressions: intersection over union, R2, correlations. */
#include "core/dtype.h"
#include "core/size.h"
#include "model/metric.h"
#include "op/gradient.h"
#include <math.h>
#include <string.h>

#define EPSILON 1e-7 /* as in Keras */

/* ---- intersection over union, from a matrix of labels and predictions ---- */

/* Keras sums weights as whole numbers unless another dtype is given; here they are what they are. */
static lk_tensor *classes_of(const lk_metric *m, lk_tensor *t, bool sparse, const char *what)
{
    const int     rank = t->shape.rank;
    const int64_t axis = lki_axis_or(m->set.axis, -1);
    char          text[LKI_SHAPE_TEXT];
    if (sparse) return lk_cast(t, LK_I64);
    if (axis + (axis < 0 ? rank : 0) < 1 || axis >= rank)
        return lki_metric_refuse(m, LK_ESHAPE, "%s are %s; there is no axis %lld of classes", what, lki_shape_text(&t->shape, text),
                                 (long long)axis);
    return lk_argmax(lki_metric_numbers(t), .axis = LK_AXIS((int)axis));
}

static lk_tensor *are_inside(lk_tensor *ids, int64_t classes)
{
    return lk_logical_and(lk_greater_equal(ids, lki_like(ids, 0)), lk_less(ids, lki_like(ids, (double)classes)));
}

void lki_iou_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    const bool one_hot = (m->kind->takes & LKI_TAKES_SPARSE_LABELS) == 0 && (m->kind->takes & LKI_TAKES_SPARSE_PREDICTIONS) != 0;
    const bool binary = (m->kind->takes & LKI_TAKES_THRESHOLD) != 0;
    lk_tensor *labels = a->a, *p = a->b;
    x[0] = &lki_poison;
    if (binary) {
        p = lki_metric_numbers(p);
        p = lk_greater_equal(p, lki_like(p, lki_number_or(m->set.threshold, 0.5)));
    }
    lk_tensor *row = classes_of(m, labels, !one_hot && m->set.sparse_y_true != LK_OFF, "labels");
    if (lki_bad(row) || lki_bad(p)) return;
    lk_tensor *column = classes_of(m, p, one_hot ? m->set.sparse_y_pred == LK_ON : m->set.sparse_y_pred != LK_OFF, "predictions");
    if (lki_bad(column) || !lki_metric_together(m, &row, &column)) return;
    lk_tensor *counts = lk_logical_and(are_inside(row, m->classes), are_inside(column, m->classes));
    if (lki_number_given(m->set.ignore_class))
        counts = lk_logical_and(counts, lk_not_equal(row, lki_like(row, lki_number(m->set.ignore_class))));
    lk_tensor *cell = lk_add(lk_mul(row, lki_like(row, (double)m->classes)), column);
    cell = lk_where(counts, cell, lki_like(cell, -1)); /* counted in no cell */
    x[0] = lk_one_hot(cell, lki_size_mul(m->classes, m->classes), .dtype = LK_BOOL);
}

/* That of one class; *counts is false if it is nowhere. */
static double overlap_of(const lk_metric *m, const double *matrix, int64_t class, bool *counts)
{
    double row = 0, column = 0;
    for (int64_t i = 0; i < m->classes; i++) {
        row += matrix[class * m->classes + i];
        column += matrix[i * m->classes + class];
    }
    const double both = matrix[class * m->classes + class], either = row + column - both;
    *counts = either > 1e-9;
    return *counts ? both / (either + EPSILON) : 0;
}

void lki_iou_results(const lk_metric *m, double *const *sum, double *out)
{
    int64_t       count;
    const double *target = lki_metric_list(m->set.target_class_ids, &count);
    double        total = 0, found = 0;
    for (int64_t i = 0; i < (count ? count : m->classes); i++) {
        bool counts;
        total += overlap_of(m, sum[0], count ? (int64_t)target[i] : i, &counts);
        found += counts;
    }
    out[0] = total / (found + EPSILON);
}

/* ---- R2 ---- */

enum { SAMPLES, SQUARES, SUM, RESIDUAL, COUNT };

lk_shape lki_class_entry(const lk_metric *m) { return (lk_shape){1, {m->classes}}; }

static bool aggregates(const lk_metric *m, const char *how)
{
    return !strcmp(m->set.class_aggregation ? m->set.class_aggregation : "uniform_average", how);
}

lk_shape lki_r2_shape(const lk_metric *m) { return aggregates(m, "none") ? (lk_shape){1, {m->classes}} : (lk_shape){0}; }

void lki_r2_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    lk_tensor *labels = a->a, *predictions = a->b;
    char       text[LKI_SHAPE_TEXT];
    x[0] = &lki_poison;
    if (!lki_metric_together(m, &labels, &predictions)) return;
    if (predictions->shape.rank != 2 || predictions->shape.dim[1] != m->classes) {
        lki_metric_refuse(m, LK_ESHAPE, "predictions are %s; they must be rows of %lld numbers",
                          lki_shape_text(&predictions->shape, text), (long long)m->classes);
        return;
    }
    lk_tensor *y = lki_metric_numbers(labels), *p = lki_metric_numbers(predictions);
    if (lki_bad(y) || lki_bad(p)) return;
    if (y->dtype != p->dtype) y = lk_cast(y, p->dtype);
    lk_tensor *one = lki_metric_ones(y), *w = a->sample_weight ? lki_weights_of(a->sample_weight, y->dtype, 2) : NULL;
    if (w && lki_bad(w)) return;
    lk_tensor *count = w ? lki_weights_spread(w, y) : lk_cast(one, y->dtype), *weighted = lk_mul(y, count);
    x[SQUARES] = lk_mul(y, weighted);
    x[SUM] = weighted;
    x[RESIDUAL] = lk_mul(lk_square(lk_sub(y, p)), count);
    x[COUNT] = count;
    x[SAMPLES] = lki_bad(x[RESIDUAL]) ? &lki_poison : one;
}

static double adjusted(const lk_metric *m, double score, double samples)
{
    const double n = samples, p = m->set.num_regressors;
    return p == 0 || p >= n - 1 ? score : 1 - (1 - score) * (n - 1) / (n - p - 1);
}

void lki_r2_results(const lk_metric *m, double *const *sum, double *out)
{
    double mean = 0, weighted = 0, weights = 0, samples = 0;
    for (int64_t i = 0; i < m->classes; i++)
        samples += sum[SAMPLES][i];
    for (int64_t i = 0; i < m->classes; i++) {
        const double total = sum[SQUARES][i] - sum[SUM][i] * (sum[SUM][i] / sum[COUNT][i]);
        double       score = 1 - sum[RESIDUAL][i] / total;
        if (isinf(score)) score = 0;
        if (aggregates(m, "none")) out[i] = adjusted(m, score, samples);
        mean += score / (double)m->classes;
        weighted += total * score;
        weights += total;
    }
    if (samples == 0) memset(out, 0, (size_t)(aggregates(m, "none") ? m->classes : 1) * sizeof *out);
    if (samples == 0) return;
    if (aggregates(m, "uniform_average")) out[0] = adjusted(m, mean, samples);
    if (aggregates(m, "variance_weighted_average")) out[0] = adjusted(m, weighted / weights, samples);
}

/* ---- correlations, one for each row ---- */

typedef struct pair {
    lk_tensor *y, *p;
    lk_axes    axis;
} pair;

static bool pair_of(const lk_metric *m, const lk_metric_update_args *a, pair *out)
{
    lk_tensor    *labels = a->a, *predictions = a->b;
    const int64_t axis = lki_axis_or(m->set.axis, -1);
    if (!lki_metric_together(m, &labels, &predictions)) return false;
    const int rank = predictions->shape.rank;
    if (axis + (axis < 0 ? rank : 0) < 1 || axis >= rank)
        return lki_metric_refuse(m, LK_ESHAPE, "there is no axis %lld after that of the rows", (long long)axis), false;
    out->p = lki_metric_numbers(predictions);
    out->y = lki_bad(out->p) ? out->p : lk_cast(labels, out->p->dtype);
    out->axis = axis < 0 ? axis : lki_axes_list(&(lki_axes){1, {axis}});
    return !lki_bad(out->y);
}

static lk_tensor *mean_of(const pair *c, lk_tensor *x) { return lk_reduce_mean(x, .axis = c->axis, .keepdims = LK_ON); }
static lk_tensor *around_mean(const pair *c, lk_tensor *x) { return lk_sub(x, mean_of(c, x)); }
static lk_tensor *variance_of(const pair *c, lk_tensor *x) { return mean_of(c, lk_square(around_mean(c, x))); }

void lki_pearson_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    pair c;
    x[0] = &lki_poison;
    if (!pair_of(m, a, &c)) return;
    lk_tensor *y = lk_div(around_mean(&c, c.y), lk_sqrt(variance_of(&c, around_mean(&c, c.y))));
    lk_tensor *p = lk_div(around_mean(&c, c.p), lk_sqrt(variance_of(&c, around_mean(&c, c.p))));
    x[0] = lk_reduce_mean(lk_mul(y, p), .axis = c.axis);
}

void lki_concordance_values(const lk_metric *m, const lk_metric_update_args *a, lk_tensor **x)
{
    pair c;
    x[0] = &lki_poison;
    if (!pair_of(m, a, &c)) return;
    lk_tensor *y = mean_of(&c, c.y), *p = mean_of(&c, c.p);
    lk_tensor *both = lk_mul(lk_sub(c.y, p), lk_sub(c.p, p)); /* as Keras has it */
    lk_tensor *norm = lk_add(lk_add(variance_of(&c, c.y), variance_of(&c, c.p)), lk_square(lk_sub(y, p)));
    lk_tensor *share = lk_div(lk_mul(lki_like(both, 2), both), lk_add(norm, lki_like(norm, EPSILON)));
    x[0] = lk_reduce_mean(share, .axis = c.axis);
}
