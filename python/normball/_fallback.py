"""The same mathematics in torch operations, for tensors that the C++ core cannot take in place.

That is: other devices than the CPU, bfloat16 and half, and layouts that are not rows of a matrix. Half precision is
computed in float32, momentum included; UV^T is exact, from an SVD, unless the norm names a Newton-Schulz solver.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, MutableMapping, Optional, Sequence, Tuple

import torch

from . import _core, _shards
from ._native import Entry, Found, LayerRow
from ._own_norm import CoreNorm, PythonNorm, pairing_of


# The dimensions over which a geometry takes Euclidean lengths.
_SUMMED = {"frobenius": (0, 1), "rows": (1,), "columns": (0,)}
# All that there is in torch operations.
GEOMETRIES = (*_SUMMED, "max", "operator")


def compute_dtype(parameter: torch.Tensor) -> torch.dtype:
    return torch.float64 if parameter.dtype == torch.float64 else torch.float32


def _scaled(d: torch.Tensor, dim: Sequence[int] = (0, 1)) -> Tuple[torch.Tensor, torch.Tensor]:
    """(x, c) with d = c x, c powers of two and the largest x along dim near 1: squares neither overflow nor vanish."""
    _, exponent = torch.frexp(d.abs().amax(tuple(dim), keepdim=True).double())
    c = torch.exp2(exponent.double().clamp(-1000, 1000))
    return (d.double() / c).to(d.dtype), c


def lengths_of(d: torch.Tensor, dim: Sequence[int]) -> torch.Tensor:
    """Euclidean lengths along dim in double, which has room for the squares of all narrower types."""
    x, c = _scaled(d, dim) if d.dtype == torch.float64 else (d, 1.0)
    return c * torch.linalg.vector_norm(x, dim=tuple(dim), keepdim=True, dtype=torch.float64)


def divided(d: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """d / lengths, with 0 / 0 = 0, through double: lengths may be subnormal."""
    safe = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    return (d.double() / safe).to(d.dtype)


def polar(d: torch.Tensor, solver: str) -> torch.Tensor:
    """UV^T of d, or the result of the named iteration."""
    x, scale = _scaled(d)
    if not x.any():
        return torch.zeros_like(d)
    iteration, damping, clipping = _core.newton_schulz(solver), _core.damping(solver), _core.clipping(solver)
    if iteration is None:
        u, sigma, vh = torch.linalg.svd(x, full_matrices=False)
        if clipping is not None:
            share, tau = clipping
            threshold = sigma[0].double() * share if tau == 0 else tau / scale.reshape(())
            return (u * (sigma.double() / threshold).clamp(max=1).to(x.dtype)) @ vh
        if damping is not None:
            return (u * (sigma / torch.hypot(sigma, damping * sigma[0]))) @ vh
        kept = sigma > max(x.shape) * torch.finfo(x.dtype).eps * sigma[0]
        return (u * kept) @ vh
    steps, safety, rescale_rows = iteration
    if x.shape[0] > x.shape[1]:
        return polar(d.t(), solver).t()
    x = x / (safety * torch.linalg.vector_norm(x, dtype=torch.float64)).to(x.dtype)
    if rescale_rows:
        sums = (x @ x.t()).abs().sum(1, dtype=torch.float64)
        x = divided(x, sums.sqrt()[:, None])
    for a, b, c in steps:
        gram = x @ x.t()
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def check_solver(where: str, entry: Entry) -> None:
    """Refuses a solver that torch operations do not have."""
    for block in entry.route.blocks if entry.route.python_norm is None else ():
        geometry, _, solver = _core.resolve(entry.route.norm, block.shape)
        known = solver in ("exact", "svd") or any(of(solver) is not None for of in
                                                  (_core.newton_schulz, _core.damping, _core.clipping))
        if geometry == "operator" and not known:
            why = ("keeps a basis of the whole matrix, which ranks with sharded parameters do not have; there"
                   if _shards.is_sharded(entry.parameter) else
                   "needs contiguous float32 or float64 tensors on the CPU and the core; in torch operations there")
            raise ValueError(f"[{where}] the solver '{solver}' of '{entry.route.name}' {why} are 'exact', 'damped', 'clip', "
                             f"'svd' and the Newton-Schulz solvers")


@dataclass
class Layer:
    """One matrix of a parameter: its norm is geometry / scale, its lr a factor of the step's."""
    name: str
    lr_factor: float
    radius: float
    geometry: str
    scale: float
    d: torch.Tensor
    w: torch.Tensor
    u: torch.Tensor  # -lmo of the geometry
    python_norm: Optional[PythonNorm] = None
    pairing: Optional[torch.Tensor] = None  # <d, u> of a user's norm
    unit: float = 0.0  # u times this is -r lmo(d)
    largest: float = 0.0  # of the parameter's own type, which may be narrower than w's

    def norm(self, x: torch.Tensor, needed: bool) -> torch.Tensor:
        """||x|| / r; NaN for a user's norm without norm(x), unless it is needed."""
        if self.python_norm is not None:
            return self.python_norm.norm(x, needed) / self.radius
        return geometry_norm(self.geometry, x) / (self.scale * self.radius)

    def check(self, step: float) -> None:
        """Raises ValueError for a gamma eta that moves it beyond the range of its type."""
        length = step * self.lr_factor * self.unit
        if not length <= self.largest:
            raise ValueError(f"the step of '{self.name}' is {length:.6g} long, beyond the range of its type: lower the lr or "
                             f"the radius")

    def move(self, step: float, constrained: bool) -> None:
        """W <- W - gamma eta v"""
        own = step * self.lr_factor
        if own == 0:
            return
        if constrained:
            self.w.mul_(1 - own)
        self.w.add_(self.u, alpha=-own * self.unit)


