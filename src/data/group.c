/* group_by_window and bucket_by_sequence_length: elements of one key are collected, and a full window of them becomes a dataset.
 *
 *     input --> groups, by key --> a group is full, or the input has ended --> reduce(key, window) --> its elements
 *
 * Invariants
 *  1. Groups are in the order of keys. At most one window is being read.
 *  2. A window keeps its elements while it is read, so that a saved iterator can make its dataset again. */
#include "core/memory.h"
#include "data/data.h"
#include "data/save.h"
#include <string.h>

typedef struct buckets {
    lk_key_fn length;
    void     *user;
    int       count;
    int64_t  *boundary, *size; /* one block of memory */
    double    padding;
    bool      pads, drops;
} buckets;

typedef struct group_node {
    lk_dataset        base;
    lk_key_fn         key;
    lk_window_fn      reduce;
    lk_window_size_fn size_of; /* NULL: `size` */
    int64_t           size;
    void             *user;
    buckets           bucket; /* of bucket_by_sequence_length */
} group_node;

typedef struct group {
    int64_t      key, size;
    lki_elements held;
} group;

typedef struct group_state {
    group      *groups; /* by key */
    int         count, room;
    group       open; /* the window that is read; size 0: none */
    lk_dataset *dataset;
    lki_cursor *cursor;
    uint64_t    windows; /* so far */
} group_state;

/* ---- a window as a dataset ---- */

typedef struct window_node {
    lk_dataset   base;
    lki_elements held;
} window_node;

static lk_status window_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const lki_elements *q = &((const window_node *)c->dataset)->held;
    lki_source_state   *st = c->state;
    for (; *got < want && st->next < q->count; st->next++)
        out[(*got)++] = lki_element_retain(q->item[q->at + st->next]);
    return LK_OK;
}

static void    window_destroy(lk_dataset *d) { lki_elements_clear(&((window_node *)d)->held); }
static int64_t window_cardinality(const lk_dataset *d) { return ((const window_node *)d)->held.count; }

static const lki_dataset_ops window_ops = {.name = "a window of lk_dataset_group_by_window",
                                           .state_bytes = sizeof(lki_source_state),
                                           .next = window_next,
                                           .save = lki_source_save,
                                           .restore = lki_source_restore,
                                           .cardinality = window_cardinality,
                                           .destroy = window_destroy};

static lk_dataset *window_of(const lki_elements *q, const lk_dataset *like)
{
    window_node *n = lki_dataset_new(&window_ops, sizeof *n, 0, NULL);
    if (!n) return NULL;
    n->base.batching = like->batching;
    for (int64_t i = 0; i < q->count; i++)
        if (lki_elements_push(&n->held, lki_element_retain(q->item[q->at + i])) != LK_OK) return lk_free(n), NULL;
    return &n->base;
}

/* ---- reading a window ---- */

static void close_window(group_state *st)
{
    lki_cursor_close(st->cursor);
    lki_drop(st->dataset);
    lki_elements_clear(&st->open.held);
    st->cursor = NULL;
    st->dataset = NULL;
    st->open = (group){0};
}

/* Objects that the user's function makes belong to a pool that ends here; the dataset it returns is held. */
static lk_status reduce(lki_cursor *c)
{
    const group_node *n = (const group_node *)c->dataset;
    group_state      *st = c->state;
    lki_block         pool = lki_pool_enter();
    lk_dataset       *window = pool.owner ? window_of(&st->open.held, c->dataset->input[0]) : NULL;
    lk_dataset       *made = window ? n->reduce(st->open.key, window, n->user) : NULL;
    lk_status         status = !window ? LK_ENOMEM : lk_failed() ? lk_error_code() : LK_OK;
    if (status == LK_OK && !lki_dataset_usable("lk_dataset_group_by_window: what the function returned", made)) status = LK_EINVAL;
    if (status == LK_OK) st->dataset = lki_retain(made);
    lki_pool_leave(&pool);
    return status;
}

/* Of st->open. The cursor has not begun. */
static lk_status open_window(lki_cursor *c)
{
    group_state *st = c->state;
    int          shuffles = 0;
    LKI_TRY(reduce(c));
    return lki_cursor_open(c->pipeline, st->dataset, &(lki_opening){.parent = c, .place = c->place, .shuffles = &shuffles},
                           &st->cursor);
}

static lk_status begin_window(lki_cursor *c, int at)
{
    group_state *st = c->state;
    st->open = st->groups[at];
    memmove(&st->groups[at], &st->groups[at + 1], (size_t)(--st->count - at) * sizeof *st->groups);
    LKI_TRY(open_window(c));
    return lki_cursor_begin(st->cursor, lki_mix(c->turn, ++st->windows));
}

/* ---- collecting ---- */

typedef struct question {
    const group_node *node;
    int64_t           key;
} question;

static lk_status ask_key(lk_tuple t, void *context)
{
    question *q = context;
    q->key = q->node->key(t, q->node->user);
    return LK_OK;
}

