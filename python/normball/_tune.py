"""Which lr and rho: a search by short runs of a user's own model and loss. What is tried next is normball/tuning.h's."""
from __future__ import annotations

import functools
import inspect
import math
import random
import sys
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Optional, Tuple

import torch
from torch import nn

from . import _core
from ._core import NonFiniteError
from ._norm_ball import NormBall

Loss = Callable[[int], torch.Tensor]
_WHERE = "tune"
_LEAST_STEPS = 4


@dataclass(frozen=True)
class TunedPoint:
    """A pair (lr, rho) that was tried."""
    lr: float
    rho: Optional[float]
    stage: str  # in which it was tried first: "lr", "rho", "lr again"
    losses: Tuple[float, ...]  # the mean over the last quarter of the steps, of each repeat; NaN where it diverged
    note: str  # what its rho is: "the median of s"

    @property
    def loss(self) -> float:
        """The mean over the repeats."""
        return sum(self.losses) / len(self.losses)


@dataclass(frozen=True)
class Tuning:
    """What tune() has found; print it."""
    lr: float
    rho: Optional[float]  # None where it was not tuned
    loss: float
    curve: Tuple[TunedPoint, ...]  # in the order in which they were run
    remarks: Tuple[str, ...]  # what to know before believing it
    runs: int
    steps: int  # that were taken in all
    steps_of_a_run: int

    def __str__(self) -> str:
        has_rho = self.rho is not None
        rows = [["rho"] * has_rho + ["lr", "loss", "mean of repeats", ""]]
        for point in sorted(self.curve, key=lambda point: (point.rho or 0.0, point.lr)):
            best = (point.lr, point.rho) == (self.lr, self.rho)
            loss, mean = (f"{each:.4g}" if math.isfinite(each) else "diverged" for each in (point.losses[0], point.loss))
            note = "; ".join(filter(None, ["best" if best else "", point.note and f"rho: {point.note}"]))
            rows.append(([f"{point.rho:.3g}"] if has_rho else []) + [f"{point.lr:.3g}", loss, mean if len(point.losses) > 1 else "", note])
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join([cell.rjust(width) for cell, width in zip(row[:-1], widths)] + [row[-1]]).rstrip() for row in rows]
        lines += [f"- {remark}" for remark in self.remarks]
        lines.append(f"- spent: {self.runs} runs of at most {self.steps_of_a_run} steps, {self.steps} steps in all; the best "
                     f"lr for longer runs may be smaller")
        lines.append(f"lr={self.lr:.3g}" + (f", rho={self.rho:.3g}" if has_rho else ""))
        return "\n".join(lines)


