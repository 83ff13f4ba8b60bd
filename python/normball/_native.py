"""The layers that the C++ core steps in place: CPU tensors of float32 or float64 whose rows are dense."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from . import _core

LayerRow = Tuple[str, float, float, float]  # name, pairing, dual norm, weight norm


class Entry(NamedTuple):
    """A parameter with its route and the index of its group."""
    parameter: torch.Tensor
    route: _core.Route
    group: int


def is_native(parameter: torch.Tensor, route: _core.Route) -> bool:
    """Whether the core can view the parameter as its matrices without a copy.

    Column order does not matter to any norm, so a single matrix may also have its rows in another order of dimensions,
    as channels_last convolutions do.
    """
    if parameter.device.type != "cpu" or parameter.dtype not in (torch.float32, torch.float64):
        return False
    if parameter.layout != torch.strided or parameter.is_conj() or parameter.is_neg():
        return False
    if parameter.is_contiguous():
        return True
    if len(route.blocks) != 1 or parameter.dim() < 3:
        return False
    order = sorted(range(parameter.dim()), key=lambda i: -parameter.stride(i))
    return order[0] == 0 and parameter.permute(order).is_contiguous()


def _same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether equal places hold equal indices; strides of dimensions of size 1 say nothing."""
    return all(n == 1 or s == t for n, s, t in zip(a.shape, a.stride(), b.stride()))


def _like(tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or a copy of it in the parameter's type and layout."""
    if tensor.dtype == parameter.dtype and tensor.device == parameter.device and _same_layout(tensor, parameter):
        return tensor
    return torch.empty_like(parameter).copy_(tensor)


class NativePart:
    """A step of the core on the given parameters, all of one dtype."""

    def __init__(self, method: _core.Method, entries: Sequence[Entry], state: Dict[Any, Any], threads: int,
                 overwrite_gradients: bool, weight_norms: bool) -> None:
        self.entries = list(entries)
        self._state = state
        self._kept: List[torch.Tensor] = []
        dtype = self.entries[0].parameter.dtype
        engine = _core.Engine32 if dtype == torch.float32 else _core.Engine64
        self._engine = engine(method, [entry.route for entry in self.entries], threads=threads,
                              overwrite_gradients=overwrite_gradients, weight_norms=weight_norms)
        self._share_bases()

    def _share_bases(self) -> None:
        """Lets state[p]["basis"] be the core's own memory, after what was loaded there has been taken over."""
        bases = self._engine.bases()
        if not bases:
            return
        slots = [(entry, [f"basis.{block.name}" for block in entry.route.blocks]) for entry in self.entries]
        slots = [(entry, names) for entry, names in slots if all(name in bases for name in names)]
        saved = {}
        for entry, names in slots:
            loaded = self._state[entry.parameter].get("basis")
            fits = loaded is not None and [tuple(t.shape) for t in loaded] == [bases[n].shape for n in names]
            for i, name in enumerate(names):
                saved[name] = loaded[i].contiguous().numpy() if fits else bases[name].copy()
        self._engine.load_bases(saved)
        for entry, names in slots:
            self._state[entry.parameter]["basis"] = [torch.from_numpy(bases[name]) for name in names]

    def _momentum(self, parameter: torch.Tensor) -> torch.Tensor:
        state = self._state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"] = _like(state["momentum"], parameter)
        return state["momentum"]

    def prepare(self, gradients: Sequence[Optional[torch.Tensor]], lrs: Sequence[float]) -> Tuple[float, float]:
        """(s, ||v||) of these parameters; takes the gradients into the momentum."""
        tensors = []
        self._kept.clear()
        for (parameter, _, _), gradient, lr in zip(self.entries, gradients, lrs):
            if gradient is None:
                tensors.append((parameter.data_ptr(), 0, 0, lr, False))
                continue
            gradient = _like(gradient, parameter)
            self._kept.append(gradient)  # the directions may live there until apply()
            tensors.append((parameter.data_ptr(), gradient.data_ptr(), self._momentum(parameter).data_ptr(), lr, True))
        return self._engine.prepare(tensors)

    def set_method(self, method: _core.Method) -> None:
        self._engine.set_method(method)

    def apply(self, eta: float) -> None:
        """W <- W - gamma eta v"""
        self._engine.apply(eta)
        self._kept.clear()

    def abandon(self) -> None:
        self._engine.abandon()
        self._kept.clear()

    def layers(self) -> List[LayerRow]:
        return self._engine.layers()
