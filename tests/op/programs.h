/* A list of small programs that together call every public op and layer, each with a description of its inputs. What is tested with
 * them: gradients by central differences (gradients.c), compiled against op by op (compiled.c), no rows (gradients.c), allocations
 * that fail (fault/ops.c), 16-bit floats (halves.c), the null device (null.c).
 *
 *   PROGRAM(name, flags, inputs, results)       a, b, c, d, e, f are the inputs
 *
 *   inputs   x[N,3]      floats, N rows of the batch        w[3,4]      floats, not rows: weights
 *            x[N,3]1:2   between 1 and 2 (else -2 and 2); no two elements are equal
 *            i[N]7       i32 from 0 to 6, rows              j[4]7       the same, not rows
 *            m[N,3]      bool, rows                         n[3]        bool, not rows
 *   flags    G  differentiable in all float inputs, twice
 *            L  a layer: without rows the gradient of every w is zero
 *            R  needs at least one row
 *            P  every result is made by one op, so that 16-bit floats give the f32 result, rounded */
#ifndef LK_TESTS_PROGRAMS_H
#define LK_TESTS_PROGRAMS_H

#include "core/dtype.h"
#include <lockstep.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { G = 1, L = 2, R = 4, P = 8 };

#define K(x) lk_scalar(x)
#define BN(...) lk_nn_batch_norm(__VA_ARGS__, .training = LK_ON)

/* A custom op: x * w along the last axis. */
static inline void own_product(const lk_op_view *v, void *user)
{
    const lk_shape *x = &v->in_shape[0];
    int64_t         width = x->dim[x->rank - 1], size = 1;
    (void)user;
    for (int i = 0; i < x->rank; i++)
        size *= x->dim[i];
    if (v->out_dtype != LK_F32 && v->out_dtype != LK_F64) memset(v->out, 0, (size_t)size * lk_dtype_bytes(v->out_dtype));
    for (int64_t i = 0; i < size; i++) {
        if (v->out_dtype == LK_F64) ((double *)v->out)[i] = ((const double *)v->in[0])[i] * ((const double *)v->in[1])[i % width];
        if (v->out_dtype == LK_F32) ((float *)v->out)[i] = ((const float *)v->in[0])[i] * ((const float *)v->in[1])[i % width];
    }
}

static inline lk_tuple own_product_gradient(lk_tuple in, lk_tensor *out, lk_tensor *dy, void *user)
{
    (void)out, (void)user;
    return LK_TUPLE(lk_mul(dy, in.item[1]), lk_reduce_sum(lk_mul(dy, in.item[0]), .axis = LK_AXES(0)));
}

/* The first replica that asks makes it, and the others wait: an op lives as long as the process, so a second one would be lost. */
static inline lk_op *own_op(void)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    static lk_op          *op;
    pthread_mutex_lock(&turn);
    if (!op) op = lk_op_of("own_product", own_product, .gradient = own_product_gradient, .inputs = 2, .by_rows = LK_ON);
    lk_op *made = op;
    pthread_mutex_unlock(&turn);
    return made;
}

