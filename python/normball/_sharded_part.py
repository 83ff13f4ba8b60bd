"""FSDP2: matrices whose rows are on several ranks.

Every rank averages its rows and keeps their momentum. Where a direction needs all of a matrix (spectral norms), the rows of
the average go to the matrix's owner by all-to-all, and the rows of the direction come back the same way, while other LMOs
run. Where the lengths of columns or of the whole are enough, only those are exchanged.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, MutableMapping, NamedTuple, Optional, Sequence, Tuple

import torch

from . import _core, _shards
from ._core import NonFiniteError
from ._exchange import Exchange, Matrix
from ._fallback import GEOMETRIES, Layer, compute_dtype, divided, geometry_norm, lengths_of, pairing_of
from ._native import Entry, Found, LayerRow
from ._ranks import Ranks

_CACHED = 1 << 15  # elements
_JOINED = {"frobenius": (0, 1), "columns": (0,)}  # lengths along these dimensions go over ranks


def _pairing(a: torch.Tensor, b: torch.Tensor) -> float:
    """<a, b> in double, by rows that stay in the cache."""
    rows = max(1, _CACHED // max(a.shape[1], 1))
    return sum(float(pairing_of(x, y)) for x, y in zip(a.split(rows), b.split(rows)))


class _Block(NamedTuple):
    """A matrix and the rows of it that this rank has."""
    entry: int
    block: _core.Block
    geometry: str
    scale: float
    solver: str
    begin: int  # in the flattened shard
    rows: List[Tuple[int, int]]  # of every rank

    def of(self, shard: torch.Tensor, rank: int) -> torch.Tensor:
        """This rank's rows, in the shard's memory."""
        begin, end = self.rows[rank]
        size = (end - begin, self.block.shape.cols)
        if 0 in size:
            return shard.new_zeros(size)
        return shard.view(-1)[self.begin:].as_strided(size, (self.block.stride, 1))


@dataclass
class _Prepared:
    """A step that is not taken yet."""
    layers: List[Layer]
    momenta: List[Tuple[torch.Tensor, torch.Tensor]]  # parameter, its shard of the new average


class ShardedPart:
    """A step on sharded parameters of one dtype; the counterpart of NativePart. Nothing is touched before apply()."""

    def __init__(self, method: _core.Method, entries: Sequence[Entry], weight_norms: bool, ranks: Ranks,
                 threads: Callable[[], int]) -> None:
        self.entries = list(entries)
        self._method, self._weight_norms, self._ranks, self._threads = method, weight_norms, ranks, threads
        self._blocks = [block for index in range(len(self.entries)) for block in self._blocks_of(index)]
        self._owners = _core.share_layers([entry.route for entry in self.entries], ranks.size, together=False)
        self._order = _core.sending_order([entry.route for entry in self.entries], self._owners)
        self._exchanges: Dict[Tuple[int, ...], Exchange] = {}
        self._prepared = _Prepared([], [])
        self._state: MutableMapping[Any, Any] = {}
        self._rows: List[LayerRow] = []
        self._gamma = 0.0  # lr / rho of the step that is prepared
        self._failure: Optional[Exception] = None

    def _blocks_of(self, index: int) -> List[_Block]:
        parameter, route, _ = self.entries[index]
        first = parameter.shape[0]
        width = parameter.numel() // max(first, 1)
        blocks = []
        for block in route.blocks:
            shape = block.shape
            if shape.rows > 0 and width > 0 and block.offset % width + (shape.cols - 1) >= width:
                raise ValueError(f"[{route.name}] its matrix '{block.name}' has rows across those of the sharded parameter")
            rows, begin = [], 0
            for rank in range(self._ranks.size):
                start, end = (width * at for at in _shards.rows_of(first, rank, self._ranks.size))
                ends = [min(max(-(-(at - block.offset) // max(block.stride, 1)), 0), shape.rows) for at in (start, end)]
                rows.append((ends[0], ends[1]))
                if rank == self._ranks.rank:
                    begin = block.offset + ends[0] * block.stride - start
            geometry, scale, solver = _core.resolve(route.norm, shape)
            if geometry not in GEOMETRIES:
                raise ValueError(f"[{route.name}] its norm '{route.norm}' does not step sharded parameters; there are sign, row, "
                                 f"col, rms, euclidean and spectral")
            blocks.append(_Block(index, block, geometry, scale, solver, begin, rows))
        return blocks

    def _exchange(self, live: Sequence[int]) -> Exchange:
        """Of the spectral ones among these blocks."""
        key = tuple(live)
        if key not in self._exchanges:
            matrices = {i: Matrix(self._owners[i], self._blocks[i].rows, self._blocks[i].block.shape.cols) for i in live
                        if self._owners[i] >= 0}
            self._exchanges = {key: Exchange(self._ranks, matrices, [i for i in self._order if i in matrices])}
        return self._exchanges[key]

    def prepare(self, gradients: Sequence[Optional[torch.Tensor]], lr: float, factors: Sequence[float],
                state: MutableMapping[Any, Any]) -> Found:
        """What these parameters in all ranks, each of which has its factor of lr, add to the step."""
        self.abandon()
        self._state, self._gamma, self._failure = state, lr / self._method.rho, None
        live = [i for i, block in enumerate(self._blocks)
                if gradients[block.entry] is not None and 0 not in (block.block.shape.rows, block.block.shape.cols)]
        averages = {}
        for index, gradient in enumerate(gradients):
            if gradient is not None:
                averages[index] = self._new_momentum(self.entries[index].parameter, gradient)
        pieces = {i: self._blocks[i].of(averages[self._blocks[i].entry], self._ranks.rank) for i in live}
        self._ranks.set_activity("the directions")
        directions, duals = self._find_directions(live, pieces)
        for i in live:
            block, entry = self._blocks[i], self.entries[self._blocks[i].entry]
            w = block.of(_shards.local(entry.parameter), self._ranks.rank)
            self._prepared.layers.append(Layer(block.block.name, factors[block.entry], entry.route.radius, block.geometry,
                                               block.scale, pieces[i], w, directions[i],
                                               largest=torch.finfo(entry.parameter.dtype).max))
        return self._join(live, duals)

    def _new_momentum(self, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """This rank's rows of alpha g + (1 - alpha) d, for apply() to keep."""
        alpha, old = self._method.alpha, self._state.get(parameter, {}).get("momentum")
        dtype = compute_dtype(parameter)
        held = torch.zeros_like(_shards.local(parameter)) if old is None else _shards.local(old).to(dtype).contiguous()
        average = held.mul(1 - alpha).add_(gradient.to(dtype), alpha=alpha)
        self._prepared.momenta.append((parameter, average))
        return average

    def _find_directions(self, live: Sequence[int], pieces: Dict[int, torch.Tensor]) -> Tuple[Dict[int, torch.Tensor], List[float]]:
        """u = -lmo(d) of the geometries, this rank's rows; and this rank's share of <d, u>, the sums of which are all of it."""
        joined = self._joined_lengths(live, pieces)
        directions, shares = {}, {}
        for i in live:
            d, geometry = pieces[i], self._blocks[i].geometry
            if geometry == "max":
                directions[i], shares[i] = d.sign(), float(d.abs().sum(dtype=torch.float64))
            elif geometry == "rows":
                own = lengths_of(d, (1,)) if d.numel() > 0 else d.new_zeros((d.shape[0], 1), dtype=torch.float64)
                directions[i], shares[i] = divided(d, own), float(own.sum())
            elif geometry in _JOINED:
                directions[i] = divided(d, joined[i])
                shares[i] = float(joined[i].sum()) if self._ranks.rank == 0 else 0.0
        spectral = {i: pieces[i] for i in live if self._owners[i] >= 0}

        def find(i: int, d: torch.Tensor) -> Optional[torch.Tensor]:
            try:
                if not math.isfinite(float(torch.linalg.vector_norm(d.view(-1), math.inf))):
                    raise NonFiniteError(f"the momentum of '{self._blocks[i].block.name}' has an entry that is not finite")
                u = torch.from_numpy(_core.polar(d.numpy(), self._blocks[i].solver, self._threads()))
                shares[i] = _pairing(d, u)
                return u
            except Exception as error:  # the others wait for the rows: they are told afterwards
                self._failure = self._failure or error
                return None

        directions.update(self._exchange(live).run(spectral, find))
        return directions, [shares.get(i, 0.0) for i in live]

    def _joined_lengths(self, live: Sequence[int], pieces: Dict[int, torch.Tensor]) -> Dict[int, torch.Tensor]:
        """Euclidean lengths over the rows of all ranks, by the lengths of each rank's."""
        wanted = [i for i in live if self._blocks[i].geometry in _JOINED]
        own = []
        for i in wanted:
            d, along = pieces[i], _JOINED[self._blocks[i].geometry]
            number = 1 if len(along) == 2 else d.shape[1]
            own.append(lengths_of(d, along).reshape(number) if d.numel() > 0 else torch.zeros(number, dtype=torch.float64))
        if not own:
            return {}
        every = self._ranks.gather_numbers(torch.cat(own))
        result, at = {}, 0
        for i, each in zip(wanted, own):
            result[i] = lengths_of(every[:, at:at + each.numel()], (0,))
            at += each.numel()
        return result

    def _sums(self, own: Sequence[float], biggest: bool = False) -> List[float]:
        """Of all ranks, or the largest, in their order: the same in all. Raises in all what failed in one."""
        failure = self._failure
        head = [float(failure is not None), float(isinstance(failure, NonFiniteError))]
        every = self._ranks.gather_numbers(torch.tensor([*head, *own], dtype=torch.float64)).tolist()
        self._ranks.raise_first([row[0] > 0 for row in every], failure, [row[1] > 0 for row in every])
        return [max(column) if biggest else sum(column) for column in zip(*(row[2:] for row in every))]

    def _join(self, live: Sequence[int], shares: Sequence[float]) -> Found:
        method, layers = self._method, self._prepared.layers
        pairings = [_pairing(layer.d, layer.w) if method.constrained else 0.0 for layer in layers]
        sums = self._sums([*shares, *pairings])
        duals = [dual * layer.scale * layer.radius for dual, layer in zip(sums, layers)]
        pairings = sums[len(layers):]
        total, parts = method.combine_duals(duals)
        for layer, part in zip(layers, parts):
            layer.unit = layer.radius * layer.scale * part
        sizes = self._weight_sizes() if self._weight_norms else {}
        self._rows = [(layer.name, pairing + part * dual, dual, sizes.get(i, 0.0)) for i, layer, pairing, part, dual in
                      zip(live, layers, pairings, parts, duals)]
        self._rows += [(self._blocks[i].block.name, 0.0, 0.0, size) for i, size in sizes.items() if i not in live]
        length = 0.0
        if method.needs_direction_norm:
            keep = 1 if method.constrained else 0
            norms = self._norms(live, {i: keep * layer.w + layer.unit * layer.u for i, layer in zip(live, layers)})
            length = method.combine_norms([norms[i] / (layer.scale * layer.radius) for i, layer in zip(live, layers)])
        slope = sum(layer.lr_factor * row[1] for layer, row in zip(layers, self._rows))
        return sum(pairings) + total, length, slope, 0.0

    def _weight_sizes(self) -> Dict[int, float]:
        """||W|| / r of all matrices."""
        every = [i for i, block in enumerate(self._blocks) if 0 not in (block.block.shape.rows, block.block.shape.cols)]
        norms = self._norms(every, {i: self._blocks[i].of(_shards.local(self.entries[self._blocks[i].entry].parameter),
                                                         self._ranks.rank) for i in every})
        return {i: norm / (self._blocks[i].scale * self.entries[self._blocks[i].entry].route.radius) for i, norm in norms.items()}

    def _norms(self, which: Sequence[int], pieces: Dict[int, torch.Tensor]) -> Dict[int, float]:
        """Of matrices cut into these pieces, in their geometries."""
        own = {i: 0.0 for i in which}
        joined = self._joined_lengths(which, pieces)
        for i in which:
            if i in joined:
                own[i] = float(joined[i].max()) if joined[i].numel() > 0 else 0.0
            elif self._owners[i] < 0:
                own[i] = float(geometry_norm(self._blocks[i].geometry, pieces[i]))

        def find(i: int, whole: torch.Tensor) -> None:
            try:
                own[i] = float(geometry_norm("operator", whole))
            except Exception as error:
                self._failure = self._failure or error

        self._exchange(which).run({i: pieces[i] for i in which if self._owners[i] >= 0}, find, back=False)
        return dict(zip(own, self._sums(list(own.values()), biggest=True)))

    def set_method(self, method: _core.Method) -> None:
        self._method = method

    def check(self, eta: float) -> None:
        """Raises ValueError, in all ranks, for an eta that apply() could not carry out."""
        for layer in self._prepared.layers:
            layer.check(self._gamma * eta)

    def apply(self, eta: float) -> None:
        """d <- alpha g + (1 - alpha) d, W <- W - gamma eta v, on this rank's rows"""
        for parameter, average in self._prepared.momenta:
            own = self._state.setdefault(parameter, {})
            if "momentum" in own and _shards.local(own["momentum"]).dtype == average.dtype:
                _shards.local(own["momentum"]).copy_(average)  # others may hold it
            else:
                own["momentum"] = _shards.with_shards(parameter, average)
        for layer in self._prepared.layers:
            layer.move(self._gamma * eta, self._method.constrained)
        for parameter, _ in self._prepared.momenta:
            torch.autograd.graph.increment_version(parameter)  # the DTensor has a count of its own
        self.abandon()

    def abandon(self) -> None:
        self._prepared = _Prepared([], [])

    def layers(self) -> List[LayerRow]:
        return self._rows
