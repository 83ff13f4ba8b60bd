"""What PyTorch's own tests ask of an optimizer."""
import copy
import io
import pickle
import threading
import warnings

import pytest
import torch
from models import Batches, backward, loss_of, mixed, mixed_groups
from normball.torch import ClippedScion, NonFiniteError, NormBall, Scion, method_names
from reference import METHODS
from torch import nn

OPTIONS = dict(lr=0.01, alpha=0.2, rho=2.0)
BACKENDS = ["auto", "torch"]


def scion(model, **options):
    return ClippedScion(mixed_groups(model), **{**OPTIONS, **options})


def train(model, optimizer, steps, first=0):
    batches = Batches(next(model.parameters()).dtype)
    for k in range(first, first + steps):
        backward(model, batches(k))
        optimizer.step()


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b))


# Progress: Rosenbrock's function, and least squares with parameters of every form.

@pytest.mark.parametrize("method", sorted(set(METHODS) - {"cg", "s3cg", "scion", "clipped_scion"}))
def test_progress_on_rosenbrock(method):
    x = torch.tensor([1.5, 1.5], dtype=torch.float64, requires_grad=True)
    options = {"gd": dict(lr=5e-4), "normalized_gd": dict(lr=5e-3), "clipped_gd": dict(lr=5e-3, rho=10.0),
               "sd": dict(lr=2e-4), "adaptive_sd": dict(l0=2e3, l1=200.0), "ucg": dict(lr=5e-3),
               "unconstrained_scion": dict(lr=5e-3, alpha=0.5), "lars": dict(lr=5e-3)}.get(
                   method, dict(lr=5e-3, rho=20.0))
    optimizer = NormBall([x], method, **options)

    def rosenbrock():
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    def closure():
        optimizer.zero_grad()
        value = rosenbrock()
        value.backward()
        return value

    solution = torch.ones(2, dtype=torch.float64)
    before = (x.detach() - solution).norm().item()
    for _ in range(2000):
        optimizer.step(closure)
    assert rosenbrock().item() < 0.5
    assert (x.detach() - solution).norm().item() < before


def least_squares(weight, bias, x, y, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = ((x @ weight.t() + bias - y) ** 2).mean()
        loss.backward()
        return loss
    return closure


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", ["contiguous", "transposed", "block", "strided", "offset"])
@pytest.mark.parametrize("constrained", [False, True])
def test_contiguous_and_other_parameters_do_the_same(form, constrained, backend):
    """Parameters that are views of other memory; what lies between their elements stays as it was."""
    torch.manual_seed(0)
    start, x, y = torch.randn(6, 8, dtype=torch.float64), torch.randn(32, 8).double(), torch.randn(32, 6).double()
    around = torch.randn(20, 20, dtype=torch.float64)
    memory = around.clone()
    view = {"contiguous": lambda: start.clone(), "transposed": lambda: memory[:8, :6].t(), "block": lambda: memory[:6, 3:11],
            "strided": lambda: memory[:12:2, :16:2], "offset": lambda: memory.view(-1)[7:55].view(6, 8)}[form]()
    view.copy_(start)
    weight, bias = view.detach().requires_grad_(), torch.zeros(6, dtype=torch.float64, requires_grad=True)
    assert weight.data_ptr() == view.data_ptr()
    plain = start.clone().requires_grad_()
    plain_bias = bias.detach().clone().requires_grad_()
    options = dict(lr=0.05, alpha=0.5, rho=0.5, radius=3.0, constrained=constrained)
    ours, theirs = ClippedScion([weight, bias], **options, backend=backend), ClippedScion([plain, plain_bias], **options)
    first = None
    for _ in range(30):
        loss = ours.step(least_squares(weight, bias, x, y, ours))
        first = loss.item() if first is None else first
        theirs.step(least_squares(plain, plain_bias, x, y, theirs))
        assert ours.report.s == pytest.approx(theirs.report.s, rel=1e-9)
    assert loss.item() < 0.5 * first
    torch.testing.assert_close(weight.detach(), plain.detach(), rtol=1e-9, atol=1e-11)
    if form != "contiguous":
        untouched = torch.ones_like(memory, dtype=torch.bool)
        torch.as_strided(untouched, view.size(), view.stride(), view.storage_offset()).fill_(False)
        assert torch.equal(memory[untouched], around[untouched])


def test_channels_last_weights_are_stepped_in_place():
    torch.manual_seed(0)
    plain = nn.Conv2d(3, 8, 3).double()
    last = copy.deepcopy(plain).to(memory_format=torch.channels_last)
    assert not last.weight.is_contiguous()
    x = torch.randn(5, 3, 9, 9).double()
    optimizers = [ClippedScion(m, **OPTIONS) for m in (plain, last)]
    for _ in range(5):
        for model, optimizer in zip((plain, last), optimizers):
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()
    torch.testing.assert_close(plain.weight, last.weight.contiguous(), rtol=1e-11, atol=1e-12)
    assert [type(part).__name__ for part in optimizers[1]._parts] == ["NativePart"]
    assert last.weight.is_contiguous(memory_format=torch.channels_last)


def test_gradients_of_another_layout_are_read_as_they_are():
    torch.manual_seed(0)
    p, q = torch.randn(4, 6), torch.randn(4, 6)
    q.copy_(p)
    p.grad = torch.randn(6, 4).t()
    q.grad = p.grad.contiguous()
    for t in (p, q):
        ClippedScion([t], **OPTIONS).step()
    assert torch.equal(p, q)


# Schedulers

SCHEDULERS = [
    lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5),
    lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda k: 1 / (1 + k)),
    lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
    lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=5),
    lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.02, total_steps=20, cycle_momentum=False),
    lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.001, 0.02, step_size_up=3, cycle_momentum=False),
    lambda o: torch.optim.lr_scheduler.SequentialLR(
        o, [torch.optim.lr_scheduler.ConstantLR(o, 0.1, 2), torch.optim.lr_scheduler.ExponentialLR(o, 0.8)], [2]),
]


