/* What the parts of a card's plan share.
 *
 *   calls.c       calls, what comes after what, and which of them are one launch
 *   memory.c      one block for everything they make
 *   addresses.c   where their operands and results lie
 *   run.c         launching, capturing, tracing; calls on the host
 *   ways.c        variants of the graph that read inputs where they lie
 *   card.c        the life of a plan on a card, and a replay */
#ifndef LKI_PLAN_CARD_INSIDE_H
#define LKI_PLAN_CARD_INSIDE_H

#include "core/memory.h"
#include "device/gpu/gpu.h"
#include "kernel/group.h"
#include "plan/card/card.h"
#include "plan/card/order.h"

typedef struct lki_card_call {
    const lki_node *node;
    bool            on_host;
    bool            once; /* it needs constants alone: the first replay makes its results, which stay */
    bool            has_scratch;
    bool            arrives; /* it reads an input of the function (ways.c) */
    size_t          scratch; /* bytes of it, and then where it lies in the block */
    lki_args        args;    /* of the card */
    lki_launch      gpu;
    lki_row_parts   parts; /* what it left of its results */
} lki_card_call;

typedef struct lki_card_launch { /* calls from..end-1; several are a group */
    int       from, end;
    int       level;
    bool      once;
    lki_group kind;
    int       after, after_count; /* what it comes after: launches of its own part, by their number there, in the card's list */
} lki_card_launch;

typedef struct
    lki_card_part { /* launches from..end-1 on the card, captured; then, unless it is the last part, launch `end` on the host */
    int   from, end;
    void *graph; /* NULL: not yet */
} lki_card_part;

typedef struct lki_card_input { /* of the function: brought before each replay */
    int    input, value;
    size_t at, bytes;
    size_t before; /* bytes of the input that lie before it */
} lki_card_input;

typedef struct lki_card_guest { /* a variable of another memory: brought before each replay, and back when it is written */
    lk_variable *variable;
    size_t       at, bytes;
    bool         written;
    void        *host; /* room for its values on their way back */
} lki_card_guest;

typedef struct lki_card_output {
    int         output;
    const char *from;
    size_t      bytes;
} lki_card_output;

enum { LKI_CARD_WAYS = 16 };

typedef struct lki_card_way {
    char **at;   /* by input */
    int    seen; /* how often; 0: never, or no longer */
    void  *variant;
} lki_card_way;

struct lki_card {
    const lki_graph    *graph;
    lki_device         *device;
    const lki_gpu_line *line;
    lki_card_share      share;    /* nothing: it works alone */
    const lki_grouping *grouping; /* NULL: every call is a launch of its own */
    lki_buffer         *block;
    size_t             *at;      /* by root value: where it lies in the block, or LKI_CARD_OUTSIDE */
    lki_card_call      *calls;   /* launch by launch */
    lki_member         *members; /* the same for kernels that run several */
    int                 count;
    lki_card_launch    *launches;
    int                 launch_count, levels;
    lki_order           order; /* of launches, until they are captured */
    int                *after;
    int                 after_count, after_capacity;
    lki_card_part      *parts;
    int                 part_count, part_capacity;
    lki_card_input     *inputs;
    lki_card_guest     *guests;
    lki_card_output    *outputs;
    int                 input_count, guest_count, output_count;
    lki_gpu_piece      *arrivals, *results; /* copies before a replay, and after it: of outputs, and of the word `stop` */
    int                 result_count;
    bool                gives;              /* the captured graph copies outputs itself, */
    int                 given, given_count; /* ... after these launches of the list `after` */
    lki_card_way        ways[LKI_CARD_WAYS];
    char              **here; /* room for the addresses of one; NULL: there are no ways */
    int                *stop; /* of the card */
    int64_t             replays;
    bool                checks; /* some call may meet an index out of range */
    lki_arena           arena;
};

#define LKI_CARD_OUTSIDE ((size_t)-1)

/* Within the card, by as few launches as can be (card.c). */
lk_status lki_card_copy_all(const lki_card *c, int count, const lki_gpu_piece *pieces);

/* Where a root value lies outside the block; NULL: it does not. */
static inline char *lki_card_placed(const lki_card *c, int root) { return c->share.placed ? c->share.placed[root] : NULL; }

/* Is this variable's home the card? */
static inline bool lki_card_has(const lki_card *c, const lki_value *v)
{
    return lki_same_memory(v->variable->buffer->device, c->device);
}

/* In this order. */
lk_status lki_card_order(lki_card *c, const int *nodes, int count);
lk_status lki_card_memory(lki_card *c);
lk_status lki_card_place(lki_card *c);
lk_status lki_card_parts(lki_card *c);

/* Everything of a call but addresses, and what scratch it needs: a question of shapes alone. */
lk_status lki_card_describe(lki_card *c, lki_card_call *k);

/* Where a root value lies; NULL: nowhere, no call reads or writes its elements, or, with an error, its constant could not be
 * brought to the card. */
char *lki_card_home(lki_card *c, int root);

/* The code by which a call reports an index out of range: its op, and above that a number that is larger for earlier calls. */
static inline int lki_card_fault(const lki_card *c, const lki_card_call *k)
{
    return (int)((c->calls + c->count - k) << 10 | (int)k->node->op);
}

/* A replay, piece by piece. */
lk_status lki_card_bring(lki_card *c, const lki_value_list *in);
lk_status lki_card_give(const lki_card *c, int64_t call, int count,
                        int64_t *work);                                    /* its number; of `count` cards, the last one's */
lk_status lki_card_run_part(lki_card *c, lki_card_part *p, void *variant); /* NULL: as it was captured */
lk_status lki_card_run_on_host(lki_card *c, const lki_card_call *k);

/* Is this replay one that launches the graph of the only part, captured before? */
bool lki_card_is_captured(const lki_card *c);

/* Launches of that part that read inputs once more, as a variant of its graph. */
lk_status lki_card_capture_variant(lki_card *c, void **variant);

/* Once inputs and parts are known; then, for a replay, a variant that reads inputs where they lie, or NULL. */
lk_status lki_card_find_ways(lki_card *c);
lk_status lki_card_way_for(lki_card *c, const lki_value_list *in, void **variant);

#endif
