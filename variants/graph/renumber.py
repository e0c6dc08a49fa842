"""Graphs whose types and nodes are numbered as a vocabulary says."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.vocabulary import Unknown, Vocabulary, VocabularyLike, shown

__all__ = ["relation_ids", "renumbered", "type_ids"]

_LACKING = -1


def renumbered(
    graph: HeteroGraph, vocabulary: VocabularyLike, *, unknown: Unknown = "error"
) -> HeteroGraph:
    """The same graph with types and nodes in the order of a vocabulary.

    Edges keep their order. Types of the vocabulary that the graph lacks have no nodes or edges, and
    named nodes that it lacks no edges. What the vocabulary does not fix stays as it is.

    Args:
        graph: A graph; nodes of which the vocabulary has names need names.
        vocabulary: What `Vocabulary.of` takes: a vocabulary, its file, a dictionary, or a graph.
        unknown: What becomes of types and nodes that the vocabulary lacks: "error", or "drop" for
            leaving them out, with their edges, and a warning that counts these.

    Raises:
        GraphError: A name is unknown, or an edge joins other node types than the vocabulary says.
    """
    if unknown not in ("error", "drop"):
        raise GraphError(f"unknown is {unknown!r}: give 'error' or 'drop'")
    known = Vocabulary.of(vocabulary)
    if known == graph.vocabulary(node_names=known.node_names is not None):
        return graph
    relations = relation_ids(graph, known)
    ntypes = type_ids(graph, known)
    if known.node_types and graph.ntype_names == ("node",) and ntypes == [_LACKING]:
        raise GraphError(
            f"the data tells no node types, and the vocabulary has {shown(known.node_types)}: "
            "leave node_types out of it"
        )
    nodes = _numbered_nodes(graph, known, ntypes)
    lacking = _lacking(graph, relations, ntypes, nodes)
    if unknown == "error" and lacking:
        what, names = next(iter(lacking.items()))
        raise GraphError(
            f"the vocabulary has no {what} {shown(names)}: add them to it, or pass "
            "unknown='drop' to leave them out"
        )
    etype = np.array(relations, dtype=np.int64)[graph.etype.cpu().numpy()]
    src, dst = (nodes.number[ids.cpu().numpy()] for ids in (graph.src, graph.dst))
    kept = (etype != _LACKING) & (src != _LACKING) & (dst != _LACKING)
    if lacking:
        parts = "; ".join(f"{what} {shown(names)}" for what, names in lacking.items())
        warnings.warn(
            f"{int((~kept).sum())} of {graph.num_edges} edges were dropped, for the vocabulary "
            f"lacks {parts}",
            stacklevel=3,
        )
    data = {name: values.cpu() for name, values in graph.edge_data.items()}
    if not kept.all():
        src, dst, etype = src[kept], dst[kept], etype[kept]
        data = {name: values[torch.from_numpy(kept)] for name, values in data.items()}
    return HeteroGraph(
        src,
        dst,
        etype,
        np.repeat(np.arange(len(nodes.counts)), nodes.counts),
        num_ntypes=len(nodes.counts),
        ntype_names=graph.ntype_names if known.node_types is None else known.node_types,
        etype_names=graph.etype_names if known.relations is None else known.relations,
        canonical_etypes=_triples(graph, known, relations),
        node_names=nodes.names,
        edge_data=data,
    ).to(graph.device)


def relation_ids(graph: HeteroGraph, vocabulary: Vocabulary) -> list[int]:
    """A vocabulary's number of each of a graph's relations; -1 where it has none.

    A relation is known by its (source type, relation, destination type) where both have them, else
    by its name.
    """
    if vocabulary.relations is None:
        return list(range(graph.num_etypes))
    by_name = {name: r for r, name in enumerate(vocabulary.relations)}
    by_triple = {triple: r for r, triple in enumerate(vocabulary.canonical_etypes or ())}
    found = [by_name.get(name, _LACKING) for name in graph.etype_names]
    if by_triple and graph.num_ntypes and graph.is_resolved:
        triples = enumerate(graph.canonical_etypes)
        found = [by_triple.get(triple, found[r]) for r, triple in triples]
    return found


def type_ids(graph: HeteroGraph, vocabulary: Vocabulary) -> list[int]:
    """A vocabulary's number of each of a graph's node types; -1 where it has none."""
    if vocabulary.node_types is None:
        return list(range(graph.num_ntypes))
    by_name = {name: t for t, name in enumerate(vocabulary.node_types)}
    return [by_name.get(name, _LACKING) for name in graph.ntype_names]


@dataclass(frozen=True, slots=True)
class _Nodes:
    """New ids of nodes, how many each type has, their names, and those that are unknown."""

    number: np.ndarray
    counts: list[int]
    names: dict[str, tuple[str, ...]]
    unknown: dict[str, list[str]]


def _numbered_nodes(graph: HeteroGraph, known: Vocabulary, ntypes: Sequence[int]) -> _Nodes:
    types = graph.ntype_names if known.node_types is None else known.node_types
    old_names, new_names = graph.node_names or {}, dict(known.node_names or {})
    counts = [len(new_names.get(name, ())) for name in types]
    local: dict[int, np.ndarray] = {}
    unknown: dict[str, list[str]] = {}
    for t, name in enumerate(graph.ntype_names):
        if ntypes[t] == _LACKING:
            continue
        count = graph.node_offsets[t + 1] - graph.node_offsets[t]
        if name in new_names:
            local[t] = _looked_up(name, count, old_names.get(name), new_names[name])
            if len(lacking := np.flatnonzero(local[t] == _LACKING)):
                unknown[name] = [old_names[name][i] for i in lacking]
        else:
            local[t], counts[ntypes[t]] = np.arange(count), count
            if name in old_names:
                new_names[name] = old_names[name]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    number = np.full(graph.num_nodes, _LACKING, dtype=np.int64)
    for t, ids in local.items():
        shifted = np.where(ids == _LACKING, _LACKING, ids + offsets[ntypes[t]])
        number[graph.node_offsets[t] : graph.node_offsets[t + 1]] = shifted
    return _Nodes(number, counts, new_names, unknown)


def _looked_up(ntype: str, count: int, old: Sequence[str] | None, new: Sequence[str]) -> np.ndarray:
    """The new id of each node of a type, -1 where its name is unknown."""
    if old is None:
        if count > len(new):
            raise GraphError(
                f"the vocabulary names {len(new)} nodes of the type {ntype!r} but the graph has "
                f"{count}, without names: read it with node_names=True"
            )
        return np.arange(count)  # ids are ids in the vocabulary's order
    if old == new:
        return np.arange(count)
    import pyarrow as pa  # seldom needed
    import pyarrow.compute as pc

    text = pa.large_string()
    found = pc.index_in(pa.array(old, text), value_set=pa.array(new, text))
    ids: np.ndarray = pc.fill_null(found, _LACKING).to_numpy(zero_copy_only=False)
    return ids.astype(np.int64)


def _lacking(
    graph: HeteroGraph, relations: Sequence[int], ntypes: Sequence[int], nodes: _Nodes
) -> dict[str, list[str]]:
    """Names that the vocabulary lacks, by what they name."""
    found = {
        "relations": _unknown(graph.etype_names, relations),
        "node types": _unknown(graph.ntype_names, ntypes),
    }
    found |= {f"nodes of the type {name!r}": names for name, names in nodes.unknown.items()}
    return {what: names for what, names in found.items() if names}


def _unknown(names: Sequence[str], ids: Sequence[int]) -> list[str]:
    return [name for name, i in zip(names, ids, strict=True) if i == _LACKING]


def _triples(
    graph: HeteroGraph, known: Vocabulary, relations: Sequence[int]
) -> Sequence[Sequence[str]] | None:
    """Those of the vocabulary; else the graph's, if they are of all its relations."""
    own = graph.vocabulary(node_names=False).canonical_etypes
    if known.canonical_etypes is not None or own is None:
        return known.canonical_etypes
    there = set(graph.ntype_names if known.node_types is None else known.node_types)
    found: dict[int, Sequence[str]] = dict(zip(relations, own, strict=True))
    wanted = range(graph.num_etypes if known.relations is None else len(known.relations))
    complete = [found[r] for r in wanted if r in found]
    is_usable = len(complete) == len(wanted) and all(
        end in there for source, _, target in complete for end in (source, target)
    )
    return complete if is_usable else None
