/* Map and filter: the user's function, for each element or, if possible, for many rows at once.
 *
 *     rows of a set, and a function         nothing is computed yet: the element becomes a row of a MAPPED set, and is computed
 *     that can run over many (vector.c)     together with its neighbours when its bytes are needed, mostly in batch()
 *     similar elements, same functions      they are stacked, and treated like rows
 *     anything else                         the function is called for each
 *
 * With .parallel the elements are computed by threads of this cursor, some ahead of the user, and are returned in order:
 *
 *     tasks, a ring:   | done | done | at work | waiting | waiting |   read from the input by next(), done by any worker
 *                        head                                tail
 *
 * Invariants
 *  1. `lock` guards the ring's counters, states and the error. Elements of a task belong to the worker from AT_WORK to DONE.
 *  2. Only the caller of next() reads the input. It also traces functions; workers only use what was traced. */
#include "core/lock.h"
#include "core/memory.h"
#include "data/data.h"
#include "data/save.h"
#include <string.h>

typedef struct map_node {
    lk_dataset base;
    lk_fn      fn;
    void      *user;
    int        parallel;
    void      *held; /* a reference to an object the function needs; or NULL */
} map_node;

enum { MOST_FORMS = 16, ROWS_AT_ONCE = 32, MOST_PARALLEL = 256 };

/* One kind of element that has occurred, and how the function is run on it. */
typedef struct form {
    lki_element like;   /* an element of it */
    lki_vector *vector; /* NULL: one by one */
} form;

typedef enum task_state { WAITING, AT_WORK, DONE } task_state;

typedef struct task {
    task_state  state;
    bool        failed;
    int         count, given;
    lki_element in[ROWS_AT_ONCE], out[ROWS_AT_ONCE];
} task;

typedef struct crew {
    const map_node  *node;
    lki_mutex        lock;
    lki_condition    work, done;
    lki_thread      *thread;
    int              threads;
    task            *ring;
    int              room, head, count, begun; /* tasks from head on; how many of them were begun */
    bool             stopping;
    bool             failed;
    lki_error_record error; /* of the first task that failed: those before it succeed */
    int              failed_at;
} crew;

typedef struct map_state {
    form         forms[MOST_FORMS];
    int          form_count;
    form        *last;        /* of the previous element: its form, its set, and the set it was mapped to */
    lki_rowset  *of, *mapped; /* references */
    lki_elements in;          /* scratch */
    lki_elements waiting;     /* parallel, restored: elements to process before those of the input */
    crew        *crew;
} map_state;

/* ---- one element ---- */

static lk_status call_function(const map_node *n, const lki_element *e, lki_element *out)
{
    lk_tensor *item[LKI_MOST_COLUMNS];
    lki_block  step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    LKI_TRY(step.owner ? lki_element_tensors(e, item) : LK_ENOMEM);
    const lk_tuple in = lki_tuple_new(e->set->count, item);
    if (!in.count) return LK_ENOMEM;
    const lk_tuple made = n->fn(in, n->user);
    return lk_failed() ? lk_error_code() : lki_element_of_tuple("lk_dataset_map: what the function returned", made, out);
}

/* ---- forms ---- */

static lki_vector *trace(const map_node *n, const lki_element *e)
{
    lk_tensor  *item[LKI_MOST_COLUMNS];
    lki_vector *v = NULL;
    lki_block   step = lki_step_enter();
    for (int i = 0; i < e->set->count; i++)
        if (lki_element_column(e, i).is_batch) return lki_step_leave(&step), NULL; /* it may use the rows of a batch */
    if (step.owner && lki_element_tensors(e, item) == LK_OK) v = lki_vector_of(n->fn, n->user, e->set->count, item);
    lki_step_leave(&step);
    lk_clear_error();
    return v;
}

/* The form of an element; NULL: there are too many. */
static form *form_of(lki_cursor *c, const lki_element *e)
{
    map_state *st = c->state;
    if (st->last && st->last->like.set == e->set) return st->last;
    for (int i = 0; i < st->form_count; i++)
        if (lki_elements_alike(&st->forms[i].like, e)) return st->last = &st->forms[i];
    if (st->form_count == MOST_FORMS) return NULL;
    st->forms[st->form_count] = (form){lki_element_retain(*e), trace((const map_node *)c->dataset, e)};
    return st->last = &st->forms[st->form_count++];
}

static lki_vector *vector_of(lki_cursor *c, const lki_element *e)
{
    form *f = form_of(c, e);
    return f ? f->vector : NULL;
}

