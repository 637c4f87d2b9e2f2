/* The threads of the library: how they are started, workers that sleep between two jobs, and the crew of a runtime.
 *
 *     thread    runs one function and ends; its starter joins it: a stage of a pipeline, a writer of backups
 *     worker    sleeps until it gets a job, runs it, sleeps again
 *     team      the calling thread and seats 1 .. n-1 of its runtime's crew, which run one function together
 *     loose     workers of a crew that are lent one by one: replicas run on them
 *
 *     caller                        seat t                         words, and the thread that waits on them
 *     write jobs, pending = n-1     sleep while go is old          go       the worker
 *     go += 1, wake --------------> run the job                    pending  the caller
 *     run the job as thread 0       pending -= 1, last one wakes
 *     sleep while pending > 0 <-----
 *
 * Invariants
 *  1. Every thread of the library is started here: with all signals blocked (the user's handlers run on the user's threads), with
 *     rounding to nearest, under the runtime of the thread that starts it, and on the cores of that runtime if it has a list.
 *  2. A crew starts workers at first use. Each seat gets a physical core, none of them the caller's, if three things hold: the
 *     runtime has its own cores (the default runtime has those of the process), the system reports them, and there are enough.
 *  3. A crew runs one team function at a time; other callers wait for their turn. Teams of different runtimes run at the same time.
 *  4. A worker that got its last job is joined before its memory is released.
 *  5. The threads of the parent do not exist in a forked child: there a join returns at once, and a crew begins without workers. */
#ifndef LKI_CORE_CREW_H
#define LKI_CORE_CREW_H

#include "core/lock.h"
#include "core/thread.h"
#include <lockstep/runtime.h>

/* ---- threads ---- */

typedef struct lki_thread {
    pthread_t id;
    unsigned  process;
} lki_thread;

/* Start a thread that holds its runtime until it ends. LK_EDEVICE and an error that begins with `call`. */
lk_status lki_thread_start(const char *call, void *(*fn)(void *), void *arg, lki_thread *out);
void      lki_thread_join(const lki_thread *t);
bool      lki_thread_is_here(const lki_thread *t); /* false: it is a thread of this process's parent */

/* ---- workers ---- */

typedef struct lki_worker lki_worker;
typedef void              lki_job_fn(void *arg, int index);

typedef struct lki_crew {
    unsigned     process; /* atomic */
    lki_turn     turn;    /* to run the team, and to start and end its workers */
    lki_worker **seat;    /* numbers 1 .. seats */
    int          seats, seat_room;
    int         *core; /* of each seat */
    int          cores;
    lki_mutex    lock; /* for the list of idle ones */
    lki_worker  *loose;
    _Alignas(LKI_CACHE_LINE) unsigned pending; /* seats that have not finished this run */
    unsigned sleepers;
} lki_crew;

void lki_crew_init(lki_crew *c);
void lki_crew_end(lki_crew *c); /* idle workers end and are joined; the crew can start new ones */

/* A list of `count` loose workers of this thread's runtime; the caller returns them to the crew. NULL and an error that begins with
 * `call`: a thread could not be started. */
lki_worker *lki_workers_take(const char *call, int count);
void        lki_workers_give(lki_worker *list);
lki_worker *lki_worker_next(const lki_worker *w);  /* in the list; NULL: w is the last */
int         lki_worker_index(const lki_worker *w); /* of its last job */

/* Give a job to an idle worker. It may get the next one as soon as fn has set some word to say that it is at its end. After the job
 * the worker spins `spins` times before it sleeps. */
void lki_worker_go(lki_worker *w, lki_job_fn *fn, void *arg, int index, unsigned spins);

/* The job of a worker of this list ended its thread (pthread_exit): remove it from the list and forget it. Returns the list. */
lki_worker *lki_worker_lost(lki_worker *list, lki_worker *w);

/* ---- teams ---- */

typedef void lki_team_fn(void *arg, int thread);

/* Run fn(arg, 0) on this thread and fn(arg, t) on threads - 1 others. Returns when all have returned, or an error if threads cannot
 * be started; then fn has not run. fn may use barriers of the team's size; it may not run a team of more than one thread itself. If
 * the user gave the runtime a function for this (.run), that function runs all of them. */
lk_status lki_team_run(int threads, lki_team_fn *fn, void *arg);
bool      lki_team_runs_this(void); /* is this thread in such a run? */

#endif
