"""Structured data, operations in graphs, single layers people use, and what compile() takes."""
import keras
import numpy as np
from keras import layers, losses, metrics, ops, optimizers, regularizers

from .common import ids, model, one_hot, parts, rows, truths, N

# ---- structured data ----


@model
def structured_normalization():
    inputs = [keras.Input((1,), name=n) for n in ("age", "trestbps", "chol")]
    parts_of = []
    for i in inputs:
        normalize = layers.Normalization()
        normalize.adapt(rows(1) * 3 + 5)
        parts_of.append(normalize(i))
    x = layers.Dropout(0.5)(layers.Dense(8, activation="relu")(layers.concatenate(parts_of)))
    m = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
    m.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return m, [rows(1) for _ in inputs], truths(1)


@model
def structured_normalization_axis_none():
    normalize = layers.Normalization(input_shape=(1,), axis=None)
    normalize.adapt(rows() * 2 + 1)
    m = keras.Sequential([normalize, layers.Dense(units=1)])
    m.compile(optimizer=optimizers.Adam(learning_rate=0.1), loss="mean_absolute_error")
    return m, rows(1), rows(1)


@model
def structured_category_encoding():
    i, j = keras.Input((1,), dtype="int32"), keras.Input((3,), dtype="int32")
    x = layers.concatenate([layers.CategoryEncoding(num_tokens=5, output_mode="one_hot")(i),
                            layers.CategoryEncoding(num_tokens=6, output_mode="multi_hot")(j)])
    m = keras.Model([i, j], layers.Dense(1)(x))
    m.compile("adam", "mse")
    return m, [ids(5, 1), ids(6, 3)], rows(1)


@model
def structured_integer_lookup():
    lookup = layers.IntegerLookup(vocabulary=[3, 5, 8], output_mode="one_hot")
    i = keras.Input((1,), dtype="int64")
    m = keras.Model(i, layers.Dense(1)(lookup(i)))
    m.compile("adam", "mse")
    return m, ids(10, 1).astype("int64"), rows(1)


