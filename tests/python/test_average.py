"""Averages around any optimizer, against the formulas on whole trajectories in float64."""
import contextlib
import copy

import pytest
import torch
from normball.torch import Averaged, ClippedScion, Scion

TEXTS = ["ema(0.8)", "tail(0.4)", "schedule_free(0.7)", "soda", "uniform(3)"]
STEPS = 20


def model_and(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()
    if kind == "sgd":
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    return model, ClippedScion(model, lr=0.05, alpha=0.5, rho=1.0)


def backward(model, k):
    x = torch.randn(7, 6, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
    model.zero_grad()
    model(x).square().sum().backward()


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def put(model, values):
    torch.nn.utils.vector_to_parameters(values, model.parameters())


def drawn(seed, k):
    """Whether the k-th iterate replaces the kept one: SplitMix64, written out."""
    mask = (1 << 64) - 1
    z = (seed + (k + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) * (k + 1)) >> 64 == 0


def expected(text, kind):
    """(weights where the gradient is taken, evaluated weights) after every step."""
    model, optimizer = model_and(kind)
    start = flat(model)
    z, y, mean, all_z, result = start, start, None, [], []
    for k in range(STEPS):
        put(model, y.clone())
        if text.startswith("uniform") and drawn(3, k):
            kept = y.clone()
        backward(model, k)
        put(model, z.clone())
        optimizer.step()
        z = flat(model)
        if text == "soda":
            z = ((k + 1) * z + start) / (k + 2)
        all_z.append(z)
        if text.startswith("ema"):
            mean = torch.stack(all_z).mean(0) if k < 5 else 0.8 * mean + 0.2 * z
        elif text.startswith("tail"):
            mean = torch.stack(all_z[12:]).mean(0) if k >= 12 else z
        elif text.startswith("schedule_free"):
            mean = torch.stack(all_z).mean(0)
        elif text.startswith("uniform"):
            mean = kept
        else:
            mean = z
        y = 0.3 * z + 0.7 * mean if text.startswith("schedule_free") else z
        result.append((y, mean))
    return result


@pytest.mark.parametrize("kind", ["clipped_scion", "sgd"])
@pytest.mark.parametrize("text", TEXTS)
def test_formulas(text, kind):
    model, optimizer = model_and(kind)
    averaged = Averaged(optimizer, text, steps=STEPS)
    for k, (weights, mean) in enumerate(expected(text, kind)):
        backward(model, k)
        averaged.step()
        torch.testing.assert_close(flat(model), weights, rtol=0, atol=1e-12)
        before = flat(model)
        with averaged.evaluated():
            torch.testing.assert_close(flat(model), mean, rtol=0, atol=1e-12)
        assert torch.equal(flat(model), before)


@pytest.mark.parametrize("text", TEXTS)
def test_resume_is_exact(text):
    model, optimizer = model_and("clipped_scion")
    averaged = Averaged(optimizer, text, steps=STEPS)
    for k in range(STEPS):
        if k == 13:
            saved = {key: value.clone() for key, value in model.state_dict().items()}, copy.deepcopy(averaged.state_dict())
        backward(model, k)
        averaged.step()
    again, optimizer = model_and("clipped_scion")
    resumed = Averaged(optimizer, text, steps=STEPS)
    again.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    for k in range(13, STEPS):
        backward(again, k)
        resumed.step()
    assert torch.equal(flat(again), flat(model))
    with averaged.evaluated(), resumed.evaluated():
        assert torch.equal(flat(again), flat(model))


@pytest.mark.parametrize("text", TEXTS)
def test_a_failed_step_leaves_no_trace(text):
    model, optimizer = model_and("clipped_scion")
    averaged = Averaged(optimizer, text, steps=STEPS)
    for k in range(3):
        backward(model, k)
        averaged.step()
    before, state = flat(model), averaged.state_dict()
    backward(model, 3)
    next(model.parameters()).grad[0, 0] = float("nan")
    with pytest.raises(Exception, match="not finite"):
        averaged.step()
    assert torch.equal(flat(model), before)
    assert all(torch.equal(a, b) for a, b in zip(averaged.state_dict()["first"], state["first"]))


def test_misuse_is_named():
    model, optimizer = model_and("sgd")
    with pytest.raises(ValueError, match="did you mean 'ema'"):
        Averaged(optimizer, "emma")
    with pytest.raises(ValueError, match="number of steps"):
        Averaged(optimizer, "tail")
    with pytest.raises(ValueError, match="torch.optim.Optimizer"):
        Averaged(model, "ema")
    averaged = Averaged(optimizer, "ema")
    backward(model, 0)
    averaged.step()
    with averaged.evaluated():
        with pytest.raises(RuntimeError, match="evaluated weights are in place"):
            averaged.step()
        with pytest.raises(RuntimeError, match="evaluated weights are in place"):
            averaged.state_dict()
        with pytest.raises(RuntimeError, match="evaluated weights are in place"):
            averaged.load_state_dict({})
    with pytest.raises(ValueError, match="the state is that of ema"):
        Averaged(optimizer, "soda").load_state_dict(averaged.state_dict())


@pytest.mark.parametrize("text", TEXTS)
def test_a_closure_s_loss_reaches_the_optimizer(text):
    def run(make_step):
        model, _ = model_and("sgd")
        averaged = Averaged(Scion(model, lr=0.05, alpha=1.0, stepsize="momo"), text, steps=5)
        for k in range(5):
            make_step(model, averaged, k)
        return flat(model)

    def loss_of(model, k):
        backward(model, k)
        x = torch.randn(7, 6, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
        return model(x).square().sum().detach()

    def by_closure(model, averaged, k):
        assert averaged.step(lambda: loss_of(model, k)) > 0

    def by_loss(model, averaged, k):
        averaged.step(loss=loss_of(model, k))

    assert torch.equal(run(by_closure), run(by_loss))


def test_lbfgs_calls_its_closure_itself():
    model, _ = model_and("sgd")
    averaged = Averaged(torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3), "ema(0.99)")
    calls, seen = [], []

    def closure():
        calls.append(0)
        backward(model, 0)
        return model(torch.ones(1, 6, dtype=torch.float64)).sum()

    for _ in range(4):
        averaged.step(closure)
        seen.append(flat(model))
    assert len(calls) > 4
    with averaged.evaluated():
        torch.testing.assert_close(flat(model), torch.stack(seen).mean(0), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="LBFGS, calling its closure itself"):
        freed = Averaged(torch.optim.LBFGS(model.parameters()), "schedule_free")
        freed.step(closure)


@pytest.mark.parametrize("kind", ["clipped_scion", "sgd"])
@pytest.mark.parametrize("text", TEXTS)
def test_no_gradient_is_no_step(text, kind):
    model, optimizer = model_and(kind)
    averaged = Averaged(optimizer, text, steps=STEPS)
    for k in range(2):
        backward(model, k)
        averaged.step()
    before, state = flat(model), copy.deepcopy(averaged.state_dict())
    for p in model.parameters():
        p.grad = None
    averaged.step()
    assert torch.equal(flat(model), before)
    assert averaged.state_dict()["step"] == 2 == state["step"]
    assert all(torch.equal(a, b) for a, b in zip(averaged.state_dict()["first"], state["first"]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_averages_of_16_bit_weights_are_exact(dtype):
    p = torch.nn.Parameter(torch.zeros(1, dtype=dtype))
    averaged = Averaged(torch.optim.SGD([p], lr=1.0), "ema(0.999)")
    mean = 0.0
    for k in range(2000):
        p.grad = torch.full_like(p, -1.0 if k == 0 else 0.0)
        averaged.step()
        mean += max(1 - 0.999, 1 / (k + 1)) * (1.0 - mean)
    assert averaged.state_dict()["first"][0].item() == pytest.approx(mean, abs=1e-5)
    with averaged.evaluated():
        assert p.item() == pytest.approx(mean, abs=4e-3)
    assert p.item() == 1
    for text in ("soda", "schedule_free"):
        with pytest.raises(ValueError, match="16 bits"):
            Averaged(torch.optim.SGD([p], lr=1.0), text).step()


def test_the_average_belongs_to_its_parameters():
    p = [torch.nn.Parameter(torch.full((2,), float(i))) for i in range(2)]
    optimizer = torch.optim.SGD(p, lr=0.1)
    averaged = Averaged(optimizer, "soda")
    for each in p:
        each.grad = torch.ones(2)
    averaged.step()
    optimizer.param_groups[0]["params"].reverse()
    before = [each.detach().clone() for each in p]
    with pytest.raises(ValueError, match="in another order"):
        averaged.step()
    assert all(torch.equal(a, b) for a, b in zip(before, p))
    optimizer.param_groups[0]["params"].reverse()
    state = copy.deepcopy(averaged.state_dict())
    p[1].grad = torch.full((2,), float("inf"))
    with pytest.raises(ValueError, match="parameter 1 is not finite"):
        averaged.step()
    assert averaged.state_dict()["step"] == 1
    fresh = Averaged(torch.optim.SGD(p, lr=0.1), "soda")
    for bad in ({}, [], {**state, "step": -1}, {**state, "first": state["first"][:1]},
                {**state, "first": [t / 0 for t in state["first"]]}, {**state, "first": [t.int() for t in state["first"]]},
                {**state, "first": [[1.0, 2.0]] * 2}, {**state, "iterates": 3}):
        with pytest.raises(ValueError, match="Averaged.load_state_dict"):
            fresh.load_state_dict(bad)
    with pytest.raises(TypeError, match=r"\[Averaged.step\] the first argument is a closure, .*got 1.0"):
        averaged.step(1.0)
    with pytest.raises(ValueError, match="must be a text"):
        Averaged(optimizer, None)


def test_a_parameter_given_twice_counts_once():
    def run(*parameters):
        p = parameters[0]
        with pytest.warns(UserWarning) if len(parameters) > 1 else contextlib.nullcontext():
            averaged = Averaged(torch.optim.SGD(parameters, lr=0.1), "soda")
        p.grad = torch.ones(2) / len(parameters)
        averaged.step()
        return p.detach()

    p, q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    torch.testing.assert_close(run(p, p), run(q))
