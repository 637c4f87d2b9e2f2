#!/usr/bin/env python3
"""Writes what Keras' layers make of small inputs, and the gradients of it; and what Keras says about layers of default options.

    python3 keras_cases.py > keras_cases.inc                   with Keras 3.15 on TensorFlow 2.21
    python3 keras_cases.py configs > keras_configs.inc

Element i of input k is ((7 i + 5 k) mod 13 - 6) / 4, of weight j ((5 i + j) mod 9 - 4) / 8; what comes out is weighed by
((3 i) mod 7 - 3) / 2 before it is summed. All are exact in f32. A case: name, inputs, shape of the result, its elements, the
gradients of the inputs one behind the other, the layer."""
import json
import re
import sys

import numpy as np
import tensorflow as tf
from keras import layers as L
from keras.src.applications import convnext, inception_resnet_v2

CASES = [
    ("conv1d", L.Conv1D(2, 3), "lk_conv1d(2, 3)", [(2, 5, 3)]),
    ("conv1d_same", L.Conv1D(2, 4, strides=2, padding="same", activation="tanh"),
     "lk_conv1d(2, 4, .strides = LK_AXES(2), .padding = LK_SAME, .activation = LK_TANH)", [(2, 7, 2)]),
    ("conv1d_causal", L.Conv1D(2, 2, dilation_rate=2, padding="causal", use_bias=False),
     "lk_conv1d(2, .kernel_shape = LK_AXES(2), .dilation = LK_AXES(2), .padding = LK_CAUSAL, .use_bias = LK_OFF)", [(1, 6, 3)]),
    ("conv2d_transpose", L.Conv2DTranspose(2, 3), "lk_conv2d_transpose(2, 3)", [(1, 3, 2, 2)]),
    ("conv2d_transpose_same", L.Conv2DTranspose(1, 3, strides=2, padding="same"),
     "lk_conv2d_transpose(1, 3, .strides = LK_AXES(2), .padding = LK_SAME)", [(2, 2, 3, 2)]),
    ("conv2d_transpose_wide", L.Conv2DTranspose(2, (2, 3), strides=(3, 1), use_bias=False, activation="relu"),
     "lk_conv2d_transpose(2, .kernel_shape = LK_AXES(2, 3), .strides = LK_AXES(3, 1), .use_bias = LK_OFF, .activation = LK_RELU)",
     [(1, 2, 3, 1)]),
    ("depthwise", L.DepthwiseConv2D(2, depth_multiplier=2), "lk_depthwise_conv2d(2, .depth_multiplier = 2)", [(1, 4, 3, 2)]),
    ("depthwise_same", L.DepthwiseConv2D((3, 2), strides=2, padding="same", use_bias=False),
     "lk_depthwise_conv2d(.kernel_shape = LK_AXES(3, 2), .strides = LK_AXES(2), .padding = LK_SAME, .use_bias = LK_OFF)",
     [(2, 4, 5, 2)]),
    ("depthwise_dilated", L.DepthwiseConv2D(2, dilation_rate=2, activation="sigmoid"),
     "lk_depthwise_conv2d(2, .dilation = LK_AXES(2), .activation = LK_SIGMOID)", [(1, 4, 5, 3)]),
    ("separable", L.SeparableConv2D(3, 2, depth_multiplier=2, padding="same"),
     "lk_separable_conv2d(3, 2, .depth_multiplier = 2, .padding = LK_SAME)", [(1, 3, 4, 2)]),
    ("separable_strided", L.SeparableConv2D(2, 3, strides=2, activation="relu", use_bias=False),
     "lk_separable_conv2d(2, 3, .strides = LK_AXES(2), .activation = LK_RELU, .use_bias = LK_OFF)", [(2, 5, 5, 2)]),
    ("max_pooling1d", L.MaxPooling1D(), "lk_max_pooling1d()", [(2, 5, 3)]),
    ("max_pooling1d_same", L.MaxPooling1D(3, strides=2, padding="same"),
     "lk_max_pooling1d(.pool_size = LK_AXES(3), .strides = LK_AXES(2), .padding = LK_SAME)", [(2, 6, 2)]),
    ("max_pooling2d_same", L.MaxPooling2D((3, 2), strides=2, padding="same"),
     "lk_max_pooling2d(.pool_size = LK_AXES(3, 2), .strides = LK_AXES(2), .padding = LK_SAME)", [(1, 5, 5, 2)]),
    ("average_pooling1d", L.AveragePooling1D(2), "lk_average_pooling1d()", [(2, 5, 3)]),
    ("average_pooling1d_same", L.AveragePooling1D(3, strides=2, padding="same"),
     "lk_average_pooling1d(.pool_size = LK_AXES(3), .strides = LK_AXES(2), .padding = LK_SAME)", [(2, 6, 2)]),
    ("average_pooling2d", L.AveragePooling2D((2, 3), strides=(1, 2)),
     "lk_average_pooling2d(.pool_size = LK_AXES(2, 3), .strides = LK_AXES(1, 2))", [(1, 4, 5, 2)]),
    ("average_pooling2d_same", L.AveragePooling2D(3, padding="same"),
     "lk_average_pooling2d(.pool_size = LK_AXES(3), .padding = LK_SAME)", [(1, 5, 5, 1)]),
    ("global_max_pooling1d", L.GlobalMaxPooling1D(), "lk_global_max_pooling1d()", [(2, 5, 3)]),
    ("global_max_pooling2d", L.GlobalMaxPooling2D(keepdims=True), "lk_global_max_pooling2d(.keepdims = LK_ON)", [(2, 3, 3, 2)]),
    ("global_average_pooling1d", L.GlobalAveragePooling1D(keepdims=True), "lk_global_average_pooling1d(.keepdims = LK_ON)",
     [(2, 5, 3)]),
    ("global_average_pooling2d", L.GlobalAveragePooling2D(), "lk_global_average_pooling2d()", [(2, 3, 3, 2)]),
    ("layer_normalization", L.LayerNormalization(), "lk_layer_normalization()", [(2, 3, 5)]),
    ("layer_normalization_axes", L.LayerNormalization(axis=[2, 3], epsilon=0.1, center=False),
     "lk_layer_normalization(.axis = LK_AXES(2, 3), .epsilon = LK_NUMBER(0.1), .center = LK_OFF)", [(2, 2, 3, 3)]),
    ("layer_normalization_rows", L.LayerNormalization(axis=[-1, -2]), "lk_layer_normalization(.axis = LK_AXES(-1, -2))",
     [(2, 3, 4)]),
    ("group_normalization", L.GroupNormalization(2), "lk_group_normalization(2)", [(2, 2, 2, 4)]),
    ("group_normalization_single", L.GroupNormalization(-1, epsilon=0.01, scale=False),
     "lk_group_normalization(-1, .epsilon = LK_NUMBER(0.01), .scale = LK_OFF)", [(2, 5, 3)]),
    ("normalization", L.Normalization(mean=[0.5, -1.0, 0.0], variance=[4.0, 0.25, 0.0]),
     "lk_normalization(lk_tensor_of(LK_SHAPE(3), 0.5, -1, 0), lk_tensor_of(LK_SHAPE(3), 4, 0.25, 0))", [(2, 2, 3)]),
    ("normalization_scalar", L.Normalization(mean=0.5, variance=2.25),
     "lk_normalization(lk_tensor_of(LK_SHAPE(), 0.5), lk_tensor_of(LK_SHAPE(), 2.25))", [(2, 2, 3)]),
    ("normalization_inverted", L.Normalization(mean=[0.5, -1.0], variance=[4.0, 0.25], invert=True),
     "lk_normalization(lk_tensor_of(LK_SHAPE(2), 0.5, -1), lk_tensor_of(LK_SHAPE(2), 4, 0.25), .invert = LK_ON)", [(3, 2)]),
    ("reshape", L.Reshape((-1, 2)), "lk_reshape_layer(LK_SHAPE(-1, 2))", [(2, 3, 4)]),
    ("permute", L.Permute((3, 1, 2)), "lk_permute(LK_AXES(3, 1, 2))", [(2, 2, 3, 4)]),
    ("zero_padding2d", L.ZeroPadding2D(), "lk_zero_padding2d()", [(1, 2, 3, 2)]),
    ("zero_padding2d_sides", L.ZeroPadding2D(((1, 2), (0, 3))), "lk_zero_padding2d(LK_AXES(1, 2, 0, 3))", [(1, 2, 2, 2)]),
    ("cropping2d", L.Cropping2D((1, 0)), "lk_cropping2d(LK_AXES(1, 0))", [(1, 4, 3, 2)]),
    ("cropping2d_sides", L.Cropping2D(((0, 2), (1, 1))), "lk_cropping2d(LK_AXES(0, 2, 1, 1))", [(2, 3, 4, 2)]),
    ("up_sampling2d", L.UpSampling2D((2, 3)), "lk_up_sampling2d(LK_AXES(2, 3))", [(1, 2, 2, 2)]),
    ("up_sampling2d_bilinear", L.UpSampling2D(interpolation="bilinear"), "lk_up_sampling2d(.interpolation = LK_BILINEAR)",
     [(2, 2, 3, 1)]),
    ("up_sampling2d_thirds", L.UpSampling2D((3, 1), interpolation="bilinear"),
     "lk_up_sampling2d(LK_AXES(3, 1), .interpolation = LK_BILINEAR)", [(1, 3, 2, 2)]),
    ("activation", L.Activation("elu"), "lk_activation_layer(LK_ELU)", [(2, 7)]),
    ("relu", L.ReLU(), "lk_relu_layer()", [(2, 7)]),
    ("relu_sloped", L.ReLU(negative_slope=0.25), "lk_relu_layer(.negative_slope = 0.25)", [(2, 7)]),
    ("relu_all", L.ReLU(max_value=1.1, negative_slope=0.1, threshold=0.5),
     "lk_relu_layer(LK_NUMBER(1.1), .negative_slope = 0.1, .threshold = 0.5)", [(2, 7)]),
    ("relu_threshold", L.ReLU(threshold=0.6), "lk_relu_layer(.threshold = 0.6)", [(2, 7)]),
    ("leaky_relu", L.LeakyReLU(), "lk_leaky_relu_layer()", [(2, 7)]),
    ("leaky_relu_slope", L.LeakyReLU(negative_slope=0.125), "lk_leaky_relu_layer(LK_NUMBER(0.125))", [(2, 7)]),
    ("softmax", L.Softmax(), "lk_softmax_layer()", [(2, 5)]),
    ("softmax_axis", L.Softmax(axis=1), "lk_softmax_layer(LK_AXIS(1))", [(2, 3, 4)]),
    ("add", L.Add(), "lk_add_layer()", [(2, 5), (2, 5), (2, 5)]),
    ("add_broadcast", L.Add(), "lk_add_layer()", [(2, 3, 4), (2, 4)]),
    ("subtract", L.Subtract(), "lk_subtract_layer()", [(2, 5), (2, 5)]),
    ("multiply", L.Multiply(), "lk_multiply_layer()", [(2, 3, 1), (2, 1, 4)]),
    ("average", L.Average(), "lk_average_layer()", [(2, 5), (2, 5), (2, 5)]),
    ("maximum", L.Maximum(), "lk_maximum_layer()", [(2, 5), (2, 5), (2, 5)]),
    ("minimum", L.Minimum(), "lk_minimum_layer()", [(2, 5), (2, 5)]),
    ("concatenate", L.Concatenate(), "lk_concatenate()", [(2, 3), (2, 1), (2, 2)]),
    ("concatenate_axis", L.Concatenate(axis=1), "lk_concatenate(LK_AXIS(1))", [(2, 1, 2), (2, 2, 2)]),
    ("dot", L.Dot(axes=1), "lk_dot_layer(LK_AXES(1))", [(3, 4), (3, 4)]),
    ("dot_cosine", L.Dot(axes=-1, normalize=True), "lk_dot_layer(LK_AXES(-1), .normalize = LK_ON)", [(3, 4), (3, 4)]),
    ("dot_axes", L.Dot(axes=(1, 2)), "lk_dot_layer(LK_AXES(1, 2))", [(2, 3, 2), (2, 4, 3)]),
    ("dot_matrix", L.Dot(axes=(2, 1)), "lk_dot_layer(LK_AXES(2, 1))", [(2, 3, 4), (2, 4)]),
    ("dot_images", L.Dot(axes=(1, -1)), "lk_dot_layer(LK_AXES(1, -1))", [(1, 2, 2, 3), (1, 3, 2)]),
    ("rescaling", L.Rescaling(0.3, offset=-1.5), "lk_rescaling(0.3, -1.5)", [(2, 5)]),
    ("rescaling_lists", L.Rescaling([0.5, 2.0, -1.0], offset=[0.0, 1.0, 0.25]),
     "lk_rescaling(.scales = lk_tensor_of(LK_SHAPE(3), 0.5, 2, -1), .offsets = lk_tensor_of(LK_SHAPE(3), 0, 1, 0.25))",
     [(2, 2, 3)]),
] + [
    (f"activation_{word}", L.Activation(word), f"lk_activation_layer(LK_{word.upper()})", [(2, 6)])
    for word in ("celu", "glu", "hard_shrink", "hard_silu", "hard_tanh", "log_sigmoid", "soft_shrink", "sparse_plus",
                 "sparse_sigmoid", "sparsemax", "squareplus", "tanh_shrink")
] + [
    ("elu_layer", L.ELU(0.7), "lk_elu_layer(0.7)", [(2, 7)]),
    ("prelu", L.PReLU(), "lk_prelu()", [(2, 3, 2)]),
    ("prelu_shared", L.PReLU(shared_axes=[1, 2]), "lk_prelu(LK_AXES(1, 2))", [(2, 3, 2, 2)]),
    ("softmax_axes", L.Softmax(axis=[1, 2]), "lk_softmax_layer(LK_AXES(1, 2))", [(2, 2, 3, 2)]),
    ("identity", L.Identity(), "lk_identity_layer()", [(2, 5)]),
    ("repeat_vector", L.RepeatVector(3), "lk_repeat_vector(3)", [(2, 4)]),
    ("layer_normalization_first", L.LayerNormalization(axis=1), "lk_layer_normalization(.axis = LK_AXES(1))", [(2, 3, 4)]),
    ("layer_normalization_apart", L.LayerNormalization(axis=[1, 3], scale=False),
     "lk_layer_normalization(.axis = LK_AXES(1, 3), .scale = LK_OFF)", [(2, 3, 2, 4)]),
    ("layer_normalization_mixed", L.LayerNormalization(axis=[1, -1]), "lk_layer_normalization(.axis = LK_AXES(1, -1))",
     [(2, 3, 2, 4)]),
    ("layer_normalization_rms", L.LayerNormalization(rms_scaling=True), "lk_layer_normalization(.rms_scaling = LK_ON)",
     [(2, 3, 5)]),
    ("group_normalization_first", L.GroupNormalization(2, axis=1), "lk_group_normalization(2, .axis = LK_AXIS(1))", [(2, 4, 3, 2)]),
    ("group_normalization_middle", L.GroupNormalization(3, axis=-2), "lk_group_normalization(3, .axis = LK_AXIS(-2))",
     [(2, 2, 6, 2)]),
    ("rms_normalization", L.RMSNormalization(), "lk_rms_normalization()", [(2, 3, 5)]),
    ("rms_normalization_axes", L.RMSNormalization(axis=[1, 2], epsilon=0.1),
     "lk_rms_normalization(.axis = LK_AXES(1, 2), .epsilon = LK_NUMBER(0.1))", [(2, 3, 4)]),
    ("unit_normalization", L.UnitNormalization(), "lk_unit_normalization()", [(2, 3, 5)]),
    ("unit_normalization_axes", L.UnitNormalization(axis=[1, 2]), "lk_unit_normalization(LK_AXES(1, 2))", [(2, 3, 4)]),
    ("normalization_first", L.Normalization(axis=1, mean=[0.5, -1.0, 0.0], variance=[4.0, 0.25, 1.0]),
     "lk_normalization(lk_tensor_of(LK_SHAPE(3), 0.5, -1, 0), lk_tensor_of(LK_SHAPE(3), 4, 0.25, 1), .axis = LK_AXES(1))",
     [(2, 3, 4)]),
    ("normalization_axes",
     L.Normalization(axis=(1, 3), mean=[[0.5, -1.0], [0.0, 1.0], [2.0, 0.25]], variance=[[1.0, 4.0], [0.25, 1.0], [9.0, 2.25]]),
     "lk_normalization(lk_tensor_of(LK_SHAPE(3, 2), 0.5, -1, 0, 1, 2, 0.25), lk_tensor_of(LK_SHAPE(3, 2), 1, 4, 0.25, 1, 9, 2.25), "
     ".axis = LK_AXES(1, 3))", [(2, 3, 2, 2)]),
    ("normalization_none", L.Normalization(axis=None, mean=0.5, variance=2.25, invert=True),
     "lk_normalization(lk_tensor_of(LK_SHAPE(), 0.5), lk_tensor_of(LK_SHAPE(), 2.25), LK_ON, .axis = LK_AXES())", [(2, 2, 3)]),
    ("layer_scale", convnext.LayerScale(0.25, 3), "lk_layer_scale(0.25, 3)", [(2, 2, 3)]),
    ("custom_scale", inception_resnet_v2.CustomScaleLayer(0.25), "lk_custom_scale(0.25)", [(2, 3), (2, 3)]),
    ("einsum_dense", L.EinsumDense("ab,bc->ac", 4, bias_axes="c"),
     'lk_einsum_dense("ab,bc->ac", LK_SHAPE(4), .bias_axes = "c")', [(3, 2)]),
    ("einsum_dense_ellipsis", L.EinsumDense("...x,xy->...y", 2, bias_axes="y", activation="relu"),
     'lk_einsum_dense("...x,xy->...y", LK_SHAPE(2), LK_RELU, "y")', [(2, 2, 3)]),
    ("einsum_dense_right", L.EinsumDense("ab...,bc->ac...", 2, bias_axes="c"),
     'lk_einsum_dense("ab...,bc->ac...", LK_SHAPE(2), .bias_axes = "c")', [(2, 2, 3)]),
    ("einsum_dense_heads", L.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de"),
     'lk_einsum_dense("abc,cde->abde", LK_SHAPE(-1, 2, 3), .bias_axes = "de")', [(2, 2, 3)]),
    ("einsum_dense_turned", L.EinsumDense("abc,dc->adb", (2, 3), bias_axes="d"),
     'lk_einsum_dense("abc,dc->adb", LK_SHAPE(2, 3), .bias_axes = "d")', [(2, 3, 2)]),
    ("einsum_dense_shared", L.EinsumDense("abc,bcd->abd", (3, 2)), 'lk_einsum_dense("abc,bcd->abd", LK_SHAPE(3, 2))', [(2, 3, 2)]),
    ("einsum_dense_lonely", L.EinsumDense("abc,cd->ad", 2), 'lk_einsum_dense("abc,cd->ad", LK_SHAPE(2))', [(2, 3, 2)]),
]


