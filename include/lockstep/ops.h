/* Arithmetic on tensors. Every op checks its operands, runs immediately (inside a function being traced it is recorded instead) and
 * returns a new tensor. After an error the tensor is poisoned and lk_error() has the message. Operands broadcast as in NumPy. f16
 * and bf16 are storage formats only: sums are computed in f32.
 *
 * docs/ops.md, generated from src/op/ops.inc, lists all primitive ops with their shape, lane and gradient rules. */
#ifndef LOCKSTEP_OPS_H
#define LOCKSTEP_OPS_H

#include "tensor.h"

LK_BEGIN

/* ---- element-wise ------------------------------------------------------------------------------------------------------------ */

#define LK_UNARY_LIST(X)                                                                                                           \
    X(neg)                                                                                                                         \
    X(abs)                                                                                                                         \
    X(sign)                                                                                                                        \
    X(exp)                                                                                                                         \
    X(expm1)                                                                                                                       \
    X(log)                                                                                                                         \
    X(log1p)                                                                                                                       \
    X(sqrt)                                                                                                                        \
    X(rsqrt)                                                                                                                       \
    X(square)                                                                                                                      \
    X(reciprocal)                                                                                                                  \
    X(sin)                                                                                                                         \
    X(cos)                                                                                                                         \
    X(tanh)                                                                                                                        \
    X(sigmoid)                                                                                                                     \
    X(erf)                                                                                                                         \
    X(floor)                                                                                                                       \
    X(ceil)                                                                                                                        \
    X(round)                                                                                                                       \
    X(is_finite)                                                                                                                   \
    X(logical_not)                                                                                                                 \
    X(relu)                                                                                                                        \
    X(relu6)                                                                                                                       \
    X(softplus)                                                                                                                    \
    X(softsign)                                                                                                                    \
    X(selu)                                                                                                                        \
    X(swish)                                                                                                                       \
    X(mish)                                                                                                                        \
    X(hard_sigmoid)                                                                                                                \
    X(hard_silu)                                                                                                                   \
    X(hard_tanh)                                                                                                                   \
    X(log_sigmoid)                                                                                                                 \
    X(sparse_plus)                                                                                                                 \
    X(sparse_sigmoid)                                                                                                              \
    X(tanh_shrink)
#define LKI_UNARY_DECLARE(name) LK_API lk_tensor *lk_##name(lk_tensor *x);
LK_UNARY_LIST(LKI_UNARY_DECLARE)
#undef LKI_UNARY_DECLARE

#define LK_BINARY_LIST(X)                                                                                                          \
    X(add)                                                                                                                         \
    X(sub)                                                                                                                         \
    X(mul)                                                                                                                         \
    X(div)                                                                                                                         \
    X(floordiv)                                                                                                                    \
    X(mod)                                                                                                                         \
    X(pow)                                                                                                                         \
    X(maximum)                                                                                                                     \
    X(minimum)                                                                                                                     \
    X(squared_difference)                                                                                                          \
    X(equal)                                                                                                                       \
    X(not_equal)                                                                                                                   \
    X(less)                                                                                                                        \
    X(less_equal)                                                                                                                  \
    X(greater)                                                                                                                     \
    X(greater_equal)                                                                                                               \
    X(logical_and)                                                                                                                 \
    X(logical_or)
#define LKI_BINARY_DECLARE(name) LK_API lk_tensor *lk_##name(lk_tensor *a, lk_tensor *b);
LK_BINARY_LIST(LKI_BINARY_DECLARE)
#undef LKI_BINARY_DECLARE

