/* Losses per example, their reductions, regularisers. */
#include "core/dtype.h"
#include "op/gradient.h"
#include "op/infer.h"
#include <lockstep/grad.h>
#include <lockstep/nn.h>

#define CLIP 1e-7

enum { LOGITS = 1, SMOOTHING = 2, IGNORED = 4, DELTA = 8 }; /* options of some losses only */

static bool options_fit(const char *call, const lk_loss_args *a, unsigned takes)
{
    const char *odd = a->from_logits != LK_DEFAULT && !(takes & LOGITS) ? "from_logits"
                      : a->label_smoothing != 0 && !(takes & SMOOTHING) ? "label_smoothing"
                      : a->ignore_class.set && !(takes & IGNORED)       ? "ignore_class"
                      : a->delta.set && !(takes & DELTA)                ? "delta"
                                                                        : NULL;
    if (odd) lki_fail(LK_EINVAL, "%s: this loss does not take %s", call, odd);
    if (!odd && !(a->label_smoothing >= 0 && a->label_smoothing <= 1))
        lki_fail(LK_EINVAL, "%s: label_smoothing is %g; it must be 0 to 1", call, a->label_smoothing);
    return !odd && a->label_smoothing >= 0 && a->label_smoothing <= 1;
}

static bool operands(const char *call, const lk_loss_args *a, unsigned takes)
{
    if (!options_fit(call, a, takes)) return false;
    if (!a->labels || !a->predictions) lki_fail(LK_EINVAL, "%s: %s are missing", call, a->labels ? "predictions" : "labels");
    if (lki_bad(a->labels) || lki_bad(a->predictions)) return false;
    if (a->predictions->shape.rank < 1) lki_fail(LK_ESHAPE, "%s: predictions are a scalar; they need a last axis", call);
    return a->predictions->shape.rank >= 1;
}

/* Labels as numbers of the predictions' type. */
static lk_tensor *numbers(const lk_loss_args *a)
{
    return a->labels->dtype == a->predictions->dtype ? a->labels : lk_cast(a->labels, a->predictions->dtype);
}

static lk_tensor *last_mean(lk_tensor *t) { return lk_reduce_mean(t, .axis = LK_AXES(-1)); }
static lk_tensor *last_sum(lk_tensor *t) { return lk_reduce_sum(t, .axis = LK_AXES(-1)); }
static lk_tensor *clipped(lk_tensor *p) { return lk_clip(p, CLIP, 1 - CLIP); }

/* labels * (1 - s) + s * target */
static lk_tensor *smoothed(lk_tensor *labels, double s, double target)
{
    return s == 0 ? labels : lk_add(lk_mul(labels, lki_like(labels, 1 - s)), lki_like(labels, s * target));
}

lk_tensor *lk_nn_sparse_categorical_crossentropy_kw(lk_loss_args a)
{
    if (!operands("lk_nn_sparse_categorical_crossentropy", &a, LOGITS | IGNORED)) return &lki_poison;
    lk_tensor *labels = a.labels, *logits = a.from_logits == LK_ON ? a.predictions : lk_log(clipped(a.predictions));
    if (lki_bad(logits)) return logits;
    if (lki_is_float(labels->dtype)) labels = lk_cast(labels, LK_I64);
    int rank = labels->shape.rank;
    if (rank == logits->shape.rank && rank && labels->shape.dim[rank - 1] == 1) labels = lk_squeeze(labels, LK_AXES(-1));
    lki_attr attr = {.xent = {a.ignore_class.set, (int64_t)a.ignore_class.value}};
    return lki_apply2(LKI_OP_sparse_xent, &attr, logits, labels);
}