@pytest.mark.parametrize("make", SCHEDULERS)
def test_schedulers_set_the_step(make):
    """With a fixed gradient and alpha = 1 every step has the length of its lr."""
    p = torch.zeros(5, 3, dtype=torch.float64)
    optimizer = NormBall([p], "ucg", lr=0.01, norm="sign(unit)")
    scheduler = make(optimizer)
    p.grad = torch.ones_like(p)
    for _ in range(10):
        lr, before = optimizer.param_groups[0]["lr"], p.clone()
        optimizer.step()
        torch.testing.assert_close(before - p, torch.full_like(p, lr), rtol=1e-12, atol=1e-15)
        assert optimizer.report.lr == lr
        scheduler.step()


def test_plateau_scheduler():
    p = torch.zeros(3, requires_grad=True)
    optimizer = ClippedScion([p], **OPTIONS)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for _ in range(3):
        scheduler.step(1.0)
    assert optimizer.param_groups[0]["lr"] < OPTIONS["lr"]


def test_alpha_and_rho_may_be_scheduled_in_all_groups():
    """Each change is that of a new optimizer with the old momentum."""
    model = mixed()
    optimizer = scion(model)
    train(model, optimizer, 3)
    parts = optimizer._parts
    for group in optimizer.param_groups:
        group.update(alpha=0.7, rho=0.5)
    other_model = copy.deepcopy(model)
    other = scion(other_model, alpha=0.7, rho=0.5)
    for p, q in zip(model.parameters(), other_model.parameters()):
        other.state[q]["momentum"] = optimizer.state[p]["momentum"].clone()
    for m, o in ((model, optimizer), (other_model, other)):
        train(m, o, 3, first=3)
    assert equal(weights(model), weights(other_model))
    assert optimizer._parts is parts, "a schedule should not cost new buffers"
    optimizer.param_groups[1]["alpha"] = 0.1
    with pytest.raises(ValueError, match="alpha belongs to the whole optimizer.*group 1"):
        train(model, optimizer, 1)


# Groups

def test_groups_have_their_own_lr_under_one_eta():
    torch.manual_seed(0)
    p, q = torch.zeros(4, 3, dtype=torch.float64), torch.zeros(6, dtype=torch.float64)
    p.grad, q.grad = torch.randn_like(p), torch.randn_like(q)
    optimizer = ClippedScion([dict(params=[p], lr=0.1, norm="sign(unit)"), dict(params=[q], norm="sign(unit)", radius=2.0)],
                             lr=0.01, alpha=1.0, rho=1e9)
    optimizer.step()
    s = p.grad.abs().sum() + 2 * q.grad.abs().sum()
    assert optimizer.report.s == pytest.approx(s.item(), rel=1e-12)
    torch.testing.assert_close(p, -0.1 / 1e9 * s * p.grad.sign(), rtol=1e-12, atol=0)
    torch.testing.assert_close(q, -0.01 / 1e9 * s * 2 * q.grad.sign(), rtol=1e-12, atol=0)


