"""Every option has an effect or is refused, when it is given and not at the first step; and what a schedule left behind."""
import copy
import io
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import normball
from normball.torch import (ClippedScion, NonFiniteError, NormBall, Scion, initialize_, method_names, named_groups,
                            scale_into_balls_)

OPTIONS = dict(lr=0.01, alpha=0.5, rho=10.0)
NEEDED = {"rho": 3.0, "beta": 2.0, "l0": 1.0, "l1": 1.0}


def own_options(method):
    """The least that the method can be made of."""
    options = dict(NEEDED)
    for key in NEEDED:
        try:
            NormBall([torch.zeros(2, 2)], method, 0.1, **{k: v for k, v in options.items() if k != key})
            del options[key]
        except ValueError as error:
            if f"has no {key}" in str(error):
                del options[key]
    for key in NEEDED:  # one refusal may hide another
        if key in options:
            try:
                NormBall([torch.zeros(2, 2)], method, 0.1, **options)
            except ValueError as error:
                name = str(error).split("has no ")[-1].split(",")[0]
                options.pop(name)
    return options


def steps(method, count=4, seed=0, **options):
    """Weights after some steps on fixed gradients."""
    generator = torch.Generator().manual_seed(seed)
    p = nn.Parameter(0.3 * torch.randn(6, 4, generator=generator, dtype=torch.float64))
    optimizer = NormBall([p], method, 0.1, **options)
    for k in range(count):  # some are clipped, some are not
        p.grad = 5 * 0.05 ** k * torch.randn(6, 4, generator=generator, dtype=torch.float64)
        optimizer.step()
    return p.detach().clone()


@pytest.mark.parametrize("method", method_names())
def test_every_option_of_a_method_has_an_effect_or_is_refused(method):
    own = own_options(method)
    before = steps(method, **own)
    changes = dict(alpha=0.3, rho=0.7, beta=1.5, l0=3.0, l1=3.0, short_step="diameter", solver="muon", maximize=True,
                   norm="rms", role="output", radius=1.7, radii={"hidden": 1.7}, split=2)
    refused = []
    for key, value in changes.items():
        try:
            after = steps(method, **{**own, key: value})
        except ValueError as error:
            assert error.args[0].startswith("["), error
            refused.append(key)
            continue
        assert not torch.equal(before, after), f"{method}: {key} changed nothing"
    assert "maximize" not in refused


def test_a_solver_is_of_every_spectral_norm_without_its_own():
    found = {}
    for norm, solver in (("auto", "muon"), ("spectral", "muon"), ("spectral(solver=muon)", "exact"), ("spectral", "exact"),
                         ("spectral(solver=exact)", "muon"), ("sign", "muon"), ("sign", "exact")):
        for rule in (False, True):
            given = dict(rules={"*": dict(norm=norm)}) if rule else dict(norm=norm)
            found[norm, solver, rule] = steps("unconstrained_scion", solver=solver, **given)
    for rule in (False, True):
        muon = found["auto", "muon", False]
        exact = found["spectral", "exact", False]
        assert not torch.equal(muon, exact)
        assert torch.equal(found["spectral", "muon", rule], muon)
        assert torch.equal(found["spectral(solver=muon)", "exact", rule], muon)
        assert torch.equal(found["spectral(solver=exact)", "muon", rule], exact)
        assert torch.equal(found["sign", "muon", rule], found["sign", "exact", rule])


@pytest.mark.parametrize("method,form,text", [
    ("gd", "plain", "'gd' does not take short_step"), ("ggnc", "norm", "'ggnc' does not take short_step"),
    ("unconstrained_scion", "norm", "'unconstrained_scion' does not take short_step"),
    ("unconstrained_clipped_scion", "norm", "constrained methods"), ("s3cg", "plain", "'norm' or 'diameter'")])
def test_short_steps_are_refused_where_there_are_none(method, form, text):
    with pytest.raises(ValueError, match=text):
        NormBall([torch.zeros(2)], method, 0.1, short_step=form, **own_options(method))