lk_tensor *lk_nn_categorical_crossentropy_kw(lk_loss_args a)
{
    if (!operands("lk_nn_categorical_crossentropy", &a, LOGITS | SMOOTHING)) return &lki_poison;
    double     classes = (double)a.predictions->shape.dim[a.predictions->shape.rank - 1];
    lk_tensor *labels = smoothed(numbers(&a), a.label_smoothing, 1 / classes), *log;
    if (a.from_logits == LK_ON) log = lk_log_softmax(a.predictions);
    else log = lk_log(clipped(lk_div(a.predictions, lk_reduce_sum(a.predictions, .axis = LK_AXES(-1), .keepdims = LK_ON))));
    return lk_neg(last_sum(lk_mul(labels, log)));
}

lk_tensor *lk_nn_binary_crossentropy_kw(lk_loss_args a)
{
    if (!operands("lk_nn_binary_crossentropy", &a, LOGITS | SMOOTHING)) return &lki_poison;
    lk_tensor *y = smoothed(numbers(&a), a.label_smoothing, 0.5), *x = a.predictions;
    if (a.from_logits == LK_ON) /* max(x, 0) - x*y + log(1 + e^-|x|), and softplus(x) = max(x, 0) + log(1 + e^-|x|) */
        return last_mean(lk_sub(lk_softplus(x), lk_mul(x, y)));
    lk_tensor *p = clipped(x), *one = lki_like(x, 1);
    lk_tensor *log = lk_add(lk_mul(y, lk_log(p)), lk_mul(lk_sub(one, y), lk_log(lk_sub(one, p))));
    return lk_neg(last_mean(log));
}

lk_tensor *lk_nn_mean_squared_error_kw(lk_loss_args a)
{
    return operands("lk_nn_mean_squared_error", &a, 0) ? last_mean(lk_square(lk_sub(a.predictions, numbers(&a)))) : &lki_poison;
}

lk_tensor *lk_nn_mean_absolute_error_kw(lk_loss_args a)
{
    return operands("lk_nn_mean_absolute_error", &a, 0) ? last_mean(lk_abs(lk_sub(a.predictions, numbers(&a)))) : &lki_poison;
}

lk_tensor *lk_nn_huber_kw(lk_loss_args a)
{
    if (!operands("lk_nn_huber", &a, DELTA)) return &lki_poison;
    double     delta = a.delta.set ? a.delta.value : 1;
    lk_tensor *error = lk_sub(a.predictions, numbers(&a)), *size = lk_abs(error), *half = lki_like(size, 0.5),
              *limit = lki_like(size, delta);
    lk_tensor *near = lk_mul(half, lk_square(error)), *far = lk_sub(lk_mul(limit, size), lki_like(size, 0.5 * delta * delta));
    return last_mean(lk_where(lk_less_equal(size, limit), near, far));
}

/* log(cosh(e)) = e + softplus(-2e) - log 2, without overflow */
lk_tensor *lk_nn_log_cosh_kw(lk_loss_args a)
{
    if (!operands("lk_nn_log_cosh", &a, 0)) return &lki_poison;
    lk_tensor *e = lk_sub(a.predictions, numbers(&a));
    return last_mean(lk_sub(lk_add(e, lk_softplus(lk_mul(e, lki_like(e, -2)))), lki_like(e, 0.69314718055994530942)));
}

/* Labels 0 and 1 are taken as -1 and 1, when there are no others. */
lk_tensor *lk_nn_hinge_kw(lk_loss_args a)
{
    if (!operands("lk_nn_hinge", &a, 0)) return &lki_poison;
    lk_tensor *y = numbers(&a), *zero = lki_like(a.predictions, 0), *one = lki_like(a.predictions, 1);
    lk_tensor *binary = lk_reduce_all(lk_logical_or(lk_equal(y, zero), lk_equal(y, one)));
    y = lk_where(binary, lk_sub(lk_mul(y, lki_like(a.predictions, 2)), one), y);
    return last_mean(lk_maximum(lk_sub(one, lk_mul(y, a.predictions)), zero));
}

