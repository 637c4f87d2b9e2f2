/* Prefetch: a separate thread makes elements ahead of the consumer.
 *
 *     thread:  read the input, compute --> queue, at most `room` elements --> consumer: next()
 *
 * Invariants
 * 1. `lock` guards the queue and the flags. The input belongs to the thread while it runs, and to the consumer before and after.
 * 2. The thread starts when an element is asked for, ends when the input ends or fails or the cursor stops, and is always joined.
 * 3. An error of the thread is reported to the consumer after the elements that were read before it.
 * 4. If making an element is cheap compared with what the consumer does with it, a thread would only slow down the threads that
 *    compute. Then the consumer makes elements itself, with the team that runs its steps (gather.h), until that changes. Times
 *    decide which thread makes the elements, never their values. If the consumer's team uses every core, another thread delays the
 *    whole team, which waits for its slowest member. Then the time from element to element is measured with and without the thread,
 *    repeatedly, and the faster way is used.
 * 5. The next iteration starts with the way found in the last one. The first starts with the thread if the program asked for
 *    prefetch, and without it if the prefetch comes from distributing a dataset: the consumer must wait for the first element in
 *    any case. */
#include "core/lock.h"
#include "core/memory.h"
#include "core/thread.h"
#include "data/gather.h"
#include "format/trace.h"

enum { DEFAULT_AHEAD = 2, MOST_AHEAD = 1 << 16 };
enum {
    EVERY = 16,
    TOO_CHEAP = 10,
    TOO_DEAR = 5
};                           /* times are compared after EVERY elements; a ratio beyond TOO_CHEAP or TOO_DEAR
                                                    * decides */
enum { TRIED_FOR = 64 };     /* comparisons until the other way is tried again */
enum { HANDING_ON = 20000 }; /* nanoseconds: passing on an element that takes less time to make would take longer than making it */

typedef struct prefetch_node {
    lk_dataset base;
    int        ahead;
    bool       alone;   /* atomic: the next iteration begins without the thread */
    int64_t    pace[2]; /* atomic: nanoseconds from element to element, with the thread and alone; 0: not tried */
} prefetch_node;

typedef struct line { /* shared by the two threads; allocated separately, because both use it until they end */
    lki_cursor      *input;
    int              room;
    lki_mutex        lock;
    lki_condition    filled, emptied;
    lki_elements     queue;
    bool             stopping, over; /* over: the input ended or failed */
    int64_t          making;         /* nanoseconds it took to make elements */
    lki_error_record error;
} line;

typedef struct prefetch_state { /* the consumer's own */
    line      *line;
    bool       running;       /* the thread is to be joined */
    bool       alone;         /* the consumer makes elements itself */
    int        threads, team; /* if alone: how many threads of the team help */
    lki_thread thread;
    int64_t    left, using; /* when it took an element; nanoseconds it worked on elements since times were compared */
    int        count;       /* elements since then; without the first one, for which buffers are filled */
    int        wait;        /* times are compared after this many elements */
    int        compared;    /* number of comparisons since the other way was tried */
    int64_t    since;       /* when they were last compared */
    bool       first_gone;
} prefetch_state;

/* ---- the thread ---- */

static bool wait_for_room(line *w)
{
    LKI_HOLD(&w->lock);
    while (!w->stopping && w->queue.count >= w->room)
        lki_condition_wait(&w->emptied, &w->lock);
    return !w->stopping;
}

static lk_status make_one(line *w, lki_element *e, int64_t *got, int64_t *took)
{
    const int64_t begin = lki_nanoseconds();
    lk_status     status = lki_cursor_next(w->input, 1, e, got);
    if (status == LK_OK && *got) {
        status = lki_elements_settle("lk_dataset_prefetch", 1, e);
        if (status != LK_OK) lki_elements_drop(1, e);
    }
    *took = lki_nanoseconds() - begin;
    return status;
}

/* The queue was made with enough room. */
static void hand_on(line *w, lk_status status, const lki_element *e, int64_t got, int64_t took)
{
    LKI_HOLD(&w->lock);
    w->making += took;
    if (status != LK_OK) lki_error_take(&w->error);
    else if (got) w->queue.item[(w->queue.at + w->queue.count++) % w->room] = *e;
    w->over = status != LK_OK || !got;
    lki_condition_signal(&w->filled);
}

