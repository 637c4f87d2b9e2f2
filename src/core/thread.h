/* A team of threads that run one function together, and the barrier they meet at.
 *
 * Invariants
 * 1. Thread 0 of a team is the caller; the others are started at first need, pinned to one physical core each, none of them the
 *    caller's, where the system tells which those are and there are enough, and sleep between runs.
 * 2. The barrier spins for about 20 microseconds, then sleeps (futex). Whoever arrives last wakes sleepers only if there are some;
 *    a sleeper announces itself before it looks at the generation for the last time, so no wake-up is lost.
 * 3. All threads compute with the same floating-point environment (round to nearest, subnormals flushed), whatever the caller's is.
 * 4. After fork() the child starts with no team; it makes its own at first need. */
#ifndef LKI_CORE_THREAD_H
#define LKI_CORE_THREAD_H

#include "core/base.h"
#include <lockstep/error.h>

typedef struct lki_barrier {
    _Alignas(LKI_CACHE_LINE) unsigned arrived;    /* atomic */
    _Alignas(LKI_CACHE_LINE) unsigned generation; /* atomic; futex word */
    unsigned sleepers;                            /* atomic */
    unsigned size;
    unsigned spins;
} lki_barrier;

void lki_barrier_init(lki_barrier *b, int size);
void lki_barrier_wait(lki_barrier *b);

/* The same by hand: return when *word is no longer `old`, after watching it `spins` times; whoever changes it calls lki_wake()
 * afterwards. With a deadline (of lki_nanoseconds(); 0: none) false when it passed first. */
bool     lki_wait_while(unsigned *word, unsigned old, unsigned *sleepers, unsigned spins, int64_t deadline);
void     lki_wake(unsigned *word, unsigned *sleepers);
unsigned lki_spins_for(int threads); /* 0 when there are more threads than cores */
int64_t  lki_nanoseconds(void);      /* of a clock that only goes forward */

typedef struct lki_team lki_team;
typedef void            lki_team_fn(void *arg, int thread);

/* The process's team of `threads`, made or enlarged at first need; good for ever. NULL and an error when threads cannot be
 * started. */
lki_team *lki_team_get(int threads);

/* Run fn(arg, 0) here and fn(arg, t) on the others; returns when all have, or an error when threads cannot be started and none has.
 * One run at a time in a process: others wait their turn. fn may meet at barriers of the team's size, but not run a team of more
 * than one thread itself. In a forked child the workers are started again; should that fail, the error is recorded and fn does not
 * run. */
lk_status lki_team_run(lki_team *team, lki_team_fn *fn, void *arg);
int       lki_team_size(const lki_team *team);
bool      lki_team_runs_this(void); /* is this thread in such a run? */

/* Cores this process may use. */
int lki_cores(void);

/* The floating-point environment of kernels: set it, remembering the caller's; put the caller's back. A few cycles when equal. */
unsigned lki_fp_enter(void);
void     lki_fp_leave(unsigned before);

#endif
