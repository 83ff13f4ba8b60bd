import os
import pathlib
import sys

import pytest

os.environ.setdefault("USE_LIBUV", "0")  # Debian 13's PyTorch asks for it and was built without
sys.path.insert(0, str(pathlib.Path(__file__).parent))

try:
    import torch
except ImportError:  # the package is there without it as well; what needs it is left out
    torch = None
    needing_torch = [path.name for path in pathlib.Path(__file__).parent.glob("test_*.py")
                     if "import torch" in path.read_text()]
    collect_ignore = needing_torch


@pytest.fixture(autouse=True)
def threads_are_left_alone():
    """normball shares OpenMP and BLAS with torch; no test may leave another number of threads behind."""
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def relative_error(got, expected):
    """The largest relative Frobenius error over the tensors."""
    return max((a.detach().double() - b.double()).norm().item() / max(b.double().norm().item(), 1e-300)
               for a, b in zip(got, expected))
