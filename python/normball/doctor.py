"""``python -m normball.doctor``: checks whether this machine is set up well for normball, and names remedies.

Exits with code 1 if something is wrong. ``--json`` prints the lines as JSON.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import List, NamedTuple, Optional, Sequence

from . import _core


class Line(NamedTuple):
    subject: str
    state: str  # "good", "note" or "wrong"
    text: str
    remedy: str


def _rate_with(core_type: str) -> float:
    """The rate of products in a process whose OpenBLAS has other kernels; 0 if it does not run with them."""
    command = [sys.executable, "-m", "normball.doctor", "--rate"]
    environment = {**os.environ, "OPENBLAS_CORETYPE": core_type}
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return float(result.stdout) if result.returncode == 0 else 0.0


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _kernels(configuration: str) -> str:
    """The instructions of torch's kernels, which every version names in its text for people, e.g. "AVX2"."""
    lines = [line.split(": ", 1)[1] for line in configuration.splitlines() if "CPU capability usage: " in line]
    return lines[0].strip() if lines else "unknown"


def _torch() -> Line:
    try:
        import torch
    except ImportError:
        return Line("torch", "note", "not installed: normball.torch needs it, normball does not", "")
    kernels = _kernels(torch.__config__.show())
    onednn = "with" if torch.backends.mkldnn.is_available() else "without"
    threads, cores = torch.get_num_threads(), _core.usable_cpus()
    text = f"{torch.__version__}, {onednn} oneDNN, kernels {kernels}, {_count(threads, 'thread')} of its own"
    if threads > cores:  # torch does not ask what its control groups grant
        return Line("torch", "wrong", f"{text}, which steps follow, on {_count(cores, 'core')} to use",
                    f"torch.set_num_threads({cores}), or OMP_NUM_THREADS={cores}")
    below = kernels in ("DEFAULT", "NO AVX") and _core.core_type_for_this_processor() in ("HASWELL", "ZEN", "SKYLAKEX")
    if below and os.environ.get("ATEN_CPU_CAPABILITY"):
        return Line("torch", "wrong", f"{text}; its kernels are less than the processor has",
                    f"unset ATEN_CPU_CAPABILITY (it is {os.environ['ATEN_CPU_CAPABILITY']})")
    if threads < cores:  # some torches start on fewer threads than there are cores
        return Line("torch", "note", f"{text}, which steps follow, on {_count(cores, 'core')} to use",
                    f"torch.set_num_threads({cores}), or OMP_NUM_THREADS={cores}, uses all")
    return Line("torch", "good", text, "")


def examine() -> List[Line]:
    """All lines; imports torch if it is installed, since its libraries are part of the result."""
    rate = _core.product_rate()
    threads = _core.get_num_threads()  # before torch sets another number in a runtime that it shares
    torch = _torch()
    others = [(name, _rate_with(name)) for name in _core.core_types_to_compare()]
    lines = [Line(*line) for line in _core.findings(".", rate, [other for other in others if other[1] > 0], threads)]
    return [*lines, torch]


def report(lines: Sequence[Line]) -> str:
    width = max(len(line.subject) for line in lines)
    rows = []
    for subject, state, text, remedy in lines:
        rows.append(f"{state:<7}{subject:<{width}}  {text}")
        if remedy:
            rows.append(" " * (width + 9) + "-> " + remedy)
    return "\n".join(rows)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m normball.doctor", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the lines as JSON")
    parser.add_argument("--rate", action="store_true", help="print the rate of products on one thread only")
    options = parser.parse_args(arguments)
    if options.rate:
        print(_core.product_rate())
        return 0
    lines = examine()
    print(json.dumps([line._asdict() for line in lines], indent=2) if options.json else report(lines))
    return 1 if any(line.state == "wrong" for line in lines) else 0


def _to_the_end(arguments: Optional[Sequence[str]] = None) -> int:
    """main() for a reader that may stop early, as head does, which is not an error."""
    try:
        code = main(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what Python flushes at exit
        return 0


if __name__ == "__main__":
    sys.exit(_to_the_end())
