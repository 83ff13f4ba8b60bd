"""What PyTorch asks of every optimizer, for every method, by the core and by torch operations."""
import copy
import io
import pickle
import warnings
import weakref

import pytest
import torch
from normball.torch import ClippedScion, NormBall, method_names
from reference import METHODS
from torch import nn

BACKENDS = ["auto", "torch"]
HOOKS = pytest.mark.skipif(not hasattr(torch.optim.Optimizer, "register_load_state_dict_pre_hook"),
                           reason="hooks of state dictionaries came with torch 2.1")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture(params=method_names())
def method(request):
    return request.param


def options(method, **more):
    return {**METHODS[method], **more}


def tensors(dtype=torch.float64, seed=0):
    """A matrix, a convolution, a vector and a scalar, inside their balls."""
    random = torch.Generator().manual_seed(seed)
    return [nn.Parameter(0.01 * torch.randn(shape, generator=random, dtype=torch.float64).to(dtype))
            for shape in ((5, 3), (4, 2, 3, 3), (6,), ())]


def set_gradients(params, seed=1):
    random = torch.Generator().manual_seed(seed)
    for p in params:
        p.grad = torch.randn(p.shape, generator=random, dtype=torch.float64).to(p.dtype)


def run(params, optimizer, steps, first=0):
    for k in range(first, first + steps):
        set_gradients(params, k)
        optimizer.step()


def values(params):
    return [p.detach().clone() for p in params]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b))


def through_a_file(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer)


# State dictionaries

def test_a_loaded_optimizer_goes_on_alike(method, backend):
    params = tensors()
    optimizer = NormBall(params, method, **options(method, backend=backend))
    run(params, optimizer, 3)
    saved = through_a_file(optimizer.state_dict())
    others = [nn.Parameter(v) for v in values(params)]
    loaded = NormBall(others, method, **options(method, backend=backend))
    loaded.load_state_dict(saved)
    run(params, optimizer, 3, 3)
    run(others, loaded, 3, 3)
    assert equal(params, others) and loaded.report == optimizer.report


def test_loading_shares_nothing(method, backend):
    """Two optimizers that loaded one dictionary, and the dictionary itself, go their own ways."""
    params = tensors()
    optimizer = NormBall(params, method, **options(method, backend=backend))
    run(params, optimizer, 2)
    saved = optimizer.state_dict()
    kept = copy.deepcopy(saved)
    others = [nn.Parameter(v) for v in values(params)]
    loaded = NormBall(others, method, **options(method, backend=backend))
    loaded.load_state_dict(saved)
    run(others, loaded, 2, 7)
    after = optimizer.state_dict()
    for i, state in kept["state"].items():
        assert torch.equal(state["momentum"], after["state"][i]["momentum"])
        assert state["momentum"].data_ptr() != loaded.state[others[i]]["momentum"].data_ptr()
    assert after["param_groups"] == kept["param_groups"]


def test_the_dictionary_has_torch_s_form(method, backend):
    params = tensors()
    optimizer = NormBall([dict(params=params[:2]), dict(params=params[2:], lr=0.001)], method,
                         **options(method, backend=backend))
    assert optimizer.state_dict()["state"] == {}
    run(params, optimizer, 2)
    saved = optimizer.state_dict()
    assert set(saved) == {"state", "param_groups"}
    assert [group["params"] for group in saved["param_groups"]] == [[0, 1], [2, 3]]
    assert sorted(saved["state"]) == [0, 1, 2, 3]
    assert all(state["momentum"].shape == p.shape for state, p in zip(saved["state"].values(), params))
    defaults = set(optimizer.defaults) - {"differentiable"}
    assert all(defaults <= set(group) for group in saved["param_groups"])
    pickle.dumps(saved)


