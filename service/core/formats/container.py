"""Safetensors containers: in memory, read without copying, or in files.

Nothing in it is trusted: lengths, shapes and offsets are checked before a tensor is made.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from io import BufferedReader
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from hetune.service.core.formats.limits import check_limit
from hetune.variants.errors import MalformedError

Content: TypeAlias = bytes | bytearray | memoryview
LENGTH_BYTES = 8
MOST_HEADER = 1 << 24
"""Bytes of a header that somebody sends; a longer one is refused."""
MOST_TENSORS = 1 << 13
"""In a container that somebody sends, for who does not know better."""
MOST_OTHERS = 256
"""Braces beside those of tensors, in the document and in names."""
MOST_METADATA = 256
"""Texts beside tensors; there is a use for two."""
MOST_LISTS, MOST_ENTRIES = 1 << 18, 700_000
"""Brackets and commas in the document; the names of 100,000 types have fewer."""
_NUMBERS_EACH, _TEXTS_EACH = 20, 5
MOST_OWN_HEADER = 100_000_000
"""Of our files. As the safetensors library has it: names of 100,000 types take some room."""
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
_NUMPY = {
    dtype: np.dtype(np.int16)
    if dtype is torch.bfloat16
    else torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
    for dtype in DTYPES.values()
}
_METADATA = "__metadata__"
_MOST_DIMENSIONS = 16


class _Entry(NamedTuple):
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


class _Layout(NamedTuple):
    """Texts by name; tensors in the order of their names; bytes that all of these take."""

    metadata: Mapping[str, str]
    entries: tuple[_Entry, ...]
    end: int


def tensors_in(
    content: Content, most: int = MOST_TENSORS
) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a container.

    Args:
        content: What is writable is shared with the tensors, and has to stay as it is; other
            content is copied.
        most: How many tensors there is a use for. More are refused before any is looked at.

    Returns:
        Texts by name, and tensors by name in the order of their names.

    Raises:
        MalformedError: It is no container.
        TooLargeError: It has more tensors.
    """
    start = _start(content[:LENGTH_BYTES], MOST_HEADER, len(content))
    layout = _layout_of(_checked(bytes(content[LENGTH_BYTES:start]), most), len(content) - start)
    data = np.frombuffer(content, dtype=np.uint8)
    if not data.flags.writeable:
        data = data.copy()
    tensors = {entry.name: _tensor(entry, data, start) for entry in layout.entries}
    return dict(layout.metadata), tensors


def metadata_from(file: BufferedReader) -> dict[str, str]:
    """The metadata of a container in a file of ours, whose tensors are not read.

    Raises:
        MalformedError: It is no container.
        OSError: It cannot be read.
    """
    layout, _ = _head(file, is_own=True)
    return dict(layout.metadata)


def tensors_from(
    file: BufferedReader, *, is_own: bool, most: int = MOST_TENSORS
) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a container in a file: the latter have memory of their own.

    Args:
        file: Open at its beginning. It is not asked for by name, which may lead to another one.
        is_own: Whether we wrote it, and somebody else did not send it: its header may be longer.
        most: As `tensors_in` takes it; nothing bounds what is ours.

    Returns:
        As `tensors_in`.

    Raises:
        MalformedError: It is no container.
        TooLargeError: It has more tensors.
        OSError: It cannot be read.
        RuntimeError: There is no memory for a tensor.
    """
    layout, start = _head(file, is_own=is_own, most=most)
    tensors = {}
    for entry in layout.entries:
        tensors[entry.name] = tensor = _new(entry)
        file.seek(start + entry.begin)
        if tensor.numel() and file.readinto(bytes_of(tensor)) != tensor.nbytes:
            raise _malformed(f"{entry.name!r} is not there as a whole")
    return dict(layout.metadata), tensors


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the host."""
    # NumPy's steps take less than torch's, but it has no bfloat16.
    numbers = tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor
    return numbers.numpy().reshape(-1).view(np.uint8).data


