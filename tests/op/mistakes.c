/* Errors of every family of ops: the result is poisoned, the code is right, and the message is one line that names the call, its
 * operands and what would have been right. After lk_clear_error() the thread works as before. Norms, recurrent layers, attention,
 * losses, variables, tapes, functions and optimisers are in misuse.c. */
#include "op/mistakes.h"
#include <lockstep.h>

static lk_tensor *f32(lk_shape s) { return lk_ones(s, LK_F32); }
static lk_tensor *i32(lk_shape s) { return lk_ones(s, LK_I32); }

#define F(...) f32(LK_SHAPE(__VA_ARGS__))
#define I(...) i32(LK_SHAPE(__VA_ARGS__))
#define NINE_AXES LK_AXES(0, 1, 2, 3, 4, 5, 6, 7, 8)

TEST(making_tensors)
{
    float one = 1;
    BEGIN
    BAD(LK_ESHAPE, lk_tensor_of(LK_SHAPE(2), 1, 2, 3), "lk_tensor_of", "3 values", "2 elements");
    BAD(LK_ESHAPE, lk_tensor_of_values(LK_SHAPE(2), 0, (double[]){0}), "lk_tensor_of", "0 values");
    BAD(LK_EINVAL, lk_tensor_from(LK_SHAPE(2), LK_F32, NULL), "lk_tensor_from", "NULL");
    BAD(LK_EINVAL, lk_tensor_from_strided(LK_SHAPE(2), LK_F32, NULL, (int64_t[]){1}), "lk_tensor_from_strided", "data");
    BAD(LK_EINVAL, lk_tensor_from_strided(LK_SHAPE(2), LK_F32, &one, NULL), "lk_tensor_from_strided", "strides");
    BAD(LK_EDTYPE, lk_tensor_from(LK_SHAPE(1), (lk_dtype)99, &one), "lk_tensor_from", "99");
    BAD(LK_EDTYPE, lk_zeros(LK_SHAPE(2), (lk_dtype)-1), "-1");
    BAD(LK_ESHAPE, lk_zeros(LK_SHAPE(2, -3), LK_F32), "[2, -3]", "0 or more");
    BAD(LK_ESHAPE, lk_ones(LK_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), LK_F32), "more than 8");
    BAD(LK_ESHAPE, lk_range(-1, LK_I32), "lk_range", "[-1]");
    BAD(LK_ESHAPE, lk_rows(lk_scalar(1), 0), "lk_rows", "scalar");
    BAD(LK_EINVAL, lk_rows(F(5, 2), 4), "lk_rows", "[5, 2]", "5 rows", "4");
    BAD(LK_EINVAL, lk_rows(F(5), -1), "lk_rows", "-1");
    BAD(LK_EINVAL, lk_rows(NULL, 0), "lk_rows", "NULL");
    END
}

TEST(looking_at_tensors)
{
    LK_POOL {
        assert_int_equal(lk_dim(F(2, 3), 2), -1);
        assert_true(told(LK_EINVAL, "lk_dim", "axis 2", "rank 2"));
        assert_true(isnan(lk_item(F(2))));
        assert_true(told(LK_ESHAPE, "lk_item", "[2]", "2 elements"));
        assert_null(lk_data(NULL));
        assert_true(told(LK_EINVAL, "lk_data", "NULL"));
        assert_int_equal(lk_dim(NULL, 0), -1);
        assert_int_equal(lk_size(NULL), 0);
        assert_int_equal(lk_rank(NULL), 0);
        assert_true(lk_poisoned(NULL));
        assert_int_equal(lk_print(NULL), LK_EINVAL);
        assert_true(told(LK_EINVAL, "lk_print", "NULL"));
    }
}

/* ---- sizes ---- */

