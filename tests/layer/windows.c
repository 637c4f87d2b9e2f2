/* Convolutions and pooling: shapes of rows, unknown sizes, weights, and errors. Their results are tested in keras.c. */
#include "layer/constraint.h"
#include "layer/replicas.h"

/* ---- rows ---- */

TEST(rows_of_known_and_unknown_sizes)
{
    LK_POOL {
        BECOMES(lk_conv1d(4, 3), LK_SHAPE(10, 2), 8, 4);
        BECOMES(lk_conv1d(4, 3, .strides = LK_AXES(2), .padding = LK_SAME), LK_SHAPE(9, 2), 5, 4);
        BECOMES(lk_conv1d(4, 3, .dilation = LK_AXES(4), .padding = LK_CAUSAL), LK_SHAPE(2, 2), 2, 4);
        BECOMES(lk_conv1d(4, 3), LK_SHAPE(-1, 2), -1, 4);
        BECOMES(lk_conv2d_transpose(3, 2, .strides = LK_AXES(2)), LK_SHAPE(5, 6, 1), 10, 12, 3);
        BECOMES(lk_conv2d_transpose(3, 5, .strides = LK_AXES(2, 1)), LK_SHAPE(5, -1, 1), 13, -1, 3);
        BECOMES(lk_conv2d_transpose(3, 5, .strides = LK_AXES(3), .padding = LK_SAME), LK_SHAPE(-1, 6, 1), -1, 18, 3);
        BECOMES(lk_depthwise_conv2d(3, .depth_multiplier = 4), LK_SHAPE(8, -1, 3), 6, -1, 12);
        BECOMES(lk_separable_conv2d(7, 3, .depth_multiplier = 4, .strides = LK_AXES(2)), LK_SHAPE(-1, 9, 3), -1, 4, 7);
        BECOMES(lk_max_pooling1d(), LK_SHAPE(7, 3), 3, 3);
        BECOMES(lk_max_pooling1d(.padding = LK_SAME), LK_SHAPE(7, 3), 4, 3);
        BECOMES(lk_average_pooling1d(.pool_size = LK_AXES(4), .strides = LK_AXES(1)), LK_SHAPE(-1, -1), -1, -1);
        BECOMES(lk_average_pooling2d(.pool_size = LK_AXES(2, 3)), LK_SHAPE(8, 9, -1), 4, 3, -1);
        BECOMES(lk_max_pooling2d(), LK_SHAPE(-1, 5, 2), -1, 2, 2);
        BECOMES(lk_global_max_pooling1d(), LK_SHAPE(-1, 5), 5);
        BECOMES(lk_global_average_pooling1d(.keepdims = LK_ON), LK_SHAPE(-1, 5), 1, 5);
        BECOMES(lk_global_max_pooling2d(.keepdims = LK_ON), LK_SHAPE(4, -1, 5), 1, 1, 5);
        BECOMES(lk_global_average_pooling2d(), LK_SHAPE(-1, -1, -1), -1);
        FINE();
    }
}

/* What rows_after() promised is what a call gives, for rows of sizes that were open. */
TEST(open_sizes_at_calls)
{
    LK_POOL {
        lk_layer *each[] = {lk_conv1d(4, 3, .padding = LK_CAUSAL), lk_conv1d(2, 3, .strides = LK_AXES(2)), lk_max_pooling1d(),
                            lk_average_pooling1d(.padding = LK_SAME), lk_global_max_pooling1d()};
        for (int i = 0; i < LKI_COUNT(each); i++) {
            lk_model *m = lk_sequential(each[i]);
            assert_int_equal(lk_model_build(m, LK_SHAPE(-1, 3)), LK_OK);
            for (int steps = 5; steps <= 6; steps++) {
                lk_shape want = {0};
                row_after(each[i], LK_SHAPE(steps, 3), &want);
                lk_tensor *y = lk_model_call(m, input_of(LK_SHAPE(2, steps, 3), 0));
                assert_true(is_shape(row_of(lk_tensor_shape(y)), want));
            }
        }
        FINE();
    }
}

