"""What callers give: graphs, features and ids in the forms that their libraries have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.graphs.arrow import graph_of_batches
from hetune.variants.errors import GraphError, InputError
from hetune.variants.graph.convert import from_dgl, from_edge_index_dict, from_pyg
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph

Array: TypeAlias = Tensor | np.ndarray
GraphLike: TypeAlias = Any
"""A `HeteroGraph`, a `Data` or `HeteroData` of PyG, a `DGLGraph`, a `pyarrow.Table` with an edge a
row, or `edge_index` [2, E] by (source type, relation, target type). They are told apart by what
they have: their libraries may be missing here."""
Features: TypeAlias = Array | Mapping[str, Array]
"""Float32 rows of all nodes in the graph's order, or of the nodes of each type."""
Ids: TypeAlias = Array | Sequence[int]
NodeIds: TypeAlias = Ids | Mapping[str, Ids] | Mapping[str, Ids | None]
"""Ids of nodes; or for each node type, from 0 in each, where None stands for all."""

EdgesByType: TypeAlias = (
    Mapping[str, Array] | Mapping[CanonicalEtype, Array] | Mapping[str | CanonicalEtype, Array]
)
"""Ids [2, n] by edge type, sources and destinations, from 0 in each node type."""

_ANY = ServiceLimits(nodes=2**31, edges=2**63, types=2**31)


def graph_of(given: GraphLike, features: Features | None = None) -> HeteroGraph:
    """The graph that was given.

    Args:
        given: In one of the forms.
        features: By node type, they tell an `edge_index_dict` the types' order, and how many
            nodes each has; without them that is the order of appearance, and the largest id + 1.

    Raises:
        GraphError: It is none.
    """
    if isinstance(given, HeteroGraph):
        return given
    if isinstance(given, Mapping):
        return from_edge_index_dict(
            {key: _edges(key, edges) for key, edges in given.items()},
            x_dict=_by_type(features) if isinstance(features, Mapping) else None,
        )
    return _imported(given)


def features_of(
    given: Features | None, graph: GraphLike | str
) -> Tensor | dict[str, Tensor] | None:
    """The features that were given, or those that a PyG graph brings: `x`, or `x_dict`.

    None where there are none: a model may have rows of its own.

    Raises:
        InputError: They are no float32 arrays.
    """
    found = _own(graph) if given is None else given
    if found is None:
        return None
    return _by_type(found) if isinstance(found, Mapping) else _rows("the features", found)


def inputs_of(given: Mapping[str, Array] | None) -> dict[str, Tensor]:
    """Rows of other inputs, [rows, width], by name.

    Raises:
        InputError: They are no float32 arrays.
    """
    named = {name: _tensor(f"the input {name!r}", rows) for name, rows in (given or {}).items()}
    return {
        name: _rows(f"the input {name!r}", rows[:, None] if rows.dim() == 1 else rows)
        for name, rows in named.items()
    }


def edges_of(name: str, given: EdgesByType | None) -> dict[str, Tensor]:
    """Edges as tensors, by the names that a service knows edge types by.

    Raises:
        InputError: They are none, or an edge type is named twice.
    """
    found: dict[str, Tensor] = {}
    for etype, edges in (given or {}).items():
        key = etype if isinstance(etype, str) else "|".join(etype)
        if key in found:
            raise InputError(f"{name} has the edge type {key!r} twice: join its edges")
        found[key] = _tensor(f"{name}[{etype!r}]", edges)
    return found


def nodes_of(given: NodeIds | None) -> Tensor | dict[str, Tensor | None] | None:
    """Ids of nodes as tensors; None of a node type for all of it.

    Raises:
        InputError: They are none.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {
            name: None if ids is None else ids_of(f"the nodes of {name!r}", ids)
            for name, ids in given.items()
        }
    return ids_of("the nodes", given)


def _imported(given: Any) -> HeteroGraph:
    if hasattr(given, "canonical_etypes") and hasattr(given, "ntypes"):
        return from_dgl(given)
    if hasattr(given, "edge_index") or hasattr(given, "edge_types"):
        return from_pyg(given)
    if hasattr(given, "schema") and hasattr(given, "to_batches"):
        return graph_of_batches(given.schema, given.to_batches(), _ANY)
    raise GraphError(
        f"a {type(given).__name__} is no graph: give a HeteroGraph, a Data or HeteroData of PyG, a "
        "DGLGraph, a pyarrow.Table, a dictionary of edge_index by (source type, relation, target "
        "type), or the id of a graph that the service keeps; of an edge_index make "
        "hetune.HeteroGraph(edge_index[0], edge_index[1], edge_type, num_nodes=N)"
    )


def _own(graph: Any) -> Features | None:
    if isinstance(graph, HeteroGraph | str | Mapping):
        return None
    if hasattr(graph, "edge_types") and hasattr(graph, "node_types"):
        return {name: graph[name].x for name in graph.node_types if "x" in graph[name]} or None
    found: Features | None = getattr(graph, "x", None) if hasattr(graph, "edge_index") else None
    return found


def _edges(key: object, given: object) -> Any:
    """Tensors of arrays; what is neither is for the importer to refuse."""
    return _tensor(f"edge_index_dict[{key}]", given) if isinstance(given, np.ndarray) else given


def _by_type(given: Mapping[str, Array]) -> dict[str, Tensor]:
    return {name: _rows(f"the features of {name!r}", rows) for name, rows in given.items()}


def _rows(name: str, given: object) -> Tensor:
    found = _tensor(name, given)
    if found.dtype != torch.float32:
        convert = "astype(numpy.float32)" if isinstance(given, np.ndarray) else "float()"
        dtype = str(found.dtype).removeprefix("torch.")
        raise InputError(f"{name} are {dtype}: models are float32, so convert them by .{convert}")
    if found.dim() != 2:
        raise InputError(
            f"{name} have the shape {list(found.shape)}: give a row for each node, [nodes, width]"
        )
    return found


def ids_of(name: str, given: Ids) -> Tensor:
    """Ids as a tensor.

    Raises:
        InputError: They are none.
    """
    if isinstance(given, Tensor | np.ndarray):
        found = _tensor(name, given)
    else:
        try:
            found = torch.as_tensor(given)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name} are no ids ({error}): give a list of integers") from None
    return found if found.numel() else found.long()


def _tensor(name: str, given: object) -> Tensor:
    if isinstance(given, Tensor):
        if given.layout != torch.strided:
            raise InputError(f"{name} are a sparse tensor: make it dense, with .to_dense()")
        return given
    if not isinstance(given, np.ndarray):
        raise InputError(
            f"{name} are a {type(given).__name__}: give a torch tensor or a NumPy array"
        )
    try:
        # torch takes neither another byte order, nor negative strides, nor read-only memory.
        native = np.require(given, given.dtype.newbyteorder("="), ["C", "W"])
        return torch.from_numpy(native)
    except TypeError:
        raise InputError(
            f"{name} are an array of {given.dtype}, which torch has not: convert it with .astype"
        ) from None
