"""How a module's own call reads as rows and a graph, and what it wants back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.errors import GraphError, InputError
from hetune.variants.frontend.adapter import Adapter, Unsupported, is_wrapper
from hetune.variants.frontend.call import Call, LooseEdges, RepeatReader
from hetune.variants.frontend.edge_errors import check_edge_dict, check_edge_tensors
from hetune.variants.frontend.loose_edges import joined, loose_edges
from hetune.variants.frontend.tracing.arguments import as_plain, of_one_width
from hetune.variants.frontend.tracing.sparse_tensors import is_sparse, made_of
from hetune.variants.frontend.type_order import order_of
from hetune.variants.graph import CanonicalEtype, HeteroGraph, from_edge_index_dict
from hetune.variants.graph.reverse import reversed_graph

_INTEGERS = torch.int16, torch.int32, torch.int64
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_NAMES = "int16, int32 or int64"
TRACED = "traced"
"""The kind of calls that a layer is traced for though it has an adapter by hand."""


class LayerCall(Call):
    """A call with rows of nodes and typed edges.

    Args:
        adapter: Of the layer.
        x: Its feature ``x``, of all nodes or of each node type.
        edges: A graph, ``(edge_index, edge_type)``, or an edge_index for each edge type.
    """

    __slots__ = ("_adapter", "_edges", "x")

    def __init__(
        self,
        adapter: Adapter,
        x: Tensor | Mapping[str, Tensor],
        edges: HeteroGraph | tuple[Tensor, Tensor] | Mapping[CanonicalEtype, Tensor],
    ) -> None:
        self._adapter, self.x, self._edges = adapter, x, edges

    @property
    def features(self) -> tuple[Tensor, ...]:
        """The rows, of all nodes or of each type."""
        return (self.x,) if isinstance(self.x, Tensor) else tuple(self.x.values())

    @property
    def edges(self) -> object:
        """As they were given."""
        return self._edges

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The edge tensors, none where a graph was given."""
        if isinstance(self._edges, HeteroGraph):
            return ()
        return self._edges if isinstance(self._edges, tuple) else tuple(self._edges.values())

    @property
    def others(self) -> tuple[object, ...]:
        """Numbers of nodes, and edge types."""
        if isinstance(self.x, Tensor):
            return (self.x.shape[0],)
        counts = ((name, rows.shape[0]) for name, rows in self.x.items())
        return (*counts, *(self._edges if isinstance(self._edges, Mapping) else ()))

    def graph(self) -> HeteroGraph:
        """The graph, in the direction that messages go; built where edge tensors were given."""
        adapter = self._adapter
        match self._edges:
            case HeteroGraph() as graph:
                return graph_for(adapter, graph)
            case (edge_index, edge_type):
                assert isinstance(self.x, Tensor)
                return flat_graph(adapter, edge_index, edge_type, self.x.shape[0])
            case edges:
                assert isinstance(self.x, Mapping)
                assert adapter.metadata is not None
                try:
                    return from_edge_index_dict(edges, x_dict=self.x, metadata=adapter.metadata)
                except GraphError:
                    check_edge_dict(edges, self.x, list(adapter.metadata[1]))
                    raise

    def inputs(self, graph: HeteroGraph) -> dict[str, Tensor]:
        """Features of all nodes in the graph's order, [N, width].

        Raises:
            InputError: Their number or device is not the graph's, or their width not the module's.
        """
        width = self._adapter.width
        if isinstance(self.x, Tensor):
            x = self.x
        else:
            x = _concatenated(self.x, graph, width, self._adapter.widths)
        if x.shape != (graph.num_nodes, width):
            raise InputError(
                f"x has the shape {list(x.shape)}: give one row of {width} for each of the graph's "
                f"{graph.num_nodes} nodes"
            )
        check_device("x", x, graph)
        return {"x": x}

    def repeat_reader(self, args: tuple[Any, ...]) -> RepeatReader | None:
        """Those with rows, and with the same edges as they were given."""
        adapter, (x, *edges) = self._adapter, args
        if x is not self.x:
            return None
        if len(edges) == 1 and _are_same(edges[0], self._edges):
            return lambda args: LayerCall(adapter, *args)
        if isinstance(self._edges, tuple) and [*map(id, edges)] == [*map(id, self._edges)]:
            return lambda args: LayerCall(adapter, args[0], (args[1], args[2]))
        return None

    def loose_edges(self) -> LooseEdges | None:
        """Where edge tensors were given."""
        return loose_edges(self._adapter, self.x, self._edges)

    def result(self, graph: HeteroGraph, results: tuple[Tensor, ...]) -> Tensor | dict[str, Tensor]:
        """The result [N, width] as the call wants it: dictionaries get views per node type."""
        out = flattened(results[0])
        if isinstance(self.x, Tensor):
            return out
        first = dict(zip(graph.ntype_names, graph.node_offsets, strict=False))
        return {
            name: out[first[name] : first[name] + self.x[name].shape[0]]
            for name in self._adapter.result_types
            if name in self.x
        }


