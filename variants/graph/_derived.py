"""Graphs with other edge types than the ones that they are made from: their edges and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from hetune.variants.graph._canonical import (
    CanonicalEtype,
    fresh,
    name_triples,
    with_inverses,
)
from hetune.variants.graph.typed_edges import TypedEdges


class EdgeColumns(NamedTuple):
    """Columns [E], names of the edge types, their triples where known, and values of the edges."""

    src: torch.Tensor
    dst: torch.Tensor
    etype: torch.Tensor
    etype_names: Sequence[str]
    canonical_etypes: Sequence[CanonicalEtype] | None
    edge_data: Mapping[str, torch.Tensor] | None = None

    def description(self) -> dict[str, Any]:
        """What `HeteroGraph` takes of it beside the columns."""
        return {
            "num_etypes": len(self.etype_names),
            "etype_names": self.etype_names,
            "canonical_etypes": self.canonical_etypes,
            "edge_data": self.edge_data,
        }


def split_by_ends(graph: TypedEdges) -> EdgeColumns:
    """Edge types split so that each has one source and one destination type."""
    entries: list[tuple[int, tuple[int, int] | None]] = [
        (r, (source, target)) for r, source, target in graph.type_pairs
    ]
    used = {r for r, _ in entries}
    entries += [(r, None) for r in range(graph.num_etypes) if r not in used]
    entries.sort(key=lambda entry: entry[0])  # stable: pairs of one type stay in order
    parts = Counter(r for r, _ in entries)
    triples = name_triples(entries, graph.etype_names, graph.ntype_names)
    taken = {graph.etype_names[r] for r, count in parts.items() if count == 1}
    names = [
        graph.etype_names[r] if parts[r] == 1 else fresh("|".join(triple), taken)
        for (r, _), triple in zip(entries, triples, strict=True)
    ]
    new_ids = [i for i, (_, ends) in enumerate(entries) if ends is not None]
    types = graph.num_ntypes
    known = [(r * types + s) * types + d for r, s, d in graph.type_pairs]
    keys = graph.type_keys()
    position = torch.searchsorted(torch.tensor(known, device=graph.device), keys)
    etype = torch.tensor(new_ids, dtype=torch.int32, device=graph.device)[position]
    return EdgeColumns(graph.src, graph.dst, etype, names, triples, graph.edge_data)


def with_inverse(graph: TypedEdges) -> EdgeColumns:
    """The edges, then the inverse of each."""
    taken = set(graph.etype_names)
    inverse_names = [fresh(f"inv_{name}", taken) for name in graph.etype_names]
    return EdgeColumns(
        torch.cat([graph.src, graph.dst]),
        torch.cat([graph.dst, graph.src]),
        torch.cat([graph.etype, graph.etype + graph.num_etypes]),
        [*graph.etype_names, *inverse_names],
        with_inverses(graph.canonical_etypes) if graph.is_resolved else None,
        {name: torch.cat([values, values]) for name, values in graph.edge_data.items()},
    )


def with_loops(graph: TypedEdges, name: str) -> EdgeColumns:
    """The edges, then a loop at each node."""
    taken = set(graph.etype_names)
    nodes = torch.arange(graph.num_nodes, dtype=torch.int32, device=graph.device)
    several = graph.num_ntypes > 1
    wanted = [f"{name}_{t}" for t in graph.ntype_names] if several else [name]
    loops = [fresh(loop, taken) for loop in wanted]
    triples = None
    if graph.is_resolved:
        own = [
            (t, name if several else loop, t)
            for t, loop in zip(graph.ntype_names, loops, strict=False)
        ]
        if set(own) & set(graph.canonical_etypes):
            own = [(t, loop, t) for t, loop in zip(graph.ntype_names, loops, strict=True)]
        triples = [*graph.canonical_etypes, *own]
    return EdgeColumns(
        torch.cat([graph.src, nodes]),
        torch.cat([graph.dst, nodes]),
        torch.cat([graph.etype, graph.ntype + graph.num_etypes]),
        [*graph.etype_names, *loops],
        triples,
    )