LK_API lk_tensor *lk_elu(lk_tensor *x, double alpha);             /* x > 0 ? x : alpha * (e^x - 1) */
LK_API lk_tensor *lk_leaky_relu(lk_tensor *x, double alpha);      /* x > 0 ? x : alpha * x */
LK_API lk_tensor *lk_gelu(lk_tensor *x, lk_switch approximate);   /* default LK_OFF: by erf; LK_ON: by tanh */
LK_API lk_tensor *lk_celu(lk_tensor *x, double alpha);            /* x > 0 ? x : alpha * (e^(x / alpha) - 1); alpha is not 0 */
LK_API lk_tensor *lk_squareplus(lk_tensor *x, double b);          /* (x + sqrt(x * x + b)) / 2 */
LK_API lk_tensor *lk_hard_shrink(lk_tensor *x, double threshold); /* |x| > threshold ? x : 0 */
LK_API lk_tensor *lk_soft_shrink(lk_tensor *x, double threshold); /* nearer to 0 by threshold; 0 if |x| is at most that */
LK_API lk_tensor *lk_threshold(lk_tensor *x, double threshold, double value); /* x > threshold ? x : value */
LK_API lk_tensor *lk_glu(lk_tensor *x, int axis);                             /* first half of the axis * sigmoid(second half) */
LK_API lk_tensor *lk_sparsemax(lk_tensor *x, int axis);                       /* the nearest probabilities: many are exactly 0 */
LK_API lk_tensor *lk_clip(lk_tensor *x, double low, double high);
LK_API lk_tensor *lk_cast(lk_tensor *x, lk_dtype to);
LK_API lk_tensor *lk_where(lk_tensor *condition, lk_tensor *a, lk_tensor *b);
LK_API lk_tensor *lk_add_n(lk_tuple terms); /* added from left to right */
LK_API lk_tensor *lk_identity(lk_tensor *x);

/* ---- products ---------------------------------------------------------------------------------------------------------------- */

typedef struct lk_matmul_args {
    const char *kw_;
    lk_tensor  *a, *b;                    /* required: [..., m, k] and [..., k, n]; leading axes broadcast */
    lk_switch   transpose_a, transpose_b; /* default LK_OFF */
} lk_matmul_args;
#define lk_matmul(...) lk_matmul_kw(LKI_KW(lk_matmul_args, __VA_ARGS__))
LK_API lk_tensor *lk_matmul_kw(lk_matmul_args args);

/* ---- reductions -------------------------------------------------------------------------------------------------------------- */

typedef struct lk_reduce_args {
    const char *kw_;
    lk_tensor  *x;        /* required */
    lk_axes     axis;     /* default: all; LK_AXES(1, 2) */
    lk_switch   keepdims; /* default LK_OFF */
} lk_reduce_args;
#define LK_REDUCE_LIST(X)                                                                                                          \
    X(reduce_sum)                                                                                                                  \
    X(reduce_mean)                                                                                                                 \
    X(reduce_max)                                                                                                                  \
    X(reduce_min)                                                                                                                  \
    X(reduce_prod)                                                                                                                 \
    X(reduce_any)                                                                                                                  \
    X(reduce_all)                                                                                                                  \
    X(reduce_logsumexp)                                                                                                            \
    X(reduce_variance)
#define lk_reduce_sum(...) lk_reduce_sum_kw(LKI_KW(lk_reduce_args, __VA_ARGS__))
#define lk_reduce_mean(...) lk_reduce_mean_kw(LKI_KW(lk_reduce_args, __VA_ARGS__))
#define lk_reduce_max(...) lk_reduce_max_kw(LKI_KW(lk_reduce_args, __VA_ARGS__))
#define lk_reduce_min(...) lk_reduce_min_kw(LKI_KW(lk_reduce_args, __VA_ARGS__))
#define lk_reduce_prod(...) lk_reduce_prod_kw(LKI_KW(lk_reduce_args, __VA_ARGS__))
#define lk_reduce_any(...) lk_reduce_any_kw(LKI_KW(lk_reduce_args, __VA_ARGS__))
#define lk_reduce_all(...) lk_reduce_all_kw(LKI_KW(lk_reduce_args, __VA_ARGS__))
#define lk_reduce_logsumexp(...) lk_reduce_logsumexp_kw(LKI_KW(lk_reduce_args, __VA_ARGS__))
#define lk_reduce_variance(...) lk_reduce_variance_kw(LKI_KW(lk_reduce_args, __VA_ARGS__))
#define LKI_REDUCE_DECLARE(name) LK_API lk_tensor *lk_##name##_kw(lk_reduce_args args);
LK_REDUCE_LIST(LKI_REDUCE_DECLARE)
#undef LKI_REDUCE_DECLARE

