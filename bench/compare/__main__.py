"""The bench as a whole: python3 bench/compare --build DIR [--python PEERS'] [--models FILE ...] ...

Without --python there are no peers. Prints tables as they are made, and writes bench.json and bench.svg into the folder --out.
The exit status is 0 whatever was measured: bars are told, not enforced."""

import argparse
import json
import os
import sys
import time

import bars
import chart
import contenders
import ours
import rates
import sizes

STANDARD = ("basic", "custom", "bn_cnn", "mlp", "transformer")


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--python", help="a Python with TensorFlow, PyTorch and JAX")
    p.add_argument("--models", nargs="*", help="model files; default the five of bench/models")
    p.add_argument("--batches", default="64,1024")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=1.0)
    p.add_argument("--keys", help="only these contenders, as lockstep,tf_fit")
    p.add_argument("--out", default="build")
    p.add_argument("--name", default="bench", help="of the files written there")
    p.add_argument("--only-rates", action="store_true", help="nothing but the tables of rates")
    a = p.parse_args()
    a.batches = [int(b) for b in a.batches.split(",")]
    a.keys = a.keys.split(",") if a.keys else None
    a.models = a.models or [os.path.join(contenders.HERE, "models", m + ".json") for m in STANDARD]
    a.logs = os.path.join(a.out, "bench-logs")
    a.data = "mnist" if os.path.isdir(os.path.join(os.environ.get("LOCKSTEP_DATA", ""), "mnist")) else "digits"
    os.makedirs(a.logs, exist_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.abspath(os.path.join(a.out, "bench-torch")))
    return a


def say(line):
    print(line, flush=True)


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]


WORDS = {"ordered_over_free": "ordered sums over free", "two_cores_over_one": "two cores over one",
         "two_replicas_over_one": "two replicas over one", "one_replica_over_none": "one replica over no strategy"}


def own_section(a, r):
    """What concerns lockstep alone."""
    say("")
    say("lockstep alone; median ratio of interleaved rounds (quarter to three quarters)")
    r["comparisons"] = {}
    for model in a.models[:2]:
        c = r["comparisons"][name_of(model)] = ours.comparisons(model, 64, a)
        for key, words in WORDS.items():
            if c[key]:
                say(f"  {name_of(model):12s} {words:32s} {c[key]['ratio']:6.3f}  ({c[key]['from']:.3f} to {c[key]['to']:.3f})")
    r["growth_over_batch"] = {name_of(m): ours.growth_over_batch(m, a) for m in a.models[:2]}
    for m, by in r["growth_over_batch"].items():
        say(f"  {m:12s} rows/s over the batch: " + ", ".join(f"{b}: {v:,.0f}" for b, v in by.items()))
    r["growth_over_width"] = ours.growth_over_width(a)
    say("  784-n-n-10, G = 64, over the width: " +
        ", ".join(f"{w}: {v['rows_per_s']:,.0f} rows/s, {v['gflop_s']:.0f} GFLOP/s" for w, v in r["growth_over_width"].items()))
    r["all_reduce"] = ours.all_reduce(a)
    if r["all_reduce"]:
        each = [f"{s['bytes'] >> 10} KiB: {s['sum_gb_s']:.1f} ({s['copy_gb_s']:.1f})" for s in r["all_reduce"]["sizes"]]
        say("  sum over 2 replicas, GB/s (a copy of as much): " + ", ".join(each))
    r["instructions"] = ours.instructions(a)
    if r["instructions"]:
        say(f"  instructions of a step under a strategy of one device: {100 * r['instructions']['more']:+.3f} %")


def size_section(a, r):
    s = r["lockstep"] = sizes.lockstep_start(a.build)
    s["installed"] = sizes.lockstep_installed(a.build, os.path.join(a.out, "bench-install"))
    say("")
    say(f"{'':14s} {'first step after':>18s} {'resident':>12s} {'installed':>12s}")
    say(f"{'lockstep':14s} {s['first_step_ms']:15.0f} ms {s['peak_rss_mib']:8.0f} MiB {s['installed']['bytes'] / 2**20:8.1f} MiB")
    if not a.python:
        return
    r["peers_installed"] = sizes.peers_installed(a.python)
    table = next((t for m in r["models"].values() for t in m.values()), {})
    for family, size in r["peers_installed"].items():
        mine = [v for v in table.values() if v["family"] == family and v.get("first_step_s")]
        if mine:
            first, memory = (min(v[key] for v in mine) for key in ("first_step_s", "peak_rss_mib"))
            say(f"{family:14s} {first:16.1f} s {memory:8.0f} MiB {size / 2**20:8.0f} MiB")


def main():
    a = arguments()
    began = time.time()
    r = {"machine": sizes.machine(a.build), "models": {}}
    r["machine_short"] = ", ".join(r["machine"].split(";")[0].split(",")[:3]) + "."
    say(r["machine"])
    if a.python:
        r["versions"] = sizes.versions(a.python)
        say(", ".join(f"{k} {v}" for k, v in r["versions"].items()))
    say(f"{a.rounds} rounds of {a.seconds:g} s each, interleaved; rows of " +
        ("mnist" if a.data == "mnist" else "the embedded digits, as LOCKSTEP_DATA is not set"))
    for model in a.models:
        r["models"][name_of(model)] = rates.measure(model, a, say)
    if not a.only_rates:
        own_section(a, r)
        size_section(a, r)
    r["bars"] = bars.print_bars(r, say)
    r["seconds"] = round(time.time() - began)
    say("")
    path = os.path.join(a.out, a.name)
    with open(path + ".json", "w") as file:
        json.dump(r, file, indent=1)
    chart.draw(r, path + ".svg")
    say(f"{r['seconds']} s; {path}.json, {path}.svg")


if __name__ == "__main__":
    sys.exit(main())
