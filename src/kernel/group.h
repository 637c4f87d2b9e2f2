/* Calls a GPU runs as one launch: a launch costs as much as a thousand small sums.
 *
 *     LKI_GROUP_UPDATES   updates of variables, of one slot and type, that need nothing of each other: all at the same time
 *     LKI_GROUP_SMALL     calls of a few elements, of any slots, one after the other: each may need what those before it made
 *     LKI_GROUP_ROWS      calls along rows, one after the other, each of whose rows needs that same row of those before it, and
 *                         weights: where rows are few
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
    int  rows;  /* it can be joined with calls of as many rows; 0: with none */
    bool leads; /* only as the first member */
    /* Bit i: of operand i, which has so many rows, a row needs the same row; of others it may need anything, so no member makes
     * them. */
    unsigned along;
} lki_row_member;

typedef struct lki_grouping {
    /* Of which kind of group may this call be a member? Shapes, types and attributes alone tell; the call may have no data
     * pointers. */
    lki_group (*of)(lki_slot slot, lk_dtype type, const lki_args *a);
    /* May it also be a member of ROWS? */
    lki_row_member (*rows)(lki_slot slot, lk_dtype type, const lki_args *a);
    int most[LKI_GROUPS]; /* members of one launch */
    /* 1 <= count <= most; the first member's lki_launch tells where to launch. Members on whose variables a fault must leave no
     * trace have their own `stop`. */
    void (*run[LKI_GROUPS])(int count, const lki_member *m);
} lki_grouping;

#endif
