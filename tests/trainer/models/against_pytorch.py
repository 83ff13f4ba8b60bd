#!/usr/bin/env python3
"""The trainer's models against the same written here in PyTorch, in double precision: loss, every
gradient, running statistics and the logits of evaluation.

    against_pytorch.py DUMP_MODELS DIR
"""
import json
import math
import pathlib
import subprocess
import sys

import numpy
import torch
import torch.nn.functional as F

# Absolute for losses, the others of the tensor's largest entry; the second for models in float64.
TOLERANCES = {"loss": (1e-5, 1e-12), "gradient": (1e-5, 1e-10), "statistics": (1e-5, 1e-10), "logits": (1e-4, 1e-10)}


def load(stem):
    description = json.loads(stem.with_suffix(".json").read_text())
    data = stem.with_suffix(".bin").read_bytes()
    tensors = {}
    for name, entry in description["tensors"].items():
        count = math.prod(entry["shape"])
        values = numpy.frombuffer(data, entry["type"], count, entry["offset"])
        tensor = torch.from_numpy(values.copy()).reshape(entry["shape"])
        tensors[name] = tensor.double() if entry["type"] == "float32" else tensor
    return description["config"], tensors


def with_prefix(tensors, prefix):
    return {k[len(prefix):]: v for k, v in tensors.items() if k.startswith(prefix)}


def epsilon(config):
    return torch.finfo(torch.float64 if config["float64"] else torch.float32).eps


