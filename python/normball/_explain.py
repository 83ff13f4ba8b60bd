"""explain(model): the routes of a step under the model's names, and parameters of the model that are in no group."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from torch import nn

from . import _core
from ._routing import named_groups


def explain_model(where: str, routing: _core.Routing, groups: Sequence[Mapping[str, Any]], model: nn.Module) -> str:
    if not isinstance(model, nn.Module):
        raise ValueError(f"[{where}.explain] model must be the module being trained, got {type(model).__name__}")
    known = named_groups(model)[0]
    own = [(id(p), "param_names" in group) for group in groups for p in group["params"]]
    at = {key: i for i, (key, _) in reversed(list(enumerate(own)))}
    if at.keys().isdisjoint(id(p) for p in known["params"]):
        raise ValueError(f"[{where}.explain] none of the {len(known['params'])} parameters of this {type(model).__name__} "
                         f"is in the optimizer; pass the model that it trains")
    for name, parameter in zip(known["param_names"], known["params"]):
        i = at.get(id(parameter))
        if i is None:
            routing.add_ungrouped(name, list(parameter.shape))
        elif not own[i][1]:
            routing.rename(i, name)
    return routing.explain()
