"""Random graphs for Hypothesis, which is needed to import this."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from hetune.variants.graph.hetero import HeteroGraph


@st.composite
def graphs(draw: st.DrawFn, most_nodes: int = 8, most_edges: int = 40) -> HeteroGraph:
    """Canonical graphs of up to 3 node types and 5 edge types; they shrink towards no edges."""
    counts = draw(st.lists(st.integers(0, most_nodes), min_size=1, max_size=3))
    kinds = st.integers(0, len(counts) - 1)
    relations = draw(st.lists(st.tuples(kinds, kinds), min_size=1, max_size=5))
    usable = [r for r, (s, d) in enumerate(relations) if counts[s] and counts[d]]
    offsets = [sum(counts[:t]) for t in range(len(counts))]
    edges: list[tuple[int, int, int]] = []
    if usable:
        ends = st.integers(0, most_nodes - 1)
        for r, i, j in draw(
            st.lists(st.tuples(st.sampled_from(usable), ends, ends), max_size=most_edges)
        ):
            s, d = relations[r]
            edges.append((offsets[s] + i % counts[s], offsets[d] + j % counts[d], r))
    src, dst, etype = torch.tensor(edges, dtype=torch.int64).reshape(-1, 3).unbind(1)
    ntype = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    names = [f"t{t}" for t in range(len(counts))]
    return HeteroGraph(
        src,
        dst,
        etype,
        ntype,
        ntype_names=names,
        canonical_etypes=[(names[s], f"r{r}", names[d]) for r, (s, d) in enumerate(relations)],
        num_etypes=len(relations),
    )