/* ---- blocks ---- */

/* n rows of one set. */
static lk_status map_rows(lki_cursor *c, lki_vector *v, int64_t n, const lki_element *e, lki_element *out)
{
    map_state *st = c->state;
    if (st->of != e->set || st->mapped->vector != v) {
        lki_rowset *mapped = lki_rowset_mapped(c->dataset, e->set, v);
        if (!mapped) return LK_ENOMEM;
        lki_rowset_drop(st->of, 1);
        lki_rowset_drop(st->mapped, 1);
        st->of = lki_rowset_retain(e->set, 1);
        st->mapped = mapped;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = (lki_element){st->mapped, e[i].row};
    lki_rowset_retain(st->mapped, n);
    return LK_OK;
}

/* Similar ALONE elements, from e[0] on, as rows of a new set. */
static lk_status map_stack(lki_cursor *c, lki_vector *v, int64_t n, const lki_element *e, lki_element *out, int64_t *got)
{
    lki_rowset *set;
    LKI_TRY(lki_stack(c->dataset->ops->name, n, e, &set));
    lk_status status = LK_OK;
    for (int64_t i = 0; i < n && status == LK_OK; i++) {
        status = map_rows(c, v, 1, &(lki_element){set, i}, &out[*got]);
        if (status == LK_OK) ++*got;
    }
    lki_rowset_drop(set, 1);
    return status;
}

static int64_t alike_from(int64_t n, const lki_element *e)
{
    int64_t k = 1;
    while (k < n && e[k].row < 0 && lki_elements_alike(&e[0], &e[k]))
        k++;
    return k;
}

static int64_t rows_from(int64_t n, const lki_element *e)
{
    int64_t k = 1;
    while (k < n && e[k].set == e[0].set && e[k].row >= 0)
        k++;
    return k;
}

static lk_status map_one(lki_cursor *c, const lki_element *e, lki_element *out)
{
    if (c->pipeline->early)
        return lki_fail(LK_EUNSUPPORTED, "%s: a function that is called for each element", c->dataset->ops->name);
    return call_function((const map_node *)c->dataset, e, out);
}

static lk_status map_block(lki_cursor *c, int64_t n, const lki_element *e, lki_element *out, int64_t *got)
{
    for (int64_t i = 0, k; i < n; i += k) {
        lki_vector *v = vector_of(c, &e[i]);
        k = !v ? 1 : e[i].row < 0 ? alike_from(n - i, &e[i]) : rows_from(n - i, &e[i]);
        if (v && e[i].row >= 0) {
            LKI_TRY(map_rows(c, v, k, &e[i], &out[*got]));
            *got += k;
        } else if (k > 1) LKI_TRY(map_stack(c, v, k, &e[i], out, got));
        else {
            LKI_TRY(map_one(c, &e[i], &out[*got]));
            ++*got;
        }
    }
    return LK_OK;
}

/* Elements of the input: those that a restored iterator had read ahead come first. *got == 0: there are no more. */
static lk_status pull(lki_cursor *c, int64_t want, lki_element *in, int64_t *got)
{
    lki_elements *q = &((map_state *)c->state)->waiting;
    *got = lki_min(want, q->count);
    if (!*got) return lki_cursor_next(c->input[0], want, in, got);
    memcpy(in, q->item + q->at, (size_t)*got * sizeof *in);
    q->at += *got;
    q->count -= *got;
    return LK_OK;
}

static lk_status map_in_order(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    enum { PIECE = 4096 };
    map_state *st = c->state;
    for (int64_t have; *got < want;) {
        const int64_t piece = lki_min(want - *got, PIECE);
        LKI_TRY(lki_elements_reserve(&st->in, piece));
        LKI_TRY(pull(c, piece, st->in.item, &have));
        if (!have) break;
        lk_status status = map_block(c, have, st->in.item, out, got);
        lki_elements_drop(have, st->in.item);
        LKI_TRY(status);
    }
    return LK_OK;
}

static lk_status map_remake(lki_cursor *c, const lki_element *from, lki_element *out)
{
    int64_t got = 0;
    return map_block(c, 1, from, out, &got);
}

/* ---- in parallel ---- */

static lk_status do_task(const map_node *n, task *t)
{
    if (t->out[0].set) return lki_elements_settle(n->base.ops->name, t->count, t->out); /* mapped rows: together */
    for (int i = 0; i < t->count; i++)
        LKI_TRY(call_function(n, &t->in[i], &t->out[i]));
    return LK_OK;
}

static void finish(crew *w, int at, lk_status status)
{
    lki_error_record e;
    lki_error_take(&e);
    LKI_HOLD(&w->lock);
    task *t = &w->ring[at];
    t->state = DONE;
    t->failed = status != LK_OK;
    const int order = (at - w->head + w->room) % w->room;
    if (t->failed && (!w->failed || order < (w->failed_at - w->head + w->room) % w->room)) {
        w->failed = true;
        w->failed_at = at;
        w->error = e;
    }
    lki_condition_tell_all(&w->done);
}

static void *work(void *arg)
{
    crew *w = arg;
    for (;;) {
        lki_mutex_take(&w->lock);
        while (!w->stopping && w->begun == w->count)
            lki_condition_wait(&w->work, &w->lock);
        const bool stopping = w->stopping;
        const int  at = (w->head + w->begun) % w->room;
        if (!stopping) {
            w->begun++;
            w->ring[at].state = AT_WORK;
        }
        lki_mutex_give(&w->lock);
        if (stopping) return NULL;
        finish(w, at, do_task(w->node, &w->ring[at]));
    }
}

static lk_status crew_start(lki_cursor *c)
{
    map_state      *st = c->state;
    const map_node *n = (const map_node *)c->dataset;
    crew           *w = st->crew = lki_zalloc(sizeof *w);
    if (!w) return LK_ENOMEM;
    w->node = n;
    lki_mutex_init(&w->lock);
    lki_condition_init(&w->work);
    lki_condition_init(&w->done);
    w->room = 2 * n->parallel;
    w->ring = lki_zalloc_array(w->room, sizeof *w->ring);
    w->thread = lki_alloc_array(n->parallel, sizeof *w->thread);
    if (!w->ring || !w->thread) return LK_ENOMEM;
    for (; w->threads < n->parallel; w->threads++)
        LKI_TRY(lki_cursor_start(c, work, w, &w->thread[w->threads]));
    return LK_OK;
}

static void crew_stop(crew *w)
{
    if (!w) return;
    lki_mutex_take(&w->lock);
    w->stopping = true;
    lki_condition_tell_all(&w->work);
    lki_mutex_give(&w->lock);
    for (int i = 0; i < w->threads; i++)
        lki_thread_join(&w->thread[i]);
    for (int i = 0; w->ring && i < w->room; i++) {
        lki_elements_drop(ROWS_AT_ONCE, w->ring[i].in);
        lki_elements_drop(ROWS_AT_ONCE, w->ring[i].out);
    }
    lki_condition_destroy(&w->work);
    lki_condition_destroy(&w->done);
    lki_mutex_destroy(&w->lock);
    lki_release(w->ring);
    lki_release(w->thread);
    lki_release(w);
}

/* Rows that are computed together are one task; others are one each. Functions are traced here, on the caller's thread. */
static lk_status fill_task(lki_cursor *c, task *t)
{
    map_state *st = c->state;
    int64_t    got, mapped = 0;
    const bool together = st->last && st->last->vector && st->last->like.row >= 0;
    LKI_TRY(pull(c, together ? ROWS_AT_ONCE : 1, t->in, &got));
    t->count = (int)got;
    t->given = 0;
    t->state = WAITING;
    bool rows = got > 0;
    for (int i = 0; i < t->count && rows; i++)
        rows = t->in[i].row >= 0 && vector_of(c, &t->in[i]);
    return rows ? map_block(c, got, t->in, t->out, &mapped) : LK_OK;
}

/* Keep all workers busy. */
static lk_status refill(lki_cursor *c)
{
    crew *w = ((map_state *)c->state)->crew;
    while (w->count < w->room) {
        task *t = &w->ring[(w->head + w->count) % w->room]; /* not shared before it is counted */
        LKI_TRY(fill_task(c, t));
        if (!t->count) break;
        lki_mutex_take(&w->lock);
        w->count++;
        lki_condition_signal(&w->work);
        lki_mutex_give(&w->lock);
    }
    return LK_OK;
}

static bool wait_for_head(crew *w)
{
    lki_mutex_take(&w->lock);
    while (w->ring[w->head].state != DONE)
        lki_condition_wait(&w->done, &w->lock);
    const bool failed = w->ring[w->head].failed;
    lki_mutex_give(&w->lock);
    return !failed;
}

static void let_head_go(crew *w)
{
    task *t = &w->ring[w->head];
    lki_elements_drop(t->count, t->in);
    LKI_HOLD(&w->lock);
    w->head = (w->head + 1) % w->room;
    w->count--;
    w->begun--;
}

static lk_status map_in_parallel(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    map_state *st = c->state;
    if (!st->crew) LKI_TRY(crew_start(c));
    for (crew *w = st->crew; *got < want;) {
        LKI_TRY(refill(c));
        if (!w->count) break;
        if (!wait_for_head(w)) return lki_error_put(&w->error), w->error.code;
        task *t = &w->ring[w->head];
        for (; *got < want && t->given < t->count; t->given++) {
            out[(*got)++] = t->out[t->given];
            t->out[t->given].set = NULL;
        }
        if (t->given == t->count) let_head_go(w);
    }
    return LK_OK;
}

/* ---- the node ---- */

static lk_status map_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const bool parallel = ((const map_node *)c->dataset)->parallel > 1 && !c->pipeline->looking && !c->pipeline->early;
    return parallel ? map_in_parallel(c, want, out, got) : map_in_order(c, want, out, got);
}

