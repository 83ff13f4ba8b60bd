"""NormBall: parameter groups, what stays the same from step to step, and the step; normball.torch has the rest."""
from __future__ import annotations

import inspect
import threading
import warnings
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import nn

from . import _core, _facts, _gate, _initialize, _joint, _options, _sharing, _shards, _state
from ._core import NonFiniteError
from ._explain import explain_model
from ._fallback import FallbackPart, check_solver
from ._line_search import Search, begin_search, check_closure
from ._native import Entry, NativePart, is_native
from ._ranks import Ranks, RanksError
from ._report import StepReport
from ._routing import entry_lr, kinds_with_heads, module_groups, route_groups
from ._sharded_part import ShardedPart

Params = Union[nn.Module, Iterable[torch.Tensor], Iterable[Tuple[str, torch.Tensor]], Iterable[Dict[str, Any]]]
Rules = Mapping[str, Mapping[str, Any]]


class NormBall(torch.optim.Optimizer):
    """Any method of normball by name, as a PyTorch optimizer.

    Args:
        params: tensors, ``model.named_parameters()``, parameter groups, or a module. Names and modules let
            ``norm="auto"`` see what a parameter is. Group keys: ``params``, ``lr``, ``norm``, ``role``, ``radius``,
            ``split``, ``batch``, ``param_names``, ``kinds``, ``aliases``.
        method: see ``method_names()``.
        lr: gamma rho, the longest step relative to the balls. At most 1 where constrained. Not needed by ``"cg"``,
            ``"adaptive_sd"`` and the stepsize ``"distance_aware"``, whose steps it scales.
        alpha: weight of the newest gradient in the momentum, in (0, 1].
        rho, beta, l0, l1: as the method needs them. What it does not use is an error.
        stepsize: a rule that finds it by what it sees, for ``"scion"`` and other methods whose steps all have the length lr:
            ``"adagrad"``, ``"distance_aware(most=0.01)"``, ``"auto_clipped"``, or ``"momo"``, which needs ``step(loss=loss)``.
        line_search: ``"backtracking"`` or ``"smoothness"``: every step tries its length by the loss, which ``step(closure)`` has.
        short_step: of ``"clipped_scion"``: ``"plain"`` (the default), ``"norm"`` or ``"diameter"``; of ``"s3cg"``:
            ``"norm"`` (the default) or ``"diameter"``.
        norm: by name, ``"auto"`` chooses; see ``explain()``. Or an object of your own with ``lmo(d)``, a minimizer of
            <d, x> over the unit ball, on tensors; where short steps or reports need them also ``norm(x)`` and
            ``dual_norm(d)``. It is stepped in torch operations.
        role: ``"input"``, ``"onehot"``, ``"hidden"``, ``"output"`` or ``"bias"`` instead of a norm.
        radius: of the balls; without it ``radii`` by role, which are 1 unless given, or with ``"auto"`` chosen by depth and fan-in.
        split: cuts matrices, each with a norm of its own: 3 (fused QKV), ``[768, 256, 256]`` rows, ``"columns(12)"``.
        batch: number of leading dimensions that count matrices, such as experts.
        rules: ``{"*.qkv.weight": {"split": 3}}``: what parameters get by the pattern of their names. Later rules win.
        solver: how spectral norms that do not name a solver of their own find UV^T.
        maximize: ascend instead. Costs a copy of each gradient.
        nonfinite: ``"error"`` raises NonFiniteError on NaN or infinity in a gradient, ``"skip"`` skips the step.
            Weights and momentum stay as they were either way.
        threads: 0 takes that of ``normball.set_num_threads``, or else torch's. Results do not depend on it.
        overwrite_gradients: lets gradients hold the directions afterwards, which saves a buffer for spectral layers.
        layer_reports: fills ``report.layers``.
        backend: ``"torch"`` uses torch operations for everything.
        process_group: of torch.distributed, such as ``torch.distributed.group.WORLD``: its ranks share the LMOs, and take every
            step together. For parameters that are replicated with averaged gradients (DistributedDataParallel), and for
            those of FSDP2's ``fully_shard``. Without it every rank of a replicated model computes everything itself.

    ``report`` tells what the last step did. A parameter without a gradient takes no part in a step.
    """

    report: Optional[StepReport]
    _current: _core.Method
    def __init__(self, params: Params, method: str, lr: Optional[float] = None, *, alpha: float = 1.0,
                 rho: Optional[float] = None, beta: Optional[float] = None, l0: Optional[float] = None,
                 l1: Optional[float] = None, short_step: Optional[str] = None, stepsize: Optional[str] = None,
                 line_search: Optional[str] = None, norm: Any = "auto", role: Optional[str] = None, radius: Optional[float] = None,
                 split: Union[None, int, str, Sequence[int]] = None, batch: Optional[int] = None,
                 rules: Optional[Rules] = None, radii: Union[None, str, Mapping[str, float]] = None, solver: str = "exact",
                 maximize: bool = False, nonfinite: str = "error", threads: int = 0,
                 overwrite_gradients: bool = False, layer_reports: bool = False, backend: str = "auto",
                 process_group: Any = None, **unknown: Any) -> None:
        where = type(self).__name__
        _options.check_keywords(where, unknown, _KEYWORDS)
        _gate.check_construction(where)
        if lr is None:
            if method in _core.method_names() and _core.needs_lr(method, stepsize):
                raise ValueError(f"[{where}] the method '{method}' needs lr")
            lr = 1.0
        self._execution: Dict[str, Any] = {"threads": threads, "overwrite_gradients": overwrite_gradients,
                                           "layer_reports": layer_reports, "backend": backend}  # _options.EXECUTION
        _options.check_execution(where, **self._execution)
        self._shared = None if process_group is None else _sharing.SharedSteps(where, process_group)
        self._forget()
        defaults = dict(method=method, lr=lr, alpha=alpha, rho=rho, beta=beta, l0=l0, l1=l1, short_step=short_step,
                        stepsize=stepsize, line_search=line_search, norm=norm, role=role, radius=radius, split=split, batch=batch,
                        rules={} if rules is None else rules, radii={} if radii is None else radii, solver=solver,
                        maximize=maximize, nonfinite=nonfinite, step=0, stepsize_memory=[])
        _options.check_lr(where, _options.check_shared(where, defaults, overwrite_gradients), defaults, 0)
        defaults.update(rules={pattern: dict(then) for pattern, then in defaults["rules"].items()},
                        radii=defaults["radii"] if defaults["radii"] == "auto" else dict(defaults["radii"]))
        self._complete = False
        super().__init__(self._groups_of(params), defaults)
        self._complete = True
        self._check_entries()

    def _ranks(self) -> Optional[Ranks]:
        return None if self._shared is None else self._shared.ranks

    def _groups_of(self, params: Params) -> Any:
        where = type(self).__name__
        groups = module_groups(where, params) if isinstance(params, nn.Module) else _options.as_groups(where, params)
        if isinstance(params, nn.Module) and not groups[0]["params"]:
            raise ValueError(f"[{where}] the module {type(params).__name__} has no parameters")
        return groups

    def _forget(self) -> None:
        """Drops what follows from the groups and the state; the next step makes it again."""
        self._parts: List[_joint.Part] = []
        self._described: Dict[int, Any] = {}
        self._snapshot: Any = None
        self._numbers: Any = None
        self._keys: Any = None
        self._apart: Any = None
        self._warned = False
        if self._shared is not None:
            self._shared.forget()
        self._lock = getattr(self, "_lock", None) or threading.RLock()
        self._remembers = _joint.remembering(self.__dict__.get("param_groups"))
        self.report = None

    def __getstate__(self) -> Dict[str, Any]:
        if self._shared is not None:
            raise ValueError(f"[{type(self).__name__}] with process_group cannot be copied or pickled: create another, and "
                             f"load what consolidate_state() returns")
        state = super().__getstate__()
        state["_execution"] = self._execution
        state["_complete"] = True
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)
        self._shared: Optional[_sharing.SharedSteps] = getattr(self, "_shared", None)
        _state.upgrade(self.param_groups, self.__dict__.pop("_first_lrs", ()))
        _state.unwrap(self.state)
        self._forget()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Adds a group; on an error the optimizer is as before."""
        where = type(self).__name__
        index = len(self.param_groups)
        group = _options.normalized_group(where, param_group, index, self._ranks())
        for key in _options.SHARED:
            if key in group and index > 0 and group[key] == self.param_groups[0][key]:
                continue
            if key in group and group[key] != self.defaults[key]:
                raise ValueError(f"[{where}] {key} belongs to the whole optimizer, since one step has one s; group "
                                 f"{index} must not set it to {group[key]!r}")
        if index > 0:  # schedules may have moved on
            group.update({key: self.param_groups[0][key] for key in _options.SHARED})
        kinds = kinds_with_heads(self._routing(), self.param_groups) if self._complete and self.param_groups[0]["step"] > 0 else []
        before = [dict(other) for other in self.param_groups]
        named = _options.name_all([*self.param_groups, group])
        try:
            for other, own in zip(self.param_groups, kinds):
                other.update(own)
            super().add_param_group(group)
            added = self.param_groups[index]
            lr = _options.check_lr(where, self._method(), added, index)
            added.setdefault("first_lr", lr)  # rules with an lr are relative to it
            _options.assignment(where, f"group {index}", added)
            if self._complete:
                self._check_entries()
            if kinds:
                self._described = _options.described(self.param_groups[:index])
        except Exception:
            del self.param_groups[index:]
            for other in named:
                del other["param_names"]
            for other, own in zip(self.param_groups, before):
                other.update({"kinds": own["kinds"]} if "kinds" in own else {})
            raise

    def _method(self) -> _core.Method:
        return _options.make_method(type(self).__name__, self.param_groups[0])

    def _routing(self, grad_clip: float = 0.0) -> _core.Routing:
        return route_groups(type(self).__name__, self._method(), self.param_groups, grad_clip)

    def explain(self, model: Optional[nn.Module] = None, grad_clip: float = 0.0) -> str:
        """A table of all parameters: shape, norm, radius and why, then warnings. It is what step() uses.

        With the model, parameters also have its names, and those that no group has are shown; give the model to the
        constructor to let it choose norms. ``grad_clip`` is the norm to which you clip gradients yourself, if you do.
        """
        _options.check_complete(type(self).__name__, self.param_groups)
        routing = self._routing(_options.number(f"{type(self).__name__}.explain", "grad_clip", grad_clip))
        return routing.explain() if model is None else explain_model(type(self).__name__, routing, self.param_groups, model)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Loads what state_dict() gave: momentum, options and the count of steps. On an error nothing changes."""
        with self._lock:
            _state.load(self, state_dict, super().load_state_dict)

    def state_dict(self, *arguments: Any, **options: Any) -> Dict[str, Any]:
        """As of every torch optimizer. With process_group, of replicated parameters, only after consolidate_state()."""
        if self._shared is not None:
            self._shared.check_whole()
        return super().state_dict(*arguments, **options)

    @torch.no_grad()
    def consolidate_state(self) -> Dict[str, Any]:
        """The state dict with every momentum whole, in all ranks, all of which must call it; load_state_dict() takes it on any
        number of ranks, and without process_group. Momenta of replicated parameters stay in all ranks until the next step."""
        if self._shared is None:
            return self.state_dict()
        with self._lock:
            self._shared.consolidate(self._refresh, lambda: self._parts, self.state)
            return _state.whole(self.state_dict())

    def _threads(self) -> int:
        """Of the core: what this optimizer says, else normball.set_num_threads(), else torch.

        Not OpenMP's own number: torch may bring a runtime that is not the core's.
        """
        return self._execution["threads"] or _core.chosen_threads() or min(torch.get_num_threads(), _core.MOST_THREADS)

    def _refresh(self) -> _core.Method:
        """The method as the groups have it now; makes the parts again if that or a tensor's form has changed."""
        _options.check_complete(type(self).__name__, self.param_groups)
        keys = [tuple(group) for group in self.param_groups]
        if keys != self._keys:
            _options.check_keys_now(type(self).__name__, self.param_groups)
            self._keys = keys
        snapshot = [self._threads(), *_facts.snapshot(self.param_groups)]
        numbers = [[_options.frozen(group[key]) for key in _options.NUMBERS] for group in self.param_groups]
        if snapshot == self._snapshot and numbers == self._numbers:
            return self._current
        method = _options.check_groups(type(self).__name__, self.param_groups, self._execution["overwrite_gradients"])
        if snapshot != self._snapshot:
            self._make_parts(method)
            self._snapshot = snapshot
        for part in self._parts:
            part.set_method(method)
        self._current, self._numbers = method, numbers
        return method

    def _entries(self) -> List[Entry]:
        """The parameters that are stepped, each once."""
        where = type(self).__name__
        owners = [(p, index) for index, group in enumerate(self.param_groups) for p in group["params"]]
        names = [name for own in _options.names_of(where, self.param_groups) for name in own]
        for (parameter, _), name in zip(owners, names):
            _gate.check_parameter(where, name, parameter, self._ranks())
            _gate.check_memory(where, name, parameter)
        _gate.check_parameters_apart(where, [(name, parameter) for (parameter, _), name in zip(owners, names)])
        routes = self._routing().routes
        # A route without blocks is tied to an earlier one.
        return [Entry(parameter, route, index) for (parameter, index), route in zip(owners, routes) if route.blocks]

    def _in_core(self, entry: Entry) -> bool:
        return not _shards.is_sharded(entry.parameter) and self._execution["backend"] == "auto" and is_native(entry.parameter, entry.route)

    def _check_entries(self) -> List[Entry]:
        """The parameters that are stepped, after the checks of what only their routes tell."""
        where, method = type(self).__name__, self._method()
        lrs = [_options.check_lr(where, method, group, index) for index, group in enumerate(self.param_groups)]
        entries = self._entries()
        for entry in entries:
            self._lr(entry, method, lrs)
            if self._shared is not None:
                _sharing.check_entry(where, entry, self._execution, method, self._searches())
            if method.constrained:
                entry.route.require_lmo(where)
            if not self._in_core(entry):
                check_solver(where, entry)
        return entries

    def _make_parts(self, method: _core.Method) -> None:
        """Hands each parameter to the core or to torch operations."""
        native: Dict[torch.dtype, List[Entry]] = {}
        sharded: Dict[torch.dtype, List[Entry]] = {}
        fallback: List[Entry] = []
        entries = self._check_entries()
        described = _options.described(self.param_groups)
        _options.check_order(type(self).__name__, self._described, described)
        for entry in entries:
            if self._in_core(entry):
                native.setdefault(entry.parameter.dtype, []).append(entry)
            elif self._shared is not None:  # all others were refused
                sharded.setdefault(entry.parameter.dtype, []).append(entry)
            else:
                fallback.append(entry)
        reports = self._execution["layer_reports"]
        # Torch operations first: they can fail, a user's norm above all, and change nothing before apply().
        self._parts = [FallbackPart(method, fallback, reports)] if fallback else []
        self._parts += [ShardedPart(method, own, reports, self._shared.ranks, self._threads) for own in sharded.values()
                        if self._shared is not None]
        undoable = len(self._parts) + len(native) > 1 or self._searches()  # after directions another part, or a trial, may fail
        self._parts += [NativePart(method, own, self._threads(), self._execution["overwrite_gradients"], reports, undoable,
                                   self._ranks()) for own in native.values()]
        self._described = described
        if self._shared is not None:
            self._shared.plan(self.param_groups, entries, self._execution["overwrite_gradients"])
        self._order = {block.name: i for i, block in enumerate(b for entry in entries for b in entry.route.blocks)}

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None, *, loss: Any = None) -> Any:  # type: ignore[override]
        """One step. The closure, if given, reevaluates the model; its loss is returned. Threads take their turns.

        ``loss``, of all ranks together, is for a stepsize that needs it (``"momo"``); a closure returns it. With ``line_search``
        the closure computes the loss anew at every trial: as for torch's LBFGS with zero_grad() and backward(), or without, or
        after backward() beside ``loss``; then trials are forward passes. It must be a function of the weights alone.
        """
        if self._searches():
            with self._lock:
                given, search = begin_search(type(self).__name__, self.param_groups, closure, loss, self._ranks())
                self._step(given, search)
            return given
        of_closure = None
        check_closure(type(self).__name__, closure, loss)
        if closure is not None:
            with torch.enable_grad():
                of_closure = closure()
        with self._lock:
            self._step(loss if closure is None else of_closure)
        return of_closure

    def _get_ready(self, given_loss: Any, searches: bool) -> Optional[_joint.Ready]:
        """All checks that need no other rank; None where no parameter has a gradient."""
        where, method = type(self).__name__, self._refresh()
        lrs = [_options.check_lr(where, method, group, index) for index, group in enumerate(self.param_groups)]
        gradients = _joint.gradients_of(where, self._parts, self.state, self.param_groups[0]["maximize"])
        if all(gradient is None for own in gradients for gradient in own):
            return None
        self._apart = _joint.check_apart(where, self._parts, gradients, self.state, self._apart)
        k = _options.next_step(where, self.param_groups)
        lr = max(lrs)  # every parameter has its factor of it
        factors = [[self._lr(entry, method, lrs) / lr if lr > 0 else 1.0 for entry in part.entries] for part in self._parts]
        # A part of the core checks its own gradients before it changes anything; several must be checked together.
        if len(self._parts) > 1 or not isinstance(self._parts[0], NativePart):
            _joint.check_finite(where, self._parts, gradients, self.state)
        loss = _joint.loss_for(where, method, given_loss, searches)
        memory = _joint.memory_of(where, method, self.param_groups, self._remembers)
        return _joint.Ready(method, gradients, k, lrs, factors, loss, memory, self.param_groups[0]["maximize"])

    def _step(self, given_loss: Any, search: Optional[Search] = None) -> None:
        shared = self._shared
        ready: Optional[_joint.Ready] = None
        try:
            ready = self._get_ready(given_loss, search is not None) if shared is None else shared.get_ready(
                lambda: self._get_ready(given_loss, search is not None), lambda: self._parts, self.param_groups, self.state)
            if ready is None:
                return
            method, k, lr = ready.method, ready.k, max(ready.lrs)
            joint = _joint.prepare(type(self).__name__, self._parts, ready, self.state, search, self.report)
            for part, share in zip(self._parts, joint.shares):
                part.apply(joint.eta * share)
        except NonFiniteError as error:
            self._skip(error, ready)
            return
        except BaseException as error:
            self._abandon()
            if shared is not None and ready is not None and not isinstance(error, RanksError):
                shared.ranks.fail(f"{type(error).__name__}: {error}")
            raise
        if shared is not None:
            shared.finish(self._parts, ready, self.state)
        layers = _joint.layer_reports(self._parts, self._order) if self._execution["layer_reports"] else ()
        self.report = StepReport(k, joint.pairing, joint.eta, lr / method.rho, lr, joint.clipped, layers=layers,
                                 stalled=joint.stalled, rho=joint.rho, search=getattr(joint, "report", None))
        self._remembers = _joint.remember(self.param_groups, k, joint.memory)
        if (joint.stalled or joint.standstill) and not self._warned:
            text = _initialize.stall(self._entries(), joint.pairing) if joint.stalled else _initialize.standstill(
                self._entries(), joint.standstill)
            self._warned = bool(joint.stalled or text)
            if text:
                warnings.warn(f"[{type(self).__name__}] {text}", stacklevel=3)

    def _skip(self, error: NonFiniteError, ready: Optional[_joint.Ready]) -> None:
        """A gradient, s or the step is not finite: nothing was done."""
        self._abandon()
        name = getattr(error, "parameter", None) or _joint.named(self._parts, str(error))
        if name is None and ready is not None:
            name = _joint.first_nonfinite(self._parts, ready.gradients, self.state, all_of_it=True)
        error.parameter = name  # type: ignore[attr-defined]
        if self.param_groups[0]["nonfinite"] == "error":
            raise error
        lr = max(float(group["lr"]) for group in self.param_groups)
        self.report = StepReport(self.param_groups[0]["step"], 0.0, 0.0, lr / self._current.rho, lr, False, True, name)

    def _searches(self) -> bool:
        return bool(self.param_groups) and self.param_groups[0].get("line_search") is not None

    def _lr(self, entry: Entry, method: _core.Method, lrs: Sequence[float]) -> float:
        first = float(self.param_groups[entry.group]["first_lr"])
        return entry_lr(type(self).__name__, method, entry.route, lrs[entry.group], first)

    def _abandon(self) -> None:
        for part in self._parts:
            part.abandon()


_KEYWORDS = [name for name, each in inspect.signature(NormBall.__init__).parameters.items()
             if each.kind is inspect.Parameter.KEYWORD_ONLY]
