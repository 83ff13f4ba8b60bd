"""What test_fsdp.py runs in every rank: parameters of FSDP2, cut by rows over the ranks."""
import torch
import torch.distributed as dist
from models import Batches, loss_of, mixed
from normball.torch import ClippedScion, NonFiniteError, NormBall, RanksError, initialize_, named_groups, scale_into_balls_
from on_ranks import expect
from torch import nn

try:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
except ImportError:
    try:  # torch 2.4 and 2.5
        from torch.distributed._composable.fsdp import fully_shard
        from torch.distributed._tensor import DTensor, Replicate, Shard, distribute_tensor
    except ImportError:  # before, where nothing of this runs
        pass

OPTIONS = dict(lr=0.02, alpha=0.3, rho=2.0)


def rank():
    return dist.get_rank()


def meshes():
    """Of the first 1, 2, ... ranks; made by all."""
    return [DeviceMesh("cpu", list(range(n))) for n in range(1, dist.get_world_size() + 1)]


def world():
    return DeviceMesh("cpu", list(range(dist.get_world_size())))


def network():
    """Rows that no number of ranks divides, fewer than ranks, a convolution, vectors, experts and a fused matrix."""
    torch.manual_seed(0)
    model = nn.Module()
    model.conv = nn.Conv2d(3, 7, 3)
    model.fused = nn.Linear(10, 15)
    model.experts = nn.Parameter(torch.randn(3, 5, 4))
    model.short = nn.Linear(6, 2)
    model.table = nn.Embedding(11, 6)
    model.gain = nn.LayerNorm(5)
    model.head = nn.Linear(6, 9, bias=False)
    return model.double()


RULES = {"fused.weight": {"split": 3}, "experts": {"batch": 1}, "short.weight": {"norm": "col", "radius": 2},
         "table.weight": {"norm": "row", "radius": 3}, "gain.*": {"norm": "euclidean"}, "fused.bias": {"norm": "sign"}}


def whole(p):
    return p.detach().full_tensor() if isinstance(p, DTensor) else p.detach()


def set_gradients(model, k):
    """The same whole gradients, of which every rank has its rows."""
    generator = torch.Generator().manual_seed(100 + k)
    for p in model.parameters():
        gradient = torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.dtype)
        p.grad = distribute_tensor(gradient, p.device_mesh, p.placements) if isinstance(p, DTensor) else gradient


def close(a, b, tolerance=1e-12):
    for (name, p), q in zip(a.named_parameters(), b.parameters()):
        error, size = (whole(p) - whole(q)).norm(), whole(q).norm()
        assert error <= tolerance * size, f"{name}: {error} of {size}"


def sharded(mesh, make=network):
    model = make()
    fully_shard(model, mesh=mesh)
    return model


def both(steps=4, mesh=None, make=network, tolerance=1e-12, **options):
    """Steps on shards beside those of one process on the same gradients."""
    mesh = mesh or world()
    shards, alone = sharded(mesh, make), make()
    options = {"method": "unconstrained_clipped_scion", **OPTIONS, "rules": RULES, **options}
    a = NormBall(shards, **options, process_group=mesh.get_group())
    b = NormBall(alone, **options)
    for k in range(steps):
        set_gradients(shards, k)
        set_gradients(alone, k)
        a.step()
        b.step()
        assert abs(a.report.s - b.report.s) <= tolerance * abs(b.report.s) and a.report.clipped == b.report.clipped
    close(shards, alone, tolerance)
    return a, b, shards, alone


def methods_and_norms():
    for method, options in (("unconstrained_clipped_scion", {}), ("scion", dict(rho=None)), ("clipped_scion", {}),
                            ("clipped_scion", dict(short_step="norm")), ("clipped_scion", dict(short_step="diameter", lr=0.01)),
                            ("ggnc", dict(alpha=1.0)), ("sd", dict(alpha=1.0, rho=None)), ("s3cg", dict(alpha=1.0, beta=1.0, rules={})),
                            ("lars", dict(rho=None, rules={})), ("clipped_spectral", dict(alpha=1.0, rules={})),
                            ("gd", dict(alpha=1.0, rho=None, rules={})), ("clipped_sign", dict(alpha=1.0, rules={}))):
        both(3, method=method, **options)
    for solver in ("damped", "svd", "muon"):
        both(2, solver=solver)
    both(2, maximize=True, layer_reports=True)
    both(2, make=lambda: network().float(), tolerance=1e-5)


def numbers_of_ranks():
    for n, mesh in enumerate(meshes(), 1):
        if rank() < n:
            both(mesh=mesh)


def reports():
    a, b, _, _ = both(2, layer_reports=True, method="clipped_scion")
    for ours, theirs in zip(a.report.layers, b.report.layers):
        assert ours.name == theirs.name
        for key in ("pairing", "dual_norm", "weight_norm"):
            assert abs(getattr(ours, key) - getattr(theirs, key)) <= 1e-9 * abs(getattr(theirs, key)), (ours, theirs)
    assert a.explain() == b.explain()


