"""PyTorch optimizers that step on norm balls: ClippedScion, Scion, and every other method of normball by name.

    d <- alpha g + (1 - alpha) d            momentum, in state[p]["momentum"]
    v <- -r lmo(d)  or  W - r lmo(d)        unconstrained, or constrained to the balls
    s <- sum over all parameters <d, v>     one number for the whole model
    W <- W - (lr / rho) eta(s) v            eta = min(rho, s) where clipped, rho where not

Contiguous float32 and float64 tensors on the CPU (and channels_last convolutions) are stepped in place by the C++ core,
with the GIL released; all others in torch operations with the same results up to rounding. A model may mix them: there
is one s.
"""
from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import nn

from . import _core, _options
from ._core import NonFiniteError
from ._fallback import FallbackPart, compute_dtype
from ._native import Entry, NativePart, is_native
from ._routing import entry_lr, named_groups, route_groups

__all__ = ["ClippedScion", "LayerReport", "NonFiniteError", "NormBall", "Scion", "StepReport", "method_names",
           "named_groups"]

Params = Union[nn.Module, Iterable[torch.Tensor], Iterable[Tuple[str, torch.Tensor]], Iterable[Dict[str, Any]]]
Rules = Mapping[str, Mapping[str, Any]]


def method_names() -> List[str]:
    """The methods that NormBall knows."""
    return _core.method_names()


@dataclass(frozen=True)
class LayerReport:
    """One matrix of the model in the last step."""
    name: str
    pairing: float  # <d, v>
    dual_norm: float  # r ||d||*
    weight_norm: float  # ||W|| / r before the step


@dataclass(frozen=True)
class StepReport:
    """What the last step did."""
    step: int  # k, from 0
    s: float  # the pairing <d, v> of the whole model; unconstrained, the dual norm of d
    eta: float
    gamma: float  # lr / rho, with the largest lr of all groups
    lr: float
    clipped: bool  # eta was cut at rho
    skipped: bool = False  # a gradient was not finite, and nothing was done
    nonfinite: Optional[str] = None  # then: the parameter
    layers: Tuple[LayerReport, ...] = ()  # with layer_reports=True


