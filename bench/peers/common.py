"""What the peer programs share: the model file as a list of layers with shapes, rows, and the two ways they are asked to run.

    peer.py --model FILE --batch G --replicas N --seconds S [--data mnist|synthetic] [--variant V]    one JSON line, then the end
    peer.py --model FILE --replicas N [--data ...] [--variant V] --serve                              "run G S" per line of standard
                                                                                                      input, a JSON line for each

A peer gives a function make(batch) that prepares and returns run(steps), which returns when these steps are through; where run has
a method times(seconds), that one gives the steps and the seconds of each window itself. A reply has
the best and the median rate of windows within the seconds asked for; what tracing, compiling and the first steps take is not in
it, but the first reply says how long after the start of the process its first step was through. All threads that compute are those
the driver allows by the processor mask (os.sched_getaffinity)."""

import argparse
import gzip
import json
import os
import resource
import statistics
import struct
import sys
import time
from collections import namedtuple

WINDOWS = 5
WARM_UP = 0.5  # seconds

# ---- the model ----

# inputs: names of nodes; in_shapes, shape: of a row, batch not counted
Node = namedtuple("Node", "name kind config inputs in_shapes shape")


def window(size, kernel, stride, padding):
    return -(-size // stride) if padding == "same" else (size - kernel) // stride + 1


def pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


def shape_of(kind, config, shapes):
    """The shape of a row behind a layer."""
    first = shapes[0]
    if kind in ("Conv2D", "MaxPooling2D", "AveragePooling2D"):
        pool = kind != "Conv2D"
        kernel = pair(config.get("pool_size", 2) if pool else config["kernel_size"])
        stride = pair(config.get("strides") or (kernel if pool else 1))
        side = [window(first[i], kernel[i], stride[i], config.get("padding", "valid")) for i in (0, 1)]
        return (*side, first[2] if pool else config["filters"])
    if kind == "Dense":
        return (*first[:-1], config["units"])
    if kind == "Flatten":
        size = 1
        for n in first:
            size *= n
        return (size,)
    if kind in ("GlobalAveragePooling2D", "GlobalAveragePooling1D", "GlobalMaxPooling2D"):
        return (first[-1],)
    if kind in ("BatchNormalization", "LayerNormalization", "ReLU", "Activation", "Add", "Dropout", "MultiHeadAttention"):
        return first
    raise SystemExit(f"there is no layer {kind} in the peers' programs")


def tensors_in(value):
    """Names of the nodes a call of a functional model is given, in their order."""
    if isinstance(value, dict):
        return [value["config"]["keras_history"][0]] if value.get("class_name") == "__keras_tensor__" else []
    return [name for item in value for name in tensors_in(item)] if isinstance(value, list) else []


def read_model(path):
    """Nodes in an order in which they can be computed; the first is the input, the last the output."""
    with open(path) as file:
        config = json.load(file)["config"]
    nodes, done, before = [], {}, None
    for i, layer in enumerate(config["layers"]):
        kind, c = layer["class_name"], layer["config"]
        name = layer.get("name") or c.get("name") or f"{kind}_{i}"
        if kind == "InputLayer":
            node = Node(name, kind, c, [], [], tuple((c.get("batch_shape") or c["batch_input_shape"])[1:]))
        else:
            calls = layer.get("inbound_nodes")
            inputs = tensors_in(calls[0]["args"]) if calls else [before]
            shapes = [done[n].shape for n in inputs]
            node = Node(name, kind, c, inputs, shapes, shape_of(kind, c, shapes))
        done[name] = node
        nodes.append(node)
        before = name
    return nodes


def l2_of(config):
    regularizer = config.get("kernel_regularizer")
    return regularizer["config"]["l2"] if regularizer else 0.0


# ---- rows ----


def read_idx(path):
    with gzip.open(path) as file:
        data = file.read()
    rank = data[3]
    sizes = struct.unpack(f">{rank}i", data[4 : 4 + 4 * rank])
    import numpy

    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * rank).reshape(sizes)


