/* The team, the barrier, cores and the floating-point environment; see thread.h for the invariants.
 *
 * All teams of a process share one set of workers; a team is a number of them, so a pointer to one stays good when another size is
 * asked for. Everything is in static storage: a worker that is on its way back to sleep never touches memory that went away.
 *
 *     caller                        worker t                       words and who waits on them
 *     publish job, pending = n-1    sleep while go[t] is old       go[t]    the worker
 *     go[t] += 1, wake ------------> run job                       pending  the caller
 *     run job as thread 0           pending -= 1, last one wakes   generation of a barrier: its threads
 *     sleep while pending > 0 <-----                                                                      */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* affinity, sched_getcpu */
#endif
#include "core/thread.h"
#include "core/error.h"
#include "core/open.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

enum { MAX_THREADS = 1024 };

/* ---- waiting --------------------------------------------------------------------------------------------------------------- */

#ifdef __linux__
static void word_sleep_for(unsigned *word, unsigned value, int64_t nanoseconds)
{
    struct timespec limit = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nanoseconds > 0 ? &limit : NULL, NULL, 0);
}
static void word_sleep(unsigned *word, unsigned value) { word_sleep_for(word, value, 0); }
static void word_wake(unsigned *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0); }
#else
static void word_sleep(unsigned *word, unsigned value)
{
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == value) sched_yield();
}
static void word_sleep_for(unsigned *word, unsigned value, int64_t nanoseconds)
{
    (void)nanoseconds;
    word_sleep(word, value);
}
static void word_wake(unsigned *word) { (void)word; }
#endif

static inline void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int64_t lki_nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* How long a thread watches a word before it sleeps. A sleep and the wake-up after it take 5 to 20 microseconds: threads that gave
 * up sooner would fall asleep at every barrier for no better reason than that the others were just waking up (measured with two
 * threads, spins of 1, 4 and 20 microseconds: a barrier takes 900-6000, 80-400 and 40-80 nanoseconds). */
enum { SPIN_NANOSECONDS = 20000, MOST_SPINS = 1 << 16 };

/* Between two runs a worker watches longer: what a training loop does between two steps often takes 20 microseconds and more. */
enum { PATIENCE = 5 };

/* A pause takes 4 to 140 cycles, depending on the processor; measured once, the shortest of a few tries. */
static unsigned spins_measured;

static void measure_spins(void)
{
    enum { PAUSES = 64, TRIES = 8 };
    int64_t shortest = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t before = lki_nanoseconds();
        for (int k = 0; k < PAUSES; k++)
            pause_core();
        shortest = lki_min(shortest, lki_nanoseconds() - before);
    }
    spins_measured = (unsigned)lki_min((int64_t)SPIN_NANOSECONDS * PAUSES / lki_max(shortest, 1), MOST_SPINS);
}

/* Spinning helps only where the one waited for has a core of its own. */
static unsigned spins_for(int threads)
{
    static pthread_once_t measured = PTHREAD_ONCE_INIT;
    pthread_once(&measured, measure_spins);
    return threads <= lki_cores() ? spins_measured : 0;
}

/* Return when *word is no longer `old`. */
static void wait_while(unsigned *word, unsigned old, unsigned *sleepers, unsigned spins)
{
    for (unsigned i = 0; i < spins; i++) {
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != old) return;
        pause_core();
    }
    __atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == old)
        word_sleep(word, old);
    __atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
}

bool lki_wait_while(unsigned *word, unsigned old, unsigned *sleepers, unsigned spins, int64_t deadline)
{
    if (!deadline) {
        wait_while(word, old, sleepers, spins);
        return true;
    }
    __atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
    int64_t left;
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == old && (left = deadline - lki_nanoseconds()) > 0)
        word_sleep_for(word, old, left);
    __atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(word, __ATOMIC_SEQ_CST) != old;
}

/* To be called after *word was changed. */
static void wake(unsigned *word, unsigned *sleepers)
{
    if (__atomic_load_n(sleepers, __ATOMIC_SEQ_CST)) word_wake(word);
}

void lki_wake(unsigned *word, unsigned *sleepers) { wake(word, sleepers); }

unsigned lki_spins_for(int threads) { return spins_for(threads); }

/* ---- barrier --------------------------------------------------------------------------------------------------------------- */

void lki_barrier_init(lki_barrier *b, int size) { *b = (lki_barrier){.size = (unsigned)size, .spins = spins_for(size)}; }

void lki_barrier_wait(lki_barrier *b)
{
    unsigned generation = __atomic_load_n(&b->generation, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) < b->size) {
        wait_while(&b->generation, generation, &b->sleepers, b->spins);
        return;
    }
    __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&b->generation, 1, __ATOMIC_SEQ_CST);
    wake(&b->generation, &b->sleepers);
}

