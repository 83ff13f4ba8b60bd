"""What test_ranks.py runs in every rank: replicated parameters, whose LMOs the ranks share."""
import copy
import pickle

import torch
import torch.distributed as dist
from models import Batches, loss_of, mixed
from normball.torch import ClippedScion, NonFiniteError, NormBall, RanksError, Scion
from on_ranks import expect
from torch import nn

OPTIONS = dict(lr=0.02, alpha=0.3, rho=2.0)


def rank():
    return dist.get_rank()


def groups_of():
    """Groups of the first 1, 2, ... ranks; made by all."""
    return [dist.new_group(list(range(n))) for n in range(1, dist.get_world_size() + 1)]


def network(dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 18), nn.Tanh(),
                         nn.Linear(18, 4)).to(dtype)


def set_gradients(model, k):
    """The same in all ranks, as if they had been averaged."""
    generator = torch.Generator().manual_seed(100 + k)
    for p in model.parameters():
        p.grad = torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.dtype)


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))


def both(make, steps=5, dtype=torch.float64, model=network):
    """Steps with the ranks beside steps alone: weights and reports must have the same bits."""
    shared, alone = model(dtype), model(dtype)
    a, b = make(shared, dist.group.WORLD), make(alone, None)
    for k in range(steps):
        set_gradients(shared, k)
        set_gradients(alone, k)
        a.step()
        b.step()
        assert same(shared, alone), f"step {k}"
        assert a.report == b.report
    return a, b, shared, alone


def bits_of_all_methods():
    for method, options in (("unconstrained_clipped_scion", dict(alpha=0.3, rho=2.0)), ("scion", dict(alpha=0.3)),
                            ("clipped_scion", dict(alpha=0.3, rho=2.0)), ("ggnc", dict(rho=2.0)), ("sd", {}),
                            ("clipped_scion", dict(alpha=0.3, rho=2.0, short_step="norm")), ("clipped_spectral", dict(rho=2.0)),
                            ("clipped_sign", dict(rho=2.0)), ("lars", dict(alpha=0.5)), ("gd", {})):
        for dtype in (torch.float32, torch.float64):
            both(lambda m, group: NormBall(m, method, 0.02, process_group=group, **options), 3, dtype)


def bits_with_options():
    make = [lambda m, group: ClippedScion(m, **OPTIONS, process_group=group, maximize=True),
            lambda m, group: ClippedScion(m, **OPTIONS, process_group=group, layer_reports=True),
            lambda m, group: ClippedScion(m, **OPTIONS, process_group=group, threads=2),
            lambda m, group: ClippedScion(m, **OPTIONS, process_group=group, solver="power(rank=3)"),
            lambda m, group: ClippedScion(m, **OPTIONS, process_group=group, rules={"2.weight": {"split": 3, "lr": 0.004}}),
            lambda m, group: ClippedScion([{"params": list(m[0].parameters()), "lr": 0.1}, {"params": list(m[2].parameters())},
                                           {"params": m[4].parameters(), "norm": "col", "radius": 2},
                                           {"params": m[6].parameters()}], **OPTIONS, process_group=group)]
    for each in make:
        both(each)
    both(lambda m, group: ClippedScion(m, **OPTIONS, process_group=group, overwrite_gradients=True), dtype=torch.float32)
    both(lambda m, group: ClippedScion(m, **OPTIONS, process_group=group, overwrite_gradients=True,
                                       rules={"2.weight": {"split": "columns(3)"}}))  # directions that are not contiguous

    def convolutions(dtype):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)).to(memory_format=torch.channels_last)

    both(lambda m, group: ClippedScion(m, **OPTIONS, process_group=group), model=convolutions)

    def two_types(dtype):
        model = network()
        model[2].float()
        return model

    both(lambda m, group: ClippedScion(m, **OPTIONS, process_group=group), model=two_types)


def each_momentum_has_one_owner():
    optimizer, alone, model, other = both(lambda m, group: ClippedScion(m, **OPTIONS, process_group=group))
    names = [name for name, p in model.named_parameters() if "momentum" in optimizer.state[p]]
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, names)
    spectral = ["0.weight", "2.weight", "4.weight"]
    assert sorted(name for own in every for name in own if name in spectral) == spectral
    assert every[0] != every[1] and all({"0.bias", "6.weight"} <= set(own) for own in every)
    expect(ValueError, "consolidate_state()", optimizer.state_dict)
    whole, expected = optimizer.consolidate_state(), alone.state_dict()
    for i, own in expected["state"].items():
        assert torch.equal(whole["state"][i]["momentum"], own["momentum"])
    optimizer.state_dict()
    for _ in range(2):  # and they go back to their owners
        set_gradients(model, 9)
        set_gradients(other, 9)
        optimizer.step()
        alone.step()
    assert same(model, other)
    assert [name for name, p in model.named_parameters() if "momentum" in optimizer.state[p]] == names


