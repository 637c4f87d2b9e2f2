#!/usr/bin/env python3
"""branches.py FOLDER: writes a training run of a model with branches, in the format of train/ of the stored results.

    python3 tests/golden/branches.py tests/golden/own/train/branches

The model is a graph: its layers say with "from" whose outputs they read. Keras is not needed: every number is a float64 that
remembers which operations made it, so the gradients come from the definitions of the layers and not from rules of the library.
Weights are listed as Keras lists those of a graph, by depth, which is not the order of the layers. Nothing reads `idle`, so it is
not part of the model and has no weights. Random numbers are multiples of 1/512, which are exact in float32; the same script
writes the same bytes."""
import json
import math
import random
import struct
import sys
import zipfile

ROWS, LENGTH, WORDS, CLASSES, BATCH, L2, RATE, MOMENTUM = 16, 4, 6, 3, 6, 0.05, 0.25, 0.5
LAYERS = [
    {"layer": "embedding", "name": "tokens", "rows": WORDS, "units": 2},
    {"layer": "flatten", "name": "row"},
    {"layer": "dense", "name": "side", "units": 3, "activation": "tanh", "from": ["row"]},
    {"layer": "dense", "name": "left", "units": 4, "activation": "relu", "from": ["row"]},
    {"layer": "dense", "name": "idle", "units": 5, "from": ["left"]},
    {"layer": "dense", "name": "right", "units": 4, "use_bias": False, "l2": L2, "from": ["row"]},
    {"layer": "add", "name": "sum", "from": ["left", "right"]},
    {"layer": "concat", "name": "both", "from": ["sum", "row", "side"]},
    {"layer": "dense", "name": "out", "units": CLASSES, "from": ["both"]},
]
WEIGHTS = [  # by depth: left and right are read by sum, side only by both
    ("tokens/embeddings", [WORDS, 2]),
    ("left/kernel", [8, 4]), ("left/bias", [4]),
    ("right/kernel", [8, 4]),
    ("side/kernel", [8, 3]), ("side/bias", [3]),
    ("out/kernel", [15, CLASSES]), ("out/bias", [CLASSES]),
]


