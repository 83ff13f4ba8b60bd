"""tune(): on problems whose best stepsizes are known in closed form, on small networks, and used wrongly."""
import functools
import itertools
import math
import random

import pytest
import torch
from normball.torch import Averaged, ClippedScion, NormBall, Scion, Tuning, tune
from torch import nn


class Point(nn.Module):
    """x, from which f(x) = L ||x - 1||^2 / 2 is minimized."""

    def __init__(self, smoothness=1.0, size=4, start=10.0):
        super().__init__()
        self.x = nn.Parameter(torch.full((size,), start, dtype=torch.float64))
        self.smoothness = smoothness

    def loss(self, step=0):
        return self.smoothness * ((self.x - 1) ** 2).sum() / 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 3))
        self.inputs = torch.randn(40, 8, 6)
        self.targets = (self.inputs[..., :3] + 0.3 * self.inputs[..., 3:]).argmax(-1)

    def loss(self, step):
        return nn.functional.cross_entropy(self.layers(self.inputs[step % 40]), self.targets[step % 40])


def tune_net(net, make, **options):
    return tune(net, net.loss, make, **{"steps": 30, **options})


def text_of(result):
    return "\n".join(result.remarks)


@pytest.mark.parametrize("smoothness", [0.02, 1.0, 200.0])
def test_the_step_of_gradient_descent_is_one_over_the_smoothness(smoothness):
    """Each step multiplies the error by 1 - lr L: of all that was tried, the best has the smallest |1 - lr L|."""
    point = Point(smoothness)
    result = tune(point, point.loss, functools.partial(NormBall, point, "gd"), steps=8)
    tried = {each.lr for each in result.curve}
    assert result.lr == min(tried, key=lambda lr: abs(1 - lr * smoothness))
    assert 0.5 < result.lr * smoothness < 1.5
    assert "may lie beyond" not in text_of(result)
    assert "noise" not in text_of(result), "the same loss in every repeat"


def test_losses_are_those_of_the_closed_form():
    point = Point(0.5)
    result = tune(point, point.loss, functools.partial(NormBall, point, "gd"), steps=8, repeats=1)
    assert len(result.curve) > 4
    for each in result.curve:
        ends = [0.25 * 4 * 81 * (1 - 0.5 * each.lr) ** (2 * k) for k in range(8)]
        if math.isfinite(each.loss):
            assert each.loss == pytest.approx(sum(ends[6:]) / 2, rel=1e-9)
        else:
            assert max(ends) > 3 * ends[0], each
    assert "nothing is known of chance" in text_of(result)


@pytest.mark.parametrize("smoothness", [0.1, 30.0])
@pytest.mark.parametrize("norm", ["euclidean", "sign"])
def test_rho_of_a_quadratic(norm, smoothness):
    """Steps that are all as long cannot converge: with clipping lr / rho must not exceed what is stable, nor be far below."""
    point = Point(smoothness, start=7.3)
    result = tune(point, point.loss, functools.partial(ClippedScion, point, alpha=1.0, norm=norm), steps=30)
    stable = 2 / (smoothness * (1 if norm == "euclidean" else 4))  # in the sign norm s is the sum over 4 equal entries
    assert stable / 8 < result.lr / result.rho < stable
    assert result.loss < 1e-4 * point.loss().item()
    assert any(each.stage == "rho" for each in result.curve)


def test_a_constrained_method_is_asked_for_lr_up_to_1():
    point = Point(start=0.0)
    result = tune(point, point.loss, functools.partial(Scion, point, alpha=1.0, constrained=True, norm="sign", radius=0.5),
                  lr=0.3, steps=12)
    assert max(each.lr for each in result.curve) == 1
    assert result.lr == 1, "the best of the ball is its corner, which the first step of length 1 reaches"
    assert "largest that is allowed" in text_of(result)


OPTIMIZERS = {
    "clipped": lambda net: functools.partial(ClippedScion, net, alpha=0.3),
    "clipped-auto": lambda net: functools.partial(ClippedScion, net, alpha=0.3, rho="auto"),
    "scion": lambda net: functools.partial(Scion, net, alpha=0.3),
    "constrained": lambda net: functools.partial(Scion, net, alpha=0.3, constrained=True, radii={"hidden": 3, "output": 9}),
    "momo": lambda net: functools.partial(Scion, net, alpha=0.3, stepsize="momo"),
    "distance": lambda net: functools.partial(Scion, net, alpha=0.3, stepsize="distance_aware"),
    "averaged": lambda net: lambda lr: Averaged(Scion(net, lr=lr, alpha=0.3), "ema(0.9)"),
    "adamw": lambda net: functools.partial(torch.optim.AdamW, list(net.parameters())),
    "sgd": lambda net: lambda lr: torch.optim.SGD(net.parameters(), lr, momentum=0.9),
    "lbfgs": lambda net: functools.partial(torch.optim.LBFGS, list(net.parameters()), max_iter=3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_learns_and_everything_is_put_back(name):
    net = Net()
    net.layers[4].eval()
    net.loss(0).backward()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    gradients = [(p.grad, p.grad.clone()) for p in net.parameters()]
    random.seed(3)
    torch.manual_seed(3)
    rng, python_rng = torch.get_rng_state(), random.getstate()
    result = tune_net(net, OPTIMIZERS[name](net))
    assert isinstance(result, Tuning) and result.loss < 0.9 * result.curve[0].losses[0] or result.loss < 1.0
    assert (result.rho is not None) == (name == "clipped")
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key]), key
    for p, (grad, value) in zip(net.parameters(), gradients):
        assert p.grad is grad and torch.equal(grad, value)
    assert torch.equal(torch.get_rng_state(), rng) and random.getstate() == python_rng
    assert net.training and not net.layers[4].training
    assert f"lr={result.lr:.3g}" in str(result) and "spent:" in str(result) and "best" in str(result)
    again = tune_net(net, OPTIMIZERS[name](net))
    assert str(again) == str(result), "the same search, although it has dropout"


