"""Whether a graph is one that a model was made for, and what to change in the graph if not."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.service.core.models.models import Model
from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph


@dataclass(frozen=True, slots=True)
class Advice:
    """How to mend a graph, in the words in which it is given.

    Attributes:
        names: Where its types need the model's names.
        more: Where it has too few edge types. `{wanted}` stands for how many the model has, and
            `{last}` for one less.
        fewer: Where it has too many.
    """

    names: str
    more: str
    fewer: str


_ADVICE = Advice(
    "give the graph with the names of the model's types, as ntype_names, etype_names and, where "
    "types join others, canonical_etypes",
    "give the graph with num_etypes={wanted}: types that no edge has are counted only then",
    "take a graph whose edge types are 0 to {last}, or the model for this graph",
)


def check_fits(model: Model, graph: HeteroGraph, advice: Advice = _ADVICE) -> None:
    """Checks that a graph has the types that the weights of a model's layers are for.

    Raises:
        InputError: It has others. The model is not to be made anew: it is trained.
    """
    for adapter, layer in zip(model.adapters, model.compiled, strict=True):
        if adapter.metadata is None and layer.vocabulary is None:
            _check_count(model.description.num_relations, graph, advice)
        else:
            layer.check_graph(graph, advice.names)


def _check_count(wanted: int, graph: HeteroGraph, advice: Advice) -> None:
    found = graph.num_etypes
    if found == wanted:
        return
    mend = advice.fewer if found > wanted else advice.more
    types = "type" if found == 1 else "types"
    raise InputError(
        f"the graph has {found} edge {types} but the layers of the model were made for {wanted}: "
        + mend.format(wanted=wanted, last=wanted - 1)
    )
