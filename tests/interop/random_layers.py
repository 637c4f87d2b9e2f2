"""Random layers and options, for random_models.py: each maker looks at the shape of a row and returns what a layer is made with.

Left out is AdaptiveMaxPooling: its gradient in TensorFlow 2.21 reads memory that nothing was written to, and differs from call to
call.

A maker is a function of (random, shape) that returns {"class": ..., option: value, ...}, all of it plain JSON, or None where the
shape does not suit. A new layer of Keras gets a line here."""
MAKERS = {}  # name: (maker, how often)


def maker(times=1):
    def add(make):
        MAKERS[make.__name__] = (make, times)
        return make
    return add


def pick(random, *values):
    return values[int(random.integers(len(values)))]


def chance(random, p):
    return bool(random.random() < p)


def some(random, **options):
    """Each option with one of its values, or left to its default."""
    return {k: pick(random, *v) for k, v in options.items() if chance(random, 0.4)}


def of(random, cls, needs=None, **options):
    return dict({"class": cls}, **(needs or {}), **some(random, **options))


ACTIVATIONS = ("linear relu relu6 gelu sigmoid tanh softplus softsign elu selu leaky_relu silu hard_sigmoid mish exponential "
               "softmax log_softmax hard_silu celu hard_tanh log_sigmoid squareplus soft_shrink hard_shrink tanh_shrink "
               "sparse_plus sparse_sigmoid").split()
SMOOTH = "linear relu gelu sigmoid tanh softplus elu silu".split()
BOOL = (True, False)
REGULARIZERS = ("l2", "l1", {"class_name": "L1L2", "config": {"l1": 0.01, "l2": 0.02}})
WEIGHTS = dict(use_bias=BOOL, kernel_regularizer=REGULARIZERS, bias_regularizer=REGULARIZERS, activity_regularizer=("l2",),
               kernel_initializer=("he_normal", "orthogonal", "lecun_uniform"), kernel_constraint=("max_norm", "unit_norm"))


# ---- any shape ----


@maker(3)
def dense(random, shape):
    return of(random, "Dense", {"units": int(random.integers(1, 9))}, activation=ACTIVATIONS, **WEIGHTS)


@maker()
def activation(random, shape):
    return {"class": "Activation", "activation": pick(random, *ACTIVATIONS)}


@maker()
def activation_layer(random, shape):
    return pick(random,
                of(random, "ReLU", max_value=(1.0, 6.0), negative_slope=(0.0, 0.1), threshold=(0.0, 0.2)),
                of(random, "LeakyReLU", negative_slope=(0.1, 0.4)), of(random, "ELU", alpha=(0.5, 1.5)),
                of(random, "Softmax", axis=[-1, len(shape)]), {"class": "Identity"},
                of(random, "PReLU", {"alpha_initializer": "random_uniform"},
                   shared_axes=[[a + 1] for a in range(len(shape))]))


@maker(2)
def batch_normalization(random, shape):
    return of(random, "BatchNormalization", axis=(-1, 1, len(shape)), momentum=(0.9, 0.5), epsilon=(1e-2,), center=BOOL, scale=BOOL)


@maker(2)
def layer_normalization(random, shape):
    if 1 in shape:
        return None  # a number without its mean is 0 or a rounding error, which nothing can compare
    axes = [-1, len(shape), 1] + ([[1, 2], [-2, -1]] if len(shape) > 1 else [])
    return of(random, "LayerNormalization", axis=axes, epsilon=(1e-2, 1e-5), center=BOOL, scale=BOOL)


@maker()
def other_normalization(random, shape):
    if len(shape) > 1 and chance(random, 0.4):
        groups = [g for g in (1, 2, 3, 4) if shape[-1] % g == 0]
        return of(random, "GroupNormalization", {"groups": pick(random, *groups, -1)}, center=BOOL, scale=BOOL, epsilon=(1e-2,))
    return pick(random, of(random, "RMSNormalization", epsilon=(1e-3,)), of(random, "UnitNormalization", axis=(-1, 1)),
                {"class": "Normalization", "axis": -1, "mean": 0.5, "variance": 2.0})


@maker()
def quiet_noise(random, shape):
    """Rates of 0: training is compared."""
    return pick(random, {"class": "Dropout", "rate": 0.0}, {"class": "GaussianNoise", "stddev": 0.0},
                {"class": "GaussianDropout", "rate": 0.0}, {"class": "AlphaDropout", "rate": 0.0},
                {"class": "ActivityRegularization", "l1": 0.01, "l2": 0.01})


@maker()
def rescaling(random, shape):
    scale = [0.5, -2.0] + ([[0.5 + k for k in range(shape[-1])]] if shape[-1] < 6 else [])
    return of(random, "Rescaling", {"scale": pick(random, *scale)}, offset=(0.0, 1.0))


