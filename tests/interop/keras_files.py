"""keras_files.py PROGRAM [FOLDER [PART]]: exchange models with Keras, both ways.

PROGRAM is build/release/tests/interop/keras_files. Every case is a model made and saved here as `theirs.keras`. PROGRAM loads it,
tells what it predicts, and writes it back as a .keras file, as weights and as JSON; where there are labels it also trains it for
two epochs on two replicas. All of that is loaded here again: predictions must be those of PROGRAM, and, untrained, those of the
model that was sent; configs, weights and the state of the optimiser must be the same. PART runs the cases whose names have it in
them.

    python -m venv VENV && VENV/bin/pip install tensorflow-cpu==2.21.0 keras==3.15.1
    make interop PYTHON=VENV/bin/python
"""
import io
import os
import subprocess
import sys
import tempfile
import zipfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import h5py
import keras
import numpy as np
from keras import constraints, initializers, layers, losses, metrics, optimizers, regularizers

BOUND = 1e-5
random = np.random.default_rng(7)


class Case:
    """A model, rows for it and, where it is to be trained, labels."""

    old = False  # saved as Keras 2 did, too

    def __init__(self, model, x, y=None):
        self.model, self.x, self.y = model, x if isinstance(x, list) else [x], y if isinstance(y, list) or y is None else [y]


def rows(*shape):
    return random.normal(size=(16,) + shape).astype("float32")


def ids(most, *shape):
    return random.integers(0, most, size=(16,) + shape).astype("int32")


def shaken(model):
    """Weights that are not those it begins with, so that none of them can be taken for another."""
    for v in model.weights:
        if v.dtype == "float32":
            noise = random.normal(size=v.shape).astype("float32") * 0.1
            v.assign(np.abs(v.numpy() + noise) + 0.01 if "variance" in v.name else v.numpy() + noise)
    return model


# ---- architectures ----


def cnn():
    model = keras.Sequential([
        keras.Input((12, 12, 3)), layers.Conv2D(8, 3, activation="relu", kernel_regularizer=regularizers.L2(1e-4)),
        layers.BatchNormalization(), layers.MaxPooling2D(), layers.Dropout(0.25), layers.Flatten(),
        layers.Dense(16, activation="relu", kernel_constraint=constraints.MaxNorm(3.0)), layers.Dropout(0.5), layers.Dense(5)])
    model.compile(optimizers.Adam(0.01, clipnorm=1.0), losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy", metrics.SparseTopKCategoricalAccuracy(k=2)])
    x, y = rows(12, 12, 3), ids(5)
    model.fit(x, y, epochs=1, verbose=0)
    return Case(model, x, y)


def residual():
    """Two inputs, two outputs, a layer that is used twice, a way around others."""
    a, b = keras.Input((6,), name="first"), keras.Input((6,), name="second")
    shared = layers.Dense(6, activation="relu", name="shared")
    p, q = shared(a), shared(b)
    x = layers.Add()([p, q, a])
    x = layers.Concatenate()([x, layers.Subtract()([p, q])])
    x = layers.Dense(8, activation="gelu")(x)
    one = layers.Dense(3, activation="softmax", name="one")(x)
    two = layers.Dense(1, name="two")(layers.LayerNormalization()(x))
    model = keras.Model([a, b], [one, two], name="residual")
    model.compile(optimizers.SGD(0.05, momentum=0.9), [losses.SparseCategoricalCrossentropy(), "mse"], loss_weights=[1.0, 0.5],
                  metrics=[["accuracy"], ["mae"]])
    x, y = [rows(6), rows(6)], [ids(3), rows(1)]
    model.fit(x, y, epochs=1, verbose=0)
    return Case(model, x, y)


def text():
    model = keras.Sequential([
        keras.Input((7,), dtype="int32"), layers.Embedding(20, 6), layers.Bidirectional(layers.LSTM(5, return_sequences=True)),
        layers.GRU(4, return_sequences=True), layers.TimeDistributed(layers.Dense(4, activation="relu")),
        layers.SimpleRNN(4), layers.Dense(1, activation="sigmoid")])
    model.compile(optimizers.RMSprop(0.01), "binary_crossentropy", metrics=["accuracy", metrics.AUC(num_thresholds=20)])
    x, y = ids(20, 7), ids(2, 1)
    model.fit(x, y, epochs=1, verbose=0)
    return Case(model, x, y)


def transformer():
    i = keras.Input((6, 8))
    x = layers.LayerNormalization(epsilon=1e-6)(i)
    x = layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x, use_causal_mask=True)
    x = h = layers.Add()([i, x])
    x = layers.LayerNormalization()(x)
    x = layers.Dense(16, activation="gelu")(x)
    x = layers.Dropout(0.1)(layers.Dense(8)(x))
    x = layers.Add()([h, x])
    x = layers.GlobalAveragePooling1D()(x)
    model = keras.Model(i, layers.Dense(3)(x))
    schedule = optimizers.schedules.CosineDecay(1e-3, 100, warmup_target=1e-2, warmup_steps=10)
    model.compile(optimizers.AdamW(schedule, weight_decay=0.01),
                  losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1), metrics=["accuracy"])
    x, y = rows(6, 8), np.eye(3, dtype="float32")[ids(3)]
    model.fit(x, y, epochs=1, verbose=0)
    return Case(model, x, y)


