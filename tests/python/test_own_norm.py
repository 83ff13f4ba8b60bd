"""Norms that users write in Python, against the core's own and against closed forms."""
import copy
import pickle

import pytest
import torch
from conftest import relative_error
from models import Batches, backward, mixed
from normball.torch import ClippedScion, NonFiniteError, NormBall, Scion, initialize_, method_names, scale_into_balls_
from reference import METHODS, lmo, size

OPTIONS = dict(lr=0.1, alpha=0.5, rho=2.0)


class Reference:
    """A norm of the tests' reference, as a user would write it."""

    def __init__(self, name):
        self.name = name

    def lmo(self, d):
        return lmo(self.name, d)

    def norm(self, x):
        return size(self.name, x)


class Largest:
    """l1: all of the step goes to the largest entry."""

    @staticmethod
    def lmo(d):
        x = torch.zeros_like(d)
        at = d.abs().argmax()
        x.view(-1)[at] = -d.view(-1)[at].sign()
        return x


NORMS = ["spectral", "rms", "spectral", "rms", "sign", "row", "euclidean"]


@pytest.mark.parametrize("method,more", [(name, {}) for name in method_names()] + [("clipped_scion", {"short_step": "norm"})])
def test_the_core_s_norms_written_in_python_do_the_same(method, more):
    models = mixed(), mixed()
    options = {**METHODS[method], **more}
    optimizers = []
    for model, own in zip(models, (False, True)):
        groups = [dict(params=[p], norm=Reference(n) if own else n) for p, n in zip(model.parameters(), NORMS)]
        try:
            optimizers.append(NormBall(groups, method, **options, layer_reports=True))
        except ValueError as error:
            assert "sets every norm" in str(error)
            return
    for k in range(5):
        for model, optimizer in zip(models, optimizers):
            backward(model, Batches()(k))
            optimizer.step()
    plain, own = (optimizer.report for optimizer in optimizers)
    assert own.s == pytest.approx(plain.s, rel=1e-9) and own.eta == pytest.approx(plain.eta, rel=1e-9)
    assert relative_error(models[1].parameters(), models[0].parameters()) <= 1e-10
    for a, b in zip(plain.layers, own.layers):
        assert (b.dual_norm, b.weight_norm) == pytest.approx((a.dual_norm, a.weight_norm), rel=1e-9)


def test_the_lmo_sees_the_parameter_s_shape_or_the_block():
    seen = []

    class Shapes(Largest):
        def lmo(self, d):
            seen.append((tuple(d.shape), d.dtype))
            return super().lmo(d)

    conv, fused, half = torch.randn(4, 3, 2, 2), torch.randn(6, 5), torch.randn(3).bfloat16()
    for p in (conv, fused, half):
        p.grad = torch.randn(p.shape).to(p.dtype)
    Scion([dict(params=[conv, half]), dict(params=[fused], split=3)], lr=0.1, alpha=1.0, norm=Shapes()).step()
    assert seen == [((4, 3, 2, 2), torch.float32), ((3,), torch.float32)] + 3 * [((2, 5), torch.float32)]


def test_only_an_lmo_is_needed():
    p = torch.zeros(3, 4, dtype=torch.float64)
    p.grad = torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
    optimizer = ClippedScion([p], lr=0.1, alpha=1.0, rho=1e3, norm=Largest, radius=2.0, layer_reports=True)
    optimizer.step()
    expected = torch.zeros(3, 4, dtype=torch.float64)
    expected[2, 3] = -0.1 / 1e3 * 22 * 2  # lr / rho times s = r ||d||_inf times r
    assert optimizer.report.s == 22 and torch.allclose(p, expected, rtol=1e-12, atol=0)
    assert optimizer.report.layers[0].weight_norm != optimizer.report.layers[0].weight_norm, "no norm(x): NaN"
    assert "custom(Largest)" in optimizer.explain()
    short = ClippedScion([p], **OPTIONS, norm=Largest, constrained=True, short_step="norm")
    with pytest.raises(ValueError, match=r"\[Largest\].*'0.0'.*norm\(x\)"):
        short.step()
    for call in (initialize_, scale_into_balls_):
        with pytest.raises(ValueError, match=r"norm\(x\)"):
            call(short)


