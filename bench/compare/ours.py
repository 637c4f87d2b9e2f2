"""What is measured of lockstep alone: the cost of fixed sums and of a strategy, cores, replicas, growth, sums over replicas. Sides
take turns in rounds of tenths of a second; the result is the median of the rounds' ratios, which noise of some seconds does not
change."""

import json
import os
import shutil
import statistics
import subprocess

import contenders


def sides(model, batch, options, settings, rounds=40, seconds=0.1):
    """{side: rates of the rounds}; options: {side: words of the command line}. Every other round goes backwards: a drift counts for
    none."""
    children = {}
    for name, words in options.items():
        who = contenders.Contender(name, name, "lockstep", "model", tuple(words))
        children[name] = contenders.Child(who, model, settings.build, None, os.path.join(settings.logs, f"side-{name}.log"))
    try:
        for c in children.values():
            c.ask(batch, 0)
        for i in range(rounds):
            for c in list(children.values())[::1 if i % 2 else -1]:
                c.ask(batch, seconds)
        return {name: [r["median"] for r in c.rounds.get(batch, [])] for name, c in children.items()}
    finally:
        for c in children.values():
            c.end()


def ratio(rates, over, under):
    """Median over the rounds of the rate of one side over that of the other; and the quarter it varies by."""
    each = sorted(a / b for a, b in zip(rates[over], rates[under]))
    if not each:
        return None
    return {"ratio": statistics.median(each), "from": each[len(each) // 4], "to": each[-1 - len(each) // 4]}


SIDES = {
    "ordered": ("--replicas", "2"),
    "free": ("--replicas", "2", "--order", "free"),
    "one_replica": ("--replicas", "1"),
    "no_strategy": ("--replicas", "0"),
    "one_core": ("--replicas", "1", "--threads", "1"),
}


def comparisons(model, batch, settings):
    rates = sides(model, batch, SIDES, settings)
    return {
        "rates": {k: max(v) for k, v in rates.items() if v},
        "ordered_over_free": ratio(rates, "ordered", "free"),
        "two_cores_over_one": ratio(rates, "one_replica", "one_core"),
        "two_replicas_over_one": ratio(rates, "ordered", "one_replica"),
        "one_replica_over_none": ratio(rates, "one_replica", "no_strategy"),
    }


def growth_over_batch(model, settings, batches=(16, 64, 256, 1024, 4096)):
    """Best rate at each batch size, in one process."""
    who = contenders.Contender("growth", "growth", "lockstep", "model", ("--replicas", "2"))
    child = contenders.Child(who, model, settings.build, None, os.path.join(settings.logs, "growth.log"))
    try:
        for _ in range(2):
            for b in batches:
                child.ask(b, 0.4)
        return {b: max(r["best"] for r in child.rounds[b]) for b in batches if child.rounds.get(b)}
    finally:
        child.end()


def mlp_of(width, folder):
    """784 - width - width - 10, as a file."""
    kinds = [("InputLayer", {"name": "in", "batch_shape": [None, 784]}), ("Dense", {"units": width, "activation": "relu"}),
             ("Dense", {"units": width, "activation": "relu"}), ("Dense", {"units": 10})]
    layers = [{"module": "keras.layers", "class_name": kind, "config": config} for kind, config in kinds]
    path = os.path.join(folder, f"mlp_{width}.json")
    with open(path, "w") as file:
        json.dump({"module": "keras", "class_name": "Sequential", "config": {"name": "mlp", "layers": layers}}, file)
    return path


def growth_over_width(settings, widths=(128, 256, 512, 1024, 2048), batch=64):
    """{width: rate and GFLOP/s}: three products of 2 rows x n x m each way, but no gradient of the input of the first layer."""
    out = {}
    for width in widths:
        rate = growth_over_batch(mlp_of(width, settings.logs), settings, (batch,)).get(batch)
        products = 784 * width * 2 + width * width * 3 + width * 10 * 3
        if rate:
            out[width] = {"rows_per_s": rate, "gflop_s": 2 * products * rate / 1e9}
    return out


def all_reduce(settings):
    done = subprocess.run([os.path.join(settings.build, "bench", "allreduce")], capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def instructions(settings):
    """Instructions of a step with a strategy of one device over those without, by tools/overhead; None: not counted."""
    if not shutil.which("valgrind"):
        return None
    tool = os.path.join(os.path.dirname(contenders.HERE), "tools", "overhead")
    words = subprocess.run([tool, settings.build], capture_output=True, text=True).stdout.split()
    numbers = [int(w) for w in words if w.isdigit()]
    return {"without": numbers[0], "with": numbers[1], "more": numbers[1] / numbers[0] - 1} if len(numbers) >= 2 else None
