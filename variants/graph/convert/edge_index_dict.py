"""Dictionaries of `edge_index` tensors with per-type node ids, PyG's heterogeneous convention."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph import index_native
from hetune.variants.graph._arrays import as_ids, check_count, check_found, check_range
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph
from hetune.variants.graph.renumber import renumbered
from hetune.variants.graph.vocabulary import Unknown, VocabularyLike, vocabulary_of


def from_edge_index_dict(
    edge_index_dict: Mapping[CanonicalEtype, torch.Tensor],
    num_nodes_dict: Mapping[str, int] | None = None,
    x_dict: Mapping[str, torch.Tensor] | None = None,
    metadata: tuple[Sequence[str], Sequence[CanonicalEtype]] | None = None,
    *,
    vocabulary: VocabularyLike | None = None,
    like: HeteroGraph | None = None,
    unknown: Unknown = "error",
) -> HeteroGraph:
    """A graph of one `edge_index` per canonical edge type.

    Global node ids are type-major, in the order of `metadata`'s node types, else of `x_dict`'s or
    `num_nodes_dict`'s keys, else of first appearance. Edge types are in the order of `metadata`,
    else of the dictionary; those of `metadata` that the dictionary lacks have no edges. Edges keep
    their order within a type.

    Args:
        edge_index_dict: (source type, relation, destination type) -> int tensor [2, E_r] of ids
            that count within their node type.
        num_nodes_dict: Nodes of each type; by default the rows of `x_dict`, else the largest id
            plus one.
        x_dict: Node features [N_t, ...]; only their lengths are read.
        metadata: Node types and edge types, as `HeteroData.metadata()` gives them.
        vocabulary: Whose order types are given: a `Vocabulary`, its file, a dictionary or a graph.
        like: A graph whose vocabulary that is. Types whose nodes are counted by their ids have at
            least as many as there.
        unknown: "error", or "drop" for types that the vocabulary lacks.

    Raises:
        GraphError: A key, shape, dtype or id does not fit, or a name is unknown.
    """
    known = vocabulary_of(vocabulary, like)
    graph = grouped(edge_index_dict, num_nodes_dict, x_dict, metadata, at_least=node_counts(like))
    return graph if known is None else renumbered(graph, known, unknown=unknown)


def grouped(
    edge_index_dict: Mapping[CanonicalEtype, torch.Tensor],
    num_nodes_dict: Mapping[str, int] | None = None,
    x_dict: Mapping[str, torch.Tensor] | None = None,
    metadata: tuple[Sequence[str], Sequence[CanonicalEtype]] | None = None,
    *,
    at_least: Mapping[str, int] | None = None,
    edge_data: Mapping[str, Mapping[CanonicalEtype, torch.Tensor]] | None = None,
) -> HeteroGraph:
    """As `from_edge_index_dict`, with the numbers that types have there.

    Args:
        edge_index_dict: As there; so are the next three.
        num_nodes_dict: Nodes of each type.
        x_dict: Node features.
        metadata: Node types and edge types.
        at_least: Fewest nodes of types whose nodes are counted by their ids.
        edge_data: Values [E_r, ...] of the edges, by name and by all keys of `edge_index_dict`.
    """
    for key in edge_index_dict:
        if not (isinstance(key, tuple) and len(key) == 3):
            raise GraphError(
                f"edge_index_dict has the key {key!r}: "
                "keys are (source type, relation, destination type)"
            )
    etypes = list(edge_index_dict) if metadata is None else [_triple(t) for t in metadata[1]]
    if unknown := edge_index_dict.keys() - set(etypes):
        raise GraphError(
            f"edge_index_dict has the key {min(unknown)}, which metadata lacks: add it"
        )
    known = (metadata[0] if metadata is not None else None) or x_dict or num_nodes_dict or ()
    fewest = at_least or {}
    ends = (end for s, _, d in etypes for end in (s, d))
    ntypes = list(dict.fromkeys([*known, *ends, *fewest]))

    edges = {key: _ends(key, edge_index_dict[key]) for key in etypes if key in edge_index_dict}
    counts = _node_counts(ntypes, edges, num_nodes_dict, x_dict, fewest)
    offsets = dict(zip(ntypes, accumulate(counts.values(), initial=0), strict=False))
    joined = _joined_at_once(edges, counts, offsets) or _joined(edges, counts, offsets)
    device = joined[0].device
    lengths = [edges[key][0].numel() if key in edges else 0 for key in etypes]
    return HeteroGraph(
        *joined,
        _repeat(lengths).to(device),
        _repeat(list(counts.values())).to(device),
        ntype_names=ntypes,
        etype_names=relation_names(etypes),
        canonical_etypes=etypes,
        edge_data={
            name: torch.cat([values[key] for key in edges])
            for name, values in (edge_data or {}).items()
            if edges
        },
        validate=False,
    )


_Edges = Mapping[CanonicalEtype, tuple[torch.Tensor, torch.Tensor]]


def _joined_at_once(
    edges: _Edges, counts: Mapping[str, int], offsets: Mapping[str, int]
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """As `_joined`, by one call for all sources and one for all targets; None of wrong ids."""
    given = edges.items()
    is_here = all(ids.device.type == "cpu" for _, ends in given for ids in ends)
    if not (is_here and edges and index_native.is_loaded()):
        return None
    sources = [(src, counts[name], offsets[name]) for (name, _, _), (src, _) in given]
    targets = [(dst, counts[name], offsets[name]) for (_, _, name), (_, dst) in given]
    src, dst = index_native.own_parts(sources), index_native.own_parts(targets)
    return None if src is None or dst is None else (src, dst)


def _joined(
    edges: _Edges, counts: Mapping[str, int], offsets: Mapping[str, int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Global ids of the ends of all edges, checked."""
    empty = torch.empty(0, dtype=torch.int64, device="cpu")
    sources, targets = [], []
    for (source, relation, target), (src, dst) in edges.items():
        name = f"edge_index_dict[{(source, relation, target)}]"
        grow = "num_nodes_dict[{!r}]"
        check_range(f"{name}[0]", src, counts[source], f"{source} nodes", grow.format(source))
        check_range(f"{name}[1]", dst, counts[target], f"{target} nodes", grow.format(target))
        sources.append(src.long() + offsets[source])
        targets.append(dst.long() + offsets[target])
    if len({part.device for part in (*sources, *targets)}) > 1:
        raise GraphError("edge_index_dict has tensors on several devices: move them to one")
    return (torch.cat(sources), torch.cat(targets)) if sources else (empty, empty)


