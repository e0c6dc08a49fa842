"""The graph and the features that the tensors of a request make."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.graphs.features import Features, FeatureStore
from hetune.service.core.graphs.rows import Nodes
from hetune.service.core.models.description import ModelDescription
from hetune.service.core.models.graph_check import Advice
from hetune.service.http.oip.names import name_of, output_type, triple
from hetune.service.http.oip.request import Key, ProtocolRequest
from hetune.variants.errors import GraphError, InputError, MalformedError
from hetune.variants.graph import from_edge_index_dict
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph
from hetune.variants.graph.renumber import relation_ids, renumbered, type_ids

_BESIDE = ("x", "nodes")
_GRAPH = ("x", "edge_index", "edge_type", "num_nodes")
_SHOWN = 200
ADVICE = Advice(
    "give the model's types by name: x/<node type> of each node type, and "
    "edge_index/<source>/<relation>/<target> of each edge type",
    "give edge_index/<source>/<relation>/<target> of all {wanted} edge types in the model's order, "
    "of the shape [2, 0] where there are no edges",
    "give edge_index/<source>/<relation>/<target> of {wanted} edge types, or take the model for "
    "this graph",
)
"""How to mend a graph of a request that does not fit the model."""
_INTEGERS = (torch.int16, torch.int32, torch.int64)


def inputs_of(
    asked: ProtocolRequest,
    description: ModelDescription,
    limits: ServiceLimits,
    stored: FeatureStore,
) -> tuple[HeteroGraph | str, Features | None]:
    """A graph, or the id of one that is kept; and features, by node type if the tensors are.

    There are none where the model has them.

    Args:
        asked: The request.
        description: Of the model. If it has metadata, types of nodes and edges are in that order,
            otherwise in that of the request's tensors.
        limits: What is accepted.
        stored: Where features are looked up by name.

    Raises:
        MalformedError: Tensors are missing, or there are some of both forms.
        NotFoundError: There is no graph of that id, or it has no such features.
        TooLargeError: The graph is over a limit.
        GraphError: It is none.
        InputError: Shapes or dtypes do not fit.
    """
    given = asked.tensors
    if asked.features is not None:
        return _stored(asked, asked.features, stored)
    flat = {what: tensor for (what, types), tensor in given.items() if not types}
    typed = {key: tensor for key, tensor in given.items() if key[1]}
    if flat and typed:
        raise MalformedError(
            "there are tensors with types in their names, and without: give one form"
        )
    count = description.tables.get("x")
    if count is None and not any(what == "x" for what, _ in given):
        raise MalformedError("the features are missing: give x, or x/<node type> for each")
    features: Features | None
    if typed:
        features = {types[0]: tensor for (what, types), tensor in typed.items() if what == "x"}
    else:
        features = flat.get("x")
    for rows in features.values() if isinstance(features, Mapping) else (features,):
        if rows is not None and rows.dim() != 2:
            raise InputError(f"features have the shape {list(rows.shape)}: give [nodes, width]")
    if asked.graph_id is not None:
        if any(what not in _BESIDE for what, _ in given):
            raise MalformedError("there are tensors of a graph beside a graph_id: give one")
        return asked.graph_id, features
    if isinstance(features, Mapping):
        return _typed_graph(typed, features, description, limits), features
    nodes = count or 0 if features is None else len(features)
    return _flat_graph(flat, nodes, description, limits), features


def _stored(asked: ProtocolRequest, name: str, stored: FeatureStore) -> tuple[str, Features]:
    if asked.graph_id is None:
        raise MalformedError("there are features by name: give the graph_id that has them, too")
    if any(what in _GRAPH for what, _ in asked.tensors):
        raise MalformedError("there are tensors beside the names of a graph and features: give one")
    return asked.graph_id, stored.get(asked.graph_id, name)


def nodes_of(asked: ProtocolRequest, features: Features | None) -> Nodes | None:
    """Whose rows to give; None for all.

    By node type these are of the types whose outputs are asked for; if none are, of those that
    ids are given of. Without ids it is all of a type.

    Args:
        asked: The request.
        features: As `inputs_of` gives them.

    Raises:
        MalformedError: There is no such output, ids are given where it is not asked for, or they
            have another form than the features.
    """
    ids = {types: tensor for (what, types), tensor in asked.tensors.items() if what == "nodes"}
    if any(bool(types) != isinstance(features, Mapping) for types in ids):
        raise MalformedError(
            "there are nodes by type and features without types, or the other way: give one form"
        )
    if not isinstance(features, Mapping):
        return ids.get(())
    given = {types[0]: tensor for types, tensor in ids.items()}
    if asked.outputs is None:
        return given or None
    wanted = [output_type(output.name) for output in asked.outputs]
    for ntype in given:
        if ntype not in wanted:
            raise MalformedError(
                f"there are nodes of {ntype!r}, whose output is not asked for: leave out the "
                "one, or ask for the other"
            )
    if not given and features.keys() <= set(wanted):
        return None
    return {ntype: given.get(ntype) for ntype in wanted}


def _flat_graph(
    given: Mapping[str, Tensor], nodes: int, description: ModelDescription, limits: ServiceLimits
) -> HeteroGraph:
    edges = _edge_index("edge_index", given.get("edge_index"))
    check_limit("nodes", nodes, limits.nodes)
    check_limit("edges", edges.shape[1], limits.edges)
    types = given.get("edge_type")
    _check_ids("edge_index", edges, nodes, "give x a row for each node")
    if types is not None:
        _check_ids("edge_type", types, description.num_relations, "the model has no other types")
    known = description.vocabulary
    return HeteroGraph(
        edges[0],
        edges[1],
        types,
        num_nodes=nodes,
        num_etypes=description.num_relations,
        etype_names=None if known is None else known.relations,  # whose numbers are given
    )


def _typed_graph(
    given: Mapping[Key, Tensor],
    features: Mapping[str, Tensor],
    description: ModelDescription,
    limits: ServiceLimits,
) -> HeteroGraph:
    edges = {
        triple(types): _edge_index("/".join((what, *types)), tensor)
        for (what, types), tensor in given.items()
        if what == "edge_index"
    }
    counts = {name: rows.shape[0] for name, rows in features.items()}
    for (what, types), tensor in given.items():
        if what == "num_nodes":
            counts[types[0]] = _count(types[0], tensor)
    metadata = description.metadata
    ends = {end for source, _, target in edges for end in (source, target)}
    known = set(counts) | ends | set(metadata.ntypes if metadata else ())
    check_limit("node types", len(known), limits.types)
    check_limit("edge types", len(edges), limits.types)
    check_limit("nodes", sum(counts.values()), limits.nodes)
    check_limit("edges", sum(edge.shape[1] for edge in edges.values()), limits.edges)
    counts |= dict.fromkeys(sorted(known - set(counts)), 0)
    etypes = None if metadata is None else set(metadata.etypes)
    for key, tensor in edges.items():
        _check_edges(key, tensor, counts, etypes)
    graph = from_edge_index_dict(
        edges, counts, metadata=(metadata.ntypes, metadata.etypes) if metadata else None
    )
    names = description.vocabulary
    if names is None or -1 in (*relation_ids(graph, names), *type_ids(graph, names)):
        return graph  # who runs the model refuses it
    return renumbered(graph, names)


def _check_edges(
    key: CanonicalEtype,
    ends: Tensor,
    counts: Mapping[str, int],
    etypes: Collection[CanonicalEtype] | None,
) -> None:
    source, relation, target = key
    name = name_of("edge_index", source, relation, target)[:_SHOWN]
    if etypes is not None and key not in etypes:
        raise GraphError(f"{name}: the model has no such edge type, leave it out")
    for row, ntype in enumerate((source, target)):
        mend = f"give x/{ntype[:_SHOWN]} a row for each node, or num_nodes/{ntype[:_SHOWN]}"
        _check_ids(f"{name}, row {row},", ends[row], counts[ntype], mend)


def _check_ids(name: str, ids: Tensor, count: int, mend: str) -> None:
    """A graph would say which of its counts to raise, and no request gives those.

    Raises:
        GraphError: There are ids that are too large.
    """
    if ids.numel() and ids.dtype in _INTEGERS and (most := int(ids.max())) >= count:
        raise GraphError(f"{name} has {most}, which has to be less than {count}: {mend}")


def _edge_index(name: str, tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise MalformedError("the edges are missing: give edge_index, or a graph_id")
    if tensor.dim() != 2 or tensor.shape[0] != 2 or tensor.dtype not in _INTEGERS:
        raise InputError(
            f"{name} is {tensor.dtype} {list(tensor.shape)}: give integers of the shape "
            "[2, edges], sources first"
        )
    return tensor


def _count(ntype: str, tensor: Tensor) -> int:
    if tensor.dtype not in _INTEGERS or tensor.numel() != 1 or int(tensor) < 0:
        raise InputError(f"num_nodes of {ntype!r} is no count: give one integer, at least 0")
    return int(tensor)
