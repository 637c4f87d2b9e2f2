"""keras2.py PROGRAM [--only NAME] [--keep FOLDER]: models that Keras 2 wrote, in each of its formats.

tf_keras is Keras 2. Each model is written as .h5, as .keras, and as JSON with the weights in .h5; PROGRAM (build/release/tests/
interop/models) loads each of them, predicts, and trains what is compiled. Predictions must be within 1e-5 of those of tf_keras, the
losses of three steps within 2e-5. What lockstep writes is a file of Keras 3, which is loaded there. The last line is "N passed, N
failed"."""
import argparse
import os
import shutil
import sys
import tempfile

os.environ.setdefault("TF_USE_LEGACY_KERAS", "0")
import exchange  # which sets what TensorFlow logs
import keras
import numpy as np
import tf_keras
from tf_keras import layers

N = 8
random = np.random.default_rng(3)


def rows(*shape):
    return random.normal(size=(N,) + shape).astype("float32")


def ids(most, *shape):
    return random.integers(0, most, size=(N,) + shape).astype("int32")


def compiled(m, x, y, optimizer="adam", loss="mse", **options):
    m.compile(optimizer, loss, **options)
    return m, x, y


def sequential_cnn():
    return compiled(tf_keras.Sequential([
        layers.Conv2D(6, 3, activation="relu", input_shape=(12, 12, 3)), layers.BatchNormalization(), layers.MaxPooling2D(),
        layers.Dropout(0.25), layers.Flatten(), layers.Dense(5, activation="softmax")]),
        rows(12, 12, 3), ids(5), loss="sparse_categorical_crossentropy", metrics=["accuracy"])


def functional_residual():
    i = tf_keras.Input((10, 10, 3))
    x = layers.Conv2D(4, 3, padding="same", activation="relu")(i)
    x = layers.Add()([x, layers.Conv2D(4, 1)(i)])
    return compiled(tf_keras.Model(i, layers.Dense(2)(layers.GlobalAveragePooling2D()(x))), rows(10, 10, 3), rows(2),
                    tf_keras.optimizers.SGD(0.05, momentum=0.9))


def two_in_two_out():
    a, b = tf_keras.Input((4,), name="a"), tf_keras.Input((6,), name="b")
    x = layers.concatenate([layers.Dense(5, activation="tanh")(a), layers.Dense(5)(b)])
    m = tf_keras.Model([a, b], [layers.Dense(1, name="one")(x), layers.Dense(3, activation="softmax", name="two")(x)])
    m.compile("rmsprop", {"one": "mse", "two": "sparse_categorical_crossentropy"}, loss_weights={"one": 0.5, "two": 1.0})
    return m, [rows(4), rows(6)], [rows(1), ids(3)]


def text_bilstm():
    return compiled(tf_keras.Sequential([
        layers.Embedding(20, 6, input_length=7), layers.Bidirectional(layers.LSTM(5, return_sequences=True)), layers.GRU(4),
        layers.Dense(1, activation="sigmoid")]), ids(20, 7), ids(2, 1).astype("float32"), loss="binary_crossentropy")


def masked_lstm():
    x = np.concatenate([ids(19, 4) + 1, np.zeros((N, 3), "int32")], 1)
    return compiled(tf_keras.Sequential([
        layers.Embedding(20, 6, mask_zero=True, input_length=7), layers.LSTM(5), layers.Dense(1)]), x, rows(1))


def attention():
    i = tf_keras.Input((6, 8))
    x = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([i, layers.MultiHeadAttention(2, 4)(i, i)]))
    x = layers.Dense(8, activation="gelu")(x)
    return compiled(tf_keras.Model(i, layers.Dense(3)(layers.GlobalAveragePooling1D()(x))), rows(6, 8), rows(3))


def separable_and_depthwise():
    return compiled(tf_keras.Sequential([
        layers.SeparableConv2D(6, 3, padding="same", activation="relu", input_shape=(10, 10, 3)),
        layers.DepthwiseConv2D(3, strides=2), layers.BatchNormalization(), layers.ReLU(6.0),
        layers.Conv2DTranspose(4, 2, strides=2), layers.LeakyReLU(0.1), layers.GlobalMaxPooling2D(), layers.Dense(2)]),
        rows(10, 10, 3), rows(2), "nadam")


def nested_and_shared():
    shared = tf_keras.Sequential([layers.Dense(6, activation="relu", input_shape=(5,)), layers.Dense(4)], name="tower")
    a, b = tf_keras.Input((5,)), tf_keras.Input((5,))
    x = layers.Dot(axes=1, normalize=True)([shared(a), shared(b)])
    return compiled(tf_keras.Model([a, b], layers.Dense(1)(x)), [rows(5), rows(5)], rows(1), "adagrad")


def operators():
    i = tf_keras.Input((6, 4))
    x = layers.Dense(4)(i)
    return compiled(tf_keras.Model(i, layers.Dense(2)(x + i * 2.0 - x / 3.0)), rows(6, 4), rows(6, 2))


