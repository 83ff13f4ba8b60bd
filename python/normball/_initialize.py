"""Weights on the spheres of their norms, and back into their balls."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np
import torch

from . import _core, _gate, _shards, checked_seed
from ._fallback import measured
from ._native import Entry


def _is_frozen(parameter: torch.Tensor) -> bool:
    """Whether the parameter is frozen. A plain tensor is not, because the user supplies its gradient."""
    return isinstance(parameter, torch.nn.Parameter) and not parameter.requires_grad


def _of_python_norm(where: str, entry: Entry, shape: Sequence[int], random: np.random.Generator) -> torch.Tensor:
    """A Gaussian, scaled to its length in the user's norm."""
    norm = entry.route.python_norm
    if not hasattr(norm, "norm"):
        raise ValueError(f"[{where}] '{entry.route.name}' has the norm {entry.route.norm}, whose class needs norm(x) for "
                         f"initialization")
    x = torch.from_numpy(random.standard_normal(tuple(shape)))
    return x * (entry.route.radius / float(norm.norm(x)))


def _drawn(where: str, entry: Entry, seeds: np.random.SeedSequence) -> torch.Tensor:
    """The parameter's new values, in float64, matrix by matrix."""
    parameter, route, _ = entry
    values = torch.zeros(parameter.shape, dtype=torch.float64, device="cpu")
    for block, seed in zip(route.blocks, seeds.spawn(len(route.blocks))):
        size = (block.shape.rows, block.shape.cols)
        if 0 in size:
            continue
        if route.python_norm is not None:
            shape = parameter.shape if len(route.blocks) == 1 else size
            matrix = _of_python_norm(where, entry, shape, np.random.default_rng(seed)).reshape(size)
        else:
            array = np.empty(size)
            _core.initialize_block(array, route.norm, block.shape, route.radius,
                                   int(seed.generate_state(1, np.uint64)[0]))
            matrix = torch.from_numpy(array)
        values.view(-1)[block.offset:].as_strided(size, (block.stride, 1)).copy_(matrix)
    return values


def initialize_entries(where: str, entries: Sequence[Entry], seed: Any) -> None:
    """All values are drawn before the first is written: on an error nothing changes."""
    seeds = np.random.SeedSequence(checked_seed(where, seed)).spawn(len(entries))
    drawn = []
    for entry, own in zip(entries, seeds):
        kind = entry.route.kind
        _gate.check_memory(where, entry.route.name, entry.parameter)
        if _is_frozen(entry.parameter):
            continue
        # A vector that is no bias is a gain, or may be one, and a gain of 0 would silence its layer.
        if kind == "bias" or (entry.parameter.dim() > 1 and kind != "norm"):
            drawn.append((entry.parameter, _drawn(where, entry, own)))
    with torch.no_grad():
        for parameter, values in drawn:
            _write(parameter, values)


def _write(parameter: torch.Tensor, values: torch.Tensor) -> None:
    """The values, or this rank's rows of them."""
    if _shards.is_sharded(parameter):
        _shards.local(parameter).copy_(_shards.own_part(parameter, values))
    else:
        parameter.copy_(values)


def product_norm(entries: Sequence[Entry]) -> float:
    """Of the weights that may move."""
    return max((size for entry in entries if not _is_frozen(entry.parameter) for _, _, size in measured(entry)[1]),
               default=0.0)


def stall(entries: Sequence[Entry], s: float) -> str:
    """Why a step with this s < 0 was 0, if weights outside their balls are the reason."""
    size = product_norm(entries)
    if size <= 1 + 1e-3:
        return ""
    return (f"the weights are {size:.3g} times as large as their balls and s = {s:.3g} < 0, so this step is 0, and so are later "
            f"ones while s < 0; use normball.torch.scale_into_balls_(optimizer), initialize_, or larger radii")


def standstill(entries: Sequence[Entry], text: str) -> str:
    """The core's text, where there are weights of a type that it is about."""
    short = any(entry.parameter.dtype in (torch.bfloat16, torch.float16) for entry in entries)
    return text if short else ""


@torch.no_grad()
def scale_into_balls(where: str, entries: Sequence[Entry]) -> float:
    for entry in entries:
        if not _is_frozen(entry.parameter) and not all(math.isfinite(size) for _, _, size in measured(entry)[1]):
            raise ValueError(f"[{where}] the weight '{entry.route.name}' has an entry that is not finite, or a norm beyond "
                             f"the range of its type; nothing was changed")
    largest = product_norm(entries)
    for entry in entries:
        if _is_frozen(entry.parameter):
            continue
        weight, matrices = measured(entry)
        for _, w, size in matrices:
            w.mul_(min(1.0, 1 / size) if size > 0 else 1.0)
        if weight.data_ptr() != entry.parameter.data_ptr():
            _write(entry.parameter, weight)
    return largest
