"""JAX: one jitted step with donated buffers; and the same step over several host devices, rows split, weights on each. Pools are
written the way that is fast here, six times as fast as lax.reduce_window() on the way back. common.py says how it is called."""

import os
import sys

import common

VARIANTS = ("jit", "sharded")
args = common.arguments(VARIANTS)
os.environ["JAX_PLATFORMS"] = "cpu"
if args.variant == "sharded":
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={args.replicas} " + os.environ.get("XLA_FLAGS", "")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

ACTIVATIONS = {"linear": lambda x: x, "relu": jax.nn.relu, "gelu": lambda x: jax.nn.gelu(x, approximate=False), "tanh": jnp.tanh,
               "sigmoid": jax.nn.sigmoid}
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-7


def glorot(key, shape):
    return jax.nn.initializers.glorot_uniform()(key, shape, jnp.float32)


# ---- layers: their weights and what they compute ----


def weights_of(node, key):
    c, shape = node.config, node.in_shapes[0] if node.in_shapes else ()
    keys = jax.random.split(key, 4)
    if node.kind == "Conv2D":
        kernel = common.pair(c["kernel_size"])
        return {"w": glorot(key, (*kernel, shape[2], c["filters"])), "b": jnp.zeros(c["filters"])}
    if node.kind == "Dense":
        return {"w": glorot(key, (shape[-1], c["units"])), "b": jnp.zeros(c["units"])}
    if node.kind in ("BatchNormalization", "LayerNormalization"):
        return {"gamma": jnp.ones(shape[-1]), "beta": jnp.zeros(shape[-1])}
    if node.kind == "MultiHeadAttention":
        inner = c["num_heads"] * c["key_dim"]
        return {"qkv": glorot(keys[0], (shape[-1], 3 * inner)), "qkv_b": jnp.zeros(3 * inner),
                "o": glorot(keys[1], (inner, shape[-1])), "o_b": jnp.zeros(shape[-1])}
    return {}


def state_of(node):
    n = node.shape[-1] if node.shape else 0
    return {"mean": jnp.zeros(n), "var": jnp.ones(n)} if node.kind == "BatchNormalization" else {}


def conv(x, w, stride, padding):
    return lax.conv_general_dilated(x, w, stride, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def pool(node, x):
    """Windows that do not overlap are a maximum over two axes; XLA's windows are slow on the way back."""
    kernel = common.pair(node.config.get("pool_size", 2))
    stride = common.pair(node.config.get("strides") or kernel)
    if kernel == stride and node.config.get("padding", "valid") == "valid":
        h, w, c = node.shape
        x = x[:, : h * kernel[0], : w * kernel[1]].reshape(-1, h, kernel[0], w, kernel[1], c)
        return x.max((2, 4)) if node.kind == "MaxPooling2D" else x.mean((2, 4))
    if node.kind != "MaxPooling2D":
        raise SystemExit("average pools whose windows overlap are not in this program")
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, *kernel, 1), (1, *stride, 1), node.config.get("padding", "valid").upper())


def attention(node, p, x):
    b, t, _ = x.shape
    heads, size = node.config["num_heads"], node.config["key_dim"]
    q, k, v = (x @ p["qkv"] + p["qkv_b"]).reshape(b, t, 3, heads, size).transpose(2, 0, 3, 1, 4)
    a = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k) * size**-0.5, -1)
    return jnp.einsum("bhqk,bhkd->bhqd", a, v).transpose(0, 2, 1, 3).reshape(b, t, -1) @ p["o"] + p["o_b"]


def normalized(node, p, x, mean, var):
    return (x - mean) * lax.rsqrt(var + node.config.get("epsilon", 1e-3)) * p["gamma"] + p["beta"]


def dropped(node, x, key):
    keep = 1 - node.config["rate"]
    return jnp.where(jax.random.bernoulli(key, keep, x.shape), x / keep, 0)