@pytest.mark.parametrize("call,error,parts", [
    (lambda p: ClippedScion(p, **OPTIONS, constrained="no"), ValueError, ["[ClippedScion]", "constrained", "'no'"]),
    (lambda p: Scion(p, lr=0.1, alpha=0.5, constrained=0), ValueError, ["[Scion]", "constrained", "0"]),
    (lambda p: Scion(p, lr=0.1, alpha=0.5, short_step="norm"), ValueError, ["[Scion]", "does not take short_step", "'norm'"]),
    (lambda p: Scion(p, lr=0.1, alpha=0.5, rho=3.0), ValueError, ["[Scion]", "has no rho", "3"]),
    (lambda p: NormBall(p, "gd", 0.1, solver="muon"), ValueError, ["[NormBall]", "'gd'", "needs no solver", "muon"]),
    (lambda p: NormBall(p, "clipped_sign", 0.1, rho=1.0, solver="damped"), ValueError, ["'clipped_sign'", "no solver"]),
    (lambda p: ClippedScion(p, **OPTIONS, weight_decay=0.1), TypeError, ["[ClippedScion]", "'weight_decay'", "balls"]),
    (lambda p: Scion(p, lr=0.1, alpha=0.5, momentum=0.9), TypeError, ["[Scion]", "'momentum'", "alpha=0.1"]),
    (lambda p: ClippedScion(p, **OPTIONS, raduis=0.1), TypeError, ["[ClippedScion]", "'raduis'", "'radius'"]),
    (lambda p: NormBall(p, "scion", 0.1, constrained=True), TypeError, ["[NormBall]", "part of a method's name"]),
    (lambda p: ClippedScion(p, **OPTIONS, radii={1: 2}), ValueError, ["[ClippedScion]", "radii", "a role", "got 1"]),
    (lambda p: ClippedScion(p, **OPTIONS, radii={"onehot": -1}), ValueError, ["[ClippedScion]", "'onehot'", "positive", "-1"]),
    (lambda p: ClippedScion(p, **OPTIONS, radii={"onehot": 0}), ValueError, ["[ClippedScion]", "'onehot'", "positive", "0"]),
    (lambda p: NormBall(p, "s3cg", 0.1, **own_options("s3cg"), radius=2.0), ValueError, ["'s3cg'", "every radius", "radius=2.0"]),
    (lambda p: normball.lmo(np.eye(3), norm="spectral(solver=svd)", solver="muon"), ValueError, ["solver=svd", "'muon'"]),
    (lambda p: named_groups(p), ValueError, ["[named_groups]", "module", "list"]),
    (lambda p: named_groups(nn.Linear(2, 2), prefix=3), ValueError, ["[named_groups]", "prefix", "3"]),
    (lambda p: named_groups(nn.LazyLinear(4)), ValueError, ["[named_groups]", "'weight' has no shape yet"]),
    (lambda p: ClippedScion(nn.LazyLinear(4), **OPTIONS), ValueError, ["[ClippedScion]", "'weight' has no shape", "batch"]),
    (lambda p: ClippedScion(nn.ReLU(), **OPTIONS), ValueError, ["[ClippedScion]", "ReLU has no parameters"]),
    (lambda p: initialize_(nn.ReLU()), ValueError, ["[initialize_]", "ReLU has no parameters"]),
    (lambda p: initialize_(nn.Linear(2, 2), rho=3), TypeError, ["[initialize_]", "'rho'", "radii"]),
    (lambda p: initialize_(nn.Linear(2, 2), radii={"hiden": 3}), ValueError, ["'hiden'", "hidden"]),
    (lambda p: initialize_(nn.Linear(2, 2), radii=3), ValueError, ["[initialize_]", "radii must be a dict"]),
    (lambda p: normball.initialize((3.5, 4)), ValueError, ["[initialize]", "shape", "(3.5, 4)"]),
    (lambda p: normball.initialize((-3, 4)), ValueError, ["[initialize]", "shape", "(-3, 4)"]),
    (lambda p: normball.initialize("ab"), ValueError, ["[initialize]", "shape", "'ab'"]),
    (lambda p: normball.initialize((2, 2), dtype="float16"), ValueError, ["[initialize]", "float16"]),
    (lambda p: normball.initialize((2, 2), dtype="flort"), ValueError, ["[initialize]", "flort"]),
    (lambda p: ClippedScion(p, **OPTIONS, solver="custom"), ValueError, ["'custom'", "coefficients"]),
    (lambda p: ClippedScion(p, **OPTIONS, solver="muon(steps=2.5)"), ValueError, ["steps must be an integer", "2.5"]),
    (lambda p: ClippedScion(p, **OPTIONS, solver="power(rank=1e300)"), ValueError, ["rank must be an integer", "1e+300"]),
    (lambda p: ClippedScion(p, **OPTIONS, radius=True), ValueError, ["[ClippedScion]", "radius of group 0", "number", "True"]),
    (lambda p: ClippedScion(p, lr=True, alpha=0.5, rho=1.0), ValueError, ["[ClippedScion]", "lr must be a number", "True"]),
    (lambda p: ClippedScion(p, **OPTIONS, batch=True), ValueError, ["[ClippedScion]", "batch of group 0", "True"]),
    (lambda p: ClippedScion(p, **OPTIONS, batch=2**40), ValueError, ["batch of group 0", "1099511627776"]),
    (lambda p: ClippedScion(p, **OPTIONS, split=[]), ValueError, ["split of group 0", "columns(12)", "[]"]),
    (lambda p: ClippedScion(p, **OPTIONS, split=2.5), ValueError, ["split of group 0", "2.5"]),
    (lambda p: ClippedScion(p, **OPTIONS, rules={"*": {"lr": "a"}}), ValueError, ["lr of the rule '*'", "number", "'a'"]),
    (lambda p: ClippedScion(p, **OPTIONS, rules={"*": {"norm": 3}}), ValueError, ["norm of the rule '*'", "lmo(d)", "3"]),
    (lambda p: ClippedScion(p, lr=0.1, alpha=0.5, rho=1e-320), ValueError, ["lr / rho is not finite"]),
    (lambda p: ClippedScion(p, **OPTIONS).load_state_dict({"state": {}, "param_groups": [3]}), ValueError, ["group 0"]),
    (lambda p: ClippedScion(p, **OPTIONS).load_state_dict({"state": {}, "param_groups": None}), ValueError, ["NoneType"]),
    (lambda p: ClippedScion(p, **OPTIONS).load_state_dict({"state": 3, "param_groups": []}), ValueError, ["and int"]),
    (lambda p: ClippedScion(p, **OPTIONS).load_state_dict({"state": {}, "param_groups": [{"method": "gd"}]}), ValueError,
     ["group 0", "'params'"]),
    (lambda p: ClippedScion(p, **OPTIONS).explain(grad_clip=-1.0), ValueError, ["grad_clip", "-1"]),
    (lambda p: ClippedScion(p, **OPTIONS, overwrite_gradients=True, backend="torch"), ValueError,
     ["overwrite_gradients", "backend='torch'"]),
    (lambda p: ClippedScion(p, **OPTIONS, overwrite_gradients=True, maximize=True), ValueError,
     ["overwrite_gradients", "maximize"]),
    (lambda p: NormBall(p, "gd", 0.1, split=2), ValueError, ["'gd'", "split", "no effect"]),
    (lambda p: NormBall(p, "clipped_sign", 0.1, rho=1.0, rules={"*": {"batch": 1}}), ValueError, ["batch", "rule '*'"]),
    (lambda p: NormBall(p, "adaptive_sd", l0=1.0), ValueError, ["'adaptive_sd' needs l0 and l1"]),
    (lambda p: ClippedScion([dict(params=p, param_names=["w"], aliases={"head": "wte"})], **OPTIONS), ValueError,
     ["group 0", "'head'", "alias of 'wte'"]),
    (lambda p: ClippedScion([dict(params=p, step=2**62)], **OPTIONS), ValueError, ["step"]),
    # What only routes and tensors tell is also said at once.
    (lambda p: ClippedScion(p, **OPTIONS, constrained=True, rules={"*": {"lr": 2.0}}), ValueError, ["'0.0'", "lr 2"]),
    (lambda p: ClippedScion(p, lr=0.0, alpha=0.5, rho=1.0, rules={"*": {"lr": 2.0}}), ValueError, ["'0.0'", "started at 0"]),
    (lambda p: ClippedScion(p, **OPTIONS, solver="power(rank=2)", backend="torch"), ValueError, ["'0.0'", "power", "CPU"]),
    (lambda p: ClippedScion([p[0].bfloat16()], **OPTIONS, norm="spectral(solver=power(rank=2))"), ValueError, ["power"]),
])
def test_bad_options_are_named_at_once(call, error, parts):
    with pytest.raises(error) as caught:
        call([torch.zeros(4, 3)])
    for part in parts:
        assert part in str(caught.value), str(caught.value)


