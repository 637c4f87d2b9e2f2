/* The threads of the library: how one is started, workers that sleep between two jobs, and the crew of a runtime.
 *
 *     thread    runs one function and ends; its starter joins it: a stage of a pipeline, a writer of backups
 *     worker    sleeps until it is given a job, runs it, sleeps again
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
 * 1. Every thread of the library is started here: with all signals blocked (the user's handlers run on the user's threads), with
 *    rounding to nearest, under the runtime of the thread that starts it, and on the cores of that runtime where it has a list.
 * 2. A crew starts workers at first need. Each seat has a physical core for itself, none of them the caller's, where the runtime
 *    has cores of its own (the default one: those of the process), the system tells which those are, and there are enough.
 * 3. One run of a team at a time in a crew; others wait for their turn. Teams of different runtimes run at the same time.
 * 4. A worker that was given its last job is joined before its memory goes.
 * 5. In a forked child no thread of the parent is there: a join returns at once, and a crew begins with no workers. */
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
bool      lki_thread_is_here(const lki_thread *t); /* false: it is a thread of the parent of this process */

/* May what such a thread makes be waited for? LK_ESTATE and an error that begins with `call`: not in a forked child. */
lk_status lki_thread_check(const char *call, const lki_thread *t);

/* ---- workers ---- */

typedef struct lki_worker lki_worker;
typedef void              lki_job_fn(void *arg, int index);

typedef struct lki_crew {
    lki_mutex    turn; /* of the team */
    lki_mutex    lock; /* of what follows, except for what a run of the team uses */
    unsigned     process;
    lki_worker **seat; /* numbers 1 .. seats */
    int          seats, seat_room;
    int         *core; /* of the seats */
    int          cores;
    lki_worker  *loose;                        /* idle ones */
    _Alignas(LKI_CACHE_LINE) unsigned pending; /* seats that are not done with this run */
    unsigned sleepers;
} lki_crew;

void lki_crew_init(lki_crew *c);
void lki_crew_end(lki_crew *c); /* all idle workers end, and are joined; the crew can start new ones */

/* A list of `count` loose workers of this thread's runtime, which the caller has until it gives them back. NULL and an error that
 * begins with `call`: a thread could not be started. */
lki_worker *lki_workers_take(const char *call, int count);
void        lki_workers_give(lki_worker *list);
lki_worker *lki_worker_next(const lki_worker *w);  /* on the list; NULL: it is the last */
int         lki_worker_index(const lki_worker *w); /* of the job it was given last */

/* Give a job to a worker that has none. It may be given the next one as soon as fn has said, by some word, that it is at its end.
 * The worker watches for the job after that one for `spins`. */
void lki_worker_go(lki_worker *w, lki_job_fn *fn, void *arg, int index, unsigned spins);

/* The job of a worker of this list ended its thread (pthread_exit): take it from the list and forget it. Returns the list. */
lki_worker *lki_worker_lost(lki_worker *list, lki_worker *w);

/* ---- teams ---- */

typedef void lki_team_fn(void *arg, int thread);

/* Run fn(arg, 0) on this thread and fn(arg, t) on threads - 1 others; returns when all have, or an error when threads cannot be
 * started and none has. fn may meet at barriers of the team's size, but not run a team of more than one thread itself. Where the
 * runtime has a function of the user's for that (.run), that function runs all of them. */
lk_status lki_team_run(int threads, lki_team_fn *fn, void *arg);
bool      lki_team_runs_this(void); /* is this thread in such a run? */

#endif
