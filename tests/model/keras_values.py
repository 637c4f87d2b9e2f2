"""keras_values.py: what Keras says about the losses and metrics that tests/model/ checks.

    python -m venv VENV && VENV/bin/pip install tensorflow-cpu==2.21.0 keras==3.15.1
    VENV/bin/python tests/model/keras_values.py > tests/model/keras_values.h
"""
import os
import textwrap

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import keras
import numpy as np

L, M = keras.losses, keras.metrics
rng = np.random.default_rng(20240229)
ROWS, CLASSES, FIRST = 14, 4, 9  # rows, and how many of them the first of two batches has


def rounded(x, digits=3):
    return np.round(x, digits).astype("float32")


probabilities = rounded(rng.dirichlet(np.ones(CLASSES) * 0.8, ROWS))
probabilities[3] = [0.25, 0.25, 0.25, 0.25]  # ties
probabilities[5] = [0.4, 0.1, 0.1, 0.4]
probabilities[7] = [0, 0, 0, 0]
classes = rng.integers(0, CLASSES, ROWS)
classes[:3] = probabilities[:3].argmax(-1)
classes[3], classes[5] = 2, 3
one_hot = np.eye(CLASSES, dtype="float32")[classes]
many_hot = (rng.random((ROWS, CLASSES)) < 0.4).astype("float32")
binary = (rng.random((ROWS, 1)) < 0.5).astype("float32")
scores = rounded(np.clip(binary * 0.3 + rng.random((ROWS, 1)) * 0.7, 0, 1))
scores[:5, 0] = [0, 1, 0.5, 0.25, 0.75]  # on thresholds
logits = rounded(rng.normal(0, 2, (ROWS, CLASSES)))
targets = rounded(rng.random((ROWS, 3)) * 4)
guesses = rounded(abs(targets + rng.normal(0, 0.7, (ROWS, 3))))
guesses[4] = 0
weights = rounded(rng.random(ROWS) * 2, 2)
weights[6] = 0

