/* Operations along axes: reductions, running sums, order, and what is composed of them (operands.h). */
#include "core/dtype.h"
#include "layer/operands.h"
#include <lockstep/strategy.h>
#include <math.h>
#include <string.h>

static lk_tensor *times(lk_tensor *x, double n) { return lk_mul(x, lki_like(x, n)); }
static lk_tensor *is_nan(lk_tensor *x) { return lk_not_equal(x, x); }
static lk_tensor *without_nan(lk_tensor *x, double instead) { return lk_where(is_nan(x), lki_like(x, instead), x); }

/* Sums and products of bools are counts. */
static lk_tensor *countable(lk_tensor *x)
{
    return lki_bad(x) || (x->dtype != LK_BOOL && x->dtype != LK_U8) ? x : lk_cast(x, LK_I32);
}

/* ---- over axes ---- */

typedef lk_tensor *reducer(lk_reduce_args args);

/* Over the axes of option "axis", kept where "keepdims" says so. */
static lk_tensor *over(const lki_operands *c, lk_tensor *x, reducer *reduce)
{
    lki_axes axes;
    if (!lki_arg_axes(c, "axis", x, &axes)) return &lki_poison;
    if (!axes.count) return x;
    return reduce(
        (lk_reduce_args){.x = x, .axis = lki_axes_list(&axes), .keepdims = lki_arg_switch(c, "keepdims", false) ? LK_ON : LK_OFF});
}

#define OVER(name, x, reduce)                                                                                                      \
    OPERATION(name) { return over(c, x, reduce); }
OVER(sum, countable(lki_arg_tensor(c, "x")), lk_reduce_sum_kw)
OVER(prod, countable(lki_arg_tensor(c, "x")), lk_reduce_prod_kw)
OVER(mean, lki_arg_float(c, "x"), lk_reduce_mean_kw)
OVER(var, lki_arg_float(c, "x"), lk_reduce_variance_kw)
OVER(all, lki_arg_truth(c, "x"), lk_reduce_all_kw)
OVER(any, lki_arg_truth(c, "x"), lk_reduce_any_kw)
OVER(logsumexp, lki_arg_float(c, "x"), lk_reduce_logsumexp_kw)

static lk_tensor *deviation(lk_reduce_args a) { return lk_sqrt(lk_reduce_variance_kw(a)); }
OVER(std, lki_arg_float(c, "x"), deviation)

static lk_tensor *count_of(lk_reduce_args a)
{
    a.x = lk_cast(a.x, LK_I32);
    return lk_reduce_sum_kw(a);
}
OVER(count_nonzero, lki_arg_truth(c, "x"), count_of)

static lk_tensor *range_of(lk_reduce_args a) { return lk_sub(lk_reduce_max_kw(a), lk_reduce_min_kw(a)); }
OVER(ptp, lki_arg_tensor(c, "x"), range_of)

static lk_tensor *extreme(const lki_operands *c, reducer *reduce, lk_tensor *(*with)(lk_tensor *, lk_tensor *))
{
    const lki_json *initial = lki_arg(c, "initial");
    lk_tensor      *y = over(c, lki_arg_tensor(c, "x"), reduce);
    if (!initial || lki_bad(y)) return y;
    return initial->type == LKI_JSON_NUMBER ? with(y, lki_like(y, initial->number))
                                            : lki_arg_refuse(c, "initial should be a number");
}
OPERATION(max) { return extreme(c, lk_reduce_max_kw, lk_maximum); }
OPERATION(min) { return extreme(c, lk_reduce_min_kw, lk_minimum); }

/* ---- leaving out NaN ---- */

OVER(nansum, without_nan(lki_arg_float(c, "x"), 0), lk_reduce_sum_kw)
OVER(nanprod, without_nan(lki_arg_float(c, "x"), 1), lk_reduce_prod_kw)

static lk_tensor *nanmean(lk_reduce_args a)
{
    lk_reduce_args count = a;
    count.x = lk_cast(lk_logical_not(is_nan(a.x)), a.x->dtype);
    a.x = without_nan(a.x, 0);
    return lk_div(lk_reduce_sum_kw(a), lk_reduce_sum_kw(count));
}

static lk_tensor *nanvar(lk_reduce_args a)
{
    lk_reduce_args kept = a;
    kept.keepdims = LK_ON;
    a.x = lk_square(lk_sub(a.x, nanmean(kept)));
    return nanmean(a);
}

