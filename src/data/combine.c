/* Several datasets as one: zip, enumerate, concatenate, interleave. */
#include "core/list.h"
#include "core/memory.h"
#include "data/data.h"
#include "data/save.h"
#include <string.h>

/* ---- zip ---- */

typedef struct zip_state {
    lki_rowset  *aligned; /* rows of neighbouring sets side by side: made once, not for every element */
    lki_element *column;  /* a block of elements per input, input after input */
    int64_t      room;
} zip_state;

static void zip_stop(lki_cursor *c)
{
    zip_state *st = c->state;
    lki_rowset_drop(st->aligned, 1);
    lki_release(st->column);
}

static bool is_aligned(int parts, const lki_element *part)
{
    for (int i = 0; i < parts; i++)
        if (part[i].row < 0 || part[i].row != part[0].row) return false;
    return true;
}

static bool same_sets(const lki_rowset *joined, int parts, const lki_element *part)
{
    for (int i = 0; i < parts; i++)
        if (!joined || joined->part[i].set != part[i].set) return false;
    return true;
}

/* The parts still belong to the caller. */
static lk_status join(zip_state *st, int parts, const lki_element *part, lki_element *out)
{
    if (!is_aligned(parts, part)) {
        *out = lki_element_alone(lki_rowset_joined(LKI_ALONE, parts, part));
        return out->set ? LK_OK : LK_ENOMEM;
    }
    if (!same_sets(st->aligned, parts, part)) {
        lki_rowset_drop(st->aligned, 1);
        st->aligned = lki_rowset_joined(part[0].set->rows, parts, part);
        if (!st->aligned) return LK_ENOMEM;
        for (int i = 1; i < parts; i++)
            st->aligned->rows = lki_min(st->aligned->rows, part[i].set->rows);
    }
    *out = (lki_element){lki_rowset_retain(st->aligned, 1), part[0].row};
    return LK_OK;
}

/* Read `want` elements of every input, or as many as the shortest has. */
static lk_status read_columns(lki_cursor *c, int64_t want, int64_t *have)
{
    zip_state *st = c->state;
    *have = want;
    for (int i = 0; i < c->inputs; i++)
        LKI_TRY(lki_cursor_next(c->input[i], *have, st->column + i * want, have));
    return LK_OK;
}

static lk_status join_columns(lki_cursor *c, int64_t want, int64_t have, lki_element *out, int64_t *got)
{
    zip_state  *st = c->state;
    lki_element part[LKI_MOST_COLUMNS];
    for (int64_t k = 0; k < have; k++) {
        int columns = 0;
        for (int i = 0; i < c->inputs; i++) {
            part[i] = st->column[i * want + k];
            columns += part[i].set->count;
        }
        if (columns > LKI_MOST_COLUMNS)
            return lki_fail(LK_EINVAL, "lk_dataset_zip: elements of %d tensors in all; at most %d are possible", columns,
                            LKI_MOST_COLUMNS);
        LKI_TRY(join(st, c->inputs, part, &out[*got]));
        ++*got;
    }
    return LK_OK;
}

static lk_status zip_block(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    zip_state    *st = c->state;
    const int64_t all = want * c->inputs;
    int64_t       have;
    if (st->room < all) {
        lki_release(st->column);
        st->room = 0;
        st->column = lki_alloc_array(all, sizeof *st->column);
        if (!st->column) return LK_ENOMEM;
        st->room = all;
    }
    memset(st->column, 0, (size_t)all * sizeof *st->column);
    lk_status status = read_columns(c, want, &have);
    if (status == LK_OK) status = join_columns(c, want, have, out, got);
    lki_elements_drop(all, st->column);
    return status;
}

static lk_status zip_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    enum { PIECE = 1024 };
    while (*got < want) {
        const int64_t piece = lki_min(want - *got, PIECE), before = *got;
        LKI_TRY(zip_block(c, piece, out, got));
        if (*got - before < piece) break;
    }
    return LK_OK;
}

static int64_t zip_cardinality(const lk_dataset *d)
{
    int64_t least = LK_INFINITE;
    for (int i = 0; i < d->inputs; i++) {
        const int64_t n = lk_dataset_cardinality(d->input[i]);
        if (n == LK_UNKNOWN) return LK_UNKNOWN;
        if (n >= 0 && (least < 0 || n < least)) least = n;
    }
    return least;
}