def the_global_batch():
    """DistributedDataParallel on a part of each batch, on 1, 2, ... ranks, beside one process on all of it."""
    for n, group in enumerate(groups_of(), 1):
        if rank() >= n:
            continue
        model, alone = mixed(), mixed()
        wrapped = nn.parallel.DistributedDataParallel(model, process_group=group)
        optimizer = ClippedScion(wrapped, lr=0.01, alpha=0.2, rho=2.0, process_group=group)
        single = ClippedScion(alone, lr=0.01, alpha=0.2, rho=2.0)
        batches = Batches()
        for k in range(6):
            image, token, target = batches(k)
            optimizer.zero_grad()
            loss_of(wrapped, (image[rank()::n], token[rank()::n], target[rank()::n])).backward()
            optimizer.step()
            single.zero_grad()
            loss_of(alone, (image, token, target)).backward()
            single.step()
            assert abs(optimizer.report.s - single.report.s) <= 1e-12 * single.report.s
        for p, q in zip(model.parameters(), alone.parameters()):
            assert (p - q).norm() <= 1e-12 * q.norm()


def states_of_other_numbers_of_ranks():
    """Saved on each number of ranks, resumed on each other and alone, with the bits of a run that was never stopped."""
    groups = [None, *groups_of()]

    def trained(group, steps, state=None, weights=None, solver="exact"):
        model = network()
        if weights is not None:
            model.load_state_dict(weights)
        optimizer = ClippedScion(model, **OPTIONS, process_group=group, solver=solver)
        if state is not None:
            optimizer.load_state_dict(state)
        for k in steps:
            set_gradients(model, k)
            optimizer.step()
        return optimizer.consolidate_state(), model.state_dict()

    def equal(a, b):
        return all(torch.equal(x, y) for x, y in zip(a.values(), b.values()))

    for solver in ("exact", "power(rank=3)"):
        expected = trained(None, range(6), solver=solver)
        for n, group in enumerate(groups):
            if rank() >= max(n, 1):
                continue
            saved = copy.deepcopy(trained(group, range(3), solver=solver))
            for m, other in enumerate(groups):
                if rank() < min(m or 1, n or 1) and m <= max(n, 1):
                    state, weights = trained(other, range(3, 6), *saved, solver=solver)
                    assert equal(weights, expected[1]), (n, m)
                    assert torch.equal(state["state"][0]["momentum"], expected[0]["state"][0]["momentum"])
        alone = copy.deepcopy(trained(None, range(3), solver=solver))
        for n, group in enumerate(groups[1:], 1):
            if rank() < n:
                assert equal(trained(group, range(3, 6), *alone, solver=solver)[1], expected[1])


def parameters_that_come_and_go():
    """A later group changes owners; their momenta move. Frozen, tied and missing ones are left out by all."""
    def model():
        torch.manual_seed(1)
        made = nn.ModuleList([nn.Linear(n, 24, bias=False) for n in (8, 12, 20, 24)])
        made.append(nn.Linear(24, 24, bias=False))
        made[4].weight = made[3].weight
        return made.double()

    for solver in ("exact", "power(rank=2)"):
        runs = []
        for group in (dist.group.WORLD, None):
            own = model()
            optimizer = ClippedScion([{"params": [own[0].weight, own[1].weight]}], **OPTIONS, solver=solver, process_group=group)
            for k in range(12):
                if k == 3:
                    optimizer.add_param_group({"params": [own[2].weight], "lr": 0.3})
                if k == 5:
                    optimizer.add_param_group({"params": [own[3].weight]})
                set_gradients(own, k)
                if k in (6, 7):
                    own[1].weight.grad = None
                if k == 8:
                    own[0].weight.requires_grad_(False)
                if k >= 8:
                    own[0].weight.grad = None
                optimizer.step()
            runs.append(own)
        assert same(*runs)


def closures_and_steps_without_gradients():
    shared, alone = network(), network()
    a, b = ClippedScion(shared, **OPTIONS, process_group=dist.group.WORLD), ClippedScion(alone, **OPTIONS)
    a.step()
    assert a.report is None
    x = torch.ones(3, 12, dtype=torch.float64)
    for optimizer, model in ((a, shared), (b, alone)):
        def closure():
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            return loss

        assert optimizer.step(closure) > 0
    assert same(shared, alone)
    scheduler = [torch.optim.lr_scheduler.LinearLR(each, 1.0, 0.1, total_iters=3) for each in (a, b)]
    for k in range(3):
        for optimizer, model, each in ((a, shared, scheduler[0]), (b, alone, scheduler[1])):
            set_gradients(model, k)
            optimizer.step()
            each.step()
    assert same(shared, alone)
    assert a.explain() == b.explain()
    if not hasattr(torch.amp, "GradScaler"):  # on CPUs since torch 2.3
        return
    for optimizer, model in ((a, shared), (b, alone)):
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for k in range(3):
            scaler.scale(torch.zeros(1))
            set_gradients(model, k)
            for p in model.parameters():
                p.grad.mul_(4.0 if k < 2 else float("inf"))
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 2.0
    assert same(shared, alone) and a.param_groups[0]["step"] == b.param_groups[0]["step"] == 6


