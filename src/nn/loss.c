/* Losses per example, their reductions, regularisers.
 *
 * Invariants
 *  1. A loss has one value per example: it removes the last axis of the predictions and keeps the rows. One that is a number of the
 *     whole batch gives it to every row.
 *  2. An average divides each row before it is summed, so that the sum over replicas equals the sum on one device. */
#include "nn/loss.h"
#include "core/dtype.h"
#include "core/log.h"
#include "core/rounding.h"
#include "op/gradient.h"
#include "op/origin.h"
#include "op/replica.h"
#include <lockstep/grad.h>
#include <lockstep/nn.h>
#include <lockstep/strategy.h>
#include <math.h>
#include <stdio.h>

#define CLIP 1e-7

enum { /* options of some losses only */
       LOGITS = 1,
       SMOOTHING = 2,
       IGNORED = 4,
       DELTA = 8,
       AXIS = 16,
       ALPHA = 32,
       BETA = 64,
       GAMMA = 128,
       BALANCING = 256,
       Q = 512,
       MARGIN = 1024 /* and remove_diagonal */
};

#define LINE(name) #name, lk_nn_##name##_kw
const lki_loss_kind lki_losses[LKI_LOSS_COUNT] = {
    [LKI_LOSS_sparse_categorical_crossentropy] = {LINE(sparse_categorical_crossentropy), LOGITS | IGNORED},
    [LKI_LOSS_categorical_crossentropy] = {LINE(categorical_crossentropy), LOGITS | SMOOTHING | AXIS},
    [LKI_LOSS_binary_crossentropy] = {LINE(binary_crossentropy), LOGITS | SMOOTHING | AXIS},
    [LKI_LOSS_mean_squared_error] = {LINE(mean_squared_error), 0},
    [LKI_LOSS_mean_absolute_error] = {LINE(mean_absolute_error), 0},
    [LKI_LOSS_huber] = {LINE(huber), DELTA},
    [LKI_LOSS_log_cosh] = {LINE(log_cosh), 0},
    [LKI_LOSS_hinge] = {LINE(hinge), 0},
    [LKI_LOSS_kl_divergence] = {LINE(kl_divergence), 0},
    [LKI_LOSS_mean_absolute_percentage_error] = {LINE(mean_absolute_percentage_error), 0},
    [LKI_LOSS_mean_squared_logarithmic_error] = {LINE(mean_squared_logarithmic_error), 0},
    [LKI_LOSS_cosine_similarity] = {LINE(cosine_similarity), 0},
    [LKI_LOSS_poisson] = {LINE(poisson), 0},
    [LKI_LOSS_squared_hinge] = {LINE(squared_hinge), 0},
    [LKI_LOSS_categorical_hinge] = {LINE(categorical_hinge), 0},
    [LKI_LOSS_binary_focal_crossentropy] = {LINE(binary_focal_crossentropy), LOGITS | SMOOTHING | AXIS | ALPHA | GAMMA | BALANCING},
    [LKI_LOSS_categorical_focal_crossentropy] = {LINE(categorical_focal_crossentropy), LOGITS | SMOOTHING | AXIS | ALPHA | GAMMA},
    [LKI_LOSS_categorical_generalized_cross_entropy] = {LINE(categorical_generalized_cross_entropy), Q},
    [LKI_LOSS_dice] = {LINE(dice), AXIS},
    [LKI_LOSS_tversky] = {LINE(tversky), AXIS | ALPHA | BETA},
    [LKI_LOSS_circle] = {LINE(circle), GAMMA | MARGIN},
    [LKI_LOSS_ctc] = {LINE(ctc), 0},
};

static const char *odd_option(unsigned takes, const lk_loss_args *a)
{
    const struct {
        const char *name;
        bool        given;
        unsigned    bit;
    } options[] = {{"from_logits", lki_switch_given(a->from_logits), LOGITS},
                   {"label_smoothing", a->label_smoothing != 0, SMOOTHING},
                   {"ignore_class", lki_number_given(a->ignore_class), IGNORED},
                   {"delta", lki_number_given(a->delta), DELTA},
                   {"axis", a->axis != 0, AXIS},
                   {"alpha", lki_number_given(a->alpha), ALPHA},
                   {"beta", lki_number_given(a->beta), BETA},
                   {"gamma", lki_number_given(a->gamma), GAMMA},
                   {"apply_class_balancing", lki_switch_given(a->apply_class_balancing), BALANCING},
                   {"q", lki_number_given(a->q), Q},
                   {"margin", lki_number_given(a->margin), MARGIN},
                   {"remove_diagonal", lki_switch_given(a->remove_diagonal), MARGIN}};
    for (int i = 0; i < LKI_COUNT(options); i++)
        if (options[i].given && !(takes & options[i].bit)) return options[i].name;
    return NULL;
}