/* ---- cores ----------------------------------------------------------------------------------------------------------------- */

/* Those of the first thread of the process: a worker that asks is itself bound to one. */
static int count_cores(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(getpid(), sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 ? (int)cores : 1;
}

/* Counted once: every step asks, and the system takes its time. */
int lki_cores(void)
{
    static int known;
    int        cores = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!cores) __atomic_store_n(&known, cores = count_cores(), __ATOMIC_RELAXED);
    return cores;
}

#ifdef __linux__
/* The first of the processing units in `set` that share a core with `unit`, by the kernel's list of them, as "0,8-9"; -1: it has
 * none. */
static int first_of_core(int unit, const cpu_set_t *set)
{
    char path[96], text[1024] = "", *at = text;
    int  first = -1;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", unit);
    const int file = lki_open(path, O_RDONLY);
    if (file < 0) return -1;
    if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
    close(file);
    while (first < 0 && *at >= '0' && *at <= '9') {
        long from = strtol(at, &at, 10), to = *at == '-' ? strtol(at + 1, &at, 10) : from;
        for (; from <= to && from < CPU_SETSIZE && first < 0; from++)
            if (CPU_ISSET((size_t)from, set)) first = (int)from;
        at += *at == ',';
    }
    return first;
}

/* One processing unit of each physical core this process may use, that of the caller first: a worker that was put there would have
 * to wait until the system moves the caller away. Returns how many there are; 0: the system does not tell. */
static int physical_cores(int *core, int room)
{
    cpu_set_t set;
    int       count = 0, unit = sched_getcpu();
    if (sched_getaffinity(getpid(), sizeof set, &set) != 0) return 0;
    const int own = unit >= 0 && CPU_ISSET((size_t)unit, &set) ? first_of_core(unit, &set) : -1;
    if (own >= 0) core[count++] = own;
    for (unit = 0; unit < CPU_SETSIZE && count < room; unit++) {
        if (!CPU_ISSET((size_t)unit, &set)) continue;
        const int first = first_of_core(unit, &set);
        if (first < 0) return 0;
        if (first == unit && first != own) core[count++] = unit;
    }
    return count;
}
#else
static int physical_cores(int *core, int room)
{
    (void)core, (void)room;
    return 0;
}
#endif

/* ---- floating-point environment -------------------------------------------------------------------------------------------- */

#if defined(__SSE__)
#include <xmmintrin.h>

enum {
    CSR_FLAGS = 0x003f,  /* what happened, as opposed to what is wanted */
    CSR_KERNEL = 0x9fc0, /* flush to zero, denormals are zero, round to nearest, all exceptions masked */
};

unsigned lki_fp_enter(void)
{
    unsigned before = _mm_getcsr();
    if ((before & ~(unsigned)CSR_FLAGS) != CSR_KERNEL) _mm_setcsr(CSR_KERNEL);
    return before;
}

void lki_fp_leave(unsigned before)
{
    if ((before & ~(unsigned)CSR_FLAGS) != CSR_KERNEL) _mm_setcsr(before);
}
#else
unsigned lki_fp_enter(void) { return 0; }
void     lki_fp_leave(unsigned before) { (void)before; }
#endif

/* ---- team ------------------------------------------------------------------------------------------------------------------ */

struct lki_team { /* number n of the table below is the team of n threads; there is nothing else to know about it */
    char place;
};

typedef struct worker {
    _Alignas(LKI_CACHE_LINE) unsigned go; /* futex word; grows by one per run */
    unsigned sleepers;                    /* 0 or 1 */
    unsigned spins;
} worker;

static struct {
    pthread_mutex_t turn;    /* one run at a time, and none while workers are started */
    unsigned        process; /* grows by one in a forked child */
    int             workers; /* how many run: 1 .. workers; 0 is the caller. Atomic */
    int             cores;   /* physical ones; -1: not asked for yet */
    lki_team_fn    *fn;
    void           *arg;
    _Alignas(LKI_CACHE_LINE) unsigned pending; /* futex word; workers of this run that are not through */
    unsigned sleepers;
} crew = {.turn = PTHREAD_MUTEX_INITIALIZER, .cores = -1};

static worker             workers[MAX_THREADS];
static int                core_of[MAX_THREADS];
static lki_team           teams[MAX_THREADS + 1];
static _Thread_local bool inside_run;