TEST(sizes_that_cannot_be_counted)
{
    int64_t big = (int64_t)1 << 35;
    BEGIN
    BAD(LK_ESHAPE, lk_zeros(LK_SHAPE(big, big), LK_F32), "countable");
    BAD(LK_ESHAPE, lk_zeros(LK_SHAPE(big, 0, big), LK_F32), "countable");
    BAD(LK_ESHAPE, lk_broadcast_to(F(), LK_SHAPE(big, big)), "broadcast");
    BAD(LK_ESHAPE, lk_matmul(F(big, 0), F(0, big)), "matmul of [34359738368, 0] f32, [0, 34359738368] f32", "counted");
    BAD(LK_ESHAPE, lk_reshape(F(4), LK_SHAPE(big, big, -1)), "reshape", "[4] f32");
    BAD(LK_ESHAPE, lk_reshape(F(4), LK_SHAPE(INT64_MAX / 2, 8)), "reshape");
    BAD(LK_ESHAPE, lk_add(F(big, 0, 1), F(1, 0, big)), "add", "counted");
    BAD(LK_ESHAPE, lk_one_hot(I(0, 8), INT64_MAX / 2), "one_hot", "counted");
    BAD(LK_EINVAL, lk_slice(F(4), LK_AXES(3), LK_AXES(INT64_MAX)), "slice of [4] f32");
    BAD(LK_EINVAL, lk_slice(F(4), LK_AXES(INT64_MIN), LK_AXES(-1)), "slice of [4] f32");
    BAD(LK_EINVAL, lk_slice(F(4), LK_AXES(INT64_MAX), LK_AXES(2)), "slice of [4] f32");
    BAD(LK_EINVAL, lk_pad(F(2), LK_AXES(INT64_MAX), LK_AXES(1)), "lk_pad");
    BAD(LK_EINVAL, lk_nn_max_pool2d(F(1, 4, 4, 1), LK_AXES(INT64_MAX), .padding = LK_SAME), "lk_nn_max_pool2d", "size");
    BAD(LK_EINVAL, lk_nn_conv2d(F(1, 4, 4, 1), F(2, 2, 1, 1), .dilation = LK_AXES(INT64_MAX), .padding = LK_SAME), "lk_nn_conv2d",
        "dilation");
    BAD(LK_EINVAL, lk_nn_conv2d_transpose(F(1, 4, 4, 1), F(2, 2, 1, 1), .strides = LK_AXES(INT64_MAX / 2)),
        "lk_nn_conv2d_transpose", "strides");
    lk_tensor *flat = lk_zeros(LK_SHAPE(0, (int64_t)1 << 59), LK_F32);
    BAD(LK_ESHAPE,
        lk_concat(LK_TUPLE(flat, flat, flat, flat, flat, flat, flat, flat, flat, flat, flat, flat, flat, flat, flat, flat, flat),
                  1),
        "concat", "counted");
    END lk_tensor *s = lk_strided_slice(F(4), LK_AXES(0), LK_AXES(4), LK_AXES(INT64_MAX)); /* far strides are fine: one entry */
    assert_int_equal(lk_size(s), 1);
    s = lk_strided_slice(F(4), LK_AXES(3), LK_AXES(0), LK_AXES(INT64_MIN), .end_mask = 1);
    assert_int_equal(lk_size(s), 1);
    assert_false(lk_failed());
}

TEST(sizes_there_is_no_memory_for)
{
    int64_t huge = (int64_t)1 << 45;
    BEGIN
    BAD(LK_ENOMEM, lk_zeros(LK_SHAPE(huge), LK_F32), "memory");
    BAD(LK_ENOMEM, lk_ones(LK_SHAPE(huge, 2), LK_U8), "memory");
    BAD(LK_ENOMEM, lk_range(huge, LK_I64), "memory");
    BAD(LK_ENOMEM, lk_broadcast_to(F(), LK_SHAPE(huge)), "memory");
    BAD(LK_ENOMEM, lk_matmul(F((int64_t)1 << 22, 0), F(0, (int64_t)1 << 23)), "memory");
    BAD(LK_ENOMEM, lk_one_hot(I(2), huge), "memory");
    BAD(LK_ENOMEM, lk_random_uniform(LK_SHAPE(huge)), "memory");
    BAD(LK_ENOMEM, lk_tensor_of(LK_SHAPE(huge), 1), "memory");
    BAD(LK_ENOMEM, lk_glorot_uniform(LK_SHAPE(huge, 1), "w"), "memory");
    BAD(LK_ENOMEM, lk_pad(F(1, 1), LK_AXES(1 << 22, 1 << 23), LK_AXES(1, 1)), "memory");
    END assert_null(lk_variable_of(lk_zeros(LK_SHAPE(huge), LK_F32)));
    assert_int_equal(lk_error_code(), LK_ENOMEM);
    lk_clear_error();
}

/* ---- element-wise ---- */

