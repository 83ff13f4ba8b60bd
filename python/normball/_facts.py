"""What all ranks must have in common at a step: settings, parameters, weights and averaged gradients."""
from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence, Tuple

import torch

from . import _core, _options, _shards
from ._joint import Part, Ready
from ._native import Entry
from ._ranks import Ranks, RanksError, tensor_digest


def snapshot(groups: Sequence[Mapping[str, Any]]) -> List[Any]:
    """All of the groups that routes and buffers depend on."""
    kept = [key for key in _options.SHARED if key not in _options.COUNTED + _options.NUMBERS]
    kept += [key for key in _options.OWN + _options.DESCRIBING + (_options.ALIASES,) if key != "lr"]
    return [([_options.frozen(group.get(key)) for key in kept],
             [(id(p), p.dtype, p.device, p.shape, p.stride(), p.requires_grad, _shards.local(p).data_ptr())
              for p in group["params"]]) for group in groups]


def plan_facts(groups: Sequence[Mapping[str, Any]], entries: Sequence[Entry], overwrites: bool) -> List[Tuple[str, str]]:
    """What must be the same in all ranks as long as parameters and options are."""
    facts = [("normball", _core.__version__), ("overwrite_gradients", str(overwrites))]
    shared = groups[0]
    facts += [(key, repr(shared[key])) for key in ("method", "line_search", "maximize", "nonfinite", "solver")]
    facts.append(("number of parameters", str(len(entries))))
    for parameter, route, group in entries:
        shape = "x".join(map(str, parameter.shape)) or "scalar"
        sharded = " sharded" if _shards.is_sharded(parameter) else ""
        matrices = "" if len(route.blocks) == 1 else f" in {len(route.blocks)} matrices"
        facts.append((f"'{route.name}'", f"{shape}{matrices} {parameter.dtype}{sharded} in group {group} with norm {route.norm} "
                                         f"and radius {route.radius!r}"))
    return facts


def _factors(parts: Sequence[Part], ready: Ready) -> str:
    return ", ".join(f"'{entry.route.name}' {factor!r}" for part, own in zip(parts, ready.factors)
                     for entry, factor in zip(part.entries, own))


def step_facts(groups: Sequence[Mapping[str, Any]], ready: Optional[Ready], parts: Sequence[Part]) -> List[Tuple[str, str]]:
    """What must be the same at this step; without any gradient nobody is ready."""
    gradients = [[None] * len(part.entries) for part in parts] if ready is None else ready.gradients
    missing = [f"'{entry.route.name}'" for part, own in zip(parts, gradients) for entry, each in zip(part.entries, own)
               if each is None]
    facts = [("these parameters without a gradient:", ", ".join(missing) or "none")]
    if ready is not None:
        facts += [("step", str(ready.k)), ("loss", repr(ready.loss)), ("stepsize_memory", repr(ready.memory)),
                  ("lr", " ".join(map(repr, ready.lrs))),
                  ("these lrs as multiples of the largest:", _factors(parts, ready))]
    return facts + [(key, repr(_options.frozen(groups[0][key]))) for key in _options.NUMBERS]


_REMEDIES = {
    "weight": "all ranks must start from the same weights, as DistributedDataParallel sees to",
    "gradient": "average the gradients over all ranks before step(), as DistributedDataParallel does",
    "momentum": "all ranks must load the same state",
    "start": "it is where the stepsize measures distances from: all ranks must load the same state",
}


def compare(where: str, ranks: Ranks, entries: Sequence[Entry], ready: Ready, state: Mapping[Any, Any]) -> None:
    """Once for a plan and after state was loaded: a program that forgets to average would train as many models as it has
    ranks. Of the momenta those that are here: most are with one rank alone, once steps were taken."""
    what, digests = [], []
    keeps_start = ready.method.needs_distance and any(ready.memory)  # else it is taken at this step
    for entry, gradient in zip(entries, [gradient for own in ready.gradients for gradient in own]):
        if _shards.is_sharded(entry.parameter):
            continue
        own = state.get(entry.parameter, {})
        for kind, tensor in (("weight", entry.parameter), ("gradient", gradient), ("momentum", own.get("momentum")),
                             ("start", own.get("start") if keeps_start else None)):
            what.append((kind, entry.route.name))
            digests.append(bytes(16) if tensor is None else tensor_digest(tensor))
    if not digests:
        return
    every = [[own[16 * i:16 * i + 16] for i in range(len(what))] for own in ranks.gather(b"".join(digests))]
    for i, (kind, name) in enumerate(what):
        held = [rank for rank in range(ranks.size) if kind != "momentum" or every[rank][i] != bytes(16)]
        for rank in held[1:]:
            if every[rank][i] != every[held[0]][i]:
                raise RanksError(f"[{where}] the {kind} of '{name}' in rank {rank} is not that of rank {held[0]}: "
                                 f"{_REMEDIES[kind]}")