def test_overwritten_gradients_do_not_come_with_maximize_later():
    p = nn.Parameter(torch.ones(4, 3))
    optimizer = ClippedScion([p], **OPTIONS, overwrite_gradients=True)
    p.grad = torch.ones_like(p)
    optimizer.step()
    optimizer.param_groups[0]["maximize"] = True
    with pytest.raises(ValueError, match="overwrite_gradients has no effect with maximize"):
        optimizer.step()


def test_the_last_step_that_can_be_counted_is_the_last():
    p = nn.Parameter(torch.ones(4, 3))
    optimizer = ClippedScion([p], **OPTIONS)
    p.grad = torch.ones_like(p)
    optimizer.param_groups[0]["step"] = 2**62 - 1
    optimizer.step()
    ClippedScion([p], **OPTIONS).load_state_dict(optimizer.state_dict())
    with pytest.raises(ValueError, match="largest count"):
        optimizer.step()


@pytest.mark.parametrize("saved,own,parts", [
    ([2, 3], [5], ["it has 2 groups with 5 parameters, this optimizer 1 group with 5 parameters"]),
    ([2, 3], [2, 2], ["its group 1 has 3 parameters, this optimizer's 2 parameters", "only the state dict has 'g1.2'"]),
    ([1], [2], ["its group 0 has 1 parameter, this optimizer's 2 parameters", "only the optimizer has 'g0.1'"]),
])
def test_a_dictionary_of_another_model_says_what_differs(saved, own, parts):
    def make(sizes):
        return ClippedScion([dict(params=[(f"g{g}.{i}", torch.zeros(2, 2)) for i in range(size)])
                             for g, size in enumerate(sizes)], **OPTIONS)

    with pytest.raises(ValueError) as caught:
        make(own).load_state_dict(make(saved).state_dict())
    for part in ["[ClippedScion] the state dict is of another model", *parts]:
        assert part in str(caught.value), str(caught.value)


