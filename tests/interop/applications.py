"""applications.py PROGRAM [--small] [--only NAME] [--size N] [--keep FOLDER]: all models of keras.applications, exchanged with
lockstep.

Each is built without weights and, as NAME/imagenet, as weights="imagenet" builds it (with the layers that prepare pictures), with
weights that Keras draws. It is loaded, predicts within 1e-4, takes two SGD steps and is written back (exchange.py); seconds and
memory of loading are printed beside Keras'. Each model has a process of its own, one at a time, so that memory stays below 10 GB.
--small takes the smallest of each family, with small pictures, in few processes. The last line is "N passed, N failed"."""
import argparse
import contextlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time

SMALL = {"ConvNeXtTiny": 32, "DenseNet121": 32, "EfficientNetB0": 32, "EfficientNetV2B0": 32, "InceptionResNetV2": 75,
         "InceptionV3": 75, "MobileNet": 32, "MobileNetV2": 32, "MobileNetV3Small": 32, "NASNetMobile": 32, "ResNet50": 32,
         "ResNet50V2": 32, "VGG16": 32, "Xception": 71}
SMALL_IMAGENET = ("ConvNeXtTiny", "EfficientNetB0")
PREPARED = ("ConvNeXt", "EfficientNet", "MobileNetV3")  # build other layers for weights="imagenet", or have include_preprocessing
ROWS, CLASSES, BOUND = 2, 10, 1e-4


@contextlib.contextmanager
def no_download():
    """What a model asks for is not there to be loaded: it keeps the weights it begins with."""
    import keras
    from keras.src.utils import file_utils
    get, load = file_utils.get_file, keras.Model.load_weights
    file_utils.get_file, keras.Model.load_weights = (lambda *a, **k: "none.h5"), (lambda *a, **k: None)
    try:
        yield
    finally:
        file_utils.get_file, keras.Model.load_weights = get, load


def built(name, size):
    import keras
    cls, imagenet = getattr(keras.applications, name.partition("/")[0]), name.endswith("/imagenet")
    options = dict(input_shape=(size, size, 3), classes=CLASSES)
    if imagenet:
        options = dict(include_top=False, pooling="avg", input_shape=(size, size, 3))
    if "include_preprocessing" in inspect.signature(cls).parameters and not imagenet:
        options["include_preprocessing"] = False
    with no_download():
        m = cls(weights="imagenet" if imagenet else None, **options)
    if imagenet:
        m = keras.Model(m.inputs, keras.layers.Dense(CLASSES, activation="softmax")(m.output))
    m.compile(keras.optimizers.SGD(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return m


def measure(path):
    """Of Keras, in a process of its own: seconds of loading a file, and most memory in MiB, with TensorFlow."""
    import keras
    begun = time.time()
    keras.models.load_model(path)
    with open("/proc/self/status") as f:
        memory = [int(line.split()[1]) // 1024 for line in f if line.startswith("VmHWM")]
    print(json.dumps([time.time() - begun] + memory), flush=True)


def one(name, arguments):
    """(verdict, {"why", "ours": [seconds, MiB], "keras": the same})"""
    import exchange
    import numpy as np
    exchange.STEPS, exchange.OUTPUT_BOUND, exchange.SECONDS, exchange.RUNS = 2, BOUND, 1800, 2
    random, run, loads = np.random.default_rng(exchange.seed_of(name)), exchange.run, []
    size = SMALL[name.partition("/")[0]] if arguments.small else arguments.size

    def make():
        m = built(name, size)
        exchange.shake(m, random, 0.01)
        pixels = random.uniform(0, 255 if "imagenet" in name else 1, (ROWS, size, size, 3)).astype("float32")
        return exchange.Case(m, pixels, random.integers(0, CLASSES, ROWS))

    def watched(*rest):
        reply = run(*rest)
        loads.append(reply.load)
        return reply

    exchange.run = watched
    with tempfile.TemporaryDirectory(prefix="lockstep-applications-", dir=arguments.keep) as folder:
        verdict, why = exchange.exchange(arguments.program, make, name, folder, noise_too=False)
        exchange.run = run
        keras_load = [0, 0]
        if not arguments.small and loads:
            command = [sys.executable] + sys.argv + ["--measure", folder + "/theirs.keras"]
            done = subprocess.run(command, capture_output=True, text=True)
            keras_load = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else keras_load
    return verdict, {"why": why, "ours": loads[0] if loads else [0, 0], "keras": keras_load}


def names_of(arguments):
    import keras
    found = [n for n in dir(keras.applications) if inspect.isfunction(getattr(keras.applications, n)) and n[0].isupper()]
    found = [n for n in found if n in SMALL or not arguments.small]
    found += [n + "/imagenet" for n in found if n.startswith(PREPARED) and (n in SMALL_IMAGENET or not arguments.small)]
    return [n for n in sorted(found) if not arguments.only or arguments.only in n]


def alone(name):
    """One model in a process of its own, so that memory is free afterwards."""
    done = subprocess.run([sys.executable] + sys.argv + ["--one", name], capture_output=True, text=True, timeout=7200)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    said = json.loads(lines[-1]) if lines else {"verdict": "crash", "why": {"why": done.stderr[-300:]}}
    return said["verdict"], said["why"]


def show(name, verdict, said):
    said = said if isinstance(said, dict) else {"why": said}
    ours, theirs = said.get("ours", [0, 0]), said.get("keras", [0, 0])
    print("%s%-30s %-8s loads in %6.2f s, %5d MiB (Keras: %6.2f s, %5d MiB with TensorFlow)  %s" % (
        "" if verdict == "full" else "FAILED ", name, verdict, *ours, *theirs, said["why"]), flush=True)
    return verdict == "full"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--keep", help="a folder for the files, instead of /tmp")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes, with --small")
    parser.add_argument("--part", help="for its own processes: i/n")
    parser.add_argument("--one", help="for its own processes: a name")
    parser.add_argument("--measure", help="for its own processes: a file")
    arguments = parser.parse_args()
    import exchange
    if arguments.measure:
        return measure(arguments.measure)
    if arguments.one:
        return exchange.say(arguments.one, *one(arguments.one, arguments))
    names = names_of(arguments)
    if arguments.part:
        part, _, parts = arguments.part.partition("/")
        for name in names[int(part)::int(parts)]:
            exchange.say(name, *one(name, arguments))
        return 0
    shared = exchange.share(names, arguments) if arguments.small else {}
    good = [show(name, *(shared.get(name) or alone(name))) for name in names]
    print("%d passed, %d failed" % (sum(good), len(good) - sum(good)))
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