static lk_tensor *nanstd(lk_reduce_args a) { return lk_sqrt(nanvar(a)); }

/* NaN where there is nothing else. */
static lk_tensor *nan_extreme(lk_reduce_args a, reducer *reduce, double instead)
{
    lk_reduce_args all = a;
    all.x = is_nan(a.x);
    a.x = without_nan(a.x, instead);
    lk_tensor *y = reduce(a);
    return lki_bad(y) ? y : lk_where(lk_reduce_all_kw(all), lki_like(y, NAN), y);
}
static lk_tensor *nanmax(lk_reduce_args a) { return nan_extreme(a, lk_reduce_max_kw, -INFINITY); }
static lk_tensor *nanmin(lk_reduce_args a) { return nan_extreme(a, lk_reduce_min_kw, INFINITY); }
OVER(nanmean, lki_arg_float(c, "x"), nanmean)
OVER(nanvar, lki_arg_float(c, "x"), nanvar)
OVER(nanstd, lki_arg_float(c, "x"), nanstd)
OVER(nanmax, lki_arg_float(c, "x"), nanmax)
OVER(nanmin, lki_arg_float(c, "x"), nanmin)

/* ---- positions ---- */

static lk_tensor *argument(const lki_operands *c, lk_tensor *x, lk_tensor *(*find)(lk_axis_args))
{
    if (lki_bad(x)) return x;
    if (!lki_arg(c, "axis")) return lki_arg_refuse(c, "axis is null, which includes the rows; they are kept apart");
    const int at = lki_arg_axis(c, "axis", x, -1);
    if (at < 0) return &lki_poison;
    lk_tensor *y = lk_cast(find((lk_axis_args){.x = x, .axis = LK_AXIS(at)}), LK_I32);
    return lki_arg_switch(c, "keepdims", false) ? lk_expand_dims(y, at) : y;
}
OPERATION(argmax) { return argument(c, lki_arg_tensor(c, "x"), lk_argmax_kw); }
OPERATION(argmin) { return argument(c, lki_arg_tensor(c, "x"), lk_argmin_kw); }

/* ---- running sums and differences ---- */

static lk_tensor *running(const lki_operands *c, lk_tensor *x)
{
    if (lki_bad(x)) return x;
    if (!lki_arg(c, "axis")) return lki_arg_refuse(c, "axis is null, which joins the rows; they are kept apart");
    const int at = lki_arg_axis(c, "axis", x, -1), dtype = at < 0 ? -1 : lki_arg_dtype(c, "dtype", x->dtype);
    return dtype < 0 ? &lki_poison : lk_cumsum(lk_cast(x, (lk_dtype)dtype), .axis = LK_AXIS(at));
}
OPERATION(cumsum) { return running(c, countable(lki_arg_tensor(c, "x"))); }
OPERATION(nancumsum) { return running(c, without_nan(lki_arg_float(c, "x"), 0)); }

/* Entries from `from` to `to` of an axis. */
static lk_tensor *part(lk_tensor *x, int axis, int64_t from, int64_t to)
{
    lki_axes begin = {.count = x->shape.rank}, size = {.count = x->shape.rank};
    for (int i = 0; i < x->shape.rank; i++) {
        begin.value[i] = i == axis ? from : 0;
        size.value[i] = i == axis ? to - from : x->shape.dim[i];
    }
    return lki_slice(x, &begin, &size);
}

static lk_tensor *steps(lk_tensor *x, int axis, lk_tensor *(*combine)(lk_tensor *, lk_tensor *))
{
    const int64_t n = lki_bad(x) ? 0 : x->shape.dim[axis];
    return n < 1 ? x : combine(part(x, axis, 1, n), part(x, axis, 0, n - 1));
}

OPERATION(diff)
{
    lk_tensor    *x = lki_arg_tensor(c, "a");
    const int     at = lki_arg_axis(c, "axis", x, -1);
    const int64_t n = lki_arg_whole(c, "n", 1);
    if (at < 0) return &lki_poison;
    for (int64_t i = 0; i < n && !lki_bad(x) && x->shape.dim[at]; i++)
        x = steps(x, at, lk_sub);
    return x;
}

