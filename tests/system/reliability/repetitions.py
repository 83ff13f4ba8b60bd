"""Runs that are long, and runs that are the same."""
import os
import re

from trained_runs import require

LOG_EVERY = 50


def resident_bytes(pid):
    """Without pages of program files, which the system drops and reads again as it likes."""
    with open(f"/proc/{pid}/status") as file:
        return 1024 * int(re.search(r"RssAnon:\s+(\d+)", file.read())[1])


def last_step(path):
    """Of a file of metrics that is being written; 0 where there is none yet."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 1000))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return 0
    steps = [line for line in lines[:-1] if line.startswith(b'{"step": ')]
    return int(steps[-1][9:].split(b",")[0]) if steps else 0


def soak(runs, steps, warm_up):
    """The memory of a long run, from the end of the warm-up on."""
    process = runs.start("soak", steps, f"run.log_every={LOG_EVERY}", "run.checkpoint_every=100",
                         "run.eval_every=100")
    samples = []
    while not process.wait(0.02):
        try:
            samples.append((last_step(runs.path("runs/soak/metrics.jsonl")),
                            resident_bytes(process.popen.pid)))
        except (FileNotFoundError, TypeError, ProcessLookupError):
            pass  # it has just ended
    require(process.code == 0, "the long run failed:", process)
    window = warm_up // 2
    early = [size for step, size in samples if warm_up <= step < warm_up + window]
    late = [size for step, size in samples if steps - window <= step < steps]
    require(early and late, "too few samples of memory:", len(samples))
    growth = max(late) / max(early) - 1
    require(growth < 0.01, f"resident memory grew by {growth:.2%}")
    return (f"{steps} steps: resident memory {max(early) / 2**20:.1f} MiB after step {warm_up}, "
            f"{max(late) / 2**20:.1f} MiB at the end ({growth:+.2%})")


def repeat(runs, count, steps):
    """The same seed and threads: the same metrics and weights."""
    settings = ("run.threads=2", "run.checkpoint_every=100", "model.layers=2", "model.width=64")
    for i in range(count):
        name = f"repeat-{i}"
        runs.complete(name, steps, *settings, environment={"OMP_NUM_THREADS": "2"})
        runs.require_same(name, "repeat-0", steps)
    return f"{count} runs of {steps} steps on 2 threads: identical metrics and weights"