bool lki_loss_options_fit(const char *call, lki_loss_id loss, const lk_loss_args *a)
{
    const char  *odd = odd_option(lki_losses[loss].takes, a);
    const double q = lki_number_or(a->q, 0.5);
    if (odd) return lki_fail(LK_EINVAL, "%s: this loss does not take %s", call, odd), false;
    if (!(a->label_smoothing >= 0 && a->label_smoothing <= 1))
        return lki_fail(LK_EINVAL, "%s: label_smoothing is %g; it must be 0 to 1", call, a->label_smoothing), false;
    if (!(q > 0 && q < 1)) return lki_fail(LK_EINVAL, "%s: q is %g; it must be above 0 and below 1", call, q), false;
    return true;
}

bool lki_loss_operands(lki_loss_id loss, const lk_loss_args *a)
{
    char call[64];
    snprintf(call, sizeof call, "lk_nn_%s", lki_losses[loss].name);
    if (!lki_loss_options_fit(call, loss, a)) return false;
    if (!a->labels || !a->predictions) lki_fail(LK_EINVAL, "%s: %s are missing", call, a->labels ? "predictions" : "labels");
    if (lki_bad(a->labels) || lki_bad(a->predictions)) return false;
    if (a->predictions->shape.rank < 1) lki_fail(LK_ESHAPE, "%s: predictions are a scalar; they need a last axis", call);
    return a->predictions->shape.rank >= 1;
}

lk_tensor *lki_loss_labels(const lk_loss_args *a)
{
    return a->labels->dtype == a->predictions->dtype ? a->labels : lk_cast(a->labels, a->predictions->dtype);
}

static lk_tensor *moved_last(lk_tensor *t, int axis)
{
    lki_axes order = {0};
    for (int i = 0; i < t->shape.rank; i++)
        if (i != axis) order.value[order.count++] = i;
    order.value[order.count++] = axis;
    return lk_transpose(t, lki_axes_list(&order));
}

bool lki_loss_axis_last(const char *call, lk_loss_args *a)
{
    const lki_axes axes = lki_axes_of(a->axis);
    const int      rank = a->predictions->shape.rank;
    const int64_t  axis = axes.count ? axes.value[0] + (axes.value[0] < 0 ? rank : 0) : rank - 1;
    if (axes.count > 1) return lki_fail(LK_EINVAL, "%s: axis is a list; it must be one axis", call), false;
    if (axis < 1 || axis >= rank)
        return lki_fail(LK_EINVAL, "%s: axis is %lld; predictions have %d axes, and that of the rows is none of classes", call,
                        (long long)axes.value[0], rank),
               false;
    a->axis = 0;
    if (axis == rank - 1) return true;
    a->predictions = moved_last(a->predictions, (int)axis);
    if (a->labels->shape.rank == rank) a->labels = moved_last(a->labels, (int)axis);
    return !lki_bad(a->predictions) && !lki_bad(a->labels);
}

static lk_tensor *last_mean(lk_tensor *t) { return lk_reduce_mean(t, .axis = LK_AXES(-1)); }
static lk_tensor *last_sum(lk_tensor *t) { return lk_reduce_sum(t, .axis = LK_AXES(-1)); }
lk_tensor        *lki_loss_clipped(lk_tensor *p) { return lk_clip(p, CLIP, 1 - CLIP); }

lk_tensor *lki_loss_smoothed(lk_tensor *labels, double s, double target)
{
    return s == 0 ? labels : lk_add(lk_mul(labels, lki_like(labels, 1 - s)), lki_like(labels, s * target));
}

static void warn_of_probabilities(lki_loss_id loss, bool sigmoid)
{
    static int warned[LKI_LOSS_COUNT]; /* atomic: once for each loss */
    if (!__atomic_exchange_n(&warned[loss], 1, __ATOMIC_RELAXED))
        lki_warn("%s has from_logits on, but its predictions are the result of a %s: its operand is used as the logits",
                 lki_losses[loss].name, sigmoid ? "sigmoid" : "softmax");
}

/* For probabilities that are the result of a softmax or sigmoid, its operand is used, and nothing has to be clipped. If such
 * probabilities are declared as logits, which they are not, its operand is used too, as Keras does on TensorFlow. */
