"""The same graphs with other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph
from hetune.variants.graph.vocabulary import Vocabulary

__all__ = ["named_by_number", "with_names"]


def named_by_number(
    graph: HeteroGraph,
    vocabulary: Vocabulary | None,
    *,
    relations: bool | None,
    node_types: bool | None,
) -> HeteroGraph:
    """A graph of data with numbers in place of names, with the names of a vocabulary.

    Args:
        graph: What was made of the data; a graph of one type takes the only name of a vocabulary.
        vocabulary: Whose names; None for the graph as it is.
        relations: Whether the data numbers its relations; None if it names them.
        node_types: Likewise.
    """
    if vocabulary is None or (relations is None and node_types is None):
        return graph
    etype_names = _by_number(graph.etype_names, vocabulary.relations, relations)
    ntype_names = _by_number(graph.ntype_names, vocabulary.node_types, node_types)
    renamed = dict(zip(graph.ntype_names, ntype_names, strict=False))
    names = {renamed[name]: own for name, own in (graph.node_names or {}).items()}
    return with_names(
        graph, ntype_names=ntype_names, etype_names=etype_names, node_names=names, triples=None
    )


def with_names(
    graph: HeteroGraph,
    *,
    ntype_names: Sequence[str] | None = None,
    etype_names: Sequence[str] | None = None,
    node_names: Mapping[str, tuple[str, ...]] | None = None,
    triples: Sequence[CanonicalEtype] | None = (),
) -> HeteroGraph:
    """The same graph with other names; those that are not given stay.

    Args:
        graph: The graph.
        ntype_names: At least T names.
        etype_names: At least R names.
        node_names: Names of all nodes of some types.
        triples: Canonical edge types; None for those that edges tell.

    Raises:
        GraphError: They do not fit.
    """
    kept = graph.vocabulary(node_names=False).canonical_etypes
    found = graph.with_columns(
        graph.src,
        graph.dst,
        graph.etype,
        num_etypes=None if etype_names is not None else graph.num_etypes,
        num_ntypes=None if ntype_names is not None else graph.num_ntypes,
        ntype_names=graph.ntype_names if ntype_names is None else ntype_names,
        etype_names=graph.etype_names if etype_names is None else etype_names,
        canonical_etypes=kept if triples == () else triples,
        node_names=graph.node_names if node_names is None else node_names,
        edge_data=graph.edge_data,
    )
    if node_names:
        found.validate()
    return found


def _by_number(
    own: tuple[str, ...], known: tuple[str, ...] | None, is_numbered: bool | None
) -> tuple[str, ...]:
    if known is None or is_numbered is None:
        return own
    if not is_numbered:
        return known if len(own) == len(known) == 1 else own
    beyond = [f"number {i}" for i in range(len(known), len(own))]
    return (*known, *beyond)
