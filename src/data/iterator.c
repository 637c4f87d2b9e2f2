/* Iterators: one element at a time, on the user's thread.
 *
 *     lk_next:  end the previous turn -> read an element -> open a step -> make the element's tensors in it
 *
 * Invariants
 *  1. An iterator has at most one turn: a step of the thread that called lk_next(). Objects that the user makes in it are freed
 *     with it.
 *  2. A turn may end without a call of its iterator, because the step around it ended. An object that lives in the step notifies
 *     the iterator.
 *  3. An iteration is counted when it begins. One that was opened early has no effect on others until then.
 *  4. An iterator that failed stays failed, and reports its first error at each call, until it is restored. */
#include "core/lock.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "data/data.h"
#include "data/save.h"
#include "format/trace.h"
#include "op/record.h"

typedef struct turn {
    lki_object   object;
    lk_iterator *iterator; /* not a reference; NULL: it was freed */
} turn;

struct lk_iterator {
    lki_object       object;
    lk_dataset      *dataset; /* a reference */
    lki_pipeline     pipeline;
    lki_cursor      *cursor;
    turn            *turn; /* not a reference; NULL: none is open */
    lki_block        step;
    bool             failed;
    lki_error_record error;
};

LKI_MUTEX(turns); /* the links between turns and iterators */

/* ---- turns ---- */

static void turn_destroy(void *object)
{
    turn *t = object;
    LKI_HOLD(&turns);
    if (t->iterator) t->iterator->turn = NULL;
}

static void end_turn(lk_iterator *it)
{
    lki_mutex_take(&turns);
    const bool open = it->turn != NULL;
    lki_mutex_give(&turns);
    if (open) lki_step_leave(&it->step);
    lki_mutex_take(&turns); /* this thread must not end a step of another thread */
    if (it->turn) {
        it->turn->iterator = NULL;
        lki_step_leave_elsewhere(&it->step);
    }
    it->turn = NULL;
    lki_mutex_give(&turns);
}

static lk_status begin_turn(lk_iterator *it)
{
    lki_step_close_left(); /* of earlier turns, which another thread ended */
    it->step = lki_step_enter();
    turn *t = it->step.owner ? lki_object_new(sizeof *t, LKI_KIND_OTHER, LKI_LIVES_IN_STEP, turn_destroy) : NULL;
    if (!t) return lki_step_leave(&it->step), LK_ENOMEM;
    t->iterator = it;
    it->turn = t;
    return LK_OK;
}

/* ---- making ---- */

static void iterator_destroy(void *object)
{
    lk_iterator *it = object;
    end_turn(it);
    if (lki_pipeline_is_here(&it->pipeline)) lki_pipeline_close(&it->pipeline, it->cursor);
    lki_drop(it->dataset);
}

static lk_status may_iterate(const char *call)
{
    const lki_context now = lki_context_now();
    if (now.kind == LKI_CONTEXT_REPLICA && now.strategy && now.strategy->kind != LKI_STRATEGY_DEFAULT)
        return lki_fail(LK_EINVAL, "%s: inside lk_run(); take the element outside and pass it as an argument", call);
    if (lki_tracer_current())
        return lki_fail(LK_ESTATE,
                        "%s: inside a function being traced; pass elements to it as arguments, or use lk_dataset_reduce()", call);
    return LK_OK;
}

static lk_iterator *iterator_new(const char *call, lk_dataset *d, lki_life life, bool early)
{
    LKI_SCOPE_ERRORS;
    if (!lki_is_dataset(d)) return lki_fail(LK_EINVAL, "%s: %s", call, d ? "not a dataset" : "the dataset is NULL"), NULL;
    if (may_iterate(call) != LK_OK) return NULL;
    lk_iterator *it = lki_object_new(sizeof *it, LKI_KIND_OTHER, life, iterator_destroy);
    if (!it) return NULL;
    it->dataset = lki_retain(d);
    it->pipeline = (lki_pipeline){.seed = lk_random_seed(), .lanes = lk_lanes(), .early = early};
    lki_pipeline_share(&it->pipeline, d);
    if (lki_pipeline_open(&it->pipeline, d, &it->cursor) == LK_OK) return it;
    if (life == LKI_LIVES_BY_REFERENCE) lki_drop(it);
    else lk_free(it);
    return NULL;
}