def preprocessing():
    normalize = layers.Normalization()
    normalize.adapt(rows(8, 8, 3) * 2 + 1)
    return compiled(tf_keras.Sequential([
        tf_keras.Input((8, 8, 3)), normalize, layers.Rescaling(0.5, offset=0.1), layers.RandomFlip("horizontal"),
        layers.Conv2D(4, 3, kernel_regularizer="l2"), layers.Flatten(), layers.Dense(2)]), rows(8, 8, 3), rows(2))


def time_distributed():
    return compiled(tf_keras.Sequential([
        layers.TimeDistributed(layers.Conv2D(3, 3, activation="relu"), input_shape=(4, 8, 8, 2)),
        layers.TimeDistributed(layers.Flatten()), layers.SimpleRNN(5), layers.Dense(2)]), rows(4, 8, 8, 2), rows(2), "adamax")


def mobilenet():
    m = tf_keras.applications.MobileNetV2(weights=None, alpha=0.35, input_shape=(32, 32, 3), classes=5)
    return m, rows(32, 32, 3), None


MODELS = {f.__name__: f for f in (
    sequential_cnn, functional_residual, two_in_two_out, text_bilstm, masked_lstm, attention, separable_and_depthwise,
    nested_and_shared, operators, preprocessing, time_distributed, mobilenet)}


def write(model, folder):
    model.save(folder + "/old.h5")
    model.save(folder + "/old.keras")
    model.save_weights(folder + "/described.h5")
    with open(folder + "/described.json", "w") as f:
        f.write(model.to_json())


def quiet(model):
    for layer in model._flatten_layers():
        if isinstance(getattr(layer, "rate", None), float):
            layer.rate = 0.0


def losses(model, x, y):
    model.run_eagerly = True
    return [model.train_on_batch(x, y, reset_metrics=True, return_dict=True) for _ in range(exchange.STEPS)]


def judge(program, folder, model, x, y):
    """One format at a time: (name, verdict, why)."""
    write(model, folder)
    right = tf_keras.models.load_model(folder + "/old.keras").predict(x, verbose=0)  # an adapted layer predicts otherwise before
    right = right if isinstance(right, list) else [right]
    flips = any("random" in layer.name for layer in model._flatten_layers())
    # Optimisers of Keras 3, and so of lockstep, square the rows of an embedding's gradient one by one; those of Keras 2 add them
    # first.
    looks_up = any("embedding" in layer.name for layer in model._flatten_layers())
    theirs = losses(model, x, y) if y is not None and not flips and not looks_up else None
    for file in ("old.h5", "old.keras", "described.json"):
        for old in ("ours.keras", "trained.keras"):
            if os.path.exists(folder + "/" + old):
                os.remove(folder + "/" + old)
        steps = exchange.STEPS if y is not None and not file.endswith("json") else 0
        try:
            reply = exchange.run(program, folder, file, steps, exchange.REPLICAS)
            exchange.close("prediction", exchange.got(folder, "ours", len(right)), right, exchange.OUTPUT_BOUND)
            found = exchange.back(folder, "ours", x, "the file written back", right, exchange.OUTPUT_BOUND)
            assert isinstance(found, keras.Model)
            for i, (a, b) in enumerate(zip(reply.steps, theirs or [])):
                if not exchange.same_step("loss", a["loss"], b["loss"], 10 * exchange.LOSS_BOUND):
                    raise exchange.Verdict("wrong", "step %d: loss is %.7g: should be %.7g" % (i, a["loss"], b["loss"]))
            yield file, "full", ""
        except exchange.Verdict as verdict:
            yield file, verdict.verdict, verdict.why


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    passed = failed = 0
    for name in [n for n in MODELS if arguments.only in n]:
        folder = os.path.join(arguments.keep, name) if arguments.keep else tempfile.mkdtemp(prefix="lockstep-keras2-")
        os.makedirs(folder, exist_ok=True)
        tf_keras.utils.set_random_seed(1)
        model, x, y = MODELS[name]()
        quiet(model)
        for v in model.weights:
            value = v.numpy() + (random.normal(size=v.shape) * 0.05).astype(v.numpy().dtype)
            v.assign(np.abs(value) + 0.01 if "variance" in v.name else value)
        for kind, arrays in (("x", x), ("y", y)):
            for i, a in enumerate([] if arrays is None else arrays if isinstance(arrays, list) else [arrays]):
                np.save("%s/%s.%d.npy" % (folder, kind, i), a)
        for file, verdict, why in judge(arguments.program, folder, model, x, y):
            good = verdict == "full"
            passed, failed = passed + good, failed + (not good)
            print("%s%-26s %-15s %-8s %s" % ("" if good else "FAILED ", name, file, verdict, why))
        if not arguments.keep:
            shutil.rmtree(folder)
    print("%d passed, %d failed" % (passed, failed))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