def separable():
    model = keras.Sequential([
        keras.Input((16, 16, 3)), layers.Rescaling(1 / 255.0, offset=-0.5), layers.RandomFlip("horizontal"),
        layers.RandomRotation(0.1), layers.SeparableConv2D(8, 3, padding="same", activation="relu"),
        layers.DepthwiseConv2D(3, depth_multiplier=2, strides=2), layers.GroupNormalization(4), layers.ReLU(max_value=6),
        layers.GlobalAveragePooling2D(), layers.Dense(4, activation="softmax")])
    model.compile(optimizers.Nadam(0.005), losses.SparseCategoricalCrossentropy(), weighted_metrics=["accuracy"])
    x, y = random.uniform(0, 255, size=(16, 16, 16, 3)).astype("float32"), ids(4)
    model.fit(x, y, epochs=1, verbose=0)
    return Case(model, x, y)


def nested():
    """A model in a model, used twice; a sequential one in a functional one."""
    tower = keras.Sequential([keras.Input((4,)), layers.Dense(5, activation="tanh"), layers.BatchNormalization()], name="tower")
    i = keras.Input((5,))
    block = keras.Model(i, layers.Add()([layers.Dense(5)(i), i]), name="block")
    a, b = keras.Input((4,)), keras.Input((4,))
    x = layers.Multiply()([tower(a), tower(b)])
    model = keras.Model([a, b], layers.Dense(2)(block(block(x))))
    model.compile(optimizers.Adam(0.01), "mse")
    x, y = [rows(4), rows(4)], rows(2)
    model.fit(x, y, epochs=1, verbose=0)
    return Case(model, x, y)


def model_as_output():
    """Functional models as outputs, which Keras counts differently there: used once and three times, in each other, and a row."""
    def block(name):
        i = keras.Input((4,))
        return keras.Model(i, layers.Add()([layers.Dense(4, activation="tanh")(i), i]), name=name)

    inner, i, x = block("inner"), keras.Input((4,)), keras.Input((4,))
    around = keras.Model(i, inner(layers.Dense(4)(inner(i))), name="around")
    thrice, tower = block("thrice"), keras.Sequential([keras.Input((4,)), layers.Dense(3)], name="tower")
    model = keras.Model(x, [thrice(thrice(thrice(x))), around(x), tower(x)])
    model.compile(optimizers.Adam(0.01), "mse")
    x, y = rows(4), [rows(4), rows(4), rows(3)]
    model.fit(x, y, epochs=1, verbose=0)
    return Case(model, x, y)


def frozen():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, trainable=False), layers.BatchNormalization(), layers.Dense(2)])
    model.compile("adam", "mse")
    x, y = rows(4), rows(2)
    model.fit(x, y, epochs=1, verbose=0)
    return Case(model, x, y)


def untrained():
    """Compiled, but its optimiser has no slots yet."""
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    model.compile("adamax", losses.Huber(delta=0.5))
    return Case(model, rows(4), rows(2))


def uncompiled():
    i = keras.Input((4, 3))
    model = keras.Model(i, [layers.Flatten()(i), layers.Dense(2)(i), i])
    return Case(model, rows(4, 3))


def wide():
    """Many layers as far from the outputs as each other: their order names the weights."""
    i = keras.Input((3,))
    left = [layers.Dense(2, name="z%d" % k)(i) for k in range(3)]
    right = [layers.Dense(2, name="a%d" % k)(layers.Dense(4)(i)) for k in range(3)]
    x = layers.Concatenate()([right[1], left[2], right[0], left[0], left[1], right[2]])
    skip = layers.Dense(2)(layers.Average()([left[1], right[2]]))
    return Case(keras.Model(i, [skip, layers.Dense(1)(x)]), rows(3))


# graphs: how layers are called, and what models take and return


def fitted(model, x, y, loss="mse", **options):
    model.compile(optimizers.SGD(0.001), loss, **options)
    model.fit(x, y, epochs=1, verbose=0)
    return Case(model, x, keras.tree.flatten(y))


