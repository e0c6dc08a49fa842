"""Calls with rows of nodes and edge tensors, read without making a graph."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import torch
from torch import Tensor

from hetune.variants.frontend.adapter import Adapter, ByType
from hetune.variants.frontend.call import LooseEdges
from hetune.variants.frontend.tracing.arguments import of_one_width
from hetune.variants.graph.lazy_tensors import is_lazy
from hetune.variants.graph.reused_index import EdgePart


def loose_edges(adapter: Adapter, x: Tensor | ByType, edges: object) -> LooseEdges | None:
    """What such a call gives; None where it takes a graph to run or to say what is wrong.

    Args:
        adapter: Of the layer.
        x: Its feature, of all nodes or of each node type.
        edges: What goes with that.
    """
    if not adapter.takes_any_graph:
        return None
    if isinstance(x, Tensor):
        return _of_one_type(adapter, x, *edges) if isinstance(edges, tuple) else None
    return _by_type(adapter, x, edges) if isinstance(edges, Mapping) else None


def _of_one_type(
    adapter: Adapter, x: Tensor, edge_index: Tensor, etype: Tensor
) -> LooseEdges | None:
    if etype.shape != edge_index.shape[1:] or x.shape[1:] != (adapter.width,):
        return None
    src, dst = reversed(tuple(edge_index)) if adapter.is_reversed else tuple(edge_index)
    shape = len(x), adapter.result_width
    parts = (EdgePart(src, dst, etype),)
    return LooseEdges(parts, (len(x),), {"x": x}, lambda out: out.view(shape))


def _by_type(adapter: Adapter, x: ByType, edges: ByType) -> LooseEdges | None:
    assert adapter.metadata is not None
    names, etypes = adapter.metadata
    widths, width = adapter.widths, adapter.width
    types = {name: i for i, name in enumerate(names)}
    if not (x and x.keys() <= types.keys() and edges.keys() <= set(etypes)):
        return None
    if any(rows.shape[1:] != (widths.get(name, width),) for name, rows in x.items()):
        return None
    parts = [
        EdgePart(edges[key][0], edges[key][1], r, (types[key[0]], types[key[2]]))
        for r, key in enumerate(etypes)
        if key in edges
    ]
    nodes = [len(x[name]) if name in x else 0 for name in names]
    ends = [*accumulate(nodes)]
    spans = [
        (name, ends[types[name]] - len(x[name]), ends[types[name]])
        for name in adapter.result_types
        if name in x
    ]

    def result(out: Tensor) -> dict[str, Tensor]:
        rows = out.view(ends[-1], adapter.result_width)
        return {name: rows[first:last] for name, first, last in spans}

    rows = joined(of_one_width([x[name] for name in names if name in x], width))
    return LooseEdges(parts, nodes, {"x": rows}, result)


def joined(parts: list[Tensor]) -> Tensor:
    """The rows of all parts: a view where they lie one after the other, as views of one tensor do.

    So do the results of a layer before this one.
    """
    if torch.is_grad_enabled() or any(map(is_lazy, parts)):
        return torch.cat(parts)
    first, end = parts[0], parts[0].storage_offset()
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        same = same and part.dtype is first.dtype
        if not (same and part.is_contiguous() and part.storage_offset() == end):
            return torch.cat(parts)
        end += part.numel()
    rows = sum(part.shape[0] for part in parts)
    return first.as_strided((rows, first.shape[1]), (first.shape[1], 1))
