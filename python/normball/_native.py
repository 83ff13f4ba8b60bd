"""The layers that the C++ core steps in place: CPU tensors of float32 or float64 whose rows are dense."""
from __future__ import annotations

from typing import Any, Dict, List, MutableMapping, NamedTuple, Optional, Sequence, Tuple

import torch

from . import _core
from ._directions import Directions
from ._ranks import Ranks

LayerRow = Tuple[str, float, float, float]  # name, pairing, dual norm, weight norm
# s, ||v|| where the rule needs it, <d, v> with every parameter's factor of lr, ||x - x_0|| where the rule needs it
Found = Tuple[float, float, float, float]


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
    if route.python_norm is not None:
        return False
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
    """Whether equal positions in memory have equal indices; strides of dimensions of size 1 do not matter."""
    return a.shape == b.shape and all(n == 1 or s == t for n, s, t in zip(a.shape, a.stride(), b.stride()))


def like(tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or a copy of it in the parameter's type and layout."""
    if tensor.dtype == parameter.dtype and tensor.device == parameter.device and _same_layout(tensor, parameter):
        return tensor.resolve_neg()  # itself, unless a sign is pending
    return torch.empty_like(parameter).copy_(tensor)


class NativePart:
    """A step of the core on the given parameters, all of one dtype."""

    def __init__(self, method: _core.Method, entries: Sequence[Entry], threads: int, overwrite_gradients: bool,
                 weight_norms: bool, undoable: bool, ranks: Optional[Ranks] = None) -> None:
        self.entries = list(entries)
        self._method = method
        self.owners: Dict[torch.Tensor, int] = {}  # of parameters whose direction and momentum one rank has, as all know
        peers = None
        if ranks is not None:
            peers = self._shared(ranks)
        self._elsewhere = {p for p, owner in self.owners.items() if ranks is not None and owner != ranks.rank}
        self._kept: List[torch.Tensor] = []
        self._new: List[Dict[str, Any]] = []  # states to which this step gave a momentum
        self._moved: List[bool] = []
        dtype = self.entries[0].parameter.dtype
        engine = _core.Engine32 if dtype == torch.float32 else _core.Engine64
        self._engine = engine(method, [entry.route for entry in self.entries], threads=threads,
                              overwrite_gradients=overwrite_gradients, weight_norms=weight_norms, undoable=undoable,
                              peers=peers)
        bases = self._engine.bases()
        # The core's own memory, by parameter: it is what state[p]["basis"] holds.
        self._bases = {}
        for entry in self.entries:
            names = [f"basis.{block.name}" for block in entry.route.blocks]
            if all(name in bases for name in names):
                self._bases[entry.parameter] = names, [torch.from_numpy(bases[name]) for name in names]

    def _shared(self, ranks: Ranks) -> Directions:
        """Chooses the owners. A tensor's matrices stay together, since its momentum does."""
        routes = [entry.route for entry in self.entries]
        owners = _core.share_layers(routes, ranks.size)
        tensors = [entry.parameter for entry in self.entries for _ in entry.route.blocks]
        self.owners = {p: owner for p, owner in zip(tensors, owners) if owner >= 0}
        return Directions(ranks, owners, _core.sending_order(routes, owners))

    def share_bases(self, state: MutableMapping[Any, Any]) -> None:
        """Takes over bases that were loaded into the state, or starts again if there are none."""
        if all(state.get(parameter, {}).get("basis") is own for parameter, (_, own) in self._bases.items()):
            return
        loaded = {}
        for parameter, (names, own) in self._bases.items():
            given = state.setdefault(parameter, {}).get("basis")
            fits = given is not None and [t.shape for t in given] == [t.shape for t in own]
            for i, name in enumerate(names):
                source = given[i] if fits else torch.zeros_like(own[i])
                loaded[name] = source.to("cpu", own[i].dtype, copy=True).contiguous().numpy()
        self._engine.load_bases(loaded)
        for parameter, (_, own) in self._bases.items():
            state[parameter]["basis"] = own

    def _momentum(self, state: MutableMapping[Any, Any], parameter: torch.Tensor) -> torch.Tensor:
        own = state.setdefault(parameter, {})
        if "momentum" not in own:
            own["momentum"] = torch.zeros_like(parameter)
            self._new.append(own)
        own["momentum"] = like(own["momentum"], parameter)
        return own["momentum"]

    def _start(self, state: MutableMapping[Any, Any], parameter: torch.Tensor) -> int:
        """The address of x_0, where the rule needs it."""
        if not self._method.needs_distance:
            return 0
        own = state[parameter]
        own["start"] = like(own["start"], parameter)
        return own["start"].data_ptr()

    def prepare(self, gradients: Sequence[Optional[torch.Tensor]], lr: float, factors: Sequence[float],
                state: MutableMapping[Any, Any]) -> Found:
        """What these parameters, each of which has its factor of lr, add to the step."""
        tensors = []
        self._kept.clear()
        self._new.clear()
        self._moved = [gradient is not None for gradient in gradients]
        self.share_bases(state)
        for (parameter, _, _), gradient, factor in zip(self.entries, gradients, factors):
            start = self._start(state, parameter)
            if gradient is None:
                tensors.append((parameter.data_ptr(), 0, 0, factor, False, start))
                continue
            gradient = like(gradient, parameter)
            self._kept.append(gradient)  # the directions may live there until apply()
            momentum = 0 if parameter in self._elsewhere else self._momentum(state, parameter).data_ptr()
            tensors.append((parameter.data_ptr(), gradient.data_ptr(), momentum, factor, True, start))
        return self._engine.prepare(lr, tensors)

    def directions(self) -> List[torch.Tensor]:
        """After prepare(), of a part that is undoable: v of every parameter times its lr factor; 0 without a gradient."""
        found = [torch.zeros_like(entry.parameter) for entry in self.entries]
        self._engine.direction([v.data_ptr() for v in found])
        return found

    def basis(self, parameter: torch.Tensor) -> List[torch.Tensor]:
        """The core's own memory, after share_bases(); empty where the solver keeps none."""
        return self._bases[parameter][1] if parameter in self._bases else []

    def set_step(self, k: int) -> None:
        self._engine.set_step(k)

    def set_method(self, method: _core.Method) -> None:
        self._method = method
        self._engine.set_method(method)

    def check(self, eta: float) -> None:
        """Raises ValueError for an eta that apply() would refuse."""
        self._engine.require_step(eta)

    def apply(self, eta: float) -> None:
        """W <- W - gamma eta v"""
        for entry, has_gradient in zip(self.entries, self._moved):
            if has_gradient:  # the core writes to bare memory: an operation on none of it tells autograd
                entry.parameter.as_strided((0,), (1,)).zero_()
        self._engine.apply(eta)
        self._kept.clear()
        self._new.clear()

    def abandon(self) -> None:
        self._engine.revert()
        self._kept.clear()
        for own in self._new:
            own.pop("momentum", None)
        self._new.clear()

    def layers(self) -> List[LayerRow]:
        return self._engine.layers()