static void map_stop(lki_cursor *c)
{
    map_state *st = c->state;
    crew_stop(st->crew);
    for (int i = 0; i < st->form_count; i++) {
        lki_rowset_drop(st->forms[i].like.set, 1);
        lki_vector_drop(st->forms[i].vector);
    }
    lki_rowset_drop(st->of, 1);
    lki_rowset_drop(st->mapped, 1);
    lki_elements_clear(&st->in);
    lki_elements_clear(&st->waiting);
}

/* Elements that were read ahead are saved as they came from the input; they are computed again. */
static void map_save(lki_cursor *c, lki_saver *s)
{
    map_state   *st = c->state;
    lki_elements ahead = {0};
    for (int i = 0; st->crew && i < st->crew->count && s->status == LK_OK; i++) {
        const task *t = &st->crew->ring[(st->crew->head + i) % st->crew->room];
        for (int k = t->given; k < t->count && s->status == LK_OK; k++)
            s->status = lki_elements_push(&ahead, lki_element_retain(t->in[k]));
    }
    for (int64_t i = 0; i < st->waiting.count && s->status == LK_OK; i++)
        s->status = lki_elements_push(&ahead, lki_element_retain(st->waiting.item[st->waiting.at + i]));
    lki_save_elements(s, &ahead);
    lki_elements_clear(&ahead);
}

