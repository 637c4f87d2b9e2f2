/* Rows split again (recut.h). */
#include "data/recut.h"
#include "core/memory.h"
#include "data/resident.h"
#include "data/save.h"
#include <string.h>

/* ---- off the stream ---- */

typedef struct recut_node {
    lk_dataset base;
    lki_split  split;
} recut_node;

typedef struct recut_state {
    int64_t      step;
    lki_elements rows; /* of the current step; between steps at most one, which was read for an empty step */
} recut_state;

static void recut_stop(lki_cursor *c) { lki_elements_clear(&((recut_state *)c->state)->rows); }

/* A step without rows for this worker's replicas: zero rows, with the shape of the next row. */
static lk_status no_rows(const lki_element *like, lki_rowset **out)
{
    lk_tensor *item[LKI_MOST_COLUMNS];
    const int  count = like->set->count;
    lk_status  status = LK_OK;
    LKI_TRY(lki_stack("lk_distribute_dataset", 1, like, out));
    lki_rowset *one = *out;
    lki_block   step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    for (int i = 0; i < count && status == LK_OK; i++) {
        item[i] = step.owner ? lki_tensor_row_range(one->item[i], 0, 0, &(lki_rows){0}) : &lki_poison;
        if (lki_bad(item[i])) status = LK_ENOMEM;
    }
    *out = status == LK_OK ? lki_rowset_plain(LKI_ALONE, count, item) : NULL;
    lki_rowset_drop(one, 1);
    return status == LK_OK && !*out ? LK_ENOMEM : status;
}

static lk_status recut_one(lki_cursor *c, lki_element *out, int64_t *got)
{
    const recut_node *n = (const recut_node *)c->dataset;
    recut_state      *st = c->state;
    const int64_t     step = st->step % lki_split_steps(&n->split), size = lki_split_step_rows(&n->split, step);
    lki_rowset       *set;
    LKI_TRY(lki_read_rows(c, lki_max(1, size), &st->rows));
    if (!st->rows.count || (c->dataset->exact && st->rows.count < size)) return LK_OK;
    LKI_TRY(size ? lki_stack_for(c, st->rows.count, st->rows.item, &set) : no_rows(st->rows.item, &set));
    set->rows = LKI_ALONE;
    set->tag = step;
    *out = lki_element_alone(set);
    *got = 1;
    st->step++;
    if (!size) return LK_OK; /* the row belongs to the next step */
    lki_elements_drop(st->rows.count, st->rows.item);
    st->rows.count = 0;
    return LK_OK;
}

static lk_status recut_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    for (int64_t more = 1; *got < want && more; *got += more) {
        more = 0;
        LKI_TRY(recut_one(c, out + *got, &more));
    }
    return LK_OK;
}

static void recut_save(lki_cursor *c, lki_saver *s)
{
    const recut_state *st = c->state;
    lki_save_number(s, (uint64_t)st->step);
    lki_save_elements(s, &st->rows);
}

static lk_status recut_restore(lki_cursor *c, lki_loader *l)
{
    uint64_t step;
    LKI_TRY(lki_load_at_most(l, INT64_MAX / 2, &step));
    ((recut_state *)c->state)->step = (int64_t)step;
    return lki_load_elements(l, 1, &((recut_state *)c->state)->rows);
}

/* Known if the number of rows is: it is that of the batches' input, or all batches are full. */
static int64_t recut_cardinality(const lk_dataset *d)
{
    const lki_split  *s = &((const recut_node *)d)->split;
    const lk_dataset *batches = d->input[0]->input[0];
    const int64_t     count = lk_dataset_cardinality(batches);
    int64_t           rows;
    if (count <= 0) return count;
    if (!d->exact || lki_split_steps(s) > 1 || !lki_size_try_mul(count, s->global, &rows)) return LK_UNKNOWN;
    return rows / lki_split_step_rows(s, 0);
}

static const lki_dataset_ops recut_ops = {.name = "lk_distribute_dataset",
                                          .stacks = true,
                                          .state_bytes = sizeof(recut_state),
                                          .next = recut_next,
                                          .stop = recut_stop,
                                          .save = recut_save,
                                          .restore = recut_restore,
                                          .cardinality = recut_cardinality};

lk_dataset *lki_recut_node(lk_dataset *batches, const lki_split *s)
{
    lk_dataset *rows = lk_dataset_unbatch(batches);
    recut_node *n = rows ? lki_dataset_new(&recut_ops, sizeof *n, 1, &rows) : NULL;
    if (rows) lk_free(rows); /* the node holds it */
    if (!n) return NULL;
    n->split = *s;
    n->base.batching = LKI_BATCHED;
    n->base.global = s->global;
    n->base.exact = batches->exact;
    n->base.print = (uint64_t)lki_split_steps(s);
    for (int i = 0; i < lki_split_steps(s); i++)
        n->base.print = lki_mix(n->base.print, (uint64_t)lki_split_step_rows(s, i));
    return &n->base;
}