class _State:
    """Weights, buffers, gradients, modes and random numbers, to be as they were."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._tensors = [(tensor, tensor.detach().clone()) for tensor in (*model.parameters(), *model.buffers())]
        self._gradients = [(p, None if p.grad is None else (p.grad, p.grad.clone())) for p in model.parameters()]
        self._modes = [(module, module.training) for module in model.modules()]
        self._torch, self._python = torch.get_rng_state(), random.getstate()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        numpy = sys.modules.get("numpy")
        self._numpy = numpy.random.get_state() if numpy else None

    def restore(self, repeat: int = 0) -> None:
        """As it was, but for the random numbers of a repeat, which are its own."""
        now = [*self._model.parameters(), *self._model.buffers()]
        if [id(tensor) for tensor in now] != [id(tensor) for tensor, _ in self._tensors]:
            raise ValueError(f"[{_WHERE}] the loss or the optimizer has replaced a parameter or buffer of the model by another "
                             f"tensor: change it in place, or tune() cannot put it back")
        with torch.no_grad():
            for tensor, before in self._tensors:
                tensor.copy_(before)
        for module, mode in self._modes:
            module.training = mode
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        if repeat > 0:
            torch.manual_seed(repeat)
            random.seed(repeat)
            if self._numpy is not None:
                sys.modules["numpy"].random.seed(repeat)

    def restore_gradients(self) -> None:
        for p, saved in self._gradients:
            if saved is None:
                p.grad = None
            else:
                p.grad, value = saved
                with torch.no_grad():
                    p.grad.copy_(value)


def _value(value: Any) -> float:
    """Of a loss that can be trained on."""
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        what = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise ValueError(f"[{_WHERE}] loss(step) must return a tensor with one number, got {what}")
    if not value.requires_grad:
        raise ValueError(f"[{_WHERE}] loss(step) returned a tensor without a graph: it does not depend on the weights, or was "
                         f"computed under torch.no_grad() or detached")
    return float(value.detach())


def _check_loss(model: nn.Module, loss: Loss, state: _State) -> None:
    """Evaluates it twice at the start."""
    if not callable(loss):
        raise ValueError(f"[{_WHERE}] loss must be a function of the step's number, got {type(loss).__name__}")
    try:
        inspect.signature(loss).bind(0)
    except TypeError:
        raise ValueError(f"[{_WHERE}] loss must take the number of the step, loss(step), by which it chooses its batch: every "
                         f"run must see the same ones") from None
    except ValueError:
        pass  # a builtin without a signature
    parameters = list(model.parameters())
    versions = [p._version for p in parameters]
    values = []
    for _ in range(2):
        state.restore()
        versions = [p._version for p in parameters]
        for p in parameters:
            p.grad = None
        with torch.enable_grad():
            result = loss(0)
        values.append(_value(result))
        if [p._version for p in parameters] != versions:
            raise ValueError(f"[{_WHERE}] loss(step) changes the weights; steps are the optimizer's")
        result.backward()
    if not any(p.grad is not None for p in parameters):
        raise ValueError(f"[{_WHERE}] loss(0) gives no parameter of the model a gradient: is it the loss of another model?")
    if not math.isfinite(values[0]):
        raise ValueError(f"[{_WHERE}] loss(0) is {values[0]} before any step: no stepsize can help that")
    if abs(values[0] - values[1]) > 1e-5 * max(map(abs, values)):
        raise ValueError(f"[{_WHERE}] loss(0) was {values[0]:.9g} and then {values[1]:.9g} at the same weights and random "
                         f"numbers: it must depend on the step alone. Choose the batch by step, not by next() of an iterator")


def _keywords(optimizer: Any, rho: Optional[float], tune_rho: Optional[bool]) -> bool:
    """Whether to tune rho, after a look at what the function takes."""
    if isinstance(optimizer, torch.optim.Optimizer) or not callable(optimizer):
        raise ValueError(f"[{_WHERE}] optimizer must be a function that makes one, since each run needs its own, such as "
                         f"functools.partial(ClippedScion, model, alpha=0.1) or lambda lr: Scion(model, lr=lr, alpha=0.1); got "
                         f"{type(optimizer).__name__}")
    bound = [*optimizer.args, *optimizer.keywords.values()] if isinstance(optimizer, functools.partial) else []
    if any(isinstance(each, Iterator) for each in bound):
        raise ValueError(f"[{_WHERE}] the partial function holds an iterator such as model.parameters(), which is used up by the "
                         f"first run: give it list(model.parameters()) or the module")
    try:
        known = inspect.signature(optimizer).parameters
    except ValueError:
        return bool(tune_rho) or rho is not None
    takes_all = any(each.kind is each.VAR_KEYWORD for each in known.values())

    def takes(name: str) -> bool:
        return takes_all or (name in known and known[name].kind is not known[name].POSITIONAL_ONLY)

    wanted = tune_rho if tune_rho is not None else rho is not None or (
        "rho" in known and known["rho"].default is inspect.Parameter.empty)
    for name in ["lr", "rho"] if wanted else ["lr"]:
        if not takes(name):
            raise ValueError(f"[{_WHERE}] optimizer must take {name} by its name, {name}=...; it takes {', '.join(known) or 'nothing'}")
    return wanted


class _Runs:
    def __init__(self, model: nn.Module, loss: Loss, optimizer: Callable[..., Any], steps: int, state: _State) -> None:
        self._model, self._loss, self._optimizer, self._steps, self._state = model, loss, optimizer, steps, state
        self.runs, self.taken = 0, 0

    def make(self, lr: float, rho: Optional[float]) -> Any:
        """A new optimizer, of this model's parameters."""
        made = self._optimizer(lr=lr) if rho is None else self._optimizer(lr=lr, rho=rho)
        inner = getattr(made, "optimizer", made)  # of Averaged
        if not isinstance(inner, torch.optim.Optimizer):
            raise ValueError(f"[{_WHERE}] optimizer(lr=...) must return an optimizer, got {type(made).__name__}")
        own = {id(p) for p in self._model.parameters()}
        if any(id(p) not in own for group in inner.param_groups for p in group["params"]):
            raise ValueError(f"[{_WHERE}] the optimizer steps a tensor that is no parameter of the model, so that tune() could not "
                             f"put it back: pass a module that holds all of them")
        return made

    def highest_lr(self, lr: float, rho: Optional[float]) -> float:
        """1 for constrained methods, whose steps must not leave the ball."""
        made = self.make(lr, rho)
        inner = getattr(made, "optimizer", made)
        return 1.0 if isinstance(inner, NormBall) and inner._refresh().constrained else math.inf

    def run(self, lr: float, rho: Optional[float], repeat: int) -> Tuple[float, float, List[float]]:
        """The mean loss over the last quarter (NaN where it diverged), the loss at the start, s of every step."""
        self._state.restore(repeat)
        optimizer = self.make(lr, rho)
        parameters = list(self._model.parameters())
        losses: List[float] = []
        pairings: List[float] = []
        self.runs += 1

        def closure(step: int) -> torch.Tensor:
            for p in parameters:
                p.grad = None
            value = self._loss(step)
            number = _value(value)
            if len(losses) == k:  # some optimizers ask more than once in a step
                losses.append(number)
            value.backward()
            return value

        for k in range(self._steps):
            try:
                optimizer.step(lambda: closure(repeat * self._steps + k))
            except NonFiniteError:
                return math.nan, losses[0], pairings
            self.taken += 1
            if _core.is_diverging(losses[:1] + losses[1:][-10:]):
                return math.nan, losses[0], pairings
            report = getattr(optimizer, "report", None)
            if report is not None:
                pairings.append(report.s)
        tail = losses[(3 * len(losses)) // 4:]
        return sum(tail) / len(tail), losses[0], pairings


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"[{_WHERE}] {name} must be a whole number from {least}, got {value!r}")
    return value


