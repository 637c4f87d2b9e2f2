/* Reductions over any axes, composed of primitive ones over neighbouring axes, and running sums.
 *
 * Order of a sum: groups of neighbouring reduced axes from the last to the first, each a primitive reduce_sum. If the rows of the
 * batch and all axes after them are summed, each row is summed first; then rows are added lane by lane and up the tree. */
#include "core/rounding.h"
#include "op/gradient.h"
#include "op/infer.h"
#include <lockstep/grad.h>
#include <lockstep/ops.h>
#include <stdio.h>

/* Bit i: axis i is reduced. False (and an error) if an axis does not exist. */
static bool reduced_axes(const char *call, const lk_tensor *x, lk_axes list, unsigned *mask)
{
    const lki_axes axes = lki_axes_of(list);
    *mask = axes.count ? 0 : (1u << x->shape.rank) - 1;
    if (axes.count < 0) return false; /* LK_AXES reported it */
    for (int i = 0; i < axes.count; i++) {
        int axis = lki_axis_normal(axes.value[i], x->shape.rank);
        if (axis < 0) {
            lki_fail(LK_EINVAL, "%s: axis %lld is outside rank %d; it may be %d to %d", call, (long long)axes.value[i],
                     x->shape.rank, -x->shape.rank, x->shape.rank - 1);
            return false;
        }
        if (*mask >> axis & 1) return lki_fail(LK_EINVAL, "%s: axis %d is named twice", call, axis), false;
        *mask |= 1u << axis;
    }
    return true;
}

static lk_tensor *reduce_group(lki_op op, lk_tensor *x, int first, int last)
{
    bool rows_and_all_behind =
        !lki_bad(x) && op == LKI_OP_reduce_sum && x->rows.kind == LKI_ROWS && first == 0 && last > 0 && last == x->shape.rank - 1;
    if (rows_and_all_behind) {
        x = lki_apply1(op, &(lki_attr){.reduce = {1, last}}, x);
        last = 0;
    }
    return lki_apply1(op, &(lki_attr){.reduce = {first, last}}, x);
}

static lk_tensor *reduce_mask(lki_op op, lk_tensor *x, unsigned mask)
{
    int rank = x->shape.rank;
    for (int last = rank - 1; last >= 0; last--) {
        if (!(mask >> last & 1)) continue;
        int first = last;
        while (first > 0 && mask >> (first - 1) & 1)
            first--;
        x = reduce_group(op, x, first, last);
        last = first;
    }
    return x;
}

static lk_shape kept_shape(const lk_shape *shape, unsigned mask)
{
    lk_shape s = *shape;
    for (int i = 0; i < s.rank; i++)
        if (mask >> i & 1) s.dim[i] = 1;
    return s;
}

static lk_tensor *reduce(lki_op op, const char *call, lk_reduce_args args)
{
    unsigned mask;
    if (!args.x) lki_fail(LK_EINVAL, "%s: x is missing", call);
    if (lki_bad(args.x) || !reduced_axes(call, args.x, args.axis, &mask)) return &lki_poison;
    lk_shape   kept = kept_shape(&args.x->shape, mask);
    lk_tensor *y = reduce_mask(op, args.x, mask);
    if (y == args.x) y = lk_identity(y);
    return args.keepdims == LK_ON ? lk_reshape(y, kept) : y;
}

#define REDUCE(name)                                                                                                               \
    lk_tensor *lk_##name##_kw(lk_reduce_args args) { return reduce(LKI_OP_##name, "lk_" #name, args); }
REDUCE(reduce_sum)
REDUCE(reduce_max)
REDUCE(reduce_min)
REDUCE(reduce_prod)
REDUCE(reduce_any)
REDUCE(reduce_all)

/* How many elements each element of y is the sum of. */
static double elements_per(const lk_tensor *x, const lk_tensor *y)
{
    double n = 1, m = 1;
    for (int i = 0; i < x->shape.rank; i++)
        n *= (double)x->shape.dim[i];
    for (int i = 0; i < y->shape.rank; i++)
        m *= (double)y->shape.dim[i];
    return m > 0 ? n / m : 0;
}

lk_tensor *lk_reduce_mean_kw(lk_reduce_args args)
{
    LKI_NEAREST;
    lk_tensor *sum = reduce(LKI_OP_reduce_sum, "lk_reduce_mean", args);
    if (lki_bad(sum)) return sum;
    double n = elements_per(args.x, sum);
    return lk_div(sum, lki_like(sum, n > 0 ? n : 1)); /* the mean of nothing is 0 */
}

lk_tensor *lk_reduce_logsumexp_kw(lk_reduce_args args)
{
    lk_reduce_args keep = args;
    keep.keepdims = LK_ON;
    lk_tensor *most = lk_stop_gradient(reduce(LKI_OP_reduce_max, "lk_reduce_logsumexp", keep));
    if (lki_bad(most)) return most;
    most = lk_where(lk_is_finite(most), most, lki_like(most, 0));
    keep.x = lk_exp(lk_sub(args.x, most));
    lk_tensor *y = lk_add(lk_log(lk_reduce_sum_kw(keep)), most);
    if (args.keepdims == LK_ON || lki_bad(y)) return y;
    unsigned mask;
    if (!reduced_axes("lk_reduce_logsumexp", args.x, args.axis, &mask)) return &lki_poison;
    lk_shape s = {0};
    for (int i = 0; i < args.x->shape.rank; i++)
        if (!(mask >> i & 1)) s.dim[s.rank++] = args.x->shape.dim[i];
    return lk_reshape(y, s);
}

