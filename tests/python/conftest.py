import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True)
def threads_are_left_alone():
    """normball shares OpenMP and BLAS with torch; no test may leave another number of threads behind."""
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def relative_error(got, expected):
    """The largest relative Frobenius error over the tensors."""
    return max((a.detach().double() - b.double()).norm().item() / max(b.double().norm().item(), 1e-300)
               for a, b in zip(got, expected))
