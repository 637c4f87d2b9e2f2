/* Which calls run as one launch (kernel/group.h), and in which order launches are made.
 *
 *   updates   of one slot and type, none of which comes after another
 *   small     those that are wanted at the same time, counted in calls that are not small from the end: then no other call can lie between two of them, and no way becomes longer, for
 *             a small call costs next to nothing. Those that can run long before they are wanted are launched apart from those that cannot, which then need not wait for
 *             them to end; those that cannot wait at all are joined with their neighbours only: others would make them later
 *
 * Launches are numbered by levels: one level behind the last it needs; on a level those with the longest way to the end come first. */
#ifndef LKI_STEP_JOIN_H
#define LKI_STEP_JOIN_H

#include "kernel/group.h"
#include "step/order.h"

typedef struct lki_joinable { /* a call */
    lki_group kind;
    int       like; /* UPDATES: only those of one number are joined */
} lki_joinable;

/* The launch of each call; members of one run in the order of calls. Returns how many launches there are, -1 without memory. `calls` is closed. */
int lki_join_calls(const lki_order *calls, const lki_joinable *what, const int most[LKI_GROUPS], int *launch);

#endif
