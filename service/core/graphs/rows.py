"""Rows of nodes: features that come in, and the parts of outputs that go out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.lazy_tensors import is_lazy

Rows = Tensor | dict[str, Tensor]
"""Rows of all nodes in the graph's order, or by node type."""
Nodes = Tensor | Mapping[str, Tensor | None]
"""Ids of nodes in the graph's order, int64 [n]; or by node type, from 0 in each type, where None
stands for all."""
_SHOWN = 200
_INTEGERS = (torch.int16, torch.int32, torch.int64)
_ONE_WIDTH: Mapping[str, int] = MappingProxyType({})
"""Widths of rows of each node type, where these do not differ."""


class PaddedRows(dict[str, Tensor]):
    """Rows of each node type, views of rows of all nodes that zeros make as wide as the widest.

    Args:
        rows: Of all nodes, float32 [N, width].
        graph: Theirs.
        widths: Of the rows of each node type, without those zeros.
    """

    def __init__(self, rows: Tensor, graph: HeteroGraph, widths: Mapping[str, int]) -> None:
        super().__init__(rows_by_type(rows, graph, widths))
        self.rows = rows


def features_of(
    features: Tensor | Mapping[str, Tensor],
    graph: HeteroGraph,
    width: int,
    widths: Mapping[str, int] = _ONE_WIDTH,
) -> Tensor:
    """Rows of all nodes in the graph's order, float32 [N, width].

    Args:
        features: Of all nodes, or of each node type.
        graph: Theirs.
        width: Of the rows.
        widths: Of those of each node type, if these differ: zeros follow up to `width`.

    Raises:
        InputError: Dtypes or shapes do not fit.
    """
    if isinstance(features, Tensor) and widths:
        each = (f"rows of {own} for {name[:_SHOWN]!r}" for name, own in widths.items())
        raise InputError(f"node types have features of different widths: give {_list_of(each)}")
    if isinstance(features, Tensor):
        _check_rows("the features", features, graph.num_nodes, width)
        return features if features.numel() else features.view(-1, width)
    spans = node_spans(graph)
    _check_types(features, spans)
    for name, (first, last) in spans.items():
        if name not in features and last > first:
            raise InputError(f"features of the node type {name!r} are missing: give one row a node")
        if name in features:
            own = widths.get(name, width)
            _check_rows(f"the features of {name!r}", features[name], last - first, own)
    if not widths:
        return _joined([features[name] for name in spans if name in features], width)
    if isinstance(features, PaddedRows) and features.rows.shape[1] == width:
        return features.rows
    joined = torch.zeros(graph.num_nodes, width, dtype=torch.float32)
    for name, (first, last) in spans.items():
        if last > first:
            joined[first:last, : widths.get(name, width)] = features[name]
    return joined


def pick(out: Tensor, graph: HeteroGraph, nodes: Nodes | None, by_type: bool) -> Rows:
    """The rows that were asked for.

    Args:
        out: Rows of all nodes, [N, width].
        graph: Theirs.
        nodes: Which; None for all.
        by_type: Whether all rows are given by node type; `nodes` decide otherwise.

    Raises:
        InputError: There are no such nodes.
    """
    if nodes is None:
        return rows_by_type(out, graph) if by_type else out
    check_nodes(nodes, graph)
    spans = node_spans(graph)
    if isinstance(nodes, Tensor):
        return out[nodes.long()]
    rows = {name: out[spans[name][0] : spans[name][1]] for name in nodes}
    return {  # copies, which hold nothing of the other rows
        name: rows[name].clone() if ids is None else rows[name][ids.long()]
        for name, ids in nodes.items()
    }


def reached(out: Tensor, among: Tensor, graph: HeteroGraph, nodes: Nodes) -> Rows:
    """The rows that were asked for, of those of some nodes.

    Args:
        out: Their rows, [n, width].
        among: Their ids in the graph's order, ascending, int64 [n].
        graph: The graph.
        nodes: Which; all are among them.
    """
    spans = node_spans(graph)
    if isinstance(nodes, Tensor):
        return out[torch.searchsorted(among, nodes.long())]
    return {
        name: out[torch.searchsorted(among, _in_order(ids, spans[name]))]
        for name, ids in nodes.items()
    }


