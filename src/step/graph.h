/* The graph of one traced function: values, and the nodes (ops) that make them, in the order they were recorded.
 *
 * Invariants
 * 1. A node's operands were made before it; the order of nodes is the order of effects on variables.
 * 2. A value is made by a node, or is an input of the function, a constant (a tensor captured from outside), or a variable as it was when
 *    it was read. An alias shares the elements of another value under another shape or meaning.
 * 3. A node that writes variables has them as results: values of kind VARIABLE, one version on. */
#ifndef LKI_STEP_GRAPH_H
#define LKI_STEP_GRAPH_H

#include "op/infer.h"
#include "op/record.h"
#include <lockstep/grad.h>

typedef enum lki_value_kind { LKI_VALUE_MADE, LKI_VALUE_INPUT, LKI_VALUE_CONSTANT, LKI_VALUE_VARIABLE } lki_value_kind;

typedef struct lki_value {
    lki_value_kind kind;
    lk_dtype       dtype;
    lk_shape       shape;
    lki_rows       rows;
    int            maker;    /* node, or -1 */
    int            alias_of; /* value, or -1 */
    int            input;    /* INPUT: which */
    int            version;  /* VARIABLE: how often it was written before, in this graph */
    lk_tensor     *constant; /* CONSTANT: a reference */
    lk_variable   *variable; /* VARIABLE: a reference is held by the graph's list */
} lki_value;

typedef struct lki_node {
    lki_op   op;
    lki_slot slot;
    lk_dtype type; /* row of the kernel table */
    lki_attr attr;
    lki_mode mode;
    uint64_t cut;
    lki_rows rows;
    int      nsrc, ndst;
    int     *src, *dst; /* values; src in the order of the kernel's operands */
    int      order;     /* nodes run by this; recorded ones have even numbers */
    bool     writes;    /* results are variables */
    bool     dead;      /* nobody needs it, or it became part of another */
} lki_node;

typedef struct lki_graph_variable {
    lk_variable *variable; /* a reference */
    int          version;
    int          value; /* the current version */
} lki_graph_variable;

typedef struct lki_graph {
    lki_tracer          tracer;
    lki_value          *values;
    int                 value_count, value_capacity;
    lki_node           *nodes;
    int                 node_count, node_capacity;
    lki_graph_variable *variables;
    int                 variable_count, variable_capacity;
    int                 input_count;
    int                *outputs;
    int                 output_count;
    int                 fused;
    void               *token; /* what traced tensors know this graph by; no two graphs of a process have the same */
} lki_graph;

lki_graph *lki_graph_new(void);
void       lki_graph_free(lki_graph *g);

/* Run fn once on traced stand-ins for `in`, recording what it does. LK_OK and a whole graph, or an error. */
lk_status lki_graph_trace(lki_graph *g, lk_fn fn, lk_tuple in, void *user);

/* The first input that is the same tensor as input i: a tape inside the function cannot tell them apart. */
int lki_graph_same_input(lk_tuple in, int i);

/* Value v with aliases followed to the one that owns the elements. */
int lki_graph_root(const lki_graph *g, int v);

/* Append a node before the end is known; operands are values. Returns its index, or -1 without memory. */
int lki_graph_add_node(lki_graph *g, lki_op op, const lki_attr *attr, int nsrc, const int *src, int ndst);
int lki_graph_add_value(lki_graph *g, const lki_value *v);

/* Operand i of a node gives only its shape, not its elements. */
bool lki_shape_only(const lki_node *n, int operand);

/* Its kernel checks indices or divisors. */
bool lki_may_fault(const lki_node *n);

/* Simplify: drop what nobody needs, keep old versions of variables that are still read, join ops that one kernel can do together. */
lk_status lki_graph_simplify(lki_graph *g);

#endif
