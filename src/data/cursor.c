/* Cursors: opening a tree of them, beginning, reading, stopping. */
#include "core/memory.h"
#include "core/rounding.h"
#include "data/data.h"
#include <string.h>

/* ---- opening and closing ---- */

static lk_status enlist(lki_pipeline *p, lki_cursor *c)
{
    c->position = -1;
    if (!lki_grow((void **)&p->cursor, &p->capacity, p->count + 1, sizeof *p->cursor)) return LK_ENOMEM;
    c->position = p->count;
    p->cursor[p->count++] = c;
    return LK_OK;
}

/* Shuffles are distinguished by their number, inputs first: operations added after one do not change its order. */
static void take_place(lki_cursor *c, const lki_opening *o)
{
    lk_dataset *d = c->dataset;
    if (!d->ops->counts) return;
    c->place = lki_mix(o->place, (uint64_t)(*o->shuffles)++);
    if (o->parent) c->iteration = o->parent->iteration;
    else if (c->pipeline->early) c->iteration = __atomic_load_n(&d->iterations, __ATOMIC_RELAXED);
    else if (!c->pipeline->looking) c->iteration = __atomic_fetch_add(&d->iterations, 1, __ATOMIC_RELAXED);
}

static lk_status open_inputs(lki_cursor *c, const lki_opening *o)
{
    const lk_dataset *d = c->dataset;
    if (d->inputs && !(c->input = lki_zalloc_array(d->inputs, sizeof *c->input))) return LK_ENOMEM;
    for (; c->inputs < d->inputs; c->inputs++)
        LKI_TRY(lki_cursor_open(c->pipeline, d->input[c->inputs], o, &c->input[c->inputs]));
    return LK_OK;
}

lk_status lki_cursor_open(lki_pipeline *p, lk_dataset *d, const lki_opening *o, lki_cursor **out)
{
    *out = NULL;
    lki_cursor *c = lki_zalloc(sizeof *c);
    if (!c) return LK_ENOMEM;
    c->dataset = d;
    c->pipeline = p;
    c->position = -1;
    lk_status status = open_inputs(c, o);
    if (status == LK_OK && d->ops->state_bytes && !(c->state = lki_zalloc(d->ops->state_bytes))) status = LK_ENOMEM;
    if (status == LK_OK && !o->parent && !d->ops->transparent) status = enlist(p, c);
    if (status == LK_OK) {
        take_place(c, o);
        *out = c;
        return LK_OK;
    }
    lki_cursor_close(c);
    return status;
}

void lki_cursor_close(lki_cursor *c)
{
    if (!c) return;
    lki_cursor_stop(c);
    for (int i = 0; i < c->inputs; i++)
        lki_cursor_close(c->input[i]);
    lki_release(c->input);
    lki_release(c->state);
    lki_release(c);
}

/* If no cursor between the maker of an element and the reader reads its values, the maker computes them on the reader's device. */
static void give_device(lki_cursor *c, lki_device *device)
{
    const lki_dataset_ops *ops = c->dataset->ops;
    if (ops->stacks) c->device = device;
    for (int i = 0; (ops->passes || ops->transparent) && i < c->inputs; i++)
        give_device(c->input[i], device);
}

lk_status lki_pipeline_open(lki_pipeline *p, lk_dataset *root, lki_cursor **out)
{
    lk_status status = lki_cursor_open(p, root, &(lki_opening){.shuffles = &p->shuffles}, out);
    if (status != LK_OK) lki_pipeline_close(p, NULL);
    else if (p->device) give_device(*out, p->device);
    return status;
}

void lki_pipeline_close(lki_pipeline *p, lki_cursor *root)
{
    lki_cursor_close(root);
    lki_release(p->cursor);
    p->cursor = NULL;
    p->count = p->capacity = 0;
}

/* ---- threads ---- */

lk_status lki_cursor_start(lki_cursor *c, void *(*fn)(void *), void *arg, lki_thread *out)
{
    __atomic_store_n(&c->pipeline->threads_of, lki_process() + 1, __ATOMIC_RELAXED);
    return lki_thread_start(c->dataset->ops->name, fn, arg, out);
}

bool lki_pipeline_is_here(const lki_pipeline *p)
{
    const unsigned process = __atomic_load_n(&p->threads_of, __ATOMIC_RELAXED);
    return !process || process == lki_process() + 1;
}

lk_status lki_pipeline_check(const char *call, const lki_pipeline *p)
{
    if (lki_pipeline_is_here(p)) return LK_OK;
    return lki_fail(LK_ESTATE, "%s: its threads are those of the process this one was forked from; make a new iterator here", call);
}

/* ---- reading ---- */

void lki_cursor_stop(lki_cursor *c)
{
    const lki_dataset_ops *ops = c->dataset->ops;
    if (c->begun) {
        if (ops->stop) ops->stop(c);
        if (c->state) memset(c->state, 0, ops->state_bytes);
    }
    lki_elements_clear(&c->pending);
    c->begun = c->ended = false;
    for (int i = 0; i < c->inputs; i++)
        lki_cursor_stop(c->input[i]);
}

bool lki_cursor_same(lki_cursor *c)
{
    (void)c;
    return true;
}

lk_status lki_cursor_begin_inputs(lki_cursor *c, uint64_t turn)
{
    for (int i = 0; i < c->inputs; i++)
        LKI_TRY(lki_cursor_begin(c->input[i], turn));
    return LK_OK;
}

lk_status lki_cursor_begin(lki_cursor *c, uint64_t turn)
{
    lki_cursor_stop(c);
    c->begun = true;
    c->turn = turn;
    return c->dataset->ops->begin ? c->dataset->ops->begin(c) : lki_cursor_begin_inputs(c, turn);
}

static int64_t take_pending(lki_elements *q, int64_t want, lki_element *out)
{
    int64_t n = lki_min(want, q->count);
    if (n) memcpy(out, q->item + q->at, (size_t)n * sizeof *out);
    q->at += n;
    q->count -= n;
    return n;
}

lk_status lki_cursor_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    LKI_NEAREST;
    lk_status status = LK_OK;
    int64_t   more = 0;
    *got = 0;
    if (!c->begun) /* a cursor releases what it holds when it is stopped, and it is only stopped after begin */
        return lki_fail(LK_EFORMAT, "%s: read before it was begun: the bytes the iterator was restored from are damaged",
                        c->dataset->ops->name);
    *got = c->pending.count ? take_pending(&c->pending, want, out) : 0;
    if (*got == want || c->ended) return LK_OK;
    status = c->dataset->ops->next(c, want - *got, out + *got, &more);
    *got += more;
    c->ended = *got < want;
    if (status == LK_OK) return LK_OK;
    c->ended = true;
    lki_elements_drop(*got, out);
    *got = 0;
    return status;
}
