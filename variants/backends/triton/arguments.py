"""What a Triton kernel is called with: slots, and their names in its text."""

from __future__ import annotations

import keyword
from dataclasses import dataclass

from hetune.variants.backends.slots import BufferSlot, IndexSlot, NodeTypeSlot, identifier
from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Launch, Rows
from hetune.variants.program.nodes import End


@dataclass(frozen=True, slots=True)
class Tiling:
    """Which `Tiles` a Gemm runs over.

    Attributes:
        rows: Whose rows are cut into tiles of one type each.
        typed: Whether the type matters; if not, all rows are of one.
        size: Most rows of a tile.
        only: Just the nodes with an edge at that end.
        by_length: Whether the rows of a type, which are dst_pairs, are in the order of how many
            edges they have, most first.
    """

    rows: Rows
    typed: bool
    size: int
    only: End = End.NONE
    by_length: bool = False


@dataclass(frozen=True, slots=True)
class TilesSlot:
    """A field of `Tiles`: rows, first, last or type; int32."""

    tiling: Tiling
    field: str


@dataclass(frozen=True, slots=True)
class IdleNodesSlot:
    """The nodes without an edge at one end, ascending, int32."""

    end: End


Slot = BufferSlot | IndexSlot | NodeTypeSlot | TilesSlot | IdleNodesSlot


@dataclass(frozen=True, slots=True)
class CountSlot:
    """Rows of a domain, or the nodes of a slot."""

    of: Rows | IdleNodesSlot


@dataclass(frozen=True, slots=True)
class Grid:
    """How many programs a kernel has.

    Attributes:
        rows: What the first axis goes over: tiles, or a count of rows.
        size: Rows for each program, where rows are counted.
        columns: Programs along the second axis.
        heads: Programs along the third.
    """

    rows: Tiling | CountSlot
    size: int = 1
    columns: int = 1
    heads: int = 1


_TAKEN = frozenset((*keyword.kwlist, "tl", "triton", "range", "gelu", "tanh", "maximum"))


class Arguments:
    """Collects the slots that a kernel asks for: pointers end in ``_ptr``, counts in ``_rows``."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._pointers: dict[Slot, str] = {}
        self._counts: dict[CountSlot, str] = {}
        self._locals: set[str] = set(_TAKEN)

    @property
    def pointers(self) -> tuple[tuple[Slot, str], ...]:
        """Slots of pointers with their names."""
        return tuple(self._pointers.items())

    @property
    def counts(self) -> tuple[tuple[CountSlot, str], ...]:
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

    def tiles(self, tiling: Tiling, field: str) -> str:
        """Pointer to a field of the tiles."""
        return self._pointer(TilesSlot(tiling, field), f"tile_{field}")

    def idle_nodes(self, end: End) -> str:
        """Pointer to the nodes without an edge at one end."""
        return self._pointer(IdleNodesSlot(end), f"without_{end}")

    def count(self, of: Rows | IdleNodesSlot) -> str:
        """A count."""
        slot = CountSlot(of)
        if slot not in self._counts:
            text = (
                f"{of.group or 'all'}_{of.space}" if isinstance(of, Rows) else f"without_{of.end}"
            )
            self._counts[slot] = self.local(f"{text}_rows", parameter=True)
        return self._counts[slot]

    def local(self, name: str, *, parameter: bool = False) -> str:
        """A name like this one, which nothing else in the kernel has."""
        name = identifier(name)
        if (not parameter and name.endswith(("_ptr", "_rows"))) or name[:1].isdigit():
            name = f"v_{name}_"
        unique, i = name, 2
        while unique in self._locals:
            unique, i = f"{name}_{i}", i + 1
        self._locals.add(unique)
        return unique

    def _pointer(self, slot: Slot, name: str) -> str:
        if slot not in self._pointers:
            name = identifier(name)
            name = f"b{name}" if name[:1].isdigit() else name
            self._pointers[slot] = self.local(f"{name}_ptr", parameter=True)
        return self._pointers[slot]
