/* Layers that rearrange cells: Reshape, Permute, borders, UpSampling2D, activations, Rescaling. Shapes of rows and errors; their
 * results are tested in keras.c. */
#include "layer/replicas.h"

TEST(rows_of_known_and_unknown_sizes)
{
    LK_POOL {
        BECOMES(lk_reshape_layer(LK_SHAPE(3, 4)), LK_SHAPE(12), 3, 4);
        BECOMES(lk_reshape_layer(LK_SHAPE(2, -1, 3)), LK_SHAPE(4, 6), 2, 4, 3);
        BECOMES(lk_reshape_layer(LK_SHAPE(-1, 3)), LK_SHAPE(-1, 6), -1, 3);
        BECOMES(lk_reshape_layer(LK_SHAPE(3, 4)), LK_SHAPE(-1), 3, 4);
        BECOMES(lk_reshape_layer(LK_SHAPE()), LK_SHAPE(1));
        BECOMES(lk_permute(LK_AXES(2, 1)), LK_SHAPE(-1, 5), 5, -1);
        BECOMES(lk_permute(LK_AXES(1)), LK_SHAPE(7), 7);
        BECOMES(lk_zero_padding2d(), LK_SHAPE(4, -1, 2), 6, -1, 2);
        BECOMES(lk_zero_padding2d(LK_AXES(0)), LK_SHAPE(4, 4, 2), 4, 4, 2);
        BECOMES(lk_zero_padding2d(LK_AXES(1, 2)), LK_SHAPE(4, 4, -1), 6, 8, -1);
        BECOMES(lk_zero_padding2d(LK_AXES(1, 2, 3, 4)), LK_SHAPE(4, 4, 2), 7, 11, 2);
        BECOMES(lk_cropping2d(), LK_SHAPE(4, 4, 2), 4, 4, 2);
        BECOMES(lk_cropping2d(LK_AXES(1)), LK_SHAPE(4, -1, 2), 2, -1, 2);
        BECOMES(lk_up_sampling2d(), LK_SHAPE(4, 5, 2), 8, 10, 2);
        BECOMES(lk_up_sampling2d(LK_AXES(3, 1), .interpolation = LK_BILINEAR), LK_SHAPE(-1, 5, -1), -1, 5, -1);
        BECOMES(lk_activation_layer(LK_TANH), LK_SHAPE(-1, 5), -1, 5);
        BECOMES(lk_relu_layer(), LK_SHAPE(-1), -1);
        BECOMES(lk_softmax_layer(LK_AXIS(1)), LK_SHAPE(3, -1), 3, -1);
        BECOMES(lk_rescaling(0.5), LK_SHAPE(-1, -1, 3), -1, -1, 3);
        FINE();
    }
}

TEST(rows_that_do_not_fit)
{
    LK_POOL {
        ROW_REFUSED(lk_reshape_layer(LK_SHAPE(3, 4)), LK_SHAPE(13), "\"reshape\"", "13 elements", "[3, 4]");
        ROW_REFUSED(lk_reshape_layer(LK_SHAPE(-1, 5)), LK_SHAPE(3, 4), "12 elements", "[-1, 5]");
        ROW_REFUSED(lk_permute(LK_AXES(2, 1)), LK_SHAPE(4), "\"permute\"", "dims names 2 axes");
        ROW_REFUSED(lk_zero_padding2d(), LK_SHAPE(4, 4), "\"zero_padding2d\"", "[height, width, channels]");
        ROW_REFUSED(lk_cropping2d(LK_AXES(2, 0)), LK_SHAPE(4, 4, 1), "\"cropping2d\"", "height of 4", "2 and 2");
        ROW_REFUSED(lk_cropping2d(LK_AXES(0, 0, 1, 9)), LK_SHAPE(4, 4, 1), "width of 4", "1 and 9");
        ROW_REFUSED(lk_up_sampling2d(), LK_SHAPE(4), "\"up_sampling2d\"", "[height, width, channels]");
        ROW_REFUSED(lk_softmax_layer(LK_AXIS(2)), LK_SHAPE(4), "\"softmax\"", "axis 2", "1 to 1", "batch");
        ROW_REFUSED(lk_softmax_layer(LK_AXIS(-2)), LK_SHAPE(4), "axis -2");
        ROW_REFUSED(lk_softmax_layer(), LK_SHAPE(), "axis -1");
        lk_model *m = lk_sequential(lk_reshape_layer(LK_SHAPE(-1, 4)));
        lk_model_build(m, LK_SHAPE(-1));
        assert_true(is_shape(lk_tensor_shape(lk_model_call(m, lk_zeros(LK_SHAPE(2, 8), LK_F32))), LK_SHAPE(2, 2, 4)));
        REFUSED_TENSOR(LK_ESHAPE, lk_model_call(m, lk_zeros(LK_SHAPE(2, 9), LK_F32)), "\"reshape\"", "9 elements");
        FINE();
    }
}

