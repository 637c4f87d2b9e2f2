/* Convolutions, pools, borders and samplings along 1 to 3 axes: against Keras, compiled, their configs, and the same bits on
 * replicas. Numbers and configs were made by vision_cases.py. */
#define CASES_FILE "layer/vision_cases.inc"
#define CONFIGS_FILE "layer/vision_configs.inc"
#include "layer/cases.h"
#include "layer/configs.h"
#include "layer/replicas.h"

TEST(as_in_keras) { EACH_CASE(as_keras(c, LK_OFF, true)); }
TEST(compiled_to_the_same_bits) { EACH_CASE(compiled_alike(c, LK_OFF)); }

/* The shape that a layer promises is that of its result. */
static bool promised(const keras_case *c)
{
    lk_shape   want = {0};
    lk_layer  *l = layer_of(c);
    lk_tensor *y = call_with(l, inputs_of(c), LK_OFF);
    row_after(l, row_of(c->in[0]), &want);
    return is_shape(row_of(lk_tensor_shape(y)), want);
}

TEST(shapes_as_promised) { EACH_CASE(promised(c)); }

/* ---- over replicas ---- */

static lk_model *along_steps(void)
{
    return lk_sequential(lk_zero_padding1d(LK_AXES(1, 2)), lk_conv1d(4, 3, .groups = 2, .activation = LK_RELU),
                         lk_conv1d_transpose(4, 3, .strides = 2), lk_depthwise_conv1d(2), lk_separable_conv1d(3, 2),
                         lk_up_sampling1d(), lk_cropping1d(), lk_adaptive_average_pooling1d(5), lk_adaptive_max_pooling1d(2));
}

static lk_model *over_images(void)
{
    return lk_sequential(lk_conv2d(8, 3, .groups = 4, .padding = LK_SAME, .data_format = LK_CHANNELS_FIRST),
                         lk_conv2d(4, 3, .groups = 2, .strides = 2, .data_format = LK_CHANNELS_FIRST, .activation = LK_RELU),
                         lk_up_sampling2d(2, LK_BICUBIC, LK_CHANNELS_FIRST),
                         lk_conv2d_transpose(2, 3, .strides = 2, .output_padding = 1, .data_format = LK_CHANNELS_FIRST),
                         lk_adaptive_average_pooling2d(LK_AXES(3, 2), LK_CHANNELS_FIRST),
                         lk_flatten(.data_format = LK_CHANNELS_FIRST), lk_dense(3));
}

static lk_model *over_volumes(void)
{
    return lk_sequential(lk_conv3d(4, 3, .padding = LK_SAME, .activation = LK_RELU), lk_max_pooling3d(LK_AXES(2, 1, 2)),
                         lk_conv3d(4, 2, .groups = 2, .strides = LK_AXES(2, 1, 1)), lk_conv3d_transpose(2, 2, .strides = 2),
                         lk_average_pooling3d(.padding = LK_SAME), lk_zero_padding3d(), lk_cropping3d(LK_AXES(0, 1, 1)),
                         lk_up_sampling3d(), lk_global_average_pooling3d(.keepdims = LK_ON));
}

TEST(the_same_bits_on_replicas)
{
    same_on_replicas("steps", along_steps, plain_sgd, LK_SHAPE(9, 2));
    same_on_replicas("images", over_images, plain_sgd, LK_SHAPE(4, 7, 6));
    same_on_replicas("volumes", over_volumes, plain_sgd, LK_SHAPE(4, 5, 6, 2));
}

/* ---- rows and mistakes ---- */

TEST(rows_of_known_and_unknown_sizes)
{
    LK_POOL {
        BECOMES(lk_conv3d(4, 3), LK_SHAPE(5, -1, 7, 2), 3, -1, 5, 4);
        BECOMES(lk_conv3d(4, 3, .data_format = LK_CHANNELS_FIRST), LK_SHAPE(2, 5, -1, 7), 4, 3, -1, 5);
        BECOMES(lk_conv2d(4, 3, .padding = LK_SAME, .strides = 2, .data_format = LK_CHANNELS_FIRST), LK_SHAPE(2, -1, 7), 4, -1, 4);
        BECOMES(lk_conv1d_transpose(4, 3, .strides = 2), LK_SHAPE(-1, 2), -1, 4);
        BECOMES(lk_conv3d_transpose(4, 2, .strides = LK_AXES(1, 2, 3)), LK_SHAPE(2, 3, 4, 1), 3, 6, 12, 4);
        BECOMES(lk_conv2d_transpose(4, 3, .strides = 2, .output_padding = 1, .data_format = LK_CHANNELS_FIRST), LK_SHAPE(1, 5, 6),
                4, 12, 14);
        BECOMES(lk_max_pooling3d(), LK_SHAPE(4, 5, -1, 3), 2, 2, -1, 3);
        BECOMES(lk_global_max_pooling3d(.keepdims = LK_ON, .data_format = LK_CHANNELS_FIRST), LK_SHAPE(3, 4, 5, 6), 3, 1, 1, 1);
        BECOMES(lk_adaptive_max_pooling2d(LK_AXES(2, 3)), LK_SHAPE(-1, -1, 5), 2, 3, 5);
        BECOMES(lk_zero_padding3d(LK_AXES(1, 2, 3)), LK_SHAPE(2, -1, 4, 1), 4, -1, 10, 1);
        BECOMES(lk_cropping1d(), LK_SHAPE(-1, 3), -1, 3);
        BECOMES(lk_up_sampling3d(LK_AXES(1, 2, 3)), LK_SHAPE(-1, 2, 2, 5), -1, 4, 6, 5);
        FINE();
    }
}