OPERATION(trapezoid)
{
    lk_tensor *y = lki_arg_float(c, "y");
    const int  at = lki_arg_axis(c, "axis", y, -1);
    if (at < 0) return &lki_poison;
    if (lki_arg(c, "x")) return lki_arg_refuse(c, "x is given; only dx is supported");
    lk_tensor *sum = lk_reduce_sum(steps(y, at, lk_add), .axis = LK_AXES(at));
    return lki_bad(sum) ? sum : times(sum, lki_arg_number(c, "dx", 1) / 2);
}

/* ---- averages and norms ---- */

OPERATION(average)
{
    lk_tensor *x = lki_arg_float(c, "x");
    if (!lki_arg(c, "weights")) return over(c, x, lk_reduce_mean_kw);
    lk_tensor *w = lki_arg_float(c, "weights");
    lki_axes   axes;
    if (lki_bad(w) || !lki_arg_axes(c, "axis", x, &axes)) return &lki_poison;
    if (axes.count != 1) return lki_arg_refuse(c, "weights need one axis");
    if (w->shape.rank == 1 && x->shape.rank > 1) {
        lk_shape along = {.rank = x->shape.rank - (int)axes.value[0], .dim = {w->shape.dim[0]}};
        for (int i = 1; i < along.rank; i++)
            along.dim[i] = 1;
        w = lk_reshape(w, along);
    }
    w = lk_add(w, times(x, 0));
    return lk_div(over(c, lk_mul(x, w), lk_reduce_sum_kw), over(c, w, lk_reduce_sum_kw));
}

static lk_tensor *norm(lk_reduce_args a, double order)
{
    lk_tensor *x = lk_abs(a.x);
    a.x = x;
    if (order == INFINITY) return lk_reduce_max_kw(a);
    if (order == -INFINITY) return lk_reduce_min_kw(a);
    a.x = order == 1   ? x
          : order == 2 ? lk_square(x)
          : order == 0 ? lk_cast(lk_not_equal(x, lki_like(x, 0)), LK_F32)
                       : lk_pow(x, lki_like(x, order));
    lk_tensor *sum = lk_reduce_sum_kw(a);
    return order == 1 || order == 0 || lki_bad(sum) ? sum : order == 2 ? lk_sqrt(sum) : lk_pow(sum, lki_like(sum, 1 / order));
}

/* "fro" is the Euclidean norm; "inf" as a word is how some versions write it. */
static bool order_of(const lki_operands *c, const char *name, double *order)
{
    const lki_json *v = lki_arg(c, name);
    const char     *word = v && v->type == LKI_JSON_STRING ? v->text : "fro";
    *order = v && v->type == LKI_JSON_NUMBER ? v->number : 2;
    if (!strcmp(word, "inf")) *order = INFINITY;
    return !strcmp(word, "fro") || !strcmp(word, "inf");
}

OPERATION(norm)
{
    lk_tensor *x = lki_arg_float(c, "x");
    lki_axes   axes;
    double     order;
    if (!lki_arg_axes(c, "axis", x, &axes)) return &lki_poison;
    if (!order_of(c, "ord", &order) || (axes.count > 1 && order != 2) ||
        (axes.count > 1 && lki_arg(c, "ord") && lki_arg(c, "ord")->whole))
        return lki_arg_refuse(c, "this norm of matrices; known is \"fro\"");
    return norm(
        (lk_reduce_args){.x = x, .axis = lki_axes_list(&axes), .keepdims = lki_arg_switch(c, "keepdims", false) ? LK_ON : LK_OFF},
        order);
}

OPERATION(normalize)
{
    lk_tensor *x = lki_arg_float(c, "x");
    lki_axes   axes = {1, {-1}};
    double     order;
    if (lki_arg(c, "axis") ? !lki_arg_axes(c, "axis", x, &axes) : lki_bad(x)) return &lki_poison;
    if (!order_of(c, "order", &order)) return lki_arg_refuse(c, "order is not a number");
    const lk_reduce_args a = {.x = x, .axis = lki_axes_list(&axes), .keepdims = LK_ON};
    const double         epsilon = lki_arg_number(c, "epsilon", 1e-7);
    if (order != 2) {
        lk_tensor *n = norm(a, order);
        return lki_bad(n) ? n : lk_div(x, lk_maximum(n, lki_like(n, epsilon)));
    }
    lk_reduce_args squares = a;
    squares.x = lk_square(x);
    lk_tensor *sum = lk_reduce_sum_kw(squares);
    return lki_bad(sum) ? sum : lk_mul(x, lk_minimum(lk_rsqrt(sum), lki_like(sum, 1 / epsilon)));
}