def geometry_norm(geometry: str, x: torch.Tensor) -> torch.Tensor:
    """NaN if x has one, else infinity if x has one."""
    if x.numel() == 0:
        return torch.zeros((), dtype=torch.float64)
    largest = x.abs().max().double()
    if geometry == "max" or not bool(torch.isfinite(largest)):
        return largest
    if geometry == "operator":
        x, c = _scaled(x)
        return (c * torch.linalg.matrix_norm(x, 2).double()).sum()
    return lengths_of(x, _SUMMED[geometry]).max()


def direction(geometry: str, solver: str, d: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """(u, <d, u>) with u = -lmo(d) of the geometry."""
    if geometry in _SUMMED:
        lengths = lengths_of(d, _SUMMED[geometry])
        return divided(d, lengths), lengths.sum()
    if geometry == "max":
        return d.sign(), d.abs().sum(dtype=torch.float64)
    u = polar(d, solver)
    return u, pairing_of(d, u)


def _numbers(tensors: Sequence[torch.Tensor]) -> List[float]:
    return torch.stack([t.cpu() for t in tensors]).tolist() if tensors else []


def resolve_block(entry: Entry, block: _core.Block) -> Tuple[str, float, str, Optional[PythonNorm]]:
    """(geometry, scale, solver) of the norms that torch operations have, or the norm that is asked."""
    own = entry.route.python_norm
    size = (block.shape.rows, block.shape.cols)
    if own is None:
        geometry, scale, solver = _core.resolve(entry.route.norm, block.shape)
        if geometry in GEOMETRIES:
            return geometry, scale, solver, None
        return "python", 1.0, "", PythonNorm(CoreNorm(entry.route.norm, block.shape), block.name, size)
    whole = len(entry.route.blocks) == 1
    return "python", 1.0, "", PythonNorm(own, block.name, entry.parameter.shape if whole else size)


def measured(entry: Entry, needed: bool = True) -> Tuple[torch.Tensor, List[Tuple[str, torch.Tensor, float]]]:
    """The parameter, or a dense copy of it, and its matrices in that memory with their names and ||W|| / r."""
    weight = _shards.whole(entry.parameter.detach()).to(compute_dtype(entry.parameter)).contiguous()
    return weight, matrices_of(entry, weight, needed)


def matrices_of(entry: Entry, weight: torch.Tensor, needed: bool) -> List[Tuple[str, torch.Tensor, float]]:
    """The matrices of a tensor of the parameter's shape with their names and norms over r."""
    weight = weight.contiguous()
    matrices = []
    for block in entry.route.blocks:
        size = (block.shape.rows, block.shape.cols)
        w = weight.view(-1)[block.offset:].as_strided(size, (block.stride, 1))
        geometry, scale, _, python_norm = resolve_block(entry, block)
        length = geometry_norm(geometry, w) if python_norm is None else python_norm.norm(w, needed)
        matrices.append((block.name, w, float(length) / (scale * entry.route.radius)))
    return matrices


class FallbackPart:
    """A step in torch operations; the counterpart of NativePart. Nothing is touched before apply()."""

    def __init__(self, method: _core.Method, entries: Sequence[Entry], weight_norms: bool) -> None:
        self.entries = list(entries)
        self._method = method
        self._weight_norms = weight_norms
        self._resolved = [[resolve_block(entry, block) for block in entry.route.blocks] for entry in self.entries]
        self._live: List[Layer] = []
        self._weights: List[Tuple[torch.Tensor, torch.Tensor]] = []
        self._momenta: List[Tuple[torch.Tensor, torch.Tensor]] = []
        self._state: MutableMapping[Any, Any] = {}
        self._duals: List[torch.Tensor] = []
        self._rows: List[LayerRow] = []
        self._gamma = 0.0  # lr / rho of the step that is prepared

    def _new_momentum(self, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """alpha g + (1 - alpha) d, for apply() to keep."""
        dtype, alpha = compute_dtype(parameter), self._method.alpha
        old = self._state.get(parameter, {}).get("momentum")
        if old is None:
            old = torch.zeros_like(parameter, dtype=dtype, memory_format=torch.contiguous_format)
        old = old.to(parameter.device, dtype).contiguous()
        momentum = old.mul(1 - alpha).add_(gradient.to(dtype), alpha=alpha)
        self._momenta.append((parameter, momentum))
        return momentum

    def _layers(self, index: int, gradient: torch.Tensor, factor: float) -> List[Layer]:
        """The direction of each matrix of a parameter."""
        parameter, route, _ = self.entries[index]
        momentum = self._new_momentum(parameter, gradient)
        weight = parameter.detach().to(momentum.dtype).contiguous()
        self._weights.append((parameter, weight))
        layers = []
        for block, (geometry, scale, solver, python_norm) in zip(route.blocks, self._resolved[index]):
            size, stride = (block.shape.rows, block.shape.cols), (block.stride, 1)
            if 0 in size:
                continue
            d = momentum.view(-1)[block.offset:].as_strided(size, stride)
            w = weight.view(-1)[block.offset:].as_strided(size, stride)
            u, dual = direction(geometry, solver, d) if python_norm is None else python_norm.direction(d)
            self._duals.append(dual * (scale * route.radius))
            pairing = None if python_norm is None else pairing_of(d, u)
            layers.append(Layer(block.name, factor, route.radius, geometry, scale, d, w, u, python_norm, pairing,
                                 largest=torch.finfo(parameter.dtype).max))
        return layers

    def prepare(self, gradients: Sequence[Optional[torch.Tensor]], lr: float, factors: Sequence[float],
                state: MutableMapping[Any, Any]) -> Found:
        """What these parameters, each of which has its factor of lr, add to the step."""
        method = self._method
        self.abandon()
        self._duals = []
        self._gamma = lr / method.rho
        self._state = state
        for index, (gradient, factor) in enumerate(zip(gradients, factors)):
            if gradient is not None:
                self._live += self._layers(index, gradient, factor)
        duals = _numbers(self._duals)
        self._check_own_norms(duals)
        total, shares = method.combine_duals(duals)
        weight_pairings = [0.0] * len(self._live)
        if method.constrained:
            weight_pairings = _numbers([pairing_of(layer.d, layer.w) for layer in self._live])
        for layer, share in zip(self._live, shares):
            layer.unit = layer.radius * layer.scale * share
        norms = [0.0] * len(self._live)
        if self._weight_norms:
            norms = _numbers([layer.norm(layer.w, False) for layer in self._live])
        self._rows = [(layer.name, pairing + share * dual, dual, norm) for layer, pairing, share, dual, norm in
                      zip(self._live, weight_pairings, shares, duals, norms)]
        if self._weight_norms:  # the core's reports have all layers, too
            live = {row[0] for row in self._rows}
            self._rows += [(name, 0.0, 0.0, size) for entry in self.entries
                           if not live.issuperset(block.name for block in entry.route.blocks)
                           for name, _, size in measured(entry, needed=False)[1]]
        slope = sum(layer.lr_factor * row[1] for layer, row in zip(self._live, self._rows))
        distance = self._distance(state) if method.needs_distance else 0.0
        length = 0.0
        if method.needs_direction_norm:
            keep = 1 if method.constrained else 0
            length = method.combine_norms(_numbers([layer.norm(keep * layer.w + layer.unit * layer.u, True)
                                                    for layer in self._live]))
        return sum(weight_pairings) + total, length, slope, distance

    def _distance(self, state: MutableMapping[Any, Any]) -> float:
        """||x - x_0|| of all parameters, whether or not they take part in the step."""
        sizes = []
        for entry in self.entries:
            dtype = compute_dtype(entry.parameter)
            start = state[entry.parameter]["start"].to(entry.parameter.device, dtype)
            sizes += [size for _, _, size in matrices_of(entry, entry.parameter.detach().to(dtype) - start, True)]
        return self._method.combine_norms(sizes)

    def _check_own_norms(self, duals: Sequence[float]) -> None:
        own = [(layer, dual) for layer, dual in zip(self._live, duals) if layer.python_norm is not None]
        for (layer, dual), pairing in zip(own, _numbers([layer.pairing for layer, _ in own if layer.pairing is not None])):
            if layer.python_norm is not None:
                layer.python_norm.check(layer.d, layer.u, pairing, dual)

    def set_method(self, method: _core.Method) -> None:
        self._method = method

    def check(self, eta: float) -> None:
        """Raises ValueError for an eta that apply() could not carry out."""
        for layer in self._live:
            layer.check(self._gamma * eta)
        # Steps that fit may add up to weights that do not, where those are stored in fewer bits than they are computed in.
        narrow = [layer for layer in self._live if layer.largest < torch.finfo(layer.w.dtype).max]
        for layer, size in zip(narrow, _numbers([self._stepped(layer, eta).abs().max().double() for layer in narrow])):
            if size > layer.largest:
                raise ValueError(f"the step takes '{layer.name}' to {size:.6g}, beyond the range of its type, which ends at "
                                 f"{layer.largest:.6g}: lower the lr or the radius, or keep the weights in float32")

    def _stepped(self, layer: Layer, eta: float) -> torch.Tensor:
        """W - gamma eta v"""
        own = self._gamma * eta * layer.lr_factor
        return torch.add(layer.w * (1 - own) if self._method.constrained else layer.w, layer.u, alpha=-own * layer.unit)

    def apply(self, eta: float) -> None:
        """d <- alpha g + (1 - alpha) d, W <- W - gamma eta v"""
        for parameter, momentum in self._momenta:
            own = self._state.setdefault(parameter, {})
            old = own.get("momentum")
            fits = old is not None and old.dtype == momentum.dtype and old.device == momentum.device
            if fits and (torch.is_inference_mode_enabled() or not old.is_inference()):
                old.copy_(momentum)  # others may hold it
            else:
                own["momentum"] = momentum
        for layer in self._live:
            layer.move(self._gamma * eta, self._method.constrained)
        for parameter, weight in self._weights:
            if weight.data_ptr() != parameter.data_ptr():  # a copy, for its type or layout
                parameter.copy_(weight)
        self.abandon()

    def directions(self) -> List[torch.Tensor]:
        """After prepare(): v of every parameter times its lr factor, in the type that it is computed in; 0 without a gradient."""
        layers, stepped = iter(self._live), {parameter for parameter, _ in self._weights}
        found = []
        for entry in self.entries:
            v = torch.zeros_like(entry.parameter, dtype=compute_dtype(entry.parameter), memory_format=torch.contiguous_format)
            for block in entry.route.blocks if entry.parameter in stepped else ():
                size = (block.shape.rows, block.shape.cols)
                if 0 not in size:
                    layer = next(layers)
                    own = layer.unit * layer.u + (layer.w if self._method.constrained else 0)
                    v.view(-1)[block.offset:].as_strided(size, (block.stride, 1)).copy_(layer.lr_factor * own)
            found.append(v)
        return found

    def abandon(self) -> None:
        self._live = []
        self._weights = []
        self._momenta = []

    def layers(self) -> List[LayerRow]:
        return self._rows
