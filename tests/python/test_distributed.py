"""Sharded parameters: refused by name, on two processes with gloo. More on data parallelism are in test_invariance.py."""
import copy
import os
import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from normball.torch import ClippedScion
from torch import nn

OPTIONS = dict(lr=0.1, alpha=0.5, rho=10.0)
pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch without distributed")


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def zero_redundancy():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = network()
    refused(lambda: ZeroRedundancyOptimizer(model.parameters(), optimizer_class=ClippedScion, **OPTIONS),
            r"\[ClippedScion\].*ZeroRedundancyOptimizer on 2 processes.*DistributedDataParallel")
    ClippedScion(model, **OPTIONS)  # by itself it is welcome


def fully_sharded_1():
    from torch.distributed.fsdp import FullyShardedDataParallel
    for original in (False, True):
        model = network()
        early = ClippedScion(model, **OPTIONS)
        wrapped = FullyShardedDataParallel(model, use_orig_params=original, device_id=torch.device("cpu"))
        refused(lambda: ClippedScion(wrapped, **OPTIONS), "is a part of FSDP's flat parameter.*DistributedDataParallel")
        refused(lambda: ClippedScion(wrapped.parameters(), **OPTIONS), "'0.0' is a part of FSDP's flat parameter")
        wrapped(torch.randn(5, 4)).sum().backward()
        if original:
            refused(early.step, "is a part of FSDP's flat parameter")


def fully_sharded_2():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    model = network()
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    refused(lambda: ClippedScion(model, **OPTIONS), "'0.weight' is a DTensor.*DistributedDataParallel")


def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    model = parallelize_module(network(), init_device_mesh("cpu", (2,)), {"0": ColwiseParallel()})
    refused(lambda: ClippedScion(model, **OPTIONS), "'0.weight' is a DTensor")


def data_parallel():
    """The whole model on both: what the errors advise works, and both take the steps of one process."""
    model, alone = network(), network()
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer, single = ClippedScion(wrapped, **OPTIONS), ClippedScion(alone, **OPTIONS)
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(3))
    own = x[dist.get_rank()::2]
    for _ in range(3):
        for o, output in ((optimizer, lambda: wrapped(own)), (single, lambda: alone(x))):
            o.zero_grad()
            (output() ** 2).mean().backward()
            o.step()
    for p, q in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def run(rank, port, check):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    try:
        globals()[check]()
    finally:
        dist.destroy_process_group()


NEWER = pytest.mark.skipif(torch.__version__ < "2.6", reason="FSDP on the CPU, fully_shard and DTensor need a newer torch")


@pytest.mark.parametrize("check", ["zero_redundancy", "data_parallel", *(
    pytest.param(name, marks=NEWER) for name in ("fully_sharded_1", "fully_sharded_2", "tensor_parallel"))])
def test_on_two_processes(check):
    mp.spawn(run, (free_port(), check), nprocs=2)


def test_zero_redundancy_on_one_process_is_the_optimizer_itself(monkeypatch):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        model = network()
        other = copy.deepcopy(model)
        sharded = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=ClippedScion, **OPTIONS)
        plain = ClippedScion(other.parameters(), **OPTIONS)
        for p, q in zip(model.parameters(), other.parameters()):
            p.grad = torch.ones_like(p)
            q.grad = torch.ones_like(q)
        sharded.step()
        plain.step()
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters()))
    finally:
        dist.destroy_process_group()


def test_a_flattened_parameter_is_refused_wherever_it_came_from():
    """What FSDP leaves on the parameters it flattens, also where FSDP itself cannot be imported."""
    p = nn.Parameter(torch.zeros(4))
    optimizer = ClippedScion([p], **OPTIONS)
    p.grad = torch.ones(4)
    p._fsdp_flattened = True
    refused(lambda: ClippedScion([p], **OPTIONS), "FSDP")
    refused(optimizer.step, "FSDP")
    assert not p.any()
