"""Stepsizes that find themselves, against their formulas in float64 and PyTorch, by the core, by torch operations and by both."""
import copy
import math
import pickle
import warnings

import pytest
import torch
from models import MIXED_NORMS, MIXED_RADII, Batches, backward, mixed, mixed_groups
from normball.torch import ClippedScion, NonFiniteError, NormBall, Scion
from reference import Reference, size

CASES = {
    "adagrad": dict(method="unconstrained_scion", lr=0.05, stepsize="adagrad"),
    "adagrad-b0": dict(method="unconstrained_scion", lr=0.05, stepsize="adagrad(b0=2)"),
    "adagrad-ball": dict(method="scion", lr=0.05, stepsize="adagrad"),
    "distance": dict(method="unconstrained_scion", stepsize="distance_aware(first=0.001)"),
    "distance-ball": dict(method="scion", stepsize="distance_aware(first=0.001, most=0.05)"),
    "momo": dict(method="unconstrained_scion", lr=0.06, stepsize="momo(f_star=0.5)"),
    "momo-ball": dict(method="scion", lr=0.06, stepsize="momo(f_star=0.5)"),
    "auto": dict(method="unconstrained_scion", lr=0.02, stepsize="auto_clipped(quantile=0.8)"),
}
ALPHA = 0.3


class Adaptive(Reference):
    """The rules' own formulas: everything that was ever seen is kept, and used as it stands in them."""

    def __init__(self, method, parameters, norms, radii, lr=1.0, stepsize=""):
        super().__init__(method, parameters, norms, radii, lr=lr, alpha=ALPHA)
        self.name, _, options = stepsize.rstrip(")").partition("(")
        self.options = {key: float(value) for key, _, value in (each.partition("=") for each in options.split(", ") if each)}
        self.start = [p.clone() for p in self.parameters]
        self.pairings, self.lengths, self.models, self.loss = [], [], [], None

    def step(self, gradients, loss=None):
        self.loss, self.gradients = loss, [g.double() for g in gradients]
        return super().step(gradients)

    def eta(self, s, v):
        first = len(self.pairings) == self.k  # else it is asked again for its sensitivity
        seen = self.pairings[:self.k], self.lengths[:self.k], self.models[:self.k]
        result = self.length(s, *seen)
        if first:
            self.pairings, self.lengths, self.models = seen
        return result, 1.0

    def length(self, s, pairings, lengths, models):
        """eta, from all that was seen, to which this step is added."""
        pairings.append(s)
        if self.name == "adagrad":
            return s / math.sqrt(self.options.get("b0", 0) ** 2 + sum(each ** 2 for each in pairings))
        if self.name == "auto_clipped":
            past = sorted(pairings[:-1][-100:])
            return min(1.0, s / past[math.ceil(self.options["quantile"] * len(past) - 1e-9) - 1]) if past else 1.0
        if self.name == "distance_aware":
            travelled = max(size(n, p - q) / r for n, p, q, r in zip(self.norms, self.parameters, self.start, self.radii))
            lengths.append(min(self.options.get("most", math.inf), max([self.options["first"], travelled, *lengths])))
            return lengths[-1] ** 2 * s / math.sqrt(sum((c * each) ** 2 for c, each in zip(lengths, pairings)))
        models.append((self.loss, self.gradients, [p.clone() for p in self.parameters]))
        value = weight = 0.0
        for age, (loss, gradients, points) in enumerate(reversed(models)):
            own = self.alpha * (1 - self.alpha) ** age
            value += own * (loss + sum((g * (p - q)).sum().item() for g, p, q in zip(gradients, self.parameters, points)))
            weight += own
        return min(1.0, max(0.0, value - weight * self.options["f_star"]) / (self.lr * s))


def optimizer_of(case, model, way):
    groups = mixed_groups(model)
    options = dict(CASES[case])
    return NormBall(groups, options.pop("method"), alpha=ALPHA, backend="torch" if way == "torch" else "auto", **options)


