/* Losses in which the rows of a batch meet: dice, tversky and circle.
 *
 * Sums over rows and comparisons of rows are those of the whole batch, on all replicas together. A value that all rows share is
 * given to each of them. The sums of dice and tversky have the order of the lanes, so their bits do not depend on the number of
 * replicas; those of circle run over the gathered rows, and their last bits do. */
#include "core/rounding.h"
#include "nn/loss.h"
#include "op/gradient.h"
#include "op/record.h"
#include "op/replica.h"

static lki_replica *others(void)
{
    lki_replica *r = lki_replica_current();
    return r && r->all_reduce && r->count > 1 ? r : NULL;
}

static lk_tensor *everyones_sum(lk_tensor *x)
{
    lki_replica *r = others();
    return r && !lki_bad(x) ? r->all_reduce(r, false, x) : x;
}

static lk_tensor *everyones_rows(lk_tensor *x)
{
    lki_replica *r = others();
    return r && !lki_bad(x) ? r->all_gather(r, 0, x) : x;
}

/* ---- overlaps ---------------------------------------------------------------------------------------------------------------- */

bool lki_loss_mixes_rows(lki_loss_id loss, lk_axes axis)
{
    const lki_axes axes = lki_axes_of(axis);
    if (loss != LKI_LOSS_dice && loss != LKI_LOSS_tversky) return false;
    for (int i = 0; i < axes.count; i++)
        if (axes.value[i] == 0) return true;
    return !axes.count;
}

typedef struct overlap {
    lk_axes    axes; /* to sum over, without that of the rows */
    bool       rows; /* also over the rows */
    lk_tensor *like; /* of the values: one per row and per element that is not summed over */
} overlap;

static bool overlap_of(const char *call, const lk_loss_args *a, overlap *o)
{
    const lki_axes given = lki_axes_of(a->axis);
    const int      rank = a->predictions->shape.rank;
    lki_axes       inner = {0};
    o->rows = !given.count;
    for (int i = 0; i < given.count; i++) {
        const int64_t axis = given.value[i] + (given.value[i] < 0 ? rank : 0);
        if (axis < 0 || axis >= rank)
            return lki_fail(LK_EINVAL, "%s: axis is %lld; predictions have %d axes", call, (long long)given.value[i], rank), false;
        if (axis == 0) o->rows = true;
        else inner.value[inner.count++] = axis;
    }
    for (int i = 1; i < rank && !given.count; i++)
        inner.value[inner.count++] = i;
    o->axes = inner.count ? lki_axes_list(&inner) : 0;
    o->like = inner.count ? lk_reduce_sum(a->predictions, .axis = o->axes) : a->predictions;
    return !lki_bad(o->like);
}

static lk_tensor *total(const overlap *o, lk_tensor *x)
{
    x = o->axes ? lk_reduce_sum(x, .axis = o->axes) : x;
    return o->rows ? everyones_sum(lk_reduce_sum(x, .axis = LK_AXES(0))) : x;
}

/* 1 - share, for every row. */
static lk_tensor *missing(const overlap *o, lk_tensor *share)
{
    lk_tensor *value = lk_sub(lki_like(share, 1), share);
    return o->rows ? lki_apply2(LKI_OP_broadcast_like, NULL, value, o->like) : value;
}

lk_tensor *lk_nn_dice_kw(lk_loss_args a)
{
    LKI_NEAREST;
    overlap o;
    if (!lki_loss_operands(LKI_LOSS_dice, &a) || !overlap_of("lk_nn_dice", &a, &o)) return &lki_poison;
    lk_tensor *y = lki_loss_labels(&a), *p = a.predictions;
    lk_tensor *both = total(&o, lk_mul(y, p)), *sizes = lk_add(total(&o, y), total(&o, p));
    return missing(&o, lk_div(lk_mul(lki_like(both, 2), both), lk_add(sizes, lki_like(sizes, 1e-7))));
}