TEST(element_wise)
{
    BEGIN
    BAD(LK_ESHAPE, lk_add(F(2, 3), F(4)), "add of [2, 3] f32, [4] f32", "broadcast", "equal or 1");
    BAD(LK_ESHAPE, lk_less(F(2), F(3)), "less of [2] f32, [3] f32", "broadcast");
    BAD(LK_EDTYPE, lk_mul(F(2), I(2)), "mul of [2] f32, [2] i32", "lk_cast", "f32", "i32");
    BAD(LK_EDTYPE, lk_equal(F(2), lk_zeros(LK_SHAPE(2), LK_I64)), "equal", "lk_cast");
    BAD(LK_EDTYPE, lk_exp(I(2)), "exp of [2] i32", "does not take i32", "f32 f64");
    BAD(LK_EDTYPE, lk_div(I(2), I(2)), "div of [2] i32, [2] i32", "does not take i32");
    BAD(LK_EDTYPE, lk_logical_and(F(2), F(2)), "logical_and", "does not take f32", "bool");
    BAD(LK_EDTYPE, lk_logical_not(I(2)), "logical_not of [2] i32", "bool");
    BAD(LK_EDTYPE, lk_neg(lk_ones(LK_SHAPE(2), LK_BOOL)), "neg of [2] bool");
    BAD(LK_EDTYPE, lk_where(F(2), F(2), F(2)), "where", "condition", "bool", "f32");
    BAD(LK_ESHAPE, lk_where(lk_ones(LK_SHAPE(3), LK_BOOL), F(2), F(2)), "where", "condition", "[3] bool");
    BAD(LK_EDTYPE, lk_where(lk_ones(LK_SHAPE(2), LK_BOOL), F(2), I(2)), "where", "lk_cast");
    BAD(LK_EINVAL, lk_add(NULL, F(2)), "add", "operand 1", "NULL");
    BAD(LK_EINVAL, lk_add(F(2), NULL), "add", "operand 2", "NULL");
    BAD(LK_EINVAL, lk_exp(NULL), "exp", "NULL");
    BAD(LK_EINVAL, lk_where(NULL, F(2), F(2)), "where", "NULL");
    BAD(LK_EINVAL, lk_squared_difference(NULL, F(2)), "NULL");
    BAD(LK_EINVAL, lk_relu6(NULL), "NULL");
    BAD(LK_EINVAL, lk_elu(NULL, 1), "NULL");
    BAD(LK_EINVAL, lk_gelu(NULL, LK_ON), "NULL");
    BAD(LK_EINVAL, lk_celu(F(2), 0), "lk_celu", "alpha is 0");
    BAD(LK_EINVAL, lk_hard_silu(NULL), "NULL");
    BAD(LK_EINVAL, lk_threshold(NULL, 0, 0), "NULL");
    BAD(LK_EINVAL, lk_glu(NULL, 0), "lk_glu", "NULL");
    BAD(LK_ESHAPE, lk_glu(F(3), 0), "lk_glu", "[3]", "even");
    BAD(LK_EINVAL, lk_glu(F(2), 1), "lk_glu", "no axis 1");
    BAD(LK_EINVAL, lk_sparsemax(NULL, 0), "lk_sparsemax", "NULL");
    BAD(LK_EINVAL, lk_sparsemax(F(2), -2), "lk_sparsemax", "no axis -2");
    BAD(LK_EINVAL, lk_hard_sigmoid(NULL), "NULL");
    BAD(LK_EINVAL, lk_cast(NULL, LK_F32), "cast", "NULL");
    BAD(LK_EINVAL, lk_identity(NULL), "NULL");
    BAD(LK_EINVAL, lk_clip(NULL, 0, 1), "NULL");
    BAD(LK_EINVAL, lk_clip(F(2), 2, 1), "lk_clip", "low 2", "high 1");
    BAD(LK_EDTYPE, lk_cast(F(2), (lk_dtype)99), "lk_cast", "99");
    BAD(LK_EINVAL, lk_add_n(LK_TUPLE()), "lk_add_n");
    BAD(LK_EINVAL, lk_add_n(LK_TUPLE(F(2), NULL)), "add", "NULL");
    BAD(LK_EINVAL, lk_add_n(LK_TUPLE(NULL)), "lk_add_n", "NULL");
    BAD(LK_EINVAL, lk_floordiv(I(2), lk_zeros(LK_SHAPE(2), LK_I32)), "floordiv", "zero");
    BAD(LK_EINVAL, lk_mod(I(2), lk_zeros(LK_SHAPE(), LK_I32)), "mod", "zero");
    END
}

/* ---- reductions ---- */

