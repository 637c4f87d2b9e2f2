"""checkpoint.py PROGRAM [FOLDER]: exchange checkpoints with TensorFlow, both ways, and compare every bit.

PROGRAM is build/release/tests/interop/checkpoint. For every case it saves `ours-1`, which is restored here into the same Keras
objects, once built before and once after, with assert_consumed; then `theirs-1` is saved here and PROGRAM restores it. Both files
must have the same keys and, where there are values, the same graph of objects; keys that begin with .LOCKSTEP are ours alone.

    python -m venv VENV && VENV/bin/pip install tensorflow-cpu==2.21.0 keras==3.15.1
    make interop PYTHON=VENV/bin/python
"""
import glob
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import keras
import ml_dtypes
import numpy as np
import tensorflow as tf
from keras import layers, optimizers
from tensorflow.core.protobuf import trackable_object_graph_pb2

Checkpoint = tf.train.Checkpoint
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Case:
    """The objects of one case: a checkpoint, how to build what is in it, and its variables in the order of the files."""

    def __init__(self, checkpoint, variables, build=lambda: None):
        self.checkpoint, self.variables, self.build = checkpoint, variables, build


def with_model(model, optimizer, row):
    def build():
        if not model.built:
            model.build((None,) + row)
        if not optimizer.built:
            optimizer.build(model.trainable_variables)

    return Case(Checkpoint(optimizer=optimizer, model=model), lambda: model.weights + optimizer.variables, build)


def tutorial():
    l2 = keras.regularizers.L2(1e-5)
    return with_model(keras.Sequential([
        layers.Conv2D(32, 3, activation="relu", kernel_regularizer=l2), layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu", kernel_regularizer=l2), layers.MaxPooling2D(), layers.Flatten(),
        layers.Dense(64, activation="relu", kernel_regularizer=l2), layers.Dense(10, kernel_regularizer=l2)]),
        optimizers.Adam(0.002), (28, 28, 1))


def normalised():
    return with_model(keras.Sequential([
        layers.Conv2D(4, 3), layers.BatchNormalization(), layers.MaxPooling2D(), layers.Flatten(), layers.Dropout(0.5),
        layers.Dense(3, activation="relu"), layers.BatchNormalization(scale=False), layers.Dense(2, use_bias=False)]),
        optimizers.SGD(0.1, momentum=0.9, nesterov=True), (8, 8, 2))


def small(optimizer):
    return with_model(keras.Sequential([layers.Dense(3), layers.Dense(2)]), optimizer, (4,))


def two_ways(x):
    h = layers.Dense(2)(layers.Dense(3)(x))
    return layers.Add()([layers.Dense(2)(x), h])


def functional():
    x = keras.Input((4,))
    return with_model(keras.Model(x, two_ways(x)), optimizers.SGD(momentum=0.9), (4,))


def attention():
    x = keras.Input((5, 4))
    return with_model(keras.Model(x, layers.MultiHeadAttention(2, 3)(x, x)), optimizers.Adam(), (5, 4))


def recurrent():
    return with_model(keras.Sequential([
        layers.LSTM(3, return_sequences=True), layers.GRU(3, return_sequences=True),
        layers.Bidirectional(layers.SimpleRNN(2, return_sequences=True)), layers.TimeDistributed(layers.Dense(3)),
        layers.Bidirectional(layers.LSTM(2))]), optimizers.Adam(), (5, 2))


def kinds():
    return with_model(keras.Sequential([
        layers.Normalization(), layers.DepthwiseConv2D(2), layers.SeparableConv2D(3, 2), layers.Conv2DTranspose(2, 2),
        layers.GroupNormalization(1), layers.LayerNormalization(), layers.Flatten(), layers.Dense(2)]),
        optimizers.Adam(), (6, 6, 2))


def words():
    return with_model(keras.Sequential([
        layers.Embedding(7, 3), layers.Conv1D(2, 2), layers.GlobalAveragePooling1D(), layers.Dense(1)]), optimizers.Adam(), (5,))


