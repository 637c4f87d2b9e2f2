/* Cross-entropies that weigh an element by how wrong it is. */
#include "core/rounding.h"
#include "nn/loss.h"
#include "op/gradient.h"
#include "op/origin.h"

static lk_tensor *one_minus(lk_tensor *x) { return lk_sub(lki_like(x, 1), x); }

/* (1 - p)^gamma */
static lk_tensor *distance(lk_tensor *p, const lk_loss_args *a)
{
    return lk_pow(one_minus(p), lki_like(p, lki_number_or(a->gamma, 2)));
}

/* Of each element. If the probabilities are the result of a sigmoid, its operand is used, and nothing has to be clipped. */
static lk_tensor *binary_entropy(lk_tensor *y, lk_tensor *p)
{
    if (p->logits && p->of_sigmoid) return lk_sub(lk_softplus(p->logits), lk_mul(p->logits, y));
    lk_tensor *q = lki_loss_clipped(p);
    return lk_neg(lk_add(lk_mul(y, lk_log(q)), lk_mul(one_minus(y), lk_log(one_minus(q)))));
}

lk_tensor *lk_nn_binary_focal_crossentropy_kw(lk_loss_args a)
{
    LKI_NEAREST;
    if (!lki_loss_operands(LKI_LOSS_binary_focal_crossentropy, &a)) return &lki_poison;
    if (!lki_loss_axis_last("lk_nn_binary_focal_crossentropy", &a)) return &lki_poison;
    lk_tensor *y = lki_loss_smoothed(lki_loss_labels(&a), a.label_smoothing, 0.5), *x = a.predictions;
    lk_tensor *p = a.from_logits == LK_ON ? lk_sigmoid(x) : x;
    if (lki_bad(p) || lki_bad(y)) return &lki_poison;
    lk_tensor   *entropy = a.from_logits == LK_ON ? lk_sub(lk_softplus(x), lk_mul(x, y)) : binary_entropy(y, p);
    lk_tensor   *right = lk_add(lk_mul(y, p), lk_mul(one_minus(y), one_minus(p)));
    lk_tensor   *loss = lk_mul(distance(right, &a), entropy);
    const double alpha = lki_number_or(a.alpha, 0.25);
    if (a.apply_class_balancing == LK_ON)
        loss = lk_mul(lk_add(lk_mul(y, lki_like(y, alpha)), lk_mul(one_minus(y), lki_like(y, 1 - alpha))), loss);
    return lk_reduce_mean(loss, .axis = LK_AXES(-1));
}

lk_tensor *lk_nn_categorical_focal_crossentropy_kw(lk_loss_args a)
{
    LKI_NEAREST;
    if (!lki_loss_operands(LKI_LOSS_categorical_focal_crossentropy, &a)) return &lki_poison;
    if (!lki_loss_axis_last("lk_nn_categorical_focal_crossentropy", &a)) return &lki_poison;
    const double classes = (double)a.predictions->shape.dim[a.predictions->shape.rank - 1];
    lk_tensor   *y = lki_loss_smoothed(lki_loss_labels(&a), a.label_smoothing, 1 / classes), *p = a.predictions;
    if (a.from_logits == LK_ON) p = lk_softmax(p);
    p = lki_loss_clipped(lk_div(p, lk_reduce_sum(p, .axis = LK_AXES(-1), .keepdims = LK_ON)));
    if (lki_bad(p)) return p;
    lk_tensor *weight = lk_mul(distance(p, &a), lki_like(p, lki_number_or(a.alpha, 0.25)));
    return lk_reduce_sum(lk_mul(weight, lk_neg(lk_mul(y, lk_log(p)))), .axis = LK_AXES(-1));
}

/* Labels are classes. */
lk_tensor *lk_nn_categorical_generalized_cross_entropy_kw(lk_loss_args a)
{
    LKI_NEAREST;
    if (!lki_loss_operands(LKI_LOSS_categorical_generalized_cross_entropy, &a)) return &lki_poison;
    const int    rank = a.predictions->shape.rank;
    const double q = lki_number_or(a.q, 0.5);
    lk_tensor   *ids = lk_cast(a.labels, LK_I64), *p = a.predictions;
    if (!lki_bad(ids) && ids->shape.rank == rank && ids->shape.dim[rank - 1] == 1) ids = lk_squeeze(ids, LK_AXES(-1));
    lk_tensor *on = lk_one_hot(ids, p->shape.dim[rank - 1], .dtype = p->dtype);
    lk_tensor *right = lk_reduce_sum(lk_mul(p, on), .axis = LK_AXES(-1));
    if (lki_bad(right)) return right;
    return lk_mul(one_minus(lk_pow(right, lki_like(right, q))), lki_like(right, 1 / q));
}
