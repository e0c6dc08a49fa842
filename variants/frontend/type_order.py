"""Which of a layer's types each of a graph's types is, by their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.graph.convert.edge_index_dict import relation_names
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph
from hetune.variants.graph.renumber import relation_ids, type_ids
from hetune.variants.graph.state import GraphSlot
from hetune.variants.graph.vocabulary import Vocabulary, shown
from hetune.variants.program.nodes import Program, Space

NAME_TYPES = (
    "name and number its types as the layer does, with vocabulary= where it is loaded or "
    "converted, etype_names= of HeteroGraph, or hetune.variants.graph.renumbered"
)
"""How to mend a graph whose types have other names than a layer's."""
_UNTYPED = ("node",)
"""What a graph calls its node type that was told none."""


@dataclass(frozen=True, slots=True)
class TypeOrder:
    """A layer's number of each of a graph's types; None where they are the same.

    Attributes:
        etypes: Of its edge types, R numbers.
        ntypes: Of its node types, T numbers.
    """

    etypes: tuple[int, ...] | None = None
    ntypes: tuple[int, ...] | None = None

    def weights(self, program: Program, found: dict[str, Tensor]) -> dict[str, Tensor]:
        """A layer's weights [types, *row shape] in the order of the graph's types.

        Args:
            program: What the layer computes.
            found: Its weights by name, in its own order.
        """
        if self == SAME:
            return found
        orders = {Space.ETYPE: self.etypes, Space.NTYPE: self.ntypes}
        spaces = {param.name: param.type.space for param in program.params}
        return {name: _rows(tensor, orders.get(spaces[name])) for name, tensor in found.items()}

    def edge_types(self, graph: HeteroGraph) -> Tensor:
        """The layer's number of each edge's type, int64 [E]."""
        ids = graph.etype.long()
        if self.etypes is None:
            return ids
        return torch.tensor(self.etypes, dtype=torch.int64, device=ids.device)[ids]


SAME = TypeOrder()


def named_for(adapter: Adapter, vocabulary: Vocabulary) -> Vocabulary:
    """A vocabulary, checked to be one for a layer; names of nodes are left out.

    Raises:
        InputError: It has more or fewer relations than the layer, or other types than HGT's.
    """
    relations = vocabulary.relations
    if relations is None:
        raise InputError("the vocabulary has no relations: name the layer's edge types, in order")
    if len(relations) != adapter.num_relations:
        raise InputError(
            f"the vocabulary has {len(relations)} relations but the layer was made for "
            f"{adapter.num_relations}: name all of its edge types, in order"
        )
    own = _own_names(adapter)
    if own is not None:
        for field in ("node_types", "canonical_etypes"):
            given = getattr(vocabulary, field)
            if given is not None and given != getattr(own, field):
                raise InputError(
                    f"the vocabulary's {field} are {shown(given)} but the layer's metadata has "
                    f"{shown(getattr(own, field))}: give them in the layer's order, or leave "
                    "vocabulary out"
                )
        return replace(own, relations=relations)
    return replace(vocabulary, node_names=None)


_ORDERS = GraphSlot[None, TypeOrder]()


def order_of(adapter: Adapter, graph: object, mend: str = NAME_TYPES) -> TypeOrder:
    """How the types of a graph are numbered in a layer.

    A layer with names takes graphs that have the same, in any order; one without takes its numbers.
    Edges that are no `HeteroGraph` bring the layer's numbers.

    Args:
        adapter: Of the layer.
        graph: What it is called with.
        mend: What an error says about how to name types.

    Raises:
        InputError: The graph has other types than the layer's weights are for.
    """
    if not isinstance(graph, HeteroGraph):
        return SAME
    if adapter.vocabulary is None and adapter.metadata is None:
        if graph.num_etypes != adapter.num_relations:
            raise InputError(
                f"the graph has {graph.num_etypes} edge types but the layer was made for "
                f"{adapter.num_relations}: make it with num_relations={graph.num_etypes}"
            )
        return SAME
    return graph.state.of(_ORDERS, None, lambda: _matched(adapter, graph, mend), owner=adapter)


def _own_names(adapter: Adapter) -> Vocabulary | None:
    if adapter.metadata is None:
        return None
    ntypes, etypes = adapter.metadata
    return Vocabulary(tuple(ntypes), tuple(relation_names(etypes)), tuple(etypes))


def _matched(adapter: Adapter, graph: HeteroGraph, mend: str) -> TypeOrder:
    names = adapter.vocabulary or _own_names(adapter)
    assert names is not None
    assert names.relations is not None
    by_ntype = any(param.type.space is Space.NTYPE for param in adapter.program.params)
    if by_ntype:
        graph.canonical_etypes  # noqa: B018  # what is not canonical is refused
    etypes = relation_ids(graph, names)
    _check_same("relations", graph.etype_names, names.relations, etypes, mend)
    if not by_ntype and graph.ntype_names == _UNTYPED:
        return TypeOrder(_unless_same(etypes))
    ntypes = type_ids(graph, names)
    if names.node_types is not None:
        _check_same("node types", graph.ntype_names, names.node_types, ntypes, mend)
    if names.canonical_etypes is not None:
        _check_ends(graph, [names.canonical_etypes[r] for r in etypes], mend)
    return TypeOrder(_unless_same(etypes), _unless_same(ntypes))


def _check_ends(graph: HeteroGraph, wanted: Sequence[CanonicalEtype], mend: str) -> None:
    for r, source, target in graph.type_pairs:
        ends = graph.ntype_names[source], graph.ntype_names[target]
        if ends != (wanted[r][0], wanted[r][2]):
            raise InputError(
                f"the graph's relation {graph.etype_names[r]!r} leads from {ends[0]!r} to "
                f"{ends[1]!r}, and the layer's from {wanted[r][0]!r} to {wanted[r][2]!r}: {mend}"
            )


def _check_same(
    what: str, found: Sequence[str], wanted: Sequence[str], ids: Sequence[int], mend: str
) -> None:
    unknown = [name for name, i in zip(found, ids, strict=True) if i < 0]
    missing = [wanted[i] for i in sorted(set(range(len(wanted))) - set(ids))]
    if unknown or missing:
        parts = [f"has {shown(unknown)}, which the layer lacks"] if unknown else []
        parts += [f"lacks {shown(missing)}"] if missing else []
        raise InputError(
            f"the graph's {what} are not those that the layer is for: it {', and '.join(parts)}; "
            f"{mend}"
        )


def _unless_same(ids: Iterable[int]) -> tuple[int, ...] | None:
    found = tuple(ids)
    return None if found == tuple(range(len(found))) else found


def _rows(tensor: Tensor, order: Sequence[int] | None) -> Tensor:
    if order is None:
        return tensor
    return tensor.index_select(0, torch.tensor(order, dtype=torch.int64, device=tensor.device))
