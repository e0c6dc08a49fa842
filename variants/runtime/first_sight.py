"""Graphs that a layer meets for the first time, and leaves to its module.

Indexing a graph, choosing for it and binding kernels to it takes milliseconds, whatever its size.
On a small graph PyG's layer has finished by then. So that a graph which never comes back costs no
more than without hetune, the module runs on it first; on what comes again, compiled kernels do.

That follows from counts, not from a clock: equal calls run the same way. Times are those of one
core of a server, which others divide both sides by.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from hetune.variants.frontend.adapter import Adapter, Metadata
from hetune.variants.frontend.calls import parameter_names
from hetune.variants.graph import CanonicalEtype
from hetune.variants.runtime.edges import GraphCache
from hetune.variants.runtime.modes import differentiates, transform

_MOST_EDGES = 1 << 14
"""Of larger graphs indexes are worth their time."""


class FirstSight:
    """Tells which calls of a layer are left to its module.

    Small layers of PyG take 0.1 ms, and every call of a layer passes here: so it does little, and
    says no to what is unusual. What the module itself refuses is not looked for.

    Args:
        adapter: Of the layer.
        graphs: Those that came before.
    """

    def __init__(self, adapter: Adapter, graphs: GraphCache) -> None:
        program = adapter.program
        self._adapter, self._graphs = adapter, graphs
        self._times = _TIMES.get(type(adapter.module).__name__)
        self._reader: _FlatReader | _TypedReader = (
            _TypedReader(adapter.metadata)
            if adapter.metadata is not None
            else _FlatReader(adapter.num_relations)
        )
        self._names = parameter_names(adapter.module)[: self._reader.count]
        self._widths = adapter.width, program.type_of(program.results[0]).width

    def is_left_to_module(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> bool:
        """Whether a call's graph is new, and the module done before kernels could begin.

        Only where the module would refuse what kernels refuse: ids out of range, for one, it may
        not notice.

        Args:
            module: What would run.
            args: Of the call.
            kwargs: Likewise.
        """
        adapter, times = self._adapter, self._times
        if times is None or module is not adapter.module:
            return False
        if kwargs:
            if self._names[len(args) :] != tuple(kwargs):
                return False
            args = (*args, *kwargs.values())
        read = self._reader.read(*args) if len(args) == len(self._names) else None
        if read is None or not 0 < read.edges <= _MOST_EDGES:
            return False
        if self._graphs.holds(read.tensors, read.others):
            return False
        sizes = _Sizes(read.edges, read.nodes, adapter.num_relations, *self._widths)
        return (
            times.module(sizes) < times.compiled(sizes)
            and transform() is None
            and not differentiates(lambda: (*read.features, *module.parameters()))
            and (times.refuses_ids or self._reader.are_in_range(*args))
            and self._graphs.is_new(read.tensors, read.others)
        )


class _Read(NamedTuple):
    """What a call gives; `tensors` and `others` as `GraphCache` takes them."""

    tensors: tuple[Tensor, ...]
    others: tuple[object, ...]
    features: tuple[Tensor, ...]
    edges: int
    nodes: int


class _FlatReader:
    """Of calls with one tensor of nodes, an edge_index and an edge_type."""

    count = 3

    def __init__(self, relations: int) -> None:
        self._relations = relations

    def read(self, x: object, edge_index: object, edge_type: object) -> _Read | None:
        if not (
            isinstance(x, Tensor)
            and x.dim() == 2
            and type(edge_index) is type(edge_type) is Tensor
            and edge_index.dtype is edge_type.dtype is torch.int64
            and edge_type.is_cpu
            and edge_type.dim() == 1
            and edge_index.shape == (2, edge_type.size(0))
        ):
            return None
        nodes = x.size(0)
        return _Read((edge_index, edge_type), (nodes,), (x,), edge_type.numel(), nodes)

    def are_in_range(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> bool:
        """Whether all edge types are; the module looks at the nodes."""
        unsigned = edge_type.numpy().view(np.uint64)  # negative ones are the highest
        return int(np.maximum.reduce(unsigned)) < self._relations


class _TypedReader:
    """Of calls with dictionaries of the types that the layer is for."""

    count = 2

    def __init__(self, metadata: Metadata) -> None:
        self._types, self._edge_types = map(frozenset, metadata)

    def read(self, x: object, edges: object) -> _Read | None:
        if not (
            isinstance(x, Mapping)
            and isinstance(edges, Mapping)
            and x.keys() == self._types
            and edges.keys() == self._edge_types
            and all(isinstance(rows, Tensor) and rows.dim() == 2 for rows in x.values())
            and all(type(ids) is Tensor and ids.dtype is torch.int64 for ids in edges.values())
            and all(ids.is_cpu and ids.dim() == 2 == ids.size(0) for ids in edges.values())
        ):
            return None
        counts = {name: rows.size(0) for name, rows in x.items()}
        tensors = tuple(edges.values())
        edge_count, nodes = sum(ids.size(1) for ids in tensors), sum(counts.values())
        others = (*counts.items(), *edges)
        return _Read(tensors, others, tuple(x.values()), edge_count, nodes)

    def are_in_range(self, x: Mapping[str, Tensor], edges: Mapping[CanonicalEtype, Tensor]) -> bool:
        """Whether all nodes are of their types."""
        filled = {key: ids.numpy() for key, ids in edges.items() if ids.size(1)}
        starts = [0, *itertools.accumulate(ids.shape[1] for ids in filled.values())]
        unsigned = np.concatenate([*filled.values()], axis=1).view(np.uint64)
        highest = np.maximum.reduceat(unsigned, starts[:-1], axis=1)
        bounds = [[x[key[end]].size(0) for key in filled] for end in (0, 2)]
        return bool((highest < np.array(bounds, np.uint64)).all())


class _Sizes(NamedTuple):
    """What both ways' times follow from."""

    edges: int
    nodes: int
    relations: int
    d_in: int
    d_out: int