def _head(file: BufferedReader, *, is_own: bool, most: int = MOST_TENSORS) -> tuple[_Layout, int]:
    """What is in a file, and where tensors begin."""
    size = os.fstat(file.fileno()).st_size
    longest = MOST_OWN_HEADER if is_own else MOST_HEADER
    start = _start(file.read(LENGTH_BYTES), longest, size)
    text = file.read(start - LENGTH_BYTES)
    return _layout_of(text if is_own else _checked(text, most), size - start), start


def _start(length: Content, most: int, size: int) -> int:
    """Where tensors begin, in a container of that size."""
    found = int.from_bytes(length, "little")
    most = min(most, size - LENGTH_BYTES)
    if not 0 < found <= most:
        raise _malformed(f"the length of its header, {found}, is not from 1 to {most}")
    return LENGTH_BYTES + found


def _checked(text: bytes, most: int) -> bytes:
    """A header that somebody sends, if there can be a use for what it says.

    Everything in it becomes an object: so brackets and commas are counted first.
    """
    check_limit("tensors of a container", text.count(b"{") - MOST_OTHERS, most)
    check_limit("lists of a header", text.count(b"["), 2 * most + MOST_LISTS)
    check_limit("entries of a header", text.count(b","), _NUMBERS_EACH * most + MOST_ENTRIES)
    quotes = text.count(b'"') - text.count(b'\\"')  # those within the document are escaped
    check_limit("texts of a header", quotes // 2, _TEXTS_EACH * most + 4 * MOST_METADATA)
    return text


def _layout_of(text: bytes, left: int) -> _Layout:
    """What a header says of so many bytes that follow it."""
    layout = _layout(text)
    if layout.end != left:
        raise _malformed(f"its tensors take {layout.end} bytes, and {left} are there")
    return layout


def _layout(text: bytes) -> _Layout:
    """What a header says."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise _malformed("its header is no JSON") from None
    if not isinstance(header, dict):
        raise _malformed("its header is no object")
    metadata = header.pop(_METADATA, None) or {}
    if not isinstance(metadata, dict) or any(type(text) is not str for text in metadata.values()):
        raise _malformed("its metadata are no texts")
    check_limit("texts of a container's metadata", len(metadata), MOST_METADATA)
    entries = [_entry(name, given) for name, given in header.items()]
    end = 0
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin != end:
            raise _malformed(f"{entry.name!r} does not begin where the one before it ends")
        end = entry.end
    return _Layout(metadata, tuple(sorted(entries, key=lambda e: e.name)), end)


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
    for number in (*shape, begin, end):
        if type(number) is not int or not 0 <= number < 1 << 63:
            raise _malformed(f"{name!r} has a shape or offsets that are no counts")
    size = math.prod(shape) * DTYPES[dtype].itemsize
    if len(shape) > _MOST_DIMENSIONS or begin + size != end:
        raise _malformed(f"{name!r} has a shape and offsets that do not fit")
    return _Entry(name, DTYPES[dtype], tuple(shape), begin, end)


def _tensor(entry: _Entry, data: np.ndarray, start: int) -> Tensor:
    if entry.begin == entry.end:
        return _new(entry)
    numbers = data[start + entry.begin : start + entry.end]
    if (start + entry.begin) % entry.dtype.itemsize:
        numbers = numbers.copy()
    # NumPy's steps take less than torch's, but it has no bfloat16.
    found = torch.from_numpy(numbers.view(_NUMPY[entry.dtype]).reshape(entry.shape))
    return found.view(torch.bfloat16) if entry.dtype is torch.bfloat16 else found


def _new(entry: _Entry) -> Tensor:
    """Memory for a tensor, which is not filled in."""
    try:
        return torch.empty(entry.shape, dtype=entry.dtype, device="cpu")
    except RuntimeError:
        if entry.begin != entry.end:  # there is no memory
            raise
        # Strides that overflow.
        raise _malformed(f"{entry.name!r} has a shape that nothing can have") from None


def _malformed(reason: str) -> MalformedError:
    return MalformedError(f"this is no safetensors container ({reason}): write it with safetensors")