static void look_through(lki_loss_id loss, lk_loss_args *a)
{
    const bool said = a->from_logits == LK_ON, sigmoid = a->predictions->of_sigmoid;
    if (!a->predictions->logits || (!said && sigmoid != (loss == LKI_LOSS_binary_crossentropy))) return;
    if (said) warn_of_probabilities(loss, sigmoid);
    a->predictions = a->predictions->logits;
    a->from_logits = LK_ON;
}

/* A softmax is over the last axis. */
static bool is_last(const lk_loss_args *a)
{
    const lki_axes axes = lki_axes_of(a->axis);
    return !axes.count || axes.value[0] == -1 || axes.value[0] == a->predictions->shape.rank - 1;
}

lk_tensor *lk_nn_sparse_categorical_crossentropy_kw(lk_loss_args a)
{
    if (!lki_loss_operands(LKI_LOSS_sparse_categorical_crossentropy, &a)) return &lki_poison;
    look_through(LKI_LOSS_sparse_categorical_crossentropy, &a);
    lk_tensor *labels = a.labels, *logits = a.from_logits == LK_ON ? a.predictions : lk_log(lki_loss_clipped(a.predictions));
    if (lki_bad(logits)) return logits;
    if (lki_is_float(labels->dtype)) /* NaN is not a class */
        labels = lk_cast(lk_where(lk_equal(labels, labels), labels, lki_like(labels, -1)), LK_I64);
    int rank = labels->shape.rank;
    if (rank == logits->shape.rank && rank && labels->shape.dim[rank - 1] == 1) labels = lk_squeeze(labels, LK_AXES(-1));
    lki_attr attr = {.xent = {lki_number_given(a.ignore_class), (int64_t)lki_number(a.ignore_class)}};
    return lki_apply2(LKI_OP_sparse_xent, &attr, logits, labels);
}

lk_tensor *lk_nn_categorical_crossentropy_kw(lk_loss_args a)
{
    LKI_NEAREST;
    if (!lki_loss_operands(LKI_LOSS_categorical_crossentropy, &a)) return &lki_poison;
    if (is_last(&a)) look_through(LKI_LOSS_categorical_crossentropy, &a);
    if (!lki_loss_axis_last("lk_nn_categorical_crossentropy", &a)) return &lki_poison;
    double     classes = (double)a.predictions->shape.dim[a.predictions->shape.rank - 1];
    lk_tensor *labels = lki_loss_smoothed(lki_loss_labels(&a), a.label_smoothing, 1 / classes), *log;
    if (a.from_logits == LK_ON) log = lk_log_softmax(a.predictions);
    else
        log = lk_log(lki_loss_clipped(lk_div(a.predictions, lk_reduce_sum(a.predictions, .axis = LK_AXES(-1), .keepdims = LK_ON))));
    return lk_neg(last_sum(lk_mul(labels, log)));
}

lk_tensor *lk_nn_binary_crossentropy_kw(lk_loss_args a)
{
    LKI_NEAREST;
    if (!lki_loss_operands(LKI_LOSS_binary_crossentropy, &a)) return &lki_poison;
    look_through(LKI_LOSS_binary_crossentropy, &a);
    if (!lki_loss_axis_last("lk_nn_binary_crossentropy", &a)) return &lki_poison;
    lk_tensor *y = lki_loss_smoothed(lki_loss_labels(&a), a.label_smoothing, 0.5), *x = a.predictions;
    if (a.from_logits == LK_ON) /* max(x, 0) - x*y + log(1 + e^-|x|), and softplus(x) = max(x, 0) + log(1 + e^-|x|) */
        return last_mean(lk_sub(lk_softplus(x), lk_mul(x, y)));
    lk_tensor *p = lki_loss_clipped(x), *one = lki_like(x, 1);
    lk_tensor *log = lk_add(lk_mul(y, lk_log(p)), lk_mul(lk_sub(one, y), lk_log(lk_sub(one, p))));
    return lk_neg(last_mean(log));
}

lk_tensor *lk_nn_mean_squared_error_kw(lk_loss_args a)
{
    return lki_loss_operands(LKI_LOSS_mean_squared_error, &a) ? last_mean(lk_square(lk_sub(a.predictions, lki_loss_labels(&a))))
                                                              : &lki_poison;
}