TEST(reductions)
{
    BEGIN
    BAD(LK_EINVAL, lk_reduce_sum(F(2, 3), LK_AXES(2)), "lk_reduce_sum", "axis 2", "rank 2", "-2 to 1");
    BAD(LK_EINVAL, lk_reduce_mean(F(2), LK_AXES(-2)), "lk_reduce_mean", "axis -2", "rank 1");
    BAD(LK_EINVAL, lk_reduce_max(F(2), LK_AXES(0, 9)), "lk_reduce_max", "axis 9");
    BAD(LK_EINVAL, lk_reduce_logsumexp(F(2), LK_AXES(3)), "lk_reduce_logsumexp", "axis 3");
    BAD(LK_EINVAL, lk_reduce_variance(F(2), LK_AXES(3)), "axis 3");
    BAD(LK_EINVAL, lk_reduce_prod(F(2), LK_AXES(1)), "lk_reduce_prod");
    BAD(LK_EINVAL, lk_reduce_sum(F(2), NINE_AXES), "9 axes");
    BAD(LK_EINVAL, lk_reduce_sum(), "lk_reduce_sum", "missing");
    BAD(LK_EINVAL, lk_reduce_mean(), "lk_reduce_mean", "missing");
    BAD(LK_EINVAL, lk_reduce_logsumexp(), "lk_reduce_logsumexp", "missing");
    BAD(LK_EINVAL, lk_reduce_variance(), "missing");
    BAD(LK_EDTYPE, lk_reduce_sum(lk_ones(LK_SHAPE(2), LK_BOOL)), "reduce_sum of [2] bool", "does not take bool");
    BAD(LK_EDTYPE, lk_reduce_any(F(2)), "reduce_any of [2] f32", "bool");
    BAD(LK_EINVAL, lk_softmax(F(2), LK_AXIS(1)), "lk_softmax", "axis 1", "rank 1");
    BAD(LK_EINVAL, lk_softmax(F()), "lk_softmax", "rank 0");
    BAD(LK_EINVAL, lk_softmax(), "lk_softmax", "missing");
    BAD(LK_EDTYPE, lk_softmax(I(2)), "softmax of [2] i32");
    BAD(LK_EINVAL, lk_log_softmax(F(2), LK_AXIS(-2)), "lk_log_softmax", "axis -2");
    BAD(LK_EINVAL, lk_cumsum(F(2), LK_AXIS(1)), "lk_cumsum", "axis 1");
    BAD(LK_EINVAL, lk_argmax(F(2), LK_AXIS(1)), "lk_argmax", "axis 1");
    BAD(LK_EINVAL, lk_argmin(), "lk_argmin", "missing");
    BAD(LK_ESHAPE, lk_argmax(F(0, 2)), "argmax of [0, 2] f32", "empty");
    BAD(LK_EINVAL, lk_top_k(F(2, 3), 4).item[0], "top_k of [2, 3] f32", "k is 4", "1 to 3");
    BAD(LK_EINVAL, lk_top_k(F(3), 0).item[1], "top_k", "k is 0");
    BAD(LK_ESHAPE, lk_top_k(F(), 1).item[0], "top_k of [] f32", "axis");
    BAD(LK_EINVAL, lk_top_k(NULL, 1).item[0], "top_k", "NULL");
    END
}

/* ---- moves ---- */

TEST(shapes)
{
    BEGIN
    BAD(LK_ESHAPE, lk_reshape(F(2, 3), LK_SHAPE(4)), "reshape of [2, 3] f32", "6 elements", "[4]");
    BAD(LK_ESHAPE, lk_reshape(F(2, 3), LK_SHAPE(4, -1)), "reshape of [2, 3] f32", "6 elements");
    BAD(LK_ESHAPE, lk_reshape(F(2, 3), LK_SHAPE(-1, -1)), "lk_reshape", "[2, 3]", "one size", "-1");
    BAD(LK_ESHAPE, lk_reshape(F(2, 3), LK_SHAPE(-2, -3)), "reshape of [2, 3] f32", "[-2, -3]");
    BAD(LK_ESHAPE, lk_reshape(F(2), LK_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 2)), "reshape of [2] f32", "more than 8");
    BAD(LK_EINVAL, lk_reshape(NULL, LK_SHAPE(1)), "lk_reshape", "NULL");
    BAD(LK_ESHAPE, lk_flatten_rows(F()), "lk_flatten_rows", "scalar");
    BAD(LK_EINVAL, lk_flatten_rows(NULL), "lk_flatten_rows", "NULL");
    BAD(LK_EINVAL, lk_expand_dims(F(2), 2), "lk_expand_dims", "axis 2");
    BAD(LK_EINVAL, lk_expand_dims(NULL, 0), "lk_expand_dims", "NULL");
    BAD(LK_ESHAPE, lk_expand_dims(F(1, 1, 1, 1, 1, 1, 1, 1), 0), "lk_expand_dims", "8 axes");
    BAD(LK_ESHAPE, lk_squeeze(F(2, 1), LK_AXES(0)), "lk_squeeze", "axis 0", "[2, 1]", "size 1");
    BAD(LK_ESHAPE, lk_squeeze(F(2, 1), LK_AXES(5)), "lk_squeeze", "axis 5");
    BAD(LK_EINVAL, lk_squeeze(F(2, 1), NINE_AXES), "9 axes");
    BAD(LK_EINVAL, lk_squeeze(NULL, (lk_axes){0}), "lk_squeeze", "NULL");
    BAD(LK_EINVAL, lk_transpose(F(2, 3), LK_AXES(0)), "lk_transpose", "1 axes", "rank 2");
    BAD(LK_EINVAL, lk_transpose(F(2, 3), LK_AXES(0, 0)), "transpose of [2, 3] f32", "each", "once");
    BAD(LK_EINVAL, lk_transpose(F(2, 3), LK_AXES(0, 2)), "transpose of [2, 3] f32", "each");
    BAD(LK_EINVAL, lk_transpose(NULL, (lk_axes){0}), "lk_transpose", "NULL");
    BAD(LK_ESHAPE, lk_broadcast_to(F(2, 3), LK_SHAPE(2, 4)), "broadcast of [2, 3] f32", "[2, 4]");
    BAD(LK_ESHAPE, lk_broadcast_to(F(2, 3), LK_SHAPE(3)), "broadcast of [2, 3] f32", "[3]");
    BAD(LK_EINVAL, lk_broadcast_to(NULL, LK_SHAPE(3)), "NULL");
    END
}

