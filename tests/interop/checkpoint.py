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
            save(make, here, seed)
            compare(here)
            print("TensorFlow restored", name)
        except Exception as error:
            failed += 1
            print("FAILED", name, type(error).__name__, error)
    read = subprocess.run([program, "read", folder])
    print("%d passed, %d failed" % (len(CASES) - failed, failed))
    return int(failed > 0 or read.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
