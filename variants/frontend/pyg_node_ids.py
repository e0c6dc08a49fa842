"""PyG's `RGCNConv` called with numbers of nodes, or nothing, in place of their features.

Its weights then have a row for each node: they are embeddings. What a message takes of them is read
before the program, which sums it up, and where its gradients are added up by node. It is read once
where all nodes take part and no parameter is learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter, Unsupported, as_rows
from hetune.variants.frontend.calls import LayerCall, check_device, parameter_names, read_edges
from hetune.variants.frontend.parameters_version import ParametersVersion
from hetune.variants.frontend.table_rows import table_rows
from hetune.variants.frontend.trace import Graph, Value, edge, layer_program, node, shared
from hetune.variants.frontend.type_order import order_of
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot

_PLACES = GraphSlot[None, Tensor]()
_KEPT = GraphSlot[None, "dict[str, tuple[ParametersVersion, dict[str, Tensor]]]"]()


@layer_program
def _summed(
    g: Graph, message: Value, root: Value | None, bias: Value | None, *, mean: bool
) -> Value:
    out = g.mean(message) if mean else g.sum(message)
    out = out if root is None else out + root
    return out if bias is None else out + bias


def are_ids(x: object) -> bool:
    """Whether numbers of nodes are given, or None for all of them."""
    return x is None or (isinstance(x, Tensor) and x.dtype is torch.int64 and x.dim() == 1)


def adapt_ids(of_features: Adapter, aggr: str) -> Adapter:
    """The adapter for calls with numbers of nodes.

    Args:
        of_features: That for calls with features.
        aggr: "mean" or "add".
    """
    module: Any = of_features.module
    width, has_root = module.out_channels, module.root is not None
    program = _summed(
        message=edge(width),
        root=node(width) if has_root else None,
        bias=shared(width) if module.bias is not None else None,
        mean=aggr == "mean",
    )

    def weights() -> dict[str, Tensor]:
        return as_rows(program, {} if module.bias is None else {"bias": module.bias})

    adapter = Adapter(
        module,
        program,
        weights,
        of_features.num_relations,
        is_reversed=of_features.is_reversed,
    )
    rows = _NodeRows(adapter)
    adapter.read = rows.read
    return adapter


class _NodeRows:
    """Reads calls, and rows of the weights for them."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._all: Tensor | None = None
        self._weight: tuple[ParametersVersion, Tensor] | None = None

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> LayerCall | Unsupported:
        """As of `Adapter`."""
        names = parameter_names(self._adapter.module)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or not given.keys() <= {*names}:
            raise InputError(f"the arguments are not {', '.join(names)}")
        ids, edges, edge_type = map(given.get, names[:3])
        if not are_ids(ids):
            return Unsupported("it is compiled for numbers of nodes", kind="features")
        x = self._numbers() if ids is None else ids
        assert isinstance(x, Tensor)
        if isinstance(edges, HeteroGraph):
            return _IdCall(self, x, edges)
        read = read_edges(edges, edge_type)
        return read if isinstance(read, Unsupported) else _IdCall(self, x, read)

    @property
    def adapter(self) -> Adapter:
        """Of the layer."""
        return self._adapter

    def _numbers(self) -> Tensor:
        """Of all nodes, the same tensor in every call."""
        module: Any = self._adapter.module
        count, device = module.in_channels_l, module.weight.device
        if self._all is None or self._all.device != device or len(self._all) != count:
            with torch.inference_mode(False):
                self._all = torch.arange(count, device=device)
        return self._all

    def inputs(self, graph: HeteroGraph, ids: Tensor) -> dict[str, Tensor]:
        """Each edge's row of the weights, and each node's; parameters that learn have gradients."""
        parameters = self._adapter.module.parameters()
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in parameters):
            return self._rows(graph, ids, self._mixed())
        version = self._adapter.parameters_version()
        kept = graph.state.of(_KEPT, None, dict, owner=self)
        if ids is self._all and "all" in kept and kept["all"][0] is version:
            return kept["all"][1]
        with torch.inference_mode(False), torch.no_grad():
            if self._weight is None or self._weight[0] is not version:
                self._weight = version, self._mixed()
            found = self._rows(graph, ids, self._weight[1])
            found = {name: rows.detach() for name, rows in found.items()}
        if ids is self._all:
            kept["all"] = version, found
        return found

    def _rows(self, graph: HeteroGraph, ids: Tensor, weight: Tensor) -> dict[str, Tensor]:
        module: Any = self._adapter.module
        is_all, root = ids is self._all, module.root
        ids = ids if is_all else self._numbers()[ids]  # an error unless all are numbers of nodes

        def index() -> Tensor:
            types = order_of(self._adapter, graph).edge_types(graph)
            return types * weight.shape[1] + ids[graph.src.long()]

        places = graph.state.of(_PLACES, None, index, owner=self) if is_all else index()
        found = {"message": table_rows(weight.flatten(0, 1), places)}
        if root is not None:
            found["root"] = root if is_all else table_rows(root, ids)
        return found

    def _mixed(self) -> Tensor:
        """The weights [R, nodes, width], mixed of bases where there are any."""
        module: Any = self._adapter.module
        weight: Tensor = module.weight
        if module.num_bases is None:
            return weight
        return torch.einsum("rb,bkd->rkd", module.comp, weight)


class _IdCall(LayerCall):
    """A call with numbers of nodes for ``x``."""

    __slots__ = ("_rows",)

    def __init__(
        self, rows: _NodeRows, ids: Tensor, edges: HeteroGraph | tuple[Tensor, Tensor]
    ) -> None:
        super().__init__(rows.adapter, ids, edges)
        self._rows = rows

    def inputs(self, graph: HeteroGraph) -> dict[str, Tensor]:
        """Rows of the weights, of edges and of nodes."""
        assert isinstance(self.x, Tensor)
        if len(self.x) != graph.num_nodes:
            raise InputError(
                f"x has {len(self.x)} numbers: give one for each of the graph's {graph.num_nodes} "
                "nodes"
            )
        check_device("x", self.x, graph)
        return self._rows.inputs(graph, self.x)

    def of_module(self) -> Any:
        """What the module gives for one node."""
        assert isinstance(self.x, Tensor)
        edges = self.x.new_zeros(2, 1)
        with torch.no_grad():
            return self._adapter.module(self.x.new_zeros(1), edges, edges[0])
