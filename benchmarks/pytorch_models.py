"""The models of the PyTorch sides of our benchmarks, in eager mode, as a user would write them; each with the norms and
radii of its parameters."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def rms_norm(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1.2e-7)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        linear = lambda out, inside: nn.Linear(inside, out, bias=False)
        self.query, self.key, self.value, self.project = (linear(width, width) for _ in range(4))
        self.up, self.down = linear(4 * width, width), linear(width, 4 * width)

    def forward(self, x, cos, sin, future):
        batch, time_, width = x.shape
        h = rms_norm(x)

        def heads(projection):
            return projection(h).view(batch, time_, self.heads, -1).transpose(1, 2)

        def rotated(y):
            a, b = rms_norm(y).chunk(2, -1)
            return torch.cat([a * cos + b * sin, b * cos - a * sin], -1)

        q, k, v = rotated(heads(self.query)), rotated(heads(self.key)), heads(self.value)
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, time_, width))
        return x + self.down(2 * F.relu(self.up(rms_norm(x))).square())


class Gpt(nn.Module):
    def __init__(self, vocabulary, layers=6, width=384, heads=3, context=256):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        dim = width // heads
        angles = torch.outer(torch.arange(context), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("future", torch.ones(context, context, dtype=torch.bool).triu(1))

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin, self.future)
        logits = rms_norm(x) @ self.embedding.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def norms(self):
        return {name: ("sign", 1000.0) if name == "embedding.weight" else ("spectral", 10.0)
                for name, _ in self.named_parameters()}


class Group(nn.Module):
    def __init__(self, inside, out):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm1, self.norm2 = (nn.BatchNorm2d(out, eps=1e-12, momentum=0.4) for _ in range(2))
        for norm in (self.norm1, self.norm2):
            norm.weight.requires_grad_(False)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Cnn(nn.Module):
    def __init__(self, width=0.25):
        super().__init__()
        channels = [24] + [int(width * c) for c in (64, 256, 256)]
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad_(False)
        self.groups = nn.ModuleList(Group(a, b) for a, b in zip(channels, channels[1:]))
        self.head = nn.Linear(channels[-1], 10, bias=False)

    def forward(self, images, targets):
        x = F.gelu(self.whiten(images))
        for group in self.groups:
            x = group(x)
        x = F.max_pool2d(x, x.shape[-1]).flatten(1)
        return F.cross_entropy(self.head(x) / 9, targets, label_smoothing=0.2)

    def norms(self):
        def norm(name, p):
            if name == "head.weight":
                return "sign", 200.0
            return ("rms", 1.0) if p.dim() == 1 else ("spectral", 5.0)
        return {name: norm(name, p) for name, p in self.named_parameters()}
