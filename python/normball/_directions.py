"""The transport of the core's peers: directions are broadcast by their owners as they are found, while other LMOs still run."""
from __future__ import annotations

import threading
from typing import Any, List, Optional, Sequence, Tuple

import torch

from ._ranks import Ranks


class Directions:
    """All ranks must call torch.distributed in the same order: a direction is sent when all before it in `order` were."""

    def __init__(self, ranks: Ranks, owners: Sequence[int], order: Sequence[int]) -> None:
        self.rank, self.size, self.owners = ranks.rank, ranks.size, list(owners)
        self._ranks = ranks
        self._order = list(order)
        self._lock = threading.Lock()  # of what follows: found() comes from the core's threads
        self._tensors: List[Optional[torch.Tensor]] = []
        self._found: List[bool] = []
        self._next = 0
        self._sent: List[Any] = []
        self._copies: List[Tuple[torch.Tensor, torch.Tensor]] = []  # what came, and where it has to be
        self._failure: Optional[BaseException] = None

    def gather(self, own: memoryview, every: memoryview) -> None:
        every[:] = b"".join(self._ranks.gather(bytes(own)))

    def start(self, arrays: Sequence[Any]) -> None:
        with self._lock:
            self._ranks.set_activity("the directions")
            self._tensors = [None if array is None else torch.from_numpy(array) for array in arrays]
            self._found = [False] * len(arrays)
            self._next, self._sent, self._copies, self._failure = 0, [], [], None
            self._send_on(False)

    def found(self, layer: int) -> None:
        with self._lock:
            self._found[layer] = True
            self._send_on(False)

    def wait(self) -> None:
        """Sends what was not found as it is, since the step is lost then; returns when all have arrived."""
        with self._lock:
            self._send_on(True)
            sent, self._sent = self._sent, []
            self._tensors = []
            try:
                self._ranks.wait(sent)
                if self._failure is not None:
                    raise self._failure
                for came, to in self._copies:
                    to.copy_(came)
            finally:
                self._copies, self._failure = [], None

    def _send_on(self, all_of_them: bool) -> None:
        """Errors wait for wait(): a thread that finds directions has nobody to raise to."""
        try:
            while self._next < len(self._order) and self._failure is None:
                layer = self._order[self._next]
                tensor = self._tensors[layer]
                if tensor is not None:
                    if self.owners[layer] == self.rank and not self._found[layer] and not all_of_them:
                        return
                    self._send(tensor, self.owners[layer])
                self._next += 1
        except BaseException as error:
            self._failure = error

    def _send(self, tensor: torch.Tensor, owner: int) -> None:
        dense = tensor.contiguous()  # itself, where it is
        if owner != self.rank and dense is not tensor and dense.data_ptr() != tensor.data_ptr():
            self._copies.append((dense, tensor))
        self._sent.append(_Kept(self._ranks.broadcast(dense, owner), dense))


class _Kept:
    """Something under way, with the memory that it needs."""

    def __init__(self, work: Any, tensor: torch.Tensor) -> None:
        self._work, self._tensor = work, tensor

    def wait(self) -> None:
        self._work.wait()