def _are_same(edges: object, known: object) -> bool:
    """Whether these are edges, or edges of each type, that were read as they were given."""
    if edges is known:
        return True
    if not (isinstance(edges, Mapping) and isinstance(known, Mapping)):
        return False
    return [*edges] == [*known] and all(edges[key] is known[key] for key in edges)


def flattened(rows: Tensor) -> Tensor:
    """Rows [rows, *row shape] as [rows, width]."""
    return rows.flatten(1) if rows.dim() > 1 else rows.unsqueeze(1)


def graph_for(adapter: Adapter, graph: HeteroGraph) -> HeteroGraph:
    """A graph, in the direction that messages go.

    Raises:
        InputError: It does not fit the module.
    """
    order_of(adapter, graph)
    return reversed_graph(graph) if adapter.is_reversed else graph


def flat_graph(
    adapter: Adapter, edge_index: Tensor, edge_type: Tensor | None, num_nodes: int
) -> HeteroGraph:
    """The graph of edge tensors, in the direction that messages go; without types all are of one.

    Raises:
        GraphError: The edges are no graph.
        InputError: They do not fit the module.
    """
    src, dst = (1, 0) if adapter.is_reversed else (0, 1)
    relations = adapter.num_relations
    try:
        return HeteroGraph(
            edge_index[src],
            edge_index[dst],
            edge_type,
            num_nodes=num_nodes,
            num_etypes=relations,
        )
    except GraphError:
        types = edge_index.new_zeros(edge_index.shape[1]) if edge_type is None else edge_type
        check_edge_tensors(edge_index, types, num_nodes, relations)
        raise


def check_device(name: str, rows: Tensor, graph: HeteroGraph) -> None:
    """Raises `InputError` unless rows are where the graph is."""
    if rows.device != graph.device:
        raise InputError(
            f"{name} is on {rows.device} but the graph is on {graph.device}: move one of them"
        )


