/* Gradient rules: how the gradient of an op's results becomes that of its operands, written with ops, so that it can itself be
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
    lk_tensor *const *dy;   /* per result; NULL: no gradient arrived */
    const bool       *need; /* per operand: is its gradient asked for */
    lk_tensor       **dx;   /* per operand, NULL at first: what the rule fills in */
} lki_backward;

typedef void lki_gradient_fn(lki_backward *b);

/* NULL: the op has no gradient. */
lki_gradient_fn *lki_gradient_of(lki_op op);

/* Sum `t` over the axes along which `shape` was broadcast to t's shape. */
lk_tensor *lki_reduce_to(lk_tensor *t, const lk_shape *shape);

/* A scalar constant of x's type. */
lk_tensor *lki_like(const lk_tensor *x, double value);

/* lk_slice() with lists as they are inside. */
lk_tensor *lki_slice(lk_tensor *x, const lki_axes *begin, const lki_axes *size);

#endif
