"""Graphs of columns, an edge per row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from hetune.variants.errors import GraphError
from hetune.variants.graph._arrays import as_ids, check_found, check_range
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.id_columns import Column, check_labels, column_of, floats_of
from hetune.variants.graph.loaders.options import TableOptions, TextOptions
from hetune.variants.graph.rename import named_by_number
from hetune.variants.graph.vocabulary import only_name

_CALLED = {"src": "source", "dst": "destination", "etype": "edge type"}


def graph_of_columns(
    columns: Mapping[str, pa.ChunkedArray],
    options: TableOptions,
    *,
    etype_names: Sequence[str] | None = None,
    ntype_names: Sequence[str] | None = None,
    node_names: Sequence[str] | None = None,
) -> HeteroGraph:
    """A graph from columns by their roles, one row per edge.

    Integers are node ids as they are; anything else is a label, and labels are numbered in order
    of first appearance, sources first. Edge types that are integers are edge types as they are,
    others are names. Where a vocabulary names them, integers are names, too.

    Args:
        columns: src and dst [E]; optionally etype, weight and time.
        options: How nodes are numbered.
        etype_names: R names where edge types are integers.
        ntype_names: The name of the single node type.
        node_names: Names of the nodes where they are ids.

    Raises:
        GraphError: A value is missing, or something does not fit.
    """
    check_filled(columns)
    known = options.known
    single = only_name(None if known is None else known.node_types, "node")
    if ntype_names is not None:
        single = ntype_names[0]
    ends = _ends(columns["src"], columns["dst"], options, single, node_names)
    etype: np.ndarray | None = None
    names: Sequence[str] | None = None
    if "etype" in columns:
        relations = None if known is None else known.relations
        etype, names = _etypes(columns["etype"], relations)
    are_numbers = names is None and etype_names is None
    names = etype_names if names is None else names
    num_etypes = options.num_etypes
    if etype is not None and names is not None:
        if num_etypes is not None and num_etypes != len(names):
            raise GraphError(
                f"num_etypes is {num_etypes}, but there are {len(names)} names of edge types: "
                "leave it out"
            )
        check_range("etype", as_ids("etype", etype), len(names), "edge types")
    graph = HeteroGraph(
        ends.src,
        ends.dst,
        etype,
        ends.ntype,
        num_nodes=ends.count or None,
        num_etypes=num_etypes,
        etype_names=names,
        ntype_names=[single] if ends.names is None else ends.names,
        node_names={name: own for name, own in ends.node_names.items() if own is not None},
        edge_data=_edge_data(columns),
    )
    by_number = etype is not None if are_numbers else None
    return named_by_number(graph, known, relations=by_number, node_types=None)


def part_of(graph: HeteroGraph, edges: slice | np.ndarray) -> HeteroGraph:
    """Some edges of a graph, with all of its nodes and types."""
    return graph.with_columns(
        graph.src[edges],
        graph.dst[edges],
        graph.etype[edges],
        canonical_etypes=graph.vocabulary(node_names=False).canonical_etypes,
        edge_data={name: values[edges] for name, values in graph.edge_data.items()},
    )


def check_filled(columns: Mapping[str, pa.ChunkedArray]) -> None:
    """Refuse columns in which a value is missing, with a `GraphError` that names the row."""
    for role, column in columns.items():
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py() + 1
            called = _CALLED.get(role, role)
            raise GraphError(f"row {row} has no {called}: fill it in or drop the row")


@dataclass(frozen=True, slots=True)
class _Ends:
    src: np.ndarray
    dst: np.ndarray
    count: int
    node_names: dict[str, Sequence[str] | None]
    ntype: np.ndarray | None = None
    names: Sequence[str] | None = None


def _ends(
    src: pa.ChunkedArray,
    dst: pa.ChunkedArray,
    options: TableOptions,
    single: str,
    node_names: Sequence[str] | None,
) -> _Ends:
    sources, destinations = column_of("source", src), column_of("destination", dst)
    types = options.bipartite
    if types is None:
        ntype = single if node_names is None else None
        both = _numbered((sources, destinations), options, ntype)
        edges = len(src)
        count = both.count if options.num_nodes is None else options.num_nodes
        named = {single: both.names if node_names is None else node_names}
        return _Ends(both.ids[:edges], both.ids[edges:], count, named)
    if isinstance(types, str) or len(types) != 2 or types[0] == types[1]:
        raise GraphError(f"bipartite is {types!r}: give two distinct node type names")
    rows = _numbered((sources,), options, types[0])
    columns = _numbered((destinations,), options, types[1])
    check_range("src", as_ids("src", rows.ids), rows.count, f"{types[0]} nodes")
    check_range("dst", as_ids("dst", columns.ids), columns.count, f"{types[1]} nodes")
    count = rows.count + columns.count
    if options.num_nodes not in (None, count):
        raise GraphError("num_nodes cannot be combined with bipartite: leave it out")
    ids = np.repeat([0, 1], [rows.count, columns.count])
    named = {types[0]: rows.names, types[1]: columns.names}
    return _Ends(rows.ids, columns.ids + rows.count, count, named, ids, tuple(types))


@dataclass(frozen=True, slots=True)
class _Numbered:
    ids: np.ndarray
    count: int
    names: Sequence[str] | None = None


def _numbered(columns: tuple[Column, ...], options: TableOptions, ntype: str | None) -> _Numbered:
    """The nodes of columns that name the same ones, one column after the other.

    Args:
        columns: The columns.
        options: How nodes are numbered.
        ntype: The type by which a vocabulary may name them; None if they are ids in any case.
    """
    known = options.known
    is_named = known is not None and ntype in (known.node_names or {})
    are_numeric = all(column.is_numeric for column in columns)
    if are_numeric and not options.relabel and not is_named:
        for column in columns:
            if column.ids is None:
                raise GraphError(column.trouble)
        ids = _joined([column.ids for column in columns]).to_numpy()
        count = max(0, int(ids.max()) + 1) if len(ids) else 0
        if options.num_nodes is None:
            check_found("nodes", count, len(ids), "pass relabel=True to number them anew")
        return _Numbered(ids, count)
    if options.relabel is False and not are_numeric:
        raise GraphError("the nodes are labels, not integers: leave relabel out")
    if options.relabel is None and not is_named:
        check_labels(columns, can_skip=isinstance(options, TextOptions))
    encoded = _encoded(_joined([column.texts for column in columns]))
    names = encoded.dictionary.to_pylist() if is_named or options.node_names else None
    return _Numbered(_codes(encoded), len(encoded.dictionary), names)


def _etypes(
    values: pa.ChunkedArray, known: Sequence[str] | None
) -> tuple[np.ndarray, Sequence[str] | None]:
    """The type of each edge, and the names if they have any."""
    column = column_of("edge type", values)
    if column.ids is not None:
        encoded = _encoded(column.texts) if known else None
        if encoded is None or not set(encoded.dictionary.to_pylist()) <= set(known or ()):
            return column.ids.to_numpy(), None
    elif column.trouble:
        raise GraphError(
            column.trouble.partition(":")[0] + ": give edge types integers or names; if these are "
            "weights, say so with columns="
        )
    else:
        encoded = _encoded(column.texts)
    return _codes(encoded), [str(name) for name in encoded.dictionary.to_pylist()]


def _edge_data(columns: Mapping[str, pa.ChunkedArray]) -> dict[str, Tensor]:
    found = {}
    if "weight" in columns:
        weights = floats_of("weight", columns["weight"], np.dtype(np.float32))
        found["weight"] = torch.from_numpy(weights)
    if "time" in columns:
        ids = column_of("time", columns["time"]).ids
        times = floats_of("time", columns["time"]) if ids is None else np.array(ids.to_numpy())
        found["time"] = torch.from_numpy(times)
    return found


def _joined(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array(
        [chunk for column in columns for chunk in column.chunks], columns[0].type
    )


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    return pc.dictionary_encode(column).combine_chunks()


def _codes(encoded: pa.DictionaryArray) -> np.ndarray:
    codes: np.ndarray = encoded.indices.to_numpy(zero_copy_only=False)
    return codes.astype(np.int64)
