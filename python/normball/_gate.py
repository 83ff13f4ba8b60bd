"""The one gate between torch's tensors and a step: whatever does not fit is refused by name before anything changes."""
from __future__ import annotations

import sys
from typing import Any, List, Optional, Sequence, Tuple

import torch

from . import _shards
from ._ranks import Ranks

_WHOLE = ("a norm needs the whole matrix and a step one s for the whole model; shards are put together for FSDP2's fully_shard on "
          "a mesh of one dimension, with process_group; else use DistributedDataParallel, which keeps parameters whole")


def check_construction(where: str) -> None:
    """Refuses optimizers that give each process a part of the parameters: every process would clip by its own s."""
    module = sys.modules.get("torch.distributed.optim.zero_redundancy_optimizer")
    if module is None:
        return
    frame: Any = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, module.ZeroRedundancyOptimizer) and owner.world_size > 1:
            raise ValueError(f"[{where}] cannot be the optimizer_class of ZeroRedundancyOptimizer on {owner.world_size} "
                             f"processes: each would clip by the s of its own parameters; use {where} itself with "
                             f"DistributedDataParallel")
        frame = frame.f_back


def _distribution(parameter: torch.Tensor, ranks: Optional[Ranks], grouping: bool) -> Optional[str]:
    if _shards.is_sharded(parameter):
        return None if grouping else _shards.refusal(parameter, ranks)
    if getattr(parameter, "_fsdp_flattened", False) or type(parameter).__name__ == "FlatParameter":
        return "a part of FSDP's flat parameter"
    return None