@model
def structured_string_lookup():
    i = keras.Input((1,), dtype="string")
    m = keras.Model(i, layers.Dense(1)(layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")(i)))
    return m, np.array([["a"]] * N)


@model
def structured_discretization_hashing():
    i, j = keras.Input((1,)), keras.Input((1,), dtype="int64")
    x = layers.concatenate([layers.Discretization(bin_boundaries=[-1.0, 0.0, 0.5], output_mode="one_hot")(i),
                            layers.Hashing(num_bins=4, output_mode="one_hot")(j)])
    m = keras.Model([i, j], layers.Dense(1)(x))
    m.compile("adam", "mse")
    return m, [rows(1), ids(50, 1).astype("int64")], rows(1)


@model
def wide_and_deep():
    wide, deep = keras.Input((5,), name="wide"), keras.Input((6,), name="deep")
    x = deep
    for units in [8, 8]:
        x = layers.Dropout(0.1)(layers.ReLU()(layers.BatchNormalization()(layers.Dense(units)(x))))
    x = layers.concatenate([layers.BatchNormalization()(wide), x])
    m = keras.Model([wide, deep], layers.Dense(3, activation="softmax")(x))
    m.compile(optimizers.Adam(1e-3), losses.SparseCategoricalCrossentropy(), metrics=[metrics.SparseCategoricalAccuracy()])
    return m, [rows(5), rows(6)], ids(3)


@model
def imbalanced_metrics():
    m = keras.Sequential([
        keras.Input((6,)), layers.Dense(8, activation="relu"), layers.Dropout(0.3),
        layers.Dense(1, activation="sigmoid", bias_initializer=keras.initializers.Constant(-1.5))])
    m.compile(optimizer=optimizers.Adam(1e-2), loss="binary_crossentropy", metrics=[
        metrics.FalseNegatives(name="fn"), metrics.FalsePositives(name="fp"), metrics.TrueNegatives(name="tn"),
        metrics.TruePositives(name="tp"), metrics.Precision(name="precision"), metrics.Recall(name="recall"),
        metrics.AUC(name="auc"), metrics.AUC(name="prc", curve="PR"), metrics.BinaryAccuracy(name="accuracy")])
    return m, rows(6), truths(1)


# ---- single layers ----


def simple(shape, *between, **compiled):
    m = keras.Sequential([keras.Input(shape), *between, layers.Dense(2)])
    m.compile(**dict(dict(optimizer="adam", loss="mse"), **compiled))
    x = rows(*shape)
    return m, x, rows(*m(x).shape[1:])


@model
def selu_alphadropout():
    return simple((6,), layers.Dense(8, activation="selu", kernel_initializer="lecun_normal"), layers.AlphaDropout(0.1))


@model
def gaussian_noise_dropout():
    return simple((6,), layers.GaussianNoise(0.1), layers.Dense(8, activation="relu"), layers.GaussianDropout(0.2))


@model
def prelu_elu():
    return simple((6, 5), layers.Dense(8), layers.PReLU(shared_axes=[1]), layers.Dense(8), layers.ELU(alpha=0.5))


@model
def noise_shape_dropout():
    return simple((6, 4), layers.Dropout(0.3, noise_shape=(None, 1, 4)))


@model
def groupnorm_unitnorm():
    return simple((6, 4), layers.GroupNormalization(2), layers.UnitNormalization())


@model
def einsum_dense():
    return simple((6, 4), layers.EinsumDense("abc,cd->abd", output_shape=(None, 8), bias_axes="d", activation="relu"))


@model
def spatial_dropout1d_zeropad1d():
    return simple((6, 4), layers.SpatialDropout1D(0.2), layers.ZeroPadding1D(2), layers.Conv1D(4, 3, activation="relu"))


@model
def bn_momentum_zero_and_axis1():
    return simple((6, 4), layers.BatchNormalization(momentum=0.0), layers.BatchNormalization(axis=1))


@model
def layernorm_axis12():
    return simple((6, 4), layers.LayerNormalization(axis=[1, 2]))


@model
def layernorm_axis1():
    return simple((6, 4), layers.LayerNormalization(axis=1))


@model
def activity_regularizer_ar():
    return simple((6,), layers.Dense(8, activation="relu", activity_regularizer=regularizers.L1(1e-3)),
                  layers.Dense(4, activity_regularizer="l2", kernel_regularizer=regularizers.L1L2(1e-3, 1e-3)))


@model
def lora_dense():
    m = keras.Sequential([keras.Input((6,)), layers.Dense(8), layers.Dense(2)])
    m.layers[0].enable_lora(rank=4)
    m.compile("adam", "mse")
    return m, rows(6), rows(2)


@model
def quantized_int8():
    m = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="relu"), layers.Dense(2)])
    m(rows(6))
    m.quantize("int8")
    return m, rows(6)


@model
def mixed_float16():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return simple((6,), layers.Dense(8, activation="relu"), layers.BatchNormalization(), layers.Dense(4, dtype="float32"))
    finally:
        keras.config.set_dtype_policy("float32")


@model
def mixed_bfloat16():
    return simple((6,), layers.Dense(8, activation="relu", dtype="mixed_bfloat16"), layers.Dense(4, dtype="mixed_bfloat16"))


@model
def mixed_input_autocast_float32_layer():
    return simple((6,), layers.Dense(8, activation="relu", dtype="float64"), layers.Dense(4))


# ---- operations ----


def graph(of, *shapes):
    """Layers before and after, so that gradients go through."""
    inputs = [keras.Input(s) for s in shapes or [(6, 4)]]
    m = keras.Model(inputs if len(inputs) > 1 else inputs[0], layers.Dense(2)(of(*[layers.Dense(i.shape[-1])(i) for i in inputs])))
    m.compile("adam", "mse")
    x = [rows(*i.shape[1:]) for i in inputs]
    x = x if len(x) > 1 else x[0]
    return m, x, rows(*m(x).shape[1:])


@model
def ops_relu_softmax():
    return graph(lambda x: ops.softmax(ops.relu(x)))


@model
def ops_softmax_axis1():
    return graph(lambda x: ops.softmax(x, axis=1))


@model
def ops_concatenate_axis1():
    return graph(lambda a, b: ops.concatenate([a, b], axis=1), (6, 4), (3, 4))


