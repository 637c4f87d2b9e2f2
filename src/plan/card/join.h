/* Which calls run as one launch (kernel/group.h), and in which order launches are made.
 *
 *   updates   of one slot and type, none of which comes after another: those of the gradients that are there last, and all others,
 *             which need not wait for them
 *   small     those that are wanted at the same time, counted in calls that are not small from the end: then no other call can lie
 *             between two of them, and no way becomes longer, for a small call costs next to nothing. Those that can run long
 *             before they are wanted are launched apart from those that cannot, which then need not wait for them to end; those
 *             that cannot wait at all are joined with their neighbours only: others would make them later
 *
 *   rows      a call along rows and one that needs it, where nothing lies between them; also where others then begin later: what is
 *             saved lies on the way from the first to the last
 *
 * Launches are numbered by levels: one level after the last it needs; on a level those with the longest way to the end come
 * first. */
#ifndef LKI_PLAN_CARD_JOIN_H
#define LKI_PLAN_CARD_JOIN_H

#include "kernel/group.h"
#include "plan/card/order.h"

typedef struct lki_joinable { /* a call */
    lki_group      kind;      /* what it becomes, if it becomes one of ROWS */
    int            like;      /* UPDATES: only those of one number are joined */
    lki_row_member row;
} lki_joinable;

typedef struct lki_join_rules {
    const int *most;                                        /* by kind */
    bool (*along)(const void *user, int call, int earlier); /* does all that a call needs of an earlier one go row by row? */
    const void *user;
} lki_join_rules;

/* The launch of each call; members of one run in the order of calls. Returns how many launches there are, -1 without memory.
 * `calls` is closed. */
int lki_join_calls(const lki_order *calls, lki_joinable *what, const lki_join_rules *rules, int *launch);

#endif