lk_tensor *lk_nn_kl_divergence_kw(lk_loss_args a)
{
    if (!operands("lk_nn_kl_divergence", &a, 0)) return &lki_poison;
    lk_tensor *y = lk_clip(numbers(&a), CLIP, 1), *p = lk_clip(a.predictions, CLIP, 1);
    return last_sum(lk_mul(y, lk_log(lk_div(y, p))));
}

/* ---- reductions ---- */

/* Weights of one axis less or more than the values gain or lose a last axis of size 1. */
static lk_tensor *weighted(lk_tensor *values, lk_tensor **weights)
{
    if (!*weights) return values;
    lk_tensor *w = *weights;
    if (lki_bad(w)) return &lki_poison;
    if (w->dtype != values->dtype) w = lk_cast(w, values->dtype);
    if (w->shape.rank == values->shape.rank + 1 && w->shape.dim[w->shape.rank - 1] == 1) w = lk_squeeze(w, LK_AXES(-1));
    if (w->shape.rank + 1 == values->shape.rank) w = lk_expand_dims(w, -1);
    *weights = w;
    return lk_mul(values, w);
}

lk_tensor *lk_nn_reduce_loss(lk_tensor *values, lk_tensor *weights, lk_reduction reduction)
{
    if (!lki_usable("lk_nn_reduce_loss", "the loss", values)) return &lki_poison;
    lk_tensor *terms = weighted(values, &weights);
    if (lki_bad(terms) || reduction == LK_REDUCTION_NONE) return terms;
    if (reduction == LK_REDUCTION_SUM) return lk_reduce_sum(terms);
    if (reduction == LK_REDUCTION_SUM_OVER_BATCH_SIZE) return lk_reduce_mean(terms);
    if (reduction != LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT)
        return lki_refuse(
            LK_EINVAL,
            "lk_nn_reduce_loss: there is no reduction %d; it must be NONE, SUM, SUM_OVER_BATCH_SIZE or MEAN_WITH_SAMPLE_WEIGHT",
            (int)reduction);
    if (!weights) return lk_reduce_mean(terms);
    lk_tensor *total = lk_reduce_sum(terms), *all = lk_reduce_sum(lki_apply2(LKI_OP_broadcast_like, NULL, weights, values));
    lk_tensor *zero = lki_like(total, 0), *none = lk_equal(all, zero);
    return lk_where(none, zero, lk_div(total, lk_where(none, lki_like(total, 1), all)));
}

lk_tensor *lk_compute_average_loss_kw(lk_average_args a)
{
    if (!a.per_example_loss) lki_fail(LK_EINVAL, "lk_compute_average_loss: the loss is missing");
    if (lki_bad(a.per_example_loss)) return &lki_poison;
    if (a.per_example_loss->shape.rank < 1)
        return lki_refuse(LK_ESHAPE, "lk_compute_average_loss: the loss must have one value per example, not be a scalar");
    if (a.global_batch_size < 0)
        return lki_refuse(LK_EINVAL, "lk_compute_average_loss: global_batch_size is %lld; it must be 0 or more",
                          (long long)a.global_batch_size);
    double     rows = (double)(a.global_batch_size ? a.global_batch_size : a.per_example_loss->shape.dim[0]);
    lk_tensor *terms = weighted(a.per_example_loss, &a.sample_weight);
    if (lki_bad(terms)) return terms;
    if (rows == 0) return lk_reduce_sum(lk_mul(terms, lki_like(terms, 0)));
    return lk_reduce_sum(lk_div(terms, lki_like(terms, rows)));
}

/* ---- regularisers ---- */

lk_tensor *lk_nn_l1(lk_tensor *w, double c)
{
    return lki_usable("lk_nn_l1", "w", w) ? lk_mul(lk_reduce_sum(lk_abs(w)), lki_like(w, c)) : &lki_poison;
}

lk_tensor *lk_nn_l2(lk_tensor *w, double c)
{
    return lki_usable("lk_nn_l2", "w", w) ? lk_mul(lki_apply1(LKI_OP_sum_squares, NULL, w), lki_like(w, c)) : &lki_poison;
}
