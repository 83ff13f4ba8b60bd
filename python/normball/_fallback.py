"""The same mathematics in torch operations, for tensors that the C++ core cannot take in place.

That is: other devices than the CPU, bfloat16 and half, and layouts that are not rows of a matrix. Half precision is
computed in float32, momentum included; UV^T is exact, from an SVD, unless the norm names a Newton-Schulz solver.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from . import _core
from ._native import Entry, LayerRow


def compute_dtype(parameter: torch.Tensor) -> torch.dtype:
    return torch.float64 if parameter.dtype == torch.float64 else torch.float32


def _divided(d: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """d / lengths, with 0 / 0 = 0, through double: lengths may be subnormal."""
    safe = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    return (d.double() / safe).to(d.dtype)


def polar(d: torch.Tensor, solver: str) -> torch.Tensor:
    """UV^T of d, or what the named iteration makes of it."""
    largest = d.abs().max()
    if largest == 0:
        return torch.zeros_like(d)
    x = _divided(d, largest.double())
    iteration, damping = _core.newton_schulz(solver), _core.damping(solver)
    if iteration is None:
        if solver not in ("exact", "svd") and damping is None:
            raise ValueError(f"[normball.torch] the solver '{solver}' needs contiguous float32 or float64 tensors on the "
                             f"CPU; here there are 'exact', 'damped', 'svd' and the Newton-Schulz solvers")
        u, sigma, vh = torch.linalg.svd(x, full_matrices=False)
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
        x = _divided(x, sums.sqrt()[:, None])
    for a, b, c in steps:
        gram = x @ x.t()
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


@dataclass
class _Layer:
    """One matrix of a parameter: its norm is geometry / scale, its step lr."""
    name: str
    lr: float
    radius: float
    geometry: str
    scale: float
    d: torch.Tensor
    w: torch.Tensor
    u: torch.Tensor  # -lmo of the geometry
    unit: float = 0.0  # u times this is -r lmo(d)

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        if self.geometry == "frobenius":
            value = torch.linalg.vector_norm(x, dtype=torch.float64)
        elif self.geometry == "max":
            value = x.abs().max().double()
        elif self.geometry == "operator":
            value = torch.linalg.matrix_norm(x, 2).double()
        else:
            value = torch.linalg.vector_norm(x, dim=1 if self.geometry == "rows" else 0, dtype=torch.float64).max()
        return value / (self.scale * self.radius)


def direction(geometry: str, solver: str, d: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """(u, <d, u>) with u = -lmo(d) of the geometry."""
    if geometry == "frobenius":
        length = torch.linalg.vector_norm(d, dtype=torch.float64)
        return _divided(d, length), length
    if geometry == "max":
        return d.sign(), d.abs().sum(dtype=torch.float64)
    if geometry in ("rows", "columns"):
        lengths = torch.linalg.vector_norm(d, dim=1 if geometry == "rows" else 0, keepdim=True, dtype=torch.float64)
        return _divided(d, lengths), lengths.sum()
    u = polar(d, solver)
    return u, _pairing(d, u)


def _pairing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() * b.double()).sum()


def _numbers(tensors: Sequence[torch.Tensor]) -> List[float]:
    return torch.stack([t.cpu() for t in tensors]).tolist() if tensors else []


class FallbackPart:
    """A step in torch operations; the counterpart of NativePart."""

    def __init__(self, method: _core.Method, entries: Sequence[Entry], state: Dict[Any, Any],
                 weight_norms: bool) -> None:
        self.entries = list(entries)
        self._method = method
        self._state = state
        self._weight_norms = weight_norms
        self._resolved = [[_core.resolve(entry.route.norm, block.shape) for block in entry.route.blocks]
                          for entry in self.entries]
        self._live: List[_Layer] = []
        self._weights: List[Tuple[torch.Tensor, torch.Tensor]] = []
        self._duals: List[torch.Tensor] = []
        self._rows: List[LayerRow] = []

    def _momentum(self, parameter: torch.Tensor) -> torch.Tensor:
        state = self._state[parameter]
        dtype = compute_dtype(parameter)
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter, dtype=dtype, memory_format=torch.contiguous_format)
        state["momentum"] = state["momentum"].to(parameter.device, dtype).contiguous()
        return state["momentum"]

    def _layers(self, index: int, gradient: torch.Tensor, lr: float) -> List[_Layer]:
        """d <- alpha g + (1 - alpha) d, and the direction of each of its matrices."""
        parameter, route, _ = self.entries[index]
        alpha = self._method.alpha
        momentum = self._momentum(parameter)
        momentum.mul_(1 - alpha).add_(gradient.to(momentum.dtype), alpha=alpha)
        weight = parameter.detach().to(momentum.dtype).contiguous()
        self._weights.append((parameter, weight))
        layers = []
        for block, (geometry, scale, solver) in zip(route.blocks, self._resolved[index]):
            size, stride = (block.shape.rows, block.shape.cols), (block.stride, 1)
            if 0 in size:
                continue
            d = momentum.view(-1)[block.offset:].as_strided(size, stride)
            w = weight.view(-1)[block.offset:].as_strided(size, stride)
            u, dual = direction(geometry, solver, d)
            self._duals.append(dual * (scale * route.radius))
            layers.append(_Layer(block.name, lr, route.radius, geometry, scale, d, w, u))
        return layers

    def prepare(self, gradients: Sequence[Optional[torch.Tensor]], lrs: Sequence[float]) -> Tuple[float, float]:
        """(s, ||v||) of these parameters; takes the gradients into the momentum."""
        method = self._method
        self.abandon()
        self._duals = []
        for index, (gradient, lr) in enumerate(zip(gradients, lrs)):
            if gradient is not None:
                self._live += self._layers(index, gradient, lr)
        duals = _numbers(self._duals)
        total, shares = method.combine_duals(duals)
        weight_pairings = [0.0] * len(self._live)
        if method.constrained:
            weight_pairings = _numbers([_pairing(layer.d, layer.w) for layer in self._live])
        for layer, share in zip(self._live, shares):
            layer.unit = layer.radius * layer.scale * share
        norms = [0.0] * len(self._live)
        if self._weight_norms:
            norms = _numbers([layer.norm(layer.w) for layer in self._live])
        self._rows = [(layer.name, pairing + share * dual, dual, norm) for layer, pairing, share, dual, norm in
                      zip(self._live, weight_pairings, shares, duals, norms)]
        length = 0.0
        if method.needs_direction_norm:
            keep = 1 if method.constrained else 0
            length = method.combine_norms(_numbers([layer.norm(keep * layer.w + layer.unit * layer.u)
                                                    for layer in self._live]))
        return sum(weight_pairings) + total, length

    def set_method(self, method: _core.Method) -> None:
        self._method = method

    def apply(self, eta: float) -> None:
        """W <- W - gamma eta v"""
        step = eta / self._method.rho
        for layer in self._live:
            own = step * layer.lr
            if own == 0:
                continue
            if self._method.constrained:
                layer.w.mul_(1 - own)
            layer.w.add_(layer.u, alpha=-own * layer.unit)
        for parameter, weight in self._weights:
            if weight.data_ptr() != parameter.data_ptr():  # a copy, for its type or layout
                parameter.copy_(weight)
        self.abandon()

    def abandon(self) -> None:
        self._live = []
        self._weights = []

    def layers(self) -> List[LayerRow]:
        return self._rows
