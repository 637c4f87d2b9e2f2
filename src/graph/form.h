/* What a tuple is made of, laid out as one list of values. A per-replica value is followed by its whole (none: NULL) and its items,
 * a nested tuple by its items:
 *
 *     (a, per-replica (b0, b1) that lie in w, nested (c, none))      a  P w b0 b1  T c -
 *
 * Forms describe a list without holding its tensors. Two tuples with equal forms have equal structure, so a plan for one serves the
 * other: this is what signatures are made of, and what the results of a plan are put together by. */
#ifndef LKI_GRAPH_FORM_H
#define LKI_GRAPH_FORM_H

#include "op/tensor.h"

typedef enum lki_form_kind { LKI_FORM_NONE, LKI_FORM_TENSOR, LKI_FORM_REPLICAS, LKI_FORM_NEST } lki_form_kind;

typedef struct lki_form {
    lki_form_kind kind;
    int           count;    /* REPLICAS, NEST: items */
    bool          mirrored; /* REPLICAS */
    void         *strategy; /* REPLICAS: whose; to compare with */
    lk_dtype      dtype;    /* TENSOR, and what follows */
    lk_shape      shape;
    lki_rows      rows;
    bool          weak;
    int           same;   /* of what goes in: the first of the list that is the same object */
    int           output; /* of what comes out: the output it lies in, */
    int64_t       first;  /* and the entry of the leading axis where it begins; -1: it is all of it */
} lki_form;

enum { LKI_FEW = 64 };

typedef struct lki_value_list { /* not to be copied */
    lk_tensor **item;
    int         count, room;
    lk_tensor  *few[LKI_FEW]; /* longer ones are allocated */
} lki_value_list;

/* Lay out one more value after the others. A per-replica value's whole is left out where its items are not neighbouring row ranges
 * that cover it. */
void      lki_value_list_begin(lki_value_list *l);
lk_status lki_value_list_add(lki_value_list *l, lk_tensor *t);
void      lki_value_list_end(lki_value_list *l);

/* The first of the list that is the same object as number i. */
int lki_value_list_same(const lki_value_list *l, int i);

lki_form lki_form_of(const lki_value_list *l, int i);
bool     lki_form_matches(const lki_form *f, const lki_value_list *l, int i);

/* A tuple of `items` values of these forms out of the outputs of a plan. */
lk_tuple lki_form_build(const lki_form *forms, int items, lk_tensor *const *outputs);

#endif
