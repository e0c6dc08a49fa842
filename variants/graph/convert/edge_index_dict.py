"""Dictionaries of `edge_index` tensors with per-type node ids, PyG's heterogeneous convention."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import torch

from hetune.variants.errors import GraphError
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
        like: A graph whose vocabulary that is.
        unknown: "error", or "drop" for types that the vocabulary lacks.

    Raises:
        GraphError: A key, shape, dtype or id does not fit, or a name is unknown.
    """
    known = vocabulary_of(vocabulary, like)
    graph = _from_dict(edge_index_dict, num_nodes_dict, x_dict, metadata)
    return graph if known is None else renumbered(graph, known, unknown=unknown)


def _from_dict(
    edge_index_dict: Mapping[CanonicalEtype, torch.Tensor],
    num_nodes_dict: Mapping[str, int] | None,
    x_dict: Mapping[str, torch.Tensor] | None,
    metadata: tuple[Sequence[str], Sequence[CanonicalEtype]] | None,
) -> HeteroGraph:
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
    ntypes = list(dict.fromkeys([*known, *(end for s, _, d in etypes for end in (s, d))]))

    edges = {key: _ends(key, edge_index_dict[key]) for key in etypes if key in edge_index_dict}
    counts = _node_counts(ntypes, edges, num_nodes_dict, x_dict)
    offsets = dict(zip(ntypes, accumulate(counts.values(), initial=0), strict=False))
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
    device = sources[0].device if sources else torch.device("cpu")
    lengths = [edges[key][0].numel() if key in edges else 0 for key in etypes]
    empty = torch.empty(0, dtype=torch.int64, device="cpu")
    return HeteroGraph(
        torch.cat(sources) if sources else empty,
        torch.cat(targets) if targets else empty,
        _repeat(lengths).to(device),
        _repeat(list(counts.values())).to(device),
        ntype_names=ntypes,
        etype_names=relation_names(etypes),
        canonical_etypes=etypes,
        validate=False,
    )


def to_edge_index_dict(graph: HeteroGraph) -> dict[CanonicalEtype, torch.Tensor]:
    """One int64 `edge_index` [2, E_r] of per-type node ids for each edge type.

    Edges keep their order within a type. Edge types without edges are there too.

    Raises:
        GraphError: The graph is not canonical.
    """
    if not graph.num_etypes:
        return {}
    offsets = dict(zip(graph.ntype_names, graph.node_offsets, strict=False))
    order = torch.argsort(graph.etype, stable=True)
    counts = torch.bincount(graph.etype, minlength=graph.num_etypes).tolist()
    both = torch.stack([graph.src, graph.dst]).long()[:, order]
    columns = torch.tensor_split(both, list(accumulate(counts))[:-1], dim=1)
    result = {}
    for (source, relation, target), edge_index in zip(graph.canonical_etypes, columns, strict=True):
        shift = torch.tensor([[offsets[source]], [offsets[target]]], device=graph.device)
        result[source, relation, target] = edge_index - shift
    return result


def relation_names(etypes: Sequence[CanonicalEtype]) -> list[str]:
    """A distinct name for each triple: its relation where that suffices, else "src|rel|dst"."""
    uses = Counter(relation for _, relation, _ in etypes)
    return [triple[1] if uses[triple[1]] == 1 else "|".join(triple) for triple in etypes]


def _repeat(lengths: Sequence[int]) -> torch.Tensor:
    """0 as often as the first length says, 1 as often as the second, ..."""
    return torch.repeat_interleave(torch.tensor(lengths, dtype=torch.int64, device="cpu"))


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
            counts[ntype] = largest[ntype] + 1
            mend = f"mend the id, or give num_nodes_dict[{ntype!r}]"
            check_found(f"{ntype} nodes", counts[ntype], entries[ntype], mend)
        if counts[ntype] < 0:
            raise GraphError(f"num_nodes_dict[{ntype!r}] is {counts[ntype]}: give a count")
    check_count("the number of nodes", sum(counts.values()))
    return counts
