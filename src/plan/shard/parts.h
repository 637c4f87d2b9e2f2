/* A graph over several cards: which nodes run before which exchange of sums.
 *
 * Every card runs all nodes, on rows of its own: the rows of its lanes. A sum over rows is then a part of it, and whoever reads
 * the sum must wait until the parts of all cards were exchanged.
 *
 *     part 0 | exchange 0 | part 1 | exchange 1 | ...
 *
 * A sum made in part k goes with exchange k or a later one; its readers run in a part behind that.
 *
 * Exchanges cost more than they carry, so there are as few as the longest chain of sums needs: each sum is made as early, and
 * exchanged as late, as that allows. So gradients, which nobody reads before the updates, go together; sums of a batch
 * normalisation do not.
 *
 * Where packs are to be no larger than so many bytes, an exchange of more is several: each goes as soon as its sums are made, last
 * layers first, and beside what is made next; the last of them waits for all.
 *
 * Invariants
 * 1. In the order (part, order of nodes) every node comes behind what it waits for.
 * 2. A node that writes variables runs behind an exchange that comes behind all earlier nodes that may meet an index out of range
 *    among their rows: cards stop together. */
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
    int  *exchange; /* by node: that its sums go with; -1: it is no sum */
    bool *stops;    /* by exchange: whether to stop is part of it */
    bool *beside;   /* by exchange: cards go on meanwhile, until the next that is not */
    bool *rows;     /* by root value: a card has only its own rows of it */
} lki_parts;

/* pack: bytes after which a pack is full; 0: there is no such limit. LK_EUNSUPPORTED, no error recorded, and why: this graph cannot
 * run so. */
lk_status lki_parts_find(const lki_graph *g, int lanes, int64_t pack, lki_parts *out, char why[LKI_PARTS_WHY]);
void      lki_parts_clear(lki_parts *p);

/* Which of the rows of a batch a card has that owns the lanes from..end-1 of all: rows lo..hi-1, counted from the batch's first
 * one here. */
void lki_parts_window(const lki_rows *rows, int from, int end, int64_t *lo, int64_t *hi);

#endif