TEST(layers_that_cannot_be)
{
    LK_POOL {
        REFUSED(LK_ESHAPE, !lk_reshape_layer(LK_SHAPE(-1, -1)), "lk_reshape_layer", "[-1, -1]", "one may be -1");
        REFUSED(LK_ESHAPE, !lk_reshape_layer(LK_SHAPE(-2)), "[-2]");
        REFUSED(LK_ESHAPE, !lk_reshape_layer(LK_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), "at most 7");
        REFUSED(LK_EINVAL, !lk_permute(), "lk_permute", "LK_AXES(2, 1)");
        REFUSED(LK_EINVAL, !lk_permute(LK_AXES(0, 1)), "lk_permute", "once");
        REFUSED(LK_EINVAL, !lk_permute(LK_AXES(2, 2)), "lk_permute", "once");
        REFUSED(LK_EINVAL, !lk_zero_padding2d(LK_AXES(1, 2, 3)), "lk_zero_padding2d", "one, two or four");
        REFUSED(LK_EINVAL, !lk_zero_padding2d(LK_AXES(-1)), "0 or more");
        REFUSED(LK_EINVAL, !lk_cropping2d(LK_AXES(1, 1, 1, -1)), "lk_cropping2d", "0 or more");
        REFUSED(LK_EINVAL, !lk_up_sampling2d(LK_AXES(0)), "lk_up_sampling2d", "1 or more");
        REFUSED(LK_EINVAL, !lk_up_sampling2d(LK_AXES(1, 2, 3)), "one or two");
        REFUSED(LK_EINVAL, !lk_up_sampling2d(.interpolation = (lk_interpolation)7), "no interpolation 7");
        REFUSED(LK_EINVAL, !lk_activation_layer(), "lk_activation_layer", "missing");
        REFUSED(LK_EINVAL, !lk_activation_layer((lk_activation)77), "no activation 77");
        REFUSED(LK_EINVAL, !lk_relu_layer(LK_NUMBER(-1)), "lk_relu_layer", "max_value is -1");
        REFUSED(LK_EINVAL, !lk_relu_layer(.negative_slope = -1), "negative_slope is -1");
        REFUSED(LK_EINVAL, !lk_relu_layer(.threshold = NAN), "threshold is nan");
        REFUSED(LK_EINVAL, !lk_leaky_relu_layer(LK_NUMBER(-0.1)), "lk_leaky_relu_layer", "negative_slope is -0.1");
        REFUSED(LK_EINVAL, !lk_softmax_layer(LK_AXIS(0)), "lk_softmax_layer", "axis 0", "batch");
        REFUSED(LK_EINVAL, !lk_rescaling(), "lk_rescaling", "scale is 0");
        REFUSED(LK_EINVAL, !lk_rescaling(1, INFINITY), "offset is inf");
        FINE();
    }
}

/* A maximum of 0 is a choice, and so is a slope of 0. */
TEST(zero_is_a_choice)
{
    LK_POOL {
        lk_tensor *x = lk_tensor_of(LK_SHAPE(1, 3), -1, 0.5, 2);
        CLOSE(through(lk_relu_layer(LK_NUMBER(0)), x), 0, 0, 0);
        CLOSE(through(lk_leaky_relu_layer(LK_NUMBER(0)), x), 0, 0.5, 2);
        CLOSE(through(lk_leaky_relu_layer(), x), -0.3, 0.5, 2);
        FINE();
    }
}

TEST(every_activation)
{
    LK_POOL {
        lk_tensor *x = input_of(LK_SHAPE(3, 6), 0);
        for (int a = LK_LINEAR; a < LK_ACTIVATION_COUNT; a++)
            assert_true(same_bits(through(lk_activation_layer((lk_activation)a), x), lk_activate(x, (lk_activation)a)));
        FINE();
    }
}

