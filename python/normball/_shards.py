"""Parameters of FSDP2: DTensors cut by rows over the ranks of one process group. Any other placement is refused by name."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch

from ._ranks import Ranks


def is_sharded(tensor: Any) -> bool:
    """Whether it is a DTensor, also where torch has none to ask."""
    return hasattr(tensor, "placements") and hasattr(tensor, "to_local")


def local(tensor: Any) -> torch.Tensor:
    """This rank's memory; the tensor itself where it is whole, as every step asks several times for each parameter."""
    if not is_sharded(tensor):
        return tensor
    with torch.no_grad():
        return tensor.to_local()


def rows_of(rows: int, rank: int, size: int) -> Tuple[int, int]:
    """The rows of a rank, as torch.chunk cuts them: the last ranks may have fewer, or none."""
    most = -(-rows // size)
    return min(rank * most, rows), min((rank + 1) * most, rows)


def own_rows(parameter: Any) -> Tuple[int, int]:
    mesh = parameter.device_mesh
    return rows_of(parameter.shape[0], mesh.get_local_rank(), mesh.size())


def refusal(parameter: Any, ranks: Optional[Ranks]) -> Optional[str]:
    """Why a DTensor cannot be stepped; None where it can."""
    if ranks is None:
        return "a DTensor (FSDP2 or tensor parallel)"
    placements, mesh = parameter.placements, parameter.device_mesh
    text = ", ".join(map(str, placements))
    if mesh.ndim != 1:
        return (f"a DTensor on a mesh of {mesh.ndim} dimensions with the placements ({text}), as of HSDP or FSDP with tensor "
                f"parallelism")
    # Subclasses, such as those of strided shards, cut otherwise.
    if type(placements[0]).__name__ != "Shard" or placements[0].dim != 0:
        return f"a DTensor with the placement {text}, as of tensor parallelism"
    if [int(rank) for rank in mesh.mesh.tolist()] != ranks.global_ranks:
        return (f"a DTensor on the ranks {mesh.mesh.tolist()}, and process_group has {ranks.global_ranks}: give the group of its "
                f"mesh, parameter.device_mesh.get_group(),")
    begin, end = own_rows(parameter)
    if tuple(local(parameter).shape) != (end - begin, *parameter.shape[1:]):
        return f"a DTensor whose shard has the shape {list(local(parameter).shape)} where rows {begin} to {end} were expected,"
    return None


def with_shards(parameter: Any, shard: torch.Tensor) -> Any:
    """A DTensor cut as the parameter, of this shard."""
    return type_of_dtensor().from_local(shard, parameter.device_mesh, parameter.placements, run_check=False,
                                        shape=parameter.shape, stride=parameter.stride())


def own_part(parameter: Any, whole: torch.Tensor) -> torch.Tensor:
    """The parameter's rows of a whole tensor."""
    begin, end = own_rows(parameter)
    return whole[begin:end]


def whole(tensor: Any) -> torch.Tensor:
    """All of it, in every rank."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def type_of_dtensor() -> Any:
    try:
        from torch.distributed.tensor import DTensor
    except ImportError:  # before torch 2.5
        from torch.distributed._tensor import DTensor
    return DTensor
