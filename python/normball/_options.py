"""The options of the optimizers: which there are, which belong to all groups, and their checks."""
from __future__ import annotations

import difflib
import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

from . import _core

# One step has one s, so these belong to the whole optimizer. They are in every group, as torch keeps options, and must
# agree; a schedule for alpha sets it in all groups.
SHARED = ("method", "alpha", "rho", "beta", "l0", "l1", "short_step", "maximize", "nonfinite", "rules", "radii",
          "solver", "step")
# Of these, what a schedule may change without new routes and buffers.
NUMBERS = ("alpha", "rho", "l0", "l1", "short_step")
OWN = ("lr", "norm", "role", "radius", "split", "batch", "names", "kinds")
ASSIGNED = ("norm", "role", "radius", "split", "batch")
RULED = ASSIGNED + ("lr",)
_METHOD_OPTIONS = ("rho", "beta", "l0", "l1")


def number(where: str, what: str, value: Any) -> float:
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"[{where}] {what} must be a number, got {value!r}") from None
    if math.isnan(result):
        raise ValueError(f"[{where}] {what} must be a number, got nan")
    return result


def make_method(where: str, options: Mapping[str, Any]) -> _core.Method:
    """The method of these shared options, with the core's checks."""
    given = {key: None if options[key] is None else number(where, key, options[key]) for key in _METHOD_OPTIONS}
    alpha = number(where, "alpha", options["alpha"])
    return _core.make_method(options["method"], alpha=alpha, short_step=options["short_step"], **given)


def check_all_used(where: str, options: Mapping[str, Any], method: _core.Method) -> None:
    """Refuses what the method would ignore: an option that, changed, changes nothing."""
    def describe(m: _core.Method) -> Tuple[Any, ...]:
        return m.rule, m.alpha, m.radius

    for key in ("alpha",) + _METHOD_OPTIONS:
        value = options[key]
        if value is None or (key == "alpha" and value == 1):
            continue
        changed = make_method(where, {**options, key: value / 2 if value else 1.0})
        if describe(changed) == describe(method):
            raise ValueError(f"[{where}] the method '{method.name}' has no {key}, got {key}={value}")
    if options["short_step"] != "plain" and method.name not in ("clipped_scion", "s3cg"):
        raise ValueError(f"[{where}] short_step='{options['short_step']}' needs the constrained method; "
                         f"'{method.name}' clips s itself: leave short_step at 'plain'")


def check_shared(where: str, options: Mapping[str, Any]) -> _core.Method:
    """All of the shared options; the method they make."""
    method = make_method(where, options)
    check_all_used(where, options, method)
    if options["nonfinite"] not in ("error", "skip"):
        raise ValueError(f"[{where}] nonfinite must be 'error' or 'skip', got {options['nonfinite']!r}")
    if not isinstance(options["maximize"], bool):
        raise ValueError(f"[{where}] maximize must be True or False, got {options['maximize']!r}")
    _core.check_solver(options["solver"])
    for role, radius in options["radii"].items():
        number(where, f"the radius of the role '{role}'", radius)
    for pattern, then in options["rules"].items():
        unknown = [key for key in then if key not in RULED]
        if unknown:
            raise ValueError(f"[{where}] the rule '{pattern}' has an unknown key '{unknown[0]}'; "
                             f"known: {', '.join(RULED)}")
    return method


def check_lr(where: str, method: _core.Method, group: Mapping[str, Any], index: int) -> float:
    lr = number(where, "lr", group["lr"])
    try:
        method.check_lr(lr)
    except ValueError as error:
        raise ValueError(f"[{where}] group {index}: {error}") from None
    return lr


def split_text(value: Any) -> Optional[str]:
    """3, [768, 256, 256], "rows(3)" or "columns(12)" as the core reads it."""
    if value is None or isinstance(value, str):
        return value
    parts = value if isinstance(value, (list, tuple)) else [value]
    return f"rows({', '.join(str(part) for part in parts)})"


def assignment(given: Mapping[str, Any], keys: Sequence[str] = ASSIGNED) -> _core.Assignment:
    """What a group or, with the keys RULED, a rule says about its parameters."""
    said = {key: given[key] for key in keys if given.get(key) is not None}
    try:
        return _core.Assignment(**{**said, "split": split_text(said.get("split"))})
    except TypeError:
        raise ValueError(f"[normball.torch] norm and role are names, radius is a number, split a number, a list or a "
                         f"text, and batch an integer; got {said}") from None


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def as_groups(params: Any) -> Any:
    """Groups from groups, tensors or (name, tensor) pairs; what torch itself refuses passes through."""
    if isinstance(params, torch.Tensor):
        return params
    groups = list(params)
    return [{"params": groups}] if groups and _is_pair(groups[0]) else groups


def normalized_group(where: str, group: Mapping[str, Any], index: int) -> Dict[str, Any]:
    """A copy of the group with its parameters as a list and a name and a kind for each."""
    if not isinstance(group, Mapping) or "params" not in group:
        raise ValueError(f"[{where}] a parameter group is a dict with the key 'params', got {type(group).__name__}")
    result = dict(group)
    _check_keys(where, result)
    params = result["params"]
    if isinstance(params, set):
        return result  # torch has an error for it
    params = [params] if isinstance(params, torch.Tensor) else list(params)
    if params and all(_is_pair(value) for value in params):
        result["names"] = [name for name, _ in params]
        params = [tensor for _, tensor in params]
    result["params"] = params
    for key, default in (("names", [f"{index}.{i}" for i in range(len(params))]), ("kinds", ["unknown"] * len(params))):
        values = list(result.get(key) or default)
        if len(values) != len(params):
            raise ValueError(f"[{where}] group {index} has {len(params)} params but {len(values)} {key}")
        result[key] = values
    for name, tensor in zip(result["names"], params):
        if isinstance(tensor, torch.Tensor) and not tensor.is_floating_point():
            raise ValueError(f"[{where}] '{name}' is {tensor.dtype}; parameters must be real floating-point tensors")
    return result


def _check_keys(where: str, group: Mapping[str, Any]) -> None:
    """Other keys are the user's or a scheduler's, unless they look like a slip of the pen."""
    known = ("params", "name") + SHARED + OWN
    for key in group:
        near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.75)
        if key not in known and near:
            raise ValueError(f"[{where}] unknown group key '{key}'; did you mean '{near[0]}'?")


def check_agreement(where: str, groups: Sequence[Mapping[str, Any]]) -> None:
    first = groups[0]
    for index, group in enumerate(groups):
        for key in SHARED:
            if group[key] != first[key]:
                raise ValueError(f"[{where}] {key} belongs to the whole optimizer, since one step has one s; group "
                                 f"{index} has {group[key]!r}, group 0 has {first[key]!r}. Groups may have their own "
                                 f"lr, norm, role, radius, split and batch")


def check_not_overridden(where: str, method: _core.Method, group: Mapping[str, Any], index: int) -> None:
    """Some methods are a choice of norm: gd, clipped_sign, ..."""
    taken: List[str] = []
    if method.norm is not None:
        taken += [key for key in ("norm", "role") if group.get(key) not in (None, "auto")]
    if method.radius is not None:
        taken += [key for key in ("radius",) if group.get(key) is not None]
    if taken:
        raise ValueError(f"[{where}] the method '{method.name}' sets every norm and radius itself; group {index} must "
                         f"not give {taken[0]}={group[taken[0]]!r}")
