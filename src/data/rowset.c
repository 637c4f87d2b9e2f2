/* Elements and the sets of rows they are in (data.h).
 *
 * lki_stack() is where bytes move: n elements become tensors of n rows. It goes by what the elements' sets are:
 *
 *     neighbouring rows of one set      views, nothing moves
 *     PLAIN                             row by row into the new tensors
 *     MAPPED, by one function           their origins are stacked, then the function runs over all rows at once; one that only
 *                                       passes on and turns bytes into floats runs while they are gathered
 *     JOINED                            part by part
 *     MADE, by one home                 the home makes all of them in one call
 *     a mixture                         those that are not PLAIN are stacked among themselves first; then all are PLAIN */
#include "core/memory.h"
#include "core/object.h"
#include "data/gather.h"
#include "data/resident.h"
#include <string.h>

/* ---- making and counting ---- */

static lki_rowset *set_new(lki_set_kind kind, int64_t rows, int count, int items)
{
    lki_rowset *s = lki_zalloc(lki_bytes_add(sizeof *s, lki_bytes_of(items, sizeof s->item[0])));
    if (!s) return NULL;
    s->refs = 1;
    s->kind = kind;
    s->rows = rows;
    s->count = count;
    return s;
}

lki_rowset *lki_rowset_plain(int64_t rows, int count, lk_tensor *const *items)
{
    lki_rowset *s = set_new(LKI_SET_PLAIN, rows, count, count);
    for (int i = 0; s && i < count; i++)
        s->item[i] = lki_retain(items[i]);
    return s;
}

lki_rowset *lki_rowset_mapped(const lk_dataset *map, lki_rowset *of, lki_vector *v)
{
    lki_rowset *s = set_new(LKI_SET_MAPPED, of->rows, lki_vector_count(v), 0);
    if (!s) return NULL;
    s->home = map;
    s->of = lki_rowset_retain(of, 1);
    s->vector = lki_vector_retain(v);
    return s;
}

lki_rowset *lki_rowset_joined(int64_t rows, int parts, const lki_element *part)
{
    int count = 0;
    for (int i = 0; i < parts; i++)
        count += part[i].set->count;
    lki_rowset *s = set_new(LKI_SET_JOINED, rows, count, 0);
    if (!s) return NULL;
    s->part = lki_alloc_array(parts, sizeof *part);
    if (!s->part) return lki_release(s), NULL;
    for (s->parts = 0; s->parts < parts; s->parts++)
        s->part[s->parts] = lki_element_retain(part[s->parts]);
    return s;
}

lki_rowset *lki_rowset_made(const lk_dataset *home, int64_t rows, int count, const lki_column *column)
{
    lki_rowset *s = set_new(LKI_SET_MADE, rows, count, 0);
    if (!s) return NULL;
    s->home = home;
    s->column = column;
    return s;
}

lki_rowset *lki_rowset_retain(lki_rowset *s, int64_t times)
{
    __atomic_fetch_add(&s->refs, times, __ATOMIC_RELAXED);
    return s;
}

void lki_rowset_drop(lki_rowset *s, int64_t times)
{
    if (!s || __atomic_sub_fetch(&s->refs, times, __ATOMIC_ACQ_REL) > 0) return;
    for (int i = 0; s->kind == LKI_SET_PLAIN && i < s->count; i++)
        lki_drop(s->item[i]);
    lki_elements_drop(s->parts, s->part);
    lki_release(s->part);
    lki_rowset_drop(s->of, 1);
    lki_vector_drop(s->vector);
    lki_residence_free(s->residence);
    lki_release(s);
}

/* Neighbours of one set are dropped together. */
void lki_elements_drop(int64_t count, lki_element *e)
{
    for (int64_t i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && e[i + n].set == e[i].set;)
            n++;
        lki_rowset_drop(e[i].set, n);
    }
    if (count > 0) memset(e, 0, (size_t)count * sizeof *e);
}

