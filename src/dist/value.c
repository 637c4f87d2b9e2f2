/* Values of all replicas: reduce, gather, local results, values from a function. */
#include "core/dtype.h"
#include "core/memory.h"
#include "dist/strategy.h"
#include "op/gradient.h"
#include "op/record.h"
#include <lockstep/ops.h>
#include <strings.h>

lk_reduce_op lk_reduce_op_named(const char *name)
{
    if (name && !strcasecmp(name, "sum")) return LK_SUM;
    if (name && !strcasecmp(name, "mean")) return LK_MEAN;
    lki_fail(LK_EINVAL, "\"%s\" is not a reduction; it must be \"sum\" or \"mean\"", name ? name : "");
    return (lk_reduce_op)0;
}

/* ---- reduce ---- */

static lk_status check_reduce(const lk_reduce_values_args *a)
{
    LKI_TRY(lki_need_cross("lk_reduce", a->strategy));
    if (a->op != LK_SUM && a->op != LK_MEAN)
        return lki_fail(LK_EINVAL, "lk_reduce: there is no reduction %d; it must be LK_SUM or LK_MEAN", (int)a->op);
    if (!a->value) return lki_fail(LK_EINVAL, "lk_reduce: the value is NULL");
    if (lki_bad(a->value)) return lki_poisoned_status("lk_reduce");
    if (lki_axis_given(a->axis) && lki_axes_of(a->axes).count)
        return lki_fail(LK_EINVAL, "lk_reduce: give .axis or .axes, not both");
    return lki_check_replicas("lk_reduce", "value", 0, a->strategy, a->value);
}

static bool all_zero(const lk_tensor *t)
{
    const void *data = t->graph ? NULL : lki_host_data(t);
    for (int64_t i = 0; data && i < lki_shape_size(&t->shape); i++)
        if (lki_element_get(t->dtype, data, i) != 0) return false;
    return data != NULL;
}

/* A value that is the same on all replicas, or that was not distributed. */
static lk_tensor *reduce_plain(const lk_reduce_values_args *a, lk_tensor *value, const char *what)
{
    if (a->op == LK_MEAN || a->strategy->replicas == 1 || all_zero(value)) return value;
    return lki_refuse(LK_EINVAL,
                      "lk_reduce: LK_SUM of %s over %d replicas: it is the same everywhere and was not made by them; use LK_MEAN, "
                      "or return it from lk_run()",
                      what, a->strategy->replicas);
}

static lk_tensor *reduce_elements(const lk_reduce_values_args *a, lk_tensor *value);

static lk_tensor *reduce_nest(const lk_reduce_values_args *a, lk_tensor *value)
{
    lk_tensor **item LKI_RELEASED = lki_alloc_array(value->nest->count + 1, sizeof *item);
    if (!item) return &lki_poison;
    for (int i = 0; i < value->nest->count; i++)
        item[i] = value->nest->item[i] ? reduce_elements(a, value->nest->item[i]) : NULL;
    return lk_nest((lk_tuple){value->nest->count, item});
}

static lk_tensor *reduce_elements(const lk_reduce_values_args *a, lk_tensor *value)
{
    if (value->nest) return reduce_nest(a, value);
    if (!value->replicas) return reduce_plain(a, value, "a plain value");
    if (value->replicas->mirrored) return reduce_plain(a, value->replicas->item[0], "a mirrored value");
    return lki_combine("lk_reduce", a->strategy, NULL, a->op == LK_MEAN, value->replicas->count, value->replicas->item);
}

/* ---- along axes ---- */

static bool normal_axes(const lk_reduce_values_args *a, const lk_tensor *t, lki_axes *axes)
{
    *axes = lki_axis_given(a->axis) ? (lki_axes){1, {lki_axis_or(a->axis, 0)}} : lki_axes_of(a->axes);
    if (axes->count < 0) return false; /* LK_AXES reported it */
    for (int i = 0; i < axes->count; i++) {
        bool far = axes->value[i] < -LK_MAX_RANK || axes->value[i] > LK_MAX_RANK;
        int  axis = far ? -1 : lki_axis_normal((int)axes->value[i], t->shape.rank);
        if (axis < 0)
            return lki_fail(LK_EINVAL, "lk_reduce: axis %lld is outside a value of rank %d", (long long)axes->value[i],
                            t->shape.rank),
                   false;
        axes->value[i] = axis;
    }
    return true;
}