TEST(parts)
{
    BEGIN
    BAD(LK_EINVAL, lk_slice(F(2, 3), LK_AXES(0), LK_AXES(1, 1)), "lk_slice", "begin has 1 value", "rank 2");
    BAD(LK_EINVAL, lk_slice(F(2, 3), LK_AXES(0, 0), LK_AXES(1)), "lk_slice", "size has 1 value");
    BAD(LK_EINVAL, lk_slice(F(2, 3), LK_AXES(0, 2), LK_AXES(1, 2)), "slice of [2, 3] f32", "axis 1", "2 to 3", "0 to 2");
    BAD(LK_EINVAL, lk_slice(F(2, 3), LK_AXES(-1, 0), LK_AXES(1, 1)), "slice of [2, 3] f32", "axis 0");
    BAD(LK_EINVAL, lk_slice(F(2, 3), LK_AXES(0, 0), LK_AXES(1, -2)), "slice of [2, 3] f32", "axis 1", "-2");
    BAD(LK_EINVAL, lk_slice(NULL, LK_AXES(0), LK_AXES(1)), "lk_slice", "NULL");
    BAD(LK_EINVAL, lk_strided_slice(F(4), LK_AXES(0), LK_AXES(4), LK_AXES(0)), "lk_strided_slice", "axis 0", "stride", "0");
    BAD(LK_EINVAL, lk_strided_slice(F(4), LK_AXES(0), LK_AXES(4)), "lk_strided_slice", "strides has 0 values");
    BAD(LK_EINVAL, lk_strided_slice(), "lk_strided_slice", "missing");
    BAD(LK_EINVAL, lk_reverse(F(2), LK_AXES(1)), "lk_reverse", "axis 1", "rank 1");
    BAD(LK_EINVAL, lk_reverse(F(2), NINE_AXES), "9 axes");
    BAD(LK_EINVAL, lk_reverse(NULL, LK_AXES(1)), "lk_reverse", "NULL");
    BAD(LK_EINVAL, lk_pad(F(2), LK_AXES(1), LK_AXES(-1)), "lk_pad", "axis 0 of size 2", "-1");
    BAD(LK_EINVAL, lk_pad(F(2), LK_AXES(2), LK_AXES(0), LK_PAD_REFLECT), "lk_pad", "0 to 1");
    BAD(LK_EINVAL, lk_pad(F(2), LK_AXES(3), LK_AXES(0), LK_PAD_SYMMETRIC), "lk_pad", "0 to 2");
    BAD(LK_EINVAL, lk_pad(F(2), LK_AXES(1), LK_AXES(0), (lk_pad_mode)7), "lk_pad", "mode");
    BAD(LK_EINVAL, lk_pad(F(2), LK_AXES(1)), "lk_pad", "after has 0 values");
    BAD(LK_EINVAL, lk_pad(), "lk_pad", "missing");
    BAD(LK_EINVAL, lk_split(F(5), LK_AXES(2, 2), 0).item[0], "lk_split", "[5]", "axis 0", "add up");
    BAD(LK_EINVAL, lk_split(F(5), LK_AXES(5), 1).item[0], "lk_split", "axis 1", "rank 1");
    BAD(LK_EINVAL, lk_split(F(5), LK_AXES(7, -2), 0).item[0], "lk_split", "-2");
    BAD(LK_EINVAL, lk_split(NULL, LK_AXES(5), 0).item[0], "lk_split", "NULL");
    BAD(LK_EINVAL, lk_unstack(F(5), 1).item[0], "lk_unstack", "axis 1", "rank 1");
    BAD(LK_EINVAL, lk_unstack(NULL, 0).item[0], "lk_unstack", "NULL");
    END
}