#define PROGRAMS(PROGRAM)                                                                                                          \
    /* element-wise, one operand */                                                                                                \
    PROGRAM(neg, G | P, "x[N,3]", lk_neg(a))                                                                                       \
    PROGRAM(abs, G | P, "x[N,1,5]", lk_abs(a))                                                                                     \
    PROGRAM(sign, P, "x[N,3]", lk_sign(a))                                                                                         \
    PROGRAM(exp, G | P, "x[N,3]", lk_exp(a))                                                                                       \
    PROGRAM(expm1, G | P, "x[N,3]", lk_expm1(a))                                                                                   \
    PROGRAM(log, G | P, "x[N,3]0.2:3", lk_log(a))                                                                                  \
    PROGRAM(log1p, G | P, "x[N]-0.5:3", lk_log1p(a))                                                                               \
    PROGRAM(sqrt, G | P, "x[N,3]0.2:3", lk_sqrt(a))                                                                                \
    PROGRAM(rsqrt, G | P, "x[N,3]0.2:3", lk_rsqrt(a))                                                                              \
    PROGRAM(square, G | P, "x[N,3]", lk_square(a))                                                                                 \
    PROGRAM(reciprocal, G | P, "x[N,3]0.5:3", lk_reciprocal(a))                                                                    \
    PROGRAM(sin, G | P, "x[N,3]", lk_sin(a))                                                                                       \
    PROGRAM(cos, G | P, "x[N,3]", lk_cos(a))                                                                                       \
    PROGRAM(tanh, G | P, "x[N,3]", lk_tanh(a))                                                                                     \
    PROGRAM(sigmoid, G | P, "x[N,3]", lk_sigmoid(a))                                                                               \
    PROGRAM(erf, G | P, "x[N,3]", lk_erf(a))                                                                                       \
    PROGRAM(rounding, 0, "x[N,3]", lk_floor(a), lk_ceil(a), lk_round(a), lk_is_finite(a), lk_logical_not(lk_is_finite(a)))         \
    PROGRAM(relu, G | P, "x[N,3]", lk_relu(a))                                                                                     \
    PROGRAM(relu6, G, "x[N,3]-3:9", lk_relu6(a))                                                                                   \
    PROGRAM(softplus, G | P, "x[N,3]", lk_softplus(a))                                                                             \
    PROGRAM(softsign, G, "x[N,3]", lk_softsign(a))                                                                                 \
    PROGRAM(selu, G, "x[N,3]", lk_selu(a))                                                                                         \
    PROGRAM(swish, G, "x[N,3]", lk_swish(a))                                                                                       \
    PROGRAM(mish, G, "x[N,3]", lk_mish(a))                                                                                         \
    PROGRAM(hard_sigmoid, G, "x[N,5]-6:6", lk_hard_sigmoid(a))                                                                     \
    PROGRAM(elu, G, "x[N,3]", lk_elu(a, 0.7))                                                                                      \
    PROGRAM(celu, G, "x[N,3]", lk_celu(a, 0.7))                                                                                    \
    PROGRAM(squareplus, G, "x[N,3]", lk_squareplus(a, 3))                                                                          \
    PROGRAM(shrink, G, "x[N,3]", lk_hard_shrink(a, 0.4), lk_soft_shrink(a, 0.4), lk_tanh_shrink(a), lk_threshold(a, 0.3, 5))       \
    PROGRAM(hard, G, "x[N,3]", lk_hard_silu(a), lk_hard_tanh(a), lk_log_sigmoid(a), lk_sparse_plus(a), lk_sparse_sigmoid(a))       \
    PROGRAM(glu, G, "x[N,4,3]", lk_glu(a, 1))                                                                                      \
    PROGRAM(sparsemax, G, "x[N,3,4]-1.93:1.71", lk_sparsemax(a, -1), lk_sparsemax(a, 1))                                           \
    PROGRAM(leaky_relu, G | P, "x[N,3]", lk_leaky_relu(a, 0.3))                                                                    \
    PROGRAM(gelu, G, "x[N,3]", lk_gelu(a, LK_OFF), lk_gelu(a, LK_ON))                                                              \
    PROGRAM(clip, G | P, "x[N,3]", lk_clip(a, -0.9, 1.1))                                                                          \
    PROGRAM(cast, G, "x[N,3]", lk_cast(a, lk_tensor_dtype(a)), lk_cast(lk_cast(a, LK_F64), lk_tensor_dtype(a)),                    \
            lk_cast(a, LK_I32))                                                                                                    \
    PROGRAM(identity, G | P, "x[N,3] w[]", lk_identity(a), lk_identity(b), a)                                                      \
    PROGRAM(stop_gradient, P, "x[N,3]", lk_stop_gradient(a))                                                                       \
    PROGRAM(activations, G, "x[N,4]", lk_activate(a, LK_LINEAR), lk_activate(a, LK_EXPONENTIAL), lk_activate(a, LK_GELU_TANH),     \
            lk_activate(a, LK_SOFTMAX), lk_activate(a, LK_LOG_SOFTMAX), lk_activate(a, LK_ELU), lk_activate(a, LK_LEAKY_RELU))     \
    /* element-wise, two operands */                                                                                               \
    PROGRAM(add, G | P, "x[N,3] w[3]", lk_add(a, b), lk_add(b, a), lk_add(a, K(2)))                                                \
    PROGRAM(sub, G | P, "x[N,3,2] w[3,1]", lk_sub(a, b), lk_sub(b, a))                                                             \
    PROGRAM(mul, G | P, "x[N,3] w[1,3] x[N,1]", lk_mul(a, b), lk_mul(a, c))                                                        \
    PROGRAM(div, G | P, "x[N,3] w[3]1:2 x[N,3]1:3", lk_div(a, b), lk_div(a, c), lk_div(b, c))                                      \
    PROGRAM(mod, G | P, "x[N,3]2.3:2.7 w[3]0.99:1.1", lk_mod(a, b))                                                                \
    PROGRAM(floordiv, P, "x[N,3] w[3]1:2", lk_floordiv(a, b))                                                                      \
    PROGRAM(pow, G | P, "x[N,3]0.3:2 w[3]", lk_pow(a, b), lk_pow(a, K(3)))                                                         \
    PROGRAM(maximum, G | P, "x[N,3] x[N,1] w[]", lk_maximum(a, b), lk_maximum(c, a))                                               \
    PROGRAM(minimum, G | P, "x[N,3] w[1,1]", lk_minimum(a, b), lk_minimum(b, a))                                                   \
    PROGRAM(squared_difference, G, "x[N,3] w[3]", lk_squared_difference(a, b))                                                     \
    PROGRAM(comparisons, P, "x[N,3] w[3]", lk_equal(a, b), lk_not_equal(a, b), lk_less(a, b), lk_less_equal(a, b),                 \
            lk_greater(a, b), lk_greater_equal(b, a))                                                                              \
    PROGRAM(logical, 0, "m[N,3] n[3]", lk_logical_and(a, b), lk_logical_or(b, a), lk_logical_not(a))                               \
    PROGRAM(where, G | P, "m[N,3] x[N,3] w[3] n[]", lk_where(a, b, c), lk_where(d, c, b), lk_where(a, c, K(0)))                    \
    PROGRAM(add_n, G, "x[N,3] w[3] x[N,3]", lk_add_n(LK_TUPLE(a, b, c, a)), lk_add_n(LK_TUPLE(a)))                                 \
    /* products */                                                                                                                 \
    PROGRAM(matmul, G | P, "x[N,3] w[3,4] w[4,3]", lk_matmul(a, b), lk_matmul(a, c, .transpose_b = LK_ON))                         \
    PROGRAM(matmul_rows, G | P, "x[N,3] x[N,2]", lk_matmul(a, b, .transpose_a = LK_ON), lk_matmul(b, a, LK_ON),                    \
            lk_matmul(a, a, .transpose_b = LK_ON))                                                                                 \
    PROGRAM(matmul_both, G | P, "w[3,4] w[5,3]", lk_matmul(a, b, LK_ON, LK_ON))                                                    \
    PROGRAM(matmul_batch, G | P, "x[N,2,3] x[N,3,1] w[3,2]", lk_matmul(a, b), lk_matmul(a, c), lk_matmul(c, a))                    \
    PROGRAM(matmul_broadcast, G | P, "x[N,1,2,3] w[4,3,2]", lk_matmul(a, b), lk_matmul(b, a), lk_matmul(a, b, LK_ON, LK_ON))       \
    /* reductions */                                                                                                               \
    PROGRAM(reduce_sum, G, "x[N,3,2]", lk_reduce_sum(a), lk_reduce_sum(a, LK_AXES(0)), lk_reduce_sum(a, LK_AXES(1)),               \
            lk_reduce_sum(a, LK_AXES(0, 2), LK_ON), lk_reduce_sum(a, LK_AXES(-1, 1)))                                              \
    PROGRAM(reduce_mean, G, "x[N,3,2]", lk_reduce_mean(a), lk_reduce_mean(a, LK_AXES(0)), lk_reduce_mean(a, LK_AXES(1, 2), LK_ON)) \
    PROGRAM(reduce_max, G | R, "x[N,3,2]", lk_reduce_max(a), lk_reduce_max(a, LK_AXES(0)), lk_reduce_max(a, LK_AXES(1), LK_ON))    \
    PROGRAM(reduce_min, G | R, "x[N,3,2]", lk_reduce_min(a), lk_reduce_min(a, LK_AXES(0, 2)), lk_reduce_min(a, LK_AXES(-1)))       \
    PROGRAM(reduce_prod, G, "x[N,3,2]0.5:2", lk_reduce_prod(a), lk_reduce_prod(a, LK_AXES(0)), lk_reduce_prod(a, LK_AXES(1)))      \
    PROGRAM(reduce_bool, 0, "m[N,3]", lk_reduce_any(a), lk_reduce_all(a, LK_AXES(1)), lk_reduce_any(a, LK_AXES(0), LK_ON))         \
    PROGRAM(reduce_logsumexp, G, "x[N,3,2]", lk_reduce_logsumexp(a), lk_reduce_logsumexp(a, LK_AXES(0)),                           \
            lk_reduce_logsumexp(a, LK_AXES(0, 2), LK_ON))                                                                          \
    PROGRAM(reduce_variance, G, "x[N,3,2]", lk_reduce_variance(a), lk_reduce_variance(a, LK_AXES(0)),                              \
            lk_reduce_variance(a, LK_AXES(0, 2), LK_ON), lk_reduce_variance(a, LK_AXES(1)))                                        \
    PROGRAM(softmax, G, "x[N,4]", lk_softmax(a), lk_softmax(a, LK_AXIS(0)))                                                        \
    PROGRAM(log_softmax, G, "x[N,3,2]", lk_log_softmax(a), lk_log_softmax(a, LK_AXIS(1)))                                          \
    PROGRAM(cumsum, G | P, "x[N,3,2]", lk_cumsum(a), lk_cumsum(a, LK_AXIS(1), .exclusive = LK_ON),                                 \
            lk_cumsum(a, LK_AXIS(-1), .reverse = LK_ON), lk_cumsum(a, LK_AXIS(0), LK_ON, LK_ON))                                   \
    PROGRAM(argmax, R, "x[N,4]", lk_argmax(a), lk_argmax(a, LK_AXIS(1)), lk_argmin(a, LK_AXIS(-1)))                                \
    PROGRAM(top_k, G | P, "x[N,5]", lk_top_k(a, 2).item[0], lk_top_k(a, 5).item[0], lk_top_k(a, 1).item[1])                        \
    /* moves */                                                                                                                    \
    PROGRAM(reshape, G | P, "x[N,6]", lk_reshape(a, LK_SHAPE(lk_dim(a, 0), 3, 2)), lk_flatten_rows(lk_expand_dims(a, 1)),          \
            lk_reshape(a, LK_SHAPE(2 * lk_dim(a, 0), 3)), lk_expand_dims(a, 0), lk_squeeze(lk_expand_dims(a, -1), (lk_axes){0}),   \
            lk_reshape(a, LK_SHAPE(6, lk_dim(a, 0))))                                                                              \
    PROGRAM(transpose, G | P, "x[N,3,2]", lk_transpose(a, (lk_axes){0}), lk_transpose(a, LK_AXES(0, 2, 1)),                        \
            lk_transpose(a, LK_AXES(1, 2, 0)))                                                                                     \
    PROGRAM(broadcast_to, G | P, "x[N,1] w[3]", lk_broadcast_to(a, LK_SHAPE(lk_dim(a, 0), 4)), lk_broadcast_to(b, LK_SHAPE(2, 3)), \
            lk_broadcast_to(a, LK_SHAPE(2, lk_dim(a, 0), 1)))                                                                      \
    PROGRAM(slice, G | P, "x[N,5]", lk_slice(a, LK_AXES(0, 1), LK_AXES(-1, 3)), lk_slice(a, LK_AXES(0, 4), LK_AXES(-1, 1)))        \
    PROGRAM(slice_rows, G | R | P, "x[N,5]", lk_slice(a, LK_AXES(lk_dim(a, 0) / 2, 0), LK_AXES(1, 2)))                             \
    PROGRAM(strided_slice, G | P, "x[N,5,3]",                                                                                      \
            lk_strided_slice(a, LK_AXES(0, 4, 0), LK_AXES(0, 0, 3), LK_AXES(1, -2, 2), .end_mask = 3),                             \
            lk_strided_slice(a, LK_AXES(0, 0, -2), LK_AXES(1000, -1, 99), LK_AXES(2, 3, 1)))                                       \
    PROGRAM(reverse, G | P, "x[N,3]", lk_reverse(a, LK_AXES(1)), lk_reverse(a, LK_AXES(0, 1)))                                     \
    PROGRAM(pad, G | P, "x[N,3]", lk_pad(a, LK_AXES(0, 1), LK_AXES(0, 2), .value = 0.5), lk_pad(a, LK_AXES(1, 0), LK_AXES(2, 1)))  \
    PROGRAM(pad_mirrored, G | P, "x[N,4]", lk_pad(a, LK_AXES(0, 3), LK_AXES(0, 2), LK_PAD_REFLECT),                                \
            lk_pad(a, LK_AXES(0, 4), LK_AXES(0, 1), LK_PAD_SYMMETRIC))                                                             \
    PROGRAM(concat, G | P, "x[N,2] x[N,3] w[3]", lk_concat(LK_TUPLE(a, b, a), 1), lk_concat(LK_TUPLE(b, b), 0),                    \
            lk_concat(LK_TUPLE(c, c), -1))                                                                                         \
    PROGRAM(stack, G, "x[N,2] x[N,2]", lk_stack(LK_TUPLE(a, b), 0), lk_stack(LK_TUPLE(a, b, a), -1), lk_stack(LK_TUPLE(b), 1))     \
    PROGRAM(split, G | P, "x[N,6]", lk_split(a, LK_AXES(1, 2, 3), 1).item[0], lk_split(a, LK_AXES(1, 2, 3), 1).item[2],            \
            lk_split(a, LK_AXES(6, 0), -1).item[1])                                                                                \
    PROGRAM(unstack, G | P, "x[N,3,2]", lk_unstack(a, 1).item[1], lk_unstack(a, -1).item[0],                                       \
            lk_unstack(lk_transpose(a, LK_AXES(1, 0, 2)), 0).item[2])                                                              \
    PROGRAM(unstack_many, G, "x[N,70]", lk_stack(lk_unstack(a, 1), 0), lk_unstack(a, 1).item[7])                                   \
    PROGRAM(tile, G, "x[N,2]", lk_tile(a, LK_AXES(1, 3)), lk_tile(a, LK_AXES(2, 2)), lk_tile(a, LK_AXES(1, 0)))                    \
    PROGRAM(tile_many, G | P, "x[N,1]", lk_tile(a, LK_AXES(1, 70)))                                                                \
    PROGRAM(gather, G | P, "w[5,3] i[N]5 j[2,2]3 x[N,4]", lk_gather(a, b, 0), lk_gather(a, c, 1), lk_gather(d, c, -1))             \
    PROGRAM(own_op, G, "x[N,3] w[3]", lk_op_call(own_op(), a, b))                                                                  \
    PROGRAM(one_hot, 0, "i[N]5", lk_one_hot(a, 5), lk_one_hot(a, 3, .on = LK_NUMBER(2), .off = -1),                                \
            lk_one_hot(a, 4, .dtype = LK_I64))                                                                                     \
    PROGRAM(random, 0, "x[N,3]", lk_random_uniform(LK_SHAPE(3), .rows_of = a, .stream = "s"),                                      \
            lk_random_normal(LK_SHAPE(2, 2), .rows_of = a, .call = 2),                                                             \
            lk_random_uniform(LK_SHAPE(4), .low = -1, .high = LK_NUMBER(2)), lk_random_normal(LK_SHAPE(5)))                        \
    PROGRAM(rows, G, "x[N,3]", lk_rows(a, 0), lk_reduce_sum(lk_rows(lk_exp(a), lk_dim(a, 0) + 5), LK_AXES(0)))                     \
    /* layers */                                                                                                                   \
    PROGRAM(dense, G | L, "x[N,3] w[3,4] w[4]", lk_nn_dense(a, b, c, LK_TANH), lk_nn_dense(a, b, NULL, LK_LINEAR))                 \
    PROGRAM(dense_deep, G | L, "x[N,2,3] w[3,2]", lk_nn_dense(a, b, NULL, LK_SIGMOID))                                             \
    PROGRAM(dense_relu, G | L, "x[N,3] w[3,4] w[4]5:7", lk_nn_dense(a, b, c, LK_RELU))                                             \
    PROGRAM(conv2d, G | L, "x[N,5,6,2] w[3,2,2,3] w[3]", lk_nn_conv2d(a, b, c))                                                    \
    PROGRAM(conv2d_same, G | L | P, "x[N,5,6,2] w[3,2,2,3]", lk_nn_conv2d(a, b, .strides = LK_AXES(2), .padding = LK_SAME))        \
    PROGRAM(conv2d_strides, G | L | P, "x[N,7,5,1] w[2,3,1,2]", lk_nn_conv2d(a, b, .strides = LK_AXES(3, 1)))                      \
    PROGRAM(conv2d_dilated, G | L | P, "x[N,7,6,1] w[2,3,1,2]", lk_nn_conv2d(a, b, .dilation = LK_AXES(3, 2)),                     \
            lk_nn_conv2d(a, b, .dilation = LK_AXES(2), .padding = LK_SAME))                                                        \
    PROGRAM(conv2d_point, G | L, "x[N,2,3,3] w[1,1,3,2] w[2]", lk_nn_conv2d(a, b, c, .activation = LK_TANH))                       \
    PROGRAM(conv2d_large, G | L | P, "x[N,2,2,1] w[5,4,1,2]", lk_nn_conv2d(a, b, .padding = LK_SAME))                              \
    PROGRAM(conv_relu_pool, G | L, "x[N,6,6,1] w[3,3,1,2] w[2]", lk_nn_max_pool2d(lk_nn_conv2d(a, b, c, .activation = LK_RELU)))   \
    PROGRAM(conv1d, G | L, "x[N,6,2] w[3,2,3] w[3]", lk_nn_conv1d(a, b, c, .strides = LK_AXES(2)),                                 \
            lk_nn_conv1d(a, b, .padding = LK_SAME),                                                                                \
            lk_nn_conv1d(a, b, c, .padding = LK_CAUSAL, .dilation = LK_AXES(2), .activation = LK_TANH))                            \
    PROGRAM(depthwise, G | L, "x[N,5,4,2] w[3,2,2,2] w[4]", lk_nn_depthwise_conv2d(a, b, c),                                       \
            lk_nn_depthwise_conv2d(a, b, .strides = LK_AXES(2), .padding = LK_SAME),                                               \
            lk_nn_depthwise_conv2d(a, b, .dilation = LK_AXES(2)))                                                                  \
    PROGRAM(grouped, G | L, "x[N,5,4,4] w[3,2,2,6] w[6]", lk_nn_conv2d(a, b, c, .groups = 2),                                      \
            lk_nn_conv2d(a, b, .groups = 2, .strides = LK_AXES(2), .padding = LK_SAME, .activation = LK_TANH))                     \
    PROGRAM(conv3d, G | L, "x[N,3,3,2,2] w[2,2,2,2,3] w[3]", lk_nn_conv3d(a, b, c),                                                \
            lk_nn_conv3d(a, b, .strides = LK_AXES(2, 1, 1), .padding = LK_SAME))                                                   \
    PROGRAM(conv3d_transpose, G | L, "x[N,2,2,2,2] w[3,2,2,1,2]", lk_nn_conv3d_transpose(a, b, .strides = LK_AXES(2, 1, 2)))       \
    PROGRAM(pool3d, G, "x[N,4,3,3,2]", lk_nn_max_pool3d(a), lk_nn_avg_pool3d(a, LK_AXES(3, 2, 2), LK_AXES(1), LK_SAME))            \
    PROGRAM(adaptive_pool, G, "x[N,5,4,2]", lk_nn_adaptive_max_pool(a, LK_AXES(3, 2)), lk_nn_adaptive_avg_pool(a, 3))              \
    PROGRAM(separable, G | L, "x[N,4,4,2] w[2,3,2,2] w[1,1,4,3] w[3]",                                                             \
            lk_nn_separable_conv2d(a, b, d, .pointwise = c, .padding = LK_SAME))                                                   \
    PROGRAM(conv2d_transpose, G | L, "x[N,3,2,2] w[3,2,3,2] w[3]", lk_nn_conv2d_transpose(a, b, c, .strides = LK_AXES(2, 1)),      \
            lk_nn_conv2d_transpose(a, b, .strides = LK_AXES(2), .padding = LK_SAME, .activation = LK_TANH))                        \
    PROGRAM(max_pool2d, G | P, "x[N,5,6,2]", lk_nn_max_pool2d(a), lk_nn_max_pool2d(a, LK_AXES(3, 2), LK_AXES(1, 2), LK_SAME))      \
    PROGRAM(avg_pool2d, G | P, "x[N,5,6,2]", lk_nn_avg_pool2d(a), lk_nn_avg_pool2d(a, LK_AXES(3, 2), LK_AXES(2, 1), LK_SAME))      \
    PROGRAM(pool1d, G, "x[N,7,2]", lk_nn_max_pool1d(a), lk_nn_avg_pool1d(a, LK_AXES(3), LK_AXES(2), LK_SAME))                      \
    PROGRAM(global_pool, G, "x[N,3,2,2] x[N,4,2]", lk_nn_global_max_pool(a), lk_nn_global_avg_pool(a), lk_nn_global_avg_pool(b))   \
    PROGRAM(batch_norm, G | L, "x[N,3] w[3] w[3] w[3] w[3]0.5:1", BN(a, b, c, .moving_mean = d, .moving_variance = e).item[0])     \
    PROGRAM(batch_norm_images, G | L, "x[N,2,3,2] w[2] w[2] w[2] w[2]0.5:1",                                                       \
            BN(a, b, c, .moving_mean = d, .moving_variance = e, .epsilon = LK_NUMBER(0.01)).item[0])                               \
    PROGRAM(batch_norm_still, G | L, "x[N,3] w[3] w[3] w[3] w[3]0.5:1",                                                            \
            lk_nn_batch_norm(a, b, c, .moving_mean = d, .moving_variance = e).item[0])                                             \
    PROGRAM(batch_norm_moves, 0, "x[N,3] w[3] w[3]0.5:1", BN(a, .moving_mean = b, .moving_variance = c).item[1],                   \
            BN(a, .moving_mean = b, .moving_variance = c).item[2])                                                                 \
    PROGRAM(layer_norm, G | L, "x[N,2,4] w[4] w[4]", lk_nn_layer_norm(a, b, c), lk_nn_layer_norm(a))                               \
    PROGRAM(group_norm, G | L, "x[N,2,2,4] w[4] w[4]", lk_nn_group_norm(a, b, c, .groups = 2), lk_nn_group_norm(a, .groups = 4))   \
    PROGRAM(embedding, G | L, "i[N,2]6 w[6,3]", lk_nn_embedding(a, b), lk_reduce_mean(lk_nn_embedding(a, b), LK_AXES(1)))          \
    PROGRAM(dropout, G, "x[N,7]", lk_nn_dropout(a, 0.4, .stream = "drop"), lk_nn_dropout(a, 0.0, .call = 1))                       \
    PROGRAM(simple_rnn, G | L, "x[N,3,2] w[2,3] w[3,3] w[3]", lk_nn_simple_rnn(a, b, c, d),                                        \
            lk_nn_simple_rnn(a, b, c, .return_sequences = LK_ON))                                                                  \
    PROGRAM(lstm, G | L, "x[N,3,2] w[2,8] w[2,8] w[8] m[N,3]", lk_nn_lstm(a, b, c, d), lk_nn_lstm(a, b, c, d, e, LK_ON))           \
    PROGRAM(lstm_state, G | L, "x[N,2,2] w[2,8] w[2,8] x[N,2] x[N,2]", lk_nn_lstm(a, b, c, .initial_h = d, .initial_c = e))        \
    PROGRAM(gru, G | L, "x[N,3,2] w[2,6] w[2,6] w[2,6] m[N,3]", lk_nn_gru(a, b, c, d), lk_nn_gru(a, b, c, d, e, LK_ON))            \
    PROGRAM(gru_before, G | L, "x[N,2,2] w[2,6] w[2,6] w[6]", lk_nn_gru(a, b, c, d, .reset_after = LK_OFF))                        \
    PROGRAM(attention, G, "x[N,3,2] x[N,4,2] x[N,4,3] m[N,3,4]", lk_nn_attention(a, b, c, NULL), lk_nn_attention(a, b, c, d))      \
    PROGRAM(multi_head, G | L, "x[N,2,3] x[N,3,3] w[3,2,2] w[3,2,2] w[3,2,2] w[2,2,3]",                                            \
            lk_nn_multi_head_attention(a, b, .query_kernel = c, .key_kernel = d, .value_kernel = e, .output_kernel = f))           \
    PROGRAM(multi_head_bias, G | L, "x[N,2,3] w[3,2,2] w[2,2] w[2,2,3] w[3] m[N,2,2]",                                             \
            lk_nn_multi_head_attention(a, a, .query_kernel = b, .key_kernel = b, .value_kernel = b, .output_kernel = d,            \
                                       .query_bias = c, .key_bias = c, .value_bias = c, .output_bias = e, .mask = f))              \
    /* losses */                                                                                                                   \
    PROGRAM(sparse_crossentropy, G | P, "i[N]4 x[N,4]", lk_nn_sparse_categorical_crossentropy(a, b, .from_logits = LK_ON))         \
    PROGRAM(sparse_crossentropy_of, G, "i[N,1]4 x[N,4]0.1:0.9", lk_nn_sparse_categorical_crossentropy(a, b))                       \
    PROGRAM(sparse_crossentropy_ignore, G | P, "i[N,2]4 x[N,2,4]",                                                                 \
            lk_nn_sparse_categorical_crossentropy(a, b, .from_logits = LK_ON, .ignore_class = LK_NUMBER(1)))                       \
    PROGRAM(categorical_crossentropy, G, "x[N,4]0.1:0.9 x[N,4]0.1:0.9", lk_nn_categorical_crossentropy(a, b),                      \
            lk_nn_categorical_crossentropy(a, b, .label_smoothing = 0.1),                                                          \
            lk_nn_categorical_crossentropy(a, b, .from_logits = LK_ON))                                                            \
    PROGRAM(binary_crossentropy, G, "x[N,4]0.1:0.9 x[N,4]0.1:0.9", lk_nn_binary_crossentropy(a, b),                                \
            lk_nn_binary_crossentropy(a, b, LK_ON, 0.2))                                                                           \
    PROGRAM(squared_error, G, "x[N,3] x[N,3]", lk_nn_mean_squared_error(a, b))                                                     \
    PROGRAM(absolute_error, G, "x[N,3] x[N,3]", lk_nn_mean_absolute_error(a, b))                                                   \
    PROGRAM(huber, G, "x[N,3] x[N,3]", lk_nn_huber(a, b), lk_nn_huber(a, b, .delta = LK_NUMBER(0.5)))                              \
    PROGRAM(log_cosh, G, "x[N,3] x[N,3]", lk_nn_log_cosh(a, b))                                                                    \
    PROGRAM(hinge, G, "i[N,3]2 x[N,3]", lk_nn_hinge(a, b))                                                                         \
    PROGRAM(kl_divergence, G, "x[N,4]0.1:0.9 x[N,4]0.1:0.9", lk_nn_kl_divergence(a, b))                                            \
    PROGRAM(reduce_loss, G, "x[N] x[N]0.1:1", lk_nn_reduce_loss(a, b, LK_REDUCTION_NONE),                                          \
            lk_nn_reduce_loss(a, b, LK_REDUCTION_SUM), lk_nn_reduce_loss(a, b, LK_REDUCTION_SUM_OVER_BATCH_SIZE),                  \
            lk_nn_reduce_loss(a, b, LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT),                                                         \
            lk_nn_reduce_loss(a, NULL, LK_REDUCTION_SUM_OVER_BATCH_SIZE))                                                          \
    PROGRAM(average_loss, G, "x[N] x[N,2] x[N,1]0.1:1", lk_compute_average_loss(a),                                                \
            lk_compute_average_loss(b, .global_batch_size = 64), lk_compute_average_loss(a, c), lk_compute_average_loss(b, c, 10)) \
    PROGRAM(regularizers, G, "w[3,4] w[5000]", lk_nn_l1(a, 0.1), lk_nn_l2(a, 0.2), lk_reduce_sum(lk_mul(lk_nn_l2(b, 0.01), K(0))))

