"""How wide the values are that a Traversal computes with: what they take of a GPU's registers."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from hetune.variants.kernel.nodes import Def, EdgeSoftmax, Init, Launch, Traversal, Write
from hetune.variants.kernel.walk import statements


def power_of_two(count: int) -> int:
    """The least power of two that is not below."""
    return 1 << (count - 1).bit_length()


def padded_width(shape: tuple[int, ...]) -> int:
    """Elements of a row in registers: each axis is padded to a power of two."""
    return prod(power_of_two(extent) for extent in shape)


def widest(traversals: Iterable[Traversal], launch: Launch) -> int:
    """Elements of the widest row that the bodies compute with, padded."""
    found = 1
    for traversal in traversals:
        for stmt in statements(traversal.body):
            match stmt:
                case Def(shape=shape) | Init(shape=shape) | EdgeSoftmax(shape=shape):
                    found = max(found, padded_width(shape))
                case Write(buffer=buffer):
                    found = max(found, padded_width(launch.type_of(buffer).shape))
    return found


def apply_shape(fn: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The row shape that an elementwise function gives, of verified ones."""
    if fn == "outer":
        x, y = shapes
        return (*x, y[-1])
    return max(shapes, key=len)