static int64_t reduced_size(const lk_tensor *t, const lki_axes *axes)
{
    int64_t size = 1;
    for (int i = 0; i < axes->count; i++)
        size = lki_size_mul(size, t->shape.dim[axes->value[i]]);
    return size;
}

static lk_tensor *reduce_axes(const lk_reduce_values_args *a)
{
    lk_strategy *s = a->strategy;
    lk_tensor  **sum LKI_RELEASED = lki_alloc_array(s->replicas, sizeof *sum), *total = NULL;
    int64_t      count = 0;
    bool         good = sum != NULL;
    for (int r = 0; r < s->replicas && good; r++) {
        lk_tensor *item = lki_select(a->value, r);
        lki_axes   axes;
        good = normal_axes(a, item, &axes);
        if (!good) break;
        count += reduced_size(item, &axes);
        if (s->replicas > 1) lki_on_replica(s, r);
        sum[r] = lk_reduce_sum(item, .axis = lki_axes_list(&axes));
        if (s->replicas > 1) lki_replica_set(NULL);
    }
    if (good) total = lki_combine("lk_reduce", s, NULL, false, s->replicas, sum);
    if (!good || lki_bad(total)) return &lki_poison;
    if (a->op == LK_SUM) return total;
    if (!lki_is_float(total->dtype)) total = lk_cast(total, LK_F64);
    return count ? lk_div(total, lki_like(total, (double)count)) : lk_mul(total, lki_like(total, 0));
}

lk_tensor *lk_reduce_kw(lk_reduce_values_args a)
{
    if (check_reduce(&a) != LK_OK) return &lki_poison;
    lki_context before = lki_context_cross(a.strategy);
    lk_tensor  *out =
        lki_axis_given(a.axis) || lki_axes_of(a.axes).count
             ? (a.value->nest ? lki_refuse(LK_EINVAL, "lk_reduce: a tuple can be reduced without an axis only") : reduce_axes(&a))
             : reduce_elements(&a, a.value);
    lki_context_restore(&before);
    return out;
}

lk_tensor *lk_reduce_variable(lk_strategy *s, lk_reduce_op op, lk_variable *v)
{
    const char *call = "lk_reduce_variable";
    if (lki_need_cross(call, s) != LK_OK || !lki_belongs_here(call, v)) return &lki_poison;
    lk_tuple   parts = lk_local_variables(s, v);
    lk_tensor *value =
        parts.count > 1 && v->spread->component ? lki_per_replica(s, parts.count, parts.item, NULL, false) : parts.item[0];
    return parts.count ? lk_reduce(s, op, value) : &lki_poison;
}

/* ---- gather ---- */

lk_tensor *lki_gather_values(const char *call, lk_strategy *s, lk_tensor *value, int axis)
{
    if (lki_need_cross(call, s) != LK_OK || !lki_usable(call, "the value", value)) return &lki_poison;
    if (value->nest) return lki_refuse(LK_EINVAL, "%s: the value is a tuple; gather its items one by one", call);
    if (!value->replicas) return value;
    if (lki_check_replicas(call, "value", 0, s, value) != LK_OK) return &lki_poison;
    return value->replicas->mirrored ? value->replicas->item[0]
                                     : lki_join(call, value->replicas->count, value->replicas->item, axis);
}

lk_tensor *lk_gather_values_kw(lk_gather_args a)
{
    return lki_gather_values("lk_gather_values", a.strategy, a.value, lki_axis_or(a.axis, 0));
}

