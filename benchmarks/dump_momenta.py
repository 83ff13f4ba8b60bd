#!/usr/bin/env python3
"""Momenta of small models in training, as files for polar_momenta.

    benchmarks/dump_momenta.py DIRECTORY --images DIRECTORY --text FILE [--steps 0 10 60 300]

An MLP and a CNN on Fashion-MNIST (the four gzipped idx files) and a byte GPT on a text are trained by spectral steps on
averages of gradients (0.9 of the old, 0.1 of the new one). After the given numbers of steps every hidden matrix's
average is written as MODEL-LAYER-STEP-ROWSxCOLS.f32, row by row. Needs python3-torch.
"""
import argparse
import gzip
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional

from pytorch_reference import newton_schulz

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("directory", type=pathlib.Path)
parser.add_argument("--images", type=pathlib.Path, help="Fashion-MNIST; without it no MLP and no CNN")
parser.add_argument("--text", type=pathlib.Path, help="what the GPT reads; without it no GPT")
parser.add_argument("--steps", type=int, nargs="*", default=[0, 10, 60, 300])
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()
torch.set_num_threads(args.threads)


def images(batch):
    def read(name, header):
        with gzip.open(args.images / name) as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)
    x = read("train-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28).float().div_(255).sub_(0.2860).div_(0.3530)
    y = read("train-labels-idx1-ubyte.gz", 8).long()
    return lambda: (lambda at: (x[at], y[at]))(torch.randint(len(y), (batch,)))


def text(batch, length):
    data = torch.frombuffer(bytearray(args.text.read_bytes()), dtype=torch.uint8).long()

    def draw():
        starts = torch.randint(len(data) - length - 1, (batch, 1)) + torch.arange(length + 1)
        window = data[starts]
        return window[:, :-1], window[:, 1:]
    return draw


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        def split(y):
            return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)
        h = functional.layer_norm(x, x.shape[-1:])
        q, k, v = split(self.query(h)), split(self.key(h)), split(self.value(h))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        x = x + self.output(mixed.transpose(1, 2).reshape(x.shape))
        h = functional.layer_norm(x, x.shape[-1:])
        return x + self.down(functional.relu(self.up(h)) ** 2)


class Gpt(nn.Module):
    def __init__(self, width=256, layers=3, length=64):
        super().__init__()
        self.embedding, self.place = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.head = nn.Linear(width, 256, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.place.weight
        for block in self.blocks:
            x = block(x)
        return self.head(functional.layer_norm(x, x.shape[-1:])).transpose(1, 2)


def cnn(width=16):
    def conv(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.GELU()]
    wide = 4 * width
    return nn.Sequential(nn.Conv2d(1, width, 2), nn.GELU(), *conv(width, width), nn.MaxPool2d(2), *conv(width, wide),
                         nn.MaxPool2d(2), *conv(wide, wide), nn.MaxPool2d(3), nn.Flatten(), nn.Linear(4 * wide, 10))


def mlp(width=256):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, 10))


def train(name, model, draw, rate):
    hidden = {key: p for key, p in model.named_parameters()
              if p.dim() >= 2 and not key.startswith(("embedding", "place", "head"))}
    momenta = {key: torch.zeros_like(p) for key, p in model.named_parameters()}
    for step in range(max(args.steps) + 1):
        x, y = draw()
        loss = functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for key, p in model.named_parameters():
                d = momenta[key].mul_(0.9).add_(p.grad, alpha=0.1)
                flat = d.reshape(d.shape[0], -1)
                if key not in hidden:
                    p.sub_(d.sign(), alpha=0.1 * rate)
                    continue
                if step in args.steps and min(flat.shape) >= 16:
                    file = f"{name}-{key.removesuffix('.weight')}-{step}-{flat.shape[0]}x{flat.shape[1]}.f32"
                    (args.directory / file).write_bytes(flat.contiguous().numpy().tobytes())
                scale = math.sqrt(flat.shape[0] / flat.shape[1])
                p.sub_(newton_schulz(flat).reshape(p.shape), alpha=rate * scale)
        if step in args.steps:
            print(f"{name}: step {step}, loss {loss.item():.3f}", flush=True)


args.directory.mkdir(parents=True, exist_ok=True)
torch.manual_seed(1)
if args.images:
    train("mlp", mlp(), images(128), 0.05)
    train("cnn", cnn(), images(128), 0.05)
if args.text:
    train("gpt", Gpt(), text(16, 64), 0.05)