def nested():
    x, y = keras.Input((4,)), keras.Input((2,))
    row, graph = keras.Sequential([layers.Dense(3), layers.Dense(2)]), keras.Model(y, layers.Dense(3)(y))
    return with_model(keras.Model(x, layers.Dense(2)(graph(row(x)))), optimizers.Adam(), (4,))


def nested_row():
    return with_model(keras.Sequential([
        keras.Sequential([layers.Dense(3), layers.Dense(2)]), layers.Dense(2)]), optimizers.Adam(), (4,))


def compiled(case, both=False):
    """Of a compiled model the optimiser is a part."""
    case.checkpoint.model.compile(case.checkpoint.optimizer, "mse")
    if not both:
        case.checkpoint = Checkpoint(model=case.checkpoint.model)
    return case


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.second = layers.Dense(3), layers.Dense(2)

    def build(self, shape):
        self.first.build(shape)
        self.second.build((None, 3))
        self.built = True

    def call(self, x):
        return self.second(self.first(x))


def values():
    types = ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"]
    v = {t: tf.Variable(tf.zeros((2, 3), t)) for t in types}
    scalar, empty = tf.Variable(0.0), tf.Variable(tf.zeros((2, 0)))
    inner = Checkpoint(**{"shared": v["float32"], "i64": v["int64"], "a/b.c": v["uint8"]})
    root = Checkpoint(**{"inner": inner, "f32": v["float32"], "f64": v["float64"], "f16": v["float16"], "bf16": v["bfloat16"],
                         "i32": v["int32"], "truth": v["bool"], "scalar": scalar, ".empty": empty})
    return Case(root, lambda: [v[t] for t in types] + [scalar, empty])


def metrics():
    """Keras' metrics are not trackable; what they consist of is."""
    v = [tf.Variable(0.0) for _ in range(4)]
    return Case(Checkpoint(mean=Checkpoint(total=v[0], count=v[1]), accuracy=Checkpoint(total=v[2], count=v[3])), lambda: v)


CASES = {
    "tutorial": tutorial,
    "normalised": normalised,
    "sgd": lambda: small(optimizers.SGD()),
    "adam_all": lambda: small(optimizers.Adam(amsgrad=True, use_ema=True, gradient_accumulation_steps=2)),
    "adam_schedule": lambda: small(optimizers.Adam(optimizers.schedules.ExponentialDecay(0.1, 10, 0.9))),
    "adamw": lambda: small(optimizers.AdamW()),
    "adamax": lambda: small(optimizers.Adamax()),
    "nadam": lambda: small(optimizers.Nadam()),
    "lion": lambda: small(optimizers.Lion()),
    "lamb": lambda: small(optimizers.Lamb()),
    "rmsprop": lambda: small(optimizers.RMSprop(momentum=0.1, centered=True)),
    "rmsprop_plain": lambda: small(optimizers.RMSprop()),
    "adagrad": lambda: small(optimizers.Adagrad()),
    "adadelta": lambda: small(optimizers.Adadelta()),
    "ftrl": lambda: small(optimizers.Ftrl()),
    "functional": functional,
    "attention": attention,
    "recurrent": recurrent,
    "kinds": kinds,
    "words": words,
    "nested": nested,
    "nested_row": nested_row,
    "compiled": lambda: compiled(small(optimizers.Adam())),
    "compiled_functional": lambda: compiled(functional()),
    "compiled_both": lambda: compiled(small(optimizers.Adam()), both=True),
    "own": lambda: with_model(Own(), optimizers.SGD(momentum=0.9), (4,)),
    "values": values,
    "metrics": metrics,
}


def bits(x):
    x = np.asarray(x)
    return (x.shape, x.tobytes())


def as_written(array):
    """bfloat16 is two bytes without a name in npy files."""
    return array.view(ml_dtypes.bfloat16) if array.dtype.kind == "V" else array


