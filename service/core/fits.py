"""Whether a graph is one that a model was made for, and what to change in the graph if not."""

from __future__ import annotations

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.graph.hetero import HeteroGraph

_SHOWN = 200


def check_fits(layer: Adapter, graph: HeteroGraph) -> None:
    """Checks that a graph has the types that the weights of a model's layer are for.

    Raises:
        InputError: It has others. The model is not to be made anew: it is trained.
    """
    if layer.metadata is None:
        _check_count(layer.num_relations, graph)
        return
    ntypes, etypes = graph.metadata()
    for what, found, known, field in (
        ("node", ntypes, layer.metadata[0], "ntype_names"),
        ("edge", etypes, layer.metadata[1], "canonical_etypes"),
    ):
        if found != known:
            raise InputError(
                f"the graph has the {what} types {_shown(found)} but the model was made for "
                f"{_shown(known)}: give the graph with the model's types in the model's order, as "
                f"{field}"
            )


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


def _shown(types: object) -> str:
    text = str(types)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