static lk_status map_restore(lki_cursor *c, lki_loader *l)
{
    return lki_load_elements(l, INT64_MAX / 64, &((map_state *)c->state)->waiting);
}

/* The function has not been called for single elements; tracing it now may give a different result. */
static bool map_still(lki_cursor *c)
{
    const map_node  *n = (const map_node *)c->dataset;
    const map_state *st = c->state;
    bool             same = true;
    for (int i = 0; i < st->form_count && same; i++) {
        const form *f = &st->forms[i];
        lk_tensor  *item[LKI_MOST_COLUMNS];
        lki_block   step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
        same = f->vector && step.owner && lki_element_tensors(&f->like, item) == LK_OK &&
               lki_vector_still(f->vector, n->fn, n->user, f->like.set->count, item);
    }
    return same;
}

static void map_destroy(lk_dataset *d) { lki_drop(((map_node *)d)->held); }

static const lki_dataset_ops map_ops = {.name = "lk_dataset_map",
                                        .state_bytes = sizeof(map_state),
                                        .next = map_next,
                                        .stop = map_stop,
                                        .save = map_save,
                                        .restore = map_restore,
                                        .remake = map_remake,
                                        .still = map_still,
                                        .destroy = map_destroy};

lk_dataset *lk_dataset_map_kw(lk_map_args a)
{
    LKI_SCOPE_ERRORS;
    const char *call = map_ops.name;
    if (!lki_dataset_usable(call, a.dataset)) return NULL;
    if (!a.fn) return lki_fail(LK_EINVAL, "%s: the function is missing", call), NULL;
    if (a.parallel < 0 || a.parallel > MOST_PARALLEL)
        return lki_fail(LK_EINVAL, "%s: .parallel = %d; it must be 1 to %d", call, a.parallel, MOST_PARALLEL), NULL;
    map_node *n = lki_dataset_new(&map_ops, sizeof *n, 1, &a.dataset);
    if (!n) return NULL;
    n->fn = a.fn;
    n->user = a.user;
    n->parallel = a.parallel;
    return &n->base;
}

