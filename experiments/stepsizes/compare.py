#!/usr/bin/env python3
"""The table of docs/stepsizes.md, from the results of the sweeps beside this file: rules with their defaults against the best of
12 fixed pairs of lr and rho and against AdamW.

  normball sweep experiments/stepsizes/gpt.toml --into runs/stepsizes-gpt
  cp runs/stepsizes-gpt/results.jsonl experiments/stepsizes/results/gpt.jsonl
  experiments/stepsizes/compare.py [DIRECTORY]     # of the results; default: results, beside this file
"""
import json
import math
import pathlib
import statistics
import sys

TASKS = {  # file: heading, curve, whether larger is better
    "gpt": ("GPT, text", "val_loss", False),
    "mlp": ("MLP, Fashion-MNIST", "val_loss", False),
    "mlp-sum": ("MLP, summed loss", "val_loss", False),
    "cnn": ("CNN, Fashion-MNIST", "val_accuracy", True),
    "cifar-cnn": ("CNN, CIFAR-10", "val_accuracy", True),
}
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # half a 95 % interval of a mean of n, in standard errors


def read(path, curve):
    """The tail of the curve by choice, one value for each seed; None where the run diverged."""
    values = {}
    for line in path.read_text().splitlines():
        run = json.loads(line)
        if run["status"] not in ("finished", "diverged"):
            raise ValueError(f"{path}: a run of '{run['place']['choice']}' has the status {run['status']}")
        values.setdefault(run["place"]["choice"], []).append(run["curves"][curve]["tail"] if run["status"] == "finished" else None)
    return values


def best(values, larger):
    """The choice with the best mean, among those all of whose seeds finished."""
    means = {choice: statistics.mean(seeds) for choice, seeds in values.items() if None not in seeds}
    return (max if larger else min)(means, key=means.get)


def shown(seeds, larger):
    mean, half = statistics.mean(seeds), STUDENT[len(seeds)] * statistics.stdev(seeds) / math.sqrt(len(seeds))
    return f"{100 * mean:.1f} ± {100 * half:.1f} %" if larger else f"{mean:.3f} ± {half:.3f}"


def compared(seeds, reference, larger):
    """By how much worse than the reference: percent of a loss, points of an accuracy. Bold within 2 percent, or 1 point."""
    if None in seeds:
        return f"{seeds.count(None)} of {len(seeds)} diverged"
    mean, of = statistics.mean(seeds), statistics.mean(reference)
    worse = 100 * (of - mean) if larger else 100 * (mean / of - 1)
    text = f"{-worse if larger else worse:+.1f} {'points' if larger else '%'}"
    return f"**{text}**" if worse <= (1 if larger else 2) else text


def table(directory):
    tasks = {name: task for name, task in TASKS.items() if (directory / f"{name}.jsonl").exists()}
    rows = {"best of 12 pairs": []}
    rules = []
    for name, (_, curve, larger) in tasks.items():
        values = read(directory / f"{name}.jsonl", curve)
        fixed = {choice: seeds for choice, seeds in values.items() if choice.startswith("lr ")}
        adam = {choice: seeds for choice, seeds in values.items() if choice.startswith("adamw")}
        reference = fixed[best(fixed, larger)]
        rows["best of 12 pairs"].append(f"{shown(reference, larger)} ({best(fixed, larger)})")
        rules = [choice for choice in values if choice not in fixed and choice not in adam]
        for choice in rules:
            rows.setdefault(f"`{choice}`", []).append(compared(values[choice], reference, larger))
        default = next(choice for choice in adam if "default" in choice)
        rows.setdefault("AdamW, lr 0.001", []).append(compared(adam[default], reference, larger))
        found = best(adam, larger)
        rows.setdefault("AdamW, best of 6", []).append(f"{compared(adam[found], reference, larger)} (lr {found.split('lr ')[1]})")
    lines = ["| | " + " | ".join(tasks[name][0] for name in tasks) + " |", "|---|" + "---|" * len(tasks)]
    return "\n".join(lines + [f"| {row} | " + " | ".join(cells) + " |" for row, cells in rows.items()])


if __name__ == "__main__":
    print(table(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "results"))
