"""Optimizers that step on norm balls: linear minimization oracles and norms on NumPy arrays.

``normball.torch`` has the optimizers for PyTorch; importing ``normball`` alone does not import torch.

A norm is given by name, with options in brackets: ``"spectral"``, ``"spectral(input, solver=muon)"``, ``"sign"``,
``"sign(unit)"``, ``"row"``, ``"col(transposed)"``, ``"rms"``, ``"euclidean"``; ``"auto"`` is spectral for matrices and
convolutions and rms for vectors; or by role: ``"input"``, ``"onehot"``, ``"hidden"``, ``"output"``, ``"bias"``. Arrays
with more than two dimensions are convolution weights ``(out, in, k...)``.
"""
from __future__ import annotations

from typing import Any, Optional, Sequence, Union

from ._environment import suited_to_this_processor

with suited_to_this_processor():
    import numpy as np
    import numpy.typing as npt

    from . import _core
    from ._core import NonFiniteError, __version__

__all__ = ["NonFiniteError", "__version__", "dual_norm", "get_num_threads", "initialize", "lmo", "norm",
           "set_num_threads", "sharp"]


def checked_seed(function: str, seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ValueError(f"[{function}] seed must be an integer from 0 to 2**64 - 1, got {seed!r}")
    return int(seed)


def _check_names(function: str, norm: Any, solver: Any = None) -> None:
    if not isinstance(norm, str):
        raise ValueError(f"[{function}] norm is a name such as 'spectral' or 'sign', got {norm!r}")
    if solver is not None and not isinstance(solver, str):
        raise ValueError(f"[{function}] solver is a name such as 'exact' or 'muon', got {solver!r}")


def _matrix(function: str, name: str, value: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"[{function}] {name} is not an array of numbers: {error}") from None
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"[{function}] {name} is a masked array; norms need every entry: fill it with .filled(0)")
    if array.dtype not in (np.float32, np.float64):
        raise ValueError(f"[{function}] {name} must be float32 or float64, got {array.dtype}; "
                         f"convert it with .astype(numpy.float32)")
    return np.ascontiguousarray(array).reshape(array.shape)


def lmo(d: npt.ArrayLike, norm: str = "auto", solver: Optional[str] = None) -> npt.NDArray[Any]:
    """The linear minimization oracle: a minimizer of <d, x> over ||x|| <= 1 (which includes the minus sign).

    ``lmo(0) = 0``. ``solver`` chooses how the spectral norm computes UV^T: ``"exact"`` (default), ``"damped"``, ``"svd"``,
    ``"muon"``, ``"polar_express"``, ``"power(rank=8)"``, ...

    >>> lmo(np.array([[3.0, 0.0], [0.0, -2.0]]), norm="spectral")
    array([[-1.,  0.],
           [ 0.,  1.]])
    """
    _check_names("lmo", norm, solver)
    return _core.lmo(_matrix("lmo", "d", d), norm, solver)


def sharp(d: npt.ArrayLike, norm: str = "auto", solver: Optional[str] = None) -> npt.NDArray[Any]:
    """The sharp operator -||d||* lmo(d): the maximizer of <d, x> - ||x||^2 / 2."""
    _check_names("sharp", norm, solver)
    return _core.sharp(_matrix("sharp", "d", d), norm, solver)


def norm(x: npt.ArrayLike, norm: str = "auto") -> float:
    """||x|| in the named norm."""
    _check_names("norm", norm)
    return _core.norm(_matrix("norm", "x", x), norm)


def dual_norm(d: npt.ArrayLike, norm: str = "auto") -> float:
    """||d||*, the largest <d, x> over ||x|| <= 1: equal to -<d, lmo(d)> with the exact solver."""
    _check_names("dual_norm", norm)
    return _core.dual_norm(_matrix("dual_norm", "d", d), norm)


def initialize(shape: Union[int, Sequence[int]], norm: str = "auto", radius: float = 1.0, seed: int = 0,
               dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    """A random weight with ||x|| = radius: semi-orthogonal, normalized Gaussian or random signs. Vectors are 0."""
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        wanted = None
    if wanted not in (np.float32, np.float64):
        raise ValueError(f"[initialize] dtype must be float32 or float64, got {dtype!r}")
    _check_names("initialize", norm)
    if isinstance(radius, (str, bytes)):
        raise ValueError(f"[initialize] radius must be a number, got {radius!r}")
    sizes = shape if isinstance(shape, (list, tuple, np.ndarray)) else [shape]
    if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0 for n in sizes):
        raise ValueError(f"[initialize] shape must be an integer or several, none negative, got {shape!r}")
    x = np.empty(shape, dtype)
    _core.initialize(x, norm, float(radius), checked_seed("initialize", seed))
    return x


def get_num_threads() -> int:
    """The number of threads of the functions in this module: that of set_num_threads(), or else OpenMP's."""
    return _core.get_num_threads()


def set_num_threads(threads: int) -> None:
    """Sets the number of threads of normball in this process; 0 returns to the default of OpenMP and torch.

    An optimizer with its own ``threads`` keeps them. The numbers of torch and OpenMP themselves do not change.
    """
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or not 0 <= threads <= _core.MOST_THREADS:
        raise ValueError(f"[set_num_threads] threads must be an integer from 0 to {_core.MOST_THREADS}, got {threads!r}")
    _core.set_num_threads(int(threads))