def objects():
    """Inputs and outputs by name, losses and metrics too."""
    a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
    x = layers.Concatenate()([layers.Dense(4)(a), b])
    model = keras.Model({"a": a, "b": b}, {"two": layers.Dense(2, name="z")(x), "one": layers.Dense(1, name="y")(x)})
    model.compile(optimizers.SGD(0.05), {"one": "mse", "two": "mae"}, loss_weights={"one": 0.5, "two": 2.0},
                  metrics={"one": ["mae"], "two": ["mse"]})
    x, y = {"a": rows(4), "b": rows(3)}, {"one": rows(1), "two": rows(2)}
    model.fit(x, y, epochs=1, verbose=0)
    return Case(model, [x["a"], x["b"]], [y["one"], y["two"]])


def structures():
    """Lists in objects, an object of one, and outputs that are inputs."""
    i = keras.Input((4,), name="only")
    one, two, three = layers.Dense(2)(i), layers.Dense(3)(i), layers.Dense(1)(i)
    return Case(keras.Model([i], {"pair": [one, two], "more": {"deep": three, "same": i}}), rows(4))


def model_of_two_outputs():
    i = keras.Input((4,))
    inner = keras.Model(i, [layers.Dense(3, activation="tanh")(i), layers.Dense(2)(i)], name="inner")
    x = keras.Input((4,))
    a, b = inner(x)
    c, d = inner(layers.Dense(4)(x))
    outputs = [layers.Concatenate()([a, d]), c, layers.Multiply()([b, d])]
    return fitted(keras.Model(x, outputs), rows(4), [rows(5), rows(3), rows(2)])


def model_called_by_names():
    a, b = keras.Input((4,), name="left"), keras.Input((3,), name="right")
    listed = keras.Model([a, b], layers.Concatenate()([layers.Dense(2)(a), b]), name="listed")
    a, b = keras.Input((4,), name="p"), keras.Input((5,), name="q")
    keyed = keras.Model({"q": b, "p": a}, layers.Concatenate()([layers.Dense(3)(b), a]), name="keyed")
    x, y = keras.Input((4,)), keras.Input((3,))
    h = listed({"left": x, "right": y})
    return fitted(keras.Model([x, y], layers.Dense(2)(keyed({"p": x, "q": h}))), [rows(4), rows(3)], rows(2))


def translation():
    """An encoder's state is where the decoder begins."""
    a, b = keras.Input((5, 4)), keras.Input((3, 4))
    _, h, c = layers.LSTM(6, return_state=True)(a)
    y, *_ = layers.LSTM(6, return_sequences=True, return_state=True)(b, initial_state=[h, c])
    _, s = layers.GRU(6, return_state=True)(a)
    z = layers.GRU(6, return_sequences=True)(b, s)
    return fitted(keras.Model([a, b], layers.Dense(2)(layers.Add()([y, z]))), [rows(5, 4), rows(3, 4)], rows(3, 2))


def masks():
    """A layer with a mask and without; a mask that is computed."""
    a, m = keras.Input((5, 8)), keras.Input((5, 5), dtype="bool")
    attention = layers.MultiHeadAttention(2, 4)
    y = layers.Add()([attention(a, a), attention(a, a, attention_mask=m), attention(query=a, value=a, use_causal_mask=False)])
    x = [rows(5, 8), random.random(size=(16, 5, 5)) > 0.4]
    return fitted(keras.Model([a, m], layers.Dense(2)(y)), x, rows(5, 2))


def often():
    """A layer that is called many times, with more layers between."""
    x = i = keras.Input((4,))
    shared = layers.Dense(4, activation="tanh")
    for _ in range(3):
        x = shared(layers.BatchNormalization()(x, training=False)) + x
    return fitted(keras.Model(i, layers.Dense(1)(x)), rows(4), rows(1))


def cut():
    """A model up to a layer of another one, and an input that no output needs."""
    i, unused = keras.Input((4,)), keras.Input((2,), name="unused")
    x = layers.Dense(5, name="first")(i)
    whole = keras.Model(i, layers.Dense(1, name="last")(layers.Dense(3, activation="relu", name="middle")(x)))
    return Case(keras.Model([whole.input, unused], whole.get_layer("middle").output), [rows(4), rows(2)])


def behind():
    """A model from a layer of another one on."""
    i = keras.Input((4,))
    x = layers.Dense(5, name="first")(i)
    y = layers.Dense(1, name="last")(layers.Dense(3, activation="relu", name="middle")(x))
    return Case(keras.Model(x, y), rows(5))


def computed():
    """Operations with tensors, numbers, arrays and slices."""
    a, b = keras.Input((6, 4), name="a"), keras.Input((6, 4), name="b")
    x = layers.Dense(4)(a * 2.0 - b / 4 + np.arange(4, dtype="float32"))
    first, second = keras.ops.split(keras.ops.tanh(x), 2, axis=1)
    x = keras.ops.concatenate([first[:, ::-1], second[:, :, :2], keras.ops.softmax(first, axis=-1)[..., 1:]], axis=-1)
    x = keras.ops.einsum("bij,bkj->bik", x, x) + keras.ops.mean(x, axis=-1, keepdims=True)
    return fitted(keras.Model([a, b], layers.Dense(1)(keras.ops.reshape(x, (-1, 9)))), [rows(6, 4), rows(6, 4)], rows(1))


