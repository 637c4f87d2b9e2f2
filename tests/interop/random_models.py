"""random_models.py PROGRAM [--seeds A:B] [--keep FOLDER]: random functional models of Keras, trained three steps in both.

A seed makes a program: a list of uses of layers and operations with random options (random_layers.py), each of values before it;
some layers are used twice, some are in a model of their own. The values that nothing uses become outputs. What is compared says
exchange.py. What lockstep refuses is counted, and left out, so that the rest is compared. On other numbers the program is made
smaller, as long as the difference stays, and printed as Python. The last line is "N passed, N failed"; models of which nothing is
left count as neither."""
import argparse
import collections
import json
import os
import re
import sys
import tempfile

N = 8


def random_of(seed):
    import numpy as np
    return np.random.default_rng(seed)


# ---- programs ----

SHAPES = [(5,), (3,), (6, 4), (5, 3), (4, 4), (7, 7, 3), (6, 5, 2), (8, 8, 4), (3, 4, 4, 2)]
IDS, STEPS = 9, (5, 6)  # an input of ids is a shape of one negative number
OPTIMIZERS = ["sgd", "adam", {"SGD": dict(learning_rate=0.05, momentum=0.9, nesterov=True)}, {"RMSprop": dict(learning_rate=0.005)},
              {"Adam": dict(learning_rate=0.01, amsgrad=True)}, {"AdamW": dict(learning_rate=0.01)}, {"Nadam": {}}, {"Adagrad": {}},
              {"Adam": dict(learning_rate=0.01, clipnorm=0.5)}, {"Adamax": {}}, {"Adadelta": dict(learning_rate=0.5)},
              {"Lamb": dict(learning_rate=0.01)}, {"Ftrl": {}}, {"SGD": dict(learning_rate=0.05, clipvalue=0.1, weight_decay=0.01)}]
LOSSES = ["mse", "mae", "huber", "log_cosh", "cosine_similarity"]
METRICS = ["mae", "mse", "cosine_similarity", "root_mean_squared_error", "log_cosh", "binary_accuracy"]


def program_of(seed):
    """Made together with the model, as shapes decide what fits: the trial and error is here, and not in build()."""
    import random_layers
    random = random_of(seed)
    kinds = SHAPES + [(-steps,) for steps in STEPS]
    program = {"inputs": [list(random_layers.pick(random, *kinds)) for _ in range(int(random.integers(1, 4)))], "uses": [],
               "optimizer": random_layers.pick(random, *OPTIMIZERS), "loss": random_layers.pick(random, *LOSSES),
               "metric": random_layers.pick(random, *METRICS), "seed": seed}
    names = list(random_layers.MAKERS)
    times = [random_layers.MAKERS[n][1] for n in names]
    shapes = [tuple(s) for s in program["inputs"]]
    wanted, tries, state = int(random.integers(3, 13)), 0, flow(program)
    while len(program["uses"]) < wanted and tries < 200:
        tries += 1
        use = use_of(random, random_layers, program, shapes, str(random.choice(names, p=[t / sum(times) for t in times])))
        if use and fits(use, state):
            program["uses"].append(use)
            shapes.append(tuple(state[0][-1].shape[1:]))
    return program