@pytest.mark.parametrize("saved_dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_loaded_momentum_has_the_type_that_computes(dtype, saved_dtype, backend):
    old, new = tensors(saved_dtype), tensors(dtype)
    optimizer = ClippedScion(old, **METHODS["unconstrained_clipped_scion"], backend=backend)
    run(old, optimizer, 2)
    loaded = ClippedScion(new, **METHODS["unconstrained_clipped_scion"], backend=backend)
    loaded.load_state_dict(optimizer.state_dict())
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    for p, q in zip(old, new):
        momentum = loaded.state[q]["momentum"]
        assert momentum.dtype == expected
        assert torch.equal(momentum, optimizer.state[p]["momentum"].to(expected))
    run(new, loaded, 1, 2)


def test_dictionaries_from_before_param_names_and_newer_options_load(method):
    """Versions without an option, or with the older key for names, take what the optimizer has."""
    named = [(f"layer.{i}", p) for i, p in enumerate(tensors())]
    params = [p for _, p in named]
    optimizer = NormBall(named, method, **options(method))
    run(params, optimizer, 2)
    saved = copy.deepcopy(optimizer.state_dict())
    group = saved["param_groups"][0]
    assert group["param_names"] == [f"layer.{i}" for i in range(4)]
    group["names"] = group.pop("param_names")
    for key in ("nonfinite", "solver", "batch", "radii", "maximize"):
        del group[key]
    others = [nn.Parameter(v) for v in values(params)]
    loaded = NormBall([(name, p) for (name, _), p in zip(named, others)], method, **options(method), nonfinite="skip")
    loaded.load_state_dict(saved)
    assert loaded.param_groups[0]["nonfinite"] == "skip" and loaded.param_groups[0]["solver"] == "exact"
    assert loaded.param_groups[0]["param_names"] == [f"layer.{i}" for i in range(4)]
    assert "names" not in loaded.param_groups[0]
    run(params, optimizer, 1, 2)
    run(others, loaded, 1, 2)
    assert equal(params, others)


def test_other_names_in_the_dictionary_are_refused():
    """A dictionary without names leaves the optimizer's; wrappers of a module do not count as another name."""
    params = tensors()

    def made(prefix):
        return ClippedScion([(f"{prefix}{i}", p) for i, p in enumerate(params)], lr=0.1, alpha=0.5, rho=1.0)
    named, saved = made("new."), made("old.").state_dict()
    unnamed = ClippedScion(params, lr=0.1, alpha=0.5, rho=1.0).state_dict()
    assert "param_names" not in unnamed["param_groups"][0]
    named.load_state_dict(unnamed)
    assert named.param_groups[0]["param_names"][0] == "new.0"
    with pytest.raises(ValueError, match=r"'old.0' where this optimizer has 'new.0', in group 0.*param_names"):
        named.load_state_dict(saved)
    assert named.param_groups[0]["param_names"][0] == "new.0"
    last = copy.deepcopy(made("new.").state_dict())
    last["param_groups"][0]["param_names"][3] = "other"
    with pytest.raises(ValueError, match="'other' where this optimizer has 'new.3'"):
        named.load_state_dict(last)
    named.load_state_dict(made("module._orig_mod.new.").state_dict())
    ClippedScion(params, lr=0.1, alpha=0.5, rho=1.0).load_state_dict(saved)  # names on one side alone
    # The remedies of the message.
    saved["param_groups"][0]["param_names"] = [f"new.{i}" for i in range(4)]
    made("new.").load_state_dict(saved)
    del saved["param_groups"][0]["param_names"]
    made("another.").load_state_dict(saved)


def test_names_that_a_group_got_beside_a_named_one_are_nobody_s():
    a, b = tensors()[:2]
    groups = [dict(params=[a]), dict(params=[b], param_names=["b"])]
    saved = ClippedScion(groups, lr=0.1, alpha=0.5, rho=1.0).state_dict()
    assert saved["param_groups"][0]["param_names"] == ["0.0"]
    ClippedScion([dict(params=[("a", a)]), dict(params=[("b", b)])], lr=0.1, alpha=0.5, rho=1.0).load_state_dict(saved)
    with pytest.raises(ValueError, match="'b' where this optimizer has 'c', in group 1"):
        ClippedScion([dict(params=[a]), dict(params=[("c", b)])], lr=0.1, alpha=0.5, rho=1.0).load_state_dict(saved)


def test_names_in_another_order_are_refused():
    """State is loaded by place: the momentum of one parameter must not become another's of the same shape."""
    def made(order):
        named = [(f"p{i}", nn.Parameter(torch.full((3, 3), float(i)))) for i in order]
        for i, (_, p) in zip(order, named):
            p.grad = torch.full((3, 3), float(i))
        return ClippedScion(named, lr=0.1, alpha=0.5, rho=1.0)

    saved = made([0, 1, 2])
    saved.step()
    for order, first in (([1, 0, 2], "'p0' where this optimizer has 'p1'"), ([0, 2, 1], "'p1' where this optimizer has 'p2'"),
                         ([0, 3, 1], "'p1' where this optimizer has 'p3'")):
        other = made(order)
        with pytest.raises(ValueError, match=first):
            other.load_state_dict(saved.state_dict())
        assert not other.state and other.param_groups[0]["param_names"] == [f"p{i}" for i in order]
    same = made([0, 1, 2])
    same.load_state_dict(saved.state_dict())
    assert equal([same.state[p]["momentum"] for p in same.param_groups[0]["params"]],
                 [saved.state[p]["momentum"] for p in saved.param_groups[0]["params"]])


@pytest.mark.parametrize("damage,text", [
    (lambda d: d["param_groups"][0].pop("method"), "belongs to another optimizer"),
    (lambda d: d["param_groups"][0].update(method="lars"), "'lars'"),
    (lambda d: d["param_groups"][0].update(rho=-1.0), "rho"),
    (lambda d: d["param_groups"][0].update(lr=float("nan")), "lr"),
    (lambda d: d["param_groups"].append(d["param_groups"][0]), "another model: it has 2 groups"),
    (lambda d: d["param_groups"][0]["params"].pop(), "of another model"),
    (lambda d: d["state"][0].update(momentum=torch.zeros(2)), r"momentum of '0.0' is \[2\]"),
    (lambda d: d["state"][0].update(momentum=3.0), "floating-point tensor, got float"),
])
def test_a_damaged_dictionary_changes_nothing(damage, text, backend):
    params = tensors()
    optimizer = ClippedScion(params, lr=0.1, alpha=0.5, rho=1.0, backend=backend)
    run(params, optimizer, 2)
    before = copy.deepcopy(optimizer.state_dict())
    saved = copy.deepcopy(before)
    damage(saved)
    with pytest.raises(ValueError, match=text):
        optimizer.load_state_dict(saved)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert equal([s["momentum"] for s in before["state"].values()], [s["momentum"] for s in after["state"].values()])


@HOOKS
def test_hooks_of_state_dictionaries_have_the_last_word(backend):
    params = tensors(torch.bfloat16)
    optimizer = ClippedScion(params, lr=0.1, alpha=0.5, rho=1.0, backend=backend)
    run(params, optimizer, 2)
    saved = optimizer.state_dict()
    foreign = {"state": {i: {"average": s["momentum"]} for i, s in saved["state"].items()},
               "param_groups": [{"params": [0, 1, 2, 3], "lr": 0.05}]}

    def convert(own, state_dict):
        groups = [{**own.state_dict()["param_groups"][0], **group} for group in state_dict["param_groups"]]
        state = {i: {"momentum": 2 * s["average"]} for i, s in state_dict["state"].items()}
        return {"state": state, "param_groups": groups}

    loaded = ClippedScion(tensors(torch.bfloat16), lr=0.1, alpha=0.5, rho=1.0, backend=backend)
    with pytest.raises(ValueError, match="belongs to another optimizer"):
        loaded.load_state_dict(foreign)
    loaded.register_load_state_dict_pre_hook(convert)
    loaded.load_state_dict(foreign)
    assert loaded.param_groups[0]["lr"] == 0.05
    for i, state in enumerate(loaded.state.values()):
        assert torch.equal(state["momentum"], 2 * saved["state"][i]["momentum"])

    def halve(own):
        for state in own.state.values():
            state["momentum"].mul_(0.5)

    loaded.register_load_state_dict_post_hook(halve)
    loaded.load_state_dict(foreign)
    for i, state in enumerate(loaded.state.values()):
        assert torch.equal(state["momentum"], saved["state"][i]["momentum"])
    loaded.register_state_dict_pre_hook(lambda own: own.param_groups[0].update(seen=True))
    loaded.register_state_dict_post_hook(lambda own, state_dict: {**state_dict, "extra": 1})
    assert loaded.state_dict()["extra"] == 1 and loaded.param_groups[0]["seen"]


def test_deepcopy_and_pickling(method, backend):
    params = tensors()
    optimizer = NormBall(params, method, **options(method, backend=backend))
    run(params, optimizer, 2)
    copies = [copy.deepcopy((params, optimizer)), pickle.loads(pickle.dumps((params, optimizer)))]
    run(params, optimizer, 2, 2)
    for other_params, other in copies:
        assert type(other) is NormBall and other.defaults["method"] == method
        run(other_params, other, 2, 2)
        assert equal(params, other_params)
        other.add_param_group(dict(params=[torch.zeros(3)]))
        assert len(other.param_groups) == 2


# Steps

def test_no_gradient_is_no_step_and_zero_is_one(method, backend):
    params = tensors()
    before = values(params)
    optimizer = NormBall(params, method, **options(method, backend=backend))
    optimizer.step()
    assert equal(params, before) and not optimizer.state and optimizer.param_groups[0]["step"] == 0
    for p in params:
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert optimizer.param_groups[0]["step"] == 1
    assert equal(params, before) or method in ("cg", "scion"), "these draw to the center, as weight decay does"
    optimizer.zero_grad(set_to_none=True)
    kept = values(params)
    optimizer.step()
    assert equal(params, kept) and optimizer.param_groups[0]["step"] == 1


def test_parameters_without_gradient_and_frozen_ones_stay(method, backend):
    params = tensors()
    optimizer = NormBall(params, method, **options(method, backend=backend))
    set_gradients(params)
    params[1].grad = None
    params[2].requires_grad_(False)
    params[2].grad = None
    before = values(params)
    optimizer.step()
    assert torch.equal(params[1], before[1]) and torch.equal(params[2], before[2])
    assert not torch.equal(params[0], before[0]) and params[1] not in optimizer.state


def test_the_order_of_parameters_does_not_matter(method, backend):
    """One s for the whole model, whatever the order or the groups."""
    params, others, grouped = tensors(), tensors(), tensors()
    optimizers = [NormBall(own, method, **options(method, backend=backend)) for own in
                  (params, others[::-1], [dict(params=[p]) for p in grouped])]
    for own, optimizer in zip((params, others, grouped), optimizers):
        run(own, optimizer, 3)
        assert optimizer.report.s == pytest.approx(optimizers[0].report.s, rel=1e-12)
        for p, q in zip(params, own):
            torch.testing.assert_close(p, q, rtol=1e-11, atol=1e-13)


def test_lr_of_groups_schedulers_and_tensors(method, backend):
    """Twice the lr is twice the step; a tensor changed in place counts."""
    start = tensors()
    lr = METHODS[method].get("lr", 0.5) / 4
    tensor = torch.tensor(lr, dtype=torch.float64)
    moves = []
    for given in (lr, 2 * lr, tensor):
        params = tensors()
        optimizer = NormBall([dict(params=params[:2]), dict(params=params[2:], lr=given)], method,
                             **options(method, lr=lr, backend=backend))
        if given is tensor:
            tensor.fill_(2 * lr)
        run(params, optimizer, 1)
        moves.append([q.detach() - p.detach() for p, q in zip(start, params)])
        assert optimizer.report.lr == pytest.approx(max(lr, float(given)))
    for other in moves[1:]:
        for i, (a, b) in enumerate(zip(moves[0], other)):
            torch.testing.assert_close(b, a if i < 2 else 2 * a, rtol=1e-9, atol=1e-14)
    params = tensors()
    optimizer = NormBall(params, method, **options(method, lr=lr, backend=backend))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 0.5 ** k)
    for k in range(3):
        run(params, optimizer, 1)
        assert optimizer.report.lr == pytest.approx(lr * 0.5 ** k)
        scheduler.step()