lk_iterator *lk_iterator_of(lk_dataset *d) { return iterator_new("lk_iterator_of", d, LKI_LIVES_IN_POOL, false); }

static bool is_iterator(const void *object)
{
    const lki_object *o = object;
    return lki_is_kind(object, LKI_KIND_OTHER) && o->destroy == iterator_destroy;
}

/* ---- reading ---- */

static lk_status hand_element_over(lk_iterator *it, const lki_element *e, lk_tuple *out)
{
    LKI_TRY(begin_turn(it));
    *out = lki_deliver(it->dataset, e);
    if (out->count) return LK_OK;
    end_turn(it);
    return lk_failed() ? lk_error_code() : LK_ENOMEM;
}

static lk_status read_on_host(lk_iterator *it, lk_tuple *out)
{
    lki_element e;
    int64_t     got;
    if (!it->cursor->begun) LKI_TRY(lki_cursor_begin(it->cursor, 0));
    LKI_TRY(lki_cursor_next(it->cursor, 1, &e, &got));
    if (!got) return LK_OK;
    lk_status status = hand_element_over(it, &e, out);
    lki_elements_drop(1, &e);
    return status;
}

/* Pipelines work on the CPU, whatever the current device of the reading thread is. */
static lk_status read_element(lk_iterator *it, lk_tuple *out)
{
    lki_device *device = lki_device_current();
    lki_device_set_current(lki_host_of(device));
    lk_status status = read_on_host(it, out);
    lki_device_set_current(device);
    return status;
}

static void note_failure(lk_iterator *it)
{
    it->failed = true;
    lki_error_take(&it->error);
    lki_error_put(&it->error);
}

/* Reading the first eight items of any tuple is allowed. */
static lk_tuple no_tensors(void)
{
    static lk_tensor *items[8] = {&lki_poison, &lki_poison, &lki_poison, &lki_poison,
                                  &lki_poison, &lki_poison, &lki_poison, &lki_poison};
    return (lk_tuple){0, items};
}

int lk_next(lk_iterator *it, lk_tuple *element)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    lk_tuple out = no_tensors();
    if (element) *element = out;
    if (!is_iterator(it) || !element)
        return lki_fail(LK_EINVAL, "lk_next: %s",
                        !element ? "there is no place for the element"
                        : it     ? "not an iterator"
                                 : "the iterator is NULL"),
               0;
    if (may_iterate("lk_next") != LK_OK || lki_pipeline_check("lk_next", &it->pipeline) != LK_OK) return 0;
    end_turn(it);
    if (it->failed) return lki_error_put(&it->error), 0;
    int64_t began = lki_span_begin();
    if (read_element(it, &out) != LK_OK) {
        note_failure(it);
        out = no_tensors();
    }
    lki_span_end(began, LKI_SPAN_INPUT, "next batch", -1);
    *element = out;
    return out.count > 0;
}

/* ---- before it begins ---- */

/* One source, and each node of its line to the root can tell whether its elements would still be the same. */
static bool may_be_early(const lk_dataset *d)
{
    for (; d->ops->still && d->inputs == 1; d = d->input[0])
        ;
    return d->ops->still && !d->inputs;
}

/* Makes one element, which is returned first. It is stored below cursors that only pass elements on, and is saved there. */
static lk_status make_first(lk_iterator *it)
{
    lki_cursor *c = it->cursor;
    lki_element e;
    int64_t     got;
    LKI_TRY(lki_cursor_begin(it->cursor, 0));
    while (c->dataset->ops->transparent)
        c = c->input[0];
    LKI_TRY(lki_cursor_next(c, 1, &e, &got));
    return got ? lki_elements_push(&c->pending, e) : LK_OK;
}

