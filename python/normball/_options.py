"""The options of the optimizers: their names, which of them belong to all groups, and their checks."""
from __future__ import annotations

import difflib
import math
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

import torch

from . import _core, _gate
from ._line_search import check_line_search
from ._ranks import Ranks

# One step has one s, so these belong to the whole optimizer. They are in every group, as torch keeps options, and must
# agree; a schedule for alpha sets it in all groups.
SHARED = ("method", "alpha", "rho", "beta", "l0", "l1", "short_step", "stepsize", "line_search", "maximize", "nonfinite",
          "rules", "radii", "solver", "step", "stepsize_memory")
# Of these, what a schedule may change without new routes and buffers.
NUMBERS = ("alpha", "rho", "l0", "l1", "short_step", "stepsize")
COUNTED = ("step", "stepsize_memory")  # by steps, not by the user
OWN = ("lr", "first_lr", "norm", "role", "radius", "split", "batch")
# One for each parameter, where the user or a module gave them.
DESCRIBING = ("param_names", "kinds")
# {another name of a tied weight: its name in param_names}
ALIASES = "aliases"
# Of the optimizer, not in its groups.
EXECUTION = ("threads", "overwrite_gradients", "layer_reports", "backend", "process_group")
# What torch and its schedulers keep in groups.
_TORCH_S = ("params", "name", "initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr")
_NOT_HERE = {
    "weight_decay": "there is none: constrained=True draws the weights into balls of your radii, which bounds them",
    "momentum": "it is alpha here, for the whole optimizer: momentum 0.9 is alpha=0.1",
    "betas": "momentum is alpha here, for the whole optimizer: a beta of 0.9 is alpha=0.1",
    "constrained": "it is part of a method's name: 'scion', 'clipped_scion', 's3cg' and 'cg' are constrained, the others "
                   "are not",
}
# Options of torch's own optimizers: in a group of ours they are a mistake, not a key of the user's.
_OF_OTHERS = ("adjust_lr_fn", "amsgrad", "beta2_decay", "capturable", "centered", "dampening", "decoupled_weight_decay",
              "differentiable", "eps", "etas", "foreach", "fused", "initial_accumulator_value", "lambd", "lr_decay",
              "momentum_decay", "nesterov", "ns_coefficients", "ns_steps", "step_sizes")
ASSIGNED = ("norm", "role", "radius", "split", "batch")
RULED = ASSIGNED + ("lr",)
_METHOD_OPTIONS = ("rho", "beta", "l0", "l1")
_MOST_STEPS = 2**62


def number(where: str, what: str, value: Any) -> float:
    try:
        result = math.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"[{where}] {what} must be a number, got {value!r}") from None
    if math.isnan(result):
        raise ValueError(f"[{where}] {what} must be a number, got {value!r}")
    return result


def boolean(where: str, what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"[{where}] {what} must be True or False, got {value!r}")
    return value


def name(where: str, what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"[{where}] {what} is a name, got {value!r}")
    return value


def make_method(where: str, options: Mapping[str, Any]) -> _core.Method:
    """The method of these shared options, with the core's checks; options that it would ignore are refused too."""
    given = {key: None if options[key] is None else number(where, key, options[key]) for key in _METHOD_OPTIONS}
    given.update({key: name(where, key, options[key]) for key in ("short_step", "stepsize") if options[key] is not None})
    if not isinstance(options["solver"], str):
        raise ValueError(f"[{where}] solver is a name such as 'exact' or 'muon', got {options['solver']!r}; leave it out for the exact one")
    return _core.make_method(where, name(where, "method", options["method"]), alpha=number(where, "alpha", options["alpha"]),
                             solver=options["solver"], **given)


def next_step(where: str, groups: Sequence[Mapping[str, Any]]) -> int:
    """k, which every group has, and after which one more can be counted."""
    k = checked_step(where, groups[0]["step"])
    for index, group in enumerate(groups):
        if group["step"] != k:
            raise disagreement(where, "step", groups, index)
    if k == _MOST_STEPS:
        raise ValueError(f"[{where}] step is 2**62, the largest count: one more could not be loaded again")
    return k


def checked_step(where: str, step: Any) -> int:
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= _MOST_STEPS:
        raise ValueError(f"[{where}] step, the count of steps in the parameter groups, must be an integer from 0 to 2**62, "
                         f"got {step!r}")
    return step


