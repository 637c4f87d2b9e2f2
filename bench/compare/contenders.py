"""Who is measured, and how one is asked: programs that take "run G S" on standard input and answer with a line of JSON
(peers/common.py). All of a model's are started first and wait; then they take turns, so that what disturbs the machine disturbs
everybody."""

import json
import math
import os
import selectors
import subprocess
import time
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = os.path.join(HERE, "peers")


@dataclass
class Contender:
    key: str  # in bench.json
    label: str  # in tables and the chart
    family: str  # lockstep, TensorFlow, PyTorch, JAX
    program: str  # "model", or the file of a peer
    options: tuple = ()
    replicas: int = 2
    pictures: object = None  # True: only where rows are pictures; False: only where they are not; None: always
    only: tuple = ()  # names of models; empty: all
    most_s: float = 240  # for the answer that comes after tracing and compiling


TABLE = [
    Contender("lockstep", "lockstep, 2 replicas", "lockstep", "model", ("--replicas", "2")),
    Contender("lockstep_1", "lockstep, 1 replica", "lockstep", "model", ("--replicas", "1"), 1),
    Contender("tf_fit", "TensorFlow MirroredStrategy, fit", "TensorFlow", "peer_tensorflow.py", ("--variant", "fit")),
    Contender("tf_loop", "TensorFlow MirroredStrategy, own loop", "TensorFlow", "peer_tensorflow.py", ("--variant", "loop")),
    Contender("tf_fit_1", "TensorFlow MirroredStrategy of 1, fit", "TensorFlow", "peer_tensorflow.py", ("--variant", "fit"), 1,
              only=("basic", "custom")),
    Contender("tf_loop_1", "TensorFlow MirroredStrategy of 1, loop", "TensorFlow", "peer_tensorflow.py", ("--variant", "loop"), 1,
              only=("basic", "custom")),
    Contender("tf_plain", "TensorFlow, no strategy", "TensorFlow", "peer_tensorflow.py", ("--variant", "plain"), 1),
    Contender("tf_jit", "TensorFlow, no strategy, XLA", "TensorFlow", "peer_tensorflow.py", ("--variant", "jit"), 1),
    Contender("torch_eager", "PyTorch", "PyTorch", "peer_torch.py", ("--variant", "eager"), 1, pictures=False),
    Contender("torch_channels_last", "PyTorch, channels last", "PyTorch", "peer_torch.py", ("--variant", "channels_last"), 1,
              pictures=True),
    Contender("torch_compile", "PyTorch, torch.compile", "PyTorch", "peer_torch.py", ("--variant", "compile"), 1),
    Contender("torch_ddp", "PyTorch DDP, 2 processes", "PyTorch", "peer_torch.py", ("--variant", "ddp")),
    Contender("jax", "JAX", "JAX", "peer_jax.py", ("--variant", "jit"), 1),
    Contender("jax_sharded", "JAX, 2 host devices", "JAX", "peer_jax.py", ("--variant", "sharded")),
]


def row_shape(model):
    with open(model) as file:
        config = json.load(file)["config"]["layers"][0]["config"]
    return (config.get("batch_shape") or config["batch_input_shape"])[1:]


def flat_size(model):
    return math.prod(row_shape(model))


def chosen(model, with_peers=True, keys=None):
    pictures = len(row_shape(model)) == 3
    name = os.path.splitext(os.path.basename(model))[0]
    fit = [c for c in TABLE if c.pictures in (None, pictures) and (not c.only or name in c.only)]
    return [c for c in fit if (keys is None or c.key in keys) and (with_peers or c.family == "lockstep")]


class Failed(Exception):
    pass


@dataclass
class Child:
    """A contender's process. Its standard error goes to a file, the end of which is told when it fails."""

    who: Contender
    model: str
    build: str
    python: str
    log: str
    process: object = None
    rounds: dict = field(default_factory=dict)  # batch: replies
    failure: str = ""

    def start(self):
        if self.who.program.endswith(".py"):
            command = [self.python, os.path.join(PEERS, self.who.program), "--replicas", str(self.who.replicas), "--data", "mnist"]
        else:
            command = [os.path.join(self.build, "bench", self.who.program)]
        command += ["--model", self.model, "--serve", *self.who.options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.log, "w"),
                                        start_new_session=True)

    def line(self, most_s):
        with selectors.DefaultSelector() as s:
            s.register(self.process.stdout, selectors.EVENT_READ)
            end = time.monotonic() + most_s
            text = b""
            while not text.endswith(b"\n"):
                if not s.select(max(0, end - time.monotonic())):
                    raise Failed(f"no answer within {most_s:.0f} s")
                piece = os.read(self.process.stdout.fileno(), 65536)
                if not piece:
                    raise Failed(self.last_words())
                text += piece
        return json.loads(text.splitlines()[-1])

    def last_words(self):
        with open(self.log, errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return f"ended: {lines[-1][:200]}" if lines else "ended"

    def ask(self, batch, seconds):
        """A reply, kept; or None, and the failure kept."""
        if self.failure:
            return None
        try:
            if self.process is None:
                self.start()
            self.process.stdin.write(f"run {batch} {seconds}\n".encode())
            self.process.stdin.flush()
            reply = self.line(self.who.most_s + 20 * seconds)
        except (Failed, OSError, ValueError) as e:
            self.failure = str(e) if isinstance(e, Failed) else self.last_words()
            self.end()
            return None
        if seconds > 0:
            self.rounds.setdefault(batch, []).append(reply)
        return reply

    def end(self):
        if self.process is None or self.process.poll() is not None:
            return
        try:
            self.process.stdin.close()
            self.process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, 9)
            self.process.wait()