/* In a forked child the workers are gone, and whoever held the turn is gone or is the one thread left. */
static void forget_crew(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    crew.turn = fresh;
    crew.process++;
    crew.workers = 0;
    crew.cores = -1;
    crew.pending = crew.sleepers = 0;
    inside_run = false;
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, forget_crew); }

static void *work(void *index)
{
    int     t = (int)(intptr_t)index;
    worker *w = &workers[t];
    lki_fp_enter();
    inside_run = true;
    for (unsigned seen = 0;; seen++) {
        wait_while(&w->go, seen, &w->sleepers, w->spins);
        crew.fn(crew.arg, t);
        if (__atomic_sub_fetch(&crew.pending, 1, __ATOMIC_SEQ_CST) == 0) wake(&crew.pending, &crew.sleepers);
    }
    return NULL;
}

/* Worker t gets core t of the list for itself where a team of `threads` has a core for everyone; the caller's thread is not ours to
 * move. */
static void place_worker(pthread_attr_t *attr, int t, int threads)
{
    if (crew.cores < 0) crew.cores = physical_cores(core_of, MAX_THREADS);
    if (threads > crew.cores) return;
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core_of[t], &set);
    pthread_attr_setaffinity_np(attr, sizeof set, &set);
#else
    (void)attr, (void)t;
#endif
}

/* The user's signal handlers run on the user's threads: workers block all signals. */
static int start_worker(int t, int threads)
{
    pthread_t      thread;
    pthread_attr_t attr;
    sigset_t       all, before;
    workers[t] = (worker){.spins = PATIENCE * spins_for(threads)};
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    place_worker(&attr, t, threads);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&thread, &attr, work, (void *)(intptr_t)t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return failure;
}

static lk_status start_workers(int threads)
{
    for (int t = crew.workers + 1; t < threads; t++) {
        int failure = start_worker(t, threads);
        if (failure) return lki_fail(LK_EDEVICE, "threads: starting number %d of %d failed: %s", t + 1, threads, strerror(failure));
        __atomic_store_n(&crew.workers, t, __ATOMIC_RELEASE);
    }
    return LK_OK;
}

lki_team *lki_team_get(int threads)
{
    if (threads < 1 || threads > MAX_THREADS) {
        lki_fail(LK_EINVAL, "threads: a team of %d; 1 to %d are possible", threads, MAX_THREADS);
        return NULL;
    }
    lk_status status = LK_OK;
    if (__atomic_load_n(&crew.workers, __ATOMIC_ACQUIRE) < threads - 1) {
        pthread_mutex_lock(&crew.turn);
        status = start_workers(threads);
        pthread_mutex_unlock(&crew.turn);
    }
    return status == LK_OK ? &teams[threads] : NULL;
}

int lki_team_size(const lki_team *team) { return (int)(team - teams); }

static void set_workers_going(int threads)
{
    __atomic_store_n(&crew.pending, (unsigned)threads - 1, __ATOMIC_RELAXED);
    for (int t = 1; t < threads; t++) {
        worker *w = &workers[t];
        __atomic_fetch_add(&w->go, 1, __ATOMIC_SEQ_CST);
        wake(&w->go, &w->sleepers);
    }
}

static void wait_for_workers(unsigned spins)
{
    for (unsigned left; (left = __atomic_load_n(&crew.pending, __ATOMIC_ACQUIRE)) > 0;)
        wait_while(&crew.pending, left, &crew.sleepers, spins);
}

/* With the turn taken. `forked` tells that fn itself forked and this is the child: it ran alone, and the turn is nobody's. */
static void run_with_workers(int threads, lki_team_fn *fn, void *arg, bool *forked)
{
    unsigned process = crew.process;
    inside_run = true;
    crew.fn = fn;
    crew.arg = arg;
    set_workers_going(threads);
    fn(arg, 0);
    *forked = crew.process != process;
    if (!*forked) wait_for_workers(spins_for(threads));
    inside_run = false;
}

bool lki_team_runs_this(void) { return inside_run; }

static lk_status run_together(int threads, lki_team_fn *fn, void *arg)
{
    bool forked = false;
    assert(!inside_run);
    pthread_mutex_lock(&crew.turn);
    lk_status status = start_workers(threads);
    if (status == LK_OK) run_with_workers(threads, fn, arg, &forked);
    if (!forked) pthread_mutex_unlock(&crew.turn);
    return status;
}

lk_status lki_team_run(lki_team *team, lki_team_fn *fn, void *arg)
{
    int       threads = lki_team_size(team);
    unsigned  before = lki_fp_enter();
    lk_status status = LK_OK;
    if (threads == 1) fn(arg, 0);
    else status = run_together(threads, fn, arg);
    lki_fp_leave(before);
    return status;
}
