/* What one card of several runs: the graph of all rows, cut to the rows of its lanes, with exchanges of sums as nodes of their own.
 *
 *     a sum over rows             becomes a sum for each subtree of the lane tree that lies within this card's lanes, mostly one,
 *                                 in a place of its own among all that goes with the exchange
 *     an exchange                 is a node no card has a kernel for: what is captured ends before it and begins anew behind it
 *     who reads the sum           reads what a replica_sum over the parts of all cards made; with sums taken by the links
 *                                 themselves, what they left
 *
 * What goes with an exchange lies together, on all cards alike, type by type: a pack for each. How a pack is summed:
 *
 *     GATHERED   it is sent to all, and all add up the same
 *     SWAPPED    of a large one each card gets a piece of everybody's, adds that up, and sends the sum to all by a second
 *                exchange: as many bytes as the best sum of several takes
 *     LINKED     the links sum, in an order of theirs
 *
 *     sent   | gathered: f64 | i64 | f32 | i32 | others |          each sum from a multiple of 16 bytes on
 *
 * Where a card has several subtrees, the packs that are gathered lie there once for each, then the others likewise; all cards have
 * as many such slots as one needs. */
#ifndef LKI_PLAN_SHARD_SHARD_H
#define LKI_PLAN_SHARD_SHARD_H

#include "lane/lanes.h"
#include "plan/shard/parts.h"

enum {
    LKI_PACKS = 4,
    LKI_MOST_SHARDS = 64,
    LKI_SWAP_BYTES =
        4 << 20, /* packs are swapped where a card would get so many more bytes otherwise: about what a second exchange costs */
};

typedef enum lki_pack_way { LKI_PACK_GATHERED, LKI_PACK_SWAPPED, LKI_PACK_LINKED } lki_pack_way;

/* Who has which lanes. */
typedef struct lki_lane_split {
    int         cards, lanes;
    int         begin[LKI_MOST_SHARDS + 1]; /* card i has lanes begin[i] to begin[i + 1] - 1 */
    int         first[LKI_MOST_SHARDS + 1]; /* ... which are these subtrees, */
    lki_subtree tree[LKI_MOST_SHARDS];
    int         slots; /* at most so many of one card */
} lki_lane_split;

/* false: more cards than lanes, or more subtrees than LKI_MOST_SHARDS. */
bool lki_lane_split_of(int lanes, int cards, lki_lane_split *out);

static inline int lki_lane_split_trees(const lki_lane_split *s, int card) { return s->first[card + 1] - s->first[card]; }

typedef struct lki_pack { /* sums of one type that go with an exchange */
    lk_dtype     dtype;
    lki_pack_way way;
    size_t       at, bytes; /* in a slot */
    int          sum;       /* the value all parts add up to, as one; -1: there are none */
    int          pieces;    /* SWAPPED, values: this card's piece of all cards, slot by slot, */
    int          piece;     /* and what they add up to */
} lki_pack;

typedef struct lki_exchange_plan {
    size_t   bytes;    /* of a slot */
    size_t   gathered; /* ... of which so many, from the front, are sent to all as they are */
    bool     stops;    /* whether to stop goes with it */
    bool     beside;   /* cards go on meanwhile: what it brings is there when the next has come that is not */
    int      received; /* value: what all cards sent; -1: nothing is */
    bool     second;   /* another one follows it, or the one it is there with, for packs that are swapped */
    lki_pack pack[LKI_PACKS];
} lki_exchange_plan;

typedef struct lki_sent { /* a part of a sum */
    int    value, exchange, slot;
    size_t at; /* in the slot */
} lki_sent;

typedef struct lki_lane_write { /* a variable with an entry for each lane: this card has written those of its lanes */
    int value, exchange;        /* what it wrote */
} lki_lane_write;

typedef struct lki_shard {
    lki_graph         *graph;
    int               *order; /* nodes as they are to run, exchanges among them */
    int                order_count;
    lki_exchange_plan *exchanges;
    int                exchange_count;
    lki_sent          *sent;
    int                sent_count;
    lki_lane_write    *lane_writes;
    int                lane_write_count;
    lki_subtree       *trees; /* by node: the lanes it sums over, if it is a sum */
} lki_shard;

/* For one card; sums: the links take floating-point sums themselves, which they can where every card has one subtree. */
lk_status lki_shard_make(const lki_graph *g, const lki_parts *p, const lki_lane_split *split, int card, bool sums, lki_shard *out);
void      lki_shard_clear(lki_shard *s); /* its graph too */

/* The first of the exchanges that are there with exchange e, which is not beside; e itself, mostly. */
int lki_shard_first_beside(const lki_shard *s, int e);

#endif
