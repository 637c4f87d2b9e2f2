/* Running an op at once. This is the last of the three stages that lead from a public op to its kernel. */
#ifndef LKI_OP_RUN_H
#define LKI_OP_RUN_H

#include "op/infer.h"

/* Runs an op; dst receives its results as new tensors. */
lk_status lki_run(const lki_infer *f, lk_tensor **dst);

/* Runs a sum over rows again, but only over the subtree of lanes lane .. lane + width - 1. Returns its first result, or poison. */
lk_tensor *lki_run_lanes(const lki_infer *f, int lane, int width);

/* Runs an op that writes variables. */
lk_status lki_run_update(const lki_infer *f);

/* Returns the type by which the kernel of an op is chosen: that of its first operand or, without operands, of its first variable.
 * For random numbers it is the type of the result. */
lk_dtype lki_kernel_type(const lki_infer *f);

/* True if the op's kernel gets the variable that it writes as its first operand: v += x runs as add(v, x), written to v. */
static inline bool lki_reads_own_variable(lki_op op) { return op == LKI_OP_assign_add || op == LKI_OP_assign_sub; }

/* Reports the error of an op whose kernel met an index out of range, or a division of an integer by zero. */
lk_status lki_fail_fault(lki_op op);

#endif