more = np.random.default_rng(20240301)
steps = rounded(more.normal(0, 2, (ROWS, 5, CLASSES)))
words = more.integers(1, CLASSES, (ROWS, 2))  # 0 pads
words[1:4, 1], words[6] = 0, 0
words[8] = 2  # twice the same needs a blank between
maps = rounded(more.dirichlet(np.ones(CLASSES), (ROWS, 3)).transpose(0, 2, 1))
spots = np.eye(CLASSES, dtype="float32")[more.integers(0, CLASSES, (ROWS, 3))].transpose(0, 2, 1)
vectors = more.normal(0, 1, (ROWS, 3))
vectors = rounded(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

ids = more.integers(0, CLASSES, ROWS)
ids[::2] = classes[::2]
ids[5], ids[8] = -1, 7  # no classes

DATA = {  # labels, predictions
    "CLASSES": (classes, probabilities),
    "CLASS_LOGITS": (classes, logits),
    "ONE_HOT": (one_hot, probabilities),
    "ONE_HOT_LOGITS": (one_hot, logits),
    "MANY_HOT": (many_hot, probabilities),
    "BINARY": (binary, scores),
    "BINARY_LOGITS": (binary, logits[:, :1]),
    "NUMBERS": (targets, guesses),
    "STEPS": (words, steps),
    "MAPS": (spots, maps),
    "VECTORS": (classes, vectors),
    "IDS": (classes, ids),
}
OPTIONS = {"threshold": "LK_NUMBER(%g)", "class_id": "LK_NUMBER(%d)", "k": "%d", "num_thresholds": "%d", "curve": '"%s"',
           "average": '"%s"', "num_classes": "%d", "delta": "LK_NUMBER(%g)", "label_smoothing": "%g",
           "ignore_class": "LK_NUMBER(%d)", "alpha": "LK_NUMBER(%g)", "beta": "LK_NUMBER(%g)", "gamma": "LK_NUMBER(%g)",
           "q": "LK_NUMBER(%g)", "margin": "LK_NUMBER(%g)", "axis": "%d", "top_k": "%d", "num_labels": "%d",
           "summation_method": '"%s"',
           "class_aggregation": '"%s"', "num_regressors": "%d", "recall": "LK_NUMBER(%g)", "precision": "LK_NUMBER(%g)",
           "sensitivity": "LK_NUMBER(%g)", "specificity": "LK_NUMBER(%g)",
           "reduction": "LK_REDUCTION_%s"}


def written(options):
    return "".join(", .%s = %s" % (k, {True: "LK_ON", False: "LK_OFF"}[v] if isinstance(v, bool) else OPTIONS[k] % v)
                   for k, v in options.items())


def numbers(x):
    return ", ".join("%.9g" % v for v in np.ravel(x))


def wrapped(line):
    print(textwrap.fill(line.lstrip(), 132, initial_indent=" " * (len(line) - len(line.lstrip())), subsequent_indent=" " * 8))


def array(name, x):
    wrapped("static const float keras_%s[] = {%s};" % (name, ", ".join("%gf" % v if v % 1 else "%d" % v for v in np.ravel(x))))


LISTS = ("thresholds", "label_weights", "target_class_ids")


def metric_case(ours, metric, data, options=None):
    """One row: constructor, options, data, whether weighted, results, lists among the options."""
    options = dict(options or {})
    lists = ", ".join("{%d, {%s}}" % (len(x), numbers(x) or "0") for x in (options.pop(name, ()) for name in LISTS))
    for weighted in (False, True):
        m = metric()
        y, p = DATA[data]
        for part in (slice(0, FIRST), slice(FIRST, ROWS)):
            m.update_state(y[part], p[part], sample_weight=weights[part] if weighted else None)
        result = np.ravel(m.result())
        wrapped("    {lk_%s_kw, {.kw_ = 0%s}, %s, %s, %d, {%s}, {%s}}," %
                (ours, written(options), data, "true" if weighted else "false", len(result), numbers(result), lists))


def matrix(y, p, w):
    out = np.zeros((CLASSES, CLASSES))
    for label, row, weight in zip(y, p, w):
        out[label, row.argmax()] += weight
    return out


def loss_case(ours, loss, data, reductions=("NONE", "AUTO"), **options):
    y, p = DATA[data]
    spread = weights.reshape((ROWS,) + (1,) * max(0, np.ndim(loss(reduction="none")(y, p)) - 1))
    for weighted in (False, True):
        for reduction in reductions:
            word = {"NONE": "none", "AUTO": "sum_over_batch_size", "SUM": "sum"}[reduction]
            value = loss(reduction=word)(y, p, sample_weight=spread if weighted else None)
            wrapped("    {lk_%s_kw, {.kw_ = 0%s}, %s, %s, %d, {%s}}," %
                  (ours, written({"reduction": reduction, **options}), data, "true" if weighted else "false", np.size(value),
                   numbers(value)))


def keys(objects):
    for o in objects:
        print('    {"%s", "%s"},' % (type(o).__name__, " ".join(sorted(o.get_config()))))


print("/* What Keras %s says about losses and metrics: written by keras_values.py. */" % keras.__version__)
print("/* clang-format off */\n#ifndef LK_TESTS_MODEL_KERAS_VALUES_H\n#define LK_TESTS_MODEL_KERAS_VALUES_H\n")
print("enum { ROWS = %d, CLASS_COUNT = %d, FIRST_BATCH = %d };" % (ROWS, CLASSES, FIRST))
for name, x in (("classes", classes), ("one_hot", one_hot), ("many_hot", many_hot), ("binary", binary), ("targets", targets),
                ("probabilities", probabilities), ("logits", logits), ("scores", scores), ("guesses", guesses),
                ("weights", weights), ("words", words), ("steps", steps), ("spots", spots), ("maps", maps), ("vectors", vectors),
                ("ids", ids)):
    array(name, x)
print("\nenum { %s };" % ", ".join(DATA))

print("\n/* Each case without weights and with them. */\n#ifdef WITH_LOSSES")
print("static const loss_case KERAS_LOSSES[] = {")
loss_case("mean_absolute_percentage_error", L.MeanAbsolutePercentageError, "NUMBERS")
loss_case("mean_squared_logarithmic_error", L.MeanSquaredLogarithmicError, "NUMBERS")
loss_case("cosine_similarity", L.CosineSimilarity, "NUMBERS")
loss_case("poisson", L.Poisson, "NUMBERS")
loss_case("hinge", L.Hinge, "BINARY_LOGITS")
loss_case("squared_hinge", L.SquaredHinge, "BINARY_LOGITS")
loss_case("squared_hinge", L.SquaredHinge, "MANY_HOT")
loss_case("categorical_hinge", L.CategoricalHinge, "ONE_HOT_LOGITS")
loss_case("huber", lambda **k: L.Huber(delta=0.5, **k), "NUMBERS", delta=0.5)
loss_case("categorical_crossentropy", lambda **k: L.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1, **k),
          "ONE_HOT_LOGITS", from_logits=True, label_smoothing=0.1)