TEST(rows_that_do_not_fit)
{
    LK_POOL {
        ROW_REFUSED(lk_conv2d(4, 3, .groups = 2), LK_SHAPE(8, 8, 3), "\"conv2d\"", "3 channels", "2 groups");
        ROW_REFUSED(lk_conv3d(4, 3), LK_SHAPE(8, 8, 3), "\"conv3d\"", "[depth, height, width, channels]");
        ROW_REFUSED(lk_conv3d(4, 3), LK_SHAPE(2, 8, 8, 3), "window of 3 x 3 x 3", "LK_SAME");
        ROW_REFUSED(lk_conv2d(4, 3, .data_format = LK_CHANNELS_FIRST), LK_SHAPE(8, 8), "[channels, height, width]");
        ROW_REFUSED(lk_conv1d_transpose(4, 4, .strides = 2, .padding = LK_SAME, .output_padding = LK_AXES(0)), LK_SHAPE(3, 2),
                    "output_padding 0", "even size");
        ROW_REFUSED(lk_max_pooling3d(.data_format = LK_CHANNELS_FIRST), LK_SHAPE(1, 1, 2, 2), "window of 2 x 2 x 2");
        ROW_REFUSED(lk_adaptive_average_pooling1d(2), LK_SHAPE(0, 2), "nothing to pool");
        ROW_REFUSED(lk_cropping3d(), LK_SHAPE(3, 2, 3, 1), "nothing is left of a height of 2");
        ROW_REFUSED(lk_cropping1d(LK_AXES(2, 1)), LK_SHAPE(3, 1), "nothing is left of a length of 3");
        FINE();
    }
}

TEST(layers_that_cannot_be)
{
    LK_POOL {
        REFUSED(LK_EINVAL, !lk_conv2d(4, 3, .groups = 3), "lk_conv2d", "4 filters", "3 groups");
        REFUSED(LK_EINVAL, !lk_conv1d(4, 3, .groups = 0), "lk_conv1d", "groups is 0");
        REFUSED(LK_EINVAL, !lk_conv3d(4, .kernel_shape = LK_AXES(3, 3)), "lk_conv3d", "kernel_shape has 2", "three");
        REFUSED(LK_EINVAL, !lk_conv3d(4, 3, .strides = LK_AXES(1, 2)), "lk_conv3d", "strides", "one or three");
        REFUSED(LK_EINVAL, !lk_conv2d(4, 3, .output_padding = 1), "lk_conv2d", "output_padding", "transposed");
        REFUSED(LK_EINVAL, !lk_conv2d(4, 3, .data_format = (lk_data_format)2), "lk_conv2d", "no data_format 2");
        REFUSED(LK_EINVAL, !lk_conv2d_transpose(4, 3, .groups = 2), "lk_conv2d_transpose", "groups");
        REFUSED(LK_EINVAL, !lk_conv1d_transpose(4, 3, .strides = 2, .output_padding = 2), "output_padding is 2", "stride, 2");
        REFUSED(LK_EINVAL, !lk_conv1d_transpose(4, 3, .padding = LK_CAUSAL), "lk_conv1d_transpose", "LK_CAUSAL");
        REFUSED(LK_EINVAL, !lk_adaptive_max_pooling2d(), "lk_adaptive_max_pooling2d", "output_size is missing");
        REFUSED(LK_EINVAL, !lk_adaptive_max_pooling1d(LK_AXES(1, 2)), "output_size has 2 values");
        REFUSED(LK_EINVAL, !lk_zero_padding1d(LK_AXES(1, 2, 3)), "lk_zero_padding1d", "one or two values");
        REFUSED(LK_EINVAL, !lk_zero_padding3d(LK_AXES(1, 2)), "lk_zero_padding3d", "one, three or six");
        REFUSED(LK_EINVAL, !lk_cropping1d(.data_format = LK_CHANNELS_FIRST), "lk_cropping1d", "data_format");
        REFUSED(LK_EINVAL, !lk_up_sampling3d(.interpolation = LK_BILINEAR), "lk_up_sampling3d", "LK_NEAREST");
        REFUSED(LK_EINVAL, !lk_up_sampling2d(.interpolation = (lk_interpolation)9), "no interpolation 9");
        REFUSED(LK_EINVAL, !lk_up_sampling1d(0), "lk_up_sampling1d", "1 to 65536");
        FINE();
    }
}

TEST(masked_steps_are_left_out_of_the_mean)
{
    LK_POOL {
        static const uint8_t live[] = {1, 0, 1, 1, 0, 0};
        lk_tensor           *x = lk_tensor_of(LK_SHAPE(2, 3, 1), 1, NAN, 5, 7, 8, 9);
        x = lki_masked(x, lk_tensor_from(LK_SHAPE(2, 3), LK_BOOL, live), false);
        CLOSE(lk_layer_call(lk_global_average_pooling1d(), x, LK_OFF), 3, 7);
        CLOSE(lk_layer_call(lk_global_average_pooling1d(.keepdims = LK_ON), x, LK_OFF), 3, 7);
        FINE();
    }
}

TESTS(cmocka_unit_test(as_in_keras), cmocka_unit_test(compiled_to_the_same_bits), cmocka_unit_test(shapes_as_promised),
      cmocka_unit_test(as_keras_says_it), cmocka_unit_test(the_same_bits_on_replicas),
      cmocka_unit_test(rows_of_known_and_unknown_sizes), cmocka_unit_test(rows_that_do_not_fit),
      cmocka_unit_test(layers_that_cannot_be), cmocka_unit_test(masked_steps_are_left_out_of_the_mean))