static void *read_ahead(void *arg)
{
    line *w = arg;
    lki_trace_thread("read ahead");
    while (!w->over && wait_for_room(w)) {
        lki_element e;
        int64_t     got = 0, took, began = lki_span_begin();
        lk_status   status = make_one(w, &e, &got, &took);
        lki_span_end(began, LKI_SPAN_INPUT, "make a batch", -1);
        hand_on(w, status, &e, got, took);
    }
    return NULL;
}

/* ---- the consumer ---- */

static lk_status line_new(lki_cursor *c)
{
    const prefetch_node *n = (const prefetch_node *)c->dataset;
    prefetch_state      *st = c->state;
    line                *w = st->line = lki_zalloc(sizeof *w);
    if (!w) return LK_ENOMEM;
    st->alone = __atomic_load_n(&n->alone, __ATOMIC_RELAXED);
    st->wait = st->alone ? 1 : EVERY;
    w->input = c->input[0];
    w->room = n->ahead;
    lki_mutex_init(&w->lock);
    lki_condition_init(&w->filled);
    lki_condition_init(&w->emptied);
    return lki_elements_reserve(&w->queue, w->room);
}

static lk_status line_start(lki_cursor *c)
{
    prefetch_state *st = c->state;
    if (st->running) return LK_OK;
    if (!st->line) LKI_TRY(line_new(c));
    if (st->alone || st->line->over) return LK_OK;
    st->line->stopping = false;
    LKI_TRY(lki_cursor_start(c, read_ahead, st->line, &st->thread));
    st->running = true;
    return LK_OK;
}

/* Elements that it read stay in the queue. */
static void line_join(prefetch_state *st)
{
    if (!st->running) return;
    lki_mutex_take(&st->line->lock);
    st->line->stopping = true;
    lki_condition_signal(&st->line->emptied);
    lki_mutex_give(&st->line->lock);
    lki_thread_join(&st->thread);
    st->running = false;
}

static lk_status take(line *w, lki_element *out, int64_t *got)
{
    lk_status status = LK_OK;
    LKI_HOLD(&w->lock);
    while (!w->queue.count && !w->over)
        lki_condition_wait(&w->filled, &w->lock);
    if (w->queue.count) {
        *out = w->queue.item[w->queue.at];
        w->queue.at = (w->queue.at + 1) % w->room;
        w->queue.count--;
        *got = 1;
        lki_condition_signal(&w->emptied);
    } else if (w->error.code != LK_OK) {
        lki_error_put(&w->error);
        status = w->error.code;
    }
    return status;
}

/* Threads that would have to be woken do not help. The number is set only when it changes, because that takes a system call. */
static int team_now(prefetch_state *st)
{
    const int threads = lk_threads();
    if (threads != st->threads) st->team = lki_spins_for(threads) ? threads : 1;
    st->threads = threads;
    return st->team;
}

/* No thread runs: returns what is left in the queue, then makes new elements. */
static lk_status make_alone(prefetch_state *st, lki_element *out, int64_t *got)
{
    line   *w = st->line;
    int64_t took;
    if (w->queue.count || w->over) return take(w, out, got);
    lki_gather_together(team_now(st));
    const lk_status status = make_one(w, out, got, &took);
    lki_gather_together(1);
    LKI_TRY(status);
    w->making += took;
    w->over = !*got;
    return LK_OK;
}

static int64_t time_of_making(line *w)
{
    LKI_HOLD(&w->lock);
    const int64_t making = w->making;
    w->making = 0;
    return making;
}

static bool is_crowded(void) { return lk_threads() >= lki_cores(); }

/* True if making elements alone took less time, or has not been tried for long. A few elements are not enough to decide: the first
 * ones use cold caches and new memory. */
static bool was_faster_alone(lki_cursor *c, int64_t now)
{
    prefetch_node  *n = (prefetch_node *)c->dataset;
    prefetch_state *st = c->state;
    if (st->count < EVERY) return st->alone;
    __atomic_store_n(&n->pace[st->alone], (now - st->since) / st->count, __ATOMIC_RELAXED);
    const int64_t pace[] = {__atomic_load_n(&n->pace[0], __ATOMIC_RELAXED), __atomic_load_n(&n->pace[1], __ATOMIC_RELAXED)};
    if (!pace[!st->alone] || ++st->compared > TRIED_FOR) {
        st->compared = 0;
        return !st->alone;
    }
    return pace[1] <= pace[0];
}

