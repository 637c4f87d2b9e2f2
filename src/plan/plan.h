/* Plans: what a traced graph becomes, replayed once per step.
 *
 *     graph --collapse, simplify--> graph of one device --executor: rewrite, accepts, prepare--> plan --replay, replay, ...
 *
 * An executor decides how it runs (executor.h); it is chosen by the device on which the ops were recorded. Nothing here knows a
 * kind of device. */
#ifndef LKI_PLAN_PLAN_H
#define LKI_PLAN_PLAN_H

#include "graph/graph.h"
#include <lockstep/step.h>

typedef struct lki_executor lki_executor;

typedef struct lki_plan {
    lki_graph          *graph;
    int                 threads, lanes;
    lki_device         *device; /* where outputs lie */
    int64_t             call;   /* which call of its function is replayed, for messages */
    const lki_executor *executor;
    void               *body; /* the executor's */
} lki_plan;

/* Owns the graph from here on, also when it fails. The lanes are those of the batch the graph works on. NULL and an error, or
 * `refused`: the executor does not run such a graph, and it can only run op by op. */
lki_plan *lki_plan_new(lki_graph *g, int threads, bool *refused);
void      lki_plan_free(lki_plan *p); /* NULL is ignored */

/* Run it once on a list of inputs; the outputs are copied into `out`, tensors with room for them. */
lk_status lki_plan_replay(lki_plan *p, const lki_value_list *in, lk_tensor *const *out);

lk_function_info lki_plan_info(const lki_plan *p);

/* The live nodes in the order they were recorded; and in one in which they may run one by one, so that a step that meets an index
 * out of range has written nothing: nodes that write variables come after all that may meet one, except where these need what they
 * write. `nodes` has room for all nodes of the graph. Returns how many there are; -1 without memory. */
int lki_plan_recorded(const lki_graph *g, int *nodes);
int lki_plan_sequence(const lki_graph *g, int *nodes);

/* Before a replay: tensors that still read a variable which the plan will write move to memory of their own. */
lk_status lki_plan_free_variables(const lki_plan *p);

#endif
