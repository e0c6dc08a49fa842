"""What other libraries' graphs have no place for, kept with them: orders and names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph
from hetune.variants.graph.rename import with_names
from hetune.variants.graph.vocabulary import Vocabulary

KEY = "hetune_vocabulary"
"""The attribute of a converted graph that holds its vocabulary."""


def vocabulary_with_triples(graph: HeteroGraph) -> Vocabulary:
    """A canonical graph's vocabulary, triples of relations without edges included."""
    return Vocabulary(
        graph.ntype_names, graph.etype_names, graph.canonical_etypes, graph.node_names
    )


def as_text(vocabulary: Vocabulary) -> str:
    """JSON: what every library keeps, copies and writes."""
    return json.dumps(vocabulary.as_dict())


def from_text(text: object) -> Vocabulary | None:
    """The vocabulary of such a text; None where there is none, or it was changed."""
    if not isinstance(text, str):
        return None
    try:
        found = json.loads(text)
        return Vocabulary.of(found) if isinstance(found, dict) else None
    except (ValueError, RecursionError, GraphError):
        return None


def restored(graph: HeteroGraph, kept: Vocabulary | None) -> HeteroGraph:
    """A graph with the names and triples that were kept, as far as they still fit."""
    if kept is None or graph.ntype_names != kept.node_types or kept.relations is None:
        return graph
    triples = kept.canonical_etypes
    named_alike = graph.etype_names == kept.relations
    joined_alike = triples is not None and graph.is_resolved and graph.canonical_etypes == triples
    if not (named_alike or joined_alike):
        return graph
    if triples is not None:
        numbers = {name: t for t, name in enumerate(graph.ntype_names)}
        ends = [(numbers[source], numbers[target]) for source, _, target in triples]
        if any(ends[r] != (source, target) for r, source, target in graph.type_pairs):
            triples = None
    sizes = zip(graph.ntype_names, graph.node_offsets, graph.node_offsets[1:], strict=False)
    counts = {name: end - first for name, first, end in sizes}
    names = {
        name: kept_names
        for name, kept_names in (kept.node_names or {}).items()
        if len(kept_names) == counts[name]
    }
    return with_names(
        graph,
        etype_names=kept.relations,
        node_names={**names, **(graph.node_names or {})},
        triples=triples,
    )


def edge_data_of(
    stores: Mapping[CanonicalEtype, Any], counts: Mapping[CanonicalEtype, int], names: Iterable[str]
) -> dict[str, dict[CanonicalEtype, torch.Tensor]]:
    """Edge data that was kept, by name and edge type: what all edges still have.

    Args:
        stores: What holds the values by name, of each edge type.
        counts: Edges of each edge type.
        names: Of the values.
    """
    found = {}
    for name in names:
        own = {key: store[name] for key, store in stores.items() if name in store}
        fits = [
            isinstance(own.get(key), torch.Tensor) and own[key].shape[:1] == (count,)
            for key, count in counts.items()
        ]
        if all(fits) and len({tuple(values.shape[1:]) for values in own.values()}) == 1:
            found[name] = own
    return found
