/* What one member of several runs: the graph of all rows, cut to the rows of its lanes, with exchanges of sums as nodes.
 *
 *     a sum over rows             becomes a sum for each subtree of the lane tree that lies within this member's lanes, mostly one,
 *                                 at its place among all that the exchange sends
 *     an exchange                 is a node without a kernel: it ends one part of the member's plan (plan/member.h)
 *     a reader of the sum         reads the result of a replica_sum over the parts of all members; or, if the carrier sums, what
 *                                 the carrier left
 *
 * What an exchange sends lies together, at the same places on all members, type by type: a pack for each. How a pack is summed:
 *
 *     GATHERED   it is sent to all members, and each adds up the same numbers
 *     SWAPPED    each member gets a piece of every member's pack, adds these up, and sends the sum to all by a second exchange: as
 *                many bytes as the best sum of several takes. For large packs
 *     CARRIED    the carrier sums, in an order that it chooses
 *
 *     sent   | gathered: f64 | i64 | f32 | i32 | others |          each sum from a multiple of 16 bytes on
 *
 * If a member has several subtrees, the packs that are gathered lie there once for each subtree, then the others likewise. All
 * members have as many such slots as the one with the most subtrees. */
#ifndef LKI_PLAN_SHARD_SHARD_H
#define LKI_PLAN_SHARD_SHARD_H

#include "comm/carrier.h"
#include "lane/lanes.h"
#include "plan/shard/parts.h"

enum {
    LKI_PACKS = 4,
    LKI_MOST_SHARDS = LKI_MOST_MEMBERS,
    LKI_SWAP_BYTES = 4 << 20, /* packs are swapped if that saves a member this many bytes: about what a second exchange costs */
};

typedef enum lki_pack_way { LKI_PACK_GATHERED, LKI_PACK_SWAPPED, LKI_PACK_CARRIED } lki_pack_way;

/* Which member has which lanes. */
typedef struct lki_lane_split {
    int         members, lanes;
    int         begin[LKI_MOST_SHARDS + 1]; /* member i has lanes begin[i] to begin[i + 1] - 1 */
    int         first[LKI_MOST_SHARDS + 1]; /* ... which are the subtrees first[i] to first[i + 1] - 1 of the list `tree` */
    lki_subtree tree[LKI_MOST_SHARDS];
    int         slots; /* the most subtrees of one member */
} lki_lane_split;

/* false: more members than lanes, or more subtrees than LKI_MOST_SHARDS. */
bool lki_lane_split_of(int lanes, int members, lki_lane_split *out);

static inline int lki_lane_split_trees(const lki_lane_split *s, int member) { return s->first[member + 1] - s->first[member]; }

typedef struct lki_pack { /* sums of one type that go with an exchange */
    lk_dtype     dtype;
    lki_pack_way way;
    size_t       at, bytes; /* in a slot */
    int          sum;       /* the value all parts add up to, as one; -1: there are none */
    int          pieces;    /* SWAPPED, values: this member's piece of every member's pack, slot by slot, */
    int          piece;     /* and what they add up to */
} lki_pack;

typedef struct lki_exchange_plan {
    size_t bytes;    /* of a slot */
    size_t gathered; /* ... of which these, from the front, are sent to all as they are */
    bool   stops;    /* it also sends the words `stop` */
    bool   beside;   /* members work meanwhile: its results are there after the next exchange that is not `beside` */
    int    received; /* value: what all members sent; -1: nothing is gathered */
    bool   second; /* packs are swapped: another exchange follows this one, or the one after which what this one brings is there */
    lki_pack pack[LKI_PACKS];
} lki_exchange_plan;

typedef struct lki_sent { /* a part of a sum */
    int    value, exchange, slot;
    size_t at; /* in the slot */
} lki_sent;

typedef struct lki_lane_write { /* a variable with an entry for each lane: this member has written those of its lanes */
    int value, exchange;        /* what it wrote */
} lki_lane_write;

typedef struct lki_shard {
    lki_graph         *graph;
    int               *order; /* nodes in the order in which they run, exchanges among them */
    int                order_count;
    lki_exchange_plan *exchanges;
    int                exchange_count;
    lki_sent          *sent;
    int                sent_count;
    lki_lane_write    *lane_writes;
    int                lane_write_count;
    lki_subtree       *trees; /* by node: the lanes it sums over, if it is a sum */
} lki_shard;

/* For one member. `sums`: the carrier may take floating-point sums, which it can if every member has one subtree. */
lk_status lki_shard_make(const lki_graph *g, const lki_parts *p, const lki_lane_split *split, int member, bool sums,
                         lki_shard *out);
void      lki_shard_clear(lki_shard *s); /* its graph too */

/* Of exchange e, which is not `beside`: the first of those whose results are there after it; mostly e itself. */
int lki_shard_first_beside(const lki_shard *s, int e);

#endif
