#!/usr/bin/env python3
"""Writes what Keras' convolutions, pools, paddings and samplings in 1 to 3 dimensions make of small inputs, the gradients of inputs
and weights, and their configs.

    python3 vision_cases.py cases > vision_cases.inc            with Keras 3.15 on TensorFlow 2.21
    python3 vision_cases.py configs > vision_configs.inc

Numbers of inputs and weights: see keras_cases.py. With channels first no result is as wide as it has channels: then Keras 3.15 on
TensorFlow adds the bias along the width."""
import json
import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers as L

FIRST = "channels_first"
first = ".data_format = LK_CHANNELS_FIRST"

CASES = [
    # groups
    ("conv2d_groups", lambda: L.Conv2D(6, 2, groups=2), "lk_conv2d(6, 2, .groups = 2)", (2, 3, 4, 4)),
    ("conv2d_groups_same", lambda: L.Conv2D(4, (3, 2), strides=2, padding="same", groups=2, use_bias=False),
     "lk_conv2d(4, .kernel_shape = LK_AXES(3, 2), .strides = 2, .padding = LK_SAME, .groups = 2, .use_bias = LK_OFF)",
     (1, 5, 4, 6)),
    ("conv2d_groups_dilated", lambda: L.Conv2D(6, 2, dilation_rate=2, groups=3, activation="relu"),
     "lk_conv2d(6, 2, .dilation = 2, .groups = 3, .activation = LK_RELU)", (2, 4, 5, 6)),
    ("conv2d_groups_each", lambda: L.Conv2D(6, 3, padding="same", groups=3), "lk_conv2d(6, 3, .padding = LK_SAME, .groups = 3)",
     (1, 3, 4, 3)),
    ("conv1d_groups", lambda: L.Conv1D(4, 3, padding="causal", groups=2),
     "lk_conv1d(4, 3, .padding = LK_CAUSAL, .groups = 2)", (2, 5, 4)),
    ("conv3d_groups", lambda: L.Conv3D(4, 2, groups=2), "lk_conv3d(4, 2, .groups = 2)", (1, 3, 3, 2, 4)),
    ("conv3d_groups_each", lambda: L.Conv3D(4, (3, 1, 2), padding="same", groups=2),
     "lk_conv3d(4, .kernel_shape = LK_AXES(3, 1, 2), .padding = LK_SAME, .groups = 2)", (1, 3, 2, 3, 2)),
    # volumes
    ("conv3d", lambda: L.Conv3D(2, 2), "lk_conv3d(2, 2)", (2, 3, 3, 4, 2)),
    ("conv3d_same", lambda: L.Conv3D(2, 3, padding="same", activation="tanh"),
     "lk_conv3d(2, 3, .padding = LK_SAME, .activation = LK_TANH)", (1, 3, 2, 3, 2)),
    ("conv3d_strided", lambda: L.Conv3D(1, (2, 3, 2), strides=(2, 1, 2), padding="same", use_bias=False),
     "lk_conv3d(1, .kernel_shape = LK_AXES(2, 3, 2), .strides = LK_AXES(2, 1, 2), .padding = LK_SAME, .use_bias = LK_OFF)",
     (1, 5, 3, 4, 2)),
    ("conv3d_dilated", lambda: L.Conv3D(2, 2, dilation_rate=(2, 1, 2)), "lk_conv3d(2, 2, .dilation = LK_AXES(2, 1, 2))",
     (1, 4, 2, 4, 1)),
    ("conv3d_flat", lambda: L.Conv3D(2, (1, 2, 2), strides=(2, 1, 1), activation="softmax"),
     "lk_conv3d(2, .kernel_shape = LK_AXES(1, 2, 2), .strides = LK_AXES(2, 1, 1), .activation = LK_SOFTMAX)", (1, 3, 3, 3, 1)),
    # transposed
    ("conv1d_transpose", lambda: L.Conv1DTranspose(2, 3), "lk_conv1d_transpose(2, 3)", (2, 4, 2)),
    ("conv1d_transpose_same", lambda: L.Conv1DTranspose(2, 4, strides=3, padding="same", activation="sigmoid"),
     "lk_conv1d_transpose(2, 4, .strides = 3, .padding = LK_SAME, .activation = LK_SIGMOID)", (2, 3, 2)),
    ("conv1d_transpose_more", lambda: L.Conv1DTranspose(2, 3, strides=3, output_padding=1),
     "lk_conv1d_transpose(2, 3, .strides = 3, .output_padding = 1)", (1, 4, 2)),
    ("conv1d_transpose_dilated", lambda: L.Conv1DTranspose(1, 3, dilation_rate=2),
     "lk_conv1d_transpose(1, 3, .dilation = 2)", (1, 4, 3)),
    ("conv2d_transpose_none", lambda: L.Conv2DTranspose(1, 3, strides=2, output_padding=0),
     "lk_conv2d_transpose(1, 3, .strides = 2, .output_padding = LK_AXES(0))", (1, 2, 3, 2)),
    ("conv2d_transpose_more", lambda: L.Conv2DTranspose(2, (3, 5), strides=2, padding="same", output_padding=(1, 0)),
     "lk_conv2d_transpose(2, .kernel_shape = LK_AXES(3, 5), .strides = 2, .padding = LK_SAME, .output_padding = LK_AXES(1, 0))",
     (1, 3, 3, 2)),
    ("conv2d_transpose_even", lambda: L.Conv2DTranspose(2, (4, 2), strides=(3, 2), padding="same", output_padding=(2, 1)),
     "lk_conv2d_transpose(2, .kernel_shape = LK_AXES(4, 2), .strides = LK_AXES(3, 2), .padding = LK_SAME, "
     ".output_padding = LK_AXES(2, 1))", (1, 2, 3, 1)),
    ("conv2d_transpose_dilated", lambda: L.Conv2DTranspose(2, 2, dilation_rate=(2, 3), padding="same"),
     "lk_conv2d_transpose(2, 2, .dilation = LK_AXES(2, 3), .padding = LK_SAME)", (1, 3, 4, 2)),
    ("conv3d_transpose", lambda: L.Conv3DTranspose(2, 2), "lk_conv3d_transpose(2, 2)", (1, 2, 3, 2, 2)),
    ("conv3d_transpose_strided", lambda: L.Conv3DTranspose(1, (3, 2, 3), strides=(2, 1, 2), padding="same", activation="relu"),
     "lk_conv3d_transpose(1, .kernel_shape = LK_AXES(3, 2, 3), .strides = LK_AXES(2, 1, 2), .padding = LK_SAME, "
     ".activation = LK_RELU)", (2, 2, 2, 2, 2)),
    ("conv3d_transpose_more", lambda: L.Conv3DTranspose(2, 2, strides=(3, 1, 2), output_padding=(1, 0, 1), use_bias=False),
     "lk_conv3d_transpose(2, 2, .strides = LK_AXES(3, 1, 2), .output_padding = LK_AXES(1, 0, 1), .use_bias = LK_OFF)",
     (1, 2, 2, 1, 1)),
    # channel by channel
    ("depthwise_conv1d", lambda: L.DepthwiseConv1D(3, depth_multiplier=2), "lk_depthwise_conv1d(3, .depth_multiplier = 2)",
     (2, 5, 3)),
    ("depthwise_conv1d_same", lambda: L.DepthwiseConv1D(2, strides=2, padding="same", activation="relu"),
     "lk_depthwise_conv1d(2, .strides = 2, .padding = LK_SAME, .activation = LK_RELU)", (2, 5, 2)),
    ("depthwise_conv2d_both", lambda: L.DepthwiseConv2D(2, strides=2, dilation_rate=2, padding="same"),
     "lk_depthwise_conv2d(2, .strides = 2, .dilation = 2, .padding = LK_SAME)", (1, 5, 4, 2)),
    ("separable_conv1d", lambda: L.SeparableConv1D(3, 2, depth_multiplier=2, dilation_rate=2),
     "lk_separable_conv1d(3, 2, .depth_multiplier = 2, .dilation = 2)", (2, 5, 2)),
    ("separable_conv1d_same", lambda: L.SeparableConv1D(2, 3, strides=2, padding="same", use_bias=False, activation="tanh"),
     "lk_separable_conv1d(2, 3, .strides = 2, .padding = LK_SAME, .use_bias = LK_OFF, .activation = LK_TANH)", (2, 5, 3)),
    # pools
    ("max_pooling3d", lambda: L.MaxPooling3D((1, 2, 2)), "lk_max_pooling3d(LK_AXES(1, 2, 2))", (2, 2, 4, 3, 2)),
    ("max_pooling3d_same", lambda: L.MaxPooling3D((3, 2, 1), strides=(2, 1, 2), padding="same"),
     "lk_max_pooling3d(LK_AXES(3, 2, 1), LK_AXES(2, 1, 2), LK_SAME)", (1, 4, 3, 3, 1)),
    ("average_pooling3d", lambda: L.AveragePooling3D(2), "lk_average_pooling3d()", (1, 4, 3, 5, 2)),
    ("average_pooling3d_same", lambda: L.AveragePooling3D((3, 2, 3), strides=(1, 2, 2), padding="same"),
     "lk_average_pooling3d(LK_AXES(3, 2, 3), LK_AXES(1, 2, 2), LK_SAME)", (1, 3, 3, 4, 2)),
    ("global_max_pooling3d", lambda: L.GlobalMaxPooling3D(), "lk_global_max_pooling3d()", (2, 1, 2, 3, 2)),
    ("global_average_pooling3d", lambda: L.GlobalAveragePooling3D(keepdims=True),
     "lk_global_average_pooling3d(.keepdims = LK_ON)", (2, 2, 2, 3, 2)),
    ("adaptive_max_pooling1d", lambda: L.AdaptiveMaxPooling1D(3), "lk_adaptive_max_pooling1d(3)", (2, 7, 2)),
    ("adaptive_max_pooling2d", lambda: L.AdaptiveMaxPooling2D((2, 3)), "lk_adaptive_max_pooling2d(LK_AXES(2, 3))", (1, 5, 4, 1)),
    ("adaptive_max_pooling3d", lambda: L.AdaptiveMaxPooling3D((2, 3, 3)), "lk_adaptive_max_pooling3d(LK_AXES(2, 3, 3))",
     (1, 3, 4, 3, 1)),
    ("adaptive_average_pooling1d", lambda: L.AdaptiveAveragePooling1D(5), "lk_adaptive_average_pooling1d(5)", (2, 7, 2)),
    ("adaptive_average_pooling1d_up", lambda: L.AdaptiveAveragePooling1D(5), "lk_adaptive_average_pooling1d(5)", (1, 3, 2)),
    ("adaptive_average_pooling2d", lambda: L.AdaptiveAveragePooling2D(3), "lk_adaptive_average_pooling2d(3)", (1, 6, 5, 2)),
    ("adaptive_average_pooling3d", lambda: L.AdaptiveAveragePooling3D((2, 3, 2)),
     "lk_adaptive_average_pooling3d(LK_AXES(2, 3, 2))", (1, 3, 4, 2, 2)),
    # borders and sizes
    ("zero_padding1d", lambda: L.ZeroPadding1D((2, 1)), "lk_zero_padding1d(LK_AXES(2, 1))", (2, 3, 2)),
    ("zero_padding3d", lambda: L.ZeroPadding3D(((1, 0), (0, 2), (1, 1))), "lk_zero_padding3d(LK_AXES(1, 0, 0, 2, 1, 1))",
     (1, 2, 1, 2, 2)),
    ("cropping1d", lambda: L.Cropping1D((0, 2)), "lk_cropping1d(LK_AXES(0, 2))", (2, 5, 2)),
    ("cropping3d", lambda: L.Cropping3D((1, 0, 1)), "lk_cropping3d(LK_AXES(1, 0, 1))", (1, 4, 2, 3, 2)),
    ("up_sampling1d", lambda: L.UpSampling1D(3), "lk_up_sampling1d(3)", (2, 3, 2)),
    ("up_sampling3d", lambda: L.UpSampling3D((2, 1, 3)), "lk_up_sampling3d(LK_AXES(2, 1, 3))", (1, 2, 2, 2, 1)),
    ("up_sampling2d_bicubic", lambda: L.UpSampling2D((3, 2), interpolation="bicubic"),
     "lk_up_sampling2d(LK_AXES(3, 2), LK_BICUBIC)", (1, 4, 3, 2)),
    ("up_sampling2d_bicubic_thin", lambda: L.UpSampling2D((2, 5), interpolation="bicubic"),
     "lk_up_sampling2d(LK_AXES(2, 5), LK_BICUBIC)", (1, 1, 2, 1)),
    ("up_sampling2d_lanczos3", lambda: L.UpSampling2D((2, 3), interpolation="lanczos3"),
     "lk_up_sampling2d(LK_AXES(2, 3), LK_LANCZOS3)", (1, 3, 5, 1)),
    ("up_sampling2d_lanczos5", lambda: L.UpSampling2D((3, 2), interpolation="lanczos5"),
     "lk_up_sampling2d(LK_AXES(3, 2), LK_LANCZOS5)", (1, 2, 6, 2)),
    # channels first
    ("conv1d_first", lambda: L.Conv1D(2, 3, data_format=FIRST), f"lk_conv1d(2, 3, {first})", (2, 3, 5)),
    ("conv2d_first", lambda: L.Conv2D(2, 2, strides=2, padding="same", activation="relu", data_format=FIRST),
     f"lk_conv2d(2, 2, .strides = 2, .padding = LK_SAME, .activation = LK_RELU, {first})", (2, 3, 4, 5)),
    ("conv2d_first_softmax", lambda: L.Conv2D(2, 2, activation="softmax", data_format=FIRST),
     f"lk_conv2d(2, 2, .activation = LK_SOFTMAX, {first})", (1, 2, 3, 4)),
    ("conv3d_first", lambda: L.Conv3D(2, 2, data_format=FIRST), f"lk_conv3d(2, 2, {first})", (1, 2, 3, 2, 4)),
    ("conv1d_transpose_first", lambda: L.Conv1DTranspose(2, 3, strides=2, data_format=FIRST),
     f"lk_conv1d_transpose(2, 3, .strides = 2, {first})", (1, 3, 4)),
    ("conv2d_transpose_first", lambda: L.Conv2DTranspose(2, 3, strides=2, data_format=FIRST),
     f"lk_conv2d_transpose(2, 3, .strides = 2, {first})", (1, 2, 2, 3)),
    ("depthwise_conv1d_first", lambda: L.DepthwiseConv1D(2, data_format=FIRST), f"lk_depthwise_conv1d(2, {first})", (2, 3, 5)),
    ("depthwise_conv2d_first", lambda: L.DepthwiseConv2D(2, depth_multiplier=2, activation="tanh", data_format=FIRST),
     f"lk_depthwise_conv2d(2, .depth_multiplier = 2, .activation = LK_TANH, {first})", (1, 2, 3, 4)),
    ("separable_conv2d_first", lambda: L.SeparableConv2D(3, 2, data_format=FIRST), f"lk_separable_conv2d(3, 2, {first})",
     (1, 2, 4, 3)),
    ("max_pooling1d_first", lambda: L.MaxPooling1D(2, data_format=FIRST), f"lk_max_pooling1d({first})", (2, 3, 4)),
    ("average_pooling2d_first", lambda: L.AveragePooling2D(2, padding="same", data_format=FIRST),
     f"lk_average_pooling2d(.padding = LK_SAME, {first})", (1, 2, 3, 5)),
    ("max_pooling3d_first", lambda: L.MaxPooling3D((1, 2, 2), data_format=FIRST), f"lk_max_pooling3d(LK_AXES(1, 2, 2), {first})",
     (1, 3, 2, 2, 4)),
    ("global_max_pooling1d_first", lambda: L.GlobalMaxPooling1D(data_format=FIRST), f"lk_global_max_pooling1d({first})", (2, 3, 4)),
    ("global_average_pooling1d_first", lambda: L.GlobalAveragePooling1D(data_format=FIRST, keepdims=True),
     f"lk_global_average_pooling1d(.keepdims = LK_ON, {first})", (2, 3, 4)),
    ("global_average_pooling2d_first", lambda: L.GlobalAveragePooling2D(data_format=FIRST),
     f"lk_global_average_pooling2d({first})", (2, 3, 2, 4)),
    ("adaptive_max_pooling2d_first", lambda: L.AdaptiveMaxPooling2D((2, 2), data_format=FIRST),
     f"lk_adaptive_max_pooling2d(2, {first})", (1, 2, 3, 4)),
    ("zero_padding1d_first", lambda: L.ZeroPadding1D((0, 2), data_format=FIRST), f"lk_zero_padding1d(LK_AXES(0, 2), {first})",
     (2, 2, 3)),
    ("zero_padding2d_first", lambda: L.ZeroPadding2D((1, 2), data_format=FIRST), f"lk_zero_padding2d(LK_AXES(1, 2), {first})",
     (1, 2, 1, 3)),
    ("cropping2d_first", lambda: L.Cropping2D(((0, 1), (1, 0)), data_format=FIRST),
     f"lk_cropping2d(LK_AXES(0, 1, 1, 0), {first})", (1, 2, 3, 4)),
    ("cropping3d_first", lambda: L.Cropping3D(1, data_format=FIRST), f"lk_cropping3d({first})", (1, 2, 3, 4, 3)),
    ("up_sampling2d_first", lambda: L.UpSampling2D((2, 3), data_format=FIRST, interpolation="bilinear"),
     f"lk_up_sampling2d(LK_AXES(2, 3), LK_BILINEAR, {first})", (1, 2, 3, 2)),
    ("up_sampling3d_first", lambda: L.UpSampling3D(2, data_format=FIRST), f"lk_up_sampling3d({first})", (1, 2, 1, 2, 2)),
    ("flatten_first", lambda: L.Flatten(data_format=FIRST), f"lk_flatten({first})", (2, 2, 3, 2)),
]

