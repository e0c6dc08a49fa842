"""C++ for CPUs: kernels and schedules become vectorised, threaded translation units."""

from hetune.variants.backends.cpp.abi import (
    BlockOrderSlot,
    CountSlot,
    GroupsSlot,
    NodeBlocksSlot,
    Slot,
)
from hetune.variants.backends.cpp.emit import Emitted, emit
from hetune.variants.backends.slots import BufferSlot, IndexSlot, NodeTypeSlot

__all__ = [
    "BlockOrderSlot",
    "BufferSlot",
    "CountSlot",
    "Emitted",
    "GroupsSlot",
    "IndexSlot",
    "NodeBlocksSlot",
    "NodeTypeSlot",
    "Slot",
    "emit",
]
