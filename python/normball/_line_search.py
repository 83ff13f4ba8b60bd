"""Steps with a line search: the loss at trial weights, and everything back in its place."""
from __future__ import annotations

import struct
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch

from . import _core
from ._ranks import Ranks, RanksError

Closure = Callable[[], Any]


class Found(NamedTuple):
    """A step whose length a search has found; in place of the core's JointStep."""
    pairing: float
    direction_norm: float
    eta: float
    clipped: bool
    stalled: bool
    shares: List[float]
    memory: List[float]
    report: _core.SearchReport
    rho: float
    standstill: str = ""


def check_line_search(where: str, text: Any, method: _core.Method, overwrites: bool) -> Optional[_core.SearchRule]:
    """The search of this text; refuses what does not go with one."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"[{where}] line_search is a name such as 'backtracking', got {text!r}")
    rule = _core.parse_line_search(text)
    method.require_searchable(where)
    if overwrites:
        raise ValueError(f"[{where}] line_search needs the gradients as they are: leave overwrite_gradients out")
    return rule


def plain_number(value: Any) -> float:
    """float(), but an error for texts and truth values, which it takes as well."""
    if isinstance(value, (str, bytes, bytearray, bool)) or str(getattr(value, "dtype", "")).endswith("bool"):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def check_closure(where: str, closure: Any, loss: Any = None) -> None:
    if closure is not None and loss is not None:
        raise ValueError(f"[{where}.step] got a loss and a closure, which returns one: give one of them")
    if closure is not None and not callable(closure):
        raise TypeError(f"[{where}.step] the first argument is a closure, a function that computes the loss, got {closure!r}; a "
                        f"loss is given by its name, step(loss=loss)")


def number(where: str, loss: Any) -> float:
    try:
        return plain_number(loss)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"[{where}.step] the closure must return the loss, one number, got {loss!r}") from None


def begin_search(where: str, groups: Sequence[Mapping[str, Any]], closure: Optional[Closure], loss: Any,
                 ranks: Optional[Ranks]) -> Tuple[Any, Search]:
    """The loss at the weights, whose gradients are there then, and the search whose trials ask the closure."""
    check_closure(where, closure)
    text, parameters = groups[0]["line_search"], [p for group in groups for p in group["params"]]
    if closure is None:
        raise ValueError(f"[{where}.step] line_search='{text}' evaluates the loss at other weights: call step(closure), or "
                         f"step(closure, loss=loss) after backward() with a closure that only evaluates it")
    backward = False
    if loss is None:
        kept = [p.grad for p in parameters]
        _set(parameters, [None] * len(parameters))
        try:
            with torch.enable_grad():
                loss = closure()
                number(where, loss)
                backward = any(p.grad is not None for p in parameters)
                if not backward:
                    _backward(where, loss)
        except BaseException:
            _set(parameters, kept)
            raise

    def evaluate() -> float:
        if not backward:
            return number(where, closure())  # step() runs without gradients
        kept = [p.grad for p in parameters]
        _set(parameters, [None] * len(parameters))
        try:
            with torch.enable_grad():
                return number(where, closure())
        finally:
            _set(parameters, kept)

    return loss, Search(where, text, evaluate, ranks)


def _backward(where: str, loss: Any) -> None:
    if not (isinstance(loss, torch.Tensor) and loss.requires_grad):
        raise ValueError(f"[{where}.step] the closure has no gradient: compute the loss in it, with backward() or without, or give "
                         f"loss= after backward()")
    loss.backward()


def _set(parameters: Sequence[torch.Tensor], gradients: Sequence[Optional[torch.Tensor]]) -> None:
    for p, gradient in zip(parameters, gradients):
        p.grad = gradient


class Search:
    """The line search of a step."""

    def __init__(self, where: str, text: str, evaluate: Callable[[], float], ranks: Optional[Ranks]) -> None:
        self._where = where
        self._rule = _core.parse_line_search(text)
        self._evaluate = evaluate
        self._ranks = ranks

    def find(self, parts: Sequence[Any], ready: Any, joint: _core.JointStep) -> Found:
        """The joint step with the eta that was found. On return, and on an error, the weights are as they were."""
        sign = -1.0 if ready.maximize else 1.0
        moved, slope, factor = [], 0.0, 0.0
        for part, share, gradients, factors in zip(parts, joint.shares, ready.gradients, ready.factors):
            for entry, v, gradient, own in zip(part.entries, part.directions(), gradients, factors):
                if gradient is None:
                    continue
                v = v * share if share != 1 else v
                slope += float((gradient.to(v.dtype) * v).sum(dtype=torch.float64))
                factor = max(factor, own)
                moved.append((entry.parameter, entry.parameter.detach().clone(), v))

        def evaluate(t: float) -> float:
            for parameter, start, v in moved:
                parameter.copy_(torch.sub(start.to(v.dtype), v, alpha=t) if t != 0 else start)
            return sign * self._together()

        gamma = max(ready.lrs) / ready.method.rho
        try:
            report, memory = self._rule.search(
                loss=sign * ready.loss, slope=slope, own=gamma * joint.eta, memory=ready.memory, evaluate=evaluate,
                longest=1 / factor if ready.method.constrained and factor > 0 else float("inf"))
        finally:
            for parameter, start, _ in moved:
                parameter.copy_(start)
        eta = report.step / gamma if report.step > 0 else 0.0
        return Found(joint.pairing, joint.direction_norm, eta, joint.clipped, joint.stalled, joint.shares, memory, report,
                     joint.rho)

    def _together(self) -> float:
        """The loss of a trial, which all ranks must see alike: they decide by it."""
        if self._ranks is None:
            return self._evaluate()
        own, failure = 0.0, None
        try:
            own = self._evaluate()
        except Exception as error:
            failure = error  # the others must know
        heads = self._ranks.gather(struct.pack("d?", own, failure is not None))
        every = [struct.unpack("d?", head)[0] for head in heads]
        self._ranks.raise_first([struct.unpack("d?", head)[1] for head in heads], failure, [False] * len(heads))
        for rank, other in enumerate(every):
            if heads[rank] != heads[0]:
                raise RanksError(f"[{self._where}.step] the loss of a trial in rank {rank} is {other}, in rank 0 {every[0]}: give "
                                 f"all ranks that of their batches together; nothing was changed")
        return own