TEST(rows_that_do_not_fit)
{
    LK_POOL {
        ROW_REFUSED(lk_conv1d(4, 3), LK_SHAPE(10), "\"conv1d\"", "[10]", "[steps, channels]");
        ROW_REFUSED(lk_conv1d(4, 3), LK_SHAPE(10, -1), "[10, -1]", "channels", "fixed");
        ROW_REFUSED(lk_conv1d(4, 3), LK_SHAPE(2, 3), "window of 1 x 3", "LK_SAME");
        ROW_REFUSED(lk_conv2d_transpose(1, 2, .name = "up"), LK_SHAPE(2, 2), "\"up\"", "[height, width, channels]");
        ROW_REFUSED(lk_conv2d_transpose(1, 2), LK_SHAPE(0, 2, 1), "\"conv2d_transpose\"", "without cells");
        ROW_REFUSED(lk_depthwise_conv2d(3), LK_SHAPE(2, 8, 1), "\"depthwise_conv2d\"", "window of 3 x 3");
        ROW_REFUSED(lk_separable_conv2d(1, 3), LK_SHAPE(8, 8, -1), "\"separable_conv2d\"", "channels", "fixed");
        ROW_REFUSED(lk_max_pooling1d(), LK_SHAPE(4, 4, 1), "\"max_pooling1d\"", "[steps, channels]");
        ROW_REFUSED(lk_average_pooling2d(), LK_SHAPE(4, 4), "\"average_pooling2d\"", "[height, width, channels]");
        ROW_REFUSED(lk_max_pooling1d(), LK_SHAPE(1, 4), "window", "LK_SAME");
        ROW_REFUSED(lk_global_max_pooling1d(), LK_SHAPE(4), "\"global_max_pooling1d\"", "[steps, channels]");
        ROW_REFUSED(lk_global_average_pooling2d(), LK_SHAPE(4, 4), "[height, width, channels]");
        ROW_REFUSED(lk_global_average_pooling2d(), LK_SHAPE(0, 4, 1), "nothing to pool");
        FINE();
    }
}

TEST(channels_of_what_was_built)
{
    LK_POOL {
        lk_layer *each[] = {lk_conv1d(4, 3), lk_conv2d_transpose(4, 3), lk_depthwise_conv2d(3), lk_separable_conv2d(4, 3)};
        for (int i = 0; i < LKI_COUNT(each); i++) {
            lk_model *m = lk_sequential(each[i]);
            lk_model_build(m, i ? LK_SHAPE(6, 6, 2) : LK_SHAPE(6, 2));
            ROW_REFUSED(each[i], i ? LK_SHAPE(6, 6, 3) : LK_SHAPE(6, 3), "2 channels", "when its kernel was made");
            FINE();
        }
    }
}

/* ---- weights ---- */

static void weights_are(lk_layer *l, lk_shape row, int count, const char *const *name, const lk_shape *shape)
{
    lk_model *m = lk_sequential(l);
    assert_int_equal(lk_model_build(m, row), LK_OK);
    lk_variables w = lk_layer_variables(l);
    assert_int_equal(w.count, count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(lk_variable_name(w.item[i]), name[i]);
        assert_true(is_shape(lk_variable_shape(w.item[i]), shape[i]));
    }
}
#define NAMES(...)                                                                                                                 \
    (const char *const[]) { __VA_ARGS__ }
#define SIZES(...)                                                                                                                 \
    (const lk_shape[]) { __VA_ARGS__ }

