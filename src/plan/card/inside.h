/* Types and functions that the files of this folder share.
 *
 *   calls.c       calls, their order, and which of them are one launch
 *   memory.c      the block for everything that calls make
 *   addresses.c   the addresses of operands and results of calls
 *   run.c         launching, capturing, tracing; calls on the host
 *   ways.c        variants of the graph that read inputs where they lie
 *   card.c        making, replaying and freeing a plan on a card */
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
    bool            once; /* it needs constants only: the first replay computes its results, and later ones keep them */
    bool            has_scratch;
    bool            arrives; /* it reads an input of the function (ways.c) */
    size_t          scratch; /* bytes of scratch; after lki_card_memory() its offset in the block */
    lki_args        args;    /* for the card's kernel */
    lki_launch      gpu;
    lki_row_parts   parts; /* partial sums that it writes instead of its results (calls.c) */
} lki_card_call;

typedef struct lki_card_launch { /* calls from .. end - 1; several calls are a group */
    int       from, end;
    int       level;
    bool      once;
    lki_group kind;
    int       after, after_count; /* a range of the card's list `after`: launches that it waits for, numbered within the part */
} lki_card_launch;

typedef struct lki_card_part { /* launches from .. end - 1 on the card; then, except in the last part, launch `end` on the host */
    int   from, end;
    void *graph; /* the captured launches; NULL: they were not captured yet */
} lki_card_part;

typedef struct lki_card_input { /* an input of the function: copied to the card before each replay */
    int    input, value;
    size_t at, bytes;
    size_t before; /* the offset in the input of the bytes that are used */
} lki_card_input;

typedef struct lki_card_guest { /* a variable in another memory: copied to the card before each replay, and back if it is written */
    lk_variable *variable;
    size_t       at, bytes;
    bool         written;
    void        *host; /* memory of the host for copying its values back */
} lki_card_guest;

typedef struct lki_card_output {
    int         output;
    const char *from;
    size_t      bytes;
} lki_card_output;

enum { LKI_CARD_WAYS = 16 };

typedef struct lki_card_way {
    char **at;   /* by input: its address */
    int    seen; /* number of replays with these addresses; 0: the entry is free */
    void  *variant;
} lki_card_way;

struct lki_card {
    const lki_graph    *graph;
    lki_device         *device;
    const lki_gpu_line *line;
    lki_card_share      share;    /* all zero: the card is the only member */
    const lki_grouping *grouping; /* NULL: every call is a launch of its own */
    lki_buffer         *block;
    size_t             *at;      /* by root value: its offset in the block, or LKI_CARD_OUTSIDE */
    lki_card_call      *calls;   /* ordered by launch */
    lki_member         *members; /* the same calls, as arguments of kernels that run several calls */
    int                 count;
    lki_card_launch    *launches;
    int                 launch_count, levels;
    lki_order           order; /* the order of launches; used until they are captured */
    int                *after;
    int                 after_count, after_capacity;
    lki_card_part      *parts;
    int                 part_count, part_capacity;
    lki_card_input     *inputs;
    lki_card_guest     *guests;
    lki_card_output    *outputs;
    int                 input_count, guest_count, output_count;
    lki_gpu_piece      *arrivals, *results; /* copies before a replay; copies after it, of outputs and of the word `stop` */
    int                 result_count;
    bool                gives;              /* the captured graph copies the outputs */
    int                 given, given_count; /* the launches before that copy: a range of `after` */
    lki_card_way        ways[LKI_CARD_WAYS];
    char              **here; /* addresses of the inputs of this replay; NULL: the plan has no ways */
    int                *stop; /* the card's word (card.h, faults) */
    int64_t             replays;
    bool                checks; /* some call may meet an index out of range */
    lki_arena           arena;
};

#define LKI_CARD_OUTSIDE ((size_t)-1)

/* Makes copies within the card, in as few launches as possible (card.c). */
lk_status lki_card_copy_all(const lki_card *c, int count, const lki_gpu_piece *pieces);

/* Returns the address of a root value that lies outside the block; NULL: it lies in the block. */
static inline char *lki_card_placed(const lki_card *c, int root) { return c->share.placed ? c->share.placed[root] : NULL; }

/* True if the variable's home is this card. */
static inline bool lki_card_has(const lki_card *c, const lki_value *v)
{
    return lki_same_memory(v->variable->buffer->device, c->device);
}

/* The steps of lki_card_new(), in this order. */
lk_status lki_card_order(lki_card *c, const int *nodes, int count);
lk_status lki_card_memory(lki_card *c);
lk_status lki_card_place(lki_card *c);
lk_status lki_card_parts(lki_card *c);

/* Fills in a call, except for its addresses, and the bytes of its scratch. Both depend only on shapes. */
lk_status lki_card_describe(lki_card *c, lki_card_call *k);

/* Returns the address of a root value. NULL without an error: it has none, because no call reads or writes its elements. NULL with
 * an error: it is a constant that could not be copied to the card. */
char *lki_card_home(lki_card *c, int root);

/* Returns the code by which a call reports an index out of range. The lower bits are its op, the upper ones a number that is larger
 * for earlier calls. */
static inline int lki_card_fault(const lki_card *c, const lki_card_call *k)
{
    return (int)((c->calls + c->count - k) << 10 | (int)k->node->op);
}

/* The steps of a replay. */
lk_status lki_card_bring(lki_card *c, const lki_value_list *in);
lk_status lki_card_give(const lki_card *c, int64_t call, int count,
                        int64_t *work);                                    /* its number; for `count` cards, that of the last one */
lk_status lki_card_run_part(lki_card *c, lki_card_part *p, void *variant); /* NULL: as it was captured */
lk_status lki_card_run_on_host(lki_card *c, const lki_card_call *k);

/* True if this replay launches a graph that was captured earlier, and the plan has only that part. */
bool lki_card_is_captured(const lki_card *c);

/* Records those launches of that part that read inputs once more, as a variant of its graph. */
lk_status lki_card_capture_variant(lki_card *c, void **variant);

/* lki_card_find_ways() finds out whether the plan can have ways; inputs and parts must be known. lki_card_way_for() finds, for each
 * replay, the variant that reads the inputs where they lie; *variant is NULL if there is none. */
lk_status lki_card_find_ways(lki_card *c);
lk_status lki_card_way_for(lki_card *c, const lki_value_list *in, void **variant);

#endif
