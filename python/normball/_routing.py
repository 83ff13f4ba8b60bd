"""Names, kinds and routes of a model's parameters: the core's routing, with what torch modules know."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

import torch
from torch import nn

from . import _core, _gate, _options, _shards


def _module_type(module: nn.Module) -> str:
    """The name of the torch.nn class that the module is or derives from, as the core knows it."""
    return next((cls.__name__ for cls in type(module).__mro__
                 if cls.__module__.startswith("torch.nn.") and _core.is_module_type(cls.__name__)), "")


def named_groups(model: nn.Module, prefix: str = "") -> List[Dict[str, Any]]:
    """One parameter group with all of the model's parameters, their names, and their kinds by the types of their modules.

    Tied weights appear once, under their first name, but rules can use their other names too; a tied embedding counts
    as an output head. The prefix distinguishes several models of one optimizer: "encoder" turns "weight" into
    "encoder.weight".

    >>> optimizer = ClippedScion(named_groups(model), lr=1e-3, alpha=0.1, rho=100)
    """
    return module_groups("named_groups", model, prefix)


def module_groups(where: str, model: nn.Module, prefix: str = "") -> List[Dict[str, Any]]:
    """named_groups() on behalf of another function, which its errors name."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"[{where}] takes a module, got {type(model).__name__}; pass tensors and groups to the optimizer itself")
    if not isinstance(prefix, str):
        raise ValueError(f"[{where}] prefix is a text such as 'encoder', got {prefix!r}")
    modules = dict(model.named_modules())
    types = {path: _module_type(module) for path, module in modules.items()}
    held = []
    params: List[torch.Tensor] = []
    for path, module in modules.items():
        parts = path.split(".") if path else []
        around = [types[".".join(parts[:i])] for i in range(len(parts) + 1)]
        owner = modules[path.partition(".parametrizations.")[0]] if "ParametrizationList" in around else module
        groups = owner.groups if isinstance(owner, nn.modules.conv._ConvNd) else 1
        for own_name, parameter in module.named_parameters(recurse=False):
            _gate.check_parameter(where, ".".join(parts + [own_name]), parameter, grouping=True)
            held.append((".".join(parts + [own_name]), around, list(parameter.shape), groups, id(parameter)))
            params.append(parameter)
    kinds = _core.kinds_of(held)
    kept = [i for i, kind in enumerate(kinds) if kind != "alias"]
    start = f"{prefix}." if prefix else ""
    first = {id(params[i]): start + held[i][0] for i in kept}
    group = {"params": [params[i] for i in kept], "param_names": list(first.values()), "kinds": [kinds[i] for i in kept]}
    aliases = {start + held[i][0]: first[id(params[i])] for i, kind in enumerate(kinds) if kind == "alias"}
    return [{**group, "aliases": aliases} if aliases else group]


def _info(name: str, kind: str, parameter: torch.Tensor, given: _core.Assignment) -> _core.ParameterInfo:
    identity = id(parameter) if _shards.is_sharded(parameter) else parameter.data_ptr()
    return _core.ParameterInfo(name, list(parameter.shape), kind=kind, identity=identity,
                               requires_grad=parameter.requires_grad, given=given)


def entry_lr(where: str, method: _core.Method, route: _core.Route, lr: float, first: float) -> float:
    """The lr of a parameter in a group whose lr is now `lr` and was `first`: a rule's lr keeps its ratio to it."""
    if route.lr is None:
        return lr
    if first == 0:
        raise ValueError(f"[{where}] a rule gives '{route.name}' the lr {route.lr}, which follows its group's; that "
                         f"started at 0, so there is no ratio to keep")
    try:
        method.check_lr(lr * route.lr / first)
    except ValueError as error:
        raise ValueError(f"[{where}] '{route.name}': {error}") from None
    return lr * route.lr / first


def route_groups(where: str, method: _core.Method, groups: Sequence[Mapping[str, Any]],
                 grad_clip: float = 0.0) -> _core.Routing:
    """The routes of all parameters, group by group."""
    infos = []
    aliases = []  # last, since routes have the order of the groups' parameters
    for index, (group, names) in enumerate(zip(groups, _options.names_of(where, groups))):
        _options.check_not_overridden(where, method, group, index)
        given = {key: group[key] for key in _options.ASSIGNED}
        if given["norm"] == "auto":  # says nothing
            given["norm"] = None
        said = _options.assignment(where, f"group {index}", given, solver=group["solver"])
        kinds = group.get("kinds") or ["unknown"] * len(names)
        for name, kind, parameter in zip(names, kinds, group["params"]):
            infos.append(_info(name, kind, parameter, said))
        own = {given: (name, p) for given, name, p in zip(group.get("param_names") or (), names, group["params"])}
        for alias, of in group.get("aliases", {}).items():
            if of in own and own[of][1].numel() > 0:
                name, parameter = own[of]
                alias = name[:len(name) - len(of)] + alias
                aliases.append((alias, _info(alias, "alias", parameter, said)))
    taken = {name for names in _options.names_of(where, groups) for name in names}
    infos += [info for alias, info in aliases if alias not in taken]
    shared = groups[0]
    rules = [(pattern, _options.assignment(where, f"the rule '{pattern}'", then, _options.RULED, shared["solver"]))
             for pattern, then in shared["rules"].items()]
    auto = shared["radii"] == "auto"
    return _core.route(infos, rules=rules, radii={} if auto else shared["radii"], solver=shared["solver"], grad_clip=grad_clip,
                       method=method, auto_radii=auto)


def kinds_with_heads(routing: _core.Routing, groups: Sequence[Mapping[str, Any]]) -> List[Dict[str, List[str]]]:
    """What was guessed to be the output head and stepped as it is said to be it, before others join."""
    kinds = [route.kind for route in routing.routes]
    result: List[Dict[str, List[str]]] = []
    for group in groups:
        own, kinds = kinds[:len(group["params"])], kinds[len(group["params"]):]
        result.append({"kinds": ["output" if kind == "output" else said for kind, said in zip(own, group["kinds"])]}
                      if "kinds" in group else {})
    return result