@maker()
def reshape(random, shape):
    size = 1
    for n in shape:
        size *= n
    even = [d for d in range(2, 7) if size % d == 0]
    if len(shape) > 1 and chance(random, 0.5):
        order = [int(a) + 1 for a in random.permutation(len(shape))]
        return {"class": "Permute", "dims": order}
    if not even:
        return {"class": "Flatten"}
    d = pick(random, *even)
    return {"class": "Reshape", "target_shape": pick(random, [d, size // d], [d, -1], [-1], [size // d, 1, d], [-1, d])}


@maker()
def flatten(random, shape):
    return {"class": "Flatten"} if len(shape) > 1 else {"class": "RepeatVector", "n": int(random.integers(1, 5))}


@maker()
def einsum_dense(random, shape):
    """Of three axes and more Keras takes those of "..." for the shape in reverse order."""
    units, axes = int(random.integers(2, 7)), "abcd"[:len(shape)]
    spec = {"equation": "...x,xy->...y", "output_shape": units}
    if len(shape) > 2 or chance(random, 0.5):
        spec = {"equation": "z%s,%sy->z%sy" % (axes, axes[-1], axes[:-1]), "output_shape": list(shape[:-1]) + [units]}
    return of(random, "EinsumDense", spec, bias_axes=("y",), activation=SMOOTH)


# ---- ids: [steps] ----


def embedding(random, ids):
    return of(random, "Embedding", {"input_dim": ids, "output_dim": int(random.integers(2, 6))}, mask_zero=BOOL,
              embeddings_regularizer=("l2",), embeddings_constraint=("max_norm",))


# ---- sequences: [steps, width] ----


def sequences(make):
    def inner(random, shape):
        return make(random, shape) if len(shape) == 2 else None
    inner.__name__ = make.__name__
    return inner


def recurrent_spec(random, sequences_too=True):
    cls = pick(random, "LSTM", "GRU", "SimpleRNN")
    spec = of(random, cls, {"units": int(random.integers(2, 7))}, activation=("tanh", "relu", "softsign"), use_bias=BOOL,
              go_backwards=BOOL, return_sequences=BOOL if sequences_too else (True,), kernel_regularizer=("l2",),
              recurrent_regularizer=("l2",), unroll=BOOL)
    if cls != "SimpleRNN":
        spec.update(some(random, recurrent_activation=("sigmoid", "hard_sigmoid")))
    if cls == "GRU":
        spec.update(some(random, reset_after=BOOL))
    if cls == "LSTM":
        spec.update(some(random, unit_forget_bias=BOOL))
    return spec


@maker()
@sequences
def states(random, shape):
    """random_models.py makes the use, as it looks for states."""
    return recurrent_spec(random)


@maker()
@sequences
def masking(random, shape):
    return {"class": "Masking", "mask_value": 0.0}


@maker(3)
@sequences
def recurrent(random, shape):
    return recurrent_spec(random)


@maker(2)
@sequences
def bidirectional(random, shape):
    """Not unrolled: with a mask, Keras then sets other steps of the backward outputs to 0 than in a loop."""
    inner = recurrent_spec(random)
    inner.pop("unroll", None)
    return of(random, "Bidirectional", {"layer": inner}, merge_mode=("concat", "sum", "ave", "mul"))


@maker()
@sequences
def rnn_cells(random, shape):
    cells = [{"class": c, "units": int(random.integers(2, 6))} for c in random.choice(["LSTMCell", "GRUCell", "SimpleRNNCell"], 2)]
    cell = pick(random, cells[0], {"class": "StackedRNNCells", "cells": [cells[0], cells[1]]})
    return of(random, "RNN", {"cell": cell}, return_sequences=BOOL, go_backwards=BOOL)


@maker(2)
@sequences
def convolution1d(random, shape):
    steps, width = shape
    cls = pick(random, "Conv1D", "Conv1D", "SeparableConv1D", "DepthwiseConv1D", "Conv1DTranspose")
    padding = pick(random, "same", "causal" if cls in ("Conv1D", "SeparableConv1D", "DepthwiseConv1D") else "same", "valid")
    size = int(random.integers(1, min(4, steps) + 1))
    spec = of(random, cls, {"kernel_size": size, "padding": padding}, activation=SMOOTH, use_bias=BOOL)
    if cls != "DepthwiseConv1D":
        spec["filters"] = int(random.integers(1, 4)) * 2
    if cls in ("SeparableConv1D", "DepthwiseConv1D"):
        spec.update(some(random, depth_multiplier=(1, 2)))
    if chance(random, 0.3):
        spec["strides"] = 2
    elif chance(random, 0.3) and (size - 1) * 2 < steps:
        spec["dilation_rate"] = 2
    if cls == "Conv1D" and width % 2 == 0 and chance(random, 0.3):
        spec["groups"] = 2
    return spec


@maker()
@sequences
def pooling1d(random, shape):
    if chance(random, 0.4):
        return of(random, pick(random, "GlobalMaxPooling1D", "GlobalAveragePooling1D"), keepdims=BOOL,
                  data_format=("channels_last", "channels_first"))
    if chance(random, 0.2):
        return {"class": "AdaptiveAveragePooling1D", "output_size": min(2, shape[0])}
    return of(random, pick(random, "MaxPooling1D", "AveragePooling1D"), {"pool_size": min(shape[0], int(random.integers(1, 4)))},
              strides=(1, 2), padding=("valid", "same"))


@maker()
@sequences
def steps(random, shape):
    return pick(random, {"class": "ZeroPadding1D", "padding": [1, 2]}, {"class": "UpSampling1D", "size": 2},
                {"class": "SpatialDropout1D", "rate": 0.0},
                {"class": "Cropping1D", "cropping": [1, 0]} if shape[0] > 2 else {"class": "ZeroPadding1D", "padding": 1})


@maker()
@sequences
def time_distributed_dense(random, shape):
    return {"class": "TimeDistributed", "layer": dense(random, shape[1:])}


# ---- pictures: [height, width, channels] ----


def pictures(make):
    def inner(random, shape):
        return make(random, shape) if len(shape) == 3 and min(shape[:2]) >= 2 else None
    inner.__name__ = make.__name__
    return inner


@maker(4)
@pictures
def convolution2d(random, shape):
    cls = pick(random, "Conv2D", "Conv2D", "SeparableConv2D", "DepthwiseConv2D", "Conv2DTranspose")
    size = [int(random.integers(1, min(3, n) + 1)) for n in shape[:2]]
    spec = of(random, cls, {"kernel_size": size, "padding": pick(random, "same", "valid")}, activation=SMOOTH, use_bias=BOOL,
              **({} if cls == "SeparableConv2D" else {"bias_regularizer": ("l2",)}))
    if cls != "DepthwiseConv2D":
        spec["filters"] = int(random.integers(1, 4)) * 2
    if cls in ("SeparableConv2D", "DepthwiseConv2D"):
        spec.update(some(random, depth_multiplier=(1, 2)))
    if chance(random, 0.4):
        spec["strides"] = 2 if cls in ("SeparableConv2D", "DepthwiseConv2D") else pick(random, 2, [1, 2], [2, 1])
    elif chance(random, 0.3) and all((k - 1) * 2 < n for k, n in zip(size, shape)) and cls != "Conv2DTranspose":
        spec["dilation_rate"] = 2
    if cls == "Conv2D" and shape[2] % 2 == 0 and chance(random, 0.3):
        spec["groups"] = 2
    return spec


@maker(2)
@pictures
def pooling2d(random, shape):
    if chance(random, 0.3):
        return of(random, pick(random, "GlobalMaxPooling2D", "GlobalAveragePooling2D"), keepdims=BOOL)
    if chance(random, 0.2):
        return {"class": "AdaptiveAveragePooling2D", "output_size": [2, 1]}
    return of(random, pick(random, "MaxPooling2D", "AveragePooling2D"),
              {"pool_size": [min(n, int(random.integers(1, 4))) for n in shape[:2]]}, strides=(1, 2), padding=("valid", "same"))


@maker()
@pictures
def picture_shape(random, shape):
    if max(shape[:2]) > 12:
        return {"class": "Cropping2D", "cropping": [[1, 0], [0, 1]]}
    return pick(random, {"class": "ZeroPadding2D", "padding": [[1, 0], [2, 1]]},
                {"class": "UpSampling2D", "size": pick(random, 2, [1, 2]), "interpolation": pick(random, "nearest", "bilinear")},
                {"class": "Cropping2D", "cropping": [[1, 0], [0, 0]]}, {"class": "SpatialDropout2D", "rate": 0.0},
                {"class": "Resizing", "height": 5, "width": 6, "interpolation": pick(random, "bilinear", "nearest")},
                {"class": "CenterCrop", "height": 2, "width": 2})


@maker(1)
@pictures
def picture_values(random, shape):
    """Ranges of one number. Keras' gradients of layers that move pixels are approximate."""
    values = {"value_range": [-4, 4]}
    return pick(random, of(random, "Resizing", {"height": 4, "width": 3}, antialias=BOOL, crop_to_aspect_ratio=BOOL,
                           interpolation=("bicubic", "lanczos3", "bilinear")),
                {"class": "RandomBrightness", "factor": [0.1, 0.1], **values},
                {"class": "RandomContrast", "factor": [-0.2, 0.2], **values},
                {"class": "RandomSharpness", "factor": [0.8, 0.8], **values},
                {"class": "RandomInvert", "factor": [1, 1], **values})


@maker()
@pictures
def time_distributed_rows(random, shape):
    inner = pick(random, convolution1d(random, shape[1:]), dense(random, shape[1:]), recurrent_spec(random))
    return {"class": "TimeDistributed", "layer": inner}


@maker()
@pictures
def conv_lstm1d(random, shape):
    return of(random, "ConvLSTM1D", {"filters": 3, "kernel_size": min(3, shape[1]), "padding": "same"}, return_sequences=BOOL,
              go_backwards=BOOL, use_bias=BOOL)


# ---- volumes: [depth, height, width, channels] ----


@maker(3)
def volume(random, shape):
    if len(shape) != 4 or min(shape[:3]) < 2:
        return None
    return pick(random,
                of(random, "Conv3D", {"filters": 2 + 2 * int(random.integers(2)), "kernel_size": 2}, padding=("valid", "same"),
                   activation=SMOOTH, use_bias=BOOL, strides=(1, 2)),
                of(random, "Conv3DTranspose", {"filters": 2, "kernel_size": 2}, padding=("valid", "same"), use_bias=BOOL),
                of(random, pick(random, "MaxPooling3D", "AveragePooling3D"), {"pool_size": 2}, padding=("valid", "same"),
                   strides=(1, 2)),
                of(random, pick(random, "GlobalMaxPooling3D", "GlobalAveragePooling3D"), keepdims=BOOL),
                {"class": "ZeroPadding3D", "padding": 1}, {"class": "UpSampling3D", "size": [1, 2, 1]},
                {"class": "Cropping3D", "cropping": [[1, 0], [0, 0], [0, 0]]}, {"class": "SpatialDropout3D", "rate": 0.0},
                of(random, "ConvLSTM2D", {"filters": 2, "kernel_size": 2, "padding": "same"}, return_sequences=BOOL))


# ---- several tensors: a function of (random, shapes) that returns a layer for those ----

MERGES = ["Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"]


def merge(random, shapes):
    """Of two tensors; None where they do not fit."""
    a, b = shapes
    found = []
    if a == b:
        found += [{"class": c} for c in random.choice(MERGES, 2)] + [{"class": "op", "op": str(random.choice(list("+-*")))}]
    if len(a) == len(b):
        found += [{"class": "Concatenate", "axis": k + 1} for k in range(len(a))
                  if all(x == y for i, (x, y) in enumerate(zip(a, b)) if i != k)]
    if len(a) == len(b) == 1 and a == b:
        found += [of(random, "Dot", {"axes": 1}, normalize=BOOL)]
    if len(a) == len(b) == 2 and a[1] == b[1]:
        attention = {"class": "MultiHeadAttention", "num_heads": int(random.integers(1, 4)), "key_dim": int(random.integers(2, 6))}
        found += [dict(attention, **some(random, value_dim=(3, 5), use_bias=BOOL, output_shape=(7,))),
                  of(random, "Attention", use_scale=BOOL, score_mode=("dot", "concat")),
                  of(random, "AdditiveAttention", use_scale=BOOL), of(random, "Dot", {"axes": 2}, normalize=BOOL)]
    return pick(random, *found) if found else None


# ---- operations, written as people do ----

OPERATIONS = ["{0} * 0.5", "1.0 - {0}", "{0} / 3.0", "{0} + 1", "-{0}", "{0} ** 2", "ops.abs({0})",
              "ops.exp(-ops.square({0}))", "ops.sin({0})", "ops.mean({0}, axis=-1, keepdims=True)", "ops.maximum({0}, 0.1)",
              "ops.relu({0})", "ops.softmax({0})", "ops.tanh({0})", "ops.sqrt(ops.abs({0}) + 0.1)",
              "ops.log(ops.abs({0}) + 1.0)", "ops.expand_dims({0}, 1)", "ops.sum({0}, axis=1)", "{0}[:, :1]", "{0}[..., -1:]",
              "ops.clip({0}, -0.5, 0.5)", "ops.where({0} > 0.0, {0}, 0.1 * {0})", "ops.max({0}, axis=1)",
              "ops.concatenate([{0}, {0}], axis=-1)", "ops.flip({0}, axis=-1)", "ops.roll({0}, 1, axis=-1)", "ops.sigmoid({0})",
              "ops.cumsum({0}, axis=1)", "ops.repeat({0}, 2, axis=-1)", "ops.logsumexp({0}, axis=-1, keepdims=True)"]