loss_case("sparse_categorical_crossentropy", lambda **k: L.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1, **k),
          "CLASS_LOGITS", from_logits=True, ignore_class=1)
loss_case("categorical_crossentropy", lambda **k: L.CategoricalCrossentropy(axis=1, **k), "MAPS", axis=1)
loss_case("categorical_crossentropy", lambda **k: L.CategoricalCrossentropy(axis=1, from_logits=True, **k), "MAPS", axis=1,
          from_logits=True)
loss_case("binary_crossentropy", lambda **k: L.BinaryCrossentropy(axis=1, **k), "MAPS", axis=1)
for o in ({}, {"alpha": 0.4, "gamma": 3.0, "apply_class_balancing": True, "label_smoothing": 0.1}, {"axis": 1}):
    data = "MAPS" if "axis" in o else "MANY_HOT"
    loss_case("binary_focal_crossentropy", lambda **k: L.BinaryFocalCrossentropy(**o, **k), data, **o)
loss_case("binary_focal_crossentropy", lambda **k: L.BinaryFocalCrossentropy(from_logits=True, **k), "BINARY_LOGITS",
          from_logits=True)
loss_case("categorical_focal_crossentropy", L.CategoricalFocalCrossentropy, "MAPS")
loss_case("categorical_focal_crossentropy", lambda **k: L.CategoricalFocalCrossentropy(from_logits=True, alpha=0.5, gamma=1.0, **k),
          "ONE_HOT_LOGITS", from_logits=True, alpha=0.5, gamma=1.0)
loss_case("categorical_focal_crossentropy", lambda **k: L.CategoricalFocalCrossentropy(axis=1, label_smoothing=0.0, **k), "MAPS",
          axis=1)
for o in ({}, {"q": 0.25}):
    loss_case("categorical_generalized_cross_entropy", lambda **k: L.CategoricalGeneralizedCrossEntropy(**o, **k), "CLASSES", **o)
loss_case("dice", L.Dice, "MAPS", ("AUTO",))
loss_case("dice", lambda **k: L.Dice(axis=1, **k), "MAPS", axis=1)
loss_case("tversky", L.Tversky, "MAPS", ("AUTO",))
loss_case("tversky", lambda **k: L.Tversky(alpha=0.25, beta=0.75, axis=-1, **k), "MAPS", axis=-1, alpha=0.25, beta=0.75)
for o in ({}, {"gamma": 8.0, "margin": 0.25, "remove_diagonal": False}):
    loss_case("circle", lambda **k: L.Circle(**o, **k), "VECTORS", **o)
loss_case("ctc", L.CTC, "STEPS")
print("};")
print("static const char *const KERAS_LOSS_KEYS[][2] = {")
keys(c() for c in (L.SparseCategoricalCrossentropy, L.CategoricalCrossentropy, L.BinaryCrossentropy, L.MeanSquaredError,
                   L.MeanAbsoluteError, L.Huber, L.LogCosh, L.Hinge, L.KLDivergence, L.MeanAbsolutePercentageError,
                   L.MeanSquaredLogarithmicError, L.CosineSimilarity, L.Poisson, L.SquaredHinge, L.CategoricalHinge,
                   L.BinaryFocalCrossentropy, L.CategoricalFocalCrossentropy, L.CategoricalGeneralizedCrossEntropy, L.Dice,
                   L.Tversky, L.Circle, L.CTC))
