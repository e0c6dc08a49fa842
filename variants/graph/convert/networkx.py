"""NetworkX graphs."""

from collections.abc import Hashable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph import _edge_data
from hetune.variants.graph.convert.kept_names import KEY, as_text, from_text, restored
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.optional_packages import require
from hetune.variants.graph.renumber import renumbered
from hetune.variants.graph.vocabulary import (
    Unknown,
    Vocabulary,
    VocabularyLike,
    only_name,
    vocabulary_of,
)

_NAME = "node_name"


def from_networkx(
    G: Any,
    *,
    ntype: str = "ntype",
    etype: str = "etype",
    node_names: bool = False,
    vocabulary: VocabularyLike | None = None,
    like: HeteroGraph | None = None,
    unknown: Unknown = "error",
) -> HeteroGraph:
    """A graph of a NetworkX graph; an undirected edge becomes two, a self loop one.

    Nodes are numbered in the order of `G`, type by type; types in order of first appearance. (With
    one node type the order is `list(G)`.) What `to_networkx` made has the order that it came from.

    Args:
        G: Any NetworkX graph.
        ntype: Node attribute with the node type; nodes are untyped if none has it.
        etype: Edge attribute with the edge type; edges are untyped if none has it.
        node_names: Keep nodes as names, as `str` gives them; or the attribute "node_name" where
            all nodes of a type have it, which is kept anyway.
        vocabulary: Whose order types and nodes are given: a `Vocabulary`, its file, a dictionary or
            a graph.
        like: A graph whose vocabulary that is.
        unknown: "error", or "drop" for types and nodes that the vocabulary lacks.

    Raises:
        GraphError: It is no NetworkX graph, only some nodes or edges have a type, or a name is
            unknown.
    """
    if not hasattr(G, "is_directed") or not hasattr(G, "adj"):
        raise GraphError(f"from_networkx got a {type(G).__name__}: give a networkx graph")
    given, kept = vocabulary_of(vocabulary, like), from_text(G.graph.get(KEY))
    known, before = given or Vocabulary(), kept or Vocabulary()
    nodes: list[Hashable] = list(G.nodes)
    types = [G.nodes[node].get(ntype) for node in nodes]
    node_types = _types(types, nodes, ntype, "node", known.node_types)
    edges = _edges(G, is_ordered=kept is not None)
    if not G.is_directed():
        edges = [edge for u, v, own in edges for edge in [(u, v, own), (v, u, own)][: 1 + (u != v)]]
    types = [own.get(etype) for _, _, own in edges]
    ends = [edge[:2] for edge in edges]
    edge_types = _types(types, ends, etype, "edge", known.relations)
    default_names = kept is None and given is None
    ntype_names = _names(node_types, before.node_types, "node" if default_names else None)
    etype_names = _names(edge_types, before.relations, "edge" if default_names else None)

    type_ids = {name: i for i, name in enumerate(ntype_names)}
    ntypes = np.array([type_ids[name] for name in node_types], dtype=np.int64)
    order = np.argsort(ntypes, kind="stable")
    number = {nodes[old]: new for new, old in enumerate(order)}
    relation_ids = {name: i for i, name in enumerate(etype_names)}
    rows = [
        (number[u], number[v], relation_ids[name])
        for (u, v, _), name in zip(edges, edge_types, strict=True)
    ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    wants_names = node_names or bool(known.node_names)
    graph = HeteroGraph(
        columns[:, 0],
        columns[:, 1],
        columns[:, 2],
        ntypes[order],
        etype_names=etype_names,
        ntype_names=ntype_names,
        node_names=_node_names(
            G, [nodes[i] for i in order], ntypes[order], ntype_names, wants_names
        ),
        edge_data=_values(G, [own for _, _, own in edges]),
    )
    graph = restored(graph, kept)
    return graph if given is None else renumbered(graph, given, unknown=unknown)


def _edges(G: Any, *, is_ordered: bool) -> list[tuple[Hashable, Hashable, dict[str, Any]]]:
    """Ends and attributes of each edge; in the order of their keys where these are positions."""
    if not (is_ordered and G.is_multigraph() and G.is_directed()):
        return list(G.edges(data=True))
    keyed = list(G.edges(keys=True, data=True))
    if all(isinstance(key, int) for _, _, key, _ in keyed):
        keyed.sort(key=lambda edge: edge[2])
    return [(u, v, own) for u, v, _, own in keyed]


def _values(G: Any, attributes: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Edge data that was kept: what all edges still have, as numbers."""
    found = {}
    for name, dtype in _edge_data.from_text(G.graph.get(_edge_data.KEY)).items():
        if all(name in own for own in attributes):
            with suppress(TypeError, ValueError, RuntimeError):
                found[name] = torch.tensor([own[name] for own in attributes], dtype=dtype)
    return found


def _types(
    values: list[Any],
    owners: list[Any],
    attribute: str,
    what: str,
    known: tuple[str, ...] | None,
) -> list[str]:
    if all(value is None for value in values):
        return [only_name(known, what)] * len(values)
    for value, owner in zip(values, owners, strict=True):
        if value is None:
            raise GraphError(
                f"{what} {owner!r} has no attribute {attribute!r} but others have: "
                "give it to all or to none"
            )
    return [str(value) for value in values]


def _names(found: Iterable[str], kept: tuple[str, ...] | None, default: str | None) -> list[str]:
    """Names of types in order; a default one, if there is any, where nothing tells names."""
    names = list(dict.fromkeys([*(kept or ()), *found]))
    return names if names or default is None else [default]


def _node_names(
    G: Any, nodes: list[Hashable], ntypes: np.ndarray, ntype_names: list[str], wanted: bool
) -> dict[str, tuple[str, ...]]:
    bounds = np.searchsorted(ntypes, np.arange(len(ntype_names) + 1)).tolist()
    found = {}
    for name, first, end in zip(ntype_names, bounds, bounds[1:], strict=False):
        own = [G.nodes[node].get(_NAME) for node in nodes[first:end]]
        if own and all(value is not None for value in own):
            found[name] = tuple(map(str, own))
        elif wanted:
            found[name] = tuple(map(str, nodes[first:end]))
    return found


def to_networkx(graph: HeteroGraph) -> Any:
    """A `networkx.MultiDiGraph` over 0..N-1 with "ntype" on nodes and "etype" on edges (names).

    An edge's key is its position, and its data are attributes. Names of nodes, where they are kept,
    are their "node_name"; `G.graph` holds names and order of the types, and names of edge data, so
    that `from_networkx` gives an equal graph.

    Raises:
        GraphError: networkx is not installed, or edge data has the name "etype".
    """
    networkx = require("networkx", "networkx", "to_networkx")
    _edge_data.check_free(graph.edge_data, frozenset({"etype"}), "the converter")
    known = graph.vocabulary(node_names=False)
    G = networkx.MultiDiGraph()
    names = graph.node_names or {}
    known = replace(known, node_names={name: () for name, own in names.items() if not own})
    G.graph[KEY] = as_text(known)
    types = graph.ntype.tolist()
    G.add_nodes_from((v, {"ntype": graph.ntype_names[t]}) for v, t in enumerate(types))
    first = dict(zip(graph.ntype_names, graph.node_offsets, strict=False))
    for ntype, own in names.items():
        for i, name in enumerate(own):
            G.nodes[first[ntype] + i][_NAME] = name
    if graph.edge_data:
        G.graph[_edge_data.KEY] = _edge_data.as_text(graph.edge_data)
    columns = (ids.tolist() for ids in (graph.src, graph.dst, graph.etype))
    data = {name: values.tolist() for name, values in graph.edge_data.items()}
    G.add_edges_from(
        (u, v, e, {"etype": graph.etype_names[r], **{name: own[e] for name, own in data.items()}})
        for e, (u, v, r) in enumerate(zip(*columns, strict=True))
    )
    return G
