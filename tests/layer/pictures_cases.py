#!/usr/bin/env python3
"""Writes what Keras' layers of pictures make of small ones, the gradient where it has one, and their configs.

    python3 pictures_cases.py cases > pictures_cases.inc            with Keras 3.15 on TensorFlow 2.21
    python3 pictures_cases.py configs > pictures_configs.inc

Layers are called in training. Those that draw numbers have ranges of one number, or of such that all of it means the same, so that
what they draw does not matter. Inputs: see keras_cases.py."""
import json
import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers as L

FIRST = "channels_first"
first = ".data_format = LK_CHANNELS_FIRST"
V = {"value_range": (-1.5, 2)}
v = ".max_value = 2, .min_value = -1.5"


def both(value):
    return [value, value]


CASES = [
    # sizes
    ("resizing", lambda: L.Resizing(3, 5), "lk_resizing(3, 5)", (2, 4, 3, 2)),
    ("resizing_down", lambda: L.Resizing(2, 3), "lk_resizing(2, 3)", (1, 5, 7, 1)),
    ("resizing_first", lambda: L.Resizing(3, 2, data_format=FIRST), f"lk_resizing(3, 2, {first})", (1, 2, 4, 5)),
    ("resizing_nearest", lambda: L.Resizing(5, 2, interpolation="nearest"), "lk_resizing(5, 2, LK_NEAREST)", (1, 3, 5, 1)),
    ("resizing_bicubic", lambda: L.Resizing(3, 4, interpolation="bicubic"), "lk_resizing(3, 4, LK_BICUBIC)", (1, 5, 6, 1)),
    ("resizing_lanczos3", lambda: L.Resizing(4, 3, interpolation="lanczos3"), "lk_resizing(4, 3, LK_LANCZOS3)", (1, 3, 8, 1)),
    ("resizing_lanczos5", lambda: L.Resizing(2, 7, interpolation="lanczos5"), "lk_resizing(2, 7, LK_LANCZOS5)", (1, 7, 4, 1)),
    ("resizing_area", lambda: L.Resizing(2, 3, interpolation="area"), "lk_resizing(2, 3, LK_AREA)", (1, 5, 7, 2)),
    ("resizing_area_up", lambda: L.Resizing(5, 3, interpolation="area"), "lk_resizing(5, 3, LK_AREA)", (1, 3, 2, 1)),
    ("resizing_smooth", lambda: L.Resizing(2, 3, antialias=True), "lk_resizing(2, 3, .antialias = LK_ON)", (1, 5, 8, 1)),
    ("resizing_smooth_up", lambda: L.Resizing(5, 3, antialias=True), "lk_resizing(5, 3, .antialias = LK_ON)", (1, 3, 7, 1)),
    ("resizing_smooth_bicubic", lambda: L.Resizing(3, 5, interpolation="bicubic", antialias=True),
     "lk_resizing(3, 5, LK_BICUBIC, .antialias = LK_ON)", (1, 7, 4, 1)),
    ("resizing_smooth_lanczos3", lambda: L.Resizing(3, 2, interpolation="lanczos3", antialias=True),
     "lk_resizing(3, 2, LK_LANCZOS3, .antialias = LK_ON)", (1, 7, 6, 1)),
    ("resizing_smooth_nearest", lambda: L.Resizing(2, 2, interpolation="nearest", antialias=True),
     "lk_resizing(2, 2, LK_NEAREST, .antialias = LK_ON)", (1, 5, 7, 1)),
    ("resizing_cropped", lambda: L.Resizing(3, 3, crop_to_aspect_ratio=True), "lk_resizing(3, 3, .crop_to_aspect_ratio = LK_ON)",
     (1, 4, 7, 1)),
    ("resizing_cropped_high", lambda: L.Resizing(2, 5, crop_to_aspect_ratio=True),
     "lk_resizing(2, 5, .crop_to_aspect_ratio = LK_ON)", (1, 6, 3, 1)),
    ("resizing_padded", lambda: L.Resizing(3, 3, pad_to_aspect_ratio=True, fill_value=2.5),
     "lk_resizing(3, 3, .pad_to_aspect_ratio = LK_ON, .fill_value = 2.5)", (1, 3, 6, 1)),
    ("resizing_padded_high", lambda: L.Resizing(3, 6, pad_to_aspect_ratio=True, data_format=FIRST),
     f"lk_resizing(3, 6, .pad_to_aspect_ratio = LK_ON, {first})", (1, 2, 5, 3)),
    ("center_crop", lambda: L.CenterCrop(2, 3), "lk_center_crop(2, 3)", (2, 5, 4, 2)),
    ("center_crop_first", lambda: L.CenterCrop(2, 2, data_format=FIRST), f"lk_center_crop(2, 2, {first})", (1, 2, 3, 4)),
    ("center_crop_small", lambda: L.CenterCrop(4, 3), "lk_center_crop(4, 3)", (1, 3, 6, 1)),
    ("center_crop_same", lambda: L.CenterCrop(3, 2), "lk_center_crop(3, 2)", (1, 3, 2, 1)),
    # places
    ("zoom_out", lambda: L.RandomZoom(both(0.3)), "lk_random_zoom(0.3, 0.3)", (2, 4, 5, 1)),
    ("zoom_in_first", lambda: L.RandomZoom(both(-0.25), both(-0.5), data_format=FIRST),
     f"lk_random_zoom(-0.25, -0.25, -0.5, -0.5, {first})", (1, 2, 4, 3)),
    ("zoom_constant", lambda: L.RandomZoom(both(0.5), both(0.2), fill_mode="constant", fill_value=2.0),
     "lk_random_zoom(0.5, 0.5, 0.2, 0.2, LK_FILL_CONSTANT, .fill_value = 2.0)", (1, 4, 4, 2)),
    ("zoom_wrap", lambda: L.RandomZoom(both(0.9), both(0.7), fill_mode="wrap", interpolation="nearest"),
     "lk_random_zoom(0.9, 0.9, 0.7, 0.7, LK_FILL_WRAP, LK_NEAREST)", (1, 5, 3, 1)),
    ("zoom_nearest", lambda: L.RandomZoom(both(0.4), fill_mode="nearest"), "lk_random_zoom(0.4, 0.4, .fill_mode = LK_FILL_NEAREST)",
     (1, 3, 5, 1)),
    ("translation", lambda: L.RandomTranslation(both(0.3), both(-0.2)), "lk_random_translation(0.3, 0.3, -0.2, -0.2)",
     (2, 4, 5, 1)),
    ("translation_first", lambda: L.RandomTranslation(both(-0.5), both(0.6), "wrap", data_format=FIRST),
     f"lk_random_translation(-0.5, -0.5, 0.6, 0.6, LK_FILL_WRAP, {first})", (1, 2, 3, 5)),
    ("translation_constant", lambda: L.RandomTranslation(both(0.4), both(0.4), "constant", fill_value=-2.0),
     "lk_random_translation(0.4, 0.4, 0.4, 0.4, LK_FILL_CONSTANT, .fill_value = -2)", (1, 3, 4, 2)),
    ("translation_nearest", lambda: L.RandomTranslation(both(-0.7), both(0.1), "nearest", "nearest"),
     "lk_random_translation(-0.7, -0.7, 0.1, 0.1, LK_FILL_NEAREST, LK_NEAREST)", (1, 3, 6, 1)),
    ("shear_none", lambda: L.RandomShear(), "lk_random_shear()", (1, 3, 3, 1)),
    # parts
    ("erasing_all", lambda: L.RandomErasing(both(1.0), both(1.0), fill_value=1.25, **V),
     f"lk_random_erasing(1, 1, 1, 1, .fill_value = 1.25, {v})", (2, 3, 4, 2)),
    ("erasing_colour", lambda: L.RandomErasing(both(1.0), both(1.0), fill_value=[1.0, 3.0, 0.5], **V),
     f"lk_random_erasing(1, 1, 1, 1, .fill_values = lk_tensor_of(LK_SHAPE(3), 1, 3, 0.5), {v})", (2, 2, 2, 3)),
    ("erasing_nothing", lambda: L.RandomErasing(0.0, **V), f"lk_random_erasing(0, {v})", (1, 3, 4, 1)),
    ("blur", lambda: L.RandomGaussianBlur(both(1.0), 3, both(0.7), **V),
     f"lk_random_gaussian_blur(1, 1, 3, 0.7, 0.7, {v})", (2, 4, 5, 2)),
    ("blur_wide_first", lambda: L.RandomGaussianBlur(both(1.0), 5, both(1.0), data_format=FIRST, **V),
     f"lk_random_gaussian_blur(1, 1, 5, 1, 1, {v}, {first})", (1, 2, 3, 7)),
    ("blur_none", lambda: L.RandomGaussianBlur(0.0, 3, 0.7, **V), f"lk_random_gaussian_blur(0, .sigma = 0.7, {v})", (1, 4, 5, 1)),
    # colours
    ("brightness", lambda: L.RandomBrightness(both(0.3), **V), f"lk_random_brightness(0.3, 0.3, {v})", (2, 3, 2, 2)),
    ("darkness", lambda: L.RandomBrightness(both(-0.3), **V), f"lk_random_brightness(-0.3, -0.3, {v})", (2, 3, 2, 2)),
    ("contrast", lambda: L.RandomContrast([-0.5, 0.5], **V), f"lk_random_contrast(0.5, -0.5, {v})", (2, 3, 4, 2)),
    ("contrast_first", lambda: L.RandomContrast([-0.25, 0.25], **V, data_format=FIRST),
     f"lk_random_contrast(0.25, -0.25, {v}, {first})", (1, 2, 3, 4)),
    ("degeneration", lambda: L.RandomColorDegeneration(both(0.3), **V), f"lk_random_color_degeneration(0.3, 0.3, {v})",
     (2, 3, 2, 3)),
    ("degeneration_first", lambda: L.RandomColorDegeneration(both(-0.6), **V, data_format=FIRST),
     f"lk_random_color_degeneration(-0.6, -0.6, {v}, {first})", (1, 3, 2, 4)),
    ("saturation", lambda: L.RandomSaturation(both(0.6)), "lk_random_saturation(0.6, 0.6)", (2, 3, 4, 3)),
    ("saturation_less", lambda: L.RandomSaturation(both(0.2), data_format=FIRST), f"lk_random_saturation(0.2, 0.2, {first})",
     (1, 3, 4, 3)),
    ("saturation_none", lambda: L.RandomSaturation(both(-0.2)), "lk_random_saturation(-0.2, -0.2)", (1, 2, 4, 3)),
    ("hue_opposite", lambda: L.RandomHue(both(1.0), **V), f"lk_random_hue(1, 1, {v})", (2, 3, 4, 3)),
    ("hue_first", lambda: L.RandomHue(both(1.0), (-2, 3), data_format=FIRST), f"lk_random_hue(1, 1, 3, -2, {first})", (1, 3, 4, 2)),
    ("hue_same", lambda: L.RandomHue(0.0, **V), f"lk_random_hue(0, {v})", (1, 3, 4, 3)),
    ("invert", lambda: L.RandomInvert(both(1.0), **V), f"lk_random_invert(1, 1, {v})", (2, 3, 2, 1)),
    ("posterization", lambda: L.RandomPosterization(both(3), **V), f"lk_random_posterization(3, 3, {v})", (2, 3, 4, 1)),
    ("posterization_less", lambda: L.RandomPosterization([6, 7], value_range=(-3, 3)),
     "lk_random_posterization(7, 6, 3, -3)", (1, 5, 4, 1)),
    ("posterization_most", lambda: L.RandomPosterization(1, **V), f"lk_random_posterization(1, {v})", (1, 3, 4, 1)),
    ("sharpness", lambda: L.RandomSharpness(both(0.9), **V), f"lk_random_sharpness(0.9, 0.9, {v})", (2, 3, 4, 2)),
    ("sharpness_first", lambda: L.RandomSharpness(both(0.1), **V, data_format=FIRST),
     f"lk_random_sharpness(0.1, 0.1, {v}, {first})", (1, 2, 3, 4)),
    ("grayscale", lambda: L.RandomGrayscale(1.0), "lk_random_grayscale(1)", (2, 2, 3, 3)),
    ("grayscale_first", lambda: L.RandomGrayscale(1.0, data_format=FIRST), f"lk_random_grayscale(1, {first})", (1, 3, 2, 3)),
    ("grayscale_gray", lambda: L.RandomGrayscale(1.0), "lk_random_grayscale(1)", (1, 2, 3, 1)),
    ("jitter", lambda: L.RandomColorJitter((-1.5, 2), both(0.1), [-0.5, 0.5], both(0.4), both(1.0)),
     f"lk_random_color_jitter(0.1, 0.1, 0.5, -0.5, 0.4, 0.4, 1, 1, {v})", (2, 3, 2, 3)),
    ("jitter_one", lambda: L.RandomColorJitter((-1.5, 2), contrast_factor=[-0.5, 0.5]),
     f"lk_random_color_jitter(.contrast_factor = 0.5, .contrast_low = -0.5, {v})", (1, 3, 2, 2)),
    ("solarization", lambda: L.Solarization(**V), f"lk_solarization({v})", (1, 3, 4, 1)),
    ("auto_contrast", lambda: L.AutoContrast(**V), f"lk_auto_contrast({v})", (2, 3, 2, 2)),
    ("auto_contrast_flat", lambda: L.AutoContrast(**V), f"lk_auto_contrast({v})", (2, 1, 1, 2)),
    ("auto_contrast_first", lambda: L.AutoContrast(**V, data_format=FIRST), f"lk_auto_contrast({v}, {first})", (1, 2, 3, 4)),
]

