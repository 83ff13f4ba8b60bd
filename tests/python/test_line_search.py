"""Line searches against their formulas in NumPy and in float64 PyTorch, by the core, by torch operations and by both."""
import copy
import math
import pickle

import numpy as np
import pytest
import torch
from models import MIXED_NORMS, MIXED_RADII, Batches, backward, loss_of, mixed, mixed_groups
from normball.torch import Averaged, ClippedScion, NonFiniteError, NormBall, Scion
from reference import Reference, lmo

SEARCHES = ["backtracking", "backtracking(decrease=0.3, shrink=0.6, grow=1.5)", "smoothness",
            "smoothness(decrease=0.6, relax=0.8, margin=1.2)"]
METHODS = {
    "free": dict(method="unconstrained_scion", lr=0.3),
    "clipped": dict(method="unconstrained_clipped_scion", lr=3.0, rho=2.0),
    "ball": dict(method="scion", lr=0.9),
}
ALPHA = 0.7


class Search:
    """The rules of normball/search_rule.h, from their formulas alone."""

    def __init__(self, text, constrained=False):
        self.name, _, options = text.rstrip(")").partition("(")
        self.options = dict(decrease=0.5, shrink=0.5, grow=2.0, relax=0.5, margin=2.0)
        self.options.update({key: float(value) for key, _, value in (each.partition("=") for each in options.split(", ") if each)})
        self.longest = 1.0 if constrained else math.inf
        self.factor, self.smoothness, self.evaluations = 1.0, None, 0

    def find(self, loss, slope, own, evaluate):
        """t, after trials that all are recorded."""
        c, trials = self.options["decrease"], []

        def enough(t):
            trials.append((t, evaluate(t)))
            return trials[-1][1] <= loss - c * t * slope

        if self.name == "backtracking":
            t = min(self.longest, self.factor * own)
            while not enough(t):
                t *= self.options["shrink"]
            self.factor = self.options["grow"] * t / own
        else:
            if self.smoothness is None:
                k = 2 * (1 - c) * slope / own
                self.smoothness = [k / 2, k / (2 * slope), slope]
            l0, l1, split = self.smoothness
            t = min(self.longest, 2 * (1 - c) * slope / (l0 + l1 * slope))
            while not enough(t):
                while min(self.longest, 2 * (1 - c) * slope / (l0 + l1 * slope)) >= t:
                    if slope <= split:
                        l0 = 2 * l0 + l1 * slope
                    else:
                        l1 = 2 * l1 + l0 / slope
                t = min(self.longest, 2 * (1 - c) * slope / (l0 + l1 * slope))
            if len(trials) == 1:
                met = 2 * (trials[0][1] - loss + t * slope) / t**2
                factor = min(1.0, max(self.options["relax"], self.options["margin"] * met / (l0 + l1 * slope)))
                l0, l1 = max(l0 * factor, 1e-3 * factor * l1 * split), max(l1 * factor, 1e-3 * factor * l0 / split)
            self.smoothness = [l0, l1, split]
        self.evaluations = len(trials)
        return t


def values(text, search):
    return [search.factor] if text.startswith("backtracking") else search.smoothness


@pytest.mark.parametrize("text", SEARCHES)
def test_numpy_takes_the_same_steps_to_twelve_digits(text):
    """Normalized GD on sum cosh(A x - b), all in NumPy."""
    random = np.random.default_rng(5)
    a, b = random.normal(size=(20, 7)), random.normal(size=20)
    f = lambda x: np.cosh(a @ x - b).sum()  # noqa: E731
    x = 0.3 * random.normal(size=7)
    p = torch.tensor(x, requires_grad=True)
    optimizer = NormBall([p], "normalized_gd", 0.5, line_search=text)
    search = Search(text)

    def closure():
        optimizer.zero_grad()
        loss = torch.cosh(torch.tensor(a) @ p - torch.tensor(b)).sum()
        loss.backward()
        return loss

    for k in range(30):
        g = a.T @ np.sinh(a @ x - b)
        s = np.linalg.norm(g)
        v, before = g / s, f(x)
        t = search.find(before, float(g @ v), 0.5, lambda t: f(x - t * v))
        x = x - t * v
        loss = optimizer.step(closure)
        report = optimizer.report.search
        assert loss.item() == pytest.approx(before, rel=1e-12) and report.accepted
        assert report.step == pytest.approx(t, rel=1e-12), k
        assert report.loss == pytest.approx(f(x), rel=1e-12)
        assert np.abs(p.detach().numpy() - x).max() <= 1e-12 * np.abs(x).max()
        assert report.evaluations == search.evaluations + (k == 0)
        assert optimizer.param_groups[0]["stepsize_memory"] == pytest.approx(values(text, search), rel=1e-9)
        if f(x) > before - 1e-6 * before:
            break  # from here on rounding decides
    assert k > 5


