/* Rewriting a recorded graph: the functions that passes use.
 *
 * Invariants
 * 1. lki_graph_simplify() counts how often each value is read (lki_value.uses). Passes change nodes only with the functions of this
 *    file, which update these counts and the makers of values.
 * 2. Without memory a rewrite changes nothing and returns false. Then passes continue with the next rewrite, because most rewrites
 *    only save work.
 *
 * Most rewrites have one form: if a result has a single reader, the node that makes it also does the work of the reader. These
 * rewrites are lines of a table (lki_fusion). Other rewrites are functions. */
#ifndef LKI_GRAPH_REWRITE_H
#define LKI_GRAPH_REWRITE_H

#include "graph/graph.h"

/* Sets the operands and results of a node. The arguments may be the node's present lists. */
bool lki_node_rewire(lki_graph *g, lki_node *n, int nsrc, const int *src, int ndst, const int *dst);

/* Removes a node that became part of another node. */
void lki_node_remove(lki_graph *g, lki_node *n);

/* Makes `value` an alias of all elements of `of`. */
void lki_graph_alias(lki_graph *g, int value, int of);

void lki_graph_count_uses(lki_graph *g);

/* Returns the number of operands that read elements of a value or of its aliases. A result of the function counts as many
 * operands. */
static inline int lki_graph_uses(const lki_graph *g, int value) { return g->values[lki_graph_root(g, value)].uses; }

/* True if node n can run as late as `last`, a later node. It cannot if a variable that n reads is written in between. */
bool lki_graph_may_wait(const lki_graph *g, const lki_node *n, const lki_node *last);

/* Returns the node that makes all elements of an operand, perhaps with another shape, if its op is `op`, if no other node than
 * `reader` reads them, and if it can run as late as `reader`. Otherwise NULL. */
lki_node *lki_graph_maker_for(const lki_graph *g, const lki_node *reader, int operand, lki_op op);

/* True if a and b are one value, or have the same elements and the same shape. */
bool lki_graph_same_elements(const lki_graph *g, int a, int b);

static inline bool lki_graph_same_shape(const lki_graph *g, int a, int b)
{
    return lki_shape_equal(&g->values[a].shape, &g->values[b].shape);
}

/* A line of the table: `last` becomes part of `first`. Both work row by row, and `first` makes an operand that only `last` reads.
 * The result of `last` becomes the result of `first`, or an alias of it if the shapes differ. */
typedef struct lki_fusion {
    lki_op first, last;
    bool   other;    /* the other operand of `last` becomes an operand of `first` */
    bool   reshaped; /* `last` may read the result of `first` with another shape */
    bool (*fits)(const lki_graph *g, const lki_node *first, const lki_node *last, int operand);
    void (*note)(lki_attr *a); /* stores in the attributes what `first` now does in addition */
} lki_fusion;

/* Applies the table, line by line, to all nodes. */
void lki_graph_fuse(lki_graph *g, int count, const lki_fusion *table);

/* `last` makes a gradient in which it leaves out some elements. Rewrites all readers of this gradient so that they leave them out
 * themselves: they read src[0] of `last` instead, and have one more operand, `mask`. `cut`: the mask is divided along rows. False:
 * some readers cannot do this, or there is no memory. Readers that were not rewritten still read the result of `last`. */
typedef bool lki_can_mask(const lki_graph *g, const lki_node *reader, const lki_node *last);
bool         lki_graph_mask_readers(lki_graph *g, lki_node *last, int mask, bool cut, lki_can_mask *can);

/* If several nodes that run once over everything do the same with the same values, keeps only the first one (share.c). */
lk_status lki_graph_share(lki_graph *g);

/* Passes that are right on every device and change no bit, in the order in which executors run them: products and convolutions with
 * the ops after them (simplify.c), batch normalisation (fuse_norm.c), gradients through relu and the sums for biases
 * (fuse_relu.c). */
void lki_graph_fuse_epilogues(lki_graph *g);
void lki_graph_fuse_norms(lki_graph *g);
void lki_graph_fuse_relus(lki_graph *g);
void lki_graph_fuse_biases(lki_graph *g);
void lki_graph_fuse_all(lki_graph *g); /* runs these four */

/* For passes that choose single nodes (fuse_relu.c). True if the node is relu_grad(dy, y) and both have equal rows and shapes. */
bool lki_is_plain_relu_grad(const lki_graph *g, const lki_node *n);

/* Rewrites the readers of such a node so that they do its work themselves. */
bool lki_graph_fuse_relu(lki_graph *g, lki_node *relu);

#endif