def check_keywords(where: str, unknown: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuses keywords that a function does not have, as Python does, and names the remedy."""
    for key in unknown:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
        remedy = _NOT_HERE.get(key) or (f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}")
        raise TypeError(f"[{where}] unknown option '{key}': {remedy}")


def check_shared(where: str, options: Mapping[str, Any], overwrites: bool = False) -> _core.Method:
    """Checks all shared options; returns their method."""
    method = make_method(where, options)
    checked_step(where, options["step"])
    if options["nonfinite"] not in ("error", "skip"):
        raise ValueError(f"[{where}] nonfinite must be 'error' or 'skip', got {options['nonfinite']!r}")
    boolean(where, "maximize", options["maximize"])
    check_line_search(where, options["line_search"], method, overwrites)
    if options["maximize"] and method.needs_loss:
        raise ValueError(f"[{where}] the stepsize '{method.rule}' minimizes the loss down to f_star; with maximize there is none: "
                         f"minimize the negative loss instead")
    if options["maximize"] and overwrites:
        raise ValueError(f"[{where}] overwrite_gradients has no effect with maximize: the step works on a negative copy of "
                         f"each gradient")
    radii = {} if options["radii"] == "auto" else mapping(where, "radii", options["radii"], "{'hidden': 50} or 'auto'")
    for role, radius in radii.items():
        if not isinstance(role, str):
            raise ValueError(f"[{where}] the key of a radius in radii is a role such as 'hidden' or 'output', got {role!r}")
        if not 0 < number(where, f"the radius of the role '{role}'", radius) < math.inf:
            raise ValueError(f"[{where}] the radius of the role '{role}' must be positive and finite, got {radius!r}")
    for pattern, then in mapping(where, "rules", options["rules"], "{'*.qkv.weight': {'split': 3}}").items():
        if not isinstance(pattern, str):
            raise ValueError(f"[{where}] the key of a rule is a pattern of names such as '*.bias', got {pattern!r}")
        mapping(where, f"the rule '{pattern}'", then, "{'split': 3}")
        unknown = [key for key in then if key not in RULED]
        if unknown:
            raise ValueError(f"[{where}] the rule '{pattern}' has an unknown key '{unknown[0]}'; "
                             f"known: {', '.join(RULED)}")
    return method


def mapping(where: str, what: str, value: Any, example: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise ValueError(f"[{where}] {what} must be a dict such as {example}, got {type(value).__name__}")


def check_execution(where: str, threads: Any, backend: Any, **flags: Any) -> None:
    if isinstance(threads, bool) or not isinstance(threads, int) or not 0 <= threads <= _core.MOST_THREADS:
        raise ValueError(f"[{where}] threads must be 0 or the number of threads, at most {_core.MOST_THREADS}, "
                         f"got {threads!r}")
    if backend not in ("auto", "torch"):
        raise ValueError(f"[{where}] backend must be 'auto' or 'torch', got {backend!r}")
    for flag, value in flags.items():
        boolean(where, flag, value)
    if backend == "torch" and flags.get("overwrite_gradients"):
        raise ValueError(f"[{where}] overwrite_gradients has no effect with backend='torch': torch operations leave gradients "
                         f"alone")


def check_lr(where: str, method: _core.Method, group: Mapping[str, Any], index: int) -> float:
    lr = number(where, "lr", group["lr"])
    try:
        method.check_lr(lr)
    except ValueError as error:
        raise ValueError(f"[{where}] group {index}: {error}") from None
    first = group.get("first_lr")
    if first is not None and not 0 <= number(where, "first_lr", first) < math.inf:
        raise ValueError(f"[{where}] group {index}: first_lr, the lr that a group started with, must be finite and not "
                         f"negative, got {first!r}")
    return lr


def _whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _split(where: str, what: str, value: Any) -> str:
    """3, [768, 256, 256], "rows(3)" or "columns(12)" as the core reads it."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, (list, tuple)) else [value]
    if not parts or not all(_whole(part) for part in parts):
        raise ValueError(f"[{where}] {what} is a number of matrices, a list of their rows or a text such as 'columns(12)', "
                         f"got {value!r}")
    return f"rows({', '.join(str(int(part)) for part in parts)})"


def _batch(where: str, what: str, value: Any) -> int:
    if _whole(value) and abs(int(value)) <= 2**31 - 1:
        return int(value)
    raise ValueError(f"[{where}] {what} is an integer, the number of leading dimensions, got {value!r}")


def _norm(where: str, what: str, value: Any) -> Any:
    if isinstance(value, str):
        return value
    if not callable(getattr(value, "lmo", None)):
        raise ValueError(f"[{where}] {what} is a name such as 'spectral' or an object with lmo(d), got {value!r}")
    if not isinstance(value, type):
        return value
    try:
        return value()
    except TypeError as error:
        raise ValueError(f"[{where}] {what} is the class {value.__name__}, which cannot be created without arguments ({error}); "
                         f"pass an object of this class") from None


_READERS = {"norm": _norm, "role": name, "radius": number, "split": _split, "batch": _batch, "lr": number}


def assignment(where: str, whose: str, given: Mapping[str, Any], keys: Sequence[str] = ASSIGNED,
               solver: str = "exact") -> _core.Assignment:
    """What a group or, with the keys RULED, a rule says about its parameters; the solver of its norm, unless that names one."""
    said = {key: given[key] for key in keys if given.get(key) is not None}
    return _core.Assignment(**{key: _READERS[key](where, f"the {key} of {whose}", value) for key, value in said.items()},
                            solver=solver)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def as_groups(where: str, params: Any) -> Any:
    """Groups from groups, tensors or (name, tensor) pairs; anything that torch itself refuses is passed through."""
    if isinstance(params, torch.Tensor):
        return params
    if isinstance(params, (str, Mapping)) or not isinstance(params, Iterable):
        remedy = "; of a dict of tensors, pass its items()" if isinstance(params, Mapping) else ""
        raise TypeError(f"[{where}] params is a module, model.named_parameters(), tensors or a list of groups, got "
                        f"{type(params).__name__}{remedy}")
    groups = list(params)
    return [{"params": groups}] if groups and _is_pair(groups[0]) else groups


def normalized_group(where: str, group: Mapping[str, Any], index: int, ranks: Optional[Ranks] = None) -> Dict[str, Any]:
    """A copy of the group with its parameters as a list, and their names under torch's key."""
    if not isinstance(group, Mapping):
        raise ValueError(f"[{where}] a parameter group is a dict with the key 'params', got {type(group).__name__}")
    if "params" not in group:
        raise ValueError(f"[{where}] group {index} lacks the key 'params'; it has {sorted(map(str, group)) or 'none'}")
    result = dict(group)
    _check_keys(where, result)
    params = result["params"]
    if isinstance(params, set):
        return result  # torch has an error for it
    if isinstance(params, torch.nn.Module):
        raise ValueError(f"[{where}] 'params' of group {index} is a module; pass it as the first argument, or its groups, "
                         f"normball.torch.named_groups(module)")
    if not isinstance(params, (torch.Tensor, Iterable)) or isinstance(params, (str, Mapping)):
        raise ValueError(f"[{where}] 'params' of group {index} are tensors or (name, tensor) pairs, got "
                         f"{type(params).__name__}")
    params = [params] if isinstance(params, torch.Tensor) else list(params)
    names, older = result.pop("param_names", None), result.pop("names", None)
    names = names or older
    if params and all(_is_pair(value) for value in params):
        names = [own_name for own_name, _ in params]
        params = [tensor for _, tensor in params]
    result["params"] = params
    if result.get("role") is not None:
        result.setdefault("norm", "auto")  # the role gives the norm, not the constructor's default
    if names:
        result["param_names"] = list(names) if isinstance(names, (list, tuple)) else names
    if not result.get("kinds"):
        result.pop("kinds", None)
    for own_name, tensor in zip(names_of(where, [result], index)[0], params):
        _gate.check_parameter(where, own_name, tensor, ranks)
    return result


def default_names(group: Mapping[str, Any], index: int) -> List[str]:
    return [f"{index}.{i}" for i in range(len(group["params"]))]


def name_all(groups: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Names all groups if one has names, as torch requires; returns those that were named now."""
    unnamed = [(index, group) for index, group in enumerate(groups) if "param_names" not in group]
    if len(unnamed) == len(groups):
        return []
    for index, group in unnamed:
        group["param_names"] = default_names(group, index)
    return [group for _, group in unnamed]


def names_of(where: str, groups: Sequence[Mapping[str, Any]], first: int = 0) -> List[List[str]]:
    """A name for each parameter. If groups of several models repeat names, those of the later group get its index."""
    taken: Set[str] = set()
    result = []
    for index, group in enumerate(groups, first):
        for key in DESCRIBING:
            if key in group and not (isinstance(group[key], (list, tuple)) and all(isinstance(each, str) for each in group[key])):
                raise ValueError(f"[{where}] the {key} of group {index} must be a list of names, got {group[key]!r}")
            if key in group and len(group[key]) != len(group["params"]):
                raise ValueError(f"[{where}] group {index} has {len(group['params'])} params but {len(group[key])} {key}; "
                                 f"add parameters with add_param_group, and remove a parameter with its entry in {key}")
        aliases = group.get(ALIASES, {})
        if not (isinstance(aliases, Mapping) and all(isinstance(each, str) for pair in aliases.items() for each in pair)):
            raise ValueError(f"[{where}] the aliases of group {index} must be a dict of names such as {{'lm_head.weight': "
                             f"'wte.weight'}}, got {aliases!r}")
        names = list(group.get("param_names") or default_names(group, index))
        for alias, of in aliases.items():
            if of not in names:
                raise ValueError(f"[{where}] group {index} calls '{alias}' an alias of '{of}', which it does not have: name a "
                                 f"parameter of the group, or take the alias out of group['aliases']")
        if not taken.isdisjoint(names):
            names = [f"group{index}.{each}" for each in names]
        taken.update(names)
        result.append(names)
    return result


def described(groups: Sequence[Mapping[str, Any]]) -> Dict[int, Tuple[Any, ...]]:
    """What the groups specify for each parameter, in their order."""
    return {id(p): tuple(group[key][i] for key in DESCRIBING if key in group)
            for group in groups for i, p in enumerate(group["params"])}


def check_order(where: str, before: Mapping[int, Any], now: Mapping[int, Any]) -> None:
    """Refuses a changed list of parameters whose names or kinds did not change with it."""
    if list(before) == list(now):
        return
    for key, said in now.items():
        if key in before and before[key] != said:
            raise ValueError(f"[{where}] the parameter that was {before[key]} would now be {said}: the list of a group's "
                             f"params was changed, but not its param_names and kinds")


_KNOWN = SHARED + OWN + DESCRIBING + (ALIASES, "names")


def _check_keys(where: str, group: Mapping[str, Any]) -> None:
    for key, value in group.items():
        if key in _KNOWN + _TORCH_S or (key == "differentiable" and not value):
            continue
        near = difflib.get_close_matches(str(key), _KNOWN, n=1, cutoff=0.75)
        remedy = _NOT_HERE.get(key) or (f"did you mean '{near[0]}'?" if near else f"known: {', '.join(_KNOWN)}; a key of "
                                        f"your own may be put into optimizer.param_groups afterwards")
        raise ValueError(f"[{where}] unknown group key '{key}': {remedy}")


def frozen(value: Any) -> Any:
    """A copy of the value for later comparison, since lists, dicts and tensors may be changed in place."""
    if isinstance(value, torch.Tensor):
        return frozen(value.tolist())
    if isinstance(value, Mapping):
        return tuple((key, frozen(each)) for key, each in value.items())
    return tuple(frozen(each) for each in value) if isinstance(value, (list, tuple)) else value


def check_complete(where: str, groups: Sequence[Mapping[str, Any]]) -> None:
    if not groups:
        raise ValueError(f"[{where}] has no parameter groups left")
    for index, group in enumerate(groups):
        for key in SHARED + OWN:
            if key not in group:
                raise ValueError(f"[{where}] group {index} has lost its '{key}'; groups are added with add_param_group")


def check_groups(where: str, groups: Sequence[Mapping[str, Any]], overwrites: bool = False) -> _core.Method:
    """The method of all groups, after the checks of what they share."""
    check_agreement(where, groups)
    return check_shared(where, groups[0], overwrites)


def check_keys_now(where: str, groups: Sequence[Mapping[str, Any]]) -> None:
    """Refuses keys that came into the groups later and that no step would heed, but for those of nobody: the user's own."""
    for index, group in enumerate(groups):
        for key, value in group.items():
            if key in _KNOWN or key in _TORCH_S or (key in _OF_OTHERS and not value):
                continue
            near = difflib.get_close_matches(str(key), _KNOWN, n=1, cutoff=0.8)
            remedy = f"did you mean '{near[0]}'?" if near else ""
            if key in EXECUTION:
                remedy = "it is the optimizer's: give it to the constructor"
            elif key in _NOT_HERE:
                remedy = _NOT_HERE[key]
            elif key in _OF_OTHERS:
                remedy = "it is an option of other optimizers"
            if remedy:
                raise ValueError(f"[{where}] '{key}' in group {index} has no effect: {remedy}")


def check_agreement(where: str, groups: Sequence[Mapping[str, Any]]) -> None:
    first = groups[0]
    for index, group in enumerate(groups):
        for key in SHARED:
            if group[key] != first[key]:
                raise disagreement(where, key, groups, index)


def disagreement(where: str, key: str, groups: Sequence[Mapping[str, Any]], index: int) -> ValueError:
    return ValueError(f"[{where}] {key} belongs to the whole optimizer, since one step has one s; group {index} has "
                      f"{groups[index][key]!r}, group 0 has {groups[0][key]!r}. Groups may have their own lr, norm, role, "
                      f"radius, split and batch")


def check_not_overridden(where: str, method: _core.Method, group: Mapping[str, Any], index: int) -> None:
    """Refuses a norm or radius that the method determines itself, as gd and clipped_sign do."""
    taken: List[Tuple[str, str]] = []
    if method.norm is not None:
        taken += [("norm", key) for key in ("norm", "role") if group.get(key) not in (None, "auto")]
    if method.radius is not None and group.get("radius") is not None:
        taken.append(("radius", "radius"))
    for what, key in taken:
        raise ValueError(f"[{where}] the method '{method.name}' sets every {what} itself; group {index} must not give "
                         f"{key}={group[key]!r}")
