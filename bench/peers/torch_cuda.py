"""PyTorch on a card; cuda_common.py says how it is called. Models are those of peer_torch.py.

    eager     op by op
    graph     the whole step (forward, loss, backward, Adam) captured as a CUDA graph; a batch is copied into its input before each
    compile   the same of torch.compile'd forward and backward; --autotune: with mode max-autotune-no-cudagraphs, which takes
              minutes

f32 is without TF32 anywhere, tf32 with it in products and convolutions. Models on pictures are measured with both layouts, and the
better one is told; compile takes the layout that was better for graph."""

import gc
import os
import sys

import cuda_common as cuda

MODES = ("eager", "graph", "compile")
args = cuda.arguments(MODES, MODES, lambda p: p.add_argument("--autotune", action="store_true"))
sys.argv = ["peer_torch.py", "--model", "none"]  # what that one reads when it is loaded

import common  # noqa: E402
import peer_torch as peer  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

on_card = args.device != "cpu"
better_layout = {}  # (model, batch, precision): of graph


def set_precision(precision):
    tf32 = precision == "tf32"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True


def wait():
    if on_card:
        torch.cuda.synchronize()


def placed(pairs, pictures, last):
    out = []
    for x, y in pairs:
        x = torch.from_numpy(x).to(args.device)
        if pictures:
            x = x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
        out.append((x, torch.from_numpy(y).long().to(args.device)))
    return out


class Step:
    """A model with its optimiser and batches; call it for a step on the next batch."""

    def __init__(self, path, batch, mode, last):
        nodes = common.read_model(path)
        pictures = len(nodes[0].shape) == 3
        torch.manual_seed(1)
        self.model = peer.Model(nodes).to(args.device).train()
        if pictures and last:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.Adam(peer.groups(self.model), lr=cuda.RATE, eps=cuda.EPSILON, fused=True, capturable=on_card)
        self.data = placed(common.batches(nodes[0].shape, batch, "synthetic"), pictures, last)
        self.at, self.loss, self.graph = 0, None, None
        self.loss_of = lambda x, y: F.cross_entropy(self.model(x), y)
        if mode == "compile":
            how = {"mode": "max-autotune-no-cudagraphs"} if args.autotune else {}
            self.loss_of = torch.compile(self.loss_of, dynamic=False, **how)
        if mode != "eager":
            self.x, self.y = (torch.empty_like(t).copy_(t) for t in self.data[0])
            self.capture()

    def next(self):
        self.at += 1
        return self.data[self.at % len(self.data)]

    def eager(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(x, y)
        loss.backward()
        self.optimizer.step()
        self.loss = loss.detach()

    def capture(self):
        if not on_card:
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                self.eager(self.x, self.y)
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.eager(self.x, self.y)

    def captured(self, x, y):
        self.x.copy_(x)
        self.y.copy_(y)
        if self.graph:
            self.graph.replay()
        else:
            self.eager(self.x, self.y)

    def runner(self, mode):
        step = self.eager if mode == "eager" else self.captured

        def run(steps):
            wait()
            for _ in range(steps):
                step(*self.next())
            wait()

        return run, lambda: self.loss.item()


def layouts(path, key, mode):
    if len(common.read_model(path)[0].shape) != 3:
        return (False,)
    if mode == "compile":
        return (better_layout.get(key, key[2] == "tf32"),)
    return (False, True)


def measure(path, batch, precision, mode, seconds):
    key = (path, batch, precision)
    by_layout, errors = {}, []
    set_precision(precision)
    for last in layouts(path, key, mode):
        try:
            by_layout[last] = cuda.timed(lambda: Step(path, batch, mode, last).runner(mode), batch, seconds)
        except Exception as e:  # noqa: BLE001  the other layout may work
            errors.append(e)
        clean()
    if not by_layout:
        raise errors[0]
    last = max(by_layout, key=lambda v: by_layout[v]["best"])
    if mode == "graph":
        better_layout[key] = last
    told = {"layout": "channels_last" if last else "contiguous", **by_layout[last]}
    others = {"channels_last" if k else "contiguous": v["ms_best"] for k, v in by_layout.items() if k != last}
    return {**told, "other_layouts_ms": others, "layout_errors": [cuda.words_of(e) for e in errors]}


def clean():
    gc.collect()  # steps refer to themselves
    torch._dynamo.reset()
    if on_card:
        torch.cuda.empty_cache()


def main():
    if on_card and not torch.cuda.is_available():
        raise SystemExit("torch_cuda.py: PyTorch sees no card")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.abspath(os.path.join("build", "bench-torch")))
    cuda.serve(args, "torch", measure, clean)


if __name__ == "__main__":
    sys.exit(main())
