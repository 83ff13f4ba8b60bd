"""Trains one step with the package that was installed into the directory given, and prints its version."""
import pathlib
import sys

import normball
import torch
from normball.torch import ClippedScion

home = pathlib.Path(normball.__file__).resolve()
assert pathlib.Path(sys.argv[1]).resolve() in home.parents, f"imported from {home}"
assert (home.parent / "py.typed").exists() and (home.parent / "_core.pyi").exists()
model = torch.nn.Linear(8, 4)
optimizer = ClippedScion(model, lr=0.1, alpha=0.5, rho=1.0)
model(torch.randn(16, 8)).square().mean().backward()
optimizer.step()
assert optimizer.report.s > 0
print(normball.__version__)
