"""Columns of a graph: whether they and names fit together, and all ids are in range."""

from collections.abc import Sequence

import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph._arrays import check_names, check_sorted, in_range
from hetune.variants.graph.typed_edges import TypedEdges


def checked_columns(
    graph: TypedEdges, num_nodes: int | None, made: frozenset[str] = frozenset()
) -> tuple[torch.Tensor, ...]:
    """src, dst, etype and ntype as int32, which nobody else has.

    Args:
        graph: What to check.
        num_nodes: How many nodes there are said to be.
        made: Columns that nobody gave: all 0.

    Raises:
        GraphError: Arrays and names do not fit together, or an id is out of range.
    """
    columns = {"dst": graph.dst, "etype": graph.etype, "ntype": graph.ntype}
    for name, ids in columns.items():
        if name != "ntype" and ids.numel() != graph.num_edges:
            raise GraphError(
                f"{name} has {ids.numel()} entries but src has {graph.num_edges}: give one per edge"
            )
        if ids.device != graph.device:
            raise GraphError(
                f"{name} is on {ids.device} but src is on {graph.device}: "
                f"move it with {name}.to({str(graph.device)!r})"
            )
    if num_nodes not in (None, graph.num_nodes):
        raise GraphError(
            f"ntype has {graph.num_nodes} entries but num_nodes is {num_nodes}: "
            "give one type per node"
        )
    check_names("ntype", graph.ntype_names, graph.num_ntypes)
    check_names("etype", graph.etype_names, graph.num_etypes)
    etype, ntype = graph.etype, graph.ntype
    src, dst = (
        in_range(name, getattr(graph, name), graph.num_nodes, "nodes", "num_nodes")
        for name in ("src", "dst")
    )
    if "etype" not in made or not graph.num_etypes:
        etype = in_range("etype", etype, graph.num_etypes, "edge types", "num_etypes")
    if "ntype" not in made or not graph.num_ntypes:
        ntype = in_range("ntype", ntype, graph.num_ntypes, "node types", "num_ntypes")
        check_sorted("ntype", ntype)
    _check_node_names(graph)
    return src, dst, etype, ntype


def _check_node_names(graph: TypedEdges) -> None:
    if graph.node_names is None:
        return
    counts = torch.bincount(graph.ntype, minlength=graph.num_ntypes).tolist()
    nodes = dict(zip(graph.ntype_names, counts, strict=True))
    for ntype, names in graph.node_names.items():
        if ntype not in nodes:
            raise GraphError(
                f"node_names has the node type {ntype!r}, which is not one of ntype_names "
                f"{list(graph.ntype_names)}: correct it"
            )
        if len(names) != nodes[ntype]:
            raise GraphError(
                f"node_names[{ntype!r}] has {len(names)} names but there are {nodes[ntype]} "
                "such nodes: give one name per node"
            )
        if len(set(names)) < len(names):
            raise GraphError(
                f"node_names[{ntype!r}] holds {_repeated(names)!r} twice: names must be "
                "distinct within a type"
            )


def _repeated(names: Sequence[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
