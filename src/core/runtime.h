/* Runtimes: the settings that calls run under (lockstep/runtime.h). Each thread has one selected; without a selection it is the
 * default one.
 *
 * Invariants
 *  1. A thread that the library starts runs under the runtime of the thread that started it, and holds a reference to it; so does
 *     LK_WITH_RUNTIME. The workers of a crew hold none: they are joined when their runtime is destroyed.
 *  2. A block of memory refers to the account it was charged to, not to the runtime: an account exists until the last block charged
 *     to it is released.
 *  3. The environment is read once, at the first query of a setting of the default runtime. */
#ifndef LKI_CORE_RUNTIME_H
#define LKI_CORE_RUNTIME_H

#include "core/crew.h"
#include "core/memory.h"
#include "core/object.h"
#include "core/precision.h"

typedef struct lki_text_hook {
    lk_text_hook call; /* NULL: stdout or stderr */
    void        *user;
} lki_text_hook;

struct lk_runtime {
    lki_object     object;
    int            lanes, threads, precision; /* atomic; threads 0: as many as there are cores */
    uint64_t       seed;                      /* atomic */
    lki_text_hook  output, log;               /* guarded by a lock of log.c */
    lki_core_set   cores;
    int            core_count; /* 0: the process's */
    lk_run_pieces *run;
    void          *user; /* of run */
    lki_account   *account;
    lki_crew       crew;
    lk_runtime    *previous, *next; /* the list of all runtimes */
};

/* The runtime of this thread. The default one exists before its environment is read. */
lk_runtime *lki_runtime_now(void);

/* For threads of the library: select `r`, without a reference, until it ends. NULL: the default one. */
void lki_runtime_select(lk_runtime *r);

/* How GPUs multiply f32 for this thread now: the precision of the strategy, if it has one, else the runtime's. */
lki_precision lki_precision_now(void);

/* Set the precision of the strategy that this thread works for; LKI_PRECISIONS: it has none, or there is no strategy. */
void          lki_precision_of_strategy(lki_precision p);
lki_precision lki_precision_own(void);

/* A seed that this thread, and threads that it starts or gives jobs to, use instead of the runtime's: that of a resumed training.
 * While it is on, lk_set_random_seed() sets it too. */
typedef struct lki_own_seed {
    bool     on;
    uint64_t seed;
} lki_own_seed;
lki_own_seed lki_seed_own(void);
void         lki_seed_set_own(lki_own_seed s);

/* The current value of a hook (log.c). */
lki_text_hook lki_hook_of(const lki_text_hook *h);

/* End the idle workers of all runtimes. */
void lki_runtimes_rest(void);

#endif
