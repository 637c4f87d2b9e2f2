/* Rewrites for cards. On a card every op over a result would be a separate launch, for which others wait.
 *
 * Only lki_card_fuse_pools() changes bits, because its kernel rounds sums differently (passes_pool.c). */
#ifndef LKI_PLAN_CARD_PASSES_H
#define LKI_PLAN_CARD_PASSES_H

#include "graph/rewrite.h"
#include "plan/plan.h"

/* All rewrites of a plan on a card, those for every device among them. */
lk_status lki_card_rewrite(lki_plan *p);

/* Parts of it. */
lk_status lki_card_fuse_pools(lki_graph *g, lki_device *card);
void      lki_card_fuse_updates(lki_graph *g);

/* Is this an update by the gradient src[0], a rate and a counter only, without a sum of squares? Its first state is the
 * variable. */
bool lki_takes_gradient(const lki_node *n);

#endif
