/* Divides a graph over several members into parts: decides which nodes run before which exchange of sums.
 *
 * Every member runs all nodes, on the rows of its lanes. So a member's sum over rows is only a part of the sum, and nodes that read
 * the sum run after the members have exchanged their parts of it.
 *
 *     part 0 | exchange 0 | part 1 | exchange 1 | ...
 *
 * A sum made in part k is sent by exchange k or a later one. Its readers run in a part after that exchange.
 *
 * The cost of an exchange depends little on its bytes, so there are as few exchanges as the longest chain of sums needs. With that
 * number of exchanges, each sum is made as early, and exchanged as late, as possible. So one exchange sends all gradients, because
 * only the updates read them. Sums of batch normalisations need exchanges of their own.
 *
 * If packs have a largest size, an exchange of more bytes is divided into several. Each begins when its sums are made, those of the
 * last layers first, and its bytes travel while the next sums are made. The last of these exchanges waits for all of them.
 *
 * Invariants
 * 1. In the order (part, order of nodes) every node comes after what it waits for.
 * 2. If earlier nodes may meet an index out of range in a member's rows, an exchange of the words `stop` comes after them, and
 *    nodes that write variables come after this exchange. So all members stop at the same place. */
#ifndef LKI_PLAN_SHARD_PARTS_H
#define LKI_PLAN_SHARD_PARTS_H

#include "core/memory.h"
#include "graph/graph.h"

enum { LKI_PARTS_WHY = 256 };

typedef struct lki_parts {
    int   count;     /* the number of parts */
    int   exchanges; /* their number: count - 1, or count if there is an exchange after the last part */
    int  *nodes;     /* the nodes that run, in their order */
    int   node_count;
    int  *part;     /* by node: its part; -1: it does not run */
    int  *exchange; /* by node: the exchange that sends its sums; -1: it has no sums */
    bool *stops;    /* by exchange: whether it also sends the words `stop` */
    bool *beside;   /* by exchange: whether members run further parts meanwhile, until the next exchange that is not `beside` */
    bool *rows;     /* by root value: whether a member has only its own rows of the value */
} lki_parts;

/* Divides a graph into parts. pack: the largest size of a pack in bytes; 0: no limit. LK_EUNSUPPORTED, and in `why` the reason: the
 * graph cannot be divided; no error is recorded. */
lk_status lki_parts_find(const lki_graph *g, int lanes, int64_t pack, lki_parts *out, char why[LKI_PARTS_WHY]);
void      lki_parts_clear(lki_parts *p);

/* A member owns the lanes from .. end - 1. Computes its rows of a batch, lo .. hi - 1, counted from the first row of the batch in
 * this process. */
void lki_parts_window(const lki_rows *rows, int from, int end, int64_t *lo, int64_t *hi);

#endif