def test_closures(method, backend):
    params = tensors()
    optimizer = NormBall(params, method, **options(method, backend=backend))
    calls = []

    def closure():
        calls.append(torch.is_grad_enabled())
        optimizer.zero_grad()
        loss = sum((p - 1).pow(2).sum() for p in params)
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert calls == [True] and first.item() > optimizer.step(closure).item() and len(calls) == 2
    with torch.enable_grad():
        optimizer.step(closure)
        assert torch.is_grad_enabled()


def test_gradients_and_parameters_of_other_layouts(method, backend):
    params, others = tensors(), tensors()
    memory = torch.zeros(3, 10, dtype=torch.float64)
    view = memory[:, ::2].t()
    view.copy_(others[0].detach())
    others[0] = view
    others[1] = nn.Parameter(others[1].detach().to(memory_format=torch.channels_last))
    one, two = (NormBall(own, method, **options(method, backend=backend)) for own in (params, others))
    for k in range(3):
        set_gradients(params, k)
        for p, q in zip(params, others):
            q.grad = p.grad.t().contiguous().t() if p.dim() == 2 else p.grad.clone()
        one.step()
        two.step()
    for p, q in zip(params, others):
        torch.testing.assert_close(p.detach(), q.detach(), rtol=1e-10, atol=1e-12)
    assert not memory[:, 1::2].any(), "what lies between"


