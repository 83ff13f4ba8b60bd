#!/usr/bin/env python3
"""Reads a checkpoint of `normball train` into PyTorch, without the safetensors package.

    read_checkpoint.py CHECKPOINT                    list the tensors
    read_checkpoint.py CHECKPOINT --save weights.pt  the weights as a state_dict for torch.load

CHECKPOINT is a directory checkpoints/step-<n> or one .safetensors file. From Python:

    from read_checkpoint import load_safetensors
    model.load_state_dict(load_safetensors("runs/demo/checkpoints/step-500/model.safetensors"))
"""
import argparse
import json
import pathlib
import struct
import sys

import torch

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool,
    "U16": torch.int16,  # the bits; widened to int32 below, since old versions have no uint16
}


def load_safetensors(path):
    """Name -> tensor, in the file's order. A malformed file is a ValueError."""
    data = bytearray(pathlib.Path(path).read_bytes())
    if len(data) < 8:
        raise ValueError(f"{path}: {len(data)} bytes are too few for a safetensors file")
    (length,) = struct.unpack_from("<Q", data)
    if length > len(data) - 8:
        raise ValueError(f"{path}: the header has {length} bytes but the file has only {len(data)}")
    try:
        header = json.loads(data[8:8 + length])
    except ValueError as error:
        raise ValueError(f"{path}: the header is not JSON ({error})") from None
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] not in DTYPES:
            raise ValueError(f"{path}: '{name}' has the unknown dtype {entry['dtype']}")
        dtype, shape, (begin, end) = DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        count = 1
        for n in shape:
            count *= n
        size = torch.empty(0, dtype=dtype).element_size()
        if not 0 <= begin <= end <= len(data) - 8 - length or end - begin != count * size:
            raise ValueError(f"{path}: '{name}' does not fit its place in the file")
        if count == 0:
            tensor = torch.empty(shape, dtype=dtype)
        else:
            tensor = torch.frombuffer(data, dtype=dtype, count=count, offset=8 + length + begin)
            tensor = tensor.reshape(shape)
        if entry["dtype"] == "U16":
            tensor = tensor.to(torch.int32) & 0xffff
        tensors[name] = tensor
    return tensors


def main():
    parser = argparse.ArgumentParser(description="Read a checkpoint of normball into PyTorch.")
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--save", type=pathlib.Path, help="write the weights as a state_dict")
    options = parser.parse_args()
    path = options.checkpoint
    if path.is_dir():
        state = json.loads((path / "state.json").read_text())
        print(f"step {state['step']}")
        path = path / "model.safetensors"
    tensors = load_safetensors(path)
    for name, tensor in tensors.items():
        print(f"{name}  {str(tensor.dtype).removeprefix('torch.')}  {list(tensor.shape)}")
    if options.save:
        torch.save(tensors, options.save)
        print(f"written to {options.save}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(f"read_checkpoint: {error}")