def rows(shape, count, data):
    """count rows of x (float32) and labels (int32). mnist: from $LOCKSTEP_DATA, where the shape fits; else drawn ones."""
    import numpy

    folder = os.path.join(os.environ.get("LOCKSTEP_DATA", ""), "mnist")
    size = int(numpy.prod(shape))
    if data == "mnist" and size == 784 and os.path.isdir(folder):
        x = read_idx(os.path.join(folder, "train-images-idx3-ubyte.gz"))
        y = read_idx(os.path.join(folder, "train-labels-idx1-ubyte.gz"))
        x = (x.reshape(len(x), *shape) / numpy.float32(255)).astype(numpy.float32)
        again = -(-count // len(x))
        return numpy.tile(x, (again,) + (1,) * len(shape))[:count], numpy.tile(y.astype(numpy.int32), again)[:count]
    random = numpy.random.default_rng(1)
    return random.random((count, *shape), numpy.float32), random.integers(0, 10, count).astype(numpy.int32)


def batches(shape, batch, data, count=8):
    x, y = rows(shape, batch * count, data)
    return [(x[i * batch : (i + 1) * batch].copy(), y[i * batch : (i + 1) * batch].copy()) for i in range(count)]


# ---- running ----


def cores():
    return len(os.sched_getaffinity(0))


def seconds_since_start():
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as file:
        return float(file.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


def windows(run, seconds, each):
    """Steps and seconds of windows that fill the time; each: what a step is expected to take."""
    end = time.perf_counter() + seconds
    while True:
        steps = max(1, int(seconds / WINDOWS / each))
        begin = time.perf_counter()
        run(steps)
        taken = time.perf_counter() - begin
        yield steps, taken
        each = taken / steps
        left = end - time.perf_counter()
        if left < 0.5 * seconds / WINDOWS or left < 0.5 * each:
            return


def arguments(variants):
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--replicas", type=int, default=1)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--data", default="synthetic", choices=("synthetic", "mnist"))
    p.add_argument("--variant", default=variants[0], choices=variants)
    p.add_argument("--serve", action="store_true")
    return p.parse_args()


class Server:
    """Keeps what was made for each batch size, and what a step of it takes; the first steps of each warm up."""

    def __init__(self, make):
        self.make, self.made, self.each, self.first = make, {}, {}, None

    def prepare(self, batch):
        run = self.made[batch] = self.make(batch)
        run(1)
        if self.first is None:
            self.first = seconds_since_start()
        end = time.perf_counter() + WARM_UP
        while time.perf_counter() < end:
            begin = time.perf_counter()
            run(1)
            self.each[batch] = time.perf_counter() - begin

    def rates(self, batch, seconds):
        run = self.made[batch]
        taken = list(run.times(seconds) if hasattr(run, "times") else windows(run, seconds, self.each[batch]))
        self.each[batch] = taken[-1][1] / taken[-1][0]
        return [round(batch * steps / t, 1) for steps, t in taken]

    def reply(self, batch, seconds):
        if batch not in self.made:
            self.prepare(batch)
        rates = self.rates(batch, seconds) if seconds > 0 else [0]
        return {"best": max(rates), "median": statistics.median(rates), "windows": rates, "batch": batch,
                "first_step_s": round(self.first, 3),
                "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)}


def commands(args):
    """(batch, seconds) in turn: the one of the command line, or what standard input asks for."""
    if not args.serve:
        yield args.batch, args.seconds
        return
    for line in sys.stdin:
        words = line.split()
        if len(words) != 3 or words[0] != "run":
            return
        yield int(words[1]), float(words[2])


def serve(args, make, out=None):
    server = Server(make)
    for batch, seconds in commands(args):
        print(json.dumps(server.reply(batch, seconds)), file=out or sys.stdout, flush=True)