class Number:
    """A value, and what it is made of: numbers with the derivatives by them."""

    def __init__(self, value, made_of=()):
        self.value, self.made_of, self.gradient = value, made_of, 0.0

    def __add__(self, other):
        return Number(self.value + other.value, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        return Number(self.value * other.value, ((self, other.value), (other, self.value)))

    def apply(self, value, derivative):
        return Number(value, ((self, derivative),))


def constant(x):
    return Number(x)


def relu(x):
    return x.apply(max(x.value, 0.0), float(x.value > 0))


def tanh(x):
    return x.apply(math.tanh(x.value), 1 - math.tanh(x.value) ** 2)


def add_up(numbers):
    total = numbers[0]
    for x in numbers[1:]:
        total = total + x
    return total


def find_gradients(loss):
    order, seen = [], set()

    def visit(x):
        if id(x) in seen:
            return
        seen.add(id(x))
        for part, _ in x.made_of:
            visit(part)
        order.append(x)

    visit(loss)
    loss.gradient = 1.0
    for x in reversed(order):
        for part, derivative in x.made_of:
            part.gradient += x.gradient * derivative


def dense(x, kernel, bias, units):
    y = [add_up([x[i] * kernel[i * units + k] for i in range(len(x))]) for k in range(units)]
    return [y[k] + bias[k] for k in range(units)] if bias else y


def run_model(w, words):
    row = [w["tokens/embeddings"][2 * word + k] for word in words for k in range(2)]
    side = [tanh(x) for x in dense(row, w["side/kernel"], w["side/bias"], 3)]
    left = [relu(x) for x in dense(row, w["left/kernel"], w["left/bias"], 4)]
    right = dense(row, w["right/kernel"], None, 4)
    both = [a + b for a, b in zip(left, right)] + row + side
    return dense(both, w["out/kernel"], w["out/bias"], CLASSES)


def cross_entropy(logits, label):
    exponentials = [x.apply(math.exp(x.value), math.exp(x.value)) for x in logits]
    total = add_up(exponentials)
    return total.apply(math.log(total.value), 1 / total.value) + logits[label] * constant(-1.0)


def train_step(w, state, rows, labels):
    """The loss before the update, and how many rows are right."""
    for numbers in w.values():
        for x in numbers:
            x.gradient = 0.0
    outputs = [run_model(w, words) for words in rows]
    losses = add_up([cross_entropy(y, label) for y, label in zip(outputs, labels)]) * constant(1 / BATCH)
    loss = losses + add_up([x * x for x in w["right/kernel"]]) * constant(L2)
    find_gradients(loss)
    for name, numbers in w.items():
        for i, x in enumerate(numbers):
            state[name][i] = MOMENTUM * state[name][i] - RATE * x.gradient
            x.value += state[name][i]
            x.made_of = ()
    right = [max(range(CLASSES), key=lambda k: y[k].value) == label for y, label in zip(outputs, labels)]
    return loss.value, sum(right)


def npy(values, shape, letter, kind):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (kind, ", ".join(map(str, shape)))
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + \
            struct.pack("<%d%s" % (len(values), letter), *values)


def save(path, arrays):
    with zipfile.ZipFile(path, "w") as z:
        for name, data in arrays:
            z.writestr(zipfile.ZipInfo(name + ".npy"), data)


def save_weights(path, w):
    save(path, [("w%03d" % i, npy([x.value for x in w[name]], shape, "f", "<f4")) for i, (name, shape) in enumerate(WEIGHTS)])


def save_numbers(path, numbers):
    with open(path, "w") as f:
        f.writelines("%.17g\n" % x for x in numbers)


def main(folder):
    draw = random.Random(7)
    w = {name: [Number(draw.randrange(-512, 513) / 512) for _ in range(math.prod(shape))] for name, shape in WEIGHTS}
    state = {name: [0.0] * len(numbers) for name, numbers in w.items()}
    rows = [[draw.randrange(WORDS) for _ in range(LENGTH)] for _ in range(ROWS)]
    labels = [draw.randrange(CLASSES) for _ in range(ROWS)]
    save_weights(folder + "/initial.npz", w)
    save(folder + "/inputs.npz", [("ids", npy(sum(rows, []), [ROWS, LENGTH], "i", "<i4")),
                                      ("labels", npy(labels, [ROWS], "i", "<i4"))])
    steps = [train_step(w, state, rows[i:i + BATCH], labels[i:i + BATCH]) for i in range(0, ROWS, BATCH)]
    save_weights(folder + "/final.npz", w)
    save_numbers(folder + "/losses.txt", [loss for loss, _ in steps])
    save_numbers(folder + "/correct.txt", [right for _, right in steps])
    save_numbers(folder + "/spread.txt", [0 for _ in steps])
    spec = {
        "name": "branches", "data": "synthetic", "batch": BATCH, "model": LAYERS, "input_shape": [LENGTH],
        "optimizer": {"name": "SGD", "learning_rate": RATE, "momentum": MOMENTUM},
        "loss": {"name": "SparseCategoricalCrossentropy", "from_logits": True},
        "mode": "custom", "replicas": 2, "denominator": BATCH,
        "initial": "initial.npz", "inputs": "inputs.npz", "steps": len(steps),
        "weights": [{"key": "w%03d" % i, "name": name, "shape": shape, "trainable": True}
                    for i, (name, shape) in enumerate(WEIGHTS)],
        "sizes": [[3, 3], [3, 3], [2, 2]],
    }
    with open(folder + "/spec.json", "w") as f:
        json.dump(spec, f, indent=1)
        f.write("\n")


main(sys.argv[1])