def test_add_param_group_joins_the_same_step():
    model = mixed()
    groups = mixed_groups(model)
    late = ClippedScion(groups[:3], **OPTIONS)
    for group in groups[3:]:
        late.add_param_group(group)
    other = mixed()
    train(model, late, 5)
    optimizer = scion(other)
    train(other, optimizer, 5)
    assert equal(weights(model), weights(other))
    assert late.param_groups[5]["step"] == 5


def test_a_group_added_in_training_starts_with_zero_momentum():
    p, q = torch.zeros(3, 3), torch.zeros(4)
    p.grad, q.grad = torch.ones(3, 3), torch.ones(4)
    optimizer = ClippedScion([p], lr=0.01, alpha=0.5, rho=1e3)
    optimizer.step()
    optimizer.add_param_group(dict(params=[q], norm="rms"))
    optimizer.step()
    assert torch.equal(optimizer.state[q]["momentum"], 0.5 * q.grad)
    assert torch.equal(optimizer.state[p]["momentum"], 0.75 * p.grad)


def test_a_refused_group_leaves_the_optimizer_as_it_was():
    p, q = torch.zeros(3, 3), torch.zeros(4, 4)
    optimizer = ClippedScion([p], **OPTIONS)
    for bad in (dict(norm="spektral"), dict(radius=-1), dict(lr=-1), dict(split=3), dict(alpha=0.9)):
        with pytest.raises(ValueError):
            optimizer.add_param_group(dict(params=[q], **bad))
        assert len(optimizer.param_groups) == 1
    optimizer.add_param_group(dict(params=[q]))
    assert len(optimizer.param_groups) == 2


# Missing and zero gradients

@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", method_names())
def test_missing_gradients_change_nothing(method, backend):
    params = [torch.randn(4, 3), torch.randn(5)]
    before = copy.deepcopy(params)
    optimizer = NormBall(params, method, **METHODS[method], backend=backend)
    optimizer.step()
    assert equal(params, before) and not optimizer.state and optimizer.report is None
    params[0].grad = torch.randn(4, 3)
    optimizer.step()
    assert torch.equal(params[1], before[1]) and not torch.equal(params[0], before[0])
    assert params[1] not in optimizer.state


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", method_names())
def test_zero_gradients_change_nothing(method, backend):
    """Constrained methods without clipping draw W to the ball's center at zero gradients, as weight decay does."""
    params = [torch.randn(4, 3), torch.randn(5), torch.randn(2, 3, 3, 3)]
    before = copy.deepcopy(params)
    for p in params:
        p.grad = torch.zeros_like(p)
    optimizer = NormBall(params, method, **METHODS[method], backend=backend)
    optimizer.step()
    assert optimizer.report.s == 0
    if method in ("cg", "scion"):
        keep = 1 - METHODS[method]["lr"]
        for p, q in zip(params, before):
            torch.testing.assert_close(p, keep * q)
    else:
        assert equal(params, before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_and_scalar_parameters(backend):
    params = [torch.zeros(0, 4), torch.zeros(3, 0), torch.zeros(0), torch.tensor(2.0), torch.randn(3, 3)]
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer = ClippedScion(params, **OPTIONS, backend=backend)
    optimizer.step()
    assert params[3].item() != 2.0 and all(torch.isfinite(p).all() for p in params)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_touches_nothing(bad, backend):
    model = mixed()
    optimizer = scion(model, backend=backend)
    train(model, optimizer, 2)
    before, momentum = weights(model), copy.deepcopy(list(optimizer.state.values()))
    model.mix.bias.grad[3] = bad
    with pytest.raises(NonFiniteError, match="'6.0'.*not finite"):
        optimizer.step()
    for group in optimizer.param_groups:
        group["nonfinite"] = "skip"
    optimizer.step()
    assert optimizer.report.skipped and optimizer.report.nonfinite == "6.0"
    assert equal(before, model.parameters())
    for a, b in zip(momentum, optimizer.state.values()):
        assert torch.equal(a["momentum"], b["momentum"])
    train(model, optimizer, 1)
    assert not optimizer.report.skipped and optimizer.report.step == 2


def test_maximize_is_the_negative_gradient():
    model, other = mixed(), mixed()
    up, down = scion(model, maximize=True), scion(other)
    for k in range(5):
        backward(model, Batches()(k))
        backward(other, Batches()(k))
        for p in other.parameters():
            p.grad.neg_()
        kept = [p.grad.clone() for p in model.parameters()]
        up.step()
        down.step()
        assert equal(kept, [p.grad for p in model.parameters()])
    assert equal(model.parameters(), other.parameters())


def test_gradients_stay_unless_they_may_be_overwritten():
    model = mixed()
    optimizer = scion(model)
    backward(model, Batches()(0))
    kept = [p.grad.clone() for p in model.parameters()]
    optimizer.step()
    assert equal(kept, [p.grad for p in model.parameters()])
    other = mixed()
    thrifty = scion(other, overwrite_gradients=True)
    train(other, thrifty, 1)
    assert equal(model.parameters(), other.parameters())
    assert not torch.equal(kept[0], other.conv.weight.grad)


# State

@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["clipped_scion", "unconstrained_clipped_scion", "cg"])
def test_state_dict_round_trip(method, backend):
    def make(model):
        return NormBall(mixed_groups(model), method, **METHODS[method], backend=backend)

    model = mixed()
    optimizer = make(model)
    train(model, optimizer, 5)
    other = copy.deepcopy(model)
    buffer = io.BytesIO()
    torch.save(optimizer.state_dict(), buffer)
    buffer.seek(0)
    loaded = make(other)
    loaded.load_state_dict(torch.load(buffer))
    train(model, optimizer, 5, first=5)
    train(other, loaded, 5, first=5)
    assert equal(weights(model), weights(other))
    assert loaded.report.step == 9
    # It was a copy: training one does not touch the saved state of the other.
    saved = optimizer.state_dict()
    again = make(other)
    again.load_state_dict(saved)
    kept = [state["momentum"].clone() for state in optimizer.state.values()]
    train(other, again, 1)
    assert equal(kept, [state["momentum"] for state in optimizer.state.values()])


