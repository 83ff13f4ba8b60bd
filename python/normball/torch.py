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

from typing import Any, List, Optional, Union

from torch import nn

from . import _core, _initialize, _options
from ._average import Averaged
from ._core import NonFiniteError
from ._norm_ball import NormBall, Params
from ._ranks import RanksError
from ._report import LayerReport, StepReport
from ._routing import named_groups
from ._tune import TunedPoint, Tuning, tune

__all__ = ["Averaged", "ClippedScion", "LayerReport", "NonFiniteError", "NormBall", "RanksError", "Scion", "StepReport", "TunedPoint",
           "Tuning", "initialize_", "method_names", "named_groups", "scale_into_balls_", "tune"]

Averaged.__module__ = __name__
RanksError.__module__ = __name__
Tuning.__module__ = TunedPoint.__module__ = __name__
NormBall.__module__ = __name__  # where it is public, and where pickles look for it


def method_names() -> List[str]:
    """The names of the methods that NormBall accepts."""
    return _core.method_names()


_ROUTING = ("norm", "role", "radius", "split", "batch", "rules", "radii")


def initialize_(target: Union[NormBall, nn.Module], seed: int = 0, **options: Any) -> None:
    """Puts the weights on the spheres of their norms in place: ||W|| = radius. Biases become 0; gains, other vectors
    and frozen parameters (without requires_grad) do not change.

    Uses the optimizer's norms and radii, or for a module those that an optimizer would choose with these options:
    ``radii``, ``rules``, ``norm``, ``role``, ``radius``, ``split``, ``batch``. A module's buffers, and parameters that
    the optimizer does not have, do not change.

    >>> optimizer = ClippedScion(model, lr=0.01, alpha=0.1, rho=100, constrained=True)
    >>> initialize_(optimizer, seed=0)
    """
    if isinstance(target, nn.Module):
        _options.check_keywords("initialize_", {key: options[key] for key in options if key not in _ROUTING}, _ROUTING)
        target = type("initialize_", (NormBall,), {})(target, "ucg", 1.0, **options)  # whose errors have this name
    elif not isinstance(target, NormBall):
        raise ValueError(f"[initialize_] takes an optimizer of normball.torch or a module, got {type(target).__name__}")
    elif options:
        raise ValueError(f"[initialize_] an optimizer has its own norms and radii; got {', '.join(options)}")
    _initialize.initialize_entries("initialize_", target._entries(), seed)


def scale_into_balls_(optimizer: NormBall) -> float:
    """Scales every weight outside its ball to the sphere, in place; returns the previous product norm max ||W|| / radius.

    For weights that start outside, where a clipped step of a constrained method cannot move them. Frozen parameters
    (without requires_grad) do not change and do not count.
    """
    if not isinstance(optimizer, NormBall):
        raise ValueError(f"[scale_into_balls_] takes an optimizer of normball.torch, got {type(optimizer).__name__}")
    return _initialize.scale_into_balls("scale_into_balls_", optimizer._entries())


class ClippedScion(NormBall):
    """Algorithm 3 (unconstrained, the default) or 4 (constrained): the step of Scion, clipped at s = rho.

    ``short_step`` is for the constrained method: ``"plain"`` clips s itself, as in the paper's experiments;
    ``"norm"`` and ``"diameter"`` are its variants 1 and 2. With ``rho="auto"`` the threshold is the (lower) median of the last 100 s
    above 0 (the stepsize ``"auto_clipped"``), and ``report.rho`` tells it. All other options are those of NormBall.

    >>> optimizer = ClippedScion(model, lr=1e-3, alpha=0.1, rho=100, radii={"hidden": 50, "output": 3000})
    """

    def __init__(self, params: Params, lr: float, alpha: float, rho: Union[float, str], constrained: bool = False,
                 short_step: str = "plain", **options: Any) -> None:
        where = type(self).__name__
        if isinstance(rho, str):
            if rho != "auto" or short_step != "plain" or "stepsize" in options:
                raise ValueError(f"[{where}] rho must be a number, or 'auto' with the plain short_step and no stepsize, got {rho!r}")
            method = "scion" if _options.boolean(where, "constrained", constrained) else "unconstrained_scion"
            super().__init__(params, method, lr, alpha=alpha, stepsize="auto_clipped", **options)
            return
        method = "clipped_scion" if _options.boolean(where, "constrained", constrained) else "unconstrained_clipped_scion"
        super().__init__(params, method, lr, alpha=alpha, rho=rho, short_step=_options.name(where, "short_step", short_step),
                         **options)


class Scion(NormBall):
    """Scion: steps v = -r lmo(d) times lr; if constrained, the weights are also drawn into their balls.

    Options are those of NormBall.
    """

    def __init__(self, params: Params, lr: Optional[float] = None, alpha: Optional[float] = None, constrained: bool = False,
                 **options: Any) -> None:
        where = type(self).__name__
        if alpha is None:
            raise ValueError(f"[{where}] needs alpha, the weight of the newest gradient in the momentum")
        method = "scion" if _options.boolean(where, "constrained", constrained) else "unconstrained_scion"
        super().__init__(params, method, lr, alpha=alpha, **options)