def test_maximize_is_the_other_sign(method, backend):
    params, others = tensors(), tensors()
    up = NormBall(params, method, **options(method, backend=backend, maximize=True))
    down = NormBall(others, method, **options(method, backend=backend))
    for k in range(2):
        set_gradients(params, k)
        set_gradients(others, k)
        for q in others:
            q.grad.neg_()
        up.step()
        down.step()
    assert equal(params, others)


def test_complex_and_sparse_are_refused(method, backend):
    with pytest.raises(ValueError, match="complex64"):
        NormBall([torch.zeros(2, dtype=torch.complex64)], method, **options(method, backend=backend))
    p = nn.Parameter(torch.zeros(4, 3))
    optimizer = NormBall([p], method, **options(method, backend=backend))
    p.grad = torch.eye(4, 3).to_sparse()
    with pytest.raises(ValueError, match="'0.0' is sparse"):
        optimizer.step()
    assert not p.any() and not optimizer.state


# Groups, defaults, hooks

def test_groups_added_later_join(method, backend):
    params, others = tensors(), tensors()
    late = NormBall(params[:1], method, **options(method, backend=backend))
    for p in params[1:]:
        late.add_param_group(dict(params=p))
    whole = NormBall([dict(params=[p]) for p in others], method, **options(method, backend=backend))
    run(params, late, 2)
    run(others, whole, 2)
    assert equal(params, others)
    extra = nn.Parameter(torch.zeros(3, 2, dtype=torch.float64))
    late.add_param_group({"params": [extra]})
    assert late.param_groups[-1]["step"] == 2
    run([*params, extra], late, 1, 2)
    assert extra.any() and late.param_groups[-1]["step"] == 3
    with pytest.raises(ValueError, match="more than one parameter group"):
        late.add_param_group({"params": [extra]})


