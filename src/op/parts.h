/* Parts: what a value of one replica is made of, kept beside it as shadows, so that its sum over the replicas has the order of one device.
 *
 *     value on replica r  =  sum over r's lanes (one part per aligned subtree of the lane tree)  +  uniform / N
 *
 * The sum over all replicas is then the lane tree over all row parts, plus the uniform part once. Ops that are linear carry parts along: each part goes
 * through the op by itself. The shadows are not recorded by tapes; in a traced function those nobody uses are dropped.
 *
 * Parts exist in replica context with more than one replica only. */
#ifndef LKI_OP_PARTS_H
#define LKI_OP_PARTS_H

#include "op/infer.h"

typedef struct lki_part {
    lk_tensor *value;       /* a reference */
    int        lane, width; /* the subtree; width 0: uniform, in units of the total over all replicas */
} lki_part;

typedef struct lki_parts {
    int      refs; /* atomic */
    int      count;
    lki_part part[];
} lki_parts;

enum { LKI_MOST_PARTS = 24 };

void lki_parts_drop(lki_parts *p); /* NULL is ignored */

/* The parts of any float tensor of replica `id` of `count`: its own, or the one it is by its kind. Returns how many; 0: none are known (ROWS, LOCAL). */
int lki_parts_of(lk_tensor *t, int id, int count, lki_part *out);

/* After an op ran: give its result the parts that follow from the operands'. */
void lki_parts_follow(const lki_infer *f, lk_tensor *const *dst);

/* x / N, a replica's share: its part is x, uniform. */
lk_tensor *lki_share_of(lk_tensor *x, int count);

/* Nothing but a uniform part, or uniform altogether. */
bool lki_is_uniform(const lk_tensor *t);

#endif