typedef struct lk_axis_args {
    const char *kw_;
    lk_tensor  *x;         /* required */
    lk_axis     axis;      /* default LK_AXIS(-1); LK_AXIS(0) for cumsum, argmax and argmin, as in TensorFlow */
    lk_switch   exclusive; /* cumsum: default LK_OFF */
    lk_switch   reverse;   /* cumsum: default LK_OFF */
} lk_axis_args;
#define lk_softmax(...) lk_softmax_kw(LKI_KW(lk_axis_args, __VA_ARGS__))
#define lk_log_softmax(...) lk_log_softmax_kw(LKI_KW(lk_axis_args, __VA_ARGS__))
#define lk_cumsum(...) lk_cumsum_kw(LKI_KW(lk_axis_args, __VA_ARGS__))
#define lk_argmax(...) lk_argmax_kw(LKI_KW(lk_axis_args, __VA_ARGS__))
#define lk_argmin(...) lk_argmin_kw(LKI_KW(lk_axis_args, __VA_ARGS__))
LK_API lk_tensor *lk_softmax_kw(lk_axis_args args);
LK_API lk_tensor *lk_log_softmax_kw(lk_axis_args args);
LK_API lk_tensor *lk_cumsum_kw(lk_axis_args args);
LK_API lk_tensor *lk_argmax_kw(lk_axis_args args); /* i64 */
LK_API lk_tensor *lk_argmin_kw(lk_axis_args args); /* i64 */

/* The k largest along the last axis, descending: values and their i32 indices. */
LK_API lk_tuple lk_top_k(lk_tensor *x, int64_t k);

/* ---- moves ------------------------------------------------------------------------------------------------------------------- */

LK_API lk_tensor *lk_reshape(lk_tensor *x, lk_shape shape); /* one size may be -1 */
LK_API lk_tensor *lk_flatten_rows(lk_tensor *x);            /* [n, a, b, ...] to [n, a*b*...] */
LK_API lk_tensor *lk_expand_dims(lk_tensor *x, int axis);
LK_API lk_tensor *lk_squeeze(lk_tensor *x, lk_axes axes);   /* LK_AXES(): every axis of size 1 */
LK_API lk_tensor *lk_transpose(lk_tensor *x, lk_axes perm); /* LK_AXES(): reversed */
LK_API lk_tensor *lk_broadcast_to(lk_tensor *x, lk_shape shape);
LK_API lk_tensor *lk_slice(lk_tensor *x, lk_axes begin, lk_axes size); /* a size of -1: all that is left */
LK_API lk_tensor *lk_reverse(lk_tensor *x, lk_axes axes);

typedef struct lk_strided_slice_args {
    const char *kw_;
    lk_tensor  *x;                    /* required */
    lk_axes     begin, end, strides;  /* required, a value per axis; negative begin and end count from the end */
    unsigned    begin_mask, end_mask; /* bit i: ignore begin or end of axis i, as in TensorFlow */
} lk_strided_slice_args;
#define lk_strided_slice(...) lk_strided_slice_kw(LKI_KW(lk_strided_slice_args, __VA_ARGS__))
LK_API lk_tensor *lk_strided_slice_kw(lk_strided_slice_args args);

typedef enum lk_pad_mode { LK_PAD_CONSTANT, LK_PAD_REFLECT, LK_PAD_SYMMETRIC } lk_pad_mode;
typedef struct lk_pad_args {
    const char *kw_;
    lk_tensor  *x;             /* required */
    lk_axes     before, after; /* required, a value per axis */
    lk_pad_mode mode;          /* default LK_PAD_CONSTANT */
    double      value;         /* default 0 */
} lk_pad_args;
#define lk_pad(...) lk_pad_kw(LKI_KW(lk_pad_args, __VA_ARGS__))
LK_API lk_tensor *lk_pad_kw(lk_pad_args args);

LK_API lk_tensor *lk_concat(lk_tuple parts, int axis);
LK_API lk_tensor *lk_stack(lk_tuple parts, int axis);
LK_API lk_tuple   lk_split(lk_tensor *x, lk_axes sizes, int axis);
LK_API lk_tuple   lk_unstack(lk_tensor *x, int axis); /* the entries of an axis, which goes away */
LK_API lk_tensor *lk_tile(lk_tensor *x, lk_axes multiples);
#ifndef __cplusplus /* these macros let axis 0 be written as a plain 0: lk_squeeze(x, 0), lk_slice(row, 0, 5) */
#define LKI_AXES(a) lki_axes_given(a, #a)
#define lk_squeeze(x, axes) (lk_squeeze)(x, LKI_AXES(axes))
#define lk_transpose(x, perm) (lk_transpose)(x, LKI_AXES(perm))
#define lk_slice(x, begin, size) (lk_slice)(x, LKI_AXES(begin), LKI_AXES(size))
#define lk_reverse(x, axes) (lk_reverse)(x, LKI_AXES(axes))
#define lk_split(x, sizes, axis) (lk_split)(x, LKI_AXES(sizes), axis)
#define lk_tile(x, multiples) (lk_tile)(x, LKI_AXES(multiples))
#endif
LK_API lk_tensor *lk_gather(lk_tensor *x, lk_tensor *ids, int axis); /* ids i32 or i64, any shape */

