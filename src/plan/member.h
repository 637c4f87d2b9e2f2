/* Members: what an executor makes of a graph that was cut to the lanes of one member (shard/shard.h). plan/shard runs the members
 * of this process part by part, exchanges what they send in between, and knows nothing else of their devices.
 *
 *     begin | part 0 | exchange 0 | part 1 | exchange 1 | ... | last part | report
 *
 * Contract
 * 1. Parts end at the nodes without a kernel (LKI_K_none) that stand in the order: these are the exchanges. Part k runs all that
 *    comes after exchange k - 1 and before exchange k.
 * 2. No function waits for another member. A device that works later than it is asked to (device.h, 5) may do so here: an exchange
 *    of its group comes after the work given before it and before the work given later.
 * 3. A member that meets an index out of range sets its word `stop`, and makes no updates while the word is set; it still runs all
 *    parts. agree() sets the word where that of any member is set. report() makes it the error of the step, once for the members
 *    of this process, and clears it.
 * 4. A value that is `placed` lies at that address. Every other value lies where the member puts it, at one address for as long as
 *    the member lives; an input may lie elsewhere in each replay.
 * 5. The members of a plan that are here are of one kind. */
#ifndef LKI_PLAN_MEMBER_H
#define LKI_PLAN_MEMBER_H

#include "comm/comm.h"
#include "lane/lanes.h"
#include "plan/executor.h"

typedef struct lki_member_args {
    const lki_graph   *graph;
    lki_device        *device;
    const int         *order; /* nodes as they run, exchanges among them; read until make() returns */
    int                order_count;
    int                lanes, from, end; /* it owns lanes from .. end - 1 of all */
    int                threads;          /* that may work for it, on the host */
    const lki_subtree *trees;            /* by node: the lanes it sums over, if it is a sum */
    char             **placed;           /* by root value: where it lies; NULL: the member places it. Read as long as it lives */
    lki_comm          *comm;             /* of the exchanges */
} lki_member_args;

typedef struct lki_member_piece { /* bytes to be copied within the member's memory */
    void       *dst;
    const void *src;
    size_t      bytes;
} lki_member_piece;

typedef struct lki_member_kind lki_member_kind;

typedef struct lki_plan_member { /* the first member of an executor's own struct */
    const lki_member_kind *kind;
    lki_device            *device;
    int                    parts;
    int                   *stop;   /* in the memory of its device: 0, or a code of what it met (contract 3) */
    bool                   checks; /* some node of it may meet an index out of range */
} lki_plan_member;

struct lki_member_kind {
    bool (*suits)(const lki_device *d, char why[LKI_WHY]); /* false: it has no members on this device; `why` may say why not */
    lk_status (*rewrite)(lki_plan *p);                     /* of the whole graph, as of executor.h */

    lki_plan_member *(*make)(const lki_member_args *args); /* NULL and an error */
    void (*free)(lki_plan_member *m);                      /* NULL is ignored */
    char *(*home)(lki_plan_member *m, int value);          /* where a root value lies; of an input, in this replay */
    void (*info)(const lki_plan_member *m, lk_function_info *info);

    /* A replay of the members here. `call`: which call of its function it is, for messages. *work: the number of the work that
     * makes the results, on the device of the first member. */
    lk_status (*begin)(lki_plan_member *const *m, int count, int64_t call, const lki_value_list *in, int64_t *work);
    lk_status (*run)(lki_plan_member *m, int part);
    lk_status (*copy)(lki_plan_member *m, int count, const lki_member_piece *pieces);
    lk_status (*agree)(lki_plan_member *m, int count, const int *words); /* of all members, in the memory of its device */
    lk_status (*report)(lki_plan_member *const *m, int count, int64_t work);
};

extern const lki_member_kind lki_cpu_members, lki_card_members;

#endif