def prepared(case, dtype, way="core"):
    model = mixed(dtype)
    if way == "mixed":  # two parts of the core, or the core and torch operations
        model.mix.to(torch.float64 if dtype == torch.float32 else torch.float32)
        model.mix.register_forward_pre_hook(lambda layer, given: (given[0].to(layer.weight.dtype),))
        model.mix.register_forward_hook(lambda layer, given, result: result.to(dtype))
    return model, optimizer_of(case, model, way)


@pytest.mark.parametrize("way", ["core", "torch", "mixed"])
@pytest.mark.parametrize("case", CASES)
def test_steps_follow_the_formulas(case, way):
    dtype = torch.float64
    model, optimizer = prepared(case, dtype, way)
    reference = Adaptive(CASES[case]["method"], model.parameters(), MIXED_NORMS, MIXED_RADII,
                         **{key: value for key, value in CASES[case].items() if key != "method"})
    batches = Batches(dtype)
    close = 1e-9 if way != "mixed" else 2e-4
    lengths = []
    for k in range(25):
        loss = backward(model, batches(k))
        reference.step([p.grad for p in model.parameters()], loss.item())
        optimizer.step(loss=loss)
        lengths.append(optimizer.report.eta)
        for mine, theirs in zip(model.parameters(), reference.parameters):
            assert (mine.detach().double() - theirs).norm() <= close * theirs.norm(), (case, k)
    if case.startswith("momo"):
        assert min(lengths) < 1 and max(lengths) == 1  # some at the cap, some not


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("way", ["core", "torch"])
@pytest.mark.parametrize("case", CASES)
def test_resumed_runs_have_the_same_bits(case, way, dtype):
    model, optimizer = prepared(case, dtype, way)
    batches = Batches(dtype)

    def train(model, optimizer, first, last):
        for k in range(first, last):
            optimizer.step(loss=backward(model, batches(k)))

    train(model, optimizer, 0, 10)
    again, resumed = prepared(case, dtype, way)
    again.load_state_dict(copy.deepcopy(model.state_dict()))
    resumed.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    train(model, optimizer, 10, 20)
    train(again, resumed, 10, 20)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters()))
    assert resumed.param_groups[0]["stepsize_memory"] == optimizer.param_groups[0]["stepsize_memory"] != []


def test_a_closure_gives_the_loss():
    batches = Batches()
    runs = []
    for closed in (False, True):
        model, optimizer = prepared("momo", torch.float64)
        for k in range(5):
            if closed:
                returned = optimizer.step(lambda: backward(model, batches(k)))
                assert returned.item() > 0
            else:
                optimizer.step(loss=backward(model, batches(k)).item())
        runs.append(list(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*runs))


def test_rho_auto_is_the_stepsize():
    batches, runs = Batches(), []
    for make in (lambda m: ClippedScion(mixed_groups(m), 0.02, 0.3, "auto"),
                 lambda m: NormBall(mixed_groups(m), "unconstrained_scion", 0.02, alpha=0.3, stepsize="auto_clipped")):
        model = mixed()
        optimizer = make(model)
        for k in range(8):
            backward(model, batches(k))
            optimizer.step()
        runs.append(list(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*runs))
    for bad in (dict(rho="automatic"), dict(rho="auto", short_step="norm"), dict(rho="auto", stepsize="momo")):
        with pytest.raises(ValueError, match="'auto'"):
            ClippedScion(mixed_groups(mixed()), 0.02, 0.3, **bad)


def test_no_lr_is_needed_for_distances_alone():
    model = mixed()
    assert Scion(model, alpha=0.1, stepsize="distance_aware").param_groups[0]["lr"] == 1
    with pytest.raises(ValueError, match="needs lr"):
        Scion(model, alpha=0.1, stepsize="adagrad")
    with pytest.raises(ValueError, match="needs alpha"):
        Scion(model, lr=0.1)
    with pytest.raises(ValueError, match="gamma eta <= 1"):
        Scion(model, alpha=0.1, stepsize="distance_aware", constrained=True)