print("};")
print("#endif")

print("#ifdef WITH_METRICS")
print("static const metric_case KERAS_METRICS[] = {")
metric_case("accuracy", M.SparseCategoricalAccuracy, "CLASSES")
metric_case("accuracy", M.CategoricalAccuracy, "ONE_HOT")
metric_case("accuracy", M.BinaryAccuracy, "BINARY")
metric_case("sparse_categorical_accuracy", M.SparseCategoricalAccuracy, "CLASSES")
metric_case("categorical_accuracy", M.CategoricalAccuracy, "ONE_HOT")
metric_case("binary_accuracy", M.BinaryAccuracy, "BINARY")
metric_case("binary_accuracy", lambda: M.BinaryAccuracy(threshold=0.25), "MANY_HOT", {"threshold": 0.25})
for k in (1, 2, 3):
    metric_case("top_k_categorical_accuracy", lambda: M.TopKCategoricalAccuracy(k=k), "ONE_HOT", {"k": k})
    metric_case("sparse_top_k_categorical_accuracy", lambda: M.SparseTopKCategoricalAccuracy(k=k), "CLASSES", {"k": k})
for name in ("Precision", "Recall"):
    make = getattr(M, name)
    metric_case(name.lower(), make, "BINARY")
    metric_case(name.lower(), lambda: make(thresholds=0.25), "BINARY", {"threshold": 0.25})
    metric_case(name.lower(), lambda: make(class_id=2), "MANY_HOT", {"class_id": 2})
    metric_case(name.lower(), lambda: make(class_id=0, thresholds=0.2), "ONE_HOT", {"class_id": 0, "threshold": 0.2})
for name in ("true_positives", "true_negatives", "false_positives", "false_negatives"):
    make = getattr(M, "".join(w.title() for w in name.split("_")))
    metric_case(name, make, "MANY_HOT")
    metric_case(name, lambda: make(thresholds=0.75), "BINARY", {"threshold": 0.75})
for curve in ("ROC", "PR"):
    metric_case("auc", lambda: M.AUC(curve=curve), "BINARY", {"curve": curve})
    metric_case("auc", lambda: M.AUC(curve=curve, num_thresholds=5), "BINARY", {"curve": curve, "num_thresholds": 5})
    metric_case("auc", lambda: M.AUC(curve=curve, num_thresholds=2), "BINARY", {"curve": curve, "num_thresholds": 2})
    metric_case("auc", lambda: M.AUC(curve=curve), "MANY_HOT", {"curve": curve})
    metric_case("auc", lambda: M.AUC(curve=curve, from_logits=True), "BINARY_LOGITS", {"curve": curve, "from_logits": True})
for average in (None, "micro", "macro", "weighted"):
    o = {"average": average} if average else {}
    metric_case("f1_score", lambda: M.F1Score(average=average), "ONE_HOT", o)
    metric_case("f1_score", lambda: M.F1Score(average=average, threshold=0.3), "MANY_HOT",
                    {**o, "threshold": 0.3, "num_classes": 4})
metric_case("mean_squared_error_metric", M.MeanSquaredError, "NUMBERS")
metric_case("root_mean_squared_error_metric", M.RootMeanSquaredError, "NUMBERS")
metric_case("mean_absolute_error_metric", M.MeanAbsoluteError, "NUMBERS")
metric_case("cosine_similarity_metric", M.CosineSimilarity, "NUMBERS")
metric_case("mean_absolute_percentage_error_metric", M.MeanAbsolutePercentageError, "NUMBERS")
metric_case("mean_squared_logarithmic_error_metric", M.MeanSquaredLogarithmicError, "NUMBERS")
metric_case("log_cosh_error_metric", M.LogCoshError, "NUMBERS")
metric_case("poisson_metric", M.Poisson, "NUMBERS")
metric_case("hinge_metric", M.Hinge, "BINARY_LOGITS")
metric_case("squared_hinge_metric", M.SquaredHinge, "BINARY_LOGITS")
metric_case("categorical_hinge_metric", M.CategoricalHinge, "ONE_HOT_LOGITS")
metric_case("kl_divergence_metric", M.KLDivergence, "MANY_HOT")
metric_case("categorical_crossentropy_metric", lambda: M.CategoricalCrossentropy(from_logits=True), "ONE_HOT_LOGITS",
            {"from_logits": True})
