#!/usr/bin/env python3
"""What Python adds to a step: ClippedScion.step() against the C++ core on the same work, interleaved.

    PYTHONPATH=build/release/python benchmarks/python_overhead.py [--normball build/release/cli/normball]

The GPT-2 124M parameter set, float32. "core" is the core's prepare() and apply() on the same tensors with every address
collected beforehand: the C++ step and nothing else. With --normball also the step of `normball bench`, a C++ program of
its own. A round measures one after the other; the best of each counts, and the median of the rounds' ratios is shown.
"outside the core" is the part of step() that is not in prepare() or apply(), which a busy machine disturbs least.
"""
import argparse
import os
import statistics
import subprocess
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--normball", help="the normball binary")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--blocks", type=int, default=12, help="transformer blocks; 12 is GPT-2 124M")
parser.add_argument("--width", type=int, default=768)
args = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(args.threads)

import torch  # noqa: E402  (after the number of threads is set)

from normball.torch import ClippedScion  # noqa: E402

torch.manual_seed(0)
width = args.width
shapes = [(50304, width)] + args.blocks * (4 * [(width, width)] + [(4 * width, width), (width, 4 * width)])
params = [torch.randn(shape) for shape in shapes]
for p in params:
    p.grad = torch.randn_like(p)
groups = [dict(params=params[:1], norm="sign", radius=3000.0), dict(params=params[1:], norm="spectral", radius=50.0)]
# As `normball bench` has it: directions in the gradients' memory.
optimizer = ClippedScion(groups, lr=0.00036, alpha=0.1, rho=600.0, threads=args.threads, overwrite_gradients=True)
optimizer.step()
engine = optimizer._parts[0]._engine
bound = [(p.data_ptr(), p.grad.data_ptr(), optimizer.state[p]["momentum"].data_ptr(), 1.0, True) for p in params]


class Timed:
    """The engine with a watch on its two passes."""

    def __init__(self):
        self.inside = 0.0

    def __getattr__(self, name):
        return getattr(engine, name)

    def prepare(self, lr, tensors):
        start = time.perf_counter()
        result = engine.prepare(lr, tensors)
        self.inside += time.perf_counter() - start
        return result

    def apply(self, eta):
        start = time.perf_counter()
        engine.apply(eta)
        self.inside += time.perf_counter() - start


watch = optimizer._parts[0]._engine = Timed()


def core():
    pairing, _ = engine.prepare(0.00036, bound)
    engine.apply(min(600.0, pairing))


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


server = None
if args.normball:
    server = subprocess.Popen([args.normball, "bench", "--requests", "--threads", str(args.threads)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def program():
    server.stdin.write("step gpt2-124m exact\n")
    server.stdin.flush()
    return float(server.stdout.readline())


rows, outside = [], []
for _ in range(args.rounds):
    watch.inside = 0.0
    step = seconds(optimizer.step)
    outside.append(step - watch.inside)
    rows.append((step, seconds(core), program() if server else float("nan")))
if server:
    server.stdin.close()
    server.wait()
best = [min(column) for column in zip(*rows)]
print(f"{sum(p.numel() for p in params) / 1e6:.0f} M parameters, {args.threads} threads, best of {args.rounds}: Python "
      f"{best[0]:.4f} s, core {best[1]:.4f} s" + (f", C++ program {best[2]:.4f} s" if server else ""))
print(f"Python / core: best {best[0] / best[1]:.4f}, median of rounds "
      f"{statistics.median(python / core for python, core, _ in rows):.4f}")
print(f"outside the core: {1e3 * min(outside):.3f} ms, {100 * min(outside) / best[1]:.3f} % of the core's step")
if server:
    print(f"Python / C++ program: best {best[0] / best[2]:.4f}, median of rounds "
          f"{statistics.median(python / cpp for python, _, cpp in rows):.4f}")