typedef struct lk_one_hot_args {
    const char *kw_;
    lk_tensor  *ids;   /* required: integers */
    int64_t     depth; /* required */
    lk_number   on;    /* default 1 */
    double      off;   /* default 0 */
    lk_dtype    dtype; /* default LK_F32 */
} lk_one_hot_args;
#define lk_one_hot(...) lk_one_hot_kw(LKI_KW(lk_one_hot_args, __VA_ARGS__))
LK_API lk_tensor *lk_one_hot_kw(lk_one_hot_args args); /* an id out of range gives a row of `off` */

/* ---- random numbers: a pure function of seed, stream, iteration, call, global row and element -------------------------------- */

typedef struct lk_random_args {
    const char *kw_;
    lk_shape    shape;     /* required */
    const char *stream;    /* default "": names an independent sequence, e.g. the path of a layer */
    lk_tensor  *iteration; /* default 0: i64 scalar */
    int64_t     call;      /* default 0: which call within a step, up to 65535 */
    double      low;       /* uniform: default 0; normal: the mean, default 0 */
    lk_number   high;      /* uniform: default 1; normal: the deviation, default 1 */
    lk_tensor  *rows_of;   /* default none: a tensor whose rows the result has; shape is then the shape of a row */
} lk_random_args;
#define lk_random_uniform(...) lk_random_uniform_kw(LKI_KW(lk_random_args, __VA_ARGS__))
#define lk_random_normal(...) lk_random_normal_kw(LKI_KW(lk_random_args, __VA_ARGS__))
LK_API lk_tensor *lk_random_uniform_kw(lk_random_args args);
LK_API lk_tensor *lk_random_normal_kw(lk_random_args args);

/* ---- custom ops -------------------------------------------------------------------------------------------------------------- */

typedef struct lk_op lk_op;

/* Raw memory, row by row, for one call. With by_rows one call may have only some of the rows; their number is in these shapes. */
typedef struct lk_op_view {
    int                inputs;
    const void *const *in;
    const lk_shape    *in_shape;
    const lk_dtype    *in_dtype;
    void              *out;
    lk_shape           out_shape;
    lk_dtype           out_dtype;
} lk_op_view;

/* Called on any thread, possibly on several at the same time. Must be a pure function of its inputs. */
typedef void (*lk_op_compute_fn)(const lk_op_view *view, void *user);
typedef lk_status (*lk_op_shape_fn)(int inputs, const lk_shape *in, lk_shape *out, void *user);

/* The gradient for each input, computed with ops (custom ones too). NULL in the tuple: no gradient flows to that input. */
typedef lk_tuple (*lk_op_gradient_fn)(lk_tuple in, lk_tensor *out, lk_tensor *dy, void *user);

typedef struct lk_op_args {
    const char       *kw_;
    const char       *name;     /* required: for messages */
    lk_op_compute_fn  compute;  /* required */
    lk_op_shape_fn    shape;    /* default: that of the first input */
    lk_op_gradient_fn gradient; /* default: none flows through it */
    void             *user;
    lk_integer        inputs;  /* default 1 */
    lk_switch         by_rows; /* default LK_OFF. LK_ON: row i of the result depends on row i of the inputs with the same number of
                                * rows, and on the other inputs as a whole. Rows then keep their lanes, and the bits do not depend
                                * on the number of devices */
} lk_op_args;

/* An op is never freed: functions that were traced with it may be called at any time. */
#define lk_op_of(...) lk_op_of_kw(LKI_KW(lk_op_args, __VA_ARGS__))
LK_API lk_op *lk_op_of_kw(lk_op_args args);

/* Apply it, eagerly or in a function being traced: lk_op_call(op, x), lk_op_call(op, a, b). The result has the type of the first
 * input. */
#define lk_op_call(op, ...) lk_op_apply(op, LK_TUPLE(__VA_ARGS__))
LK_API lk_tensor *lk_op_apply(lk_op *op, lk_tuple in);

LK_END

#endif