def _rgcn(n: _Sizes) -> float:
    per_relation = 90 + 0.01 * n.edges + 2e-3 * n.nodes * n.d_out
    return 100 + n.relations * per_relation + 2e-3 * n.edges * n.d_in


def _fast_rgcn(n: _Sizes) -> float:
    return 150 + n.edges * (0.55 + 0.35e-3 * n.d_in * n.d_out) + _outside_of_caches(n)


def _rgat(n: _Sizes) -> float:
    return 190 + n.edges * 0.55 + _outside_of_caches(n)


def _outside_of_caches(n: _Sizes) -> float:
    """Where the weights of all edges, side by side, do not fit."""
    return 0.8e-3 * max(0, n.edges * n.d_in * n.d_out - 1_500_000)


def _hgt(n: _Sizes) -> float:
    return 450 + 90 * n.relations + n.edges * (0.25 + 4e-3 * n.d_out)


def _compiled(once: float, relation: float, edge: float) -> Callable[[_Sizes], float]:
    return lambda n: once + relation * n.relations + edge * n.edges


@dataclass(frozen=True, slots=True)
class _Times:
    """Of a class of modules, in microseconds.

    Attributes:
        module: Of the module's run.
        compiled: Of all that comes before and with a first compiled run.
        refuses_ids: Whether the module itself refuses all ids that are out of range.
    """

    module: Callable[[_Sizes], float]
    compiled: Callable[[_Sizes], float]
    refuses_ids: bool = False


_TIMES: Mapping[str, _Times] = {
    "RGCNConv": _Times(_rgcn, _compiled(1500, 20, 0.15)),
    "FastRGCNConv": _Times(_fast_rgcn, _compiled(1500, 20, 0.15)),
    "RGATConv": _Times(_rgat, _compiled(1800, 20, 0.2), refuses_ids=True),
    "HGTConv": _Times(_hgt, _compiled(2400, 50, 0.25)),
}
