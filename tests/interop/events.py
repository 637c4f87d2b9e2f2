"""A run's event files, read by the real TensorBoard: what was logged is what the run's history says.

    python events.py LOCKSTEP

LOCKSTEP is the command. Needs tensorboard (and tensorflow, which parses tensors of summaries). The last line is
"N passed, N failed"."""
import csv
import glob
import os
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util

passed = failed = 0


def check(good, what):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print("FAILED:", what)


def events(folder):
    """{tag: {step: value}}, and {tag: name of its plugin}"""
    values, plugins = {}, {}
    for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
        for event in EventFileLoader(path).Load():
            for v in event.summary.value:
                values.setdefault(v.tag, {})[event.step] = tensor_util.make_ndarray(v.tensor)
                plugins[v.tag] = v.metadata.plugin_data.plugin_name or plugins.get(v.tag, "")
    return values, plugins


def main(command):
    with tempfile.TemporaryDirectory() as folder:
        logs, save = os.path.join(folder, "logs"), os.path.join(folder, "run")
        subprocess.run([command, "train", "mlp", "--data", "digits", "--epochs", "3", "--batch", "512",
                                "--tensorboard", logs, "--save", save],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(save, "history.csv")) as f:
            history = list(csv.DictReader(f))
        check(len(history) == 3, f"{len(history)} epochs in history.csv")
        for part, prefix in (("train", ""), ("validation", "val_")):
            values, plugins = events(os.path.join(logs, part))
            for name in ("loss", "accuracy"):
                tag = "epoch_" + name
                check(tag in values, f"{part}: no {tag}; there are {sorted(values)}")
                for row in history:
                    logged = values.get(tag, {}).get(int(row["epoch"]))
                    check(logged is not None and
                              abs(float(logged) - float(row[prefix + name])) <= 1e-6 * max(1, abs(float(logged))),
                          f"{part}: {tag} of epoch {row['epoch']}: {logged}, not {row[prefix + name]}")
                check(plugins.get(tag) == "scalars", f"{tag} is for {plugins.get(tag)}")
            if part == "train":
                texts = [t for t, p in plugins.items() if p == "text"]
                check(texts, f"no text of the model; there are {plugins}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main(sys.argv[1]))
