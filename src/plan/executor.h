/* Executors: how a graph runs on one kind of device. The graph says what is computed. An executor makes a plan of the
 * graph, which can be replayed. It refuses a graph that it cannot run before any op runs.
 *
 *     cpu      cpu/      threads of this machine: lanes, pieces and phases
 *     card     card/     one GPU: launches, captured as graphs of the card
 *     shard    shard/    several members (member.h), each run by cpu/ or card/, in parts with exchanges between them
 *
 * A plan goes through rewrite, accepts and prepare once, then through replay any number of times, then through free. free is also
 * called if one of the others failed. A new executor is a file with such a table and a line in plan.c. */
#ifndef LKI_PLAN_EXECUTOR_H
#define LKI_PLAN_EXECUTOR_H

#include "plan/plan.h"

enum { LKI_WHY = 256 }; /* bytes of a reason */

struct lki_executor {
    const char *name; /* "cpu" */

    /* True if this executor is for a graph whose ops were recorded on `device`. The first executor of the list that returns true is
     * used. */
    bool (*suits)(const lki_graph *g, const lki_device *device);

    /* Rewrites the simplified graph for this kind of device: ops that one kernel can do together become one node (graph/rewrite.h).
     * NULL: the graph is not rewritten. */
    lk_status (*rewrite)(lki_plan *p);

    /* LK_OK: the graph can be run. LK_EUNSUPPORTED: it cannot; `why` says why, with the op's name, no error is recorded, and the
     * function runs op by op. NULL: every graph can be run. */
    lk_status (*accepts)(lki_plan *p, char why[LKI_WHY]);

    /* Makes p->body and everything that a replay needs. */
    lk_status (*prepare)(lki_plan *p);

    /* Runs the plan once, without allocating memory. `out` are tensors with room for the outputs. */
    lk_status (*replay)(lki_plan *p, const lki_value_list *in, lk_tensor *const *out);

    void (*free)(lki_plan *p);                               /* frees p->body, which may be NULL or incomplete */
    void (*info)(const lki_plan *p, lk_function_info *info); /* sets calls, barriers and memory */
};

extern const lki_executor lki_cpu_executor, lki_card_executor, lki_shard_executor;

/* For tests: sets an executor that is asked before all others, or none (NULL). Returns the one that was set before. */
const lki_executor *lki_executor_first(const lki_executor *e);

#endif
