"""Writes safetensors files of any size without the library: data may be a hole in the file."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

WIDTHS = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "U8": 1}


def write_safetensors(
    path: Path, tensors: Mapping[str, tuple[str, Sequence[int]]], data: bytes | None = None, *, cut_bytes: int = 0
) -> Path:
    """`tensors`: name -> (dtype, shape), in file order. Without `data` all values are zero. `cut_bytes` are missing at the end."""
    header, offset = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = WIDTHS[dtype]
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    head = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        if data is not None:
            file.write(data)
        file.truncate(8 + len(head) + offset - cut_bytes)
    return path


def decoder_tensors(layers: int = 2, width: int = 8, dtype: str = "BF16") -> dict[str, tuple[str, Sequence[int]]]:
    """Names and shapes like those of a Qwen2 model."""
    tensors: dict[str, tuple[str, Sequence[int]]] = {"model.embed_tokens.weight": (dtype, (16, width))}
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            tensors[f"{prefix}.self_attn.{name}.weight"] = (dtype, (width, width))
        for name in ("gate_proj", "up_proj"):
            tensors[f"{prefix}.mlp.{name}.weight"] = (dtype, (2 * width, width))
        tensors[f"{prefix}.mlp.down_proj.weight"] = (dtype, (width, 2 * width))
        tensors[f"{prefix}.input_layernorm.weight"] = (dtype, (width,))
    return tensors
