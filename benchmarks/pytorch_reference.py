"""The peer: Unconstrained ClippedScion (Algorithm 3 of the paper) in PyTorch, float32, as a user would write it.

The spectral LMO is Newton-Schulz with five quintic steps (three matrix products each); it runs on the CPU with
PyTorch's own threads and BLAS.
"""
import math

import torch

MUON = (3.4445, -4.7750, 2.0315)


def newton_schulz(d: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """An approximation of U Vᵀ for d = U S Vᵀ."""
    a, b, c = MUON
    x = d / (d.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def direction(norm: str, d: torch.Tensor) -> torch.Tensor:
    """-lmo(d) for d of shape (fan-out, fan-in[, k, k])."""
    if norm == "sign":
        return d.sign() / d[0].numel()
    if norm == "rms":
        return d * (math.sqrt(d.numel()) / d.norm())
    flat = d.reshape(d.shape[0], -1)
    kernel = flat.shape[1] // d.shape[1]
    scale = math.sqrt(d.shape[0] / d.shape[1])
    if norm == "spectral(input)":
        scale = max(1.0, scale)
    return (newton_schulz(flat) * (scale / kernel)).reshape(d.shape)


class ClippedScion:
    """d <- α g + (1-α) d;  v <- -r lmo(d);  η <- min(ρ, Σ <d, v>);  W <- W - γ η v."""

    def __init__(self, parameters, lr, alpha, rho):
        self.parameters = parameters  # (weight, gradient, norm, radius)
        self.momenta = [torch.zeros_like(w) for w, _, _, _ in parameters]
        self.lr, self.alpha, self.rho = lr, alpha, rho

    @torch.no_grad()
    def step(self):
        directions, s = [], 0.0
        for (_, gradient, norm, radius), d in zip(self.parameters, self.momenta):
            d.mul_(1 - self.alpha).add_(gradient, alpha=self.alpha)
            v = direction(norm, d).mul_(radius)
            s += torch.dot(d.view(-1), v.reshape(-1)).item()
            directions.append(v)
        for (weight, _, _, _), v in zip(self.parameters, directions):
            weight.add_(v, alpha=-self.lr * min(1.0, s / self.rho))
        return s
