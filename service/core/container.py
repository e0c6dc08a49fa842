"""Safetensors containers in memory, read without copying: tensors are views of the content.

Nothing in it is trusted: lengths, shapes and offsets are checked before a tensor is made.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from hetune.variants.errors import MalformedError

Content: TypeAlias = bytes | bytearray | memoryview
LENGTH_BYTES = 8
DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
"""By their names in containers."""
_METADATA = "__metadata__"
_MOST_HEADER = 1 << 24
_MOST_DIMENSIONS = 16


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def tensors_in(content: Content) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a container.

    Args:
        content: What is writable is shared with the tensors, and has to stay as it is; other
            content is copied.

    Returns:
        Texts by name, and tensors by name in the order of their names.

    Raises:
        MalformedError: It is no container.
    """
    start, header = _header(content)
    metadata = header.pop(_METADATA, None) or {}
    if not isinstance(metadata, dict) or any(type(text) is not str for text in metadata.values()):
        raise _malformed("its metadata are no texts")
    entries = [_entry(name, given) for name, given in header.items()]
    end = 0
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin != end:
            raise _malformed(f"{entry.name!r} does not begin where the one before it ends")
        end = entry.end
    if end != len(content) - start:
        raise _malformed(f"its tensors take {end} bytes, and {len(content) - start} are there")
    data = np.frombuffer(content, dtype=np.uint8)
    if not data.flags.writeable:
        data = data.copy()
    found = {entry.name: _tensor(entry, data, start) for entry in entries}
    return metadata, dict(sorted(found.items()))


def _header(content: Content) -> tuple[int, dict[str, Any]]:
    """Where the tensors begin, and the header."""
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    start = LENGTH_BYTES + length
    if not 0 < length <= _MOST_HEADER or start > len(content):
        raise _malformed(f"the length of its header, {length}, is none")
    try:
        header = json.loads(bytes(content[LENGTH_BYTES:start]))
    except (ValueError, RecursionError):
        raise _malformed("its header is no JSON") from None
    if not isinstance(header, dict):
        raise _malformed("its header is no object")
    return start, header


def _entry(name: str, given: object) -> _Entry:
    match given:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end], **more}:
            pass
        case _:
            raise _malformed(f"{name!r} has not dtype, shape and data_offsets")
    if more:
        raise _malformed(f"{name!r} has more than dtype, shape and data_offsets")
    if dtype not in DTYPES:
        raise _malformed(f"{name!r} is {dtype[:16]!r}: convert it to one of {', '.join(DTYPES)}")
    numbers = (*shape, begin, end)
    if any(type(n) is not int or not 0 <= n < 1 << 63 for n in numbers):
        raise _malformed(f"{name!r} has a shape or offsets that are no counts")
    size = math.prod(shape) * DTYPES[dtype].itemsize
    if len(shape) > _MOST_DIMENSIONS or begin + size != end:
        raise _malformed(f"{name!r} has a shape and offsets that do not fit")
    return _Entry(name, DTYPES[dtype], tuple(shape), begin, end)


def _tensor(entry: _Entry, data: np.ndarray, start: int) -> Tensor:
    count = math.prod(entry.shape)
    if count == 0:
        return _empty(entry)
    offset = start + entry.begin
    if offset % entry.dtype.itemsize:
        data, offset = data[offset : start + entry.end].copy(), 0
    flat = torch.frombuffer(data, dtype=entry.dtype, count=count, offset=offset)
    return flat.view(entry.shape)


def _empty(entry: _Entry) -> Tensor:
    try:
        return torch.empty(entry.shape, dtype=entry.dtype)
    except RuntimeError:  # strides that overflow
        raise _malformed(f"{entry.name!r} has a shape that nothing can have") from None


def _malformed(reason: str) -> MalformedError:
    return MalformedError(f"this is no safetensors container ({reason}): write it with safetensors")
