/* run: the function once per replica, at the same time, and the place where replicas meet.
 *
 *     caller = replica 0        worker = replica r                 seat of each replica
 *     go ------------------->   wait for go                        RUNNING -- lki_meet --> WAITING -- all here --> RUNNING
 *     fn(args of 0)             fn(args of r)                         |                                              |
 *     wait for all  <--------   through                               +--- fn returns or ends its thread --> DONE <-+
 *
 * Invariants
 * 1. Seats change under the run's lock. The thread that changes the last RUNNING seat decides: if all are WAITING for the same
 *    call, replica 0 holds the meeting; otherwise no further replica can arrive, and the run is broken with an error that says
 *    where each replica is. So nothing waits for ever.
 * 2. The first error breaks the run; a broken run releases all waiting replicas, and every later meeting fails immediately.
 * 3. While a function is traced replicas take turns: one runs at a time, in replica order, from meeting to meeting, so that they
 *    record into one graph.
 * 4. Workers are loose ones of the runtime's crew (core/crew.h), not a strategy's.
 * 5. A function that ends its thread (pthread_exit) breaks the run like one that fails. A worker that ended is removed. If it was
 *    the caller's thread, lk_run() cannot return: the error is logged, and the thread ends when all replicas are done.
 * 6. Threads are not cancelled while they are replicas: the caller's not before the run is over, workers never. */
#include "core/crew.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/rounding.h"
#include "dist/cross.h"
#include "format/trace.h"
#include "lane/lanes.h"
#include "op/record.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef enum seat_state { RUNNING, WAITING, DONE } seat_state;

typedef struct bell { /* a word that threads wait on; it grows with every change of seats that may concern them */
    unsigned event, sleepers;
} bell;

typedef struct seat {
    seat_state      state;
    bell            bell; /* of replicas that take turns: only the one whose turn it is wakes */
    const char     *call, *detail;
    lki_meeting_fn *fn;
    void           *mine;
    lk_tuple        result; /* items are references */
    bool            ended;  /* the function ended its thread */
} seat;

struct lki_replica_run {
    lk_strategy     *strategy;
    int              count;
    lk_fn            fn;
    void            *user;
    lk_tuple         args;
    void            *pool;   /* the caller's */
    lki_tracer      *tracer; /* not NULL: replicas take turns */
    lki_mutex        lock;
    bell             bell; /* of replicas that run at the same time */
    unsigned         spins;
    int              waiting, done, turn;
    bool             meeting; /* all are here; replica 0 holds it */
    uint64_t         meetings;
    lk_status        last; /* how the last meeting ended; stays until all have left it, since the next needs all of them */
    bool             broken;
    lki_error_record cause;
    lki_error_record caller_end; /* how the function ended the caller's thread, if it did */
    void           **everyones;  /* room for the operands of a meeting */
    lki_worker      *workers;    /* of replicas count-1 .. 1 */
    seat             seat[];
};

/* ---- seats ---- */

static void break_run(lki_replica_run *run, const lki_error_record *cause)
{
    if (run->broken) return;
    run->broken = true;
    run->cause = *cause;
}

/* With the lock held: no replica is running, and not all of them wait for the same call. */
static void break_apart(lki_replica_run *run)
{
    lki_error_record e = {.code = LK_ESTATE};
    lki_text_print(e.text, sizeof e.text, "lk_run: the replicas of %s do not make the same calls together: ", run->strategy->text);
    for (int r = 0; r < run->count; r++) {
        const seat *s = &run->seat[r];
        lki_text_more(e.text, sizeof e.text, "%sreplica %d %s%s%s%s", r ? ", " : "", r, s->state == DONE ? "returned" : "waits in ",
                      s->state == DONE ? "" : s->call, s->state != DONE && s->detail ? " of " : "",
                      s->state != DONE && s->detail ? s->detail : "");
    }
    lki_text_more(e.text, sizeof e.text, "; all must take part, in the same order");
    break_run(run, &e);
}

