"""operations.py PROGRAM [FOLDER [PART]]: operations of keras.ops in functional models, against Keras.

Every case is a small functional model around one operation in one form. PROGRAM (build/release/tests/interop/operations) loads
FOLDER/NAME.keras, writes what it predicts for NAME.x.0.npy, ..., what it predicts after one step of training, and the model again.
Predictions must be those of Keras, before and after the step; the model that was written must have the same config and predict the
same.

    python tests/interop/operations.py --cases        writes tests/keras/operation_cases.inc, for tests without Python
"""
import json
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
import keras
import numpy as np
from keras import layers, ops

BOUND = 2e-5
ROWS = 4
random = np.random.default_rng(11)
CONST = {"v3": [0.5, -1.0, 2.0], "v4": [0.1, 0.2, -0.3, 0.4]}


def constant(*shape):
    return ops.convert_to_tensor(random.normal(size=shape).astype("float32"))


def positive(x):
    return ops.sigmoid(x) + 0.1


def inside(x):
    return ops.tanh(x) * 0.9


def whole(x):
    return ops.cast(ops.floor(x * 3), "int32")


def holes(x):
    return ops.where(x > 0.8, float("nan"), x)


def ids(x, n):
    return ops.cast(ops.clip(ops.floor(ops.abs(x) * 2), 0, n - 1), "int32")


# name: function of x [rows, 3, 4]; or (shapes, function)
FORMS = {}


def form(name, function, *shapes):
    FORMS[name] = (shapes or ((3, 4),), function)


UNARY = ("absolute negative square sign ceil floor trunc exp exp2 expm1 sin cos tan tanh sinh cosh arctan arcsinh erf erfc "
         "deg2rad rad2deg relu relu6 sigmoid softplus softsign silu log_sigmoid hard_sigmoid hard_silu hard_tanh tanh_shrink selu "
         "elu gelu leaky_relu celu squareplus hard_shrink soft_shrink sparse_plus sparse_sigmoid sinc isfinite isnan isinf signbit "
         "logical_not round cbrt copy isposinf isneginf isreal ones_like zeros_like conj real imag angle fabs reciprocal "
         "nan_to_num stop_gradient empty_like").split()
for n in UNARY:
    if n == "tan":
        form(n, lambda x: ops.tan(inside(x)))
    elif n == "empty_like":
        form(n, lambda x: ops.multiply(ops.empty_like(x), 0.0))
    elif n in ("cbrt", "reciprocal"):
        form(n, lambda x, f=getattr(ops, n): f(positive(x)))
    else:
        form(n, lambda x, f=getattr(ops, n): f(x))
for n in "log log1p log2 log10 sqrt rsqrt".split():
    form(n, lambda x, f=getattr(ops, n): f(positive(x)))
for n in "arcsin arccos arctanh".split():
    form(n, lambda x, f=getattr(ops, n): f(inside(x)))
form("arccosh", lambda x: ops.arccosh(ops.exp(x) + 1.05))
form("elu_alpha", lambda x: ops.elu(x, alpha=0.5))
form("celu_alpha", lambda x: ops.celu(x, alpha=1.5))
form("gelu_exact", lambda x: ops.gelu(x, approximate=False))
form("leaky_relu_slope", lambda x: ops.leaky_relu(x, negative_slope=0.05))
form("threshold", lambda x: ops.threshold(x, 0.2, -1.5))
form("round_decimals", lambda x: ops.round(x, decimals=1))
form("nan_to_num_values", lambda x: ops.nan_to_num(holes(x), nan=7.0))
form("full_like", lambda x: ops.full_like(x, 2.5))
form("where_single", lambda x: ops.where(ops.isnan(holes(x)), 0.0, x))

TWO = ("add subtract multiply divide true_divide floor_divide mod maximum minimum fmax fmin equal not_equal less less_equal "
       "greater greater_equal logical_and logical_or logical_xor logaddexp logaddexp2 hypot heaviside divide_no_nan "
       "arctan2").split()
for n in TWO:
    form(n, lambda x, y, f=getattr(ops, n): f(x, y), (3, 4), (3, 4))
    if n not in ("hypot", "heaviside"):  # Keras' own refuse a number
        form(n + "_number", lambda x, f=getattr(ops, n): f(x, 0.75))
    form(n + "_constant", lambda x, f=getattr(ops, n): f(x, np.array(CONST["v4"], "float32")))