metric_case("sparse_categorical_crossentropy_metric", lambda: M.SparseCategoricalCrossentropy(from_logits=True), "CLASS_LOGITS",
            {"from_logits": True})
metric_case("sparse_categorical_crossentropy_metric", M.SparseCategoricalCrossentropy, "CLASSES")
metric_case("binary_crossentropy_metric", M.BinaryCrossentropy, "BINARY")
metric_case("binary_crossentropy_metric", lambda: M.BinaryCrossentropy(from_logits=True), "BINARY_LOGITS", {"from_logits": True})
many = {"thresholds": [0.25, 0.5, 0.6]}
even = {"thresholds": [0.0, 0.25, 0.5, 0.75, 1.0]}
for name in ("Precision", "Recall"):
    make = getattr(M, name)
    for o in (many, even, {"top_k": 2}, {"top_k": 1, "class_id": 1}, {"top_k": 3, "thresholds": [0.2, 0.3]}):
        metric_case(name.lower(), lambda: make(**o), "MANY_HOT", o)
metric_case("true_positives", lambda: M.TruePositives(**many), "BINARY", many)
metric_case("false_negatives", lambda: M.FalseNegatives(**even), "BINARY", even)
for curve in ("ROC", "PR", "PRGAIN"):
    for o in ({"summation_method": "minoring"}, {"summation_method": "majoring"}, {}, many, even):
        o = {**o, "curve": curve}
        metric_case("auc", lambda: M.AUC(**o), "BINARY", o)
    for o in ({}, {"num_labels": 4, "label_weights": [1.0, 2.0, 3.0, 0.5]}):
        o = {**o, "curve": curve, "multi_label": True, "num_thresholds": 20}
        metric_case("auc", lambda: M.AUC(**o), "MANY_HOT", o)
o = {"label_weights": [1.0, 2.0, 3.0, 0.5], "num_thresholds": 20}
metric_case("auc", lambda: M.AUC(**o), "MANY_HOT", o)
for average in (None, "micro", "macro", "weighted"):
    o = {"average": average} if average else {}
    metric_case("fbeta_score", lambda: M.FBetaScore(beta=2.0, **o), "ONE_HOT", {**o, "beta": 2.0})
metric_case("fbeta_score", lambda: M.FBetaScore(beta=0.5, threshold=0.3), "MANY_HOT", {"beta": 0.5, "threshold": 0.3})
for how in ("uniform_average", "variance_weighted_average", None):
    metric_case("r2_score", lambda: M.R2Score(class_aggregation=how), "NUMBERS", {"class_aggregation": how or "none"})
metric_case("r2_score", lambda: M.R2Score(num_regressors=2), "NUMBERS", {"num_regressors": 2})
metric_case("pearson_correlation", M.PearsonCorrelation, "ONE_HOT_LOGITS")
metric_case("concordance_correlation", M.ConcordanceCorrelation, "ONE_HOT_LOGITS")
metric_case("accuracy", M.SparseCategoricalAccuracy, "CLASSES")
metric_case("exact_accuracy", M.Accuracy, "IDS")
for o in ({"target_class_ids": [0, 2]}, {"target_class_ids": [1], "ignore_class": 2}):
    o = {**o, "num_classes": 4}
    metric_case("iou", lambda: M.IoU(dtype="float32", **o), "IDS", o)
    metric_case("one_hot_iou", lambda: M.OneHotIoU(dtype="float32", **o), "ONE_HOT", o)
