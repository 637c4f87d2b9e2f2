/* Gradients: a tape records the ops of a computation and differentiates them in reverse.
 *
 *     lk_tape   *tape = lk_tape_begin();
 *     lk_tensor *loss = lk_reduce_mean(lk_square(lk_sub(lk_matmul(x, lk_read(w)), y)));
 *     lk_grads  *g    = lk_tape_gradient(tape, loss, LK_VARIABLES(w));
 *
 * Trainable variables are watched when they are read; other tensors after lk_tape_watch(). Tapes nest: an outer tape records the
 * ops that compute an inner tape's gradient, so gradients of gradients work. */
#ifndef LOCKSTEP_GRAD_H
#define LOCKSTEP_GRAD_H

#include "tensor.h"

LK_BEGIN

typedef struct lk_tape  lk_tape;
typedef struct lk_grads lk_grads;

typedef struct lk_tape_args {
    const char *kw_;
    lk_switch   persistent;               /* default LK_OFF: the first gradient ends the tape */
    lk_switch   watch_accessed_variables; /* default LK_ON */
} lk_tape_args;

/* Begin recording on this thread. */
#define lk_tape_begin(...) lk_tape_begin_kw(LKI_KW(lk_tape_args, __VA_ARGS__))
LK_API lk_tape *lk_tape_begin_kw(lk_tape_args args);

LK_API lk_status lk_tape_watch(lk_tape *tape, lk_tensor *t);

/* Stop recording. A persistent tape still computes gradients afterwards. Ending a tape twice does nothing. */
LK_API lk_status lk_tape_end(lk_tape *tape);

/* The gradient of the sum of `target`'s elements with respect to each variable. Ends a tape that is not persistent. */
LK_API lk_grads *lk_tape_gradient(lk_tape *tape, lk_tensor *target, lk_variables variables);

/* The same with respect to watched tensors. `upstream` (NULL: ones) weights target's elements. The gradient of a source that target
 * does not depend on is NULL. */
LK_API lk_tuple lk_tape_gradient_of(lk_tape *tape, lk_tensor *target, lk_tuple sources, lk_tensor *upstream);

/* Of several targets, each with its upstream gradient (NULL items: ones). */
LK_API lk_tuple lk_tape_gradient_of_all(lk_tape *tape, lk_tuple targets, lk_tuple sources, lk_tuple upstream);

LK_API int          lk_grads_count(const lk_grads *g);
LK_API lk_tensor   *lk_grads_item(const lk_grads *g, int i); /* NULL: target does not depend on it */
LK_API lk_variable *lk_grads_variable(const lk_grads *g, int i);

/* The same value, but gradients do not flow through it. */
LK_API lk_tensor *lk_stop_gradient(lk_tensor *t);

/* ---- checking gradients by central differences ------------------------------------------------------------------------------- */

typedef lk_tuple (*lk_fn)(lk_tuple in, void *user);

typedef struct lk_gradient_check {
    double  largest_difference; /* |recorded - numerical|, over max(1, |numerical|) */
    int     input;              /* its input and element */
    int64_t element;
} lk_gradient_check;

/* Compare the recorded gradient of the sum of fn's outputs, weighted by fixed pseudo-random weights, with central differences in
 * f64, for every element of every f64 input. LK_OK when all agree within `tolerance` (0: 1e-6) at steps of `epsilon` (0: 1e-5). */
LK_API lk_status lk_check_gradient(lk_fn fn, lk_tuple inputs, void *user, double epsilon, double tolerance,
                                   lk_gradient_check *result);

LK_END

#endif
