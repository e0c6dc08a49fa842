"""How a launch is shared out among the programs of a GPU."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias

from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Schedule


@dataclass(frozen=True, slots=True)
class GpuSchedule:
    """Choice 6 on a GPU; one for a whole launch.

    Attributes:
        tile_rows: Rows of a Gemm's tile.
        tile_columns: Most columns of a Gemm's tile.
        tile_k: Most terms of a product that are in registers at once.
        nodes: Rows of a Traversal's outermost loop that a program takes; 0: as many as `elements`
            allow, so that narrow rows share a program.
        edges: Edges of an inner loop that a program takes at once, for each of its nodes.
        elements: Float32 elements of the widest value that a Traversal's program holds.
        degree_order: Whether programs take nodes in the order of their in-degrees: the nodes of
            one program then have about as many edges, and hubs begin first.
        hub_edges: Nodes with so many incoming edges are hubs: each gets a program of its own that
            takes `hub_elements` at once; 0: there are none. Needs `degree_order`.
        hub_elements: As `elements`, for a hub.
        balance: ``"node"``: programs of a Traversal take nodes; ``"edge"``: where it has one loop
            over edges, they take chunks of edges, as many as `hub_elements` allow, whichever nodes
            they lead to.
        warps: Warps of a Gemm's program; a Traversal has one for each 1024 elements.
        stages: Depth of a Gemm's software pipeline.
    """

    tile_rows: int = 64
    tile_columns: int = 64
    tile_k: int = 32
    nodes: int = 0
    edges: int = 4
    elements: int = 1024
    degree_order: bool = True
    hub_edges: int = 512
    hub_elements: int = 4096
    balance: str = "node"
    warps: int = 4
    stages: int = 2

    def __post_init__(self) -> None:
        """Checks it.

        Raises:
            KernelError: There is no such tile.
        """
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value < least or value & (value - 1):
                raise KernelError(
                    f"{name} is {value}: take a power of two, {least} or more"
                    + (" (or 0)" if least == 0 else "")
                )
        if self.balance not in ("node", "edge"):
            raise KernelError(f"no balance {self.balance!r}: take node or edge")
        if self.stages < 1:
            raise KernelError(f"stages is {self.stages}: take 1 or more")

    def __str__(self) -> str:
        """The canonical text, e.g. ``"tile_rows=64 tile_columns=64 ..."``."""
        return " ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))

    def rows_of_walk(self, width: int, has_loops: bool) -> int:
        """Rows of a Traversal's outermost loop that a program takes.

        Args:
            width: Elements of the widest value that it holds for a row or an edge.
            has_loops: Whether it has inner loops, of which several edges are in flight.
        """
        room = max(1, self.elements // ((self.edges if has_loops else 1) * width))
        return self.nodes or 1 << (room.bit_length() - 1)

    def rows_of_tile(self, sums: bool) -> int:
        """Rows of a Gemm's tile.

        Args:
            sums: Whether its operand is a sum over edges: both tiles are in registers at once.
        """
        return min(self.tile_rows, _MOST_SUMS) if sums else self.tile_rows

    def k_of_tile(self, sums: bool) -> int:
        """Terms of a Gemm that are in registers at once; a sum's edges are walked for each so many.

        Args:
            sums: As above.
        """
        return max(self.tile_k, _MOST_SUMS) if sums else self.tile_k

    def edges_of_hub(self, width: int) -> int:
        """Edges of a hub that its program takes at once.

        Args:
            width: Elements of the widest value that it holds for an edge.
        """
        room = max(self.edges, self.hub_elements // width)
        return min(MOST_EDGES, 1 << (room.bit_length() - 1))

    def edges_of_chunk(self, width: int) -> int:
        """Edges that a program takes of a Traversal that is shared out by edges.

        Args:
            width: Elements of the widest value that it holds for an edge.
        """
        room = max(1, self.hub_elements // width)
        return max(_LEAST_CHUNK, 1 << (room.bit_length() - 1))


AnySchedule: TypeAlias = Schedule | GpuSchedule
"""Of a launch, for a CPU or for a GPU."""

_MOST_SUMS = 64
"""Rows and columns of a tile of sums: larger ones do not fit into registers."""
MOST_EDGES = 256
"""Edges that a program takes at once."""
_LEAST_CHUNK = 16
"""Edges: of each chunk, parts of two nodes may be left."""
_LEAST = {
    "tile_rows": 16,
    "tile_columns": 16,
    "tile_k": 16,
    "nodes": 0,
    "edges": 1,
    "elements": 1,
    "hub_edges": 0,
    "hub_elements": 1,
    "warps": 1,
}
"""Least value of each field that is a power of two; `tl.dot` wants at least 16 of everything."""