static lk_status zip_spec(lk_dataset *d, lk_element_spec *out)
{
    for (int i = 0; i < d->inputs; i++) {
        lk_element_spec s = lk_dataset_element_spec(d->input[i]);
        if (lk_failed()) return lk_error_code();
        for (int k = 0; k < s.count; k++, out->count++)
            if (out->count < LKI_COUNT(out->dtype) && k < LKI_COUNT(s.dtype)) {
                out->dtype[out->count] = s.dtype[k];
                out->shape[out->count] = s.shape[k];
            }
    }
    return LK_OK;
}

static const lki_dataset_ops zip_ops = {.name = "lk_dataset_zip",
                                        .state_bytes = sizeof(zip_state),
                                        .next = zip_next,
                                        .stop = zip_stop,
                                        .cardinality = zip_cardinality,
                                        .spec = zip_spec};

void lki_agree_on_batches(lk_dataset *d, int count)
{
    for (int i = 1; i < count; i++) {
        const lk_dataset *other = d->input[i];
        if (other->batching != d->batching) d->batching = LKI_MAYBE_BATCHED;
        if (other->global != d->global) d->global = 0;
        d->exact = d->exact && other->exact && d->global;
    }
}

lk_dataset *lk_dataset_zip_of(int count, lk_dataset *const *one_based)
{
    LKI_SCOPE_ERRORS;
    if (!lki_list_given("lk_dataset_zip", count, one_based)) return NULL;
    if (count < 1 || count > LKI_MOST_COLUMNS)
        return lki_fail(LK_EINVAL, "lk_dataset_zip: %d datasets; it must be 1 to %d", count, LKI_MOST_COLUMNS), NULL;
    for (int i = 1; i <= count; i++)
        if (!lki_dataset_usable(zip_ops.name, one_based[i])) return NULL;
    lk_dataset *d = lki_dataset_new(&zip_ops, sizeof *d, count, one_based + 1);
    if (d) lki_agree_on_batches(d, d->inputs);
    return d;
}

lk_dataset *lk_dataset_enumerate(lk_dataset *d, int64_t start)
{
    LKI_SCOPE_ERRORS;
    if (!lki_dataset_usable("lk_dataset_enumerate", d)) return NULL;
    lk_dataset *numbers = lki_counter_node(start);
    lk_dataset *zip = numbers ? lk_dataset_zip(numbers, d) : NULL;
    if (numbers) lk_free(numbers); /* the zip holds it */
    if (zip) zip->batching = LKI_NOT_BATCHED;
    return zip;
}

/* ---- concatenate ---- */

static lk_status concatenate_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    for (int i = 0; i < c->inputs && *got < want; i++) {
        int64_t more;
        LKI_TRY(lki_cursor_next(c->input[i], want - *got, out + *got, &more));
        *got += more;
    }
    return LK_OK;
}

static int64_t concatenate_cardinality(const lk_dataset *d)
{
    const int64_t a = lk_dataset_cardinality(d->input[0]), b = lk_dataset_cardinality(d->input[1]);
    if (a == LK_INFINITE || b == LK_INFINITE) return LK_INFINITE;
    return a < 0 || b < 0 ? LK_UNKNOWN : a + b;
}

static lk_status concatenate_spec(lk_dataset *d, lk_element_spec *out)
{
    *out = lk_dataset_element_spec(d->input[0]);
    lk_element_spec other = lk_dataset_element_spec(d->input[1]);
    for (int i = 0; i < out->count && i < other.count && i < LKI_COUNT(out->shape); i++)
        for (int k = 0; k < out->shape[i].rank && k < other.shape[i].rank; k++)
            if (out->shape[i].dim[k] != other.shape[i].dim[k]) out->shape[i].dim[k] = -1;
    if (!out->count) *out = other;
    return lk_failed() ? lk_error_code() : LK_OK;
}

static const lki_dataset_ops concatenate_ops = {
    .name = "lk_dataset_concatenate", .next = concatenate_next, .cardinality = concatenate_cardinality, .spec = concatenate_spec};

lk_dataset *lk_dataset_concatenate(lk_dataset *a, lk_dataset *b)
{
    LKI_SCOPE_ERRORS;
    if (!lki_dataset_usable(concatenate_ops.name, a) || !lki_dataset_usable(concatenate_ops.name, b)) return NULL;
    lk_dataset *d = lki_dataset_new(&concatenate_ops, sizeof *d, 2, (lk_dataset *const[]){a, b});
    if (d) lki_agree_on_batches(d, d->inputs);
    return d;
}