lk_tensor *lk_nn_mean_absolute_error_kw(lk_loss_args a)
{
    return lki_loss_operands(LKI_LOSS_mean_absolute_error, &a) ? last_mean(lk_abs(lk_sub(a.predictions, lki_loss_labels(&a))))
                                                               : &lki_poison;
}

lk_tensor *lk_nn_huber_kw(lk_loss_args a)
{
    LKI_NEAREST;
    if (!lki_loss_operands(LKI_LOSS_huber, &a)) return &lki_poison;
    double     delta = lki_number_or(a.delta, 1);
    lk_tensor *error = lk_sub(a.predictions, lki_loss_labels(&a)), *size = lk_abs(error), *half = lki_like(size, 0.5),
              *limit = lki_like(size, delta);
    lk_tensor *near = lk_mul(half, lk_square(error)), *far = lk_sub(lk_mul(limit, size), lki_like(size, 0.5 * delta * delta));
    return last_mean(lk_where(lk_less_equal(size, limit), near, far));
}

/* log(cosh(e)) = e + softplus(-2e) - log 2, without overflow */
lk_tensor *lk_nn_log_cosh_kw(lk_loss_args a)
{
    if (!lki_loss_operands(LKI_LOSS_log_cosh, &a)) return &lki_poison;
    lk_tensor *e = lk_sub(a.predictions, lki_loss_labels(&a));
    return last_mean(lk_sub(lk_add(e, lk_softplus(lk_mul(e, lki_like(e, -2)))), lki_like(e, 0.69314718055994530942)));
}

/* max(1 - y p, 0). Labels are -1 and 1, or 0 and 1; each is converted separately, so that a row's value does not depend on other
 * rows. */
static lk_tensor *margins(const lk_loss_args *a)
{
    lk_tensor *y = lki_loss_labels(a), *zero = lki_like(a->predictions, 0), *one = lki_like(a->predictions, 1);
    y = lk_where(lk_equal(y, zero), lk_neg(one), y);
    return lk_maximum(lk_sub(one, lk_mul(y, a->predictions)), zero);
}

lk_tensor *lk_nn_hinge_kw(lk_loss_args a) { return lki_loss_operands(LKI_LOSS_hinge, &a) ? last_mean(margins(&a)) : &lki_poison; }

lk_tensor *lk_nn_squared_hinge_kw(lk_loss_args a)
{
    return lki_loss_operands(LKI_LOSS_squared_hinge, &a) ? last_mean(lk_square(margins(&a))) : &lki_poison;
}

/* How much the best of the wrong classes exceeds the right one, plus a margin of 1. */
lk_tensor *lk_nn_categorical_hinge_kw(lk_loss_args a)
{
    if (!lki_loss_operands(LKI_LOSS_categorical_hinge, &a)) return &lki_poison;
    lk_tensor *y = lki_loss_labels(&a), *p = a.predictions, *one = lki_like(p, 1);
    lk_tensor *right = last_sum(lk_mul(y, p)), *wrong = lk_reduce_max(lk_mul(lk_sub(one, y), p), .axis = LK_AXES(-1));
    return lk_maximum(lk_add(lk_sub(wrong, right), one), lki_like(p, 0));
}

lk_tensor *lk_nn_mean_absolute_percentage_error_kw(lk_loss_args a)
{
    if (!lki_loss_operands(LKI_LOSS_mean_absolute_percentage_error, &a)) return &lki_poison;
    lk_tensor *y = lki_loss_labels(&a), *whole = lk_maximum(lk_abs(y), lki_like(a.predictions, CLIP));
    return lk_mul(last_mean(lk_abs(lk_div(lk_sub(y, a.predictions), whole))), lki_like(a.predictions, 100));
}

lk_tensor *lk_nn_mean_squared_logarithmic_error_kw(lk_loss_args a)
{
    if (!lki_loss_operands(LKI_LOSS_mean_squared_logarithmic_error, &a)) return &lki_poison;
    lk_tensor *least = lki_like(a.predictions, CLIP);
    lk_tensor *y = lk_log1p(lk_maximum(lki_loss_labels(&a), least)), *p = lk_log1p(lk_maximum(a.predictions, least));
    return last_mean(lk_square(lk_sub(p, y)));
}

lk_tensor *lk_nn_poisson_kw(lk_loss_args a)
{
    if (!lki_loss_operands(LKI_LOSS_poisson, &a)) return &lki_poison;
    lk_tensor *p = a.predictions;
    return last_mean(lk_sub(p, lk_mul(lki_loss_labels(&a), lk_log(lk_add(p, lki_like(p, CLIP))))));
}