/* From time to time, decide which thread should make elements. A consumer that began without the thread decides soon, in case
 * elements are expensive. */
static void compare_times(lki_cursor *c)
{
    prefetch_state *st = c->state;
    if (!st->line || st->count < st->wait) return;
    const int64_t making = time_of_making(st->line), now = lki_nanoseconds();
    const bool    quick = making < st->count * HANDING_ON;
    const bool    cheap = st->alone ? making * TOO_DEAR <= st->using : making * TOO_CHEAP < st->using;
    const bool    alone = quick || cheap || (is_crowded() && was_faster_alone(c, now));
    if (alone && !st->alone) line_join(st);
    st->wait = alone == st->alone && st->wait < EVERY ? 2 * st->wait : EVERY;
    st->alone = alone;
    __atomic_store_n(&((prefetch_node *)c->dataset)->alone, alone, __ATOMIC_RELAXED);
    st->count = 0;
    st->using = 0;
    st->since = now;
}

static lk_status next_one(lki_cursor *c, lki_element *out, int64_t *got)
{
    prefetch_state *st = c->state;
    LKI_TRY(line_start(c));
    return st->alone ? make_alone(st, out, got) : take(st->line, out, got);
}

static lk_status next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    prefetch_state *st = c->state;
    if (c->pipeline->looking || c->pipeline->early) return lki_cursor_next(c->input[0], want, out, got);
    if (st->left) st->using += lki_nanoseconds() - st->left;
    compare_times(c);
    for (int64_t more = 1; *got < want && more; *got += more) {
        more = 0;
        LKI_TRY(next_one(c, out + *got, &more));
        if (st->first_gone) {
            st->count++;
            continue;
        }
        time_of_making(st->line);
        st->since = lki_nanoseconds();
        st->first_gone = true;
    }
    st->left = lki_nanoseconds();
    return LK_OK;
}

static void stop(lki_cursor *c)
{
    line *w = ((prefetch_state *)c->state)->line;
    if (!w) return;
    line_join(c->state);
    for (int64_t i = 0; i < w->queue.count; i++)
        lki_rowset_drop(w->queue.item[(w->queue.at + i) % w->room].set, 1);
    lki_release(w->queue.item);
    lki_condition_destroy(&w->filled);
    lki_condition_destroy(&w->emptied);
    lki_mutex_destroy(&w->lock);
    lki_release(w);
}

/* Call this while the input is not in use; the next request for an element starts the thread again. */
static lk_status hold(lki_cursor *c, lki_elements *ahead)
{
    line *w = ((prefetch_state *)c->state)->line;
    if (!w) return LK_OK;
    line_join(c->state);
    for (int64_t i = 0; i < w->queue.count; i++)
        LKI_TRY(lki_elements_push(ahead, lki_element_retain(w->queue.item[(w->queue.at + i) % w->room])));
    lki_error_put(&w->error);
    return w->error.code;
}

static const lki_dataset_ops ops = {.name = "lk_dataset_prefetch",
                                    .state_bytes = sizeof(prefetch_state),
                                    .transparent = true,
                                    .still = lki_cursor_same,
                                    .next = next,
                                    .stop = stop,
                                    .hold = hold};

lk_dataset *lki_prefetch_node(lk_dataset *d, int elements, bool alone)
{
    prefetch_node *n = lki_dataset_new(&ops, sizeof *n, 1, &d);
    if (!n) return NULL;
    n->ahead = elements;
    n->alone = alone;
    return &n->base;
}

lk_dataset *lk_dataset_prefetch(lk_dataset *d, int elements)
{
    if (!lki_dataset_usable(ops.name, d)) return NULL;
    if (elements < 0 || elements > MOST_AHEAD)
        return lki_fail(LK_EINVAL, "%s: %d elements ahead; it must be 1 to %d, or 0 for the default", ops.name, elements,
                        MOST_AHEAD),
               NULL;
    return lki_prefetch_node(d, elements ? elements : DEFAULT_AHEAD, false);
}