o = {"target_class_ids": [0, 3], "num_classes": 4, "sparse_y_pred": False}
metric_case("iou", lambda: M.IoU(dtype="float32", **o), "CLASSES", o)
for o in ({}, {"ignore_class": 1}):
    o = {**o, "num_classes": 4}
    metric_case("mean_iou", lambda: M.MeanIoU(dtype="float32", **o), "IDS", o)
    metric_case("one_hot_mean_iou", lambda: M.OneHotMeanIoU(dtype="float32", **o), "ONE_HOT", o)
o = {"num_classes": 4, "sparse_y_true": False, "sparse_y_pred": False}
metric_case("mean_iou", lambda: M.MeanIoU(dtype="float32", **o), "ONE_HOT", o)
for o in ({}, {"target_class_ids": [1], "threshold": 0.25}):
    metric_case("binary_iou", lambda: M.BinaryIoU(dtype="float32", **o), "BINARY", o)
for name in ("PrecisionAtRecall", "RecallAtPrecision", "SensitivityAtSpecificity", "SpecificityAtSensitivity"):
    make, at = getattr(M, name), name.split("At")[1].lower()
    ours = name.split("At")[0].lower() + "_at_" + at
    metric_case(ours, lambda: make(0.5), "BINARY", {at: 0.5})
    metric_case(ours, lambda: make(0.7, num_thresholds=10, class_id=2), "MANY_HOT", {at: 0.7, "num_thresholds": 10, "class_id": 2})
    metric_case(ours, lambda: make(0.25, num_thresholds=1), "BINARY", {at: 0.25, "num_thresholds": 1})
o = {"label_smoothing": 0.1}
metric_case("categorical_crossentropy_metric", lambda: M.CategoricalCrossentropy(from_logits=True, **o), "ONE_HOT_LOGITS",
            {**o, "from_logits": True})
metric_case("categorical_crossentropy_metric", lambda: M.CategoricalCrossentropy(axis=1), "MAPS", {"axis": 1})
metric_case("binary_crossentropy_metric", lambda: M.BinaryCrossentropy(**o), "BINARY", o)
o = {"ignore_class": 2}
metric_case("sparse_categorical_crossentropy_metric", lambda: M.SparseCategoricalCrossentropy(**o), "CLASSES", o)
for weighted in (False, True):
    wrapped("    {lk_confusion_matrix_kw, {.kw_ = 0}, CLASSES, %s, 16, {%s}, {{0, {0}}, {0, {0}}, {0, {0}}}}," %
          ("true" if weighted else "false", numbers(matrix(classes, probabilities, weights if weighted else np.ones(ROWS)))))
print("};")
print("static const char *const KERAS_METRIC_KEYS[][2] = {")
keys(c() for c in (M.Mean, M.Sum, M.BinaryAccuracy, M.CategoricalAccuracy, M.SparseCategoricalAccuracy, M.TopKCategoricalAccuracy,
                   M.SparseTopKCategoricalAccuracy, M.Precision, M.Recall, M.AUC, M.F1Score, M.TruePositives, M.TrueNegatives,
                   M.FalsePositives, M.FalseNegatives, M.MeanSquaredError, M.RootMeanSquaredError, M.MeanAbsoluteError,
                   M.CosineSimilarity, M.CategoricalCrossentropy, M.SparseCategoricalCrossentropy, M.BinaryCrossentropy,
                   M.KLDivergence, M.MeanAbsolutePercentageError, M.MeanSquaredLogarithmicError, M.LogCoshError, M.Poisson, M.Hinge,
                   M.SquaredHinge, M.CategoricalHinge, M.Accuracy, M.FBetaScore, M.R2Score, M.PearsonCorrelation,
                   M.ConcordanceCorrelation, M.BinaryIoU, lambda: M.IoU(4, [0]), lambda: M.MeanIoU(4), lambda: M.OneHotIoU(4, [0]),
                   lambda: M.OneHotMeanIoU(4), lambda: M.PrecisionAtRecall(0.5), lambda: M.RecallAtPrecision(0.5),
                   lambda: M.SensitivityAtSpecificity(0.5), lambda: M.SpecificityAtSensitivity(0.5)))
print("};")
print("#endif")
print("#endif")