CONFIGS = [
    (L.Resizing(3, 5), "lk_resizing(3, 5)"),
    (L.Resizing(4, 4, "lanczos3", True, data_format=FIRST, antialias=True),
     f"lk_resizing(4, 4, LK_LANCZOS3, LK_ON, .antialias = LK_ON, {first})"),
    (L.Resizing(4, 4, "area", pad_to_aspect_ratio=True, fill_value=1.0),
     "lk_resizing(4, 4, LK_AREA, .pad_to_aspect_ratio = LK_ON, .fill_value = 1)"),
    (L.CenterCrop(3, 4), "lk_center_crop(3, 4)"),
    (L.CenterCrop(3, 4, data_format=FIRST), f"lk_center_crop(3, 4, {first})"),
    (L.RandomFlip("vertical", seed=3, data_format=FIRST), f"lk_random_flip(LK_FLIP_VERTICAL, 3, {first})"),
    (L.RandomRotation(0.25), "lk_random_rotation(0.25)"),
    (L.RandomRotation((0.0, 0.5), "wrap", "nearest", data_format=FIRST),
     f"lk_random_rotation(0.5, 0, LK_FILL_WRAP, LK_NEAREST, {first})"),
    (L.RandomCrop(3, 4, data_format=FIRST), None),
    (L.RandomZoom(0.2), "lk_random_zoom(0.2)"),
    (L.RandomZoom((-0.1, 0.3), 0.5, "constant", "nearest", 7, 1.0, FIRST),
     f"lk_random_zoom(0.3, -0.1, 0.5, .fill_mode = LK_FILL_CONSTANT, .interpolation = LK_NEAREST, .seed = 7, "
     f".fill_value = 1, {first})"),
    (L.RandomTranslation(0.2, (0.1, 0.3)), "lk_random_translation(0.2, .width_factor = 0.3, .width_low = 0.1)"),
    (L.RandomShear((0.0, 0.2), (0.1, 0.3)), "lk_random_shear(0.2, 0, 0.3, 0.1)"),
    (L.RandomPerspective(), "lk_random_perspective()"),
    (L.RandomPerspective(0.5, 0.25, "nearest", 1.0, 3), "lk_random_perspective(0.5, .scale = 0.25, .interpolation = LK_NEAREST, "
     ".fill_value = 1, .seed = 3)"),
    (L.RandomErasing(), "lk_random_erasing()"),
    (L.RandomErasing(0.5, (0.1, 0.2), 3.0, (0, 1), 2), "lk_random_erasing(0.5, .scale = 0.2, .scale_low = 0.1, .fill_value = 3, "
     ".max_value = 1, .seed = 2)"),
    (L.RandomErasing(fill_value=[1.0, 2.0, 3.0]), "lk_random_erasing(.fill_values = lk_tensor_of(LK_SHAPE(3), 1, 2, 3))"),
    (L.RandomGaussianBlur(), "lk_random_gaussian_blur()"),
    (L.RandomGaussianBlur(0.5, (3, 5), (0.5, 0.75), (0, 1)),
     "lk_random_gaussian_blur(0.5, .kernel_size = LK_AXES(3, 5), .sigma = 0.75, .sigma_low = 0.5, .max_value = 1)"),
    (L.RandomBrightness(0.2), "lk_random_brightness(0.2)"),
    (L.RandomBrightness((0.25, 0.5), (0, 1), 4), "lk_random_brightness(0.5, 0.25, 1, .seed = 4)"),
    (L.RandomContrast(0.2), "lk_random_contrast(0.2)"),
    (L.RandomColorDegeneration(0.2, data_format=FIRST), f"lk_random_color_degeneration(0.2, {first})"),
    (L.RandomSaturation((0.1, 0.2)), "lk_random_saturation(0.2, 0.1)"),
    (L.RandomHue(0.5, (0, 1)), "lk_random_hue(0.5, .max_value = 1)"),
    (L.RandomInvert(), "lk_random_invert()"),
    (L.RandomPosterization((2, 5)), "lk_random_posterization(5, 2)"),
    (L.RandomSharpness(0.5), "lk_random_sharpness(0.5)"),
    (L.RandomGrayscale(), "lk_random_grayscale()"),
    (L.RandomColorJitter(brightness_factor=0.5, hue_factor=(0.1, 0.2)),
     "lk_random_color_jitter(.brightness_factor = 0.5, .hue_factor = 0.2, .hue_low = 0.1)"),
    (L.Solarization(), "lk_solarization()"),
    (L.Solarization(0.5, (0.1, 0.2)), "lk_solarization(0.5, .threshold_factor = 0.2, .threshold_low = 0.1)"),
    (L.AutoContrast((0, 1)), "lk_auto_contrast(1)"),
]


