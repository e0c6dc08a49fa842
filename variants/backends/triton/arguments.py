"""What a Triton kernel is called with: slots, and their names in its text."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from dataclasses import dataclass

from hetune.variants.backends.arguments import SlotTable
from hetune.variants.backends.slots import BufferSlot, IndexSlot, NodeTypeSlot, identifier
from hetune.variants.backends.triton.values import HELPERS
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
class Cut:
    """Which `RowParts` a Traversal is shared out in.

    Attributes:
        rows: Whose inner rows are cut.
        loops: The inner rows of each of its loops.
        most: Inner rows of a part, of all loops together.
        idle: Whether rows without inner rows have a part.
    """

    rows: Rows
    loops: tuple[Rows, ...]
    most: int
    idle: bool = True


@dataclass(frozen=True, slots=True)
class PartsTable:
    """The parts of a cut, and how many of them a program takes.

    Attributes:
        cut: The parts.
        edges: Inner rows of a part that a program takes at once, a power of two.
        parts: Parts of a program. Of parts that are shorter than `edges` it takes more.
    """

    cut: Cut
    edges: int
    parts: int

    @property
    def tiles(self) -> tuple[int, ...]:
        """Inner rows at once of programs for shorter parts, ascending; `edges` is the last."""
        return tuple(1 << power for power in range(self.edges.bit_length()))

    def parts_of_length(self, length: int) -> int:
        """Parts of a program, of such that are no longer; a power of two."""
        return self.parts * self.edges // min(length, self.edges)


@dataclass(frozen=True, slots=True)
class PartsSlot:
    """A field of `RowParts` or of `PartPrograms`, int32; some have one for each loop."""

    table: PartsTable
    field: str
    loop: int = 0


@dataclass(frozen=True, slots=True)
class CarrySlot:
    """Memory of a run: float32, for each partial row of a cut so many numbers.

    Kernels that name it alike share it.
    """

    name: str
    cut: Cut
    width: int


_OwnSlot = TilesSlot | IdleNodesSlot | PartsSlot | CarrySlot
Slot = BufferSlot | IndexSlot | NodeTypeSlot | _OwnSlot


@dataclass(frozen=True, slots=True)
class FirstProgram:
    """The first program of a level of parts, in the numbering of all levels' programs."""


Count = Rows | IdleNodesSlot | FirstProgram
"""What is counted: rows of a domain, the nodes of a slot, or programs of other levels."""


@dataclass(frozen=True, slots=True)
class Level:
    """The programs of the first level of parts, or of each level of partial rows."""

    table: PartsTable
    joins: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """How many programs a kernel has.

    Attributes:
        rows: What the first axis goes over: tiles, parts, or a count of rows.
        size: Rows for each program, where rows are counted.
        columns: Programs along the second axis.
        heads: Programs along the third.
    """

    rows: Tiling | Level | Rows | IdleNodesSlot
    size: int = 1
    columns: int = 1
    heads: int = 1


_TAKEN = frozenset(
    (*keyword.kwlist, "tl", "triton", "range", "float", "maximum", "U", "P", *HELPERS)
)


class TritonArguments(SlotTable[_OwnSlot, Count]):
    """The slots of a Triton kernel: pointers end in ``_ptr``, counts in ``_rows``."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self._locals: set[str] = set(_TAKEN)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all pointers and counts, in order."""
        return tuple(name for _, name in (*self.pointers, *self.counts))

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

    def parts(self, table: PartsTable, field: str, loop: int = 0) -> str:
        """Pointer to a field of the parts, or of their programs."""
        name = f"part_{field}" if field in ("row", "slot") else f"part_{field}_{loop}"
        return self._pointer(PartsSlot(table, field, loop), name)

    def carry(self, slot: CarrySlot) -> str:
        """Pointer to memory of the run."""
        return self._pointer(slot, "partial")

    def count(self, of: Count) -> str:
        """A count."""
        match of:
            case Rows():
                name = f"{of.group or 'all'}_{of.space}"
            case IdleNodesSlot():
                name = f"without_{of.end}"
            case FirstProgram():
                name = "program"
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
