"""The binary tensor data extension: a JSON object, then the bytes of tensors, in one body."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hetune.variants.errors import MalformedError

Buffer = bytes | bytearray | memoryview
_DIGITS = re.compile(r"[0-9]{1,18}")


def split(body: Buffer, header: str | None) -> tuple[memoryview, memoryview]:
    """A body's JSON, and the bytes that follow it.

    Args:
        body: Decompressed.
        header: The header that gives the length of the JSON; None for the whole body.

    Raises:
        MalformedError: The length is none, or more than there is.
    """
    whole = memoryview(body)
    if header is None:
        return whole, whole[len(whole) :]
    length = int(header) if _DIGITS.fullmatch(header) else 0
    if not 0 < length <= len(whole):
        raise MalformedError(
            f"Inference-Header-Content-Length is {header[:32]!r}: give the length of the JSON, at "
            f"most the {len(whole)} bytes of the body, decompressed"
        )
    return whole[:length], whole[length:]


def cut(data: memoryview, sizes: Sequence[int]) -> tuple[memoryview, ...]:
    """The bytes of each tensor.

    Args:
        data: What follows the JSON.
        sizes: Of the tensors in it, in its order.

    Raises:
        MalformedError: They are not those of the data.
    """
    if sum(sizes) != len(data):
        raise MalformedError(
            f"{len(data)} bytes follow the JSON, and the inputs' binary_data_size add up to "
            f"{sum(sizes)}: make them equal, and give the length of the JSON as "
            "Inference-Header-Content-Length"
        )
    parts, start = [], 0
    for size in sizes:
        parts.append(data[start : start + size])
        start += size
    return tuple(parts)
