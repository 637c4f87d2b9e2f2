/* One value out of one per replica, and back: selecting, regrouping, summing.
 *
 * A sum over replicas is exact, that is the sum one device would have made, where every item is linear in sums over rows (total.c).
 * Other items are added in the order of the cross-device operations. */
#include "core/dtype.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "dist/cross.h"
#include "dist/strategy.h"
#include "op/gradient.h"
#include <lockstep/ops.h>

/* ---- selecting and regrouping ---- */

static lk_tensor *select_nest(lk_tensor *t, int r)
{
    lk_tensor **item LKI_RELEASED = lki_alloc_array(t->nest->count + 1, sizeof *item);
    if (!item) return &lki_poison;
    for (int i = 0; i < t->nest->count; i++)
        item[i] = lki_select(t->nest->item[i], r);
    return lk_nest((lk_tuple){t->nest->count, item});
}

lk_tensor *lki_select(lk_tensor *t, int r)
{
    if (!t || lki_bad(t)) return t;
    if (t->nest) return select_nest(t, r);
    return t->replicas ? t->replicas->item[r] : t;
}

lk_status lki_check_replicas(const char *call, const char *what, int i, const lk_strategy *s, const lk_tensor *t)
{
    if (lki_bad(t)) return LK_OK;
    if (t->replicas && t->replicas->count != s->replicas)
        return lki_fail(LK_EINVAL, "%s: %s %d is a per-replica value of %d replicas, %s has %d", call, what, i, t->replicas->count,
                        s->text, s->replicas);
    for (int k = 0; t->nest && k < t->nest->count; k++)
        LKI_TRY(lki_check_replicas(call, what, i, s, t->nest->item[k]));
    return LK_OK;
}

static lk_tensor *regroup_nests(lk_strategy *s, int count, lk_tensor *const *items, const char *call)
{
    int n = items[0]->nest->count;
    for (int r = 1; r < count; r++)
        if (!items[r]->nest || items[r]->nest->count != n)
            return lki_refuse(LK_EINVAL, "%s: replica 0 returned a tuple of %d, replica %d %s; all must return the same structure",
                              call, n, r, items[r]->nest ? "one of another length" : "a tensor");
    lk_tensor **part LKI_RELEASED = lki_alloc_array(count + n + 1, sizeof *part), **out = part + count;
    if (!part) return &lki_poison;
    for (int i = 0; i < n; i++) {
        for (int r = 0; r < count; r++)
            part[r] = items[r]->nest->item[i];
        out[i] = lki_regroup(s, count, part, call);
    }
    return lk_nest((lk_tuple){n, out});
}

lk_tensor *lki_regroup(lk_strategy *s, int count, lk_tensor *const *items, const char *call)
{
    bool same = true;
    for (int r = 1; r < count; r++)
        same = same && items[r] == items[0];
    if (same) return items[0];
    for (int r = 0; r < count; r++) {
        if (!items[r])
            return lki_refuse(LK_EINVAL,
                              "%s: replica %d returned none where others returned a tensor; all must return the same structure",
                              call, r);
        if (lki_bad(items[r])) return &lki_poison;
    }
    if (items[0]->nest) return regroup_nests(s, count, items, call);
    for (int r = 1; r < count; r++)
        if (items[r]->nest)
            return lki_refuse(
                LK_EINVAL, "%s: replica %d returned a tuple where replica 0 returned a tensor; all must return the same structure",
                call, r);
    return lki_per_replica(s, count, items, NULL, false);
}

/* ---- sums ---- */

static bool all_uniform(int count, lk_tensor *const *items)
{
    for (int r = 0; r < count; r++)
        if (items[r]->rows.kind != LKI_UNIFORM || !lki_is_float(items[r]->dtype) || lki_is_half(items[r]->dtype)) return false;
    return true;
}

/* Integer sums over rows. */
static bool counts(int count, lk_tensor *const *items)
{
    for (int r = 0; r < count; r++)
        if (items[r]->rows.kind != LKI_ROW_SUM || (items[r]->dtype != LK_I32 && items[r]->dtype != LK_I64)) return false;
    return true;
}

static lk_tensor *divided(lk_tensor *t, int count)
{
    if (lki_bad(t)) return t;
    if (!lki_is_float(t->dtype)) t = lk_cast(t, LK_F64);
    return lk_div(t, lki_like(t, count));
}

/* The row ids of an embedding's gradient: those of all replicas, one after the other; values are divided for a mean. */
static void join_slices(int count, lk_tensor *const *items, bool mean, lk_tensor *sum)
{
    enum { MOST = 64 };
    lk_tensor *rows[MOST], *ids[MOST];
    if (lki_bad(sum) || count > MOST) return;
    for (int r = 0; r < count; r++) {
        if (!items[r]->slice_rows) return;
        rows[r] = items[r]->slice_rows;
        ids[r] = items[r]->slice_ids;
    }
    lki_rows   meaning = rows[0]->rows;
    lk_tensor *all_rows = lk_concat(lki_tuple_new(count, rows), 0), *all_ids = lk_concat(lki_tuple_new(count, ids), 0);
    if (mean) all_rows = divided(all_rows, count);
    if (lki_bad(all_rows) || lki_bad(all_ids)) return;
    if (meaning.kind == LKI_ROWS && !meaning.own) { /* in lanes again, as on one device */
        meaning.first = 0;
        meaning.rows = meaning.total;
        all_rows->rows = all_ids->rows = meaning;
    }
    sum->slice_rows = lki_retain(all_rows);
    sum->slice_ids = lki_retain(all_ids);
}

lk_tensor *lki_combine(const char *call, lk_strategy *s, lk_cross_device_ops *cross, bool mean, int count, lk_tensor *const *items)
{
    LKI_NEAREST;
    for (int r = 0; r < count; r++)
        if (lki_bad(items[r])) return &lki_poison;
    if (count == 1) return items[0];
    for (int r = 1; r < count; r++) {
        char a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
        if (!lki_shape_equal(&items[r]->shape, &items[0]->shape))
            return lki_refuse(LK_ESHAPE,
                              "%s: replica 0 has %s, replica %d %s: shapes must agree to be added element by element; reduce along "
                              "an axis instead",
                              call, lki_shape_text(&items[0]->shape, a), r, lki_shape_text(&items[r]->shape, b));
        if (items[r]->dtype != items[0]->dtype)
            return lki_refuse(LK_EDTYPE, "%s: replica 0 has %s, replica %d %s: types must agree", call,
                              lk_dtype_name(items[0]->dtype), r, lk_dtype_name(items[r]->dtype));
    }
    lk_tensor *sum = NULL;
    if (all_uniform(count, items)) sum = mean ? lki_agreed(count, items, 1, 1.0 / count) : lki_agreed(count, items, count, 1);
    else {
        sum = lki_is_float(items[0]->dtype) || counts(count, items) ? lki_total(count, items) : NULL;
        if (!sum) sum = lki_cross_sum(s, cross, count, items);
        if (mean) sum = divided(sum, count);
    }
    join_slices(count, items, mean, sum);
    return sum;
}
