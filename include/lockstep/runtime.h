/* Runtimes: the settings that calls run under, and the threads that compute for them.
 *
 *     lk_runtime *r = lk_runtime_of(.threads = 4, .cores = "0-3", .seed = 7);
 *     LK_WITH_RUNTIME(r) { history = lk_model_fit(model, train, .epochs = 3); }
 *
 * A runtime holds the number of lanes, the seed of random numbers, the precision of GPUs, a limit of memory, the hooks for text and
 * a team of threads. Programs that never mention runtimes use the default one; LOCKSTEP_LANES, LOCKSTEP_SEED, LOCKSTEP_THREADS and
 * LOCKSTEP_PRECISION set it. lk_set_lanes(), lk_set_threads(), lk_set_random_seed(), lk_set_precision(), lk_set_output() and
 * lk_set_log() change the runtime that is selected where they are called.
 *
 * Every runtime has a team of its own: two threads under two runtimes train two models at the same time, each with the bits it has
 * alone. Objects belong to no runtime: a model made under one may be trained under another. */
#ifndef LOCKSTEP_RUNTIME_H
#define LOCKSTEP_RUNTIME_H

#include "tensor.h"

LK_BEGIN

typedef struct lk_runtime lk_runtime;

/* How GPUs multiply in products and convolutions of float32; variables, sums and everything else are float32 always. CPU devices
 * are always as accurate as float32. */
typedef enum lk_precision {
    LK_PRECISION_DEFAULT = 0, /* that of the runtime; of the default one LOCKSTEP_PRECISION (f32, tf32 or bf16), else f32 */
    LK_PRECISION_F32,         /* as accurate as float32 */
    LK_PRECISION_TF32,        /* factors rounded to 10 bits after the point: faster */
    LK_PRECISION_BF16,        /* ... to 7 bits: faster still. Their range is float32's, so losses need no scaling */
} lk_precision;

/* The caller's own pool of threads: run piece(data, 0) .. piece(data, count - 1), all of them at the same time, each on a thread of
 * its own (the calling one may be among them), and return when all have returned. Pieces wait for each other at barriers: a pool
 * that runs one after the other never returns. A runtime makes one such call at a time. */
typedef void lk_run_pieces(void (*piece)(void *data, int i), void *data, int count, void *user);

typedef struct lk_runtime_args {
    const char    *kw_;
    int            threads;      /* cores that run a compiled step; default 0: all of .cores. Never changes a result */
    int            lanes;        /* default 0: those of the current runtime */
    lk_integer     seed;         /* default: that of the current runtime */
    lk_precision   precision;    /* default: that of the current runtime */
    lk_integer     memory_limit; /* most bytes of the host's memory that what is made under it may hold; default: no limit */
    const char    *cores;        /* processing units its threads may use, as "0-3,8"; default NULL: all the process may use */
    lk_run_pieces *run;          /* the caller's own threads compute; .threads is required then: how many it can run at once */
    lk_text_hook   output;       /* as of lk_set_output(); default NULL: that of the current runtime */
    lk_text_hook   log;          /* as of lk_set_log(); likewise */
    void          *user;         /* handed to .run, .output and .log */
} lk_runtime_args;

/* Make one. Threads are started at first need. The thread that calls is never moved to other cores.
 * Owner   the current pool. lk_free() lets it go: it and its threads stay until the last LK_WITH_RUNTIME that selects it has ended
 *         and the last thread that was started under it, and memory limits hold for what was made under it as long as that lives.
 * Errors  NULL: the lanes are not a power of two, the machine does not have the cores, .run is given without .threads. */
#define lk_runtime_of(...) lk_runtime_kw(LKI_KW(lk_runtime_args, __VA_ARGS__))
LK_API lk_runtime *lk_runtime_kw(lk_runtime_args args);

/* The one calls of this thread run under. */
LK_API lk_runtime *lk_runtime_current(void);
LK_API lk_runtime *lk_runtime_default(void);

/* LK_WITH_RUNTIME(r) { ... }: calls of this thread inside run under r, and threads that the library starts for them: replicas,
 * pipelines, writers. Nests. As LK_POOL, a loop of one turn. The body does not run if r is NULL (LK_EINVAL). */
LK_API lki_block lki_runtime_enter(lk_runtime *r);
LK_API void      lki_runtime_leave(lki_block *);
#define LK_WITH_RUNTIME(r) LKI_BLOCK(LKI_ID(lki_runtime_), lki_runtime_leave, lki_runtime_enter(r))

/* The precision of the current runtime. A strategy's own comes before it. */
LK_API lk_status    lk_set_precision(lk_precision precision);
LK_API lk_precision lk_current_precision(void);

/* ---- the whole library ------------------------------------------------------------------------------------------------------- */

/* Give memory that is kept for later use back to the system, and to GPUs. Returns how many bytes. */
LK_API int64_t lk_memory_trim(void);

/* Where the library's memory on the host comes from. `allocate` returns a block of at least `bytes`, aligned to `alignment` (64),
 * or NULL; `release` is given a block and the bytes it was asked with. Both are called from any thread.
 * Errors  LK_ESTATE: the library holds memory already; call it first of all, or after all was released. */
typedef struct lk_allocator_args {
    const char *kw_;
    void *(*allocate)(size_t bytes, size_t alignment, void *user); /* both NULL: the system */
    void (*release)(void *memory, size_t bytes, void *user);
    void *user;
} lk_allocator_args;
#define lk_set_allocator(...) lk_set_allocator_kw(LKI_KW(lk_allocator_args, __VA_ARGS__))
LK_API lk_status lk_set_allocator_kw(lk_allocator_args args);

/* End: all objects of the library's pool go (those made outside of LK_POOL), all threads that wait for work are joined, kept memory
 * goes back to the system and to GPUs. The library can be used again afterwards; settings stay as they are.
 * Errors  LK_ESTATE: this thread is inside LK_POOL, LK_STEP, LK_WITH_RUNTIME or a function the library runs.
 * Order   no other thread is in a call. */
LK_API lk_status lk_shutdown(void);

LK_END

#endif
