"""The joint step of all parts: each finds its directions, s and eta are of all of them together."""
from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, MutableMapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from . import _core, _gate, _options, _shards
from ._core import NonFiniteError
from ._fallback import FallbackPart, compute_dtype
from ._line_search import Found, Search, check_line_search, plain_number
from ._native import Entry, NativePart
from ._report import LayerReport, StepReport
from ._sharded_part import ShardedPart

Part = Union[NativePart, FallbackPart, ShardedPart]
Gradients = Sequence[Sequence[Optional[torch.Tensor]]]  # of each part's entries


class Ready(NamedTuple):
    """What a step needs, after all checks that need no other rank."""
    method: _core.Method
    gradients: Gradients
    k: int
    lrs: List[float]
    factors: List[List[float]]
    loss: Optional[float]  # where the stepsize needs it
    memory: List[float]  # of the stepsize; empty before it has seen anything
    maximize: bool = False


def nonfinite_error(where: str, text: str, name: Optional[str]) -> NonFiniteError:
    error = NonFiniteError(f"[{where}] {text}")
    error.parameter = name  # type: ignore[attr-defined]
    return error


def first_nonfinite(parts: Sequence[Part], gradients: Gradients, state: Mapping[Any, Any],
                    all_of_it: bool) -> Optional[str]:
    """The first parameter whose gradient is not finite, or weights or momentum."""
    for part, own in zip(parts, gradients):
        for entry, gradient in zip(part.entries, own):
            p = entry.parameter
            tensors = [gradient]
            if all_of_it:
                tensors += [_shards.local(each) for each in (p, state.get(p, {}).get("momentum")) if each is not None]
            if gradient is not None and not all(bool(torch.isfinite(t).all()) for t in tensors if t is not None):
                return entry.route.name
    return None


def gradients_of(where: str, parts: Sequence[Part], state: Mapping[Any, Any], maximize: bool) -> Gradients:
    """What the step may read, after the checks that gradients and momenta fit their parameters."""
    def one(entry: Entry) -> Optional[torch.Tensor]:
        gradient = _gate.checked_gradient(where, entry.route.name, entry.parameter)
        _gate.check_state(where, entry.route.name, entry.parameter, state.get(entry.parameter, {}))
        return gradient.neg() if gradient is not None and maximize else gradient

    return [[one(entry) for entry in part.entries] for part in parts]


def check_finite(where: str, parts: Sequence[Part], gradients: Gradients, state: Mapping[Any, Any]) -> None:
    name = first_nonfinite(parts, gradients, state, all_of_it=False)
    if name is not None:
        raise nonfinite_error(where, f"the gradient of '{name}' has an entry that is not finite", name)


def named(parts: Sequence[Part], text: str) -> Optional[str]:
    """The parameter that an error of the core, which may be of another rank, speaks of."""
    return next((entry.route.name for part in parts for entry in part.entries
                 if any(f"'{block.name}'" in text for block in entry.route.blocks)), None)


def loss_for(where: str, method: _core.Method, value: Any, searches: bool = False) -> Optional[float]:
    """The loss at this step, where the stepsize or a search needs it."""
    if not method.needs_loss and not searches:
        return None
    if value is None:
        raise ValueError(f"[{where}.step] the stepsize '{method.rule}' needs the loss at these weights: call step(loss=loss), or "
                         f"step(closure) with a closure that returns it")
    try:
        loss = plain_number(value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"[{where}.step] the loss must be one number, got {value!r}") from None
    if not math.isfinite(loss):
        raise nonfinite_error(f"{where}.step", f"the loss is {loss}", None)
    if not searches:
        method.require_loss(where, loss)
    return loss


def remembering(groups: Optional[Sequence[Mapping[str, Any]]]) -> str:
    """The name of the stepsize, or the line search, that has a memory in these groups."""
    return str(groups[0].get("line_search") or groups[0].get("stepsize") or "").partition("(")[0] if groups else ""


def remember(groups: Sequence[Dict[str, Any]], k: int, memory: Sequence[float]) -> str:
    """Step k was taken, by the stepsize that is returned."""
    for group in groups:
        group.update(step=k + 1, stepsize_memory=list(memory))
    return remembering(groups)