def test_what_a_stepsize_refuses_changes_nothing():
    model, optimizer = prepared("momo", torch.float64)
    batches = Batches()
    optimizer.step(loss=backward(model, batches(0)))
    before = [p.detach().clone() for p in model.parameters()]
    saved = pickle.dumps(optimizer.state_dict())
    backward(model, batches(1))
    for call, error, text in ((dict(), ValueError, r"needs the loss.*step\(loss=loss\)"),
                              (dict(loss=0.25), ValueError, "below f_star = 0.5"),
                              (dict(loss=math.nan), NonFiniteError, "loss is nan"),
                              (dict(loss=torch.ones(2)), ValueError, "one number"),
                              (dict(loss="3"), ValueError, "one number, got '3'"),
                              (dict(loss=True), ValueError, "one number, got True"),
                              (dict(loss=torch.tensor(True)), ValueError, "one number"),
                              (dict(closure=lambda: "3"), ValueError, "one number, got '3'"),
                              (dict(closure=1.0), TypeError, r"closure, .*got 1.0.*step\(loss=loss\)"),
                              (dict(closure=lambda: 2.0, loss=2.0), ValueError, "closure"),
                              (dict(closure=lambda: None), ValueError, "needs the loss")):
        with pytest.raises(error, match=text):
            optimizer.step(**call)
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
        assert pickle.dumps(optimizer.state_dict()) == saved
    with pytest.raises(ValueError, match="'clipped_scion'.*'momo'.*'scion'"):
        NormBall(model, "clipped_scion", 0.1, rho=1.0, stepsize="momo")
    with pytest.raises(ValueError, match="'adagrad'"):
        NormBall(model, "scion", 0.1, stepsize="adagrat")
    with pytest.raises(ValueError, match="has no rho"):
        NormBall(model, "scion", 0.1, rho=1.0, stepsize="adagrad")
    with pytest.raises(ValueError, match="maximize"):
        NormBall(model, "scion", 0.1, stepsize="momo", maximize=True)
    with pytest.raises(ValueError, match="stepsize is a name"):
        NormBall(model, "scion", 0.1, stepsize=3)


def test_a_skipped_step_is_not_remembered():
    model = mixed()
    optimizer = NormBall(model, "ucg", 0.01, stepsize="momo", nonfinite="skip")
    backward(model, Batches()(0))
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step(loss=math.inf)
    assert optimizer.report.skipped and optimizer.param_groups[0]["stepsize_memory"] == []
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))


def test_another_stepsize_needs_an_empty_memory():
    model, optimizer = prepared("adagrad", torch.float64)
    batches = Batches()
    optimizer.step(loss=backward(model, batches(0)))
    for group in optimizer.param_groups:
        group["stepsize"] = "distance_aware"
    backward(model, batches(1))
    with pytest.raises(ValueError, match="stepsize_memory.*2 numbers.*afresh"):
        optimizer.step()
    for group in optimizer.param_groups:
        group["stepsize_memory"] = []
    optimizer.step()
    assert len(optimizer.param_groups[0]["stepsize_memory"]) == 2


@pytest.mark.parametrize("resumed", [False, True])
def test_as_many_numbers_of_another_stepsize_are_not_taken_for_its_own(resumed):
    model, optimizer = prepared("momo", torch.float64)
    batches = Batches()
    optimizer.step(loss=backward(model, batches(0)))
    if resumed:
        saved = optimizer.state_dict()
        optimizer = optimizer_of("momo", model, "core")
        optimizer.load_state_dict(saved)
    for group in optimizer.param_groups:
        group["stepsize"] = "momo(f_star=0.25)"  # other numbers of the same rule keep it
    optimizer.step(loss=backward(model, batches(1)))
    for group in optimizer.param_groups:
        group["stepsize"] = "distance_aware"
    backward(model, batches(2))
    with pytest.raises(ValueError, match="what the stepsize 'momo' has seen, not 'distance_aware': .*afresh"):
        optimizer.step()
    for group in optimizer.param_groups:
        group["stepsize_memory"] = []
    optimizer.step()
    optimizer.step()


