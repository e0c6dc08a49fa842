"""How a launch is shared out among the programs of a GPU."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias

from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Gemm, Schedule, SegmentSum


@dataclass(frozen=True, slots=True)
class GpuSchedule:
    """How a launch is tiled and shared out on a GPU; one for the whole launch.

    Traversals with loops are shared out in *parts*: each row's edges are cut into parts, and a
    program takes several parts of about one length.

    Attributes:
        tile_rows: Rows of a Gemm's tile.
        tile_columns: Most columns of a Gemm's tile.
        tile_k: Most terms of a product that are in registers at once; of a sum that is its operand,
            32 at least.
        part_edges: Most edges of a part, of Traversals and of sums that are a Gemm's operand.
        edges: Edges of a part, or of a row of such an operand, that a program takes at once.
        elements: Float32 elements that a Traversal's program takes at once: of rows, or of edges of
            parts.
        warps: Warps of a Gemm's program.
        stages: Depth of a Gemm's software pipeline.
    """

    tile_rows: int = 64
    tile_columns: int = 64
    tile_k: int = 16
    part_edges: int = 64
    edges: int = 4
    elements: int = 2048
    warps: int = 4
    stages: int = 2

    def __post_init__(self) -> None:
        """Checks it.

        Raises:
            KernelError: There is no such tile, or parts are too long.
        """
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value < least or value & (value - 1):
                raise KernelError(f"{name} is {value}: take a power of two, {least} or more")
        if self.part_edges > _MOST_EDGES:
            raise KernelError(
                f"part_edges is {self.part_edges}: take {_MOST_EDGES} or fewer, for longer sums "
                "lose digits"
            )
        if self.stages < 1:
            raise KernelError(f"stages is {self.stages}: take 1 or more")

    def __str__(self) -> str:
        """The canonical text, e.g. ``"tile_rows=64 tile_columns=64 ..."``."""
        return " ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))

    def rows_of_walk(self, width: int) -> int:
        """Rows that a program takes of a Traversal that is not shared out in parts.

        Args:
            width: Elements of the widest value that it holds for a row.
        """
        return max(1, self.elements // width)

    def parts_of_walk(self, width: int) -> int:
        """Parts that a program takes at once.

        Args:
            width: Elements of the widest value that it holds for an edge, a power of two.
        """
        return max(1, self.elements // (self.edges * width))

    def rows_of_tile(self, sums: bool, precision: str = "ieee") -> int:
        """Rows of a Gemm's tile.

        Args:
            sums: Whether its operand is a sum over edges: both tiles are in registers at once.
            precision: In which it is multiplied.
        """
        most = _MOST_SPLIT_SUMS if precision == "tf32x3" else _MOST_SUMS
        return min(self.tile_rows, most) if sums else self.tile_rows

    def k_of_tile(self, sums: bool) -> int:
        """Terms of a product that are in registers at once.

        Args:
            sums: As above; two times as many are there, for edges are walked for all of them.
        """
        return max(self.tile_k, _LEAST_SUMMED) if sums else self.tile_k

    def edges_of_sum(self, gemm: Gemm) -> int:
        """Edges that a row of a product that sums them has at most; 0 if it has all of its pair's.

        A program waits for the longest of its rows, so a pair with more comes as several rows,
        where their products add up: where rows are scattered, and nothing is added to each of them.
        """
        is_cut = isinstance(gemm.x, SegmentSum) and gemm.scatter and gemm.bias is None
        return self.part_edges if is_cut else 0


AnySchedule: TypeAlias = Schedule | GpuSchedule
"""Of a launch, for a CPU or for a GPU."""

_MOST_EDGES = 128
"""Terms of a sum that keeps nothing of what its additions round away."""
_MOST_SUMS = 64
"""Rows of a tile of sums: larger ones do not fit into registers."""
_MOST_SPLIT_SUMS = 32
"""The same where operands are split in two: on an A100 64 do not."""
_LEAST_SUMMED = 32
"""Columns of such a tile that are multiplied at once: of fewer, loads would be narrow."""
_LEAST = {
    "tile_rows": 16,
    "tile_columns": 16,
    "tile_k": 16,
    "part_edges": 2,
    "edges": 1,
    "elements": 1,
    "warps": 1,
}
"""Least value of each field that is a power of two; `tl.dot` wants at least 16 of everything."""
