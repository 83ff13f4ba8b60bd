"""Algorithms 1 to 4 and their relatives, written from their formulas in PyTorch: SVD polar factors, nothing of normball.

A layer is (tensor, norm, radius); the norms are the six of the paper, on weights (out, in) or (out, in, k, k).
"""
import math

import torch


def polar(d):
    u, sigma, vh = torch.linalg.svd(d, full_matrices=False)
    kept = sigma > 1e-13 * sigma.max().clamp(min=1e-300)
    return (u * kept) @ vh


def lmo(norm, d):
    """The minimizer of <d, x> over the unit ball."""
    if not bool((d != 0).any()):
        return torch.zeros_like(d)
    out = d.shape[0]
    fan_in = d[0].numel() if d.dim() > 0 else 1
    kernel = d[0, 0].numel() if d.dim() > 2 else 1
    flat = d.reshape(out, -1)
    if norm == "euclidean":
        return -d / d.norm()
    if norm == "rms":
        return -d / (d.norm() / math.sqrt(d.numel()))
    if norm == "sign":
        return -d.sign() / (fan_in if d.dim() > 1 else 1)
    if norm == "sign(unit)":
        return -d.sign()
    if norm == "row":
        lengths = flat.norm(dim=1, keepdim=True)
        return (-torch.where(lengths > 0, flat / lengths, 0 * flat) / math.sqrt(fan_in)).reshape(d.shape)
    if norm == "col":
        lengths = flat.norm(dim=0, keepdim=True)
        return (-torch.where(lengths > 0, flat / lengths, 0 * flat) * math.sqrt(out)).reshape(d.shape)
    if norm == "spectral(unit)":
        return -polar(flat).reshape(d.shape)
    assert norm == "spectral", norm
    return (-math.sqrt(out / (fan_in / kernel)) / kernel * polar(flat)).reshape(d.shape)


def size(norm, x):
    """||x||"""
    out = x.shape[0]
    fan_in = x[0].numel() if x.dim() > 0 else 1
    kernel = x[0, 0].numel() if x.dim() > 2 else 1
    flat = x.reshape(out, -1)
    if norm == "euclidean":
        return x.norm().item()
    if norm == "rms":
        return x.norm().item() / math.sqrt(x.numel())
    if norm == "sign":
        return x.abs().max().item() * (fan_in if x.dim() > 1 else 1)
    if norm == "row":
        return flat.norm(dim=1).max().item() * math.sqrt(fan_in)
    if norm == "col":
        return flat.norm(dim=0).max().item() / math.sqrt(out)
    assert norm == "spectral", norm
    return torch.linalg.svdvals(flat)[0].item() * kernel / math.sqrt(out / (fan_in / kernel))