/* ---- interleave ----
 *
 * Up to `cycle` datasets, made from elements of the input, are open at the same time; `block` elements are read from each in turn.
 * When one ends, its slot is used for the dataset of the next element, whose turn comes in the next round of the cycle. */

typedef struct interleave_node {
    lk_dataset       base;
    lk_interleave_fn fn;
    void            *user;
    int              cycle, block;
} interleave_node;

typedef struct slot {
    lki_element from;    /* {0}: empty */
    lk_dataset *dataset; /* a reference */
    lki_cursor *cursor;
    uint64_t    number; /* of the input's element */
} slot;

typedef struct interleave_state {
    slot    *slots;
    int      open, at, taken; /* slots in use; the current one; elements it returned in this turn */
    uint64_t elements;        /* of the input, so far */
} interleave_state;

static void close_slot(interleave_state *st, slot *s)
{
    if (!s->from.set) return;
    lki_cursor_close(s->cursor);
    lki_drop(s->dataset);
    lki_rowset_drop(s->from.set, 1);
    *s = (slot){0};
    st->open--;
}

static void interleave_stop(lki_cursor *c)
{
    interleave_state *st = c->state;
    for (int i = 0; st->slots && i < ((const interleave_node *)c->dataset)->cycle; i++)
        close_slot(st, &st->slots[i]);
    lki_release(st->slots);
}

static lk_status make_slots(lki_cursor *c)
{
    interleave_state *st = c->state;
    st->slots = lki_zalloc_array(((const interleave_node *)c->dataset)->cycle, sizeof *st->slots);
    return st->slots ? LK_OK : LK_ENOMEM;
}

static lk_status interleave_begin(lki_cursor *c)
{
    LKI_TRY(make_slots(c));
    return lki_cursor_begin_inputs(c, c->turn);
}

/* Objects that the user's function makes belong to a pool that ends here; the dataset it returns is held. */
static lk_status call_user(const interleave_node *n, const lki_element *e, lk_dataset **out)
{
    lk_tensor *item[LKI_MOST_COLUMNS];
    lki_block  pool = lki_pool_enter(), step = lki_step_enter();
    lk_status  status = pool.owner && step.owner ? lki_element_tensors(e, item) : LK_ENOMEM;
    lk_tuple   t = status == LK_OK ? lki_tuple_new(e->set->count, item) : (lk_tuple){0};
    if (status == LK_OK && !t.count) status = LK_ENOMEM;
    lk_dataset *d = status == LK_OK ? n->fn(t, n->user) : NULL;
    if (status == LK_OK && lk_failed()) status = lk_error_code();
    if (status == LK_OK && !lki_dataset_usable("lk_dataset_interleave: what the function returned", d)) status = LK_EINVAL;
    if (status == LK_OK) *out = lki_retain(d);
    lki_step_leave(&step);
    lki_pool_leave(&pool);
    return status;
}

/* The slot gets the element, with its reference, and a cursor that has not begun. */
static lk_status open_slot(lki_cursor *c, slot *s, lki_element e, uint64_t number)
{
    interleave_state *st = c->state;
    int               shuffles = 0;
    *s = (slot){.from = e, .number = number};
    st->open++;
    LKI_TRY(call_user((const interleave_node *)c->dataset, &e, &s->dataset));
    return lki_cursor_open(c->pipeline, s->dataset, &(lki_opening){.parent = c, .place = c->place, .shuffles = &shuffles},
                           &s->cursor);
}

static lk_status open_next(lki_cursor *c, slot *s)
{
    interleave_state *st = c->state;
    lki_element       e;
    int64_t           got;
    LKI_TRY(lki_cursor_next(c->input[0], 1, &e, &got));
    if (!got) return LK_OK;
    const uint64_t number = st->elements++;
    LKI_TRY(open_slot(c, s, e, number));
    return lki_cursor_begin(s->cursor, lki_mix(c->turn, number + 1));
}

static void next_slot(lki_cursor *c)
{
    interleave_state *st = c->state;
    st->at = (st->at + 1) % ((const interleave_node *)c->dataset)->cycle;
    st->taken = 0;
}

static lk_status take_from_slot(lki_cursor *c, slot *s, int64_t want, lki_element *out, int64_t *got)
{
    const interleave_node *n = (const interleave_node *)c->dataset;
    interleave_state      *st = c->state;
    const int64_t          piece = lki_min(want, n->block - st->taken);
    LKI_TRY(lki_cursor_next(s->cursor, piece, out, got));
    st->taken += (int)*got;
    if (*got < piece) close_slot(st, s);
    if (*got < piece || st->taken == n->block) next_slot(c);
    return LK_OK;
}

