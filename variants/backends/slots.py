"""What compiled launches are called with, whatever the backend."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BufferSlot:
    """A buffer's float32 data."""

    name: str


@dataclass(frozen=True, slots=True)
class IndexSlot:
    """An int32 array, an attribute of the `GraphIndex` of a group of edge types."""

    group: str
    name: str


@dataclass(frozen=True, slots=True)
class NodeTypeSlot:
    """Node type of each node, int32 [N]."""


def identifier(text: str) -> str:
    """The text as part of a name in generated code."""
    return re.sub(r"\W", "_", text)