def gpt(config, w, _, tokens, training):
    """Logits (B, T, vocabulary)."""
    rms = lambda x: x / torch.sqrt((x ** 2).mean(-1, keepdim=True) + epsilon(config))
    length, heads = tokens.shape[1], config["heads"]
    dim = w["embedding"].shape[1] // heads
    # Rotation as multiplication of complex numbers x_i + j x_{i + dim/2} by exp(-j p theta_i).
    theta = config["rotary_base"] ** (-2 * torch.arange(dim // 2).double() / dim)
    angle = torch.arange(length).double()[:, None] * theta
    turn = torch.polar(torch.ones_like(angle), -angle)

    def rotated(x):  # (B, heads, T, dim)
        z = torch.complex(x[..., :dim // 2], x[..., dim // 2:]) * turn
        return torch.cat([z.real, z.imag], -1)

    x = w["embedding"][tokens]
    for i in range(config["layers"]):
        p = {k: w[f"blocks.{i}.{k}"] for k in ("query", "key", "value", "project", "up", "down")}
        h = rms(x)
        q, k, v = ((h @ p[n].T).view(*h.shape[:2], heads, dim).transpose(1, 2)
                   for n in ("query", "key", "value"))
        scores = rotated(rms(q)) @ rotated(rms(k)).transpose(2, 3) / math.sqrt(dim)
        scores = scores + torch.full((length, length), -math.inf).triu(1)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(h.shape)
        x = x + mixed @ p["project"].T
        x = x + 2 * F.relu(rms(x) @ p["up"].T) ** 2 @ p["down"].T
    return rms(x) @ w["embedding"].T


def cnn(config, w, state, images, training):
    def normalized(x, name):
        return F.batch_norm(x, state[name + "mean"], state[name + "variance"], None,
                            w[name + "bias"], training, 1 - config["norm_momentum"],
                            config["norm_epsilon"])

    x = F.gelu(F.conv2d(images, state["whiten"], w["whiten.bias"]))
    for i in range(3):
        name = f"groups.{i}.conv1."
        x = F.max_pool2d(F.conv2d(x, w[name + "filters"], padding=1), 2)
        x = F.gelu(normalized(x, name))
        name = f"groups.{i}.conv2."
        x = F.gelu(normalized(F.conv2d(x, w[name + "filters"], padding=1), name))
    x = F.max_pool2d(x, x.shape[-1]).flatten(1)
    return x @ w["head"].T * config["output_scale"]


def cnn_views(config, w, state, images):
    run = lambda x: cnn(config, w, state, x, False)
    views = [(images, 1.0)]
    if config["views"] == 6:
        size, padded = images.shape[-1], F.pad(images, (1,) * 4, "reflect")
        views = [(images, 0.5), (padded[:, :, 2:, 2:], 0.25), (padded[:, :, :size, :size], 0.25)]
    return sum(share * (run(x) + run(x.flip(-1))) / 2 for x, share in views)


def mlp(config, w, _, images, training):
    x = images.flatten(1)
    for i in range(len(w) // 2):
        x = x @ w[f"layers.{i}.weight"].T + w[f"layers.{i}.bias"]
        if i + 1 < len(w) // 2:
            x = math.sqrt(2) * F.relu(x)
    return x


def vit(config, w, _, images, training):
    width, patch, heads = w["class_token"].shape[1], config["patch"], config["heads"]

    def norm(x, name):
        if config["layer_norm"]:
            return F.layer_norm(x, (width,), w[name + ".gain"], w[name + ".bias"], 1e-6)
        return x / torch.sqrt((x ** 2).mean(-1, keepdim=True) + epsilon(config))

    scale = math.sqrt(2) if config["scaled_gelu"] else 1
    x = F.conv2d(images, w["patch"], w["patch_bias"], stride=patch).flatten(2).transpose(1, 2)
    x = torch.cat([w["class_token"].expand(len(x), 1, width), x], 1) + w["positions"]
    for i in range(config["layers"]):
        p = f"blocks.{i}."
        h = norm(x, p + "attention_norm")
        qkv = F.linear(h, w[p + "qkv"], w[p + "qkv_bias"])
        q, k, v = (part.view(*h.shape[:2], heads, -1).transpose(1, 2) for part in qkv.chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v) if hasattr(F, "scaled_dot_product_attention") else (
            (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).softmax(-1) @ v)
        x = x + F.linear(mixed.transpose(1, 2).reshape(h.shape), w[p + "project"], w[p + "project_bias"])
        h = F.linear(norm(x, p + "mlp_norm"), w[p + "up"], w[p + "up_bias"])
        h = scale * h * (1 + torch.erf(h / math.sqrt(2))) / 2
        x = x + F.linear(h, w[p + "down"], w[p + "down_bias"])
    return F.linear(norm(x[:, 0], "norm"), w["head"], w["head_bias"])


class Case:
    def __init__(self, name):
        self.name, self.worst, self.failed = name, {}, False

    def close(self, what, got, expected, tolerance, relative=True):
        assert got.shape == expected.shape, (what, got.shape, expected.shape)
        scale = expected.abs().max() if relative else 1
        error = float((got - expected).abs().max() / scale) if got.numel() else 0
        kind = what.split(":")[0]
        self.worst[kind] = max(self.worst.get(kind, 0), error)
        if not error <= tolerance:
            print(f"{self.name}: {what} differs by {error:.2e}, allowed are {tolerance:.0e}")
            self.failed = True


def check(stem):
    config, tensors = load(stem)
    case = Case(stem.name)
    allowed = {what: both[config["float64"]] for what, both in TOLERANCES.items()}
    if config["model"] == "cnn":  # batch statistics lose a digit: 9.5e-6 was seen in float32
        allowed["gradient"] *= 10
    weights = {k: v.requires_grad_() for k, v in with_prefix(tensors, "weight:").items()}
    state = with_prefix(tensors, "buffer:")
    network = {"gpt": gpt, "cnn": cnn, "mlp": mlp, "vit": vit}[config["model"]]

    def loss_of(logits):
        return F.cross_entropy(logits.flatten(0, -2), tensors["targets"].flatten(),
                               label_smoothing=config.get("label_smoothing", 0))

    loss = loss_of(network(config, weights, state, tensors["inputs"], True))
    loss.backward()
    case.close("loss", tensors["loss"], loss.detach(), allowed["loss"], relative=False)
    gradients = with_prefix(tensors, "gradient:")
    assert gradients.keys() == weights.keys()
    for name, weight in weights.items():
        # A zero gradient (below a matrix that starts at zero) has to be exactly zero.
        if not weight.grad.any():
            assert not gradients[name].any(), name
            continue
        case.close("gradient:" + name, gradients[name], weight.grad, allowed["gradient"])
    if config["model"] == "vit":
        state = {}  # counts what was drawn
    for name, expected in state.items():
        case.close("statistics:" + name, tensors["after:" + name], expected, allowed["statistics"])
    with torch.no_grad():
        if config["model"] == "cnn":
            logits = cnn_views(config, weights, state, tensors["inputs"])
        else:
            logits = network(config, weights, state, tensors["inputs"], False)
    case.close("logits", tensors["logits"], logits, allowed["logits"])
    case.close("evaluation", tensors["evaluation"], loss_of(logits), allowed["loss"], relative=False)
    print(f"{stem.name}: loss {float(loss):.4f}, {len(gradients)} gradients; largest differences: "
          + ", ".join(f"{kind} {error:.1e}" for kind, error in case.worst.items()))
    return not case.failed


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    for old in folder.glob("*.json"):
        old.unlink()
    subprocess.run([program, folder], check=True)
    cases = sorted(folder.glob("*.json"))
    assert len(cases) == 14, cases
    return 0 if all([check(path.with_suffix("")) for path in cases]) else 1


sys.exit(main())