def test_a_dictionary_of_other_shapes_says_which():
    def make(rows):
        p = nn.Parameter(torch.ones(rows, 2))
        p.grad = torch.ones_like(p)
        optimizer = ClippedScion([("w", p)], **OPTIONS)
        optimizer.step()
        return optimizer

    with pytest.raises(ValueError, match=r"another model: its momentum of 'w' is \[3, 2\], the parameter \[4, 2\]"):
        make(4).load_state_dict(make(3).state_dict())


def test_a_group_that_joins_is_checked_at_once():
    optimizer = ClippedScion([("a", torch.zeros(4, 3))], **OPTIONS, solver="power(rank=2)")
    with pytest.raises(ValueError, match="'b'.*CPU"):
        optimizer.add_param_group(dict(params=[("b", torch.zeros(4, 3).half())]))
    assert len(optimizer.param_groups) == 1


# Schedules

def scheduled(lr, rule_lr, p, q):
    return ClippedScion([("p", p), ("q", q)], lr=lr, alpha=1.0, rho=1e-9, norm="sign(unit)", rules={"q": {"lr": rule_lr}})


@pytest.mark.parametrize("how", ["state_dict", "file", "pickle", "deepcopy"])
@pytest.mark.parametrize("new_lr", [0.4, 0.1, 0.0007])
def test_a_rule_s_lr_follows_the_schedule_after_a_resume(how, new_lr):
    """Whatever lr the resumed program starts with: the saved one, the first one, another one."""
    p, q = (nn.Parameter(torch.zeros(4, 3, dtype=torch.float64)) for _ in range(2))
    optimizer = scheduled(0.4, 0.8, p, q)
    optimizer.param_groups[0]["lr"] = 0.1  # the schedule is here
    if how == "pickle":
        other = pickle.loads(pickle.dumps(optimizer))
    elif how == "deepcopy":
        other = copy.deepcopy(optimizer)
    else:
        saved = optimizer.state_dict()
        if how == "file":
            file = io.BytesIO()
            torch.save(saved, file)
            file.seek(0)
            saved = torch.load(file)
        other = scheduled(new_lr, 0.8, *(nn.Parameter(torch.zeros_like(t)) for t in (p, q)))
        other.load_state_dict(saved)
    p, q = other.param_groups[0]["params"]
    p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
    other.step()
    assert torch.allclose(p, torch.full_like(p, -0.1)) and torch.allclose(q, torch.full_like(q, -0.2))


