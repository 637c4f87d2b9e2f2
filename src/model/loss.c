/* Losses as objects: their values, weights, masks and reductions.
 *
 * Under a strategy a loss does not know the global batch, so a reduction that divides by the batch is an error there: a custom loop
 * uses the values and calls lk_compute_average_loss(). */
#include "model/loss.h"
#include "core/dtype.h"
#include "core/names.h"
#include "core/rounding.h"
#include "dist/strategy.h"
#include "op/gradient.h"
#include <stdio.h>
#include <string.h>

/* ---- its values ---- */

static bool ends_in_one(const lk_tensor *t) { return t->shape.rank && t->shape.dim[t->shape.rank - 1] == 1; }

static void fit_narrow(lk_tensor **wide, lk_tensor **narrow)
{
    if (!ends_in_one(*wide) || (*wide)->shape.rank != (*narrow)->shape.rank + 1) return;
    if ((*narrow)->shape.rank == 1) *narrow = lk_expand_dims(*narrow, -1);
    else *wide = lk_squeeze(*wide, LK_AXES(-1));
}

void lki_bring_together(lk_tensor **a, lk_tensor **b)
{
    if (!lki_bad(*a) && !lki_bad(*b)) fit_narrow(a, b);
    if (!lki_bad(*a) && !lki_bad(*b)) fit_narrow(b, a);
}

static lk_tensor *own_values(const lk_loss *l, lk_tensor *labels, lk_tensor *predictions)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_usable("lk_loss_of", "labels", labels) || !lki_usable("lk_loss_call", "predictions", predictions)) return &lki_poison;
    lk_tensor *values = l->fn(labels, predictions, l->user);
    if (!values) return lki_refuse(LK_EINVAL, "lk_loss_of: the function returned NULL");
    if (lki_bad(values)) return values;
    if (lki_stands_for(values)) return lki_refuse(LK_EINVAL, "lk_loss_of: the function's result is %s", lki_why_not_plain(values));
    if (!lki_is_float(values->dtype))
        return lki_refuse(LK_EDTYPE, "lk_loss_of: the function returned %s; it must be a float", lk_dtype_name(values->dtype));
    if (values->shape.rank && predictions->shape.rank && values->shape.dim[0] == predictions->shape.dim[0]) return values;
    return lki_refuse(LK_ESHAPE, "lk_loss_of: the function returned %s; there must be one value or several for each row",
                      lki_shape_text(&values->shape, text));
}

lk_loss_args lki_loss_options(const lk_loss_object_args *a)
{
    return (lk_loss_args){.from_logits = a->from_logits,
                          .label_smoothing = a->label_smoothing,
                          .ignore_class = a->ignore_class,
                          .delta = a->delta,
                          .axis = a->axis,
                          .alpha = a->alpha,
                          .beta = a->beta,
                          .gamma = a->gamma,
                          .apply_class_balancing = a->apply_class_balancing,
                          .q = a->q,
                          .margin = a->margin,
                          .remove_diagonal = a->remove_diagonal};
}

static lk_tensor *values_of(const lk_loss *l, lk_tensor *labels, lk_tensor *predictions)
{
    if (l->fn) return own_values(l, labels, predictions);
    if (l->id != LKI_LOSS_sparse_categorical_crossentropy) lki_bring_together(&labels, &predictions);
    lk_loss_args a = lki_loss_options(&l->set);
    a.labels = labels;
    a.predictions = predictions;
    return lki_losses[l->id].values(a);
}

static const char *shape_of(const lk_tensor *t, char text[LKI_SHAPE_TEXT])
{
    return lki_bad(t) ? "nothing" : lki_shape_text(&t->shape, text);
}

/* Adds the name of the loss to the error: the op that failed does not know it. */
static void tell_whose(const lk_loss *l, const lk_tensor *labels, const lk_tensor *predictions)
{
    char             a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    lki_error_record e;
    lki_error_take(&e);
    const size_t used = strlen(e.text);
    if (used + 1 < sizeof e.text)
        lki_text_print(e.text + used, sizeof e.text - used, "; in loss \"%.200s\" of labels %s and predictions %s", l->set.name,
                       shape_of(labels, a), shape_of(predictions, b));
    lki_error_put(&e);
}

lk_tensor *lki_loss_values(const lk_loss *l, lk_tensor *labels, lk_tensor *predictions)
{
    const bool before = lk_failed();
    lk_tensor *values = values_of(l, labels, predictions);
    if (lki_bad(values) && !before && lk_failed()) tell_whose(l, labels, predictions);
    return values;
}

lk_reduction lki_loss_reduction(const lk_loss *l, bool weighted)
{
    const lk_reduction sum = l->set.reduction;
    if (!l->fn && !weighted && sum == LK_REDUCTION_SUM && lki_loss_mixes_rows(l->id, l->set.axis))
        return LK_REDUCTION_SUM_OVER_BATCH_SIZE;
    return l->set.reduction == LK_REDUCTION_AUTO ? LK_REDUCTION_SUM_OVER_BATCH_SIZE : l->set.reduction;
}

/* ---- labels ---- */

static bool is_label(double label, int64_t classes, lk_number ignored)
{
    return (label >= 0 && label < (double)classes) || (lki_number_given(ignored) && label == lki_number(ignored));
}

