"""The processes that take a step together, on torch.distributed: messages, agreement, and what is known of one that is lost."""
from __future__ import annotations

import hashlib
import json
import struct
import time
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

import torch
import torch.distributed as dist

from ._core import NonFiniteError

Facts = Sequence[Tuple[str, str]]  # what must be the same in all ranks, by name
Result = TypeVar("Result")

OPERATIONS = ("step()", "consolidate_state()")
_PATIENCE = 3.0  # seconds that the others get to say that they, too, have lost somebody
_HEAD = struct.Struct("<BBBBxxxx16s")


class RanksError(RuntimeError):
    """Another rank has failed, is at something else, or does not answer. The text names it and says why, if that is known."""


class _Head(NamedTuple):
    """What every rank says before anything is changed."""
    operation: int
    failed: int
    nonfinite: int
    compare: int
    digest: bytes


def _digest(data: Any) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def tensor_digest(tensor: torch.Tensor) -> bytes:
    return _digest(tensor.detach().contiguous().view(-1).numpy().data)


class KeptFacts:
    """Those that stay from step to step."""

    def __init__(self, facts: Facts = ()) -> None:
        self.facts = list(facts)
        self.digest = _digest(json.dumps(self.facts).encode())


def _serves_cpus(group: Any) -> bool:
    if hasattr(group, "_get_backend"):
        try:
            group._get_backend(torch.device("cpu"))
            return True
        except RuntimeError:
            return False
    return dist.get_backend(group) != "nccl"


