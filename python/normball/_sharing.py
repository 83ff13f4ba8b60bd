"""What an optimizer with a process group does beside its steps: agreement before one, and momenta that one rank alone has."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, MutableMapping, Optional, Sequence, Tuple

import torch

from . import _core, _options, _shards
from ._native import Entry, NativePart, like
from ._ranks import Ranks, RanksError, tensor_digest


def check_native(where: str, entry: Entry, native: bool, backend: str) -> None:
    """Refuses by name what ranks cannot share."""
    name, parameter = entry.route.name, entry.parameter
    if native:
        return
    if backend == "torch":
        why = "backend='torch' steps it in torch operations"
    elif entry.route.python_norm is not None:
        why = f"its norm {entry.route.norm} is of your own"
    elif parameter.device.type != "cpu":
        why = f"it is on {parameter.device}"
    elif parameter.dtype not in (torch.float32, torch.float64):
        why = f"it is {parameter.dtype}"
    else:
        why = "it is not contiguous"
    raise ValueError(f"[{where}] with process_group '{name}' cannot be stepped: {why}, and ranks share the LMOs of contiguous "
                     f"float32 and float64 tensors on the CPU alone; without process_group every rank steps all of a replicated "
                     f"model")


def plan_facts(groups: Sequence[Mapping[str, Any]], entries: Sequence[Entry], overwrites: bool) -> List[Tuple[str, str]]:
    """What must be the same in all ranks as long as parameters and options are."""
    facts = [("normball", _core.__version__), ("overwrite_gradients", str(overwrites))]
    shared = groups[0]
    facts += [(key, repr(shared[key])) for key in ("method", "maximize", "nonfinite", "solver")]
    facts.append(("number of parameters", str(len(entries))))
    for parameter, route, group in entries:
        shape = "x".join(map(str, parameter.shape)) or "scalar"
        sharded = " sharded" if _shards.is_sharded(parameter) else ""
        matrices = "" if len(route.blocks) == 1 else f" in {len(route.blocks)} matrices"
        facts.append((f"'{route.name}'", f"{shape}{matrices} {parameter.dtype}{sharded} in group {group} with norm {route.norm} "
                                         f"and radius {route.radius!r}"))
    return facts


def step_facts(groups: Sequence[Mapping[str, Any]], k: int, lrs: Sequence[float], factors: Sequence[Sequence[float]],
               missing: Sequence[str]) -> List[Tuple[str, str]]:
    """What must be the same at this step."""
    facts = [("these parameters without a gradient:", ", ".join(f"'{name}'" for name in missing) or "none"),
             ("step", str(k)), ("lr", " ".join(map(repr, lrs))),
             ("factors of lr", " ".join(repr(factor) for own in factors for factor in own))]
    return facts + [(key, repr(_options.frozen(groups[0][key]))) for key in _options.NUMBERS]


def compare(where: str, ranks: Ranks, entries: Sequence[Entry], gradients: Sequence[Optional[torch.Tensor]]) -> None:
    """Once for a plan: a program that forgets to average would train as many models as it has ranks."""
    what, digests = [], []
    for entry, gradient in zip(entries, gradients):
        if _shards.is_sharded(entry.parameter):
            continue
        for kind, tensor in (("weight", entry.parameter), ("gradient", gradient)):
            what.append((kind, entry.route.name))
            digests.append(bytes(16) if tensor is None else tensor_digest(tensor))
    if not digests:
        return
    every = [[own[16 * i:16 * i + 16] for i in range(len(what))] for own in ranks.gather(b"".join(digests))]
    for i, (kind, name) in enumerate(what):
        for rank in range(ranks.size):
            if every[rank][i] != every[0][i]:
                remedy = ("all ranks must start from the same weights, as DistributedDataParallel sees to" if kind == "weight" else
                          "average the gradients over all ranks before step(), as DistributedDataParallel does")
                raise RanksError(f"[{where}] the {kind} of '{name}' in rank {rank} is not that of rank 0: {remedy}")


class Holders:
    """Which rank has a momentum, where it is one alone. All ranks know the same."""

    def __init__(self) -> None:
        self._rank_of: Dict[torch.Tensor, int] = {}

    def __bool__(self) -> bool:
        return bool(self._rank_of)

    def stepped(self, ranks: Ranks, part: NativePart, moved: Sequence[bool], state: MutableMapping[Any, Any]) -> None:
        """After a step: the averages that this rank does not have any more are let go."""
        for entry, has_gradient in zip(part.entries, moved):
            owner = part.owners.get(entry.parameter)
            if has_gradient and owner is not None:
                self._rank_of[entry.parameter] = owner
                if owner != ranks.rank:
                    state.setdefault(entry.parameter, {}).pop("momentum", None)

    def move(self, ranks: Ranks, part: NativePart, state: MutableMapping[Any, Any]) -> None:
        """Brings what has another owner now to it: parameters came or went."""
        moving = [entry for entry in part.entries
                  if self._rank_of.get(entry.parameter, part.owners.get(entry.parameter)) != part.owners.get(entry.parameter)]
        if not moving:
            return
        part.share_bases(state)
        for entry in moving:
            p = entry.parameter
            new = part.owners.get(p)
            self._bring(ranks, part, p, self._rank_of[p], state)
            if new is None:  # every rank has it now
                del self._rank_of[p]
                continue
            self._rank_of[p] = new
            if new != ranks.rank:
                state[p].pop("momentum", None)

    def bring_all(self, ranks: Ranks, parts: Sequence[Any], state: MutableMapping[Any, Any]) -> None:
        """Every momentum to all ranks."""
        for part in parts:
            if not isinstance(part, NativePart):
                continue
            part.share_bases(state)
            for entry in part.entries:
                if entry.parameter in self._rank_of:
                    self._bring(ranks, part, entry.parameter, self._rank_of[entry.parameter], state)
        self._rank_of.clear()

    def _bring(self, ranks: Ranks, part: NativePart, parameter: torch.Tensor, source: int,
               state: MutableMapping[Any, Any]) -> None:
        own = state.setdefault(parameter, {})
        held = own.get("momentum") if source == ranks.rank else None
        momentum = torch.zeros_like(parameter) if held is None else like(held, parameter)
        for tensor in [momentum, *part.basis(parameter)]:
            dense = tensor.contiguous()
            ranks.wait([ranks.broadcast(dense, source)])
            if dense.data_ptr() != tensor.data_ptr():
                tensor.copy_(dense)
        own["momentum"] = momentum
