"""Graphs that a layer meets for the first time, and leaves to its module.

Indexing a graph, choosing for it and binding kernels to it takes milliseconds, whatever its size.
On a small graph PyG's layer has finished by then. So that a graph which never comes back costs no
more than without hetune, the module runs on it first; on what comes again, compiled kernels do.

That follows from counts, not from a clock: equal calls run the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.adapter import Adapter, Metadata
from hetune.variants.frontend.calls import parameter_names
from hetune.variants.frontend.module_run import ModuleRun
from hetune.variants.graph import CanonicalEtype
from hetune.variants.runtime.edges import GraphCache
from hetune.variants.runtime.modes import transform

_MOST_EDGES = 1 << 14
"""Of larger graphs indexes are worth their time."""
_FEW_EDGES = 400
"""Python compares so few ids in less time than the first operator of a call takes."""
_PREPARATION = {"flat": (1600, 20, 0.2), "hetero": (2300, 35, 0.25)}
"""Microseconds of all that comes before and with a first compiled run, as `ModuleRun` has them:
once, for each relation, and for each edge."""


class FirstSight:
    """Tells which calls of a layer are left to its module.

    Small layers of PyG take 0.1 ms, and every call of a layer passes here, with the processor's
    caches full of other things: so it does little, in few lines, and says no to what is unusual.
    What the module itself refuses is not looked for.

    Args:
        adapter: Of the layer.
        run: Of its module.
        graphs: Those that came before.
    """

    def __init__(self, adapter: Adapter, run: ModuleRun, graphs: GraphCache) -> None:
        self._module, self._graphs = adapter.module, graphs
        self._reader: _FlatReader | _TypedReader = (
            _TypedReader(adapter.metadata)
            if adapter.metadata is not None
            else _FlatReader(adapter.num_relations)
        )
        self._count = self._reader.count
        self._names = parameter_names(adapter.module)[: self._count]
        once, relation, edge = _PREPARATION[adapter.signature]
        self._most = once + relation * adapter.num_relations - run.once
        self._edge, self._node = run.edge - edge, run.node
        self._refuses_ids = run.refuses_ids

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
        if kwargs:
            if self._names[len(args) :] != tuple(kwargs):
                return False
            args = (*args, *kwargs.values())
        read = self._reader.read(*args) if len(args) == self._count else None
        if read is None:
            return False
        tensors, others, edges, nodes = read
        return (
            0 < edges <= _MOST_EDGES
            and edges * self._edge + nodes * self._node < self._most
            and module is self._module
            and self._graphs.is_new(tensors, others)
            and transform() is None
            and (self._refuses_ids or self._reader.are_in_range(edges, *args))
        )


_Read = tuple[tuple[Tensor, ...], tuple[object, ...], int, int]
"""Edge tensors and what else a graph is made of, as `GraphCache` takes them; edges and nodes."""


class _FlatReader:
    """Of calls with one tensor of nodes, an edge_index and an edge_type."""

    count = 3

    def __init__(self, relations: int) -> None:
        self._relations = frozenset(range(relations))

    def read(self, x: object, edge_index: object, edge_type: object) -> _Read | None:
        if not (
            type(edge_index) is type(edge_type) is Tensor
            and isinstance(x, Tensor)
            and x.dim() == 2
            and edge_index.dtype is edge_type.dtype is _INT64
            and edge_type.is_cpu
            and edge_type.dim() == 1
        ):
            return None
        nodes, edges = x.size(0), edge_type.size(0)
        if edge_index.shape != (2, edges):
            return None
        return (edge_index, edge_type), (nodes,), edges, nodes

    def are_in_range(self, edges: int, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> bool:
        """Whether all edge types are; the module looks at the nodes."""
        if edges <= _FEW_EDGES:
            return self._relations.issuperset(edge_type.tolist())
        return _are_below(edge_type, len(self._relations))


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
        ):
            return None
        edge_count, nodes, counts = 0, 0, []
        for rows in x.values():
            if not isinstance(rows, Tensor) or rows.dim() != 2:
                return None
            counts.append(rows.size(0))
        for ids in edges.values():
            if not (
                type(ids) is Tensor
                and ids.dtype is _INT64
                and ids.is_cpu
                and ids.dim() == 2 == ids.size(0)
            ):
                return None
            edge_count += ids.size(1)
        nodes = sum(counts)
        return tuple(edges.values()), (*zip(x, counts, strict=True), *edges), edge_count, nodes

    def are_in_range(
        self, edges: int, x: Mapping[str, Tensor], lists: Mapping[CanonicalEtype, Tensor]
    ) -> bool:
        """Whether all nodes are of their types."""
        for (source, _, target), ids in lists.items():
            if not ids.size(1):
                continue
            bounds = x[source].size(0), x[target].size(0)
            if edges <= _FEW_EDGES:
                for end, bound in zip(ids.tolist(), bounds, strict=True):
                    if min(end) < 0 or max(end) >= bound:
                        return False
            elif not all(map(_are_below, ids, bounds)):
                return False
        return True


def _are_below(ids: Tensor, bound: int) -> bool:
    lowest, highest = torch.aminmax(ids)
    return int(lowest) >= 0 and int(highest) < bound


_INT64 = torch.int64