/* Scaled to length 1; vectors shorter than CLIP are scaled by 1 / CLIP, and zeros stay zeros. */
static lk_tensor *direction(lk_tensor *x)
{
    lk_tensor *squares = lk_reduce_sum(lk_square(x), .axis = LK_AXES(-1), .keepdims = LK_ON);
    return lk_mul(x, lk_rsqrt(lk_maximum(squares, lki_like(x, CLIP * CLIP))));
}

/* The cosine of the angle between them, negated: -1 is the best. */
lk_tensor *lk_nn_cosine_similarity_kw(lk_loss_args a)
{
    if (!lki_loss_operands(LKI_LOSS_cosine_similarity, &a)) return &lki_poison;
    return lk_neg(last_sum(lk_mul(direction(lki_loss_labels(&a)), direction(a.predictions))));
}

lk_tensor *lk_nn_kl_divergence_kw(lk_loss_args a)
{
    if (!lki_loss_operands(LKI_LOSS_kl_divergence, &a)) return &lki_poison;
    lk_tensor *y = lk_clip(lki_loss_labels(&a), CLIP, 1), *p = lk_clip(a.predictions, CLIP, 1);
    return last_sum(lk_mul(y, lk_log(lk_div(y, p))));
}

/* ---- weights ---- */

lk_tensor *lki_weights_of(lk_tensor *weights, lk_dtype dtype, int rank)
{
    if (lki_bad(weights)) return &lki_poison;
    lk_tensor *w = weights->dtype == dtype ? weights : lk_cast(weights, dtype);
    if (!lki_bad(w) && w->shape.rank == rank + 1 && w->shape.dim[rank] == 1) w = lk_squeeze(w, LK_AXES(-1));
    while (!lki_bad(w) && w->shape.rank < rank)
        w = lk_expand_dims(w, -1);
    return w;
}

lk_tensor *lki_weights_for(lk_tensor *weights, const lk_tensor *values)
{
    return lki_weights_of(weights, values->dtype, values->shape.rank);
}

lk_tensor *lki_weights_spread(lk_tensor *weights, lk_tensor *values)
{
    return lki_shape_equal(&weights->shape, &values->shape) ? weights : lki_apply2(LKI_OP_broadcast_like, NULL, weights, values);
}

/* ---- reductions ---- */

static lk_tensor *weighted(lk_tensor *values, lk_tensor **weights)
{
    if (!*weights) return values;
    *weights = lki_weights_for(*weights, values);
    return lki_bad(*weights) ? &lki_poison : lk_mul(values, *weights);
}

lk_tensor *lki_quotient(lk_tensor *a, lk_tensor *b)
{
    if (lki_bad(a) || lki_bad(b)) return &lki_poison;
    lk_tensor *zero = lki_like(a, 0), *none = lk_equal(b, zero);
    return lk_where(none, zero, lk_div(a, lk_where(none, lki_like(a, 1), b)));
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
    return lki_quotient(lk_reduce_sum(terms), lk_reduce_sum(weights)); /* as given: one for all values of a row counts once */
}

/* ---- the average over the global batch ---- */

#define AVERAGE "lk_compute_average_loss"

lk_tensor *lki_count_everywhere(const lk_tensor *like, double here)
{
    lki_replica *r = lki_replica_current();
    lk_tensor   *count = lki_like(like, here);
    if (lki_bad(count) || !r || !r->all_reduce || r->count < 2) return count;
    count->rows.kind = LKI_LOCAL; /* not the same on every replica */
    return r->all_reduce(r, false, count);
}

int64_t lki_batch_entries(const lk_tensor *t)
{
    if (lki_replica_count() == 1) return t->shape.dim[0];
    return t->rows.kind == LKI_ROWS && lki_in_own_lanes(&t->rows) ? t->rows.total * t->rows.per_row : -1;
}

static bool average_operands(const lk_average_args *a)
{
    if (!a->per_example_loss) lki_fail(LK_EINVAL, AVERAGE ": the loss is missing");
    if (lki_bad(a->per_example_loss)) return false;
    const lk_tensor *loss = a->per_example_loss;
    if (lki_stands_for(loss)) return lki_fail(LK_EINVAL, AVERAGE ": the loss is %s", lki_why_not_plain(loss)), false;
    if (loss->shape.rank < 1)
        return lki_fail(LK_ESHAPE, AVERAGE ": the loss must have one value per example, not be a scalar"), false;
    if (!lki_is_float(loss->dtype))
        return lki_fail(LK_EDTYPE, AVERAGE ": the loss is %s; it must be a float", lk_dtype_name(loss->dtype)), false;
    return true;
}