def ids_of(nodes: Nodes, graph: HeteroGraph) -> Tensor:
    """Ids in the graph's order, int64: of all types together."""
    if isinstance(nodes, Tensor):
        return nodes.long()
    spans = node_spans(graph)
    parts = [_in_order(ids, spans[name]) for name, ids in nodes.items()]
    return torch.cat([torch.empty(0, dtype=torch.int64), *parts])


def count_of(nodes: Nodes, graph: HeteroGraph) -> int:
    """How many ids these are; each counts as often as it is there."""
    if isinstance(nodes, Tensor):
        return nodes.numel()
    spans = node_spans(graph)
    return sum(
        spans[name][1] - spans[name][0] if ids is None else ids.numel()
        for name, ids in nodes.items()
    )


def check_nodes(nodes: Nodes | None, graph: HeteroGraph) -> None:
    """Checks that there are such nodes.

    Raises:
        InputError: There are not.
    """
    if nodes is None:
        return
    if isinstance(nodes, Tensor):
        _check_ids("nodes", nodes, graph.num_nodes)
        return
    spans = node_spans(graph)
    _check_types(nodes, spans)
    for name, ids in nodes.items():
        first, last = spans[name]
        if ids is not None:
            _check_ids(f"nodes of the type {name!r}", ids, last - first)


def node_spans(graph: HeteroGraph) -> dict[str, tuple[int, int]]:
    """The first node of each type, and the one after its last, in the graph's order."""
    offsets = graph.node_offsets
    return dict(zip(graph.ntype_names, itertools.pairwise(offsets), strict=True))


def rows_by_type(
    rows: Tensor, graph: HeteroGraph, widths: Mapping[str, int] = _ONE_WIDTH
) -> dict[str, Tensor]:
    """Rows of all nodes in the graph's order, [N, width], as views by node type.

    Args:
        rows: Of all nodes.
        graph: Theirs.
        widths: How much to show of the rows of each node type, if that differs.
    """
    spans = node_spans(graph).items()
    return {name: rows[first:last, : widths.get(name)] for name, (first, last) in spans}


def _joined(parts: Sequence[Tensor], width: int) -> Tensor:
    """Rows one after the other, not copied if they lie so already, as those of `rows_by_type`."""
    parts = [part for part in parts if part.numel()]
    if not parts:
        return torch.empty(0, width)
    if any(map(is_lazy, parts)):
        return torch.cat(parts)
    memory, end = parts[0].untyped_storage().data_ptr(), parts[0].data_ptr()
    for part in parts:
        follows = part.untyped_storage().data_ptr() == memory and part.data_ptr() == end
        if not (follows and part.is_contiguous()):
            return torch.cat(parts)
        end += part.nbytes
    return parts[0].as_strided((sum(part.shape[0] for part in parts), width), (width, 1))


def _in_order(ids: Tensor | None, span: tuple[int, int]) -> Tensor:
    """Ids of a type as those of the graph's order; None stands for all."""
    return torch.arange(*span) if ids is None else ids.long() + span[0]


def _check_types(given: Iterable[str], spans: Mapping[str, tuple[int, int]]) -> None:
    for name in given:
        if name not in spans:
            raise InputError(
                f"the graph has no node type {name[:_SHOWN]!r}: its types are {_list_of(spans)}"
            )


def _list_of(names: Iterable[str]) -> str:
    text = ", ".join(itertools.islice(names, _SHOWN))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _check_rows(what: str, rows: Tensor, count: int, width: int) -> None:
    if rows.dtype != torch.float32:
        raise InputError(f"{what} are {rows.dtype}: give torch.float32")
    empty = count == 0 and rows.numel() == 0  # JSON cannot tell the width of no rows
    if not empty and rows.shape != (count, width):
        raise InputError(
            f"{what} have the shape {list(rows.shape)}: give {[count, width]}, a row of width "
            f"{width} for each node"
        )


def _check_ids(what: str, ids: Tensor, count: int) -> None:
    if ids.dtype not in _INTEGERS or ids.dim() != 1:
        raise InputError(f"{what} are {ids.dtype} {list(ids.shape)}: give a list of integers")
    if ids.numel() == 0:
        return
    low, high = (int(bound) for bound in torch.aminmax(ids))
    if low < 0 or high >= count:
        raise InputError(
            f"{what}: {low if low < 0 else high} is no id, for there are {count} such nodes, "
            "numbered from 0"
        )
