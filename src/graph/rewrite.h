/* Rewriting a recorded graph: what passes over it are made of.
 *
 * Invariants
 * 1. lki_graph_simplify() counts how often each value is read (lki_value.uses). Passes change nodes only by the functions here,
 *    which keep those counts and the makers of values right.
 * 2. Without memory a rewrite changes nothing and returns false. Most rewrites save work and no more, so passes go on after that.
 *
 * Most rewrites have one form: a node does, besides its own work, what the only reader of its result does. They are lines of a
 * table (lki_fusion); other rewrites are functions. */
#ifndef LKI_GRAPH_REWRITE_H
#define LKI_GRAPH_REWRITE_H

#include "graph/graph.h"

/* Give a node these operands and results; lists of the node's own may be among the arguments. */
bool lki_node_rewire(lki_graph *g, lki_node *n, int nsrc, const int *src, int ndst, const int *dst);

/* The node became part of another. */
void lki_node_remove(lki_graph *g, lki_node *n);

/* From now on the elements of `value` are all elements of `of`. */
void lki_graph_alias(lki_graph *g, int value, int of);

void lki_graph_count_uses(lki_graph *g);

/* Operands that read any elements of a value, under any name; a result of the function counts as many. */
static inline int lki_graph_uses(const lki_graph *g, int value) { return g->values[lki_graph_root(g, value)].uses; }

/* May n run when `last` does, a later node? Not when a variable that n reads is written in between. */
bool lki_graph_may_wait(const lki_graph *g, const lki_node *n, const lki_node *last);

/* The node of this op that makes all elements of an operand for `reader` alone, perhaps under another shape, and may run when
 * `reader` does; else NULL. */
lki_node *lki_graph_maker_for(const lki_graph *g, const lki_node *reader, int operand, lki_op op);

/* One value, or two names of the same elements in the same shape. */
bool lki_graph_same_elements(const lki_graph *g, int a, int b);

static inline bool lki_graph_same_shape(const lki_graph *g, int a, int b)
{
    return lki_shape_equal(&g->values[a].shape, &g->values[b].shape);
}

/* `last`, row by row, becomes part of `first`, which makes an operand for it alone, also row by row. The result of `last` becomes
 * the result of `first`, or, where it has another shape, an alias of it. */
typedef struct lki_fusion {
    lki_op first, last;
    bool   other;    /* the other operand of `last` becomes one more of `first` */
    bool   reshaped; /* `last` may read the result of `first` under another shape */
    bool (*fits)(const lki_graph *g, const lki_node *first, const lki_node *last, int operand);
    void (*note)(lki_attr *a); /* what `first` does from now on */
} lki_fusion;

/* Line by line, over all nodes. */
void lki_graph_fuse(lki_graph *g, int count, const lki_fusion *table);

/* All nodes that read the gradient which `last` makes leave out by themselves what `last` leaves out: they read the operand src[0]
 * of `last` instead, and `mask` as one operand more, which is cut along rows or not. False: not all of them can, or there is no
 * memory; those that were not rewritten read what `last` makes, as before. */
typedef bool lki_can_mask(const lki_graph *g, const lki_node *reader, const lki_node *last);
bool         lki_graph_mask_readers(lki_graph *g, lki_node *last, int mask, bool cut, lki_can_mask *can);

/* Of nodes that run once over everything and do the same to the same values, the first stays (share.c). */
void lki_graph_share(lki_graph *g);

/* Passes that hold on every device and change no bit, in the order in which executors run them: products and convolutions with what
 * follows them (simplify.c), batch normalisation (fuse_norm.c), gradients through relu and the sums for biases (fuse_relu.c). */
void lki_graph_fuse_epilogues(lki_graph *g);
void lki_graph_fuse_norms(lki_graph *g);
void lki_graph_fuse_relus(lki_graph *g);
void lki_graph_fuse_biases(lki_graph *g);
void lki_graph_fuse_all(lki_graph *g); /* these four */

/* Of fuse_relu.c, for passes that choose: relu_grad(dy, y) of equal rows and shapes; and its readers do it by themselves. */
bool lki_is_plain_relu_grad(const lki_graph *g, const lki_node *n);
bool lki_graph_fuse_relu(lki_graph *g, lki_node *relu);

#endif