class NormBall(torch.optim.Optimizer):
    """Any method of normball by name, as a PyTorch optimizer.

    Args:
        params: tensors, ``model.named_parameters()``, parameter groups, or a module. Names and modules let
            ``norm="auto"`` see what a parameter is. Group keys: ``params``, ``lr``, ``norm``, ``role``, ``radius``,
            ``split``, ``batch``, ``names``, ``kinds``.
        method: see ``method_names()``.
        lr: gamma rho, the longest step relative to the balls. At most 1 where constrained. Not needed by ``"cg"`` and
            ``"adaptive_sd"``, whose steps it scales.
        alpha: weight of the newest gradient in the momentum, in (0, 1].
        rho, beta, l0, l1, short_step: as the method needs them.
        norm: by name, ``"auto"`` chooses; see ``explain()``.
        role: ``"input"``, ``"onehot"``, ``"hidden"``, ``"output"`` or ``"bias"`` instead of a norm.
        radius: of the balls; without it ``radii`` by role, which are 1 unless given.
        split: cuts matrices, each with a norm of its own: 3 (fused QKV), ``[768, 256, 256]`` rows, ``"columns(12)"``.
        batch: number of leading dimensions that count matrices, such as experts.
        rules: ``{"*.qkv.weight": {"split": 3}}``: what parameters get by the pattern of their names. Later rules win.
        solver: how the spectral norms that routing chooses find UV^T.
        maximize: ascend instead. Costs a copy of each gradient.
        nonfinite: ``"error"`` raises NonFiniteError on NaN or infinity in a gradient, ``"skip"`` skips the step.
            Weights and momentum stay as they were either way.
        threads: 0 takes OpenMP's number. Results do not depend on it.
        overwrite_gradients: lets gradients hold the directions afterwards, which saves a buffer for spectral layers.
        layer_reports: fills ``report.layers``.
        backend: ``"torch"`` uses torch operations for everything.

    ``report`` tells what the last step did. A parameter without a gradient takes no part in a step.
    """

    report: Optional[StepReport]

    def __init__(self, params: Params, method: str, lr: Optional[float] = None, *, alpha: float = 1.0,
                 rho: Optional[float] = None, beta: Optional[float] = None, l0: Optional[float] = None,
                 l1: Optional[float] = None, short_step: str = "plain", norm: str = "auto",
                 role: Optional[str] = None, radius: Optional[float] = None,
                 split: Union[None, int, str, Sequence[int]] = None, batch: Optional[int] = None,
                 rules: Optional[Rules] = None, radii: Optional[Mapping[str, float]] = None, solver: str = "exact",
                 maximize: bool = False, nonfinite: str = "error", threads: int = 0,
                 overwrite_gradients: bool = False, layer_reports: bool = False, backend: str = "auto") -> None:
        where = type(self).__name__
        if lr is None:
            if method in _core.method_names() and method not in ("cg", "adaptive_sd"):
                raise ValueError(f"[{where}] the method '{method}' needs lr")
            lr = 1.0
        if backend not in ("auto", "torch"):
            raise ValueError(f"[{where}] backend must be 'auto' or 'torch', got {backend!r}")
        if not isinstance(threads, int) or threads < 0:
            raise ValueError(f"[{where}] threads must be 0 or the number of threads, got {threads!r}")
        self._execution = {"threads": threads, "overwrite_gradients": overwrite_gradients,
                           "layer_reports": layer_reports, "backend": backend}
        self._forget()
        defaults = dict(method=method, lr=lr, alpha=alpha, rho=rho, beta=beta, l0=l0, l1=l1, short_step=short_step,
                        norm=norm, role=role, radius=radius, split=split, batch=batch,
                        rules={pattern: dict(then) for pattern, then in (rules or {}).items()},
                        radii=dict(radii or {}), solver=solver, maximize=maximize, nonfinite=nonfinite, step=0)
        _options.check_lr(where, _options.check_shared(where, defaults), defaults, 0)
        self._complete = False
        self._first_lrs: List[float] = []  # of the groups: rules with an lr are relative to them
        super().__init__(named_groups(params) if isinstance(params, nn.Module) else _options.as_groups(params), defaults)
        self._complete = True
        self._routing()

    def _forget(self) -> None:
        """Drops what follows from the groups and the state; the next step makes it again."""
        self._parts: List[Union[NativePart, FallbackPart]] = []
        self._snapshot: Any = None
        self._numbers: Any = None
        self.report = None

    def __getstate__(self) -> Dict[str, Any]:
        state = super().__getstate__()
        state["_execution"] = self._execution
        state["_complete"] = True
        state["_first_lrs"] = list(self._first_lrs)
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)
        self._forget()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Adds a group; on an error the optimizer is as before."""
        where = type(self).__name__
        index = len(self.param_groups)
        group = _options.normalized_group(where, param_group, index)
        for key in _options.SHARED:
            if key in group and index > 0 and group[key] == self.param_groups[0][key]:
                continue
            if key in group and group[key] != self.defaults[key]:
                raise ValueError(f"[{where}] {key} belongs to the whole optimizer, since one step has one s; group "
                                 f"{index} must not set it to {group[key]!r}")
        if index > 0:  # schedules may have moved on
            group.update({key: self.param_groups[0][key] for key in _options.SHARED})
        super().add_param_group(group)
        try:
            added = self.param_groups[index]
            self._first_lrs[index:] = [_options.check_lr(where, self._method(), added, index)]
            _options.assignment(added)
            if self._complete:
                self._routing()
        except Exception:
            del self.param_groups[index]
            raise

    def _method(self) -> _core.Method:
        return _options.make_method(type(self).__name__, self.param_groups[0])

    def _routing(self, model: Optional[nn.Module] = None, grad_clip: float = 0.0) -> _core.Routing:
        return route_groups(type(self).__name__, self._method(), self.param_groups, model, grad_clip)

    def explain(self, model: Optional[nn.Module] = None, grad_clip: float = 0.0) -> str:
        """A table of all parameters: shape, norm, radius and why, then warnings.

        With the model, names and kinds come from it, and parameters that no group has are shown. ``grad_clip`` is the
        norm to which you clip gradients yourself, if you do.
        """
        return self._routing(model, grad_clip).explain()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Loads what state_dict() gave: momentum, options and the count of steps. On an error nothing changes."""
        self._check_state_dict(state_dict)
        super().load_state_dict(state_dict)
        # torch casts state to the parameter's type; the momentum of half-precision parameters is float32.
        indices = [i for group in state_dict["param_groups"] for i in group["params"]]
        parameters = [p for group in self.param_groups for p in group["params"]]
        for index, parameter in zip(indices, parameters):
            saved = state_dict["state"].get(index, {}).get("momentum")
            if saved is not None and saved.dtype != parameter.dtype:
                self.state[parameter]["momentum"] = saved.detach().clone().to(parameter.device, compute_dtype(parameter))

    def _check_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        where = type(self).__name__
        groups = state_dict["param_groups"]
        for index, group in enumerate(groups):
            missing = [key for key in _options.SHARED + _options.OWN if key not in group]
            if missing:
                raise ValueError(f"[{where}] the state dict's group {index} has no '{missing[0]}': it is of another "
                                 f"optimizer")
            if group["method"] != self.defaults["method"]:
                raise ValueError(f"[{where}] the state dict is of the method '{group['method']}', this optimizer is "
                                 f"'{self.defaults['method']}'; to load it all the same, change 'method', and the "
                                 f"options it needs, in the state dict's param_groups")
        if [len(group["params"]) for group in groups] != [len(group["params"]) for group in self.param_groups]:
            return  # torch has an error for it
        saved_ids = [i for group in groups for i in group["params"]]
        named = [pair for group in self.param_groups for pair in zip(group["names"], group["params"])]
        for index, (name, parameter) in zip(saved_ids, named):
            momentum = state_dict["state"].get(index, {}).get("momentum")
            if momentum is not None and momentum.shape != parameter.shape:
                raise ValueError(f"[{where}] the state dict's momentum of '{name}' is {list(momentum.shape)}; the "
                                 f"parameter is {list(parameter.shape)}")

    def _take_snapshot(self) -> List[Any]:
        """All that routes and buffers depend on."""
        snapshot: List[Any] = []
        for group in self.param_groups:
            snapshot.append([group[key] for key in _options.SHARED if key != "step" and key not in _options.NUMBERS])
            snapshot.append([group[key] for key in _options.OWN if key != "lr"])
            snapshot.append([(id(p), p.dtype, p.device, p.shape, p.stride(), p.requires_grad) for p in group["params"]])
        return snapshot

    def _refresh(self) -> _core.Method:
        """The method as the groups have it now; makes the parts again if that or a tensor's form has changed."""
        snapshot = self._take_snapshot()
        numbers = [[group[key] for key in _options.NUMBERS] for group in self.param_groups]
        if snapshot == self._snapshot and numbers == self._numbers:
            return self._current
        where = type(self).__name__
        _options.check_agreement(where, self.param_groups)
        method = _options.check_shared(where, self.param_groups[0])
        if snapshot != self._snapshot:
            self._make_parts(method)
            self._snapshot = copy.deepcopy(snapshot)
        for part in self._parts:
            part.set_method(method)
        self._current, self._numbers = method, numbers
        return method

    def _make_parts(self, method: _core.Method) -> None:
        """Hands each parameter to the core or to torch operations."""
        owners = [(p, index) for index, group in enumerate(self.param_groups) for p in group["params"]]
        native: Dict[torch.dtype, List[Entry]] = {}
        fallback: List[Entry] = []
        for (parameter, index), route in zip(owners, self._routing().routes):
            if not route.blocks:  # tied to an earlier one
                continue
            entry = Entry(parameter, route, index)
            if self._execution["backend"] == "auto" and is_native(parameter, route):
                native.setdefault(parameter.dtype, []).append(entry)
            else:
                fallback.append(entry)
        reports = self._execution["layer_reports"]
        self._parts = [NativePart(method, entries, self.state, self._execution["threads"],
                                  self._execution["overwrite_gradients"], reports) for entries in native.values()]
        if fallback:
            self._parts.append(FallbackPart(method, fallback, self.state, reports))

    def _gradient(self, entry: Entry) -> Optional[torch.Tensor]:
        gradient = entry.parameter.grad
        if gradient is None:
            return None
        if gradient.is_sparse or gradient.layout != torch.strided:
            raise ValueError(f"[{type(self).__name__}] the gradient of '{entry.route.name}' is sparse; norms need all of "
                             f"it: use nn.Embedding(..., sparse=False)")
        return gradient.neg() if self.param_groups[0]["maximize"] else gradient

    def _first_nonfinite(self, gradients: Sequence[Sequence[Optional[torch.Tensor]]]) -> Optional[str]:
        for part, own in zip(self._parts, gradients):
            for entry, gradient in zip(part.entries, own):
                if gradient is not None and not bool(torch.isfinite(gradient).all()):
                    return entry.route.name
        return None

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:  # type: ignore[override]
        """One step. The closure, if given, reevaluates the model; its loss is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        method = self._refresh()
        lrs = [_options.check_lr(type(self).__name__, method, group, index)
               for index, group in enumerate(self.param_groups)]
        gradients = [[self._gradient(entry) for entry in part.entries] for part in self._parts]
        if all(gradient is None for own in gradients for gradient in own):
            return loss
        k = self.param_groups[0]["step"]
        try:
            # A part checks its own gradients before it changes anything; several must be checked together.
            if len(self._parts) > 1 or isinstance(self._parts[0], FallbackPart):
                name = self._first_nonfinite(gradients)
                if name is not None:
                    raise NonFiniteError(f"[{type(self).__name__}] the gradient of '{name}' has an entry that is not "
                                         f"finite")
            prepared = [part.prepare(own, [self._lr(entry, method, lrs) for entry in part.entries])
                        for part, own in zip(self._parts, gradients)]
            s, shares = method.combine_duals([pairing for pairing, _ in prepared])
            eta = method.eta(s, method.combine_norms([length for _, length in prepared]), k)
            gamma = max(lrs) / method.rho
            if not gamma * eta < float("inf"):
                raise ValueError(f"[{type(self).__name__}] s = {s} and the step {gamma * eta} are not finite")
            for part, share in zip(self._parts, shares):
                part.apply(eta * share)
        except NonFiniteError as error:
            self._abandon()
            if self.param_groups[0]["nonfinite"] == "error":
                raise
            name = str(error).partition("gradient of '")[2].rpartition("' has an entry")[0]
            self.report = StepReport(k, 0.0, 0.0, max(lrs) / method.rho, max(lrs), False, True, name)
            return loss
        except Exception:
            self._abandon()
            raise
        layers = ()
        if self._execution["layer_reports"]:
            layers = tuple(LayerReport(*row) for part in self._parts for row in part.layers())
        self.report = StepReport(k, s, eta, gamma, max(lrs), method.is_clipped(eta), layers=layers)
        for group in self.param_groups:
            group["step"] = k + 1
        return loss

    def _lr(self, entry: Entry, method: _core.Method, lrs: Sequence[float]) -> float:
        return entry_lr(type(self).__name__, method, entry.route, lrs[entry.group], self._first_lrs[entry.group])

    def _abandon(self) -> None:
        for part in self._parts:
            part.abandon()


class ClippedScion(NormBall):
    """Algorithm 3 (unconstrained, the default) or 4 (constrained): the step of Scion, clipped at s = rho.

    ``short_step`` is for the constrained method: ``"plain"`` clips s itself, as in the paper's experiments;
    ``"norm"`` and ``"diameter"`` are its variants 1 and 2. All other options are those of NormBall.

    >>> optimizer = ClippedScion(model, lr=1e-3, alpha=0.1, rho=100, radii={"hidden": 50, "output": 3000})
    """

    def __init__(self, params: Params, lr: float, alpha: float, rho: float, constrained: bool = False,
                 short_step: str = "plain", **options: Any) -> None:
        method = "clipped_scion" if constrained else "unconstrained_clipped_scion"
        super().__init__(params, method, lr, alpha=alpha, rho=rho, short_step=short_step, **options)


class Scion(NormBall):
    """Scion: v = -r lmo(d) times lr; constrained, with the weights drawn into their balls.

    Options are those of NormBall.
    """

    def __init__(self, params: Params, lr: float, alpha: float, constrained: bool = False, **options: Any) -> None:
        method = "scion" if constrained else "unconstrained_scion"
        super().__init__(params, method, lr, alpha=alpha, **options)
