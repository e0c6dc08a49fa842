"""The pointers and counts that generated code asks for, whatever the backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from hetune.variants.backends.slots import BufferSlot, IndexSlot, NodeTypeSlot
from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Launch

_Own = TypeVar("_Own")
"""Slots of pointers that a backend adds to those of all backends."""
_Count = TypeVar("_Count")
"""Slots of counts."""


class SlotTable(ABC, Generic[_Own, _Count]):
    """Collects slots in the order in which generated code first asks for them, and names them."""

    _prefix: ClassVar[str] = ""
    """What stands before a name where it is used."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._pointers: dict[BufferSlot | IndexSlot | NodeTypeSlot | _Own, str] = {}
        self._counts: dict[_Count, str] = {}

    @property
    def pointers(self) -> tuple[tuple[BufferSlot | IndexSlot | NodeTypeSlot | _Own, str], ...]:
        """Slots of pointers with their names."""
        return tuple(self._pointers.items())

    @property
    def counts(self) -> tuple[tuple[_Count, str], ...]:
        """Slots of counts with their names."""
        return tuple(self._counts.items())

    def buffer(self, name: str) -> str:
        """Pointer to a buffer of the launch.

        Raises:
            KernelError: the launch does not list it.
        """
        if all(buffer.name != name for buffer in self._launch.buffers):
            raise KernelError(f"a kernel names the buffer {name!r}: add it to the launch's buffers")
        return self._pointer(BufferSlot(name), name)

    def index(self, group: str, name: str) -> str:
        """Pointer to an array of a group's index."""
        return self._pointer(IndexSlot(group, name), f"{group or 'all'}_{name}")

    def node_types(self) -> str:
        """Pointer to the nodes' types."""
        return self._pointer(NodeTypeSlot(), "node_types")

    def _pointer(self, slot: BufferSlot | IndexSlot | NodeTypeSlot | _Own, name: str) -> str:
        if slot not in self._pointers:
            self._pointers[slot] = self._pointer_name(name)
        return f"{self._prefix}{self._pointers[slot]}"

    def _count(self, slot: _Count, name: str) -> str:
        if slot not in self._counts:
            self._counts[slot] = self._count_name(name)
        return f"{self._prefix}{self._counts[slot]}"

    @abstractmethod
    def _pointer_name(self, name: str) -> str:
        """A name like this one, for a pointer, which nothing else has."""

    @abstractmethod
    def _count_name(self, name: str) -> str:
        """A name like this one, for a count, which nothing else has."""
