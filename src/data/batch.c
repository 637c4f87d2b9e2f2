/* Batch, padded batch and their reverse. The tensors of batch() are marked as rows of a global batch, so that sums over them have
 * one order. */
#include "core/memory.h"
#include "data/resident.h"
#include "data/save.h"
#include <string.h>

typedef struct batch_node {
    lk_dataset base;
    int64_t    size;
    bool       drops, pads;
    double     padding;
} batch_node;

typedef struct batch_state {
    lki_elements rows; /* of the batch being made */
} batch_state;

static void batch_stop(lki_cursor *c) { lki_elements_clear(&((batch_state *)c->state)->rows); }

static int64_t batch_cardinality(const lk_dataset *d)
{
    const batch_node *n = (const batch_node *)d;
    const int64_t     rows = lk_dataset_cardinality(d->input[0]);
    return rows < 0 ? rows : n->drops ? rows / n->size : rows / n->size + (rows % n->size != 0);
}

/* ---- stacking with padding ---- */

static lk_status largest_shape(const lki_elements *rows, int column, lki_column *out)
{
    *out = lki_element_column(&rows->item[0], column);
    for (int64_t i = 1; i < rows->count; i++) {
        lki_column x = lki_element_column(&rows->item[i], column);
        if (x.dtype != out->dtype || x.shape.rank != out->shape.rank)
            return lki_fail(x.dtype != out->dtype ? LK_EDTYPE : LK_ESHAPE,
                            "lk_dataset_padded_batch: tensor %d of element %lld of a batch is %s of rank %d, that of the first is "
                            "%s of rank %d; types and ranks must agree",
                            column, (long long)i, lk_dtype_name(x.dtype), x.shape.rank, lk_dtype_name(out->dtype), out->shape.rank);
        for (int k = 0; k < x.shape.rank; k++)
            out->shape.dim[k] = lki_max(out->shape.dim[k], x.shape.dim[k]);
    }
    return LK_OK;
}

/* Copy a smaller box into the corner of a larger one, line by line. */
static void put_box(const lk_shape *to, const lk_shape *from, int axis, size_t bytes, char *dst, const char *src)
{
    if (axis >= from->rank - 1) {
        memcpy(dst, src, (size_t)(from->rank ? from->dim[from->rank - 1] : 1) * bytes);
        return;
    }
    const size_t to_step = lki_bytes_of(lki_shape_size_from(to, axis + 1), bytes),
                 from_step = lki_bytes_of(lki_shape_size_from(from, axis + 1), bytes);
    for (int64_t i = 0; i < from->dim[axis]; i++)
        put_box(to, from, axis + 1, bytes, dst + (size_t)i * to_step, src + (size_t)i * from_step);
}

static lk_status padded_column(const batch_node *n, const lki_elements *rows, int column, lk_tensor **out)
{
    lki_column largest;
    lk_tensor *item[LKI_MOST_COLUMNS];
    LKI_TRY(largest_shape(rows, column, &largest));
    lk_shape shape = {largest.shape.rank + 1, {rows->count}};
    memcpy(shape.dim + 1, largest.shape.dim, (size_t)lki_min(largest.shape.rank, LK_MAX_RANK - 1) * sizeof shape.dim[0]);
    *out = lk_fill(shape, largest.dtype, n->padding);
    if (lki_bad(*out)) return lk_error_code();
    const size_t bytes = lk_dtype_bytes(largest.dtype), step = lki_bytes_of(lki_shape_size(&largest.shape), bytes);
    for (int64_t i = 0; i < rows->count; i++) {
        LKI_TRY(lki_element_tensors(&rows->item[i], item));
        if (lki_shape_size(&item[column]->shape))
            put_box(&largest.shape, &item[column]->shape, 0, bytes, (char *)(*out)->data + (size_t)i * step, item[column]->data);
    }
    return LK_OK;
}

static lk_status stack_padded(const batch_node *n, const lki_elements *rows, lki_rowset **out)
{
    lk_tensor *item[LKI_MOST_COLUMNS];
    const int  count = rows->item[0].set->count;
    for (int64_t i = 1; i < rows->count; i++)
        if (rows->item[i].set->count != count)
            return lki_fail(LK_ESHAPE, "lk_dataset_padded_batch: element %lld of a batch has %d tensors, the first one %d",
                            (long long)i, rows->item[i].set->count, count);
    lki_block step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    lk_status status = step.owner ? LK_OK : LK_ENOMEM;
    for (int i = 0; i < count && status == LK_OK; i++)
        status = padded_column(n, rows, i, &item[i]);
    *out = status == LK_OK ? lki_rowset_plain(rows->count, count, item) : NULL;
    return status == LK_OK && !*out ? LK_ENOMEM : status;
}

/* ---- batches ---- */

