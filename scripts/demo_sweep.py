#!/usr/bin/python3
"""How the fixed stepsizes of ./run.sh were found: the same number of settings for each method, then seeds for the best.

    scripts/demo_sweep.py NORMBALL [--seeds N] [--into DIR]

A setting counts by its accuracy over the second half of the run, the mean of its evaluations: without decay the last one alone is
off by a percent either way.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

SCION, CLIPPED = "fashion-mnist-unconstrained-scion", "fashion-mnist-unconstrained-clipped-scion"
GRID = {
    SCION: [{"lr": lr} for lr in (0.01, 0.02, 0.04, 0.08)],
    CLIPPED: [{"lr": lr, "rho": 8} for lr in (0.03, 0.06, 0.12, 0.25)],
}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("normball", help="the program, e.g. build/release/cli/normball")
parser.add_argument("--seeds", type=int, default=3, help="for the best setting of each method (default: 3)")
parser.add_argument("--into", type=pathlib.Path, default=pathlib.Path("runs/demo-sweep"), help="run directories")
args = parser.parse_args()


def accuracy(preset, setting, seed):
    """Of one run, which is gone on with if it was interrupted."""
    keys = [f"optimizer.{key}={value}" for key, value in setting.items()]
    name = "-".join([preset, *(f"{key}{value}" for key, value in setting.items()), f"seed{seed}"])
    keys += [f"run.seed={seed}", f"run.dir={args.into}", "run.eval_every=60"]
    command = [args.normball, "train", preset, "--name", name, "--resume"]
    subprocess.run(command + [word for key in keys for word in ("--set", key)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (args.into / name / "metrics.jsonl").open()]
    evaluations = [line["val_accuracy"] for line in lines if "val_accuracy" in line]
    mean = 100 * statistics.mean(evaluations[len(evaluations) // 2:])
    print(f"{name}: {mean:.2f} % (last {100 * evaluations[-1]:.2f} %)", flush=True)
    return mean


for preset, settings in GRID.items():
    first = [(accuracy(preset, setting, 0), setting) for setting in settings]
    best = max(first, key=lambda pair: pair[0])
    means = [best[0]] + [accuracy(preset, best[1], seed) for seed in range(1, args.seeds)]
    print(f"{preset}: best {best[1]}, {statistics.mean(means):.2f} % over {args.seeds} seeds, from {min(means):.2f} to "
          f"{max(means):.2f}\n")
