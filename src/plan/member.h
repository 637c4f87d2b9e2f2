/* Members: an executor makes a member of a graph that was cut to the lanes of this member (shard/shard.h). plan/shard runs the
 * members of this process part by part, and makes the exchanges between the parts. It uses their devices only through the functions
 * of this file.
 *
 *     begin | part 0 | exchange 0 | part 1 | exchange 1 | ... | last part | report
 *
 * Contract
 * 1. A node without a kernel (LKI_K_none) in `order` is an exchange. Part k is the nodes after exchange k - 1 and before
 *    exchange k.
 * 2. No function waits for another member. If a device works after the call that submitted the work has returned (device.h, 5), its
 *    member may do so too: an exchange of its group runs after the work submitted before the exchange, and before the work
 *    submitted after it.
 * 3. A member that meets an index out of range sets its word `stop`, and makes no updates while the word is set. run() is still
 *    called for all parts; on CPUs it then returns at once. agree() sets the word of a member if that of any member is set.
 *    report() makes the word the error of the step, one error for all members of this process. The word is 0 again for the next
 *    replay: on CPUs begin() clears it, on a card it is cleared when the error has been reported (device/gpu/gpu.h).
 * 4. If `placed` has an address for a value, the value lies there. The member chooses the address of every other value, and keeps
 *    it until free(); only an input may have another address in each replay.
 * 5. All members that a process has of one plan are of one kind. */
#ifndef LKI_PLAN_MEMBER_H
#define LKI_PLAN_MEMBER_H

#include "comm/comm.h"
#include "lane/lanes.h"
#include "plan/executor.h"

typedef struct lki_member_args {
    const lki_graph   *graph;
    lki_device        *device;
    const int         *order; /* nodes in the order in which they run, with the exchanges; read until make() returns */
    int                order_count;
    int                lanes, from, end; /* the member owns lanes from .. end - 1 of `lanes` */
    int                threads;          /* the number of host threads that may work for the member */
    const lki_subtree *trees;            /* by node: if the node is a sum, the lanes it sums over */
    char             **placed;           /* by root value: its address; NULL: the member chooses one. Read until free() */
    lki_comm          *comm;             /* the group that makes the exchanges */
} lki_member_args;

typedef struct lki_member_piece { /* bytes to be copied within the member's memory */
    void       *dst;
    const void *src;
    size_t      bytes;
} lki_member_piece;

typedef struct lki_member_kind lki_member_kind;

typedef struct lki_plan_member { /* an executor's own struct begins with this one */
    const lki_member_kind *kind;
    lki_device            *device;
    int                    parts;
    int                   *stop;   /* in `device`'s memory: 0, or a code of the op that met an index out of range (contract 3) */
    bool                   checks; /* some node may meet an index out of range */
} lki_plan_member;

struct lki_member_kind {
    bool (*suits)(const lki_device *d, char why[LKI_WHY]); /* false: this kind has no members on the device; `why` may say why */
    lk_status (*rewrite)(lki_plan *p);                     /* rewrites the whole graph; as in executor.h */

    lki_plan_member *(*make)(const lki_member_args *args); /* NULL and an error */
    void (*free)(lki_plan_member *m);                      /* NULL is ignored */
    char *(*home)(lki_plan_member *m, int value); /* the address of a root value; that of an input is valid in this replay */
    void (*info)(const lki_plan_member *m, lk_function_info *info);

    /* The functions of a replay. begin() and report() are called once for all members of this process. `call`: the number of the
     * function's call, for messages. *work: the number of the work that makes the results, on the device of the first member. */
    lk_status (*begin)(lki_plan_member *const *m, int count, int64_t call, const lki_value_list *in, int64_t *work);
    lk_status (*run)(lki_plan_member *m, int part);
    lk_status (*copy)(lki_plan_member *m, int count, const lki_member_piece *pieces);
    lk_status (*agree)(lki_plan_member *m, int count, const int *words); /* words of all members, in m's device's memory */
    lk_status (*report)(lki_plan_member *const *m, int count, int64_t work);
};

extern const lki_member_kind lki_cpu_members, lki_card_members;

#endif
