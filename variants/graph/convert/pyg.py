"""PyTorch Geometric's `Data` and `HeteroData`, read by duck typing."""

import warnings
from collections.abc import Iterable
from typing import Any

import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph import _edge_data
from hetune.variants.graph.convert.edge_index_dict import (
    edge_data_dict,
    grouped,
    node_counts,
    relation_names,
    to_edge_index_dict,
)
from hetune.variants.graph.convert.kept_names import (
    KEY,
    as_text,
    edge_data_of,
    from_text,
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

_TAKEN = frozenset(
    {"adj", "adj_t", "edge_index", "edge_type", "node_type", "num_nodes", KEY, _edge_data.KEY}
)


def from_pyg(
    data: Any,
    *,
    vocabulary: VocabularyLike | None = None,
    like: HeteroGraph | None = None,
    unknown: Unknown = "error",
) -> HeteroGraph:
    """A graph of a PyG `HeteroData`, or of a `Data` with `edge_index` [2, E].

    From `Data`, `edge_type` [E] and `node_type` [N] are read where they exist; `node_type` must be
    non-decreasing. Node counts are PyG's own `num_nodes`.

    Args:
        data: The graph.
        vocabulary: Whose order types are given: a `Vocabulary`, its file, a dictionary or a graph.
            Numbers of types in a `Data` are numbers in it.
        like: A graph whose vocabulary that is.
        unknown: "error", or "drop" for types that the vocabulary lacks.

    Raises:
        GraphError: It is neither, has no `edge_index`, an id does not fit, or a name is unknown.
    """
    known, kept = vocabulary_of(vocabulary, like), from_text(getattr(data, KEY, None))
    if hasattr(data, "edge_types") and hasattr(data, "node_types"):
        graph = restored(_from_hetero_data(data), kept)
    else:
        graph = _from_data(data, kept or known)
    return graph if known is None else renumbered(graph, known, unknown=unknown)


def _from_data(data: Any, named: Vocabulary | None) -> HeteroGraph:
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise GraphError(
            f"from_pyg got a {type(data).__name__} without edge_index: give a PyG Data or "
            "HeteroData with edge_index; torch_geometric.transforms.ToSparseTensor removes it"
        )
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise GraphError(f"data.edge_index has shape {list(edge_index.shape)}: it must be [2, E]")
    edge_type, node_type = getattr(data, "edge_type", None), getattr(data, "node_type", None)
    kept = {name: data[name] for name in _kept_names(data) if name in data}
    count = edge_index.shape[1]
    graph = HeteroGraph(
        edge_index[0],
        edge_index[1],
        edge_type,
        node_type,
        num_nodes=_num_nodes(data),
        edge_data={
            name: values
            for name, values in kept.items()
            if isinstance(values, torch.Tensor) and values.shape[:1] == (count,)
        },
    )
    graph = named_by_number(
        graph, named, relations=edge_type is not None, node_types=node_type is not None
    )
    return restored(graph, named)


def _from_hetero_data(data: Any) -> HeteroGraph:
    edge_index_dict = {}
    for key in data.edge_types:
        if "edge_index" not in data[key]:
            raise GraphError(
                f"data[{key}] has no edge_index but {sorted(data[key].keys())}: give an "
                "edge_index of shape [2, E]"
            )
        edge_index_dict[key] = data[key].edge_index
    counts = {ntype: _num_nodes(data[ntype]) for ntype in data.node_types}
    stores = {key: data[key] for key in data.edge_types}
    edges = {key: ends.shape[-1] for key, ends in edge_index_dict.items()}
    return grouped(
        edge_index_dict,
        {ntype: count for ntype, count in counts.items() if count is not None},
        metadata=(data.node_types, data.edge_types),
        edge_data=edge_data_of(stores, edges, _kept_names(data)),
    )


def _kept_names(data: Any) -> Iterable[str]:
    return _edge_data.from_text(getattr(data, _edge_data.KEY, None))


def _num_nodes(store: Any) -> int | None:
    with warnings.catch_warnings():
        # PyG warns where it infers the count from the edges; so do we, without a warning.
        warnings.simplefilter("ignore")
        count = store.num_nodes
    return None if count is None else int(count)


def to_pyg(graph: HeteroGraph, *, homogeneous: bool = False) -> Any:
    """A PyG `HeteroData` with `edge_index` per canonical edge type and `num_nodes` per node type.

    Args:
        graph: A canonical graph.
        homogeneous: Give a `Data` with `edge_index` [2, E], `edge_type` [E] and `node_type` [N]
            over global ids instead; any graph will do.

    Edge data are attributes by their names; "hetune_edge_data" lists them for `from_pyg`. Names
    that PyG has no place for are kept in the attribute "hetune_vocabulary".

    Raises:
        GraphError: The graph is not canonical, edge data has a name that PyG uses, or
            torch_geometric is not installed.
    """
    pyg = require("torch_geometric.data", "pyg", "to_pyg")
    _edge_data.check_free(graph.edge_data, _TAKEN, "PyG")
    if homogeneous:
        flat = pyg.Data(
            edge_index=torch.stack([graph.src, graph.dst]).long(),
            edge_type=graph.etype.long(),
            node_type=graph.ntype.long(),
            num_nodes=graph.num_nodes,
        )
        flat[KEY] = as_text(graph.vocabulary())
        if graph.edge_data:
            flat[_edge_data.KEY] = _edge_data.as_text(graph.edge_data)
        for name, values in graph.edge_data.items():
            flat[name] = values
        return flat
    data = pyg.HeteroData()
    for ntype, count in node_counts(graph).items():
        data[ntype].num_nodes = count
    for key, edge_index in to_edge_index_dict(graph).items():
        data[key].edge_index = edge_index
    for key, own in edge_data_dict(graph).items():
        for name, values in own.items():
            data[key][name] = values
    if graph.edge_data:
        data[_edge_data.KEY] = _edge_data.as_text(graph.edge_data)
    own_names = tuple(relation_names(graph.canonical_etypes))
    if graph.etype_names != own_names or graph.node_names is not None:
        data[KEY] = as_text(vocabulary_with_triples(graph))
    return data