def line_searches():
    x = torch.linspace(-1, 1, 36, dtype=torch.float64).view(3, 12)

    def loss_of(model):
        return (model(x) ** 2).mean()

    for search in ("backtracking", "smoothness"):
        for dtype in (torch.float64, torch.float32):
            shared, alone = network(dtype), network(dtype)
            x = x.to(dtype)
            a = ClippedScion(shared, **OPTIONS, line_search=search, process_group=dist.group.WORLD)
            b = ClippedScion(alone, **OPTIONS, line_search=search)
            for k in range(5):
                a.step(lambda: loss_of(shared))
                b.step(lambda: loss_of(alone))
                assert same(shared, alone) and a.report.search.evaluations == b.report.search.evaluations, (search, k)
            assert a.param_groups[0]["stepsize_memory"] == b.param_groups[0]["stepsize_memory"]
        before, calls = [p.detach().clone() for p in shared.parameters()], [0]

        def fails_in_one():
            calls[0] += 1
            if calls[0] > 1 and rank() == 1:
                raise KeyError("mine")
            return loss_of(shared)

        def differs():
            calls[0] += 1
            return loss_of(shared) * (1.0 + (rank() if calls[0] > 1 else 0))

        for closure, kind, text in ((fails_in_one, (KeyError, RanksError), "mine"), (differs, RanksError, "the loss of a trial in rank 1")):
            calls[0] = 0
            expect(kind, text, lambda: a.step(closure))
            assert all(torch.equal(p, q) for p, q in zip(shared.parameters(), before))
        a.step(lambda: loss_of(shared))
        b.step(lambda: loss_of(alone))
        assert same(shared, alone)


def nothing_moves(optimizer, model, kind, text):
    before = [p.detach().clone() for p in model.parameters()]
    momenta = {p: own["momentum"].clone() for p, own in optimizer.state.items() if "momentum" in own}
    error = expect(kind, text, optimizer.step)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before))
    assert all(torch.equal(optimizer.state[p]["momentum"], q) for p, q in momenta.items())
    return error


def bad_gradients_in_one_rank():
    for two_types in (False, True):
        for nonfinite in ("error", "skip"):
            model, alone = network(), network()
            for own in (model, alone):
                if two_types:
                    own[2].float()
            optimizer = ClippedScion(model, **OPTIONS, process_group=dist.group.WORLD, nonfinite=nonfinite)
            single = ClippedScion(alone, **OPTIONS)
            for k in range(4):
                set_gradients(model, k)
                set_gradients(alone, k)
                if k == 2:
                    if rank() == 1:
                        model[4].weight.grad[0, 0] = float("nan")
                    if nonfinite == "error":
                        error = nothing_moves(optimizer, model, NonFiniteError, "rank 1: the gradient of '4.weight'")
                        assert error.parameter == "4.weight"
                    else:
                        optimizer.step()
                        assert optimizer.report.skipped and optimizer.report.nonfinite == "4.weight"
                else:
                    optimizer.step()
                    single.step()
            assert same(model, alone)


def other_errors_in_one_rank():
    model = network()
    optimizer = ClippedScion(model, **OPTIONS, process_group=dist.group.WORLD)
    set_gradients(model, 0)
    optimizer.step()
    weight = model[2].weight
    if rank() == 1:
        weight.grad = weight.grad.to_sparse()
    nothing_moves(optimizer, model, (ValueError, RanksError), "the gradient of '2.weight' is sparse")
    set_gradients(model, 1)
    if rank() == 1:
        weight.grad = None
    nothing_moves(optimizer, model, RanksError, "rank 1 has these parameters without a gradient: '2.weight', rank 0 has none")
    for p in model.parameters() if rank() == 0 else ():
        p.grad = None
    expect(RanksError, "rank 1 has these parameters without a gradient: '2.weight', rank 0 has '0.weight', '0.bias', ", optimizer.step)
    set_gradients(model, 1)
    if rank() == 1:
        optimizer.param_groups[0]["lr"] = 0.5
    nothing_moves(optimizer, model, RanksError, "rank 1 has lr 0.5, rank 0 has 0.02")
    optimizer.param_groups[0]["lr"] = 0.02
    optimizer.param_groups[0]["rho"] = 2.0 + rank()
    nothing_moves(optimizer, model, RanksError, "rank 1 has rho 3.0, rank 0 has 2.0")
    optimizer.param_groups[0]["rho"] = 2.0
    if rank() == 1:
        expect(RanksError, "rank 0 at step()", optimizer.consolidate_state)
    else:
        expect(RanksError, "rank 1 is at consolidate_state()", optimizer.step)
    optimizer.step()  # all of this has left no trace


