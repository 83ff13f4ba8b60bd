"""What users do to tensors, groups and state between steps: it is followed, or refused by name with nothing touched."""
import copy
import re
import threading
import warnings
from collections import defaultdict

import normball
import pytest
import torch
from models import Batches, backward, mixed
from normball import _options
from normball.torch import (ClippedScion, NonFiniteError, NormBall, Scion, initialize_, named_groups,
                            scale_into_balls_)
from reference import METHODS
from torch import nn

OPTIONS = dict(lr=0.1, alpha=0.5, rho=10.0)
BACKENDS = ["auto", "torch"]


def contents(optimizer):
    """All that a refused step must leave alone."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    return ([p.detach().clone() for p in params], [group["step"] for group in optimizer.param_groups],
            {id(p): state["momentum"].clone() for p, state in optimizer.state.items() if "momentum" in state})


def same(a, b):
    return (all(torch.equal(x, y) for x, y in zip(a[0], b[0])) and a[1] == b[1] and a[2].keys() == b[2].keys()
            and all(torch.equal(a[2][key], b[2][key]) for key in a[2]))


def two_steps(backend, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 3))
    optimizer = ClippedScion(model, **{**OPTIONS, **options}, backend=backend)
    for _ in range(2):
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        optimizer.step()
    return model, optimizer


# Tensors

@pytest.mark.parametrize("backend", BACKENDS)
def test_data_of_another_shape_needs_momentum_and_gradient_of_that_shape(backend):
    """A vocabulary that grows, as users do it."""
    model, optimizer = two_steps(backend)
    weight = model[0].weight
    weight.data = torch.cat([weight.data, torch.randn(6, 4)])
    before = contents(optimizer)
    with pytest.raises(ValueError, match=r"\[ClippedScion\] the gradient of '0.weight' is \[10, 4\].*\[16, 4\].*zero_grad"):
        optimizer.step()
    assert same(before, contents(optimizer))
    weight.grad = torch.randn_like(weight)
    with pytest.raises(ValueError, match=r"the momentum of '0.weight' is \[10, 4\].*\[16, 4\].*state.pop"):
        optimizer.step()
    assert same(before, contents(optimizer))
    old = optimizer.state[weight]["momentum"]
    optimizer.state[weight]["momentum"] = torch.cat([old, torch.zeros(6, 4)])
    other = copy.deepcopy(model)
    fresh = ClippedScion(other, **OPTIONS, backend=backend)
    for p, q in zip(model.parameters(), other.parameters()):
        fresh.state[q]["momentum"] = optimizer.state[p]["momentum"].clone()
        q.grad = p.grad.clone()
    optimizer.step()
    fresh.step()
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters()))
    assert optimizer.report.s == fresh.report.s


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(4, 10), (40,), (10, 4, 1), (5, 8)])
def test_as_many_elements_in_another_shape_are_another_shape(shape, backend):
    p = nn.Parameter(torch.randn(10, 4))
    p.grad = torch.randn(10, 4)
    optimizer = ClippedScion([p], **OPTIONS, backend=backend)
    optimizer.step()
    p.data = p.data.reshape(shape)
    before = contents(optimizer)
    with pytest.raises(ValueError, match="the gradient of '0.0'"):
        optimizer.step()
    p.grad = torch.randn(shape)
    with pytest.raises(ValueError, match="the momentum of '0.0'"):
        optimizer.step()
    assert same(before, contents(optimizer))
    optimizer.state.pop(p)
    optimizer.step()
    assert optimizer.state[p]["momentum"].shape == shape


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", ["gradient", "parameter", "momentum"])
def test_pending_signs_are_read(what, backend):
    """torch._neg_view only marks the tensor; real parts of conjugates do the same."""
    torch.manual_seed(0)
    start, gradient = torch.randn(4, 3), torch.randn(4, 3)
    p, q = start.clone(), start.clone()
    if what == "parameter":
        p = torch._neg_view((-start).clone())
        assert p.is_neg() and torch.equal(p, q)
    p.grad, q.grad = gradient.clone(), gradient.clone()
    if what == "gradient":
        p.grad = torch.complex(torch.randn(4, 3), -gradient).conj().imag
        assert p.grad.is_neg() and torch.equal(p.grad, gradient)
    optimizers = [ClippedScion([t], **OPTIONS, backend=backend) for t in (p, q)]
    if what == "momentum":
        optimizers[0].state[p]["momentum"] = torch._neg_view(torch.ones(4, 3))
        optimizers[1].state[q]["momentum"] = -torch.ones(4, 3)
    for optimizer in optimizers:
        optimizer.step()
    assert optimizers[0].report.s == pytest.approx(optimizers[1].report.s, rel=1e-6)
    torch.testing.assert_close(p.clone(), q, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make,text", [
    (lambda: torch.zeros(1, 3).expand(4, 3), "several elements of '0.0' share memory.*clone"),
    (lambda: torch.zeros(3, 3, device="meta"), "'0.0' is on the device 'meta'"),
    (lambda: torch.eye(3).to_sparse(), "'0.0' is torch.sparse_coo.*to_dense"),
    (torch.inference_mode()(lambda: torch.zeros(3, 3)), "'0.0' was created in inference mode.*clone"),
    (lambda: nn.LazyLinear(3).weight, "'0.0' has no shape yet: run a batch"),
])
def test_tensors_that_cannot_be_stepped_are_refused_at_once(make, text):
    with pytest.raises(ValueError, match=text):
        ClippedScion([make()], **OPTIONS)


def test_views_that_overlap_are_refused():
    memory = torch.zeros(12)
    with pytest.raises(ValueError, match="'0.0' and '0.1' are two Parameters on the same memory"):
        ClippedScion([memory[:8].view(2, 4), memory[6:]], **OPTIONS)
    with pytest.raises(ValueError, match="'0.0' share memory"):
        ClippedScion([memory.as_strided((3, 4), (2, 1))], **OPTIONS)
    ClippedScion([memory[:8].view(2, 4), memory[8:]], **OPTIONS)
    columns = memory.view(3, 4)
    ClippedScion([columns[:, :2], columns[:, 2:]], **OPTIONS)
    p = memory.as_strided((2, 2), (3, 2))  # elements 0, 2, 3, 5: not in rows, but apart
    p.grad = torch.ones(2, 2)
    ClippedScion([p], **OPTIONS).step()
    assert memory.nonzero().flatten().tolist() == [0, 2, 3, 5]


# By the core alone, and where a part in torch operations is beside it: a strided view.
@pytest.mark.parametrize("strided", [False, True])
def test_a_gradient_on_memory_that_the_step_writes_is_refused(strided):
    base = torch.ones(4, 3, dtype=torch.float64)
    p = nn.Parameter(torch.arange(12, dtype=torch.float64).view(4, 3))
    q = nn.Parameter(base.t()) if strided else nn.Parameter(base)
    optimizer = ClippedScion([("p", p), ("q", q)], **OPTIONS)
    p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
    optimizer.step()

    def refused(first, second):
        before = contents(optimizer)
        with pytest.raises(ValueError, match=f"the {first} and the {second} share memory"):
            optimizer.step()
        assert same(before, contents(optimizer))

    p.grad = base.view(4, 3)
    refused("weight of 'q'", "gradient of 'p'") if strided else refused("(weight|gradient) of '[pq]'", "(weight|gradient) of '[pq]'")
    p.grad = optimizer.state[q]["momentum"].reshape(4, 3).detach()
    if p.grad.data_ptr() == optimizer.state[q]["momentum"].data_ptr():
        refused("(momentum|gradient) of '[pq]'", "(momentum|gradient) of '[pq]'")
    shared = torch.ones(4, 3, dtype=torch.float64)
    p.grad, q.grad = shared, shared.t() if strided else shared  # both are only read
    optimizer.step()
    p.grad = p.detach()  # that of its own ||x||^2 / 2
    optimizer.step()


def test_two_parameters_that_came_to_share_memory_are_refused():
    p, q = nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.randn(3, 3))
    p.grad, q.grad = torch.ones(3, 3), torch.ones(3, 3)
    optimizer = ClippedScion([p, q], **OPTIONS)
    optimizer.step()
    q.data = p.data
    before = contents(optimizer)
    with pytest.raises(ValueError, match="two Parameters on the same memory"):
        optimizer.step()
    assert same(before, contents(optimizer))


# Autograd

@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("form", ["contiguous", "channels_last", "strided"])
@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD([p], lr=0.1), lambda p: ClippedScion([p], **OPTIONS),
                                  lambda p: ClippedScion([p], **OPTIONS, backend="torch")])
def test_a_graph_from_before_the_step_is_refused_by_autograd(make, form, dtype):
    torch.manual_seed(0)
    start = torch.randn(4, 3, 3, 3, dtype=dtype)
    p = {"contiguous": start, "channels_last": start.to(memory_format=torch.channels_last),
         "strided": torch.randn(4, 3, 3, 6, dtype=dtype)[..., ::2]}[form].requires_grad_()
    x = torch.randn(2, 3, 5, 5, dtype=dtype, requires_grad=True)
    optimizer = make(p)
    hidden = torch.nn.functional.conv2d(x, p)
    hidden.sum().backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (hidden ** 2).sum().backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_what_moved_is_marked_as_changed(backend):
    p, q = nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.tensor(2.0))
    p.grad = torch.ones(3, 3)
    optimizer = ClippedScion([p, q], **OPTIONS, backend=backend)
    versions = p._version, q._version
    optimizer.step()
    assert p._version > versions[0] and q._version == versions[1]
    q.grad = torch.tensor(1.0)
    optimizer.step()
    assert q._version > versions[1]


# State

@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("norm", ["spectral", "spectral(solver=power(rank=2))", "sign"])
@pytest.mark.parametrize("reset", ["another dict", "plain dict", "clear", "pop"])
def test_a_state_that_is_reset_starts_anew(reset, norm, backend):
    if backend == "torch" and "power" in norm:
        pytest.skip("torch operations have no power iteration")
    torch.manual_seed(0)
    p = torch.randn(6, 5)
    optimizer = ClippedScion([p], **OPTIONS, norm=norm, backend=backend)
    for _ in range(3):
        p.grad = torch.randn(6, 5)
        optimizer.step()
    if reset == "another dict":
        optimizer.state = defaultdict(dict)
    elif reset == "plain dict":
        optimizer.state = {}
    elif reset == "clear":
        optimizer.state.clear()
    else:
        optimizer.state.pop(p)
    q = p.clone()
    fresh = ClippedScion([q], **OPTIONS, norm=norm, backend=backend)
    for _ in range(2):
        p.grad = torch.randn(6, 5)
        q.grad = p.grad.clone()
        optimizer.step()
        fresh.step()
        assert torch.equal(p, q)
    saved, expected = optimizer.state_dict()["state"], fresh.state_dict()["state"]
    assert torch.equal(saved[0]["momentum"], expected[0]["momentum"]) and saved[0].keys() == expected[0].keys()


@pytest.mark.parametrize("change,text", [
    (lambda o, p: o.state.update({p: None}), "the state of '0.0' must be a dict, got NoneType"),
    (lambda o, p: o.state[p].update(momentum=torch.zeros(2, 2, dtype=torch.int64)), "floating-point tensor, got torch.int64"),
    (lambda o, p: o.param_groups.clear(), "no parameter groups"),
    (lambda o, p: o.param_groups[0].pop("norm"), "group 0 has lost its 'norm'"),
    (lambda o, p: setattr(o, "param_groups", [dict(params=[p], lr=0.1)]), "group 0 has lost its.*add_param_group"),
])
def test_damaged_state_and_groups_are_named(change, text):
    p = torch.randn(2, 2)
    p.grad = torch.randn(2, 2)
    optimizer = ClippedScion([p], **OPTIONS)
    optimizer.step()
    before = p.clone()
    change(optimizer, p)
    with pytest.raises(ValueError, match=text):
        optimizer.step()
    assert torch.equal(p, before)


# Groups

@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_appended_to_a_group_is_stepped(backend):
    p, q = torch.randn(3, 3), torch.randn(4, 2)
    p.grad, q.grad = torch.randn(3, 3), torch.randn(4, 2)
    twins = [p.clone(), q.clone()]
    for t, u in zip((p, q), twins):
        u.grad = t.grad
    optimizer = ClippedScion([p], **OPTIONS, backend=backend)
    optimizer.param_groups[0]["params"].append(q)
    optimizer.step()
    ClippedScion(twins, **OPTIONS, backend=backend).step()
    assert torch.equal(p, twins[0]) and torch.equal(q, twins[1])


def test_a_list_of_parameters_that_left_its_names_behind_is_refused():
    def make():
        model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 3))
        optimizer = ClippedScion(named_groups(model), **OPTIONS)
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()
        return optimizer, optimizer.param_groups[0]

    def append(group):
        group["params"].append(nn.Parameter(torch.zeros(2, 2)))

    def delete(group):
        del group["params"][0]

    def rotate(group):
        group["params"].append(group["params"].pop(0))

    for change in (append, delete, rotate):
        optimizer, group = make()
        change(group)
        before = contents(optimizer)
        with pytest.raises(ValueError, match="param_names"):
            optimizer.step()
        assert same(before, contents(optimizer))
    optimizer, group = make()  # with its name and kind it may go
    for key in ("params", "param_names", "kinds"):
        del group[key][0]
    optimizer.step()
    assert optimizer.explain().splitlines()[1].startswith("1.weight")
    optimizer, group = make()  # another tensor in its place, as programs do that grow their models
    old = group["params"][1]
    group["params"][1] = nn.Parameter(old.detach().clone())
    group["params"][1].grad = torch.ones_like(old)
    optimizer.state[group["params"][1]] = optimizer.state.pop(old)
    optimizer.step()
    assert not torch.equal(group["params"][1], old)


@pytest.mark.parametrize("key,value,text", [
    ("weight_decay", 0.1, "there is none: constrained=True"), ("momentum", 0.9, "momentum 0.9 is alpha=0.1"),
    ("betas", (0.9, 0.99), "alpha=0.1"), ("raduis", 2, "did you mean 'radius'"), ("eps", 1e-8, "known: method"),
    ("differentiable", True, "unknown group key"),
])
def test_unknown_group_keys_are_errors(key, value, text):
    with pytest.raises(ValueError, match=text):
        ClippedScion([{"params": [torch.zeros(2)], key: value}], **OPTIONS)
    optimizer = ClippedScion([torch.zeros(2)], **OPTIONS)
    with pytest.raises(ValueError, match=text):
        optimizer.add_param_group({"params": [torch.zeros(2)], key: value})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize("key,value,text", [
    ("weight_decay", 0.1, "there is none: constrained=True"), ("momentum", 0.9, "alpha=0.1"),
    ("constrained", True, "part of a method's name"), ("threads", 2, "give it to the constructor"),
    ("backend", "torch", "give it to the constructor"), ("overwrite_gradients", True, "give it to the constructor"),
    ("layer_reports", True, "give it to the constructor"), ("raduis", 2, "did you mean 'radius'"),
    ("eps", 1e-8, "other optimizers"), ("foreach", True, "other optimizers"),
])
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("first", [False, True])
def test_a_key_put_into_a_group_later_is_heeded_or_refused(key, value, text, index, first):
    tensors = [nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(4))]
    optimizer = ClippedScion([{"params": [p]} for p in tensors], **OPTIONS)
    for p in tensors:
        p.grad = torch.ones_like(p)
    if not first:
        optimizer.step()
    before = [p.detach().clone() for p in tensors]
    optimizer.param_groups[index][key] = value
    with pytest.raises(ValueError, match=f"'{key}' in group {index} has no effect: .*{text}"):
        optimizer.step()
    assert all(torch.equal(p, b) for p, b in zip(tensors, before))
    del optimizer.param_groups[index][key]
    optimizer.step()


# Every key that a group has: changed in one group or in all, the next step is another one, or it is refused.
@pytest.mark.parametrize("key", _options.SHARED + _options.OWN)
@pytest.mark.parametrize("whole", [False, True])
def test_every_key_of_a_group_is_heeded_or_refused(key, whole):
    other = dict(method="unconstrained_scion", alpha=0.2, rho=0.5, beta=1.0, l0=1.0, l1=1.0, short_step="norm", maximize=True,
                 nonfinite="skip", rules={"0.0": {"radius": 3.0}}, radii={"hidden": 3.0, "bias": 3.0}, solver="muon", step=7,
                 lr=0.02, first_lr=0.02, norm="sign", role="output", radius=4.0, split=2, batch=1,
                 stepsize="adagrad", stepsize_memory=[1.0], line_search="backtracking")

    def run(change):
        generator = torch.Generator().manual_seed(0)
        tensors = [nn.Parameter(torch.randn(4, 3, generator=generator)) for _ in range(2)]
        rules = {"*": {"lr": 0.01}} if key == "first_lr" else {}
        optimizer = ClippedScion([{"params": [p]} for p in tensors], **OPTIONS, rules=rules)
        for k in range(2):
            for p in tensors:
                p.grad = torch.randn(4, 3, generator=generator)
            if k == 1 and key == "nonfinite":
                tensors[0].grad[0, 0] = float("nan")
            if k == 1 and change:
                for group in optimizer.param_groups[0 if whole else 1:]:
                    group[key] = other[key]
            try:
                optimizer.step()
            except NonFiniteError:
                return "an error"
        return [p.tolist() for p in tensors], optimizer.report.step, optimizer.report.skipped

    try:
        changed = run(True)
    except ValueError as error:
        assert re.search(rf"\b{key}\b", str(error)), error
        return
    assert changed != run(False)


def test_what_schedulers_put_into_groups_is_no_error():
    p = torch.zeros(2)
    optimizer = ClippedScion([dict(params=[p], initial_lr=0.1, name="all of it")], **OPTIONS)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5, last_epoch=3)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.025 or optimizer.param_groups[0]["lr"] == 0.05
    optimizer.param_groups[0]["mine"] = 3
    p.grad = torch.ones(2)
    optimizer.step()
    assert optimizer.state_dict()["param_groups"][0]["mine"] == 3


@pytest.mark.parametrize("key,value", [("alpha", 0.9), ("rho", 0.01), ("lr", 0.001), ("radius", 7.0)])
def test_options_given_as_tensors_are_followed_when_they_change_in_place(key, value):
    given = {**OPTIONS, "radius": 2.0}
    p = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    q = p.clone()
    tensor = torch.tensor(given[key], dtype=torch.float64)
    optimizer, other = ClippedScion([p], **{**given, key: tensor}), ClippedScion([q], **given)
    for k in range(2):
        for t in (p, q):
            t.grad = torch.randn(4, 3, generator=torch.Generator().manual_seed(k))
        optimizer.step()
        other.step()
        assert torch.equal(p, q)
        tensor.fill_(value)
        other.param_groups[0][key] = value
    assert optimizer.report == other.report


# Numbers that are not finite, and errors in the middle of a step

@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["cg", "s3cg", "scion", "clipped_scion"])
def test_an_s_that_is_not_finite_touches_nothing(method, backend):
    """Only where constrained does s depend on the weights."""
    model = mixed()
    optimizer = NormBall(model.parameters(), method, **METHODS[method], backend=backend)
    backward(model, Batches()(0))
    optimizer.step()
    with torch.no_grad():
        model.hidden.weight[0, 0] = float("nan")
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    before = contents(optimizer)[2]
    with pytest.raises(NonFiniteError):
        optimizer.step()
    for group in optimizer.param_groups:
        group["nonfinite"] = "skip"
    optimizer.step()
    assert optimizer.report.skipped and optimizer.report.nonfinite == "0.2"
    after = contents(optimizer)[2]
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_an_error_in_one_part_leaves_the_others_alone():
    """float32 and float64 by the core, a bfloat16 tensor whose solver torch operations lack."""
    params = [torch.randn(3, 4), torch.randn(3, 4).double(), torch.randn(3, 4).bfloat16()]
    optimizer = ClippedScion([dict(params=[p]) for p in params], **OPTIONS)
    for p in params:
        p.grad = torch.randn(3, 4).to(p.dtype)
    optimizer.step()
    optimizer.param_groups[2]["norm"] = "spectral(solver=power(rank=2))"
    before = contents(optimizer)
    with pytest.raises(ValueError, match="power"):
        optimizer.step()
    assert same(before, contents(optimizer))
    optimizer.param_groups[2]["norm"] = "spectral"
    optimizer.step()
    assert not same(before, contents(optimizer))


@pytest.mark.parametrize("norm", ["spectral", "sign", "row", "col", "rms", "euclidean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_norms_of_what_is_not_finite(bad, dtype, norm):
    """NaN where there is one, else infinity: alike for arrays, reports of the core and of torch operations."""
    x = torch.randn(5, 4, dtype=dtype)
    x[2, 1] = bad
    expected = pytest.approx(abs(bad), nan_ok=True)
    assert normball.norm(x.numpy(), norm) == expected
    assert normball.dual_norm(x.numpy(), norm) == expected
    for backend in BACKENDS:
        p = x.clone()
        p.grad = torch.randn(5, 4, dtype=dtype)
        optimizer = ClippedScion([p], **OPTIONS, norm=norm, layer_reports=True, backend=backend)
        optimizer.step()
        assert optimizer.report.layers[0].weight_norm == expected, backend
    x[0, 0] = float("nan")
    assert normball.norm(x.numpy(), norm) != normball.norm(x.numpy(), norm)


# Threads

@pytest.mark.parametrize("backend", BACKENDS)
def test_one_optimizer_in_two_threads_takes_turns(backend):
    """With alpha = 1 and fixed gradients all orders of steps give the same weights."""
    torch.manual_seed(0)
    params = [torch.randn(40, 30), torch.randn(40), torch.randn(30, 20).double()]
    twins = [p.clone() for p in params]
    for p, q in zip(params, twins):
        p.grad = torch.randn_like(p)
        q.grad = p.grad.clone()
    options = dict(lr=0.01, alpha=1.0, rho=1.0)
    optimizer, serial = (ClippedScion(own, **options, backend=backend) for own in (params, twins))
    failed = []

    def run():
        try:
            for _ in range(50):
                optimizer.step()
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(150):
        serial.step()
    assert not failed and optimizer.param_groups[0]["step"] == 150
    assert all(torch.equal(p, q) for p, q in zip(params, twins))


def test_a_closure_may_step_another_optimizer_or_wait_for_a_thread():
    p = torch.zeros(3)
    p.grad = torch.ones(3)
    optimizer = ClippedScion([p], **OPTIONS)

    def closure():
        thread = threading.Thread(target=optimizer.step)
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), "the closure must not run under the lock"
        return torch.tensor(1.0)

    optimizer.step(closure)
    assert optimizer.param_groups[0]["step"] == 2


# Reports, balls, initialization

@pytest.mark.parametrize("backend", BACKENDS)
def test_scion_does_not_clip(backend):
    p = torch.randn(3, 4)
    p.grad = torch.randn(3, 4)
    for make in (lambda: Scion([p], lr=0.1, alpha=0.5, backend=backend), lambda: NormBall([p], "lars", 0.1, backend=backend),
                 lambda: NormBall([p], "cg", backend=backend)):
        optimizer = make()
        optimizer.step()
        assert not optimizer.report.clipped and optimizer.report.eta > 0
    optimizer = ClippedScion([p], lr=0.1, alpha=0.5, rho=1e-3, backend=backend)
    optimizer.step()
    assert optimizer.report.clipped


def test_reports_have_all_layers_on_both_paths():
    """Without a gradient a layer has no part in s, but a size."""
    reports = []
    for backend in BACKENDS:
        torch.manual_seed(0)
        params = [torch.randn(4, 3), torch.randn(6, 2), torch.randn(5), torch.zeros(0, 3), torch.randn(3, 8)[:, ::2]]
        optimizer = ClippedScion([dict(params=[p], split=2 if p.shape == (6, 2) else None) for p in params], **OPTIONS,
                                 layer_reports=True, backend=backend)
        params[0].grad = torch.ones(4, 3)
        params[3].grad = torch.zeros(0, 3)
        optimizer.step()
        reports.append(optimizer.report.layers)
    core, ours = reports
    assert [layer.name for layer in core] == ["0.0", "1.0[0]", "1.0[1]", "2.0", "3.0", "4.0"]
    for a, b in zip(core, ours):
        assert a.name == b.name
        assert (b.pairing, b.dual_norm, b.weight_norm) == pytest.approx((a.pairing, a.dual_norm, a.weight_norm), rel=1e-5)
    assert ours[1].weight_norm > 0 and ours[1].pairing == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_weight_that_is_not_finite_is_not_scaled_wherever_it_is(backend, place):
    params = [nn.Parameter(torch.full((3, 4), 5.0)) for _ in range(3)]
    params[place].data[0, 0] = float("nan")
    before = [p.detach().clone() for p in params]
    optimizer = ClippedScion([(f"p{i}", p) for i, p in enumerate(params)], **OPTIONS, constrained=True, norm="rms",
                             backend=backend)
    with pytest.raises(ValueError, match=f"'p{place}' has an entry that is not finite.*nothing was changed"):
        scale_into_balls_(optimizer)
    for p, old in zip(params, before):
        assert torch.equal(p.detach().nan_to_num(7), old.nan_to_num(7))


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_far_outside_their_balls_are_pointed_out_and_can_be_scaled_in(backend):
    torch.manual_seed(0)
    params = [torch.randn(5, 4), torch.randn(6), torch.randn(4, 3, 3, 3), torch.randn(9, 4).bfloat16()]
    optimizer = ClippedScion(params, **OPTIONS, constrained=True, radius=0.01, backend=backend, layer_reports=True)
    for p in params:
        p.grad = -p.clone()
    with pytest.warns(UserWarning, match=r"s = -.* < 0.*scale_into_balls_"):
        optimizer.step()
    assert optimizer.report.stalled and optimizer.report.eta == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()  # once is enough
    largest = max(layer.weight_norm for layer in optimizer.report.layers)
    directions = [p.float() / p.float().norm() for p in params]
    assert scale_into_balls_(optimizer) == pytest.approx(largest, rel=1e-5)
    for p, direction in zip(params, directions):
        torch.testing.assert_close(p.float() / p.float().norm(), direction, rtol=2e-2, atol=1e-2)
    optimizer.step()
    assert [layer.weight_norm for layer in optimizer.report.layers] == pytest.approx([1.0] * 4, rel=1e-2)
    assert not optimizer.report.stalled
    for p in params:
        p.grad = torch.randn_like(p)
    optimizer.state.clear()
    optimizer.step()
    assert optimizer.report.eta > 0


def test_a_module_is_initialized_by_its_routes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8, 12), nn.LayerNorm(12),
                          nn.Linear(12, 6))
    radii = {"input": 2.0, "hidden": 5.0, "output": 30.0}
    optimizer = ClippedScion(model, **OPTIONS, radii=radii, rules={"3.weight": dict(split=3)}, layer_reports=True)
    initialize_(optimizer, seed=7)
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    assert normball.norm(weights["0.weight"].numpy(), "spectral(input)") == pytest.approx(2.0, rel=1e-5)
    for rows in weights["3.weight"].split(4):
        assert normball.norm(rows.numpy(), "spectral") == pytest.approx(5.0, rel=1e-5)
    assert normball.norm(weights["5.weight"].numpy(), "sign") == pytest.approx(30.0, rel=1e-5)
    assert not any(weights[f"{i}.bias"].any() for i in (0, 1, 3, 4, 5))
    assert all(torch.equal(weights[f"{i}.weight"], torch.ones_like(weights[f"{i}.weight"])) for i in (1, 4)), "gains"
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    measured = {layer.name: layer.weight_norm for layer in optimizer.report.layers}
    assert [measured[name] for name in ("0.weight", "3.weight[0]", "3.weight[2]", "5.weight")] == pytest.approx(4 * [1.0])
    other = copy.deepcopy(model).double()
    initialize_(other, seed=7, radii=radii, rules={"3.weight": dict(split=3)})
    for name, p in other.named_parameters():
        if p.dim() > 1:
            torch.testing.assert_close(p.detach().float(), weights[name], rtol=1e-6, atol=1e-7)
    initialize_(other, seed=8, radii=radii)
    assert not torch.equal(other[5].weight.float(), weights["5.weight"])
    assert not torch.equal(other[3].weight[:4], other[3].weight[4:8])


def test_initialization_of_half_precision_and_strided_weights():
    bfloat, strided = torch.zeros(8, 6).bfloat16(), torch.zeros(6, 10, dtype=torch.float64)[:, ::2]
    optimizer = ClippedScion([bfloat, strided], **OPTIONS, radius=3.0)
    initialize_(optimizer)
    assert normball.norm(bfloat.float().numpy(), "spectral") == pytest.approx(3.0, rel=1e-2)
    assert normball.norm(strided.numpy(), "spectral") == pytest.approx(3.0, rel=1e-9)


@pytest.mark.parametrize("call,parts", [
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS, rules=[("*", dict(norm="sign"))]),
     ["[ClippedScion]", "rules must be a dict", "list"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS, rules={"*": "sign"}), ["the rule '*' must be a dict", "str"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS, radii=[1, 2]), ["radii must be a dict", "list"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS, solver=None), ["solver is a name", "None", "leave it out"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS, threads=100000), ["threads", "at most 4096", "100000"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS, threads=1.5), ["threads", "1.5"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS, short_step=None), ["short_step is a name", "None"]),
    (lambda: NormBall([torch.zeros(2)], 3, 0.1), ["method is a name", "3"]),
    (lambda: ClippedScion([torch.zeros(2)], lr=0.1, alpha=0.5, rho="10"), ["rho must be a number", "'10'"]),
    (lambda: ClippedScion([torch.zeros(2)], lr=torch.ones(2), alpha=0.5, rho=1.0), ["lr must be a number", "tensor"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS, rules={3: dict(norm="sign")}), ["pattern of names", "3"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS, threads=True), ["threads", "True"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS, overwrite_gradients="no"), ["overwrite_gradients", "'no'"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS).explain(grad_clip="a"), ["[ClippedScion.explain]", "grad_clip"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS).load_state_dict({}), ["'param_groups'", "state_dict()"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS).load_state_dict(None), ["'param_groups'", "state_dict()"]),
    (lambda: ClippedScion([torch.zeros(2)], **OPTIONS).load_state_dict(nn.Linear(2, 2).state_dict()), ["'param_groups'"]),
    (lambda: normball.norm(torch.ones(2, 2).numpy(), None), ["[norm]", "norm is a name", "None"]),
    (lambda: normball.lmo(torch.ones(2, 2).numpy(), solver=3), ["[lmo]", "solver is a name", "3"]),
    (lambda: normball.initialize((2, 2), radius="wide"), ["[initialize]", "radius", "wide"]),
    (lambda: normball.initialize((2, 2), seed=-1), ["[initialize]", "seed", "-1"]),
    (lambda: normball.initialize((2, 2), seed=1.5), ["[initialize]", "seed", "1.5"]),
    (lambda: initialize_(ClippedScion([torch.zeros(2, 2)], **OPTIONS), seed=-1), ["[initialize_]", "seed", "-1"]),
    (lambda: initialize_(ClippedScion([torch.zeros(2, 2)], **OPTIONS), radii={}), ["[initialize_]", "radii"]),
    (lambda: initialize_([torch.zeros(2, 2)]), ["[initialize_]", "list"]),
    (lambda: scale_into_balls_(nn.Linear(2, 2)), ["[scale_into_balls_]", "Linear"]),
])
def test_errors_have_a_remedy(call, parts):
    with pytest.raises(ValueError) as error:
        call()
    for part in parts:
        assert part in str(error.value), str(error.value)


@pytest.mark.parametrize("whole", [True, False])
def test_frozen_weights_stay(whole):
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1000)
    for p in model[0].parameters():
        p.requires_grad_(False)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = ClippedScion(model, **OPTIONS, constrained=True)
    if whole:
        initialize_(model)
    else:
        initialize_(optimizer)
    assert [torch.equal(p, old) for p, old in zip(model.parameters(), before)] == [True, True] + 4 * [False]
    assert scale_into_balls_(optimizer) == pytest.approx(1, rel=1e-4)  # what is frozen does not count
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    before = [p.detach().clone() for p in model[0].parameters()]
    assert scale_into_balls_(optimizer) == pytest.approx(2, rel=1e-4)
    assert all(torch.equal(p, old) for p, old in zip(model[0].parameters(), before))


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_the_warning_of_a_stall_measures_what_may_move(backend):
    frozen, own = nn.Parameter(1e6 * torch.eye(4), requires_grad=False), nn.Parameter(3 * torch.eye(4))
    own.grad = -torch.eye(4)
    optimizer = ClippedScion([frozen, own], **OPTIONS, constrained=True, norm="spectral(unit)", backend=backend)
    with pytest.warns(UserWarning, match=r"are 3 times as large as their balls"):
        optimizer.step()
