/* The graph of one traced function: values, and the nodes (ops) that make them, in the order they were recorded.
 *
 * Invariants
 * 1. A node's operands were made before it; the order of nodes is the order of effects on variables.
 * 2. A value is made by a node, or is an input of the function, a constant (a tensor captured from outside), or a variable as it
 *    was when it was read. An alias shares the elements of another value, or a range of them, under another shape or meaning.
 * 3. A node that writes variables has them as results: values of kind VARIABLE, one version on.
 * 4. Replicas record into one graph, one after the other. What a replica does like replica 0 is an echo of replica 0's node
 *    (echo.h); other nodes know which replica recorded them. What they recorded becomes the graph of one device if that is the same
 *    computation (collapse.c). */
#ifndef LKI_GRAPH_GRAPH_H
#define LKI_GRAPH_GRAPH_H

#include "core/map.h"
#include "core/runtime.h"
#include "graph/form.h"
#include "op/infer.h"
#include "op/record.h"
#include "op/replica.h"
#include <lockstep/grad.h>

typedef enum lki_value_kind { LKI_VALUE_MADE, LKI_VALUE_INPUT, LKI_VALUE_CONSTANT, LKI_VALUE_VARIABLE } lki_value_kind;

typedef struct lki_value {
    lki_value_kind kind;
    lk_dtype       dtype;
    lk_shape       shape;
    lki_rows       rows;
    int            maker;    /* node, or -1 */
    int            alias_of; /* value, or -1 */
    int64_t        offset;   /* of an alias: elements of the other value that lie before it */
    int            input;    /* INPUT: which of the list of inputs */
    int            replica;  /* which has it alone, or -1 */
    int            uses;     /* of a root value, from lki_graph_simplify() on: operands that read its elements (rewrite.h) */
    int            version;  /* VARIABLE: how often it was written before, in this graph; */
    int            entry;    /* its place in the graph's list of variables; */
    int            next;     /* the value of the version after this one, or -1 */
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
    int      replica;   /* that recorded it, or -1: all together, or there are none */
    int      place;     /* its index among the ops of this replica, if the graph has lists of them (echo.h) */
    bool     writes;    /* results are variables */
    bool     dead;      /* it is not needed, or it became part of another */
} lki_node;

typedef struct lki_graph_variable {
    lk_variable *variable; /* a reference */
    int          version;
    int          first, value; /* the versions 0 and `version` */
} lki_graph_variable;

/* Where replicas recorded it. */
typedef struct lki_graph_where {
    int          count;  /* of replicas; 0: none did */
    lki_device **device; /* by replica; NULL: it recorded nothing */
    const void  *strategy;
    lki_sending  sending;
} lki_graph_where;

typedef struct lki_replica_ops lki_replica_ops;

typedef struct lki_graph {
    lki_tracer          tracer;
    lki_value          *values;
    int                 value_count, value_capacity;
    lki_node           *nodes;
    int                 node_count, node_capacity;
    lki_graph_variable *variables;
    int                 variable_count, variable_capacity;
    lki_map             entry_of; /* variables, by address: their entries */
    int                 input_count;
    int                *outputs;
    int                 output_count;
    lki_form           *results; /* how the outputs make up the tuple that is returned */
    int                 result_count, result_items;
    int                 replicas;        /* N of those that recorded; 0: none did */
    lki_replica_ops    *ops_of;          /* by replica: what each did; NULL: all ops are nodes (echo.h) */
    bool                several_numbers; /* replicas of strategies of different size did */
    bool                apart;           /* replicas recorded it and are planned one beside the other */
    lki_device         *device;          /* where ops of replicas were recorded, or else the first op was; NULL: none so far */
    bool                of_replica;      /* ... and it was one of a replica */
    bool                scattered; /* ops were recorded on devices of several memories: a plan of it is one over several cards */
    lki_graph_where     where;
    lki_precision       precision;       /* of its products on a GPU: that of the strategy it works for, else what was current */
    bool                own_precision;   /* ... and it is a strategy's own */
    bool                two_precisions;  /* strategies with different ones of their own recorded it */
    int                 recorded, fused; /* nodes as traced; nodes that became part of another */
    const char         *name;            /* of the function, for messages; not a reference */
    void               *token;           /* what traced tensors know this graph by; no two graphs of a process have the same */
} lki_graph;

