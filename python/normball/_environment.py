"""Makes OpenBLAS, which reads OPENBLAS_CORETYPE when it is loaded, choose the kernels that fit this processor.

Old versions take processors that they do not know for one of 2004, and run at a fifth of the speed. Once loaded, by NumPy
or torch, the library keeps its choice; the C++ core then warns of a poor one (NORMBALL_QUIET=1 silences it).
"""
from __future__ import annotations

import contextlib
import os
import re
from typing import Iterator, Set

_VARIABLE = "OPENBLAS_CORETYPE"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def core_type(cpuinfo: str) -> str:
    """The core type for the processor in /proc/cpuinfo, as the C++ core chooses it; empty if none should be set."""
    found = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    flags: Set[str] = set(found.group(1).split()) if found else set()
    amd = re.search(r"^vendor_id\s*:\s*AuthenticAMD", cpuinfo, re.MULTILINE) is not None
    avx2 = {"avx2", "fma"} <= flags
    if avx2 and {"avx512f", "avx512cd", "avx512dq", "avx512bw", "avx512vl"} <= flags:
        return "SKYLAKEX"
    if avx2:
        return "ZEN" if amd else "HASWELL"
    return "SANDYBRIDGE" if "avx" in flags else ""


def wanted(environment: "os._Environ[str]", maps: str, cpuinfo: str) -> str:
    """The value to set; empty if the user has set one, or if the library is already loaded."""
    if environment.get(_VARIABLE) or "openblas" in maps:
        return ""
    return core_type(cpuinfo)


@contextlib.contextmanager
def suited_to_this_processor() -> Iterator[None]:
    """Sets the variable while libraries are loaded; afterwards the environment is as before, also for child processes."""
    chosen = wanted(os.environ, _read("/proc/self/maps"), _read("/proc/cpuinfo"))
    before = os.environ.get(_VARIABLE)
    if chosen:
        os.environ[_VARIABLE] = chosen
    try:
        yield
    finally:
        if chosen:
            if before is None:
                del os.environ[_VARIABLE]
            else:
                os.environ[_VARIABLE] = before