class Searched(Reference):
    """Methods with a search: trials move its own weights."""

    def __init__(self, text, parameters, model, **options):
        options = dict(options)
        super().__init__(options.pop("method"), parameters, MIXED_NORMS, MIXED_RADII, alpha=ALPHA, **options)
        self.search, self.model = Search(text, self.constrained), copy.deepcopy(model).double()

    def loss_at(self, weights, batch):
        with torch.no_grad():
            for p, w in zip(self.model.parameters(), weights):
                p.copy_(w)
            return loss_of(self.model, (batch[0].double(), *batch[1:])).item()

    def step(self, gradients, batch):
        gradients = [g.double() for g in gradients]
        for d, g in zip(self.momentum, gradients):
            d.mul_(1 - self.alpha).add_(g, alpha=self.alpha)
        v = [-r * lmo(n, d) + (w if self.constrained else 0)
             for n, r, d, w in zip(self.norms, self.radii, self.momentum, self.parameters)]
        s = sum((d * u).sum().item() for d, u in zip(self.momentum, v))
        own = self.lr if self.rho is None else self.lr / self.rho * min(self.rho, s)
        slope = sum((g * u).sum().item() for g, u in zip(gradients, v))
        t = self.search.find(self.loss_at(self.parameters, batch), slope, own,
                             lambda t: self.loss_at([w - t * u for w, u in zip(self.parameters, v)], batch))
        self.parameters = [w - t * u for w, u in zip(self.parameters, v)]
        return t


def prepared(case, text, dtype=torch.float64, way="core", **options):
    model = mixed(dtype)
    if case == "ball":
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(0.1)  # inside of the balls
    if way == "mixed":  # two parts of the core
        model.mix.to(torch.float32)
        model.mix.register_forward_pre_hook(lambda layer, given: (given[0].to(layer.weight.dtype),))
        model.mix.register_forward_hook(lambda layer, given, result: result.to(dtype))
    given = dict(METHODS[case], alpha=ALPHA, line_search=text, backend="torch" if way == "torch" else "auto", **options)
    return model, NormBall(mixed_groups(model), given.pop("method"), **given)


def three_ways(model, optimizer, batch, way):
    """A step with backward in the closure, without, or before it."""
    if way == 0:
        return optimizer.step(lambda: backward(model, batch))
    if way == 1:
        return optimizer.step(lambda: loss_of(model, batch))
    return optimizer.step(lambda: loss_of(model, batch), loss=backward(model, batch))


@pytest.mark.parametrize("way", ["core", "torch", "mixed"])
@pytest.mark.parametrize("text", SEARCHES)
@pytest.mark.parametrize("case", METHODS)
def test_steps_follow_the_formulas(case, text, way):
    model, optimizer = prepared(case, text, way=way)
    reference = Searched(text, model.parameters(), mixed(), **METHODS[case])
    batches, close = Batches(), 1e-9 if way != "mixed" else 2e-4
    refused = 0
    for k in range(15):
        backward(model, batches(k))
        t = reference.step([p.grad for p in model.parameters()], batches(k))
        three_ways(model, optimizer, batches(k), k % 3)
        report = optimizer.report.search
        assert report.step == pytest.approx(t, rel=close), k
        assert optimizer.report.gamma * optimizer.report.eta == pytest.approx(t, rel=close)
        assert report.evaluations == reference.search.evaluations + (k == 0)
        refused += reference.search.evaluations > 1
        assert case != "ball" or t <= 1
        for mine, theirs in zip(model.parameters(), reference.parameters):
            assert (mine.detach().double() - theirs).norm() <= close * theirs.norm(), k
    assert refused > 0