TEST(weights_of_convolutions)
{
    LK_POOL {
        weights_are(lk_conv1d(4, 3), LK_SHAPE(9, 2), 2, NAMES("conv1d/kernel", "conv1d/bias"), SIZES({3, {3, 2, 4}}, {1, {4}}));
        weights_are(lk_conv1d(4, 3, .use_bias = LK_OFF), LK_SHAPE(9, 2), 1, NAMES("conv1d/kernel"), SIZES({3, {3, 2, 4}}));
        weights_are(lk_conv2d_transpose(4, .kernel_shape = LK_AXES(3, 5)), LK_SHAPE(9, 9, 2), 2,
                    NAMES("conv2d_transpose/kernel", "conv2d_transpose/bias"), SIZES({4, {3, 5, 4, 2}}, {1, {4}}));
        weights_are(lk_depthwise_conv2d(3, .depth_multiplier = 5), LK_SHAPE(9, 9, 2), 2,
                    NAMES("depthwise_conv2d/kernel", "depthwise_conv2d/bias"), SIZES({4, {3, 3, 2, 5}}, {1, {10}}));
        weights_are(lk_separable_conv2d(4, 3, .depth_multiplier = 5), LK_SHAPE(9, 9, 2), 3,
                    NAMES("separable_conv2d/depthwise_kernel", "separable_conv2d/pointwise_kernel", "separable_conv2d/bias"),
                    SIZES({4, {3, 3, 2, 5}}, {4, {1, 1, 10, 4}}, {1, {4}}));
        FINE();
    }
}

TEST(options_reach_the_weights)
{
    LK_POOL {
        lk_constraint  *c = lk_unit_norm();
        lk_regularizer *r = lk_l2(0.5);
        lk_layer       *l =
            lk_separable_conv2d(2, 1, .depthwise_initializer = lk_init_constant(2), .pointwise_initializer = lk_init_ones(),
                                .bias_initializer = lk_init_constant(3), .pointwise_regularizer = r,
                                .activity_regularizer = lk_l1(1), .depthwise_constraint = c, .trainable = LK_OFF);
        lk_model *m = lk_sequential(l);
        CLOSE(lk_model_call(m, lk_ones(LK_SHAPE(1, 1, 1, 2), LK_F32)), 7, 7); /* 2 * 1 * 1 + 2 * 1 * 1 + 3 */
        lk_tuple losses = lk_model_losses(m);
        assert_int_equal(losses.count, 2);
        CLOSE(losses.item[0], 0.5 * 4);
        CLOSE(losses.item[1], 14);
        assert_ptr_equal(lk_layer_variables(l).item[0]->constraint, c);
        assert_null(lk_layer_variables(l).item[1]->constraint);
        assert_int_equal(lk_model_trainable_variables(m).count, 0);
        FINE();
    }
}

/* ---- mistakes ---- */

TEST(convolutions_that_cannot_be)
{
    LK_POOL {
        REFUSED(LK_EINVAL, !lk_conv1d(0, 3), "lk_conv1d", "filters is 0");
        REFUSED(LK_EINVAL, !lk_conv1d(2), "lk_conv1d", "kernel_size or kernel_shape");
        REFUSED(LK_EINVAL, !lk_conv1d(2, 3, .kernel_shape = LK_AXES(3)), "not both");
        REFUSED(LK_EINVAL, !lk_conv1d(2, .kernel_shape = LK_AXES(3, 3)), "kernel_shape has 2", "one");
        REFUSED(LK_EINVAL, !lk_conv1d(2, 3, .strides = LK_AXES(1, 1)), "strides has 2 values", "one dimension");
        REFUSED(LK_EINVAL, !lk_conv1d(2, 3, .dilation = LK_AXES(1, 1)), "dilation has 2 values");
        REFUSED(LK_EINVAL, !lk_conv1d(2, 3, .strides = LK_AXES(0)), "strides", "1 or more");
        REFUSED(LK_EINVAL, !lk_conv1d(2, 3, .activation = (lk_activation)99), "no activation 99");
        REFUSED(LK_EINVAL, !lk_conv2d(2, 3, .padding = LK_CAUSAL), "lk_conv2d", "LK_CAUSAL", "one dimension");
        REFUSED(LK_EINVAL, !lk_conv2d_transpose(2, 3, .padding = LK_CAUSAL), "lk_conv2d_transpose", "LK_CAUSAL");
        REFUSED(LK_EINVAL, !lk_conv2d_transpose(2, 3, .dilation = LK_AXES(0)), "lk_conv2d_transpose", "dilation");
        REFUSED(LK_EINVAL, !lk_conv2d_transpose(2, -3), "kernel size of -3");
        REFUSED(LK_EINVAL, !lk_depthwise_conv2d(), "lk_depthwise_conv2d", "kernel_size");
        REFUSED(LK_EINVAL, !lk_depthwise_conv2d(3, .depth_multiplier = -1), "depth_multiplier is -1");
        REFUSED(LK_EINVAL, !lk_depthwise_conv2d(3, .padding = (lk_padding)7), "no padding 7");
        REFUSED(LK_EINVAL, !lk_separable_conv2d(), "lk_separable_conv2d", "filters is 0");
        REFUSED(LK_EINVAL, !lk_separable_conv2d(1, 3, .strides = LK_AXES(1, 2, 3)), "strides");
        REFUSED(LK_EINVAL, !lk_separable_conv2d(1, 3, .pointwise_regularizer = (lk_regularizer *)lk_init_ones()),
                "pointwise_regularizer", "not a regulariser");
        FINE();
    }
}

