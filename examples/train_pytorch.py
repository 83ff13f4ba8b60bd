#!/usr/bin/env python3
"""A small image classifier trained with ClippedScion; the data is made here. Ends with 0 if it learned its task.

    PYTHONPATH=build/release/python examples/train_pytorch.py
"""
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from normball.torch import ClippedScion

torch.manual_seed(0)
patterns = torch.randn(10, 1, 12, 12)  # one for each class, to be recognized under noise


def batch(size):
    labels = torch.randint(10, (size,))
    return patterns[labels] + 1.5 * torch.randn(size, 1, 12, 12), labels


model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(288, 64), nn.ReLU(), nn.Linear(64, 10))
steps = 150
optimizer = ClippedScion(model, lr=0.05, alpha=0.2, rho=5.0, radii={"input": 3, "hidden": 3, "output": 30})
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
print(optimizer.explain())

for step in range(steps):
    images, labels = batch(64)
    optimizer.zero_grad()
    loss = cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 25 == 0 or step == steps - 1:
        report = optimizer.report
        print(f"step {step:4}  loss {loss.item():.3f}  s {report.s:8.3f}  {'clipped' if report.clipped else ''}")

images, labels = batch(2000)
accuracy = (model(images).argmax(1) == labels).float().mean().item()
print(f"accuracy on new images: {100 * accuracy:.1f} %")
raise SystemExit(accuracy < 0.9)
