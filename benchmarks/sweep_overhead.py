#!/usr/bin/env python3
"""What `normball sweep` adds to the runs it makes: tiny runs by a sweep, and the same runs one after another.

    benchmarks/sweep_overhead.py [--runs 200] [--program normball]

Processor time is what counts on a machine that is busy with other things: of the sweep and its runs together against
that of the runs alone, and of the sweep's own process, which it says itself. The first ratio has the noise of both
measurements, the second is the sweep's own work. Wall time is printed beside them.
"""
import argparse
import os
import re
import resource
import subprocess
import tempfile
import time
from pathlib import Path

CONFIG = """
[run]
steps = 4
log_every = 1
eval_every = 2
[model]
kind = "gpt"
layers = 1
width = 16
heads = 2
context = 16
vocab = 256
[data]
kind = "text"
path = "text.txt"
[train]
batch = 4
[optimizer]
method = "unconstrained_clipped_scion"
lr = 0.05
rho = 1.0
"""


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(run):
    """(processor seconds of all that run() started, wall seconds, what it returned)"""
    processor, wall = processor_seconds(), time.monotonic()
    result = run()
    return processor_seconds() - processor, time.monotonic() - wall, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--program", default="normball")
    arguments = parser.parse_args()
    program = str(Path(arguments.program).resolve()) if "/" in arguments.program else arguments.program
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        (here / "tiny.toml").write_text(CONFIG)
        (here / "text.txt").write_text("The quick brown fox jumps over the lazy dog.\n" * 400)

        def call(*words):
            return subprocess.run([program, *words], cwd=here, env=environment, check=True, capture_output=True, text=True)

        def alone():
            for seed in range(arguments.runs):
                call("train", "tiny.toml", "--name", f"alone-{seed}", "--set", f"run.seed={seed}", "--set", "run.threads=1")

        def sweep():
            return call("sweep", "--base", "tiny.toml", "--jobs", "1", "--seeds", *map(str, range(arguments.runs)))

        call("train", "tiny.toml", "--name", "warm-up")
        alone_processor, alone_wall, _ = measured(alone)
        sweep_processor, sweep_wall, said = measured(sweep)
    runs, own = map(float, re.search(r"the runs took ([\d.]+) s of processor time, the sweep itself ([\d.]+) s", said.stderr).groups())
    print(f"{arguments.runs} runs          processor      wall")
    print(f"alone           {alone_processor:8.1f} s {alone_wall:7.1f} s")
    print(f"as a sweep      {sweep_processor:8.1f} s {sweep_wall:7.1f} s")
    print(f"ratio           {sweep_processor / alone_processor:8.3f}   {sweep_wall / alone_wall:7.3f}")
    print(f"the sweep's own {own:8.2f} s, {100 * own / runs:.2f} % of its runs' {runs:.1f} s")


if __name__ == "__main__":
    main()
