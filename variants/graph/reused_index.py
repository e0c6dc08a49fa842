"""The indexes of one small graph after another, in the same memory, where kernels look for them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from hetune.variants.graph import index_native
from hetune.variants.graph.small_index import FIELDS, found_size, room, start_of

_HEAD = 18
"""Numbers that tell of a graph, before those that tell where kernels look."""


class ReusedIndex:
    """What `SmallIndex` makes, of graphs of one type of nodes, one after the other.

    Args:
        most_edges: Of a graph.
        most_nodes: Likewise.
        num_etypes: Of all of them.
        most_blocks: That nodes are cut into, about.
        groups: As of `SmallIndex`.
        pointers: Addresses of pointers to arrays, and the places of these in `FIELDS`.
        counts: Addresses of counts, and where these are among the numbers that are found.

    Its attributes are arrays of `GraphIndex` by their names, of the graph that it has now.
    """

    def __init__(
        self,
        most_edges: int,
        most_nodes: int,
        num_etypes: int,
        most_blocks: int,
        groups: int,
        pointers: Sequence[tuple[int, int]],
        counts: Sequence[tuple[int, int]],
    ) -> None:
        size = room(most_edges, most_nodes, num_etypes, most_blocks, groups)
        with torch.inference_mode(False):
            self._memory = torch.empty(size, dtype=torch.int32, device="cpu")
            self._ids = torch.empty(3 * most_edges, dtype=torch.int32, device="cpu")
        self._found = (ctypes.c_int64 * found_size(num_etypes))()
        bound = [*((address, start_of(place)) for address, place in pointers), *counts]
        places = self._ids.data_ptr(), self._memory.data_ptr(), ctypes.addressof(self._found)
        told = *[0] * 11, num_etypes, 0, groups, len(FIELDS), *places
        self._given = (ctypes.c_int64 * (_HEAD + 2 * len(bound)))(*told, *sum(bound, ()))
        self._arguments = ctypes.addressof(self._given), len(pointers), len(counts)

    def __getattr__(self, name: str) -> Tensor:
        at = start_of(FIELDS[name])
        start, count = self._found[at], self._found[at + 1]
        found = self._memory[start : start + count]
        return found.view(torch.float32) if name == "dst_pair_count" else found

    def rebind(
        self, src: Tensor, dst: Tensor, etype: Tensor | None, num_nodes: int, num_blocks: int
    ) -> bool | None:
        """Indexes a graph in place of the one before.

        Args:
            src: Sources [E], integers on the CPU; so are destinations and types.
            dst: Destinations.
            etype: Types; all 0 if None.
            num_nodes: N.
            num_blocks: About how many blocks to cut nodes into.

        Returns:
            Whether the canonical order of edges is the one in which they were given; None where an
            id is out of range.
        """
        given, edges = self._given, src.numel()
        for at, ids in ((0, src), (3, dst), (6, etype)):
            if ids is not None:
                given[at : at + 3] = [ids.data_ptr(), ids.element_size(), ids.stride(0)]
        given[9:11] = [edges, num_nodes]
        given[12] = num_blocks
        in_place = index_native.rebind(*self._arguments)
        return None if in_place < 0 else in_place == edges
