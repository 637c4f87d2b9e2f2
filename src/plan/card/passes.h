/* Rewrites for cards. On a card every op over a result would be a separate launch, for which others wait.
 *
 * Only lki_card_fuse_pools() changes bits, because its kernel rounds sums differently (passes_pool.c). */
#ifndef LKI_PLAN_CARD_PASSES_H
#define LKI_PLAN_CARD_PASSES_H

#include "graph/rewrite.h"
#include "plan/plan.h"

/* Makes all rewrites of a plan on a card, including those for every device. */
lk_status lki_card_rewrite(lki_plan *p);

/* Two of these rewrites. */
lk_status lki_card_fuse_pools(lki_graph *g, lki_device *card);
void      lki_card_fuse_updates(lki_graph *g);

/* True if the node is an update whose only operands are the gradient src[0], a rate and a counter, without a sum of squares. Its
 * first state is the variable. */
bool lki_takes_gradient(const lki_node *n);

#endif
