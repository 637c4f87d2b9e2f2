/* Calls that a GPU runs as one launch: a launch costs as much as a thousand small sums.
 *
 *     LKI_GROUP_UPDATES   independent updates of variables, of one slot and type: all at the same time
 *     LKI_GROUP_SMALL     calls of a few elements, of any slots, one after the other: each may read results of earlier ones
 *     LKI_GROUP_ROWS      calls along rows, one after the other, for few rows: a row of a call reads the same row of earlier calls,
 *                         and weights
 *
 * A grouped call gives the same bits as the call alone. */
#ifndef LKI_KERNEL_GROUP_H
#define LKI_KERNEL_GROUP_H

#include "kernel/kernel.h"

typedef enum lki_group { LKI_GROUP_NONE, LKI_GROUP_UPDATES, LKI_GROUP_SMALL, LKI_GROUP_ROWS, LKI_GROUPS } lki_group;

typedef struct lki_member {
    lki_slot        slot;
    lk_dtype        type;
    const lki_args *args;
} lki_member;

typedef struct lki_row_member {
    int  rows;  /* it can be joined with calls of equally many rows; 0: it cannot be joined */
    bool leads; /* only as the first member */
    /* Bit i: operand i has `rows` rows, and a row of the result only needs the same row of it. Of other operands a row may need
     * anything, so no member of the group may write them. */
    unsigned along;
} lki_row_member;

typedef struct lki_grouping {
    /* The kind of group that this call may be a member of. It depends on shapes, types and attributes only; the call may have no
     * data pointers. */
    lki_group (*of)(lki_slot slot, lk_dtype type, const lki_args *a);
    /* Whether it may also be a member of ROWS. */
    lki_row_member (*rows)(lki_slot slot, lk_dtype type, const lki_args *a);
    int most[LKI_GROUPS]; /* members of one launch */
    /* 1 <= count <= most; the first member's lki_launch says where to launch. Members that write variables that a fault must not
     * change have a `stop`. */
    void (*run[LKI_GROUPS])(int count, const lki_member *m);
} lki_grouping;

#endif
