"""Matrices whose rows are on several ranks: brought to their owners by all-to-all, and what is found there taken back."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from ._ranks import Ranks

_SMALL = 1 << 20  # elements: rounds of fewer are sent together


class Matrix(NamedTuple):
    owner: int
    rows: List[Tuple[int, int]]  # begin and end of every rank's
    cols: int

    def size(self, rank: int) -> int:
        begin, end = self.rows[rank]
        return (end - begin) * self.cols

    @property
    def total(self) -> int:
        return sum(self.size(rank) for rank in range(len(self.rows)))


class _Pending(NamedTuple):
    work: Any
    received: torch.Tensor
    sent: torch.Tensor  # kept until it has left


class Exchange:
    """`order` has the matrices with an owner, each owner's longest first, the owners in turn. A round has one of each."""

    def __init__(self, ranks: Ranks, matrices: Dict[int, Matrix], order: Sequence[int]) -> None:
        self._ranks = ranks
        self._matrices = matrices
        self._rounds: List[List[int]] = []
        taken: Dict[int, int] = {}
        rounds: Dict[int, List[int]] = {}
        for i in order:
            turn = taken.get(matrices[i].owner, 0)
            taken[matrices[i].owner] = turn + 1
            rounds.setdefault(turn, []).append(i)
        for own in rounds.values():
            if self._rounds and sum(matrices[i].total for i in self._rounds[-1]) < _SMALL:
                self._rounds[-1] += own
            else:
                self._rounds.append(own)

    def run(self, pieces: Dict[int, torch.Tensor], find: Callable[[int, torch.Tensor], Optional[torch.Tensor]],
            back: bool = True) -> Dict[int, torch.Tensor]:
        """find(i, the whole matrix) at its owner; the rows of its results, which may be None if nothing goes back."""
        results: Dict[int, torch.Tensor] = {}
        if not self._rounds:
            return results
        dtype = next(iter(pieces.values())).dtype
        arriving = self._to_owners(self._rounds[0], pieces, dtype)
        leaving: List[Tuple[List[int], _Pending]] = []
        for at, own in enumerate(self._rounds):
            following = self._to_owners(self._rounds[at + 1], pieces, dtype) if at + 1 < len(self._rounds) else None
            self._ranks.wait([arriving.work])
            found = {i: find(i, matrix) for i, matrix in self._put_together(own, arriving.received).items()}
            if back:
                leaving.append((own, self._from_owners(own, found, dtype)))
            if following is not None:
                arriving = following
        self._ranks.wait([pending.work for _, pending in leaving])
        for own, pending in leaving:
            results.update(self._taken_apart(own, pending.received))
        return results

    def _owned(self, own: Sequence[int], rank: int) -> List[int]:
        return [i for i in own if self._matrices[i].owner == rank]

    def _send(self, parts: Sequence[torch.Tensor], sizes: Sequence[int], expected: Sequence[int], dtype: torch.dtype) -> _Pending:
        sent = torch.cat([part.reshape(-1) for part in parts]) if parts else torch.empty(0, dtype=dtype)
        received = torch.empty(sum(expected), dtype=dtype)
        work = self._ranks.call(lambda: dist.all_to_all_single(received, sent, list(expected), list(sizes),
                                                               group=self._ranks.group, async_op=True))
        return _Pending(work, received, sent)

    def _to_owners(self, own: Sequence[int], pieces: Dict[int, torch.Tensor], dtype: torch.dtype) -> _Pending:
        me, every = self._ranks.rank, range(self._ranks.size)
        parts = [pieces[i] for rank in every for i in self._owned(own, rank)]
        sizes = [sum(self._matrices[i].size(me) for i in self._owned(own, rank)) for rank in every]
        expected = [sum(self._matrices[i].size(rank) for i in self._owned(own, me)) for rank in every]
        return self._send(parts, sizes, expected, dtype)

    def _put_together(self, own: Sequence[int], received: torch.Tensor) -> Dict[int, torch.Tensor]:
        mine = self._owned(own, self._ranks.rank)
        rows: Dict[int, List[torch.Tensor]] = {i: [] for i in mine}
        at = 0
        for rank in range(self._ranks.size):
            for i in mine:
                size = self._matrices[i].size(rank)
                rows[i].append(received[at:at + size].view(-1, self._matrices[i].cols))
                at += size
        return {i: torch.cat(each) for i, each in rows.items()}

    def _from_owners(self, own: Sequence[int], found: Dict[int, Optional[torch.Tensor]], dtype: torch.dtype) -> _Pending:
        me, every = self._ranks.rank, range(self._ranks.size)
        parts = []
        for rank in every:
            for i in self._owned(own, me):
                begin, end = self._matrices[i].rows[rank]
                matrix = found[i]
                parts.append(torch.zeros((end - begin, self._matrices[i].cols), dtype=dtype) if matrix is None else matrix[begin:end])
        sizes = [sum(self._matrices[i].size(rank) for i in self._owned(own, me)) for rank in every]
        expected = [sum(self._matrices[i].size(me) for i in self._owned(own, rank)) for rank in every]
        return self._send(parts, sizes, expected, dtype)

    def _taken_apart(self, own: Sequence[int], received: torch.Tensor) -> Dict[int, torch.Tensor]:
        results: Dict[int, torch.Tensor] = {}
        at = 0
        for rank in range(self._ranks.size):
            for i in self._owned(own, rank):
                size = self._matrices[i].size(self._ranks.rank)
                results[i] = received[at:at + size].view(-1, self._matrices[i].cols)
                at += size
        return results