static lk_status new_group(const group_node *n, int64_t key, group *out)
{
    *out = (group){.key = key, .size = n->size_of ? n->size_of(key, n->user) : n->size};
    if (lk_failed()) return lk_error_code();
    if (out->size >= 1) return LK_OK;
    return lki_fail(LK_EINVAL, "%s: the window of key %lld has size %lld; it must be at least 1", n->base.ops->name, (long long)key,
                    (long long)out->size);
}

/* The place of a key's group, which is made if there is none. */
static lk_status place_of(lki_cursor *c, int64_t key, int *at)
{
    group_state *st = c->state;
    group        g;
    int          lo = 0, hi = st->count;
    while (lo < hi) {
        const int middle = lo + (hi - lo) / 2;
        if (st->groups[middle].key < key) lo = middle + 1;
        else hi = middle;
    }
    *at = lo;
    if (lo < st->count && st->groups[lo].key == key) return LK_OK;
    LKI_TRY(new_group((const group_node *)c->dataset, key, &g));
    if (!lki_grow((void **)&st->groups, &st->room, st->count + 1, sizeof *st->groups)) return LK_ENOMEM;
    memmove(&st->groups[lo + 1], &st->groups[lo], (size_t)(st->count++ - lo) * sizeof *st->groups);
    st->groups[lo] = g;
    return LK_OK;
}

/* Takes over the element. */
static lk_status put(lki_cursor *c, lki_element e, int *full)
{
    group_state *st = c->state;
    question     q = {(const group_node *)c->dataset, 0};
    int          at = 0;
    lk_status    status = lki_elements_settle(c->dataset->ops->name, 1, &e);
    if (status == LK_OK) status = lki_element_call(&e, ask_key, &q);
    if (status == LK_OK) status = place_of(c, q.key, &at);
    if (status != LK_OK) return lki_elements_drop(1, &e), status;
    LKI_TRY(lki_elements_push(&st->groups[at].held, e));
    *full = st->groups[at].held.count >= st->groups[at].size ? at : -1;
    return LK_OK;
}

/* Read until a window is full, or until the input has ended; *at is -1 if nothing is left. */
static lk_status next_window(lki_cursor *c, int *at)
{
    group_state *st = c->state;
    for (*at = -1; *at < 0;) {
        lki_element e;
        int64_t     got;
        LKI_TRY(lki_cursor_next(c->input[0], 1, &e, &got));
        if (!got) break;
        LKI_TRY(put(c, e, at));
    }
    if (*at < 0 && st->count) *at = 0;
    return LK_OK;
}

static lk_status group_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    group_state *st = c->state;
    while (*got < want) {
        int64_t more;
        int     at;
        if (!st->cursor) {
            LKI_TRY(next_window(c, &at));
            if (at < 0) break;
            LKI_TRY(begin_window(c, at));
        }
        const int64_t piece = want - *got;
        LKI_TRY(lki_cursor_next(st->cursor, piece, out + *got, &more));
        *got += more;
        if (more < piece) close_window(st);
    }
    return LK_OK;
}

static void group_stop(lki_cursor *c)
{
    group_state *st = c->state;
    close_window(st);
    for (int i = 0; i < st->count; i++)
        lki_elements_clear(&st->groups[i].held);
    lki_release(st->groups);
}

/* ---- saving ---- */

static void save_group(lki_saver *s, const group *g)
{
    lki_save_number(s, (uint64_t)g->key);
    lki_save_number(s, (uint64_t)g->size);
    lki_save_elements(s, &g->held);
}

static lk_status load_group(lki_loader *l, group *g)
{
    uint64_t key, size;
    LKI_TRY(lki_load_number(l, &key));
    LKI_TRY(lki_load_at_most(l, INT64_MAX, &size));
    g->key = (int64_t)key;
    g->size = (int64_t)size;
    return lki_load_elements(l, INT64_MAX / 64, &g->held);
}

static void group_save(lki_cursor *c, lki_saver *s)
{
    const group_state *st = c->state;
    lki_save_number(s, st->windows);
    lki_save_number(s, (uint64_t)st->count);
    for (int i = 0; i < st->count; i++)
        save_group(s, &st->groups[i]);
    lki_save_number(s, st->cursor != NULL);
    if (!st->cursor) return;
    save_group(s, &st->open);
    lki_save_cursor(s, st->cursor);
}

static lk_status group_restore(lki_cursor *c, lki_loader *l)
{
    group_state *st = c->state;
    uint64_t     count, open;
    LKI_TRY(lki_load_number(l, &st->windows));
    LKI_TRY(lki_load_at_most(l, lki_wire_left(&l->wire) / 3, &count));
    for (uint64_t i = 0; i < count; i++) {
        if (!lki_grow((void **)&st->groups, &st->room, st->count + 1, sizeof *st->groups)) return LK_ENOMEM;
        st->groups[st->count++] = (group){0};
        LKI_TRY(load_group(l, &st->groups[i]));
    }
    LKI_TRY(lki_load_at_most(l, 1, &open));
    if (!open) return LK_OK;
    LKI_TRY(load_group(l, &st->open));
    LKI_TRY(open_window(c));
    return lki_load_cursor(l, st->cursor);
}

