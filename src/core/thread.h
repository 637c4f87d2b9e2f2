/* How threads wait for each other: words they wait on, barriers; cores; and the floating-point environment of kernels. Threads
 * themselves are started by core/crew.h.
 *
 * Invariants
 *  1. A waiting thread spins for about 20 microseconds, then sleeps (futex). The thread that changes the word wakes sleepers only
 *     if there are some. A thread announces that it will sleep before it reads the word for the last time, so no wake-up is lost.
 *  2. All threads compute with the same floating-point environment (round to nearest, subnormals flushed), whatever the caller's
 *     is. */
#ifndef LKI_CORE_THREAD_H
#define LKI_CORE_THREAD_H

#include "core/base.h"
#include <lockstep/error.h>
#include <pthread.h>

typedef struct lki_barrier {
    _Alignas(LKI_CACHE_LINE) unsigned arrived;    /* atomic */
    _Alignas(LKI_CACHE_LINE) unsigned generation; /* atomic; futex word */
    unsigned sleepers;                            /* atomic */
    unsigned size;
    unsigned spins;
    unsigned process;
} lki_barrier;

void lki_barrier_init(lki_barrier *b, int size);
void lki_barrier_wait(lki_barrier *b);
void lki_barrier_renew(lki_barrier *b); /* before a run: in a forked child the counts may include threads of its parent */

/* The two halves of waiting: return when *word is no longer `old`, after watching it `spins` times; the thread that changes it
 * calls lki_wake() afterwards. With a deadline (of lki_nanoseconds(); 0: none) false if it passed first. */
bool     lki_wait_while(unsigned *word, unsigned old, unsigned *sleepers, unsigned spins, int64_t deadline);
void     lki_wake(unsigned *word, unsigned *sleepers);
unsigned lki_spins_for(int threads); /* 0 if there are more threads than cores */
int64_t  lki_nanoseconds(void);      /* of a monotonic clock */

/* Processing units, as a set. */
enum { LKI_MOST_UNITS = 1024 };
typedef struct lki_core_set {
    uint64_t bits[LKI_MOST_UNITS / 64];
} lki_core_set;

lki_core_set lki_process_cores(void);               /* those this process may use; empty: the system does not report them */
int          lki_core_count(const lki_core_set *s); /* how many; of an empty set: how many the machine has */
bool         lki_core_in(const lki_core_set *s, int unit);

/* "0-3,8" as a set, restricted to those this process may use. LK_EINVAL and an error that begins with `call`: the text is not such
 * a list, or this process may use none of them. */
lk_status lki_cores_read(const char *call, const char *text, lki_core_set *out);

/* One processing unit of each physical core in the set, that of the calling thread first: a worker that was put there would have to
 * wait until the system moves the caller away. Returns how many there are; 0: the system does not report them. */
int lki_physical_cores(const lki_core_set *s, int *core, int room);

/* Threads started with these attributes run on these units; on systems that cannot do that it has no effect. */
void lki_cores_bind(pthread_attr_t *attr, const lki_core_set *s);

/* Cores that the team of this thread's runtime may use. */
int lki_cores(void);

/* The floating-point environment of kernels: set it and return the caller's; restore the caller's. A few cycles if they are
 * equal. */
unsigned lki_fp_enter(void);
void     lki_fp_leave(unsigned before);

#endif
