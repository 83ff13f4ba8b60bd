#!/usr/bin/env python3
"""Writes synthetic run directories, for looking at the report page.

    run_synthetic.py DIRECTORY COUNT
"""
import json
import math
import pathlib
import random
import sys

METHODS = ["unconstrained_clipped_scion", "unconstrained_scion", "adamw", "clipped_scion", "scion"]


def number(x):
    return x if math.isfinite(x) else "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"


def write_run(directory, index):
    rng = random.Random(index)
    method = METHODS[index % len(METHODS)]
    lr = [0.25, 0.03125, 0.002, 0.00390625, 0.00390625][index % 5]
    steps, every, floor = 2000 - 100 * (index % 3), 10, 0.6 + 0.15 * (index % 4)
    directory.mkdir(parents=True, exist_ok=True)
    rho = "rho = 600.0\n" if "clipped" in method else ""
    (directory / "config.toml").write_text(
        f'[run]\nsteps = {steps}\n[model]\nkind = "cnn"\n[data]\nkind = "cifar10"\n'
        f'[optimizer]\nmethod = "{method}"\nlr = {lr}\n{rho}')
    diverges = index == 4
    lines = []
    for step in range(0, steps + 1, every):
        seconds = step * (0.05 + 0.01 * index)
        loss = floor + 1.8 * math.exp(-step / 300) + rng.gauss(0, 0.08)
        if diverges and step > 1500:
            loss = math.nan
        s = 3000 * math.exp(-step / (700 + 100 * index)) * math.exp(rng.gauss(0, 0.15)) + 80
        line = {"step": step, "loss": number(loss), "lr": lr}
        if method != "adamw":
            clipped = s >= 600
            line |= {"dual_norm": s, "eta": min(600.0, s) if rho else 600.0, "clipped": clipped}
        line |= {"images_per_second": 9000 - 500 * index, "seconds": seconds}
        lines.append(line)
        if step % 200 == 0 and step > 0:
            accuracy = 0.93 - 0.02 * index - 0.5 * math.exp(-step / 350) + rng.gauss(0, 0.004)
            lines.append({"step": step, "val_loss": floor + 0.2 + 1.6 * math.exp(-step / 300),
                          "val_accuracy": accuracy, "seconds": seconds})
        if diverges and step > 1540:
            break
    with open(directory / "metrics.jsonl", "w") as out:
        for line in lines:
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    root, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    for i in range(count):
        write_run(root / f"{METHODS[i % len(METHODS)].replace('_', '-')}-{i}", i)