def numbers(shape, values):
    return values(np.arange(int(np.prod(shape)))).reshape(shape).astype(np.float32)


def text(values):
    return ", ".join(f"{v:.9g}" for v in np.concatenate([np.asarray(v).ravel() for v in values]))


def shape_text(shape):
    return "{" + ", ".join([str(len(shape)), "{" + ", ".join(map(str, shape)) + "}"]) + "}"


def write_case(name, make, c, shape):
    layer, x = make(), tf.constant(numbers(shape, lambda i: (7 * i % 13 - 6) / 4))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True)
        loss = tf.reduce_sum(y * numbers(y.shape, lambda i: (3 * i % 7 - 3) / 2))
    try:
        gradient = None if any(word in name for word in NO_GRADIENT) else tape.gradient(loss, x)
    except LookupError:
        gradient = None
    print(f"KERAS({name}, SHAPES({shape_text(shape)}), SHAPES({shape_text(y.shape)}),\n"
          f"      NUMBERS({text([y])}),\n      NUMBERS({'0' if gradient is None else text([gradient])}),\n      {c})")


# TensorFlow's gradients of these are wrong or none.
NO_GRADIENT = ("hue", "saturation", "jitter", "posterization", "flat", "zoom", "translation", "contrast_f")

if sys.argv[1] == "configs":
    for layer, c in CONFIGS:
        if c:
            print(f"CONFIG({json.dumps(json.dumps(keras.saving.serialize_keras_object(layer)))},\n       {c})")
else:
    for case in CASES:
        write_case(*case)