def test_dictionaries_from_before_first_lr_and_short_steps_load():
    for method, form in (("s3cg", "diameter"), ("s3cg", None), ("gd", None), ("clipped_scion", "norm")):
        own = own_options(method)
        p = nn.Parameter(torch.ones(3, 2))
        optimizer = NormBall([p], method, 0.25, **own, **({} if form is None else {"short_step": form}))
        saved = optimizer.state_dict()
        for group in saved["param_groups"]:
            del group["first_lr"]
            group["short_step"] = group["short_step"] or "plain"  # as it was for every method
        optimizer.load_state_dict(saved)
        assert optimizer.param_groups[0]["first_lr"] == 0.25 and optimizer.param_groups[0]["short_step"] == form
        p.grad = torch.ones_like(p)
        optimizer.step()


@pytest.mark.parametrize("key,bad", [("step", -1), ("step", 2.5), ("step", "3"), ("step", True), ("step", 2**63), ("step", None),
                                     ("first_lr", -0.1), ("first_lr", "a"), ("first_lr", float("inf"))])
def test_a_bad_number_in_a_state_dict_is_refused(key, bad):
    p = nn.Parameter(torch.ones(3, 2))
    optimizer = ClippedScion([p], **OPTIONS)
    p.grad = torch.ones_like(p)
    optimizer.step()
    saved = optimizer.state_dict()
    before = copy.deepcopy(saved)
    saved["param_groups"][0][key] = bad
    with pytest.raises(ValueError, match=rf"\[ClippedScion\].*{key}"):
        optimizer.load_state_dict(saved)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert torch.equal(after["state"][0]["momentum"], before["state"][0]["momentum"])
    optimizer.param_groups[0][key] = bad
    with pytest.raises(ValueError, match=rf"\[ClippedScion\].*{key}"):
        optimizer.step()


# All or nothing

PARTS = {"float32": [torch.float32], "float64": [torch.float64], "both": [torch.float64, torch.float32],
         "half": [torch.float64, torch.float32, torch.float16], "double and half": [torch.float64, torch.bfloat16]}


@pytest.mark.parametrize("nonfinite", ["error", "skip"])
@pytest.mark.parametrize("norm", ["sign", "rms", "row", "spectral"])
@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("types", PARTS)
def test_a_step_beyond_the_type_s_numbers_touches_nothing(types, backend, norm, nonfinite):
    params = [nn.Parameter(torch.ones(3, 4, dtype=dtype)) for dtype in PARTS[types]]
    optimizer = NormBall(params, "ggnc", 0.1, rho=1e-3, alpha=0.5, norm=norm, backend=backend, nonfinite=nonfinite)
    for p in params:
        p.grad = torch.linspace(-1, 1, 12).reshape(3, 4).to(p.dtype)
    optimizer.step()
    before = [p.detach().clone() for p in params], [optimizer.state[p]["momentum"].clone() for p in params]
    beyond = 1e40 if any(dtype != torch.float64 for dtype in PARTS[types]) else 1e305
    if beyond == 1e305:  # the whole range of lr is in the range of float64: the radius takes it out
        for group in optimizer.param_groups:
            group["radius"] = 1e6
    for group in optimizer.param_groups:
        group["lr"] = beyond
    for p in params:
        p.grad = torch.linspace(1, -1, 12).reshape(3, 4).to(p.dtype)
    if nonfinite == "error":
        with pytest.raises(NonFiniteError, match="long, beyond the range"):
            optimizer.step()
    else:
        optimizer.step()
        assert optimizer.report.skipped
    for p, weight, momentum in zip(params, *before):
        assert torch.equal(p, weight) and torch.equal(optimizer.state[p]["momentum"], momentum)


