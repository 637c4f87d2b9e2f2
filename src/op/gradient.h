/* Gradient rules: the gradients of an op's operands from those of its results, written with ops, so that they can themselves be
 * recorded, differentiated again, traced and planned. */
#ifndef LKI_OP_GRADIENT_H
#define LKI_OP_GRADIENT_H

#include "op/op.h"

typedef struct lki_backward {
    lki_op            op;
    const lki_attr   *attr;
    int               nsrc, ndst;
    lk_tensor *const *src;
    lk_tensor *const *dst;
    lk_tensor *const *dy;   /* per result; NULL: it has no gradient */
    const bool       *need; /* per operand: whether its gradient is requested */
    lk_tensor       **dx;   /* per operand, NULL at first: the rule fills it in */
} lki_backward;

typedef void lki_gradient_fn(lki_backward *b);

/* NULL: the op has no gradient. */
lki_gradient_fn *lki_gradient_of(lki_op op);

/* Sum `t` over the axes along which `shape` was broadcast to t's shape. */
lk_tensor *lki_reduce_to(lk_tensor *t, const lk_shape *shape);

/* A scalar constant of x's type. */
lk_tensor *lki_like(const lk_tensor *x, double value);

/* If a and b are made of rows (lk_tensor.slice_rows), their sum is made of the rows of both: two lookups in one table. */
void lki_join_rows(lk_tensor *sum, lk_tensor *a, lk_tensor *b);

/* lk_slice() with lists as lki_axes. */
lk_tensor *lki_slice(lk_tensor *x, const lki_axes *begin, const lki_axes *size);

#endif
