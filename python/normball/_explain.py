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

    for index, (route, parameter) in enumerate(zip(routing.routes, own)):
        name = in_model.get(id(parameter), route.name)
        if name != route.name:
            routing.rename(index, f"{name} ({route.name})")
    held = {id(p) for p in own}
    for name, parameter in zip(known["param_names"], known["params"]):
        if id(parameter) not in held:
            routing.add_ungrouped(name, list(parameter.shape))
    return routing.explain()