def test_state_dict_has_torch_s_form():
    model = mixed()
    optimizer = scion(model)
    train(model, optimizer, 2)
    saved = optimizer.state_dict()
    assert set(saved) == {"state", "param_groups"} and sorted(saved["state"]) == list(range(7))
    for state, p in zip(saved["state"].values(), model.parameters()):
        assert set(state) == {"momentum"} and state["momentum"].shape == p.shape
    assert all(group["step"] == 2 and group["rho"] == 2.0 for group in saved["param_groups"])


def test_state_in_another_dtype_is_converted():
    model = mixed(torch.float64)
    optimizer = scion(model)
    train(model, optimizer, 3)
    single = copy.deepcopy(model).float()
    loaded = scion(single)
    loaded.load_state_dict(optimizer.state_dict())
    assert all(state["momentum"].dtype == torch.float32 for state in loaded.state.values())
    train(single, loaded, 2, first=3)
    train(model, optimizer, 2, first=3)
    for p, q in zip(model.parameters(), single.parameters()):
        torch.testing.assert_close(p, q.double(), rtol=1e-4, atol=1e-5)


def test_a_wrong_state_dict_changes_nothing():
    model = mixed()
    optimizer = scion(model)
    train(model, optimizer, 2)
    before = copy.deepcopy(optimizer.state_dict())
    other = torch.optim.SGD(model.parameters(), lr=1).state_dict()
    shape = copy.deepcopy(before)
    shape["state"][0]["momentum"] = torch.zeros(3)
    named = copy.deepcopy(before)
    named["param_groups"][0]["method"] = "scion"
    fewer = copy.deepcopy(before)
    del fewer["param_groups"][0]
    for bad, text in ((other, "belongs to another optimizer"), (shape, "momentum of '0.0'"), (named, "'scion'"),
                      (fewer, "another model: it has 6 groups with 6 parameters, this optimizer 7 groups")):
        with pytest.raises(ValueError, match=text):
            optimizer.load_state_dict(bad)
        after = optimizer.state_dict()
        assert after["param_groups"] == before["param_groups"]
        for i, state in before["state"].items():
            assert torch.equal(state["momentum"], after["state"][i]["momentum"])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_deepcopy_and_pickle_continue_alike(clone, backend):
    model = mixed()
    optimizer = scion(model, backend=backend, threads=1, layer_reports=True)
    train(model, optimizer, 3)
    other, copied = clone((model, optimizer))
    assert copied._execution == optimizer._execution and type(copied) is ClippedScion
    train(model, optimizer, 3, first=3)
    kept = weights(other)
    train(other, copied, 3, first=3)
    assert equal(weights(model), weights(other)) and not equal(kept, weights(other))


