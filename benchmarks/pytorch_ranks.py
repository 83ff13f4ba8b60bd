#!/usr/bin/env python3
"""The peer of `normball bench ranks`: DistributedDataParallel on Gloo, with the reference optimizer (Newton-Schulz, five
steps) in every rank, float32. One process of several:

    torchrun --nproc_per_node 2 pytorch_ranks.py CASE        # or, as the benchmark does it, RANK and WORLD_SIZE set

CASE is gpt-bytes or gpt2-124m. Every line on standard input asks for a step; the answer has the figures of
benchmarks/ranks_task.h, 0 where they are not known. Without standard input (torchrun) it takes three steps.
"""
import argparse
import contextlib
import os
import resource
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("case", choices=["gpt-bytes", "gpt2-124m"])
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(args.threads)

import torch  # noqa: E402  (after the number of threads is set)
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from pytorch_models import Gpt  # noqa: E402
from pytorch_reference import ClippedScion  # noqa: E402

torch.set_num_threads(args.threads)
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = os.environ.get("NORMBALL_STORE")
if store:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
else:
    dist.init_process_group("gloo")
torch.manual_seed(rank)


class Given(torch.autograd.Function):
    """Of any weights a sum whose gradients are given, so that DDP sees them come one after another."""

    @staticmethod
    def forward(context, gradient, weight):
        context.gradient = gradient
        return weight.new_zeros(())

    @staticmethod
    def backward(context, _):
        return None, context.gradient


class Gpt124m(nn.Module):
    """The parameter set alone."""

    def __init__(self, width=768):
        super().__init__()
        shapes = [(50304, width)]
        for _ in range(12):
            shapes += [(width, width)] * 4 + [(4 * width, width), (width, 4 * width)]
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes)
        self.given = [torch.randn(shape) for shape in shapes]

    def forward(self):
        return sum(Given.apply(g, w) for g, w in zip(self.given, self.weights))

    def norms(self):
        return {name: ("sign", 3000.0) if name == "weights.0" else ("spectral", 50.0)
                for name, _ in self.named_parameters()}


if args.case == "gpt2-124m":
    model = Gpt124m()
    next_batch = tuple
else:
    torch.manual_seed(0)
    model = Gpt(256)
    torch.manual_seed(rank)
    own = 8 * (rank + 1) // ranks - 8 * rank // ranks
    frequencies = 1 / (torch.arange(256, dtype=torch.double) + 2.7)  # Zipf's law

    def next_batch():
        return tuple(torch.multinomial(frequencies, own * 256, True).view(own, 256) for _ in range(2))

norms = model.norms()
# The buffers are constants, and one is of bool, which Gloo does not send.
DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, [name for name, _ in model.named_buffers()])
parallel = DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
trained = dict(model.named_parameters())
optimizer = None


def written_bytes():
    with contextlib.suppress(OSError), open("/proc/self/io") as counts:
        return next(int(line.split()[1]) for line in counts if line.startswith("wchar"))
    return 0


def step():
    global optimizer
    batch = next_batch()
    dist.barrier()
    written, start, processor = written_bytes(), time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    parallel.zero_grad()
    parallel(*batch).backward()
    passes = time.perf_counter() - start
    parameters = [(p, p.grad, *norms[name]) for name, p in trained.items()]
    if optimizer is None:
        optimizer = ClippedScion(parameters, lr=1e-4, alpha=0.1, rho=100.0)
    optimizer.parameters = parameters
    optimizer.step()
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - processor.ru_utime - processor.ru_stime
    state = sum(4 * d.numel() for d in optimizer.momenta)
    return seconds, used, passes, 0, seconds - passes, 0, 0, written_bytes() - written, state


for _ in range(2):  # until the momentum is an average of several gradients
    step()
if store:
    for _ in sys.stdin:
        print(*step(), flush=True)
else:
    for _ in range(3):
        figures = step()
        if rank == 0:
            print(f"{figures[0]:.3f} s, {figures[1]:.3f} s of processor time, {figures[7] / 1e6:.1f} MB sent")