def the_global_batch():
    """A whole training on 1, 2, ... ranks, each with a part of the batches, beside one process on all of them."""
    for n, mesh in enumerate(meshes(), 1):
        if rank() >= n:
            continue
        model, alone = sharded(mesh, mixed), mixed()
        optimizer = ClippedScion(named_groups(model), lr=0.01, alpha=0.2, rho=2.0, process_group=mesh.get_group())
        single = ClippedScion(named_groups(alone), lr=0.01, alpha=0.2, rho=2.0)
        batches = Batches()
        for k in range(6):
            image, token, target = batches(k)
            for each, own, part in ((optimizer, model, slice(rank(), None, n)), (single, alone, slice(None))):
                each.zero_grad()
                loss_of(own, (image[part], token[part], target[part])).backward()
                each.step()
        close(model, alone)


def shards_beside_replicated():
    """Modules of their own are sharded, the rest is replicated: one s."""
    def made():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 5), nn.Linear(5, 7)).double()

    mesh = world()
    model, alone = made(), made()
    fully_shard(model[0], mesh=mesh)
    fully_shard(model[2], mesh=mesh)
    a = ClippedScion(model, **OPTIONS, process_group=mesh.get_group())
    b = ClippedScion(alone, **OPTIONS)
    for k in range(4):
        set_gradients(model, k)
        set_gradients(alone, k)
        a.step()
        b.step()
    close(model, alone)
    state = a.consolidate_state()
    for i, own in b.state_dict()["state"].items():
        assert (state["state"][i]["momentum"] - own["momentum"]).norm() <= 1e-12 * own["momentum"].norm()


def initialization():
    mesh = world()
    model, alone = sharded(mesh), network()
    a = ClippedScion(model, **OPTIONS, rules=RULES, constrained=True, process_group=mesh.get_group())
    b = ClippedScion(alone, **OPTIONS, rules=RULES, constrained=True)
    for optimizer in (a, b):
        initialize_(optimizer, seed=3)
    assert all(torch.equal(whole(p), q.detach()) for p, q in zip(model.parameters(), alone.parameters()))
    with torch.no_grad():
        for own in (model, alone):
            own.fused.weight.mul_(5)
            own.gain.weight.mul_(7)
    before = [scale_into_balls_(optimizer) for optimizer in (a, b)]
    assert abs(before[0] - before[1]) <= 1e-12 * before[1] and before[0] > 4
    close(model, alone)


def bad_gradients_in_one_rank():
    for nonfinite in ("error", "skip"):
        model = sharded(world())
        optimizer = ClippedScion(model, **OPTIONS, rules=RULES, process_group=dist.group.WORLD, nonfinite=nonfinite)
        set_gradients(model, 0)
        optimizer.step()
        before = [p.to_local().clone() for p in model.parameters()]
        momenta = [optimizer.state[p]["momentum"].to_local().clone() for p in model.parameters()]
        set_gradients(model, 1)
        if rank() == 1:
            model.fused.weight.grad.to_local()[0, 0] = float("inf")
        if nonfinite == "error":
            error = expect(NonFiniteError, "rank 1: the gradient of 'fused.weight' has", optimizer.step)
            assert error.parameter == "fused.weight"
        else:
            optimizer.step()
            assert optimizer.report.skipped and optimizer.report.nonfinite == "fused.weight"
        if rank() == 1:
            optimizer.state[model.fused.weight]["momentum"].to_local()[0, 0] = float("nan")
            momenta[[name for name, _ in model.named_parameters()].index("fused.weight")][0, 0] = 0
        set_gradients(model, 1)
        if nonfinite == "error":
            expect(NonFiniteError, "the momentum of 'fused.weight", optimizer.step)
        else:
            optimizer.step()
            assert optimizer.report.skipped
        for p, q, d in zip(model.parameters(), before, momenta):
            assert torch.equal(p.to_local(), q)
            assert torch.equal(optimizer.state[p]["momentum"].to_local().nan_to_num(0), d)


def other_errors_in_one_rank():
    model = sharded(world())
    optimizer = ClippedScion(model, **OPTIONS, rules=RULES, process_group=dist.group.WORLD)
    set_gradients(model, 0)
    if rank() == 1:
        model.head.weight.grad = None
    expect(RanksError, "rank 1 has these parameters without a gradient: 'head.weight', rank 0 has none", optimizer.step)
    set_gradients(model, 0)
    optimizer.param_groups[0]["alpha"] = 0.5 - 0.1 * rank()
    expect(RanksError, "rank 1 has alpha 0.4, rank 0 has 0.5", optimizer.step)
    optimizer.param_groups[0]["alpha"] = 0.5
    whole_gradient = torch.randn(9, 6, dtype=torch.float64)
    mesh = model.head.weight.device_mesh
    gradient = model.head.weight.grad
    try:
        model.head.weight.grad = distribute_tensor(whole_gradient, mesh, [Shard(1)])
    except RuntimeError:  # torch itself refuses another local shape
        pass
    else:
        expect(ValueError, "must be reduced and cut as its parameter", optimizer.step)
    model.head.weight.grad = gradient
    optimizer.step()


