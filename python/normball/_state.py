"""State dictionaries: checks before anything is loaded, and momentum with all its bits.

torch casts loaded state to the parameter's type, and newer versions share its memory; the momentum of half-precision
parameters is float32. So torch sees it wrapped, and __setstate__ unwraps a copy.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence

import torch

from . import _core, _gate, _joint, _options, _shards
from ._fallback import compute_dtype


def _about_rho(group: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    stepsizes = [each for each in (group["stepsize"], own["stepsize"]) if each is not None]
    if not any(each.startswith("auto_clipped") for each in stepsizes):
        return ""
    return " (rho='auto' is the method 'unconstrained_scion' with stepsize='auto_clipped' and rho=None)"


class _Wrapped:
    def __init__(self, value: Any) -> None:
        self.value = value


def upgrade(groups: Sequence[Dict[str, Any]], first_lrs: Sequence[float] = ()) -> None:
    """Options as they are now in groups from before: every method had a short_step, and s3cg's 'plain' was 'norm'."""
    for group in groups:
        method = group.get("method")
        if group.get("short_step") == "plain" and method in _core.method_names() and "plain" not in _core.short_steps(method):
            group["short_step"] = None
        group.setdefault("stepsize", None)  # since 0.5
        group.setdefault("line_search", None)
        group.setdefault("stepsize_memory", [])
    for group, first in zip(groups, first_lrs):
        group.setdefault("first_lr", first)


def prepared(where: str, own_groups: List[Dict[str, Any]], state_dict: Mapping[str, Any]) -> Dict[str, Any]:
    """What torch may load: complete, checked, with momentum and bases wrapped."""
    if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
        raise ValueError(f"[{where}] a state dict of an optimizer has 'state' and 'param_groups'; this is not one: "
                         f"load what optimizer.state_dict() gave")
    if not isinstance(state_dict["param_groups"], (list, tuple)) or not isinstance(state_dict["state"], Mapping):
        raise ValueError(f"[{where}] a state dict has a list of 'param_groups' and a dict 'state', got "
                         f"{type(state_dict['param_groups']).__name__} and {type(state_dict['state']).__name__}")
    for index, group in enumerate(state_dict["param_groups"]):
        if not isinstance(group, Mapping) or not isinstance(group.get("params"), (list, tuple)):
            raise ValueError(f"[{where}] the state dict's group {index} must be a dict with the list 'params'")
    groups = [dict(group) for group in state_dict["param_groups"]]
    for index, group in enumerate(groups):
        if "method" not in group:
            raise ValueError(f"[{where}] the state dict's group {index} has no 'method': it belongs to another optimizer")
        if "names" in group:  # torch calls it param_names
            group.setdefault("param_names", group.pop("names"))
    for group, own in zip(groups, own_groups):
        group.setdefault("stepsize", own["stepsize"])
    upgrade(groups)
    _check_same_sizes(where, groups, own_groups)
    for group, own in zip(groups, own_groups):
        if group["method"] != own["method"]:
            raise ValueError(f"[{where}] the state dict is from the method '{group['method']}', but this optimizer is "
                             f"'{own['method']}'; to load it anyway, change 'method', and the options it needs, in "
                             f"the state dict's param_groups{_about_rho(group, own)}")
        for key in _options.SHARED + _options.OWN + _options.DESCRIBING + (_options.ALIASES,):
            if key in own:
                group.setdefault(key, own[key])
    _options.names_of(where, groups)
    _check_same_names(where, groups, own_groups)
    method = _options.check_groups(where, groups)
    for index, group in enumerate(groups):
        _options.check_lr(where, method, group, index)
    memory = _joint.memory_of(where, method, groups)
    state = dict(state_dict["state"])
    saved_ids = [i for group in groups for i in group["params"]]
    names = [name for own in _options.names_of(where, own_groups) for name in own]
    parameters = [p for group in own_groups for p in group["params"]]
    for index, name, parameter in zip(saved_ids, names, parameters):
        if index not in state:
            continue
        _check_same_shape(where, name, parameter, state[index])
        _check_cut(where, name, parameter, state[index])
        _check_finite(where, name, state[index])
        if method.needs_distance and any(memory) and "momentum" in state[index] and "start" not in state[index]:
            raise ValueError(f"[{where}] the state dict has no start of '{name}', from which the stepsize '{method.rule}' measures "
                             f"distances: load what state_dict() gave, or give its groups stepsize_memory = [] to start afresh")
        state[index] = {key: _Wrapped(value) if key in ("momentum", "basis", "start") else value
                        for key, value in state[index].items()}
    return {**state_dict, "state": state, "param_groups": groups}