lk_tensor *lk_nn_tversky_kw(lk_loss_args a)
{
    LKI_NEAREST;
    overlap o;
    if (!lki_loss_operands(LKI_LOSS_tversky, &a) || !overlap_of("lk_nn_tversky", &a, &o)) return &lki_poison;
    lk_tensor *y = lki_loss_labels(&a), *p = a.predictions, *one = lki_like(p, 1);
    lk_tensor *both = total(&o, lk_mul(y, p)), *left = total(&o, lk_mul(lk_sub(one, p), y)),
              *extra = total(&o, lk_mul(p, lk_sub(one, y)));
    lk_tensor *wrong = lk_add(lk_mul(left, lki_like(left, lki_number_or(a.alpha, 0.5))),
                              lk_mul(extra, lki_like(extra, lki_number_or(a.beta, 0.5))));
    return missing(&o, lk_div(both, lk_add(lk_add(both, wrong), lki_like(both, 1e-7))));
}

/* ---- circle ------------------------------------------------------------------------------------------------------------------ */

/* What no row is compared with: small enough that its exponential is 0, and finite, so that gradients are. */
#define NOTHING (-1e30)

/* True where two rows are the same row. Rows have no number here, but a row draws the same random numbers on any replica: those of
 * two rows agree with a probability of 2^-72. */
static lk_tensor *same_row(lk_tensor *x)
{
    lk_tensor *mine = lk_random_uniform(LK_SHAPE(3), .stream = "the rows of lk_nn_circle", .rows_of = x),
              *all = everyones_rows(mine);
    return lk_reduce_all(lk_equal(lk_expand_dims(mine, 1), lk_expand_dims(all, 0)), .axis = LK_AXES(-1));
}

/* log sum e^value over the pairs that are on. */
static lk_tensor *over_pairs(lk_tensor *on, lk_tensor *value)
{
    return lk_reduce_logsumexp(lk_where(on, value, lki_like(value, NOTHING)), .axis = LK_AXES(1));
}

static bool circle_fits(lk_loss_args *a)
{
    char text[LKI_SHAPE_TEXT];
    if (a->predictions->shape.rank != 2)
        return lki_fail(LK_ESHAPE, "lk_nn_circle: predictions are %s; they must be one vector per row",
                        lki_shape_text(&a->predictions->shape, text)),
               false;
    lk_tensor *ids = lk_cast(a->labels, LK_I32);
    if (!lki_bad(ids) && ids->shape.rank == 2 && ids->shape.dim[1] == 1) ids = lk_squeeze(ids, LK_AXES(-1));
    if (lki_bad(ids)) return false;
    if (ids->shape.rank != 1 || ids->shape.dim[0] != a->predictions->shape.dim[0])
        return lki_fail(LK_ESHAPE, "lk_nn_circle: labels are %s; there must be one class per row",
                        lki_shape_text(&ids->shape, text)),
               false;
    a->labels = ids;
    return true;
}

lk_tensor *lk_nn_circle_kw(lk_loss_args a)
{
    LKI_NEAREST;
    if (!lki_loss_operands(LKI_LOSS_circle, &a) || !circle_fits(&a)) return &lki_poison;
    const double margin = lki_number_or(a.margin, 0.4), gamma = lki_number_or(a.gamma, 80);
    lk_tensor   *x = a.predictions, *zero = lki_like(x, 0), *all = everyones_rows(x);
    lk_tensor   *d = lk_maximum(lk_sub(lki_like(x, 1), lk_matmul(x, lk_transpose(all, LK_AXES(1, 0)))), zero);
    lk_tensor   *same = lk_equal(lk_expand_dims(a.labels, 1), lk_expand_dims(everyones_rows(a.labels), 0));
    lk_tensor   *others_too = lk_logical_not(same);
    if (a.remove_diagonal != LK_OFF) same = lk_logical_and(same, lk_logical_not(same_row(x)));
    lk_tensor *near = lk_maximum(lk_add(d, lki_like(d, margin)), zero), *far = lk_maximum(lk_sub(lki_like(d, 1 + margin), d), zero);
    lk_tensor *pull = lk_mul(lk_mul(near, lki_like(d, -gamma)), lk_sub(lki_like(d, margin), d)),
              *push = lk_mul(lk_mul(far, lki_like(d, gamma)), lk_sub(lki_like(d, 1 - margin), d));
    return lk_softplus(lk_add(over_pairs(same, pull), over_pairs(others_too, push)));
}
