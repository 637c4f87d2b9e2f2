/* Ops: one line of ops.inc each, and the two ways to apply one: to tensors (the result is a new tensor) and to variables (in
 * place).
 *
 * Both check shapes and types, then either run the kernel at once or, while a function is traced, add a node to its graph. In both
 * cases active tapes record the op. This is the second of three stages from a public op to its kernel. */
#ifndef LKI_OP_OP_H
#define LKI_OP_OP_H

#include "core/error.h"
#include "kernel/kernel.h"
#include "op/tensor.h"

#define LKI_OP(name, nsrc, ndst, shape, lane, grad, slot, text) LKI_OP_##name,
typedef enum lki_op {
#include "op/ops.inc"
    LKI_OP_COUNT
} lki_op;
#undef LKI_OP

const char *lki_op_name(lki_op op);

/* Apply an op to tensors. Any NULL or poisoned operand gives a poisoned result. `dst` receives op's outputs; the first is
 * returned. */
lk_tensor *lki_apply(lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_tensor **dst);

/* True if `t`, the argument `name` of `call`, can be used. NULL is reported; poison is not, because its error was reported
 * before. */
bool lki_usable(const char *call, const char *name, const lk_tensor *t);

/* Report an error; returns the poisoned tensor, so that a function can end in `return lki_refuse(LK_ESHAPE, "...", ...)`. */
lk_tensor *lki_refuse(lk_status code, const char *format, ...) LKI_PRINTF(2, 3);

/* For a poisoned operand of `call`: reports an error unless the first cause is still recorded. */
void lki_poisoned_operand(const char *call, int operand);

/* Ops of one result, by operand count; attr may be NULL. */
lk_tensor *lki_apply1(lki_op op, const lki_attr *attr, lk_tensor *a);
lk_tensor *lki_apply2(lki_op op, const lki_attr *attr, lk_tensor *a, lk_tensor *b);
lk_tensor *lki_apply3(lki_op op, const lki_attr *attr, lk_tensor *a, lk_tensor *b, lk_tensor *c);

/* An op that writes variables in place: dst of the kernel is var[0..nvar-1]'s storage. Not recorded by tapes. The op's shape rule
 * checks that all variables and the first src agree where they must. */
lk_status lki_update(lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, int nvar, lk_variable *const *var);

#endif