OPERATION(moments)
{
    lk_tensor *x = lki_arg_float(c, "x");
    lki_axes   axes;
    if (lki_arg_switch(c, "synchronized", false)) return lki_arg_refuse(c, "synchronized is true; only false is supported");
    if (!lki_arg_axes(c, "axes", x, &axes)) return &lki_poison;
    const lk_reduce_args a = {
        .x = x, .axis = lki_axes_list(&axes), .keepdims = lki_arg_switch(c, "keepdims", false) ? LK_ON : LK_OFF};
    return lk_nest(LK_TUPLE(lk_reduce_mean_kw(a), lk_reduce_variance_kw(a)));
}

/* ---- order ---- */

/* With axis `at` as the last one; and back. */
static lk_tensor *swapped(lk_tensor *x, int at)
{
    lki_axes order = {.count = lki_bad(x) ? 0 : x->shape.rank};
    if (lki_bad(x) || at == order.count - 1) return x;
    for (int i = 0; i < order.count; i++)
        order.value[i] = i;
    order.value[at] = order.count - 1;
    order.value[order.count - 1] = at;
    return (lk_transpose)(x, lki_axes_list(&order));
}

/* Ascending along the last axis: the largest of -x come first. */
static lk_tuple ascending(lk_tensor *x)
{
    return lki_bad(x) ? (lk_tuple){0} : lk_top_k(lk_neg(x), x->shape.dim[x->shape.rank - 1]);
}

OPERATION(sort)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    const int  at = lki_arg_axis(c, "axis", x, -1);
    lk_tuple   sorted = at < 0 ? (lk_tuple){0} : ascending(swapped(x, at));
    return sorted.count ? swapped(lk_neg(sorted.item[0]), at) : &lki_poison;
}

OPERATION(argsort)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    const int  at = lki_arg_axis(c, "axis", x, -1);
    lk_tuple   sorted = at < 0 ? (lk_tuple){0} : ascending(swapped(x, at));
    return sorted.count ? swapped(sorted.item[1], at) : &lki_poison;
}

/* The value at a share q of the sorted entries of one axis, between two neighbours by their distance. */
static lk_tensor *quantile(const lki_operands *c, double q)
{
    lk_tensor      *x = lki_arg_float(c, "x");
    const lki_json *axis = lki_arg(c, "axis");
    if (!axis) return lki_arg_refuse(c, "axis is null, which includes the rows; they are kept apart");
    const int at = lki_arg_axis(c, "axis", x, -1);
    if (at < 0 || !(q >= 0 && q <= 1)) return at < 0 ? &lki_poison : lki_arg_refuse(c, "q is %g", q);
    if (strcmp(lki_arg_word(c, "method", "linear"), "linear")) return lki_arg_refuse(c, "only the method \"linear\" is supported");
    lk_tuple sorted = ascending(swapped(x, at));
    if (!sorted.count || lki_bad(sorted.item[0])) return &lki_poison;
    lk_tensor    *s = lk_neg(sorted.item[0]);
    const int     last = s->shape.rank - 1;
    const int64_t n = s->shape.dim[last];
    const double  place = q * (double)(n - 1);
    const int64_t low = (int64_t)floor(place), high = (int64_t)ceil(place);
    lk_tensor    *y = part(s, last, low, low + 1), *z = part(s, last, high, high + 1);
    y = lk_add(times(y, 1 - (place - (double)low)), times(z, place - (double)low));
    y = swapped(y, at);
    return lki_arg_switch(c, "keepdims", false) || lki_bad(y) ? y : (lk_squeeze)(y, LK_AXES(at));
}

static lk_tensor *quantile_by(const lki_operands *c, double whole)
{
    const lki_json *q = lki_arg(c, "q");
    return q && q->type == LKI_JSON_NUMBER ? quantile(c, q->number / whole) : lki_arg_refuse(c, "q should be a number");
}

OPERATION(median) { return quantile(c, 0.5); }
OPERATION(quantile) { return quantile_by(c, 1); }
OPERATION(percentile) { return quantile_by(c, 100); }

OPERATION(top_k)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    lk_tuple   y = lki_bad(x) ? (lk_tuple){0} : lk_top_k(x, lki_arg_whole(c, "k", 1));
    return y.count ? lk_nest(y) : &lki_poison;
}