def refusals():
    mesh = world()
    group = mesh.get_group()

    def parameter(placements, on=mesh):
        return nn.Parameter(distribute_tensor(torch.randn(8, 6), on, placements))

    def refused(text, *params, group=group, **options):
        expect(ValueError, text, lambda: ClippedScion(list(params), **OPTIONS, process_group=group, **options))

    refused("'0.0' is a DTensor with the placement Shard(dim=1)" if "dim=1" in str(Shard(1)) else "'0.0' is a DTensor with the "
            f"placement {Shard(1)}", parameter([Shard(1)]))
    refused(f"with the placement {Replicate()}", parameter([Replicate()]))
    refused("is a DTensor (FSDP2 or tensor parallel)", parameter([Shard(0)]), group=None)
    refused("overwrite_gradients has no effect on sharded", parameter([Shard(0)]), overwrite_gradients=True)
    refused("the solver 'power(rank=8)'", parameter([Shard(0)]), solver="power", norm="spectral")
    two = DeviceMesh("cpu", [[n] for n in range(dist.get_world_size())], mesh_dim_names=("replicate", "shard"))
    refused("a mesh of 2 dimensions", parameter([Replicate(), Shard(0)], two))
    first = [DeviceMesh("cpu", [n]) for n in range(dist.get_world_size())][rank()]
    refused("give the group of its mesh", parameter([Shard(0)], first))
    half = sharded(mesh, lambda: network().bfloat16())
    expect(ValueError, "it is torch.bfloat16", lambda: ClippedScion(half, **OPTIONS, rules=RULES, process_group=group))


def grad_scaler():
    """Scaled losses, one of which overflows in one rank's rows: all ranks skip that step, as one process does."""
    mesh = world()
    model, alone = sharded(mesh), network()
    a = ClippedScion(model, **OPTIONS, rules=RULES, process_group=mesh.get_group())
    b = ClippedScion(alone, **OPTIONS, rules=RULES)
    scalers = [torch.amp.GradScaler("cpu", init_scale=4.0) for _ in range(2)]
    for k in range(4):
        for optimizer, own, scaler in ((a, model, scalers[0]), (b, alone, scalers[1])):
            scaler.scale(torch.zeros(1))  # as in a loop
            set_gradients(own, k)
            for p in own.parameters():
                p.grad.mul_(scaler.get_scale())
            if k == 2:
                gradient = own.fused.weight.grad
                if not isinstance(gradient, DTensor) or rank() == 0:
                    (gradient.to_local() if isinstance(gradient, DTensor) else gradient)[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
    assert scalers[0].get_scale() == scalers[1].get_scale() == 2.0
    assert a.param_groups[0]["step"] == 3
    close(model, alone)


def volume():
    """Of matrices with an owner, 2 P (N-1) / N^2 elements leave a rank, where the owners have as much each."""
    mesh, n = world(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(8 * n, 16 * n, bias=False) for _ in range(2 * n)])
    fully_shard(model, mesh=mesh)
    optimizer = ClippedScion(model, **OPTIONS, norm="spectral", process_group=mesh.get_group())
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    sent, original = [], dist.all_to_all_single

    def counted(output, given, expected, sizes, **options):
        sent.append(sum(size for to, size in enumerate(sizes) if to != rank()))
        return original(output, given, expected, sizes, **options)

    dist.all_to_all_single = counted
    try:
        optimizer.step()
    finally:
        dist.all_to_all_single = original
    elements = sum(p.numel() for p in model.parameters())
    assert sum(sent) == 2 * elements * (n - 1) // n**2
    momenta = sum(own["momentum"].to_local().numel() for own in optimizer.state.values())
    assert momenta == elements // n


def column_parallel():
    """Has the placement of FSDP2, and is stepped as rightly; row-parallel layers are refused."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def made():
        torch.manual_seed(4)
        return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double()

    mesh = DeviceMesh("cpu", list(range(dist.get_world_size())))
    rows = parallelize_module(made(), mesh, {"2": RowwiseParallel()})
    expect(ValueError, "'2.weight' is a DTensor with the placement", lambda: ClippedScion(rows, **OPTIONS,
                                                                                         process_group=mesh.get_group()))
    model, alone = parallelize_module(made(), mesh, {"0": ColwiseParallel(output_layouts=Replicate())}), made()
    a = ClippedScion(model, **OPTIONS, process_group=mesh.get_group())
    b = ClippedScion(alone, **OPTIONS)
    x = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    for _ in range(3):
        for optimizer, own in ((a, model), (b, alone)):
            optimizer.zero_grad()
            own(x).square().mean().backward()
            optimizer.step()
    close(model, alone)