/* ---- pieces of a batch ---- */

typedef struct pieces_state {
    lki_element from; /* the batch; {0}: none */
    int64_t     next, step;
} pieces_state;

static void pieces_stop(lki_cursor *c) { lki_rowset_drop(((pieces_state *)c->state)->from.set, 1); }

static int64_t rows_of(const lki_element *e)
{
    lki_column column = lki_element_column(e, 0);
    return column.shape.rank ? column.shape.dim[0] : 0;
}

static int64_t piece_rows(const lki_split *s, int64_t batch_rows, int64_t step, int64_t *tag)
{
    if (s->rule != LK_SPLIT_EVEN && s->global) return *tag = step, lki_split_step_rows(s, step);
    *tag = lki_ceil_div(batch_rows, (int64_t)s->replicas * s->workers);
    return *tag * s->replicas;
}

static lk_status cut_piece(pieces_state *st, int64_t rows, int64_t tag, lki_element *out)
{
    lk_tensor *item[LKI_MOST_COLUMNS];
    const int  count = st->from.set->count;
    lki_block  step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    *out = lki_element_alone(NULL);
    LKI_TRY(step.owner ? lki_element_tensors(&st->from, item) : LK_ENOMEM);
    for (int i = 0; i < count; i++) {
        if (item[i]->shape.rank < 1 || item[i]->shape.dim[0] != rows_of(&st->from))
            return lki_fail(
                LK_EINVAL,
                "lk_distribute_dataset: tensor %d of an element has another batch size than tensor 0; all must have the same", i);
        if (lki_bad(item[i] = lki_tensor_row_range(item[i], st->next, rows, &item[i]->rows))) return LK_ENOMEM;
    }
    if (!(*out = lki_element_alone(lki_rowset_plain(LKI_ALONE, count, item))).set) return LK_ENOMEM;
    out->set->tag = tag;
    return LK_OK;
}

static lk_status next_batch(lki_cursor *c, bool *some)
{
    pieces_state *st = c->state;
    int64_t       got;
    lki_rowset_drop(st->from.set, 1);
    *st = (pieces_state){0};
    LKI_TRY(lki_cursor_next(c->input[0], 1, &st->from, &got));
    *some = got > 0;
    return LK_OK;
}

static lk_status pieces_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const lki_split *s = &((const recut_node *)c->dataset)->split;
    pieces_state    *st = c->state;
    while (*got < want) {
        const int64_t all = st->from.set ? rows_of(&st->from) : 0;
        bool          some = true;
        int64_t       tag;
        if (st->next == all) {
            LKI_TRY(next_batch(c, &some));
            if (!some) break;
            continue;
        }
        const int64_t rows = lki_min(all - st->next, piece_rows(s, all, st->step, &tag));
        LKI_TRY(cut_piece(st, rows, tag, &out[*got]));
        st->next += rows;
        st->step++;
        ++*got;
    }
    return LK_OK;
}

static void pieces_save(lki_cursor *c, lki_saver *s)
{
    const pieces_state *st = c->state;
    lki_save_number(s, st->from.set != NULL);
    if (!st->from.set) return;
    lki_save_element(s, &st->from);
    lki_save_number(s, (uint64_t)st->next);
    lki_save_number(s, (uint64_t)st->step);
}

static lk_status pieces_restore(lki_cursor *c, lki_loader *l)
{
    pieces_state *st = c->state;
    uint64_t      some, next, step;
    LKI_TRY(lki_load_at_most(l, 1, &some));
    if (!some) return LK_OK;
    LKI_TRY(lki_load_element(l, &st->from));
    LKI_TRY(lki_load_at_most(l, (uint64_t)rows_of(&st->from), &next));
    LKI_TRY(lki_load_at_most(l, INT32_MAX, &step));
    st->next = (int64_t)next;
    st->step = (int64_t)step;
    return LK_OK;
}

static int64_t not_known(const lk_dataset *d)
{
    const int64_t n = lk_dataset_cardinality(d->input[0]);
    return n <= 0 ? n : LK_UNKNOWN;
}

static const lki_dataset_ops pieces_ops = {.name = "lk_distribute_dataset, in pieces",
                                           .passes = true,
                                           .state_bytes = sizeof(pieces_state),
                                           .next = pieces_next,
                                           .stop = pieces_stop,
                                           .save = pieces_save,
                                           .restore = pieces_restore,
                                           .cardinality = not_known};

