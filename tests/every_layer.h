/* Small models that together contain every kind of layer, for tests that must cover all of them. */
#ifndef LK_TESTS_EVERY_LAYER_H
#define LK_TESTS_EVERY_LAYER_H

#include <lockstep.h>

static inline lk_model *convolutions(void)
{
    return lk_sequential(lk_conv2d(3, 2, .padding = LK_SAME, .input_shape = LK_SHAPE(6, 6, 2), .kernel_regularizer = lk_l2(0.01)),
                         lk_max_pooling2d(), lk_batch_normalization(), lk_depthwise_conv2d(2, .depth_multiplier = 2),
                         lk_separable_conv2d(2, 1), lk_group_normalization(2), lk_relu_layer(), lk_average_pooling2d(),
                         lk_flatten(), lk_dense(2, .kernel_constraint = lk_max_norm()));
}

static inline lk_model *pictures(void)
{
    return lk_sequential(lk_rescaling(0.5, .input_shape = LK_SHAPE(5, 4, 1)), lk_random_flip(), lk_random_rotation(0.1),
                         lk_random_crop(4, 3), lk_zero_padding2d(), lk_cropping2d(LK_AXES(1, 0)), lk_up_sampling2d(),
                         lk_conv2d_transpose(2, 2, .strides = LK_AXES(2)), lk_spatial_dropout2d(0.5), lk_leaky_relu_layer(),
                         lk_global_average_pooling2d(), lk_dense(1, LK_SIGMOID));
}

static inline lk_model *other_pictures(void)
{
    return lk_sequential(lk_up_sampling2d(.interpolation = LK_BILINEAR, .input_shape = LK_SHAPE(3, 3, 2)), lk_random_crop(7, 7),
                         lk_permute(LK_AXES(2, 1, 3)), lk_layer_normalization(), lk_activation_layer(LK_TANH),
                         lk_global_max_pooling2d(), lk_reshape_layer(LK_SHAPE(1, -1)), lk_softmax_layer());
}

static inline lk_model *steps(void)
{
    return lk_sequential(lk_zero_padding1d(.input_shape = LK_SHAPE(6, 2)), lk_conv1d(4, 3, .groups = 2),
                         lk_conv1d_transpose(2, 2, .strides = 2, .output_padding = 1), lk_depthwise_conv1d(2),
                         lk_separable_conv1d(3, 2), lk_up_sampling1d(), lk_cropping1d(), lk_adaptive_max_pooling1d(5),
                         lk_adaptive_average_pooling1d(3), lk_flatten(.data_format = LK_CHANNELS_FIRST), lk_dense(1));
}

static inline lk_model *volumes(void)
{
    return lk_sequential(lk_conv3d(2, 2, .input_shape = LK_SHAPE(3, 4, 4, 1)), lk_zero_padding3d(), lk_max_pooling3d(),
                         lk_conv3d_transpose(2, 2), lk_average_pooling3d(.padding = LK_SAME), lk_up_sampling3d(), lk_cropping3d(0),
                         lk_adaptive_max_pooling3d(2), lk_adaptive_average_pooling3d(LK_AXES(1, 2, 1)),
                         lk_global_max_pooling3d(.keepdims = LK_ON), lk_global_average_pooling3d(), lk_dense(1));
}

static inline lk_model *channels_first(void)
{
    return lk_sequential(lk_conv2d(4, 3, .groups = 2, .data_format = LK_CHANNELS_FIRST, .input_shape = LK_SHAPE(2, 6, 5)),
                         lk_up_sampling2d(2, LK_LANCZOS3, LK_CHANNELS_FIRST),
                         lk_adaptive_max_pooling2d(3, .data_format = LK_CHANNELS_FIRST),
                         lk_adaptive_average_pooling2d(2, .data_format = LK_CHANNELS_FIRST),
                         lk_global_average_pooling2d(.data_format = LK_CHANNELS_FIRST), lk_dense(1));
}

static inline lk_model *sequences(void)
{
    return lk_sequential(lk_embedding(7, 4, .input_shape = LK_SHAPE(6)), lk_conv1d(3, 2, .padding = LK_CAUSAL), lk_max_pooling1d(),
                         lk_bidirectional(lk_lstm(2, .return_sequences = LK_ON)), lk_time_distributed(lk_dense(3)),
                         lk_average_pooling1d(.padding = LK_SAME), lk_gru(2, .return_sequences = LK_ON, .dropout = 0.25),
                         lk_simple_rnn(2), lk_dropout(0.5), lk_dense(1));
}

static inline lk_model *attention(void)
{
    lk_node *x = lk_input(LK_SHAPE(3, 4)), *y = lk_apply(lk_multi_head_attention(2, 2, .dropout = 0.1), x, x);
    lk_node *pooled = lk_apply(lk_global_average_pooling1d(), lk_apply(lk_add_layer(), x, y));
    lk_node *most = lk_apply(lk_global_max_pooling1d(), y);
    return lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_dot_layer(LK_AXES(1), .normalize = LK_ON), pooled, most)));
}

static inline lk_model *cells(void)
{
    lk_layer *stack = lk_stacked_rnn_cells(LK_LAYERS(lk_lstm_cell(2), lk_gru_cell(3)));
    return lk_sequential(lk_masking(.input_shape = LK_SHAPE(4, 3)), lk_rnn_layer(stack, .return_sequences = true),
                         lk_rnn_layer(lk_simple_rnn_cell(2)), lk_dense(1));
}

