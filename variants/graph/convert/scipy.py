"""SciPy sparse matrices and arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hetune.variants.errors import GraphError
from hetune.variants.graph._arrays import IdArray
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.rename import named_by_number
from hetune.variants.graph.renumber import renumbered
from hetune.variants.graph.vocabulary import (
    Unknown,
    Vocabulary,
    VocabularyLike,
    shown,
    vocabulary_of,
)


def from_scipy(
    matrix: Any | Mapping[str, Any],
    ntype: IdArray | None = None,
    *,
    vocabulary: VocabularyLike | None = None,
    like: HeteroGraph | None = None,
    unknown: Unknown = "error",
) -> HeteroGraph:
    """A graph with an edge i -> j for each stored entry (i, j), explicit zeros included.

    Args:
        matrix: A sparse matrix or array [N, N], or a dictionary of them by edge type, all of the
            same shape. One that is not square, [A, B], gives two node types "row" and "col".
        ntype: Type of each node of square matrices, shape [N], non-decreasing; numbered as in the
            vocabulary.
        vocabulary: Whose order types are given: a `Vocabulary`, its file, a dictionary or a graph.
        like: A graph whose vocabulary that is. Square matrices of as many nodes have its `ntype`.
        unknown: "error", or "drop" for edge types that the vocabulary lacks.

    Raises:
        GraphError: It is not sparse, shapes differ, a name is unknown, or the vocabulary has
            several types and the matrices tell none.
    """
    known = vocabulary_of(vocabulary, like)
    import scipy.sparse  # seldom needed

    given: Any = matrix
    if scipy.sparse.issparse(given):
        matrix = given.tocoo()  # SciPy's dok is a dictionary, too
    is_named = isinstance(matrix, Mapping)
    if not is_named:
        _check_one_relation(known)
    matrices = dict(matrix) if isinstance(matrix, Mapping) else {"0": matrix}
    if not matrices:
        raise GraphError("from_scipy got an empty dictionary: give at least one matrix")
    for name, item in matrices.items():
        if not scipy.sparse.issparse(item):
            raise GraphError(
                f"from_scipy got a {type(item).__name__} for {name!r}: give a sparse matrix, "
                "e.g. scipy.sparse.coo_array(dense)"
            )
    shapes = {item.shape for item in matrices.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) != 2:
        raise GraphError(f"from_scipy got shapes {sorted(shapes)}: give matrices of one 2-D shape")
    rows, columns = next(iter(shapes))
    parts = [item.tocoo() for item in matrices.values()]
    square = rows == columns
    if not square and ntype is not None:
        raise GraphError(f"the matrices have the shape {rows} x {columns}: leave ntype out")
    if square and ntype is None:
        ntype = _node_types(known, like, rows)
    shift = 0 if square else rows
    graph = HeteroGraph(
        np.concatenate([part.row.astype(np.int64) for part in parts]),
        np.concatenate([part.col.astype(np.int64) + shift for part in parts]),
        np.repeat(np.arange(len(parts)), [part.nnz for part in parts]),
        ntype if square else np.repeat([0, 1], [rows, columns]),
        num_nodes=rows if square else rows + columns,
        etype_names=matrices,
        ntype_names=None if square else ("row", "col"),
        canonical_etypes=None if square else [("row", name, "col") for name in matrices],
    )
    if known is None:
        return graph
    graph = named_by_number(
        graph,
        known,
        relations=None if is_named else False,
        node_types=ntype is not None if square else None,
    )
    return renumbered(graph, known, unknown=unknown)


def _check_one_relation(known: Vocabulary | None) -> None:
    """Check that a matrix without a name can only be of one edge type."""
    if known is not None and known.relations is not None and len(known.relations) > 1:
        raise GraphError(
            "from_scipy got one matrix, which tells no edge types, and the vocabulary has "
            f"{shown(known.relations)}: give a matrix for each, "
            "{name: to_scipy(graph, name) for name in graph.etype_names}"
        )


def _node_types(known: Vocabulary | None, like: object, count: int) -> IdArray | None:
    """Those of a graph that the matrices are like; None where there is one type, or none named."""
    if known is None or known.node_types is None or len(known.node_types) < 2:
        return None
    if isinstance(like, HeteroGraph) and like.num_nodes == count:
        return like.ntype
    raise GraphError(
        f"the matrices tell no node types, and the vocabulary has {shown(known.node_types)}: give "
        f"ntype, the type of each of the {count} nodes as a number"
    )


def to_scipy(graph: HeteroGraph, etype: int | str | None = None) -> Any:
    """A `coo_array` [N, N] of float32 ones, entry (i, j) for each edge i -> j; repeats stay.

    It tells no types, and no edge data. There and back, with `like=graph`, go the matrices by edge
    type, `{name: to_scipy(graph, name) for name in graph.etype_names}`.

    Args:
        graph: Any graph.
        etype: Only the edges of this type, by number or name; all by default.

    Raises:
        GraphError: There is no such edge type.
    """
    import scipy.sparse  # seldom needed

    src, dst = (ids.cpu().numpy() for ids in (graph.src, graph.dst))
    if etype is not None:
        if isinstance(etype, str):
            if etype not in graph.etype_names:
                raise GraphError(f"no edge type {etype!r}: one of {list(graph.etype_names)}")
            etype = graph.etype_names.index(etype)
        if not 0 <= etype < graph.num_etypes:
            raise GraphError(f"no edge type {etype}: the graph has {graph.num_etypes}")
        chosen = (graph.etype == etype).cpu().numpy()
        src, dst = src[chosen], dst[chosen]
    ones = np.ones(len(src), dtype=np.float32)
    return scipy.sparse.coo_array((ones, (src, dst)), shape=(graph.num_nodes, graph.num_nodes))
