/* Starting threads, workers and teams; see crew.h for the invariants. */
#define _GNU_SOURCE 1 /* affinity */
#include "core/crew.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "core/runtime.h"
#include "core/settings.h"
#include <assert.h>
#include <signal.h>
#include <string.h>

/* A seat spins longer between two runs than at a barrier: the work of a training loop between two steps often takes 20 microseconds
 * and more. */
enum { PATIENCE = 5 };

struct lki_worker {
    _Alignas(LKI_CACHE_LINE) unsigned go; /* futex word; grows by one per job */
    unsigned     sleepers, spins;
    lki_job_fn  *fn; /* NULL: the worker ends */
    void        *arg;
    int          index;
    lki_own_seed seed; /* of the thread that submitted the job */
    lki_thread   thread;
    lk_runtime  *runtime;
    lki_worker  *next;
};

/* ---- threads --------------------------------------------------------------------------------------------------------------- */

typedef struct start {
    void *(*fn)(void *);
    void        *arg;
    lk_runtime  *runtime;
    lki_own_seed seed;
} start;

static void *run_thread(void *arg)
{
    const start s = *(start *)arg;
    lki_runtime_select(s.runtime);
    lki_seed_set_own(s.seed);
    lki_release(arg);
    void *result = s.fn(s.arg);
    lki_runtime_select(NULL);
    lki_drop(s.runtime);
    return result;
}