lk_tensor *lki_join(const char *call, int count, lk_tensor *const *items, int axis)
{
    int rank = items[0]->shape.rank;
    for (int r = 0; r < count; r++) {
        if (items[r]->slice_rows)
            return lki_refuse(LK_EUNSUPPORTED, "%s: replica %d has a gradient made of rows; it cannot be gathered", call, r);
        if (!items[r]->shape.rank)
            return lki_refuse(
                LK_EINVAL, "%s: replica %d has a scalar; a value needs an axis to be joined along: lk_reshape it to [1]", call, r);
        if (items[r]->shape.rank != rank)
            return lki_refuse(LK_EINVAL, "%s: replica 0 has rank %d, replica %d rank %d; they must agree", call, rank, r,
                              items[r]->shape.rank);
    }
    int at = lki_axis_normal(axis, rank);
    if (at < 0) return lki_refuse(LK_EINVAL, "%s: axis %d is outside rank %d", call, axis, rank);
    for (int r = 1; r < count; r++)
        for (int d = 0; d < rank; d++)
            if (d != at && items[r]->shape.dim[d] != items[0]->shape.dim[d]) {
                char a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
                return lki_refuse(LK_EINVAL, "%s: replica 0 has %s, replica %d %s: sizes may differ along axis %d only", call,
                                  lki_shape_text(&items[0]->shape, a), r, lki_shape_text(&items[r]->shape, b), at);
            }
    lk_tensor *out = count == 1 ? items[0] : lk_concat(lki_tuple_new(count, items), at);
    return out;
}

/* ---- local results ---- */

static bool contains_replicas(const lk_tensor *t)
{
    bool found = t->replicas != NULL;
    for (int i = 0; t->nest && i < t->nest->count && !found; i++)
        found = t->nest->item[i] && contains_replicas(t->nest->item[i]);
    return found;
}

lk_tuple lk_local_results(lk_strategy *s, lk_tensor *value)
{
    if (lki_need_cross("lk_local_results", s) != LK_OK || !lki_usable("lk_local_results", "the value", value))
        return lki_tuple_new(0, NULL);
    if (!contains_replicas(value)) return lki_tuple_new(1, &value);
    if (lki_check_replicas("lk_local_results", "value", 0, s, value) != LK_OK) return lki_tuple_new(0, NULL);
    lk_tensor **item LKI_RELEASED = lki_alloc_array(s->replicas, sizeof *item);
    if (!item) return lki_tuple_new(0, NULL);
    for (int r = 0; r < s->replicas; r++)
        item[r] = lki_select(value, r);
    return lki_tuple_new(s->replicas, item);
}

lk_tuple lk_local_variables(lk_strategy *s, lk_variable *v)
{
    const char *call = "lk_local_variables";
    if (lki_need_cross(call, s) != LK_OK || !lki_belongs_here(call, v)) return lki_tuple_new(0, NULL);
    int         count = v->spread ? v->spread->count : 1;
    lk_tensor **item LKI_RELEASED = lki_alloc_array(count + 1, sizeof *item);
    if (!item) return lki_tuple_new(0, NULL);
    for (int r = 0; r < count; r++)
        item[r] = lki_variable_read(v->spread && v->spread->component ? v->spread->component[r] : v);
    return lki_tuple_new(count, item);
}

lk_tensor *lk_values_from_function(lk_strategy *s, lk_value_fn fn, void *user)
{
    if (lki_need_cross("lk_values_from_function", s) != LK_OK) return &lki_poison;
    if (!fn) return lki_refuse(LK_EINVAL, "lk_values_from_function: the function is missing");
    lk_tensor **item LKI_RELEASED = lki_alloc_array(s->replicas, sizeof *item);
    if (!item) return &lki_poison;
    bool good = true;
    for (int r = 0; r < s->replicas && good; r++) {
        item[r] = fn(&(lk_value_context){r, s->replicas}, user);
        if (!item[r]) lki_fail(LK_EINVAL, "lk_values_from_function: the function returned NULL for replica %d", r);
        good = !lki_bad(item[r]);
    }
    return !good ? &lki_poison : s->kind == LKI_STRATEGY_MIRRORED ? lki_per_replica(s, s->replicas, item, NULL, false) : item[0];
}
