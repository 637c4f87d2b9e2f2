"""Start to the first step, resident memory and what is installed: of lockstep, and of each peer with all it depends on."""

import json
import os
import re
import subprocess

FAMILIES = {"TensorFlow": "tensorflow-cpu", "PyTorch": "torch", "JAX": "jax"}

# Run by the peers' Python: bytes of a package and all it requires, without what only drives a GPU.
INSTALLED = r"""
import importlib.metadata as m, json, re, sys
def closure(name, seen):
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in seen or re.match(r"nvidia|cuda|triton", key): return
    try: d = m.distribution(name)
    except m.PackageNotFoundError: return
    seen[key] = sum(f.locate().stat().st_size for f in d.files or [] if f.locate().is_file())
    for r in d.requires or []:
        if "extra ==" not in r: closure(re.match(r"[A-Za-z0-9._-]+", r).group(), seen)
out = {}
for family, name in json.loads(sys.argv[1]).items():
    seen = {}
    closure(name, seen)
    out[family] = sum(seen.values())
print(json.dumps(out))
"""


def peers_installed(python):
    done = subprocess.run([python, "-c", INSTALLED, json.dumps(FAMILIES)], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def lockstep_installed(build, folder):
    """Of `make install`, stripped as packages are: shared library, command, headers, manual pages; and the static library, which
    packages have apart."""
    subprocess.run(["cmake", "--install", build, "--prefix", folder, "--strip"], capture_output=True)
    all_files = [os.path.join(d, f) for d, _, names in os.walk(folder) for f in names]
    files = [f for f in all_files if not os.path.islink(f)]
    static = [f for f in files if f.endswith(".a")]
    for f in static:
        subprocess.run(["strip", "--strip-debug", f], capture_output=True)
    size = lambda some: sum(os.path.getsize(f) for f in some)  # noqa: E731
    return {"bytes": size(files) - size(static), "static_library": size(static)}


def lockstep_start(build, runs=5):
    """The command on the digits it brings along: best of a few starts, largest memory."""
    command = [os.path.join(build, "cli", "lockstep"), "train", "basic", "--replicas", "2", "--json", "--verbose", "0"]
    starts = []
    for _ in range(runs):
        reply = json.loads(subprocess.run([*command, "--steps", "1"], capture_output=True, text=True).stdout.splitlines()[-1])
        starts.append(reply["start_ms"])
    reply = json.loads(subprocess.run([*command, "--epochs", "1"], capture_output=True, text=True).stdout.splitlines()[-1])
    return {"first_step_ms": min(starts), "peak_rss_mib": reply["peak_rss_mib"]}


def versions(python):
    code = ("import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in "
            "('tensorflow-cpu', 'keras', 'torch', 'jax', 'numpy')}))")
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def machine(build):
    told = subprocess.run([os.path.join(build, "bench", "machine")], capture_output=True, text=True).stdout
    return re.sub(r"\s+", " ", told).strip()