/* Integers and other floats are taken as f32. */
TEST(rows_of_other_types)
{
    LK_POOL {
        const uint8_t pixel[] = {0, 51, 255};
        lk_tensor    *x = lk_tensor_from(LK_SHAPE(1, 3), LK_U8, pixel);
        CLOSE(through(lk_rescaling(1.0 / 255), x), 0, 0.2, 1);
        CLOSE(through(lk_rescaling(2, -1), x), -1, 101, 509);
        FINE();
    }
}

/* What would wrap if it was multiplied as it is: none of these has a size that memory could hold. */
TEST(rows_that_are_too_large)
{
    const int64_t most = INT32_MAX, large = (int64_t)1 << 40;
    LK_POOL {
        ROW_REFUSED(lk_flatten(), LK_SHAPE(large, large, 4), "\"flatten\"", "too large", "2^48");
        ROW_REFUSED(lk_up_sampling2d(LK_AXES(65536)), LK_SHAPE(large, large, 1), "\"up_sampling2d\"", "too large");
        ROW_REFUSED(lk_zero_padding2d(LK_AXES(most, most)), LK_SHAPE(INT64_MAX - 1, 4, 1), "\"zero_padding2d\"", "too large");
        ROW_REFUSED(lk_zero_padding2d(LK_AXES(most, most)), LK_SHAPE(4, 4, 1), "\"zero_padding2d\"", "too large");
        ROW_REFUSED(lk_reshape_layer(LK_SHAPE(-1, 2)), LK_SHAPE(large, large, 4), "too large");
        ROW_REFUSED(lk_dense(most), LK_SHAPE(large, 3), "\"dense\"", "too large");
        ROW_REFUSED(lk_conv2d(most, 1), LK_SHAPE(large, large, 1), "\"conv2d\"", "too large");
        ROW_REFUSED(lk_conv2d(1, most, .padding = LK_SAME, .dilation = LK_AXES(most)), LK_SHAPE(large, large, 1), "too large");
        ROW_REFUSED(lk_conv2d_transpose(1, most, .strides = LK_AXES(most)), LK_SHAPE(large, large, 1), "too large");
        ROW_REFUSED(lk_depthwise_conv2d(1, .depth_multiplier = most), LK_SHAPE(3, 3, INT64_MAX), "too large");
        ROW_REFUSED(lk_embedding(3, most), LK_SHAPE(most), "\"embedding\"", "too large");
        ROW_REFUSED(lk_random_crop(most, most), LK_SHAPE(3, 3, 1), "\"random_crop\"", "too large");
        ROW_REFUSED(lk_bidirectional(lk_lstm(most, .return_sequences = LK_ON)), LK_SHAPE(large, 1), "too large");
        REFUSED(LK_ESHAPE, !lk_dense(3, .input_shape = LK_SHAPE(most, most, 4)), "lk_dense", "not the shape of a row", "2^48");
        REFUSED(LK_ESHAPE, !lk_input(LK_SHAPE(most, most, 4)), "lk_input", "not the shape of a row");
    }
}

/* Weights of possible rows. */
TEST(weights_that_are_too_large)
{
    const int64_t most = INT32_MAX, large = (int64_t)1 << 40;
    LK_POOL {
        REFUSED(LK_ESHAPE, !lk_sequential(lk_lstm(most, .input_shape = LK_SHAPE(1, large))), "\"lstm\"", "kernel", "too large");
        REFUSED(LK_ESHAPE,
                !lk_sequential(
                    lk_separable_conv2d(1, most, .depth_multiplier = most, .padding = LK_SAME, .input_shape = LK_SHAPE(1, 1, 8))),
                "\"separable_conv2d\"", "depthwise_kernel", "too large");
        REFUSED(LK_ESHAPE, !lk_sequential(lk_depthwise_conv2d(most, .padding = LK_SAME, .input_shape = LK_SHAPE(1, 1, 1))),
                "kernel", "too large");
        lk_node *x = lk_input(LK_SHAPE(2, large));
        REFUSED(LK_ESHAPE, !lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_multi_head_attention(most, most), x, x))),
                "\"multi_head_attention\"", "query/kernel", "too large");
    }
}