static bool same_purpose(const seat *a, const seat *b)
{
    return !strcmp(a->call, b->call) && !strcmp(a->detail ? a->detail : "", b->detail ? b->detail : "");
}

/* With the lock held, after a seat stopped running. */
static void settle(lki_replica_run *run)
{
    if (run->waiting + run->done < run->count || !run->waiting || run->meeting) return;
    bool same = !run->done;
    for (int r = 1; r < run->count && same; r++)
        same = same_purpose(&run->seat[r], &run->seat[0]);
    if (!same) break_apart(run);
    else if (!run->broken) run->meeting = true;
}

/* With the lock held: choose the replica that continues while a function is traced. Replicas released by a broken run also
 * continue, to return. */
static void pass_turn(lki_replica_run *run, int from)
{
    if (run->meeting) {
        run->turn = 0;
        return;
    }
    for (int i = 1; i <= run->count; i++) {
        int r = (from + i) % run->count;
        if (run->seat[r].state == RUNNING || (run->seat[r].state == WAITING && run->broken)) {
            run->turn = r;
            return;
        }
    }
}

static bool may_run(const lki_replica_run *run, int r) { return !run->tracer || run->turn == r; }

typedef bool condition(const lki_replica_run *run, int r, uint64_t meeting);

static bool released(const lki_replica_run *run, int r, uint64_t meeting)
{
    bool over = run->meetings > meeting || run->broken || (r == 0 && run->meeting);
    return over && may_run(run, r);
}

static bool has_turn(const lki_replica_run *run, int r, uint64_t meeting)
{
    (void)meeting;
    return may_run(run, r);
}

static bool all_through(const lki_replica_run *run, int r, uint64_t meeting)
{
    (void)r, (void)meeting;
    return run->done == run->count;
}

/* Return with the lock held when the condition is true; false when the deadline passed first. */
static bool wait_until(lki_replica_run *run, condition *met, int r, uint64_t meeting, int64_t deadline)
{
    bell *b = run->tracer ? &run->seat[r].bell : &run->bell;
    for (;;) {
        lki_mutex_take(&run->lock);
        if (met(run, r, meeting)) return true;
        unsigned event = __atomic_load_n(&b->event, __ATOMIC_SEQ_CST);
        lki_mutex_give(&run->lock);
        if (!lki_wait_while(&b->event, event, &b->sleepers, run->spins, deadline)) {
            lki_mutex_take(&run->lock);
            return met(run, r, meeting);
        }
    }
}

static void ring(bell *b)
{
    __atomic_fetch_add(&b->event, 1, __ATOMIC_SEQ_CST);
    lki_wake(&b->event, &b->sleepers);
}

/* The lock is the last thing of the run that is touched: after the last replica the caller takes it, and then the run is gone.
 * Replica 0 waits for the end of all too. */
static void let_go(lki_replica_run *run)
{
    if (!run->tracer) ring(&run->bell);
    else ring(&run->seat[run->turn].bell);
    if (run->tracer && run->turn && run->done == run->count) ring(&run->seat[0].bell);
    lki_mutex_give(&run->lock);
}

/* ---- meetings ---- */

/* Replica 0, all others waiting, the lock not held. */
static lk_status hold_meeting(lki_replica_run *run, seat *mine)
{
    for (int r = 0; r < run->count; r++)
        run->everyones[r] = run->seat[r].mine;
    lki_context before = lki_context_cross(run->strategy);
    lki_recording_pause();   /* tapes are the replicas' own */
    lki_error_context(NULL); /* an error here belongs to all replicas */
    lk_status status = mine->fn(run->strategy, run->count, run->everyones, run->everyones[0]);
    lki_error_context(run->strategy->context[0].words);
    lki_recording_resume();
    lki_context_restore(&before);
    return status;
}

static void end_meeting(lki_replica_run *run, lk_status status)
{
    lki_error_record e;
    lki_mutex_take(&run->lock);
    run->meeting = false;
    run->meetings++;
    run->last = status;
    run->waiting = 0;
    for (int r = 0; r < run->count; r++)
        run->seat[r].state = RUNNING;
    if (status != LK_OK) {
        if (!lk_failed()) lki_fail(status, "%s failed", run->seat[0].call);
        lki_error_take(&e);
        break_run(run, &e);
    }
    let_go(run);
}

