"""What has to come out: one line per bar, with what was measured beside it."""

import rates

AT_LEAST, AT_MOST = ">=", "<="


def peer_ratio(r, model, batch, mine, key=None):
    """Best rate of `mine` over that of a peer (key None: the best of all), the same of medians, the peer's label; None: not
    measured."""
    table = r["models"].get(model, {}).get(batch, {})
    key = key or rates.best_peer(table)
    if not key or "best" not in table.get(key, {}) or "best" not in table.get(mine, {}):
        return None, None, ""
    return table[mine]["best"] / table[key]["best"], table[mine]["median"] / table[key]["median"], table[key]["label"]


def peer_bars(r):
    lines = [("basic", 64, "train", "tf_fit", 9), ("basic", 64, "train", None, 4), ("custom", 64, "train", "tf_fit", 7),
             ("custom", 64, "train", None, 4), ("basic", 1024, "train", None, 3), ("custom", 1024, "train", None, 3),
             ("bn_cnn", 64, "lockstep", None, 1.5), ("bn_cnn", 1024, "lockstep", None, 1.5), ("mlp", 64, "lockstep", None, 1.1),
             ("mlp", 1024, "lockstep", None, 0.95), ("transformer", 64, "lockstep", None, 1.1),
             ("transformer", 1024, "lockstep", None, 0.95)]
    for model, batch, mine, key, bar in lines:
        value, median, label = peer_ratio(r, model, batch, mine, key)
        who = "lockstep train" if mine == "train" else "lockstep's step"
        against = label if key else f"the best peer ({label})" if label else "the best peer"
        medians = f"; {median:.2f} by medians" if median else ""
        yield f"{model}, G = {batch}: {who} over {against}{medians}", value, AT_LEAST, bar, "x"


def own_bars(r):
    for model, c in r.get("comparisons", {}).items():
        get = lambda key: c[key]["ratio"] if c.get(key) else None  # noqa: E731
        free, replicas = get("ordered_over_free"), get("two_replicas_over_one")
        yield f"{model}: time of ordered sums over free ones", free and 100 * (1 / free - 1), AT_MOST, 4, "%"
        yield f"{model}: two cores over one", get("two_cores_over_one"), AT_LEAST, 1.75, "x"
        yield f"{model}: two replicas from one on the same cores", replicas and 100 * abs(replicas - 1), AT_MOST, 2, "%"
    if r.get("instructions"):
        yield "instructions of a strategy of one device", 100 * r["instructions"]["more"], AT_MOST, 1, "%"
    s = r.get("lockstep", {})
    yield "start to the first step", s.get("first_step_ms"), AT_MOST, 150, "ms"
    yield "resident memory, embedded digits", s.get("peak_rss_mib"), AT_MOST, 64, "MiB"
    yield "installed, without the static library", s.get("installed") and s["installed"]["bytes"] / 2**20, AT_MOST, 5, "MiB"


def all_bars(r):
    out = []
    for text, value, side, bar, unit in [*peer_bars(r), *own_bars(r)]:
        if value is not None:
            out.append({"what": text, "value": value, "side": side, "bar": bar, "unit": unit,
                        "holds": value >= bar if side == AT_LEAST else value <= bar})
    return out


def print_bars(r, say):
    bars = all_bars(r)
    if bars:
        say("")
        say("bars")
    for b in bars:
        word = "ok" if b["holds"] else "BELOW" if b["side"] == AT_LEAST else "ABOVE"
        say(f"  {word:5s} {b['value']:8.2f} {b['unit']:3s} ({b['side']} {b['bar']:g})  {b['what']}")
    if bars:
        say(f"  {sum(b['holds'] for b in bars)} of {len(bars)} hold")
    return bars
