"""A rank of test_ranks.py that trains until one of them is killed: lost_rank.py PORT RANK SIZE HOW; prints what it was told."""
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from normball.torch import ClippedScion, RanksError
from torch import nn

port, rank, size = (int(each) for each in sys.argv[1:4])
how = sys.argv[4]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=5))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64))
optimizer = ClippedScion(model, lr=0.01, alpha=0.5, rho=10.0, process_group=dist.group.WORLD)
victim = size - 1


class Interrupt(BaseException):
    pass


start = time.monotonic()
try:
    for k in range(1000):
        generator = torch.Generator().manual_seed(k)
        for p in model.parameters():
            p.grad = torch.randn(p.shape, generator=generator)
        if rank == victim and k == 3:
            start = time.monotonic()
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            elif how == "stopped":  # it is there, and does nothing
                time.sleep(30)
            else:  # in the middle of a step
                optimizer._parts[0].prepare = lambda *_: (_ for _ in ()).throw(Interrupt("the user is tired"))
        if k == 3:
            start = time.monotonic()
        optimizer.step()
except RanksError as error:
    print(f"{optimizer.param_groups[0]['step']} steps, {time.monotonic() - start:.1f} s: {error}", flush=True)
except Interrupt:
    print("interrupted", flush=True)
os._exit(0)