ARCHITECTURES = {f.__name__: f for f in (cnn, residual, text, transformer, separable, nested, model_as_output, frozen, untrained,
                                         uncompiled, wide)}
GRAPHS = {f.__name__: f for f in (objects, structures, model_of_two_outputs, model_called_by_names, translation, masks, often, cut,
                                  behind, computed)}

# ---- every class ----

REGULAR = dict(kernel_regularizer=regularizers.L1L2(0.1, 0.2), bias_regularizer=regularizers.L1(0.1), kernel_constraint="non_neg")
IMAGE, SEQUENCE, VECTOR = (8, 8, 3), (6, 4), (5,)
LAYERS = {
    "dense": (VECTOR, lambda: layers.Dense(3, activation="relu", use_bias=False)),
    "dense_options": (VECTOR, lambda: layers.Dense(3, activity_regularizer="l2", bias_initializer="ones", **REGULAR)),
    "conv1d": (SEQUENCE, lambda: layers.Conv1D(3, 3, padding="causal", dilation_rate=2, activation="tanh")),
    "conv2d": (IMAGE, lambda: layers.Conv2D(4, (3, 2), strides=(2, 1), padding="same", **REGULAR)),
    "conv2d_dilated": (IMAGE, lambda: layers.Conv2D(4, 3, dilation_rate=2, kernel_initializer=initializers.HeNormal(seed=3))),
    "conv2d_transpose": (IMAGE, lambda: layers.Conv2DTranspose(4, 3, strides=2, padding="same")),
    "depthwise_conv2d": (IMAGE, lambda: layers.DepthwiseConv2D(3, depth_multiplier=2)),
    "separable_conv2d": (IMAGE, lambda: layers.SeparableConv2D(4, 3, depth_multiplier=2, activation="elu")),
    "max_pooling1d": (SEQUENCE, lambda: layers.MaxPooling1D(3, strides=1, padding="same")),
    "max_pooling2d": (IMAGE, lambda: layers.MaxPooling2D((3, 2))),
    "average_pooling1d": (SEQUENCE, lambda: layers.AveragePooling1D(2)),
    "average_pooling2d": (IMAGE, lambda: layers.AveragePooling2D(3, strides=2, padding="same")),
    "global_max_pooling1d": (SEQUENCE, layers.GlobalMaxPooling1D),
    "global_max_pooling2d": (IMAGE, lambda: layers.GlobalMaxPooling2D(keepdims=True)),
    "global_average_pooling1d": (SEQUENCE, layers.GlobalAveragePooling1D),
    "global_average_pooling2d": (IMAGE, layers.GlobalAveragePooling2D),
    "batch_normalization": (IMAGE, lambda: layers.BatchNormalization(momentum=0.9, epsilon=0.01)),
    "batch_normalization_plain": (VECTOR, lambda: layers.BatchNormalization(center=False, scale=False)),
    "layer_normalization": (SEQUENCE, lambda: layers.LayerNormalization(axis=[1, 2])),
    "group_normalization": (IMAGE, lambda: layers.GroupNormalization(3, scale=False)),
    "normalization": (IMAGE, lambda: layers.Normalization(mean=[1.0, 2.0, 3.0], variance=[1.0, 4.0, 9.0])),
    "normalization_inverted": (VECTOR, lambda: layers.Normalization(mean=0.5, variance=4.0, invert=True)),
    "dropout": (VECTOR, lambda: layers.Dropout(0.5, seed=3)),
    "spatial_dropout2d": (IMAGE, lambda: layers.SpatialDropout2D(0.5)),
    "flatten": (IMAGE, layers.Flatten),
    "reshape": (IMAGE, lambda: layers.Reshape((4, -1))),
    "permute": (IMAGE, lambda: layers.Permute((3, 1, 2))),
    "zero_padding2d": (IMAGE, lambda: layers.ZeroPadding2D(((1, 2), (3, 4)))),
    "cropping2d": (IMAGE, lambda: layers.Cropping2D(((1, 2), (0, 1)))),
    "up_sampling2d": (IMAGE, lambda: layers.UpSampling2D((3, 2))),
    "up_sampling2d_bilinear": (IMAGE, lambda: layers.UpSampling2D(2, interpolation="bilinear")),
    "relu": (VECTOR, lambda: layers.ReLU(max_value=2, negative_slope=0.1, threshold=0.5)),
    "leaky_relu": (VECTOR, lambda: layers.LeakyReLU(negative_slope=0.2)),
    "softmax": (SEQUENCE, lambda: layers.Softmax(axis=1)),
    "lstm": (SEQUENCE, lambda: layers.LSTM(3, dropout=0.1, recurrent_dropout=0.1, unit_forget_bias=False)),
    "lstm_options": (SEQUENCE, lambda: layers.LSTM(3, return_sequences=True, go_backwards=True, use_bias=False)),
    "gru": (SEQUENCE, lambda: layers.GRU(3)),
    "gru_before": (SEQUENCE, lambda: layers.GRU(3, reset_after=False, recurrent_activation="hard_sigmoid")),
    "simple_rnn": (SEQUENCE, lambda: layers.SimpleRNN(3, activation="relu", return_sequences=True)),
    "bidirectional": (SEQUENCE, lambda: layers.Bidirectional(layers.GRU(3, return_sequences=True), merge_mode="ave")),
    "bidirectional_simple": (SEQUENCE, lambda: layers.Bidirectional(layers.SimpleRNN(3, use_bias=False))),
    "time_distributed": (SEQUENCE, lambda: layers.TimeDistributed(layers.Dense(3))),
    "time_distributed_conv": ((2,) + IMAGE, lambda: layers.TimeDistributed(layers.Conv2D(2, 3))),
    "rescaling": (IMAGE, lambda: layers.Rescaling(0.5, offset=1.0)),
    "random_flip": (IMAGE, lambda: layers.RandomFlip(seed=3)),
    "random_rotation": (IMAGE, lambda: layers.RandomRotation((-0.1, 0.2), fill_mode="constant", interpolation="nearest")),
    "random_crop": (IMAGE, lambda: layers.RandomCrop(8, 8)),
}
ACTIVATIONS = ("linear relu relu6 gelu sigmoid tanh softplus softsign elu selu leaky_relu silu hard_sigmoid mish exponential "
               "softmax log_softmax").split()

