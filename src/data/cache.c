/* Cache: the first whole iteration is kept, in memory or in a file; later ones are served from there.
 *
 *     begin -- nothing kept yet --> COLLECTING -- input ended --> kept, for later iterations
 *       \____ something kept _____> SERVING
 *       \____ only looking, or another iterator is writing the file ____> PASSING
 *
 * Invariants
 *  1. What is kept is complete, or does not exist: an iteration that is not finished keeps nothing.
 *  2. What is kept never changes. It is the input's output in one iteration, so a shuffle below gives the same order from then on.
 *     The input's state at the beginning of that iteration (`start`) is saved with an iterator. If an iterator is restored where
 *     nothing is kept, it collects the elements again, up to the iterator's position; if the iterator was SERVING, all of them,
 *     because other iterators may be SERVING too. */
#include "core/lock.h"
#include "core/memory.h"
#include "data/cachefile.h"
#include "data/data.h"
#include "data/save.h"
#include <string.h>

typedef struct store {
    lki_elements items;
    lki_bytes    start;
} store;

typedef struct cache_node {
    lk_dataset base;
    char      *file; /* NULL: in memory */
    lki_mutex  lock; /* of what follows */
    store     *kept; /* in memory; constant once it is set */
    bool       writing;
} cache_node;

typedef enum mode { PASSING, COLLECTING, SERVING } mode;

typedef struct cache_state {
    mode              mode;
    int64_t           done;      /* elements returned */
    lki_elements      collected; /* in memory */
    lki_bytes         start;
    lki_cache_writer *writer;
    lki_cache_reader *reader;
    lki_rowset       *block; /* being served from a file, from row `next` on */
    int64_t           next;
} cache_state;

static void let_go(cache_state *st)
{
    lki_cache_writer_close(st->writer);
    lki_cache_reader_close(st->reader);
    lki_rowset_drop(st->block, 1);
    lki_elements_clear(&st->collected);
    lki_bytes_free(&st->start);
}

static void stop_writing(cache_node *n)
{
    LKI_HOLD(&n->lock);
    n->writing = false;
}

static void cache_stop(lki_cursor *c)
{
    cache_state *st = c->state;
    if (st->writer) stop_writing((cache_node *)c->dataset);
    let_go(st);
}

static const store *kept_by(cache_node *n)
{
    LKI_HOLD(&n->lock);
    return n->kept;
}

/* In memory: what this cursor collected, or what is kept; NULL: neither. */
static const lki_elements *items_of(const lki_cursor *c)
{
    const cache_state *st = c->state;
    const store       *kept = kept_by((cache_node *)c->dataset);
    return st->start.data ? &st->collected : kept ? &kept->items : NULL;
}

/* ---- beginning ---- */

static bool may_write(cache_node *n)
{
    LKI_HOLD(&n->lock);
    const bool may = !n->writing;
    n->writing = true;
    return may;
}

static lk_status note_start(lki_cursor *c)
{
    cache_state *st = c->state;
    lki_saver    s = {.pipeline = c->pipeline};
    lki_save_cursor(&s, c->input[0]);
    if (s.status == LK_OK && s.sink.failed) s.status = LK_ENOMEM;
    st->start = (lki_bytes){s.sink.data, s.sink.size};
    return s.status;
}

static lk_status begin_collecting(lki_cursor *c)
{
    cache_node  *n = (cache_node *)c->dataset;
    cache_state *st = c->state;
    st->mode = PASSING;
    if (c->pipeline->looking) return LK_OK;
    LKI_TRY(note_start(c));
    if (n->file && !may_write(n)) return LK_OK;
    if (n->file) {
        lk_status status = lki_cache_writer_open(n->file, &st->writer);
        if (status != LK_OK) return stop_writing(n), status;
    }
    st->mode = COLLECTING;
    return LK_OK;
}

static lk_status find_kept(lki_cursor *c)
{
    cache_node  *n = (cache_node *)c->dataset;
    cache_state *st = c->state;
    if (n->file) LKI_TRY(lki_cache_reader_open(n->file, &st->reader));
    if (st->reader || kept_by(n)) st->mode = SERVING;
    return LK_OK;
}

static lk_status cache_begin(lki_cursor *c)
{
    LKI_TRY(find_kept(c));
    LKI_TRY(lki_cursor_begin_inputs(c, c->turn));
    return ((cache_state *)c->state)->mode == SERVING ? LK_OK : begin_collecting(c);
}

/* ---- collecting ---- */

