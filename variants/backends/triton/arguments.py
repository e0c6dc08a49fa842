"""What a Triton kernel is called with: slots, and their names in its text."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from dataclasses import dataclass

from hetune.variants.backends.arguments import SlotTable
from hetune.variants.backends.slots import BufferSlot, IndexSlot, NodeTypeSlot, identifier
from hetune.variants.backends.triton.values import HELPERS, SCANS
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
        most_edges: A row with more edges comes in parts, each with at most so many; 0 for whole
            rows.
    """

    rows: Rows
    typed: bool
    size: int
    only: End = End.NONE
    by_length: bool = False
    most_edges: int = 0


@dataclass(frozen=True, slots=True)
class TilesSlot:
    """A field of `Tiles`: rows, begin, end, first, last or type; int32."""

    tiling: Tiling
    field: str


@dataclass(frozen=True, slots=True)
class IdleNodesSlot:
    """The nodes without an edge at one end, ascending, int32."""

    end: End


@dataclass(frozen=True, slots=True)
class CarrySlot:
    """Memory of a run: float32, for each chunk of so many rows so many numbers.

    Kernels that name it alike share it.
    """

    name: str
    rows: Rows
    chunk: int
    width: int


_OwnSlot = TilesSlot | IdleNodesSlot | CarrySlot
Slot = BufferSlot | IndexSlot | NodeTypeSlot | _OwnSlot


@dataclass(frozen=True, slots=True)
class Hubs:
    """The nodes with at least so many incoming edges, which are the first by degree."""

    edges: int


Count = Rows | IdleNodesSlot | Hubs
"""What is counted: rows of a domain, the nodes of a slot, or hubs."""


@dataclass(frozen=True, slots=True)
class Grid:
    """How many programs a kernel has.

    Attributes:
        rows: What the first axis goes over: tiles, or a count of rows.
        size: Rows for each program, where rows are counted.
        columns: Programs along the second axis.
        heads: Programs along the third.
    """

    rows: Tiling | Count
    size: int = 1
    columns: int = 1
    heads: int = 1


_TAKEN = frozenset((*keyword.kwlist, "tl", "triton", "range", "float", "maximum", *HELPERS, *SCANS))


class Arguments(SlotTable[_OwnSlot, Count]):
    """The slots of a Triton kernel: pointers end in ``_ptr``, counts in ``_rows``."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self._locals: set[str] = set(_TAKEN)

    def typed_pointers(self) -> tuple[tuple[str, str], ...]:
        """Type and name of each pointer."""
        return tuple(
            ("*fp32" if isinstance(slot, BufferSlot | CarrySlot) else "*i32", name)
            for slot, name in self.pointers
        )

    def tiles(self, tiling: Tiling, field: str) -> str:
        """Pointer to a field of the tiles."""
        return self._pointer(TilesSlot(tiling, field), f"tile_{field}")

    def idle_nodes(self, end: End) -> str:
        """Pointer to the nodes without an edge at one end."""
        return self._pointer(IdleNodesSlot(end), f"without_{end}")

    def carry(self, slot: CarrySlot) -> str:
        """Pointer to memory of the run."""
        return self._pointer(slot, "parts")

    def count(self, of: Count) -> str:
        """A count."""
        match of:
            case Rows():
                name = f"{of.group or 'all'}_{of.space}"
            case IdleNodesSlot():
                name = f"without_{of.end}"
            case Hubs():
                name = "hub"
        return self._count(of, name)

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names that are given elsewhere from being given again."""
        self._locals.update(names)

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

    def _pointer_name(self, name: str) -> str:
        name = identifier(name)
        name = f"b{name}" if name[:1].isdigit() else name
        return self.local(f"{name}_ptr", parameter=True)

    def _count_name(self, name: str) -> str:
        return self.local(f"{name}_rows", parameter=True)
