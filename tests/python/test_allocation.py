"""A step after the first makes no tensor where the core does all of it: the momentum is in the state, and directions are
in the core's own memory, whose allocations allocation_test counts."""
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from normball.torch import ClippedScion, NormBall


class Made(TorchDispatchMode):
    """The operations whose results lie in memory of their own. torch's mark of a step, for its profiler, is left out."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        given, got = ([t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)] for tree in ((args, kwargs), result))
        addresses = {tensor.data_ptr() for tensor in given}
        new = [tensor for tensor in got if tensor.numel() > 1 and tensor.data_ptr() not in addresses]
        self.operations += [str(function) for _ in new if not str(function).startswith("profiler.")]
        return result


def made_by_steps(optimizer, weights):
    for weight in weights:
        weight.grad = torch.rand_like(weight) - 0.5
    for _ in range(2):
        optimizer.step()
    with Made() as made:
        for _ in range(3):
            optimizer.step()
    return made.operations


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("overwrite_gradients", [False, True])
def test_a_step_after_the_first_makes_no_tensor(constrained, overwrite_gradients):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 6, 3), torch.nn.Flatten(), torch.nn.Linear(96, 24), torch.nn.Linear(24, 5))
    optimizer = ClippedScion(net, lr=0.01, alpha=0.1, rho=1, constrained=constrained, overwrite_gradients=overwrite_gradients)
    assert made_by_steps(optimizer, list(net.parameters())) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", ["scion", "clipped_gd", "s3cg"])
def test_nor_with_groups(method, dtype):
    weights = [torch.nn.Parameter(torch.rand(6, 4, dtype=dtype)) for _ in range(2)]
    options = {"clipped_gd": {"rho": 1}, "s3cg": {"rho": 1, "beta": 5}}.get(method, {})
    optimizer = NormBall([{"params": weights[:1]}, {"params": weights[1:], "lr": 0.02}], method, 0.01, **options)
    assert made_by_steps(optimizer, weights) == []


def test_what_counts_sees_tensors():
    weight = torch.nn.Parameter(torch.rand(6, 4))
    optimizer = NormBall([weight], "scion", 0.01, backend="torch")  # by torch operations, which make some
    assert made_by_steps(optimizer, [weight])
