/* Forms: the structure of a tuple, as one list of values. In the list, a per-replica value comes before its whole (NULL: it has
 * none) and its items, and a nested tuple comes before its items:
 *
 *     (a, per-replica (b0, b1) that lie in w, nested (c, none))      a  P w b0 b1  T c -
 *
 * Forms describe a list without holding its tensors. Two tuples with equal forms have equal structure, so a plan for one can be
 * replayed for the other. Signatures of plans consist of forms, and forms say how the outputs of a plan make up its results. */
#ifndef LKI_GRAPH_FORM_H
#define LKI_GRAPH_FORM_H

#include "op/tensor.h"

typedef enum lki_form_kind { LKI_FORM_NONE, LKI_FORM_TENSOR, LKI_FORM_REPLICAS, LKI_FORM_NEST } lki_form_kind;

typedef struct lki_form {
    lki_form_kind kind;
    int           count;    /* REPLICAS, NEST: items */
    bool          mirrored; /* REPLICAS */
    void         *strategy; /* REPLICAS: its strategy; only compared */
    lk_dtype      dtype;    /* TENSOR: this and the next three */
    lk_shape      shape;
    lki_rows      rows;
    bool          weak;
    int           same;   /* of an input: the index of the first entry of the list that is the same object */
    int           output; /* of a result: the output of the plan that has it */
    int64_t       first;  /* of a result: the first entry of that output's leading axis; -1: it is the whole output */
} lki_form;

enum { LKI_FEW = 64 };

typedef struct lki_value_list { /* not to be copied */
    lk_tensor **item;
    int         count, room;
    lk_tensor  *few[LKI_FEW]; /* a longer list is allocated */
} lki_value_list;

/* lki_value_list_add() appends a value to the list, with its items. The whole of a per-replica value is NULL in the list if its
 * items are not neighbouring row ranges that cover the whole. */
void      lki_value_list_begin(lki_value_list *l);
lk_status lki_value_list_add(lki_value_list *l, lk_tensor *t);
void      lki_value_list_end(lki_value_list *l);

/* Returns the index of the first entry that is the same object as entry i. */
int lki_value_list_same(const lki_value_list *l, int i);

lki_form lki_form_of(const lki_value_list *l, int i);
bool     lki_form_matches(const lki_form *f, const lki_value_list *l, int i);

/* Makes a tuple of `items` values with these forms from the outputs of a plan. */
lk_tuple lki_form_build(const lki_form *forms, int items, lk_tensor *const *outputs);

#endif
