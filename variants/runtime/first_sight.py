"""Whether a graph that nobody has seen before is left to the module itself.

Indexing a graph, choosing for it and binding kernels to it takes milliseconds, whatever its size.
On a small graph PyG's layer has finished by then. So that a graph which never comes back costs no
more than without hetune, the module runs on it first; on what comes again, compiled kernels do.

That follows from counts, not from a clock: equal calls run the same way. Times are those of one
core of a server, which others divide both sides by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.calls import Call

_MOST_EDGES = 1 << 14
"""Of larger graphs indexes are worth their time."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What both ways' times follow from."""

    edges: int
    nodes: int
    relations: int
    d_in: int
    d_out: int


def is_left_to_module(adapter: Adapter, call: Call) -> bool:
    """Whether the module should be done before kernels could begin.

    Only where it would refuse what kernels refuse; ids out of range, for one, it may not notice.

    Args:
        adapter: Of the layer.
        call: With edge tensors, on a CPU.
    """
    known = _TIMES.get(type(adapter.module).__name__)
    if known is None:
        return False
    lists = call.tensors[:1] if isinstance(call.edges, tuple) else call.tensors
    edges = sum(ids.shape[-1] for ids in lists)
    if not 0 < edges <= _MOST_EDGES:
        return False
    x = [call.x] if isinstance(call.x, Tensor) else list(call.x.values())
    program = adapter.program
    sizes = Sizes(
        edges,
        sum(rows.shape[0] for rows in x),
        adapter.num_relations,
        program.type_of("x").width,
        program.type_of(program.result).width,
    )
    return known.module(sizes) < known.compiled(sizes) and _is_checked(adapter, call, known)


def _rgcn(n: Sizes) -> float:
    per_relation = 90 + 0.01 * n.edges + 2e-3 * n.nodes * n.d_out
    return 100 + n.relations * per_relation + 2e-3 * n.edges * n.d_in


def _fast_rgcn(n: Sizes) -> float:
    return 150 + n.edges * (0.55 + 0.35e-3 * n.d_in * n.d_out) + _outside_of_caches(n)


def _rgat(n: Sizes) -> float:
    return 190 + n.edges * 0.55 + _outside_of_caches(n)


def _outside_of_caches(n: Sizes) -> float:
    """Where the weights of all edges, side by side, do not fit."""
    return 0.8e-3 * max(0, n.edges * n.d_in * n.d_out - 1_500_000)


def _hgt(n: Sizes) -> float:
    return 450 + 90 * n.relations + n.edges * (0.25 + 4e-3 * n.d_out)


def _compiled(once: float, relation: float, edge: float) -> Callable[[Sizes], float]:
    return lambda n: once + relation * n.relations + edge * n.edges


@dataclass(frozen=True, slots=True)
class _Times:
    """Of a class of modules, in microseconds.

    Attributes:
        module: Of the module's run.
        compiled: Of all that comes before and with a first compiled run.
        refuses_types: Whether the module itself refuses edge types that are out of range.
    """

    module: Callable[[Sizes], float]
    compiled: Callable[[Sizes], float]
    refuses_types: bool = True


_TIMES: Mapping[str, _Times] = {
    "RGCNConv": _Times(_rgcn, _compiled(1500, 20, 0.15), refuses_types=False),
    "FastRGCNConv": _Times(_fast_rgcn, _compiled(1500, 20, 0.15), refuses_types=False),
    "RGATConv": _Times(_rgat, _compiled(1800, 20, 0.2)),
    "HGTConv": _Times(_hgt, _compiled(2400, 50, 0.25)),
}


def _is_checked(adapter: Adapter, call: Call, known: _Times) -> bool:
    if isinstance(call.edges, tuple):
        edge_index, edge_type = call.edges
        return (
            edge_type.shape == edge_index.shape[1:]
            and edge_index.dtype is torch.int64
            and (known.refuses_types or _are_below(edge_type[None], adapter.num_relations))
        )
    assert isinstance(call.x, Mapping)
    assert isinstance(call.edges, Mapping)
    assert adapter.metadata is not None
    nodes, edge_types = adapter.metadata
    if call.x.keys() != set(nodes) or call.edges.keys() != set(edge_types):
        return False
    rows = {name: each.shape[0] for name, each in call.x.items()}
    return all(
        _are_below(ids, rows[source], rows[target])
        for (source, _, target), ids in call.edges.items()
    )


def _are_below(ids: Tensor, *bounds: int) -> bool:
    """Whether each row's ids are within its bounds, and of the dtype that PyG's layers take."""
    if ids.dtype is not torch.int64 or not ids.numel():
        return ids.dtype is torch.int64
    low, high = torch.aminmax(ids, dim=1)
    return min(low.tolist()) >= 0 and all(map(int.__lt__, high.tolist(), bounds))
