"""The indexes of one small graph after another, in the same memory, where kernels look for them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hetune.variants.graph import index_native
from hetune.variants.graph.small_index import FIELDS, found_size, room, start_of


class EdgePart(NamedTuple):
    """Edges that lead from nodes of one type to nodes of one type.

    Attributes:
        src: Sources, integers [e] that count within their type of nodes.
        dst: Destinations, likewise.
        etype: Types, or the one that all of them have.
        ends: Types of nodes at both ends.
    """

    src: Tensor
    dst: Tensor
    etype: Tensor | int = 0
    ends: tuple[int, int] = (0, 0)


class ReusedIndex:
    """What `SmallIndex` makes, of one graph after the other.

    Args:
        most_edges: Of a graph.
        most_nodes: Likewise.
        num_etypes: Of all of them.
        num_ntypes: Likewise.
        groups: As of `SmallIndex`.
        most_blocks: That nodes are cut into, about.
        pointers: Addresses of pointers to arrays, and the places of these in `FIELDS`.
        counts: Addresses of counts, and where these are among the numbers that are found.

    Its attributes are arrays of `GraphIndex` by their names, of the graph that it has now.

    Attributes:
        ntype: Types of its nodes, and more.
    """

    def __init__(
        self,
        most_edges: int,
        most_nodes: int,
        num_etypes: int,
        num_ntypes: int,
        groups: int,
        most_blocks: int,
        pointers: Sequence[tuple[int, int]],
        counts: Sequence[tuple[int, int]],
    ) -> None:
        size = room(most_edges, most_nodes, num_etypes, most_blocks, groups)
        with torch.inference_mode(False):
            self._memory = torch.empty(size, dtype=torch.int32, device="cpu")
            self._ids = torch.empty(3 * most_edges, dtype=torch.int32, device="cpu")
            self.ntype = torch.empty(most_nodes, dtype=torch.int32, device="cpu")
        self._found = (ctypes.c_int64 * found_size(num_etypes))()
        places = self._ids.data_ptr(), self._memory.data_ptr(), ctypes.addressof(self._found)
        told = groups, len(FIELDS), num_etypes, num_ntypes, *places, self.ntype.data_ptr()
        self._given = _numbers([*told, *[0] * (3 + num_ntypes)])
        bound = [*((address, start_of(place)) for address, place in pointers), *counts]
        self._bound = _numbers([*sum(bound, ())])
        self._counts = len(pointers), len(counts)

    def __getattr__(self, name: str) -> Tensor:
        at = start_of(FIELDS[name])
        start, count = self._found[at], self._found[at + 1]
        found = self._memory[start : start + count]
        return found.view(torch.float32) if name == "dst_pair_count" else found

    def rebind(
        self, parts: Sequence[EdgePart], nodes: Sequence[int], num_blocks: int
    ) -> bool | None:
        """Indexes a graph in place of the one before.

        Args:
            parts: Its edges, on the CPU.
            nodes: How many there are of each type.
            num_blocks: About how many blocks to cut nodes into.

        Returns:
            Whether the canonical order of edges is the one in which they were given; None where an
            id is out of range.
        """
        told, edges = list[int](), 0
        for src, dst, etype, ends in parts:
            count = src.numel()
            for ids in (src, dst, etype):
                told += (0, ids, 0) if isinstance(ids, int) else _place_of(ids)
            told += (count, *ends)
            edges += count
        self._given[_FIXED:] = [edges, len(parts), num_blocks, *nodes]
        given = self._given, _numbers(told), self._bound
        in_place = index_native.rebind(*map(ctypes.addressof, given), *self._counts)
        return None if in_place < 0 else in_place == edges


_FIXED = 8
"""Numbers that no graph changes."""


def _numbers(given: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(given))(*given)


def _place_of(ids: Tensor) -> tuple[int, int, int]:
    return ids.data_ptr(), ids.element_size(), ids.stride(0)
