"""Rows per second of every contender on every model and batch size, in rounds, interleaved."""

import json
import os
import statistics
import subprocess

import contenders


class Train:
    """`lockstep train` as a whole: shuffled rows of real data, metrics, the command's own loop. Its windows are epochs, several
    where these are shorter than the windows of others, and the first epoch, in which it traces and the caches are cold, is left
    out, as with Keras' fit (peers/peer_tensorflow.py)."""

    ROWS, ALL, WINDOWS = 20000, 60000, 5  # of an epoch: as many as fit has; there are; in a round, as peers/common.py has

    def __init__(self, model, build, data, replicas=2):
        self.command = [os.path.join(build, "cli", "lockstep"), "train", model, "--data", data, "--replicas", str(replicas),
                        "--json", "--verbose", "0"]
        self.who = contenders.Contender("train", "lockstep train, 2 replicas", "lockstep", "train", replicas=replicas)
        self.rounds, self.failure, self.rates = {}, "", {}

    def told(self, batch, epochs, seconds):
        rows = min(max(8, self.ROWS // batch), self.ALL // batch) * batch
        words = ["--batch", str(batch), "--rows", str(rows), "--epochs", str(epochs)]
        done = subprocess.run([*self.command, *words], capture_output=True, text=True)
        if done.returncode:
            self.failure = (done.stderr.strip().splitlines() or ["failed"])[-1]
            return None
        reply = json.loads(done.stdout.splitlines()[-1])
        taken = reply["epoch_s"][1:]
        if not taken:
            self.failure = "it ended within its first epoch"
            return None
        each = max(1, round(seconds / self.WINDOWS / min(taken)))  # epochs of a window
        windows = [taken[i : i + each] for i in range(0, len(taken), each)]
        reply["windows"] = [rows * len(w) / sum(w) for w in windows if len(w) == each or len(windows) == 1]
        self.rates[batch] = 1 / min(taken)  # epochs a second
        return reply

    def ask(self, batch, seconds):
        if self.failure:
            return None
        if batch not in self.rates:
            self.told(batch, 2, 0)
        if self.failure or seconds <= 0:
            return None
        reply = self.told(batch, 1 + max(2, round(seconds * self.rates[batch])), seconds)
        if reply:
            windows = reply["windows"]
            self.rounds.setdefault(batch, []).append({
                "best": max(windows), "median": statistics.median(windows), "windows": windows,
                "first_step_s": reply["start_ms"] / 1e3, "peak_rss_mib": reply["peak_rss_mib"]})
        return reply

    def end(self):
        pass


def summary(child, batch):
    """Best and median of all windows, and the noise: how far the quartiles of the windows lie apart, over the median."""
    replies = child.rounds.get(batch)
    if not replies:
        return {"failure": child.failure or "not run"}
    medians = [r["median"] for r in replies]
    windows = sorted(w for r in replies for w in r["windows"])
    middle = statistics.median(windows)
    return {
        "best": windows[-1],
        "median": middle,
        "noise": (windows[-1 - len(windows) // 4] - windows[len(windows) // 4]) / middle,
        "rounds": [round(m, 1) for m in medians],
        "first_step_s": replies[0].get("first_step_s"),
        "peak_rss_mib": max(r["peak_rss_mib"] for r in replies),
    }


def children_of(model, settings):
    name = os.path.splitext(os.path.basename(model))[0]
    out = []
    if contenders.flat_size(model) == 784:  # what the digits are
        out.append(Train(model, settings.build, settings.data))
    for c in contenders.chosen(model, settings.python is not None, settings.keys):
        out.append(contenders.Child(c, model, settings.build, settings.python, os.path.join(settings.logs, f"{name}-{c.key}.log")))
    return out


SLOW = 1 / 3


def drop_slow(children, table):
    """Peers far behind the best one at one batch size are not asked for the next: minutes for nothing."""
    best = best_peer(table)
    for c in children:
        v = table.get(c.who.key, {})
        if c.who.family != "lockstep" and "best" in v and v["best"] < SLOW * table[best]["best"]:
            c.failure = "not run: less than a third of the best peer above"
            c.end()


def measure(model, settings, say):
    """{batch: {key: summary}} of one model."""
    children = children_of(model, settings)
    out = {}
    try:
        for batch in settings.batches:
            if out:
                drop_slow(children, list(out.values())[-1])
            for c in children:
                c.ask(batch, 0)  # traces, compiles, warms up
                if c.failure and not c.failure.startswith("not run"):
                    say(f"  {c.who.label}: {c.failure}")
            for _ in range(settings.rounds):
                for c in children:
                    c.ask(batch, settings.seconds)
            out[batch] = {c.who.key: {"label": c.who.label, "family": c.who.family, "replicas": c.who.replicas, **summary(c, batch)}
                          for c in children}
            print_table(model, batch, out[batch], say)
    finally:
        for c in children:
            c.end()
    return out


def best_peer(table):
    """The key of the fastest contender that is not ours, by its best round; None: there is none."""
    peers = {k: v["best"] for k, v in table.items() if v["family"] != "lockstep" and "best" in v}
    return max(peers, key=peers.get) if peers else None


def ours(table):
    """The rate that counts: end to end where there is real data for the model, else the bare step."""
    for key in ("train", "lockstep"):
        if "best" in table.get(key, {}):
            return key
    return None


def print_table(model, batch, table, say):
    name = os.path.splitext(os.path.basename(model))[0]
    say("")
    say(f"{name}, {batch} rows a step")
    say(f"  {'':40s} {'rows/s best':>12s} {'median':>10s} {'noise':>7s} {'lockstep is':>12s} {'by medians':>11s}")
    mine = ours(table)
    for key, v in table.items():
        if "best" not in v:
            say(f"  {v['label']:40s} {v['failure'][:80]}")
            continue
        times = [f"{table[mine][k] / v[k]:.2f} x" if mine and v["family"] != "lockstep" else "" for k in ("best", "median")]
        say(f"  {v['label']:40s} {v['best']:12,.0f} {v['median']:10,.0f} {100 * v['noise']:5.0f} % {times[0]:>12s} {times[1]:>11s}")
