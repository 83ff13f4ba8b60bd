"""Torch operations for what the core cannot take: the same mathematics, in at least float32."""
import copy

import normball
import numpy as np
import pytest
import torch
from conftest import relative_error
from models import Batches, backward, mixed, mixed_groups
from normball import _fallback
from normball.torch import ClippedScion, NormBall
from reference import polar

OPTIONS = dict(lr=0.01, alpha=0.2, rho=2.0)


@pytest.mark.parametrize("solver", ["exact", "damped", "damped(damping=0.1)", "clip", "clip(tau=0.7)", "svd", "muon", "polar_express", "cubic",
                                    "muon(gram)", "muon(rescale_rows)", "polar_express(steps=8)", "custom(1.5 -0.5 0, 1.5 -0.5 0)"])
@pytest.mark.parametrize("shape", [(6, 10), (10, 6)])
def test_solvers_are_the_core_s(solver, shape):
    d = torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = normball.lmo(d.numpy(), norm="spectral(unit)", solver=solver)
    np.testing.assert_allclose(-_fallback.polar(d, solver).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-40, 1e-20, 1e20, 3e38])
def test_any_scale(scale):
    d = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).clamp(-1, 1) * scale
    expected = polar(d.double() / d.double().abs().max())
    # A subnormal float has few digits left: what it stands for is what counts.
    torch.testing.assert_close(_fallback.polar(d, "exact").double(), expected, rtol=0, atol=1e-5)
    for geometry in ("frobenius", "max", "rows", "columns"):
        u, dual = _fallback.direction(geometry, "exact", d)
        assert torch.isfinite(u).all() and torch.isfinite(dual)
        assert (d.double() * u.double()).sum().item() == pytest.approx(dual.item(), rel=1e-5)


@pytest.mark.parametrize("norm", ["spectral", "sign", "row", "col", "rms", "euclidean", "spectral(solver=muon)"])
@pytest.mark.parametrize("dtype,scale", [(torch.float64, 1e-300), (torch.float64, 1e-200), (torch.float64, 1e200),
                                         (torch.float64, 1e300), (torch.float32, 1e-42), (torch.float32, 1e-30),
                                         (torch.float32, 1e30), (torch.float32, 1e37)])
def test_steps_at_any_scale_are_the_core_s(dtype, scale, norm):
    """A row much smaller than the others, in clipped and unclipped steps, and norms of weights of that size."""
    torch.manual_seed(0)
    gradient = torch.randn(6, 9, dtype=torch.float64)
    gradient[3] *= 1e-2
    gradient = (gradient * scale).to(dtype)
    for rho in (1e-3 * scale, 1e3 * scale):
        params = [torch.ones(6, 9, dtype=dtype), torch.ones(6, 9, dtype=dtype)]
        optimizers = [ClippedScion([p], lr=0.5, alpha=0.5, rho=rho, norm=norm, layer_reports=True, backend=backend)
                      for p, backend in zip(params, ("auto", "torch"))]
        for p, optimizer in zip(params, optimizers):
            p.grad = gradient.clone()
            optimizer.step()
        core, ours = (optimizer.report for optimizer in optimizers)
        assert core.clipped == (rho < scale) and 0 < core.s < float("inf")
        assert ours.s == pytest.approx(core.s, rel=1e-4) and ours.eta == pytest.approx(core.eta, rel=1e-4)
        assert relative_error([params[1] - 1], [params[0] - 1]) <= (1e-9 if dtype == torch.float64 else 1e-4)
    for p, optimizer in zip(params, optimizers):
        p.copy_(gradient)
        optimizer.step()
    sizes = [optimizer.report.layers[0].weight_norm for optimizer in optimizers]
    assert sizes[1] == pytest.approx(sizes[0], rel=1e-5) and 0 < sizes[0] < float("inf")


def test_zero_and_low_rank():
    assert not _fallback.polar(torch.zeros(3, 4), "exact").any()
    d = torch.outer(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0, 0.0]))
    torch.testing.assert_close(_fallback.polar(d, "exact"), torch.outer(torch.tensor([0.6, 0.8]),
                                                                        torch.tensor([1.0, 0.0, 0.0])))


