/* Connectionist temporal classification: minus the logarithm of the probability of a row's labels, over all ways to align them with
 * the steps of its predictions.
 *
 * Class 0 is the blank, and the zeros at the end of a row's labels are padding. With blanks between labels, "ab" is "_a_b_".
 * alpha[s] is the logarithm of the probability of all ways that have read up to the s-th of these by now; a step stays, moves on by
 * one, or moves on by two over a blank between two different labels. */
#include "core/rounding.h"
#include "core/size.h"
#include "nn/loss.h"
#include "op/gradient.h"
#include <lockstep/grad.h>
#include <math.h>

/* The logarithm of nothing: finite, so that differences and gradients are. */
#define NOTHING (-1e30)

static bool fits(const lk_loss_args *a)
{
    char            text[LKI_SHAPE_TEXT];
    const lk_shape *y = &a->labels->shape, *x = &a->predictions->shape;
    if (x->rank != 3 || x->dim[1] < 1)
        return lki_fail(LK_ESHAPE, "lk_nn_ctc: predictions are %s; they must be [rows, steps, classes]", lki_shape_text(x, text)),
               false;
    if (y->rank != 2 || y->dim[0] != x->dim[0] || y->dim[1] < 1)
        return lki_fail(LK_ESHAPE, "lk_nn_ctc: labels are %s; they must be [rows, most labels]", lki_shape_text(y, text)), false;
    return true;
}

/* [rows, n], moved to the right by `by`. */
static lk_tensor *shifted(lk_tensor *x, int by, double fill)
{
    const int64_t n = x->shape.dim[1];
    lk_tensor    *moved = lk_pad(x, .before = LK_AXES(0, by), .after = LK_AXES(0, 0), .value = fill);
    return lk_slice(moved, LK_AXES(0, 0), LK_AXES(-1, n));
}

/* [rows, labels] to [rows, 2 * labels + 1]: a blank before each, and one at the end. */
static lk_tensor *with_blanks(lk_tensor *ids)
{
    const int64_t n = ids->shape.dim[1];
    lk_tensor    *pairs = lk_stack(LK_TUPLE(lk_mul(ids, lki_like(ids, 0)), ids), 2);
    pairs = lk_reshape(pairs, LK_SHAPE(ids->shape.dim[0], lki_size_mul(n, 2)));
    return lk_pad(pairs, .before = LK_AXES(0, 0), .after = LK_AXES(0, 1));
}

/* log(e^a + e^b + e^c) */
static lk_tensor *log_sum(lk_tensor *a, lk_tensor *b, lk_tensor *c)
{
    lk_tensor *most = lk_stop_gradient(lk_maximum(lk_maximum(a, b), c));
    lk_tensor *sum = lk_add(lk_add(lk_exp(lk_sub(a, most)), lk_exp(lk_sub(b, most))), lk_exp(lk_sub(c, most)));
    return lk_add(most, lk_log(sum));
}

/* Where a number is among the first `count` of a row of n, and not among the first `from`. */
static lk_tensor *places(int64_t n, lk_tensor *from, lk_tensor *count)
{
    lk_tensor *at = lk_cumsum(lk_ones(LK_SHAPE(n), LK_I32), .axis = LK_AXIS(0), .exclusive = LK_ON);
    return lk_logical_and(lk_greater_equal(at, lk_expand_dims(from, 1)), lk_less(at, lk_expand_dims(count, 1)));
}

lk_tensor *lk_nn_ctc_kw(lk_loss_args a)
{
    LKI_NEAREST;
    if (!lki_loss_operands(LKI_LOSS_ctc, &a) || !fits(&a)) return &lki_poison;
    lk_tensor *ids = lk_cast(a.labels, LK_I32), *states = with_blanks(ids);
    if (lki_bad(states)) return states;
    const int64_t n = states->shape.dim[1];
    lk_tensor    *log = lk_log_softmax(a.predictions), *none = lki_like(log, NOTHING), *zero = lki_like(ids, 0);
    lk_tensor    *on = lk_one_hot(states, a.predictions->shape.dim[2], .dtype = log->dtype);
    lk_tuple      each = lk_unstack(lk_matmul(log, on, .transpose_b = LK_ON), 1);
    lk_tensor    *skips = lk_logical_and(lk_not_equal(states, zero), lk_not_equal(states, shifted(states, 2, -1)));
    lk_tensor    *length = lk_reduce_sum(lk_cast(lk_not_equal(ids, zero), LK_I32), .axis = LK_AXES(-1)), *two = lki_like(length, 2);
    lk_tensor    *end = lk_add(lk_mul(length, two), lki_like(length, 1)), *start = lk_mul(length, lki_like(length, 0));
    lk_tensor    *alpha = lk_where(places(n, start, lk_add(start, two)), each.item[0], none);
    for (int t = 1; t < each.count; t++) {
        lk_tensor *jump = lk_where(skips, shifted(alpha, 2, NOTHING), none);
        alpha = lk_add(log_sum(alpha, shifted(alpha, 1, NOTHING), jump), each.item[t]);
    }
    lk_tensor *last = places(n, lk_sub(end, two), end);
    lk_tensor *loss = lk_neg(lk_reduce_logsumexp(lk_where(last, alpha, none), .axis = LK_AXES(-1)));
    return lk_where(lk_greater(loss, lki_like(loss, -NOTHING / 2)), lki_like(loss, INFINITY), loss);
}