static lk_status interleave_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    interleave_state *st = c->state;
    while (*got < want && (st->open || !c->input[0]->ended)) {
        slot   *s = &st->slots[st->at];
        int64_t more = 0;
        if (!s->from.set && !c->input[0]->ended) LKI_TRY(open_next(c, s));
        if (s->from.set) LKI_TRY(take_from_slot(c, s, want - *got, out + *got, &more));
        else next_slot(c);
        *got += more;
    }
    return LK_OK;
}

static void interleave_save(lki_cursor *c, lki_saver *s)
{
    const interleave_state *st = c->state;
    lki_save_number(s, st->elements);
    lki_save_number(s, (uint64_t)st->at);
    lki_save_number(s, (uint64_t)st->taken);
    for (int i = 0; i < ((const interleave_node *)c->dataset)->cycle; i++) {
        const slot *x = &st->slots[i];
        lki_save_number(s, x->from.set ? x->number + 1 : 0);
        if (!x->from.set) continue;
        lki_save_element(s, &x->from);
        lki_save_cursor(s, x->cursor);
    }
}

static lk_status restore_slot(lki_cursor *c, slot *s, lki_loader *l)
{
    lki_element e;
    uint64_t    number;
    LKI_TRY(lki_load_number(l, &number));
    if (!number) return LK_OK;
    LKI_TRY(lki_load_element(l, &e));
    LKI_TRY(open_slot(c, s, e, number - 1));
    return lki_load_cursor(l, s->cursor);
}

static lk_status interleave_restore(lki_cursor *c, lki_loader *l)
{
    const interleave_node *n = (const interleave_node *)c->dataset;
    interleave_state      *st = c->state;
    uint64_t               at, taken;
    LKI_TRY(make_slots(c));
    LKI_TRY(lki_load_number(l, &st->elements));
    LKI_TRY(lki_load_at_most(l, (uint64_t)n->cycle - 1, &at));
    LKI_TRY(lki_load_at_most(l, (uint64_t)n->block, &taken));
    st->at = (int)at;
    st->taken = (int)taken;
    for (int i = 0; i < n->cycle; i++)
        LKI_TRY(restore_slot(c, &st->slots[i], l));
    return LK_OK;
}

static int64_t interleave_cardinality(const lk_dataset *d) { return lk_dataset_cardinality(d->input[0]) == 0 ? 0 : LK_UNKNOWN; }

static const lki_dataset_ops interleave_ops = {.name = "lk_dataset_interleave",
                                               .state_bytes = sizeof(interleave_state),
                                               .counts = true,
                                               .begin = interleave_begin,
                                               .next = interleave_next,
                                               .stop = interleave_stop,
                                               .save = interleave_save,
                                               .restore = interleave_restore,
                                               .cardinality = interleave_cardinality};

lk_dataset *lk_dataset_interleave_kw(lk_interleave_args a)
{
    LKI_SCOPE_ERRORS;
    enum { MOST = 1 << 16 };
    const char *call = interleave_ops.name;
    if (!lki_dataset_usable(call, a.dataset)) return NULL;
    if (!a.fn) return lki_fail(LK_EINVAL, "%s: the function is missing", call), NULL;
    const int64_t cycle = lki_integer_or(a.cycle_length, 4), block = lki_integer_or(a.block_length, 1);
    if (cycle < 1 || cycle > MOST || block < 1 || block > INT32_MAX)
        return lki_fail(LK_EINVAL,
                        "%s: .cycle_length = %lld and .block_length = %lld; they must be 1 or more, the first at most %d", call,
                        (long long)cycle, (long long)block, MOST),
               NULL;
    interleave_node *n = lki_dataset_new(&interleave_ops, sizeof *n, 1, &a.dataset);
    if (!n) return NULL;
    n->fn = a.fn;
    n->user = a.user;
    n->cycle = (int)cycle;
    n->block = (int)block;
    n->base.batching = LKI_MAYBE_BATCHED;
    n->base.global = 0;
    n->base.exact = false;
    n->base.print = lki_mix((uint64_t)n->cycle, (uint64_t)n->block);
    return &n->base;
}

lk_dataset *lk_dataset_flat_map(lk_dataset *d, lk_interleave_fn fn, void *user)
{
    return lk_dataset_interleave(d, fn, user, .cycle_length = 1);
}
