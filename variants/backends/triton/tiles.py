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
        first: Where each tile begins in `rows`, [T].
        last: Where it ends, [T].
        type: Type of its rows, [T]; all 0 where types do not matter.
    """

    rows: Tensor
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
    order = torch.arange(rows.numel(), device=rows.device)
    if tiling.by_length:
        length = index.dst_pair_indptr.diff()[rows.long()]
        order = torch.argsort(length, descending=True, stable=True)
    order = order[torch.argsort(types[order], stable=True)]
    rows = rows[order]
    num_types = max(graph.num_ntypes, graph.num_etypes, 1) if tiling.typed else 1
    counts = torch.bincount(types.long(), minlength=num_types)
    pieces = (counts + tiling.size - 1) // tiling.size
    type = torch.repeat_interleave(torch.arange(num_types, device=rows.device), pieces)
    starts, ends = counts.cumsum(0) - counts, counts.cumsum(0)
    piece = torch.arange(len(type), device=rows.device) - (pieces.cumsum(0) - pieces)[type]
    first = starts[type] + piece * tiling.size
    last = torch.minimum(first + tiling.size, ends[type])
    return Tiles(rows.int(), first.int(), last.int(), type.int())


def _rows_and_types(
    tiling: Tiling, graph: HeteroGraph, index: DeviceIndex
) -> tuple[Tensor, Tensor]:
    """Row ids, ascending, and the type of each."""
    match tiling.rows.space:
        case Space.NODE:
            ntype = graph.ntype.to(index.device)
            if tiling.only is End.NONE:
                return torch.arange(graph.num_nodes, device=index.device).int(), ntype
            rows = index.nodes_with_edges(str(tiling.only))
            return rows, ntype[rows.long()]
        case Space.EDGE:
            types = index.etype
        case Space.DST_PAIR:
            types = index.dst_pair_etype
        case Space.SRC_PAIR:
            types = index.src_pair_etype
        case Space.SRC_DENSE:
            types = index.src_dense_etype
        case space:
            raise KernelError(f"a Gemm cannot run over {space} rows: nodes, pairs or edges")
    return torch.arange(types.numel(), device=index.device).int(), types