/* True if a map only passes on rows in memory or turns bytes into floats. It is then applied while the rows are gathered, which
 * takes less time than reading the floats, and bytes take a quarter of the memory. */
static bool is_as_good(const lki_cursor *c, const lki_element *e)
{
    const lki_rowset *s = e->set;
    return !((const cache_node *)c->dataset)->file && s->kind == LKI_SET_MAPPED && e->row >= 0 && s->of->kind == LKI_SET_PLAIN &&
           lki_vector_is_direct(s->vector);
}

/* Elements that are in memory anyway are kept as they are. Elements that a map would compute again are stacked, and so are rows
 * that are written to a file. */
static bool wants_stacking(const lki_cursor *c, const lki_element *e)
{
    const bool to_file = ((const cache_node *)c->dataset)->file;
    if (is_as_good(c, e)) return false;
    return !lki_has_batch(e) && (!lki_is_settled(e->set) || (to_file && (e->row >= 0 || e->set->kind != LKI_SET_PLAIN)));
}

static lk_status keep_set(lki_cursor *c, lki_rowset *set)
{
    cache_state *st = c->state;
    return st->writer ? lki_cache_write(st->writer, set) : LK_OK;
}

/* e[0 .. n) become rows of one set; this cache is its home. */
static lk_status keep_rows(lki_cursor *c, int64_t n, lki_element *e, int64_t number)
{
    lki_rowset *set;
    LKI_TRY(lki_stack(c->dataset->ops->name, n, e, &set));
    if (!((cache_state *)c->state)->writer) {
        set->home = c->dataset;
        set->first = number;
        set->stays = true;
    }
    lki_elements_drop(n, e);
    for (int64_t i = 0; i < n; i++)
        e[i] = (lki_element){set, i};
    if (n > 1) lki_rowset_retain(set, n - 1);
    return keep_set(c, set);
}

static lk_status keep_alone(lki_cursor *c, lki_element *e, int64_t number)
{
    cache_state *st = c->state;
    if ((!lki_is_settled(e->set) && !is_as_good(c, e)) || (st->writer && e->set->kind != LKI_SET_PLAIN)) {
        lki_element plain;
        LKI_TRY(lki_element_plain(e, &plain));
        lki_elements_drop(1, e);
        *e = plain;
    }
    if (e->row < 0 && !e->set->home && !st->writer) {
        e->set->home = c->dataset;
        e->set->first = number;
    }
    return keep_set(c, e->set);
}

static int64_t bytes_of(const lki_element *e)
{
    int64_t bytes = 1;
    for (int i = 0; i < e->set->count; i++) {
        lki_column column = lki_element_column(e, i);
        bytes = lki_size_add(bytes, lki_size_mul(lki_shape_size(&column.shape), (int64_t)lk_dtype_bytes(column.dtype)));
    }
    return bytes;
}

/* How many elements from e[0] on are put into one block: large blocks use large pages, but a block that a map computes is in memory
 * several times meanwhile. */
static int64_t block_from(const lki_cursor *c, int64_t n, const lki_element *e)
{
    enum { MOST_BYTES = 32 << 20 };
    const int64_t most = lki_min(n, lki_max(1, MOST_BYTES / bytes_of(e)));
    int64_t       k = 1;
    while (k < most && wants_stacking(c, &e[k]) && lki_elements_alike(&e[0], &e[k]))
        k++;
    return wants_stacking(c, &e[0]) ? k : 1;
}

static lk_status keep(lki_cursor *c, int64_t n, lki_element *e)
{
    cache_state *st = c->state;
    for (int64_t i = 0, k; i < n; i += k) {
        k = block_from(c, n - i, &e[i]);
        LKI_TRY(wants_stacking(c, &e[i]) ? keep_rows(c, k, &e[i], st->done + i) : keep_alone(c, &e[i], st->done + i));
    }
    for (int64_t i = 0; i < n && !st->writer; i++)
        LKI_TRY(lki_elements_push(&st->collected, lki_element_retain(e[i])));
    return LK_OK;
}

/* The input ended: keep what was collected. If another iterator was faster, this cursor still holds its own, because others may
 * refer to it. */
static lk_status complete(lki_cursor *c)
{
    cache_node  *n = (cache_node *)c->dataset;
    cache_state *st = c->state;
    st->mode = PASSING; /* there is nothing left to pass */
    if (st->writer) {
        lk_status status = lki_cache_publish(st->writer);
        lki_cache_writer_close(st->writer);
        st->writer = NULL;
        return stop_writing(n), status;
    }
    store *s = lki_alloc(sizeof *s);
    if (!s) return LK_ENOMEM;
    *s = (store){st->collected, st->start};
    lki_mutex_take(&n->lock);
    const bool first = !n->kept;
    if (first) n->kept = s;
    lki_mutex_give(&n->lock);
    if (first) {
        st->collected = (lki_elements){0};
        st->start = (lki_bytes){0};
    } else lki_release(s);
    return LK_OK;
}