def test_the_three_kinds_of_closures_take_the_same_steps():
    batches, runs = Batches(), []
    for way in range(3):
        model, optimizer = prepared("clipped", "smoothness")
        for k in range(6):
            before = loss_of(model, batches(k)).item()
            assert float(three_ways(model, optimizer, batches(k), way)) == pytest.approx(before, rel=1e-14)
            assert all(p.grad is not None for p in model.parameters())  # those at the weights before the step
        runs.append(list(model.parameters()))
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(runs[0], run))


def test_forward_passes_alone_where_the_closure_leaves_backward_out():
    model, optimizer = prepared("free", "backtracking")
    batch, modes = Batches()(0), []

    def closure():
        modes.append(torch.is_grad_enabled())
        return loss_of(model, batch)

    for _ in range(3):
        modes.clear()
        optimizer.step(closure)
        assert modes == [True] + [False] * optimizer.report.search.evaluations


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("way", ["core", "torch"])
@pytest.mark.parametrize("text", ["backtracking", "smoothness"])
def test_resumed_runs_have_the_same_bits(text, way, dtype):
    batches = Batches(dtype)

    def train(model, optimizer, first, last):
        for k in range(first, last):
            optimizer.step(lambda: backward(model, batches(k)))
            evaluations.append(optimizer.report.search.evaluations)

    evaluations = []
    model, optimizer = prepared("clipped", text, dtype, way)
    train(model, optimizer, 0, 8)
    again, resumed = prepared("clipped", text, dtype, way)
    again.load_state_dict(copy.deepcopy(model.state_dict()))
    resumed.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    evaluations.clear()
    train(model, optimizer, 8, 14)
    train(again, resumed, 8, 14)
    assert evaluations[:6] == evaluations[6:]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters()))
    assert resumed.param_groups[0]["stepsize_memory"] == optimizer.param_groups[0]["stepsize_memory"] != []


@pytest.mark.parametrize("way", ["core", "torch", "mixed"])
def test_what_a_search_refuses_changes_nothing(way):
    model, optimizer = prepared("clipped", "backtracking", way=way)
    batches = Batches()
    optimizer.step(lambda: backward(model, batches(0)))
    before = [p.detach().clone() for p in model.parameters()]
    saved = pickle.dumps(optimizer.state_dict())
    calls = [0]

    def raises():
        calls[0] += 1
        if calls[0] > 1:
            raise RuntimeError("mine")
        return loss_of(model, batches(1))

    def rising():
        calls[0] += 1
        return loss_of(model, batches(1)) + calls[0]

    def bad():
        calls[0] += 1
        return loss_of(model, batches(1)) * (math.nan if calls[0] > 1 else 1)

    for closure, error, text in ((None, ValueError, r"'backtracking'.*step\(closure\)"), (raises, RuntimeError, "mine"),
                                 (rising, ValueError, "same batch.*nothing was changed"),
                                 (bad, NonFiniteError, "NaN after a trial step"),
                                 (lambda: math.nan * loss_of(model, batches(1)), NonFiniteError, "loss is nan|not finite"),
                                 (lambda: 2.0, ValueError, "no gradient"),
                                 (lambda: torch.ones(2), ValueError, "one number"), (lambda: None, ValueError, "one number")):
        backward(model, batches(1))
        calls[0] = 0
        with pytest.raises(error, match=text):
            optimizer.step(closure)
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
        assert pickle.dumps(optimizer.state_dict()) == saved
    optimizer.step(lambda: backward(model, batches(1)))
    assert optimizer.report.search.accepted


