"""Graphs as documents and tensors, checked against limits before memory is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from hetune.service.core.formats.documents import Count, Document
from hetune.service.core.formats.json_arrays import JsonArray
from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.formats.number_fields import Integers
from hetune.service.core.formats.safe_names import check_plain
from hetune.variants.errors import GraphError, MalformedError
from hetune.variants.graph.hetero import HeteroGraph

ARRAYS = ("src", "dst", "etype", "ntype")
_OF_EDGES = ("dst", "etype")
_INTEGERS = (torch.int16, torch.int32, torch.int64)


class GraphHeader(Document):
    """A graph without its arrays. What is missing is found as `HeteroGraph` finds it."""

    num_nodes: Count | None = None
    num_etypes: Count | None = None
    num_ntypes: Count | None = None
    ntype_names: tuple[str, ...] | None = None
    etype_names: tuple[str, ...] | None = None
    canonical_etypes: tuple[tuple[str, str, str], ...] | None = None


class GraphDocument(GraphHeader):
    """A small graph, arrays included."""

    has_arrays: ClassVar[bool] = True
    src: Integers
    dst: Integers
    etype: Integers | None = None
    ntype: Integers | None = None

    def arrays(self, limits: ServiceLimits) -> dict[str, Tensor]:
        """The arrays as tensors of int32, or of int64 where ids need it.

        Raises:
            TooLargeError: One is longer than those of any graph that is accepted.
            GraphError: Those of edges are of different lengths.
            MalformedError: One has other numbers than integers.
        """
        given: dict[str, JsonArray | None] = {name: getattr(self, name) for name in ARRAYS}
        for name, ids in given.items():
            check_limit(name, 0 if ids is None else ids.count, _longest(limits))
            if name in _OF_EDGES and ids is not None and ids.count != self.src.count:
                raise GraphError(
                    f"{name} has {ids.count} entries and src has {self.src.count}: give one for "
                    "each edge"
                )
        return {
            name: torch.from_numpy(ids.integers(name))
            for name, ids in given.items()
            if ids is not None
        }


def graph_of(
    header: GraphHeader, arrays: Mapping[str, Tensor], limits: ServiceLimits
) -> HeteroGraph:
    """The graph of a header and arrays.

    Args:
        header: Counts and names.
        arrays: src, dst [E]; optionally etype [E] and ntype [N]; integers.
        limits: What is accepted.

    Raises:
        MalformedError: An array is missing, or none of a graph's.
        TooLargeError: The graph is over a limit.
        GraphError: It is none.
        InputError: A name of its types holds a control character.
    """
    check_names(header)
    for name in arrays:
        if name not in ARRAYS:
            raise MalformedError(f"a graph has no array {name!r}: give {', '.join(ARRAYS)}")
    for name in ("src", "dst"):
        if name not in arrays:
            raise MalformedError(f"the array {name} is missing: give one node id for each edge")
    _check_size(header, arrays, limits)
    return HeteroGraph(
        arrays["src"],
        arrays["dst"],
        arrays.get("etype"),
        arrays.get("ntype"),
        num_nodes=header.num_nodes,
        num_etypes=header.num_etypes,
        num_ntypes=header.num_ntypes,
        ntype_names=header.ntype_names,
        etype_names=header.etype_names,
        canonical_etypes=header.canonical_etypes,
    )


def check_names(header: GraphHeader) -> None:
    """Checks that names of types hold no control characters, whether the graph is kept or not.

    Raises:
        InputError: One does.
    """
    check_plain("node type", header.ntype_names or ())
    check_plain("edge type", header.etype_names or ())
    for triple in header.canonical_etypes or ():
        check_plain("edge type", triple)


def header_of(graph: HeteroGraph) -> GraphHeader:
    """The header with which `graph_of` gives an equal graph, one of the same fingerprint."""
    return GraphHeader(
        num_nodes=graph.num_nodes,
        num_etypes=graph.num_etypes,
        num_ntypes=graph.num_ntypes,
        ntype_names=graph.ntype_names,
        etype_names=graph.etype_names,
        canonical_etypes=graph.canonical_etypes
        if graph.num_ntypes and graph.is_canonical
        else None,
    )


def arrays_of(graph: HeteroGraph) -> dict[str, Tensor]:
    """The arrays with which `graph_of` gives an equal graph."""
    return {name: getattr(graph, name) for name in ARRAYS}


def _check_size(header: GraphHeader, arrays: Mapping[str, Tensor], limits: ServiceLimits) -> None:
    """What would be found from the largest id counts, too: one id may ask for gigabytes."""
    for name, array in arrays.items():
        check_limit(name, array.numel(), _longest(limits))
    ntype = arrays.get("ntype")
    nodes = 0 if ntype is None else ntype.numel()
    nodes = max(nodes, header.num_nodes or 0)
    if header.num_nodes is None:
        nodes = max(nodes, _following(arrays["src"]), _following(arrays["dst"]))
    check_limit("nodes", nodes, limits.nodes)
    check_limit("edges", arrays["src"].numel(), limits.edges)
    triples = header.canonical_etypes
    for what, count, names, ids in (
        ("node types", header.num_ntypes, header.ntype_names, ntype),
        ("edge types", header.num_etypes, header.etype_names or triples, arrays.get("etype")),
    ):
        found = max(count or 0, len(names or ()))
        if count is None and names is None and ids is not None:
            found = _following(ids)
        check_limit(what, found, limits.types)


def _longest(limits: ServiceLimits) -> int:
    return max(limits.nodes, limits.edges)


def _following(ids: Tensor) -> int:
    """The largest id plus one; 0 where there is none, or where a graph will refuse the array."""
    if ids.numel() == 0 or ids.dtype not in _INTEGERS:
        return 0
    return int(ids.max()) + 1