lk_iterator *lki_iterator_early(lk_dataset *d)
{
    LKI_SCOPE_ERRORS;
    if (!may_be_early(d)) return NULL;
    lki_device *device = lki_device_current();
    lki_device_set_current(lki_device_cpu());
    lk_iterator *it = iterator_new("lk_iterator_of", d, LKI_LIVES_BY_REFERENCE, true);
    if (it && make_first(it) != LK_OK) {
        lki_drop(it);
        it = NULL;
    }
    lk_clear_error(); /* the error will occur again when the iteration begins */
    lki_device_set_current(device);
    return it;
}

/* From the root on. */
static bool would_be_same(lki_cursor *c)
{
    const lk_dataset *d = c->dataset;
    const bool        counts = d->ops->counts;
    if (counts && __atomic_load_n(&d->iterations, __ATOMIC_RELAXED) != c->iteration) return false;
    return d->ops->still(c) && (!c->inputs || would_be_same(c->input[0]));
}

bool lki_iterator_begin(lk_iterator *it)
{
    LKI_SCOPE_ERRORS;
    lki_pipeline *p = &it->pipeline;
    lki_device   *device = lki_device_current();
    lki_device_set_current(lki_device_cpu());
    const bool good = p->seed == lk_random_seed() && p->lanes == lk_lanes() && would_be_same(it->cursor);
    lk_clear_error();
    lki_device_set_current(device);
    p->early = false;
    for (lki_cursor *c = it->cursor; good; c = c->input[0]) {
        if (c->dataset->ops->counts) __atomic_fetch_add(&c->dataset->iterations, 1, __ATOMIC_RELAXED);
        if (!c->inputs) break;
    }
    return good;
}

/* ---- saving ---- */

lk_status lk_iterator_save(lk_iterator *it, void **bytes, size_t *size)
{
    LKI_SCOPE_ERRORS;
    lki_bytes out = {0};
    if (!is_iterator(it) || !bytes || !size)
        return lki_fail(LK_EINVAL, "lk_iterator_save: %s",
                        it ? "no place for the bytes, or not an iterator" : "the iterator is NULL");
    LKI_TRY(lki_pipeline_check("lk_iterator_save", &it->pipeline));
    if (it->failed) return lki_error_put(&it->error), it->error.code;
    lk_status status = it->cursor->begun ? LK_OK : lki_cursor_begin(it->cursor, 0); /* so that a cache knows what it will serve */
    if (status == LK_OK) status = lki_save_pipeline(&it->pipeline, it->cursor, &out);
    *bytes = out.data;
    *size = out.size;
    return status;
}

lk_status lk_iterator_restore(lk_iterator *it, const void *bytes, size_t size)
{
    LKI_SCOPE_ERRORS;
    if (!is_iterator(it) || (!bytes && size))
        return lki_fail(LK_EINVAL, "lk_iterator_restore: %s", it ? "no bytes, or not an iterator" : "the iterator is NULL");
    LKI_TRY(may_iterate("lk_iterator_restore"));
    LKI_TRY(lki_pipeline_check("lk_iterator_restore", &it->pipeline));
    end_turn(it);
    it->failed = false;
    const lk_status status = lki_load_pipeline(&it->pipeline, it->cursor, bytes, size);
    if (status != LK_OK) {
        note_failure(it);
        lki_cursor_stop(it->cursor);
    }
    return status;
}

void lk_free_bytes(void *bytes) { lki_release(bytes); }

/* ---- LK_FOR_EACH ---- */

lki_block lki_each_enter(lk_dataset *d)
{
    return (lki_block){.open = 1, .owner = iterator_new("LK_FOR_EACH", d, LKI_LIVES_BY_REFERENCE, false)};
}

int lki_each_next(lki_block *block, lk_tuple *element)
{
    if (block->owner) return lk_next(block->owner, element);
    *element = no_tensors();
    return 0;
}

void lki_each_leave(lki_block *block)
{
    lki_drop(block->owner);
    *block = (lki_block){0};
}