static inline lk_model *more_attention(void)
{
    lk_node *x = lk_input(LK_SHAPE(3, 4)), *a = lk_apply(lk_attention_layer(.use_scale = true), x, x);
    lk_node *b = lk_apply(lk_additive_attention(), a, x), *c = lk_apply(lk_group_query_attention(2, 4, 2, .use_gate = true), b, x);
    return lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_global_average_pooling1d(), c)));
}

static inline lk_model *merges(void)
{
    lk_tensor *mean = lk_fill(LK_SHAPE(3), LK_F32, 0.5), *variance = lk_fill(LK_SHAPE(3), LK_F32, 2);
    lk_node   *a = lk_input(LK_SHAPE(3)), *b = lk_input(LK_SHAPE(3), .name = "other");
    lk_node   *n = lk_apply(lk_normalization(.mean = mean, .variance = variance), a);
    lk_node   *c = lk_apply(lk_subtract_layer(), n, b), *d = lk_apply(lk_multiply_layer(), a, c);
    lk_node   *e = lk_apply(lk_average_layer(), c, d, a), *f = lk_apply(lk_maximum_layer(), e, b);
    lk_node   *g = lk_apply(lk_concatenate(), lk_apply(lk_minimum_layer(), f, a), e);
    lk_layer  *inner = lk_model_layer(lk_sequential(lk_dense(2, LK_RELU, .input_shape = LK_SHAPE(6)), lk_dense(2)));
    return lk_functional(LK_NODES(a, b), LK_NODES(lk_apply(inner, g), lk_apply(lk_dense(1), g)));
}

static inline lk_model *plain_layers(void)
{
    lk_node *x = lk_input(LK_SHAPE(4)), *y = lk_apply(lk_repeat_vector(3), lk_apply(lk_elu_layer(0.5), x));
    y = lk_apply(lk_gaussian_noise(0.1), lk_apply(lk_spectral_normalization(lk_dense(4, LK_HARD_SILU)), y));
    y = lk_apply(lk_alpha_dropout(0.1), lk_apply(lk_prelu(LK_AXES(1)), y));
    y = lk_apply(lk_gaussian_dropout(0.1), lk_apply(lk_spatial_dropout1d(0.1), y));
    y = lk_apply(lk_unit_normalization(), lk_apply(lk_rms_normalization(), y));
    y = lk_apply(lk_einsum_dense("abc,cde->abde", LK_SHAPE(-1, 2, 3), .bias_axes = "de"), y);
    y = lk_apply(lk_einsum_dense("abcd,cde->abce", LK_SHAPE(-1, 2, 4)), y);
    y = lk_apply(lk_layer_scale(0.5, 4), lk_apply(lk_reshape_layer(LK_SHAPE(3, 2, 1, 4)), y));
    y = lk_apply(lk_identity_layer(), lk_apply(lk_spatial_dropout3d(0.1), y));
    y = lk_apply(lk_activity_regularization(0.01), lk_apply(lk_flatten(), y));
    return lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_dense(2), lk_apply(lk_custom_scale(0.5), y, y))));
}

/* Pictures changed at random, in places and in colours. */
static inline lk_model *changed_pictures(void)
{
    return lk_sequential(lk_resizing(5, 4, .input_shape = LK_SHAPE(4, 4, 3)), lk_random_zoom(0.1),
                         lk_random_translation(0.1, .width_factor = 0.1), lk_random_shear(0.1), lk_random_perspective(.scale = 0.1),
                         lk_random_erasing(.max_value = 1), lk_random_gaussian_blur(), lk_center_crop(3, 3), lk_flatten(),
                         lk_dense(1));
}

static inline lk_model *coloured_pictures(void)
{
    return lk_sequential(lk_auto_contrast(1, .input_shape = LK_SHAPE(2, 3, 3)), lk_random_brightness(0.1), lk_random_contrast(0.1),
                         lk_random_color_degeneration(0.1), lk_random_saturation(0.1), lk_random_hue(0.1, .max_value = 1),
                         lk_random_invert(0.1, .max_value = 1), lk_random_posterization(7, .max_value = 1),
                         lk_random_sharpness(0.1), lk_random_grayscale(),
                         lk_random_color_jitter(0.1, .hue_factor = 0.1, .max_value = 1), lk_solarization(.max_value = 1),
                         lk_flatten(), lk_dense(1));
}

static inline lk_model *features(void)
{
    lk_tensor *boundaries = lk_tensor_from(LK_SHAPE(2), LK_F32, ((const float[]){-0.5f, 0.5f}));
    lk_tensor *vocabulary = lk_tensor_from(LK_SHAPE(2), LK_I64, ((const int64_t[]){0, 2}));
    return lk_sequential(lk_discretization(boundaries, .input_shape = LK_SHAPE(3)), lk_integer_lookup(vocabulary),
                         lk_category_encoding(4), lk_dense(2));
}

typedef lk_model            *every_layer_fn(void);
static every_layer_fn *const EVERY_LAYER[] = {
    convolutions, pictures,       other_pictures, steps,        volumes,          channels_first,    sequences, attention,
    cells,        more_attention, merges,         plain_layers, changed_pictures, coloured_pictures, features};
enum { EVERY_LAYER_MODELS = sizeof EVERY_LAYER / sizeof *EVERY_LAYER };

#endif
