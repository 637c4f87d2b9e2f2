/* A graph over several members: which nodes run before which exchange of sums.
 *
 * Every member runs all nodes, on the rows of its lanes. A sum over rows is then one part of the sum, and nodes that read the sum
 * wait until the parts of all members were exchanged.
 *
 *     part 0 | exchange 0 | part 1 | exchange 1 | ...
 *
 * A sum made in part k goes with exchange k or a later one; its readers run in a part after that.
 *
 * Exchanges cost more than they carry, so there are as few as the longest chain of sums needs: each sum is made as early, and
 * exchanged as late, as that allows. So gradients, which are first read by the updates, go together; sums of a batch
 * normalisation do not.
 *
 * If packs have a largest size, an exchange of more bytes becomes several: each begins when its sums are made, last layers first,
 * and travels while the next sums are made; the last of them waits for all.
 *
 * Invariants
 * 1. In the order (part, order of nodes) every node comes after what it waits for.
 * 2. A node that writes variables runs after an exchange that comes after all earlier nodes that may meet an index out of range
 *    among their rows: members stop together. */
#ifndef LKI_PLAN_SHARD_PARTS_H
#define LKI_PLAN_SHARD_PARTS_H

#include "core/memory.h"
#include "graph/graph.h"

enum { LKI_PARTS_WHY = 256 };

typedef struct lki_parts {
    int   count;     /* of parts */
    int   exchanges; /* count - 1, or count where something is exchanged at the very end */
    int  *nodes;     /* those that run, in their order; node_count of them */
    int   node_count;
    int  *part;     /* by node; -1: it does not run */
    int  *exchange; /* by node: the exchange of its sums; -1: it has none */
    bool *stops;    /* by exchange: it also sends the words `stop` */
    bool *beside;   /* by exchange: members work meanwhile, until the next one that is not `beside` */
    bool *rows;     /* by root value: a member has only its own rows of it */
} lki_parts;

/* pack: bytes after which a pack is full; 0: no limit. LK_EUNSUPPORTED and why, with no error recorded: this graph cannot be
 * cut. */
lk_status lki_parts_find(const lki_graph *g, int lanes, int64_t pack, lki_parts *out, char why[LKI_PARTS_WHY]);
void      lki_parts_clear(lki_parts *p);

/* The rows of a batch that a member has if it owns the lanes from..end-1: rows lo..hi-1, counted from the batch's first one
 * here. */
void lki_parts_window(const lki_rows *rows, int from, int end, int64_t *lo, int64_t *hi);

#endif
