/* A plan on a GPU: its nodes, captured as one graph of the card. The kernel of a node runs over all rows. If it sums over rows, it
 * sums lane by lane.
 *
 *   order     A node waits for the nodes that make its operands. A node that writes a variable also waits for all nodes that read
 *             the value it overwrites, and for all that may meet an index out of range. The captured graph has no other waits.
 *   launches  Several small nodes, or several updates, are one launch (join.h).
 *   memory    One block of the card holds inputs, outputs, results of nodes and scratch. Two of these share bytes if the last use
 *             of one comes before the other is made (rooms.h).
 *   replay    Inputs are copied into the block, launches run, outputs are copied out of it. No thread waits for the card. The first
 *             replay makes the launches one by one, the second captures them, and all later ones launch the captured graph. If
 *             inputs lie at addresses that were seen before, a variant of the captured graph reads them there (ways.c).
 *   faults    A call that meets an index out of range writes its code into a word of the card. Updates of this replay and of later
 *             ones read the word, and do nothing until the error is reported. The last copy of a replay brings the word to the
 *             host, so the error belongs to the replay that met it (device/gpu/work.c).
 *   host      Functions of the user, and ops for which the card has no kernel, run on the CPU between two captured parts. */
#ifndef LKI_PLAN_CARD_CARD_H
#define LKI_PLAN_CARD_CARD_H

#include "lane/lanes.h"
#include "plan/plan.h"

typedef struct lki_card lki_card;

/* What a card needs if it is one of several members (plan/member.h, plan/shard/executor.c). */
typedef struct lki_card_share {
    const lki_subtree *trees;  /* by node: the lanes it sums over */
    char             **placed; /* by root value: its address outside the block; NULL: it lies in the block */
    const lki_bond    *bond;   /* the bond of the members' group (comm/comm.h) */
} lki_card_share;

typedef struct lki_card_args {
    const lki_graph      *graph;
    lki_device           *device;
    const int            *order; /* nodes in the order in which they run; read until lki_card_new() returns */
    int                   order_count;
    const lki_card_share *share; /* NULL: it is the only member */
} lki_card_args;

/* Makes a plan, which the caller owns. NULL and an error. */
lki_card *lki_card_new(const lki_card_args *args);
void      lki_card_free(lki_card *c); /* NULL is ignored */

/* Replays the plan. `call`: the number of the function's call, for messages. Outputs are pending afterwards. */
lk_status lki_card_replay(lki_card *c, int64_t call, const lki_value_list *in, lk_tensor *const *out);

size_t lki_card_bytes(const lki_card *c);
int    lki_card_calls(const lki_card *c); /* the number of launches */

#endif
