/* The graph that one of several members runs: the whole graph, cut to the rows of the member's lanes, with exchanges of sums as
 * nodes.
 *
 *     a sum over rows             becomes one sum for each subtree of the lane tree that lies within this member's lanes, mostly a
 *                                 single one. Its result lies at its place in the block that the exchange sends
 *     an exchange                 is a node without a kernel. It ends a part of the member's plan (plan/member.h)
 *     a reader of the sum         reads the result of a replica_sum over the members' parts of the sum; or, if the carrier sums,
 *                                 the carrier's result
 *
 * The sums that an exchange sends lie in one block, at the same places on all members. Sums of the same type are neighbours and
 * form a pack. A pack is summed in one of three ways:
 *
 *     GATHERED   Every pack is sent to all members, and each member adds up the same numbers
 *     SWAPPED    Each member receives one piece of every member's pack and adds these pieces up. A second exchange sends the
 *                sums to all members. No other way of summing sends fewer bytes, so this is for large packs
 *     CARRIED    The carrier sums, in an order that it chooses
 *
 *     block   | gathered packs: f64 | i64 | f32 | i32 | other packs |          each sum begins at a multiple of 16 bytes
 *
 * A slot is the room for one subtree. All members have the same number of slots: as many as the member with the most subtrees
 * needs. The block has the gathered packs of all slots, slot by slot, and then the other packs of all slots. */
#ifndef LKI_PLAN_SHARD_SHARD_H
#define LKI_PLAN_SHARD_SHARD_H

#include "comm/carrier.h"
#include "lane/lanes.h"
#include "plan/shard/parts.h"

enum {
    LKI_PACKS = 4,
    LKI_MOST_SHARDS = LKI_MOST_MEMBERS,
    LKI_SWAP_BYTES = 4 << 20, /* a pack is swapped if that saves a member this many bytes; a second exchange costs about as much */
};

typedef enum lki_pack_way { LKI_PACK_GATHERED, LKI_PACK_SWAPPED, LKI_PACK_CARRIED } lki_pack_way;

/* How the lanes are divided among the members. */
typedef struct lki_lane_split {
    int         members, lanes;
    int         begin[LKI_MOST_SHARDS + 1]; /* member i has the lanes begin[i] .. begin[i + 1] - 1 */
    int         first[LKI_MOST_SHARDS + 1]; /* member i has the subtrees first[i] .. first[i + 1] - 1 of `tree` */
    lki_subtree tree[LKI_MOST_SHARDS];
    int         slots; /* the number of subtrees of the member that has the most */
} lki_lane_split;

/* false: there are more members than lanes, or more subtrees than LKI_MOST_SHARDS. */
bool lki_lane_split_of(int lanes, int members, lki_lane_split *out);

static inline int lki_lane_split_trees(const lki_lane_split *s, int member) { return s->first[member + 1] - s->first[member]; }

typedef struct lki_pack { /* the sums of one type that an exchange sends */
    lk_dtype     dtype;
    lki_pack_way way;
    size_t       at, bytes; /* its place and size in a slot */
    int          sum;       /* the value that has all sums of the pack; -1: the pack is empty */
    int          pieces;    /* SWAPPED: the value that receives this member's piece of every member's pack, slot by slot */
    int          piece;     /* SWAPPED: the value that has the sum of these pieces */
} lki_pack;

typedef struct lki_exchange_plan {
    size_t   bytes;    /* the size of a slot */
    size_t   gathered; /* the first bytes of a slot, which have the packs that are gathered */
    bool     stops;    /* the exchange also sends the words `stop` */
    bool     beside;   /* members run parts meanwhile; its results are available after the next exchange that is not `beside` */
    int      received; /* the value that receives the gathered packs of all members; -1: nothing is gathered */
    bool     second;   /* packs are swapped: a second exchange follows this one or, with `beside`, the one that completes it */
    lki_pack pack[LKI_PACKS];
} lki_exchange_plan;

typedef struct lki_sent { /* a member's part of a sum */
    int    value, exchange, slot;
    size_t at; /* its place in the slot */
} lki_sent;

typedef struct lki_lane_write { /* a write to a variable with an entry for each lane; a member writes the entries of its lanes */
    int value, exchange;        /* the version that was written, and the exchange that sends it */
} lki_lane_write;

typedef struct lki_shard {
    lki_graph         *graph;
    int               *order; /* nodes, with the exchanges, in the order in which they run */
    int                order_count;
    lki_exchange_plan *exchanges;
    int                exchange_count;
    lki_sent          *sent;
    int                sent_count;
    lki_lane_write    *lane_writes;
    int                lane_write_count;
    lki_subtree       *trees; /* by node: if the node is a sum, the lanes it sums over */
} lki_shard;

/* Makes the graph of one member. `sums`: the carrier may add up floating-point numbers. It does if every member has one subtree. */
lk_status lki_shard_make(const lki_graph *g, const lki_parts *p, const lki_lane_split *split, int member, bool sums,
                         lki_shard *out);
void      lki_shard_clear(lki_shard *s); /* frees its graph too */

/* Exchange e is not `beside`. Returns the first of the exchanges whose results are available after e; mostly e itself. */
int lki_shard_first_beside(const lki_shard *s, int e);

#endif