def tune(model: nn.Module, loss: Loss, optimizer: Callable[..., Any], *, lr: float = 0.01, rho: Optional[float] = None,
         steps: int = 100, repeats: int = 3, tune_rho: Optional[bool] = None) -> Tuning:
    """Searches lr, then rho, by short runs from the weights as they are, and puts everything back: weights, buffers,
    gradients, modes, random numbers.

    Args:
        model: all that the runs change must be in it.
        loss: ``loss(step)``, the training loss of step number ``step``, from 0, a function of the weights: the batch is
            chosen by the number, so that every run sees the same ones.
        optimizer: makes a new one: ``optimizer(lr=...)`` or ``optimizer(lr=..., rho=...)``. Any of torch.optim will do.
        lr, rho: where the search begins; without rho where every step is clipped.
        steps: of each run; at most 12 runs are made for lr, 9 for rho and 4 for each further repeat.
        repeats: how often the best and its neighbours are run, each time on the next ``steps`` steps.
        tune_rho: None: whether ``optimizer`` takes a ``rho`` and has no default for it.

    Runs are compared by their mean loss over the last quarter. Nothing is known of longer ones.

    >>> result = tune(model, lambda step: loss_of(batches[step % len(batches)]), partial(ClippedScion, model, alpha=0.1))
    >>> optimizer = ClippedScion(model, lr=result.lr, rho=result.rho, alpha=0.1)
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"[{_WHERE}] model must be a torch.nn.Module, got {type(model).__name__}")
    _whole("steps", steps, _LEAST_STEPS)
    _whole("repeats", repeats, 1)
    for name, value in (("lr", lr), ("rho", rho)):
        if value is not None and not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
            raise ValueError(f"[{_WHERE}] {name} must be a positive number, got {value!r}")
    with_rho = _keywords(optimizer, rho, tune_rho)
    state = _State(model)
    runs = _Runs(model, loss, optimizer, steps, state)
    try:
        _check_loss(model, loss, state)
        highest = runs.highest_lr(min(lr, 1.0), (rho or 1.0) if with_rho else None)
        best, score, tried, remarks = _core.tune(float(lr), None if rho is None else float(rho), with_rho, 0.0, highest, repeats,
                                                 runs.run)
    finally:
        state.restore()
        state.restore_gradients()
    curve = tuple(TunedPoint(*point[:3], tuple(point[3]), point[4]) for point in tried)
    return Tuning(best[0], best[1], score, curve, tuple(remarks), runs.runs, runs.taken, steps)
