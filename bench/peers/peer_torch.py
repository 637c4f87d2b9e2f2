"""PyTorch: eager, eager with channels last, torch.compile, and DistributedDataParallel over gloo with one process per replica.
common.py says how it is called."""

import os
import sys

import common

VARIANTS = ("eager", "channels_last", "compile", "compile_channels_last", "ddp")
args = common.arguments(VARIANTS)
threads = max(1, common.cores() // (args.replicas if args.variant == "ddp" else 1))
os.environ["OMP_NUM_THREADS"] = str(threads)

import torch  # noqa: E402  the number of threads is read when it is loaded
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(threads)
torch.manual_seed(1)
ACTIVATIONS = {"linear": None, "relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class Attention(nn.Module):
    """Keras' MultiHeadAttention: projections to heads x key_dim with bias, and back."""

    def __init__(self, width, heads, size):
        super().__init__()
        self.heads, self.size = heads, size
        self.inward = nn.Linear(width, 3 * heads * size)
        self.outward = nn.Linear(heads * size, width)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.inward(x).view(b, t, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        return self.outward(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, self.heads * self.size))


def same(node, kernel, stride):
    """Padding in front and behind, as "same" means it; (0, 0) each for "valid"."""
    out = []
    for i in (0, 1):
        all_of_it = max((node.shape[i] - 1) * stride[i] + kernel[i] - node.in_shapes[0][i], 0)
        out.append(all_of_it // 2 if node.config.get("padding") == "same" else 0)
        if node.config.get("padding") == "same" and all_of_it % 2:
            raise SystemExit("padding that is not the same on both sides is not in this program")
    return tuple(out)


def layer_of(node):
    """A module, or None where nothing is computed with weights."""
    c, shape = node.config, node.in_shapes[0] if node.in_shapes else ()
    if node.kind == "Conv2D":
        kernel, stride = common.pair(c["kernel_size"]), common.pair(c.get("strides") or 1)
        return nn.Conv2d(shape[2], c["filters"], kernel, stride, same(node, kernel, stride), bias=c.get("use_bias", True))
    if node.kind == "Dense":
        return nn.Linear(shape[-1], c["units"], bias=c.get("use_bias", True))
    if node.kind == "BatchNormalization":
        kind = nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d
        return kind(shape[-1], eps=c.get("epsilon", 1e-3), momentum=1 - c.get("momentum", 0.99))
    if node.kind == "LayerNormalization":
        return nn.LayerNorm(shape[-1], eps=c.get("epsilon", 1e-3))
    if node.kind == "MultiHeadAttention":
        return Attention(shape[-1], c["num_heads"], c["key_dim"])
    if node.kind == "Dropout":
        return nn.Dropout(c["rate"])
    return None


def apply(node, module, x):
    c = node.config
    if module is not None:
        y = module(x[0])
        act = ACTIVATIONS[c.get("activation") or "linear"]
        return act(y) if act else y
    if node.kind == "MaxPooling2D":
        kernel = common.pair(c.get("pool_size", 2))
        stride = common.pair(c.get("strides") or kernel)
        return F.max_pool2d(x[0], kernel, stride, same(node, kernel, stride))
    if node.kind == "AveragePooling2D":
        kernel = common.pair(c.get("pool_size", 2))
        return F.avg_pool2d(x[0], kernel, common.pair(c.get("strides") or kernel))
    if node.kind == "Flatten":
        return x[0].flatten(1)
    if node.kind == "GlobalAveragePooling2D":
        return x[0].mean((2, 3))
    if node.kind == "GlobalMaxPooling2D":
        return x[0].amax((2, 3))
    if node.kind == "GlobalAveragePooling1D":
        return x[0].mean(1)
    if node.kind == "ReLU":
        return F.relu(x[0])
    if node.kind == "Activation":
        act = ACTIVATIONS[c["activation"]]
        return act(x[0]) if act else x[0]
    if node.kind == "Add":
        return sum(x[1:], x[0])
    raise SystemExit(f"there is no layer {node.kind} in this program")


class Model(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes
        self.layers = nn.ModuleDict({n.name: m for n in nodes if (m := layer_of(n)) is not None})

    def forward(self, x):
        values = {self.nodes[0].name: x}
        for n in self.nodes[1:]:
            module = self.layers[n.name] if n.name in self.layers else None
            values[n.name] = apply(n, module, [values[i] for i in n.inputs])
        return values[self.nodes[-1].name]


def groups(model):
    """Adam's weight decay is the gradient of an L2 term: 2 l2 w."""
    by_decay = {}
    for n in model.nodes:
        if n.name in model.layers:
            for name, p in model.layers[n.name].named_parameters():
                decay = 2 * common.l2_of(n.config) if name.endswith("weight") else 0.0
                by_decay.setdefault(decay, []).append(p)
    return [{"params": p, "weight_decay": d} for d, p in by_decay.items()]


def builder(replica):
    nodes = common.read_model(args.model)
    model = Model(nodes)
    pictures = len(nodes[0].shape) == 3
    last = "channels_last" in args.variant and pictures
    if last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(groups(model), lr=1e-3, eps=1e-7, fused=True)
    forward = nn.parallel.DistributedDataParallel(model) if args.variant == "ddp" else model

    def loss_of(x, y):
        return F.cross_entropy(forward(x), y)

    if args.variant.startswith("compile"):
        loss_of = torch.compile(loss_of, dynamic=False)

    def placed(x, y):
        x = torch.from_numpy(x)
        if pictures:
            x = x.permute(0, 3, 1, 2)
            x = x.contiguous(memory_format=torch.channels_last) if last else x.contiguous()
        return x, torch.from_numpy(y).long()

    def make(batch):
        share = batch // args.replicas if args.variant == "ddp" else batch
        data = [placed(x[replica * share : (replica + 1) * share], y[replica * share : (replica + 1) * share])
                for x, y in common.batches(nodes[0].shape, batch, args.data)]
        model.train()
        at = 0

        def run(steps):
            nonlocal at
            for _ in range(steps):
                x, y = data[at % len(data)]
                at += 1
                optimizer.zero_grad(set_to_none=True)
                loss_of(x, y).backward()
                optimizer.step()

        return run

    return make


def follow(replica, address):
    """The other replicas: they make the same steps, as many as replica 0 says; -batch prepares for a batch size."""
    start_group(replica, address)
    make, made, run = builder(replica), {}, None
    while True:
        told = torch.zeros(1, dtype=torch.int64)
        torch.distributed.broadcast(told, 0)
        n = int(told)
        if n == 0:
            break
        if n < 0:
            run = made[-n] if -n in made else made.setdefault(-n, make(-n))
        else:
            run(n)
    torch.distributed.destroy_process_group()


def start_group(replica, address):
    torch.set_num_threads(threads)
    torch.distributed.init_process_group("gloo", init_method=address, rank=replica, world_size=args.replicas)


def lead(address):
    start_group(0, address)
    make = builder(0)

    def tell(n):
        torch.distributed.broadcast(torch.tensor([n]), 0)

    def made(batch):
        tell(-batch)
        mine = make(batch)

        def run(steps):
            tell(-batch)
            tell(steps)
            mine(steps)

        return run

    common.serve(args, made)
    tell(0)
    torch.distributed.destroy_process_group()


def main():
    if args.variant != "ddp":
        return common.serve(args, builder(0))
    import tempfile

    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        address = f"file://{folder}/meet"
        others = [mp.get_context("spawn").Process(target=follow, args=(r, address), daemon=True) for r in range(1, args.replicas)]
        for p in others:
            p.start()
        lead(address)
        for p in others:
            p.join()


if __name__ == "__main__":
    sys.exit(main())