CONFIGS = [
    (L.Conv1D(4, 3, groups=2, data_format=FIRST), f"lk_conv1d(4, 3, .groups = 2, {first})"),
    (L.Conv3D(2, 3), "lk_conv3d(2, 3)"),
    (L.Conv3D(4, (1, 2, 3), strides=2, padding="same", data_format=FIRST, dilation_rate=1, groups=2, activation="relu",
              use_bias=False),
     f"lk_conv3d(4, .kernel_shape = LK_AXES(1, 2, 3), .strides = 2, .padding = LK_SAME, {first}, .groups = 2, "
     ".activation = LK_RELU, .use_bias = LK_OFF)"),
    (L.Conv1DTranspose(2, 3), "lk_conv1d_transpose(2, 3)"),
    (L.Conv1DTranspose(2, 3, strides=2, output_padding=1, dilation_rate=1),
     "lk_conv1d_transpose(2, 3, .strides = 2, .output_padding = 1)"),
    (L.Conv2DTranspose(2, 3, strides=(2, 3), output_padding=(0, 2), data_format=FIRST),
     f"lk_conv2d_transpose(2, 3, .strides = LK_AXES(2, 3), .output_padding = LK_AXES(0, 2), {first})"),
    (L.Conv3DTranspose(2, 3, dilation_rate=2), "lk_conv3d_transpose(2, 3, .dilation = 2)"),
    (L.DepthwiseConv1D(3), "lk_depthwise_conv1d(3)"),
    (L.DepthwiseConv2D(3, data_format=FIRST), f"lk_depthwise_conv2d(3, {first})"),
    (L.SeparableConv1D(2, 3), "lk_separable_conv1d(2, 3)"),
    (L.MaxPooling3D(), "lk_max_pooling3d()"),
    (L.AveragePooling3D(2, strides=1, padding="same", data_format=FIRST),
     f"lk_average_pooling3d(.strides = 1, .padding = LK_SAME, {first})"),
    (L.GlobalMaxPooling3D(), "lk_global_max_pooling3d()"),
    (L.GlobalAveragePooling3D(keepdims=True, data_format=FIRST), f"lk_global_average_pooling3d(.keepdims = LK_ON, {first})"),
    (L.AdaptiveMaxPooling1D(3), "lk_adaptive_max_pooling1d(3)"),
    (L.AdaptiveMaxPooling2D((3, 2)), "lk_adaptive_max_pooling2d(LK_AXES(3, 2))"),
    (L.AdaptiveMaxPooling3D(2), "lk_adaptive_max_pooling3d(2)"),
    (L.AdaptiveAveragePooling1D(3), "lk_adaptive_average_pooling1d(3)"),
    (L.AdaptiveAveragePooling2D(3, data_format=FIRST), f"lk_adaptive_average_pooling2d(3, {first})"),
    (L.AdaptiveAveragePooling3D((1, 2, 3)), "lk_adaptive_average_pooling3d(LK_AXES(1, 2, 3))"),
    (L.ZeroPadding1D(), "lk_zero_padding1d()"),
    (L.ZeroPadding1D((3, 0), data_format=FIRST), f"lk_zero_padding1d(LK_AXES(3, 0), {first})"),
    (L.ZeroPadding3D(), "lk_zero_padding3d()"),
    (L.ZeroPadding3D((1, 2, 3)), "lk_zero_padding3d(LK_AXES(1, 2, 3))"),
    (L.ZeroPadding3D(((1, 2), (3, 4), (5, 6))), "lk_zero_padding3d(LK_AXES(1, 2, 3, 4, 5, 6))"),
    (L.Cropping1D(), "lk_cropping1d()"),
    (L.Cropping2D(((1, 2), (3, 4)), data_format=FIRST), f"lk_cropping2d(LK_AXES(1, 2, 3, 4), {first})"),
    (L.Cropping3D(), "lk_cropping3d()"),
    (L.Cropping3D(2), "lk_cropping3d(2)"),
    (L.UpSampling1D(), "lk_up_sampling1d()"),
    (L.UpSampling2D(3, data_format=FIRST, interpolation="lanczos5"), f"lk_up_sampling2d(3, LK_LANCZOS5, {first})"),
    (L.UpSampling3D((1, 2, 3)), "lk_up_sampling3d(LK_AXES(1, 2, 3))"),
    (L.Flatten(data_format=FIRST), f"lk_flatten({first})"),
]