lk_status lki_elements_reserve(lki_elements *q, int64_t more)
{
    if (q->at && q->at + q->count + more > q->room) {
        memmove(q->item, q->item + q->at, (size_t)q->count * sizeof *q->item);
        q->at = 0;
    }
    if (q->at + q->count + more <= q->room) return LK_OK;
    int64_t      room = lki_max(q->count + more, lki_max(16, 2 * q->room));
    lki_element *item = room <= INT64_MAX / 32 ? lki_realloc_array(q->item, room, sizeof *item) : lki_alloc(SIZE_MAX);
    if (!item) return LK_ENOMEM;
    q->item = item;
    q->room = room;
    return LK_OK;
}

lk_status lki_elements_push(lki_elements *q, lki_element e)
{
    lk_status status = lki_elements_reserve(q, 1);
    if (status == LK_OK) q->item[q->at + q->count++] = e;
    else lki_rowset_drop(e.set, 1);
    return status;
}

void lki_elements_clear(lki_elements *q)
{
    if (q->item) lki_elements_drop(q->count, q->item + q->at);
    lki_release(q->item);
    *q = (lki_elements){0};
}

/* ---- looking ---- */

/* Part of a joined element, without a reference. */
static lki_element part_of(const lki_element *e, int part)
{
    lki_element p = e->set->part[part];
    return e->row >= 0 ? (lki_element){p.set, e->row} : p;
}

static lk_shape row_shape(const lk_shape *s)
{
    lk_shape row = {s->rank - 1, {0}};
    memcpy(row.dim, s->dim + 1, (size_t)row.rank * sizeof row.dim[0]);
    return row;
}

static lki_column plain_column(const lki_element *e, int i)
{
    const lk_tensor *t = e->set->item[i];
    if (e->row >= 0) return (lki_column){t->dtype, row_shape(&t->shape), false};
    return (lki_column){t->dtype, t->shape, t->rows.kind == LKI_ROWS};
}

lki_column lki_element_column(const lki_element *e, int i)
{
    const lki_rowset *s = e->set;
    if (s->kind == LKI_SET_PLAIN) return plain_column(e, i);
    if (s->kind == LKI_SET_MAPPED) return lki_vector_column(s->vector, i);
    if (s->kind == LKI_SET_MADE) return s->column[i];
    int part = 0;
    for (; i >= s->part[part].set->count; part++)
        i -= s->part[part].set->count;
    lki_element p = part_of(e, part);
    return lki_element_column(&p, i);
}

bool lki_elements_alike(const lki_element *a, const lki_element *b)
{
    if (a->set == b->set) return true;
    if (a->set->count != b->set->count) return false;
    for (int i = 0; i < a->set->count; i++) {
        lki_column x = lki_element_column(a, i), y = lki_element_column(b, i);
        if (x.dtype != y.dtype || x.is_batch != y.is_batch || !lki_shape_equal(&x.shape, &y.shape)) return false;
    }
    return true;
}

/* ---- tensors of one element ---- */

static lk_tensor *tensor_of(const lki_element *e, int i)
{
    lk_tensor *from = e->set->item[i];
    lki_column column = plain_column(e, i);
    lk_tensor *t = lki_tensor_view(from, &column.shape);
    if (lki_bad(t)) return t;
    if (e->row < 0) t->rows = from->rows;
    else t->data = (char *)t->data + lki_bytes_of(lki_size_mul(e->row, lki_shape_size(&column.shape)), lk_dtype_bytes(from->dtype));
    return t;
}

static lk_status joined_tensors(const lki_element *e, lk_tensor **out)
{
    for (int p = 0; p < e->set->parts; p++) {
        lki_element part = part_of(e, p);
        LKI_TRY(lki_element_tensors(&part, out));
        out += part.set->count;
    }
    return LK_OK;
}