def check_parameter(where: str, name: str, parameter: torch.Tensor, ranks: Optional[Ranks] = None,
                    grouping: bool = False) -> None:
    """Refuses tensors that cannot be stepped, with these ranks; or, if they are only grouped, with any."""
    if not isinstance(parameter, torch.Tensor):
        return  # torch has an error for it
    if torch.nn.parameter.is_lazy(parameter):
        raise ValueError(f"[{where}] '{name}' has no shape yet: run a batch through the model before creating the optimizer")
    if not parameter.is_floating_point():
        raise ValueError(f"[{where}] '{name}' is {parameter.dtype}; parameters must be real floating-point tensors")
    distribution = _distribution(parameter, ranks, grouping)
    if distribution is not None:
        raise ValueError(f"[{where}] '{name}' is {distribution}: {_WHOLE}")
    if parameter.layout != torch.strided:
        raise ValueError(f"[{where}] '{name}' is {parameter.layout}; parameters must be dense: use .to_dense()")
    if parameter.device.type == "meta":
        raise ValueError(f"[{where}] '{name}' is on the device 'meta' and has no data: use .to_empty(device='cpu') and "
                         f"initialize it")
    if parameter.is_inference():
        raise ValueError(f"[{where}] '{name}' was created in inference mode, where nothing is trained: create it outside, or "
                         f"use .clone()")
    if _overlaps_itself(parameter):
        raise ValueError(f"[{where}] several elements of '{name}' share memory (expand, as_strided): use .clone()")


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements are one. Where every stride steps over all smaller ones they are not; others are tried out."""
    if tensor.numel() == 0 or tensor.is_contiguous():
        return False
    extent, apart = 1, True
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size > 1):
        apart = apart and stride >= extent
        extent += stride * (size - 1)
    return not apart and torch.arange(extent).as_strided(tensor.shape, tensor.stride()).unique().numel() < tensor.numel()


def check_memory(where: str, name: str, parameter: torch.Tensor) -> None:
    own = _shards.local(parameter)
    if own.numel() > 0 and own.data_ptr() == 0:
        raise ValueError(f"[{where}] '{name}' has no memory: its storage was freed")


def checked_gradient(where: str, name: str, parameter: torch.Tensor) -> Optional[torch.Tensor]:
    """The gradient, in a form that can be read element by element."""
    gradient = parameter.grad
    if gradient is None:
        return None
    if _shards.is_sharded(parameter) or _shards.is_sharded(gradient):
        sides = [tuple(map(str, each.placements)) if _shards.is_sharded(each) else "whole" for each in (gradient, parameter)]
        if sides[0] != sides[1]:
            raise ValueError(f"[{where}] the gradient of '{name}' has the placements {sides[0]}, the parameter {sides[1]}: it "
                             f"must be reduced and cut as its parameter, as fully_shard does")
        gradient, parameter = _shards.local(gradient), _shards.local(parameter)
    if gradient.layout != torch.strided:
        raise ValueError(f"[{where}] the gradient of '{name}' is sparse; norms need all of it: use "
                         f"nn.Embedding(..., sparse=False)")
    if gradient.shape != parameter.shape:
        raise ValueError(f"[{where}] the gradient of '{name}' is {list(gradient.shape)}, the parameter "
                         f"{list(parameter.shape)}: it is from before the parameter's data was replaced; call zero_grad()")
    if gradient.device != parameter.device:
        raise ValueError(f"[{where}] the gradient of '{name}' is on {gradient.device}, the parameter on "
                         f"{parameter.device}: move both")
    if not gradient.is_floating_point():
        raise ValueError(f"[{where}] the gradient of '{name}' is {gradient.dtype}; it must be real and floating-point")
    return gradient.detach().resolve_conj().resolve_neg()


def _is_dense(value: Any) -> bool:
    return (isinstance(value, torch.Tensor) and value.is_floating_point() and value.layout == torch.strided
            and value.device.type != "meta")


def check_state(where: str, name: str, parameter: torch.Tensor, state: Any) -> None:
    if not isinstance(state, dict):
        raise ValueError(f"[{where}] the state of '{name}' must be a dict, got {type(state).__name__}")
    basis = state.get("basis")
    if basis is not None and not (isinstance(basis, (list, tuple)) and all(_is_dense(each) for each in basis)):
        raise ValueError(f"[{where}] the basis of '{name}' in the optimizer's state must be a list of dense floating-point "
                         f"tensors, got {type(basis).__name__}; start without it by optimizer.state[p].pop('basis')")
    for key in ("momentum", "start"):
        if key in state:
            _check_buffer(where, name, parameter, key, state[key])


def _check_buffer(where: str, name: str, parameter: torch.Tensor, key: str, buffer: Any) -> None:
    if _shards.is_sharded(parameter) or _shards.is_sharded(buffer):
        if not (_shards.is_sharded(parameter) and _shards.is_sharded(buffer)):
            which = "a DTensor, the parameter is not" if _shards.is_sharded(buffer) else "not a DTensor, the parameter is"
            raise ValueError(f"[{where}] the {key} of '{name}' is {which}: load what consolidate_state() returns, with "
                             f"load_state_dict()")
        buffer, parameter = _shards.local(buffer), _shards.local(parameter)
    if not _is_dense(buffer):
        got = f"{buffer.dtype}, {buffer.layout}, {buffer.device}" if isinstance(buffer, torch.Tensor) else (
            type(buffer).__name__)
        raise ValueError(f"[{where}] the {key} of '{name}' in the optimizer's state must be a dense floating-point tensor, "
                         f"got {got}")
    if _overlaps_itself(buffer):
        raise ValueError(f"[{where}] several elements of the {key} of '{name}' share memory (expand): use .clone()")
    if buffer.shape != parameter.shape:
        raise ValueError(f"[{where}] the {key} of '{name}' is {list(buffer.shape)}, the parameter "
                         f"{list(parameter.shape)}, whose data was replaced: give optimizer.state[p]['{key}'] the new "
                         f"shape, or start without it by optimizer.state.pop(p)")


def _span(tensor: torch.Tensor) -> Tuple[int, int]:
    """The addresses of a dense tensor; only the first address of any other, since views may interleave."""
    first = tensor.data_ptr()
    return first, first + (tensor.numel() * tensor.element_size() if tensor.is_contiguous() else 1)


def check_parameters_apart(where: str, held: Sequence[Tuple[str, torch.Tensor]]) -> None:
    """Refuses Parameters that share memory in part; a Parameter that is listed twice is the same one."""
    spans = sorted(((*_span(_shards.local(p)), name, id(p)) for name, p in held if _shards.local(p).numel() > 0), key=lambda span: span[:2])
    for (_, end, name, own), (start, _, other, its) in zip(spans, spans[1:]):
        if start < end and own != its:
            raise ValueError(f"[{where}] '{name}' and '{other}' are two Parameters on the same memory, each with a gradient of "
                             f"its own; tie weights by using one Parameter in both places")


def check_gradients_apart(where: str, read: Sequence[Tuple[str, torch.Tensor]],
                          written: Sequence[Tuple[str, str, torch.Tensor]]) -> None:
    """Refuses a gradient on memory that the step writes to, unless it is the weight of its own parameter, as that of
    ||x||^2 / 2 is: each element is then read before it is written."""
    spans: List[Tuple[int, int, str, str]] = []
    for name, gradient in read:
        spans.append((*_span(gradient), "gradient", name))
    for what, name, tensor in written:
        spans.append((*_span(tensor), what, name))
    spans.sort()
    reach: List[Tuple[int, int, str, str]] = []
    for span in spans:
        start, _, what, name = span
        reach = [other for other in reach if other[1] > start]
        for first, _, other_what, other_name in reach:
            own_weight = name == other_name and start == first and {what, other_what} == {"weight", "gradient"}
            if what != other_what and "gradient" in (what, other_what) and not own_weight:
                raise ValueError(f"[{where}] the {other_what} of '{other_name}' and the {what} of '{name}' share memory, which "
                                 f"the step writes to: give each its own, such as a .clone()")
        reach.append(span)


def check_apart(where: str, held: Sequence[Tuple[str, torch.Tensor, torch.Tensor]]) -> None:
    """Refuses a momentum that shares memory with a parameter or another momentum: a step writes to all of them."""
    spans: List[Tuple[int, int, str, bool]] = []
    for name, parameter, momentum in held:
        if parameter.numel() > 0:
            spans.append((*_span(parameter), f"'{name}' itself", False))
            spans.append((*_span(momentum), f"the momentum of '{name}'", True))
    spans.sort()
    for (_, end, what, is_momentum), (start, _, other, other_is_momentum) in zip(spans, spans[1:]):
        if start < end and (is_momentum or other_is_momentum):
            raise ValueError(f"[{where}] {what} and {other} share memory; a step writes to both: give "
                             f"optimizer.state[p]['momentum'] a tensor of its own, such as a .clone()")
