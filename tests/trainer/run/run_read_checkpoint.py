#!/usr/bin/env python3
"""Checks what scripts/read_checkpoint.py makes of the checkpoint that run_python_test.cpp wrote.

    run_read_checkpoint.py SCRIPTS_DIRECTORY CHECKPOINT
"""
import math
import pathlib
import subprocess
import sys

try:
    import torch
except ImportError:
    print("skipped: Python has no torch (Debian: python3-torch)")
    sys.exit(77)

scripts, checkpoint = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
sys.path.insert(0, str(scripts))
from read_checkpoint import load_safetensors  # noqa: E402

expected = {
    "weight": torch.tensor([[1.0, -2.0, 3.5], [4.0, 5.0, math.pi]], dtype=torch.float32),
    "double": torch.tensor([math.e], dtype=torch.float64),
    "half": torch.tensor([1.0, -0.5], dtype=torch.float16),
    "brain": torch.tensor([1.0, -2.0], dtype=torch.bfloat16),
    "long": torch.tensor([-7, 2**60], dtype=torch.int64),
    "int": torch.tensor([-1, 2**30], dtype=torch.int32),
    "bytes": torch.tensor([0, 255], dtype=torch.uint8),
    "tokens": torch.tensor([1, 50256], dtype=torch.int32),
    "flags": torch.tensor([True, False], dtype=torch.bool),
    "empty": torch.empty((0, 3), dtype=torch.float32),
    "scalar": torch.tensor(0.25, dtype=torch.float32),
}
tensors = load_safetensors(checkpoint / "model.safetensors")
assert tensors.keys() == expected.keys(), tensors.keys()
for name, value in expected.items():
    assert tensors[name].dtype == value.dtype, name
    assert tensors[name].shape == value.shape, name
    assert torch.equal(tensors[name], value), (name, tensors[name])

layer = torch.nn.Linear(3, 2, bias=False)
layer.load_state_dict({"weight": tensors["weight"]})
assert torch.equal(layer.weight, expected["weight"])

saved = checkpoint / "weights.pt"
script = [sys.executable, str(scripts / "read_checkpoint.py")]
text = subprocess.run([*script, str(checkpoint), "--save", str(saved)], check=True,
                      capture_output=True, text=True).stdout
assert "step 12" in text and "weight  float32  [2, 3]" in text, text
assert torch.equal(torch.load(saved)["weight"], expected["weight"])

broken = checkpoint / "broken.safetensors"
broken.write_bytes((checkpoint / "model.safetensors").read_bytes()[:-1])
failed = subprocess.run([*script, str(broken)], capture_output=True, text=True)
assert failed.returncode == 1 and "does not fit its place" in failed.stderr, failed
print("all tensors read back")