/* The size that was given, in one of two ways; if none, `*given` is false. */
static bool size_given(const lk_average_args *a, bool *given, double *size)
{
    *given = lki_integer_given(a->global_batch_size) || lki_number_given(a->batch_size);
    *size = lki_number_or(a->batch_size, (double)lki_integer(a->global_batch_size));
    if (lki_integer_given(a->global_batch_size) && lki_number_given(a->batch_size))
        return lki_fail(LK_EINVAL, AVERAGE ": global_batch_size and batch_size are the same thing; give one of them"), false;
    if (*given && a->denominator != LK_DENOMINATOR_DEFAULT)
        return lki_fail(LK_EINVAL, AVERAGE ": a size of %g is given; denominator would choose another one: give one of them",
                        *size),
               false;
    if (!(*size >= 0) || *size != floor(*size))
        return lki_fail(LK_EINVAL, AVERAGE ": global_batch_size is %g; it must be an integer, 0 or more", *size), false;
    if ((unsigned)a->denominator > LK_EXACT)
        return lki_fail(LK_EINVAL, AVERAGE ": there is no denominator %d; it must be LK_PER_REPLICA or LK_EXACT",
                        (int)a->denominator),
               false;
    return true;
}

/* For 16-bit floats the calculation is in f32: weights, size and all. */
static lk_tensor *average_terms(const lk_average_args *a)
{
    lk_tensor *loss = a->per_example_loss, *weights = a->sample_weight;
    if (lki_is_half(loss->dtype)) loss = lk_cast(loss, LK_F32);
    return lki_bad(loss) ? loss : weighted(loss, &weights);
}

lk_tensor *lk_compute_average_loss_kw(lk_average_args a)
{
    LKI_NEAREST;
    bool   given;
    double size;
    if (!average_operands(&a) || !size_given(&a, &given, &size)) return &lki_poison;
    if (!given && lk_in_cross_replica_context())
        return lki_refuse(
            LK_ESTATE,
            AVERAGE ": in cross-replica context the rows of a replica are not known; give global_batch_size, or call it in the "
                    "function given to lk_run()");
    lk_dtype   dtype = a.per_example_loss->dtype;
    lk_tensor *terms = average_terms(&a), *count = NULL;
    if (lki_bad(terms)) return terms;
    if (!given && a.denominator == LK_EXACT) {
        int64_t entries = lki_batch_entries(a.per_example_loss);
        size = (double)entries;
        if (entries < 0) count = lki_count_everywhere(terms, (double)terms->shape.dim[0]);
    } else if (!given) size = (double)lki_replica_count() * (double)terms->shape.dim[0];
    if (!count && size == 0) terms = lk_where(lk_zeros((lk_shape){0}, LK_BOOL), terms, lki_like(terms, 0));
    else terms = count ? lki_quotient(terms, count) : lk_div(terms, lki_like(terms, size));
    lk_tensor *sum = lk_reduce_sum(terms);
    return lki_bad(sum) || sum->dtype == dtype ? sum : lk_cast(sum, dtype);
}

lk_tensor *lk_scale_regularization_loss(lk_tensor *x)
{
    if (!lki_usable("lk_scale_regularization_loss", "x", x)) return &lki_poison;
    if (lk_in_cross_replica_context())
        return lki_refuse(LK_ESTATE, "lk_scale_regularization_loss: in cross-replica context; a replica's share is for a replica: "
                                     "call it in the function given to "
                                     "lk_run()");
    return lki_share_of(lk_reduce_sum(x), lki_replica_count());
}

/* ---- regularisers ---- */

lk_tensor *lk_nn_l1(lk_tensor *w, double c)
{
    return lki_usable("lk_nn_l1", "w", w) ? lk_mul(lk_reduce_sum(lk_abs(w)), lki_like(w, c)) : &lki_poison;
}

lk_tensor *lk_nn_l2(lk_tensor *w, double c)
{
    if (!lki_usable("lk_nn_l2", "w", w)) return &lki_poison;
    bool rows = w->rows.kind == LKI_ROWS; /* a sum over rows is added up the lane tree */
    return lk_mul(rows ? lk_reduce_sum(lk_square(w)) : lki_apply1(LKI_OP_sum_squares, NULL, w), lki_like(w, c));
}