@pytest.mark.parametrize("constrained", [False, True])
def test_mixed_devices_and_types_share_one_s(constrained):
    """float32, float64, a strided and a bfloat16 tensor in one optimizer, against all of it in float64."""
    torch.manual_seed(0)
    start = [torch.randn(4, 6).double(), torch.randn(5, 5).double(), torch.randn(7, 3).double(), torch.randn(6).double()]
    gradients = [torch.randn_like(p) for p in start]
    memory = torch.zeros(7, 10, dtype=torch.float32)
    params = [start[0].float(), start[1].clone(), memory[:, :6:2], start[3].bfloat16()]
    params[2].copy_(start[2])
    start = [p.double() for p in params]
    options = dict(lr=0.05, alpha=1.0, rho=30.0, radius=2.0, constrained=constrained)
    expected = copy.deepcopy(start)
    for p, q, g in zip(params, expected, gradients):
        p.grad = g.to(p.dtype)
        q.grad = p.grad.double()
    one, two = ClippedScion(params, **options), ClippedScion(expected, **options)
    one.step()
    two.step()
    assert sorted(type(part).__name__ for part in one._parts) == ["FallbackPart", "NativePart", "NativePart"]
    assert one.report.s == pytest.approx(two.report.s, rel=1e-6)
    assert relative_error(params[:3], expected[:3]) <= 1e-6
    torch.testing.assert_close(params[3], expected[3].bfloat16(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("method", ["gd", "normalized_gd", "clipped_gd"])
def test_the_euclidean_norm_of_all_parts_together(method):
    """Where the layers are combined by l2 the shares of the parts must fit together."""
    torch.manual_seed(0)
    params = [torch.randn(4, 6).double(), torch.randn(5, 3), torch.randn(10, 4)[:, 1]]
    start = [p.double().clone() for p in params]
    gradients = [torch.randn(p.shape).double() for p in params]
    for p, g in zip(params, gradients):
        p.grad = g.to(p.dtype)
    options = dict(lr=0.1, rho=3.0) if method == "clipped_gd" else dict(lr=0.1)
    optimizer = NormBall(params, method, **options)
    optimizer.step()
    assert len(optimizer._parts) == 3
    s = torch.cat([g.reshape(-1) for g in gradients]).norm().item()
    assert optimizer.report.s == pytest.approx(s, rel=1e-6)
    factor = {"gd": 0.1, "normalized_gd": 0.1 / s, "clipped_gd": 0.1 / 3 * min(3, s) / s}[method]
    assert relative_error(params, [p - factor * g for p, g in zip(start, gradients)]) <= 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_momentum_in_float32(dtype):
    """alpha = 0.02 is below what bfloat16 momentum would notice; the state survives saving with all its bits."""
    torch.manual_seed(0)
    p, q = torch.randn(8, 6).to(dtype), torch.randn(6).to(dtype)
    reference = torch.zeros(8, 6)
    optimizer = ClippedScion([p, q], lr=0.01, alpha=0.02, rho=1.0)
    for _ in range(30):
        for t in (p, q):
            t.grad = torch.randn(t.shape).to(dtype)
        reference = 0.98 * reference + 0.02 * p.grad.float()
        optimizer.step()
    momentum = optimizer.state[p]["momentum"]
    assert momentum.dtype == torch.float32 and p.dtype == dtype
    torch.testing.assert_close(momentum, reference, rtol=1e-5, atol=1e-7)
    twins = [p.clone(), q.clone()]
    loaded = ClippedScion(twins, lr=0.01, alpha=0.02, rho=1.0)
    loaded.load_state_dict(optimizer.state_dict())
    assert torch.equal(loaded.state[twins[0]]["momentum"], momentum)
    for t, u in zip((p, q), twins):
        t.grad = torch.randn(t.shape).to(dtype)
        u.grad = t.grad.clone()
    optimizer.step()
    loaded.step()
    assert torch.equal(p, twins[0]) and torch.equal(q, twins[1])


def test_training_in_bfloat16_makes_progress():
    p = torch.randn(16, 16, generator=torch.Generator().manual_seed(0)).bfloat16()
    target = torch.eye(16)
    optimizer = ClippedScion([p], lr=0.05, alpha=0.5, rho=1.0, radius=1.0)
    losses = []
    for _ in range(100):
        losses.append(((p.float() - target) ** 2).sum().item())
        p.grad = (2 * (p.float() - target)).bfloat16()
        optimizer.step()
    assert losses[-1] < 0.2 * losses[0]


def test_what_torch_operations_lack_is_said():
    p = torch.randn(4, 6)
    p.grad = torch.randn(4, 6)
    with pytest.raises(ValueError, match="'0.0'.*float32 or float64"):
        ClippedScion([p.bfloat16()], **OPTIONS, norm="spectral(solver=power(rank=2))")
    optimizer = ClippedScion([p], **OPTIONS, norm="spectral(solver=power(rank=2))")
    p.data, p.grad = p.bfloat16(), None  # later
    p.grad = torch.randn(4, 6).bfloat16()
    before = p.clone()
    with pytest.raises(ValueError, match="'0.0'.*float32 or float64"):
        optimizer.step()
    assert torch.equal(p, before)


def test_moving_between_the_paths_keeps_the_state():
    model, other = mixed(), mixed()
    optimizer, moved = ClippedScion(mixed_groups(model), **OPTIONS), ClippedScion(mixed_groups(other), **OPTIONS)
    batches = Batches()
    for k in range(10):
        for m, o in ((model, optimizer), (other, moved)):
            backward(m, batches(k))
            o.step()
        moved._execution["backend"] = "torch" if k % 2 else "auto"
        moved._forget()
    assert relative_error(other.parameters(), [p.detach() for p in model.parameters()]) <= 1e-12