def restore(make, folder, build_first):
    case = make()
    if build_first:
        case.build()
    status = case.checkpoint.restore(tf.train.latest_checkpoint(folder))
    if not build_first:
        case.build()
    status.assert_consumed()
    for i, v in enumerate(case.variables()):
        right = as_written(np.load("%s/ours.%03d.npy" % (folder, i)))
        assert bits(v.numpy()) == bits(right), "variable %d, %s, is %s: should be %s" % (i, v.name, v.numpy(), right)
    assert len(case.variables()) == len(glob.glob(folder + "/ours.*.npy")), "another number of variables"
    assert int(case.checkpoint.save_counter) == 1, "save_counter"


def save(make, folder, seed):
    case = make()
    case.build()
    random = np.random.default_rng(seed)
    for i, v in enumerate(case.variables()):
        value = (random.normal(size=v.shape) * 50).astype(v.numpy().dtype)
        v.assign(value)
        np.save("%s/theirs.%03d.npy" % (folder, i), value)
    case.checkpoint.save(folder + "/theirs")


def structure(prefix):
    """Keys of values, and what leads from where to where: (key path of parent, name, key path of child), where there are values."""
    reader = tf.train.load_checkpoint(prefix)
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor(GRAPH))
    path, order = {0: "(root)"}, [0]
    for i in order:
        for child in graph.nodes[i].children:
            if child.node_id not in path:
                path[child.node_id] = path[i] + "/" + child.local_name
                order.append(child.node_id)
    valued = {i for i in path if graph.nodes[i].has_checkpoint_values.value}
    edges = {(path[i], c.local_name, path[c.node_id]) for i in valued for c in graph.nodes[i].children if c.node_id in valued}
    keys = {k: t.name for k, t in reader.get_variable_to_dtype_map().items() if not k.startswith(".LOCKSTEP")}
    return keys, edges


def compare(folder):
    ours, theirs = structure(folder + "/ours-1"), structure(folder + "/theirs-1")
    for what, a, b in zip(["keys", "edges"], ours, theirs):
        assert a == b, "%s: only ours %s, only theirs %s" % (what, set(a) - set(b), set(b) - set(a))


def written_over(folder):
    """What was written over has the values that were saved, whatever its data file is called."""
    assert glob.glob(folder + "/again.data-*") == [folder + "/again.data-00001-of-00002"], glob.glob(folder + "/again.*")
    again, ours = tf.train.load_checkpoint(folder + "/again"), tf.train.load_checkpoint(folder + "/ours-1")
    for key in ours.get_variable_to_shape_map():
        assert bits(again.get_tensor(key)) == bits(ours.get_tensor(key)), key


def take_turns(folder):
    """tf.train.CheckpointManager goes on where ours was."""
    v = tf.Variable(0.0)
    manager = tf.train.CheckpointManager(Checkpoint(v=v), folder, max_to_keep=2)
    names = lambda: [os.path.basename(p) for p in manager.checkpoints]
    assert names() == ["ckpt-2", "ckpt-3"], names()
    assert os.path.basename(manager.restore_or_initialize()) == "ckpt-3" and float(v) == 7
    v.assign(8)
    manager.save()
    assert names() == ["ckpt-3", "ckpt-4"] and not os.path.exists(folder + "/ckpt-2.index"), names()


def main():
    program = sys.argv[1]
    folder = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="lockstep-interop-")
    failed = 0
    subprocess.run([program, "write", folder], check=True)
    for seed, (name, make) in enumerate(CASES.items()):
        here = folder + "/" + name
        try:
            for build_first in (True, False):
                restore(make, here, build_first)
            written_over(here)
            save(make, here, seed)
            compare(here)
            print("TensorFlow restored", name)
        except Exception as error:
            failed += 1
            print("FAILED", name, type(error).__name__, error)
    try:
        take_turns(folder + "/manager")
        print("TensorFlow's manager took its turn")
    except Exception as error:
        failed += 1
        print("FAILED manager", type(error).__name__, error)
    read = subprocess.run([program, "read", folder])
    print("%d passed, %d failed" % (len(CASES) + 1 - failed, failed))
    return int(failed > 0 or read.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
