/* Running an op at once: the last of three stages from a public op to its kernel. */
#ifndef LKI_OP_RUN_H
#define LKI_OP_RUN_H

#include "op/infer.h"

lk_status lki_run(const lki_infer *f, lk_tensor **dst);

/* Run a sum over rows again, over the lanes of one subtree only. */
lk_tensor *lki_run_lanes(const lki_infer *f, int lane, int width);
lk_status  lki_run_update(const lki_infer *f);

/* The row of the kernel table for an op: the type of its first operand, of its first variable, or of its result. */
lk_dtype lki_kernel_type(const lki_infer *f);

/* Ops that read the variable they write as their first operand: v += x runs as add(v, x) into v. */
static inline bool lki_reads_own_variable(lki_op op) { return op == LKI_OP_assign_add || op == LKI_OP_assign_sub; }

/* The message for a kernel that reports an index outside its range. */
lk_status lki_fail_fault(lki_op op);

#endif