lk_status lki_element_tensors(const lki_element *e, lk_tensor **out)
{
    if (e->set->kind == LKI_SET_JOINED) return joined_tensors(e, out);
    lki_element plain = *e;
    lki_rowset *made = NULL;
    if (e->set->kind != LKI_SET_PLAIN) {
        LKI_TRY(lki_stack(e->set->home->ops->name, 1, e, &made));
        plain = (lki_element){made, 0};
    }
    lk_status status = LK_OK;
    for (int i = 0; i < e->set->count && status == LK_OK; i++) {
        out[i] = tensor_of(&plain, i);
        if (lki_bad(out[i])) status = LK_ENOMEM;
    }
    lki_rowset_drop(made, 1);
    return status;
}

/* ---- elements of given tensors ---- */

lk_status lki_check_tuple(const char *call, lk_tuple t)
{
    if (t.count < 1 || t.count > LKI_MOST_COLUMNS) {
        if (t.item && t.count == 0 && lk_failed()) return lk_error_code();
        return lki_fail(LK_EINVAL, "%s: an element of %d tensors; it must have 1 to %d", call, t.count, LKI_MOST_COLUMNS);
    }
    for (int i = 0; i < t.count; i++) {
        const lk_tensor *x = t.item[i];
        if (!x) return lki_fail(LK_EINVAL, "%s: tensor %d is NULL", call, i);
        if (lki_bad(x)) return lki_poisoned_status(call);
        if (lki_stands_for(x)) return lki_fail(LK_EINVAL, "%s: tensor %d is %s", call, i, lki_why_not_plain(x));
        if (x->graph)
            return lki_fail(LK_ESTATE, "%s: tensor %d belongs to a function being traced and has no value; make datasets outside",
                            call, i);
    }
    return LK_OK;
}

lk_status lki_element_of_tuple(const char *call, lk_tuple t, lki_element *out)
{
    LKI_TRY(lki_check_tuple(call, t));
    lk_tensor **item LKI_RELEASED = lki_alloc_array(t.count + 1, sizeof *item);
    lk_status   status = item ? LK_OK : LK_ENOMEM;
    for (int i = 0; i < t.count && status == LK_OK; i++) {
        item[i] = lki_tensor_for_host(t.item[i]);
        status = lki_bad(item[i]) ? lk_error_code() : lki_tensor_detach(item[i]);
    }
    lki_rowset *s = status == LK_OK ? lki_rowset_plain(LKI_ALONE, t.count, item) : NULL;
    if (!s) return status == LK_OK ? LK_ENOMEM : status;
    *out = lki_element_alone(s);
    return LK_OK;
}

/* ---- stacking ---- */

static lk_status set_of(int64_t rows, int count, lk_tensor *const *items, lki_rowset **out)
{
    for (int i = 0; i < count; i++)
        if (lki_bad(items[i])) return LK_ENOMEM;
    *out = lki_rowset_plain(rows, count, items);
    return *out ? LK_OK : LK_ENOMEM;
}

static bool are_neighbours(int64_t n, const lki_element *e)
{
    if (e[0].set->kind != LKI_SET_PLAIN || e[0].row < 0) return false;
    for (int64_t i = 1; i < n; i++)
        if (e[i].set != e[0].set || e[i].row != e[0].row + i) return false;
    return true;
}

static lk_status stack_neighbours(int64_t n, const lki_element *e, lki_rowset **out)
{
    const lki_rowset *s = e[0].set;
    lk_tensor        *item[LKI_MOST_COLUMNS];
    for (int i = 0; i < s->count; i++)
        item[i] = lki_tensor_row_range(s->item[i], e[0].row, n, &(lki_rows){0});
    return set_of(n, s->count, item, out);
}

