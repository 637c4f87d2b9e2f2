/* Origins: how a value of one replica was computed from sums over its rows, so that the same can be computed from the sums over all
 * rows.
 *
 *     on replica r          f(sums over r's rows, uniform values)            f linear
 *     over all replicas     f(sums over all rows, uniform values counted once for all)
 *
 * Adding up f's results over the replicas would round in another order than one device does. So a value that is linear in sums over
 * rows stores the op that computed it. The sum over the replicas (dist/combine.c) goes back to the sums, adds those up the lane
 * tree, and computes the ops again, once: exactly what one device does. The value that a replica sees does not change.
 *
 * Origins exist only in replica context with more than one replica. */
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
    bool       uniform; /* computed only from replicas' shares of uniform values */
    int        depth;
    int        roots; /* a sum over rows whose lanes are several subtrees: all of them */
    lki_root   root[];
} lki_origin;

void lki_origin_free(lki_origin *o); /* NULL is ignored */

/* After an op ran: store the origin of its result, if the sum over the replicas can use it. */
void lki_origin_note(const lki_infer *f, lk_tensor *const *dst);

/* Linear in sums over rows: has an origin, or is such a sum. */
static inline bool lki_is_tracked(const lk_tensor *t) { return t->rows.kind == LKI_ROW_SUM || t->rows.kind == LKI_MIXED; }

/* Uniform, or computed only from shares of uniform values. */
bool lki_is_uniform(const lk_tensor *t);

/* x / N, a replica's share of a uniform value: the sum over all replicas is x. For other values a quotient. */
lk_tensor *lki_share_of(lk_tensor *x, int count);

/* True if these are exactly the rows of replica `id`'s lanes, lo up to hi. Otherwise they are a batch of this replica alone (every
 * replica has the whole batch, for example, or one it marked itself). */
bool lki_has_its_lanes(const lki_rows *m, int id, int count, int *lo, int *hi);

/* The same for this thread's replica; true if there are not several. */
bool lki_in_own_lanes(const lki_rows *m);

#endif
