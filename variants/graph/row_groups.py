"""Rows of a space, grouped by type and bundled into blocks: what typed products run over."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hetune.variants.errors import InputError
from hetune.variants.graph import index_native
from hetune.variants.graph.hetero import HeteroGraph

GROUP_ROWS = 512
"""The most rows per group, and about the rows per block, where no node blocks are given."""

EVENLY = 8
"""Where there is enough to share, blocks come in multiples of it: so many threads share evenly."""

STEP_ROWS = 16
"""Groups are cut after a multiple of it, so that the row tiles of a product stay full."""


_LEAST_NODES = 8
"""Nodes in a block, on average, below which equal shares are worth no more blocks."""


def block_counts(num_nodes: int, block_nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many blocks nodes are cut into, hubs aside, by the largest size of a block.

    As many as it takes, and then up to the next multiple of eight, unless blocks would have fewer
    than 8 nodes: few blocks, or an odd number of them, would keep threads waiting.

    Args:
        num_nodes: Nodes of the graph.
        block_nodes: The most nodes in a block, positive; any shape.
    """
    needed = np.ceil(num_nodes / block_nodes)
    even = np.ceil(needed / EVENLY) * EVENLY
    found: NDArray[np.float64] = np.maximum(needed, np.minimum(even, num_nodes // _LEAST_NODES))
    return np.maximum(found, 1)


@lru_cache(maxsize=1024)
def num_blocks(num_nodes: int, block_nodes: int) -> int:
    """What `block_counts` gives for one size."""
    return int(block_counts(num_nodes, np.array(block_nodes, np.float64)))


class RowGroups(NamedTuple):
    """Rows in groups of one type; groups in blocks, which are the units of parallel work.

    Attributes:
        rows: Row ids in group order, int32 [rows].
        group_ptr: First row (into `rows`) of each group, and the end: int32 [G + 1].
        group_etype: Type of each group, int32 [G]; the node type for rows of nodes.
        block_ptr: First group of each block, and the end: int32 [B + 1].
    """

    rows: torch.Tensor
    group_ptr: torch.Tensor
    group_etype: torch.Tensor
    block_ptr: torch.Tensor

    @property
    def num_groups(self) -> int:
        """G."""
        return self.group_etype.numel()

    @property
    def num_blocks(self) -> int:
        """B."""
        return self.block_ptr.numel() - 1


def as_int32(values: np.ndarray) -> torch.Tensor:
    """The values as an int32 tensor of their own."""
    return torch.from_numpy(values.astype(np.int32))


def most_group_rows(rows: int) -> int:
    """The most rows of a group: `GROUP_ROWS`, or an eighth of all where that is less."""
    return min(GROUP_ROWS, max(-(-rows // (EVENLY * STEP_ROWS)), 1) * STEP_ROWS)


def cut_by_type(rows: torch.Tensor, counts: np.ndarray, most: int | None = None) -> RowGroups:
    """Cut rows that are sorted by type into groups, and bundle those.

    A long type is cut evenly; blocks start where another so many rows have passed.

    Args:
        rows: Row ids, int32 [rows], all of type 0 first.
        counts: Rows of each type, int64 [R].
        most: The most rows of a group; `most_group_rows` by default.
    """
    most = most or most_group_rows(rows.numel())
    return RowGroups(rows, *index_native.cut_by_type(counts, most, STEP_ROWS))


class EdgesByType:
    """Edges grouped by type, in groups that lie where they are while edges get other types.

    Some at the end may be empty.

    Args:
        etype: Type of each edge, int32 [E], each below `num_etypes`: they may be written to.
        num_etypes: R.
        most: The most rows of a group.

    Attributes:
        most: As given.
        groups: As `cut_by_type` makes them of the edges.
        terms: The number of each group among those of types with several, int32 [G]; else -1.
        type_ptr: First group of each type, and the end: int32 [R + 1].
    """

    def __init__(self, etype: torch.Tensor, num_etypes: int, most: int) -> None:
        edges, self.most = etype.numel(), most
        groups, blocks = edges // most + min(edges, num_etypes), -(-edges // most)
        sizes = edges, groups + 1, groups, blocks + 1, groups, num_etypes + 1
        arrays = [torch.empty(size, dtype=torch.int32, device="cpu") for size in sizes]
        self.groups = RowGroups(*arrays[:4])
        self.terms, self.type_ptr = arrays[4:]
        numbers = edges, num_etypes, most, STEP_ROWS, groups, blocks
        self._arguments: tuple[torch.Tensor | int, ...] = (etype, *numbers, *arrays)
        self.group()

    def group(self) -> None:
        """Groups the edges by the types that they have now, which all attributes then follow."""
        index_native.group_edges(*self._arguments)


def node_type_groups(
    graph: HeteroGraph,
    block_nodes: int,
    blocks: torch.Tensor | None = None,
    chosen: torch.Tensor | None = None,
) -> RowGroups:
    """Group nodes by node type inside blocks of consecutive nodes.

    Args:
        graph: The graph.
        block_nodes: Nodes per block, where no blocks are given.
        blocks: Boundaries of the blocks, int32 [B + 1], from 0 to N, as `cuts.node_blocks`
            yields them.
        chosen: Only these nodes, ascending, int32; all by default.

    Raises:
        InputError: `block_nodes` is not positive.
    """
    nodes = graph.num_targets
    if blocks is None:
        check_block_nodes(block_nodes)
        blocks = as_int32(np.append(np.arange(0, nodes, block_nodes), nodes))
    if graph.num_ntypes == 1:  # a group for each block
        count = blocks.numel() - 1
        group_ptr, group_type = blocks, torch.zeros(count, dtype=torch.int32, device="cpu")
        block_ptr = torch.arange(count + 1, dtype=torch.int32, device="cpu")
    else:
        offsets, cuts = np.minimum(graph.node_offsets, nodes), blocks.numpy()
        starts = np.union1d(cuts, offsets)
        group_ptr, block_ptr = as_int32(starts), as_int32(np.searchsorted(starts, cuts))
        group_type = as_int32(np.searchsorted(offsets, starts[:-1], side="right") - 1)
    if chosen is None:
        rows = torch.arange(nodes, dtype=torch.int32, device="cpu")
        return RowGroups(rows, group_ptr, group_type, block_ptr)
    group_ptr = torch.searchsorted(chosen, group_ptr, out_int32=True)
    return RowGroups(chosen, group_ptr, group_type, block_ptr)


def check_block_nodes(block_nodes: int) -> None:
    """Raise `InputError` unless there is at least one node per block."""
    if block_nodes < 1:
        raise InputError(f"block_nodes is {block_nodes}: give at least one node per block")