class Ranks:
    """A process group. All ranks call the same functions in the same order; ranks are those of the group."""

    def __init__(self, where: str, group: Any) -> None:
        remedy = "such as torch.distributed.group.WORLD after init_process_group()"
        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError(f"[{where}] process_group needs torch.distributed: call init_process_group() first")
        outside = dist.distributed_c10d.GroupMember.NON_GROUP_MEMBER  # an object, and -100 since torch 2.0
        if group is outside or isinstance(group, int) and group == outside:
            raise ValueError(f"[{where}] this process, rank {dist.get_rank()}, is not in the process_group: only its members may "
                             f"have an optimizer with it")
        if isinstance(group, (bool, str, int)):
            raise ValueError(f"[{where}] process_group must be a process group, {remedy}, got {group!r}")
        try:
            self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        except (AttributeError, RuntimeError, TypeError, ValueError):
            raise ValueError(f"[{where}] process_group must be a process group, {remedy}, got {group!r}") from None
        if not _serves_cpus(group):
            raise ValueError(f"[{where}] the process_group's backend, {dist.get_backend(group)}, sends no CPU tensors: use gloo")
        self.group = group
        self.global_ranks = [dist.get_global_rank(group, rank) if hasattr(dist, "get_global_rank")
                             else dist.distributed_c10d._get_global_rank(group, rank) for rank in range(self.size)]
        self._where = where
        self._round = 0  # agreements so far
        self._activity = "the start"

    def call(self, operation: Callable[[], Result]) -> Result:
        """An operation of torch.distributed; its errors say which rank is missing."""
        try:
            return operation()
        except RuntimeError as error:
            raise RanksError(f"[{self._where}] {self._explain(str(error))}") from error

    def set_activity(self, activity: str) -> None:
        """What this rank is at, for its messages if another does not answer."""
        self._activity = activity

    def gather(self, own: bytes) -> List[bytes]:
        """The bytes of every rank, in their order; each gives as many."""
        mine = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        every = [torch.empty_like(mine) for _ in range(self.size)]
        self.call(lambda: dist.all_gather(every, mine, group=self.group))
        return [each.numpy().tobytes() for each in every]

    def gather_numbers(self, own: torch.Tensor) -> torch.Tensor:
        """A row of float64 for each rank."""
        if own.numel() == 0:
            return own.new_zeros((self.size, 0))
        every = [torch.empty_like(own) for _ in range(self.size)]
        self.call(lambda: dist.all_gather(every, own, group=self.group))
        return torch.stack(every)

    def gather_texts(self, own: str) -> List[str]:
        """Texts of any length."""
        text = own.encode()
        sizes = [int.from_bytes(each, "little") for each in self.gather(len(text).to_bytes(8, "little"))]
        every = self.gather(text.ljust(max([*sizes, 1])))
        return [each[:size].decode() for each, size in zip(every, sizes)]

    def broadcast(self, tensor: torch.Tensor, source: int) -> Any:
        """Of a contiguous tensor, under way."""
        return self.call(lambda: dist.broadcast(tensor, self.global_ranks[source], group=self.group, async_op=True))

    def wait(self, works: Sequence[Any]) -> None:
        """For all, so that none writes to its memory later; then raises the first error."""
        first: Optional[RuntimeError] = None
        for work in works:
            try:
                work.wait()
            except RuntimeError as error:
                first = first or error
        if first is not None:
            raise RanksError(f"[{self._where}] {self._explain(str(first))}") from first

    def agree(self, operation: str, kept: KeptFacts, facts: Facts, failure: Optional[BaseException],
              compare: bool = False) -> bool:
        """Raises in all ranks if one has failed, or is at something else; whether one wants to compare tensors."""
        self._round += 1
        self.set_activity(f"the start of {operation}")
        own = _Head(OPERATIONS.index(operation), failure is not None, isinstance(failure, NonFiniteError), compare,
                    _digest(kept.digest + json.dumps(facts).encode()))
        heads = [_Head(*_HEAD.unpack(each)) for each in self.gather(_HEAD.pack(*own))]
        at = next((rank for rank, head in enumerate(heads) if head.operation != heads[0].operation), None)
        if at is not None:
            raise RanksError(f"[{self._where}] rank {at} is at {OPERATIONS[heads[at].operation]}, rank 0 at "
                             f"{OPERATIONS[heads[0].operation]}: all ranks must call the same")
        self.raise_first([bool(head.failed) for head in heads], failure, [bool(head.nonfinite) for head in heads])
        if any(head.digest != heads[0].digest for head in heads):
            raise RanksError(f"[{self._where}] {self._difference([*kept.facts, *facts])}")
        return any(head.compare for head in heads)

    def raise_first(self, failed: Sequence[bool], failure: Optional[BaseException], nonfinite: Sequence[bool]) -> None:
        """The failure of the first rank that has one, in all of them; a rank's own is raised as it is."""
        if not any(failed):
            return
        at = list(failed).index(True)
        name = getattr(failure, "parameter", None) or ""
        text, parameter = json.loads(self.gather_texts(json.dumps(["" if failure is None else str(failure), name]))[at])
        text = f"[{self._where}] rank {at}: {text.replace(f'[{self._where}] ', '', 1)}"
        if nonfinite[at]:  # the same in all, since all may skip it
            error = NonFiniteError(text)
            error.parameter = parameter or None  # type: ignore[attr-defined]
            raise error from failure
        if failure is not None:
            raise failure
        raise RanksError(text)

    def _difference(self, facts: Facts) -> str:
        """Between rank 0 and the first that differs."""
        every = [[tuple(fact) for fact in json.loads(text)] for text in self.gather_texts(json.dumps(facts))]
        rank = next(rank for rank, other in enumerate(every) if other != every[0])
        for ours, theirs in zip(every[0], every[rank]):
            if ours != theirs:
                same = ours[0] == theirs[0]
                return (f"rank {rank} has {theirs[0]} {theirs[1]}, rank 0 has {'' if same else ours[0] + ' '}{ours[1]}: all ranks "
                        f"must take the same step")
        return f"rank {rank} has {len(every[rank])} parameters and settings, rank 0 {len(every[0])}"

    def _store(self) -> Any:
        return dist.distributed_c10d._get_default_store()

    def _key(self, what: str, offset: int = 0) -> str:
        return f"normball/{'.'.join(map(str, self.global_ranks))}/{self._round + offset}/{what}"

    def fail(self, reason: str) -> None:
        """Tells the others why this rank leaves a step that they are waiting in. Only the first reason counts."""
        try:
            store = self._store()
            if store.add(self._key("failures"), 1) == 1:
                store.set(self._key("failure"), f"rank {self.rank}: {reason}"[:2000])
                store.add(self._key("told"), self.rank + 1)
        except Exception:  # the store is gone, and with it those who would read
            pass

    def _explain(self, error: str) -> str:
        """Who ended, and why, as far as the store tells. Rank 0, which may hold the store, is the last to go."""
        at = f", while rank {self.rank} was at {self._activity} ({error.strip().splitlines()[0] if error.strip() else 'no text'})"
        last = self.global_ranks[self.rank] == 0
        reason: Optional[str] = None
        silent: Optional[List[int]] = None
        try:
            store = self._store()
            store.add(self._key(f"lost/{self.rank}"), 1)
            end = time.monotonic() + _PATIENCE
            while silent is None or silent and time.monotonic() < end:
                silent = [rank for rank in range(self.size)
                          if all(store.add(self._key(f"lost/{rank}", offset), 0) == 0 for offset in (0, 1, -1))]
                for offset in (0, -1):
                    teller = store.add(self._key("told", offset), 0) - 1
                    if teller >= 0:
                        reason = store.get(self._key("failure", offset)).decode()
                        silent = [rank for rank in silent if rank != teller]
                        break
                if reason is not None and not last:
                    return reason
                time.sleep(0.02)
        except Exception:  # the store is gone, perhaps with a rank that was less patient
            if silent is None:
                return f"the process where all meet (rank 0, or its launcher) ended or does not answer{at}"
        if reason is not None:
            return reason
        if not silent:
            return f"a connection was lost{at}"
        return f"{', '.join(f'rank {rank}' for rank in silent)} ended or does not answer{at}"
