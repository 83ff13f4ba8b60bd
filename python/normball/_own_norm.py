"""Norms that torch operations ask for their LMO: a user's object, and those of the core that torch does not have."""
from __future__ import annotations

from typing import Any, Sequence, Tuple

import torch

from . import _core


def pairing_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() * b.double()).sum()


class PythonNorm:
    """A user's norm on one matrix of a parameter: an object with lmo(d), and optionally norm(x) and dual_norm(d)."""

    def __init__(self, norm: Any, parameter: str, shape: Sequence[int]) -> None:
        self._norm = norm
        self._where = type(norm).__name__
        self._parameter = parameter
        self._shape = tuple(shape)

    def direction(self, d: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        given = d.reshape(self._shape)
        x = self._norm.lmo(given.clone())
        if not isinstance(x, torch.Tensor) or x.shape != given.shape:
            got = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"[{self._where}.lmo] must return a tensor of d's shape {list(given.shape)} for "
                             f"'{self._parameter}', got {got}")
        u = -x.detach().to(d.device, d.dtype).reshape(d.shape)
        if not hasattr(self._norm, "dual_norm"):
            return u, pairing_of(d, u)
        return u, self._number("dual_norm", self._norm.dual_norm(given), d)

    def check(self, d: torch.Tensor, u: torch.Tensor, pairing: float, dual: float) -> None:
        """Refuses values that no ball around 0 can give."""
        eps = 64 * torch.finfo(d.dtype).eps
        if pairing < 0 and -pairing > eps * float(torch.linalg.vector_norm(d) * torch.linalg.vector_norm(u)):
            raise ValueError(f"[{self._where}.lmo] returned x with <d, x> = {-pairing:.6g} for '{self._parameter}'; a "
                             f"minimizer over a ball has <d, x> <= 0: is its minus sign missing?")
        if dual < 0 and hasattr(self._norm, "dual_norm"):
            raise ValueError(f"[{self._where}.dual_norm] must not be negative, got {dual:.6g} for '{self._parameter}'")

    def norm(self, x: torch.Tensor, needed: bool) -> torch.Tensor:
        if hasattr(self._norm, "norm"):
            return self._number("norm", self._norm.norm(x.reshape(self._shape)), x)
        if needed:
            raise ValueError(f"[{self._where}] the norm of '{self._parameter}' is needed here: define norm(x) "
                             f"beside lmo(d)")
        return self._number("norm", float("nan"), x)

    def _number(self, function: str, value: Any, like: torch.Tensor) -> torch.Tensor:
        try:
            return torch.as_tensor(value, dtype=torch.float64, device=like.device).detach().reshape(())
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"[{self._where}.{function}] must return one number for '{self._parameter}', got {value!r}") from None


class CoreNorm:
    """A norm of the core that torch operations do not have: on the CPU and in double."""

    def __init__(self, text: str, shape: _core.Shape) -> None:
        self._text, self._shape = text, shape

    def lmo(self, d: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(_core.block_lmo(self._matrix(d), self._text, self._shape)).reshape(d.shape)

    def norm(self, x: torch.Tensor) -> float:
        return _core.block_norm(self._matrix(x), self._text, self._shape)

    def _matrix(self, x: torch.Tensor) -> Any:
        return x.detach().to("cpu", torch.float64).contiguous().view(self._shape.rows, self._shape.cols).numpy()
