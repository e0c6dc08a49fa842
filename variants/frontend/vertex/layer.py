"""A function of a vertex with weights, as a layer that is called with a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.dgl.moves import Moves
from hetune.variants.frontend.dgl.on_edges import edges_of
from hetune.variants.frontend.tracing.arguments import CallArguments, as_plain, check_tensor
from hetune.variants.frontend.tracing.edge_module import EdgeModule
from hetune.variants.frontend.tracing.symbols import symbols_in
from hetune.variants.frontend.vertex.all_edges import run_on_all
from hetune.variants.frontend.vertex.lists import with_own_builtins
from hetune.variants.frontend.vertex.one_by_one import run_one_by_one
from hetune.variants.frontend.vertex.rows import ValuePlace, VertexValue
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot

_EDGES = GraphSlot[None, tuple[Tensor, Tensor]]()
_TYPES = ("_TYPE", "etype", "edge_type", "rel_type")
"""Where DGL's graphs keep the types of edges."""
Features = Mapping[str, Tensor] | None


class VertexLayer(nn.Module):
    """Gives for each vertex of a graph what a function of it does.

    Args:
        function: Of a vertex and weights.
        weights: By name.
        options: Its other arguments.
    """

    def __init__(
        self, function: FunctionType, weights: Mapping[str, Tensor], options: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self.function, self.options = function, dict(options)
        self.set_weights(weights)

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Takes other weights, which are the caller's tensors."""
        for name, weight in weights.items():
            self._parameters[f"weight {name}"] = weight  # type: ignore[assignment]

    def _get_name(self) -> str:  # what torch and warnings call it
        return self.function.__name__

    def forward(self, graph: Any, v_feature: Features = None, e_feature: Features = None) -> Tensor:
        """Runs on all vertices at once, in torch.

        Args:
            graph: A `HeteroGraph`, a homogeneous DGL graph or an int64 edge_index [2, E].
            v_feature: Float [N, *row shape] by name.
            e_feature: Float [E, *row shape] by name, in the order of the edges; "type" are the
                types of edges, where the graph does not tell.
        """
        values = tensors_of(graph, v_feature or {}, e_feature or {})
        found = self.run(run_on_edges, values, None)
        assert isinstance(found, Tensor)
        return found

    def run(
        self,
        run: Callable[..., Any],
        values: Mapping[str, Tensor],
        interpreter: Any,
    ) -> Any:
        """Runs the function on tensors: see `tensors_of`."""
        nodes = {name[5:]: rows for name, rows in values.items() if name.startswith("node_")}
        edges = {name[5:]: rows for name, rows in values.items() if name.startswith("edge_")}
        weights = {
            name.removeprefix("weight "): VertexValue(weight)
            for name, weight in self._parameters.items()
            if weight is not None
        }
        function = with_own_builtins(self.function)
        edge_index = edges.pop("index")
        found = run(function, edge_index, nodes, edges, {**weights, **self.options}, interpreter)
        if isinstance(found, Tensor):
            return found
        if not isinstance(found, VertexValue) or found.place is not ValuePlace.VERTEX:
            raise InputError(
                f"{self.function.__name__} returns no value of the vertex: sum those of neighbours"
            )
        return found.tensor


def run_on_edges(
    function: Callable[..., Any],
    edge_index: Tensor,
    nodes: Mapping[str, Tensor],
    edges: Mapping[str, Tensor],
    weights: Mapping[str, Any],
    interpreter: Any,
) -> Any:
    """What a function gives for all vertices, as `run_on_all` has it."""
    src, dst = edge_index.unbind()
    moves = Moves(src, dst, len(next(iter(nodes.values()))))
    return run_on_all(function, moves, nodes, edges, weights, interpreter)


def tensors_of(
    graph: Any, v_feature: Mapping[str, Tensor], e_feature: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """A graph's edges and features by the names ``edge_index``, ``node_*`` and ``edge_*``.

    Raises:
        InputError: There are no features of vertices, or the graph is none.
        NotTraceable: The graph is not homogeneous.
    """
    if not v_feature:
        raise InputError("there are no features of vertices: give v_feature={name: rows}")
    types = {}
    if isinstance(graph, HeteroGraph):
        edge_index, kinds = graph.state.of(_EDGES, None, lambda: _columns(graph))
        types = {"edge_type": kinds}
    elif hasattr(graph, "canonical_etypes"):
        edge_index = edges_of(graph)
        name = next((name for name in _TYPES if name in graph.edata), None)
        types = {} if name is None else {"edge_type": graph.edata[name]}
    else:
        plain = as_plain(graph)
        if not isinstance(plain, Tensor) or plain.dim() != 2 or len(plain) != 2:
            raise InputError(
                f"the graph is a {type(graph).__name__}: give a HeteroGraph, a DGL graph or an "
                "edge_index [2, E]"
            )
        edge_index = plain
    return {
        "edge_index": edge_index,
        **types,
        **{f"node_{name}": rows for name, rows in v_feature.items()},
        **{f"edge_{name}": rows for name, rows in e_feature.items()},
    }


def _columns(graph: HeteroGraph) -> tuple[Tensor, Tensor]:
    return torch.stack((graph.src, graph.dst)).long(), graph.etype.long()


class OnVertices(EdgeModule):
    """Runs a function vertex by vertex, or once for all where anything is a symbol."""

    module: VertexLayer

    def forward(self, **values: Any) -> Any:
        """What the layer gives for the tensors of `tensors_of`."""
        found = symbols_in(list(values.values()))
        if found:
            return self.module.run(run_on_edges, values, found[0].interpreter)
        return self.module.run(run_one_by_one, values, None)

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallArguments:
        """As of `EdgeModule`."""
        values = tensors_of(*_bound(*args, **kwargs))
        for name, value in values.items():
            check_tensor(name, value)
        features = tuple(name for name in values if name.startswith("node_"))
        return CallArguments(values, features, "edge_index")


def _bound(
    graph: Any, v_feature: Features = None, e_feature: Features = None
) -> tuple[Any, Mapping[str, Tensor], Mapping[str, Tensor]]:
    return graph, v_feature or {}, e_feature or {}