MERGES = {
    "add": layers.Add, "subtract": layers.Subtract, "multiply": layers.Multiply, "average": layers.Average,
    "maximum": layers.Maximum, "minimum": layers.Minimum, "concatenate": lambda: layers.Concatenate(axis=1),
    "dot": lambda: layers.Dot((2, 2), normalize=True),
}

INITIALIZERS = [
    initializers.Zeros(), initializers.Ones(), initializers.Constant(0.5), initializers.Identity(gain=2.0),
    initializers.RandomNormal(0.1, 0.2, seed=3), initializers.RandomUniform(-1, 2), initializers.TruncatedNormal(stddev=0.3),
    initializers.VarianceScaling(2.0, "fan_out", "uniform"), initializers.GlorotUniform(seed=1), initializers.GlorotNormal(),
    initializers.HeUniform(), initializers.HeNormal(), initializers.LecunUniform(), initializers.LecunNormal(),
    initializers.Orthogonal(gain=0.5),
]
CONSTRAINTS = [constraints.MaxNorm(3, axis=[0, 1]), constraints.MinMaxNorm(0.1, 0.9, 0.5, axis=1), constraints.NonNeg(),
               constraints.UnitNorm()]
EVERY = dict(weight_decay=0.01, clipvalue=0.5, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=5)
OPTIMIZERS = {
    "sgd": lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True), "sgd_plain": lambda: optimizers.SGD(0.1),
    "adam": lambda: optimizers.Adam(0.01, 0.8, 0.99, 1e-6, amsgrad=True, **EVERY),
    "adam_accumulating": lambda: optimizers.Adam(0.01, gradient_accumulation_steps=2, global_clipnorm=1.0),
    "adamw": lambda: optimizers.AdamW(0.01, 0.02), "adamax": lambda: optimizers.Adamax(0.01),
    "nadam": lambda: optimizers.Nadam(0.01),
    "lion": lambda: optimizers.Lion(0.01), "lamb": lambda: optimizers.Lamb(0.01),
    "rmsprop": lambda: optimizers.RMSprop(0.01, 0.8, momentum=0.5, centered=True),
    "adagrad": lambda: optimizers.Adagrad(0.01, 0.2), "adadelta": lambda: optimizers.Adadelta(0.01, 0.9),
    "ftrl": lambda: optimizers.Ftrl(0.01, l1_regularization_strength=0.1, l2_regularization_strength=0.2, beta=0.1),
    "adafactor": lambda: optimizers.Adafactor(0.05, weight_decay=0.01), "muon": lambda: optimizers.Muon(0.01, weight_decay=0.1),
    "muon_options": lambda: optimizers.Muon(0.01, weight_decay=None, rms_rate=None, exclude_layers=["dense"], ns_steps=3),
    "schedule_free_adamw": lambda: optimizers.ScheduleFreeAdamW(0.01, warmup_steps=3),
    "loss_scale": lambda: optimizers.LossScaleOptimizer(optimizers.Adam(0.01), initial_scale=1024.0, dynamic_growth_steps=2),
    "loss_scale_factor": lambda: optimizers.SGD(0.1, momentum=0.9, loss_scale_factor=64.0),
    "exponential_decay": lambda: optimizers.SGD(optimizers.schedules.ExponentialDecay(0.1, 10, 0.9, staircase=True)),
    "inverse_time_decay": lambda: optimizers.SGD(optimizers.schedules.InverseTimeDecay(0.1, 10, 0.9)),
    "polynomial_decay": lambda: optimizers.SGD(optimizers.schedules.PolynomialDecay(0.1, 10, 0.01, 2.0, cycle=True)),
    "cosine_decay": lambda: optimizers.SGD(optimizers.schedules.CosineDecay(0.1, 10, 0.1)),
    "cosine_decay_restarts": lambda: optimizers.SGD(optimizers.schedules.CosineDecayRestarts(0.1, 10, 1.5, 0.9, 0.1)),
    "piecewise_constant_decay": lambda: optimizers.SGD(optimizers.schedules.PiecewiseConstantDecay([4, 8], [0.1, 0.05, 0.01])),
    "piecewise_constant_decay_long": lambda: optimizers.SGD(
        optimizers.schedules.PiecewiseConstantDecay(list(range(12)), [0.1 / (i + 1) for i in range(13)])),
}
LOSSES = [
    losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.1), losses.CategoricalCrossentropy(from_logits=True),
    losses.MeanSquaredError(), losses.MeanAbsoluteError(reduction="sum"), losses.Huber(0.5), losses.LogCosh(), losses.Hinge(),
    losses.KLDivergence(), losses.MeanAbsolutePercentageError(), losses.MeanSquaredLogarithmicError(), losses.CosineSimilarity(),
    losses.Poisson(), losses.SquaredHinge(), losses.CategoricalHinge(), "mse", "mae",
    losses.BinaryFocalCrossentropy(apply_class_balancing=True, gamma=3.0), losses.CategoricalFocalCrossentropy(alpha=0.4),
    losses.Dice(), losses.Dice(axis=-1), losses.Tversky(alpha=0.3, beta=0.7),
]
METRICS = [  # names of their own where Keras would not tell two apart
    metrics.BinaryAccuracy(threshold=0.3), metrics.CategoricalAccuracy(name="right"), metrics.TopKCategoricalAccuracy(k=2),
    metrics.Precision(thresholds=0.4), metrics.Recall(class_id=1), metrics.AUC(num_thresholds=30, curve="PR"),
    metrics.F1Score(average="macro", threshold=0.5), metrics.TruePositives(), metrics.TrueNegatives(), metrics.FalsePositives(),
    metrics.FalseNegatives(), metrics.MeanSquaredError(), metrics.RootMeanSquaredError(), metrics.MeanAbsoluteError(),
    metrics.CosineSimilarity(), metrics.CategoricalCrossentropy(from_logits=True), metrics.BinaryCrossentropy(from_logits=True),
    metrics.KLDivergence(), "accuracy", "mae", metrics.Precision(thresholds=[0.3, 0.6], name="precisions"),
    metrics.Precision(top_k=2, name="precision_of_two"), metrics.AUC(thresholds=[0.2, 0.5], name="auc_at"),
    metrics.AUC(multi_label=True, label_weights=[1.0, 2.0, 3.0], num_thresholds=20, name="auc_each"),
    metrics.FBetaScore(average="weighted", beta=2.0), metrics.R2Score(), metrics.PearsonCorrelation(),
    metrics.ConcordanceCorrelation(), metrics.OneHotIoU(3, [0, 2], name="iou"), metrics.OneHotMeanIoU(3, name="mean_iou"),
    metrics.BinaryIoU([1], 0.4, name="binary_iou"), metrics.PrecisionAtRecall(0.5), metrics.RecallAtPrecision(0.3),
    metrics.SensitivityAtSpecificity(0.4), metrics.SpecificityAtSensitivity(0.4), metrics.Accuracy(name="equal"),
]


