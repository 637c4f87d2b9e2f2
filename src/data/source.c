/* Sources in memory: the rows of a set (tensors, their slices, and what other files make of it), ranges of numbers, and a function
 * that makes elements. */
#include "core/dtype.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "data/data.h"
#include "data/save.h"
#include <math.h>

void lki_source_save(lki_cursor *c, lki_saver *s) { lki_save_number(s, (uint64_t)((lki_source_state *)c->state)->next); }

lk_status lki_source_restore(lki_cursor *c, lki_loader *l)
{
    const int64_t count = lk_dataset_cardinality(c->dataset);
    uint64_t      next;
    LKI_TRY(lki_load_at_most(l, (uint64_t)(count >= 0 ? count : INT64_MAX / 2), &next));
    ((lki_source_state *)c->state)->next = (int64_t)next;
    return LK_OK;
}

static lk_status no_such_element(const char *name, int64_t number)
{
    return lki_fail(LK_EFORMAT, "lk_iterator_restore: %s has no element %lld; is the data still the same?", name,
                    (long long)number);
}

/* ---- the rows of a set ---- */

void lki_rows_destroy(lk_dataset *d) { lki_rowset_drop(((lki_rows_node *)d)->set, 1); }

int64_t lki_rows_cardinality(const lk_dataset *d)
{
    const lki_rowset *set = ((const lki_rows_node *)d)->set;
    return set->rows >= 0 ? set->rows : 1;
}

static lki_element row_number(const lki_rows_node *n, int64_t i)
{
    return (lki_element){n->set, n->set->rows >= 0 ? i : LKI_ALONE};
}

lk_status lki_rows_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const lki_rows_node *n = (const lki_rows_node *)c->dataset;
    lki_source_state    *st = c->state;
    *got = lki_min(want, lki_rows_cardinality(c->dataset) - st->next);
    for (int64_t i = 0; i < *got; i++)
        out[i] = row_number(n, st->next + i);
    if (*got) lki_rowset_retain(n->set, *got);
    st->next += *got;
    return LK_OK;
}

lk_status lki_rows_again(lki_cursor *c, int64_t number, lki_element *out)
{
    const lki_rows_node *n = (const lki_rows_node *)c->dataset;
    if (number < 0 || number >= lki_rows_cardinality(c->dataset)) return no_such_element(c->dataset->ops->name, number);
    *out = lki_element_retain(row_number(n, number));
    return LK_OK;
}

lk_status lki_rows_spec(lk_dataset *d, lk_element_spec *out)
{
    lki_element e = row_number((const lki_rows_node *)d, 0);
    out->count = e.set->count;
    for (int i = 0; i < out->count && i < LKI_COUNT(out->dtype); i++) {
        lki_column column = lki_element_column(&e, i);
        out->dtype[i] = column.dtype;
        out->shape[i] = column.shape;
    }
    return LK_OK;
}

/* ---- tensors as one element, and as many ---- */

static const lki_dataset_ops tensors_ops = {LKI_ROWS_OPS("lk_dataset_from_tensors"), .still = lki_cursor_same,
                                            .destroy = lki_rows_destroy};
static const lki_dataset_ops slices_ops = {LKI_ROWS_OPS("lk_dataset_from_tensor_slices"), .still = lki_cursor_same,
                                           .destroy = lki_rows_destroy};

static uint64_t print_of(const lki_rowset *set)
{
    uint64_t print = (uint64_t)set->rows;
    for (int i = 0; i < set->count; i++) {
        print = lki_mix(print, (uint64_t)set->item[i]->dtype);
        for (int k = 0; k < set->item[i]->shape.rank; k++)
            print = lki_mix(print, (uint64_t)set->item[i]->shape.dim[k]);
    }
    return print;
}

static lk_dataset *rows_new(const lki_dataset_ops *ops, int64_t rows, lk_tuple tensors, lki_batching batching)
{
    lki_element e;
    if (lki_element_of_tuple(ops->name, tensors, &e) != LK_OK) return NULL;
    lki_rows_node *n = lki_dataset_new(ops, sizeof *n, 0, NULL);
    if (!n) return lki_rowset_drop(e.set, 1), NULL;
    n->set = e.set;
    n->set->rows = rows;
    n->set->stays = true;
    n->set->home = &n->base;
    n->base.print = print_of(n->set);
    n->base.batching = batching;
    return &n->base;
}