@pytest.mark.parametrize("nonfinite", ["error", "skip"])
@pytest.mark.parametrize("dtype, largest", [(torch.float16, 65504.0), (torch.bfloat16, 3.3895e38)])
def test_weights_beyond_16_bits_touch_nothing(dtype, largest, nonfinite):
    """A step longer than the type's numbers, and one that fits but leads out of them; back toward 0 it is taken."""
    for start, radius, sign in ((0.0, 1.5, 1), (0.9, 0.5, -1), (0.9, 0.5, 1)):
        p = nn.Parameter(torch.full((4, 4), start * largest, dtype=dtype))
        weight = p.detach().clone()
        optimizer = Scion([p], lr=1.0, alpha=1.0, norm="sign(unit)", radius=radius * largest, nonfinite=nonfinite)
        p.grad = torch.full_like(p, sign)
        if start > 0 and sign > 0:
            optimizer.step()
            assert torch.allclose(p.double(), torch.full((4, 4), 0.4 * largest).double(), rtol=0.02)
            continue
        if nonfinite == "error":
            with pytest.raises(NonFiniteError, match="beyond the range of its type"):
                optimizer.step()
        else:
            optimizer.step()
            assert optimizer.report.skipped
        assert torch.equal(p, weight) and not optimizer.state.get(p)
    p = nn.Parameter(torch.zeros(4, 4, dtype=torch.float16))
    optimizer = Scion([p], lr=1e5, alpha=1.0, norm="spectral", nonfinite=nonfinite)
    p.grad = torch.eye(4).half()
    if nonfinite == "error":
        with pytest.raises(NonFiniteError, match="long, beyond the range"):
            optimizer.step()
    else:
        optimizer.step()
    assert not p.any()


@pytest.mark.parametrize("rule", [False, True])
@pytest.mark.parametrize("types", PARTS)
def test_an_s_or_a_step_that_overflows_touches_nothing(types, rule):
    """s of the double parameter, after the others' directions were found; and the lr of a rule, larger than the group's."""
    named = [(f"p{i}", nn.Parameter(torch.ones(3, 4, dtype=dtype))) for i, dtype in enumerate(PARTS[types])]
    params = [p for _, p in named]
    rules = {"p0": {"lr": 1e300}} if rule else {}
    optimizer = NormBall(named, "sd" if rule else "ggnc", 1e-3, norm="sign(unit)", rules=rules,
                         **({} if rule else {"rho": 1.0, "alpha": 0.5}))
    for p in params:
        p.grad = torch.full_like(p, 0 if rule else 0.5)
    optimizer.step()
    before = [p.detach().clone() for p in params], [optimizer.state[p]["momentum"].clone() for p in params]
    for p in params:
        p.grad = torch.full_like(p, 1e4)
    if rule:
        params[0].grad.fill_(1e10)
    else:
        params[0].grad.fill_(torch.finfo(params[0].dtype).max)
        if params[0].dtype != torch.float64:  # sums of floats are in double: no overflow
            optimizer.step()
            assert np.isfinite(optimizer.report.s)
            return
    with pytest.raises(NonFiniteError):
        optimizer.step()
    for p, weight, momentum in zip(params, *before):
        assert torch.equal(p, weight) and torch.equal(optimizer.state[p]["momentum"], momentum)


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("make,text", [
    (lambda p, q: p.data, "'0.0' itself"), (lambda p, q: q.data, "'0.1' itself"), (lambda p, q: p.grad, "shares memory with its gradient"),
    (lambda p, q: torch.zeros(1).expand(4, 3), "share memory"), (lambda p, q: "other momentum", "momentum of '0.1'"),
    (lambda p, q: p.data.view(-1)[:12].view(4, 3), "'0.0' itself")])