lk_dataset *lki_pieces_node(lk_dataset *batches, const lki_split *s)
{
    recut_node *n = lki_dataset_new(&pieces_ops, sizeof *n, 1, &batches);
    if (!n) return NULL;
    n->split = *s;
    n->base.print = lki_mix(lki_mix((uint64_t)s->rule, (uint64_t)s->workers), lki_mix((uint64_t)s->worker, (uint64_t)s->replicas));
    return &n->base;
}

/* ---- groups ---- */

typedef struct group_node {
    lk_dataset base;
    int        replicas;
} group_node;

/* Like the tensor, with no rows. */
static lk_tensor *empty_like(const lk_tensor *t)
{
    lk_shape shape = t->shape;
    if (shape.rank < 1)
        return lki_refuse(LK_EINVAL, "lk_distribute_datasets_from_function: elements with scalars cannot be spread over replicas; "
                                     "call lk_dataset_batch first");
    shape.dim[0] = 0;
    return lki_tensor_new(t->dtype, &shape);
}

/* Elements of all replicas that have one; the others get empty tensors. */
static lk_status group_tensors(int replicas, const lki_element *e, int first, lk_tensor **item)
{
    const int count = e[first].set->count;
    LKI_TRY(lki_element_tensors(&e[first], item + first * count));
    for (int r = 0; r < replicas; r++) {
        if (r == first) continue;
        if (e[r].set && e[r].set->count != count)
            return lki_fail(LK_EINVAL,
                            "lk_distribute_datasets_from_function: replica %d gets %d tensors, replica %d gets %d; elements must "
                            "have the same structure",
                            r, e[r].set->count, first, count);
        if (e[r].set) LKI_TRY(lki_element_tensors(&e[r], item + r * count));
        for (int i = 0; i < count && !e[r].set; i++)
            if (lki_bad(item[r * count + i] = empty_like(item[first * count + i]))) return lk_error_code();
    }
    return LK_OK;
}

static lk_status make_group(int replicas, const lki_element *e, int first, lki_element *out)
{
    const int   all = replicas * e[first].set->count;
    lk_tensor **item LKI_RELEASED = lki_zalloc_array(all, sizeof *item);
    lki_block   step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    lk_status   status = item && step.owner ? group_tensors(replicas, e, first, item) : LK_ENOMEM;
    *out = lki_element_alone(status == LK_OK ? lki_rowset_plain(LKI_ALONE, all, item) : NULL);
    return status == LK_OK && !out->set ? LK_ENOMEM : status;
}

static lk_status group_one(lki_cursor *c, lki_element *e, lki_element *out, int64_t *got)
{
    const int replicas = ((const group_node *)c->dataset)->replicas;
    int       have = 0, first = -1;
    lk_status status = LK_OK;
    memset(e, 0, (size_t)replicas * sizeof *e);
    for (int r = 0; r < replicas && status == LK_OK; r++) {
        int64_t more;
        status = lki_cursor_next(c->input[c->inputs > 1 ? r : 0], 1, &e[r], &more);
        if (more && first < 0) first = r;
        have += (int)more;
    }
    if (status == LK_OK && have && (have == replicas || !c->dataset->exact)) {
        status = make_group(replicas, e, first, out);
        *got = status == LK_OK;
    }
    lki_elements_drop(replicas, e);
    return status;
}

static lk_status group_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    lki_element *e LKI_RELEASED = lki_alloc_array(((const group_node *)c->dataset)->replicas, sizeof *e);
    if (!e) return LK_ENOMEM;
    for (int64_t more = 1; *got < want && more; *got += more) {
        more = 0;
        LKI_TRY(group_one(c, e, out + *got, &more));
    }
    return LK_OK;
}

static int64_t group_cardinality(const lk_dataset *d)
{
    int64_t most = 0;
    for (int i = 0; i < d->inputs; i++) {
        const int64_t n = lk_dataset_cardinality(d->input[i]);
        if (n < 0) return n;
        most = d->exact && i ? lki_min(most, n) : lki_max(most, n);
    }
    const int each = d->inputs > 1 ? 1 : ((const group_node *)d)->replicas;
    return d->exact ? most / each : lki_ceil_div(most, each);
}

static const lki_dataset_ops group_ops = {
    .name = "lk_distribute_datasets_from_function", .passes = true, .next = group_next, .cardinality = group_cardinality};

lk_dataset *lki_group_node(int inputs, lk_dataset *const *input, int replicas)
{
    group_node *n = lki_dataset_new(&group_ops, sizeof *n, inputs, input);
    if (!n) return NULL;
    n->replicas = replicas;
    n->base.print = (uint64_t)replicas;
    for (int i = 1; i < inputs; i++)
        n->base.exact = n->base.exact && input[i]->exact;
    return &n->base;
}