lk_dataset *lki_map_with(lk_dataset *d, lk_fn fn, void *object, int parallel)
{
    lk_dataset *map = lk_dataset_map(d, fn, .user = object, .parallel = parallel);
    if (map) ((map_node *)map)->held = lki_retain(object);
    return map;
}

/* ---- filter ---- */

typedef struct filter_node {
    lk_dataset   base;
    lk_filter_fn fn;
    void        *user;
} filter_node;

lk_status lki_element_call(const lki_element *e, lki_element_fn *fn, void *context)
{
    lk_tensor *item[LKI_MOST_COLUMNS];
    lki_block  step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    LKI_TRY(step.owner ? lki_element_tensors(e, item) : LK_ENOMEM);
    const lk_tuple t = lki_tuple_new(e->set->count, item);
    if (!t.count) return LK_ENOMEM;
    LKI_TRY(fn(t, context));
    return lk_failed() ? lk_error_code() : LK_OK;
}

typedef struct question {
    const filter_node *node;
    bool               yes;
} question;

static lk_status ask(lk_tuple t, void *context)
{
    question *q = context;
    q->yes = q->node->fn(t, q->node->user) != 0;
    return LK_OK;
}

static lk_status passes(const filter_node *n, const lki_element *e, bool *yes)
{
    question  q = {n, false};
    lk_status status = lki_element_call(e, ask, &q);
    *yes = q.yes;
    return status;
}

static lk_status filter_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    enum { PIECE = 64 };
    lki_element in[PIECE];
    for (int64_t have, piece; *got < want;) {
        piece = lki_min(PIECE, want - *got);
        LKI_TRY(lki_cursor_next(c->input[0], piece, in, &have));
        /* settled, so that an element that is looked at is computed only once */
        lk_status status = have ? lki_elements_settle(c->dataset->ops->name, have, in) : LK_OK;
        for (int64_t i = 0; i < have && status == LK_OK; i++) {
            bool yes;
            status = passes((const filter_node *)c->dataset, &in[i], &yes);
            if (status == LK_OK && yes) out[(*got)++] = lki_element_retain(in[i]);
        }
        lki_elements_drop(have, in);
        LKI_TRY(status);
        if (have < piece) break;
    }
    return LK_OK;
}

static int64_t filter_cardinality(const lk_dataset *d) { return lk_dataset_cardinality(d->input[0]) == 0 ? 0 : LK_UNKNOWN; }

static const lki_dataset_ops filter_ops = {.name = "lk_dataset_filter", .next = filter_next, .cardinality = filter_cardinality};

lk_dataset *lk_dataset_filter(lk_dataset *d, lk_filter_fn fn, void *user)
{
    LKI_SCOPE_ERRORS;
    if (!lki_dataset_usable(filter_ops.name, d)) return NULL;
    if (!fn) return lki_fail(LK_EINVAL, "%s: the function is missing", filter_ops.name), NULL;
    filter_node *n = lki_dataset_new(&filter_ops, sizeof *n, 1, &d);
    if (!n) return NULL;
    n->fn = fn;
    n->user = user;
    return &n->base;
}

/* ---- take_while: elements up to the first that does not pass ---- */

static lk_status take_while_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    for (int64_t have; *got < want; ++*got) {
        lki_element e;
        bool        yes = false;
        LKI_TRY(lki_cursor_next(c->input[0], 1, &e, &have));
        if (!have) break;
        lk_status status = lki_elements_settle(c->dataset->ops->name, 1, &e);
        if (status == LK_OK) status = passes((const filter_node *)c->dataset, &e, &yes);
        if (status == LK_OK && yes) out[*got] = e;
        else lki_elements_drop(1, &e);
        LKI_TRY(status);
        if (!yes) break;
    }
    return LK_OK;
}

static const lki_dataset_ops take_while_ops = {
    .name = "lk_dataset_take_while", .next = take_while_next, .cardinality = filter_cardinality};

lk_dataset *lk_dataset_take_while(lk_dataset *d, lk_filter_fn fn, void *user)
{
    LKI_SCOPE_ERRORS;
    if (!lki_dataset_usable(take_while_ops.name, d)) return NULL;
    if (!fn) return lki_fail(LK_EINVAL, "%s: the function is missing", take_while_ops.name), NULL;
    filter_node *n = lki_dataset_new(&take_while_ops, sizeof *n, 1, &d);
    if (!n) return NULL;
    n->fn = fn;
    n->user = user;
    return &n->base;
}