/* The table of fields says which options are sizes; all of them have one bound. */
TEST(sizes_that_no_option_has)
{
    const int64_t n = (int64_t)1 << 62;
    LK_POOL {
        REFUSED(LK_EINVAL, !lk_dense(n), "lk_dense", "units is 4611686018427387904", "at most 2147483647");
        REFUSED(LK_EINVAL, !lk_conv2d(n, 1), "lk_conv2d", "filters");
        REFUSED(LK_EINVAL, !lk_conv2d(1, n), "lk_conv2d", "kernel_size");
        REFUSED(LK_EINVAL, !lk_conv1d(1, n), "lk_conv1d", "kernel_size");
        REFUSED(LK_EINVAL, !lk_conv2d(1, 1, .strides = LK_AXES(n)), "lk_conv2d", "strides");
        REFUSED(LK_EINVAL, !lk_conv2d(1, 1, .dilation = LK_AXES(n)), "lk_conv2d", "dilation");
        REFUSED(LK_EINVAL, !lk_separable_conv2d(n, 1), "lk_separable_conv2d", "filters");
        REFUSED(LK_EINVAL, !lk_depthwise_conv2d(1, .depth_multiplier = n), "lk_depthwise_conv2d", "depth_multiplier");
        REFUSED(LK_EINVAL, !lk_max_pooling2d(LK_AXES(n)), "lk_max_pooling2d", "pool_size");
        REFUSED(LK_EINVAL, !lk_up_sampling2d(LK_AXES(n)), "lk_up_sampling2d", "size");
        REFUSED(LK_EINVAL, !lk_zero_padding2d(LK_AXES(n)), "lk_zero_padding2d", "border");
        REFUSED(LK_EINVAL, !lk_cropping2d(LK_AXES(n)), "lk_cropping2d", "border");
        REFUSED(LK_EINVAL, !lk_embedding(n, 1), "lk_embedding", "input_dim");
        REFUSED(LK_EINVAL, !lk_embedding(1, n), "lk_embedding", "output_dim");
        REFUSED(LK_EINVAL, !lk_lstm(n), "lk_lstm", "units");
        REFUSED(LK_EINVAL, !lk_multi_head_attention(n, 1), "lk_multi_head_attention", "num_heads");
        REFUSED(LK_EINVAL, !lk_multi_head_attention(1, n), "lk_multi_head_attention", "key_dim");
        REFUSED(LK_EINVAL, !lk_group_normalization(n), "lk_group_normalization", "groups");
        REFUSED(LK_EINVAL, !lk_random_crop(n, 1), "lk_random_crop", "height");
        REFUSED(LK_EINVAL, !lk_random_crop(1, n + 16), "lk_random_crop", "width is 4611686018427387920");
        REFUSED(LK_ESHAPE, !lk_reshape_layer(LK_SHAPE(n, 4)), "lk_reshape_layer", "target_shape");
    }
}

static lk_model *moving(void)
{
    return lk_sequential(lk_rescaling(0.5, 0.25), lk_zero_padding2d(LK_AXES(1, 0, 2, 1)), lk_conv2d(4, 2),
                         lk_up_sampling2d(LK_AXES(2), .interpolation = LK_BILINEAR), lk_cropping2d(LK_AXES(1, 2)),
                         lk_relu_layer(LK_NUMBER(1.5), .negative_slope = 0.1, .threshold = 0.1), lk_permute(LK_AXES(3, 1, 2)),
                         lk_up_sampling2d(), lk_softmax_layer(LK_AXIS(2)), lk_reshape_layer(LK_SHAPE(-1, 4)),
                         lk_dense(3, .activation = LK_TANH), lk_leaky_relu_layer());
}

TEST(the_same_bits_on_replicas) { same_on_replicas("moving", moving, plain_sgd, LK_SHAPE(5, 4, 2)); }

TESTS(cmocka_unit_test(rows_of_known_and_unknown_sizes), cmocka_unit_test(rows_that_do_not_fit),
      cmocka_unit_test(layers_that_cannot_be), cmocka_unit_test(rows_that_are_too_large),
      cmocka_unit_test(weights_that_are_too_large), cmocka_unit_test(sizes_that_no_option_has), cmocka_unit_test(zero_is_a_choice),
      cmocka_unit_test(every_activation), cmocka_unit_test(rows_of_other_types), cmocka_unit_test(the_same_bits_on_replicas))