lk_tensor *lk_reduce_variance_kw(lk_reduce_args args)
{
    lk_reduce_args keep = args;
    keep.keepdims = LK_ON;
    lk_tensor *mean = lk_reduce_mean_kw(keep);
    if (lki_bad(mean)) return mean;
    args.x = lk_squared_difference(args.x, mean);
    return lk_reduce_mean_kw(args);
}

lk_tensor *lki_reduce_to(lk_tensor *t, const lk_shape *shape)
{
    if (lki_bad(t) || lki_shape_equal(&t->shape, shape)) return t;
    unsigned mask = 0;
    int      extra = t->shape.rank - shape->rank;
    for (int i = 0; i < t->shape.rank; i++)
        if (i < extra || (shape->dim[i - extra] == 1 && t->shape.dim[i] != 1)) mask |= 1u << i;
    return lk_reshape(reduce_mask(LKI_OP_reduce_sum, t, mask), *shape);
}

/* ---- one axis ---- */

static bool one_axis(const char *call, const lk_axis_args *args, int default_axis, int *axis)
{
    if (!args->x) lki_fail(LK_EINVAL, "%s: x is missing", call);
    if (lki_bad(args->x)) return false;
    if (args->axis == LK_NO_AXIS) return lki_fail(LK_EINVAL, "%s: LK_NO_AXIS is not allowed here", call), false;
    int wanted = lki_axis_or(args->axis, default_axis);
    *axis = lki_axis_normal(wanted, args->x->shape.rank);
    if (*axis < 0) lki_fail(LK_EINVAL, "%s: axis %d is outside rank %d", call, wanted, args->x->shape.rank);
    return *axis >= 0;
}

/* For all but running sums. */
static bool plain_axis(const char *call, const lk_axis_args *args, int default_axis, int *axis)
{
    if (lki_switch_given(args->exclusive) || lki_switch_given(args->reverse))
        return lki_fail(LK_EINVAL, "%s: exclusive and reverse are for lk_cumsum", call), false;
    return one_axis(call, args, default_axis, axis);
}

/* Run an op of the last axis on another one: swap, run, swap back. */
static lk_tensor *on_axis(lki_op op, lk_tensor *x, int axis)
{
    int last = x->shape.rank - 1;
    if (axis == last) return lki_apply1(op, NULL, x);
    lki_axes swap = {.count = x->shape.rank};
    for (int i = 0; i <= last; i++)
        swap.value[i] = i == axis ? last : i == last ? axis : i;
    const lk_axes list = lki_axes_list(&swap);
    return lk_transpose(lki_apply1(op, NULL, lk_transpose(x, list)), list);
}

lk_tensor *lk_softmax_kw(lk_axis_args args)
{
    int        axis;
    lk_tensor *y = plain_axis("lk_softmax", &args, -1, &axis) ? on_axis(LKI_OP_softmax, args.x, axis) : &lki_poison;
    if (!lki_bad(y) && axis == args.x->shape.rank - 1 && !y->logits) y->logits = lki_retain(args.x);
    return y;
}

lk_tensor *lk_log_softmax_kw(lk_axis_args args)
{
    int axis;
    return plain_axis("lk_log_softmax", &args, -1, &axis) ? on_axis(LKI_OP_log_softmax, args.x, axis) : &lki_poison;
}

lk_tensor *lk_cumsum_kw(lk_axis_args args)
{
    int axis;
    if (!one_axis("lk_cumsum", &args, 0, &axis)) return &lki_poison;
    return lki_apply1(LKI_OP_cumsum, &(lki_attr){.scan = {axis, args.exclusive == LK_ON, args.reverse == LK_ON}}, args.x);
}

lk_tensor *lk_argmax_kw(lk_axis_args args)
{
    int axis;
    return plain_axis("lk_argmax", &args, 0, &axis) ? lki_apply1(LKI_OP_argmax, &(lki_attr){.reduce = {axis, axis}}, args.x)
                                                    : &lki_poison;
}

lk_tensor *lk_argmin_kw(lk_axis_args args)
{
    int axis;
    return plain_axis("lk_argmin", &args, 0, &axis) ? lki_apply1(LKI_OP_argmin, &(lki_attr){.reduce = {axis, axis}}, args.x)
                                                    : &lki_poison;
}

lk_tuple lk_top_k(lk_tensor *x, int64_t k)
{
    lk_tensor *out[LKI_MAX_DST];
    lki_apply(LKI_OP_top_k, &(lki_attr){.top = {k}}, 1, &x, out);
    return lki_tuple_new(2, out);
}
