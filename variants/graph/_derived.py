"""Graphs with other edge types than the ones that they are made from.

What functions here return is what `HeteroGraph.with_columns` takes: columns [E] and names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from hetune.variants.graph._canonical import (
    CanonicalEtype,
    fresh,
    name_triples,
    with_inverses,
)
from hetune.variants.graph.typed_edges import TypedEdges


def split_by_ends(graph: TypedEdges) -> dict[str, Any]:
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
    columns = {"src": graph.src, "dst": graph.dst, "etype": etype}
    return columns | _types(names, triples) | {"edge_data": graph.edge_data}


def with_inverse(graph: TypedEdges) -> dict[str, Any]:
    """The edges, then the inverse of each."""
    taken = set(graph.etype_names)
    inverse_names = [fresh(f"inv_{name}", taken) for name in graph.etype_names]
    triples = with_inverses(graph.canonical_etypes) if graph.is_resolved else None
    return {
        "src": torch.cat([graph.src, graph.dst]),
        "dst": torch.cat([graph.dst, graph.src]),
        "etype": torch.cat([graph.etype, graph.etype + graph.num_etypes]),
        "edge_data": {name: torch.cat([own, own]) for name, own in graph.edge_data.items()},
        **_types([*graph.etype_names, *inverse_names], triples),
    }


def with_loops(graph: TypedEdges, name: str) -> dict[str, Any]:
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
    return {
        "src": torch.cat([graph.src, nodes]),
        "dst": torch.cat([graph.dst, nodes]),
        "etype": torch.cat([graph.etype, graph.ntype + graph.num_etypes]),
        **_types([*graph.etype_names, *loops], triples),
    }


def _types(names: Sequence[str], triples: Sequence[CanonicalEtype] | None) -> dict[str, Any]:
    return {"num_etypes": len(names), "etype_names": names, "canonical_etypes": triples}
