"""weights.py LOCKSTEP [FOLDER]: weights in all formats, written and read by the real programs and by `lockstep convert`, both ways,
to the bit.

Every case is a model made and trained here. Its weights are written by Keras (.keras, .weights.h5, .h5), TensorFlow (a checkpoint),
safetensors and numpy. `lockstep convert` makes each of these from each of them; what it made is read here by the program whose
format it is, and must have the same weights and, where the format has it, the same state of the optimiser. Then arrays of all
types, and the files of LOCKSTEP_GOLDEN, if it is set.
"""
import json
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import h5py
import keras
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
import tensorflow as tf
from keras import layers

lockstep = os.path.abspath(sys.argv[1])
random = np.random.default_rng(3)
passed = failed = 0


def check(name, action):
    global passed, failed
    try:
        action()
        passed += 1
    except Exception as error:
        failed += 1
        print("FAILED", name, type(error).__name__, str(error)[:1000])


def convert(source, to, model=None):
    done = subprocess.run([lockstep, "convert", source, to] + (["--model", model] if model else []), capture_output=True, text=True)
    assert done.returncode == 0, "convert %s %s: %s" % (source, to, done.stderr)
    return to


def same(what, ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, \
        "%s is %s %s, not %s %s" % (what, ours.dtype, ours.shape, theirs.dtype, theirs.shape)
    assert ours.tobytes() == theirs.tobytes(), "%s has other values" % what


# ---- models ----


def rows(*shape):
    return random.normal(size=(16,) + shape).astype("float32")


def row():
    m = keras.Sequential([keras.Input((6, 6, 2)), layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(),
                              layers.Dropout(0.2), layers.Flatten(), layers.Dense(3)], name="row")
    m.compile(keras.optimizers.Adam(0.01), "mse")
    m.fit(rows(6, 6, 2), rows(3), epochs=1, verbose=0)
    return m


def graph():
    tower = keras.Sequential([keras.Input((4,)), layers.Dense(4, activation="tanh"), layers.BatchNormalization()], name="tower")
    i, x = keras.Input((4,)), keras.Input((4,))
    block = keras.Model(i, layers.Add()([layers.Dense(4)(i), i]), name="block")
    m = keras.Model(x, layers.Dense(2)(layers.Concatenate()([tower(x), block(x)])))
    m.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
    m.fit(rows(4), rows(2), epochs=1, verbose=0)
    return m


def sequence():
    x = keras.Input((5, 8))
    y = layers.MultiHeadAttention(2, 4)(x, x)
    y = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(y)
    m = keras.Model(x, layers.Dense(2)(layers.GRU(3)(y)))
    m.compile(keras.optimizers.RMSprop(0.01), "mse")
    m.fit(rows(5, 8), rows(2), epochs=1, verbose=0)
    return m


def values(model):
    return [w.numpy() for w in model.weights]


def state(model):
    return [v.numpy() for v in model.optimizer.variables]


def write_all(model, folder):
    """What the real programs make of a model: name to whether the state of the optimiser is in it."""
    model.save(folder + "/theirs.keras")
    model.save_weights(folder + "/theirs.weights.h5")
    model.save(folder + "/theirs.h5")
    tf.train.Checkpoint(model=model).write(folder + "/theirs.ckpt")
    named = {w.path: w.numpy() for w in model.weights}
    safetensors.numpy.save_file(named, folder + "/theirs.safetensors", {"format": "np"})
    np.savez(folder + "/theirs.npz", **named)
    return {"theirs.keras": True, "theirs.weights.h5": True, "theirs.h5": True, "theirs.ckpt": True,
                "theirs.safetensors": False, "theirs.npz": False}


def fresh(folder):
    """The same model with other weights and an optimiser that has done nothing."""
    m = keras.models.load_model(folder + "/theirs.keras")
    for w in m.weights + m.optimizer.variables:
        w.assign(np.zeros_like(w.numpy()))
    return m


def from_keras(path, folder):
    m = keras.models.load_model(path)
    return values(m), state(m)


def from_weights(path, folder):
    m = fresh(folder)
    m.load_weights(path)
    return values(m), state(m)


def from_checkpoint(path, folder):
    m = fresh(folder)
    tf.train.Checkpoint(model=m).read(path).assert_existing_objects_matched()
    return values(m), state(m)


def by_names(named, folder):
    m = fresh(folder)
    slots = {k: v for k, v in named.items() if k.split("/")[0] == m.optimizer.name}
    ours = {k: v for k, v in named.items() if k not in slots and k != "lockstep/calls"}
    assert len(ours) == len(m.weights), "%d arrays for %d weights: %s" % (len(ours), len(m.weights), sorted(ours))
    out = []
    for w in m.weights:
        fitting = [k for k in ours if k == w.path] or [k for k in ours if k.endswith("/" + w.path) or w.path.endswith("/" + k)]
        assert len(fitting) == 1, "%s: %s of %s" % (w.path, fitting, sorted(ours))
        out.append(ours[fitting[0]])
    return out, None


def from_safetensors(path, folder):
    return by_names(safetensors.numpy.load_file(path), folder)


def from_npz(path, folder):
    with np.load(path) as f:
        return by_names({k: f[k] for k in f.files}, folder)


READ = {"keras": from_keras, "weights.h5": from_weights, "h5": from_keras, "ckpt": from_checkpoint,
        "safetensors": from_safetensors, "npz": from_npz}


def exchange(model, folder, source, has_state, end):
    ours = convert(folder + "/" + source, folder + "/from-%s.%s" % (source, end), folder + "/theirs.keras")
    weights, slots = READ[end](ours, folder)
    assert len(weights) == len(model.weights)
    for w, value in zip(model.weights, weights):
        same(w.path, value, w.numpy())
    if not has_state or slots is None:
        return
    if end == "h5":  # Keras does not restore slots from this format, not from its own files either
        slots = slots[:2]
    assert len(slots) == len(model.optimizer.variables) or end == "h5"
    for v, value in zip(model.optimizer.variables, slots):
        same(v.path, value, v.numpy())


def models(folder):
    for make in (row, graph, sequence):
        keras.utils.set_random_seed(5)
        model, own = make(), folder + "/" + make.__name__
        os.makedirs(own)
        for source, has_state in write_all(model, own).items():
            for end in READ:
                check("%s: %s to %s" % (make.__name__, source, end), lambda: exchange(model, own, source, has_state, end))


# ---- arrays ----

TYPES = ["float64", "float32", "float16", "int64", "int32", "uint8", "bool"]


def arrays():
    out = {"deep/%s" % t: random.integers(0, 2 if t == "bool" else 100, size=(2, 3)).astype(t) for t in TYPES}
    out["deep/empty"], out["scalar"] = np.zeros((0, 3), "float32"), np.float32(1.5).reshape(())
    out["deep/odd"] = np.array([0x7FC00001, 0x80000000, 0xFF800000, 1], "uint32").view("float32")  # a NaN, -0, -inf, the smallest
    return out


def read_ckpt(path):
    reader = tf.train.load_checkpoint(path)
    return {k: np.asarray(reader.get_tensor(k)) for k in reader.get_variable_to_shape_map()}


def read_h5(path):
    out = {}
    with h5py.File(path) as f:
        f.visititems(lambda name, item: out.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return {k: np.asarray(v) for k, v in out.items()}


def read_npz(path):
    with np.load(path) as f:
        return {k: f[k] for k in f.files}


PLAIN = {"safetensors": safetensors.numpy.load_file, "npz": read_npz, "ckpt": read_ckpt, "h5": read_h5}


def write_h5(named, path):
    with h5py.File(path, "w") as f:
        for k, v in named.items():
            f.create_dataset(k, data=v)


def same_arrays(ours, theirs):
    assert sorted(ours) == sorted(theirs), "%s, not %s" % (sorted(ours), sorted(theirs))
    for k in theirs:
        same(k, ours[k], theirs[k])


def plain(folder):
    named = arrays()
    safetensors.numpy.save_file({k: np.ascontiguousarray(v).reshape(v.shape) for k, v in named.items()},
                                    folder + "/a.safetensors", {"format": "np", "note": "kept"})
    np.savez(folder + "/a.npz", **named)
    np.savez_compressed(folder + "/b.npz", **named)
    write_h5(named, folder + "/a.h5")
    for source in ("a.safetensors", "a.npz", "b.npz", "a.h5"):
        for end in PLAIN:
            check("%s to %s" % (source, end), lambda: same_arrays(PLAIN[end](convert(folder + "/" + source,
                  folder + "/%s-to.%s" % (source, end))), named))
    for source in ("a.npz-to.ckpt", "a.npz-to.h5"):
        for end in PLAIN:
            check("%s to %s" % (source, end), lambda: same_arrays(PLAIN[end](convert(folder + "/" + source,
                  folder + "/%s-back.%s" % (source, end))), named))

    def metadata():
        with safetensors.safe_open(convert(folder + "/a.safetensors", folder + "/again.safetensors"), "np") as f:
            assert f.metadata() == {"format": "np", "note": "kept"}, f.metadata()

    def half():
        bits = random.integers(0, 65536, size=(5, 7)).astype("uint16")
        safetensors.numpy.save_file({"x": bits.view(ml_dtypes.bfloat16)}, folder + "/half.safetensors")
        convert(folder + "/half.safetensors", folder + "/half.npz")
        same("bfloat16", np.load(folder + "/half.npz")["x"].view("uint16"), bits)
        convert(folder + "/half.npz", folder + "/half2.safetensors")
        same("bfloat16", safetensors.numpy.load_file(folder + "/half2.safetensors")["x"].view("uint16"), bits)

    check("metadata of safetensors", metadata)
    check("bfloat16", half)


# ---- golden files ----


def golden(folder, files):
    with open(files + "/fashion_values.json") as f:
        told = json.load(f)
    right = read_npz(files + "/fashion_values.npz")
    for source in ("fashion.keras", "fashion.weights.h5", "fashion.h5", "checkpoint/ckpt-1", "checkpoint"):
        for end in ("keras", "weights.h5", "h5", "ckpt", "safetensors", "npz"):
            def one():
                ours = convert(files + "/" + source, folder + "/golden-%s.%s" % (source.replace("/", "-"), end),
                                       files + "/fashion.keras")
                os.makedirs(folder + "/golden", exist_ok=True)
                if not os.path.exists(folder + "/golden/theirs.keras"):
                    os.symlink(files + "/fashion.keras", folder + "/golden/theirs.keras")
                weights, _ = READ[end](ours, folder + "/golden")
                for w, value in zip(told["weights"], weights):
                    same(w["name"], value, right[w["key"]])
            check("golden %s to %s" % (source, end), one)
    wide = read_npz(files + "/safetensors_values.npz")

    def types():
        ours = read_npz(convert(files + "/arrays.safetensors", folder + "/types.npz"))
        assert sorted(ours) == sorted(wide)
        for k in wide:
            assert np.array_equal(ours[k], wide[k]), k
    check("golden arrays.safetensors", types)


def main():
    folder = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="lockstep-weights-")
    models(folder)
    plain(folder)
    if os.environ.get("LOCKSTEP_GOLDEN"):
        golden(folder, os.path.abspath(os.environ["LOCKSTEP_GOLDEN"]) + "/files")
    print("%d passed, %d failed" % (passed, failed))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
