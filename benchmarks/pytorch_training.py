#!/usr/bin/env python3
"""The peer of `normball bench train`: the same models in PyTorch eager mode, float32, as a user would write them,
with the reference optimizer (Newton-Schulz, five steps) included.

    pytorch_training.py CASE --threads N

CASE is gpt-bytes, gpt-50304 or cnn. Every line on standard input asks for one training step; the answer is its
seconds, and the process's peak memory in bytes.
"""
import argparse
import os
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("case", choices=["gpt-bytes", "gpt-50304", "cnn"])
parser.add_argument("--threads", type=int, default=2)
args = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(args.threads)

import torch  # noqa: E402  (after the number of threads is set)

from pytorch_models import Cnn, Gpt  # noqa: E402
from pytorch_reference import ClippedScion  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(0)

if args.case == "cnn":
    model = Cnn()

    def next_batch():
        images = torch.randn(500, 3, 32, 32).contiguous(memory_format=torch.channels_last)  # a fifth faster
        return images, torch.randint(10, (500,))
else:
    vocabulary, batch = (256, 8) if args.case == "gpt-bytes" else (50304, 4)
    model = Gpt(vocabulary)
    frequencies = 1 / (torch.arange(vocabulary, dtype=torch.double) + 2.7)  # Zipf's law

    def next_batch():
        return [torch.multinomial(frequencies, batch * 256, True).view(batch, 256) for _ in range(2)]

trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
optimizer = None


def step(inputs, targets):
    global optimizer
    for p in trained.values():
        p.grad = None
    model(inputs, targets).backward()
    norms = model.norms()
    parameters = [(p, p.grad, *norms[name]) for name, p in trained.items()]
    if optimizer is None:
        optimizer = ClippedScion(parameters, lr=1e-4, alpha=0.1, rho=100.0)
    optimizer.parameters = parameters
    optimizer.step()


def peak_bytes():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


for _ in range(5):  # until the momentum averages over several batches
    step(*next_batch())
for _ in sys.stdin:
    inputs_and_targets = next_batch()
    start = time.perf_counter()
    step(*inputs_and_targets)
    seconds = time.perf_counter() - start
    print(seconds, peak_bytes(), flush=True)
