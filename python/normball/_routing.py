"""Names, kinds and routes of a model's parameters: the core's routing, with what torch modules know."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

import torch
from torch import nn

from . import _core, _options

_CONV_TRANSPOSE = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_CONV = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORM = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._NormBase)


def _kind(module: nn.Module, own_name: str, name: str, parameter: torch.Tensor) -> str:
    """What a parameter is, by its module. The position table of a transformer is an Embedding only in name."""
    if own_name == "bias" or own_name.endswith("_bias"):
        return "bias"
    by_name = _core.guess_kind(name, list(parameter.shape))
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return "position" if by_name == "position" else "embedding"
    if isinstance(module, _CONV_TRANSPOSE):
        return "conv_transpose"
    if isinstance(module, _CONV):
        return "depthwise" if module.groups == module.in_channels > 1 else "conv"
    if isinstance(module, _NORM):
        return "norm"
    if isinstance(module, nn.Linear):
        return "linear"
    return "unknown"


def _head(model: nn.Module) -> Optional[nn.Module]:
    """The last Linear, if no other layer with a matrix comes after it."""
    last = None
    for module in model.modules():
        if any(p.dim() >= 2 for p in module.parameters(recurse=False)):
            last = module
    return last if isinstance(last, nn.Linear) else None


def named_groups(model: nn.Module, prefix: str = "") -> List[Dict[str, Any]]:
    """One parameter group with all of the model's parameters, their names and what their modules say they are.

    The prefix tells several models of one optimizer apart: "encoder" makes "encoder.weight" of "weight".

    Embeddings, convolutions (and depthwise ones), normalizations and the last Linear are recognized, and a tied
    embedding counts as the output head it also is. Tied weights appear once, under their first name.

    >>> optimizer = ClippedScion(named_groups(model), lr=1e-3, alpha=0.1, rho=100)
    """
    head = _head(model)
    params: List[torch.Tensor] = []
    names: List[str] = []
    kinds: List[str] = []
    seen: Dict[int, int] = {}
    for path, module in model.named_modules(prefix=prefix):
        for own_name, parameter in module.named_parameters(recurse=False):
            name = f"{path}.{own_name}" if path else own_name
            kind = "output" if module is head and own_name == "weight" else _kind(module, own_name, name, parameter)
            if id(parameter) in seen:
                if kind == "output":
                    kinds[seen[id(parameter)]] = kind
                continue
            seen[id(parameter)] = len(params)
            params.append(parameter)
            names.append(name)
            kinds.append(kind)
    return [{"params": params, "param_names": names, "kinds": kinds}]


def _info(name: str, kind: str, parameter: torch.Tensor, given: Mapping[str, Any]) -> _core.ParameterInfo:
    return _core.ParameterInfo(name, list(parameter.shape), kind=kind, identity=parameter.data_ptr(),
                               requires_grad=parameter.requires_grad, given=_options.assignment(given))


def route_groups(where: str, method: _core.Method, groups: Sequence[Mapping[str, Any]],
                 grad_clip: float = 0.0) -> _core.Routing:
    """The routes of all parameters, group by group."""
    infos = []
    listed = []
    for index, (group, names) in enumerate(zip(groups, _options.names_of(where, groups))):
        _options.check_not_overridden(where, method, group, index)
        given = {key: group[key] for key in _options.ASSIGNED}
        if given["norm"] == "auto":  # says nothing
            given["norm"] = None
        if method.norm is not None:
            given.update(norm=method.norm, role=None)
        if method.radius is not None:
            given["radius"] = method.radius
        kinds = group.get("kinds") or ["unknown"] * len(names)
        for name, kind, parameter in zip(names, kinds, group["params"]):
            infos.append(_info(name, kind, parameter, given))
            listed.append(parameter)
    shared = groups[0]
    rules = [(pattern, _options.assignment(then)) for pattern, then in shared["rules"].items()]
    routing = _core.route(infos, rules=rules, radii=shared["radii"], solver=shared["solver"], grad_clip=grad_clip)
    for parameter, route in zip(listed, routing.routes):
        if route.tied_to is not None and parameter is not listed[route.tied_to]:
            raise ValueError(f"[{where}] '{route.name}' and '{routing.routes[route.tied_to].name}' are two Parameters "
                             f"on the same memory, each with a gradient of its own; tie weights by using one "
                             f"Parameter in both places")
    return routing
