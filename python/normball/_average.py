"""Averages of the iterates beside any optimizer; the formulas are those of normball/average.h."""
from __future__ import annotations

import contextlib
import math
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch

from . import _core


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

    Buffers of the model, such as the statistics of batch norm, are not averaged.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, average: str, steps: int = 0) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ValueError(f"[Averaged] optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
        self.optimizer = optimizer
        self._kind, self._number, self.average = _core.average(average)
        if self._kind == "tail" and steps < 1:
            raise ValueError(f"[Averaged] {self.average} is the mean over the last part of a run: give its number of steps, "
                             f"got {steps}")
        self._steps, self._step = steps, 0
        self._first: List[torch.Tensor] = []  # the average, or the start
        self._iterates: List[torch.Tensor] = []  # z of schedule_free
        self._exchanged = False

    def _weights(self) -> List[torch.Tensor]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

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

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step. The closure is called before it, where the gradient belongs."""
        if self._exchanged:
            raise RuntimeError("[Averaged.step] the evaluated weights are in place: leave evaluated() first")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        weights = self._weights()
        if self._kind != "none" and not self._first:
            self._first = [w.detach().clone() for w in weights]
            if self._kind == "schedule_free":
                self._iterates = [w.detach().clone() for w in weights]
        if len(weights) != len(self._first) and self._kind != "none":
            raise ValueError(f"[Averaged.step] the average is of {len(self._first)} parameters, the optimizer has "
                             f"{len(weights)}: add parameter groups before the first step")
        before = [w.detach().clone() for w in weights] if self._iterates else []
        drawn: List[torch.Tensor] = []
        if self._kind == "uniform" and _core.replaces_kept(int(self._number), self._step):
            drawn = [w.detach().clone() for w in weights]
        for w, z in zip(weights, self._iterates):
            w.copy_(z)
        try:
            self.optimizer.step()
        except BaseException:
            for w, y in zip(weights, before):
                w.copy_(y)
            raise
        report = getattr(self.optimizer, "report", None)
        if report is not None and getattr(report, "skipped", False):
            for w, y in zip(weights, before):
                w.copy_(y)
            return loss
        self._take_in(weights)
        for kept, w in zip(self._first, drawn):
            kept.copy_(w)
        self._step += 1
        return loss

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

    @torch.no_grad()
    def _exchange(self) -> None:
        if not self.has_average:
            return
        for w, average in zip(self._weights(), self._first):
            iterate = w.detach().clone()
            w.copy_(average)
            average.copy_(iterate)
        self._exchanged = not self._exchanged

    @contextlib.contextmanager
    def evaluated(self) -> Iterator[None]:
        """The evaluated weights in the model, and the others back afterwards, bit by bit."""
        if self._exchanged:
            raise RuntimeError("[Averaged.evaluated] the evaluated weights are in place already")
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def state_dict(self) -> Dict[str, Any]:
        """The average and the optimizer's own state. Not inside evaluated()."""
        if self._exchanged:
            raise RuntimeError("[Averaged.state_dict] the evaluated weights are in place: leave evaluated() first")
        return {"average": self.average, "steps": self._steps, "step": self._step, "first": [t.clone() for t in self._first],
                "iterates": [t.clone() for t in self._iterates], "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Beside the model's own weights, as they were saved with it."""
        if state["average"] != self.average or (self._kind == "tail" and state["steps"] != self._steps):
            raise ValueError(f"[Averaged.load_state_dict] the state is that of {state['average']} over {state['steps']} steps, "
                             f"this is {self.average} over {self._steps}")
        weights = self._weights()
        for name in ("first", "iterates"):
            given = state[name]
            if given and [t.shape for t in given] != [w.shape for w in weights]:
                raise ValueError("[Averaged.load_state_dict] the averages have other shapes than the parameters")
        self.optimizer.load_state_dict(state["optimizer"])
        self._step = state["step"]
        self._first = [t.to(w).clone() for t, w in zip(state["first"], weights)]
        self._iterates = [t.to(w).clone() for t, w in zip(state["iterates"], weights)]
        self._exchanged = False