class Reference:
    """x <- x - (lr / rho) eta v for the named method, on float64 copies that it owns."""

    def __init__(self, method, parameters, norms, radii, lr=None, alpha=1.0, rho=None, beta=None, l0=None, l1=None,
                 short_step="plain"):
        self.method, self.lr, self.alpha, self.rho = method, 1.0 if lr is None else lr, alpha, rho
        self.beta, self.l0, self.l1, self.short_step = beta, l0, l1, short_step
        self.parameters = [p.detach().double().clone() for p in parameters]
        self.momentum = [torch.zeros_like(p) for p in self.parameters]
        self.norms, self.radii = list(norms), list(radii)
        self.constrained = method in ("cg", "s3cg", "scion", "clipped_scion")
        override = {"clipped_sign": "sign(unit)", "clipped_spectral": "spectral(unit)", "lars": "euclidean",
                    "clipped_lars": "euclidean"}.get(method)
        if override:
            self.norms, self.radii = [override] * len(self.norms), [1.0] * len(self.norms)
        if method == "s3cg":
            self.radii = [beta] * len(self.radii)
        self.k = 0
        # What the error of s in float32 may add up to, relative to each parameter: see step().
        self.float_slack = [0.0] * len(self.parameters)

    def eta(self, s, v):
        """(eta, rho), so that the step is lr / rho * eta."""
        if self.method in ("ucg", "lars", "scion", "unconstrained_scion", "normalized_gd"):
            return 1.0, 1.0
        if self.method in ("sd", "gd"):
            return s, 1.0
        if self.method == "cg":
            return 2 / (self.k + 2), 1.0
        if self.method == "adaptive_sd":
            return s / (self.l0 + self.l1 * s), 1.0
        form, beta = self.short_step, 1.0
        if self.method == "s3cg":
            form, beta = "diameter" if form == "diameter" else "norm", self.beta
        if form == "plain":
            return max(0.0, min(self.rho, s)), self.rho
        length = 2.0
        if form == "norm":
            length = max(size(n, x) / r for n, x, r in zip(self.norms, v, self.radii))
        return max(0.0, min(self.rho, s / (beta * length) ** 2)), self.rho

    def step(self, gradients):
        for d, g in zip(self.momentum, gradients):
            d.mul_(1 - self.alpha).add_(g.double(), alpha=self.alpha)
        if self.method in ("gd", "normalized_gd", "clipped_gd"):  # the Euclidean norm of the whole model
            total = math.sqrt(sum(d.norm().item() ** 2 for d in self.momentum))
            v = [d / total if total else 0 * d for d in self.momentum]
        else:
            v = [-r * lmo(n, d) for n, r, d in zip(self.norms, self.radii, self.momentum)]
            if self.constrained:
                v = [p + u for p, u in zip(self.parameters, v)]
        s = sum((d * u).sum().item() for d, u in zip(self.momentum, v))
        eta, rho = self.eta(s, v)
        if self.constrained:
            # s = <d, W> - r <d, lmo(d)> cancels as W nears its ball's best point, and loses one rounding of its terms;
            # the short steps follow s, times lr / rho.
            terms = sum(abs((d * p).sum().item()) + abs((d * (u - p)).sum().item())
                        for d, u, p in zip(self.momentum, v, self.parameters))
            change = abs(self.eta(s + torch.finfo(torch.float32).eps * terms, v)[0] - eta)
            for l, (p, u) in enumerate(zip(self.parameters, v)):
                self.float_slack[l] += self.lr / rho * change * (u.norm() / p.norm().clamp(min=1e-300)).item()
        for p, u in zip(self.parameters, v):
            p.sub_(self.lr / rho * eta * u)
        self.k += 1
        return s


# Every method with options under which it clips in some steps and not in others, and makes progress.
METHODS = {
    "gd": dict(lr=0.05),
    "normalized_gd": dict(lr=0.02),
    "clipped_gd": dict(lr=0.05, rho=1.4),
    "sd": dict(lr=0.002),
    "adaptive_sd": dict(l0=30.0, l1=20.0),
    "ucg": dict(lr=0.01),
    "ggnc": dict(lr=0.01, rho=2.0, alpha=0.3),
    "cg": dict(lr=0.05),
    "s3cg": dict(lr=0.05, rho=0.001, beta=1.5, alpha=0.5),
    "clipped_sign": dict(lr=0.002, rho=5.0, alpha=0.3),
    "clipped_spectral": dict(lr=0.01, rho=3.0, alpha=0.3),
    "lars": dict(lr=0.01, alpha=0.3),
    "clipped_lars": dict(lr=0.01, rho=1.5, alpha=0.3),
    "scion": dict(lr=0.01, alpha=0.2),
    "unconstrained_scion": dict(lr=0.01, alpha=0.2),
    "clipped_scion": dict(lr=0.02, alpha=0.2, rho=4.0),
    "unconstrained_clipped_scion": dict(lr=0.01, alpha=0.2, rho=2.0),
}
VARIANTS = list(METHODS.items()) + [
    ("clipped_scion", dict(lr=0.02, alpha=0.2, rho=0.3, short_step="norm")),
    ("clipped_scion", dict(lr=0.02, alpha=0.2, rho=0.3, short_step="diameter")),
    ("s3cg", dict(lr=0.05, rho=0.5, beta=1.5, alpha=0.5, short_step="diameter")),
]
VARIANT_IDS = [name + ("-" + options["short_step"] if "short_step" in options else "") for name, options in VARIANTS]