static lk_status collect(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    cache_state *st = c->state;
    LKI_TRY(lki_cursor_next(c->input[0], want, out, got));
    LKI_TRY(keep(c, *got, out));
    st->done += *got;
    return *got < want ? complete(c) : LK_OK;
}

/* ---- serving ---- */

static void serve_memory(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    cache_state        *st = c->state;
    const lki_elements *items = items_of(c);
    for (; *got < want && st->done < items->count; st->done++)
        out[(*got)++] = lki_element_retain(items->item[items->at + st->done]);
}

static lk_status serve_file(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    cache_state *st = c->state;
    while (*got < want) {
        const int64_t rows = st->block ? lki_max(1, st->block->rows) : 0;
        for (; *got < want && st->next < rows; st->next++, st->done++)
            out[(*got)++] = (lki_element){lki_rowset_retain(st->block, 1), st->block->rows > 0 ? st->next : LKI_ALONE};
        if (*got == want) break;
        lki_rowset_drop(st->block, 1);
        st->next = 0;
        LKI_TRY(lki_cache_read(st->reader, &st->block));
        if (!st->block) break;
    }
    return LK_OK;
}

static lk_status cache_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    cache_state *st = c->state;
    if (st->mode == COLLECTING) return collect(c, want, out, got);
    if (st->mode == SERVING && st->reader) return serve_file(c, want, out, got);
    if (st->mode == SERVING) return serve_memory(c, want, out, got), LK_OK;
    LKI_TRY(lki_cursor_next(c->input[0], want, out, got));
    st->done += *got;
    return LK_OK;
}

/* ---- saving ---- */

static void cache_save(lki_cursor *c, lki_saver *s)
{
    const cache_state *st = c->state;
    const store       *kept = kept_by((cache_node *)c->dataset);
    const lki_bytes   *start = kept && !st->start.data ? &kept->start : &st->start;
    lki_save_number(s, (uint64_t)st->done);
    lki_save_number(s, kept && !st->start.data ? (uint64_t)kept->items.count + 1 : 0);
    lki_save_number(s, start->size);
    lki_sink_bytes(&s->sink, start->data, start->size);
}

static lk_status not_the_same(void)
{
    return lki_fail(
        LK_EFORMAT,
        "lk_iterator_restore: a cached dataset has another length than when the iterator was saved; has the data changed?");
}

/* Collect again what the saved iterator had returned; all of it if it was at the end. */
static lk_status collect_again(lki_cursor *c, int64_t count)
{
    enum { PIECE = 256 };
    lki_element e[PIECE];
    for (int64_t got, piece; count > 0; count -= got) {
        got = 0;
        piece = lki_min(PIECE, count);
        const lk_status status = cache_next(c, piece, e, &got);
        lki_elements_drop(got, e);
        LKI_TRY(status);
        if (got < piece) return not_the_same();
    }
    int64_t         more = 0;
    const lk_status status = c->ended ? cache_next(c, 1, e, &more) : LK_OK;
    lki_elements_drop(more, e);
    return more ? not_the_same() : status;
}

static lk_status restore_by_collecting(lki_cursor *c, lki_loader *l, uint64_t start, int64_t done)
{
    lki_loader at_start = {lki_wire_of(l->wire.p, (size_t)start), l->pipeline};
    l->wire.p += start;
    lki_cursor_stop(c->input[0]);
    if (start) LKI_TRY(lki_load_cursor(&at_start, c->input[0]));
    if (!c->input[0]->begun) LKI_TRY(lki_cursor_begin(c->input[0], c->turn));
    LKI_TRY(begin_collecting(c));
    return collect_again(c, done);
}

/* Restore what was kept, with a separate cursor: the one that collected it may have been at another position, or in another
 * pipeline. If something else is kept already, this cursor holds its own. */
static lk_status restore_kept(lki_cursor *c, lki_loader *l, uint64_t start, int64_t count)
{
    int          shuffles = 0;
    cache_state *st = c->state;
    lki_cursor  *own;
    LKI_TRY(lki_cursor_open(c->pipeline, c->dataset, &(lki_opening){.parent = c, .shuffles = &shuffles}, &own));
    own->begun = own->ended = true;
    own->turn = c->turn;
    const lk_status status = restore_by_collecting(own, l, start, count);
    if (status == LK_OK) {
        cache_state *from = own->state;
        st->mode = SERVING;
        st->collected = from->collected;
        st->start = from->start;
        from->collected = (lki_elements){0};
        from->start = (lki_bytes){0};
    }
    lki_cursor_close(own);
    return status;
}