/* On one core, or with core -1 on all cores of the runtime. */
static int start_on(const lk_runtime *r, int core, void *(*fn)(void *), void *arg, lki_thread *out)
{
    LKI_NEAREST;
    lki_core_set   cores = r->cores;
    pthread_attr_t attr;
    sigset_t       all, before;
    pthread_attr_init(&attr);
    if (core >= 0) {
        cores = (lki_core_set){0};
        cores.bits[core / 64] |= (uint64_t)1 << core % 64;
    }
    if (core >= 0 || r->core_count) lki_cores_bind(&attr, &cores);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    out->process = lki_process();
    const int failure = pthread_create(&out->id, &attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return failure;
}

lk_status lki_thread_start(const char *call, void *(*fn)(void *), void *arg, lki_thread *out)
{
    start *s = lki_alloc(sizeof *s);
    if (!s) return LK_ENOMEM;
    *s = (start){fn, arg, lki_retain(lki_runtime_now()), lki_seed_own()};
    const int failure = start_on(s->runtime, -1, run_thread, s, out);
    if (!failure) return LK_OK;
    lki_drop(s->runtime);
    lki_release(s);
    return lki_fail(LK_EDEVICE, "%s: a thread could not be started: %s", call, strerror(failure));
}

bool lki_thread_is_here(const lki_thread *t) { return t->process == lki_process(); }

void lki_thread_join(const lki_thread *t)
{
    if (lki_thread_is_here(t)) pthread_join(t->id, NULL);
}

/* ---- workers --------------------------------------------------------------------------------------------------------------- */

static void *work(void *arg)
{
    lki_worker *w = arg;
    lki_runtime_select(w->runtime);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    for (unsigned seen = 0;; seen++) {
        lki_wait_while(&w->go, seen, &w->sleepers, __atomic_load_n(&w->spins, __ATOMIC_RELAXED), 0);
        if (!w->fn) return NULL;
        lki_seed_set_own(w->seed);
        w->fn(w->arg, w->index);
    }
}

void lki_worker_go(lki_worker *w, lki_job_fn *fn, void *arg, int index, unsigned spins)
{
    w->fn = fn;
    w->arg = arg;
    w->index = index;
    w->seed = lki_seed_own();
    __atomic_store_n(&w->spins, spins, __ATOMIC_RELAXED);
    __atomic_fetch_add(&w->go, 1, __ATOMIC_SEQ_CST);
    lki_wake(&w->go, &w->sleepers);
}

static lki_worker *worker_new(const char *call, lk_runtime *r, int core)
{
    lki_worker *w = lki_zalloc(sizeof *w);
    if (!w) return NULL;
    w->runtime = r;
    const int failure = start_on(r, core, work, w, &w->thread);
    if (!failure) return w;
    lki_release(w);
    return lki_fail(LK_EDEVICE, "%s: a thread cannot be started: %s", call, strerror(failure)), NULL;
}

static void worker_end(lki_worker *w)
{
    if (lki_thread_is_here(&w->thread)) lki_worker_go(w, NULL, NULL, 0, 0);
    lki_thread_join(&w->thread);
    lki_release(w);
}

lki_worker *lki_worker_next(const lki_worker *w) { return w->next; }
int         lki_worker_index(const lki_worker *w) { return w->index; }

lki_worker *lki_worker_lost(lki_worker *list, lki_worker *w)
{
    lki_worker **at = &list;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    pthread_detach(w->thread.id);
    lki_release(w);
    return list;
}

/* ---- crews ----------------------------------------------------------------------------------------------------------------- */

void lki_crew_init(lki_crew *c)
{
    *c = (lki_crew){.process = lki_process(), .cores = -1};
    lki_mutex_init(&c->lock);
}

/* In the turn. */
static void end_workers(lki_crew *c)
{
    lki_mutex_take(&c->lock);
    lki_worker *w = c->loose, *next;
    c->loose = NULL;
    lki_mutex_give(&c->lock);
    for (; w; w = next) {
        next = w->next;
        worker_end(w);
    }
    for (int t = 1; t <= c->seats; t++)
        worker_end(c->seat[t]);
    lki_release(c->seat);
    lki_release(c->core);
    c->seat = NULL;
    c->core = NULL;
    c->seats = c->seat_room = 0;
    c->cores = -1;
}

void lki_crew_end(lki_crew *c)
{
    lki_turn_take(&c->turn);
    end_workers(c);
    lki_turn_give(&c->turn);
}

/* In a child: workers that the fork left in the parent are removed from the crew. */
static void renew(lki_crew *c)
{
    lki_turn_take(&c->turn);
    if (c->process != lki_process()) {
        end_workers(c);
        c->pending = c->sleepers = 0;
        __atomic_store_n(&c->process, lki_process(), __ATOMIC_RELEASE);
    }
    lki_turn_give(&c->turn);
}

static lki_crew *crew_here(void)
{
    lki_crew *c = &lki_runtime_now()->crew;
    if (__atomic_load_n(&c->process, __ATOMIC_ACQUIRE) != lki_process()) renew(c);
    return c;
}

lki_worker *lki_workers_take(const char *call, int count)
{
    lki_crew   *c = crew_here();
    lki_worker *list = NULL;
    for (int i = 0; i < count; i++) {
        lki_mutex_take(&c->lock);
        lki_worker *w = c->loose;
        if (w) c->loose = w->next;
        lki_mutex_give(&c->lock);
        if (!w) w = worker_new(call, lki_runtime_now(), -1);
        if (!w) return lki_workers_give(list), NULL;
        w->next = list;
        list = w;
    }
    return list;
}

void lki_workers_give(lki_worker *list)
{
    if (!list) return;
    lki_crew *c = &list->runtime->crew;
    LKI_HOLD(&c->lock);
    while (list) {
        lki_worker *next = list->next;
        list->next = c->loose;
        c->loose = list;
        list = next;
    }
}

/* ---- teams ----------------------------------------------------------------------------------------------------------------- */

typedef struct run {
    lki_team_fn *fn;
    void        *arg;
    lk_runtime  *runtime;
    int          threads;
    int          done;   /* atomic: pieces done, of those that the user's threads run */
    bool         forked; /* fn itself forked, and this is the child: it ran alone, and no thread holds the turn */
} run;

static _Thread_local bool inside_run;

bool lki_team_runs_this(void) { return inside_run; }

static void run_piece(const run *r, int t)
{
    const unsigned before = lki_fp_enter();
    inside_run = true;
    r->fn(r->arg, t);
    inside_run = false;
    lki_fp_leave(before);
}

static void seat_job(void *arg, int t)
{
    const run *r = arg;
    lki_crew  *c = &r->runtime->crew;
    run_piece(r, t); /* once this piece is counted the run may be over */
    if (__atomic_sub_fetch(&c->pending, 1, __ATOMIC_SEQ_CST) == 0) lki_wake(&c->pending, &c->sleepers);
}

/* The core for seat t; -1: any. Seats get cores of their own if the default runtime, or a runtime with a list of cores, has enough
 * for all of them. Other runtimes share those of the process. */
static int core_for(const lk_runtime *r, lki_crew *c, int t, int threads)
{
    const lki_core_set all = r->core_count ? r->cores : lki_process_cores();
    if (!r->core_count && r != lk_runtime_default()) return -1;
    if (c->cores < 0) {
        const int room = lki_core_count(&all);
        c->core = lki_alloc_array(room, sizeof *c->core);
        c->cores = c->core ? lki_physical_cores(&all, c->core, room) : 0;
    }
    return threads <= c->cores ? c->core[t] : -1;
}

/* The caller has the turn. */
static lk_status fill_seats(lk_runtime *r, lki_crew *c, int threads)
{
    if (!lki_grow((void **)&c->seat, &c->seat_room, threads, sizeof *c->seat)) return LK_ENOMEM;
    while (c->seats < threads - 1) {
        const int   t = c->seats + 1;
        lki_worker *w = worker_new("threads", r, core_for(r, c, t, threads));
        if (!w) return lk_error_code();
        c->seat[t] = w;
        c->seats = t;
    }
    return LK_OK;
}

/* The caller has the turn. */
static lk_status run_on_seats(lk_runtime *r, lki_crew *c, run *job)
{
    const unsigned process = lki_process(), spins = lki_spins_for(job->threads);
    LKI_TRY(fill_seats(r, c, job->threads));
    __atomic_store_n(&c->pending, (unsigned)job->threads - 1, __ATOMIC_RELAXED);
    for (int t = 1; t < job->threads; t++)
        lki_worker_go(c->seat[t], seat_job, job, t, PATIENCE * spins);
    run_piece(job, 0);
    job->forked = process != lki_process();
    for (unsigned left; !job->forked && (left = __atomic_load_n(&c->pending, __ATOMIC_ACQUIRE)) > 0;)
        lki_wait_while(&c->pending, left, &c->sleepers, spins, 0);
    return LK_OK;
}

/* A piece that runs on a thread of the user. */
static void users_piece(void *data, int t)
{
    run        *r = data;
    lk_runtime *before = lki_runtime_now();
    lki_runtime_select(r->runtime);
    run_piece(r, t);
    lki_runtime_select(before);
    __atomic_add_fetch(&r->done, 1, __ATOMIC_RELEASE);
}

static lk_status run_on_users_threads(const lk_runtime *r, run *job)
{
    r->run(users_piece, job, job->threads, r->user);
    const int done = __atomic_load_n(&job->done, __ATOMIC_ACQUIRE);
    return done == job->threads ? LK_OK
                                : lki_fail(LK_ESTATE, "the function .run of the runtime returned when %d of %d pieces had been run",
                                           done, job->threads);
}

lk_status lki_team_run(int threads, lki_team_fn *fn, void *arg)
{
    if (threads < 1 || threads > LKI_MAX_THREADS)
        return lki_fail(LK_EINVAL, "threads: a team of %d; 1 to %d are possible", threads, LKI_MAX_THREADS);
    run job = {.fn = fn, .arg = arg, .runtime = lki_runtime_now(), .threads = threads};
    if (threads == 1) {
        const unsigned before = lki_fp_enter();
        fn(arg, 0);
        lki_fp_leave(before);
        return LK_OK;
    }
    assert(!inside_run);
    lki_crew *c = crew_here();
    lki_turn_take(&c->turn);
    const lk_status status = job.runtime->run ? run_on_users_threads(job.runtime, &job) : run_on_seats(job.runtime, c, &job);
    if (!job.forked) lki_turn_give(&c->turn);
    return status;
}