def apply(node, p, s, x, key):
    """The output and the new state."""
    c, first = node.config, x[0]
    if node.kind == "Conv2D":
        y = conv(first, p["w"], common.pair(c.get("strides") or 1), c.get("padding", "valid").upper()) + p["b"]
        return ACTIVATIONS[c.get("activation") or "linear"](y), s
    if node.kind == "Dense":
        return ACTIVATIONS[c.get("activation") or "linear"](first @ p["w"] + p["b"]), s
    if node.kind == "BatchNormalization":
        axes, m = tuple(range(first.ndim - 1)), c.get("momentum", 0.99)
        mean, var = first.mean(axes), first.var(axes)
        return normalized(node, p, first, mean, var), {"mean": m * s["mean"] + (1 - m) * mean, "var": m * s["var"] + (1 - m) * var}
    if node.kind == "LayerNormalization":
        return normalized(node, p, first, first.mean(-1, keepdims=True), first.var(-1, keepdims=True)), s
    if node.kind == "MultiHeadAttention":
        return attention(node, p, first), s
    if node.kind in ("MaxPooling2D", "AveragePooling2D"):
        return pool(node, first), s
    if node.kind == "Dropout":
        return dropped(node, first, key), s
    plain = {"Flatten": lambda: first.reshape(first.shape[0], -1), "GlobalAveragePooling2D": lambda: first.mean((1, 2)),
             "GlobalMaxPooling2D": lambda: first.max((1, 2)), "GlobalAveragePooling1D": lambda: first.mean(1),
             "ReLU": lambda: jax.nn.relu(first), "Activation": lambda: ACTIVATIONS[c["activation"]](first),
             "Add": lambda: sum(x[1:], first)}
    if node.kind not in plain:
        raise SystemExit(f"there is no layer {node.kind} in this program")
    return plain[node.kind](), s


# ---- the step ----


def forward(nodes, params, state, x, key):
    values, new = {nodes[0].name: x}, {}
    for i, n in enumerate(nodes[1:]):
        inputs = [values[name] for name in n.inputs]
        values[n.name], new[n.name] = apply(n, params[n.name], state[n.name], inputs, jax.random.fold_in(key, i))
    return values[nodes[-1].name], new


def step_of(nodes):
    def loss_of(params, state, key, x, y):
        logits, new = forward(nodes, params, state, x, key)
        log = jax.nn.log_softmax(logits)
        loss = -jnp.take_along_axis(log, y[:, None], 1).mean()
        for n in nodes:
            if common.l2_of(n.config):
                loss += common.l2_of(n.config) * (params[n.name]["w"] ** 2).sum()
        return loss, new

    def step(params, state, m, v, t, x, y):
        key = jax.random.fold_in(jax.random.key(2), t.astype(jnp.int32))
        (loss, state), g = jax.value_and_grad(loss_of, has_aux=True)(params, state, key, x, y)
        t = t + 1
        m = jax.tree.map(lambda a, b: BETA1 * a + (1 - BETA1) * b, m, g)
        v = jax.tree.map(lambda a, b: BETA2 * a + (1 - BETA2) * b * b, v, g)
        rate = RATE * jnp.sqrt(1 - BETA2**t) / (1 - BETA1**t)
        params = jax.tree.map(lambda p, a, b: p - rate * a / (jnp.sqrt(b) + EPSILON), params, m, v)
        return params, state, m, v, t, loss

    return step


def main():
    nodes = common.read_model(args.model)
    keys = jax.random.split(jax.random.key(1), len(nodes))
    params = {n.name: weights_of(n, k) for n, k in zip(nodes[1:], keys)}
    zeros = jax.tree.map(jnp.zeros_like, params)
    carried = (params, {n.name: state_of(n) for n in nodes[1:]}, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0))
    on_all, by_rows = None, None
    if args.variant == "sharded":
        mesh = jax.make_mesh((args.replicas,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
        on_all = jax.NamedSharding(mesh, jax.P())
        by_rows = jax.NamedSharding(mesh, jax.P("rows"))
        carried = jax.device_put(carried, on_all)
    step = jax.jit(step_of(nodes), donate_argnums=(0, 1, 2, 3, 4))

    def make(batch):
        data = [jax.device_put(pair, by_rows) for pair in common.batches(nodes[0].shape, batch, args.data)]
        at = 0

        def run(steps):
            nonlocal carried, at
            loss = None
            for _ in range(steps):
                *carried, loss = step(*carried, *data[at % len(data)])
                at += 1
            loss.block_until_ready()

        return run

    common.serve(args, make)


if __name__ == "__main__":
    sys.exit(main())
