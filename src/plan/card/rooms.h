/* Places pieces of memory for calls that may run in any sequence that their order allows. Two pieces share bytes only if all calls
 * that use one of them end before the maker of the other begins.
 *
 * If the block is small, pieces share bytes only if the order already allows it. Otherwise pieces share bytes as if every call
 * began after all calls of earlier levels had ended, and the needs that make this true are added to the order. */
#ifndef LKI_PLAN_CARD_ROOMS_H
#define LKI_PLAN_CARD_ROOMS_H

#include "plan/card/order.h"
#include "plan/rooms.h"

enum { LKI_CARD_PLENTY = 64 << 20 }; /* a block is small if it has at most this many bytes */

typedef struct lki_tenants { /* the calls that use the pieces; a piece's `value` is its index in these lists */
    uint64_t *users;         /* by value, rows of the order: calls that read or write it */
    int      *maker;         /* by value: the first of its users; -1: it exists from the beginning */
    bool     *kept;          /* by value: it is read after the last call */
} lki_tenants;

/* Places the pieces, and adds needs to `o`, which is closed before and after. `from` and `to` of a room are the first and the last
 * level of its users; `from` is -1 if the room exists from the beginning. Returns the bytes of the block. */
size_t lki_card_rooms_place(lki_order *o, lki_room *rooms, int count, const lki_tenants *t, size_t plenty);

#endif