typedef struct program {
    const char *name, *inputs;
    unsigned    flags;
    lk_fn       fn;
} program;

#define PROGRAM_FUNCTION(name, flags, inputs, ...)                                                                                 \
    static lk_tuple program_##name(lk_tuple in, void *user)                                                                        \
    {                                                                                                                              \
        lk_tensor *a = in.item[0], *b = in.item[1], *c = in.item[2], *d = in.item[3], *e = in.item[4], *f = in.item[5];            \
        (void)user, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;                                                          \
        return LK_TUPLE(__VA_ARGS__);                                                                                              \
    }
PROGRAMS(PROGRAM_FUNCTION)

static const program programs[] = {
#define PROGRAM_LINE(name, flags, inputs, ...) {#name, inputs, flags, program_##name},
    PROGRAMS(PROGRAM_LINE)};

/* The program's results, then the gradients of the sum of all float ones for all float inputs. `user` is the program. */
static inline lk_tuple program_with_gradient(lk_tuple in, void *user)
{
    const program *p = user;
    lk_tensor     *item[32], *target[8];
    int            count = 0, targets = 0;
    lk_tape       *tape = p->flags & G ? lk_tape_begin() : NULL;
    for (int i = 0; i < in.count && tape; i++)
        if (lki_is_float(lk_tensor_dtype(in.item[i]))) lk_tape_watch(tape, in.item[i]);
    lk_tuple out = p->fn(in, NULL);
    for (int i = 0; i < out.count; i++) {
        item[count++] = out.item[i];
        if (lki_is_float(lk_tensor_dtype(out.item[i]))) target[targets++] = out.item[i];
    }
    lk_tuple d = tape ? lk_tape_gradient_of_all(tape, lk_tuple_from(targets, target), in, (lk_tuple){0}) : (lk_tuple){0};
    for (int i = 0; i < d.count; i++)
        if (d.item[i]) item[count++] = d.item[i];
    return lk_tuple_from(count, item);
}