lk_dataset *lk_dataset_from_tensors(lk_tuple element)
{
    LKI_SCOPE_ERRORS;
    return rows_new(&tensors_ops, LKI_ALONE, element, LKI_MAYBE_BATCHED);
}

lk_dataset *lk_dataset_from_tensor_slices(lk_tuple tensors)
{
    LKI_SCOPE_ERRORS;
    const char *call = slices_ops.name;
    if (lki_check_tuple(call, tensors) != LK_OK) return NULL;
    for (int i = 0; i < tensors.count; i++) {
        char            text[LKI_SHAPE_TEXT];
        const lk_shape *s = &tensors.item[i]->shape;
        if (s->rank < 1)
            return lki_fail(LK_ESHAPE, "%s: tensor %d is a scalar and has no slices; use lk_dataset_from_tensors()", call, i), NULL;
        if (s->dim[0] != tensors.item[0]->shape.dim[0])
            return lki_fail(LK_ESHAPE, "%s: tensor %d, %s, has %lld slices, tensor 0 has %lld; the leading axes must agree", call,
                            i, lki_shape_text(s, text), (long long)s->dim[0], (long long)tensors.item[0]->shape.dim[0]),
                   NULL;
    }
    return rows_new(&slices_ops, tensors.item[0]->shape.dim[0], tensors, LKI_NOT_BATCHED);
}

lk_dataset *lk_make_array_dataset(lk_strategy *s, lk_tuple arrays)
{
    LKI_SCOPE_ERRORS;
    return lki_need_cross("lk_make_array_dataset", s) == LK_OK ? lk_dataset_from_tensor_slices(arrays) : NULL;
}

/* ---- ranges ---- */

typedef struct range_node {
    lk_dataset base;
    int64_t    start, step, count; /* count LK_INFINITE: without end */
    lk_dtype   dtype;
} range_node;

static int64_t range_cardinality(const lk_dataset *d) { return ((const range_node *)d)->count; }

static lk_status range_block(const range_node *n, int64_t first, int64_t count, lki_rowset **out)
{
    lk_shape  shape = {1, {count}};
    lki_block step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    if (!step.owner) return LK_ENOMEM;
    lk_tensor *t = lki_tensor_new(n->dtype, &shape);
    *out = lki_bad(t) ? NULL : lki_rowset_plain(count, 1, &t);
    for (int64_t i = 0; *out && i < count; i++) {
        const int64_t x = n->start + (first + i) * n->step;
        if (n->dtype == LK_I64) ((int64_t *)t->data)[i] = x;
        else lki_element_set(n->dtype, t->data, i, (double)x);
    }
    if (!*out) return LK_ENOMEM;
    (*out)->home = &n->base;
    (*out)->first = first;
    return LK_OK;
}

static lk_status range_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    enum { MOST = 1 << 16 };
    const range_node *n = (const range_node *)c->dataset;
    lki_source_state *st = c->state;
    while (*got < want) {
        int64_t     count = lki_min(want - *got, n->count >= 0 ? lki_min(MOST, n->count - st->next) : MOST);
        lki_rowset *set;
        if (!count) break;
        LKI_TRY(range_block(n, st->next, count, &set));
        for (int64_t i = 0; i < count; i++)
            out[(*got)++] = (lki_element){set, i};
        lki_rowset_retain(set, count - 1);
        st->next += count;
    }
    return LK_OK;
}

static lk_status range_again(lki_cursor *c, int64_t number, lki_element *out)
{
    const range_node *n = (const range_node *)c->dataset;
    if (number < 0 || (n->count >= 0 && number >= n->count)) return no_such_element(c->dataset->ops->name, number);
    out->row = 0;
    return range_block(n, number, 1, &out->set);
}

static lk_status range_spec(lk_dataset *d, lk_element_spec *out)
{
    *out = (lk_element_spec){.count = 1, .dtype = {((const range_node *)d)->dtype}};
    return LK_OK;
}

static const lki_dataset_ops range_ops = {.name = "lk_dataset_range",
                                          .state_bytes = sizeof(lki_source_state),
                                          .next = range_next,
                                          .save = lki_source_save,
                                          .restore = lki_source_restore,
                                          .again = range_again,
                                          .cardinality = range_cardinality,
                                          .spec = range_spec};

