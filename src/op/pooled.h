/* Gradients that came back through a max pool, and what they were unpooled from.
 *
 * Such a gradient is mostly zeros: of each window only the cell that won has an entry. Rules of ops in front of the pool can work
 * on the pooled gradient instead, and where nobody reads the unpooled one a compiled step never makes it.
 *
 * Invariants
 * 1. t->pooled: the elements of t are max_pool_grad of (d, cell), whose windows neither overlap nor reach outside t.
 * 2. It is known while a tape walks back and forgotten when the walk ends, so that a function sees the same in what it is given
 *    whether it runs at once or is traced. Two gradients for one tensor are added by an op, whose result knows nothing of it. */
#ifndef LKI_OP_POOLED_H
#define LKI_OP_POOLED_H

#include "kernel/kernel.h"
#include "op/tensor.h"

typedef struct lki_pooled {
    lk_tensor *d, *cell; /* references */
    lk_tensor *y;        /* a reference: what the pool gave for `of`; NULL when the gradient went on from there */
    uint64_t   of;       /* id of the tensor that was pooled */
    lki_window window;
} lki_pooled;

/* max_pool_grad of (d, cell) in `shape`; it remembers the two, if the windows allow. y, of: what was pooled and what came of it, or
 * NULL. */
lk_tensor *lki_unpool(const lki_window *window, const lk_shape *shape, lk_tensor *d, lk_tensor *cell, lk_tensor *y,
                      const lk_tensor *of);

void lki_pooled_free(lki_pooled *p); /* NULL is ignored */
void lki_pooled_forget(lk_tensor *t);

/* What g was unpooled from, if it is the gradient of x, a tensor that was pooled; else NULL. */
const lki_pooled *lki_pooled_of(const lk_tensor *g, const lk_tensor *x);

/* What g was unpooled from, if by windows of 2 x 2; else NULL. */
const lki_pooled *lki_pooled_two_by_two(const lk_tensor *g);

/* Was g unpooled, and does a sum to `shape` run over all but its channels? */
bool lki_sums_pixels(const lk_tensor *g, const lk_shape *shape);

#endif
