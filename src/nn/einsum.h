/* Products of a batch and weights by an equation: "abc,cd->abd", "...x,xy->...y", "ab...,bc->ac...". */
#ifndef LKI_NN_EINSUM_H
#define LKI_NN_EINSUM_H

#include "op/op.h"

/* The labels of the operands' axes and of the result's, one character each. Those of an ellipsis are digits. */
typedef struct lki_einsum {
    char x[LK_MAX_RANK + 1], w[LK_MAX_RANK + 1], y[LK_MAX_RANK + 1];
    int  elided; /* how many axes the ellipsis stands for; 0: none */
    bool left;   /* it comes first */
} lki_einsum;

/* The equation for an x of this rank, of which axis 0 is the batch; NULL, or why it is not supported. */
const char *lki_einsum_of(lki_einsum *e, const char *equation, int rank);

/* The place of a label in such a text; -1: it has none. */
int lki_label_at(const char *labels, char label);

/* The product; sizes of axes with the same label are equal. */
lk_tensor *lki_einsum_product(const lki_einsum *e, lk_tensor *x, lk_tensor *w);

#endif