def test_the_budget_is_kept_and_told():
    net = Net()
    evaluations = []

    def loss(step):
        evaluations.append(step)
        return net.loss(step)

    result = tune(net, loss, OPTIMIZERS["clipped"](net), steps=20)
    assert len(evaluations) - 2 == result.steps <= 20 * (12 + 9 + 4 * 2)
    assert f"{result.runs} runs of at most 20 steps, {result.steps} steps in all" in str(result)
    assert max(evaluations) < 60 and set(range(60)) <= set(evaluations), "each repeat on steps of its own"


def test_the_best_at_the_end_is_told():
    point = Point()
    result = tune(point, lambda step: -point.x.sum() + 1000, functools.partial(NormBall, point, "normalized_gd"), steps=5)
    assert "is the largest tried: the true best may lie beyond" in text_of(result)


def test_noise_is_told():
    point = Point(start=1.0)
    noise = torch.randn(300, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    result = tune(point, lambda step: (point.x * noise[step]).sum() + 5 + 0 * point.loss(),
                  functools.partial(NormBall, point, "normalized_gd"), lr=1e-6, steps=5)
    assert "within noise" in text_of(result) or "smallest tried" in text_of(result) or "largest tried" in text_of(result)
    flat = tune(point, lambda step: 2.5 + 0 * point.loss(), functools.partial(NormBall, point, "normalized_gd"), steps=5)
    assert "nothing was learned" in text_of(flat) and "within noise" in text_of(flat)


def test_divergence():
    point = Point()
    result = tune(point, point.loss, functools.partial(NormBall, point, "gd"), lr=1e6, steps=20)
    assert result.lr < 2 and "diverged" in text_of(result) and "diverged" in str(result)

    def explodes(step):  # whatever the stepsize
        return point.loss() * (1.0 if step % 20 == 0 else math.nan)

    with pytest.raises(RuntimeError, match="every run diverged"):
        tune(point, explodes, functools.partial(NormBall, point, "gd"), steps=20)
    assert torch.equal(point.x.detach(), torch.full((4,), 10.0, dtype=torch.float64))


def test_an_exception_of_the_loss_comes_through_and_everything_is_put_back():
    net = Net()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    for error in (RuntimeError("out of data"), KeyboardInterrupt()):
        calls = itertools.count()

        def loss(step):
            if next(calls) == 25:
                raise error
            return net.loss(step)

        with pytest.raises(type(error)):
            tune(net, loss, OPTIMIZERS["scion"](net), steps=10)
        assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
        assert all(p.grad is None for p in net.parameters())


def wrong(message, model=None, loss=None, make=None, **options):
    net = Net() if model is None else model
    with pytest.raises(ValueError, match=message):
        tune(net, loss or getattr(net, "loss", None), make or functools.partial(Scion, net, alpha=0.3), **options)


def test_a_loss_that_cannot_be_tuned_on_is_refused():
    net = Net()
    batches = itertools.cycle(range(40))
    wrong("Choose the batch by step", net, lambda step: net.loss(next(batches)))
    wrong("must take the number of the step", net, lambda: net.loss(0))
    wrong("must return a tensor with one number, got float", net, lambda step: 1.0)
    wrong(r"got a tensor of shape \(8, 3\)", net, lambda step: net.layers(net.inputs[step]))
    wrong("without a graph", net, lambda step: net.loss(step).detach())
    wrong("loss of another model", net, lambda step: Net().loss(step))
    wrong("is nan before any step", net, lambda step: net.loss(step) * math.nan)
    wrong("must be a function of the step's number, got Tensor", net, net.loss(0))

    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def steps(step):
        value = net.loss(step)
        value.backward(retain_graph=True)
        optimizer.step()
        return value

    wrong("changes the weights", net, steps)

    def replaces(step):
        net.layers[0].weight = nn.Parameter(net.layers[0].weight.detach().clone())
        return net.loss(step)

    wrong("replaced a parameter", net, replaces)


def test_an_optimizer_that_cannot_be_made_is_refused():
    net, other = Net(), Net()
    wrong("must be a function that makes one", net, make=Scion(net, lr=0.1, alpha=0.3))
    wrong("must be a function that makes one", net, make="adam")
    wrong("used up by the first run", net, make=functools.partial(torch.optim.AdamW, net.parameters()))
    wrong("must take lr by its name", net, make=lambda rate: Scion(net, lr=rate, alpha=0.3))
    wrong("must take rho by its name", net, make=lambda lr: Scion(net, lr=lr, alpha=0.3), rho=1.0)
    wrong("must return an optimizer, got NoneType", net, make=lambda lr: None)
    wrong("no parameter of the model", net, make=functools.partial(Scion, other, alpha=0.3))
    wrong("needs alpha", net, make=functools.partial(Scion, net))


def test_numbers_that_make_no_sense_are_refused():
    wrong("steps must be a whole number from 4, got 3", steps=3)
    wrong("steps must be", steps=10.0)
    wrong("repeats must be a whole number from 1, got 0", repeats=0)
    wrong("lr must be a positive number, got 0", lr=0)
    wrong("lr must be a positive number, got nan", lr=math.nan)
    wrong("rho must be a positive number, got -1", rho=-1)
    with pytest.raises(ValueError, match="model must be a torch.nn.Module, got list"):
        tune([], lambda step: None, lambda lr: None)