static lk_status fail_unlike(const char *call, const lki_element *first, const lki_element *other, int64_t number)
{
    char a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    if (first->set->count != other->set->count)
        return lki_fail(LK_ESHAPE, "%s: element %lld has %d tensors, the first one of the batch %d", call, (long long)number,
                        other->set->count, first->set->count);
    for (int i = 0; i < first->set->count; i++) {
        lki_column x = lki_element_column(first, i), y = lki_element_column(other, i);
        if (x.dtype == y.dtype && lki_shape_equal(&x.shape, &y.shape)) continue;
        return lki_fail(x.dtype == y.dtype ? LK_ESHAPE : LK_EDTYPE,
                        "%s: tensor %d of element %lld is %s %s, that of the first one of the batch %s %s; make them alike, or use "
                        "lk_dataset_padded_batch()",
                        call, i, (long long)number, lk_dtype_name(y.dtype), lki_shape_text(&y.shape, b), lk_dtype_name(x.dtype),
                        lki_shape_text(&x.shape, a));
    }
    return lki_fail(LK_ESHAPE, "%s: element %lld is a batch, the first one is not", call, (long long)number);
}

static lk_status check_alike(const char *call, int64_t n, const lki_element *e)
{
    for (int64_t i = 1; i < n; i++)
        if (e[i].set != e[i - 1].set && !lki_elements_alike(&e[0], &e[i])) return fail_unlike(call, &e[0], &e[i], i);
    return LK_OK;
}

/* Room for n rows of a column. */
static lk_status rows_room(const char *call, int64_t n, const lki_column *column, lk_tensor **out)
{
    char     text[LKI_SHAPE_TEXT];
    lk_shape shape = {column->shape.rank + 1, {n}};
    memcpy(shape.dim + 1, column->shape.dim, (size_t)lki_min(column->shape.rank, LK_MAX_RANK - 1) * sizeof shape.dim[0]);
    if (!lki_shape_valid(&shape))
        return lki_fail(LK_ESHAPE, "%s: %lld elements of %s do not make a tensor: too many axes or too many elements", call,
                        (long long)n, lki_shape_text(&column->shape, text));
    *out = lki_tensor_new(column->dtype, &shape);
    return lki_bad(*out) ? LK_ENOMEM : LK_OK;
}

static lk_status stack_plain(const char *call, int64_t n, const lki_element *e, lki_rowset **out)
{
    lk_tensor *item[LKI_MOST_COLUMNS];
    const int  count = e[0].set->count;
    LKI_TRY(check_alike(call, n, e));
    for (int i = 0; i < count; i++) {
        lki_column column = lki_element_column(&e[0], i);
        LKI_TRY(rows_room(call, n, &column, &item[i]));
        const size_t bytes = lki_bytes_of(lki_shape_size(&column.shape), lk_dtype_bytes(column.dtype));
        lki_gather(&(lki_gathering){.n = n, .e = e, .column = i, .bytes = bytes, .dst = item[i]->data});
    }
    return set_of(n, count, item, out);
}

static lk_status stack_made(const char *call, int64_t n, const lki_element *e, lki_rowset **out)
{
    const lki_rowset *s = e[0].set;
    lk_tensor        *item[LKI_MOST_COLUMNS];
    for (int i = 0; i < s->count; i++)
        LKI_TRY(rows_room(call, n, &s->column[i], &item[i]));
    LKI_TRY(s->home->ops->make(s->home, n, e, item));
    return set_of(n, s->count, item, out);
}

/* The function's input is gathered, and the function computed at the same time: n rows of PLAIN sets. */
static lk_status stack_through(const char *call, const lki_vector *v, int64_t n, const lki_element *e, lki_rowset **out)
{
    lk_tensor *item[LKI_MOST_COLUMNS];
    const int  count = lki_vector_count(v);
    for (int i = 0; i < count; i++) {
        const lki_byte_map *bytes;
        const int           from = lki_vector_source(v, i, &bytes);
        const lki_column    column = lki_vector_column(v, i);
        const size_t        size = lki_bytes_of(lki_shape_size(&column.shape), bytes ? 1 : lk_dtype_bytes(column.dtype));
        LKI_TRY(rows_room(call, n, &column, &item[i]));
        lki_gather(&(lki_gathering){n, e, from, size, bytes, item[i]->data});
    }
    return set_of(n, count, item, out);
}

