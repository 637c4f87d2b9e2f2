/* Where pieces of memory lie when calls run as their order allows: two of them share bytes only where all calls that use the one
 * end before the maker of the other begins.
 *
 * Where the block is small anyway, only pieces for which that is so already share. Where it is not, pieces share as if a call began
 * when all of the levels before it had ended, and calls are made to wait where that adds something. */
#ifndef LKI_PLAN_CARD_ROOMS_H
#define LKI_PLAN_CARD_ROOMS_H

#include "plan/card/order.h"
#include "plan/rooms.h"

enum { LKI_CARD_PLENTY = 64 << 20 }; /* bytes: what is small */

typedef struct lki_tenants { /* of all pieces; a piece's `value` is its index here */
    uint64_t *users;         /* by value, rows of the order: calls that read or write it */
    int      *maker;         /* by value: the first of them; -1: it is there from the beginning */
    bool     *kept;          /* by value: it is read after the last call */
} lki_tenants;

/* Place them, and add what calls must wait for to `o`, which is closed before and after. A room's from and to are the levels of its
 * users, -1 where it is there from the beginning. Returns the bytes of the block. */
size_t lki_card_rooms_place(lki_order *o, lki_room *rooms, int count, const lki_tenants *t, size_t plenty);

#endif
