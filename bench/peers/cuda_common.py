"""What the peers on a card share: how they are asked, what is timed, and the lines they answer with.

    peer_cuda.py --models basic,custom --batches 64,8192 [--precisions f32,tf32] [--modes M,...] [--seconds S]
    peer_cuda.py --serve ...          "MODEL BATCH SECONDS MODES" per line of standard input; after the lines of
                                      each {"done": true}

One JSON line per model, batch, precision and mode: rows per second and milliseconds per step, the best and the median of windows
of at least 0.3 s, each with a synchronisation at both ends; "error" instead where it did not work. The eight batches lie on the
card. What preparing takes (compiling, capturing, first steps) is prepare_s."""

import argparse
import gc
import json
import os
import statistics
import sys
import time

WINDOW = 0.3  # seconds, at least
FEWEST = 3  # windows
WARM_UP = 0.25  # seconds; the card's clock rises in them
RATE, EPSILON = 1e-6, 1e-7  # of Adam, as in model.c
FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models")


def arguments(modes, default_modes, more=None):
    p = argparse.ArgumentParser()
    p.add_argument("--models", default="basic,custom", help="names in bench/models, or files")
    p.add_argument("--batches", default="64,8192")
    p.add_argument("--precisions", default="f32,tf32")
    p.add_argument("--modes", default=",".join(default_modes), help=f"of {','.join(modes)}")
    p.add_argument("--seconds", type=float, default=1.0, help="of each of them")
    p.add_argument("--serve", action="store_true")
    p.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    if more:
        more(p)
    a = p.parse_args()
    a.models, a.precisions, a.modes = (v.split(",") for v in (a.models, a.precisions, a.modes))
    a.batches = [int(b) for b in a.batches.split(",")]
    for given, known in ((a.modes, modes), (a.precisions, ("f32", "tf32"))):
        for name in given:
            if name not in known:
                p.error(f"there is no {name}; there are {', '.join(known)}")
    return a


def path_of(model):
    return model if model.endswith(".json") else os.path.join(FOLDER, model + ".json")


def name_of(model):
    return os.path.splitext(os.path.basename(model))[0]


def say(line):
    print(json.dumps(line), flush=True)


def words_of(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def windows(run, seconds):
    """Seconds per step of each window. run(steps) returns when they are through."""
    each, steps, end = 0.0, 1, time.perf_counter() + WARM_UP
    while time.perf_counter() < end:
        begin = time.perf_counter()
        run(steps)
        each = (time.perf_counter() - begin) / steps
        steps = max(1, min(2 * steps, int(0.05 / each)))
    count = max(FEWEST, int(seconds / WINDOW))
    length, out = max(WINDOW, seconds / count), []
    for _ in range(count):
        steps = max(1, round(length / each))
        begin = time.perf_counter()
        run(steps)
        each = (time.perf_counter() - begin) / steps
        out.append(each)
    return out


def timed(prepare, batch, seconds):
    """What was measured, as the end of a line. prepare() gives run, and a function that reads the last loss."""
    begin = time.perf_counter()
    run, loss = prepare()
    run(4)
    prepared = time.perf_counter() - begin
    each = windows(run, seconds)
    return {"best": round(batch / min(each), 1), "median": round(batch / statistics.median(each), 1),
            "ms_best": round(1e3 * min(each), 6), "ms_median": round(1e3 * statistics.median(each), 6),
            "windows_ms": [round(1e3 * e, 6) for e in each], "loss": float(loss()), "prepare_s": round(prepared, 2)}


def asked(args):
    if not args.serve:
        for model in args.models:
            for batch in args.batches:
                yield model, batch, args.seconds, args.modes
        return
    for line in sys.stdin:
        model, batch, seconds, modes = line.split()
        yield model, int(batch), float(seconds), modes.split(",")


def serve(args, peer, measure, clean=lambda: None):
    """measure(model, batch, precision, mode, seconds) gives the end of a line; it may raise anything."""
    if args.serve:
        say({"ready": True})
    for model, batch, seconds, modes in asked(args):
        for precision in args.precisions:
            for mode in modes:
                line = {"peer": peer, "model": name_of(model), "batch": batch, "precision": precision, "mode": mode}
                try:
                    line.update(measure(path_of(model), batch, precision, mode, seconds))
                except (Exception, SystemExit) as e:  # noqa: BLE001  the other modes are still wanted
                    line["error"] = words_of(e)
                gc.collect()
                clean()
                say(line)
        if args.serve:
            say({"done": True})
