/* Compiled steps. For each input signature, a function is run once and its ops are recorded (traced), gradients and updates
 * included. The recorded graph is planned, and each later call replays the plan as a flat list of kernel calls over the lanes of
 * the batch.
 *
 *     static lk_tuple train_step(lk_tuple batch, void *user) { ... return LK_TUPLE(loss); }
 *     lk_function *step = lk_function_of(train_step);
 *     loss = lk_item(lk_call(step, LK_TUPLE(images, labels)).item[0]);
 *
 * Inputs and results may be per-replica values and tuples made by lk_nest(). A function that calls lk_run() and lk_reduce() becomes
 * one plan for the whole distributed step (docs/strategies.md).
 *
 * What the C function does besides ops (printing, counting, reading files) happens only while it is traced. There, tensors have no
 * values yet: lk_item() and lk_data() are errors. Variables may be read, assigned and created. On CPU devices the results equal
 * those of calling the function directly, bit for bit. On GPUs they are repeatable, but may differ from a direct call by rounding,
 * because some kernels compute several ops together (docs/bits.md).
 *
 * A step that fails (for example on a label out of range) changes no variable, with one exception: of several scatter updates,
 * those before the failed one may have been made. While a tape of this thread records, lk_call() runs the function op by op, so
 * that gradients flow through it. */
#ifndef LOCKSTEP_STEP_H
#define LOCKSTEP_STEP_H

#include "grad.h"
#include "tensor.h"

LK_BEGIN

typedef struct lk_function lk_function;

typedef struct lk_function_args {
    const char *kw_;
    lk_fn       fn;         /* required */
    void       *user;       /* passed to fn */
    lk_integer  max_traces; /* default 32: with more signatures, the least recently used plan is freed */
    const char *name;       /* for messages; default: the text of the argument fn */
} lk_function_args;
#define lk_function_of(...) lk_function_kw(LKI_KW(lk_function_args, __VA_ARGS__), #__VA_ARGS__)
LK_API lk_function *lk_function_kw(lk_function_args args, const char *written);

/* Call the function on `in`. A new signature (types, shapes, which axes count rows, lanes) is traced and planned first. On failure
 * the items are poisoned. The results belong to the current step, or outside of one to the current pool. Any thread may call a
 * function; calls with the same signature take turns. */
LK_API lk_tuple lk_call(lk_function *f, lk_tuple in);

/* How often the function was traced, and the plan of its last signature. */
typedef struct lk_function_info {
    int    traces;
    int    plans;
    int    ops;   /* recorded for the last signature */
    int    calls; /* kernel calls of one replay, over all threads */
    int    barriers;
    int    fused;  /* ops merged into another op's kernel */
    size_t memory; /* bytes of the memory plan */
} lk_function_info;
LK_API lk_function_info lk_function_inspect(const lk_function *f);

/* ---- traces ------------------------------------------------------------------------------------------------------------------ */

/* Record compute, communication and input, per replica and thread, until lk_trace_end() writes them in Chrome's trace format (for
 * chrome://tracing and Perfetto). LOCKSTEP_TRACE=FILE records the whole process and writes the file when the process ends. */
LK_API lk_status lk_trace_begin(void);
LK_API lk_status lk_trace_end(const char *path);

LK_END

#endif