@model
def ops_leaky_relu():
    return graph(ops.leaky_relu)


@model
def ops_leaky_relu_slope():
    return graph(lambda x: ops.leaky_relu(x, negative_slope=0.3))


@model
def ops_in_functional_mean_concat():
    return graph(lambda x: ops.concatenate([ops.mean(x, axis=1), ops.max(x, axis=1), ops.reshape(x, (-1, 24))], axis=-1))


@model
def ops_average():
    return graph(lambda x: ops.average(x, axis=-1) * ops.mean(x, axis=-1))


@model
def ops_add_different_rank():
    return graph(lambda a, b: a + ops.expand_dims(b, 1), (6, 4), (4,))


@model
def op_scale_plus_const():
    return graph(lambda x: x * 2.0 + 1.0)


@model
def op_slice():
    return graph(lambda x: x[:, 0] - x[:, -1])


@model
def op_divide():
    return graph(lambda x: x / 255.0)


@model
def op_add_ranks():
    """numpy's broadcasting adds row k of the second to step k of all rows of the first."""
    a, b = keras.Input((4, 3)), keras.Input((3,))
    m = keras.Model([a, b], a + b)
    return m, [rows(4, 3)[:4], rows(3)[:4]]


@model
def op_broadcast_reshaped():
    a, b = keras.Input((4, 3)), keras.Input((3,))
    b_row = layers.Reshape((1, 3))(layers.Dense(3)(b))
    m = keras.Model([a, b], a + b_row - b_row * a)
    m.compile("sgd", "mse")
    return m, [rows(4, 3), rows(3)], rows(4, 3)


@model
def lambda_python():
    m = keras.Sequential([keras.Input((6,)), layers.Lambda(lambda x: x ** 2), layers.Dense(2)])
    return m, rows(6)


# ---- compile ----


@model
def lr_schedule_in_file():
    schedule = optimizers.schedules.ExponentialDecay(initial_learning_rate=1e-2, decay_steps=2, decay_rate=0.9)
    return simple((6,), layers.Dense(8, activation="relu"), optimizer=optimizers.SGD(learning_rate=schedule))


@model
def gradient_clipping_ema():
    return simple((6,), layers.Dense(8, activation="tanh"), optimizer=optimizers.Adam(1e-2, clipnorm=1.0, use_ema=True,
                                                                                        ema_overwrite_frequency=2))


@model
def jit_and_steps_per_execution():
    return simple((6,), layers.Dense(8, activation="relu"), steps_per_execution=4, jit_compile=True)


@model
def label_smoothing_and_topk():
    m = keras.Sequential([keras.Input((6,)), layers.Dense(5, activation="softmax")])
    m.compile(optimizers.Adamax(), losses.CategoricalCrossentropy(label_smoothing=0.1),
              metrics=[metrics.TopKCategoricalAccuracy(k=2), "accuracy"])
    return m, rows(6), one_hot(5)


@model
def regression_metrics():
    return simple((6,), layers.Dense(8, activation="relu"), loss="huber",
                  metrics=["mae", "mse", metrics.RootMeanSquaredError(), metrics.R2Score()])


@model
def segmentation_mean_iou():
    m = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(3, 3, padding="same", activation="softmax")])
    m.compile("adam", "sparse_categorical_crossentropy", metrics=[metrics.MeanIoU(num_classes=3, sparse_y_pred=False)])
    return m, parts(8, 8, 3), ids(3, 8, 8)


@model
def focal_loss_detector():
    m = keras.Sequential([keras.Input((6,)), layers.Dense(4, activation="sigmoid")])
    m.compile("adam", losses.BinaryFocalCrossentropy(gamma=2.0),
              metrics=[metrics.AUC(multi_label=True), metrics.F1Score(threshold=0.5)])
    return m, rows(6), truths(4)


@model
def dice_loss_segmentation():
    m = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(1, 3, padding="same", activation="sigmoid")])
    m.compile("adam", losses.Dice(), metrics=[metrics.BinaryIoU(target_class_ids=[1])])
    return m, parts(8, 8, 3), truths(8, 8, 1)