/* ---- inputs ---- */

static uint64_t program_noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* size different numbers in (low, high), in no order; `salt` keeps those of different inputs apart */
static lk_tensor *program_floats(lk_shape shape, lk_dtype dtype, double low, double high, int salt)
{
    int64_t  size = 1;
    uint64_t state = (uint64_t)salt + 17;
    for (int i = 0; i < shape.rank; i++)
        size *= shape.dim[i];
    double *x = malloc((size_t)(size + 1) * sizeof *x);
    for (int64_t i = 0; i < size; i++)
        x[i] = low + (high - low) * ((double)i + 0.37 + 0.07 * (salt % 8)) / (double)size;
    for (int64_t i = size - 1; i > 0; i--) {
        int64_t j = (int64_t)(program_noise(&state) % (uint64_t)(i + 1));
        double  t = x[i];
        x[i] = x[j];
        x[j] = t;
    }
    lk_tensor *t = lk_tensor_from(shape, LK_F64, x);
    free(x);
    return dtype == LK_F64 ? t : lk_cast(t, dtype);
}

static lk_tensor *program_integers(lk_shape shape, lk_dtype dtype, int64_t below, int salt)
{
    int64_t  size = 1;
    uint64_t state = (uint64_t)salt + 3;
    for (int i = 0; i < shape.rank; i++)
        size *= shape.dim[i];
    int32_t *x = malloc((size_t)(size + 1) * sizeof *x);
    for (int64_t i = 0; i < size; i++)
        x[i] = (int32_t)(program_noise(&state) % (uint64_t)below);
    lk_tensor *t = lk_tensor_from(shape, LK_I32, x);
    free(x);
    return dtype == LK_I32 ? t : lk_cast(t, dtype);
}