def other_models_and_settings():
    for change, text in ((dict(lr=0.03), "rank 1 has lr 0.03"), (dict(radii={"hidden": 2}), "radius 2.0, rank 0 has"),
                         (dict(rules={"2.weight": {"split": 3}}), "24x24 in 3 matrices"), (dict(solver="muon"), "rank 1 has solver 'muon'")):
        model = network()
        optimizer = ClippedScion(model, **{**OPTIONS, **(change if rank() == 1 else {})}, process_group=dist.group.WORLD)
        set_gradients(model, 0)
        nothing_moves(optimizer, model, RanksError, text)
    model = network() if rank() != 1 else nn.Sequential(nn.Linear(12, 24), nn.Linear(24, 5)).double()
    optimizer = Scion(model, 0.1, 0.5, process_group=dist.group.WORLD)
    set_gradients(model, 0)
    nothing_moves(optimizer, model, RanksError, "rank 1 has number of parameters 4, rank 0 has 8")
    model = network(seed=rank() == 1)
    optimizer = ClippedScion(model, **OPTIONS, process_group=dist.group.WORLD)
    set_gradients(model, 0)
    nothing_moves(optimizer, model, RanksError, "the weight of '0.weight' in rank 1 is not that of rank 0: all ranks must start")
    model = network()
    optimizer = ClippedScion(model, **OPTIONS, process_group=dist.group.WORLD)
    set_gradients(model, rank())
    nothing_moves(optimizer, model, RanksError, "the gradient of '0.weight' in rank 1 is not that of rank 0: average")


def states_that_differ():
    model = network()
    optimizer = Scion(model, alpha=0.3, stepsize="distance_aware", process_group=dist.group.WORLD)
    for k in range(2):
        set_gradients(model, k)
        optimizer.step()
    good = optimizer.consolidate_state()
    set_gradients(model, 2)
    for key, index, name in (("start", 2, "2.weight"), ("momentum", 2, "2.weight"), ("start", 7, "6.bias"), ("momentum", 7, "6.bias")):
        other = copy.deepcopy(good)
        if rank() == 1:
            other["state"][index][key].view(-1)[0] += 1
        optimizer.load_state_dict(other)
        nothing_moves(optimizer, model, RanksError, f"the {key} of '{name}' in rank 1 is not that of rank 0: ")
    optimizer.load_state_dict(good)
    optimizer.step()
    for p in model.parameters():
        optimizer.state[p]["start"] = torch.zeros_like(p) + rank()  # a run that starts afresh takes its own
    for group in optimizer.param_groups:
        group["stepsize_memory"] = []
    optimizer._shared._compared = False
    optimizer.step()
    assert all(float(optimizer.state[p]["start"].abs().sum()) > 0 for p in model.parameters())


def refusals():
    world = dist.group.WORLD
    expect(ValueError, "'0.weight' cannot be stepped: it is torch.bfloat16",
           lambda: ClippedScion(network(torch.bfloat16), **OPTIONS, process_group=world))
    expect(ValueError, "backend='torch'", lambda: ClippedScion(network(), **OPTIONS, process_group=world, backend="torch"))
    expect(ValueError, "it is not contiguous",
           lambda: ClippedScion([torch.zeros(6, 4).t()], **OPTIONS, process_group=world))

    class Own:
        def lmo(self, d):
            return -d.sign()

    expect(ValueError, "is of your own", lambda: ClippedScion(network(), **OPTIONS, norm=Own(), process_group=world))
    for wrong in ("world", True, 3, nn.Linear(2, 2)):
        expect(ValueError, "process_group must be a process group", lambda: ClippedScion(network(), **OPTIONS, process_group=wrong))
    first = dist.new_group([0])
    if rank() == 1:
        expect(ValueError, "is not in the process_group", lambda: ClippedScion(network(), **OPTIONS, process_group=first))
    optimizer = ClippedScion(network(), **OPTIONS, process_group=world)
    expect(ValueError, "cannot be copied or pickled", lambda: copy.deepcopy(optimizer))
    expect(ValueError, "cannot be copied or pickled", lambda: pickle.dumps(optimizer))
    optimizer.param_groups[0]["process_group"] = None
    expect((ValueError, RanksError), "give it to the constructor", optimizer.step)
