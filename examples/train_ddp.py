#!/usr/bin/env python3
"""Data-parallel training whose ranks share the LMOs. Ends with 0 if it learned its task and all ranks have the same weights.

    PYTHONPATH=build/release/python torchrun --nproc_per_node 2 examples/train_ddp.py
"""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from normball.torch import ClippedScion

dist.init_process_group("gloo")  # for CPUs; the place of each rank comes from torchrun
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
patterns = torch.randn(10, 144)  # one for each class, to be recognized under noise


def batch(step, count=72):
    """Cut by global index, so that the number of ranks changes no batch."""
    random = torch.Generator().manual_seed(step)
    labels = torch.randint(10, (count,), generator=random)
    images = patterns[labels] + 1.5 * torch.randn(count, 144, generator=random)
    return images[rank::size], labels[rank::size]


model = nn.Sequential(nn.Linear(144, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
model = nn.parallel.DistributedDataParallel(model)  # averages the gradients
optimizer = ClippedScion(model, lr=0.05, alpha=0.2, rho=5.0, radii={"hidden": 3, "output": 30},
                         process_group=dist.group.WORLD)
if rank == 0:
    print(optimizer.explain())

for step in range(100):
    images, labels = batch(step)
    optimizer.zero_grad()
    loss = cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 25 == 0:
        print(f"step {step:4}  loss {loss.item():.3f}  s {optimizer.report.s:8.3f}")

state = optimizer.consolidate_state()  # in all ranks; one of them writes it: torch.save(state, "optimizer.pt")
images, labels = batch(1000, 2400)
right = (model(images).argmax(1) == labels).float().mean()
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
every = [torch.empty_like(weights) for _ in range(size)]
dist.all_gather(every, weights)
dist.all_reduce(right)
if rank == 0:
    print(f"accuracy on new images: {100 * right.item() / size:.1f} %, {size} ranks, {len(state['state'])} momenta")
learned = right.item() / size > 0.9 and all(torch.equal(weights, other) for other in every)
dist.destroy_process_group()
raise SystemExit(not learned)