lki_graph *lki_graph_new(void);
void       lki_graph_free(lki_graph *g);

/* Run fn once on traced stand-ins for the `items` values of the list, recording what it does. LK_OK and a whole graph, or an
 * error. */
lk_status lki_graph_trace(lki_graph *g, lk_fn fn, const lki_value_list *in, int items, void *user);

/* The value a tensor stands for: its own in this graph, else a captured constant. -1 and an error: of another graph, or no
 * memory. */
int lki_graph_value_of(lki_graph *g, lk_tensor *t);

/* Bytes of a value's elements. */
static inline size_t lki_value_bytes(const lki_value *v)
{
    return lki_bytes_of(lki_shape_size(&v->shape), lk_dtype_bytes(v->dtype));
}

/* Value v with aliases followed to the one that owns the elements, and how many of them lie before v's own. */
int     lki_graph_root(const lki_graph *g, int v);
int64_t lki_graph_offset(const lki_graph *g, int v);

/* What is written as one: a value's root or, of a variable, its version 0. */
static inline int lki_graph_key(const lki_graph *g, int v)
{
    const int root = lki_graph_root(g, v);
    return g->values[root].kind == LKI_VALUE_VARIABLE ? g->variables[g->values[root].entry].first : root;
}

/* The node that overwrites a value, the version of a variable; -1: no node does. */
static inline int lki_graph_writer_after(const lki_graph *g, int root)
{
    const lki_value *v = &g->values[root];
    return v->kind == LKI_VALUE_VARIABLE && v->next >= 0 ? g->values[v->next].maker : -1;
}

/* Only some of the elements of its root. */
static inline bool lki_graph_is_range(const lki_graph *g, int v)
{
    return lki_shape_size(&g->values[v].shape) != lki_shape_size(&g->values[lki_graph_root(g, v)].shape);
}

/* Are two tensors of a function being traced made in the same way from the same values (same.c)? */
bool lki_graph_same(lki_tracer *tracer, lk_tensor *a, lk_tensor *b);

/* Append a node before the end is known; operands are values. Returns its index, or -1 without memory. */
int lki_graph_add_node(lki_graph *g, lki_op op, const lki_attr *attr, int nsrc, const int *src, int ndst);
int lki_graph_add_value(lki_graph *g, const lki_value *v);

/* A variable's entry, with its current version; NULL without memory. And its next version, written by `node`: a value, or -1
 * without memory. */
lki_graph_variable *lki_graph_enter(lki_graph *g, lk_variable *v);
int                 lki_graph_write(lki_graph *g, lk_variable *v, int node);

/* "conv2d +bias +relu +pool": a node's op and what its kernel does besides, for LOCKSTEP_VERBOSE=plan. */
enum { LKI_NODE_TEXT = 64 };
const char *lki_node_text(const lki_node *n, char text[LKI_NODE_TEXT]);

/* Operand i of a node gives only its shape, not its elements. */
bool lki_shape_only(const lki_node *n, int operand);

/* Its kernel checks indices or divisors. */
bool lki_may_fault(const lki_node *n);

/* Replace what N replicas recorded by what one device would have recorded, where that is the same computation to the last bit of
 * its results; else leave the graph as it is and say why (LOCKSTEP_VERBOSE=lanes). */
lk_status lki_graph_collapse(lki_graph **g);

/* What every executor wants before its own rewrites (rewrite.h): old versions of variables that are still read get memory of their
 * own, nodes whose results are not read are dropped, and what is computed twice is computed once. */
lk_status lki_graph_simplify(lki_graph *g);

#endif
