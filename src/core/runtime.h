/* Runtimes: what calls run under (lockstep/runtime.h). Each thread has one selected; the default one where none is.
 *
 * Invariants
 * 1. A thread that the library starts runs under the runtime of the thread that started it, and holds a reference to it; so does
 *    LK_WITH_RUNTIME. The workers of a crew hold none: they are joined when their runtime goes.
 * 2. Memory knows the account it was charged to, not the runtime: an account lives until the last block charged to it is released.
 * 3. The environment is read once, by the first question about a setting of the default runtime. */
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
    lk_runtime    *previous, *next; /* all there are */
};

/* That of this thread. The default one is there before its environment was read. */
lk_runtime *lki_runtime_now(void);

/* For threads of the library: select `r`, without a reference, until it ends. NULL: the default one. */
void lki_runtime_select(lk_runtime *r);

/* How f32 is multiplied on GPUs by what runs on this thread now: the strategy's own precision, else the runtime's. */
lki_precision lki_precision_now(void);

/* The own precision of the strategy this thread works for; LKI_PRECISIONS: it has none, or there is no strategy. */
void          lki_precision_of_strategy(lki_precision p);
lki_precision lki_precision_own(void);

/* A seed that this thread uses instead of the runtime's, and threads that it starts or gives jobs to: a resumed training's.
 * lk_set_random_seed() sets it too where it is on. */
typedef struct lki_own_seed {
    bool     on;
    uint64_t seed;
} lki_own_seed;
lki_own_seed lki_seed_own(void);
void         lki_seed_set_own(lki_own_seed s);

/* A hook as it is now (log.c). */
lki_text_hook lki_hook_of(const lki_text_hook *h);

/* End the idle workers of all runtimes. */
void lki_runtimes_rest(void);

#endif