form("power", lambda x, y: ops.power(positive(x), y), (3, 4), (3, 4))
form("power_number", lambda x: x ** 2)
form("power_from", lambda x: 2.0 ** x)
form("ldexp", lambda x: ops.ldexp(x, 3))
form("fmod", lambda x: ops.fmod(x, 0.7) if hasattr(ops, "fmod") else ops.mod(x, 0.7))
form("number_first", lambda x: 1.0 - x)
form("divided_number", lambda x: 1.0 / (x * x + 1.0))
form("integers", lambda x: ops.cast(whole(x) * 2 + 1, "float32"))
form("integers_divided", lambda x: whole(x) / 2)
form("integers_floor", lambda x: ops.cast(whole(x) // 2, "float32"))
form("integers_mod", lambda x: ops.cast(whole(x) % 2, "float32"))
form("integers_and_floats", lambda x, y: whole(x) * y, (3, 4), (3, 4))
form("operators", lambda x, y: -x + abs(y) * 2 - y / 4 + (x > y) * x, (3, 4), (3, 4))
form("rows_broadcast", lambda x, y: x * y, (3, 4), (3, 1))
form("isclose", lambda x, y: ops.isclose(x, y, rtol=0.5, atol=0.1), (3, 4), (3, 4))
form("where", lambda x, y: ops.where(x > y, x, y * 2), (3, 4), (3, 4))
form("where_numbers", lambda x: ops.where(x > 0, 1.0, -1.0))
form("select", lambda x: ops.select([x < -0.5, x > 0.5], [x * 2, x * 3], default=1.0))
form("clip", lambda x: ops.clip(x, -0.5, 0.5))
form("cast_bool", lambda x: ops.cast(ops.cast(x, "bool"), "float32"))
form("cast_int", lambda x: ops.cast(ops.cast(x * 3, "int32"), "float32"))

REDUCTIONS = ("sum mean max min prod var std amax amin logsumexp all any count_nonzero ptp nansum nanmean nanmax nanmin nanprod "
              "nanstd nanvar").split()
for n in REDUCTIONS:
    f = getattr(ops, n, None)
    if f is None:
        continue
    sign = holes if n.startswith("nan") else lambda x: x
    if n in ("all", "any", "count_nonzero"):
        sign = lambda x: ops.cast(x > 0, "int32")
    form(n, lambda x, f=f, s=sign: f(s(x), axis=-1))
    form(n + "_axes", lambda x, f=f, s=sign: f(s(x), axis=(1, 2)))
    if n != "count_nonzero":
        form(n + "_keepdims", lambda x, f=f, s=sign: f(s(x), axis=1, keepdims=True))
form("sum_bool", lambda x: ops.sum(x > 0, axis=-1))
form("max_initial", lambda x: ops.max(x, axis=1, initial=0.1))
form("argmax", lambda x: ops.argmax(x, axis=-1))
form("argmax_keepdims", lambda x: ops.argmax(x, axis=1, keepdims=True))
form("argmin", lambda x: ops.argmin(x, axis=1))
form("average", lambda x: ops.average(x, axis=-1))
form("average_weights", lambda x: ops.average(x, axis=2, weights=np.array([1, 2, 3, 4], "float32")))
form("median", lambda x: ops.median(x, axis=-1))
form("median_keepdims", lambda x: ops.median(x, axis=1, keepdims=True))
form("quantile", lambda x: ops.quantile(x, 0.3, axis=-1))
form("percentile", lambda x: ops.percentile(x, 30, axis=-1) if hasattr(ops, "percentile") else ops.quantile(x, 0.3, axis=-1))
form("cumsum", lambda x: ops.cumsum(x, axis=1))
form("diff", lambda x: ops.diff(x, axis=-1))
form("diff_twice", lambda x: ops.diff(x, n=2, axis=2))
form("trapezoid", lambda x: ops.trapezoid(x, dx=0.5, axis=-1) if hasattr(ops, "trapezoid") else x)
form("sort", lambda x: ops.sort(x, axis=-1))
form("sort_axis", lambda x: ops.sort(x, axis=1))
form("argsort", lambda x: ops.argsort(x, axis=-1))
form("top_k", lambda x: ops.top_k(x, 2)[0])
form("top_k_both", lambda x: ops.concatenate([ops.cast(t, "float32") for t in ops.top_k(x, 2)], axis=-1))
form("norm", lambda x: ops.norm(x, axis=-1))
form("norm_one", lambda x: ops.norm(x, ord=1, axis=-1, keepdims=True))
form("norm_three", lambda x: ops.norm(x, ord=3, axis=1))
form("norm_frobenius", lambda x: ops.norm(x, axis=(1, 2)))
form("normalize", lambda x: ops.normalize(x))
form("normalize_one", lambda x: ops.normalize(x, axis=1, order=1))
form("moments", lambda x: ops.concatenate(list(ops.moments(x, axes=[1])), axis=-1))
form("moments_keepdims", lambda x: ops.moments(x, axes=[1, 2], keepdims=True)[1])

form("reshape", lambda x: ops.reshape(x, (-1, 12)))
form("reshape_none", lambda x: ops.reshape(x, (-1, 2, 6)))
form("transpose", lambda x: ops.transpose(x, (0, 2, 1)))
form("swapaxes", lambda x: ops.swapaxes(x, 1, 2))
form("moveaxis", lambda x: ops.moveaxis(x, -1, 1))
form("expand_dims", lambda x: ops.squeeze(ops.expand_dims(x, 2), 2))
form("expand_last", lambda x: ops.expand_dims(x, -1))
form("squeeze", lambda x: ops.squeeze(ops.sum(x, axis=1, keepdims=True)))
form("flip", lambda x: ops.flip(x, axis=1))
form("flip_axes", lambda x: ops.flip(x, axis=(1, 2)))
form("fliplr", lambda x: ops.fliplr(x) if hasattr(ops, "fliplr") else x)
form("rot90", lambda x: ops.rot90(x, k=1, axes=(1, 2)))
form("rot90_three", lambda x: ops.rot90(x, k=3, axes=(1, 2)))
form("concatenate", lambda x, y: ops.concatenate([x, y], axis=1), (3, 4), (2, 4))
form("concatenate_constant", lambda x: ops.concatenate([x, ops.zeros_like(x)], axis=-1))
form("hstack", lambda x, y: ops.hstack([x, y]), (3, 4), (2, 4))
form("append", lambda x, y: ops.append(x, y, axis=1), (3, 4), (2, 4))
form("stack", lambda x, y: ops.stack([x, y], axis=1), (3, 4), (3, 4))
form("stack_last", lambda x, y: ops.stack([x, y], axis=-1), (3, 4), (3, 4))
form("split", lambda x: ops.concatenate(ops.split(x, 2, axis=-1)[::-1], axis=1))
form("split_at", lambda x: ops.split(x, [1, 3], axis=-1)[1])
form("array_split", lambda x: ops.array_split(x, 3, axis=-1)[0] if hasattr(ops, "array_split") else x)
form("hsplit", lambda x: ops.hsplit(x, 3)[1] if hasattr(ops, "hsplit") else x)
form("unstack", lambda x: ops.unstack(x, axis=1)[2])
form("tile", lambda x: ops.tile(x, (1, 2, 3)))
form("tile_last", lambda x: ops.tile(x, (1, 1, 2)))
form("repeat", lambda x: ops.repeat(x, 2, axis=1))
form("roll", lambda x: ops.roll(x, 1, axis=1))
form("roll_back", lambda x: ops.roll(x, -3, axis=-1))
form("pad", lambda x: ops.pad(x, ((0, 0), (1, 2), (0, 1))))
form("pad_value", lambda x: ops.pad(x, [[0, 0], [1, 0], [0, 0]], constant_values=3.0))
form("pad_reflect", lambda x: ops.pad(x, ((0, 0), (1, 1), (2, 1)), mode="reflect"))
form("slice", lambda x: ops.slice(x, (0, 1, 0), (-1, 2, 3)) if False else x[:, 1:3, 0:3])
form("get_first", lambda x: x[:, 0])
form("get_last", lambda x: x[:, -1, :])
form("get_steps", lambda x: x[:, ::2, 1:])
form("get_back", lambda x: x[:, ::-1])
form("get_dots", lambda x: x[..., 0])
form("get_dots_slice", lambda x: x[..., 1:-1])
form("get_new_axis", lambda x: x[:, None, :, 0])
form("take", lambda x: ops.take(x, [0, 2, -1], axis=-1))
form("take_one", lambda x: ops.take(x, 1, axis=1))
form("take_table", lambda x: ops.take(constant(5, 3), ids(x, 5), axis=0))
form("take_along_axis", lambda x: ops.take_along_axis(x, ops.argsort(x, axis=-1), axis=-1))
form("take_along_middle", lambda x: ops.take_along_axis(x, ops.argmax(x, axis=1, keepdims=True), axis=1))
form("broadcast_to", lambda x: ops.broadcast_to(ops.sum(x, axis=1, keepdims=True), (ROWS, 3, 4)) if False else x + 0)
form("one_hot", lambda x: ops.one_hot(ids(x, 5), 5))
form("one_hot_axis", lambda x: ops.one_hot(ids(x, 5), 5, axis=1))
form("multi_hot", lambda x: ops.multi_hot(ids(x, 5), 5))
form("tril", lambda x: ops.tril(x))
form("triu", lambda x: ops.triu(x, k=1))
form("diagonal", lambda x: ops.diagonal(x, axis1=1, axis2=2))
form("diagonal_offset", lambda x: ops.diagonal(x, offset=1, axis1=1, axis2=2))
form("trace", lambda x: ops.trace(x, axis1=1, axis2=2))
form("depth_to_space", lambda x: ops.depth_to_space(x, 2) if hasattr(ops, "depth_to_space") else x, (2, 3, 8))
form("space_to_depth", lambda x: ops.space_to_depth(x, 2) if hasattr(ops, "space_to_depth") else x, (4, 2, 3))

form("matmul", lambda x, y: ops.matmul(x, y), (3, 4), (4, 2))
form("matmul_constant", lambda x: ops.matmul(x, constant(4, 5)))
form("matmul_vector", lambda x: ops.matmul(x, constant(4)))
form("matmul_from_constant", lambda x: ops.matmul(constant(5, 3), x))
form("at_operator", lambda x, y: x @ ops.transpose(y, (0, 2, 1)), (3, 4), (2, 4))
form("dot_constant", lambda x: ops.dot(x, constant(4, 5)))
form("tensordot", lambda x: ops.tensordot(x, constant(3, 4, 2), axes=2))
form("tensordot_axes", lambda x: ops.tensordot(x, constant(5, 3), axes=[[1], [1]]))
form("einsum_product", lambda x, y: ops.einsum("bij,bkj->bik", x, y), (3, 4), (2, 4))
form("einsum_constant", lambda x: ops.einsum("bij,jk->bik", x, constant(4, 5)))
form("einsum_heads", lambda x: ops.einsum("abc,cde->abde", x, constant(4, 2, 3)))
form("einsum_dots", lambda x: ops.einsum("...j,jk->...k", x, constant(4, 5)))
form("einsum_one", lambda x: ops.einsum("bij->bji", x))
form("einsum_sum", lambda x: ops.einsum("bij->bj", x))
form("einsum_three", lambda x, y: ops.einsum("bij,bkj,kl->bil", x, y, constant(2, 3)), (3, 4), (2, 4))
form("einsum_rows", lambda x, y: ops.einsum("bij,bij->b", x, y), (3, 4), (3, 4))
form("cross", lambda x, y: ops.cross(x, y), (2, 3), (2, 3))

form("softmax", lambda x: ops.softmax(x))
form("softmax_axis", lambda x: ops.softmax(x, axis=1))
form("log_softmax", lambda x: ops.log_softmax(x, axis=1))
form("sparsemax", lambda x: ops.sparsemax(x))
form("glu", lambda x: ops.glu(x))
form("max_pool", lambda x: ops.max_pool(x, 2), (4, 6, 2))
form("max_pool_same", lambda x: ops.max_pool(x, (2, 3), strides=(1, 2), padding="same"), (4, 6, 2))
form("average_pool", lambda x: ops.average_pool(x, 2, padding="same"), (5, 6, 2))
form("max_pool_steps", lambda x: ops.max_pool(x, 2), (6, 3))
form("conv", lambda x: ops.conv(x, constant(3, 3, 2, 4), padding="same"), (5, 6, 2))
form("conv_strides", lambda x: ops.conv(x, constant(3, 3, 2, 4), strides=2), (5, 6, 2))
form("conv_steps", lambda x: ops.conv(x, constant(3, 2, 4), strides=2, padding="same"), (6, 2))
form("depthwise_conv", lambda x: ops.depthwise_conv(x, constant(3, 3, 2, 2)), (5, 6, 2))
form("separable_conv", lambda x: ops.separable_conv(x, constant(3, 3, 2, 2), constant(1, 1, 4, 3)), (5, 6, 2))
form("batch_norm", lambda x: ops.batch_normalization(x, mean=constant(4), variance=ops.exp(constant(4)), axis=-1,
                                                     offset=constant(4), scale=constant(4)))
form("layer_norm", lambda x: ops.layer_normalization(x, constant(4), constant(4)))
form("rms_norm", lambda x: ops.rms_normalization(x, constant(4)))
form("rms_norm_plain", lambda x: ops.rms_normalization(x))
form("attention", lambda x, y: ops.dot_product_attention(x, y, y), (3, 2, 4), (5, 2, 4))
form("attention_causal", lambda x: ops.dot_product_attention(x, x, x, is_causal=True, scale=0.3), (3, 2, 4))
form("binary_crossentropy", lambda x, y: ops.binary_crossentropy(ops.sigmoid(x), ops.sigmoid(y)), (3, 4), (3, 4))
form("binary_crossentropy_logits", lambda x, y: ops.binary_crossentropy(ops.sigmoid(x), y, from_logits=True), (3, 4), (3, 4))
form("categorical_crossentropy", lambda x, y: ops.categorical_crossentropy(ops.softmax(x), ops.exp(y)), (3, 4), (3, 4))
form("categorical_crossentropy_logits",
     lambda x, y: ops.categorical_crossentropy(ops.softmax(x), y, from_logits=True), (3, 4), (3, 4))
form("sparse_categorical_crossentropy",
     lambda x, y: ops.sparse_categorical_crossentropy(ops.argmax(x, axis=-1), y, from_logits=True), (3, 4), (3, 4))
form("in_top_k", lambda x: ops.in_top_k(ops.argmax(x[:, 0], axis=-1), x[:, 1], 2))
form("rgb_to_grayscale", lambda x: ops.image.rgb_to_grayscale(x), (4, 5, 3))
form("crop_images", lambda x: ops.image.crop_images(x, top_cropping=1, left_cropping=2, target_height=2, target_width=3), (4, 6, 3))
form("pad_images", lambda x: ops.image.pad_images(x, 1, 2, target_height=7, target_width=9), (4, 6, 3))


form("adaptive_max_pool", lambda x: ops.adaptive_max_pool(x, (2, 3)), (4, 6, 2))
form("adaptive_average_pool", lambda x: ops.adaptive_average_pool(x, (2, 2)), (5, 6, 2))
form("isin", lambda x: ops.isin(ids(x, 5), [1, 3]))
form("erfinv", lambda x: ops.erfinv(inside(x)))


def model_of(name):
    """Rows go through a Dense, so that gradients go through the operation; its results through another one."""
    shapes, function = FORMS[name]
    inputs = [keras.Input(s, name="in_%d" % i) for i, s in enumerate(shapes)]
    hidden = [layers.Dense(s[-1], name="before_%d" % i)(x) for i, (s, x) in enumerate(zip(shapes, inputs))]
    y = function(*hidden)
    y = layers.Flatten(name="flat")(y) if len(y.shape) > 1 else layers.Reshape((1,), name="flat")(y)
    model = keras.Model(inputs, layers.Dense(2, name="after")(y), name="m")
    for v in model.weights:
        v.assign(random.normal(size=v.shape) * 0.6)
    model.compile(keras.optimizers.SGD(0.002), "mse")
    return model


def rows_of(name):
    return [random.normal(size=(ROWS,) + s).astype("float32") for s in FORMS[name][0]]


def send(name, folder):
    model, x = model_of(name), rows_of(name)
    y = random.normal(size=(ROWS, 2)).astype("float32")
    model.save(folder + "/" + name + ".keras")
    one = x[0] if len(x) == 1 else x
    before = model.predict_on_batch(one)
    model.train_on_batch(one, y)
    for i, a in enumerate(x):
        np.save("%s/%s.x.%d.npy" % (folder, name, i), a)
    np.save("%s/%s.y.0.npy" % (folder, name), y)
    return model, one, before, model.predict_on_batch(one)


def worst(a, b):
    if a.shape == b.shape and np.array_equal(np.isnan(a), np.isnan(b)):
        a, b = np.nan_to_num(a), np.nan_to_num(b)
    return float(np.max(np.abs(a - b)) / max(1e-3, np.max(np.abs(b)))) if a.shape == b.shape else float("inf")


def same(name, what, got, want):
    if not worst(got, want) <= BOUND:
        raise AssertionError("%s differs by %.2g" % (what, worst(got, want)))


def config_of(model):
    return json.loads(json.dumps(json.loads(model.to_json())["config"], sort_keys=True))


def check(name, folder, sent):
    model, x, before, after = sent
    load = lambda what: np.load("%s/%s.%s.0.npy" % (folder, name, what))
    same(name, "the prediction", load("before"), before)
    if not name.startswith("nan"):  # gradients of NaN that is left out are NaN in Keras
        same(name, "the prediction after a step", load("after"), after)
    back = keras.models.load_model(folder + "/" + name + ".back.keras")
    same(name, "the prediction of the model that came back", back.predict_on_batch(x), before)
    if config_of(back) != config_of(model):
        raise AssertionError("another config came back")


# ---- cases for the tests without Python ----


def values(i, shape):
    """Two rows that the test makes too: numbers of 40 parts, all different for small shapes."""
    k = np.arange(int(np.prod((2,) + shape)))
    return (((k * 37 + i * 11) % 101 - 50) / 40).astype("float32").reshape((2,) + shape)


def shortened(v):
    """A tensor as @name,node,result:sizes:dtype; and the rest as JSON with single quotes."""
    if isinstance(v, dict) and v.get("class_name") == "__keras_tensor__":
        c = v["config"]
        dtype = "" if c["dtype"] == "float32" else ":" + c["dtype"]
        return "@%s,%d,%d:%s%s;" % (*c["keras_history"], ",".join(str(n) for n in c["shape"][1:]), dtype)
    if isinstance(v, dict):
        return "{%s}" % ",".join("'%s':%s" % (k, shortened(e)) for k, e in v.items())
    return "[%s]" % ",".join(shortened(e) for e in v) if isinstance(v, list) else json.dumps(v).replace('"', "'")


def wrapped(pieces, between, start):
    lines, line = [], start
    for p in pieces:
        if len(line) + len(p) > 128:
            lines.append(line.rstrip())
            line = start
        line += p + between
    return lines + [line.rstrip(", ") if between else line]


def case(name):
    """An operation as $module.Class^config~nodes, input 0 as #0."""
    shapes, function = FORMS[name]
    inputs = [keras.Input(s, name="x%d" % i) for i, s in enumerate(shapes)]
    model = keras.Model(inputs, function(*inputs))
    rows = [values(i, s) for i, s in enumerate(shapes)]
    y = np.asarray(model(rows)).astype("float64")
    config = json.loads(model.to_json())["config"]
    text = ""
    for e in config["layers"]:
        parts = e["module"].split(".")[-1], e["class_name"], shortened(e["config"]), shortened(e["inbound_nodes"])
        text += "#" + e["name"][1:] if e["class_name"] == "InputLayer" else "$%s.%s^%s~%s" % parts
    lines = ['     "%s"' % text[i:i + 118] for i in range(0, len(text), 118)]
    numbers = ["NAN" if np.isnan(v) else "INFINITY" if np.isinf(v) else "%.7g" % v for v in y.ravel()]
    shape = lambda s: "SHAPE(%s)" % ", ".join([str(len(s))] + [str(n) for n in s])
    return 'CASE(%s, INPUTS(%s), "%s,%d,%d",\n%s,\n%s)' % (
        name, ", ".join(shape(s) for s in shapes), *config["output_layers"], "\n".join(lines),
        "\n".join(wrapped(numbers, ", ", "     ")))


def write_cases():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "keras", "operation_cases.inc")
    found = []
    for name in FORMS:
        try:
            text = case(name)
        except Exception as error:
            print("NOT MADE", name, str(error)[:100])
            continue
        if len(text) < 1200:
            found.append(text)
    with open(path, "w") as file:
        file.write("/* Written by tests/interop/operations.py --cases: CASE(name, shapes of rows, output, layers, results). */\n")
        file.write("/* clang-format off */\n")
        file.write("\n".join(found) + "\n")
    print(len(found), "cases")


def main():
    if sys.argv[1:] == ["--cases"]:
        return write_cases()
    program = sys.argv[1]
    folder = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="lockstep-operations-")
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    os.makedirs(folder, exist_ok=True)
    made, failed = {}, 0
    for name in FORMS:
        if part not in name:
            continue
        try:
            made[name] = send(name, folder)
        except Exception as error:
            print("NOT MADE", name, type(error).__name__, str(error)[:300])
    subprocess.run([program, folder] + list(made))
    for name in made:
        try:
            check(name, folder, made[name])
        except Exception as error:
            failed += 1
            print("FAILED", name, type(error).__name__, str(error)[:400])
    print("%d passed, %d failed" % (len(made) - failed, failed))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