def test_named_and_unnamed_groups_may_meet():
    params = tensors()
    optimizer = ClippedScion([dict(params=params[:1])], lr=0.1, alpha=0.5, rho=1.0)
    assert "param_names" not in optimizer.param_groups[0]
    with pytest.raises(ValueError, match="radius"):
        optimizer.add_param_group(dict(params=[("b", params[1])], radius=-1))
    assert "param_names" not in optimizer.param_groups[0]
    optimizer.add_param_group(dict(params=[("b", params[1])]))
    optimizer.add_param_group(dict(params=params[2:]))
    assert [group["param_names"] for group in optimizer.param_groups] == [["0.0"], ["b"], ["2.0", "2.1"]]
    run(params, optimizer, 1)


def test_options_of_groups_are_kept_and_others_defaulted(method):
    params = tensors()
    optimizer = NormBall([dict(params=params[:1], lr=0.003), dict(params=params[1:])], method, **options(method))
    assert optimizer.param_groups[0]["lr"] == 0.003
    assert optimizer.param_groups[1]["lr"] == METHODS[method].get("lr", 1.0)
    assert all(group["method"] == method for group in optimizer.param_groups)
    given = dict(params=params[:1])
    NormBall([given], method, **options(method))
    assert set(given) == {"params"}, "the user's dictionary stays the user's"


