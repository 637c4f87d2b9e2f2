/* A plan on a GPU: its nodes, each a kernel over all rows that sums lane by lane itself, captured as one graph of the card.
 *
 *   order     a node waits for those that make what it reads; writers also for all that read what they write, and all that may meet
 *             an index out of range. In the captured graph it waits for nothing else
 *   launches  several small nodes, and several updates, are one launch (join.h)
 *   memory    one block of the card: inputs, outputs, what is made, and scratch. Two share bytes where the one is used for the last
 *             time before the other is made (rooms.h)
 *   replay    inputs are copied into the block, the work runs, outputs are copied out of it; no thread waits for the card. The
 *             first replay launches them one by one, the second one captures, all later ones launch what was captured; where inputs
 *             lie where they did before, a variant of it that reads them there (ways.c)
 *   faults    a call that meets an index out of range writes its code into a word of the card. Updates of this replay and of later
 *             ones read the word and do nothing until the error was told. The last copy of a replay takes the word to the host, so
 *             the error is known with the replay that met it (device/gpu/work.c)
 *   host      functions of the user and ops the card has no kernel for run on the CPU, between two captured parts */
#ifndef LKI_PLAN_CARD_CARD_H
#define LKI_PLAN_CARD_CARD_H

#include "lane/lanes.h"
#include "plan/plan.h"

typedef struct lki_card lki_card;

/* Of a card that is one of several (cards.h): what it does not have to itself. */
typedef struct lki_card_share {
    const lki_subtree *trees;  /* by node: the lanes it sums over */
    char             **placed; /* by root value: where it lies, outside the block; NULL: in the block */
    const lki_bond    *bond;   /* of the group they are (comm/comm.h) */
} lki_card_share;

typedef struct lki_card_args {
    const lki_graph      *graph;
    lki_device           *device;
    const int            *order; /* nodes as they are to run; read until lki_card_new() returns */
    int                   order_count;
    const lki_card_share *share; /* NULL: it works alone */
} lki_card_args;

/* NULL and an error. */
lki_card *lki_card_new(const lki_card_args *args);
void      lki_card_free(lki_card *c); /* NULL is ignored */

/* `call`: which call of its function this is, for messages. Outputs are pending afterwards. */
lk_status lki_card_replay(lki_card *c, int64_t call, const lki_value_list *in, lk_tensor *const *out);

size_t lki_card_bytes(const lki_card *c);
int    lki_card_calls(const lki_card *c); /* launches */

#endif
