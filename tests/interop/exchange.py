"""Exchange one model with lockstep, both ways, and judge what comes of it; everyday.py, random_models.py and others use it.

A case is a model of Keras, inputs and, where it is compiled, targets. It is saved as `theirs.keras`; PROGRAM (build/release/tests/
interop/models) loads it, predicts, writes it back, trains it and writes it again. The verdict is

    full      predictions relative to the largest output within 1e-5, loss and metrics of three steps within 2e-5 and 1e-4, both
              files that lockstep wrote are loaded by Keras and predict the same, and the weights have the same bits on other
              replicas
    refused   lockstep said, in one line, what it cannot do
    wrong     other numbers, names or files
    crash     a signal, no end in time, or nothing said
    keras     Keras cannot make or run the model

Training is chaotic where a model normalises noise: where a number differs by more than the bound, Keras computes it again from
weights and inputs moved by one part in ten million, and a difference up to some times what that makes of it is right. Losses
below 0.05, such as cosine similarities of either sign, are compared as if they were 0.05. Random layers are compared in predict and
are run in training; with rates set to 0, in training too."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
import keras
import numpy as np
import tensorflow as tf

STEPS, REPLICAS = 3, 2
OUTPUT_BOUND, LOSS_BOUND, METRIC_BOUND = 1e-5, 2e-5, 1e-4
HALF_BOUND = 2e-2  # of models that compute in 16 bits, which lockstep computes in 32
NOISE, TIMES, RUNS = 1e-7, 16, 4
SECONDS = 120  # for PROGRAM


class Verdict(Exception):
    """Ends an exchange: a verdict, and one line that says why."""

    def __init__(self, verdict, why=""):
        super().__init__(why)
        self.verdict, self.why = verdict, " ".join(str(why).split())


class Case:
    """A model, inputs and targets in the structure that fit() takes, sample weights."""

    def __init__(self, model, x, y=None, weight=None):
        self.model, self.x, self.y, self.weight = model, x, y, weight

    def targets(self):
        """In the order of the outputs."""
        if isinstance(self.y, dict) and not isinstance(self.model._outputs_struct, dict):
            return [self.y[n] for n in self.model.output_names if n in self.y]
        return flat(self.y)


def flat(tree):
    return [] if tree is None else [np.asarray(a) for a in keras.tree.flatten(tree)]


def seed_of(name):
    return zlib.crc32(name.encode())


# ---- models ----

RATES = ("rate", "dropout", "recurrent_dropout", "_dropout", "stddev")
RANDOM = ("Random", "MixUp", "CutMix", "AugMix", "RandAugment")


def layers_of(model):
    return list(model._flatten_layers())


def shake(model, random, width=0.05):
    """Move the weights from those a model begins with, so that none of them can be taken for another."""
    for v in model.weights:
        if v.dtype in ("float32", "float64") and not v.name.endswith("_scale"):
            value = v.numpy() + (random.normal(size=v.shape) * width).astype(v.dtype)
            v.assign(np.abs(value) + 0.01 if "variance" in v.name else value)
    for layer in layers_of(model):
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()


def rates_of(model):
    """(layer, attribute) of all rates above 0 of layers like Dropout."""
    return [(layer, name) for layer in layers_of(model) for name in RATES
            if isinstance(layer.__dict__.get(name), float) and layer.__dict__[name] > 0 and not is_random(layer)]


def is_random(layer):
    """It draws, whatever its rates are."""
    return layer.__class__.__name__.startswith(RANDOM)


def half(model):
    return any(str(getattr(l, "compute_dtype", "")) in ("float16", "bfloat16") for l in layers_of(model))


def channels_first(model):
    """TensorFlow has these convolutions for CPUs only where XLA compiles them."""
    return any(getattr(layer, "data_format", None) == "channels_first" for layer in layers_of(model))


def call(model, x):
    run = lambda x: model(x, training=False)
    run = tf.function(run, jit_compile=True) if channels_first(model) else run
    return [np.asarray(keras.ops.convert_to_numpy(y)) for y in keras.tree.flatten(run(x))]


def reset(model):
    for layer in layers_of(model):
        if getattr(layer, "stateful", False) and hasattr(layer, "reset_state"):
            layer.reset_state()


def train(case, steps):
    """The logs of each step. What is compiled stays as it is in the file; here it runs op by op, which needs no tracing."""
    case.model.jit_compile = channels_first(case.model)
    case.model.run_eagerly, case.model.train_function, logs = not case.model.jit_compile, None, []
    for _ in range(steps):
        case.model.reset_metrics()
        found = case.model.train_on_batch(case.x, case.y, sample_weight=case.weight, return_dict=True)
        logs.append({k: float(np.mean(v)) for k, v in found.items()})
    return logs


def moved_inputs(x, random):
    """The inputs, each number by one part in ten million."""
    move = lambda a: (a * (1 + NOISE * random.choice([-1, 1], size=a.shape))).astype(a.dtype) if a.dtype.kind == "f" else a
    return keras.tree.map_structure(move, x)


def moved(model, random):
    """Each weight by one part in ten million."""
    for v in model.weights:
        if v.dtype == "float32":
            v.assign(v.numpy() * (1 + NOISE * random.choice([-1, 1], size=v.shape)).astype("float32"))
    return model


def moved_calls(model, x):
    """Outputs of a model and inputs that were moved, several times."""
    random = np.random.default_rng(5)
    return [call(moved(model, random), moved_inputs(x, random)) for _ in range(RUNS)]


def noisy(path, case, steps):
    """The same from weights moved by a little, several times."""
    random, runs, model = np.random.default_rng(5), [], keras.models.load_model(path)
    model.optimizer.build(model.trainable_variables)
    begin = [(v, v.numpy()) for v in model.variables + model.optimizer.variables]
    for _ in range(RUNS):
        for v, value in begin:
            v.assign(value)
        runs.append(train(Case(moved(model, random), moved_inputs(case.x, random), case.y, case.weight), steps))
    return runs


# ---- comparisons ----


def error_of(ours, theirs):
    if theirs.dtype.kind in "bui" or theirs.dtype.kind not in "f" and str(theirs.dtype) != "bfloat16":
        return 0.0 if np.array_equal(ours, theirs) else 1.0
    ours, theirs = ours.astype("float64"), theirs.astype("float64")
    if not np.array_equal(np.isnan(ours), np.isnan(theirs)):
        return float("nan")
    return float(np.nan_to_num(np.abs(ours - theirs)).max(initial=0) / (np.nan_to_num(np.abs(theirs)).max(initial=0) or 1))


def close(what, ours, theirs, bound, again=None):
    """`again` returns outputs from moved weights and inputs: some times what that makes of them is within the bound, too."""
    if len(ours) != len(theirs):
        raise Verdict("wrong", "%s: %d outputs: should be %d" % (what, len(ours), len(theirs)))
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a.shape != b.shape:
            raise Verdict("wrong", "%s: output %d is %s: should be %s" % (what, i, list(a.shape), list(b.shape)))
        error = error_of(a, b)
        if not error <= bound and again:
            bound = max(bound, TIMES * max(error_of(r[i], b) for r in again()))
        if not error <= bound:
            raise Verdict("wrong", "%s: output %d is off by %.2g" % (what, i, error))


def same_step(name, a, b, bound):
    return abs(a - b) <= bound * max(abs(b), 0.05 if name.endswith("loss") else 1) + 1e-7 or (np.isnan(a) and np.isnan(b))


def compare_steps(ours, theirs, logs, again, scale=1, alike=False):
    """`again` makes noisy runs. `alike`: outputs have the same name, and Keras has the loss of one of them only."""
    if len(ours) != len(theirs):
        raise Verdict("wrong", "%d steps: should be %d" % (len(ours), len(theirs)))
    runs = None
    for i, (a, b) in enumerate(zip(ours, theirs)):
        noise = False
        if alike:
            a, b = {"loss": a["loss"]}, {"loss": b["loss"]}
        if set(b) - set(a) and logs:
            raise Verdict("refused", "no %s; %s" % (", ".join(sorted(set(b) - set(a))), logs[0]))
        if set(a) != set(b):
            raise Verdict("wrong", "step %d has %s: should be %s" % (i, sorted(a), sorted(b)))
        for name in sorted(b, key=lambda n: not n.endswith("loss")):
            if same_step(name, a[name], b[name], scale * (LOSS_BOUND if name.endswith("loss") else METRIC_BOUND)):
                continue
            if noise and not name.endswith("loss"):
                continue  # such as an accuracy, which is a small number of steps
            runs = runs or again()
            spread = max(abs(r[i][name] - b[name]) for r in runs)
            if not abs(a[name] - b[name]) <= TIMES * spread:
                raise Verdict("wrong", "step %d: %s is %.7g: should be %.7g (noise %.1g)" % (i, name, a[name], b[name], spread))
            noise = True
    return runs is not None


# ---- the other side ----


class Reply:
    """What PROGRAM printed."""

    def __init__(self, done):
        self.stage, self.steps, self.logs, self.digest, self.load, self.failed, self.done = "start", [], [], None, None, None, False
        for line in done.stdout.splitlines():
            word, _, rest = line.partition(" ")
            if line.startswith("step\t"):
                pairs = (p.rpartition("=") for p in line.split("\t")[1:])
                self.steps.append({name: float(value) for name, _, value in pairs})
            elif word == "stage":
                self.stage = rest
            elif word == "log":
                self.logs.append(rest)
            elif word == "digest":
                self.digest = rest
            elif word == "load":
                self.load = [float(v) for v in rest.split()]
            elif word == "failed":
                self.failed = rest
            elif word == "done":
                self.done = True


def run(program, folder, file, steps, replicas, seconds=SECONDS):
    """Its reply. Raises what is not full."""
    try:
        done = subprocess.run([program, folder, file, str(steps), str(replicas)], capture_output=True, text=True, errors="replace",
                              timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Verdict("crash", "no end after %d s" % seconds)
    reply = Reply(done)
    if done.returncode < 0:
        raise Verdict("crash", "%s: signal %d %s" % (reply.stage, -done.returncode, done.stderr[-300:]))
    if reply.failed:
        code, _, text = reply.failed.partition(" ")
        if not text or code in ("LK_EINTERNAL", "LK_OK"):
            raise Verdict("crash", "%s: %s %s" % (reply.stage, code, text))
        raise Verdict("refused", "%s: %s" % (reply.stage, text.replace(folder + "/", "")))
    if not reply.done:
        raise Verdict("crash", "%s: exit status %d %s" % (reply.stage, done.returncode, done.stderr[-300:]))
    return reply


def put(folder, case):
    for name, arrays in (("x", flat(case.x)), ("y", case.targets() if case.y is not None else []), ("w", flat(case.weight))):
        for i, a in enumerate(arrays):
            np.save("%s/%s.%d.npy" % (folder, name, i), a)


def got(folder, name, count):
    found = ["%s/%s.%d.npy" % (folder, name, i) for i in range(count)]
    if not all(os.path.exists(p) for p in found) or os.path.exists("%s/%s.%d.npy" % (folder, name, count)):
        raise Verdict("wrong", "another number of outputs than %d" % count)
    return [np.load(p) for p in found]


def back(folder, name, x, what, right, bound):
    """A file that lockstep wrote, in Keras."""
    try:
        model = keras.models.load_model("%s/%s.keras" % (folder, name))
        found = call(model, x)
    except Exception as error:
        raise Verdict("wrong", "%s in Keras: %s %s" % (what, type(error).__name__, str(error)[:300]))
    close(what + " in Keras", found, right, bound, lambda: moved_calls(model, x))
    return model


def save(case, folder):
    with contextlib.redirect_stdout(sys.stderr):
        case.model.save(folder + "/theirs.keras")
    put(folder, case)


def judge(program, folder, case, train_too=True, replicas=(REPLICAS, 1)):
    """Raises a Verdict that is not full; returns a note."""
    bound = HALF_BOUND if half(case.model) else OUTPUT_BOUND
    save(case, folder)
    steps = STEPS if case.y is not None else 0
    reply = run(program, folder, "theirs.keras", steps, replicas[0])
    right = call(case.model, case.x)
    again = lambda: moved_calls(keras.models.load_model(folder + "/theirs.keras"), case.x)
    close("prediction", got(folder, "ours", len(right)), right, bound, again)
    back(folder, "ours", case.x, "the file written back", right, bound)
    if not steps:
        return ""
    if not all(np.isfinite(v) for step in reply.steps for v in step.values()) and not train_too:
        raise Verdict("wrong", "a loss is not finite: %s" % reply.steps)
    trained = back(folder, "trained", case.x, "the trained file", got(folder, "trained", len(right)), bound)
    right_steps = steps if trained.trainable_weights else 0
    if trained.optimizer is None or int(trained.optimizer.iterations.numpy()) != right_steps and not accumulates(trained):
        raise Verdict("wrong", "the trained file's optimiser has another number of steps than %d" % right_steps)
    for other in replicas[1:]:
        again = run(program, folder, "theirs.keras", steps, other)
        if again.digest != reply.digest:
            raise Verdict("wrong", "%d and %d replicas have other bits" % (replicas[0], other))
    if not train_too:
        return "training not compared"
    reset(case.model)
    theirs = train(case, steps)
    runs = lambda: noisy(folder + "/theirs.keras", case, steps)
    noise = compare_steps(reply.steps, theirs, reply.logs, runs, bound / OUTPUT_BOUND, alike(case.model))
    return "noisy" if noise else ""


def alike(model):
    """Whether several outputs have the same name."""
    names = getattr(model, "output_names", [])
    return len(set(names)) < len(names)


def accumulates(model):
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    return bool(getattr(optimizer, "gradient_accumulation_steps", None))


def exchange(program, make, name, keep=None, noise_too=True):
    """(verdict, why): `make` returns a Case. `keep` is a folder that stays. `noise_too`: first with the rates that it has, then
    with 0."""
    folder = keep or tempfile.mkdtemp(prefix="lockstep-exchange-")
    os.makedirs(folder, exist_ok=True)
    keras.backend.clear_session()
    try:
        keras.utils.set_random_seed(seed_of(name) % 2**31)
        case = make()
        random = any(map(is_random, layers_of(case.model)))
        reset(case.model)
        if noise_too and rates_of(case.model):
            judge(program, folder, case, train_too=False)
        for layer, rate in rates_of(case.model):
            setattr(layer, rate, 0.0)
        note = judge(program, folder, case, train_too=not random)
        return "full", note
    except Verdict as verdict:
        return verdict.verdict, verdict.why
    except Exception as error:
        return "keras", "%s %s" % (type(error).__name__, " ".join(str(error).split())[:300])
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


# ---- many, in several processes ----


def share(names, arguments):
    """Run this script again in `arguments.jobs` processes, each with every n-th of the names: {name: (verdict, why)}."""
    jobs = [[sys.executable] + sys.argv + ["--part", "%d/%d" % (i, arguments.jobs)] for i in range(arguments.jobs)]
    running = [subprocess.Popen(j, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for j in jobs]
    found = {}
    for i, process in enumerate(running):
        for line in process.communicate()[0].splitlines():
            if line.startswith("{"):
                said = json.loads(line)
                found[said["name"]] = (said["verdict"], said["why"])
    for name in names:
        found.setdefault(name, ("crash", "Keras' process ended"))
    return found


def say(name, verdict, why):
    print(json.dumps({"name": name, "verdict": verdict, "why": why}), flush=True)