/* The cause becomes this replica's error, unless it has one. */
static lk_status broken_status(const lki_replica_run *run)
{
    lki_error_record e = run->cause;
    lk_clear_error();
    lki_error_put(&e);
    return e.code;
}

static lk_status arrive(lki_replica_run *run, int r, seat with, uint64_t *meeting)
{
    lki_mutex_take(&run->lock);
    if (lk_failed()) { /* a replica that failed before does not meet: report its error to the others */
        lki_error_record e;
        lki_error_take(&e);
        break_run(run, &e);
        lki_error_put(&e);
    }
    if (run->broken) {
        lk_status status = broken_status(run);
        let_go(run);
        return status;
    }
    *meeting = run->meetings;
    with.bell = run->seat[r].bell;
    run->seat[r] = with;
    run->waiting++;
    settle(run);
    if (run->tracer) pass_turn(run, r);
    let_go(run);
    return LK_OK;
}

static void deadline_passed(lki_replica_run *run, int r, const char *call, double limit)
{
    lki_error_record e = {.code = LK_EDEADLINE};
    lki_text_print(e.text, sizeof e.text, "%s%s: the deadline of %g seconds passed; missing:", run->strategy->context[r].words,
                   call, limit);
    for (int k = 0; k < run->count; k++)
        if (run->seat[k].state != WAITING) lki_text_more(e.text, sizeof e.text, " replica %d", k);
    break_run(run, &e);
}

/* Of the call, else of the cross-device operations, else of the strategy; 0: none. Replicas that take turns wait for each other
 * anyway. */
static double seconds_allowed(const lki_replica_run *run, double seconds)
{
    if (run->tracer || seconds > 0) return run->tracer ? 0 : seconds;
    double of_cross = run->strategy->cross->options.timeout_seconds;
    return of_cross > 0 ? of_cross : run->strategy->communication.timeout_seconds;
}

lk_status lki_meet(const char *call, const char *detail, lki_meeting_fn *fn, void *mine)
{
    return lki_meet_within(call, detail, 0, fn, mine);
}

lk_status lki_meet_within(const char *call, const char *detail, double seconds, lki_meeting_fn *fn, void *mine)
{
    lki_context      now = lki_context_now();
    lki_replica_run *run = now.run;
    uint64_t         meeting = 0;
    if (!run) return fn(now.strategy, 1, &mine, mine); /* the only replica */
    int     r = now.replica->ops.id;
    double  limit = seconds_allowed(run, seconds);
    int64_t deadline = limit > 0 && limit < 1e9 ? lki_nanoseconds() + (int64_t)(limit * 1e9) : 0;
    int64_t began = lki_span_begin();
    LKI_TRY(arrive(run, r, (seat){.state = WAITING, .call = call, .detail = detail, .fn = fn, .mine = mine}, &meeting));
    if (!wait_until(run, released, r, meeting, deadline)) {
        if (run->meeting) { /* all have arrived, and replica 0 uses their values: none may leave */
            lki_mutex_give(&run->lock);
            wait_until(run, released, r, meeting, 0);
        } else deadline_passed(run, r, call, limit);
    }
    if (r == 0 && run->meeting && !run->broken) {
        lki_mutex_give(&run->lock);
        end_meeting(run, hold_meeting(run, &run->seat[0]));
        lki_mutex_take(&run->lock);
    }
    bool held =
        run->meetings > meeting; /* whatever broke the run afterwards: what was made there is taken over, the next meeting fails */
    lk_status status = held ? run->last : LK_EPEER;
    if (status != LK_OK) status = broken_status(run);
    if (run->broken && run->seat[r].state == WAITING) {
        run->seat[r].state = RUNNING;
        run->waiting--;
    }
    let_go(run);
    lki_span_end(began, LKI_SPAN_COMMUNICATION, call, lki_lane_owner_begin(run->strategy->lanes, r, run->count));
    return status;
}

