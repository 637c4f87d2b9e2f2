/* Rewrites for cards, where every pass over a result is a launch of its own which others wait for.
 *
 * Of these only lki_card_fuse_pools() changes bits: the sums of its kernel round otherwise (passes_pool.c). */
#ifndef LKI_PLAN_CARD_PASSES_H
#define LKI_PLAN_CARD_PASSES_H

#include "graph/rewrite.h"
#include "plan/plan.h"

/* All rewrites of a plan on a card, those for every device among them. */
lk_status lki_card_rewrite(lki_plan *p);

/* Parts of it. */
lk_status lki_card_fuse_pools(lki_graph *g, lki_device *card);
void      lki_card_fuse_updates(lki_graph *g);

/* An update of the gradient src[0] alone, no sum of squares beside it, by rate and counter; the first state is the variable. */
bool lki_takes_gradient(const lki_node *n);

#endif