/* ---- making one ---- */

static void group_destroy(lk_dataset *d) { lki_release(((group_node *)d)->bucket.boundary); }

static int64_t group_cardinality(const lk_dataset *d) { return lk_dataset_cardinality(d->input[0]) == 0 ? 0 : LK_UNKNOWN; }

static const lki_dataset_ops group_ops = {.name = "lk_dataset_group_by_window",
                                          .state_bytes = sizeof(group_state),
                                          .counts = true,
                                          .next = group_next,
                                          .stop = group_stop,
                                          .save = group_save,
                                          .restore = group_restore,
                                          .cardinality = group_cardinality,
                                          .destroy = group_destroy};

static group_node *group_new(lk_dataset *input)
{
    group_node *n = lki_dataset_new(&group_ops, sizeof *n, 1, &input);
    if (!n) return NULL;
    n->base.batching = LKI_MAYBE_BATCHED;
    n->base.global = 0;
    n->base.exact = false;
    return n;
}

lk_dataset *lk_dataset_group_by_window_kw(lk_group_args a)
{
    LKI_SCOPE_ERRORS;
    const char *call = group_ops.name;
    if (!lki_dataset_usable(call, a.dataset)) return NULL;
    if (!a.key || !a.reduce) return lki_fail(LK_EINVAL, "%s: the function %s is missing", call, a.key ? "reduce" : "key"), NULL;
    if (a.window_size_fn ? a.window_size != 0 : a.window_size < 1)
        return lki_fail(LK_EINVAL, "%s: give a window_size of at least 1, or a window_size_fn", call), NULL;
    group_node *n = group_new(a.dataset);
    if (!n) return NULL;
    n->key = a.key;
    n->reduce = a.reduce;
    n->size_of = a.window_size_fn;
    n->size = a.window_size;
    n->user = a.user;
    n->base.print = lki_mix((uint64_t)a.window_size, 0);
    return &n->base;
}

/* ---- buckets ---- */

static int64_t bucket_of(lk_tuple element, void *user)
{
    const buckets *b = user;
    const int64_t  length = b->length(element, b->user);
    int64_t        k = 0;
    while (k < b->count && length >= b->boundary[k])
        k++;
    return k;
}

static int64_t size_of_bucket(int64_t key, void *user) { return ((const buckets *)user)->size[key]; }

static lk_dataset *batch_of_bucket(int64_t key, lk_dataset *window, void *user)
{
    const buckets  *b = user;
    const lk_switch drops = b->drops ? LK_ON : LK_OFF;
    if (!b->pads) return lk_dataset_batch(window, b->size[key], drops);
    return lk_dataset_padded_batch(window, b->size[key], drops, LK_NUMBER(b->padding));
}

static bool buckets_fit(const char *call, const lk_bucket_args *a)
{
    if (!a->length) return lki_fail(LK_EINVAL, "%s: the function `length` is missing", call), false;
    if (a->count < 1 || !a->boundaries || !a->sizes)
        return lki_fail(LK_EINVAL, "%s: %d boundaries; there must be at least 1, and a size more", call, a->count), false;
    for (int i = 0; i <= a->count; i++) {
        if (a->sizes[i] < 1)
            return lki_fail(LK_EINVAL, "%s: size %d is %lld; it must be at least 1", call, i, (long long)a->sizes[i]), false;
        if (i && i < a->count && a->boundaries[i] <= a->boundaries[i - 1])
            return lki_fail(LK_EINVAL, "%s: boundary %d is %lld after %lld; they must ascend", call, i, (long long)a->boundaries[i],
                            (long long)a->boundaries[i - 1]),
                   false;
    }
    return true;
}

lk_dataset *lk_dataset_bucket_by_sequence_length_kw(lk_bucket_args a)
{
    LKI_SCOPE_ERRORS;
    const char *call = "lk_dataset_bucket_by_sequence_length";
    if (!lki_dataset_usable(call, a.dataset) || !buckets_fit(call, &a)) return NULL;
    group_node *n = group_new(a.dataset);
    int64_t    *list = n ? lki_alloc_array((int64_t)2 * a.count + 1, sizeof *list) : NULL;
    if (!list) return n ? lk_free(n) : (void)0, NULL;
    memcpy(list, a.boundaries, (size_t)a.count * sizeof *list);
    memcpy(list + a.count, a.sizes, ((size_t)a.count + 1) * sizeof *list);
    n->bucket = (buckets){.length = a.length,
                          .user = a.user,
                          .count = a.count,
                          .boundary = list,
                          .size = list + a.count,
                          .padding = lki_number(a.padding),
                          .pads = a.no_padding != LK_ON,
                          .drops = a.drop_remainder == LK_ON};
    n->key = bucket_of;
    n->reduce = batch_of_bucket;
    n->size_of = size_of_bucket;
    n->user = &n->bucket;
    n->base.batching = LKI_BATCHED;
    for (int i = 0; i <= 2 * a.count; i++)
        n->base.print = lki_mix(n->base.print, (uint64_t)list[i]);
    return &n->base;
}