def read_call(
    adapter: Adapter, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Call | Unsupported:
    """Reads arguments as the module's own ``forward`` would bind them.

    Raises:
        InputError: They are not the arguments of such a call.
    """
    if adapter.read is not None:
        return adapter.read(args, kwargs)
    is_flat = adapter.signature == "flat"
    match args:
        case Tensor() as rows, HeteroGraph() as graph if not kwargs:  # most calls: no binding
            reason = feature_refusal("x", rows, adapter.dtype)
            return LayerCall(adapter, rows, graph) if reason is None else Unsupported(reason)
        case Tensor() as rows, Tensor() as ids, Tensor() as types if not kwargs and is_flat:
            return _read_flat(adapter, rows, ids, types)
        case Mapping() as x_dict, Mapping() as lists if not (kwargs or is_flat):
            return _read_hetero(adapter, x_dict, lists)
    signature = _signature(type(adapter.module).forward)
    try:
        bound = signature.bind(adapter.module, *args, **kwargs).arguments
    except TypeError as error:
        raise InputError(f"{type(adapter.module).__name__}: {error}") from None
    names = list(signature.parameters)
    x, edges = bound.get(names[1]), bound.get(names[2])
    edge_type = bound.get("edge_type")
    for name in names[3:]:
        if name != "edge_type" and bound.get(name) is not None:
            kind = TRACED if adapter.traces_others else None
            return Unsupported(f"the argument {name} is not supported", kind=kind)
    if adapter.signature == "hetero":
        return _read_hetero(adapter, x, edges)
    return _read_flat(adapter, x, edges, edge_type)


def parameter_names(module: nn.Module) -> tuple[str, ...]:
    """The names of what a module is called with."""
    return tuple(_signature(type(module).forward).parameters)[1:]


@cache
def _signature(forward: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(forward)


def _read_flat(
    adapter: Adapter, x: object, edges: object, edge_type: object
) -> LayerCall | Unsupported:
    is_ids = x is None or (isinstance(x, Tensor) and x.dtype is torch.int64 and x.dim() == 1)
    kind = "numbers of nodes" if is_ids and adapter.takes_ids else None
    if not isinstance(x, Tensor):
        kind = TRACED if isinstance(x, tuple) and adapter.traces_others else kind
        reason = f"x is {_kind(x)}: only float tensors [N, width] are supported"
        return Unsupported(reason, kind=kind)
    if (refused := feature_refusal("x", x, adapter.dtype)) is not None:
        return Unsupported(refused, kind=kind)
    if isinstance(edges, HeteroGraph):
        return LayerCall(adapter, x, edges)
    if adapter.takes_matrices:
        edges = _without_matrix(edges, len(x), len(x))
    read = read_edges(edges, edge_type)
    return read if isinstance(read, Unsupported) else LayerCall(adapter, x, read)


def read_edges(edges: object, edge_type: object) -> tuple[Tensor, Tensor] | Unsupported:
    """An edge_index [2, E] and an edge_type [E] of integers, or why they are none."""
    edge_index = read_edge_index(edges)
    if isinstance(edge_index, Unsupported):
        return edge_index
    edge_type = as_plain(edge_type)
    if not isinstance(edge_type, Tensor) or edge_type.dtype not in _INTEGERS:
        return Unsupported(
            f"edge_type is {_kind(edge_type)}: only tensors of {_NAMES} are supported"
        )
    if (reason := _wrapped("edge_type", edge_type)) is not None:
        return Unsupported(reason)
    return edge_index, edge_type


def read_edge_index(edges: object) -> Tensor | Unsupported:
    """An edge_index [2, E] of integers, or why it is none."""
    edges = as_plain(edges)
    if (reason := _edge_refusal("edge_index", edges)) is not None:
        return Unsupported(reason)
    assert isinstance(edges, Tensor)
    return edges


def _read_hetero(adapter: Adapter, x: object, edges: object) -> LayerCall | Unsupported:
    if isinstance(x, Tensor):
        if (reason := feature_refusal("x", x, adapter.dtype)) is not None:
            return Unsupported(reason)
        if isinstance(edges, HeteroGraph):
            return LayerCall(adapter, x, edges)
        raise InputError(f"x is a tensor but the edges are {_kind(edges)}: give a HeteroGraph")
    if not isinstance(x, Mapping):
        return Unsupported(f"x_dict is {_kind(x)}: only dictionaries of tensors are supported")
    dtype = adapter.dtype
    for name, rows in x.items():
        if not isinstance(rows, Tensor):
            return Unsupported(f"x_dict[{name!r}] is {_kind(rows)}: only tensors are supported")
        if (reason := feature_refusal(f"x_dict[{name!r}]", rows, dtype)) is not None:
            return Unsupported(reason)
    if isinstance(edges, HeteroGraph):
        return LayerCall(adapter, x, edges)
    if not isinstance(edges, Mapping):
        return Unsupported(f"edge_index_dict is {_kind(edges)}: only dictionaries are supported")
    found: dict[CanonicalEtype, Any] = {key: as_plain(ids) for key, ids in edges.items()}
    if adapter.takes_matrices:
        rows = {name: len(rows) for name, rows in x.items()}
        for key, ids in found.items():
            found[key] = _without_matrix(ids, rows.get(key[2]), rows.get(key[0]))
    for key, value in found.items():
        if (reason := _edge_refusal(f"edge_index_dict[{key}]", value)) is not None:
            return Unsupported(reason)
    reason = adapter.order_refusal(x, found)
    return LayerCall(adapter, x, found) if reason is None else Unsupported(reason)


def _without_matrix(edges: object, targets: int | None, sources: int | None) -> object:
    """The edge_index of a sparse matrix of these sizes, in the order of its rows, or as given."""
    if not is_sparse(edges) or edges.shape != (targets, sources):
        return edges
    is_coo = edges.layout is torch.sparse_coo and edges.is_coalesced()
    return made_of(edges, _entries) if is_coo or edges.layout is torch.sparse_csr else edges


def _entries(matrix: Tensor) -> Tensor:
    return matrix.to_sparse(layout=torch.sparse_coo).indices().flip(0).contiguous()


def feature_refusal(name: str, x: Tensor, dtype: torch.dtype, dims: int | None = 2) -> str | None:
    """Why rows of that many axes (None: any) cannot be read, or None.

    Autocast makes rows of any float dtype those of the parameters' ``dtype``.
    """
    supported = f"only {str(dtype).removeprefix('torch.')} tensors [N, width] are supported"
    if x.is_nested:
        return f"{name} is a nested tensor: {supported}"
    is_float = x.dtype is dtype or (x.dtype in _FLOATS and torch.is_autocast_enabled(x.device.type))
    if x.layout is not torch.strided or not is_float or x.dim() != (dims or x.dim()):
        return f"{name} is {_kind(x)}: {supported}"
    return _wrapped(name, x)


def _wrapped(name: str, tensor: Tensor) -> str | None:
    if is_wrapper(tensor):
        return f"{name} is a {type(tensor).__name__}, which has no memory that kernels could read"
    return None


def _edge_refusal(name: str, edges: object) -> str | None:
    usable = isinstance(edges, Tensor) and edges.layout is torch.strided
    if not (usable and edges.dtype in _INTEGERS and edges.dim() == 2 and edges.shape[0] == 2):  # type: ignore[attr-defined]
        return f"{name} is {_kind(edges)}: only tensors [2, E] of {_NAMES} are supported"
    assert isinstance(edges, Tensor)
    return _wrapped(name, edges)


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        layout = "" if value.layout is torch.strided else "sparse "
        return f"a {layout}{dtype} tensor of shape {list(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"


def _concatenated(
    x_dict: Mapping[str, Tensor], graph: HeteroGraph, width: int, widths: Mapping[str, int]
) -> Tensor:
    offsets = graph.node_offsets
    for name, first, last in zip(graph.ntype_names, offsets, offsets[1:], strict=False):
        rows = x_dict[name].shape[0] if name in x_dict else 0
        if rows != last - first:
            raise InputError(
                f"x has {rows} rows for the node type {name!r} but the graph has {last - first} "
                "such nodes: give one row per node"
            )
        own = widths.get(name, width)
        if name in x_dict and x_dict[name].shape[1:] != (own,):
            raise InputError(
                f"x has the shape {list(x_dict[name].shape)} for the node type {name!r}: give rows "
                f"of {own}"
            )
    parts = [x_dict[name] for name in graph.ntype_names if name in x_dict]
    if not parts:
        return torch.empty(0, width, dtype=torch.float32, device=graph.device)
    return joined(of_one_width(parts, width))
