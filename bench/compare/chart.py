"""bench.svg: rows per second of the fastest variant of each library, a group of bars per model and batch size. Groups have scales
of their own (models differ by a factor of a hundred), so a bar says how it compares within its group, and its label the rate."""

import rates

WIDTH, LEFT, BAR, GAP, GROUP, TOP = 860, 150, 15, 4, 26, 64
COLUMN = (WIDTH - LEFT - 20) // 2
NAMES = {"basic": "basic", "custom": "custom training", "bn_cnn": "batch-norm CNN", "mlp": "MLP", "transformer": "transformer"}

# A paper of its own, light or dark as the page is, so that it can be read wherever it is shown.
STYLE = """
  .paper { fill: #ffffff; }
  text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .head { font-weight: 600; }
  .soft { fill: #656d76; font-size: 11px; }
  .value { font-size: 11px; font-variant-numeric: tabular-nums; }
  .mine { font-weight: 600; }
  .lockstep { fill: #2da44e; }
  .mirrored { fill: #b35900; }
  .tensorflow { fill: #e08a3c; }
  .pytorch { fill: #cf5a4e; }
  .jax { fill: #6e8fd6; }
  .axis { stroke: #8c959f; stroke-opacity: .5; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; }
    text { fill: #e6edf3; }
    .soft { fill: #9198a1; }
    .lockstep { fill: #3fb950; }
  }
"""

SERIES = [
    ("lockstep", "lockstep", lambda k, v: k == "train" or v["family"] == "lockstep"),
    ("mirrored", "TF MirroredStrategy", lambda k, v: k in ("tf_fit", "tf_loop")),
    ("tensorflow", "TensorFlow alone", lambda k, v: k in ("tf_plain", "tf_jit")),
    ("pytorch", "PyTorch", lambda k, v: v["family"] == "PyTorch"),
    ("jax", "JAX", lambda k, v: v["family"] == "JAX"),
]


def value_of(table, choose, mine):
    """The best rate of a series; lockstep's is the end-to-end one, where there is one."""
    found = {k: v["best"] for k, v in table.items() if "best" in v and choose(k, v)}
    if mine and rates.ours(table) in found:
        return found[rates.ours(table)]
    return max(found.values(), default=None)


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def group(x, y, table):
    """The bars of one model at one batch size."""
    values = [(css, value_of(table, choose, css == "lockstep")) for css, _, choose in SERIES]
    longest = max((v for _, v in values if v), default=1)
    room, out = COLUMN - 76, []
    for i, (css, v) in enumerate(values):
        top = y + i * (BAR + GAP)
        if v is None:
            out.append(text(x + 6, top + BAR - 4, "not measured", "soft"))
            continue
        width = max(2, room * v / longest)
        out.append(f'<rect x="{x}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2" class="{css}"/>')
        out.append(text(x + width + 6, top + BAR - 4, f"{v:,.0f}", "value mine" if css == "lockstep" else "value"))
    height = len(SERIES) * (BAR + GAP) - GAP
    out.append(f'<line x1="{x}" y1="{y - 3}" x2="{x}" y2="{y + height + 3}" class="axis"/>')
    return out, height


def draw(results, path):
    models = [m for m in results["models"] if results["models"][m]]
    batches = sorted({b for m in models for b in results["models"][m]})[:2]
    out, y = [], TOP + 34
    out.append(text(20, 28, "Training on two cores: rows per second", "title"))
    x = 20
    for css, label, _ in SERIES:
        out.append(f'<rect x="{x}" y="42" width="11" height="11" rx="2" class="{css}"/>')
        out.append(text(x + 16, 52, label))
        x += 38 + 6.6 * len(label)
    for i, b in enumerate(batches):
        out.append(text(LEFT + i * (COLUMN + 10), TOP + 18, f"{b} rows a step", "head"))
    for m in models:
        height = 0
        out.append(text(20, y + 12, NAMES.get(m, m), "head"))
        for i, b in enumerate(batches):
            table = results["models"][m].get(b)
            if table:
                lines, height = group(LEFT + i * (COLUMN + 10), y, table)
                out += lines
        y += height + GROUP
    note = "The fastest variant of each; each group has its own scale. " + results.get("machine_short", "")
    out.append(text(20, y + 2, note, "soft"))
    height = y + 16
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
                   f'role="img" aria-label="Training speed of lockstep, TensorFlow, PyTorch and JAX">\n<style>{STYLE}</style>\n'
                   f'<rect class="paper" width="100%" height="100%" rx="6"/>\n')
        file.write("\n".join(out) + "\n</svg>\n")