lk_tensor *lki_own(lk_tensor *t)
{
    if (lki_bad(t)) return t;
    if (lki_stands_for(t)) return lki_tuple_new(1, &t), t; /* held by a tuple of this thread's step */
    lk_tensor *own =
        t->graph ? lki_tensor_traced(t->dtype, &t->shape, &t->rows, t->graph, t->value) : lki_tensor_view(t, &t->shape);
    if (lki_bad(own)) return own;
    own->rows = t->rows;
    own->slice_rows = lki_retain(t->slice_rows);
    own->slice_ids = lki_retain(t->slice_ids);
    return own;
}

/* ---- one replica ---- */

static lk_tuple own_args(const lki_replica_run *run, int r)
{
    enum { FEW = 16 };
    lk_tensor *few[FEW] = {0}, **item = run->args.count <= FEW ? few : lki_alloc_array(run->args.count, sizeof *item);
    if (!item) return lki_tuple_new(0, NULL);
    for (int i = 0; i < run->args.count; i++)
        item[i] = lki_select(run->args.item[i], r);
    lk_tuple own = lki_tuple_new(run->args.count, item);
    if (item != few) lki_release(item);
    return own;
}

/* References that outlive the replica's step. */
static lk_status keep_result(seat *s, lk_tuple out)
{
    s->result.item = lki_alloc_array(out.count + 1, sizeof *out.item);
    if (!s->result.item) return LK_ENOMEM;
    for (int i = 0; i < out.count; i++) {
        if (out.item[i] && lki_bad(out.item[i])) return lki_poisoned_status("lk_run");
        s->result.item[s->result.count++] = lki_retain(out.item[i]);
    }
    return LK_OK;
}

/* What a thread is while it is a replica, and what it was before. */
typedef struct stay {
    lki_replica_run *run;
    int              replica;
    lki_context      before;
    lki_device      *device;
    lki_listeners    outside;
    lki_block        step;
} stay;

static void enter(stay *s, lki_replica_run *run, int r)
{
    lk_replica_context *c = &run->strategy->context[r];
    s->run = run;
    s->replica = r;
    s->before = lki_context_enter((lki_context){.kind = LKI_CONTEXT_REPLICA, .strategy = run->strategy, .replica = c, .run = run});
    s->device = lki_device_current();
    s->outside = lki_listeners_leave(); /* tapes are a replica's own */
    lki_device_set_current(c->device);
    lki_error_context(c->words);
    s->step = lki_step_enter();
}

static void leave(stay *s)
{
    lki_step_leave(&s->step);
    lki_error_context(NULL);
    lki_device_set_current(s->device);
    lki_listeners_return(&s->outside);
    lki_context_restore(&s->before);
}

/* With the lock held, which is given back: the last thing the replica does in the run. */
static void through(lki_replica_run *run, int r)
{
    run->seat[r].state = DONE;
    run->done++;
    settle(run);
    if (run->tracer) pass_turn(run, r);
    let_go(run);
}

/* A cleanup handler. It closes the blocks that the function left open, and reports the end to threads that wait for this
 * replica. */
static void thread_ends(void *arg)
{
    stay            *s = arg;
    lki_replica_run *run = s->run;
    seat            *mine = &run->seat[s->replica];
    const bool       held_meeting = mine->state == WAITING;
    lki_error_record earlier, e;
    lki_error_take(&earlier);
    lki_error_context(run->strategy->context[s->replica].words); /* which a meeting takes away */
    lki_fail(
        LK_ESTATE,
        "%s: the function ended its thread, by pthread_exit(); it must return instead, as a replica's thread is used again%s%s",
        held_meeting ? mine->call : "lk_run", earlier.code ? "; its error before that: " : "", earlier.text);
    lki_error_take(&e);
    lki_pool_close_inside(run->pool);
    leave(s);
    if (s->replica) { /* a worker has nothing more to do with it; destructors of the thread's own may still come */
        lki_tracer_set(NULL);
        lki_pool_set(NULL);
    } else run->caller_end = e;
    lki_mutex_take(&run->lock);
    break_run(run, &e);
    if (held_meeting) {
        run->meeting = false;
        run->waiting--;
    }
    mine->ended = true;
    through(run, s->replica);
}