def test_the_power_iteration_s_basis_is_part_of_the_state():
    def make(model):
        return ClippedScion(model.parameters(), **OPTIONS, norm="spectral(solver=power(rank=2))")

    torch.manual_seed(0)
    model = nn.Linear(8, 6, bias=False).double()
    x = torch.randn(16, 8).double()

    def run(m, o, steps):
        for _ in range(steps):
            o.zero_grad()
            (m(x) ** 2).mean().backward()
            o.step()

    optimizer = make(model)
    run(model, optimizer, 4)
    other = copy.deepcopy(model)
    loaded = make(other)
    loaded.load_state_dict(optimizer.state_dict())
    without = copy.deepcopy(model)
    cold = make(without)
    state = optimizer.state_dict()
    state["state"][0] = {"momentum": state["state"][0]["momentum"]}
    cold.load_state_dict(state)
    run(model, optimizer, 1)
    run(other, loaded, 1)
    run(without, cold, 1)
    assert torch.equal(model.weight, other.weight)
    assert not torch.equal(model.weight, without.weight), "the basis should matter"


# Closures, hooks, reports, threads of Python

def test_the_closure_s_loss_is_returned_and_it_has_gradients_on():
    model = mixed()
    optimizer = scion(model)
    batch = Batches()(0)

    def closure():
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        return loss

    expected = loss_of(model, batch).item()
    assert optimizer.step(closure).item() == expected
    assert optimizer.step() is None


def test_step_hooks():
    p = torch.ones(3)
    p.grad = torch.ones(3)
    optimizer = ClippedScion([p], **OPTIONS)
    if not hasattr(optimizer, "register_step_post_hook"):
        assert hasattr(type(optimizer).step, "hooked")  # the profiler's, which torch 1.13 has instead
        with torch.profiler.profile() as profile:
            optimizer.step()
        assert any("Optimizer.step#ClippedScion.step" in event.key for event in profile.key_averages())
        return
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.step()
    assert calls == ["before", "after"]


def test_the_report_tells_the_step():
    model = mixed()
    optimizer = scion(model, layer_reports=True, rho=1e-3, constrained=True)
    train(model, optimizer, 1)
    report = optimizer.report
    assert report.step == 0 and report.clipped and report.eta == 1e-3 and report.lr == 0.01
    assert report.gamma == pytest.approx(0.01 / 1e-3)
    assert [layer.name for layer in report.layers] == [f"{i}.0" for i in range(7)]
    assert sum(layer.pairing for layer in report.layers) == pytest.approx(report.s, rel=1e-12)
    norms = [layer.weight_norm for layer in report.layers]
    other = mixed()
    fallback = scion(other, layer_reports=True, rho=1e-3, constrained=True, backend="torch")
    train(other, fallback, 1)
    for a, b in zip(report.layers, fallback.report.layers):
        assert a.name == b.name and a.pairing == pytest.approx(b.pairing) and a.dual_norm == pytest.approx(b.dual_norm)
    assert norms == pytest.approx([layer.weight_norm for layer in fallback.report.layers])


def test_other_python_threads_run_during_a_step():
    torch.manual_seed(0)
    p = torch.randn(900, 900)
    p.grad = torch.randn_like(p)
    optimizer = ClippedScion([p], **OPTIONS, threads=1)
    optimizer.step()
    ticks, stop, started = [0], threading.Event(), threading.Event()

    def tick():
        started.set()
        while not stop.is_set():
            ticks[0] += 1
            stop.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    started.wait()
    engine = optimizer._parts[0]._engine
    tensors = [(p.data_ptr(), p.grad.data_ptr(), optimizer.state[p]["momentum"].data_ptr(), 1.0, True, 0)]
    before = ticks[0]
    engine.prepare(0.01, tensors)  # one call into the core, some 50 ms long
    during = ticks[0] - before
    stop.set()
    thread.join()
    assert during >= 3, "the core should release the GIL"