def layer_case(shape, make):
    return Case(shaken(keras.Sequential([keras.Input(shape), make()])), rows(*shape))


def merge_case(make):
    inputs = [keras.Input((3, 4)), keras.Input((3, 4))]
    return Case(keras.Model(inputs, make()(inputs)), [rows(3, 4), rows(3, 4)])


def embedding_case():
    model = keras.Sequential([keras.Input((4,), dtype="int32"), layers.Embedding(9, 3, embeddings_regularizer="l2")])
    return Case(model, ids(9, 4))


def attention_case(call):
    q, v, k = (keras.Input((5, 6)) for _ in range(3))
    layer = layers.MultiHeadAttention(2, 3, value_dim=4, use_bias=call != "bare")
    x = [layers.Dense(6)(t) for t in (q, v, k)]
    y = {"two": lambda: layer(*x[:2]), "three": lambda: layer(*x), "key_and_value": lambda: layer(x[0], key=x[2], value=x[1]),
         "named": lambda: layer(query=x[0], key=x[2], value=x[1]), "bare": lambda: layer(*x[:2])}[call]()
    inputs = [q, v] if call in ("two", "bare") else [q, v, k]
    return Case(shaken(keras.Model(inputs, y)), [rows(5, 6) for _ in inputs])


def activations():
    i = keras.Input(VECTOR)
    return Case(keras.Model(i, [layers.Activation(word)(i) for word in ACTIVATIONS]), rows(*VECTOR))