static void call_fn(lki_replica_run *run, int r)
{
    stay s;
    enter(&s, run, r);
    pthread_cleanup_push(thread_ends, &s);
    lk_tuple out = run->fn(own_args(run, r), run->user);
    if (!lk_failed()) keep_result(&run->seat[r], out);
    pthread_cleanup_pop(0);
    leave(&s);
}

static void replica(lki_replica_run *run, int r)
{
    lki_error_record e;
    if (run->tracer) {
        wait_until(run, has_turn, r, 0, 0);
        lki_mutex_give(&run->lock);
    }
    int64_t began = run->tracer ? 0 : lki_span_begin();
    call_fn(run, r);
    lki_span_end(began, LKI_SPAN_STEP, "replica", lki_lane_owner_begin(run->strategy->lanes, r, run->count));
    lki_error_take(&e);
    lki_mutex_take(&run->lock);
    if (e.code != LK_OK) break_run(run, &e);
    through(run, r);
}

/* ---- workers ---- */

/* The run may go away as soon as its last replica is done: nothing of it is touched afterwards. The caller gives the worker back; a
 * new job may be waiting before this one has returned. */
static void work(void *arg, int r)
{
    lki_replica_run *run = arg;
    lki_pool_set(run->pool);
    lki_tracer_set(run->tracer);
    replica(run, r);
    lki_tracer_set(NULL);
    lki_pool_set(NULL);
}

static void set_going(lki_replica_run *run)
{
    int r = run->count - 1;
    for (lki_worker *w = run->workers; w; w = lki_worker_next(w)) {
        lki_worker_go(w, work, run, r--, run->spins);
    }
}

/* ---- run ---- */

static lk_tuple poisoned(void) { return lki_tuple_new(0, NULL); }

/* One tuple out of one per replica. */
static lk_tuple regroup(lki_replica_run *run)
{
    int n = run->count, count = run->seat[0].result.count;
    for (int r = 1; r < n; r++)
        if (run->seat[r].result.count != count) {
            lki_fail(LK_EINVAL, "lk_run: replica 0 returned %d values, replica %d returned %d; all must return the same structure",
                     count, r, run->seat[r].result.count);
            return poisoned();
        }
    lk_tensor **item = lki_alloc_array(n + count + 1, sizeof *item), **out = item + n;
    if (!item) return poisoned();
    bool good = true;
    for (int i = 0; i < count && good; i++) {
        for (int r = 0; r < n; r++)
            item[r] = run->seat[r].result.item[i];
        out[i] = lki_regroup(run->strategy, n, item, "lk_run");
        good = !out[i] || !lki_bad(out[i]);
    }
    lk_tuple result = good ? lki_tuple_new(count, out) : poisoned();
    lki_release(item);
    return result;
}

static void drop_results(lki_replica_run *run)
{
    for (int r = 0; r < run->count; r++) {
        for (int i = 0; i < run->seat[r].result.count; i++)
            lki_drop(run->seat[r].result.item[i]);
        lki_release(run->seat[r].result.item);
    }
}

/* Return when all replicas are through; of their workers, those whose threads ended are gone. */
static void wait_for_all(lki_replica_run *run)
{
    wait_until(run, all_through, 0, 0, 0);
    lki_mutex_give(&run->lock);
    for (lki_worker *w = run->workers, *next; w; w = next) {
        next = lki_worker_next(w);
        if (run->seat[lki_worker_index(w)].ended) run->workers = lki_worker_lost(run->workers, w);
    }
    lki_workers_give(run->workers);
}

static void free_run(lki_replica_run *run)
{
    drop_results(run);
    lki_mutex_destroy(&run->lock);
    lki_release(run->everyones);
    lki_release(run);
}

