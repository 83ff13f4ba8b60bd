#!/usr/bin/env python3
"""A step of ClippedScion under several installations of PyTorch, interleaved: the best of all rounds, and the ratio.

    benchmarks/compare_torches.py PYTHON PYTHON... [--threads N] [--rounds N]

Each PYTHON imports its own torch and normball: an environment for each, Debian's by `python3 -m venv --system-site-packages`.
"after torch" is a step right after a product in torch, whose threads may still be spinning when those of the core start; "alone"
has none before it. Beside the time stands the processor time of the best step, of all threads of the process, spinning ones too: it
changes less where other programs run.
"""
import argparse
import json
import subprocess
import sys
import time

MODELS = {
    # Two blocks of GPT-2 small, and a piece of its embedding.
    "gpt": [(2304, 768), (768, 768), (3072, 768), (768, 3072)] * 2 + [(8192, 768)],
    # The airbench CNN.
    "cnn": [(24, 3, 2, 2), (64, 24, 3, 3), (64, 64, 3, 3), (256, 64, 3, 3), (256, 256, 3, 3), (256, 256, 3, 3),
            (256, 256, 3, 3), (10, 256)],
}


def measure(threads, seconds):
    """Milliseconds of the best step of each case, and what ran them."""
    import normball
    import torch
    from normball.torch import ClippedScion

    torch.set_num_threads(threads)
    x = torch.randn(768, 768)
    times = {}
    for model, shapes in MODELS.items():
        generator = torch.Generator().manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(shape, generator=generator) * 0.02) for shape in shapes]
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=generator)
        optimizer = ClippedScion(parameters, lr=1e-4, alpha=0.1, rho=100.0)
        optimizer.step()
        for case, before in (("alone", lambda: None), ("after torch", lambda: x @ x)):
            best = {"time": float("inf"), "processor": float("inf")}
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                before()
                start, used = time.perf_counter(), time.process_time()
                optimizer.step()
                best = {"processor": min(best["processor"], time.process_time() - used),
                        "time": min(best["time"], time.perf_counter() - start)}
            for clock, value in best.items():
                times[f"{model} {case}, {clock}"] = 1000 * value
    with open("/proc/self/maps") as maps:
        files = {line.split()[-1] for line in maps if "/" in line}
    runtimes = sorted(f for f in files if "libgomp" in f or "libomp" in f or "libiomp" in f)
    return {"torch": torch.__version__, "normball": normball.__file__, "runtimes": runtimes, "times": times}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each case in a round")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.threads, options.seconds)))
        return
    if not options.python:
        parser.error("name at least one PYTHON")
    best = {python: {} for python in options.python}
    about = {}
    for _ in range(options.rounds):
        for python in options.python:
            command = [python, __file__, "--measure", "--threads", str(options.threads), "--seconds", str(options.seconds)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode != 0:
                sys.exit(f"compare_torches: {python} failed")
            about[python] = json.loads(done.stdout)
            for case, value in about[python]["times"].items():
                best[python][case] = min(value, best[python].get(case, value))
    for python in options.python:
        print(f"{python}: torch {about[python]['torch']}, {about[python]['normball']}, "
              f"OpenMP from {', '.join(about[python]['runtimes'])}")
    first = options.python[0]
    for case in best[first]:
        print(f"{case:28}" + "".join(f"{best[python][case]:10.2f} ms  {best[python][case] / best[first][case]:5.2f}"
                                     for python in options.python))


if __name__ == "__main__":
    main()
