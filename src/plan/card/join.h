/* Which calls run as one launch (kernel/group.h), and in which order launches are made.
 *
 * A path is a chain of calls in which each call needs the previous one. The slack of a call is the number of calls by which it can
 * be late without making the longest path longer.
 *
 *   updates   Updates of one slot and type are joined if none of them needs another. The updates by the gradients that are ready
 *             last are one launch. All other updates are a second launch, which need not wait for those gradients.
 *   small     Small calls are joined if they have the same depth, counted in calls that are not small from the end. No other call
 *             can then lie between two of them, and the longest path does not grow, because a small call takes next to no time.
 *             Calls with much slack and calls with little are separate launches, so that the second need not wait for the first.
 *             A call without slack is joined only with calls that it needs or that need it. Any other call would delay it.
 *   rows      A call along rows is joined with a call that needs it if no call lies between them. Other calls may then begin later,
 *             but the join makes the path from the first call to the last shorter.
 *
 * Launches are numbered by levels. The level of a launch is one more than the highest level that it needs. Within a level, launches
 * with a longer path to the end come first. */
#ifndef LKI_PLAN_CARD_JOIN_H
#define LKI_PLAN_CARD_JOIN_H

#include "kernel/group.h"
#include "plan/card/order.h"

typedef struct lki_joinable { /* a call */
    lki_group      kind;      /* the kind of its launch; lki_join_calls() changes it to ROWS if it joins the call along rows */
    int            like;      /* UPDATES: only calls with equal numbers are joined */
    lki_row_member row;
} lki_joinable;

typedef struct lki_join_rules {
    const int *most;                                        /* by kind: the largest number of calls of a launch */
    bool (*along)(const void *user, int call, int earlier); /* true if a row of `call` needs only the same row of `earlier` */
    const void *user;
} lki_join_rules;

/* Writes the number of each call's launch. The calls of a launch run in the order of calls. `calls` must be closed. Returns the
 * number of launches; -1 without memory. */
int lki_join_calls(const lki_order *calls, lki_joinable *what, const lki_join_rules *rules, int *launch);

#endif