def dense(option, values):
    return Case(shaken(keras.Sequential([keras.Input((3,))] + [layers.Dense(3, **{option: v}) for v in values])), rows(3))


def compiled_with(**options):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, activation="softmax"), layers.Dense(3, activation="sigmoid")])
    model.compile(**options)
    x, y = rows(4), np.eye(3, dtype="float32")[ids(3)]
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    return Case(model, x, y)


def every_loss():
    i = keras.Input((4,))
    model = keras.Model(i, [layers.Dense(3, activation="sigmoid", name="out%d" % k)(i) for k in range(len(LOSSES))])
    model.compile("sgd", LOSSES, loss_weights=[0.1 * (k + 1) for k in range(len(LOSSES))])
    x, y = rows(4), [np.eye(3, dtype="float32")[ids(3)] for _ in LOSSES]
    model.fit(x, y, batch_size=8, epochs=1, verbose=0)
    return Case(model, x, y)


def classes():
    yield from ((("layer_" + n), lambda s=s, f=f: layer_case(s, f)) for n, (s, f) in LAYERS.items())
    yield from ((("layer_" + n), lambda f=f: merge_case(f)) for n, f in MERGES.items())
    yield "layer_embedding", embedding_case
    yield from (("attention_" + n, lambda n=n: attention_case(n)) for n in ("two", "three", "key_and_value", "named", "bare"))
    yield from ((f.__name__, f) for f in (activations, every_loss))
    yield "initializers", lambda: dense("kernel_initializer", INITIALIZERS)
    yield "constraints", lambda: dense("kernel_constraint", CONSTRAINTS)
    yield "every_metric", lambda: compiled_with(loss="mse", metrics=METRICS)
    yield from (("optimizer_" + n, lambda f=f: compiled_with(optimizer=f(), loss="mse")) for n, f in OPTIMIZERS.items())


# ---- both ways ----


def predictions(model, x):
    y = model.predict(x if len(x) > 1 else x[0], verbose=0)
    return keras.tree.flatten(y)


def close(what, ours, theirs):
    assert len(ours) == len(theirs), "%s: %d outputs: should be %d" % (what, len(ours), len(theirs))
    for i, (a, b) in enumerate(zip(ours, theirs)):
        assert a.shape == b.shape, "%s: output %d is %s: should be %s" % (what, i, a.shape, b.shape)
        error = np.abs(a - b).max() / max(1.0, np.abs(b).max())
        assert error <= BOUND, "%s: output %d is off by %g" % (what, i, error)


def same_values(what, ours, theirs):
    assert len(ours) == len(theirs), "%s: %d values: should be %d" % (what, len(ours), len(theirs))
    for a, b in zip(ours, theirs):
        assert np.array_equal(a.numpy(), b.numpy()), "%s: %s is not what was sent" % (what, b.name)


def plain(config):
    """Without what differs although nothing does: the name of an input, whole numbers as floats, what calls say by default."""
    if isinstance(config, dict):
        if config.get("class_name") == "InputLayer":
            config = dict(config, config=dict(config["config"], name=None))
        drop = ("shared_object_id", "build_config", "mask", "training", "return_attention_scores")
        return {k: plain(v) for k, v in config.items() if k not in drop}
    if isinstance(config, (list, tuple)):
        return plain(config[0]) if len(config) == 1 and isinstance(config[0], int) else [plain(v) for v in config]
    return float(config) if isinstance(config, int) and not isinstance(config, bool) else config