def test_a_momentum_on_memory_of_another_is_refused(make, text, backend):
    p, q = (nn.Parameter(torch.ones(4, 3)) for _ in range(2))
    optimizer = ClippedScion([p, q], **OPTIONS, backend=backend)

    def step():
        p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
        optimizer.step()

    step()
    p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
    other = make(p, q)
    optimizer.state[p]["momentum"] = optimizer.state[q]["momentum"] if isinstance(other, str) else other
    before = p.detach().clone(), q.detach().clone()
    with pytest.raises(ValueError, match=text):
        optimizer.step()
    assert torch.equal(p, before[0]) and torch.equal(q, before[1])
    optimizer.state[p]["momentum"] = torch.zeros_like(p)
    step()
    assert not torch.equal(p, before[0])


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("key,bad", [
    ("momentum", torch.zeros(4, 3).to_sparse()), ("momentum", torch.zeros(4, 3, device="meta")), ("momentum", 3),
    ("momentum", torch.zeros(4, 3, dtype=torch.int32)), ("basis", 3), ("basis", [3]), ("basis", "x"),
    ("basis", torch.zeros(2, 4))])
def test_state_that_is_no_tensor_is_refused_when_it_is_loaded(key, bad, backend):
    p = nn.Parameter(torch.ones(4, 3))
    optimizer = ClippedScion([p], **OPTIONS, backend=backend)
    p.grad = torch.ones_like(p)
    optimizer.step()
    saved = optimizer.state_dict()
    kept, weight = optimizer.state[p]["momentum"].clone(), p.detach().clone()
    saved["state"] = {0: {**saved["state"][0], key: bad}}
    with pytest.raises(ValueError, match=rf"the {key} of '0.0'"):
        optimizer.load_state_dict(saved)
    assert torch.equal(optimizer.state[p]["momentum"], kept)
    optimizer.state[p][key] = bad
    with pytest.raises(ValueError, match=rf"the {key} of '0.0'"):
        optimizer.step()
    assert torch.equal(p, weight)


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("nonfinite", ["error", "skip"])
def test_the_bad_parameter_is_named(backend, nonfinite):
    p, q = (nn.Parameter(torch.ones(4, 3)) for _ in range(2))
    optimizer = ClippedScion([("p", p), ("q", q)], **OPTIONS, backend=backend, nonfinite=nonfinite)
    p.grad, q.grad = torch.ones(4, 3), torch.full((4, 3), float("nan"))
    if nonfinite == "error":
        with pytest.raises(NonFiniteError, match="'q'") as caught:
            optimizer.step()
        assert caught.value.parameter == "q" and isinstance(caught.value, RuntimeError)
    else:
        optimizer.step()
        assert optimizer.report.skipped and optimizer.report.nonfinite == "q"


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_a_step_in_inference_mode_can_be_followed_by_others(backend):
    p, q = (nn.Parameter(torch.ones(4, 3)) for _ in range(2))
    optimizer, other = (ClippedScion([w], **OPTIONS, backend=backend) for w in (p, q))
    p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
    with torch.inference_mode():
        optimizer.step()
    other.step()
    for _ in range(2):
        optimizer.step()
        other.step()
    assert torch.equal(p, q)


class Uphill:
    """A norm whose author forgot the minus sign."""

    def lmo(self, d):
        return d.sign()


class UphillWithDual(Uphill):
    def dual_norm(self, d):
        return d.abs().sum()


class Downhill:
    def lmo(self, d):
        return -d.sign()

    def dual_norm(self, d):
        return -d.abs().sum()


class Sign:
    def __init__(self, number=1.0):
        self.number = number

    def lmo(self, d):
        return -d.sign()

    def norm(self, x):
        return self.number

    def dual_norm(self, d):
        return self.number


class NeedsMore(Sign):
    def __init__(self, more):
        super().__init__()


class NoFunction:
    lmo = 3


@pytest.mark.parametrize("norm,text", [(NeedsMore, "the norm of group 0 is the class NeedsMore.*pass an object"),
                                       (NoFunction(), r"the norm of group 0.*lmo\(d\)")])
def test_what_is_no_own_norm_is_refused_at_once(norm, text):
    with pytest.raises(ValueError, match=rf"\[ClippedScion\] {text}"):
        ClippedScion([torch.zeros(2, 2)], **OPTIONS, norm=norm)