/* A cleanup handler, after thread_ends() of replica 0. */
static void caller_ends(void *arg)
{
    lki_replica_run *run = arg;
    wait_for_all(run);
    const bool first = !strcmp(run->cause.text, run->caller_end.text);
    lki_warn("%s; this was the calling thread, so lk_run() cannot return the error%s%s", run->caller_end.text,
             first ? "" : "; before that: ", first ? "" : run->cause.text);
    free_run(run);
}

static lk_tuple run_together(lki_replica_run *run)
{
    LKI_SCOPE_ERRORS; /* an older error of the caller is not replica 0's */
    int cancel;
    run->workers = lki_workers_take("lk_run", run->count - 1);
    if (!run->workers) return poisoned();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    set_going(run);
    pthread_cleanup_push(caller_ends, run);
    replica(run, 0);
    pthread_cleanup_pop(0);
    wait_for_all(run);
    if (run->broken) lki_error_put(&run->cause);
    lk_tuple out = run->broken ? poisoned() : regroup(run);
    pthread_setcancelstate(cancel, NULL);
    return out;
}

/* Tapes belong to threads: one begun by the caller cannot see what the replicas compute on theirs. */
static void warn_of_outer_tape(void)
{
    static int warned; /* atomic */
    if (lki_recorders() && !__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
        lki_warn("a tape begun outside lk_run() does not record what several replicas compute; begin it in the function given to "
                 "lk_run()");
}

static lk_tuple run_many(const lk_run_args *a)
{
    warn_of_outer_tape();
    lk_strategy     *s = a->strategy;
    lki_replica_run *run = lki_zalloc(lki_bytes_add(sizeof *run, lki_bytes_of(s->replicas, sizeof run->seat[0])));
    if (!run || !(run->everyones = lki_alloc_array(s->replicas, sizeof *run->everyones))) return lki_release(run), poisoned();
    run->strategy = s;
    run->count = s->replicas;
    run->fn = a->fn;
    run->user = a->user;
    run->args = a->args;
    run->pool = lki_pool_current();
    run->tracer = lki_tracer_current();
    run->spins = lki_spins_for(run->count);
    lki_mutex_init(&run->lock);
    lk_tuple out = run_together(run);
    free_run(run);
    return out;
}

/* One replica: the function is called here and now. */
static lk_tuple run_one(const lk_run_args *a)
{
    lk_strategy           *s = a->strategy;
    const lki_context_kind kind = s->kind == LKI_STRATEGY_DEFAULT ? LKI_CONTEXT_DEFAULT : LKI_CONTEXT_REPLICA;
    lki_context            before = lki_context_enter((lki_context){.kind = kind, .strategy = s, .replica = s->context});
    lki_replica_run        run = {.args = a->args};
    bool                   wrapped = false;
    for (int i = 0; i < a->args.count; i++)
        wrapped = wrapped || (a->args.item[i] && lki_stands_for(a->args.item[i]));
    lk_tuple out = a->fn(wrapped ? own_args(&run, 0) : a->args, a->user);
    lki_context_restore(&before);
    return out;
}

static lk_status check_args(const lk_run_args *a)
{
    LKI_TRY(lki_need_cross("lk_run", a->strategy));
    if (!a->fn) return lki_fail(LK_EINVAL, "lk_run: the function is missing");
    if (a->args.count < 0 || (a->args.count && !a->args.item))
        return lki_fail(LK_EINVAL, "lk_run: args is not a tuple; make one with LK_TUPLE(...)");
    for (int i = 0; i < a->args.count; i++) {
        const lk_tensor *t = a->args.item[i];
        if (t && lki_bad(t)) return lki_poisoned_operand("lk_run", i), lk_error_code();
        LKI_TRY(lki_check_replicas("lk_run", "argument", i, a->strategy, t));
    }
    return LK_OK;
}

lk_tuple lk_run_kw(lk_run_args args)
{
    LKI_NEAREST;
    if (check_args(&args) != LK_OK) return poisoned();
    lki_trace_replicas(args.strategy->replicas, args.strategy->lanes);
    return args.strategy->replicas == 1 ? run_one(&args) : run_many(&args);
}