def numbers(shape, values):
    return values(np.arange(int(np.prod(shape)))).reshape(shape).astype(np.float32)


def text(values):
    return ", ".join(f"{v:.9g}" for v in np.concatenate([np.asarray(v).ravel() for v in values]))


def shape_text(shape):
    return "{" + ", ".join([str(len(shape)), "{" + ", ".join(map(str, shape)) + "}"]) + "}"


CONFIGS = [
    (L.Conv1D(2, 3), "lk_conv1d(2, 3)"),
    (L.Conv2D(2, 3), "lk_conv2d(2, 3)"),
    (L.Conv2DTranspose(2, 3), "lk_conv2d_transpose(2, 3)"),
    (L.DepthwiseConv2D(3), "lk_depthwise_conv2d(3)"),
    (L.SeparableConv2D(2, 3), "lk_separable_conv2d(2, 3)"),
    (L.MaxPooling1D(), "lk_max_pooling1d()"),
    (L.MaxPooling2D(), "lk_max_pooling2d()"),
    (L.AveragePooling1D(2), "lk_average_pooling1d()"),
    (L.AveragePooling2D(2), "lk_average_pooling2d()"),
    (L.GlobalMaxPooling1D(), "lk_global_max_pooling1d()"),
    (L.GlobalMaxPooling2D(), "lk_global_max_pooling2d()"),
    (L.GlobalAveragePooling1D(), "lk_global_average_pooling1d()"),
    (L.GlobalAveragePooling2D(), "lk_global_average_pooling2d()"),
    (L.LayerNormalization(axis=[-1]), "lk_layer_normalization()"),
    (L.GroupNormalization(), "lk_group_normalization()"),
    (L.Normalization(), "lk_normalization()"),
    (L.SpatialDropout2D(0.5), "lk_spatial_dropout2d(0.5)"),
    (L.Reshape((-1, 3)), "lk_reshape_layer(LK_SHAPE(-1, 3))"),
    (L.Permute((2, 1)), "lk_permute(LK_AXES(2, 1))"),
    (L.ZeroPadding2D(), "lk_zero_padding2d()"),
    (L.Cropping2D(), "lk_cropping2d()"),
    (L.UpSampling2D(), "lk_up_sampling2d()"),
    (L.Activation("relu"), "lk_activation_layer(LK_RELU)"),
    (L.ReLU(), "lk_relu_layer()"),
    (L.LeakyReLU(), "lk_leaky_relu_layer()"),
    (L.Softmax(), "lk_softmax_layer()"),
    (L.Add(), "lk_add_layer()"),
    (L.Subtract(), "lk_subtract_layer()"),
    (L.Multiply(), "lk_multiply_layer()"),
    (L.Average(), "lk_average_layer()"),
    (L.Maximum(), "lk_maximum_layer()"),
    (L.Minimum(), "lk_minimum_layer()"),
    (L.Concatenate(), "lk_concatenate()"),
    (L.Dot(axes=(1, 1)), "lk_dot_layer(LK_AXES(1))"),
    (L.Rescaling(0.5), "lk_rescaling(0.5)"),
    (L.PReLU(), "lk_prelu()"),
    (L.Identity(), "lk_identity_layer()"),
    (L.RepeatVector(3), "lk_repeat_vector(3)"),
    (L.ActivityRegularization(0.5), "lk_activity_regularization(0.5)"),
    (L.Dropout(0.5), "lk_dropout(0.5)"),
    (L.AlphaDropout(0.5), "lk_alpha_dropout(0.5)"),
    (L.GaussianDropout(0.5), "lk_gaussian_dropout(0.5)"),
    (L.GaussianNoise(0.5), "lk_gaussian_noise(0.5)"),
    (L.SpatialDropout1D(0.5), "lk_spatial_dropout1d(0.5)"),
    (L.SpatialDropout3D(0.5), "lk_spatial_dropout3d(0.5)"),
    (L.RMSNormalization(), "lk_rms_normalization()"),
    (L.UnitNormalization(), "lk_unit_normalization()"),
    (convnext.LayerScale(0.5, 3), "lk_layer_scale(0.5, 3)"),
    (inception_resnet_v2.CustomScaleLayer(0.5), "lk_custom_scale(0.5)"),
    (L.EinsumDense("ab,bc->ac", 4), 'lk_einsum_dense("ab,bc->ac", LK_SHAPE(4))'),
]


