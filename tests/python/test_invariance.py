"""What must not change the result: accumulation, order, grouping, threads, replicas."""
import os
import subprocess
import sys

import pytest
import torch
from conftest import relative_error
from models import Batches, backward, loss_of, mixed, mixed_groups
from normball.torch import ClippedScion

OPTIONS = dict(lr=0.01, alpha=0.2, rho=2.0)


def trained(groups_of=mixed_groups, steps=20, gradient=backward, constrained=False, **options):
    model, batches = mixed(), Batches()
    optimizer = ClippedScion(groups_of(model), constrained=constrained, **{**OPTIONS, **options})
    reports = []
    for k in range(steps):
        gradient(model, batches(k))
        optimizer.step()
        reports.append(optimizer.report)
    return [p.detach() for p in model.parameters()], reports


def test_gradient_accumulation_is_one_batch():
    """Four quarter batches, each loss divided by four. The sums differ in rounding: 1e-12."""
    def accumulated(model, batch):
        for p in model.parameters():
            p.grad = None
        image, token, target = batch
        for part in range(4):
            rows = slice(24 * part, 24 * part + 24)
            (loss_of(model, (image[rows], token[rows], target[rows])) / 4).backward()

    weights, reports = trained()
    other, other_reports = trained(gradient=accumulated)
    assert relative_error(other, weights) <= 1e-12
    for a, b in zip(reports, other_reports):
        assert a.s == pytest.approx(b.s, rel=1e-12)


def test_the_order_of_parameters_does_not_matter():
    """s is added up in another order: 1e-14 a step, 1e-12 in the weights."""
    weights, _ = trained()
    other, _ = trained(lambda model: mixed_groups(model)[::-1])
    assert relative_error(other, weights) <= 1e-12


def test_grouping_does_not_matter():
    """One group for each parameter, or one for each norm and radius, or patterns: bit-identical."""
    norms, radii = ["spectral", "rms"] * 2 + ["sign", "spectral", "rms"], [1.0, 0.5] * 2 + [20.0, 1.0, 0.5]

    def single(model):
        return mixed_groups(model, norms, radii)

    def merged(model):
        groups = {}
        for p, n, r in zip(model.parameters(), norms, radii):
            groups.setdefault((n, r), []).append(p)
        return [{"params": params, "norm": n, "radius": r} for (n, r), params in groups.items()]

    rules = {"*.weight": dict(norm="spectral", radius=1.0), "*.bias": dict(norm="rms", radius=0.5),
             "embedding.weight": dict(norm="sign", radius=20.0)}
    weights, _ = trained(single)
    by_rules, _ = trained(lambda model: model.named_parameters(), rules=rules)
    assert all(torch.equal(a, b) for a, b in zip(weights, by_rules))
    assert relative_error(trained(merged)[0], weights) <= 1e-12  # another order


@pytest.mark.parametrize("constrained", [False, True])
def test_the_number_of_threads_changes_no_bit(constrained):
    weights, _ = trained(constrained=constrained, threads=1)
    for threads in (2, 3):
        other, _ = trained(constrained=constrained, threads=threads)
        assert all(torch.equal(a, b) for a, b in zip(weights, other))


def test_threads_on_layers_that_use_them_change_no_bit_and_no_setting():
    """Large enough for all threads to work, on one matrix and on several."""
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2):
        torch.manual_seed(0)
        params = [torch.randn(300, 500), torch.randn(96, 64), torch.randn(5000)]
        for p in params:
            p.grad = torch.randn_like(p)
        ClippedScion(params, **OPTIONS, threads=threads).step()
        results.append(params)
    assert all(torch.equal(a, b) for a, b in zip(*results))
    assert torch.get_num_threads() == before
    x = torch.randn(300, 300)
    torch.set_num_threads(2)
    try:
        torch.mm(x, x)
        ClippedScion(params, **OPTIONS).step()
        assert torch.get_num_threads() == 2
        torch.mm(x, x)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_openmp_s_own_setting_changes_no_bit():
    """The same training in processes with another OMP_NUM_THREADS. torch itself runs on one thread in both."""
    program = ("import torch, hashlib, test_invariance as t; torch.set_num_threads(1)\n"
               "weights, _ = t.trained(steps=10)\n"
               "print(hashlib.sha256(b''.join(w.numpy().tobytes() for w in weights)).hexdigest())")
    digests = set()
    for threads in ("1", "2"):
        path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONPATH": path}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        digests.add(run.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_replicas_with_averaged_gradients_are_one_model(replicas):
    """s of R replicas on R parts of the batch, gradients averaged as data-parallel training does, is s of one."""
    _, reports = trained(steps=10)
    models, batches = [mixed() for _ in range(replicas)], Batches()
    optimizers = [ClippedScion(mixed_groups(model), **OPTIONS) for model in models]
    rows = 96 // replicas
    for k in range(10):
        image, token, target = batches(k)
        for i, model in enumerate(models):
            part = slice(i * rows, (i + 1) * rows)
            backward(model, (image[part], token[part], target[part]))
        for together in zip(*(model.parameters() for model in models)):
            average = sum(p.grad for p in together) / replicas
            for p in together:
                p.grad = average.clone()
        for optimizer in optimizers:
            optimizer.step()
            assert optimizer.report.s == pytest.approx(reports[k].s, rel=1e-11)
    first = [p.detach() for p in models[0].parameters()]
    for model in models[1:]:
        assert all(torch.equal(a, b) for a, b in zip(first, model.parameters()))


def test_blocks_of_a_fused_matrix_are_matrices_of_their_own():
    """A fused QKV split in three, experts in a batch and heads by columns, bit for bit as separate parameters."""
    torch.manual_seed(0)
    fused, experts, heads = torch.randn(12, 4), torch.randn(3, 4, 5), torch.randn(4, 12)
    for p in (fused, experts, heads):
        p.grad = torch.randn_like(p)

    def pieces(t, cut):
        parts = [piece.clone() for piece in cut(t)]
        for piece, g in zip(parts, cut(t.grad)):
            piece.grad = g.clone()
        return parts

    separate = (pieces(fused, lambda t: t.chunk(3)) + pieces(experts, lambda t: t.unbind(0)) +
                pieces(heads, lambda t: t.chunk(4, dim=1)))
    whole = ClippedScion([dict(params=[fused], split=3), dict(params=[experts], batch=1),
                          dict(params=[heads], split="columns(4)")], **OPTIONS, norm="spectral")
    parts = ClippedScion(separate, **OPTIONS, norm="spectral")
    whole.step()
    parts.step()
    assert whole.report.s == parts.report.s
    joined = [torch.cat(separate[:3]), torch.stack(separate[3:6]), torch.cat(separate[6:], dim=1)]
    for a, b in zip((fused, experts, heads), joined):
        assert torch.equal(a, b)
