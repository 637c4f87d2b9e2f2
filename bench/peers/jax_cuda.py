"""JAX on a card; cuda_common.py says how it is called. Models are those of peer_jax.py.

    jit       one jitted step with donated buffers
    scan      eight steps, one on each batch, in one jitted call: what dispatching from Python costs is shared by them

f32 is precision "highest", tf32 JAX's default for a card."""

import os
import sys

import cuda_common as cuda

MODES = ("jit", "scan")
args = cuda.arguments(MODES, ("jit",))
sys.argv = ["peer_jax.py", "--model", "none"]  # what that one reads when it is loaded
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the card is shared with the others

import common  # noqa: E402
import peer_jax as peer  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

peer.RATE = cuda.RATE
jax.config.update("jax_platforms", "cpu" if args.device == "cpu" else "cuda")  # peer_jax.py said cpu


def made(nodes):
    keys = jax.random.split(jax.random.key(1), len(nodes))
    params = {n.name: peer.weights_of(n, k) for n, k in zip(nodes[1:], keys)}
    zeros = jax.tree.map(jnp.zeros_like, params)
    return params, {n.name: peer.state_of(n) for n in nodes[1:]}, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0)


def prepare(path, batch, mode):
    nodes = common.read_model(path)
    carried, data, loss, at = made(nodes), [jax.device_put(p) for p in common.batches(nodes[0].shape, batch, "synthetic")], None, 0
    one = peer.step_of(nodes)

    def eight(carried, xs, ys):
        def body(c, xy):
            *c, loss = one(*c, *xy)
            return tuple(c), loss

        carried, losses = jax.lax.scan(body, carried, (xs, ys))
        return carried, losses[-1]

    if mode == "scan":
        data = tuple(jnp.stack(v) for v in zip(*data))
        step = jax.jit(eight, donate_argnums=(0,))
    else:
        step = jax.jit(one, donate_argnums=(0, 1, 2, 3, 4))

    def run(steps):
        nonlocal carried, loss, at
        for _ in range(steps):
            if mode == "scan":
                carried, loss = step(carried, *data)
            else:
                *carried, loss = step(*carried, *data[at % len(data)])
            at += 1
        loss.block_until_ready()

    return run, lambda: loss


def measure(path, batch, precision, mode, seconds):
    jax.config.update("jax_default_matmul_precision", "highest" if precision == "f32" else "default")
    told = cuda.timed(lambda: prepare(path, batch, mode), batch, seconds)
    if mode == "scan":
        for key, by in (("best", 8), ("median", 8), ("ms_best", 1 / 8), ("ms_median", 1 / 8)):
            told[key] = round(told[key] * by, 6)
        told["windows_ms"] = [round(v / 8, 6) for v in told["windows_ms"]]
    return told


def main():
    cuda.serve(args, "jax", measure, jax.clear_caches)


if __name__ == "__main__":
    sys.exit(main())
