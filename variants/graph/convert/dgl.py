"""DGL graphs, read by duck typing; dgl itself is imported only to build one."""

from collections.abc import Iterable
from typing import Any

import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph import _edge_data
from hetune.variants.graph.convert.edge_index_dict import (
    edge_data_dict,
    grouped,
    node_counts,
    to_edge_index_dict,
)
from hetune.variants.graph.convert.kept_names import (
    KEY,
    edge_data_of,
    restored,
    vocabulary_with_triples,
)
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.optional_packages import require
from hetune.variants.graph.rename import named_by_number
from hetune.variants.graph.renumber import renumbered
from hetune.variants.graph.vocabulary import (
    Unknown,
    Vocabulary,
    VocabularyLike,
    vocabulary_of,
)

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
    vocabulary: VocabularyLike | None = None,
    like: HeteroGraph | None = None,
    unknown: Unknown = "error",
) -> HeteroGraph:
    """A graph of a DGL graph; edges in the order of their DGL ids, type by type.

    DGL sorts types by their names; what `to_dgl` made has the order that it came from.

    Args:
        g: A heterogeneous `DGLGraph`, or a homogeneous one whose types are in `edata` and `ndata`.
        etype: Homogeneous only: the field of `g.edata` with the edge types; by default the first
            of "_TYPE", "etype", "edge_type", "rel_type" that exists.
        ntype: Likewise in `g.ndata`: "_TYPE", "ntype", "node_type"; must be non-decreasing.
        etype_names: Homogeneous only: names of the edge types.
        ntype_names: Homogeneous only: names of the node types.
        vocabulary: Whose order types are given: a `Vocabulary`, its file, a dictionary or a graph.
        like: A graph whose vocabulary that is.
        unknown: "error", or "drop" for types that the vocabulary lacks.

    Raises:
        GraphError: It is not a DGL graph, a named field is missing, a heterogeneous graph came
            with options for homogeneous ones, or a name is unknown.
    """
    known = vocabulary_of(vocabulary, like)
    if not hasattr(g, "canonical_etypes") or not hasattr(g, "ntypes"):
        raise GraphError(f"from_dgl got a {type(g).__name__}: give a DGLGraph")
    kept = _kept(g)
    if kept is None and list(g.canonical_etypes) == [_UNTYPED] and len(g.ntypes) == 1:
        src, dst = g.edges(order="eid")
        etypes = _field(g.edata, etype, _ETYPE_FIELDS, "edata")
        ntypes = _field(g.ndata, ntype, _NTYPE_FIELDS, "ndata")
        graph = HeteroGraph(
            src,
            dst,
            etypes,
            ntypes,
            num_nodes=int(g.num_nodes()),
            etype_names=etype_names,
            ntype_names=ntype_names,
        )
        if known is None:
            return graph
        graph = named_by_number(
            graph,
            known,
            relations=etypes is not None if etype_names is None else None,
            node_types=ntypes is not None if ntype_names is None else None,
        )
        return renumbered(graph, known, unknown=unknown)
    options: dict[str, object] = {
        "etype": etype,
        "ntype": ntype,
        "etype_names": etype_names,
        "ntype_names": ntype_names,
    }
    if idle := [name for name, value in options.items() if value is not None]:
        raise GraphError(f"g has types and names of its own: leave {', '.join(idle)} out")
    metadata = (g.ntypes, g.canonical_etypes)
    if kept is not None and kept.node_types is not None and kept.canonical_etypes is not None:
        metadata = (list(kept.node_types), list(kept.canonical_etypes))
    names = _edge_data.from_text(getattr(g, _edge_data.KEY, None))
    frames = {key: g.edges[key].data for key in g.canonical_etypes} if names else {}
    edges = {key: int(g.num_edges(key)) for key in frames}
    graph = grouped(
        {key: torch.stack(g.edges(etype=key, order="eid")) for key in g.canonical_etypes},
        {name: int(g.num_nodes(name)) for name in g.ntypes},
        metadata=metadata,
        edge_data=edge_data_of(frames, edges, names),
    )
    graph = restored(graph, kept)
    return graph if known is None else renumbered(graph, known, unknown=unknown)


def _kept(g: Any) -> Vocabulary | None:
    """What `to_dgl` kept with a graph, if it has the same types still."""
    kept = getattr(g, KEY, None)
    if not isinstance(kept, Vocabulary):
        return None
    is_same = sorted(kept.node_types or ()) == sorted(g.ntypes) and sorted(
        kept.canonical_etypes or ()
    ) == sorted(g.canonical_etypes)
    return kept if is_same else None


def _field(frame: Any, name: str | None, usual: tuple[str, ...], where: str) -> Any:
    if name is None:
        return next((frame[field] for field in usual if field in frame), None)
    if name not in frame:
        raise GraphError(f"g.{where} has no field {name!r} but {sorted(frame)}: name one of them")
    return frame[name]


def to_dgl(graph: HeteroGraph) -> Any:
    """A heterogeneous `DGLGraph` with one edge type per canonical edge type.

    Its attribute "hetune_vocabulary" keeps the order of types, and names of nodes; DGL's own
    copies on disk do not. Edge data are in `edata`, and the attribute "hetune_edge_data" lists
    them.

    Raises:
        GraphError: The graph is not canonical, edge data has a name that begins with "_", or dgl is
            not installed.
    """
    dgl = require("dgl", "dgl", "to_dgl")
    _edge_data.check_free(graph.edge_data, frozenset(), "DGL")
    made = dgl.heterograph(
        {key: (index[0], index[1]) for key, index in to_edge_index_dict(graph).items()},
        num_nodes_dict=node_counts(graph),
        device=graph.device,
    )
    for key, own in edge_data_dict(graph).items():
        made.edges[key].data.update(own)
    setattr(made, KEY, vocabulary_with_triples(graph))
    setattr(made, _edge_data.KEY, _edge_data.as_text(graph.edge_data))
    return made