def test_state_that_no_step_can_go_on_with_is_refused_when_it_is_loaded():
    model, optimizer = prepared("distance", torch.float64)
    optimizer.step(loss=backward(model, Batches()(0)))
    good = optimizer.state_dict()
    _, other = prepared("distance", torch.float64)
    before = pickle.dumps(other.state_dict())
    some = torch.zeros_like(good["state"][0]["start"])

    def refused(change, text):
        bad = copy.deepcopy(good)
        change(bad)
        with pytest.raises(ValueError, match=text):
            other.load_state_dict(bad)
        assert pickle.dumps(other.state_dict()) == before

    def memory(numbers):
        def change(bad):
            for group in bad["param_groups"]:
                group["stepsize_memory"] = numbers
        return change

    for key in ("start", "momentum"):
        for value, text in ((some[:1], r"\[1, "), (some.int(), "dense floating-point.*int32"), (some / 0, "not finite"),
                            ([1.0], "dense floating-point.*list"), (some[:1, :1].expand_as(some), "expand")):
            refused(lambda bad: bad["state"][0].update({key: value}), f"{key} of .*{text}")
    refused(lambda bad: bad["state"][0].pop("start"), "no start of .*distance_aware")
    refused(memory([1.0]), "2 numbers.*afresh")
    refused(memory([-1.0, 1.0]), "cannot have left these numbers")
    refused(memory([math.nan, 1.0]), "must be a number")
    refused(memory(3), "list of 2 numbers")
    refused(lambda bad: bad["param_groups"][0].update(stepsize_memory=[1.0, 2.0]), "stepsize_memory belongs to the whole")
    other.load_state_dict(good)


def test_the_rules_of_methods_are_no_stepsizes():
    for rule in ("normalized(rho=2)", "steepest", "clipped(rho=1)", "open_loop", "adaptive(l0=1, l1=2)", "short_step(rho=1)"):
        for lr in (0.1, None):
            with pytest.raises(ValueError, match="leave stepsize out.*adagrad, distance_aware, momo or auto_clipped"):
                Scion(mixed(), lr, alpha=0.1, stepsize=rule)


def test_in_the_ball_the_longest_step_counts_not_the_lr():
    def make(lr, most, stepsize="distance_aware(first=0.4, most={})", **options):
        return Scion(torch.nn.Linear(4, 3), lr=lr, alpha=1.0, constrained=True, stepsize=stepsize.format(most), **options)

    for lr, most in ((0.5, 2), (1.25, 0.8)):
        for backend in ("auto", "torch"):
            optimizer = make(lr, most, backend=backend)
            for k in range(8):
                for p in optimizer.param_groups[0]["params"]:
                    p.grad = torch.randn(p.shape)
                optimizer.step()
            optimizer.param_groups[0]["lr"] = 2 * lr
            with pytest.raises(ValueError, match="gamma eta <= 1.*can reach 2"):
                optimizer.step()
            optimizer.param_groups[0].update(lr=2 * lr, stepsize=f"distance_aware(first=0.1, most={most / 2})")
            optimizer.step()  # both at once
            optimizer.param_groups[0].update(lr=lr, stepsize=f"distance_aware(first=0.1, most={most})")
            optimizer.step()
    for lr, most in ((0.5, 2.5), (1.25, 1.0), (None, 1.25)):
        with pytest.raises(ValueError, match=r"gamma eta <= 1 .* can reach 1.25"):
            make(lr, most)


