/* Where pieces of memory lie if calls run in any sequence that their order allows. Two pieces share bytes only if all calls that
 * use one of them end before the maker of the other begins.
 *
 * If the block is small, only those pieces share for which the order says so already. Otherwise pieces share as if every call began
 * after all calls of earlier levels had ended, and the needs that make this true are added to the order. */
#ifndef LKI_PLAN_CARD_ROOMS_H
#define LKI_PLAN_CARD_ROOMS_H

#include "plan/card/order.h"
#include "plan/rooms.h"

enum { LKI_CARD_PLENTY = 64 << 20 }; /* bytes of a small block */

typedef struct lki_tenants { /* of all pieces; a piece's `value` is its index here */
    uint64_t *users;         /* by value, rows of the order: calls that read or write it */
    int      *maker;         /* by value: the first of them; -1: it exists from the beginning */
    bool     *kept;          /* by value: it is read after the last call */
} lki_tenants;

/* Place the pieces, and add needs to `o`, which is closed before and after. A room's from and to are the first and last level of
 * its users; from is -1 if it exists from the beginning. Returns the bytes of the block. */
size_t lki_card_rooms_place(lki_order *o, lki_room *rooms, int count, const lki_tenants *t, size_t plenty);

#endif
