"""The interpreter's buffers: tensors, and which of their rows a loop's rows mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.nodes import Element, Launch, Rows
from hetune.variants.program.nodes import End, Space, Type

IndexOf = Callable[[str], GraphIndex]
"""The index of a group of edge types; "" means all."""


def row_count(rows: Rows, index_of: IndexOf, graph: HeteroGraph) -> int:
    """How many rows a space (of a group) has."""
    match rows.space:
        case Space.NODE:
            return graph.num_targets
        case Space.SOURCE:
            return graph.num_sources
        case Space.NTYPE:
            return graph.num_ntypes
        case Space.ETYPE:
            return graph.num_etypes
        case Space.SHARED:
            return 1
        case Space.EDGE:
            return index_of(rows.group).num_edges
        case Space.SRC_PAIR:
            return index_of(rows.group).num_src_pairs
        case Space.DST_PAIR:
            return index_of(rows.group).num_dst_pairs


class RowTensors:
    """The buffers of a launch and the way from a loop's rows to theirs."""

    def __init__(
        self,
        launch: Launch,
        values: Mapping[str, torch.Tensor],
        index_of: IndexOf,
        graph: HeteroGraph,
    ) -> None:
        self.index_of, self.graph = index_of, graph
        self.types = {buffer.name: buffer.type for buffer in launch.buffers}
        self.tensors: dict[str, torch.Tensor] = {}
        for name, type in self.types.items():
            if name not in values:
                raise InputError(f"no tensor for buffer {name!r}: add it to values")
            self.tensors[name] = self._view(name, type, values[name])
        narrow = {b.name for b in launch.buffers if b.element is Element.BFLOAT16}
        first = next(tensor for name, tensor in self.tensors.items() if name not in narrow)
        self.dtype, self.device = first.dtype, first.device
        for name, tensor in self.tensors.items():
            wanted = torch.bfloat16 if name in narrow else self.dtype
            if (tensor.dtype, tensor.device) != (wanted, self.device):
                raise InputError(
                    f"buffer {name!r} is {tensor.dtype} on {tensor.device}, others are "
                    f"{self.dtype} on {self.device}: give it as {wanted} there"
                )

    def _view(self, name: str, type: Type, tensor: torch.Tensor) -> torch.Tensor:
        count = self.count(Rows(type.space, type.group))
        if type.space is Space.NODE and len(tensor) == self.graph.num_sources:
            count = len(tensor)  # read at sources, which may be other nodes
        shape = (count, *type.shape)
        if tensor.shape[:1] != (count,) or tensor.numel() != count * type.width:
            raise InputError(
                f"the tensor of buffer {name!r} has shape {tuple(tensor.shape)}: {shape} is needed"
            )
        if not (tensor.is_contiguous() and tensor.is_floating_point()):
            raise InputError(
                f"the tensor of buffer {name!r} must be contiguous and of a floating dtype: call "
                ".contiguous(), or convert it"
            )
        return tensor.view(shape)

    def count(self, rows: Rows) -> int:
        """How many rows a space has."""
        return row_count(rows, self.index_of, self.graph)

    # Which rows belong to which. None stands for "the same rows".

    def _ids(self, ids: torch.Tensor) -> torch.Tensor:
        return ids.to(device=self.device, dtype=torch.int64)

    def node(self, rows: Rows, end: End) -> torch.Tensor | None:
        """The node at one end of each row."""
        index = self.index_of(rows.group)
        match rows.space, end:
            case Space.NODE, _:
                return None
            case Space.EDGE, End.SRC:
                return self._ids(index.src)
            case Space.EDGE, _:
                return self._ids(index.dst)
            case Space.SRC_PAIR, _:
                return self._ids(index.src_pair_node)
            case Space.DST_PAIR, _:
                return self._ids(index.dst_pair_node)
        raise AssertionError(f"{rows.space} rows have no node")

    def etype(self, rows: Rows) -> torch.Tensor:
        """The edge type of each row."""
        index = self.index_of(rows.group)
        match rows.space:
            case Space.EDGE:
                return self._ids(index.etype)
            case Space.SRC_PAIR:
                return self._ids(index.src_pair_etype)
            case Space.DST_PAIR:
                return self._ids(index.dst_pair_etype)
        raise AssertionError(f"{rows.space} rows have no edge type")

    def pair(self, group: str, space: Space) -> torch.Tensor:
        """The pair of each edge of a group."""
        index = self.index_of(group)
        match space:
            case Space.SRC_PAIR:
                return self._ids(index.src_pair_of_edge)
            case Space.DST_PAIR:
                return self._ids(index.dst_pair_of_edge)
        raise AssertionError(f"{space} is no pair")

    def places(self, type: Type, rows: Rows, end: End) -> torch.Tensor | None:
        """The buffer row that each of the loop's rows belongs to."""
        match type.space:
            case Space.NODE:
                return self.node(rows, end)
            case Space.NTYPE:
                ntype, node = self._ids(self.graph.ntype), self.node(rows, end)
                return ntype if node is None else ntype[node]
            case Space.ETYPE:
                return self.etype(rows)
            case Space.SHARED:
                return torch.zeros(self.count(rows), dtype=torch.int64, device=self.device)
            case Space.EDGE:
                return self._ids(self.index_of(rows.group).position) if rows.group else None
            case _:
                return None if type.space is rows.space else self.pair(rows.group, type.space)

    def read(self, name: str, rows: Rows, end: End = End.NONE) -> torch.Tensor:
        """A copy of the buffer's row for each of the loop's rows."""
        places = self.places(self.types[name], rows, end)
        tensor = self.tensors[name]
        return (tensor.clone() if places is None else tensor[places]).to(self.dtype)

    def write(self, name: str, rows: Rows, value: torch.Tensor, accumulate: bool) -> None:
        """Set, or add to, the buffer's row of each of the loop's rows."""
        places = self.places(self.types[name], rows, End.NONE)
        tensor = self.tensors[name]
        value = value.reshape(len(value), *self.types[name].shape).to(tensor.dtype)
        if places is None and accumulate:
            tensor += value
        elif places is None:
            tensor.copy_(value)
        elif accumulate:
            tensor.index_add_(0, places, value)
        else:
            tensor[places] = value