def to_edge_index_dict(graph: HeteroGraph) -> dict[CanonicalEtype, torch.Tensor]:
    """One int64 `edge_index` [2, E_r] of per-type node ids for each edge type.

    Edges keep their order within a type. Edge types without edges are there too.

    Raises:
        GraphError: The graph is not canonical.
    """
    offsets = dict(zip(graph.ntype_names, graph.node_offsets, strict=False))
    result = {}
    both = torch.stack([graph.src, graph.dst], dim=1).long()
    for (source, relation, target), ends in _by_etype(graph, both).items():
        shift = torch.tensor([[offsets[source]], [offsets[target]]], device=graph.device)
        result[source, relation, target] = ends.t() - shift
    return result


def edge_data_dict(graph: HeteroGraph) -> dict[CanonicalEtype, dict[str, torch.Tensor]]:
    """Values [E_r, ...] of the edges by edge type and name, in the order of their edges there."""
    found: dict[CanonicalEtype, dict[str, torch.Tensor]] = {}
    for name, values in graph.edge_data.items():
        for key, part in _by_etype(graph, values).items():
            found.setdefault(key, {})[name] = part
    return found


def node_counts(graph: object) -> dict[str, int]:
    """Nodes of each type of a graph; nothing of what is none."""
    if not isinstance(graph, HeteroGraph):
        return {}
    bounds = zip(graph.ntype_names, graph.node_offsets, graph.node_offsets[1:], strict=False)
    return {name: end - first for name, first, end in bounds}


def _by_etype(graph: HeteroGraph, rows: torch.Tensor) -> dict[CanonicalEtype, torch.Tensor]:
    """A row for each edge [E, ...], apart by edge type."""
    triples = graph.canonical_etypes
    if not triples:
        return {}
    order = torch.argsort(graph.etype, stable=True)
    counts = torch.bincount(graph.etype, minlength=graph.num_etypes).tolist()
    return dict(zip(triples, torch.split(rows[order], counts), strict=True))


def relation_names(etypes: Sequence[CanonicalEtype]) -> list[str]:
    """A distinct name for each triple: its relation where that suffices, else "src|rel|dst"."""
    uses = Counter(relation for _, relation, _ in etypes)
    return [triple[1] if uses[triple[1]] == 1 else "|".join(triple) for triple in etypes]


def _repeat(lengths: Sequence[int]) -> torch.Tensor:
    """0 as often as the first length says, 1 as often as the second, ..."""
    return torch.from_numpy(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))


def _triple(given: Iterable[str]) -> CanonicalEtype:
    source, relation, target = given
    return source, relation, target


def _ends(key: CanonicalEtype, value: object) -> tuple[torch.Tensor, torch.Tensor]:
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        raise GraphError(
            f"edge_index_dict[{key}] is a {type(value).__name__}: give an int64 tensor of shape "
            "[2, E]; from a sparse adjacency, stack its source and destination indices"
        )
    if value.dim() != 2 or value.shape[0] != 2:
        raise GraphError(
            f"edge_index_dict[{key}] has shape {list(value.shape)}: it must be [2, E]; "
            "transpose one of shape [E, 2] with .t()"
        )
    name = f"edge_index_dict[{key}]"
    return as_ids(name, value[0]), as_ids(name, value[1])


def _node_counts(
    ntypes: Sequence[str],
    edges: Mapping[CanonicalEtype, tuple[torch.Tensor, torch.Tensor]],
    num_nodes_dict: Mapping[str, int] | None,
    x_dict: Mapping[str, torch.Tensor] | None,
    fewest: Mapping[str, int],
) -> dict[str, int]:
    largest, entries = dict.fromkeys(ntypes, -1), dict.fromkeys(ntypes, 0)
    given = num_nodes_dict or {}
    features = x_dict or {}
    for (source, _, target), ends in edges.items():
        for ntype, ids in zip((source, target), ends, strict=True):
            if ntype not in given and ntype not in features and ids.numel():
                largest[ntype] = max(largest[ntype], int(ids.max()))
                entries[ntype] += ids.numel()
    counts = {}
    for ntype in ntypes:
        if ntype in given:
            counts[ntype] = int(given[ntype])
        elif ntype in features:
            counts[ntype] = int(features[ntype].shape[0])
        else:
            counts[ntype] = max(largest[ntype] + 1, fewest.get(ntype, 0))
            mend = f"mend the id, or give num_nodes_dict[{ntype!r}]"
            check_found(f"{ntype} nodes", counts[ntype], entries[ntype], mend)
        if counts[ntype] < 0:
            raise GraphError(f"num_nodes_dict[{ntype!r}] is {counts[ntype]}: give a count")
    check_count("the number of nodes", sum(counts.values()))
    return counts
