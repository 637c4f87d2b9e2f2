/* The results of an op, inferred before it runs: types and shapes (shape rules, infer.c), and what their rows mean (lane rules,
 * lane.c).
 *
 * A lane rule also says how the op may be divided:
 *
 *     EACH    every row of the result depends on the same row of the operands in `cut` (bit i: operand i is divided along its
 *             leading axis) and on all of the others; it can run lane by lane
 *     SUM     the result is a sum over the rows of the operands in `cut`; it runs lane by lane and up the tree
 *     WHOLE   neither; it runs once, over everything */
#ifndef LKI_OP_INFER_H
#define LKI_OP_INFER_H

#include "op/op.h"

enum { LKI_MAX_DST = 64 };

typedef enum lki_mode { LKI_WHOLE, LKI_EACH, LKI_SUM } lki_mode;

typedef struct lki_infer {
    lki_op              op;
    const lki_attr     *attr;
    int                 nsrc;
    lk_tensor *const   *src;
    int                 nvar;
    lk_variable *const *var; /* of lki_update */
    /* results */
    int      ndst;
    lk_shape shape[2]; /* of the first result and of all others */
    lk_dtype dtype[2];
    lki_rows rows; /* of every result */
    lki_mode mode;
    uint64_t cut; /* EACH and SUM; operands after the 63rd are all divided */
} lki_infer;

typedef lk_status lki_shape_fn(lki_infer *f);
typedef void      lki_lane_fn(lki_infer *f);

typedef struct lki_op_info {
    const char   *name;
    int           nsrc, ndst;
    lki_shape_fn *shape;
    lki_lane_fn  *lane;
    lki_slot      slot;
    const char   *text;
} lki_op_info;

const lki_op_info *lki_op_line(lki_op op);

/* Element i of every result depends on element i (or, broadcast, on one element) of each operand and variable, by the op's
 * rules. */
bool lki_is_elementwise(lki_op op);

/* Apply both rules. */
lk_status lki_infer_op(lki_infer *f);

/* A message about operands: "matmul: a [7, 9] f32, b [8, 6] f32: <what is wrong>". */
lk_status lki_fail_op(const lki_infer *f, lk_status code, const char *format, ...) LKI_PRINTF(3, 4);

static inline bool lki_is_cut(uint64_t cut, int operand) { return operand > 63 || (cut >> operand & 1); }

#endif
