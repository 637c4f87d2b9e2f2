/* Gradients that came back through a max pool, and the pooled gradients they were made of.
 *
 * Such a gradient is mostly zeros: in each window only the selected cell has an entry. Gradient rules of ops before the pool can
 * read the pooled gradient instead. If no op reads the unpooled one, a compiled step never computes it.
 *
 * Invariants
 * 1. t->pooled: the elements of t are max_pool_grad of (d, cell), whose windows neither overlap nor reach outside t.
 * 2. It is set while a tape walks back and cleared when the walk ends, so that a function sees the same tensors whether it runs
 *    directly or is traced. Two gradients for one tensor are added by an op, and the sum has no `pooled`. */
#ifndef LKI_OP_POOLED_H
#define LKI_OP_POOLED_H

#include "kernel/kernel.h"
#include "op/tensor.h"

typedef struct lki_pooled {
    lk_tensor *d, *cell; /* references */
    lk_tensor *y;        /* a reference: the pool's result for `of`; NULL if further gradient rules were applied */
    uint64_t   of;       /* id of the tensor that was pooled */
    lki_window window;
} lki_pooled;

/* max_pool_grad of (d, cell) in `shape`; the result stores the two, if the windows allow it. y, of: the result of the pool and its
 * operand, or NULL. */
lk_tensor *lki_unpool(const lki_window *window, const lk_shape *shape, lk_tensor *d, lk_tensor *cell, lk_tensor *y,
                      const lk_tensor *of);

void lki_pooled_free(lki_pooled *p); /* NULL is ignored */
void lki_pooled_forget(lk_tensor *t);

/* What g was unpooled from, if it is the gradient of x, a tensor that was pooled; else NULL. */
const lki_pooled *lki_pooled_of(const lk_tensor *g, const lk_tensor *x);

/* What g was unpooled from, if the windows are 2 x 2; else NULL. */
const lki_pooled *lki_pooled_two_by_two(const lk_tensor *g);

/* True if g was unpooled, and a sum to `shape` runs over all axes except channels. */
bool lki_sums_pixels(const lk_tensor *g, const lk_shape *shape);

#endif
