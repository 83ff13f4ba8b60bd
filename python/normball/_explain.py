"""explain(model): the routes that step, under the model's names, and what the model has and no group."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from torch import nn

from . import _core
from ._routing import named_groups


def explain_model(where: str, routing: _core.Routing, groups: Sequence[Mapping[str, Any]], model: nn.Module) -> str:
    if not isinstance(model, nn.Module):
        raise ValueError(f"[{where}.explain] model must be the module that is trained, got {type(model).__name__}")
    known = named_groups(model)[0]
    in_model = {id(p): name for p, name in zip(known["params"], known["param_names"])}
    own = [p for group in groups for p in group["params"]]
    if in_model.keys().isdisjoint(id(p) for p in own):
        raise ValueError(f"[{where}.explain] none of the {len(in_model)} parameters of this {type(model).__name__} is in "
                         f"the optimizer; give the model that it trains")

    def label(route: _core.Route, name: str) -> _core.Route:
        return route if name == route.name else route.renamed(f"{name} ({route.name})")

    routes = [label(route, in_model.get(id(p), route.name)) for route, p in zip(routing.routes, own)]
    held = {id(p) for p in own}
    absent = _core.route([_core.ParameterInfo(name, list(p.shape), kind=kind, requires_grad=p.requires_grad, in_group=False)
                          for name, kind, p in zip(known["param_names"], known["kinds"], known["params"])
                          if id(p) not in held])
    return _core.Routing(routes + absent.routes, routing.warnings + absent.warnings).explain()