TEST(joining_and_picking)
{
    BEGIN
    BAD(LK_EINVAL, lk_concat(LK_TUPLE(), 0), "lk_concat", "nothing");
    BAD(LK_EINVAL, lk_concat(LK_TUPLE(NULL), 0), "lk_concat", "NULL");
    BAD(LK_EINVAL, lk_concat(LK_TUPLE(F(2), NULL), 0), "concat", "NULL");
    BAD(LK_EINVAL, lk_concat(LK_TUPLE(F(2), F(2)), 1), "lk_concat", "axis 1", "rank 1");
    BAD(LK_EINVAL, lk_concat(LK_TUPLE(F(), F()), 0), "lk_concat", "rank 0");
    BAD(LK_ESHAPE, lk_concat(LK_TUPLE(F(2, 3), F(2, 4)), 0), "concat of [2, 3] f32, [2, 4] f32", "part 1", "axis 1");
    BAD(LK_ESHAPE, lk_concat(LK_TUPLE(F(2), F(2, 1)), 0), "concat", "rank 2");
    BAD(LK_EDTYPE, lk_concat(LK_TUPLE(F(2), I(2)), 0), "concat", "part 1 is i32", "f32");
    BAD(LK_EINVAL, lk_stack(LK_TUPLE(), 0), "lk_stack", "nothing");
    BAD(LK_EINVAL, lk_stack(LK_TUPLE(F(2), F(2)), 3), "axis 3");
    BAD(LK_ESHAPE, lk_stack(LK_TUPLE(F(2), F(3)), 0), "[1, 2] f32, [1, 3] f32");
    BAD(LK_EINVAL, lk_stack(LK_TUPLE(NULL, F(3)), 0), "NULL");
    BAD(LK_EINVAL, lk_tile(F(2), LK_AXES(1, 2)), "lk_tile", "multiples has 2 values", "rank 1");
    BAD(LK_EINVAL, lk_tile(F(2), LK_AXES(-1)), "lk_tile", "axis 0", "-1");
    BAD(LK_EINVAL, lk_tile(NULL, LK_AXES(1)), "lk_tile", "NULL");
    BAD(LK_EDTYPE, lk_gather(F(3), F(2), 0), "gather of [3] f32, [2] f32", "ids", "i32 or i64");
    BAD(LK_EINVAL, lk_gather(F(3), I(2), 1), "lk_gather", "axis 1", "rank 1");
    BAD(LK_EINVAL, lk_gather(F(1), I(2), 0), "gather", "id");
    BAD(LK_EINVAL, lk_gather(NULL, I(2), 0), "lk_gather", "NULL");
    BAD(LK_EINVAL, lk_gather(F(3), NULL, 0), "gather", "NULL");
    BAD(LK_ESHAPE, lk_gather(F(2, 2, 2, 2, 2), I(1, 1, 1, 1, 1), 0), "gather", "8 axes");
    BAD(LK_EDTYPE, lk_one_hot(F(2), 3), "one_hot of [2] f32", "i32 i64 u8");
    BAD(LK_EINVAL, lk_one_hot(I(2), 0), "one_hot of [2] i32", "depth is 0");
    BAD(LK_EDTYPE, lk_one_hot(I(2), 3, .dtype = (lk_dtype)99), "one_hot", "99");
    BAD(LK_EINVAL, lk_one_hot(.depth = 3), "one_hot", "NULL");
    BAD(LK_ESHAPE, lk_one_hot(I(1, 1, 1, 1, 1, 1, 1, 1), 3), "one_hot", "8 axes");
    BAD(LK_EDTYPE, lk_random_uniform(LK_SHAPE(2), .iteration = F()), "random_uniform", "i64 scalar");
    BAD(LK_ESHAPE, lk_random_normal(LK_SHAPE(2, -1)), "[2, -1]");
    BAD(LK_ESHAPE, lk_random_normal(LK_SHAPE(2), .rows_of = F()), "rows_of");
    BAD(LK_ESHAPE, lk_glorot_uniform(LK_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), "w"), "more than 8");
    BAD(LK_ESHAPE, lk_he_normal(LK_SHAPE(-2, 3), "w"), "[-2, 3]");
    END
}

/* ---- products ---- */