def memory_of(where: str, method: _core.Method, groups: Sequence[Mapping[str, Any]], left_by: str = "") -> List[float]:
    """What the stepsize has seen; nothing where it is empty. `left_by` is the name of that which has."""
    numbers = groups[0]["stepsize_memory"]
    search = check_line_search(where, groups[0]["line_search"], method, False)
    rule, size = (method.rule, method.memory_size) if search is None else (str(search), search.memory_size)
    for index, group in enumerate(groups):
        if group["stepsize_memory"] != numbers:
            raise _options.disagreement(where, "stepsize_memory", groups, index)
    if not isinstance(numbers, (list, tuple)) or len(numbers) not in (0, size):
        raise ValueError(f"[{where}] stepsize_memory, what the stepsize '{rule}' has seen, is a list of {size} "
                         f"numbers, got {numbers!r}; give every group [] to start it afresh")
    if not all(math.isfinite(_options.number(where, "a number of stepsize_memory", each)) for each in numbers):
        raise ValueError(f"[{where}] the numbers of stepsize_memory must be finite, got {numbers!r}")
    if numbers and left_by not in ("", rule.partition("(")[0]):
        raise ValueError(f"[{where}] stepsize_memory is what the stepsize '{left_by}' has seen, not '{rule}': give every group "
                         f"stepsize_memory = [] to start afresh")
    if numbers:
        (method if search is None else search).require_memory(where, numbers)
    return [float(each) for each in numbers]


def take_starts(parts: Sequence[Part], state: MutableMapping[Any, Any], memory: Sequence[float]) -> None:
    """x_0, from which distances are measured: the weights when the stepsize first sees them."""
    for part in parts:
        for entry in part.entries:
            own = state.setdefault(entry.parameter, {})
            if not any(memory) or "start" not in own:
                own["start"] = entry.parameter.detach().to(compute_dtype(entry.parameter), copy=True)


def prepare(where: str, parts: Sequence[Part], ready: Ready, state: MutableMapping[Any, Any],
            search: Optional[Search] = None, last: Optional[StepReport] = None) -> Union[_core.JointStep, Found]:
    """s, eta and every part's share of it, of gradients that were checked. On an error nothing has changed."""
    method, lr = ready.method, max(ready.lrs)
    if method.needs_distance:
        take_starts(parts, state, ready.memory)
    prepared = [part.prepare(own, lr, factors, state) for part, own, factors in zip(parts, ready.gradients, ready.factors)]
    pairings, lengths, slopes, distances = ([found[i] for found in prepared] for i in range(4))
    joint = method.join_parts(pairings, lengths, slopes, distances, step=ready.k, lr=lr, loss=ready.loss,
                              memory=ready.memory if search is None else [],
                              last=0.0 if last is None else last.gamma * last.eta)
    if not math.isfinite(joint.pairing + joint.direction_norm + sum(distances)):
        name = next((row[0] for part in parts for row in part.layers() if not math.isfinite(row[1])), None)
        raise nonfinite_error(where, f"s = {joint.pairing} is not finite: the weights, the momentum or the norm of "
                              f"'{name or '?'}' are not, or they are too large", name)
    found = joint if search is None else search.find(parts, ready, joint)
    try:
        for part, share in zip(parts, found.shares):
            part.check(found.eta * share)
    except ValueError as error:
        raise nonfinite_error(where, f"at s = {joint.pairing:.6g}: {error}", None) from None
    return found


def layer_reports(parts: Sequence[Part], order: Mapping[str, int]) -> Tuple[LayerReport, ...]:
    rows = [row for part in parts for row in part.layers()]
    return tuple(LayerReport(*row) for row in sorted(rows, key=lambda row: order[row[0]]))


def held_momenta(parts: Sequence[Part], gradients: Gradients,
                 state: Mapping[Any, Any]) -> List[Tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """(name, parameter, momentum, gradient) of all that will be stepped and have a momentum."""
    return [(entry.route.name, _shards.local(entry.parameter), _shards.local(state[entry.parameter]["momentum"]), gradient)
            for part, own in zip(parts, gradients) for entry, gradient in zip(part.entries, own)
            if gradient is not None and "momentum" in state.get(entry.parameter, {})]


def check_apart(where: str, parts: Sequence[Part], gradients: Gradients, state: Mapping[Any, Any], known: Any) -> Any:
    """Momenta on memory of their own; looked at anew where one was replaced, and the addresses are not those known."""
    held = held_momenta(parts, gradients, state)
    for name, parameter, momentum, gradient in held:
        if parameter.numel() > 0 and momentum.data_ptr() == gradient.data_ptr():
            raise ValueError(f"[{where}] the momentum of '{name}' shares memory with its gradient; give "
                             f"optimizer.state[p]['momentum'] a .clone()")
    addresses = [(momentum.data_ptr(), parameter.data_ptr()) for _, parameter, momentum, _ in held]
    if len(parts) > 1:  # one alone sees to it itself
        entries = [(entry, gradient) for part, own in zip(parts, gradients)
                   for entry, gradient in zip(part.entries, own) if gradient is not None and gradient.numel() > 0]
        _gate.check_gradients_apart(
            where, [(entry.route.name, gradient) for entry, gradient in entries],
            [("weight", entry.route.name, _shards.local(entry.parameter)) for entry, _ in entries]
            + [("momentum", name, momentum) for name, p, momentum, _ in held if p.numel() > 0])
    if addresses != known:
        _gate.check_apart(where, [(name, p, momentum) for name, p, momentum, _ in held])
    return addresses