def size_of(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def use_of(random, random_layers, program, shapes, name):
    """{"layer": options, "in": values}; or {"again": use, ...}; or {"text": an operation, ...}. Beside these "as", the names of
    arguments, "call", other arguments of the call, and "result", of several."""
    value = int(random.integers(max(0, len(shapes) - 4), len(shapes)))
    kind = random.random()
    if shapes[value][0] < 0:
        before = [k for k, use in enumerate(program["uses"]) if (use.get("layer") or {}).get("class") == "Embedding"]
        if before and kind < 0.3:
            return {"again": before[0], "layer": None, "in": [value]}
        return {"layer": random_layers.embedding(random, IDS), "in": [value]}
    if kind < 0.15 and len(shapes) > 1:
        other = int(random.integers(len(shapes)))
        spec = random_layers.merge(random, [shapes[value], shapes[other]]) if other != value else None
        return spec and merged(random, random_layers, spec, [value, other])
    if kind < 0.25:
        return {"text": random_layers.pick(random, *random_layers.OPERATIONS), "in": [value]}
    if kind < 0.33 and program["uses"]:
        again = int(random.integers(len(program["uses"])))
        use = program["uses"][again]
        like = [len(shapes[i]) == len(shapes[value]) and shapes[i][-1] == shapes[value][-1] for i in use["in"]]
        if (use.get("layer") or {"class": "op"})["class"] not in ("op", "Embedding") and all(like):
            return dict(use, again=again, layer=None, inside=False, **{"in": [value] * len(use["in"])})
    if name == "states":
        return with_states(random, random_layers, shapes, value)
    spec = random_layers.MAKERS[name][0](random, shapes[value])
    return spec and {"layer": spec, "in": [value], "inside": bool(random.random() < 0.07)}


def merged(random, random_layers, spec, values):
    use = {"layer": spec, "in": values}
    if spec["class"] == "MultiHeadAttention" and random_layers.chance(random, 0.3):
        use["call"] = {"use_causal_mask": True}
    return use


def with_states(random, random_layers, shapes, value):
    """A recurrent layer that returns its states, or begins with those that another value is."""
    spec = random_layers.recurrent_spec(random) if len(shapes[value]) == 2 else None
    if not spec:
        return None
    begins = [i for i, s in enumerate(shapes) if s == (spec["units"],)]
    use = {"layer": spec, "in": [value]}
    if begins:
        states = 2 if spec["class"] == "LSTM" else 1
        use = {"layer": spec, "in": [value] + [random_layers.pick(random, *begins) for _ in range(states)],
               "as": [""] + ["initial_state"] * states}
    if not begins or random_layers.chance(random, 0.5):
        spec["return_state"] = True
        use["result"] = int(random.integers(3 if spec["class"] == "LSTM" else 2))
    return use


def made(spec):
    """A layer of its options, which may be layers."""
    from keras import layers
    options = {k: made(v) if isinstance(v, dict) and "class" in v else [made(i) for i in v] if isinstance(v, list) and v and
               isinstance(v[0], dict) else v for k, v in spec.items() if k != "class"}
    return getattr(layers, spec["class"])(**options)


def applied(use, values, layers_made):
    import keras
    x = [values[i] for i in use["in"]]
    layer = layers_made[use["again"]] if "again" in use else None
    if (x[0].dtype != "float32") != ((use.get("layer") or {}).get("class", layer.__class__.__name__) == "Embedding"):
        raise ValueError("ids are for embeddings")
    if "text" in use:
        return eval(use["text"].format("x"), {"ops": keras.ops, "x": x[0]})
    if layer is None and use["layer"]["class"] == "op":
        return eval("a %s b" % use["layer"]["op"], {"a": x[0], "b": x[1]})
    layer = layer or made(use["layer"])
    layers_made.append(layer)
    if use.get("inside"):
        i = keras.Input(x[0].shape[1:])
        inner = layer
        layers_made[-1] = layer = keras.Model(i, inner(i))
    named = {n: [v for v, m in zip(x, use["as"]) if m == n] for n in set(use.get("as", [""])) - {""}}
    x = x[:len(x) - sum(map(len, named.values()))]
    separate = layer.__class__.__name__ == "MultiHeadAttention" or len(x) == 1
    y = layer(*(x if separate else [x]), **named, **use.get("call", {}))
    return y[use["result"]] if "result" in use else y


def add(use, state):
    """One more value, of one more layer; None where it is of no layer."""
    values, layers_made = state
    before = len(layers_made)
    values.append(applied(use, values, layers_made))
    if len(layers_made) == before:
        layers_made.append(None)


def flow(program):
    """The symbolic values, inputs, then results, and the layers of the uses."""
    import keras
    state = [keras.Input(tuple(s)) if s[0] > 0 else keras.Input((-s[0],), dtype="int32") for s in program["inputs"]], []
    for use in program["uses"]:
        add(use, state)
    return state


def fits(use, state):
    """Add a use if Keras makes it and its result has rows of a known shape, neither empty nor large."""
    values, layers_made = (len(part) for part in state)
    try:
        add(use, state)
        shape = state[0][-1].shape
        good = len(shape) > 1 and shape[0] is None and None not in shape[1:] and 0 < size_of(shape[1:]) <= 2500
    except Exception:
        good = False
    if not good:
        del state[0][values:], state[1][layers_made:]
    return good


def case_of(program):
    import exchange
    import keras
    random = random_of(program["seed"] + 1)
    values, _ = flow(program)
    used = {i for use in program["uses"] for i in use["in"]}
    inputs = [i for i in range(len(program["inputs"])) if i in used]
    ends = [i for i in range(len(program["inputs"]), len(values)) if i not in used and values[i].dtype == "float32"]
    m = keras.Model([values[i] for i in inputs] if len(inputs) > 1 else values[inputs[0]],
                    [values[i] for i in ends] if len(ends) > 1 else values[ends[0]])
    optimizer = program["optimizer"]
    if isinstance(optimizer, dict):
        (name, options), = optimizer.items()
        optimizer = getattr(keras.optimizers, name)(**options)
    m.compile(optimizer, program["loss"], metrics=None if len(ends) > 1 else [program["metric"]])
    exchange.shake(m, random)
    x = [rows_of(random, program["inputs"][i]) for i in inputs]
    y = [random.normal(size=(N,) + tuple(values[i].shape[1:])).astype("float32") for i in ends]
    program["names"] = [operations_of(values, k + len(program["inputs"])) for k in range(len(program["uses"]))]
    return exchange.Case(m, x if len(x) > 1 else x[0], y if len(y) > 1 else y[0])


def rows_of(random, shape):
    """Ids are 0 from some place on, in the first row nowhere."""
    if shape[0] > 0:
        return random.normal(size=(N,) + tuple(shape)).astype("float32")
    x = random.integers(1, IDS, size=(N, -shape[0])).astype("int32")
    for i in range(1, N):
        x[i, int(random.integers(1, -shape[0] + 1)):] = 0
    return x


def operations_of(values, k):
    """The names of the layers and operations that make value k from those before it."""
    before, names, ends = {id(v) for v in values[:k]}, [], [values[k]]
    while ends:
        v = ends.pop()
        operation = v._keras_history.operation
        if id(v) in before or operation.name in names:
            continue
        names.append(operation.name)
        names += [layer.name for layer in operation._flatten_layers()] if hasattr(operation, "_flatten_layers") else []
        ends += [t for node in operation._inbound_nodes for t in node.input_tensors if type(operation).__name__ != "InputLayer"]
    return names


# ---- smaller ones ----


def accepted(program, why):
    """The program without the use of the layer that a message names, so that the others are compared; None: it names none."""
    named = re.search(r'layer "([\w.]+)"', why)
    uses = [k for k, names in enumerate(program["names"]) if named and named.group(1) in names]
    for k in reversed(uses or [len(program["uses"]) - 1]):
        smaller = without(program, k)
        if smaller:
            try:
                flow(smaller)
                return smaller
            except Exception:
                pass
    return None


def without(program, k):
    """The program without use k: what used its value uses its first operand."""
    first, uses = len(program["inputs"]), []
    moved = lambda i: program["uses"][k]["in"][0] if i == first + k else i - (i > first + k)
    for n, use in enumerate(program["uses"]):
        if n == k:
            continue
        if use.get("again") == k:
            return None
        again = {"again": use["again"] - (use["again"] > k)} if "again" in use else {}
        uses.append(dict(use, **again, **{"in": [moved(i) for i in use["in"]]}))
    return dict(program, uses=uses)


def smaller_ones(program):
    for k in reversed(range(len(program["uses"]))):
        yield without(program, k)
    for k, use in enumerate(program["uses"]):
        if use.get("inside"):
            yield dict(program, uses=program["uses"][:k] + [dict(use, inside=False)] + program["uses"][k + 1:])
        for option in list(use.get("layer") or {}):
            spec = {n: v for n, v in use["layer"].items() if n != option}
            if option != "class":
                yield dict(program, uses=program["uses"][:k] + [dict(use, layer=spec)] + program["uses"][k + 1:])
    for optimizer, loss in (("sgd", program["loss"]), ("sgd", "mse")):
        if (program["optimizer"], program["loss"]) != (optimizer, loss):
            yield dict(program, optimizer=optimizer, loss=loss)


def shrink(program, differs, most=60):
    """Smaller programs as long as they still differ."""
    tried, progress = 0, True
    while progress and tried < most:
        progress = False
        for candidate in smaller_ones(program):
            if candidate is None or tried >= most or not candidate["uses"]:
                continue
            tried += 1
            if differs(candidate):
                program, progress = candidate, True
                break
    return program


def python_of(program):
    """As Python text."""
    def layer(spec):
        inside = lambda v: layer(v) if isinstance(v, dict) and "class" in v else "[%s]" % ", ".join(map(inside, v)) \
            if isinstance(v, list) else repr(v)
        return "layers.%s(%s)" % (spec["class"], ", ".join("%s=%s" % (k, inside(v)) for k, v in spec.items() if k != "class"))

    def arguments_text(use, names):
        kinds = use.get("as", [""] * len(names))
        plain = [v for v, kind in zip(names, kinds) if not kind]
        if len(plain) > 1 and (use.get("layer") or {}).get("class") != "MultiHeadAttention":
            plain = ["[%s]" % ", ".join(plain)]
        named = ["%s=[%s]" % (n, ", ".join(v for v, kind in zip(names, kinds) if kind == n)) for n in sorted(set(kinds) - {""})]
        return ", ".join(plain + named + ["%s=%s" % p for p in use.get("call", {}).items()])

    lines = ["v%d = keras.Input(%s)" % (i, tuple(s) if s[0] > 0 else "(%d,), dtype='int32'" % -s[0])
             for i, s in enumerate(program["inputs"])]
    for k, use in enumerate(program["uses"]):
        names = ["v%d" % i for i in use["in"]]
        result = "[%d]" % use["result"] if "result" in use else ""
        given = arguments_text(use, names)
        if "text" in use:
            right = use["text"].format(names[0])
        elif "again" in use:
            right = "layer%d(%s)%s" % (use["again"], given, result)
        elif use["layer"]["class"] == "op":
            right = (" %s " % use["layer"]["op"]).join(names)
        else:
            lines.append("layer%d = %s%s" % (k, layer(use["layer"]), "  # in a model of its own" if use.get("inside") else ""))
            right = "layer%d(%s)%s" % (k, given, result)
        lines.append("v%d = %s" % (len(program["inputs"]) + k, right))
    return lines + ["optimizer %s, loss %s" % (json.dumps(program["optimizer"]), program["loss"])]


# ---- running ----


def one(seed, arguments):
    import exchange
    keep = arguments.keep and os.path.join(arguments.keep, str(seed))
    program, refused = program_of(seed), []
    judged = lambda p, keep=None: exchange.exchange(arguments.program, lambda: case_of(p), "seed %d" % seed, keep)
    while True:
        if not program["uses"]:
            return "refused", refused
        verdict, why = judged(program, keep)
        if verdict != "refused":
            break
        refused.append(re.sub(r'layer "\w+" ', "", why)[:150])
        smaller = accepted(program, why)
        if not smaller:
            return "refused", refused
        program = smaller
    if verdict in ("wrong", "crash") and not arguments.no_shrink:
        differs = lambda p: judged(p)[0] == verdict
        program = shrink(program, differs)
        why = judged(program)[1] + "\n    " + "\n    ".join(python_of(program))
    return verdict, [why] + refused


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--seeds", default="1000:1030", help="A:B, without B")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the programs only")
    parser.add_argument("--keep", help="a folder where the files stay")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--part")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition(":")
    seeds = [str(s) for s in range(int(first), int(last or int(first) + 1))]
    import exchange
    if arguments.show:
        for seed in seeds:
            print("\n    ".join(["seed " + seed] + python_of(program_of(int(seed)))))
        return 0
    if arguments.part or arguments.jobs < 2 or len(seeds) < 4:
        part, _, parts = (arguments.part or "0/1").partition("/")
        found = {}
        for seed in seeds[int(part)::int(parts)]:
            found[seed] = one(int(seed), arguments)
            if arguments.part:
                exchange.say(seed, *found[seed])
        if arguments.part:
            return 0
    else:
        found = exchange.share(seeds, arguments)
    return report(seeds, found)


def report(seeds, found):
    counts, refusals, first = collections.Counter(), collections.Counter(), {}
    for seed in seeds:
        verdict, said = found[seed]
        said = said if isinstance(said, list) else [said]
        counts[verdict] += 1
        if verdict in ("wrong", "crash"):
            print("FAILED seed %s %s: %s" % (seed, verdict, said[0]))
        for why in said if verdict == "refused" else said[1:]:
            refusals[why] += 1
            first.setdefault(why, seed)
    for why, times in refusals.most_common():
        print("refused %3d times, first by seed %s: %s" % (times, first[why], why))
    print("seeds %s to %s: %s; %d layers refused" % (
        seeds[0], seeds[-1], ", ".join("%d %s" % (n, v) for v, n in counts.items()), sum(refusals.values())))
    failed = counts["wrong"] + counts["crash"]
    print("%d passed, %d failed" % (counts["full"], failed))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
