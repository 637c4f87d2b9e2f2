/* Executors: how a graph runs on one kind of device. The graph says what is computed. An executor makes of it something that can be
 * replayed, and refuses a graph that it cannot run before anything runs.
 *
 *     cpu      cpu/      threads of this machine: lanes, pieces and phases
 *     card     card/     one GPU: launches, captured as graphs of the card
 *     shard    shard/    several members (member.h), which cpu/ or card/ run: parts, with exchanges between them
 *
 * A plan goes through rewrite, accepts and prepare once, then through replay any number of times, then through free, which is also
 * called after a failure. A new executor is a file with such a table and a line in plan.c. */
#ifndef LKI_PLAN_EXECUTOR_H
#define LKI_PLAN_EXECUTOR_H

#include "plan/plan.h"

enum { LKI_WHY = 256 }; /* bytes of a reason */

struct lki_executor {
    const char *name; /* "cpu" */

    /* Is a graph whose ops were recorded on `device` for this executor? The first of the list that says so gets it. */
    bool (*suits)(const lki_graph *g, const lki_device *device);

    /* Rewrite the simplified graph for this kind of device: ops that one kernel does together become one node (graph/rewrite.h).
     * NULL: it is run as it is. */
    lk_status (*rewrite)(lki_plan *p);

    /* Can it be run? LK_EUNSUPPORTED and why not, with the op's name; no error is recorded, and the function runs op by op. NULL:
     * every graph can. */
    lk_status (*accepts)(lki_plan *p, char why[LKI_WHY]);

    /* Make p->body, and everything that a replay needs. */
    lk_status (*prepare)(lki_plan *p);

    /* Run it once; nothing is allocated. Outputs are copied into `out`, tensors with room for them. */
    lk_status (*replay)(lki_plan *p, const lki_value_list *in, lk_tensor *const *out);

    void (*free)(lki_plan *p);                               /* p->body, which may be NULL or half made */
    void (*info)(const lki_plan *p, lk_function_info *info); /* calls, barriers, memory */
};

extern const lki_executor lki_cpu_executor, lki_card_executor, lki_shard_executor;

/* One that is asked before all others; NULL: none. Returns the one before. For tests. */
const lki_executor *lki_executor_first(const lki_executor *e);

#endif