static bool all_plain(int64_t n, const lki_element *e)
{
    for (int64_t i = 0; i < n; i++)
        if (e[i].set->kind != LKI_SET_PLAIN) return false;
    return true;
}

static lk_status stack_mapped(const char *call, int64_t n, const lki_element *e, lki_element *scratch, lki_rowset **out)
{
    const lki_vector *v = e[0].set->vector;
    const bool        direct = lki_vector_is_direct(v);
    lk_tensor        *item[LKI_MOST_COLUMNS];
    lki_rowset       *below = NULL;
    lk_status         status;
    for (int64_t i = 0; i < n; i++)
        scratch[i] = (lki_element){e[i].set->of, e[i].row};
    if (direct && all_plain(n, scratch)) return stack_through(call, v, n, scratch, out);
    LKI_TRY(lki_stack(call, n, scratch, &below));
    if (direct) {
        for (int64_t i = 0; i < n; i++)
            scratch[i] = (lki_element){below, i};
        status = stack_through(call, v, n, scratch, out);
        lki_rowset_drop(below, 1);
        return status;
    }
    status = lki_vector_run(v, n, below->item, item);
    lki_rowset_drop(below, 1);
    if (status != LK_OK) return status;
    status = set_of(n, lki_vector_count(v), item, out);
    for (int i = 0; i < lki_vector_count(v); i++)
        lki_drop(item[i]);
    return status;
}

static lk_status stack_joined(const char *call, int64_t n, const lki_element *e, lki_element *scratch, lki_rowset **out)
{
    lk_tensor  *item[LKI_MOST_COLUMNS] = {0};
    lki_rowset *part[LKI_MOST_COLUMNS];
    int         parts = 0, count = 0;
    lk_status   status = LK_OK;
    for (; parts < e[0].set->parts; parts++) {
        for (int64_t i = 0; i < n; i++)
            scratch[i] = part_of(&e[i], parts);
        status = lki_stack(call, n, scratch, &part[parts]);
        if (status != LK_OK) break;
        for (int i = 0; i < part[parts]->count; i++)
            item[count++] = part[parts]->item[i];
    }
    if (status == LK_OK) status = set_of(n, count, item, out);
    while (parts-- > 0)
        lki_rowset_drop(part[parts], 1);
    return status;
}

/* True if the two can be stacked together. */
static bool same_way(const lki_element *a, const lki_element *b)
{
    if (a->set == b->set) return true;
    if (a->set->kind != b->set->kind || a->set->kind == LKI_SET_MADE) return false;
    if (a->set->kind == LKI_SET_MAPPED) return a->set->vector == b->set->vector;
    return a->set->kind == LKI_SET_PLAIN || a->set->parts == b->set->parts;
}

/* The elements from the i-th on that can be stacked with it become rows of one PLAIN set, in `settled`. */
static lk_status settle_like(const char *call, int64_t i, int64_t n, const lki_element *e, lki_element *scratch,
                             lki_element *settled)
{
    int64_t     count = 0;
    lki_rowset *set = NULL;
    for (int64_t j = i; j < n; j++)
        if (!settled[j].set && same_way(&e[i], &e[j]) && lki_elements_alike(&e[i], &e[j])) {
            settled[j].row = count; /* its set follows below */
            scratch[count++] = e[j];
        } else if (!settled[j].set) settled[j].row = LKI_ALONE;
    LKI_TRY(lki_stack(call, count, scratch, &set));
    for (int64_t j = i; j < n; j++)
        if (!settled[j].set && settled[j].row >= 0) settled[j].set = set;
    if (count > 1) lki_rowset_retain(set, count - 1);
    return LK_OK;
}

static void drop_settled(int64_t n, lki_element *settled)
{
    for (int64_t i = 0; i < n; i++)
        if (settled[i].set) lki_rowset_drop(settled[i].set, 1);
    lki_release(settled);
}

