"""Whether a graph is one that a model was made for, and what to change in the graph if not."""

from __future__ import annotations

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.compiled import CompiledLayer

_NAME_TYPES = (
    "give the graph with the names of the model's types, as ntype_names, etype_names and, where "
    "types join others, canonical_etypes"
)


def check_fits(adapter: Adapter, layer: CompiledLayer, graph: HeteroGraph) -> None:
    """Checks that a graph has the types that the weights of a model's layer are for.

    Raises:
        InputError: It has others. The model is not to be made anew: it is trained.
    """
    if adapter.metadata is None and layer.vocabulary is None:
        _check_count(adapter.num_relations, graph)
    else:
        layer.check_graph(graph, _NAME_TYPES)


def _check_count(wanted: int, graph: HeteroGraph) -> None:
    found = graph.num_etypes
    if found == wanted:
        return
    mend = f"give the graph with num_etypes={wanted}: types that no edge has are counted only then"
    if found > wanted:
        mend = f"take a graph whose edge types are 0 to {wanted - 1}, or the model for this graph"
    raise InputError(
        f"the graph has {found} edge types but the layers of the model were made for {wanted}: "
        f"{mend}"
    )
