"""DGL graphs, read by duck typing; dgl itself is imported only to build one."""

from collections.abc import Iterable
from typing import Any

import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph._extras import require
from hetune.variants.graph.convert.edge_index_dict import from_edge_index_dict, to_edge_index_dict
from hetune.variants.graph.hetero import HeteroGraph

_UNTYPED = ("_N", "_E", "_N")
_ETYPE_FIELDS = ("_TYPE", "etype", "edge_type", "rel_type")
_NTYPE_FIELDS = ("_TYPE", "ntype", "node_type")


def from_dgl(
    g: Any,
    *,
    etype: str | None = None,
    ntype: str | None = None,
    etype_names: Iterable[str] | None = None,
    ntype_names: Iterable[str] | None = None,
) -> HeteroGraph:
    """A graph of a DGL graph; edges in the order of their DGL ids, type by type.

    Args:
        g: A heterogeneous `DGLGraph`, or a homogeneous one whose types are in `edata` and `ndata`.
        etype: Homogeneous only: the field of `g.edata` with the edge types; by default the first
            of "_TYPE", "etype", "edge_type", "rel_type" that exists.
        ntype: Likewise in `g.ndata`: "_TYPE", "ntype", "node_type"; must be non-decreasing.
        etype_names: Homogeneous only: names of the edge types.
        ntype_names: Homogeneous only: names of the node types.

    Raises:
        GraphError: It is not a DGL graph, a named field is missing, or a heterogeneous graph came
            with options for homogeneous ones.
    """
    if not hasattr(g, "canonical_etypes") or not hasattr(g, "ntypes"):
        raise GraphError(f"from_dgl got a {type(g).__name__}: give a DGLGraph")
    if list(g.canonical_etypes) == [_UNTYPED] and len(g.ntypes) == 1:
        src, dst = g.edges(order="eid")
        return HeteroGraph(
            src,
            dst,
            _field(g.edata, etype, _ETYPE_FIELDS, "edata"),
            _field(g.ndata, ntype, _NTYPE_FIELDS, "ndata"),
            num_nodes=int(g.num_nodes()),
            etype_names=etype_names,
            ntype_names=ntype_names,
        )
    options: dict[str, object] = {
        "etype": etype,
        "ntype": ntype,
        "etype_names": etype_names,
        "ntype_names": ntype_names,
    }
    if idle := [name for name, value in options.items() if value is not None]:
        raise GraphError(f"g has types and names of its own: leave {', '.join(idle)} out")
    return from_edge_index_dict(
        {key: torch.stack(g.edges(etype=key, order="eid")) for key in g.canonical_etypes},
        {name: int(g.num_nodes(name)) for name in g.ntypes},
        metadata=(g.ntypes, g.canonical_etypes),
    )


def _field(frame: Any, name: str | None, usual: tuple[str, ...], where: str) -> Any:
    if name is None:
        return next((frame[field] for field in usual if field in frame), None)
    if name not in frame:
        raise GraphError(f"g.{where} has no field {name!r} but {sorted(frame)}: name one of them")
    return frame[name]


def to_dgl(graph: HeteroGraph) -> Any:
    """A heterogeneous `DGLGraph` with one edge type per canonical edge type.

    Raises:
        GraphError: The graph is not canonical, or dgl is not installed.
    """
    dgl = require("dgl", "dgl", "to_dgl")
    ends = zip(graph.ntype_names, graph.node_offsets, graph.node_offsets[1:], strict=False)
    return dgl.heterograph(
        {key: (index[0], index[1]) for key, index in to_edge_index_dict(graph).items()},
        num_nodes_dict={name: end - first for name, first, end in ends},
        device=graph.device,
    )