def test_weights_are_not_copied():
    model = mixed()
    addresses = [p.data_ptr() for p in model.parameters()]
    optimizer = scion(model)
    train(model, optimizer, 2)
    momentum = [optimizer.state[p]["momentum"].data_ptr() for p in model.parameters()]
    train(model, optimizer, 2)
    assert addresses == [p.data_ptr() for p in model.parameters()]
    assert momentum == [optimizer.state[p]["momentum"].data_ptr() for p in model.parameters()]


def test_a_parameter_whose_data_is_replaced_is_followed():
    model = mixed()
    optimizer = scion(model)
    train(model, optimizer, 2)
    model.float()
    train(model, optimizer, 2)
    assert model.conv.weight.dtype == torch.float32 and optimizer.report.step == 3


# Tied weights

def test_the_same_parameter_twice():
    p = nn.Parameter(torch.randn(4, 4))
    p.grad = torch.randn(4, 4)
    q = nn.Parameter(p.detach().clone())
    q.grad = p.grad.clone()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer = ClippedScion([p, p], **OPTIONS)
    assert any("duplicate parameters" in str(w.message) for w in caught)
    optimizer.step()
    ClippedScion([q], **OPTIONS).step()
    assert torch.equal(p, q), "it is stepped once"
    assert "tied weight listed twice" in optimizer.explain()
    with pytest.raises(ValueError, match="more than one parameter group"):
        ClippedScion([dict(params=[p]), dict(params=[p])], **OPTIONS)
    with pytest.raises(ValueError, match="two Parameters on the same memory.*one Parameter"):
        ClippedScion([p, nn.Parameter(p.detach())], **OPTIONS)


# Errors

def make(**options):
    return ClippedScion([torch.zeros(4, 3)], **{**OPTIONS, **options})


@pytest.mark.parametrize("call,parts", [
    (lambda: make(lr=-0.1), ["[ClippedScion]", "lr", "-0.1"]),
    (lambda: make(lr="fast"), ["lr must be a number", "fast"]),
    (lambda: make(lr=float("nan")), ["lr must be a number", "nan"]),
    (lambda: make(lr=1.5, constrained=True), ["lr", "1.5", "stay in the ball"]),
    (lambda: make(alpha=0), ["alpha must be in (0, 1]", "0"]),
    (lambda: make(alpha=1.1), ["alpha must be in (0, 1]", "1.1"]),
    (lambda: make(rho=0), ["[Clipped]", "rho must be positive", "0"]),
    (lambda: make(rho=None), ["needs rho"]),
    (lambda: make(short_step="norm"), ["short_step", "constrained"]),
    (lambda: make(short_step="nrm", constrained=True), ["[parse_short_step]", "nrm", "norm"]),
    (lambda: make(norm="spektral"), ["'spektral'", "spectral"]),
    (lambda: make(norm="spectral(solver=muno)"), ["'muno'", "muon"]),
    (lambda: make(solver="muno"), ["'muno'", "muon"]),
    (lambda: make(role="outptu"), ["'outptu'", "output"]),
    (lambda: make(radius=0), ["radius", "positive"]),
    (lambda: make(radii={"hiden": 3}), ["'hiden'", "hidden"]),
    (lambda: make(radii={"hidden": "wide"}), ["radius of the role 'hidden'", "wide"]),
    (lambda: make(norm=3), ["the norm of group 0 is a name", "lmo(d)", "3"]),
    (lambda: make(batch="one"), ["the batch of group 0 is an integer", "one"]),
    (lambda: make(radius="wide"), ["the radius of group 0 must be a number", "wide"]),
    (lambda: make(split=3), ["split", "rows", "3"]),
    (lambda: make(split="columns(2)"), ["split", "columns"]),
    (lambda: make(batch=5), ["batch 5"]),
    (lambda: make(rules={"*.weight": dict(norm="sign")}), ["'*.weight'", "matches no parameter"]),
    (lambda: make(rules={"*": dict(nrm="sign")}), ["the rule '*'", "'nrm'", "norm"]),
    (lambda: make(nonfinite="ignore"), ["nonfinite", "'ignore'", "skip"]),
    (lambda: make(maximize=3), ["maximize", "3"]),
    (lambda: make(threads=-1), ["threads", "-1"]),
    (lambda: make(backend="cuda"), ["backend", "'cuda'", "torch"]),
    (lambda: NormBall([torch.zeros(2)], "clipped_scoin", 0.1), ["'clipped_scoin'", "clipped_scion"]),
    (lambda: NormBall([torch.zeros(2)], "ggnc", rho=1.0), ["'ggnc' needs lr"]),
    (lambda: NormBall([torch.zeros(2)], "gd", 0.1, rho=1.0), ["'gd' has no rho"]),
    (lambda: NormBall([torch.zeros(2)], "gd", 0.1, alpha=0.5), ["'gd' has no alpha"]),
    (lambda: NormBall([torch.zeros(2)], "gd", 0.1, norm="sign"), ["'gd' sets every norm", "norm='sign'"]),
    (lambda: NormBall([torch.zeros(2)], "s3cg", 0.1, rho=1.0), ["'s3cg' needs beta"]),
    (lambda: NormBall([torch.zeros(2)], "s3cg", 0.1, rho=1.0, beta=1.0, radius=2.0), ["'s3cg' sets", "radius=2.0"]),
    (lambda: NormBall([torch.zeros(2)], "adaptive_sd", l0=1.0), ["'adaptive_sd' needs l0 and l1"]),
    (lambda: ClippedScion([], **OPTIONS), ["empty parameter list"]),
    (lambda: ClippedScion([dict(parms=[torch.zeros(2)])], **OPTIONS), ["'params'"]),
    (lambda: ClippedScion([dict(params=[torch.zeros(2)], raduis=2)], **OPTIONS), ["'raduis'", "'radius'"]),
    (lambda: ClippedScion([dict(params=[torch.zeros(2)], rho=1.0)], **OPTIONS), ["rho belongs to the whole optimizer"]),
    (lambda: ClippedScion([dict(params=[torch.zeros(2)], names=["a", "b"])], **OPTIONS), ["1 params but 2 param_names"]),
    (lambda: ClippedScion([("a", torch.zeros(2)), ("a", torch.zeros(2))], **OPTIONS), ["two parameters", "'a'"]),
    (lambda: ClippedScion([dict(params=[torch.zeros(2)], kinds=["convolution"])], **OPTIONS), ["'convolution'"]),
    (lambda: ClippedScion([torch.zeros(2, dtype=torch.int64)], **OPTIONS), ["'0.0'", "int64", "floating-point"]),
    (lambda: ClippedScion([torch.zeros(2, dtype=torch.complex64)], **OPTIONS), ["'0.0'", "complex64"]),
    (lambda: Scion([torch.zeros(2)], lr=2.0, alpha=0.1, constrained=True), ["[Scion]", "lr", "2"]),
])
def test_errors_say_what_came_and_what_is_allowed(call, parts):
    with pytest.raises(ValueError) as error:
        call()
    for part in parts:
        assert part in str(error.value), str(error.value)


