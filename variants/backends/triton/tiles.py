"""Tiles: rows cut into pieces of one type, as a table that one launch of a Gemm runs over."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.backends.triton.arguments import Tiling
from hetune.variants.errors import KernelError
from hetune.variants.graph.device_index import DeviceIndex
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.nodes import End, Space


@dataclass(frozen=True, slots=True)
class Tiles:
    """Rows by type, and where each tile begins and ends among them; int32, on the device.

    Attributes:
        rows: Row ids, all of one type side by side, [rows].
        begin: Where each row's edges begin, in the order of the index, [rows]; empty where rows
            are not by length.
        end: Where they end, [rows] as well.
        first: Where each tile begins in `rows`, [T].
        last: Where it ends, [T].
        type: Type of its rows, [T]; all 0 where types do not matter.
    """

    rows: Tensor
    begin: Tensor
    end: Tensor
    first: Tensor
    last: Tensor
    type: Tensor

    @property
    def count(self) -> int:
        """T."""
        return self.type.numel()


def tiles_of(tiling: Tiling, graph: HeteroGraph, index: DeviceIndex) -> Tiles:
    """The tiles of a graph's rows, built once, by torch's operators on the index's device.

    Args:
        tiling: Which rows, and how large the tiles.
        graph: The graph.
        index: The index of the rows' group.
    """
    return index.step(f"tiles({tiling})", lambda: _tiles(tiling, graph, index))


def _tiles(tiling: Tiling, graph: HeteroGraph, index: DeviceIndex) -> Tiles:
    rows, types = _rows_and_types(tiling, graph, index)
    if not tiling.typed:
        types = torch.zeros_like(rows)
    begin = end = torch.empty(0, dtype=torch.int32, device=rows.device)
    if tiling.by_length:
        rows, begin, end = _parts(rows, index.dst_pair_indptr, tiling.most_edges)
        types = types[rows.long()]
        order = torch.argsort(end - begin, descending=True, stable=True)
        order = order[torch.argsort(types[order], stable=True)]
        begin, end = begin[order], end[order]
    else:
        order = torch.argsort(types, stable=True)
    rows = rows[order]
    num_types = max(graph.num_ntypes, graph.num_etypes, 1) if tiling.typed else 1
    counts = torch.bincount(types.long(), minlength=num_types)
    pieces = (counts + tiling.size - 1) // tiling.size
    type = torch.repeat_interleave(torch.arange(num_types, device=rows.device), pieces)
    starts, ends = counts.cumsum(0) - counts, counts.cumsum(0)
    piece = torch.arange(len(type), device=rows.device) - (pieces.cumsum(0) - pieces)[type]
    first = starts[type] + piece * tiling.size
    last = torch.minimum(first + tiling.size, ends[type])
    return Tiles(rows.int(), begin.int(), end.int(), first.int(), last.int(), type.int())


def _parts(rows: Tensor, indptr: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with where their edges begin and end; one for each `most` edges, if that is not 0."""
    begin, end = indptr[:-1][rows.long()], indptr[1:][rows.long()]
    if not most:
        return rows, begin, end
    counts = torch.clamp((end - begin + most - 1) // most, min=1)
    place = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), counts)
    part = torch.arange(place.numel(), device=rows.device) - (counts.cumsum(0) - counts)[place]
    begin = begin[place] + part * most
    return rows[place], begin, torch.minimum(begin + most, end[place])


def _rows_and_types(
    tiling: Tiling, graph: HeteroGraph, index: DeviceIndex
) -> tuple[Tensor, Tensor]:
    """Row ids, ascending, and the type of each."""
    match tiling.rows.space:
        case Space.NODE:
            ntype = graph.ntype[: graph.num_targets].to(index.device)
            if tiling.only is End.NONE:
                return torch.arange(len(ntype), device=index.device).int(), ntype
            rows = index.nodes_with_edges(str(tiling.only))
            return rows, ntype[rows.long()]
        case Space.EDGE:
            types = index.etype
        case Space.DST_PAIR:
            types = index.dst_pair_etype
        case Space.SRC_PAIR:
            types = index.src_pair_etype
        case space:
            raise KernelError(f"a Gemm cannot run over {space} rows: nodes, pairs or edges")
    return torch.arange(types.numel(), device=index.device).int(), types