static lk_dataset *range_new(int64_t start, int64_t step, int64_t count, lk_dtype dtype)
{
    range_node *n = lki_dataset_new(&range_ops, sizeof *n, 0, NULL);
    if (!n) return NULL;
    n->start = start;
    n->step = step;
    n->count = count;
    n->dtype = dtype;
    n->base.print = lki_mix(lki_mix((uint64_t)start, (uint64_t)step), lki_mix((uint64_t)count, (uint64_t)dtype));
    return &n->base;
}

lk_dataset *lki_counter_node(int64_t start) { return range_new(start, 1, LK_INFINITE, LK_I64); }

static bool is_whole(double x) { return x == floor(x) && fabs(x) <= 0x1p53; }

lk_dataset *lk_dataset_range_kw(lk_range_args a)
{
    LKI_NEAREST;
    const char  *call = range_ops.name;
    const double start = lki_number_given(a.stop) ? (double)a.start : 0, stop = lki_number_or(a.stop, (double)a.start);
    const double step = lki_number_or(a.step, 1);
    if ((unsigned)a.dtype >= LK_DTYPE_COUNT) return lki_fail(LK_EDTYPE, "%s: %d is not an element type", call, (int)a.dtype), NULL;
    if (!is_whole(start) || !is_whole(stop) || !is_whole(step) || step == 0)
        return lki_fail(LK_EINVAL, "%s: from %g to %g by %g: they must be integers of at most 53 bits, and the step not 0", call,
                        start, stop, step),
               NULL;
    const double count = fmax(0, ceil((stop - start) / step)), last = start + (count - 1) * step;
    if (count > 0 && a.dtype == LK_U8 && (fmin(start, last) < 0 || fmax(start, last) > 255))
        return lki_fail(LK_EINVAL, "%s: u8 holds 0 to 255, not %g to %g", call, start, last), NULL;
    return range_new((int64_t)start, (int64_t)step, (int64_t)count, a.dtype);
}

/* ---- a function ---- */

typedef struct generator_node {
    lk_dataset      base;
    lk_generator_fn fn;
    void           *user;
} generator_node;

static int64_t generator_cardinality(const lk_dataset *d)
{
    (void)d;
    return LK_UNKNOWN;
}

/* *made: there was an element `number`. Tensors that the function made are freed with this step, except those that the element
 * holds. */
static lk_status generate(const generator_node *n, int64_t number, lki_element *out, bool *made)
{
    lk_tuple  t = {0};
    lki_block step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    lk_status status = step.owner ? LK_OK : LK_ENOMEM;
    *made = status == LK_OK && n->fn(number, &t, n->user) != 0;
    if (lk_failed()) status = lk_error_code();
    if (*made && status == LK_OK) status = lki_element_of_tuple(n->base.ops->name, t, out);
    if (!*made || status != LK_OK) return status;
    out->set->home = &n->base;
    out->set->first = number;
    return LK_OK;
}

static lk_status generator_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    lki_source_state *st = c->state;
    bool              made = true;
    while (*got < want) {
        LKI_TRY(generate((const generator_node *)c->dataset, st->next, &out[*got], &made));
        if (!made) break;
        st->next++;
        ++*got;
    }
    return LK_OK;
}

static lk_status generator_again(lki_cursor *c, int64_t number, lki_element *out)
{
    bool made;
    LKI_TRY(generate((const generator_node *)c->dataset, number, out, &made));
    return made ? LK_OK : no_such_element(c->dataset->ops->name, number);
}

static const lki_dataset_ops generator_ops = {.name = "lk_dataset_from_generator",
                                              .state_bytes = sizeof(lki_source_state),
                                              .next = generator_next,
                                              .save = lki_source_save,
                                              .restore = lki_source_restore,
                                              .again = generator_again,
                                              .cardinality = generator_cardinality};

lk_dataset *lk_dataset_from_generator(lk_generator_fn fn, void *user)
{
    LKI_SCOPE_ERRORS;
    if (!fn) return lki_fail(LK_EINVAL, "lk_dataset_from_generator: the function is NULL"), NULL;
    generator_node *n = lki_dataset_new(&generator_ops, sizeof *n, 0, NULL);
    if (!n) return NULL;
    n->fn = fn;
    n->user = user;
    n->base.batching = LKI_MAYBE_BATCHED;
    return &n->base;
}
