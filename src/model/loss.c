/* Losses as objects: a loss function, its options, and how its values become one.
 *
 * Under a strategy a loss does not know the global batch, so a reduction that divides by the batch is refused there: a custom loop
 * takes the values and calls lk_compute_average_loss(). */
#include "nn/loss.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "dist/strategy.h"
#include "op/gradient.h"
#include <lockstep/model.h>

struct lk_loss {
    lki_object   object;
    lki_loss_id  id;
    lk_reduction reduction;
    lk_loss_args options;
    char        *name;
};

/* ---- making one ---- */

static void destroy(void *object) { lki_release(((lk_loss *)object)->name); }

static lk_loss *loss_new(const char *call, lki_loss_id id, const lk_loss_object_args *a)
{
    lk_loss_args options = {
        .from_logits = a->from_logits, .label_smoothing = a->label_smoothing, .ignore_class = a->ignore_class, .delta = a->delta};
    if (!lki_loss_options_fit(call, id, &options)) return NULL;
    if ((unsigned)a->reduction > LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT) {
        lki_fail(LK_EINVAL,
                 "%s: there is no reduction %d; it must be AUTO, NONE, SUM, SUM_OVER_BATCH_SIZE or MEAN_WITH_SAMPLE_WEIGHT", call,
                 (int)a->reduction);
        return NULL;
    }
    lk_loss *l = lki_object_new(sizeof *l, LKI_KIND_LOSS, LKI_LIVES_IN_POOL, destroy);
    if (!l) return NULL;
    l->id = id;
    l->reduction = a->reduction;
    l->options = options;
    l->name = lki_strdup(a->name ? a->name : lki_losses[id].name);
    if (l->name) return l;
    lk_free(l);
    return NULL;
}

#define LOSS_OBJECT(name)                                                                                                          \
    lk_loss *lk_##name##_kw(lk_loss_object_args args) { return loss_new("lk_" #name, LKI_LOSS_##name, &args); }
LK_LOSS_LIST(LOSS_OBJECT)

/* ---- its values ---- */

static bool ends_in_one(const lk_tensor *t) { return t->shape.rank && t->shape.dim[t->shape.rank - 1] == 1; }

/* [n] and [n, 1] mean the same rows: a last axis of size 1 that only one of the two has is added to a vector, else taken away. */
static void bring_together(lk_tensor **wide, lk_tensor **narrow)
{
    if (!ends_in_one(*wide) || (*wide)->shape.rank != (*narrow)->shape.rank + 1) return;
    if ((*narrow)->shape.rank == 1) *narrow = lk_expand_dims(*narrow, -1);
    else *wide = lk_squeeze(*wide, LK_AXES(-1));
}

static lk_tensor *values_of(const lk_loss *l, lk_tensor *labels, lk_tensor *predictions)
{
    lk_loss_args args = l->options;
    if (!lki_bad(labels) && !lki_bad(predictions) && l->id != LKI_LOSS_sparse_categorical_crossentropy) {
        bring_together(&labels, &predictions);
        bring_together(&predictions, &labels);
    }
    args.labels = labels;
    args.predictions = predictions;
    return lki_losses[l->id].values(args);
}

/* ---- weights and masks ---- */

/* 0 where a value is left out, 1 elsewhere; or, where an average is taken over all of them, so much more that it is the average of
 * those that are there. */
static lk_tensor *mask_weights(lk_tensor *mask, lk_tensor *values, bool averaged)
{
    if (lki_bad(mask)) return &lki_poison;
    if (mask->dtype != LK_BOOL)
        return lki_refuse(LK_EDTYPE, "lk_loss_call: the mask is %s; it must be bool", lk_dtype_name(mask->dtype));
    lk_tensor *w = lki_weights_for(mask, values);
    if (lki_bad(w) || !averaged) return w;
    return lk_mul(w, lki_quotient(lki_like(w, (double)lki_shape_size(&w->shape)), lk_reduce_sum(w)));
}

static lk_tensor *weights_of(const lk_loss_call_args *a, lk_tensor *values, bool averaged)
{
    lk_tensor *weights = a->sample_weight, *mask = a->mask ? mask_weights(a->mask, values, averaged) : NULL;
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
                    l->name, l->reduction == LK_REDUCTION_AUTO ? "AUTO" : "SUM_OVER_BATCH_SIZE", s->text);
}

lk_tensor *lk_loss_call_kw(lk_loss_call_args a)
{
    const lk_loss *l = a.loss;
    if (!lki_is_kind(l, LKI_KIND_LOSS)) return lki_refuse(LK_EINVAL, "lk_loss_call: %s", l ? "not a loss" : "the loss is NULL");
    lk_reduction reduction = l->reduction == LK_REDUCTION_AUTO ? LK_REDUCTION_SUM_OVER_BATCH_SIZE : l->reduction;
    bool         averaged = reduction == LK_REDUCTION_SUM_OVER_BATCH_SIZE;
    if (reduction_fits(l, averaged) != LK_OK) return &lki_poison;
    lk_tensor *values = values_of(l, a.labels, a.predictions);
    if (lki_bad(values)) return values;
    lk_tensor *weights = weights_of(&a, values, averaged);
    if (weights && lki_bad(weights)) return weights;
    lk_tensor *loss = lk_nn_reduce_loss(values, weights, reduction);
    if (lki_bad(loss) || reduction != LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT || lki_replica_count() == 1) return loss;
    return lk_div(loss, lki_like(loss, lki_replica_count()));
}