def test_rules_and_groups_may_mix_them_with_names():
    model = mixed()
    optimizer = ClippedScion(model, **OPTIONS, rules={"hidden.*": dict(norm=Reference("row"), radius=3.0),
                                                      "mix.weight": dict(norm=Largest)})
    table = {line.split()[0]: line for line in optimizer.explain().splitlines()}
    assert "custom(Reference)" in table["hidden.weight"] and "custom(Largest)" in table["mix.weight"]
    assert "spectral" in table["conv.weight"]
    backward(model, Batches()(0))
    before = copy.deepcopy(model)
    optimizer.step()
    assert (model.mix.weight != before.mix.weight).sum() == 1
    parts = optimizer._parts
    backward(model, Batches()(1))
    optimizer.step()
    assert optimizer._parts is parts, "an object is no reason for new buffers"


def test_state_deepcopy_and_pickle():
    p = torch.randn(4, 3)
    optimizer = ClippedScion([p], **OPTIONS, norm=Reference("row"))
    p.grad = torch.randn(4, 3)
    optimizer.step()
    q = p.clone()
    loaded = ClippedScion([q], **OPTIONS, norm=Reference("row"))
    loaded.load_state_dict(optimizer.state_dict())
    r, copied = copy.deepcopy((p, optimizer))
    t, pickled = pickle.loads(pickle.dumps((p, optimizer)))
    for tensor, own in ((p, optimizer), (q, loaded), (r, copied), (t, pickled)):
        tensor.grad = torch.ones(4, 3)
        own.step()
        assert torch.equal(tensor, p)


def test_initialization_and_balls():
    p, q = torch.zeros(6, 4), torch.full((5, 4), 9.0)
    optimizer = ClippedScion([p, q], **OPTIONS, norm=Reference("row"), radius=2.5)
    before = scale_into_balls_(optimizer)
    assert before == pytest.approx(size("row", torch.full((5, 4), 9.0)) / 2.5)
    assert size("row", q) == pytest.approx(2.5, rel=1e-5) and not p.any()
    initialize_(optimizer, seed=1)
    assert size("row", p) == pytest.approx(2.5, rel=1e-5)


@pytest.mark.parametrize("answer,error,text", [
    (lambda d: d[:1], ValueError, r"\[Bad.lmo\].*\[3, 4\].*'0.1', got \[1, 4\]"),
    (lambda d: None, ValueError, "got NoneType"),
    (lambda d: 1 / 0, ZeroDivisionError, "division"),
    (lambda d: d * float("nan"), NonFiniteError, "'0.1'"),
])
def test_a_bad_answer_touches_nothing(answer, error, text):
    class Bad:
        def lmo(self, d):
            return answer(d) if d.dim() > 1 else -d

    p, q = torch.randn(3), torch.randn(3, 4)
    p.grad, q.grad = torch.ones(3), torch.ones(3, 4)
    other = torch.randn(2, 2)
    other.grad = torch.ones(2, 2)
    before = [t.clone() for t in (p, q, other)]
    optimizer = ClippedScion([dict(params=[p, q], norm=Bad()), dict(params=[other])], **OPTIONS)
    with pytest.raises(error, match=text):
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, (p, q, other)))
    assert not any("momentum" in state for state in optimizer.state.values())


def test_the_norm_may_write_to_what_it_gets():
    class Greedy:
        def lmo(self, d):
            return d.sign_().neg_()

    p = torch.zeros(2, 2)
    p.grad = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    optimizer = Scion([p], lr=0.1, alpha=0.5, norm=Greedy())
    optimizer.step()
    assert torch.equal(optimizer.state[p]["momentum"], 0.5 * p.grad) and optimizer.report.s == 5


def test_what_is_no_norm_is_refused():
    for bad in (3, object(), [1]):
        with pytest.raises(ValueError, match=r"lmo\(d\)"):
            ClippedScion([torch.zeros(2)], **OPTIONS, norm=bad)
