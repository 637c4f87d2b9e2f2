/* Plans. A traced graph becomes a plan, which is replayed once per step.
 *
 *     graph --collapse, simplify--> graph of one device --executor: rewrite, accepts, prepare--> plan --replay, replay, ...
 *
 * An executor decides how the graph runs (executor.h). The device on which the ops were recorded determines the executor. This file
 * does not depend on a kind of device. */
#ifndef LKI_PLAN_PLAN_H
#define LKI_PLAN_PLAN_H

#include "graph/graph.h"
#include <lockstep/step.h>

typedef struct lki_executor lki_executor;

typedef struct lki_plan {
    lki_graph          *graph;
    int                 threads, lanes;
    lki_device         *device; /* the device of the outputs */
    int64_t             call;   /* the number of the function's call that is replayed, for messages */
    const lki_executor *executor;
    void               *body; /* the executor's */
} lki_plan;

/* Makes a plan of a graph and takes ownership of the graph, also on failure. The plan has as many lanes as the batch. NULL with an
 * error; or NULL and *refused: the executor cannot run such a graph, so the function must run op by op. */
lki_plan *lki_plan_new(lki_graph *g, int threads, bool *refused);
void      lki_plan_free(lki_plan *p); /* NULL is ignored */

/* Runs the plan once on a list of inputs. `out` are tensors with room for the outputs. */
lk_status lki_plan_replay(lki_plan *p, const lki_value_list *in, lk_tensor *const *out);

lk_function_info lki_plan_info(const lki_plan *p);

/* These functions list the live nodes: lki_plan_recorded() in the order in which they were recorded, lki_plan_sequence() in an
 * order for running them one by one. In the latter, nodes that write variables come after all nodes that may meet an index out of
 * range, unless such a node reads the new value. So a step that meets one has written nothing, apart from this exception.
 * `nodes` has room for all nodes of the graph. Returns their number; -1 without memory. */
int lki_plan_recorded(const lki_graph *g, int *nodes);
int lki_plan_sequence(const lki_graph *g, int *nodes);

/* To be called before a replay. Tensors that still read the old value of a variable that the plan writes get memory of their
 * own. */
lk_status lki_plan_free_variables(const lki_plan *p);

#endif
