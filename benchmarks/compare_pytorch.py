#!/usr/bin/env python3
"""normball against the same work in PyTorch, interleaved in one run.

    benchmarks/compare_pytorch.py build/release/cli/normball [--threads 2] [--rounds 7] [--quick]

For every shape the exact spectral LMO is timed against five Newton-Schulz steps in PyTorch, then a whole step of
Unconstrained ClippedScion on the GPT-2 124M parameter set. A round measures one, then the other; the best round of
each counts. Both use the same number of threads, float32, and the system's BLAS: use the OpenMP build of OpenBLAS,
on which PyTorch is fastest. Needs python3-torch.
"""
import argparse
import json
import os
import subprocess
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("normball", help="the normball binary")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--step-rounds", type=int, default=5)
parser.add_argument("--shape", nargs="*", help="shapes such as 768x3072; default: a grid from 16x16 to 2048x2048")
parser.add_argument("--solver", default="exact")
parser.add_argument("--no-step", action="store_true", help="only the LMOs")
parser.add_argument("--quick", action="store_true", help="a few shapes, 3 rounds, no step")
parser.add_argument("--json", help="also write the results to this file")
args = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(args.threads)

import torch  # noqa: E402  (after the number of threads is set)

from pytorch_reference import ClippedScion, newton_schulz  # noqa: E402

torch.set_num_threads(args.threads)
GRID = ["16x16", "16x64", "32x32", "64x64", "64x576", "576x64", "128x128", "128x1152", "192x192", "256x256", "256x2304",
        "2304x256", "384x384", "384x1536", "512x512", "512x2048", "640x640", "768x768", "768x3072", "3072x768",
        "1024x1024", "1024x4096", "1536x1536", "2048x2048"]
shapes = args.shape or (["64x576", "256x2304", "768x768"] if args.quick else GRID)
rounds = 3 if args.quick else args.rounds

server = subprocess.Popen([args.normball, "bench", "--requests", "--threads", str(args.threads)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ours(request):
    server.stdin.write(request + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    if not answer:
        sys.exit(f"compare_pytorch: normball ended at the request '{request}'")
    return [float(x) for x in answer.split()]


def timed(work):
    """Seconds of one call; short work is repeated."""
    start = time.perf_counter()
    work()
    once = time.perf_counter() - start
    repeats = int(0.02 / max(once, 1e-9))
    if repeats < 2:
        return once
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - start) / repeats


def interleave(request, work, count):
    work()
    best_ours = best_theirs = float("inf")
    for _ in range(count):
        best_ours = min(best_ours, ours(request)[0])
        best_theirs = min(best_theirs, timed(work))
    return best_ours, best_theirs


sgemm, copy = ours("limits")
print(f"{args.threads} threads, float32, best of {rounds} interleaved rounds, PyTorch {torch.__version__}; "
      f"SGEMM {sgemm / 1e9:.0f} GF/s, copy {copy / 1e9:.1f} GB/s")
print(f"\n  {'shape':>10}  {'normball ' + args.solver:>14}  {'PyTorch NS×5':>13}  {'ratio':>6}")
results = {"threads": args.threads, "sgemm_flops": sgemm, "copy_bytes_per_second": copy, "lmo": []}
torch.manual_seed(0)
for shape in shapes:
    rows, cols = map(int, shape.split("x"))
    x = torch.randn(rows, cols)
    mine, peer = interleave(f"lmo {shape} {args.solver}", lambda: newton_schulz(x), rounds)
    print(f"  {shape:>10}  {mine * 1e3:>11.3f} ms  {peer * 1e3:>10.3f} ms  {peer / mine:>5.2f}×", flush=True)
    results["lmo"].append({"shape": shape, "normball": mine, "pytorch": peer})

if not args.no_step and not args.quick:
    layers = [(50304, 768, "sign", 3000.0)]
    for _ in range(12):
        layers += [(768, 768, "spectral", 50.0)] * 4 + [(3072, 768, "spectral", 50.0), (768, 3072, "spectral", 50.0)]
    parameters = [(torch.randn(r, c), torch.randn(r, c), norm, radius) for r, c, norm, radius in layers]
    optimizer = ClippedScion(parameters, lr=0.00036, alpha=0.1, rho=600.0)
    mine, peer = interleave(f"step gpt2-124m {args.solver}", optimizer.step, args.step_rounds)
    floor = 12 * (4 * 3 * 768**3 + 2 * 12 * 768**3) / sgemm + 6 * 4 * sum(r * c for r, c, _, _ in layers) / copy
    print(f"\n  whole step, GPT-2 124M: normball {mine:.3f} s, PyTorch {peer:.3f} s, ratio {peer / mine:.2f}×, "
          f"{mine / floor:.2f} × the floor of {floor:.3f} s")
    results["step"] = {"normball": mine, "pytorch": peer, "floor": floor}
server.stdin.close()
server.wait()
if args.json:
    with open(args.json, "w") as file:
        json.dump(results, file, indent=2)
