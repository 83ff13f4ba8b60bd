"""What a step did."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from ._core import SearchReport


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
    clipped: bool  # the method clips, and eta was cut at rho
    skipped: bool = False  # a gradient, or s, was not finite, and nothing was done
    nonfinite: Optional[str] = None  # then: the parameter
    stalled: bool = False  # s < 0, so the step is 0: weights outside their balls, see scale_into_balls_()
    rho: float = 0.0  # that the method clips with, also where its stepsize finds it; 0 where it does not clip, not yet, or was skipped
    layers: Tuple[LayerReport, ...] = ()  # with layer_reports=True
    search: Optional[SearchReport] = None  # with line_search: step, loss after it, slope, evaluations, accepted
