/* Origins: how a value of one replica was made of sums over its rows, so that the same can be made of the sums over all rows.
 *
 *     on replica r          f(sums over r's rows, uniform values)            f linear
 *     over all replicas     f(sums over all rows, uniform values counted once for all)
 *
 * Adding up f's results over the replicas would round in another order than one device does. So a value that is linear in sums over
 * rows remembers the op that made it; the sum over the replicas (dist/combine.c) goes back to the sums, adds those up the lane
 * tree, and does the ops again, once: exactly what one device does. The value a replica sees is not touched by any of this.
 *
 * Origins exist in replica context with more than one replica only. */
#ifndef LKI_OP_ORIGIN_H
#define LKI_OP_ORIGIN_H

#include "op/infer.h"

typedef struct lki_root { /* part of a sum over rows: one aligned subtree of the lane tree */
    lk_tensor *value;     /* a reference */
    int        lane, width;
} lki_root;

typedef struct lki_origin {
    lki_op     op;
    lki_attr   attr;
    int        nsrc;
    lk_tensor *src[2];  /* references */
    bool       uniform; /* made of replicas' shares of uniform values only */
    int        depth;
    int        roots; /* a sum over rows whose lanes are several subtrees: all of them */
    lki_root   root[];
} lki_origin;

void lki_origin_free(lki_origin *o); /* NULL is ignored */

/* After an op ran: note where its result comes from, if the sum over the replicas can make use of it. */
void lki_origin_note(const lki_infer *f, lk_tensor *const *dst);

/* Linear in sums over rows: has an origin, or is such a sum. */
static inline bool lki_is_tracked(const lk_tensor *t) { return t->rows.kind == LKI_ROW_SUM || t->rows.kind == LKI_MIXED; }

/* Uniform, or made of shares of uniform values only. */
bool lki_is_uniform(const lk_tensor *t);

/* x / N, a replica's share of something uniform: over all replicas it is x. Of anything else, a quotient. */
lk_tensor *lki_share_of(lk_tensor *x, int count);

/* Are these just the rows of replica `id`'s lanes, lo up to hi? Else (every replica has the whole batch, say, or one it marked
 * itself) they are a batch of its own. */
bool lki_has_its_lanes(const lki_rows *m, int id, int count, int *lo, int *hi);

/* The same for the replica this thread is; true where there are not several. */
bool lki_in_own_lanes(const lki_rows *m);

#endif
