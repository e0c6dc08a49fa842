"""NetworkX graphs."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from hetune.variants.errors import GraphError
from hetune.variants.graph._extras import require
from hetune.variants.graph.hetero import HeteroGraph


def from_networkx(G: Any, *, ntype: str = "ntype", etype: str = "etype") -> HeteroGraph:
    """A graph of a NetworkX graph; an undirected edge becomes two, a self loop one.

    Nodes are numbered in the order of `G`, type by type; types in order of first appearance. (With
    one node type the order is `list(G)`.)

    Args:
        G: Any NetworkX graph.
        ntype: Node attribute with the node type; nodes are untyped if none has it.
        etype: Edge attribute with the edge type; edges are untyped if none has it.

    Raises:
        GraphError: It is no NetworkX graph, or only some nodes or edges have a type.
    """
    if not hasattr(G, "is_directed") or not hasattr(G, "adj"):
        raise GraphError(f"from_networkx got a {type(G).__name__}: give a networkx graph")
    nodes: list[Hashable] = list(G.nodes)
    node_types = _types([G.nodes[node].get(ntype) for node in nodes], nodes, ntype, "node")
    edges = list(G.edges(data=etype))
    edge_types = _types([t for _, _, t in edges], [edge[:2] for edge in edges], etype, "edge")
    ntype_names = list(dict.fromkeys(node_types)) or ["node"]
    etype_names = list(dict.fromkeys(edge_types)) or ["edge"]

    type_ids = {name: i for i, name in enumerate(ntype_names)}
    types = np.array([type_ids[name] for name in node_types], dtype=np.int64)
    order = np.argsort(types, kind="stable")
    number = {nodes[old]: new for new, old in enumerate(order)}
    relation_ids = {name: i for i, name in enumerate(etype_names)}
    rows = [
        (number[u], number[v], relation_ids[name])
        for (u, v, _), name in zip(edges, edge_types, strict=True)
    ]
    if not G.is_directed():
        rows = [
            row for u, v, r in rows for row in ([(u, v, r), (v, u, r)] if u != v else [(u, v, r)])
        ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return HeteroGraph(
        columns[:, 0],
        columns[:, 1],
        columns[:, 2],
        types[order],
        etype_names=etype_names,
        ntype_names=ntype_names,
    )


def _types(values: list[Any], owners: list[Any], attribute: str, default: str) -> list[str]:
    if all(value is None for value in values):
        return [default] * len(values)
    for value, owner in zip(values, owners, strict=True):
        if value is None:
            raise GraphError(
                f"{default} {owner!r} has no attribute {attribute!r} but others have: "
                "give it to all or to none"
            )
    return [str(value) for value in values]


def to_networkx(graph: HeteroGraph) -> Any:
    """A `networkx.MultiDiGraph` over 0..N-1 with "ntype" on nodes and "etype" on edges (names).

    Raises:
        GraphError: networkx is not installed.
    """
    networkx = require("networkx", "networkx", "to_networkx")
    G = networkx.MultiDiGraph()
    types = graph.ntype.tolist()
    G.add_nodes_from((v, {"ntype": graph.ntype_names[t]}) for v, t in enumerate(types))
    columns = (ids.tolist() for ids in (graph.src, graph.dst, graph.etype))
    G.add_edges_from(
        (u, v, {"etype": graph.etype_names[r]}) for u, v, r in zip(*columns, strict=True)
    )
    return G