static lk_status check_labels(const char *call, lk_tensor *labels, int64_t classes, int64_t first_row, lk_number ignored)
{
    if (lki_bad(labels)) return lki_poisoned_status(call);
    const void *data = lk_data(labels);
    if (!data) return lk_error_code();
    const int64_t count = lki_shape_size(&labels->shape), per_row = lki_max(1, lki_shape_size_from(&labels->shape, 1));
    for (int64_t i = 0; i < count; i++) {
        double label = lki_element_get(labels->dtype, data, i);
        if (!is_label(label, classes, ignored))
            return lki_fail(LK_EINVAL, "%s: the label of row %lld is %g; with %lld classes it must be 0 to %lld", call,
                            (long long)(first_row + i / per_row), label, (long long)classes, (long long)classes - 1);
    }
    return LK_OK;
}

lk_status lki_labels_check(const char *call, lk_tensor *labels, int64_t classes, int64_t first_row)
{
    return check_labels(call, labels, classes, first_row, (lk_number){0});
}

lk_status lki_loss_labels_check(const char *call, const lk_loss *l, lk_tensor *labels, int64_t classes, int64_t first_row)
{
    if (l->fn || l->id != LKI_LOSS_sparse_categorical_crossentropy) return LK_OK;
    return check_labels(call, labels, classes, first_row, l->set.ignore_class);
}

/* ---- weights and masks ---- */

lk_tensor *lki_loss_mask(const lk_loss *l, lk_tensor *labels, lk_tensor *values)
{
    if (!l->fn && l->id == LKI_LOSS_circle) return lk_greater(values, lki_like(values, 0));
    if (!lki_number_given(l->set.ignore_class)) return NULL;
    lk_tensor *ids = labels->dtype == LK_I64 ? labels : lk_cast(labels, LK_I64);
    if (!lki_bad(ids) && ids->shape.rank > values->shape.rank) ids = lk_squeeze(ids, LK_AXES(-1));
    return lki_bad(ids) ? ids : lk_not_equal(ids, lki_like(ids, lki_number(l->set.ignore_class)));
}

/* 0 where a value is left out, 1 elsewhere; or, if an average over all values follows, larger than 1, so that the result is the
 * average of the remaining values. */
static lk_tensor *mask_weights(lk_tensor *mask, lk_tensor *values, bool averaged)
{
    if (lki_bad(mask)) return &lki_poison;
    if (mask->dtype != LK_BOOL)
        return lki_refuse(LK_EDTYPE, "lk_loss_call: the mask is %s; it must be bool", lk_dtype_name(mask->dtype));
    lk_tensor *w = lki_weights_for(mask, values);
    if (lki_bad(w) || !averaged) return w;
    return lk_mul(w, lki_quotient(lki_like(w, (double)lki_shape_size(&w->shape)), lk_reduce_sum(w)));
}

lk_tensor *lki_loss_counts(const lk_loss *l, lk_tensor *labels, lk_tensor *values, lk_tensor *mask)
{
    lk_tensor *own = lki_loss_mask(l, labels, values);
    if (!own || !mask || lki_bad(own) || lki_bad(mask) || mask->dtype != LK_BOOL) return own && !mask ? own : mask;
    while (!lki_bad(mask) && mask->shape.rank < own->shape.rank)
        mask = lk_expand_dims(mask, -1);
    return lk_logical_and(own, mask);
}

static lk_tensor *weights_of(const lk_loss_call_args *a, lk_tensor *values, bool averaged)
{
    lk_tensor *given = a->mask ? a->mask : a->predictions->mask, *weights = a->sample_weight;
    lk_tensor *mask = lki_loss_counts(a->loss, a->labels, values, given);
    if (mask) mask = mask_weights(mask, values, averaged);
    if (weights && mask) return lk_mul(lki_weights_for(weights, values), mask);
    return mask ? mask : weights;
}

/* ---- calling ---- */

static lk_status reduction_fits(const lk_loss *l, bool averaged)
{
    const lk_strategy *s = lki_strategy_current();
    if (!averaged || !s || s->kind != LKI_STRATEGY_MIRRORED) return LK_OK;
    return lki_fail(LK_EINVAL,
                    "lk_loss_call: loss \"%s\" has reduction %s, but under %s it does not know the global batch: make it with "
                    "LK_REDUCTION_NONE or "
                    "LK_REDUCTION_SUM, and divide by the global batch with lk_compute_average_loss()",
                    l->set.name, l->set.reduction == LK_REDUCTION_AUTO ? "AUTO" : "SUM_OVER_BATCH_SIZE", s->text);
}

lk_tensor *lk_loss_call_kw(lk_loss_call_args a)
{
    LKI_NEAREST;
    const lk_loss *l = a.loss;
    if (!lki_is_kind(l, LKI_KIND_LOSS)) return lki_refuse(LK_EINVAL, "lk_loss_call: %s", l ? "not a loss" : "the loss is NULL");
    lk_reduction reduction = lki_loss_reduction(l, a.sample_weight != NULL);
    bool         averaged = reduction == LK_REDUCTION_SUM_OVER_BATCH_SIZE;
    if (reduction_fits(l, averaged) != LK_OK) return &lki_poison;
    lk_tensor *values = lki_loss_values(l, a.labels, a.predictions);
    if (lki_bad(values)) return values;
    lk_tensor *weights = weights_of(&a, values, averaged);
    if (weights && lki_bad(weights)) return weights;
    lk_tensor *loss = lk_nn_reduce_loss(values, weights, reduction);
    if (lki_bad(loss) || reduction != LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT || lki_replica_count() == 1) return loss;
    return lk_div(loss, lki_like(loss, lki_replica_count()));
}