def word(value):
    if isinstance(value, dict):
        return value["class_name"]
    if isinstance(value, float) and value == int(value):
        value = int(value)
    return json.dumps(value, separators=(",", ":")).replace('"', "")


def write_configs():
    for layer, c in CONFIGS:
        config = {k: v for k, v in layer.get_config().items() if k not in ("name", "dtype")}
        name, words = re.sub("_[0-9]+$", "", layer.name), " ".join(f"{k}={word(v)}" for k, v in config.items())
        print(f'CONFIG({type(layer).__name__}, {name}, "{words}", {c})')


def write_cases():
    for name, layer, c, shapes in CASES:
        x = [tf.constant(numbers(s, lambda i, k=k: ((7 * i + 5 * k) % 13 - 6) / 4)) for k, s in enumerate(shapes)]
        arg = x if len(x) > 1 else x[0]
        layer(arg)
        layer.set_weights([numbers(w.shape, lambda i, j=j: ((5 * i + j) % 9 - 4) / 8) for j, w in enumerate(layer.weights)])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(arg)
            loss = tf.reduce_sum(y * numbers(y.shape, lambda i: (3 * i % 7 - 3) / 2))
        dx = tape.gradient(loss, x)
        print(f"KERAS({name}, SHAPES({', '.join(shape_text(s) for s in shapes)}), SHAPES({shape_text(y.shape)}),\n"
              f"      NUMBERS({text([y])}),\n      NUMBERS({text(dx)}),\n      {c})")


write_configs() if sys.argv[1:] == ["configs"] else write_cases()