lk_status lki_read_rows(lki_cursor *c, int64_t size, lki_elements *rows)
{
    enum { PIECE = 4096 };
    rows->at = 0;
    for (int64_t got; rows->count < size;) {
        const int64_t piece = lki_min(size - rows->count, PIECE);
        LKI_TRY(lki_elements_reserve(rows, piece));
        LKI_TRY(lki_cursor_next(c->input[0], piece, rows->item + rows->count, &got));
        rows->count += got;
        if (got < piece) break;
    }
    return LK_OK;
}

static void mark_rows(lki_rowset *set, int64_t global, int lanes)
{
    for (int i = 0; i < set->count; i++)
        set->item[i]->rows = (lki_rows){.kind = LKI_ROWS,
                                        .lanes = lanes,
                                        .per_row = 1,
                                        .global = lki_max(global, set->rows),
                                        .rows = set->rows,
                                        .total = set->rows};
    set->rows = LKI_ALONE;
}

static lk_status make_batch(lki_cursor *c, lki_elements *rows, lki_element *out)
{
    const batch_node *n = (const batch_node *)c->dataset;
    lki_rowset       *set = NULL;
    lk_status         status = n->pads ? stack_padded(n, rows, &set) : lki_stack_for(c, rows->count, rows->item, &set);
    if (status != LK_OK) return status;
    mark_rows(set, n->size, c->pipeline->lanes);
    *out = lki_element_alone(set);
    return LK_OK;
}

static lk_status batch_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const batch_node *n = (const batch_node *)c->dataset;
    lki_elements     *rows = &((batch_state *)c->state)->rows;
    for (; *got < want; ++*got) {
        LKI_TRY(lki_read_rows(c, n->size, rows));
        const bool whole = rows->count == n->size, used = whole || (rows->count && !n->drops);
        if (used) LKI_TRY(make_batch(c, rows, &out[*got]));
        if (rows->count) lki_elements_drop(rows->count, rows->item);
        rows->count = 0;
        if (!used) break;
    }
    return LK_OK;
}

static lk_status batch_spec(lk_dataset *d, lk_element_spec *out)
{
    const batch_node *n = (const batch_node *)d;
    *out = lk_dataset_element_spec(d->input[0]);
    for (int i = 0; i < out->count && i < LKI_COUNT(out->shape); i++) {
        lk_shape *s = &out->shape[i];
        if (n->pads)
            for (int k = 0; k < s->rank; k++)
                s->dim[k] = -1;
        memmove(s->dim + 1, s->dim, (size_t)lki_min(s->rank, LK_MAX_RANK - 1) * sizeof s->dim[0]);
        s->dim[0] = n->drops ? n->size : -1;
        s->rank++;
    }
    return lk_failed() ? lk_error_code() : LK_OK;
}

/* Between calls there is nothing to save. */
#define BATCH_OPS(call)                                                                                                            \
    {                                                                                                                              \
        .name = call, .stacks = true, .state_bytes = sizeof(batch_state), .next = batch_next, .stop = batch_stop,                  \
        .still = lki_cursor_same, .cardinality = batch_cardinality, .spec = batch_spec                                             \
    }
static const lki_dataset_ops batch_ops = BATCH_OPS("lk_dataset_batch");
static const lki_dataset_ops padded_ops = BATCH_OPS("lk_dataset_padded_batch");

static lk_dataset *batch_new(const lki_dataset_ops *ops, const lk_batch_args *a, bool pads)
{
    LKI_SCOPE_ERRORS;
    if (!lki_dataset_usable(ops->name, a->dataset)) return NULL;
    if (a->size < 1 || a->size > LKI_MOST_ROWS)
        return lki_fail(LK_EINVAL, "%s: batches of %lld rows; it must be 1 to %lld", ops->name, (long long)a->size,
                        (long long)LKI_MOST_ROWS),
               NULL;
    if (lki_number_given(a->padding) && !pads)
        return lki_fail(LK_EINVAL, "%s: .padding is for lk_dataset_padded_batch()", ops->name), NULL;
    batch_node *n = lki_dataset_new(ops, sizeof *n, 1, &a->dataset);
    if (!n) return NULL;
    n->size = a->size;
    n->drops = a->drop_remainder == LK_ON;
    n->pads = pads;
    n->padding = lki_number(a->padding);
    n->base.batching = LKI_BATCHED;
    n->base.global = n->size;
    n->base.exact = n->drops;
    n->base.print = lki_mix((uint64_t)n->size, n->drops);
    return &n->base;
}

lk_dataset *lk_dataset_batch_kw(lk_batch_args a) { return batch_new(&batch_ops, &a, false); }
lk_dataset *lk_dataset_padded_batch_kw(lk_batch_args a) { return batch_new(&padded_ops, &a, true); }

/* ---- unbatch ---- */

typedef struct unbatch_state {
    lki_element from; /* the element whose rows are returned one by one; {0}: none */
    lki_rowset *rows; /* its tensors as a set of rows */
    int64_t     next;
} unbatch_state;

