"""Graphs with their edges turned round."""

from __future__ import annotations

from hetune.variants.graph.bipartite import BipartiteGraph
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot

_REVERSED = GraphSlot[None, HeteroGraph]()


def reversed_graph(graph: HeteroGraph) -> HeteroGraph:
    """The same nodes and edges, in the same order, from destinations to sources.

    Kept with the graph. Of a bipartite graph, what were sources are destinations.
    """
    return graph.state.of(_REVERSED, None, lambda: _reversed(graph))


def _reversed(graph: HeteroGraph) -> HeteroGraph:
    if isinstance(graph, BipartiteGraph):
        return BipartiteGraph(
            graph.dst,
            graph.src,
            graph.etype,
            num_sources=graph.num_targets,
            num_targets=graph.num_sources,
            num_etypes=graph.num_etypes,
        )
    declared = graph.declared_etypes
    triples = None if declared is None else [(last, name, first) for first, name, last in declared]
    return graph.with_columns(graph.dst, graph.src, graph.etype, canonical_etypes=triples)
