"""What test_fsdp.py runs in every rank: states of sharded optimizers."""
import copy

import fsdp_checks
import torch
from fsdp_checks import OPTIONS, RULES, meshes, network, rank, set_gradients, sharded, whole, world
from normball.torch import ClippedScion
from on_ranks import expect


def states_of_other_numbers_of_ranks():
    """Saved on each number of ranks and alone, resumed on each other."""
    every = [None, *meshes()]

    def trained(mesh, steps, saved=None):
        model = network()
        if saved is not None:
            model.load_state_dict(saved[1])
        if mesh is not None:
            fsdp_checks.fully_shard(model, mesh=mesh)
        optimizer = ClippedScion(model, **OPTIONS, rules=RULES, process_group=mesh and mesh.get_group())
        if saved is not None:
            optimizer.load_state_dict(saved[0])
        for k in steps:
            set_gradients(model, k)
            optimizer.step()
        weights = {name: whole(p).clone() for name, p in model.named_parameters()}
        return copy.deepcopy(optimizer.consolidate_state()), weights

    expected = trained(None, range(6))
    for n, mesh in enumerate(every):
        if rank() >= max(n, 1):
            continue
        saved = trained(mesh, range(3))
        assert not any(isinstance(each, fsdp_checks.DTensor) for own in saved[0]["state"].values() for each in own.values())
        for m, other in enumerate(every):
            if m <= max(n, 1) and rank() < max(m, 1):
                _, weights = trained(other, range(3, 6), saved)
                for name, weight in weights.items():
                    assert (weight - expected[1][name]).norm() <= 1e-12 * weight.norm(), (n, m, name)
    saved = trained(None, range(3))
    weights = trained(every[-1], range(3, 6), saved)[1]
    assert all((weights[name] - expected[1][name]).norm() <= 1e-12 * weights[name].norm() for name in weights)


def sharded_states():
    """state_dict() of shards is sharded, as of torch's own optimizers, and resumes with the same bits."""
    mesh = world()

    def trained(steps, weights=None, state=None):
        model = sharded(mesh)
        if weights is not None:
            model.load_state_dict(weights)
        optimizer = ClippedScion(model, **OPTIONS, rules=RULES, process_group=mesh.get_group())
        if state is not None:
            optimizer.load_state_dict(state)
        for k in steps:
            set_gradients(model, k)
            optimizer.step()
        return model, optimizer

    model, optimizer = trained(range(3))
    state = copy.deepcopy(optimizer.state_dict())
    assert all(isinstance(own["momentum"], fsdp_checks.DTensor) for own in state["state"].values())
    one = [whole(p) for p in trained(range(3, 6), copy.deepcopy(model.state_dict()), state)[0].parameters()]
    other = [whole(p) for p in trained(range(6))[0].parameters()]
    assert all(torch.equal(a, b) for a, b in zip(one, other))
    expect(ValueError, "consolidate_state()", lambda: ClippedScion(network(), **OPTIONS, rules=RULES).load_state_dict(state))


def checkpoints_of_torch():
    """torch.distributed.checkpoint's state dicts: by name, sharded or whole."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict
    mesh = world()
    runs = []
    for full in (False, True):
        model = sharded(mesh)
        optimizer = ClippedScion(model, **OPTIONS, rules=RULES, process_group=mesh.get_group())
        for k in range(6):
            if k == 3:
                options = StateDictOptions(full_state_dict=full)
                state = copy.deepcopy(get_optimizer_state_dict(model, optimizer, options=options))
                weights = copy.deepcopy(model.state_dict())
                model = sharded(mesh)
                model.load_state_dict(weights)
                optimizer = ClippedScion(model, **OPTIONS, rules=RULES, process_group=mesh.get_group())
                set_optimizer_state_dict(model, optimizer, state, options=options)
            set_gradients(model, k)
            optimizer.step()
        runs.append(model)
    model = sharded(mesh)
    optimizer = ClippedScion(model, **OPTIONS, rules=RULES, process_group=mesh.get_group())
    for k in range(6):
        set_gradients(model, k)
        optimizer.step()
    for other in runs:
        assert all(torch.equal(whole(p), whole(q)) for p, q in zip(model.parameters(), other.parameters()))
