"""What launches amount to on a GPU beyond what they do on a CPU: programs, and their tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hetune.variants.backends.triton.outer import CHUNK_ROWS, tiles_of_sum
from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import (
    Gemm,
    Launch,
    Outer,
    Rows,
    SegmentSum,
    Traversal,
)
from hetune.variants.kernel.passes.gpu_kernels import gpu_kernels
from hetune.variants.kernel.passes.phases import phase_of
from hetune.variants.kernel.widths import widest
from hetune.variants.program.nodes import ALL_EDGES, Space
from hetune.variants.runtime.domain import Domain

GPU_COLUMNS = (
    "starts",
    "tiles",
    "tile_rows",
    "tile_columns",
    "warps",
    "walks",
    "walk_elements",
    "walk_edges",
)
"""Names of a row's numbers on a GPU, after `COLUMNS`.

- `starts`: kernels that the launch starts: one for each typed product and each traversal
  (traversals over nodes without loops that follow each other are one), one more for nodes that a
  product leaves out; those that add up partial rows are not counted;
- `tiles`: programs of its typed products: one for each tile of rows of one type, tile of columns
  and head; `tile_rows`, `tile_columns`, `warps`: as in the schedule;
- `walks`: programs of its traversals, as if each row had a part of its own and one for each
  `part_edges` of its edges;
- `walk_elements`, `walk_edges`: as in the schedule.
"""

_BY_RELATION = {Space.EDGE: "edges", Space.SRC_PAIR: "src_pairs", Space.DST_PAIR: "dst_pairs"}


class GpuColumns:
    """Counts the programs of launches.

    Args:
        launches: With their schedules, all of which are a GPU's.
    """

    def __init__(self, launches: Sequence[tuple[Launch, AnySchedule]]) -> None:
        self._fixed = np.zeros((len(launches), len(GPU_COLUMNS)))
        self._tiles: dict[tuple[Rows, int], list[tuple[int, int]]] = {}
        self._walks: dict[tuple[Rows, int], list[int]] = {}
        for row, (launch, schedule) in enumerate(launches):
            assert isinstance(schedule, GpuSchedule)
            self._add(row, launch, schedule)

    def of(self, domain: Domain) -> np.ndarray:
        """The numbers on a graph, float64 [launches, `GPU_COLUMNS`]."""
        found = self._fixed.copy()
        tiles, walks = GPU_COLUMNS.index("tiles"), GPU_COLUMNS.index("walks")
        for (rows, size), uses in self._tiles.items():
            count = _tiles(rows, size, domain)
            for row, times in uses:
                found[row, tiles] += times * count
        for (rows, size), users in self._walks.items():
            count = math.ceil(domain.count(rows) / size)
            for row in users:
                found[row, walks] += count
        return found

    def _add(self, row: int, launch: Launch, schedule: GpuSchedule) -> None:
        starts = 0
        for kernel, *others in gpu_kernels(launch):
            starts += 1
            if isinstance(kernel, Gemm):
                starts += bool(kernel.fill)
                columns = math.ceil(kernel.n / schedule.tile_columns)
                size = schedule.rows_of_tile(isinstance(kernel.x, SegmentSum))
                uses = self._tiles.setdefault((kernel.rows, size), [])
                uses.append((row, columns * kernel.heads))
                continue
            if isinstance(kernel, Outer):
                starts += not kernel.accumulate
                of_k, of_n = tiles_of_sum(kernel, schedule)
                columns = math.ceil(kernel.k / of_k) * math.ceil(kernel.n / of_n)
                uses = self._tiles.setdefault((kernel.rows, CHUNK_ROWS), [])
                uses.append((row, columns * kernel.heads))
                continue
            walks = [walk for walk in (kernel, *others) if isinstance(walk, Traversal)]
            width, phase = widest(walks, launch), phase_of(kernel, launch)
            size = schedule.rows_of_walk(width)
            if phase is not None:
                size = schedule.parts_of_walk(width)
                for loop in phase.loops:
                    key = loop.rows, size * schedule.part_edges
                    self._walks.setdefault(key, []).append(row)
            self._walks.setdefault((kernel.rows, size), []).append(row)
        self._fixed[row] = (
            starts,
            0,
            schedule.tile_rows,
            schedule.tile_columns,
            schedule.warps,
            0,
            schedule.elements,
            schedule.edges,
        )


def _tiles(rows: Rows, size: int, domain: Domain) -> int:
    """Tiles of rows: types begin tiles of their own."""
    if (name := _BY_RELATION.get(rows.space)) is None:
        return math.ceil(domain.count(rows) / size)
    counts = getattr(domain.index(ALL_EDGES).relation_stats, name)
    if rows.group:
        counts = counts[domain.relations[rows.group]]
    return int(np.ceil(counts / size).sum())