def difference(a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for k in list(a) + [k for k in b if k not in a]:
            if k not in a or k not in b:
                return "%s/%s is only in one" % (path, k)
            found = difference(a[k], b[k], path + "/" + k)
            if found:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            found = difference(x, y, "%s/%d" % (path, i))
            if found:
                return found
        return None
    return None if a == b else "%s is %s: should be %s" % (path, a, b)


def same_config(case, model):
    ours, theirs = plain(model.get_config()), plain(case.model.get_config())
    found = difference(ours, theirs)
    assert not found, "config%s" % found
    if case.model.compiled:
        found = difference(plain(compiled(model)), plain(compiled(case.model)))
        assert not found, "compile_config%s" % found


def compiled(model):
    config = dict(model.get_compile_config())
    config.pop("jit_compile", None)
    for key in ("metrics", "weighted_metrics", "loss"):
        config[key] = named(config.get(key))
    return config


SHORT = {"mse": "MeanSquaredError", "mae": "MeanAbsoluteError", "binary_crossentropy": "BinaryCrossentropy"}


def named(value):
    """A short name is a class with its defaults."""
    if isinstance(value, list):
        return [named(v) for v in value]
    if isinstance(value, dict) and "class_name" not in value:
        return {k: named(v) for k, v in value.items()}
    if isinstance(value, dict) and value.get("config", {}).get("name") in SHORT:
        return value["class_name"]
    return SHORT.get(value, value) if isinstance(value, str) else value


def datasets(blob):
    found = {}
    with h5py.File(io.BytesIO(blob)) as f:
        f.visititems(lambda n, o: found.__setitem__(n, o.shape if isinstance(o, h5py.Dataset) else None))
    return {n: s for n, s in found.items() if not n.startswith("lockstep") and "/_" not in n}


def same_layout(folder):
    ours, theirs = (datasets(zipfile.ZipFile("%s/%s.keras" % (folder, n)).read("model.weights.h5")) for n in ("ours", "theirs"))
    assert ours == theirs, "weights: only ours %s, only theirs %s" % (
        sorted(set(ours) - set(theirs))[:5], sorted(set(theirs) - set(ours))[:5])


def load(folder, name, count):
    return [np.load("%s/%s.%d.npy" % (folder, name, i)) for i in range(count)]


def send(case, folder):
    os.makedirs(folder, exist_ok=True)
    case.model.save(folder + "/theirs.keras")
    if case.old:
        keras.models.load_model(folder + "/theirs.keras").save(folder + "/theirs.h5")  # which changes the model's compile config
    for name, arrays in (("x", case.x), ("y", case.y or [])):
        for i, a in enumerate(arrays):
            np.save("%s/%s.%d.npy" % (folder, name, i), a)


def check_back(case, folder):
    right = predictions(case.model, case.x)
    close("what lockstep predicts", load(folder, "ours", len(right)), right)
    model = keras.models.load_model(folder + "/ours.keras")
    close("ours.keras", predictions(model, case.x), right)
    same_values("ours.keras", model.weights, case.model.weights)
    assert [l.name for l in model.layers] == [l.name for l in case.model.layers], "the order of the layers"
    if case.model.compiled:
        sent = case.model.optimizer.variables  # Keras makes the slots that are missing
        same_values("the optimiser", model.optimizer.variables[:len(sent)], sent)
    if case.old:
        close("what lockstep predicts for theirs.h5", load(folder, "old", len(right)), right)
    same_config(case, model)
    same_layout(folder)
    with open(folder + "/ours.json") as f:
        described = keras.models.model_from_json(f.read())
    described.load_weights(folder + "/ours.weights.h5")
    close("ours.json with ours.weights.h5", predictions(described, case.x), right)


def check_trained(case, folder):
    model = keras.models.load_model(folder + "/trained.keras")
    close("trained.keras", predictions(model, case.x), load(folder, "trained", len(model.outputs)))
    inner = [getattr(m.optimizer, "inner_optimizer", m.optimizer) for m in (case.model, model)]
    before, after = (int(o._iterations.numpy()) for o in inner)
    assert after == before + 4, "%d iterations after %d" % (after, before)
    if case.model.optimizer.built:
        assert len(model.optimizer.variables) == len(case.model.optimizer.variables), "the optimiser came without its state"
    assert any(not np.array_equal(a.numpy(), b.numpy()) for a, b in zip(model.weights, case.model.weights)), "nothing was trained"
    model.fit(case.x if len(case.x) > 1 else case.x[0], case.y if len(case.y) > 1 else case.y[0], epochs=1, verbose=0)


def main():
    program = sys.argv[1]
    folder = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="lockstep-interop-")
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    cases = {n: f for n, f in list(ARCHITECTURES.items()) + list(GRAPHS.items()) + list(classes()) if part in n}
    made, failed = {}, 0
    for name, make in cases.items():
        keras.utils.set_random_seed(len(made))
        made[name] = make()
        made[name].old = name in ARCHITECTURES
        send(made[name], folder + "/" + name)
    subprocess.run([program, folder] + list(made))
    for name, case in made.items():
        try:
            check_back(case, folder + "/" + name)
            if case.y:
                check_trained(case, folder + "/" + name)
        except Exception as error:
            failed += 1
            print("FAILED", name, type(error).__name__, str(error)[:1200])
    print("%d passed, %d failed" % (len(made) - failed, failed))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
