/* Tuples as lists, and tuples out of forms. */
#include "graph/form.h"
#include "core/memory.h"
#include <lockstep/strategy.h>
#include <string.h>

/* ---- lists ---- */

void lki_value_list_begin(lki_value_list *l)
{
    l->item = l->few;
    l->count = 0;
    l->room = LKI_FEW;
}

void lki_value_list_end(lki_value_list *l)
{
    if (l->item != l->few) lki_release(l->item);
}

static lk_status push(lki_value_list *l, lk_tensor *t)
{
    if (l->count == l->room) {
        lk_tensor **more = lki_alloc_array(l->room, 2 * sizeof *more);
        if (!more) return LK_ENOMEM;
        memcpy(more, l->item, (size_t)l->count * sizeof *more);
        lki_value_list_end(l);
        l->item = more;
        l->room *= 2;
    }
    l->item[l->count++] = t;
    return LK_OK;
}

static bool is_range_of(const lk_tensor *t, const lk_tensor *whole, int64_t first)
{
    lk_shape shape = whole->shape;
    if (!t || lki_bad(t) || lki_stands_for(t) || !t->shape.rank) return false;
    shape.dim[0] = t->shape.dim[0];
    if (t->dtype != whole->dtype || !lki_shape_equal(&t->shape, &shape)) return false;
    if (t->graph || whole->graph) return t->graph == whole->graph; /* the graph knows where a traced value lies */
    size_t before = lki_bytes_of(lki_size_mul(first, lki_shape_size_from(&shape, 1)), lk_dtype_bytes(t->dtype));
    return lki_shape_size(&t->shape) == 0 || (char *)t->data == (char *)whole->data + before;
}

static lk_tensor *whole_of(const lki_replicas *p)
{
    int64_t first = 0;
    if (!p->whole || lki_bad(p->whole) || lki_stands_for(p->whole) || !p->whole->shape.rank) return NULL;
    for (int r = 0; r < p->count; r++) {
        if (!is_range_of(p->item[r], p->whole, first)) return NULL;
        first += p->item[r]->shape.dim[0];
    }
    return first == p->whole->shape.dim[0] ? p->whole : NULL;
}

lk_status lki_value_list_add(lki_value_list *l, lk_tensor *t)
{
    LKI_TRY(push(l, t));
    if (!t || lki_bad(t)) return LK_OK;
    for (int i = 0; t->nest && i < t->nest->count; i++)
        LKI_TRY(lki_value_list_add(l, t->nest->item[i]));
    if (t->replicas) LKI_TRY(push(l, whole_of(t->replicas)));
    for (int i = 0; t->replicas && i < t->replicas->count; i++)
        LKI_TRY(lki_value_list_add(l, t->replicas->item[i]));
    return LK_OK;
}

int lki_value_list_same(const lki_value_list *l, int i)
{
    int first = 0;
    while (l->item[first] != l->item[i])
        first++;
    return first;
}

/* ---- forms ---- */

static lki_form_kind kind_of(const lk_tensor *t)
{
    return !t ? LKI_FORM_NONE : t->nest ? LKI_FORM_NEST : t->replicas ? LKI_FORM_REPLICAS : LKI_FORM_TENSOR;
}

lki_form lki_form_of(const lki_value_list *l, int i)
{
    const lk_tensor *t = l->item[i];
    lki_form         f = {.kind = kind_of(t), .same = lki_value_list_same(l, i), .first = -1};
    switch (f.kind) {
    case LKI_FORM_NONE: break;
    case LKI_FORM_NEST: f.count = t->nest->count; break;
    case LKI_FORM_REPLICAS:
        f.count = t->replicas->count;
        f.mirrored = t->replicas->mirrored;
        f.strategy = t->replicas->strategy;
        break;
    case LKI_FORM_TENSOR:
        f.dtype = t->dtype;
        f.shape = t->shape;
        f.rows = t->rows;
        f.weak = t->weak;
    }
    return f;
}

bool lki_form_matches(const lki_form *f, const lki_value_list *l, int i)
{
    const lk_tensor *t = l->item[i];
    if (f->kind != kind_of(t)) return false;
    switch (f->kind) {
    case LKI_FORM_NONE: return true;
    case LKI_FORM_NEST: return f->count == t->nest->count;
    case LKI_FORM_REPLICAS:
        return f->count == t->replicas->count && f->mirrored == t->replicas->mirrored && f->strategy == t->replicas->strategy;
    case LKI_FORM_TENSOR: break;
    }
    return f->dtype == t->dtype && f->weak == t->weak && lki_shape_equal(&f->shape, &t->shape) &&
           lki_rows_equal(&f->rows, &t->rows) && f->same == lki_value_list_same(l, i);
}

/* ---- tuples out of forms ---- */

static lk_tensor *build(const lki_form **at, lk_tensor *const *outputs);

static lk_tensor *build_tensor(const lki_form *f, lk_tensor *const *outputs)
{
    lk_tensor *t = outputs[f->output];
    if (f->first >= 0) return lki_tensor_row_range(t, f->first, f->shape.dim[0], &f->rows);
    t->rows = f->rows;
    return t;
}

/* The items of a nested tuple or of a per-replica value. */
static lk_tensor *build_items(const lki_form *f, const lki_form **at, lk_tensor *const *outputs)
{
    lk_tensor *few[LKI_FEW], **item = f->count <= LKI_FEW ? few : lki_alloc_array(f->count, sizeof *item), *whole = NULL, *made;
    if (!item) return &lki_poison;
    if (f->kind == LKI_FORM_REPLICAS) whole = build(at, outputs);
    bool good = whole != &lki_poison;
    for (int i = 0; i < f->count; i++) {
        item[i] = build(at, outputs);
        good = good && item[i] != &lki_poison;
    }
    if (!good) made = &lki_poison;
    else if (f->kind == LKI_FORM_NEST) made = lk_nest((lk_tuple){f->count, item});
    else made = lki_per_replica(f->strategy, f->count, item, whole, f->mirrored);
    if (item != few) lki_release(item);
    return made;
}

static lk_tensor *build(const lki_form **at, lk_tensor *const *outputs)
{
    const lki_form *f = (*at)++;
    if (f->kind == LKI_FORM_NONE) return NULL;
    return f->kind == LKI_FORM_TENSOR ? build_tensor(f, outputs) : build_items(f, at, outputs);
}

lk_tuple lki_form_build(const lki_form *forms, int items, lk_tensor *const *outputs)
{
    lk_tensor *few[LKI_FEW] = {0}, **item = items <= LKI_FEW ? few : lki_alloc_array(items, sizeof *item);
    bool       good = item != NULL;
    for (int i = 0; i < items && good; i++) {
        item[i] = build(&forms, outputs);
        good = item[i] != &lki_poison;
    }
    lk_tuple t = lki_tuple_new(good ? items : 0, item);
    if (item != few) lki_release(item);
    return t;
}