static void unbatch_stop(lki_cursor *c)
{
    unbatch_state *st = c->state;
    lki_rowset_drop(st->from.set, 1);
    lki_rowset_drop(st->rows, 1);
}

static lk_status rows_of(lk_tensor *const *item, int count, lki_rowset **out)
{
    const char *call = "lk_dataset_unbatch";
    for (int i = 0; i < count; i++) {
        if (item[i]->shape.rank < 1) return lki_fail(LK_ESHAPE, "%s: tensor %d of an element is a scalar and has no rows", call, i);
        if (item[i]->shape.dim[0] != item[0]->shape.dim[0])
            return lki_fail(LK_ESHAPE, "%s: tensor %d of an element has %lld rows, tensor 0 has %lld; they must agree", call, i,
                            (long long)item[i]->shape.dim[0], (long long)item[0]->shape.dim[0]);
    }
    *out = lki_rowset_plain(item[0]->shape.dim[0], count, item);
    return *out ? LK_OK : LK_ENOMEM;
}

static lk_status open_element(unbatch_state *st, lki_element e)
{
    lk_tensor *item[LKI_MOST_COLUMNS];
    lki_rowset_drop(st->from.set, 1);
    lki_rowset_drop(st->rows, 1);
    *st = (unbatch_state){.from = e};
    lki_block step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    LKI_TRY(step.owner ? lki_element_tensors(&e, item) : LK_ENOMEM);
    return rows_of(item, e.set->count, &st->rows);
}

static lk_status unbatch_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    unbatch_state *st = c->state;
    while (*got < want) {
        const int64_t n = st->rows ? lki_min(want - *got, st->rows->rows - st->next) : 0;
        for (int64_t i = 0; i < n; i++)
            out[(*got)++] = (lki_element){st->rows, st->next++};
        if (n) lki_rowset_retain(st->rows, n);
        if (*got == want) break;
        lki_element e;
        int64_t     more;
        LKI_TRY(lki_cursor_next(c->input[0], 1, &e, &more));
        if (!more) break;
        LKI_TRY(open_element(st, e));
    }
    return LK_OK;
}

static void unbatch_save(lki_cursor *c, lki_saver *s)
{
    const unbatch_state *st = c->state;
    const bool           some = st->rows && st->next < st->rows->rows;
    lki_save_number(s, some);
    if (!some) return;
    lki_save_element(s, &st->from);
    lki_save_number(s, (uint64_t)st->next);
}

static lk_status unbatch_restore(lki_cursor *c, lki_loader *l)
{
    unbatch_state *st = c->state;
    lki_element    e;
    uint64_t       some, row;
    LKI_TRY(lki_load_at_most(l, 1, &some));
    if (!some) return LK_OK;
    LKI_TRY(lki_load_element(l, &e));
    LKI_TRY(open_element(st, e));
    LKI_TRY(lki_load_at_most(l, (uint64_t)st->rows->rows, &row));
    st->next = (int64_t)row;
    return LK_OK;
}

static int64_t unbatch_cardinality(const lk_dataset *d)
{
    const int64_t batches = lk_dataset_cardinality(d->input[0]);
    if (batches <= 0 && batches != LK_UNKNOWN) return batches;
    return batches > 0 && d->input[0]->exact && d->input[0]->global ? batches * d->input[0]->global : LK_UNKNOWN;
}

static lk_status unbatch_spec(lk_dataset *d, lk_element_spec *out)
{
    *out = lk_dataset_element_spec(d->input[0]);
    for (int i = 0; i < out->count && i < LKI_COUNT(out->shape); i++) {
        lk_shape *s = &out->shape[i];
        if (s->rank < 1) return lki_fail(LK_ESHAPE, "lk_dataset_unbatch: tensor %d of an element is a scalar and has no rows", i);
        s->rank--;
        memmove(s->dim, s->dim + 1, (size_t)s->rank * sizeof s->dim[0]);
    }
    return lk_failed() ? lk_error_code() : LK_OK;
}

static const lki_dataset_ops unbatch_ops = {.name = "lk_dataset_unbatch",
                                            .state_bytes = sizeof(unbatch_state),
                                            .next = unbatch_next,
                                            .stop = unbatch_stop,
                                            .save = unbatch_save,
                                            .restore = unbatch_restore,
                                            .cardinality = unbatch_cardinality,
                                            .spec = unbatch_spec};

lk_dataset *lk_dataset_unbatch(lk_dataset *dataset)
{
    LKI_SCOPE_ERRORS;
    if (!lki_dataset_usable(unbatch_ops.name, dataset)) return NULL;
    lk_dataset *d = lki_dataset_new(&unbatch_ops, sizeof *d, 1, &dataset);
    if (!d) return NULL;
    d->batching = LKI_NOT_BATCHED;
    d->global = 0;
    d->exact = false;
    return d;
}
