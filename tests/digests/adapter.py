"""Lines of scripts/digests for the Python package: weights, momenta and reports of short runs of every method, norm and
solver, by the core, by torch operations, and by both at once."""
import hashlib
import itertools
import sys

import numpy
import torch

from normball.torch import NormBall, method_names, scale_into_balls_

SHAPES = [(6, 2, 3, 3), (6,), (24, 8), (8,), (12, 8), (9, 20), (5, 9)]
NORMS = ["euclidean", "rms", "sign", "sign(unit)", "row", "col", "spectral", "spectral(input)",
         "spectral(solver=damped)", "spectral(solver=svd)", "spectral(solver=power)", "spectral(solver=muon)", "spectral(solver=you)",
         "spectral(solver=polar_express)", "spectral(solver=cans)", "spectral(solver=cubic)"]
OPTIONS = dict(alpha=0.3, rho=2.0, beta=1.5, l0=2.0, l1=0.5)


def numbers(shape, seed, dtype):
    values = numpy.random.Generator(numpy.random.PCG64(seed)).random(shape) - 0.5
    return torch.from_numpy(values).to(dtype)


def parameters(way, dtype):
    other = torch.float64 if dtype == torch.float32 else torch.float32
    return [(0.1 * numbers(shape, i, other if way == "mixed" and i % 3 == 1 else dtype)).requires_grad_()
            for i, shape in enumerate(SHAPES)]


def options_of(method):
    """Those that the method takes; it refuses the others."""
    weight = torch.zeros(2, 2)
    taken = {}
    for size in range(len(OPTIONS) + 1):
        for keys in itertools.combinations(OPTIONS, size):
            try:
                NormBall([weight], method, 0.05, **{key: OPTIONS[key] for key in keys})
            except ValueError:
                continue
            taken = keys if len(keys) > len(taken) else taken
    return {key: OPTIONS[key] for key in taken}


def groups_of(weights, lr):
    weights[3].requires_grad_(False)
    return [{"params": weights[:4], "param_names": ["conv", "a.bias", "qkv", "b.bias"]},
            {"params": weights[4:], "param_names": ["wte", "body", "lm_head"], "lr": lr / 4}]


def run(name, way, dtype, method, grouped=False, **options):
    weights = parameters(way, dtype)
    lr = 1.0 if method in ("cg", "adaptive_sd") else 0.05
    if grouped:
        options.update(rules={"qkv": {"split": 3, "lr": lr / 2}}, radii={"hidden": 3, "output": 7})
    optimizer = NormBall(groups_of(weights, lr) if grouped else weights, method, lr, layer_reports=True, threads=1,
                         backend="torch" if way == "torch" else "auto", **options)
    scale_into_balls_(optimizer)
    digest = hashlib.sha256()
    for step in range(4):
        for i, weight in enumerate(weights):
            left_out = step == 2 and i == 5 or not weight.requires_grad
            weight.grad = None if left_out else numbers(SHAPES[i], 100 * (step + 1) + i, weight.dtype)
        optimizer.step()
        digest.update(repr(optimizer.report).encode())
    for weight in weights:
        digest.update(weight.detach().numpy().tobytes())
        momentum = optimizer.state.get(weight, {}).get("momentum")
        digest.update(b"" if momentum is None else momentum.numpy().tobytes())
    print(f"python-{name}-{way}-{str(dtype)[6:]} {digest.hexdigest()}")


def main():
    torch.set_num_threads(1)
    known = {method: options_of(method) for method in method_names()}
    for way, dtype in itertools.product(["core", "torch", "mixed"], [torch.float32, torch.float64]):
        for method, options in known.items():
            run(method, way, dtype, method, **options)
        for short_step in ("plain", "norm", "diameter"):
            run(f"clipped_scion-{short_step}", way, dtype, "clipped_scion", True, short_step=short_step,
                **known["clipped_scion"])
        for method in ("unconstrained_clipped_scion", "sd", "scion"):
            run(f"groups-{method}", way, dtype, method, True, **known[method])
        for norm, method in itertools.product(NORMS, ("unconstrained_clipped_scion", "clipped_scion")):
            if way == "torch" and ("power" in norm or "damped" in norm):
                continue  # the core's alone
            run(f"{method}-{norm}", way, dtype, method, norm=norm, **known[method])


sys.exit(main())