def test_steps_below_the_spacing_of_the_type_are_pointed_out():
    def run(dtype, first, lrs=(1.0, 1.0, 1.0)):
        parameter = torch.nn.Parameter(torch.ones(4, 3, dtype=dtype))
        optimizer = Scion([parameter], alpha=1.0, stepsize=f"distance_aware(first={first})")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for lr in lrs:
                optimizer.param_groups[0]["lr"] = lr
                parameter.grad = torch.ones_like(parameter)
                optimizer.step()
        texts = [str(each.message) for each in caught]
        assert all(text.startswith("[Scion] a step of the stepsize") and "changed no weight" in text for text in texts)
        return len(texts), bool((parameter != 1).any())

    assert run(torch.bfloat16, 1e-4) == run(torch.float16, 1e-5) == (1, False)
    assert run(torch.bfloat16, 0.1) == run(torch.float32, 1e-4) == run(torch.float64, 1e-4) == (0, True)
    assert run(torch.float32, 1e-4, (0.0, 1.0)) == (0, True)  # a warm-up from 0


def test_a_start_that_was_reset_is_no_standstill():
    parameter = torch.nn.Parameter(torch.ones(4, 3))
    optimizer = Scion([parameter], alpha=1.0, stepsize="distance_aware(most=0.01)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            for _ in range(2):
                parameter.grad = torch.ones_like(parameter)
                optimizer.step()
            optimizer.state.clear()


def test_another_stepsize_than_rho_auto_is_named_in_files():
    model = mixed()
    saved = ClippedScion(mixed_groups(model), 0.02, 0.3, 5.0).state_dict()
    with pytest.raises(ValueError, match="rho='auto' is the method 'unconstrained_scion' with stepsize='auto_clipped'"):
        ClippedScion(mixed_groups(model), 0.02, 0.3, "auto").load_state_dict(saved)


def test_the_report_has_the_rho_of_the_step():
    model = mixed()
    batches, seen = Batches(), []
    optimizer = ClippedScion(mixed_groups(model), 0.02, 0.3, "auto")
    for k in range(6):
        backward(model, batches(k))
        optimizer.step()
        past = sorted(seen)  # of an even number the lower median
        assert optimizer.report.rho == (past[(len(past) - 1) // 2] if past else 0)
        seen.append(optimizer.report.s)
    assert optimizer.report.clipped == (optimizer.report.s >= optimizer.report.rho)
    for made, rho in ((ClippedScion(mixed_groups(model), 0.02, 0.3, 2.5), 2.5), (Scion(mixed_groups(model), 0.02, 0.3), 0)):
        made.step()
        assert made.report.rho == rho


def test_state_from_before_there_were_stepsizes_opens():
    model, optimizer = prepared("adagrad", torch.float64)
    plain = NormBall(mixed_groups(model), "unconstrained_scion", 0.05, alpha=ALPHA)
    backward(model, Batches()(0))
    plain.step()
    old = plain.state_dict()
    for group in old["param_groups"]:
        del group["stepsize"], group["stepsize_memory"]
    again = NormBall(mixed_groups(model), "unconstrained_scion", 0.05, alpha=ALPHA)
    again.load_state_dict(old)
    backward(model, Batches()(1))
    again.step()
    assert again.param_groups[0]["step"] == 2


def test_a_state_without_the_option_keeps_the_optimizer_s():
    parameter = torch.nn.Parameter(torch.ones(3))
    old = Scion([parameter], lr=0.1, alpha=0.5).state_dict()
    for group in old["param_groups"]:
        del group["stepsize"], group["stepsize_memory"]
    optimizer = Scion([parameter], lr=0.1, alpha=0.5, stepsize="adagrad")
    optimizer.load_state_dict(old)
    assert optimizer.param_groups[0]["stepsize"] == "adagrad"


def test_numbers_that_no_stepsize_can_have_seen():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = Scion([parameter], lr=0.1, alpha=0.5, stepsize="auto_clipped")
    parameter.grad = torch.ones(3)
    optimizer.step()
    before = parameter.detach().clone()
    optimizer.param_groups[0]["stepsize_memory"][0] = -5
    with pytest.raises(ValueError, match="cannot have left these numbers"):
        optimizer.step()
    assert torch.equal(parameter, before)