static lk_status cache_restore(lki_cursor *c, lki_loader *l)
{
    cache_state *st = c->state;
    uint64_t     done, all, size; /* all: elements kept, and one; 0: it was collecting */
    LKI_TRY(lki_load_at_most(l, INT64_MAX / 2, &done));
    LKI_TRY(lki_load_at_most(l, INT64_MAX / 2, &all));
    LKI_TRY(lki_load_at_most(l, INT64_MAX, &size));
    if (size > lki_wire_left(&l->wire)) return lki_fail(LK_EFORMAT, "lk_iterator_restore: a cache's beginning is cut off");
    LKI_TRY(find_kept(c));
    const store *kept = kept_by((cache_node *)c->dataset);
    const bool   same = kept && kept->start.size == size && (!size || memcmp(kept->start.data, l->wire.p, (size_t)size) == 0);
    const bool   served = all && !((cache_node *)c->dataset)->file;
    if (!st->reader && !same && !served) return restore_by_collecting(c, l, size, (int64_t)done);
    if (!st->reader && !same) LKI_TRY(restore_kept(c, l, size, (int64_t)all - 1));
    else l->wire.p += size;
    if (done > (uint64_t)(st->reader ? lki_cache_elements(st->reader) : items_of(c)->count))
        return lki_fail(LK_EFORMAT, "lk_iterator_restore: a cache has fewer than the %llu elements read of it",
                        (unsigned long long)done);
    st->done = (int64_t)done;
    if (!st->reader) return LK_OK;
    LKI_TRY(lki_cache_seek(st->reader, st->done, &st->next));
    return lki_cache_read(st->reader, &st->block);
}

static lk_status cache_again(lki_cursor *c, int64_t number, lki_element *out)
{
    const lki_elements *items = items_of(c);
    if (!items || number < 0 || number >= items->count)
        return lki_fail(LK_EFORMAT, "lk_iterator_restore: a cache has no element %lld", (long long)number);
    *out = lki_element_retain(items->item[items->at + number]);
    return LK_OK;
}

/* Cursors that collect at the same time may have other elements by the same number. */
static bool cache_has(const lki_cursor *c, const lki_element *e)
{
    const lki_elements *items = items_of(c);
    const int64_t       number = e->set->first + lki_max(e->row, 0);
    if (!items || number >= items->count) return false;
    const lki_element *mine = &items->item[items->at + number];
    return mine->set == e->set && mine->row == e->row;
}

/* ---- the node ---- */

static int64_t cache_cardinality(const lk_dataset *d)
{
    const store *kept = kept_by((cache_node *)d);
    return kept ? kept->items.count : lk_dataset_cardinality(d->input[0]);
}

static void cache_destroy(lk_dataset *d)
{
    cache_node *n = (cache_node *)d;
    if (n->kept) {
        lki_elements_clear(&n->kept->items);
        lki_bytes_free(&n->kept->start);
        lki_release(n->kept);
    }
    lki_release(n->file);
    lki_mutex_destroy(&n->lock);
}

static const lki_dataset_ops ops = {.name = "lk_dataset_cache",
                                    .state_bytes = sizeof(cache_state),
                                    .begin = cache_begin,
                                    .next = cache_next,
                                    .stop = cache_stop,
                                    .save = cache_save,
                                    .restore = cache_restore,
                                    .again = cache_again,
                                    .has = cache_has,
                                    .cardinality = cache_cardinality,
                                    .destroy = cache_destroy};

lk_dataset *lk_dataset_cache_kw(lk_cache_args a)
{
    LKI_SCOPE_ERRORS;
    if (!lki_dataset_usable(ops.name, a.dataset)) return NULL;
    if (a.file && !*a.file)
        return lki_fail(LK_EINVAL, "%s: the name of the file is empty; leave it out to keep elements in memory", ops.name), NULL;
    cache_node *n = lki_dataset_new(&ops, sizeof *n, 1, &a.dataset);
    if (!n) return NULL;
    lki_mutex_init(&n->lock);
    n->file = a.file ? lki_strdup(a.file) : NULL;
    n->base.print = a.file != NULL;
    if (!a.file || n->file) return &n->base;
    lk_free(n);
    return NULL;
}