/* One input from its description, which moves on to the next. `mark`: rows are marked as rows of a batch of `global`. */
static lk_tensor *program_input(const char **text, lk_dtype dtype, int64_t rows, bool mark, int64_t global, int salt)
{
    const char *at = *text;
    char        letter = *at++;
    lk_shape    shape = {0};
    double      low = -2, high = 2;
    for (at++; *at != ']'; at += *at == ',') {
        char *end = (char *)at + 1;
        shape.dim[shape.rank++] = *at == 'N' ? rows : strtoll(at, &end, 10);
        at = end;
    }
    if (*++at && *at != ' ') {
        char *end;
        high = strtod(at, &end);
        if (*end == ':') {
            low = high;
            high = strtod(end + 1, &end);
        }
        at = end;
    }
    *text = at + (*at == ' ');
    lk_tensor *t = strchr("xw", letter)   ? program_floats(shape, dtype, low, high, salt)
                   : strchr("ij", letter) ? program_integers(shape, LK_I32, (int64_t)high, salt)
                                          : program_integers(shape, LK_BOOL, 2, salt);
    return mark && strchr("xim", letter) ? lk_rows(t, global) : t;
}

/* All inputs; `salt` chooses other values. */
static inline lk_tuple program_inputs(const program *p, lk_dtype dtype, int64_t rows, bool mark, int64_t global, int salt)
{
    lk_tensor *item[8];
    int        count = 0;
    for (const char *text = p->inputs; *text; count++)
        item[count] = program_input(&text, dtype, rows, mark, global, salt + count);
    return lk_tuple_from(count, item);
}

#endif