@pytest.mark.skipif(not hasattr(torch.optim.Optimizer, "register_step_pre_hook"), reason="step hooks came with torch 2.0")
def test_step_hooks(method, backend):
    params = tensors()
    optimizer = NormBall(params, method, **options(method, backend=backend))
    calls = []
    handles = [optimizer.register_step_pre_hook(lambda own, args, kwargs: calls.append(own.param_groups[0]["step"])),
               optimizer.register_step_post_hook(lambda own, args, kwargs: calls.append(own.param_groups[0]["step"]))]
    run(params, optimizer, 2)
    assert calls == [0, 1, 1, 2]
    for handle in handles:
        handle.remove()
    run(params, optimizer, 1)
    assert len(calls) == 4


def test_zero_grad(method):
    params = tensors()
    optimizer = NormBall(params, method, **options(method))
    set_gradients(params)
    optimizer.zero_grad(set_to_none=False)
    assert not any(p.grad.any() for p in params)
    optimizer.zero_grad(set_to_none=True)
    assert all(p.grad is None for p in params)


def test_repr_and_profiler(method):
    optimizer = NormBall(tensors(), method, **options(method))
    assert f"method: {method}" in repr(optimizer)
    with torch.profiler.profile() as profile:
        optimizer.step()
    assert any("Optimizer.step#NormBall.step" in event.key for event in profile.key_averages())


def test_an_optimizer_is_freed_with_its_last_reference(method, backend):
    params = tensors()
    optimizer = NormBall(params, method, **options(method, backend=backend))
    run(params, optimizer, 2)
    gone = weakref.ref(optimizer)
    del optimizer
    assert gone() is None, "no cycle keeps its buffers"


def test_training_under_amp_and_with_accumulated_gradients(backend):
    """bfloat16 autocast with float32 weights; two halves of a batch are the batch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
    other = copy.deepcopy(model)
    x, y = torch.randn(32, 6), torch.randint(0, 4, (32,))
    one, two = (ClippedScion(m, lr=0.05, alpha=0.5, rho=1.0, backend=backend) for m in (model, other))
    losses = []
    for _ in range(10):
        one.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        one.step()
        losses.append(loss.item())
        two.zero_grad()
        for half in range(2):
            part = slice(16 * half, 16 * half + 16)
            (nn.functional.cross_entropy(other(x[part]), y[part]) / 2).backward()
        two.step()
        assert two.report.s == pytest.approx(one.report.s, rel=1e-3)
    assert losses[-1] < 0.8 * losses[0]
    for _ in range(3):
        one.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        one.step()
    assert all(p.dtype == torch.float32 for p in model.parameters()) and loss.item() < losses[0]


def test_swapped_and_averaged_weights_are_followed(backend):
    """vector_to_parameters, load_state_dict of the model and .data, as averaging programs use them."""
    model = nn.Linear(4, 3)
    optimizer = ClippedScion(model, lr=0.1, alpha=0.5, rho=1.0, backend=backend)
    other = copy.deepcopy(model)
    same = ClippedScion(other, lr=0.1, alpha=0.5, rho=1.0, backend=backend)
    for k in range(3):
        run(list(model.parameters()), optimizer, 1, k)
        run(list(other.parameters()), same, 1, k)
        assert equal(model.parameters(), other.parameters())
        vector = nn.utils.parameters_to_vector(model.parameters()).detach()
        nn.utils.vector_to_parameters(vector, model.parameters())
        model.load_state_dict(copy.deepcopy(model.state_dict()))
        for p in model.parameters():
            p.data = p.data.clone()


def test_nothing_warns(method, backend):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        params = tensors()
        optimizer = NormBall(params, method, **options(method, backend=backend))
        run(params, optimizer, 2)
        optimizer.load_state_dict(optimizer.state_dict())
        run(params, optimizer, 1, 2)
