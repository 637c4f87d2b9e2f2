/* Layers that move or bend cells: Reshape, Permute, borders, UpSampling2D, activations, Rescaling. Shapes of rows and mistakes; what they
 * compute is in keras.c. */
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
        REFUSED(LK_EINVAL, !lk_up_sampling2d(LK_AXES(0)), "lk_up_sampling2d", "from 1");
        REFUSED(LK_EINVAL, !lk_up_sampling2d(LK_AXES(1, 2, 3)), "one or two");
        REFUSED(LK_EINVAL, !lk_up_sampling2d(.interpolation = (lk_interpolation)5), "no interpolation 5");
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
        lk_tensor *x = input_of(LK_SHAPE(3, 5), 0);
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
      cmocka_unit_test(layers_that_cannot_be), cmocka_unit_test(zero_is_a_choice), cmocka_unit_test(every_activation),
      cmocka_unit_test(rows_of_other_types), cmocka_unit_test(the_same_bits_on_replicas))