def numbers(shape, values):
    return values(np.arange(int(np.prod(shape)))).reshape(shape).astype(np.float32)


def text(values):
    return ", ".join(f"{v:.9g}" for v in np.concatenate([np.asarray(v).ravel() for v in values]))


def shape_text(shape):
    return "{" + ", ".join([str(len(shape)), "{" + ", ".join(map(str, shape)) + "}"]) + "}"


def write_case(name, make, c, shape):
    layer, x = make(), tf.constant(numbers(shape, lambda i: (7 * i % 13 - 6) / 4))
    layer.build(shape)
    layer.set_weights([numbers(w.shape, lambda i, j=j: ((5 * i + j) % 9 - 4) / 8) for j, w in enumerate(layer.weights)])

    # Some have no gradient, or no channels first, on CPUs without XLA; with it some have no interpolation.
    @tf.function(jit_compile=not any(word in name for word in ("bicubic", "lanczos")))
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tf.reduce_sum(y * numbers(y.shape, lambda i: (3 * i % 7 - 3) / 2))
        return y, tape.gradient(loss, [x] + [w.value for w in layer.trainable_weights])

    try:
        y, gradients = run(x)
    except Exception as why:
        sys.exit(f"{name}: {why}"[:3000])
    print(f"KERAS({name}, SHAPES({shape_text(shape)}), SHAPES({shape_text(y.shape)}),\n"
          f"      NUMBERS({text([y])}),\n      NUMBERS({text(gradients)}),\n      {c})")


if sys.argv[1] == "configs":
    for layer, c in CONFIGS:
        print(f"CONFIG({json.dumps(json.dumps(keras.saving.serialize_keras_object(layer)))},\n       {c})")
else:
    for case in CASES:
        write_case(*case)
