/* Compiled steps: a function is run once per input signature while its ops are recorded, gradients and updates included; the graph
 * is planned and then replayed as a flat list of kernel calls over the lanes of the batch.
 *
 *     static lk_tuple train_step(lk_tuple batch, void *user) { ... return LK_TUPLE(loss); }
 *     lk_function *step = lk_function_of(train_step);
 *     loss = lk_item(lk_call(step, LK_TUPLE(images, labels)).item[0]);
 *
 * Inputs and results may be per-replica values and tuples made by lk_nest(): around lk_run() and lk_reduce() the whole distributed
 * step is one plan (docs/strategies.md).
 *
 * What the C function does besides ops (printing, counting, reading files) happens while tracing only. Inside, a tensor has no
 * value yet: lk_item() and lk_data() are errors there. Variables may be read, assigned and made. Results equal those of running the
 * function directly, bit for bit. A step that fails (a label out of range, say) writes no variable, except that of several scatter
 * updates those before the one that failed may have been made. While a tape of this thread records, lk_call() runs the function op
 * by op, so that gradients flow through it. */
#ifndef LOCKSTEP_STEP_H
#define LOCKSTEP_STEP_H

#include "grad.h"
#include "tensor.h"

LK_BEGIN

typedef struct lk_function lk_function;

typedef struct lk_function_args {
    const char *kw_;
    lk_fn       fn;         /* required */
    void       *user;       /* handed to fn */
    lk_integer  max_traces; /* default 32: the least recently used plan goes when there are more signatures */
    const char *name;       /* for messages; default: as fn is written in the call */
} lk_function_args;
#define lk_function_of(...) lk_function_kw(LKI_KW(lk_function_args, __VA_ARGS__), #__VA_ARGS__)
LK_API lk_function *lk_function_kw(lk_function_args args, const char *written);

/* Run it on `in`; a new signature (types, shapes, meaning of rows, lanes) is traced and planned first. Poisoned items on failure.
 * On a GPU it returns before the work is done; an error that the work meets (a label out of range) is that of the call which first
 * looks at a result, or at a variable, and names the lk_call. The results live in the current step, or in the current pool outside
 * of one. One call at a time per function. */
LK_API lk_tuple lk_call(lk_function *f, lk_tuple in);

/* How often it was traced, and what the plan for the last signature holds. */
typedef struct lk_function_info {
    int    traces;
    int    plans;
    int    ops;   /* recorded for the last signature */
    int    calls; /* kernel calls of one replay, all threads together */
    int    barriers;
    int    fused;  /* ops that became part of another */
    size_t memory; /* bytes of the memory plan */
} lk_function_info;
LK_API lk_function_info lk_function_inspect(const lk_function *f);

/* ---- traces ------------------------------------------------------------------------------------------------------------------ */

/* Record what happens from here on, in the format of Chrome's tracing (chrome://tracing, Perfetto): compute, communication and
 * input per replica and thread. lk_trace_end() writes the file. Also LOCKSTEP_TRACE=FILE: the whole process, written at its end. */
LK_API lk_status lk_trace_begin(void);
LK_API lk_status lk_trace_end(const char *path);

LK_END

#endif