TEST(matrix_products)
{
    BEGIN
    BAD(LK_ESHAPE, lk_matmul(F(7, 9), F(8, 6)), "matmul of [7, 9] f32, [8, 6] f32", "inner sizes 9 and 8");
    BAD(LK_ESHAPE, lk_matmul(F(7, 9), F(8, 6), .transpose_a = LK_ON), "inner sizes 7 and 8", "transpose");
    BAD(LK_ESHAPE, lk_matmul(F(7, 9), F(8, 6), .transpose_b = LK_ON), "inner sizes 9 and 6", "n, k");
    BAD(LK_ESHAPE, lk_matmul(F(7), F(7, 6)), "matmul of [7] f32, [7, 6] f32", "two axes");
    BAD(LK_ESHAPE, lk_matmul(F(2, 7, 6), F(3, 6, 7)), "matmul", "leading axes");
    BAD(LK_EDTYPE, lk_matmul(F(2, 2), lk_ones(LK_SHAPE(2, 2), LK_F64)), "matmul of [2, 2] f32, [2, 2] f64", "lk_cast");
    BAD(LK_EDTYPE, lk_matmul(I(2, 2), I(2, 2)), "matmul of [2, 2] i32", "does not take i32");
    BAD(LK_EINVAL, lk_matmul(F(2, 2)), "matmul", "operand 2", "NULL");
    BAD(LK_ESHAPE, lk_nn_dense(F(2, 3), F(4, 5), NULL, LK_LINEAR), "[2, 3] f32, [4, 5] f32", "inner sizes 3 and 4");
    BAD(LK_ESHAPE, lk_nn_dense(F(2, 3, 3), F(3), NULL, LK_LINEAR), "lk_nn_dense", "kernel [3]", "[in, out]");
    BAD(LK_ESHAPE, lk_nn_dense(F(2, 3), F(3, 5), F(4), LK_LINEAR), "bias of [4] cannot be added to [2, 5]");
    BAD(LK_EINVAL, lk_nn_dense(NULL, F(3, 5), NULL, LK_LINEAR), "lk_nn_dense", "x", "NULL");
    BAD(LK_EINVAL, lk_nn_dense(F(2, 3), NULL, NULL, LK_LINEAR), "lk_nn_dense", "kernel", "NULL");
    BAD(LK_EINVAL, lk_nn_dense(F(2, 3), F(3, 4), NULL, (lk_activation)99), "activation", "99");
    BAD(LK_EINVAL, lk_activate(NULL, LK_RELU), "lk_activate", "NULL");
    BAD(LK_EINVAL, lk_activate(F(2), LK_ACTIVATION_COUNT), "lk_activate");
    END
}

TEST(convolutions)
{
    lk_axes three = LK_AXES(1, 1, 1);
    BEGIN
    lk_tensor *x = F(2, 5, 6, 3), *k = F(3, 3, 3, 4);
    BAD(LK_ESHAPE, lk_nn_conv2d(F(5, 6, 3), k), "lk_nn_conv2d", "x [5, 6, 3]", "kernel [3, 3, 3, 4]", "rank 4");
    BAD(LK_ESHAPE, lk_nn_conv2d(x, F(3, 3, 2, 4)), "conv2d of [2, 5, 6, 3] f32, [3, 3, 2, 4] f32", "takes 2 channels", "has 3");
    BAD(LK_ESHAPE, lk_nn_conv2d(x, F(7, 3, 3, 4)), "conv2d", "7 x 3", "5 x 6", "LK_SAME");
    BAD(LK_ESHAPE, lk_nn_conv2d(x, k, .dilation = LK_AXES(3)), "conv2d", "dilation", "does not fit");
    BAD(LK_ESHAPE, lk_nn_conv2d(x, F(0, 3, 3, 4)), "conv2d", "[0, 3, 3, 4]", "1 x 1");
    BAD(LK_EINVAL, lk_nn_conv2d(x, k, .strides = LK_AXES(0)), "lk_nn_conv2d", "strides", "1 or more");
    BAD(LK_EINVAL, lk_nn_conv2d(x, k, .dilation = LK_AXES(1, -1)), "lk_nn_conv2d", "dilation");
    BAD(LK_EINVAL, lk_nn_conv2d(x, k, .strides = three), "lk_nn_conv2d", "strides", "one or two");
    BAD(LK_EINVAL, lk_nn_conv2d(x, k, .padding = LK_CAUSAL), "lk_nn_conv2d", "LK_CAUSAL", "LK_SAME");
    BAD(LK_EINVAL, lk_nn_conv2d(x, k, .padding = (lk_padding)9), "lk_nn_conv2d", "padding");
    BAD(LK_EDTYPE, lk_nn_conv2d(x, lk_ones(LK_SHAPE(3, 3, 3, 4), LK_F64)), "conv2d", "f64", "lk_cast");
    BAD(LK_EDTYPE, lk_nn_conv2d(I(2, 5, 6, 3), I(3, 3, 3, 4)), "conv2d", "does not take i32");
    BAD(LK_ESHAPE, lk_nn_conv2d(x, k, F(5)), "bias of [5] cannot be added to [2, 3, 4, 4]");
    BAD(LK_EINVAL, lk_nn_conv2d(.kernel = k), "lk_nn_conv2d", "x is missing");
    BAD(LK_EINVAL, lk_nn_conv2d(x), "lk_nn_conv2d", "kernel is missing");
    BAD(LK_ESHAPE, lk_nn_conv1d(x, k), "lk_nn_conv1d", "[2, 5, 6, 3]", "[n, steps, in]");
    BAD(LK_EINVAL, lk_nn_conv1d(F(2, 5, 3)), "lk_nn_conv1d", "kernel is missing");
    BAD(LK_EINVAL, lk_nn_conv1d(F(2, 5, 3), F(2, 3, 4), .strides = LK_AXES(1, 2)), "lk_nn_conv1d", "strides");
    BAD(LK_EINVAL, lk_nn_conv1d(F(2, 5, 3), F(2, 3, 4), .padding = (lk_padding)3), "lk_nn_conv1d", "padding");
    BAD(LK_ESHAPE, lk_nn_depthwise_conv2d(x, F(3, 3, 2, 1)), "depthwise", "takes 2 channels");
    BAD(LK_EINVAL, lk_nn_separable_conv2d(x, F(3, 3, 3, 2)), "lk_nn_separable_conv2d", "pointwise");
    BAD(LK_ESHAPE, lk_nn_separable_conv2d(x, F(3, 3, 3, 2), .pointwise = F(1, 1, 5, 2)), "takes 5 channels", "has 6");
    BAD(LK_ESHAPE, lk_nn_conv2d_transpose(x, F(3, 3, 4, 2)), "conv2d_grad_x", "[2, 5, 6, 3] f32, [3, 3, 4, 2] f32", "channels");
    BAD(LK_EINVAL, lk_nn_conv2d_transpose(x, F(3, 3, 4, 3), .padding = LK_CAUSAL), "lk_nn_conv2d_transpose", "LK_CAUSAL");
    BAD(LK_EINVAL, lk_nn_conv2d_transpose(x), "lk_nn_conv2d_transpose", "kernel is missing");
    END
}