@pytest.mark.parametrize("number", ["a", None, torch.zeros(3)])
def test_an_own_norm_that_returns_no_number_is_refused(number):
    p = nn.Parameter(torch.ones(2, 2))
    p.grad = torch.ones_like(p)
    with pytest.raises(ValueError, match=r"\[Sign.dual_norm\] must return one number for '0.0'"):
        ClippedScion([p], **OPTIONS, norm=Sign(number)).step()
    with pytest.raises(ValueError, match=r"\[Sign.norm\] must return one number for '0.0'"):
        scale_into_balls_(ClippedScion([p], **OPTIONS, norm=Sign(number)))
    assert (p == 1).all()


@pytest.mark.parametrize("key,value", [("param_names", [3]), ("param_names", "a"), ("kinds", [3]), ("kinds", 3)])
def test_names_and_kinds_are_lists_of_names(key, value):
    with pytest.raises(ValueError, match=rf"\[ClippedScion\] the {key} of group 0 must be a list of names"):
        ClippedScion([{"params": [torch.zeros(2)], key: value}], **OPTIONS)


@pytest.mark.parametrize("norm,text", [(Uphill, r"\[Uphill.lmo\].*<d, x> = 12.*'0.0'.*minus sign"),
                                       (UphillWithDual, r"\[UphillWithDual.lmo\].*minus sign"),
                                       (Downhill, r"\[Downhill.dual_norm\].*negative.*-12")])
@pytest.mark.parametrize("constrained", [False, True])
def test_an_own_norm_with_the_wrong_sign_is_refused(norm, text, constrained):
    p = nn.Parameter(torch.zeros(4, 3))
    optimizer = ClippedScion([p], lr=0.1, alpha=1.0, rho=1.0, constrained=constrained, norm=norm())
    p.grad = torch.ones_like(p)
    with pytest.raises(ValueError, match=text):
        optimizer.step()
    assert not p.any() and "momentum" not in optimizer.state[p]
    p.grad.zero_()
    optimizer.step()  # lmo(0) = 0 has no sign


@pytest.mark.parametrize("params, said", [
    (None, "got NoneType"),
    ("weights", "got str"),
    ({"w": torch.zeros(2, 2)}, "items()"),
    ([{}], "lacks the key 'params'"),
    ([{"param": []}], "it has ['param']"),
    ([{"params": None}], "'params' of group 0 .* got NoneType"),
    ([{"params": nn.Linear(2, 2)}], "named_groups"),
])
def test_params_of_another_kind_are_refused_with_the_remedy(params, said):
    with pytest.raises((TypeError, ValueError), match=r"\[ClippedScion\].*" + said.replace("[", r"\[").replace("()", r"\(\)")):
        ClippedScion(params, **OPTIONS)


def test_the_role_of_a_group_counts_before_the_norm_of_the_constructor():
    hidden, other = nn.Parameter(torch.ones(3, 3)), nn.Parameter(torch.ones(3, 3))
    optimizer = ClippedScion([{"params": [hidden], "role": "hidden"}, {"params": [other]}], norm="row", radii={"hidden": 5},
                             **OPTIONS)
    rows = optimizer.explain().splitlines()
    assert any("spectral" in row and " 5 " in row for row in rows) and any(" row " in row for row in rows), rows


def test_clipped_singular_values_do_not_suit_a_ball():
    """At once, and alike in the core and in torch operations."""
    texts = set()
    for options in (dict(solver="clip"), dict(norm="spectral(solver=clip(share=0.1))")):
        for backend in ("auto", "torch"):
            with pytest.raises(ValueError, match="'0.0' clips singular values.*no LMO.*unconstrained method, or solver=exact") as info:
                Scion([torch.ones(4, 3)], 0.1, 0.5, constrained=True, backend=backend, **options)
            texts.add(str(info.value))
            Scion([torch.ones(4, 3)], 0.1, 0.5, backend=backend, **options)
    assert len(texts) == 1
    optimizer = Scion([torch.ones(4, 3)], 0.1, 0.5, constrained=True)
    with pytest.raises(ValueError, match="no LMO"):
        optimizer.add_param_group({"params": [torch.ones(3, 2)], "norm": "spectral(solver=clip)"})
