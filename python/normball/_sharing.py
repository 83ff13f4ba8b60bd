"""Steps that an optimizer with a process group takes together with other ranks."""
from __future__ import annotations

from typing import Any, Callable, List, Mapping, MutableMapping, Optional, Sequence, Tuple

import torch

from . import _core, _facts, _shards
from ._holders import Holders
from ._joint import Part, Ready
from ._native import Entry, NativePart, is_native
from ._ranks import KeptFacts, Ranks

Groups = Sequence[Mapping[str, Any]]
State = MutableMapping[Any, Any]


def check_entry(where: str, entry: Entry, execution: Mapping[str, Any], method: _core.Method,
                searches: bool = False) -> None:
    """Refuses by name what ranks cannot share."""
    name, parameter = entry.route.name, entry.parameter
    if _shards.is_sharded(parameter) and method.needs_distance:
        raise ValueError(f"[{where}] the stepsize '{method.rule}' measures distances, which it cannot do for sharded parameters "
                         f"such as '{name}': take 'adagrad' or 'momo'")
    if _shards.is_sharded(parameter) and searches:
        raise ValueError(f"[{where}] line_search moves whole weights, which it cannot do for sharded parameters such as '{name}'")
    if _shards.is_sharded(parameter) and execution["overwrite_gradients"]:
        raise ValueError(f"[{where}] overwrite_gradients has no effect on sharded parameters such as '{name}'")
    if execution["backend"] == "torch":
        why = "backend='torch' steps it in torch operations"
    elif is_native(_shards.local(parameter), entry.route):
        return
    elif entry.route.python_norm is not None:
        why = f"its norm {entry.route.norm} is of your own"
    elif parameter.device.type != "cpu":
        why = f"it is on {parameter.device}"
    elif parameter.dtype not in (torch.float32, torch.float64):
        why = f"it is {parameter.dtype}"
    else:
        why = "it is not contiguous"
    remedy = ("give its shards that type" if _shards.is_sharded(parameter) else
              "without process_group every rank steps all of a replicated model")
    raise ValueError(f"[{where}] with process_group '{name}' cannot be stepped: {why}, and ranks share the LMOs of contiguous "
                     f"float32 and float64 tensors on the CPU alone; {remedy}")


class SharedSteps:
    """The ranks of an optimizer, and what they know of each other."""

    def __init__(self, where: str, group: Any) -> None:
        self.ranks = Ranks(where, group)
        self._where = where
        self.forget()

    def forget(self) -> None:
        """The state was replaced: every rank has all of it."""
        self._holders = Holders()
        self._kept = KeptFacts()
        self._compared = False

    def plan(self, groups: Groups, entries: Sequence[Entry], overwrites: bool) -> None:
        """Parameters or options have changed."""
        self._kept = KeptFacts(_facts.plan_facts(groups, entries, overwrites))
        self._compared = False

    def get_ready(self, get_ready: Callable[[], Optional[Ready]], parts_now: Callable[[], Sequence[Part]], groups: Groups,
                  state: State) -> Optional[Ready]:
        """The same in all ranks: what stops one stops all, before anything has changed."""
        ready: Optional[Ready] = None
        failure: Optional[Exception] = None
        facts: List[Tuple[str, str]] = []
        try:
            ready = get_ready()
            facts = _facts.step_facts(groups, ready, parts_now())
        except Exception as error:
            failure = error
        compare = self.ranks.agree("step()", self._kept, facts, failure, ready is not None and not self._compared)
        if ready is None:
            return None
        parts = parts_now()
        if compare:
            _facts.compare(self._where, self.ranks, [entry for part in parts for entry in part.entries], ready, state)
            self._compared = True
        for part in parts:
            if isinstance(part, NativePart):
                part.set_step(ready.k)
                self._holders.move(self.ranks, part, state)
        return ready

    def finish(self, parts: Sequence[Part], ready: Ready, state: State) -> None:
        """All weights have moved."""
        for part, own in zip(parts, ready.gradients):
            if isinstance(part, NativePart):
                self._holders.stepped(self.ranks, part, [gradient is not None for gradient in own], state)

    def check_whole(self) -> None:
        if self.ranks.size > 1 and self._holders:
            raise ValueError(f"[{self._where}.state_dict] momenta are with the ranks that own them: call consolidate_state() in "
                             f"all ranks, which also returns the whole state dict")

    def consolidate(self, refresh: Callable[[], Any], parts_now: Callable[[], Sequence[Part]], state: State) -> None:
        """Brings every momentum of a replicated parameter to all ranks."""
        failure: Optional[Exception] = None
        try:
            refresh()
        except Exception as error:
            failure = error
        self.ranks.agree("consolidate_state()", self._kept, (), failure)
        self.ranks.set_activity("consolidate_state()")
        self._holders.bring_all(self.ranks, parts_now(), state)