def test_torch_s_own_errors_are_torch_s():
    with pytest.raises(TypeError, match="iterable of Tensors"):
        ClippedScion(torch.zeros(3), **OPTIONS)
    with pytest.raises(TypeError, match="ordered collections"):
        ClippedScion([dict(params={torch.zeros(3)})], **OPTIONS)
    with pytest.raises(TypeError, match="can only optimize Tensors"):
        ClippedScion([dict(params=[3])], **OPTIONS)
    with pytest.raises(ValueError, match="non-leaf"):
        ClippedScion([torch.zeros(3, requires_grad=True) * 2], **OPTIONS)
    with pytest.raises(TypeError, match="raduis"):
        make(raduis=3)


def test_sparse_gradients_are_refused_with_the_remedy():
    embedding = nn.Embedding(10, 4, sparse=True)
    optimizer = ClippedScion(embedding, **OPTIONS)
    embedding(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(ValueError, match="'weight' is sparse.*sparse=False"):
        optimizer.step()


def test_an_lr_that_a_schedule_made_too_large_is_refused_before_anything_moves():
    model = mixed()
    optimizer = scion(model, constrained=True)
    train(model, optimizer, 1)
    before = weights(model)
    momentum = [state["momentum"].clone() for state in optimizer.state.values()]
    optimizer.param_groups[2]["lr"] = 1.5
    with pytest.raises(ValueError, match="group 2.*lr.*1.5"):
        train(model, optimizer, 1)
    assert equal(before, weights(model)) and equal(momentum, [s["momentum"] for s in optimizer.state.values()])


def test_repr_shows_the_groups():
    text = repr(scion(mixed()))
    assert "ClippedScion" in text and "rho: 2.0" in text and "norm: spectral" in text
