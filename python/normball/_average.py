"""Averages of the iterates beside any optimizer; the formulas are those of normball/average.h."""
from __future__ import annotations

import contextlib
import inspect
import math
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

import torch

from . import _core
from ._line_search import check_closure


def _kept(weight: torch.Tensor) -> torch.Tensor:
    """A copy that an average can be kept in: what it gains in a step is too little for 16 bits."""
    weight = weight.detach()
    return weight.clone() if weight.dtype in (torch.float32, torch.float64) else weight.float()


def _move_towards(to: torch.Tensor, source: torch.Tensor, share: float) -> None:
    """to <- to + share (source - to), rounded once."""
    a = to.double()
    to.copy_(a + share * (source.double() - a))


class Averaged:
    """An optimizer with an average of its iterates, which is what to evaluate and keep.

    Args:
        optimizer: any ``torch.optim.Optimizer``. Step this object instead of it.
        average: ``"ema(0.9999)"``, ``"tail(0.25)"``, ``"schedule_free(0.9)"``, ``"soda"`` or ``"uniform(seed=0)"``.
        steps: the length of the run, which ``tail`` needs.

    >>> averaged = Averaged(ClippedScion(model, lr=0.01, alpha=0.1, rho=100), "ema(0.999)")
    >>> averaged.step()
    >>> with averaged.evaluated():
    ...     validate(model)

    Buffers of the model, such as the statistics of batch norm, are not averaged. The average of 16-bit parameters is
    kept in float32; ``schedule_free`` and ``soda`` move the weights by little and refuse them.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, average: str, steps: int = 0) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ValueError(f"[Averaged] optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
        if not isinstance(average, str):
            raise ValueError(f"[Averaged] average must be a text such as 'ema(0.999)', got {type(average).__name__}")
        self.optimizer = optimizer
        self._kind, self._number, self.average = _core.average(average)
        if self._kind == "tail" and steps < 1:
            raise ValueError(f"[Averaged] {self.average} is the mean over the last part of a run: give its number of steps, "
                             f"got {steps}")
        self._steps, self._step = steps, 0
        self._of: List[torch.Tensor] = []  # the parameters that the tensors below belong to
        self._first: List[torch.Tensor] = []  # the average, or the start
        self._iterates: List[torch.Tensor] = []  # z of schedule_free
        self._away: List[torch.Tensor] = []  # the weights of the steps, while the evaluated ones are in their place

    def _weights(self) -> List[torch.Tensor]:
        weights = {id(p): p for group in self.optimizer.param_groups for p in group["params"]}  # each once
        return list(weights.values())

    def _first_of_tail(self) -> int:
        return self._steps - max(1, math.ceil(self._number * self._steps))

    @property
    def has_average(self) -> bool:
        """Whether the evaluated weights are others than those of the steps (yet)."""
        if self._step == 0 or self._kind in ("none", "soda"):
            return False
        return self._kind != "tail" or self._step > self._first_of_tail()

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def _require_in_place(self, where: str) -> None:
        if self._away:
            raise RuntimeError(f"[Averaged.{where}] the evaluated weights are in place: leave evaluated() first")

    def _begin(self, weights: List[torch.Tensor]) -> None:
        if self._kind == "none":
            return
        if not self._first:
            if self._kind in ("soda", "schedule_free") and any(w.dtype not in (torch.float32, torch.float64) for w in weights):
                raise ValueError(f"[Averaged.step] {self.average} moves weights by less than 16 bits can hold: keep them in float32")
            self._first = [_kept(w) for w in weights]
            if self._kind == "schedule_free":
                self._iterates = [_kept(w) for w in weights]
        self._of = self._of or weights
        if len(weights) != len(self._of):
            raise ValueError(f"[Averaged.step] the average is of {len(self._of)} parameters, the optimizer has "
                             f"{len(weights)}: add parameter groups before the first step")
        if any(w is not own for w, own in zip(weights, self._of)):
            raise ValueError("[Averaged.step] the optimizer has other parameters, or in another order, than those of the "
                             "average: make a new Averaged")

    def step(self, closure: Optional[Callable[[], Any]] = None, **arguments: Any) -> Any:
        """One step of the optimizer, with what its own ``step`` takes. A step that it skips, or that had no gradient at all,
        is none of the average's either. ``schedule_free`` calls the closure before it, where the gradient belongs."""
        self._require_in_place("step")
        check_closure("Averaged", closure)
        if self._kind == "schedule_free" and any(group.get("line_search") for group in self.optimizer.param_groups):
            raise ValueError("[Averaged.step] schedule_free takes gradients at other weights than its steps start from, so a "
                             "line search has nothing to compare with: use ema or tail, or no line_search")
        weights = self._weights()
        self._begin(weights)
        drawn: List[torch.Tensor] = []
        if self._kind == "uniform" and _core.replaces_kept(int(self._number), self._step):
            drawn = [w.detach().clone() for w in weights]
        loss = self._step_at_iterates(weights, closure, arguments) if self._iterates else self._step_here(closure, arguments)
        report = getattr(self.optimizer, "report", None)
        idle = all(w.grad is None for w in weights) or (report is not None and getattr(report, "skipped", False))
        if idle:
            return loss
        with torch.no_grad():
            for index, w in enumerate(weights):
                if not torch.isfinite(w).all():
                    raise ValueError(f"[Averaged.step] parameter {index} is not finite after the step; the average is as before")
            self._take_in(weights)
            for kept, w in zip(self._first, drawn):
                kept.copy_(w)
        self._step += 1
        return loss

    def _step_here(self, closure: Optional[Callable[[], Any]], arguments: Dict[str, Any]) -> Any:
        return self.optimizer.step(**arguments) if closure is None else self.optimizer.step(closure, **arguments)

    @torch.no_grad()
    def _step_at_iterates(self, weights: List[torch.Tensor], closure: Optional[Callable[[], Any]], arguments: Dict[str, Any]) -> Any:
        """schedule_free: the gradient is that of y, which is in place, the step one of z. Back to y where there was none."""
        expects = inspect.signature(self.optimizer.step).parameters
        if "closure" in expects and expects["closure"].default is inspect.Parameter.empty:
            raise ValueError(f"[Averaged.step] {self.average} steps from other weights than those of the gradient, which "
                             f"{type(self.optimizer).__name__}, calling its closure itself, cannot do: use ema, tail or soda")
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
            if "loss" in expects:
                arguments = {"loss": result, **arguments}
        before = [w.detach().clone() for w in weights]
        for w, z in zip(weights, self._iterates):
            w.copy_(z)
        stepped = False
        try:
            returned = self.optimizer.step(**arguments)
            report = getattr(self.optimizer, "report", None)
            stepped = any(w.grad is not None for w in weights) and not getattr(report, "skipped", False)
        finally:
            if not stepped:
                for w, y in zip(weights, before):
                    w.copy_(y)
        return result if closure is not None else returned

    def _take_in(self, weights: List[torch.Tensor]) -> None:
        k, share = self._step, 0.0
        if self._kind == "ema":
            share = max(1 - self._number, 1 / (k + 1))
        elif self._kind == "tail" and k >= self._first_of_tail():
            share = 1 / (k - self._first_of_tail() + 1)
        elif self._kind == "schedule_free":
            share = 1 / (k + 1)
        for i, w in enumerate(weights):
            if self._kind == "soda":
                _move_towards(w, self._first[i], 1 / (k + 2))
            elif share > 0:
                _move_towards(self._first[i], w, share)
            if self._iterates:
                self._iterates[i].copy_(w)
                _move_towards(w, self._first[i], self._number)

    @contextlib.contextmanager
    def evaluated(self) -> Iterator[None]:
        """The evaluated weights in the model, and the others back afterwards, bit by bit."""
        if self._away:
            raise RuntimeError("[Averaged.evaluated] the evaluated weights are in place already")
        weights = self._weights()
        with torch.no_grad():
            if self.has_average:
                self._away = [w.detach().clone() for w in weights]
                for w, average in zip(weights, self._first):
                    w.copy_(average)
        try:
            yield
        finally:
            with torch.no_grad():
                for w, own in zip(weights, self._away):
                    w.copy_(own)
            self._away = []

    def state_dict(self) -> Dict[str, Any]:
        """The average and the optimizer's own state. Not inside evaluated()."""
        self._require_in_place("state_dict")
        return {"average": self.average, "steps": self._steps, "step": self._step, "first": [t.clone() for t in self._first],
                "iterates": [t.clone() for t in self._iterates], "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Beside the model's own weights, as they were saved with it. Not inside evaluated()."""
        self._require_in_place("load_state_dict")
        where = "[Averaged.load_state_dict]"
        if not isinstance(state, Mapping) or not {"average", "steps", "step", "first", "iterates", "optimizer"} <= set(state):
            raise ValueError(f"{where} this is no state of an Averaged: load what its state_dict() gave")
        if state["average"] != self.average or (self._kind == "tail" and state["steps"] != self._steps):
            raise ValueError(f"{where} the state is that of {state['average']} over {state['steps']} steps, "
                             f"this is {self.average} over {self._steps}")
        if not isinstance(state["step"], int) or state["step"] < 0:
            raise ValueError(f"{where} the state's count of steps is {state['step']!r}")
        weights = self._weights()
        begun = state["step"] > 0 and self._kind != "none"
        for name, wanted in (("first", begun), ("iterates", begun and self._kind == "schedule_free")):
            given = state[name]
            if not isinstance(given, (list, tuple)) or not all(isinstance(t, torch.Tensor) and t.is_floating_point() for t in given):
                raise ValueError(f"{where} '{name}' of the state must be a list of floating-point tensors")
            if wanted and [t.shape for t in given] != [w.shape for w in weights]:
                raise ValueError(f"{where} the averages have other shapes than the parameters")
            if not all(bool(torch.isfinite(t).all()) for t in given):
                raise ValueError(f"{where} the averages have an entry that is not finite")
        self.optimizer.load_state_dict(state["optimizer"])
        self._step = state["step"]
        self._of = weights if state["first"] else []
        self._first = [t.to(_kept(w)).clone() for t, w in zip(state["first"], weights)]
        self._iterates = [t.to(_kept(w)).clone() for t, w in zip(state["iterates"], weights)]
