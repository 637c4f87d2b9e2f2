"""tables.py PROGRAM: every class that Keras has is in lockstep, or is listed here with the reason why it is not.

PROGRAM is build/release/tests/interop/tables, which prints what lockstep reads in files; callbacks are looked up in the public
headers. What is neither there nor listed, such as a class of a new version of Keras, is a failure, and so is a class that is listed
although lockstep has it. The last line is "N passed, N failed"."""
import glob
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import keras
from keras.src import api_export, ops

BASE = "a base class, which no file names"
CODE = "Python code"
TEXT = "strings, which come with the layers of documents' models"
DETECTION = "boxes of objects, which no dataset here has"
COMPLEX = "complex numbers, which tensors here cannot hold"
ALGEBRA = "linear algebra of whole matrices"
SIZE = "the shape of its result depends on values"
LATER = "not built yet"
MIXES = "it moves or mixes rows of the batch"
INTEGERS = "bits and divisors of integers"
CONSTANT = "it has no tensor as operand, so that no graph of a model has it"
NAMES = "a nan-aware form; a network's values have no nan"

REASONS = {
    "layers": {
        BASE: "Layer InputSpec Wrapper Pipeline",
        CODE: "Lambda",
        TEXT: "StringLookup TextVectorization",
        "code of another framework": "TFSMLayer JaxLayer FlaxLayer TorchModuleWrapper",
        DETECTION: "MaxNumBoundingBoxes",
        MIXES: "MixUp CutMix Equalization",
        LATER: "AugMix ContrastLimitedAdaptiveHistogramEqualization ConvLSTM1D ConvLSTM2D ConvLSTM3D HashedCrossing Hashing "
               "MelSpectrogram RandAugment RandomElasticTransform ReversibleEmbedding STFTSpectrogram",
    },
    "losses": {BASE: "Loss"},
    "metrics": {BASE: "Metric", CODE: "MeanMetricWrapper"},
    "optimizers": {
        BASE: "Optimizer OptimizerMap",
        "made in C only: a file does not say which variables it is for": "MultiOptimizer",
    },
    "schedules": {BASE: "LearningRateSchedule"},
    "initializers": {BASE: "Initializer", LATER: "STFT"},
    "regularizers": {BASE: "Regularizer"},
    "constraints": {BASE: "Constraint"},
    "activations": {"its word has no number to compare with; lk_threshold() has": "threshold"},
    "callbacks": {
        BASE: "Callback CallbackList",
        "a format of checkpoints of another framework": "OrbaxCheckpoint",
        "lk_model_fit() returns it": "History",
        "the argument verbose of lk_model_fit()": "ProgbarLogger",
        "a request over the network at each epoch": "RemoteMonitor",
    },
    "operations": {
        BASE: "Operation Function SegmentReduction",
        CODE: "Map Scan AssociativeScan WhileLoop ForiLoop Cond Switch VectorizedMap JVP",
        COMPLEX: "FFT FFT2 IFFT2 RFFT IRFFT STFT ISTFT ViewAsComplex ViewAsReal Polar View",
        ALGEBRA: "Cholesky CholeskyInverse Det Eig Eigh Inv LuFactor Qr Solve SolveTriangular SVD Lstsq MatrixRank Pinv Logdet "
                 "Slogdet",
        SIZE: "Nonzero Unique Bincount Histogram",
        MIXES: "Corrcoef Correlate Kron Vdot Diag Diagflat AllClose Geomspace Logspace Linspace Meshgrid Outer Vstack Vsplit "
               "SegmentSum SegmentMax SegmentMin SegmentProd CDist PSNR SSIM Ravel Size Vander Rearrange",
        INTEGERS: "BitwiseAnd BitwiseInvert BitwiseNot BitwiseOr BitwiseXor BitwiseLeftShift LeftShift BitwiseRightShift "
                  "RightShift Gcd Lcm UnravelIndex Nextafter",
        CONSTANT: "Arange Ndim Full",
        NAMES: "Nanargmax Nanargmin Nancumprod Nanmedian Nanpercentile Nanquantile",
        "it writes to parts of a tensor": "Scatter ScatterUpdate SliceUpdate",
        "a search or a sort of steps without a gradient that networks use": "Argpartition SearchSorted Digitize CTCDecode",
        "pictures in a graph are changed by layers": "AffineTransform ElasticTransform ExtractPatches GaussianBlur HSVToRGB "
            "MapCoordinates PerspectiveTransform RGBToHSV Resize ScaleAndTranslate SobelEdges",
        "a loss, which is compiled and not in a graph": "CTCLoss",
        "nothing to compose it of": "Cumprod ExtractSequences Fold I0 Unfold",
    },
}
NOT_CALLED_SO = {"BackupAndRestore": "lk_backup_and_restore", "LambdaCallback": "lk_callback_of", "CSVLogger": "lk_csv_logger",
                 "SwapEMAWeights": "lk_swap_ema_weights", "TerminateOnNaN": "lk_terminate_on_nan", "TensorBoard": "lk_tensorboard",
                 "ReduceLROnPlateau": "lk_reduce_lr_on_plateau"}