def _check_same_sizes(where: str, groups: Sequence[Mapping[str, Any]], own_groups: Sequence[Mapping[str, Any]]) -> None:
    sides = [[len(group["params"]) for group in side] for side in (groups, own_groups)]
    if sides[0] == sides[1]:
        return
    if len(sides[0]) != len(sides[1]):
        saved, own = (f"{_count(len(sizes), 'group')} with {_count(sum(sizes), 'parameter')}" for sizes in sides)
        differs = f"it has {saved}, this optimizer {own}"
    else:
        index = next(i for i, (a, b) in enumerate(zip(*sides)) if a != b)
        saved, own = (_count(sizes[index], "parameter") for sizes in sides)
        differs = f"its group {index} has {saved}, this optimizer's {own}"
    names = [[name for group in side for name in group.get("param_names") or ()] for side in (groups, own_groups)]
    only = [[name for name in side if name not in other] for side, other in (names, names[::-1])]
    more = ""
    if all(names):
        more = "".join(f"; only {who} has '{side[0]}'" for who, side in zip(("the state dict", "the optimizer"), only) if side)
    raise ValueError(f"[{where}] the state dict is of another model: {differs}{more}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _check_same_shape(where: str, name: str, parameter: torch.Tensor, saved: Any) -> None:
    for key in ("momentum", "start"):
        tensor = saved.get(key) if isinstance(saved, dict) else None
        if isinstance(tensor, torch.Tensor) and tensor.shape != parameter.shape:
            raise ValueError(f"[{where}] the state dict is of another model: its {key} of '{name}' is {list(tensor.shape)}, the "
                             f"parameter {list(parameter.shape)}")


def _check_finite(where: str, name: str, saved: Mapping[str, Any]) -> None:
    for key in ("momentum", "start"):
        tensor = saved.get(key)
        if tensor is not None and not bool(torch.isfinite(_shards.local(tensor)).all()):
            raise ValueError(f"[{where}] the {key} of '{name}' in the state dict has an entry that is not finite")


def _check_cut(where: str, name: str, parameter: torch.Tensor, saved: Any) -> None:
    """A shard of the parameter's cut, or all of it, of which this rank takes its rows."""
    momentum = saved.get("momentum") if isinstance(saved, dict) else None
    if _shards.is_sharded(momentum) and _shards.is_sharded(parameter):
        sides = [(str(each.placements), each.device_mesh.mesh.tolist()) for each in (momentum, parameter)]
        if sides[0] != sides[1]:
            raise ValueError(f"[{where}] the saved momentum of '{name}' is cut as {sides[0]}, the parameter as {sides[1]}: load "
                             f"what consolidate_state() returned, or what torch.distributed.checkpoint read for this model")
    elif isinstance(momentum, torch.Tensor) and _shards.is_sharded(parameter):
        saved = {**saved, "momentum": _shards.with_shards(parameter, _shards.own_part(parameter, momentum))}
    _gate.check_state(where, name, parameter, saved)


def whole(state_dict: Dict[str, Any]) -> Dict[str, Any]:
    """Shards put together; collective."""
    state = {index: {key: _shards.whole(value) for key, value in own.items()} for index, own in state_dict["state"].items()}
    return {**state_dict, "state": state}


def _check_same_names(where: str, groups: Sequence[Mapping[str, Any]], own_groups: Sequence[Mapping[str, Any]]) -> None:
    """Refuses names that differ from the optimizer's: state is loaded by position, and would go to the wrong parameters."""
    for index, (group, own) in enumerate(zip(groups, own_groups)):
        sides = [list(side.get("param_names") or ()) for side in (group, own)]
        if not all(sides) or _options.default_names(group, index) in sides:
            continue  # one side has none, or none of the user's
        for theirs, ours in zip(*sides):
            if _bare(theirs) != _bare(ours):
                raise ValueError(f"[{where}] the state dict has '{theirs}' where this optimizer has '{ours}', in group {index}: "
                                 f"state is loaded by position. Give the optimizer its parameters in the state dict's order; "
                                 f"if they were renamed, give the state dict's group the new param_names, or take them out of it")


def _bare(name: str) -> str:
    """Without what DistributedDataParallel and torch.compile put in."""
    return ".".join(part for part in name.split(".") if part not in ("module", "_orig_mod"))


def load(optimizer: torch.optim.Optimizer, state_dict: Mapping[str, Any], load_in_torch: Callable[[Any], None]) -> None:
    """Hands torch the prepared dictionary, after the user's hooks where torch has them."""
    def prepare(_: Any, saved: Mapping[str, Any]) -> Dict[str, Any]:
        return prepared(type(optimizer).__name__, optimizer.param_groups, saved)

    if not hasattr(optimizer, "register_load_state_dict_pre_hook") or not isinstance(state_dict, Mapping):
        load_in_torch(prepare(optimizer, state_dict))
        return
    handle = optimizer.register_load_state_dict_pre_hook(prepare)
    try:
        load_in_torch(state_dict)
    finally:
        handle.remove()


def unwrap(state: Mapping[Any, Dict[str, Any]]) -> None:
    for parameter, own in state.items():
        for key, value in own.items() if isinstance(own, dict) else ():
            if isinstance(value, _Wrapped):
                own[key] = _copied(parameter, value.value)


def _copied(parameter: torch.Tensor, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and _shards.is_sharded(parameter):
        shard = _shards.local(value) if _shards.is_sharded(value) else _shards.own_part(parameter, value)
        return _shards.with_shards(parameter, shard.detach().to(_shards.local(parameter).device, compute_dtype(parameter), copy=True))
    if isinstance(value, torch.Tensor):
        return value.detach().to(parameter.device, compute_dtype(parameter), copy=True)
    return [_copied(parameter, each) for each in value] if isinstance(value, (list, tuple)) else value
