/* Merging what N replicas recorded, value by value and node by node. collapse.c decides what is merged, this is how.
 *
 *     values of the replicas               merged into                a replica's own is then
 *     UNIFORM   the same on all            that one                   the same
 *     ROWS      neighbouring rows          all rows                   a row range of them
 *     ROW_SUM   a part of a sum each       the whole sum              gone
 *
 * Invariants
 * 1. A merged node is what one device would have recorded: its shape, rows and mode are worked out again from the merged operands,
 *    and must be what the replicas' results make up together.
 * 2. A node that needs one replica's part of a sum, in any way that is not linear, cannot be merged.
 * 3. LK_EUNSUPPORTED means "cannot be merged": no error is recorded, and `why` says the reason. Other codes are errors. */
#ifndef LKI_GRAPH_MERGE_H
#define LKI_GRAPH_MERGE_H

#include "core/memory.h"
#include "graph/echo.h"

typedef struct lki_joined { /* nodes that no replica recorded alone, found to be N of a kind */
    const int *member;
    int       *dst; /* in `to` */
} lki_joined;

typedef struct lki_merger {
    lki_graph  *from, *to;
    int         n;
    bool       *live;     /* by node of `from`: it is needed */
    int        *members;  /* of tuple k, by replica, from k * n on: nodes of `from`; of an echo, the node it repeats */
    int        *tuple_of; /* by node of `from`; -1: none */
    int         tuples;
    bool       *done;  /* by tuple */
    int        *whole; /* by value of `from`: what became of it in `to`, for a replica's value the merged one; -1: nothing yet */
    int        *alone; /* by value of `from`: a replica's own rows of the merged value; -1: nothing yet */
    lki_joined *joins;
    int         join_count, join_capacity;
    lk_tensor  *stand_in; /* operands to work out a merged node with, and pointers to them */
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

/* Operands whose elements are not read: those that give a shape, and what an alias has besides its first. */
static inline bool lki_is_unread(const lki_node *n, int operand)
{
    return lki_shape_only(n, operand) || (lki_is_alias(n) && operand > 0);
}

/* What is the same for all, whatever it was called before, is uniform; rows stay rows. */
static inline lki_rows lki_common_rows(const lki_rows *rows) { return rows->kind == LKI_ROWS ? *rows : (lki_rows){0}; }

/* LK_EUNSUPPORTED, and the reason. */
lk_status lki_merge_refuse(lki_merger *m, const char *format, ...) LKI_PRINTF(2, 3);

/* Room for `count` numbers until the end; NULL without memory. */
int *lki_merge_integers(lki_merger *m, int count);

/* Values and nodes of the new graph. A shape is something to take a shape from; the node is like one of `from`, on operands of
 * `to`. */
lk_status lki_merge_add_value(lki_merger *m, const lki_value *v, int *out);
lk_status lki_merge_add_alias(lki_merger *m, int of, const lk_shape *shape, const lki_rows *rows, int64_t offset, int *out);
lk_status lki_merge_add_shape(lki_merger *m, lk_dtype dtype, const lk_shape *shape, const lki_rows *rows, int *out);
lk_status lki_merge_add_constant(lki_merger *m, lk_tensor *t, int *out);
int       lki_merge_add_node(lki_merger *m, const lki_node *like, const lki_attr *attr, const int *src); /* -1 without memory */
lk_status lki_merge_add_results(lki_merger *m, int node, const lki_infer *f, int *dst);

/* Value v of `from` by itself: as all have it, or one replica's rows. */
lk_status lki_merge_alone(lki_merger *m, int v, int *out);

/* One value of `to` for v[0..n-1], one of each replica. */
lk_status lki_merge_values(lki_merger *m, const int *v, int *out);

/* One node for the nodes member[0..n-1]; dst receives its results. */
lk_status lki_merge_nodes(lki_merger *m, const int *member, int *dst);

#endif
