/* Echoes: ops of replicas that do what replica 0 did. While a function is traced replicas take turns, replica 0 first. Its ops
 * become nodes. An op of a later replica that does the same on its own operands is an echo of such a node: of it the graph keeps
 * the results and little more. So a graph of N replicas has the nodes of one.
 *
 *     replica 0    node 0   node 1   node 2   ...
 *     replica 1    echo     echo     write             what writes a variable is always a node of its own
 *
 * Invariants
 * 1. The k-th op of a replica is an echo of the k-th of replica 0, or a node that writes like it does.
 * 2. Operand j of an echo is the echo's own result where replica 0 reads its own result. Every other operand is kept (`others`).
 *    Everything else of an echo follows from the node and from the results.
 * 3. The first op that differs, or a different number of ops, makes nodes of all echoes (lki_echo_expand), and from then on all ops
 *    are nodes. */
#ifndef LKI_GRAPH_ECHO_H
#define LKI_GRAPH_ECHO_H

#include "graph/graph.h"

typedef struct lki_replica_op { /* an op of a replica */
    int node;                   /* its own, or the one of replica 0 */
    int after;                  /* how many nodes there were before it */
    int dst;                    /* the value of its first result */
    int others;                 /* its operands that are kept, from this place of the list on */
} lki_replica_op;

struct lki_replica_ops { /* the ops of a replica */
    lki_replica_op *turns;
    int             count, capacity;
    int            *others;
    int             other_count, other_capacity;
};

/* The node of replica 0 that this op of replica r, more than 0, repeats on operands src; -1: none, because it writes, or because no
 * op can be an echo now. LK_OK or an error: the op differs, and not all echoes could become nodes. */
lk_status lki_echo_find(lki_graph *g, const lki_infer *f, const int *src, int r, int *node);

/* Replica r has recorded an op: a node, or an echo of it, with results from value dst on. false without memory. */
bool lki_echo_note(lki_graph *g, int r, int node, int dst, const int *src);

/* Before replicas become one: echoes become nodes if some replica did more than another. */
lk_status lki_echo_check(lki_graph *g);

lk_status lki_echo_expand(lki_graph *g);
void      lki_echo_clear(lki_graph *g);

/* Ops in the order they were recorded: nodes, each of its own replica, and echoes. *out is released by the caller. Returns how many
 * there are; -1 without memory. */
typedef struct lki_recorded_op {
    int node, replica;
} lki_recorded_op;
int lki_echo_events(const lki_graph *g, lki_recorded_op **out);

/* What replica r has in place of an operand, a result, the attributes and the rows of a node: of an echo, if the node is one of
 * replica 0, else of the node itself. */
static inline bool lki_is_echo(const lki_node *n, int r) { return n->replica == 0 && r > 0; }

int             lki_echo_src(const lki_graph *g, int node, int r, int j);
int             lki_echo_dst(const lki_graph *g, int node, int r, int d);
const lki_attr *lki_echo_attr(const lki_graph *g, int node, int r, lki_attr *room); /* in *room, if they are not the node's */
lki_rows        lki_echo_rows(const lki_graph *g, int node, int r);

/* Which result of its maker a value is. */
int lki_graph_result(const lki_graph *g, int value);

#endif
