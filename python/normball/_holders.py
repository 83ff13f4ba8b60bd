"""Momenta of replicated parameters that one rank alone has."""
from __future__ import annotations

from typing import Any, Dict, MutableMapping, Sequence

import torch

from ._native import NativePart, like
from ._ranks import Ranks


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