TEST(pooling)
{
    BEGIN
    lk_tensor *x = F(2, 5, 6, 3);
    BAD(LK_ESHAPE, lk_nn_max_pool2d(F(5, 6, 3)), "lk_nn_max_pool2d", "[5, 6, 3]", "[n, height, width, channels]");
    BAD(LK_ESHAPE, lk_nn_avg_pool2d(x, LK_AXES(6)), "lk_nn_avg_pool2d", "6 x 6", "[2, 5, 6, 3]");
    BAD(LK_EINVAL, lk_nn_max_pool2d(x, LK_AXES(0)), "lk_nn_max_pool2d", "size", "1 or more");
    BAD(LK_EINVAL, lk_nn_max_pool2d(x, .strides = LK_AXES(-1)), "lk_nn_max_pool2d", "strides");
    BAD(LK_EINVAL, lk_nn_max_pool2d(x, .padding = LK_CAUSAL), "lk_nn_max_pool2d", "LK_CAUSAL");
    BAD(LK_EINVAL, lk_nn_avg_pool2d(x, .padding = (lk_padding)-1), "lk_nn_avg_pool2d", "padding");
    BAD(LK_EINVAL, lk_nn_max_pool2d(), "lk_nn_max_pool2d", "missing");
    BAD(LK_EDTYPE, lk_nn_max_pool2d(I(2, 4, 4, 1)), "max_pool of [2, 4, 4, 1] i32");
    BAD(LK_ESHAPE, lk_nn_max_pool1d(x), "lk_nn_max_pool1d", "[2, 5, 6, 3]", "[n, steps, channels]");
    BAD(LK_EINVAL, lk_nn_avg_pool1d(), "lk_nn_avg_pool1d", "missing");
    BAD(LK_EINVAL, lk_nn_avg_pool1d(F(2, 5, 1), LK_AXES(2, 2)), "lk_nn_avg_pool1d", "size");
    BAD(LK_ESHAPE, lk_nn_global_max_pool(F(2, 3)), "lk_nn_global_max_pool", "[2, 3]", "channels");
    BAD(LK_ESHAPE, lk_nn_global_avg_pool(F(2, 3)), "lk_nn_global_avg_pool");
    BAD(LK_EINVAL, lk_nn_global_avg_pool(NULL), "lk_nn_global_avg_pool", "NULL");
    END
}

TESTS(cmocka_unit_test(making_tensors), cmocka_unit_test(looking_at_tensors), cmocka_unit_test(sizes_that_cannot_be_counted),
      cmocka_unit_test(sizes_there_is_no_memory_for), cmocka_unit_test(element_wise), cmocka_unit_test(reductions),
      cmocka_unit_test(shapes), cmocka_unit_test(parts), cmocka_unit_test(joining_and_picking), cmocka_unit_test(matrix_products),
      cmocka_unit_test(convolutions), cmocka_unit_test(pooling))
