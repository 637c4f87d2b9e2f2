/* Echoes: ops of a replica that do what replica 0 did. While a function is traced, replicas run one after the other, replica 0
 * first. The ops of replica 0 become nodes. If an op of a later replica does the same as such a node, on this replica's operands,
 * it is an echo of the node. The graph stores little more of an echo than its results. So a graph of N replicas has the nodes of
 * replica 0, and for every other replica only the nodes that write variables.
 *
 *     replica 0    node 0   node 1   node 2   ...
 *     replica 1    echo     echo     write             an op that writes a variable is never an echo
 *
 * Invariants
 * 1. The k-th op of a replica is an echo of the k-th op of replica 0; or both are nodes that write variables.
 * 2. If operand j of the node is a result that replica 0 made, then operand j of the echo is the corresponding result of the echo's
 *    replica. Every other operand of the echo is stored in `others`. Everything else of an echo follows from the node and from the
 *    echo's results.
 * 3. If an op of a replica differs from that of replica 0, or if a replica has a different number of ops, all echoes become nodes
 *    (lki_echo_expand). From then on every op is recorded as a node. */
#ifndef LKI_GRAPH_ECHO_H
#define LKI_GRAPH_ECHO_H

#include "graph/graph.h"

typedef struct lki_replica_op { /* an op of a replica */
    int node;                   /* the node of this op; for an echo, the node of replica 0 */
    int after;                  /* the number of nodes in the graph when the op was noted */
    int dst;                    /* the value of its first result */
    int others;                 /* the index in the replica's list `others` at which its stored operands begin */
} lki_replica_op;

struct lki_replica_ops {   /* the ops of a replica */
    lki_replica_op *place; /* the ops, in the order in which the replica recorded them */
    int             count, capacity;
    int            *others; /* operands of echoes that do not follow from the node */
    int             other_count, other_capacity;
};

/* Finds the node of replica 0 that an op of replica r > 0 repeats, on operands src. *node is -1 if the op must be a node: because
 * it writes variables, because it differs from the op of replica 0, or because the graph has no lists of echoes. LK_ENOMEM:
 * there is no memory to make nodes of all echoes, or for their results. */
lk_status lki_echo_find(lki_graph *g, const lki_infer *f, const int *src, int r, int *node);

/* Notes that replica r has recorded an op: the node itself, or an echo of it. Its first result is value dst. false without
 * memory. */
bool lki_echo_note(lki_graph *g, int r, int node, int dst, const int *src);

/* Makes nodes of all echoes if the replicas recorded different numbers of ops. To be called when all replicas are recorded. */
lk_status lki_echo_check(lki_graph *g);

lk_status lki_echo_expand(lki_graph *g); /* makes nodes of all echoes */
void      lki_echo_clear(lki_graph *g);  /* frees the lists of echoes; from then on every op is a node */

/* Lists all ops, nodes and echoes, in the order in which they were recorded. An echo has the node that it repeats and its own
 * replica. The caller releases *out. Returns the number of ops; -1 without memory. */
typedef struct lki_recorded_op {
    int node, replica;
} lki_recorded_op;
int lki_echo_events(const lki_graph *g, lki_recorded_op **out);

/* These functions return operand j, result d, the attributes and the rows of replica r's op for a node. If replica 0 recorded the
 * node and r > 0, they describe replica r's echo; otherwise the node itself. */
static inline bool lki_is_echo(const lki_node *n, int r) { return n->replica == 0 && r > 0; }

int             lki_echo_src(const lki_graph *g, int node, int r, int j);
int             lki_echo_dst(const lki_graph *g, int node, int r, int d);
const lki_attr *lki_echo_attr(const lki_graph *g, int node, int r, lki_attr *room); /* in *room if they differ from the node's */
lki_rows        lki_echo_rows(const lki_graph *g, int node, int r);

/* Returns the index of a value among the results of its maker. */
int lki_graph_result(const lki_graph *g, int value);

#endif