TEST(pools_that_cannot_be)
{
    LK_POOL {
        REFUSED(LK_EINVAL, !lk_max_pooling1d(.pool_size = LK_AXES(2, 2)), "lk_max_pooling1d", "pool_size", "it is one");
        REFUSED(LK_EINVAL, !lk_average_pooling1d(.strides = LK_AXES(-2)), "lk_average_pooling1d", "strides");
        REFUSED(LK_EINVAL, !lk_average_pooling2d(.pool_size = LK_AXES(1, 2, 3)), "lk_average_pooling2d", "pool_size", "one or two");
        REFUSED(LK_EINVAL, !lk_max_pooling2d(.padding = LK_CAUSAL), "lk_max_pooling2d", "LK_CAUSAL");
        REFUSED(LK_EINVAL, !lk_global_max_pooling1d(.name = "a/b"), "lk_global_max_pooling1d", "slash");
        FINE();
    }
}

/* ---- over replicas ---- */

static lk_model *in_one_dimension(void)
{
    return lk_sequential(lk_conv1d(4, 3, .padding = LK_CAUSAL, .activation = LK_RELU), lk_max_pooling1d(.padding = LK_SAME),
                         lk_conv1d(3, 2, .strides = LK_AXES(2)), lk_average_pooling1d(.padding = LK_SAME), lk_dense(3),
                         lk_global_average_pooling1d());
}

static lk_model *in_two_dimensions(void)
{
    return lk_sequential(lk_separable_conv2d(4, 3, .depth_multiplier = 2, .activation = LK_RELU), lk_average_pooling2d(),
                         lk_depthwise_conv2d(2, .padding = LK_SAME), lk_conv2d_transpose(3, 2, .strides = LK_AXES(2)),
                         lk_global_max_pooling2d(.keepdims = LK_ON));
}

TEST(the_same_bits_on_replicas)
{
    same_on_replicas("1D", in_one_dimension, plain_sgd, LK_SHAPE(9, 2));
    same_on_replicas("2D", in_two_dimensions, plain_sgd, LK_SHAPE(8, 7, 2));
}

TESTS(cmocka_unit_test(rows_of_known_and_unknown_sizes), cmocka_unit_test(open_sizes_at_calls),
      cmocka_unit_test(rows_that_do_not_fit), cmocka_unit_test(channels_of_what_was_built),
      cmocka_unit_test(weights_of_convolutions), cmocka_unit_test(options_reach_the_weights),
      cmocka_unit_test(convolutions_that_cannot_be), cmocka_unit_test(pools_that_cannot_be),
      cmocka_unit_test(the_same_bits_on_replicas))