static lk_status stack_mixture(const char *call, int64_t n, const lki_element *e, lki_element *scratch, lki_rowset **out)
{
    lki_element *settled = lki_zalloc_array(n, sizeof *settled);
    if (!settled) return LK_ENOMEM;
    lk_status status = LK_OK;
    for (int64_t i = 0; i < n; i++)
        if (e[i].set->kind == LKI_SET_PLAIN) settled[i] = lki_element_retain(e[i]);
    for (int64_t i = 0; i < n && status == LK_OK; i++)
        if (!settled[i].set) status = settle_like(call, i, n, e, scratch, settled);
    if (status == LK_OK) status = stack_plain(call, n, settled, out);
    drop_settled(n, settled);
    return status;
}

static lk_status stack_by_kind(const char *call, int64_t n, const lki_element *e, lki_rowset **out)
{
    bool same = true;
    for (int64_t i = 1; i < n && same; i++)
        same = same_way(&e[0], &e[i]);
    if (same && e[0].set->kind == LKI_SET_PLAIN) return stack_plain(call, n, e, out);
    if (same && e[0].set->kind == LKI_SET_MADE) return stack_made(call, n, e, out);
    lki_element *scratch LKI_RELEASED = lki_alloc_array(n, sizeof *scratch);
    if (!scratch) return LK_ENOMEM;
    return !same                              ? stack_mixture(call, n, e, scratch, out)
           : e[0].set->kind == LKI_SET_MAPPED ? stack_mapped(call, n, e, scratch, out)
                                              : stack_joined(call, n, e, scratch, out);
}

lk_status lki_stack(const char *call, int64_t n, const lki_element *e, lki_rowset **out)
{
    *out = NULL;
    lki_block step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    if (!step.owner) return LK_ENOMEM;
    return are_neighbours(n, e) ? stack_neighbours(n, e, out) : stack_by_kind(call, n, e, out);
}

/* ---- computing what is still to be computed ---- */

bool lki_is_settled(const lki_rowset *s)
{
    for (int i = 0; i < s->parts; i++)
        if (!lki_is_settled(s->part[i].set)) return false;
    return s->kind == LKI_SET_PLAIN || s->kind == LKI_SET_JOINED;
}

bool lki_has_batch(const lki_element *e)
{
    for (int i = 0; i < e->set->count; i++)
        if (lki_element_column(e, i).is_batch) return true;
    return false;
}

lk_status lki_element_plain(const lki_element *e, lki_element *out)
{
    lk_tensor  *item[LKI_MOST_COLUMNS];
    lki_rowset *set = NULL;
    lki_block   step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    if (!step.owner) return LK_ENOMEM;
    lk_status status = lki_element_tensors(e, item);
    if (status == LK_OK) status = set_of(LKI_ALONE, e->set->count, item, &set);
    *out = lki_element_alone(set);
    return status;
}

static lk_status settle_all(const char *call, int64_t n, const lki_element *e, lki_element *scratch, lki_element *settled)
{
    for (int64_t i = 0; i < n; i++)
        if (lki_is_settled(e[i].set)) settled[i] = lki_element_retain(e[i]);
        else if (lki_has_batch(&e[i])) LKI_TRY(lki_element_plain(&e[i], &settled[i]));
    for (int64_t i = 0; i < n; i++)
        if (!settled[i].set) LKI_TRY(settle_like(call, i, n, e, scratch, settled));
    return LK_OK;
}

lk_status lki_elements_settle(const char *call, int64_t n, lki_element *e)
{
    bool done = true;
    for (int64_t i = 0; i < n && done; i++)
        done = lki_is_settled(e[i].set);
    if (done) return LK_OK;
    lki_element *settled = lki_zalloc_array(n, 2 * sizeof *settled);
    if (!settled) return LK_ENOMEM;
    lk_status status = settle_all(call, n, e, settled + n, settled);
    for (int64_t i = 0; i < n && status == LK_OK; i++) {
        lki_element before = e[i];
        e[i] = settled[i];
        settled[i] = before;
    }
    drop_settled(n, settled);
    return status;
}
