/* The sum over the replicas of one value each, as one device would have computed it: follow the origins (op/origin.h) back to the
 * sums over rows, add those along the lane tree, and compute the ops again on the totals.
 *
 *     a term      is summed: a sum over rows along the tree; a uniform value counts once per replica, a share of it once in all
 *     a factor    must be the same on all replicas: it is used unchanged
 *
 * Values that replicas computed in different ways have no such sum. */
#include "core/memory.h"
#include "core/rounding.h"
#include "dist/strategy.h"
#include "op/origin.h"
#include "op/record.h"
#include <string.h>

typedef struct walk {
    int         count;        /* replicas */
    lk_tensor **key, **value; /* sums computed so far, by the values of all replicas: origins may share operands */
    int         known, room, value_room;
} walk;

static lk_tensor *total(walk *w, lk_tensor *const *items);

lk_tensor *lki_agreed(int count, lk_tensor *const *items, double equal, double differ)
{
    lki_attr attr = {.num = {.a = equal, .b = differ}};
    return lki_apply(LKI_OP_agree, &attr, count, items, NULL);
}

/* ---- sums over rows ---- */

static int roots_of(const lk_tensor *t) { return t->origin ? t->origin->roots : 1; }

/* The subtrees of all replicas, from left to right; batches that are separate for each replica form a tree over the replicas. */
static bool fill_table(int count, lk_tensor *const *items, lk_tensor **value, int32_t *table)
{
    bool own = false;
    int  n = 0;
    for (int r = 0; r < count; r++) {
        int lo, hi;
        own = own || !lki_has_its_lanes(&items[r]->rows, r, count, &lo, &hi);
        for (int i = 0; i < roots_of(items[r]); i++, n++) {
            const lki_root *root = items[r]->origin ? &items[r]->origin->root[i] : &(lki_root){items[r], lo, hi - lo};
            if (lki_bad(root->value)) return false;
            value[n] = root->value;
            table[2 * n] = root->lane;
            table[2 * n + 1] = root->width;
        }
    }
    for (int r = 0; r < count && own; r++) {
        value[r] = items[r];
        table[2 * r] = r;
        table[2 * r + 1] = 1;
    }
    return true;
}

static lk_tensor *sum_of_rows(int count, lk_tensor *const *items)
{
    int n = 0, own = 0;
    for (int r = 0; r < count; r++) {
        int lo, hi;
        n += roots_of(items[r]);
        own |= !lki_has_its_lanes(&items[r]->rows, r, count, &lo, &hi);
    }
    lk_tensor **value LKI_RELEASED = lki_alloc_array(n + 1, sizeof *value), *sum = &lki_poison;
    int32_t    *table LKI_RELEASED = lki_alloc_array(n, 2 * sizeof *table);
    if (value && table && fill_table(count, items, value, table)) {
        if (own) n = count;
        lk_shape shape = {2, {n, 2}};
        value[n] = lk_tensor_from(shape, LK_I32, table);
        sum = lki_apply(LKI_OP_replica_sum, NULL, n + 1, value, NULL);
    }
    return sum;
}

/* ---- factors ---- */

static bool same_value(lk_tensor *a, lk_tensor *b)
{
    lki_tracer *tracer = lki_tracer_current();
    if (a == b) return true;
    if (tracer && (a->graph || b->graph)) return tracer->same && tracer->same(tracer, a, b);
    return lki_same_bits(a, b);
}

static lk_tensor *factor(int count, lk_tensor *const *items)
{
    for (int r = 1; r < count; r++)
        if (!same_value(items[r], items[0])) return NULL;
    return items[0];
}

/* ---- ops done again ---- */

static bool same_origin(int count, lk_tensor *const *items)
{
    const lki_origin *first = items[0]->origin;
    for (int r = 0; r < count; r++) {
        const lki_origin *o = items[r]->origin;
        if (!o || !o->nsrc || o->op != first->op || o->nsrc != first->nsrc || memcmp(&o->attr, &first->attr, sizeof o->attr))
            return false;
        for (int i = 0; i < o->nsrc; i++)
            if (lki_is_tracked(o->src[i]) != lki_is_tracked(first->src[i])) return false;
    }
    return true;
}

static lk_tensor *operand(walk *w, lk_tensor *const *items, int i)
{
    const lki_origin *o = items[0]->origin;
    lk_tensor       **src LKI_RELEASED = lki_alloc_array(w->count, sizeof *src), *out;
    if (!src) return &lki_poison;
    for (int r = 0; r < w->count; r++)
        src[r] = items[r]->origin->src[i];
    if (o->op == LKI_OP_share) out = i ? src[0] : lki_agreed(w->count, src, 1, 1.0 / w->count);
    else out = lki_is_tracked(o->src[i]) || o->op == LKI_OP_add || o->op == LKI_OP_sub ? total(w, src) : factor(w->count, src);
    return out;
}

static lk_tensor *done_again(walk *w, lk_tensor *const *items)
{
    const lki_origin *o = items[0]->origin;
    lk_tensor        *src[2] = {NULL, NULL};
    for (int i = 0; i < o->nsrc; i++)
        if (!(src[i] = operand(w, items, i)) || lki_bad(src[i])) return src[i];
    return o->op == LKI_OP_share ? src[0] : lki_apply(o->op, &o->attr, o->nsrc, src, NULL);
}

static void remember(walk *w, lk_tensor *const *items, lk_tensor *value)
{
    if (!lki_grow((void **)&w->key, &w->room, (w->known + 1) * w->count, sizeof *w->key) ||
        !lki_grow((void **)&w->value, &w->value_room, w->known + 1, sizeof *w->value))
        return;
    memcpy(w->key + w->known * w->count, items, (size_t)w->count * sizeof *items);
    w->value[w->known++] = value;
}

static bool all_of_kind(int count, lk_tensor *const *items, lki_row_kind kind)
{
    for (int r = 0; r < count; r++)
        if (items[r]->rows.kind != kind || (items[r]->origin && items[r]->origin->nsrc)) return false;
    return true;
}

/* Values computed by the same ops may still have operands of other shapes. */
static bool alike(int count, lk_tensor *const *items)
{
    for (int r = 1; r < count; r++)
        if (items[r]->dtype != items[0]->dtype || !lki_shape_equal(&items[r]->shape, &items[0]->shape)) return false;
    return true;
}

static lk_tensor *total(walk *w, lk_tensor *const *items)
{
    LKI_NEAREST;
    if (!alike(w->count, items)) return NULL;
    for (int i = 0; i < w->known; i++)
        if (!memcmp(w->key + i * w->count, items, (size_t)w->count * sizeof *items)) return w->value[i];
    lk_tensor *sum = all_of_kind(w->count, items, LKI_UNIFORM)   ? lki_agreed(w->count, items, w->count, 1)
                     : all_of_kind(w->count, items, LKI_ROW_SUM) ? sum_of_rows(w->count, items)
                     : same_origin(w->count, items)              ? done_again(w, items)
                                                                 : NULL;
    if (sum) remember(w, items, sum);
    return sum;
}

lk_tensor *lki_total(int count, lk_tensor *const *items)
{
    walk       w = {.count = count};
    lk_tensor *sum = total(&w, items);
    lki_release(w.key);
    lki_release(w.value);
    return sum;
}
