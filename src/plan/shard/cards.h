/* A plan over several cards: each runs the graph of all rows on the rows of its own lanes (shard.h), and what they sum is
 * exchanged between captured parts.
 *
 *     card 0    part 0 |          | part 1 |          | ...
 *     card 1    part 0 | exchange | part 1 | exchange | ...         one host thread gives all their work, and waits for none
 *
 * Invariants
 * 1. The bits are those of one card, however many there are: a card sums each subtree of the lane tree that lies within its lanes
 *    by itself (one of them, for 2, 4 or 8 cards), and the rest of the tree is added on every card alike, in the same order. Only
 *    where the strategy leaves the order free, and every card has one subtree, do the links sum.
 * 2. Every card has every variable, in a twin of its storage that is held (device.h), and makes every update: after a step all of
 *    them are new.
 * 3. A card that meets an index out of range stops the updates of all: whether to stop goes with the exchange before them.
 * 4. What cannot run so is refused with a reason, before anything is changed; it then runs op by op. */
#ifndef LKI_PLAN_SHARD_CARDS_H
#define LKI_PLAN_SHARD_CARDS_H

#include "plan/plan.h"
#include "plan/shard/parts.h"

typedef struct lki_cards lki_cards;

/* For a plan whose graph is that of one device. LK_OK and *out; LK_EUNSUPPORTED, no error recorded, and why not; or an error. */
lk_status lki_cards_new(lki_plan *p, lki_cards **out, char why[LKI_PARTS_WHY]);
void      lki_cards_free(lki_cards *c);

lk_status lki_cards_replay(lki_cards *c, const lki_value_list *in, lk_tensor *const *out);

size_t lki_cards_bytes(const lki_cards *c); /* of one of them */
int    lki_cards_calls(const lki_cards *c); /* launches, of one of them */

#endif
