"""Save at step 50, load in a new process, continue to 100: the same bits as 100 steps without a stop."""
import os
import subprocess
import sys

import pytest
import torch
from models import Batches, backward, mixed, mixed_groups
from normball.torch import NormBall
from reference import METHODS

CASES = {name: dict(method=name, options=METHODS[name]) for name in
         ("unconstrained_clipped_scion", "clipped_scion", "scion", "cg")}
CASES["torch operations"] = dict(method="unconstrained_clipped_scion", backend="torch",
                                 options=METHODS["unconstrained_clipped_scion"])
CASES["power"] = dict(method="unconstrained_clipped_scion", options=METHODS["unconstrained_clipped_scion"],
                      solver="power(rank=3)")


def start(case, dtype):
    model = mixed(dtype)
    spec = CASES[case]
    groups = mixed_groups(model)
    for group in groups:
        if "solver" in spec and group["norm"] == "spectral":
            group["norm"] = f"spectral(solver={spec['solver']})"
    optimizer = NormBall(groups, spec["method"], **spec["options"], backend=spec.get("backend", "auto"))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    return model, optimizer, scheduler


def train(model, optimizer, scheduler, first, last, dtype):
    batches = Batches(dtype)
    for k in range(first, last):
        backward(model, batches(k))
        optimizer.step()
        scheduler.step()


def second_half(case, dtype, path):
    """Run in a process of its own."""
    model, optimizer, scheduler = start(case, dtype)
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    train(model, optimizer, scheduler, 50, 100, dtype)
    torch.save(model.state_dict(), path + ".end")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", CASES)
def test_resume_in_a_new_process_is_bit_identical(case, dtype, tmp_path):
    path = str(tmp_path / "checkpoint.pt")
    model, optimizer, scheduler = start(case, dtype)
    train(model, optimizer, scheduler, 0, 50, dtype)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()},
               path)
    train(model, optimizer, scheduler, 50, 100, dtype)
    program = f"import torch, test_resume; test_resume.second_half({case!r}, {dtype}, {path!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    resumed = torch.load(path + ".end")
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, resumed[name]), name
