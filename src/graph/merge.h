/* Merging the values and nodes that N replicas recorded. collapse.c decides which are merged; these functions merge them.
 *
 *     values of the replicas                         merged into            the value of one replica is then
 *     UNIFORM   the same on all replicas             this value             the merged value
 *     ROWS      neighbouring rows                    all rows               a row range of them
 *     ROW_SUM   every replica has a part of a sum    the whole sum          not available
 *
 * Invariants
 * 1. A merged node is the node that one device would have recorded. Its shape, rows and mode are inferred again from the merged
 *    operands, and must agree with the results of all replicas together.
 * 2. A node cannot be merged if it uses one replica's part of a sum in a way that is not linear.
 * 3. LK_EUNSUPPORTED means "cannot be merged": no error is recorded, and `why` has the reason. Other codes are errors. */
#ifndef LKI_GRAPH_MERGE_H
#define LKI_GRAPH_MERGE_H

#include "core/memory.h"
#include "graph/echo.h"

typedef struct lki_joined { /* N nodes, recorded where all replicas met, that do the same with the value of each replica */
    const int *member;
    int       *dst; /* the results of the merged node, in `to` */
} lki_joined;

typedef struct lki_merger {
    lki_graph  *from, *to;
    int         n;
    bool       *live;     /* by node of `from`: it is needed */
    int        *members;  /* entry k * n + r: replica r's node of tuple k, in `from`; for an echo, the node that it repeats */
    int        *tuple_of; /* by node of `from`: its tuple; -1: it is in none */
    int         tuples;
    bool       *done;  /* by tuple */
    int        *whole; /* by value of `from`: its value in `to`, which is the merged one for a replica's value; -1: none yet */
    int        *alone; /* by value of `from`: a replica's own rows of the merged value; -1: none yet */
    lki_joined *joins;
    int         join_count, join_capacity;
    lk_tensor  *stand_in; /* operands for inferring a merged node, and pointers to them */
    lk_tensor **operand;
    lki_arena   arena;
    char        why[256];
} lki_merger;

static inline const lki_value *lki_from_value(const lki_merger *m, int v) { return &m->from->values[v]; }
static inline const lki_node  *lki_from_node(const lki_merger *m, int i) { return &m->from->nodes[i]; }
static inline const lki_value *lki_to_value(const lki_merger *m, int v) { return &m->to->values[v]; }

static inline int lki_member_src(const lki_merger *m, const int *member, int r, int j)
{
    return lki_echo_src(m->from, member[r], r, j);
}
static inline int lki_member_dst(const lki_merger *m, const int *member, int r, int d)
{
    return lki_echo_dst(m->from, member[r], r, d);
}

static inline bool lki_is_alias(const lki_node *n) { return n->slot == LKI_K_none; }

/* True for operands whose elements are not read: those of which only the shape is used, and all but the first operand of an
 * alias. */
static inline bool lki_is_unread(const lki_node *n, int operand)
{
    return lki_shape_only(n, operand) || (lki_is_alias(n) && operand > 0);
}

/* Returns the rows of a value that is the same on all replicas: rows stay rows, and everything else is uniform. */
static inline lki_rows lki_common_rows(const lki_rows *rows) { return rows->kind == LKI_ROWS ? *rows : (lki_rows){0}; }

/* Stores the reason in m->why and returns LK_EUNSUPPORTED. */
lk_status lki_merge_refuse(lki_merger *m, const char *format, ...) LKI_PRINTF(2, 3);

/* Returns room for `count` numbers, which lasts as long as the merger; NULL without memory. */
int *lki_merge_integers(lki_merger *m, int count);

/* Add a value or a node to the new graph. lki_merge_add_shape() adds a value of which only the shape is used. lki_merge_add_node()
 * adds a node like one of `from`, with operands of `to`. */
lk_status lki_merge_add_value(lki_merger *m, const lki_value *v, int *out);
lk_status lki_merge_add_alias(lki_merger *m, int of, const lk_shape *shape, const lki_rows *rows, int64_t offset, int *out);
lk_status lki_merge_add_shape(lki_merger *m, lk_dtype dtype, const lk_shape *shape, const lki_rows *rows, int *out);
lk_status lki_merge_add_constant(lki_merger *m, lk_tensor *t, int *out);
int       lki_merge_add_node(lki_merger *m, const lki_node *like, const lki_attr *attr, const int *src); /* -1 without memory */
lk_status lki_merge_add_results(lki_merger *m, int node, const lki_infer *f, int *dst);

/* Finds the value of `to` for the single value v of `from`: the value that all replicas have, or one replica's rows. */
lk_status lki_merge_alone(lki_merger *m, int v, int *out);

/* Merges v[0..n-1], one value of each replica, into one value of `to`. */
lk_status lki_merge_values(lki_merger *m, const int *v, int *out);

/* Merges the nodes member[0..n-1] into one node. dst receives its results. */
lk_status lki_merge_nodes(lki_merger *m, const int *member, int *dst);

#endif