def test_what_does_not_go_with_a_search():
    model = mixed()
    for options, text in ((dict(line_search="backtrack"), "did you mean 'backtracking'"), (dict(line_search=3), "a name such as"),
                          (dict(line_search="smoothness(relax=2)"), "relax"),
                          (dict(line_search="backtracking", stepsize="adagrad"), "'adagrad'.*without a memory"),
                          (dict(line_search="backtracking", overwrite_gradients=True), "overwrite_gradients")):
        with pytest.raises(ValueError, match=text):
            Scion(model, lr=0.1, alpha=0.1, **options)
    dropping = torch.nn.Sequential(torch.nn.Linear(5, 50), torch.nn.Dropout(), torch.nn.Linear(50, 1))
    optimizer = ClippedScion(dropping, lr=0.1, alpha=1.0, rho=1.0, line_search="smoothness")
    x = torch.ones(4, 5)
    with pytest.raises(ValueError, match="without dropout"):
        optimizer.step(lambda: dropping(x).pow(2).mean())
    averaged = Averaged(Scion(model, lr=0.1, alpha=0.1, line_search="backtracking"), "schedule_free(0.9)")
    with pytest.raises(ValueError, match="schedule_free"):
        averaged.step(lambda: backward(model, Batches()(0)))


def test_an_average_goes_around_a_search():
    batches, runs = Batches(), []
    for average in ("none", "ema(0.5)"):
        model, optimizer = prepared("clipped", "backtracking")
        averaged = Averaged(optimizer, average)
        for k in range(4):
            assert averaged.step(lambda: backward(model, batches(k))).item() > 0
        runs.append([p.detach().clone() for p in model.parameters()])
        with averaged.evaluated():
            assert average == "none" or not torch.equal(runs[-1][0], next(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*runs))


def test_one_evaluation_is_usually_enough_and_lr_does_not_matter():
    batch = Batches()(0)
    reached = {}
    for lr in (1e-4, 0.1, 30.0):
        for text in ("backtracking", "smoothness"):
            model = mixed()
            optimizer = Scion(mixed_groups(model), lr=lr, alpha=1.0, line_search=text)
            spent = [0]
            for k in range(60):
                optimizer.step(lambda: loss_of(model, batch))
                spent[0] += optimizer.report.search.evaluations if k >= 20 else 0
            reached[text, lr] = loss_of(model, batch).item()
            assert spent[0] <= (1.35 if text == "smoothness" else 2.2) * 40, (text, lr, spent)
    assert max(reached.values()) < 0.1 * loss_of(mixed(), batch).item(), reached


def test_maximize_climbs_the_same_hill():
    batch, runs = Batches()(0), []
    for sign in (1, -1):
        model = mixed()
        optimizer = Scion(mixed_groups(model), lr=0.1, alpha=1.0, line_search="smoothness", maximize=sign < 0)
        for _ in range(5):
            optimizer.step(lambda: sign * loss_of(model, batch))
        runs.append(list(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*runs))


def test_layers_with_an_lr_of_their_own():
    """The slope is of the step that is taken."""
    model = mixed()
    groups = mixed_groups(model)
    for i, group in enumerate(groups):
        group["lr"] = 0.1 / (1 + i)
    optimizer = NormBall(groups, "unconstrained_scion", 0.1, line_search="backtracking")
    batch = Batches()(0)
    start = [p.detach().clone() for p in model.parameters()]
    before = backward(model, batch).item()
    gradients = [p.grad.clone() for p in model.parameters()]
    optimizer.step(lambda: loss_of(model, batch))
    taken = sum((g * (p - q.detach())).sum().item() for g, p, q in zip(gradients, start, model.parameters()))
    report = optimizer.report.search
    assert report.slope * report.step == pytest.approx(taken, rel=1e-9)
    assert loss_of(model, batch).item() <= before - 0.5 * taken


def test_the_report_of_a_search_is_copied_pickled_and_printed():
    model = torch.nn.Linear(3, 2)
    optimizer = Scion(model, lr=0.1, alpha=1.0, line_search="smoothness")
    optimizer.step(lambda: (model(torch.ones(4, 3)) ** 2).sum())
    report = optimizer.report
    for other in (copy.deepcopy(report), pickle.loads(pickle.dumps(report))):
        assert str(other) == str(report)
    assert f"evaluations={report.search.evaluations}, accepted=True" in str(report)
