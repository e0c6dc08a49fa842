"""The indexes of a small graph: all that kernels read, made by one call in one piece of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hetune.variants.graph import index_native
from hetune.variants.graph._order import DstPairs, EdgeOrder, RelationStats
from hetune.variants.graph.index_native import NodeBlocks
from hetune.variants.graph.row_groups import RowGroups

SMALL = 1 << 14
"""Edges, nodes and types of graphs that one thread indexes as fast as several."""

KINDS = (("edge", "-"), ("dst_pair", "-"), ("node", "-"), ("node", "src"), ("node", "dst"))
"""Rows that may be grouped by type inside the blocks of nodes: their space, and the end at which
nodes have edges, if not all are grouped."""

_ORDER = EdgeOrder._fields
_PAIRS = tuple(f"dst_pair_{name}" for name in ("node", "etype", "indptr"))
_GROUPS = ("rows", "block_ptr", "group_ptr", "group_etype")
_Field = str | tuple[str, str, str]
_NAMES: tuple[_Field, ...] = (
    *(*_ORDER[:5], "dst_pair_of_edge", *_ORDER[5:], *_PAIRS, "dst_pair_count"),
    *("indptr", "node_dst_pair_indptr", "in_degree", "src_pair_etype_ptr"),
    *("node_blocks", "block_order"),
    *((*kind, field) for kind in KINDS for field in _GROUPS),
)
FIELDS = {name: place for place, name in enumerate(_NAMES)}
"""Places of arrays: by attribute of `GraphIndex`; of blocks; by kind, and field of `RowGroups`."""
_HEAD = 4 + 2 * len(FIELDS)
HUBS = 0
"""Where the number of hubs is among the numbers that are found."""


def start_of(place: int) -> int:
    """Where it is found at which int32 an array begins, by its place; its length follows."""
    return 4 + 2 * place


def found_size(num_etypes: int) -> int:
    """How many numbers are found."""
    return _HEAD + 3 * num_etypes


def are_made(places: Iterable[int], groups: int) -> bool:
    """Whether arrays are among those of small graphs, by their places in `FIELDS`.

    Args:
        places: Of the arrays.
        groups: As of `SmallIndex`.
    """
    kinds = (name[:2] for name in (_NAMES[place] for place in places) if isinstance(name, tuple))
    return all(groups >> KINDS.index(kind) & 1 for kind in kinds)


class SmallIndex:
    """The indexes of all edges of a graph of less than `SMALL` edges, nodes and types.

    Args:
        src: Sources, int32 [E], contiguous; so are destinations and types.
        dst: Destinations.
        etype: Types.
        ntype: Types of nodes, int32 [N].
        num_ids: More than any id of a node.
        num_nodes: Nodes that edges may lead to.
        num_etypes: R.
        num_blocks: About how many blocks to cut nodes into, at least 1.
        groups: A bit for each of `KINDS` to group rows of. Nodes are grouped where they may be at
            either end of edges.

    Attributes:
        num_blocks: As given.
        addresses: Where arrays lie, in the order of `FIELDS`.
        is_in_order: Whether the canonical order of edges is the one in which they were given.
        hubs: How many of them begin before all others.
        most: The most nodes, edges and destination pairs that a block has.
    """

    __slots__ = (
        *("_counts", "_found", "_memory", "_starts", "_steps"),
        *("__weakref__", "addresses", "hubs", "is_in_order", "most", "num_blocks"),
    )

    def __init__(
        self,
        src: Tensor,
        dst: Tensor,
        etype: Tensor,
        ntype: Tensor,
        num_ids: int,
        num_nodes: int,
        num_etypes: int,
        num_blocks: int,
        groups: int,
    ) -> None:
        edges = src.numel()
        size = room(edges, num_nodes, num_etypes, num_blocks, groups)
        memory = torch.empty(size, dtype=torch.int32, device="cpu")
        found = torch.empty(found_size(num_etypes), dtype=torch.int64, device="cpu")
        counts = edges, num_ids, num_nodes, num_etypes, num_blocks, groups, len(FIELDS)
        types = ntype.data_ptr(), ntype.stride(0)
        in_place = index_native.small(src, dst, etype, *types, *counts, memory, found)
        self.is_in_order = in_place == edges
        numbers = found[:_HEAD].tolist()
        self._memory, self._found, self.num_blocks = memory, found, num_blocks
        self.hubs, *self.most = numbers[:4]
        self._starts, self._counts = numbers[4::2], numbers[5::2]
        self._steps: dict[str, Any] = {}
        start = memory.data_ptr()
        self.addresses = [start + 4 * at for at in self._starts]

    @property
    def stats(self) -> np.ndarray:
        """Edges, source and destination pairs by edge type, int64 [3, R]."""
        stats = self._found[_HEAD:]
        return stats.view(3, len(stats) // 3).numpy()

    @property
    def nbytes(self) -> int:
        """Bytes of all that it has."""
        return self._memory.nbytes + self._found.nbytes

    def has(self, places: Iterable[int]) -> bool:
        """Whether arrays are there, by their places in `FIELDS`."""
        return all(self._starts[place] >= 0 for place in places)

    def array(self, name: _Field) -> Tensor:
        """An array by its name in `FIELDS`."""
        place = FIELDS[name]
        start = self._starts[place]
        found = self._memory[start : start + self._counts[place]]
        return found.view(torch.float32) if name == "dst_pair_count" else found

    def step(self, name: str) -> Any:
        """What a step of `GraphIndex` of this name yields; None where it is not made here."""
        found = self._steps.get(name)
        if found is None and (found := self._made(name)) is not None:
            self._steps[name] = found
        return found

    def _made(self, name: str) -> Any:
        make = _STEPS.get(name)
        if make is not None:
            return make(self)
        if name == f"node_blocks({self.num_blocks})":
            order = self.array("block_order")
            return NodeBlocks(self.array("node_blocks"), order, self.hubs, tuple(self.most))
        for space, end in KINDS[:2]:
            if name == f"row_groups({space}, blocks={self.num_blocks})":
                names = [(space, end, field) for field in RowGroups._fields]
                is_there = self.has(FIELDS[name] for name in names)
                return RowGroups(*map(self.array, names)) if is_there else None
        return None


def room(edges: int, num_nodes: int, num_etypes: int, num_blocks: int, groups: int) -> int:
    """Int32 that all arrays take, at most."""
    most_blocks = 3 * num_blocks + 3
    size = 12 * edges + 3 * num_nodes + num_etypes + 4 + 2 * most_blocks
    size += (groups & 3).bit_count() * (3 * edges + most_blocks + 1)
    return size + (groups >> 2).bit_count() * (3 * num_nodes + most_blocks + 1)


def _nodes(end: str) -> Callable[[SmallIndex], Tensor | None]:
    name = "node", end, "rows"
    return lambda small: small.array(name) if small.has((FIELDS[name],)) else None


def _named(name: str) -> Callable[[SmallIndex], Tensor]:
    return lambda small: small.array(name)


_ALONE = (
    *_ORDER,
    *("dst_pair_of_edge", "dst_pair_count", "indptr", "node_dst_pair_indptr", "in_degree"),
    "src_pair_etype_ptr",
)
_STEPS: Mapping[str, Callable[[SmallIndex], Any]] = {
    "order": lambda small: EdgeOrder(*map(small.array, _ORDER)),
    "edges_per_relation": lambda small: small.stats[0],
    "relation_stats": lambda small: RelationStats(*small.stats),
    "dst_pairs": lambda small: DstPairs(*(small.array(f"dst_pair_{n}") for n in DstPairs._fields)),
    **{f"nodes({end}, True)": _nodes(end) for end in ("src", "dst")},
    **{name: _named(name) for name in _ALONE},
}