def classes(module, base=object):
    """By the names that files have, without aliases: Convolution2D is Conv2D."""
    found = (getattr(module, n) for n in dir(module) if not n.startswith("_"))
    return sorted({name_in_files(c) for c in found if inspect.isclass(c) and issubclass(c, base)})


def name_in_files(cls):
    return (api_export.get_name_from_symbol(cls) or cls.__name__).rpartition(".")[2]


def activations():
    found = (getattr(keras.activations, n) for n in dir(keras.activations))
    return sorted({f.__name__ for f in found if inspect.isfunction(f)} - {"get", "serialize", "deserialize"})


def operations():
    """All Operation classes of keras.ops that a graph of a model can have."""
    found = set()
    for module in pkgutil.iter_modules(ops.__path__):
        if not module.name.endswith("_test"):
            here = importlib.import_module("keras.src.ops." + module.name)
            found |= {n for n in classes(here, ops.operation.Operation) if "src.ops." in getattr(here, n).__module__}
    return sorted(found)


def words_of(cls):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls).lower()


def callbacks(headers):
    text = "\n".join(open(h).read() for h in headers)
    called = {c: NOT_CALLED_SO.get(c, "lk_" + words_of(c)) for c in classes(keras.callbacks)}
    return {c for c, name in called.items() if re.search(r"\b%s\(" % name, text)}


def check(family, there, ours):
    listed = {n: why for why, names in REASONS[family].items() for n in names.split()}
    unknown = [n for n in there if n not in ours and n not in listed]
    both = [n for n in there if n in ours and n in listed]
    gone = [n for n in listed if n not in there]
    print("%-13s %3d in Keras, %3d present, %3d listed with a reason, %3d missing" % (
        family, len(there), len([n for n in there if n in ours]), len([n for n in listed if n in there]), len(unknown)))
    for names, what in ((unknown, "neither in lockstep nor listed with a reason"),
                        (both, "listed as missing, but lockstep has them"), (gone, "listed, but Keras does not have them")):
        if names:
            print("FAILED %s %s: %s" % (family, what, " ".join(names)))
    return not unknown and not both and not gone


def main():
    printed = subprocess.run([sys.argv[1], "print"], check=True, capture_output=True, text=True).stdout
    ours = {}
    for line in printed.splitlines():
        kind, _, name = line.partition(" ")
        ours.setdefault(kind, set()).add(name)
    families = {
        "layers": (classes(keras.layers), ours["layer"]), "losses": (classes(keras.losses), ours["loss"]),
        "metrics": (classes(keras.metrics), ours["metric"]), "schedules": (classes(keras.optimizers.schedules), ours["schedule"]),
        "optimizers": ([n for n in classes(keras.optimizers)], ours["optimizer"]),
        "initializers": (classes(keras.initializers), ours["initializer"]),
        "regularizers": (classes(keras.regularizers), ours["regularizer"]),
        "constraints": (classes(keras.constraints), ours["constraint"]), "activations": (activations(), ours["activation"]),
        "callbacks": (classes(keras.callbacks), callbacks(glob.glob("include/lockstep/*.h"))),
        "operations": (operations(), ours.get("operation", set())),
    }
    good = [check(family, *sets) for family, sets in families.items()]
    print("%d passed, %d failed" % (sum(good), len(good) - sum(good)))
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
